"""The site builds without a warning, its pages begin with something to see or to run, and components have pictures."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path

import pytest
from PIL import Image

from docs.generate.markdown import stored_rows
from mygym.registry import registry
from tests.docs.documents import DOCUMENTS, ROOT

FIRST = 40
"""Lines of a page before its first picture, table or block."""

SPHINX = ["-q", "-W", "--keep-going", "-c", "docs"]


def build(builder: str, folder: Path) -> None:
    """Build the site as `make docs` does, with any builder, in this process, which has imported the modules."""
    from sphinx.cmd.build import main

    output, errors = io.StringIO(), io.StringIO()
    quiet = contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors), warnings.catch_warnings()
    with contextlib.chdir(ROOT), quiet[0], quiet[1], quiet[2]:
        warnings.simplefilter("ignore")  # deprecations in Sphinx and its extensions; its own warnings are logged
        code = main([*SPHINX, "-b", builder, ".", str(folder)])
    assert (code, errors.getvalue()) == (0, "")


@pytest.mark.slow
def test_no_page_has_a_warning(tmp_path: Path) -> None:
    """A missing link, anchor, page of the contents or name of the API is a warning."""
    build("dummy", tmp_path)
    page = (ROOT / "docs" / "generated" / "tasks" / "push.md").read_text(encoding="utf-8")
    for part in ("| `object_from_ee` | 12:15 | m |", "| `ee_x` | -0.05 | 0.05 |", "| push | panda | table |"):
        assert part in page


@pytest.mark.parametrize("result", ["results/cards.md", "tables/core/table.md"])
def test_rows_of_a_stored_table_keep_its_header_and_rule(result: str) -> None:
    """Some tables have rules with spaces."""
    header, rule, row, *_ = stored_rows(result, "push").splitlines()
    assert "task" in header
    assert set(rule) <= {"|", "-", " "}
    assert "push" in row


def test_every_page_is_reached_from_the_readme() -> None:
    pages = {ROOT / document for document in DOCUMENTS} - {ROOT / "docs" / "index.md"}  # the contents of the site
    generated = ROOT / "docs" / "generated"  # made with the site
    reached: set[Path] = set()
    waiting = {ROOT / "README.md"}
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8"))
        paths = {(page.parent / link).resolve() for link in links if ":" not in link}
        waiting |= {path for path in paths if generated not in path.parents} - reached
    assert not pages - reached


@pytest.mark.slow
def test_the_site_needs_no_network(tmp_path: Path) -> None:
    build("html", tmp_path)
    assert (tmp_path / "index.html").is_file()
    assert (tmp_path / "searchindex.js").stat().st_size > 100_000
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=.https?:", text), page


def test_a_page_begins_with_a_picture_a_table_or_code() -> None:
    for document in DOCUMENTS:
        lines = (ROOT / document).read_text(encoding="utf-8").splitlines()[:FIRST]
        assert any(line.startswith(("```", "|", "![", "    ")) for line in lines)


def test_texts_that_are_not_run_are_no_commands() -> None:
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        for block in re.findall(r"^```text\n(.*?)^```", text, re.M | re.S):
            assert not re.search(r"^(python|mygym|pip|make) ", block, re.M)


@pytest.mark.parametrize("kind", ["task", "robot", "workspace"])
def test_every_component_has_a_picture(kind: str) -> None:
    pictures = {path.stem for path in (ROOT / "docs" / "images" / kind).iterdir()}
    assert pictures == {entry.name for entry in registry(kind) if entry.built_in}, "run `python docs/pictures.py`"


def test_every_task_has_a_video() -> None:
    videos = {}
    for path in (ROOT / "docs" / "images" / "video").iterdir():
        with Image.open(path) as image:
            videos[path.stem] = image.n_frames
    assert set(videos) == {entry.name for entry in registry("task") if entry.built_in}, "run `python docs/pictures.py`"
    assert min(videos.values()) > 3, videos
