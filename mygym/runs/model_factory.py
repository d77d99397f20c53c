"""Build the model of a plan, or of a complete config."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from mygym.config import RunConfig
from mygym.config.hyperparameters import Schema
from mygym.config.schedulable import schedules
from mygym.config.schedules import Schedule
from mygym.errors import ConfigError, bad_value
from mygym.registry import is_environment
from mygym.registry.combos import Combo
from mygym.registry.signatures import is_noise, parameters
from mygym.runs import devices
from mygym.runs.evaluation import TRAINING, episode_seeds
from mygym.runs.frozen_encoders import is_frozen, with_loaded_encoder
from mygym.runs.planning import requirements
from mygym.runs.planning.buffer_memory import check_memory
from mygym.runs.planning.plan import Plannable, RunPlan, plan_of
from mygym.runs.workers.joint_training import gathers_rollouts

_REFUSALS = (
    *(TypeError, ValueError, LookupError, AttributeError, AssertionError),
    *(ArithmeticError, RuntimeError),
)
"""Exceptions that a constructor may raise for invalid arguments."""


def build_model(run: Plannable, env: Any, combo: Combo | None = None) -> Any:
    """Return the algorithm `AlgoClass(*args, **kwargs)`, with the values of the config's `algo_params`.

    `algo_params` contain the policy in `args` and the values in `kwargs`, unless a layer of the config replaces them.
    A config holds a class or function by its name; the object of this name comes from `args` and `kwargs`.

    Args:
        run: A plan, or a complete config.
        env: Its training environments.
        combo: `(AlgoClass, args, kwargs)` of `implemented_combos`; None: those of the plan's algorithm.

    Raises:
        ConfigError: The class refuses its arguments, or the device is missing.
    """
    from mygym.runs import schedule_callback

    plan = plan_of(run)
    config, entry = plan.config, plan.algorithm
    schema = plan.schema if combo is None else Schema(entry, config.algo_params, bool(config.her), combo)
    devices.use(config.framework, config.device, config.threads)
    requirements.check(entry, env.observation_space, env.action_space)
    for argument in schema.args:
        if is_environment(argument) and argument != "env":
            requirements.check_same_spaces(argument, env, f"{entry.origin}: {entry.name}")
    args, kwargs = _arguments(plan, schema, env)
    cls = schema.cls
    if config.overlap:
        from mygym.runs.overlapping import overlapping

        cls = overlapping(cls)
    try:
        model = cls(*args, **kwargs)
    except MemoryError as error:
        rows, allowed = config.algo_params.get("buffer_size"), "fewer steps, or smaller images"
        why = f"needs too much memory: {error}"
        raise ConfigError(bad_value("algo_params.buffer_size", rows, allowed, why)) from error
    except _REFUSALS as error:
        raise ConfigError(f"algo_params: {schema.cls.__name__} refuses its arguments: {error}") from error
    schedule_callback.check_held(model, schedules_of(plan), config.steps)
    check_memory(model)
    if config.training_params:
        model.training_params = copy.deepcopy(config.training_params)
    env.seed(episode_seeds(config.seed, TRAINING, 1)[0])
    return model


def _arguments(plan: RunPlan, schema: Schema, env: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments with which training constructs the algorithm.

    Args:
        plan: The plan.
        schema: The algorithm's parameters.
        env: Training environments.
    """
    from stable_baselines3 import HerReplayBuffer

    from mygym.runs import schedule_callback
    from mygym.runs.planning.exploration import gaussian_noise

    config = plan.config
    policy, kwargs = schema.arguments(config.algo_params)
    if is_frozen(schema):
        kwargs = with_loaded_encoder(kwargs)
    kwargs |= schedule_callback.arguments(schema.cls, schedules_of(plan), config.steps)
    if config.her:
        kwargs["replay_buffer_class"] = schema.component(("replay_buffer_class",))
        if len(plan.variants) > 1 and kwargs["replay_buffer_class"] is HerReplayBuffer:
            from mygym.runs.multi_task_her import MultiTaskHerReplayBuffer

            kwargs["replay_buffer_class"] = MultiTaskHerReplayBuffer
    if _stores_images_once(plan, kwargs, env):
        from mygym.runs.frame_replay import FrameReplayBuffer

        kwargs["replay_buffer_class"] = FrameReplayBuffer
        if config.image_params.frames > 1:
            given = kwargs.get("replay_buffer_kwargs") or {}
            kwargs["replay_buffer_kwargs"] = {**given, "frames": config.image_params.frames}
    of_the_run = {"seed": config.seed, "device": config.device, "verbose": 0}
    taken = parameters(schema.cls)
    kwargs |= {key: value for key, value in of_the_run.items() if key in taken}
    if config.workers > 1 and "batch_size" in kwargs and not gathers_rollouts(schema.cls):
        kwargs["batch_size"] //= config.workers  # of this process's share of each minibatch
    noise = kwargs.get("action_noise")
    if isinstance(noise, int | float) and is_noise(taken["action_noise"].annotation):
        kwargs["action_noise"] = gaussian_noise(noise, env.action_space)
    policy = _policy_class(schema, policy, plan.strategies, env)
    return [env if is_environment(argument) else policy for argument in schema.args], kwargs


def _stores_images_once(plan: RunPlan, kwargs: Mapping[str, Any], env: Any) -> bool:
    """Return whether the algorithm replays images from the default buffer: SB3's stores them twice."""
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

    from mygym.runs.frame_replay import images_of

    cls = plan.schema.cls
    return (
        issubclass(cls, OffPolicyAlgorithm)
        and "replay_buffer_class" in parameters(cls)
        and kwargs.get("replay_buffer_class") is None
        and kwargs.get("n_steps", 1) == 1  # SB3 refuses other values for dictionaries
        and any(images_of(env.observation_space))
    )


def _policy_class(schema: Schema, policy: Any, strategies: Sequence[Any], env: Any) -> Any:
    """Return `policy`, an alias or a class, unless a strategy replaces it."""
    cls = schema.component(("policy",))
    chosen = cls
    for strategy in strategies:
        strategy.training_env = env
        chosen = strategy.policy_class(chosen)
    return policy if chosen is cls else chosen


def loadable(run: Plannable, env: Any) -> Any:
    """Return the algorithm's class for its `load`, which constructs the class of a user as training did.

    SB3 calls the constructor without networks and with its first arguments alone, before it sets all attributes. This
    suits the constructors of libraries, and no constructor that uses the policy or has required arguments.

    Args:
        run: A plan, or a complete config.
        env: Environments with the spaces of the run.
    """
    plan = plan_of(run)
    cls = plan.schema.cls
    if not constructed_by_user(cls):
        return cls
    args, kwargs = _arguments(plan, plan.schema, env)

    def construct(self: Any, **given: Any) -> None:
        device = {"device": given["device"]} if "device" in kwargs else {}
        cls.__init__(self, *args, **{**kwargs, **device})  # type: ignore[misc]

    return type(cls.__name__, (cls,), {"__init__": construct, "__doc__": cls.__doc__})


def constructed_by_user(cls: type) -> bool:
    """Return whether the constructor of an algorithm is neither of a library nor of this package."""
    constructor = next(base for base in cls.__mro__ if "__init__" in vars(base))
    return constructor.__module__.partition(".")[0] not in ("mygym", "stable_baselines3", "sb3_contrib", "sbx")


def schedules_of(run: Plannable) -> dict[str, Schedule]:
    """Return the schedules of a run by name of the hyperparameter."""
    plan = plan_of(run)
    return schedules(plan.schema.cls, plan.config.algo_params, plan.config.steps)


def for_acting(plan: RunPlan) -> RunConfig:
    """Return the config for a policy that only acts: one environment, a tiny replay buffer, an available device."""
    config = plan.config
    params = dict(config.algo_params)
    if plan.schema.has_replay:
        params |= {
            key: value for key, value in {"buffer_size": 1, "replay_buffer_kwargs": None}.items() if key in params
        }
    elif isinstance(params.get("n_steps"), int):
        params["n_steps"] *= config.n_envs  # rollouts of the same size: PPO warns about smaller rollouts
    device = devices.or_cpu(config.framework, config.device, config.threads)
    alone = {"n_envs": 1, "workers": 1, "subprocesses": False, "overlap": False}
    return config.model_copy(update={**alone, "her": False, "algo_params": params, "device": device})
