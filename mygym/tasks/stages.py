"""The built-in stages: approach, grasp, move, drop, withdraw, push.

Each declares the facts it requires and gives, how far along it is, where it wants the end effector when it begins, and
how an expert acts in it. Completion follows from the facts that it gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mygym.registry import registry
from mygym.tasks.facts import Thresholds, distance, target
from mygym.tasks.progress import Progress
from mygym.tasks.state import Array, State, namespace

OPEN, CLOSED = 1.0, -1.0
"""Gripper commands."""

EntryPoint = Callable[[State, Array], Array]
Potential = Callable[[State, Progress, Array, Thresholds], Array]
Expert = Callable[[State, Progress, Array, EntryPoint], tuple[Array, Array]]


@dataclass(frozen=True)
class Stage:
    """One stage of a task; every function takes batches of `N` states and goals `(N, 3)` in the world frame."""

    name: str
    letter: str
    """One capital letter for compositions such as `AGMDW`; empty if the stage has none."""
    requires: tuple[str, ...]
    """Facts that must hold for it to start."""
    gives: tuple[str, ...]
    """Facts that hold when it is complete."""
    phrase: str
    """What it does, for descriptions."""
    potential: Potential
    """`(N,)` in [0, 1]: how far along the stage is."""
    expert: Expert
    """`(state, progress, goal, entry of the next stage)` → end-effector target `(N, 3)`, gripper command `(N,)`."""
    ends: tuple[str, ...] = ()
    """Facts that need not hold any more once it has begun, besides those that what it gives excludes."""
    entry: EntryPoint | None = None
    """Where the end effector should be when the stage begins; None: anywhere."""
    needs_object: bool = True
    needs_gripper: bool = False


def register_stage(name: str, stage: Stage) -> Stage:
    """Make `stage` known under its name (and letter, if it has one) to every composition."""
    registry("stage").register(name, stage, help=stage.phrase)
    return stage


def _share_covered(left: Array, at_start: Array) -> Array:
    """1 − left / at_start within [0, 1]."""
    xp = namespace(left)
    return 1.0 - xp.clip(left / xp.clip(at_start, 1e-6, None), 0.0, 1.0)


def _gripper(state: State, command: float) -> Array:
    """`(N,)`: the same command for every episode."""
    return state.time * 0.0 + command


def _with_height(position: Array, height: Array) -> Array:
    xp = namespace(position)
    return xp.stack([position[:, 0], position[:, 1], height], axis=-1)


def _planar_distance(a: Array, b: Array) -> Array:
    return distance(a[:, :2], b[:, :2])


def _limited(start: Array, end: Array, step: float) -> Array:
    """The point at most `step` metres from `start` on the way to `end`."""
    xp = namespace(start)
    away = distance(start, end)[:, None]
    return start + (end - start) * xp.clip(step / xp.clip(away, 1e-9, None), None, 1.0)


# approach -----------------------------------------------------------------------------------------------------------


def _approach_potential(state: State, progress: Progress, goal: Array, thresholds: Thresholds) -> Array:
    there = target(state, goal)
    before = progress.start_object_position[:, 0] if progress.start_object_position.shape[1] else goal
    return _share_covered(distance(state.ee_position, there), distance(progress.start_ee_position, before))


def _approach_expert(state: State, progress: Progress, goal: Array, entry: EntryPoint) -> tuple[Array, Array]:
    if not state.object_position.shape[1]:
        return goal, _gripper(state, OPEN)
    return _over_then_down(state, entry(state, goal)), _gripper(state, OPEN)


def _over_then_down(state: State, there: Array) -> Array:
    """Fly to `there` above the object and come down beside or onto it, so that nothing is knocked on the way."""
    xp = namespace(there)
    cruise = state.object_position[:, 0, 2] + 0.10
    above = _planar_distance(state.ee_position, there) > 0.02
    return _with_height(there, xp.where(above, xp.maximum(cruise, there[:, 2]), there[:, 2]))


# grasp --------------------------------------------------------------------------------------------------------------


def _grasp_entry(state: State, goal: Array) -> Array:
    there = state.object_position[:, 0]
    return _with_height(there, there[:, 2] + 0.05)


def _grasp_potential(state: State, progress: Progress, goal: Array, thresholds: Thresholds) -> Array:
    xp = namespace(state.ee_position)
    closeness = 1.0 - xp.clip(distance(state.ee_position, state.object_position[:, 0]) / thresholds.near, 0.0, 1.0)
    touch = xp.astype(state.finger_contact[:, 0], closeness.dtype)
    return 0.5 * closeness + 0.5 * touch.mean(-1)


def _grasp_expert(state: State, progress: Progress, goal: Array, entry: EntryPoint) -> tuple[Array, Array]:
    there = state.object_position[:, 0]
    xp = namespace(there)
    at = distance(state.ee_position, there) < 0.012
    return xp.where(at[:, None], there, _over_then_down(state, there)), xp.where(at, CLOSED, OPEN)


# move ---------------------------------------------------------------------------------------------------------------


def _move_potential(state: State, progress: Progress, goal: Array, thresholds: Thresholds) -> Array:
    before = progress.start_object_position[:, 0]
    return _share_covered(distance(state.object_position[:, 0], goal), distance(before, goal))


def _move_expert(state: State, progress: Progress, goal: Array, entry: EntryPoint) -> tuple[Array, Array]:
    xp = namespace(goal)
    there = goal + state.ee_position - state.object_position[:, 0]
    far = _planar_distance(state.object_position[:, 0], goal) > 0.03
    height = xp.where(far, xp.maximum(there[:, 2], progress.start_ee_position[:, 2] + 0.08), there[:, 2])
    return _limited(state.ee_position, _with_height(there, height), 0.04), _gripper(state, CLOSED)


# drop ---------------------------------------------------------------------------------------------------------------


def _drop_potential(state: State, progress: Progress, goal: Array, thresholds: Thresholds) -> Array:
    xp = namespace(state.ee_position)
    return 1.0 - xp.astype(state.finger_contact[:, 0], state.ee_position.dtype).mean(-1)


def _drop_expert(state: State, progress: Progress, goal: Array, entry: EntryPoint) -> tuple[Array, Array]:
    return goal + progress.start_ee_position - progress.start_object_position[:, 0], _gripper(state, OPEN)


# withdraw -----------------------------------------------------------------------------------------------------------


def _withdraw_potential(state: State, progress: Progress, goal: Array, thresholds: Thresholds) -> Array:
    xp = namespace(state.ee_position)
    return xp.clip(distance(state.ee_position, target(state, goal)) / thresholds.clear, 0.0, 1.0)


def _withdraw_expert(state: State, progress: Progress, goal: Array, entry: EntryPoint) -> tuple[Array, Array]:
    return _with_height(progress.start_ee_position, progress.start_ee_position[:, 2] + 0.25), _gripper(state, OPEN)


# push ---------------------------------------------------------------------------------------------------------------

_BEHIND = 0.06
"""m between the end effector and the object's centre when a push begins."""


def _push_direction(state: State, goal: Array) -> Array:
    """`(N, 3)` horizontal unit vector from the object to the goal."""
    xp = namespace(goal)
    way = _with_height(goal - state.object_position[:, 0], xp.zeros_like(goal[:, 0]))
    return way / xp.clip(distance(way, xp.zeros_like(way))[:, None], 1e-6, None)


def _push_entry(state: State, goal: Array) -> Array:
    return state.object_position[:, 0] - _BEHIND * _push_direction(state, goal)


def _push_expert(state: State, progress: Progress, goal: Array, entry: EntryPoint) -> tuple[Array, Array]:
    xp = namespace(goal)
    there = state.object_position[:, 0]
    way = _push_direction(state, goal)
    offset = state.ee_position - there
    along = (offset * way).sum(-1)
    aside = distance(offset[:, :2], along[:, None] * way[:, :2])
    behind = (along < -0.015) & (aside < 0.015) & (offset[:, 2] < 0.02)
    left = _planar_distance(there, goal)
    step = xp.clip(0.25 * left, 0.004, 0.02)[:, None]
    push = _with_height(state.ee_position + step * way - (offset - along[:, None] * way), there[:, 2])
    return xp.where(behind[:, None], push, _over_then_down(state, _push_entry(state, goal))), _gripper(state, CLOSED)


APPROACH = Stage("approach", "A", ("free",), ("near",), "approach {object}", _approach_potential, _approach_expert,
                 needs_object=False)  # fmt: skip
GRASP = Stage("grasp", "G", ("free", "near"), ("held",), "grasp {object}", _grasp_potential, _grasp_expert,
              entry=_grasp_entry, needs_gripper=True)  # fmt: skip
MOVE = Stage("move", "M", ("held",), ("placed",), "move {object} to the goal", _move_potential, _move_expert)
DROP = Stage("drop", "D", ("held",), ("free",), "release {object}", _drop_potential, _drop_expert)
WITHDRAW = Stage("withdraw", "W", ("free",), ("clear",), "withdraw", _withdraw_potential, _withdraw_expert)
PUSH = Stage("push", "", ("free", "near"), ("placed",), "push {object} to the goal", _move_potential, _push_expert,
             ends=("near",), entry=_push_entry)  # fmt: skip

for _stage in (APPROACH, GRASP, MOVE, DROP, WITHDRAW, PUSH):
    register_stage(_stage.name, _stage)
