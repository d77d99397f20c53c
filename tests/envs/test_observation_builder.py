"""Observations of named components, in order; components without values are refused."""

from __future__ import annotations

import numpy as np
import pytest

import mygym
from mygym.envs.robot_env import RobotEnv
from mygym.errors import MygymError, RegistryError
from mygym.tasks.observations import default_components, register_observation

NAMED = ("time", "object_from_ee", "ee_orientation", "goal_from_object", "touch", "stage")


def test_component_slices_are_correct() -> None:
    with RobotEnv("push", observations=NAMED) as env, RobotEnv("push") as default:
        assert tuple(env.components) == NAMED
        assert tuple(default.components) == default_components(default.task, cartesian=True, remembers_command=True)
        for instance in (env, default):
            instance.reset(seed=4)
        action = np.full(3, 0.5, np.float32)
        observation, other = env.step(action)[0], default.step(action)[0]
        assert observation["observation"][env.components["time"]] == pytest.approx(1 / env.task.horizon)
        np.testing.assert_array_equal(
            observation["observation"][env.components["object_from_ee"]],
            other["observation"][default.components["object_from_ee"]],
        )
        difference = observation["desired_goal"] - observation["achieved_goal"]
        np.testing.assert_allclose(
            observation["observation"][env.components["goal_from_object"]], difference, atol=1e-6
        )
        assert sum(component.stop - component.start for component in env.components.values()) == len(
            observation["observation"]
        )


def test_touch_and_finger_contact_follow_the_physics() -> None:
    with RobotEnv("pick_and_place", observations=["touch", "finger_contact"]) as env:
        first, _ = env.reset(seed=0)
        assert first["observation"].tolist() == [0, 0]
        touches = [env.step(env.expert_action())[0]["observation"].tolist() for _ in range(60)]
        assert touches[-1] == [1, 1]


@pytest.mark.parametrize(
    ("task", "observations", "words"),
    [
        ("push", ["object_postion"], "did you mean 'object_position'?"),
        (
            "reach",
            ["ee_position", "object_position"],
            "describes objects, and reach has none; allowed: boxes, centroids, command_offset",
        ),
        ("push", ["part_position"], "describes parts"),
        ("push", ["distractor_position"], "describes distractors"),
        ("push", ["second_ee_position"], "describes other arms"),
        ("push", ["waypoint"], "describes waypoints"),
        ("reach", ["goal_from_object"], "describes objects or parts"),
        ("push", ["ee_position", "ee_position"], "each name once"),
        ("push", [], "at least 1"),
    ],
)
def test_components_that_the_task_lacks_are_refused(task: str, observations: list[str], words: str) -> None:
    with pytest.raises(MygymError) as caught:
        RobotEnv(task, observations=observations)
    assert "observations: " in str(caught.value)
    assert words in str(caught.value)


def test_a_config_selects_components() -> None:
    with mygym.make_env({"task": "reach", "observations": ["joint_position", "ee_position"]}) as env:
        assert list(env.components.items()) == [("joint_position", slice(0, 7)), ("ee_position", slice(7, 10))]


def test_an_observation_stays_within_its_bounds() -> None:
    with RobotEnv("push", observations=["object_position"]) as env:
        env.reset(seed=0)
        env.world.state.object_position[:] = 7.0
        assert env.observation_space["observation"].contains(env._observer.observe()["observation"])


@pytest.mark.parametrize(("result", "kind"), [(None, "None"), (np.zeros(3), r"ndarray of shape \(3,\)")], ids=str)
def test_a_component_without_a_row_for_each_episode_is_refused_by_name(result: object, kind: str) -> None:
    register_observation("flat", bound=1.0)(lambda context: result)
    with pytest.raises(RegistryError, match=rf"^observation flat: result: '{kind}' .*{__file__}:.*shape \(N, d\)"):
        RobotEnv("reach", observations=["ee_position", "flat"])
