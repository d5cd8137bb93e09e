"""A short version of `tests/soak/kills.py`, and other harm that comes to a run's checkpoints while it rests."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jtrain.domain.states import State
from jtrain.errors import JtrainError
from jtrain.run import Run
from tests.soak.victims import Tally, begin, compare, kill, torment, wait_at_rest

pytestmark = pytest.mark.timeout(150)
EPOCHS = 6


def newest(run: Run) -> Path | None:
    found = run.checkpoints()
    return found[-1].folder if found else None


def flip(run: Run) -> None:
    if folder := newest(run):
        file = random.Random(run.id).choice(sorted(folder.glob("rank-*")))
        data = file.read_bytes()
        middle = len(data) // 2
        file.write_bytes(data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :])


def cut(run: Run) -> None:
    if folder := newest(run):
        file = max(folder.iterdir(), key=lambda path: path.stat().st_size)
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def tear(run: Run) -> None:
    if folder := newest(run):
        (folder / "manifest.json").write_bytes(b"")


def remove_all(run: Run) -> None:
    shutil.rmtree(run.paths.checkpoints)


def test_a_run_that_is_killed_at_random_instants_comes_to_the_same_numbers() -> None:
    chance, tally = random.Random(4), Tally()
    straight = begin(EPOCHS, 0.0)
    straight.wait(timeout=60)
    while tally.num_kills < 6:
        run = begin(EPOCHS, 0.005)
        torment(run, chance, tally, most=6)
        compare(run, straight, tally)
    assert tally.wrong == []


def kill_after(run: Run, step: int) -> None:
    """Kill all of the run once it has a checkpoint of that step or a later one; wait until it rests."""
    while not (found := run.checkpoints()) or found[-1].step < step:
        assert not run.is_at_rest
        time.sleep(0.005)
    assert kill(run, "all", random.Random(0))
    assert wait_at_rest(run)


@pytest.mark.parametrize("harm", [flip, cut, tear, remove_all])
def test_a_run_whose_newest_checkpoint_was_harmed_comes_to_the_same_numbers(harm: Callable[[Run], None]) -> None:
    tally = Tally()
    straight, run = begin(EPOCHS, 0.0), begin(EPOCHS, 0.003)
    kill_after(run, 5)
    harm(run)
    run.resume().wait(timeout=60)
    straight.wait(timeout=60)
    compare(run, straight, tally)
    assert (run.state, tally.wrong) == (State.FINISHED, [])


def test_a_run_whose_clock_was_set_back_comes_to_the_same_numbers() -> None:
    tally = Tally()
    straight, run = begin(30, 0.0), begin(30, 0.003, clock_back_h=1.0)
    kill_after(run, 4)
    run.resume()
    time.sleep(0.7)
    kill(run, "all", random.Random(0))
    assert wait_at_rest(run)
    run.resume().wait(timeout=60)
    straight.wait(timeout=60)
    compare(run, straight, tally)
    assert (run.state, len(run.attempts), tally.wrong) == (State.FINISHED, 3, [])


def test_of_two_resumes_at_once_one_wins_and_the_other_says_who_has_it() -> None:
    run = begin(EPOCHS, 0.0)
    run.pause()
    run.wait(timeout=60)
    said: list[str] = []

    def resume() -> None:
        try:
            Run(run.id).resume()
        except JtrainError as error:
            said.append(str(error))

    threads = [threading.Thread(target=resume) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.wait(timeout=60)
    assert len([event for event in run.events() if event.reason == "resumed"]) == 1
    assert len(said) == 1
    assert f"%jtrain attach {run.id}" in said[0]
