"""Objects in a Bullet client: creation, randomization, weight, state and contacts."""

from __future__ import annotations

import math
import operator
import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mygym.engines.bullet.client import TINY_BOX, bullet, urdf_file
from mygym.engines.bullet.robot_body import URDF_FLAGS, RobotBody
from mygym.engines.world import GRAVITY, HIT, PRESSED, MovingDistractor
from mygym.robotics.episode_randomization import EpisodeRandomization
from mygym.robotics.inertia import RigidBody
from mygym.robotics.links import add_collisions, hull_file
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.shapes import Piece
from mygym.robotics.transforms import multiply_quaternions
from mygym.robotics.urdf import add_tiny_visual, set_inertial
from mygym.tasks.state import State
from mygym.types import FloatArray

MAX_PIECES = 16
"""Largest number of pieces in a shape that is created by a call (MAX_COMPOUND_COLLISION_SHAPES in Bullet).

A URDF has no limit.
"""

_ORIGIN, _IDENTITY = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)

_GEOMETRIES = {
    "box": bullet.GEOM_BOX,
    "sphere": bullet.GEOM_SPHERE,
    "cylinder": bullet.GEOM_CYLINDER,
    "capsule": bullet.GEOM_CAPSULE,
    "hull": bullet.GEOM_MESH,
}


def create_collision(client: int, pieces: tuple[Piece, ...]) -> int:
    """Create a collision shape of convex pieces and return its Bullet id.

    Files of hulls are written once per process.

    Raises:
        ValueError: More than `MAX_PIECES` pieces, of which Bullet would silently drop the last.
    """
    if len(pieces) > MAX_PIECES:
        raise ValueError(f"{len(pieces)} pieces are more than the {MAX_PIECES} of a collision shape; use a URDF")
    create, arguments = _creation(os.getpid(), pieces)
    return int(create(**arguments, physicsClientId=client))


@lru_cache(maxsize=512)
def _creation(process: int, pieces: tuple[Piece, ...]) -> tuple[Any, dict[str, Any]]:
    """Return Bullet's function and its arguments; cached per process, because the hull files are temporary files."""
    if len(pieces) == 1:
        (piece,) = pieces
        arguments = {"shapeType": _GEOMETRIES[piece.shape], **_dimensions(piece)}
        if (piece.position, piece.orientation) != (_ORIGIN, _IDENTITY):
            arguments |= {"collisionFramePosition": piece.position, "collisionFrameOrientation": piece.orientation}
        return bullet.createCollisionShape, arguments
    empty = {"halfExtents": _ORIGIN, "radius": 0.0, "height": 0.0, "fileName": ""}
    dimensions = [empty | _dimensions(piece) for piece in pieces]
    return bullet.createCollisionShapeArray, {
        "shapeTypes": [_GEOMETRIES[piece.shape] for piece in pieces],
        "halfExtents": [values["halfExtents"] for values in dimensions],
        "radii": [values["radius"] for values in dimensions],
        "lengths": [values["height"] for values in dimensions],
        # A list of hulls is accepted by file name only.
        "fileNames": [hull_file(piece.points) if piece.points else "" for piece in pieces],
        "collisionFramePositions": [piece.position for piece in pieces],
        "collisionFrameOrientations": [piece.orientation for piece in pieces],
    }


def _dimensions(piece: Piece) -> dict[str, Any]:
    if piece.shape == "box":
        return {"halfExtents": [edge / 2 for edge in piece.size]}
    if piece.shape == "sphere":
        return {"radius": piece.size[0]}
    if piece.shape == "hull":
        return {"vertices": piece.points}
    return {"radius": piece.size[0], "height": piece.size[1]}


ABSENT = -1
"""Bullet id of an object that is not in this episode."""


class ObjectBodies:
    """The objects of a world in its physics client; those that move to and fro, `moving`, are weightless."""

    def __init__(self, client: int, moving: Mapping[int, MovingDistractor]) -> None:
        self._client, self._moving = client, dict(moving)
        self.ids: list[int] = []
        """Bullet ids of the bodies; `ABSENT` for absent objects."""

    def load(
        self,
        poses: FloatArray,
        specs: tuple[ObjectSpec, ...],
        present: tuple[bool, ...],
        randomization: EpisodeRandomization,
    ) -> None:
        """Create all bodies in an empty client, their centres of mass at poses `(k, 7)` m and quaternions.

        The descriptions are those of this episode, in its sizes, also of objects that are absent.
        """
        self._specs = specs
        masses = randomization.object_mass or (1.0,) * len(specs)
        self._weights = [
            (0.0, 0.0, 0.0 if k in self._moving else -GRAVITY * mass * spec.mass)
            for k, (spec, mass) in enumerate(zip(specs, masses, strict=True))
        ]
        self.ids = [
            add_object(self._client, spec, pose) if is_present else ABSENT
            for spec, pose, is_present in zip(specs, poses, present, strict=True)
        ]
        self._bodies = [(k, body) for k, body in enumerate(self.ids) if body != ABSENT]
        for k, body in self._bodies:
            _randomize_body(self._client, body, specs[k], randomization, k)
        self._start = [tuple(pose[:3]) for pose in np.asarray(poses, dtype=float).tolist()]

    def apply_forces(self, state: State, time: float, dt: float) -> None:
        """Apply weights and drive moving objects for the control step of `dt` s that begins at `time` s."""
        positions = state.object_position[0].tolist()
        self._before = positions, state.object_velocity[0].tolist(), state.touch[0].tolist()
        for k, body in self._bodies:
            # Holds through all substeps of the call.
            weight, position = self._weights[k], positions[k]
            bullet.applyExternalForce(body, -1, weight, position, bullet.WORLD_FRAME, physicsClientId=self._client)
        for k, distractor in self._moving.items():
            if self.ids[k] != ABSENT:
                position, _ = bullet.getBasePositionAndOrientation(self.ids[k], physicsClientId=self._client)
                velocity = distractor.velocity(self._start[k], position, time, dt)
                bullet.resetBaseVelocity(self.ids[k], velocity, (0.0, 0.0, 0.0), physicsClientId=self._client)

    def read(self, state: State) -> None:
        """Fill the object arrays of a state, except contacts; absent objects have zeros."""
        client = self._client
        for k, body in self._bodies:
            spec = self._specs[k]
            position, orientation = bullet.getBasePositionAndOrientation(body, physicsClientId=client)
            velocity, spin = bullet.getBaseVelocity(body, physicsClientId=client)
            state.object_position[0, k], state.object_orientation[0, k] = position, model_orientation(spec, orientation)
            state.object_velocity[0, k], state.object_angular_velocity[0, k] = velocity, spin

    def read_hits(self, state: State, dt: float) -> None:
        """Fill a state's hits in the control step of `dt` s before it, after its contacts; not of moving distractors.

        Contacts within a control step cannot be read, so a hit is a change of velocity that is not due to gravity.
        """
        state.hit_position[...] = state.object_position
        state.hit[...] = False
        starts, velocities, touched = self._before
        for k, _ in self._bodies:
            if not (touched[k] or state.touch[0, k] or k in self._moving):
                end, velocity = state.object_position[0, k].tolist(), state.object_velocity[0, k].tolist()
                hit = position_at_hit(starts[k], velocities[k], end, velocity, dt, GRAVITY)
                if hit is not None:
                    state.hit[0, k], state.hit_position[0, k] = True, hit

    def read_contacts(self, state: State, robot: RobotBody) -> None:
        """Fill a state's contacts between objects and the robot, and the depth to which it presses them in."""
        state.touch[...] = state.finger_contact[...] = state.second_finger_contact[...] = False
        contacts = (state.finger_contact, state.second_finger_contact)
        for point in bullet.getContactPoints(robot.body, physicsClientId=self._client):
            if point[9] > 0.0 and point[2] in self.ids:
                k = self.ids.index(point[2])
                state.touch[0, k] = True
                for contact, fingers in zip(contacts, robot.fingers_of_links, strict=False):
                    if point[3] in fingers:
                        contact[0, k, fingers[point[3]]] = True
        for k, depth in enumerate(state.object_depth[0].tolist()):
            if depth > PRESSED or state.touch[0, k]:
                points = bullet.getContactPoints(self.ids[k], physicsClientId=self._client)
                state.object_depth[0, k] = max([0.0, *(-point[8] for point in points if point[2] != robot.body)])


def position_at_hit(
    start: Sequence[float],
    velocity_before: Sequence[float],
    end: Sequence[float],
    velocity_after: Sequence[float],
    dt: float,
    gravity: float,
) -> list[float] | None:
    """Return the position `(3,)` m at which a body in free flight met another body; None if it met none.

    With a single impulse that changes the velocity by `J` at the time `t`, the body ends `J (dt - t)` beside the end of
    its free flight, which gives `t`.

    Args:
        start: `(3,)` m, at the beginning of the interval.
        velocity_before: `(3,)` m/s, at the beginning.
        end: `(3,)` m, at the end.
        velocity_after: `(3,)` m/s, at the end.
        dt: s, length of the interval.
        gravity: m/s².
    """
    fall = (0.0, 0.0, -gravity)
    change = [after - before - a * dt for after, before, a in zip(velocity_after, velocity_before, fall, strict=True)]
    size = math.hypot(*change)
    if size < HIT:
        return None
    flight = zip(end, start, velocity_before, fall, strict=True)
    beside = [x - x0 - v * dt - 0.5 * a * dt * dt for x, x0, v, a in flight]
    rest = min(max(sum(map(operator.mul, beside, change)) / size**2, 0.0), dt)
    t = dt - rest
    return [x + v * t + 0.5 * a * t * t for x, v, a in zip(start, velocity_before, fall, strict=True)]


def add_object(client: int, spec: ObjectSpec, pose: Sequence[float]) -> int:
    """Add an object as a rigid body, its centre of mass at a pose `(7,)` m and quaternion; return its Bullet id.

    Bullet's orientation of the body is the orientation of its principal axes; `model_orientation` converts it back.
    """
    body = spec.body
    orientation = pose[3:] if body.aligned else multiply_quaternions(pose[3:], body.principal).tolist()
    number = _create_body(client, body, pose[:3], orientation)
    bullet.changeDynamics(
        number,
        -1,
        lateralFriction=spec.friction,
        rollingFriction=spec.rolling_friction,
        spinningFriction=spec.spinning_friction,
        restitution=spec.restitution,
        physicsClientId=client,
    )
    return number


def _randomize_body(client: int, body: int, spec: ObjectSpec, randomization: EpisodeRandomization, k: int) -> None:
    """Set mass, friction and damping of object `k` in this episode; `spec` already has the size."""
    changes: dict[str, Any] = {}
    if randomization.object_mass:
        factor = randomization.object_mass[k]
        changes["mass"] = factor * spec.mass
        changes["localInertiaDiagonal"] = [factor * moment for moment in spec.body.moments]
    if randomization.object_friction:
        factor = randomization.object_friction[k]
        changes["lateralFriction"] = factor * spec.friction
        changes["rollingFriction"] = factor * spec.rolling_friction
        changes["spinningFriction"] = factor * spec.spinning_friction
    if randomization.object_damping:
        changes["linearDamping"] = changes["angularDamping"] = randomization.object_damping[k]
    if changes:
        bullet.changeDynamics(body, -1, **changes, physicsClientId=client)


def _create_body(client: int, body: RigidBody, position: Sequence[float], orientation: Sequence[float]) -> int:
    if body.plain:
        return create_plain(client, body.mass, body.pieces, position, orientation)
    # A custom inertia needs a URDF: `changeDynamics` takes effect only after the first substep.
    path = _body_file(os.getpid(), body)
    return int(
        bullet.loadURDF(
            path, position, orientation, useMaximalCoordinates=True, flags=URDF_FLAGS, physicsClientId=client
        )
    )


@lru_cache(maxsize=512)
def _body_file(process: int, body: RigidBody) -> str:
    """Write the URDF of a body without visuals and return its path; cached per process."""
    robot = ET.Element("robot", name="body")
    link = ET.SubElement(robot, "link", name="body")
    set_inertial(link, body.mass, np.zeros(3), np.diag(body.moments))
    add_tiny_visual(link)
    add_collisions(link, body.pieces)
    return urdf_file("body", ET.tostring(robot, encoding="unicode"))


def create_plain(
    client: int, mass: float, pieces: tuple[Piece, ...], position: Sequence[float], orientation: Sequence[float]
) -> int:
    """Add a rigid body of a collision shape, static if its mass is 0, and return its id."""
    shape = create_collision(client, pieces)
    visual = bullet.createVisualShape(bullet.GEOM_BOX, halfExtents=TINY_BOX, physicsClientId=client)
    # Maximal coordinates make a plain rigid body: 3 µs cheaper in every physics step than a multibody without joints.
    return int(
        bullet.createMultiBody(
            mass, shape, visual, position, orientation, useMaximalCoordinates=True, physicsClientId=client
        )
    )


def model_orientation(spec: ObjectSpec, orientation: Sequence[float]) -> Sequence[float]:
    """Convert Bullet's quaternion `(4,)` of an object's body to the quaternion of its model."""
    if spec.body.aligned:
        return orientation
    x, y, z, w = spec.body.principal
    result: list[float] = multiply_quaternions(orientation, (-x, -y, -z, w)).tolist()
    return result
