"""A run at one instant, as the views show it: read from its folder in a few milliseconds, however long the run is."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jtrain.devices.sampler import Sampler
from jtrain.domain.devices import SIMULATED_PREFIXES, Reading, Sample
from jtrain.domain.states import ALIVE, Event, Standing, State, fold
from jtrain.run import Run
from jtrain.store.files import parse
from jtrain.store.metric_table import MetricTable
from jtrain.store.progress import Progress
from jtrain.store.series import downsample

_CURVE_POINTS = 160
_MOST_METRICS = 8
_SHARE = 0.03
"""At most this share of the time is spent on reading metrics; with very many points they are read less often."""
_TAIL_BYTES = 1 << 16
_AT_WORK = frozenset({State.STARTING, State.RUNNING, State.PAUSING})


@dataclass(frozen=True)
class DeviceRow:
    """One device of the run: its name, and load and memory as they were read last."""

    label: str
    load: Reading
    memory_used: Reading
    memory_total: Reading


@dataclass(frozen=True)
class Snapshot:
    """What the views show.

    `state` is the state in a word ("interrupted" when the supervisor died). `elapsed_s` is the time in which ranks
    ran, over all attempts. `metrics` holds each metric's last value, `curve` the loss as it went. `notices` is what
    rank 0 had to say to the user (a checkpoint that failed, and the like).
    """

    run_id: str
    name: str
    state: str
    reason: str = ""
    attempt: int = 0
    world_size: int = 0
    device_kind: str = "CPU"
    elapsed_s: float = 0.0
    progress: Progress = field(default_factory=Progress)
    metrics: dict[str, float] = field(default_factory=dict)
    curve_name: str = ""
    curve: list[float] = field(default_factory=list)
    devices: list[DeviceRow] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def is_alive(self) -> bool:
        return self.state in {state.value for state in ALIVE}


class SnapshotReader:
    """Takes snapshots of one run, again and again."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._labels: dict[str, str] | None = None
        self._metrics: tuple[dict[str, float], str, list[float]] = ({}, "", [])
        self._metrics_due = 0.0
        self._table: tuple[list[int], MetricTable] | None = None

    def read(self, *, is_last: bool = False) -> Snapshot:
        """The run now; the last one is complete, whatever that costs."""
        run = self._run
        events = run.events()
        standing = fold(events)
        metrics, curve_name, curve = self._read_metrics(is_forced=is_last)
        return Snapshot(
            run_id=run.id,
            name=run.spec.name,
            state=run.shown_state,
            reason=standing.reason,
            attempt=standing.attempt,
            world_size=len(standing.devices),
            device_kind=_kind_of(standing.devices),
            elapsed_s=running_time(events),
            progress=run.progress,
            metrics=metrics,
            curve_name=curve_name,
            curve=curve,
            devices=self._read_devices(standing),
            notices=[str(notice.get("text", "")) for notice in run.notices()],
        )

    def _read_metrics(self, *, is_forced: bool) -> tuple[dict[str, float], str, list[float]]:
        now = time.monotonic()
        if now < self._metrics_due and not is_forced:
            return self._metrics
        attempts = self._run.paths.attempt_numbers()  # an attempt is in the journal before it has a folder
        if self._table is None or self._table[0] != attempts:
            self._table = (attempts, self._run.metrics)
        table = self._table[1]
        names = table.columns
        last = {name: table.last(name) for name in names[:_MOST_METRICS]}
        curve_name = main_metric(names)
        curve = downsample(table.points(curve_name), _CURVE_POINTS)["value"].tolist() if curve_name else []
        self._metrics = (last, curve_name, curve)
        self._metrics_due = now + (time.monotonic() - now) / _SHARE
        return self._metrics

    def _read_devices(self, standing: Standing) -> list[DeviceRow]:
        sample = self._last_sample()
        if sample is None or not standing.devices:
            return []
        if all(map(_is_cpu, standing.devices)):
            host = sample.host
            return [DeviceRow("CPU", host.cpu_percent, host.memory_used_bytes, host.memory_total_bytes)]
        rows = []
        for uuid in standing.devices:
            if (gpu := sample.device(uuid)) is not None:
                label = self._label(uuid)
                rows.append(DeviceRow(label, gpu.load_percent, gpu.memory_used_bytes, gpu.memory_total_bytes))
        return rows

    def _label(self, uuid: str) -> str:
        if self._labels is None:
            sampler = Sampler()
            try:
                self._labels = {device.uuid: device.label for device in sampler.devices()}
            finally:
                sampler.close()
        return self._labels.get(uuid, uuid[:12])

    def _last_sample(self) -> Sample | None:
        attempts = self._run.attempts
        record = read_last_record(attempts[-1].samples) if attempts else None
        if record is None:
            return None
        try:
            return Sample.from_json(record)
        except (KeyError, TypeError, AttributeError):
            return None  # damaged, or written by another version; devices are then not shown


def read_last_record(path: Path) -> dict[str, Any] | None:
    """The last complete JSON line of a file, or None."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines[:-1]):
        try:
            record = parse(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            return record
    return None


def main_metric(names: list[str]) -> str:
    """The metric that stands for all: `loss`, else one with loss in its name, else the first."""
    if "loss" in names:
        return "loss"
    return next((name for name in names if "loss" in name.lower()), names[0] if names else "")


def running_time(events: Sequence[Event]) -> float:
    """Seconds in which ranks were starting, running or pausing: time in the queue or at rest doesn't count."""
    total, since = 0.0, None
    for event in events:
        if since is not None and (event.state is None or event.state in _AT_WORK):
            continue
        if event.state in _AT_WORK:
            since = event.time
        elif since is not None:
            total += max(0.0, event.time - since)
            since = None
    return total if since is None else total + max(0.0, time.time() - since)


def _kind_of(uuids: Sequence[str]) -> str:
    if all(map(_is_cpu, uuids)):
        return "CPU"
    return "simulated GPU" if all(uuid.startswith(SIMULATED_PREFIXES) for uuid in uuids) else "GPU"


def _is_cpu(uuid: str) -> bool:
    return not uuid.startswith(("GPU-", "MIG-"))
