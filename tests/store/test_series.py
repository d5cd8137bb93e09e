"""Metric series on disk: any name, any crash, read while they grow."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jtrain.store.beginnings import Start
from jtrain.store.metric_table import AttemptSeries, MetricTable, merge_attempts
from jtrain.store.series import POINT, Points, SeriesReader, SeriesWriter, as_points, downsample

AWKWARD_NAMES = [
    "loss",
    "Loss",
    "train/loss",
    "../../escape",
    "with spaces",
    "quo\"te's",
    "new\nline",
    "\u2028",
    "ünï😀",
    "n" * 300,
    "con",
    ".",
    "0.bin",
]


def series(*values: float, start: int = 0) -> Points:
    return as_points([(start + index, 1000.0 + start + index, value) for index, value in enumerate(values)])


def test_any_name_comes_back_and_stays_inside_the_folder(tmp_path: Path) -> None:
    writer = SeriesWriter(tmp_path / "rank-0")
    for index, name in enumerate(AWKWARD_NAMES):
        writer.append(name, series(index))
    reader = SeriesReader(tmp_path / "rank-0")
    assert reader.names() == AWKWARD_NAMES
    assert [reader.read(name)["value"].tolist() for name in AWKWARD_NAMES] == [
        [index] for index in range(len(AWKWARD_NAMES))
    ]
    assert os.listdir(tmp_path) == ["rank-0"]


def test_a_reader_sees_appended_points_and_names_at_once(tmp_path: Path) -> None:
    reader, writer = SeriesReader(tmp_path), SeriesWriter(tmp_path)
    assert reader.names() == []
    assert len(reader.read("loss")) == 0
    writer.append("loss", series(1.0, 2.0))
    assert reader.read("loss")["value"].tolist() == [1.0, 2.0]
    writer.append("loss", series(math.nan, -math.inf, start=2))
    assert str(reader.read("loss", since=2)["value"].tolist()) == "[nan, -inf]"
    assert len(reader.read("loss", since=9)) == 0


def test_a_torn_tail_is_skipped_and_the_next_writer_goes_on(tmp_path: Path) -> None:
    SeriesWriter(tmp_path).append("loss", series(1.0, 2.0))
    with open(tmp_path / "0.bin", "ab") as file:
        file.write(b"torn record")
    with open(tmp_path / "names.jsonl", "ab") as file:
        file.write(b'{"id": 1, "na')
    assert SeriesReader(tmp_path).read("loss")["value"].tolist() == [1.0, 2.0]
    writer = SeriesWriter(tmp_path)
    writer.append("loss", series(3.0))
    writer.append("other", series(4.0))
    reader = SeriesReader(tmp_path)
    assert reader.read("loss")["value"].tolist() == [1.0, 2.0, 3.0]
    assert reader.read("other")["value"].tolist() == [4.0]


def test_nothing_appended_is_lost_by_kill_9(tmp_path: Path) -> None:
    program = """
import sys, pathlib
from jtrain.store.series import SeriesWriter
writer = SeriesWriter(pathlib.Path(sys.argv[1]))
step = 0
while True:
    writer.append("loss", [(step, 0.0, step / 2)])
    print(step, flush=True)
    step += 1
"""
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(300):
        acknowledged = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    points = SeriesReader(tmp_path).read("loss")
    assert len(points) > acknowledged
    assert points["step"].tolist() == list(range(len(points)))
    assert (points["value"] == points["step"] / 2).all()


def test_a_write_that_the_disk_cuts_short_keeps_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pwrite, room = os.pwrite, [60]

    def full_disk(descriptor: int, data: bytes, offset: int) -> int:
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = min(room[0], len(data))
        room[0] -= part
        return real_pwrite(descriptor, data[:part], offset)

    monkeypatch.setattr(os, "pwrite", full_disk)
    writer = SeriesWriter(tmp_path)
    assert writer.append("loss", series(1.0, 2.0, 3.0, 4.0)) == 2
    with pytest.raises(OSError, match="No space left"):
        writer.append("loss", series(3.0))
    assert (tmp_path / "0.bin").stat().st_size == 2 * POINT.itemsize
    room[0] = 10_000
    assert writer.append("loss", series(3.0, 4.0, start=2)) == 2
    assert SeriesReader(tmp_path).read("loss")["value"].tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("count", [9, 100, 2001, 100_003])
def test_downsampling_keeps_extremes_ends_and_order(count: int) -> None:
    points = series(*np.random.default_rng(0).normal(size=count))
    fewer = downsample(points, 2000 if count > 2000 else 8)
    assert len(fewer) <= (2000 if count > 2000 else 8)
    assert fewer["value"].min() == points["value"].min()
    assert fewer["value"].max() == points["value"].max()
    assert fewer[0] == points[0]
    assert fewer[-1] == points[-1]
    assert (np.diff(fewer["step"]) > 0).all()


def test_downsampling_leaves_a_short_series_alone() -> None:
    assert len(downsample(series(*range(8)), 8)) == 8
    with pytest.raises(ValueError, match="8 or more"):
        downsample(series(1.0), 2)


def test_downsampling_keeps_a_single_spike_nan_and_infinity() -> None:
    values = np.zeros(50_000)
    values[777], values[20_000], values[20_001], values[40_000] = 5.0, math.nan, -3.0, math.inf
    fewer = downsample(series(*values), 400)
    assert len(fewer) <= 400
    assert {777, 20_000, 20_001, 40_000} <= set(fewer["step"].tolist())


def test_downsampling_only_nans_keeps_nans() -> None:
    fewer = downsample(series(*[math.nan] * 1000), 100)
    assert 2 <= len(fewer) <= 100
    assert np.isnan(fewer["value"]).all()


def test_a_large_series_is_read_without_copying_it(tmp_path: Path) -> None:
    points = np.zeros(400_000, POINT)
    points["step"] = np.arange(len(points))
    SeriesWriter(tmp_path).append("loss", points)
    read = SeriesReader(tmp_path).read("loss", since=100_000)
    assert isinstance(read, np.memmap)
    assert read["step"][0] == 100_000
    assert not read.flags.writeable


def test_a_later_attempt_replaces_what_it_does_again() -> None:
    first, second = series(*range(10)), series(*range(100, 104), start=7)
    by_step = merge_attempts([(1, first, Start()), (2, second, Start(6))])
    assert by_step["step"].tolist() == [*range(7), 7, 8, 9, 10]
    assert by_step["value"].tolist() == [*range(7), 100, 101, 102, 103]
    anew = merge_attempts([(1, first, Start()), (2, second, Start())])
    assert anew.tolist() == second.tolist()
    three = merge_attempts([(1, first, Start()), (2, second, Start(6)), (3, series(-1.0, start=4), Start(3))])
    assert three["step"].tolist() == [0, 1, 2, 3, 4]


def test_metrics_with_steps_of_their_own_are_merged_by_time() -> None:
    # Per-epoch steps 0, 1, 2 were logged at 1000, 1001, 1002 s; the state resumed from was taken at 1001.5 s.
    first, second = series(0.1, 0.2, 0.3), as_points([(2, 2000.0, 0.35), (3, 2001.0, 0.4)])
    merged = merge_attempts([(1, first, Start()), (2, second, Start(5000, 1001.5))])
    assert merged["step"].tolist() == [0, 1, 2, 3]
    assert merged["value"].tolist() == [0.1, 0.2, 0.35, 0.4]


def test_a_clock_that_was_set_back_between_attempts_loses_nothing() -> None:
    first = as_points([(1, 1000.0, 1.0), (2, 1001.0, 2.0), (3, 1002.0, 3.0)])
    second = as_points([(3, 10.0, 30.0), (4, 11.0, 40.0), (5, 12.0, 50.0)])
    third = as_points([(5, 5.0, 500.0)])
    merged = merge_attempts([(1, first, Start()), (2, second, Start(2, 1001.5, 1)), (3, third, Start(4, 11.5, 2))])
    assert merged["value"].tolist() == [1.0, 2.0, 30.0, 40.0, 500.0]
    fallen_back = merge_attempts(
        [(1, first, Start()), (2, second, Start(2, 1001.5, 1)), (3, third, Start(1, 1000.5, 1))]
    )
    assert fallen_back["value"].tolist() == [1.0, 500.0]
    of_another_run = merge_attempts([(1, first, Start(0, 1.0, 0)), (2, third, Start(0, 1.0, 0))])
    assert of_another_run["value"].tolist() == [500.0]


@pytest.fixture
def table(tmp_path: Path) -> MetricTable:
    first, second = SeriesWriter(tmp_path / "1"), SeriesWriter(tmp_path / "2")
    first.append("loss", series(3.0, 2.0, 9.0))
    first.append("<b>acc</b>", series(0.5, start=1))
    second.append("loss", series(1.0, 0.5, start=2))
    second.append("new", series(7.0, start=3))
    return MetricTable([AttemptSeries(1, tmp_path / "1"), AttemptSeries(2, tmp_path / "2", Start(1))])


def test_the_table_reads_like_a_frame(table: MetricTable) -> None:
    assert table.columns == list(table) == ["loss", "<b>acc</b>", "new"]
    assert table["loss"].tolist() == [3.0, 2.0, 1.0, 0.5]
    assert table.steps("loss").tolist() == [0, 1, 2, 3]
    assert table.last("loss") == 0.5
    assert len(table) == 4
    assert "loss" in table
    assert "lost" not in table
    assert list(dict(table)) == table.columns
    with pytest.raises(KeyError, match="did you mean 'loss'"):
        table["los"]


def test_the_table_becomes_a_pandas_frame(table: MetricTable) -> None:
    frame = table.to_pandas()
    assert frame.index.name == "step"
    assert len(frame) == len(table)
    assert frame["loss"].tolist() == [3.0, 2.0, 1.0, 0.5]
    assert frame["new"].dropna().to_dict() == {3: 7.0}


def test_the_table_is_shown_as_text_never_as_html(table: MetricTable) -> None:
    assert "&lt;b&gt;acc&lt;/b&gt;" in table._repr_html_()
    assert "<b>" not in table._repr_html_()
    assert "loss" in repr(table)
    assert "0.5" in repr(table)
    empty = MetricTable([])
    assert (len(empty), repr(empty), empty.columns) == (0, "no metrics logged yet", [])
    assert len(empty.to_pandas()) == 0


def test_repeated_and_backward_steps_are_kept_in_order(tmp_path: Path) -> None:
    SeriesWriter(tmp_path).append("loss", as_points([(5, 1.0, 0.1), (5, 2.0, 0.2), (3, 3.0, 0.3)]))
    table = MetricTable([AttemptSeries(1, tmp_path)])
    assert table.steps("loss").tolist() == [5, 5, 3]
    assert table.to_pandas()["loss"].to_dict() == {3: 0.3, 5: 0.2}
