"""The built-in stages, each registered where it is defined.

Each declares the facts it requires and gives, how far along it is, where it wants the end effector when it begins, and
how an expert acts in it. Completion follows from the facts that it gives.
"""

from mygym.tasks.stages import carrying, giving, guiding, handling, launching, moving_parts, pushing

__all__ = ["carrying", "giving", "guiding", "handling", "launching", "moving_parts", "pushing"]
