"""`mygym serve` in a process of its kind, and Chromium, for tests from end to end and for benchmarks."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
)


@dataclass(frozen=True)
class Server:
    """A server that is listening."""

    process: subprocess.Popen[str]
    login: str
    """Address that opens once."""
    token: str
    note: str
    """Note that was printed before."""

    @property
    def address(self) -> str:
        """Address without the word."""
        return self.login.partition("/?")[0]

    def call(self, path: str, body: Any = None) -> Any:
        """Return the JSON of a request."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@contextlib.contextmanager
def server(logdir: Path) -> Iterator[Server]:
    """Serve a log directory on a free port; the folder above it is the current folder."""
    words = [sys.executable, "-m", "mygym", "serve", "--logdir", str(logdir), "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=logdir.parent)
    assert process.stderr is not None
    with process:
        try:
            printed = dict.fromkeys(("note", "dashboard", "token"), "")
            while not printed["token"] and (line := process.stderr.readline()):
                printed[line.partition(":")[0]] = line.partition(":")[2].strip()
            started = Server(process, printed["dashboard"].split()[0], printed["token"], printed["note"])
            for _ in range(300):
                with contextlib.suppress(OSError):
                    started.call("/api/registry")
                    break
                time.sleep(0.05)
            yield started
        finally:
            process.terminate()
