"""Tickets: the public notes of waiting runs, one file each, locked by the run's supervisor while it waits."""

from __future__ import annotations

import fcntl
import os
import pwd
import time
from pathlib import Path

from pydantic import ValidationError

from jtrain.engine.machine import MachinePaths, open_shared, read_bounded
from jtrain.engine.queue import Ticket

_LONGEST_CLOCK_SKEW_S = 60.0


class TicketBooth:
    """Puts down this run's ticket and reads everybody's. A ticket counts while the file's lock is held."""

    def __init__(self, paths: MachinePaths) -> None:
        self._folder = paths.tickets
        self._path: Path | None = None
        self._descriptor: int | None = None
        self.ticket: Ticket | None = None
        self.skipped: dict[str, str] = {}

    def put(self, ticket: Ticket) -> Ticket:
        """Put the ticket down, until `take_back`; returns it as all others read it. Raises OSError."""
        self.take_back()
        nonce = os.urandom(4).hex()
        ticket = ticket.model_copy(update={"nonce": nonce, "user": _name_user(os.getuid()), "seen": time.time()})
        path = self._folder / f"{ticket.run_id}.{nonce}.json"
        aside = self._folder / f".{path.name}"
        descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.fchmod(descriptor, 0o644)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, ticket.model_dump_json(exclude={"user", "seen"}).encode())
            os.rename(aside, path)  # locked before anybody can see it
        except OSError:
            os.close(descriptor)
            aside.unlink(missing_ok=True)
            raise
        self._path, self._descriptor, self.ticket = path, descriptor, ticket
        return ticket

    def renew(self) -> None:
        """Show that the supervisor behind the ticket is awake; put it down again if it was cleared away."""
        if self._descriptor is None or self.ticket is None:
            return
        os.utime(self._descriptor)
        if os.fstat(self._descriptor).st_nlink == 0:
            self.put(self.ticket)

    def take_back(self) -> None:
        """Leave the line."""
        if self._descriptor is None or self._path is None:
            return
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._path = self._descriptor = self.ticket = None

    def all(self) -> list[Ticket]:
        """The tickets of all runs that are waiting now, this one's among them.

        Tickets whose run is gone are removed (where they are this user's own); what is no proper ticket is skipped,
        and `skipped` says why, by file name.
        """
        self.skipped = {}
        tickets = []
        for name in sorted(os.listdir(self._folder)):
            if name.endswith(".json") and not name.startswith("."):
                try:
                    ticket = self._read(self._folder / name)
                except FileNotFoundError:
                    continue  # taken back meanwhile
                except (OSError, ValueError) as error:
                    self.skipped[name] = _shorten(error)
                    continue
                tickets += [ticket] if ticket else []
        return tickets

    def _read(self, path: Path) -> Ticket | None:
        """The ticket in `path`, or None for one whose run is gone."""
        descriptor = open_shared(path)
        try:
            if _is_abandoned(descriptor):
                _remove_own(path, descriptor)
                return None
            status = os.fstat(descriptor)
            ticket = Ticket.model_validate_json(read_bounded(descriptor))
        finally:
            os.close(descriptor)
        if path.name != f"{ticket.run_id}.{ticket.nonce}.json":
            raise ValueError("its content belongs to another file name")
        now = time.time()
        known = {
            "user": _name_user(status.st_uid),
            "seen": min(status.st_mtime, now + _LONGEST_CLOCK_SKEW_S),
        }
        return ticket.model_copy(update=known)


def _is_abandoned(descriptor: int) -> bool:
    """Whether nobody holds the ticket's lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_own(path: Path, descriptor: int) -> None:
    """Remove an abandoned ticket; in the sticky folder only its owner may."""
    if os.fstat(descriptor).st_uid == os.getuid():
        path.unlink(missing_ok=True)


def _name_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _shorten(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'content'}: {first['msg']}"[:200]
    return str(error)[:200]
