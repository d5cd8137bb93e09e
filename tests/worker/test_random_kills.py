"""A short version of `tests/soak/kills.py`, and other harm that comes to a run's checkpoints while it rests."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jtrain.errors import JtrainError
from jtrain.run import Run
from tests.soak.victims import Tally, begin, compare, torment

pytestmark = pytest.mark.timeout(150)
EPOCHS = 6


@pytest.fixture(scope="module")
def straight_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("straight")


def newest(run: Run) -> Path | None:
    found = run.checkpoints()
    return found[-1].folder if found else None


def flip(run: Run) -> None:
    if folder := newest(run):
        file = random.Random(run.id).choice(sorted(folder.glob("*.pt")))
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


@pytest.mark.parametrize("harm", [flip, cut, tear, remove_all])
def test_a_run_whose_newest_checkpoint_was_harmed_comes_to_the_same_numbers(harm: Callable[[Run], None]) -> None:
    chance, tally = random.Random(5), Tally()
    straight = begin(EPOCHS, 0.0)
    straight.wait(timeout=60)
    run = begin(EPOCHS, 0.005)
    harmed: list[Run] = []

    def harm_once(run: Run) -> None:
        if not harmed and len(run.checkpoints()) > 1:
            harmed.append(run)
            harm(run)

    torment(run, chance, tally, most=3, harm=harm_once)
    assert harmed
    compare(run, straight, tally)
    assert tally.wrong == []


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
