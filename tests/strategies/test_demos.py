"""Tests of strategy `demos`: replay minibatches, warm start, loss."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit

import mygym
from benchmarks.kills import differences
from mygym.cli.main import run as command
from mygym.demonstrations import variant_indices
from mygym.errors import ConfigError
from mygym.planning.resolve import from_python
from mygym.registry import algorithm, implemented_combos, registry
from mygym.strategies.demos import Demos, spread
from mygym.strategies.requirements import prepared
from mygym.training import env_factory, model_factory
from mygym.training.evaluation import EVALUATION, episode_seeds, evaluate_policy
from mygym.training.policy import Policy, normalizer_of
from tests.training.test_resuming import config, stopped

EPISODES = 3


def settings(algo: str, folder: Path, params: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    quick = {"episodes": EPISODES, "warm_start": 3}
    return config(algo, folder, strategy="demos", strategy_params={**quick, **(params or {})}, **more)


@contextlib.contextmanager
def ready(algo: str = "sac", params: dict[str, Any] | None = None, **more: Any) -> Iterator[Demos]:
    """Yield a strategy that is ready to train."""
    resolved = from_python(settings(algo, Path("runs"), params, **more)).config
    with contextlib.closing(env_factory.make_vec_env(resolved)) as env:
        (*_, strategy) = prepared(resolved, env, model_factory.build_model(resolved, env))
        assert isinstance(strategy, Demos)
        yield strategy


def weights(run: Any) -> bytes:
    return (run.path / "policy.safetensors").read_bytes()


def with_rollouts(strategy: Demos, steps: int = 30) -> OffPolicyAlgorithm:
    """Return the model of the strategy after some rollouts."""
    model = strategy.model
    assert isinstance(model, OffPolicyAlgorithm)
    model._setup_learn(1000)
    model.learning_starts = 1000
    callback = CallbackList([])
    callback.init_callback(model)
    assert model.env is not None
    assert model.replay_buffer is not None
    freq = TrainFreq(steps, TrainFrequencyUnit.STEP)
    model.collect_rollouts(model.env, callback, freq, model.replay_buffer, learning_starts=1000)
    return model


@pytest.mark.parametrize(
    ("share", "batch", "demonstrated"), [(0.5, 64, 32), (0.25, 30, 8), (0.0, 16, 0), (1.0, 16, 16)]
)
def test_a_minibatch_has_exactly_the_share_of_demonstrations(share: float, batch: int, demonstrated: int) -> None:
    with ready(params={"share": share}, task_params={"horizon": 20}) as strategy:
        model = with_rollouts(strategy)
        assert model.replay_buffer is not None
        sample = model.replay_buffer.sample(batch)
        known = {row.tobytes() for row in strategy.labels.observations["observation"][:, 0]}  # type: ignore[index,call-overload]
    is_demonstrated = [row.tobytes() in known for row in sample.observations["observation"].numpy()]
    assert (len(is_demonstrated), sum(is_demonstrated)) == (batch, demonstrated)


@pytest.mark.parametrize("params", [{"by": "sampler", "tries": 1}, {"protocol": "gumbel_softmax"}, {"protocol": "sum"}])
def test_a_mixture_imitates(params: dict[str, Any], tmp_path: Path) -> None:
    """Demonstrations have no route of an on-policy rollout."""
    both = {"demos": {"episodes": EPISODES, "warm_start": 3}, "mixture": {"candidates": 2, **params}}
    result = mygym.train(config("ppo", tmp_path, strategy="demos+mixture", strategy_params=both, steps=64))
    assert "strategy/imitation_loss" in (result.path / "progress.jsonl").read_text()


def test_every_slice_of_a_minibatch_has_the_share_of_demonstrations() -> None:
    for first, second in [(64, 64), (96, 32), (90, 10)]:
        is_second = spread(first, second) >= first
        expected = 32 * second / (first + second)
        assert all(abs(s.sum() - expected) <= 1 for s in is_second[: len(is_second) // 32 * 32].reshape(-1, 32))


@pytest.mark.parametrize("episodes", [EPISODES, 1])
def test_hindsight_relabels_demonstrations(episodes: int) -> None:
    with ready(params={"share": 1.0, "episodes": episodes}, normalize=False) as strategy:
        model = strategy.model
        assert isinstance(model, OffPolicyAlgorithm)
        assert model.replay_buffer is not None
        assert model.env is not None
        sample = model.replay_buffer.sample(200)
        (rewards,) = model.env.env_method(
            "compute_reward",
            sample.next_observations["achieved_goal"].numpy(),
            sample.observations["desired_goal"].numpy(),
            [{}] * 200,
            indices=[0],
        )
        demonstrated = strategy.labels.observations["desired_goal"][:, 0]  # type: ignore[index,call-overload]
    assert sample.rewards.numpy()[:, 0] == pytest.approx(rewards)
    assert set(np.unique(rewards)) == {-1.0, 0.0}
    goals = {row.tobytes() for row in demonstrated}
    relabelled = [row.tobytes() not in goals for row in sample.observations["desired_goal"].numpy()]
    assert sum(relabelled) > 100  # four of five goals are relabelled


def test_joined_with_multitask_each_demonstration_keeps_its_task(tmp_path: Path) -> None:
    params = {"multitask": {"tasks": ["reach", "AG"]}, "demos": {"episodes": 4, "warm_start": 3, "share": 1.0}}
    values = config("sac", tmp_path, strategy="multitask+demos", strategy_params=params, task_params={})
    del values["task_params"]
    resolved = from_python(values).config
    with contextlib.closing(env_factory.make_vec_env(resolved)) as env:
        model = model_factory.build_model(resolved, env)
        prepared(resolved, env, model)
        drawn = model.replay_buffer.sample(100)  # computes each reward with its task
    assert set(np.unique(drawn.rewards.numpy())) == {-1.0, 0.0}
    mygym.demonstrate(resolved, out=tmp_path / "both", episodes=4)
    assert sorted(variant_indices(mygym.load_demonstrations(tmp_path / "both"), resolved)) == [0, 0, 1, 1]


def test_demonstrations_belong_to_the_last_level_of_a_curriculum(datasets: Path) -> None:
    resolved = from_python({"strategy": "curriculum+demos", "reward": "sparse"}).config
    assert variant_indices(mygym.load_demonstrations(datasets / "reach"), resolved) == [1]


def test_demonstrations_are_normalised_when_sampled() -> None:
    with ready(params={"share": 1.0}) as strategy:
        model = strategy.model
        assert isinstance(model, OffPolicyAlgorithm)
        assert model.replay_buffer is not None
        raw = model.replay_buffer.sample(200)
        drawn = model.replay_buffer.sample(200, env=strategy.normalizer)
    assert raw.observations["observation"].std(0).mean() < 0.5
    assert drawn.observations["observation"].std(0).mean() == pytest.approx(1.0, abs=0.3)


FADING = {"weight": {"schedule": "linear", "from": 1, "to": 0}}


@pytest.mark.parametrize("her", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_resumed_run_equals_an_uninterrupted_run(her: bool, tmp_path: Path) -> None:
    quick = {"her": her, "steps": 200, "algo_params": {"learning_starts": 42}}
    reference = mygym.train(settings("sac", tmp_path / "whole", FADING, **quick))
    run = stopped(settings("sac", tmp_path / "stopped", FADING, **quick), step=110)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []


def test_a_dataset_equals_recording(tmp_path: Path) -> None:
    values = settings("sac", tmp_path / "recorded", steps=60)
    recorded = mygym.train(values)
    of_env = {key: values[key] for key in ("task_params",)}
    mygym.demonstrate({**of_env, "reward": "sparse"}, out=tmp_path / "dataset", episodes=EPISODES + 1)
    loaded = mygym.train(settings("sac", tmp_path / "loaded", {"dataset": str(tmp_path / "dataset")}, steps=60))
    assert weights(recorded) == weights(loaded)


@pytest.mark.parametrize(("algo", "reward"), [("sac", "dense"), ("ppo", "shaped")])
def test_a_dataset_decides_controller_and_for_replay_the_reward(algo: str, reward: str, tmp_path: Path) -> None:
    recording = {"task": "push", "control": {"name": "ee_delta", "step": 0.03}, "reward": "dense"}
    mygym.demonstrate(recording, out=tmp_path / "dataset", episodes=1)
    asked = {"task": "push", "algo": algo, "strategy": "demos", "steps": 40, "logdir": str(tmp_path)}
    params = {"strategy_params": {"dataset": str(tmp_path / "dataset")}}
    decided = from_python(asked | params).config
    assert (decided.control.params["step"], decided.reward) == (0.03, reward)
    assert from_python(asked | params | {"control": {"step": 0.04}}).config.control.params["step"] == 0.04
    assert from_python({**asked, "strategy_params": {"dataset": "gone"}}).config.reward != "dense"


def test_the_warm_start_imitates_before_the_first_evaluation(tmp_path: Path) -> None:
    more = {
        "normalize": False,
        "algo_params": {"policy_kwargs": {"net_arch": [64]}},
    }  # statistics change at the first reset
    errors = []
    for steps in (0, 500):
        params = {"warm_start": steps, "weight": 0}
        with ready(params=params, **more) as strategy, torch.no_grad():
            errors.append(float(np.mean([strategy.imitation_loss() for _ in range(10)])))
            policy = Policy(strategy.model, normalizer_of(strategy.training_env))
            with contextlib.closing(env_factory.make_env(strategy.config)) as env:
                judged = evaluate_policy(policy, [env], episode_seeds(0, EVALUATION, 1))
    assert errors[1] < 0.7 * errors[0]
    result = mygym.train(settings("sac", tmp_path, params, steps=60, **more))
    assert result.evaluations[0]["mean_distance"] == judged.mean_distance


def test_the_warm_start_updates_target_networks() -> None:
    with ready("td3") as strategy:
        policy: Any = strategy.model.policy
        for parameter, target in zip(policy.actor.parameters(), policy.actor_target.parameters(), strict=True):
            assert torch.equal(parameter, target)


def test_the_loss_acts_while_its_weight_is_above_0() -> None:
    losses = []
    for weight in ({"schedule": "linear", "from": 50, "to": 0, "until": 200}, 0):
        with ready(params={"weight": weight, "warm_start": 0}) as strategy:
            model = with_rollouts(strategy)
            model.train(gradient_steps=100, batch_size=32)
            with torch.no_grad():
                losses.append(float(np.mean([strategy.imitation_loss() for _ in range(10)])))
            if weight:
                assert recorded(strategy)["strategy/weight"] == 50 * (1 - model.num_timesteps / 200)
                model.num_timesteps = 200
                assert strategy._weighted_loss() is None
    assert losses[0] < 0.5 * losses[1]


def recorded(strategy: Demos) -> dict[str, Any]:
    return dict(strategy.logger.name_to_value)


OFF_POLICY = [
    entry.name
    for entry in registry("algorithm")
    if "pytorch" in implemented_combos[entry.name]
    and issubclass(implemented_combos[entry.name]["pytorch"][0], OffPolicyAlgorithm)
    and "continuous_actions" in algorithm(entry.name).requires
]


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_every_off_policy_algorithm(algo: str) -> None:
    with ready(algo) as strategy:
        model = with_rollouts(strategy)
        model.train(gradient_steps=3, batch_size=32)  # CrossQ updates its actor in every third step
        assert {"strategy/imitation_loss", "train/critic_loss"} <= set(recorded(strategy))
        assert all(torch.isfinite(p).all() for p in model.policy.parameters())


@pytest.mark.parametrize(
    ("algo", "framework", "expected"),
    [
        ("sac", "pytorch", (0.5, 2000, 1.0)),
        ("ppo", "pytorch", (0.0, 2000, 1.0)),
        ("dagger", "pytorch", (0.0, 2000, 1.0)),
        ("sac", "jax", (0.5, 0, 0.0)),
        ("xqc", "jax", (0.5, 0, 0.0)),
    ],
)
def test_default_parameters_depend_on_the_algorithm(
    algo: str, framework: str, expected: tuple[float, int, float]
) -> None:
    params = from_python({"algo": algo, "framework": framework, "strategy": "demos"}).config.strategy_params
    assert (params["share"], params["warm_start"], params["weight"], params["episodes"]) == (*expected, 100)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("datasets")
    mygym.demonstrate({"reward": "sparse"}, out=folder / "reach", episodes=1)
    unfit = {"reward": "sparse", "task_params": {"horizon": 5}}
    mygym.demonstrate(unfit, out=folder / "failures", policy="zero", episodes=1, keep_failures=True)
    return folder


FROZEN_ACTOR = ["mlp_extractor.policy_net.*", "action_net.*"]  # log_std remains


@pytest.mark.parametrize(
    ("algo", "params", "more", "message"),
    [
        ("sac", {"dataset": "nothing"}, {}, "strategy_params.dataset: .*nothing' is not a dataset of demonstrations"),
        ("sac", {"dataset": "reach"}, {"task": "push"}, "task: 'push' is not the value of the recording .*reach"),
        ("sac", {"dataset": "reach"}, {"robot": "kuka"}, "robot: 'kuka' is not the value of .*; allowed: panda, or"),
        ("sac", {"dataset": "reach"}, {"control": "joint_delta"}, "control: 'joint_delta' is not the value of"),
        ("sac", {"dataset": "reach"}, {"spaces": "shared"}, "observation_space: .* is not the space of"),
        ("sac", {"dataset": "failures", "episodes": 1}, {}, "dataset: .*has no success among 1 episodes"),
        ("sac", {"dataset": "reach"}, {}, "episodes: 3 is more than .*reach contains; allowed: 1 to 1, or null"),
        ("sac", {}, {"task_params": {"horizon": 4, "hold": 3}}, "dataset: .* which solves only . of 30 episodes"),
        ("sac", {"share": 1.1}, {}, "share: 1.1 is out of range"),
        ("sac", {"warm_start": -1}, {}, "warm_start: -1 is out of range"),
        ("sac", {"weight": -1.0}, {}, "weight: -1.0 is out of range"),
        ("sac", {"weight": {"schedule": "liner"}}, {}, "did you mean 'linear'"),
        ("sac", {"share": 0, "warm_start": 0, "weight": 0}, {}, "uses no demonstration"),
        ("ppo", {"share": 0.5}, {}, "share: 0.5 needs a replay buffer, and ppo has none"),
        ("dagger", {"share": 0.5}, {}, "share: 0.5 needs a replay buffer"),
        ("ars", {}, {}, "requires actor optimizer; allowed: a gradient-based algorithm of framework pytorch"),
        ("cem", {}, {}, "requires actor optimizer"),
        ("recurrent_ppo", {}, {}, "requires no memory"),
        (
            "sac",
            {},
            {"pretrained": {"freeze": ["actor.*"]}},
            "requires trained actor; allowed: a pretrained.freeze that",
        ),
        ("ppo", {}, {"pretrained": {"freeze": FROZEN_ACTOR}}, "requires trained actor"),
        ("ppo", {"warm_start": None}, {"framework": "jax"}, "uses no demonstration"),
    ],
    ids=str,
)
def test_invalid_parameters_are_refused_before_anything_is_written(
    algo: str, params: dict[str, Any], more: dict[str, Any], message: str, datasets: Path, tmp_path: Path
) -> None:
    if "dataset" in params:
        params = params | {"dataset": str(datasets / params["dataset"])}
    with pytest.raises(ConfigError, match=message):
        mygym.train(settings(algo, tmp_path, params, **{"task_params": {}, "reward": "sparse", **more}))
    assert not list(tmp_path.iterdir())


def test_the_command_refuses_invalid_parameters(datasets: Path, tmp_path: Path, capsys: Any) -> None:
    flags = ["--strategy", "demos", "--set", f"strategy_params.dataset={datasets / 'reach'}", "--robot", "kuka"]
    with pytest.raises(SystemExit) as error:
        command("train", [*flags, "--logdir", str(tmp_path)])
    assert error.value.code == 2
    assert "robot: 'kuka'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
