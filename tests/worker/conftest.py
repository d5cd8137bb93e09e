"""Runs of these tests start through a zygote, as those of a notebook do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jtrain.engine import zygote


@pytest.fixture(scope="package", autouse=True)
def shared_zygote() -> Iterator[None]:
    zygote.start_for_kernel()
    yield
    zygote.close_for_kernel()
