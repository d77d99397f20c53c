"""`implemented_combos[algo][framework]` → `(AlgoClass, args, kwargs)`, a live view of the registered algorithms."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, Self

from mygym.errors import RegistryError, bad_value
from mygym.registry.algorithms import Algorithm, add_algorithm, complete
from mygym.registry.entries import Entry, caller, unknown_framework
from mygym.registry.registries import registry
from mygym.registry.signatures import first_line, parameters
from mygym.registry.user_files import on_import

Combo = tuple[type, tuple[Any, ...], dict[str, Any]]
"""Algorithm class, constructor arguments, keyword arguments."""


class FrameworkCombos(Mapping[str, Combo]):
    """Framework → `(AlgoClass, args, kwargs)` of one algorithm; a class is imported when it is looked up."""

    def __init__(self, entry: Entry) -> None:
        self._name = entry.name
        self._entry = entry

    @property
    def _frameworks(self) -> Mapping[str, Algorithm]:
        frameworks: Mapping[str, Algorithm] = self._entry.load()
        return frameworks

    def __getitem__(self, framework: str) -> Combo:
        if framework not in self._frameworks:
            raise unknown_framework(framework, self._frameworks, f"algorithm {self._name!r}")
        return self._frameworks[framework].combo()

    def __contains__(self, framework: object) -> bool:
        return framework in self._frameworks

    def __iter__(self) -> Iterator[str]:
        return iter(self._frameworks)

    def __len__(self) -> int:
        return len(self._frameworks)

    def __repr__(self) -> str:
        return "\n".join(f"{framework:<10}{_label(entry.target)}" for framework, entry in self._frameworks.items())


class ImplementedCombos(MutableMapping[str, Mapping[str, Any]]):
    """Algorithm → framework → `(AlgoClass, args, kwargs)`.

    Assigning `implemented_combos["myalgo"] = {"pytorch": [MyAlgo, (MyPolicy, "env"), {"n_steps": 512}]}` registers an
    algorithm.
    """

    def __getitem__(self, name: str) -> FrameworkCombos:
        return FrameworkCombos(registry("algorithm").get(name, "algo"))

    def __contains__(self, name: object) -> bool:
        return name in registry("algorithm")

    def __setitem__(self, name: str, frameworks: Mapping[str, Any]) -> None:
        _register(name, frameworks, caller())

    def __delitem__(self, name: str) -> None:
        raise RegistryError(f"algo: {name!r} cannot be removed from the registry")

    def __ior__(self, combos: Mapping[str, Mapping[str, Any]]) -> Self:
        self.update(combos)
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(registry("algorithm").names())

    def __len__(self) -> int:
        return len(registry("algorithm").names())

    def __repr__(self) -> str:
        rows = [(entry.name, ", ".join(entry.frameworks), entry.help) for entry in registry("algorithm")]
        widths = [max(len(row[column]) for row in rows) + 2 for column in (0, 1)]
        return "\n".join(f"{name:<{widths[0]}}{frameworks:<{widths[1]}}{help}" for name, frameworks, help in rows)


implemented_combos = ImplementedCombos()


def register_dictionary(module: ModuleType) -> None:
    """Register the algorithms of a dictionary `implemented_combos = {…}` that a module assigns.

    Args:
        module: A user's module, e.g. a copy of train.py.

    Raises:
        RegistryError: An entry is not `{framework: (AlgoClass, args, kwargs)}`, or its name is taken.
    """
    combos, lines = vars(module).get("implemented_combos"), linecache.getlines(str(getattr(module, "__file__", "")))
    line = next((number for number, text in enumerate(lines, 1) if text.startswith("implemented_combos")), 1)
    for name, frameworks in combos.items() if isinstance(combos, dict) else ():
        if not isinstance(frameworks, FrameworkCombos):  # of `{**implemented_combos, …}`
            _register(name, frameworks, f"{module.__file__}:{line}")


on_import.append(register_dictionary)


def with_env(args: Sequence[Any], env: Any) -> tuple[Any, ...]:
    """Return constructor arguments of a combo with `env` in place of the marker `"env"`.

    AlgoClass, args, kwargs = implemented_combos["ppo"]["pytorch"]
    model = AlgoClass(*with_env(args, env), **kwargs)
    """
    return tuple(env if is_environment(argument) else argument for argument in args)


def is_environment(argument: Any) -> bool:
    """Return whether an argument stands for the environment: `"env"`, or an environment of Gymnasium or SB3."""
    return (
        argument == "env"
        if isinstance(argument, str)
        else hasattr(argument, "observation_space") and callable(getattr(argument, "step", None))
    )


def _register(name: str, frameworks: Mapping[str, Any], origin: str) -> None:
    """Register an algorithm in its frameworks.

    Raises:
        RegistryError: The value has another form, or the name is taken.
    """
    if not isinstance(frameworks, Mapping):
        allowed = '{"pytorch": (AlgoClass, (policy, "env"), kwargs)}'
        raise RegistryError(bad_value(f"implemented_combos[{name!r}]", frameworks, allowed, "has no framework"))
    for framework, combo in frameworks.items():
        if not _is_combo(combo):
            why = f"is not (AlgoClass, args, kwargs) ({origin})"
            raise RegistryError(bad_value(f"implemented_combos[{name!r}][{framework!r}]", combo, "a triple", why))
        add_algorithm(_algorithm(name, framework, *combo), origin)


def _is_combo(combo: Any) -> bool:
    return (
        isinstance(combo, list | tuple)
        and len(combo) == 3
        and inspect.isclass(combo[0])
        and isinstance(combo[1], list | tuple)
        and isinstance(combo[2], Mapping)
    )


def _algorithm(name: str, framework: str, cls: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Algorithm:
    """Return the registration of a combo; arguments other than policy and environment become keyword arguments."""
    known = parameters(cls)
    if len(args) == 1 and is_environment(args[0]) and next(iter(known), "") == "policy":
        args = ()  # the policy is inherited
    named = dict(zip(known, args, strict=False))
    positional = [key for key, value in named.items() if key == "policy" or is_environment(value)]
    rest = {key: value for key, value in named.items() if key not in positional}
    entry = Algorithm(name, framework, cls, defaults={**rest, **kwargs}, help=first_line(cls))
    if not named and "policy" in known and "policy" not in kwargs:
        return complete(entry, {})
    arguments = tuple(named[key] for key in positional)
    return complete(replace(entry, args=arguments), {"policy": named.get("policy", kwargs.get("policy"))})


def _label(target: Any) -> str:
    return target if isinstance(target, str) else f"{target.__module__}:{target.__qualname__}"
