"""Is there a browser that can show widgets? It is asked: a tiny widget is opened, and its script answers.

Programs that run notebooks (nbconvert, papermill, nbval) never get a widget into their outputs. They aren't even asked,
since they would keep the question in the notebook's metadata: jupyter_client, through which they work, signs a request
with a user's name, which JupyterLab leaves empty, and doesn't name the cell, as JupyterLab does.
VS Code and Colab load what answers only once a widget is shown; they are known by what they leave in the kernel.
`JTRAIN_VIEW=widget` or `text` in the environment decides for everybody.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable
from typing import Any

_SCRIPT = "export default { initialize({ model }) { model.send({ alive: true }); } };"


_has_answered = False


def is_known() -> bool | None:
    """Whether there is a browser; None when it isn't known without asking, and has not been asked with success."""
    known = _known()
    return True if known is None and _has_answered else known


class Probe:
    """One question to the front end. It is answered only while the kernel's event loop runs.

    `on_answer` is called for the answer, maybe on another thread.
    """

    def __init__(self, on_answer: Callable[[], None] = lambda: None) -> None:
        self._on_answer = on_answer
        known = _known()
        self.is_answered = bool(known)
        self._comm: Any = _open_comm() if known is None else None
        if self._comm is not None:
            self._comm.on_msg(self._hear)

    def _hear(self, message: dict[str, Any]) -> None:
        content = message.get("content", {}).get("data", {}).get("content")
        if isinstance(content, dict) and content.get("alive") and not self.is_answered:
            global _has_answered
            self.is_answered = _has_answered = True
            self._on_answer()

    def close(self) -> None:
        """Take the question back."""
        if self._comm is not None:
            self._comm.close()
            self._comm = None


def _known() -> bool | None:
    """Whether there is a browser, as far as it is known without asking."""
    wish = os.environ.get("JTRAIN_VIEW", "")
    if wish in ("widget", "text"):
        return wish == "widget"
    marks = "__vsc_ipynb_file__" in vars(sys.modules["__main__"]) or "google.colab" in sys.modules
    if marks:
        return True
    return False if _is_asked_by_program() else None


def _is_asked_by_program() -> bool:
    """Whether what runs now was sent by a program that runs notebooks (or a console), not by a page."""
    from IPython.core.getipython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    request = kernel.get_parent() if kernel is not None else {}
    header, metadata = request.get("header") or {}, request.get("metadata") or {}
    return bool(header.get("username")) and "cellId" not in metadata


def _open_comm() -> Any:
    """A comm of the widget protocol (jupyter-widgets/schema, version 2), or None where there are no comms."""
    import comm

    minor = ".".join(importlib.metadata.version("anywidget").split(".")[:2])
    state = {"_esm": _SCRIPT, "_anywidget_id": "jtrain.probe", "layout": None}
    for kind, name in (("model", "AnyModel"), ("view", "AnyView")):
        state |= {f"_{kind}_module": "anywidget", f"_{kind}_name": name, f"_{kind}_module_version": f"~{minor}.*"}
    return comm.create_comm(
        target_name="jupyter.widget", data={"state": state, "buffer_paths": []}, metadata={"version": "2.1.0"}
    )
