"""JSON that every browser can read."""

from __future__ import annotations

import json
from typing import Any

from jtrain.server.curves import to_value


def encode(document: Any) -> str:
    """`document` as JSON; numbers that JSON doesn't know become words, what is no data becomes text."""
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:
        return json.dumps(_worded(document), separators=(",", ":"), allow_nan=False, default=str)


def _worded(value: Any) -> Any:
    if isinstance(value, float):
        return to_value(value)
    if isinstance(value, dict):
        return {key: _worded(item) for key, item in value.items()}
    return [_worded(item) for item in value] if isinstance(value, list | tuple) else value
