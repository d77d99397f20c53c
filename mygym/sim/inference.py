"""What can be said of a robot of which there is nothing but a URDF: its arm, its gripper, a home, a place to stand."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from mygym.errors import AssetError, bad_value
from mygym.models.kinematics import Kinematics, at_home, make_chain
from mygym.models.robot import EndEffectorSpec, GripperSpec, JointSpec, RobotSpec, load_robot
from mygym.models.robot_model import check_model
from mygym.models.transforms import axis_angle_to_matrix, matrix_to_quaternion
from mygym.models.urdf import DYNAMIC, Joint, inertial, origin_of, read_joints, read_urdf
from mygym.models.workspace import WorkspaceSpec, load_workspace
from mygym.registry import registry
from mygym.sim.primitives import mesh_points
from mygym.types import FloatArray

TURNS = ("revolute", "continuous")
FINGERS = ("finger", "jaw", "knuckle", "thumb")
"""What the names of a gripper's joints or links have in them; those of joints may have `grip` as well."""

STANDS = (-0.6, -0.5, -0.4, -0.3, -0.75)
"""m, along x: where the base may stand, seen from the middle of the work area."""

HEIGHTS = (0.0, -0.7, 0.35)
"""m: on the table, on the floor beside it, on a socket."""

TRIES = 24
"""Postures from which a home is looked for."""

SPEED, TORQUE, FORCE = 1.5, 50.0, 20.0
"""rad/s, N m and N: assumed where a URDF has no limit."""

CLEARANCE = 0.08
"""m above the table at which a home has the joints, so that the links between them are not in it."""

PAD = 0.01
"""m behind the tips of fingers where they hold a thing."""

SHORTEST_TOOL = 0.02
"""m: a last link that is not longer is a flange, whose z axis points out."""


@dataclass(frozen=True)
class Inferred:
    """A robot, and what is not written anywhere but has been inferred."""

    spec: RobotSpec
    notes: tuple[str, ...]
    """One line each."""
    reaches: float
    """Share of the corners of the table's areas that it reaches with its tool down."""


def find_robot(name: str) -> RobotSpec:
    """The robot that a config means: a registered one, a YAML file, or what can be inferred from a URDF.

    Raises:
        RegistryError: No such name or file.
        AssetError: The file does not describe a robot.
    """
    path = Path(registry("robot").get(name).load())
    return infer_robot(path).spec if path.suffix == ".urdf" else load_robot(path)


def inferred_of(name: str) -> tuple[str, ...]:
    """What `find_robot` has to infer, one line each: nothing but for a URDF."""
    path = Path(registry("robot").get(name).load())
    return infer_robot(path).notes if path.suffix == ".urdf" else ()


def is_installed(name: str) -> bool:
    """Whether a robot's model is there: that of some needs an extra."""
    if not registry("robot").get(name).requires:
        return True
    try:
        return bool(distribution("example-robot-data"))
    except PackageNotFoundError:
        return False


def infer_robot(urdf: Path) -> Inferred:
    """The longest chain of turning joints in a URDF, with a gripper found by name, a home and a place for its base.

    Raises:
        AssetError: The file cannot be read, there is no arm in it, or what moves weighs nothing.
    """
    return _infer(urdf.resolve(), urdf.stat().st_mtime_ns if urdf.is_file() else 0)


@cache
def _infer(urdf: Path, modified: int) -> Inferred:
    root = read_urdf(urdf)
    joints = read_joints(root)
    if not any(joint.kind in DYNAMIC for joint in joints.values()):
        raise AssetError(bad_value("robot", str(urdf), "a URDF with joints that move", "has no joints that move"))
    chain = _arm(joints)
    if not chain:
        raise AssetError(bad_value("robot", str(urdf), "a URDF with an arm of turning joints", "has no arm"))
    notes = [f"an arm of {count_joints(len(chain))}, {chain[0].name} to {chain[-1].name}"]
    specs = tuple(_joint(joint, notes) for joint in chain)
    gripper = _gripper(root, joints, chain[-1].child, notes)
    tool = _tool(root, joints, chain[-1].child, gripper)
    notes.append(f"the tool point at {list(tool.position)} m in {tool.link}")
    spec = RobotSpec(str(urdf), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), specs, tool, gripper, name=urdf.stem)
    check_model(spec)
    found = _best_stand(spec, load_workspace(Path(registry("workspace").get("table").load())))
    place = list(found.spec.base_position)
    notes.append(f"its base at {place} m, from where it reaches {100 * found.reaches:.0f} % of the table's areas")
    moving = {joint.name for joint in joints.values() if joint.kind in DYNAMIC and not joint.mimics}
    used = {joint.name for joint in chain} | set(gripper.joints if gripper else ())
    if moving - used:
        notes.append(f"held still: {', '.join(sorted(moving - used))}")
    return replace(found, notes=tuple(notes))


def count_joints(number: int) -> str:
    """`1 joint`, `6 joints`."""
    return f"{number} joint{'' if number == 1 else 's'}"


def _arm(joints: dict[str, Joint]) -> list[Joint]:
    """The turning joints on the way from the root to the tip that has most of them before it; fingers do not count."""
    above = {joint.child: joint for joint in joints.values()}

    def way(link: str) -> list[Joint]:
        return [*way(above[link].parent), above[link]] if link in above else []

    ways = [[joint for joint in way(tip) if joint.kind in TURNS and not _is_finger(joint)] for tip in above]
    chain = max(ways, key=len, default=[])
    # Of a body with other joints between, the part behind the last prismatic one is the arm.
    whole = way(chain[-1].child) if chain else []
    slides = [number for number, joint in enumerate(whole) if joint.kind == "prismatic"]
    return [joint for joint in whole[slides[-1] + 1 if slides else 0 :] if joint.kind in TURNS]


def _is_finger(joint: Joint) -> bool:
    name = joint.name.lower()
    return "grip" in name or any(word in name or word in joint.child.lower() for word in FINGERS)


def _joint(joint: Joint, notes: list[str]) -> JointSpec:
    lower, upper = joint.lower, joint.upper
    if joint.kind == "continuous" or not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        lower, upper = -math.pi, math.pi
        notes.append(f"{joint.name} turns from -π to π, having no limits")
    velocity, effort = joint.velocity, joint.effort
    if not 0 < velocity < math.inf:
        velocity = SPEED
        notes.append(f"{joint.name} turns at up to {SPEED} rad/s, having no limit")
    if not 0 < effort < math.inf:
        effort = TORQUE
        notes.append(f"{joint.name} has up to {TORQUE} N m, having no limit")
    return JointSpec(joint.name, min(max(0.0, lower), upper), lower, upper, velocity, effort)


# gripper and tool -----------------------------------------------------------------------------------------------------


def _gripper(root: ET.Element, joints: dict[str, Joint], wrist: str, notes: list[str]) -> GripperSpec | None:
    """The fingers that hang on a link, if they have limits: prismatic ones, else turning ones."""
    carried = [joint for joint in _carried(joints, wrist) if _is_finger(joint)]
    limited = [joint for joint in carried if math.isfinite(joint.lower) and joint.lower < joint.upper < math.inf]
    fingers = next(
        (found for kind in ("prismatic", "revolute") if (found := [one for one in limited if one.kind == kind])), []
    )
    if not fingers:
        notes.append("no gripper")
        return None
    low, high = (_spread(root, joints, wrist, fingers, end) for end in ("lower", "upper"))
    opens_up = high > low if len(fingers) > 1 else fingers[0].upper > -fingers[0].lower
    ways = [(joint.lower, joint.upper) if opens_up else (joint.upper, joint.lower) for joint in fingers]
    if fingers[0].kind == "prismatic":
        width = sum(abs(opened - closed) for closed, opened in ways)
    else:
        width = max(abs(high - low), 0.01)
    names = [joint.name for joint in fingers]
    notes.append(f"a gripper of {', '.join(names)} that opens {100 * width:.1f} cm")
    speeds = [joint.velocity for joint in fingers if 0 < joint.velocity < math.inf]
    forces = [joint.effort for joint in fingers if 0 < joint.effort < math.inf]
    return GripperSpec(
        joints=tuple(names),
        links=tuple(joint.child for joint in fingers),
        closed=tuple(closed for closed, _ in ways),
        open=tuple(opened for _, opened in ways),
        width=round(width, 4),
        force=min(forces, default=FORCE),
        velocity=min(speeds, default=0.1),
    )


def _carried(joints: dict[str, Joint], link: str) -> Iterator[Joint]:
    """All joints behind a link."""
    for joint in joints.values():
        if joint.parent == link:
            yield joint
            yield from _carried(joints, joint.child)


def _spread(root: ET.Element, joints: dict[str, Joint], wrist: str, fingers: list[Joint], end: str) -> float:
    """m: mean distance of the fingers' centres of mass from their middle, or from the wrist's axis if there is one."""
    places = np.array(_centres(root, joints, wrist, {joint.name: getattr(joint, end) for joint in fingers}))
    middle = places.mean(axis=0) if len(fingers) > 1 else np.zeros(3)
    return 2 * float(np.linalg.norm(places - middle, axis=1).mean())


def _centres(root: ET.Element, joints: dict[str, Joint], wrist: str, at: dict[str, float]) -> list[FloatArray]:
    """Centres of mass `(3,)` of the children of the joints in `at`, at these positions, in the frame of a link."""
    centres = {link.get("name"): inertial(link)[1] for link in root.findall("link")}
    children = [joints[name].child for name in at]
    return [(pose @ [*centres[child], 1.0])[:3] for child in children for pose in _poses(joints, wrist, at, child)]


def _poses(joints: dict[str, Joint], wrist: str, at: dict[str, float], link: str) -> Iterator[FloatArray]:
    """The pose `(4, 4)` of a link in the frame of one that carries it, its joints at positions or at zero."""
    poses = {wrist: np.eye(4)}
    for joint in _carried(joints, wrist):
        moved = np.eye(4)
        if joint.kind == "prismatic":
            moved[:3, 3] = at.get(joint.name, 0.0) * np.array(joint.axis)
        elif joint.kind in TURNS:
            moved[:3, :3] = axis_angle_to_matrix(joint.axis, at.get(joint.name, 0.0))
        poses[joint.child] = poses[joint.parent] @ joint.origin @ moved
        if joint.child == link:
            yield poses[link]


def _tool(root: ET.Element, joints: dict[str, Joint], wrist: str, gripper: GripperSpec | None) -> EndEffectorSpec:
    """Between the closed fingers, or where the last link ends; z is the way there."""
    if gripper:
        closed = dict(zip(gripper.joints, gripper.closed, strict=True))
        way = np.mean(_centres(root, joints, wrist, closed), axis=0)
        along = way / max(float(np.linalg.norm(way)), 1e-6)
        places = [(link, pose) for link in gripper.links for pose in _poses(joints, wrist, closed, link)]
        reaches = [
            float((points @ along).max()) for link, pose in places for points in _shapes(root, joints, link, pose)
        ]
        return _pointing_along(wrist, along * (max(reaches) - PAD if reaches else float(way @ along)))
    link = _behind_fixed(joints, wrist)
    points = np.concatenate([np.zeros((1, 3)), *_shapes(root, joints, link, np.eye(4))])
    reach = np.concatenate([points.max(axis=0), -points.min(axis=0)])
    longest = int((reach - np.roll(reach, 3)).argmax())  # where it goes on one side alone
    is_face = reach[2] < SHORTEST_TOOL / 4 and reach[5] > reach[2]  # the z axis leaves the body at once: a flange
    if reach[longest] >= SHORTEST_TOOL and not is_face:
        return _pointing_along(link, np.eye(3)[longest % 3] * (1 if longest < 3 else -1) * reach[longest])
    # A bare flange: it is at the end of a way, if there is one, or else its z axis is as good as any.
    flange = next(_poses(joints, wrist, {}, link), np.eye(4))
    if np.linalg.norm(flange[:3, 3]) < SHORTEST_TOOL:
        return EndEffectorSpec(link)
    return replace(_pointing_along(link, flange[:3, :3].T @ flange[:3, 3]), position=(0.0, 0.0, 0.0))


def _pointing_along(link: str, way: FloatArray) -> EndEffectorSpec:
    """The tool point at `way` `(3,)` m in a link's frame, its z axis along it."""
    length = float(np.linalg.norm(way))
    if length < 1e-6:
        return EndEffectorSpec(link)
    z = way / length
    turn = np.cross((0.0, 0.0, 1.0), z)
    sine = float(np.linalg.norm(turn))
    if sine < 1e-6:
        rotation = np.eye(3) if z[2] > 0 else np.diag([1.0, -1.0, -1.0])
    else:
        rotation = axis_angle_to_matrix(turn / sine, math.atan2(sine, z[2]))
    x, y, z_, w = (float(part) for part in matrix_to_quaternion(rotation).round(6))
    px, py, pz = (float(part) for part in way.round(4))
    return EndEffectorSpec(link, (px, py, pz), (x, y, z_, w))


def _behind_fixed(joints: dict[str, Joint], link: str) -> str:
    """The last link that a link carries by fixed joints."""
    after = next((joint.child for joint in joints.values() if joint.parent == link and joint.kind == "fixed"), None)
    return link if after is None else _behind_fixed(joints, after)


def _shapes(root: ET.Element, joints: dict[str, Joint], link: str, pose: FloatArray) -> Iterator[FloatArray]:
    """Points `(n, 3)` m on the collision shapes of a link and of all that it carries."""
    for collision in root.findall(f"link[@name='{link}']/collision"):
        place = pose @ origin_of(collision)
        for shape in collision.findall("geometry/*"):
            points = _points(shape)
            yield points @ place[:3, :3].T + place[:3, 3]
    for joint in joints.values():
        if joint.parent == link:
            yield from _shapes(root, joints, joint.child, pose @ joint.origin)


def _points(shape: ET.Element) -> FloatArray:
    """Points `(n, 3)` m that bound a shape, in its own frame."""
    if shape.tag == "mesh":
        return mesh_points(shape.get("filename", ""), shape.get("scale", "1 1 1"))
    radius, length = float(shape.get("radius", "0")), float(shape.get("length", "0"))
    half = np.array([radius, radius, length / 2])
    if shape.tag == "box":
        half = np.array([float(edge) for edge in shape.get("size", "0 0 0").split()]) / 2
    elif shape.tag in ("sphere", "capsule"):
        half = np.array([radius, radius, radius + length / 2])
    corners: FloatArray = np.array(np.meshgrid(*([-1.0, 1.0],) * 3)).reshape(3, -1).T * half
    return corners


# home and place -------------------------------------------------------------------------------------------------------


def _best_stand(spec: RobotSpec, workspace: WorkspaceSpec) -> Inferred:
    """The first place from which all of the workspace's areas are reached, or else the one that reaches most."""
    aside = -float(make_chain(spec, spec.arms[0], workspace.tool_direction).basis[0, 0].reshape(4, 4)[1, 3])
    best: Inferred | None = None
    for z in HEIGHTS:
        for x in STANDS:
            one = _at_home(replace(spec, base_position=(x, round(aside, 3) + 0.0, z)), workspace)
            if best is None or one.reaches > best.reaches:
                best = one
            if best.reaches == 1.0:
                return best
    assert best is not None
    return best


def _at_home(spec: RobotSpec, workspace: WorkspaceSpec) -> Inferred:
    """`spec` with the home from which it reaches most, of several one above the table and far from its limits."""
    lower, upper = (np.array([getattr(joint, key) for joint in spec.joints]) for key in ("lower", "upper"))
    low, high = np.maximum(lower, -np.pi), np.minimum(upper, np.pi)  # of a whole turn more there is no use
    low, high = np.where(low < high, low, lower), np.where(low < high, high, upper)
    chain = make_chain(spec, spec.arms[0], workspace.tool_direction)
    rng = np.random.default_rng(0)
    corners = _corners(workspace)
    tool = np.array(workspace.tool_home)
    candidates: list[tuple[float, float, FloatArray]] = []
    for _ in range(TRIES):
        kinematics = Kinematics(at_home(chain, rng.uniform(low, high), workspace.tool_direction))
        rotation = kinematics.chain.rotation
        home = kinematics.inverse(kinematics.chain.home, tool, rotation, iterations=150)
        if kinematics.residual(home, tool, rotation) < 0.002:
            margin = np.minimum(home - lower, upper - home) / (upper - lower)
            heights = kinematics.joint_heights(home)
            # An elbow below the table is in it; the base may stand lower.
            above = min(float(heights.min()), min(CLEARANCE, float(heights[0])))
            candidates.append((above, float(margin.min()), home))
    best = Inferred(spec, (), 0.0)
    for *_, home in sorted(candidates, key=lambda one: (-one[0], -one[1]))[:5]:
        kinematics = Kinematics(at_home(chain, home.round(3), workspace.tool_direction))
        reaches = float(kinematics.reachable(corners, kinematics.chain.rotation).mean())
        if reaches > best.reaches:
            joints = (replace(one, home=float(q)) for one, q in zip(spec.joints, home.round(3), strict=True))
            best = Inferred(replace(spec, joints=tuple(joints)), (), reaches)
    return best


def _corners(workspace: WorkspaceSpec) -> FloatArray:
    boxes = [workspace.areas[name] for name in ("reach", "surface", "air")]
    corners = [np.array(np.meshgrid(*zip(box.low, box.high, strict=True))).reshape(3, -1).T for box in boxes]
    points: FloatArray = np.concatenate(corners)
    points[:, 2] = np.maximum(points[:, 2], workspace.tool_bounds.low[2])
    return points
