"""Limits of arms of few joints: directions in which the tool moves, and its lean where it is not held upright."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mygym.robotics.inference.base_placement import area_points
from mygym.robotics.kinematics import Kinematics, make_chain
from mygym.robotics.robots import RobotSpec, cached_by_model
from mygym.robotics.workspace import load_workspace

DIRECTIONS = 3
"""Directions in which a tool has to move to reach a point in space."""

POINTS = 3
"""Points along each edge of the table's areas at which the lean of the tool is measured."""


def count_joints(number: int) -> str:
    """Return a number of joints in words: `1 joint`, `6 joints`."""
    return f"{number} joint{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Freedom:
    """Freedom of an arm's tool on the default table."""

    joints: int
    directions: int
    """Number of independent directions in which the joints move the tool point, 0 to 3."""
    lean: tuple[float, float] | None
    """Least and largest angle of the tool from straight down over the table's areas, degrees; None if it is held."""

    @property
    def moves(self) -> str:
        """In how many directions the tool moves, if these are too few; else empty."""
        if self.directions >= DIRECTIONS:
            return ""
        return f"moves its tool in {self.directions} of {DIRECTIONS} directions, with {count_joints(self.joints)}"

    @property
    def leans(self) -> str:
        """The lean of the tool in words, if it cannot be held upright; else empty."""
        if self.lean is None:
            return ""
        low, high = self.lean
        return f"cannot hold its tool upright: with {count_joints(self.joints)} it leans by {low:.0f}° to {high:.0f}°"


@cached_by_model
def freedom(robot: RobotSpec) -> Freedom:
    """Return the freedom of a robot's first arm, at its base and home."""
    workspace = load_workspace("table")
    robot, workspace = workspace.with_base(robot), workspace.fit(robot)
    kinematics = Kinematics(make_chain(robot, robot.arms[0], workspace.tool_direction))
    chain = kinematics.chain
    directions = kinematics.directions()
    if not chain.tilt_is_free or directions < DIRECTIONS:
        return Freedom(len(chain.home), directions, None)
    postures = [chain.home]
    for point in area_points(workspace, POINTS):
        posture = kinematics.inverse(chain.home, point, chain.rotation)
        if not kinematics.missing(posture, point, chain.rotation):
            postures.append(posture)
    cosines = [float(kinematics.pose(posture)[:3, 2] @ workspace.tool_direction) for posture in postures]
    low, high = np.degrees(np.arccos(np.clip([max(cosines), min(cosines)], -1.0, 1.0))).tolist()
    return Freedom(len(chain.home), directions, (low, high))
