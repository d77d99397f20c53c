"""The built-in stages, each registered in its module; `motions` has the building blocks of experts and potentials.

Each stage declares its required and given predicates, its potential, its start pose and its expert. A stage is complete
when its given predicates hold.
"""

from mygym.tasks.stages import carrying, guiding, handling, pushing

__all__ = ["carrying", "giving", "guiding", "handling", "launching", "moving_parts", "pushing"]
