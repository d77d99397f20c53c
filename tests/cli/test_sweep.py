"""`mygym sweep`: a sweep of ordinary runs, kill -9 at random moments, bad input."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.cli.main import main
from mygym.config import load_file
from mygym.sweeps import executors
from mygym.sweeps.run import find_trials
from mygym.sweeps.settings import make_sweep
from tests.command import Command
from tests.sweeps.executor import TrainingExecutor
from tests.sweeps.kills import killed_at_ten_moments, start

FILE = """
algo: ppo
steps: {steps}
n_envs: 2
task_params: {{horizon: 10}}
eval: {{every: {every}, episodes: 2, final_episodes: 5}}
checkpoint: {{every: {every}}}
algo_params:
  n_steps: 32
  n_epochs: {{int: [1, 3]}}
  batch_size: {{choice: [16, 32]}}
  learning_rate: {{loguniform: [1e-5, 1e-2]}}
sweep: {{trials: {trials}, pruner: {pruner}, objective: {{maximize: mean_return}}}}
"""


class OneProcess(executors.LocalExecutor):
    """Trains the first run in a process, and the others in this process: PyTorch takes seconds to import."""

    first = True

    def submit(self, job: executors.Job) -> Any:
        handle = super().submit(job) if self.first else TrainingExecutor().submit(job)
        self.first = False
        return handle

    def poll(self, handle: Any) -> int | None:
        return handle if isinstance(handle, int) else super().poll(handle)


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a sweep of two runs, which all tests of this file share."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "space.yaml").write_text(FILE.format(steps=128, every=64, trials=2, pruner="none"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "LocalExecutor", OneProcess)
        with pytest.raises(SystemExit) as ended:
            main(["sweep", str(folder / "space.yaml"), "--jobs", "1", "--out", str(folder / "out"), "--json"])
    assert ended.value.code == 0
    return folder / "out"


def runs_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("trials/*/*/*/*/*/seed_*"))


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open() as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def test_trials_are_ordinary_runs(swept: Path, tmp_path: Path) -> None:
    first, second = runs_of(swept)
    assert [record.status for record in mygym.results(swept)] == ["done", "done"]
    again = mygym.train({**load_file(swept / "trials/0000/trial.yaml"), "seed": 0, "logdir": str(tmp_path)})
    assert again.config_hash == first.parent.name != second.parent.name
    assert (again.path / "policy.safetensors").read_bytes() == (first / "policy.safetensors").read_bytes()


def test_the_table_and_the_best_config_agree_with_the_runs(swept: Path) -> None:
    returns = {str(int(run.parts[-6])): json.loads((run / "result.json").read_text())["mean_return"]
               for run in runs_of(swept)}  # fmt: skip
    rows = rows_of(swept)
    assert {row["trial"]: float(row["score"]) for row in rows} == returns
    best = load_file(swept / "best.yaml")
    assert best["algo_params"] == load_file(swept / f"trials/{int(rows[0]['trial']):04}/trial.yaml")["algo_params"]
    assert (swept / "best.yaml").read_text().startswith(f"# trial {rows[0]['trial']}: mean_return")


def test_a_complete_sweep_is_read_again(swept: Path, mygym_command: Command) -> None:
    code, out, err = mygym_command("sweep", "--resume", str(swept), "--jobs", "1")
    assert code == 0, err
    assert out.splitlines()[-2:] == [f"best: {swept / 'best.yaml'}", f"sweep: {swept}"]
    assert len(runs_of(swept)) == 2


def test_repeated_past_runs_are_one_trial(swept: Path, tmp_path: Path) -> None:
    for name in ("past/first", "past/second"):
        shutil.copytree(swept / "trials", tmp_path / name)
    sweep = make_sweep(load_file(swept.parent / "space.yaml"))
    (alone, *_), together = find_trials(sweep, [swept]), find_trials(sweep, [tmp_path / "past"])
    assert [trial["values"] for trial in together].count(alone["values"]) == 1
    assert len(together) == 2


def test_past_runs_become_trials(swept: Path, mygym_command: Command, tmp_path: Path) -> None:
    words = ["sweep", str(swept.parent / "space.yaml"), "--past", str(swept), "--out", str(tmp_path / "new"), "--json"]
    code, out, err = mygym_command(*words)
    assert code == 0, err
    rows = json.loads(out)["trials"]
    assert {row["state"] for row in rows} == {"past"}
    assert {str(row["score"]) for row in rows} == {row["score"] for row in rows_of(swept)}
    assert not (tmp_path / "new/trials").exists()
    code, out, err = mygym_command(*words[:-2], str(tmp_path / "other"), "--set", "n_envs=3")
    assert code == 2
    assert f"--past: '{swept}' has no such runs" in err
    assert not (tmp_path / "other").exists()


def test_the_best_trial_is_trained_on(
    swept: Path, mygym_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "LocalExecutor", lambda *_: TrainingExecutor())
    folder = tmp_path / "copy"
    shutil.copytree(swept, folder)
    code, out, err = mygym_command("sweep", "--resume", str(folder), "--train-on", "1", "--steps", "192")
    assert code == 0, err
    assert out.splitlines()[-2] == f"best: {folder / 'trained_on.yaml'}"
    trial = int(rows_of(folder)[0]["trial"])
    (run,) = folder.glob(f"trials/{trial:04}/*/*/*/*/seed_0")
    assert json.loads((run / "result.json").read_text())["steps"] == 192
    assert "learning continues from 128 to 192 steps" in (folder / f"trials/{trial:04}/seed_0.log").read_text()


def test_the_state_of_a_sweep_is_printed(swept: Path, mygym_command: Command) -> None:
    code, out, err = mygym_command("sweep", "--watch", str(swept))
    assert (code, err) == (0, "")
    first, best = out.splitlines()
    assert first == "2 of 2 trials"
    assert best.startswith(f"best: trial {rows_of(swept)[0]['trial']}: mean_return")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", "space: {} has no range"),
        ("--set algo_params.gamma={gird:[0.9]}", "algo_params.gamma: 'gird' is not a range"),
        ("missing.yaml", "'missing.yaml' does not exist"),
        ("--space default --trials 0", "--trials: '0'"),
        ("--space default --jobs none", "--jobs: 'none'"),
        ("--space gamma=3", "--space: 'gamma=3'"),
        ("--space algo_params.gamma={uniform:[1,0.5]}", "algo_params.gamma: {'uniform': [1, 0.5]} is inverted"),
        ("--space algo_params.gamm={uniform:[0.5,0.9]}", "did you mean 'gamma'?"),
        ("--space algo_params.learning_rate={loguniforn:[1e-5,1e-2]}", "did you mean 'loguniform'?"),
        ("--space algo_params.learning_rate={gird:[1e-5,1e-2]}", "did you mean 'grid'?"),
        ("--space steps={itn:[1,2]}", "steps: 'itn' is not a range; allowed: grid, choice, uniform, loguniform, int;"),
        ("--space default --set algo_params.gamma={unifrom:[0.5,0.9]}", "algo_params.gamma: 'unifrom' is not a range"),
        ("--space steps={}", "steps: '' is not a range"),
        ("--space default --set sweep.trails=3", "did you mean 'trials'?"),
        ("--resume nowhere", "--resume: 'nowhere' has no sweep.yaml"),
        ("--resume a --out b", "--resume and --logdir exclude each other"),
        ("--space default --out taken", "--logdir: 'taken' exists already"),
        ("--space default --past taken", "--past: 'taken' has no such runs"),
        ("--space default --jobs 9000", "--jobs: 9000 needs"),
        (
            "--space algo_params.learning_rate={choice:[0.1]} --set algo_params.buffer_size=4_000_000_000",
            "needs too much memory",
        ),
        (
            "--set algo=ppo --set task=pick_and_place --space robot={choice:[panda,kuka]}",
            "(in the trial robot=kuka)",
        ),
        ("--space default --train-on 3", "--train-on N needs --resume DIR and --steps N"),
        ("--space default --executor rey", "did you mean 'ray'?"),
        ("--space default --address auto", "--address: 'auto' is the address of a Ray cluster"),
        ("--space default --resource num_gpus=1", "--resource: 'num_gpus=1'"),
        ("--watch nowhere", "--watch: 'nowhere' has no sweep.yaml"),
        ("--watch a --resume b", "it cannot be combined with --resume"),
    ],
)
def test_bad_input_writes_nothing(words: str, text: str, mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    code, out, err = mygym_command("sweep", *words.replace("{", " {").replace("= {", "={").split())
    assert (code, out) == (2, "")
    assert text in err
    assert len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.slow
def test_a_sweep_killed_at_ten_moments_is_the_same_sweep(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(FILE.format(steps=3072, every=512, trials=9, pruner="hyperband"))

    def begin(folder: str) -> subprocess.Popen[bytes]:
        words = ["--resume", folder] if (tmp_path / folder).exists() else ["space.yaml", "--out", folder]
        return start(tmp_path, "sweep", *words, "--jobs", "1")

    assert begin("whole").wait() == 0
    assert killed_at_ten_moments(lambda: begin("killed")) == 0
    tables = [rows_of(tmp_path / name) for name in ("killed", "whole")]
    for row in (row for table in tables for row in table if row["state"] == "pruned"):
        del row["runs"]  # the run of a killed sweep goes on: it may end before the next sweep stops it
    assert tables[0] == tables[1]
    assert (tmp_path / "killed/best.yaml").read_text() == (tmp_path / "whole/best.yaml").read_text()
    complete = [row["trial"] for row in rows_of(tmp_path / "whole") if row["state"] == "complete"]
    for trial in complete:  # those that were pruned have stopped at different steps
        first, second = (
            next(run for run in runs_of(tmp_path / name) if int(run.parts[-6]) == int(trial))
            for name in ("whole", "killed")
        )
        assert (first / "policy.safetensors").read_bytes() == (second / "policy.safetensors").read_bytes()
