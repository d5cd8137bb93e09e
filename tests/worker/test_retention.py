"""Which checkpoints are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jtrain.checkpointing.retention import Retention, superfluous
from jtrain.errors import OptionError
from jtrain.options import make_options
from jtrain.store.checkpoints import list_checkpoints
from jtrain.store.paths import RunPaths
from tests.worker.alone import alone, write


@dataclass(frozen=True)
class Fake:
    name: str
    time: float = 0.0
    is_pinned: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)


def kept(found: list[Fake], retention: Retention) -> str:
    gone = superfluous(found, retention)
    return "".join(info.name for info in found if info.name not in gone)


LOSSES = [Fake(name, metrics={"loss": value}) for name, value in zip("abcdef", (5, 1, 3, 1, 4, 2), strict=True)]


@pytest.mark.parametrize(
    ("retention", "names"),
    [
        (Retention(2), "ef"),
        (Retention(10), "abcdef"),
        (Retention(1, "loss"), "bf"),
        (Retention(1, "loss", best=2), "bdf"),
        (Retention(1, "loss", is_max=True), "af"),
        (Retention(1, "another"), "f"),
    ],
)
def test_the_newest_and_the_best(retention: Retention, names: str) -> None:
    assert kept(LOSSES, retention) == names


def test_a_value_that_is_no_number_is_never_the_best() -> None:
    found = [Fake("a", metrics={"loss": float("nan")}), Fake("b", metrics={"loss": 9.0}), Fake("c")]
    assert kept(found, Retention(1, "loss")) == "bc"


def test_one_of_every_hour_however_often_they_come() -> None:
    found = [Fake(name, time=600.0 * number) for number, name in enumerate("abcdefghijklmn")]
    assert kept(found, Retention(1, every_s=3600.0)) == "agmn"


def test_one_of_every_hour_stays_when_others_go() -> None:
    found: list[Fake] = []
    for number, name in enumerate("abcdefghijklmnopqrs"):
        found.append(Fake(name, time=1000.0 * number))
        gone = superfluous(found, Retention(2, every_s=3600.0))
        found = [info for info in found if info.name not in gone]
    assert "".join(info.name for info in found) == "aeimqrs"


def test_pinned_ones_count_for_nothing_else() -> None:
    found = [Fake("a", is_pinned=True), Fake("b"), Fake("c"), Fake("d", is_pinned=True)]
    assert kept(found, Retention(1)) == "acd"


def test_the_best_by_what_was_logged_last_stays(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "brisk-otter-7")
    paths.checkpoints.mkdir(parents=True)
    checkpointer = alone(paths, retention=Retention(1, "val/accuracy", is_max=True))
    for step, accuracy in enumerate((0.5, 0.9, 0.7, 0.8)):
        write(checkpointer, step, **{"val/accuracy": accuracy})
    found = list_checkpoints(paths)
    assert [(info.step, info.metrics["val/accuracy"]) for info in found] == [(1, 0.9), (3, 0.8)]


def test_options_say_what_is_kept() -> None:
    assert make_options(keep_best="val/accuracy:max").best_by == ("val/accuracy", True, 1)
    assert make_options(keep_best="a:b:min:3").best_by == ("a:b", False, 3)
    assert make_options().best_by == ("", False, 0)
    assert make_options(keep_every="6h").keep_every_s == 21600.0
    with pytest.raises(OptionError, match="val/accuracy:max"):
        make_options(keep_best="val/accuracy")
    with pytest.raises(OptionError, match="it is a time"):
        make_options(keep_every="500steps")
