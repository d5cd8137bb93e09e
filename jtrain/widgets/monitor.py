"""`jtrain.Monitor(run)`: a run's live view outside its cell, drawn by `live.js` as below a `%%jtrain` cell.

It follows the run over pauses and resumes to its end, and then stays as a still summary.
"""

from __future__ import annotations

import base64
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from jtrain.domain.wording import clip
from jtrain.errors import JtrainError
from jtrain.run import Run
from jtrain.verbs.answers import find_run
from jtrain.view.notebook import SHOWN_COLUMNS, SHOWN_LINES, to_widget
from jtrain.view.output import OutputFeed
from jtrain.view.snapshot import Snapshot, SnapshotReader
from jtrain.view.text import summary_html, summary_rows, summary_text
from jtrain.widgets.pulse import Pulse
from jtrain.widgets.showing import Showing, source_of

LIVE_TICK_S = 0.25
STILL_TICK_S = 1.0
"""At rest it only looks whether the run was resumed."""
COMMANDS = ("pause", "resume", "stop")
_TOLD = {
    "pause": "Pausing with a checkpoint at the next batch.",
    "resume": "Going on from the last checkpoint.",
    "stop": "Stopping.",
}


class Monitor(Showing, anywidget.AnyWidget):
    """Shows a run live, with buttons to pause, resume and stop it.

    `run`: a Run, or an id, the beginning of an id, or a name (the newest run when it is left out). Raises
    RunNotFoundError.
    """

    _esm = source_of("common.js", "live.js")
    _css = source_of("common.css", "live.css")
    shown = traitlets.Dict().tag(sync=True)
    wants_views = traitlets.Bool(True).tag(sync=True)

    _pulse: Pulse | None = None  # ipywidgets closes also what was never made whole

    def __init__(self, run: Run | str = "") -> None:
        self.run = run if isinstance(run, Run) else find_run(run)
        self._reader = SnapshotReader(self.run)
        self._feed = OutputFeed(self.run, seen=max(self.run.paths.attempt_numbers(), default=1) - 1)
        self._recent: deque[str] = deque(maxlen=SHOWN_LINES)
        self._note = ""
        self._noted_state = ""
        self._seen_events = -1
        self._was_still = False
        self._places: list[Any] = []
        self._tick_lock = threading.Lock()
        self._pulse = Pulse("jtrain-monitor", self._tick)
        super().__init__(shown=self._read())
        self._listen(self._hear)

    def as_text(self) -> str:
        """The run as it stands now."""
        return summary_text(self._reader.read(is_last=True))

    def close(self) -> None:
        """Take it away from all front ends and end its thread. The run goes on."""
        if self._pulse is not None:
            self._pulse.close()
        super().close()

    def _shown_at(self, handle: Any) -> None:
        self._places.append(handle)

    # Looking ---------------------------------------------------------------------------------------------------

    def _tick(self) -> float:
        with self._tick_lock:
            try:
                if self.run.paths.spec.exists():
                    return self._look()
                note = f"Run {self.run.id} was deleted."
            except (JtrainError, OSError) as error:
                note = f"The run can't be read: {error}"
            self.shown = {**self.shown, "note": note, "is_still": True, "can_resume": False}
            return STILL_TICK_S

    def _look(self) -> float:
        standing = self.run.standing
        is_still = self.run.is_at_rest
        if is_still and standing.last_event == self._seen_events and not self._note:
            return STILL_TICK_S
        self.shown = self._read()
        self._seen_events = standing.last_event if is_still else -1
        if is_still and self.shown["state"] == "finished":
            self._leave_summaries()
        return STILL_TICK_S if is_still else LIVE_TICK_S

    def _read(self) -> dict[str, Any]:
        """What `live.js` draws: the cell's view, and what is different in one that stays."""
        is_still = self.run.is_at_rest
        snapshot = self._reader.read(is_last=is_still)
        self._recent.extend(clip(line, SHOWN_COLUMNS) for line in self._new_lines(is_still))
        unfinished = "" if is_still else self._feed.partial
        partial = [clip(unfinished.splitlines()[-1], SHOWN_COLUMNS)] if unfinished else []
        if snapshot.state != self._noted_state:
            self._note, self._noted_state = "", snapshot.state
        note = self._note or self._why(snapshot)
        shown = to_widget(snapshot, [*self._recent, *partial], note)
        if is_still:
            shown["devices"], shown["elapsed"] = [], ""
            shown["facts"] = [
                f"{label} {value}"
                for label, value in summary_rows(snapshot)
                if label not in (*snapshot.metrics, "reason")
            ]
        can_resume = is_still and snapshot.state in ("paused", "stopped", "failed", "interrupted")
        return {**shown, "is_still": is_still, "can_resume": can_resume}

    def _new_lines(self, is_still: bool) -> list[str]:
        """Output that has come; at rest also what was held back until it was clear whether it belongs to an error."""
        was_still, self._was_still = self._was_still, is_still
        return self._feed.finish() if is_still and not was_still else self._feed.read()

    def _why(self, snapshot: Snapshot) -> str:
        """Why the run failed; else the last thing it had to say."""
        if snapshot.state == "failed" and (error := self.run.error) is not None:
            return clip(str(error).splitlines()[0] if str(error) else "it failed", 400)
        return snapshot.notices[-1] if snapshot.notices else ""

    def _leave_summaries(self) -> None:
        """Where it stands alone in an output, put what a saved notebook shall keep in its place."""
        places, self._places = self._places, []
        if places:
            data = still_bundle(self.run, self._reader.read(is_last=True))
            for place in places:
                place.update(data, raw=True)

    # Doing -----------------------------------------------------------------------------------------------------

    def _hear(self, content: dict[str, Any]) -> None:
        """A message of a view, maybe on another thread."""
        view, command = content.get("view"), content.get("command")
        if isinstance(view, str) and self._pulse is not None:
            self._pulse.hear(view[:64], is_present=content.get("present") is True)
        elif command in COMMANDS:
            # A resume waits for the new supervisor's first word, and nobody shall wait for that here.
            threading.Thread(target=self._obey, args=(command,), name="jtrain-command", daemon=True).start()

    def _obey(self, command: str) -> None:
        self._note, self._noted_state = _TOLD[command], self.run.shown_state
        acts: dict[str, Callable[[], object]] = {
            "pause": self.run.pause,
            "resume": self.run.resume,
            "stop": self.run.stop,
        }
        try:
            acts[command]()
        except (JtrainError, OSError) as error:
            self._note = str(error)
        if self._pulse is not None:
            self._pulse.wake()


def still_bundle(run: Run, snapshot: Snapshot) -> dict[str, str]:
    """The still summary with its plot, as text and as HTML without any script."""
    html = summary_html(snapshot)
    if len(snapshot.curve) > 1:
        from jtrain.plots import plot_run, to_png

        picture = base64.b64encode(to_png(plot_run(run))).decode("ascii")
        html += f'<img alt="plot" src="data:image/png;base64,{picture}">'
    return {"text/plain": summary_text(snapshot), "text/html": html}
