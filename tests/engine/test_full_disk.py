"""A disk that takes nothing doesn't end a run: what it didn't take is written when it can be."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jtrain.domain.states import State
from jtrain.errors import LaunchError, RunNotFoundError
from jtrain.store.journal import Journal, read_events
from jtrain.view.snapshot import Snapshot
from jtrain.view.watching import Watch
from tests.cells import start, train

pytestmark = pytest.mark.timeout(60)


def test_a_patient_journal_writes_later_and_an_impatient_one_says_so(tmp_path: Path) -> None:
    folder, aside = tmp_path / "run", tmp_path / "aside"
    folder.mkdir()
    patient = Journal(folder / "journal.jsonl", is_patient=True)
    patient.write("queued", reason="created")
    folder.rename(aside)
    patient.write("starting", attempt=1)
    patient.write("running")
    with pytest.raises(FileNotFoundError):
        Journal(folder / "journal.jsonl").write("queued")
    problem = patient.catch_up()
    assert problem is not None
    assert problem.errno == errno.ENOENT
    assert patient.state is State.RUNNING
    aside.rename(folder)
    assert patient.catch_up() is None
    assert [(e.number, e.kind) for e in read_events(patient.path)] == [(1, "queued"), (2, "starting"), (3, "running")]


def test_a_run_whose_folder_is_away_for_a_while_goes_on_and_loses_no_metric() -> None:
    run = train(epochs=25, pause_s=0.01)
    while run.progress.step < 20:
        time.sleep(0.02)
    root = run.paths.root
    aside = root.with_name(".aside")
    root.rename(aside)
    time.sleep(1.5)
    aside.rename(root)
    assert run.wait(timeout=40) is State.FINISHED
    assert run.metrics.steps("loss").tolist() == list(range(1, 201))


def test_printing_to_a_full_disk_raises_nothing() -> None:
    program = (
        "import pathlib, os, sys\n"
        "from jtrain.worker.output import redirect_output\n"
        "redirect_output(pathlib.Path('/dev/full'))\n"
        "print('x' * 100_000)\n"
        "print('y', file=sys.stderr, flush=True)\n"
        "os._exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=50, check=False).returncode == 7


def test_a_run_that_was_deleted_by_hand_says_so() -> None:
    run = train(epochs=1)
    run.wait(timeout=40)
    shutil.rmtree(run.paths.root)
    assert repr(run) == f"<Run {run.id}: deleted>"
    for act in (run.wait, run.stop, run.pause, run.checkpoint, run.resume):
        with pytest.raises(RunNotFoundError, match="is gone"):
            act()


def test_values_that_find_no_room_say_so_and_how_to_go_on() -> None:
    run = start(
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\nvalue = bytes(10**6)",
        nproc=1,
        outputs=("value",),
    )
    assert run.wait(timeout=40) is State.FAILED
    error = run.error
    assert error is not None
    assert "value could not be written for the notebook" in error.message
    assert "%jtrain resume" in error.message
    assert not run.paths.result.exists()


class Told:
    """A view that keeps what it is told."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def update(self, snapshot: Snapshot) -> None:
        pass

    def tell(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def finish(self, snapshot: Snapshot) -> None:
        pass


def test_who_waits_is_told_once_that_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(epochs=8, pause_s=0.02)
    enough, full = Told(), Told()
    Watch(run, enough).wait()
    assert not enough.sentences
    monkeypatch.setattr("jtrain.view.watching._FULL_BELOW_BYTES", 2**80)
    run = train(epochs=8, pause_s=0.02)
    Watch(run, full).wait()
    assert len(full.sentences) == 1
    assert str(run.store.paths.root) in full.sentences[0]


def test_a_folder_whose_name_is_no_text_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    monkeypatch.chdir(os.fsdecode(folder))
    with pytest.raises(LaunchError, match=r"no UTF-8 text: .*xff.*rename it"):
        start("pass", nproc=1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(os.fsdecode(folder))
    assert start("pass", nproc=1).wait(timeout=40) is State.FINISHED
