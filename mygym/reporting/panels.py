"""Panels of figures: their style, lines with bands, legends; Matplotlib is imported when it is used."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mygym.errors import ConfigError
from mygym.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that people with colour blindness distinguish (Okabe and Ito)."""

LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "p")
"""Line styles and markers: with them the lines differ in black and white."""

MAX_LINES = len(MARKERS)
"""Lines of a panel; of more settings, the best are drawn."""

MARKED = 10
"""Approximate number of markers of a line."""

PANEL = (5.0, 3.2)
"""Width and height of a panel, inches."""

LEGEND = 3.0
"""Width of the legend beside a row of panels, inches."""

STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mygym",
    "text.parse_math": False,
    "path.simplify": True,
}

FORMATS = ("svg", "png", "pdf")
"""Suffixes of files for which `rendered` has a format."""


def check_matplotlib() -> None:
    """Check that Matplotlib is installed.

    Raises:
        ConfigError: It is missing; the message has the command that installs it.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        message = "figures need the package 'matplotlib': pip install \"mygym[results]\""
        raise ConfigError(message) from error


def rendered(figure: Figure, form: str) -> bytes:
    """Return a figure as a file of one of `FORMATS`; the same figure gives the same bytes."""
    dates: Mapping[str, Mapping[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    file = io.BytesIO()
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # of a name in a script that the font does not have
        figure.savefig(file, format=form, dpi=150, metadata=dict(dates.get(form, {})))
    return file.getvalue()


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Apply `STYLE` within the context or the decorated function."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


def make_panels(rows: int, columns: int) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure with rows of panels, and space for a legend beside each row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PANEL[0] * columns + LEGEND, PANEL[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def draw_line(
    panel: Axes,
    index: int,
    x: FloatArray,
    value: FloatArray,
    name: str,
    low: FloatArray | None = None,
    high: FloatArray | None = None,
    *,
    sparse: bool = True,
    steps: bool = False,
) -> None:
    """Draw a line with a band; its colour, line style and marker follow from its index."""
    if not len(x):
        return
    colour, line, marker = COLOURS[index % len(COLOURS)], LINES[index % len(LINES)], MARKERS[index % len(MARKERS)]
    every = max(1, len(x) // MARKED) if sparse else 1
    panel.plot(
        x,
        value,
        color=colour,
        linestyle=line,
        marker=marker,
        markevery=(index % every, every),  # lines on each other show their markers in turn
        markerfacecolor="white" if index % 2 else colour,
        drawstyle="steps-post" if steps else "default",
        label=name,
        zorder=3,
    )
    if low is not None and high is not None and np.isfinite(low).any():
        panel.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0, step="post" if steps else None)


def finish_row(row: Sequence[Axes], settings: int, rates: bool = False) -> None:
    """Put the legend of a row of panels beside it, and limit the axes of rates."""
    if rates:
        for panel in row:
            panel.set_ylim(-0.02, 1.02)
    title = f"the best {MAX_LINES} of {settings}" if settings > MAX_LINES else None
    pairs = [zip(*reversed(panel.get_legend_handles_labels()), strict=True) for panel in reversed(row)]
    handles = dict(pair for panel in pairs for pair in panel)
    if handles:
        row[-1].legend(
            handles.values(), handles, loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, title=title
        )


def thousands(panel: Axes) -> None:
    """Write the numbers of the horizontal axis as `50k`."""
    from matplotlib.ticker import EngFormatter

    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
