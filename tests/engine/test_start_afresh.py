"""Runs started without a helper process, as from a script or the command line."""

from __future__ import annotations

import pytest

from jtrain.domain.states import State
from tests.cells import start


def test_a_run_starts_where_nobody_limits_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    # OpenBLAS, which numpy brings, starts a thread per CPU when it is imported, and the supervisor must fork ranks.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    run = start("import os\nlimit = os.environ.get('OPENBLAS_NUM_THREADS')", nproc=1, outputs=("limit",))
    assert run.wait(timeout=60) is State.FINISHED, run.reason
    assert run.outputs() == {"limit": None}
