"""The frozen declarations of the claims, and their amendments.

``frozen.json`` in a paper's folder has each claim's sentence, quotation, parts, scope and test in words, the margins,
the studies with their repetitions, and a hash of the code of the tests. The report prints the hash of the files of
its papers, and whether the declarations still equal them.

``python -m kmdr.claims.frozen`` writes the files. A claim whose statements, margins, datasets or repetitions changed
needs a new entry in ``[[amendments]]`` of ``paper.toml``, which the report shows; code and words may change without.
"""

import argparse
import hashlib
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kmdr.analysis.statistics import Margin
from kmdr.base.errors import UserError
from kmdr.base.identity import code_hash
from kmdr.base.text import counted
from kmdr.claims.catalogue import Claim, Paper, papers
from kmdr.config.studies import studies


def built_in() -> list[Paper]:
    """Return the built-in papers."""
    return [paper for paper in papers() if paper.folder.package.startswith("kmdr.papers")]


def file_of(paper: Paper) -> Path:
    """Return the file with a paper's frozen declarations."""
    return paper.folder.folder / "frozen.json"


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
    margins: dict[str, Any] = {}
    for name, value in vars(module).items():
        named = value.items() if isinstance(value, Mapping) else [("", value)]
        for key, margin in named:
            if isinstance(margin, Margin):
                margins[f"{name}.{key}" if key else name] = {**margin._asdict(), "marks": dict(margin.marks)}
    return margins


def declarations(paper: Paper) -> dict[str, Any]:
    """Return the declarations of a paper's claims."""
    repetitions = {study["name"]: study["repeats"] for study in studies()}
    read = sorted({name for claim in paper.claims for name in claim.studies})
    return {
        "code": code_hash(f"{paper.folder.package}.claims"),
        "margins": _margins(paper.folder.module("claims")),
        "repetitions": {name: repetitions[name] for name in read if name in repetitions},
        "claims": {claim.id: _claim(claim, paper) for claim in paper.claims},
        "amendments": [asdict(amendment) for amendment in paper.amendments],
    }


# What decides of the declaration of a claim; the rest is words.
_DECIDES = ("scope", "datasets", "paired", "studies", "facts")


def not_amended(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what differs between two declarations of a paper's claims and is in no amendment that only ``new`` has.

    These are the ids of claims, and the names of margins and studies: a margin or the repetitions of a study need an
    amendment of some claim. Claims, with their margins and studies, may be added without one only to a new paper.
    """
    added = [entry["claim"] for entry in new["amendments"] if entry not in old.get("amendments", [])]
    claims = [
        id_ for id_ in old["claims"] | new["claims"] if id_ not in added and _decides(old, id_) != _decides(new, id_)
    ]
    names = [
        name
        for what in ("margins", "repetitions")
        for name in old[what] | new[what]
        if not added and _number(old[what].get(name)) != _number(new[what].get(name))
    ]
    removed = [entry["claim"] for entry in old.get("amendments", []) if entry not in new["amendments"]]
    return sorted({*claims, *names, *removed})


def _decides(declared: Mapping[str, Any], id_: str) -> object:
    claim = declared["claims"].get(id_)
    return claim and [*(claim[name] for name in _DECIDES), sorted(claim["central"]), sorted(claim["side"])]


def _number(declared: object) -> object:
    return declared["value"] if isinstance(declared, Mapping) else declared


def text_of(declared: Mapping[str, Any]) -> str:
    """Return the declarations as the text of a file."""
    return json.dumps(declared, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def frozen_note(shown: Sequence[Paper]) -> str:
    """Return the hash of the frozen files of some papers, and whose declarations differ from them.

    Parameters
    ----------
    shown : sequence of Paper
        In any order. If only some of them have a frozen file, the note names these; it is empty if none has.
    """
    frozen = sorted((paper for paper in shown if file_of(paper).is_file()), key=lambda paper: (paper.year, paper.name))
    if not frozen:
        return ""
    contents = [file_of(paper).read_bytes() for paper in frozen]
    digest = hashlib.sha256(b"".join(contents)).hexdigest()[:12]
    pairs = zip(frozen, contents, strict=True)
    changed = [paper.name for paper, content in pairs if content != text_of(declarations(paper)).encode()]
    if changed:
        parts = f"Tests, margins, central statements or repetitions of {', '.join(changed)}"
        return f"{parts} differ from the frozen ones (hash {digest})."
    of_papers = f" of {', '.join(paper.name for paper in frozen)}" if len(frozen) < len(shown) else ""
    frozen_parts = f"Tests, margins, central statements and repetitions{of_papers} are frozen"
    amended = sorted({amendment.claim for paper in frozen for amendment in paper.amendments})
    since = (
        f"Since the claims were first judged, tests or repetitions of {counted(len(amended), 'claim')} were amended "
        f"({', '.join(amended)}); the papers' pages say how and why."
        if amended
        else "None was amended since the claims were first judged."
    )
    return f"{frozen_parts} (hash {digest}). {since}"


def freeze(paper: Paper) -> None:
    """Write the declarations of a paper's claims; raise a UserError if one changed without an amendment."""
    file, declared = file_of(paper), declarations(paper)
    if file.is_file() and (names := not_amended(json.loads(file.read_text("utf-8")), declared)):
        raise UserError(
            f"the declarations of {', '.join(names)} changed; say in [[amendments]] of {file.with_name('paper.toml')} "
            "what was changed and why"
        )
    file.write_text(text_of(declared), "utf-8")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # answers --help instead of writing
    try:
        for of_papers in built_in():
            freeze(of_papers)
    except UserError as reason:
        sys.exit(f"kmdr: error: {reason}")
