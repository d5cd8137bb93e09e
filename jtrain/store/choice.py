"""The devices chosen for the next run: one small file in the store that the sidebar and every GPUPicker share."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from jtrain.errors import StoreError
from jtrain.store.files import read_json, write_atomic

MOST = 64
"""How many devices can be chosen at once, MIG slices included."""

_NAME = "choice.json"
_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9/:._-]{0,127}")
_MOST_BYTES = 64 * 1024

Stamp = tuple[int, int, int]
"""What changes when the file does."""


def read_choice(root: Path) -> list[str]:
    """UUIDs of the chosen devices in the store `root`, in the order chosen; empty when nothing (sensible) is there.

    Raises StoreError for a file that may not be read.
    """
    path = root / _NAME
    try:
        if path.stat().st_size > _MOST_BYTES:
            return []
        record = read_json(path)
    except (FileNotFoundError, ValueError, RecursionError):
        return []
    except OSError as error:
        raise StoreError(f"the choice of devices in {path} can't be read: {error.strerror or error}") from error
    uuids = record.get("uuids") if isinstance(record, dict) else None
    if not isinstance(uuids, list):
        return []
    return list(dict.fromkeys(uuid for uuid in uuids if _is_uuid(uuid)))[:MOST]


def write_choice(root: Path, uuids: Sequence[str]) -> None:
    """Choose `uuids` (none: choose nothing). Readers see the old or the new choice, never a part.

    Raises ValueError for what can't be the UUID of a device or for more than MOST of them, StoreError when the file
    can't be written.
    """
    chosen = check_uuids(uuids)
    path = root / _NAME
    try:
        root.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"uuids": chosen}) + "\n", sync=False)
    except OSError as error:
        raise StoreError(f"the choice of devices can't be written to {path}: {error.strerror or error}") from error


def check_uuids(uuids: Sequence[str]) -> list[str]:
    """`uuids` without repetitions; raises ValueError when one can't be a device's, or for more than MOST."""
    if isinstance(uuids, str):
        raise ValueError("the choice is a list of UUIDs of devices, not a single text")
    for uuid in uuids:
        if not _is_uuid(uuid):
            raise ValueError(f"{str(uuid)[:60]!r} can't be the UUID of a device")
    chosen = list(dict.fromkeys(uuids))
    if len(chosen) > MOST:
        raise ValueError(f"{len(chosen)} devices were chosen; {MOST} is the most")
    return chosen


def choice_stamp(root: Path) -> Stamp | None:
    """Something that differs after every change of the choice, cheap to read; None when nothing was ever chosen."""
    try:
        found = os.stat(root / _NAME)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _is_uuid(value: object) -> bool:
    return isinstance(value, str) and _UUID.fullmatch(value) is not None
