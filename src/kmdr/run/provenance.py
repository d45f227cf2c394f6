"""What made a row: the code that computes it, the code's version and the environment it ran in."""

import ast
import hashlib
import importlib.util
import pkgutil
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from importlib.machinery import ModuleSpec
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
# The packages of folders that KMDR_PATH names; their names depend on where the folder lies.
PLUGIN_PREFIX = "kmdr_guest_"
_FOLDER = re.compile(rf"^{PLUGIN_PREFIX}[0-9a-f]+\b")
# What stands for such a name in a hash.
PLUGIN = "<plugin>"
# Packages that need no line in a hash: Python's own, and those whose versions are in every row's environment.
_RECORDED = frozenset({*sys.stdlib_module_names, *_PACKAGES, "hydra", "sklearn"})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
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


def _spec(module: str) -> ModuleSpec | None:
    """Find a module; neither it nor the packages around it are imported. None where it is not found."""
    if known := getattr(sys.modules.get(module), "__spec__", None):
        return known  # type: ignore[no-any-return]
    first, *others = module.split(".")
    spec = None
    with suppress(ImportError, ValueError):  # ValueError: it was made without a specification, as plugins' packages are
        spec = importlib.util.find_spec(first)
    places = spec.submodule_search_locations if spec else getattr(sys.modules.get(first), "__path__", None)
    for name in others:
        first = f"{first}.{name}"
        spec = _spec_in(first, list(places or ()))
        places = spec.submodule_search_locations if spec else None
    return spec


def _spec_in(module: str, places: list[str]) -> ModuleSpec | None:
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
def _parsed(module: str) -> ast.Module:
    """Return the syntax tree of a module, in a folder or in an archive; an empty one where it has no Python source."""
    spec = _spec(module)
    source: Any = None
    with suppress(ImportError, AttributeError, UnicodeError, OSError):  # compiled, or the folder of a namespace package
        source = spec.loader.get_source(module)  # type: ignore[union-attr]
    try:
        return ast.parse(source or "")
    except (SyntaxError, ValueError):  # reached, perhaps, but never imported
        return ast.parse("")


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is below a node and no expression: a tenth of all."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from _statements(child)


@cache
def _names(module: str) -> frozenset[str]:
    """Return what the import statements of a module may name, modules and what is in them, anywhere in it."""
    spec = _spec(module)
    package = (spec.parent if spec else "") or ""
    names: set[str] = set()
    for node in _statements(_parsed(module)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # beyond the outermost package
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return frozenset(names)


@cache
def _imported(module: str) -> frozenset[str]:
    """Return the modules that a module imports, anywhere in it, and that are no part of an installed distribution.

    Modules of the package import others of it alone. Of other modules the packages around what they import count too.
    """
    own = {name for name in _names(module) if _is_own(name) and _is_module(name)}
    if _is_own(module):
        return frozenset(own)
    others = {name for name in _names(module) if not _is_own(name)}
    others |= {name[: dot.start()] for name in others for dot in re.finditer(r"\.", name)}
    return frozenset(own | set(filter(_is_source, others)))


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == "kmdr"


@cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is no package
        return False


def _is_source(name: str) -> bool:
    """Whether a name is that of a module outside of the standard library and of installed distributions."""
    package = name.partition(".")[0]
    return package not in _RECORDED and not _distribution(package) and _spec(name) is not None


@cache
def _by_package() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


@cache
def _distribution(package: str) -> str:
    """Return name and version of the distribution that a package was installed with; nothing for source elsewhere.

    What is installed in place for development is source: its version stays the same while it is edited.
    """
    spec = _spec(package)
    where = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
    if not any(_INSTALLED & set(Path(place).parts) for place in where if place):
        return ""
    return next((f"{name} {metadata.version(name)}" for name in _by_package().get(package, [])), "")


def _distributions(module: str) -> set[str]:
    """Return name and version of the distributions that source elsewhere imports, but for those in `environment`."""
    if _is_own(module):
        return set()
    packages = {name.partition(".")[0] for name in _names(module)} - _RECORDED - {"kmdr"}
    return {text for package in packages if (text := _distribution(package))}


@cache
def _content_hash(module: str) -> str:
    return hashlib.sha256(repr(_shape(_parsed(module))).encode()).hexdigest() + _compiled(module)


def _compiled(module: str) -> str:
    """Return a hash of the file of a module without Python source; nothing where there is source, or no file."""
    spec = None if _is_own(module) else _spec(module)
    path = Path(spec.origin) if spec and spec.has_location and spec.origin else None
    if path is None or path.suffix == ".py" or not path.is_file():
        return ""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def code_lines(*modules: str) -> list[str]:
    """Return a line for each module that some modules reach by imports, with the hash of what its code says.

    The walk goes through this package and through source that belongs to no installed distribution, such as plugins
    and modules on ``PYTHONPATH``. Of a distribution that such source imports there is a line with its version, unless
    `environment` has it. Imports whose names are only known when they are executed are not followed.
    """
    reached: set[str] = set()
    ahead = list(modules)
    while ahead:
        module = ahead.pop()
        if module not in reached | _NO_NUMBERS:
            reached.add(module)
            ahead += _imported(module)
    versions = {line for module in reached for line in _distributions(module)}
    return sorted(_lines(reached) + [f"{line}\n" for line in versions])


def _lines(modules: set[str]) -> list[str]:
    return [f"{_FOLDER.sub(PLUGIN, module)} {_content_hash(module)}\n" for module in sorted(modules)]


def hash_of(lines: list[str]) -> str:
    """Return 12 hexadecimal digits of the SHA-256 of some lines."""
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


@cache
def code_hash(*modules: str) -> str:
    """Return a hash of some modules and of all that they import: see `code_lines`.

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
    return hash_of(code_lines(*modules))


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
    if _spec(module) is None:
        return package if loaded is not None else ""  # defined in a notebook
    names = () if _is_own(module) else _by_package().get(package, ())
    known = next((f"{each} {metadata.version(each)}" for each in names), package)
    return f"{known} {code_hash(*_definers(module, name))}"


def _definers(module: str, name: str) -> list[str]:
    """Return a module, and those from which it imports a name, one after the other."""
    found = [module]
    while name:
        bases = [each.rpartition(".")[0] for each in sorted(_names(found[-1])) if each.endswith(f".{name}")]
        bases = [base for base in bases if base not in found and _spec(base) is not None]
        if not bases:
            break
        found.append(bases[0])
    return found


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
        return f"{kmdr.__version__}+h{hash_of(_lines(modules))}"
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
