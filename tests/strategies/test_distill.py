"""A student that learns from teachers."""

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
from mygym.errors import ConfigError
from mygym.runs import factory
from mygym.runs.resolve_config import from_python
from mygym.runs.strategy_callback import StrategyCallback
from mygym.strategies.distill import Distill
from mygym.strategies.mixture.gaussians import divergence, family, gaussian
from mygym.strategies.requirements import prepared
from mygym.strategies.teachers import ORACLE, read_teachers
from tests.runs.test_resuming import config, stopped

Train = Callable[..., Path]
FEW = ["ee_position", "gripper_width", "object_position"]
"""No velocities, and nothing relative: less than a teacher sees."""

GRADIENTS = ["ppo", "a2c", "ppo_runner", "trpo", "sac", "tqc", "crossq", "td3", "ddpg"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Trains a teacher, badly, once for each config."""
    known: dict[str, Path] = {}

    def trained(algo: str, **more: Any) -> Path:
        key = f"{algo} {more}"
        if key not in known:
            short = {"steps": 64, "eval": {"every": 1000, "episodes": 1, "final_episodes": 1}, **more}
            known[key] = mygym.train(config(algo, tmp_path_factory.mktemp("teacher"), **short)).path
        return known[key]

    return trained


@contextmanager
def student(algo: str, teacher: Any, weight: Any = None, **more: Any) -> Iterator[Distill]:
    """A strategy with the student that it has prepared, and its environments, all seeded."""
    params = {"teacher": teacher, "weight": weight}
    said = config(algo, Path("nowhere"), strategy="distill", strategy_params=params, **more)
    resolved = from_python(said).config
    with closing(factory.make_vec_env(resolved)) as env:
        model = factory.build_model(resolved, env)
        model.set_logger(Logger(None, []))
        (strategy,) = prepared(resolved, env, model)
        assert isinstance(strategy, Distill)
        yield strategy


def visit(strategy: Distill, steps: int = 20, look: Callable[[], Any] = lambda: None) -> list[Any]:
    """Random actions; the teacher is told of each state, and what `look` sees there is returned."""
    env, rng = strategy.training_env, np.random.default_rng(0)
    strategy.on_step(env.reset())
    looks = [look()]
    for _ in range(steps):
        seen = env.step(rng.uniform(-1, 1, (env.num_envs, *env.action_space.shape)).astype(np.float32))[0]
        strategy.on_step(seen)
        looks.append(look())
    return looks


def answers(strategy: Distill) -> Any:
    assert strategy.labels is not None
    return strategy.labels.actions[: strategy.labels.pos]


# What is learnt -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", GRADIENTS)
def test_steps_of_the_optimiser_bring_the_student_to_its_teacher(algo: str) -> None:
    with student(algo, ORACLE, weight=1.0) as strategy:
        strategy.step = lambda: None  # type: ignore[method-assign]  # which forgets losses
        strategy.model.learn(110, callback=StrategyCallback([strategy], lambda: None))
        assert strategy.losses  # of the algorithm's own training
        assert len(answers(strategy)) == 1 + strategy.num_timesteps / 2  # of the first states, and after each step
        strategy.losses = []
        optimizer = getattr(strategy.model.policy, "actor", strategy.model.policy).optimizer
        for _ in range(60):
            optimizer.zero_grad()
            optimizer.step()
        assert np.mean(strategy.losses[-10:]) < 0.95 * np.mean(strategy.losses[:5])


@pytest.mark.parametrize("more", [{}, {"algo_params": {"use_sde": True}}], ids=["noise in each step", "for a while"])
def test_a_student_explores_less_where_its_teacher_is_sure(more: dict[str, Any]) -> None:
    with student("sac", ORACLE, weight=1.0, **more) as strategy:
        strategy.model.learn(110, callback=StrategyCallback([strategy], lambda: None))
        if more:  # whose noise is left alone
            return
        assert strategy.labels is not None
        seen, _ = strategy.labels.sample(64)
        actor: Any = strategy.model.policy.actor
        before = gaussian(strategy.model.policy, seen)[:, 3:].mean()
        for _ in range(60):
            actor.optimizer.zero_grad()
            actor.optimizer.step()
        assert gaussian(strategy.model.policy, seen)[:, 3:].mean() < before - 0.1


def test_answers_are_the_scripted_experts_in_the_states_that_the_student_sees() -> None:
    with student("sac", ORACLE, task="AGM") as strategy:
        expected = visit(strategy, look=lambda: np.stack(strategy.training_env.env_method("expert_action")))
        np.testing.assert_array_equal(answers(strategy), expected)


@pytest.mark.parametrize(
    ("algo", "teacher", "more"),
    [
        ("td3", "ppo", {"normalize": True}),  # the teacher's normaliser, not the student's
        ("ppo", "crossq", {"observations": FEW, "normalize": True}),  # flat, of a student with less in a dictionary
        ("ddpg", "sac", {"observations": FEW}),
    ],
)
def test_answers_are_those_of_a_run_in_its_own_view(algo: str, teacher: str, more: dict[str, Any], run: Train) -> None:
    path = run(teacher, task="AGM", normalize=teacher == "ppo")
    policy = mygym.load(path)
    views = [mygym.make_env(path) for _ in range(2)]

    def look() -> Any:
        for view, state in zip(views, strategy.training_env.env_method("state_dict"), strict=True):
            view.load_state_dict(state)  # the same episode in the teacher's own environment
        seen = [view.state_dict()["observation"] for view in views]
        joined = {key: np.stack([one[key] for one in seen]) for key in seen[0]} if isinstance(seen[0], dict) else seen
        return policy.predict(np.stack(joined) if isinstance(joined, list) else joined, deterministic=True)[0]

    with student(algo, str(path), task="AGM", **more) as strategy:
        assert not strategy.has_gaussians
        expected = visit(strategy, 6, look)
        np.testing.assert_array_equal(answers(strategy), expected)
    for view in views:
        view.close()


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_a_gaussian_is_the_policys_own(algo: str, run: Train) -> None:
    policy = mygym.load(run(algo)).model.policy
    seen, _ = policy.obs_to_tensor({k: v[None] for k, v in policy.observation_space.sample().items()})
    mean, log_std = gaussian(policy, seen).chunk(2, dim=-1)
    torch.manual_seed(0)
    action = policy(seen)[0] if algo == "ppo" else policy(seen)
    torch.manual_seed(0)
    drawn = mean + log_std.exp() * torch.normal(torch.zeros_like(mean), torch.ones_like(mean))
    torch.testing.assert_close(action.reshape(-1), (drawn if algo == "ppo" else drawn.tanh()).reshape(-1))


def test_the_divergence_is_that_of_the_whole_action() -> None:
    teacher, pupil = torch.randn(2, 50, 6).unbind()
    one, other = (Independent(Normal(t[:, :3], t[:, 3:].exp()), 1) for t in (teacher, pupil))
    torch.testing.assert_close(divergence(teacher, pupil), kl_divergence(one, other).mean())
    ratio, apart = (teacher - pupil)[:, 3:].exp() ** 2, ((teacher - pupil)[:, :3] / pupil[:, 3:].exp()) ** 2
    torch.testing.assert_close(divergence(teacher, pupil), (ratio + apart - 1 - ratio.log()).sum(-1).mean() / 2)


@pytest.mark.parametrize(
    ("algo", "teacher", "kind"), [("ppo", "ppo", "plain"), ("tqc", "sac", "squashed"), ("ppo", "sac", None)]
)
def test_gaussians_of_one_family_are_compared_as_such(algo: str, teacher: str, kind: str | None, run: Train) -> None:
    with student(algo, str(run(teacher)), weight=1.0) as strategy:
        assert strategy.has_gaussians == (kind is not None)
        assert strategy.teachers.family == family(mygym.load(run(teacher)).model.policy)
        visit(strategy)
        assert answers(strategy).shape[-1] == (6 if kind else 3)
        value = strategy.loss()
        assert value is not None
        assert value.item() > 0


def test_one_that_is_its_own_teacher_has_nothing_to_learn(run: Train) -> None:
    path = run("ppo", normalize=True)
    with student("ppo", str(path), weight=1.0, normalize=True) as strategy:
        teacher = mygym.load(path)
        strategy.model.policy.load_state_dict(teacher.model.policy.state_dict())
        visit(strategy)
        assert teacher.normalizer is not None
        assert strategy.normalizer is not None
        for key, running in strategy.normalizer.obs_rms.items():
            running.mean, running.var = teacher.normalizer[key]["mean"], teacher.normalizer[key]["var"]
        value = strategy.loss()  # what it saw is normalised as it is drawn, by the figures of that moment
        assert value is not None
        assert value.item() == pytest.approx(0.0, abs=1e-6)


# By which weight ----------------------------------------------------------------------------------------------------


def test_the_weight_scales_the_gradient_and_at_0_there_is_none() -> None:
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
            given = [one.grad for one in actor.parameters() if one.grad is not None]
            gradients.append(torch.cat([one.reshape(-1) for one in given]) if given else None)
        assert gradients[0] is not None
        torch.testing.assert_close(gradients[1], gradients[0] / 2)
        assert gradients[2:] == [None, None]


def test_with_no_weight_nothing_changes(run: Train, tmp_path: Path) -> None:
    params = {"teacher": str(run("ppo")), "weight": 0}
    trained = [
        mygym.train(config("sac", tmp_path, steps=120, normalize=True, **more)).path
        for more in ({}, {"strategy": "distill", "strategy_params": params})
    ]
    assert len({(path / "policy.safetensors").read_bytes() for path in trained}) == 1


def test_by_default_the_weight_falls_over_the_run(tmp_path: Path) -> None:
    result = mygym.train(config("ppo", tmp_path, strategy="distill"))
    lines = [json.loads(line) for line in (result.path / "progress.jsonl").read_text().splitlines()]
    told = [line["strategy/weight"] for line in lines if "strategy/weight" in line]
    assert told == sorted(told, reverse=True)
    assert (told[0], 1.0 < told[-1] < 4.0) == (10.0, True)
    written = yaml.safe_load((result.path / "config.yaml").read_text())["strategy_params"]
    assert written["weight"] == {"schedule": "linear", "from": 10.0, "to": 1.0}


# Which teachers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ["dagger", "bc"])
def test_imitation_learns_from_a_run_that_sees_more(algo: str, run: Train) -> None:
    path = run("ppo", task="AGM", normalize=True)
    with student(algo, str(path), task="AGM", observations=FEW) as strategy:
        labels = []
        teacher: Any = strategy.model.teacher  # type: ignore[attr-defined]
        ask = teacher.act
        teacher.act = lambda seen: labels.append(ask(seen)) or labels[-1]
        strategy.model.learn(100)
        own = strategy.model.replay_buffer  # type: ignore[attr-defined]
        np.testing.assert_allclose(own.actions[: own.pos], labels[: own.pos], atol=1e-6)
        assert own.observations["observation"].shape[-1] < len(mygym.load(path).normalizer["observation"]["mean"])


def test_each_state_is_for_one_of_several_teachers(run: Train) -> None:
    paths = [run("ppo", seed=seed) for seed in (1, 2)]
    policies = [mygym.load(path) for path in paths]
    with student("td3", [str(path) for path in paths]) as strategy:
        env = strategy.training_env

        def look() -> Any:
            seen = [one["observation"] for one in env.env_method("state_dict")]
            joined = {key: np.stack([one[key] for one in seen]) for key in seen[0]}
            return [policy.predict(joined, deterministic=True)[0] for policy in policies]

        both = np.array(visit(strategy, 20, look)).swapaxes(0, 1)  # teacher, step, environment, action
        of = [np.isclose(answers(strategy), one, atol=1e-6).all(axis=-1) for one in both]
        assert (of[0] ^ of[1]).all()
        assert 0.2 < of[0].mean() < 0.8


def test_each_task_has_its_own_teacher(run: Train) -> None:
    push = run("ppo", task="push", spaces="shared")
    taught = {"teacher": {"reach": ORACLE, "push": str(push)}}
    params = {"multitask": {"tasks": ["reach", "push"]}, "distill": taught}
    said = config("sac", Path("nowhere"), strategy="multitask+distill", strategy_params=params, n_envs=3)
    resolved = from_python({**said, "normalize": False}).config
    with closing(factory.make_vec_env(resolved)) as env:
        env.seed(0)
        teachers = read_teachers(taught["teacher"], resolved, env)
        for _ in range(2):
            seen = env.reset()
            answer, played = teachers.act(seen), env.get_attr("variant")
            assert set(played) == {0, 1}
            expert, trained = np.stack(env.env_method("expert_action")), mygym.load(push)
            for row, variant in enumerate(played):
                alone = {key: part[row] for key, part in seen.items()}
                expected = expert[row] if variant == 0 else trained.predict(alone, deterministic=True)[0]
                np.testing.assert_allclose(answer[row], expected, atol=1e-6)


@pytest.mark.parametrize("normalize", [True, False])
def test_a_student_of_several_networks_sees_what_evaluations_see(normalize: bool, tmp_path: Path) -> None:
    params = {"experts": {"by": "sampler", "candidates": 2, "tries": 1}}
    said = config("ppo", tmp_path, strategy="distill+experts", strategy_params=params, normalize=normalize, steps=64)
    lines = (mygym.train(said).path / "progress.jsonl").read_text()
    assert "strategy/loss" in lines
    assert "strategy/usage_entropy" in lines


def test_a_run_goes_on_as_if_it_had_never_stopped(run: Train, tmp_path: Path) -> None:
    params = {"teacher": [ORACLE, str(run("ppo"))], "buffer_size": 60}  # overwritten
    said = {"strategy": "distill", "strategy_params": params, "normalize": True}
    reference = mygym.train(config("sac", tmp_path / "whole", **said))
    path = stopped(config("sac", tmp_path / "stopped", **said), step=150)
    mygym.train(resume=path)
    assert differences(reference.path, path) == []


def test_the_path_of_a_teacher_is_absolute(run: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run("ppo")
    monkeypatch.chdir(path.parent)
    said = config("dagger", tmp_path, strategy="distill", strategy_params={"teacher": [path.name, ORACLE]}, steps=32)
    written = yaml.safe_load((mygym.train(said).path / "config.yaml").read_text())
    assert written["strategy_params"]["teacher"] == [str(path), ORACLE]


# What does not fit --------------------------------------------------------------------------------------------------

REACH: dict[str, Any] = {"task": "reach"}
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no run": ("nowhere", REACH, r"strategy_params.teacher: '/.*nowhere' is not a run directory"),
    "no text": ({"reach": 5}, REACH, "strategy_params.teacher.reach: 5 names no teacher"),
    "nothing": ({"reach": None}, REACH, "strategy_params.teacher.reach: None names no teacher"),
    "objects": (
        ("ppo", {"task": "push"}),
        REACH,
        "it needs to see what is not there .*a run of the same task on panda",
    ),
    "sizes": (("ppo", {"task": "AGM"}), {"task": "AGMDW"}, "it was trained on observations of another size"),
    "actions": (("ppo", {"spaces": "shared"}), REACH, "it has 5 actions, and there are 3 here"),
    "control": (("ppo", {"control": "ee_absolute"}), REACH, "it moves the robot by ee_absolute.*control: ee_delta"),
    "memory": (("recurrent_ppo", {}), REACH, "acts on what it remembers"),
    "no teacher": ([], REACH, "names no teacher"),
    "no such task": ({"push": ORACLE}, REACH, r"strategy_params.teacher.push: 'oracle'.*not played; allowed: reach"),
    "a task without": ({}, REACH, "strategy_params.teacher.reach: None is missing"),
}


@pytest.mark.parametrize(("teacher", "own", "message"), REFUSED.values(), ids=REFUSED)
def test_a_teacher_that_does_not_fit_is_refused_before_anything_is_written(
    teacher: Any, own: dict[str, Any], message: str, run: Train, tmp_path: Path
) -> None:
    named = str(run(teacher[0], **teacher[1])) if isinstance(teacher, tuple) else teacher
    with pytest.raises(ConfigError, match=message) as error:
        mygym.train(config("ppo", tmp_path, strategy="distill", strategy_params={"teacher": named}, **own))
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
    ("algo", "message"),
    [
        ("ars", "requires actor optimizer; allowed: an algorithm of framework pytorch"),
        ("recurrent_ppo", "requires no memory"),
    ],
)
def test_a_student_that_cannot_be_taught_is_refused(algo: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        mygym.train(config(algo, tmp_path, strategy="distill"))
    assert not list(tmp_path.iterdir())
