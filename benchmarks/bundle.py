"""The size of the extension's scripts, gzipped, as a browser loads them: JupyterLab's shared packages aren't in it.

    python benchmarks/bundle.py

Needs the built extension in jtrain/labextension. Bound: 250 kB. Ends with 1 when missed.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

STATIC = Path(__file__).resolve().parent.parent / "jtrain" / "labextension" / "static"
MAX_BYTES = 250_000


def main() -> int:
    """Print the sizes; 1 when the bound was missed."""
    scripts = sorted(STATIC.glob("*.js"))
    if not scripts:
        raise FileNotFoundError(f"no scripts in {STATIC}: build the extension first")
    total = 0
    for script in scripts:
        content = script.read_bytes()
        packed = len(gzip.compress(content, 9))
        total += packed
        print(f"{script.name:<48}{len(content) / 1000:>9.1f} kB{packed / 1000:>9.1f} kB gzipped")
    is_kept = total <= MAX_BYTES
    print(f"together {total / 1000:.1f} kB gzipped; bound {MAX_BYTES / 1000:.0f} kB: {'kept' if is_kept else 'MISSED'}")
    return int(not is_kept)


if __name__ == "__main__":
    sys.exit(main())
