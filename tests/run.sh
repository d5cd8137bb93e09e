#!/usr/bin/env bash
# All tests, in the order in which failures tell most. Used by `make test`; needs the environment that make sets up.
set -euo pipefail
cd "$(dirname "$0")/.."
BIN="${VENV:-.venv}/bin"
export OMP_NUM_THREADS=1

echo "== tests"
"$BIN/python" -m pytest tests --ignore tests/ui -q

echo "== sidebar, without a browser"
(cd extension && PATH="$PWD/../$BIN:$PATH" "../$BIN/jlpm" test)

echo "== notebooks"
# In a store of their own: what the user has chosen and run before is not to be seen in them, nor they among it.
STORE="$(mktemp -d)"
trap 'rm -rf "$STORE"' EXIT
JTRAIN_HOME="$STORE" "$BIN/python" -m pytest --nbval --nbval-current-env --nbval-sanitize-with tests/nbval-sanitize.cfg notebooks -q

echo "== browser"
if tests/find_chromium.sh >/dev/null; then
    JTRAIN_CHROMIUM="$(tests/find_chromium.sh)" "$BIN/python" -m pytest tests/ui -q
elif [ -n "${CI:-}" ]; then
    echo "No Chromium could be had, and CI must run the browser tests." >&2
    exit 1
else
    echo "The browser tests did NOT run: there is no Chromium here and none could be installed."
    echo "Install one (Debian: apt-get install chromium) and run make test again."
fi
