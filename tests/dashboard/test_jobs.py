"""Jobs: order, slots, stop and resume; processes outlive the server, which finds them again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mygym.config import RunConfig
from mygym.dashboard.jobs import CANCELLED, ENDED, QUEUED, STARTED, Jobs, cores_of, holder
from mygym.dashboard.service import Service
from mygym.errors import ConfigError
from mygym.reporting.records import find_runs


def wait(jobs: Jobs, condition: Callable[[], bool]) -> None:
    for _ in range(600):
        jobs.tick()
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("nothing happened in 12 s")


def test_a_training_survives_the_server_and_resumes(service: Service, program: tuple[str, ...]) -> None:
    jobs = service.jobs
    job = jobs.train({"algo": "sac"}, RunConfig(algo="sac"))
    wait(jobs, lambda: jobs.queue.get(job.id).run is not None)
    run = Path(str(jobs.queue.get(job.id).run))
    assert find_runs(service.logdir)[0].status == "running"
    process = holder(run)
    assert process is not None
    assert process.pid == jobs.queue.get(job.id).pid

    again = Jobs(service.logdir, 2, program)  # a server after `kill -9`: it has no child
    again.tick()
    assert again.queue.get(job.id).state == STARTED
    assert process.is_running()
    with pytest.raises(ConfigError, match=r"^resume: 'seed_0'"):
        again.resume(run)
    again.stop_run(run)
    wait(again, lambda: again.queue.get(job.id).state == ENDED)
    wait(jobs, lambda: holder(run) is None)
    with pytest.raises(ConfigError, match="is not running"):
        again.stop_run(run)

    rest = again.resume(run, steps=2000)
    assert rest.words == ("--resume", str(run), "--steps", "2000")
    wait(again, lambda: holder(run) is not None)
    again.stop(again.queue.get(rest.id))
    wait(again, lambda: again.queue.get(rest.id).code == 130)
    again.close()


def test_priorities_and_slots(service: Service) -> None:
    jobs = service.jobs
    jobs.slots = 1
    low, high = jobs.evaluate(Path("a"), 1, priority=-1), jobs.evaluate(Path("b"), 1, priority=5)
    jobs.tick()
    assert jobs.queue.get(high.id).state == STARTED
    assert jobs.queue.get(low.id).state == QUEUED
    wait(jobs, lambda: jobs.queue.get(low.id).state == ENDED)
    assert '"success_rate": 0.5' in jobs.log(jobs.queue.get(high.id))
    waiting = jobs.evaluate(Path("c"), 1)
    jobs.stop(waiting)
    jobs.tick()
    assert jobs.queue.get(waiting.id).state == CANCELLED


def test_a_process_that_ends_while_the_server_looks_has_its_exit_code(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = service.jobs
    job = jobs.evaluate(Path("a"), 1)
    jobs.tick()
    child = jobs._children[job.id]
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(child, "poll", lambda: None)
    jobs.tick()
    assert (jobs.queue.get(job.id).state, jobs.queue.get(job.id).code) == (ENDED, 0)


def test_the_result_of_a_long_evaluation_is_whole(service: Service) -> None:
    jobs = service.jobs
    job = jobs.evaluate(service.logdir / "a", 1000)
    content = {"success_rate": 0.5, "episodes": [{"seed": seed, "success": True} for seed in range(1000)]}
    (service.logdir / "dashboard").mkdir(exist_ok=True)
    jobs._log(job).write_text(f"note: a note\n{json.dumps(content, indent=2)}\n")
    assert jobs.result(job) is None
    jobs.queue.change(job.id, state=ENDED, code=0)
    shown = jobs.as_json(jobs.queue.get(job.id))
    assert shown["result"] == content
    assert len(shown["log"]) == 4000


@pytest.mark.parametrize("state", [QUEUED, STARTED])
def test_a_run_that_is_about_to_resume_is_not_resumed_again(state: str, service: Service) -> None:
    run = service.logdir / "reach" / "panda" / "sac" / "12345678" / "seed_0"
    job = service.jobs.resume(run)
    service.jobs.queue.change(job.id, state=state)  # its process has no lock yet
    with pytest.raises(ConfigError, match=r"^resume: 'seed_0'"):
        service.jobs.resume(run)


def test_cores_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mygym.dashboard.jobs.cores", lambda: 8)
    assert cores_of(RunConfig(n_envs=4)) == 1
    assert cores_of(RunConfig(n_envs=2, env_processes=True)) == 2
    assert cores_of(RunConfig(n_envs=8, env_processes=1, overlap=True)) == 2
    assert cores_of(RunConfig(env_processes=1, overlap=True, threads=2)) == 3
    assert cores_of(RunConfig(n_envs=512, env_processes="auto", overlap=True)) == 8
    assert cores_of(RunConfig(n_envs=4, learners=2, env_processes="auto")) == 2
    assert cores_of(RunConfig(n_envs=512, engine="fused", env_processes="auto")) == 1
