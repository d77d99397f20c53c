"""Base class of controllers, and the decorator that registers a controller."""

from __future__ import annotations

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from mygym.config import Layer, resolve
from mygym.config.loading import is_plain
from mygym.config.parameter_checks import check_parameters, controller_parameters, unknown_parameter
from mygym.config.schema import ControlParams
from mygym.errors import ConfigError
from mygym.registry import decorator, registry
from mygym.registry.signatures import checked_registration, of_library, wrong_result
from mygym.types import FloatArray

if TYPE_CHECKING:  # listings do not wait for the readers of robots
    from mygym.robotics.kinematics import Kinematics
    from mygym.robotics.robot_spec import RobotSpec
    from mygym.robotics.workspace import Area

YAW_STEP = 0.08
"""rad: yaw change of an action component of 1; 2 rad/s, which the wrists of all built-in robots can follow."""

YAW_LAG = 0.2
"""rad: limit of the distance between commanded and measured yaw (as `EE_LAG` for the position)."""

YAW_RANGE = math.pi / 2
"""rad: largest yaw to either side; two fingers need no more."""


def rotate_about_tool_axis(held: FloatArray, yaw: float) -> FloatArray:
    """Return the orientation `(3, 3)` held at home, rotated by a yaw in rad."""
    sine, cosine = math.sin(yaw), math.cos(yaw)
    about_z = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
    rotation: FloatArray = held @ about_z
    return rotation


def yaw_between(held: FloatArray, rotation: FloatArray) -> float:
    """Return the yaw in rad from the orientation `(3, 3)` held at home to another; tilt is ignored."""
    relative = held.T @ rotation
    return math.atan2(relative[0, 1] - relative[1, 0], relative[0, 0] + relative[1, 1])


def clamp_around(value: float, centre: float, radius: float) -> float:
    """Return the value clamped to `centre` ± `radius`."""
    return min(max(value, centre - radius), centre + radius)


Mode = Literal["position", "velocity", "torque"]


@dataclass(frozen=True)
class ArmLimits:
    """Joint limits of an arm."""

    velocity: FloatArray
    """`(J,)` rad/s."""
    effort: FloatArray
    """`(J,)` N m."""


class ComponentRange(NamedTuple):
    """Meaning of an action component in numbers."""

    unit: str
    low: float
    """Value that -1 commands, in the unit."""
    high: float
    """Value that 1 commands, in the unit."""


InverseDynamics = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""Joint positions, velocities and accelerations `(J,)` → the torques `(J,)` N m that cause them, without gravity."""


class Controller(ABC):
    """Base class of controllers: maps one arm's components of an action to motor commands.

    The gripper's component is handled by the world. Subclasses set `commands` and, where they differ from the
    defaults, `remembers_command` and `mode`; `@register_controller` makes them available as `control`. Further
    parameters of the constructor are parameters of `control` in configs; a range is part of the type hint, as in
    `Annotated[float, Field(gt=0)]`.

    Args:
        kinematics: Kinematics of the arm.
        limits: Joint limits of the arm.
        bounds: Box in which the end effector may be commanded.
        dt: s, duration of a control step.
        inverse_dynamics: Inverse dynamics of the arm.
        tool_yaw: Whether the tool's yaw is commanded, see `yaw_between`; else the tool keeps the
            orientation of home.
    """

    commands: ClassVar[Literal["cartesian", "joint"]]
    """Space of the action: end-effector coordinates or joints. Joint states are observed by default for `joint`."""

    remembers_command: ClassVar[bool] = False
    """Whether the next command is relative to the last commanded pose; `command_offset` is then observed by default."""

    mode: ClassVar[Mode] = "position"
    """Quantity that `command` returns: joint positions in rad, velocities in rad/s, or torques in N m."""

    action_repeat: int = 1
    """Control steps for which the environment repeats each action, which `action_towards` takes into account."""

    def __init__(
        self,
        kinematics: Kinematics,
        limits: ArmLimits,
        bounds: Area,
        dt: float,
        inverse_dynamics: InverseDynamics,
        tool_yaw: bool = False,
    ) -> None:
        self.kinematics, self.chain, self.limits, self.dt = kinematics, kinematics.chain, limits, dt
        self.inverse_dynamics = inverse_dynamics
        self.joint_step = limits.velocity * dt
        self.low, self.high = np.array(bounds.low), np.array(bounds.high)
        self._bounds = bounds.low, bounds.high
        self.joint_command = self.chain.home.copy()
        self.tool_yaw = tool_yaw

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Name of each component of the arm's action."""

    @property
    def ranges(self) -> tuple[ComponentRange, ...]:
        """Range of each component of the arm's action, for exported policies; empty: not known."""
        return ()

    def reset(self, joint_position: FloatArray, ee_position: FloatArray) -> None:
        """Set the command to a measured posture.

        Args:
            joint_position: `(J,)` rad.
            ee_position: `(3,)` m, world frame.
        """
        self.joint_command = joint_position.copy()

    @abstractmethod
    def command(self, action: FloatArray, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return the motor commands `(J,)` for the arm's action, see `mode`.

        Args:
            action: The arm's components, see `names`, in [-1, 1].
            joint_position: `(J,)` rad, measured.
            ee_position: `(3,)` m, measured.
        """

    @abstractmethod
    def action_towards(
        self,
        ee_target: FloatArray,
        joint_position: FloatArray,
        joint_velocity: FloatArray,
        ee_position: FloatArray,
        yaw_change: float,
    ) -> FloatArray:
        """Return the action that, repeated `action_repeat` times, moves the end effector straight towards a target.

        Args:
            ee_target: `(3,)` m.
            joint_position: `(J,)` rad, measured.
            joint_velocity: `(J,)` rad/s, measured.
            ee_position: `(3,)` m, measured.
            yaw_change: rad from the measured tool yaw to the target yaw; 0 keeps the last target yaw.
        """

    @property
    def command_offset_size(self) -> int:
        """`L`: size of `command_offset`; 0 for a controller without memory."""
        return 0

    def command_offset(self, joint_position: FloatArray, ee_position: FloatArray) -> FloatArray:
        """Return the last command `(L,)` relative to the measured posture.

        Args:
            joint_position: `(J,)` rad.
            ee_position: `(3,)` m, world frame.
        """
        return np.zeros(0)

    def tool_yaw_offset(self, tool_yaw: float) -> float:
        """Return the last commanded minus the measured tool yaw, rad; 0 if yaw is not commanded.

        Args:
            tool_yaw: Measured yaw of the tool, rad, relative to home.
        """
        return 0.0

    def measured_tool_yaw(self, joint_position: FloatArray) -> float:
        """Return the tool yaw in rad.

        Args:
            joint_position: `(J,)` rad.
        """
        return yaw_between(self.chain.rotation, self.kinematics.pose(joint_position)[:3, :3])


T = TypeVar("T")


@checked_registration
def register_controller(
    name: str, *, aliases: Sequence[str] = (), help: str = "", override: bool = False
) -> Callable[[T], T]:
    """Decorator that registers a subclass of `Controller` under `name`.

    Args:
        name: Value of `control` in configs and flags.
        aliases: Other values of `control` for the same controller.
        help: One line for listings; by default the first line of the docstring.
        override: Replace a controller of the same name.

    Raises:
        RegistryError: When applied: the class is no complete `Controller`, or the name is taken or is no identifier.
    """
    return decorator(
        "controller",
        name,
        aliases=aliases,
        build=_with_checks,
        check=_is_complete,
        allowed="a subclass of Controller with all its abstract methods and the class attribute `commands`",
        help=help,
        override=override,
    )


def _is_complete(cls: Any) -> bool:
    is_controller = inspect.isclass(cls) and issubclass(cls, Controller)
    return is_controller and not inspect.isabstract(cls) and hasattr(cls, "commands")


RESULTS: Mapping[str, Callable[[Any], int]] = {
    "command": lambda controller: len(controller.limits.velocity),
    "command_offset": lambda controller: controller.command_offset_size,
    "action_towards": lambda controller: len(controller.names),
}
"""Method of a controller → the size of its results."""


def _with_checks(cls: type[Controller]) -> type[Controller]:
    """Return a controller whose methods, if they are the user's, raise `RegistryError` for a wrong result."""
    for name, size in RESULTS.items():
        method = getattr(cls, name)
        if not of_library(method) and not hasattr(method, "__wrapped__"):
            setattr(cls, name, _checked(f"{cls.__name__}.{name}", method, size))
    return cls


def _checked(key: str, method: Callable[..., Any], size: Callable[[Any], int]) -> Callable[..., FloatArray]:
    @functools.wraps(method)
    def checked(controller: Controller, *args: Any, **kwargs: Any) -> FloatArray:
        result, shape = method(controller, *args, **kwargs), (size(controller),)
        if not (isinstance(result, np.ndarray) and result.shape == shape and np.isfinite(result).all()):
            raise wrong_result(key, method, result, f"an array {shape} of finite numbers")
        return result

    return checked


def scale_to_unit(action: FloatArray) -> FloatArray:
    """Return the action scaled down so that no component exceeds 1; its direction is kept."""
    return action / max(1.0, float(np.abs(action).max()))


def action_within(values: Any, low: Any, high: Any) -> Any:
    """Return the actions that denote values in ranges of which -1 and 1 are the ends; any, of a range without width."""
    width = high - low
    return (2 * values - high - low) / (width + (width == 0))


COMMON_PARAMETERS = tuple(name for name in ControlParams.model_fields if name != "name")
"""Parameters of `control` that every controller has."""


@dataclass(frozen=True)
class ChosenController:
    """A controller of a config: its class, and complete parameters."""

    kind: type[Controller]
    config: ControlParams
    """With the registered name and with defaults; plain if every parameter has its default."""
    params: Mapping[str, Any]
    """Parameters of the class."""

    def limited(self, robot: RobotSpec) -> RobotSpec:
        """Return the robot with the limits of its joints reduced to `max_force` and `max_velocity`."""
        if self.config.max_force is None and self.config.max_velocity is None:
            return robot
        force, velocity = self.config.max_force or math.inf, self.config.max_velocity or math.inf
        limited = [
            replace(joint, effort=min(joint.effort, force), velocity=min(joint.velocity, velocity))
            for joint in robot.all_joints
        ]
        return robot.with_joints(limited)

    def grippers(self, values: Any) -> Any:
        """Return the commands of grippers, from -1 (closed) to 1 (open), for their components of an action."""
        return 2.0 * (values > 0.0) - 1.0 if self.config.gripper == "binary" else values


def find_controller(control: str | Mapping[str, Any] | ControlParams) -> ChosenController:
    """Return the controller for a value of `control`: a name, or a mapping with the name and parameters.

    Args:
        control: The value, as in a config.

    Raises:
        ConfigError: A parameter is unknown, has the wrong type, or is out of its range.
        RegistryError: Unknown controller.
    """
    if not isinstance(control, ControlParams):
        control = resolve([Layer("argument", {"control": control})]).config.control
    entry = registry("controller").get(control.name, "control")
    kind: type[Controller] = entry.load()
    known = controller_parameters(kind)
    for name in control.params:
        if name not in known:
            raise ConfigError(unknown_parameter(f"control.{name}", [*known, *COMMON_PARAMETERS], entry.name))
    check_parameters("control", entry.name, known, control.params)
    defaults = {name: parameter.default for name, parameter in known.items() if is_plain(parameter.default)}
    params = {**defaults, **control.params}
    common = {name: getattr(control, name) for name in COMMON_PARAMETERS}
    is_default = params == defaults and all(getattr(ControlParams(), name) == value for name, value in common.items())
    config = ControlParams.model_validate({"name": entry.name} | ({} if is_default else {**common, **params}))
    return ChosenController(kind, config, params)
