"""Reads checkpoints: verifies their files, and puts the tensors back into the places that they were taken from.

Tensors that were spread over ranks are read slice by slice, as many as this rank needs, whatever the number of ranks
that wrote them (slices.py).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from jtrain.checkpointing import oldformat
from jtrain.checkpointing.partfiles import SLICES
from jtrain.checkpointing.staging import Slot
from jtrain.domain.checkpoints import FORMAT_VERSION, MANIFEST, Manifest, part_files
from jtrain.store.digests import digest_of


def read_manifest(folder: Path) -> Manifest:
    """Raises OSError or ValueError when it is missing or damaged."""
    return Manifest.model_validate_json((folder / MANIFEST).read_bytes())


def find_problem(folder: Path, *, rank: int = 0, size: int = 1) -> str | None:
    """What is wrong with a checkpoint, as far as the files go that `rank` of `size` looks at (each file is looked at by
    one of them); None when each is what the manifest says."""
    try:
        manifest = read_manifest(folder)
    except (OSError, ValueError) as error:
        return f"{folder.name}: its manifest is missing or damaged ({type(error).__name__})"
    if manifest.format > FORMAT_VERSION:
        return f"{folder.name}: it was written by a newer jtrain (format {manifest.format})"
    for file in _files_of(manifest)[rank::size]:
        if (problem := _problem_of(folder / file, manifest)) is not None:
            return f"{folder.name}: {problem}"
    return None


def _files_of(manifest: Manifest) -> list[str]:
    ranks = range(manifest.world_size)
    if manifest.format == 1:
        return oldformat.files_of(ranks)
    return [file for rank in ranks for file in part_files(rank)]


def _problem_of(path: Path, manifest: Manifest) -> str | None:
    entry = manifest.files.get(path.name)
    try:
        if entry is None or not path.exists() or path.stat().st_size != entry.size_bytes:
            return f"{path.name} is missing or has another size"
        if digest_of(path) != entry.digest:
            return f"{path.name} has been changed (its checksum differs)"
    except OSError as error:
        return f"{path.name} can't be read ({error.strerror})"
    return None


def read_models(folder: Path) -> list[dict[str, Any]]:
    """The state of each model, whole."""
    manifest = read_manifest(folder)
    if manifest.format == 1:
        return list(oldformat.read_shared(folder)["models"])
    tensors = Tensors.open(folder, whole_of=[0], slices_of=range(manifest.world_size))
    return list(tensors.fill(read_rest(folder, 0)["shared"]["models"]))


def read_rest(folder: Path, rank: int) -> dict[str, Any]:
    """What rank `rank` had besides tensors, with Slots in their places. It is this user's own file, its checksum was
    right, and it may hold anything: registered objects, numpy numbers in an optimizer's settings."""
    return oldformat.load_pickled(folder / part_files(rank)[1])


@dataclass
class Tensors:
    """The tensors in the files of some ranks."""

    whole: dict[str, Any] = field(default_factory=dict)
    """Open files by the name of a tensor that one of them has as a whole."""
    slices: dict[str, list[tuple[Any, str, tuple[int, ...]]]] = field(default_factory=dict)
    """Of tensors that are spread over files: the file, the name in it, and the offsets in the whole."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, *, whole_of: Sequence[int], slices_of: Iterable[int]) -> Tensors:
        """Map the files of some ranks: `whole_of` those whose whole tensors are wanted. Nothing is read before it is
        filled in."""
        found = cls()
        for rank in slices_of:
            file = safe_open(folder / part_files(rank)[0], framework="pt")
            parts = [(name, part) for name, some in json.loads(file.metadata()[SLICES]).items() for part in some]
            for name, part in parts:
                found.slices.setdefault(name, []).append((file, part["stored"], tuple(part["offsets"])))
                found.shapes[name] = tuple(part["shape"])
            stored = {part["stored"] for _, part in parts}
            if rank in whole_of:
                found.whole.update(dict.fromkeys(set(file.keys()) - stored, file))
        return found

    def fill(self, tree: Any, templates: Mapping[str, torch.Tensor] | None = None) -> Any:
        """`tree` with tensors in place of its Slots, in memory of their own. `templates`: by name, what tensors are to
        be like that are spread over the ranks which read."""
        templates = templates or {}
        values: dict[str, torch.Tensor] = {}
        spread: dict[str, torch.Tensor] = {}
        for slot in _slots(tree):
            name = slot.name
            if name in templates:
                spread[name] = torch.empty_like(templates[name])
            elif name in self.whole:
                values[name] = self.whole[name].get_tensor(name).clone()
            else:
                spread[name] = torch.empty(slot.shape, dtype=self.parts_of(name)[0][0].dtype)
        if spread:
            from jtrain.checkpointing.slices import fill_slices

            fill_slices(spread, self)
        return _put_in(tree, {**values, **spread})

    def parts_of(self, name: str) -> list[tuple[torch.Tensor, tuple[int, ...]]]:
        """Where `name` is stored: mapped tensors, and their offsets in the whole."""
        if name in self.whole:
            tensor = self.whole[name].get_tensor(name)
            return [(tensor, (0,) * tensor.dim())]
        return [(file.get_tensor(stored), offsets) for file, stored, offsets in self.slices[name]]


def _slots(tree: Any) -> Iterator[Slot]:
    if isinstance(tree, Slot):
        yield tree
    elif type(tree) in (dict, OrderedDict):
        for item in tree.values():
            yield from _slots(item)
    elif type(tree) in (list, tuple):
        for item in tree:
            yield from _slots(item)


def _put_in(tree: Any, values: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(tree, Slot):
        return values[tree.name]
    if type(tree) in (dict, OrderedDict):
        for key, item in tree.items():
            tree[key] = _put_in(item, values)
    elif type(tree) in (list, tuple):
        return type(tree)(_put_in(item, values) for item in tree)
    return tree
