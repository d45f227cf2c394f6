"""The frozen declarations of the claims: what is tested was fixed before the rows that are judged.

``frozen.json`` has each claim's sentence, quotation, parts, scope and test in words, and each paper's margins, studies
with their repetitions, and a hash of the code of its tests. The report prints the file's hash, and whether the
declarations still equal it. ``python -m kmdr.claims.frozen`` writes the file.
"""

import hashlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kmdr.analysis.statistics import Margin
from kmdr.base.identity import code_hash
from kmdr.claims.catalogue import Claim, Paper, papers
from kmdr.config.studies import studies

FILE = Path(__file__).with_name("frozen.json")


def _claim(claim: Claim, paper: Paper) -> dict[str, Any]:
    return {
        "sentence": claim.sentence,
        "where": claim.where,
        "quote": paper.quotes.get(claim.id, ""),
        "central": dict(claim.central),
        "side": dict(claim.side),
        "scope": list(claim.scope),
        "datasets": list(claim.datasets),
        "paired": claim.paired,
        "studies": list(claim.studies),
        "facts": list(claim.facts),
        "test": " ".join((inspect.getdoc(claim.test) or "").split()),
    }


def _margins(module: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        named = value.items() if isinstance(value, Mapping) else [("", value)]
        for key, margin in named:
            if isinstance(margin, Margin):
                found[f"{name}.{key}" if key else name] = {**margin._asdict(), "marks": dict(margin.marks)}
    return found


def declarations() -> dict[str, Any]:
    """Return the declarations of the built-in papers' claims."""
    repetitions = {study["name"]: study["repeats"] for study in studies()}
    frozen = {}
    for paper in (paper for paper in papers() if paper.folder.package.startswith("kmdr.papers")):
        read = sorted({name for claim in paper.claims for name in claim.studies})
        module = f"{paper.folder.package}.claims"
        frozen[paper.name] = {
            "code": code_hash(module),
            "margins": _margins(paper.folder.module("claims")),
            "repetitions": {name: repetitions[name] for name in read if name in repetitions},
            "claims": {claim.id: _claim(claim, paper) for claim in paper.claims},
        }
    return frozen


def text_of(frozen: Mapping[str, Any]) -> str:
    """Return the declarations as the text of the file."""
    return json.dumps(frozen, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def frozen_note() -> str:
    """Return the hash of the frozen file, and whether the declarations equal it."""
    frozen = FILE.read_text("utf-8")
    digest = hashlib.sha256(frozen.encode()).hexdigest()[:12]
    if frozen == text_of(declarations()):
        return f"Tests, margins, central statements and repetitions are frozen (hash {digest})."
    return f"Tests, margins, central statements or repetitions differ from the frozen ones (hash {digest})."


if __name__ == "__main__":
    FILE.write_text(text_of(declarations()), "utf-8")
