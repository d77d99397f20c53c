"""The controllers of all arms of a robot, in `N` worlds side by side.

The built-in controllers of positions and velocities are array code, with the constants and formulas of the single
arm's; every other controller is computed world by world. A world's numbers are the same to the bit whatever `N` is,
except that torch rounds yaws of tools (`atan2`) in the last worlds of an array in another way.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from mygym.engines.arrays import Arrays, Rows, to_numpy
from mygym.engines.kinematics import BatchKinematics, Rotations, total
from mygym.errors import RunError
from mygym.robotics.controllers import (
    Controller,
    EndEffectorAbsolute,
    EndEffectorController,
    EndEffectorDelta,
    JointController,
    JointDelta,
    JointPosition,
    JointVelocity,
)
from mygym.robotics.controllers.arms import ArmControllers
from mygym.robotics.controllers.controller import YAW_LAG, YAW_RANGE, YAW_STEP, action_within
from mygym.robotics.controllers.end_effector import EE_STEP, IK_ITERATIONS, IK_TOLERANCE
from mygym.robotics.controllers.joint import APPROACH_GAIN
from mygym.tasks.context import ArmCommand
from mygym.tasks.state import State
from mygym.types import Array, FloatArray


class Measured(NamedTuple):
    """Measurements of an arm in `N` worlds."""

    q: Array
    """`(J, N)` rad."""
    ee_position: Array
    """`(3, N)` m."""
    tool_yaw: Array
    """`(N,)` rad; 0 if the tool cannot turn."""


C = TypeVar("C", bound=Controller)


class BatchController(ABC, Generic[C]):
    """The controllers of one arm in `N` worlds; the batch axis is the last of all arrays, which is quick for numpy.

    The controller of a single arm gives parameters, bounds and chain.
    """

    STATE: ClassVar[tuple[str, ...]] = ()
    """Attributes `(…, N)` on which the next steps depend."""

    def __init__(self, single: C, count: int, arrays: Arrays) -> None:
        self.single, self.count, self._arrays, self._xp = single, count, arrays, arrays.xp
        self.kinematics = BatchKinematics(single.chain, arrays)
        self._held: Rotations = single.chain.rotation.tolist()
        self._x, self._y, _ = (self._column(axis) for axis in single.chain.rotation.T)
        self._low, self._high = self._column(single.low), self._column(single.high)
        self._lower, self._upper = self._column(single.chain.lower), self._column(single.chain.upper)

    @abstractmethod
    def reset(self, rows: Rows, measured: Measured) -> None:
        """Set the commands of the worlds `rows` to the measured posture."""

    @abstractmethod
    def command(self, action: Array, measured: Measured) -> Array:
        """Return the motor commands `(J, N)` for the arm's actions `(A, N)`, see `Controller.command`."""

    @abstractmethod
    def action_towards(self, target: Array, measured: Measured, velocity: Array, yaw_change: Array) -> Array:
        """Return the actions `(A, N)` towards targets `(3, N)` m, see `Controller.action_towards`."""

    def command_offset(self, measured: Measured) -> Array:
        """Return the last commands relative to the measured postures, `(L, N)`, see `Controller.command_offset`."""
        return measured.q[:0]

    def tool_yaw_offset(self, measured: Measured) -> Array:
        """Return the last commanded minus the measured tool yaw, `(N,)` rad; 0 if yaw is not commanded."""
        return 0.0 * measured.tool_yaw

    def measured_tool_yaw(self, q: Array) -> Array:
        """Return the tool yaws `(N,)` rad at joint positions `(J, N)` rad."""
        return self.yaw_of(self.kinematics.forward(q).rotation)

    def yaw_of(self, rotation: Array) -> Array:
        """Return the yaws `(N,)` rad of tools with axes `(3, 3, N)`, see `Frames.rotation`."""
        x, y, (tool_x, tool_y, _) = self._x, self._y, rotation
        return self._xp.atan2(total(x * tool_y - y * tool_x, 0), total(x * tool_x + y * tool_y, 0))

    def variables(self) -> list[Array]:
        """Return the arrays on which the next steps depend."""
        return [getattr(self, name) for name in self.STATE]

    def set_variables(self, arrays: Iterator[Array]) -> None:
        """Replace the arrays of `variables` by the next of `arrays`."""
        for name in self.STATE:
            setattr(self, name, next(arrays))

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays whose last axis is `N`."""
        return {name: to_numpy(getattr(self, name)).copy() for name in self.STATE}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""
        for name in self.STATE:
            setattr(self, name, self._arrays.like(getattr(self, name), state[name]))

    def copy_from(self, other: Any, source: Array, rows: Rows) -> None:
        """Put the worlds `rows` into the states of the worlds `source` `(n,)` of another batch."""
        for name in self.STATE:
            setattr(self, name, rows.replaced(getattr(self, name), getattr(other, name)[..., source]))

    def _column(self, values: FloatArray) -> Array:
        """Return numbers `(n,)` as an array `(n, 1)`."""
        return self._arrays.floats(values)[:, None]

    def _turned(self, yaw: Array) -> Rotations:
        """Return the orientations held at home, rotated by yaws `(N,)` rad, see `rotate_about_tool_axis`."""
        sine, cosine = self._xp.sin(yaw), self._xp.cos(yaw)
        x, y = self._x * cosine - self._y * sine, self._x * sine + self._y * cosine
        return [[x[row], y[row], self._held[row][2]] for row in range(3)]

    def _scaled_to_unit(self, action: Array) -> Array:
        """Return actions `(n, N)` scaled down so that no component exceeds 1, see `scale_to_unit`."""
        return action / self._xp.clip(self._xp.max(self._xp.abs(action), axis=0), 1.0, None)

    def _clamped(self, values: Array, centre: Array | float, radius: float) -> Array:
        """Return values clamped to `centre` ± `radius`."""
        return self._xp.minimum(self._xp.maximum(values, centre - radius), centre + radius)


E = TypeVar("E", bound=EndEffectorController)


class BatchEndEffector(BatchController[E]):
    """Commands of the end-effector position and, with `tool_yaw`, of the tool's yaw, see `EndEffectorController`."""

    STATE = ("joint_command", "ee_command", "yaw_command")
    floor: Array | None = None
    """`(N,)` m: heights below which the tools do not follow their commands, as something is in their way."""

    def __init__(self, single: E, count: int, arrays: Arrays) -> None:
        super().__init__(single, count, arrays)
        self.joint_command = self._column(single.chain.home) + arrays.zeros(1, count)
        """`(J, N)` rad: joint targets."""
        self.ee_command = arrays.zeros(3, count)
        """`(3, N)` m: commanded positions."""
        self.yaw_command = arrays.zeros(count)
        """`(N,)` rad: commanded yaws."""

    def reset(self, rows: Rows, measured: Measured) -> None:
        """Set the commands of some worlds to the measured posture."""
        self.joint_command = rows.replaced(self.joint_command, rows.of(measured.q))
        self.ee_command = rows.replaced(self.ee_command, rows.of(measured.ee_position))
        if self.single.tool_yaw:
            yaw = self._clamped(measured.tool_yaw, 0.0, YAW_RANGE)
            self.yaw_command = rows.replaced(self.yaw_command, rows.of(yaw))

    def command_offset(self, measured: Measured) -> Array:
        """Return the commanded minus the measured positions: `(3, N)` m, world frame."""
        return self.ee_command - measured.ee_position

    def tool_yaw_offset(self, measured: Measured) -> Array:
        """Return the last commanded minus the measured tool yaw, `(N,)` rad."""
        return self.yaw_command - measured.tool_yaw

    def joints(self, q: Array, position: Array) -> Array:
        """Return joint targets `(J, N)` rad for positions `(3, N)` m and the commanded yaws, from the last targets."""
        rotation = self._turned(self.yaw_command) if self.single.tool_yaw else self._held
        return self.kinematics.inverse(q, position, rotation, IK_ITERATIONS, IK_TOLERANCE)

    def move(self, displacement: Array, ee_position: Array) -> Array:
        """Return joint targets `(J, N)` rad for displacements `(3, N)` m of the last commands, in bounds and lag."""
        near = self._clamped(self.ee_command + displacement, ee_position, self.single.lag)
        self.ee_command = target = self._xp.minimum(self._xp.maximum(near, self._low), self._high)
        if self.floor is not None:
            target = self._xp.stack([target[0], target[1], self._xp.maximum(target[2], self.floor)])
        self.joint_command = self.joints(self.joint_command, target)
        return self.joint_command

    def _turn_towards(self, yaw: Array, measured: Array) -> None:
        """Move the commanded yaws towards angles `(N,)` rad, within step, range and lag of the measured ones."""
        near = self._clamped(self._clamped(yaw, self.yaw_command, YAW_STEP), measured, YAW_LAG)
        self.yaw_command = self._clamped(near, 0.0, YAW_RANGE)

    def _wanted_yaw(self, measured: Array, yaw_change: Array) -> Array:
        """Return the target yaws `(N,)` rad after changes from the measured ones; 0 gives the last commanded yaw."""
        return self._xp.where(yaw_change != 0.0, measured + yaw_change, self.yaw_command)


class BatchEndEffectorDelta(BatchEndEffector[EndEffectorDelta]):
    """`ee_delta`, see `EndEffectorDelta`."""

    def command(self, action: Array, measured: Measured) -> Array:
        """Return joint targets for displacements of `step` times the actions."""
        if self.single.tool_yaw:
            self._turn_towards(self.yaw_command + YAW_STEP * action[3], measured.tool_yaw)
        return self.move(self.single.step * action[:3], measured.ee_position)

    def action_towards(self, target: Array, measured: Measured, velocity: Array, yaw_change: Array) -> Array:
        """Return the actions from the last commanded positions straight to the targets, scaled down to one step."""
        action = self._scaled_to_unit((target - self.ee_command) / (self.single.step * self.single.action_repeat))
        if not self.single.tool_yaw:
            return action
        turn = self._wanted_yaw(measured.tool_yaw, yaw_change) - self.yaw_command
        return self._xp.concat([action, turn[None] / (YAW_STEP * self.single.action_repeat)])


class BatchEndEffectorAbsolute(BatchEndEffector[EndEffectorAbsolute]):
    """`ee_absolute`, see `EndEffectorAbsolute`."""

    def command(self, action: Array, measured: Measured) -> Array:
        """Return joint targets on the way from the last commanded positions to the actions' positions."""
        if self.single.tool_yaw:
            self._turn_towards(YAW_RANGE * action[3], measured.tool_yaw)
        step, target = self.single.step, (self._high + self._low) / 2 + action[:3] * (self._high - self._low) / 2
        return self.move(step * self._scaled_to_unit((target - self.ee_command) / step), measured.ee_position)

    def action_towards(self, target: Array, measured: Measured, velocity: Array, yaw_change: Array) -> Array:
        """Return the actions that denote the targets."""
        action = action_within(target, self._low, self._high)
        if not self.single.tool_yaw:
            return action
        return self._xp.concat([action, self._wanted_yaw(measured.tool_yaw, yaw_change)[None] / YAW_RANGE])


J = TypeVar("J", bound=JointController)


class BatchJoints(BatchController[J]):
    """Commands of joints, see `JointController`."""

    STATE = ("joint_command", "held_yaw", "holds_yaw")

    def __init__(self, single: J, count: int, arrays: Arrays) -> None:
        super().__init__(single, count, arrays)
        self.joint_command = self._column(single.chain.home) + arrays.zeros(1, count)
        """`(J, N)` rad: last commanded positions, from which the kinematics start."""
        self.held_yaw = arrays.zeros(count)
        """`(N,)` rad: yaws that the expert keeps, where `holds_yaw`."""
        self.holds_yaw = arrays.zeros(count, dtype=arrays.xp.bool)
        """`(N,)` bool: false before the first action of the expert after a reset."""
        self._speed, self._step = self._column(single.limits.velocity), self._column(single.joint_step)

    def reset(self, rows: Rows, measured: Measured) -> None:
        """Set the commands of some worlds to the measured posture."""
        self.joint_command = rows.replaced(self.joint_command, rows.of(measured.q))
        self.holds_yaw = self.holds_yaw & ~rows.mask

    def _rotation_towards(self, measured: Array, yaw_change: Array) -> Rotations:
        """Return the tool orientations at most `YAW_STEP` from the measured tools, towards the target yaws."""
        if not self.single.tool_yaw:
            return self._held
        wanted = self._clamped(measured + yaw_change, 0.0, YAW_RANGE)
        self.held_yaw = self._xp.where((yaw_change != 0.0) | ~self.holds_yaw, wanted, self.held_yaw)
        self.holds_yaw = self.holds_yaw | True
        return self._turned(self._clamped(self.held_yaw, measured, YAW_STEP))

    def action_towards(self, target: Array, measured: Measured, velocity: Array, yaw_change: Array) -> Array:
        """Return the actions towards postures nearer to the targets, see `JointController.action_towards`."""
        if self.single.mode != "position":
            self.joint_command = measured.q
        xp, rotation = self._xp, self._rotation_towards(measured.tool_yaw, yaw_change)
        gap = xp.minimum(xp.maximum(target, self._low), self._high) - measured.ee_position
        largest = xp.clip(xp.max(xp.abs(gap), axis=0), 1e-9, None)
        nearer = measured.ee_position + gap * xp.clip(self.single.action_repeat * EE_STEP / largest, None, 1.0)
        posture = self.kinematics.inverse(self.joint_command, nearer, rotation, iterations=4)
        return self._action_to(posture, measured.q)

    @abstractmethod
    def _action_to(self, posture: Array, q: Array) -> Array:
        """Return the actions towards postures `(J, N)` rad from the measured positions."""


class BatchJointDelta(BatchJoints[JointDelta]):
    """`joint_delta`, see `JointDelta`."""

    def command_offset(self, measured: Measured) -> Array:
        """Return the commanded minus the measured joint positions: `(J, N)` rad."""
        return self.joint_command - measured.q

    def command(self, action: Array, measured: Measured) -> Array:
        """Return the last commands moved by the actions, within lag and joint limits."""
        target = self._clamped(self.joint_command + action * self._step, measured.q, self.single.lag)
        self.joint_command = self._xp.minimum(self._xp.maximum(target, self._lower), self._upper)
        return self.joint_command

    def _action_to(self, posture: Array, q: Array) -> Array:
        return self._scaled_to_unit((posture - self.joint_command) / (self._step * self.single.action_repeat))


class BatchJointPosition(BatchJoints[JointPosition]):
    """`joint_position`, see `JointPosition`."""

    def command(self, action: Array, measured: Measured) -> Array:
        """Return the actions in rad."""
        self.joint_command = (self._upper + self._lower + action * (self._upper - self._lower)) / 2
        return self.joint_command

    def _action_to(self, posture: Array, q: Array) -> Array:
        return action_within(posture, self._lower, self._upper)


class BatchJointVelocity(BatchJoints[JointVelocity]):
    """`joint_velocity`, see `JointVelocity`."""

    def command(self, action: Array, measured: Measured) -> Array:
        """Return the actions in rad/s, clipped so that no joint passes a position limit within the step."""
        lowest, highest = ((limit - measured.q) / self.single.dt for limit in (self._lower, self._upper))
        return self._xp.minimum(self._xp.maximum(action * self._speed, lowest), highest)

    def _action_to(self, posture: Array, q: Array) -> Array:
        wanted = APPROACH_GAIN * (posture - q) / (self.single.dt * self.single.action_repeat)
        return self._scaled_to_unit(wanted / self._speed)


class WorldByWorld(BatchController[Controller]):
    """Any other controller, such as `joint_torque` or a user's own: a copy of it for each world.

    The copies are called one after the other, with float64 numpy arrays, so a step takes `N` times as long as that of
    a single arm; on a GPU it also waits for the actions.
    """

    def __init__(self, single: Controller, count: int, arrays: Arrays) -> None:
        super().__init__(single, count, arrays)
        shared = {id(each): each for each in (single.chain, single.inverse_dynamics)}
        self.controllers = [copy.deepcopy(single, dict(shared)) for _ in range(count)]

    def reset(self, rows: Rows, measured: Measured) -> None:
        """Set the commands of some worlds to the measured posture."""
        q, tools = _rows_of(measured.q), _rows_of(measured.ee_position)
        for row in np.flatnonzero(to_numpy(rows.mask)):
            self.controllers[row].reset(q[row], tools[row])

    def command(self, action: Array, measured: Measured) -> Array:
        """Return the motor commands `(J, N)` for the arm's actions `(A, N)`."""
        return self._each(Controller.command, action, measured.q, measured.ee_position)

    def action_towards(self, target: Array, measured: Measured, velocity: Array, yaw_change: Array) -> Array:
        """Return the actions `(A, N)` towards targets `(3, N)` m."""
        arguments = target, measured.q, velocity, measured.ee_position, yaw_change
        return self._each(Controller.action_towards, *arguments)

    def command_offset(self, measured: Measured) -> Array:
        """Return the last commands relative to the measured postures, `(L, N)`."""
        return self._each(Controller.command_offset, measured.q, measured.ee_position)

    def tool_yaw_offset(self, measured: Measured) -> Array:
        """Return the last commanded minus the measured tool yaws, `(N,)` rad."""
        return self._each(Controller.tool_yaw_offset, measured.tool_yaw)

    def measured_tool_yaw(self, q: Array) -> Array:
        """Return the tool yaws `(N,)` rad."""
        return self._each(Controller.measured_tool_yaw, q)

    def variables(self) -> list[Array]:
        """Raise an error.

        Raises:
            RunError: The state is not in arrays.
        """
        raise RunError(f"control: the state of {type(self.single).__name__} is not in arrays, which this needs")

    def state_dict(self) -> dict[str, Any]:
        """Return the plain attributes of each world's controller."""
        return {"worlds": [plain_attributes(controller) for controller in self.controllers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""
        for controller, attributes in zip(self.controllers, state["worlds"], strict=True):
            vars(controller).update(copy.deepcopy(attributes))

    def copy_from(self, other: Any, source: Array, rows: Rows) -> None:
        """Put the worlds `rows` into the states of the worlds `source` `(n,)` of another batch."""
        indices = np.arange(self.count) if rows.index is None else to_numpy(rows.index)
        pairs = zip(indices.tolist(), to_numpy(source).tolist(), strict=True)
        mask = to_numpy(rows.mask)
        copied = {row: plain_attributes(other.controllers[world]) for row, world in pairs if mask[row]}
        for row, attributes in copied.items():
            vars(self.controllers[row]).update(attributes)

    def _each(self, method: Callable[..., Any], *arguments: Array) -> Array:
        """Return the results `(…, N)` of a method of all controllers, for arguments `(…, N)`."""
        columns = [_rows_of(argument) for argument in arguments]
        results = [
            getattr(controller, method.__name__)(*values)
            for controller, *values in zip(self.controllers, *columns, strict=True)
        ]
        return self._arrays.floats(np.ascontiguousarray(np.array(results, dtype=float).T))


FORMS: Mapping[type[Controller], type[BatchController[Any]]] = {
    EndEffectorDelta: BatchEndEffectorDelta,
    EndEffectorAbsolute: BatchEndEffectorAbsolute,
    JointDelta: BatchJointDelta,
    JointPosition: BatchJointPosition,
    JointVelocity: BatchJointVelocity,
}
"""Class of a controller → its array form; subclasses are not in it, because they may override anything."""


class BatchArmControllers:
    """`ArmControllers` of `N` worlds.

    As in a single world, `read` comes after each measurement, before `reset`, `command` and `action_towards`.
    """

    def __init__(self, arms: ArmControllers, count: int, arrays: Arrays) -> None:
        self.arms, self.count, self._arrays, self._xp = arms, count, arrays, arrays.xp
        self.controllers: list[BatchController[Any]] = [
            FORMS.get(type(single), WorldByWorld)(single, count, arrays) for single in arms.controllers
        ]
        """Controllers of each arm."""
        self.second_ee_start = [arrays.zeros(3, count) for _ in arms.controllers[1:]]
        """`(3, N)` m of each arm after the first: its end effector at the reset."""

    def reset(self, rows: Rows, state: State) -> None:
        """Start some worlds from their measured posture: the command becomes the posture."""
        arms = self._measured(state)
        for controller, measured in zip(self.controllers, arms, strict=True):
            controller.reset(rows, measured)
        starts = zip(self.second_ee_start, arms[1:], strict=True)
        self.second_ee_start = [rows.replaced(start, rows.of(arm.ee_position)) for start, arm in starts]
        state.command_offset[...] = state.command_offset * ~rows.mask[:, None]
        state.tool_yaw_offset[...] = state.tool_yaw_offset * ~rows.mask

    def command(self, actions: Array, state: State) -> Array:
        """Return the motor commands `(N, J)` of all arms for actions `(N, A)` in [-1, 1], see `Controller.mode`.

        It is a view of what the controllers remember: do not change it.
        """
        components = self._columns(actions)
        arms = zip(self.controllers, self.arms.actions, self._measured(state), strict=True)
        commands = [controller.command(components[columns], measured) for controller, columns, measured in arms]
        return (commands[0] if len(commands) == 1 else self._xp.concat(commands)).T

    def grippers(self, actions: Array) -> Array:
        """Return the grippers' commands `(N, G)` in [-1, 1] of actions `(N, A)`."""
        return self.arms.chosen.grippers(actions[:, self.arms.actions[-1].stop :])

    def read(self, state: State) -> None:
        """Fill the tool yaws of a state from its joint positions."""
        if self.arms.tool_yaw:
            q = self._columns(state.joint_position[:, self.arms.joints[0]])
            state.tool_yaw[...] = self.controllers[0].measured_tool_yaw(q)

    def read_offsets(self, state: State) -> None:
        """Fill the offsets between command and measurement of a state."""
        arms = self._measured(state)
        for index, columns in enumerate(self.arms.offsets):
            state.command_offset[:, columns] = self.controllers[index].command_offset(arms[index]).T
        if self.arms.tool_yaw:
            state.tool_yaw_offset[...] = self.controllers[0].tool_yaw_offset(arms[0])

    def action_towards(self, state: State, command: ArmCommand) -> Array:
        """Return the actions `(N, A)` in [-1, 1] that move the end effectors towards the targets of a command."""
        velocity = self._columns(state.joint_velocity)
        targets = [command.target, command.second_target]
        changes = [0.0 if command.yaw_change is None else command.yaw_change, 0.0]
        openings = [command.gripper, command.second_gripper]
        zeros, parts = self._arrays.zeros(self.count), []
        for index, measured in enumerate(self._measured(state)):
            target = targets[index]
            towards = self.second_ee_start[index - 1] if target is None else self._columns(target)
            if index and target is not None:  # worlds without a target have not-a-number
                towards = self._xp.where(self._xp.isnan(towards), self.second_ee_start[index - 1], towards)
            change, joints = zeros + changes[index], self.arms.joints[index]
            parts.append(self.controllers[index].action_towards(towards, measured, velocity[joints], change))
        pairs = zip(openings, self.arms.has_gripper, strict=False)
        parts += [(zeros + opening)[None] for opening, has_gripper in pairs if has_gripper]
        return self._xp.clip(self._xp.concat(parts), -1.0, 1.0).T

    def variables(self) -> list[Array]:
        """Return the arrays on which the next steps depend, in the order of `set_variables`.

        Raises:
            RunError: The controller is computed world by world.
        """
        return [*self.second_ee_start, *(array for each in self.controllers for array in each.variables())]

    def set_variables(self, arrays: Iterator[Array]) -> None:
        """Replace the arrays of `variables` by the next of `arrays`."""
        self.second_ee_start = [next(arrays) for _ in self.second_ee_start]
        for controller in self.controllers:
            controller.set_variables(arrays)

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays whose last axis is `N`."""
        starts = [to_numpy(start).copy() for start in self.second_ee_start]
        return {"arms": [controller.state_dict() for controller in self.controllers], "second_ee_start": starts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""
        self.second_ee_start = [self._arrays.floats(start) for start in state["second_ee_start"]]
        for controller, values in zip(self.controllers, state["arms"], strict=True):
            controller.load_state_dict(values)

    def copy_from(self, other: BatchArmControllers, source: Array, rows: Rows) -> None:
        """Put the worlds `rows` into the states of the worlds `source` `(n,)` of another batch of the same robot."""
        starts = zip(self.second_ee_start, other.second_ee_start, strict=True)
        self.second_ee_start = [rows.replaced(mine, theirs[:, source]) for mine, theirs in starts]
        for controller, their_controller in zip(self.controllers, other.controllers, strict=True):
            controller.copy_from(their_controller, source, rows)

    def _measured(self, state: State) -> list[Measured]:
        """Return the measurements of each arm; the yaw is that of the first arm's tool."""
        tools = [state.ee_position, *(state.second_ee_position[:, arm] for arm in range(len(self.controllers) - 1))]
        q, yaw = self._columns(state.joint_position), self._xp.astype(state.tool_yaw, self._arrays.real, copy=True)
        arms = zip(self.arms.joints, tools, strict=True)
        return [Measured(q[joints], self._columns(tool), yaw) for joints, tool in arms]

    def _columns(self, array: Array) -> Array:
        """Return an array `(N, n)` as `(n, N)`, contiguous, which is much faster to compute with, and no view."""
        columns = self._arrays.zeros(array.shape[1], self.count)
        columns[...] = array.T
        return columns


def plain_attributes(controller: Controller) -> dict[str, Any]:
    """Return copies of the attributes that may change in a step: numbers, arrays and containers."""
    plain = (type(None), bool, int, float, np.ndarray, list, tuple, dict)
    return {name: copy.deepcopy(value) for name, value in vars(controller).items() if isinstance(value, plain)}


def _rows_of(array: Array) -> Any:
    """Return an array `(…, N)` as float64 `(N, …)`, whose rows are contiguous; numbers of `(N,)` as plain floats."""
    rows = np.array(to_numpy(array).T, dtype=float, order="C")
    return rows.tolist() if rows.ndim == 1 else rows
