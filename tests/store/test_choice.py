"""The choice of devices: what was written is read back, rubbish is nothing, every change shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jtrain.errors import StoreError
from jtrain.store.choice import MOST, choice_stamp, read_choice, write_choice

GPUS = ["GPU-5b3e0c1a-0000-4000-8000-000000000001", "GPU-5b3e0c1a-0000-4000-8000-000000000002"]
MIG = "MIG-GPU-5b3e0c1a-0000-4000-8000-000000000001/3/0"


def test_a_choice_is_read_back_in_its_order(tmp_path: Path) -> None:
    write_choice(tmp_path, [GPUS[1], GPUS[0], MIG])
    assert read_choice(tmp_path) == [GPUS[1], GPUS[0], MIG]


def test_where_nothing_was_chosen_the_choice_is_empty(tmp_path: Path) -> None:
    assert read_choice(tmp_path) == []
    assert choice_stamp(tmp_path) is None
    write_choice(tmp_path, GPUS)
    write_choice(tmp_path, [])
    assert read_choice(tmp_path) == []


def test_the_store_need_not_exist_yet(tmp_path: Path) -> None:
    write_choice(tmp_path / "new" / "store", GPUS)
    assert read_choice(tmp_path / "new" / "store") == GPUS


def test_a_device_chosen_twice_counts_once(tmp_path: Path) -> None:
    write_choice(tmp_path, [GPUS[0], GPUS[0]])
    assert read_choice(tmp_path) == [GPUS[0]]


@pytest.mark.parametrize("wrong", ["", "../../etc/passwd", "a b", "<img src=x>", "x" * 200, 7, None])
def test_what_can_be_no_device_is_refused_and_the_old_choice_stays(tmp_path: Path, wrong: str) -> None:
    write_choice(tmp_path, GPUS)
    with pytest.raises(ValueError, match="UUID of a device"):
        write_choice(tmp_path, [GPUS[0], wrong])
    assert read_choice(tmp_path) == GPUS


def test_more_devices_than_a_machine_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the most"):
        write_choice(tmp_path, [f"GPU-{number}" for number in range(MOST + 1)])
    with pytest.raises(ValueError, match="a list"):
        write_choice(tmp_path, GPUS[0])


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"uuids": 3}', '{"uuids": [7, null, "../x"]}', "x" * 100_000, "[" * 60_000, "\udcff".join("ab")],
)
def test_a_damaged_file_is_no_choice(tmp_path: Path, text: str) -> None:
    (tmp_path / "choice.json").write_bytes(text.encode(errors="surrogateescape"))
    assert read_choice(tmp_path) == []


def test_a_hand_made_file_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "choice.json").write_text(json.dumps({"uuids": [f"GPU-{number}" for number in range(200)]}))
    assert len(read_choice(tmp_path)) == MOST


def test_every_change_changes_the_stamp(tmp_path: Path) -> None:
    seen = {choice_stamp(tmp_path)}
    for chosen in (GPUS, GPUS[::-1], GPUS[:1], [], GPUS):
        write_choice(tmp_path, chosen)
        seen.add(choice_stamp(tmp_path))
    assert len(seen) == 6


def test_a_choice_that_cant_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"choice\.json"):
        write_choice(tmp_path / "file", GPUS)


def test_a_choice_that_cant_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "choice.json").mkdir()
    with pytest.raises(StoreError, match="can't be read"):
        read_choice(tmp_path)
