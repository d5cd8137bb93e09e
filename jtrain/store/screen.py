"""What a terminal would show of a stream of text, line by line, without the terminal."""

from __future__ import annotations

import re

MAX_LINE_CHARS = 4000
"""Longer lines are cut, saying how many characters are left out."""

_CONTROL = re.compile(
    r"(?P<csi>\x1b\[(?P<arguments>[0-?]*)[ -/]*(?P<command>[@-~]))"  # ECMA-48 5.4: colours, cursor movements, …
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # strings to the terminal: window titles, links
    r"|\x1b[ -/]*[0-Z\\`-~]"  # short escapes
    r"|(?P<newline>\n)|(?P<back>[\r\x08])"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,1000}\x1b?|[ -/]*)?\Z")
_RUBBISH = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if code not in b"\t\n\a"} | {7: None}
_SPECIAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _Line:
    """A line that can be written over, of which only the beginning is kept."""

    __slots__ = ("_hidden", "_text")

    def __init__(self) -> None:
        self._text = ""
        self._hidden = 0

    def write(self, column: int, text: str) -> None:
        room = max(0, MAX_LINE_CHARS - column)
        if column > len(self._text):
            self._text = self._text.ljust(min(column, MAX_LINE_CHARS))
        self._text = self._text[:column] + text[:room] + self._text[column + len(text) :]
        self._hidden = max(self._hidden, column + len(text) - MAX_LINE_CHARS)

    def cut(self, column: int) -> None:
        self._text = self._text[:column]
        self._hidden = min(self._hidden, max(0, column - MAX_LINE_CHARS))

    def __str__(self) -> str:
        return _with_rest(self._text, self._hidden)


class Screen:
    """Turns text into lines.

    Understands what programs do to a line that they have begun: carriage return and backspace write over it, the
    cursor goes up to a line above and down again (nested progress bars), the rest of a line is erased. Colours and
    all else that is meant for a terminal are dropped; other control characters become U+FFFD.
    """

    def __init__(self) -> None:
        self._lines = [_Line()]
        self._row = 0
        self._column = 0
        self._unfinished = ""

    def feed(self, text: str) -> list[str]:
        """Take in `text`; returns the lines above the cursor, which are complete."""
        text = self._unfinished + text
        found = _UNFINISHED.search(text, max(0, len(text) - 1100))
        self._unfinished = found[0] if found else ""
        if self._unfinished:
            text = text[: -len(self._unfinished)]
        if len(self._lines) == 1 and not _SPECIAL.search(text):
            return self._feed_plain(text)
        self._interpret(text)
        complete = [str(line) for line in self._lines[: self._row]]
        del self._lines[: self._row]
        self._row = 0
        return complete

    @property
    def live(self) -> str:
        """What stands at and below the cursor; without a newline at its end."""
        return "\n".join(map(str, self._lines)).rstrip("\n")

    def _feed_plain(self, text: str) -> list[str]:
        """The short way for text without control characters other than newlines."""
        *complete, last = text.split("\n")
        if complete:
            self._write(complete[0])
            complete = [str(self._lines[0]), *map(_shortened, complete[1:])]
            self._lines, self._column = [_Line()], 0
        self._write(last)
        return complete

    def _interpret(self, text: str) -> None:
        position = 0
        for control in _CONTROL.finditer(text):
            self._write(text[position : control.start()])
            position = control.end()
            if control["newline"]:
                self._go_to(self._row + 1)
            elif control["back"]:
                self._column = 0 if control["back"] == "\r" else max(0, self._column - 1)
            elif control["csi"]:
                self._obey(control["command"], control["arguments"])
        self._write(text[position:])

    def _obey(self, command: str, arguments: str) -> None:
        number = int(arguments) if arguments.isdecimal() else 0
        if command in "AF":  # up, and with F to the line's beginning
            self._go_to(max(0, self._row - (number or 1)), column=self._column if command == "A" else 0)
        elif command == "B":
            self._go_to(min(len(self._lines) - 1, self._row + (number or 1)), column=self._column)
        elif command == "K":  # 0: erase from the cursor on, 1: up to it, 2: the whole line
            if number == 1:
                self._lines[self._row].write(0, " " * min(self._column, MAX_LINE_CHARS))
            else:
                self._lines[self._row].cut(0 if number == 2 else self._column)

    def _go_to(self, row: int, column: int = 0) -> None:
        while row >= len(self._lines):
            self._lines.append(_Line())
        self._row, self._column = row, column

    def _write(self, text: str) -> None:
        if text:
            text = text.translate(_RUBBISH)
            self._lines[self._row].write(self._column, text)
            self._column += len(text)


def _shortened(text: str) -> str:
    return _with_rest(text[:MAX_LINE_CHARS], len(text) - MAX_LINE_CHARS)


def _with_rest(text: str, hidden: int) -> str:
    return f"{text}… ({hidden} more characters)" if hidden > 0 else text
