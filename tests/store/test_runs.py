"""The store: runs exist whole or not at all, and the index is only a cache."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from jtrain.domain.spec import RunSpec, Source
from jtrain.domain.states import State
from jtrain.errors import RunNotFoundError, StoreError
from jtrain.options import RunOptions
from jtrain.store.files import FileLock
from jtrain.store.journal import Journal
from jtrain.store.paths import RunPaths
from jtrain.store.runs import RunStore, is_interrupted


def _spec(run_id: str, created: float = 1.0, **changes: object) -> RunSpec:
    fields = {"id": run_id, "name": run_id, "created": created, "seed": 1, "source": Source(kind="cell", text="pass")}
    return RunSpec(**{**fields, "options": RunOptions(), **changes})


def _add(store: RunStore, run_id: str, created: float = 1.0) -> None:
    store.prepare()
    with store.create(run_id) as paths:
        store.write_spec(paths, _spec(run_id, created))


def test_a_run_that_fails_to_be_built_leaves_nothing(own_store: Path) -> None:
    store = RunStore()
    store.prepare()

    def build() -> None:
        with store.create("brisk-otter-7") as paths:
            store.write_spec(paths, _spec("brisk-otter-7"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build()
    assert os.listdir(own_store / "runs") == []


def test_runs_are_listed_newest_first_also_without_an_index(own_store: Path) -> None:
    store = RunStore()
    for number, run_id in enumerate(["calm-fox-1", "calm-fox-2", "calm-fox-3"]):
        _add(store, run_id, created=float(number))
    wanted = ["calm-fox-3", "calm-fox-2", "calm-fox-1"]
    assert [summary.id for summary in store.list()] == wanted
    (own_store / "index.sqlite").unlink()
    assert [summary.id for summary in store.list()] == wanted
    (own_store / "index.sqlite").write_bytes(b"this is no database, " * 100)
    assert [summary.id for summary in store.list()] == wanted


def test_the_list_follows_folders_that_come_go_or_change() -> None:
    store = RunStore()
    _add(store, "calm-fox-1")
    _add(store, "calm-fox-2")
    store.list()
    store.remove("calm-fox-1")
    journal = Journal(store.find("calm-fox-2").journal)
    for kind in ("starting", "running", "finished"):
        journal.write(kind)
    assert [(summary.id, summary.state) for summary in store.list()] == [("calm-fox-2", State.FINISHED)]


def test_a_run_whose_supervisor_died_shows_as_interrupted() -> None:
    store = RunStore()
    _add(store, "calm-fox-1")
    paths = store.find("calm-fox-1")
    lock = FileLock(paths.owner_lock)
    assert lock.acquire()
    journal = Journal(paths.journal)
    journal.write("starting")
    journal.write("running")
    assert store.list()[0].shown_state == "running"
    with pytest.raises(StoreError, match="still alive"):
        store.remove("calm-fox-1")
    lock.close()
    time.sleep(0.6)
    assert store.list()[0].shown_state == "interrupted"


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a/b", ".hidden", "A" * 80, "x\ny"])
def test_what_can_be_no_id_never_reaches_the_disk(name: str) -> None:
    with pytest.raises(RunNotFoundError):
        RunStore().find(name)


def test_a_mistyped_id_is_answered_with_the_nearest() -> None:
    store = RunStore()
    _add(store, "brisk-otter-7")
    with pytest.raises(RunNotFoundError, match="did you mean brisk-otter-7"):
        store.find("brisk-oter-7")


def test_a_folder_that_can_not_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="JTRAIN_HOME"):
        RunStore(tmp_path / "file" / "store").prepare()


def test_run_folders_are_private(own_store: Path) -> None:
    _add(RunStore(), "calm-fox-1")
    assert (own_store / "runs" / "calm-fox-1").stat().st_mode & 0o077 == 0


def test_a_supervisor_that_comes_at_this_moment_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, long_ago = RunPaths(tmp_path), time.time() - 5.0

    def look() -> bool:
        return is_interrupted(paths, State.QUEUED, long_ago)

    def make_lock_and_look(path: Path) -> bool:
        path.touch()
        return False  # it was not there when it was looked at

    with monkeypatch.context() as patch:
        patch.setattr("jtrain.store.runs.is_locked", make_lock_and_look)
        assert not look()
    assert not look()  # the file is there, and isn't locked yet
    os.utime(paths.owner_lock, (long_ago, long_ago))
    assert look()
    lock = FileLock(paths.owner_lock)
    assert lock.acquire()
    assert not look()
    lock.close()
