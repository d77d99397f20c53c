"""What a robot's YAML file says of its URDF: the arm's joints, their limits, and where it can stand to reach."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mygym.errors import ConfigError, bad_value
from mygym.registry import registry
from mygym.sim.kinematics import Kinematics, make_chain
from mygym.sim.robot import EndEffectorSpec, JointSpec, RobotSpec
from mygym.sim.urdf import Joint, origin_of, read_joints, read_urdf
from mygym.sim.workspace import WorkspaceSpec, load_workspace

TURNS = ("revolute", "continuous")
STANDS = (-0.6, -0.5, -0.4, -0.3)
"""m, along x: where the base may stand, seen from the middle of the work area."""

TRIES = 60
"""Postures from which a home is looked for."""


@dataclass(frozen=True)
class Found:
    """An arm in a URDF file."""

    spec: RobotSpec
    reaches: float
    """Share of the corners of the table's areas that it reaches with its tool down."""


def find_arm(urdf: Path) -> Found:
    """The longest chain of turning joints in a URDF, with a home and a place for its base.

    Raises:
        AssetError: The file cannot be read.
        ConfigError: There is no arm in it, or a joint lacks its limits.
    """
    root = read_urdf(urdf)
    joints = read_joints(root)
    chain = _arm(joints)
    if not chain:
        raise ConfigError(bad_value("--urdf", str(urdf), "a URDF with an arm of turning joints", "has none"))
    specs = tuple(_joint(urdf, joint) for joint in chain)
    link = _behind_fixed(joints, chain[-1].child)
    tool = EndEffectorSpec(link, (0.0, 0.0, round(_extent(root, joints, link, np.eye(4)), 3)))
    table = load_workspace(Path(registry("workspace").get("table").load()))
    best: Found | None = None
    for x in STANDS:
        upright = (0.0, 0.0, 0.0, 1.0)
        spec = RobotSpec(str(urdf), (x, 0.0, 0.0), upright, specs, tool, name=urdf.stem)
        one = _at_home(spec, table)
        if best is None or one.reaches > best.reaches:
            best = one
        if best.reaches == 1.0:
            break
    assert best is not None
    return best


def _arm(joints: dict[str, Joint]) -> list[Joint]:
    """The turning joints on the way from the root to the tip that has most of them before it."""
    above = {joint.child: joint for joint in joints.values()}

    def way(link: str) -> list[Joint]:
        return [*way(above[link].parent), above[link]] if link in above else []

    ways = [[joint for joint in way(tip) if joint.kind in TURNS] for tip in above]
    return max(ways, key=len, default=[])


def _behind_fixed(joints: dict[str, Joint], link: str) -> str:
    """The last link that a link carries by fixed joints."""
    after = next((joint.child for joint in joints.values() if joint.parent == link and joint.kind == "fixed"), None)
    return link if after is None else _behind_fixed(joints, after)


def _extent(root: ET.Element, joints: dict[str, Joint], link: str, pose: NDArray[np.float64]) -> float:
    """How far the shapes of a link, and of what it carries, go along the z axis, m; meshes are not looked at."""
    found = 0.0
    for collision in root.findall(f"link[@name='{link}']/collision"):
        place = pose @ origin_of(collision)
        found = max(found, place[2, 3] + _half_length(collision, place[2, :3]))
    carried = [joint for joint in joints.values() if joint.parent == link]
    return max([found, *(_extent(root, joints, joint.child, pose @ joint.origin) for joint in carried)])


def _half_length(collision: ET.Element, up: NDArray[np.float64]) -> float:
    """From the centre of a primitive shape to its end along a direction `(3,)` in its own frame, m."""
    tilt = abs(float(up[2]))
    for shape in collision.findall("geometry/*"):
        radius, length = float(shape.get("radius", "0")), float(shape.get("length", "0"))
        if shape.tag == "box":
            sizes = np.array([float(edge) for edge in shape.get("size", "").split()])
            return float(np.abs(up) @ sizes) / 2
        if shape.tag == "cylinder":
            return tilt * length / 2 + radius * math.sqrt(max(0.0, 1 - tilt * tilt))
        if shape.tag in ("capsule", "sphere"):
            return tilt * length / 2 + radius
    return 0.0


def _joint(urdf: Path, joint: Joint) -> JointSpec:
    lower, upper = (joint.lower, joint.upper) if joint.kind == "revolute" else (-math.pi, math.pi)
    limits = {"lower": lower, "upper": upper, "velocity": joint.velocity, "effort": joint.effort}
    for key, value in limits.items():
        if not math.isfinite(value) or (key in ("velocity", "effort") and value <= 0):
            why = f"of joint {joint.name} is not given in {urdf}"
            raise ConfigError(bad_value(f"limit {key}", value, "rad, rad/s and N m in the joint's <limit>", why))
    return JointSpec(joint.name, home=min(max(0.0, lower), upper), **limits)


def _at_home(spec: RobotSpec, workspace: WorkspaceSpec) -> Found:
    """`spec` with the home from which it reaches most, far from its limits where there are several."""
    lower, upper = (np.array([getattr(joint, key) for joint in spec.joints]) for key in ("lower", "upper"))
    rng = np.random.default_rng(0)
    corners = _corners(workspace)
    tool = np.array(workspace.tool_home)
    candidates: list[tuple[float, NDArray[np.float64]]] = []
    for _ in range(TRIES):
        chain = _kinematics(_with_home(spec, rng.uniform(lower, upper))).chain
        kinematics = Kinematics(chain)
        home = kinematics.inverse(chain.home, tool, chain.rotation, iterations=200)
        if kinematics.residual(home, tool, chain.rotation) < 0.002:
            margin = np.minimum(home - lower, upper - home) / (upper - lower)
            candidates.append((float(margin.min()), home))
    best = Found(spec, 0.0)
    for _, home in sorted(candidates, key=lambda one: -one[0])[:8]:
        one = _with_home(spec, home.round(3))
        kinematics = _kinematics(one)
        reaches = float(kinematics.reachable(corners, kinematics.chain.rotation).mean())
        if reaches > best.reaches:
            best = Found(one, reaches)
    return best


def _kinematics(spec: RobotSpec) -> Kinematics:
    return Kinematics(make_chain(spec, spec.arms[0], (0.0, 0.0, -1.0)))


def _with_home(spec: RobotSpec, home: NDArray[np.float64]) -> RobotSpec:
    joints = (replace(joint, home=float(q)) for joint, q in zip(spec.joints, home, strict=True))
    return replace(spec, joints=tuple(joints))


def _corners(workspace: WorkspaceSpec) -> NDArray[np.float64]:
    boxes = [workspace.areas[name] for name in ("reach", "surface", "air")]
    corners = [np.array(np.meshgrid(*zip(box.low, box.high, strict=True))).reshape(3, -1).T for box in boxes]
    points: NDArray[np.float64] = np.concatenate(corners)
    points[:, 2] = np.maximum(points[:, 2], workspace.tool_bounds.low[2])
    return points
