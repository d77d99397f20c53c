"""Judged runs: rows of a real run, their checksums, repetition, and the leaderboard of this repository."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mygym
from mygym.cli.main import main
from mygym.errors import ConfigError
from mygym.reporting import judgement
from mygym.reporting.judgement import Repetition, judge
from mygym.reporting.leaderboard import Row, merge, ranked, read
from mygym.training import evaluation
from mygym.training.evaluation import JUDGE
from tests.conftest import ROOT
from tests.reporting.runs import make_run

EPISODES = 4
BOARD = ROOT / "benchmarks" / "leaderboard.json"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a moment."""
    short = {"steps": 20, "eval": {"episodes": 1, "final_episodes": 1}, "video": {"episodes": 0}, "tensorboard": False}
    small = {"policy_kwargs": {"net_arch": [8]}}
    return mygym.train({**short, "algo_params": small, "logdir": str(tmp_path_factory.mktemp("r"))}).path


@pytest.fixture(scope="module")
def row(run: Path) -> Row:
    return judge(run, EPISODES)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    return None


def mygym_command(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(words)
    return int(end.value.code or 0)


def test_a_row_describes_its_run(run: Path, row: Row) -> None:
    result = json.loads((run / "result.json").read_text())
    assert row.run == "/".join(run.parts[-5:])
    assert (row.config_hash, row.steps, row.seed, row.episodes) == (result["config_hash"], 20, 0, EPISODES)
    assert row.versions == result["versions"]
    assert row.changes == {"steps": 20, "algo_params": {"policy_kwargs": {"net_arch": [8]}}}
    assert str(run.parents[4]) not in json.dumps(row.to_json())


def test_episodes_repeat_and_are_those_of_no_training_or_evaluation(
    run: Path, row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[list[int]] = []

    def evaluate(name: str, policy: Any, envs: Any, seeds: list[int]) -> evaluation.Evaluation:
        played.append(seeds)
        return evaluation.evaluate_or_fail(name, policy, envs, seeds)

    monkeypatch.setattr(judgement, "evaluate_or_fail", evaluate)
    assert replace(judge(run, EPISODES), date=row.date) == row
    judge(run, EPISODES, number=1)
    first, again = played
    assert not set(first) & set(again)
    assert {seed >> 30 for seed in first + again} == {JUDGE}
    purposes = {name: value for name, value in vars(evaluation).items() if name.isupper() and isinstance(value, int)}
    del purposes["BATCH"]
    assert len(set(purposes.values())) == len(purposes)


def test_the_command_adds_a_row_and_replaces_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(run.parents[4], status="interrupted")
    for _ in range(2):
        assert mygym_command("judge", str(run.parents[4]), "--episodes", str(EPISODES)) == 0
    out, err = capsys.readouterr()
    assert "leaderboard: leaderboard.json" in out
    assert "is not judged: it is interrupted" in err
    (written,) = json.loads(Path("leaderboard.json").read_text())["rows"]
    assert written["success_low"] <= written["success_rate"] <= written["success_high"]
    assert mygym_command("judge", "--again", "leaderboard.json", str(run)) == 0
    assert mygym_command("leaderboard", "--csv") == 0
    assert "reach,panda,sac,20," in capsys.readouterr().out


def test_a_run_that_cannot_be_judged_does_not_stop_the_others(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        shutil.copytree(run, Path("runs") / Path(*run.parts[-5:-1]) / f"seed_{seed}")
    first, second = sorted(Path("runs").rglob("seed_*"))
    for path, seed in ((first, 0), (second, 1)):
        result = json.loads((path / "result.json").read_text())
        (path / "result.json").write_text(json.dumps({**result, "seed": seed}))
    words = ["judge", "runs", "--episodes", str(EPISODES)]
    assert mygym_command(*words) == 0
    (first / "config.yaml").write_text("task: [")
    Path("leaderboard.json").rename("both.json")
    capsys.readouterr()
    assert mygym_command(*words) == 1
    out, err = capsys.readouterr()
    assert f"error: {first} is not judged: " in err
    assert "leaderboard: leaderboard.json" in out
    assert [judged.seed for judged in read(Path("leaderboard.json"))] == [1]
    assert mygym_command("judge", "--again", "both.json", "runs", "--json") == 1
    outcomes = json.loads(capsys.readouterr().out)
    assert [outcome["agrees"] for outcome in outcomes] == [False, True]
    assert "config.yaml" in outcomes[0]["why"]
    assert mygym_command("judge", str(first)) == 2


def test_an_edited_row_is_refused_and_a_forged_row_disagrees(
    run: Path, row: Row, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path("board.json")
    merge(file, row)
    honest = file.read_text()
    file.write_text(honest.replace('"steps": 20', '"steps": 10', 1))
    for words in (["leaderboard", "board.json"], ["judge", str(run), "-o", "board.json"]):
        assert mygym_command(*words) == 2
        assert "was changed after it was judged" in capsys.readouterr().err
    merge(Path("forged.json"), replace(row, successes=300, episodes=300))  # with a checksum that is right
    assert mygym_command("judge", "--again", "forged.json", str(run), "--episodes", str(EPISODES), "--json") == 1
    (outcome,) = json.loads(capsys.readouterr().out)
    assert (outcome["agrees"], outcome["why"]) == (False, "the intervals do not overlap")


def test_agreement(row: Row) -> None:
    better = replace(row, successes=80, episodes=100)
    assert Repetition(better, replace(better, successes=90)).difference == ""
    assert Repetition(better, replace(better, successes=99)).difference == "the intervals do not overlap"
    assert "weights" in Repetition(row, replace(row, policy_sha256="0")).difference
    assert "config" in Repetition(row, replace(row, config_hash="0")).difference


def test_rows_of_processes_that_judge_at_the_same_time_are_all_kept(row: Row) -> None:
    file = Path("board.json")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda seed: merge(file, replace(row, run=f"run_{seed}")), range(24)))
    assert len(read(file)) == 24
    assert [path.name for path in Path().iterdir()] == ["board.json"]


def test_the_folder_of_a_new_leaderboard_is_created(row: Row, tmp_path: Path) -> None:
    merge(tmp_path / "new" / "folder" / "board.json", row)
    assert read(tmp_path / "new" / "folder" / "board.json") == [row]


def test_rows_are_ranked_by_success_then_by_steps(row: Row) -> None:
    rows = [replace(row, successes=successes, steps=steps) for successes, steps in ((1, 5), (2, 9), (2, 7))]
    assert [(each.successes, each.steps) for each in ranked(rows)] == [(2, 7), (2, 9), (1, 5)]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["judge"], "has no RUN"),
        (["judge", "nowhere"], "is not a folder"),
        (["judge", "unfinished"], "has failed"),
        (["judge", "unfinished", "-o", "board.yaml"], "a file that ends in .json"),
        (["judge", "unfinished", "-o", "other.json"], "is no leaderboard"),
        (["judge", "unfinished", "--episodes", "0"], "--episodes"),
        (["judge", "--again", "gone.json"], "does not exist"),
        (["judge", "--again", "board.json", "-o", "x.json"], "--again writes no file"),
        (["judge", "--again", "board.json", "finished"], "are not in this folder"),
        (["leaderboard", "other.json"], "is no leaderboard"),
        (["leaderboard", "board.json", "--csv", "--json"], "exclude each other"),
    ],
)
def test_bad_input(words: list[str], text: str, row: Row, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("unfinished"), status="failed")
    make_run(Path("finished"))
    Path("other.json").write_text("[1]")
    merge(Path("board.json"), row)
    assert mygym_command(*words) == 2
    assert text in capsys.readouterr().err


def test_an_unfinished_run_is_not_judged() -> None:
    with pytest.raises(ConfigError, match="is failed"):
        judge(make_run(Path("unfinished"), status="failed"), EPISODES)


def test_the_documents_render_the_leaderboard_of_this_repository(capsys: pytest.CaptureFixture[str]) -> None:
    rows = read(BOARD)
    assert len({row.task for row in rows}) > 1
    releases = re.findall(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert {row.versions["mygym"] for row in rows} <= set(releases)
    assert all(row.episodes >= 100 for row in rows)
    assert mygym_command("leaderboard", str(BOARD), "--markdown") == 0
    assert f"\n\n{capsys.readouterr().out}\n" in (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
