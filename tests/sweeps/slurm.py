"""Stand-in for the commands of Slurm, on a machine without Slurm: `sbatch`, `srun`, `sacct`, `scancel`, `scontrol`.

A job is a process group; its state is in the folder `SLURM_STAND_IN`. As in Slurm, `scancel` sends SIGTERM to the
processes of a job, and a job that is queued again has its old number.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

COMMANDS = ("sbatch", "srun", "sacct", "scancel", "scontrol")


@contextlib.contextmanager
def cluster(folder: Path, setenv: Callable[[str, str], None]) -> Iterator[None]:
    """Create the commands in `folder`, for processes that start from now on; at the end, kill the jobs."""
    for name in ("bin", "jobs"):
        (folder / name).mkdir()
    for name in COMMANDS:
        file = folder / "bin" / name
        file.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__)} {name} "$@"\n')
        file.chmod(0o755)
    setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    setenv("SLURM_STAND_IN", str(folder / "jobs"))
    setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    try:
        yield
    finally:
        for group in (folder / "jobs").glob("*.group"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(group.read_text()), signal.SIGKILL)


def state_folder() -> Path:
    return Path(os.environ["SLURM_STAND_IN"])


def start(number: str) -> None:
    script = (state_folder() / f"{number}.script").read_text()
    names = {"NTASKS": "1", "PROCID": "0", "LOCALID": "0", "NODEID": "0", "JOB_NUM_NODES": "1", "JOB_NODELIST": "a"}
    environment = {**os.environ, "SLURM_JOB_ID": number, **{f"SLURM_{name}": value for name, value in names.items()}}
    (state_folder() / f"{number}.state").unlink(missing_ok=True)
    process = subprocess.Popen(
        ["bash", script], env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    (state_folder() / f"{number}.group").write_text(str(process.pid))


def sbatch(words: Sequence[str]) -> None:
    number = str(time.time_ns() // 1_000_000)  # submitit remembers the numbers of a process
    (state_folder() / f"{number}.script").write_text(words[-1])
    start(number)
    print(f"Submitted batch job {number}")


def srun(words: Sequence[str]) -> None:
    rest, paths = list(words), {}
    while rest[0].startswith("--"):
        flag = rest.pop(0)
        if flag in ("--output", "--error"):
            paths[flag] = rest.pop(0).replace("%j", os.environ["SLURM_JOB_ID"]).replace("%t", "0")
    for flag, number in (("--output", 1), ("--error", 2)):
        os.dup2(os.open(paths[flag], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.execvp(rest[0], rest)


def sacct(words: Sequence[str]) -> None:
    print("JobID|State|NodeList")
    known = {path.stem for path in state_folder().glob("*.group")}
    for number in known & set(words):
        state = state_folder() / f"{number}.state"
        print(f"{number}|{state.read_text() if state.exists() else state_of(number)}|a")


def state_of(number: str) -> str:
    try:
        os.killpg(int((state_folder() / f"{number}.group").read_text()), 0)
        return "RUNNING"
    except ProcessLookupError:
        return "COMPLETED"


def scancel(words: Sequence[str]) -> None:
    (number,) = [word for word in words if re.fullmatch(r"\d+", word)]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(int((state_folder() / f"{number}.group").read_text()), signal.SIGTERM)
        (state_folder() / f"{number}.state").write_text("CANCELLED by 0")


def scontrol(words: Sequence[str]) -> None:
    assert words[0] == "requeue"
    start(words[1])


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:])
