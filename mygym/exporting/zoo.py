"""A run as an entry of RL Baselines3 Zoo: `hyperparams/ALGO.yml` has an entry for each environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mygym.config import RunConfig
from mygym.config.hyperparameters import Schema
from mygym.config.loading import Dumper
from mygym.config.parameter_checks import NAMED
from mygym.config.schedules import parse
from mygym.config.toolkit import Conversion
from mygym.config.zoo import ALGORITHMS, HINDSIGHT, SCHEDULED, STEPS
from mygym.envs.ids import ANY_TASK, env_id
from mygym.errors import ConfigError, bad_value
from mygym.nested import is_schedule
from mygym.planning.derived import short_env_arguments
from mygym.planning.plan import RunPlan
from mygym.registry import registry
from mygym.training.files import make_folder_for, write_text

LIBRARIES = ("stable_baselines3", "sb3_contrib")

TEXTS = ("policy_kwargs", "replay_buffer_kwargs")
"""Hyperparameters that RL Zoo reads as Python."""

MODULES = {"torch.nn": "nn", "torch.optim": "th.optim"}
"""Modules of classes → their names where RL Zoo reads Python."""

LEFT_OUT: Mapping[str, Any] = {
    "strategy": "standard",
    "engine": "pybullet",
    "learners": 1,
    "overlap": False,
    "callbacks": [],
    "pretrained": {"path": None},
}
"""Keys without a place in an entry → the value that needs none."""


def zoo_name(plan: RunPlan) -> str:
    """Return the run's algorithm in RL Zoo, the stem of its file; refuse an algorithm or framework that it lacks."""
    names = {algo: name for name, algo in ALGORITHMS.items()}
    config = plan.config
    if config.framework != "pytorch":
        raise ConfigError(bad_value("framework", config.framework, ["pytorch"], "is not a framework of RL Zoo"))
    if config.algo not in names:
        raise ConfigError(bad_value("algo", config.algo, names, "is not an algorithm of RL Zoo"))
    return names[config.algo]


def zoo_entry(plan: RunPlan) -> Conversion:
    """Return the entry of a run, by its environment id: values that differ from the defaults of the library's class.

    Raises:
        ConfigError: RL Zoo lacks the algorithm or the framework, or the run has several tasks.
    """
    zoo_name(plan)
    if len(plan.variants) > 1:
        allowed = "a run of a single task"
        raise ConfigError(bad_value("strategy", plan.config.strategy, allowed, "trains several environments"))
    config, notes = plan.config, _left_out(plan.config)
    name, arguments = _environment(plan)
    defaults = plan.schema.defaults()
    library = next(base for base in plan.schema.cls.__mro__ if base.__module__.partition(".")[0] in LIBRARIES)
    combo = (library, plan.schema.args, plan.schema.kwargs)
    schema = Schema(plan.algorithm, config.algo_params, bool(config.her), combo)
    values = {
        key: value for key, value in config.algo_params.items() if key in schema.known or value != defaults.get(key)
    }
    entry: dict[str, Any] = {STEPS: config.steps, "n_envs": config.n_envs}
    entry["policy"] = values.pop("policy", schema.policy)
    if config.normalize:
        entry["normalize"] = {"norm_obs": True, "norm_reward": False}
    if config.her:
        entry["replay_buffer_class"] = HINDSIGHT
    noise = values.pop("action_noise", None)
    if noise is not None:
        entry |= {"noise_type": "normal", "noise_std": _number("action_noise", noise, config, notes)}
    changed = _changed(values, schema.defaults(), schema, (), notes)
    for key, value in changed.items():
        entry[key] = _python(value) if key in TEXTS else _number(key, value, config, notes)
    return Conversion({name: {**entry, "env_kwargs": arguments}}, notes)


def write_entry(plan: RunPlan, path: Path) -> list[str]:
    """Write a file of RL Zoo with the entry of a run; comments have the command and the values that it lacks.

    Return a line for each value that the entry lacks or approximates.

    Raises:
        ConfigError: See `zoo_entry`.
    """
    conversion = zoo_entry(plan)
    packages = " ".join(["mygym", *plan.config.imports])
    environment = f"--env {next(iter(conversion.config))} --gym-packages {packages}"
    command = f"python -m rl_zoo3.train --algo {zoo_name(plan)} {environment} --conf-file {path.name}"
    comments = "".join(f"# {line}\n" for line in (command, *conversion.notes))
    entry = yaml.dump(dict(conversion.config), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    make_folder_for(path)
    write_text(path, comments + entry)
    return conversion.notes


def _environment(plan: RunPlan) -> tuple[str, dict[str, Any]]:
    """Return the Gymnasium id of the environments, and their arguments."""
    config = plan.variants[0].config
    arguments = short_env_arguments(config)
    if not isinstance(config.task, str) or config.task not in registry("task"):
        return ANY_TASK, arguments
    del arguments["task"]
    return env_id(config.task), arguments


def _left_out(config: RunConfig) -> list[str]:
    values = config.model_dump(mode="json")
    values["pretrained"] = {"path": config.pretrained.path}
    notes = [f"{key}: {values[key]!r} has no place in RL Zoo" for key, none in LEFT_OUT.items() if values[key] != none]
    if starts := config.task_params.starts:
        notes.append(f"task_params.starts: {starts} also starts the episodes of RL Zoo's evaluations")
    return notes


def _changed(
    values: Mapping[str, Any], defaults: Mapping[str, Any], schema: Schema, path: tuple[str, ...], notes: list[str]
) -> dict[str, Any]:
    """Return the values that differ from the defaults of the library's classes; classes by their names in Python."""
    changed: dict[str, Any] = {}
    for key, value in values.items():
        full_path = (*path, key)
        if isinstance(value, Mapping) and isinstance(defaults.get(key), Mapping):
            if inner := _changed(value, defaults[key], schema, full_path, notes):
                changed[key] = inner
        elif key not in (schema.inside(path) or {key}):
            notes.append(f"{'.'.join(full_path)}: {value!r} is left out: {schema.cls.__name__} of RL Zoo lacks it")
        elif key not in defaults or value != defaults[key]:
            if key not in NAMED:
                changed[key] = value
            elif name := _class_in_python(schema.component(full_path)):
                changed[key] = _Name(name)
            else:
                notes.append(f"{'.'.join(full_path)}: {value!r} is left out: RL Zoo cannot name it")
    return changed


class _Name(str):
    """Name of a class in a text that RL Zoo reads as Python."""


def _class_in_python(cls: Any) -> str:
    """Return the name of a class where RL Zoo reads Python; empty: it has none."""
    module, name = getattr(cls, "__module__", ""), getattr(cls, "__name__", "")
    if name == "RMSpropTFLike":
        return str(name)
    return next((f"{short}.{name}" for full, short in MODULES.items() if module.startswith(full)), "")


def _python(value: Any) -> str:
    """Return a value as Python, with `dict(…)` for mappings."""
    if isinstance(value, _Name):
        return str(value)
    if isinstance(value, Mapping):
        return f"dict({', '.join(f'{key}={_python(inner)}' for key, inner in value.items())})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_python, value))}]"
    return repr(value)


def _number(key: str, value: Any, config: RunConfig, notes: list[str]) -> Any:
    """Return a hyperparameter; of a schedule that RL Zoo lacks, the first value."""
    if not is_schedule(value):
        return value
    schedule = parse(key, value, total_steps=config.steps)
    first, last = schedule.value(0, config.steps), schedule.value(config.steps, config.steps)
    over_the_run = schedule.start == 0 and schedule.until in (None, config.steps)
    if key in SCHEDULED and schedule.name == "linear" and over_the_run and last == 0:
        return f"lin_{first!r}"
    notes.append(f"{key}: {dict(value)!r} is approximated by its first value: RL Zoo's schedules fall to 0 in a line")
    return first
