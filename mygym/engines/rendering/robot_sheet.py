"""Sheet that explains a robot: two sides, its hand and the top, with tool point, approach, fingers and reach."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from mygym.engines.engine import inspection_of, make_world
from mygym.engines.inspection import Inspection
from mygym.engines.rendering.camera import Camera, around
from mygym.engines.rendering.thumbnails import grid
from mygym.engines.world import World, WorldSpec
from mygym.errors import ConfigError
from mygym.robotics.kinematics import Kinematics
from mygym.robotics.robot_spec import RobotSpec
from mygym.robotics.transforms import pose_matrix, quaternion_to_matrix
from mygym.robotics.workspace import CameraSpec, WorkspaceSpec, load_workspace
from mygym.tasks.observations import Frame
from mygym.types import FloatArray

Picture = NDArray[np.uint8]
Color = tuple[int, int, int]

CELL = 620, 465
"""Width and height of each picture on the sheet, pixels."""

VIEWS: dict[str, tuple[float, float]] = {
    "one side": (50.0, -25.0),
    "other side": (130.0, -25.0),
    "hand": (90.0, -10.0),
    "top": (90.0, -89.0),
}
"""Picture → yaw and pitch of its camera, degrees; the camera at the hand turns with the fingers."""

POSTURES, REFINEMENTS = 2000, 1000
"""Random postures, and changes of the best, from which the reach is measured."""

TOOL, APPROACH, FINGER, REACH, AREA = (214, 40, 40), (230, 110, 0), (20, 90, 200), (110, 60, 170), (0, 130, 90)
"""Colours of the marks."""

HIDDEN = 0.02
"""m behind the drawn surface at which a line is hidden."""


@dataclass(frozen=True)
class Mark:
    """A line through points of the world, with a label at its first point."""

    label: str
    points: FloatArray
    """`(n, 3)` m; a single point is a dot."""
    color: Color
    arrow: bool = False
    views: tuple[str, ...] = tuple(VIEWS)
    solid: bool = True
    """Whether it is drawn through the robot."""


def robot_sheet(robot: RobotSpec, workspace: WorkspaceSpec | None = None, cell: tuple[int, int] = CELL) -> Picture:
    """Return four pictures of a robot at its home: two sides, the hand, and from above.

    Tool point, approach direction, fingers with the direction in which they close, reach and the area `reach` are
    drawn and labelled. A robot that does not reach the workspace's `tool_home` is drawn at its own home.

    Args:
        robot: The robot.
        workspace: The workspace in which it stands; None: `table`.
        cell: Width and height of each picture, pixels.

    Returns:
        `(height, width, 3)` uint8, RGB.

    Raises:
        AssetError: The robot's URDF cannot be used.
    """
    workspace = workspace or load_workspace("table")
    home = [joint.home for arm in robot.arms for joint in arm.joints]
    try:
        world = make_world(WorldSpec(robot, workspace))
    except ConfigError:
        world = make_world(WorldSpec(robot, workspace, home=home))
    with closing(world), closing(Camera(world)) as camera, inspection_of(world) as shapes:
        marks, corners = _marks(world, camera, shapes), shapes.robot_corners()
        return grid([_view(world, camera, name, marks, corners, cell) for name in VIEWS], columns=2)


def reach(kinematics: Kinematics) -> tuple[FloatArray, float]:
    """Return the first joint `(3,)` m, and the largest distance of the tool point from it, m."""
    chain, rng = kinematics.chain, np.random.default_rng(0)
    shoulder = kinematics.joint_points(chain.home)[0]
    low, high = np.maximum(chain.lower, -np.pi), np.minimum(chain.upper, np.pi)
    low, high = np.where(low < high, low, chain.lower), np.where(low < high, high, chain.upper)

    def distance(posture: FloatArray) -> float:
        return float(np.linalg.norm(kinematics.pose(posture)[:3, 3] - shoulder))

    best = max((rng.uniform(low, high) for _ in range(POSTURES)), key=distance)
    for number in range(REFINEMENTS):
        change = rng.normal(scale=0.5 * (1 - number / REFINEMENTS), size=len(best))
        best = max(best, np.clip(best + change, low, high), key=distance)
    return shoulder, distance(best)


def _marks(world: World, camera: Camera, shapes: Inspection) -> list[Mark]:
    """Return the marks of the first arm."""
    shoulder, radius = reach(world.kinematics)
    tool = pose_matrix(world.state.ee_position[0], quaternion_to_matrix(world.state.ee_orientation[0]))
    tip, direction = tool[:3, 3], tool[:3, 2]
    whole, marks = ("one side", "other side", "top"), list[Mark]()
    level = max(0.0, min(float(shoulder[2]), float(tip[2])))
    squared = radius**2 - (float(shoulder[2]) - level) ** 2
    if squared > 0:
        angles = np.linspace(0, 2 * np.pi, 145) - 0.5
        circle = np.stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)], axis=1) * np.sqrt(squared)
        circle += [shoulder[0], shoulder[1], level]
        marks.append(Mark(f"reach {100 * radius:.0f} cm", circle, REACH, views=whole, solid=False))
    if (area := world.workspace.areas.get("reach")) is not None:
        (x, y, low), (across, along, high) = area.low, area.high
        bottom, top = ([(x, y, z), (across, y, z), (across, along, z), (x, along, z), (x, y, z)] for z in (low, high))
        marks.append(Mark("area reach", np.array(bottom), AREA, views=whole))
        pillars = [np.array(ends) for ends in zip(bottom[:4], top, strict=False)]
        marks += [Mark("", points, AREA, views=whole) for points in (np.array(top), *pillars)]
    marks.append(Mark("approach", np.array([tip, tip + 0.09 * radius * direction]), APPROACH, arrow=True))
    return [*marks, *_finger_marks(world, camera, shapes), Mark("tool point", tip[None], TOOL)]


def _finger_marks(world: World, camera: Camera, shapes: Inspection) -> list[Mark]:
    """Return a dot on each finger link and an arrow along the motion of its shape when the fingers close."""
    gripper, state = world.robot.gripper, world.state
    if gripper is None or not world.has_gripper:
        return []
    opened = {link: camera.link_pose(link) for link in gripper.links}
    width = state.gripper_width[0]
    state.gripper_width[0] = 0.0
    closed = {link: camera.link_pose(link) for link in gripper.links}
    state.gripper_width[0] = width
    marks = []
    for finger, (link, box) in enumerate(zip(gripper.links, shapes.finger_boxes(), strict=True)):
        middle = box.mean(axis=0)
        moved = (closed[link] @ np.linalg.inv(opened[link]) @ [*middle, 1.0])[:3]
        marks.append(Mark(f"finger {link}", middle[None], FINGER, views=("hand",)))
        if np.linalg.norm(moved - middle) > 1e-4:
            label = "closes" if finger == 0 else ""
            marks.append(Mark(label, np.array([middle, moved]), FINGER, arrow=True, views=("hand",)))
    return marks


def _view(
    world: World, camera: Camera, name: str, marks: Sequence[Mark], corners: FloatArray, cell: tuple[int, int]
) -> Picture:
    """Return one picture with its marks and labels; `corners` `(n, 3)` m are those of the robot."""
    width, height = cell
    seen = [mark for mark in marks if name in mark.views]
    if name == "hand":
        near = np.concatenate([mark.points for mark in seen])
        size = max(float(np.linalg.norm(near - near.mean(axis=0), axis=1).max()), 0.06)
        corners = near.mean(axis=0) + 1.5 * size * np.array(list(itertools.product((-0.6, 0.6), repeat=3)))
    else:
        corners = np.concatenate([corners, *(mark.points for mark in seen if mark.color == AREA or name == "top")])
    yaw, pitch = VIEWS[name]
    if name == "hand":
        yaw = _beside_fingers(seen, world, yaw)
    spec = around(corners, CameraSpec((0.0, 0.0, 0.0), 1.0, yaw, pitch, 40.0), width / height)
    spec = replace(spec, distance=max(spec.distance, 0.08))
    workspace = world.workspace
    world.workspace = replace(workspace, cameras={name: spec})
    try:
        frame = camera.capture(2 * width, 2 * height, name, shadow=True)
    finally:
        world.workspace = workspace
    return _drawn(frame, name, seen, cell)


def _beside_fingers(marks: Sequence[Mark], world: World, yaw: float) -> float:
    """Return the yaw of a camera before the hand that sees its fingers side by side, degrees; by default `yaw`."""
    motions = [mark.points[-1] - mark.points[0] for mark in marks if mark.color == FINGER and mark.arrow]
    x, y = (motions[0] if motions else np.zeros(3))[:2].tolist()
    if np.hypot(x, y) < 1e-4:
        return yaw
    angle = float(np.arctan2(y, x))
    outwards = world.state.ee_position[0] - world.robot.base_position
    faces = np.sin(angle) * outwards[0] - np.cos(angle) * outwards[1] >= 0
    return float(np.degrees(angle)) + (0.0 if faces else 180.0)


def _drawn(frame: Frame, name: str, marks: Sequence[Mark], cell: tuple[int, int]) -> Picture:
    """Draw marks onto a frame of twice the size, and labels onto the picture."""
    image = Image.fromarray(frame.rgb)
    draw = ImageDraw.Draw(image)
    anchors: list[tuple[float, float, str, Color]] = []
    for mark in marks:
        pixels, depths = _project(frame, mark.points)
        if mark.label:
            anchors += _anchor(frame, mark, pixels)
        if len(pixels) == 1:
            x, y = pixels[0]
            draw.ellipse((x - 9, y - 9, x + 9, y + 9), fill=mark.color, outline=(255, 255, 255), width=3)
            continue
        for (start, end), (near, far) in zip(itertools.pairwise(pixels), itertools.pairwise(depths), strict=True):
            if min(near, far) > 0 and (mark.solid or not _is_hidden(frame, end, far)):
                draw.line((*start, *end), fill=mark.color, width=5)
        if mark.arrow and depths.min() > 0:
            _draw_head(draw, pixels[0], pixels[-1], mark.color)
    image = image.resize(cell, Image.Resampling.BOX)
    _draw_labels(image, name, [(x / 2, y / 2, text, color) for x, y, text, color in anchors])
    return np.asarray(image)


def _project(frame: Frame, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return pixels `(n, 2)` and depths `(n,)` m of points `(n, 3)` m of the world."""
    height, width = frame.depth.shape
    local = (points - frame.pose[:3, 3]) @ frame.pose[:3, :3]
    depth = local[:, 2]
    pixels = local[:, :2] / np.maximum(depth, 1e-6)[:, None] * frame.focal + [width / 2, height / 2]
    return pixels, depth


def _is_hidden(frame: Frame, pixel: FloatArray, depth: float) -> bool:
    """Return whether the frame shows something before a point."""
    height, width = frame.depth.shape
    x, y = round(float(pixel[0])), round(float(pixel[1]))
    return 0 <= x < width and 0 <= y < height and float(frame.depth[y, x]) < depth - HIDDEN


def _anchor(frame: Frame, mark: Mark, pixels: FloatArray) -> list[tuple[float, float, str, Color]]:
    """Return the first point of a mark that is well inside the frame, with its label."""
    height, width = frame.depth.shape
    inside = [
        (x, y) for x, y in pixels.tolist() if 0.02 * width < x < 0.98 * width and 0.08 * height < y < 0.98 * height
    ]
    return [(*inside[0], mark.label, mark.color)] if inside else []


def _draw_head(draw: ImageDraw.ImageDraw, start: FloatArray, end: FloatArray, color: Color) -> None:
    """Draw the head of an arrow."""
    length = float(np.linalg.norm(end - start))
    if length < 1.0:
        return
    along = (end - start) / length
    across = np.array([-along[1], along[0]])
    corners = [end + 8 * along, end - 12 * along + 10 * across, end - 12 * along - 10 * across]
    draw.polygon([(float(x), float(y)) for x, y in corners], fill=color)


def _draw_labels(image: Image.Image, name: str, anchors: Sequence[tuple[float, float, str, Color]]) -> None:
    """Write labels at the nearer edge, one below the other, with a line to each point."""
    width, height = image.size
    size = max(11.0, height / 32)
    draw, font, line = ImageDraw.Draw(image), ImageFont.load_default(size), 1.5 * size
    draw.text((8, 6), name, fill=(60, 60, 60), font=ImageFont.load_default(max(12, height / 26)))
    for on_left in (True, False):
        below = 2.2 * line
        side = sorted(
            (anchor for anchor in anchors if (anchor[0] < width / 2) == on_left), key=lambda anchor: anchor[1]
        )
        for number, (x, y, text, color) in enumerate(side):
            lowest = height - line * (len(side) - number)
            below = min(max(below, y - line), lowest)
            length = draw.textlength(text, font=font)
            left = 8.0 if on_left else width - 8 - length
            middle = below + line / 2
            draw.line((left + length + 3 if on_left else left - 3, middle, x, y), fill=color, width=1)
            draw.rounded_rectangle((left - 4, below, left + length + 4, below + line), 4, fill=(255, 255, 255))
            draw.text((left, middle), text, fill=color, font=font, anchor="lm")
            below += line + 2
