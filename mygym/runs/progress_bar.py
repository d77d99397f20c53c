"""Callback that reports progress on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from mygym.runs.strategy_callback import outcome_texts


class ProgressBarCallback(BaseCallback):
    """Shows a progress bar on a terminal; if stderr is not a terminal, prints a line for each evaluation.

    Args:
        total: Env steps of the run.
    """

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
        with contextlib.suppress(OSError):  # stderr is closed; keep training
            print(
                f"{record['steps']:>9,} steps  {record['wall_time_s']:7.1f} s  success {record['success_rate']:6.1%}  "
                f"return {record['mean_return']:8.2f}  distance {100 * record['mean_distance']:5.1f} cm"
                + "".join(f"  {task} {rate:.0%}" for task, rate in record.get("success_by_task", {}).items())
                + "".join(f"  {text}" for text in outcome_texts(record.get("strategy", {}))),
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        """Close the bar and leave it on the terminal."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
