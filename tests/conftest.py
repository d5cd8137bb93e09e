"""Fixtures for all tests: a store and a machine folder of their own, in a folder with an awkward name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from jtrain.engine import zygote


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`JTRAIN_HOME` and the machine's lease folder of this test alone; one thread a process."""
    home = tmp_path_factory.mktemp("störe 🚂")
    monkeypatch.setenv("JTRAIN_HOME", str(home))
    monkeypatch.setenv("JTRAIN_MACHINE_DIR", str(tmp_path_factory.mktemp("machine")))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return home


@pytest.fixture(autouse=True)
def no_process_left(own_store: Path) -> Iterator[None]:
    """Fails a test that leaves a process of its store behind."""
    yield
    mark = f"JTRAIN_HOME={own_store}".encode()
    helper = zygote.helper_pid()
    left = [process for process in psutil.process_iter() if process.pid not in (os.getpid(), helper)]
    left = [process for process in left if _has_mark(process, mark)]
    _, alive = psutil.wait_procs(left, timeout=15)
    for process in alive:
        process.kill()
    assert not alive, f"processes left behind: {alive}"


def _has_mark(process: psutil.Process, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{process.pid}/environ").read_bytes()
    except OSError:
        return False
