"""From a capture that failed to one message that names everything which can't travel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jtrain.capture.locating import Place, locate
from jtrain.capture.notebook import Notebook, is_kernels
from jtrain.capture.payload import Output
from jtrain.capture.pickler import Pickler, Problem, find_problems
from jtrain.capture.reducer import Reducer
from jtrain.capture.refusals import KERNELS_OWN, Refusal, find_refusal
from jtrain.domain.spec import CALL_PREFIX
from jtrain.errors import CaptureError

_MOST_SHOWN = 20
_TOO_DEEP = Refusal("nested too deeply to be pickled", "keep its parts in a list")
_MAKE_INSIDE = "make it inside the cell"


@dataclass(frozen=True)
class Finding:
    """Something that can't travel, where it is, and what to do instead."""

    place: Place
    what: str
    advice: str
    culprit: int
    """Its identity."""


def find_kernels_own(notebook: Notebook, lines: Mapping[str, int]) -> list[Finding]:
    """What the cell uses of the kernel's record of the notebook, such as `Out`."""
    namespace = notebook.namespace
    names = [name for name in lines if name in namespace and _is_record(name, namespace[name])]
    return [
        Finding(Place(name, name, name), KERNELS_OWN.what, KERNELS_OWN.advice, id(namespace[name]))
        for name in names
        if name not in notebook.provided
    ]


def _is_record(name: str, value: object) -> bool:
    return is_kernels(name, value) and not callable(value) and not name.startswith("__")


def find_all(notebook: Notebook, names: Mapping[str, str]) -> list[Finding]:
    """What can't travel in any of the variables `names`, each object once."""
    found: dict[tuple[str, int], Finding] = {}
    for name in names:
        for finding in find_in(name, notebook.namespace[name], lambda: Reducer(notebook)):
            key = (finding.place.expression, finding.culprit)
            if key not in found or len(found[key].place.users) > len(finding.place.users):
                found[key] = finding
    return list(found.values())


def find_in(name: str, value: Any, make_reducer: Callable[[], Reducer]) -> Iterator[Finding]:
    """What can't travel in one value."""
    try:
        Pickler(Output(), make_reducer()).dump(value)
    except Exception as error:  # noqa: BLE001 - an object's own reduction may raise anything; now it is looked for
        problems = _search(value, make_reducer())
        if not problems and isinstance(error, RecursionError):
            yield Finding(Place(name, name, name), _TOO_DEEP.what, _TOO_DEEP.advice, id(value))
        for problem in problems or ([] if isinstance(error, RecursionError) else [Problem((value,), error)]):
            yield _explain(name, problem)


def _search(value: Any, reducer: Reducer) -> list[Problem]:
    try:
        return find_problems(value, reducer)
    except RecursionError:
        return []


def _explain(name: str, problem: Problem) -> Finding:
    place, kind = _place(name, problem), type(problem.culprit)
    shown = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    refusal = find_refusal(kind)
    if refusal is not None:
        return Finding(place, f"{refusal.what} ({shown})", refusal.advice, id(problem.culprit))
    reason = _text(problem.error).strip().partition("\n")[0] or type(problem.error).__name__
    what = f"an object of {shown}, which can't be pickled ({reason})"
    return Finding(place, what, _MAKE_INSIDE, id(problem.culprit))


def _place(name: str, problem: Problem) -> Place:
    try:
        return locate(name, problem.trail)
    except Exception:  # noqa: BLE001 - attributes, keys and items of a user's objects may run code that raises
        return Place(name, name, name, is_inside=len(problem.trail) > 1)


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a user's __str__ may raise anything
        return ""


def refusal_of(findings: list[Finding], names: Mapping[str, str], lines: Mapping[str, int]) -> CaptureError:
    """One error for all findings. `names`: what was captured, with the variable that needs it."""
    count = len(findings)
    head = "this can't travel to the workers:" if count == 1 else f"{count} things can't travel to the workers:"
    shown = [f"  {sentence(finding, names, lines)}" for finding in findings[:_MOST_SHOWN]]
    more = [f"  … and {count - _MOST_SHOWN} more"] if count > _MOST_SHOWN else []
    return CaptureError("\n".join([head, *shown, *more]))


def sentence(finding: Finding, names: Mapping[str, str], lines: Mapping[str, int]) -> str:
    """What to tell the user about one finding; without `lines`, about a result."""
    place = finding.place
    where = _where(place, names, lines)
    verb = "holds" if place.is_inside else "is"
    advice = f"; {finding.advice}" if lines else ""
    expression = place.expression.removeprefix(CALL_PREFIX)
    return f"{expression}{f' ({where})' if where else ''} {verb} {finding.what}{advice}"


def _where(place: Place, names: Mapping[str, str], lines: Mapping[str, int]) -> str:
    """`line 4`, or `used by load, line 4`: who needs the variable, and the cell's line where that begins."""
    users = list(place.users[-1:])
    line, user = lines.get(place.variable), names.get(place.variable) or (users and place.root) or ""
    while line is None and user:
        users = users or [user]
        line, user = lines.get(user), names.get(user, "")
    return ", ".join([*(f"used by {user}" for user in users), *([f"line {line}"] if line else [])])
