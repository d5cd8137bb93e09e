"""A widget's own thread: it ticks while somebody looks, and only then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jtrain.widgets.routing import detached

PATIENCE_S = 60.0
"""A view that wasn't heard of for so long is gone: a browser that is closed or loads its page again says nothing."""
_MOST_VIEWS = 100


class Pulse:
    """Calls `tick` again and again while a view is there; `tick` returns the seconds until the next one.

    Views say that they are there every few seconds (`keepPresent` in common.js). `on_start` and `on_end` are called on
    the same thread before the first tick and after the last.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[], float],
        *,
        on_start: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._tick = tick
        self._on_start = on_start
        self._on_end = on_end
        self._lock = threading.Lock()
        self._seen: dict[str, float] = {}
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def is_beating(self) -> bool:
        """Whether the thread runs."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def hear(self, view: str, *, is_present: bool) -> None:
        """A view says that it is there, or that it goes. Called on any thread."""
        with self._lock:
            if not is_present:
                self._seen.pop(view, None)
            elif len(self._seen) < _MOST_VIEWS or view in self._seen:
                self._seen[view] = time.monotonic()
            if self._is_wanted() and not self.is_beating:
                self._thread = threading.Thread(target=detached, args=(self._run,), name=self._name, daemon=True)
                self._thread.start()
        self._wake.set()

    def wake(self) -> None:
        """Tick now, when the thread runs."""
        self._wake.set()

    def close(self) -> None:
        """End the thread, for ever. Returns at once."""
        with self._lock:
            self._is_closed = True
        self._wake.set()

    def join(self, timeout_s: float = 5.0) -> bool:
        """Wait for the end of the thread; False when it is still there."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)
        return not self.is_beating

    def _is_wanted(self) -> bool:
        oldest = time.monotonic() - PATIENCE_S
        self._seen = {view: heard for view, heard in self._seen.items() if heard > oldest}
        return bool(self._seen) and not self._is_closed

    def _run(self) -> None:
        self._on_start()
        try:
            while self._goes_on():
                self._wake.clear()
                self._wake.wait(self._tick())
        finally:
            self._on_end()

    def _goes_on(self) -> bool:
        """Whether to tick once more; the answer "no" and the end of the thread are one step for `hear`."""
        with self._lock:
            if self._is_wanted():
                return True
            self._thread = None
            return False
