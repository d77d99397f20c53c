"""A physics engine of your own: an arm that is always where its controller wants it, as far as its speed allows."""

from __future__ import annotations

import numpy as np

from mygym.engines.engine import register_engine
from mygym.engines.world import World
from mygym.errors import ConfigError, bad_value
from mygym.robotics.transforms import matrix_to_quaternion
from mygym.tasks.state import State
from mygym.types import FloatArray


@register_engine("ideal")
class IdealArm(World):
    """Joints without mass, in a world without objects: a quick first test of an algorithm or a controller."""

    def _build(self) -> None:
        """Refuse what the engine cannot represent, and read the speeds of the joints."""
        if self.alternatives or self.parts or len(self.robot.arms) > 1:
            why = "has one arm, and this world has objects, parts that move, or two arms"
            raise ConfigError(bad_value("engine", "ideal", ["pybullet"], why))
        mode = self.control.kind.mode
        if mode != "position":
            why = f"commands a {mode}, and engine ideal has only positions"
            raise ConfigError(bad_value("control", self.control.config.name, "a controller of positions", why))
        self._farthest = self.dt * np.array([joint.velocity for joint in self.robot.joints])

    def _load(self, joint_position: FloatArray, part_position: list[float], object_poses: FloatArray) -> None:
        """Begin an episode at rest, with open fingers."""
        self._q, self._v, self._opening = joint_position, np.zeros_like(joint_position), 1.0

    def _advance(self, command: FloatArray, grippers: FloatArray) -> None:
        """Move each joint to its target, or as far as it comes in a control step."""
        change = np.clip(command - self._q, -self._farthest, self._farthest)
        self._q, self._v = self._q + change, change / self.dt
        if grippers.size:
            self._opening = 0.5 + 0.5 * float(grippers[0])

    def _read(self, state: State) -> None:
        """Fill joints, tool and fingers; all else of a world without objects is empty."""
        pose = self.kinematics.pose(self._q)
        state.joint_position[0], state.joint_velocity[0] = self._q, self._v
        state.ee_position[0], state.ee_orientation[0] = pose[:3, 3], matrix_to_quaternion(pose[:3, :3])
        state.ee_velocity[0] = (self.kinematics.jacobian(self._q) @ self._v)[:3]
        if self.has_gripper and self.robot.gripper is not None:
            state.gripper_width[0] = self._opening * self.robot.gripper.width
