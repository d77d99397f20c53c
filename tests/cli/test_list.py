"""`mygym list`: tables and JSON of components."""

from __future__ import annotations

import json
import re

import pytest

from mygym.cli.output import print_table
from mygym.registry import REGISTRIES, registry
from tests.command import Command


@pytest.mark.parametrize("kind", sorted(REGISTRIES))
def test_list_prints_every_component_as_table_and_json(
    kind: str, mygym_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # no line wraps
    rows = json.loads(mygym_command("list", kind, "--json").out)
    assert [row["name"] for row in rows] == registry(kind).names()
    assert all(row["kind"] == kind and row["help"] and row["origin"] for row in rows)
    table = mygym_command("list", kind).out
    assert all(row["name"] in table and row["help"] in table for row in rows)


def test_list_without_a_kind_lists_all_kinds(mygym_command: Command) -> None:
    rows = json.loads(mygym_command("list", "--json").out)
    assert {row["kind"] for row in rows} == set(REGISTRIES)


def test_stages_are_listed_with_letter_and_predicates(mygym_command: Command) -> None:
    rows = {row["name"]: row for row in json.loads(mygym_command("list", "stage", "--json").out)}
    assert rows["grasp"] | {"letter": "G", "requires": ["free", "near"], "gives": ["held"]} == rows["grasp"]
    assert (rows["move"]["help"], rows["open"]["help"]) == ("move the object to the goal", "open the part")
    table = mygym_command("list", "stage").out
    assert "{" not in table
    assert re.search(r"grasp +G +free, near +held +grasp the object", table)


def test_list_has_frameworks_and_requirements(mygym_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # no line wraps
    rows = {row["name"]: row for row in json.loads(mygym_command("list", "algo", "--json").out)}
    assert rows["sac"]["frameworks"] == ["pytorch", "jax"]
    assert rows["ars"]["requires"] == ["continuous or combined actions", "flat observations"]
    assert rows["ppo"]["requires"] == ["flat observations (jax)"]
    assert rows["crossq"]["requires"] == ["continuous actions", "flat observations (pytorch)"]
    table = mygym_command("list", "algo").out
    assert re.search(r"\n ars +pytorch +continuous or combined actions, flat observations +augmented", table)


def test_a_long_name_wraps_rather_than_the_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    print_table([{"name": " ".join(["net_arch=[64]"] * 12), "success": "50.0%", "steps": 20000}])
    lines = capsys.readouterr().out.split("\n")
    assert max(map(len, lines)) <= 60
    assert any({"50.0%", "20000"} <= set(line.split()) for line in lines)


@pytest.mark.parametrize(("columns", "titles_whole"), [(80, True), (30, True), (24, False)])
def test_a_narrow_table_breaks_titles_before_words(
    columns: int, titles_whole: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table([{"name": "a", "considerable": 1, "second": "every word"}])
    text = capsys.readouterr().out
    assert max(map(len, text.split("\n"))) <= columns
    words = text.split()
    assert {"every", "word"} <= set(words)
    assert ({"considerable", "second"} <= set(words)) == titles_whole
