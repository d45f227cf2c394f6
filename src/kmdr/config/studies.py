"""Configuration files of kmdr, papers and plugins, and the studies among them."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader
from omegaconf.errors import OmegaConfBaseException

from kmdr.base.errors import UserError, shown, unknown
from kmdr.base.paths import CONF
from kmdr.base.plugins import Root, paper_folders, plugin_roots
from kmdr.base.text import first_few, tell
from kmdr.config.suggestions import setting_names

# For each group of configurations that a paper may have: its folder in the paper's, and the package of its files.
GROUPS = {"study": ("studies", "_global_"), "grid": ("grid", "_global_"), "kmeans": ("kmeans", "kmeans")}
# Names of studies without a file: rows outside any study, the rows of the atlas, and the rows of multiverses.
RESERVED, MULTIVERSE_PREFIX = ("custom", "atlas", "atlas_times"), "multiverse_"
# OmegaConf's reader of YAML on libyaml, where PyYAML has it: a tenth of the time, with the same values and checks.
_Loader: Any = type("_Loader", ((yaml.CSafeLoader,) if yaml.__with_libyaml__ else ()) + (get_yaml_loader(),), {})
# Folders of a plugin's ``conf`` that are read.
_READ_GROUPS = ("grid", "kmeans", "reducer", "runner", "study")
_MOST_NAMED = 5
_SUFFIXES = (".yaml", ".yml")
# A configuration file has a few dozen values.
MOST_BYTES = 2**20
_MOST_VALUES = 100_000
# Octal numbers such as 010, and numbers to the base of 60 such as 1:30, with signs, underscores and fractions.
_ODD_NUMBER = re.compile(r"[-+]?0[0-7_]*[1-7_][0-7_]*|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_MAY_BE_ODD = re.compile(r"(?<![\w.])0[0-9_]|[0-9_]:[0-9]")
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def config_files(group: str) -> dict[str, Path]:
    """Return all configurations of one group, by name.

    Two files of the same name are refused: a study of a plugin would pass for that of a paper.
    """
    papers = [paper.folder / GROUPS[group][0] for paper in paper_folders()] if group in GROUPS else []
    files: dict[str, Path] = {}
    for folder in [CONF / group, *papers, *(root.folder / "conf" / group for root in plugin_roots())]:
        for path in sorted(folder.glob("*.yaml")):
            if files.setdefault(path.stem, path) != path:
                raise UserError(f"{path} and {files[path.stem]} are both named {path.stem}; rename one of them")
    return files


def external_files(group: str) -> dict[str, Path]:
    """Return the configurations of one group outside ``conf``, which papers and plugins have."""
    return {name: path for name, path in config_files(group).items() if path.parent != CONF / group}


def load_config(file: Path) -> dict[str, Any]:
    """Return a configuration with unresolved interpolations; the caller may change it."""
    return copy.deepcopy(_current(file))


def _current(file: Path) -> dict[str, Any]:
    """Return a configuration that its callers share."""
    try:
        return _read(file, file.stat().st_ctime_ns)  # unlike the time of modification, it cannot be set back
    except (OSError, UnicodeDecodeError, yaml.YAMLError, OmegaConfBaseException, RecursionError) as error:
        raise UserError(f"{file} cannot be read ({' '.join(str(error).split())}); fix it") from error


@cache
def _read(file: Path, changed: int) -> dict[str, Any]:
    del changed  # the file is read again after it was modified
    text = file.read_text("utf-8")
    check_yaml(file, text, _Loader)
    config = yaml.load(text, _Loader)
    if "${" in text:
        OmegaConf.create(config)  # refuses malformed interpolations
    if not isinstance(config, dict | None):
        raise UserError(f"{file} has no settings but {shown(config)}; write NAME: VALUE")
    return {str(key): value for key, value in (config or {}).items()}


def check_yaml(file: Path, text: str, loader: Any = yaml.SafeLoader) -> None:
    """Raise `UserError` for a text that is too long, that its aliases make too large, or that has an odd number.

    Errors of syntax are raised as PyYAML states them.
    """
    if len(text) > MOST_BYTES:
        raise UserError(f"{file} has more than {MOST_BYTES} characters; remove it from the folder")
    if "&" not in text and not _MAY_BE_ODD.search(text):
        return
    sizes: dict[int, float] = {}

    def size(node: Any) -> float:
        """Return the number of values in a node once its aliases are expanded."""
        if id(node) not in sizes:
            sizes[id(node)] = float("inf")  # for a node that contains itself
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            items = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in pairs for part in pair]
            sizes[id(node)] = 1 + sum(map(size, items))
            if isinstance(node, yaml.ScalarNode):
                _check_number(file, node)
        return sizes[id(node)]

    count = size(yaml.compose(text, loader))
    if count > _MOST_VALUES:
        raise UserError(f"{file} has {count:.0f} values, more than {_MOST_VALUES}; use fewer aliases")


def _check_number(file: Path, node: yaml.ScalarNode) -> None:
    if node.tag not in _NUMBER_TAGS or node.style or not _ODD_NUMBER.fullmatch(node.value):
        return
    base, digits = 60 if ":" in node.value else 8, node.value.replace("_", "")
    if base == 60 or int(digits, 8) != int(digits):
        raise UserError(
            f"{file}, line {node.start_mark.line + 1}: YAML reads {shown(node.value)} as a number to the base of "
            f"{base}; write it in decimal digits without a leading 0, or as a string in quotes"
        )


def _invalid(file: Path) -> UserError:
    return UserError(
        f"{file} is not a valid study; it needs repeats, and datasets and reducers under study, as the papers' studies "
        "have"
    )


def _check_keys(file: Path, config: Mapping[str, Any]) -> None:
    """Refuse a setting that no run has."""
    known = {*setting_names(), "defaults"} - {"grid", "hydra"}
    for name in config:
        if name not in known:
            raise UserError(f"{file}: {unknown('setting', name, known)}")


def load_study(file: Path) -> dict[str, Any]:
    """Return the configuration of a study as `load_config` does, with the file's name unless the study has one."""
    config = load_config(file)
    _check_keys(file, config)
    if not isinstance(config.get("study"), dict):
        raise _invalid(file)
    config["study"].setdefault("name", file.stem)
    return config


def study_names() -> list[str]:
    """Return the names of the studies, sorted."""
    return sorted(config_files("study"))


def studies() -> tuple[Mapping[str, Any], ...]:
    """Return the ``study`` tree of each study, with plain names of datasets and reducers, and its ``repeats``.

    A file that is not a valid study is refused; see `readable_studies`.
    """
    return tuple(_study(path) for _, path in sorted(config_files("study").items()))


def read_study(name: str) -> Mapping[str, Any]:
    """Return a study as `studies` does."""
    return _study(config_files("study")[name])


@contextmanager
def naming_study(name: str) -> Iterator[None]:
    """Let an error about a study begin with the name of its file, unless it has that already."""
    try:
        yield
    except UserError as error:
        file = str(config_files("study").get(name, ""))
        if not file or file in str(error):
            raise
        raise UserError(f"{file}: {error}") from error


def readable_studies() -> tuple[list[Mapping[str, Any]], list[UserError]]:
    """Return the studies of the valid files, and the error of each invalid file."""
    valid: list[Mapping[str, Any]] = []
    errors: list[UserError] = []
    for _, path in sorted(config_files("study").items()):
        try:
            valid.append(_study(path))
        except UserError as error:
            errors.append(error)
    return valid, errors


def on_request() -> frozenset[str]:
    """Return the names of the studies that run only when they are named, because they take long."""
    return frozenset(study["name"] for study in studies() if study["on_request"])


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_string, value))


def _is_flip(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and _is_string(value.get("entry"))
        and _are_strings(value.get("base"))
        and _are_strings(value.get("claims"))
        and all(isinstance(value.get(group) or {}, Mapping) for group in ("datasets", "reducers"))
        and _is_string(value.get("departs", ""))
    )


# What the entries of a study are, and a test of each; its other entries are checked when it is run.
_ENTRIES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("title", "note", "paper"), ("a string", _is_string)),
    **{name: ("true or false", lambda value: isinstance(value, bool)) for name in ("on_request", "beyond_paper")},
    "flip": ("a mapping with entry, base and claims", _is_flip),
}
_STUDY_KEYS = {"name", "datasets", "reducers", "most_repeats", *_ENTRIES}


def _study(path: Path) -> Mapping[str, Any]:
    config = _current(path)  # a copy takes ten times as long as the rest, and reports ask for all studies often
    _check_keys(path, config)
    try:
        given = {str(key): value for key, value in config["study"].items() if value is not None or key == "name"}
        study = {"name": path.stem, "title": "", "note": "", "on_request": False, **given}
        study["repeats"] = config["repeats"]
        for group in ("datasets", "reducers"):
            names = [str(next(iter(item)) if isinstance(item, Mapping) and item else item) for item in study[group]]
            study[group] = list(dict.fromkeys(names))
    except (AttributeError, KeyError, TypeError) as error:
        raise _invalid(path) from error
    if study["name"] != path.stem:
        raise UserError(
            f"{path} has study.name = {shown(study['name'])}, but a study has the name of its file; write {path.stem}"
        )
    if path.stem in RESERVED or path.stem.startswith(MULTIVERSE_PREFIX):
        raise UserError(f"{path} has the name of other rows, which kmdr would read as {path.stem}; rename it")
    for name, value in given.items():
        if name not in _STUDY_KEYS:
            raise UserError(f"{path}: {unknown('entry of study', name, _STUDY_KEYS)}")
        words, is_valid = _ENTRIES.get(name, ("", bool))
        if words and not is_valid(value):
            raise UserError(f"{path} has study.{name} = {shown(value)}, which is not {words}; change it")
    return study


# -- files that nothing reads -----------------------------------------------------------------------------------------


def unread_files() -> list[Path]:
    """Return the configuration files of plugins and their papers that nothing reads, by name."""
    roots = plugin_roots()
    folders = {root.folder / "conf" / group for root in roots for group in _READ_GROUPS}
    places = [root.folder / "conf" for root in roots]
    for paper in paper_folders():
        if any(root.folder in paper.folder.parents for root in roots):
            of_paper = [paper.folder / folder for folder, _ in GROUPS.values()]
            folders.update(of_paper)
            places += of_paper
    files = {file for place in places for file in _configurations(place)}
    return sorted(file for file in files if file.suffix != ".yaml" or file.parent not in folders)


def _configurations(folder: Path) -> Iterator[Path]:
    """Yield the YAML files of a folder and its subfolders, except hidden ones."""
    for file in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if file.suffix in _SUFFIXES and not is_hidden and file.is_file():
            yield file


def tell_unread_files() -> None:
    """Name, once per process, the configuration files of plugins that nothing reads."""
    _tell(plugin_roots())


@cache
def _tell(places: tuple[Root, ...]) -> None:
    del places  # of other plugins there may be other files
    if files := unread_files():
        tell(
            f"kmdr: note: kmdr does not read {first_few(list(map(str, files)), _MOST_NAMED)}; a plugin has "
            f"configurations in conf/GROUP/NAME.yaml, with the groups {', '.join(_READ_GROUPS)}, and datasets in "
            "datasets/registry.toml"
        )
