"""Resolution of the names of a module: its definitions, other modules, or names of installed distributions."""

import ast
import builtins
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from kmdr.base.identity import modules

# Names of pseudo-definitions: the statements of a module that act when it is imported; all of a module; and all of it
# with its names, where it is used as a value.
EFFECTS, ALL, NAMED = "<effects>", "<all>", "<named>"


class Definition(NamedTuple):
    """The binding of a name in a module, or one of `EFFECTS`, `ALL` and `NAMED`."""

    module: str
    name: str


class Module(NamedTuple):
    """A module that is read."""

    name: str


# What an expression stands for, as far as that is known before it runs; a text is a name in an installed distribution.
Target = Definition | Module | str | None


class Namespace(NamedTuple):
    """The names of a module, and the statements that do more than bind names."""

    bound: Mapping[str, Sequence[ast.stmt]]  # the statements that bind a name
    imports: Mapping[str, tuple[str, str]]  # of names that only an import binds: module, and name in it or nothing
    stars: Sequence[str]
    effects: Sequence[ast.stmt]


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a node binds or declares in the scope it stands in, and what does."""
    match node:
        case ast.Import() | ast.ImportFrom():
            yield from ((alias.asname or alias.name.partition(".")[0], node) for alias in node.names)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, node
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield from ((part.target.id, part) for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
        case ast.Global() | ast.Nonlocal():
            yield from ((name, node) for name in node.names)
        case ast.Lambda():
            pass
        case _:
            name = getattr(node, "rest", None) if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id, node
            elif isinstance(name, str):  # of an exception or of a pattern
                yield name, node
            for child in ast.iter_child_nodes(node):
                yield from bindings(child)


def is_type_checking(node: ast.AST) -> bool:
    """Return whether a node is ``if TYPE_CHECKING``."""
    return isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def _registers(node: ast.AST) -> bool:
    """Return whether a decorator may register a definition for something else, as ``@overload(f)``, ``@f.register``."""
    if isinstance(node, ast.Call):
        return _registers(node.func) or any(isinstance(argument, ast.Name | ast.Attribute) for argument in node.args)
    return isinstance(node, ast.Attribute) and node.attr == "register"


def _acts(node: ast.stmt, loaded: frozenset[str]) -> bool:
    """Return whether a statement of a module does more than bind names."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return any(map(_registers, node.decorator_list))
        case ast.Expr():
            return not isinstance(node.value, ast.Constant)
        case ast.Assign() | ast.AnnAssign():
            goals = node.targets if isinstance(node, ast.Assign) else [node.target]
            called = node.value.func if isinstance(node.value, ast.Call) else None
            name = getattr(called, "id", getattr(called, "attr", ""))
            may_act = called is not None and not (hasattr(builtins, name) or hasattr(typing, name))
            unused = may_act and not {name for name, _ in bindings(node)} & loaded
            return unused or not all(isinstance(goal, ast.Name | ast.Tuple) for goal in goals)
        case ast.If() | ast.Try() | ast.With():
            parts = [node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])]
            parts += [handler.body for handler in getattr(node, "handlers", [])]
            return isinstance(node, ast.With) or any(_acts(statement, loaded) for part in parts for statement in part)
    return not isinstance(node, ast.Import | ast.ImportFrom | ast.Pass) and type(node).__name__ != "TypeAlias"


@cache
def namespace(module: str) -> Namespace:
    """Return the bindings, imports and statements of a module."""
    bound: dict[str, list[ast.stmt]] = {}
    imports: dict[str, list[tuple[str, str]]] = {}
    stars: list[str] = []
    tree = modules.tree(module)
    body = [part for node in tree.body for part in (node.orelse if is_type_checking(node) else [node])]  # type: ignore[attr-defined]
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, base, member in modules.aliases(node, module):
                if member == "*":
                    stars.append(base)
                else:
                    imports.setdefault(name, []).append((base, member))
            continue
        for name in dict.fromkeys(name for name, _ in bindings(node)):
            bound.setdefault(name, []).append(node)
    for node in body:  # a name that is imported and bound otherwise too
        for name, _ in bindings(node) if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if name in bound:
                bound[name].append(node)
    plain = {name: targets[-1] for name, targets in imports.items() if name not in bound}
    loaded = frozenset(
        part.id for part in ast.walk(tree) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
    )
    return Namespace(bound, plain, stars, [node for node in body if _acts(node, loaded)])


def member(module: str, name: str, seen: frozenset[str] = frozenset()) -> Target:
    """Return the target of a module's name; None if the module has no such name that can be read."""
    space = namespace(module)
    if name in space.imports:
        return imported(*space.imports[name], seen | {module})
    if name in space.bound:
        return Definition(module, name)
    for base in space.stars:
        if base not in seen and modules.is_source(base) and (target := member(base, name, seen | {module})):
            return target
    return Module(f"{module}.{name}") if modules.is_source(f"{module}.{name}") else None


def imported(module: str, name: str, seen: frozenset[str] = frozenset()) -> Target:
    """Return the target of an import."""
    if not modules.is_source(module):
        return f"{module}.{name}" if name else module
    if not name:
        return Module(module)
    return (None if module in seen else member(module, name, seen)) or Definition(module, NAMED)
