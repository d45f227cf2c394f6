"""The hash of classes and functions that a notebook or script defines, whose code may be in no file."""

import inspect
import json
import linecache
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from kmdr.base.identity import hash_of, is_own, third_party_origin
from kmdr.base.identity.compiled import content_of, contents_in, function_of, functions_in
from kmdr.base.identity.modules import distribution, find_module, is_source


def origin_in_memory(made: Any) -> str:
    """Return the origin of a class or function of a notebook or script; empty if it is in a module with a file.

    The hash is of its code and of what that uses: functions, classes, modules, plain values and arrays. Of other
    objects it has the type alone.
    """
    if not _is_in_memory(made.__module__):
        return ""
    reached, modules = _reached(made)
    return f"{str(made.__module__).partition('.')[0]} {hash_of([*map(_text, reached), *map(_text_of_module, modules)])}"


def modules_used(made: Any) -> list[str]:
    """Return the modules with a file that a class or function of a notebook or script uses; none if it is in one."""
    return _reached(made)[1] if _is_in_memory(made.__module__) else []


def _is_in_memory(module: str | None) -> bool:
    return module in (None, "__main__") or find_module(str(module)) is None


def _reached(made: Any) -> tuple[list[Any], list[str]]:
    """Return a class or function with all that its code uses, and the modules with a file among that."""
    reached, modules, left, seen = list[Any](), set[str](), [made], set[int]()
    while left:
        value = left.pop()
        function = function_of(value)
        if isinstance(value, partial):
            left += [value.func, *value.args, *value.keywords.values()]
        elif not (function or inspect.isclass(value) or inspect.ismodule(value)):
            reached.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            defined = function or value
            module = value.__name__ if inspect.ismodule(value) else defined.__module__
            if inspect.ismodule(value) or not _is_in_memory(module):
                modules.add(module)
                reached.append(getattr(defined, "__qualname__", ""))
            else:
                reached.append(defined)
                left += _used_by(function) if function else [*value.__bases__, *_members(value)]
    return reached, sorted(modules)


def _text(value: Any) -> str:
    """Return name and code of a class or function, a plain value as JSON, and the hash of an array.

    Of other values it is the name of the type, because their own text may have an address in memory.
    """
    if isinstance(value, FunctionType):
        return f"{value.__qualname__}\n{_source(value, [value]) or _code_text(value.__code__)}"
    if inspect.isclass(value):
        return f"{value.__qualname__}\n{_source(value, [*functions_in(value.__module__, [value])])}"
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return f"{value.dtype} {value.shape} {sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):  # ValueError: a list that contains itself
        return type(value).__name__


def _text_of_module(name: str) -> str:
    """Return the name of a module in a file, with the hash of its source unless it is kmdr's or of a distribution."""
    if is_own(name) or not is_source(name):
        return f"{name} {distribution(name.partition('.')[0])}"
    return third_party_origin(name)


def _members(cls: type) -> Iterator[Any]:
    """Yield what a class holds, with its names, without what Python adds."""
    for name, value in vars(cls).items():
        if not name.startswith("__") or callable(value) or function_of(value):
            yield value
            yield name


def _used_by(function: FunctionType) -> Iterator[Any]:
    """Yield the defaults, the closure and the global values of a function."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from (cell.cell_contents for cell in function.__closure__ or () if cell != CellType())
    codes = [function.__code__]
    for code in codes:
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
        yield from (function.__globals__[name] for name in code.co_names if name in function.__globals__)


def _source(made: Any, functions: Sequence[FunctionType]) -> str:
    """Return the source of a class or function, if it has the code of some functions; empty otherwise.

    A script may have been edited since it was started, and the text of other cells may stand where Python looks.
    """
    try:
        text = inspect.getsource(made)
        file = inspect.getsourcefile(made) or ""
        known = contents_in(compile("".join(linecache.getlines(file)), file, "exec", dont_inherit=True))
    except (OSError, TypeError, SyntaxError, ValueError):
        return ""
    return text if {content_of(function.__code__) for function in functions} <= known else ""


def _code_text(code: CodeType) -> str:
    constants = [_code_text(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
