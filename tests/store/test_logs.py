"""Rank logs as a person wants to read them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tqdm import tqdm

from jtrain.store.logs import LogReader, WarningFolder, merge_ranks, tail
from jtrain.store.screen import MAX_LINE_CHARS, Screen


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "rank-0.log"
    path.touch()
    return path


def append(path: Path, data: bytes | str) -> None:
    with open(path, "ab") as file:
        file.write(data.encode() if isinstance(data, str) else data)


def shown(text: str) -> list[str]:
    screen = Screen()
    return [*screen.feed(text), screen.live]


def test_a_line_without_newline_is_shown_and_completed_later(log: Path) -> None:
    reader = LogReader(log)
    append(log, "one\ntw")
    first = reader.read()
    append(log, "o\n")
    second = reader.read()
    assert (first.lines, first.partial) == (["one"], "tw")
    assert (second.lines, second.partial) == (["two"], "")
    assert reader.read().lines == []


def test_a_log_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    reader = LogReader(tmp_path / "rank-0.log")
    assert reader.read().lines == []
    append(tmp_path / "rank-0.log", "hello\n")
    assert reader.read().lines == ["hello"]
    assert tail(tmp_path / "none.log", 3) == ""


def test_a_progress_bar_is_one_line_that_is_replaced(log: Path) -> None:
    stream = io.StringIO()
    reader = LogReader(log)
    partials, lines = [], []
    for _ in tqdm(range(5), file=stream, mininterval=0, desc="train"):
        append(log, stream.getvalue())
        stream.seek(0)
        stream.truncate()
        chunk = reader.read()
        lines += chunk.lines
        partials.append(chunk.partial)
    append(log, stream.getvalue())
    last = reader.read()
    assert lines == []
    assert len(set(partials)) == 5
    assert all(partial.count("train") == 1 for partial in partials)
    assert [line[:11] for line in last.lines] == ["train: 100%"]
    assert tail(log).count("train") == 1


def test_nested_progress_bars_stay_two_lines() -> None:
    stream = io.StringIO()
    screen = Screen()
    lines = []
    with tqdm(range(3), file=stream, mininterval=0, desc="outer", position=0) as outer:
        for _ in outer:
            for _ in tqdm(range(4), file=stream, mininterval=0, desc="inner", position=1, leave=False):
                lines += screen.feed(stream.getvalue())
                stream.seek(0)
                stream.truncate()
                assert screen.live.count("inner") == 1
    lines += screen.feed(stream.getvalue())
    assert [line.split(":")[0] for line in lines if line.strip()] == ["outer"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m text\n", ["red text", ""]),
        ("windows\r\nline\r\n", ["windows", "line", ""]),
        ("\x1b]0;title\x07after\n", ["after", ""]),
        ("abc\b\bX\n", ["aXc", ""]),
        ("50 %\r\x1b[Kdone\n", ["done", ""]),
        ("long text\rshort", ["shorttext"]),
        ("a\x00b\x01\n", ["a\ufffdb\ufffd", ""]),
        ("\x07bell\tand tab", ["bell\tand tab"]),
        ("\n\nx", ["", "", "x"]),
        ("<script>alert(1)</script>", ["<script>alert(1)</script>"]),
        ("one\ntwo\x1b[A\rONE", ["ONE\ntwo"]),
    ],
)
def test_text_reads_as_on_a_terminal(text: str, expected: list[str]) -> None:
    assert shown(text) == expected
    # However the text arrives in pieces, the screen ends the same.
    screen = Screen()
    lines = [line for character in text for line in screen.feed(character)]
    if "\x1b[A" not in text:
        assert [*lines, screen.live] == expected


def test_characters_cut_between_two_reads_stay_whole(log: Path) -> None:
    reader = LogReader(log)
    emoji = "🚀 é\n".encode()
    partials = ""
    for byte in emoji:
        append(log, bytes([byte]))
        chunk = reader.read()
        partials += "".join(chunk.lines)
    assert partials == "🚀 é"


def test_binary_rubbish_becomes_replacement_characters(log: Path) -> None:
    append(log, bytes(range(256)) * 4 + b"\nafter\n")
    lines = LogReader(log).read().lines
    assert lines[-1] == "after"
    assert all(character.isprintable() or character == "\t" for line in lines for character in line.replace("\xad", ""))
    assert "\ufffd" in "".join(lines)


def test_ten_megabytes_in_one_line_are_cut_for_display(log: Path) -> None:
    append(log, "x" * 10_000_000 + "\nnext\n")
    (long, last) = tail(log).splitlines()
    assert last == "next"
    assert long.startswith("x" * MAX_LINE_CHARS + "…")
    assert str(10_000_000 - MAX_LINE_CHARS) in long


def test_a_reader_that_falls_behind_skips_to_the_end_and_says_so(log: Path) -> None:
    reader = LogReader(log, max_bytes=1000)
    append(log, "".join(f"line {number}\n" for number in range(10_000)))
    chunk = reader.read()
    assert chunk.lines[-1] == "line 9999"
    assert len(chunk.lines) < 101
    assert chunk.skipped_bytes == log.stat().st_size - 1000


def test_tail_of_a_huge_sparse_log_reads_only_its_end(log: Path) -> None:
    with open(log, "wb") as file:
        file.truncate(5 << 30)
        file.seek(0, 2)
        file.write(b"\none\ntwo\nthree")
    assert tail(log, 2) == "two\nthree"
    assert tail(log, 0) == ""


@pytest.mark.parametrize("lines", [1, 3, 5000])
def test_tail_gives_exactly_the_last_lines(log: Path, lines: int) -> None:
    written = [f"line {number} " + "é" * 40 for number in range(9000)]
    append(log, "\n".join(written) + "\n")
    assert tail(log, lines).splitlines() == written[-lines:]
    assert tail(log).splitlines() == written


def test_a_warning_of_every_rank_is_shown_once_with_a_count() -> None:
    warning = ["/site/lib.py:12: UserWarning: lr_scheduler before optimizer", "  warnings.warn(text)"]
    torch_warnings = [
        f"[rank{rank}]:[W1201 10:00:0{rank}.123 {rank + 4}000 Group.cpp:77] Warning: slow" for rank in range(2)
    ]
    merged = merge_ranks({rank: [*warning, f"hello from {rank}", torch_warnings[rank]] for rank in range(2)})
    assert merged[:2] == [f"[rank 0] {line}" for line in warning]
    assert [line for line in merged if "hello" in line] == ["[rank 0] hello from 0", "[rank 1] hello from 1"]
    assert sum("lr_scheduler" in line for line in merged if line.startswith("[rank")) == 1
    assert "UserWarning: lr_scheduler before optimizer (2 times, ranks 0, 1)" in merged
    assert "Warning: slow (2 times, ranks 0, 1)" in merged


def test_different_warnings_and_ordinary_repeats_are_kept() -> None:
    folder = WarningFolder()
    lines = ["a.py:1: UserWarning: one", "a.py:2: UserWarning: two", "same", "same", "  indented"]
    assert folder.feed(lines) == lines
    assert folder.summary() == []
