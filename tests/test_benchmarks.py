"""The benchmarks are run by hand; here only that each still starts and that its result says how it was made."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conftest import ROOT

PROGRAMS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_it_explains_itself(program: Any, python: Any) -> None:
    done = python(str(program), "--help")
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


@pytest.mark.parametrize("result", sorted((ROOT / "benchmarks" / "results").glob("*.md")), ids=lambda path: path.stem)
def test_a_result_has_its_command(result: Any) -> None:
    text = result.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert f"`python benchmarks/{result.stem}.py" in text
    assert (ROOT / "benchmarks" / f"{result.stem}.py").is_file()
    assert "benchmarks/" + result.stem in (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def test_numbers_in_the_readme_are_those_of_the_results() -> None:
    rows = [
        line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if "`python benchmarks/" in line
    ]
    assert rows
    for row in rows:
        program = re.search(r"`python benchmarks/(\w+)\.py`", row)
        assert program, row
        result = (ROOT / "benchmarks" / "results" / f"{program[1]}.md").read_text(encoding="utf-8")
        for number in re.findall(r"\d[\d.]*", row.replace(program[0], "")):
            assert number in result, (number, program[1])
