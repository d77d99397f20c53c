"""`mygym report`: one file that makes no request, with every text escaped, and commands that repeat the runs."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from mygym.cli.main import main
from mygym.cli.train import train
from mygym.reporting.report import Cell, Number, table
from mygym.reporting.tables import as_csv, read_csv
from mygym.training import directory, files
from tests.reporting.runs import make_run

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Elements of a page: open elements must be closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.texts[tag][-1] += data

    def named(self, name: str) -> list[dict[str, str | None]]:
        """Attributes of all elements of a name."""
        return [attributes for tag, attributes in self.elements if tag == name]


def mygym_report(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["report", *words])
    return int(end.value.code or 0)


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """A setting with two seeds and videos, a setting with a failed run, and a damaged run."""
    for seed, rate in enumerate((0.5, 1.0)):
        run = make_run(tmp_path / "runs", rate, seed, algo="ppo", loss=1.0 + seed)
        (run / directory.VIDEOS).mkdir()
        (run / directory.VIDEOS / "final #1.mp4").write_bytes(b"film")
    (make_run(tmp_path / "runs", algo="sac", status="failed") / directory.PROGRESS).write_text("")
    (make_run(tmp_path / "runs", algo="td3") / directory.RESULT).write_text("{")
    return tmp_path / "runs"


def test_a_report(logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pages" / "report.html"
    path.parent.mkdir()
    assert mygym_report(str(logdir), "-o", str(path)) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{path}\n"
    assert "result.json is not readable" in captured.err
    page = read(path)
    body = page.texts["body"][0]
    for text in ("4 runs: 2 done, 1 failed, 1 damaged", "75.0%", "result.json is not readable", "gamma: 0.95", "numpy"):
        assert text in body
    assert page.texts["h2"] == ["reach", "Runs", "Versions"]
    assert "approach" in page.texts["th"]
    assert "25.0%" in page.texts["td"]  # of the final episodes fail in `approach`
    assert len(page.named("svg")) == 2
    for metric in ("train_success", "test_loss", "train/loss"):
        assert metric in body
    links = [str(attributes["href"]) for attributes in page.named("a")]
    assert len(links) == 2
    assert all((path.parent / unquote(link)).read_bytes() == b"film" for link in links)


def test_a_page_makes_no_request(logdir: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert mygym_report(str(logdir), "-o", str(path), "--embed-videos") == 0
    page = read(path)
    (policy,) = (
        entry["content"] for entry in page.named("meta") if entry.get("http-equiv") == "Content-Security-Policy"
    )
    (script,) = page.texts["script"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none';" in str(policy)
    assert f"script-src 'sha256-{digest}';" in str(policy)
    addresses = [
        str(value)
        for tag, attributes in page.elements
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href", "data", "action", "poster", "srcset") and tag != "a"
    ]
    assert [address for address in addresses if not address.startswith(("data:", "#"))] == []
    assert sum(address == f"data:video/mp4;base64,{base64.b64encode(b'film').decode()}" for address in addresses) == 2
    assert not re.search(r"url\((?!#)", path.read_text())
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_every_text_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>&'\""
    run = make_run(tmp_path / "runs", 0.5, task=evil, algo=evil, status="done", algo_params={evil: evil})
    content = json.loads((run / directory.RESULT).read_text())
    content |= {"stage_reached": {evil: 50, "done": 50}, "versions": {evil: evil}, "robot": evil}
    files.write_json(run / directory.RESULT, content)
    make_run(tmp_path / "runs", 0.5, task=evil, algo=evil, status="failed", algo_params={evil: 2})
    path = tmp_path / "report.html"
    assert mygym_report(str(tmp_path / "runs"), "-o", str(path)) == 0
    page = read(path)
    assert len(page.named("script")) == 1
    assert {"script", "alert"}.isdisjoint({tag for tag, _ in page.elements} - {"script"})
    assert page.texts["h2"][0] == evil
    assert evil in page.texts["td"]
    assert evil in page.texts["th"]


def test_commands_repeat_the_runs(logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.html"
    assert mygym_report(str(logdir), "-o", str(path)) == 0
    commands = [text for text in read(path).texts["pre"] if text.startswith("mygym train")]
    assert [shlex.split(command)[-2:] for command in commands] == [["--seeds", "0,1"], ["--seed", "0"]]
    capsys.readouterr()
    train([*shlex.split(commands[0])[2:], "--explain"])
    assert re.search(r"gamma +0.95 ", capsys.readouterr().out)


def test_a_single_seed_has_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "runs")
    path = tmp_path / "report.html"
    assert mygym_report(str(tmp_path / "runs"), "-o", str(path)) == 0
    assert "one seed: no interval" in capsys.readouterr().err
    page = read(path)
    assert "1 setting with one seed: no interval" in page.texts["ul"][0]


def test_a_run_without_evaluations_is_reported(tmp_path: Path) -> None:
    (make_run(tmp_path / "runs", status="") / directory.PROGRESS).write_text("")
    path = tmp_path / "report.html"
    assert mygym_report(str(tmp_path / "runs"), "-o", str(path)) == 0
    assert "stopped" in read(path).texts["td"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["runs", "-o", "x.pdf"], "a file ending in .html"),
        (["runs", "-o", "old.html"], "exists already"),
        (["empty", "-o", "x.html"], "has no runs"),
        (["nowhere", "-o", "x.html"], "is not a folder"),
    ],
)
def test_bad_input(
    words: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(Path("runs"))
    Path("old.html").write_text("old")
    Path("empty").mkdir()
    assert mygym_report(*words) == 2
    assert text in capsys.readouterr().err
    assert Path("old.html").read_text() == "old"


def test_a_table_sorts_numbers_and_leaves_out_columns_without_text() -> None:
    numbers = {"known": 0.5, "endless": math.inf, "undefined": math.nan, "missing": None}
    rows: list[dict[str, Cell]] = [
        {"name": name, "value": Number(str(value), value), "note": "", "figure": Number("", None)}
        for name, value in numbers.items()
    ]
    html = table(rows)
    assert re.findall('<td class="number" data-key="([^"]*)"', html) == ["0.5", "", "", ""], "others come last"
    assert re.findall(r"<th\b[^>]*>", html) == ["<th>", '<th class="number">'], "a header is above its numbers"


def test_a_csv_file_has_the_rows_that_were_written(tmp_path: Path) -> None:
    rows = [{"error": 'key: "a",\nnot b', "return": "1.5"}, {"error": "", "return": "é"}]
    (tmp_path / "rows.csv").write_text(as_csv(rows), encoding="utf-8")
    assert read_csv(tmp_path / "rows.csv") == rows
    assert read_csv(tmp_path / "none.csv") == []
