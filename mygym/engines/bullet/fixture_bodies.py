"""Fixtures of a workspace in a physics client: rebuilt at every reset, their parts driven and read."""

from __future__ import annotations

from collections.abc import Sequence

from mygym.engines.bullet.client import bullet, joint_infos, load_urdf
from mygym.engines.bullet.object_bodies import MAX_PIECES, create_plain
from mygym.engines.bullet.robot_body import URDF_FLAGS
from mygym.engines.world import GRAVITY
from mygym.robotics.fixtures import (
    ArticulatedPart,
    FixtureSpec,
    articulated_parts,
    base_geoms,
    fixture_pose,
    fixture_urdf,
)
from mygym.robotics.shapes import pieces
from mygym.robotics.workspace import WorkspaceSpec
from mygym.tasks.state import State


class FixtureBodies:
    """The fixtures of a workspace in a physics client, for control steps of `dt` s in `substeps` physics steps."""

    def __init__(self, workspace: WorkspaceSpec, client: int, dt: float, substeps: int) -> None:
        self._client, self._dt, self._substeps = client, dt, substeps
        self._fixtures = {name: spec for name, spec in workspace.fixtures.items() if spec.collides}
        self._movables = {name: articulated_parts(spec) for name, spec in self._fixtures.items()}
        self._urdfs = {
            name: fixture_urdf(spec, "collision")
            for name, spec in self._fixtures.items()
            if self._movables[name] or spec.urdf
        }
        self.parts: tuple[ArticulatedPart, ...] = tuple(part for parts in self._movables.values() for part in parts)
        self.bodies: dict[str, tuple[int, ...]] = {}
        """Fixture that collides → Bullet ids of its bodies."""
        self._links: list[tuple[int, int]] = []
        self._groups: list[tuple[int, list[int], int]] = []
        self._sprung = [p for p, part in enumerate(self.parts) if part.spring]
        self.has_forces = any(part.spring or part.lifts for part in self.parts)
        """Whether springs or weights act on parts, see `apply_forces`."""
        self._weights: list[tuple[int, int, tuple[float, float, float]]] = []

    def load(self, positions: Sequence[float]) -> None:
        """Create all fixtures in an empty client, without velocity.

        Args:
            positions: `(P,)` m or rad, of the parts.
        """
        self.bodies, self._links, self._groups, self._weights = {}, [], [], []
        for name, spec in self._fixtures.items():
            if name not in self._urdfs:
                self.bodies[name] = self._add_rigid(spec)
                continue
            parts = self._movables[name]
            options = {"flags": URDF_FLAGS, "useMaximalCoordinates": not parts}  # a fixture without joints is rigid
            body = load_urdf(name, self._urdfs[name], self._client, *fixture_pose(spec), **options)
            self.bodies[name] = (body,)
            if parts:
                first = len(self._links)
                self._set_joints(body, parts, positions[first : first + len(parts)])

    def _add_rigid(self, spec: FixtureSpec) -> tuple[int, ...]:
        """Add static shapes as few bodies: a reset takes 0.1 ms per body, 0.01 ms per shape of a body."""
        shapes, bodies = pieces(base_geoms(spec)), []
        for first in range(0, len(shapes), MAX_PIECES):
            bodies.append(create_plain(self._client, 0.0, shapes[first : first + MAX_PIECES], *fixture_pose(spec)))
            bullet.changeDynamics(bodies[-1], -1, lateralFriction=spec.friction, physicsClientId=self._client)
        return tuple(bodies)

    def _set_joints(self, body: int, parts: Sequence[ArticulatedPart], positions: Sequence[float]) -> None:
        """Place the parts of a body, and set their dry friction and weight."""
        client = self._client
        number = {info[1].decode(): int(info[0]) for info in joint_infos(body, client)}
        links = [number[part.name] for part in parts]
        for link, part, position in zip(links, parts, positions, strict=True):
            bullet.resetJointState(body, link, position, physicsClientId=client)
            # Dry friction is a motor with target velocity 0 and limited force, per substep (see `RobotBody`).
            bullet.setJointMotorControl2(
                body,
                link,
                bullet.VELOCITY_CONTROL,
                targetVelocity=0.0,
                force=part.friction / self._substeps,
                physicsClientId=client,
            )
            if part.lifts:
                mass = bullet.getDynamicsInfo(body, link, physicsClientId=client)[0]
                self._weights.append((body, link, (0.0, 0.0, -GRAVITY * mass)))
        self._groups.append((body, links, len(self._links)))
        self._links += [(body, link) for link in links]

    def apply_forces(self, state: State) -> None:
        """Apply springs and weights for the next control step."""
        client = self._client
        for body, link, weight in self._weights:
            centre = bullet.getLinkState(body, link, physicsClientId=client)[0]
            bullet.applyExternalForce(body, link, weight, centre, bullet.WORLD_FRAME, physicsClientId=client)
        for p in self._sprung:
            spring = self.parts[p].spring
            assert spring is not None
            # Position halfway through the step: a constant force from the current position would add energy.
            middle = float(state.part_position[0, p]) + 0.5 * self._dt * float(state.part_velocity[0, p])
            self.push(p, spring.stiffness * (spring.rest - middle))

    def push(self, part: int, force: float) -> None:
        """Push a part along (or about) its axis with a force in N (or N m) for the next control step."""
        body, link = self._links[part]
        bullet.setJointMotorControl2(body, link, bullet.TORQUE_CONTROL, force=force, physicsClientId=self._client)

    def read(self, state: State) -> None:
        """Fill the parts of a state."""
        client = self._client
        for body, links, first in self._groups:
            joints = bullet.getJointStates(body, links, physicsClientId=client)
            frames = bullet.getLinkStates(body, links, 0, 1, physicsClientId=client)
            for p, (joint, frame) in enumerate(zip(joints, frames, strict=True), start=first):
                state.part_position[0, p], state.part_velocity[0, p] = joint[0], joint[1]
                # Plain floats, because numpy costs 1 µs for each operation.
                (px, py, pz), part = frame[4], self.parts[p]
                ox, oy, oz = _rotate(frame[5], part.handle)
                state.part_handle_position[0, p] = px + ox, py + oy, pz + oz
                ax, ay, az = _rotate(frame[5], part.axis)
                tangent = (ay * oz - az * oy, az * ox - ax * oz, ax * oy - ay * ox)
                state.part_handle_motion[0, p] = (ax, ay, az) if part.slides else tangent


def _rotate(quaternion: Sequence[float], vector: Sequence[float]) -> tuple[float, float, float]:
    """Rotate a vector by a quaternion."""
    (x, y, z, w), (ox, oy, oz) = quaternion, vector
    tx, ty, tz = 2 * (y * oz - z * oy), 2 * (z * ox - x * oz), 2 * (x * oy - y * ox)
    return ox + w * tx + y * tz - z * ty, oy + w * ty + z * tx - x * tz, oz + w * tz + x * ty - y * tx
