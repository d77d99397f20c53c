"""Hash the numbers of environments and trainings, to show that a change of the code's structure changed no number.

    python benchmarks/fingerprints.py > before.txt      # in a checkout of the old code
    python benchmarks/fingerprints.py > after.txt       # in a checkout of the new code, with the same packages
    diff before.txt after.txt

An environment is hashed over two seeds with 25 random actions each and over an episode of the scripted expert:
observations, rewards, ends and infos. A training is hashed over the weights that it saves and the success and return
of its evaluation, once uninterrupted and once stopped and resumed. The program uses the public API alone, so that it
runs on both sides of a change. Lines begin with the name of the case; `--only TEXT` selects cases. Machines differ:
compare on one.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from safetensors.numpy import load_file
from stable_baselines3.common.callbacks import BaseCallback

import mygym
from mygym.errors import InterruptedRunError
from mygym.experts import make_expert

SEEDS = (0, 1)
ACTIONS = 25
EXPERT_STEPS = 300
"""Steps after which an expert's episode is cut off; the longest tasks have horizons above it."""

TASKS = (
    *("build_tower", "hit_board", "insert", "lift", "maze", "nudge", "open_door", "open_drawer", "pick_and_place"),
    *("place_on_step", "poke", "press", "push", "reach", "score_goal", "set_table", "slide", "stack", "switch"),
    *("throw", "turn", "vertical_maze"),
)

ENVIRONMENTS: Mapping[str, Mapping[str, Any]] = {
    **{task: {"task": task} for task in TASKS},
    "hand_over by panda_pair": {"task": "hand_over", "robot": "panda_pair"},
    "push by xarm6, joint positions, dense": {
        "task": "push",
        "robot": "xarm6",
        "control": {"name": "joint_position"},
        "reward": "dense",
    },
    "press by kuka, joint velocities, shaped": {
        "task": "press",
        "robot": "kuka",
        "control": {"name": "joint_velocity"},
        "reward": "shaped",
    },
    "pick_and_place by desk_arm, joint torques, randomized": {
        "task": "pick_and_place",
        "robot": "desk_arm",
        "control": {"name": "joint_torque"},
        "randomize": {"object_mass": [0.5, 2.0], "observation_noise": [0.0, 0.002], "action_delay": [0, 2]},
    },
    "stack by kuka_gripper, shared spaces": {"task": "stack", "robot": "kuka_gripper", "spaces": "shared"},
    "letters by xarm6_gripper, ee_absolute": {
        "task": "AGMDW",
        "robot": "xarm6_gripper",
        "control": {"name": "ee_absolute"},
        "reward": "shaped",
    },
    "push, images and depth, colours randomized": {
        "task": "push",
        "observations": ["ee_position", "image", "depth"],
        "image_params": {"width": 48, "height": 36},
        "randomize": {"colors": [1.0, 1.0], "camera": [0.05, 0.05]},
    },
}
"""Case → the keys of its config."""

SMALL_POLICY = {"policy_kwargs": {"net_arch": [16]}}
SMALL_PPO = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, **SMALL_POLICY}

TRAININGS: Mapping[str, Mapping[str, Any]] = {
    "ppo": {"algo": "ppo", "steps": 384, "n_envs": 2, "normalize": True, "algo_params": SMALL_PPO},
    "sac with hindsight": {
        "algo": "sac",
        "task": "push",
        "steps": 900,
        "algo_params": {"batch_size": 32, "learning_starts": 420, **SMALL_POLICY},
    },
    "dagger": {"algo": "dagger", "steps": 300, "algo_params": SMALL_POLICY},
    "ppo_runner": {"algo": "ppo_runner", "steps": 384, "n_envs": 2, "algo_params": SMALL_PPO},
    "cem": {"algo": "cem", "steps": 300},
    "mixture": {
        "algo": "ppo",
        "task": "pick_and_place",
        "strategy": "mixture",
        "steps": 384,
        "n_envs": 2,
        "algo_params": SMALL_PPO,
    },
    "curriculum": {"algo": "ppo", "strategy": "curriculum", "steps": 384, "n_envs": 2, "algo_params": SMALL_PPO},
    "fused ppo": {
        "algo": "ppo",
        "task": "push",
        "reward": "shaped",
        "engine": "fused",
        "steps": 4096,
        "n_envs": 64,
        "algo_params": {"n_steps": 16, "batch_size": 256, "n_epochs": 2, **SMALL_POLICY},
    },
    "fused sac": {
        "algo": "sac",
        "reward": "shaped",
        "engine": "fused",
        "steps": 1024,
        "n_envs": 16,
        "algo_params": {"batch_size": 32, "learning_starts": 128, **SMALL_POLICY},
    },
}
"""Case → the keys of its config."""


class Stop(BaseCallback):
    """Interrupts a training once, as Ctrl-C would."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.sent = False

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.steps and not self.sent:
            self.sent = True
            signal.raise_signal(signal.SIGINT)
        return True


def add(digest: Any, value: Any) -> None:
    """Add a nested value to a digest: arrays by their bytes, others by the `repr` of their value."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            digest.update(str(key).encode())
            add(digest, value[key])
    elif isinstance(value, (tuple, list)):
        for item in value:
            add(digest, item)
    elif isinstance(value, np.ndarray):
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    else:
        digest.update(repr(value.item() if isinstance(value, np.generic) else value).encode())


def play(env: Any, seed: int, actions: Iterable[Any]) -> Iterator[Any]:
    """Yield the returns of `reset` and `step` until the end of the episode or of the actions (arrays or functions)."""
    observation, info = env.reset(seed=seed)
    yield observation, info
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action(observation) if callable(action) else action)
        yield observation, reward, terminated, truncated, info
        if terminated or truncated:
            return


def hash_environment(config: Mapping[str, Any]) -> str:
    """Return the hash of the environment's episodes."""
    digest = hashlib.sha256()
    env: gymnasium.Env[Any, Any] = mygym.make_env(dict(config))
    with contextlib.closing(env):
        for seed in SEEDS:
            generator = np.random.default_rng(seed)
            actions = generator.uniform(-1, 1, (ACTIONS, *(env.action_space.shape or ()))).astype(np.float32)
            for step in play(env, seed, actions):
                add(digest, step)
        expert = make_expert(env)
        for step in play(env, SEEDS[0], [expert.act] * EXPERT_STEPS):
            add(digest, step)
    return digest.hexdigest()[:16]


def hash_run(result: Any) -> str:
    """Return the hash of the weights of a run's policy and of its evaluation."""
    digest = hashlib.sha256()
    add(digest, load_file(result.path / "policy.safetensors"))
    add(digest, [result.status, result.steps, result.success_rate, result.mean_return, result.stage_reached])
    return digest.hexdigest()[:16]


def hash_training(config: Mapping[str, Any], stop: bool) -> str:
    """Return the hash of a training, which may be stopped halfway and resumed."""
    with tempfile.TemporaryDirectory() as folder:
        full = {
            **config,
            "logdir": folder,
            "eval": {"every": 10_000, "episodes": 2, "test_episodes": 0, "final_episodes": 4},
            "video": {"episodes": 0},
        }
        if not stop:
            return hash_run(mygym.train(full))
        try:
            mygym.train(full, callbacks=Stop(config["steps"] * 2 // 3))
        except InterruptedRunError:
            [run] = [path.parent for path in Path(folder).rglob("result.json")]
            return hash_run(mygym.train(resume=run))
        raise RuntimeError(f"the training was not interrupted: {config}")


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name contains TEXT")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background processes ignore it
    cases: dict[str, Callable[[], str]] = {}
    for name, config in ENVIRONMENTS.items():
        cases[f"environment {name}"] = partial(hash_environment, config)
    for name, config in TRAININGS.items():
        cases[f"training {name}"] = partial(hash_training, config, stop=False)
        cases[f"training {name}, stopped and resumed"] = partial(hash_training, config, stop=True)
    for name, case in cases.items():
        if options.only not in name:
            continue
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            line = case()
        print(f"{name}: {line}", flush=True)
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main()
