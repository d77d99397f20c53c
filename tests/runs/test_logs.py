"""Lines, records and where they are cut."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mygym.runs import logs
from mygym.runs.logs import JsonLines


def test_lines_are_whole_and_numbers_are_numbers(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "progress.jsonl")
    values = {"loss": np.float32(0.5), "n": 3, "bad": float("nan"), "text": "x", "flag": True}
    lines.write(values, dict.fromkeys(values), 10)
    lines.write({"loss": 1.0}, {"loss": None}, 20)
    lines.close()
    read = [json.loads(line, parse_constant=None) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert read == [{"steps": 10, "loss": 0.5, "n": 3, "bad": None, "flag": 1}, {"steps": 20, "loss": 1.0}]


def test_a_line_that_is_not_whole_is_cut_off(tmp_path: Path) -> None:
    whole, cut, empty = (tmp_path / name for name in ("whole", "cut", "empty"))
    whole.write_bytes(b"1\n2\n")
    cut.write_bytes(b"1\n2\n3")
    empty.write_bytes(b"")
    logs.trim_to_whole_lines(whole, cut, empty, tmp_path / "missing")
    assert [path.read_bytes() for path in (whole, cut, empty)] == [b"1\n2\n", b"1\n2\n", b""]
