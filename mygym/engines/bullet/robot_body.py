"""The robot in a physics client: loading, motors, sensors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mygym.engines.bullet.client import bullet, joint_infos, load_urdf, temporary_client
from mygym.engines.robots import finger_speeds, simulated_model, width_coefficients
from mygym.robotics.controllers import Mode
from mygym.robotics.robot_spec import ArmSpec, RobotSpec
from mygym.robotics.transforms import matrix_to_quaternion, multiply_quaternions, pose_matrix, quaternion_to_matrix
from mygym.tasks.state import State
from mygym.types import FloatArray

URDF_FLAGS = bullet.URDF_USE_INERTIA_FROM_FILE | bullet.URDF_USE_IMPLICIT_CYLINDER
"""Flags with which all bodies are loaded."""

GEAR_STIFFNESS = 5.0
"""Of the coupling of fingers, Bullet's `erp`: at 0.2 a grasped object slides to one side; 12 is unstable."""

_X, _ZERO = (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class _Arm:
    """Indices of an arm in the robot's joints and fingers, and its tool in Bullet."""

    spec: ArmSpec
    joints: slice
    """Among the joints of all arms."""
    fingers: slice
    """Among the joints of all grippers."""
    speeds: tuple[float, ...]
    """rad/s, maximum velocities of its joints."""
    ee_link: int
    ee_offset: tuple[float, float, float]
    """m, tool point in the link's frame."""
    ee_rotation: FloatArray | None
    """`(4,)` quaternion in the link's frame; None if the frames are parallel."""


@lru_cache(maxsize=64)
def _joint_and_link_indices(name: str, urdf: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return Bullet's index of each joint and of each link, which are the same at every load of a URDF text."""
    with temporary_client() as client:
        infos = joint_infos(load_urdf(name, urdf, client, flags=URDF_FLAGS), client)
    return {info[1].decode(): int(info[0]) for info in infos}, {info[12].decode(): int(info[0]) for info in infos}


class RobotBody:
    """A robot that is loaded at every reset and driven by velocities or torques, its fingers to positions.

    Args:
        robot: The robot.
        client: Bullet client.
        gripper: Whether fingers move; if not they are welded shut, which saves the solver a third of its work.
        mode: Meaning of the commands of `drive`.
        dt: s, duration of a control step.
        substeps: Physics steps per control step.
    """

    def __init__(self, robot: RobotSpec, client: int, gripper: bool, mode: Mode, dt: float, substeps: int) -> None:
        self.robot, self._client, self._mode, self._dt = robot, client, mode, dt
        self._urdf, merged = simulated_model(robot, gripper, mode)
        grips = [arm.gripper if gripper else None for arm in robot.arms]
        present = [grip for grip in grips if grip]
        joints = [joint for arm in robot.arms for joint in arm.joints]
        self._closed = np.array([position for grip in present for position in grip.closed])
        self._open = np.array([position for grip in present for position in grip.open])
        self._speeds = [joint.velocity for joint in joints] + [
            speed for grip in present for speed in finger_speeds(grip)
        ]
        forces = [joint.effort for joint in joints] + [grip.force for grip in present for _ in grip.joints]
        # Bullet converts a force to an impulse of the whole control step, and allows it in each substep.
        self._forces = [force / substeps for force in forces]
        self._full_forces = self._forces
        self._friction = [0.0] * len(joints)
        self._gain: FloatArray | None = None
        # Arms are driven by velocities, fingers to positions. The robot's gain is the rate in 1/s at which errors
        # decay; Bullet's is the share of an error that a physics step removes.
        finger_gain = 1.0 - math.exp(-robot.motor.position_gain * (dt / substeps))
        self._gains = [0.0] * len(joints) + [finger_gain] * len(self._open)
        self._finger_rest = [0.0] * len(self._open)
        self._velocity_gains = [robot.motor.velocity_gain] * len(self._speeds)
        self.body = -1
        """Bullet's id of the loaded robot."""
        self._index_joints(merged, gripper)

    def _index_joints(self, merged: dict[str, tuple[str, FloatArray]], gripper: bool) -> None:
        """Find Bullet's indices of joints and links; for `merged` see `merge_fixed_joints`."""
        joints, links = _joint_and_link_indices(self.robot.name, self._urdf)
        arms: list[_Arm] = []
        names: list[str] = []
        fingers: list[str] = []
        for spec in self.robot.arms:
            arm_names = [joint.name for joint in spec.joints]
            finger_names = spec.gripper.joints if spec.gripper and gripper else ()
            link, pose = merged[spec.end_effector.link]
            tool = pose @ pose_matrix(spec.end_effector.position, quaternion_to_matrix(spec.end_effector.orientation))
            aligned = np.allclose(tool[:3, :3], np.eye(3))
            arms.append(
                _Arm(
                    spec,
                    slice(len(names), len(names) + len(arm_names)),
                    slice(len(fingers), len(fingers) + len(finger_names)),
                    tuple(joint.velocity for joint in spec.joints),
                    links[link],
                    tuple(tool[:3, 3].tolist()),
                    None if aligned else matrix_to_quaternion(tool[:3, :3]),
                )
            )
            names += arm_names
            fingers += finger_names
        self._arms = arms
        self._arm_joints, self._fingers = [joints[name] for name in names], [joints[name] for name in fingers]
        self._joints = self._arm_joints + self._fingers
        self._order = np.argsort(self._joints)  # Bullet's inverse dynamics takes joints in the order of their indices
        self.fingers_of_links = [
            {links[merged[name][0]]: f for f, name in enumerate(arm.gripper.links)} if arm.gripper and gripper else {}
            for arm in self.robot.arms
        ]
        self._widths = [width_coefficients(arm.gripper if gripper else None) for arm in self.robot.arms]

    def randomize(self, friction: Sequence[float], gain: Sequence[float]) -> None:
        """Set joint friction and gain from the next `load` on; `()` restores the described robot.

        Args:
            friction: `(J,)` dry friction of each joint, as a fraction of its maximum torque.
            gain: `(J,)` factors of the commanded velocity or torque.
        """
        count = len(self._arm_joints)
        arm, fingers = self._full_forces[:count], self._full_forces[count:]
        self._friction = [share * force for share, force in zip(friction or [0.0] * count, arm, strict=True)]
        self._gain = np.array(gain) if gain else None
        if self._mode != "torque":  # torque control brakes with a motor instead
            self._forces = [force - lost for force, lost in zip(arm, self._friction, strict=True)] + fingers

    def load(self, joint_position: FloatArray) -> None:
        """Load the robot into an empty client, without velocity, grippers open, joints at `(J,)` rad."""
        client, robot = self._client, self.robot
        base = robot.base_position, robot.base_orientation
        self.body = load_urdf(robot.name, self._urdf, client, *base, flags=URDF_FLAGS)
        positions = [*joint_position.tolist(), *self._open.tolist()]
        free = len(self._arm_joints) if self._mode == "torque" else 0
        forces = self._friction[:free] + self._forces[free:]  # friction: see `FixtureBodies`
        for number, (index, position, speed) in enumerate(zip(self._joints, positions, self._speeds, strict=True)):
            bullet.resetJointState(self.body, index, position, physicsClientId=client)
            # The speed limit stays with the motor; later calls omit it.
            bullet.setJointMotorControl2(
                self.body,
                index,
                bullet.VELOCITY_CONTROL if number < free else bullet.POSITION_CONTROL,
                position,
                force=forces[number],
                maxVelocity=speed,
                physicsClientId=client,
            )
        if free:
            fastest = max(self._speeds[:free])
            bullet.changeDynamics(self.body, -1, maxJointVelocity=fastest, physicsClientId=client)
        for arm in self._arms:
            self._couple(arm.fingers)

    def _couple(self, fingers: slice) -> None:
        """Couple fingers: with all motors at their limit, a grasped object would slide to one side."""
        joints, closed, travels = self._fingers[fingers], self._closed[fingers], (self._open - self._closed)[fingers]
        for joint, start, travel in zip(joints[1:], closed[1:], travels[1:], strict=True):
            ends, client = (self.body, joints[0], self.body, joint), self._client
            gear = bullet.createConstraint(*ends, bullet.JOINT_GEAR, _X, _ZERO, _ZERO, physicsClientId=client)
            ratio = -float(travels[0] / travel)
            offset = float(closed[0] + ratio * start)
            bullet.changeConstraint(
                gear,
                gearRatio=ratio,
                relativePositionTarget=offset,
                erp=GEAR_STIFFNESS,
                maxForce=100.0,
                physicsClientId=client,
            )

    def drive(self, command: FloatArray, q: FloatArray, grippers: FloatArray) -> None:
        """Set the motors for the next control step.

        Args:
            command: `(J,)` positions in rad, velocities in rad/s or torques in N m, see `mode`.
            q: `(J,)` rad, measured.
            grippers: Opening of each gripper, -1 closed to +1 open.
        """
        if self._mode == "torque":
            torques = (command if self._gain is None else command * self._gain).tolist()  # held through all substeps
            bullet.setJointMotorControlArray(
                self.body, self._arm_joints, bullet.TORQUE_CONTROL, forces=torques, physicsClientId=self._client
            )
            self._set_motors(self._fingers, self._finger_targets(grippers), self._finger_rest, len(q))
            return
        velocities: list[float] = command.tolist()
        if self._mode == "position":
            missing = (command - q).tolist()
            velocities = []
            for arm in self._arms:
                errors = missing[arm.joints]
                rate = self._rate(errors, arm.speeds)
                velocities += [rate * error for error in errors]
        if self._gain is not None:
            velocities = (self._gain * velocities).tolist()
        positions = [0.0] * len(velocities) + self._finger_targets(grippers)
        self._set_motors(self._joints, positions, velocities + self._finger_rest, 0)

    def _set_motors(self, joints: list[int], positions: list[float], velocities: list[float], first: int) -> None:
        if not joints:
            return
        bullet.setJointMotorControlArray(
            self.body,
            joints,
            bullet.POSITION_CONTROL,
            targetPositions=positions,
            targetVelocities=velocities,
            positionGains=self._gains[first:],
            velocityGains=self._velocity_gains[first:],
            forces=self._forces[first:],
            physicsClientId=self._client,
        )

    def _finger_targets(self, grippers: FloatArray) -> list[float]:
        if not self._fingers:
            return []
        openings = np.repeat(grippers, [len(widths) for widths in self._widths if widths])
        targets: list[float] = (self._closed + (self._open - self._closed) * (0.5 + 0.5 * openings)).tolist()
        return targets

    def _rate(self, missing: list[float], speeds: tuple[float, ...]) -> float:
        """Return the velocity per error, 1/s, constant through the control step, see `motor_rate`.

        The errors are in rad, one for each joint of an arm; the largest speeds in rad/s.
        """
        slowest = max([abs(error) / speed for error, speed in zip(missing, speeds, strict=True)])
        farthest = max(max(missing), -min(missing), 1e-6)
        # v such that the error after the step, e - v dt, equals the braking distance v² / 2a.
        gain = self.robot.motor.acceleration * self._dt
        brake = math.sqrt(gain * gain + 2.0 * self.robot.motor.acceleration * farthest) - gain
        return min(1.0 / max(slowest, 1e-6), brake / farthest)

    def inverse_dynamics(self, arm: int, q: FloatArray, velocity: FloatArray, acceleration: FloatArray) -> FloatArray:
        """Return the torques `(J,)` N m that give an arm's joints an acceleration; all arguments `(J,)` of that arm.

        Another arm has no effect, because both are mounted on the same fixed base.
        """
        values = np.zeros((3, len(self._joints)))
        values[:, self._arms[arm].joints] = q, velocity, acceleration
        torques = bullet.calculateInverseDynamics(
            self.body, *values[:, self._order].tolist(), physicsClientId=self._client
        )
        by_joint = np.empty(len(self._joints))
        by_joint[self._order] = torques
        return by_joint[self._arms[arm].joints]

    def read(self, state: State) -> None:
        """Fill the robot arrays of a state, except contacts."""
        joints = bullet.getJointStates(self.body, self._joints, physicsClientId=self._client)
        count = len(self._arm_joints)
        state.joint_position[0] = [joint[0] for joint in joints[:count]]
        state.joint_velocity[0] = [joint[1] for joint in joints[:count]]
        for number, (arm, widths) in enumerate(zip(self._arms, self._widths, strict=True)):
            position, orientation, velocity = self._end_effector(arm)
            fingers = joints[count:][arm.fingers]
            width = sum([ratio * (joint[0] - closed) for (ratio, closed), joint in zip(widths, fingers, strict=True)])
            if number == 0:
                state.ee_position[0], state.ee_orientation[0], state.ee_velocity[0] = position, orientation, velocity
                state.gripper_width[0] = width
            else:
                state.second_ee_position[0, number - 1] = position
                state.second_ee_orientation[0, number - 1] = orientation
                state.second_ee_velocity[0, number - 1] = velocity
                state.second_gripper_width[0, number - 1] = width

    def _end_effector(self, arm: _Arm) -> tuple[tuple[float, ...], FloatArray | tuple[float, ...], tuple[float, ...]]:
        """Return position in m, quaternion and velocity in m/s of the tool point."""
        link = bullet.getLinkState(self.body, arm.ee_link, 1, 1, physicsClientId=self._client)
        # From the link to the tool point; plain floats, because numpy costs 1 µs for each operation.
        cx, cy, cz = link[0]
        (px, py, pz), (x, y, z, w), (vx, vy, vz), (wx, wy, wz) = link[4:8]
        ox, oy, oz = arm.ee_offset
        tx, ty, tz = 2 * (y * oz - z * oy), 2 * (z * ox - x * oz), 2 * (x * oy - y * ox)
        ex = px + ox + w * tx + y * tz - z * ty
        ey = py + oy + w * ty + z * tx - x * tz
        ez = pz + oz + w * tz + x * ty - y * tx
        rx, ry, rz = ex - cx, ey - cy, ez - cz  # Bullet gives the velocity of the centre of mass
        velocity = vx + wy * rz - wz * ry, vy + wz * rx - wx * rz, vz + wx * ry - wy * rx
        orientation = (x, y, z, w) if arm.ee_rotation is None else multiply_quaternions((x, y, z, w), arm.ee_rotation)
        return (ex, ey, ez), orientation, velocity
