"""Callbacks of every run: evaluation, checkpoints, divergence and the progress bar.

Callbacks that use or store the model act at the start of a rollout. Only then, an SB3 algorithm keeps nothing in local
variables: the last step is stored, the networks are trained, and `learn` continues from attributes.
"""

from __future__ import annotations

import copy
import json
import math
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback, CallbackList

from mygym.config.loading import as_plain
from mygym.errors import DivergedError, RunError, print_message
from mygym.registry.signatures import wrong_result
from mygym.training.checkpoints.states import load_normalizer_state
from mygym.training.evaluation import Evaluation
from mygym.training.policy import load_weights, normalizer_of, weights
from mygym.training.result import EpisodeCounter, Figures
from mygym.training.stop_request import StopRequest
from mygym.training.vec_wrappers import observation_normalizer


class Marks:
    """Env-step numbers `first`, then each multiple of `every`."""

    def __init__(self, every: int, first: int = 0) -> None:
        self.every = every
        self.next = first

    def passed(self, steps: int) -> bool:
        """Return whether `steps` has reached a mark since the last call."""
        if steps < self.next:
            return False
        self.next = (steps // self.every + 1) * self.every
        return True


class RolloutCallback(BaseCallback):
    """Base class of callbacks that act between rollouts, and in no step."""

    def _on_step(self) -> bool:
        return True


class StopTraining(Exception):  # noqa: N818  (no error)
    """Ends `learn` at the start of a rollout; the return value of a callback ends it only after a step."""


class EvaluationCallback(RolloutCallback):
    """Evaluates at step 0 and at the first rollout after each mark, keeps the best model, and may stop the training.

    Args:
        evaluate: Evaluates the current policy; its argument is the number of the evaluation, which selects the seeds.
        every: Env steps between marks.
        stop_at_success: Success rate that ends training when two successive evaluations reach it; None: never.
        elapsed: Returns the seconds since the run began.
        on_best: Called when an evaluation is the best so far.
        on_record: Called with each record of the result's `evaluations`.
        test: Like `evaluate`, over test episodes; its figures are recorded and select nothing.
    """

    FIRST_EXTRA = 2**20
    """Number of the first evaluation that a runner requests; larger than the number of any mark."""

    def __init__(
        self,
        evaluate: Callable[[int], Evaluation],
        every: int,
        stop_at_success: float | None,
        elapsed: Callable[[], float],
        on_best: Callable[[], None],
        on_record: Callable[[dict[str, Any]], None],
        test: Callable[[int], Evaluation] | None = None,
    ) -> None:
        super().__init__()
        self.evaluate = evaluate
        self.test = test
        self.marks = Marks(every)
        self.stop_at_success = stop_at_success
        self.elapsed = elapsed
        self.on_best = on_best
        self.on_record = on_record
        self.records: list[dict[str, Any]] = []
        self.best: tuple[float, float] = (-math.inf, -math.inf)
        self.seconds = 0.0
        """Time spent in evaluations, s."""
        self.training = EpisodeCounter()
        """Training episodes since the last mark."""
        self.figures = Figures()
        """Figures of the runner since the last mark."""
        self.extras = 0
        """Number of evaluations between marks."""

    def _on_rollout_start(self) -> None:
        if self.evaluate_at_mark():
            raise StopTraining

    def _on_training_end(self) -> None:
        self.evaluate_at_mark()

    def evaluate_at_mark(self) -> bool:
        """Evaluate if a mark has been passed; return whether the last two evaluations are good enough to stop."""
        steps = self.model.num_timesteps
        if not self.marks.passed(steps):
            return False
        number = len(self.records)
        begin = time.perf_counter()
        evaluation = self.evaluate(number)
        test = self.test(number).summary() if self.test is not None else {}
        self.seconds += time.perf_counter() - begin
        seconds, interval = self.elapsed(), self._log_interval()
        self.training.clear()
        self.figures.clear()
        record = {"steps": steps, "wall_time_s": seconds, **evaluation.summary(), **interval}
        record |= {f"test_{key}": test[key] for key in ("success_rate", "mean_return") if test}
        self.records.append(record)
        for prefix, summary in (("eval", evaluation.summary()), ("test", test)):
            by_task = {f"success_rate_{task}": rate for task, rate in summary.get("success_by_task", {}).items()}
            for key, value in (summary | by_task).items():
                if isinstance(value, float):
                    self.logger.record(f"{prefix}/{key}", value)
        self.logger.record("time/wall_time_s", seconds)
        self.logger.dump(steps)
        self.on_record(record)
        score = (evaluation.success_rate, evaluation.mean_return)
        if score > self.best:
            self.best = score
            self.on_best()
        last = [entry["success_rate"] for entry in self.records[-2:]]
        return self.stop_at_success is not None and len(last) == 2 and min(last) >= self.stop_at_success

    def log_last_interval(self) -> dict[str, Any]:
        """Write the figures of the env steps since the last evaluation into the log.

        They stay counted, so that the next evaluation of a resumed run has them as well.

        Returns:
            `steps` and the figures, named as in a record of an evaluation; empty if the last step was evaluated.
        """
        steps = self.model.num_timesteps
        if self.records and self.records[-1]["steps"] == steps:
            return {}
        interval = {"steps": steps, **self._log_interval()}
        self.logger.record("time/wall_time_s", self.elapsed())
        self.logger.dump(steps)
        return interval

    def _log_interval(self) -> dict[str, Any]:
        """Give the logger the figures of the training since the last evaluation; return their part of a record."""
        scores, figures = self.training.means(), self.figures.means()
        named = {f"figures/{name}": value for name, value in figures.items()}
        for key, value in {**named, **{key.replace("_", "/", 1): score for key, score in scores.items()}}.items():
            if value is not None:
                self.logger.record(key, value)
        return scores | ({"figures": figures} if figures else {})

    def extra(self) -> Evaluation:
        """Evaluate between marks, on separate episodes; the result selects nothing here."""
        begin = time.perf_counter()
        evaluation = self.evaluate(self.FIRST_EXTRA + self.extras)
        self.seconds += time.perf_counter() - begin
        self.extras += 1
        return evaluation

    def state_dict(self) -> dict[str, Any]:
        """Return marks, records, the best score and the training episodes since the last mark."""
        return {
            "next": self.marks.next,
            "records": copy.deepcopy(self.records),
            "best": self.best,
            "seconds": self.seconds,
            "training": self.training.state_dict(),
            "figures": self.figures.state_dict(),
            "extras": self.extras,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`; raise `ValueError` if a record is not that of an evaluation."""
        self.marks.next = state["next"]
        for record in state["records"]:
            if not all(isinstance(record[key], int | float) for key in ("steps", "wall_time_s", "success_rate")):
                raise ValueError(f"{record!r:.100} is not the record of an evaluation")
        self.records = copy.deepcopy(state["records"])
        self.best = tuple(state["best"])
        self.seconds = state["seconds"]
        self.training.load_state_dict(state["training"])
        self.figures.load_state_dict(state["figures"])
        self.extras = int(state["extras"])


class ResumeCallback(BaseCallback):
    """Calls `load` at the start of the first rollout, the point at which checkpoints are written; None: step 0."""

    def __init__(self, load: Callable[[], None] | None) -> None:
        super().__init__()
        self.load = load

    def _on_rollout_start(self) -> None:
        if self.load is not None:
            load, self.load = self.load, None
            load()

    def _on_step(self) -> bool:
        if self.load is not None:
            raise RunError(f"{type(self.model).__name__} calls no callback.on_rollout_start(), so it cannot be resumed")
        return True


class CheckpointCallback(RolloutCallback):
    """Writes a checkpoint at the first rollout after each mark, and when the user requests a stop."""

    def __init__(self, every: int, write: Callable[[], Path], stop: StopRequest) -> None:
        super().__init__()
        self.marks = Marks(every, first=every)
        self.write = write
        self.stop = stop

    def _on_rollout_start(self) -> None:
        if self.marks.passed(self.model.num_timesteps) or self.stop.received:
            self.write()
        if self.stop.received:
            raise KeyboardInterrupt

    def state_dict(self) -> dict[str, Any]:
        """Return the next mark."""
        return {"next": self.marks.next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.marks.next = state["next"]


Kind = TypeVar("Kind", bound=BaseCallback)


def find_callback(callback: Any, kind: type[Kind]) -> Kind | None:
    """Return the first callback of a class among nested callbacks; None if the run has none."""
    if isinstance(callback, kind):
        return callback
    children = callback.callbacks if isinstance(callback, CallbackList) else []
    return next((match for child in children if (match := find_callback(child, kind)) is not None), None)


class DivergenceCallback(BaseCallback):
    """Raises `DivergedError` when a reward, a loss or a weight is not finite, and keeps the last finite weights."""

    EVERY = 200
    """Calls between checks of the weights."""
    DIAGNOSTIC = "train/explained_variance"
    """It trains nothing, and is NaN where all returns are the same, as in a rollout without a reward."""

    def __init__(self, rewarding: str = "") -> None:
        super().__init__()
        self.of_rewards = f"; {rewarding}" if rewarding else ""
        """End of messages about rewards: the user's rewards and stages with their lines; empty without any."""
        self.finite_weights: dict[str, torch.Tensor] = {}
        self.finite_normalizer: dict[str, Any] | None = None

    def _on_training_start(self) -> None:
        self.check_weights()

    def _on_rollout_start(self) -> None:
        self._check_losses()  # on-policy algorithms have just trained, off-policy algorithms since the last call

    def _on_rollout_end(self) -> None:
        self._check_losses()  # runners have just trained, and write their log before the next rollout

    def _on_step(self) -> bool:
        rewards = self.locals.get("rewards")
        if rewards is not None and not np.isfinite(rewards).all():
            numbers = f"{np.asarray(rewards)}{self.of_rewards}"
            raise DivergedError(f"a reward is not finite after {self.num_timesteps} steps: {numbers}")
        if self.n_calls % self.EVERY == 0:
            self._check_losses()
            self.check_weights()
        return True

    def _on_training_end(self) -> None:
        self._check_losses()
        self.check_weights()

    def is_finite(self) -> bool:
        """Return whether every weight is finite."""
        if getattr(self, "model", None) is None:  # learning has not begun
            return True
        return all(bool(torch.isfinite(value).all()) for value in weights(self.model).values())

    def as_divergence(self, error: Exception) -> DivergedError | None:
        """Return the error of a run as a `DivergedError`; None if the numbers have not caused it.

        Torch raises on NaN before the next check: in any operation, or because a distribution of actions has a scale of
        0 or a parameter that is not finite.
        """
        if isinstance(error, DivergedError):
            return error
        if not self.is_finite():
            return DivergedError(f"a weight is not finite after {self.model.num_timesteps} steps")
        if name := _degenerate_parameter(error):
            after = f"after {self.model.num_timesteps} steps"
            return DivergedError(f"the {name} of the distribution of the actions is 0 or not finite {after}")
        return None

    def restore(self) -> None:
        """Load the last finite weights and the normaliser with which they were trained."""
        load_weights(self.model, self.finite_weights)
        normalizer = observation_normalizer(self.training_env)
        if normalizer is not None and self.finite_normalizer is not None:
            load_normalizer_state(normalizer, self.finite_normalizer)

    def check_weights(self) -> None:
        """Keep a copy of the weights; raise `DivergedError` if one is not finite."""
        if not self.is_finite():
            raise DivergedError(f"a weight is not finite after {self.model.num_timesteps} steps")
        self.finite_weights = {key: value.detach().clone() for key, value in weights(self.model).items()}
        self.finite_normalizer = normalizer_of(self.training_env)

    def _check_losses(self) -> None:
        for key, value in self.logger.name_to_value.items():
            if not key.startswith("train/") or not isinstance(value, float | np.floating) or math.isfinite(value):
                continue
            if not (key == self.DIAGNOSTIC and math.isnan(value)):
                raise DivergedError(f"{key} is {value} after {self.model.num_timesteps} steps")

    def state_dict(self) -> dict[str, Any]:
        """Return the number of calls, which determines the next check of the weights."""
        return {"calls": self.n_calls}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`; the model's weights are loaded already."""
        self.n_calls = state["calls"]
        self.check_weights()


def _degenerate_parameter(error: Exception) -> str:
    """Return the name of a parameter that a distribution of torch refuses, if it is 0 or not finite; else empty."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not frames or frames[-1].f_globals.get("__name__") != "torch.distributions.distribution":
        return ""
    given = frames[-1].f_locals  # of `Distribution.__init__`
    name, values, valid = given.get("param", ""), given.get("value"), given.get("valid")
    if not isinstance(values, torch.Tensor) or not isinstance(valid, torch.Tensor) or valid.shape != values.shape:
        return ""
    refused = values[~valid]
    return str(name) if bool(((refused == 0) | ~torch.isfinite(refused)).any()) else ""


class ProgressBarCallback(BaseCallback):
    """Shows a progress bar on a terminal, else a line for each evaluation, on stderr."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.total = total
        self.bar: Any = None

    def _on_rollout_start(self) -> None:
        if self.bar is None and sys.stderr.isatty():
            from tqdm import tqdm

            done = self.model.num_timesteps
            self.bar = tqdm(total=self.total, initial=done, unit="step", dynamic_ncols=True, leave=True)

    def _on_step(self) -> bool:
        if self.bar is not None:
            self.bar.update(min(self.num_timesteps, self.total) - self.bar.n)
        return True

    def _on_training_end(self) -> None:
        self.close()

    def show(self, record: Mapping[str, Any]) -> None:
        """Show the record of an evaluation."""
        if self.bar is not None:
            self.bar.set_postfix_str(f"success {record['success_rate']:.0%}")
            return
        print_message(
            f"{record['steps']:>9,} steps  {record['wall_time_s']:7.1f} s  success {record['success_rate']:6.1%}  "
            f"return {record['mean_return']:8.2f}  distance {100 * record['mean_distance']:5.1f} cm"
            + "".join(f"  {task} {rate:.0%}" for task, rate in record.get("success_by_task", {}).items())
            + "".join(f"  {text}" for text in outcome_texts(record.get("strategy", {})))
        )

    def close(self) -> None:
        """Close the bar and leave it on the terminal."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def outcome_texts(outcome: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a text for each strategy, such as `curriculum: level 2, last level 6`."""
    texts = []
    for name, values in outcome.items():
        words = [f"{key.replace('_', ' ')} {value}" for key, value in values.items()]
        texts.append(f"{name}: {', '.join(words)}")
    return texts


class StrategyCallback(BaseCallback):
    """Forwards SB3's callback events to the strategies; `write` writes a checkpoint of the current state."""

    def __init__(self, strategies: Sequence[Any], write: Callable[[], object]) -> None:
        super().__init__()
        self.strategies = strategies
        self.write = write

    def _on_training_start(self) -> None:
        self._forward(self.model._last_obs)

    def _on_rollout_start(self) -> None:
        self._begin_iteration("rollout")

    def _on_rollout_end(self) -> None:
        self._begin_iteration("gradient")

    def _on_step(self) -> bool:
        infos = self.locals.get("infos", ()) if self.strategies else ()  # some algorithms do not pass them
        for info in infos:
            if "episode" in info:
                for strategy in self.strategies:
                    strategy.on_episode(info.get("variant", 0), bool(info["is_success"]), float(info["episode"]["r"]))
        if "new_obs" in self.locals:  # absent in ARS, which calls back for evaluations
            self._forward(self.locals["new_obs"])
        return True

    def _forward(self, observations: Any) -> None:
        for strategy in self.strategies:
            strategy.on_step(observations)

    def _begin_iteration(self, phase: str) -> None:
        """Call the strategies that act before this phase; on failure, write a checkpoint first."""
        try:
            for strategy in self.strategies:
                if strategy.phase == phase:
                    strategy.begin_iteration()
        except Exception:
            self.write()
            raise

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """Forward the record of an evaluation."""
        for strategy in self.strategies:
            strategy.on_evaluation(record)

    def outcome(self) -> dict[str, dict[str, Any]]:
        """Return the current outcomes by strategy name, for strategies that report an outcome."""
        outcomes = {strategy.name: as_plain(strategy.outcome()) for strategy in self.strategies}
        for name, outcome in outcomes.items():
            try:
                json.dumps(outcome)
            except TypeError as error:
                raise RunError(f"strategy {name}: outcome: {error}; allowed: numbers, text, lists, mappings") from error
        return {name: outcome for name, outcome in outcomes.items() if outcome}

    def finish(self, evaluate: Callable[[], Evaluation]) -> None:
        """Call `finish` of the strategies, which may change the trained model."""
        for strategy in self.strategies:
            strategy.finish(evaluate)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each strategy, by name."""
        return {strategy.name: strategy.state_dict() for strategy in self.strategies}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        for strategy in self.strategies:
            strategy.load_state_dict(state[strategy.name])


class UserCallbacks(CallbackList):
    """The user's callbacks, in the order of the config and of the call of `mygym.train`."""

    def __init__(self, callbacks: Sequence[BaseCallback], notify: Callable[[str], None]) -> None:
        super().__init__(list(callbacks))
        self.notify = notify

    def _on_step(self) -> bool:
        results = [(callback, callback.on_step()) for callback in self.callbacks]
        for callback, goes_on in results:
            if goes_on is None:  # a forgotten `return` would end the training
                function = getattr(callback, "callback", None) or callback._on_step  # of the user, in SB3's callback
                name = getattr(function, "__qualname__", type(callback).__name__)
                raise wrong_result(f"callback {name}", function, goes_on, "True, or False to end the training")
            if not goes_on:
                self.notify(f"{type(callback).__name__} ends the training after {self.num_timesteps:,} steps")
        return all(goes_on for _, goes_on in results)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of calls of each callback, and the state of callbacks that have `state_dict`."""
        return {
            name: {
                "calls": callback.n_calls,
                "state": callback.state_dict() if hasattr(callback, "state_dict") else None,
            }
            for name, callback in self._named().items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`; callbacks that are new or missing are reported."""
        named = self._named()
        for name in named.keys() ^ state.keys():
            where = "is not in the checkpoint: it begins now" if name in named else "of the checkpoint is missing"
            self.notify(f"callback {name} {where}")
        for name in named.keys() & state.keys():
            callback, stored = named[name], state[name]
            callback.n_calls = stored["calls"]
            if stored["state"] is not None:
                callback.load_state_dict(stored["state"])  # type: ignore[attr-defined]

    def _named(self) -> dict[str, BaseCallback]:
        return {f"{index} {type(callback).__name__}": callback for index, callback in enumerate(self.callbacks)}
