"""Callbacks that a config may name: section times, layer statistics, Weights & Biases and MLflow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.logger import KVWriter

from mygym.registry.entries import resolve
from mygym.training import directory
from mygym.training.policy import weights
from mygym.training.run_callbacks import EvaluationCallback, RolloutCallback, find_callback


class SectionTimesCallback(RolloutCallback):
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

    def _on_rollout_end(self) -> None:
        self.end = time.perf_counter()

    def _on_training_end(self) -> None:
        del vars(self.env)["step_wait"]  # the method of the class is visible again


class LayerStatisticsCallback(RolloutCallback):
    """Logs root mean squares of the weights and gradients of each layer, and how much the weights have changed.

    `layers/NAME/weight`, `layers/NAME/gradient` (of the last gradient step; PyTorch only) and `layers/NAME/change`, the
    change since the last log relative to the weights before. NAME is the name of the tensor in `policy.safetensors`.

    Args:
        every: Rollouts between logs.
    """

    def __init__(self, every: int = 10) -> None:
        super().__init__()
        self.every = max(1, every)
        self.rollouts = 0
        self.last: dict[str, torch.Tensor] = {}
        """Weights at the last log."""

    def _on_rollout_start(self) -> None:
        if self.rollouts % self.every == 0:
            self._log()
        self.rollouts += 1

    def _log(self) -> None:
        policy = self.model.policy
        parameters = dict(policy.named_parameters()) if isinstance(policy, torch.nn.Module) else {}
        tensors = {name: tensor for name, tensor in weights(self.model).items() if tensor.is_floating_point()}
        for name, tensor in tensors.items():
            self.logger.record(f"layers/{name}/weight", root_mean_square(tensor))
            gradient = parameters[name].grad if name in parameters else None
            if gradient is not None:
                self.logger.record(f"layers/{name}/gradient", root_mean_square(gradient))
            if name in self.last:
                before = root_mean_square(self.last[name])
                change = root_mean_square(tensor - self.last[name])
                self.logger.record(f"layers/{name}/change", change / before if before else change)
        self.last = {name: tensor.detach().clone() for name, tensor in tensors.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the number of rollouts, and the weights at the last log."""
        return {"rollouts": self.rollouts, "last": self.last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        self.rollouts, self.last = state["rollouts"], dict(state["last"])


def root_mean_square(tensor: torch.Tensor) -> float:
    """Return the root mean square of the elements; 0 if it has none."""
    return float(tensor.square().mean().sqrt()) if tensor.numel() else 0.0


class TrackerCallback(RolloutCallback, KVWriter):
    """Base of trackers: a writer of SB3's logger that gets the same figures as `progress.jsonl`."""

    tracker_run: str | None = None
    """Identifier of the tracker's run; a resumed run continues it."""
    is_open = False

    def _on_training_start(self) -> None:
        if self not in self.logger.output_formats:  # a strategy may call `learn` several times
            self.logger.output_formats.append(self)

    def open(self, config: Mapping[str, Any]) -> None:
        """Begin the tracker's run, or continue it."""
        raise NotImplementedError

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Log figures at an env step."""
        raise NotImplementedError

    def close(self) -> None:
        """End the tracker's run, where a tracker has to; SB3's logger calls this after training."""

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Log the numbers among the values of SB3's logger."""
        numbers = {
            key: float(value)
            for key, value in key_values.items()
            if isinstance(value, int | float | np.number) and not isinstance(value, bool)
        }
        if numbers and not self.is_open:  # only now a resumed run has loaded its checkpoint
            self.path = Path(str(self.logger.dir))
            self.open(directory.saved_config(self.path))
            self.is_open = True
        if numbers:
            self.log(numbers, step)

    def state_dict(self) -> dict[str, Any]:
        """Return the identifier of the tracker's run."""
        return {"tracker_run": self.tracker_run}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the tracker's run of a checkpoint."""
        self.tracker_run = state["tracker_run"]


class WandbCallback(TrackerCallback):
    """Logs figures to Weights & Biases; offline by default.

    Args:
        project: Name of the project.
        entity: User or team; null: your default.
        mode: `offline` writes files for `wandb sync` into the run directory; `online` sends figures at once.
    """

    def __init__(self, project: str = "mygym", entity: str | None = None, mode: str = "offline") -> None:
        super().__init__()
        self.project, self.entity, self.mode = project, entity, mode
        self._init = resolve("wandb:init", "callback wandb")

    def open(self, config: Mapping[str, Any]) -> None:
        """Begin or continue a run of Weights & Biases in the run directory."""
        self._run = self._init(
            project=self.project,
            entity=self.entity,
            mode=self.mode,
            id=self.tracker_run,
            resume="allow",
            config=dict(config),
            dir=str(self.path),
            settings={"console": "off", "silent": True},
            name=f"{config['algo']} on {config['task']}, seed {config['seed']}",
        )
        self.tracker_run = self._run.id

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Log figures at an env step."""
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        """End the run of Weights & Biases."""
        if self.is_open:
            self._run.finish()


class MlflowCallback(TrackerCallback):
    """Logs figures to MLflow; into a local file by default.

    Args:
        experiment: Name of the experiment.
        tracking_uri: Server or folder; null: an SQLite file `mlflow.db` in the `logdir`.
    """

    def __init__(self, experiment: str = "mygym", tracking_uri: str | None = None) -> None:
        super().__init__()
        self.experiment, self.tracking_uri = experiment, tracking_uri
        self._connect = resolve("mlflow.tracking:MlflowClient", "callback mlflow")

    def open(self, config: Mapping[str, Any]) -> None:
        """Begin or continue a run of MLflow."""
        default = f"sqlite:///{(Path(config['logdir']) / 'mlflow.db').absolute()}"
        self._client = self._connect(tracking_uri=self.tracking_uri or default)
        known = self._client.get_experiment_by_name(self.experiment)
        experiment = known.experiment_id if known else self._client.create_experiment(self.experiment)
        if self.tracker_run is None:
            name = f"{config['algo']} on {config['task']}, seed {config['seed']}"
            self.tracker_run = self._client.create_run(experiment, run_name=name).info.run_id
            for key in ("robot", "task", "algo", "framework", "reward", "seed", "steps"):
                self._client.log_param(self.tracker_run, key, str(config[key]))

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Log figures at an env step."""
        for key, value in figures.items():
            self._client.log_metric(self.tracker_run, key, value, step=step)

    def close(self) -> None:
        """End the run of MLflow."""
        if self.is_open:
            self._client.set_terminated(self.tracker_run)
