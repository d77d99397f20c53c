"""Starts of objects and goals of a batch of episodes: the twin of `mygym.envs.placement`."""

from __future__ import annotations

from dataclasses import dataclass

from mygym.fused.random_numbers import uniform
from mygym.tasks.sampling import Area, sample_batch
from mygym.tasks.state import namespace
from mygym.types import Array, FloatArray

CANDIDATES = 8
"""Points that are drawn for a goal; the first that is far enough from the start is taken."""


@dataclass(frozen=True)
class PlacementModel:
    """Areas from which an episode is drawn."""

    goals: tuple[Area, ...]
    """Boxes of the goals, m; each episode has one of them, or of two, see `second_share`."""
    distance: float
    """m: least distance of a goal from the start of the tool or of the object."""
    second_share: float = 0.5
    """Share of the episodes whose goal is in the second of two boxes."""
    object: Area | None = None
    """Box of the object's lowest points, m; None without an object."""
    lift: float = 0.0
    """m from the lowest point of the object up to its centre."""
    yaw: tuple[float, float] = (0.0, 0.0)
    """rad: lowest and highest yaw of the object."""


@dataclass(frozen=True)
class Placed:
    """Goals and objects at the start of the episodes of a batch."""

    goal: Array
    """`(3, N)` m."""
    position: Array
    """`(3, N)` m: centre of the object; the start of the tool without an object."""
    yaw: Array
    """`(N,)` rad."""
    choice: Array
    """`(2, N)` in [0, 1): random numbers that decide how the episode begins, see `mygym.fused.starts`."""


def place(model: PlacementModel, seeds: Array, numbers: Array, home: FloatArray) -> Placed:
    """Return the starts of episodes.

    Args:
        model: The areas.
        seeds: `(N,)` int64, see `uniform`.
        numbers: `(N,)` int64: numbers of the episodes.
        home: `(3,)` m: start of the tool.
    """
    xp, count = namespace(seeds), seeds.shape[0]
    goals = 3 * CANDIDATES
    drawn = uniform(seeds, numbers, goals if model.object is None else goals + 7)
    candidates = xp.reshape(drawn[:goals], (CANDIDATES, 3, count))
    if model.object is None:
        zeros = xp.zeros_like(drawn[:2])
        goal = sample_batch(candidates, model.goals[0], home, model.distance)
        return Placed(goal, goal, zeros[0], zeros)
    low, high = (corner.tolist() for corner in model.object)
    low[2], high[2] = low[2] + model.lift, high[2] + model.lift
    position = xp.stack([low[i] + drawn[goals + i] * (high[i] - low[i]) for i in range(3)])
    goal = sample_batch(candidates, _lifted(model.goals[0], model.lift), position, model.distance)
    if len(model.goals) > 1:
        second = sample_batch(candidates, _lifted(model.goals[1], model.lift), position, model.distance)
        goal = xp.where(drawn[goals + 3] < model.second_share, second, goal)
    yaw = model.yaw[0] + drawn[goals + 4] * (model.yaw[1] - model.yaw[0])
    return Placed(goal, position, yaw, drawn[goals + 5 :])


def _lifted(area: Area, by: float) -> Area:
    """Return an area moved up by `by` m."""
    return area[0] + (0.0, 0.0, by), area[1] + (0.0, 0.0, by)
