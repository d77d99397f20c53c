"""Every row of docs/faults.md, reproduced in a real run: exit code, messages, files and resume."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import gc
import inspect
import io
import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import imageio_ffmpeg
import numpy as np
import psutil
import pytest
import torch
from safetensors.numpy import load_file as load_tensors
from stable_baselines3.common.vec_env import DummyVecEnv
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

import mygym
from benchmarks.kills import differences
from mygym.algos.stable_baselines import PPO, SAC, TD3
from mygym.cli.main import main
from mygym.config import merged
from mygym.envs.robot_env import RobotEnv
from mygym.registry import register_algorithm
from mygym.robotics import files as temporary_files
from mygym.training import env_factory, env_processes, files, learners, logs, result, run_callbacks, session, video
from mygym.training.checkpoints import checkpoints
from mygym.training.checkpoints.checkpoints import Checkpoints
from mygym.training.logs import events_file
from tests.components import slow_except, small
from tests.conftest import ROOT
from tests.test_api import assert_whole

CONFIG: dict[str, Any] = {
    "algo_params": {**small("sac"), "learning_starts": 11, "train_freq": 5},
    "task_params": {"horizon": 10},
    "steps": 80,
    "n_envs": 1,
    "stop_at_success": None,
    "eval": {"every": 40, "episodes": 1, "final_episodes": 2},
    "checkpoint": {"every": 30, "keep": 2},
    "video": {"episodes": 1, "width": 32, "height": 32},
}
PROCESSES: dict[str, Any] = {
    "n_envs": 2,
    "env_processes": True,
    "algo_params": {"learning_starts": 21},
    "video": {"episodes": 0},
}
UNPRIVILEGED_USER = 65534
"""Id of a user without permissions."""

KB = 1000


# The table ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of the table; words in capitals in a message match any text."""

    fault: str
    status: str | None
    code: int
    messages: tuple[re.Pattern[str], ...]
    end: str
    left: str

    @classmethod
    def read(cls, line: str) -> Row:
        fault, end, quoted, left = (cell.strip() for cell in line.strip("|").split(" | "))
        how = re.match(r"(?:`(\w+)`, )?exit code (\d+)", end)
        assert how, line
        patterns = [
            re.compile(re.sub(r"\b(?!SIGTERM|SIGHUP|SIGINT|ZIP)[A-Z]+\b", ".+", re.escape(quoted)))
            for quoted in re.findall(r"`(.+?)`", quoted)
        ]
        assert patterns or quoted == "nothing", line
        return cls(fault, how[1], int(how[2]), tuple(patterns), end, left)


TABLE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").partition("|---|---|---|---|\n")[2].splitlines()
ROWS = {row.fault: row for row in map(Row.read, TABLE)}
HELD: set[str] = set()


def holds(*faults: str) -> Any:
    """Parametrise `row` over these rows of the table."""
    HELD.update(faults)
    return pytest.mark.parametrize("row", [ROWS[fault] for fault in faults], ids=faults)


def test_each_row_has_a_test_and_each_test_a_row() -> None:
    assert set(ROWS) == HELD
    assert len(ROWS) == len(TABLE)
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    without = [test.__name__ for test in tests if "row" not in inspect.signature(test).parameters]
    assert without == ["test_each_row_has_a_test_and_each_test_a_row"]


# Runs ---------------------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def run(self) -> Path:
        return Path(self.out.splitlines()[-1].removeprefix("run: "))


Train = Callable[..., Outcome]


@pytest.fixture
def train(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Train:
    """`train.py` in this process, with a changed `CONFIG` or with `--resume`."""

    def run(logdir: Path | None = None, resume: Path | None = None, **changes: Any) -> Outcome:
        settings = merged(CONFIG, {"logdir": str(logdir or tmp_path / "runs"), **changes})
        settings["algo_params"] = changes["algo_params"] if "algo" in changes else settings["algo_params"]
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        with pytest.raises(SystemExit) as ended:
            main(["train", "--resume", str(resume)] if resume else ["train", *words])
        return Outcome(int(ended.value.code or 0), *capfd.readouterr())

    return run


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = mygym.train({**CONFIG, "logdir": str(tmp_path_factory.mktemp("undisturbed"))}).path
    assert imageio_ffmpeg.count_frames_and_secs(str(run / "videos" / "final.mp4"))[0] == 11 + video.PAUSE_FRAMES
    return run


@contextlib.contextmanager
def in_this_process() -> Iterator[None]:
    """Environments of processes in the main process, for the same results without the seconds of their start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(env_factory, "process_vec_env", lambda makers, processes, **_: DummyVecEnv(makers))
        yield


@pytest.fixture(scope="module")
def in_others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with in_this_process():
        return mygym.train(merged(CONFIG, {**PROCESSES, "logdir": str(tmp_path_factory.mktemp("undisturbed"))})).path


def assert_ends_as(row: Row, outcome: Outcome) -> None:
    assert outcome.code == row.code, outcome.err
    lines = outcome.err.splitlines()
    here = re.compile(rf" \({re.escape(__file__)}:\d+\)")  # functions that stand for the system's, as the user's code
    for message in row.messages:
        matching = [line for line in lines if message.fullmatch(line) or message.fullmatch(here.sub("", line))]
        assert len(matching) == 1, (message, outcome.err)
    assert sum(line.startswith("error: ") for line in lines) == (row.code in (1, 2))
    assert "Traceback" not in outcome.err
    assert outcome.out.startswith("run: ") == ("has not begun" not in row.left)
    if row.status:
        assert result.Result.read(outcome.run).status == row.status


def assert_whole_files(run: Path) -> None:
    """No file is half-written, every line is complete, the newest checkpoint is intact."""
    assert_whole(run)
    with (run / "monitor.csv").open() as file:
        assert all(None not in line and None not in line.values() for line in csv.DictReader(list(file)[1:]))
    events = events_file(run / "tensorboard").read_bytes()
    while events:
        length = 16 + int.from_bytes(events[:8], "little")  # with the checksums around it
        assert len(events) >= length
        events = events[length:]
    assert Checkpoints(run, keep=1).newest(pytest.fail)


def assert_goes_on(train: Train, run: Path, undisturbed: Path) -> None:
    """`--resume` ends with the files of an undisturbed run."""
    outcome = train(resume=run)
    assert (outcome.code, outcome.run) == (0, run), outcome.err
    assert_same(run, undisturbed)


def assert_same(run: Path, undisturbed: Path) -> None:
    assert_whole_files(run)
    assert differences(run, undisturbed) == []
    assert {path.name for path in run.iterdir()} == {path.name for path in undisturbed.iterdir()}
    if (undisturbed / "videos").exists():
        assert (run / "videos" / "final.mp4").read_bytes() == (undisturbed / "videos" / "final.mp4").read_bytes()


# Moments ------------------------------------------------------------------------------------------------------------


def anything(*_: Any, **__: Any) -> bool:
    return True


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Calls `do` before the nth call of a function, counting the calls that `where` selects."""

    def arrange(
        owner: Any, name: str, do: Callable[..., Any], call: int = 1, where: Callable[..., bool] = anything
    ) -> None:
        calls, usual = [0], getattr(owner, name)

        def function(*args: Any, **kwargs: Any) -> Any:
            selected = where(*args, **kwargs)
            calls[0] += selected
            if calls[0] == call and selected:
                do(*args)
            return usual(*args, **kwargs)

        monkeypatch.setattr(owner, name, function)

    return arrange


def trains(env: RobotEnv, *_: Any) -> bool:
    """Whether an environment is one for training."""
    return env.render_mode is None


def judges(env: RobotEnv, *_: Any) -> bool:
    return not trains(env)


def mistake(*_: Any) -> None:
    raise ValueError("a mistake of the user")


def terminate(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def run_in(folder: Path) -> Path:
    (run,) = (folder / "runs").glob("*/*/*/*/*")
    return run


# The disk -----------------------------------------------------------------------------------------------------------


def mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@pytest.fixture
def mounted() -> Iterator[list[Path]]:
    """A context that unmounts its file systems at the end."""
    mounts: list[Path] = []
    yield mounts
    for path in mounts:
        subprocess.run(["umount", "-l", path], check=True)


class Disk:
    """A file system of a few megabytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ballast = path / "ballast"

    def fill(self, leave: int = 0) -> None:
        room = os.statvfs(self.path)
        self.ballast.write_bytes(bytes(room.f_bavail * room.f_frsize - leave))


@pytest.fixture
def disk(tmp_path: Path, mounted: list[Path]) -> Disk:
    path = tmp_path / "disk"
    path.mkdir()
    mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path))
    mounted.append(path)
    return Disk(path)


MOMENTS: Mapping[str, tuple[Any, str, int, dict[str, Any]]] = {
    "replay/rows_000000000000_000000000060_at_60.safetensors": (RobotEnv, "step", 0, {"call": 35, "where": trains}),
    ".step_0000000060.part/tensors.safetensors": (checkpoints, "write_bytes", 8 * KB, {"call": 7}),
    "model.zip": (session.Session, "save_model", 12 * KB, {"where": lambda _, best=False: not best}),
    "videos/final.mp4": (video, "_encode", 0, {}),
    "result.json": (result.Result, "write", 0, {}),
}
"""First file without room → moment at which the disk becomes full: a call, and the number of bytes left."""


@pytest.fixture
def left_open() -> Iterator[None]:
    """SB3 leaves a file open when it fails to write a model."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed file .*model.part.zip", ResourceWarning)
        gc.collect()


def leaves_a_file_open(test: Callable[..., None]) -> Callable[..., None]:
    """Let `test` be silent about it, whether the file is collected in the test or by `left_open`."""
    silent = pytest.mark.filterwarnings(r"ignore:unclosed file .*model\.part\.zip:ResourceWarning")
    return pytest.mark.usefixtures("left_open")(silent(test))


@leaves_a_file_open
@pytest.mark.parametrize("file", slow_except(MOMENTS, ("model.zip", "result.json").__contains__))
@holds("the disk becomes full")
def test_a_full_disk(row: Row, file: str, disk: Disk, train: Train, before: Any, undisturbed: Path) -> None:
    owner, name, leave, which = MOMENTS[file]
    before(owner, name, lambda *_: disk.fill(leave), **which)
    outcome = train(logdir=disk.path)
    assert_ends_as(row, outcome)
    assert re.search(rf"^error: .*/{file}: cannot be written: .*No space left on device$", outcome.err, re.M)
    assert_whole_files(outcome.run)
    if file == "model.zip" or (outcome.run / "result.json").exists():  # where what was half-written made room
        assert result.Result.read(outcome.run).status == "failed"
    disk.ballast.unlink()
    assert_goes_on(train, outcome.run, undisturbed)


@holds("the disk is full from the start")
def test_a_disk_that_is_full_already(row: Row, disk: Disk, train: Train, undisturbed: Path) -> None:
    disk.fill()
    outcome = train(logdir=disk.path)
    assert_ends_as(row, outcome)
    assert "No space left on device" in outcome.err
    assert not any(path.stat().st_size for path in outcome.run.rglob("*") if path.is_file())
    disk.ballast.unlink()
    outcome = train(logdir=disk.path)
    assert outcome.code == 0
    assert_same(outcome.run, undisturbed)


LIMITS: Mapping[str, tuple[Any, str, int, Callable[[Path], int]]] = {
    "checkpoint": (checkpoints, "write_bytes", 7, lambda run: 12 * KB),  # each writes rows of replay and three files
    "line": (logs.EpisodesCsv, "write_rows", 4, lambda run: (run / "monitor.csv").stat().st_size + 10),
}
"""Function, number of its call, and the number of bytes to which files are limited."""


@pytest.mark.parametrize("moment", slow_except(LIMITS, "line".__eq__))
@holds("a file may not grow further (`ulimit -f`, a quota)")
def test_a_limit_of_file_sizes(
    row: Row, moment: str, train: Train, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, call, limit = LIMITS[moment]
    usual, calls = getattr(owner, name), itertools.count(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited(*args: Any) -> Any:
        if next(calls) == call:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit(run_in(tmp_path)), hard))
        try:
            return usual(*args)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    monkeypatch.setattr(owner, name, limited)
    outcome = train()
    assert_ends_as(row, outcome)
    assert_whole_files(outcome.run)
    assert_goes_on(train, outcome.run, undisturbed)


@holds("the folder for temporary files is full")
def test_a_full_folder_for_temporary_files(
    row: Row, disk: Disk, train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.fill()
    monkeypatch.setattr(tempfile, "tempdir", str(disk.path))
    for cached in (temporary_files.temporary_folder, temporary_files._written):  # as in a new process
        monkeypatch.setattr(temporary_files, cached.__name__, cache(cached.__wrapped__))
    outcome = train()
    assert_ends_as(row, outcome)
    assert not (tmp_path / "runs").exists()


# The directory ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def read_only(folder: Path, mounted: list[Path]) -> Iterator[None]:
    mount("--bind", str(folder), str(folder))
    mounted.append(folder)
    mount("-o", "remount,bind,ro", str(folder))
    yield
    subprocess.run(["umount", "-l", str(mounted.pop())], check=True)


@holds("the log directory is read-only from the start")
def test_a_read_only_log_directory(row: Row, train: Train, tmp_path: Path, mounted: list[Path]) -> None:
    (tmp_path / "runs").mkdir()
    with read_only(tmp_path / "runs", mounted):
        assert_ends_as(row, train())
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.slow
@holds("the file system becomes read-only")
def test_a_disk_that_becomes_read_only(
    row: Row, train: Train, before: Any, tmp_path: Path, mounted: list[Path], undisturbed: Path
) -> None:
    with contextlib.ExitStack() as stack:
        change = lambda *_: stack.enter_context(read_only(run_in(tmp_path), mounted))  # noqa: E731
        before(RobotEnv, "step", change, call=35, where=trains)
        outcome = train()
        assert_ends_as(row, outcome)
        assert train(resume=outcome.run).code == 1
    assert not (outcome.run / "result.json").exists()
    assert_whole_files(outcome.run)
    assert_goes_on(train, outcome.run, undisturbed)


@pytest.fixture
def foreign_folder() -> Iterator[Path]:
    """A folder that all users may read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.contextmanager
def not_permitted(*folders: Path) -> Iterator[None]:
    """Run as a user without permissions for the folders."""
    if os.geteuid() == 0:
        os.seteuid(UNPRIVILEGED_USER)
    else:
        for folder in folders:
            folder.chmod(0o555)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        else:
            for folder in folders:
                folder.chmod(0o755)


@holds("the log directory belongs to another user")
def test_a_log_directory_of_another_user(row: Row, train: Train, before: Any, foreign_folder: Path) -> None:
    with contextlib.ExitStack() as stack:
        before(files, "check_writable", lambda *_: stack.enter_context(not_permitted(foreign_folder)))
        outcome = train(logdir=foreign_folder)
    assert_ends_as(row, outcome)
    assert not list(foreign_folder.iterdir())


@pytest.mark.slow
@holds("the permission to write is taken away")
def test_a_permission_that_is_taken_away(
    row: Row, train: Train, before: Any, foreign_folder: Path, undisturbed: Path
) -> None:
    with contextlib.ExitStack() as stack:

        def forbid(*_: Any) -> None:
            (run,) = foreign_folder.glob("*/*/*/*/*")
            stack.enter_context(not_permitted(run, run / "checkpoints"))

        before(RobotEnv, "step", forbid, call=35, where=trains)
        outcome = train(logdir=foreign_folder)
    assert_ends_as(row, outcome)
    assert not (outcome.run / "result.json").exists()
    assert_whole_files(outcome.run)
    assert_goes_on(train, outcome.run, undisturbed)


GONE: Mapping[str, tuple[Any, str, dict[str, Any]]] = {
    "learning": (RobotEnv, "step", {"call": 35, "where": trains}),
    "video": (RobotEnv, "render", {"call": 3}),
    "result": (result.Result, "write", {}),
}
"""Before which call the run directory goes away."""


@pytest.mark.parametrize("moment", slow_except(GONE, ("learning", "result").__contains__))
@holds("the run directory is removed")
def test_a_directory_that_is_removed(row: Row, moment: str, train: Train, before: Any, tmp_path: Path) -> None:
    owner, name, which = GONE[moment]
    before(owner, name, lambda *_: shutil.rmtree(run_in(tmp_path)), **which)
    outcome = train()
    assert_ends_as(row, outcome)
    assert not outcome.run.exists()
    assert outcome.run.parent.exists()


@holds("the run directory is moved")
def test_a_directory_that_is_moved(row: Row, train: Train, before: Any, tmp_path: Path, undisturbed: Path) -> None:
    new = tmp_path / "elsewhere"
    before(RobotEnv, "step", lambda *_: run_in(tmp_path).rename(new), call=35, where=trains)
    outcome = train()
    assert_ends_as(row, outcome)
    assert not outcome.run.exists()
    assert_whole_files(new)
    assert_goes_on(train, new, undisturbed)


@holds("the run directory is removed and another run begins there")
def test_a_directory_that_becomes_another_runs(row: Row, train: Train, before: Any, tmp_path: Path) -> None:
    def replace(*_: Any) -> None:
        run = run_in(tmp_path)
        shutil.rmtree(run)
        (run / "checkpoints").mkdir(parents=True)
        (run / "config.yaml").write_text("another's")

    before(RobotEnv, "step", replace, call=35, where=trains)
    outcome = train()
    assert_ends_as(row, outcome)
    assert sorted(path.name for path in outcome.run.rglob("*")) == ["checkpoints", "config.yaml"]
    assert (outcome.run / "config.yaml").read_text() == "another's"


@holds("`checkpoints/` is removed")
def test_checkpoints_that_are_removed(
    row: Row, train: Train, before: Any, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SMALL", 1)  # else a buffer as small as this one is written anew each time
    before(RobotEnv, "step", lambda *_: shutil.rmtree(run_in(tmp_path) / "checkpoints"), call=35, where=trains)
    outcome = train()
    assert_ends_as(row, outcome)
    assert_same(outcome.run, undisturbed)


# Processes of environments --------------------------------------------------------------------------------------------


def in_processes(before: Any, do: Callable[[Any], Any]) -> None:
    """Let `do(envs)` happen in the twentieth step."""
    before(run_callbacks.DivergenceCallback, "_on_step", lambda callback: do(callback.training_env), call=20)


@holds("a process of environments is killed")
def test_a_process_that_is_replaced(row: Row, train: Train, before: Any) -> None:
    in_processes(before, lambda envs: os.kill(envs.processes[1].pid, signal.SIGKILL))
    outcome = train(**PROCESSES, tensorboard=False)
    assert_ends_as(row, outcome)
    episodes = (outcome.run / "monitor.csv").read_text().splitlines()[2:]
    lengths = [int(line.split(",")[1]) for line in episodes]
    assert sorted(set(lengths)) == [1, 10]
    lines = [json.loads(line) for line in (outcome.run / "progress.jsonl").read_text().splitlines()]
    assert [line["time/replaced_processes"] for line in lines if "time/replaced_processes" in line] == [1]


@pytest.mark.slow  # as in tests/training/env_processes/test_process_vec_env.py, in a whole run
@holds("a process of environments dies 3 times without a step in between", "a process of environments hangs")
def test_a_process_that_is_lost(
    row: Row, train: Train, before: Any, in_others: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = env_processes.PATIENCE
    monkeypatch.setattr(env_processes, "PATIENCE", 1.0)
    monkeypatch.setattr(env_processes, "GRACE", 0.2)
    assert f"{env_processes.DEATHS} times" in row.fault or "hangs" in row.fault
    monkeypatch.setattr(env_processes, "DEATHS", 1)
    number = signal.SIGKILL if "dies" in row.fault else signal.SIGSTOP
    assert number is signal.SIGKILL or f"after {patience:g} s" in row.end
    env_processes.resource_tracker.ensure_running()  # a process that stays
    earlier = set(psutil.Process().children())
    in_processes(before, lambda envs: os.kill(envs.processes[1].pid, number))
    outcome = train(**PROCESSES)
    assert_ends_as(row, outcome)
    assert set(psutil.Process().children()) <= earlier
    assert_whole_files(outcome.run)
    monkeypatch.undo()
    with in_this_process():
        assert_goes_on(train, outcome.run, in_others)


LEARNERS: dict[str, Any] = {
    "algo": "ppo",
    "learners": 2,
    "n_envs": 2,
    "algo_params": {"n_steps": 10, "batch_size": 20},
    "video": {"episodes": 0},
}


@pytest.mark.slow  # starts four processes
@holds("a learner dies (`--learners`)", "a learner hangs (`--learners`)")
def test_a_learner_that_is_lost(
    row: Row, train: Train, before: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(logdir=tmp_path / "whole", **LEARNERS).run
    earlier = {process.pid for process in psutil.Process().children()}
    hangs, patience = "hangs" in row.fault, learners.PATIENCE
    assert not hangs or f"after {patience:g} s" in row.end

    def lose(_: Any) -> None:
        (learner,) = (process for process in psutil.Process().children() if process.pid not in earlier)
        learner.send_signal(signal.SIGSTOP if hangs else signal.SIGKILL)
        monkeypatch.setattr(learners, "PATIENCE", 1.0)

    before(run_callbacks.DivergenceCallback, "_on_step", lose, call=35)
    outcome = train(**LEARNERS)
    assert_ends_as(row, outcome)
    monkeypatch.setattr(learners, "PATIENCE", patience)
    assert {process.pid for process in psutil.Process().children()} <= earlier
    assert_whole_files(outcome.run)
    assert_goes_on(train, outcome.run, whole)


# Numbers ------------------------------------------------------------------------------------------------------------


def weights(file: Path) -> Mapping[str, Any]:
    if file.suffix == ".safetensors":
        return load_tensors(file)
    with zipfile.ZipFile(file) as archive:
        return torch.load(io.BytesIO(archive.read("policy.pth")), weights_only=True)


def assert_diverged(row: Row, train: Train, outcome: Outcome) -> None:
    assert_ends_as(row, outcome)
    run = outcome.run
    assert_whole_files(run)
    for name in ("model.zip", "best_model.zip", "policy.safetensors", "best_policy.safetensors"):
        tensors = weights(run / name)
        assert tensors
        assert all(np.isfinite(np.asarray(value)).all() for value in tensors.values())
    refused = train(resume=run)
    assert (refused.code, "has diverged" in refused.err) == (2, True)


@pytest.mark.parametrize("number", slow_except([np.nan, -np.inf], np.isnan))
@holds("an observation is NaN or infinite")
def test_an_observation_that_is_not_finite(row: Row, number: float, train: Train, before: Any) -> None:
    def spoil(env: RobotEnv, _: Any) -> None:
        read = env.world._read_state
        env.world._read_state = lambda: (read(), env.world.state.ee_velocity.fill(number))

    before(RobotEnv, "step", spoil, call=35, where=trains)
    assert_diverged(row, train, train())


def rewarding(number: float) -> Callable[..., None]:
    return lambda env, _: setattr(env, "_goal_reward", lambda *_: number)


@pytest.mark.parametrize(("number", "normalize"), slow_except([(np.nan, True), (-np.inf, False)], lambda it: not it[1]))
@holds("a reward is NaN or infinite")
def test_a_reward_that_is_not_finite(row: Row, number: float, normalize: bool, train: Train, before: Any) -> None:
    before(RobotEnv, "step", rewarding(number), call=35, where=trains)
    assert_diverged(row, train, train(reward="dense", normalize=normalize))


@pytest.mark.slow
@holds("a reward is NaN or infinite")
def test_a_reward_of_a_process_that_is_not_finite(row: Row, train: Train, before: Any) -> None:
    in_processes(before, lambda envs: envs.env_method("move_goal", np.full(3, np.nan), indices=[1]))
    assert_diverged(row, train, train(reward="dense", **PROCESSES))


@pytest.mark.parametrize("step", slow_except([15, 35], (35).__eq__))
@holds("a reward of an evaluation is NaN or infinite")
def test_a_reward_of_an_evaluation_that_is_not_finite(row: Row, step: int, train: Train, before: Any) -> None:
    before(RobotEnv, "step", rewarding(np.nan), call=step, where=judges)
    assert_diverged(row, train, train(reward="dense"))


@pytest.mark.parametrize(("base", "number"), [(SAC, np.inf), (PPO, np.nan), (TD3, np.nan)])
@holds("a gradient is NaN or infinite")
def test_a_gradient_that_is_not_finite(row: Row, base: type, number: float, train: Train, before: Any) -> None:
    """Of TD3's critic, in the update before the best evaluation, with an actor that is as good as before."""

    class Spoiled(base):  # type: ignore[misc,valid-type]
        def train(self, *args: Any, **kwargs: Any) -> None:
            if self.num_timesteps == 40:
                network = self.policy if base is PPO else self.critic
                next(network.parameters()).register_hook(lambda gradient: number * gradient)
            super().train(*args, **kwargs)

    overrides = {SAC: {}, PPO: {"n_steps": 10, "batch_size": 10}, TD3: {"policy_delay": 1000}}[base]
    defaults = {**small(base.__name__.lower()), **overrides} | ({} if base is PPO else {"learning_starts": 11})
    register_algorithm("spoiled", policy="MultiInputPolicy")(Spoiled)
    before(
        RobotEnv, "step", lambda env, _: env._observer.desired.fill(100.0), where=judges
    )  # the first evaluation is the worst
    assert_diverged(row, train, train(algo="spoiled", algo_params=defaults, reward="dense"))


# Code ---------------------------------------------------------------------------------------------------------------


@holds("a callback raises", "an environment raises")
def test_code_that_raises(row: Row, train: Train, before: Any, undisturbed: Path) -> None:
    if "callback" in row.fault:
        before(run_callbacks.ProgressBarCallback, "_on_step", mistake, call=35)
    else:
        before(RobotEnv, "step", mistake, call=35, where=trains)
    outcome = train()
    assert_ends_as(row, outcome)
    assert f"error: ValueError: a mistake of the user ({__file__}:" in outcome.err
    trace = (outcome.run / "traceback.txt").read_text()
    assert trace.endswith("ValueError: a mistake of the user\n")
    assert "in mistake" in trace
    assert_whole_files(outcome.run)
    assert_goes_on(train, outcome.run, undisturbed)


@pytest.mark.slow
@holds("an environment raises in a process of environments")
def test_an_environment_that_raises_in_a_process(row: Row, train: Train, before: Any, in_others: Path) -> None:
    in_processes(before, lambda envs: envs.set_attr("task", None, indices=[1]))
    outcome = train(**PROCESSES)
    assert_ends_as(row, outcome)
    assert "environment 2 of 2: AttributeError: 'NoneType'" in outcome.err
    assert "robot_env.py" in (outcome.run / "traceback.txt").read_text()
    assert_goes_on(train, outcome.run, in_others)  # with processes


# SIGTERM ------------------------------------------------------------------------------------------------------------


def assert_interrupted(row: Row, outcome: Outcome, steps: int, evaluations: int) -> None:
    assert_ends_as(row, outcome)
    assert_whole_files(outcome.run)
    left = result.Result.read(outcome.run)
    assert (left.steps, len(left.evaluations), left.success_rate) == (steps, evaluations, None)
    assert mygym.load(outcome.run) is not None


@holds("SIGTERM during an evaluation")
def test_sigterm_during_an_evaluation(row: Row, train: Train, before: Any, undisturbed: Path) -> None:
    before(RobotEnv, "step", terminate, call=15, where=judges)
    outcome = train()
    assert_interrupted(row, outcome, 40, 2)
    assert Checkpoints(outcome.run, keep=1).newest(pytest.fail).steps == 40
    assert_goes_on(train, outcome.run, undisturbed)


@pytest.mark.parametrize(("call", "steps", "evaluations"), [(7, 60, 2), (12, 80, 3)])
@holds("SIGTERM during a checkpoint")
def test_sigterm_during_a_checkpoint(
    row: Row, call: int, steps: int, evaluations: int, train: Train, before: Any, undisturbed: Path
) -> None:
    before(checkpoints, "write_bytes", terminate, call=call)
    outcome = train()
    assert_interrupted(row, outcome, steps, evaluations)
    assert Checkpoints(outcome.run, keep=1).newest(pytest.fail).steps == steps
    assert_goes_on(train, outcome.run, undisturbed)


@pytest.mark.parametrize("moment", slow_except(["evaluation", "checkpoint"], "checkpoint".__eq__))
@holds("SIGTERM twice")
def test_sigterm_twice(row: Row, moment: str, train: Train, before: Any, undisturbed: Path) -> None:
    def twice(*_: Any) -> None:
        terminate()
        terminate()

    if moment == "evaluation":
        before(RobotEnv, "step", twice, call=15, where=judges)
    else:
        before(checkpoints, "write_bytes", twice, call=7)
    outcome = train()
    assert_interrupted(row, outcome, *((40, 1) if moment == "evaluation" else (60, 2)))
    assert Checkpoints(outcome.run, keep=1).newest(pytest.fail).steps == 30
    assert_goes_on(train, outcome.run, undisturbed)


@holds("the terminal is closed (SIGHUP)")
def test_a_terminal_that_is_closed(row: Row, train: Train, before: Any, undisturbed: Path) -> None:
    before(RobotEnv, "step", lambda *_: os.kill(os.getpid(), signal.SIGHUP), call=15, where=judges)
    outcome = train()
    assert_interrupted(row, outcome, 40, 2)
    assert_goes_on(train, outcome.run, undisturbed)


@holds("Ctrl-C many times")
def test_ctrl_c_many_times(row: Row, train: Train, before: Any, undisturbed: Path) -> None:
    """Also while the run saves its last files and closes its environments."""

    def press(*_: Any) -> None:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)

    before(RobotEnv, "step", press, call=15, where=judges)
    before(result.Result, "write", press)
    before(session, "save_policy", press, call=2)
    before(RobotEnv, "close", press)
    outcome = train()
    assert_interrupted(row, outcome, 40, 1)
    assert outcome.err.count("\n") == 5  # the directory, the evaluation at step 0, an empty line, and both messages
    assert_goes_on(train, outcome.run, undisturbed)


@holds("SIGTERM during the final evaluation")
def test_sigterm_during_the_final_evaluation(row: Row, train: Train, before: Any, undisturbed: Path) -> None:
    before(RobotEnv, "step", terminate, call=35, where=judges)
    outcome = train()
    assert_interrupted(row, outcome, 80, 3)
    assert (outcome.run / "policy.safetensors").read_bytes() == (undisturbed / "policy.safetensors").read_bytes()
    assert_goes_on(train, outcome.run, undisturbed)


@pytest.mark.parametrize("moment", slow_except(["frames", "encoding"], "encoding".__eq__))
@holds("SIGTERM during the video")
def test_sigterm_during_the_video(
    row: Row, moment: str, train: Train, before: Any, tmp_path: Path, undisturbed: Path, monkeypatch: Any
) -> None:
    if moment == "frames":
        before(RobotEnv, "render", terminate, call=3)
    else:
        ffmpeg = tmp_path / "ffmpeg"
        work = f"kill -TERM {os.getpid()}\nsleep 60 <&- >/dev/null 2>&1\ntouch {tmp_path}/awaited\n"
        ffmpeg.write_text(f"#!/bin/sh\n{work}")
        ffmpeg.chmod(0o755)
        monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(ffmpeg))
    outcome = train()
    assert not (tmp_path / "awaited").exists()
    assert_ends_as(row, outcome)
    assert not list((outcome.run / "videos").iterdir())
    assert mygym.load(outcome.run) is not None
    monkeypatch.delenv("IMAGEIO_FFMPEG_EXE", raising=False)
    assert_goes_on(train, outcome.run, undisturbed)


# The clock ----------------------------------------------------------------------------------------------------------


def turn_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() + seconds)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + int(seconds * 1e9))


@pytest.mark.parametrize("stopped", slow_except([False, True], bool))  # also a stopped run ends with that clock
@holds("the clock is set back")
def test_a_clock_that_is_set_back(row: Row, stopped: bool, train: Train, before: Any, undisturbed: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        before(RobotEnv, "step", lambda *_: turn_clock(patch, -3600), call=35, where=trains)
        if stopped:
            before(checkpoints, "write_bytes", terminate, call=7)
        outcome = train()
        if stopped:
            newest = Checkpoints(outcome.run, keep=1).newest(pytest.fail)
            for path in (newest.path, *newest.path.iterdir()):
                os.utime(path, (0, 0))
            outcome = train(resume=outcome.run)
            assert "continues from 60 of 80 steps" in outcome.err
    assert_ends_as(row, outcome)
    assert_same(outcome.run, undisturbed)


@leaves_a_file_open
@holds("the clock is set back before 1980")
def test_a_clock_before_1980(row: Row, train: Train, before: Any, undisturbed: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        before(RobotEnv, "step", lambda *_: turn_clock(patch, 1000 - time.time()), call=35, where=trains)
        outcome = train()
    assert_ends_as(row, outcome)
    assert (outcome.run / "traceback.txt").exists()
    assert_whole_files(outcome.run)
    assert_goes_on(train, outcome.run, undisturbed)


# Logs and readers ---------------------------------------------------------------------------------------------------


@holds("a full queue of logs")
def test_logs_have_no_queue(row: Row, train: Train, before: Any, tmp_path: Path, undisturbed: Path) -> None:
    threads = threading.enumerate()
    seen: list[Any] = []

    def look(*_: Any) -> None:
        events = EventFileLoader(str(events_file(run_in(tmp_path) / "tensorboard"))).Load()
        seen.extend((event.step, value.tag) for event in events for value in event.summary.value)
        lines = (run_in(tmp_path) / "progress.jsonl").read_text().splitlines()
        seen.extend(line for line in map(json.loads, lines) if line["steps"] == 40)
        seen.append(threading.enumerate() == threads)

    before(RobotEnv, "step", look, call=41, where=trains)
    outcome = train()
    assert (40, "eval/success_rate") in seen
    assert any("eval/success_rate" in line for line in seen if isinstance(line, dict))
    assert seen[-1] is True
    assert_ends_as(row, outcome)
    assert_same(outcome.run, undisturbed)


@contextlib.contextmanager
def training(
    folder: Path, stderr: int | None, changes: Mapping[str, Any], **how: Any
) -> Iterator[subprocess.Popen[str]]:
    """`train.py` in a separate process."""
    file = folder / "config.json"
    file.write_text(json.dumps(merged(CONFIG, {"logdir": str(folder / "runs"), **changes})))
    command = [sys.executable, str(ROOT / "train.py"), "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def waiting(pipe: int) -> int:
    """Bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@contextlib.contextmanager
def standard_error(writer: int) -> Iterator[None]:
    """Replace standard error by a pipe, which is closed afterwards: the descriptor, and the object of pytest."""
    kept = os.dup(2), sys.stderr
    os.dup2(writer, 2)
    os.close(writer)
    sys.stderr = stream = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            stream.close()
        os.dup2(kept[0], 2)
        os.close(kept[0])
        sys.stderr = kept[1]


@holds("standard error is read slowly")
def test_standard_error_that_is_read_slowly(row: Row, train: Train, before: Any) -> None:
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    steps, seen, read = itertools.count(), list[int](), list[str]()
    before(RobotEnv, "step", lambda *_: None, where=lambda *_: next(steps) < 0)  # counts

    def read_slowly() -> None:
        with os.fdopen(reader) as lines:
            deadline = time.monotonic() + 60
            while waiting(reader) < size - 100 and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.2)
            for _ in range(2):
                seen.append(next(steps))
                time.sleep(0.3)
            read.append(lines.read())

    slow = threading.Thread(target=read_slowly)
    with standard_error(writer):
        slow.start()
        outcome = train(eval={"every": 1}, algo_params={"train_freq": 1}, video={"episodes": 0})
    slow.join(60)
    assert seen[1] == seen[0] + 1  # the run waits: no step between both looks
    assert len(read[0]) > size
    assert_ends_as(row, outcome._replace(err=read[0]))
    assert_whole_files(outcome.run)


@holds("the reader of standard error has exited")
def test_standard_error_without_reader(row: Row, train: Train, undisturbed: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with standard_error(writer):
        outcome = train()
    assert_ends_as(row, outcome)
    assert_same(outcome.run, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [False, True], ids=["reader exits", "closed"])
@holds("standard error is closed (`2>&-`)")
def test_standard_error_of_a_process(row: Row, closed: bool, tmp_path: Path, undisturbed: Path) -> None:
    """Closed from the start, or, with the same end, without a reader after the first line."""
    how = {"preexec_fn": lambda: os.close(2)} if closed else {}
    with training(tmp_path, None if closed else subprocess.PIPE, {}, **how) as process:
        if not closed:
            process.stderr.readline()
            process.stderr.close()
        outcome = Outcome(process.wait(60), process.stdout.read(), "")
    assert_ends_as(row, outcome)
    assert_same(outcome.run, undisturbed)


@holds("SIGTERM when standard error has no reader")
def test_sigterm_without_reader(row: Row, train: Train, before: Any, undisturbed: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with contextlib.ExitStack() as stack:

        def leave(*_: Any) -> None:
            stack.enter_context(standard_error(writer))
            terminate()

        before(RobotEnv, "step", leave, call=35, where=trains)
        outcome = train()
    assert_ends_as(row, outcome)
    assert Checkpoints(outcome.run, keep=1).newest(pytest.fail).steps == 35
    assert_goes_on(train, outcome.run, undisturbed)
