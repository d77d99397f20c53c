"""One simulated world: a robot, a workspace and objects in a Bullet client of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mygym.sim.bodies import add_fixture, add_object
from mygym.sim.bullet import bullet, connect, disconnect, urdf_file
from mygym.sim.controllers import make_controller
from mygym.sim.kinematics import Kinematics, make_chain
from mygym.sim.objects import ObjectSpec
from mygym.sim.robot import RobotSpec
from mygym.sim.transforms import matrix_to_quaternion, multiply_quaternions, pose_matrix, quaternion_to_matrix
from mygym.sim.urdf import light_urdf, lock_joints, merge_fixed_joints, read_urdf
from mygym.sim.workspace import WorkspaceSpec
from mygym.tasks.state import State

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SolverSettings:
    """How finely Bullet integrates; chosen by measurement, see benchmarks/results/fidelity.md."""

    substeps: int = 8
    """Physics steps in a control step."""
    iterations: int = 30
    residual_threshold: float = 1e-3
    """The solver stops when the largest change of an impulse, squared, is below this."""


_X, _ZERO = (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)

GRAVITY = 9.81
"""m/s²."""

ROBOT_FLAGS = bullet.URDF_USE_INERTIA_FROM_FILE | bullet.URDF_USE_IMPLICIT_CYLINDER


class World:
    """A robot, a workspace and objects, simulated.

    `state` is the same object for the life of the world; its arrays are refilled in place by `reset` and `step`.

    Args:
        robot: The arm.
        workspace: Where it stands.
        objects: What lies there, in the order of `State.object_position`.
        control: Name of the controller, see `mygym.sim.controllers`.
        control_hz: Control steps in a second.
        gripper: Whether the last action component moves the gripper (-1 closed, +1 open). If not, or if the robot has
            none, actions are the arm's alone, the fingers are welded shut and the state has none (`F = 0`).
        solver: Integration settings.

    Raises:
        ConfigError: the controller's name is not known.
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
        solver: SolverSettings = SolverSettings(),
    ) -> None:
        self.robot, self.workspace, self.objects, self.solver = robot, workspace, tuple(objects), solver
        self.control_hz, self.dt = control_hz, 1.0 / control_hz
        self.has_gripper = gripper and robot.gripper is not None
        self._gripper = robot.gripper if gripper else None
        root = read_urdf(Path(robot.urdf))
        if robot.gripper and not gripper:
            lock_joints(root, dict(zip(robot.gripper.joints, robot.gripper.closed, strict=True)))
        self._urdf = light_urdf(root, "collision")
        self._placed = merge_fixed_joints(root)
        self.kinematics = Kinematics(make_chain(robot, read_urdf(Path(robot.urdf))))
        chain = self.kinematics.chain
        self.controller = make_controller(
            control, self.kinematics, np.array([joint.velocity for joint in robot.joints]), workspace.tool_bounds, self.dt
        )
        self.control_names = self.controller.names + (("gripper",) if self.has_gripper else ())
        self.action_size = len(self.control_names)
        self.home = self.kinematics.inverse(chain.home, np.array(workspace.tool_home), chain.down)
        fingers = self._gripper.links if self._gripper else ()
        self.state = State.zeros(1, len(robot.joints), len(fingers), len(self.objects))
        self._client = connect()
        self._find_indices()
        self.reset(self._objects_in_a_row())

    # -- building -------------------------------------------------------------------------------------------------

    def _find_indices(self) -> None:
        """Bullet's joint and link numbers, and what the motors are told in every step."""
        robot, client = self.robot, self._client
        body = self._load_robot()
        infos = [bullet.getJointInfo(body, i, physicsClientId=client) for i in range(bullet.getNumJoints(body, client))]
        joint_index = {info[1].decode(): info[0] for info in infos}
        link_index = {info[12].decode(): info[0] for info in infos}
        holder, local = self._placed[robot.end_effector.link]
        self._ee_link = link_index[holder]
        tool = local @ pose_matrix(robot.end_effector.position, quaternion_to_matrix(robot.end_effector.orientation))
        self._ee_offset: list[float] = tool[:3, 3].tolist()
        self._ee_rotation = matrix_to_quaternion(tool[:3, :3])
        self._ee_aligned = bool(np.allclose(tool[:3, :3], np.eye(3)))
        grip = self._gripper
        fingers = grip.joints if grip else ()
        self._joints = [joint_index[joint.name] for joint in robot.joints] + [joint_index[name] for name in fingers]
        forces = [joint.effort for joint in robot.joints] + [grip.force for _ in fingers if grip]
        # Bullet turns a force into an impulse with the whole control step, yet allows that impulse in each of its substeps.
        self._forces = [force / self.solver.substeps for force in forces]
        self._speeds = [joint.velocity for joint in robot.joints] + [grip.velocity for _ in fingers if grip]
        self._finger_gains = [self._gain_of(robot.motor.position_gain)] * len(fingers)
        self._inverse_speed = 1.0 / np.array([joint.velocity for joint in robot.joints])
        self._velocity_gains = [robot.motor.velocity_gain] * len(self._joints)
        self._finger_of_link = {link_index[self._placed[name][0]]: f for f, name in enumerate(grip.links)} if grip else {}
        self._closed = np.array(grip.closed if grip else ())
        self._open = np.array(grip.open if grip else ())
        self._width = grip.width / float(np.sum(self._open - self._closed)) if grip else 0.0

    def _rate(self, missing: Array) -> float:
        """The rate in 1/s at which the arm's position errors `(J,)` rad may decay.

        Joints never run into their speed limits, and brake in time: all are slowed alike, so that the way is straight.
        """
        motor = self.robot.motor
        slowest = float((missing * self._inverse_speed).max())
        farthest = float(missing.max())
        return min(motor.position_gain, 1.0 / max(slowest, 1e-6), math.sqrt(2.0 * motor.acceleration / max(farthest, 1e-6)))

    def _gain_of(self, rate: float) -> float:
        """Bullet's gain, the part of an error that one physics step takes away, for a decay of `rate` in 1/s."""
        return 1.0 - math.exp(-rate * self.dt / self.solver.substeps)

    def _load_robot(self) -> int:
        return int(
            bullet.loadURDF(
                urdf_file(self.robot.name, self._urdf),
                self.robot.base_position,
                self.robot.base_orientation,
                useFixedBase=True,
                flags=ROBOT_FLAGS,
                physicsClientId=self._client,
            )
        )

    def _couple_fingers(self) -> None:
        """Fingers share one drive: without it a grasped object glides to one side, because both motors are at their limit."""
        fingers = self._joints[len(self.robot.joints) :]
        for index, finger in enumerate(fingers[1:], start=1):
            ratio = (self._open[0] - self._closed[0]) / (self._open[index] - self._closed[index])
            gear = bullet.createConstraint(
                self._robot, fingers[0], self._robot, finger, bullet.JOINT_GEAR, _X, _ZERO, _ZERO, physicsClientId=self._client
            )
            bullet.changeConstraint(gear, gearRatio=-ratio, erp=0.2, maxForce=100.0, physicsClientId=self._client)

    def _objects_in_a_row(self) -> Array:
        """Poses `(k, 7)` to start with: on the table, apart from each other, away from the tool."""
        poses = np.zeros((len(self.objects), 7))
        for index, spec in enumerate(self.objects):
            poses[index] = (0.1 * index - 0.1, 0.15, spec.half_height, 0.0, 0.0, 0.0, 1.0)
        return poses

    # -- running --------------------------------------------------------------------------------------------------

    def reset(self, object_poses: Array, joint_position: Array | None = None) -> None:
        """Start again, exactly: what follows does not depend on what happened before, to the last bit.

        Bullet keeps contact and solver caches through anything less than `resetSimulation`, so everything is rebuilt.

        Args:
            object_poses: `(k, 7)` position in m and quaternion of each object's centre.
            joint_position: `(J,)` rad; without it the arm starts at `home`, the tool at the workspace's `tool_home`.
                The gripper starts open.
        """
        client = self._client
        bullet.resetSimulation(physicsClientId=client)
        bullet.setPhysicsEngineParameter(
            fixedTimeStep=self.dt,
            numSubSteps=self.solver.substeps,
            numSolverIterations=self.solver.iterations,
            solverResidualThreshold=self.solver.residual_threshold,
            physicsClientId=client,
        )
        bullet.setGravity(0.0, 0.0, -GRAVITY, physicsClientId=client)
        for fixture in self.workspace.fixtures.values():
            if fixture.collides:
                add_fixture(client, fixture)
        self._robot = self._load_robot()
        q = np.array(self.home if joint_position is None else joint_position, dtype=float)
        for index, position, force, speed in zip(self._joints, [*q, *self._open], self._forces, self._speeds, strict=True):
            bullet.resetJointState(self._robot, index, position, physicsClientId=client)
            # The speed limit stays with the motor; the calls that follow give positions only.
            bullet.setJointMotorControl2(
                self._robot, index, bullet.POSITION_CONTROL, position, force=force, maxVelocity=speed, physicsClientId=client
            )
        self._couple_fingers()
        self._bodies = [add_object(client, spec, pose) for spec, pose in zip(self.objects, object_poses, strict=True)]
        self._ticks = 0
        self._read_state()
        self.controller.reset(self.state.joint_position[0], self.state.ee_position[0])

    def step(self, action: Array) -> None:
        """Advance one control step.

        Args:
            action: `(A,)` in [-1, 1], see `control_names`; values outside are clipped.
        """
        state = self.state
        action = np.minimum(np.maximum(action, -1.0), 1.0)
        arm = action[:-1] if self.has_gripper else action
        q = state.joint_position[0]
        target = self.controller.command(arm, q, state.ee_position[0])
        position = target.tolist()
        gains = [self._gain_of(self._rate(np.abs(target - q)))] * len(position) + self._finger_gains
        if self.has_gripper:
            position += (self._closed + (self._open - self._closed) * (0.5 + 0.5 * action[-1])).tolist()
        bullet.setJointMotorControlArray(
            self._robot,
            self._joints,
            bullet.POSITION_CONTROL,
            targetPositions=position,
            positionGains=gains,
            velocityGains=self._velocity_gains,
            forces=self._forces,
            physicsClientId=self._client,
        )
        bullet.stepSimulation(physicsClientId=self._client)
        self._ticks += 1
        self._read_state()

    def action_towards(self, ee_target: Array, gripper: float = 1.0) -> Array:
        """The action that brings the end effector towards a target in a straight line, whatever the controller.

        Args:
            ee_target: `(3,)` m in the world frame; the tool keeps pointing down.
            gripper: -1 closed to +1 open; left out where the gripper is blocked.

        Returns:
            `(A,)` in [-1, 1].
        """
        state = self.state
        arm = self.controller.action_towards(np.asarray(ee_target, float), state.joint_position[0], state.ee_position[0])
        action = np.append(arm, gripper) if self.has_gripper else arm
        return np.minimum(np.maximum(action, -1.0), 1.0)

    def reachable(self, points: Array) -> NDArray[np.bool_]:
        """`(n,)`: whether the tool, pointing down, can be at each point `(n, 3)` to 5 mm within the joint limits."""
        return self.kinematics.reachable(np.asarray(points, dtype=float), self.kinematics.chain.down)

    def close(self) -> None:
        """Close the physics client; may be called again."""
        disconnect(self._client)

    # -- reading --------------------------------------------------------------------------------------------------

    def _read_state(self) -> None:
        state, client, robot = self.state, self._client, self._robot
        joints = bullet.getJointStates(robot, self._joints, physicsClientId=client)
        arm = len(self.robot.joints)
        state.joint_position[0] = [joint[0] for joint in joints[:arm]]
        state.joint_velocity[0] = [joint[1] for joint in joints[:arm]]
        if len(joints) > arm:
            moved = sum(joint[0] for joint in joints[arm:]) - float(self._closed.sum())
            state.gripper_width[0] = self._width * moved
        link = bullet.getLinkState(robot, self._ee_link, 1, 1, physicsClientId=client)
        self._read_end_effector(link)
        for k, body in enumerate(self._bodies):
            position, orientation = bullet.getBasePositionAndOrientation(body, physicsClientId=client)
            velocity, spin = bullet.getBaseVelocity(body, physicsClientId=client)
            state.object_position[0, k], state.object_orientation[0, k] = position, orientation
            state.object_velocity[0, k], state.object_angular_velocity[0, k] = velocity, spin
        if self._finger_of_link and self._bodies:
            self._read_contacts()
        state.time[0] = self._ticks * self.dt

    def _read_contacts(self) -> None:
        contact = self.state.finger_contact
        contact[...] = False
        for point in bullet.getContactPoints(self._robot, physicsClientId=self._client):
            finger = self._finger_of_link.get(point[3])
            if finger is not None and point[9] > 0.0 and point[2] in self._bodies:
                contact[0, self._bodies.index(point[2]), finger] = True

    def _read_end_effector(self, link: Sequence[Sequence[float]]) -> None:
        """Move the link's pose and velocity to the tool point; plain floats, because numpy costs 1 µs for each operation."""
        state = self.state
        (px, py, pz), (x, y, z, w), (vx, vy, vz), (wx, wy, wz) = link[4:8]
        cx, cy, cz = link[0]
        ox, oy, oz = self._ee_offset
        tx, ty, tz = 2 * (y * oz - z * oy), 2 * (z * ox - x * oz), 2 * (x * oy - y * ox)
        ex = px + ox + w * tx + y * tz - z * ty
        ey = py + oy + w * ty + z * tx - x * tz
        ez = pz + oz + w * tz + x * ty - y * tx
        rx, ry, rz = ex - cx, ey - cy, ez - cz  # Bullet gives the velocity of the centre of mass
        state.ee_position[0] = ex, ey, ez
        state.ee_velocity[0] = vx + wy * rz - wz * ry, vy + wz * rx - wx * rz, vz + wx * ry - wy * rx
        state.ee_orientation[0] = (
            (x, y, z, w) if self._ee_aligned else multiply_quaternions((x, y, z, w), self._ee_rotation)
        )
