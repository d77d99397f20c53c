"""MuJoCo worlds: many of one description, a single one, and what it answers about its shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

import mujoco
import numpy as np
from numpy.typing import NDArray

from mygym.engines.arrays import Arrays, Rows, cores
from mygym.engines.controllers import BatchArmControllers
from mygym.engines.inspection import DEPTH, FAR, PROBE, Inspection, corners_of
from mygym.engines.mujoco.bodies import FIELDS, Bodies
from mygym.engines.mujoco.model import Model, ModelBuilder
from mygym.engines.robots import simulated_model
from mygym.engines.world import World
from mygym.errors import RunError
from mygym.robotics.objects import ObjectSpec
from mygym.robotics.robot_spec import RobotSpec
from mygym.robotics.shapes import Piece, transformed
from mygym.robotics.transforms import pose_matrix, quaternion_to_matrix
from mygym.tasks.context import ArmCommand
from mygym.tasks.state import State
from mygym.types import Array, FloatArray

WORLDS_PER_THREAD = 16
"""Worlds from which a further thread is worth its start in each step."""


class MujocoWorlds:
    """`N` MuJoCo worlds, see `mygym.engines.world.BatchWorlds` for the methods; all objects are present in the model.

    A world's numbers are the same to the bit whatever `N`, the other worlds and the number of threads are.
    """

    randomized_fields = FIELDS
    threads: ClassVar[int | None] = None
    """Number of threads; None: one for each core, if there are enough worlds."""

    def __init__(self, world: World, model: Model, count: int) -> None:
        self.count, self.arrays = count, Arrays(np, None, double=True)
        self.action_size, self.action_repeat = world.action_size, world.action_repeat
        self._home, self._dt = world.home, world.dt
        threads = self.threads or max(1, min(cores(), count // WORLDS_PER_THREAD))
        mode = world.control.kind.mode
        self._bodies = Bodies(model, mode, count, world.dt, world.moving_distractors, threads)
        self._controllers = BatchArmControllers(world.arm_controllers, count, self.arrays)
        self._values: Mapping[str, Array] = {}
        self._is_loaded = False
        """Whether the next `randomize` has the parameters of the episodes that `load_state_dict` has restored."""
        self.state: State = world.empty_state(count)
        """The current states."""
        self.state.object_present[...], self.state.object_size[...] = True, world.state.object_size
        self.state.object_middle[...] = world.state.object_middle
        self._elapsed = np.zeros(count, dtype=np.int64)
        poses = world.objects_in_a_row()[None] + np.zeros((count, 1, 1))
        parts = np.array([part.rest for part in world.parts]) + np.zeros((count, 1))
        self.reset(Rows.all(count, self.arrays), poses, parts)

    def randomize(self, values: Mapping[str, Array]) -> None:
        """Set physical parameters of worlds from their next reset on, see `BatchWorlds.randomize`."""
        self._values = {name: value for name, value in values.items() if name in FIELDS}
        if self._is_loaded:
            self._set_parameters(np.arange(self.count))
            self._is_loaded = False

    def _set_parameters(self, at: NDArray[np.intp]) -> None:
        self._bodies.set_parameters(at, {name: values.T[at] for name, values in self._values.items()})

    def reset(self, rows: Rows, poses: Array, parts: Array) -> None:
        """Put worlds at the start of an episode, see `BatchWorlds.reset`."""
        at, state = _indices(rows), self.state
        self._set_parameters(at)
        self._bodies.load(at, self._home, np.asarray(parts, dtype=float), np.asarray(poses, dtype=float))
        state.object_depth[at] = 0.0
        self._bodies.read(state, at)
        self._elapsed[at] = 0
        state.time[at], state.gripper_command[at] = 0.0, 1.0
        state.hit[at], state.hit_position[at] = False, state.object_position[at]
        self._controllers.read(state)
        self._controllers.reset(rows, state)

    def step_all(self, actions: Array) -> None:
        """Advance all worlds by a control step, with actions `(N, A)` that are clipped to [-1, 1]."""
        state = self.state
        actions = np.minimum(np.maximum(np.asarray(actions, dtype=float), -1.0), 1.0)
        grippers = self._controllers.grippers(actions)
        self._bodies.advance(self._controllers.command(actions, state), grippers, state)
        self._elapsed += 1
        self._bodies.read(state)
        self._controllers.read(state)
        state.time[...] = self._elapsed * self._dt
        if state.hit.shape[1]:
            self._bodies.read_hits(state)
        self._controllers.read_offsets(state)
        if grippers.shape[1]:
            state.gripper_command[...] = 0.5 + 0.5 * grippers[:, 0]

    def actions_towards(self, command: ArmCommand) -> Array:
        """Return the actions `(N, A)` of a command, see `Worlds.actions_towards`."""
        return self._controllers.action_towards(self.state, command)

    def copy_from(self, other: MujocoWorlds, source: Array, rows: Rows) -> None:
        """Put the worlds `rows` into the states of the worlds `source` `(n,)` of others of the same description."""
        at = _indices(rows)
        self._restore(at, other._bodies.saved(source), {name: values[source] for name, values in other._measured()})
        self._elapsed[at] = other._elapsed[source]
        self._controllers.copy_from(other._controllers, source, rows)

    def _measured(self) -> Iterator[tuple[str, FloatArray]]:
        """Yield the arrays of the state by name."""
        return ((field.name, getattr(self.state, field.name)) for field in fields(self.state))

    def _restore(self, at: Any, bodies: Mapping[str, FloatArray], state: Mapping[str, FloatArray]) -> None:
        self._bodies.restore(at, bodies)
        for name, values in state.items():
            getattr(self.state, name)[at] = values

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, as numpy arrays."""
        state = {name: values.copy() for name, values in self._measured()}
        return {
            "bodies": self._bodies.saved(),
            "state": state,
            "elapsed": self._elapsed.copy(),
            "controllers": self._controllers.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`, to the bit."""
        self._restore(slice(None), state["bodies"], state["state"])
        self._elapsed[...] = state["elapsed"]
        self._controllers.load_state_dict(state["controllers"])
        self._is_loaded = True

    def variables(self) -> list[Array]:
        """Raise `RunError`: a step is not a computation of arrays, which a GPU could repeat."""
        raise RunError("engine mujoco: its steps are not computed on a GPU")

    def set_variables(self, arrays: Iterator[Array]) -> None:
        """Raise `RunError`, as `variables`."""
        self.variables()


def _indices(rows: Rows) -> NDArray[np.intp]:
    """Return the indices `(n,)` of worlds."""
    return np.asarray(rows.index, dtype=np.intp)


MAX_MODELS = 16
"""Models that a world keeps: one for each choice and size of its objects."""

_ROW = np.zeros(1, dtype=int)


class MujocoWorld(World):
    """A MuJoCo world; episodes of other objects, or objects of other sizes, have models of their own.

    Raises:
        AssetError: MuJoCo cannot represent a shape; for further errors see `World`.
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
            model = self._builder(objects).model(self.dt / self.substeps)
            self._bodies_of[key] = Bodies(model, self.control.kind.mode, 1, self.dt, self.moving_distractors)
        return self._bodies_of[key]

    def _builder(self, objects: Mapping[int, ObjectSpec]) -> ModelBuilder:
        return ModelBuilder(self.robot, self.workspace, objects, self.has_gripper, self.control.kind.mode)

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
        objects = self.bodies.model.objects
        return MujocoInspection(
            lambda probe: self._builder(objects).shapes(probe),
            self.robot,
            self.bodies.positions[0],
            self.state.ee_position[0],
        )

    def batch(self, count: int) -> MujocoWorlds:
        """Return `count` worlds of this description, see `World.batch`."""
        return MujocoWorlds(self, self.bodies.model, count)


class CoarseMujocoWorld(MujocoWorld):
    """A MuJoCo world whose physics steps take 10 ms, for training of tasks without delicate contacts."""

    substeps = 4


Geoms = Sequence[int]
"""Numbers of geoms."""

_ORIGIN = (0.0, 0.0, 0.0)
_OUT_OF_THE_WAY = (0.0, 0.0, -100.0)
_ROUND = (mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE)


class MujocoInspection(Inspection):
    """Answers about the shapes of a world, which does not change; shapes are numbers of geoms.

    Args:
        build: Function of the shapes of a probe that returns `ModelBuilder.shapes` of the world.
        robot: The robot.
        positions: MuJoCo's positions `(nq,)` of the world.
        tool: `(3,)` m, tool point of the first arm.
    """

    def __init__(
        self,
        build: Callable[[Sequence[Piece]], tuple[Any, dict[str, list[int]]]],
        robot: RobotSpec,
        positions: FloatArray,
        tool: FloatArray,
    ) -> None:
        self._build, self._robot = build, robot
        self._positions, self._tool = positions.copy(), tool.copy()
        self._put(())

    def _put(self, probe: Sequence[Piece]) -> Geoms:
        """Build the world with a probe, which is out of the way, and return the probe's geoms."""
        self._model, self._fixtures = self._build(probe)
        self._data = mujoco.MjData(self._model)
        self._data.qpos[: len(self._positions)] = self._positions
        self._move((), _OUT_OF_THE_WAY)
        return self._shapes_of(self._model.body("probe").id)

    def _move(self, probe: Geoms, point: Sequence[float]) -> None:
        self._data.qpos[-7:-4] = point
        mujoco.mj_kinematics(self._model, self._data)

    def _shapes_of(self, link: int) -> Geoms:
        first, count = int(self._model.body_geomadr[link]), int(self._model.body_geomnum[link])
        return range(first, first + count)

    def _bodies(self) -> dict[int, str]:
        """Return the bodies of the robot's links, in the order of the tree; the first is its base."""
        names = {body: self._model.body(body).name for body in range(self._model.nbody)}
        return {body: name.removeprefix("robot/") for body, name in names.items() if name.startswith("robot/")}

    def _links(self) -> dict[int, tuple[str, int]]:
        bodies, parents = self._bodies(), self._model.body_parentid.tolist()
        return {body: (bodies[body], parents[body]) for body in list(bodies)[1:]}

    def _robot_shapes(self) -> Geoms:
        return [geom for body in self._bodies() for geom in self._shapes_of(body)]

    @contextlib.contextmanager
    def _probe(self, spec: ObjectSpec | Sequence[float]) -> Iterator[Geoms]:
        if isinstance(spec, ObjectSpec):
            model = pose_matrix(_ORIGIN, quaternion_to_matrix(spec.body.principal))
            yield self._put([transformed(piece, model) for piece in spec.body.pieces])
        else:
            yield self._put([Piece("box", tuple(2 * half for half in spec))])

    def _overlap(self, geoms: Geoms, others: Geoms, depth: float = DEPTH) -> bool:
        return self._distance(geoms, others) < -depth

    def _distance(self, geoms: Geoms, others: Geoms) -> float:
        """Return the smallest signed distance of two groups of geoms, m; 0 if they are apart."""
        model, data = self._model, self._data
        if not (geoms and others):
            return 0.0
        a, b = np.array(geoms), np.array(others)
        between = np.linalg.norm(data.geom_xpos[a][:, None] - data.geom_xpos[b], axis=2)
        near = between < model.geom_rbound[a][:, None] + model.geom_rbound[b]
        pairs = np.argwhere(near).tolist()
        return min((mujoco.mj_geomDistance(model, data, a[i], b[j], 0.0, None) for i, j in pairs), default=0.0)

    def robot_corners(self) -> FloatArray:
        """Return the corners `(n, 3)` m of the boxes around the robot's links."""
        return corners_of(np.array([self._box_around(body) for body in self._bodies() if self._shapes_of(body)]))

    def finger_boxes(self) -> list[FloatArray]:
        """Return the box `(2, 3)` m around each link of the first arm's gripper."""
        return [self._box_around(link) for link in self._finger_links()]

    def _box_around(self, body: int) -> FloatArray:
        """Return the lowest and highest corner `(2, 3)` m of the box around the geoms of a body."""
        model, data = self._model, self._data
        lows, highs = [], []
        for geom in self._shapes_of(body):
            rotation, (centre, half) = data.geom_xmat[geom].reshape(3, 3), model.geom_aabb[geom].reshape(2, 3)
            radius = model.geom_size[geom, 0] if model.geom_type[geom] in _ROUND else 0.0
            middle, reach = data.geom_xpos[geom] + rotation @ centre, np.abs(rotation) @ (half - radius) + radius
            lows.append(middle - reach)
            highs.append(middle + reach)
        return np.stack([np.min(lows, axis=0), np.max(highs, axis=0)])

    def _finger_links(self) -> list[int]:
        """Return the bodies of the links of the first arm's gripper."""
        gripper = self._robot.arms[0].gripper
        assert gripper is not None, "the first arm has a gripper"
        _, merged = simulated_model(self._robot, True, "position")
        return [self._model.body(f"robot/{merged[name][0]}").id for name in gripper.links]

    def depth(self, k: int) -> float:
        """Return the penetration of object `k` into other bodies, m."""
        body = self._model.body(f"object/{k}").id
        others = [geom for each in self._fixtures.values() for geom in each]
        for other in range(1, self._model.nbody):
            if other != body and self._model.body(other).name.startswith(("robot/", "object/")):
                others += self._shapes_of(other)
        return -self._distance(self._shapes_of(body), others)

    def finger_points(self) -> list[list[tuple[FloatArray, FloatArray]]]:
        """Return the fingers' nearest points to the tool point, and the poses of their links."""
        gripper, links = self._robot.arms[0].gripper, self._finger_links()
        assert gripper is not None, "the first arm has a gripper"
        if len(links) == 1:
            links.append(int(self._model.body_parentid[links[0]]))  # the link that carries the finger
        (probe,) = self._put((Piece("sphere", (PROBE,)),))
        model, data, segment = self._model, self._data, np.zeros(6)
        joints = [int(model.joint(f"robot/{name}").qposadr[0]) for name in gripper.joints]
        postures = []
        for posture in (gripper.open, gripper.closed):
            data.qpos[joints] = posture
            self._move((), self._tool.tolist())
            fingers = []
            for link in links:
                found: list[tuple[float, FloatArray]] = []
                for geom in self._shapes_of(link):
                    distance = mujoco.mj_geomDistance(model, data, probe, geom, FAR, segment)
                    if distance < FAR:
                        found.append((distance, segment[3:].copy()))
                if found:
                    nearest = min(found, key=lambda each: each[0])[1]
                    fingers.append((nearest, pose_matrix(data.xpos[link], data.xmat[link].reshape(3, 3))))
            postures.append(fingers)
        return postures
