"""Build the model of a plan: its class, hyperparameters, device, exploration noise and the memory that it needs."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import wraps
from typing import Any

import numpy as np
import psutil
import torch
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from torch.optim import Optimizer

from mygym.config import Resolved, RunConfig
from mygym.config.hyperparameters import Schema
from mygym.config.loading import is_plain
from mygym.config.parameter_checks import INNER, NAMED, name_of, shown
from mygym.config.schedules import Schedule, schedules
from mygym.engines.arrays import check_memory
from mygym.errors import ConfigError, bad_value
from mygym.planning import checks
from mygym.planning.checks import gathers_rollouts, is_frozen, with_loaded_encoder
from mygym.planning.plan import Plannable, RunPlan, plan_of
from mygym.registry import is_environment
from mygym.registry.algorithms import Combo
from mygym.registry.signatures import is_noise, of_library, parameters, wrong_result
from mygym.training import schedule_callback
from mygym.training.buffers import FrameReplayBuffer, MultiTaskHerReplayBuffer, images_of
from mygym.training.env_factory import make_vec_env
from mygym.training.evaluation import TRAINING, episode_seeds

_MISSING_DEVICE = (RuntimeError, AssertionError, NotImplementedError, ImportError, IndexError)
"""Exceptions that a framework raises for a missing device."""

_XLA_THREADS = "PJRT_NPROC"
"""Environment variable that XLA reads only once, at JAX's first computation in a process."""


def use(framework: str, device: str, threads: int) -> None:
    """Select device and number of threads of a framework, of which JAX keeps the first; refuse a missing device."""
    torch.set_num_threads(threads)  # replay buffers use torch in every framework
    _optimize_without_dynamo()
    try:
        if framework == "jax":
            _use_in_jax(device, threads)
        else:
            torch.empty(0, device=device)
    except _MISSING_DEVICE as error:
        why = " ".join(str(error).split())
        raise ConfigError(bad_value("device", device, f"cpu, or cuda where {framework} has it", why)) from error


def _optimize_without_dynamo() -> None:
    """Let optimisers work without `torch._dynamo`, torch's compiler, whose import takes a second.

    torch wraps these methods to exclude them from compilation. At its first call a wrapper imports the compiler and
    stores the excluded method in this attribute, unless the attribute exists. The wrapper of `step` imports it too,
    to break the graph of a compilation. `torch.compile` works as before. A version of torch with other wrappers imports
    the compiler again.
    """
    for method in (Optimizer.add_param_group, Optimizer.zero_grad, Optimizer.state_dict, Optimizer.load_state_dict):
        function = inspect.unwrap(method)
        if not hasattr(function, "__dynamo_disable"):
            setattr(function, "__dynamo_disable", function)
    for kind in vars(torch.optim).values():
        step: Any = vars(kind).get("step") if isinstance(kind, type) else None
        if getattr(step, "__code__", None) is not None and step.__code__.co_name == "_use_grad":
            kind.step = _step_without_dynamo(step)


def _step_without_dynamo(wrapper: Any) -> Any:
    """Return torch's wrapper of an optimiser's `step`, without its import unless the compiler is in use."""

    @wraps(wrapper)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo" in sys.modules:
            return wrapper(self, *args, **kwargs)
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return wrapper.__wrapped__(self, *args, **kwargs)

    return step


def _use_in_jax(device: str, threads: int) -> None:
    import jax

    platform, _, number = device.partition(":")
    before = os.environ.get(_XLA_THREADS)
    os.environ[_XLA_THREADS] = before or str(threads)
    try:
        jax.config.update("jax_default_device", jax.devices(platform)[int(number or 0)])  # type: ignore[no-untyped-call]
    finally:
        if before is None:
            del os.environ[_XLA_THREADS]


def gaussian_noise(deviation: float, action_space: spaces.Space[Any]) -> NormalActionNoise:
    """Return Gaussian noise on every action component with this standard deviation."""
    assert action_space.shape is not None
    return NormalActionNoise(np.zeros(action_space.shape), np.full(action_space.shape, float(deviation)))


def buffer_bytes(model: Any) -> tuple[int, int]:
    """Return the bytes that the full replay buffer or data set of a model takes, and its number of rows.

    Without a buffer both numbers are 0.
    """
    buffer = getattr(model, "replay_buffer", None)
    if buffer is None:
        return 0, 0
    return _bytes(buffer, np.ndarray | torch.Tensor), int(buffer.buffer_size * buffer.n_envs)


def _bytes(buffer: Any, kinds: Any) -> int:
    """Return the bytes of the arrays of some classes."""
    return sum({id(array): array.nbytes for array in _arrays(vars(buffer), kinds)}.values())


def _arrays(values: Mapping[str, Any], kinds: Any) -> Iterator[Any]:
    for value in values.values():
        if isinstance(value, kinds):
            yield value
        elif isinstance(value, Mapping):
            yield from _arrays(value, kinds)


_REFUSALS = (*(TypeError, ValueError, LookupError, AttributeError, AssertionError), *(ArithmeticError, RuntimeError))
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
        RegistryError: A strategy's `policy_class` returns no policy.
    """
    plan = plan_of(run)
    config, entry = plan.config, plan.algorithm
    schema = plan.schema if combo is None else Schema(entry, config.algo_params, bool(config.her), combo)
    use(config.framework, config.device, config.threads)
    checks.check(entry, env.observation_space, env.action_space)
    for argument in schema.args:
        if is_environment(argument) and argument != "env":
            checks.check_same_spaces(argument, env, f"{entry.origin}: {entry.name}")
    args, kwargs = _arguments(plan, schema, env)
    cls = schema.cls
    if config.overlap:
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
    if rows := buffer_bytes(model)[1]:  # numpy takes memory only when arrays are filled; tensors were checked
        size = _bytes(model.replay_buffer, np.ndarray)
        check_memory("algo_params.buffer_size", rows, size, psutil.virtual_memory().available)
    if config.training_params:
        model.training_params = copy.deepcopy(config.training_params)
    env.seed(episode_seeds(config.seed, TRAINING, 1)[0])
    return model


def _arguments(plan: RunPlan, schema: Schema, env: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments with which training constructs the algorithm."""
    config = plan.config
    policy, kwargs = schema.arguments(config.algo_params)
    if is_frozen(schema):
        kwargs = with_loaded_encoder(kwargs)
    kwargs |= schedule_callback.arguments(schema.cls, schedules_of(plan), config.steps)
    if config.her:
        kwargs["replay_buffer_class"] = schema.component(("replay_buffer_class",))
        if len(plan.variants) > 1 and kwargs["replay_buffer_class"] is HerReplayBuffer:
            kwargs["replay_buffer_class"] = MultiTaskHerReplayBuffer
    if _stores_images_once(plan, kwargs, env):
        kwargs["replay_buffer_class"] = FrameReplayBuffer
        if config.image_params.frames > 1:
            given = kwargs.get("replay_buffer_kwargs") or {}
            kwargs["replay_buffer_kwargs"] = {**given, "frames": config.image_params.frames}
    of_the_run = {"seed": config.seed, "device": config.device, "verbose": 0}
    taken = parameters(schema.cls)
    kwargs |= {key: value for key, value in of_the_run.items() if key in taken}
    if config.learners > 1 and "batch_size" in kwargs and not gathers_rollouts(schema.cls):
        kwargs["batch_size"] //= config.learners  # of this process's share of each minibatch
    noise = kwargs.get("action_noise")
    if isinstance(noise, int | float) and is_noise(taken["action_noise"].annotation):
        kwargs["action_noise"] = gaussian_noise(noise, env.action_space)
    policy = _policy_class(schema, policy, plan.strategies, env)
    return [env if is_environment(argument) else policy for argument in schema.args], kwargs


def _stores_images_once(plan: RunPlan, kwargs: Mapping[str, Any], env: Any) -> bool:
    """Return whether the algorithm replays images from the default buffer: SB3's stores them twice."""
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
        if not callable(chosen):
            key = f"strategy {strategy.name}: policy_class"
            raise wrong_result(key, type(strategy).policy_class, chosen, "a class of policies")
    return policy if chosen is cls else chosen


def loadable(run: Plannable, env: Any) -> Any:
    """Return the algorithm's class for its `load`, which constructs the class of a user as training did.

    SB3 calls the constructor without networks and with its first arguments alone, before it sets all attributes. This
    suits the constructors of libraries, and no constructor that uses the policy or has required arguments.
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
    return not of_library(next(base for base in cls.__mro__ if "__init__" in vars(base)))


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
    device = config.device
    try:
        use(config.framework, device, config.threads)
    except ConfigError:
        device = "cpu"
    alone = {"n_envs": 1, "learners": 1, "env_processes": False, "overlap": False}
    return config.model_copy(update={**alone, "her": False, "algo_params": params, "device": device})


def as_built(resolved: Resolved, model: Any) -> Resolved:
    """Return `resolved` with the values that the constructors have decided, read from the attributes of the objects.

    None stays None in the algorithm itself, where it means that a value follows another value, e.g. a learning rate.
    A parameter that a user's class declares keeps its value: the class may derive an attribute of this name from it.
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
            if isinstance(builder, Mapping):
                decided = builder.get(name, value)
            else:
                declared = parameters(type(builder)).get(name)
                decided = value if declared and not of_library(declared.declared_by) else getattr(builder, name, value)
            by_class = resolved.origins.get(".".join(("algo_params", *path, name)), "").startswith("class")
            if name == "batch_size" and not path and resolved.config.learners > 1:
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


def overridden(plan: RunPlan, model: Any) -> list[tuple[str, Any, Any]]:
    """Return name, value in the config and value in use of the library's hyperparameters that a user's class sets."""
    cls, known = type(model), parameters(type(model))
    if plan.config.learners > 1 or not constructed_by_user(cls):  # of several, each has a share of some values
        return []
    return [
        (name, value, used)
        for name, value in plan.config.algo_params.items()
        if name in known and of_library(known[name].declared_by)
        if isinstance(used := getattr(model, name, None), bool | int | float | str) and used != value
        if isinstance(value, type(used)) or {type(used), type(value)} == {int, float}
    ]


def explained(run: Plannable, check: Callable[[RunPlan, Any, Any], object] | None = None) -> Resolved:
    """Return `as_built` of a run that is not started: builds everything, calls `check`, and writes nothing."""
    plan = plan_of(run)
    with closing(make_vec_env(plan, only_spaces=True)) as env:
        model = build_model(plan, env)
        if check:
            check(plan, env, model)
        return as_built(plan.resolved, model)


def overlapping(cls: type[OffPolicyAlgorithm]) -> type[OffPolicyAlgorithm]:
    """Return a subclass that takes the gradient steps that follow a rollout during the step of the next rollout.

    Its rollouts are single steps (`train_freq` 1). The actions of that step come from the policy before the gradient
    steps, which do not use its transitions. Nothing depends on the speed of the processes, so the same seed gives the
    same result.
    """
    return type(cls.__name__, (_Overlapping, cls), {"__doc__": cls.__doc__, "__module__": cls.__module__})


class _Overlapping(OffPolicyAlgorithm):
    _not_in_checkpoints = ("postponed", "_training_env")
    """`RunState` saves the first, and the other wraps the environments."""

    postponed: list[Any]
    """Arguments of the calls of `train` that the next step of the environments makes: lists `[args, kwargs]`."""

    def _setup_model(self) -> None:
        super()._setup_model()
        self.postponed = []
        self._training_env: VecEnvWrapper | None = None

    def train(self, *args: Any, **kwargs: Any) -> None:
        """Postpone the gradient steps to the next step of the environments."""
        self.postponed.append([list(args), kwargs])

    def train_now(self) -> None:
        """Take the gradient steps that were postponed."""
        calls, self.postponed = self.postponed, []
        for args, kwargs in calls:
            super().train(*args, **kwargs)
            self.policy.set_training_mode(False)  # as in the rest of the rollout

    def collect_rollouts(self, env: VecEnv, *args: Any, **kwargs: Any) -> Any:
        """Collect a rollout; train after the actions are sent, before the results of the step are awaited."""
        if self._training_env is None or self._training_env.venv is not env:
            self._training_env = _TrainingWhileStepping(env, self.train_now)
        return super().collect_rollouts(self._training_env, *args, **kwargs)

    def _excluded_save_params(self) -> list[str]:  # saved models are those of the class itself
        return [*super()._excluded_save_params(), "postponed", "_training_env"]


class _TrainingWhileStepping(VecEnvWrapper):
    """Calls a function between sending the actions and waiting for the results of a step."""

    def __init__(self, env: VecEnv, train: Callable[[], None]) -> None:
        super().__init__(env)
        self.train = train

    def reset(self) -> Any:
        """Reset the environments."""
        return self.venv.reset()

    def step_wait(self) -> Any:
        """Train, then return the results of the step."""
        self.train()
        return self.venv.step_wait()
