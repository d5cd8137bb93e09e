"""Accelerate's optimizer looks through all of `sys.path` for a package at every step and every `zero_grad`, some
0.1 ms each time. What is installed doesn't change while a rank runs, so here it looks once.
"""

from __future__ import annotations

import functools

import accelerate.optimizer

_NAME = "is_lomo_available"


def look_for_packages_once() -> None:
    """Remember the answer in this process. An Accelerate that doesn't ask any more is left alone."""
    found = getattr(accelerate.optimizer, _NAME, None)
    if found is not None and not hasattr(found, "cache_info"):
        setattr(accelerate.optimizer, _NAME, functools.cache(found))
