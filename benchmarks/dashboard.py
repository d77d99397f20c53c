"""Dashboard: start, memory, 1,000 runs, ten clients beside a training, and `kill -9` of the server.

start      s from the command to the first answer (median of three starts), and until Chromium shows the page of runs
memory     resident memory of the server alone, without runs and without the helper process, after all pages were opened
list       s of `GET /api/runs` with 1,000 runs: the first call, which reads all of them, and later calls
watching   a training of STEPS env steps alone, and with ten clients, which ask for all runs and for progress every
           2 s, as pages do: ratios of wall time and of processor time, medians of pairs in turn; and the share of a
           core that the server uses for the clients
browser    heap of JavaScript in a browser that watches a run, over WATCH s, in MB per hour (extrapolated)
kill       whether a run goes on after `kill -9` of the server, and is in the list of the next server
"""

from __future__ import annotations

import argparse
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.dashboard.servers import CHROMIUM, CHROMIUM_FLAGS, Server, server
from tests.reporting.runs import make_run

STEPS = 2_500
CLIENTS = 10
PERIOD = 2.0
PAIRS = 5
WATCH = 240.0
PAGES = ("/", "/new", "/compare", "/world", "/sweeps", "/api")


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(
        usage="python benchmarks/dashboard.py > benchmarks/results/dashboard.md",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    rows = [*starts(), *listing(), *kill()]
    rows += watching()
    rows += browser()
    print("# Dashboard\n")
    print(
        f"`python benchmarks/dashboard.py` on {platform.processor() or platform.machine()}, {psutil.cpu_count()} cores,"
    )
    print("a machine that other programs share: times are upper bounds, ratios are of one run.\n")
    print("| measurement | result | goal |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def starts() -> list[tuple[str, str, str]]:
    """Return the rows of start and memory."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            with server(Path(folder)) as started:
                started.call("/api/runs")
                seconds.append(time.perf_counter() - begin)
        with server(Path(folder)) as started:
            opened = page_seconds(started)
            memory = psutil.Process(started.process.pid).memory_info().rss / 1e6
    return [
        ("server start, to the first answer (median of 3)", f"{statistics.median(seconds):.1f} s", "≤ 3 s"),
        ("first page with its table in Chromium", opened, "≤ 2 s"),
        ("memory of the server, after all pages were opened", f"{memory:.0f} MB", "≤ 120 MB"),
    ]


def page_seconds(started: Server) -> str:
    """Return the s until the page of runs is drawn in a browser that has opened it before; then open all pages."""
    if not CHROMIUM.exists():
        return "no Chromium"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=str(CHROMIUM), args=list(CHROMIUM_FLAGS)).new_page()
        page.goto(started.login)
        page.get_by_text("No runs yet").wait_for()
        begin = time.perf_counter()
        page.goto(started.address)
        page.get_by_text("No runs yet").wait_for()
        seconds = time.perf_counter() - begin
        for path in PAGES:
            page.goto(started.address + path)
            page.wait_for_timeout(2000)
    return f"{seconds:.2f} s"


def listing() -> list[tuple[str, str, str]]:
    """Return the row of 1,000 runs."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1000):
            make_run(Path(folder), success=number / 1000, seed=number, algo=("sac", "ppo", "tqc")[number % 3])
        with server(Path(folder)) as started:
            seconds = []
            for _ in range(4):
                begin = time.perf_counter()
                assert len(started.call("/api/runs")) == 1000
                seconds.append(time.perf_counter() - begin)
                time.sleep(1.1)
    later = statistics.median(seconds[1:])
    return [("1,000 runs listed: first call; later calls", f"{seconds[0]:.2f} s; {later:.2f} s", "≤ 1 s")]


def kill() -> list[tuple[str, str, str]]:
    """Return the row of `kill -9`."""
    with tempfile.TemporaryDirectory() as folder:
        with server(Path(folder)) as first:
            first.call("/api/runs", {"steps": 100_000, "video": {"episodes": 0}, "stop_at_success": None})
            run = wait_for(first, "running")
            first.process.kill()
        with server(Path(folder)) as second:
            before = wait_for(second, "running")["steps"]
            time.sleep(10)
            after = wait_for(second, "running")["steps"]
            second.call(f"/api/runs/{run['id']}/stop", {})
            stopped = wait_for(second, "interrupted")
    text = f"run goes on ({before:,} → {after:,} env steps), stops with a checkpoint at {stopped['steps']:,}"
    return [("`kill -9` of the server, then a new server", text, "goes on, is listed")]


def wait_for(started: Server, status: str) -> Any:
    """Return the only run when it has a status."""
    for _ in range(600):
        rows = [row for row in started.call("/api/runs") if row["status"] == status]
        if rows:
            return rows[0]
        time.sleep(0.2)
    raise SystemExit(f"no run is {status}")


def watching() -> list[tuple[str, str, str]]:
    """Return the row of the clients beside a training."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as started:
        pairs = [(train(Path(folder), None), train(Path(folder), started)) for _ in range(PAIRS)]
        wall = statistics.median(watched[0] / alone[0] for alone, watched in pairs)
        cpu = statistics.median(watched[1] / alone[1] for alone, watched in pairs)
    share = statistics.median(watched[2] for _, watched in pairs)
    text = f"{100 * (wall - 1):+.1f} % wall time, {100 * (cpu - 1):+.1f} % processor time of the training; "
    text += f"the server uses {100 * share:.1f} % of a core"
    return [(f"{CLIENTS} clients watch a training (medians of {PAIRS} pairs)", text, "≤ 3 %")]


def train(folder: Path, started: Server | None) -> tuple[float, float, float]:
    """Return wall and processor s of a training, which clients watch if a server is given, and the server's cores."""
    ended = threading.Event()

    def watch() -> None:
        while started and not ended.wait(PERIOD):
            for row in started.call("/api/runs"):
                if row["status"] == "running" and "path" in row:
                    started.call(f"/api/runs/{row['id']}/progress?after={row['steps'] - 500}")

    clients = [threading.Thread(target=watch) for _ in range(CLIENTS if started else 0)]
    for client in clients:
        client.start()
    words = [
        "--steps",
        str(STEPS),
        "--logdir",
        str(folder),
        "--set",
        "video.episodes=0",
        "--set",
        "stop_at_success=null",
    ]
    begin, served = time.perf_counter(), processor_seconds(started)
    process = subprocess.Popen(
        [sys.executable, "-m", "mygym", "train", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    cpu = 0.0
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        times = watched.cpu_times()
        cpu = max(cpu, times.user + times.system)
        time.sleep(0.1)
    wall = time.perf_counter() - begin
    served = processor_seconds(started) - served
    ended.set()
    for client in clients:
        client.join()
    shutil.rmtree(folder / "reach")
    return wall, cpu, served / wall


def processor_seconds(started: Server | None) -> float:
    """Return the processor time that a server has used, s; 0 without a server."""
    times = psutil.Process(started.process.pid).cpu_times() if started else None
    return times.user + times.system if times else 0.0


def browser() -> list[tuple[str, str, str]]:
    """Return the row of a browser that watches a run."""
    if not CHROMIUM.exists():
        return [("memory of a browser that watches a run", "no Chromium", "bounded")]
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as started, sync_playwright() as driver:
        started.call("/api/runs", {"steps": 1_000_000, "video": {"episodes": 0}, "stop_at_success": None})
        run = wait_for(started, "running")
        flags = [*CHROMIUM_FLAGS, "--js-flags=--expose-gc", "--enable-precise-memory-info"]
        page = driver.chromium.launch(executable_path=str(CHROMIUM), args=flags).new_page()
        page.goto(started.login)
        page.goto(f"{started.address}/run/{run['id']}")
        page.wait_for_timeout(20_000)
        sizes = []
        begin = time.perf_counter()
        while time.perf_counter() - begin < WATCH:
            page.wait_for_timeout(WATCH * 1000 / 8)
            sizes.append((time.perf_counter() - begin, page.evaluate("gc(), performance.memory.usedJSHeapSize") / 1e6))
        started.call(f"/api/runs/{run['id']}/stop", {})
        wait_for(started, "interrupted")
    slope = statistics.linear_regression(*zip(*sizes, strict=True)).slope * 3600
    text = f"{sizes[0][1]:.1f} → {sizes[-1][1]:.1f} MB in {WATCH:.0f} s after collections: {slope:+.1f} MB an hour"
    return [("JavaScript heap of a browser that watches a running training (extrapolated)", text, "bounded")]


if __name__ == "__main__":
    main()
