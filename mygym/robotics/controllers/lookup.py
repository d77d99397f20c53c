"""`find_controller`: the class and the parameters of a controller, from the config's `control`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mygym.config import Layer, resolve
from mygym.config.loading import is_plain
from mygym.config.parameter_checks import check_parameters, controller_parameters, unknown_parameter
from mygym.config.schema import ControlParams
from mygym.errors import ConfigError
from mygym.registry import registry
from mygym.robotics.controllers.controller import Controller

if TYPE_CHECKING:
    from mygym.robotics.robots import ArmSpec, RobotSpec

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
        second = robot.second_arm and replace(robot.second_arm, joints=self._joints(robot.second_arm))
        return replace(robot, joints=self._joints(robot.arms[0]), second_arm=second)

    def _joints(self, arm: ArmSpec) -> tuple[Any, ...]:
        force, velocity = self.config.max_force or float("inf"), self.config.max_velocity or float("inf")
        return tuple(
            replace(joint, effort=min(joint.effort, force), velocity=min(joint.velocity, velocity))
            for joint in arm.joints
        )


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
