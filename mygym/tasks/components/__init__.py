"""The built-in observation components, each registered in its module; `batches` has their helpers."""

from mygym.tasks.components import cameras, goal, objects, parts, progress, robot
from mygym.tasks.components.progress import stage_columns

__all__ = ["cameras", "goal", "objects", "parts", "progress", "robot", "stage_columns"]
