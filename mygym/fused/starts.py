"""Episodes that begin later: snapshots of the scripted expert's episodes, which training episodes continue."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from mygym.fused.arrays import Arrays, Rows, to_numpy
from mygym.fused.episodes import BatchEpisodes, BatchTask, Pool
from mygym.fused.world import WorldModel
from mygym.tasks.episode import potential
from mygym.types import Array, FloatArray

POOL = 1024
"""Episodes of the expert for each kind of start; their seeds are constant, so that runs can be repeated."""

FIRST_SEED = 1 << 40
"""Seed of the first of these episodes: no environment of a run has it."""


def make_pools(model: WorldModel, task: BatchTask, arrays: Arrays) -> list[Pool]:
    """Let the scripted expert begin episodes, and return snapshots for each kind of start.

    Args:
        model: Arm, gripper and object.
        task: The task; `starts` of its `task` has the shares, see `Task.start_stages`.
        arrays: Array library.
    """
    pools = []
    plain = replace(task, task=replace(task.task, starts={}))
    for kind, (name, share) in enumerate(task.task.starts.items()):
        low, high = task.task.start_stages[name]
        lead_in = low + (high - low) * (np.arange(POOL) + 0.5) / POOL
        episodes = BatchEpisodes(model, plain, POOL, arrays)
        first = FIRST_SEED + kind * POOL
        episodes.seed(range(first, first + POOL))
        reached = lead(episodes, lead_in, task.lead_in_steps)
        if not reached.any():
            continue  # the expert does not get there: episodes begin at the reset
        snapshots = BatchEpisodes(model, plain, int(reached.sum()), arrays)
        snapshots.copy_from(episodes, arrays.integers(np.flatnonzero(reached)), Rows.of_mask(snapshots.elapsed >= 0))
        pools.append(Pool(share, snapshots))
    return pools


def lead(episodes: BatchEpisodes, lead_in: FloatArray, steps: int) -> Array:
    """Let the expert complete stages; return `(N,)` bool: whether the expert has completed them.

    Args:
        episodes: Episodes, each left at the step at which its stages are complete.
        lead_in: `(N,)` stages; a share of a stage is a share of the potential that was missing when the stage began.
        steps: Most control steps.
    """
    task = episodes.task
    count = len(task.stage_bindings)
    stages = np.floor(lead_in)
    share, end = lead_in - stages, stages + 1.0 - count
    begin = np.full(len(lead_in), math.nan)
    done = np.zeros(len(lead_in), dtype=bool)
    kept = episodes.state_dict()
    for step in range(steps):
        stage = to_numpy(episodes.progress.stage)
        value = to_numpy(potential(task, episodes.progress, episodes.state, episodes.goals))
        begin = np.where(np.isnan(begin) & (stage >= stages), value, begin)
        arrives = ~done & ((stage > stages) | ((stage == stages) & (value >= begin + share * (end - begin))))
        if arrives.any():
            kept = _merged(kept, episodes.state_dict(), arrives, len(lead_in))
            done |= arrives
        if done.all() or step == steps - 1:
            break
        episodes.step(episodes.expert_action())
    episodes.load_state_dict(kept)
    return done


def _merged(old: dict[str, Any], new: dict[str, Any], rows: Array, count: int) -> dict[str, Any]:
    """Return nested arrays with the episodes `rows` `(N,)` bool of `new`, the others of `old`."""
    merged: dict[str, Any] = {}
    for key, value in new.items():
        if isinstance(value, dict):
            merged[key] = _merged(old[key], value, rows, count)
        else:
            mask = rows.reshape((-1,) + (1,) * (value.ndim - 1)) if value.shape[0] == count else rows
            merged[key] = np.where(mask, value, old[key])
    return merged
