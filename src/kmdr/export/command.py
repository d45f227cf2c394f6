"""``kmdr export``: a folder of results as an RO-Crate, or a registered dataset described in Croissant."""

from collections.abc import Sequence
from pathlib import Path

from kmdr.base.errors import UserError, shown, unknown
from kmdr.base.text import announce, tell
from kmdr.export.croissant import write_croissant
from kmdr.results.folder import has_file

_USAGE = "'kmdr export DIR --crate OUT' or OUT.zip, or 'kmdr export --croissant DATASET OUT.json'"


def run(arguments: Sequence[str]) -> None:
    """``kmdr export DIR --crate OUT [LICENSE=URL] | --croissant NAME OUT``: results as RO-Crate, data in Croissant."""
    licences = [text.partition("=")[2] for text in arguments if text.upper().startswith("LICENSE=")]
    words = [text for text in arguments if not text.upper().startswith("LICENSE=")]
    kinds = [text for text in words if text.startswith("-")]
    names = [text for text in words if not text.startswith("-")]
    if any(kind not in ("--crate", "--croissant") for kind in kinds):
        raise unknown("option of 'kmdr export'", kinds[-1], ["--crate", "--croissant"])
    if len(kinds) != 1 or len(names) != 2 or len(licences) > 1 or (licences and kinds != ["--crate"]):
        raise UserError(f"'kmdr export' takes {_USAGE}")
    if kinds == ["--croissant"]:
        announce(str(write_croissant(names[0], Path(names[1]).expanduser())))
        return
    if words[0] == "--crate":  # then DIR comes last
        names.reverse()
    licence = licences[0] if licences else ""
    if licence and not licence.startswith(("https://", "http://")):
        raise UserError(
            f"LICENSE = {shown(licence)} is not an address; give one, e.g. https://spdx.org/licenses/CC-BY-4.0"
        )
    folder, target = (Path(name).expanduser() for name in names)
    from kmdr.export.crate import write_crate

    announce(str(write_crate(folder, target, licence)))
    if not licence:
        tell("kmdr: the crate says that no licence is stated; LICENSE=https://spdx.org/licenses/… states one")
    if not has_file(folder, "report/index.html"):
        tell(f"kmdr: {folder} has no report yet; after 'kmdr report {folder}' a crate has figures and verdicts too")
