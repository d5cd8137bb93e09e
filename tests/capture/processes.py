"""A process that plays the kernel, and one that plays a worker: what is captured in the first is used in the second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

_PRELUDE = """
import builtins, importlib, json, linecache, sys, types, warnings
from pathlib import Path
folder = Path(sys.argv[1])
main = types.ModuleType("__main__")
main.__dict__["__builtins__"] = builtins
sys.modules["__main__"] = main
def run(text, name):
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec", dont_inherit=True), main.__dict__)
"""
_KERNEL = """
from jtrain.capture.cell import parse_cell
from jtrain.capture.pack import pack
for number, text in enumerate(json.loads(sys.argv[2])):
    run(text, f"/tmp/ipykernel_1/{number}.py")
cell = parse_cell(sys.argv[3], "<cell>")
manifest = pack(main.__dict__, cell.names, folder / "payload", attributes=cell.attributes)
print(json.dumps(list(manifest.names)))
"""
_WORKER = """
import torch
from jtrain.capture.results import pack_result
from jtrain.capture.unpack import unpack
main.run = "the worker's"
captured = unpack(folder / "payload", main.__dict__)
for name, text in captured.sources.items():
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
run(sys.argv[3], "<cell>")
outputs = json.loads(sys.argv[2])
if outputs:
    pack_result({name: main.__dict__[name] for name in outputs}, folder / "result", captured=captured.values)
"""
_BACK = """
from jtrain.capture.unpack import load_result
for number, text in enumerate(json.loads(sys.argv[2])):
    run(text, f"/tmp/ipykernel_1/{number}.py")
main.result = load_result(folder / "result", main.__dict__)
import shutil; shutil.rmtree(folder / "result")
run(sys.argv[3], "<cell>")
"""


def capture(folder: Path, cells: list[str], cell: str) -> list[str]:
    """Run the notebook's `cells` and capture what `cell` uses; the names that were captured."""
    return json.loads(_run(_KERNEL, folder, json.dumps([textwrap.dedent(text) for text in cells]), _dedent(cell)))


def work(folder: Path, cell: str, *outputs: str) -> list[str]:
    """The lines that `cell` prints in a worker; `outputs` are packed for the way back."""
    return _run(_WORKER, folder, json.dumps(outputs), _dedent(cell)).splitlines()


def send(folder: Path, cells: list[str], cell: str) -> list[str]:
    """The lines that `cell` prints in a worker, after `cells` were run in the notebook."""
    capture(folder, cells, cell)
    return work(folder, cell)


def take(folder: Path, cells: list[str], check: str) -> list[str]:
    """The lines that `check` prints in a notebook that has run `cells` and then loaded `result`, whose folder is gone."""
    return _run(_BACK, folder, json.dumps([textwrap.dedent(text) for text in cells]), _dedent(check)).splitlines()


def _dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def _run(program: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + program, str(folder), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout
