"""Every benchmark starts, every stored result names its command, and both sides of `overhead` train the same."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from benchmarks import overhead
from mygym.engines.engine import MUJOCO
from tests.conftest import ROOT

PROGRAMS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_help(program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(program), "--help"])
    monkeypatch.syspath_prepend(str(program.parent))
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(program), run_name="__main__")
    assert end.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_a_result_has_its_command() -> None:
    for result in sorted((ROOT / "benchmarks" / "results").glob("*.md")):
        text = result.read_text(encoding="utf-8")
        assert text.startswith("# ")
        program = result.stem.removesuffix(f"_{MUJOCO}")  # of the same program in another engine
        engine = f" --engine {MUJOCO}" if program != result.stem else ""
        assert f"`python benchmarks/{program}.py{engine}" in text
        assert (ROOT / "benchmarks" / f"{program}.py").is_file()
        assert "benchmarks/" + program in (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", ["README.md", "docs/measured.md"])
def test_numbers_in_documents_are_in_the_results(document: str) -> None:
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|") and "`python benchmarks/" in line]
    assert rows
    for row in rows:
        program = re.search(r"`python benchmarks/(\w+)\.py`", row)
        assert program, row
        result = (ROOT / "benchmarks" / "results" / f"{program[1]}.md").read_text(encoding="utf-8")
        for number in re.findall(r"\d[\d.]*", row.replace(program[0], "")):
            assert number in result, (number, program[1])


def test_the_defaults_are_those_of_the_stored_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jax")  # without it, other algorithms are the defaults
    monkeypatch.setattr("sys.argv", ["defaults.py"])
    runpy.run_path(str(ROOT / "benchmarks" / "defaults.py"), run_name="__main__")
    assert capsys.readouterr().out == (ROOT / "benchmarks" / "results" / "defaults.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_both_sides_of_overhead_have_the_same_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(overhead.ALGORITHMS, "ppo", 1024)
    by_run, by_hand = overhead.by_run("ppo"), overhead.by_hand("ppo")
    assert len(by_run[1]) > 20
    assert overhead.have_same_episodes(by_run, by_hand)


@pytest.mark.parametrize("document", ["README.md", "docs/measured.md"])
def test_numbers_in_documents_are_in_the_tables(document: str) -> None:
    """Besides small ones, which count tasks and seeds."""
    checked = 0
    for row in (ROOT / document).read_text(encoding="utf-8").splitlines():
        names = re.findall(r"`mygym benchmark (?:benchmarks/tables/)?(\w+)`", row)
        if row.startswith("|") and names:
            tables = [
                (ROOT / "benchmarks" / "tables" / name / "table.md").read_text(encoding="utf-8") for name in names
            ]
            for number in re.findall(r"\d+[.,]\d+", row):
                assert any(number in table for table in tables), (number, names)
                checked += 1
    assert checked
