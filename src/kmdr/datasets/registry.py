"""The dataset registry: shape, files, sources, licence and loader of each dataset."""

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from kmdr.base import paths
from kmdr.base.errors import UserError, unknown
from kmdr.base.plugins import origin_of_root, plugin_roots
from kmdr.datasets.file_options import DEFAULTS, IDENTIFYING

_DEFAULT_MAX_BYTES = 64 * 2**20
_SHA256 = re.compile(r"[0-9a-f]{64}")
# Options of every dataset. At its default, an option that an entry does not list leaves its prepared folder unchanged.
COMMON = MappingProxyType({"rows": "raw", "scale": "none"})
_ENTRY_NEEDS = {"title", "papers", "n", "d", "k", "licence", "citation", "format", "content_sha256", "sources"}
_ENTRY_MAY = {"label", "options", "further", "fixed", "stand_in", "home", "nonnegative", "domain", "collections"}
_SOURCE_NEEDS = {
    "local": {"filename", "sha256"},
    "url": {"url", "filename", "sha256"},
    "package": {"package", "version", "archive", "sha256"},
}
_SOURCE_MAY = {"kind", "format", "part", "max_bytes"}


@dataclass(frozen=True)
class Source:
    """One place that has a file for a loader: a ``"local"`` file, a ``"url"``, or a ``"package"`` of the index.

    `filename` is the name of the file in the cache and in a user's folder, `format` its loader. `part` says which of a
    dataset's files it is, if there are several. A package's file is a `member` of its `archive`, or the archive itself.
    Files longer than `max_bytes` are neither downloaded nor unpacked.
    """

    kind: str
    filename: str
    sha256: str
    format: str
    part: str = ""
    url: str = ""
    package: str = ""
    version: str = ""
    archive: str = ""
    archive_sha256: str = ""
    member: str = ""
    max_bytes: int = _DEFAULT_MAX_BYTES

    def __str__(self) -> str:
        if self.kind == "package":
            return f"{self.archive} of the package index"
        return self.url or f"local file {self.filename}"


@dataclass(frozen=True)
class Entry:
    """A dataset of the registry, with the fields of its table in ``registry.toml``.

    `plugin` and `package` are the origin and the package of the plugin that provides it, and empty for a built-in one.
    """

    name: str
    title: str
    papers: tuple[str, ...]
    n: int
    d: int
    k: int
    licence: str
    citation: str
    format: str
    content_sha256: str
    sources: tuple[Source, ...]
    options: Mapping[str, Any]
    further: Mapping[str, Any]
    fixed: Mapping[str, Any]
    label: str = ""
    stand_in: str = ""
    home: str = ""
    nonnegative: bool = False
    domain: str = ""
    collections: tuple[str, ...] = ()
    plugin: str = ""
    package: str = ""

    @property
    def shape(self) -> str:
        """The shape in words, e.g. ``"400 x 10304, k = 40"``."""
        return f"{self.n} x {self.d}, k = {self.k}" if self.n else "any"

    @property
    def offered(self) -> Mapping[str, Any]:
        """The options a user can set, with their defaults."""
        return {**COMMON, **self.options, **self.further}

    @property
    def needs_path(self) -> bool:
        """True if its files have no known hash, so that the user names them with option ``path``."""
        return "path" in self.options

    @property
    def parts(self) -> tuple[str, ...]:
        """The files that the loader takes, in its order."""
        return tuple(dict.fromkeys(source.part for source in self.sources))


def entries() -> Mapping[str, Entry]:
    """Return all entries by name: the built-in ones in the order of the registry, then the ones from plugins."""
    known = dict(_read(paths.REGISTRY))
    for root in plugin_roots():
        for file in root.files("datasets", "*.toml"):
            for name, added in _read(file).items():
                if name in known:
                    raise UserError(f"{file} has a dataset {name!r}, a name that is already taken; rename it")
                known[name] = replace(added, plugin=origin_of_root(root), package=root.package)
    return known


def names() -> tuple[str, ...]:
    """Return the names of the registered datasets: the built-in ones, then the ones from plugins."""
    return tuple(entries())


def entry(name: str) -> Entry:
    """Return the registry entry of a dataset."""
    known = entries()
    if name not in known:
        raise unknown("dataset", name, known)
    return known[name]


@functools.cache
def _read(path: Path) -> Mapping[str, Entry]:
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}; fix it") from error
    return MappingProxyType({name: _entry(name, table) for name, table in tables.items()})


def _keys(where: str, table: Mapping[str, Any], needs: set[str], may: set[str]) -> None:
    if missing := needs - table.keys():
        raise UserError(f"{where} of the dataset registry lacks {', '.join(sorted(missing))}")
    for key in table.keys() - needs - may:
        raise unknown(f"key in {where} of the dataset registry", key, needs | may)


def _entry(name: str, table: Mapping[str, Any]) -> Entry:
    _keys(f"[{name}]", table, _ENTRY_NEEDS, _ENTRY_MAY)
    if not re.fullmatch(r"\w[\w+.-]*", name):  # it becomes the name of a folder
        raise UserError(f"the dataset registry has a dataset named {name!r}; use letters, digits, _ + . -")
    sources = tuple(_source(name, source, table["format"]) for source in table["sources"])
    plain = {
        key: value
        for key, value in table.items()
        if key not in {"papers", "sources", "options", "further", "fixed", "collections"}
    }
    options, further = table.get("options", {}), table.get("further", {})
    if table["format"] == "file" and "options" not in table:
        options = {option: DEFAULTS[option] for option in IDENTIFYING}
        further = {option: default for option, default in DEFAULTS.items() if option not in options}
    return Entry(
        name=name,
        papers=tuple(table["papers"]),
        collections=tuple(table.get("collections", ())),
        sources=sources,
        options=MappingProxyType(dict(options)),
        further=MappingProxyType(dict(further)),
        fixed=MappingProxyType(dict(table.get("fixed", {}))),
        **plain,
    )


def _source(name: str, table: Mapping[str, Any], default_format: str) -> Source:
    kind = table.get("kind", "")
    if kind not in _SOURCE_NEEDS:
        raise unknown(f"kind of source in [{name}] of the dataset registry", kind, _SOURCE_NEEDS)
    may = _SOURCE_MAY | ({"member", "member_sha256"} if kind == "package" else set())
    _keys(f"a source in [{name}]", table, _SOURCE_NEEDS[kind], may)
    if ("member" in table) != ("member_sha256" in table):
        raise UserError(f"a source in [{name}] of the dataset registry needs both of member and member_sha256")
    fields = {"format": default_format, **table}
    if kind == "package":
        fields["archive_sha256"] = table["sha256"]
        fields["sha256"] = fields.pop("member_sha256", table["sha256"])
        fields["filename"] = PurePosixPath(table.get("member", table["archive"])).name
    for key in ("filename", "archive"):
        # These become names in the cache folder.
        if fields.get(key) and PurePosixPath(fields[key]).name != fields[key]:
            raise UserError(f"a source in [{name}] of the dataset registry has a folder in its {key}: {fields[key]!r}")
    if not _SHA256.fullmatch(fields["sha256"]):
        raise UserError(f"a source in [{name}] of the dataset registry has no valid sha256: {fields['sha256']!r}")
    return Source(**fields)
