"""What is done with a run's checkpoints from outside of it: listed, pinned, written out for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jtrain.errors import CheckpointError, nearest
from jtrain.run import Run
from jtrain.store.checkpoints import CheckpointInfo, pin_checkpoint


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
    """The state of each model. Raises CheckpointError when a file isn't what the manifest says."""
    from jtrain.checkpointing.reading import find_problem, read_models

    if (problem := find_problem(info.folder)) is not None:
        raise CheckpointError(f"{problem}; export another one")
    return read_models(info.folder)


def _write(path: Path, weights: dict[str, Any]) -> None:
    """Write tensors, each with memory of its own: the format has no tied weights."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # torch.compile wraps a module in another one.
    plain = {name.replace("_orig_mod.", ""): value for name, value in weights.items()}
    tensors = {name: value.detach().clone() for name, value in plain.items() if isinstance(value, torch.Tensor)}
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    aside = path.with_name(f".{path.name}.partial")
    try:
        save_file(tensors, aside, metadata={"format": "pt"})
        aside.replace(path)
    except KeyError as error:
        aside.unlink(missing_ok=True)
        raise CheckpointError(f"{path} can't be written: safetensors files have no {error.args[0]}") from error
    except (OSError, SafetensorError) as error:
        aside.unlink(missing_ok=True)
        raise CheckpointError(f"{path} can't be written: {error}") from error
