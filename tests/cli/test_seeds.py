"""`train.py --seeds`: processes, their order, signals, resuming and the summary; trainings are replaced by a script."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mygym
from mygym.cli import train as seeds
from mygym.cli.main import main
from mygym.cli.train import parse_seeds, resume_seeds, train_seeds
from mygym.errors import ConfigError, InterruptedRunError, RunError
from tests.reporting.runs import make_run

SCRIPT = """
import json, pathlib, shutil, signal, sys, time
words = sys.argv[1:]
if "--resume" in words:
    run = pathlib.Path(words[words.index("--resume") + 1])
    seed = int(run.name.removeprefix("seed_"))
else:
    seed = int(words[words.index("--seed") + 1])
    run = pathlib.Path("setting") / f"seed_{seed}"
    shutil.copytree("template", run)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(f"run: {run}") or 130))
print("step 1", *words, file=sys.stderr, flush=True)
if "--wait" in words:
    time.sleep(60)
result = json.loads(pathlib.Path("template/result.json").read_text())
steps = int(words[words.index("--steps") + 1]) if "--steps" in words else result["steps"]
(run / "result.json").write_text(json.dumps({**result, "seed": seed, "status": "done", "steps": steps}))
print(f"run: {run}")
sys.exit(f"--fail={seed}" in words)
"""
"""Copies the run `template` in place of a training."""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Words that start a program that leaves a run like `train.py`, in a new current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    template = make_run(tmp_path, 1.0, status="interrupted").rename(tmp_path / "template")
    result = json.loads((template / "result.json").read_text())
    (template / "result.json").write_text(json.dumps({**result, "config_hash": "setting"}))
    return [sys.executable, str(tmp_path / "script.py")]


@given(st.integers(0, 50), st.integers(0, 50))
def test_ranges_of_seeds(low: int, more: int) -> None:
    assert parse_seeds(f"{low}..{low + more}") == list(range(low, low + more + 1))
    assert parse_seeds(str(more + 1)) == list(range(more + 1))
    assert parse_seeds(f"{low},{low + more + 1}") == [low, low + more + 1]


@pytest.mark.parametrize("text", ["", "0", "4..0", "-1", "a", "1.5", "0,", "0..1000", "1001", "1..2..3"])
def test_texts_that_are_no_seeds(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--seeds: .*5, 0\.\.4, or 0,2,5"):
        parse_seeds(text)


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_seed_is_a_run_of_one_setting(jobs: int, program: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    train_seeds(program, [], [0, 1, 2], jobs)
    output = capsys.readouterr()
    records = mygym.results("setting")
    assert [record.seed for record in records] == [0, 1, 2]
    assert output.out == f"runs: {records[0].setting}\n"
    assert [f"seed {seed}: step 1" in output.err for seed in range(3)] == [True] * 3
    assert "success 100.0% (98.7% to 100.0%) over 3 seeds; 90 % after 9,000 env steps" in output.err


def test_a_failed_seed_does_not_stop_the_others(program: list[str]) -> None:
    with pytest.raises(RunError, match="the runs with the seeds 1 have failed"):
        train_seeds(program, ["--fail=1"], [0, 1, 2], 1)
    assert len(mygym.results("setting")) == 3


@pytest.mark.parametrize(("code", "error"), [(2, ConfigError), (1, RunError)])
def test_runs_that_are_refused_before_they_begin_end_as_a_single_one_does(
    code: int, error: type[Exception], tmp_path: Path
) -> None:
    refusing = tmp_path / "refusing.py"
    refusing.write_text(f"raise SystemExit({code})")
    with pytest.raises(error, match="no run has begun"):
        train_seeds([sys.executable, str(refusing)], [], [0, 1], 2)


def test_resuming_a_setting_runs_what_is_missing(program: list[str], tmp_path: Path) -> None:
    train_seeds(program, [], [0], 1)
    done = Path("setting/seed_0/result.json").stat().st_mtime_ns
    stopped = shutil.copytree("template", Path("setting/seed_1")) / "result.json"
    stopped.write_text(stopped.read_text().replace('"seed": 0', '"seed": 1'))
    resume_seeds(program, Path("setting"), [0, 1, 2], 1)
    assert [(record.status, record.seed) for record in mygym.results("setting")] == [
        ("done", seed) for seed in range(3)
    ]
    assert Path("setting/seed_0/result.json").stat().st_mtime_ns == done
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="has no runs"):
        resume_seeds(program, tmp_path / "empty", None, 1)
    shutil.copytree("setting", tmp_path / "log" / "other")
    with pytest.raises(ConfigError, match=r"--resume: '.*log' is a folder above settings; allowed: .*other"):
        resume_seeds(program, tmp_path / "log", None, 1)


def test_the_runs_of_a_setting_import_its_modules_and_stay_in_its_log_directory(
    program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train_seeds(program, [], [0], 1)
    shutil.copytree("template", "setting/seed_1")
    result = Path("setting/seed_1/result.json")
    result.write_text(result.read_text().replace('"seed": 0', '"seed": 1'))
    (tmp_path / "other").mkdir()
    for name in ("setting", "template"):
        (tmp_path / "other" / name).symlink_to(tmp_path / name)  # for the script
    monkeypatch.chdir(tmp_path / "other")
    resume_seeds(program, Path("..", "setting"), [1, 2], 1, imports=["lib.py"])
    lines = capsys.readouterr().err.splitlines()
    assert f"seed 1: step 1 --resume {Path('..', 'setting', 'seed_1')} --import lib.py" in lines
    (new,) = (line for line in lines if line.startswith("seed 2: step 1"))
    assert new.endswith(f"--seed 2 --logdir {tmp_path.parents[2]} --import lib.py")


def test_all_runs_of_a_setting_are_extended(program: list[str]) -> None:
    train_seeds(program, [], [0], 1)
    stopped = shutil.copytree("template", Path("setting/seed_1")) / "result.json"
    stopped.write_text(stopped.read_text().replace('"seed": 0', '"seed": 1'))
    resume_seeds(program, Path("setting"), [0, 1], 1, 20_000)
    assert [record.steps for record in mygym.results("setting")] == [20_000, 20_000]
    ended = Path("setting/seed_0/result.json").stat().st_mtime_ns
    resume_seeds(program, Path("setting"), [0, 1], 1, 20_000)
    assert Path("setting/seed_0/result.json").stat().st_mtime_ns == ended, "it has the steps already"
    with pytest.raises(ConfigError, match="--steps: 30000 extends runs; allowed: first --seeds 2 without --steps"):
        resume_seeds(program, Path("setting"), [0, 2], 1, 30_000)


def test_a_new_seed_does_not_join_runs_that_were_extended(program: list[str]) -> None:
    train_seeds(program, [], [0, 1], 1)
    for seed in (0, 1):
        result = Path(f"setting/seed_{seed}/result.json")
        result.write_text(result.read_text().replace('"setting"', '"of_more_steps"'))
        if seed == 0:
            resume_seeds(program, Path("setting"), [0, 1, 2], 1)  # with the config of the seed 1
    shutil.rmtree("setting/seed_2")
    with pytest.raises(ConfigError, match=r"--seeds: 2 .*were extended.* a seed of \[0, 1\]; or --config .* --seed 2"):
        resume_seeds(program, Path("setting"), [0, 1, 2], 1)


def test_a_signal_stops_every_process(program: list[str]) -> None:
    lines: list[str] = []

    def note(line: str) -> None:
        lines.append(line)
        if {line[: len("seed 0: step 1")] for line in lines} >= {"seed 0: step 1", "seed 1: step 1"}:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeds, "print_message", note)
        with pytest.raises(InterruptedRunError, match=r"train\.py --resume setting --seeds 0,1,2,3 --import my\.lib$"):
            train_seeds(program, ["--wait", "--import", "my.lib"], range(4), 2, ["my.lib"])
    assert [record.status for record in mygym.results("setting")] == ["interrupted", "interrupted"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--seeds", "none"], "--seeds: 'none'"),
        (["--seed", "0..x"], "--seeds: '0..x'"),
        (["--seeds", "1,1"], "--seeds: '1,1' has a seed twice; allowed: each seed once"),
        (["--seeds", "2", "--jobs", "0"], "--jobs: '0'"),
        (["--jobs", "2"], "--jobs: 2 is for several runs; allowed: --seeds"),
        (["--seed", "3", "--jobs", "1"], "--jobs: 1 is for several runs"),
        (["--seeds", "2", "--seed", "7"], "--seeds: '2' excludes one seed"),
        (["--seeds", "2", "--seed", "7,8"], "--seeds: '2' excludes one seed"),
        (["--seeds", "2", "--set", "seed=5"], "--seeds: '2' excludes one seed"),
        (["--seeds", "2", "--algo", "sca"], "did you mean 'sac'"),
        (["--seeds", "2", "--robot", "kuka", "--task", "pick_and_place"], "'kuka' has no gripper"),
    ],
)
def test_bad_input_starts_no_process(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", *words])
    assert end.value.code == 2
    assert text in capsys.readouterr().err


def test_other_flags_of_a_resumed_setting_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setting = make_run(tmp_path, status="interrupted").parent
    with pytest.raises(SystemExit) as end:
        main(["train", "--resume", str(setting), "--steps", "40000", "--algo", "ppo"])
    assert end.value.code == 2
    refused = (
        "'--algo' cannot be combined with --resume SETTING; allowed: --seeds, --seed, --jobs, --steps and --import"
    )
    assert refused in capsys.readouterr().err


def test_a_setting_is_resumed_with_the_one_seed_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = make_run(tmp_path).parent
    (tmp_path / "lib.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["train", "--resume", str(setting), "--seed", "1", "--steps", "40000", "--import", "lib.py"])
    assert end.value.code == 2
    assert "--steps: 40000 extends runs; allowed: first --seeds 1 without --steps" in capsys.readouterr().err


@pytest.mark.slow
def test_seeds_are_ordinary_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--steps", "60", "--set", "eval.final_episodes=1", "--set", "eval.episodes=1", "--set", "video.episodes=0"]
    with pytest.raises(SystemExit) as end:
        main(["train", "--seeds=2", "--jobs=2", "--logdir", str(tmp_path), *short])
    assert end.value.code == 0
    alone = mygym.train({"steps": 60, "seed": 1, "logdir": str(tmp_path / "alone"), "video": {"episodes": 0},
                         "eval": {"episodes": 1, "final_episodes": 1}})  # fmt: skip
    first, second = mygym.results(next(tmp_path.glob("reach")))
    assert (first.status, second.status, second.seed) == ("done", "done", 1)
    policy = (alone.path / "policy.safetensors").read_bytes()
    assert (Path(second.path) / "policy.safetensors").read_bytes() == policy
