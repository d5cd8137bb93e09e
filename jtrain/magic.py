"""The notebook's door: `%%jtrain` for cells, `%jtrain VERB` for everything else.

A cell is turned into an awaited call, so that the kernel goes on serving widgets while the run is waited for. Where
nothing can be awaited (IPython in a terminal, a cell inside `%run` or `%%time`), a plain magic of the same name waits.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from jtrain.capture import stale
from jtrain.completion import Completion
from jtrain.engine.zygote import start_for_kernel
from jtrain.errors import CaptureError, CellSyntaxError, JtrainError, OptionError, RunInterrupted
from jtrain.expansion import words_of
from jtrain.interrupts import Interrupts
from jtrain.launching import launch_cell, plan_cell
from jtrain.optionline import help_of, read_options
from jtrain.options import RunOptions
from jtrain.optiontable import flags_of
from jtrain.run import Run
from jtrain.verbs.answers import Answer, Question, Shown, Watched
from jtrain.verbs.table import answer, help_of_verbs
from jtrain.view.notebook import NotebookView, publish_figure
from jtrain.view.plain import PlainView
from jtrain.view.plan import plan_text
from jtrain.view.snapshot import SnapshotReader
from jtrain.view.terminal import TerminalView
from jtrain.view.text import summary_html
from jtrain.view.watching import View, Watch

_CELL = re.compile(r"%%jtrain(?=\s|$)(.*)", re.DOTALL)
_WAITING_LINE = re.compile(r"%jtrain\s+(?:attach|resume)\b.*")
_ATTRIBUTE = "_jtrain"


def load_ipython_extension(shell: Any) -> None:
    """Add the magics; loading twice is the same as once."""
    unload_ipython_extension(shell)
    door = NotebookDoor(shell)
    setattr(shell, _ATTRIBUTE, door)
    door.open()


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away."""
    door = shell.__dict__.pop(_ATTRIBUTE, None)
    if door is not None:
        door.close()


class NotebookDoor:
    """All that jtrain adds to one IPython shell, and its removal."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._completion = Completion(shell)
        self._depth = 0

    def open(self) -> None:
        """Add everything."""
        shell = self._shell
        for kind, magic in (("cell", self._make_cell_magic()), ("line", self._make_line_magic())):
            shell.register_magic_function(magic, kind, "jtrain")
        shell.input_transformers_cleanup.insert(0, self.transform)
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)
        shell.display_formatter.formatters["text/html"].for_type(Run, _run_html)
        self._completion.open()
        stale.remember_modules()
        start_for_kernel()

    def close(self) -> None:
        """Remove everything."""
        shell = self._shell
        for kind in ("cell", "line"):
            shell.magics_manager.magics[kind].pop("jtrain", None)
        shell.input_transformers_cleanup.remove(self.transform)
        shell.events.unregister("pre_run_cell", self._before_cell)
        shell.events.unregister("post_run_cell", self._after_cell)
        shell.display_formatter.formatters["text/html"].pop(Run, None)
        self._completion.close()

    # Cells -----------------------------------------------------------------------------------------------------

    def transform(self, lines: list[str]) -> list[str]:
        """`%%jtrain` and `%jtrain attach` as awaited calls, where something can be awaited."""
        if not self._can_await():
            return lines
        first = next((index for index, line in enumerate(lines) if line.strip()), 0)
        if lines and (cell := _CELL.match(lines[first])):
            line, body, skipped = join_continued(cell[1], "".join(lines[first + 1 :]))
            return [f"await get_ipython().{_ATTRIBUTE}.cell({line!r}, {body!r}, {first + 2 + skipped})\n"]
        said = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if len(said) == 1 and _WAITING_LINE.fullmatch(said[0]):
            return [f"await get_ipython().{_ATTRIBUTE}.line({said[0].removeprefix('%jtrain')!r})\n"]
        return lines

    def _can_await(self) -> bool:
        """Only in a kernel, whose loop runs anyway, and not in a cell inside another one, which can't wait for it."""
        shell = self._shell
        is_asyncio = shell.loop_runner is shell.loop_runner_map["asyncio"][0]
        return hasattr(shell, "kernel") and shell.autoawait and is_asyncio and self._depth == 0

    def _before_cell(self, *_: object) -> None:
        self._depth += 1

    def _after_cell(self, *_: object) -> None:
        self._depth = max(0, self._depth - 1)
        stale.remember_modules()

    async def cell(self, line: str, body: str, first_line: int) -> Run | None:
        """Run a cell and wait for it in the kernel's loop; gives the Run with `--background`."""
        interrupts = Interrupts()
        with short_errors(), interrupts.installed():
            run, is_waited_for = self._launch(line, body, first_line)
            if run is not None and is_waited_for:
                await Watch(run, self._view(run, is_awaited=True), interrupts).wait_async()
                self._take_outputs(run)
            return None if is_waited_for else run

    def _make_cell_magic(self) -> Any:
        def jtrain(line: str, cell: str) -> Run | None:
            line, body, skipped = join_continued(line, cell)
            interrupts = Interrupts()
            with short_errors(), interrupts.installed():
                run, is_waited_for = self._launch(line, body, 2 + skipped)
                if run is not None and is_waited_for:
                    Watch(run, self._view(run), interrupts).wait()
                    self._take_outputs(run)
                return None if is_waited_for else run

        jtrain.__doc__ = magic_help()
        return _without_expansion(jtrain)

    def _launch(self, line: str, body: str, first_line: int) -> tuple[Run | None, bool]:
        """The run of a cell (None when there is none to start), and whether to wait for it."""
        options, read = read_options(line, words_of(line, self._shell))
        if read.wants_help:
            print(magic_help())
            return None, True
        if not body.strip():
            raise OptionError("there is no code below %%jtrain (options for a cell; verbs such as status are %jtrain)")
        if options.dry_run:
            print(plan_text(plan_cell(body, self._shell.user_ns, options, first_line=first_line)))
            return None, True
        name = f"Cell In[{self._cell_number()}]"
        if options.launcher:
            from jtrain.widgets.launcher import show_launcher

            show_launcher(body, self._shell.user_ns, options, filename=name, first_line=first_line)
            return None, True
        try:
            run = launch_cell(body, self._shell.user_ns, options, filename=name, first_line=first_line)
        except KeyboardInterrupt:
            raise RunInterrupted("interrupted while the cell was being prepared; nothing was started") from None
        for sentence in stale.warnings(body, run.paths.payload):
            print(sentence, file=sys.stderr)
        return run, not options.background

    def _cell_number(self) -> int:
        result = getattr(self._shell.displayhook, "exec_result", None)
        number = getattr(result, "execution_count", None)
        return self._shell.execution_count if number is None else number

    def _take_outputs(self, run: Run) -> None:
        if run.spec.options.outputs:
            self._shell.user_ns.update(run.outputs(self._shell.user_ns))

    def _view(self, run: Run, *, is_awaited: bool = False, seen: int | None = None) -> View:
        if hasattr(self._shell, "kernel"):
            return NotebookView(run, may_ask=is_awaited, seen=seen)
        return TerminalView(run, seen=seen) if sys.stdout.isatty() else PlainView(run, seen=seen)

    # Lines -----------------------------------------------------------------------------------------------------

    async def line(self, line: str) -> None:
        """A verb that waits, alone in its cell."""
        with short_errors():
            found = self._answer(line)
            if isinstance(found, Watched):
                await Watch(found.run, self._view(found.run, is_awaited=True, seen=found.seen_attempts)).wait_async()
                self._take_outputs(found.run)
            else:
                self._show(found)

    def _make_line_magic(self) -> Any:
        def jtrain(line: str) -> None:
            with short_errors():
                found = self._answer(line)
                if isinstance(found, Watched):
                    Watch(found.run, self._view(found.run, seen=found.seen_attempts)).wait()
                    self._take_outputs(found.run)
                else:
                    self._show(found)

        jtrain.__doc__ = magic_help()
        return _without_expansion(jtrain)

    def _answer(self, line: str) -> Answer:
        words = words_of(line, self._shell)
        if not words or words[0] in ("--help", "-h", "help"):
            return Shown(magic_help())
        if words[0].startswith("-"):
            raise OptionError(
                f"{words[0]}: a line takes a verb, as in %jtrain runs; options belong to a cell: %%jtrain"
            )
        return answer(words)

    def _show(self, found: Answer) -> None:
        if isinstance(found, Question):
            found = found.do() if _agrees(found.text) else Shown("nothing was done")
        if isinstance(found, Shown):
            if found.text:
                print(found.text)
            if found.figure is not None and hasattr(self._shell, "kernel"):
                publish_figure(found.figure())
            elif found.figure is not None and found.file:
                found.figure().savefig(found.file)
                print(f"written to {os.path.abspath(found.file)}")


def join_continued(line: str, body: str) -> tuple[str, str, int]:
    """A magic's line together with those that go on after a backslash; the rest of the cell; how many went over."""
    line, skipped = line.rstrip("\n"), 0
    while line.rstrip().endswith("\\") and body:
        more, _, body = body.partition("\n")
        line = f"{line.rstrip()[:-1].rstrip()} {more.strip()}"
        skipped += 1
    return line.strip(), body, skipped


def magic_help() -> str:
    """What `%%jtrain --help` prints."""
    return f"""%%jtrain [options]
<code>

Train with the code of this cell, on one process for each device. In it, `run` is the handle: run.prepare, run.batches,
run.step, run.log, run.checkpoint, run.rank, …

{help_of(flags_of(RunOptions))}

%jtrain VERB [arguments]  (%jtrain VERB --help says more)

{help_of_verbs()}"""


@contextlib.contextmanager
def short_errors() -> Iterator[None]:
    """jtrain's own errors are shown as their text: a traceback through jtrain would help nobody."""
    try:
        yield
    except CellSyntaxError as error:
        raise InvalidCellError(error) from None
    except JtrainError as error:
        if not hasattr(error, "_render_traceback_"):
            text = f"{type(error).__name__}: {error}"
            error._render_traceback_ = text.splitlines  # type: ignore[attr-defined]
        raise


class InvalidCellError(CaptureError):
    """A CellSyntaxError as it is shown: IPython shows every SyntaxError with the way to it through jtrain."""

    def __init__(self, error: CellSyntaxError) -> None:
        super().__init__(str(error))
        line = (error.text or "").rstrip("\n")
        self._lines = [f"  {error.filename}, line {error.lineno}", f"    {line.lstrip()}"]
        if error.offset:
            blank = error.offset - 1 - (len(line) - len(line.lstrip()))
            self._lines.append(" " * (4 + max(0, blank)) + "^")
        self._lines.append(f"SyntaxError: {error.msg}")

    def _render_traceback_(self) -> list[str]:
        return self._lines


def _without_expansion(magic: Any) -> Any:
    """IPython shall leave the line alone: `words_of` puts values in, word by word."""
    from IPython.core.magic import no_var_expand

    return no_var_expand(magic)


def _agrees(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, NotImplementedError) as error:
        raise OptionError("nobody can be asked here; add --yes, or look first with --dry-run") from error


def _run_html(run: Run) -> str:
    return summary_html(SnapshotReader(run).read(is_last=True))
