"""Discrete actions: their commands, spaces, experts, and the users of actions that refuse them."""

from __future__ import annotations

import contextlib
import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import mygym
from benchmarks.kills import differences
from mygym.config import config_hash
from mygym.demonstrations.recording import replay_episode
from mygym.envs.discrete_actions import MAX_ACTIONS, DiscreteActions
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.planning.plan import plan_of
from mygym.planning.resolve import resolve_config
from mygym.registry import algorithm, registry
from mygym.training import env_factory, model_factory
from tests.components import ALGORITHMS, CONTROLS, small
from tests.conftest import ROOT
from tests.episodes import play
from tests.training.test_resuming import config, stopped

COMBINED = {"discrete": 3, "combined": True}
FORMS = pytest.mark.parametrize("combined", [False, True])


# Commands -------------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    names=st.lists(st.sampled_from(["ee_x", "joint", "gripper", "second_gripper"]), min_size=1, max_size=4),
    values=st.integers(2, 5),
    combined=st.booleans(),
    data=st.data(),
)
def test_each_action_is_the_nearest_of_its_command(names: list[str], values: int, combined: bool, data: Any) -> None:
    actions = DiscreteActions(names, values, combined)
    seed = data.draw(st.integers(0, 2**31))
    actions.space.seed(seed)
    for _ in range(5):
        action = actions.space.sample()
        command = actions.command(action)
        assert command.shape == (len(names),)
        assert np.abs(command).max() <= 1.0
        assert np.array_equal(actions.nearest(command), action)
    wanted = np.random.default_rng(seed).uniform(-1.5, 1.5, len(names))
    grids = [np.linspace(-1, 1, 2 if name.endswith("gripper") else values) for name in names]
    best = [np.abs(grid - component).min() for grid, component in zip(grids, wanted, strict=True)]
    np.testing.assert_allclose(np.abs(actions.command(actions.nearest(wanted)) - wanted), best, atol=1e-12)


def test_combined_actions_are_all_combinations() -> None:
    actions = DiscreteActions(("ee_x", "gripper"), 3, combined=True)
    commands = [actions.command(number).tolist() for number in range(6)]
    assert commands == [[-1, -1], [-1, 1], [0, -1], [0, 1], [1, -1], [1, 1]]


# Environments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", CONTROLS)
def test_the_space_has_the_components_of_the_controller(control: str) -> None:
    with RobotEnv("pick_and_place", control=control, actions={"discrete": 5}) as env:
        *arm, gripper = env.action_space.nvec
        assert (set(arm), gripper, len(arm) + 1) == ({5}, 2, env.world.action_size)


@FORMS
def test_a_step_is_that_of_the_command(combined: bool) -> None:
    with RobotEnv("AG", actions={"discrete": 3, "combined": combined}) as env, RobotEnv("AG") as continuous:
        env.action_space.seed(1)
        first, second = env.reset(seed=1), continuous.reset(seed=1)
        for _ in range(8):
            action = env.action_space.sample()
            first, second = env.step(action), continuous.step(env.discrete.command(action))
            assert pickle.dumps(first) == pickle.dumps(second)


@FORMS
@pytest.mark.parametrize("action", [-1, 27, 1.0, [0.0, 1.0, 1.0], [0, 1, 3], [0, 1], None])
def test_an_action_outside_the_space_is_refused(combined: bool, action: Any, discrete_envs: Any) -> None:
    with pytest.raises(ValueError, match="is not in"):
        discrete_envs[combined].step(np.array(action) if isinstance(action, list) else action)


@pytest.fixture(scope="module")
def discrete_envs() -> Any:
    envs = [
        gymnasium.make("mygym/Reach-v0", actions={"discrete": 3, "combined": combined}) for combined in (False, True)
    ]
    for env in envs:
        env.reset(seed=0)
    yield [env.unwrapped for env in envs]
    for env in envs:
        env.close()


@FORMS
@pytest.mark.parametrize("name", registry("policy").names())
def test_policies_without_training_act(name: str, combined: bool, discrete_envs: Any) -> None:
    env = discrete_envs[combined]
    if isinstance(registry("policy").get(name).load(), dict):
        pytest.skip("a policy that is trained")
    policy = registry("policy").get(name).load()([env, env], 0)
    actions, _ = policy.predict(env.observation_space.sample())
    assert len(actions) == 2
    assert all(env.action_space.contains(action) for action in actions)


@FORMS
def test_the_expert_solves_reach(combined: bool, discrete_envs: Any) -> None:
    """The step of 5 cm leaves it up to 4.3 cm from the goal, which is within the tolerance."""
    env = discrete_envs[combined]
    assert all(play(env, seed)[-1][4]["is_success"] for seed in range(20))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"actions": {"discrete": 3, "combined": True}, "control": "joint_delta"},
            f"2187 combinations.*at most {MAX_ACTIONS}",
        ),
        ({"actions": {"combined": True}}, "actions.combined: True needs discrete actions"),
        ({"actions": {"discrete": 1}}, r"actions\.discrete: 1.*equal to 2"),
        ({"actions": {"discrete": 2.5}}, "actions.discrete: 2.5"),
        ({"actions": {"discrte": 3}}, "did you mean 'discrete'"),
        ({"actions": 3}, "actions: 3"),
    ],
)
def test_invalid_forms_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        RobotEnv(**arguments)


# Runs -----------------------------------------------------------------------------------------------------------------


def test_continuous_actions_do_not_change_the_hash_of_a_config() -> None:
    values = resolve_config().values()
    older = {key: value for key, value in values.items() if key != "actions"}
    assert config_hash(values) == config_hash(older)
    assert config_hash({**values, "actions": {"discrete": 3, "combined": False}}) != config_hash(older)


def acts(algo: str, **actions: Any) -> bool:
    """Build an algorithm, and return whether its first actions are in the action space."""
    settings = {"algo": algo, "algo_params": small(algo), "actions": actions, "n_envs": 2}
    plan = plan_of(resolve_config(overrides=settings))
    with contextlib.closing(env_factory.make_vec_env(plan)) as env:
        predicted, _ = model_factory.build_model(plan, env).predict(env.reset())
        return all(env.action_space.contains(action) for action in predicted)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_each_algorithm_takes_the_actions_or_names_the_remedy(algo: str) -> None:
    """With a number for each component, which no algorithm prefers."""
    form = {"discrete": 3, "combined": False}
    requirements = [name for name in algorithm(algo).requires if name.endswith("_actions")]
    if not requirements:
        assert acts(algo, **form)
        return
    with pytest.raises(ConfigError) as error:
        acts(algo, **form)
    assert f"requires {requirements[0].replace('_', ' ')}" in str(error.value)
    assert "its actions 3 numbers below 3, 3, 3; allowed: actions: {discrete: " in str(error.value)


def test_the_document_lists_the_actions_of_each_algorithm() -> None:
    text = (ROOT / "docs" / "discrete_actions.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (continuous|discrete, .*|continuous, or .*|any) \| (`.*) \|$", text, re.M))
    listed = {form: set(re.findall(r"`(\w+)`", names)) - {"distill", "demos"} for form, names in rows.items()}
    known: dict[str, set[str]] = {}
    for entry in registry("algorithm"):
        if entry.origin.startswith("mygym."):
            requires = [name for name in algorithm(entry.name).requires if name.endswith("_actions")]
            known.setdefault(requires[0] if requires else "any", set()).add(entry.name)
    assert sorted(map(sorted, listed.values())) == sorted(map(sorted, known.values()))


@pytest.mark.parametrize("algo", ["ars", "cem", "ppo"])
def test_further_algorithms_take_combined_actions(algo: str) -> None:
    assert acts(algo, **COMBINED)


@pytest.mark.parametrize("strategy", ["distill", "demos"])
def test_strategies_that_imitate_need_continuous_actions(strategy: str, tmp_path: Path) -> None:
    values = {"algo": "ppo", "actions": {"discrete": 3}, "strategy": strategy, "logdir": str(tmp_path / "runs")}
    with pytest.raises(ConfigError, match=f"strategy: '{strategy}' requires continuous actions"):
        mygym.train(values)
    assert not (tmp_path / "runs").exists()


@FORMS
def test_demonstrations_are_stored_and_replayed(combined: bool, tmp_path: Path) -> None:
    values = {"algo": "dqn" if combined else "ppo", "actions": {"discrete": 3}}
    recorded = mygym.demonstrate(values, out=tmp_path / "demos", episodes=2, partial=0.7)
    with mygym.make_env(values) as env:
        assert recorded.action_space == env.action_space
        for episode in recorded.episodes:
            assert episode.actions.dtype == np.int64
            assert replay_episode(episode, env) is None
    with pytest.raises(ConfigError, match=r"noise: 0\.1"):
        mygym.demonstrate(values, out=tmp_path / "more", episodes=1, noise=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "more"),
    [("ppo", {}), ("ppo", {"strategy": "curriculum", "task": "AG"}),
     ("dqn", {"strategy": "multitask", "spaces": "shared", "strategy_params": {"tasks": ["reach", "push"]}}),
     ],
    ids=str,
)  # fmt: skip
def test_runs_resume_exactly(algo: str, more: dict[str, Any], tmp_path: Path) -> None:
    values = {"actions": {"discrete": 3}, **more}
    reference = mygym.train(config(algo, tmp_path / "whole", **values))
    run = stopped(config(algo, tmp_path / "stopped", **values), step=150)
    mygym.train(resume=run)
    assert differences(reference.path, run) == []


def test_the_spaces_are_those_of_gymnasium() -> None:
    with RobotEnv(actions=COMBINED) as env, RobotEnv(actions={"discrete": 3}) as other:
        assert env.action_space == spaces.Discrete(27)
        assert other.action_space == spaces.MultiDiscrete([3, 3, 3])
