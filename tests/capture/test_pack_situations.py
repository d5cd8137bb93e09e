"""Notebooks as users write them: cells run in one process, what a cell uses packed there and unpacked in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doors.kernels import start_kernel

KERNEL = """
import json, linecache, sys
from pathlib import Path
folder, cells, cell, extra = Path(sys.argv[1]), *json.loads(sys.argv[2])
import types
from jtrain.capture.cell import parse_cell
from jtrain.capture.pack import pack
main = types.ModuleType("__main__")
main.__dict__["__builtins__"] = __builtins__
sys.modules["__main__"] = main
for number, text in enumerate(cells):
    name = f"/tmp/ipykernel_1/{number}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), main.__dict__)
try:
    program = parse_cell(cell, "<cell>")
    target = folder / "payload"
    manifest = pack(main.__dict__, program.names, target, extra=extra, attributes=program.attributes)
except Exception as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error), "left": (folder / "payload").exists()}))
else:
    names = {name: info.size_bytes for name, info in manifest.names.items()}
    print(json.dumps({"names": names, "total": manifest.total_bytes}))
if (folder / "after.py").exists():
    exec((folder / "after.py").read_text(), main.__dict__)
"""
WORKER = """
import builtins, json, linecache, sys, types
from pathlib import Path
folder, cell, outputs = Path(sys.argv[1]), *json.loads(sys.argv[2])
from jtrain.capture.unpack import unpack
from jtrain.capture.results import pack_result
main = types.ModuleType("__main__")
main.__dict__.update({"run": "the worker's run", "__builtins__": builtins})
sys.modules["__main__"] = main
values = {}
if (folder / "payload").exists():
    captured = unpack(folder / "payload", main.__dict__)
    values = captured.values
    for name, text in captured.sources.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
exec(compile(cell, "<cell>", "exec"), main.__dict__)
if outputs:
    try:
        pack_result({name: main.__dict__[name] for name in outputs}, folder / "result", captured=values)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""


def run_kernel(folder: Path, cells: list[str], cell: str, extra: tuple[str, ...] = (), after: str = "") -> Any:
    """Run the cells, pack what `cell` uses; the answer's first line, and what `after` printed."""
    if after:
        (folder / "after.py").write_text(after)
    lines = _run(KERNEL, folder, [cells, cell, extra]).splitlines()
    return json.loads(lines[0]), lines[1:]


def run_worker(folder: Path, cell: str, outputs: tuple[str, ...] = ()) -> list[str]:
    """The lines that `cell` prints in a worker."""
    return _run(WORKER, folder, [cell, outputs]).splitlines()


def _run(program: str, folder: Path, arguments: Any) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(folder), json.dumps(arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def send(folder: Path, cells: list[str], cell: str, extra: tuple[str, ...] = ()) -> list[str]:
    """What `cell` prints in a worker after `cells` were run in a notebook."""
    answer, _ = run_kernel(folder, cells, cell, extra)
    assert "error" not in answer, answer["text"]
    return run_worker(folder, cell)


def refuse(folder: Path, cells: list[str], cell: str) -> str:
    """The text of the error with which the notebook refuses `cell`."""
    answer, _ = run_kernel(folder, cells, cell)
    assert answer.get("error") == "CaptureError", answer
    assert not answer["left"]
    return answer["text"]


# Code ---------------------------------------------------------------------------------------------------------------


def test_functions_share_the_globals_of_the_workers_main_program(tmp_path: Path) -> None:
    cells = [
        "def later(): return value + count()",
        "count = lambda: 1\nvalue = 41",
        "def bump():\n global value\n value += 1",
    ]
    cell = (
        "import sys\nbump()\nprint(later(), value)\n"
        "print(all(f.__globals__ is sys.modules['__main__'].__dict__ for f in (later, bump, count)))"
    )
    assert send(tmp_path, cells, cell) == ["43 42", "True"]


def test_a_function_that_uses_run_finds_the_workers(tmp_path: Path) -> None:
    cells = ["run = 'an old run'\ndef log(): return run"]
    assert send(tmp_path, cells, "print(log())\nprint(run)") == ["the worker's run", "the worker's run"]


def test_a_class_met_only_through_its_instance_has_its_name_in_main(tmp_path: Path) -> None:
    cells = [
        "import dataclasses, enum\nclass Color(enum.Enum):\n RED = 1\n"
        "@dataclasses.dataclass\nclass Base:\n color: Color = Color.RED\n"
        "class Sub(Base):\n def name(self): return super().__repr__()\n"
        "thing = Sub()"
    ]
    cell = (
        "import pickle, sys\nmain = sys.modules['__main__']\nprint(thing.name())\n"
        "print(pickle.loads(pickle.dumps(thing)) == thing, main.Sub is type(thing), thing.color is main.Color.RED)"
    )
    assert send(tmp_path, cells, cell) == ["Sub(color=<Color.RED: 1>)", "True True True"]


def test_decorators_closures_recursion_partials_and_caches_travel(tmp_path: Path) -> None:
    cells = [
        "import functools\ndef twice(f):\n @functools.wraps(f)\n def inner(*a): return 2 * f(*a)\n return inner",
        "@twice\ndef one(): return 1\n@functools.lru_cache\ndef fib(n): return n if n < 2 else fib(n-1) + fib(n-2)\n"
        "def counter():\n n = 0\n def up():\n  nonlocal n\n  n += 1\n  return n\n def get(): return n\n"
        " return up, get\n"
        "up, get = counter()\nadd = functools.partial(lambda a, b: a + b, 5)\ntable = {'f': [one, lambda: one()]}",
    ]
    assert send(tmp_path, cells, "up()\nprint(one(), fib(30), get(), add(2), table['f'][1]())") == ["2 832040 1 7 2"]


def test_submodules_that_only_a_dotted_name_shows_are_imported(tmp_path: Path) -> None:
    cells = ["import xml.etree.ElementTree\nimport concurrent.futures\nimport os.path as p, math as m"]
    cell = "print(p.join('a', 'b'), m.floor(1.5), concurrent.futures.ThreadPoolExecutor.__name__)\n"
    outside = "def parse(): return xml.etree.ElementTree.fromstring('<a/>').tag"
    assert send(tmp_path, [*cells, outside], cell + "print(parse())") == ["a/b 1 ThreadPoolExecutor", "a"]


def test_a_local_module_is_imported_as_its_file_is_now(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("def f(): return 'old'\nclass C: pass\n")
    cells = [
        "import helpers\nfrom helpers import f, C\nc = C()",
        "from pathlib import Path\nPath('helpers.py').write_text('def f(): return \"new\"\\nclass C: pass\\n')",
    ]
    assert send(tmp_path, cells, "print(f(), helpers.f(), type(c) is helpers.C)") == ["new new True"]


def test_a_worker_shows_the_source_lines_of_notebook_functions(tmp_path: Path) -> None:
    cells = ["def broken():\n    return 1 / 0  # here"]
    cell = "import traceback\ntry:\n broken()\nexcept ZeroDivisionError:\n print(traceback.format_exc())"
    assert any("return 1 / 0  # here" in line for line in send(tmp_path, cells, cell))


def test_worker_processes_of_a_loader_use_classes_and_functions_of_the_notebook(tmp_path: Path) -> None:
    cells = [
        "import torch\nfrom torch.utils.data import DataLoader, Dataset\nscale = 10",
        "class Data(Dataset):\n f = staticmethod(lambda x: x * scale)\n def __len__(self): return 4\n"
        " def __getitem__(self, i): return self.f(i)\ndef collate(batch): return sum(batch)\n"
        "def init(number):\n global scale\n scale = 100",
    ]
    cell = "loader = DataLoader(Data(), 2, num_workers=1, collate_fn=collate, worker_init_fn=init)\nprint(list(loader))"
    assert send(tmp_path, cells, cell) == ["[100, 500]"]


# Data ---------------------------------------------------------------------------------------------------------------


def test_what_arrays_and_tensors_share_stays_shared(tmp_path: Path) -> None:
    cells = [
        "import numpy as np, torch\nbig = np.zeros((100, 1000))\nrow = big[3]\nback = big[::-1, ::2]\n"
        "t = torch.from_numpy(big)\n"
        "small = np.zeros(10)\npart = small[2:4]\nbase = torch.zeros(1000, 50)\nview = base[1:3].t()\nalias = base"
    ]
    cell = (
        "big[3, 0] = 7\nprint(row[0], back[96, 0], float(t[3, 0]))\nsmall[2] = 1\nprint(part[0])\n"
        "base[1, 2] = 5\nprint(float(view[2, 0]), view.is_contiguous(), alias is base)"
    )
    assert send(tmp_path, cells, cell) == ["7.0 7.0 7.0", "1.0", "5.0 False True"]


def test_a_small_view_of_a_big_tensor_or_array_costs_little(tmp_path: Path) -> None:
    cells = [
        "import numpy as np, torch\nbig = torch.arange(2_000_000)\nfew = big[500:510]\n"
        "much = np.arange(2_000_000)\nbit = much[-5:]"
    ]
    answer, _ = run_kernel(tmp_path, cells, "print(few, bit)")
    assert answer["total"] < 100_000
    on_disk = sum(file.stat().st_blocks * 512 for file in (tmp_path / "payload").iterdir())
    assert on_disk < 200_000
    assert run_worker(tmp_path, "print(few.tolist()[0], bit.tolist()[-1])") == ["500 1999999"]


def test_tied_weights_gradients_hooks_and_optimizers_keep_belonging_together(tmp_path: Path) -> None:
    cells = [
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n def __init__(self):\n  super().__init__()\n"
        "  self.a = nn.Linear(80, 80)\n  self.b = nn.Linear(80, 80)\n  self.b.weight = self.a.weight\n"
        " def forward(self, x): return self.b(self.a(x))",
        "model = Net()\noptimizer = torch.optim.AdamW(model.parameters())\nmodel(torch.ones(80)).sum().backward()\n"
        "optimizer.step()\nmodel.a.bias.register_hook(lambda g: g * 0)\n"
        "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)",
    ]
    cell = (
        "print(model.a.weight is model.b.weight, optimizer.param_groups[0]['params'][0] is model.a.weight)\n"
        "print(model.a.weight.grad is not None, len(optimizer.state))\noptimizer.zero_grad()\n"
        "model(__import__('torch').ones(80)).sum().backward()\nprint(float(model.a.bias.grad.abs().sum()))\n"
        "before = model.a.weight.detach().clone()\noptimizer.step()\nscheduler.step()\n"
        "print(bool((model.b.weight != before).any()), optimizer.param_groups[0]['lr'], "
        "scheduler.optimizer is optimizer)"
    )
    assert send(tmp_path, cells, cell) == ["True True", "True 3", "0.0", "True 0.0001 True"]


def test_unusual_arrays_tensors_and_tables_arrive_as_they_were(tmp_path: Path) -> None:
    cells = [
        "import numpy as np, torch, pandas as pd, pyarrow as pa",
        "np.save('m.npy', np.arange(6000.0))\nvalues = dict(\n"
        " mapped=np.load('m.npy', mmap_mode='r')[10:], copied=np.load('m.npy', mmap_mode='c'),\n"
        " struct=np.array([(1, 2.5), (3, 4.5)] * 900, dtype=[('a', 'i4'), ('b', 'f8')])['b'][::-1],\n"
        " text=np.array(['a', 'bcd'] * 3000), times=np.arange(9000).astype('M8[s]'), objects=np.array([1, "
        "'x', None], object),\n"
        " fortran=np.asfortranarray(np.arange(9000.).reshape(90, 100)), empty=np.empty((0, 3)), scalar=np.float32(2),\n"
        " masked=np.ma.array(np.arange(5), mask=[0, 1, 0, 0, 1]), "
        "half=torch.arange(9000).to(torch.bfloat16).view(90, 100).t(),\n"
        " sparse=torch.eye(200).to_sparse(), csr=torch.eye(200).to_sparse_csr(), conj=torch.ones(3, "
        "dtype=torch.cfloat).conj() * 1j,\n"
        " meta=torch.empty(3, device='meta').shape, leaf=torch.ones(5000, requires_grad=True), none=torch.empty(0),\n"
        " table=pa.table({'x': list(range(5000))}), frame=pd.DataFrame({'n': range(5000), 's': ['q'] * 5000,"
        " 'c': pd.Categorical(['u', 'v'] * 2500)}, index=pd.date_range('2020', periods=5000)))\n"
        "values['copied'][0] = -1\nfrozen = np.arange(9000)\nfrozen.flags.writeable = False\n"
        "values['graph'] = values['leaf'] * 2",
        "def summary(values):\n"
        " f = values['frame']\n"
        " return [values['mapped'][0].item(), values['mapped'].shape, values['copied'][:2].tolist(), "
        "values['struct'][0].item(),\n"
        "  values['text'][-1].item(), str(values['times'][-1]), values['objects'].tolist(), "
        "values['fortran'].flags.f_contiguous,\n"
        "  values['fortran'][3, 4].item(), values['empty'].shape, values['scalar'].item(), "
        "values['masked'].sum().item(),\n"
        "  values['half'][2, 1].item(), values['half'].stride(), values['sparse'].to_dense().sum().item(),\n"
        "  values['csr'].to_dense().sum().item(), str(values['conj'].tolist()), str(values['meta']), "
        "values['leaf'].requires_grad,\n"
        "  values['leaf'].is_leaf, values['none'].shape, values['table'].num_rows, f.s.iloc[-1], "
        "f.c.iloc[-1], str(f.index[-1]),\n"
        "  f.n.sum().item(), values['graph'].sum().item(), frozen.flags.writeable]\nexpected = str(summary(values))",
    ]
    cell = (
        "print(str(summary(values)) == expected or (summary(values), expected))\nprint(values['graph'].requires_grad)"
    )
    assert send(tmp_path, cells, cell) == ["True", "False"]


def test_writes_stay_in_the_process_that_makes_them(tmp_path: Path) -> None:
    cells = ["import numpy as np, torch\na = np.zeros(10_000)\nt = torch.zeros(10_000)"]
    cell = "a += 1\nt += 1\nprint(a.sum(), float(t.sum()))"
    assert send(tmp_path, cells, cell) == ["10000.0 10000.0"]
    assert run_worker(tmp_path, cell) == ["10000.0 10000.0"]


def test_a_payload_cut_short_is_named(tmp_path: Path) -> None:
    run_kernel(tmp_path, ["import numpy as np\na = np.zeros(10_000)"], "a")
    buffers = tmp_path / "payload" / "buffers.bin"
    os.truncate(buffers, buffers.stat().st_size - 10)
    cell = "print('never')"
    with pytest.raises(AssertionError, match=r"CaptureError.*payload"):
        run_worker(tmp_path, cell)


# Refusals -----------------------------------------------------------------------------------------------------------

UNTRAVELABLE = """
import threading, sqlite3, socket, subprocess, sys, contextvars, weakref, queue, logging, asyncio, tempfile
from types import SimpleNamespace
handle = open("log.txt", "w")
config = SimpleNamespace(log=SimpleNamespace(handle=handle))
text = open("log.txt")
lock = {"deep": [threading.Lock()]}
event = threading.Event()
thread = threading.Thread(target=print)
gen = (i for i in range(3))
async def co(): pass
coro = co()
db = sqlite3.connect(":memory:")
sock = socket.socket()
var = contextvars.ContextVar("v")
class Thing: pass
kept = Thing()
ref = weakref.ref(kept)
process = subprocess.Popen([sys.executable, "-c", ""]); process.wait()
frame = sys._getframe()
def make():
    file = handle
    def make_batch(): return file
    return make_batch
make_batch = make()
class Broken:
    def __reduce__(self): raise ValueError("no way")
broken = [Broken()]
def uses(): return lock_of_uses
lock_of_uses = threading.RLock()
handler = logging.FileHandler("x.log")
deep = []
for _i in range(100_000): deep = [deep]
import pandas
table = pandas.DataFrame({"x": [1, 2, 3, threading.Lock()]})
ok = 1
unused = threading.Lock()
"""
NAMES = [
    "config",
    "text",
    "lock",
    "event",
    "thread",
    "gen",
    "coro",
    "db",
    "sock",
    "var",
    "ref",
    "process",
    "frame",
    "make_batch",
    "broken",
    "uses",
    "handler",
    "deep",
    "table",
]


def test_every_variable_that_cannot_travel_is_named_in_one_message(tmp_path: Path) -> None:
    cell = "print(ok)\n" + "\n".join(NAMES)
    text = refuse(tmp_path, [UNTRAVELABLE], cell)
    for part in ("config.log.handle", "lock['deep'][0]", "lock_of_uses", "no way"):
        assert part in text, part
    assert "unused" not in text
    for number, name in enumerate(NAMES, start=3):
        assert any(name in line and f"line {number}" in line for line in text.splitlines()), name


def test_iterators_of_loaders_bars_scripts_and_accelerators_are_refused(tmp_path: Path) -> None:
    cells = [
        "import torch, tqdm, sys\nfrom accelerate import Accelerator\naccelerator = Accelerator(cpu=True)\n"
        "loader = torch.utils.data.DataLoader(range(4), num_workers=1)\nit = iter(loader)\n"
        "plain = iter(torch.utils.data.DataLoader(range(4)))\n"
        "bar = tqdm.tqdm(range(3))\nscript = torch.jit.script(torch.nn.Linear(2, 2))"
    ]
    text = refuse(tmp_path, cells, "accelerator\nit\nplain\nbar\nscript")
    for name in ("accelerator", "it", "plain", "bar", "script"):
        assert any(line.strip().startswith(name) or f" {name}" in line for line in text.splitlines()), name
    assert "inside the cell" in text


def test_an_unknown_name_asked_for_is_answered_with_the_nearest(tmp_path: Path) -> None:
    answer, _ = run_kernel(tmp_path, ["weights = 1"], "1", ("wieghts",))
    assert answer["error"] == "CaptureError"
    assert "weights" in answer["text"]


# Results ------------------------------------------------------------------------------------------------------------

AFTER = """
import sys, json
from pathlib import Path
import subprocess
worker = [sys.executable, "-c", Path("worker.py").read_text(), ".", Path("arguments.json").read_text()]
subprocess.run(worker, check=True)
import shutil
from jtrain.capture.unpack import load_result
result = load_result(Path("result"), sys.modules["__main__"].__dict__)
shutil.rmtree("result")
"""


def give_back(folder: Path, cells: list[str], cell: str, outputs: tuple[str, ...], check: str) -> list[str]:
    """What `check` prints in the notebook with the `outputs` of `cell` in `result`."""
    (folder / "worker.py").write_text(WORKER)
    (folder / "arguments.json").write_text(json.dumps([cell, outputs]))
    answer, lines = run_kernel(folder, cells, cell, after=AFTER + check)
    assert "error" not in answer, answer["text"]
    return lines


def test_results_are_of_the_notebooks_own_classes_and_on_their_own(tmp_path: Path) -> None:
    cells = [
        "import torch\nclass Net(torch.nn.Linear):\n class Config: pass\n"
        " def double(self, x): return 2 * self(x)\nmodel = Net(100, 100)\nhidden = 1"
    ]
    cell = (
        "class Local(Net):\n def own(self): return helper() + hidden\ndef helper(): return 41\n"
        "model = torch.compile(model)\nmodel.weight.data.fill_(2)\nlocal = Local(2, 2)\nconfig = Net.Config()\n"
        "graph = model.weight * 2\nleaf = model.weight\nweight = model.weight\nhidden = 1\nbad = open('x', 'w')"
    )
    check = (
        "hidden = 'mine'\nr = result\nprint(type(r['model']) is Net, isinstance(r['local'], Net), "
        "type(r['config']) is Net.Config)\n"
        "print(r['weight'] is r['model'].weight, float(r['weight'].sum()), r['graph'].requires_grad, "
        "r['leaf'].requires_grad)\n"
        "print(r['local'].own(), hidden, 'helper' in globals(), 'bad' in r)\n"
        "r['model'].double(torch.ones(100)).sum().backward()"
    )
    lines = give_back(tmp_path, cells, cell, ("model", "local", "config", "graph", "leaf", "weight", "bad"), check)
    assert "bad" in lines[1]
    assert lines[2:] == ["True True True", "True 20000.0 False True", "42 mine False False"]


def test_a_model_of_mixed_precision_comes_back_plain(tmp_path: Path) -> None:
    cells = [
        "import torch\nclass Net(torch.nn.Linear):\n def forward(self, x): return super().forward(x)\nmodel = Net(3, 3)"
    ]
    cell = (
        "from accelerate import Accelerator\na = Accelerator(cpu=True, mixed_precision='bf16')\n"
        "model, optimizer = a.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))"
    )
    check = (
        "m, o = result['model'], result['optimizer']\n"
        "print(type(m) is Net, 'forward' in vars(m), m(torch.ones(3)).dtype)\n"
        "print(type(o).__name__, o.param_groups[0]['params'][0] is m.weight)"
    )
    lines = give_back(tmp_path, cells, cell, ("model", "optimizer"), check)
    assert lines == ["True False torch.float32", "SGD True"]


# A real kernel ------------------------------------------------------------------------------------------------------

PACK = """
from pathlib import Path
from jtrain.capture.cell import parse_cell
from jtrain.capture.pack import pack
def send(cell):
    program = parse_cell(cell, "<cell>")
    return pack(get_ipython().user_ns, program.names, Path("payload"), attributes=program.attributes)
"""


def test_a_real_kernels_functions_travel_and_its_own_names_stay(tmp_path: Path) -> None:
    with start_kernel(tmp_path) as kernel:
        kernel.run(PACK)
        kernel.run("factor = 3")
        kernel.run("def shown(x):\n    display(x)\n    return 1 / (x - factor)")
        kernel.run("21")
        for name in ("In", "Out", "_"):
            refused = kernel.run(f"send('print({name})')")
            assert (refused.error, f"{name} (line 2)" in refused.message) == ("CaptureError", True)
            assert not (tmp_path / "payload").exists()
        assert kernel.run("assert send('open(1).close(); exit(); quit()').total_bytes == 0").status == "ok"
        assert kernel.run("send('shown(3)')").status == "ok"
    cell = "import traceback\ntry:\n shown(3)\nexcept ZeroDivisionError:\n print(traceback.format_exc())"
    lines = run_worker(tmp_path, cell)
    assert lines[0] == "3"
    assert any("return 1 / (x - factor)" in line for line in lines)
