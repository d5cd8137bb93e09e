"""Files that survive a crash: the only module that knows fsync, rename and flock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable; file systems without that promise are left alone."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network and FUSE file systems refuse to sync a folder: nothing more can be done there.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make the content of `path` durable. Raises OSError when it is missing or the disk fails."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, content: bytes | str, *, sync: bool = True) -> None:
    """Replace `path` by `content` as a whole: readers see the old or the new file, never a part.

    With `sync` the content is on the disk before the name points to it. Raises OSError
    (disk full, read-only, …) and then leaves the old file as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with open(aside, "xb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def append_line(path: Path, record: dict[str, Any], *, sync: bool = False) -> None:
    """Append `record` as one JSON line in a single write, so that a reader never sees half of it on a local disk.

    A torn line left by a full disk or a dead writer is closed first, so that it can't swallow this one. Half a
    surrogate pair (part of a file name that is no UTF-8, say) is written as the escape that JSON has for it.
    """
    line = json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"
    with open(path, "a+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                line = "\n" + line
        data = line.encode(errors="backslashreplace")
        written = file.write(data)
        if written != len(data):
            raise OSError(28, "No space left on device", str(path))
        if sync:
            os.fsync(file.fileno())


def read_lines(path: Path, start: int = 0) -> tuple[list[dict[str, Any]], int]:
    """JSON records of `path` from byte `start`, and the byte to go on from.

    A last line without its newline is left for later; a damaged line is skipped. A missing file has no lines.
    """
    try:
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return [], start
    end = data.rfind(b"\n") + 1
    records = []
    for line in data[:end].splitlines():
        try:
            record = parse(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return records, start + end


def read_json(path: Path) -> Any:
    """The JSON document in `path`, or None when there is none. Raises ValueError for a damaged one."""
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        return None


def read_record(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; an empty one when there is none, or what is there is damaged or can't be read."""
    try:
        record = read_json(path)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def parse(data: bytes) -> Any:
    """The value of a JSON text. Raises ValueError for every text that is none."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class FileLock:
    """An operating-system lock (flock) on a file: freed when the last process holding it is gone.

    The descriptor isn't inherited over exec, but a forked child keeps the lock too, until it calls `close`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock; False when somebody else has it."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def close(self) -> None:
        """Let go in this process. The lock is free once every process that inherited it has done so."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock on `path`; a missing file is not locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock on `path` and hold it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
