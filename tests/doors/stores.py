"""Runs that are only folders: as if they had run."""

from __future__ import annotations

import json
import time
from typing import Any

from jtrain.domain.spec import RunSpec, Source
from jtrain.options import make_options
from jtrain.run import Run
from jtrain.store.journal import Journal
from jtrain.store.ranks import RankTable
from jtrain.store.runs import RunStore
from jtrain.store.series import SeriesWriter


def make_run(
    run_id: str = "brisk-otter-7",
    *,
    state: str = "finished",
    source: str = "pass",
    log: str = "",
    metrics: dict[str, list[float]] | None = None,
    created: float | None = None,
    error: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    """A run in the test's store that has come to `state`; it has one rank, whose log and metrics are given."""
    store = RunStore()
    store.prepare()
    with store.create(run_id) as paths:
        spec = RunSpec(
            id=run_id,
            name=str(options.get("name", "")) or run_id,
            created=time.time() if created is None else created,
            seed=1,
            source=Source(kind="cell", text=source, filename="Cell In[1]", first_line=2),
            options=make_options(**options),
        )
        store.write_spec(paths, spec)
        if state != "queued":
            _run_through(paths, state)
        attempt = paths.attempt(1)
        attempt.create()
        attempt.log(0).write_text(log, encoding="utf-8")
        if error is not None:
            attempt.error(0).write_text(json.dumps(error))
        _write_metrics(attempt, metrics or {})
    store.note(run_id)
    return Run(run_id, store)


def _run_through(paths: Any, state: str) -> None:
    journal = Journal(paths.journal)
    journal.write("starting", attempt=1, devices=["CPU-0", "CPU-1"], reason="attempt 1")
    journal.write("running")
    if state != "running":
        journal.write(state, reason="" if state == "finished" else f"{state} for a test")
        paths.owner_lock.touch()


def _write_metrics(attempt: Any, metrics: dict[str, list[float]]) -> None:
    writer = SeriesWriter(attempt.metrics(0))
    for name, values in metrics.items():
        writer.append(name, [(step, time.time(), value) for step, value in enumerate(values)])
    RankTable.create(attempt.ranks, 1)
    row = RankTable.open(attempt.ranks).row(0)
    row.step = row.micro_step = max((len(values) for values in metrics.values()), default=0)
