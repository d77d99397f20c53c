"""Visual bodies in a separate client, which mirror a world's state.

Rendering therefore cannot change the physics, and resets of the physics client stay cheap.
"""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mygym.engines.bullet.client import bullet, closing, connect, joint_infos, load_urdf
from mygym.engines.rendering.appearance import Appearance
from mygym.engines.world import World
from mygym.errors import ConfigError, bad_value
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.robotics.fixtures import fixture_pose, fixture_urdf
from mygym.robotics.inertia import Inertial
from mygym.robotics.links import link_element
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.robot_spec import robot_model
from mygym.robotics.transforms import pose_matrix, quaternion_to_matrix
from mygym.robotics.urdf import light_urdf, merge_fixed_joints
from mygym.tasks.observations import Image
from mygym.types import FloatArray

GOAL_COLOR = (0.20, 0.78, 0.35, 0.8)
GOAL_RADIUS = 0.018
_HIDDEN = (0.0, 0.0, -50.0)
_UPRIGHT = (0.0, 0.0, 0.0, 1.0)


def add_visual(client: int, spec: ObjectSpec, position: Sequence[float], orientation: Sequence[float]) -> int:
    """Add the visual shapes of an object, its centre of mass at `position`, and return its Bullet id."""
    robot = ET.Element("robot", name=spec.name)
    origin = pose_matrix(-spec.inertial.centre, np.eye(3))
    # Bullet warns of links without mass, and rotates the frame of links whose moments differ.
    unit_inertial = Inertial(1.0, spec.inertial.centre, np.eye(3))
    robot.append(link_element(spec.name, spec.geoms, spec.color, unit_inertial, collisions=False, origin=origin))
    return load_urdf(spec.name, ET.tostring(robot, encoding="unicode"), client, position, orientation)


def rendered(
    client: int, width: int, height: int, view: Any, projection: Any, light: Mapping[str, Any], shadow: bool = False
) -> tuple[Image, NDArray[np.int_], FloatArray]:
    """Return colours `(height, width, 3)`, body (-1: background) and depth in [0, 1] of each pixel of a picture."""
    _, _, pixels, depth, segments = bullet.getCameraImage(
        width,
        height,
        view,
        projection,
        shadow=int(shadow),
        renderer=bullet.ER_TINY_RENDERER,
        physicsClientId=client,
        **light,
    )
    image = np.array(pixels, dtype=np.uint8).reshape(height, width, 4)[..., :3]
    bodies = np.asarray(segments).reshape(height, width)
    return image, bodies, np.asarray(depth, dtype=float).reshape(height, width)


def averaged(image: NDArray[Any], samples: int) -> Image:
    """Return an image whose pixels are the means of squares of `samples` by `samples` pixels."""
    height, width, _ = image.shape
    squares: FloatArray = image.reshape(height // samples, samples, width // samples, samples, 3).mean(axis=(1, 3))
    return squares.round().astype(np.uint8)


def check_sizes(**sizes: int) -> None:
    """Refuse a size of a picture that is not positive by a ConfigError, which names it."""
    for name, value in sizes.items():
        if value < 1:
            raise ConfigError(bad_value(name, value, "at least 1"))


class Scene:
    """The visual bodies of a world in a client.

    Args:
        world: The world; only its `state` and descriptions are read.
        client: An open Bullet client for this scene only; closed with the scene, or if the constructor raises. None: a
            new client without a window.
    """

    def __init__(self, world: World, client: int | None = None) -> None:
        self.world, self.client = world, connect() if client is None else client
        self._close = closing(self, self.client)
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        """Load visual bodies of the robot, the fixtures, the objects and the goal."""
        world, client = self.world, self.client
        robot = world.robot
        text = light_urdf(robot_model(robot), "visual")
        self.robot = load_urdf(f"{robot.name}_visual", text, client, robot.base_position, robot.base_orientation)
        infos = joint_infos(self.robot, client)
        number = {info[1].decode(): info[0] for info in infos}
        self._links = {info[12].decode(): info[0] for info in infos}
        self._merged = merge_fixed_joints(copy.deepcopy(robot_model(robot)))
        self._joints = [number[joint.name] for arm in robot.arms for joint in arm.joints]
        self._fingers = [number[name] for arm in robot.arms if arm.gripper for name in arm.gripper.joints]
        self._parts = self._add_fixtures()
        self._specs = world.objects
        self._objects = [add_visual(client, spec, _HIDDEN, _UPRIGHT) for spec in self._specs]
        self._appearance, self._shown = Appearance(client), EpisodeRandomization()
        self.goal = self._add({"shapeType": bullet.GEOM_SPHERE, "radius": GOAL_RADIUS}, GOAL_COLOR, _HIDDEN)

    def _add_fixtures(self) -> list[tuple[int, int]]:
        """Load the visible fixtures and return body and joint of each part, in the order of the state."""
        joints: dict[str, tuple[int, int]] = {}
        self._fixtures: list[int] = []
        for name, fixture in self.world.workspace.fixtures.items():
            if not fixture.visible:
                continue
            text = fixture_urdf(fixture, "visual")
            body = load_urdf(f"{name}_visual", text, self.client, *fixture_pose(fixture))
            self._fixtures.append(body)
            for info in joint_infos(body, self.client):
                joints[f"{name}.{info[1].decode()}"] = body, info[0]
        return [joints[name] for name in self.world.part_names]

    def _add(self, shape: dict[str, object], color: ArrayLike, position: ArrayLike) -> int:
        visual = bullet.createVisualShape(**shape, rgbaColor=color, physicsClientId=self.client)
        body = bullet.createMultiBody(0.0, -1, visual, position, _UPRIGHT, physicsClientId=self.client)
        return int(body)

    def _update_appearance(self) -> None:
        """Apply this episode's sizes, colours and textures."""
        client = self.client
        for k, (spec, shown) in enumerate(zip(self.world.objects, self._specs, strict=True)):
            if spec is not shown:
                bullet.removeBody(self._objects[k], physicsClientId=client)
                self._appearance.forget(self._objects[k])
                self._objects[k] = add_visual(client, spec, _HIDDEN, _UPRIGHT)
        self._specs, self._shown = self.world.objects, self.world.randomization
        self._appearance.apply([[self.robot], self._fixtures, *([body] for body in self._objects)], self._shown)

    def mirror(self, goal: ArrayLike | None = None) -> None:
        """Move all bodies to the world's state.

        Args:
            goal: `(3,)` m, position of a green sphere; None hides it.
        """
        state, client = self.world.state, self.client
        if self.world.randomization != self._shown:
            self._update_appearance()
        positions = state.joint_position[0].tolist() + self._finger_positions()
        for index, position in zip([*self._joints, *self._fingers], positions, strict=True):
            bullet.resetJointState(self.robot, index, position, physicsClientId=client)
        for (body, joint), position in zip(self._parts, state.part_position[0].tolist(), strict=True):
            bullet.resetJointState(body, joint, position, physicsClientId=client)
        for k, body in enumerate(self._objects):
            position, orientation = state.object_position[0, k].tolist(), state.object_orientation[0, k].tolist()
            if not state.object_present[0, k]:
                position, orientation = _HIDDEN, _UPRIGHT
            bullet.resetBasePositionAndOrientation(body, position, orientation, physicsClientId=client)
        position = _HIDDEN if goal is None else np.asarray(goal, dtype=float).reshape(3).tolist()
        bullet.resetBasePositionAndOrientation(self.goal, position, _UPRIGHT, physicsClientId=client)

    def pose_arm(self, positions: ArrayLike) -> None:
        """Draw the arms with other joint positions `(J,)`, rad, until the next `mirror`; the world does not change."""
        for index, position in zip(self._joints, np.asarray(positions, dtype=float).tolist(), strict=True):
            bullet.resetJointState(self.robot, index, position, physicsClientId=self.client)

    def link_pose(self, link: str) -> FloatArray:
        """Return the pose `(4, 4)` of a link of the robot's URDF in the world frame, after `mirror`."""
        holder, local = self._merged[link]
        position, orientation = _pose(self, self.robot, self._links.get(holder, -1))
        return pose_matrix(position, quaternion_to_matrix(orientation)) @ local

    def bodies(self) -> list[tuple[str, int]]:
        """Return name and visual body of the robot, of each visible fixture, and of each object."""
        fixtures = [name for name, fixture in self.world.workspace.fixtures.items() if fixture.visible]
        names = ["robot", *fixtures, *(spec.name for spec in self._specs)]
        return list(zip(names, [self.robot, *self._fixtures, *self._objects], strict=True))

    def _finger_positions(self) -> list[float]:
        state = self.world.state
        widths = [float(state.gripper_width[0]), *state.second_gripper_width[0].tolist()]
        return [
            low + (high - low) * width / arm.gripper.width
            for arm, width in zip(self.world.robot.arms, widths, strict=True)
            if arm.gripper
            for low, high in zip(arm.gripper.closed, arm.gripper.open, strict=True)
        ]

    def close(self) -> None:
        """Close the client; may be called repeatedly."""
        self._close()


SHAPE_NAMES = {
    bullet.GEOM_BOX: "box",
    bullet.GEOM_SPHERE: "sphere",
    bullet.GEOM_CYLINDER: "cylinder",
    bullet.GEOM_CAPSULE: "capsule",
    bullet.GEOM_MESH: "mesh",
}


@dataclass(frozen=True)
class DrawnShape:
    """A shape in the frame of a link."""

    link: str
    kind: str
    """`box`, `sphere`, `cylinder`, `capsule` or `mesh`."""
    size: tuple[float, ...]
    """Edges; radius; length and radius, along z; of a mesh its scale. m."""
    file: str
    """Of a mesh."""
    position: tuple[float, ...]
    orientation: tuple[float, ...]
    """Quaternion x, y, z, w."""
    color: tuple[float, ...]
    """Red, green, blue, opacity."""


def drawn_shapes(scene: Scene) -> list[DrawnShape]:
    """Return all visual shapes of the robot, the fixtures and the objects."""
    return [
        DrawnShape(
            _name(body, link), SHAPE_NAMES[kind], tuple(size), file.decode(), tuple(position), tuple(turn), tuple(color)
        )
        for body, number in scene.bodies()
        for _, link, kind, size, file, position, turn, color, *_ in bullet.getVisualShapeData(
            number, physicsClientId=scene.client
        )
        if kind in SHAPE_NAMES
    ]


def link_poses(scene: Scene) -> dict[str, list[float]]:
    """Return link → position, m, and quaternion x, y, z, w in the world frame, after `Scene.mirror`."""
    poses = {}
    for body, number in scene.bodies():
        for link in range(-1, bullet.getNumJoints(number, physicsClientId=scene.client)):
            position, orientation = _pose(scene, number, link)
            poses[_name(body, link)] = [round(value, 4) for value in (*position, *orientation)]
    return poses


def _pose(scene: Scene, body: int, link: int) -> tuple[Sequence[float], Sequence[float]]:
    """Return position and quaternion of a link's frame in the world; of the base for link -1."""
    if link >= 0:
        state = bullet.getLinkState(body, link, False, True, physicsClientId=scene.client)
        return state[4], state[5]
    # Bullet returns the pose of the base's centre of mass.
    centre, rotation = bullet.getBasePositionAndOrientation(body, physicsClientId=scene.client)
    offset = bullet.getDynamicsInfo(body, -1, physicsClientId=scene.client)[3:5]
    position, orientation = bullet.multiplyTransforms(centre, rotation, *bullet.invertTransform(*offset))
    return position, orientation


def _name(body: str, link: int) -> str:
    return f"{body}/{link}"
