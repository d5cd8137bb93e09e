"""A run's wait for its devices: tickets, leases and readings, put before the pure rule of `queue`."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from typing import Literal

import psutil

from jtrain.devices.choose import Want, ask, find_foreign_use
from jtrain.devices.sampler import Sampler, cpu_slots
from jtrain.domain.devices import Device, Sample
from jtrain.domain.spec import RunSpec
from jtrain.engine.leases import Lease, LeaseTable
from jtrain.engine.machine import MachinePaths
from jtrain.engine.queue import DeviceStatus, Start, Ticket, decide
from jtrain.engine.tickets import TicketBooth

_FIRST_POLLS_S = 10.0
_POLL_S = 0.1
_SLOW_POLL_S = 0.5
"""A run that has waited for some seconds looks less often."""

_READ_EVERY_S = 1.0


class DeviceQueue:
    """One run in the line for `want`. `devices` are those that `want` may name, in the machine's order.

    `since` is when it began to wait, in UTC epoch seconds: now unless it is given.
    Used as a context: on leaving it the ticket is taken back and the driver closed, so that the process can fork.
    """

    def __init__(
        self,
        paths: MachinePaths,
        run_id: str,
        want: Want,
        devices: Sequence[Device],
        *,
        is_shared: bool = False,
        priority: int = 0,
        since: float | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self.sentence = ""
        self.ahead = 0
        self._run_id = run_id
        self._want = want
        self._is_shared = is_shared
        self._priority = priority
        self._since = since
        self._devices = {device.uuid: device for device in devices}
        self._table = LeaseTable(paths)
        self._booth = TicketBooth(paths)
        self._usage = _Usage(sampler or Sampler()) if want.kind == "gpu" else None
        self._began = time.monotonic()
        self._due = 0.0

    def __enter__(self) -> DeviceQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the line."""
        self._booth.take_back()
        if self._usage:
            self._usage.close()

    def set_priority(self, priority: int) -> None:
        """Go to another place in the line; the next `try_start` puts down the new ticket."""
        if priority != self._priority:
            self._priority = priority
            self._booth.take_back()
            self._due = 0.0

    def try_start(self) -> Lease | None:
        """The run's devices when it may start now, else None, and `sentence` says for what it waits.

        May be called as often as wanted: the machine is looked at ten times a second at most.
        """
        now = time.monotonic()
        if now < self._due:
            return None
        self._due = now + (_POLL_S if now - self._began < _FIRST_POLLS_S else _SLOW_POLL_S)
        try:
            return self._try()
        except OSError as error:
            self.sentence = f"waiting: the folder for sharing devices can't be used: {error}"
            return None

    def _try(self) -> Lease | None:
        self._booth.renew()
        me = self._booth.ticket or self._booth.put(self._make_ticket())
        tickets = [ticket for ticket in self._booth.all() if ticket.kind == me.kind]
        decision = decide(tickets, self._look(me, tickets), me, time.time())
        if not isinstance(decision, Start):
            self.sentence, self.ahead = decision.sentence, decision.ahead
            return None
        devices = [self._devices[uuid] for uuid in decision.devices]
        lease = self._table.acquire(devices, self._run_id, is_shared=self._is_shared)
        if lease is None:
            self.sentence = f"waiting for {' and '.join(device.label for device in devices)}: just taken by another run"
            return None
        self.close()
        return lease

    def _make_ticket(self) -> Ticket:
        want = self._want
        return Ticket(
            run_id=self._run_id,
            since=time.time() if self._since is None else self._since,
            kind=want.kind,
            count=want.count,
            minimum=want.minimum,
            candidates=want.candidates,
            is_exact=want.is_exact,
            is_shared=self._is_shared,
            priority=self._priority,
        )

    def _look(self, me: Ticket, tickets: Sequence[Ticket]) -> list[DeviceStatus]:
        """The devices that any of the tickets names."""
        uuids = list(dict.fromkeys(uuid for ticket in (me, *tickets) for uuid in ticket.candidates))
        leases = {uuid: self._table.state(uuid) for uuid in uuids}
        used, broken = self._usage.read(leases) if self._usage else ({}, set())
        return [
            DeviceStatus(
                uuid,
                self._devices[uuid].label if uuid in self._devices else uuid,
                lease=leases[uuid],
                holder="" if leases[uuid] == "free" else self._table.read_holder(uuid).run_id,
                # The processes of a run that has a lease on the device are no foreign ones.
                use=used.get(uuid, "") if leases[uuid] == "free" or uuid in broken else "",
                is_broken=uuid in broken,
            )
            for uuid in uuids
        ]


class DeviceWait(DeviceQueue):
    """The place in line of the run `spec`, which may use the GPUs `visible` and waits since `since`.

    `priority` replaces the one in the spec.

    Raises DeviceError or OptionError for devices that this machine can't give, LaunchError without a machine's folder.
    """

    def __init__(self, spec: RunSpec, visible: Sequence[Device], since: float, priority: int | None = None) -> None:
        options = spec.options
        slots = cpu_slots()
        want = ask(options.gpus, options.nproc, visible, slots)
        super().__init__(
            MachinePaths.find(),
            spec.id,
            want,
            [*visible, *slots],
            is_shared=options.share_devices,
            priority=options.priority if priority is None else priority,
            since=since,
        )


class _Usage:
    """Who uses the GPUs outside jtrain; read once a second, and anew when a lease has come or gone."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._ours = _ancestors()
        self._sample: Sample | None = None
        self._leases: object = None
        self._due = 0.0

    def read(self, leases: dict[str, Literal["free", "shared", "exclusive"]]) -> tuple[dict[str, str], Collection[str]]:
        """Uses by UUID, and the UUIDs of what is broken."""
        now = time.monotonic()
        if self._sample is None or now >= self._due or leases != self._leases:
            self._sample, self._leases, self._due = self._sampler.sample(), leases, now + _READ_EVERY_S
        broken = {gpu.uuid for gpu in self._sample.devices if gpu.is_lost}
        return find_foreign_use(self._sample, self._ours), broken

    def close(self) -> None:
        self._sampler.close()


def _ancestors() -> set[int]:
    """This process and those it comes from: a kernel that has touched a GPU must not keep its own runs away from it."""
    return {os.getpid(), *(process.pid for process in psutil.Process().parents())}
