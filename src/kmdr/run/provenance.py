"""What made a row: the code that computes it, the code's version and the environment it ran in."""

import ast
import hashlib
import importlib.util
import pkgutil
import platform
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_info

import kmdr
from kmdr.paths import CHECKOUT, IN_CHECKOUT

_PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba", "llvmlite", "pandas", "joblib", "hydra-core", "omegaconf", "matplotlib",
    "pooch", "threadpoolctl", "tqdm",
)  # fmt: skip


_CODE = ("src", "conf", "datasets/registry.toml")


# What trials and facts import and what computes none of their numbers: lists of what there is, errors, clocks and this
# module; of facts also what declares them, hands rows to them and shows them.
_NO_NUMBERS = frozenset({
    "kmdr", "kmdr.analysis.results", "kmdr.claims.catalogue", "kmdr.claims.reported", "kmdr.clustering",
    "kmdr.datasets", "kmdr.errors", "kmdr.figures.panels", "kmdr.figures.style", "kmdr.figures.tables",
    "kmdr.reducers", "kmdr.run", "kmdr.run.provenance", "kmdr.run.store", "kmdr.timing",
})  # fmt: skip
_PROSE = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _shape(node: Any) -> Any:
    """Return what a syntax tree says, without docstrings and places; the same in all versions of Python."""
    if isinstance(node, list):
        return [_shape(item) for item in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, _PROSE) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    said = [(name, _shape(value)) for name, value in fields.items() if value not in (None, []) and name != "ctx"]
    return [type(node).__name__, *said]


@cache
def _parsed(module: str) -> ast.Module:
    """Return the syntax tree of a module of the package, whether it lies in a folder or in an archive."""
    spec: Any = importlib.util.find_spec(module)
    return ast.parse(spec.loader.get_source(module) or "")


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is below a node and no expression: a tenth of all."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from _statements(child)


@cache
def _imported(module: str) -> frozenset[str]:
    """Return the modules of the package that a module imports, anywhere in it."""
    spec: Any = importlib.util.find_spec(module)
    names: set[str] = set()
    for node in _statements(_parsed(module)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), spec.parent)
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return frozenset(name for name in names if name.partition(".")[0] == "kmdr" and _is_module(name))


@cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is no package
        return False


@cache
def _content_hash(module: str) -> str:
    return hashlib.sha256(repr(_shape(_parsed(module))).encode()).hexdigest()


def _hash_of(modules: set[str]) -> str:
    lines = "".join(f"{module} {_content_hash(module)}\n" for module in sorted(modules))
    return hashlib.sha256(lines.encode()).hexdigest()[:12]


@cache
def code_hash(*modules: str) -> str:
    """Return a hash of some modules of the package and of all that they import of it.

    It is one of what the code says: comments, docstrings, the layout of lines and the version of Python change nothing.

    Parameters
    ----------
    *modules : str
        Their full names.

    Returns
    -------
    str
        12 hexadecimal digits.
    """
    reached: set[str] = set()
    ahead = list(modules)
    while ahead:
        module = ahead.pop()
        if module not in reached | _NO_NUMBERS:
            reached.add(module)
            ahead += _imported(module)
    return _hash_of(reached)


@cache
def code_version() -> str:
    """Return the package's version; in a checkout also the last commit to code, and ``.dirty`` if it changed since.

    Only what can change a number counts as code: the package, the configurations and the dataset registry. Where git
    is not there or refuses to tell, a hash of all of the package stands for the commit.
    """
    if not IN_CHECKOUT:
        return kmdr.__version__
    root = CHECKOUT

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        commit = git("log", "-1", "--format=%h", "--abbrev=10", "--", *_CODE)
        dirty = git("status", "--porcelain", "--", *_CODE)
    except (OSError, subprocess.CalledProcessError):
        modules = {module.name for module in pkgutil.walk_packages(kmdr.__path__, "kmdr.")} - {"kmdr.__main__"}
        return f"{kmdr.__version__}+h{_hash_of(modules)}"
    return f"{kmdr.__version__}+g{commit}" + (".dirty" if dirty else "")


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@cache
def machine() -> str:
    """Return 12 hexadecimal digits that tell this machine from others, and do not say its name."""
    try:
        number = Path("/etc/machine-id").read_text("ascii").strip()
    except (OSError, ValueError):
        number = ""
    return hashlib.sha256(f"kmdr {number} {platform.node()}".encode()).hexdigest()[:12]


def environment() -> dict[str, Any]:
    """Return the manifest of the environment: packages, BLAS, CPU, Python, operating system. No names of machines."""
    # numpy and scipy each carry a BLAS; import both, so that the manifest does not depend on what ran before.
    import scipy.linalg  # noqa: F401

    pools = [
        {key: pool[key] for key in ("user_api", "internal_api", "version", "architecture") if key in pool}
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "os": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()).strip(),
        "cpu": _cpu(),
        "cores": joblib.cpu_count(),
        "blas": sorted(pools, key=str),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }
