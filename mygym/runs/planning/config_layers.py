"""Layers of a config below the user's: preferences of algorithm, task, strategies and engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mygym.config import Layer, RunConfig, merged
from mygym.config.named_components import shown
from mygym.config.parameter_checks import check_parameters, check_values
from mygym.config.plain import is_plain
from mygym.errors import ConfigError, bad_value
from mygym.nested import common
from mygym.registry import Algorithm, algorithm, registry
from mygym.registry.signatures import parameters
from mygym.runs.planning.derived import plain_distractors
from mygym.runs.planning.strategies import JOIN, join_params, sections, without_aliases
from mygym.tasks.lookup import find_task
from mygym.tasks.task import Task
from mygym.tasks.task_params import CHANGEABLE

STRATEGY_KEYS = ("strategy", "strategy_params")
"""Keys of an algorithm's `run_defaults` that choose the strategy, which decides further values."""

ALGORITHM_FOR_FUSED = "ppo"
"""Default algorithm for the fused engine (`benchmarks/results/fused.md`)."""

ALGORITHM_FOR_SEVERAL_STAGES = "ppo"
"""Default algorithm for tasks of several stages without an `algo` in their `run_defaults`
(`benchmarks/results/learning.md`)."""

LEARNING_KEYS = (
    *("algo", "algo_params", "training_params", "strategy", "strategy_params"),
    *("reward", "her", "actions", "pretrained"),
)
"""Keys of a config that choose how to learn: with any of them the default algorithm is that of the schema.

A framework does not choose: the algorithms of tasks exist in each.
"""

BUDGET_KEYS = ("steps", "eval")
"""Keys of a task's `run_defaults` that set the duration of learning from rewards."""


def recommended_layer(asked: RunConfig) -> Layer:
    """Return the algorithm for the fused engine, or for the task, unless the user has chosen how to learn."""
    if asked.engine == "fused" and "algo" not in asked.model_fields_set:
        return Layer("engine fused", {"algo": ALGORITHM_FOR_FUSED})
    if not asked.model_fields_set.isdisjoint(LEARNING_KEYS):
        return Layer("task", {})
    task = find_task(asked.task)
    if "algo" in task.run_defaults:
        return Layer(f"task {task.name}", {"algo": task.run_defaults["algo"]})
    if len(task.stage_names) == 1:
        return Layer("task", {})
    return Layer("tasks of several stages", {"algo": ALGORITHM_FOR_SEVERAL_STAGES})


def strategy_of_algorithm(asked: RunConfig) -> Layer:
    """Return the strategy that the algorithm's registration prefers; empty if the user joins another strategy to it.

    Raises:
        ConfigError: The user's strategy leaves out the strategy that defines the algorithm.
    """
    entry = algorithm(asked.algo, asked.framework)
    layer = algorithm_layer(entry, {key: entry.run_defaults[key] for key in STRATEGY_KEYS if key in entry.run_defaults})
    required = layer.values.get("strategy")
    if "strategy" not in asked.model_fields_set or asked.strategy == required:
        return layer
    if required is not None and required not in asked.strategy.split(JOIN):
        allowed = f"{required}, {required}{JOIN}{asked.strategy}, or an algorithm without a required strategy, e.g. ppo"
        raise ConfigError(bad_value("strategy", asked.strategy, allowed, f"leaves out the strategy of {entry.name}"))
    return algorithm_layer(entry, {})  # parameters of a single strategy do not fit joined strategies


def strategy_defaults(asked: RunConfig, user: Sequence[Layer]) -> Layer:
    """Return the defaults of the strategies' parameters, after a check of the user's values.

    Raises:
        ConfigError: A strategy does not take a parameter.
    """
    defaults = {}
    in_file = sections(asked.strategy, user[0].values.get("strategy_params", {}))
    for name, (section, values) in sections(asked.strategy, asked.strategy_params).items():
        known = parameters(registry("strategy").get(name).load())
        check_values(section, name, known, in_file[name][1])
        check_parameters(section, name, known, values)
        defaults[name] = {key: parameter.default for key, parameter in known.items() if is_plain(parameter.default)}
    params = join_params(defaults)
    return Layer(f"strategy {asked.strategy}", {"strategy_params": params} if params else {})


def strategy_run_defaults(asked: RunConfig, strategies: Sequence[Any]) -> Layer:
    """Return the config values that the strategies prefer."""
    preferred: dict[str, Any] = {}
    for strategy in strategies:
        preferred = merged(preferred, strategy.run_defaults())
    return Layer(f"strategy {asked.strategy}", preferred)


def stage_layers(asked: RunConfig, task: Task, entry: Algorithm) -> list[Layer]:
    """Return the preferences of the algorithm for tasks of several stages, and for this task; none for one stage.

    The preferred reward and observations yield to the user's hindsight replay: it needs a reward of goals, and
    observations without the goal.
    """
    if len(task.stage_names) == 1:
        return []
    layers = []
    for words, preferred in (
        ("for several stages", entry.stage_defaults),
        (f"for task {task.name}", entry.task_defaults.get(task.name, {})),
    ):
        yielding = {"reward", "observations"} if asked.her else set()
        values = {key: value for key, value in preferred.items() if key not in yielding}
        if "task_params" in values:
            starts = values["task_params"]["starts"]
            values["task_params"] = {"starts": {name: starts[name] for name in starts if name in task.start_stages}}
        layers.append(Layer(f"algorithm {entry.name}, {words}", values))
    return layers


def engine_layer(asked: RunConfig, entry: Algorithm, task: Task) -> Layer:
    """Return the algorithm's values for the fused engine and the number of the task's stages; empty for Bullet."""
    values = dict(entry.fused_defaults) if asked.engine == "fused" else {}
    if values and len(task.stage_names) > 1:
        values = merged(values, entry.fused_stage_defaults)
    return Layer(f"algorithm {entry.name}, for engine fused", values)


def task_layer(task: Task, entry: Algorithm, of_engine: Layer) -> Layer:
    """Return the numbers of the task, and the config values that its registration prefers.

    The duration that it prefers is for PyBullet, and for algorithms that learn from rewards.
    """
    numbers = {key: getattr(task, key) for key in CHANGEABLE if key not in ("distractors", "rotation")}
    numbers |= {"distractors": plain_distractors(task.distractors), "rotation": list(task.rotation)}
    first = task.subtasks[0].object
    by_role = {role: names for role, names in task.objects.items() if role != first}
    numbers["objects"] = {role: names if isinstance(names, str) else list(names) for role, names in by_role.items()}
    of_task = {
        key: value
        for key, value in task.run_defaults.items()
        if key != "algo" and not (key in BUDGET_KEYS and (entry.replaces_task_budget or key in of_engine.values))
    }
    return Layer(f"task {task.name}", {"task_params": numbers, **of_task})


def algorithm_layer(entry: Algorithm, values: Mapping[str, Any]) -> Layer:
    """Return a layer of values from the registration of an algorithm."""
    (layer,) = without_aliases([Layer(f"algorithm {entry.name}", values)])
    return layer


def split_inherited(layer: Layer, entry: Algorithm) -> list[Layer]:
    """Split the layer of an algorithm that inherits, so that the origins of inherited values differ."""
    if entry.stated is None:
        return [layer]
    stated = {
        **entry.stated.run_defaults,
        "algo_params": shown(entry.stated.defaults),
        "training_params": entry.stated.training_defaults,
    }
    inherited = Layer(f"{layer.origin}, from {entry.parent}", layer.values)
    return [inherited, Layer(layer.origin, common(layer.values, stated))]
