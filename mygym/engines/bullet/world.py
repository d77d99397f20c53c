"""A world in a Bullet client, and what it answers about its shapes."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mygym.engines.bullet.client import bullet, closing, connect, joint_infos
from mygym.engines.bullet.fixture_bodies import FixtureBodies
from mygym.engines.bullet.object_bodies import ObjectBodies, add_object
from mygym.engines.bullet.robot_body import RobotBody
from mygym.engines.inspection import DEPTH, FAR, PROBE, Inspection, corners_of
from mygym.engines.world import World, WorldSpec
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.transforms import pose_matrix, quaternion_to_matrix
from mygym.tasks.state import State
from mygym.types import FloatArray


@dataclass(frozen=True)
class SolverSettings:
    """Integration settings of Bullet."""

    substeps: int
    """Physics steps per control step."""
    iterations: int
    """Maximum iterations of the constraint solver."""
    residual_threshold: float
    """The solver stops when no constraint changes a velocity by more than the square root of this, m/s or rad/s."""


SOLVER = SolverSettings(substeps=8, iterations=20, residual_threshold=3e-3)
"""Default, chosen by measurement: benchmarks/results/fidelity.md."""


class BulletWorld(World):
    """A world in a Bullet client, which is closed with it; for errors see `World`."""

    rolls_by_axis = True

    def __init__(self, spec: WorldSpec, solver: SolverSettings = SOLVER) -> None:
        self.solver = solver
        self.saved_states: set[int] = set()
        """Bullet's numbers of the states in its memory; a reset removes them."""
        super().__init__(spec)

    def _build(self) -> None:
        self.client = connect()
        """Bullet client."""
        self._close = closing(self, self.client)
        substeps = self.solver.substeps
        mode = self.control.kind.mode
        self.robot_body = RobotBody(self.robot, self.client, self.spec.gripper, mode, self.dt, substeps)
        """The robot in the client."""
        self.fixture_bodies = FixtureBodies(self.workspace, self.client, self.dt, substeps)
        """The workspace's fixtures in the client."""
        self.object_bodies = ObjectBodies(self.client, self.moving_distractors)
        """The objects in the client."""

    def _load(self, joint_position: FloatArray, part_position: list[float], object_poses: FloatArray) -> None:
        """Rebuild everything: Bullet keeps contact and solver caches through anything less than `resetSimulation`."""
        client, randomization = self.client, self.randomization
        for saved in self.saved_states:
            bullet.removeState(saved, physicsClientId=client)
        self.saved_states.clear()
        bullet.resetSimulation(physicsClientId=client)
        bullet.setPhysicsEngineParameter(
            fixedTimeStep=self.dt,
            numSubSteps=self.solver.substeps,
            numSolverIterations=self.solver.iterations,
            solverResidualThreshold=self.solver.residual_threshold,
            # Split impulses do not push back a part that is forced beyond its stop.
            useSplitImpulse=not self.part_names,
            physicsClientId=client,
        )
        self.fixture_bodies.load(part_position)
        self.robot_body.randomize(randomization.joint_friction, randomization.joint_gain)
        self.robot_body.load(joint_position)
        self.object_bodies.load(object_poses, self.objects, self.present, randomization)

    def _advance(self, command: FloatArray, grippers: FloatArray) -> None:
        state = self.state
        self.robot_body.drive(command, state.joint_position[0], grippers)
        self.object_bodies.apply_forces(state, self.elapsed_steps * self.dt, self.dt)
        if self.fixture_bodies.has_forces:
            self.fixture_bodies.apply_forces(state)
        bullet.stepSimulation(physicsClientId=self.client)

    def _read(self, state: State) -> None:
        self.robot_body.read(state)
        if self.alternatives:
            self.object_bodies.read(state)
        if self.part_names:
            self.fixture_bodies.read(state)
        if self.alternatives:
            self.object_bodies.read_contacts(state, self.robot_body)

    def _read_hits(self, state: State) -> None:
        self.object_bodies.read_hits(state, self.dt)

    def inverse_dynamics(self, arm: int, q: FloatArray, v: FloatArray, a: FloatArray) -> FloatArray:
        """Return torques `(J,)` N m, see `World.inverse_dynamics`."""
        return self.robot_body.inverse_dynamics(arm, q, v, a)

    def push_parts(self, share: FloatArray) -> None:
        """Push parts during the next step; see `World.push_parts`."""
        for index, (part, fraction) in enumerate(zip(self.parts, share.tolist(), strict=True)):
            self.fixture_bodies.push(index, fraction * (part.force or 1.0))

    def _save(self) -> Callable[[], None]:
        """Return a function that restores positions, velocities and contacts.

        The caches of Bullet's solver are not: the same actions give nearly the same states, not the same to the bit.
        """
        return _SavedBodies(self)

    @property
    def inspection(self) -> BulletInspection:
        """Answers about the shapes in the client."""
        return BulletInspection(self.client, self.robot_body, self.fixture_bodies, self.object_bodies, self.state)

    def close(self) -> None:
        """Close the physics client; may be called repeatedly."""
        self._close()

    @property
    def closed(self) -> bool:
        """Whether the physics client is closed."""
        return not self._close.alive


class _SavedBodies:
    """A state in Bullet's memory, which is freed with this object."""

    def __init__(self, world: BulletWorld) -> None:
        self._world = world
        self._id = int(bullet.saveState(physicsClientId=world.client))
        world.saved_states.add(self._id)
        weakref.finalize(self, _free, world, world.resets, self._id).atexit = False

    def __call__(self) -> None:
        bullet.restoreState(stateId=self._id, physicsClientId=self._world.client)


def _free(world: BulletWorld, reset: int, state: int) -> None:
    if not world.closed and world.resets == reset:
        world.saved_states.discard(state)
        bullet.removeState(state, physicsClientId=world.client)


BodyLinks = Sequence[tuple[int, int | None]]


class BulletInspection(Inspection):
    """Answers about the shapes in a client; shapes are pairs of a body and a link, None for all links."""

    def __init__(
        self, client: int, robot: RobotBody, fixtures: FixtureBodies, objects: ObjectBodies, state: State
    ) -> None:
        self._client, self._robot_body, self._objects, self._state = client, robot, objects, state
        self._robot = robot.body
        self._fixtures = {name: [(body, None) for body in bodies] for name, bodies in fixtures.bodies.items()}

    def _links(self) -> dict[int, tuple[str, int]]:
        return {info[0]: (info[12].decode(), info[16]) for info in joint_infos(self._robot, self._client)}

    def _shapes_of(self, link: int) -> BodyLinks:
        return [(self._robot, link)]

    def _robot_shapes(self) -> BodyLinks:
        return [(self._robot, None)]

    @contextlib.contextmanager
    def _probe(self, spec: ObjectSpec | Sequence[float]) -> Iterator[BodyLinks]:
        client = self._client
        if isinstance(spec, ObjectSpec):
            body = add_object(client, spec, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
        else:
            shape = bullet.createCollisionShape(bullet.GEOM_BOX, halfExtents=spec, physicsClientId=client)
            body = int(bullet.createMultiBody(0.0, shape, physicsClientId=client))
        _, self._turn = bullet.getBasePositionAndOrientation(body, physicsClientId=client)
        yield [(body, None)]
        bullet.removeBody(body, physicsClientId=client)

    def _move(self, probe: BodyLinks, point: Sequence[float]) -> None:
        bullet.resetBasePositionAndOrientation(probe[0][0], point, self._turn, physicsClientId=self._client)

    def _overlap(self, shapes: BodyLinks, others: BodyLinks, depth: float = DEPTH) -> bool:
        for (body, link), (other, other_link) in itertools.product(shapes, others):
            links = {} if other_link is None else {"linkIndexB": other_link}
            links |= {} if link is None else {"linkIndexA": link}
            points = bullet.getClosestPoints(body, other, 0.0, physicsClientId=self._client, **links)
            if any(point[8] < -depth for point in points):
                return True
        return False

    def robot_corners(self) -> FloatArray:
        """Return the corners `(n, 3)` m of the boxes around the robot's links."""
        client, body = self._client, self._robot
        links = range(-1, bullet.getNumJoints(body, physicsClientId=client))
        return corners_of(np.array([bullet.getAABB(body, link, physicsClientId=client) for link in links]))

    def finger_boxes(self) -> list[FloatArray]:
        """Return the box `(2, 3)` m around each link of the first arm's gripper."""
        links, client = self._robot_body.fingers_of_links[0], self._client
        return [np.array(bullet.getAABB(self._robot, link, physicsClientId=client)) for link in links]

    def depth(self, k: int) -> float:
        """Return the penetration of object `k` into other bodies, m."""
        points = bullet.getContactPoints(self._objects.ids[k], physicsClientId=self._client)
        return max((-point[8] for point in points), default=0.0)

    def finger_points(self) -> list[list[tuple[FloatArray, FloatArray]]]:
        """Return the fingers' nearest points to the tool point, and the poses of their links; moves the fingers."""
        client, robot = self._client, self._robot_body
        gripper = robot.robot.arms[0].gripper
        assert gripper is not None, "the first arm has a gripper"
        infos = joint_infos(robot.body, client)
        joints = {info[1].decode(): index for index, info in enumerate(infos)}
        links = list(robot.fingers_of_links[0])
        if len(links) == 1:
            links.append(infos[links[0]][16])  # the link that carries the finger
        shape = bullet.createCollisionShape(bullet.GEOM_SPHERE, radius=PROBE, physicsClientId=client)
        tool = self._state.ee_position[0].tolist()
        probe = bullet.createMultiBody(0.0, shape, basePosition=tool, physicsClientId=client)
        postures = []
        for posture in (gripper.open, gripper.closed):
            for name, position in zip(gripper.joints, posture, strict=True):
                bullet.resetJointState(robot.body, joints[name], position, physicsClientId=client)
            fingers = []
            for link in links:
                if points := bullet.getClosestPoints(probe, robot.body, FAR, -1, link, physicsClientId=client):
                    state = bullet.getLinkState(robot.body, link, 0, 1, physicsClientId=client)
                    nearest = np.array(min(points, key=lambda point: float(point[8]))[6])
                    fingers.append((nearest, pose_matrix(state[4], quaternion_to_matrix(state[5]))))
            postures.append(fingers)
        return postures
