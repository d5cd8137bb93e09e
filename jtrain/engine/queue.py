"""Pure: may a waiting run start now, and on which devices?

Every supervisor asks this function with the same public notes (tickets), so that all of them come to the same answer
without anybody in charge. First come, first served:

* A ticket that came earlier and can start takes its devices before a later one looks.
* One that came earlier and can't start yet holds its candidates back from later ones, so that a big request is not
  overtaken for ever by small ones. Runs that want other devices pass it.
* It doesn't hold anything back while it couldn't start even if all runs ended (something outside jtrain uses the
  devices), nor while its supervisor shows no sign of life.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

RULE = 1
"""Version of this rule. A ticket carries its writer's, so that a later jtrain can follow the oldest one present."""

ASLEEP_AFTER_S = 60.0
"""A waiting supervisor renews its ticket at least every few seconds."""

_MOST_NAMED = 3

LeaseState = Literal["free", "shared", "exclusive"]
RunId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
DeviceId = Annotated[str, StringConstraints(pattern=r"^(CPU|GPU|MIG)-[A-Za-z0-9_./-]{1,120}$")]


class Ticket(BaseModel):
    """A waiting run's public note. Anybody may have written it, so its content is checked and never more than believed.

    `since` in UTC epoch seconds; `nonce` makes equal run ids of two users differ. `user` and `seen` (when it was last
    renewed) are told by the file system, not by the content. `tag` and `expected_hours`
    decide nothing yet.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    rule: int = Field(default=RULE, ge=1)
    run_id: RunId
    nonce: str = Field(default="", pattern=r"^[0-9a-f]{0,16}$")
    since: float = Field(ge=0, allow_inf_nan=False)
    kind: Literal["gpu", "cpu"]
    count: int = Field(ge=1, le=4096)
    minimum: int = Field(ge=1, le=4096)
    candidates: tuple[DeviceId, ...] = Field(min_length=1, max_length=4096)
    is_exact: bool = False
    is_shared: bool = False
    priority: int = 0
    tag: str = Field(default="", max_length=200)
    expected_hours: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    user: str = ""
    seen: float = 0.0

    @model_validator(mode="after")
    def _check_numbers(self) -> Ticket:
        if not self.minimum <= self.count <= len(self.candidates):
            raise ValueError("it wants more devices than it names")
        if self.is_exact and self.count != len(self.candidates):
            raise ValueError("an exact choice wants all devices it names")
        if len(set(self.candidates)) != len(self.candidates):
            raise ValueError("it names a device twice")
        return self

    @property
    def place(self) -> tuple[int, float, str, str]:
        """What the line is ordered by: the higher priority first, then who came first."""
        return (-self.priority, self.since, self.run_id, self.nonce)


@dataclass(frozen=True)
class DeviceStatus:
    """A device as the queue sees it. `use` says what outside jtrain uses it, or why it `is_broken`; else empty."""

    uuid: str
    label: str
    lease: LeaseState = "free"
    holder: str = ""
    use: str = ""
    is_broken: bool = False


@dataclass(frozen=True)
class Start:
    """Take these devices (UUIDs, one per rank in this order)."""

    devices: tuple[str, ...]


@dataclass(frozen=True)
class Wait:
    """Not yet: for what the run waits, in a sentence, and how many runs stand before it."""

    sentence: str
    ahead: int = 0


Decision = Start | Wait


def decide(tickets: Iterable[Ticket], devices: Sequence[DeviceStatus], me: Ticket, now: float) -> Decision:
    """Whether the run of ticket `me` may start.

    `tickets` are those of all waiting runs (with or without `me`), `devices` all that any of them names, `now` UTC
    epoch seconds. Two runs that decide at the same time on the same facts never choose the same device.
    """
    board = _Board(devices)
    ahead = []
    for ticket in sorted(tickets, key=lambda ticket: ticket.place):
        if ticket.place >= me.place:
            break
        if now - ticket.seen > ASLEEP_AFTER_S or not board.could_ever_fit(ticket):
            continue
        chosen = board.fit(ticket)
        board.take(ticket.candidates if chosen is None else chosen, is_shared=ticket.is_shared and chosen is not None)
        if not set(ticket.candidates).isdisjoint(me.candidates):
            ahead.append(ticket)
    chosen = board.fit(me)
    return Wait(_explain(board, me, ahead), len(ahead)) if chosen is None else Start(chosen)


class _Board:
    """The devices, and what tickets further ahead will take of them."""

    def __init__(self, devices: Sequence[DeviceStatus]) -> None:
        self.devices = {device.uuid: device for device in devices}
        self._taken: set[str] = set()
        self._taken_shared: set[str] = set()

    def fit(self, ticket: Ticket) -> tuple[str, ...] | None:
        """The devices that `ticket` would start on now, or None. The least shared come first."""
        is_open = [uuid for uuid in ticket.candidates if self._is_open(uuid, ticket)]
        if len(is_open) < ticket.minimum:
            return None
        if not ticket.is_exact:
            is_open.sort(key=self._is_shared)
        return tuple(is_open[: ticket.count])

    def could_ever_fit(self, ticket: Ticket) -> bool:
        """Whether `ticket` could start if all runs ended now."""
        return sum(self._is_usable(uuid, ticket) for uuid in ticket.candidates) >= ticket.minimum

    def take(self, uuids: Iterable[str], *, is_shared: bool) -> None:
        """Keep these devices for a ticket further ahead."""
        (self._taken_shared if is_shared else self._taken).update(uuids)

    def _is_usable(self, uuid: str, ticket: Ticket) -> bool:
        device = self.devices.get(uuid)
        if device is None or device.is_broken:
            return False
        return not device.use or ticket.is_exact or ticket.is_shared

    def _is_open(self, uuid: str, ticket: Ticket) -> bool:
        if uuid in self._taken or not self._is_usable(uuid, ticket):
            return False
        if self._is_shared(uuid):
            return ticket.is_shared
        return self.devices[uuid].lease == "free"

    def _is_shared(self, uuid: str) -> bool:
        return uuid in self._taken_shared or self.devices[uuid].lease == "shared"


def _explain(board: _Board, me: Ticket, ahead: Sequence[Ticket]) -> str:
    """`waiting for 2 CPU slots: 1 of 4 is free; held by calm-fox-3; 1 run ahead: brisk-otter-7`."""
    known = [board.devices[uuid] for uuid in me.candidates if uuid in board.devices]
    facts = [] if me.is_exact else [_count_free(known, len(me.candidates))]
    holders = dict.fromkeys(device.holder or "another run" for device in known if device.lease != "free")
    if holders:
        facts.append(f"held by {_some(list(holders))}")
    used = [
        f"{device.label} is {device.use}" for device in known if device.use and (not me.is_exact or device.is_broken)
    ]
    facts += used[:_MOST_NAMED]
    if len(used) > _MOST_NAMED:
        facts.append(f"{len(used) - _MOST_NAMED} more are used by others")
    if ahead:
        noun = "run" if len(ahead) == 1 else "runs"
        facts.append(f"{len(ahead)} {noun} ahead: {_some([ticket.run_id for ticket in ahead])}")
    return f"waiting for {_name_want(me, known)}" + (": " + "; ".join(facts) if facts else "")


def _name_want(me: Ticket, known: Sequence[DeviceStatus]) -> str:
    if me.is_exact and len(known) <= 2 * _MOST_NAMED:
        return " and ".join(device.label for device in known) or "devices that are not there"
    noun = {"gpu": "GPU", "cpu": "CPU slot"}[me.kind]
    if me.minimum == 1 and me.count > 1:
        return f"a free {noun}"
    return f"{me.count} {noun}s" if me.count > 1 else f"1 {noun}"


def _count_free(known: Sequence[DeviceStatus], total: int) -> str:
    free = sum(device.lease == "free" and not device.use and not device.is_broken for device in known)
    return f"{free or 'none'} of {total} {'is' if free < 2 else 'are'} free"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
