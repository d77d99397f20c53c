"""The robot's body in a physics client: loading, motors, readings."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mygym.sim.bullet import bullet, urdf_file
from mygym.sim.robot import RobotSpec
from mygym.sim.transforms import matrix_to_quaternion, multiply_quaternions, pose_matrix, quaternion_to_matrix
from mygym.sim.urdf import light_urdf, lock_joints, merge_fixed_joints, read_urdf
from mygym.tasks.state import State

Array = NDArray[np.float64]

_FLAGS = bullet.URDF_USE_INERTIA_FROM_FILE | bullet.URDF_USE_IMPLICIT_CYLINDER
_X, _ZERO = (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)


class Arm:
    """A robot that is loaded anew at every reset and driven by position targets.

    Args:
        robot: What to load.
        client: Bullet client.
        gripper: Whether fingers move; if not they are welded shut, which saves the solver a third of its work.
        dt: s, duration of a control step.
        substeps: Physics steps in a control step.
    """

    def __init__(self, robot: RobotSpec, client: int, gripper: bool, dt: float, substeps: int) -> None:
        self.robot, self._client, self._dt, self._substep = robot, client, dt, dt / substeps
        self.gripper = robot.gripper if gripper else None
        root = read_urdf(Path(robot.urdf))
        if robot.gripper and not gripper:
            lock_joints(root, dict(zip(robot.gripper.joints, robot.gripper.closed, strict=True)))
        self._urdf = light_urdf(root, "collision")
        placed = merge_fixed_joints(root)
        grip = self.gripper
        fingers = grip.joints if grip else ()
        self.closed, self.open = np.array(grip.closed if grip else ()), np.array(grip.open if grip else ())
        self._width = grip.width / float(np.sum(self.open - self.closed)) if grip else 0.0
        self._speeds = [joint.velocity for joint in robot.joints] + [grip.velocity for _ in fingers if grip]
        forces = [joint.effort for joint in robot.joints] + [grip.force for _ in fingers if grip]
        # Bullet makes a force an impulse with the whole control step, yet allows that impulse in each of its substeps.
        self._forces = [force / substeps for force in forces]
        # The arm is driven by velocities, fingers to positions.
        self._gains = [0.0] * len(robot.joints) + [self._gain_of(robot.motor.position_gain)] * len(fingers)
        self._finger_rest = [0.0] * len(fingers)
        self._velocity_gains = [robot.motor.velocity_gain] * len(self._speeds)
        self._find_indices(placed, fingers)

    def _find_indices(self, placed: dict[str, tuple[str, Array]], fingers: tuple[str, ...]) -> None:
        """Bullet's numbers of joints and links: the same at every load."""
        self.body = body = self._load_urdf()
        count = bullet.getNumJoints(body, physicsClientId=self._client)
        infos = [bullet.getJointInfo(body, index, physicsClientId=self._client) for index in range(count)]
        joints = {info[1].decode(): int(info[0]) for info in infos}
        links = {info[12].decode(): int(info[0]) for info in infos}
        effector = self.robot.end_effector
        holder, local = placed[effector.link]
        tool = local @ pose_matrix(effector.position, quaternion_to_matrix(effector.orientation))
        self.ee_link = links[holder]
        self.ee_offset: list[float] = tool[:3, 3].tolist()
        self._ee_rotation = matrix_to_quaternion(tool[:3, :3])
        self._ee_aligned = bool(np.allclose(tool[:3, :3], np.eye(3)))
        self._joints = [joints[joint.name] for joint in self.robot.joints] + [joints[name] for name in fingers]
        self.finger_of_link = {
            links[placed[name][0]]: f for f, name in enumerate(self.gripper.links if self.gripper else ())
        }

    def _load_urdf(self) -> int:
        path = urdf_file(self.robot.name, self._urdf)
        base = self.robot.base_position, self.robot.base_orientation
        return int(bullet.loadURDF(path, *base, useFixedBase=True, flags=_FLAGS, physicsClientId=self._client))

    def load(self, joint_position: Array) -> None:
        """Load into an empty client, at `(J,)` rad, at rest, the gripper open."""
        self.body, client = self._load_urdf(), self._client
        positions = [*joint_position.tolist(), *self.open.tolist()]
        for index, position, force, speed in zip(self._joints, positions, self._forces, self._speeds, strict=True):
            bullet.resetJointState(self.body, index, position, physicsClientId=client)
            # The speed limit stays with the motor; the calls that follow leave it out.
            bullet.setJointMotorControl2(
                self.body,
                index,
                bullet.POSITION_CONTROL,
                position,
                force=force,
                maxVelocity=speed,
                physicsClientId=client,
            )
        # Fingers share one drive: else a grasped object glides to one side, because both motors are at their limit.
        fingers = self._joints[len(self.robot.joints) :]
        for number, finger in enumerate(fingers[1:], start=1):
            ratio = (self.open[0] - self.closed[0]) / (self.open[number] - self.closed[number])
            ends = self.body, fingers[0], self.body, finger
            gear = bullet.createConstraint(*ends, bullet.JOINT_GEAR, _X, _ZERO, _ZERO, physicsClientId=client)
            bullet.changeConstraint(gear, gearRatio=-ratio, erp=0.2, maxForce=100.0, physicsClientId=client)

    def drive(self, target: Array, q: Array, gripper: float) -> None:
        """Set the motors for the control step that follows.

        Args:
            target: `(J,)` rad.
            q: `(J,)` rad, measured.
            gripper: -1 closed to +1 open.
        """
        positions: list[float] = target.tolist()
        missing = [wanted - at for wanted, at in zip(positions, q.tolist(), strict=True)]
        rate = self._rate(missing)
        velocities = [rate * error for error in missing]
        if self.gripper:
            positions += (self.closed + (self.open - self.closed) * (0.5 + 0.5 * gripper)).tolist()
            velocities += self._finger_rest
        bullet.setJointMotorControlArray(
            self.body,
            self._joints,
            bullet.POSITION_CONTROL,
            targetPositions=positions,
            targetVelocities=velocities,
            positionGains=self._gains,
            velocityGains=self._velocity_gains,
            forces=self._forces,
            physicsClientId=self._client,
        )

    def _rate(self, missing: list[float]) -> float:
        """The velocity in rad/s for each rad that is missing to the target, constant through the control step.

        The arm is there at the end of the step if its joints' speed limits and brakes allow it; else all are slowed
        alike, so that the way is straight.
        """
        slowest = max([abs(error) / speed for error, speed in zip(missing, self._speeds, strict=False)])
        farthest = max(max(missing), -min(missing), 1e-6)
        # v such that what is left after the step, e - v dt, is the braking distance v² / 2a.
        gain = self.robot.motor.acceleration * self._dt
        brake = math.sqrt(gain * gain + 2.0 * self.robot.motor.acceleration * farthest) - gain
        return min(1.0 / max(slowest, 1e-6), brake / farthest)

    def _gain_of(self, rate: float) -> float:
        """Bullet's gain, the part of an error that one physics step takes away, for a decay of `rate` in 1/s."""
        return 1.0 - math.exp(-rate * self._substep)

    def read(self, state: State) -> None:
        """Fill the robot's part of a state but for contacts."""
        joints = bullet.getJointStates(self.body, self._joints, physicsClientId=self._client)
        arm = len(self.robot.joints)
        state.joint_position[0] = [joint[0] for joint in joints[:arm]]
        state.joint_velocity[0] = [joint[1] for joint in joints[:arm]]
        if self.gripper:
            moved = sum([joint[0] for joint in joints[arm:]]) - sum(self.gripper.closed)
            state.gripper_width[0] = self._width * moved
        link = bullet.getLinkState(self.body, self.ee_link, 1, 1, physicsClientId=self._client)
        # From the link to the tool point; plain floats, because numpy costs 1 µs for each operation.
        cx, cy, cz = link[0]
        (px, py, pz), (x, y, z, w), (vx, vy, vz), (wx, wy, wz) = link[4:8]
        ox, oy, oz = self.ee_offset
        tx, ty, tz = 2 * (y * oz - z * oy), 2 * (z * ox - x * oz), 2 * (x * oy - y * ox)
        ex = px + ox + w * tx + y * tz - z * ty
        ey = py + oy + w * ty + z * tx - x * tz
        ez = pz + oz + w * tz + x * ty - y * tx
        rx, ry, rz = ex - cx, ey - cy, ez - cz  # Bullet gives the velocity of the centre of mass
        state.ee_position[0] = ex, ey, ez
        state.ee_velocity[0] = vx + wy * rz - wz * ry, vy + wz * rx - wx * rz, vz + wx * ry - wy * rx
        turned = (x, y, z, w) if self._ee_aligned else multiply_quaternions((x, y, z, w), self._ee_rotation)
        state.ee_orientation[0] = turned
