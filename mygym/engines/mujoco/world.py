"""A single MuJoCo world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import mujoco
import numpy as np

from mygym.engines.mujoco.batch import MujocoWorlds
from mygym.engines.mujoco.bodies import FIELDS, Bodies
from mygym.engines.mujoco.inspection import MujocoInspection
from mygym.engines.mujoco.model import Model, build_model, build_shapes
from mygym.engines.world import World
from mygym.tasks.state import State
from mygym.types import FloatArray

MAX_MODELS = 16
"""Models that a world keeps: one for each choice and size of its objects."""

_ROW = np.zeros(1, dtype=int)


class MujocoWorld(World):
    """A MuJoCo world; episodes of other objects, or objects of other sizes, have models of their own.

    Args:
        spec: The description.

    Raises:
        ConfigError: See `World`.
        RegistryError: See `World`.
        AssetError: The robot's URDF cannot be used, or MuJoCo cannot represent a shape.
    """

    batched = True
    substeps: ClassVar[int] = 8
    """Physics steps in a control step: of 5 ms."""

    def _build(self) -> None:
        self._bodies_of: dict[object, Bodies] = {}
        self._scratch: tuple[Model, Any] | None = None
        self.bodies = self._bodies()
        """The bodies of the episode."""

    def _bodies(self) -> Bodies:
        """Return the bodies for the objects of the episode."""
        objects = {k: spec for k, spec in enumerate(self.objects) if self.present[k]}
        key = tuple(objects.items())
        if key not in self._bodies_of:
            if len(self._bodies_of) >= MAX_MODELS:
                del self._bodies_of[next(iter(self._bodies_of))]
            mode, gripper = self.control.kind.mode, self.has_gripper
            model = build_model(self.robot, self.workspace, objects, gripper, mode, self.dt / self.substeps)
            self._bodies_of[key] = Bodies(model, mode, 1, self.dt, self.moving_distractors)
        return self._bodies_of[key]

    def _load(self, joint_position: FloatArray, part_position: list[float], object_poses: FloatArray) -> None:
        self.bodies = bodies = self._bodies()
        values = {name: getattr(self.randomization, name) for name in FIELDS}
        bodies.set_parameters(_ROW, {name: np.array([each]) for name, each in values.items() if each})
        bodies.load(_ROW, joint_position, np.array(part_position), np.asarray(object_poses, dtype=float)[None])
        state = self.state
        state.touch[...] = state.finger_contact[...] = state.second_finger_contact[...] = False

    def _advance(self, command: FloatArray, grippers: FloatArray) -> None:
        self.bodies.advance(command[None], grippers[None], self.state)

    def _read(self, state: State) -> None:
        self.bodies.read(state)

    def _read_hits(self, state: State) -> None:
        self.bodies.read_hits(state)

    def inverse_dynamics(self, arm: int, q: FloatArray, v: FloatArray, a: FloatArray) -> FloatArray:
        """Return torques `(J,)` N m, see `World.inverse_dynamics`."""
        model = self.bodies.model
        first = sum(len(each.joints) for each in self.robot.arms[:arm])
        joints = slice(first, first + len(q))
        at_q, at_v = model.arm_q[joints], model.arm_v[joints]
        if self._scratch is None or self._scratch[0] is not model:
            self._scratch = model, mujoco.MjData(model.compiled)
        data = self._scratch[1]
        data.qpos[at_q], data.qvel[at_v], data.qacc[at_v] = q, v, a
        mujoco.mj_fwdPosition(model.compiled, data)
        mujoco.mj_fwdVelocity(model.compiled, data)
        torques = np.zeros(model.compiled.nv)
        mujoco.mj_rne(model.compiled, data, 1, torques)
        return torques[at_v]

    def push_parts(self, share: FloatArray) -> None:
        """Push parts during the next step; see `World.push_parts`."""
        self.bodies.push(share * [part.force or 1.0 for part in self.parts])

    def _save(self) -> Callable[[], None]:
        bodies, saved = self.bodies, self.bodies.saved()
        return lambda: bodies.restore(_ROW, saved)

    @property
    def inspection(self) -> MujocoInspection:
        """Answers about the shapes of the world's bodies in its current state."""
        objects, gripper = self.bodies.model.objects, self.has_gripper
        model = partial(build_shapes, self.robot, self.workspace, objects, gripper, self.control.kind.mode)
        return MujocoInspection(model, self.robot, self.bodies.positions[0], self.state.ee_position[0])

    def batch(self, count: int) -> MujocoWorlds:
        """Return `count` worlds of this description, see `World.batch`."""
        return MujocoWorlds(self, self.bodies.model, count)


class CoarseMujocoWorld(MujocoWorld):
    """A MuJoCo world whose physics steps take 10 ms, for training of tasks without delicate contacts."""

    substeps = 4
