"""Report on runs: one HTML file with tables, curves, failures, videos, configs, versions and commands."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple
from urllib.parse import quote

from mygym.config.loading import load_file
from mygym.errors import ConfigError, counted
from mygym.reporting import figures
from mygym.reporting.comparison import Selection, different_rewards, summarize
from mygym.reporting.curves import SettingCurves, stage_order
from mygym.reporting.figures import rendered
from mygym.reporting.records import RunRecord, SweepFiles
from mygym.reporting.settings import Setting, different_keys, setting_names
from mygym.reporting.tables import as_text, read_csv
from mygym.training import directory
from mygym.training.files import is_file
from mygym.training.result import versions

POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; "
    "base-uri 'none'; form-action 'none'"
)
"""Content security policy of a page: no request, no script but the page's; figures have inline styles."""


class Html(str):
    """Text that is HTML already; any other text is escaped."""

    __slots__ = ()


class Number(NamedTuple):
    """Cell with a number: a text, and the value by which a table is sorted."""

    text: str
    value: float | None


Cell = str | Number


def as_html(value: str) -> Html:
    """Return a text as HTML."""
    return value if isinstance(value, Html) else Html(escape(value))


VOID = ("img", "input")
"""Elements that have no end tag."""


def element(tag: str, *content: str, **attributes: str) -> Html:
    """Return an element; its contents and attributes are escaped unless they are `Html`.

    In names of attributes, a trailing underscore is left out, and others become hyphens: `class_`, `data_key`.
    """
    listed = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    end = "" if tag in VOID else f"</{tag}>"
    return Html(f"<{tag}{listed}>{''.join(as_html(item) for item in content)}{end}")


def table(rows: Sequence[Mapping[str, Cell]], *, search: bool = False) -> Html:
    """Return a table that is sorted by a click on a header; the rows have the same keys, which are the headers.

    Columns without any text are left out. `search` adds a field that hides the rows without its words.
    """
    columns = {column: [row[column] for row in rows] for column in rows[0]}
    columns = {column: cells for column, cells in columns.items() if any(map(_text, cells))}
    head = [_header(column, cells) for column, cells in columns.items()]
    body = [element("tr", *map(_html_cell, row)) for row in zip(*columns.values(), strict=True)]
    content = element("thead", element("tr", *head)), element("tbody", *body)
    field = [element("input", type="search", placeholder="search …", aria_label="search this table")] if search else []
    return element("div", *field, element("table", *content, class_="sortable"), class_="scroll")


def details(summary: str, *content: str) -> Html:
    """Return contents that a click on the summary shows."""
    return element("details", element("summary", summary), *content)


def link(text: str, file: Path, folder: Path) -> Html:
    """Return a link to a file, relative to the folder of the page, and a space."""
    path = Path(os.path.relpath(file, folder)).as_posix()
    return Html(f"{element('a', text, href=quote(os.fsencode(path)))} ")


def inline_svg(svg: bytes) -> Html:
    """Return an SVG file of Matplotlib as an element, without its prologue and metadata, which name addresses."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    return Html(re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL))


def page(title: str, *content: str) -> str:
    """Return a complete page."""
    folder = files("mygym.reporting") / "page"
    script, style, template = ((folder / f"report.{end}").read_text(encoding="utf-8") for end in ("js", "css", "html"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template(template).substitute(
        policy=escape(POLICY.format(hash=digest), quote=True).replace("&#x27;", "'"),
        title=escape(title),
        style=style,
        script=script,
        body="\n".join(as_html(item) for item in content),
    )


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Number) else cell


def _header(column: str, cells: Iterable[Cell]) -> Html:
    """Return the header of a column, on the side of its cells."""
    side = {"class_": "number"} if any(isinstance(cell, Number) for cell in cells) else {}
    return element("th", element("button", column, type="button"), **side)


def _html_cell(cell: Cell) -> Html:
    if isinstance(cell, Number):
        value = math.nan if cell.value is None else float(cell.value)
        return element("td", cell.text, class_="number", data_key=repr(value) if math.isfinite(value) else "")
    return element("td", cell, data_key=re.sub(r"<[^>]*>", "", cell) if isinstance(cell, Html) else cell)


NOT_HELD = "done, but not held for long enough"
"""Stage of failures after the last stage."""


def report(
    selection: Selection, title: str, folder: Path, *, sweeps: Sequence[Path] = (), embed_videos: bool = False
) -> str:
    """Return the report on runs as a page in a folder, which contains their videos or links them.

    The page also shows the results in the folders of `sweeps`.
    """
    contents = {record.path: _result(record) for record in selection.records}
    groups = figures.by_task(selection.settings)
    sections = [
        section
        for task, members in groups.items()
        for section in _task(task, members, contents, folder, embed_videos=embed_videos)
    ]
    names = {
        each.setting.path: name
        for members in groups.values()
        for each, name in zip(members, _names(members), strict=True)
    }
    statuses = Counter(record.status for record in selection.records)
    return page(
        title,
        element(
            "p", f"{counted(len(selection.records), 'run')}: {', '.join(f'{n} {s}' for s, n in statuses.items())}."
        ),
        element("p", f"Written by mygym {versions().get('mygym', '')}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."),
        element("ul", *(element("li", note) for note in selection.notes), class_="notes"),
        *(section for sweep in sweeps for section in _sweep(sweep)),
        *sections,
        element("h2", "Runs"),
        table([_run(record, names.get(record.setting, "")) for record in selection.records], search=True),
        element("h2", "Versions"),
        table(_versions(contents.values())),
    )


def _task(
    task: str,
    members: Sequence[SettingCurves],
    contents: Mapping[str, Mapping[str, Any]],
    folder: Path,
    *,
    embed_videos: bool,
) -> Iterable[Html]:
    settings, names = [each.setting for each in members], _names(members)
    yield element("h2", task)
    same_reward = not different_rewards(settings)
    yield table([_setting(setting, name, same_reward) for setting, name in zip(settings, names, strict=True)])
    if any(each.curves for each in members):
        yield element("figure", inline_svg(rendered(figures.draw_curves(members), "svg")))
        if (recorded := figures.draw_figures(members)) is not None:
            drawing = element("figure", inline_svg(rendered(recorded, "svg")))
            yield details("Training, test episodes and all recorded figures, over env steps", drawing)
    stages = [(name, _failures(setting, contents)) for name, setting in zip(names, settings, strict=True)]
    if any(shares for _, shares in stages):
        yield element("h3", "Stages in which final episodes fail")
        columns = list(dict.fromkeys(stage for _, shares in stages for stage in shares))
        yield table(
            [{"setting": name, **{stage: _bar(shares.get(stage, 0.0)) for stage in columns}} for name, shares in stages]
        )
    if keys := different_keys(*(setting.config for setting in settings)):
        yield element("h3", "Differences of the configs")
        yield table(
            [
                {"setting": name, **{key: _value(setting.config.get(key)) for key in keys}}
                for setting, name in zip(settings, names, strict=True)
            ]
        )
    yield element("h3", "Commands, configs, videos")
    for setting, name in zip(settings, names, strict=True):
        config = Path(setting.records[0].path) / directory.CONFIG
        yield details(
            name,
            element("pre", _command(setting, config)),
            details(str(config), element("pre", config.read_text(encoding="utf-8", errors="replace"))),
            *(_videos(record, folder, embed=embed_videos) for record in setting.records),
        )


def _setting(setting: Setting, name: str, same_reward: bool) -> dict[str, Cell]:
    seeds, ended = len(setting.records), len(setting.ended.records)
    summary = summarize(setting.ended, same_reward=same_reward) if ended else None
    low, high = summary.success if summary and summary.runs > 1 else (None, None)
    diverged = summary.diverged if summary else 0
    return {
        "setting": name,
        "seeds": Number(str(seeds), seeds),
        "not ended": Number(str(seeds - ended), seeds - ended),
        "diverged": Number(str(diverged), diverged),
        "success": _number(summary.success_rate if summary else None, ".1%"),
        "from": _number(low, ".1%"),
        "to": _number(high, ".1%"),
        "return": _number(summary.mean_return if summary else None, ".2f"),
        "env steps to 90 %": _number(summary.steps_to_90 if summary else None, ",.0f"),
        "time to 90 % (s)": _number(summary.seconds_to_90 if summary else None, ",.0f"),
    }


def _run(record: RunRecord, name: str) -> dict[str, Cell]:
    return {
        "task": record.task,
        "setting": name,
        "seed": _number(record.seed, "d"),
        "status": record.status,
        "env steps": _number(record.steps, ",d"),
        "success": _number(record.success_rate, ".1%"),
        "from": _number(record.success_low, ".1%"),
        "to": _number(record.success_high, ".1%"),
        "return": _number(record.mean_return, ".2f"),
        "time (s)": _number(record.wall_time_s, ",.0f"),
        "robot": record.robot,
        "algorithm": record.algo,
        "run": record.path,
        "error": record.error or "",
    }


def _failures(setting: Setting, contents: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return stage → share of the final episodes that failed in it; empty if unknown."""
    failed: Counter[str] = Counter()
    episodes = 0
    counts = []
    for record in setting.ended.records:
        reached = contents[record.path].get("stage_reached")
        if not record.episodes or not isinstance(reached, dict):
            continue
        counts.append(reached)
        episodes += record.episodes
        complete = sum(number for stage, number in reached.items() if stage.rpartition(": ")[2] == "done")
        failed[NOT_HELD] += complete - round((record.success_rate or 0.0) * record.episodes)
        failed.update({stage: number for stage, number in reached.items() if stage.rpartition(": ")[2] != "done"})
    order = [stage for stage in stage_order(counts) if stage in failed]
    return {stage: failed[stage] / episodes for stage in (*order, NOT_HELD) if failed[stage] > 0}


def _bar(share: float) -> Number:
    bar = element("span", class_="bar", style=f"width: {5 * share:.2f}em")
    return Number(Html(f"{bar}{share:.1%}"), share)


def _versions(contents: Iterable[Mapping[str, Any]]) -> list[dict[str, Cell]]:
    """Return a row for each combination of versions."""
    known = [content["versions"] for content in contents if isinstance(content.get("versions"), dict)]
    combinations = Counter(json.dumps(each, sort_keys=True) for each in known)
    packages = list(dict.fromkeys(package for each in known for package in each))
    if not packages:
        return [{"runs": "not recorded"}]
    return [
        {"runs": Number(str(runs), runs), **{package: _value(json.loads(text).get(package)) for package in packages}}
        for text, runs in combinations.most_common()
    ]


def _command(setting: Setting, config: Path) -> str:
    """Return the command that trains the runs of a setting again."""
    try:
        imports = load_file(config).get("imports") or []
    except ConfigError:
        imports = []
    seeds = [str(record.seed) for record in setting.records if record.seed is not None]
    flags = ["--seeds", ",".join(seeds)] if len(seeds) > 1 else ["--seed", *seeds] if seeds else []
    words = ["mygym", "train", "--config", str(config), *flags]
    return shlex.join([*words, *(word for module in imports for word in ("--import", str(module)))])


def _videos(record: RunRecord, folder: Path, *, embed: bool) -> Html:
    videos = sorted(path for path in (Path(record.path) / directory.VIDEOS).glob("*.mp4") if path.is_file())
    shown = [_embedded(video) if embed else link(video.stem, video, folder) for video in videos]
    return element("p", f"seed {record.seed}: ", *shown) if shown else Html("")


def _embedded(video: Path) -> Html:
    content = base64.b64encode(video.read_bytes()).decode()
    player = element("video", src=f"data:video/mp4;base64,{content}", controls="", preload="metadata", title=video.stem)
    return element("figure", player, element("figcaption", video.stem))


def _names(members: Sequence[SettingCurves]) -> list[str]:
    return setting_names([each.setting for each in members])


def _result(record: RunRecord) -> Mapping[str, Any]:
    """Return the content of a readable result.json; empty without it."""
    if not record.episodes:
        return {}
    try:
        content = json.loads((Path(record.path) / directory.RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # removed meanwhile
        return {}
    return content if isinstance(content, dict) else {}


def _number(value: float | None, form: str) -> Number:
    return Number(as_text(value, form), value)


def _value(value: Any) -> Cell:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(f"{value:g}", value)
    return "" if value is None else str(value)


def _sweep(folder: Path) -> Iterable[Html]:
    """Yield the part of a report on a sweep: its best config, tables and figures."""
    yield element("h2", f"Sweep {folder}")
    for name in (SweepFiles.BEST, SweepFiles.TRAINED_ON_BEST):
        if is_file(folder / name):
            yield details(name, element("pre", (folder / name).read_text(encoding="utf-8")))
    for name, title in SweepFiles.FIGURES.items():
        if is_file(folder / name):
            source = base64.b64encode((folder / name).read_bytes()).decode()
            picture = element("img", src=f"data:image/svg+xml;base64,{source}", alt=title)
            yield element("figure", picture, element("figcaption", title))
    for name, title in SweepFiles.TABLES.items():
        if rows := [{key: _sweep_cell(text) for key, text in row.items()} for row in read_csv(folder / name)]:
            yield element("h3", title)
            yield table(rows)


def _sweep_cell(text: str) -> Cell:
    try:
        return Number(f"{float(text):.4g}", float(text))
    except ValueError:
        return text
