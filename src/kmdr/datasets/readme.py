"""The tables in ``datasets/README.md``; ``python -m kmdr.datasets.readme`` writes them anew from the registry."""

from kmdr.base import paths
from kmdr.datasets.registry import comments, entry, names

_BEGIN, _END = "<!-- table: python -m kmdr.datasets.readme -->", "<!-- end of table -->"
_OPTIONS = "<!-- options of a file: python -m kmdr.datasets.readme -->"
_HEAD = ("name", "what", "papers", "shape", "sources, in order", "file to supply by hand", "licence", "cite")


def table() -> str:
    """Markdown table of the registered datasets."""
    rows: list[tuple[str, ...]] = [_HEAD, ("---",) * len(_HEAD)]
    for name in names():
        e = entry(name)
        what = f"{e.title}. Stand-in: {e.stand_in}" if e.stand_in else e.title
        own = "a file of yours" + (f", from {e.home}" if e.home else "")
        sources = "; ".join(str(source) for source in e.sources) or (own if e.by_path else e.home or "generated")
        files = [f"`{file}`" for s in e.sources for file in (s.filename, s.archive) if file]
        named = e.options.get("path", "") if e.by_path else ""
        named = " and ".join(f"`{path}`" for path in ([named] if isinstance(named, str) else named) if path)
        by_hand = " or ".join(dict.fromkeys(files)) or named or ("`dataset.path=FILE`" if e.by_path else "none")
        rows.append((f"`{name}`", what, ", ".join(e.papers), e.shape, sources, by_hand, e.licence, e.citation))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def options() -> str:
    """Markdown table of the options of the user's own file."""
    rows = [("option", "default", "what"), ("---",) * 3]
    rows += [(f"`dataset.{name}`", f"`{default}`", what) for name, (default, what) in comments("file").items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def renewed(text: str) -> str:
    """Text of ``datasets/README.md`` with each table made anew between its two marks."""
    for begin, made in ((_BEGIN, table()), (_OPTIONS, options())):
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(_END)
        text = f"{head}{begin}\n\n{made}\n\n{_END}{tail}"
    return text


if __name__ == "__main__":
    readme = paths.REGISTRY.with_name("README.md")
    readme.write_text(renewed(readme.read_text("utf-8")), "utf-8")
