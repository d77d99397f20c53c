"""Values of a config that follow from other values, and the environments of a config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mygym.config import RunConfig
from mygym.config.hyperparameters import Schema
from mygym.config.parameter_checks import RANGES
from mygym.config.schema import Distractor
from mygym.engines.engine import BULLET, judge_of
from mygym.envs.batches import is_batch
from mygym.envs.env_spec import EnvSpec
from mygym.envs.randomizers import ranges
from mygym.errors import ConfigError, bad_value
from mygym.planning.strategies import Variant
from mygym.registry import Algorithm, RobotFileName, algorithm, is_file_name, registry
from mygym.registry.algorithms import of_framework, relabels
from mygym.robotics.controllers import find_controller
from mygym.tasks.lookup import find_task
from mygym.tasks.observations import CRITIC_KEY, camera_components, default_components, find_component
from mygym.tasks.rewards import find_reward
from mygym.tasks.task import Task, actions_within, episode_limit


def derived_values(
    asked: RunConfig, chosen: RunConfig, variants: Sequence[Variant], her: bool, schema: Schema
) -> dict[str, Any]:
    """Return the values that follow from others.

    Raises:
        ConfigError: The user's values are too small for hindsight replay.
    """
    derived: dict[str, Any] = {"robot": absolute(chosen.robot)}
    if task_params := _derived_task_params(asked):
        derived["task_params"] = task_params
    if asked.randomize:
        derived["randomize"] = {name: list(given) for name, given in ranges(asked.randomize).items()}
    overlap = chosen.overlap
    if overlap and "overlap" not in asked.model_fields_set:  # the algorithm prefers it
        overlap = trains_after_each_step(chosen) and not in_batch(variant.config for variant in variants)
        derived["overlap"] = overlap
    if overlap and chosen.env_processes is False and "env_processes" not in asked.model_fields_set:
        derived["env_processes"] = "auto"
    algo_params: dict[str, Any] = {}
    two_episodes = _two_episodes(chosen, variants)
    if her:
        algo_params |= _warm_up(chosen, asked.algo_params, two_episodes)
        if len(variants) > 1:  # the task that was played computes the rewards
            algo_params["replay_buffer_kwargs"] = {"copy_info_dict": True}
    rollout, batch = chosen.algo_params.get("n_steps"), chosen.algo_params.get("batch_size")
    is_ppo = "n_epochs" in chosen.algo_params and "batch_size" not in asked.algo_params
    if is_ppo and isinstance(rollout, int) and isinstance(batch, int):
        # PPO warns about minibatches that are larger than a rollout.
        algo_params["batch_size"] = min(batch, rollout * chosen.n_envs)
    rows = chosen.algo_params.get("buffer_size")
    if isinstance(rows, int) and schema.has_replay and "buffer_size" not in asked.algo_params:
        # Rows beyond the run's steps would be allocated and never filled; SB3 divides the size among the environments.
        size = max(-(-chosen.steps // chosen.n_envs) * chosen.n_envs, two_episodes)
        least = two_episodes if her else 0  # hindsight replay samples complete episodes
        algo_params["buffer_size"] = max(min(rows, size), least)
    return derived | ({"algo_params": algo_params} if algo_params else {})


def _derived_task_params(asked: RunConfig) -> dict[str, Any]:
    """Return objects and distractors in a form that can be loaded from any folder."""
    params = asked.task_params
    derived: dict[str, Any] = {}
    if params.object is not None:
        derived["object"] = absolute(params.object)
    if params.objects:
        derived["objects"] = {role: _absolute_all(names) for role, names in params.objects.items()}
    if params.distractors:
        derived["distractors"] = plain_distractors(params.distractors)
    return derived


def _default_components(config: RunConfig, task: Task) -> tuple[str, ...]:
    controller = find_controller(config.control).kind
    cartesian, remembers = controller.commands == "cartesian", controller.remembers_command
    return default_components(task, cartesian=cartesian, remembers_command=remembers)


def uses_her(config: RunConfig, task: Task, entry: Algorithm, variants: Sequence[Variant]) -> bool:
    """Return whether hindsight replay is on.

    Raises:
        ConfigError: The user asks for it, but the algorithm or the task does not allow it.
    """
    observed = config.observations or _default_components(config, task)
    components = {name: find_component(name) for name in observed}
    components |= {name: find_component(name, CRITIC_KEY) for name in config.critic_observations or ()}
    with_goal = [name for name, component in components.items() if component.depends_on_goal]
    seen = camera_components(observed) if config.image_params.goal == "image" else []
    applies = entry.goal_relabelling and entry.dict_observations and not with_goal and not seen
    rewards = [variant.config.reward for variant in variants]
    fixed = [reward for reward in rewards if not find_reward(reward).depends_on_goals_only]
    buffer: Any = entry.defaults.get("replay_buffer_class")
    replaced = buffer is not None and not relabels(buffer)
    if config.her is None:
        return applies and config.reward == "sparse" and not fixed and not replaced
    if not config.her:
        return False
    if replaced:
        why = f"would replace {buffer.__name__}, the replay buffer of {entry.name} ({entry.origin})"
        raise ConfigError(bad_value("her", True, "false, or a subclass of SB3's HerReplayBuffer", why))
    if with_goal:
        why = f"cannot relabel {with_goal[0]}, an observation that contains the goal"
        raise ConfigError(bad_value("her", True, f"false, or observations without {with_goal[0]}", why))
    if seen:
        why = f"cannot relabel goals that only images show, as {seen[0]} does"
        raise ConfigError(bad_value("her", True, "false, or image_params: {goal: vector}", why))
    if not applies:
        names = [e.name for e in of_framework(registry("algorithm"), config.framework) if e.goal_relabelling]
        raise ConfigError(
            bad_value("her", True, f"false, or an algo of: {', '.join(names)}", f"is not for {config.algo}")
        )
    if fixed:
        names = [entry.name for entry in registry("reward") if find_reward(entry.name).depends_on_goals_only]
        why = f"cannot relabel the {fixed[0]} reward"
        raise ConfigError(bad_value("her", True, f"false, or a reward of: {', '.join(names)}", why))
    return True


def _warm_up(config: RunConfig, asked: Mapping[str, Any], two_episodes: int) -> dict[str, Any]:
    """Return `learning_starts` for hindsight replay, which must be later than the end of the first episodes."""
    needed = two_episodes // 2 + 1
    starts = int(config.algo_params.get("learning_starts", needed))
    if starts < needed and "learning_starts" in asked:
        why = "is too early for hindsight replay, which needs whole episodes"
        allowed = f"at least {needed} (length of an episode × n_envs, plus 1)"
        raise ConfigError(bad_value("algo_params.learning_starts", starts, allowed, why))
    if "buffer_size" in asked and asked["buffer_size"] < two_episodes:
        why = "is too small for hindsight replay, which needs whole episodes"
        allowed = f"at least {two_episodes} (2 × length of an episode × n_envs)"
        raise ConfigError(bad_value("algo_params.buffer_size", asked["buffer_size"], allowed, why))
    return {"learning_starts": max(starts, needed)}


def _two_episodes(config: RunConfig, variants: Sequence[Variant]) -> int:
    """Return the env steps of two training episodes of maximum length in every environment."""
    limits = []
    for variant in variants:
        params, task = variant.config.task_params, find_task(variant.config.task)
        training_horizon = params.training_horizon or task.training_horizon
        limit = episode_limit(params.horizon or task.horizon, training_horizon)
        limits.append(actions_within(limit, variant.config.control.action_repeat))
    return 2 * max(limits) * config.n_envs


def plain_distractors(distractors: Sequence[Distractor]) -> list[dict[str, Any]]:
    """Return distractors as plain data."""
    return [
        {**distractor.model_dump(mode="json"), "object": _absolute_all(distractor.object)} for distractor in distractors
    ]


def absolute(name: str) -> str:
    """Return a name unchanged, a file path as an absolute path: a run may be loaded from any folder."""
    return str(RobotFileName.parse(name).absolute()) if is_file_name(name) else name


def _absolute_all(names: str | Sequence[str]) -> str | list[str]:
    """Return a name, or several names, as `absolute` does."""
    return absolute(names) if isinstance(names, str) else [absolute(name) for name in names]


def rollout_steps(model: Any, config: RunConfig) -> int:
    """Return the env steps between two updates of the policy, of ARS at most; 0 if unknown."""
    from sb3_contrib import ARS
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.type_aliases import TrainFrequencyUnit

    if isinstance(model, ARS):  # every environment plays both ends of each direction
        length = actions_within(config.task_params.horizon or 0, config.control.action_repeat)
        return 2 * model.n_delta * model.n_eval_episodes * length * config.n_envs
    steps = getattr(model, "n_steps", 0)
    if isinstance(model, OffPolicyAlgorithm):
        frequency: Any = model.train_freq
        steps = frequency.frequency if frequency.unit is TrainFrequencyUnit.STEP else 0
    return steps * config.n_envs if isinstance(steps, int) else 0


def env_spec(config: RunConfig, goal_env: bool | None = None) -> EnvSpec:
    """Return the description of the environments of a config with a single variant, as evaluations have them.

    They are in the engine that judges the config's, see `judge_of`. The environments of training are those of
    `training_spec`. With `goal_env`, observations are goal dictionaries; None: as the algorithm takes them.
    """
    if goal_env is None:
        goal_env = algorithm(config.algo, config.framework).dict_observations
    gamma = config.algo_params.get("gamma")  # of a class that uses the name for something else, it is no discount
    discount = float(gamma) if isinstance(gamma, int | float) and gamma in RANGES["gamma"] else 0.99
    return EnvSpec.of_config(config, judge_of(config.engine), goal_env, discount)


def training_spec(config: RunConfig, goal_env: bool | None = None) -> EnvSpec:
    """Return the description of the environments of training of a config with a single variant, see `env_spec`."""
    return env_spec(config, goal_env).model_copy(update={"engine": config.engine})


def in_batch(variants: Iterable[RunConfig]) -> bool:
    """Return whether training steps the environments of a run, which has variants with these configs, as one batch."""
    return all(is_batch(training_spec(config)) for config in variants)


def trains_after_each_step(config: RunConfig) -> bool:
    """Return whether gradient steps follow each step of the environments, which `overlap` needs."""
    return config.algo_params.get("train_freq", 1) in (1, [1, "step"], (1, "step"))


def short_env_arguments(config: RunConfig) -> dict[str, Any]:
    """Return the arguments of `RobotEnv` for a config with a single variant as plain data, without defaults."""
    arguments = env_spec(config).arguments()
    for key in ("robot_params", "actions", "image_params", "task_params"):
        set_here = getattr(config, key).model_dump(mode="json", exclude_defaults=True)
        arguments[key] = {name: value for name, value in set_here.items() if value not in ({}, [])}
    for key in [key for key in ("goal_env", "engine") if arguments[key] in (True, BULLET)]:
        del arguments[key]
    return {key: value for key, value in arguments.items() if value != {}}
