"""Compiled code, compared with the source that it should come from."""

import inspect
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any


def content_of(code: CodeType) -> CodeType:
    """Return code without its file and the numbers of its lines, for comparison."""
    constants = tuple(content_of(part) if isinstance(part, CodeType) else part for part in code.co_consts)
    return code.replace(co_filename="", co_firstlineno=1, co_linetable=b"", co_consts=constants)


def contents_in(module: CodeType) -> set[CodeType]:
    """Return the contents of the code of a module and of all functions and classes in it."""
    codes = [module]
    for code in codes:
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    return set(map(content_of, codes))


def function_of(value: Any) -> FunctionType | None:
    """Return the function behind a method, a property, decorators or compiled code; None if a value is not one."""
    if isinstance(value, staticmethod | classmethod | property | MethodType):
        value = value.fget if isinstance(value, property) else value.__func__
    seen = set[int]()
    while "__wrapped__" in getattr(value, "__dict__", ()) and not inspect.isclass(value) and id(value) not in seen:
        seen.add(id(value))
        value = value.__wrapped__
    return value if isinstance(value, FunctionType) else None


def functions_in(module: str, values: Iterable[Any]) -> Iterator[FunctionType]:
    """Yield the functions among some values and in the classes that a module defines."""
    for value in values:
        if inspect.isclass(value):
            if value.__module__ == module:
                yield from functions_in("", vars(value).values())
        elif function := function_of(value):
            yield function
