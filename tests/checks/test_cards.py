"""Cards: every named task meets all criteria, and flaws are detected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mygym import api
from mygym.checks.tasks import (
    CRITERIA,
    EXPERT,
    IDLE,
    RESETS_PER_EPISODE,
    REWARDS,
    Card,
    at_least,
    at_most,
    flaws,
    inconclusive,
    make_card,
)
from mygym.checks.tasks import EPISODES as ALL_EPISODES
from mygym.envs import supported
from mygym.envs.robot_env import RobotEnv
from mygym.envs.supported import a_robot_for
from mygym.registry import registry
from mygym.tasks.lookup import find_task
from mygym.tasks.task import register_task
from mygym.training.evaluation import EXTRA, episode_seeds, evaluate_policy
from tests.components import TASKS, slow_except

EPISODES = 3


@pytest.mark.parametrize(
    "task", slow_except(TASKS, ("reach", "poke", "press", "nudge", "lift", "throw", "turn").__contains__)
)
def test_an_episode_of_every_task_shows_no_flaws(task: str) -> None:
    card = make_card({"task": task}, 1)
    assert (card.expert.success_rate, card.solved_at_reset) == (1.0, ())
    findings = flaws(card)
    if task == "reach":  # chance may solve a single episode
        findings.pop("chance does not", None)
    assert not findings


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_card_of_every_task_has_no_flaws(task: str) -> None:
    card = make_card({"task": task})
    assert not flaws(card)
    assert card.resets == 600
    for policy in IDLE:
        assert task == "reach" or at_most(card.evaluations[policy].solved, ALL_EPISODES) < 0.08


def test_the_numbers_of_episodes_give_the_documented_confidence() -> None:
    assert at_most(0, RESETS_PER_EPISODE * ALL_EPISODES) <= 0.005
    assert at_most(0, ALL_EPISODES) == pytest.approx(1 - 0.05 ** (1 / ALL_EPISODES))  # (1 − p)^n = 5 %
    assert at_most(0, ALL_EPISODES) < 0.03
    assert at_most(5, 5) == 1.0
    assert at_least(ALL_EPISODES, ALL_EPISODES) == pytest.approx(0.05 ** (1 / ALL_EPISODES))
    assert at_least(97, 100) == pytest.approx(0.9241, abs=1e-3)
    assert at_least(0, 5) == 0.0


@pytest.fixture(scope="module")
def push() -> Card:
    return make_card({"task": "push", "robot": "kuka", "control": "joint_delta"}, EPISODES)


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("policy", [EXPERT, "hover"])
def test_returns_equal_those_of_an_environment_with_that_reward(policy: str, reward: str, push: Card) -> None:
    env = api.make_env({"task": "push", "robot": "kuka", "control": "joint_delta", "reward": reward})
    seeds = episode_seeds(0, EXTRA, EPISODES)
    evaluation = evaluate_policy(registry("policy").get(policy).load()([env], 0), [env], seeds)
    env.close()
    assert push.returns[policy][reward] == pytest.approx(evaluation.mean_return, abs=1e-5)


def test_a_card_names_robot_workspace_and_policies(push: Card) -> None:
    content = push.to_json()
    assert (content["robot"], content["workspace"], content["control"]) == ("kuka", "table", "joint_delta")
    assert (content["episodes"], content["resets"], content["solved_at_reset"]) == (3, 18, 0.0)
    assert list(content["policies"]) == [EXPERT, *IDLE]
    assert content["policies"]["hover"]["stage_reached"] == {"push": 3}
    assert content["flaws"] == {}


def test_few_episodes_are_inconclusive_and_many_are_conclusive(push: Card) -> None:
    findings = inconclusive(push)
    assert [text.split(" ")[0] for text in findings] == ["up", "the", "random"]
    assert "15.3%" in findings[0]  # 1 − 0.05^(1/18)
    assert "36.8%" in findings[1]  # 0.05^(1/3)
    assert "63.2%" in findings[2]
    many = {
        policy: replace(evaluation, episodes=evaluation.episodes * 40)
        for policy, evaluation in push.evaluations.items()
    }
    assert inconclusive(replace(push, evaluations=many, resets=720)) == []


def test_each_criterion_detects_its_flaw(push: Card) -> None:
    """Each criterion is tested on a card that fails this criterion only."""
    episodes = tuple(replace(episode, success=True) for episode in push.expert.episodes)
    solved = replace(push.expert, episodes=episodes)
    failed = push.evaluations["zero"]
    changes_of: dict[str, dict[str, Any]] = {
        "not solved at reset": {"solved_at_reset": (7,)},
        "expert solves it": {"evaluations": {**push.evaluations, EXPERT: failed}},
        "chance does not": {"evaluations": {**push.evaluations, "hover": solved}},
        "worth solving": {"returns": {**push.returns, "hover": {**push.returns["hover"], "dense": 0.0}}},
    }
    assert list(changes_of) == list(CRITERIA)
    for criterion, changes in changes_of.items():
        assert list(flaws(replace(push, **changes))) == [criterion]
    finding = flaws(replace(push, **changes_of["expert solves it"]))["expert solves it"]
    assert "0 of 3 episodes" in finding
    assert f"3 in approach, first seed {failed.failures[0].seed}" in finding
    finding = flaws(replace(push, **changes_of["worth solving"]))["worth solving"]
    assert finding.startswith("with the dense reward hover earns 0.00, the expert -")


def test_a_task_that_chance_solves_is_detected() -> None:
    register_task("easy", "A", help="a task with a large tolerance", tolerance=0.15, hold=1, horizon=100)
    assert "random actions solve" in flaws(make_card({"task": "easy"}, 10))["chance does not"]


def test_a_task_that_is_solved_at_the_reset_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mygym.envs.placement.sample_in", lambda rng, area, *_: (area[0] + area[1]) / 2)
    register_task("done", "A", help="a task that is solved at the reset", tolerance=0.3)
    card = make_card({"task": "done"}, 2)
    assert len(card.solved_at_reset) == 2 * RESETS_PER_EPISODE
    assert flaws(card)["not solved at reset"].startswith("12 of 12 episodes are solved at the reset, e.g. with seed ")


def test_a_robot_that_can_do_the_task_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert a_robot_for(find_task("pick_and_place")) == "panda"
    assert a_robot_for(find_task("AGM"), "maze") == "panda"
    monkeypatch.setattr(supported, "_obstacle", lambda robot, task: "" if robot.name == "kuka_gripper" else "cannot")
    assert a_robot_for(find_task("pick_and_place")) == "kuka_gripper"
    monkeypatch.setattr(supported, "_obstacle", lambda robot, task: "cannot")
    assert a_robot_for(find_task("pick_and_place")) == "panda"  # the error of its environment names the missing parts


@pytest.mark.parametrize("task", ["reach", "push", "open_drawer"])
def test_hovering_approaches_the_target_without_solving(task: str) -> None:
    env = RobotEnv(task)
    policy = registry("policy").get("hover").load()([env], 0)
    env.reset(seed=0)
    for _ in range(25):
        action = policy.predict(None)[0][0]
        _, _, _, _, info = env.step(action)
    target = {"reach": lambda: env.goals[0, 0], "push": lambda: env.world.state.object_position[0, 0]}
    position = target.get(task, lambda: env.world.state.part_handle_position[0, 0])()
    distance = np.linalg.norm(env.world.state.ee_position[0] - position)
    env.close()
    assert distance == pytest.approx(0.075 if task == "reach" else 0.07, abs=0.01)
    assert not info["is_success"]
