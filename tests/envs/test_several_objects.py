"""Episodes of tasks with several sub-tasks: solved in order, paid by goal vectors alone, repeated to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pybullet
import pytest

from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.runs.evaluation import evaluate_policy
from mygym.tasks import goals
from tests.components import CONTROLS
from tests.tasks.states import SAME_AGAIN, STACK

PUSH_THEN_REACH = [{"stages": ["approach", "push", "withdraw"], "object": "cube"}, {"stages": "A"}]
TASKS = {"stack": STACK, "push, reach": PUSH_THEN_REACH, "same again": SAME_AGAIN}


@pytest.fixture(scope="module")
def made() -> Iterator[Any]:
    """Environments by their keywords, each built once."""
    envs: dict[str, RobotEnv] = {}

    def make(task: str, **keywords: Any) -> RobotEnv:
        key = repr((task, sorted(keywords.items())))
        if key not in envs:
            envs[key] = RobotEnv(TASKS[task], **keywords)
        return envs[key]

    yield make
    for env in envs.values():
        env.close()


def played(env: RobotEnv, seed: int) -> list[Any]:
    """Everything that an expert's episode shows."""
    observation, info = env.reset(seed=seed)
    seen: list[Any] = [(observation, 0.0, False, False, info)]
    while not (seen[-1][2] or seen[-1][3]):
        seen.append(env.step(env.expert_action()))
    return seen


@pytest.mark.parametrize("said", TASKS)
def test_the_expert_solves_tasks_of_several_sub_tasks_in_order(said: str, made: Any) -> None:
    solved = 0
    for seed in range(10):
        seen = played(env := made(said), seed)
        solved += seen[-1][4]["is_success"]
        assert seen[0][4]["stage"] == 0
        steps = np.diff([one[4]["stage"] for one in seen])
        assert (steps <= 1).all()  # one stage at a time, though it may go back
        assert max(one[4]["stage"] for one in seen) == seen[-1][4]["stages_done"] <= len(env.task.bound_stages)
    assert solved >= 9


@pytest.mark.parametrize("reward", ["sparse", "dense"])
@pytest.mark.parametrize("said", TASKS)
def test_a_batch_of_rewards_is_the_rewards_of_the_steps(said: str, reward: str, made: Any) -> None:
    env = made(said, reward=reward)
    seen = played(env, 1)[1:]
    achieved, desired = (np.array([one[0][f"{key}_goal"] for one in seen]) for key in ("achieved", "desired"))
    rewards = env.compute_reward(achieved, desired, [{}] * len(seen))
    np.testing.assert_allclose(rewards, [one[1] for one in seen], rtol=1e-6)  # float32, summed in another order
    for observation, value, terminated, _, info in seen:
        assert env.compute_reward(observation["achieved_goal"], observation["desired_goal"], info) == value
        assert not terminated or goals.goal_reached(
            env._goal_space, observation["achieved_goal"], observation["desired_goal"]
        )
    assert len({one[1] for one in seen}) > 1


@pytest.mark.parametrize("reward", ["sparse", "dense"])
def test_relabelled_rewards_are_those_of_an_environment_with_those_goals(reward: str) -> None:
    """The goals of the relabelled episode are where the first one got to."""
    with RobotEnv(STACK, reward=reward) as env:
        seen = played(env, 2)[1:]
        actions = list(env._actions)
        achieved = np.array([one[0]["achieved_goal"] for one in seen])
        middle = achieved[len(achieved) // 2].copy()
        middle[6:] = 1.0  # nobody desires a flag that is wrong
        relabelled = env.compute_reward(achieved, np.tile(middle, (len(achieved), 1)), [{}] * len(achieved))
        env.reset(seed=2)
        env._goals[0] = middle[:6].reshape(2, 3)
        env._desired = goals.desired_goal(env._goal_space, env._goals)[0].astype(np.float32)
        np.testing.assert_array_equal(env._desired, middle)
        np.testing.assert_array_equal(relabelled, [env.step(action)[1] for action in actions])


@pytest.mark.parametrize("said", TASKS)
def test_the_staged_reward_is_sparse_plus_a_telescoping_sum(said: str, made: Any) -> None:
    env, gamma = made(said, reward="staged", gamma=0.95), 0.95
    env.reset(seed=3)
    before = float(env._potential[0])
    seen = played(env, 3)[1:]
    sparse = [env.compute_reward(one[0]["achieved_goal"], one[0]["desired_goal"], {}) for one in seen]
    total = sum(gamma**t * (one[1] - float(sparse[t])) for t, one in enumerate(seen))
    assert seen[-1][4]["is_success"]
    assert before < 0
    assert total == pytest.approx(-before, abs=1e-6)


@pytest.mark.parametrize("control", CONTROLS)
def test_a_seed_gives_the_same_episode_to_the_bit_and_a_state_is_replayed(control: str) -> None:
    params = {"distractors": ["ball"], "rotation": [-0.3, 0.3]}
    with RobotEnv(STACK, control=control, task_params=params) as env:
        first = played(env, 7)
        played(env, 8)
        again = played(env, 7)
        state = env.state_dict()
        assert [one[1:] for one in again] == [one[1:] for one in first]
        for a, b in zip(first, again, strict=True):
            for key, value in a[0].items():
                np.testing.assert_array_equal(value, b[0][key])
        with RobotEnv(STACK, control=control, task_params=params) as other:
            for key, value in other.load_state_dict(state).items():
                np.testing.assert_array_equal(value, again[-1][0][key])


def test_observations_have_their_spaces_and_all_objects_of_the_task() -> None:
    with RobotEnv("push") as one, RobotEnv(STACK, task_params={"distractors": ["ball"]}) as two:
        for env in (one, two):
            observation, _ = env.reset(seed=0)
            for _ in range(5):
                assert env.observation_space.contains(observation)
                observation, *_ = env.step(env.action_space.sample())
        assert len(two.world.objects) == 3
        sizes = [env.observation_space["observation"].shape[0] for env in (one, two)]
        stages, gripper, objects = 11 - 3, 1, 3 + 3 + 4 + 3 + 3
        assert sizes[1] - sizes[0] == stages + gripper + objects


@pytest.mark.parametrize("slot", [0, 1])
def test_the_episode_is_cut_off_when_any_object_of_the_task_leaves(slot: int, made: Any) -> None:
    env = made("stack", task_params={"distractors": ["ball"]})
    env.reset(seed=0)
    world = env.world
    beside = (world.workspace.bounds.high[0] + 0.1, 0.0, 0.1)
    pybullet.resetBasePositionAndOrientation(world._bodies[slot], beside, (0, 0, 0, 1), physicsClientId=world._client)
    *_, terminated, truncated, info = env.step(np.zeros(env.action_space.shape, dtype=np.float32))
    assert (terminated, truncated, info["failed"]) == (False, True, True)


def test_a_distractor_may_leave(made: Any) -> None:
    env = made("stack", task_params={"distractors": ["ball"]})
    env.reset(seed=0)
    world = env.world
    beside = (world.workspace.bounds.high[0] + 0.1, 0.0, 0.1)
    pybullet.resetBasePositionAndOrientation(world._bodies[2], beside, (0, 0, 0, 1), physicsClientId=world._client)
    *_, truncated, info = env.step(np.zeros(env.action_space.shape, dtype=np.float32))
    assert (truncated, info["failed"]) == (False, False)


def test_roles_are_played_by_the_objects_that_the_task_or_the_user_names(made: Any) -> None:
    names = [[spec.name for spec in made("stack").world.objects]]
    with RobotEnv(STACK, task_params={"objects": {"die": "apple"}, "object": "block"}) as env:
        names.append([spec.name for spec in env.world.objects])
    assert names == [["cube", "die"], ["block", "apple"]]


def test_objects_are_seen_in_the_colours_of_their_roles() -> None:
    pictures = []
    for colors in ({}, {"die": [0.0, 0.0, 1.0, 1.0]}):
        with RobotEnv(STACK, render_mode="rgb_array", task_params={"colors": colors}) as env:
            env.reset(seed=0)
            pictures.append(env.render().astype(int))
    blue = [((p[..., 2] > 120) & (p[..., 2] > p[..., 0] + 60) & (p[..., 2] > p[..., 1] + 60)).sum() for p in pictures]
    assert blue[0] == 0
    assert blue[1] > 20


def test_the_goal_that_is_drawn_is_that_of_the_sub_task_under_way(made: Any) -> None:
    env = made("stack")
    env.reset(seed=0)
    ended = False
    while not ended:
        _, _, terminated, truncated, info = env.step(env.expert_action())
        np.testing.assert_array_equal(env._marked(), env.goals[0, int(info["stage"] >= 5)])
        ended = terminated or truncated
    assert terminated


def test_distractors_lie_about_without_an_object_and_areas_that_nobody_draws_from_are_refused() -> None:
    box = {"low": [-0.05, 0.1, 0.0], "high": [0.05, 0.15, 0.0]}
    with RobotEnv("reach", task_params={"distractors": ["cube", "die"]}) as env:
        assert env.world.state.object_position.shape == (1, 2, 3)
    with pytest.raises(ConfigError, match="did you mean 'die_start'"):
        RobotEnv(STACK, task_params={"areas": {"dice_start": box}})
    with RobotEnv(STACK, task_params={"areas": {"die_start": box}}) as env:
        env.reset(seed=0)
        assert env.world.state.object_position[0, 1, 1] > 0.09


def test_results_call_stages_by_what_they_act_on() -> None:
    with RobotEnv(STACK, task_params={"horizon": 25}) as env:
        evaluation = evaluate_policy(registry("policy").get("oracle").load()([env], 0), [env], range(3))
        ended = {episode.final_stage for episode in evaluation.episodes}
    assert ended <= {*env.task.labels, "done"}
    assert any(name.endswith("die") for name in ended)
