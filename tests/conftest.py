"""Fixtures that several folders share."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import fields, replace
from datetime import date
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from mygym.engines.bullet.client import bullet
from mygym.envs import batches, randomization, starts
from mygym.errors import MygymError
from mygym.registry import REGISTRIES, isolated
from mygym.registry.entries import HAS_BULLET
from mygym.robotics import robot
from mygym.robotics.inference.base_placement import place_base, shape_of
from mygym.robotics.kinematics import make_chain
from mygym.robotics.robot_spec import RobotSpec
from mygym.robotics.workspace import WorkspaceSpec
from mygym.training.stop_request import SIGNALS

ROOT = Path(__file__).parent.parent

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small networks; the tests share the machine

if "PYTEST_XDIST_WORKER" not in os.environ:  # whose workers, and what they start, share this
    COMPILED = tempfile.TemporaryDirectory(prefix="mygym_tests_")
    os.environ |= {  # each model compiles anew: half of what tests of JAX's algorithms take
        "JAX_COMPILATION_CACHE_DIR": COMPILED.name,
        "JAX_COMPILATION_CACHE_MAX_SIZE": str(2**30),  # a limit adds a lock, so that no file is read half-written
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # programs that run a moment; tests/test_kills.py compiles as users do
    }
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # workers and processes of tests compile no module again

for profile, examples in {"normal": 10, "slow": 100}.items():
    hypothesis.settings.register_profile(
        profile,
        deadline=None,  # the first call of many a function imports or builds something
        derandomize=profile == "normal",
        max_examples=examples,
        suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
    )


pytest_plugins = ["tests.command"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The slow suite takes half a day: a part of it each day covers it, too."""
    parser.addoption("--one-in", type=int, default=1, metavar="N", help="of the slow tests, those of one day in N")


def pytest_configure(config: pytest.Config) -> None:
    """Try more examples in the slow suite, and others each time."""
    hypothesis.settings.load_profile("slow" if config.option.markexpr == "slow" else "normal")


gc.disable()  # tests collect it between each other: on the way, a tenth of their time went into it


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let a single worker begin with the tests that import and compile longest: those of JAX and of the export.

    Properties belong to the slow suite too, which tries more examples. Of that, `--one-in` takes each N-th case.
    """
    if config.option.markexpr == "slow":
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker("slow")
        days, slow = config.option.one_in, [item for item in items if item.get_closest_marker("slow")]
        today = slow[date.today().toordinal() % days :: days]
        config.hook.pytest_deselected(items=list(set(items) - set(today)))
        items[:] = today
    items.sort(key=lambda item: not re.search(r"export|test_weights|jax", item.nodeid))


def needs_bullet(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, is that PyBullet is not installed, as on Python 3.14."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name in ("pybullet", "pybullet_data"):
            return True
        if isinstance(error, MygymError) and re.search("PyBullet|package pybullet", str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


if not HAS_BULLET:  # what needs it is skipped; the rest runs in MuJoCo

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and call.excinfo is not None and needs_bullet(call.excinfo.value):
            report.outcome = "skipped"
            report.longrepr = str(item.path), item.location[1] or 0, "Skipped: needs PyBullet"
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        collector: pytest.Collector,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.failed and "No module named 'pybullet" in str(report.longrepr):
            report.outcome = "skipped"
            report.longrepr = str(collector.path), 0, "Skipped: needs PyBullet"
        return report


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def old_objects() -> None:
    """Let collections of garbage pass over the objects of earlier modules: a second each, after compilations of JAX."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def garbage() -> None:
    """Collect garbage where tests have left much of it."""
    if gc.get_count()[0] > 300_000:
        gc.collect()


@pytest.fixture(autouse=True)
def compiled_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Release compiled programs of JAX in long runs: Linux ends a process with 65,530 mappings of memory."""
    yield
    if "jax" in sys.modules and request.node.get_closest_marker("slow"):
        maps = Path("/proc/self/maps")
        if maps.exists() and len(maps.read_bytes().splitlines()) > 30_000:
            sys.modules["jax"].clear_caches()
            gc.collect()


@pytest.fixture(autouse=True, scope="session")
def default_signals() -> None:
    """Take signals that `nohup` or a shell's `&` has let this process ignore: the programs leave those ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def unsynced() -> Iterator[None]:
    """Write files without waiting for the disk, which takes milliseconds for each; processes of tests do wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def sb3_logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give models that learn without a logger one folder of the tests: SB3 creates one in /tmp for each of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SB3_LOGDIR", str(tmp_path_factory.mktemp("sb3")))
        yield


@pytest.fixture(autouse=True, scope="session")
def reused_clients() -> Iterator[None]:
    """Use closed physics clients again, empty: to open one takes as long as to build an environment in it."""
    if not HAS_BULLET:
        yield
        return
    opened, free = bullet.connect, list[int]()

    def connect(method: int, **options: Any) -> int:
        return free.pop() if free and method == bullet.DIRECT else int(opened(method, **options))

    def disconnect(physicsClientId: int) -> None:  # noqa: N803  (Bullet's)
        if bullet.getConnectionInfo(physicsClientId)["connectionMethod"] != bullet.DIRECT or len(free) == 32:
            closed(physicsClientId=physicsClientId)
        else:
            bullet.resetSimulation(physicsClientId=physicsClientId)
            free.append(physicsClientId)

    def is_connected(physicsClientId: int) -> bool:  # noqa: N803
        return physicsClientId not in free and bool(is_open(physicsClientId))

    closed, is_open = bullet.disconnect, bullet.isConnected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bullet, "connect", connect)
        patch.setattr(bullet, "disconnect", disconnect)
        patch.setattr(bullet, "isConnected", is_connected)
        yield


@pytest.fixture(autouse=True, scope="session")
def placed_bases() -> Iterator[None]:
    """Search the base of arms with the same kinematics and shape once: it takes seconds, and many tests write one."""
    found: dict[tuple[str | bytes, ...], tuple[RobotSpec, float]] = {}

    def place(spec: RobotSpec, workspace: WorkspaceSpec) -> tuple[RobotSpec, float]:
        shape = shape_of(spec)
        chain = make_chain(spec, spec.arms[0], workspace.tool_direction)
        pose = spec.base_position, spec.base_orientation, spec.area_scale
        arrays = *(getattr(chain, field.name) for field in fields(chain)), *shape.body, *shape.links
        key = repr((workspace, pose)), *(array.tobytes() for array in arrays)
        if key not in found:
            found[key] = place_base(spec, workspace)
        placed, share = found[key]
        joints = (replace(joint, home=other.home) for joint, other in zip(spec.joints, placed.joints, strict=True))
        names = ("base_position", "base_orientation", "area_scale")
        return replace(spec, joints=tuple(joints), **{name: getattr(placed, name) for name in names}), share

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robot, "place_base", place)
        yield


@pytest.fixture(autouse=True, scope="session")
def short_tables(pytestconfig: pytest.Config) -> Iterator[None]:
    """Draw fewer starts for each batch: the thousands of a run take longer than most episodes of tests."""
    with pytest.MonkeyPatch.context() as patch:
        if pytestconfig.option.markexpr != "slow":
            patch.setattr(starts, "ROWS", 512)
            patch.setattr(randomization, "ROWS", 256)
            patch.setattr(batches, "POOL", 128)
        yield


@pytest.fixture(autouse=True, scope="session")
def scanned_project() -> None:
    """Load the built-in components and those of this repository once, and not in each test."""
    for registry in REGISTRIES.values():
        registry.names()


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Undo the registrations of a test."""
    with isolated():
        yield


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python in a separate process, in `tmp_path`."""

    def run(*arguments: str, cwd: Path = tmp_path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run
