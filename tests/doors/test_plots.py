"""Pictures of metrics."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from jtrain.errors import JtrainError
from jtrain.plots import compare_runs, plot_run, smooth, spans_decades, to_png
from tests.doors.stores import make_run


def curves(figure) -> list[list[np.ndarray]]:
    return [[line.get_ydata() for line in axes.lines] for axes in figure.axes]


def test_each_metric_has_a_panel_and_loss_is_first() -> None:
    run = make_run(metrics={"accuracy": [0.1, 0.5], "loss": [2.0, 1.0]})
    figure = plot_run(run)
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss", "accuracy"]
    assert curves(figure)[0][0].tolist() == [2.0, 1.0]
    assert "matplotlib.pyplot" not in sys.modules


def test_only_the_metrics_asked_for_are_drawn_and_unknown_ones_are_named() -> None:
    run = make_run(metrics={"accuracy": [0.1, 0.5], "loss": [2.0, 1.0]})
    assert len(plot_run(run, ["accuracy"]).axes) == 1
    with pytest.raises(KeyError, match="did you mean 'accuracy'"):
        plot_run(run, ["acuracy"])


def test_a_run_without_metrics_says_so() -> None:
    with pytest.raises(JtrainError, match="has logged no metric yet"):
        plot_run(make_run())


def test_values_that_are_not_finite_leave_gaps() -> None:
    run = make_run(metrics={"loss": [1.0, float("nan"), float("inf"), 2.0]})
    drawn = curves(plot_run(run))[0][0]
    assert np.isnan(drawn).tolist() == [False, True, True, False]


def test_the_axis_is_logarithmic_only_beyond_three_decades() -> None:
    assert spans_decades([np.array([1e-4, 1.0])])
    assert not spans_decades([np.array([1e-2, 1.0])])
    assert not spans_decades([np.array([0.0, 1e6])])
    assert plot_run(make_run(metrics={"loss": [1e-5, 1.0]})).axes[0].get_yscale() == "log"


def test_long_curves_get_a_smooth_line() -> None:
    noisy = [float(index % 2) for index in range(400)]
    lines = curves(plot_run(make_run(metrics={"loss": noisy})))[0]
    assert len(lines) == 2
    assert np.ptp(lines[1][50:-50]) < 0.2


def test_smoothing_takes_only_finite_values() -> None:
    assert smooth(np.array([1.0, np.nan, 3.0])).tolist()[0] == 2.0
    assert np.isnan(smooth(np.array([1.0, np.nan, 3.0]))[1])


def test_runs_are_drawn_over_each_other_by_the_metrics_they_share() -> None:
    first = make_run("brisk-otter-7", metrics={"loss": [2.0, 1.0], "own": [1.0, 1.0]})
    second = make_run("calm-fox-2", metrics={"loss": [3.0, 1.0]})
    figure = compare_runs([first, second])
    assert len(figure.axes) == 1
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["brisk-otter-7", "calm-fox-2"]
    with pytest.raises(JtrainError, match="share no metric"):
        compare_runs([first, make_run("wise-newt-1")])


def test_strange_names_can_be_drawn_and_the_picture_is_the_same_each_time() -> None:
    run = make_run(metrics={"$x_{": [1.0, 2.0], "a" * 300: [1.0, 2.0], "emoji 🚂 <b>": [2.0, 1.0]})
    first = to_png(plot_run(run))
    assert first.startswith(b"\x89PNG")
    assert to_png(plot_run(run)) == first
