"""Readings of a run's devices: a supervisor writes a line a second, over hours and attempts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from jtrain.domain.devices import Sample
from jtrain.domain.messages import SamplesAnswer
from jtrain.store.files import read_lines
from jtrain.store.paths import RunPaths

_WHOLE_BYTES = 4 << 20
"""Files up to this size are read as a whole."""

_LINE_BYTES = 64 << 10


def read_all(paths: RunPaths, max_points: int) -> list[Sample]:
    """At most about `max_points` samples, evenly over all attempts."""
    files = [paths.attempt(number).samples for number in paths.attempt_numbers()]
    sizes = [file.stat().st_size if file.exists() else 0 for file in files]
    total = sum(sizes)
    found: list[Sample] = []
    for file, size in zip(files, sizes, strict=True):
        found += read_spread(file, size, max(1, max_points * size // total) if total else 0)
    return found


def read_spread(file: Path, size: int, most: int) -> list[Sample]:
    """At most `most` samples of one file, evenly spread; of a large file only those lines are read."""
    if size <= _WHOLE_BYTES:
        records = read_lines(file)[0]
        step = -(-len(records) // most) if most else 1
        return to_samples(records[::-step][::-1])
    records = []
    with open(file, "rb") as stream:
        for number in range(most):
            stream.seek(size * number // most)
            if number:
                stream.readline(_LINE_BYTES)
            try:
                record = json.loads(stream.readline(_LINE_BYTES))
            except ValueError:
                continue
            records += [record] if isinstance(record, dict) else []
    return to_samples(records)


def to_samples(records: Iterable[dict[str, object]]) -> list[Sample]:
    """Samples of JSON records; a record that is none is left out."""
    samples = []
    for record in records:
        try:
            samples.append(Sample.from_json(record))
        except (KeyError, TypeError):
            continue
    return samples


class SampleTail:
    """What is new in the samples of a growing run."""

    def __init__(self, look_back_bytes: int = 16 << 10) -> None:
        self._look_back = look_back_bytes
        self._file: Path | None = None
        self._offset = 0

    def read(self, file: Path) -> list[Sample]:
        """Samples that have come since the last call; at first, the last few."""
        try:
            size = os.stat(file).st_size
        except FileNotFoundError:
            return []
        if file != self._file:
            self._offset = max(0, size - self._look_back) if self._file is None else 0
            self._file = file
        if size == self._offset:
            return []
        records, self._offset = read_lines(file, self._offset)
        return to_samples(records)


def answer(samples: list[Sample], devices: list[str], labels: dict[str, str]) -> SamplesAnswer:
    """Readings of `devices` (UUIDs; of a run on the CPU: the machine's) in lists."""
    gpus = [uuid for uuid in devices if not uuid.startswith("CPU-")]
    result: SamplesAnswer = {
        "times": [sample.time for sample in samples],
        "labels": {uuid: labels.get(uuid, uuid[:12]) for uuid in gpus} or {"cpu": "CPU"},
        "load_percent": {},
        "memory_used_bytes": {},
        "memory_total_bytes": {},
    }
    for uuid in gpus:
        rows = [sample.device(uuid) for sample in samples]
        result["load_percent"][uuid] = [row.load_percent.value if row else None for row in rows]
        result["memory_used_bytes"][uuid] = [row.memory_used_bytes.value if row else None for row in rows]
        totals = [row.memory_total_bytes.value for row in rows if row is not None]
        result["memory_total_bytes"][uuid] = totals[-1] if totals else None
    if not gpus:
        hosts = [sample.host for sample in samples]
        result["load_percent"]["cpu"] = [host.cpu_percent.value for host in hosts]
        result["memory_used_bytes"]["cpu"] = [host.memory_used_bytes.value for host in hosts]
        result["memory_total_bytes"]["cpu"] = hosts[-1].memory_total_bytes.value if hosts else None
    return result
