"""The bodies of `N` MuJoCo worlds of one model: reset, motors, physics and measurement, as arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from mygym.engines.mujoco.model import Model, decay
from mygym.engines.robots import finger_speeds, motor_rate, width_coefficients
from mygym.engines.world import GRAVITY, HIT, PRESSED, MovingDistractor
from mygym.robotics.controllers import Mode
from mygym.tasks.state import State
from mygym.types import FloatArray

Parameters = Mapping[str, FloatArray]
"""Field of `EpisodeRandomization` → values `(n, k)` of objects, or `(n, J)` of joints, of some worlds."""

FIELDS = ("object_mass", "object_friction", "object_damping", "joint_friction", "joint_gain")
"""Fields of `EpisodeRandomization` that change bodies."""

AHEAD = 0.14
"""Share of a velocity's change that is added to it, so that a motor that reaches it late covers the same distance."""

MAX_PERSISTENT = 512
"""Number of worlds up to which each keeps 0.2 MB of intermediate results, which saves it 7 % of a step."""

TOOL_SENSORS = (("position", 3), ("orientation", 4), ("velocity", 3))
"""Sensors of a tool point, and the lengths of their values."""

_NONE, _VELOCITY = int(mujoco.mjtStage.mjSTAGE_NONE), int(mujoco.mjtStage.mjSTAGE_VEL)


class Bodies:
    """The bodies of `N` worlds.

    A row depends neither on the others, nor on the number of rows or of threads, to the last bit.

    Args:
        model: The model.
        mode: Meaning of the commands of joints.
        count: `N`.
        dt: s, duration of a control step.
        moving: Index of an object → its motion; such objects are weightless.
        threads: Number of threads that advance the worlds.
    """

    def __init__(
        self, model: Model, mode: Mode, count: int, dt: float, moving: Mapping[int, MovingDistractor], threads: int = 1
    ) -> None:
        self.model, self.count, self._mode, self._dt = model, count, mode, dt
        self._substeps = round(dt / model.compiled.opt.timestep)
        self._moving = {k: distractor for k, distractor in moving.items() if k in model.objects}
        self._batch = batch = Batch(model.compiled, count, threads, count <= MAX_PERSISTENT)
        self._q, self._v, self._control, self._forces, self._sensors = (
            batch.bind(name) for name in ("qpos", "qvel", "ctrl", "xfrc_applied", "sensordata")
        )
        robot, grips = model.robot, model.grippers
        self._speeds = np.array([joint.velocity for arm in robot.arms for joint in arm.joints])
        lengths = np.cumsum([0, *(len(arm.joints) for arm in robot.arms)]).tolist()
        self._arms = [slice(begin, end) for begin, end in pairwise(lengths)]
        self._deceleration = robot.motor.acceleration
        self._open = np.array([position for grip in grips for position in grip.open])
        self._closed = np.array([position for grip in grips for position in grip.closed])
        self._hands = np.repeat(np.arange(len(grips)), [len(grip.joints) for grip in grips])
        self._finger_speeds = np.array([speed for grip in grips for speed in finger_speeds(grip)])
        self._finger_rate = (1.0 - math.exp(-robot.motor.position_gain * dt)) / dt
        self._widths = [np.array(width_coefficients(grip)).reshape(-1, 2).T for grip in model.gripper_of_arm]
        masses = [0.0 if k in self._moving else spec.mass for k, spec in model.objects.items()]
        self._weights = -GRAVITY * np.tile(masses, (count, 1))
        self._gain: FloatArray | None = None
        self._pushed: Any = None
        self._changed: set[str] = set()
        self._index_parts()
        self._index_sensors()
        present = len(model.objects)
        self._present: Any = slice(None) if model.present.tolist() == list(range(present)) else model.present
        self._start = np.zeros((count, present, 3))

    def _index_parts(self) -> None:
        model = self.model
        self._axes = np.array([part.axis for part in model.parts]).reshape(-1, 3)
        self._slides = np.array([part.slides for part in model.parts], dtype=bool)
        self._lifted = np.array([p for p, part in enumerate(model.parts) if part.lifts], dtype=int)
        self._part_weights = -GRAVITY * model.compiled.body_mass[model.part_bodies[self._lifted]]
        if model.parts:
            self._body_position, self._body_axes = self._batch.bind("xpos"), self._batch.bind("xmat")

    def _index_sensors(self) -> None:
        model = self.model
        self._tools = [
            [model.sensor(f"tool/{number}/{name}", size) for name, size in TOOL_SENSORS]
            for number in range(len(model.robot.arms))
        ]

        def found(names: list[str], size: int = 1) -> NDArray[np.intp]:
            """Return the addresses `(len, size)` of sensors; `(len,)` for a size of 1."""
            at = np.array([range(model.compiled.nsensordata)[model.sensor(name, size)] for name in names], dtype=int)
            return at.reshape(-1) if size == 1 else at.reshape(-1, size)

        objects = list(model.objects)
        self._handles = found([f"handle/{p}" for p in range(len(model.parts))], 3)
        self._spins = found([f"spin/{k}" for k in objects], 3)
        self._touches = found([f"touch/{k}" for k in objects])
        self._fingers = [
            found([f"finger/{k}/{hand}/{finger}" for k in objects for finger in range(len(grip.links))]).reshape(
                len(objects), len(grip.links)
            )
            for hand, grip in enumerate(model.grippers)
        ]
        others = len(model.parts) + len(objects)  # the world, parts, and the other objects
        names = [f"depth/{k}/{number}" for k in objects for number in range(others)]
        self._depths = found(names).reshape(len(objects), others)
        at = np.arange(3)
        self._positions = model.object_q[:, None] + at
        self._orientations = model.object_q[:, None] + np.array([4, 5, 6, 3])
        self._velocities = model.object_v[:, None] + at

    @property
    def positions(self) -> FloatArray:
        """MuJoCo's positions `(N, nq)`, m, rad and quaternions."""
        return np.asarray(self._q)

    # Reset ----------------------------------------------------------------------------------------------------------

    def set_parameters(self, rows: NDArray[np.intp], parameters: Parameters) -> None:
        """Set parameters of the worlds `rows` `(n,)` from their next `load` on; an absent field has its default."""
        self._changed |= set(parameters)
        for name in self._changed - {"object_damping"}:
            getattr(self, f"_set_{name}")(rows, parameters.get(name))
        if self._changed & {"object_mass", "object_damping"}:
            self._set_damping(rows, parameters)

    def _of_objects(self, values: FloatArray | None, n: int) -> FloatArray:
        """Return values `(n, m)` of the objects that are present."""
        return np.ones((n, len(self.model.objects))) if values is None else values[:, self.model.present]

    def _set_object_mass(self, rows: NDArray[np.intp], factors: FloatArray | None) -> None:
        model, compiled = self.model, self.model.compiled
        bodies, factor = model.object_bodies, self._of_objects(factors, len(rows))
        self._batch.expand("body_mass")[np.ix_(rows, bodies)] = compiled.body_mass[bodies] * factor
        moments = compiled.body_inertia[bodies] * factor[:, :, None]
        self._batch.expand("body_inertia")[np.ix_(rows, bodies)] = moments
        self._batch.set_const(rows)
        is_heavy = np.array([k not in self._moving for k in model.objects])
        self._weights[rows] = -GRAVITY * compiled.body_mass[bodies] * factor * is_heavy
        self._weigh(rows)

    def _set_object_friction(self, rows: NDArray[np.intp], factors: FloatArray | None) -> None:
        factor = self._of_objects(factors, len(rows))
        of_pairs = np.where(self.model.pair_owners, factor[:, None, :], 1.0).prod(axis=2)
        self._batch.expand("pair_friction")[rows] = self.model.compiled.pair_friction * of_pairs[:, :, None]

    def _set_damping(self, rows: NDArray[np.intp], parameters: Parameters) -> None:
        model, lost = self.model, parameters.get("object_damping")
        share = np.zeros((len(rows), len(model.objects))) if lost is None else lost[:, model.present]
        rate = decay(share) * self._of_objects(parameters.get("object_mass"), len(rows))
        self._batch.expand("dof_damping")[rows[:, None, None], model.object_dofs] = (
            rate[:, :, None] * model.object_inertia
        )

    def _set_joint_friction(self, rows: NDArray[np.intp], shares: FloatArray | None) -> None:
        model = self.model
        share = np.zeros((len(rows), len(model.arm_v))) if shares is None else shares
        force = model.compiled.actuator_forcerange[model.arm_motors, 1]
        if self._mode == "torque":
            self._batch.expand("dof_frictionloss")[np.ix_(rows, model.arm_v)] = share * force
            return
        left = (1.0 - share) * force
        self._batch.expand("actuator_forcerange")[np.ix_(rows, model.arm_motors)] = np.stack([-left, left], axis=2)

    def _set_joint_gain(self, rows: NDArray[np.intp], gains: FloatArray | None) -> None:
        if self._gain is None:
            self._gain = np.ones((self.count, len(self._speeds)))
        self._gain[rows] = 1.0 if gains is None else gains

    def load(
        self, rows: NDArray[np.intp], joint_position: FloatArray, part_position: FloatArray, poses: FloatArray
    ) -> None:
        """Put worlds at rest with open fingers; what came before has no effect.

        Args:
            rows: `(n,)` whole numbers: the worlds.
            joint_position: `(J,)` or `(n, J)` rad.
            part_position: `(P,)` or `(n, P)` m or rad.
            poses: `(n, k, 7)` m and quaternions of the objects' centres of mass, also of those that are absent.
        """
        model, q = self.model, self._q
        self._batch.reset(rows, stage=_NONE)
        q[np.ix_(rows, model.arm_q)] = joint_position
        q[np.ix_(rows, model.finger_q)] = self._open
        q[np.ix_(rows, model.part_q)] = part_position
        pose = poses[:, model.present]
        q[rows[:, None, None], self._positions] = pose[:, :, :3]
        q[rows[:, None, None], self._orientations] = pose[:, :, 3:]
        self._forces[rows[:, None], model.part_bodies[self._lifted], 2] = self._part_weights
        self._weigh(rows)
        self._batch.forward(rows, stage=_VELOCITY)
        self._start[rows] = pose[:, :, :3]

    def _weigh(self, rows: NDArray[np.intp]) -> None:
        """Set the weights of the objects in the worlds `rows` `(n,)`: they are forces, which do not follow masses."""
        self._forces[rows[:, None], self.model.object_bodies, 2] = self._weights[rows]

    # A control step -------------------------------------------------------------------------------------------------

    def advance(self, command: FloatArray, grippers: FloatArray, state: State) -> None:
        """Advance all worlds by a control step.

        Args:
            command: `(N, J)` positions in rad, velocities in rad/s or torques in N m.
            grippers: `(N, G)` openings of the grippers, -1 closed to +1 open.
            state: The measured state.
        """
        model, control = self.model, self._control
        arrays = (state.object_position, state.object_velocity, state.touch)
        self._before = tuple(array[:, self._present].copy() for array in arrays)
        if self._mode == "position":
            command = self._velocity_towards(command - self._q[:, model.arm_q])
        if self._gain is not None:
            command = command * self._gain
        if self._mode != "torque":
            command = command + AHEAD * (command - self._v[:, model.arm_v])
        control[:, model.arm_motors] = command
        if len(self._open):
            target = self._closed + (self._open - self._closed) * (0.5 + 0.5 * grippers[:, self._hands])
            velocity = (target - self._q[:, model.finger_q]) * self._finger_rate
            control[:, model.finger_motors] = np.minimum(
                np.maximum(velocity, -self._finger_speeds), self._finger_speeds
            )
        for k, distractor in self._moving.items():
            self._drive(k, distractor, state.time)
        self._batch.step(nstep=self._substeps, stage=_VELOCITY)
        if self._pushed is not None:
            self._pushed[...] = 0.0

    def push(self, forces: FloatArray) -> None:
        """Push the articulated parts of all worlds with `(N, P)` N or N m during the next `advance`."""
        if self._pushed is None:
            self._pushed = self._batch.bind("qfrc_applied")
        self._pushed[:, self.model.part_v] = forces

    def _velocity_towards(self, missing: FloatArray) -> FloatArray:
        """Return target velocities `(N, J)` rad/s.

        Args:
            missing: `(N, J)` rad from the joints to their targets.
        """
        for arm in self._arms:
            errors, speeds = missing[:, arm], self._speeds[arm, None]
            errors *= motor_rate(errors.T, speeds, self._deceleration, self._dt, np)[:, None]
        return missing

    def _drive(self, k: int, distractor: MovingDistractor, time: FloatArray) -> None:
        """Set the velocities of an object that moves to and fro; it does not rotate."""
        m = int(np.flatnonzero(self.model.present == k)[0])
        columns = self._start[:, m].tolist(), self._q[:, self._positions[m]].tolist(), time.tolist()
        worlds = zip(*columns, strict=True)
        self._v[:, self._velocities[m]] = [distractor.velocity(*world, self._dt) for world in worlds]
        self._v[:, self._velocities[m] + 3] = 0.0

    def read(self, state: State, rows: Any = slice(None)) -> None:
        """Fill the arrays of a state that are measured, except hits, for the worlds `rows` `(n,)`, all by default."""
        model, q, v, sensors = self.model, self._q[rows], self._v[rows], self._sensors[rows]
        state.joint_position[rows], state.joint_velocity[rows] = q[:, model.arm_q], v[:, model.arm_v]
        first = 0
        for number, ((position, orientation, velocity), widths) in enumerate(
            zip(self._tools, self._widths, strict=True)
        ):
            fingers = q[:, model.finger_q[first : first + widths.shape[1]]]
            first += widths.shape[1]
            width = (widths[0] * (fingers - widths[1])).sum(axis=1)
            turned = sensors[:, orientation][:, [1, 2, 3, 0]]
            if number == 0:
                state.ee_position[rows], state.ee_orientation[rows] = sensors[:, position], turned
                state.ee_velocity[rows], state.gripper_width[rows] = sensors[:, velocity], width
            else:
                at = rows, number - 1
                state.second_ee_position[at], state.second_ee_orientation[at] = sensors[:, position], turned
                state.second_ee_velocity[at], state.second_gripper_width[at] = sensors[:, velocity], width
        if model.parts:
            state.part_position[rows], state.part_velocity[rows] = q[:, model.part_q], v[:, model.part_v]
            self._read_handles(state, rows, sensors[:, self._handles])
        if model.objects:
            self._read_objects(state, rows, q, v, sensors)

    def _read_handles(self, state: State, rows: Any, handle: FloatArray) -> None:
        bodies = self.model.part_bodies
        state.part_handle_position[rows] = handle
        axes = self._body_axes[rows].reshape(len(handle), -1, 3, 3)[:, bodies]
        axis = (axes * self._axes[:, None, :]).sum(axis=3)
        lever = handle - self._body_position[rows].reshape(len(handle), -1, 3)[:, bodies]
        state.part_handle_motion[rows] = np.where(self._slides[:, None], axis, np.cross(axis, lever))

    def _read_objects(self, state: State, rows: Any, q: FloatArray, v: FloatArray, sensors: FloatArray) -> None:
        at = rows, self._present
        state.object_position[at], state.object_orientation[at] = q[:, self._positions], q[:, self._orientations]
        state.object_velocity[at] = v[:, self._velocities]
        state.object_angular_velocity[at] = sensors[:, self._spins]
        state.touch[at] = touch = sensors[:, self._touches] > 0.0
        contacts = iter(self._fingers)
        for grip, array in zip(
            self.model.gripper_of_arm, (state.finger_contact, state.second_finger_contact), strict=False
        ):
            if grip is not None:
                array[at] = sensors[:, next(contacts)] > 0.0
        depth = state.object_depth[at]
        pressed = touch | (depth > PRESSED)
        if pressed.any() or depth.any():
            measured = np.maximum(-sensors[:, self._depths].min(axis=2), 0.0)
            state.object_depth[at] = np.where(pressed, measured, depth)

    def read_hits(self, state: State) -> None:
        """Fill a state's hits in the last control step: changes of velocity that are not due to gravity or the robot.

        The formula is that of `position_at_hit`.
        """
        state.hit_position[...] = state.object_position
        state.hit[...] = False
        start, velocity, touched = self._before
        present, dt = self._present, self._dt
        fall = np.array([0.0, 0.0, -GRAVITY])
        change = state.object_velocity[:, present] - velocity - fall * dt
        size = (change * change).sum(axis=2)
        hit = (size >= HIT * HIT) & ~touched & ~state.touch[:, present]
        for k in self._moving:
            hit[:, self.model.present == k] = False
        if not hit.any():
            return
        beside = state.object_position[:, present] - start - velocity * dt - 0.5 * fall * dt * dt
        rest = np.minimum(np.maximum((beside * change).sum(axis=2) / np.maximum(size, 1e-12), 0.0), dt)
        t = (dt - rest)[:, :, None]
        where = start + velocity * t + 0.5 * fall * t * t
        state.hit[:, present] = hit
        state.hit_position[:, present] = np.where(hit[:, :, None], where, state.hit_position[:, present])

    # Snapshots ------------------------------------------------------------------------------------------------------

    def saved(self, rows: Any = slice(None)) -> dict[str, FloatArray]:
        """Return copies of all that the next steps of some worlds depend on, besides their parameters."""
        return {"physics": self._batch.state[rows].copy(), "start": self._start[rows].copy()}

    def restore(self, rows: Any, saved: Mapping[str, FloatArray]) -> None:
        """Put worlds into states that `saved` has returned, to the bit, but with the weights of their own objects."""
        self._batch.state[rows], self._start[rows] = saved["physics"], saved["start"]
        self._weigh(np.arange(self.count)[rows])
