"""`Runner`: base class of algorithms with a custom training loop."""

from __future__ import annotations

import re
import sys
import time
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import safe_mean

from mygym.config.schedules import parse
from mygym.errors import ConfigError, RunError, bad_value
from mygym.registry.signatures import parameters
from mygym.runs.checkpoints.algorithm_state import Stateful
from mygym.runs.curves import Curves
from mygym.runs.loop import SEEDS, Loop, Observations, TrainingStopped, Transitions

__all__ = ["SEEDS", "Curves", "Loop", "Observations", "Runner", "Transitions", "setting_name"]

_NAME = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_.=-]{0,79}")


class Runner(Stateful, BaseAlgorithm):
    """Base class of algorithms that define the training loop.

    A subclass defines its *hyperparameters* (of the algorithm) as parameters of its constructor: the config's
    `algo_params`. It defines its *training parameters* (durations, frequencies) as keyword-only parameters of
    `training`, with annotations and defaults: the config's `training_params`. Everything else is as in SB3's
    algorithms: `policy`, `predict`, `save`, `load`, checkpoints, evaluations, results. An example::

        class Climber(Runner):
            def __init__(self, policy, env, *, noise: float = 0.1, **kwargs):
                self.noise = noise
                self.best = -1e9              # needed by later iterations: an attribute, not a local variable
                super().__init__(policy, env, **kwargs)

            def training(self, loop, *, steps_per_try: int = 100) -> Curves:
                while loop.next_iteration():         # evaluates, writes checkpoints, stops, resumes
                    ...                       # act with loop.rollout(n, act) or loop.step(actions), learn
                return loop.curves()

    **State of the loop belongs in attributes.** Checkpoints are written in `loop.next_iteration()`, and in a
    resumed run the first `loop.next_iteration()` loads a checkpoint. After it, attributes have the values of the
    checkpoint, but local variables have the values just assigned in `training`. A counter, a running mean or a best
    candidate that is used by later iterations must therefore be an attribute; a value that is used only between two
    calls of `next_iteration` may be a local variable. Checkpoints hold attributes that are numbers, text, lists,
    dictionaries, numpy arrays, torch tensors or random generators, or that have `state_dict` and `load_state_dict`
    (networks, optimisers). Set attributes on the instance, not in the class body.

    **Schedules.** A config may give a number as a schedule, which sets the attribute of the same name during training.
    A hyperparameter follows its schedule if it is stored under its own name and read from `self` at each use.

    Args:
        policy: An alias in `policy_aliases`, or an SB3 policy class.
        env: Vector environment, Gymnasium environment, or its id.
        learning_rate: Learning rate of the policy's optimiser, if it has one.
        policy_kwargs: Further arguments of the policy class.
        stats_window_size: Number of training episodes over which `rollout/` values of the log are averaged.
        tensorboard_log: Folder of TensorBoard logs outside a run.
        verbose: 0 for no output.
        seed: Seed of all random generators.
        device: Device of the policy's network.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": ActorCriticPolicy,
        "CnnPolicy": ActorCriticCnnPolicy,
        "MultiInputPolicy": MultiInputActorCriticPolicy,
    }

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        learning_rate: float = 3e-4,
        *,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        rate: Any = learning_rate
        if isinstance(rate, Mapping):  # a schedule of `implemented_combos`, without a run that follows it
            rate = parse("learning_rate", rate).value(0, 1)
        super().__init__(
            policy,
            env,
            rate,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            seed=seed,
            device=device,
            support_multi_env=True,
        )
        self.training_params: dict[str, Any] = {}
        self._iterations = 0
        self._runner_curves: Curves | None = None
        if _init_setup_model:
            self._setup_model()

    # Defined by subclasses ----------------------------------------------------------------------------------------

    @abstractmethod
    def training(self, loop: Loop, *args: Any, **kwargs: Any) -> Curves:
        """Train: `while loop.next_iteration(): …`, then `return loop.curves()`.

        Training parameters are keyword-only, with annotations and defaults. The class docstring explains which values
        must not be in local variables.

        Args:
            loop: Steps the environments, and decides when training ends.
            *args: Unused.
            **kwargs: The training parameters, which a subclass declares by name.

        Returns:
            `loop.curves()`.
        """

    def setup(self) -> None:
        """Create objects that depend on the policy, such as optimisers.

        Called after the policy is built, also by `load`. Hyperparameters are available if the constructor sets them
        before it calls `super().__init__`.
        """

    @classmethod
    def run_name(cls, hyperparameters: Mapping[str, Any], training_params: Mapping[str, Any]) -> str:
        """Return the prefix of the config's hash in the name of the run directory; empty: no prefix.

        Args:
            hyperparameters: The complete `algo_params`.
            training_params: The complete `training_params`.

        Returns:
            At most 80 letters, digits and `_ . = -`.
        """
        return ""

    # Provided by the base class -----------------------------------------------------------------------------------

    @property
    def curves(self) -> Curves | None:
        """Learning curves of the last call of `learn`, even if it ended early; None before the first call."""
        return self._runner_curves

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "run",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Set up, call `training` and keep its curves; subclasses must not override this method.

        Args:
            total_timesteps: Env steps; an iteration that has begun is completed.
            callback: SB3 callbacks; a callback that returns False ends training.
            log_interval: Iterations between lines of the log.
            tb_log_name: Name of TensorBoard logs outside a run.
            reset_num_timesteps: Begin at 0 and reset the environments.
            progress_bar: Show SB3's progress bar.

        Raises:
            RunError: `training` ends too early, takes no steps, or does not return curves.
        """
        total, callback = self._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)
        callback.on_training_start(locals(), globals())
        assert self.env is not None
        loop = Loop(self, self.env, callback, total, partial(self._end_iteration, log_interval))
        try:
            curves = self.training(loop, **self.training_params)
            if not loop.over:
                raise RunError(
                    f"{type(self).__name__}.training ended after {self.num_timesteps} of {total} steps: "
                    "it must continue while loop.next_iteration() returns True"
                )
        except TrainingStopped:
            loop.end()
            curves = loop.curves()
        finally:
            self._runner_curves = loop.curves()
        if not isinstance(curves, Curves):
            raise RunError(f"{type(self).__name__}.training returned {curves!r:.100} instead of loop.curves()")
        self._runner_curves = curves
        return self

    def dump_logs(self) -> None:
        """Write the values recorded since the last call, and means over the latest training episodes."""
        assert self.ep_info_buffer is not None
        assert self.ep_success_buffer is not None
        seconds = max((time.time_ns() - self.start_time) / 1e9, sys.float_info.epsilon)
        if len(self.ep_info_buffer) > 0:
            self.logger.record("rollout/ep_rew_mean", safe_mean([episode["r"] for episode in self.ep_info_buffer]))
            self.logger.record("rollout/ep_len_mean", safe_mean([episode["l"] for episode in self.ep_info_buffer]))
        if len(self.ep_success_buffer) > 0:
            self.logger.record("rollout/success_rate", safe_mean(self.ep_success_buffer))
        self.logger.record("time/fps", int((self.num_timesteps - self._num_timesteps_at_start) / seconds))
        self.logger.record("time/time_elapsed", int(seconds), exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(step=self.num_timesteps)

    def _end_iteration(self, log_interval: int | None) -> None:
        """Count an iteration; write a line of the log after every `log_interval` iterations (None: no lines)."""
        self._iterations += 1
        if log_interval is not None and self._iterations % log_interval == 0:
            self.dump_logs()

    # Required by SB3 ----------------------------------------------------------------------------------------------

    def _setup_model(self) -> None:
        self._setup_lr_schedule()
        self.set_random_seed(self.seed)
        rate = {"lr_schedule": self.lr_schedule} if "lr_schedule" in parameters(self.policy_class) else {}
        policy_class: Any = self.policy_class
        self.policy = policy_class(self.observation_space, self.action_space, **rate, **self.policy_kwargs)
        self.policy = self.policy.to(self.device)
        self.setup()

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        has_optimizer = getattr(self.policy, "optimizer", None) is not None
        return (["policy", "policy.optimizer"] if has_optimizer else ["policy"]), []

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_runner_curves"]


def setting_name(cls: type, algo_params: Mapping[str, Any], training_params: Mapping[str, Any], digest: str) -> str:
    """Return the name of a setting's directory: the config's hash, after the `run_name` of a runner.

    Raises:
        ConfigError: `run_name` fails, or returns an invalid name.
    """
    if not issubclass(cls, Runner):
        return digest
    try:
        name = cls.run_name(algo_params, training_params)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise ConfigError(f"algo: {cls.__name__}.run_name fails: {type(error).__name__}: {error}") from error
    if name == "":
        return digest
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        allowed = "at most 80 letters, digits and _ . = -, not beginning with . or -"
        why = f"is the result of {cls.__name__}.run_name: not a directory name"
        raise ConfigError(bad_value("algo", name, allowed, why))
    return f"{name}-{digest}"
