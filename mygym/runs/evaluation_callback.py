"""Callback that evaluates the policy during training.

Callbacks that use or store the model act at the start of a rollout. Only then, an SB3 algorithm keeps nothing in local
variables: the last step is stored, the networks are trained, and `learn` continues from attributes.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from mygym.runs.curves import EpisodeCounter, Figures
from mygym.runs.evaluation import Evaluation
from mygym.runs.marks import Marks


class StopTraining(Exception):  # noqa: N818  (no error)
    """Ends `learn` at the start of a rollout; the return value of a callback ends it only after a step."""


class EvaluationCallback(BaseCallback):
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

    def _on_step(self) -> bool:
        return True

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
        """Restore a state of `state_dict`.

        Raises:
            ValueError: A record is not the record of an evaluation.
        """
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
