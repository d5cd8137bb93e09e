"""Writes are whole or absent, locks live as long as their holders."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from jtrain.store.files import FileLock, append_line, is_locked, read_lines, write_atomic


def test_a_failed_write_keeps_the_old_file_and_leaves_no_rubbish(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    with pytest.raises(TypeError):
        write_atomic(path, 3)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_lines_are_read_from_where_one_left_off_and_a_torn_tail_waits(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append_line(path, {"a": 1})
    records, position = read_lines(path)
    assert records == [{"a": 1}]
    with open(path, "a") as file:
        file.write('{"a": 2}\n{"a": ')
    records, position = read_lines(path, position)
    assert records == [{"a": 2}]
    with open(path, "a") as file:
        file.write("3}\n")
    assert read_lines(path, position)[0] == [{"a": 3}]


def test_a_lock_is_free_when_its_killed_holder_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        FileLock(path).acquire() and os.write(writer, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(reader, 1)
    assert is_locked(path)
    assert not FileLock(path).acquire()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert not is_locked(path)


def test_a_forked_child_keeps_a_lock_until_it_closes_it(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire()
    go_read, go_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(go_read, 1)
        os._exit(0)
    lock.close()
    assert is_locked(lock.path)
    os.write(go_write, b"x")
    os.waitpid(pid, 0)
    assert not is_locked(lock.path)


def test_half_a_surrogate_pair_is_written_and_read_again(tmp_path: Path) -> None:
    append_line(tmp_path / "a", {"folder": "\udcff"})
    assert read_lines(tmp_path / "a")[0] == [{"folder": "\udcff"}]
