"""Callbacks that log the figures of a run to Weights & Biases or MLflow (extras `wandb` and `mlflow`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter

from mygym.config import load_file
from mygym.registry.entries import resolve
from mygym.runs import directory


class TrackerCallback(BaseCallback, KVWriter):
    """Base of trackers: a writer of SB3's logger that gets the same figures as `progress.jsonl`."""

    tracker_run: str | None = None
    """Identifier of the tracker's run; a resumed run continues it."""
    is_open = False

    def _on_training_start(self) -> None:
        self.logger.output_formats.append(self)

    def _on_step(self) -> bool:
        return True

    def open(self, config: Mapping[str, Any]) -> None:
        """Begin the tracker's run, or continue it.

        Args:
            config: The complete config.
        """
        raise NotImplementedError

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Log figures at an env step."""
        raise NotImplementedError

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Log the numbers among the values of SB3's logger."""
        numbers = {
            key: float(value)
            for key, value in key_values.items()
            if isinstance(value, int | float | np.number) and not isinstance(value, bool)
        }
        if numbers and not self.is_open:  # only now a resumed run has loaded its checkpoint
            self.path = Path(str(self.logger.dir))
            self.open(load_file(self.path / directory.CONFIG))
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
