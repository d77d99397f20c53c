"""What the user said + the registries → the complete config of a run, nothing left open."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mygym.config import Layer, Resolved, RunConfig, merged, refuse_defaults, resolve
from mygym.config.hyperparameters import Schema, check_parameters, check_training, schedules, training_defaults
from mygym.config.plain import is_plain
from mygym.config.schema import Distractor
from mygym.envs.randomizers import ranges
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.models.controllers import Controller
from mygym.registry import DESCRIPTIONS, Algorithm, algorithm, registry
from mygym.registry.signatures import parameters
from mygym.runs.requirements import REQUIREMENTS
from mygym.runs.strategies import JOIN, joined, said_in, sections, strategies_of
from mygym.runs.variants import variants
from mygym.tasks.lookup import find_task
from mygym.tasks.observations import default_components, find_component
from mygym.tasks.rewards import find_reward
from mygym.tasks.task import Task
from mygym.tasks.task_params import CHANGEABLE, change_task
from mygym.tasks.validation import named_objects

STRATEGY = ("strategy", "strategy_params")
"""What of an algorithm's `run_defaults` decides what comes between it and the config."""

BUDGET = ("steps", "eval")
"""What of a task's `run_defaults` is about how long it takes to learn from rewards."""


def resolve_config(
    file: Mapping[str, Any] | None = None, overrides: Mapping[str, Any] | None = None, origin: str = "flag"
) -> Resolved:
    """Decide every value: schema < algorithm < task < file < flag.

    Args:
        file: Content of a config file.
        overrides: Flags, or the arguments of a call.
        origin: What to call `overrides` in messages and in `--explain`.

    Raises:
        ConfigError: A key, a type, a value, or what does not go together.
    """
    mine = [Layer("file", file or {}), Layer(origin, overrides or {})]
    first = resolve(mine).config  # the user's own mistakes come before anything that is derived from them
    for module in first.imports:
        if module not in sys.modules:
            why = "would run code, and a file alone cannot have it imported"
            raise ConfigError(bad_value("imports", module, f"what the command line says too: --import {module}", why))
    try:
        entry = algorithm(first.algo, first.framework)
        decided = _of_algorithm(entry, {key: entry.run_defaults[key] for key in STRATEGY if key in entry.run_defaults})
        if "strategy" in first.model_fields_set and first.strategy != (own := decided.values.get("strategy")):
            if own is not None and own not in first.strategy.split(JOIN):
                allowed = f"{own}, {own}{JOIN}{first.strategy}, or an algorithm without one of its own, such as ppo"
                raise ConfigError(bad_value("strategy", first.strategy, allowed, f"leaves out what {entry.name} is"))
            decided = _of_algorithm(entry, {})  # parameters of one are none of several
        first = resolve([decided, *mine]).config
        of_class, strategy = _of_strategy(first)
    except RegistryError as error:
        raise ConfigError(str(error)) from error
    first = resolve([decided, strategy, *mine]).config
    task = find_task(first.task)
    try:
        workspace = registry("workspace").get(first.workspace or task.workspace, "workspace").name
        control = registry("controller").get(first.control, "control").name
        registry("robot").get(first.robot)
        find_reward(first.reward)
        for name in first.observations or ():
            registry("observation").get(name, "observations")
        own = first.task_params.model_dump(exclude_none=True, exclude={"areas"})
        unused = [("task_params.object", own["object"])] if "object" in own and not task.has_object else []
        for key, name in named_objects(change_task(task, own), own) + unused:
            registry("object").get(name, key)
        entry = algorithm(first.algo, first.framework)
        _check_algorithm(entry)
    except RegistryError as error:
        raise ConfigError(str(error)) from error
    numbers = {key: getattr(task, key) for key in CHANGEABLE if key not in ("distractors", "rotation")}
    numbers |= {"distractors": _plainly(task.distractors), "rotation": list(task.rotation)}
    numbers["objects"] = {role: name for role, name in task.objects.items() if role != task.subtasks[0].object}
    of_task = {key: value for key, value in task.run_defaults.items() if not (entry.own_budget and key in BUDGET)}
    preferred = Layer(f"task {task.name}", {"task_params": numbers, **of_task})
    of_entry = {**{key: value for key, value in entry.run_defaults.items() if key not in STRATEGY}, **decided.values}
    known = [of_class, _of_algorithm(entry, of_entry), preferred, strategy, *mine]
    her = _is_hindsight(resolve(known).config, task, entry)
    schema = Schema(entry, first.algo_params, her)
    schema.check_required()
    own_training = _training_params(schema.cls, entry, first)
    layers = [
        Layer(f"class {schema.cls.__name__}", {"algo_params": schema.defaults(), **own_training[0]}),
        of_class,
        _of_algorithm(entry, {**of_entry, "algo_params": schema.registered(), **own_training[1]}),
        preferred,
        strategy,
        *mine,
    ]
    chosen = resolve(layers)
    params = chosen.config.algo_params
    schema.check({key: params[key] for key in first.algo_params})
    schedules(schema.cls, params, chosen.config.steps)
    _check_train_freq(chosen.config)
    derived: dict[str, Any] = {
        "robot": _anywhere(chosen.config.robot),
        "workspace": _anywhere(workspace),
        "control": control,
        "her": her,
    }
    things = first.task_params
    if things.object is not None:
        derived["task_params"] = {"object": _anywhere(things.object)}
    if things.objects:
        derived = merged(derived, {"task_params": {"objects": {r: _anywhere(n) for r, n in things.objects.items()}}})
    if things.distractors:
        derived = merged(derived, {"task_params": {"distractors": _plainly(things.distractors)}})
    if first.randomize:
        derived["randomize"] = {name: list(given) for name, given in ranges(first.randomize).items()}
    if her:
        derived = merged(derived, {"algo_params": _warm_up(chosen.config, first.algo_params)})
        if len(variants(chosen.config)) > 1:  # rewards are computed by the task that was played
            derived = merged(derived, {"algo_params": {"replay_buffer_kwargs": {"copy_info_dict": True}}})
    settled: dict[str, Any] = {}
    for one in strategies_of(chosen.config):
        with said_in(one.section):
            settled[one.name] = one.settled()
    if left_open := joined(settled):
        derived["strategy_params"] = left_open
    if "buffer_size" in params and "buffer_size" not in first.algo_params:
        # More than the run's steps would be allocated and never filled; SB3 divides it among the environments.
        n_envs = chosen.config.n_envs
        size = max(-(-chosen.config.steps // n_envs) * n_envs, _two_episodes(chosen.config))
        derived = merged(derived, {"algo_params": {"buffer_size": min(params["buffer_size"], size)}})
    resolved = resolve([*layers, Layer("derived", _changes(derived, chosen.values()))])
    if resolved.config.strict:
        refuse_defaults(resolved)
    return resolved


def _plainly(distractors: Sequence[Distractor]) -> list[dict[str, Any]]:
    return [{**one.model_dump(mode="json"), "object": _anywhere(one.object)} for one in distractors]


def _anywhere(name: str) -> str:
    """A name, or the absolute path of a file that stands for one: a run is also loaded from other folders."""
    return str(Path(name).expanduser().absolute()) if Path(name).suffix in DESCRIPTIONS else name


def _check_algorithm(entry: Algorithm) -> None:
    """Refuse what cannot be trained, whatever the config says.

    Raises:
        ConfigError: It is no algorithm of SB3's kind, or its registration is wrong; with file and line.
    """
    from stable_baselines3.common.base_class import BaseAlgorithm

    cls = entry.combo()[0]
    if not (isinstance(cls, type) and issubclass(cls, BaseAlgorithm)):
        why = f"is no algorithm: {getattr(cls, '__qualname__', cls)} ({entry.origin}) cannot be trained"
        raise ConfigError(
            bad_value("algo", entry.name, "a subclass of a Stable-Baselines3 algorithm or of Runner", why)
        )
    for name in entry.requires:
        if name not in REQUIREMENTS:
            why = f"is required by {entry.name} ({entry.origin}), and nothing known"
            raise ConfigError(bad_value("requires", name, REQUIREMENTS, why))
    Schema(entry, {}).check_registration()


def _of_algorithm(entry: Algorithm, values: Mapping[str, Any]) -> Layer:
    return Layer(f"algorithm {entry.name}", values)


def _of_strategy(said: RunConfig) -> tuple[Layer, Layer]:
    """What the strategies' classes say: their own parameters' defaults; and values of the config that they prefer.

    Raises:
        ConfigError: One would not take its parameters.
    """
    own = {}
    for name, (section, given) in sections(said.strategy, said.strategy_params).items():
        known = parameters(registry("strategy").get(name).load())
        check_parameters(section, name, known, given, bounded=False)  # a strategy says itself what it takes
        own[name] = {key: one.default for key, one in known.items() if is_plain(one.default)}
    preferred: dict[str, Any] = {}
    for one in strategies_of(said):
        preferred = merged(preferred, one.run_defaults())
    params, origin = joined(own), f"strategy {said.strategy}"
    return Layer(origin, {"strategy_params": params} if params else {}), Layer(origin, preferred)


def _training_params(cls: type, entry: Algorithm, said: RunConfig) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """`training_params` of the class and of its registration, as parts of their layers; empty if it is no runner.

    Raises:
        ConfigError: It is no runner but is given some, or `training` would not take them.
    """
    from mygym.runs.runner import Runner

    given = {**entry.training_defaults, **said.training_params}
    if not issubclass(cls, Runner):
        if given:
            name = next(iter(given))
            allowed = "an algo that is a Runner; of any other: steps, n_envs, eval and algo_params"
            why = f"is not for {entry.name}, which has no training loop of its own"
            raise ConfigError(bad_value(f"training_params.{name}", given[name], allowed, why))
        return {}, {}
    check_training(cls, given)
    parts = (training_defaults(cls), entry.training_defaults)
    of_class, of_entry = ({"training_params": part} if part else {} for part in parts)
    return of_class, of_entry


def _changes(values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """What in nested `values` differs from `known`."""
    changes: dict[str, Any] = {}
    for key, value in values.items():
        old = known.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            changes[key] = _changes(value, old)
        elif value != old:
            changes[key] = value
    return changes


def _check_train_freq(config: RunConfig) -> None:
    """SB3 counts episodes in one environment only, and says so when it is too late.

    Raises:
        ConfigError: `[…, episode]` with several environments.
    """
    said = config.algo_params.get("train_freq")
    if isinstance(said, list | tuple) and "episode" in said and config.n_envs > 1:
        why = f"counts episodes, which needs one environment, not {config.n_envs}"
        raise ConfigError(bad_value("algo_params.train_freq", said, "n_envs 1, or steps, e.g. [1, step]", why))


def _default_components(config: RunConfig, task: Task) -> tuple[str, ...]:
    controller: type[Controller] = registry("controller").get(config.control).load()
    cartesian, remembers = controller.commands == "cartesian", controller.remembers_command
    return default_components(task, cartesian=cartesian, remembers_command=remembers)


def _is_hindsight(config: RunConfig, task: Task, entry: Algorithm) -> bool:
    """Whether hindsight replay is on.

    Raises:
        ConfigError: Asked for where it cannot be.
    """
    observed = config.observations or _default_components(config, task)
    telling = [name for name in observed if find_component(name).tells_goal]
    applies = entry.goal_relabelling and entry.dict_observations and not telling
    fixed = [one.config.reward for one in variants(config) if not find_reward(one.config.reward).of_goals]
    her = config.her if config.her is not None else applies and config.reward == "sparse" and not fixed
    if her and telling:
        why = f"cannot relabel {telling[0]}, which tells the goal as well and is observed"
        raise ConfigError(bad_value("her", True, f"false, or observations without {telling[0]}", why))
    if her and not applies:
        names = [e.name for e in registry("algorithm") if _relabels(e.target, config.framework)]
        raise ConfigError(
            bad_value("her", True, f"false, or algo one of {', '.join(names)}", f"is not for {config.algo}")
        )
    if her and fixed:
        names = [entry.name for entry in registry("reward") if find_reward(entry.name).of_goals]
        why = f"cannot relabel the {fixed[0]} reward"
        raise ConfigError(bad_value("her", True, f"false, or reward one of {', '.join(names)}", why))
    return her


def _warm_up(config: RunConfig, said: Mapping[str, Any]) -> dict[str, Any]:
    """`learning_starts` for hindsight replay, which must outlast the first episodes.

    Raises:
        ConfigError: The user's own numbers in `said` are too small for it.
    """
    needed = _two_episodes(config) // 2 + 1
    starts = int(config.algo_params.get("learning_starts", needed))
    if starts < needed and "learning_starts" in said:
        why = "is too early for hindsight replay, which needs whole episodes"
        allowed = f"at least {needed} (horizon × n_envs, plus 1)"
        raise ConfigError(bad_value("algo_params.learning_starts", starts, allowed, why))
    if "buffer_size" in said and said["buffer_size"] < _two_episodes(config):
        why = "is too small for hindsight replay, which needs whole episodes"
        allowed = f"at least {_two_episodes(config)} (2 × horizon × n_envs)"
        raise ConfigError(bad_value("algo_params.buffer_size", said["buffer_size"], allowed, why))
    return {"learning_starts": max(starts, needed)}


def _two_episodes(config: RunConfig) -> int:
    """Env steps of two of the longest episodes in every environment."""
    played = (one.config for one in variants(config))
    return 2 * max(one.task_params.horizon or find_task(one.task).horizon for one in played) * config.n_envs


def _relabels(frameworks: Any, framework: str) -> bool:
    return isinstance(frameworks, Mapping) and framework in frameworks and frameworks[framework].goal_relabelling


def from_python(config: RunConfig | Mapping[str, Any]) -> Resolved:
    """A config given from Python: complete, or as little as `{"algo": "ppo"}`."""
    values = config.model_dump(mode="json", exclude_unset=True) if isinstance(config, RunConfig) else dict(config)
    return resolve_config(overrides=merged({}, values), origin="argument")
