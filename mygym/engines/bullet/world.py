"""Simulated world: a robot, a workspace and objects in one Bullet client."""

from __future__ import annotations

import copy
import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mygym.config.schema import ControlParams
from mygym.engines.bullet.client import bullet, closing, connect
from mygym.engines.bullet.fixture_bodies import FixtureBodies
from mygym.engines.bullet.object_bodies import MovingDistractor, ObjectBodies
from mygym.engines.bullet.robot_body import RobotBody
from mygym.errors import ConfigError, RunError, bad_value
from mygym.robotics.controllers import find_controller
from mygym.robotics.controllers.arms import ArmControllers
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.robotics.inference.base_placement import arm_length, count_joints, freedom
from mygym.robotics.kinematics import Chain, Kinematics
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.robots import MountedCameraSpec, RobotSpec, at_home
from mygym.robotics.workspace import CameraSpec, WorkspaceSpec
from mygym.tasks.state import State
from mygym.types import FloatArray


@dataclass(frozen=True)
class SolverSettings:
    """Integration settings of Bullet."""

    substeps: int
    """Physics steps per control step."""
    iterations: int
    """Maximum iterations of the constraint solver."""
    residual_threshold: float
    """The solver stops when no constraint changes a velocity by more than the square root of this, m/s or rad/s."""


SOLVER = SolverSettings(substeps=8, iterations=20, residual_threshold=3e-3)
"""Default, chosen by measurement: benchmarks/results/fidelity.md."""

GRAVITY = 9.81
"""m/s². Acts on objects only: real arms compensate their weight, and the solver has less to do."""


class World:
    """Simulation of a robot, a workspace and objects.

    `state` is the same object for the life of the world; `reset` and `step` refill its arrays in place.
    `robot` and `workspace` are adapted to each other, see `WorkspaceSpec.with_base` and `WorkspaceSpec.fit`.
    A constructor that raises closes its Bullet client.

    Args:
        robot: The robot.
        workspace: The workspace in which the robot stands.
        objects: The objects, in the order of `State.object_position`; several are alternatives, see `randomize`.
        control: A registered controller, with parameters if it is a mapping or `ControlParams`; each arm has one.
        control_hz: Control steps per second.
        gripper: Whether the last action component moves the gripper (-1 closed, +1 open); the last two for two arms
            with grippers. If False, or if the robot has no gripper, actions command the arm only, the fingers are
            welded shut and the state has none (`F = 0`).
        solver: Integration settings.
        tool_yaw: Whether the first arm's tool may turn about its axis: end-effector controllers then have a further
            action component `tool_yaw` after the position, see `mygym.robotics.controllers.controller`.
        moving_distractors: Index of an object → its motion to and fro about its start; such objects are weightless.
        home: `(J,)` rad, start of the joints of all arms; by default the tool is at the workspace's `tool_home`.

    Raises:
        RegistryError: Unknown controller.
        ConfigError: The tool cannot reach the workspace's `tool_home`, `home` is beyond the limits of the joints, or
            the controller refuses its parameters.
        AssetError: The robot's URDF cannot be used.
    """

    def __init__(
        self,
        robot: RobotSpec,
        workspace: WorkspaceSpec,
        objects: Sequence[ObjectSpec | Sequence[ObjectSpec]] = (),
        control: str | Mapping[str, Any] | ControlParams = "ee_delta",
        control_hz: float = 25.0,
        gripper: bool = True,
        solver: SolverSettings = SOLVER,
        tool_yaw: bool = False,
        moving_distractors: Mapping[int, MovingDistractor] | None = None,
        home: Sequence[float] | None = None,
    ) -> None:
        self.control = find_controller(control)
        robot, workspace = self.control.limited(workspace.with_base(robot)), workspace.fit(robot)
        if home is not None:
            robot = at_home(robot, home)
        self._given_home = home
        self.robot, self.workspace = robot, workspace
        self.solver, self.tool_yaw = solver, tool_yaw
        self.control_hz, self.dt = control_hz, 1.0 / control_hz
        self.has_gripper = gripper and robot.gripper is not None
        self.elapsed_steps = 0
        """Control steps since the reset."""
        self.simulation = 0
        """Number of resets."""
        self.saved_states: set[int] = set()
        """Bullet's numbers of the states in its memory, see `SavedWorld`; a reset removes them."""
        self._client = connect()
        self._close = closing(self, self._client)
        try:
            self._build(objects, gripper, moving_distractors or {})
        except BaseException:
            self.close()
            raise

    def _build(
        self,
        objects: Sequence[ObjectSpec | Sequence[ObjectSpec]],
        gripper: bool,
        moving_distractors: Mapping[int, MovingDistractor],
    ) -> None:
        """Create bodies, controllers and state, and reset with the objects in a row."""
        robot, workspace, client, substeps = self.robot, self.workspace, self._client, self.solver.substeps
        self._robot_body = RobotBody(robot, client, gripper, self.control.kind.mode, self.dt, substeps)
        dynamics = self._robot_body.inverse_dynamics
        self._arms = ArmControllers(robot, workspace, self.control, self.dt, dynamics, gripper, self.tool_yaw)
        self.controllers = self._arms.controllers
        self.controller, self.kinematics = self.controllers[0], self.controllers[0].kinematics
        self.control_names = self._arms.names
        self.action_size = len(self.control_names)
        self.home = self._home()
        self._fixture_bodies = FixtureBodies(workspace, client, self.dt, substeps, GRAVITY)
        self.part_names, self.parts = self._fixture_bodies.part_names, self._fixture_bodies.parts
        self._object_bodies = ObjectBodies(objects, client, GRAVITY, moving_distractors)
        joints = sum(len(arm.joints) for arm in robot.arms)
        first_fingers, *other_fingers = [len(arm.gripper.links) if gripper and arm.gripper else 0 for arm in robot.arms]
        counts = joints, first_fingers, len(objects), len(self.parts), len(robot.arms), sum(other_fingers)
        self.state = State.zeros(1, *counts, self._arms.command_offset_size)
        self.randomize(EpisodeRandomization())
        self.reset(self._objects_in_a_row())

    def _home(self) -> FloatArray:
        """Return `(J,)` rad: the given home; else the first arm's tool at `tool_home`, the other arms at their home.

        Raises:
            ConfigError: The tool cannot reach `tool_home`.
        """
        if self._given_home is not None:
            return np.array(self._given_home, dtype=float)
        first, *further = [controller.chain for controller in self.controllers]
        position = np.array(self.workspace.tool_home)
        posture = self.kinematics.inverse(first.home, position, first.rotation, iterations=200)
        missing = self.kinematics.missing(posture, position, first.rotation)
        if missing:
            raise ConfigError(_out_of_reach(self.robot, first, self.workspace, missing))
        return np.concatenate([posture, *(chain.home for chain in further)])

    def _objects_in_a_row(self) -> FloatArray:
        """Return initial poses `(k, 7)`: on the table, apart from each other, away from the tool."""
        poses = np.zeros((len(self.objects), 7))
        for index, spec in enumerate(self.objects):
            poses[index] = (0.1 * index - 0.1, 0.15, spec.half_height, 0.0, 0.0, 0.0, 1.0)
        return poses

    # Read access for checks, rendering and tests --------------------------------------------------------------------

    @property
    def client(self) -> int:
        """Bullet client."""
        return self._client

    @property
    def robot_body(self) -> RobotBody:
        """The robot in the client."""
        return self._robot_body

    @property
    def fixture_bodies(self) -> FixtureBodies:
        """The workspace's fixtures in the client."""
        return self._fixture_bodies

    @property
    def object_bodies(self) -> ObjectBodies:
        """The objects in the client."""
        return self._object_bodies

    @property
    def objects(self) -> tuple[ObjectSpec, ...]:
        """The objects of this episode in its sizes, see `randomize`; also those that are absent."""
        return self._object_bodies.specs

    @property
    def cameras(self) -> dict[str, CameraSpec | MountedCameraSpec]:
        """Cameras of the workspace and of the robot, by name."""
        return {**self.workspace.cameras, **self.robot.cameras}

    # Simulation -----------------------------------------------------------------------------------------------------

    def randomize(self, randomization: EpisodeRandomization) -> None:
        """Apply a randomization from the next `reset` on."""
        self.randomization = randomization
        self._object_bodies.randomize(randomization)
        self._robot_body.randomize(randomization.joint_friction, randomization.joint_gain)

    def reset(
        self,
        object_poses: FloatArray,
        joint_position: FloatArray | None = None,
        part_position: FloatArray | None = None,
    ) -> None:
        """Reset exactly: the next episode does not depend on earlier episodes, to the last bit.

        Bullet keeps contact and solver caches through anything less than `resetSimulation`, so everything is rebuilt.

        Args:
            object_poses: `(k, 7)` position in m and quaternion of each object's centre of mass.
            joint_position: `(J,)` rad; `home` by default, with the tool at the workspace's `tool_home`. The gripper
                starts open.
            part_position: `(P,)` m or rad, see `part_names`; by default all parts are at rest.

        Raises:
            ConfigError: A part position is out of range.
        """
        client = self._client
        for saved in self.saved_states:
            bullet.removeState(saved, physicsClientId=client)
        self.saved_states.clear()
        self.simulation += 1
        bullet.resetSimulation(physicsClientId=client)
        bullet.setPhysicsEngineParameter(
            fixedTimeStep=self.dt,
            numSubSteps=self.solver.substeps,
            numSolverIterations=self.solver.iterations,
            solverResidualThreshold=self.solver.residual_threshold,
            # Split impulses do not push back a part that is forced beyond its stop.
            useSplitImpulse=not self.part_names,
            physicsClientId=client,
        )
        self._fixture_bodies.load(part_position)
        self._robot_body.load(np.array(self.home if joint_position is None else joint_position, dtype=float))
        self._object_bodies.load(object_poses)
        self._object_bodies.read_constants(self.state)
        self.elapsed_steps = 0
        self._read_state()
        self.state.hit[...], self.state.hit_position[...] = False, self.state.object_position
        self.state.gripper_command[0] = 1.0
        self._arms.reset(self.state)

    def step(self, action: FloatArray) -> None:
        """Advance one control step.

        Args:
            action: `(A,)` in [-1, 1], see `control_names`; values outside are clipped.
        """
        state = self.state
        action = np.minimum(np.maximum(action, -1.0), 1.0)
        command = self._arms.command(action, state)
        grippers = self._arms.grippers(action)
        self._robot_body.drive(command, state.joint_position[0], grippers)
        self._object_bodies.apply_forces(state, self.elapsed_steps * self.dt, self.dt)
        if self._fixture_bodies.has_forces:
            self._fixture_bodies.apply_forces(state)
        bullet.stepSimulation(physicsClientId=self._client)
        self.elapsed_steps += 1
        self._read_state()
        if self._object_bodies.ids:
            self._object_bodies.read_hits(state, self.dt)
        self._arms.read_offsets(state)
        if grippers.size:
            state.gripper_command[0] = 0.5 + 0.5 * grippers[0]

    def push_parts(self, share: FloatArray) -> None:
        """Push parts during the next step; for checks and tests.

        Args:
            share: `(P,)` fraction of the force in each part's description; the sign is the direction.
        """
        for index, (part, fraction) in enumerate(zip(self.parts, share.tolist(), strict=True)):
            self._fixture_bodies.push(index, fraction * (part.force or 1.0))

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
        return self._arms.action_towards(self.state, ee_target, gripper, yaw_change, second_target, second_gripper)

    def reachable(self, points: FloatArray) -> NDArray[np.bool_]:
        """Return `(n,)`: whether the tool, held as at home, reaches each point `(n, 3)` to 5 mm within joint limits."""
        return self.kinematics.reachable(np.asarray(points, dtype=float), self.kinematics.chain.rotation)

    def close(self) -> None:
        """Close the physics client; may be called repeatedly."""
        self._close()

    @property
    def closed(self) -> bool:
        """Whether the physics client is closed."""
        return not self._close.alive

    def _read_state(self) -> None:
        state = self.state
        self._robot_body.read(state)
        self._arms.read(state)
        self._object_bodies.read(state)
        if self.part_names:
            self._fixture_bodies.read(state)
        if self._object_bodies.ids:
            self._object_bodies.read_contacts(state, self._robot_body)
        state.time[0] = self.elapsed_steps * self.dt


def _out_of_reach(robot: RobotSpec, chain: Chain, workspace: WorkspaceSpec, missing: str) -> str:
    """Return the message for a robot that misses `tool_home`: its arm and tool in figures, and the lines that set them.

    Args:
        robot: The robot.
        chain: Its first arm.
        workspace: The workspace.
        missing: By how much the tool misses it.
    """
    tool, few = robot.end_effector, freedom(robot).moves
    away = float(np.linalg.norm(np.array(workspace.tool_home) - Kinematics(chain).joint_points(chain.home)[0]))
    why = (
        f"cannot reach tool_home ({missing}): its arm of {count_joints(len(robot.joints))}, {robot.joints[0].name} to "
        f"{robot.joints[-1].name}, is {100 * arm_length(chain):.1f} cm long and begins {100 * away:.1f} cm away"
    )
    end_effector = f"{{link: {json.dumps(tool.link, ensure_ascii=False)}, position: {list(tool.position)}}}"
    is_bare = Path(robot.urdf).name == robot.name
    where = f"a YAML file with the line `urdf: {json.dumps(robot.name, ensure_ascii=False)}`" if is_bare else "its file"
    allowed = (
        f"a robot whose tool reaches {list(workspace.tool_home)}, the tool_home of {workspace.name}; to correct it, "
        f"change `base_position: {list(robot.base_position)}` or `end_effector: {end_effector}` in {where}"
    )
    return bad_value("robot", robot.name, allowed, f"{why}, and {few}" if few else why)


class SavedWorld:
    """State of a world, which can be restored until the next reset.

    Positions, velocities and contacts are restored, but not the caches of Bullet's solver: the same actions give nearly
    the same states, not the same to the bit.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        self._world, self._simulation = world, world.simulation
        self._id = int(bullet.saveState(physicsClientId=world.client))
        world.saved_states.add(self._id)
        weakref.finalize(self, _free, world, self._simulation, self._id).atexit = False
        self._steps = world.elapsed_steps
        self._state = {field.name: getattr(world.state, field.name).copy() for field in fields(world.state)}
        self._controllers = [_plain_attributes(controller) for controller in world.controllers]

    def restore(self) -> None:
        """Restore the state.

        Raises:
            RunError: The world was reset or closed since.
        """
        world = self._world
        if world.closed or world.simulation != self._simulation:
            raise RunError("snapshot: its episode is over, because the environment was reset or closed since")
        bullet.restoreState(stateId=self._id, physicsClientId=world.client)
        world.elapsed_steps = self._steps
        for name, values in self._state.items():
            getattr(world.state, name)[...] = values
        for controller, attributes in zip(world.controllers, self._controllers, strict=True):
            vars(controller).update(copy.deepcopy(attributes))


def _plain_attributes(controller: Any) -> dict[str, Any]:
    """Return copies of the attributes that may change in a step: numbers, arrays and containers."""
    plain = (type(None), bool, int, float, np.ndarray, list, tuple, dict)
    return {name: copy.deepcopy(value) for name, value in vars(controller).items() if isinstance(value, plain)}


def _free(world: World, simulation: int, state: int) -> None:
    if not world.closed and world.simulation == simulation:
        world.saved_states.discard(state)
        bullet.removeState(state, physicsClientId=world.client)
