"""Run directories with given results, as trainings leave them, without the training."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from mygym.reporting.curves import LOGGED
from mygym.training import directory, files
from mygym.training.result import Result

EPISODES = 100


def make_run(
    logdir: Path,
    success: float | None = 1.0,
    seed: int = 0,
    status: str = "done",
    loss: float | None = None,
    **config: Any,
) -> Path:
    """Write a run directory that learned at a steady rate; return its path.

    Args:
        logdir: Folder of all runs.
        success: Success rate of the saved policy.
        seed: Seed of the run.
        status: Status of the result; empty for a run without a result.
        loss: Value at all marks of a figure `test_loss` of `Loop.record`; half of it between the marks of SB3's
            `train/loss`. The training episodes then have half of the success. None: not recorded.
        **config: Values of the config, e.g. `algo="ppo"`.
    """
    values: dict[str, Any] = {"task": "reach", "robot": "panda", "algo": "sac", "reward": "sparse"}
    values |= {"algo_params": {"gamma": 0.95}, **config}
    setting = f"{zlib.crc32(json.dumps(values).encode()):08x}"
    run = directory.create(str(logdir), values["task"], values["robot"], values["algo"], setting, seed)
    files.write_yaml(run / directory.CONFIG, {**values, "seed": seed})
    evaluations: list[dict[str, Any]] = [
        {
            "steps": 1000 * mark,
            "wall_time_s": float(mark),
            "success_rate": (rate := (success or 0.0) * mark / 10),
            "mean_return": -10.0 * (1 - rate),
            "stage_reached": {"approach": 10 - (solved := round(10 * rate)), "done": solved},
        }
        for mark in range(11)
    ]
    logged: dict[str, float] = {}
    if loss is not None:
        for evaluation in evaluations:
            evaluation |= {"train_success_rate": evaluation["success_rate"] / 2, "figures": {"test_loss": loss}}
        logged = {"figures/test_loss": loss}
    lines = [
        {**logged, **{key: evaluation[name] for name, key in LOGGED.items() if name in evaluation}}
        for evaluation in evaluations
    ]
    if loss is not None:
        lines += [{"steps": line["steps"] + 500, "train/loss": loss / 2, "time/time_elapsed": 3} for line in lines]
    files.write_text(run / directory.PROGRESS, "".join(json.dumps(line) + "\n" for line in lines))
    if status:
        solved = round((success or 0.0) * EPISODES)
        Result(
            path=run,
            algo=values["algo"],
            framework="pytorch",
            robot=values["robot"],
            task=values["task"],
            workspace="table",
            engine="pybullet",
            seed=seed,
            config_hash=setting,
            status=status,
            steps=10_000,
            success_rate=success,
            mean_return=-10.0 * (1 - (success or 0.0)),
            wall_time_s=10.0,
            evaluations=evaluations,
            stage_reached={"approach": EPISODES - solved, "done": solved},
        ).write()
    return run
