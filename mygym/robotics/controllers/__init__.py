"""Controllers: map an action in [-1, 1] to motor commands, and an end-effector target back to an action."""

from mygym.robotics.controllers.controller import (
    ArmLimits,
    ChosenController,
    ComponentRange,
    Controller,
    InverseDynamics,
    Mode,
    find_controller,
    register_controller,
    scale_to_unit,
)
from mygym.robotics.controllers.end_effector import (
    EE_LAG,
    EE_STEP,
    EndEffectorAbsolute,
    EndEffectorController,
    EndEffectorDelta,
)
from mygym.robotics.controllers.joint import JointController, JointDelta, JointPosition, JointTorque, JointVelocity

__all__ = [
    "EE_LAG",
    "EE_STEP",
    "ArmLimits",
    "ChosenController",
    "ComponentRange",
    "Controller",
    "EndEffectorAbsolute",
    "EndEffectorController",
    "EndEffectorDelta",
    "InverseDynamics",
    "JointController",
    "JointDelta",
    "JointPosition",
    "JointTorque",
    "JointVelocity",
    "Mode",
    "find_controller",
    "register_controller",
    "scale_to_unit",
]
