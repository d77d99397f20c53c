"""Datasets: round trip, Minari's readers, partial writes, damaged files, foreign folders."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pytest

import mygym
from mygym.cli.main import main
from mygym.demonstrations import Demonstration, load_demonstrations
from mygym.demonstrations.storage import storing
from mygym.envs.robot_env import RobotEnv
from mygym.errors import ConfigError, RunError
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset of segments of noisy episodes, some of which fail."""
    path = tmp_path_factory.mktemp("demonstrations") / "push-v3"
    options: dict[str, Any] = {"noise": [0.0, 0.6], "partial": 0.6, "keep_failures": True, "seed": 1}
    mygym.demonstrate({"task": "push", "task_params": {"horizon": 25}}, out=path, episodes=6, **options)
    return path


@pytest.fixture
def copied(dataset: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(dataset, tmp_path / "copied"))


def record(path: Path, episodes: int = 2) -> None:
    mygym.demonstrate({"task": "reach"}, out=path, episodes=episodes)


def assert_equal(first: Demonstration, second: Demonstration) -> None:
    for field in fields(Demonstration):
        a, b = getattr(first, field.name), getattr(second, field.name)
        pairs = [(a[key], b[key]) for key in a] if isinstance(a, dict) else [(a, b)]
        for left, right in pairs:
            np.testing.assert_array_equal(left, right)
            assert np.asarray(left).dtype == np.asarray(right).dtype, field.name


def test_round_trip(dataset: Path, tmp_path: Path) -> None:
    read = load_demonstrations(dataset)
    assert len(read) == 6
    assert {demonstration.noise for demonstration in read.episodes} == {0.0, 0.6}
    assert any(len(demonstration.lead_in) for demonstration in read.episodes)
    with storing(tmp_path / "again", read.observation_space, read.action_space) as (store, store_metadata):
        for demonstration in read.episodes:
            store(demonstration)
        store_metadata({"config": dict(read.values), **read.about})
    again = load_demonstrations(tmp_path / "again")
    for first, second in zip(read.episodes, again.episodes, strict=True):
        assert_equal(first, second)
    assert (again.values, again.about) == (read.values, read.about)
    assert (again.observation_space, again.action_space) == (read.observation_space, read.action_space)


def test_dataset_contains_the_config(dataset: Path) -> None:
    config = load_demonstrations(dataset).config
    assert (config.task, config.robot, config.task_params.horizon) == ("push", "panda", 25)


def test_transitions_concatenate_the_steps(dataset: Path) -> None:
    read = load_demonstrations(dataset)
    steps = read.transitions()
    assert len(steps.actions) == sum(map(len, read.episodes))
    assert isinstance(steps.observations, dict)
    assert isinstance(steps.next_observations, dict)
    first = 0
    for demonstration in read.episodes:
        rows, first = slice(first, first + len(demonstration)), first + len(demonstration)
        assert isinstance(demonstration.observations, dict)
        for key, values in demonstration.observations.items():
            np.testing.assert_array_equal(steps.observations[key][rows], values[:-1])
            np.testing.assert_array_equal(steps.next_observations[key][rows], values[1:])
        np.testing.assert_array_equal(steps.actions[rows], demonstration.actions)
        np.testing.assert_array_equal(steps.expert_actions[rows], demonstration.expert_actions[:-1])
        np.testing.assert_array_equal(steps.rewards[rows], demonstration.rewards)
    ends = np.cumsum([len(demonstration) for demonstration in read.episodes]) - 1
    assert (steps.terminated | steps.truncated).nonzero()[0].tolist() == ends.tolist()


def test_minari_reads_the_dataset(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(dataset.parent))
    read, loaded = load_demonstrations(dataset), minari.load_dataset(dataset.name)
    assert list(minari.list_local_datasets()) == [dataset.name] == [loaded.id]
    assert loaded.spec.total_episodes == 6
    assert loaded.total_steps == sum(map(len, read.episodes))
    for demonstration, episode in zip(read.episodes, loaded.iterate_episodes(), strict=True):
        np.testing.assert_array_equal(demonstration.actions, episode.actions)
        np.testing.assert_array_equal(demonstration.expert_actions, episode.infos["expert_action"])
        assert loaded.action_space.contains(episode.actions[0])
        assert loaded.observation_space.contains({key: values[0] for key, values in episode.observations.items()})
    metadata = list(loaded.storage.get_episode_metadata([0, 1]))
    assert [(entry["seed"], entry["noise"]) for entry in metadata] == [(e.seed, e.noise) for e in read.episodes[:2]]


def test_minari_recovers_the_environment(dataset: Path) -> None:
    demonstration = load_demonstrations(dataset).episodes[0]
    env = minari.MinariDataset(dataset / "data").recover_environment()
    env.reset(seed=demonstration.seed)
    for action in demonstration.lead_in:
        env.step(action)
    observation, *_ = env.step(demonstration.actions[0])
    assert isinstance(demonstration.observations, dict)
    np.testing.assert_array_equal(observation["observation"], demonstration.observations["observation"][1])
    env.close()
    assert gymnasium.spec("mygym/Gym-v0").kwargs == {}, "the registered id is unchanged"


@pytest.mark.parametrize(("name", "identifier"), {"pick": "pick-v0", "a b": "a_b-v0", "x-v2": "x-v2"}.items())
def test_dataset_ids_are_valid_in_minari(name: str, identifier: str, tmp_path: Path) -> None:
    record(tmp_path / name)
    assert minari.MinariDataset(tmp_path / name / "data").spec.dataset_id == identifier


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record(Path("deep/down"))
    assert sorted(path.name for path in Path("deep").iterdir()) == ["down"]
    assert [path.name for path in Path("deep/down").iterdir()] == ["data"]


# No overwritten files, no partial files ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_existing_paths_are_kept(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "existing")
    before = os.lstat(tmp_path / "existing")
    with pytest.raises(ConfigError, match=r"out: .*existing' exists already"):
        record(tmp_path / "existing")
    assert os.lstat(tmp_path / "existing") == before


def test_foreign_partial_folder_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".new.part").mkdir()
    (tmp_path / ".new.part" / "foreign").touch()
    with pytest.raises(ConfigError, match=r"\.new\.part'"):
        record(tmp_path / "new")
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == [".new.part", ".new.part/foreign"]


def test_failed_recording_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"zero: 0 of 10 .*1"):
        mygym.demonstrate(
            {"task": "push", "task_params": {"horizon": 4}}, policy="zero", out=tmp_path / "new", episodes=1
        )
    assert list(tmp_path.iterdir()) == []


def run_demos(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run in a separate process, because HDF5 may crash it or print at its exit."""
    words = ["demos", "reach", "--episodes", "40", "--out", "new"]
    code = f"import os, resource\nfrom mygym.cli.main import main\nwords = {words}\n{code}"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=99)


@pytest.fixture
def full_disks(tmp_path: Path) -> Iterator[list[Path]]:
    """Mount disks of several sizes, each too small for all episodes."""
    disks: list[Path] = []
    for size in (8, 12, 500):
        disk = tmp_path / f"disk_of_{size}_k"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", disk], check=False)
        if mounted.returncode == 0:
            disks.append(disk)
    yield disks
    for disk in disks:
        subprocess.run(["umount", "-l", disk], check=True)


def test_full_disks_and_a_file_size_limit_leave_nothing(full_disks: list[Path], tmp_path: Path) -> None:
    """One process for all disks, if any can be mounted, and for the limit: most of the time is its start."""
    limited = tmp_path / "limited"
    limited.mkdir()
    code = f"""
for folder in {[str(folder) for folder in (*full_disks, limited)]}:
    os.chdir(folder)
    if folder == {str(limited)!r}:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, {resource.RLIM_INFINITY}))
    try:
        main(words)
    except SystemExit as end:
        print(end.code)
"""
    done = run_demos(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "1\n" * (len(full_disks) + 1))
    messages = ["No space left on device"] * len(full_disks) + ["File too large"]
    assert done.stderr == "".join(f"error: new: cannot be written: {message}\n" for message in messages)
    assert [list(folder.iterdir()) for folder in (*full_disks, limited)] == [[]] * (len(full_disks) + 1)


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that records many episodes, and wait until it has stored some of them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "mygym", "demos", "reach", "--episodes", "100000", "--out", "new"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    file = tmp_path / ".new.part" / "data" / "main_data.hdf5"
    until = time.monotonic() + 60
    while not (file.exists() and file.stat().st_size > 100_000):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_killed_process_leaves_no_dataset_and_the_next_process_cleans_up(
    recording: subprocess.Popen[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="is being written by another process"):
        record(tmp_path / "new")
    assert recording.poll() is None
    recording.kill()
    recording.wait()
    assert not (tmp_path / "new").exists()
    record(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert len(load_demonstrations(tmp_path / "new")) == 2


def test_ctrl_c_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    steps, step = itertools.count(), RobotEnv.step

    def interrupted(env: RobotEnv, action: Any) -> Any:
        if next(steps) == 60:
            os.kill(os.getpid(), signal.SIGINT)
        return step(env, action)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RobotEnv, "step", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits it as ignored
    with pytest.raises(SystemExit) as end:
        main(["demos", "reach", "--episodes", "20", "--out", "new"])
    signal.signal(signal.SIGINT, before)
    assert end.value.code == 130
    assert 60 < next(steps) < 120, "after this episode"
    assert capfd.readouterr().err == "\nSIGINT: stopping after this episode; again: at once\ninterrupted\n"
    assert list(tmp_path.iterdir()) == []


# Invalid datasets ----------------------------------------------------------------------------------------------------


def test_missing_dataset_is_refused(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset: .*nowhere'"):
        load_demonstrations(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=rf"dataset: .* is not a dataset .*; allowed: {dataset}"):
        load_demonstrations(dataset.parent)


def change(path: Path, **changes: Any) -> None:
    file = path / "data" / "metadata.json"
    content = json.loads(file.read_text())
    content.update(changes)
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def test_foreign_minari_dataset_is_refused(copied: Path) -> None:
    change(copied, mygym=None)
    with pytest.raises(ConfigError, match=r"^dataset: .*copied"):
        load_demonstrations(copied)


@pytest.mark.parametrize("metadata", [{"config": 5, "policy": "oracle"}, {"config": {}}, {"policy": "oracle"}, {}])
def test_incomplete_metadata_is_refused(metadata: dict[str, Any], copied: Path) -> None:
    change(copied, mygym=metadata)
    with pytest.raises(ConfigError, match=r"^dataset: '.*copied' cannot be read: [^\n]+; allowed: [^\n]+$"):
        load_demonstrations(copied)


@pytest.mark.parametrize(
    ("name", "words"), [("metadata.json", "is not a dataset"), ("main_data.hdf5", "is not a regular file")]
)
def test_pipe_in_a_dataset_is_refused(name: str, words: str, copied: Path) -> None:
    (copied / "data" / name).unlink()
    os.mkfifo(copied / "data" / name)  # reading it would block
    with pytest.raises(ConfigError, match=words):
        load_demonstrations(copied)


def test_third_party_environment_is_not_built(copied: Path) -> None:
    """Minari would build it to get the spaces, and so execute the entry point of `env_spec`."""
    spec = {"id": "Evil-v0", "entry_point": "os:abort", "kwargs": {}, "additional_wrappers": []}
    change(copied, observation_space=None, env_spec=json.dumps(spec))
    with pytest.raises(ConfigError, match=r"^dataset: .*copied"):
        load_demonstrations(copied)


@pytest.mark.parametrize("keep", [0, 100, 30_000])
def test_truncated_file_is_refused(keep: int, copied: Path) -> None:
    os.truncate(copied / "data" / "main_data.hdf5", keep)
    with pytest.raises(ConfigError, match=r"^dataset: '.*copied' cannot be read: [^\n]+; allowed: [^\n]+$"):
        load_demonstrations(copied)


DAMAGES: dict[str, Callable[[Any], None]] = {
    "no seed": lambda episode: episode.attrs.pop("seed"),
    "no labels": lambda episode: episode["infos"].pop("expert_action"),
    "fewer rewards": lambda episode: episode["rewards"].resize((2,)),
    "fewer observations": lambda episode: episode["observations"]["achieved_goal"].resize((2, 3)),
    "beyond the space": lambda episode: episode["actions"].__setitem__((0, 0), 5.0),
    "labels beyond the space": lambda episode: episode["infos"]["expert_action"].__setitem__((0, 0), 5.0),
    "not a number": lambda episode: episode["actions"].__setitem__((0, 0), np.nan),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_episode_is_refused(damage: str, copied: Path) -> None:
    with h5py.File(copied / "data" / "main_data.hdf5", "r+") as file:
        DAMAGES[damage](file["episode_1"])
    with pytest.raises(ConfigError, match=r"^dataset: '.*copied' cannot be read: [^\n]+; allowed: [^\n]+$"):
        load_demonstrations(copied)


def test_dataset_without_episodes_is_refused(copied: Path) -> None:
    change(copied, total_episodes=0)
    with pytest.raises(ConfigError, match="holds no episode"):
        load_demonstrations(copied)


@pytest.mark.parametrize("package", ["minari", "h5py"])
@pytest.mark.parametrize("command", ["demos", "replay"])
def test_missing_extra_is_reported(
    package: str, command: str, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as end:
        main(["demos", "reach", "--out", "new"] if command == "demos" else ["replay", str(dataset)])
    assert end.value.code == 2
    message = f'error: demonstrations: needs the package {package!r}: pip install "mygym[demos]"\n'
    assert capsys.readouterr() == ("", message)
    assert list(tmp_path.iterdir()) == []
