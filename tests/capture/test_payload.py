"""The folder of a payload: written once, or not at all; mapped, not copied; damaged ones are named."""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
import torch

from jtrain.capture.pack import pack, plan
from jtrain.capture.unpack import load_result, unpack
from jtrain.errors import CaptureError


def round_trip(folder: Path, **values: Any) -> dict[str, Any]:
    """What arrives of `values`."""
    pack(values, dict.fromkeys(values, 2), folder / "payload")
    return unpack(folder / "payload", {}).values


def size_on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


def test_nothing_to_capture_makes_no_folder(tmp_path: Path) -> None:
    manifest = pack({"x": 1}, {"y": 2}, tmp_path / "payload")
    assert (manifest.names, manifest.digest, manifest.total_bytes) == ({}, "", 0)
    assert not list(tmp_path.iterdir())


def test_many_buffers_of_odd_sizes_arrive(tmp_path: Path) -> None:
    draw = random.Random(1)
    sizes = [draw.choice([1, 100, 2047, 2048, 2049, 4097, 70_001, 5_000_000]) for _ in range(200)]
    arrays = [np.frombuffer(draw.randbytes(size), np.uint8) for size in [*sizes, *[3000] * 1500]]
    back = round_trip(tmp_path, arrays=arrays)["arrays"]
    assert all(np.array_equal(old, new) for old, new in zip(arrays, back, strict=True))


def test_one_memory_under_many_names_is_written_once(tmp_path: Path) -> None:
    array = np.arange(1_000_000)
    tensor = torch.from_numpy(array)
    values = {"array": array, "same": array, "tensor": tensor, "part": array[5:], "tied": [tensor.view(-1, 10)] * 2}
    back = round_trip(tmp_path, **values, arrow=pyarrow.array(array))
    assert size_on_disk(tmp_path / "payload") < 8_200_000
    back["array"][7] = -1
    assert (back["tensor"][7].item(), back["part"][2], back["tied"][0][0, 7].item()) == (-1, -1, -1)
    assert back["same"] is back["array"]


def test_a_small_part_of_a_large_memory_is_all_that_is_written(tmp_path: Path) -> None:
    large = torch.zeros(10_000_000)
    large[5_000_000:5_000_003] = torch.tensor([1.0, 2.0, 3.0])
    frame = pandas.DataFrame({"text": [f"row {index}" for index in range(500_000)], "x": np.arange(500_000)})
    views = {"part": large[5_000_000:5_000_003], "column": np.ones((1000, 1000))[:, 3], "frame": frame[10:12]}
    back = round_trip(tmp_path, **views)
    assert size_on_disk(tmp_path / "payload") < 100_000
    assert (back["part"].tolist(), back["column"].sum()) == ([1.0, 2.0, 3.0], 1000)
    assert back["frame"].text.tolist() == ["row 10", "row 11"]


def test_mapped_values_outlive_their_folder_and_stay_private(tmp_path: Path) -> None:
    first = round_trip(tmp_path, array=np.zeros(100_000), tensor=torch.zeros(100_000))
    second = unpack(tmp_path / "payload", {}).values
    first["array"] += 1
    first["tensor"].add_(1)
    shutil.rmtree(tmp_path / "payload")
    assert (first["array"].sum(), second["array"].sum(), second["tensor"].sum().item()) == (100_000, 0, 0)


def test_a_plan_says_what_a_capture_writes(tmp_path: Path) -> None:
    values = {"array": np.arange(100_000), "text": "abc", "net": torch.nn.Linear(100, 100)}
    names = {"array": 3, "text": 4, "net": 5}
    planned, packed = plan(values, names), pack(values, names, tmp_path / "payload")
    assert planned.names == packed.names
    assert planned.total_bytes == packed.total_bytes == sum(info.size_bytes for info in packed.names.values())
    array = packed.names["array"]
    assert (array.type, array.line, array.size_bytes // 1000) == ("ndarray", 3, 800)


def test_the_digest_tells_data_apart(tmp_path: Path) -> None:
    data = np.arange(100_000)
    digests = [pack({"x": data}, {"x": 2}, tmp_path / f"{index}").digest for index in range(2)]
    data[50_000] = 0
    digests.append(pack({"x": data}, {"x": 2}, tmp_path / "2").digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.fixture
def nearly_full_disk() -> Iterator[None]:
    """No file of this process may become larger than 1 MB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("value", [np.ones(1_000_000), "x" * 3_000_000], ids=["buffers", "pickles"])
def test_a_disk_error_is_told_as_one_and_leaves_nothing(value: Any, tmp_path: Path, nearly_full_disk: None) -> None:
    with pytest.raises(OSError, match="File too large"):
        pack({"x": value}, {"x": 2}, tmp_path / "payload")
    assert not list(tmp_path.iterdir())


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    class Interrupts:
        def __reduce__(self) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack({"x": [1, Interrupts()]}, {"x": 2}, tmp_path / "payload")
    assert not list(tmp_path.iterdir())
    assert gc.isenabled()


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("name", ["values.pkl", "buffers.bin", "index.json"])
@pytest.mark.parametrize("damage", [shorten, Path.unlink], ids=["short", "missing"])
def test_a_damaged_payload_is_named(name: str, damage: Any, tmp_path: Path) -> None:
    pack({"x": np.ones(10_000)}, {"x": 2}, tmp_path / "payload")
    damage(tmp_path / "payload" / name)
    for load in (unpack, load_result):
        with pytest.raises(CaptureError, match=r"payload is damaged.*start the run again"):
            load(tmp_path / "payload", {})


def test_functions_of_another_python_are_refused_and_data_is_not(tmp_path: Path) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def f(): return 1\nx = 1", space)
    for name in ("f", "x"):
        pack(space, {name: 2}, tmp_path / name)
        index = json.loads((tmp_path / name / "index.json").read_text())
        index["python"] = index["python"] and "3.1.4"
        (tmp_path / name / "index.json").write_text(json.dumps(index))
    with pytest.raises(CaptureError, match=r"functions of Python 3\.1\.4"):
        unpack(tmp_path / "f", {})
    assert unpack(tmp_path / "x", {}).values == {"x": 1}


def test_sources_of_notebook_cells_travel_and_those_of_files_do_not(tmp_path: Path) -> None:
    import linecache

    space: dict[str, Any] = {"__name__": "__main__"}
    text = "def f(): return 1\n"
    linecache.cache["<cell 7>"] = (len(text), None, [text], "<cell 7>")
    exec(compile(text, "<cell 7>", "exec"), space)
    exec(compile("def g(): return 1", __file__, "exec"), space)
    pack(space, {"f": 2, "g": 2}, tmp_path / "payload")
    assert unpack(tmp_path / "payload", {}).sources == {"<cell 7>": text}
