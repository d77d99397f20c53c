"""The built-in stages, each registered in its module; `motions` has the building blocks of experts and potentials.

Each stage declares its required and given predicates, its potential, its start pose and its expert. A stage is complete
when its given predicates hold. Every module of this folder is imported, so that a stage needs its file alone.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
