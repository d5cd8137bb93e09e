"""jtrain: one notebook cell becomes a real training run.

The public names are loaded when they are first used, so that `import jtrain`, `%load_ext jtrain` and `jtrain --help`
stay quick and import no torch.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "CaptureError": "jtrain.errors",
    "CheckpointError": "jtrain.errors",
    "ConfigError": "jtrain.errors",
    "DeviceError": "jtrain.errors",
    "GPUPicker": "jtrain.widgets.picker",
    "JtrainError": "jtrain.errors",
    "LaunchError": "jtrain.errors",
    "Launcher": "jtrain.widgets.launcher",
    "Monitor": "jtrain.widgets.monitor",
    "OptionError": "jtrain.errors",
    "Run": "jtrain.run",
    "RunInterrupted": "jtrain.errors",
    "RunNotFoundError": "jtrain.errors",
    "StoreError": "jtrain.errors",
    "WorkerError": "jtrain.errors",
    "checkpoints": "jtrain.keeping",
    "fit": "jtrain.fitting",
    "last_run": "jtrain.run",
    "launch": "jtrain.launching",
    "launch_script": "jtrain.launching",
    "runs": "jtrain.run",
}

__all__ = [
    "CaptureError",
    "CheckpointError",
    "ConfigError",
    "DeviceError",
    "GPUPicker",
    "JtrainError",
    "LaunchError",
    "Launcher",
    "Monitor",
    "OptionError",
    "Run",
    "RunInterrupted",
    "RunNotFoundError",
    "StoreError",
    "WorkerError",
    "checkpoints",
    "fit",
    "last_run",
    "launch",
    "launch_script",
    "runs",
]

if TYPE_CHECKING:
    from jtrain.errors import (
        CaptureError,
        CheckpointError,
        ConfigError,
        DeviceError,
        JtrainError,
        LaunchError,
        OptionError,
        RunInterrupted,
        RunNotFoundError,
        StoreError,
        WorkerError,
    )
    from jtrain.fitting import fit
    from jtrain.keeping import checkpoints
    from jtrain.launching import launch, launch_script
    from jtrain.run import Run, last_run, runs
    from jtrain.widgets.launcher import Launcher
    from jtrain.widgets.monitor import Monitor
    from jtrain.widgets.picker import GPUPicker


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'jtrain' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext jtrain`: adds `%%jtrain` and `%jtrain`. Raises LaunchError on Windows, which has no fork."""
    if sys.platform == "win32":
        from jtrain.cli import WINDOWS
        from jtrain.errors import LaunchError

        raise LaunchError(WINDOWS)
    from jtrain.magic import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext jtrain`."""
    from jtrain.magic import unload_ipython_extension as unload

    unload(shell)


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Asked by jupyter_server."""
    from jtrain.server.app import JtrainApp

    return [{"module": "jtrain", "app": JtrainApp}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Asked by `jupyter-builder develop`."""
    return [{"src": "labextension", "dest": "jtrain"}]
