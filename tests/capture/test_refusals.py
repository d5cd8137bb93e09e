"""What can't travel is named, with where it is and what to do, all in one message and before anything is written."""

from __future__ import annotations

import functools
import linecache
import threading
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import pandas
import pytest
import torch

from jtrain.capture.pack import pack, plan
from jtrain.errors import CaptureError, LaunchError
from jtrain.launching import launch
from jtrain.run import Run

LOCK = threading.Lock()


def refuse(folder: Path, namespace: dict[str, Any], names: dict[str, int] | None = None) -> list[str]:
    """The lines of the refusal of `names` (default: all variables, each used in the line of its number, from 2)."""
    wanted = {name: line for line, name in enumerate(namespace, start=2)} if names is None else names
    with pytest.raises(CaptureError) as raised:
        pack({"__name__": "__main__", **namespace}, wanted, folder / "payload")
    assert not list(folder.iterdir())
    return [line.strip() for line in str(raised.value).splitlines()[1:]]


def notebook(text: str, **variables: Any) -> dict[str, Any]:
    """A namespace in which `text` was run."""
    namespace: dict[str, Any] = {"__name__": "__main__", **variables}
    linecache.cache["<notebook>"] = (len(text), None, text.splitlines(keepends=True), "<notebook>")
    exec(compile(text, "<notebook>", "exec"), namespace)
    return namespace


class Holder:
    """Something with parts."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


class Slotted:
    """Something with slots."""

    __slots__ = ("part",)

    def __init__(self, part: Any) -> None:
        self.part = part


class Opaque:
    """Something whose parts only its reduction shows."""

    def __init__(self, part: Any) -> None:
        self.get = lambda: part

    def __reduce__(self) -> Any:
        return Opaque, (self.get(),)


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (LOCK, "x (line 2) is a lock"),
        ([1, {"k": LOCK}], "x[1]['k'] (line 2) is a lock"),
        (Holder(a=Holder(b=[LOCK])), "x.a.b[0] (line 2) is a lock"),
        (OrderedDict(k=[LOCK]), "x['k'][0] (line 2) is a lock"),
        ({1: {(1, 2): LOCK}}, "x[1][a tuple] (line 2) is a lock"),
        (Pair(1, LOCK), "x[1] (line 2) is a lock"),
        (Slotted(LOCK), "x.part (line 2) is a lock"),
        ({LOCK}, "x (an element) (line 2) is a lock"),
        (Holder(lock=LOCK).__eq__, "x.__self__.lock (line 2) is a lock"),
        (functools.partial(print, LOCK), "x.args[0] (line 2) is a lock"),
        (Opaque(Holder(lock=LOCK)), "x (line 2) holds a lock"),
    ],
)
def test_the_place_is_written_as_python(value: object, place: str, tmp_path: Path) -> None:
    lines = refuse(tmp_path, {"x": value})
    assert lines == [f"{place} (_thread.lock); make it inside the cell"]


def test_parts_of_torch_modules_are_named_as_attributes(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(1, 1))
    net.head = torch.nn.Module()
    net.head.lock = LOCK
    assert refuse(tmp_path, {"net": net})[0].startswith("net.head.lock (line 2) is a lock")


def test_cells_of_data_frames_are_named(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", LOCK]})
    assert refuse(tmp_path, {"frame": frame})[0].startswith("frame['b'][1] (line 2) is a lock")


def test_globals_of_functions_are_named_with_their_user(tmp_path: Path) -> None:
    text = "def load(): return source\ndef train(): return load()\n"
    space = notebook(text + "class Net:\n def forward(self): return source\nnet = Net()", source=LOCK)
    expected = ["source (used by load, line 9) is a lock (_thread.lock); make it inside the cell"]
    assert refuse(tmp_path, space, {"train": 9}) == expected
    assert refuse(tmp_path, space, {"net": 4})[0].startswith("source (used by Net.forward, line 4) is")
    assert refuse(tmp_path, space, {"train": 9, "source": 3})[0].startswith("source (line 3) is")


def test_closures_defaults_and_lambdas_are_named(tmp_path: Path) -> None:
    text = "def make(part):\n def inner(): return part\n return inner\ninner = make(LOCK)\n"
    space = notebook(text + "def f(x=LOCK): pass\ng = [lambda: LOCK]", LOCK=LOCK)
    assert refuse(tmp_path, space, {"inner": 2})[0].startswith("inner's variable part (line 2) is a lock")
    assert refuse(tmp_path, space, {"f": 2})[0].startswith("f's default value (line 2) is a lock")
    assert refuse(tmp_path, space, {"g": 2})[0].startswith("LOCK (used by <lambda>, line 2) is a lock")


def test_an_object_whose_own_reduction_fails_is_named_with_its_reason(tmp_path: Path) -> None:
    class Broken:
        def __reduce__(self) -> Any:
            raise ValueError("no way\nand more")

    line = refuse(tmp_path, {"x": {"k": Broken()}})[0]
    assert line.startswith("x['k'] (line 2) is an object of tests.capture.test_refusals.")
    assert "which can't be pickled (no way)" in line


def test_only_what_the_cell_reaches_is_refused(tmp_path: Path) -> None:
    manifest = pack({"ok": 1, "lock": LOCK}, {"ok": 2, "missing": 3}, tmp_path / "payload")
    assert list(manifest.names) == ["ok"]


def test_a_dry_run_refuses_the_same(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="x \\(line 4\\) is a lock"):
        plan({"x": LOCK}, {"x": 4})


def test_many_are_counted_and_cut(tmp_path: Path) -> None:
    locks = {f"lock_{index}": threading.Lock() for index in range(30)}
    with pytest.raises(CaptureError, match="30 things can't travel") as raised:
        pack(locks, dict.fromkeys(locks, 2), tmp_path / "payload")
    assert str(raised.value).splitlines()[-1].strip() == "… and 10 more"


def test_deep_nesting_is_named(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    assert refuse(tmp_path, {"deep": deep, "lock": LOCK}) == [
        "deep (line 2) is nested too deeply to be pickled; keep its parts in a list",
        "lock (line 3) is a lock (_thread.lock); make it inside the cell",
    ]


def test_the_record_of_the_notebook_is_refused(tmp_path: Path) -> None:
    space = {"In": ["", "x"], "Out": {1: 2}, "_1": 5, "x": 1}
    lines = refuse(tmp_path, space, {"In": 2, "Out": 3, "_1": 4, "x": 5})
    assert [line.split(" is ")[0] for line in lines] == ["In (line 2)", "Out (line 3)", "_1 (line 4)"]
    assert len(refuse(tmp_path, space, {"Out": 2})) == 1


def test_a_function_may_use_what_the_kernel_calls_open_and_exit(tmp_path: Path) -> None:
    def kernels_open() -> None:
        """IPython's."""

    kernels_open.__module__ = "IPython.core.interactiveshell"
    space = notebook("def read(): return open", open=kernels_open)
    manifest = pack(space, {"read": 2, "open": 3}, tmp_path / "payload")
    assert list(manifest.names) == ["read"]


def test_an_unknown_extra_name_gets_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"-i wieghts: .*did you mean 'weights'"):
        pack({"weights": 1}, {}, tmp_path / "payload", extra=["wieghts"])


def test_a_run_is_refused_by_what_people_call_it(tmp_path: Path) -> None:
    run = object.__new__(Run)
    assert refuse(tmp_path, {"job": run})[0].startswith("job (line 2) is a run (jtrain.run.Run)")


def test_arguments_of_a_launched_function_are_named_as_arguments(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"args\[0\]\['k'\] is a lock"):
        launch(print, {"k": LOCK}, nproc=1, gpus="none")


class Moody:
    """Slots, and attributes that raise."""

    __slots__ = ("lock",)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __reduce__(self) -> Any:
        return Moody, (), None, iter([LOCK])


def test_objects_whose_attributes_raise_are_searched_all_the_same(tmp_path: Path) -> None:
    told = refuse(tmp_path, {"moody": [Moody()], "late": Holder(part=LOCK)})
    assert told[0].startswith("moody (line 2) holds a lock")
    assert told[1].startswith("late.part (line 3) is a lock")


class Unbound:
    """A proxy that stands for nothing yet."""

    @property
    def __class__(self) -> Any:
        raise NameError("nothing is bound")


class SecretiveError(Exception):
    def __str__(self) -> str:
        raise ValueError


class Secretive:
    def __reduce__(self) -> Any:
        raise SecretiveError


def test_whatever_an_object_raises_it_is_named(tmp_path: Path) -> None:
    told = refuse(tmp_path, {"unbound": Unbound(), "secretive": Secretive()})
    assert "unbound (line 2) is an object of tests.capture.test_refusals.Unbound" in told[0]
    assert "nothing is bound" in told[0]
    assert "secretive (line 3) is an object of" in told[1]
    assert "(SecretiveError)" in told[1]


@pytest.mark.parametrize("thing", [None, "print", 3])
def test_what_can_not_be_called_is_refused_before_a_run_is_made(thing: Any, own_store: Path) -> None:
    with pytest.raises(LaunchError, match="takes a function"):
        launch(thing)
    assert not (own_store / "runs").exists()
