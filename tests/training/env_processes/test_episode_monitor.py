"""Figures of the episodes that end in a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecMonitor

from mygym.envs.batch_vec_env import BatchVecEnv
from mygym.training.env_factory import MONITORED
from mygym.training.logs import EpisodesCsv
from mygym.training.vec_wrappers import EpisodeMonitor

COUNT, HORIZON = 6, 4


def monitored(cls: type[VecMonitor]) -> VecMonitor:
    env = cls(BatchVecEnv({"task": "reach", "task_params": {"horizon": HORIZON}}, COUNT), info_keywords=MONITORED)
    env.seed(0)
    env.reset()
    return env


def plain(value: Any) -> Any:
    """Return infos as lists and dictionaries of numbers, without the times of the episodes."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items() if key != "t"}
    return [plain(entry) for entry in value] if isinstance(value, list) else np.asarray(value).tolist()


def test_the_infos_are_those_of_vec_monitor() -> None:
    monitors = monitored(EpisodeMonitor), monitored(VecMonitor)
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(3 * HORIZON):
        actions = rng.uniform(-1, 1, (COUNT, *monitors[0].action_space.shape)).astype(np.float32)
        (_, rewards, dones, infos), (_, other_rewards, _, other_infos) = (env.step(actions) for env in monitors)
        np.testing.assert_array_equal(rewards, other_rewards)
        assert plain(infos) == plain(other_infos)
        ends += int(dones.sum())
    assert ends >= 2 * COUNT
    assert monitors[0].episode_count == monitors[1].episode_count == ends


def test_the_rows_of_a_step_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "monitor.csv"
    env: Any = monitored(EpisodeMonitor)
    env.results_writer = EpisodesCsv(path, MONITORED, started=env.t_start)
    lengths = [path.stat().st_size]
    write = env.results_writer.file.write
    monkeypatch.setattr(env.results_writer.file, "write", lambda lines: (write(lines), lengths.append(len(lines))))
    actions = np.zeros((COUNT, *env.action_space.shape), np.float32)
    returns: list[float] = []
    for _ in range(HORIZON):
        infos = env.step(actions)[-1]
        returns += [info["episode"]["r"] for info in infos if "episode" in info]
    env.close()
    rows = path.read_text().splitlines()[2:]
    assert len(rows) == len(returns) == COUNT
    assert [float(row.split(",")[0]) for row in rows] == pytest.approx(returns)
    assert len(lengths) == 2  # all episodes end at the horizon
    assert sum(lengths) == path.stat().st_size
