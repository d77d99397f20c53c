"""A service and a client of its API behind the guard, in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="the extra dashboard is not installed")

from fastapi import FastAPI, WebSocket
from starlette.testclient import TestClient

from mygym.dashboard import helper
from mygym.dashboard.api import add_api
from mygym.dashboard.guard import Guard
from mygym.dashboard.service import Service

TOKEN = "a-token-of-the-tests"
ADDRESS = "http://127.0.0.1:8080"
BEARER = {"Authorization": f"Bearer {TOKEN}"}

PROCESS = """
import json, os, pathlib, signal, sys, time
from filelock import FileLock
words = sys.argv[1:]
if words[0] == "evaluate":
    print(json.dumps({"success_rate": 0.5, "words": words}))
    sys.exit()
if "--resume" in words:
    run = pathlib.Path(words[words.index("--resume") + 1])
else:
    run = pathlib.Path(words[words.index("--config") + 1]).parent.parent / "reach/panda/sac/0123abcd/seed_0"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("{algo: sac, task: reach, steps: 1000}")
lock = FileLock(run / ".lock")
lock.acquire()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
for step in range(600):
    with (run / "progress.jsonl").open("a") as log:
        log.write(json.dumps({"steps": step}) + "\\n")
    time.sleep(0.05)
"""
"""A program that locks and writes a run as a training does, and that starts and ends at once."""


@pytest.fixture
def program(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "program.py"
    file.write_text(PROCESS)
    return sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; exec(open({str(file)!r}).read())"


@pytest.fixture
def service(tmp_path: Path, program: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(helper, "ProcessPoolExecutor", lambda count, *_, **__: ThreadPoolExecutor(count))
    logdir = tmp_path / "runs"
    logdir.mkdir()
    service = Service(logdir, slots=2, program=program)
    yield service
    for job in service.jobs.queue.in_state("queued", "started"):
        service.jobs.stop(job)
    service.close()


@pytest.fixture
def guard(service: Service) -> Guard:
    app = FastAPI(docs_url=None, redoc_url=None)
    add_api(app, service)

    @app.websocket("/ws")
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(text)

    return Guard(app, TOKEN, port=8080)


@pytest.fixture
def client(guard: Guard) -> Any:
    return TestClient(guard, base_url=ADDRESS, headers=BEARER, follow_redirects=False)


@pytest.fixture
def stranger(guard: Guard) -> Any:
    return TestClient(guard, base_url=ADDRESS, follow_redirects=False)
