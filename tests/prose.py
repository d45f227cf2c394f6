"""Find wording and names that the project avoids: ``python tests/prose.py [PATH ...]``.

Prints one line per finding and exits with status 1 if there is any. Text is every docstring, comment and string with a
space in Python files, and every line of other files.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

# What not to write: a pattern, and what to write in its place.
WORDS = {
    r"\b(?:un)?told\b|\btells? of\b": "reported, logged, stated",
    r"\bbe had\b|\bat hand\b|\bhad by hand\b|\bis had\b|\bare had\b": "available, downloaded manually",
    r"\bbesides?\b": "in parallel, next to, in addition to",
    r"\bdraws? nothing\b": "deterministic",
    r"\bmend(?:s|ed|ing)?\b": "fix, repair",
    r"\b(?:leave|leaves|leaving|left) away\b": "remove",
    r"\b(?:leave|leaves|leaving|left) out\b": "omit, exclude",
    r"\baside\b": "temporary file, separately",
    r"\b(?:un)?seal(?:s|ed|ing)?\b": "checksum",
    r"\b(?:re)?stamp(?:s|ed|ing)?\b": "provenance, hash",
    r"\bguests?\b": "plugin",
    r"\b(?:is|are|was|were|been|be) gone\b": "disconnected, deleted, missing",
    r"\b(?:takes?|taken|took|gives?|given|gave) back\b": "requeue, release, return",
    r"\bbrought\b": "third-party, provided by",
    r"\bof one's own\b|\byours\b": "custom, user-defined",
    r"\bcannot tell\b|\bas far out\b|\bour law\b|\bas draws of\b": "undecided, standard statistical terms",
    r"\ban? (?:value|line|row|file|sentence|figure|column|number|entry|record|block|page|task|word|block) an? "
    r"(?!priori|time\b)[a-z]": "one ... per ...",
    r"(?<!there )\b(?:is|are) no (?!longer|more\b|less\b|fewer\b|other\b|\w+er\b)[a-z]+": "is not a",
    r"\bthat (?:is|are) to be\b": "to be",
    r"\bthose of\b": "name the noun",
    r"\bis understood as\b|\bas it is where nothing is said\b": "detected format, default",
    r"\bwhat is the matter\b|\bas ever\b|\bof old\b|\bnor is\b": "plain English",
    r"(?:^|[.:] )What (?!is |are |does |do |did |to )[a-z]+ [a-z]+": "name the subject",
}
_NAMES = re.compile(
    r"_*(of|by|in|on|at|under|over|beside|besides|among|amid|told|own|each|there|here|what|which|whose|where|why|how|"
    r"that|those|these|both|other|others|only|once|again|one)(_.*)?$"
)
_CODE = re.compile(r"(`+)[^`]+\1")  # names in code keep their spelling
# Names of functions that Python or the field fix.
_FIXED = re.compile(r"(over|under)flow|in(_place|verse|ertia)|one_hot|on_(request|error)")
# Methods and fields whose names are part of the code identity of committed rows.
_KEPT = {("lloyd.py", "own"), ("masked_kmeans.py", "own")}
_LOCALS = {"told", "own", "each", "there", "of", "found", "said", "gone", "had", "beside", "guest", "guests"}
_SUFFIXES = (".py", ".yaml", ".toml", ".md", ".html", ".js")
_COMPILED = [(re.compile(pattern, re.IGNORECASE | re.MULTILINE), advice) for pattern, advice in WORDS.items()]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of everything in a file that is written for people."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), start=1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line number and the name of each function and local variable that says nothing about what it is."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if (
                (path.name, node.name) not in _KEPT
                and _NAMES.match(node.name)
                and not _FIXED.match(node.name.lstrip("_"))
            ):
                yield node.lineno, f"function {node.name}"
            continue
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        name = node.id if stored else node.arg if isinstance(node, ast.arg) else ""
        if name in _LOCALS and (path.name, name) not in _KEPT:
            yield node.lineno, f"variable {name}"


def findings(path: Path) -> list[str]:
    """Return one line per finding in a file."""
    lines = []
    for number, quoted in texts(path):
        text = _CODE.sub(lambda code: "`" + "\n" * code[0].count("\n") + "`", quoted)
        for pattern, advice in _COMPILED:
            for match in pattern.finditer(text):
                line = number + text.count("\n", 0, match.start())
                lines.append((line, f"{path}:{line}: {' '.join(match[0].split())!r}: write {advice}"))
    if path.suffix == ".py":
        lines += [(line, f"{path}:{line}: {name}: name it by what it does or holds") for line, name in names(path)]
    return [text for _, text in sorted(lines)]


def files(paths: list[Path]) -> Iterator[Path]:
    """Yield the files to inspect: some as named, and those of a folder that hold prose."""
    for path in paths:
        if path.is_file():
            yield path
        else:
            yield from sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)


if __name__ == "__main__":
    found_lines = [line for path in files([Path(name) for name in sys.argv[1:]]) for line in findings(path)]
    print(*found_lines, sep="\n")
    sys.exit(bool(found_lines))
