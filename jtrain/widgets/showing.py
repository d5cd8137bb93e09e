"""How a widget is shown: as a widget where a browser is there, else as text.

Programs that run notebooks (nbconvert, papermill, nbval) get text, and not even a comm is opened there. A front end
that isn't known yet is asked; the text gives way to the widget as soon as it answers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jtrain.view import frontend
from jtrain.widgets.routing import detached

_FOLDER = Path(__file__).parent
_VIEW = "application/vnd.jupyter.widget-view+json"


@functools.cache
def source_of(*names: str) -> str:
    """The text of these files of this folder, one after the other: a widget's script is a single module."""
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


class Showing:
    """Mixed into a widget class, before it: opens no comm until a front end needs one."""

    _is_needed = False
    _is_shut = False

    def as_text(self) -> str:
        """What is shown where there are no widgets."""
        raise NotImplementedError

    def open(self) -> None:
        """Called when the widget is made, and again when a front end needs it."""
        if self._is_needed and not self._is_shut:
            super().open()  # type: ignore[misc]

    @property
    def model_id(self) -> str:
        """The name under which a front end knows it; whoever asks is about to show it."""
        self._is_needed = True
        self.open()
        return super().model_id  # type: ignore[misc]

    def close(self) -> None:
        """Take it away from all front ends, for ever."""
        self._is_shut = True
        super().close()  # type: ignore[misc]

    def __repr__(self) -> str:
        return self.as_text()

    def _ipython_display_(self) -> None:
        if not _has_kernel() or self._is_shut:
            print(self.as_text())
            return
        known = frontend.is_known()
        if known:
            self._publish_widget()
        elif known is None:
            self._ask()
        else:
            _publish({"text/plain": self.as_text()})

    def _publish_widget(self) -> None:
        data, metadata = self._bundle()
        self._shown_at(_publish(data, metadata))

    def _ask(self) -> None:
        handle = _publish({"text/plain": self.as_text()})
        probe: frontend.Probe | None = None

        def answered() -> None:
            if not self._is_shut:
                data, metadata = self._bundle()
                handle.update(data, raw=True, metadata=metadata)
                self._shown_at(handle)
            # Only now: with its last comm JupyterLab ends the subshell that the next one would still use.
            if probe is not None:
                probe.close()

        probe = frontend.Probe(lambda: detached(answered))

    def _listen(self, hear: Callable[[dict[str, Any]], None]) -> None:
        """Call `hear` for what views send, maybe on another thread."""

        def heard(widget: object, content: Any, buffers: object) -> None:
            if isinstance(content, dict):
                detached(hear, content)

        self.on_msg(heard)  # type: ignore[attr-defined]

    def _shown_at(self, handle: Any) -> None:
        """The widget stands where `handle` can change it."""

    def _bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        name = self.model_id  # opens the comm: ipywidgets' own bundle doesn't
        bundle = self._repr_mimebundle_()  # type: ignore[attr-defined]
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        view = {**data[_VIEW], "model_id": name}
        return {**data, _VIEW: view, "text/plain": self.as_text()}, metadata or {}


def _publish(data: dict[str, Any], metadata: dict[str, Any] | None = None) -> Any:
    from IPython.display import display

    return display(data, raw=True, metadata=metadata or {}, display_id=True)


def _has_kernel() -> bool:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")
