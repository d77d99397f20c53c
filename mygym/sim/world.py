"""One simulated world: a robot, a workspace and objects in a Bullet client of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
from mygym.models.controllers import ArmLimits, Controller
from mygym.models.episode_randomization import EpisodeRandomization, scaled
from mygym.models.kinematics import Kinematics, make_chain
from mygym.models.objects import ObjectSpec
from mygym.models.robot import RobotSpec
from mygym.models.workspace import Area, WorkspaceSpec
from mygym.registry import registry
from mygym.sim.bodies import add_object, modelled, vary_object
from mygym.sim.bullet import bullet, connect, disconnect
from mygym.sim.fixture_bodies import FixtureBodies
from mygym.sim.moving_distractor import MovingDistractor, drive
from mygym.sim.robot_body import RobotBody
from mygym.tasks.state import State
from mygym.types import FloatArray


@dataclass(frozen=True)
class SolverSettings:
    """How finely Bullet integrates."""

    substeps: int
    """Physics steps in a control step."""
    iterations: int
    """Of the constraint solver, at most."""
    residual_threshold: float
    """The solver stops when no constraint changes a velocity by more than the square root of this, m/s or rad/s."""


SOLVER = SolverSettings(substeps=8, iterations=20, residual_threshold=3e-3)
"""The default, chosen by measurement: benchmarks/results/fidelity.md."""

GRAVITY = 9.81
"""m/s². It acts on objects only: real arms compensate their own weight, and the solver then has less to find out."""


HOME_TOLERANCE = 0.01
"""m by which an episode may begin beside the workspace's `tool_home`; orientation counts as in the kinematics."""


SECOND_ROOM = 0.15
"""m to each side of its home in which a second arm's tool may be commanded, besides the workspace's bounds."""


class World:
    """A robot, a workspace and objects, simulated.

    `state` is the same object for the life of the world; its arrays are refilled in place by `reset` and `step`.
    `workspace` and `robot` are as they find each other: see `WorkspaceSpec.for_robot` and `place`. `objects` are those
    of this episode, see `vary`.

    Args:
        robot: The arm.
        workspace: Where it stands.
        objects: What lies there, in the order of `State.object_position`.
        control: Name of a registered controller; each arm has one.
        control_hz: Control steps in a second.
        gripper: Whether the last action component moves the gripper (-1 closed, +1 open), for two arms with grippers
            the last two. If not, or if the robot has none, actions are the arm's alone, the fingers are welded shut and
            the state has none (`F = 0`).
        solver: Integration settings.
        turning: Whether the first arm's tool may be turned about its own axis: end-effector controllers then have a
            further action component `tool_yaw` after the position's, see `mygym.models.tool_yaw`.
        moving_distractors: Index of an object → how it moves by itself, to and fro about where it is put, weightless.

    Raises:
        RegistryError: the controller's name is not known.
        ConfigError: the tool cannot be at the workspace's `tool_home`.
        AssetError: the robot's URDF cannot be used.
    """

    def __init__(
        self,
        robot: RobotSpec,
        workspace: WorkspaceSpec,
        objects: Sequence[ObjectSpec] = (),
        control: str = "ee_delta",
        control_hz: float = 25.0,
        gripper: bool = True,
        solver: SolverSettings = SOLVER,
        turning: bool = False,
        moving_distractors: Mapping[int, MovingDistractor] | None = None,
    ) -> None:
        robot, workspace = workspace.place(robot), workspace.for_robot(robot.name)
        self.robot, self.workspace, self.objects = robot, workspace, tuple(objects)
        self.solver, self.turning = solver, turning
        self.control_hz, self.dt = control_hz, 1.0 / control_hz
        self.has_gripper = gripper and robot.gripper is not None
        kind: type[Controller] = registry("controller").get(control, "control").load()
        self._client = connect()
        self._body = RobotBody(robot, self._client, gripper, kind.mode, self.dt, solver.substeps)
        self.controllers = [self._controller(kind, index) for index in range(len(robot.arms))]
        self.controller, self.kinematics = self.controllers[0], self.controllers[0].kinematics
        grippers = [arm.gripper if gripper else None for arm in robot.arms]
        self._has_gripper = [grip is not None for grip in grippers]
        self._slices = _slices([len(controller.names) for controller in self.controllers])
        self._joints = _slices([len(arm.joints) for arm in robot.arms])
        self.control_names = _names([controller.names for controller in self.controllers], self._has_gripper)
        self.action_size = len(self.control_names)
        self.home = self._home()
        fingers, *others = [len(grip.links) if grip else 0 for grip in grippers]
        joints = sum(len(arm.joints) for arm in robot.arms)
        self._fixture_bodies = FixtureBodies(workspace, self._client, self.dt, solver.substeps, GRAVITY)
        self.part_names, self.parts = self._fixture_bodies.part_names, self._fixture_bodies.parts
        parts = len(self.part_names)
        leads = [controller.command_offset_size for controller in self.controllers]
        self._leads = _slices(leads) if sum(leads) else []
        sizes = joints, fingers, len(self.objects), parts, len(robot.arms), sum(others), sum(leads)
        self.state = State.zeros(1, *sizes)
        self._shuttles = dict(moving_distractors or {})
        self._described = self.objects
        self.vary(EpisodeRandomization())
        self.reset(self._objects_in_a_row())

    def _controller(self, kind: type[Controller], index: int) -> Controller:
        arm = self.robot.arms[index]
        chain = make_chain(self.robot, arm, self.workspace.tool_direction)
        limits = ArmLimits(
            velocity=np.array([joint.velocity for joint in arm.joints]),
            effort=np.array([joint.effort for joint in arm.joints]),
        )
        dynamics = partial(self._body.inverse_dynamics, index)
        kinematics = Kinematics(chain)
        bounds = self.workspace.tool_bounds
        if index > 0:  # the workspace's bounds are about the first arm
            bounds = _around(bounds, kinematics.pose(chain.home)[:3, 3])
        return kind(kinematics, limits, bounds, self.dt, dynamics, self.turning and index == 0)

    def _home(self) -> FloatArray:
        """`(J,)` rad: the first arm's tool at the workspace's `tool_home`, the others at their own home.

        Raises:
            ConfigError: The tool cannot be there.
        """
        first, *others = [controller.chain for controller in self.controllers]
        place = np.array(self.workspace.tool_home)
        posture = self.kinematics.inverse(first.home, place, first.rotation, iterations=200)
        missing = self.kinematics.residual(posture, place, first.rotation)
        if missing > HOME_TOLERANCE:
            self.close()
            where = f"a robot whose tool can be at {place.tolist()}, the tool_home of {self.workspace.name}"
            raise ConfigError(bad_value("robot", self.robot.name, where, f"stays {100 * missing:.1f} cm away"))
        return np.concatenate([posture, *(chain.home for chain in others)])

    def _objects_in_a_row(self) -> FloatArray:
        """Poses `(k, 7)` to start with: on the table, apart from each other, away from the tool."""
        poses = np.zeros((len(self.objects), 7))
        for index, spec in enumerate(self.objects):
            poses[index] = (0.1 * index - 0.1, 0.15, spec.half_height, 0.0, 0.0, 0.0, 1.0)
        return poses

    def vary(self, variation: EpisodeRandomization) -> None:
        """Make the episodes that follow different from what the files say, from the next `reset` on."""
        self.variation = variation
        ones = (1.0,) * len(self._described)
        sizes, masses = variation.object_size or ones, variation.object_mass or ones
        self.objects = tuple(scaled(spec, size) for spec, size in zip(self._described, sizes, strict=True))
        self._weights = [
            (0.0, 0.0, 0.0 if k in self._shuttles else -GRAVITY * mass * spec.mass)
            for k, (spec, mass) in enumerate(zip(self.objects, masses, strict=True))
        ]
        self._body.vary(variation.joint_friction, variation.joint_gain)

    def reset(
        self,
        object_poses: FloatArray,
        joint_position: FloatArray | None = None,
        part_position: FloatArray | None = None,
    ) -> None:
        """Start again, exactly: what follows does not depend on what happened before, to the last bit.

        Bullet keeps contact and solver caches through anything less than `resetSimulation`, so everything is rebuilt.

        Args:
            object_poses: `(k, 7)` position in m and quaternion of each object's centre of mass.
            joint_position: `(J,)` rad; without it the arm starts at `home`, the tool at the workspace's `tool_home`.
                The gripper starts open.
            part_position: `(P,)` m or rad, see `part_names`; without it drawers and doors are where they rest.

        Raises:
            ConfigError: a part cannot be at its position.
        """
        client = self._client
        bullet.resetSimulation(physicsClientId=client)
        bullet.setPhysicsEngineParameter(
            fixedTimeStep=self.dt,
            numSubSteps=self.solver.substeps,
            numSolverIterations=self.solver.iterations,
            solverResidualThreshold=self.solver.residual_threshold,
            # Split, what is forced beyond its stop is not pushed back: a lever 0.04 rad beyond it would stay there.
            useSplitImpulse=not self.part_names,
            physicsClientId=client,
        )
        self._fixture_bodies.load(part_position)
        self._body.load(np.array(self.home if joint_position is None else joint_position, dtype=float))
        self._bodies = [add_object(client, spec, pose) for spec, pose in zip(self.objects, object_poses, strict=True)]
        for k, (body, spec) in enumerate(zip(self._bodies, self.objects, strict=True)):
            vary_object(client, body, spec, self.variation, k)
        self._middles = [tuple(pose[:3]) for pose in np.asarray(object_poses, dtype=float).tolist()]
        self._ticks = 0
        self._read_state()
        for index, (controller, joints) in enumerate(zip(self.controllers, self._joints, strict=True)):
            controller.reset(self.state.joint_position[0, joints], self._ee_position(index))
        self.state.command_offset[...] = self.state.tool_yaw_offset[...] = 0.0
        self._rest = self.state.second_ee_position[0].copy()

    def step(self, action: FloatArray) -> None:
        """Advance one control step.

        Args:
            action: `(A,)` in [-1, 1], see `control_names`; values outside are clipped.
        """
        state = self.state
        action = np.minimum(np.maximum(action, -1.0), 1.0)
        q = state.joint_position[0]
        commands = [
            controller.command(action[part], q[joints], self._ee_position(index))
            for index, (controller, part, joints) in enumerate(
                zip(self.controllers, self._slices, self._joints, strict=True)
            )
        ]
        command = commands[0] if len(commands) == 1 else np.concatenate(commands)
        self._body.drive(command, q, action[self._slices[-1].stop :])
        for body, weight, position in zip(self._bodies, self._weights, state.object_position[0].tolist(), strict=True):
            # Holds through all substeps of the call.
            bullet.applyExternalForce(body, -1, weight, position, bullet.WORLD_FRAME, physicsClientId=self._client)
        for k, shuttle in self._shuttles.items():
            drive(self._client, self._bodies[k], shuttle, self._middles[k], self._ticks * self.dt, self.dt)
        if self._fixture_bodies.pulls:
            self._fixture_bodies.pull(state)
        bullet.stepSimulation(physicsClientId=self._client)
        self._ticks += 1
        self._read_state()
        for index, part in enumerate(self._leads):
            measured = state.joint_position[0, self._joints[index]], self._ee_position(index)
            state.command_offset[0, part] = self.controllers[index].command_offset(*measured)
        if self.turning:
            state.tool_yaw_offset[0] = self.controller.tool_yaw_offset(float(state.tool_yaw[0]))

    def push_parts(self, share: FloatArray) -> None:
        """Pull at drawers and doors during the step that follows, as somebody else might; for checks and tests.

        Args:
            share: `(P,)` of the force that each one's description says moves it; its sign gives the direction.
        """
        for part, (one, amount) in enumerate(zip(self._fixture_bodies.parts, share.tolist(), strict=True)):
            self._fixture_bodies.push(part, amount * (one.force or 1.0))

    def action_towards(
        self,
        ee_target: FloatArray,
        gripper: float = 1.0,
        turn_by: float = 0.0,
        second_target: FloatArray | None = None,
        second_gripper: float = 1.0,
    ) -> FloatArray:
        """The action that brings the end effectors towards targets in straight lines, whatever the controller.

        What the world has no part for (a gripper that is blocked, `turning`, a second arm) is left out.

        Args:
            ee_target: `(3,)` m in the world frame, of the first arm.
            gripper: Of the first arm, -1 closed to +1 open.
            turn_by: rad by which the first arm's tool is still to turn from where it is measured, positive
                counter-clockwise seen from above where it points down; 0 holds it as it was last turned.
            second_target: `(3,)` m, of the second arm; without it that stays where it was at the reset.
            second_gripper: Of the second arm.

        Returns:
            `(A,)` in [-1, 1].
        """
        state = self.state
        targets = [ee_target, *self._rest] if second_target is None else [ee_target, second_target]
        parts = []
        for index, (controller, joints) in enumerate(zip(self.controllers, self._joints, strict=True)):
            target, turn = np.asarray(targets[index], dtype=float), 0.0 if index else turn_by
            q, velocity = state.joint_position[0, joints], state.joint_velocity[0, joints]
            parts.append(controller.action_towards(target, q, velocity, self._ee_position(index), turn))
        grippers = zip((gripper, second_gripper), self._has_gripper, strict=False)
        parts.append(np.array([amount for amount, has in grippers if has]))
        return np.minimum(np.maximum(np.concatenate(parts), -1.0), 1.0)

    def _ee_position(self, arm: int) -> FloatArray:
        position: FloatArray = self.state.second_ee_position[0, arm - 1] if arm else self.state.ee_position[0]
        return position

    def reachable(self, points: FloatArray) -> NDArray[np.bool_]:
        """`(n,)`: whether the tool, pointing down, can be at each point `(n, 3)` to 5 mm within the joint limits."""
        return self.kinematics.reachable(np.asarray(points, dtype=float), self.kinematics.chain.rotation)

    def close(self) -> None:
        """Close the physics client; may be called again."""
        disconnect(self._client)

    def _read_state(self) -> None:
        state, client = self.state, self._client
        self._body.read(state)
        if self.turning:
            state.tool_yaw[0] = self.controller.measured_tool_yaw(state.joint_position[0, self._joints[0]])
        for k, (body, spec) in enumerate(zip(self._bodies, self.objects, strict=True)):
            position, orientation = bullet.getBasePositionAndOrientation(body, physicsClientId=client)
            velocity, spin = bullet.getBaseVelocity(body, physicsClientId=client)
            state.object_position[0, k], state.object_orientation[0, k] = position, modelled(spec, orientation)
            state.object_velocity[0, k], state.object_angular_velocity[0, k] = velocity, spin
        if self.part_names:
            self._fixture_bodies.read(state)
        if self._bodies:
            self._read_contacts()
        state.time[0] = self._ticks * self.dt

    def _read_contacts(self) -> None:
        state = self.state
        state.touch[...] = state.finger_contact[...] = state.second_finger_contact[...] = False
        contacts = (state.finger_contact, state.second_finger_contact)
        for point in bullet.getContactPoints(self._body.body, physicsClientId=self._client):
            if point[9] > 0.0 and point[2] in self._bodies:
                k = self._bodies.index(point[2])
                state.touch[0, k] = True
                for contact, fingers in zip(contacts, self._body.fingers_of_links, strict=False):
                    if point[3] in fingers:
                        contact[0, k, fingers[point[3]]] = True


def _around(bounds: Area, home: FloatArray) -> Area:
    """The box that has both a box and the room about a tool's home `(3,)` m in it."""
    low, high = np.minimum(bounds.low, home - SECOND_ROOM), np.maximum(bounds.high, home + SECOND_ROOM)
    return Area(tuple(low.tolist()), tuple(high.tolist()))


def _slices(lengths: Sequence[int]) -> list[slice]:
    """Parts of these lengths, one behind the other."""
    ends = list(accumulate(lengths))
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def _names(arms: Sequence[Sequence[str]], has_gripper: Sequence[bool]) -> tuple[str, ...]:
    """Of the action's components: those of each arm, then the grippers."""
    prefixes = ("", "second_")
    names = [prefix + name for prefix, arm in zip(prefixes, arms, strict=False) for name in arm]
    grippers = [f"{prefix}gripper" for prefix, has in zip(prefixes, has_gripper, strict=False) if has]
    return (*names, *grippers)
