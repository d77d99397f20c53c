"""Episodes of tasks with several sub-tasks: solved in order, rewarded by goal vectors, exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pybullet
import pytest

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.training.evaluation import evaluate_policy
from tests.components import CONTROLS, slow_except
from tests.episodes import play
from tests.tasks.states import SAME_AGAIN, STACK

PUSH_THEN_REACH = [{"stages": ["approach", "push", "withdraw"], "object": "cube"}, {"stages": "A"}]
TASKS = {"stack": STACK, "push, reach": PUSH_THEN_REACH, "same again": SAME_AGAIN}


@pytest.mark.parametrize("task", TASKS)
def test_the_expert_solves_sub_tasks_in_order(task: str, cached_env: Any) -> None:
    solved = 0
    for seed in range(3):
        results = play(env := cached_env(task=TASKS[task]), seed)
        solved += results[-1][4]["is_success"]
        assert results[0][4]["stage"] == 0
        steps = np.diff([result[4]["stage"] for result in results])
        assert (steps <= 1).all()  # advances one stage at a time, and may return
        assert (
            max(result[4]["stage"] for result in results)
            == results[-1][4]["stages_done"]
            <= len(env.task.stage_bindings)
        )
    assert solved == 3


@pytest.mark.parametrize("reward", ["sparse", "dense"])
def test_relabelled_rewards_equal_those_of_an_environment_with_those_goals(reward: str) -> None:
    """The goals of the relabelled episode are goals achieved in the first."""
    with RobotEnv(STACK, reward=reward) as env:
        results = play(env, 2)[1:]
        actions = list(env._actions)
        achieved = np.array([result[0]["achieved_goal"] for result in results])
        middle = achieved[len(achieved) // 2].copy()
        middle[6:] = 1.0  # desired flags are always true
        relabelled = env.compute_reward(achieved, np.tile(middle, (len(achieved), 1)), [{}] * len(achieved))
        env.reset(seed=2)
        env._episodes.goals[0] = middle[:6].reshape(2, 3)
        env._observer.desired = env.builder.desired_goal(env._episodes.goals)
        np.testing.assert_array_equal(env._observer.desired, middle)
        np.testing.assert_array_equal(relabelled, [env.step(action)[1] for action in actions])


@pytest.mark.parametrize("control", slow_except(CONTROLS, ("ee_delta_smooth", "joint_torque").__contains__))
def test_seeds_and_states_are_exact(control: str) -> None:
    params = {"distractors": ["ball"], "rotation": [-0.3, 0.3]}
    with RobotEnv(STACK, control=control, task_params=params) as env:
        first = play(env, 7)
        play(env, 8)
        again = play(env, 7)
        state = env.state_dict()
        assert [result[1:] for result in again] == [result[1:] for result in first]
        for a, b in zip(first, again, strict=True):
            for key, value in a[0].items():
                np.testing.assert_array_equal(value, b[0][key])
        with RobotEnv(STACK, control=control, task_params=params) as other:
            for key, value in other.load_state_dict(state).items():
                np.testing.assert_array_equal(value, again[-1][0][key])


def test_observations_contain_all_objects_of_the_task() -> None:
    with RobotEnv("push") as push, RobotEnv(STACK, task_params={"distractors": ["ball"]}) as stack:
        for env in (push, stack):
            observation, _ = env.reset(seed=0)
            for _ in range(5):
                assert env.observation_space.contains(observation)
                observation, *_ = env.step(env.action_space.sample())
        assert len(stack.world.objects) == 3
        sizes = [env.observation_space["observation"].shape[0] for env in (push, stack)]
        stages, gripper, objects = 11 - 3, 1, 3 + 3 + 4 + 3 + 3
        assert sizes[1] - sizes[0] == stages + gripper + objects


@pytest.mark.parametrize("slot", [0, 1])
def test_the_episode_is_truncated_when_any_object_of_the_task_leaves(slot: int, cached_env: Any) -> None:
    env = cached_env(task=STACK, task_params={"distractors": ["ball"]})
    env.reset(seed=0)
    world = env.world
    beside = (world.workspace.bounds.high[0] + 0.1, 0.0, 0.1)
    pybullet.resetBasePositionAndOrientation(
        world.object_bodies.ids[slot], beside, (0, 0, 0, 1), physicsClientId=world.client
    )
    *_, terminated, truncated, info = env.step(np.zeros(env.action_space.shape, dtype=np.float32))
    assert (terminated, truncated, info["failed"]) == (False, True, True)


def test_a_distractor_may_leave(cached_env: Any) -> None:
    env = cached_env(task=STACK, task_params={"distractors": ["ball"]})
    env.reset(seed=0)
    world = env.world
    beside = (world.workspace.bounds.high[0] + 0.1, 0.0, 0.1)
    pybullet.resetBasePositionAndOrientation(
        world.object_bodies.ids[2], beside, (0, 0, 0, 1), physicsClientId=world.client
    )
    *_, truncated, info = env.step(np.zeros(env.action_space.shape, dtype=np.float32))
    assert (truncated, info["failed"]) == (False, False)


def test_roles_have_the_objects_of_the_task_or_the_user(cached_env: Any) -> None:
    names = [[spec.name for spec in cached_env(task=STACK).world.objects]]
    with RobotEnv(STACK, task_params={"objects": {"die": "apple"}, "object": "block"}) as env:
        names.append([spec.name for spec in env.world.objects])
    assert names == [["cube", "die"], ["block", "apple"]]


def test_objects_have_the_colours_of_their_roles() -> None:
    images = []
    for colors in ({}, {"die": [0.0, 0.0, 1.0, 1.0]}):
        with RobotEnv(STACK, render_mode="rgb_array", task_params={"colors": colors}) as env:
            env.reset(seed=0)
            images.append(env.render().astype(int))
    blue = [((p[..., 2] > 120) & (p[..., 2] > p[..., 0] + 60) & (p[..., 2] > p[..., 1] + 60)).sum() for p in images]
    assert blue[0] == 0
    assert blue[1] > 20


def test_the_visible_goal_is_that_of_the_active_sub_task(cached_env: Any) -> None:
    env = cached_env(task=STACK)
    env.reset(seed=0)
    ended = False
    while not ended:
        _, _, terminated, truncated, info = env.step(env.expert_action())
        np.testing.assert_array_equal(env._episodes.visible_goal(), env.goals[0, int(info["stage"] >= 5)])
        ended = terminated or truncated
    assert terminated


def test_distractors_need_no_object_and_unused_areas_are_refused() -> None:
    box = {"low": [-0.05, 0.1, 0.0], "high": [0.05, 0.15, 0.0]}
    with RobotEnv("reach", task_params={"distractors": ["cube", "die"]}) as env:
        assert env.world.state.object_position.shape == (1, 2, 3)
    with pytest.raises(ConfigError, match="did you mean 'die_start'"):
        RobotEnv(STACK, task_params={"areas": {"dice_start": box}})
    with RobotEnv(STACK, task_params={"areas": {"die_start": box}}) as env:
        env.reset(seed=0)
        assert env.world.state.object_position[0, 1, 1] > 0.09


def test_results_label_stages_by_their_object() -> None:
    with RobotEnv(STACK, task_params={"horizon": 25}) as env:
        evaluation = evaluate_policy(registry("policy").get("oracle").load()([env], 0), [env], range(3))
        ended = {episode.final_stage for episode in evaluation.episodes}
    assert ended <= {*env.task.labels, "done"}
    assert any(name.endswith("die") for name in ended)
