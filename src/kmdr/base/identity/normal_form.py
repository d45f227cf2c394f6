"""The normal form of a definition: its syntax tree without the names, texts and annotations that compute nothing."""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from kmdr.base.identity import modules, names
from kmdr.base.identity.names import ALL, EFFECTS, NAMED, Definition, Module, Target

_LAYOUT_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_params", "annotation", "returns"})
_LOAD = ast.Load()
# Decorators for which annotations are code.
_READ_ANNOTATIONS = frozenset({"register", "jitclass"})
# Annotations that decide what a dataclass makes of a field.
_FIELD_KIND = re.compile(r"\b(?:ClassVar|InitVar|KW_ONLY)\b")


class Parameter(NamedTuple):
    """A parameter, whose name counts only if a call passes it by keyword."""

    name: str
    owner: Definition | None  # None for a function within another


class Form(NamedTuple):
    """The normal form of a definition, and the keywords of the calls in it: of which definition, None where unknown."""

    parts: tuple[str | Definition | Parameter, ...]
    keywords: frozenset[tuple[Definition | None, str]]


class _Writer:
    """Writes the normal form of a definition.

    Each scope is a mapping from its names to numbers, given as they are first met, or to what they import; a class's
    names are kept.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.parts: list[str | Definition | Parameter] = []
        self.keywords: set[tuple[Definition | None, str]] = set()
        self.scopes: list[dict[str, Any]] = []
        self.count = 0
        self.no_text = False

    # names

    def scope_of(self, name: str) -> dict[str, Any] | None:
        """Return the innermost scope that has a name; None where it is the module's or built in."""
        for scope in reversed(self.scopes):
            if name in scope and ("class" not in scope.get("", "") or scope is self.scopes[-1]):
                return None if scope[name] == "global" else scope
        return None

    def resolve(self, node: ast.AST) -> Target:
        match node:
            case ast.Name():
                scope = self.scope_of(node.id)
                if scope is not None:
                    return names.imported(*scope[node.id]) if isinstance(scope[node.id], tuple) else None
                target = names.member(self.definition.module, node.id)
                return target or (f"builtins.{node.id}" if hasattr(builtins, node.id) else f"?{node.id}")
            case ast.Attribute():
                base = self.resolve(node.value)
                if isinstance(base, str):
                    return f"{base}.{node.attr}"
                return names.member(base.name, node.attr) if isinstance(base, Module) else None
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                if self.resolve(function) in ("importlib.import_module", "builtins.__import__"):
                    return names.imported(name, "")
        return None

    def target(self, target: Target) -> None:
        if isinstance(target, Module):
            target = Definition(target.name, NAMED)
        self.parts.append(target if isinstance(target, Definition) else repr(target))

    def name(self, name: str) -> None:
        """Write a name that is bound or read."""
        scope = self.scope_of(name)
        if scope is None:
            if name == self.definition.name and not self.scopes:
                self.parts.append("this")
            else:
                self.target(self.resolve(ast.Name(name)))
        elif "class" in scope.get("", ""):
            self.parts.append(f"field {name}")
        elif isinstance(scope[name], tuple):
            self.target(names.imported(*scope[name]))
        else:
            if scope[name] is None:
                scope[name] = self.count
                self.count += 1
            self.parts.append(f"local {scope[name]}")

    @contextmanager
    def within(self, nodes: Sequence[ast.AST], kind: str, *parameters: str) -> Iterator[None]:
        """Write what follows in a new scope, with the names that some nodes bind in it and some others."""
        scope: dict[str, Any] = {"": kind, **dict.fromkeys(parameters)}
        ways: dict[str, list[ast.AST]] = {}
        for node in nodes:
            for name, way in names.bindings(node):
                ways.setdefault(name, []).append(way)
        for name, bindings in ways.items():
            if any(isinstance(way, ast.Global) for way in bindings):
                scope[name] = "global"
            elif any(isinstance(way, ast.Nonlocal) for way in bindings):
                continue
            elif name not in parameters and len(bindings) == 1 and isinstance(bindings[0], ast.Import | ast.ImportFrom):
                aliases = modules.aliases(bindings[0], self.definition.module)
                scope[name] = next(((base, inner) for bound, base, inner in aliases if bound == name), None)
            else:
                scope.setdefault(name, None)
        self.scopes.append(scope)
        yield
        self.scopes.pop()

    # nodes

    def write(self, node: Any) -> None:
        if isinstance(node, ast.Call) and len(node.args) == 2 and self.resolve(node.func) == "typing.cast":
            node = node.args[1]
        if isinstance(node, ast.Name):
            self.name(node.id)
        elif isinstance(node, ast.AST):
            if self.no_text and (isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)):
                self.parts.append("text")
            elif (target := self.resolve(node)) is not None and isinstance(getattr(node, "ctx", _LOAD), ast.Load):
                self.target(target)
            else:
                kind, start = type(node).__name__, len(self.parts)
                self.parts.append(f"{kind}(")
                if getattr(self, f"write_{kind.lower()}", self.write_fields)(node) is False:  # it does nothing
                    del self.parts[start:]
                else:
                    self.parts.append(")")
        elif isinstance(node, list):
            self.parts.append("[")
            for part in node:
                self.write(part)
            self.parts.append("]")
        else:
            self.parts.append(hex(node) if type(node) is int else repr(node))

    def write_fields(self, node: ast.AST, *others: str) -> None:
        """Write the fields of a node, but for those that are layout and some others."""
        for field, value in ast.iter_fields(node):
            if field in _LAYOUT_FIELDS or field in others or value is None or value == []:
                continue
            self.parts.append(f"{field}=")
            if field in ("name", "rest") and isinstance(value, str):
                self.name(value)
            else:
                self.write(value)

    def write_joinedstr(self, node: ast.JoinedStr) -> None:
        text = ""
        for value in node.values:  # versions of Python split the texts between values differently
            if isinstance(value, ast.Constant):
                text += str(value.value)
            else:
                self.parts.append(repr(text))
                self.write(value)
                text = ""
        self.parts.append(repr(text))

    def write_expr(self, node: ast.Expr) -> bool:
        self.write(node.value)
        return not isinstance(node.value, ast.Constant)  # a docstring, or the dots of a body

    def write_assign(self, node: ast.Assign) -> bool:
        self.write_fields(node)
        return any(getattr(goal, "attr", "") != "__doc__" for goal in node.targets)

    def write_annassign(self, node: ast.AnnAssign) -> bool:
        in_class = bool(self.scopes) and "class" in self.scopes[-1][""]
        if in_class:  # a field, perhaps
            counted = "annotated" in self.scopes[-1][""]
            self.parts += _FIELD_KIND.findall(ast.unparse(node.annotation)) + [ast.unparse(node.annotation)] * counted
            self.write_fields(node, "simple")
        elif node.value is not None:
            self.parts[-1] = "Assign("
            self.write_fields(ast.Assign([node.target], node.value))
        return in_class or node.value is not None

    def write_if(self, node: ast.If) -> bool:
        unchecked = not names.is_type_checking(node)
        self.write_fields(node, *(() if unchecked else ("test", "body")))
        return unchecked or bool(node.orelse)

    def write_global(self, _: ast.AST) -> bool:
        return False

    write_nonlocal = write_typealias = write_global

    def write_import(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Write what becomes of names that are bound otherwise too; the uses of others say what they are."""
        start = len(self.parts)
        for name, base, inner in modules.aliases(node, self.definition.module):
            scope = self.scope_of(name)
            if scope is None or not isinstance(scope[name], tuple):
                self.target(names.imported(base, inner))
                self.name(name)
        return len(self.parts) > start

    write_importfrom = write_import

    def write_raise(self, node: ast.Raise) -> None:
        if isinstance(node.exc, ast.Call):
            self.write_call(node.exc, no_text=True)
        else:
            self.write(node.exc)
        self.write(node.cause)

    def write_call(self, node: ast.Call, no_text: bool = False) -> None:
        target, before = self.resolve(node.func), self.no_text
        owner = target if isinstance(target, Definition) else None
        self.keywords |= {(owner, keyword.arg or "*") for keyword in node.keywords}
        self.write(node.func)
        self.no_text = before or no_text or (target is not None and _is_exception(target))
        self.write(node.args)
        self.write(node.keywords)
        self.no_text = before

    def write_classdef(self, node: ast.ClassDef) -> None:
        self.heading(node)
        for base in node.bases:
            generic = isinstance(base, ast.Subscript) and self.resolve(base.value) is not None
            self.write(base.value if generic else base)  # type: ignore[attr-defined]
        self.write(node.keywords)
        with self.within(node.body, "annotated class" if self.reads_annotations(node) else "class"):
            self.write(node.body)

    def heading(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.write(node.decorator_list)
        self.name(node.name)

    def reads_annotations(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        calls = [call.func if isinstance(call, ast.Call) else call for call in node.decorator_list]
        return any(getattr(call, "attr", getattr(call, "id", "")) in _READ_ANNOTATIONS for call in calls)

    def write_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        self.heading(node)
        self.function(node.args, node.body, self.reads_annotations(node))
        return [self.resolve(decorator) for decorator in node.decorator_list] != ["typing.overload"]

    write_asyncfunctiondef = write_functiondef

    def write_lambda(self, node: ast.Lambda) -> None:
        self.function(node.args, [node.body], False)

    def function(self, args: ast.arguments, body: Sequence[ast.AST], annotated: bool) -> None:
        self.write([*args.defaults, "keyword", *filter(None, args.kw_defaults)])
        method = bool(self.scopes) and "class" in self.scopes[-1][""]
        owner = None if self.scopes else self.definition
        kinds = [
            ("by place", args.posonlyargs),
            ("by either", args.args),
            ("rest", [args.vararg] if args.vararg else []),
        ]
        kinds += [("by name", args.kwonlyargs), ("others", [args.kwarg] if args.kwarg else [])]
        without = [default is None for default in args.kw_defaults]
        parameters = [arg.arg for _, group in kinds for arg in group]
        with self.within(body, "function", *parameters):
            for kind, group in kinds:
                self.parts.append(kind)
                for arg in group:
                    self.name(arg.arg)
                    if kind in ("by either", "by name"):
                        self.parts.append(f"named {arg.arg}" if method else Parameter(arg.arg, owner))
                    if annotated and arg.annotation:
                        self.write(arg.annotation)
            self.write(without)
            self.write(list(body))

    def write_listcomp(self, node: Any) -> None:
        first, *others = node.generators
        self.write(first.iter)  # in the scope around
        goals = [generator.target for generator in node.generators]
        with self.within(goals, "function"):
            self.write(first.target)
            self.write(first.ifs)
            self.write([first.is_async])
            for generator in others:
                self.write_fields(generator)
            self.write([getattr(node, field) for field in ("elt", "key", "value") if hasattr(node, field)])

    write_setcomp = write_dictcomp = write_generatorexp = write_listcomp


@cache
def _is_exception(target: Target) -> bool:
    if isinstance(target, str):
        kind = getattr(builtins, target.removeprefix("builtins."), None)
        return isinstance(kind, type) and issubclass(kind, BaseException)
    if not isinstance(target, Definition):
        return False
    statements = names.namespace(target.module).bound.get(target.name, ())
    bases = [base for node in statements if isinstance(node, ast.ClassDef) for base in node.bases]
    return any(_is_exception(_Writer(target).resolve(base)) for base in bases)


@cache
def form(definition: Definition) -> Form:
    """Return the normal form of a definition."""
    space, writer = names.namespace(definition.module), _Writer(definition)
    if definition.name == EFFECTS:
        writer.write(list(space.effects))
    elif definition.name in (ALL, NAMED):
        for name in space.bound:
            writer.parts += [name if definition.name == NAMED else "", Definition(definition.module, name)]
        for name, goal in space.imports.items() if definition.name == NAMED else ():
            writer.parts.append(name)
            writer.target(names.imported(*goal))
        for base in space.stars:
            writer.target(names.imported(base, ""))
    else:
        writer.write(list(space.bound.get(definition.name, ())))
    parts: list[str | Definition | Parameter] = []
    for is_text, group in groupby(writer.parts, lambda part: isinstance(part, str)):
        some = list(group)
        parts += ["\n".join(map(str, some))] if is_text else some
    keywords = writer.keywords
    if (None, "*") in keywords:  # from a mapping, whose keys the same definition may write out
        nodes = (part for node in space.bound.get(definition.name, ()) for part in ast.walk(node))
        keywords |= {
            (None, part.value) for part in nodes if isinstance(part, ast.Constant) and isinstance(part.value, str)
        }
    return Form(tuple(parts), frozenset(keywords))
