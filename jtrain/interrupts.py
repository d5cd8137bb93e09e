"""Keyboard interrupts (SIGINT) while a run is prepared, started and waited for.

While a cell is captured an interrupt raises, as everywhere. From the moment on at which a run exists it is only
counted, so that none can fall between two lines and leave a run that nobody knows of; the waiting loop hears it.

Signals belong to the main thread. In other threads nothing here does anything.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """The interrupts of one cell: how many came, and whether they raise."""

    def __init__(self) -> None:
        self.count = 0
        self.is_raising = True

    @contextmanager
    def installed(self) -> Iterator[None]:
        """SIGINT comes here; inside another such block of the same object nothing changes.

        Needed also where SIGINT would raise anyway: the kernel of an awaited cell only cancels it at the next await.
        """
        if not _is_main_thread() or signal.getsignal(signal.SIGINT) == self._on_signal:
            yield
            return
        before = signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.is_raising:
            raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """No interrupt inside the block. One that came raises KeyboardInterrupt at its end, unless an `Interrupts` is
    installed: from here on that one only counts, and whoever installed it hears of it."""
    if not _is_main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    owner = getattr(handler, "__self__", None)
    if isinstance(owner, Interrupts):
        owner.is_raising = False
        yield
        return
    waiting = Interrupts()
    waiting.is_raising = False
    with waiting.installed():
        yield
    if waiting.count:
        raise KeyboardInterrupt


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
