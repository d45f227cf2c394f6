"""Write the tables in ``datasets/README.md``: ``python -m kmdr.datasets.readme``."""

import argparse
import json

from kmdr.base import paths
from kmdr.datasets.file_options import DEFAULTS, TEXTS
from kmdr.datasets.registry import entry, names

_BEGIN, _END = "<!-- table: python -m kmdr.datasets.readme -->", "<!-- end of table -->"
_OPTIONS = "<!-- options of a file: python -m kmdr.datasets.readme -->"
_HEAD = ("name", "what", "papers", "shape", "sources, in order", "file for manual download", "licence", "cite")


def table() -> str:
    """Return a Markdown table of the registered datasets."""
    rows: list[tuple[str, ...]] = [_HEAD, ("---",) * len(_HEAD)]
    for name in names():
        e = entry(name)
        what = f"{e.title}. Stand-in: {e.stand_in}" if e.stand_in else e.title
        custom = "your own file" + (f", from {e.home}" if e.home else "")
        sources = "; ".join(str(source) for source in e.sources) or (custom if e.needs_path else e.home or "generated")
        files = [f"`{file}`" for s in e.sources for file in (s.filename, s.archive) if file]
        named = e.options.get("path", "") if e.needs_path else ""
        named = " and ".join(f"`{path}`" for path in ([named] if isinstance(named, str) else named) if path)
        manual = " or ".join(dict.fromkeys(files)) or named or ("`dataset.path=FILE`" if e.needs_path else "none")
        rows.append((f"`{name}`", what, ", ".join(e.papers), e.shape, sources, manual, e.licence, e.citation))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def options() -> str:
    """Return a Markdown table of the options of a custom data file."""
    rows = [("option", "default", "what"), ("---",) * 3]
    rows += [(f"`dataset.{name}`", f"`{json.dumps(DEFAULTS[name])}`", text) for name, text in TEXTS.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def renewed(text: str) -> str:
    """Return the text of ``datasets/README.md`` with both tables replaced."""
    for begin, new in ((_BEGIN, table()), (_OPTIONS, options())):
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(_END)
        text = f"{head}{begin}\n\n{new}\n\n{_END}{tail}"
    return text


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # answers --help instead of writing
    readme = paths.REGISTRY.with_name("README.md")
    readme.write_text(renewed(readme.read_text("utf-8")), "utf-8")
