"""The house rules: imports point down, heavy modules stay out of the doors, modules stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "jtrain"
FLOORS = {
    "jtrain": 9,
    "jtrain.__main__": 9,
    "jtrain.magic": 6,
    "jtrain.cli": 6,
    "jtrain.program": 6,
    "jtrain.headless": 6,
    "jtrain.scripts": 5,
    "jtrain.completion": 6,
    "jtrain.expansion": 6,
    "jtrain.view": 6,
    "jtrain.widgets": 6,
    "jtrain.server": 6,
    "jtrain.verbs": 5,
    "jtrain.plots": 5,
    "jtrain.keeping": 5,
    "jtrain.run": 5,
    "jtrain.launching": 5,
    "jtrain.resuming": 5,
    "jtrain.fitting": 6,
    "jtrain.engine": 4,
    "jtrain.worker": 4,
    "jtrain.checkpointing": 3,
    "jtrain.config": 2,
    "jtrain.store": 2,
    "jtrain.capture": 2,
    "jtrain.devices": 2,
    "jtrain.domain": 1,
    "jtrain.options": 0,
    "jtrain.traceback_view": 0,
    "jtrain.interrupts": 0,
    "jtrain.optionline": 0,
    "jtrain.optiontable": 0,
    "jtrain.errors": 0,
}
ALLOWED_UPWARDS = {
    ("jtrain.engine.attempt", "jtrain.worker.main"),
    ("jtrain.engine.zygote_process", "jtrain.worker.preload"),
    ("jtrain.engine.zygote_process", "jtrain.worker.preload_idle"),
}
"""Where a supervisor's code meets a rank's: the function that the forked process runs, and the modules it needs."""


def _modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module}
    return {name for name in names if name.split(".")[0] == "jtrain"}


def _floor(module: str) -> int:
    while module not in FLOORS:
        module = module.rpartition(".")[0]
        assert module, "a new room needs a floor in this table"
    return FLOORS[module]


@pytest.mark.parametrize("module", [name for name in _modules() if name != "jtrain"])
def test_imports_point_down(module: str) -> None:
    upwards = {
        target
        for target in _imports(_modules()[module])
        if target != "jtrain" and _floor(target) > _floor(module) and (module, target) not in ALLOWED_UPWARDS
    }
    assert not upwards


def test_engine_and_worker_meet_only_in_files() -> None:
    for module, path in _modules().items():
        rooms = {"jtrain.engine": "jtrain.worker", "jtrain.worker": "jtrain.engine"}
        for room, other in rooms.items():
            if module.startswith(room):
                crossing = {name for name in _imports(path) if name.startswith(other)}
                assert {(module, name) for name in crossing} <= ALLOWED_UPWARDS


@pytest.mark.parametrize(
    "program",
    [
        "import jtrain, jtrain.magic, jtrain.run",
        "from jtrain.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "import jtrain.launching, jtrain.store.runs, jtrain.devices.sampler",
    ],
)
def test_the_doors_import_nothing_heavy(program: str) -> None:
    heavy = "{'torch', 'accelerate', 'matplotlib', 'pandas'} & set(sys.modules)"
    check = f"{program}\nimport sys\nsys.exit(str({heavy}) if {heavy} else 0)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_server_imports_nothing_heavy_and_cannot_unpickle() -> None:
    banned = "{'torch', 'accelerate', 'matplotlib', 'pandas', 'jtrain.capture', 'jtrain.capture.unpack'}"
    program = (
        f"import sys, jtrain.server.app\nfound = {banned} & set(sys.modules)\nsys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
