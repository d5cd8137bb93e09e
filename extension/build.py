"""The step of the package's build that makes the sidebar's bundle; called by hatch (see pyproject.toml).

A bundle that is newer than everything it is made from is left alone, so a wheel made from a source distribution needs
neither Node nor npm. JTRAIN_SKIP_EXTENSION=1 installs jtrain without the sidebar.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "jtrain" / "labextension"
SOURCES = ("src", "style", "schema", "package.json", "rspack.config.js", "yarn.lock")


def is_current() -> bool:
    """Whether the bundle was made from what is there now, and for users rather than for development."""
    made = TARGET / "static" / "style.js"
    if not made.exists() or (TARGET / "build_log.json").exists():
        return False
    files = (file for name in SOURCES for file in [HERE / name, *(HERE / name).rglob("*")])
    return max(file.stat().st_mtime for file in files) <= made.stat().st_mtime


def has_packages() -> bool:
    """Whether what the bundler needs is installed, as the lock file says; a developer's own packages then stay."""
    state = HERE / "node_modules" / ".yarn-state.yml"
    return state.exists() and state.stat().st_mtime >= (HERE / "yarn.lock").stat().st_mtime


def main(target_name: str = "", version: str = "") -> None:
    """Make the bundle if need be. Raises SystemExit, saying what to do, when that can't be done."""
    if os.environ.get("JTRAIN_SKIP_EXTENSION") or is_current():
        return
    try:
        if not has_packages():
            subprocess.run(["jlpm", "workspaces", "focus", "--production"], cwd=HERE, check=True)
        subprocess.run(["jlpm", "run", "build:prod"], cwd=HERE, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"The sidebar of jtrain could not be built ({error}). It needs the npm registry once. "
            "JTRAIN_SKIP_EXTENSION=1 installs jtrain without the sidebar; everything else works."
        ) from error


if __name__ == "__main__":
    main()
