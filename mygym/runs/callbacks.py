"""What happens during `model.learn`: evaluation, checkpoints, logs, a progress bar, early stop, divergence."""

from __future__ import annotations

import copy
import json
import math
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter

from mygym.errors import DivergedError
from mygym.runs.directory import CHECKPOINTS, write_folder
from mygym.runs.evaluation import Evaluation


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


class EvaluationCallback(BaseCallback):
    """Evaluates at step 0 and at every mark, keeps the best model, and stops when two in a row are good enough.

    Args:
        evaluate: Evaluates the policy as it is; the argument is the number of the evaluation, which decides its seeds.
        every: Env steps between marks.
        stop_at_success: Success rate that ends training when two evaluations in a row reach it; None never does.
        on_best: Called when an evaluation is the best so far.
        report: Called with each record of the result's `evaluations`.
    """

    def __init__(
        self,
        evaluate: Callable[[int], Evaluation],
        every: int,
        stop_at_success: float | None,
        on_best: Callable[[], None],
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        super().__init__()
        self.evaluate = evaluate
        self.marks = Marks(every)
        self.stop_at_success = stop_at_success
        self.on_best = on_best
        self.report = report
        self.records: list[dict[str, Any]] = []
        self.best: tuple[float, float] = (-math.inf, -math.inf)
        self.seconds = 0.0
        """Spent in evaluations."""
        self.started = time.perf_counter()

    def _on_training_start(self) -> None:
        self._on_step()

    def _on_step(self) -> bool:
        if not self.marks.passed(self.num_timesteps):
            return True
        begin = time.perf_counter()
        evaluation = self.evaluate(len(self.records))
        now = time.perf_counter()
        self.seconds += now - begin
        record = {"steps": self.num_timesteps, "wall_time_s": now - self.started, **evaluation.summary()}
        self.records.append(record)
        for key, value in evaluation.summary().items():
            self.logger.record(f"eval/{key}", value)
        self.logger.dump(self.num_timesteps)
        self.report(record)
        score = (evaluation.success_rate, evaluation.mean_return)
        if score > self.best:
            self.best = score
            self.on_best()
        last = [entry["success_rate"] for entry in self.records[-2:]]
        good = self.stop_at_success is not None and len(last) == 2 and min(last) >= self.stop_at_success
        return not good

    def state_dict(self) -> dict[str, Any]:
        """Marks, records, best so far."""
        return {
            "next": self.marks.next,
            "records": copy.deepcopy(self.records),
            "best": self.best,
            "seconds": self.seconds,
            "elapsed": time.perf_counter() - self.started,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.marks.next = state["next"]
        self.records = copy.deepcopy(state["records"])
        self.best = tuple(state["best"])
        self.seconds = state["seconds"]
        self.started = time.perf_counter() - state["elapsed"]


class CheckpointCallback(BaseCallback):
    """Writes `checkpoints/step_N/` at every mark and keeps the newest."""

    def __init__(self, run: Path, every: int, keep: int, save: Callable[[Path], None]) -> None:
        super().__init__()
        self.folder = run / CHECKPOINTS
        self.keep = keep
        self.marks = Marks(every, first=every)
        self.save = save

    def _on_step(self) -> bool:
        if self.marks.passed(self.num_timesteps):
            self.write()
        return True

    def write(self) -> Path:
        """Write a checkpoint of now."""
        path = self.folder / f"step_{self.num_timesteps:010d}"
        write_folder(path, self.save)
        for old in sorted(self.folder.glob("step_*"))[: -self.keep]:
            shutil.rmtree(old)
        return path

    def state_dict(self) -> dict[str, Any]:
        """The next mark."""
        return {"next": self.marks.next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.marks.next = state["next"]


class DivergenceCallback(BaseCallback):
    """Raises `DivergedError` when a logged loss or a weight is not finite, and keeps the last good weights."""

    EVERY = 200
    """Calls between looks at the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.good: dict[str, torch.Tensor] = {}

    def _on_training_start(self) -> None:
        self._look_at_weights()

    def _on_rollout_start(self) -> None:
        self._look_at_losses()  # on-policy algorithms have just trained, off-policy ones trained since the last call

    def _on_step(self) -> bool:
        if self.n_calls % self.EVERY == 0:
            self._look_at_losses()
            self._look_at_weights()
        return True

    def _on_training_end(self) -> None:
        self._look_at_losses()
        self._look_at_weights()

    def is_finite(self) -> bool:
        """Whether every weight is finite."""
        if getattr(self, "model", None) is None:  # learning has not begun
            return True
        return all(bool(torch.isfinite(value).all()) for value in self.model.policy.state_dict().values())

    def restore(self) -> None:
        """Put the last good weights back."""
        self.model.policy.load_state_dict(self.good)

    def _look_at_losses(self) -> None:
        for key, value in self.logger.name_to_value.items():
            if key.startswith("train/") and isinstance(value, float | np.floating) and not math.isfinite(value):
                raise DivergedError(f"{key} is {value} after {self.num_timesteps} steps")

    def _look_at_weights(self) -> None:
        if not self.is_finite():
            raise DivergedError(f"a weight is not finite after {self.num_timesteps} steps")
        self.good = {key: value.detach().clone() for key, value in self.model.policy.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """Nothing that training depends on."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""


class ProgressBarCallback(BaseCallback):
    """A bar with steps per second, success rate and time left on a terminal; one line for each evaluation elsewhere."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.total = total
        self.bar: Any = None

    def _on_training_start(self) -> None:
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=self.total, unit="step", dynamic_ncols=True, leave=True)

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
        print(
            f"{record['steps']:>9,} steps  {record['wall_time_s']:7.1f} s  success {record['success_rate']:6.1%}  "
            f"return {record['mean_return']:8.2f}  distance {100 * record['mean_distance']:5.1f} cm",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        """Leave the bar as it is."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the bar follows the model's step counter."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""


class JsonLines(KVWriter):
    """SB3 log writer: one JSON object a line, whole lines only."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", encoding="utf-8")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        """Append the values of one dump."""
        numbers = {key: _plain(value) for key, value in sorted(key_values.items()) if not isinstance(value, str)}
        self.file.write(json.dumps({"steps": step, **numbers}) + "\n")
        self.file.flush()

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _plain(value: Any) -> float | int | None:
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool | int):
        return int(number)
    return float(number) if isinstance(number, float) and math.isfinite(number) else None
