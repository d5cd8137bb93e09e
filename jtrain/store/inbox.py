"""A run's inbox: wishes of viewers, one file each, taken by the supervisor in the order they came."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jtrain.store.files import read_json, write_atomic

_MAX_BYTES = 64 * 1024
COMMANDS = frozenset({"pause", "stop", "checkpoint", "priority", "devices"})
"""What a supervisor can be asked to do."""


@dataclass(frozen=True)
class Command:
    """A wish: its name, who asked (free text for the journal), and what else it says."""

    name: str
    by: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def put(inbox: Path, command: Command) -> None:
    """Leave `command` in the inbox. Raises ValueError for an unknown one, OSError when the folder can't be written."""
    if command.name not in COMMANDS:
        raise ValueError(f"{command.name!r} is no command; commands are {', '.join(sorted(COMMANDS))}")
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(3).hex()}-{command.name}.json"
    content = json.dumps({"command": command.name, "by": command.by, **command.data})
    write_atomic(inbox / name, content, sync=False)


def take(inbox: Path) -> list[Command]:
    """Remove and return all commands, oldest first. What isn't a command is removed as well and ignored."""
    try:
        names = sorted(name for name in os.listdir(inbox) if not name.startswith("."))
    except FileNotFoundError:
        return []
    commands = []
    for name in names:
        path = inbox / name
        command = _read(path)
        path.unlink(missing_ok=True)
        if command is not None:
            commands.append(command)
    return commands


def _read(path: Path) -> Command | None:
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        record = read_json(path)
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("command") not in COMMANDS:
        return None
    rest = {key: value for key, value in record.items() if key not in ("command", "by")}
    return Command(record["command"], str(record.get("by", "")), rest)
