"""`jtrain.Launcher(train, lr=1e-3)`, and `%%jtrain --launcher` for a cell: choose, launch, watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ipywidgets

from jtrain.capture import stale
from jtrain.capture.cell import parse_cell
from jtrain.errors import JtrainError, OptionError
from jtrain.launching import launch, launch_cell
from jtrain.optionline import options_line
from jtrain.options import RunOptions, make_options
from jtrain.run import Run
from jtrain.view.snapshot import SnapshotReader
from jtrain.view.text import summary_text
from jtrain.widgets.form import LaunchForm, options_of, values_of
from jtrain.widgets.monitor import Monitor
from jtrain.widgets.picker import GPUPicker
from jtrain.widgets.showing import Showing


@dataclass(frozen=True)
class CapturedCell:
    """A cell's body that waits to be launched; `namespace` are the notebook's variables."""

    body: str
    namespace: dict[str, Any]
    filename: str
    first_line: int


class Launcher(Showing, ipywidgets.VBox):
    """A form with the devices of the machine, the most used options and a launch button; then the run, live.

    `fn` is launched as `fn(*args, **kwargs)` on every rank. `options` (a dict, as for `jtrain.launch`) are what the
    form begins with, and what it doesn't ask for. Without `fn` the form writes the line to put above a cell;
    `%%jtrain --launcher` shows it for the cell below. `run` is the run that was launched last.

    Raises OptionError.
    """

    _parts: tuple[ipywidgets.Widget, ...] = ()

    def __init__(self, fn: Callable[..., Any] | None = None, /, *args: Any, **kwargs: Any) -> None:
        given = kwargs.pop("options", {})
        given_options = given if isinstance(given, RunOptions) else make_options(**given)
        cell = kwargs.pop("cell", None)
        if fn is not None and not callable(fn):
            raise OptionError(f"Launcher takes a function and what it is called with, not {type(fn).__name__}")
        self._call = (fn, args, kwargs)
        self._cell: CapturedCell | None = cell
        self._given = given_options.model_copy(update={"launcher": False, "background": False})
        self.run: Run | None = None
        self._values = values_of(self._given)
        self.picker = GPUPicker()
        self._parts = (self.picker,)
        if self.picker.chosen and "gpus" not in self._given.model_fields_set:
            self._values["gpus"] = "picker"
        self._form = LaunchForm(
            self._title(),
            self._values,
            can_launch=fn is not None or cell is not None,
            on_change=self._change,
            on_launch=self._launch_for_view,
        )
        self._monitor: Monitor | None = None
        self._parts = (self.picker, self._form)
        super().__init__(children=self._parts)
        self.picker.observe(self._take_choice, "chosen")
        self._change(self._values)

    @property
    def options(self) -> RunOptions:
        """The options as they stand in the form. Raises OptionError when they can't be."""
        return options_of(self._values, self._given)

    def launch(self) -> Run:
        """Launch now, as the button does. Raises what `jtrain.launch` raises, OptionError without a function."""
        fn, args, kwargs = self._call
        options = self.options
        if self._cell is not None:
            cell = self._cell
            where = {"filename": cell.filename, "first_line": cell.first_line}
            run = launch_cell(cell.body, cell.namespace, options, **where)  # type: ignore[arg-type]
        elif fn is not None:
            run = launch(fn, *args, kwargs=kwargs, **options.model_dump(exclude_unset=True))
        else:
            raise OptionError("there is nothing to launch: jtrain.Launcher(train, lr=1e-3), or %%jtrain --launcher")
        self.run = run
        self._show_run(run)
        return run

    def as_text(self) -> str:
        """The devices, the options as they stand, and the run when there is one."""
        parts = [self.picker.as_text(), f"{self._title()}\n  {self._form.command}"]
        if self.run is not None:
            parts.append(summary_text(SnapshotReader(self.run).read(is_last=True)))
        elif self._form.can_launch:
            parts.append("Nothing was launched yet: click Launch, or call launch() of this Launcher.")
        return "\n".join(parts)

    def close(self) -> None:
        """Take it away from all front ends and end its threads. A run that was launched goes on."""
        for child in self._parts:
            child.close()
        super().close()

    def _title(self) -> str:
        fn, args, kwargs = self._call
        if self._cell is not None:
            return f"Launch {self._cell.filename}"
        if fn is None:
            return "A line to put above a cell"
        name = getattr(fn, "__qualname__", type(fn).__name__)
        said = [*map(_short, args), *(f"{key}={_short(value)}" for key, value in kwargs.items())]
        return f"Launch {name}({', '.join(said)})"

    def _change(self, values: dict[str, str]) -> None:
        """The form stands like this now: say what is wrong with it, and how it is written as a line."""
        self._values = {**self._values, **values}
        try:
            options = self.options
        except OptionError as error:
            self._form.problem = str(error)
            return
        self._form.problem = ""
        self._form.command = f"%%jtrain {options_line(options)}".rstrip()

    def _take_choice(self, change: Any) -> None:
        """Who chooses a device wants it to be used."""
        gpus = "picker" if change["new"] else values_of(RunOptions())["gpus"]
        self._change({"gpus": gpus})
        self._form.values = dict(self._values)

    def _launch_for_view(self, values: dict[str, str]) -> None:
        """The button: what goes wrong is shown in words, for a callback has nowhere else to raise it."""
        self._change(values)
        try:
            self.launch()
        except JtrainError as error:
            self._form.problem = str(error)
        except SyntaxError as error:
            self._form.problem = f"{error.filename}, line {error.lineno}: {error.msg}"
        except Exception as error:  # noqa: BLE001 - a captured object's own code may raise anything
            self._form.problem = f"{type(error).__name__}: {error}"
        else:
            self._form.notice = "\n".join(stale.warnings())

    def _show_run(self, run: Run) -> None:
        old, self._monitor = self._monitor, Monitor(run)
        self._parts = (self.picker, self._form, self._monitor)
        self.children = self._parts
        if old is not None:
            old.close()


def show_launcher(
    body: str, namespace: dict[str, Any], options: RunOptions, *, filename: str, first_line: int
) -> Launcher:
    """Show the form for a cell (`%%jtrain --launcher`). Raises CellSyntaxError: now, not after the click."""
    from IPython.display import display

    parse_cell(body, filename, first_line=first_line)
    launcher = Launcher(cell=CapturedCell(body, namespace, filename, first_line), options=options)
    display(launcher)
    return launcher


def _short(value: object) -> str:
    text = repr(value)
    is_simple = isinstance(value, (int, float, str, bool, type(None))) and len(text) <= 40
    return text if is_simple else getattr(value, "__name__", "") or f"<{type(value).__name__}>"
