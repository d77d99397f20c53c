"""A world in a Bullet client."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

from mygym.engines.bullet.client import bullet, closing, connect
from mygym.engines.bullet.fixture_bodies import FixtureBodies
from mygym.engines.bullet.inspection import BulletInspection
from mygym.engines.bullet.object_bodies import ObjectBodies
from mygym.engines.bullet.robot_body import RobotBody
from mygym.engines.world import GRAVITY, World, WorldSpec
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
    """A world in a Bullet client, which is closed with it.

    Args:
        spec: The description.
        solver: Integration settings.

    Raises:
        ConfigError: See `World`.
        RegistryError: See `World`.
        AssetError: The robot's URDF cannot be used.
    """

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
        self.fixture_bodies = FixtureBodies(self.workspace, self.client, self.dt, substeps, GRAVITY)
        """The workspace's fixtures in the client."""
        self.object_bodies = ObjectBodies(self.client, GRAVITY, self.moving_distractors)
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
