"""The executor on Slurm, with a stand-in for the commands of Slurm."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mygym.errors import ConfigError
from mygym.sweeps.executors import Job, LocalExecutor, SlurmExecutor
from mygym.sweeps.run import new_sweep
from tests.sweeps import slurm

pytest.importorskip("submitit", reason="needs submitit (the extra `cluster`)")

SCRIPT = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
print("begins", flush=True)
*_, word = sys.argv
time.sleep(60 if word == "wait" else 0)
sys.exit(word == "fail")
"""


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmExecutor]:
    (tmp_path / "script.py").write_text(SCRIPT)
    with slurm.cluster(tmp_path, monkeypatch.setenv):
        yield SlurmExecutor(3, {"slurm_partition": "cpu"}, (sys.executable, str(tmp_path / "script.py")))


def code(executor: SlurmExecutor, handle: Any) -> int:
    deadline = time.monotonic() + 120
    while (ended := executor.poll(handle)) is None:
        handle.queued.watcher.update()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return ended


def wait_for(log: Path, count: int = 1) -> None:
    while not log.exists() or log.read_text().count("begins") < count:
        time.sleep(0.05)


def test_a_job_for_each_run(executor: SlurmExecutor, tmp_path: Path) -> None:
    jobs = [Job(lambda word=word: (word,), tmp_path / f"{word}.log", 1_500_000_000) for word in ("pass", "fail")]
    handles = [executor.submit(job) for job in jobs]
    assert [code(executor, handle) for handle in handles] == [0, 1]
    assert (tmp_path / "pass.log").read_text() == "begins\n"
    script = next((tmp_path / "pass.slurm").glob("*.sh"))
    for flag in ("--partition=cpu", "--mem=2GB", "--time=1440", "--cpus-per-task=1"):
        assert f"#SBATCH {flag}\n" in script.read_text()


def test_a_stopped_job_ends_by_the_handler_of_its_run(executor: SlurmExecutor, tmp_path: Path) -> None:
    job = Job(lambda: ("wait",), tmp_path / "wait.log", 1)
    handle = executor.submit(job)
    wait_for(job.log)
    assert executor.poll(handle) is None
    executor.stop(handle)
    assert code(executor, handle) == 130


def test_a_job_whose_node_is_lost_is_queued_again(executor: SlurmExecutor, tmp_path: Path) -> None:
    job = Job(lambda: ("pass" if (tmp_path / "wait.log").read_text() else "wait",), tmp_path / "wait.log", 1)
    handle = executor.submit(job)
    wait_for(job.log)
    number = handle.queued.job_id
    os.killpg(int((tmp_path / f"jobs/{number}.group").read_text()), signal.SIGKILL)
    (tmp_path / f"jobs/{number}.state").write_text("NODE_FAIL")
    assert code(executor, handle) == 0
    assert (handle.repeated, job.log.read_text()) == (1, "begins\n" * 2)


def test_what_a_killed_sweep_has_left_in_the_queue_is_cancelled(executor: SlurmExecutor, tmp_path: Path) -> None:
    job = Job(lambda: ("wait",), tmp_path / "wait.log", 1)
    left = executor.submit(job)
    wait_for(job.log)
    again = executor.submit(job)
    assert code(executor, left) == 130
    wait_for(job.log, 2)
    executor.stop(again)
    assert code(executor, again) == 130


@pytest.mark.slow
def test_a_sweep_on_slurm_has_the_trials_of_a_local_sweep(executor: SlurmExecutor, tmp_path: Path) -> None:
    space = {"algo_params": {"n_steps": 32, "learning_rate": {"grid": [1e-3, 1e-2]}}}
    file = {"algo": "ppo", "steps": 128, "n_envs": 2, "eval": {"episodes": 1, "final_episodes": 2}, **space}
    on_slurm, here = (
        new_sweep(tmp_path / name, {**file, "sweep": {"objective": {"maximize": "mean_return"}}}, {}, each, print)
        for name, each in (("slurm", SlurmExecutor(2)), ("local", LocalExecutor(2)))
    )
    weights = [
        [path.read_bytes() for path in sorted(report.folder.glob("trials/*/*/*/*/*/*/policy.safetensors"))]
        for report in (on_slurm, here)
    ]
    assert weights[0] == weights[1] != []
    assert [(row["trial"], row["score"]) for row in on_slurm.rows] == [
        (row["trial"], row["score"]) for row in here.rows
    ]


def test_bad_input(executor: SlurmExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"--resource: \{'slurm_partitio': 'cpu'\} is refused by submitit"):
        SlurmExecutor(resources={"slurm_partitio": "cpu"})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="--executor: 'slurm' needs the commands of Slurm"):
        SlurmExecutor()
