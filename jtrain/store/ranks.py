"""A small memory-mapped table that the supervisor and all ranks of an attempt share.

It carries progress and heartbeats outwards, and wishes ("pause", "checkpoint") inwards, and lets
the ranks agree on the batch at which they fulfil a wish, without a collective operation: a step
costs one store and one load.

How the ranks agree. Boundaries between batches are numbered alike on all ranks. At boundary `b` a
rank looks at the request cell. Empty: it notes `passed = b` and goes on. Not empty: it notes
`parked = b` and waits. If it then sees that some rank has passed `b`, that rank may need it for a
collective operation, so it notes `passed = b` too and goes on to the next boundary. If it sees
every living rank parked at `b`, nobody has passed it and nobody can any more: all of them see
the same, and fulfil the request there (`served` tells it to a rank that looks late). Each cell only ever grows,
so a late look delays the agreement but can't break it. For the same reason a wish is never taken
back, and a new one is only made when the last has been served.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

_MAGIC = 0x6A747261_00000001  # "jtra", version 1
_HEADER_CELLS = 16
_ROW_CELLS = 32
_CELL_BYTES = 8

# Cells of the header.
_MAGIC_CELL, _WORLD_CELL, _REQUEST_CELL = range(3)

_CELLS = (
    "passed",
    "parked",
    "done",
    "micro_step",
    "step",
    "total_steps",
    "epoch",
    "epochs",
    "batch",
    "num_batches",
    "samples",
    "served",
    "refused",
    "pid",
    "loop_micro_step",
    "loop_samples",
    "heartbeat",
    "loop_started",
    "loss",
    "met",
    "idle_even",
    "idle_odd",
    "written",
    "published",
    "wants_save",
    "told_to_end",
    "failed_after",
    "begun",
)
_FLOATS = frozenset({"heartbeat", "loop_started", "loss"})
_POSITION = {name: index for index, name in enumerate(_CELLS)}
_PASSED, _SERVED = _POSITION["passed"], _POSITION["served"]


class Request(IntEnum):
    """What the ranks are asked to do together at their next common boundary."""

    NONE = 0
    PAUSE = 1
    CHECKPOINT = 2


class RankRow:
    """One rank's cells, as attributes.

    Integers: `passed`, `parked` (boundary numbers, from 1), `done` (1 when the rank's program has ended), `micro_step`
    (batches so far), `step` (optimizer steps so far), `total_steps` (0 when unknown), `epoch` (from 0), `epochs`,
    `batch` (in this epoch), `num_batches` (0 when unknown), `samples` (seen by this rank), `pid`; `loop_micro_step` and
    `loop_samples` (their values when this attempt's training loop began); `told_to_end` (the signal that the
    rank's process got and that announces the machine's end); `failed_after` (the `micro_step` of the last loop's end,
    when the cell raised an error after it).
    Of checkpoints, which each rank numbers from 1: `begun`, the last one that was taken here; `written`, the last one
    whose part this rank has on the disk (negative: it failed); `published`, rank 0's: the last one that is complete
    (negative: it was given up); `wants_save`, rank 0's: the last one during whose writing another was due. `met`,
    `idle_even`, `idle_odd`: see `meet`.
    Floats: `heartbeat` and `loop_started` (UTC epoch seconds), `loss` (the latest).
    """

    __slots__ = ("_base", "_floats", "_integers")

    _base: int
    _integers: memoryview[int]
    _floats: memoryview[float]

    passed: int
    parked: int
    done: int
    micro_step: int
    step: int
    total_steps: int
    epoch: int
    epochs: int
    batch: int
    num_batches: int
    samples: int
    served: int
    refused: int
    pid: int
    loop_micro_step: int
    loop_samples: int
    met: int
    idle_even: int
    idle_odd: int
    written: int
    published: int
    wants_save: int
    told_to_end: int
    failed_after: int
    begun: int
    heartbeat: float
    loop_started: float
    loss: float

    def __init__(self, integers: memoryview[int], floats: memoryview[float], base: int) -> None:
        object.__setattr__(self, "_integers", integers)
        object.__setattr__(self, "_floats", floats)
        object.__setattr__(self, "_base", base)

    def __getattr__(self, name: str) -> int | float:
        try:
            cell = self._base + _POSITION[name]
        except KeyError:
            raise AttributeError(name) from None
        return self._floats[cell] if name in _FLOATS else self._integers[cell]

    def __setattr__(self, name: str, value: float) -> None:
        if name in _FLOATS:
            self._floats[self._base + _POSITION[name]] = value
        elif name in _POSITION:
            self._integers[self._base + _POSITION[name]] = int(value)
        else:
            raise AttributeError(name)


class RankTable:
    """The table of one attempt; opened by the supervisor, by every rank, and by viewers (read-only)."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        flags = os.O_RDWR if writable else os.O_RDONLY
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        try:
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._map = mmap.mmap(descriptor, 0, access=access)
        finally:
            os.close(descriptor)
        view = memoryview(self._map)
        if len(view) % _CELL_BYTES or len(view) < _HEADER_CELLS * _CELL_BYTES:
            raise ValueError(f"{path} is damaged: no rank table has {len(view)} bytes")
        self._integers = view.cast("q")
        self._floats = view.cast("d")
        self._view = view
        if self._integers[_MAGIC_CELL] != _MAGIC:
            raise ValueError(f"{path} is not a rank table of this version of jtrain")
        self.world_size = self._integers[_WORLD_CELL]
        if not 0 < self.world_size <= (len(self._integers) - _HEADER_CELLS) // _ROW_CELLS:
            raise ValueError(f"{path} is damaged: it has no room for {self.world_size} ranks")
        self._rows = [
            RankRow(self._integers, self._floats, _HEADER_CELLS + rank * _ROW_CELLS) for rank in range(self.world_size)
        ]

    @classmethod
    def create(cls, path: Path, world_size: int) -> RankTable:
        """Write an empty table for `world_size` ranks and open it for writing."""
        cells = _HEADER_CELLS + world_size * _ROW_CELLS
        content = bytearray(cells * _CELL_BYTES)
        struct.pack_into("qq", content, 0, _MAGIC, world_size)
        path.write_bytes(content)
        return cls(path, writable=True)

    @classmethod
    def open(cls, path: Path, *, writable: bool = True) -> RankTable:
        """Open an existing table. Raises FileNotFoundError, or ValueError for a file that is none."""
        return cls(path, writable=writable)

    def close(self) -> None:
        """Unmap the table; its rows must not be used afterwards."""
        self._rows = []
        self._integers.release()
        self._floats.release()
        self._view.release()
        self._map.close()

    def row(self, rank: int) -> RankRow:
        """The cells of `rank`."""
        return self._rows[rank]

    @property
    def request(self) -> Request:
        """The wish that is pending, or NONE."""
        return Request(self._integers[_REQUEST_CELL] & 0xFF)

    def set_request(self, request: Request) -> None:
        """Ask the ranks for something; called by the supervisor only, and only when no earlier wish is pending.

        Raises RuntimeError when one is: ranks may be agreeing on it at this very moment.
        """
        if not self.is_served():
            raise RuntimeError(f"the ranks have not answered {self.request.name} yet")
        number = (self._integers[_REQUEST_CELL] >> 8) + 1
        self._integers[_REQUEST_CELL] = number << 8 | request

    @property
    def is_refused(self) -> bool:
        """Whether the ranks agreed on the pending wish but could not fulfil it (a pause whose checkpoint failed)."""
        wish = self._integers[_REQUEST_CELL]
        return bool(wish & 0xFF) and any(row.refused == wish for row in self._rows)

    def is_served(self) -> bool:
        """Whether no wish is pending, or every living rank has begun to fulfil it."""
        wish = self._integers[_REQUEST_CELL]
        return not wish & 0xFF or all(row.served == wish or row.done for row in self._rows)

    def boundary(self, rank: int, number: int, on_wait: Callable[[], None] | None = None) -> Request:
        """Pass boundary `number` (from 1, growing by 1), or agree with all other ranks to stand at it.

        Returns NONE at once when nothing is asked for. Otherwise waits for the other ranks, calling
        `on_wait` about once a millisecond, and returns the request when all of them stand here too.
        """
        base = _HEADER_CELLS + rank * _ROW_CELLS
        wish = self._integers[_REQUEST_CELL]
        if not wish & 0xFF or self._integers[base + _SERVED] == wish:
            self._integers[base + _PASSED] = number
            return Request.NONE
        return self._park(rank, number, wish, on_wait)

    def _park(self, rank: int, number: int, wish: int, on_wait: Callable[[], None] | None) -> Request:
        own = self._rows[rank]
        own.parked = number
        pause_s = 0.0
        while True:
            living = [row for row in self._rows if not row.done]
            # Read `passed` before `served`: a rank that served the wish here may have passed the next boundary already.
            is_needed = any(row.passed >= number for row in living)
            if any(row.served == wish for row in living) or all(row.parked == number for row in living):
                own.served = wish
                return Request(wish & 0xFF)
            if is_needed:
                own.passed = number
                return Request.NONE
            if on_wait is not None:
                on_wait()
            time.sleep(pause_s)
            pause_s = min(pause_s + 0.0002, 0.002)

    def meet(self, rank: int, number: int, *, is_idle: bool) -> bool:
        """Wait for all living ranks, which come here as well; returns on all of them what rank 0 says of `is_idle`.

        `number` counts the meetings, from 1. Rank 0 notes its word before it comes, and for odd and even meetings in
        different cells: it can't come to the next but one before all have read this one.
        """
        cell = "idle_odd" if number % 2 else "idle_even"
        own, first = self._rows[rank], self._rows[0]
        if rank == 0:
            setattr(own, cell, number if is_idle else -number)
        own.met = number
        pause_s = 0.0
        while not all(row.met >= number or row.done for row in self._rows):
            time.sleep(pause_s)
            pause_s = min(pause_s + 0.0002, 0.002)
        return int(getattr(first, cell)) == number
