"""The controllers of many worlds as arrays, against those of a single arm; and that worlds do not influence others."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mygym.engines.arrays import Arrays, Rows, find_arrays, to_numpy
from mygym.engines.controllers import FORMS, BatchArmControllers, WorldByWorld
from mygym.engines.kinematics import BatchKinematics
from mygym.errors import RunError
from mygym.robotics.controllers import ChosenController, EndEffectorDelta, find_controller
from mygym.robotics.controllers.arms import ArmControllers
from mygym.robotics.kinematics import Chain, Kinematics
from mygym.robotics.robot import load_robot
from mygym.robotics.robot_spec import EndEffectorSpec, JointSpec, RobotSpec
from mygym.robotics.workspace import Area, load_workspace
from mygym.tasks.context import ArmCommand
from mygym.tasks.state import State
from mygym.types import FloatArray
from tests.components import CONTROLS, slow_except
from tests.engines.fused import WaitingOperations, pretend_gpu
from tests.robotics.test_base_placement import four_axes
from tests.robotics.test_inference import link_of, write

DT = 0.04
DOUBLE = Arrays(np, None, double=True)
ARRAY_CONTROLS = [name for name in CONTROLS if find_controller(name).kind in FORMS]


def described(urdf: Path, joints: dict[str, float], tool: str, z: float, base: tuple[float, float, float]) -> RobotSpec:
    """Return a robot without a gripper: name of each joint → its home, and a tool point at `z` m in a link."""
    specs = tuple(JointSpec(name, home, -2.0, 2.0, 2.0, 20.0) for name, home in joints.items())
    return RobotSpec(str(urdf), base, (0, 0, 0, 1), specs, EndEffectorSpec(tool, (0, 0, z)), name=urdf.stem)


SPECS = {name: load_robot(name) for name in ("panda", "panda_pair")}
"""Two shipped robots whose tools turn. `robots` adds one whose tool does not (`still`), arms of four joints with a free
yaw and three with a free tilt, and an arm of nine on a rail."""


@pytest.fixture(scope="module", autouse=True)
def robots(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Complete `SPECS`."""
    folder = tmp_path_factory.mktemp("robots")
    axes = ["0 1 0", "0 0 1", "0 1 0", "1 0 0", "0 1 0", "0 0 1", "0 1 0", "1 0 0", "0 1 0"]
    parents = ["root", *(f"j{number}_link" for number in range(8))]
    links = [
        link_of(f"j{number}", parent, (0, 0.01, 0.07), axis)
        for number, (parent, axis) in enumerate(zip(parents, axes, strict=True))
    ]
    links[0] = links[0].replace("revolute", "prismatic")
    homes = {f"j{number}": 0.2 for number in range(9)}
    SPECS["still"] = SPECS["panda"]
    SPECS["rail"] = described(write(folder / "rail.urdf", links), homes, "j8_link", 0.1, (-0.3, 0, 0))
    short, homes = four_axes(folder / "short.urdf"), {"pan_joint": 0.1, "lift_joint": 0.5, "elbow_joint": 0.9}
    SPECS["three"] = described(short, homes, "elbow", 0.12, (-0.15, 0, 0))
    SPECS["four"] = described(short, homes | {"a6_joint": 1.2}, "a6", 0.12, (-0.15, 0, 0))


def arms(name: str, control: str | ChosenController, action_repeat: int = 1) -> ArmControllers:
    """Return the controllers of one world."""
    workspace = load_workspace("table")
    placed = workspace.with_base(SPECS[name])
    chosen = find_controller({"name": control, "action_repeat": action_repeat}) if isinstance(control, str) else control
    return ArmControllers(placed, workspace.fit(placed), chosen, DT, dynamics, True, name.startswith("panda"))


def dynamics(arm: int, q: FloatArray, v: FloatArray, a: FloatArray) -> FloatArray:
    """Return torques of some arm."""
    return 0.3 * a + 0.1 * v * np.abs(v) + 0.05 * np.sin(q)


class Plant:
    """Joints of `count` worlds that follow commands, in a `State`; row `i` does not depend on the number of rows."""

    def __init__(self, single: ArmControllers, count: int) -> None:
        self.single = single
        joints, arm_count = single.joints[-1].stop, len(single.controllers)
        self.state = State.zeros(count, joints, arms=arm_count, lead=single.command_offset_size)
        self.rng = [np.random.default_rng(row) for row in range(count)]
        self.start(np.ones(count, dtype=bool))

    def start(self, mask: Any) -> None:
        """Put some worlds near their home."""
        home = np.concatenate([controller.chain.home for controller in self.single.controllers])
        for row in np.flatnonzero(mask):
            self.state.joint_position[row] = home + self.rng[row].uniform(-0.15, 0.15, len(home))
            self.state.joint_velocity[row] = 0.0
        self.measure()

    def measure(self) -> None:
        """Fill the end effectors."""
        state = self.state
        for row, (arm, joints) in itertools.product(range(len(state.time)), enumerate(self.single.joints)):
            position = self.single.controllers[arm].kinematics.pose(state.joint_position[row, joints].copy())[:3, 3]
            (state.second_ee_position[:, arm - 1] if arm else state.ee_position)[row] = position

    def advance(self, command: FloatArray) -> None:
        """Move the joints by motor commands `(N, J)`."""
        state, mode = self.state, self.single.controllers[0].mode
        wanted = {"position": 15.0 * (command - state.joint_position), "velocity": command}.get(
            mode, state.joint_velocity + 0.01 * command
        )
        state.joint_velocity[...] = 0.5 * state.joint_velocity + 0.5 * np.clip(wanted, -2.0, 2.0)
        state.joint_position[...] += DT * state.joint_velocity
        self.measure()

    def draw(self, step: int) -> tuple[FloatArray, ArmCommand]:
        """Return random actions, and a random command of an expert."""
        rows = np.stack([rng.uniform(-1.0, 1.0, 40) for rng in self.rng])
        target = np.array([0.0, 0.0, 0.15]) + 0.2 * rows[:, 20:23]
        second = None if step % 3 else self.state.second_ee_position.sum(axis=1) + 0.1 * rows[:, 23:26]
        change = None if step % 4 == 0 else np.where(rows[:, 26] > 0, rows[:, 27], 0.0)
        return rows[:, : len(self.single.names)], ArmCommand(target, rows[:, 28], change, second, 0.5)


def taken(state: State, rows: Any, to: Callable[[Any], Any] = np.copy) -> State:
    """Return a state of some worlds, with each array as the result of a function."""
    return State(**{name: to(getattr(state, name)[rows]) for name in State.__slots__})


@dataclass
class Step:
    """Inputs and results of a step, `(N, …)`."""

    restarted: Any
    """`(N,)` bool: worlds that were reset before the step."""
    before: State
    actions: FloatArray
    command: ArmCommand
    after: State
    results: dict[str, FloatArray]


def played(batch: BatchArmControllers, plant: Plant, steps: Sequence[int]) -> list[Step]:
    """Play some steps; all worlds are reset before step 0, and rows 1 and 3 before step 20."""
    arrays, count = batch._arrays, batch.count
    into: Callable[[Any], Any] = np.asarray if arrays.xp is np else torch.from_numpy
    state, played = taken(plant.state, slice(None), into), []  # in the same memory
    for step in steps:
        restarted = np.isin(np.arange(count), {0: range(count), 20: (1, 3)}.get(step, ()))
        if restarted.any():
            plant.start(restarted)
            batch.read(state)
            batch.reset(Rows.of_mask(into(restarted)), state)
        before = taken(plant.state, slice(None))
        actions, command = plant.draw(step)
        arguments = {f.name: getattr(command, f.name) for f in fields(command)}
        arguments = {name: into(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
        results = {"towards": to_numpy(batch.action_towards(state, ArmCommand(**arguments))).copy()}
        actions = actions if step % 2 else results["towards"].astype(float)
        results["command"] = to_numpy(batch.command(into(actions), state)).astype(float)
        results["grippers"] = to_numpy(batch.grippers(into(actions))).copy()
        plant.advance(results["command"])
        batch.read(state)
        batch.read_offsets(state)
        played.append(Step(restarted, before, actions, command, taken(plant.state, slice(None)), results))
    return played


def fresh(single: ArmControllers, count: int, arrays: Arrays = DOUBLE) -> tuple[BatchArmControllers, Plant]:
    """Return a batch and its plant."""
    return BatchArmControllers(single, count, arrays), Plant(single, count)


ROBOTS = ("panda", "panda_pair", "four", "three", "rail")
CASES = slow_except(
    [
        *((name, control, 1) for name in ROBOTS for control in CONTROLS),
        *(("panda", control, 3) for control in CONTROLS),
    ],
    lambda case: case[::2] == ("panda", 1) or case[1] in ("ee_delta", "ee_absolute", "joint_delta"),
)
"""Each controller with one arm; a controller of each kind with the other arms, and with repeated actions."""


@pytest.mark.parametrize(("name", "control", "repeat"), CASES)
def test_each_world_has_the_numbers_of_a_single_one(name: str, control: str, repeat: int) -> None:
    count = 5
    single = arms(name, control, action_repeat=repeat)
    trace = played(*fresh(single, count), range(40))
    for row in (1, 4):  # reset once more on the way, and not
        alone = arms(name, control, action_repeat=repeat)
        for step in trace:
            state, command = taken(step.before, [row]), step.command
            if step.restarted[row]:
                assert not step.before.command_offset[row].any()
                assert step.before.tool_yaw_offset[row] == 0.0
                alone.read(state)
                alone.reset(state)
            change = 0.0 if command.yaw_change is None else float(command.yaw_change[row])
            second = None if command.second_target is None else command.second_target[row]
            towards = alone.action_towards(state, command.target[row], float(command.gripper[row]), change, second, 0.5)
            np.testing.assert_allclose(step.results["towards"][row], towards, atol=1e-9)
            expected = alone.command(step.actions[row], state)
            np.testing.assert_allclose(step.results["command"][row], expected, atol=1e-9)
            np.testing.assert_array_equal(step.results["grippers"][row], alone.grippers(step.actions[row]))
            after = taken(step.after, [row])
            alone.read(after)
            alone.read_offsets(after)
            for array in ("tool_yaw", "command_offset", "tool_yaw_offset"):
                np.testing.assert_allclose(getattr(step.after, array)[row], getattr(after, array)[0], atol=1e-9)


@pytest.mark.parametrize("control", CONTROLS)
def test_a_range_without_width_has_actions(control: str) -> None:
    """Tool bounds in a plane, and a joint with equal limits: 0 / 0."""
    robot, table = load_robot("panda"), load_workspace("table")
    fixed = replace(robot.joints[2], lower=robot.joints[2].home, upper=robot.joints[2].home)
    robot = robot.with_joints([*robot.joints[:2], fixed, *robot.joints[3:]])
    low, high = table.tool_bounds.low, table.tool_bounds.high
    flat = replace(table, tool_bounds=Area((*low[:2], 0.1), (*high[:2], 0.1)))
    single = ArmControllers(robot, flat, find_controller(control), DT, dynamics, gripper=True, tool_yaw=False)
    (step,) = played(*fresh(single, 1), range(1))
    single.reset(step.before)
    towards = single.action_towards(step.before, step.command.target[0], 1.0, 0.0, None, 0.0)
    for action in (towards, step.results["towards"]):
        assert (np.abs(action) <= 1.0).all(), "no action is nan"


def test_the_chains_differ_in_what_they_hold() -> None:
    chains = {name: arms(name, "ee_delta").controllers[0].chain for name in ROBOTS}
    assert [name for name, chain in chains.items() if chain.tilt_is_free] == ["three"]
    assert [name for name, chain in chains.items() if chain.yaw_is_free] == ["four", "three"]
    assert [name for name, chain in chains.items() if chain.slides.any()] == ["rail"]


@pytest.mark.parametrize("control", ARRAY_CONTROLS)
def test_single_precision_is_enough(control: str) -> None:
    """Each step begins with the commands of double precision."""
    single = arms("panda", control)
    batch, plant = fresh(single, 8)
    rough = BatchArmControllers(single, 8, find_arrays("numpy"))
    for number in range(60):
        rough.load_state_dict(batch.state_dict())
        (step,) = played(batch, plant, [number])
        if step.restarted.any():
            continue
        before = step.before
        np.testing.assert_allclose(rough.action_towards(before, step.command), step.results["towards"], atol=3e-4)
        commands = rough.command(step.actions, before)
        assert commands.dtype == np.float32
        np.testing.assert_allclose(commands, step.results["command"], atol=3e-4)


ALONE = [
    *(("double", "panda", control) for control in CONTROLS),
    *(("numpy", "panda", control) for control in ARRAY_CONTROLS),
    *(("torch", "still", control) for control in ARRAY_CONTROLS),
    *((library, "rail", "ee_delta") for library in ("double", "numpy", "torch")),
]


@pytest.mark.parametrize(("library", "name", "control"), ALONE)
def test_worlds_do_not_influence_others(library: str, name: str, control: str) -> None:
    """Torch's `atan2` does not round alike at the end of an array: with it, the tool does not turn."""
    single, arrays = arms(name, control), DOUBLE if library == "double" else find_arrays(library)
    traces = {count: played(*fresh(single, count, arrays), range(12)) for count in (1, 2, 7, 64)}
    for count in (1, 2, 7):
        for few, many in zip(traces[count], traces[64], strict=True):
            for key, values in few.results.items():
                np.testing.assert_array_equal(values, many.results[key][:count], err_msg=key)
            for key in ("tool_yaw", "command_offset", "tool_yaw_offset"):
                np.testing.assert_array_equal(getattr(few.after, key), getattr(many.after, key)[:count], err_msg=key)


@pytest.mark.parametrize("control", ARRAY_CONTROLS)
def test_no_operation_waits_for_a_gpu(control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, plant = fresh(arms("panda_pair", control), 4, find_arrays("torch"))
    played(batch, plant, range(2))  # constants are on the device then
    state = taken(plant.state, slice(None), torch.from_numpy)
    actions, target = torch.zeros(4, len(batch.arms.names)), torch.zeros(4, 3)
    rows, command = Rows(torch.tensor([True, False, True, False]), None), ArmCommand(target, 1.0, target[:, 0], target)
    pretend_gpu(monkeypatch)
    with WaitingOperations() as waiting:
        batch.read(state)
        batch.reset(rows, state)
        batch.action_towards(state, command)
        batch.command(actions, state)
        batch.read_offsets(state)
    assert waiting.names == []


def same(trace: Sequence[Step], other: Sequence[Step], rows: Any = slice(None), from_rows: Any = slice(None)) -> None:
    """Assert equal results."""
    for one, two in zip(trace, other, strict=True):
        for key, values in one.results.items():
            np.testing.assert_array_equal(values[rows], two.results[key][from_rows], err_msg=key)


@pytest.mark.parametrize("control", ARRAY_CONTROLS)
def test_a_gpu_computes_what_a_cpu_gathers(control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU computes all worlds and masks those that are not concerned."""
    single, arrays = arms("panda_pair", control), find_arrays("torch")
    gathered = played(*fresh(single, 4, arrays), range(22))
    pretend_gpu(monkeypatch)
    same(played(*fresh(single, 4, arrays), range(22)), gathered)


@pytest.mark.parametrize("control", CONTROLS)
def test_a_batch_continues_from_its_state(control: str) -> None:
    single = arms("panda_pair", control)
    batch, plant = fresh(single, 3)
    played(batch, plant, range(5))
    saved, kept = pickle.loads(pickle.dumps(batch.state_dict())), copy.deepcopy(plant)
    expected = played(batch, plant, range(5, 10))
    second = BatchArmControllers(single, 3, DOUBLE)
    second.load_state_dict(saved)
    same(played(second, copy.deepcopy(kept), range(5, 10)), expected)
    if control in ARRAY_CONTROLS:
        third = BatchArmControllers(single, 3, DOUBLE)
        second.load_state_dict(saved)
        third.set_variables(iter(second.variables()))
        same(played(third, copy.deepcopy(kept), range(5, 10)), expected)
    else:
        with pytest.raises(RunError, match=single.controllers[0].__class__.__name__):
            second.variables()


@pytest.mark.parametrize("control", CONTROLS)
def test_worlds_continue_others(control: str) -> None:
    single = arms("panda_pair", control)
    batch, plant = fresh(single, 4)
    played(batch, plant, range(5))
    other, elsewhere = fresh(single, 3)
    played(other, elsewhere, [0])
    mask = np.array([True, False, True])
    other.copy_from(batch, np.array([3, 1]), Rows.of_mask(mask))
    for mine, theirs in ((0, 3), (2, 1)):
        elsewhere.rng[mine] = copy.deepcopy(plant.rng[theirs])
        for name in State.__slots__:
            getattr(elsewhere.state, name)[mine] = getattr(plant.state, name)[theirs]
    expected, got = played(batch, plant, range(5, 10)), played(other, elsewhere, range(5, 10))
    same(got, expected, [0, 2], [3, 1])
    other.copy_from(batch, np.array([2, 2]), Rows.of_mask(mask))  # copies, not the same objects
    before = batch.state_dict()
    played(other, elsewhere, range(10, 12))
    np.testing.assert_equal(batch.state_dict(), before)


def test_other_controllers_are_computed_world_by_world() -> None:
    class Halved(EndEffectorDelta):
        """Half of `ee_delta`."""

        def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
            return super().command(0.5 * action, joint_position, ee_position)

    plain = find_controller("ee_delta")
    single = arms("panda", ChosenController(Halved, plain.config, plain.params))
    batch, plant = fresh(single, 3)
    assert type(batch.controllers[0]) is WorldByWorld
    for control in set(CONTROLS) - set(ARRAY_CONTROLS):
        assert type(fresh(arms("panda", control), 1)[0].controllers[0]) is WorldByWorld
    reference = BatchArmControllers(arms("panda", "ee_delta"), 3, DOUBLE)
    reference.reset(Rows.all(3, DOUBLE), plant.state)
    (step,) = played(batch, plant, [0])
    reference.reset(Rows.all(3, DOUBLE), step.before)
    expected = reference.command(step.actions * 0.5, step.before)
    np.testing.assert_allclose(step.results["command"], expected, atol=1e-9)


@pytest.mark.parametrize("name", ROBOTS)
def test_inverse_kinematics_are_those_of_a_single_arm(name: str) -> None:
    """Starts without an error, beyond the limits or with a small one; targets within reach and beyond it."""
    chain: Chain = arms(name, "ee_delta").controllers[0].chain
    kinematics, single, rng = BatchKinematics(chain, DOUBLE), Kinematics(chain), np.random.default_rng(3)
    q = chain.home[:, None] + rng.uniform(-0.3, 0.3, (len(chain.home), 12))
    poses = np.stack([single.pose(column.copy()) for column in q.T + rng.uniform(-0.2, 0.2, q.T.shape)])
    q[0, 0] = chain.upper[0] + 0.1
    poses[0], poses[1] = single.pose(q[:, 0].copy()), single.pose(q[:, 1].copy())
    poses[1, :3, 3] += 5e-5
    poses[2, :3, 3] += 1.0
    rotations: Any = [[poses[:, row, column] for column in range(3)] for row in range(3)]
    position = poses[:, :3, 3].T
    for iterations, tolerance in ((0, 1e-3), (3, 1e-3), (6, 1e-5)):
        solved = kinematics.inverse(q, position, rotations, iterations, tolerance)
        held = kinematics.inverse(q, position, chain.rotation.tolist(), iterations, tolerance)
        for world in range(12):
            start, target = q[:, world].copy(), position[:, world].copy()
            expected = single.inverse(start, target, poses[world, :3, :3], iterations, tolerance)
            np.testing.assert_allclose(solved[:, world], expected, atol=1e-9)
            expected = single.inverse(start.copy(), target, chain.rotation, iterations, tolerance)
            np.testing.assert_allclose(held[:, world], expected, atol=1e-9)
