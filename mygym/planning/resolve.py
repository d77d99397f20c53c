"""Resolve the user's values and the registries to the complete config of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mygym.config import Layer, Resolved, RunConfig, beneath, merged, overlaid, refuse_defaults, resolve
from mygym.config.hyperparameters import Schema
from mygym.config.loading import MAX_DEPTH, as_plain, is_plain
from mygym.config.parameter_checks import NAMED, check_parameters, name_of, shown
from mygym.engines.engine import BULLET, FUSED, has_batches
from mygym.envs.randomizers import ranges
from mygym.errors import ConfigError, RegistryError, bad_value
from mygym.nested import at, changed, common
from mygym.planning.callbacks import check_callbacks
from mygym.planning.checks import (
    ENCODER,
    IN_FILE,
    REQUIREMENTS,
    check_critic,
    check_engine,
    check_hyperparameters,
    check_images,
    check_learners,
    check_overlap,
    errors_end_with,
    is_frozen,
    may_share,
    registered_training_params,
)
from mygym.planning.derived import absolute, derived_values, in_batch, plain_distractors, uses_her
from mygym.planning.strategies import (
    JOIN,
    ConstructedStrategies,
    errors_name_section,
    join_params,
    make_variants,
    sections,
    without_aliases,
)
from mygym.registry import FRAMEWORKS, Algorithm, Entry, algorithm, registry, user_files
from mygym.registry.signatures import parameters
from mygym.robotics.controllers import find_controller
from mygym.tasks.lookup import find_task, named_objects
from mygym.tasks.observations import camera_components, find_component
from mygym.tasks.rewards import find_reward
from mygym.tasks.task import CHANGEABLE, Task, change_task

STRATEGY_KEYS = ("strategy", "strategy_params")
"""Keys of an algorithm's `run_defaults` that choose the strategy, which decides further values."""

ALGORITHM_FOR_FUSED = "ppo"
"""Default algorithm for the fused engine (`benchmarks/results/fused.md`)."""

ENVS_OF_A_BATCH = 32
"""Default `n_envs` of on-policy algorithms for tasks of one stage in engines with batches; rollouts keep their size."""

SHORTEST_ROLLOUT = 16
"""Steps of each environment in a rollout below which the default stays as it is."""

ALGORITHM_FOR_SEVERAL_STAGES = "ppo"
"""Default algorithm for tasks of several stages without an `algo` in their `run_defaults` that can be used
(`benchmarks/tables/core`)."""

LEARNING_KEYS = ("algo", "strategy", "strategy_params", "her", "actions", "pretrained")
"""Keys of a config that choose how to learn: with any of them the default algorithm is that of the schema.

So does a reward of goal vectors, which is for hindsight. A framework does not: the algorithms of tasks exist in each.
Nor do hyperparameters: they are for the algorithm of the task.
"""

BUDGET_KEYS = ("steps", "eval")
"""Keys of a task's `run_defaults` that set the duration of learning from rewards."""


def recommended_layer(asked: RunConfig) -> Layer:
    """Return the algorithm for the fused engine, or for the task, unless the user has chosen how to learn."""
    if asked.engine == FUSED and "algo" not in asked.model_fields_set:
        return Layer("engine fused", {"algo": ALGORITHM_FOR_FUSED})
    task, reasons = find_task(asked.task), list[str]()
    has_goal_reward = "reward" in asked.model_fields_set and find_reward(asked.reward).depends_on_goals_only
    if has_goal_reward or not asked.model_fields_set.isdisjoint(LEARNING_KEYS):
        return Layer("task", {})
    names, origin = _algorithms_of_task(task, asked.engine)
    for name in names:
        if not (needed := _needed(registry("algorithm").get(name, "algo"), asked)):
            return Layer("; ".join([origin, *reasons]), {"algo": name})
        reasons.append(f"{name}, the best, needs {needed}")
    if len(task.stage_names) == 1:
        return Layer("task", {})
    return Layer("; ".join(["tasks of several stages", *reasons]), {"algo": ALGORITHM_FOR_SEVERAL_STAGES})


def _algorithms_of_task(task: Task, engine: str) -> tuple[Sequence[str], str]:
    """Return the algorithms that a task prefers in an engine, the best first, and the origin of the choice."""
    names, origin = task.run_defaults.get("algo", ()), f"task {task.name}"
    if isinstance(names, Mapping):
        for name in names:
            registry("engine").get(name, f"{origin}: run_defaults.algo")
        if engine in names and engine != BULLET:
            origin += f", in {engine}"
        names = names.get(engine, names.get(BULLET, ()))
    return ([names] if isinstance(names, str) else names), origin


def _needed(entry: Entry, asked: RunConfig) -> str:
    """Return what an algorithm needs that is not here, or not asked for; empty if nothing."""
    if entry.missing_extras:
        return " and ".join(entry.missing_extras)
    if "framework" in asked.model_fields_set and asked.framework not in entry.frameworks:
        return " and ".join(entry.frameworks)
    if "pytorch" not in entry.frameworks and camera_components(asked.observations or (), images=True):
        return "observations without images"
    if asked.learners > 1 and not may_share(algorithm(entry.name, entry.framework).combo()[0]):
        return "one learner"
    return ""


def framework_layer(asked: RunConfig) -> Layer:
    """Return the framework of an algorithm that the default framework lacks, unless the user has chosen one."""
    framework = registry("algorithm").get(asked.algo, "algo").framework
    chosen = "framework" in asked.model_fields_set or asked.framework == framework
    return Layer(f"algorithm {asked.algo}", {} if chosen else {"framework": framework})


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
    """Return the defaults of the strategies' parameters, after a check of the user's values."""
    defaults = {}
    in_file = sections(asked.strategy, user[0].values.get("strategy_params", {}))
    for name, (section, values) in sections(asked.strategy, asked.strategy_params).items():
        known = parameters(registry("strategy").get(name).load())
        check_parameters(section, name, known, in_file[name][1], complete=False)
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
            possible = {name: starts[name] for name in starts if name in task.start_stages}
            values["task_params"] = {**values["task_params"], "starts": possible}
        layers.append(Layer(f"algorithm {entry.name}, {words}", values))
    return layers


def engine_layer(asked: RunConfig, entry: Algorithm, task: Task) -> Layer:
    """Return the algorithm's values for the engine, the number of the task's stages and, in this engine, the task.

    Without any, for another engine that has batches, those of short rollouts in many environments; else empty. It is
    also empty if each environment has a world of its own, which is as slow as in PyBullet.
    """
    origin = f"algorithm {entry.name}, for engine {asked.engine}"
    if has_batches(asked.engine) and not in_batch([asked]):
        return Layer(origin, {})
    values = dict(entry.engine_defaults.get(asked.engine, {}))
    if len(task.stage_names) > 1:
        values = merged(values, entry.engine_stage_defaults.get(asked.engine, {}))
        values = merged(values, entry.engine_task_defaults.get(asked.engine, {}).get(task.name, {}))
    if not values and "n_envs" not in asked.model_fields_set and has_batches(asked.engine):
        n_steps = entry.defaults.get("n_steps", 0) * entry.run_defaults.get("n_envs", 1) // ENVS_OF_A_BATCH
        if len(task.stage_names) == 1 and SHORTEST_ROLLOUT <= n_steps < entry.defaults["n_steps"]:
            values = {"n_envs": ENVS_OF_A_BATCH, "algo_params": {"n_steps": n_steps}}
    return Layer(origin, values)


def task_layer(task: Task, entry: Algorithm, of_engine: Layer) -> Layer:
    """Return the numbers of the task, and the config values that its registration prefers.

    The duration that it prefers is for PyBullet, and for algorithms that learn from rewards.
    """
    numbers = {key: getattr(task, key) for key in CHANGEABLE if key not in ("distractors", "rotation")}
    if task.training_horizon is None:
        del numbers["training_horizon"]  # that of an algorithm counts
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


def check_names(config: RunConfig) -> None:
    """Refuse unknown names.

    Raises:
        ConfigError: A task, a framework, a callback or a randomizer is unknown or invalid.
        RegistryError: Another name is unknown.
    """
    find_task(config.task)
    find_reward(config.reward)
    registry("engine").get(config.engine, "engine")
    registry("algorithm").get(config.algo, "algo")
    if config.framework not in FRAMEWORKS:
        raise ConfigError(bad_value("framework", config.framework, FRAMEWORKS))
    params = config.task_params
    objects: dict[str, Sequence[str]] = {"object": [params.object] if params.object else []}
    objects |= {
        f"objects.{role}": [drawn] if isinstance(drawn, str) else drawn for role, drawn in params.objects.items()
    }
    objects |= {f"distractors.{n}": each.objects for n, each in enumerate(params.distractors or ())}
    names = [
        ("robot", "robot", config.robot),
        ("workspace", "workspace", config.workspace),
        ("controller", "control", config.control.name),
        *(("observation", "observations", name.partition(":")[0]) for name in config.observations or ()),
        *(("observation", "critic_observations", name) for name in config.critic_observations or ()),
        *(("strategy", "strategy", name) for name in config.strategy.split(JOIN)),
        *(("object", f"task_params.{key}", name) for key, drawn in objects.items() for name in drawn),
    ]
    for kind, key, name in names:
        if name is not None:
            registry(kind).get(name, key)
    ranges(config.randomize)
    check_callbacks(config.callbacks)


def python_values(config: RunConfig | Mapping[str, Any]) -> dict[str, Any]:
    """Return the explicitly set values of a config given from Python, as plain data.

    Raises:
        ConfigError: It is no config, or a class in it has no name.
    """
    if isinstance(config, RunConfig):
        return config.model_dump(mode="json", exclude_unset=True)
    if not isinstance(config, Mapping):
        allowed = "a mapping such as {'task': 'push'}; evaluate, load and make_env take the path of a run, too"
        raise ConfigError(bad_value("config", config, allowed))
    return {key: _with_names(value, (key,)) for key, value in as_plain(config).items()}


def _with_names(value: Any, path: tuple[str, ...]) -> Any:
    """Return a value with the names of registered classes and functions, such as `torch.nn.ReLU`, in their place."""
    if isinstance(value, Mapping):
        deep = len(path) > MAX_DEPTH  # which `check_plain` refuses
        return value if deep else {key: _with_names(inner, (*path, key)) for key, inner in value.items()}
    if path[-1] not in NAMED or is_plain(value):
        return value
    name = name_of(value)
    if name is None:
        allowed = f"a name of `mygym list {NAMED[path[-1]]}`"
        raise ConfigError(bad_value(".".join(path), shown(value), allowed, "is not registered"))
    return name


def resolve_config(
    file: Mapping[str, Any] | None = None, overrides: Mapping[str, Any] | None = None, origin: str = "flag"
) -> Resolved:
    """Decide every value: schema < algorithm < task < file < flag; for the arguments, see `make_plan`.

    Raises:
        ConfigError: An invalid key, type, value or combination, in any layer.
    """
    return resolve_with_strategies(file, overrides, origin)[0]


def resolve_with_strategies(
    file: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    origin: str = "flag",
    file_origin: str = "file",
) -> tuple[Resolved, list[Any]]:
    """Decide every value as `resolve_config` does; also return the strategies of the result.

    Raises:
        ConfigError: An invalid key, type, value or combination, in any layer.
    """
    user = without_aliases([Layer(file_origin, file or {}), Layer(origin, overrides or {})])
    hidden = resolve(user[:1]).config if user[0].values and user[1].values else None  # a flag may hide a mistake
    asked = resolve(user).config  # the user's mistakes come before anything that is derived from them
    _check_imports(asked)
    try:
        if hidden is not None:
            with errors_end_with(IN_FILE):
                check_names(hidden)
        recommended = recommended_layer(asked)
        asked = beneath(asked, [recommended])
        check_names(asked)
        framework = framework_layer(asked)
        asked = beneath(asked, [framework])
        required = strategy_of_algorithm(asked)
        asked = beneath(asked, [required])
        strategy_class = strategy_defaults(asked, user)
        defaults = strategy_class.values.get("strategy_params", {})
        strategies = ConstructedStrategies(asked, merged(defaults, asked.strategy_params))
        preferred = strategy_run_defaults(asked, strategies.strategies)
    except RegistryError as error:
        raise ConfigError(str(error)) from error
    asked = beneath(asked, [preferred])
    task = find_task(asked.task)
    workspace, entry = _find_names(asked, task)
    of_entry = {key: value for key, value in entry.run_defaults.items() if key not in STRATEGY_KEYS}
    of_entry |= required.values
    of_stages, of_engine = stage_layers(asked, task, entry), engine_layer(asked, entry, task)
    preferences = [recommended, framework, task_layer(task, entry, of_engine), preferred]
    of_algorithm = [algorithm_layer(entry, of_entry), *of_stages, of_engine]
    draft = beneath(asked, [strategy_class, *of_algorithm, *preferences])
    variants = make_variants(draft, strategies.of(draft))[0]
    her = uses_her(draft, task, entry, variants)
    schema = Schema(entry, asked.algo_params, her)
    schema.check_required()
    class_training, entry_training = registered_training_params(schema.cls, entry, asked, user[0])
    registered = {**of_entry, "algo_params": schema.registered(), **entry_training}
    layers = [
        Layer(f"class {schema.cls.__name__}", {"algo_params": schema.defaults(), **class_training}),
        strategy_class,
        *split_inherited(algorithm_layer(entry, registered), entry),
        *(_accepted(layer, schema) for layer in (*of_stages, of_engine)),
        *preferences,
        *user,
    ]
    chosen = resolve(layers)
    by_default = f" (algo: {entry.name!r}, the default of {recommended.origin})" if recommended.values else ""
    with errors_end_with(by_default):
        check_hyperparameters(schema, layers, asked, chosen.config)
    derived = derived_values(asked, chosen.config, variants, her, schema)
    control = find_controller(chosen.config.control).config.model_dump()
    derived |= {"workspace": absolute(workspace), "control": control, "her": her}
    if params := _complete_params(strategies.of(chosen.config)):
        derived["strategy_params"] = params
    changes = merged(changed(derived, chosen.values()), _absolute_files(chosen.config, schema))
    if "name" in changes.get("control", ()):  # a name replaces all parameters
        changes["control"] = control
    resolved = overlaid(chosen, Layer("derived", changes))
    if resolved.config.strict:
        refuse_defaults(resolved, chosen)
    check_engine(resolved.config, variants)
    check_learners(resolved.config, schema.cls)
    check_overlap(resolved.config, schema.cls)
    check_images(resolved.config, entry, schema)
    check_critic(resolved.config, schema)
    return resolved, strategies.of(resolved.config)


def from_python(config: RunConfig | Mapping[str, Any]) -> Resolved:
    """Resolve a config given from Python, which may be incomplete, e.g. `{"algo": "ppo"}`."""
    return resolve_config(overrides=python_values(config), origin="argument")


def _absolute_files(config: RunConfig, schema: Schema) -> dict[str, Any]:
    """Return the files of trained networks by their absolute paths: a run may be loaded from any folder."""
    keys: list[tuple[str, ...]] = [("pretrained", "path"), ("image_params", "detector"), ("image_params", "encoder")]
    if is_frozen(schema):  # the encoder of another network may be a name
        keys.append(("algo_params", *ENCODER))
    values, files = config.model_dump(mode="json"), dict[str, Any]()
    for key in keys:
        file = at(values, key)
        if isinstance(file, str) and not Path(file).is_absolute():
            value: Any = str(Path(file).expanduser().absolute())
            for name in reversed(key):
                value = {name: value}
            files = merged(files, value)
    return files


def _check_imports(asked: RunConfig) -> None:
    """Refuse modules that only the file lists, because importing runs code, which needs the user's consent."""
    for module in asked.imports:
        if not user_files.is_imported(module):
            why = "would run code, and a file alone cannot have it imported"
            raise ConfigError(bad_value("imports", module, f"also the flag --import {module}", why))


def _complete_params(strategies: Sequence[Any]) -> dict[str, Any]:
    """Return the parameters that the user has not set, with values decided by the strategies."""
    params: dict[str, Any] = {}
    for strategy in strategies:
        with errors_name_section(strategy.section):
            params[strategy.name] = strategy.complete_params()
    return join_params(params)


def _find_names(asked: RunConfig, task: Task) -> tuple[str, Algorithm]:
    """Return the registered name of the workspace, and the algorithm; check what depends on the task."""
    try:
        workspace = registry("workspace").get(asked.workspace or task.workspace, "workspace").name
        for name in asked.observations or ():
            find_component(name)
        params = asked.task_params.model_dump(exclude_none=True, exclude={"areas"})
        unused = [("task_params.object", (params["object"],))] if "object" in params and not task.has_object else []
        for key, names in named_objects(change_task(task, params), params) + unused:
            for name in names:
                registry("object").get(name, key)
        entry = algorithm(asked.algo, asked.framework)
        _check_algorithm(entry)
    except RegistryError as error:
        raise ConfigError(str(error)) from error
    return workspace, entry


def _check_algorithm(entry: Algorithm) -> None:
    """Refuse a registration that cannot be trained with any config."""
    from stable_baselines3.common.base_class import BaseAlgorithm

    cls = entry.combo()[0]
    if not (isinstance(cls, type) and issubclass(cls, BaseAlgorithm)):
        why = f"is not an algorithm: {getattr(cls, '__qualname__', cls)} ({entry.origin}) cannot be trained"
        raise ConfigError(
            bad_value("algo", entry.name, "a subclass of a Stable-Baselines3 algorithm or of Runner", why)
        )
    for name in entry.requires:
        if name not in REQUIREMENTS:
            why = f"is required by {entry.name} ({entry.origin}), and is not a known requirement"
            raise ConfigError(bad_value("requires", name, REQUIREMENTS, why))
    Schema(entry, {}).check_registration()


def _accepted(layer: Layer, schema: Schema) -> Layer:
    """Return a layer without the hyperparameters that the chosen policy or optimiser does not take."""
    params = layer.values.get("algo_params", {})
    return Layer(layer.origin, {**layer.values, "algo_params": schema.accepted(params)} if params else layer.values)
