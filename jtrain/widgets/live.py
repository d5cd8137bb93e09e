"""The live view of a run as a widget; `live.js` draws it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from jtrain.widgets.showing import source_of

COMMANDS = ("pause", "stop")
"""What its buttons ask for."""


class RunWidget(anywidget.AnyWidget):
    """Shows `shown` (see `jtrain.view.notebook.to_widget`) and calls `on_command("pause" | "stop")` for its buttons.

    The call may come on another thread: ipykernel 7.1 to 7.3 serve widgets on a thread of their own.
    """

    _esm = source_of("common.js", "live.js")
    _css = source_of("common.css", "live.css")
    shown = traitlets.Dict().tag(sync=True)

    def __init__(self, on_command: Callable[[str], None], shown: dict[str, Any]) -> None:
        super().__init__(shown=shown)
        self._on_command = on_command
        self.on_msg(self._hear)

    def _hear(self, widget: object, content: Any, buffers: object) -> None:
        command = content.get("command") if isinstance(content, dict) else None
        if command in COMMANDS:
            self._on_command(command)
