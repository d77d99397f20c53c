"""An exported policy on a robot: joint states in, joint commands out, with the kinematics of the file; no simulator.

Positions are in the frame of the simulated world, in which the robot's base has the pose of the file's description.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
from mygym.exporting.exported_policy import GOALS, ExportedPolicy
from mygym.robotics.controllers import ArmLimits, Controller, find_controller
from mygym.robotics.kinematics import Chain, Kinematics
from mygym.robotics.workspace import Area
from mygym.types import FloatArray

MODES = ("position", "velocity")
"""Quantities that a node can command; torques need a control loop that is faster than a node."""

FAR = 0.5
"""rad beyond a limit at which no joint can be measured."""

SMALL = 1e-6
"""s: time over which the motion of the tool gives its velocity."""


class JointCommand(NamedTuple):
    """Command for one control step."""

    mode: str
    """`position`, or `velocity`."""
    values: FloatArray
    """`(J,)` rad, or rad/s, within the limits of the joints."""
    gripper: float | None
    """m between the fingers; None: the policy does not command the gripper."""


class DeployedPolicy:
    """Policy that acts on measured joint states and on further measurements.

    Args:
        path: A file that `mygym export` has written.
        trust: See `ExportedPolicy`.

    Raises:
        ConfigError: The file is not an exported policy, or its robot has several arms, torque commands, discrete
            actions or images.
        RegistryError: onnxruntime is not installed, or the controller is not registered.
    """

    def __init__(self, path: str | Path, *, trust: bool = False) -> None:
        self.policy = ExportedPolicy(path, trust=trust)
        self.description = self.policy.description
        _check(self.description, Path(path))
        arm, control = self.description["robot"]["arms"][0], self.description["control"]
        self.joints = tuple(joint["name"] for joint in arm["joints"])
        self.lower, self.upper, self.velocity, effort = (
            np.array([joint[key] for joint in arm["joints"]]) for key in ("lower", "upper", "velocity", "effort")
        )
        self.home = np.array(self.description["home"]["joint_position"])
        self._repeat: int = control["action_repeat"]
        self.period = 1 / (control["rate_hz"] * self._repeat)
        """s: a control step, for which a command is computed; an action may last for several."""
        self.width: float | None = (arm["gripper"] or {}).get("width")
        chain = Chain(**{name: np.array(values) for name, values in arm["kinematics"].items()})
        self._kinematics = Kinematics(chain)
        gripper = control.get("gripper", "continuous")  # files of 0.2.0 have no such key
        chosen = find_controller({"name": control["name"], "gripper": gripper, **control["parameters"]})
        self._opening = chosen.grippers
        bounds = Area(*(tuple(corner) for corner in control["bounds"]))
        limits = ArmLimits(self.velocity, effort)
        self._controller: Controller = chosen.kind(
            self._kinematics, limits, bounds, self.period, _no_dynamics, control["tool_yaw"], **chosen.params
        )
        self._state: Any = None
        self._action = np.zeros(0)
        self._steps = 0
        """Control steps since the reset."""
        self.reset(self.home)
        self.needs: Mapping[str, int] = self._needed()
        """Name → size of each array that joint states do not give: components of observations, and goals.

        Of goals in shared spaces these are the numbers that the task uses; the others are 0.
        """

    @property
    def mode(self) -> str:
        """Quantity of the commands, one of `MODES`."""
        return self._controller.mode

    def _needed(self) -> dict[str, int]:
        known = self._measured(self.home, np.zeros_like(self.home))
        needed = {}
        for name, entry in self.description["observation"].items():
            if name in GOALS:
                sections = [section["name"] for section in entry["components"]]
                if name == "desired_goal" or sections != ["end_effector"]:
                    needed[name] = len(_indices(entry))
                continue
            for part in entry["components"]:
                if part["name"] not in known:
                    needed[part["name"]] = part["slice"][1] - part["slice"][0]
        return needed

    def reset(self, joint_position: FloatArray) -> None:
        """Begin an episode: the last command becomes the measured posture `(J,)` rad, in the order of `joints`."""
        self._controller.reset(joint_position.copy(), self.tool_position(joint_position))
        self._state, self._steps = None, 0

    def tool_position(self, joint_position: FloatArray) -> FloatArray:
        """Return the position of the tool point, `(3,)` m, at joint positions `(J,)` rad."""
        return self._kinematics.pose(joint_position.copy())[:3, 3].copy()

    def act(
        self, joint_position: FloatArray, joint_velocity: FloatArray, arrays: Mapping[str, FloatArray]
    ) -> JointCommand:
        """Return the command for one control step; an action of the policy is repeated as in the environment.

        Args:
            joint_position: `(J,)` rad, measured, in the order of `joints`.
            joint_velocity: `(J,)` rad/s, measured.
            arrays: The arrays that `needs` names.

        Raises:
            ValueError: A number is not finite, an array has another size or is missing, or a joint is measured far from
                its limits, as in degrees.
        """
        joints = {"joint_position": joint_position, "joint_velocity": joint_velocity}
        sizes = dict.fromkeys(joints, len(self.joints)) | dict(self.needs)
        if missing := sizes.keys() - joints.keys() - arrays.keys():
            raise ValueError(f"{', '.join(sorted(missing))}: missing; needed are {', '.join(self.needs)}")
        for name, size in sizes.items():
            shape = np.shape(joints[name] if name in joints else arrays[name])
            if shape != (size,):
                raise ValueError(f"{name} has the shape {shape}, needs ({size},)")
        beyond = np.maximum(self.lower - joint_position, joint_position - self.upper)
        if (most := beyond.max()) > FAR:
            joint = int(beyond.argmax())
            where = f"{joint_position[joint]:g}, which is {most:g} rad beyond its limit"
            raise ValueError(
                f"joint_position: {self.joints[joint]} is at {where}; are these degrees, or angles of another turn?"
            )
        observation = self._observation(joint_position, joint_velocity, arrays)
        for name, values in (observation if isinstance(observation, dict) else {"observation": observation}).items():
            if not np.isfinite(values).all():
                raise ValueError(f"{name} is not finite")
        if self._steps % self._repeat == 0:
            starts = np.array([self._steps == 0])
            self._action, self._state = self.policy.predict(observation, self._state, starts)
        self._steps += 1
        action, count = self._action, len(self._controller.names)
        tool = self.tool_position(joint_position)
        command = self._controller.command(action[:count].astype(float), joint_position, tool)
        gripper = None
        if len(action) > count and self.width is not None:
            gripper = (float(self._opening(action[count])) + 1) / 2 * self.width
        return JointCommand(self._controller.mode, self._limited(command, joint_position), gripper)

    def _limited(self, command: FloatArray, joint_position: FloatArray) -> FloatArray:
        """Return a command within the limits; a command at which a joint moves beyond its limits stops the joint."""
        if self._controller.mode == "position":
            return np.clip(command, self.lower, self.upper)
        blocked = ((joint_position <= self.lower) & (command < 0)) | ((joint_position >= self.upper) & (command > 0))
        return np.where(blocked, 0.0, np.clip(command, -self.velocity, self.velocity))

    def _measured(self, joint_position: FloatArray, joint_velocity: FloatArray) -> dict[str, FloatArray]:
        """Return the observation components that joint states give."""
        tool = self.tool_position(joint_position)
        moved = self.tool_position(joint_position + SMALL * joint_velocity)
        components = {
            "joint_position": joint_position,
            "joint_velocity": joint_velocity,
            "ee_position": tool,
            "ee_velocity": (moved - tool) / SMALL,
            "command_offset": self._controller.command_offset(joint_position, tool),
        }
        if self.description["control"]["tool_yaw"]:
            yaw = self._controller.measured_tool_yaw(joint_position)
            components |= {
                "tool_yaw": np.array([yaw]),
                "tool_yaw_offset": np.array([self._controller.tool_yaw_offset(yaw)]),
            }
        return components

    def _observation(
        self, joint_position: FloatArray, joint_velocity: FloatArray, arrays: Mapping[str, FloatArray]
    ) -> Any:
        """Return the raw observation of the policy."""
        known = {**self._measured(joint_position, joint_velocity), **arrays}
        known.setdefault("achieved_goal", known["ee_position"])
        observation = {}
        for name, entry in self.description["observation"].items():
            values = np.zeros(entry["shape"])
            if name in GOALS:
                values[_indices(entry)] = known[name]
            else:
                for part in entry["components"]:
                    values[slice(*part["slice"])] = np.clip(known[part["name"]], -part["bound"], part["bound"])
            observation[name] = np.asarray(values, dtype=np.float32)
        return observation if len(observation) > 1 else next(iter(observation.values()))


def _indices(entry: Mapping[str, Any]) -> NDArray[np.intp]:
    """Return the indices `(n,)` of the numbers that the components of an array have, in their order."""
    return np.concatenate([np.arange(*part["slice"]) for part in entry["components"]])


def _check(description: Mapping[str, Any], path: Path) -> None:
    """Refuse policies whose observations or commands a node cannot give."""
    parts = [
        part for name, entry in description["observation"].items() if name not in GOALS for part in entry["components"]
    ]
    reasons = {
        "has several arms": len(description["robot"]["arms"]) > 1,
        f"commands {description['control']['mode']}": description["control"]["mode"] not in MODES,
        "has discrete actions": description["action"]["values"] is not None,
        "has images": any("camera" in part for part in parts),
        "has flat observations with goals": any("flag" in part for part in parts),
        "has the code of a task": any(part["name"] == "variant" for part in parts),
    }
    for why, applies in reasons.items():
        if applies:
            allowed = "a policy of a single arm with joint positions or velocities, from components in dictionaries"
            raise ConfigError(bad_value("policy", str(path), allowed, why))


def _no_dynamics(position: FloatArray, velocity: FloatArray, acceleration: FloatArray) -> FloatArray:
    raise NotImplementedError("torques are not commanded")
