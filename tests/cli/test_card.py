"""`mygym card`: success rates and returns of policies on a task."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.command import Command


def test_card_as_text_and_json(mygym_command: Command, tmp_path: Path) -> None:
    outcome = mygym_command("card", "reach", "--robot", "kuka", "--episodes", "4")
    assert outcome.code == 0
    assert outcome.out.startswith(
        "reach: approach the goal\nkuka, workspace table, ee_delta; 4 episodes of each policy"
    )
    assert re.search(r"^ oracle +100\.0% +≥ 47\.3% +\d+\.\d ", outcome.out, re.M)
    assert "solved at reset: 0.0% of 24 resets" in outcome.out
    assert outcome.err.splitlines()[:2] == ["card of reach: 24 resets", "card of reach: 4 episodes of oracle"]
    content = json.loads(mygym_command("card", "[approach, push]", "--episodes", "1", "--json").out)
    assert content["words"] == "approach the cube, push it to the goal"
    assert set(content["policies"]) == {"oracle", "random", "zero", "hover"}
    assert list(tmp_path.iterdir()) == []


def test_card_of_a_config(mygym_command: Command, tmp_path: Path) -> None:
    (tmp_path / "custom.yaml").write_text("task: reach\nworkspace: drawer\ntask_params: {horizon: 5}\nsteps: 5000\n")
    outcome = mygym_command(
        "card", "--config", "custom.yaml", "--set", "task_params.tolerance=0.001", "--episodes", "1"
    )
    assert outcome.code == 0
    assert "workspace drawer, ee_delta; 1 episode of each policy" in outcome.out
    assert re.search(r"^ zero +0\.0% +≤ 95\.0% +5\.0 ", outcome.out, re.M)  # steps
    assert "expert solves it: NO" in outcome.out


def test_a_card_is_titled_by_the_task_that_is_played(mygym_command: Command) -> None:
    outcome = mygym_command("card", "push", "--set", "task=reach", "--episodes", "1")
    assert outcome.out.startswith("reach: ")
    assert all(line.startswith("card of reach: ") for line in outcome.err.splitlines())


def test_card_with_few_episodes_asks_for_more(mygym_command: Command) -> None:
    outcome = mygym_command("card", "push", "--episodes", "1")
    assert "1 episode of oracle" in outcome.err
    last = outcome.out.splitlines()[-1]
    assert last.startswith("no flaw so far, but up to 39.3% of resets may be solved; the expert may solve as few as")
    assert last.endswith("random actions may solve up to 95.0%: run more --episodes to be sure")
