"""RL Baselines3 Zoo: an entry of `hyperparams/ALGO.yml`, which has an entry for each environment, as a config.

Hyperparameters that an entry leaves out have the defaults of the algorithm's class there, so the config states these
where mygym has defaults of its own.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mygym.config.hyperparameters import Schema
from mygym.config.parameter_checks import NAMED
from mygym.config.schema import RunConfig
from mygym.config.toolkit import Conversion
from mygym.errors import ConfigError, bad_value
from mygym.nested import common, merged
from mygym.registry import Algorithm, algorithm, registry
from mygym.registry.signatures import fits

ALGORITHMS = {
    **{name: name for name in ("a2c", "ars", "crossq", "ddpg", "dqn", "ppo", "qrdqn", "sac", "td3", "tqc", "trpo")},
    "ppo_lstm": "recurrent_ppo",
}
"""Algorithm of RL Zoo, the stem of its file → algorithm."""

TASKS = {
    "Reach": "reach",
    "Push": "push",
    "PickAndPlace": "pick_and_place",
    "Slide": "slide",
    "Stack": "stack",
    "Flip": "AGR",
}
"""Task in the ids of panda-gym and of Gymnasium-Robotics → task."""

FOREIGN = re.compile(
    rf"(?:Panda(?:{'|'.join(TASKS)})(?:Joints)?|Fetch(?:Reach|Push|PickAndPlace|Slide))(?:Dense)?-v\d+"
)
MYGYM = re.compile(r"mygym(?:-flat)?/(\w+)-v\d+")
IDS = "PandaReach, PandaPush, PandaPickAndPlace, PandaSlide, PandaStack, PandaFlip (Joints, Dense), FetchReach, "
IDS += "FetchPush, FetchPickAndPlace, FetchSlide (Dense), mygym/…"
"""Ids that have a task, in words."""

STEPS = "n_timesteps"
SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf", "delta_std")
"""Hyperparameters that RL Zoo schedules: `lin_0.001` falls to 0 over the run."""

HINDSIGHT = "HerReplayBuffer"
OLD_HINDSIGHT = ("n_sampled_goal", "goal_selection_strategy", "online_sampling", "max_episode_length")
"""Keys of `her.yml`, the file of RL Zoo's former algorithm `her`."""

RUN_KEYS = ("seed", "device")
"""Keys that have the same name and meaning here."""

MEANINGLESS = {
    "env_wrapper": "wrappers of other libraries do not fit; observations, actions and reward are config keys",
    "vec_env_wrapper": "wrappers of other libraries do not fit",
    "callback": "callbacks of other libraries do not fit; `callbacks` has the names of mygym list callback",
    "frame_stack": "observations contain velocities; for images: image_params.frames",
    "monitor_kwargs": "monitor.csv has its own columns",
    "verbose": "the progress is always shown",
    "tensorboard_log": "TensorBoard's logs are in the run directory",
}
"""Keys without a meaning here → reason."""


def recognises(data: Mapping[str, Any]) -> bool:
    """Return whether the content of a file is that of RL Zoo: mappings with `n_timesteps`, by environment id."""
    entries = list(data.values())
    if not entries or not all(isinstance(entry, Mapping) for entry in entries) or data.keys() & RunConfig.model_fields:
        return False
    return any(STEPS in entry for entry in entries)


def convert(data: Mapping[str, Any], path: str | Path, env_id: str | None = None) -> Conversion:
    """Return the config for an entry of a file of RL Zoo.

    Args:
        data: Content of the file.
        path: The file, named after its algorithm, e.g. `tqc.yml`; an entry may name another.
        env_id: The environment, e.g. `PandaPickAndPlace-v3`; the version may differ from that in the file.

    Raises:
        ConfigError: The environment or the algorithm has no counterpart here, or a value cannot be read.
    """
    notes: list[str] = []
    name, content = _entry(data, path, env_id, notes)
    entry = dict(content)
    chosen = _algorithm(entry.pop("model_class", Path(path).stem))
    world = _world(name, _mapping(entry.pop("env_kwargs", None), "env_kwargs"), notes)
    old = {key: entry.pop(key) for key in OLD_HINDSIGHT if key in entry}
    buffer = entry.pop("replay_buffer_class", None)
    buffer_kwargs = _mapping(entry.pop("replay_buffer_kwargs", None), "replay_buffer_kwargs") | old
    her = bool(old) or str(buffer).rpartition(".")[2] == HINDSIGHT
    if buffer is not None and not her:
        notes.append(_note("replay_buffer_class", buffer, "has no name here; the run has its default buffer"))
    config = {**world, "algo": chosen.name, "her": her, "stop_at_success": None}
    config["normalize"] = _normalize(entry.pop("normalize", False), notes)
    if STEPS in entry:
        config["steps"] = _whole(entry.pop(STEPS), STEPS)
    config |= {key: entry.pop(key) for key in RUN_KEYS if key in entry}
    config["n_envs"] = _whole(entry.pop("n_envs", 1), "n_envs")
    params = _named(_mapping(entry.pop("policy_kwargs", None), "policy_kwargs"), notes)
    given: dict[str, Any] = {"policy_kwargs": params} if params else {}
    if buffer_kwargs:
        given["replay_buffer_kwargs"] = buffer_kwargs
    given |= _policy(entry.pop("policy", None), chosen, notes) | _noise(entry, notes)
    notes += [_note(key, entry.pop(key), f"has no meaning: {why}") for key, why in MEANINGLESS.items() if key in entry]
    given |= {key: _hyperparameter(key, value) for key, value in entry.items()}
    schema = Schema(chosen, {}, her)
    known = _known(given, schema, (), notes)
    if her:
        _delay(known, config, notes)
    config["algo_params"] = merged(common(schema.defaults(), _preferred(chosen, schema, config)), known)
    if starts := _preferred_starts(chosen, config):
        config["task_params"] = merged({"starts": starts}, config.get("task_params", {}))
    return Conversion(config, notes)


def _note(key: str, value: Any, why: str) -> str:
    return f"{key}: {value!r} {why}"


# Entry, algorithm, environment ----------------------------------------------------------------------------------------


def _entry(
    data: Mapping[str, Any], path: str | Path, env_id: str | None, notes: list[str]
) -> tuple[str, Mapping[str, Any]]:
    """Return the environment id and its entry."""
    entries = {name: entry for name, entry in data.items() if isinstance(entry, Mapping)}
    usable = [name for name in entries if FOREIGN.fullmatch(name) or MYGYM.fullmatch(name)]
    if env_id is None:
        allowed = ", ".join(usable) or f"any of {IDS}, although the file has no entry for them"
        raise ConfigError(
            "is a file of RL Zoo, not a config: it has an entry for each environment; "
            f"allowed: mygym import {shlex.quote(str(path))} --env ENV -o new.yaml, with ENV {allowed}"
        )
    if not FOREIGN.fullmatch(env_id) and not MYGYM.fullmatch(env_id):
        raise ConfigError(bad_value("--env", env_id, usable or IDS, "has no task here"))
    if env_id in entries:
        return env_id, entries[env_id]
    stem = env_id.rpartition("-v")[0]
    for name in usable:
        if name.rpartition("-v")[0] == stem:
            notes.append(_note("--env", env_id, f"has no entry; {name} has"))
            return env_id, entries[name]
    if "default" in entries:
        notes.append(_note("--env", env_id, "has no entry; default has"))
        return env_id, entries["default"]
    raise ConfigError(bad_value("--env", env_id, usable, "has no entry in the file"))


def _algorithm(name: Any) -> Algorithm:
    if not isinstance(name, str) or name not in ALGORITHMS:
        why = "is no algorithm of RL Zoo; its files are named after their algorithm, such as tqc.yml"
        raise ConfigError(bad_value("algo", name, ALGORITHMS, why))
    return algorithm(ALGORITHMS[name])


def _world(name: str, arguments: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return the config values for the environment with this id and these arguments of `gymnasium.make`."""
    defaults = {"control": "ee_delta", "reward": "sparse"}
    if id_here := MYGYM.fullmatch(name):
        for decided in ("goal_env", "gamma"):  # by the algorithm and its hyperparameters
            arguments.pop(decided, None)
        task = "_".join(re.findall(r"[A-Z][a-z0-9]*", id_here[1])).lower()
        values = defaults | ({} if task == "gym" else {"task": task})
        values |= {key: arguments.pop(key) for key in list(arguments) if key in RunConfig.model_fields}
    else:
        of_panda = "" if name.startswith("Panda") else " of a Panda"
        task = TASKS[re.sub(r"Panda|Fetch|Joints|Dense|-v\d+", "", name)]
        values = {"robot": "panda", "task": task, **defaults}
        if arguments.pop("control_type", "") == "joints" or "Joints" in name:
            values["control"] = "joint_delta"
        if arguments.pop("reward_type", "") == "dense" or "Dense" in name:
            values["reward"] = "dense"
        why = f"becomes task {task}{of_panda}, with goals, episodes and success test of mygym"
        notes.append(_note("--env", name, why))
    notes += [_note(f"env_kwargs.{key}", value, "has no meaning here") for key, value in arguments.items()]
    return values


# Values ---------------------------------------------------------------------------------------------------------------


def _mapping(value: Any, key: str) -> dict[str, Any]:
    """Return a mapping, or the mapping in a text such as `dict(net_arch=[64, 64])`; classes become their names."""
    allowed = "a mapping, or dict(…) of numbers, text, lists and names of classes"
    if isinstance(value, str):
        try:
            value = _read(ast.parse(value.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = f"cannot be read: {error.args[0] if error.args else type(error).__name__}"
            raise ConfigError(bad_value(key, value, allowed, why)) from None
    if not isinstance(value, Mapping | None) or not all(isinstance(name, str) for name in value or ()):
        raise ConfigError(bad_value(key, value, allowed))
    return dict(value or {})


def _read(node: ast.expr) -> Any:
    """Return the value of an expression of literals, `dict(…)` and names of classes, which stay text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if None not in keywords:
            return {str(name): _read(value) for name, value in keywords.items()}
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_read(name): _read(value) for name, value in zip(node.keys, node.values, strict=True) if name}
    if isinstance(node, ast.List | ast.Tuple):
        return [_read(element) for element in node.elts]
    if isinstance(node, ast.Name | ast.Attribute):
        return ast.unparse(node)
    return ast.literal_eval(node)


def _hyperparameter(key: str, value: Any) -> Any:
    """Return a hyperparameter; `lin_0.001` is a schedule."""
    if key not in SCHEDULED or not isinstance(value, str):
        return value
    kind, _, number = value.partition("_")
    try:
        first = float(number)
    except ValueError:
        first = -1.0
    if kind != "lin" or not first > 0:
        raise ConfigError(bad_value(key, value, "a number, or lin_NUMBER, e.g. lin_0.001"))
    return {"schedule": "linear", "from": first, "to": 0.0}


def _whole(value: Any, key: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, float) or not value.is_integer():
        raise ConfigError(bad_value(key, value, "a whole number"))
    return int(value)


def _normalize(value: Any, notes: list[str]) -> bool:
    """Return whether observations are normalised."""
    options = {} if isinstance(value, bool) else _mapping(value, "normalize")
    observations = options.pop("norm_obs", value is not False)
    if options.pop("norm_reward", value is not False):
        notes.append(_note("normalize", value, "is approximated: observations are normalised, rewards are not"))
    notes += [_note(f"normalize.{key}", option, "has no meaning here") for key, option in options.items()]
    return bool(observations)


def _policy(name: Any, entry: Algorithm, notes: list[str]) -> dict[str, Any]:
    """Return the policy, if it differs from that of the algorithm and observations fit it."""
    schema = Schema(entry, {})
    if name in (None, schema.policy):
        return {}
    if not entry.dict_observations and name in schema.policies:
        return {"policy": name}
    notes.append(_note("policy", name, f"becomes {schema.policy}, which takes the observations of mygym"))
    return {}


def _noise(entry: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Take the action noise out of an entry."""
    kind, deviation = entry.pop("noise_type", None), entry.pop("noise_std", 0.0)
    if kind is None:
        return {}
    if str(kind).strip() != "normal":
        notes.append(_note("noise_type", kind, "is approximated: the noise is normal"))
    return {"action_noise": deviation}


def _named(values: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return `policy_kwargs` with the registered names of classes, and networks in today's form."""
    for key, kind in NAMED.items():
        if not isinstance(values.get(key), str):
            continue
        given = values[key].rpartition(".")[2]
        name = next((known.name for known in registry(kind) if given in (known.class_name, known.name)), None)
        if name is None:
            notes.append(_note(f"policy_kwargs.{key}", values.pop(key), "has no name here; the default stays"))
        else:
            values[key] = name
    networks = values.get("net_arch")
    if isinstance(networks, list) and len(networks) == 1 and isinstance(networks[0], Mapping):
        values["net_arch"] = networks[0]  # a list until Stable-Baselines3 1.8
    return values


def _known(values: Mapping[str, Any], schema: Schema, path: tuple[str, ...], notes: list[str]) -> dict[str, Any]:
    """Return the values that the algorithm has, whole numbers as such."""
    known, result = schema.inside(path), {}
    for key, value in values.items():
        full_path = (*path, key)
        if known is None:
            result[key] = value
        elif key not in known:
            notes.append(_note(".".join(full_path), value, f"is no parameter of {schema.entry.name}"))
        elif isinstance(value, Mapping) and schema.inside(full_path) is not None:
            result[key] = _known(value, schema, full_path, notes)
        elif isinstance(value, float) and value.is_integer() and not fits(value, known[key].annotation):
            result[key] = int(value)
        else:
            result[key] = value
    return result


def _delay(params: dict[str, Any], config: Mapping[str, Any], notes: list[str]) -> None:
    """Raise `learning_starts` to the first steps at which hindsight replay has a whole episode."""
    task = registry("task").get(config["task"]).load() if config.get("task") in registry("task") else None
    horizon = config.get("task_params", {}).get("horizon") or getattr(task, "horizon", 0)
    needed = horizon * config["n_envs"] + 1
    given = params.get("learning_starts", needed)
    if isinstance(given, int | float) and given < needed:
        why = f"becomes {needed}: hindsight replay needs whole episodes, which are longer here"
        notes.append(_note("learning_starts", given, why))
        params["learning_starts"] = needed


# Defaults of mygym that an entry does not mean ------------------------------------------------------------------------


def _preferred(entry: Algorithm, schema: Schema, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters for which mygym has another default."""
    of_task = entry.task_defaults.get(config.get("task", ""), {})
    preferred = schema.registered()
    for layer in (entry.stage_defaults, of_task):
        preferred = merged(preferred, layer.get("algo_params", {}))
    return {key: value for key, value in preferred.items() if key != "policy"}


def _preferred_starts(entry: Algorithm, config: Mapping[str, Any]) -> dict[str, float]:
    """Return the starts of training episodes that mygym prefers for the task, with a share of 0."""
    name = str(config.get("task"))
    if name not in registry("task"):
        return {}
    task = registry("task").get(name).load()
    layers = () if len(task.stage_names) == 1 else (entry.stage_defaults, entry.task_defaults.get(name, {}))
    starts = [start for layer in layers for start in layer.get("task_params", {}).get("starts", {})]
    return {start: 0.0 for start in starts if start in task.start_stages}
