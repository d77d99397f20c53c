"""The local executor: processes, their output, stops, and the remains of a killed sweep."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from mygym.engines.arrays import cores
from mygym.errors import ConfigError
from mygym.sweeps import executors
from mygym.sweeps.executors import Job, LocalExecutor, stop_left_over

SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
print("threads", os.environ["OMP_NUM_THREADS"], flush=True)
if sys.argv[-1] == "wait":
    time.sleep(60)
sys.exit(sys.argv[-1] == "fail")
"""


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalExecutor:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (tmp_path / "script.py").write_text(SCRIPT)
    return LocalExecutor(program=[sys.executable, str(tmp_path / "script.py"), "train"])


def code(executor: LocalExecutor, handle: Any) -> int:
    while (ended := executor.poll(handle)) is None:
        time.sleep(0.01)
    return ended


def wait_for(log: Path) -> None:
    while not log.exists() or not log.read_text():
        time.sleep(0.01)


def test_a_process_for_each_job(executor: LocalExecutor, tmp_path: Path) -> None:
    assert executor.jobs == cores() >= 1
    logs = [tmp_path / f"{word}.log" for word in ("pass", "fail")]
    handles = [executor.submit(Job(lambda word=log.stem: (word,), log)) for log in logs]
    assert [code(executor, handle) for handle in handles] == [0, 1]
    assert [log.read_text() for log in logs] == ["threads 1\n"] * 2
    assert code(executor, executor.submit(Job(lambda: ("pass",), logs[0]))) == 0
    assert logs[0].read_text() == "threads 1\n" * 2


def test_a_stopped_process_ends_by_its_handler(executor: LocalExecutor, tmp_path: Path) -> None:
    handle = executor.submit(Job(lambda: ("wait",), tmp_path / "log"))
    wait_for(tmp_path / "log")
    assert executor.poll(handle) is None
    executor.stop(handle)
    assert code(executor, handle) == 130


def test_the_runs_of_a_killed_sweep_stop_and_no_other_process(executor: LocalExecutor, tmp_path: Path) -> None:
    logs = [tmp_path / "in/log", tmp_path / "log"]
    logs[0].parent.mkdir()
    inside, outside = (executor.submit(Job(lambda: ("wait",), log)) for log in logs)
    for log in logs:
        wait_for(log)
    stop_left_over(tmp_path / "in")
    assert executor.poll(inside) is not None
    assert executor.poll(outside) is None
    executor.stop(outside)
    assert code(executor, outside) == 130


def test_jobs_are_limited_by_the_memory() -> None:
    executor, free = LocalExecutor(), psutil.virtual_memory().available
    executor.limit(int(free * 0.7))
    assert executor.jobs == 1
    chosen = LocalExecutor(3)
    with pytest.raises(ConfigError, match=r"--jobs: 3 needs .* GB of memory, of which .* are free; allowed: at most 1"):
        chosen.limit(int(free * 0.7))
    chosen.limit(1)
    assert chosen.jobs == 3
    with pytest.raises(ConfigError, match=r"--jobs: 1 needs .* allowed: a machine with"):
        LocalExecutor().limit(free * 2)


def test_a_run_that_the_user_continues_is_awaited(executor: LocalExecutor, tmp_path: Path) -> None:
    looks = iter([True, True, False])
    ended: list[int] = []
    job = Job(lambda: ("pass",), tmp_path / "log", busy=lambda: next(looks))
    executors.execute(executor, [job], ended.append, "again")
    assert ended == [0]
    assert next(looks, None) is None
