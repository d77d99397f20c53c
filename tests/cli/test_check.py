"""`mygym check`: checks of components and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mygym.registry import registry
from tests.command import Command


def test_check_prints_every_check(mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("check", "policy", "zero")
    assert outcome.code == 0
    assert re.fullmatch(
        r"policy zero\n  passed   acts +\d+\.\d s\n  passed   deterministic +\d+\.\d s\n"
        r"2 passed, 0 failed, 0 left out, \d+\.\d s\n",
        outcome.out,
    )
    assert list(tmp_path.iterdir()) == []


def test_a_failed_check_is_printed_with_its_reason_and_ends_with_1(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    source = "from mygym.tasks.task import register_task\nregister_task('custom', 'GA', help='invalid')\n"
    (tmp_path / "envs" / "custom.py").write_text(source)
    outcome = mygym_command("check", "task", "custom")
    assert outcome.code == 1
    assert re.search(r"^  FAILED   grammatical .*grasp requires 'near'", outcome.out, re.M)
    assert "  left out environment" in outcome.out
    outcome = mygym_command("check", "task", "custom", "--json")
    assert outcome.code == 1
    rows = json.loads(outcome.out)
    assert [row["status"] for row in rows] == ["failed", *["left out"] * 6]
    assert rows[0].keys() == {"kind", "name", "check", "status", "seconds", "why"}


def test_check_all_components_of_a_kind(mygym_command: Command) -> None:
    rows = json.loads(mygym_command("check", "policy", "--all", "--json").out)
    assert {row["name"] for row in rows} == set(registry("policy").names())


def test_check_a_workspace_with_a_robot(mygym_command: Command) -> None:
    rows = json.loads(mygym_command("check", "workspace", "stairs", "--robot", "panda", "--json").out)
    assert "step_3 100%" in next(row["why"] for row in rows if row["check"] == "panda within reach")
    for line, message in (
        ("task push --robot kuka", "--robot"),
        ("workspace table --robot kuca", "did you mean 'kuka'"),
    ):
        outcome = mygym_command("check", *line.split())
        assert outcome.code == 2
        assert message in outcome.err
