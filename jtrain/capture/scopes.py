"""Python's scopes, found in a syntax tree: which names a block binds, and whose variable a name is."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(eq=False)
class Scope:
    """One block: a function (also a lambda, a comprehension, a list of type parameters) or a class body."""

    kind: Literal["function", "comprehension", "class"]
    class_name: str = ""
    bound: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)
    unbound: set[str] = field(default_factory=set)
    """Names that the block deletes somewhere."""
    is_type_scope: bool = False


Key = str | tuple[Scope, str] | None
"""Whose variable: a global's name; (scope, name) in a class body; None: a function's own, which is no concern here."""


def resolve(scopes: Sequence[Scope], name: str) -> Key:
    """Whose variable `name` is where `scopes` (outermost first, without the module) are open."""
    for depth in range(len(scopes) - 1, -1, -1):
        scope, is_innermost = scopes[depth], depth == len(scopes) - 1
        if scope.kind == "class" and not is_innermost:
            if name == "__class__":
                return None
            continue
        if name in scope.global_names:
            return name
        if name in scope.bound and name not in scope.nonlocal_names:
            return (scope, name) if scope.kind == "class" else None
    return name


def mangle(scopes: Sequence[Scope], name: str) -> str:
    """A private name as Python spells it inside a class: `__x` is `_Class__x`."""
    if name.startswith("__") and not name.endswith("__"):
        owner = next((scope.class_name for scope in reversed(scopes) if scope.kind == "class"), "").lstrip("_")
        return f"_{owner}{name}" if owner else name
    return name


def function_scope(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, outer: Sequence[Scope]) -> Scope:
    """The scope of a function's body."""
    scope = Scope("function", bound={mangle(outer, argument.arg) for argument in parameters(node.args)})
    body: Iterable[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
    _Bindings(scope, lambda name: mangle(outer, name)).visit_all(body)
    return scope


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters of a function."""
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument for argument in given if argument]


def class_scope(node: ast.ClassDef, outer: Sequence[Scope]) -> Scope:
    """The scope of a class body."""
    scope = Scope("class", class_name=node.name)
    _Bindings(scope, lambda name: mangle([*outer, scope], name)).visit_all(node.body)
    return scope


def comprehension_scope(generators: Iterable[ast.comprehension]) -> Scope:
    """The scope of a comprehension: its targets."""
    targets = [node for generator in generators for node in ast.walk(generator.target)]
    stored = {node.id for node in targets if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return Scope("comprehension", bound=stored)


class _Bindings(ast.NodeVisitor):
    """Fills a scope with the names that its statements bind, delete, or declare, blocks within blocks left out."""

    def __init__(self, scope: Scope, mangled: Callable[[str], str]) -> None:
        self._scope = scope
        self._mangled = mangled
        self._comprehensions = 0

    def visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _bind(self, name: str | None) -> None:
        if name:
            self._scope.bound.add(self._mangled(name))

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) or self._comprehensions:
            return
        self._bind(node.id)
        if isinstance(node.ctx, ast.Del):
            self._scope.unbound.add(self._mangled(node.id))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._bind(node.target.id)
        self.visit(node.value)

    def _visit_comprehension(self, node: ast.AST) -> None:
        self._comprehensions += 1
        self.generic_visit(node)
        self._comprehensions -= 1

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name)
        self.visit_all([*node.decorator_list, node.args])

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name)
        self.visit_all([*node.decorator_list, *node.bases, *node.keywords])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._bind(node.name)
        if node.name:
            self._scope.unbound.add(self._mangled(node.name))
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._bind(imported_name(alias))

    visit_ImportFrom = visit_Import

    def visit_Global(self, node: ast.Global) -> None:
        self._scope.global_names |= set(map(self._mangled, node.names))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._scope.nonlocal_names |= set(map(self._mangled, node.names))

    def generic_visit(self, node: ast.AST) -> Any:
        for name in pattern_names(node):
            self._bind(name)
        super().generic_visit(node)


def pattern_names(node: ast.AST) -> list[str]:
    """The names that a pattern of `match` captures by itself, not in its parts."""
    name = None
    if isinstance(node, ast.MatchAs | ast.MatchStar):
        name = node.name
    elif isinstance(node, ast.MatchMapping):
        name = node.rest
    return [name] if name else []


def imported_name(alias: ast.alias) -> str | None:
    """The name that an import binds; None for `*`, which binds nobody knows what."""
    if alias.name == "*":
        return None
    return alias.asname or alias.name.partition(".")[0]
