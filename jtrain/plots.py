"""Pictures of metrics: matplotlib figures, made without pyplot, so without any global state."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jtrain.errors import JtrainError, nearest
from jtrain.store.series import Points, downsample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jtrain.run import Run

_MOST_PANELS = 8
_MOST_POINTS = 4000
_SMOOTH_FROM = 200
_LOG_FROM = 1e3
"""Log axis when the values are all positive and span more than three decades."""

_INK = "#808080"
"""Mid grey: the only ink that can be read on white and on black."""
_COLORS = ("#2a8fd4", "#e8833a", "#3aa76d", "#d95f8c", "#8a6fd1", "#b0892e", "#1fa3a3", "#c0563b")


def plot_run(run: Run, metrics: Sequence[str] | None = None) -> Figure:
    """A figure with a panel for each metric (loss first; at most eight when none are named).

    Raises JtrainError when the run has logged nothing, or KeyError with the nearest name for an unknown metric.
    """
    table = run.metrics
    names = _choose(table.columns, metrics)
    if not names:
        raise JtrainError(f"run {run.id} has logged no metric yet, so there is nothing to plot")
    return draw({name: {"": table.points(name)} for name in names})


def compare_runs(runs: Sequence[Run], metrics: Sequence[str] | None = None) -> Figure:
    """A figure with the curves of several runs on top of each other, one panel for each metric that they share.

    Raises JtrainError when they share none.
    """
    tables = {run.id: run.metrics for run in runs}
    columns = [table.columns for table in tables.values()]
    shared = [name for name in columns[0] if all(name in others for others in columns)] if columns else []
    names = _choose(shared, metrics)
    if not names:
        raise JtrainError(f"the runs {', '.join(tables)} share no metric")
    return draw({name: {run_id: table.points(name) for run_id, table in tables.items()} for name in names})


def _choose(columns: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    if wanted is None:
        return sorted(columns, key=lambda name: "loss" not in name.lower())[:_MOST_PANELS]
    for name in wanted:
        if name not in columns:
            close = nearest(name, columns)
            hint = f"did you mean {close!r}?" if close else f"there are: {', '.join(columns)}"
            raise KeyError(f"no metric {name!r}; {hint}")
    return list(wanted)


def draw(panels: Mapping[str, Mapping[str, Points]]) -> Figure:
    """A figure with one panel for each metric; a panel holds a curve for each label ("" for a curve without one)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns if columns > 1 else 6.4, 2.6 * rows), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    figure.patch.set_alpha(0)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, (name, curves) in zip(grid.flat, panels.items(), strict=False):
        _panel(axes, name, curves)
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    return figure


def _panel(axes: Axes, name: str, curves: Mapping[str, Points]) -> None:
    for index, (label, points) in enumerate(curves.items()):
        _curve(axes, points, _COLORS[index % len(_COLORS)], label)
    if spans_decades([points["value"] for points in curves.values()]):
        axes.set_yscale("log")
    _style(axes)
    # A name may hold anything; a dollar sign would start mathematics.
    axes.set_ylabel(_shorten(name).replace("$", r"\$"), color=_INK)
    axes.set_xlabel("step", color=_INK)
    if any(curves):
        axes.legend(frameon=False, labelcolor=_INK, fontsize="small")


def _curve(axes: Axes, points: Points, color: str, label: str) -> None:
    """A curve with gaps where values aren't finite; long ones pale, with a smooth line over them."""
    shown = downsample(points, _MOST_POINTS) if len(points) else points
    steps, values = shown["step"], np.where(np.isfinite(shown["value"]), shown["value"], np.nan)
    is_long = len(points) > _SMOOTH_FROM
    marker = "o" if len(points) < 2 else ""
    axes.plot(steps, values, color=color, lw=0.8 if is_long else 1.5, alpha=0.35 if is_long else 1.0, marker=marker,
              label=None if is_long else label or None)  # fmt: skip
    if is_long:
        axes.plot(steps, smooth(values), color=color, lw=1.7, label=label or None)


def smooth(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A running mean over about a fortieth of the points, over finite ones only; NaN where there are none."""
    half = max(2, len(values) // 80)
    finite = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(finite, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(finite)])
    index = np.arange(len(values))
    first, last = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    number = counts[last] - counts[first]
    mean = (sums[last] - sums[first]) / np.maximum(number, 1)
    return np.where(finite, mean, np.nan)


def spans_decades(series: Sequence[npt.NDArray[np.float64]]) -> bool:
    """Whether all finite values are above 0 and the largest is over a thousand times the smallest."""
    finite = [values[np.isfinite(values)] for values in series]
    joined = np.concatenate(finite) if finite else np.empty(0)
    return bool(len(joined) and joined.min() > 0 and joined.max() / joined.min() > _LOG_FROM)


def _style(axes: Axes) -> None:
    axes.patch.set_alpha(0)
    axes.grid(visible=True, color=_INK, alpha=0.25, lw=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_INK)
    axes.tick_params(colors=_INK, which="both", labelsize="small")
    axes.margins(x=0.01)


def _shorten(name: str, width: int = 40) -> str:
    name = "".join(character if character.isprintable() else " " for character in name)
    return name if len(name) <= width else f"{name[: width // 2]}…{name[-width // 2 + 1 :]}"


def to_png(figure: Any) -> bytes:
    """The figure as a PNG file: always the same bytes for the same figure."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        # A metric's name may have letters that the font lacks: they are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()
