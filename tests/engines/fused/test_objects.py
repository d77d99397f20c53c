"""The fused engine with a box: the expert's success, parity, starts, refusals and states, in both libraries."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from mygym.checks import parity
from mygym.checks.parity import compare_engines
from mygym.engines.arrays import to_numpy
from mygym.engines.fused.arm import finger_shapes
from mygym.envs.batch_env import BatchEnv
from mygym.envs.env_spec import EnvSpec
from mygym.envs.fused_worlds import check_supported
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError
from mygym.robotics.assets import ASSETS, find_asset
from tests.components import slow_except


@pytest.mark.parametrize(("robot", "output"), [*((robot, "numpy") for robot in finger_shapes()), ("panda", "torch")])
@pytest.mark.parametrize("task", ["push", "pick_and_place"])
def test_the_expert_solves_the_task(task: str, robot: str, output: str) -> None:
    envs = BatchEnv({"task": task, "robot": robot, "reward": "shaped"}, 32, output)
    envs.reset(range(32))
    solved = np.zeros(32, dtype=bool)
    for _ in range(60):
        step = envs.step(envs.expert_action())
        solved |= to_numpy(step.success)
        assert not to_numpy(step.failed).any()
    assert solved.sum() >= 31  # of 1,000 episodes, the expert solves 992 with the slowest hand


@pytest.mark.parametrize("robot", slow_except(finger_shapes(), "panda".__eq__))
def test_bullet_agrees_on_objects_and_grasps(robot: str) -> None:
    random, expert, noisy = compare_engines({"task": "pick_and_place", "robot": robot}, 12, seed=0)
    assert expert.success_pybullet == expert.success_engine == 1.0
    assert random.object_median is not None
    assert expert.object_median is not None
    assert random.object_median < 2.0
    assert expert.object_median < 4.0
    assert noisy.grasps is not None
    assert noisy.gate is not None
    assert noisy.grasps >= 6
    assert noisy.gate >= 0.8
    assert noisy.grasps_same_place is not None
    assert 6 <= noisy.grasps_same_place <= noisy.grasps
    assert noisy.gate_same_place is not None
    assert noisy.gate_same_place >= max(noisy.gate, 0.95)


def test_fingers_that_close_on_top_of_a_box_hold_it_no_more_often_than_in_bullet() -> None:
    """The tool stops above the box, then comes down at full speed; the fingers begin to close at several heights."""
    arguments = {"task": "pick_and_place"}
    starts = [height for height in np.linspace(0.05, 0.11, 7) for _ in range(2)]
    envs = BatchEnv(arguments, len(starts))
    episodes, world = envs.episodes, envs.worlds
    with closing(RobotEnv(**arguments)) as env:
        recordings = [parity._played(env, number % 2, np.zeros((1, 4))) for number in range(len(starts))]
        parity._begin(episodes, recordings)
        taken, held = [], []
        action = np.full((4, len(starts)), 0.2)
        for step in range(46):
            height = world.arm.ee_position[2]
            offset = world.box.position - world.arm.ee_position
            action[:2] = np.clip(8.0 * offset[:2], -0.5, 0.5)
            action[2] = np.clip(8.0 * (0.11 - height), -0.5, 1.0) if step < 20 else 1.0 if step > 30 else -1.0
            action[3] = np.where((step >= 20) & (height < starts), -1.0, action[3])
            taken.append(action.copy())
            episodes.step(world.arrays.floats(action.T))
            held.append(np.array(world.grasp.held))
        sequences = np.array(taken).transpose(2, 0, 1)
        recordings = [parity._played(env, number % 2, sequence) for number, sequence in enumerate(sequences)]
    in_engine = np.array(held)[-5:].all(axis=0)
    in_bullet = np.array([recording.held[-5:].all() for recording in recordings])
    assert 0.5 * len(starts) <= (in_engine & in_bullet).sum() < len(starts)
    assert not (in_engine & ~in_bullet).any()


def test_a_share_of_the_episodes_begins_in_hand() -> None:
    envs = BatchEnv({"task": "pick_and_place", "task_params": {"starts": {"in_hand": 0.3}}}, 1000)
    envs.reset(range(1000))
    held = envs.worlds.grasp.held
    assert 0.25 < held.mean() < 0.35
    np.testing.assert_array_equal(held, envs.episodes.progress.stage == 2)


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_a_single_environment_is_one_of_many(output: str) -> None:
    many, one = (BatchEnv({"task": "push", "reward": "shaped"}, count, output) for count in (3, 1))
    many.reset([4, 5, 6])
    one.reset([5])
    for _ in range(30):
        steps = many.step(many.expert_action()), one.step(one.expert_action())
        for field in ("reward", "saturation", "touched", "failed", "elapsed"):
            wide, narrow = (to_numpy(getattr(step, field)) for step in steps)
            np.testing.assert_allclose(wide[1:2], narrow, atol=1e-4)
            assert wide.dtype == narrow.dtype


def test_a_state_with_a_held_box_continues_to_the_bit() -> None:
    first, second = (BatchEnv({"task": "pick_and_place", "reward": "shaped"}, 8) for _ in range(2))
    first.reset(range(8))
    for _ in range(15):
        first.step(first.expert_action())
    assert first.worlds.grasp.held.any()
    second.load_state_dict(first.state_dict())
    for _ in range(30):
        a, b = (envs.step(envs.expert_action()) for envs in (first, second))
        np.testing.assert_array_equal(a.observations["observation"], b.observations["observation"])
        np.testing.assert_array_equal(a.reward, b.reward)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task": "stack"}, "stack"),
        ({"task": "throw"}, "stage toss"),
        ({"task": "push", "robot": "kuka"}, "robot"),
        ({"task": "reach", "control": "joint_delta"}, "control: 'joint_delta'.*ee_absolute"),
        ({"task": "push", "task_params": {"object": "apple"}}, "apple"),
        ({"task": "open_drawer"}, "open"),
        ({"task": "push", "workspace": "low"}, "workspace: 'low'.*at height 0"),
        ({"task": "push", "workspace": "bare"}, "workspace: 'bare'.*at height 0"),
        ({"task": "push", "workspace": "narrow"}, "workspace: 'narrow'.*at height 0"),
    ],
)
def test_what_it_cannot_represent_is_refused_by_name(
    arguments: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {"low": {"position": [-0.2, 0.0, -0.13]}, "bare": None, "narrow": {"size": [0.7, 1.4, 0.06]}}
    if arguments.get("workspace") in tables:
        monkeypatch.chdir(tmp_path)
        values = yaml.safe_load((ASSETS / "workspaces" / "table.yaml").read_text())
        change = tables[arguments["workspace"]]
        values["fixtures"] = {} if change is None else {"table": values["fixtures"]["table"] | change}
        own = tmp_path / "envs" / "workspaces" / f"{arguments['workspace']}.yaml"
        own.parent.mkdir(parents=True)
        own.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match=words):
        check_supported(EnvSpec.of(arguments))


def test_it_takes_boxes_and_tables_of_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, of in (("objects", "cube"), ("workspaces", "table")):
        (tmp_path / "envs" / kind).mkdir(parents=True)
        shutil.copy(find_asset(kind, of), tmp_path / "envs" / kind / f"own_{of}.yaml")
    arguments = {"task": "push", "workspace": "own_table", "task_params": {"object": "own_cube"}}
    check_supported(EnvSpec.of(arguments))


TWICE = [{"stages": "AGMDW", "object": "cube", "area": "surface"}, {"stages": "AGM", "object": "cube"}]
PUSHES = [{"stages": ["approach", "push", "withdraw"]}, {"stages": ["approach", "push"]}]


@pytest.mark.parametrize(
    "arguments",
    [
        {"task": TWICE, "reward": "shaped", "task_params": {"horizon": 150}},
        {"task": PUSHES, "reward": "staged", "task_params": {"horizon": 200}},
        {"task": "pick_and_place", "task_params": {"stages_done": 1.5}},
        {"task": "pick_and_place", "task_params": {"stages_done": 1.0, "starts": {"in_hand": 0.5}}},
        {"task": "push", "critic_observations": ["ee_velocity"], "goal_env": False},
        {"task": "push", "spaces": "shared"},
        {"task": "pick_and_place", "task_params": {"rotation": [-1.2, 1.2]}},
        {"task": "AGMR", "control": "ee_absolute"},
        {"task": "AGF"},
        {"task": "AGT"},
    ],
    ids=["sub-tasks", "pushes", "stages done", "later starts", "critic", "shared", "yaw", "turn", "follow", "arc"],
)
def test_what_the_environment_over_many_worlds_gives(arguments: dict[str, Any]) -> None:
    envs = BatchEnv(arguments, 32)
    observations = envs.arranged(envs.reset(range(32)))
    assert envs.observation_space.contains({key: value[0] for key, value in observations.items()})
    assert envs.episodes.progress.stage.min() >= int(arguments.get("task_params", {}).get("stages_done", 0))
    assert parity.success_rate(envs, lambda _: envs.expert_action(), range(32)) >= 0.95
    assert parity.success_rate(envs, lambda _: np.zeros((32, *envs.action_space.shape)), range(32)) == 0.0
