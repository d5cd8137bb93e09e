"""The browser's types are those of the server's messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_wire_ts_is_what_the_messages_say() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "extension" / "wire.py")], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == (ROOT / "extension" / "src" / "wire.ts").read_text(), "run `python extension/wire.py --write`"
