"""An executor whose runs end at once, with results that follow from their configs, so that tests need no training."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import yaml

from mygym.cli import train
from mygym.sweeps.executors import Job
from mygym.training import directory, files
from mygym.training.result import Result

EVALUATIONS = 6
SETTING = ("reach", "panda", "ppo", "12345678")


class TrainingExecutor:
    """Trains each run in this process, and dies instead of a run."""

    jobs = 1

    def __init__(self, dies_at: int = -1) -> None:
        self.dies_at = dies_at
        self.started: list[tuple[str, ...]] = []

    def limit(self, memory: int) -> None:
        assert memory > 100e6

    def submit(self, job: Job) -> int:
        if len(self.started) == self.dies_at:
            raise KeyboardInterrupt
        self.started.append(job.words())
        with job.log.open("a", encoding="utf-8") as log, contextlib.redirect_stderr(log):
            train.train(self.started[-1])
        return 0

    def poll(self, handle: int) -> int:
        return handle

    def stop(self, handle: int) -> None:
        raise AssertionError


class InstantExecutor:
    """Executes a part of a run at each `poll`: an evaluation, at the end the result.

    A learning rate of 1e-3 is the best. A rate above 0.05 diverges; three epochs fail.
    """

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs
        self.started: list[tuple[str, ...]] = []
        self.stopped = 0
        self.most = 0
        """Largest number of runs at the same time."""
        self.running = 0

    def limit(self, memory: int) -> None:
        assert memory > 100e6

    def submit(self, job: Job) -> dict[str, Any]:
        words = job.words()
        self.started.append(words)
        self.running += 1
        self.most = max(self.most, self.running)
        if words[0] == "--resume":
            run = Path(words[1])
        else:
            _, config, _, seed, _, logdir, *_ = words
            run = Path(logdir, *SETTING, f"seed_{seed}")
            run.mkdir(parents=True)  # a second start of a run would fail here
            content = {"steps": 60, **yaml.safe_load(Path(config).read_text()), "seed": int(seed)}
            (run / directory.CONFIG).write_text(yaml.safe_dump(content))
        values = yaml.safe_load((run / directory.CONFIG).read_text())
        log = run / directory.PROGRESS
        marks = len(log.read_text().splitlines()) if log.exists() else 0
        target = marks + 3 if "--steps" in words and marks >= EVALUATIONS else EVALUATIONS
        if "--steps" in words:
            values["steps"] = int(words[words.index("--steps") + 1])
            (run / directory.CONFIG).write_text(yaml.safe_dump(values))
        return {"run": run, "config": values, "job": job, "stop": False, "code": None, "target": target}

    def poll(self, handle: Any) -> int | None:
        if handle["code"] is None:
            handle["code"] = self._advance(handle)
            self.running -= handle["code"] is not None
        return handle["code"]

    def stop(self, handle: Any) -> None:
        self.stopped += 1
        handle["stop"] = True

    def _advance(self, handle: Any) -> int | None:
        run, params, seed = handle["run"], handle["config"].get("algo_params", {}), handle["config"]["seed"]
        if params.get("n_epochs") == 3:
            handle["job"].log.write_text("note: begins\nerror: three epochs fail\n")
            return 1
        if handle["stop"]:
            return self._end(run, "interrupted", 0.0, 130)
        rate = params.get("learning_rate", 1e-3)
        if rate > 0.05:
            return self._end(run, "diverged", 0.0, 1)
        success = 1 / (1 + abs(math.log10(rate) + 3)) - 0.01 * seed
        log = run / directory.PROGRESS
        lines = log.read_text().splitlines() if log.exists() else []
        if len(lines) == handle["target"]:
            return self._end(run, "done", success + 0.01 * (len(lines) - EVALUATIONS), 0)
        mark = len(lines)
        line = {"steps": 10 * mark, "time/wall_time_s": float(mark), "eval/success_rate": success * mark / 5}
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return None

    def _end(self, run: Path, status: str, success: float, code: int) -> int:
        lines = (run / directory.PROGRESS).read_text().splitlines() if (run / directory.PROGRESS).exists() else []
        entries = map(json.loads, lines)
        evaluations = [
            {"steps": e["steps"], "wall_time_s": e["time/wall_time_s"], "success_rate": e["eval/success_rate"]}
            for e in entries
        ]
        names = {"algo": "ppo", "framework": "pytorch", "robot": "panda", "task": "reach", "workspace": "table"}
        done = {"success_rate": success, "mean_return": success - 1, "stage_reached": {"done": 10}}
        figures = {"steps": 50, "wall_time_s": 5.0, "evaluations": evaluations, **(done if status == "done" else {})}
        seed = int(run.name.removeprefix("seed_"))
        result = Result(run, **names, engine="pybullet", seed=seed, config_hash="1", status=status, **figures)
        files.write_json(run / directory.RESULT, result.to_json())
        return code
