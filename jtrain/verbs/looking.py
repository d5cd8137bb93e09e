"""Verbs that only look: status, runs, logs, checkpoints, gpus, queue."""

from __future__ import annotations

import time
from typing import Annotated, Any

from pydantic import Field

from jtrain.devices.sampler import Sampler, cpu_slots
from jtrain.domain.devices import Device, DeviceSample, Sample, format_bytes
from jtrain.domain.wording import clip, format_duration, format_number, format_time, table
from jtrain.engine.leases import LeaseTable
from jtrain.engine.machine import MachinePaths
from jtrain.engine.queue import Ticket
from jtrain.engine.tickets import TicketBooth
from jtrain.errors import OptionError
from jtrain.optiontable import Option
from jtrain.run import Run
from jtrain.store.index import RunSummary
from jtrain.store.logs import merge_ranks, tail
from jtrain.store.runs import RunStore
from jtrain.verbs.answers import Arguments, OneRun, Shown, find_run

_NAME_WIDTH = 32
_REASON_WIDTH = 60


def status(arguments: OneRun) -> Shown:
    """How one run stands."""
    run = find_run(arguments.run)
    standing, progress = run.standing, run.progress
    rows = [("state", run.shown_state), ("reason", standing.reason if standing.reason != standing.state else "")]
    rows.append(("name", run.name if run.name != run.id else ""))
    rows.append(("created", format_time(run.spec.created)))
    rows.append(("devices", ", ".join(standing.devices)))
    rows.append(("step", f"{progress.step}" + (f" of {progress.total_steps}" if progress.total_steps else "")))
    rows.append(("attempts", str(standing.attempt)))
    rows.append(("checkpoints", ", ".join(checkpoint.name for checkpoint in run.checkpoints()[-3:])))
    rows.append(("options", options_line(run)))
    metrics = run.metrics
    rows += [(name, format_number(metrics.last(name))) for name in metrics.columns[:8]]
    rows.append(("folder", str(run.paths.root)))
    return Shown(f"run {run.id}\n" + table([(f"  {label}", value) for label, value in rows if value]))


def options_line(run: Run) -> str:
    """The options that the run was given, as they are written on a line."""
    parts = []
    for name, value in run.spec.options.model_dump(exclude_defaults=True).items():
        flag = f"--{name.replace('_', '-')}"
        parts.append(flag if value is True else f"{flag} {option_text(value)}")
    return " ".join(parts)


def option_text(value: Any) -> str:
    """An option's value as it is written on a line."""
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class RunsArguments(Arguments):
    """Which runs to list."""

    limit: Annotated[int, Field(ge=1), Option("how many, newest first", "N", "50")] = 20
    all: Annotated[bool, Option("all of them")] = False
    state: Annotated[str, Option("only runs in this state", "STATE", "running")] = ""


def runs(arguments: RunsArguments) -> Shown:
    """The runs of the store, newest first."""
    store = RunStore()
    wants_all = arguments.all or bool(arguments.state)
    found = store.list(limit=None if wants_all else arguments.limit + 1)
    if arguments.state:
        found = [summary for summary in found if summary.shown_state == arguments.state]
    if not found:
        return Shown(f"there are no {arguments.state + ' ' if arguments.state else ''}runs in {store.paths.root}")
    shown = found if arguments.all else found[: arguments.limit]
    more = "" if len(found) == len(shown) else "\n… there are more; --limit N or --all shows them"
    now = time.time()
    return Shown(
        table([("run", "state", "started", "took", "name", ""), *(_row(summary, now) for summary in shown)]) + more
    )


def _row(summary: RunSummary, now: float) -> tuple[str, ...]:
    tags = " ".join(f"{key}={value}" for key, value in summary.tags.items())
    name = summary.name if summary.name != summary.id else ""
    is_plain = summary.shown_state in ("finished", "running")
    return (
        summary.id,
        summary.shown_state,
        format_time(summary.created, now),
        format_duration((summary.ended or now) - summary.created),
        clip(name, _NAME_WIDTH),
        clip(" ".join(part for part in (tags, "" if is_plain else summary.reason) if part), _REASON_WIDTH),
    )


class LogsArguments(OneRun):
    """Whose output, and how much of it."""

    rank: Annotated[int | None, Field(ge=0), Option("the rank whose output is shown", "N", "1")] = None
    lines: Annotated[int | None, Field(ge=1), Option("only the last lines", "N", "50")] = None
    all_ranks: Annotated[bool, Option("every rank's output, with the rank before each line")] = False


def logs(arguments: LogsArguments) -> Shown:
    """What a rank has printed, over all attempts."""
    run = find_run(arguments.run)
    if arguments.all_ranks:
        return Shown("\n".join(_merged(run, arguments.lines)))
    rank = arguments.rank or 0
    ranks = sorted({number for attempt in run.attempts for number in attempt.logged_ranks()})
    if ranks and rank not in ranks:
        raise OptionError(f"--rank {rank}: run {run.id} has no such rank; its ranks are 0 to {ranks[-1]}")
    return Shown(run.logs(rank, arguments.lines).rstrip("\n"))


def _merged(run: Run, lines: int | None) -> list[str]:
    merged = []
    for attempt in run.attempts:
        ranks = attempt.logged_ranks()
        merged += merge_ranks({rank: tail(attempt.log(rank), lines).splitlines() for rank in ranks})
    return merged


class CheckpointsArguments(OneRun):
    """Which run, and which of its checkpoints to keep."""

    pin: Annotated[str, Option("keep this checkpoint, whatever newer ones come", "NAME", "step-000100")] = ""
    unpin: Annotated[str, Option("keep it no longer than others", "NAME", "step-000100")] = ""


def checkpoints(arguments: CheckpointsArguments) -> Shown:
    """The checkpoints of a run; --pin keeps one for good."""
    run = find_run(arguments.run)
    if arguments.pin:
        run.pin(arguments.pin)
    if arguments.unpin:
        run.pin(arguments.unpin, is_pinned=False)
    found = run.checkpoints()
    if not found:
        return Shown(f"run {run.id} has no checkpoint (--checkpoint-every writes them regularly)")
    rows = [("checkpoint", "step", "written", "ranks", "size", "")]
    for info in found:
        size, pinned = format_bytes(info.size_bytes), "pinned" if info.is_pinned else ""
        rows.append(
            (f"{run.id}/{info.name}", str(info.step), format_time(info.time), str(info.world_size), size, pinned)
        )
    return Shown(table(rows, right="134") + f"\n--resume {run.id}/{found[-1].name} starts a new run from the last one")


def gpus(arguments: Arguments) -> Shown:
    """The machine's devices, and who uses them."""
    sampler = Sampler()
    try:
        devices = sampler.devices()
        # A share of the time needs two looks.
        sampler.sample()
        time.sleep(0.1)
        sample = sampler.sample()
        report = sampler.source_report()
    finally:
        sampler.close()
    leases = LeaseTable(MachinePaths.find())
    lines = [_devices_table(devices, sample, leases)] if devices else report
    return Shown("\n".join([*lines, _host_line(sample, leases)]))


def _devices_table(devices: list[Device], sample: Sample, leases: LeaseTable) -> str:
    rows = [("device", "name", "load", "memory", "temperature", "power", "used by")]
    for device in devices:
        reading = sample.device(device.uuid)
        figures = ("n/a",) * 4 if reading is None else _figures(reading)
        rows.append((device.label, device.name, *figures, _users(device, reading, leases)))
    return table(rows)


def _figures(reading: DeviceSample) -> tuple[str, str, str, str]:
    memory = f"{reading.memory_used_bytes} of {reading.memory_total_bytes}"
    return str(reading.load_percent), memory, str(reading.temperature_celsius), str(reading.power_watts)


def _users(device: Device, reading: DeviceSample | None, leases: LeaseTable) -> str:
    if (holder := leases.holder(device.uuid)) is not None:
        return f"run {holder}" if holder != "another run" else holder
    return ", ".join(map(str, reading.processes)) if reading is not None else ""


def _host_line(sample: Sample, leases: LeaseTable) -> str:
    host, slots = sample.host, cpu_slots()
    free = len(leases.free(slots))
    memory = f"memory {host.memory_used_bytes} of {host.memory_total_bytes}"
    return f"CPU {host.cpu_percent} busy, {memory}, {free} of {len(slots)} CPU slots free"


def queue(arguments: Arguments) -> Shown:
    """Runs that wait for devices, of all users of the machine, in their order."""
    tickets = sorted(TicketBooth(MachinePaths.find()).all(), key=lambda ticket: ticket.place)
    if not tickets:
        return Shown("no run is waiting for devices")
    now = time.time()
    rows = [("place", "run", "user", "waits for", "since")]
    for place, ticket in enumerate(tickets, start=1):
        rows.append((str(place), ticket.run_id, ticket.user, _wish(ticket), format_duration(now - ticket.since)))
    return Shown(table(rows))


def _wish(ticket: Ticket) -> str:
    kind = "GPU" if ticket.kind == "gpu" else "CPU slot"
    count = str(ticket.count) if ticket.count == ticket.minimum else f"{ticket.minimum} to {ticket.count}"
    return f"{count} {kind}{'' if count == '1' else 's'}"
