"""A folder of results as an RO-Crate with the Process Run Crate profile: each study is an action.

An action is described by the rows, the log and the registry. Its inputs are datasets (by the hash of their content)
and configurations, its instruments the versions of kmdr that made the rows, and its results the rows and the files
made from them. It names no person and no machine.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kmdr.base.errors import UserError
from kmdr.base.files import temporary_folder, writing
from kmdr.base.private_paths import without_folders
from kmdr.base.text import counted
from kmdr.claims.catalogue import claims, items
from kmdr.config.studies import studies
from kmdr.datasets import registry
from kmdr.results.checksums import checked_content, sha256_hex
from kmdr.results.folder import files_at, has_file, require_file
from kmdr.results.json_files import read_json
from kmdr.results.manifests import log_lines
from kmdr.results.paths import ASKED, ATLAS, CONFIGS, LOG, MISSING, MULTIVERSE, PLAN, UNIVERSES, parts_of
from kmdr.results.reader import check_places, public_content, read_rows, stated_paths
from kmdr.results.row_check import RowCheck
from kmdr.results.schema import COLUMNS, VALUES
from kmdr.results.store import note_killed_runs, refuse_runs
from kmdr.results.table import refuse_missing_table, rows_file
from kmdr.results.table_stream import most_bytes
from kmdr.results.text_rows import TextRow

_CRATE, _PROFILE = "https://w3id.org/ro/crate/1.1", "https://w3id.org/ro/wfrun/process/0.5"
_METADATA = "ro-crate-metadata.json"
Entity = dict[str, Any]

# Files of a crate in addition to the table, with their description; folders with all their files.
_PARTS: Mapping[str, str] = {
    CONFIGS: "The configuration of each config_hash, one per line",
    "environments": "The environment of an env_hash: packages, BLAS, CPU, Python",
    LOG: "One line per run: when it ended, and its times",
    ASKED: "The configurations that each study was last run with",
    UNIVERSES: "The universes of papers that were run",
    PLAN: "The plan of each study",
    MISSING: "Datasets that were not available, with the reason",
    "facts": "Tables computed from datasets",
    "figures": "A figure, or its numbers",
    "tables": "A table",
    "verdicts.csv": "The verdict on each claim of the papers",
    "components.csv": "The statements that verdicts rest on",
    "margins.csv": "Verdicts at other margins",
    "report": "The report",
}
# Text files, which are searched for names of the user's folders.
_TEXT = (".csv", ".html", ".json", ".jsonl", ".md", ".tex")
_FORMATS: Mapping[str, tuple[str, str]] = {  # media type, PRONOM
    ".csv": ("text/csv", "x-fmt/18"),
    ".html": ("text/html", "fmt/471"),
    ".json": ("application/json", "fmt/817"),
    ".jsonl": ("application/jsonl", ""),
    ".md": ("text/markdown", "fmt/1149"),
    ".pdf": ("application/pdf", "fmt/276"),
    ".png": ("image/png", "fmt/11"),
    ".tex": ("application/x-tex", "fmt/280"),
    ".xz": ("application/x-xz", "fmt/1098"),
}


def _refer(ids: Iterable[str]) -> dict[str, str] | list[dict[str, str]]:
    """Return references to entities; a single one not as a list, as the specification recommends."""
    references = [{"@id": id_} for id_ in dict.fromkeys(ids)]
    return references[0] if len(references) == 1 else references


def _slug(text: str) -> str:
    return quote(re.sub(r"\s+", "-", text.strip()), safe="-._")


# The rows in subfolders, and the files that belong to rows.
_ROWS_OF = {MULTIVERSE: "multiverses", ATLAS: "the atlas"}
_OF_ROWS = (CONFIGS, "environments", LOG, ASKED, UNIVERSES, PLAN, MISSING, "facts")


def _described_files(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield name, description and content of each file of a crate."""
    table, *inner = [rows_file(part) for part in parts_of(folder)]
    yield table.name, "The rows, one per trial", public_content(folder, table)
    parts = [(folder / name, what) for name, what in _PARTS.items()]
    for rows in inner:
        parts += [(rows, f"The rows of {_ROWS_OF[rows.parent.name]}, one per trial")]
        parts += [(rows.parent / name, _PARTS[name]) for name in _OF_ROWS]
    private = {path.encode() for rows in (table, *inner) for path in stated_paths(rows)}
    for path, what in parts:
        for file in files_at(folder, path):
            name = file.relative_to(folder).as_posix()
            if not name.isprintable():
                raise UserError(f"{folder} has a file named {name!r}, which kmdr did not write; remove it")
            if file in inner:
                content = public_content(file.parent, file)
            elif file.name == MISSING:
                content = _missing_content(folder, file)
            else:
                content = require_file(folder, file, most_bytes())
            if file.suffix in _TEXT and any(path in content for path in private):
                raise UserError(
                    f"{file} states the folder of your data, as older versions of kmdr wrote it; run 'kmdr report "
                    f"{folder}', which writes only the names of files, then export again"
                )
            yield name, what, content


def _missing_content(folder: Path, file: Path) -> bytes:
    """Return the content of ``missing.json`` without the folders that older versions wrote."""
    reasons = read_json(folder, file)
    public = {name: without_folders(str(reason)) for name, reason in reasons.items()}
    if public == reasons:
        return require_file(folder, file)
    return checked_content(public)


def _file(name: str, what: str, content: bytes) -> Entity:
    media, pronom = _FORMATS.get(Path(name).suffix, ("application/octet-stream", ""))
    entity: Entity = {
        "@id": quote(name), "@type": "File", "name": name, "description": what, "contentSize": str(len(content)),
        "sha256": sha256_hex(content), "encodingFormat": media,
    }  # fmt: skip
    if pronom:
        entity["encodingFormat"] = [media, {"@id": f"https://www.nationalarchives.gov.uk/PRONOM/{pronom}"}]
    return entity


def _formats(files: Sequence[Entity]) -> list[Entity]:
    """Return the entities of the PRONOM formats."""
    known = {file["encodingFormat"][1]["@id"]: file["encodingFormat"][0] for file in files
             if isinstance(file["encodingFormat"], list)}  # fmt: skip
    return [{"@id": id_, "@type": "WebSite", "name": name} for id_, name in sorted(known.items())]


def _columns() -> list[Entity]:
    """Return the data dictionary of the rows."""
    return [
        {
            "@id": f"#column-{name}", "@type": "PropertyValue", "name": name,
            "description": f"{VALUES[name].meaning}; {VALUES[name].words}",
            **({"unitText": VALUES[name].unit} if VALUES[name].unit else {}),
        }
        for name in COLUMNS
    ]  # fmt: skip


def data_id(data_sha256: str) -> str:
    """Return the identifier of a dataset, from the hash of its content."""
    return f"urn:sha256:{data_sha256}"


def _data(name: str, data_sha256: str, rows: Sequence[Mapping[str, str]]) -> list[Entity]:
    """Return a dataset with the entities it refers to: licence, citation, and the files of its sources."""
    row = rows[0]
    shape = f"{row['n']} points, {row['d']} features, k = {row['k']}"
    entity: Entity = {
        "@id": data_id(data_sha256), "@type": "Dataset", "name": name, "identifier": f"sha256:{data_sha256}",
        "sha256": data_sha256, "description": f"{row['stand_in'] or name}; {shape}",
    }  # fmt: skip
    if name not in registry.names():
        return [entity]
    entry = registry.entry(name)
    entity["description"] = f"{entry.title}; {shape}" + (f"; stand-in: {row['stand_in']}" if row["stand_in"] else "")
    licence = {"@id": f"#licence-{_slug(entry.licence)}", "@type": "CreativeWork", "name": entry.licence,
               "description": "Licence of the data as stated by their source"}  # fmt: skip
    cited = {"@id": f"#citation-{name}", "@type": "CreativeWork", "name": entry.citation}
    downloads = [
        {"@id": source.url, "@type": "DataDownload", "name": source.filename, "contentUrl": source.url,
         "sha256": source.sha256}
        for source in entry.sources if source.url
    ]  # fmt: skip
    entity |= {"license": {"@id": licence["@id"]}, "citation": {"@id": cited["@id"]}}
    if downloads:
        entity["distribution"] = _refer(download["@id"] for download in downloads)
    return [entity, licence, cited, *downloads]


def _times(folder: Path) -> dict[str, tuple[datetime, datetime]]:
    """Return the times at which the first run of each study began and the last ended, as far as the log has them."""
    times: dict[str, tuple[datetime, datetime]] = {}
    for line in log_lines(folder):
        entry = json.loads(line)
        with suppress(KeyError, ValueError, TypeError):  # older versions logged less
            ended = datetime.fromisoformat(entry["finished"]).astimezone(UTC)
            began = ended - timedelta(seconds=round(entry["serial_seconds"] + entry["parallel_seconds"]))
            for study in entry["studies"]:
                first, last = times.get(study, (began, ended))
                times[study] = min(first, began), max(last, ended)
    return times


def _results_of(study: str, files: Iterable[str]) -> Iterator[str]:
    """Yield the files of a folder that were made from a study."""
    made = {item.id for item in items() if study in item.studies}
    stem = re.escape(re.sub(r"[^\w.+-]", "_", study))
    own_files = re.compile(rf"(own_)?{stem}(_\d+)?")
    judged = any(study in claim.studies for claim in claims())
    for name in files:
        path = Path(name)
        if path.parts[0] in ("figures", "tables"):
            if path.stem in made or own_files.fullmatch(path.stem):
                yield name
        elif judged and name in ("verdicts.csv", "components.csv", "margins.csv"):
            yield name


def _action(study: str, rows: Sequence[Mapping[str, str]], files: Sequence[str], titles: Mapping[str, str]) -> Entity:
    """Return a study as an action, without its times."""
    failed = sum(row["status"] != "ok" for row in rows)
    inputs = [data_id(digest) for digest in sorted({row["data_sha256"] for row in rows})]
    described = {f"environments/{key}.json" for key in {row["env_hash"] for row in rows}} | {CONFIGS}
    trials = f"{counted(len(rows), 'trial')}" + (f", {failed} of them failed" if failed else "")
    status = "Failed" if failed == len(rows) else "Completed"
    results = [next(name for name in files if name.startswith("rows.csv")), *_results_of(study, files)]
    return {
        "@id": f"#study-{_slug(study)}", "@type": "CreateAction", "name": study,
        "description": f"{titles.get(study) or study}: {trials}",
        "instrument": _refer(_software_id(version) for version in sorted({row["code_version"] for row in rows})),
        "object": _refer([*inputs, *(quote(name) for name in files if name in described)]),
        "result": _refer(map(quote, results)),
        "actionStatus": f"http://schema.org/{status}ActionStatus",
    }  # fmt: skip


def _software_id(version: str) -> str:
    return f"urn:kmdr:{quote(version)}"


def metadata(folder: Path, files: Sequence[Entity], licence: str = "") -> dict[str, Any]:
    """Return the content of ``ro-crate-metadata.json``.

    The first of the entities of the folder's files is the table. `licence` is the address of the licence of the
    results; without one, the crate says that none is stated.
    """
    rows = read_rows(rows_file(folder), RowCheck(folder))
    names = [file["name"] for file in files]
    by_study: dict[str, list[TextRow]] = {}
    by_data: dict[tuple[str, str], list[TextRow]] = {}
    for row in rows:
        by_study.setdefault(row["study"], []).append(row)
        by_data.setdefault((row["dataset"], row["data_sha256"]), []).append(row)
    titles = {study["name"]: study["title"] for study in studies()}
    times = _times(folder)
    actions = [_action(study, of_study, names, titles) for study, of_study in sorted(by_study.items())]
    for action in actions:
        if action["name"] in times:
            began, ended = times[action["name"]]
            action |= {"startTime": began.isoformat(), "endTime": ended.isoformat()}
    data = [entity for (name, digest), of_data in sorted(by_data.items()) for entity in _data(name, digest, of_data)]
    inputs = [entity["@id"] for entity in data if entity["@type"] == "Dataset"]
    published = max((ended for _, ended in times.values()), default=datetime.now(UTC))
    terms = {
        "@id": licence or "#licence-not-stated", "@type": "CreativeWork", "name": licence or "none stated",
        "description": "The licence of these results" if licence else "To be stated by whoever publishes these results",
    }  # fmt: skip
    table = {**files[0], "variableMeasured": _refer(f"#column-{name}" for name in COLUMNS)}
    software = [
        {"@id": _software_id(version), "@type": "SoftwareApplication", "name": "kmdr", "softwareVersion": version,
         "license": {"@id": "https://spdx.org/licenses/MIT"},
         "description": "A reproducible benchmark harness for dimensionality reduction before k-means"}
        for version in sorted({row["code_version"] for row in rows})
    ]  # fmt: skip
    root = {
        "@id": "./", "@type": "Dataset", "name": f"Results of {', '.join(sorted(by_study)[:3])}"
        + (f" and {counted(len(by_study) - 3, 'more study', 'more studies')}" if len(by_study) > 3 else ""),
        "description": f"{counted(len(rows), 'trial')} of k-means after dimensionality reduction, "
        "with figures and verdicts",
        "datePublished": published.date().isoformat(), "license": {"@id": terms["@id"]},
        "conformsTo": {"@id": _PROFILE}, "hasPart": _refer([*(file["@id"] for file in files), *inputs]),
        "mentions": _refer(action["@id"] for action in actions),
    }  # fmt: skip
    descriptor = {"@id": _METADATA, "@type": "CreativeWork", "conformsTo": {"@id": _CRATE}, "about": {"@id": "./"}}
    profile = {"@id": _PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    mit = {"@id": "https://spdx.org/licenses/MIT", "@type": "CreativeWork", "name": "MIT License",
           "description": "The licence of kmdr"}  # fmt: skip
    entities: list[Entity] = [
        descriptor, root, profile, table, *files[1:], *data, *software, *actions, *_columns(), *_formats(files),
        terms, mit,
    ]  # fmt: skip
    graph = list({entity["@id"]: entity for entity in reversed(entities)}.values())[::-1]
    return {"@context": [f"{_CRATE}/context", {"sha256": "https://schema.org/sha256"}], "@graph": graph}


def write_crate(folder: Path, target: Path, licence: str = "") -> Path:
    """Write a folder of results as a crate, a new folder or a file ``.zip``; it appears complete or not at all.

    Task files and labels are not exported: the table has all of the trials. A folder that a run is writing is refused,
    because its files would be of several moments.
    """
    check_places(folder)
    refuse_runs(folder, "export")
    for part in parts_of(folder):
        refuse_missing_table(part)
    note_killed_runs(folder)
    table = rows_file(folder)
    if not has_file(folder, table):
        raise UserError(f"{folder} has no {table.name} to export; name a folder of results")
    if target.exists() or target.is_symlink():
        raise UserError(f"{target} already exists; name another, or remove it")
    contents: list[tuple[str, bytes]] = []
    files: list[Entity] = []
    for name, what, content in _described_files(folder):
        contents.append((name, content))
        files.append(_file(name, what, content))
    text = json.dumps(metadata(folder, files, licence), indent=2, ensure_ascii=False) + "\n"
    contents.insert(0, (_METADATA, text.encode()))
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(target.parent) as temporary:
            crate = temporary / target.name
            if target.suffix == ".zip":
                with zipfile.ZipFile(crate, "w", zipfile.ZIP_DEFLATED) as archive:
                    for name, content in contents:
                        member = zipfile.ZipInfo(name)  # without a date: the same results give the same bytes
                        member.external_attr = 0o644 << 16
                        archive.writestr(member, content, zipfile.ZIP_DEFLATED)
            else:
                for name, content in contents:
                    (crate / name).parent.mkdir(parents=True, exist_ok=True)
                    (crate / name).write_bytes(content)
            refuse_runs(folder, "export")  # which may have begun meanwhile
            crate.rename(target)
    return target
