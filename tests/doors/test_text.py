"""Texts of the views."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from jtrain.domain.wording import clip, format_count, format_duration, format_number, table
from jtrain.store.progress import Progress
from jtrain.view.notebook import to_widget
from jtrain.view.snapshot import Snapshot, SnapshotReader, main_metric
from jtrain.view.text import progress_line, sparkline, summary_html, summary_text
from tests.doors.stores import make_run

RUNNING = Snapshot(
    run_id="brisk-otter-7",
    name="digits",
    state="running",
    world_size=2,
    elapsed_s=12.0,
    progress=Progress(
        step=50, total_steps=100, epoch=1, epochs=4, batch=5, num_batches=25, samples_per_s=1234.0, eta_s=245.0
    ),
    metrics={"loss": 0.25},
    curve_name="loss",
    curve=[1.0, float("nan"), 0.25],
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4217, "0.42 s"),
        (12.34, "12.3 s"),
        (99.97, "1 min 40 s"),
        (245, "4 min 05 s"),
        (11220, "3 h 07 min"),
        (200000, "2 d 07 h"),
        (float("nan"), "n/a"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.1235"),
        (3.0, "3"),
        (99999.4, "99999"),
        (1e-7, "1.000e-7"),
        (1.5e12, "1.500e12"),
        (float("nan"), "nan"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert format_number(value) == text


def test_counts() -> None:
    assert [format_count(n) for n in (0.5, 999, 999.9, 12345, 4.56e6)] == ["0.5", "999", "1 k", "12.3 k", "4.56 M"]


def test_clipping_and_columns_know_wide_characters() -> None:
    assert clip("訓練訓練", 5) == "訓練…"
    assert clip("a\x1b[31mb\n", 20) == "a [31mb "
    assert table([("訓", "1"), ("ab", "22")], right="1") == "訓   1\nab  22"


def test_the_progress_line_fits_its_width_and_says_the_main_things() -> None:
    line = progress_line(RUNNING, 200)
    assert all(
        word in line for word in ("brisk-otter-7", "running", "30%", "epoch 2/4", "step 50/100", "1.23 k samples/s")
    )
    assert "4 min 05 s left" in line
    assert "loss 0.25" in line
    assert len(progress_line(RUNNING, 40)) == 40


def test_a_waiting_run_says_what_it_waits_for() -> None:
    waiting = replace(RUNNING, state="queued", reason="waiting for 2 CPU slots")
    assert "waiting for 2 CPU slots" in progress_line(waiting)


def test_a_sparkline_keeps_gaps() -> None:
    assert sparkline([0.0, float("nan"), 1.0]) == "▁ █"
    assert sparkline([]) == ""
    assert len(sparkline([float(n) for n in range(1000)], width=40)) == 40
    assert sparkline([1.0, 1.0]) == "▁▁"


def test_the_summary_has_every_figure_on_a_line_of_its_own() -> None:
    done = replace(RUNNING, state="finished", progress=replace(RUNNING.progress, step=100))
    assert summary_text(done).splitlines() == [
        "run brisk-otter-7 (digits): finished",
        "  devices     2 ranks on CPU",
        "  steps       100 (4 epochs)",
        "  time        12.0 s",
        "  throughput  1.23 k samples/s",
        "  loss        0.25",
    ]


def test_names_and_reasons_never_become_html() -> None:
    evil = replace(
        RUNNING, name="<script>", state="failed", reason="<img onerror=x>", metrics={"<b>": 1.0}, curve_name=""
    )
    assert "<script>" not in summary_html(evil)
    assert "<img" not in summary_html(evil)
    assert "<b>1" not in summary_html(evil)


def test_a_widget_gets_texts_and_numbers_that_json_can_hold() -> None:
    shown = to_widget(RUNNING, ["a line"], "a note")
    assert shown["curve"] == [1.0, None, 0.25]
    assert shown["share"] == pytest.approx(0.3)
    assert shown["can_pause"]
    assert shown["lines"] == ["a line"]
    over = to_widget(replace(RUNNING, state="finished"), [])
    assert not over["can_pause"]
    assert not over["can_stop"]


def test_a_snapshot_is_read_from_the_runs_folder() -> None:
    run = make_run(metrics={"accuracy": [0.5], "loss": [3.0, 2.0, 1.0]}, name="digits")
    snapshot = SnapshotReader(run).read(is_last=True)
    assert snapshot.state == "finished"
    assert snapshot.metrics == {"accuracy": 0.5, "loss": 1.0}
    assert snapshot.curve == [3.0, 2.0, 1.0]
    assert snapshot.world_size == 2
    assert re.fullmatch(r"run brisk-otter-7 \(digits\): finished", summary_text(snapshot).splitlines()[0])


def test_the_main_metric_is_the_loss_if_there_is_one() -> None:
    assert main_metric(["acc", "loss"]) == "loss"
    assert main_metric(["acc", "val/Loss"]) == "val/Loss"
    assert main_metric(["acc", "f1"]) == "acc"
    assert main_metric([]) == ""
