"""Suggestions for a mistaken setting, such as a file, an import path or the usual name of a method."""

import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import yaml

from kmdr.base.errors import UserError, shown, unknown
from kmdr.base.paths import CONF, REGISTRY
from kmdr.base.plugins import paper_folders
from kmdr.base.text import path_override

# Usual names of methods, in lower case and without punctuation, and the reducer with the settings that runs them.
_REDUCERS = {
    **dict.fromkeys(("pca", "principalcomponents"), "svd centred=true"),
    **dict.fromkeys(("truncatedsvd", "lsa", "lsi", "svds"), "svd"),
    **dict.fromkeys(("randomizedsvd", "randomisedsvd", "rsvd", "apprsvd"), "approx_svd"),
    **dict.fromkeys(("randomprojection", "rp", "signs", "randomsigns", "rademacher"), "random_sign"),
    **dict.fromkeys(("gaussianrandomprojection", "jl", "normal"), "gaussian"),
    "sparserandomprojection": "achlioptas",
    **dict.fromkeys(("countsketch", "hashing", "se"), "sparse_embedding"),
    **dict.fromkeys(("leveragescores", "sampling", "cur"), "leverage"),
    "variancethreshold": "variance",
    **dict.fromkeys(("all", "full", "raw", "identity", "original", "kmeans", "baseline"), "none"),
}  # fmt: skip
# Usual names of methods that other packages have.
_CLASSES = {
    "nmf": "sklearn.decomposition.NMF", "ica": "sklearn.decomposition.FastICA",
    "fastica": "sklearn.decomposition.FastICA", "factoranalysis": "sklearn.decomposition.FactorAnalysis",
    "kernelpca": "sklearn.decomposition.KernelPCA", "sparsepca": "sklearn.decomposition.SparsePCA",
    "isomap": "sklearn.manifold.Isomap", "umap": "umap.UMAP",
}  # fmt: skip
# Engines of k-means that are named for methods, and the settings by which they may be asked for.
_ENGINES = ("prone", "coreset", "spherical")
_ENGINE_SETTINGS = {
    "kmeans.spherical": "kmeans.engine=spherical",
    **dict.fromkeys(("reducer.rows", "kmeans.rows"), "kmeans.engine=coreset kmeans.args.rows={}"),
}
# Options of Hydra and of kmdr that have the name of a setting.
_OPTIONS = ("--refresh",)


@cache
def setting_names() -> list[str]:
    """Return the first words of the names of all settings, sorted."""
    config = yaml.safe_load((CONF / "config.yaml").read_text("utf-8"))
    groups = [group for item in config.pop("defaults") if isinstance(item, dict) for group in item]
    return sorted({*config, *(group for group in groups if " " not in group), "r_grid"})


def unknown_setting(text: str, name: str, valid: Collection[str], others: Collection[str]) -> UserError:
    """Return the error for an override of an unknown setting, with the setting if the meaning is clear.

    `text` is the override, ``NAME=VALUE``, and `others` are all overrides of the command.
    """
    before, _, value = text.partition("=")
    if before == "r":
        sizes = value.strip("[]")
        return UserError(f"no setting is named 'r'; write {shlex.quote(f'r_grid=[{sizes}]')}")
    if "dataset=file" in others:
        from kmdr.datasets.file_options import FileOptions  # takes long to import, as the run itself does

        if before in {option.name for option in fields(FileOptions)}:
            remedy = shlex.quote(f"dataset.{name}={value}")
            return UserError(f"no setting is named {name!r}; an option of the dataset is written {remedy}")
    return unknown("setting", name, {*valid} - {"hydra"})


def unknown_key(name: str, overrides: Sequence[str], valid: Collection[str]) -> UserError:
    """Return the error for an unknown setting of a group, with the setting of an engine that does what it says."""
    if f"~{name}" in overrides:
        return UserError(f"the setting {name!r} was removed, but is given a value; remove '~{name}'")
    if name in _ENGINE_SETTINGS:
        value = next((text.partition("=")[2] for text in overrides if text.partition("=")[0] == name), "")
        return UserError(f"no setting is named {name!r}; write {_ENGINE_SETTINGS[name].format(value or '…')}")
    group, _, argument = name.partition(".")
    names_class = any(re.match(rf"{group}(\.path)?=\w+\.", text) for text in overrides)
    if group == "reducer" and names_class and argument:
        words = "NAME" if argument == "args" else argument
        return UserError(
            f"no setting is named {name!r}; an argument of the class is written reducer.args.{words}=VALUE"
        )
    return unknown("setting", name, valid)


def unknown_reducer(name: str, valid: Collection[str], *, settings: bool = True) -> UserError:
    """Return the error for an unknown reducer, with the reducer or class of a usual name.

    The remedy is written as `settings` of a command line, or else as arguments of `kmdr.compare`.
    """
    word = re.sub(r"\W|_", "", name).lower()
    if word in _CLASSES:
        path = _CLASSES[word]
        remedy = f"reducer={path}" if settings else repr(path)
        return UserError(f"no reducer is named {shown(name)}; any transformer runs by its import path: {remedy}")
    if word in _REDUCERS:
        reducer, *others = _REDUCERS[word].split()
        remedy = " ".join([f"reducer={reducer}", *(f"reducer.{other}" for other in others)])
        return UserError(f"no reducer is named {shown(name)}; use {remedy if settings else repr(reducer)}")
    if word in _ENGINES:
        remedy = f"kmeans.engine={word}" if settings else f"engine={word!r}"
        return UserError(f"no reducer is named {shown(name)}; it is an engine of k-means: {remedy}")
    return unknown("reducer", name, valid)


def is_import_path(name: str) -> bool:
    """Return whether a name has the form of an import path, ``package.module.Class``, and not that of a YAML file."""
    parts = name.split(".")
    return len(parts) > 1 and all(map(str.isidentifier, parts)) and parts[-1] not in ("yaml", "yml")


def unknown_choice(group: str, name: str, valid: Collection[str]) -> UserError:
    """Return the error for an unknown configuration of a group, or for an unknown main one, which has no group."""
    if not group:
        return UserError(f"no configuration is named {shown(name)}; --config-name takes a file of --config-dir")
    if group == "dataset":
        return unknown_dataset(name, valid)
    return unknown_reducer(name, valid) if group == "reducer" else unknown(group, name, valid)


def file_settings(path: str) -> str:
    """Return the settings that read a file, quoted for a shell."""
    return shlex.join(["dataset=file", f"dataset.path={path_override(path)}"])


def unknown_dataset(name: str, valid: Collection[str]) -> UserError:
    """Return the error for an unknown dataset, with the settings for a custom file."""
    if _is_file(name):
        return UserError(f"{shown(name)} looks like a file; write {file_settings(name)}")
    near = get_close_matches(name, valid, n=1, cutoff=0.7)
    names = (
        f"did you mean {near[0]!r}? 'kmdr list datasets' shows all" if near else f"valid: {', '.join(sorted(valid))}"
    )
    return UserError(f"no dataset is named {shown(name)}; {names}; a file of your own: {file_settings('FILE')}")


def _is_file(text: str) -> bool:
    return "." in text or "/" in text or _passes(text, Path.is_file)


def _passes(text: str, test: Callable[[Path], bool]) -> bool:
    """Return the outcome of a test such as `Path.is_file`; False for a text that cannot be a path."""
    with suppress(OSError, ValueError):  # such as a name that is too long
        return test(Path(text))
    return False


def check_words(arguments: Sequence[str], settings: Collection[str]) -> None:
    """Raise `UserError` for arguments that are not settings as Hydra takes them but whose meaning is clear.

    `settings` are the first words of the names of settings.
    """
    for text, following in zip(arguments, [*arguments[1:], ""], strict=False):
        dashed = re.fullmatch(r"--?((\w+)[\w.]*)(?:=(.*))?", text, re.DOTALL)
        if dashed and dashed[2] in settings and text not in _OPTIONS:
            value = following if dashed[3] is None else dashed[3]
            raise UserError(f"settings have no dashes; write {shlex.quote(f'{dashed[1]}={value}')} instead of {text}")
        if "=" not in text and not text.startswith("-") and _is_file(text) and _passes(text, Path.exists):
            raise UserError(f"{shown(text)} is not a setting; to read a file, write {file_settings(text)}")
        group, _, value = text.partition("=")
        for name in values_of_sweep(value) if group == "dataset" else ():
            if "." in name or "/" in name:
                raise unknown_dataset(name, ())
    names = [text.partition("=")[0] for text in arguments]
    if "dataset.path" in names and not {"dataset", "study"} & set(names):
        raise UserError("dataset.path is an option of datasets that are files; add dataset=file")


def values_of_sweep(text: str) -> list[str]:
    """Return the values of a setting, several of a sweep; none of a function, a list or an escaped character."""
    return [] if re.search(r"[()\[\]{}$\\]", text) else [part.strip(" '\"") for part in text.split(",")]


def unknown_command(name: str, following: str, commands: Collection[str]) -> UserError:
    """Return the error for the first word of a command line that is neither a command nor a setting."""
    if name in setting_names():
        return UserError(f"{name!r} is a setting; write {name}={following or '…'}")
    studies = [file for paper in paper_folders() for file in (paper.folder / "studies").glob("*.yaml")]
    known = {
        "reducer": {file.stem for file in (CONF / "reducer").glob("*.yaml")},
        "dataset": set(tomllib.loads(REGISTRY.read_text("utf-8"))),
        "study": {file.stem for file in studies},
    }
    for group, names in known.items():
        if name in names:
            return UserError(f"{name!r} is a {group}, not a command; write {group}={name}")
    if _passes(name, Path.is_file):
        return UserError(f"{name!r} is a file, not a command; to read it, write {file_settings(name)}")
    return unknown("command", name, commands)
