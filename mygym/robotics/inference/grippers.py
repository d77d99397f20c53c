"""Inference of a gripper from the shapes and the joints behind a wrist: names do not count.

Fingers, jaws and linkages are moved through their ranges; a gripper is what opens and closes a gap. Its pads are the
surfaces on both sides of the gap, near the tips.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from mygym.robotics.inference.arms import LEAST_COSINE, PAD
from mygym.robotics.inference.findings import Certainty, Finding
from mygym.robotics.inference.hands import Finger, Hand, Positions
from mygym.robotics.objects import load_object, objects_for_hand
from mygym.robotics.robot_spec import EndEffectorSpec, GripperSpec, PadSpec
from mygym.robotics.transforms import as_quaternion, as_vector, rotation_of_z_to
from mygym.robotics.urdf import Joint
from mygym.types import FloatArray, Vector

Box = tuple[FloatArray, FloatArray]
"""Lower and upper corner `(3,)`, m."""

SLICE, HOLE = 0.006, 0.008
"""m: thickness of the slices across z; a wider space along y between points of a slice stays free."""

TOLERANCES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.05)
"""m by which the edges of slices in one box may differ: the first tolerance that gives few boxes is used."""

MAX_BOXES = 10
"""More boxes of a link make contacts slower, not better."""


def boxes_around(points: FloatArray) -> list[Box]:
    """Return boxes around points `(n, 3)` m on a surface: slices across z, divided where y has a gap."""
    boxes: list[Box] = []
    for tolerance in TOLERANCES:
        boxes = _merged(_slices(points), tolerance)
        if len(boxes) <= MAX_BOXES:
            break
    return boxes


def _slices(points: FloatArray) -> list[list[Box]]:
    """Return the boxes of each slice."""
    low, high = float(points[:, 2].min()), float(points[:, 2].max())
    count = max(int(np.ceil((high - low) / SLICE)), 1)
    number = np.minimum(((points[:, 2] - low) / max(high - low, 1e-9) * count).astype(int), count - 1)
    slices = []
    for index in range(count):
        inside = points[number == index]
        if not len(inside):
            continue
        inside = inside[inside[:, 1].argsort()]
        parts = np.split(inside, np.flatnonzero(np.diff(inside[:, 1]) > HOLE) + 1)
        bottom, top = (low + (high - low) * n / count for n in (index, index + 1))
        slices.append(
            [(np.array([*part.min(axis=0)[:2], bottom]), np.array([*part.max(axis=0)[:2], top])) for part in parts]
        )
    return slices


def _merged(slices: list[list[Box]], tolerance: float) -> list[Box]:
    """Return boxes that join slices whose edges along x and y differ by at most `tolerance` m."""
    done: list[Box] = []
    grown: list[Box] = []
    for boxes in slices:
        kept: list[Box] = []
        for low, high in boxes:
            match = next((box for box in grown if _alike(box, (low, high), tolerance)), None)
            if match is None:
                kept.append((low, high))
            else:
                grown.remove(match)
                kept.append((np.minimum(match[0], low), np.maximum(match[1], high)))
        done += grown
        grown = kept
    return done + grown


def _alike(a: Box, b: Box, tolerance: float) -> bool:
    corners = np.abs(np.concatenate([a[0][:2] - b[0][:2], a[1][:2] - b[1][:2]]))
    return bool((corners <= tolerance).all())


MAX_DRIVERS = 6
"""Independent joints of which all combinations of directions are tried; a hand with more closes towards its middle."""

SAMPLES, FINE_SAMPLES = 25, 121
"""Positions between both ends of the joints' ranges: for the choice of the ends, and for the chosen ends."""

TIP_RANGE, TIP_SHARE = 0.02, 0.25
"""m, and share of the longest finger: links that end farther behind the tips are parts of a linkage."""

PAD_LENGTH = 0.025
"""m: length of the pads from the tips on."""

PALM_CLEARANCE = 0.022
"""m that an object of 4 cm reaches from the tool point towards the palm."""

SURFACE = 0.003
"""m: points within this distance of the foremost point belong to a pad's surface."""

MIN_TRAVEL, MIN_OPENING = 0.002, 0.004
"""m by which a finger's tip moves at least, and by which a gap changes at least."""

MAX_OPENING = 0.1
"""m: fingers that could open farther open as far as this."""

OBJECT, BESIDE = 0.04, 0.02
"""m: edge of the cube that a hand should hold, and the room on both sides of it while the hand descends."""

PRESS = (10.0, 20.0, 40.0)
"""N: smallest force of a finger at its pad, the force without one in the file, and the largest."""

SPEED = (0.05, 0.15, 0.3)
"""m/s: smallest speed of a finger at its pad, the speed without one in the file, and the largest."""


@dataclass(frozen=True)
class Grasp:
    """A gripper and its tool point."""

    gripper: GripperSpec
    tool: EndEffectorSpec


@dataclass(frozen=True, eq=False)
class _Path:
    """Fingers on their way from one end of their joints' ranges to the other."""

    drivers: dict[str, tuple[float, float]]
    """Joint that others follow → its positions at both ends."""
    fingers: tuple[Finger, ...]
    sides: tuple[int, ...]
    """Of each finger: the side of the gap, +1 or −1 along the closing axis."""
    frame: FloatArray
    """`(3, 3)` of the tool in the wrist's frame: y is the closing axis, z the approach."""
    gaps: FloatArray
    """`(n,)` m between the pads, at equal steps along the way."""


def _between(ends: Mapping[str, tuple[float, float]], share: float) -> dict[str, float]:
    """Return the positions of joints at a share of the way between two ends."""
    return {name: start + share * (end - start) for name, (start, end) in ends.items()}


def infer_gripper(root: ET.Element, joints: Mapping[str, Joint], wrist: str, findings: list[Finding]) -> Grasp | None:
    """Return the gripper behind a link and its tool point, or None; add lines to `findings`."""
    hand = Hand(root, joints, wrist)
    path = _best_path(hand)
    if path is None:
        findings.append(Finding("no gripper", "gripper", "likely", _why_none(hand)))
        return None
    path = _measured(hand, path, FINE_SAMPLES)
    opened, closed = _ends(path.gaps)
    last = len(path.gaps) - 1
    width, rest = float(path.gaps[opened]), max(float(path.gaps[closed]), 0.0)
    at_open, at_closed = (hand.positions(_between(path.drivers, index / last)) for index in (opened, closed))
    moved = [
        joint
        for joint in hand.order
        if joint.name in at_open and abs(at_open[joint.name] - at_closed[joint.name]) > 1e-5
    ]
    steps = range(closed, opened + 1) if closed < opened else range(closed, opened - 1, -1)

    def share_with_gap(gap: float) -> float:
        return next((index for index in steps if path.gaps[index] >= gap), opened) / last

    at_hold = hand.positions(_between(path.drivers, share_with_gap(min(OBJECT, 0.5 * (width + rest)))))
    at_descent = hand.positions(_between(path.drivers, share_with_gap(min(OBJECT + BESIDE, width))))
    tool = _tool_point(hand, path, at_hold, at_descent)
    lever = _lever(hand, path, tool, at_hold)
    motors: list[Finding] = []
    force, velocity = _motors(moved, lever, motors)
    force = float(f"{force * len(path.fingers) / len(moved):.3g}")  # coupled joints add their forces
    gripper = GripperSpec(
        joints=tuple(joint.name for joint in moved),
        links=_pad_links(hand, path, at_hold, tool),
        closed=tuple(round(at_closed[joint.name], 5) for joint in moved),
        open=tuple(round(at_open[joint.name], 5) for joint in moved),
        width=round(width, 4),
        force=force,
        velocity=velocity,
        pads=_pads(hand, path, moved, at_hold),
        closed_tip=_closed_tip(path, tool, _tool_point(hand, path, at_closed, at_closed)),
    )
    findings += [*_described(hand, path, gripper, rest), *motors]
    return Grasp(gripper, tool)


def is_jaw(root: ET.Element, joints: Mapping[str, Joint], joint: Joint) -> bool:
    """Return whether the last joint of a chain is a jaw that closes against a jaw of the link before it."""
    hand = Hand(root, joints, joint.parent)
    if len(hand.fingers) != 1 or len(hand.fingers[0].joints) != 1 or hand.fingers[0].joints[0].name != joint.name:
        return False
    path = _best_path(hand)
    return path is not None and float(np.nanmin(path.gaps)) < SURFACE


def _why_none(hand: Hand) -> str:
    """Return why a hand is no gripper."""
    if not hand.fingers:
        return "nothing moves behind the wrist"
    shapeless = [link for finger in hand.fingers for link in finger.links if not len(hand.points(link))]
    if shapeless:
        return f"{', '.join(shapeless)} cannot be measured: no collision and no visual shape"
    drivers = {hand.driver(joint) for finger in hand.fingers for joint in finger.joints}
    if len(drivers) > MAX_DRIVERS:
        why = f"{len(drivers)} joints move independently, and their fingers do not meet when they bend to the middle"
        return f"{why}: write those that close, and their positions, under gripper.joints, gripper.closed, gripper.open"
    return "nothing behind the wrist opens and closes a gap"


def _described(hand: Hand, path: _Path, gripper: GripperSpec, rest: float) -> list[Finding]:
    """Return the findings about a gripper, which is `rest` m wide when closed."""
    kinds = {1: "one jaw against the palm", 2: "two fingers", 3: "three fingers"}
    kind = kinds.get(len(path.fingers), f"{len(path.fingers)} fingers")
    followers = [name for name in gripper.joints if hand.joints[name].mimic]
    reason = f"{kind} open and close a gap; measured on their shapes"
    reason += f"; {', '.join(followers)} mimic {', '.join(path.drivers)}" if followers else ""
    certainty: Certainty = "likely" if len(path.fingers) > 1 else "guess"
    text = f"a gripper of {', '.join(gripper.joints)} that opens {100 * gripper.width:.1f} cm"
    lines = [Finding(text, "gripper", certainty, reason)]
    if gripper.width < OBJECT + 0.005:
        text = f"the gripper opens {100 * gripper.width:.1f} cm: too little for the cube of {100 * OBJECT:.0f} cm"
        fitting = [name for name in objects_for_hand(gripper.width, load_object("cube")) if name != "cube"]
        reason = f"--set task_params.object={fitting[0]} fits" if fitting else "no object of mygym fits"
        lines.append(Finding(text, "gripper.width", certainty, reason))
    if rest > 0.005:
        text = f"the gripper closes to {100 * rest:.1f} cm: it holds no narrower object"
        lines.append(Finding(text, "gripper.closed", certainty, "the limits of its joints end there"))
    return lines


def _best_path(hand: Hand) -> _Path | None:
    """Return the way of the fingers that changes the gap most: each driver may close at either end of its range."""
    limits = {name: hand.limits(name) for finger in hand.fingers for name in map(hand.driver, finger.joints)}
    limits = {name: (low, high) for name, (low, high) in limits.items() if high - low > 1e-6 and name in hand.joints}
    if not limits:
        return None
    approach = _approach(hand, limits)
    middle = hand.poses(hand.positions({name: (low + high) / 2 for name, (low, high) in limits.items()}))
    fingers = _foremost(hand, middle, approach)
    needed = list(dict.fromkeys(hand.driver(joint) for finger in fingers for joint in finger.joints))
    needed = [name for name in needed if name in limits]
    if not needed:
        return None
    best: _Path | None = None
    most = MIN_OPENING
    for ends in _possible_ends(hand, fingers, {name: limits[name] for name in needed}, approach):
        path = _path(hand, fingers, ends, approach)
        if path is None:
            continue
        change = _span(path)
        if change > most:
            best, most = path, change
    return best


def _possible_ends(
    hand: Hand, fingers: tuple[Finger, ...], limits: dict[str, tuple[float, float]], approach: FloatArray
) -> Iterator[dict[str, tuple[float, float]]]:
    """Yield the positions of joints at both ends of a way: every combination of directions, or of many joints one."""
    if len(limits) > MAX_DRIVERS:
        yield _towards_middle(hand, fingers, limits, approach)
        return
    for flips in product((False, True), repeat=len(limits) - 1):
        pairs = zip(limits.items(), (False, *flips), strict=True)
        yield {name: ends[::-1] if flip else ends for (name, ends), flip in pairs}


def _towards_middle(
    hand: Hand, fingers: tuple[Finger, ...], limits: Mapping[str, tuple[float, float]], approach: FloatArray
) -> dict[str, tuple[float, float]]:
    """Return the ends at which each joint brings its finger's tip to the middle of the hand; others stay still.

    Each joint moves from where no joint has moved, up to both ends; joints that spread fingers bring no tip closer.
    """
    rest = {name: float(np.clip(0.0, *ends)) for name, ends in limits.items()}
    tips = {finger: _tip(hand, finger, hand.poses(hand.positions(rest)), approach) for finger in fingers}
    across = np.eye(3) - np.outer(approach, approach)
    middle = np.mean([across @ _moved(hand, rest, *tips[finger]) for finger in fingers], axis=0)
    ends: dict[str, tuple[float, float]] = {}
    for moved, name in ((finger, hand.driver(joint)) for finger in fingers for joint in finger.joints):
        if name in limits:
            small = [rest[name] + 0.2 * (end - rest[name]) for end in limits[name]]
            low, high = (
                float(np.linalg.norm(across @ _moved(hand, rest | {name: at}, *tips[moved]) - middle)) for at in small
            )
            if abs(high - low) > MIN_TRAVEL:
                ends[name] = limits[name] if high < low else limits[name][::-1]
    return ends


def _approach(hand: Hand, limits: Mapping[str, tuple[float, float]]) -> FloatArray:
    """Return the direction `(3,)` from the palm to the fingers: an axis of wrist or palm, if one is close.

    The axis of the wrist's joint comes first. A jaw may turn far to one side: its nearest position counts.
    """
    directions = []
    for share in np.linspace(0.0, 1.0, 5):
        poses = hand.poses(hand.positions({name: low + share * (high - low) for name, (low, high) in limits.items()}))
        centres = [
            poses[link][:3, :3] @ ((points.min(axis=0) + points.max(axis=0)) / 2) + poses[link][:3, 3]
            for finger in hand.fingers
            for link in finger.links
            if len(points := hand.points(link)) and any(hand.driver(joint) in limits for joint in finger.joints)
        ]
        centre = np.mean(centres, axis=0) if centres else np.array([0.0, 0.0, 1.0])
        directions.append(centre / max(float(np.linalg.norm(centre)), 1e-6))
    turned = next((joint for joint in hand.joints.values() if joint.child == hand.wrist), None)
    axis = np.array(turned.axis if turned else (0.0, 0.0, 1.0))
    axis = axis / max(float(np.linalg.norm(axis)), 1e-6)
    frames = [np.eye(3), *(poses[finger.joints[0].parent][:3, :3] for finger in hand.fingers)]
    for axes in (np.stack([axis, -axis]), np.concatenate([np.concatenate([frame.T, -frame.T]) for frame in frames])):
        cosines = (axes @ np.transpose(directions)).max(axis=1)
        if cosines.max() > LEAST_COSINE:
            nearest: FloatArray = axes[int(cosines.argmax())]
            return nearest
    return directions[2]


def _foremost(hand: Hand, poses: Mapping[str, FloatArray], approach: FloatArray) -> tuple[Finger, ...]:
    """Return the fingers that end near the foremost tip; others are parts of linkages, or no fingers."""
    reaches = {}
    for number, finger in enumerate(hand.fingers):
        along = [
            float((hand.points(link) @ poses[link][:3, :3].T @ approach).max() + poses[link][:3, 3] @ approach)
            for link in finger.links
            if len(hand.points(link))
        ]
        if along:
            reaches[number] = max(along)
    if not reaches:
        return ()
    farthest = max(reaches.values())
    starts = [float(poses[finger.joints[0].child][:3, 3] @ approach) for finger in hand.fingers]
    return tuple(
        hand.fingers[number]
        for number, reach in reaches.items()
        if reach > farthest - max(TIP_RANGE, TIP_SHARE * (farthest - starts[number]))
    )


def _path(
    hand: Hand, fingers: tuple[Finger, ...], ends: dict[str, tuple[float, float]], approach: FloatArray
) -> _Path | None:
    """Return the way of fingers between two ends; None if they do not move towards each other or the palm."""
    middle = hand.poses(hand.positions({name: (start + end) / 2 for name, (start, end) in ends.items()}))
    tips = {finger: _tip(hand, finger, middle, approach) for finger in fingers}
    first, last = (
        {finger: _moved(hand, _between(ends, share), *tips[finger]) for finger in fingers} for share in (0.0, 1.0)
    )
    across = np.eye(3) - np.outer(approach, approach)
    travels = np.array([across @ (last[finger] - first[finger]) for finger in fingers])
    moves = np.linalg.norm(travels, axis=1) > MIN_TRAVEL
    if not moves.any():
        return None
    fingers, travels = tuple(f for f, m in zip(fingers, moves, strict=True) if m), travels[moves]
    closing = np.linalg.svd(travels, full_matrices=False)[2][0]
    closing /= np.linalg.norm(closing)
    sides = np.where(travels @ closing > 0, 1, -1)
    if len(fingers) > 1 and abs(sides.sum()) == len(fingers):
        return None
    # Fingers of side +1 move along the closing axis; they close if they are behind the others.
    apart = []
    for share in np.linspace(0.0, 1.0, 5):
        points = [_moved(hand, _between(ends, share), *tips[finger]) @ closing for finger in fingers]
        sums = [np.mean([x for x, side in zip(points, sides, strict=True) if side == s] or [np.nan]) for s in (1, -1)]
        apart.append(float(sums[1] - sums[0]))
    if len(fingers) > 1 and apart[int(np.abs(apart).argmax())] < 0:
        sides = -sides
    frame = np.stack([np.cross(closing, approach), closing, approach], axis=1)
    if np.trace(rotation_of_z_to(approach, 1e-6).T @ frame) < np.trace(
        rotation_of_z_to(approach, 1e-6).T @ (frame * [-1, -1, 1])
    ):
        frame, sides = frame * [-1, -1, 1], -sides
    path = _Path(ends, fingers, tuple(int(side) for side in sides), frame, np.zeros(0))
    if len(fingers) == 1:  # the jaw's side is where it is, seen from the palm's part of the gap
        options = [_measured(hand, replace(path, sides=(side,)), SAMPLES) for side in (1, -1)]
        options = [option for option in options if np.isfinite(option.gaps).any()]
        return max(options, key=_span, default=None)
    path = _measured(hand, path, SAMPLES)
    return path if np.isfinite(path.gaps).any() else None


def _span(path: _Path) -> float:
    """Return by how much the gap changes between contact and its largest opening, m."""
    gaps = np.clip(path.gaps[np.isfinite(path.gaps)], 0.0, 2 * MAX_OPENING)
    return float(np.ptp(gaps)) if len(gaps) else 0.0


def _tip(hand: Hand, finger: Finger, poses: Mapping[str, FloatArray], approach: FloatArray) -> tuple[str, FloatArray]:
    """Return the foremost link of a finger, and its tip `(3,)` m in the link's frame."""
    best = finger.links[0], np.zeros(3), -math.inf
    for link in finger.links:
        points = hand.points(link)
        if not len(points):
            continue
        along = points @ (poses[link][:3, :3].T @ approach) + poses[link][:3, 3] @ approach
        if along.max() > best[2]:
            best = link, points[along > along.max() - PAD].mean(axis=0), float(along.max())
    return best[0], best[1]


def _moved(hand: Hand, drivers: Positions, link: str, point: FloatArray) -> FloatArray:
    """Return a link's point `(3,)` in the wrist's frame."""
    pose = hand.poses(hand.positions(drivers))[link]
    return pose[:3, :3] @ point + pose[:3, 3]


def _measured(hand: Hand, path: _Path, samples: int) -> _Path:
    """Return the path with its gaps; NaN where a side has no surface or its tip is far behind where it was foremost."""
    gaps, tips = [], []
    for share in np.linspace(0.0, 1.0, samples):
        positions = hand.positions(_between(path.drivers, share))
        faces = _faces(hand, path, positions)
        gaps.append(np.nan if faces is None else faces[1] - faces[0])
        tips.append([float(points[:, 2].max(initial=-np.inf)) for points in _clouds(hand, path, positions)])
    retreats = (np.max(tips, axis=0) - tips).max(axis=1)
    valid = retreats < PAD_LENGTH
    if len(path.fingers) == 1:  # the palm has a jaw as well: else it is a wrist
        valid &= np.abs(np.diff(tips, axis=1)[:, 0]) < PAD_LENGTH
    return replace(path, gaps=np.where(valid, gaps, np.nan))


def _clouds(hand: Hand, path: _Path, positions: Positions) -> tuple[FloatArray, FloatArray]:
    """Return points `(n, 3)` on both sides of the gap, +1 and −1, in the axes of the tool.

    The palm is a side of a single jaw.
    """
    poses = hand.poses(positions)
    clouds: dict[int, list[FloatArray]] = {1: [np.zeros((0, 3))], -1: [np.zeros((0, 3))]}
    for finger, side in zip(path.fingers, path.sides, strict=True):
        clouds[side] += [_placed(hand, link, poses[link], path.frame) for link in finger.links]
    if len(path.fingers) == 1:
        clouds[-path.sides[0]].append(_placed(hand, hand.wrist, np.eye(4), path.frame))
    return np.concatenate(clouds[1]), np.concatenate(clouds[-1])


def _placed(hand: Hand, link: str, pose: FloatArray, frame: FloatArray) -> FloatArray:
    return (hand.points(link) @ pose[:3, :3].T + pose[:3, 3]) @ frame


def _pad_regions(hand: Hand, path: _Path, positions: Positions) -> tuple[FloatArray, FloatArray] | None:
    """Return the points of both sides near the tips and opposite each other, in the axes of the tool."""
    sides = _clouds(hand, path, positions)
    if not all(map(len, sides)):
        return None
    tip = min(float(points[:, 2].max()) for points in sides)
    near = [points[(points[:, 2] > tip - PAD_LENGTH) & (points[:, 2] <= tip)] for points in sides]
    if not all(map(len, near)):
        return None
    low = max(float(points[:, 0].min()) for points in near)
    high = min(float(points[:, 0].max()) for points in near)
    opposite = [points[(points[:, 0] >= low - SURFACE) & (points[:, 0] <= high + SURFACE)] for points in near]
    if all(map(len, opposite)):  # else a finger closes between two fingers
        near = opposite
    return near[0], near[1]


def _faces(hand: Hand, path: _Path, positions: Positions) -> tuple[float, float] | None:
    """Return where the pads of side +1 and of side −1 begin along the closing axis, m."""
    regions = _pad_regions(hand, path, positions)
    return None if regions is None else (float(regions[0][:, 1].max()), float(regions[1][:, 1].min()))


def _ends(gaps: FloatArray) -> tuple[int, int]:
    """Return the indices of the gaps at which the hand is open, and closed: in contact, or as narrow as it becomes."""
    known = np.where(np.isfinite(gaps), gaps, -np.inf)
    opened = int(known.argmax())
    ways = [range(opened, -1, -1), range(opened, len(gaps))]
    way = max(ways, key=lambda way: known[opened] - min((gaps[i] for i in way if np.isfinite(gaps[i])), default=0.0))
    closed = next((i for i in way if gaps[i] <= 0.0), None)
    if closed is None:
        closed = min(way, key=lambda i: gaps[i] if np.isfinite(gaps[i]) else np.inf)
    limited = [i for i in way if known[i] <= MAX_OPENING and abs(i - opened) < abs(closed - opened)]
    return (limited[0] if limited else opened), closed


def _tool_point(hand: Hand, path: _Path, at_hold: Positions, at_descent: Positions) -> EndEffectorSpec:
    """Return the tool point between the pads, its y axis along the closing axis, its z axis along the approach."""
    regions = _pad_regions(hand, path, at_hold)
    faces = _faces(hand, path, at_descent)
    if regions is None or faces is None:
        return EndEffectorSpec(hand.wrist)
    surfaces = [
        regions[0][regions[0][:, 1] > regions[0][:, 1].max() - SURFACE],
        regions[1][regions[1][:, 1] < regions[1][:, 1].min() + SURFACE],
    ]
    across = np.mean([(points[:, 0].min() + points[:, 0].max()) / 2 for points in surfaces])
    tip = min(float(points[:, 2].max()) for points in _clouds(hand, path, at_hold))
    depth = tip - _palm_front(hand, path, float(across), faces)
    back = min(PAD, max(depth - PALM_CLEARANCE, 0.0))
    point = path.frame @ np.array([across, (faces[0] + faces[1]) / 2, tip - back])
    return EndEffectorSpec(hand.wrist, as_vector(point.round(4) + 0.0), as_quaternion(path.frame, 6))


def _closed_tip(path: _Path, tool: EndEffectorSpec, closed: EndEffectorSpec) -> Vector:
    """Return where the fingers meet, `(3,)` m in the frame of the tool point; 0 if that is where they hold."""
    offset = path.frame.T @ (np.array(closed.position) - np.array(tool.position))
    if np.linalg.norm(offset) < PAD:
        return 0.0, 0.0, 0.0
    return as_vector(offset.round(4) + 0.0)


def _palm_front(hand: Hand, path: _Path, across: float, faces: tuple[float, float]) -> float:
    """Return where the palm ends along the approach, between the pads, m."""
    palm = _placed(hand, hand.wrist, np.eye(4), path.frame)
    between = (palm[:, 1] > faces[0] + SURFACE) & (palm[:, 1] < faces[1] - SURFACE)
    palm = palm[between & (np.abs(palm[:, 0] - across) < OBJECT / 2)]
    return float(palm[:, 2].max()) if len(palm) else -math.inf


def _pad_links(hand: Hand, path: _Path, at_hold: Positions, tool: EndEffectorSpec) -> tuple[str, ...]:
    """Return the link of each finger that has its pad; of one jaw also the palm.

    Of many fingers side by side, those that meet an object count: outer fingers may close beside it.
    """
    poses = hand.poses(at_hold)
    regions = _pad_regions(hand, path, at_hold)
    low = min(float(points[:, 2].min()) for points in regions) if regions else -math.inf
    across = float(path.frame[:, 0] @ np.array(tool.position))
    links, beside = [], []
    for finger, side in zip(path.fingers, path.sides, strict=True):
        foremost, nearest = {}, math.inf
        for link in finger.links:
            points = _placed(hand, link, poses[link], path.frame)
            points = points[points[:, 2] > low - SURFACE]
            if len(points):
                foremost[link] = float((side * points[:, 1]).max())
                nearest = min(nearest, float(np.abs(points[:, 0] - across).min()))
        links.append(max(foremost, key=lambda link: foremost[link]) if foremost else finger.links[-1])
        beside.append(nearest > OBJECT / 2)
    if not all(beside):
        links = [link for link, is_beside in zip(links, beside, strict=True) if not is_beside]
    return (*links, hand.wrist) if len(path.fingers) == 1 else tuple(links)


def _lever(hand: Hand, path: _Path, tool: EndEffectorSpec, at_hold: Positions) -> float:
    """Return the distance in m of the pads from the axis of the first finger's first joint; 1 for a sliding finger."""
    joint = path.fingers[0].joints[0]
    if joint.kind == "prismatic":
        return 1.0
    pose = hand.poses(at_hold)[joint.child]
    axis = pose[:3, :3] @ np.array(joint.axis)
    arm = np.array(tool.position) - pose[:3, 3]
    return max(float(np.linalg.norm(np.cross(axis / np.linalg.norm(axis), arm))), 0.01)


def _motors(moved: list[Joint], lever: float, findings: list[Finding]) -> tuple[float, float]:
    """Return force and speed of the fingers: the file's, as far as a hand can have them."""
    result = []
    # A joint that turns has a torque of force times lever, and a speed at the pad of its speed times lever.
    for name, key, unit, scale, (low, default, high) in (
        ("force", "effort", "N", 1 / lever, PRESS),
        ("velocity", "velocity", "m/s", lever, SPEED),
    ):
        given = [value for joint in moved if 0 < (value := getattr(joint, key)) < math.inf]
        value = min(given) * scale if given else default
        kept = min(max(value, low), high)
        if not given or kept != value:
            stated = f"the URDF has {min(given):g}" if given else "the URDF has no limit"
            text = f"fingers with {kept:.3g} {unit} at their pads; {stated}"
            findings.append(Finding(text, f"gripper.{name}", "guess", f"hands have {low:g} to {high:g} {unit}"))
        result.append(float(f"{kept / scale:.3g}"))
    return result[0], result[1]


def _pads(hand: Hand, path: _Path, moved: list[Joint], at_hold: Positions) -> tuple[PadSpec, ...]:
    """Return boxes along the surfaces of the links with meshes, their edges along the axes of the tool at the hold."""
    poses = hand.poses(at_hold)
    links = [hand.wrist, *(joint.child for joint in moved)]
    pads = []
    for link in links:
        points = hand.points(link)
        if hand.has_primitives(link) or not len(points):
            continue
        axes = poses[link][:3, :3].T @ path.frame
        for low, high in boxes_around(points @ axes):
            centre, size = axes @ ((low + high) / 2), np.maximum(high - low, 0.002)
            position = as_vector(centre.round(5) + 0.0)
            pads.append(PadSpec(link, as_vector(size.round(5)), position, as_quaternion(axes, 6)))
    return tuple(pads)
