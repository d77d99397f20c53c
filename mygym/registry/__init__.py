"""Find components by name: built-in components, the user's components, and components of installed plug-ins.

components       `Registry` of a kind of component
registries       the registries of all kinds
entries          `Entry`, a registered component
decorators       `decorator`, the base of every `register_KIND`, and `check_hooks`
builtins         tables of the built-in components and extras
discovery        search in the user's folders and in plug-ins
source_names     names that a file registers, read from its source
user_files       paths and imports of the user's files
algorithms       registration of algorithms and network components
algorithm_entry  `Algorithm`, the registration of an algorithm
inheritance      values inherited from the nearest registered ancestor
signatures       parameters of classes and functions
combos           `implemented_combos`
robot_files      names of files in place of a robot's name

`registry(kind).get(name)` returns an entry, `register_KIND` and `decorator` add one, and `refresh` scans the user's
folders again. `implemented_combos` is a view of the algorithms in each framework.
"""

from mygym.registry.algorithms import (
    Algorithm,
    add_algorithm,
    algorithm,
    parameters_of,
    register_activation,
    register_algorithm,
    register_features_extractor,
    register_optimizer,
    register_policy,
)
from mygym.registry.builtins import ASSETS, BUILTIN_FOLDERS, BUILTIN_MODULES, KINDS
from mygym.registry.combos import implemented_combos, is_environment, register_dictionary, with_env
from mygym.registry.entries import Entry, resolve
from mygym.registry.registries import (
    REGISTRIES,
    Registry,
    RobotFileName,
    check_hooks,
    decorator,
    is_file_name,
    isolated,
    refresh,
    registry,
)

__all__ = [
    "ASSETS",
    "BUILTIN_FOLDERS",
    "BUILTIN_MODULES",
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
    "parameters_of",
    "refresh",
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
