"""All mistakes of a config, where `make_plan` raises the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mygym.config import Layer, resolve
from mygym.errors import MygymError
from mygym.runs.planning.component_names import check_names
from mygym.runs.planning.plan import RunPlan, make_plan

Path = tuple[str | int, ...]
"""Keys, and indices in lists."""

MOST = 25
"""Largest number of mistakes that are listed."""

CHOSEN_BY = {"algo_params": "algo", "training_params": "algo", "strategy_params": "strategy", "task_params": "task"}
"""Section → the key that decides which parameters it may have."""


def plan_or_mistakes(
    config: Mapping[str, Any], refused: Mapping[Path, str], origin: str = "argument"
) -> tuple[RunPlan | None, list[str]]:
    """Return the plan of a config and no mistakes, or None and the mistakes: of keys and types, names, combinations.

    A mistake that may follow from another is left out: beside a wrong key or name, combinations are not judged, and
    parameters only if the config chooses what they belong to.

    Args:
        config: Values of the user.
        refused: Keys to a value → message; these values are mistakes already, and are only checked by the schema.
        origin: Name of the config in messages and origins.
    """
    listed: dict[str, str] = {}
    plans: list[RunPlan] = []
    rest = _collect(lambda values: resolve([Layer(origin, values)]), config, listed)
    for path, message in refused.items():
        shorter = _without(rest, path)
        if shorter != rest:  # else its key is unknown
            listed[".".join(map(str, path))], rest = message, shorter
    rest = _collect(lambda values: check_names(resolve([Layer(origin, values)]).config), rest, listed)
    _collect(lambda values: plans.append(make_plan(overrides=values, origin=origin)), rest, listed, _may_be_judged)
    messages = list(listed.values()) or list(refused.values())
    return (None, messages[:MOST]) if messages else (plans[0], [])


def _collect(
    check: Callable[[dict[str, Any]], object],
    config: Mapping[str, Any],
    listed: dict[str, str],
    judged: Callable[[str, Mapping[str, Any], Mapping[str, str]], bool] = lambda *_: True,
) -> dict[str, Any]:
    """Add the mistakes that a check raises, one after the other; return the config without the values they name."""
    rest = dict(config)
    for _ in range(MOST):
        try:
            check(rest)
            break
        except MygymError as error:
            messages = getattr(error, "parts", ()) or [str(error)]
        shorter = rest
        for message in messages:
            key = message.partition(": ")[0]
            if judged(key, rest, listed):
                listed.setdefault(key, message)
            shorter = _without(shorter, tuple(key.split(".")))
        if shorter == rest:
            break
        rest = shorter
    return rest


def _may_be_judged(key: str, rest: Mapping[str, Any], listed: Mapping[str, str]) -> bool:
    """Return whether a mistake does not follow from those that were listed."""
    in_doubt = any(other.partition(".")[0] not in CHOSEN_BY for other in listed)
    return not in_doubt or CHOSEN_BY.get(key.partition(".")[0]) in rest


def _without(config: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a config without the value at nested keys, or without the list or text in which it is."""
    value = config.get(str(path[0]))
    if len(path) > 1 and isinstance(value, Mapping):
        return {**config, str(path[0]): _without(value, path[1:])}
    return {name: item for name, item in config.items() if name != path[0]}
