"""The best source of GPU readings that works on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from jtrain.devices.nvml import NvmlSource
from jtrain.devices.processes import ProcessNames
from jtrain.devices.smi import SmiSource
from jtrain.devices.sources import Source, SourceError, unread_sample
from jtrain.domain.devices import Device, DeviceSample

_RETRY_S = 60.0
"""When no source can be used, how long until they are tried again."""

_REOPEN_S = 300.0
"""NVML lists the GPUs that were there when it was opened: so it is opened anew now and then."""

_NOTHING = "No GPU can be seen on this machine: runs use the CPU; CPU and memory are shown."

_Answer = TypeVar("_Answer")


class BestSource:
    """NVML, else nvidia-smi, else no GPUs. Never raises; `describe` says what went wrong."""

    def __init__(
        self,
        sources: Sequence[tuple[str, Source]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources or (("NVML", NvmlSource()), ("nvidia-smi", SmiSource()))
        self._clock = clock
        self._current: tuple[str, Source] | None = None
        self._failures: list[str] = []
        self._seen: tuple[str, ...] = ()
        self._due = float("-inf")

    def devices(self) -> list[Device]:
        return self._ask(lambda source: source.devices(), [])

    def read(self, names: ProcessNames) -> list[DeviceSample]:
        """One sample per device; devices that were seen before and can't be read now stay, with the reason."""
        samples: list[DeviceSample] = self._ask(lambda source: source.read(names), [])
        if samples:
            self._seen = tuple(sample.uuid for sample in samples)
            return samples
        reason = " ".join(self._failures) or "no GPU is listed any more"
        return [unread_sample(uuid, reason) for uuid in self._seen]

    def describe(self) -> list[str]:
        """Where GPU readings come from, or why there are none, in sentences."""
        sentences: list[str] = self._ask(lambda source: source.describe(), [])
        return (sentences or [_NOTHING]) + self._failures

    def interrupt(self) -> None:
        """End a reading that another thread waits for, where that is possible."""
        for _, source in self._sources:
            source.interrupt()

    def close(self) -> None:
        """Let go of the drivers; the next question opens them again."""
        if self._current is not None:
            self._current[1].close()
        self._current = None
        self._due = float("-inf")

    def _ask(self, question: Callable[[Source], _Answer], otherwise: _Answer) -> _Answer:
        if self._clock() >= self._due:
            self._choose()
        if self._current is None:
            return otherwise
        name, source = self._current
        try:
            return question(source)
        except Exception as error:  # noqa: BLE001 - third-party code and a driver: no failure of theirs may end a run
            self._give_up(name, source, error)
            return otherwise

    def _choose(self) -> None:
        """Take the first source that can list its devices."""
        self.close()
        self._failures = []
        for name, source in self._sources:
            try:
                source.open()
                source.devices()
            except Exception as error:  # noqa: BLE001 - as in `_ask`
                self._give_up(name, source, error)
                continue
            self._current = (name, source)
            self._due = self._clock() + _REOPEN_S
            return

    def _give_up(self, name: str, source: Source, error: Exception) -> None:
        reason = str(error) if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
        self._failures.append(f"{name} can't be used: {reason}.")
        self._current = None
        self._due = self._clock() + _RETRY_S
        source.close()
