"""Files of a run that were damaged: what can be read is read, and nothing but jtrain's own errors comes out."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jtrain.domain.states import State
from jtrain.errors import JtrainError
from jtrain.run import Run
from jtrain.store.runs import RunStore
from jtrain.verbs.table import answer
from jtrain.view.snapshot import SnapshotReader
from jtrain.view.text import summary_html
from tests.cells import start

pytestmark = pytest.mark.timeout(120)
WHOLE_FILES = [b"", b"\0" * 80, b"\xff\xfe\n", b"null\n", b"[]\n", b"1.5\n", b"[" * 100_000 + b"\n", b'{"n":1}\n']
WRONG_VALUES = [None, -1, 10**30, float("nan"), "x", "\ud800", [None], {"a": {}}]


def damages(content: bytes) -> Iterator[bytes]:
    """A file harmed in many ways: other content, cut off, a flipped byte, values of other types."""
    yield from WHOLE_FILES
    yield from (content[: len(content) * part // 4] for part in (1, 2, 3))
    yield from (content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :] for at in range(0, len(content), 211))
    lines = content.splitlines()
    for at, line in enumerate(lines[:3]):
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            for key in record if isinstance(record, dict) else ():
                for value in WRONG_VALUES:
                    harmed = json.dumps({**record, key: value}).encode()
                    yield b"\n".join([*lines[:at], harmed, *lines[at + 1 :], b""])


def look(run_id: str) -> None:
    """Everything that a user can look at."""
    run = Run(run_id)
    looks: list[Any] = [
        lambda: RunStore().summarise(run_id),
        lambda: (run.state, run.reason, run.shown_state, run.progress, run.checkpoints(), run.attempts),
        lambda: [run.metrics[name] for name in run.metrics],
        lambda: run.error,
        lambda: run.outputs({}),
        lambda: summary_html(SnapshotReader(run).read(is_last=True)),
        *(lambda verb=verb: answer([verb, run_id]) for verb in ("status", "logs", "checkpoints")),
    ]
    for view in looks:
        with contextlib.suppress(JtrainError):
            view()


def files_of(run: Run) -> list[Path]:
    names = ("journal.jsonl", "exit.json", "ranks.bin", "samples.jsonl", "rank-0.json", "index.json", "names.jsonl")
    return [path for path in run.paths.root.rglob("*") if path.name in names and "payload" not in path.parts]


def test_a_damaged_file_never_ends_in_an_error_from_inside() -> None:
    finished = start("run.log(loss=1.0)\nvalue = [1]", nproc=1, outputs=("value",))
    failed = start("raise ValueError('it')", nproc=1)
    for run in (finished, failed):
        run.wait(timeout=60)
        for path in files_of(run):
            content = path.read_bytes()
            for harmed in damages(content):
                path.write_bytes(harmed)
                look(run.id)
            path.write_bytes(content)
    assert finished.result() == {"value": [1]}
    assert failed.state is State.FAILED


def test_a_run_with_values_that_no_database_holds_hides_no_other() -> None:
    run = start("pass", nproc=1)
    run.wait(timeout=60)
    store = RunStore()
    odd = {"id": "odd-otter-1", "name": "\ud800", "created": float("nan"), "attempt": 10**30, "priority": -(10**30)}
    store.index.put([dataclasses.replace(store.list()[0], **odd)])
    assert store.index.ids() == {run.id, "odd-otter-1"}
    assert [summary.id for summary in store.list()] == [run.id]  # the other has no folder


def test_a_fact_that_makes_no_sense_is_passed_over() -> None:
    run = start("pass", nproc=1)
    run.wait(timeout=60)
    with run.paths.journal.open("ab") as file:
        file.write(
            b'{"n": 90, "t": 1.0, "event": "priority"}\n{"n": 91, "t": 1.0, "event": "starting", "attempt": {}}\n'
        )
    assert Run(run.id).state is State.FINISHED
    assert [summary.state for summary in RunStore().list()] == [State.FINISHED]
