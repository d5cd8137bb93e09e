"""What is done with a run's checkpoints from outside of it: listed, pinned, written out for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jtrain.domain.checkpoints import MANIFEST, SHARED, Manifest
from jtrain.errors import CheckpointError, nearest
from jtrain.run import Run
from jtrain.store.checkpoints import CheckpointInfo, pin_checkpoint
from jtrain.store.digests import digest_of


def checkpoints(run: Run | str) -> list[CheckpointInfo]:
    """The checkpoints of a run (or of the run with this id), oldest first. Raises RunNotFoundError."""
    return (Run(run) if isinstance(run, str) else run).checkpoints()


def find_checkpoint(run: Run, name: str = "") -> CheckpointInfo:
    """The checkpoint `name`, else the newest. Raises CheckpointError naming the nearest one."""
    found = run.checkpoints()
    for info in reversed(found):
        if name in ("", info.name):
            return info
    guess = nearest(name, [info.name for info in found]) if found else None
    hint = f"; did you mean {guess}?" if guess else f"; it has {', '.join(info.name for info in found) or 'none'}"
    raise CheckpointError(f"run {run.id} has no checkpoint {name}".rstrip() + hint)


def pin(run: Run, name: str, *, is_pinned: bool) -> None:
    """As `Run.pin`."""
    info = find_checkpoint(run, name)
    try:
        pin_checkpoint(run.paths, info.name, is_pinned=is_pinned)
    except OSError as error:
        raise CheckpointError(f"{info.name} can't be pinned: {error.strerror} ({run.paths.checkpoints})") from error


def export(run: Run, path: Path, name: str) -> list[Path]:
    """As `Run.export`."""
    info = find_checkpoint(run, name)
    models = _read_models(info)
    if not models:
        raise CheckpointError(f"{info.name} holds no model: the cell had prepared none when it was taken")
    files = [path] if len(models) == 1 else [_numbered(path, number) for number in range(len(models))]
    for file, weights in zip(files, models, strict=True):
        _write(file, weights)
    return files


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def _read_models(info: CheckpointInfo) -> list[dict[str, Any]]:
    """The state of each model. Raises CheckpointError when the file isn't what the manifest says."""
    import torch

    file = info.folder / SHARED
    try:
        manifest = Manifest.model_validate_json((info.folder / MANIFEST).read_bytes())
        is_good = digest_of(file) == manifest.files[SHARED].digest
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{info.name} can't be read ({type(error).__name__}: {error})") from error
    if not is_good:
        raise CheckpointError(f"{info.name}: {SHARED} has been changed (its checksum differs); export another one")
    # This user's own file, whose checksum was right; an optimizer's settings may hold numpy numbers.
    shared: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=False, mmap=True)
    return list(shared["models"])


def _write(path: Path, weights: dict[str, Any]) -> None:
    """Write tensors, each with memory of its own: the format has no tied weights."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {name: value.detach().clone() for name, value in weights.items() if isinstance(value, torch.Tensor)}
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    aside = path.with_name(f".{path.name}.partial")
    try:
        save_file(tensors, aside, metadata={"format": "pt"})
        aside.replace(path)
    except (OSError, SafetensorError) as error:
        aside.unlink(missing_ok=True)
        raise CheckpointError(f"{path} can't be written: {error}") from error
