"""The functions of PyBullet that draw, in numpy: for a Python that has no PyBullet.

Names and arguments are PyBullet's, so that the renderer is written once. Bodies are URDFs of boxes, cylinders,
capsules, spheres and meshes, in the colours of the URDF. A picture has light, shadows, depth and segmentation as those
of PyBullet's software renderer, but neither highlights nor transparency, nor the colours and textures of mesh files.
Poses are those of links' frames: the visual bodies of `mygym.engines.rendering` have their centre of mass there.
"""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from mygym.robotics.files import cached_by_file
from mygym.robotics.mesh_files import read_triangles
from mygym.robotics.meshes import Mesh, hull, surface
from mygym.robotics.objects import geom_of
from mygym.robotics.shapes import DRAWN_CORNERS, GeomSpec, mesh_of
from mygym.robotics.transforms import axis_angle_to_matrix, matrix_to_quaternion, pose_matrix, quaternion_to_matrix
from mygym.robotics.urdf import Joint, origin_of, read_joints, root_link
from mygym.types import FloatArray

DIRECT, ER_TINY_RENDERER, VISUAL_SHAPE_DATA_TEXTURE_UNIQUE_IDS = 2, 65536, 1
GEOM_SPHERE, GEOM_BOX, GEOM_CYLINDER, GEOM_MESH, GEOM_CAPSULE = 2, 3, 4, 5, 7

GREY = (0.7, 0.7, 0.7, 1.0)
"""Colour of shapes of which the URDF gives none."""

SHADOW_SIDE, SHADOW_BIAS = 512, 2.0
"""Pixels along each side of the picture that the light sees, and pixels by which a surface must be behind another."""

IN_SHADOW = 0.84
"""Brightness of a surface in a shadow relative to that beside it."""

CHUNK = 1_000_000
"""Pixels of triangles that are compared at once."""

KINDS = {"box": GEOM_BOX, "sphere": GEOM_SPHERE, "cylinder": GEOM_CYLINDER, "capsule": GEOM_CAPSULE, "mesh": GEOM_MESH}

Surface = tuple[FloatArray, FloatArray, FloatArray]
"""Corners `(m, 3, 3)` m of triangles, normals `(m, 3, 3)`, and texture coordinates `(m, 3, 2)`."""

Pose = tuple[tuple[float, ...], tuple[float, ...]]
"""Position, m, and quaternion x, y, z, w."""


class error(Exception):  # noqa: N801, N818  PyBullet's name
    """A body, link or file that does not exist."""


def __getattr__(name: str) -> Any:
    """Say that only PyBullet has the function."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise ModuleNotFoundError("No module named 'pybullet'", name="pybullet")


@dataclass(eq=False)
class _Shape:
    """A visible shape of a link; -1 is the base."""

    link: int
    kind: int
    size: tuple[float, ...]
    file: str
    pose: FloatArray
    color: tuple[float, ...]
    surface: Surface
    """In the link's frame."""
    texture: int = -1


@dataclass(eq=False)
class _Body:
    """A tree of links."""

    base: FloatArray
    """`(4, 4)`."""
    shapes: list[_Shape]
    joints: list[Joint] = field(default_factory=list)
    """Joint `i` carries link `i`, after its parent."""
    parents: list[int] = field(default_factory=list)
    positions: list[float] = field(default_factory=list)
    """rad or m, of the joints."""

    def poses(self) -> list[FloatArray]:
        """Return the pose `(4, 4)` of each link; the last is that of the base, link -1."""
        poses: list[FloatArray] = []
        for joint, parent, position in zip(self.joints, self.parents, self.positions, strict=True):
            axis = np.array(joint.axis) / max(float(np.linalg.norm(joint.axis)), 1e-12)
            if joint.kind == "fixed":
                moved = np.eye(4)
            elif joint.kind == "prismatic":
                moved = pose_matrix(axis * position, np.eye(3))
            else:
                moved = pose_matrix(np.zeros(3), axis_angle_to_matrix(axis, position))
            poses.append((self.base if parent < 0 else poses[parent]) @ joint.origin @ moved)
        return [*poses, self.base]


class _Client:
    """Bodies, shapes without a body, and textures `(height, width, 3)` in [0, 1]."""

    def __init__(self) -> None:
        self.bodies: dict[int, _Body] = {}
        self.shapes: list[_Shape] = []
        self.textures: list[FloatArray] = []
        self.numbers = itertools.count()
        self._stacked: tuple[tuple[int, ...], Surface, NDArray[np.intp]] | None = None

    def add(self, body: _Body) -> int:
        """Add a body and return its number."""
        number = next(self.numbers)
        self.bodies[number] = body
        return number

    def stacked(self) -> tuple[Surface, NDArray[np.intp]]:
        """Return the triangles of all bodies, and the index of the shape of each, in the order of the bodies."""
        if self._stacked is None or self._stacked[0] != tuple(self.bodies):
            surfaces = [shape.surface for body in self.bodies.values() for shape in body.shapes]
            corners, normals, flat = (
                np.concatenate([np.zeros((0, 3, n)), *(each[k] for each in surfaces)]) for k, n in enumerate((3, 3, 2))
            )
            owners = np.repeat(np.arange(len(surfaces)), [len(each[0]) for each in surfaces])
            self._stacked = tuple(self.bodies), (corners, normals, flat), owners
        return self._stacked[1:]


_CLIENTS: dict[int, _Client] = {}
_numbers = itertools.count()


def connect(mode: int = DIRECT) -> int:
    """Return the number of a new, empty client."""
    number = next(_numbers)
    _CLIENTS[number] = _Client()
    return number


def isConnected(physicsClientId: int) -> bool:
    """Return whether a client is open."""
    return physicsClientId in _CLIENTS


def disconnect(physicsClientId: int) -> None:
    """Forget a client."""
    del _CLIENTS[physicsClientId]


# Bodies ---------------------------------------------------------------------------------------------------------------


def loadURDF(
    fileName: str,
    basePosition: Sequence[float] = (0.0, 0.0, 0.0),
    baseOrientation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
    useFixedBase: bool = True,
    physicsClientId: int = 0,
) -> int:
    """Add the visual shapes of a URDF and return the body's number."""
    root = ET.parse(fileName).getroot()  # noqa: S314  written by us
    colors = {each.get("name"): _color_of(each) for each in root.findall("material") if each.find("color") is not None}
    below: dict[str, list[Joint]] = {}
    for joint in read_joints(root).values():
        below.setdefault(joint.parent, []).append(joint)
    body = _Body(_pose(basePosition, baseOrientation), [])
    number = {root_link(root): -1}
    waiting = below.get(root_link(root), [])[::-1]
    while waiting:
        joint = waiting.pop()
        number[joint.child] = len(body.joints)
        body.joints.append(joint)
        body.parents.append(number[joint.parent])
        body.positions.append(0.0)
        waiting += below.get(joint.child, [])[::-1]
    for link in root.findall("link"):
        for visual in link.findall("visual"):
            material = visual.find("material")
            named = None if material is None else colors.get(material.get("name"))
            given = None if material is None or material.find("color") is None else _color_of(material)
            shape = _shape_of(geom_of(visual), origin_of(visual), given or named or GREY)
            shape.link = number[link.get("name", "")]
            body.shapes.append(shape)
    return _CLIENTS[physicsClientId].add(body)


def createVisualShape(shapeType: int, radius: float, rgbaColor: Sequence[float], physicsClientId: int = 0) -> int:
    """Return the number of a sphere that `createMultiBody` adds."""
    shapes = _CLIENTS[physicsClientId].shapes
    shapes.append(_shape_of(GeomSpec("sphere", (radius,)), np.eye(4), tuple(rgbaColor)))
    return len(shapes) - 1


def createMultiBody(
    mass: float,
    collisionShape: int,
    visualShape: int,
    basePosition: Sequence[float],
    baseOrientation: Sequence[float],
    physicsClientId: int = 0,
) -> int:
    """Add a body of one shape and return its number."""
    client = _CLIENTS[physicsClientId]
    return client.add(_Body(_pose(basePosition, baseOrientation), [client.shapes[visualShape]]))


def removeBody(body: int, physicsClientId: int = 0) -> None:
    """Remove a body."""
    del _CLIENTS[physicsClientId].bodies[body]


def getNumJoints(body: int, physicsClientId: int = 0) -> int:
    """Return the number of joints, which is that of the links without the base."""
    return len(_CLIENTS[physicsClientId].bodies[body].joints)


def getJointInfo(body: int, index: int, physicsClientId: int = 0) -> tuple[Any, ...]:
    """Return number, name, …, name of the link at 12, …, and parent link at 16."""
    shown = _CLIENTS[physicsClientId].bodies[body]
    joint = shown.joints[index]
    return (index, joint.name.encode(), *[0] * 10, joint.child.encode(), *[0] * 3, shown.parents[index])


def resetJointState(body: int, index: int, position: float, physicsClientId: int = 0) -> None:
    """Set the position of a joint, rad or m."""
    _CLIENTS[physicsClientId].bodies[body].positions[index] = position


def resetBasePositionAndOrientation(
    body: int, position: Sequence[float], orientation: Sequence[float], physicsClientId: int = 0
) -> None:
    """Move a body."""
    _CLIENTS[physicsClientId].bodies[body].base = _pose(position, orientation)


def getBasePositionAndOrientation(body: int, physicsClientId: int = 0) -> Pose:
    """Return the pose of a body's base."""
    return _position_and_orientation(_CLIENTS[physicsClientId].bodies[body].base)


def getLinkState(
    body: int, link: int, velocity: bool = False, kinematics: bool = True, physicsClientId: int = 0
) -> tuple[Any, ...]:
    """Return the pose of a link's frame at 4 and 5."""
    return (None,) * 4 + _position_and_orientation(_CLIENTS[physicsClientId].bodies[body].poses()[link])


def getDynamicsInfo(body: int, link: int, physicsClientId: int = 0) -> tuple[Any, ...]:
    """Return the pose of the centre of mass in the link at 3 and 4: that of the link."""
    return (None,) * 3 + _position_and_orientation(np.eye(4))


def invertTransform(position: Sequence[float], orientation: Sequence[float]) -> Pose:
    """Return the inverse of a pose."""
    return _position_and_orientation(np.linalg.inv(_pose(position, orientation)).astype(np.float64))


def multiplyTransforms(
    position: Sequence[float], orientation: Sequence[float], inner: Sequence[float], turn: Sequence[float]
) -> Pose:
    """Return the product of two poses."""
    return _position_and_orientation(_pose(position, orientation) @ _pose(inner, turn))


def _pose(position: Sequence[float], orientation: Sequence[float]) -> FloatArray:
    return pose_matrix(position, quaternion_to_matrix(orientation))


def _position_and_orientation(pose: FloatArray) -> Pose:
    return tuple(pose[:3, 3].tolist()), tuple(matrix_to_quaternion(pose[:3, :3]).tolist())


# Shapes ---------------------------------------------------------------------------------------------------------------


def _color_of(material: ET.Element) -> tuple[float, ...]:
    color = material.find("color")
    return tuple(float(word) for word in ("" if color is None else color.get("rgba", "")).split())


def _shape_of(geom: GeomSpec, pose: FloatArray, color: tuple[float, ...]) -> _Shape:
    """Return a shape at a pose `(4, 4)` in its link; the base by default."""
    size = {"box": geom.size, "mesh": geom.scale}.get(geom.shape, geom.size[::-1])  # length before radius
    corners, normals, flat = _surface(geom.file, geom.shape, size)
    placed = corners @ pose[:3, :3].T + pose[:3, 3], normals @ pose[:3, :3].T, flat
    return _Shape(-1, KINDS[geom.shape], size, geom.file, pose, color, placed)


@cached_by_file(1024)
def _surface(file: str, kind: str, size: tuple[float, ...]) -> Surface:
    """Return the surface of a shape in its own frame."""
    if kind == "mesh":
        read = read_triangles(Path(file))
        mesh = Mesh(read.vertices * size, read.faces)
    elif kind == "box":
        mesh = hull(np.array(list(itertools.product((-0.5, 0.5), repeat=3))) * size)
    else:
        mesh = mesh_of(GeomSpec(kind, size[::-1]), DRAWN_CORNERS)  # type: ignore[arg-type]
    faces, normals, flat = surface(mesh)
    return mesh.vertices[faces], normals.reshape(-1, 3, 3), flat.reshape(-1, 3, 2)


def getVisualShapeData(body: int, flags: int = 0, physicsClientId: int = 0) -> list[tuple[Any, ...]]:
    """Return body, link, kind, size, file, position, orientation, colour and texture of each shape."""
    return [
        (
            body,
            shape.link,
            shape.kind,
            shape.size,
            shape.file.encode(),
            *_position_and_orientation(shape.pose),
            shape.color,
            shape.texture,
        )
        for shape in _CLIENTS[physicsClientId].bodies[body].shapes
    ]


def changeVisualShape(
    body: int,
    link: int,
    shapeIndex: int,
    rgbaColor: Sequence[float],
    textureUniqueId: int = -1,
    physicsClientId: int = 0,
) -> None:
    """Set colour and texture of a link's shape."""
    shapes = [shape for shape in _CLIENTS[physicsClientId].bodies[body].shapes if shape.link == link]
    shapes[shapeIndex].color, shapes[shapeIndex].texture = tuple(rgbaColor), textureUniqueId


def loadTexture(fileName: str, physicsClientId: int = 0) -> int:
    """Read an image and return its number as a texture."""
    textures = _CLIENTS[physicsClientId].textures
    textures.append(np.asarray(Image.open(fileName).convert("RGB"), dtype=float) / 255)
    return len(textures) - 1


# Pictures -------------------------------------------------------------------------------------------------------------


def computeViewMatrix(
    cameraEyePosition: ArrayLike, cameraTargetPosition: ArrayLike, cameraUpVector: ArrayLike
) -> list[float]:
    """Return the view matrix of a camera at a point that looks at another, by columns."""
    eye = np.asarray(cameraEyePosition, dtype=float)
    back = eye - np.asarray(cameraTargetPosition, dtype=float)
    back /= np.linalg.norm(back)
    right = np.cross(np.asarray(cameraUpVector, dtype=float), back)
    right /= np.linalg.norm(right)
    axes = np.stack([right, np.cross(back, right), back])
    return pose_matrix(-axes @ eye, axes).T.ravel().tolist()


def computeViewMatrixFromYawPitchRoll(
    cameraTargetPosition: ArrayLike, distance: float, yaw: float, pitch: float, roll: float, upAxisIndex: int = 2
) -> list[float]:
    """Return the view matrix of a camera beside a point, by columns; angles in degrees, `roll` 0, z upwards."""
    turn = axis_angle_to_matrix((0.0, 0.0, 1.0), float(np.radians(yaw)))
    turn = turn @ axis_angle_to_matrix((1.0, 0.0, 0.0), float(np.radians(pitch)))
    target = np.asarray(cameraTargetPosition, dtype=float)
    return computeViewMatrix(target - distance * turn[:, 1], target, turn[:, 2])


def computeProjectionMatrixFOV(fov: float, aspect: float, nearVal: float, farVal: float) -> list[float]:
    """Return a perspective projection by columns; `fov` is vertical, degrees."""
    scale, depth = 1 / np.tan(np.radians(fov) / 2), farVal - nearVal
    matrix = np.diag([scale / aspect, scale, -(farVal + nearVal) / depth, 0.0])
    matrix[2, 3], matrix[3, 2] = -2 * farVal * nearVal / depth, -1.0
    return matrix.T.ravel().tolist()


def getCameraImage(
    width: int,
    height: int,
    viewMatrix: Sequence[float],
    projectionMatrix: Sequence[float],
    lightDirection: Sequence[float],
    lightColor: Sequence[float],
    lightDistance: float = 0.0,
    shadow: int = 0,
    lightAmbientCoeff: float = 0.6,
    lightDiffuseCoeff: float = 0.5,
    lightSpecularCoeff: float = 0.0,
    renderer: int = ER_TINY_RENDERER,
    physicsClientId: int = 0,
) -> tuple[int, int, NDArray[np.uint8], FloatArray, NDArray[np.int_]]:
    """Return width, height, colours `(height, width, 4)`, depth in [0, 1] and body (-1: none) of each pixel.

    The light is parallel, from `lightDirection`; `lightDistance` and `lightSpecularCoeff` have no effect.
    """
    client = _CLIENTS[physicsClientId]
    (corners, normals, flat), owners = client.stacked()
    shapes = [(number, shape) for number, body in client.bodies.items() for shape in body.shapes]
    poses = [poses[shape.link] for body in client.bodies.values() for poses in [body.poses()] for shape in body.shapes]
    frames = np.array(poses).reshape(-1, 4, 4)
    rotations = frames[owners, :3, :3]
    world = np.einsum("mij,mkj->mki", rotations, corners) + frames[owners, None, :3, 3]
    view, projection = (np.reshape(matrix, (4, 4)).T for matrix in (viewMatrix, projectionMatrix))
    pixels, triangles, weights, depths = _visible(_homogeneous(world) @ (projection @ view).T, width, height)

    points = np.einsum("pk,pki->pi", weights, world[triangles])
    turned = np.einsum("pk,pki,pji->pj", weights, normals[triangles], rotations[triangles])
    turned /= np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-12)
    towards = np.linalg.pinv(view)[:3, 3] - points  # a flat view, of a shadow, has no inverse
    turned *= np.where((turned * towards).sum(axis=1) < 0, -1.0, 1.0)[:, None]
    light = np.asarray(lightDirection, dtype=float) / np.linalg.norm(lightDirection)
    lit = np.maximum(turned @ light, 0.0)
    brightness = lightAmbientCoeff + lightDiffuseCoeff * lit
    if shadow:
        brightness *= 1.0 - (1.0 - IN_SHADOW) * _shaded(world, points, turned, light) * (lit > 0)
    owner = owners[triangles]
    colors = np.array([shape.color[:3] for _, shape in shapes]).reshape(-1, 3)[owner]
    coordinates = np.einsum("pk,pki->pi", weights, flat[triangles])
    for index, (_, shape) in enumerate(shapes):
        if shape.texture >= 0 and (mine := owner == index).any():
            colors[mine] *= _sampled(client.textures[shape.texture], coordinates[mine])
    colors = colors * np.asarray(lightColor) * brightness[:, None]

    image = np.full((height * width, 4), 255, dtype=np.uint8)
    buffer, bodies = np.ones(height * width), np.full(height * width, -1)
    image[pixels, :3] = (255 * np.clip(colors, 0.0, 1.0)).astype(np.uint8)
    buffer[pixels] = 0.5 + 0.5 * depths
    bodies[pixels] = np.array([number for number, _ in shapes], dtype=int)[owner]
    size = height, width
    return width, height, image.reshape(*size, 4), buffer.reshape(size), bodies.reshape(size)


def _sampled(texture: FloatArray, coordinates: FloatArray) -> FloatArray:
    """Return the colours `(n, 3)` of a texture at coordinates `(n, 2)` from the left and from below."""
    height, width = texture.shape[:2]
    across, up = (np.clip(coordinates, 0.0, 1.0) * (width - 1, height - 1)).astype(int).T
    return np.asarray(texture[height - 1 - up, across])


def _homogeneous(points: FloatArray) -> FloatArray:
    return np.concatenate([points, np.ones((*points.shape[:-1], 1))], axis=-1)


def _shaded(world: FloatArray, points: FloatArray, normals: FloatArray, light: FloatArray) -> FloatArray:
    """Return `(n,)`: the shares of points `(n, 3)` in the shadow of triangles `(m, 3, 3)`, seen along the light.

    A surface that the light grazes shades itself in a picture of pixels, so that points are compared beside it.
    """
    if not len(points):
        return np.zeros(0)
    axes = np.reshape(computeViewMatrix(light, np.zeros(3), (0.0, 0.0, 1.0)), (4, 4)).T[:3, :3]
    seen = points @ axes.T
    low, high = seen.min(axis=0), seen.max(axis=0)
    step = float((high - low)[:2].max()) / SHADOW_SIDE + 1e-9
    scale = 2.0 / (SHADOW_SIDE * step)
    scaled = (world @ axes.T - (low + high) / 2) * (scale, scale, -1e-3)
    pixels, _, _, depths = _visible(_homogeneous(scaled), SHADOW_SIDE, SHADOW_SIDE)
    nearest = np.full(SHADOW_SIDE**2, np.inf)
    nearest[pixels] = depths
    lifted = (points + SHADOW_BIAS * step * normals) @ axes.T - (low + high) / 2
    depth = -1e-3 * (lifted[:, 2] + SHADOW_BIAS * step)
    across, down = (0.5 + 0.5 * lifted[:, 0] * scale) * SHADOW_SIDE, (0.5 - 0.5 * lifted[:, 1] * scale) * SHADOW_SIDE
    shaded = np.zeros(len(points))
    for right, below in itertools.product((-1.0, 0.0), repeat=2):  # soft edges
        column = np.clip(across + right, 0, SHADOW_SIDE - 1).astype(int)
        row = np.clip(down + below, 0, SHADOW_SIDE - 1).astype(int)
        shaded += 0.25 * (depth > nearest[row * SHADOW_SIDE + column])
    return shaded


def _visible(
    clip: FloatArray, width: int, height: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray, FloatArray]:
    """Find the nearest triangle at each pixel.

    Args:
        clip: `(m, 3, 4)` homogeneous coordinates of the corners, as in OpenGL.
        width: Pixels.
        height: Pixels.

    Returns:
        Of the `n` pixels that show a triangle: index by rows from the top `(n,)`, triangle `(n,)`, weights `(n, 3)` of
        its corners, and depth `(n,)` in [-1, 1].
    """
    triangles, shares = _before_near(clip)
    at = shares @ clip[triangles]
    w = at[..., 3]
    x = (0.5 + 0.5 * at[..., 0] / w) * width - 0.5
    y = (0.5 - 0.5 * at[..., 1] / w) * height - 0.5
    z = at[..., 2] / w
    # Edge k, from corner k to the next, is a x + b y + c, positive inside; over the area it is the weight of the third.
    following = [1, 2, 0]
    a, b = y - y[:, following], x[:, following] - x
    c = -(a * x + b * y)
    area = c.sum(axis=1)
    outside = (x.max(axis=1) < 0) | (x.min(axis=1) > width - 1) | (np.abs(area) < 1e-12)
    a, b, c = (np.divide(each, np.where(outside, 1.0, area)[:, None]) for each in (a, b, c))
    # A weighted sum of the corners' depths is affine in the picture.
    slope = [(each[:, [1, 2, 0]] * z).sum(axis=1) for each in (a, b, c)]
    first = np.maximum(np.ceil(y.min(axis=1)), 0).astype(int)
    last = np.minimum(np.floor(y.max(axis=1)), height - 1).astype(int)
    counts = np.where(outside, 0, np.maximum(last - first + 1, 0))
    of, row = _expanded(first, counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = -(b[of] * row[:, None] + c[of]) / a[of]
    inside = ((a[of] != 0) | (b[of] * row[:, None] + c[of] >= 0)).all(axis=1)
    left = np.where(a[of] > 0, crossing, -np.inf).max(axis=1)
    right = np.where(a[of] < 0, crossing, np.inf).min(axis=1)
    begin = np.maximum(np.ceil(left - 1e-9), 0).astype(int)
    end = np.minimum(np.floor(right + 1e-9), width - 1).astype(int)
    spans = np.where(inside, np.maximum(end - begin + 1, 0), 0)

    nearest, shown = np.full(width * height, np.inf), np.full(width * height, -1)
    for part in _chunks(spans):
        span, column = _expanded(begin[part], spans[part])
        triangle, line = of[part][span], row[part][span]
        depth = slope[0][triangle] * column + slope[1][triangle] * line + slope[2][triangle]
        pixel = line * width + column
        np.minimum.at(nearest, pixel, depth)
        wins = (depth == nearest[pixel]) & (depth <= 1.0)
        shown[pixel[wins]] = triangle[wins]
    pixels = np.flatnonzero(shown >= 0)
    which = shown[pixels]
    line, column = np.divmod(pixels, width)
    weights = (a[which] * column[:, None] + b[which] * line[:, None] + c[which])[:, [1, 2, 0]] / w[which]
    weights /= weights.sum(axis=1, keepdims=True)
    return pixels, triangles[which], np.einsum("pk,pki->pi", weights, shares[which]), nearest[pixels]


def _before_near(clip: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Cut triangles off at the nearest distance that the camera sees.

    Returns:
        The triangle `(t,)` of each part, and the shares `(t, 3, 3)` of its corners in each corner of the part.
    """
    distance = clip[..., 2] + clip[..., 3]
    before = distance > 1e-9
    whole = np.flatnonzero(before.all(axis=1))
    parts, shares = [whole], [np.tile(np.eye(3), (len(whole), 1, 1))]
    for count in (1, 2):  # corners that remain; the first is the only one of its kind
        found = np.flatnonzero(before.sum(axis=1) == count)
        single = (before[found] == (count == 1)).argmax(axis=1)
        order = (single[:, None] + np.arange(3)) % 3
        d = np.take_along_axis(distance[found], order, axis=1)
        corner = np.eye(3)[order]
        cuts = [corner[:, 0] + (d[:, 0] / (d[:, 0] - d[:, k]))[:, None] * (corner[:, k] - corner[:, 0]) for k in (1, 2)]
        made = [[corner[:, 0], *cuts]]
        if count == 2:
            made = [[cuts[0], corner[:, 1], corner[:, 2]], [cuts[0], corner[:, 2], cuts[1]]]
        parts += [found] * len(made)
        shares += [np.stack(each, axis=1) for each in made]
    return np.concatenate(parts), np.concatenate(shares)


def _expanded(first: NDArray[np.int_], counts: NDArray[np.int_]) -> tuple[NDArray[np.intp], NDArray[np.int_]]:
    """Return for each of `counts` whole numbers from `first` on the index of its range, and the number."""
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts) + first[of]


def _chunks(counts: NDArray[np.int_]) -> Iterator[slice]:
    """Yield slices of about `CHUNK` pixels."""
    ends = np.cumsum(counts)
    cuts = np.searchsorted(ends, np.arange(CHUNK, int(ends[-1]) if len(ends) else 0, CHUNK))
    for begin, end in itertools.pairwise([0, *np.unique(cuts).tolist(), len(counts)]):
        if end > begin:
            yield slice(begin, end)
