"""Robots as data: `find_robot` of a name or any file; `load_robot` of YAML, `infer_robot` of a bare description.

The inference chooses arm, gripper, tool point, home and base position.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mygym.errors import AssetError, bad_value, counted
from mygym.nested import merged
from mygym.registry import RobotFileName, is_file_name, registry
from mygym.robotics.assets import as_asset, find_asset, find_beside, read_asset, read_mapping
from mygym.robotics.files import Stamp
from mygym.robotics.inference.arms import ARM_JOINTS, infer_arm, infer_tool
from mygym.robotics.inference.base_placement import DIRECTIONS, ENOUGH, arm_length, freedom, place_base
from mygym.robotics.inference.findings import Certainty, Finding
from mygym.robotics.inference.grippers import infer_gripper, is_jaw
from mygym.robotics.kinematics import make_chain
from mygym.robotics.robot_descriptions import read_robot, robot_stamps
from mygym.robotics.robot_spec import JointSpec, RobotSpec, cached_by_model, check_model, check_name, mounted_model
from mygym.robotics.urdf import MOVING_JOINT_TYPES, Joint, read_joints
from mygym.robotics.workspace import WorkspaceSpec, find_workspace

LIMITS = ("lower", "upper", "velocity", "effort")
"""Keys of a joint that a YAML file need not state."""


def load_robot(name: str | Path) -> RobotSpec:
    """Load a built-in robot by name, or a robot from a YAML file.

    Raises:
        AssetError: Unknown name; an unknown, missing or invalid key; a missing URDF; or a joint or link that the
            URDF lacks.
    """
    path = find_asset("robots", name)
    spec = read_asset(RobotSpec, path)
    try:
        return resolved(spec, path)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error


def resolved(spec: RobotSpec, path: Path) -> RobotSpec:
    """Return the robot of a YAML file with the absolute paths of its URDF files, all limits of joints, and a name.

    Raises:
        AssetError: A missing URDF or mesh, a joint, limit or link that the URDF lacks, or a link without mass or
            inertia.
    """
    mounts = tuple(replace(mount, urdf=str(find_beside(path, mount.urdf))) for mount in spec.mounts)
    spec = replace(spec, name=spec.name or path.stem, urdf=str(find_beside(path, spec.urdf)), mounts=mounts)
    if any(math.isnan(getattr(joint, limit)) for joint in spec.all_joints for limit in LIMITS):
        spec = _with_limits(spec)
    check_model(spec)
    return spec


@cached_by_model
def _with_limits(spec: RobotSpec) -> RobotSpec:
    """Return a robot with the limits of its URDF for joints that state none."""
    joints = read_joints(mounted_model(spec))

    def completed(key: str, joint: JointSpec) -> JointSpec:
        check_name(f"{key}.name", joint.name, joints, "joint")
        limits = {name: getattr(infer_joint(joints[joint.name]), name) for name in LIMITS}
        limits = {name: limit for name, limit in limits.items() if math.isnan(getattr(joint, name))}
        for name, limit in limits.items():
            if limit != getattr(joints[joint.name], name):  # it would be assumed
                allowed = f"a number, such as {limit:g}: the URDF has none for {joint.name}"
                raise AssetError(bad_value(f"{key}.{name}", None, allowed, "is missing"))
        return replace(joint, **limits)

    arms = zip(("", "second_arm."), spec.arms, strict=False)
    keys = [(f"{key}joints.{index}", joint) for key, arm in arms for index, joint in enumerate(arm.joints)]
    return spec.with_joints([completed(key, joint) for key, joint in keys])


DEFAULT_SPEED, DEFAULT_TORQUE = 3.0, 50.0
"""rad/s and N m: assumed where a URDF has no limit."""

PLACEHOLDERS = 4
"""Joints of a file whose limits are all alike, so that a velocity of 1 rad/s among them is a placeholder."""

NOT_TURNED = (0.0, 0.0, 0.0, 1.0)
"""Orientation of a base that is not turned."""

SHORTEST = 0.03
"""m: length of joints that are no arm, such as the steered wheel of a car."""


@dataclass(frozen=True)
class Inferred:
    """Result of an inference."""

    spec: RobotSpec
    findings: tuple[Finding, ...]
    """The inferred properties, and the repairs of the file."""
    reaches: float
    """Share of the corners of the table's areas that the robot reaches with its tool down."""


def infer_robot(urdf: Path) -> Inferred:
    """Infer a robot from a description in any format that `read_robot` reads: arm, gripper, home and base position.

    Raises:
        AssetError: The file is invalid, has no arm, or an unreadable mesh.
        RegistryError: A package that the format needs is not installed.
    """
    file = RobotFileName.parse(urdf).absolute()
    return _infer(file, robot_stamps(str(file)))


@cache
def _infer(urdf: RobotFileName, stamps: tuple[Stamp, ...]) -> Inferred:
    file = read_robot(str(urdf))
    root = file.root
    joints, replaced = _without_placeholders(read_joints(root))
    if not any(joint.kind in MOVING_JOINT_TYPES for joint in joints.values()):
        raise AssetError(bad_value("robot", str(urdf), "a URDF with moving joints", "has no moving joints"))
    arm = infer_arm(joints)
    chain = arm.joints
    if len(chain) > ARM_JOINTS and is_jaw(root, joints, chain[-1]):
        chain = chain[:-1]
    allowed = f"a URDF with an arm of revolute joints, at least {SHORTEST} m long"
    if not chain:
        raise AssetError(bad_value("robot", str(urdf), allowed, "has no arm"))
    moving = {joint.name for joint in joints.values() if joint.kind in MOVING_JOINT_TYPES and joint.mimic is None}
    is_all = moving == {joint.name for joint in chain}
    sure: Certainty = "certain" if is_all else "likely"
    text = f"an arm of {counted(len(chain), 'joint')}, {chain[0].name} to {chain[-1].name}"
    findings = [
        *file.repairs,
        *replaced,
        Finding(text, "joints", sure, "no other joint moves" if is_all else arm.reason),
    ]
    if coupled := [f"{joint.name} from {joint.mimic.joint}" for joint in chain if joint.mimic]:
        reason = "each joint of an arm has a motor here, and mimics none"
        findings.append(Finding(f"independent: {', '.join(coupled)}", "joints", "guess", reason))
    specs = tuple(map(infer_joint, chain))
    findings += _assumed_limits(chain)
    grasp = infer_gripper(root, joints, chain[-1].child, findings)
    if grasp is None and arm.hand:
        text = f"no gripper, but a hand of {counted(len(arm.hand), 'joint')}, which stay still"
        findings[-1] = Finding(text, "gripper", "likely", findings[-1].reason)
    gripper = grasp.gripper if grasp else None
    if grasp:
        (sure,) = (finding.certainty for finding in findings if finding.key == "gripper")
        tool, reason = grasp.tool, "between the pads, where the fingers hold an object of 4 cm"
    else:
        tool, sure, reason = infer_tool(root, joints, chain, arm.hand)
    text = f"the tool point at {[value + 0.0 for value in tool.position]} m in {tool.link}"
    findings.append(Finding(text, "end_effector", sure, reason))
    # A name without a suffix could be the name of a built-in robot, for which workspaces have settings.
    spec = RobotSpec(str(urdf), (0.0, 0.0, 0.0), NOT_TURNED, specs, tool, gripper, name=urdf.name)
    check_model(spec)
    table = find_workspace("table")
    if (length := arm_length(make_chain(spec, spec.arms[0], table.tool_direction))) < SHORTEST:
        raise AssetError(bad_value("robot", str(urdf), allowed, f"has no arm: its joints span {length:.2g} m"))
    spec, share = place_base(spec, table)
    findings += _placement(spec, share, table)
    findings += _shortcomings(spec)
    used = {joint.name for joint in chain} | set(gripper.joints if gripper else ())
    if moving - used:
        reason = "they move neither the arm nor the gripper; each stays at zero or at its nearest limit"
        findings.append(Finding(f"fixed: {', '.join(sorted(moving - used))}", "locked", "certain", reason))
    return Inferred(spec, tuple(findings), share)


def _without_placeholders(joints: dict[str, Joint]) -> tuple[dict[str, Joint], list[Finding]]:
    """Return joints without limits of velocity that are placeholders, and the finding that says so.

    No robot moves all its joints, from the shoulder to the fingers, with the same torque at exactly 1 rad/s.
    """
    moving = [joint for joint in joints.values() if joint.kind in MOVING_JOINT_TYPES and joint.mimic is None]
    limits = {(joint.effort, joint.velocity) for joint in moving}
    if len(moving) < PLACEHOLDERS or len(limits) > 1 or {velocity for _, velocity in limits} != {1.0}:
        return joints, []
    text = f"velocities of 1 rad/s, which all {len(moving)} joints have, with equal efforts, mean no limit"
    unlimited = {name: replace(joint, velocity=math.inf) for name, joint in joints.items()}
    return unlimited, [Finding(text, "joints", "guess", "no arm has motors that are all alike and this slow")]


def _shortcomings(spec: RobotSpec) -> Iterator[Finding]:
    """Yield a finding for each limit of an arm of few joints."""
    limits = freedom(spec)
    if limits.moves:
        reason = f"a point in space takes {DIRECTIONS} directions"
        yield Finding(f"its arm {limits.moves}: no task suits it", "joints", "likely", reason)
    if limits.leans:
        text = f"its arm {limits.leans} over the table's areas: it reaches and pushes, and cannot grasp from above"
        reason = "the place of the tool takes all joints, and none is left to tilt it"
        yield Finding(text, "end_effector", "likely", reason)


def _placement(spec: RobotSpec, share: float, table: WorkspaceSpec) -> Iterator[Finding]:
    """Yield the findings about the base and the home of a robot that reaches a share of the table's areas."""
    sure: Certainty = "likely" if share >= ENOUGH else "guess"
    text = f"its base at {list(spec.base_position)} m, where it reaches {100 * share:.0f} % of the table's areas"
    reason = "of the positions that were tried, the tool, held down, reaches most of the areas from this one"
    yield Finding(text, "base_position", sure, reason)
    if spec.area_scale < 1:
        text = f"an area_scale of {spec.area_scale:g} for its short arm: the table's areas shrink by this factor"
        yield Finding(text, "area_scale", sure, "of the sizes that were tried, the tool reaches most of this one")
    if spec.base_orientation != NOT_TURNED:
        yaw = math.degrees(2 * math.atan2(*spec.base_orientation[2:]))
        text = f"its base turned by {yaw:.0f}°, so that the arm points to the work area"
        reason = "in the middle of its joints' ranges, its tool is on another side of the first joint"
        yield Finding(text, "base_orientation", sure, reason)
    text = f"its home at {', '.join(f'{joint.name} {joint.home + 0.0:g}' for joint in spec.joints)}"
    if share == 0:
        yield Finding(text, "joints.home", "guess", "no posture that was tried holds the tool down over the table")
        return
    reason = f"it holds the tool down at {[round(x, 3) for x in table.scaled(spec.area_scale).tool_home]} m"
    yield Finding(text, "joints.home", sure, reason)


def infer_joint(joint: Joint) -> JointSpec:
    """Return a joint at the position next to zero, with limits that are assumed where the URDF has none."""
    lower, upper = (-math.pi, math.pi) if _turns_freely(joint) else (joint.lower, joint.upper)
    velocity = joint.velocity if 0 < joint.velocity < math.inf else DEFAULT_SPEED
    effort = joint.effort if 0 < joint.effort < math.inf else DEFAULT_TORQUE
    return JointSpec(joint.name, min(max(0.0, lower), upper), lower, upper, velocity, effort)


def _turns_freely(joint: Joint) -> bool:
    is_limited = math.isfinite(joint.lower) and math.isfinite(joint.upper) and joint.lower < joint.upper
    return joint.kind == "continuous" or not is_limited


def _assumed_limits(chain: Sequence[Joint]) -> Iterator[Finding]:
    """Yield one finding for each kind of limit that joints of an arm lack."""
    free = [joint for joint in chain if _turns_freely(joint)]
    slow = [joint for joint in chain if not 0 < joint.velocity < math.inf]
    weak = [joint for joint in chain if not 0 < joint.effort < math.inf]
    certainty: Certainty = "likely" if all(joint.kind == "continuous" for joint in free) else "guess"
    for joints, text, sure in (
        (free, "from -π to π", certainty),
        (slow, f"at up to {DEFAULT_SPEED} rad/s", "guess"),
        (weak, f"with up to {DEFAULT_TORQUE} N m", "guess"),
    ):
        if joints:
            verb = "turns" if len(joints) == 1 else "turn"
            names = ", ".join(joint.name for joint in joints)
            yield Finding(f"{names} {verb} {text}; the file has no limit", "joints", sure)


SECTIONS = ("base_position", "base_orientation", "joints", "end_effector")
"""Keys of a complete file."""


def lacks_sections(data: Mapping[str, Any]) -> bool:
    """Return whether a robot's YAML file leaves something to the inference: a section, or joints other than a list."""
    return "urdf" in data and (not set(SECTIONS) <= data.keys() or isinstance(data["joints"], Mapping))


def complete_robot(path: Path) -> Inferred | None:
    """Return the robot of a YAML file that leaves sections to the inference; None for a complete file.

    Values of the file replace the inferred values, key by key; `joints` is a mapping from the names of joints to their
    corrections, or a list of all joints. With another tool point, base and home are chosen anew.

    Raises:
        AssetError: The file is invalid, it corrects a joint that the arm lacks, or its URDF does not describe a robot.
    """
    data = read_mapping(path)
    if not lacks_sections(data):
        return None
    try:
        if not isinstance(data["urdf"], str):
            raise AssetError(bad_value("urdf", data["urdf"], "the path of a URDF"))
        inferred = infer_robot(find_beside(path, data["urdf"]))
        values = asdict(inferred.spec) | {"name": ""}
        spec = resolved(as_asset(RobotSpec, _corrected(values, data)), path)
        if "end_effector" in data and "base_position" not in data:
            placed, _ = place_base(spec, find_workspace("table"))
            spec = resolved(as_asset(RobotSpec, _corrected(asdict(placed), data)), path)
    except AssetError as error:
        raise AssetError(f"{path}: {error}") from error
    left = tuple(finding for finding in inferred.findings if finding.key.partition(".")[0] not in data)
    return replace(inferred, spec=spec, findings=left)


def _corrected(values: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inferred values with the values of a file in their place."""
    if not isinstance(changes := data.get("joints"), Mapping):
        return merged(values, data)
    known = {joint["name"]: joint for joint in values["joints"]}
    for name, change in changes.items():
        if name not in known:
            raise AssetError(bad_value("joints", str(name), known, "is no joint of the arm"))
        if not isinstance(change, Mapping):
            raise AssetError(bad_value(f"joints.{name}", change, "a mapping, such as {home: 0.0}"))
    joints = [merged(joint, changes.get(name, {})) for name, joint in known.items()]
    return merged(values, {**data, "joints": joints})


def find_robot(name: str) -> RobotSpec:
    """Return the robot of a config's `robot`: a registered name, a YAML file, or a file to infer it from.

    Raises:
        RegistryError: The name or the file does not exist, or a package that the file needs is not installed.
        AssetError: The file does not describe a robot.
    """
    inferred = inferred_robot(name)
    return inferred.spec if inferred else load_robot(Path(registry("robot").get(name).load()))


def inferred_robot(name: str) -> Inferred | None:
    """Return the result of the inference for a URDF, or a YAML file that lacks sections; None for a complete file.

    Raises:
        RegistryError: The name or the file does not exist.
        AssetError: The file does not describe a robot.
    """
    path = Path(registry("robot").get(name).load())
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    return complete_robot(path) if is_yaml else infer_robot(path)


MAX_GUESSES = 3
"""Notes on the guesses of an inference; a table of `mygym new robot` has all."""


def notes_on_inference(robot: str) -> list[str]:
    """Return the guesses and repairs of a robot that is inferred, in a few lines; empty for a complete description."""
    inferred = inferred_robot(robot)
    if inferred is None:
        return []
    doubtful = [finding for finding in inferred.findings if finding.certainty == "guess" or not finding.key]
    lines = [f"{finding.text}{f' ({finding.key})' if finding.key else ''}" for finding in doubtful]
    more = [f"{len(lines) - MAX_GUESSES} more guesses"] if len(lines) > MAX_GUESSES else []
    path = Path(RobotFileName.parse(robot).name)
    command = (
        f"mygym new robot NAME --urdf {shlex.quote(robot)}"
        if is_file_name(robot) and path.suffix.lower() not in (".yaml", ".yml")
        else f"mygym describe robot {shlex.quote(robot)}"
    )
    return [
        *(f"{path.stem}: {line}" for line in [*lines[:MAX_GUESSES], *more]),
        f"{path.stem}: {len(inferred.findings)} properties are inferred; `{command}` explains them",
    ]
