"""Env steps per second of the fused engine and of one PyBullet environment, in turns, and their ratio.

    python benchmarks/fused.py
    python benchmarks/fused.py --trainers
    python benchmarks/fused.py --gpu
    python benchmarks/fused.py --gpu --trainers
    python benchmarks/fused.py --gpu --trainers --algo sac

Random actions, each task with the reward that `ppo` prefers, one process and one thread; observations, rewards, resets
and infos included. Each figure is the median of five measurements, which alternate so that a busy machine slows both.

With `--trainers`, env steps per second of Stable-Baselines3's PPO and of `ppo` in PyTorch and in JAX, with the defaults
of the engine: rollouts and updates, without evaluations, and without the first two rollouts, in which JAX compiles.
Each trainer has a separate process; they train in turns.

`--gpu` adds the engine on a GPU with several numbers of environments; with `--trainers`, it measures `ppo` on a GPU in
place of the other trainers. With `--algo`, it measures an algorithm with a replay buffer: eight
gradient steps on minibatches of 4,096 transitions after each step of all environments.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import stable_baselines3
from stable_baselines3.common.callbacks import BaseCallback

from mygym.envs.batch_env import BatchEnv
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.envs.batch_vector_env import BatchVectorEnv
from mygym.envs.robot_env import RobotEnv
from mygym.planning.plan import make_plan
from mygym.training.env_factory import make_vec_env
from mygym.training.learners import SynchronizeCallback, other_learners
from mygym.training.model_factory import build_model

TIMES = 5
SECONDS = 1.0
"""Duration of a measurement, s."""

TASKS = {"reach": "dense", "push": "shaped", "pick_and_place": "shaped"}
"""Task → reward."""

ENVS = 4096
"""Default number of environments with which the engine is measured."""

SB3 = {"of_sb3": True}
"""Stable-Baselines3's `PPO` in place of that of mygym, with the same values."""

TRAINERS: dict[str, dict[str, Any]] = {
    "Stable-Baselines3": SB3,
    "`ppo`, pytorch": {},
    "`ppo`, pytorch, two threads": {"threads": 2},
    "`ppo`, pytorch, two learners": {"learners": 2},
    "`ppo`, jax": {"framework": "jax"},
    "`ppo`, jax, two threads": {"framework": "jax", "threads": 2},
    "`ppo`, jax, two learners, each with two threads": {"framework": "jax", "learners": 2, "threads": 2},
}
"""Trainer → keys of its config, see `SB3`."""

GPU_ENVS = (4096, 16384, 65536, 262144)
"""Numbers of environments with which the engine is measured on a GPU."""

GPU_TRAINERS: dict[str, dict[str, Any]] = {
    "Stable-Baselines3": SB3,
    "Stable-Baselines3, GPU": {**SB3, "device": "cuda"},
    **{
        f"`ppo`, pytorch, GPU, {envs:,} environments, minibatches of {rows:,}": {
            "device": "cuda",
            "n_envs": envs,
            "algo_params": {"batch_size": rows},
        }
        for envs, rows in ((2048, 2048), (2048, 8192), (16384, 65536))
    },
}
"""Like `TRAINERS`, on a GPU: large minibatches, which take as long as small minibatches."""

REPLAY_ALGORITHMS = ("sac", "td3", "dqn")
"""Algorithms with a replay buffer that are measured."""


def replay_trainers(algo: str) -> dict[str, dict[str, Any]]:
    """Return trainers of an algorithm with a replay buffer, like `GPU_TRAINERS`."""
    params = {"batch_size": 4096, "gradient_steps": 8, "train_freq": 1, "learning_starts": 1}
    config: dict[str, Any] = {"algo": algo, "her": False, "algo_params": params}
    if algo == "dqn":
        config["actions"] = {"discrete": 3, "combined": True}
    return {
        "Stable-Baselines3": {**config, **SB3},
        "Stable-Baselines3, GPU": {**config, **SB3, "device": "cuda"},
        f"`{algo}`, pytorch, GPU": {**config, "device": "cuda"},
        f"`{algo}`, pytorch, GPU, 16,384 environments": {**config, "device": "cuda", "n_envs": 16384},
    }


TRAINED_ENVS = 2048
"""Default number of environments with which the trainers are measured."""

ROLLOUTS = 10
"""Rollouts of a measurement of a trainer; in some of them the episodes of all environments end at the time limit."""


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, help="environments of the engine: 4096 by default, of trainers 2048")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="duration of a measurement of an engine")
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS, help="rollouts of a measurement of a trainer")
    parser.add_argument("--trainers", action="store_true", help="measure trainers in place of engines")
    parser.add_argument(
        "--gpu", action="store_true", help="measure the engine on a GPU as well; trainers on a GPU instead"
    )
    parser.add_argument("--algo", choices=REPLAY_ALGORITHMS, help="algorithm with a replay buffer to measure on a GPU")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="tasks to measure")
    options = parser.parse_args()
    if options.algo and not (options.trainers and options.gpu):
        parser.error("--algo: needs --gpu and --trainers")
    if options.trainers:
        print("| task | trainer | env steps/s | ratio |\n|---|---|---|---|")
        for task in options.tasks:
            trainers = GPU_TRAINERS if options.gpu else TRAINERS
            if options.algo:
                trainers = replay_trainers(options.algo)
            print_ratios(task, measure_trainers(task, options.envs or TRAINED_ENVS, options.rollouts, trainers))
        return
    print("| task | engine | env steps/s | ratio |\n|---|---|---|---|")
    for task in options.tasks:
        arguments = {"task": task, "reward": TASKS[task]}
        gpu = GPU_ENVS if options.gpu else ()
        print_ratios(task, measure(arguments, options.envs or ENVS, options.seconds, gpu), digits=0)


def print_ratios(task: str, medians: dict[str, float], digits: int = 2) -> None:
    """Print the rows of a task: speeds, and their ratios to the first."""
    base = next(iter(medians.values()))
    for name, speed in medians.items():
        print(f"| `{task}` | {name} | {speed:,.0f} | {speed / base:,.{digits}f} |", flush=True)


def measure_trainers(
    task: str, envs: int, rollouts: int, trainers: Mapping[str, Mapping[str, Any]]
) -> dict[str, float]:
    """Return the median env steps per second of each trainer, that of Stable-Baselines3 first."""
    context = multiprocessing.get_context("spawn")
    speeds: dict[str, list[float]] = {name: [] for name in trainers}
    pipes, processes = {}, []
    for name, choice in trainers.items():
        pipes[name], other = context.Pipe()
        config = {
            "task": task,
            "engine": "fused",
            "n_envs": envs,
            "steps": 10**9,
            "algo": "ppo",
            "reward": TASKS[task],
            **choice,
        }
        processes.append(context.Process(target=train_on_request, args=(config, rollouts, other)))
        processes[-1].start()
        other.close()  # so that a dead process ends its pipe
    for pipe in pipes.values():
        pipe.recv()
    for _ in range(TIMES):
        for name, pipe in pipes.items():
            pipe.send(True)
            speeds[name].append(pipe.recv())
    for pipe, process in zip(pipes.values(), processes, strict=True):
        pipe.send(False)
        process.join()
    return {name: float(np.median(values)) for name, values in speeds.items()}


def train_on_request(config: dict[str, Any], rollouts: int, pipe: Connection) -> None:
    """Send the env steps per second of a training for each True that comes; end at False.

    Args:
        config: The config of the training.
        rollouts: Number of rollouts for each answer.
        pipe: Requests and answers; the first answer is None, when the model is built.
    """
    of_sb3 = config.pop("of_sb3", False)
    plan, clock = make_plan(config), RolloutClock()
    cls, args, kwargs = plan.algorithm.combo()
    if of_sb3:
        cls = stable_baselines3.PPO if plan.config.algo == "ppo" else in_numpy(cls)
    combo = (cls, args, kwargs)
    with ExitStack() as stack:
        learners = stack.enter_context(other_learners(plan))
        callbacks: list[BaseCallback] = SynchronizeCallback(learners).around([clock]) if learners else [clock]
        model = build_model(plan, make_vec_env(plan, stack), combo)
        length = model.train_freq.frequency if hasattr(model, "train_freq") else model.n_steps
        pipe.send(None)
        while pipe.recv():
            model.learn(length * plan.config.n_envs * rollouts, callback=callbacks)
            pipe.send(length * plan.config.n_envs / float(np.mean(np.diff(clock.times)[2:])))


def in_numpy(cls: type) -> type:
    """Return an algorithm with a replay buffer whose buffer, steps and gradient steps are those of SB3."""
    return type(cls.__name__, (cls,), {"_engine_is_on_device": lambda _: False})


class RolloutClock(BaseCallback):
    """Times at which rollouts of a training begin."""

    def _on_training_start(self) -> None:
        self.times: list[float] = []

    def _on_rollout_start(self) -> None:
        self.times.append(time.perf_counter())

    def _on_step(self) -> bool:
        return True


def measure(arguments: dict[str, Any], count: int, seconds: float, gpu: Sequence[int] = ()) -> dict[str, float]:
    """Return the median env steps per second of each engine, the PyBullet environment first.

    Args:
        arguments: Arguments of the environments.
        count: Number of environments of the fused engine.
        seconds: Least duration of a measurement.
        gpu: Numbers of environments on a GPU.
    """
    vec_env, arrays = BatchVecEnv(arguments, count), BatchEnv(arguments, count)
    vec_env.seed(0)
    vec_env.reset()
    arrays.reset(range(count))
    tensors = BatchVectorEnv(count, "torch", **arguments)
    tensors.reset(seed=0)
    with closing(RobotEnv(**arguments)) as env:
        env.reset(seed=0)
        (width,) = env.action_space.sample().shape
        actions = np.random.default_rng(0).uniform(-1, 1, (count, width)).astype(np.float32)

        def step_bullet() -> None:
            _, _, terminated, truncated, _ = env.step(actions[0])
            if terminated or truncated:
                env.reset()

        kinds: dict[str, tuple[Callable[[], object], int]] = {
            "one PyBullet environment": (step_bullet, 1),
            f"fused, arrays of numpy, {count} environments": (lambda: arrays.step(actions), count),
            f"fused, SB3 vector environment, {count} environments": (lambda: vec_env.step(actions), count),
            f"fused, Gymnasium, tensors of torch, {count} environments": (lambda: tensors.step(actions), count),
        }
        for number in gpu:
            kinds[f"fused, arrays on a GPU, {number} environments"] = gpu_steps(arguments, number), number
        return median_speeds(kinds, seconds)


def gpu_steps(arguments: dict[str, Any], count: int) -> Callable[[], object]:
    """Return a function that advances environments on a GPU by random actions, which are on it as well."""
    import torch

    envs = BatchEnv(arguments, count, "torch", "cuda")
    envs.reset(range(count))
    (width,) = envs.action_space.sample().shape
    actions = 2.0 * torch.rand(count, width, device="cuda") - 1.0
    return lambda: envs.step(actions)


def median_speeds(kinds: Mapping[str, tuple[Callable[[], object], int]], seconds: float) -> dict[str, float]:
    """Return the median env steps per second of functions, measured in turns.

    Args:
        kinds: Name → function, and its number of env steps.
        seconds: Least duration of a measurement.
    """
    speeds: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(TIMES):
        for name, (step, number) in kinds.items():
            speeds[name].append(number * steps_per_second(step, seconds))
    return {name: float(np.median(values)) for name, values in speeds.items()}


def steps_per_second(step: Callable[[], object], seconds: float) -> float:
    """Return the calls per second of a function."""
    step()
    calls, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        step()
        calls += 1
    return calls / elapsed


if __name__ == "__main__":
    main()
