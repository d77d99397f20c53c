"""Rollouts of PPO in tensors, on the CPU here, against those of Stable-Baselines3 in numpy."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from safetensors.torch import load_file
from stable_baselines3.common.buffers import DictRolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import unwrap_vec_wrapper
from stable_baselines3.sac.policies import MultiInputPolicy

import mygym
from mygym.algos import stable_baselines
from mygym.algos.device.on_policy import DictDeviceRollouts, PPOUpdate
from mygym.algos.stable_baselines import PPO, SAC
from mygym.engines.arrays import to_numpy
from mygym.envs import starts
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.planning.plan import make_plan
from mygym.registry import register_algorithm
from mygym.training import env_factory
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import build_model
from mygym.training.policy import weights
from mygym.training.vec_wrappers import EpisodeMonitor
from tests.engines.fused import needs_gpu

TASKS: dict[str, dict[str, Any]] = {
    "reach": {"task": "reach", "task_params": {"horizon": 12}},
    "pick_and_place": {"task": "pick_and_place", "task_params": {"horizon": 12, "starts": {"in_hand": 0.3}}},
    "flat": {"algo": "flat_ppo", "task": "reach", "task_params": {"horizon": 12}},
    "not normalised": {"task": "reach", "normalize": False, "task_params": {"horizon": 12}},
}

FLAT = {"n_steps": 16, "batch_size": 64, "n_epochs": 1}
"""Hyperparameters of a `ppo` of flat observations."""

A2C: dict[str, dict[str, Any]] = {"ppo": {}, "a2c": {"algo_params": {"n_steps": 16}}}
"""Values of the algorithms whose rollouts contain truncated episodes."""

RUN: dict[str, Any] = {
    "engine": "fused",
    "task": "reach",
    "task_params": {"horizon": 12},
    "n_envs": 16,
    "steps": 512,
    "eval": {"every": 512, "episodes": 1, "final_episodes": 1},
    "video": {"episodes": 0},
    "stop_at_success": None,
    "algo_params": {"n_steps": 16, "batch_size": 128},
}


class Steps(BaseCallback):
    """Keeps rewards, ends and infos of all steps."""

    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__()
        self.steps: list[dict[str, Any]] = []
        self.stop_at = stop_at

    def _on_step(self) -> bool:
        infos = [
            {key: value for key, value in info.items() if key not in ("terminal_observation", "TimeLimit.truncated")}
            for info in self.locals["infos"]
        ]
        for info in infos:
            if "episode" in info:
                info["episode"] = {key: value for key, value in info["episode"].items() if key != "t"}
        self.steps.append(
            {
                "steps": self.num_timesteps,
                "rewards": np.asarray(self.locals["rewards"]).copy(),
                "dones": np.asarray(self.locals["dones"]).copy(),
                "infos": infos,
            }
        )
        return len(self.steps) != self.stop_at


def collected(
    config: dict[str, Any], device: str, patch: pytest.MonkeyPatch, stop_at: int | None = None, updates: bool = True
) -> Any:
    """Return an algorithm after two rollouts, the minibatches of all their rows, and the callback."""
    patch.setattr(env_factory, "engine_device", lambda _: device)
    patch.setattr(starts, "ROWS", 4096)  # as many as runs have; near limits, rounding differs by more
    plan = make_plan({"engine": "fused", "algo": "ppo", "n_envs": 24, "steps": 10**6, "seed": 3, **config})
    with ExitStack() as stack:
        env = make_vec_env(plan, stack)
        model = build_model(plan, env)
        rows, steps = [], Steps(stop_at)
        train = model.train

        def kept() -> None:
            buffer = model.rollout_buffer
            next(buffer.get(1))  # flattens the arrays
            rows.append(buffer._get_samples(np.arange(buffer.buffer_size * buffer.n_envs)))
            if updates:
                train()

        model.train = kept
        model.learn(2 * model.n_steps * 24, callback=steps)
        assert (getattr(model, "_device_collection", None) is None) == (device == "cpu")
        return model, rows, steps


def statistics(model: Any) -> list[Any]:
    """Return the running statistics of a model's observations."""
    running = model.env.obs_rms
    return list(running.values()) if isinstance(running, dict) else [running]


@pytest.mark.parametrize("name", TASKS)
def test_a_rollout_is_that_of_sb3(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    register_algorithm("flat_ppo", policy="MlpPolicy", dict_observations=False, defaults=FLAT)(PPO)
    (expected, wanted, expected_steps), (model, rows, taken_steps) = (
        collected(TASKS[name], device, monkeypatch) for device in ("cpu", "cpu:0")
    )
    assert model.num_timesteps == expected.num_timesteps
    for step, other in zip(taken_steps.steps[: model.n_steps], expected_steps.steps, strict=False):
        np.testing.assert_allclose(step["rewards"], other["rewards"], atol=1e-4)
        np.testing.assert_array_equal(step["dones"], other["dones"])
        assert step["steps"] == other["steps"]
        for info, other_info in zip(step["infos"], other["infos"], strict=True):
            assert info.keys() == other_info.keys()
            assert info["stage"] == other_info["stage"]
            if "episode" in info:
                assert info["episode"] == pytest.approx(other_info["episode"], abs=1e-3)
    assert any(step["dones"].any() for step in taken_steps.steps[: model.n_steps])
    for field, values in rows[0]._asdict().items():
        reference = getattr(wanted[0], field)
        for key in values if isinstance(values, dict) else [None]:
            got, want = (each[key] if key else each for each in (values, reference))
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-3, atol=5e-3, err_msg=f"{field} {key}")
    if name != "not normalised":
        for each, other_each in zip(statistics(model), statistics(expected), strict=True):
            np.testing.assert_allclose(each.mean, other_each.mean, atol=1e-2)
            np.testing.assert_allclose(np.sqrt(each.var), np.sqrt(other_each.var), rtol=0.05, atol=1e-3)
            assert each.count == other_each.count == (1 + 2 * model.n_steps) * 24
    assert len(model.ep_info_buffer) == len(expected.ep_info_buffer) > 0


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("params", [{}, {"clip_range_vf": 0.1, "ent_coef": 0.01, "normalize_advantage": False}])
def test_an_update_is_that_of_sb3(params: dict[str, Any], device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies of an algorithm, the same rollout, the same minibatches; on a GPU, the first has a graph."""
    config = {**TASKS["reach"], "device": device, "algo_params": {"batch_size": 96, "n_epochs": 3, **params}}
    device_model, plain_model = (collected(config, "cpu", monkeypatch, updates=False)[0] for _ in range(2))
    for tensor, other in zip(weights(device_model).values(), weights(plain_model).values(), strict=True):
        torch.testing.assert_close(tensor, other, rtol=0.0, atol=0.0)
    logs = []
    for model, train in (
        (device_model, PPOUpdate(device_model).train),
        (plain_model, lambda: sb3.PPO.train(plain_model)),
    ):
        np.random.seed(0)  # noqa: NPY002  (the generator of SB3's buffers)
        for _ in range(2):
            train()
            model.policy.optimizer.zero_grad()  # as a callback with a loss may do
        logs.append(dict(model.logger.name_to_value))
    assert logs[0].keys() == logs[1].keys()
    assert logs[0] == pytest.approx(logs[1], rel=1e-4, abs=1e-6)
    for name, tensor in weights(device_model).items():
        torch.testing.assert_close(tensor, weights(plain_model)[name], rtol=1e-4, atol=1e-6, msg=name)


def test_all_episodes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _, steps = collected(TASKS["reach"], "cpu:0", monkeypatch)
    monitor = unwrap_vec_wrapper(model.env, EpisodeMonitor)
    assert monitor is not None
    ends = sum(int(step["dones"].sum()) for step in steps.steps)
    assert monitor.episode_count == ends > 0


def test_a_callback_ends_the_training_within_a_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows, steps = collected(TASKS["reach"], "cpu:0", monkeypatch, stop_at=5)
    assert len(steps.steps) == 5
    assert model.num_timesteps == 5 * 24
    assert not rows
    monitor, fused = unwrap_vec_wrapper(model.env, EpisodeMonitor), model.env.unwrapped.batch
    assert monitor is not None
    np.testing.assert_array_equal(monitor.episode_lengths, to_numpy(fused.episodes.elapsed))


class Extended(PPO):
    """An algorithm that does something with its rollouts."""

    def collect_rollouts(self, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        continues = super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)
        rollout_buffer.rewards += 1.0
        return continues


@pytest.mark.parametrize(
    "config",
    [
        {"algo_params": {"use_sde": True}},
        {"strategy": "lora", "strategy_params": {"rank": 2}, "algo_params": {"policy_kwargs": {"net_arch": [8]}}},
        {"algo": "extended"},
        {"n_envs": 4, "algo_params": {"batch_size": 64}},
    ],
    ids=["gSDE", "a strategy", "a subclass", "few environments"],
)
def test_other_runs_take_the_steps_in_numpy(config: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    register_algorithm("extended", defaults=FLAT)(Extended)
    monkeypatch.setattr(env_factory, "engine_device", lambda _: "cpu:0")
    models: list[Any] = []

    class Keep(BaseCallback):
        def _on_step(self) -> bool:
            models.append(self.model)
            return True

    mygym.train({**RUN, **config, "logdir": str(tmp_path)}, callbacks=Keep())
    assert models
    assert models[-1]._device_collection is None


def test_a_run_in_tensors_resumes_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env_factory, "engine_device", lambda _: "cpu:0")
    config = {**RUN, "algo": "ppo", "seed": 4}
    steps = Steps()
    whole = mygym.train({**config, "steps": 1024, "logdir": str(tmp_path / "whole")}, callbacks=steps)
    assert steps.model._device_collection is not None
    part = mygym.train({**config, "logdir": str(tmp_path / "part")})
    resumed = mygym.train({"steps": 1024}, resume=part.path)
    first, second = (load_file(run.path / "policy.safetensors") for run in (whole, resumed))
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, rtol=0.0, atol=0.0)
    rows = [(run.path / "monitor.csv").read_text().count("\n") for run in (whole, resumed)]
    assert rows[0] == rows[1] > 20


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_values_of_truncated_episodes_are_those_of_sb3(algo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SB3 computes them in turn."""
    returns = []
    for engine in (BatchVecEnv, type(None)):
        monkeypatch.setattr(stable_baselines, "BatchVecEnv", engine)
        model, _, steps = collected({**TASKS["reach"], "algo": algo, **A2C[algo]}, "cpu", monkeypatch, updates=False)
        assert any(step["dones"].any() for step in steps.steps)
        returns.append(model.rollout_buffer.returns)
    np.testing.assert_allclose(returns[0], returns[1], atol=1e-4)


def test_samples_equal_those_of_sb3_to_the_bit() -> None:
    space = spaces.Dict({"observation": spaces.Box(-1, 1, (3,)), "goal": spaces.Box(-1, 1, (2,))})
    action_space, generator = spaces.Box(-1, 1, (2,)), np.random.default_rng(0)
    buffers = [kind(5, space, action_space, n_envs=4) for kind in (DictDeviceRollouts, DictRolloutBuffer)]
    for _ in range(5):
        observations = {key: generator.normal(size=(4, *each.shape)) for key, each in space.items()}
        actions, rewards = generator.normal(size=(4, 2)), generator.normal(size=4)
        values, log_probs = (torch.as_tensor(generator.normal(size=4)) for _ in range(2))
        for buffer in buffers:
            buffer.add(observations, actions, rewards, np.zeros(4), values, log_probs)
    for buffer in buffers:
        buffer.compute_returns_and_advantage(torch.zeros(4), np.zeros(4, dtype=bool))
    for change in (0.0, 1.0):  # an epoch sees changes since the last
        batches = []
        for buffer in buffers:
            buffer.advantages += change
            np.random.seed(1)  # noqa: NPY002  (the generator of SB3's buffers)
            batches.append(list(buffer.get(6)))
        for batch, expected in zip(*batches, strict=True):
            assert type(batch) is type(expected)
            for field, values in batch._asdict().items():
                wanted = getattr(expected, field)
                for key in values if isinstance(values, dict) else [None]:
                    got, want = (each[key] if key else each for each in (values, wanted))
                    torch.testing.assert_close(got, want, rtol=0.0, atol=0.0)


class Overriding(SAC):
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        return super().predict(*args, **kwargs)


@pytest.mark.parametrize(
    ("cls", "parent", "words"),
    [
        (Overriding, SAC, "Overriding.predict is overridden"),
        (type("OfLibrary", (sb3.PPO,), {}), PPO, "OfLibrary is not a subclass of mygym.algos.stable_baselines.PPO"),
        (type("Training", (PPO,), {"train": lambda self: None}), PPO, ""),
        (SAC, SAC, ""),
    ],
)
def test_the_reason_for_steps_in_numpy_is_named(cls: type, parent: type, words: str) -> None:
    assert stable_baselines.reason_for_numpy(cls, None, parent) == words


def test_a_policy_that_acts_by_itself_is_named() -> None:
    class Acting(MultiInputPolicy):
        def predict(self, *args: Any, **kwargs: Any) -> Any:
            return super().predict(*args, **kwargs)

    assert stable_baselines.reason_for_numpy(SAC, Acting, SAC) == "Acting.predict is overridden"
    assert stable_baselines.reason_for_numpy(PPO, Acting, PPO) == ""
