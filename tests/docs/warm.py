"""Python programs in processes that have imported the libraries already: three seconds less for each.

What is the project's own is imported by each anew, from the folder that it stands in.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

LIBRARIES = ("torch._dynamo", "stable_baselines3", "sb3_contrib", "sbx", "gymnasium", "pybullet", "pydantic")
TIMEOUT = 400


class Warm:
    """A process that forks one for each program. A context manager."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(environment),
            start_new_session=True,
        )

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def run(self, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """What `python PROGRAM …` or `mygym …` does in a folder, which is the project's."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        out, err = (folder.parent / name for name in ("out", "err"))
        task = {"words": list(words), "folder": str(folder), "out": str(out), "err": str(err)}
        print(json.dumps(task), file=self.process.stdin, flush=True)
        assert select.select([self.process.stdout], [], [], TIMEOUT)[0], f"{words} takes more than {TIMEOUT} s"
        code = int(self.process.stdout.readline())
        return subprocess.CompletedProcess(list(words), code, out.read_text(), err.read_text())


def _serve() -> None:
    for name in LIBRARIES:
        import_module(name)
    gc.freeze()  # else the first collection of each program touches, and so copies, all of this
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(**task)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(words: list[str], folder: str, out: str, err: str) -> None:
    for number, name in ((0, os.devnull), (1, out), (2, err)):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(folder)
    os.environ["PYTHONPATH"] = folder
    sys.path[0] = folder
    program = str(Path(folder, words[1])) if words[0] == "python" else str(Path(sys.executable).parent / "mygym")
    sys.argv = [words[1] if words[0] == "python" else program, *words[1 + (words[0] == "python") :]]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    _serve()
