"""`Runner`: the base class of algorithms that write the training loop themselves, and `Loop`, which they get for it."""

from __future__ import annotations

import re
import sys
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList
from stable_baselines3.common.policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import safe_mean
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from mygym.errors import ConfigError, RunError, bad_value
from mygym.registry.signatures import parameters
from mygym.runs.callbacks import EvaluationCallback
from mygym.runs.checkpoints.state import Stateful
from mygym.runs.curves import Curves
from mygym.runs.evaluation import Evaluation

Observations = Any
"""`(n_envs, …)` float32, or a dictionary of such arrays for goal environments."""

SEEDS = 2**30
"""How many seeds training has: those of evaluations begin here (`mygym.runs.evaluation.episode_seeds`)."""

_NAME = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9_.=-]{0,79}")


class Runner(Stateful, BaseAlgorithm):
    """Base class of algorithms that need the training loop itself.

    A subclass has its *hyperparameters* (what the algorithm is) as parameters of its constructor: the config's
    `algo_params`. It has its *training parameters* (how long, how often) as keyword-only parameters of `training`, with
    annotations and defaults: the config's `training_params`. Everything else is as for SB3's algorithms: `policy`,
    `predict`, `save`, `load`, checkpoints, evaluations, results.

        class Climber(Runner):
            def __init__(self, policy, env, *, noise: float = 0.1, **kwargs):
                self.noise = noise
                self.best = -1e9              # the loop goes on from it: an attribute, not a local variable
                super().__init__(policy, env, **kwargs)

            def training(self, loop, *, steps_per_try: int = 100) -> Curves:
                while loop.goes_on():         # evaluates, writes checkpoints, stops, resumes
                    ...                       # act with loop.step(actions), learn
                return loop.curves()

    **What the loop goes on from is in attributes.** Checkpoints are written in `loop.goes_on()`, and in a resumed run
    the first `loop.goes_on()` loads one: after it, attributes hold what they held then, and local variables what
    `training` gave them a moment ago. So a counter, a running mean or a best candidate that outlives an iteration is an
    attribute; what is made and used up between two calls of `goes_on` may be local. Checkpoints hold attributes that
    are numbers, text, lists, dictionaries, numpy arrays, torch tensors, random generators, or have `state_dict` and
    `load_state_dict` (networks, optimisers). Attributes are set in instances, not in the class body.

    **Schedules.** A config may give a number as a schedule, which sets the attribute of the same name as training
    proceeds. A hyperparameter that is kept under its own name and read from `self` at each use follows it.

    Args:
        policy: An alias in `policy_aliases`, or an SB3 policy class.
        env: Vector environment, Gymnasium environment or its id.
        learning_rate: Of the policy's optimiser, if it has one.
        policy_kwargs: Further arguments of the policy class.
        stats_window_size: Training episodes that `rollout/` values of the log are means of.
        tensorboard_log: Folder of TensorBoard logs, where no run provides its own.
        verbose: 0 for silence.
        seed: Of everything random.
        device: Of the policy's network.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": ActorCriticPolicy,
        "CnnPolicy": ActorCriticCnnPolicy,
        "MultiInputPolicy": MultiInputActorCriticPolicy,
    }

    read_once: ClassVar[tuple[str, ...]] = ()
    """Hyperparameters that are read when training begins, and never again: no schedule could change them."""

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
        super().__init__(
            policy,
            env,
            learning_rate,
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

    # What a subclass defines ---------------------------------------------------------------------------------------

    @abstractmethod
    def training(self, loop: Loop, *args: Any, **kwargs: Any) -> Curves:
        """The training loop: `while loop.goes_on(): …`, then `return loop.curves()`.

        Its training parameters are keyword-only, with annotations and defaults. See the class for what may not be in
        local variables.
        """

    def setup(self) -> None:
        """Make what depends on the policy, such as optimisers; called when the policy has been built, by `load` too.

        A constructor that sets its hyperparameters before it calls `super().__init__` has them here.
        """

    @classmethod
    def run_name(cls, hyperparameters: Mapping[str, Any], training_params: Mapping[str, Any]) -> str:
        """How a setting shows in the name of its run directory, before the config's hash; empty: not at all.

        Args:
            hyperparameters: `algo_params`, complete.
            training_params: Complete.

        Returns:
            At most 80 letters, digits and `_ . = -`.
        """
        return ""

    # What it gets --------------------------------------------------------------------------------------------------

    @property
    def curves(self) -> Curves | None:
        """What the last `learn` came to, also where it was ended early; None before."""
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
        """Set up, let `training` train, keep its curves. Not to be overridden.

        Args:
            total_timesteps: Env steps; an iteration that has begun is finished.
            callback: SB3's callbacks; one that returns False ends training.
            log_interval: Iterations between lines of the log.
            tb_log_name: Name of TensorBoard logs, where no run provides its own.
            reset_num_timesteps: Begin at 0 and reset the environments.
            progress_bar: Show SB3's bar.

        Raises:
            RunError: `training` ends before its time, takes no steps, or gives no curves.
        """
        total, callback = self._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)
        callback.on_training_start(locals(), globals())
        assert self.env is not None
        loop = Loop(self, self.env, callback, total, log_interval)
        try:
            curves = self.training(loop, **self.training_params)
            if not loop.over:
                raise RunError(
                    f"{type(self).__name__}.training ended after {self.num_timesteps} of {total} steps: "
                    "it must go on as long as loop.goes_on() says so"
                )
        except _Stopped:
            loop.end()
            curves = loop.curves()
        finally:
            self._runner_curves = loop.curves()
        if not isinstance(curves, Curves):
            raise RunError(f"{type(self).__name__}.training returned {curves!r:.100} in place of loop.curves()")
        self._runner_curves = curves
        return self

    def dump_logs(self) -> None:
        """Write what was recorded since the last time, with means over the latest training episodes."""
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

    # What SB3 asks for ---------------------------------------------------------------------------------------------

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


class Loop:
    """What `Runner.training` gets: the environments, the evaluations, the checkpoints, and when to end.

    Args:
        runner: Whose loop it is.
        envs: Training environments, an SB3 vector environment: monitored, and normalised where the config says so.
        callback: All that wants to know of the training, as one SB3 callback.
        total_steps: Env steps after which `goes_on` says no.
        log_interval: Iterations between lines of the log; None: none.
    """

    def __init__(
        self, runner: Runner, envs: VecEnv, callback: BaseCallback, total_steps: int, log_interval: int | None = 1
    ) -> None:
        self.runner = runner
        self.envs = envs
        self.callback = callback
        self.total_steps = total_steps
        self.over = False
        """Whether training has ended."""
        self._log_interval = log_interval
        self._iterating = False
        self._stepped = False

    @property
    def num_timesteps(self) -> int:
        """Env steps so far, those before a resumed run's checkpoint included."""
        return self.runner.num_timesteps

    @property
    def observations(self) -> Observations:
        """What the environments show now."""
        return self.runner._last_obs

    @property
    def episode_starts(self) -> NDArray[np.bool_]:
        """`(n_envs,)`: whose observation is the first of an episode."""
        starts: NDArray[np.bool_] = self.runner._last_episode_starts  # type: ignore[assignment]
        return starts

    def goes_on(self) -> bool:
        """End an iteration and begin the next one, as long as env steps remain.

        Between the two, and nowhere else, the log is written, the policy evaluated where a mark has been passed,
        checkpoints are written, Ctrl-C and SIGTERM obeyed; and here the first call in a resumed run loads the
        checkpoint. The policy is in evaluation mode afterwards.

        Raises:
            RunError: There was no `step` since the last call: it would never end.
        """
        runner = self.runner
        if self.over:
            return False
        if self._iterating:
            if not self._stepped:
                why = "took no environment step between two calls of loop.goes_on()"
                raise RunError(f"{type(runner).__name__}.training {why}, so it would never end")
            self.callback.on_rollout_end()
            runner._iterations += 1
            if self._log_interval is not None and runner._iterations % self._log_interval == 0:
                runner.dump_logs()
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
        self, actions: torch.Tensor | NDArray[np.float32]
    ) -> tuple[Observations, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """One step of every training environment.

        Args:
            actions: `(n_envs, …)`, as the policy gives them: unscaled if it squashes its output, else clipped.

        Returns:
            Observations (of the next episode where one has ended; its last one is `terminal_observation` of the info),
            `(n_envs,)` rewards, `(n_envs,)` whether an episode has ended, and infos.

        Raises:
            RunError: No `goes_on` said yes before.
        """
        runner = self.runner
        self._check("loop.step()")
        values = actions.detach().cpu().numpy() if isinstance(actions, torch.Tensor) else actions
        observations, rewards, dones, infos = self.envs.step(self._within_bounds(values))
        runner.num_timesteps += self.envs.num_envs
        self._stepped = True
        runner._update_current_progress_remaining(runner.num_timesteps, self.total_steps)
        told = {"actions": values, "new_obs": observations, "rewards": rewards, "dones": dones, "infos": infos}
        self.callback.update_locals(told)
        if not self.callback.on_step():
            raise _Stopped
        runner._update_info_buffer(infos, dones)
        runner._last_obs = observations  # type: ignore[assignment]
        runner._last_episode_starts = dones
        return observations, rewards, dones, infos

    def reset(self, seed: int | None = None) -> Observations:
        """Begin an episode in every training environment; those that are under way are left, and counted nowhere.

        Args:
            seed: Below `SEEDS`: every environment begins the same episode, so that candidates can be compared on it.
                None: each the next of its own.

        Raises:
            RunError: No `goes_on` said yes before, or it is no such seed.
        """
        self._check("loop.reset()")
        if seed is not None:
            if not 0 <= seed < SEEDS:  # beyond them are episodes that judge
                raise RunError(f"{type(self.runner).__name__}.training: loop.reset({seed}); allowed: 0 to {SEEDS - 1}")
            inner = self.envs
            while isinstance(inner, VecEnvWrapper):
                inner = inner.venv
            inner._seeds = [int(seed)] * inner.num_envs  # `seed()` gives each environment another
        self.runner._last_obs = self.envs.reset()  # type: ignore[assignment]
        self.runner._last_episode_starts = np.ones(self.envs.num_envs, dtype=bool)
        return self.observations

    def evaluate(self) -> Evaluation:
        """An extra look at the policy as it is, over `eval.episodes` episodes in environments of their own.

        It chooses no best model and stands in no record; whatever else it decides is the runner's business.

        Raises:
            RunError: Nobody provides evaluations: `learn` was called outside a run.
        """
        evaluations = _evaluations(self.callback)
        if evaluations is None:
            raise RunError(f"{type(self.runner).__name__}.training: loop.evaluate() is for runs of mygym.train")
        evaluation = evaluations.extra()
        self.runner.policy.set_training_mode(False)
        return evaluation

    def curves(self) -> Curves:
        """Figures at all marks so far; none outside a run."""
        evaluations = _evaluations(self.callback)
        return Curves.of(evaluations.records if evaluations is not None else ())

    def end(self) -> None:
        """End training, with the last evaluation if a mark has been passed; `goes_on` calls it."""
        if not self.over:
            self.over, self._iterating = True, False
            self.callback.on_training_end()

    def _check(self, call: str) -> None:
        if not self._iterating:
            raise RunError(f"{type(self.runner).__name__}.training: {call} without a loop.goes_on() that said yes")

    def _within_bounds(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        space = self.runner.action_space
        if not isinstance(space, spaces.Box):
            return actions
        if self.runner.policy.squash_output:
            return self.runner.policy.unscale_action(actions)
        return np.clip(actions, space.low, space.high)


class _Stopped(Exception):  # noqa: N818  (no error)
    """A callback has ended training in the middle of an iteration."""


def _evaluations(callback: BaseCallback) -> EvaluationCallback | None:
    """The evaluations among nested callbacks."""
    if isinstance(callback, EvaluationCallback):
        return callback
    inner = callback.callbacks if isinstance(callback, CallbackList) else []
    return next((found for one in inner if (found := _evaluations(one)) is not None), None)


def setting_name(cls: type, algo_params: Mapping[str, Any], training_params: Mapping[str, Any], digest: str) -> str:
    """Name of a setting's directory: the config's hash, after the name that a runner gives it.

    Raises:
        ConfigError: The runner gives no such name.
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
        allowed = "at most 80 letters, digits and _ . = -, no . or - in front"
        raise ConfigError(bad_value("algo", name, allowed, f"is what {cls.__name__}.run_name gives: no directory name"))
    return f"{name}-{digest}"
