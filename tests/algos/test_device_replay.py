"""Algorithms with a replay buffer in tensors, on the CPU here, against those of Stable-Baselines3 in numpy."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import VectorizedActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.sac.policies import MultiInputPolicy as SACPolicy

import mygym
from mygym.algos import ddqn
from mygym.algos.ddqn import DDQN
from mygym.algos.device.off_policy import ReplayCollection
from mygym.algos.device.steps import CapturedGradient, clip_gradients
from mygym.algos.stable_baselines import SAC
from mygym.engines.fused.captured_step import without_validation
from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.errors import ConfigError
from mygym.planning.plan import make_plan
from mygym.registry import algorithm, register_algorithm
from mygym.training import device_replay, env_factory
from mygym.training.device_replay import DeviceHerReplayBuffer, DeviceReplayBuffer, DictDeviceReplayBuffer
from mygym.training.env_factory import make_vec_env
from mygym.training.model_factory import build_model
from mygym.training.policy import weights
from mygym.training.vec_wrappers import FlooredNormalize
from tests.components import COMBOS, slow_except
from tests.engines.fused import WaitingOperations, needs_gpu, pretend_gpu

SPACE = spaces.Dict(
    {
        "observation": spaces.Box(-9, 9, (3,)),
        "achieved_goal": spaces.Box(-1e6, 1e6, (1,)),
        "desired_goal": spaces.Box(-1e6, 1e6, (1,)),
    }
)
ACTIONS = spaces.Box(-1, 1, (2,))

DISCRETE = {"actions": {"discrete": 3, "combined": True}, "algo_params": {"max_grad_norm": 0.01}}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "sac": {"reward": "dense", "her": False},
    "sac, fixed entropy": {"algo": "sac", "reward": "dense", "her": False, "algo_params": {"ent_coef": 0.1}},
    "sac, hindsight": {"algo": "sac", "reward": "sparse", "her": True},
    "tqc": {"her": False},
    "td3": {"her": False},
    "ddpg": {"her": False},
    "dqn": DISCRETE,
    "ddqn": {**DISCRETE, "algo_params": {"epsilon": 0.5, "max_grad_norm": 0.01}},
    "qrdqn": DISCRETE,
    "crossq": {},
}
"""Algorithm with a replay buffer, or a variant of it → config."""

OFF_POLICY = [
    algo
    for algo, framework in COMBOS
    if framework == "pytorch" and issubclass(algorithm(algo, framework).combo()[0], OffPolicyAlgorithm)
]

TASK = {"horizon": 12, "tolerance": 0.2}
"""Of the episodes of random actions, some succeed, and the others end at the time limit."""

SMALL = {"learning_starts": 312, "batch_size": 32, "gradient_steps": 2, "train_freq": 1, "buffer_size": 2400}
STEPS = 720


def config_of(name: str) -> dict[str, Any]:
    config = {"algo": name, "task": "reach", "task_params": TASK, **ALGORITHMS.get(name, {})}
    target = {"target_update_interval": 240} if "actions" in config else {}
    return {**config, "algo_params": {**SMALL, **target, **config.get("algo_params", {})}}


def build(config: dict[str, Any], stack: ExitStack, patch: pytest.MonkeyPatch, device: str = "cpu:0") -> Any:
    """Return an algorithm with 24 environments; those on `cpu` are in numpy, those on `cpu:0` in tensors."""
    patch.setattr(env_factory, "engine_device", lambda _: device)
    if device == "cuda":
        config = {**config, "device": "cuda"}
    plan = make_plan({"engine": "fused", "n_envs": 24, "steps": 10**6, "seed": 3, **config})
    return build_model(plan, make_vec_env(plan, stack))


class Keep(BaseCallback):
    """Keeps rewards, ends and infos of each step."""

    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__()
        self.stop_at = stop_at
        self.locals_of_steps: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        names = ("rewards", "dones", "infos")
        self.locals_of_steps.append({name: self.locals[name] for name in names})
        return self.n_calls != self.stop_at


@pytest.mark.parametrize(
    "name",  # of continuous and of discrete actions, one with gradient steps in tensors, and one with those of SB3
    slow_except([*OFF_POLICY, "sac, hindsight"], ("sac, hindsight", "crossq", "ddqn", "qrdqn").__contains__),
)
def test_an_algorithm_trains_in_tensors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 456  # 19 steps of each environment: six are learned from
    with ExitStack() as stack:
        model = build(config_of(name), stack, monkeypatch)
        before = {key: value.clone() for key, value in weights(model).items()}
        steps = Keep()
        model.learn(taken, callback=steps)
        assert model._device_collection is not None
        assert any(not torch.equal(value, before[key]) for key, value in weights(model).items())
        assert all(bool(torch.isfinite(value).all()) for value in weights(model).values())
        assert model.num_timesteps == taken
        assert len(steps.locals_of_steps) == taken // 24
        assert model._episode_num == sum(int(step["dones"].sum()) for step in steps.locals_of_steps) > 24
        assert model.replay_buffer.pos == taken // 24
        assert model._n_updates == 2 * (taken - 312) // 24
        with ExitStack() as other:
            numpy = build(config_of(name), other, monkeypatch, "cpu")
            assert type(numpy.replay_buffer) is model.replay_buffer_class  # a saved model names it
            assert type(model.replay_buffer) is not model.replay_buffer_class
            numpy.learn(taken)
            assert numpy._device_collection is None
            tested, of_sb3 = (each.logger.name_to_value for each in (model, numpy))
            assert {key for key in tested if key.startswith("train/")} == {
                key for key in of_sb3 if key.startswith("train/")
            }
            assert numpy._n_updates == model._n_updates


class FixedMemory:
    """A step whose variables are in the same memory each time, as those of a CUDA graph."""

    def __init__(self, state: Any, step: Any, *_: torch.Tensor) -> None:
        self.state, self.step = state, step
        self.outputs: list[torch.Tensor] = []

    def __call__(self, *inputs: torch.Tensor) -> Any:
        result = copied(self.step(*inputs))
        variables = [array.clone() for array in self.state.variables()]
        self.outputs = self.outputs or variables
        for output, array in zip(self.outputs, variables, strict=True):
            output.copy_(array)
        self.state.set_variables(self.outputs)
        return result


def copied(values: Any) -> Any:
    return {key: copied(value) for key, value in values.items()} if isinstance(values, dict) else values.clone()


@pytest.mark.parametrize("train_freq", [1, 4])
def test_transitions_are_those_of_the_environments(train_freq: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored actions, in an engine in numpy with the same seed, give the stored transitions."""
    config = {**config_of("td3"), "algo_params": {**SMALL, "train_freq": train_freq}}
    with ExitStack() as stack:
        model = build(config, stack, monkeypatch)
        step: list[FixedMemory] = []

        def prepared(self: Any, *inputs: torch.Tensor) -> FixedMemory:
            step.extend([] if step else [FixedMemory(self, self.advance)])
            return step[0]

        monkeypatch.setattr(ReplayCollection, "_prepared", prepared)
        model.learn(STEPS)
        assert len(step) == 1
        buffer = model.replay_buffer
        arguments = env_factory.training_spec(make_plan({"engine": "fused", **config_of("td3")}).config)
        reference = BatchVecEnv(arguments, 24)
        reference._seeds = model.env.unwrapped.batch.episodes.seeds.tolist()
        observations = reference.reset()
        ended = np.zeros(2)
        for row in range(STEPS // 24):
            for key, values in observations.items():
                np.testing.assert_allclose(buffer.observations[key][row], values, atol=1e-3, err_msg=f"{row} {key}")
            observations, rewards, dones, infos = reference.step(buffer.actions[row].numpy())
            last = {key: value.copy() for key, value in observations.items()}
            for index in np.flatnonzero(dones):
                for key in last:
                    last[key][index] = infos[index]["terminal_observation"][key]
            for key, values in last.items():
                np.testing.assert_allclose(buffer.next_observations[key][row], values, atol=1e-3)
            np.testing.assert_allclose(buffer.rewards[row], rewards, atol=1e-3)
            np.testing.assert_array_equal(buffer.dones[row], dones)
            timeouts = [info.get("TimeLimit.truncated", False) for info in infos]
            np.testing.assert_array_equal(buffer.timeouts[row], timeouts)
            ended += [np.sum(timeouts), np.sum(dones) - np.sum(timeouts)]
        assert (ended > 3).all()


def test_exploration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform actions before `learning_starts`, then those of the policy with noise, or some random actions."""
    with ExitStack() as stack:
        model = build({**config_of("td3"), "algo_params": {**SMALL, "action_noise": 0.2}}, stack, monkeypatch)
        with torch.no_grad():
            model.actor.mu[-2].weight.zero_()
            model.actor.mu[-2].bias.fill_(0.5)
        model.train = lambda **_: None
        model.learn(STEPS)
        actions = model.replay_buffer.actions[: STEPS // 24].numpy()
        assert np.abs(actions[:13]).mean() == pytest.approx(0.5, abs=0.06)  # of 288 uniform numbers
        noise = actions[13:] - np.tanh(0.5)
        assert noise.mean() == pytest.approx(0.0, abs=0.03)
        assert noise.std() == pytest.approx(0.2, abs=0.02)
        discrete = build(config_of("ddqn"), stack, monkeypatch)
        with torch.no_grad():
            for parameter in discrete.q_net.parameters():
                parameter.zero_()
            list(discrete.q_net.parameters())[-1][5] = 1.0  # the bias of an action
        discrete.train = lambda **_: None
        discrete.learn(STEPS)
        chosen = discrete.replay_buffer.actions[13 : STEPS // 24].numpy()
        assert (chosen == 5).mean() == pytest.approx(0.5 + 0.5 / 27, abs=0.08)
        assert (chosen == 5).any(1).all()  # SB3 would draw random actions for all environments or for none
        assert len(np.unique(chosen)) > 20


def test_a_callback_ends_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        model, stop = build(config_of("sac"), stack, monkeypatch), Keep(stop_at=3)
        model.learn(STEPS, callback=stop)
        assert model.num_timesteps == 3 * 24
        assert model.replay_buffer.pos == 2  # as in SB3, the last step is not stored


def fixed_batches(model: Any, count: int) -> list[Any]:
    torch.manual_seed(0)
    return list(model.replay_buffer.batches(32, count, model._vec_normalize_env))


@pytest.mark.parametrize("device", ["cpu:0", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize(
    "name",  # DDPG is TD3 with other values, and hindsight gives SAC other minibatches
    slow_except(
        ["sac", "sac, fixed entropy", "sac, hindsight", "td3", "ddpg", "dqn", "ddqn"],
        lambda name: name not in ("ddpg", "sac, hindsight"),
    ),
)
def test_gradient_steps_are_those_of_sb3(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies of an algorithm, the same minibatches, no random numbers; on a GPU, the first has graphs."""
    config = config_of(name)
    monkeypatch.setattr(
        torch.distributions.Normal, "rsample", lambda self, sample_shape=(): self.loc + 0.3 * self.scale
    )
    with ExitStack() as stack:
        tested, of_sb3 = (build(config, stack, monkeypatch, device) for _ in range(2))
        tested.learn(480)
        of_sb3.learn(480)
        of_sb3.set_parameters(copy.deepcopy(tested.get_parameters()))
        of_sb3._n_updates = tested._n_updates
        batches = fixed_batches(tested, 6)
        if name == "td3":  # SB3 draws with `normal_`
            tested.target_policy_noise = of_sb3.target_policy_noise = 0.0
        rest: Iterator[Any] = iter(batches)
        of_sb3.replay_buffer = SimpleNamespace(sample=lambda *_, **__: next(rest))
        tested.replay_buffer = SimpleNamespace(batches=lambda *_: batches)
        update = tested.device_update(tested)
        base = DDQN if name == "ddqn" else getattr(sb3, config["algo"].upper())
        of_sb3._device_collection = None
        for _ in range(2):
            rest = iter(batches)
            base.train(of_sb3, 6, 32)
            update.train(6, 32)
        for key, tensor in weights(tested).items():
            torch.testing.assert_close(tensor, weights(of_sb3)[key], rtol=1e-3, atol=1e-5, msg=key)
        logs = [
            {key: value for key, value in each.logger.name_to_value.items() if key.startswith("train/")}
            for each in (tested, of_sb3)
        ]
        assert logs[0].keys() == logs[1].keys()
        assert logs[0] == pytest.approx(logs[1], rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("name", ["sac", "sac, hindsight", "td3", "ddqn", "tqc"])
def test_neither_steps_nor_gradients_wait_for_the_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        model = build(config_of(name), stack, monkeypatch)
        model.learn(336)
        collection = model._device_collection
        collection._load()
        inputs = collection._exploration(0)
        pretend_gpu(monkeypatch)
        with torch.no_grad(), without_validation(), WaitingOperations() as operations:
            collection.advance(*inputs)
        assert operations.names == []
        if model.device_update is None:
            return
        update, waiting = model.device_update(model), []

        def checked(compute: Any) -> Any:
            def call(*arguments: Any) -> Any:
                with without_validation(), WaitingOperations() as operations:
                    figures = compute(*arguments)
                waiting.append(operations.names)
                return figures

            return call

        for gradient in vars(update).values():
            if isinstance(gradient, CapturedGradient):
                gradient._compute = checked(gradient._compute)
        model._n_updates = 1  # TD3 moves the actor in each second gradient step
        update.train(1, 32)
        assert waiting == [[]] * (1 if name == "ddqn" else 2)


class Goals:
    """Environments whose reward is 0 if the goals are equal, else -1."""

    def env_method(self, name: str, achieved: Any, desired: Any, _: Any, indices: Any) -> list[Any]:
        assert name == "compute_reward"
        return (
            [-(achieved != desired).any(-1).astype(np.float32)]
            if isinstance(achieved, np.ndarray)
            else [-(achieved != desired).any(-1).float()]
        )


def filled(kind: Any, rows: int, envs: int, ends: Any, **kwargs: Any) -> Iterator[Any]:
    """Yield a buffer after each row; the achieved goals are the numbers of the transitions."""
    buffer = kind(rows * envs, SPACE, ACTIONS, device="cpu", n_envs=envs, **kwargs)
    number = 0
    for row in ends:
        numbers = np.arange(number, number + envs, dtype=np.float32)[:, None]
        observations = {"observation": np.repeat(numbers, 3, 1), "achieved_goal": numbers, "desired_goal": -1 - numbers}
        following = {**observations, "achieved_goal": numbers + 0.5}
        infos = [{"TimeLimit.truncated": bool(end and index % 2)} for index, end in enumerate(row)]
        buffer.add(observations, following, np.repeat(numbers, 2, 1), numbers[:, 0], np.array(row), infos)
        number += envs
        yield buffer


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_episodes_of_hindsight_are_those_of_sb3(data: Any) -> None:
    rows, envs = data.draw(st.integers(2, 7)), data.draw(st.integers(1, 3))
    ends = data.draw(st.lists(st.lists(st.booleans(), min_size=envs, max_size=envs), min_size=1, max_size=20))
    kinds = (filled(kind, rows, envs, ends, env=Goals()) for kind in (DeviceHerReplayBuffer, HerReplayBuffer))
    for tested, of_sb3 in zip(*kinds, strict=True):
        valid = of_sb3.ep_length > 0
        np.testing.assert_array_equal(tested.ep_length, of_sb3.ep_length)
        np.testing.assert_array_equal(tested.ep_start.numpy()[valid], of_sb3.ep_start[valid])
        np.testing.assert_array_equal(tested._current_ep_start, of_sb3._current_ep_start)
        for name in ("actions", "rewards", "dones", "timeouts"):
            np.testing.assert_array_equal(getattr(tested, name), getattr(of_sb3, name))
        assert (tested.pos, tested.full) == (of_sb3.pos, of_sb3.full)


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_goals_of_hindsight(strategy: str) -> None:
    """They are achieved in the episode of the transition, for `future` not before it; the rewards follow from them."""
    generator = np.random.default_rng(0)
    ends = generator.random((30, 2)) < 0.25
    *_, buffer = filled(DeviceHerReplayBuffer, 20, 2, ends, env=Goals(), goal_selection_strategy=strategy)
    torch.manual_seed(0)
    batch = next(buffer.batches(2000, 1))
    virtual = np.arange(2000) < 1600
    goals = batch.observations["desired_goal"][:, 0].numpy()
    torch.testing.assert_close(batch.next_observations["desired_goal"], batch.observations["desired_goal"])
    numbers = batch.observations["observation"][:, 0].numpy().astype(int)
    np.testing.assert_array_equal(goals[~virtual], -1 - numbers[~virtual])
    episodes = np.cumsum(np.concatenate([np.zeros((1, 2)), ends[:-1]]), 0)  # (row, environment) → number of the episode
    seen: dict[int, set[int]] = {}
    for number, goal, reward in zip(numbers[virtual], goals[virtual], batch.rewards[virtual, 0].tolist(), strict=True):
        row, env = divmod(int(number), 2)
        goal_row, goal_env = divmod(int(goal - 0.5), 2)
        same = np.flatnonzero(episodes[:, env] == episodes[row, env])
        assert goal_env == env
        assert goal_row in (same if strategy == "episode" else same[-1:] if strategy == "final" else same[same >= row])
        assert reward == (0.0 if goal_row == row else -1.0)
        seen.setdefault(int(number), set()).add(goal_row)
    expected = {  # each transition of a complete episode that is still whole in the buffer
        (row, env)
        for env in range(2)
        for row in range(10, 30)
        for same in [np.flatnonzero(episodes[:, env] == episodes[row, env])]
        if same[0] >= 10 and ends[same[-1], env]
    }
    assert {divmod(number, 2) for number in seen} == expected
    assert (max(len(rows) for rows in seen.values()) > 3) == (strategy != "final")
    np.testing.assert_array_equal(batch.rewards[~virtual, 0], numbers[~virtual])


def test_hindsight_needs_a_complete_episode() -> None:
    *_, buffer = filled(DeviceHerReplayBuffer, 5, 2, np.zeros((3, 2), bool), env=Goals())
    with pytest.raises(RuntimeError, match="no complete episode: learning_starts"):
        buffer.sample(4)


BUFFERS = [(DeviceReplayBuffer, ReplayBuffer), (DictDeviceReplayBuffer, DictReplayBuffer)]


@pytest.mark.parametrize(("kind", "base"), BUFFERS)
def test_samples_are_transitions_of_the_buffer(kind: Any, base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    is_dict = kind is DictDeviceReplayBuffer
    space: Any = SPACE if is_dict else SPACE["observation"]
    tested, of_sb3 = (each(24, space, ACTIONS, device="cpu", n_envs=3) for each in (kind, base))
    generator = np.random.default_rng(0)
    for _ in range(11):  # 8 rows fit
        before, after = (
            {key: generator.normal(size=(3, *each.shape)).astype(np.float32) for key, each in SPACE.items()}
            for _ in range(2)
        )
        arguments = [before, after] if is_dict else [before["observation"], after["observation"]]
        actions, rewards, ends = generator.normal(size=(3, 2)), generator.normal(size=3), generator.random(3) < 0.4
        infos = [{"TimeLimit.truncated": bool(flag)} for flag in generator.random(3) < 0.5]
        for buffer in (tested, of_sb3):
            buffer.add(*arguments, actions, rewards, ends, infos)
    monkeypatch.setattr(np.random, "randint", lambda *_, **__: np.tile(np.arange(3), 8))  # environments of the rows
    numbers = torch.arange(24)
    expected = of_sb3._get_samples(np.repeat(np.arange(8), 3))
    got = tested._fields(numbers)
    for field, values in expected._asdict().items():
        for key in values if isinstance(values, dict) else [None]:
            want, have = (each if key is None else each[key] for each in (values, got.get(field)))
            if want is not None:
                torch.testing.assert_close(have, want, rtol=0.0, atol=0.0, msg=f"{field} {key}")
    drawn = {round(float(reward), 5) for reward in next(tested.batches(500, 1)).rewards}
    assert drawn == {round(float(reward), 5) for reward in tested.rewards.flatten()}
    assert [len(batch.actions) for batch in tested.batches(7, 3)] == [7, 7, 7]


def test_samples_are_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        model = build({**config_of("sac"), "normalize": True}, stack, monkeypatch)
        model.learn(480)
        normalizer = model._vec_normalize_env
        assert isinstance(normalizer, FlooredNormalize)
        torch.manual_seed(0)
        raw = next(model.replay_buffer.batches(64, 1))
        torch.manual_seed(0)
        normalised = model.replay_buffer.sample(64, normalizer)
        for field in ("observations", "next_observations"):
            expected = normalizer.normalize_obs({key: value.numpy() for key, value in getattr(raw, field).items()})
            for key, value in getattr(normalised, field).items():
                np.testing.assert_allclose(value, expected[key], atol=1e-4)
        assert not torch.equal(raw.observations["observation"], normalised.observations["observation"])


RUN: dict[str, Any] = {
    "engine": "fused",
    "task_params": TASK,
    "n_envs": 16,
    "steps": 400,
    "seed": 4,
    "eval": {"every": 400, "episodes": 1, "final_episodes": 1},
    "video": {"episodes": 0},
    "stop_at_success": None,
}


@pytest.mark.parametrize(
    ("name", "devices"),
    slow_except(
        itertools.product(["sac, hindsight", "ddqn"], [("cpu:0", "cpu:0"), ("cpu:0", "cpu"), ("cpu", "cpu:0")]),
        [("sac, hindsight", ("cpu:0", "cpu:0")), ("ddqn", ("cpu:0", "cpu"))].__contains__,
    ),
    ids=str,
)
def test_a_run_in_tensors_resumes(
    name: str, devices: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit; a checkpoint also continues where the engine is in numpy, and the other way round."""
    config = {**config_of(name), **RUN}
    for device, folder, steps in ((devices[0], "whole", 720), (devices[0], "part", 400)):
        monkeypatch.setattr(env_factory, "engine_device", lambda _, device=device: device)
        keep = Keep()
        run = mygym.train({**config, "steps": steps, "logdir": str(tmp_path / folder)}, callbacks=keep)
        assert (keep.model._device_collection is None) == (device == "cpu")
        if folder == "whole":
            whole = run
    monkeypatch.setattr(env_factory, "engine_device", lambda _: devices[1])
    resumed = mygym.train({"steps": 720}, resume=run.path)
    assert resumed.status == "done"
    rows = [(each.path / "monitor.csv").read_text().count("\n") for each in (whole, resumed)]
    assert rows[0] == pytest.approx(rows[1], abs=0 if devices[0] == devices[1] else 40)
    first, second = (load_file(each.path / "policy.safetensors") for each in (whole, resumed))
    if devices[0] == devices[1]:
        for key, tensor in first.items():
            torch.testing.assert_close(second[key], tensor, rtol=0.0, atol=0.0)


class ExtendedActions(SAC):
    """An algorithm that explores in another way."""

    def _sample_action(self, *args: Any, **kwargs: Any) -> Any:
        action, stored = super()._sample_action(*args, **kwargs)
        return action, stored


@pytest.mark.parametrize(
    "config",
    [
        {"algo_params": {**SMALL, "use_sde": True}},
        {"algo": "extended_actions", "algo_params": SMALL},
        {
            "strategy": "lora",
            "strategy_params": {"rank": 2},
            "algo_params": {**SMALL, "policy_kwargs": {"net_arch": [8]}},
        },
    ],
    ids=["gSDE", "a subclass", "a strategy"],
)
def test_other_runs_take_the_steps_in_numpy(config: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    """They add the steps to the buffer in tensors."""
    register_algorithm("extended_actions", defaults=SMALL)(ExtendedActions)
    monkeypatch.setattr(env_factory, "engine_device", lambda _: "cpu:0")
    keep = Keep()
    mygym.train({**RUN, "algo": "sac", "task": "reach", **config, "logdir": str(tmp_path)}, callbacks=keep)
    assert keep.model._device_collection is None
    assert keep.model.replay_buffer.pos == RUN["steps"] // 16


def test_a_buffer_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_replay, "free_memory", lambda _: 10_000)
    with (
        ExitStack() as stack,
        pytest.raises(ConfigError, match=r"algo_params\.buffer_size: 2400 needs 0\.0 GB on cpu, .*at most \d+"),
    ):
        build(config_of("sac"), stack, monkeypatch)


def test_noise_differs_between_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        model = build({**config_of("td3"), "algo_params": {**SMALL, "action_noise": 0.2}}, stack, monkeypatch)
        with torch.no_grad():
            model.actor.mu[-2].weight.zero_()
        model.action_noise = VectorizedActionNoise(model.action_noise, 24)
        for number, noise in enumerate(model.action_noise.noises):
            noise._sigma = np.full(3, number / 100)
        model.train = lambda **_: None
        model.learn(2400)
        deviations = model.replay_buffer.actions[13:].numpy().std(0).mean(1)
        np.testing.assert_allclose(deviations, np.arange(24) / 100, rtol=0.2, atol=0.01)


def test_a_loss_that_is_not_finite_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """`DivergenceCallback` reads the log."""
    with ExitStack() as stack:
        model = build(config_of("ddqn"), stack, monkeypatch)
        model.learn(480)
        with torch.no_grad():
            next(iter(model.q_net.parameters())).fill_(torch.nan)
        model.train(2, 32)
        assert np.isnan(model.logger.name_to_value["train/loss"])


class Base(sb3.SAC):
    """An algorithm that selects actions in another way."""

    def _sample_action(self, *args: Any, **kwargs: Any) -> Any:
        return super()._sample_action(*args, **kwargs)


class Mixed(SAC, Base):
    """Its method comes from the second class."""


class ExtendedPolicy(SACPolicy):
    """A policy that predicts in another way."""

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        return super().predict(*args, **kwargs)


@pytest.mark.parametrize("part", ["class", "second class", "instance", "policy", "none"])
def test_overridden_methods_are_called(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        monkeypatch.setattr(env_factory, "engine_device", lambda _: "cpu:0")
        env = make_vec_env(make_plan({"engine": "fused", "n_envs": 24, "algo": "sac", "task": "reach"}), stack)
        cls: Any = {"class": ExtendedActions, "second class": Mixed}.get(part, SAC)
        model = cls(ExtendedPolicy if part == "policy" else "MultiInputPolicy", env, learning_starts=48, batch_size=8)
        if part == "instance":
            model._sample_action = model._sample_action
        model.learn(96)
        assert (model._device_collection is None) == (part != "none")


@pytest.mark.parametrize("name", ["sac", "ddqn"])
def test_a_replaced_sample_is_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mix` of the strategy `demos` replaces it so; the gradient steps are still those of the algorithm."""
    targets, counted = ddqn.double_q_targets, []
    monkeypatch.setattr(ddqn, "double_q_targets", lambda *args: counted.append(1) or targets(*args))
    with ExitStack() as stack:
        model, calls = build(config_of(name), stack, monkeypatch), []
        sample = model.replay_buffer.sample
        model.replay_buffer.sample = lambda *args, **kwargs: calls.append(1) or sample(*args, **kwargs)
        model.learn(384)
        assert len(calls) == model._n_updates > 0
        assert len(counted) == (model._n_updates if name == "ddqn" else 0)


def test_another_normaliser_takes_the_steps_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    env = VecNormalize(BatchVecEnv({"task": "reach"}, 8, "cpu:0"))
    model = SAC("MultiInputPolicy", env, learning_starts=16, batch_size=8)
    assert type(model.replay_buffer) is DictReplayBuffer
    model.learn(64)


@pytest.mark.parametrize("limit", [0.5, 5.0])
def test_clipped_gradients_are_those_of_torch(limit: float) -> None:
    layers = [torch.nn.Linear(3, 2) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    for layer in layers:
        layer(torch.ones(4, 3)).pow(2).sum().backward()
    torch.nn.utils.clip_grad_norm_(layers[0].parameters(), limit)
    clip_gradients(layers[1].parameters(), torch.tensor(limit))
    for first, second in zip(*(layer.parameters() for layer in layers), strict=True):
        torch.testing.assert_close(second.grad, first.grad)


def test_minibatches_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_replay, "BLOCK", 20)
    *_, buffer = filled(DictDeviceReplayBuffer, 6, 2, np.zeros((4, 2), bool))
    drawn: list[int] = []
    fields = buffer._fields
    monkeypatch.setattr(buffer, "_fields", lambda numbers: drawn.append(len(numbers)) or fields(numbers))
    assert [len(batch.actions) for batch in buffer.batches(8, 5)] == [8] * 5
    assert drawn == [16, 16, 8]


def test_running_episodes_are_truncated_as_in_sb3() -> None:
    ends = np.random.default_rng(0).random((5, 3)) < 0.3
    tested, of_sb3 = (
        list(filled(kind, 8, 3, ends, env=Goals()))[-1] for kind in (DeviceHerReplayBuffer, HerReplayBuffer)
    )
    tested.truncate_last_trajectory()
    with pytest.warns(UserWarning, match="truncated"):
        of_sb3.truncate_last_trajectory()
    for name in ("ep_length", "dones", "timeouts", "_current_ep_start"):
        np.testing.assert_array_equal(getattr(tested, name), getattr(of_sb3, name))


def test_the_buffer_of_many_environments_holds_complete_episodes() -> None:
    plan = make_plan({"engine": "fused", "task": "reach", "algo": "sac", "her": True, "n_envs": 30_000, "steps": 10**7})
    assert plan.config.algo_params["buffer_size"] >= 2 * 25 * 30_000
