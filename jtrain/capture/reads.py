"""Where a program reads names that may not be its own: names, scopes and bodies that run later.

`Reads` carries the set of names that are certainly the cell's own at this point; a name that is read and isn't in it
may be the notebook's. `None` instead of a set: this point isn't reached. How statements and tests split and join that
set is in `names.py`.

The body of a function is followed where it can first be called: where its name is first read, with the names assigned
by then.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jtrain.capture.scopes import (
    Key,
    Scope,
    class_scope,
    comprehension_scope,
    function_scope,
    mangle,
    parameters,
    resolve,
)

OWN_NAMES = frozenset(
    {
        "__annotations__",
        "__builtin__",
        "__builtins__",
        "__cached__",
        "__debug__",
        "__doc__",
        "__file__",
        "__loader__",
        "__name__",
        "__package__",
        "__spec__",
    }
)
"""What every main program has of its own."""
_CLASS_NAMES = frozenset({"__module__", "__qualname__"})
"""What every class body has of its own."""

State = frozenset[Any] | None
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def both(one: State, other: State) -> State:
    """What is certain when either may have come before."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


@dataclass(eq=False)
class _Later:
    """A body that runs when one of its names is used."""

    names: frozenset[str]
    body: Sequence[ast.AST]
    scopes: list[Scope]
    followed: list[frozenset[Any]] = field(default_factory=list)


class Reads(ast.NodeVisitor):
    """Follows expressions and definitions; `used` has each name found, with the first line."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self._certain: State = frozenset()
        self._scopes: list[Scope] = []
        self._loops: list[State] = []
        self._later: list[_Later] = []
        self._waiting: deque[tuple[_Later, State]] = deque()
        self._evaluates_annotations = True

    def run(self, tree: ast.Module) -> None:
        futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        self._evaluates_annotations = not any(alias.name == "annotations" for node in futures for alias in node.names)
        self._all(tree.body)
        if self._certain is None:
            self._certain = frozenset()
        for later in self._later:
            self._follow(later)

    # Names -----------------------------------------------------------------------------------------------------

    def _key(self, name: str) -> Key:
        return resolve(self._scopes, mangle(self._scopes, name))

    def _read(self, name: str, line: int) -> None:
        if self._certain is None:
            return
        key = self._key(name)
        if isinstance(key, tuple) and key not in self._certain:
            key = key[1]
        is_own = name in OWN_NAMES or (name in _CLASS_NAMES and self._is_in_class())
        if isinstance(key, str) and key not in self._certain and not is_own:
            self.used[key] = min(line, self.used.get(key, line))
        for later in [later for later in self._later if name in later.names]:
            self._follow(later)

    def _is_in_class(self) -> bool:
        return bool(self._scopes) and self._scopes[-1].kind == "class"

    def _bind(self, name: str | None) -> None:
        if name is None or self._certain is None:
            return
        key = self._key(name)
        is_sure = not isinstance(key, tuple) or key[1] not in self._scopes[-1].unbound
        if key is not None and is_sure:
            self._certain |= {key}

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):
            self._read(node.id, node.lineno)
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id)  # also when deleted: from here on it isn't the notebook's

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scopes = self._scopes
        while self._scopes and self._scopes[-1].kind == "comprehension":
            self._scopes = self._scopes[:-1]
        self._bind(node.target.id)
        self._scopes = scopes

    # Bodies ----------------------------------------------------------------------------------------------------

    def _all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None and self._certain is not None:
                self.visit(node)

    def _branch(self, start: State, nodes: Iterable[ast.AST | None]) -> State:
        self._certain = start
        self._all(nodes)
        return self._certain

    @contextmanager
    def _inside(self, scope: Scope) -> Iterator[None]:
        self._scopes = [*self._scopes, scope]
        yield
        self._scopes = self._scopes[:-1]

    def _follow(self, later: _Later) -> None:
        """Follow a body with what is certain now; one that is reached within another waits for its end."""
        start = self._certain
        if start is None or any(before <= start for before in later.followed):
            return
        later.followed.append(start)
        self._waiting.append((later, start))
        if len(self._waiting) > 1:
            return
        outside = self._scopes, self._loops
        while self._waiting:
            now, self._certain = self._waiting[0]
            self._scopes, self._loops = now.scopes, []
            self._all(now.body)
            self._waiting.popleft()
        self._scopes, self._loops = outside
        self._certain = start

    def _define(self, node: _Function | ast.Lambda, names: Iterable[str], *, is_called: bool) -> None:
        """A function's body: it runs when one of its names is used, or may run at once."""
        body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
        owners = [outer.class_name for outer in self._scopes if outer.class_name]
        later = _Later(frozenset([*names, *owners]), body, [*self._scopes, function_scope(node, self._scopes)])
        self._run_later(later, is_called=is_called)

    def _run_later(self, later: _Later, *, is_called: bool) -> None:
        is_at_top = all(outer.kind == "class" or outer.is_type_scope for outer in self._scopes)
        if is_at_top and not is_called:
            self._later.append(later)
        else:
            self._follow(later)

    @contextmanager
    def _type_parameters(self, node: Any) -> Iterator[None]:
        """Type parameters (Python 3.12) are names of a scope around the rest of the definition."""
        given = getattr(node, "type_params", [])
        if not given:
            yield
            return
        names = {mangle(self._scopes, parameter.name) for parameter in given}
        with self._inside(Scope("function", bound=names, is_type_scope=True)):
            for parameter in given:
                self._all([getattr(parameter, "bound", None), getattr(parameter, "default_value", None)])
            yield

    def _annotations(self, nodes: Iterable[ast.AST | None]) -> None:
        if self._evaluates_annotations:
            self._all(nodes)

    def visit_FunctionDef(self, node: _Function) -> None:
        arguments = node.args
        self._all([*node.decorator_list, *arguments.defaults, *arguments.kw_defaults])
        with self._type_parameters(node):
            self._annotations([*(argument.annotation for argument in parameters(arguments)), node.returns])
            self._define(node, [node.name], is_called=bool(node.decorator_list))
        self._bind(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda, names: Sequence[str] = ()) -> None:
        self._all([*node.args.defaults, *node.args.kw_defaults])
        self._define(node, names, is_called=not names)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._all(node.decorator_list)
        with self._type_parameters(node):
            self._all([*node.bases, *node.keywords])
            known = len(self._later)
            with self._inside(class_scope(node, self._scopes)):
                self._all(node.body)
        if node.decorator_list or node.keywords:
            for later in self._later[known:]:
                self._follow(later)
        self._bind(node.name)

    def visit_TypeAlias(self, node: Any) -> None:
        """`type X = …` (Python 3.12): the value is looked at when it is asked for."""
        self._bind(node.name.id)
        with self._type_parameters(node):
            self._run_later(_Later(frozenset([node.name.id]), [node.value], self._scopes), is_called=False)

    def _visit_comprehension(self, node: _Comprehension) -> None:
        self.visit(node.generators[0].iter)
        start = self._certain
        with self._inside(comprehension_scope(node.generators)):
            for index, generator in enumerate(node.generators):
                self._all([generator.iter if index else None, generator.target])
                for test in generator.ifs:
                    self._certain = self._condition(test)[0]
            self._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._certain = start

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _visit_comprehension

    def _condition(self, test: ast.expr) -> tuple[State, State]:
        """Evaluate a test: what is certain when it is true, and when it is false."""
        if isinstance(test, ast.Constant):
            return (self._certain, None) if test.value else (None, self._certain)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._condition(test.operand)[::-1]
        if not isinstance(test, ast.BoolOp):
            self._all([test])
            return self._certain, self._certain
        goes_on, leaves = self._certain, None
        is_and = isinstance(test.op, ast.And)
        for value in test.values:
            self._certain = goes_on
            true, false = self._condition(value)
            goes_on = true if is_and else false
            leaves = both(leaves, false if is_and else true)
        return (goes_on, leaves) if is_and else (leaves, goes_on)
