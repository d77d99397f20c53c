"""Callback that measures the sections of a training: environment, rest of the rollout, update, evaluation."""

from __future__ import annotations

import time
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from mygym.runs.evaluation_callback import EvaluationCallback
from mygym.runs.nested_callbacks import find_callback


class SectionTimesCallback(BaseCallback):
    """Logs the time of the sections of a training, ms per env step.

    `time/environment_ms` is the simulation, `time/rollout_ms` the rest of a rollout (policy, buffers, callbacks),
    `time/update_ms` the gradient steps (and checkpoints), `time/evaluation_ms` the evaluations; each the mean since the
    last log. A `Runner`, and a run with `overlap`, update the policy within the rollout. On a GPU, the fused engine is
    part of `time/rollout_ms`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.in_environment = 0.0
        """Time in the environments in this rollout, s."""
        self.begin = 0.0
        """Begin of the rollout, s."""
        self.end: float | None = None
        """End of the last rollout, s; None: this process has had none."""
        self.steps_before = 0
        """Env steps before the rollout."""

    def _on_training_start(self) -> None:
        self.evaluations = find_callback(self.locals.get("callback"), EvaluationCallback)
        self.evaluation_seconds = 0.0
        self.env: Any = self.training_env.unwrapped  # it is not pickled, unlike the normaliser
        step_wait = self.env.step_wait

        def timed() -> Any:
            begin = time.perf_counter()
            try:
                return step_wait()
            finally:
                self.in_environment += time.perf_counter() - begin

        vars(self.env)["step_wait"] = timed

    def _on_rollout_start(self) -> None:
        now, seconds = time.perf_counter(), self.evaluations.seconds if self.evaluations else 0.0
        steps = self.model.num_timesteps - self.steps_before
        if self.end is not None and steps:
            evaluation = seconds - self.evaluation_seconds
            rollout = self.end - self.begin - self.in_environment
            sections = {"environment": self.in_environment, "rollout": rollout, "evaluation": evaluation}
            if not self.in_environment:
                del sections["environment"]
            sections["update"] = now - self.end - evaluation
            for name, duration in sections.items():
                self.logger.record_mean(f"time/{name}_ms", 1000 * duration / steps)
        self.evaluation_seconds, self.in_environment = seconds, 0.0
        self.begin, self.steps_before = time.perf_counter(), self.model.num_timesteps

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.end = time.perf_counter()

    def _on_training_end(self) -> None:
        del vars(self.env)["step_wait"]  # the method of the class is visible again
