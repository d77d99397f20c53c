"""Choice of a base position and a home posture for a robot whose description has none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mygym.models.kinematics import Kinematics, at_home, make_chain
from mygym.models.robot_spec import RobotSpec
from mygym.models.workspace import WorkspaceSpec
from mygym.types import FloatArray

BASE_X = (-0.6, -0.5, -0.4, -0.3, -0.75)
"""m: candidates for the base's x, relative to the centre of the work area."""

BASE_Z = (0.0, -0.7, 0.35)
"""m: candidates for the base's height: on the table, on the floor beside it, on a socket."""

HOME_CANDIDATES = 24
"""Random postures from which the search for a home starts."""

CLEARANCE = 0.08
"""m above the table that the joints have at home, so that the links between them do not touch it."""


def place_base(spec: RobotSpec, workspace: WorkspaceSpec) -> tuple[RobotSpec, float]:
    """Return the robot at the base position and home that reach most of the workspace, and the share reached.

    The share counts the corners of the workspace's areas; the search ends at the first position that reaches all.
    """
    y = -float(make_chain(spec, spec.arms[0], workspace.tool_direction).basis[0, 0].reshape(4, 4)[1, 3])
    best: tuple[RobotSpec, float] | None = None
    for z in BASE_Z:
        for x in BASE_X:
            candidate = _choose_home(replace(spec, base_position=(x, round(y, 3) + 0.0, z)), workspace)
            if best is None or candidate[1] > best[1]:
                best = candidate
            if best[1] == 1.0:
                return best
    assert best is not None
    return best


def _choose_home(spec: RobotSpec, workspace: WorkspaceSpec) -> tuple[RobotSpec, float]:
    """Return the robot with the home that reaches most of the workspace, and the share of corners reached.

    Homes above the table and far from the joint limits are preferred.
    """
    lower, upper = (np.array([getattr(joint, key) for joint in spec.joints]) for key in ("lower", "upper"))
    low, high = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)  # more than one turn adds no posture
    low, high = np.where(low < high, low, lower), np.where(low < high, high, upper)
    chain = make_chain(spec, spec.arms[0], workspace.tool_direction)
    rng = np.random.default_rng(0)
    corners = _corners(workspace)
    tool = np.array(workspace.tool_home)
    candidates: list[tuple[float, float, FloatArray]] = []
    for _ in range(HOME_CANDIDATES):
        kinematics = Kinematics(at_home(chain, rng.uniform(low, high), workspace.tool_direction))
        rotation = kinematics.chain.rotation
        home = kinematics.inverse(kinematics.chain.home, tool, rotation, iterations=150)
        if kinematics.residual(home, tool, rotation) < 0.002:
            margin = np.minimum(home - lower, upper - home) / (upper - lower)
            heights = kinematics.joint_heights(home)
            # An elbow below the table would collide with it; the base may stand lower.
            above = min(float(heights.min()), min(CLEARANCE, float(heights[0])))
            candidates.append((above, float(margin.min()), home))
    best = spec, 0.0
    for *_, home in sorted(candidates, key=lambda candidate: (-candidate[0], -candidate[1]))[:5]:
        kinematics = Kinematics(at_home(chain, home.round(3), workspace.tool_direction))
        share = float(kinematics.reachable(corners, kinematics.chain.rotation).mean())
        if share > best[1]:
            joints = (replace(joint, home=float(q)) for joint, q in zip(spec.joints, home.round(3), strict=True))
            best = replace(spec, joints=tuple(joints)), share
    return best


def _corners(workspace: WorkspaceSpec) -> FloatArray:
    """Return the corners `(n, 3)` m of the workspace's areas, raised to the tool's bounds."""
    boxes = [workspace.areas[name] for name in ("reach", "surface", "air")]
    corners = [np.array(np.meshgrid(*zip(box.low, box.high, strict=True))).reshape(3, -1).T for box in boxes]
    points: FloatArray = np.concatenate(corners)
    points[:, 2] = np.maximum(points[:, 2], workspace.tool_bounds.low[2])
    return points
