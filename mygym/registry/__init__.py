"""Find components by name: built-in components, the user's components, and components of installed plug-ins.

`registry(kind).get(name)` returns an entry, `register_KIND` and `decorator` add one, and `refresh` scans the user's
folders again. `implemented_combos` is a view of the algorithms in each framework.
"""

from mygym.registry.algorithms import (
    Algorithm,
    add_algorithm,
    algorithm,
    implemented_combos,
    is_environment,
    parameters_of,
    register_activation,
    register_algorithm,
    register_dictionary,
    register_features_extractor,
    register_optimizer,
    register_policy,
    with_env,
)
from mygym.registry.entries import ASSETS, BUILTIN_FOLDERS, BUILTIN_MODULES, FRAMEWORKS, KINDS, Entry, resolve
from mygym.registry.registries import (
    REGISTRIES,
    Registry,
    RobotFileName,
    check_hooks,
    decorator,
    is_file_name,
    isolated,
    of_user,
    refresh,
    refuse_misspelt_methods,
    registry,
)

__all__ = [
    "ASSETS",
    "BUILTIN_FOLDERS",
    "BUILTIN_MODULES",
    "FRAMEWORKS",
    "KINDS",
    "REGISTRIES",
    "Algorithm",
    "Entry",
    "Registry",
    "RobotFileName",
    "add_algorithm",
    "algorithm",
    "check_hooks",
    "decorator",
    "implemented_combos",
    "is_environment",
    "is_file_name",
    "isolated",
    "of_user",
    "parameters_of",
    "refresh",
    "refuse_misspelt_methods",
    "register_activation",
    "register_algorithm",
    "register_dictionary",
    "register_features_extractor",
    "register_optimizer",
    "register_policy",
    "registry",
    "resolve",
    "with_env",
]
