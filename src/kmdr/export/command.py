"""``kmdr export``: a folder of results as an RO-Crate, or a registered dataset described in Croissant."""

from pathlib import Path

from kmdr.base.errors import UserError, shown
from kmdr.base.text import announce, tell
from kmdr.export.croissant import write_croissant
from kmdr.results.folder import has_file


def run(path: Path, crate: Path | None, license: str | None, croissant: str | None) -> None:  # noqa: A002
    """Write the results in ``path`` to a crate, or the description of a dataset to ``path``."""
    if (crate is None) == (croissant is None) or (license and croissant):
        raise UserError(
            "write 'kmdr export DIR --crate OUT' or OUT.zip, or 'kmdr export --croissant DATASET OUT.json'; a licence "
            "is stated for crates only"
        )
    if croissant is not None:
        announce(str(write_croissant(croissant, path)))
        return
    assert crate is not None
    if license and not license.startswith(("https://", "http://")):
        raise UserError(
            f"LICENSE = {shown(license)} is not an address; give one, e.g. https://spdx.org/licenses/CC-BY-4.0"
        )
    from kmdr.export.crate import write_crate

    announce(str(write_crate(path, crate, license or "")))
    if not license:
        tell("kmdr: note: the crate says that no licence is stated; --license https://spdx.org/licenses/… states one")
    if not has_file(path, "report/index.html"):
        tell(f"kmdr: note: {path} has no report yet; after 'kmdr report {path}' a crate has figures and verdicts too")
