"""The rules of code identity on small programs: pairs of texts that are the same computation, or another."""

import importlib.util
import re
from textwrap import dedent

import pytest

from edits import forget
from kmdr.base.identity import code_hash, modules


@pytest.fixture
def hash_of(monkeypatch):
    """Return a function from the texts of the modules of a package ``toy`` to the hash of its ``main.run``."""

    def of(texts, entry="toy.main:run"):
        texts = {"toy": "", **{name: dedent(text) for name, text in texts.items()}}
        with monkeypatch.context() as patch:
            patch.setattr(modules, "OWN", "toy")
            find = modules.find_module

            def find_module(module):
                if module.partition(".")[0] != "toy":
                    return find(module)
                package = any(name.startswith(f"{module}.") for name in texts)
                return (
                    importlib.util.spec_from_loader(module, Loader(texts), is_package=package)
                    if module in texts
                    else None
                )

            patch.setattr(modules, "find_module", find_module)
            forget()
            found = code_hash(entry)
        forget()
        return found

    return of


class Loader:
    def __init__(self, texts):
        self.texts = texts

    def get_source(self, module):
        return self.texts[module]


def program(main, **others):
    return {"toy.main": main, **{f"toy.{name}": text for name, text in others.items()}}


BASE = """
    import numpy as np
    from toy.helper import scaled, Box

    LIMIT = 3

    def run(A, k=2):
        total = 0
        for row in A:
            total += scaled(row, factor=LIMIT)
        box = Box(total)
        return np.sqrt(box.half) if k else -total
    """
HELPER = """
    STEP = 2
    OTHER = 5

    def scaled(x, factor):
        def inner(y):
            return y * STEP
        return inner(x) * factor

    def unused(x):
        return OTHER

    class Base:
        shift = 1
        def moved(self, by=1):
            return self.value + by * self.shift

    class Box(Base):
        def __init__(self, value):
            self.value = value

        @property
        def half(self):
            return self.moved() / 2
    """
PAIR = program(BASE, helper=HELPER)


def edited(old, new, where="helper"):
    module = f"toy.{where}"
    assert old in PAIR[module]
    return {**PAIR, module: PAIR[module].replace(old, new)}


SAME = {
    "local renamed": edited("total", "result", "main"),
    "parameter passed by place renamed": {
        **PAIR, "toy.helper": HELPER.replace("(x, factor)", "(point, factor)").replace("inner(x)", "inner(point)")
    },
    "nested function and its parameter renamed": {
        **PAIR, "toy.helper": HELPER.replace("inner", "within").replace("(y)", "(z)").replace("return y", "return z")
    },
    "function renamed": {
        "toy.main": BASE.replace("scaled", "grown"), "toy.helper": HELPER.replace("scaled", "grown")
    },
    "class renamed": {"toy.main": BASE.replace("Box", "Case"), "toy.helper": HELPER.replace("Box", "Case")},
    "constant renamed": {**PAIR, "toy.helper": HELPER.replace("STEP", "STRIDE")},
    "import under another name": edited("np", "numpy_", "main"),
    "imported as a module": {
        **PAIR, "toy.main": BASE.replace("from toy.helper import scaled, Box", "from toy import helper")
        .replace("scaled(", "helper.scaled(").replace("Box(", "helper.Box(")
    },
    "relative import": edited("from toy.helper", "from .helper", "main"),
    "imported within the function": {
        **PAIR, "toy.main": BASE.replace("    from toy.helper import scaled, Box\n", "").replace(
            "total = 0", "from toy.helper import scaled, Box\n        total = 0")
    },
    "module moved": {
        "toy.main": BASE.replace("toy.helper", "toy.deep.inside"), "toy.deep": "", "toy.deep.inside": HELPER
    },
    "module moved, and exported where it was": {**PAIR, "toy.helper": "from toy.new import *", "toy.new": HELPER},
    "function moved to a module of its own": {
        **PAIR, "toy.helper": "from toy.one import scaled\n" + dedent(HELPER[HELPER.index("    class Base"):]),
        "toy.one": HELPER[: HELPER.index("    class Base")],
    },
    "docstrings, comments, layout": {
        **PAIR, "toy.helper": dedent(HELPER)
        .replace("def scaled(x, factor):", 'def scaled(\n    x,\n    factor,\n):\n    """Say."""\n    # more')
        .replace("class Box(Base):", 'class Box(Base):\n    """A box."""'),
    },
    "annotations": {
        **PAIR, "toy.helper": "from typing import Any\nAlias = list[Any]\n" + dedent(HELPER)
        .replace("x, factor", "x: Alias, factor: 'int'").replace("value):", "value: Any) -> None:")
        .replace("STEP = 2", "STEP: int = 2")
    },
    "imports for annotations alone": {
        **PAIR, "toy.main":
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy.types import T\n" + dedent(BASE)
    },
    "what is not reached changed": edited("OTHER = 5", "OTHER = 6"),
    "definitions in another order": {**PAIR, "toy.helper": "OTHER = 5\n" + dedent(HELPER).replace("OTHER = 5\n", "")},
    "line endings": {name: dedent(text).replace("\n", "\r\n") for name, text in PAIR.items()},
    "a cast": {
        **PAIR, "toy.main": "from typing import cast\n" + dedent(BASE).replace("scaled(row", "scaled(cast('T', row)")
    },
}  # fmt: skip
DIFFERENT = {
    "constant": edited("LIMIT = 3", "LIMIT = 4", "main"),
    "constant of another module": edited("STEP = 2", "STEP = 2.0"),
    "operator": edited("y * STEP", "y + STEP"),
    "default": edited("k=2", "k=3", "main"),
    "default of a method": edited("by=1", "by=2"),
    "called function": edited("np.sqrt", "np.cbrt", "main"),
    "function of another module": edited("import numpy as np", "import scipy as np", "main"),
    "field of a base class": edited("shift = 1", "shift = 2"),
    "property made a method": edited("        @property\n", ""),
    "other base": edited("(Base)", ""),
    "decorator": {**PAIR, "toy.helper": dedent(HELPER).replace("def scaled", "@abs\ndef scaled")},
    "keyword renamed on both sides": {
        "toy.main": BASE.replace("factor=", "times="), "toy.helper": HELPER.replace("factor", "times")
    },
    "parameters passed by keyword exchanged": edited("(x, factor)", "(factor, x)"),
    "effect on import": {**PAIR, "toy.helper": "import numpy\nnumpy.seterr(all='raise')\n" + dedent(HELPER)},
    "effect whose result nobody uses": {
        **PAIR, "toy.helper": "import numpy\nold = numpy.seterr(all='raise')\n" + dedent(HELPER)
    },
    "assignment to what is another's": {**PAIR, "toy.helper": "import numpy\nnumpy.sqrt = abs\n" + dedent(HELPER)},
    "class changed afterwards": {**PAIR, "toy.helper": dedent(HELPER) + "\nBase.shift = 7\n"},
    "bound again": {**PAIR, "toy.helper": dedent(HELPER) + "\nif STEP > 1:\n    STEP = 1\n"},
    "bound in a loop": {**PAIR, "toy.helper": dedent(HELPER) + "\nfor STEP in range(9):\n    pass\n"},
    "implementation of another function": {
        **PAIR, "toy.helper": "from numba.extending import overload\n" + dedent(HELPER)
        + "\n@overload(scaled)\ndef _(x, y):\n    return abs\n"
    },
    "local made global": edited("total = 0", "global total\n        total = 0", "main"),
    "argument order": edited("inner(x) * factor", "factor * inner(x)"),
    "statement removed": edited("        box = Box(total)\n", "        box = total\n", "main"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_the_same_computation_has_the_same_hash(hash_of, case):
    assert hash_of(SAME[case]) == hash_of(PAIR)


@pytest.mark.parametrize("case", DIFFERENT)
def test_another_computation_has_another_hash(hash_of, case):
    assert hash_of(DIFFERENT[case]) != hash_of(PAIR)


# Pairs of texts of a module whose ``run`` is asked for; of a single text, another module's function changes.
PAIRS = """
# two locals exchanged
def run(a, b):
    x = a
    y = b
    return x
# or
def run(a, b):
    x = a
    y = b
    return y
# a comprehension's variable hides a local
def run(x):
    return [x for y in x]
# or
def run(x):
    return [x for x in x]
# a lambda's closure
def run(a, b):
    return lambda: a
# or
def run(a, b):
    return lambda: b
# a lambda's default
def run(a):
    return lambda b=1: b
# or
def run(a):
    return lambda b=2: b
# nonlocal
def run(x):
    def f():
        nonlocal x
        x = 1
    f()
    return x
# or
def run(x):
    def f():
        x = 1
    f()
    return x
# a name of the class is not seen by its methods
a = 1
class run:
    a = 2
    def f(self):
        return a
# or
a = 3
class run:
    a = 2
    def f(self):
        return a
# a table of functions
def f(): return 1
TABLE = {'f': f}
def run(): return TABLE['f']()
# or
def f(): return 2
TABLE = {'f': f}
def run(): return TABLE['f']()
# getattr on a module
import toy.rest
def run(n): return getattr(toy.rest, n)()
# a module imported by its written name
import importlib
def run(): return importlib.import_module('toy.rest').f()
# from everything
from toy.rest import *
def run(): return f()
# a field that is none
from dataclasses import dataclass
from typing import ClassVar
@dataclass
class run:
    a: ClassVar[int] = 1
# or
from dataclasses import dataclass
from typing import ClassVar
@dataclass
class run:
    a: int = 1
# order of fields
from typing import NamedTuple
class run(NamedTuple):
    a: int
    b: int
# or
from typing import NamedTuple
class run(NamedTuple):
    b: int
    a: int
# dispatch on annotations
from functools import singledispatch
@singledispatch
def run(x): pass
@run.register
def _(x: int): return 1
# or
from functools import singledispatch
@singledispatch
def run(x): pass
@run.register
def _(x: float): return 1
# flags of a compiled kernel
import numba
@numba.njit(fastmath={'contract'})
def run(x): return x
# or
import numba
@numba.njit(fastmath=True)
def run(x): return x
# a dtype by its name
import numpy as np
def run(x): return np.asarray(x, dtype='float64')
# or
import numpy as np
def run(x): return np.asarray(x, dtype='float32')
# what a text formats
def run(x): return f'{x:.3f}'
# or
def run(x): return f'{x:.4f}'
# keywords from a mapping
def g(a, b): return a - b
def run(x): return g(**x)
# or
def g(b, a): return b - a
def run(x): return g(**x)
# keywords of a function that is handed on
from functools import partial
def g(a, b): return a - b
def run(x): return partial(g, a=x)
# or
from functools import partial
def g(b, a): return b - a
def run(x): return partial(g, a=x)
# a method's parameters
class run:
    def f(self, a, b): return a - b
# or
class run:
    def f(self, b, a): return b - a
# the kind of an exception
def run(): raise ValueError('no')
# or
def run(): raise KeyError('no')
# a text that is no exception's
def run(): return print('a')
# or
def run(): return print('b')
# an attribute that is deleted
def run(x): del x.a
# or
def run(x): del x.b
# zero and false
def run(): return 0
# or
def run(): return False
# one and one point zero
def run(): return 1
# or
def run(): return 1.0
# a pattern's names
def run(x):
    match x:
        case [a, b]: return a
# or
def run(x):
    match x:
        case [a, b]: return b
# an exception's name
def run(x, e):
    try: pass
    except OSError as e: return e
# or
def run(x, e):
    try: pass
    except OSError as f: return e
# walrus in a comprehension
def run(x):
    y = 1
    z = [y := i for i in x]
    return y
# or
def run(x):
    y = 1
    z = [w := i for i in x]
    return y
# starred and keyword-only
def run(a, *b): return b
# or
def run(*b, a): return b
# asynchronous
async def run(x): return x
# or
def run(x): return x
# imports that may fail
try:
    import numpy as n
except ImportError:
    n = None
def run(): return n
# or
try:
    import scipy as n
except ImportError:
    n = None
def run(): return n
# import as a local
def run(x):
    if x:
        import math as m
    else:
        import cmath as m
    return m
# or
def run(x):
    if x:
        import math as m
    else:
        import numpy as m
    return m
# keywords from a mapping of a function that is handed on
def g(a, b): return a - b
def run(f=g): return f(**{'a': 1, 'b': 2})
# or
def g(b, a): return b - a
def run(f=g): return f(**{'a': 1, 'b': 2})
"""


@pytest.mark.parametrize(
    "pair", re.split(r"^# (?!or$)", PAIRS, flags=re.MULTILINE)[1:], ids=lambda pair: pair.partition("\n")[0]
)
def test_texts_that_differ_in_what_they_do_differ(hash_of, pair):
    text, _, other = pair.partition("\n")[2].partition("# or\n")
    rest = {"toy.rest": "def f(): return 1", "toy.main": text}
    changed = {**rest, "toy.main": other} if other else {**rest, "toy.rest": "def f(): return 2"}
    assert hash_of(rest) != hash_of(changed)
    assert hash_of(rest) == hash_of(dict(rest)) == hash_of({**rest, "toy.more": "x = 1"})


def test_texts_of_exceptions_do_not_count(hash_of):
    texts = [
        f"class E(ValueError): pass\ndef wrong(x): return E({text})\n"
        f"def run(x):\n    if x: raise E({text}) from None\n    raise wrong(x)"
        for text in ("'no'", "'never', x", "f'{x} is not it'")
    ]
    assert hash_of({"toy.main": texts[0]}) == hash_of({"toy.main": texts[2]}) != hash_of({"toy.main": texts[1]})


def test_no_cycle_of_imports_or_calls_keeps_it_from_ending(hash_of):
    texts = {
        "toy.main": "from toy.main import run as again\nfrom toy.b import *\ndef run(): return again, g",
        "toy.b": "from toy.main import *\nfrom toy.main import g as h\ndef g(): return h, gone",
    }
    assert hash_of(texts) == hash_of(dict(reversed(texts.items())))
