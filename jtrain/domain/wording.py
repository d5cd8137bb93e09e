"""Numbers and tables as people read them. Every form is fixed, so that a tool that compares texts can mask it."""

from __future__ import annotations

import math
import re
import time
import unicodedata
from collections.abc import Sequence

from jtrain.domain.devices import format_bytes

__all__ = ["clip", "format_bytes", "format_count", "format_duration", "format_number", "format_time", "table"]


def format_duration(seconds: float, *, is_rough: bool = False) -> str:
    """`0.42 s`, `12.3 s`, `4 min 05 s`, `3 h 07 min`, `2 d 04 h`; a rough one has whole seconds."""
    if not math.isfinite(seconds) or seconds < 0:
        return "n/a"
    if seconds < 99.5 and is_rough:
        return f"{seconds:.0f} s"
    if seconds < 99.95:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02d} h"


def format_number(value: float) -> str:
    """Four significant digits; `nan`, `inf` as they are."""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        text = f"{value:.4g}"
        return f"{value:.0f}" if "e" in text else text
    return re.sub(r"e([+-])0*", lambda sign: "e-" if sign[1] == "-" else "e", f"{value:.3e}")


def format_count(count: float) -> str:
    """`950`, `12.3 k`, `4.56 M`: rates and numbers of things."""
    for unit in ("", " k", " M", " G"):
        if abs(count) < 999.5 or unit == " G":
            return f"{count:.3g}{unit}"
        count /= 1000
    raise AssertionError("not reached")


def format_time(epoch_s: float, now: float | None = None) -> str:
    """Local time: `14:03:05` today, `Mar 07 14:03` this year, else with the year; `?` for what is no time."""
    try:
        then, today = time.localtime(epoch_s), time.localtime(now)
    except (OverflowError, ValueError, OSError):
        return "?"
    if then[:3] == today[:3]:
        return time.strftime("%H:%M:%S", then)
    return time.strftime("%b %d %H:%M" if then.tm_year == today.tm_year else "%Y-%m-%d %H:%M", then)


def clip(text: str, width: int) -> str:
    """`text` on one line, without control characters, cut to `width` columns."""
    text = "".join(character if character.isprintable() else " " for character in text)
    if display_width(text) <= width:
        return text
    kept = ""
    for character in text:
        if display_width(kept + character) > width - 1:
            break
        kept += character
    return kept + "…"


def display_width(text: str) -> int:
    """Columns that a terminal needs: two for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def table(rows: Sequence[Sequence[str]], right: str = "") -> str:
    """Rows (the first is the heading) in columns; those whose numbers stand in `right` ("02") are right-aligned."""
    if not rows:
        return ""
    columns = range(len(rows[0]))
    widths = [max(display_width(row[column]) for row in rows) for column in columns]
    return "\n".join("  ".join(_cell(row, c, widths, str(c) in right) for c in columns).rstrip() for row in rows)


def _cell(row: Sequence[str], column: int, widths: list[int], is_right: bool) -> str:
    blank = " " * (widths[column] - display_width(row[column]))
    return blank + row[column] if is_right else row[column] + blank
