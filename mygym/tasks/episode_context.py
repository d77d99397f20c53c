"""`EpisodeContext`: a batch of episodes of a task, the input of observation components and rewards."""

from __future__ import annotations

from dataclasses import dataclass

from mygym.tasks.progress import Progress
from mygym.tasks.state import State
from mygym.tasks.task import Task
from mygym.types import Array


@dataclass(slots=True)
class EpisodeContext:
    """`N` episodes of a task."""

    task: Task
    progress: Progress
    state: State
    goals: Array
    """`(N, G, 3)`: every goal point of the task, m in the world frame."""
