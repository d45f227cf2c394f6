"""Code identity: a hash of the code that computes a number.

The hash covers the definitions that some entry points reach: functions, classes and module-level values, each as an
abstract syntax tree in a normal form, numbered in the order in which they are reached. So it is the same after a
definition or a local variable is renamed, a module moves, or comments, docstrings, annotations, type aliases or layout
change, and on all versions of Python; any other change of what is reached changes it.

What is reached
    A definition reaches every definition that its code names, through imports and re-exports. A class counts as a
    whole, because the called methods are unknown. So does a module that is used as a value, or from which code takes a
    name that it does not define. Statements of a module that bind no name, unused results of calls, and
    decorators that register for something else, as ``@overload(f)``, count as soon as anything of the module does.
    The entries of a registry are not reached by name: the caller passes the selected ones as entry points.
    Modules outside of this package, such as plugins, count as a whole, with all modules that they import.
What is not followed
    Installed distributions: a name in one counts by its dotted path. The dependencies of kmdr are in every row's
    environment; the versions of others that plugins import are part of the hash. Imports by a computed name.
Names that count
    Attributes, methods, fields, keywords, and parameters that are passed by keyword; also all parameters of methods
    and entry points, which might be. Texts of exceptions do not count, because they do not affect numbers.
"""

from kmdr.base.identity.modules import PACKAGES, is_own, origins, sources
from kmdr.base.identity.names import Definition
from kmdr.base.identity.reachable import code_hash, forget_code, hash_of, name_of, reach, third_party_origin

__all__ = [
    "PACKAGES", "Definition", "code_hash", "forget_code", "hash_of", "is_own", "name_of", "origins", "reach", "sources",
    "third_party_origin",
]  # fmt: skip
