"""What the program `jtrain` does with its command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from jtrain import __version__
from jtrain.config import load_config
from jtrain.errors import DeviceError, JtrainError, OptionError, RunInterrupted, RunNotFoundError, WorkerError, nearest
from jtrain.fitting import run_config
from jtrain.interrupts import Interrupts
from jtrain.launching import launch_script
from jtrain.optionline import ReadWords, check_words, help_of, read_words
from jtrain.options import RunOptions
from jtrain.optiontable import Option, flags_of
from jtrain.run import Run
from jtrain.scripts import joined_cells, read_notebook, trains
from jtrain.traceback_view import render_worker_error
from jtrain.verbs.answers import Answer, Arguments, Question, Shown, Watched
from jtrain.verbs.table import VERBS, answer, help_of_verbs
from jtrain.view.plain import PlainView
from jtrain.view.terminal import TerminalView
from jtrain.view.watching import Watch

FINISHED, FAILED, USAGE, PAUSED, INTERRUPTED = 0, 1, 2, 75, 130

_USAGE = """jtrain run SCRIPT.py [options] [-- arguments of the script]
jtrain run NOTEBOOK.ipynb [options]
jtrain run --config train.yaml [options]
jtrain VERB [arguments]"""


class RunArguments(Arguments):
    """Options of `jtrain run` that a cell doesn't have."""

    output: Annotated[
        str, Option("where the executed copy of a notebook goes; else beside it", "FILE", "out.ipynb", completes="file")
    ] = ""


def run_program(words: list[str]) -> int:
    """Do what the command line says; returns the exit code."""
    try:
        return _dispatch(words)
    except WorkerError as error:
        _say("\n".join(render_worker_error(error, has_colors=sys.stderr.isatty())))
        return FAILED
    except RunInterrupted as error:
        _say(f"jtrain: {error}")
        return PAUSED if error.state == "paused" else INTERRUPTED
    except JtrainError as error:
        _say(f"jtrain: {error}")
        return USAGE if isinstance(error, OptionError | RunNotFoundError | DeviceError) else FAILED
    except KeyboardInterrupt:
        _say("jtrain: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output (`| head`) has gone; Python must not fail a second time when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINISHED


def _say(text: str) -> None:
    """Errors and hints name the magic; here its verbs are commands."""
    print(text.replace("%jtrain", "jtrain"), file=sys.stderr)


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        print(program_help())
        return FINISHED if words else USAGE
    if words[0] in ("--version", "-V"):
        print(f"jtrain {__version__}")
        return FINISHED
    if words[0] == "run":
        return _run(words[1:])
    if words[0] not in VERBS and (Path(words[0]).suffix in (".py", ".ipynb") or words[0].startswith("-")):
        raise OptionError(f"did you mean jtrain run {' '.join(words)}?")
    return _show(answer(words, "jtrain"))


def program_help() -> str:
    """What `jtrain --help` prints."""
    verbs = "  run          Train with a script, a notebook or a config.\n" + help_of_verbs()
    return f"{_USAGE}\n\nVerbs (jtrain VERB --help says more)\n\n{verbs}"


# jtrain run --------------------------------------------------------------------------------------------------------


def _run(words: list[str]) -> int:
    flags = flags_of(RunOptions) | flags_of(RunArguments)
    read = read_words(words, flags)
    if read.wants_help:
        print(f"{_USAGE}\n\n{help_of(flags)}")
        return FINISHED
    output = str(read.values.pop("output", ""))
    target, argv = _split_rest(read)
    if target is None:
        return _run_config(read)
    if not target.is_file():
        raise OptionError(_missing(target))
    if target.suffix == ".ipynb":
        return _run_notebook(target, argv, read, output)
    return _watch(lambda: launch_script(target, argv, check_words(read)), read)


def _split_rest(read: ReadWords) -> tuple[Path | None, tuple[str, ...]]:
    """The script or notebook, and the words behind `--`."""
    own, arguments = read.rest, []
    if "--" in own:
        at = own.index("--")
        own, arguments = own[:at], own[at + 1 :]
    if len(own) > 1:
        raise OptionError(
            f"{own[1]!r} is one word too many; arguments of the script stand behind `--`: {_example(own)}"
        )
    if not own and "config" not in read.values:
        raise OptionError(f"say what to run: a script, a notebook, or --config FILE\n{_USAGE}")
    return Path(own[0]) if own else None, tuple(arguments)


def _missing(target: Path) -> str:
    folder = target.parent
    if target.is_dir() or not folder.is_dir():
        return f"{target} is no file"
    close = nearest(target.name, [path.name for path in folder.iterdir() if path.suffix in (".py", ".ipynb")])
    return f"there is no file {target}" + (f"; did you mean {folder / close}?" if close else "")


def _example(own: list[str]) -> str:
    return f"jtrain run {own[0]} -- {' '.join(own[1:])}"


def _run_config(read: ReadWords) -> int:
    options = check_words(read)
    config = load_config(options.config, options.set)
    given = {name: getattr(options, name) for name in options.model_fields_set}
    return _watch(lambda: run_config(config, **given), read)


def _run_notebook(path: Path, argv: tuple[str, ...], read: ReadWords, output: str) -> int:
    notebook = read_notebook(path)
    if not trains(notebook):
        return _watch(lambda: launch_script(path, argv, check_words(read), joined_cells(notebook)), read)
    if read.values or argv:
        first = next(iter(read.spelt.values()), "--")
        raise OptionError(
            f"{first}: {path.name} trains in its own %%jtrain cells, whose options stand in the cells; only --output "
            "can be given here"
        )
    from jtrain.headless import execute

    return execute(notebook, path, Path(output) if output else path.with_suffix(".executed.ipynb"))


def _watch(launch: Callable[[], Run], read: ReadWords) -> int:
    interrupts = Interrupts()
    with interrupts.installed():
        run = launch()
        if check_words(read).background:
            print(run.id)
            return FINISHED
        Watch(run, _view(run), interrupts).wait()
    return FINISHED


def _view(run: Run, *, seen: int | None = None) -> TerminalView | PlainView:
    return TerminalView(run, seen=seen) if sys.stdout.isatty() else PlainView(run, seen=seen)


# Verbs -------------------------------------------------------------------------------------------------------------


def _show(found: Answer) -> int:
    if isinstance(found, Watched):
        Watch(found.run, _view(found.run, seen=found.seen_attempts)).wait()
        return FINISHED
    if isinstance(found, Question):
        found = found.do() if _agrees(found.text) else Shown("nothing was done")
    if found.text:
        print(found.text.replace("%jtrain", "jtrain"))
    if found.figure is not None and found.file:
        found.figure().savefig(found.file)
        print(f"written to {os.path.abspath(found.file)}")
    return FINISHED


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        raise OptionError("nobody can be asked here; add --yes, or look first with --dry-run")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
