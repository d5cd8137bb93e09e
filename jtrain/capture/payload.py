"""A payload on disk: a folder with pickles, the big buffers that they refer to, and an index."""

from __future__ import annotations

import contextlib
import gc
import json
import mmap
import os
import pickle
import platform
import shutil
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import xxhash

from jtrain.capture.pickler import Pickler
from jtrain.capture.reducer import Reducer
from jtrain.capture.regions import write_regions
from jtrain.errors import CaptureError
from jtrain.store.files import read_json

_VALUES, _BUFFERS, _INDEX = "values.pkl", "buffers.bin", "index.json"
FORMAT_VERSION = 1
_PLACE_BYTES = 16
"""Of a row (start, size) of the table behind the buffers."""
_REBUILD = "jtrain.capture.rebuild"


# Writing ------------------------------------------------------------------------------------------------------------


class Output:
    """What pickles go to: counts and hashes them on their way to a file, where there is one."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self._file = file
        self.digest = xxhash.xxh3_128()
        self.size = 0
        self.error: OSError | None = None
        """What the file refused with, as opposed to an OSError of an object that was being pickled."""

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.size += size
        if self._file is not None:
            self.digest.update(data)
            try:
                self._file.write(data)
            except OSError as error:
                self.error = error
                raise
        return size


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder aside, which becomes `target` when the block ends well and vanishes when it doesn't."""
    aside = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}")
    aside.mkdir(mode=0o700)
    try:
        yield aside
        if target.exists():
            shutil.rmtree(target)
        os.rename(aside, target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def write_payload(
    folder: Path, reducer: Reducer, dump: Callable[[Pickler, Output], Mapping[str, Any]]
) -> dict[str, Any]:
    """Fill a folder and return its index. `dump` pickles all values and gives what else the index says.

    The buffers are written once everything could be pickled, from where they are in memory.
    """
    with open(folder / _VALUES, "wb", buffering=1 << 20) as file:
        output = Output(file)
        with _without_collection():
            more = dump(Pickler(output, reducer), output)
    end, count = _write_buffers(folder / _BUFFERS, reducer, output.digest)
    index = {
        "format": FORMAT_VERSION,
        "python": platform.python_version() if reducer.sources else "",
        "values_bytes": output.size,
        "buffers_bytes": end,
        "num_buffers": count,
        "digest": output.digest.hexdigest(),
        **more,
    }
    (folder / _INDEX).write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")
    return index


def _write_buffers(path: Path, reducer: Reducer, digest: Any) -> tuple[int, int]:
    """Where the buffers end, behind which the table of their places stands, and how many there are."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        places, end = write_regions(descriptor, reducer.regions.written, digest)
        table = places.tobytes()
        while table:
            table = table[os.pwrite(descriptor, table, end + len(places) * 8 - len(table)) :]
    finally:
        os.close(descriptor)
    return end, len(places) // 2


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Inside, the garbage collector rests: among many new objects it takes most of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# Reading ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Payload:
    """A payload that is complete."""

    folder: Path
    index: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Payload:
        """Raises CaptureError for one that is damaged or that this Python can't load."""
        try:
            index = read_json(folder / _INDEX)
            sizes = [(folder / name).stat().st_size for name in (_VALUES, _BUFFERS)]
            expected = [int(index["values_bytes"]), index["buffers_bytes"] + index["num_buffers"] * _PLACE_BYTES]
            version, written_by, names = index["format"], str(index["python"]), list(index["names"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CaptureError(f"{folder} is damaged ({error}); start the run again from its cell") from error
        if version != FORMAT_VERSION:
            raise CaptureError(f"{folder} was written by another jtrain (format {version})")
        if sizes != expected or not all(isinstance(name, str) for name in names):
            raise CaptureError(
                f"{folder} is damaged: its files have {sum(sizes)} bytes and should have {sum(expected)}; "
                "start the run again from its cell"
            )
        _check_python(folder, written_by)
        return cls(folder, index)

    @contextlib.contextmanager
    def loader(self, replaced: Mapping[str, Any], *, is_mapped: bool) -> Iterator[Loader]:
        """A loader of its pickles. Buffers are mapped privately, or copied; `replaced`: see Loader."""
        buffers = self._mapped() if is_mapped else self._copied()
        with open(self.folder / _VALUES, "rb") as file, _without_collection():
            yield Loader(file, buffers, replaced)

    def _places(self, descriptor: int) -> Iterator[tuple[int, int]]:
        table: array[int] = array("Q")
        size, end = self.index["num_buffers"] * _PLACE_BYTES, self.index["buffers_bytes"]
        table.frombytes(os.pread(descriptor, size, end))
        return zip(table[::2], table[1::2], strict=True)

    def _mapped(self) -> Iterator[memoryview]:
        """Private mappings: writable, what is written stays in this process, and what isn't touched isn't read."""
        if not self.index["num_buffers"]:
            return
        with open(self.folder / _BUFFERS, "rb") as file:
            flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
            view = memoryview(mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ | mmap.PROT_WRITE))
            places = list(self._places(file.fileno()))
        for start, size in places:
            yield view[start : start + size]

    def _copied(self) -> Iterator[memoryview]:
        """Memory of its own for each buffer: it needs the file no longer, and is freed with its last user."""
        if not self.index["num_buffers"]:
            return
        with open(self.folder / _BUFFERS, "rb", buffering=0) as file:
            for start, size in list(self._places(file.fileno())):
                view = memoryview(mmap.mmap(-1, size) if size >= mmap.PAGESIZE else bytearray(size))
                file.seek(start)
                done = 0
                while done < size:
                    done += file.readinto(view[done:]) or _raise_short(self.folder)
                yield view


def _raise_short(folder: Path) -> int:
    raise CaptureError(f"{folder} is damaged: it ends too early")


def _check_python(folder: Path, written_by: str) -> None:
    """Compiled code is only understood by the Python that compiled it."""
    here = platform.python_version()
    if written_by and written_by.split(".")[:2] != here.split(".")[:2]:
        raise CaptureError(
            f"{folder} holds functions of Python {written_by}, which Python {here} can't run; "
            "start the run again from its cell"
        )


class Loader(pickle.Unpickler):
    """Loads one pickle after the other. `replaced`: what is called instead of functions of `rebuild`, by name."""

    def __init__(self, file: IO[bytes], buffers: Iterator[memoryview], replaced: Mapping[str, Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._replaced = replaced

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if module_name == _REBUILD and global_name in self._replaced:
            return self._replaced[global_name]
        return super().find_class(module_name, global_name)
