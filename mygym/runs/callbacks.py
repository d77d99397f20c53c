"""What happens during `model.learn`: resuming, evaluation, checkpoints, a progress bar, early stop, divergence.

Whatever looks at the model or stores it does so at the start of a rollout. There, and only there, an SB3 algorithm has
nothing in local variables: the last step is stored, the networks are trained, and `learn` goes on from attributes.
"""

from __future__ import annotations

import contextlib
import copy
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from mygym.errors import DivergedError, RunError
from mygym.runs.checkpoints.state import load_normalizer_state
from mygym.runs.curves import Tally
from mygym.runs.evaluation import Evaluation
from mygym.runs.policy import normalizer_of
from mygym.runs.stop_request import StopRequest
from mygym.runs.strategy_callback import in_words
from mygym.runs.weights import load_weights, weights


class Marks:
    """Fixed numbers of env steps: 0, `every`, 2·`every` and so on."""

    def __init__(self, every: int, first: int = 0) -> None:
        self.every = every
        self.next = first

    def passed(self, steps: int) -> bool:
        """Whether a mark has been reached since the last call."""
        if steps < self.next:
            return False
        self.next = (steps // self.every + 1) * self.every
        return True


class LearningEnd(Exception):  # noqa: N818  (no error)
    """Ends `learn` at the start of a rollout, where nothing is half done; what a callback returns ends it elsewhere."""


class ResumeCallback(BaseCallback):
    """Loads a checkpoint at the start of the first rollout: the place where checkpoints are taken."""

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


class EvaluationCallback(BaseCallback):
    """Evaluates at step 0 and at the first rollout after every mark, keeps the best, stops when two in a row are good.

    Args:
        evaluate: Evaluates the policy as it is; the argument is the number of the evaluation, which decides its seeds.
        every: Env steps between marks.
        stop_at_success: Success rate that ends training when two evaluations in a row reach it; None never does.
        elapsed: Seconds since the run began.
        on_best: Called when an evaluation is the best so far.
        report: Called with each record of the result's `evaluations`.
        test: As `evaluate`, of other episodes; its figures stand in the records and decide nothing.
    """

    FIRST_EXTRA = 2**20
    """Number of the first evaluation that a runner asks for: beyond those of any marks."""

    def __init__(
        self,
        evaluate: Callable[[int], Evaluation],
        every: int,
        stop_at_success: float | None,
        elapsed: Callable[[], float],
        on_best: Callable[[], None],
        report: Callable[[dict[str, Any]], None],
        test: Callable[[int], Evaluation] | None = None,
    ) -> None:
        super().__init__()
        self.evaluate = evaluate
        self.test = test
        self.marks = Marks(every)
        self.stop_at_success = stop_at_success
        self.elapsed = elapsed
        self.on_best = on_best
        self.report = report
        self.records: list[dict[str, Any]] = []
        self.best: tuple[float, float] = (-math.inf, -math.inf)
        self.seconds = 0.0
        """Spent in evaluations."""
        self.training = Tally()
        """Training episodes since the last mark."""
        self.extras = 0
        """Evaluations between marks, so far."""

    def _on_rollout_start(self) -> None:
        if self.look():
            raise LearningEnd

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self.look()

    def look(self) -> bool:
        """Evaluate if a mark has been passed; returns whether the last two are good enough."""
        steps = self.model.num_timesteps
        if not self.marks.passed(steps):
            return False
        number = len(self.records)
        begin = time.perf_counter()
        evaluation = self.evaluate(number)
        test = self.test(number).summary() if self.test is not None else {}
        self.seconds += time.perf_counter() - begin
        record = {"steps": steps, "wall_time_s": self.elapsed(), **evaluation.summary(), **self.training.take()}
        record |= {f"test_{key}": test[key] for key in ("success_rate", "mean_return") if test}
        self.records.append(record)
        for prefix, figures in (("eval", evaluation.summary()), ("test", test)):
            by_task = {f"success_rate_{task}": rate for task, rate in figures.get("success_by_task", {}).items()}
            for key, value in (figures | by_task).items():
                if isinstance(value, float):
                    self.logger.record(f"{prefix}/{key}", value)
        self.logger.dump(steps)
        self.report(record)
        score = (evaluation.success_rate, evaluation.mean_return)
        if score > self.best:
            self.best = score
            self.on_best()
        last = [entry["success_rate"] for entry in self.records[-2:]]
        return self.stop_at_success is not None and len(last) == 2 and min(last) >= self.stop_at_success

    def extra(self) -> Evaluation:
        """Evaluate between marks, over episodes of their own; it decides nothing here."""
        begin = time.perf_counter()
        evaluation = self.evaluate(self.FIRST_EXTRA + self.extras)
        self.seconds += time.perf_counter() - begin
        self.extras += 1
        return evaluation

    def state_dict(self) -> dict[str, Any]:
        """Marks, records, best so far, training episodes since the last mark."""
        return {
            "next": self.marks.next,
            "records": copy.deepcopy(self.records),
            "best": self.best,
            "seconds": self.seconds,
            "training": self.training.state_dict(),
            "extras": self.extras,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.marks.next = state["next"]
        for record in state["records"]:
            if not all(isinstance(record[key], int | float) for key in ("steps", "wall_time_s", "success_rate")):
                raise ValueError(f"{record!r:.100} is no record of an evaluation")
        self.records = copy.deepcopy(state["records"])
        self.best = tuple(state["best"])
        self.seconds = state["seconds"]
        self.training.load_state_dict(state["training"])
        self.extras = int(state["extras"])


class CheckpointCallback(BaseCallback):
    """Writes a checkpoint at the first rollout after every mark, and when the run is asked to stop.

    Args:
        every: Env steps between marks.
        write: Writes a checkpoint of now.
        stop: Ctrl-C and SIGTERM.
    """

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

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """The next mark."""
        return {"next": self.marks.next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.marks.next = state["next"]


class DivergenceCallback(BaseCallback):
    """Raises `DivergedError` when a reward, a loss or a weight is not finite, and keeps the last good weights."""

    EVERY = 200
    """Calls between looks at the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.good: dict[str, torch.Tensor] = {}
        self.good_normalizer: dict[str, Any] | None = None

    def _on_training_start(self) -> None:
        self.look_at_weights()

    def _on_rollout_start(self) -> None:
        self._look_at_losses()  # on-policy algorithms have just trained, off-policy ones trained since the last call

    def _on_rollout_end(self) -> None:
        self._look_at_losses()  # runners have just trained, and write their log before the next rollout

    def _on_step(self) -> bool:
        rewards = self.locals.get("rewards")
        if rewards is not None and not np.isfinite(rewards).all():
            raise DivergedError(f"a reward is not finite after {self.num_timesteps} steps: {np.asarray(rewards)}")
        if self.n_calls % self.EVERY == 0:
            self._look_at_losses()
            self.look_at_weights()
        return True

    def _on_training_end(self) -> None:
        self._look_at_losses()
        self.look_at_weights()

    def is_finite(self) -> bool:
        """Whether every weight is finite."""
        if getattr(self, "model", None) is None:  # learning has not begun
            return True
        return all(bool(torch.isfinite(value).all()) for value in weights(self.model).values())

    def restore(self) -> None:
        """Put the last good weights back, and the normaliser that they were trained with."""
        load_weights(self.model, self.good)
        normalizer = unwrap_vec_normalize(self.training_env)
        if normalizer is not None and self.good_normalizer is not None:
            load_normalizer_state(normalizer, self.good_normalizer)

    def look_at_weights(self) -> None:
        """Keep the weights if they are finite.

        Raises:
            DivergedError: They are not.
        """
        if not self.is_finite():
            raise DivergedError(f"a weight is not finite after {self.model.num_timesteps} steps")
        self.good = {key: value.detach().clone() for key, value in weights(self.model).items()}
        self.good_normalizer = normalizer_of(self.training_env)

    def _look_at_losses(self) -> None:
        for key, value in self.logger.name_to_value.items():
            if key.startswith("train/") and isinstance(value, float | np.floating) and not math.isfinite(value):
                raise DivergedError(f"{key} is {value} after {self.model.num_timesteps} steps")

    def state_dict(self) -> dict[str, Any]:
        """When the weights are looked at next."""
        return {"calls": self.n_calls}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`; the model's weights are loaded already, and good."""
        self.n_calls = state["calls"]
        self.look_at_weights()


class ProgressBarCallback(BaseCallback):
    """A bar with steps per second, success rate and time left on a terminal; one line for each evaluation elsewhere."""

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
        """Tell of an evaluation."""
        if self.bar is not None:
            self.bar.set_postfix_str(f"success {record['success_rate']:.0%}")
            return
        with contextlib.suppress(OSError):  # nobody listens any more: no reason to stop
            print(
                f"{record['steps']:>9,} steps  {record['wall_time_s']:7.1f} s  success {record['success_rate']:6.1%}  "
                f"return {record['mean_return']:8.2f}  distance {100 * record['mean_distance']:5.1f} cm"
                + "".join(f"  {task} {rate:.0%}" for task, rate in record.get("success_by_task", {}).items())
                + "".join(f"  {words}" for words in in_words(record.get("strategy", {}))),
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        """Leave the bar as it is."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
