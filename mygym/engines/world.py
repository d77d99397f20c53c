"""What every physics engine has in common: a world's description, its controllers, its state, and the control step.

An engine is a subclass of `World` that creates bodies, moves them and reads them; see `docs/your_own_engine.md`.
"""

from __future__ import annotations

import copy
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mygym.config.schema import ControlParams
from mygym.engines.arrays import Arrays, Rows
from mygym.engines.controllers import plain_attributes
from mygym.engines.inspection import Inspection
from mygym.errors import ConfigError, RunError, bad_value, counted
from mygym.robotics.controllers import find_controller
from mygym.robotics.controllers.arms import ArmControllers
from mygym.robotics.episode_randomization import EpisodeRandomization, scaled
from mygym.robotics.inference.base_placement import arm_length, freedom
from mygym.robotics.kinematics import Chain, Kinematics
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.robot_spec import MountedCameraSpec, RobotSpec, at_home
from mygym.robotics.workspace import CameraSpec, WorkspaceSpec
from mygym.tasks.context import ArmCommand
from mygym.tasks.state import State
from mygym.types import Array, FloatArray, Vector

GRAVITY = 9.81
"""m/s². Acts on objects only: real arms compensate their weight, and a solver has less to do."""

HIT = 0.2
"""m/s: change of velocity, besides that by gravity, from which an object has met another body."""

PRESSED = 0.001
"""m: depth above which an object that the robot has let go is still being pushed out of another body."""

CATCH_UP_FACTOR = 2.0
"""Maximum speed of a distractor that was held up, in multiples of its nominal speed."""


@dataclass(frozen=True)
class MovingDistractor:
    """Motion to and fro at constant speed; it starts in the middle, towards `axis`."""

    axis: Vector
    """Unit vector in the world frame."""
    speed: float
    """m/s."""
    range: float
    """m to either side of the middle."""

    def position(self, middle: Sequence[float], time: float) -> list[float]:
        """Return the nominal position `(3,)` m after `time` s."""
        phase = (self.speed * time / self.range + 1.0) % 4.0
        offset = self.range * (phase - 1.0 if phase < 2.0 else 3.0 - phase)
        return [coordinate + offset * along for coordinate, along in zip(middle, self.axis, strict=True)]

    def velocity(self, middle: Sequence[float], position: Sequence[float], time: float, dt: float) -> list[float]:
        """Return the velocity `(3,)` m/s with which it is where it should be after the control step that begins now.

        It stops where it is blocked, and catches up afterwards. The middle of its motion and its position are `(3,)` m,
        `time` is in s since the reset, and the control step takes `dt` s.
        """
        target = self.position(middle, time + dt)
        velocity = [(goal - coordinate) / dt for goal, coordinate in zip(target, position, strict=True)]
        scale = min(1.0, CATCH_UP_FACTOR * self.speed / max(math.hypot(*velocity), 1e-9))
        return [scale * component for component in velocity]


@dataclass(frozen=True)
class WorldSpec:
    """Description of a world: all that an engine builds it from."""

    robot: RobotSpec
    workspace: WorkspaceSpec
    objects: Sequence[ObjectSpec | Sequence[ObjectSpec]] = ()
    """In the order of `State.object_position`; several are alternatives, of which each episode has one."""
    control: str | Mapping[str, Any] | ControlParams = "ee_delta"
    """A registered controller, with parameters if it is a mapping or `ControlParams`; each arm has one."""
    control_hz: float = 25.0
    """Control steps per second."""
    gripper: bool = True
    """Whether the last action component moves the gripper (-1 closed, +1 open); the last two for two arms with
    grippers. If False, or if the robot has no gripper, actions command the arm only, the fingers are welded shut and
    the state has none (`F = 0`)."""
    tool_yaw: bool = False
    """Whether the first arm's tool may turn about its axis: end-effector controllers then have a further action
    component `tool_yaw` after the position, see `mygym.robotics.controllers.controller`."""
    moving_distractors: Mapping[int, MovingDistractor] = field(default_factory=dict)
    """Index of an object → its motion to and fro about its start; such objects are weightless."""
    home: Sequence[float] | None = None
    """`(J,)` rad, start of the joints of all arms; None: the tool is at the workspace's `tool_home`."""


class Worlds(Protocol):
    """`N` worlds side by side, as episodes ask for them; a `World` is `N = 1`."""

    count: int
    """`N`."""
    arrays: Arrays
    """Library of all arrays."""
    action_size: int
    """`A`: number of action components."""

    @property
    def action_repeat(self) -> int:
        """Control steps for which an action is repeated; 1 for more than one world."""

    @property
    def state(self) -> State:
        """The current states; a step may refill their arrays."""

    def step_all(self, actions: Array) -> None:
        """Advance all worlds by a control step, with actions `(N, A)` that are clipped to [-1, 1]."""

    def actions_towards(self, command: ArmCommand) -> Array:
        """Return the actions `(N, A)` in [-1, 1] that move the end effectors towards the targets of a command."""


class BatchWorlds(Worlds, Protocol):
    """`N` worlds whose whole state is in arrays, so that some can continue others, and a GPU can repeat a step."""

    @property
    def randomized_fields(self) -> Sequence[str]:
        """Fields of `EpisodeRandomization` that `randomize` applies."""

    def reset(self, rows: Rows, poses: Array, parts: Array) -> None:
        """Put the worlds `rows` at the start of an episode: at rest, at home, with open grippers.

        The next steps follow from the last `randomize`, this call and the actions, to the bit, whatever came before
        and whatever the other worlds do.

        Args:
            rows: The worlds.
            poses: `(n, k, 7)` m and quaternions of the objects' centres of mass.
            parts: `(n, P)` m or rad, positions of the articulated parts; `P = 0` without.
        """

    def randomize(self, values: Mapping[str, Array]) -> None:
        """Set physical parameters of all worlds; fields that do not vary are left out.

        The values of a world differ from those of the call before only when its `reset` follows. After
        `load_state_dict` all are set again, and no reset follows.

        Args:
            values: Field of `EpisodeRandomization` → `(k, N)` for values of each object, `(J, N)` of each joint, or
                `(N,)`; also of fields that are none of `randomized_fields`, which others apply.
        """

    def copy_from(self, other: Any, source: Array, rows: Rows) -> None:
        """Put the worlds `rows` into the states of the worlds `source` `(n,)` of others of the same description.

        The parameters of `randomize` stay.
        """

    def variables(self) -> list[Array]:
        """Return the arrays on which the next steps depend, in the order of `set_variables`; for engines on a GPU."""

    def set_variables(self, arrays: Iterator[Array]) -> None:
        """Replace the arrays of `variables` by the next of `arrays`."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""


class World(ABC):
    """A simulated robot, its workspace and objects.

    `state` is the same object for the life of the world; `reset` and `step` refill its arrays in place.
    `robot` and `workspace` are adapted to each other, see `WorkspaceSpec.with_base` and `WorkspaceSpec.fit`.
    A constructor that raises closes the world.

    A subclass implements `_build`, `_load`, `_advance` and `_read`, and, where it can, the methods that follow them.

    Raises:
        RegistryError: Unknown controller.
        ConfigError: The tool cannot reach the workspace's `tool_home`, `home` is beyond the limits of the joints, or
            the controller refuses its parameters.
        AssetError: The engine cannot use the robot's URDF.
    """

    count = 1
    arrays = Arrays(np, None, double=True)
    batched: ClassVar[bool] = False
    """Whether `batch` gives many worlds as arrays, in which `BatchEnv` and training have their environments."""

    rolls_by_axis: ClassVar[bool] = False
    """Whether rolling friction slows each horizontal axis by itself, so that balls turn as they roll."""

    def __init__(self, spec: WorldSpec) -> None:
        self.spec, self._closed = spec, False
        self.control = find_controller(spec.control)
        robot, workspace = self.control.limited(spec.workspace.with_base(spec.robot)), spec.workspace
        workspace = workspace.fit(robot)
        if spec.home is not None:
            robot = at_home(robot, spec.home)
        self.robot, self.workspace = robot, workspace
        self.control_hz, self.dt = spec.control_hz, 1.0 / spec.control_hz
        self.has_gripper = spec.gripper and robot.gripper is not None
        self.elapsed_steps = 0
        """Control steps since the reset."""
        self.resets = 0
        """Number of resets."""
        self.alternatives = tuple((specs,) if isinstance(specs, ObjectSpec) else tuple(specs) for specs in spec.objects)
        """Objects of which each episode has one, for each index in `State.object_position`."""
        self.moving_distractors = dict(spec.moving_distractors)
        parts = workspace.parts
        self.part_names = tuple(parts)
        """Names of the parts that move, in the order of `State.part_position`."""
        self.parts = tuple(parts.values())
        """Descriptions of the parts."""
        self.randomize(EpisodeRandomization())
        try:
            self._build()
            self.arm_controllers = ArmControllers(
                robot, workspace, self.control, self.dt, self.inverse_dynamics, spec.gripper, spec.tool_yaw
            )
            self.controllers = self.arm_controllers.controllers
            self.controller, self.kinematics = self.controllers[0], self.controllers[0].kinematics
            self.control_names = self.arm_controllers.names
            self.action_size = len(self.control_names)
            self.home = self._home()
            self.state = self.empty_state(1)
            self.reset(self.objects_in_a_row())
        except BaseException:
            self.close()
            raise

    def empty_state(self, count: int) -> State:
        """Return a state of `count` worlds of this description, which is not filled."""
        arms = self.robot.arms
        first_fingers, *other_fingers = [
            len(arm.gripper.links) if self.spec.gripper and arm.gripper else 0 for arm in arms
        ]
        counts = first_fingers, len(self.alternatives), len(self.parts), len(arms), sum(other_fingers)
        return State.zeros(
            count, sum(len(arm.joints) for arm in arms), *counts, self.arm_controllers.command_offset_size
        )

    def _home(self) -> FloatArray:
        """Return `(J,)` rad: the given home; else the first arm's tool at `tool_home`, the other arms at their home.

        Raises:
            ConfigError: The tool cannot reach `tool_home`.
        """
        if self.spec.home is not None:
            return np.array(self.spec.home, dtype=float)
        first, *further = [controller.chain for controller in self.controllers]
        position = np.array(self.workspace.tool_home)
        posture = self.kinematics.inverse(first.home, position, first.rotation, iterations=200)
        missing = self.kinematics.missing(posture, position, first.rotation)
        if missing:
            raise ConfigError(_out_of_reach(self.robot, first, self.workspace, missing))
        return np.concatenate([posture, *(chain.home for chain in further)])

    def objects_in_a_row(self) -> FloatArray:
        """Return initial poses `(k, 7)`: on the table, apart from each other, away from the tool."""
        poses = np.zeros((len(self.objects), 7))
        for index, spec in enumerate(self.objects):
            poses[index] = (0.1 * index - 0.1, 0.15, spec.half_height, 0.0, 0.0, 0.0, 1.0)
        return poses

    @property
    def cameras(self) -> dict[str, CameraSpec | MountedCameraSpec]:
        """Cameras of the workspace and of the robot, by name."""
        return {**self.workspace.cameras, **self.robot.cameras}

    # What an engine implements --------------------------------------------------------------------------------------

    @abstractmethod
    def _build(self) -> None:
        """Prepare the simulation; called once, when all but `controllers`, `home` and `state` is set."""

    @abstractmethod
    def _load(self, joint_position: FloatArray, part_position: list[float], object_poses: FloatArray) -> None:
        """Begin an episode at rest, with open grippers and with `objects`, `present` and `randomization`.

        The same calls give the same episode to the bit, whatever came before.

        Args:
            joint_position: `(J,)` rad.
            part_position: `(P,)` m or rad, within the range of each part.
            object_poses: `(k, 7)` position in m and quaternion of each object's centre of mass.
        """

    @abstractmethod
    def _advance(self, command: FloatArray, grippers: FloatArray) -> None:
        """Advance the physics by one control step of `dt` s.

        Args:
            command: `(J,)`: targets of the joints in rad, or torques in N m, see `Controller.mode`.
            grippers: Opening of each commanded gripper, -1 closed to +1 open.
        """

    @abstractmethod
    def _read(self, state: State) -> None:
        """Fill the arrays of a state that the engine measures: joints, tools, grippers, contacts, objects, parts.

        The base class fills `time`, `gripper_command`, what controllers know, and what is constant in an episode.
        """

    def _read_hits(self, state: State) -> None:
        """Fill `hit` and `hit_position` after a control step; by default objects meet nothing."""
        state.hit_position[...] = state.object_position

    def inverse_dynamics(self, arm: int, q: FloatArray, v: FloatArray, a: FloatArray) -> FloatArray:
        """Return the torques `(J,)` N m of an arm for joint positions, velocities and accelerations `(J,)`.

        Raises:
            ConfigError: The engine has no dynamics of arms.
        """
        why = "commands torques, which this engine does not have"
        raise ConfigError(bad_value("control", self.control.config.name, "a controller of positions", why))

    def push_parts(self, share: FloatArray) -> None:
        """Push parts during the next step; for checks and tests.

        Args:
            share: `(P,)` fraction of the force in each part's description; the sign is the direction.

        Raises:
            RunError: The engine cannot.
        """
        raise RunError(f"push_parts: {type(self).__name__} has no forces on parts")

    def _save(self) -> Callable[[], None]:
        """Return a function that restores the bodies as they are now, until the next reset.

        Raises:
            RunError: The engine cannot.
        """
        raise RunError(f"snapshot: {type(self).__name__} has none; `state_dict` plays the episode again")

    def batch(self, count: int) -> BatchWorlds:
        """Return `count` worlds of this world's description as arrays, which go on when this world is closed.

        Raises:
            ConfigError: The engine has none.
        """
        raise ConfigError(
            bad_value("num_envs", count, "1", f"needs batches, which {type(self).__name__} does not have")
        )

    @property
    def inspection(self) -> Inspection | None:
        """Answers about shapes in the current state; None: those of another engine serve, see `inspection_of`."""
        return None

    def close(self) -> None:
        """Free what the engine holds; may be called repeatedly."""
        self._closed = True

    @property
    def closed(self) -> bool:
        """Whether the world is closed."""
        return self._closed

    # Simulation -----------------------------------------------------------------------------------------------------

    def randomize(self, randomization: EpisodeRandomization) -> None:
        """Apply a randomization from the next `reset` on."""
        self.randomization = randomization
        choice = randomization.object_choice or (0,) * len(self.alternatives)
        sizes = randomization.object_size or (1.0,) * len(self.alternatives)
        self.present = tuple(index is not None for index in choice)
        """Whether each object is in this episode."""
        drawn = (specs[index or 0] for specs, index in zip(self.alternatives, choice, strict=True))
        self.objects = tuple(scaled(spec, size) for spec, size in zip(drawn, sizes, strict=True))
        """The objects of this episode in its sizes; also those that are absent."""

    def reset(
        self,
        object_poses: FloatArray,
        joint_position: FloatArray | None = None,
        part_position: FloatArray | None = None,
    ) -> None:
        """Reset exactly: the next episode does not depend on earlier episodes, to the last bit.

        Args:
            object_poses: `(k, 7)` position in m and quaternion of each object's centre of mass.
            joint_position: `(J,)` rad; `home` by default, with the tool at the workspace's `tool_home`. The gripper
                starts open.
            part_position: `(P,)` m or rad, see `part_names`; by default all parts are at rest.

        Raises:
            ConfigError: A part position is out of range.
        """
        parts = self._checked_parts(part_position)
        self.resets += 1
        self._load(np.array(self.home if joint_position is None else joint_position, dtype=float), parts, object_poses)
        self._fill_constants()
        self.elapsed_steps = 0
        state = self.state
        self._read_state()
        state.hit[...], state.hit_position[...] = False, state.object_position
        state.gripper_command[0] = 1.0
        self.arm_controllers.reset(state)

    def step(self, action: FloatArray) -> None:
        """Advance one control step.

        Args:
            action: `(A,)` in [-1, 1], see `control_names`; values outside are clipped.
        """
        state = self.state
        action = np.minimum(np.maximum(action, -1.0), 1.0)
        command = self.arm_controllers.command(action, state)
        grippers = self.arm_controllers.grippers(action)
        self._advance(command, grippers)
        self.elapsed_steps += 1
        self._read_state()
        if self.alternatives:
            self._read_hits(state)
        self.arm_controllers.read_offsets(state)
        if grippers.size:
            state.gripper_command[0] = 0.5 + 0.5 * grippers[0]

    def _read_state(self) -> None:
        self._read(self.state)
        self.arm_controllers.read(self.state)
        self.state.time[0] = self.elapsed_steps * self.dt

    def _fill_constants(self) -> None:
        """Fill the arrays of the state that stay as they are through an episode; others of absent objects are 0."""
        state, objects = self.state, self.objects
        state.object_depth[...] = 0.0
        state.object_middle[0] = [spec.middle for spec in objects] or 0.0
        state.object_present[0], state.object_size[0] = self.present, [spec.size for spec in objects] or 0.0
        for k, is_present in enumerate(self.present):
            if not is_present:
                for array in (state.object_position, state.object_orientation, state.object_size, state.object_middle):
                    array[0, k] = 0.0
                state.object_velocity[0, k] = state.object_angular_velocity[0, k] = 0.0

    def _checked_parts(self, part_position: FloatArray | None) -> list[float]:
        """Return the positions of the parts, by default at rest.

        Raises:
            ConfigError: A position is out of the range of its part, or their number is wrong.
        """
        if part_position is None:
            return [part.rest for part in self.parts]
        positions: list[float] = np.asarray(part_position, dtype=float).ravel().tolist()
        if len(positions) != len(self.parts):
            raise ConfigError(bad_value("part_position", positions, f"{len(self.parts)} numbers: {self.part_names}"))
        for name, part, position in zip(self.part_names, self.parts, positions, strict=True):
            if not part.lower <= position <= part.upper:
                raise ConfigError(bad_value(f"part_position of {name}", position, f"{part.lower:g} to {part.upper:g}"))
        return positions

    def action_towards(
        self,
        ee_target: FloatArray,
        gripper: float = 1.0,
        yaw_change: float = 0.0,
        second_target: FloatArray | None = None,
        second_gripper: float = 1.0,
    ) -> FloatArray:
        """Return the action that moves the end effectors towards targets in straight lines, for any controller.

        Arguments without an action component (a welded gripper, no `tool_yaw`, no second arm) are ignored.

        Args:
            ee_target: `(3,)` m in the world frame, of the first arm.
            gripper: Of the first arm, -1 closed to +1 open.
            yaw_change: rad by which the first arm's tool must still turn from its measured yaw, positive
                counter-clockwise seen from above if the tool points down; 0 holds the last commanded yaw.
            second_target: `(3,)` m, of the second arm; by default its position at the reset.
            second_gripper: Of the second arm.

        Returns:
            `(A,)` in [-1, 1].
        """
        return self.arm_controllers.action_towards(
            self.state, ee_target, gripper, yaw_change, second_target, second_gripper
        )

    def save(self) -> Callable[[], None]:
        """Return a function that restores the state of now, until the next reset; as exact as the engine's snapshots.

        The function raises `RunError` if the world was reset or closed since.

        Raises:
            RunError: The engine has no snapshots.
        """
        restore_bodies, resets, steps, saved = self._save(), self.resets, self.elapsed_steps, copy.deepcopy(self.state)
        controllers = [plain_attributes(controller) for controller in self.controllers]

        def restore() -> None:
            if self.closed or self.resets != resets:
                raise RunError("snapshot: its episode is over, because the environment was reset or closed since")
            restore_bodies()
            self.elapsed_steps = steps
            for name in State.__slots__:
                getattr(self.state, name)[...] = getattr(saved, name)
            for controller, attributes in zip(self.controllers, controllers, strict=True):
                vars(controller).update(copy.deepcopy(attributes))

        return restore

    # One of `N` worlds ----------------------------------------------------------------------------------------------

    @property
    def action_repeat(self) -> int:
        """Control steps for which an action is repeated."""
        return self.control.config.action_repeat

    def step_all(self, actions: Array) -> None:
        """Advance by an action `(1, A)`, see `Worlds.step_all`."""
        self.step(actions[0])

    def actions_towards(self, command: ArmCommand) -> Array:
        """Return the action `(1, A)` float32 of a command, see `Worlds.actions_towards`."""
        second = None if command.second_target is None else command.second_target[0]
        action = self.action_towards(
            command.target[0],
            _scalar(command.gripper),
            0.0 if command.yaw_change is None else _scalar(command.yaw_change),
            None if second is None or math.isnan(second[0]) else second,
            _scalar(command.second_gripper),
        )
        return action.astype(np.float32)[None]

    def reachable(self, points: FloatArray) -> NDArray[np.bool_]:
        """Return `(n,)`: whether the tool, held as at home, reaches each point `(n, 3)` to 5 mm within joint limits."""
        return self.kinematics.reachable(np.asarray(points, dtype=float), self.kinematics.chain.rotation)


def _scalar(value: Any) -> float:
    """Return a number, or the first of a batch."""
    return float(value) if isinstance(value, int | float) else float(value[0])


def _out_of_reach(robot: RobotSpec, chain: Chain, workspace: WorkspaceSpec, missing: str) -> str:
    """Return the message for a robot that misses `tool_home`: figures of arm and tool, and the lines that set them."""
    tool, few = robot.end_effector, freedom(robot).moves
    away = float(np.linalg.norm(np.array(workspace.tool_home) - Kinematics(chain).joint_points(chain.home)[0]))
    why = (
        f"cannot reach tool_home ({missing}): its arm of {counted(len(robot.joints), 'joint')}, "
        f"{robot.joints[0].name} to {robot.joints[-1].name}, is {100 * arm_length(chain):.1f} cm long "
        f"and begins {100 * away:.1f} cm away"
    )
    end_effector = f"{{link: {json.dumps(tool.link, ensure_ascii=False)}, position: {list(tool.position)}}}"
    is_bare = Path(robot.urdf).name == robot.name
    where = f"a YAML file with the line `urdf: {json.dumps(robot.name, ensure_ascii=False)}`" if is_bare else "its file"
    allowed = (
        f"a robot whose tool reaches {list(workspace.tool_home)}, the tool_home of {workspace.name}; to correct it, "
        f"change `base_position: {list(robot.base_position)}` or `end_effector: {end_effector}` in {where}"
    )
    return bad_value("robot", robot.name, allowed, f"{why}, and {few}" if few else why)
