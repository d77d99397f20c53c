"""`Entry`, a registered component: its origin, its requirements, and the loading of its target; built-in components."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from mygym.errors import RegistryError, UnknownNameError, bad_value, did_you_mean

ASSETS = Path(__file__).parents[1] / "assets"

KINDS = (
    *("algorithm", "policy", "features_extractor", "activation", "optimizer", "schedule"),
    *("strategy", "sampler", "callback"),
    *("robot", "workspace", "object", "controller", "engine"),
    *("task", "stage", "predicate", "reward", "observation", "randomizer"),
)
"""Kinds of components, in the order of `mygym list`."""

BUILTIN_MODULES: Mapping[str, str] = {
    "algorithm": "mygym.algos.defaults",
    "policy": "mygym.experts",
    "features_extractor": "mygym.algos.defaults",
    "activation": "mygym.algos.defaults",
    "optimizer": "mygym.algos.defaults",
    "schedule": "mygym.config.schedules",
    "observation": "mygym.tasks.components",
    "reward": "mygym.tasks.rewards",
    "predicate": "mygym.tasks.stages",
    "strategy": "mygym.strategies.strategy",
    "sampler": "mygym.strategies.mixture.samplers",
    "callback": "mygym.planning.callbacks",
    "randomizer": "mygym.envs.randomizers",
    "controller": "mygym.robotics.controllers",
    "engine": "mygym.engines.engine",
    "task": "mygym.tasks.named",
    "stage": "mygym.tasks.stages",
}
"""Kind → light module that registers its built-in components when it is imported, at the first look-up."""

BUILTIN_FOLDERS: Mapping[str, str] = {"robot": "robots", "workspace": "workspaces", "object": "objects"}
"""Kind → folder of `assets/`; each YAML file in it and its subfolders is a component, named by the file's stem."""

ALIASES: Mapping[str, Mapping[str, str]] = {"strategy": {"experts": "mixture"}}
"""Kind → alias → name, for built-in components that are not registered with their aliases."""

EXTRAS: Mapping[str, str] = {
    **dict.fromkeys(("sbx", "jax", "jaxlib", "flax", "optax", "tensorflow_probability"), "jax"),
    **dict.fromkeys(("minari", "h5py"), "demos"),
    "mujoco": "mujoco",
    "pyarrow": "lerobot",
    "trimesh": "meshes",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "matplotlib": "results",
    **dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "export"),
    **dict.fromkeys(("optuna", "cmaes"), "sweep"),
    **dict.fromkeys(("ray", "submitit"), "cluster"),
    "xacro": "xacro",
}
"""Import name of a package → the extra of mygym that installs it."""

FRAMEWORK_EXTRAS: Mapping[str, str] = {"jax": "jax"}
"""Framework → the extra of mygym that installs it."""

FRAMEWORKS = ("pytorch", *FRAMEWORK_EXTRAS)
"""Frameworks whose weights, devices and random numbers the runs know."""

FOLDER_EXTRAS: Mapping[str, str] = {"example_robot_data": "robots"}
"""Subfolder of `assets/` → the extra of mygym that its components need."""

BULLET = "pybullet"
"""Module of PyBullet, which is no extra, but does not exist for every Python: where it is missing, MuJoCo replaces it,
and the components that need it have it in `requires`."""

HAS_BULLET = importlib.util.find_spec(BULLET) is not None
"""Whether PyBullet is installed."""

BULLET_FILES = "pybullet_data/"
"""Beginning of the names of files that are part of PyBullet."""

EXTRA_DISTRIBUTIONS: Mapping[str, str] = {"robots": "example-robot-data"}
"""Extra of mygym that installs no Python package → the distribution that it installs."""


@dataclass(frozen=True)
class Entry:
    """A registered component."""

    kind: str
    name: str
    target: Any
    """The component, an import string `module:attribute`, or the path of a YAML file.

    A mapping from framework to component for kinds that belong to a framework.
    """
    help: str
    """One line for listings."""
    origin: str
    """Source of the registration: `file:line`, a module, or a file below `mygym/`."""
    requires: tuple[str, ...] = ()
    """Requirements, in words for listings."""

    @property
    def built_in(self) -> bool:
        """Whether it is a component of this package."""
        return is_built_in(self.origin)

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Frameworks that have this component; empty if its kind is independent of frameworks."""
        return tuple(self.target) if isinstance(self.target, Mapping) else ()

    @property
    def framework(self) -> str:
        """Framework that is meant where none is named: the default, or the first if that lacks this component."""
        return FRAMEWORKS[0] if FRAMEWORKS[0] in self.frameworks else next(iter(self.frameworks), FRAMEWORKS[0])

    @property
    def class_name(self) -> str:
        """Name of the component's class or function, without importing it; empty if it is unknown."""
        target = next(iter(self.target.values()), None) if isinstance(self.target, Mapping) else self.target
        target = getattr(target, "target", target)  # of an algorithm
        if isinstance(target, str):
            return target.rpartition(":")[2]
        return str(getattr(target, "__name__", ""))

    @property
    def missing_extras(self) -> tuple[str, ...]:
        """Extras that must be installed before the component can be used, e.g. `mygym[robots]`; and `pybullet`.

        The extra of a framework is included only if no other framework has the component.
        """
        extras = [word for word in self.requires if word.startswith("mygym[") and not is_installed(word[6:-1])]
        of_frameworks = missing_frameworks(self.frameworks)
        if of_frameworks.keys() == set(self.frameworks):
            extras += of_frameworks.values()
        return (*dict.fromkeys(extras), *(word for word in self.requires if word == BULLET))

    @property
    def listed_requirements(self) -> tuple[str, ...]:
        """`requires`, and the extras of its frameworks that are not installed, e.g. `mygym[jax] (jax)`."""
        missing = missing_frameworks(self.frameworks)
        return (*self.requires, *(f"{extra} ({framework})" for framework, extra in missing.items()))

    def load(self) -> Any:
        """Return the component: import strings are resolved; paths, and mappings of frameworks, returned unchanged."""
        return resolve(self.target, f"{self.kind} {self.name!r}")

    def load_for(self, framework: str) -> Any:
        """Return the component of one framework; raise `RegistryError` if it does not exist in this framework."""
        component = self.load()
        if framework not in component:
            raise unknown_framework(framework, component, f"{self.kind} {self.name!r}")
        return resolve(component[framework], f"{self.kind} {self.name!r}")


def missing_frameworks(frameworks: Iterable[str]) -> dict[str, str]:
    """Return framework → extra, e.g. `mygym[jax]`, of the frameworks whose extras are not installed."""
    extras = {name: FRAMEWORK_EXTRAS[name] for name in frameworks if name in FRAMEWORK_EXTRAS}
    return {name: f"mygym[{extra}]" for name, extra in extras.items() if not is_installed(extra)}


def unknown_framework(framework: str, known: Mapping[str, Any], component: str) -> UnknownNameError:
    """Return the error for a framework that does not have `component`."""
    missing = missing_frameworks(known)
    labels = [with_extras(name, (missing[name],) if name in missing else ()) for name in sorted(known)]
    message = bad_value("framework", framework, ", ".join(labels), f"does not have {component}")
    return UnknownNameError(message + did_you_mean(framework, known))


def with_extras(name: str, extras: tuple[str, ...]) -> str:
    """Return `name`, followed by the extras that it needs: `talos (needs mygym[robots])`."""
    return f"{name} (needs {', '.join(extras)})" if extras else name


@cache
def is_installed(extra: str) -> bool:
    """Return whether the packages of an extra of mygym are installed."""
    if extra in EXTRA_DISTRIBUTIONS:
        try:
            return bool(distribution(EXTRA_DISTRIBUTIONS[extra]))
        except PackageNotFoundError:
            return False
    return all(importlib.util.find_spec(package) for package, name in EXTRAS.items() if name == extra)


def resolve(target: Any, wanted_by: str = "") -> Any:
    """Return the attribute of an import string `module:attribute`; return any other target unchanged.

    Raises:
        RegistryError: A package is missing; the message has the command that installs it.
    """
    if not isinstance(target, str):
        return target
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        install = f'"mygym[{EXTRAS[package]}]"' if package in EXTRAS else package
        raise RegistryError(f"{wanted_by}: needs the package {package!r}: pip install {install}") from error


def requirements(frameworks: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the requirements of a component in any of its frameworks, e.g. `flat observations (jax)`."""
    needs = {framework: getattr(component, "needs", ()) for framework, component in frameworks.items()}
    words = dict.fromkeys(word for framework_needs in needs.values() for word in framework_needs)
    having = {word: [framework for framework in needs if word in needs[framework]] for word in words}
    return tuple(word if len(names) == len(needs) else f"{word} ({', '.join(names)})" for word, names in having.items())


def is_built_in(origin: str) -> bool:
    """Return whether an origin is in this package."""
    return origin.startswith((f"{ASSETS.parent}{os.sep}", f"{ASSETS.name}/", f"{ASSETS.parent.name}."))


def caller() -> str:
    """Return `file:line` of the first frame outside this package and outside functions called `register_…`."""
    frame = inspect.currentframe()
    while frame is not None and (
        frame.f_globals.get("__package__") == __package__
        or frame.f_globals.get("__name__") == "collections.abc"  # `implemented_combos.update`
        or frame.f_code.co_qualname.startswith("register_")
    ):
        frame = frame.f_back
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
