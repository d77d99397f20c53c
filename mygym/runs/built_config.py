"""Config with the values that the constructors of algorithm and policy decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mygym.config import Resolved
from mygym.config.named_components import INNER, NAMED, name_of, shown
from mygym.config.plain import is_plain
from mygym.registry.signatures import parameters
from mygym.runs.env_factory import make_vec_env
from mygym.runs.model_factory import build_model
from mygym.runs.planning.plan import Plannable, RunPlan, plan_of


def as_built(resolved: Resolved, model: Any) -> Resolved:
    """Return `resolved` with the values that the constructors have decided, read from the attributes of the objects.

    None stays None in the algorithm itself, where it means that a value follows another value, e.g. a learning rate.
    """
    policy = getattr(model, "policy", None)
    builders = {(): model, ("policy_kwargs",): policy}
    for section in ("optimizer_kwargs", "features_extractor_kwargs"):
        builders["policy_kwargs", section] = getattr(policy, section, None)

    def built(values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        builder = builders.get(path)
        result: dict[str, Any] = {}
        hidden: set[str] = set()
        for name, value in values.items():
            decided = builder.get(name, value) if isinstance(builder, Mapping) else getattr(builder, name, value)
            by_class = resolved.origins.get(".".join(("algo_params", *path, name)), "").startswith("class")
            if name == "batch_size" and not path and resolved.config.workers > 1:
                result[name] = value  # the model has the share of this process
            elif isinstance(value, Mapping) and value:
                result[name] = built(value, (*path, name))
            elif value is None and not path:
                result[name] = None
            elif by_class and name in NAMED and decided is not None and shown(decided) != value:
                hidden.add(name)  # the constructor replaces the default of its signature
            else:
                result[name] = decided if by_class and decided is not None and is_plain(decided) else value
        for name in hidden:
            chosen = getattr(builder, name)
            sections = [section for section in values if section in INNER and INNER[section].of == name]
            if known := name_of(chosen):
                result[name] = known
                result |= {section: arguments_of(chosen, section, builder) for section in sections}
            else:  # a config cannot name this object: the class decides again
                result = {key: value for key, value in result.items() if key not in sections}
        return result

    def arguments_of(chosen: Any, section: str, builder: Any) -> dict[str, Any]:
        arguments = getattr(builder, section, None) or {}
        known = parameters(chosen, leave_out=INNER[section].taken)
        return {
            name: shown(arguments.get(name, parameter.default))
            for name, parameter in known.items()
            if is_plain(parameter.default)
        }

    return resolved.with_algo_params(built(resolved.config.algo_params, ()))


def explained(run: Plannable, check: Callable[[RunPlan, Any, Any], object] | None = None) -> Resolved:
    """Return `as_built` of a run that is not started: builds everything and writes nothing.

    Args:
        run: A plan, or a complete config.
        check: A function of plan, environment and model that raises if they do not fit each other.
    """
    plan = plan_of(run)
    env = make_vec_env(plan, only_spaces=True)
    try:
        model = build_model(plan, env)
        if check:
            check(plan, env, model)
        return as_built(plan.resolved, model)
    finally:
        env.close()
