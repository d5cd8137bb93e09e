"""A disk that takes nothing doesn't end a run: what it didn't take is written when it can be."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jtrain.domain.states import State
from jtrain.store.journal import Journal, read_events
from tests.cells import train

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
