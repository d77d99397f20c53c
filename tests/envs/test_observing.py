"""What environments observe when they are told: named components, in order, refused where there is nothing to see."""

from __future__ import annotations

import numpy as np
import pytest

import mygym
from mygym.envs.robot_env import RobotEnv
from mygym.errors import MygymError
from mygym.tasks.observations import default_components

NAMED = ("time", "object_from_ee", "ee_orientation", "goal_from_object", "touch", "stage")


def test_components_are_where_they_are_said_to_be() -> None:
    with RobotEnv("push", observations=NAMED) as env, RobotEnv("push") as usual:
        assert tuple(env.components) == NAMED
        assert tuple(usual.components) == default_components(usual.task, cartesian=True, remembers_command=True)
        for now in (env, usual):
            now.reset(seed=4)
        action = np.full(3, 0.5, np.float32)
        seen, other = env.step(action)[0], usual.step(action)[0]
        assert seen["observation"][env.components["time"]] == pytest.approx(1 / env.task.horizon)
        np.testing.assert_array_equal(
            seen["observation"][env.components["object_from_ee"]],
            other["observation"][usual.components["object_from_ee"]],
        )
        way = seen["desired_goal"] - seen["achieved_goal"]
        np.testing.assert_allclose(seen["observation"][env.components["goal_from_object"]], way, atol=1e-6)
        assert sum(place.stop - place.start for place in env.components.values()) == len(seen["observation"])


def test_touch_and_finger_contact_are_the_physics_own() -> None:
    with RobotEnv("pick_and_place", observations=["touch", "finger_contact"]) as env:
        first, _ = env.reset(seed=0)
        assert first["observation"].tolist() == [0, 0]
        seen = [env.step(env.expert_action())[0]["observation"].tolist() for _ in range(60)]
        assert seen[-1] == [1, 1]


@pytest.mark.parametrize(
    ("task", "observations", "words"),
    [
        ("push", ["object_postion"], "did you mean 'object_position'?"),
        ("reach", ["ee_position", "object_position"], "about objects, and reach is without; allowed: command_offset"),
        ("push", ["part_position"], "tells about parts"),
        ("push", ["distractor_position"], "tells about distractors"),
        ("push", ["second_ee_position"], "tells about other arms"),
        ("push", ["waypoint"], "tells about waypoints"),
        ("reach", ["goal_from_object"], "tells about objects or parts"),
        ("push", ["ee_position", "ee_position"], "each name once"),
        ("push", [], "at least 1"),
    ],
)
def test_what_is_not_there_cannot_be_observed(task: str, observations: list[str], words: str) -> None:
    with pytest.raises(MygymError) as caught:
        RobotEnv(task, observations=observations)
    assert "observations: " in str(caught.value)
    assert words in str(caught.value)


def test_a_config_names_them() -> None:
    with mygym.make_env({"task": "reach", "observations": ["joint_position", "ee_position"]}) as env:
        assert list(env.components.items()) == [("joint_position", slice(0, 7)), ("ee_position", slice(7, 10))]


def test_an_observation_stays_within_its_bounds() -> None:
    with RobotEnv("push", observations=["object_position"]) as env:
        env.reset(seed=0)
        env.world.state.object_position[:] = 7.0
        assert env.observation_space["observation"].contains(env._observe()["observation"])
