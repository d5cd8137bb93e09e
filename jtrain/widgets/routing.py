"""Where ipykernel sends what a widget's views say.

From 7.4 on that is the subshell whose request was the last to be served when the kernel wrote to that widget, whatever
the front end asked for. JupyterLab ends its subshells with its pages, and the widget would be deaf for every later one.
What is written as no part of any request changes nothing.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable
from typing import Any


def detached(act: Callable[..., None], *args: Any) -> None:
    """Do something that writes to widgets as no part of the request that is being served."""
    contextvars.Context().run(_without_request, act, *args)


def _without_request(act: Callable[..., None], *args: Any) -> None:
    request = _request_variable()
    if request is not None:
        request.set({})
    act(*args)


def _request_variable() -> contextvars.ContextVar[dict[str, Any]] | None:
    """Where a kernel that routes in this way keeps the request; None elsewhere. (No public name says "no request".)"""
    comms, kernels = sys.modules.get("ipykernel.comm.comm"), sys.modules.get("ipykernel.kernelbase")
    if comms is None or kernels is None or not hasattr(comms.BaseComm, "_reply_subshell_for"):
        return None
    kernel = kernels.Kernel.instance() if kernels.Kernel.initialized() else None
    variable = getattr(kernel, "_shell_parent", None)
    return variable if isinstance(variable, contextvars.ContextVar) else None
