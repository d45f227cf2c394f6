# ruff: noqa: N815  the names of methods are those of syntax
"""Edits of kmdr's own code as code identity sees them: no file is changed and nothing that was imported."""

import ast
import copy
import importlib.util
import random
import symtable
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import pytest

from kmdr.base.identity import modules, names, normal_form, reachable
from kmdr.config import task

# What code identity keeps of each module; the first argument says of which.
_KEPT = ((modules, "tree"), (names, "namespace"), (normal_form, "form"), (modules, "imported_names"))


def source_of(module: str) -> str:
    return importlib.util.find_spec(module).loader.get_source(module)


def forget(*functions: str) -> None:
    """Forget what code identity keeps, all of it by default."""
    for module in (modules, names, normal_form, reachable):
        for name, kept in vars(module).items():
            if hasattr(kept, "cache_clear") and (not functions or name in functions):
                kept.cache_clear()
    task.forget_code()


@contextmanager
def changed_trees(trees: Mapping[str, ast.Module]) -> Iterator[None]:
    """Let some modules have other syntax trees that bind the same names, within a block."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in _KEPT:
            known = getattr(module, name)
            anew = trees.__getitem__ if name == "tree" else cache(known.__wrapped__)

            def either(key, known=known, anew=anew):
                return (anew if getattr(key, "module", key) in trees else known)(key)

            patch.setattr(module, name, either)
        forget("code_hash", "third_party_origin")
        try:
            yield
        finally:
            forget("code_hash", "third_party_origin")


@contextmanager
def other_program(texts: Mapping[str, str | None]) -> Iterator[None]:
    """Let some modules have other texts, be new, or be gone where there is None, within a block."""
    find = modules.find_module
    with pytest.MonkeyPatch.context() as patch:
        tree = modules.tree.__wrapped__
        patch.setattr(modules, "tree", lambda module: ast.parse(texts[module]) if module in texts else tree(module))

        def found(module):
            if module not in texts:
                return find(module)
            known = find(module)
            is_package = known is not None and known.submodule_search_locations is not None
            return (
                None if texts[module] is None else importlib.util.spec_from_loader(module, None, is_package=is_package)
            )

        patch.setattr(modules, "find_module", found)
        forget()
        try:
            yield
        finally:
            forget()


def changed_module(module: str, change: Callable[[str], str]):
    """Let a module have another text, made from its own, within a block."""
    source = source_of(module)
    assert change(source) != source
    return changed_trees({module: ast.parse(change(source))})


class _Everything(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.body = [*node.body[:-1], ast.parse("print()").body[0], node.body[-1]]
        return node

    def visit_Constant(self, node):
        return ast.Constant(node.value + 1) if type(node.value) is int else node


def with_everything_changed(text: str) -> str:
    """Return the text of a module whose functions all do one more thing, with other whole numbers."""
    return ast.unparse(ast.fix_missing_locations(_Everything().visit(ast.parse(text))))


# -- edits that keep what is computed --------------------------------------------------------------------------------


def keywords_in(texts: Iterable[str]) -> set[str]:
    """Return all names that some texts pass by keyword, or write in quotes."""
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    named = {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    return named | {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


class _Renamed(ast.NodeTransformer):
    """Gives locals other names; what is local, Python's own compiler says."""

    def __init__(self, text: str, kept: Collection[str], chosen: Callable[[str], bool]) -> None:
        self.tables = [symtable.symtable(text, "module", "exec")]
        self.entered: set[int] = set()
        self.kept, self.chosen = kept, chosen
        self.renamed: dict[tuple[int, str], str] = {}

    def other(self, name: str) -> str:
        for table in reversed(self.tables):
            if table.get_type() != "function" or name not in table.get_identifiers():
                continue
            symbol = table.lookup(name)
            if symbol.is_declared_global():
                return name
            if symbol.is_local() and not symbol.is_imported():
                # The parameters of methods, and those of functions that may be passed by keyword, keep their names.
                method = len(self.tables) > 1 and self.tables[self.tables.index(table) - 1].get_type() == "class"
                fixed = symbol.is_parameter() and (method or name in self.kept)
                if fixed or not self.chosen(name) or name.startswith("."):
                    return name
                return self.renamed.setdefault((table.get_id(), name), f"_other_{len(self.renamed)}")
        return name

    def inside(self, node, kind, nodes):
        names = {ast.Lambda: "lambda", ast.GeneratorExp: "genexpr", ast.ListComp: "listcomp", ast.SetComp: "setcomp",
                 ast.DictComp: "dictcomp"}  # fmt: skip
        name = names.get(type(node)) or node.name
        for table in self.tables[-1].get_children():
            known = (table.get_name(), table.get_lineno()) == (name, node.lineno)
            if known and table.get_id() not in self.entered:
                self.entered.add(table.get_id())
                self.tables.append(table)
                for each in nodes():
                    self.visit_all(each)
                self.tables.pop()
                return
        raise AssertionError(f"no scope {name} in line {node.lineno}")

    def visit_all(self, nodes):
        for node in nodes if isinstance(nodes, list) else [nodes]:
            if node is not None:
                self.visit(node)

    def visit_FunctionDef(self, node):
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        self.visit_all([*defaults, *node.decorator_list])
        node.name = self.other(node.name)
        name, node.name = node.name, self._table_name(node)
        self.inside(node, "function", lambda: [self.arguments(node.args), node.body])
        node.name = name
        return node

    def _table_name(self, node):
        lines = {table.get_lineno(): table.get_name() for table in self.tables[-1].get_children()}
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        found = lines.get(node.lineno) or lines[first]
        node.lineno = node.lineno if node.lineno in lines else first
        return found

    def arguments(self, args):
        for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]:
            arg.arg = self.other(arg.arg)
        return []

    def visit_ClassDef(self, node):
        self.visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self.inside(node, "class", lambda: [node.body])
        return node

    def visit_Lambda(self, node):
        self.visit_all([*node.args.defaults, *filter(None, node.args.kw_defaults)])
        self.inside(node, "function", lambda: [self.arguments(node.args), node.body])
        return node

    def visit_comprehension_of(self, node):
        first, *others = node.generators
        self.visit(first.iter)
        parts = [getattr(node, field) for field in ("elt", "key", "value") if hasattr(node, field)]
        self.inside(node, "function", lambda: [first.target, first.ifs, others, parts])
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_comprehension_of

    def visit_Name(self, node):
        node.id = self.other(node.id)
        return node

    def visit_ExceptHandler(self, node):
        node.name = node.name and self.other(node.name)
        return self.generic_visit(node)

    def visit_MatchAs(self, node):
        node.name = node.name and self.other(node.name)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node):
        self.visit_all([node.target, node.value])
        return node

    def _declared(self, node):
        node.names = [self.other(name) for name in node.names]
        return node

    visit_Nonlocal = _declared


def with_other_locals(text: str, kept: Collection[str], chosen: Callable[[str], bool] = lambda _: True) -> str:
    """Return the text of a module with other names for its locals, all those that are chosen.

    Parameters of some names keep them: those that may be passed by keyword.
    """
    renamed = _Renamed(text, kept, chosen)
    return ast.unparse(renamed.visit(ast.parse(text)))


class _Words(ast.NodeTransformer):
    """Changes what only people read: docstrings and annotations are written, changed or removed."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose

    def worded(self, node):
        self.generic_visit(node)
        has_docstring = ast.get_docstring(node, clean=False) is not None
        words = ast.Expr(ast.Constant(f"Words {self.choose.random()}."))
        rest = node.body[has_docstring:]
        node.body = [*([words] if self.choose.random() < 0.7 or not rest else []), *rest]
        return node

    visit_Module = visit_ClassDef = worded

    def visit_FunctionDef(self, node):
        node.returns = self.annotation()
        for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            arg.annotation = self.annotation()
        return self.worded(node)

    def annotation(self):
        return self.choose.choice([None, ast.Name("object"), ast.Constant("Any"), ast.parse("list[T]").body[0].value])

    def visit_AnnAssign(self, node):
        if "ClassVar" not in ast.unparse(node.annotation):
            node.annotation = self.annotation() or ast.Name("object")
        return node


def with_other_words(text: str, choose: random.Random) -> str:
    return ast.unparse(ast.fix_missing_locations(_Words(choose).visit(ast.parse(text))))


# -- edits that change what is computed ------------------------------------------------------------------------------


def counted_nodes(node: ast.AST, in_text: bool = False) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Yield the places of nodes that are code: parent, field, and place in a list of nodes.

    Docstrings, annotations, ``__doc__`` and the texts of exceptions are not.
    """
    called = getattr(getattr(node, "func", None), "id", "")
    in_text = in_text or isinstance(node, ast.Raise) or called.endswith("Error") or called == "unknown"
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "ctx", "type_params"):
            continue
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            is_text = isinstance(child, ast.JoinedStr) or isinstance(getattr(child, "value", None), str)
            words = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            documents = isinstance(child, ast.Assign) and "__doc__" in ast.unparse(child.targets[0])
            if not isinstance(child, ast.AST) or words or documents or (in_text and is_text):
                continue
            yield node, field, place
            yield from counted_nodes(child, in_text)


def mutated(node: ast.AST, choose: random.Random) -> ast.AST | None:  # noqa: PLR0912  one case each
    """Return another node in the place of one: one operator, constant, argument or statement differs."""
    node = copy.deepcopy(node)
    match node:
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float()):
            node.value += choose.choice([1, -1, 0.5])
        case ast.Constant(value=str()):
            node.value += "_"
        case ast.Constant(value=None):
            node.value = 0
        case ast.BinOp() | ast.AugAssign():
            node.op = choose.choice(
                [each for each in (ast.Add, ast.Sub, ast.Mult, ast.Div) if type(node.op) is not each]
            )()
        case ast.Compare():
            kinds = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
            node.ops[0] = choose.choice([each for each in kinds if type(node.ops[0]) is not each])()
        case ast.BoolOp():
            node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        case ast.UnaryOp():
            return node.operand
        case ast.If() | ast.While() | ast.IfExp():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Call(args=[first, second, *_]) if ast.dump(first) != ast.dump(second) and choose.random() < 0.5:
            node.args[:2] = second, first
        case ast.Call(keywords=[_, *_]) if choose.random() < 0.5:
            node.keywords.pop()
        case ast.Call():
            node.func = ast.Name("print", ast.Load())
        case ast.Attribute():
            node.attr = {"float64": "float32", "int64": "int32"}.get(node.attr, f"{node.attr}_")
        case ast.arguments(defaults=[_, *_]):
            node.defaults[-1] = ast.Constant("another")
        case ast.Return(value=ast.AST()):
            node.value = None
        case ast.Expr() | ast.Assign() | ast.Delete() | ast.Raise() | ast.For() | ast.Break() | ast.Continue():
            return ast.Pass()
        case _:
            return None
    return node
