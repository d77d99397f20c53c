"""Learners on several machines: the result of the same number on one machine; lost machines; wrong numbers."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import AuthenticationError
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import yaml

import mygym
from mygym.cli.main import main
from mygym.errors import ConfigError
from mygym.training import hosts
from mygym.training.result import Result
from tests.conftest import ROOT

CONFIG: dict[str, Any] = {
    "task": "reach",
    "algo": "ppo",
    "steps": 128,
    "n_envs": 4,
    "task_params": {"horizon": 10},
    "algo_params": {"n_steps": 16, "batch_size": 32, "policy_kwargs": {"net_arch": [16]}},
    "eval": {"every": 64, "episodes": 2, "final_episodes": 4},
    "checkpoint": {"every": 64},
    "video": {"episodes": 0},
    "tensorboard": False,
}
PROGRAM = [sys.executable, "-m", "mygym", "train", "--config", "config.yaml"]
PORT = 29_471


def torchrun_variables(rank: int, port: int) -> dict[str, str]:
    """What `torchrun` sets for a process of two; its store is in the process of rank 0."""
    names = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, hosts.STARTED: "none"}
    return {name: str(value) for name, value in names.items()}


def weights(result: Result) -> bytes:
    return (result.path / "policy.safetensors").read_bytes()


def only_run(logdir: Path) -> Path:
    (path,) = logdir.glob("*/*/*/*/seed_0")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a config; no process of another test has the store."""
    monkeypatch.chdir(tmp_path)
    hosts._store.cache_clear()
    monkeypatch.setattr(hosts, "_trainings", 0)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    return tmp_path


def test_two_machines_train_what_two_processes_train(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = mygym.train({**CONFIG, "learners": 2, "logdir": "pipes"})
    port = PORT + os.getpid() % 1000
    environment = {**os.environ, **torchrun_variables(1, port), "PYTHONPATH": str(ROOT)}
    with (folder / "other.log").open("w") as log:
        other = subprocess.Popen([*PROGRAM, "--logdir", "hosts"], env=environment, stdout=log, stderr=log)
    for name, value in torchrun_variables(0, port).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main([*PROGRAM[3:], "--logdir", "hosts"])
    assert ended.value.code == 0
    assert other.wait(60) == 0, (folder / "other.log").read_text()
    run = only_run(folder / "hosts")
    assert yaml.safe_load((run / "config.yaml").read_text())["learners"] == 2
    assert (run / "policy.safetensors").read_bytes() == weights(alone)


@pytest.mark.parametrize(
    ("words", "parts"),
    [(["--learners", "4"], ["learners", "4", "2 processes"]), (["--seeds", "2"], ["--seeds", "torchrun"])],
)
def test_another_number_is_refused(
    words: list[str],
    parts: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in torchrun_variables(0, PORT).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(hosts, "_store", Mock)  # nobody else listens
    with pytest.raises(SystemExit) as ended:
        main([*PROGRAM[3:], *words])
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert all(part in error for part in parts), error


def test_a_script_that_trains_in_each_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in torchrun_variables(1, PORT).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"torchrun: .*train\.py"):
        mygym.train({**CONFIG, "learners": 2})


def test_strangers_do_not_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is silent, one does not know the secret; the learner comes after them."""
    store = dict[str, bytes]()
    monkeypatch.setattr(hosts, "_store", lambda: Mock(set=store.__setitem__))
    monkeypatch.setattr(hosts, "_trainings", 0)
    monkeypatch.setattr(hosts, "ANSWER", 1)
    for name, value in torchrun_variables(0, PORT).items():
        monkeypatch.setenv(name, value)
    with ThreadPoolExecutor() as pool:
        accepting = pool.submit(hosts.accept, [("config", 1)])
        while "mygym/0" not in store:
            time.sleep(0.01)
        address, port, secret = pickle.loads(store["mygym/0"])
        silent = socket.create_connection((address, port))
        with pytest.raises((EOFError, OSError, AuthenticationError)):
            hosts._connect(address, port, b"wrong", 1, hosts.COMMANDS).recv_bytes()
        connections = [hosts._connect(address, port, secret, 1, name) for name in (hosts.COMMANDS, hosts.EXCHANGES)]
        assert pickle.loads(connections[0].recv_bytes()) == ("config", 1)
        ((rank, (_, *mine)),) = accepting.result()
    assert rank == 1
    for connection in (silent, *connections, *mine):
        connection.close()


class Machines:
    """Network namespaces with an address each, joined by a bridge."""

    def __init__(self, count: int) -> None:
        self.names = [f"mygym{os.getpid()}_{index}" for index in range(count)]
        self.bridge = f"br{os.getpid()}"
        self._ip("link", "add", self.bridge, "type", "bridge")
        self._ip("link", "set", self.bridge, "up")
        for index, name in enumerate(self.names):
            self._ip("netns", "add", name)
            self._ip("link", "add", self.link(index), "type", "veth", "peer", "name", "eth0", "netns", name)
            self._ip("link", "set", self.link(index), "master", self.bridge, "up")
            self._ip("-n", name, "addr", "add", f"{self.address(index)}/24", "dev", "eth0")
            self._ip("-n", name, "link", "set", "eth0", "up")
            self._ip("-n", name, "link", "set", "lo", "up")

    @staticmethod
    def address(index: int) -> str:
        return f"10.98.76.{index + 1}"

    def link(self, index: int) -> str:
        return f"v{os.getpid()}_{index}"

    def start(self, index: int, *words: str) -> subprocess.Popen[str]:
        """Start `torchrun` on a machine."""
        launch = ["--nnodes", str(len(self.names)), "--node-rank", str(index), "--nproc-per-node", "1"]
        master = ["--master-addr", self.address(0), "--master-port", str(PORT)]
        torchrun = [sys.executable, "-m", "torch.distributed.run", *launch, *master, "-m", "mygym", "train", *words]
        return subprocess.Popen(
            ["ip", "netns", "exec", self.names[index], *torchrun],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def train(self, *words: str) -> list[subprocess.Popen[str]]:
        return [self.start(index, *words) for index in range(len(self.names))]

    def cut(self, index: int) -> None:
        """Cut the cable of a machine."""
        self._ip("link", "set", self.link(index), "down")

    def mend(self, index: int) -> None:
        self._ip("link", "set", self.link(index), "up")

    def remove(self) -> None:
        for name in self.names:
            self._ip("netns", "del", name)
        self._ip("link", "del", self.bridge)

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(params=[2, 4])
def machines(request: pytest.FixtureRequest) -> Iterator[Machines]:
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces need the rights of root")
    try:
        opened = Machines(request.param)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces: {error.stderr.decode()}")
    yield opened
    opened.remove()


def ended(processes: list[subprocess.Popen[str]]) -> list[str]:
    """The output of processes that must end."""
    outputs = [process.communicate(timeout=180)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), outputs
    return outputs


def kill(torchrun: subprocess.Popen[str]) -> None:
    """Kill `torchrun` and its process, which is in a session of its own."""
    for process in psutil.Process(torchrun.pid).children(recursive=True):
        process.kill()
    torchrun.kill()
    torchrun.communicate()


@pytest.mark.slow
def test_machines_with_addresses_of_their_own(folder: Path, machines: Machines) -> None:
    count = len(machines.names)
    alone = mygym.train({**CONFIG, "learners": count, "logdir": "pipes"})
    ended(machines.train("--config", "config.yaml", "--logdir", "hosts"))
    assert (only_run(folder / "hosts") / "policy.safetensors").read_bytes() == weights(alone)


@pytest.mark.slow
@pytest.mark.parametrize("machines", [2], indirect=True)
@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_a_run_that_loses_a_machine_is_resumed(how: str, folder: Path, machines: Machines) -> None:
    long = {**CONFIG, "steps": 4096, "eval": {**CONFIG["eval"], "every": 1024}, "checkpoint": {"every": 256}}
    (folder / "config.yaml").write_text(yaml.safe_dump(long))
    whole = mygym.train({**long, "learners": 2, "logdir": "whole"})
    processes = machines.train("--config", "config.yaml", "--logdir", "hosts")
    deadline = time.monotonic() + 120
    while not list(folder.glob("hosts/*/*/*/*/seed_0/checkpoints/*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if how == "killed":
        kill(processes[1])
    else:
        machines.cut(1)
    output = processes[0].communicate(timeout=180)[0]
    assert processes[0].returncode != 0
    assert "learner 2 of 2 is lost" in output or "interrupted" in output, output
    if how == "cut off":
        kill(processes[1])
    machines.mend(1)
    ended(machines.train("--resume", str(only_run(folder / "hosts"))))
    assert (only_run(folder / "hosts") / "policy.safetensors").read_bytes() == weights(whole)
