"""The built-in observation components, each registered in its module; `batches` has their helpers."""

from mygym.tasks.components import cameras, goal, objects, parts, progress, robot
from mygym.tasks.components.progress import STAGE_COLUMNS, stage_column

__all__ = ["STAGE_COLUMNS", "cameras", "goal", "objects", "parts", "progress", "robot", "stage_column"]
