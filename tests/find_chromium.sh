#!/usr/bin/env bash
# Prints the path of a Chromium; installs one when there is none: from Debian's packages as root, else Playwright's own.
set -euo pipefail
BIN="${VENV:-.venv}/bin"
find_one() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" && return 0
    done
    "$BIN/python" - <<'PY'
import pathlib, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    path = pathlib.Path(playwright.chromium.executable_path)
print(path) if path.exists() else sys.exit(1)
PY
}
find_one && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >&2 || true
else
    "$BIN/python" -m playwright install chromium >&2 || true
fi
find_one
