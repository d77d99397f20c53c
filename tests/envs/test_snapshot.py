"""Quick snapshots of environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mygym.envs.multi_task_env import MultiTaskEnv
from mygym.envs.robot_env import RobotEnv
from mygym.errors import RunError

RANDOMIZE = {"action_delay": [2, 2], "action_noise": [0.05, 0.05], "observation_noise": [0.005, 0.005]}


def positions(env: RobotEnv) -> Any:
    """Positions of hand and objects, m; the spin of an object in contact differs after a snapshot."""
    state = env.world.state
    return np.concatenate([state.ee_position[0], state.object_position[0].ravel()])


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("pick_and_place", {"randomize": RANDOMIZE}),
        ("open_drawer", {"control": "joint_delta"}),
        ("push", {"control": "joint_torque", "reward": "staged"}),
    ],
    ids=str,
)
def test_restored_steps_are_nearly_the_same(task: str, settings: dict[str, Any]) -> None:
    with RobotEnv(task, **settings) as env:
        env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(20):
            observation, *_ = env.step(env.expert_action())
        snapshot, state = env.snapshot(), env.state_dict()
        actions = [env.action_space.sample() for _ in range(8)]
        expected = [(*env.step(action), positions(env)) for action in actions]
        for _ in range(2):
            restored = env.restore(snapshot)
            for key, values in observation.items():
                np.testing.assert_array_equal(restored[key], values)
            for action, (_, reward, *_, info, after) in zip(actions, expected, strict=True):
                _, same_reward, *_, same_info = env.step(action)
                np.testing.assert_allclose(positions(env), after, atol=2e-3)
                assert same_reward == pytest.approx(reward, abs=1e-2)
                assert (same_info["stage"], same_info["elapsed_steps"]) == (info["stage"], info["elapsed_steps"])
        env.restore(snapshot)
        np.testing.assert_array_equal(env.state_dict()["actions"], state["actions"])


def test_a_snapshot_belongs_to_an_episode() -> None:
    with RobotEnv("reach") as env, RobotEnv("reach") as other:
        env.reset(seed=0)
        other.reset(seed=0)
        snapshots = [env.snapshot() for _ in range(3)]
        assert len(env.world.saved_states) == 3
        del snapshots[1:]
        assert len(env.world.saved_states) == 1
        with pytest.raises(RunError, match="belongs to another environment"):
            other.restore(snapshots[0])
        env.reset()
        assert not env.world.saved_states
        with pytest.raises(RunError, match="its episode is over"):
            env.restore(snapshots[0])


def test_a_snapshot_of_several_tasks_is_restored_with_the_code() -> None:
    arguments = [{"task": name, "spaces": "shared"} for name in ("reach", "push")]
    env = MultiTaskEnv(arguments, ["reach", "push"], np.eye(2, dtype=np.float32))
    first, _ = env.reset(seed=0)
    snapshot = env.snapshot()
    env.step(env.action_space.sample())
    np.testing.assert_array_equal(env.restore(snapshot)["observation"], first["observation"])
    env.close()
