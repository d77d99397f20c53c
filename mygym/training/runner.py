"""`Runner`: base class of algorithms with a custom training loop."""

from __future__ import annotations

import math
import re
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import safe_mean
from stable_baselines3.common.vec_env import VecEnv

from mygym.config.schedules import parse
from mygym.errors import ConfigError, RunError, bad_value
from mygym.nested import map_arrays
from mygym.registry.signatures import parameters, source_location
from mygym.training.checkpoints.states import Stateful
from mygym.training.evaluation import PURPOSE_BIT, Evaluation, stack_observations
from mygym.training.result import Curves
from mygym.training.run_callbacks import EvaluationCallback, find_callback

Observations = Any
"""`(n_envs, …)` float32, or a dictionary of such arrays for goal environments."""

SEEDS = 2**PURPOSE_BIT
"""Number of training seeds; the seeds of evaluations begin here (`mygym.training.evaluation.episode_seeds`)."""


@dataclass(frozen=True)
class Transitions:
    """Env steps of a rollout in their order: arrays `(n, n_envs, …)`, or dictionaries of such arrays."""

    observations: Observations
    """Before each step."""
    actions: NDArray[Any]
    """As `act` returned them."""
    rewards: NDArray[np.float32]
    """`(n, n_envs)`."""
    terminated: NDArray[np.bool_]
    """`(n, n_envs)`: whether the episode has ended for good, so that no rewards follow."""
    truncated: NDArray[np.bool_]
    """`(n, n_envs)`: whether the horizon has ended the episode."""
    next_observations: Observations
    """After each step; at the end of an episode its last observation, not the first of the next."""
    infos: Sequence[Any]
    """`n` lists of `n_envs` dictionaries."""

    def flat(self) -> Transitions:
        """Return the env steps as rows `(n · n_envs, …)`, those of the first step first; the infos become a list."""
        rows = {name: map_arrays(_flattened, value) for name, value in vars(self).items() if name != "infos"}
        return Transitions(**rows, infos=[info for infos in self.infos for info in infos])


class Loop:
    """Argument of `Runner.training`: steps the environments, evaluates, writes checkpoints, ends the training.

    Args:
        runner: The `Runner` that trains.
        envs: Training environments: an SB3 vector environment, monitored, and normalised if the config asks for it.
        callback: All callbacks of the training, combined in an SB3 callback.
        total_steps: Env steps after which `next_iteration` returns False.
        end_iteration: Function that is called at the end of every iteration.
    """

    def __init__(
        self,
        runner: BaseAlgorithm,
        envs: VecEnv,
        callback: BaseCallback,
        total_steps: int,
        end_iteration: Callable[[], None],
    ) -> None:
        self.runner = runner
        self.envs = envs
        self.callback = callback
        self.total_steps = total_steps
        self.over = False
        """Whether training has ended."""
        self._end_iteration = end_iteration
        self._evaluations = find_callback(callback, EvaluationCallback)
        """Those of a run; None outside a run."""
        self._iterating = False
        self._stepped = False

    @property
    def num_timesteps(self) -> int:
        """Env steps so far, including those before a resumed run's checkpoint."""
        return self.runner.num_timesteps

    @property
    def observations(self) -> Observations:
        """Current observations of the environments."""
        return self.runner._last_obs

    @property
    def episode_starts(self) -> NDArray[np.bool_]:
        """`(n_envs,)`: whether the current observation is the first of an episode."""
        starts: NDArray[np.bool_] = self.runner._last_episode_starts  # type: ignore[assignment]
        return starts

    def next_iteration(self) -> bool:
        """End an iteration, and begin the next iteration if env steps remain.

        Only between iterations, the log is written, the policy is evaluated at marks, checkpoints are written, and
        Ctrl-C and SIGTERM are handled. In a resumed run, the first call loads the checkpoint. Afterwards the policy is
        in evaluation mode.

        Returns:
            Whether a next iteration has begun.

        Raises:
            RunError: `step` was not called since the last call, so the training would never end.
        """
        runner = self.runner
        if self.over:
            return False
        if self._iterating:
            if not self._stepped:
                why = "took no environment step between two calls of loop.next_iteration(), so it would never end"
                raise self._error(why)
            self.callback.on_rollout_end()
            self._end_iteration()
        self._iterating = self._stepped = False
        if runner.num_timesteps >= self.total_steps:
            self.end()
            return False
        self.callback.on_rollout_start()
        runner._update_current_progress_remaining(runner.num_timesteps, self.total_steps)
        runner.policy.set_training_mode(False)
        self._iterating = True
        return True

    def step(
        self, actions: torch.Tensor | NDArray[Any]
    ) -> tuple[Observations, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step every training environment once.

        Args:
            actions: `(n_envs, …)`, as returned by the policy: unscaled if it squashes its output, else clipped.

        Returns:
            Observations (after the end of an episode, the first of the next; `rollout` has the last), rewards
            `(n_envs,)`, whether an episode has ended `(n_envs,)`, and infos.

        Raises:
            RunError: `next_iteration` was not called before, or returned False, or the actions have another shape.
            TrainingStopped: A callback ended the training; `learn` handles it.
        """
        runner = self.runner
        self._check_iterating("loop.step()")
        values = actions.detach().cpu().numpy() if isinstance(actions, torch.Tensor) else actions
        shape = (self.envs.num_envs, *(self.envs.action_space.shape or ()))
        if np.shape(values) != shape:  # clipping would broadcast them
            raise self._error(f"actions of shape {np.shape(values)}; allowed: {shape}")
        observations, rewards, dones, infos = self.envs.step(self._within_bounds(values))
        runner.num_timesteps += self.envs.num_envs
        self._stepped = True
        runner._update_current_progress_remaining(runner.num_timesteps, self.total_steps)
        self.callback.update_locals(
            {"actions": values, "new_obs": observations, "rewards": rewards, "dones": dones, "infos": infos}
        )
        if not self.callback.on_step():
            raise TrainingStopped
        runner._update_info_buffer(infos, dones)
        runner._last_obs = observations  # type: ignore[assignment]
        runner._last_episode_starts = dones
        return observations, rewards, dones, infos

    def rollout(self, steps: int, act: Callable[[Observations], Any]) -> Transitions:
        """Step every training environment `steps` times.

        Args:
            steps: Number of steps of each environment, at least 1.
            act: Returns the actions `(n_envs, …)`, as for `step`, for observations `(n_envs, …)`.

        Returns:
            The transitions `(steps, n_envs, …)`, with the last observations of the episodes that have ended.

        Raises:
            RunError: `steps` is below 1, `act` does not return an array, or as for `step`.
            TrainingStopped: A callback ended the training; `learn` handles it.
        """
        if steps < 1:
            raise self._error(f"loop.rollout({steps}, …); allowed: 1 or more steps")
        self._check_iterating("loop.rollout()")
        rows: list[tuple[Any, ...]] = []
        for _ in range(steps):
            before = self.observations
            actions = act(before)
            if isinstance(actions, tuple):
                why = "`act` returned a tuple; allowed: an array of actions, e.g. predict(observations)[0]"
                raise self._error(f"loop.rollout({steps}, act): {why}")
            after, rewards, dones, infos = self.step(actions)
            truncated = np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
            actions = actions.detach().cpu() if isinstance(actions, torch.Tensor) else actions
            rows.append((before, actions, rewards, dones & ~truncated, truncated, _last(after, dones, infos), infos))
        *columns, of_steps = zip(*rows, strict=True)
        values: list[Any] = [*map(stack_observations, columns), of_steps]
        return Transitions(*values)

    def reset(self, seed: int | None = None) -> Observations:
        """Reset every training environment; unfinished episodes are dropped and not counted.

        Args:
            seed: Seed below `SEEDS`: every environment begins the same episode, e.g. to compare candidates. None: every
                environment begins its next episode.

        Returns:
            The first observations of the new episodes, as `observations`.

        Raises:
            RunError: `next_iteration` was not called before or returned False, or the seed is out of range.
        """
        self._check_iterating("loop.reset()")
        if seed is not None:
            if not 0 <= seed < SEEDS:  # larger seeds belong to evaluations
                raise self._error(f"loop.reset({seed}); allowed: 0 to {SEEDS - 1}")
            inner = self.envs.unwrapped
            inner._seeds = [int(seed)] * inner.num_envs  # `seed()` gives each environment a different seed
        self.runner._last_obs = self.envs.reset()  # type: ignore[assignment]
        self.runner._last_episode_starts = np.ones(self.envs.num_envs, dtype=bool)
        return self.observations

    def evaluate(self) -> Evaluation:
        """Evaluate the current policy over `eval.episodes` episodes in the evaluation environments.

        The result is not recorded and does not select the best model; the runner decides its use.

        Returns:
            The episodes and their success rate.

        Raises:
            RunError: `learn` was called outside a run, so evaluation environments are missing.
        """
        if self._evaluations is None:
            raise self._error("loop.evaluate() is for runs of mygym.train")
        evaluation = self._evaluations.extra()
        self.runner.policy.set_training_mode(False)
        return evaluation

    @property
    def at_mark(self) -> bool:
        """Whether the next call of `next_iteration` evaluates: the time to compute figures that are expensive.

        It is known after the env steps of the iteration.
        """
        return self._evaluations is not None and self.num_timesteps >= self._evaluations.marks.next

    def record(self, name: str, value: float | torch.Tensor) -> None:
        """Record a figure of the runner, such as a loss on training, validation or test data.

        The next mark has the mean of the values since the last mark: in the curves and in result.json as `figures`, in
        progress.jsonl and TensorBoard as `figures/NAME`. When the run ends or stops, the mean of the values after the
        last mark is logged as well, and is in `last_interval` of result.json.

        Args:
            name: Name of the figure.
            value: A finite number, or a tensor with a single element.

        Raises:
            RunError: The value is not a finite number.
        """
        try:
            number = float(value.detach() if isinstance(value, torch.Tensor) else value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise self._error(f"loop.record({name!r}, {value!r}) is no finite number")
        if self._evaluations is not None:
            self._evaluations.figures.add(str(name), number)

    def curves(self) -> Curves:
        """Return the figures at all marks so far; empty outside a run."""
        return Curves.of(self._evaluations.records if self._evaluations is not None else ())

    def end(self) -> None:
        """End training, with a last evaluation if a mark has been passed; called by `next_iteration`."""
        if not self.over:
            self.over, self._iterating = True, False
            self.callback.on_training_end()

    def _check_iterating(self, call: str) -> None:
        if not self._iterating:
            raise self._error(f"{call} without a loop.next_iteration() that returned True")

    def _error(self, text: str) -> RunError:
        return _failure(self.runner, f": {text}")

    def _within_bounds(self, actions: NDArray[Any]) -> NDArray[Any]:
        space = self.runner.action_space
        if not isinstance(space, spaces.Box):
            return actions
        if self.runner.policy.squash_output:
            return self.runner.policy.unscale_action(actions)
        clipped: NDArray[Any] = np.clip(actions, space.low, space.high)
        return clipped


def _last(after: Observations, dones: NDArray[np.bool_], infos: Sequence[Mapping[str, Any]]) -> Observations:
    """Return the observations after a step, with the last observation of each episode that has ended."""
    ended = np.flatnonzero(dones).tolist()
    if not ended:
        return after
    last = stack_observations([infos[index]["terminal_observation"] for index in ended])

    def replaced(array: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
        array = array.copy()
        array[ended] = values
        return array

    return map_arrays(replaced, after, last)


def _flattened(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array `(n, n_envs, …)` as `(n · n_envs, …)`."""
    return array.reshape(-1, *array.shape[2:])


class TrainingStopped(Exception):  # noqa: N818  (no error)
    """Raised when a callback ends training in the middle of an iteration."""


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

    _not_in_checkpoints = ("_runner_curves",)
    """They are derived from the evaluations."""
    defines_training: ClassVar[bool] = True
    """The class defines the training loop; `training_params` of a config are for such classes alone."""
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
                why = "it must continue while loop.next_iteration() returns True"
                raise _failure(self, f" ended after {self.num_timesteps} of {total} steps: {why}")
        except TrainingStopped:
            loop.end()
            curves = loop.curves()
        finally:
            self._runner_curves = loop.curves()
        if not isinstance(curves, Curves):
            raise _failure(self, f" returned {curves!r:.100} instead of loop.curves()")
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


def _failure(runner: Any, text: str) -> RunError:
    """Return the error of a mistake in the `training` of a runner."""
    return RunError(f"{type(runner).__name__}.training{text} ({source_location(type(runner).training)})")
