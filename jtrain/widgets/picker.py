"""`jtrain.GPUPicker()`: the devices of the machine, live, to choose from by a click; `picker.js` draws them."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from jtrain.devices.sampler import visible_devices
from jtrain.errors import StoreError
from jtrain.store.choice import check_uuids, choice_stamp, read_choice, write_choice
from jtrain.store.paths import store_root
from jtrain.view.machine import MACHINE, machine_text, uuids_of
from jtrain.widgets.pulse import Pulse
from jtrain.widgets.showing import Showing, source_of
from jtrain.widgets.tiles import to_picker

TICK_S = 1.0


class GPUPicker(Showing, anywidget.AnyWidget):
    """Choose the devices that `--gpus picker` takes. The same choice as in the sidebar, and in every other picker.

    `chosen` is a list of UUIDs, in the order chosen, that can be observed and set; `value` is the same list.
    """

    _esm = source_of("common.js", "picker.js")
    _css = source_of("common.css", "picker.css")
    shown = traitlets.Dict().tag(sync=True)
    chosen = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self) -> None:
        self._root: Path = store_root()
        self._choice_lock = threading.RLock()
        self._stamp = choice_stamp(self._root)
        self._is_reading = True
        self._problem = ""
        self._hidden: tuple[str, set[str], set[str]] = ("", set(), set())
        self._pulse = Pulse("jtrain-picker", self._tick, on_start=MACHINE.join, on_end=MACHINE.leave)
        super().__init__(chosen=self._read())
        self._is_reading = False
        self._listen(self._hear)

    @property
    def value(self) -> list[str]:
        """UUIDs of the chosen devices, in the order chosen."""
        self.refresh()
        return list(self.chosen)

    @value.setter
    def value(self, uuids: Sequence[str]) -> None:
        self.chosen = list(uuids)

    def refresh(self) -> None:
        """Take over what was chosen elsewhere meanwhile."""
        stamp = choice_stamp(self._root)
        with self._choice_lock:
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self._take_over(self._read())

    def toggle(self, uuid: str) -> None:
        """Choose the device, or choose it no more. Raises ValueError for what can't be a device, StoreError."""
        with self._choice_lock:
            self.refresh()
            rest = [chosen for chosen in self.chosen if chosen != uuid]
            self.chosen = rest if len(rest) < len(self.chosen) else [*rest, uuid]

    def as_text(self) -> str:
        """The devices as a table; chosen ones are marked."""
        self.refresh()
        return machine_text(MACHINE.read(), list(self.chosen))

    def close(self) -> None:
        """Take it away from all front ends and end its thread."""
        self._pulse.close()
        super().close()

    @traitlets.validate("chosen")
    def _check(self, proposal: Any) -> list[str]:
        try:
            return check_uuids(proposal["value"])
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None

    def notify_change(self, change: Any) -> None:
        """Called for every change of a trait: a choice is written down before observers and front ends hear of it."""
        if change["name"] == "chosen":
            self._write(change)
        super().notify_change(change)

    def _write(self, change: Any) -> None:
        with self._choice_lock:
            if self._is_reading:
                return
            try:
                write_choice(self._root, change["new"])
            except StoreError:
                self._take_over(list(change["old"]))
                raise
            self._stamp = choice_stamp(self._root)

    def _take_over(self, uuids: list[str]) -> None:
        """Show a choice that is written down already."""
        self._is_reading = True
        try:
            self.chosen = uuids
        finally:
            self._is_reading = False

    def _read(self) -> list[str]:
        try:
            return read_choice(self._root)
        except StoreError as error:
            self._problem = str(error)
            return []

    def _hear(self, content: dict[str, Any]) -> None:
        """A message of a view, maybe on another thread."""
        view, uuid = content.get("view"), content.get("toggle")
        if isinstance(view, str):
            self._pulse.hear(view[:64], is_present=content.get("present") is True)
        elif isinstance(uuid, str):
            self._toggle_for_view(uuid)

    def _toggle_for_view(self, uuid: str) -> None:
        """A click: a problem is shown in the widget, for a button has nowhere else to raise it."""
        try:
            self.toggle(uuid)
            self._problem = ""
        except (StoreError, traitlets.TraitError) as error:
            self._problem = str(error)
        self.send({"toggled": uuid})
        self._pulse.wake()

    def _tick(self) -> float:
        self.refresh()
        state = MACHINE.read()
        self.shown = to_picker(state, list(self.chosen), self._find_hidden(), self._problem)
        return TICK_S

    def _find_hidden(self) -> set[str]:
        """Devices that CUDA_VISIBLE_DEVICES keeps from this kernel, which no run started here can take."""
        setting = os.environ.get("CUDA_VISIBLE_DEVICES")
        if setting is None:
            return set()
        here = uuids_of(MACHINE.read())
        if self._hidden[:2] != (setting, here):
            self._hidden = (setting, here, here - {device.uuid for device in visible_devices()})
        return self._hidden[2]
