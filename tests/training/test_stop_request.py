"""Stop requests, and processes of environments, on a system without the signals and calls of POSIX, such as Windows."""

from __future__ import annotations

import os
import runpy
import select
import signal
import subprocess
import sys
from multiprocessing import resource_tracker
from typing import Any

import gymnasium
import numpy as np
import pytest

from mygym.training import env_processes, stop_request


class _Ones(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Box(0, 1, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.ones(1, np.float32), {}


@pytest.fixture
def without_posix(monkeypatch: pytest.MonkeyPatch) -> Any:
    for module, names in {select: ["poll"], signal: ["SIGHUP", "pthread_sigmask"], os: ["setsid"]}.items():
        for name in names:
            monkeypatch.delattr(module, name, raising=False)
    monkeypatch.setattr(resource_tracker, "_HAVE_SIGMASK", False)  # of Python itself, on a system that has the call
    return monkeypatch


def test_processes_need_no_call_of_posix(without_posix: pytest.MonkeyPatch) -> None:
    env = env_processes.process_vec_env([_Ones])
    assert env.reset().tolist() == [[1.0]]
    without_posix.setattr(env_processes, "PATIENCE", 0.2)
    assert not env.env_processes[0].readable(0.01)
    env.env_processes[0].handle.kill()
    with pytest.raises(EOFError):
        env.env_processes[0].recv()
    env.close()


def test_signals_are_those_of_the_system(without_posix: pytest.MonkeyPatch) -> None:
    module = runpy.run_path(stop_request.__file__)
    assert module["SIGNALS"] == (signal.SIGINT, signal.SIGTERM)
    assert module["SEPARATE"] == {"creationflags": 0x200}
    without_posix.undo()
    assert stop_request.SIGNALS == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def test_a_request_is_a_signal_that_a_run_answers() -> None:
    code = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print(flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, **stop_request.SEPARATE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert os.getsid(process.pid) == process.pid
        stop_request.request_stop(process)
        assert process.wait() == 7
