"""The checkpoints of a run, as its folder shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jtrain.store.files import read_json, sync_folder
from jtrain.store.paths import RunPaths

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint with a manifest: without one there is no checkpoint. `time` in UTC epoch seconds."""

    name: str
    folder: Path
    step: int
    time: float
    world_size: int
    size_bytes: int
    is_pinned: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The latest value of each metric of rank 0 when it was taken."""


def list_checkpoints(paths: RunPaths) -> list[CheckpointInfo]:
    """The run's checkpoints, oldest first; folders without a readable manifest are left out."""
    found = [info for folder in _folders(paths) if (info := _read(paths, folder)) is not None]
    return sorted(found, key=lambda info: (info.time, info.step, info.name))


def newest_checkpoint(paths: RunPaths) -> CheckpointInfo | None:
    """The newest checkpoint, or None."""
    found = list_checkpoints(paths)
    return found[-1] if found else None


def damaged_checkpoints(paths: RunPaths) -> list[str]:
    """Names of the folders that `list_checkpoints` leaves out, in order."""
    return sorted(folder.name for folder in _folders(paths) if _read(paths, folder) is None)


def pin_checkpoint(paths: RunPaths, name: str, *, is_pinned: bool = True) -> None:
    """Keep the checkpoint `name` whatever newer ones come, or (False) no longer. Raises OSError when it can't be noted.

    The mark lies beside the folder, which is never written to again and which a resumed run may share.
    """
    mark = _mark(paths, name)
    if is_pinned:
        mark.touch()
    else:
        mark.unlink(missing_ok=True)
    sync_folder(paths.checkpoints)


def _mark(paths: RunPaths, name: str) -> Path:
    return paths.checkpoints / f".pinned-{name}"


def _folders(paths: RunPaths) -> list[Path]:
    try:
        return [folder for folder in paths.checkpoints.iterdir() if folder.is_dir() and folder.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(paths: RunPaths, folder: Path) -> CheckpointInfo | None:
    try:
        manifest = read_json(folder / MANIFEST)
        files = manifest["files"]
        return CheckpointInfo(
            name=folder.name,
            folder=folder,
            step=int(manifest["step"]),
            time=float(manifest["time"]),
            world_size=int(manifest["world_size"]),
            size_bytes=sum(int(entry["size_bytes"]) for entry in files.values()),
            is_pinned=_mark(paths, folder.name).exists(),
            metrics={name: float(value) for name, value in manifest.get("metrics", {}).items() if value is not None},
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
