"""A process that plays the kernel and one that plays a worker: what is captured in the first is used in the second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

_PRELUDE = """
import builtins, contextlib, io, json, linecache, os, sys, traceback, types
from pathlib import Path
folder = Path(sys.argv[1])
cases = json.loads((folder / "cases.json").read_text())
answers = {}
def new_main(**variables):
    main = types.ModuleType("__main__")
    main.__dict__.update({"__builtins__": builtins, **variables})
    sys.modules["__main__"] = main
    return main.__dict__
def run(text, name, main):
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec", dont_inherit=True), main)
@contextlib.contextmanager
def answering(name):
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except Exception as error:
        printed.write("".join(traceback.format_exception(error)))
    answers[name] = printed.getvalue()
"""
_KERNEL = """
from jtrain.capture.cell import parse_cell
from jtrain.capture.pack import pack
for name, case in cases.items():
    with answering(name):
        main = new_main()
        for number, text in enumerate(case["notebook"]):
            run(text, f"/tmp/ipykernel_1/{number}.py", main)
        cell = parse_cell(case["cell"], "<cell>")
        manifest = pack(main, cell.names, folder / name, extra=case["extra"], attributes=cell.attributes)
        print(json.dumps({key: info.size_bytes for key, info in manifest.names.items()}))
print(json.dumps(answers))
"""
_WORKER = """
import torch
from jtrain.capture.results import pack_result
from jtrain.capture.unpack import Captured, unpack
for name, case in cases.items():
    with answering(name):
        main = new_main(run="the worker's")
        captured = unpack(folder / name, main) if (folder / name).exists() else Captured({}, {})
        for file, text in captured.sources.items():
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        run(case["cell"], "<cell>", main)
        if case["outputs"]:
            values = {output: main[output] for output in case["outputs"]}
            pack_result(values, folder / f"{name} result", captured=captured.values)
print(json.dumps(answers))
"""
_BACK = """
import shutil
from jtrain.capture.unpack import load_result
for name, case in cases.items():
    with answering(name):
        main = new_main()
        for number, text in enumerate(case["notebook"] if case["has_notebook"] else []):
            run(text, f"/tmp/ipykernel_1/{number}.py", main)
        main["result"] = load_result(folder / f"{name} result", main)
        shutil.rmtree(folder / f"{name} result")
        run(case["check"], "<check>", main)
print(json.dumps(answers))
"""


@dataclass(frozen=True)
class Case:
    """The notebook's cells, the cell that runs in a worker, what it prints there.

    `outputs` go back into a notebook, as `result`, for `check`, which prints `prints_back`; it has run the same cells,
    unless `has_notebook` is false. `extra`: as of `pack`.
    """

    notebook: str | tuple[str, ...]
    cell: str
    prints: str = ""
    extra: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    check: str = ""
    prints_back: str = ""
    has_notebook: bool = True

    def as_json(self) -> dict[str, object]:
        cells = (self.notebook,) if isinstance(self.notebook, str) else self.notebook
        return {
            "notebook": [_clean(text) for text in cells],
            "cell": _clean(self.cell),
            "check": _clean(self.check),
            "extra": self.extra,
            "outputs": self.outputs,
            "has_notebook": self.has_notebook,
        }


class Processes:
    """Plays cases in `folder`, all in the same processes, each in a main program of its own."""

    def __init__(self, folder: Path, cases: dict[str, Case]) -> None:
        self.folder = folder
        (folder / "cases.json").write_text(json.dumps({name: case.as_json() for name, case in cases.items()}))

    def capture(self) -> dict[str, str]:
        """For each case the bytes of each captured variable, as JSON, or a traceback."""
        return self._run(_KERNEL)

    def work(self) -> dict[str, str]:
        """What each case's cell prints in a worker, or a traceback."""
        return self._run(_WORKER)

    def take_back(self) -> dict[str, str]:
        """What each case's check prints in a notebook, or a traceback."""
        return self._run(_BACK)

    def _run(self, program: str) -> dict[str, str]:
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _PRELUDE + program, str(self.folder)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=110,
            check=False,
            env={**os.environ, "PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


def _clean(text: str) -> str:
    return textwrap.dedent(text).strip() + "\n"
