"""Leases: operating-system locks (flock) on the devices' files in the machine's folder.

A lock belongs to the open file, which forked processes share: a device is free again when the supervisor and all
workers that inherited the lease are gone, however they ended. So nothing here ever unlocks; it only closes.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jtrain.domain.devices import Device
from jtrain.engine.machine import MachinePaths, open_shared, read_bounded
from jtrain.engine.queue import LeaseState

_TRIES = 20
_TRY_AGAIN_S = 0.002
"""Somebody who looks whether a device is free holds its lock for some microseconds."""

_MOST_NOTE_BYTES = 2048
_PLAIN = re.compile(r"[\w.@-]{1,64}")


@dataclass(frozen=True)
class Holder:
    """Who says that they hold a lease: run id and user, empty when unknown."""

    run_id: str = ""
    user: str = ""
    is_shared: bool = False


class Lease:
    """Devices held by this process, and by the processes forked from it since."""

    def __init__(self, devices: Sequence[Device], fds: Sequence[int], *, is_shared: bool = False) -> None:
        self.devices = tuple(devices)
        self.fds = list(fds)
        self.is_shared = is_shared

    def release(self) -> None:
        """Let go in this process; forked processes that are still alive keep the devices."""
        fds, self.fds = self.fds, []
        for descriptor in fds:
            os.close(descriptor)

    def renew(self) -> None:
        """Show that the lock files are in use, to services that clear old files away; about once an hour is enough."""
        for descriptor in self.fds:
            # Not permitted where the file's maker left it closed to others; then it isn't theirs to clear either.
            with contextlib.suppress(OSError):
                os.utime(descriptor)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class LeaseTable:
    """The machine's leases."""

    def __init__(self, paths: MachinePaths) -> None:
        self._paths = paths

    def acquire(self, devices: Sequence[Device], run_id: str, *, is_shared: bool = False) -> Lease | None:
        """Lease all of `devices` or none of them; None when one is taken.

        Shared leases stand together on a device, and exclude exclusive ones. Raises OSError when a lock file can't
        be opened.
        """
        held: dict[str, int] = {}
        # Everybody takes them in the same order, so that nobody waits in a circle.
        for uuid in sorted({device.uuid for device in devices}):
            descriptor = self._lock(uuid, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
            if descriptor is None:
                Lease([], list(held.values())).release()
                return None
            held[uuid] = descriptor
        for uuid in held:
            self._note_holder(uuid, run_id, is_shared)
        return Lease(devices, list(held.values()), is_shared=is_shared)

    def free(self, devices: Iterable[Device]) -> list[Device]:
        """Those of `devices` on which there is no lease."""
        return [device for device in devices if self.state(device.uuid) == "free"]

    def state(self, uuid: str) -> LeaseState:
        """Whether the device is free, or leased shared or exclusively."""
        try:
            descriptor = open_shared(self._paths.lock(uuid))
        except FileNotFoundError:
            return "free"
        except OSError:
            return "exclusive"  # a file nobody can lock is no device anybody can lease
        try:
            if not _try_lock(descriptor, fcntl.LOCK_SH, tries=1):
                return "exclusive"
            # To tell shared from free, the lock must be tried exclusively, which may disturb others: so only
            # where a shared lease was seen last.
            if _read_holder(descriptor).is_shared and not _try_lock(descriptor, fcntl.LOCK_EX, tries=2):
                return "shared"
            return "free"
        finally:
            os.close(descriptor)

    def holder(self, uuid: str) -> str | None:
        """The id of the run that has the device, `"another run"` when it doesn't say, None when it is free."""
        return None if self.state(uuid) == "free" else self.read_holder(uuid).run_id or "another run"

    def read_holder(self, uuid: str) -> Holder:
        """Who leased the device last, by their own words; it may be free since."""
        try:
            descriptor = open_shared(self._paths.lock(uuid))
        except OSError:
            return Holder()
        try:
            return _read_holder(descriptor)
        finally:
            os.close(descriptor)

    def _lock(self, uuid: str, operation: int) -> int | None:
        path = self._paths.lock(uuid)
        while True:
            descriptor = open_shared(path, create=True)
            if not _try_lock(descriptor, operation):
                os.close(descriptor)
                return None
            # Somebody may have cleared the folder since it was opened: then this is a lock on nothing.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False)):
                    return descriptor
            os.close(descriptor)

    def _note_holder(self, uuid: str, run_id: str, is_shared: bool) -> None:
        note = {"run": run_id, "user": _user_name(), "pid": os.getpid(), "since": time.time(), "shared": is_shared}
        content = json.dumps(note).encode()
        # Only for people to read: a file that can't be written doesn't matter.
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(self._paths.lock(uuid), flags)
            try:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, content, 0)
            finally:
                os.close(descriptor)


def _try_lock(descriptor: int, operation: int, tries: int = _TRIES) -> bool:
    for attempt in range(tries):
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < tries:
                time.sleep(_TRY_AGAIN_S)
        else:
            return True
    return False


def _read_holder(descriptor: int) -> Holder:
    try:
        note = json.loads(read_bounded(descriptor, _MOST_NOTE_BYTES))
        run_id, user, is_shared = str(note["run"]), str(note["user"]), note["shared"] is True
    except (OSError, ValueError, LookupError, TypeError):
        return Holder()
    # Anybody may have written it, and it is shown to people.
    return Holder(run_id if _PLAIN.fullmatch(run_id) else "", user if _PLAIN.fullmatch(user) else "", is_shared)


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
