"""The built-in observation components, each registered where it is defined."""

from mygym.tasks.components import goal, objects, parts, progress, robot
from mygym.tasks.components.progress import stage_columns

__all__ = ["goal", "objects", "parts", "progress", "robot", "stage_columns"]
