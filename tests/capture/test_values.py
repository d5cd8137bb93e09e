"""Data of a notebook as it arrives in a worker."""

from __future__ import annotations

import json

import pytest

from tests.capture.processes import Case, Processes

CASES = {
    "hooks and gradients": Case(
        """
        import torch
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.register_post_accumulate_grad_hook(lambda p: calls.append("done"))
        parameter.grad = torch.full((3,), 5.0)
        calls, factor = [], 2
        leaf = torch.ones(3, requires_grad=True)
        leaf.register_hook(lambda gradient: gradient * factor)
        """,
        """
        print(parameter.grad.tolist())
        (parameter.sum() + leaf.sum()).backward()
        print(calls, leaf.grad.tolist(), parameter.grad.tolist())
        """,
        "[5.0, 5.0, 5.0]\n['done'] [2.0, 2.0, 2.0] [6.0, 6.0, 6.0]",
    ),
    "the result of a computation arrives as its values": Case(
        "import torch\nx = torch.ones(3, requires_grad=True)\ny = x * 2\nhistory = [y.sum()]",
        "print(y.requires_grad, history[0].item(), x.requires_grad)",
        "False 6.0 True",
    ),
    "unusual tensors": Case(
        """
        import torch
        quantized = torch.quantize_per_tensor(torch.ones(100, 100), 0.5, 0, torch.quint8)
        unsigned = torch.arange(5000).to(torch.uint32)[10:12]
        small_floats = torch.ones(4000).to(torch.float8_e4m3fn)
        imaginary = torch.full((3,), 2j).imag
        conjugate = torch.full((2,), 1j).conj()
        meta = torch.empty(7, device="meta")
        generator = torch.Generator().manual_seed(5)
        expected = torch.rand(2, generator=torch.Generator().manual_seed(5))
        class Tagged(torch.Tensor): pass
        tagged = torch.ones(3000).as_subclass(Tagged)
        tagged.tag = "x"
        storage = torch.ones(1000).untyped_storage()
        """,
        """
        print(quantized.dequantize().sum().item(), unsigned.tolist(), small_floats.float().sum().item())
        print(imaginary.tolist(), conjugate.tolist(), meta.shape[0], type(tagged) is Tagged, tagged.tag)
        print(torch.equal(torch.rand(2, generator=generator), expected), storage.nbytes())
        """,
        "10000.0 [10, 11] 4000.0\n[2.0, 2.0, 2.0] [-1j, -1j] 7 True x\nTrue 4000",
    ),
    "modules that torch itself won't pickle": Case(
        """
        import torch
        normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
        lazy = torch.nn.LazyLinear(3)
        hooked = torch.nn.Linear(2, 2)
        hooked.register_forward_hook(lambda module, given, result: result * 0 + 1)
        """,
        "print(normed(torch.ones(2)).shape, lazy(torch.ones(1, 4)).shape, hooked(torch.ones(2)).tolist())",
        "torch.Size([3]) torch.Size([1, 3]) [1.0, 1.0]",
    ),
    "small tensors can be resized": Case(
        "import torch\nsmall = torch.ones(3)\nview = small[1:]",
        "small[1] = 5\nprint(view[0].item(), small.resize_(10).shape[0])",
        "5.0 10",
    ),
    "a loader that has been used": Case(
        """
        import torch
        from torch.utils.data import DataLoader
        loader = DataLoader(range(10), batch_size=5, num_workers=1, persistent_workers=True)
        first = [batch.tolist() for batch in loader]
        """,
        "print([batch.tolist() for batch in loader] == first)",
        "True",
    ),
    "schedulers still know their optimizer": Case(
        """
        import torch
        from torch.optim import lr_scheduler as schedulers
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        decay = 0.5
        parts = [schedulers.ConstantLR(optimizer, 1.0), schedulers.LambdaLR(optimizer, lambda epoch: decay**epoch)]
        scheduler = schedulers.SequentialLR(optimizer, parts, [1])
        """,
        """
        import warnings
        warnings.simplefilter("error")
        for _ in range(3):
            optimizer.step()
            scheduler.step()
        print(optimizer.param_groups[0]["lr"], scheduler.optimizer is optimizer)
        """,
        "0.125 True",
    ),
    "what an accelerator left on a model": Case(
        """
        import torch
        from accelerate import Accelerator
        model = torch.nn.Linear(2, 2)
        Accelerator(cpu=True, mixed_precision="bf16").prepare(model)
        assert "forward" in vars(model)
        """,
        "print(sorted(name for name in vars(model) if name in ('forward', '_is_accelerate_prepared')))",
        "[]",
    ),
    "numpy arrays of every kind": Case(
        """
        import numpy as np
        table = np.arange(10000).reshape(100, 100)
        features, target = table[:, :-1], table[:, -1]
        fortran = np.asfortranarray(table)
        records = np.rec.array([(1, 2.5)] * 500, dtype=[("a", "i4"), ("b", "f8")])
        objects = np.array([1, lambda: SECRET], dtype=object)
        SECRET = 5
        windows = np.lib.stride_tricks.sliding_window_view(table.ravel(), 5)
        repeated = np.broadcast_to(np.ones(1000), (50, 1000))
        frozen = np.frombuffer(b"abcd" * 1000, dtype="i4")
        times = np.arange(9000).astype("M8[s]")[::-1]
        empty, scalar = np.empty((0, 3)), np.zeros(())
        """,
        """
        table[1, 0] = table[1, -1] = -1
        print(features[1, 0], target[1], windows[100, 0], fortran.flags.f_contiguous, records[0].b, objects[1]())
        print(repeated.strides, frozen.flags.writeable, times[0], empty.shape, scalar)
        """,
        "-1 199 -1 True 2.5 5\n(0, 8) False 1970-01-01T02:29:59 (0, 3) 0.0",
    ),
    "arrays in files of the user's": Case(
        """
        import numpy as np
        np.save("data.npy", np.arange(10000.0))
        mapped = np.load("data.npy", mmap_mode="r")
        part, plain = mapped[5:50:2], np.asarray(mapped)
        writable = np.memmap("own.bin", "i4", "w+", shape=(100, 100))
        """,
        """
        import os
        writable[3] = 7
        writable.flush()
        print(type(mapped).__name__, part[1], plain[3], np.fromfile("own.bin", "i4")[300])
        print(os.path.getsize("arrays in files of the user's/buffers.bin"))
        """,
        "memmap 7.0 3.0 7\n0",
    ),
    "pandas": Case(
        """
        import numpy as np, pandas as pd
        frame = pd.DataFrame({
            "text": [f"row {i}" for i in range(5000)], "kind": pd.Categorical(["u", "v"] * 2500),
            "day": pd.date_range("2020", periods=5000, tz="UTC"), "thing": [{"k": 1}] * 5000,
            "maybe": pd.array([1, None] * 2500, dtype="Int64"), "x": np.arange(5000.0),
        })
        some = frame[10:20]
        """,
        """
        frame.loc[0, "text"] = "changed"
        frame["x"] += 1
        print(frame.text.iloc[0], some.shape, frame.groupby("kind", observed=True).size().tolist(), frame.day.dt.tz)
        print(frame.thing.iloc[1], frame.maybe.isna().sum(), frame.x.iloc[-1])
        """,
        "changed (10, 6) [2500, 2500] UTC\n{'k': 1} 2500 5000.0",
    ),
    "identity": Case(
        "a = [1]\nb = a\nc = {'x': a}\nd = (a, c)\nloop = []\nloop.append(loop)",
        "print(a is b, c['x'] is a, d[0] is a, loop[0] is loop)",
        "True True True True",
    ),
    "a variable that only -i names": Case("hidden = 5", "print(eval('hid' + 'den'))", "5", extra=("hidden",)),
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What capturing and working printed, by case."""
    processes = Processes(tmp_path_factory.mktemp("values"), CASES)
    captured, worked = processes.capture(), processes.work()
    return {name: (captured[name], worked[name]) for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_values_arrive(name: str, printed: dict[str, tuple[str, str]]) -> None:
    captured, worked = printed[name]
    assert captured.startswith("{"), captured
    assert worked.strip() == CASES[name].prints


def test_a_variable_pays_for_its_own_bytes_only(printed: dict[str, tuple[str, str]]) -> None:
    sizes = json.loads(printed["numpy arrays of every kind"][0])
    assert sizes["table"] > 80_000
    assert max(sizes["features"], sizes["target"], sizes["windows"]) < 1000
    assert sizes["repeated"] < 9000
