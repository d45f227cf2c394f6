"""Code identity: a hash of the code that computes a number.

The hash covers the definitions that some entry points reach: functions, classes and module-level values, each as an
abstract syntax tree in a normal form, numbered in the order in which they are reached. So it is the same after a
definition or a local variable is renamed, a module moves, or comments, docstrings, annotations, type aliases or layout
change, and on all versions of Python; any other change of what is reached changes it.

What is reached
    A definition reaches every definition that its code names, through imports and re-exports. A class counts as a
    whole, as nobody knows which of its methods an object is asked for. So does a module that is used as a value or is
    asked for a name that it does not have. Statements of a module that bind no name, unused results of calls, and
    decorators that register for something else, as ``@overload(f)``, count as soon as anything of the module does.
    What a registry holds is reached by nobody's name: the caller names what the configuration selects as entry points.
    Modules outside of this package, such as plugins, count as a whole, with all modules that they import.
What is not followed
    Installed distributions: a name in one counts by its dotted path. Those that this package needs are in every row's
    environment; the versions of others that plugins import are part of the hash. Imports by a computed name.
Names that count
    Attributes, methods, fields, keywords, and parameters that are passed by keyword, also those of methods and entry
    points, which may be. Texts of exceptions do not count: no number comes from them.
"""

import ast
import builtins
import hashlib
import importlib.util
import pkgutil
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

# Distributions whose versions are in every row's environment.
PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba", "llvmlite", "pandas", "joblib", "hydra-core", "omegaconf", "matplotlib",
    "pooch", "threadpoolctl", "tqdm",
)  # fmt: skip
_OWN = __name__.partition(".")[0]
_RECORDED = frozenset({*sys.stdlib_module_names, *PACKAGES, "hydra", "sklearn", _OWN})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
# Names of pseudo-definitions: the statements of a module that act when it is imported; all of a module; and all of it
# with its names, where it is used as a value.
EFFECTS, ALL, NAMED = "<effects>", "<all>", "<named>"
_LAYOUT_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_params", "annotation", "returns"})
_LOAD = ast.Load()
# Decorators for which annotations are code.
_READ_ANNOTATIONS = frozenset({"register", "jitclass"})
# Annotations that decide what a dataclass makes of a field.
_FIELD_KIND = re.compile(r"\b(?:ClassVar|InitVar|KW_ONLY)\b")


class Definition(NamedTuple):
    """What a module binds to a name, or one of `EFFECTS`, `ALL` and `NAMED`."""

    module: str
    name: str


class Module(NamedTuple):
    """A module that is read."""

    name: str


class _Parameter(NamedTuple):
    name: str
    owner: Definition | None  # None for a function within another


# What an expression stands for, as far as that is known before it runs; a text is a name in an installed distribution.
Target = Definition | Module | str | None


class _Form(NamedTuple):
    """The normal form of a definition, and the keywords of the calls in it: of which definition, None where unknown."""

    parts: tuple[str | Definition | _Parameter, ...]
    keywords: frozenset[tuple[Definition | None, str]]


class _Namespace(NamedTuple):
    bound: Mapping[str, Sequence[ast.stmt]]  # the statements that bind a name
    imports: Mapping[str, tuple[str, str]]  # of names that only an import binds: module, and name in it or nothing
    stars: Sequence[str]
    effects: Sequence[ast.stmt]


# -- modules ---------------------------------------------------------------------------------------------------------


def find_module(module: str) -> ModuleSpec | None:
    """Return the specification of a module, without importing it or the packages around it; None if there is none."""
    if known := getattr(sys.modules.get(module), "__spec__", None):
        return known  # type: ignore[no-any-return]
    first, *others = module.split(".")
    spec = None
    with suppress(ImportError, ValueError):  # ValueError: it was made without a specification, as plugins' packages are
        spec = importlib.util.find_spec(first)
    places = spec.submodule_search_locations if spec else getattr(sys.modules.get(first), "__path__", None)
    for name in others:
        first = f"{first}.{name}"
        spec = _find_in(first, list(places or ()))
        places = spec.submodule_search_locations if spec else None
    return spec


def _find_in(module: str, places: list[str]) -> ModuleSpec | None:
    """Find a module in the places of its package, as Python's own finder does after it imported the package."""
    portions: list[str] = []
    for place in places:
        finder = pkgutil.get_importer(place)
        spec = finder.find_spec(module, None) if finder else None
        if spec and spec.loader:
            return spec
        portions += (spec.submodule_search_locations or ()) if spec else ()
    if not portions:
        return None
    folder = ModuleSpec(module, None, is_package=True)  # without __init__.py
    folder.submodule_search_locations = portions
    return folder


@cache
def _tree(module: str) -> ast.Module:
    """Return the syntax tree of a module, in a folder or in an archive; an empty one where it has no Python source."""
    spec = find_module(module)
    source: Any = None
    with suppress(ImportError, AttributeError, UnicodeError, OSError):  # compiled, or the folder of a namespace package
        source = spec.loader.get_source(module)  # type: ignore[union-attr]
    try:
        return ast.parse(source or "")
    except (SyntaxError, ValueError):  # reached, perhaps, but never imported
        return ast.parse("")


def is_own(module: str) -> bool:
    """Return whether a module belongs to this package."""
    return module.partition(".")[0] == _OWN


@cache
def _is_source(module: str) -> bool:
    """Return whether a module is read: one of this package, or outside of Python and of installed distributions."""
    package = module.partition(".")[0]
    if is_own(module):
        return find_module(module) is not None
    return package not in _RECORDED and not distribution(package) and find_module(module) is not None


@cache
def distributions() -> Mapping[str, list[str]]:
    """Return the names of the distributions that installed each package."""
    return metadata.packages_distributions()


@cache
def distribution(package: str) -> str:
    """Return name and version of the distribution that a package was installed with; nothing for source elsewhere.

    What is installed in place for development is source: its version stays the same while it is edited.
    """
    spec = find_module(package)
    where = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
    if not any(_INSTALLED & set(Path(place).parts) for place in where if place):
        return ""
    return next((f"{name} {metadata.version(name)}" for name in distributions().get(package, [])), "")


def _aliases(node: ast.Import | ast.ImportFrom, module: str) -> Iterator[tuple[str, str, str]]:
    """Yield the names that an import binds, the module of each, and its name there or nothing for the module itself."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield alias.asname or top, alias.name if alias.asname else top, ""
        return
    spec = find_module(module)
    with suppress(ImportError):  # beyond the outermost package
        base = importlib.util.resolve_name("." * node.level + (node.module or ""), (spec.parent if spec else "") or "")
        for alias in node.names:
            yield alias.asname or alias.name, base, alias.name


@cache
def imported_names(module: str) -> tuple[str, ...]:
    """Return the dotted names of what a module imports, anywhere in it, in order: modules, and what is in them."""
    names: dict[str, None] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for _, base, name in _aliases(node, module):
                names |= dict.fromkeys((base, f"{base}.{name}"))
    return tuple(names)


def sources(*modules: str) -> tuple[str, ...]:
    """Return some modules, and the modules outside of this package and of installed distributions that they import.

    The packages around what they import count too, as Python runs them.
    """
    reached = dict.fromkeys(modules)
    queue = list(modules)
    for module in queue:
        names = [name for name in imported_names(module) if not is_own(name)]
        for name in names:
            around = [name[: dot.start()] for dot in re.finditer(r"\.", name)]
            for each in (*around, name):
                if each not in reached and _is_source(each):
                    reached[each] = None
                    queue.append(each)
    return tuple(reached)


def origins(modules: Iterable[str]) -> list[str]:
    """Return the versions of what modules outside of this package import, and hashes of those that are compiled."""
    lines: set[str] = set()
    for module in modules:
        packages = {name.partition(".")[0] for name in imported_names(module)} - _RECORDED
        spec = find_module(module)
        path = Path(spec.origin) if spec and spec.has_location and spec.origin else None
        lines |= {text for package in packages if (text := distribution(package))}
        if path and path.suffix != ".py" and path.is_file():
            lines.add(hashlib.sha256(path.read_bytes()).hexdigest())
    return sorted(lines)


# -- names -----------------------------------------------------------------------------------------------------------


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a node binds or declares in the scope it stands in, and what does."""
    match node:
        case ast.Import() | ast.ImportFrom():
            yield from ((alias.asname or alias.name.partition(".")[0], node) for alias in node.names)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, node
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            yield from ((each.target.id, each) for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
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
                yield from _bindings(child)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def _registers(node: ast.AST) -> bool:
    """Return whether a decorator may register a definition for something else, as ``@overload(f)``, ``@f.register``."""
    if isinstance(node, ast.Call):
        return _registers(node.func) or any(isinstance(each, ast.Name | ast.Attribute) for each in node.args)
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
            unused = may_act and not {name for name, _ in _bindings(node)} & loaded
            return unused or not all(isinstance(goal, ast.Name | ast.Tuple) for goal in goals)
        case ast.If() | ast.Try() | ast.With():
            parts = [node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])]
            parts += [handler.body for handler in getattr(node, "handlers", [])]
            return isinstance(node, ast.With) or any(_acts(each, loaded) for part in parts for each in part)
    return not isinstance(node, ast.Import | ast.ImportFrom | ast.Pass) and type(node).__name__ != "TypeAlias"


@cache
def _namespace(module: str) -> _Namespace:
    bound: dict[str, list[ast.stmt]] = {}
    imports: dict[str, list[tuple[str, str]]] = {}
    stars: list[str] = []
    tree = _tree(module)
    body = [part for node in tree.body for part in (node.orelse if _is_type_checking(node) else [node])]  # type: ignore[attr-defined]
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, base, member in _aliases(node, module):
                if member == "*":
                    stars.append(base)
                else:
                    imports.setdefault(name, []).append((base, member))
            continue
        for name in dict.fromkeys(name for name, _ in _bindings(node)):
            bound.setdefault(name, []).append(node)
    for node in body:  # a name that is imported and bound otherwise too
        for name, _ in _bindings(node) if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if name in bound:
                bound[name].append(node)
    plain = {name: targets[-1] for name, targets in imports.items() if name not in bound}
    loaded = frozenset(
        each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    )
    return _Namespace(bound, plain, stars, [node for node in body if _acts(node, loaded)])


def member(module: str, name: str, seen: frozenset[str] = frozenset()) -> Target:
    """Return what a name of a module stands for; None where it has no such name that can be read."""
    space = _namespace(module)
    if name in space.imports:
        return imported(*space.imports[name], seen | {module})
    if name in space.bound:
        return Definition(module, name)
    for base in space.stars:
        if base not in seen and _is_source(base) and (found := member(base, name, seen | {module})):
            return found
    return Module(f"{module}.{name}") if _is_source(f"{module}.{name}") else None


def imported(module: str, name: str, seen: frozenset[str] = frozenset()) -> Target:
    """Return what an import stands for."""
    if not _is_source(module):
        return f"{module}.{name}" if name else module
    if not name:
        return Module(module)
    return (None if module in seen else member(module, name, seen)) or Definition(module, NAMED)


@cache
def _is_exception(target: Target) -> bool:
    if isinstance(target, str):
        kind = getattr(builtins, target.removeprefix("builtins."), None)
        return isinstance(kind, type) and issubclass(kind, BaseException)
    if not isinstance(target, Definition):
        return False
    statements = _namespace(target.module).bound.get(target.name, ())
    bases = [base for node in statements if isinstance(node, ast.ClassDef) for base in node.bases]
    return any(_is_exception(_Writer(target).resolve(base)) for base in bases)


# -- the normal form -------------------------------------------------------------------------------------------------


class _Writer:
    """Writes the normal form of a definition.

    Each scope is a mapping from its names to numbers, given as they are first met, or to what they import; a class's
    names are kept.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.parts: list[str | Definition | _Parameter] = []
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
                    return imported(*scope[node.id]) if isinstance(scope[node.id], tuple) else None
                found = member(self.definition.module, node.id)
                return found or (f"builtins.{node.id}" if hasattr(builtins, node.id) else f"?{node.id}")
            case ast.Attribute():
                base = self.resolve(node.value)
                if isinstance(base, str):
                    return f"{base}.{node.attr}"
                return member(base.name, node.attr) if isinstance(base, Module) else None
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                if self.resolve(function) in ("importlib.import_module", "builtins.__import__"):
                    return imported(name, "")
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
            self.target(imported(*scope[name]))
        else:
            if scope[name] is None:
                scope[name] = self.count
                self.count += 1
            self.parts.append(f"local {scope[name]}")

    @contextmanager
    def within(self, nodes: Sequence[ast.AST], kind: str, *names: str) -> Iterator[None]:
        """Write what follows in a new scope, with the names that some nodes bind in it and some others."""
        scope: dict[str, Any] = {"": kind, **dict.fromkeys(names)}
        ways: dict[str, list[ast.AST]] = {}
        for node in nodes:
            for name, way in _bindings(node):
                ways.setdefault(name, []).append(way)
        for name, found in ways.items():
            if any(isinstance(way, ast.Global) for way in found):
                scope[name] = "global"
            elif any(isinstance(way, ast.Nonlocal) for way in found):
                continue
            elif name not in names and len(found) == 1 and isinstance(found[0], ast.Import | ast.ImportFrom):
                aliases = _aliases(found[0], self.definition.module)
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
            for each in node:
                self.write(each)
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
        for each in node.values:  # versions of Python split the texts between values differently
            if isinstance(each, ast.Constant):
                text += str(each.value)
            else:
                self.parts.append(repr(text))
                self.write(each)
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
        unchecked = not _is_type_checking(node)
        self.write_fields(node, *(() if unchecked else ("test", "body")))
        return unchecked or bool(node.orelse)

    def write_global(self, _: ast.AST) -> bool:
        return False

    write_nonlocal = write_typealias = write_global

    def write_import(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Write what becomes of names that are bound otherwise too; the uses of others say what they are."""
        start = len(self.parts)
        for name, base, inner in _aliases(node, self.definition.module):
            scope = self.scope_of(name)
            if scope is None or not isinstance(scope[name], tuple):
                self.target(imported(base, inner))
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
        calls = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
        return any(getattr(each, "attr", getattr(each, "id", "")) in _READ_ANNOTATIONS for each in calls)

    def write_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        self.heading(node)
        self.function(node.args, node.body, self.reads_annotations(node))
        return [self.resolve(each) for each in node.decorator_list] != ["typing.overload"]

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
        without = [each is None for each in args.kw_defaults]
        names = [arg.arg for _, group in kinds for arg in group]
        with self.within(body, "function", *names):
            for kind, group in kinds:
                self.parts.append(kind)
                for arg in group:
                    self.name(arg.arg)
                    if kind in ("by either", "by name"):
                        self.parts.append(f"named {arg.arg}" if method else _Parameter(arg.arg, owner))
                    if annotated and arg.annotation:
                        self.write(arg.annotation)
            self.write(without)
            self.write(list(body))

    def write_listcomp(self, node: Any) -> None:
        first, *others = node.generators
        self.write(first.iter)  # in the scope around
        goals = [each.target for each in node.generators]
        with self.within(goals, "function"):
            self.write(first.target)
            self.write(first.ifs)
            self.write([first.is_async])
            for each in others:
                self.write_fields(each)
            self.write([getattr(node, field) for field in ("elt", "key", "value") if hasattr(node, field)])

    write_setcomp = write_dictcomp = write_generatorexp = write_listcomp


@cache
def _form(definition: Definition) -> _Form:
    space, writer = _namespace(definition.module), _Writer(definition)
    if definition.name == EFFECTS:
        writer.write(list(space.effects))
    elif definition.name in (ALL, NAMED):
        for name in space.bound:
            writer.parts += [name if definition.name == NAMED else "", Definition(definition.module, name)]
        for name, goal in space.imports.items() if definition.name == NAMED else ():
            writer.parts.append(name)
            writer.target(imported(*goal))
        for base in space.stars:
            writer.target(imported(base, ""))
    else:
        writer.write(list(space.bound.get(definition.name, ())))
    parts: list[str | Definition | _Parameter] = []
    for is_text, group in groupby(writer.parts, lambda part: isinstance(part, str)):
        some = list(group)
        parts += ["\n".join(map(str, some))] if is_text else some
    keywords = writer.keywords
    if (None, "*") in keywords:  # from a mapping, whose keys the same definition may write out
        nodes = (each for node in space.bound.get(definition.name, ()) for each in ast.walk(node))
        keywords |= {
            (None, each.value) for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)
        }
    return _Form(tuple(parts), frozenset(keywords))


# -- what is reached -------------------------------------------------------------------------------------------------


def reach(*entries: str) -> list[Definition]:
    """Return all that some entry points reach, in the order in which they are reached.

    Parameters
    ----------
    *entries : str
        ``"module:name"``, or ``"module"`` for all of a module.
    """
    queue: dict[Definition, None] = {}
    for entry in entries:
        module, _, name = entry.partition(":")
        found = member(module, name.partition(".")[0]) if name else None
        queue[found if isinstance(found, Definition) else Definition(module, ALL)] = None
    modules: set[str] = set()
    order = list(queue)
    for definition in order:
        more: list[Definition] = []
        if definition.module not in modules:
            modules.add(definition.module)
            if not is_own(definition.module):
                more += [Definition(module, ALL) for module in sources(definition.module)]
            if _namespace(definition.module).effects:
                more.append(Definition(definition.module, EFFECTS))
        more += [part for part in _form(definition).parts if isinstance(part, Definition)]
        for each in more:
            if each not in queue:
                queue[each] = None
                order.append(each)
    return order


def hash_of(lines: Iterable[str]) -> str:
    """Return 12 hexadecimal digits of the SHA-256 of some lines."""
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


@cache
def code_hash(*entries: str) -> str:
    """Return the hash, 12 hexadecimal digits, of all that some entry points of `reach` reach."""
    reached = reach(*entries)
    number = {definition: f"#{i}" for i, definition in enumerate(reached)}
    named = set(reached[: len(entries)])  # functions whose parameters anyone may name
    named |= {
        Definition(each.module, name)
        for each in reached
        if each.name in (ALL, NAMED)
        for name in _namespace(each.module).bound
    }
    keywords = {keyword for each in reached for keyword in _form(each).keywords}
    texts: list[str] = []
    for definition in reached:
        for part in _form(definition).parts:
            if isinstance(part, _Parameter):
                known = part.owner is not None and (part.owner in named or (part.owner, "*") in keywords)
                kept = known or (part.owner, part.name) in keywords or (None, part.name) in keywords
                texts.append(part.name if kept else "")
            else:
                texts.append(part if isinstance(part, str) else number[part])
            texts.append("\n")
    outside = dict.fromkeys(each.module for each in reached if not is_own(each.module))
    return hash_of([*texts, *origins(outside)])


def name_of(made: Any) -> str:
    """Return the entry point for `reach` that is a class or a function."""
    return f"{made.__module__}:{made.__qualname__}"


@cache
def third_party_origin(module: str, name: str = "") -> str:
    """Return where a module comes from that is neither of this package nor of a plugin, and the hash of its code.

    Nothing is imported, so that the names in rows from elsewhere can be asked for.

    Parameters
    ----------
    module : str
    name : str
        A class in it, which may be defined in another module of the same distribution.

    Returns
    -------
    str
        Distribution and version, or the name of the outermost package; then `code_hash`. Empty where there is no such
        module.
    """
    package = module.partition(".")[0]
    loaded = sys.modules.get(module)
    if find_module(module) is None:
        return package if loaded is not None else ""  # defined in a notebook
    names = () if is_own(module) else distributions().get(package, ())
    known = next((f"{each} {metadata.version(each)}" for each in names), package)
    return f"{known} {code_hash(*_definers(module, name))}"


def _definers(module: str, name: str) -> list[str]:
    """Return a module, and those from which it imports a name, one after the other."""
    found = [module]
    while name:
        bases = [each.rpartition(".")[0] for each in imported_names(found[-1]) if each.endswith(f".{name}")]
        bases = [base for base in bases if base not in found and find_module(base) is not None]
        if not bases:
            break
        found.append(bases[0])
    return found
