"""An SQLite cache of the store's runs, so that listing 10,000 of them doesn't open 10,000 journals.

The run folders are the truth: the index can be deleted at any time, is rebuilt from them, and is bypassed
when it can't be read or written (a read-only or network disk).
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jtrain.domain.states import ALIVE, State

_SCHEMA_VERSION = 2
_SCHEMA = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, created REAL NOT NULL,
    ended REAL, attempt INTEGER NOT NULL, tags TEXT NOT NULL, notebook TEXT NOT NULL,
    priority INTEGER NOT NULL, devices TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX by_created ON runs (created DESC, id);
"""
_LARGEST = 2**63 - 1
"""Of SQLite's whole numbers."""
_COLUMNS = "id, name, state, reason, created, ended, attempt, tags, notebook, priority, devices"


@dataclass(frozen=True)
class RunSummary:
    """What a list of runs shows of one. `created` and `ended` are UTC epoch seconds.

    `devices`: UUIDs of those it has or had last.
    `is_interrupted`: the journal says it lives but nobody holds its lock, so its supervisor died.
    """

    id: str
    name: str
    state: State
    reason: str
    created: float
    ended: float | None
    attempt: int
    tags: dict[str, str] = field(default_factory=dict)
    notebook: str = ""
    is_interrupted: bool = False
    priority: int = 0
    devices: tuple[str, ...] = ()

    @property
    def shown_state(self) -> str:
        """The state in a word, "interrupted" when the supervisor died."""
        return "interrupted" if self.is_interrupted else self.state.value


class RunIndex:
    """The cache. Every method may raise sqlite3.Error; callers then read the folders instead."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=5, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = OFF")  # a cache: losing it costs a rebuild, nothing else
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != _SCHEMA_VERSION:
                self._create(connection)
            yield connection
        finally:
            connection.close()

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] != _SCHEMA_VERSION:
                connection.execute("DROP TABLE IF EXISTS runs")
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def put(self, summaries: Iterable[RunSummary]) -> None:
        """Add or replace entries."""
        rows = [_to_row(summary) for summary in summaries]
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(f"REPLACE INTO runs ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)
            connection.execute("COMMIT")

    def remove(self, run_ids: Iterable[str]) -> None:
        """Drop entries."""
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM runs WHERE id = ?", [(run_id,) for run_id in run_ids])
            connection.execute("COMMIT")

    def ids(self) -> set[str]:
        """Ids of all entries."""
        with self._connect() as connection:
            return {row[0] for row in connection.execute("SELECT id FROM runs")}

    def living(self) -> list[str]:
        """Ids of the entries that were not in a final or resting state when they were written."""
        marks = ",".join("?" * len(ALIVE))
        with self._connect() as connection:
            query = f"SELECT id FROM runs WHERE state IN ({marks})"
            return [row[0] for row in connection.execute(query, sorted(ALIVE))]

    def newest(self, limit: int | None) -> list[RunSummary]:
        """The newest `limit` entries (all when None), newest first."""
        with self._connect() as connection:
            query = f"SELECT {_COLUMNS} FROM runs ORDER BY created DESC, id LIMIT ?"
            rows = connection.execute(query, (-1 if limit is None else limit,)).fetchall()
        return [_to_summary(row) for row in rows]


def _to_row(s: RunSummary) -> tuple:
    facts = (s.id, _text(s.name), s.state, _text(s.reason), _time(s.created), s.ended, _whole(s.attempt))
    return (*facts, json.dumps(s.tags), _text(s.notebook), _whole(s.priority), json.dumps(s.devices))


# A folder may say what SQLite can't hold: one strange run must not keep all others out of the index.


def _text(value: str) -> str:
    return value.encode(errors="backslashreplace").decode()


def _whole(value: int) -> int:
    return max(-_LARGEST, min(value, _LARGEST))


def _time(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _to_summary(row: tuple) -> RunSummary:
    *facts, tags, notebook, priority, devices = row
    run_id, name, state, reason, created, ended, attempt = facts
    return RunSummary(
        id=run_id,
        name=name,
        state=State(state),
        reason=reason,
        created=created,
        ended=ended,
        attempt=attempt,
        tags=json.loads(tags),
        notebook=notebook,
        priority=priority,
        devices=tuple(json.loads(devices)),
    )
