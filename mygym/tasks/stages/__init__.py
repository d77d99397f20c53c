"""The built-in stages, each registered where it is defined.

Each declares the predicates it requires and gives, its potential, its start pose and its expert. It is complete when
the predicates that it gives hold.
"""

from mygym.tasks.stages import carrying, giving, guiding, handling, launching, moving_parts, pushing

__all__ = ["carrying", "giving", "guiding", "handling", "launching", "moving_parts", "pushing"]
