"""`mygym plot`: every figure in every format, lines that differ in black and white, and bad input."""

from __future__ import annotations

import re
import sys
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from mygym.cli.main import main
from mygym.reporting.comparison import select_runs, sensitivities
from mygym.reporting.curves import AXES
from mygym.reporting.figures import MAX_LINES, draw_curves, draw_sensitivity
from mygym.training import directory
from tests.reporting.runs import make_run


def mygym_plot(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["plot", *words])
    return int(end.value.code or 0)


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """Two tasks, two settings of each, two seeds of each; and a diverged, a failed and a stopped run."""
    for task in ("push", "reach"):
        for gamma, rates in ((0.9, (0.2, 0.4)), (0.99, (0.8, 1.0))):
            for seed, rate in enumerate(rates):
                make_run(tmp_path, rate, seed, task=task, algo_params={"gamma": gamma}, loss=gamma)
    for seed, status in ((2, "diverged"), (3, "failed"), (4, "")):
        make_run(tmp_path, 0.5, seed, status=status, task="push", algo_params={"gamma": 0.9})
    return tmp_path


def texts(svg: Path) -> str:
    return "\n".join(
        "".join(element.itertext()) for element in ElementTree.parse(svg).iter() if element.tag[-4:] == "text"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["success rate", "env steps", "training time (s)", "push", "reach", "gamma=0.9 (5 seeds)"]),
        (["--metric", "return", "--aggregate", "mean"], ["mean return"]),
        (["--metric", "test_loss"], ["test_loss", "env steps", "training time (s)", "gamma=0.9 (5 seeds)"]),
        (["--metric", "figures/test_loss", "--where", "task=reach"], ["test_loss"]),
        (["--metric", "train_success", "--profiles"], ["train_success, last value, τ"]),
        (["--metric", "train/loss", "--sensitivity", "algo_params.gamma"], ["final train/loss", "0.99"]),
        (["--stages"], ["share of episodes", "approach", "push: gamma=0.99 (2 seeds)"]),
        (["--profiles"], ["share of runs above τ", "gamma=0.9 (3 seeds)"]),
        (["--sensitivity", "algo_params.gamma"], ["algo_params.gamma", "0.99", "diverged run", "failed run"]),
        (["--where", "task=reach"], ["gamma=0.99 (2 seeds)"]),
    ],
)
def test_every_figure(
    words: list[str], expected: list[str], logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figure.svg"
    assert mygym_plot(str(logdir), *words, "-o", str(path)) == 0
    assert capsys.readouterr().out == f"{path}\n"
    shown = texts(path)
    assert [text for text in expected if text not in shown] == []
    assert ("push" in shown) == ("--where" not in words)


def test_every_format(tmp_path: Path) -> None:
    make_run(tmp_path)
    for form, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        path = tmp_path / "new" / f"figure.{form}"
        assert mygym_plot(str(tmp_path), "-o", str(path)) == 0
        assert path.read_bytes().startswith(start)
    svg = path.read_bytes()
    assert mygym_plot(str(tmp_path), "-o", str(path), "--force") == 0
    assert path.read_bytes() == svg
    with Image.open(tmp_path / "new" / "figure.png") as image:
        assert image.width > 1000


def test_lines_differ_in_black_and_white(tmp_path: Path) -> None:
    for envs in range(1, MAX_LINES + 3):
        make_run(tmp_path, envs / 20, n_envs=envs)
    figure = draw_curves(select_runs([tmp_path]).settings)
    assert len(figure.axes) == len(AXES)
    lines = figure.axes[0].lines
    assert len(lines) == MAX_LINES
    styles = [(line.get_marker(), line.get_linestyle()) for line in lines]
    assert all(first != second for first, second in combinations(styles, 2))
    assert "n_envs=1 " not in " ".join(str(line.get_label()) for line in lines)  # the worst
    legend = figure.axes[-1].get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == f"the best {MAX_LINES} of {MAX_LINES + 2}"


def test_settings_with_equal_configs_have_names_of_their_own(tmp_path: Path) -> None:
    """Such as those of two versions."""
    for name, success in (("before", 1.0), ("after", 0.3)):
        for seed in (0, 1):
            make_run(tmp_path / name, success, seed)
    make_run(tmp_path / "after", algo="ppo")
    figure = draw_curves(select_runs([tmp_path / "before", tmp_path / "after"]).settings)
    _, names = figure.axes[-1].get_legend_handles_labels()
    assert len(set(names)) == 3
    assert sum("before" in name for name in names) == sum("after" in name for name in names) == 1
    assert any(name == "ppo (1 seed)" for name in names)


def test_an_axis_over_decades_is_logarithmic(tmp_path: Path) -> None:
    for rate in (1e-4, 1e-3, 1e-2):
        make_run(tmp_path, 0.5, algo_params={"learning_rate": rate})
    for activation in ("tanh", "relu"):
        make_run(tmp_path, 0.5, task="push", algo_params={"activation": activation})
    settings = [curves.setting for curves in select_runs([tmp_path]).settings]
    reach = [setting for setting in settings if setting.config["task"] == "reach"]
    rates = draw_sensitivity(sensitivities(reach, "algo_params.learning_rate"), "learning_rate").axes[0]
    assert rates.get_xscale() == "log"
    assert [label.get_text() for label in rates.get_xticklabels()] == ["0.0001", "0.001", "0.01"]
    push = [setting for setting in settings if setting not in reach]
    names = draw_sensitivity(sensitivities(push, "algo_params.activation"), "activation").axes[0]
    assert [label.get_text() for label in names.get_xticklabels()] == ["relu", "tanh"]


def test_notes(logdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = make_run(tmp_path / "more", algo="ppo")
    (damaged / directory.RESULT).write_text("{")
    make_run(tmp_path / "more", algo="td3")
    assert mygym_plot(str(logdir), str(tmp_path / "more"), "-o", str(tmp_path / "x.svg")) == 0
    notes = capsys.readouterr().err
    assert f"{damaged}: result.json is not readable" in notes
    assert "2 runs not ended" in notes
    assert "1 setting with one seed: no interval" in notes


def test_texts_are_not_read_as_formulas(tmp_path: Path) -> None:
    make_run(tmp_path, task="$\\frac{$<&>日本")
    assert mygym_plot(str(tmp_path), "-o", str(tmp_path / "x.svg")) == 0
    assert "$\\frac{$<&>日本" in texts(tmp_path / "x.svg")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["runs", "-o", "x.bmp"], "a file ending in .svg or .png or .pdf"),
        (["runs"], "-o/--out"),
        (["runs", "-o", "old.svg"], "exists already"),
        (["runs", "-o", "folder.svg", "--force"], "exists already"),
        (["runs", "-o", "old.svg/x.svg"], "a folder that you may write to"),
        (["nowhere", "-o", "x.svg"], "is not a folder"),
        (["empty", "-o", "x.svg"], "has no runs"),
        (["runs", "--where", "algo=ppo", "-o", "x.svg"], "has no runs with these values"),
        (["runs", "--metric", "sucess", "-o", "x.svg"], "did you mean 'success'"),
        (["losses", "--metric", "test_los", "-o", "x.svg"], "train/loss; did you mean 'test_loss'"),
        (
            ["runs", "losses", "--metric", "rollout/ep_rew", "-o", "x.svg"],
            "success, return, train_success, test_loss, tr",
        ),
        (
            ["runs", "--metric", "train_success", "-o", "x.svg"],
            "'train_success' is in no run; allowed: success, return",
        ),
        (["runs", "--aggregate", "max", "-o", "x.svg"], "iqm, mean, median"),
        (["runs", "--stages", "--profiles", "-o", "x.svg"], "exclude each other"),
        (["runs", "--metric", "return", "-o", "x.svg"], "reward differs in reach: dense, sparse"),
        (["unfinished", "-o", "x.svg"], "no run has an evaluation yet"),
        (["mixed", "-o", "x.svg"], "steps differs: 100 (mixed/"),
        (["mixed", "unfinished", "--profiles", "-o", "x.svg"], "steps differs"),
        (["unfinished", "--profiles", "-o", "x.svg"], "no run has ended"),
        (["unfinished", "--stages", "-o", "x.svg"], "records the stages"),
        (["runs", "--sensitivity", "algo_params.gama", "-o", "x.svg"], "is a key of no config"),
        (["runs", "--sensitivity", "algo_params.gamma", "-o", "x.svg"], "has the value 0.95"),
    ],
)
def test_bad_input(
    words: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(Path("runs"))
    make_run(Path("runs"), reward="dense")
    make_run(Path("losses"), loss=1.0)
    (make_run(Path("unfinished"), status="") / directory.PROGRESS).write_text("")
    extended = make_run(Path("mixed"), seed=1, steps=200)
    extended.rename(make_run(Path("mixed"), steps=100).with_name("seed_1"))
    Path("old.svg").write_text("old")
    for name in ("folder.svg", "empty"):
        Path(name).mkdir()
    assert mygym_plot(*words) == 2
    assert text in capsys.readouterr().err
    assert not Path("x.svg").exists()
    assert Path("old.svg").read_text() == "old"


def test_matplotlib_is_imported_when_it_is_used(python, tmp_path: Path) -> None:
    code = "import sys, mygym.cli.plot; sys.exit('matplotlib' in sys.modules)"
    assert python("-c", code).returncode == 0


@pytest.mark.parametrize("command", ["plot", "report"])
def test_a_missing_matplotlib_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    make_run(tmp_path)
    with pytest.raises(SystemExit) as end:
        main([command, str(tmp_path), "-o", str(tmp_path / ("x.svg" if command == "plot" else "x.html"))])
    assert end.value.code == 2
    assert re.search(r'needs? the package .matplotlib.: pip install "mygym\[results\]"', capsys.readouterr().err)
