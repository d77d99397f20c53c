"""Tests of strategy `distill`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from stable_baselines3.common.logger import Logger
from torch.distributions import Independent, Normal, kl_divergence

import mygym
from benchmarks.kills import differences
from mygym.config import merged
from mygym.errors import ConfigError
from mygym.planning.resolve import from_python
from mygym.strategies.distill import ORACLE, Distill, divergence, family, gaussian, read_teachers
from mygym.strategies.requirements import prepared
from mygym.training import env_factory, model_factory
from mygym.training.run_callbacks import StrategyCallback
from tests.components import slow_except
from tests.training.test_resuming import config, stopped

Train = Callable[..., Path]
FEW = ["ee_position", "gripper_width", "object_position"]
"""Observations without velocities and relative positions, fewer than a teacher has."""

GRADIENTS = ["ppo", "a2c", "ppo_runner", "trpo", "sac", "tqc", "crossq", "td3", "ddpg"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Return a function that trains a short teacher run, once for each config."""
    cache: dict[str, Path] = {}

    def trained(algo: str, **more: Any) -> Path:
        key = f"{algo} {more}"
        if key not in cache:
            short = {"steps": 64, "eval": {"every": 1000, "episodes": 1, "final_episodes": 1}, **more}
            quick = {"algo": algo, "tensorboard": False, "checkpoint": {"every": 1000}}
            cache[key] = mygym.train(merged(config(algo, tmp_path_factory.mktemp("teacher"), **short), quick)).path
        return cache[key]

    return trained


@contextmanager
def student(algo: str, teacher: Any, weight: Any = None, **more: Any) -> Iterator[Distill]:
    """Yield a prepared strategy with a seeded student and environments."""
    params = {"teacher": teacher, "weight": weight}
    values = config(algo, Path("nowhere"), strategy="distill", strategy_params=params, **more)
    resolved = from_python(values).config
    with closing(env_factory.make_vec_env(resolved)) as env:
        model = model_factory.build_model(resolved, env)
        model.set_logger(Logger(None, []))
        (strategy,) = prepared(resolved, env, model)
        assert isinstance(strategy, Distill)
        yield strategy


def visit(strategy: Distill, steps: int = 20, query: Callable[[], Any] = lambda: None) -> list[Any]:
    """Take random actions, query the teacher in each state, and return the results of `query`."""
    env, rng = strategy.training_env, np.random.default_rng(0)
    strategy.on_step(env.reset())
    results = [query()]
    for _ in range(steps):
        observations = env.step(rng.uniform(-1, 1, (env.num_envs, *env.action_space.shape)).astype(np.float32))[0]
        strategy.on_step(observations)
        results.append(query())
    return results


def answers(strategy: Distill) -> Any:
    assert strategy.labels is not None
    return strategy.labels.actions[: strategy.labels.pos]


# Learning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", slow_except(GRADIENTS, ("ppo", "ppo_runner", "trpo", "sac", "td3").__contains__))
def test_optimiser_steps_reduce_the_loss(algo: str) -> None:
    with student(algo, ORACLE, weight=1.0) as strategy:
        strategy.begin_iteration = lambda: None  # type: ignore[method-assign]  # it would clear the losses
        strategy.model.learn(110, callback=StrategyCallback([strategy], lambda: None))
        assert strategy.losses  # from the training of the algorithm
        assert len(answers(strategy)) == 1 + strategy.num_timesteps / 2  # first states, then one for each step
        strategy.losses = []
        optimizer = getattr(strategy.model.policy, "actor", strategy.model.policy).optimizer
        for _ in range(60):
            optimizer.zero_grad()
            optimizer.step()
        assert np.mean(strategy.losses[-10:]) < 0.95 * np.mean(strategy.losses[:5])


@pytest.mark.parametrize("more", [{}, {"algo_params": {"use_sde": True}}], ids=["gaussian", "state-dependent"])
def test_the_loss_reduces_exploration(more: dict[str, Any]) -> None:
    with student("sac", ORACLE, weight=1.0, **more) as strategy:
        strategy.model.learn(110, callback=StrategyCallback([strategy], lambda: None))
        if more:  # state-dependent noise is not trained
            return
        assert strategy.labels is not None
        states, _ = strategy.labels.sample(64)
        actor: Any = strategy.model.policy.actor
        before = gaussian(strategy.model.policy, states)[:, 3:].mean()
        for _ in range(60):
            actor.optimizer.zero_grad()
            actor.optimizer.step()
        assert gaussian(strategy.model.policy, states)[:, 3:].mean() < before - 0.1


def test_answers_are_the_actions_of_the_scripted_expert() -> None:
    with student("sac", ORACLE, task="AGM") as strategy:
        expected = visit(strategy, query=lambda: np.stack(strategy.training_env.env_method("expert_action")))
        np.testing.assert_array_equal(answers(strategy), expected)


@pytest.mark.parametrize(
    ("algo", "teacher", "more"),
    [
        ("td3", "ppo", {"normalize": True}),  # the teacher's normaliser, not the student's
        ("ppo", "crossq", {"observations": FEW, "normalize": True}),  # flat, of a student with less in a dictionary
        pytest.param("ddpg", "sac", {"observations": FEW}, marks=pytest.mark.slow),
    ],
)
def test_answers_use_the_observations_of_the_teacher(algo: str, teacher: str, more: dict[str, Any], run: Train) -> None:
    path = run(teacher, task="AGM", normalize=teacher == "ppo")
    policy = mygym.load(path)
    views = [mygym.make_env(path) for _ in range(2)]

    def query() -> Any:
        for view, state in zip(views, strategy.training_env.env_method("state_dict"), strict=True):
            view.load_state_dict(state)  # the same episode in the teacher's environment
        rows = [view.state_dict()["observation"] for view in views]
        batch = {key: np.stack([row[key] for row in rows]) for key in rows[0]} if isinstance(rows[0], dict) else rows
        return policy.predict(np.stack(batch) if isinstance(batch, list) else batch, deterministic=True)[0]

    with student(algo, str(path), task="AGM", **more) as strategy:
        assert not strategy.has_gaussians
        expected = visit(strategy, 6, query)
        np.testing.assert_array_equal(answers(strategy), expected)
    for view in views:
        view.close()


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_gaussian_returns_the_distribution_of_the_policy(algo: str, run: Train) -> None:
    policy = mygym.load(run(algo)).model.policy
    observation, _ = policy.obs_to_tensor({k: v[None] for k, v in policy.observation_space.sample().items()})
    mean, log_std = gaussian(policy, observation).chunk(2, dim=-1)
    torch.manual_seed(0)
    action = policy(observation)[0] if algo == "ppo" else policy(observation)
    torch.manual_seed(0)
    drawn = mean + log_std.exp() * torch.normal(torch.zeros_like(mean), torch.ones_like(mean))
    torch.testing.assert_close(action.reshape(-1), (drawn if algo == "ppo" else drawn.tanh()).reshape(-1))


def test_the_divergence_sums_over_action_components() -> None:
    teacher, pupil = torch.randn(2, 50, 6).unbind()
    p, q = (Independent(Normal(t[:, :3], t[:, 3:].exp()), 1) for t in (teacher, pupil))
    torch.testing.assert_close(divergence(teacher, pupil), kl_divergence(p, q).mean())
    ratio, distance = (teacher - pupil)[:, 3:].exp() ** 2, ((teacher - pupil)[:, :3] / pupil[:, 3:].exp()) ** 2
    torch.testing.assert_close(divergence(teacher, pupil), (ratio + distance - 1 - ratio.log()).sum(-1).mean() / 2)


@pytest.mark.parametrize(
    ("algo", "teacher", "kind"), [("ppo", "ppo", "plain"), ("tqc", "sac", "squashed"), ("ppo", "sac", None)]
)
def test_gaussians_of_one_family_are_compared_by_divergence(
    algo: str, teacher: str, kind: str | None, run: Train
) -> None:
    with student(algo, str(run(teacher)), weight=1.0) as strategy:
        assert strategy.has_gaussians == (kind is not None)
        assert strategy.teachers.family == family(mygym.load(run(teacher)).model.policy)
        visit(strategy)
        assert answers(strategy).shape[-1] == (6 if kind else 3)
        value = strategy.loss()
        assert value is not None
        assert value.item() > 0


def test_the_loss_of_a_copy_of_the_teacher_is_0(run: Train) -> None:
    path = run("ppo", normalize=True)
    with student("ppo", str(path), weight=1.0, normalize=True) as strategy:
        teacher = mygym.load(path)
        strategy.model.policy.load_state_dict(teacher.model.policy.state_dict())
        visit(strategy)
        assert teacher.normalizer is not None
        assert strategy.normalizer is not None
        for key, running in strategy.normalizer.obs_rms.items():
            running.mean, running.var = teacher.normalizer[key]["mean"], teacher.normalizer[key]["var"]
        value = strategy.loss()  # states are normalised when sampled, with current statistics
        assert value is not None
        assert value.item() == pytest.approx(0.0, abs=1e-6)


# Weight ----------------------------------------------------------------------------------------------------


def test_the_weight_scales_the_gradient() -> None:
    with student("sac", ORACLE, weight={"schedule": "linear", "from": 0.5, "to": 0.0, "until": 100}) as strategy:
        visit(strategy)
        actor: Any = strategy.model.policy.actor
        gradients = []
        for steps in (0, 50, 100, 200):
            strategy.model.num_timesteps = steps
            np.random.seed(0)  # noqa: NPY002
            torch.manual_seed(0)
            actor.optimizer.zero_grad()
            value = strategy.loss()
            if value is not None:
                value.backward()
            of_parameters = [p.grad.reshape(-1) for p in actor.parameters() if p.grad is not None]
            gradients.append(torch.cat(of_parameters) if of_parameters else None)
        assert gradients[0] is not None
        torch.testing.assert_close(gradients[1], gradients[0] / 2)
        assert gradients[2:] == [None, None]


def test_weight_0_changes_nothing(run: Train, tmp_path: Path) -> None:
    params = {"teacher": str(run("ppo")), "weight": 0}
    trained = [
        mygym.train(config("sac", tmp_path, steps=120, normalize=True, **more)).path
        for more in ({}, {"strategy": "distill", "strategy_params": params})
    ]
    assert len({(path / "policy.safetensors").read_bytes() for path in trained}) == 1


def test_the_default_weight_falls_over_the_run(tmp_path: Path) -> None:
    result = mygym.train(config("ppo", tmp_path, strategy="distill"))
    lines = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    weights = [line["strategy/weight"] for line in lines if "strategy/weight" in line]
    assert weights == sorted(weights, reverse=True)
    assert (weights[0], 1.0 < weights[-1] < 4.0) == (10.0, True)
    written = yaml.safe_load((result.path / "config.yaml").read_text())["strategy_params"]
    assert written["weight"] == {"schedule": "linear", "from": 10.0, "to": 1.0}


# Teachers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", slow_except(["dagger", "bc"], ("dagger",).__contains__))
def test_imitation_learns_from_a_run_with_more_observations(algo: str, run: Train) -> None:
    path = run("ppo", task="AGM", normalize=True)
    with student(algo, str(path), task="AGM", observations=FEW) as strategy:
        labels = []
        teacher: Any = strategy.model.teacher  # type: ignore[attr-defined]
        act = teacher.act
        teacher.act = lambda observations: labels.append(act(observations)) or labels[-1]
        strategy.model.learn(100)
        buffer = strategy.model.replay_buffer  # type: ignore[attr-defined]
        np.testing.assert_allclose(buffer.actions[: buffer.pos], labels[: buffer.pos], atol=1e-6)
        assert buffer.observations["observation"].shape[-1] < len(mygym.load(path).normalizer["observation"]["mean"])


def test_each_state_is_answered_by_one_of_several_teachers(run: Train) -> None:
    paths = [run("ppo", seed=seed) for seed in (1, 2)]
    policies = [mygym.load(path) for path in paths]
    with student("td3", [str(path) for path in paths]) as strategy:
        env = strategy.training_env

        def query() -> Any:
            rows = [state["observation"] for state in env.env_method("state_dict")]
            batch = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
            return [policy.predict(batch, deterministic=True)[0] for policy in policies]

        both = np.array(visit(strategy, 20, query)).swapaxes(0, 1)  # teacher, step, environment, action
        matches = [np.isclose(answers(strategy), actions, atol=1e-6).all(axis=-1) for actions in both]
        assert (matches[0] ^ matches[1]).all()
        assert 0.2 < matches[0].mean() < 0.8


def test_each_task_has_its_teacher(run: Train) -> None:
    push = run("ppo", task="push", spaces="shared", control="ee_delta")
    taught = {"teacher": {"reach": ORACLE, "push": str(push)}}
    params = {"multitask": {"tasks": ["reach", "push"]}, "distill": taught}
    values = config("sac", Path("nowhere"), strategy="multitask+distill", strategy_params=params, n_envs=3)
    resolved = from_python({**values, "normalize": False}).config
    with closing(env_factory.make_vec_env(resolved)) as env:
        env.seed(0)
        teachers = read_teachers(taught["teacher"], resolved, env)
        for _ in range(2):
            observations = env.reset()
            answer, played = teachers.act(observations), env.get_attr("variant")
            assert set(played) == {0, 1}
            expert, trained = np.stack(env.env_method("expert_action")), mygym.load(push)
            for row, variant in enumerate(played):
                observation = {key: array[row] for key, array in observations.items()}
                expected = expert[row] if variant == 0 else trained.predict(observation, deterministic=True)[0]
                np.testing.assert_allclose(answer[row], expected, atol=1e-6)


@pytest.mark.parametrize("normalize", slow_except([True, False], bool))
def test_a_mixture_can_be_a_student(normalize: bool, tmp_path: Path) -> None:
    params = {"mixture": {"by": "sampler", "candidates": 2, "tries": 1}}
    values = config("ppo", tmp_path, strategy="distill+mixture", strategy_params=params, normalize=normalize, steps=64)
    lines = (mygym.train(values).path / "progress.jsonl").read_text()
    assert "strategy/loss" in lines
    assert "strategy/usage_entropy" in lines


def test_a_resumed_run_equals_an_uninterrupted_run(run: Train, tmp_path: Path) -> None:
    params = {"teacher": [ORACLE, str(run("ppo"))], "buffer_size": 60}  # smaller than the run
    overrides = {"strategy": "distill", "strategy_params": params, "normalize": True}
    overrides |= {"steps": 200, "algo_params": {"learning_starts": 42}}
    reference = mygym.train(config("sac", tmp_path / "whole", **overrides))
    path = stopped(config("sac", tmp_path / "stopped", **overrides), step=110)
    mygym.train(resume=path)
    assert differences(reference.path, path) == []


def test_the_path_of_a_teacher_is_absolute(run: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run("ppo")
    monkeypatch.chdir(path.parent)
    values = config("dagger", tmp_path, strategy="distill", strategy_params={"teacher": [path.name, ORACLE]}, steps=32)
    written = yaml.safe_load((mygym.train(values).path / "config.yaml").read_text())
    assert written["strategy_params"]["teacher"] == [str(path), ORACLE]


# Invalid teachers --------------------------------------------------------------------------------------------------

REACH: dict[str, Any] = {"task": "reach"}
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no run": ("nowhere", REACH, r"strategy_params.teacher: '/.*nowhere' is not a run directory"),
    "no text": ({"reach": 5}, REACH, "strategy_params.teacher.reach: 5 names no teacher"),
    "nothing": ({"reach": None}, REACH, "strategy_params.teacher.reach: None names no teacher"),
    "objects": (
        ("ppo", {"task": "push", "control": "ee_delta"}),
        REACH,
        "it needs an observation that .* lacks .*a run of the same task on panda",
    ),
    "sizes": (("ppo", {"task": "AGM"}), {"task": "AGMDW"}, "it was trained on observations of another size"),
    "actions": (("ppo", {"spaces": "shared"}), REACH, "it has 5 actions, the student has 3"),
    "control": (("ppo", {"control": "ee_absolute"}), REACH, "it uses control ee_absolute.*control: ee_delta"),
    "memory": (("recurrent_ppo", {}), REACH, "has a memory"),
    "no teacher": ([], REACH, "names no teacher"),
    "no such task": ({"push": ORACLE}, REACH, r"strategy_params.teacher.push: 'oracle'.*not played; allowed: reach"),
    "a task without": ({}, REACH, "strategy_params.teacher.reach: None is missing"),
}


@pytest.mark.parametrize(("teacher", "overrides", "message"), REFUSED.values(), ids=REFUSED)
def test_a_teacher_that_does_not_fit_is_refused_before_anything_is_written(
    teacher: Any, overrides: dict[str, Any], message: str, run: Train, tmp_path: Path
) -> None:
    value = str(run(teacher[0], **teacher[1])) if isinstance(teacher, tuple) else teacher
    with pytest.raises(ConfigError, match=message) as error:
        mygym.train(config("ppo", tmp_path, strategy="distill", strategy_params={"teacher": value}, **overrides))
    assert str(error.value).startswith("strategy_params.teacher")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"weight": -1}, "strategy_params.weight.*at least 0"),
        ({"weight": {"schedule": "linear", "from": 1}}, "strategy_params.weight.to: None is missing"),
        ({"batch_size": 0}, "strategy_params.batch_size: 0"),
        ({"buffer_size": 0}, "strategy_params.buffer_size: 0"),
    ],
)
def test_parameters_are_checked(params: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train(config("ppo", tmp_path, strategy="distill", strategy_params=params))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("algo", "frozen", "message"),
    [
        ("ars", [], "requires actor optimizer; allowed: a gradient-based algorithm of framework pytorch"),
        ("recurrent_ppo", [], "requires no memory"),
        ("sac", ["actor.*"], "requires trained actor; allowed: a pretrained.freeze that leaves a layer of the actor"),
    ],
)
def test_unsupported_students_are_refused(algo: str, frozen: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train(config(algo, tmp_path, strategy="distill", pretrained={"freeze": frozen}))
    assert not list(tmp_path.iterdir())
