"""What every source of GPU readings can do."""

from __future__ import annotations

from typing import Protocol

from jtrain.devices.processes import ProcessNames
from jtrain.domain.devices import Device, DeviceSample, missing


class SourceError(Exception):
    """A source can't be used; the text says why, for people."""


class Source(Protocol):
    """A way to read the GPUs of this machine. Used by one thread at a time, except for `interrupt`."""

    def open(self) -> None:
        """Make it ready. Raises SourceError when this machine doesn't have it."""

    def devices(self) -> list[Device]:
        """The GPUs and MIG slices, in the machine's order. Raises SourceError."""

    def read(self, names: ProcessNames) -> list[DeviceSample]:
        """One sample per device. Raises SourceError when nothing at all can be read."""

    def describe(self) -> list[str]:
        """Where the readings come from and what is wrong with them, in sentences. Raises SourceError."""

    def interrupt(self) -> None:
        """End a reading that another thread waits for, where that is possible."""

    def close(self) -> None:
        """Let go of everything; `open` may follow. Never raises."""


def unread_sample(uuid: str, reason: str, *, is_lost: bool = False) -> DeviceSample:
    """The sample of a device of which nothing could be read."""
    none = missing(reason)
    return DeviceSample(uuid, none, none, none, none, none, (), reason, is_lost)
