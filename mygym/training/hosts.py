"""Learners on several machines, which `torchrun` starts: the main process accepts connections of the others.

`torchrun` gives each process its rank, and a store that all of them reach. The process of rank 0 is the main process:
it publishes its address in the store, once for each training, and sends the config to the others. From there on a
connection replaces a pipe, so that results are those of processes of one machine, to the bit. A collective operation
of `torch.distributed` would add the gradients in another order, and could not wait for commands at the same time.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import cache
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

from mygym.errors import ConfigError, RunError, bad_value

STARTED = "TORCHELASTIC_RUN_ID"
"""Environment variable of processes that `torchrun` has started."""

PATIENCE = 600.0
"""s within which the processes of all machines must have started."""

KEPT_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 30_000}
"""Options of a connection: a machine that is silent for 30 s is lost."""

ANSWER = 5
"""s within which a process proves that it knows the secret."""

COMMANDS, EXCHANGES = "commands", "exchanges"
"""The two connections of a process."""


def size() -> int | None:
    """Return the number of processes that `torchrun` has started; None without it."""
    return int(os.environ["WORLD_SIZE"]) if STARTED in os.environ else None


def is_other() -> bool:
    """Return whether `torchrun` has started this process, and it is not the main process."""
    return STARTED in os.environ and os.environ["RANK"] != "0"


def check_learners(learners: int) -> None:
    """Raise `ConfigError` if `torchrun` has not started as many processes as the config has learners."""
    count = size()
    if count not in (None, learners):
        why = f"differs from the {count} processes that torchrun has started"
        raise ConfigError(bad_value("learners", learners, str(count), why))


class Remote:
    """Stands in for the handle of a process if the process is on another machine, where `torchrun` ends it."""

    exitcode = None

    def join(self, timeout: float | None = None) -> None:
        """Do nothing: the process ends when its connections are closed."""

    def kill(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


_trainings = 0
"""Number of trainings of this process that have begun."""


@contextlib.contextmanager
def main_process() -> Iterator[None]:
    """End the processes of the other machines after the block, whose trainings they take part in."""
    try:
        yield
    finally:
        if size() is not None:
            with contextlib.suppress(RuntimeError):  # torchrun has ended the store
                _store().set(_key(_trainings), b"")


def accept(arguments: Sequence[tuple[Any, ...]]) -> list[tuple[int, tuple[Remote, Connection, Connection]]]:
    """Begin a training: wait for the other processes, and send to each its arguments of `train_share`.

    Args:
        arguments: Arguments of each process, without its connections, in the order of their ranks.

    Returns:
        Rank of each process, and what stands for it with its two connections.

    Raises:
        ConfigError: This is not the main process: `torchrun` has started a script of the user's.
        RunError: A process has not come within `PATIENCE`.
    """
    if is_other():
        script = getattr(sys.modules["__main__"], "__file__", "a script")
        raise ConfigError(bad_value("torchrun", script, "-m mygym train, or train.py", "trains in each process"))
    global _trainings
    secret, count = secrets.token_bytes(32), 2 * len(arguments)
    found: dict[tuple[int, str], Connection] = {}
    with socket.create_server(("", 0), backlog=count) as server:
        server.settimeout(PATIENCE)
        address = os.environ["MASTER_ADDR"], server.getsockname()[1]
        _store().set(_key(_trainings), pickle.dumps((*address, secret)))
        _trainings += 1
        while len(found) < count:
            try:
                connection = _kept_alive(server.accept()[0])
            except TimeoutError:
                come = len({rank for rank, _ in found})
                why = f"{come} of {len(arguments)} other learners have connected within {PATIENCE:g} s"
                raise RunError(f"torchrun: {why}") from None
            with contextlib.suppress(AuthenticationError, EOFError, OSError):  # of a stranger, or a silent one
                with _limited(connection):
                    deliver_challenge(connection, secret)
                    answer_challenge(connection, secret)
                    purpose = pickle.loads(connection.recv_bytes())  # noqa: S301  (it has the secret)
                found[purpose] = connection
    processes = []
    for rank, each in enumerate(arguments, start=1):
        processes.append((rank, (Remote(), found[rank, COMMANDS], found[rank, EXCHANGES])))
        found[rank, COMMANDS].send_bytes(pickle.dumps(each))
    return processes


def serve(train_share: Callable[..., None]) -> None:
    """Take part in the trainings of the main process, until it ends; raise `RunError` if it cannot be reached."""
    rank = int(os.environ["RANK"])
    for training in range(1 << 30):
        try:
            published = _store().get(_key(training))
        except RuntimeError:  # the store has ended, and with it the main process
            return
        if not published:
            return
        host, port, secret = pickle.loads(published)  # noqa: S301  (from the main process)
        try:
            commands, exchanges = (_connect(host, port, secret, rank, name) for name in (COMMANDS, EXCHANGES))
            values, index, resumed, excluded = pickle.loads(commands.recv_bytes())  # noqa: S301  (from the main process)
        except (OSError, EOFError, AuthenticationError) as error:
            raise RunError(f"learner {rank + 1}: cannot reach the main process at {host}:{port}: {error}") from None
        train_share(values, index, resumed, excluded, commands, exchanges)


def _connect(host: str, port: int, secret: bytes, rank: int, name: str) -> Connection:
    connection = _kept_alive(socket.create_connection((host, port), timeout=PATIENCE))
    answer_challenge(connection, secret)
    deliver_challenge(connection, secret)
    connection.send_bytes(pickle.dumps((rank, name)))
    return connection


@contextlib.contextmanager
def _limited(connection: Connection) -> Iterator[None]:
    """Let the other end of a connection answer within `ANSWER`, in the block."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", ANSWER, 0))
        yield
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))


def _kept_alive(opened: socket.socket) -> Connection:
    """Return the connection of a socket, which sends at once, and ends when the other machine is silent."""
    opened.settimeout(None)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEPT_ALIVE.items():
        if hasattr(socket, name):  # not on every system
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Connection(opened.detach())


@cache
def _store() -> Any:
    """Return the store of `torchrun`."""
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(iter(rendezvous("env://", timeout=timedelta(seconds=PATIENCE))))
    return store


def _key(training: int) -> str:
    return f"mygym/{training}"
