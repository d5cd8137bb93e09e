"""References from a result to what the notebook itself defines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jtrain.errors import CaptureError

_namespace: ContextVar[dict[str, Any] | None] = ContextVar("namespace", default=None)


@contextmanager
def notebook_namespace(namespace: dict[str, Any]) -> Iterator[None]:
    """Inside, references are looked up in `namespace`."""
    token = _namespace.set(namespace)
    try:
        yield
    finally:
        _namespace.reset(token)


def from_notebook(qualname: str) -> Any:
    """The notebook's own class or function of that name. Raises CaptureError when it is gone."""
    first, *rest = qualname.split(".")
    value: Any = (_namespace.get() or {}).get(first)
    for name in rest:
        value = getattr(value, name, None)
    if value is None:
        raise CaptureError(
            f"a result needs {qualname}, which the notebook no longer has; run the cell that defines it again"
        )
    return value
