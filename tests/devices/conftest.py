"""Simulated GPUs and a fake nvidia-smi: no reading in these tests comes from a real GPU."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SetState = Callable[..., None]
SetProgram = Callable[[str], Path]


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetState:
    """Put GPUs into the simulated driver: `simulate({...}, {...}, missing=[...])`; may be called again at any time."""
    path = tmp_path / "simulated-gpus.json"

    def set_state(*gpus: dict[str, Any], **more: Any) -> None:
        path.write_text(json.dumps({"gpus": gpus, **more}))
        monkeypatch.setenv("JTRAIN_SIMULATE_GPUS", str(path))

    return set_state


@pytest.fixture
def fake_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetProgram:
    """Put a shell script in the place of nvidia-smi, on a machine whose NVML can't be loaded."""
    folder = tmp_path / "fake-bin"
    folder.mkdir()
    monkeypatch.delenv("JTRAIN_SIMULATE_GPUS", raising=False)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def set_program(body: str) -> Path:
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    return set_program
