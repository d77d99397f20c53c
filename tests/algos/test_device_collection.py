"""Rollouts of PPO in tensors, on the CPU here, against those of Stable-Baselines3 in numpy."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.callbacks import BaseCallback

from mygym.algos.device_update import DeviceUpdate
from mygym.algos.stable_baselines import PPO
from mygym.registry import register_algorithm
from mygym.runs import env_factory
from mygym.runs.env_factory import make_vec_env
from mygym.runs.model_factory import build_model
from mygym.runs.planning.plan import make_plan
from mygym.runs.vec_envs.episode_monitor import EpisodeMonitor
from mygym.runs.weights import weights

TASKS: dict[str, dict[str, Any]] = {
    "reach": {"task": "reach", "task_params": {"horizon": 12}},
    "pick_and_place": {"task": "pick_and_place", "task_params": {"horizon": 12, "starts": {"in_hand": 0.3}}},
    "flat": {"algo": "flat_ppo", "task": "reach", "task_params": {"horizon": 12}},
    "not normalised": {"task": "reach", "normalize": False, "task_params": {"horizon": 12}},
}


FLAT = {"n_steps": 16, "batch_size": 64, "n_epochs": 1}
"""Hyperparameters of a `ppo` of flat observations."""


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
    patch.setattr(env_factory, "_engine_device", lambda _: device)
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
        assert (model._device_collection is None) == (device == "cpu")
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


@pytest.mark.parametrize("params", [{}, {"clip_range_vf": 0.1, "ent_coef": 0.01, "normalize_advantage": False}])
def test_an_update_is_that_of_sb3(params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies of an algorithm, the same rollout, the same minibatches."""
    config = {**TASKS["reach"], "algo_params": {"batch_size": 96, "n_epochs": 3, **params}}
    device_model, plain_model = (collected(config, "cpu", monkeypatch, updates=False)[0] for _ in range(2))
    for tensor, other in zip(weights(device_model).values(), weights(plain_model).values(), strict=True):
        torch.testing.assert_close(tensor, other, rtol=0.0, atol=0.0)
    logs = []
    for model, train in (
        (device_model, DeviceUpdate(device_model).train),
        (plain_model, lambda: sb3.PPO.train(plain_model)),
    ):
        np.random.seed(0)  # noqa: NPY002  (the generator of SB3's buffers)
        train()
        logs.append(dict(model.logger.name_to_value))
    assert logs[0].keys() == logs[1].keys()
    assert logs[0] == pytest.approx(logs[1], rel=1e-4, abs=1e-6)
    for name, tensor in weights(device_model).items():
        torch.testing.assert_close(tensor, weights(plain_model)[name], rtol=1e-4, atol=1e-6, msg=name)


def test_all_episodes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _, steps = collected(TASKS["reach"], "cpu:0", monkeypatch)
    monitor = model.env
    while not isinstance(monitor, EpisodeMonitor):
        monitor = monitor.venv
    ends = sum(int(step["dones"].sum()) for step in steps.steps)
    assert monitor.episode_count == ends > 0


def test_a_callback_ends_the_training_within_a_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows, steps = collected(TASKS["reach"], "cpu:0", monkeypatch, stop_at=5)
    assert len(steps.steps) == 5
    assert model.num_timesteps == 5 * 24
    assert not rows
