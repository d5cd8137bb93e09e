"""The view in a notebook: a widget when a browser is there, else plain text; and what stays in the saved notebook.

What stays is the same in both cases: rank 0's output within bounds, the summary, and a plot. Nothing but a front end
that has answered ever gets `clear_output`, which programs that run notebooks don't all understand.
"""

from __future__ import annotations

import base64
import math
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from jtrain.domain.wording import clip, format_duration, format_number
from jtrain.run import Run
from jtrain.view.frontend import Probe
from jtrain.view.output import Bounds, OutputFeed
from jtrain.view.plain import Notices
from jtrain.view.snapshot import DeviceRow, Snapshot
from jtrain.view.text import progress_parts, share, summary_html, summary_text, title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jtrain.widgets.live import RunWidget

_PATIENCE_S = 1.5
"""How long text is held back while a browser may still answer."""
SHOWN_LINES = 10
SHOWN_COLUMNS = 240


class NotebookView:
    """Shows a run below its cell. `may_ask` False: no event loop runs, so no browser could answer."""

    def __init__(self, run: Run, *, may_ask: bool, seen: int | None = None) -> None:
        self._run = run
        self._feed = OutputFeed(run, seen=seen)
        self._bounds = Bounds(run.id)
        self._notices = Notices()
        self._kept: list[str] = []
        """Everything that may stay in the notebook."""
        self._num_printed = 0
        self._recent: deque[str] = deque(maxlen=SHOWN_LINES)
        self._note = ""
        self._widget: RunWidget | None = None
        self._may_ask = may_ask
        self._probe: Probe | None = None
        self._patience_ends = time.monotonic() + (_PATIENCE_S if may_ask else 0.0)

    def update(self, snapshot: Snapshot) -> None:
        lines = self._feed.read()
        self._take(lines, self._notices.new(snapshot, lines))
        if self._may_ask and self._probe is None:
            self._probe = Probe()
        if self._widget is None and self._probe is not None and self._probe.is_answered:
            self._open_widget(snapshot)
        if self._widget is not None:
            self._widget.shown = self._to_widget(snapshot)
        elif time.monotonic() >= self._patience_ends:
            self._print()

    def tell(self, sentence: str) -> None:
        self._note = sentence
        self._kept.append(sentence)
        if self._widget is None:
            self._print()

    def finish(self, snapshot: Snapshot) -> None:
        lines = self._feed.finish()
        self._take(lines, self._notices.new(snapshot, lines))
        self._kept += self._bounds.finish()
        self._close()
        self._print()
        publish({"text/plain": summary_text(snapshot), "text/html": summary_html(snapshot)})
        show_plot(self._run, snapshot)

    def _take(self, lines: list[str], notices: list[str]) -> None:
        self._recent.extend(clip(line, SHOWN_COLUMNS) for line in lines)
        self._kept += self._bounds.feed(lines)
        self._kept += notices
        if notices:
            self._note = notices[-1]

    def _print(self) -> None:
        """Print what may stay and hasn't been printed."""
        fresh = self._kept[self._num_printed :]
        self._num_printed = len(self._kept)
        if fresh:
            sys.stdout.write("".join(f"{line}\n" for line in fresh))
            sys.stdout.flush()

    def _open_widget(self, snapshot: Snapshot) -> None:
        from jtrain.widgets.live import RunWidget

        self._widget = RunWidget(self._obey, self._to_widget(snapshot))
        bundle = self._widget._repr_mimebundle_()
        data = dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
        # Seen when the notebook is opened again after its kernel has died.
        data["text/plain"] = f"The live view of run {self._run.id} has ended; `%jtrain attach {self._run.id}` shows it."
        publish(data)

    def _obey(self, command: str) -> None:
        """Called for the buttons, maybe on another thread; both wishes are no more than a file in the run's inbox."""
        (self._run.pause if command == "pause" else self._run.stop)()

    def _close(self) -> None:
        if self._widget is not None:
            from IPython.display import clear_output

            clear_output(wait=True)
            self._widget.close()
            self._widget = None
            self._num_printed = 0
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _to_widget(self, snapshot: Snapshot) -> dict[str, Any]:
        partial = [clip(self._feed.partial.splitlines()[-1], SHOWN_COLUMNS)] if self._feed.partial else []
        return to_widget(snapshot, [*self._recent, *partial], self._note)


def to_widget(snapshot: Snapshot, lines: list[str], note: str = "") -> dict[str, Any]:
    """A snapshot as `live.js` draws it: texts ready to show, numbers only for bars and the curve."""
    is_waiting = snapshot.state in ("queued", "pausing", "failed", "interrupted")
    eta_s = snapshot.progress.eta_s
    return {
        "id": snapshot.run_id,
        "title": title(snapshot),
        "state": snapshot.state,
        "share": snapshot.progress.fraction if snapshot.progress.step or eta_s else None,
        "elapsed": format_duration(snapshot.elapsed_s, is_rough=True) if snapshot.elapsed_s else "",
        "facts": progress_parts(snapshot),
        "note": note or (snapshot.reason if is_waiting else ""),
        "metrics": [[clip(name, 30), format_number(value)] for name, value in snapshot.metrics.items()],
        "curve_name": snapshot.curve_name,
        "curve": [value if math.isfinite(value) else None for value in snapshot.curve],
        "devices": [_device(row) for row in snapshot.devices],
        "lines": lines,
        "can_pause": snapshot.state in ("queued", "starting", "running"),
        "can_stop": snapshot.is_alive,
    }


def _device(row: DeviceRow) -> dict[str, Any]:
    return {
        "label": row.label,
        "load": None if row.load.value is None else min(1.0, row.load.value / 100),
        "load_text": str(row.load),
        "memory": share(row.memory_used, row.memory_total),
        "memory_text": f"{row.memory_used} of {row.memory_total}",
    }


def show_plot(run: Run, snapshot: Snapshot) -> None:
    """Leave a picture of the metrics in the notebook, when there are curves."""
    if len(snapshot.curve) < 2:
        return
    from jtrain.plots import plot_run

    publish_figure(plot_run(run), clip(f"plot of {', '.join(snapshot.metrics)}", 200))


def publish_figure(figure: Figure, text: str = "plot") -> None:
    """Show a figure as a picture; `text` stands for it where there are no pictures."""
    from jtrain.plots import to_png

    publish({"image/png": base64.b64encode(to_png(figure)).decode("ascii"), "text/plain": text})


def publish(data: dict[str, Any]) -> None:
    """Show a bundle of representations by MIME type."""
    from IPython.display import display

    display(data, raw=True)
