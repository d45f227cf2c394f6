"""Code identity on kmdr's own code: it keeps through every edit of words and names, and notices every other edit."""

import ast
import json
import os
import pkgutil
import random
import re
import subprocess
import sys
import zlib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import kmdr
from edits import (
    changed_trees,
    counted_nodes,
    keywords_in,
    mutated,
    other_program,
    source_of,
    with_other_locals,
    with_other_words,
)
from kmdr import reducers
from kmdr.base.identity import Definition, code_hash, reach
from kmdr.clustering import engines
from kmdr.config.task import entry_points
from kmdr.results.outdated import CODE_COLUMNS, outdated_code
from kmdr.results.table import load_rows

MODULES = [module.name for module in pkgutil.walk_packages(kmdr.__path__, "kmdr.") if "skeletons" not in module.name]
NUMERIC = [name for name in MODULES if re.match(r"kmdr\.(reducers|clustering|metrics|base\.seeding|linalg)\b", name)]
MUTATED = [name for name in NUMERIC if not name.startswith("kmdr.linalg") and name != "kmdr.clustering"]
EDITS = 240


@cache
def rows():
    """Return the entry points of rows with each reducer and each engine, by a name, and what they reach."""
    kinds = [(reducer, "kmdr") for reducer in [*reducers.names(), "sklearn.decomposition.PCA"]]
    kinds += [("none", engine) for engine in [*engines.names(), "sklearn.cluster.KMeans"]]
    points = {kind: tuple(entry_points(kind[0], "synth", kind[1])) for kind in kinds}
    points["none", "kmdr, labelings of a file"] = (
        *points["none", "kmdr"],
        *entry_points("none", "file", labelings=True),
    )
    return {kind: (entries, frozenset(reach(*entries))) for kind, entries in points.items()}


@cache
def kept_names():
    """Return the names of parameters that may be passed by keyword, as those of entry points may."""
    points = {entry for entries, _ in rows().values() for entry in entries}
    texts = {
        module: ast.walk(ast.parse(source_of(module))) for module, _, _ in (point.partition(":") for point in points)
    }
    entered = {
        arg.arg
        for module, nodes in texts.items()
        for node in nodes
        if f"{module}:{getattr(node, 'name', '')}" in points
        for arg in ast.walk(node)
        if isinstance(arg, ast.arg)
    }
    return keywords_in(map(source_of, MODULES)) | {"self", "cls"} | entered


@cache
def reaching(module):
    """Return the entry points of the rows that reach something of a module."""
    return [entries for entries, reached in rows().values() if any(each.module == module for each in reached)]


def hashes(entries):
    return [code_hash(*each) for each in entries]


@cache
def known_hash(*entries):
    """Return the hash of the unchanged program, which an edit lets `code_hash` forget."""
    return code_hash(*entries)


def known_hashes(entries):
    return [known_hash(*each) for each in entries]


@pytest.fixture
def choose(request):
    seed = os.environ.get("KMDR_TEST_SEED", "0")
    return random.Random(zlib.crc32(f"{seed} {request.node.name}".encode()))


@pytest.mark.slow
@pytest.mark.parametrize("module", NUMERIC)
def test_other_names_for_every_local_keep_the_hash(module):
    text = source_of(module)
    other = with_other_locals(text, kept_names())
    compile(other, module, "exec")
    assert module != "kmdr.clustering.lloyd" or other.count("_other_") > 1000
    entries = reaching(module)
    if not entries:
        pytest.skip("no row reaches a definition of this module")
    before = known_hashes(entries)
    with changed_trees({module: ast.parse(other)}):
        assert hashes(entries) == before


@pytest.mark.slow
def test_random_edits_of_words_and_names_keep_the_hash(choose):
    modules = [module for module in NUMERIC if reaching(module)]
    for _ in range(EDITS):
        module = choose.choice(modules)
        text = source_of(module)
        match choose.randrange(4):
            case 0:
                rarely = choose.random()
                text = with_other_locals(text, kept_names(), lambda name, rarely=rarely: choose_by(name, rarely))
            case 1:
                text = with_other_words(text, choose)
            case 2:
                text = f"# {choose.random()}\n\n" + re.sub(r"(?m)^( *)(return\b)", r"\1# a comment\n\n\1\2", text)
            case 3:
                text = ast.unparse(ast.parse(text)) + "\n\ndef _nobody_calls_this(x):\n    return x\n"
        entries = choose.choice(reaching(module))
        before = known_hash(*entries)
        with changed_trees({module: ast.parse(text)}):
            assert code_hash(*entries) == before, f"{module}:\n{text}"


def choose_by(name, share):
    return zlib.crc32(name.encode()) / 2**32 < share


@pytest.mark.slow
def test_random_mutations_change_the_hash_of_the_rows_that_reach_them(choose):
    """Of functions, classes and constants that some row reaches: no row runs the others."""
    noticed = Counter()
    while noticed.total() < EDITS:
        module = choose.choice(MUTATED)
        tree = ast.parse(source_of(module))
        name = choose.choice([name for name, _ in definitions(tree)])
        entries = [entries for entries, reached in rows().values() if Definition(module, name) in reached]
        if not entries:
            continue
        statement = choose.choice([node for each, node in definitions(tree) if each == name])
        parent, field, place = choose.choice(list(counted_nodes(statement)) or [(statement, "value", None)])
        node = getattr(parent, field) if place is None else getattr(parent, field)[place]
        other = mutated(node, choose) if isinstance(node, ast.AST) else None
        if other is None or ast.dump(other) == ast.dump(node):
            continue
        before = ast.unparse(parent)
        if place is None:
            setattr(parent, field, other)
        else:
            getattr(parent, field)[place] = other
        some = choose.choice(entries)
        known = known_hash(*some)
        with changed_trees({module: ast.fix_missing_locations(tree)}):
            assert code_hash(*some) != known, f"{module}.{name}: {before}\nbecame {ast.unparse(parent)}"
        noticed[type(node).__name__] += 1
    assert len(noticed) > 10


def definitions(tree):
    """Return the functions, classes and constants of a module, by name."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append((node.name, node))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            goals = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [(goal.id, node) for goal in goals if isinstance(goal, ast.Name)]
    return found


def test_what_no_row_reaches_of_the_computing_modules_is_known():
    """Oracles that tests compare with, what lists, checks or guards methods, and names for type checkers."""
    reached = frozenset().union(*(reached for _, reached in rows().values()))
    others = set()
    for module in MUTATED:
        for name, node in definitions(ast.parse(source_of(module))):
            is_code = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if is_code and Definition(module, name) not in reached and not re.search(r"_(reference|error)$", name):
                others.add(f"{module}.{name}".removeprefix("kmdr."))
    assert others == {
        "clustering.engines._check_arguments", "clustering.engines.check", "clustering.engines.check_allowed",
        "clustering.engines.cluster", "clustering.engines.engine",
        "clustering.engines.entry_point", "clustering.engines.module_of", "clustering.engines.names",
        "clustering.engines.origin_of_engine", "clustering.engines.summary",
        "metrics.registry.has_custom", "metrics.registry.metric",
        "reducers.check_output", "reducers.plugin_output._checked", "reducers.plugin_output.check_output",
        "metrics.references.known_metric", "metrics.references.refuse_taken_names", "metrics.references.score_against",
        "metrics.scores.check_matching", "metrics.scores.matching_modules", "metrics.scores.matchings",
        "metrics.scores.residual", "reducers.__getattr__", "reducers.base._documented", "reducers.base._entries",
        "reducers.entry_point", "reducers.make", "reducers.module_of", "reducers.named", "reducers.names",
        "reducers.origin_of_reducer", "reducers.recorded", "reducers.settings", "reducers.summary",
    }  # fmt: skip


# -- moves -----------------------------------------------------------------------------------------------------------


def moved(old, new):
    """Return the texts of all modules that name a module, after it moved, and its own in its new place."""
    package, _, name = old.rpartition(".")
    texts = {}
    for module in MODULES:
        text = source_of(module)
        other = re.sub(rf"\b{re.escape(old)}\b", new, text)
        inside = rf"(?m)^( *)from {re.escape(package)} import (.*\b)?{name}\b(?!,)$"
        target = new.rpartition(".")
        other = re.sub(inside, rf"\1from {target[0]} import {target[2]} as {name}", other)
        if other != text:
            texts[module] = other
    own = texts.pop(old, source_of(old))
    return {**texts, old: None, new: own}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [("kmdr.clustering.lloyd", "kmdr.clustering.compiled"), ("kmdr.harness.once", "kmdr.timing_of_steps"),
     ("kmdr.linalg.singular_vectors", "kmdr.reducers.exact"), ("kmdr.base.seeding", "kmdr.run.generators"),
     ("kmdr.base.timing", "kmdr.datasets.clocks"), ("kmdr.clustering.masked_kmeans", "kmdr.linalg.masks"),
     ("kmdr.linalg.count_sketch", "kmdr.vectors")],
)  # fmt: skip
def test_a_module_that_moves_keeps_the_hash(old, new):
    entries = reaching(old)
    before = known_hashes(entries)
    with other_program(moved(old, new)):
        after = [[re.sub(rf"^{re.escape(old)}:", f"{new}:", each) for each in some] for some in entries]
        assert hashes(after) == before
        reached = {each.module for some in after for each in reach(*some)}
        assert new in reached
        assert old not in reached


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name"),
    [("kmdr.clustering.lloyd", "run_starts"), ("kmdr.clustering.lloyd", "_gamma"), ("kmdr.base.seeding", "generator"),
     ("kmdr.linalg.matrix", "squared_frobenius"), ("kmdr.clustering.kmeans", "Clustering"),
     ("kmdr.metrics.kernels", "_WIDTH")],
)  # fmt: skip
def test_a_definition_of_another_name_keeps_the_hash(module, name):
    texts = {each: re.sub(rf"\b{name}\b", "Another_name", source_of(each)) for each in MODULES}
    texts = {each: text for each, text in texts.items() if text != source_of(each)}
    entries = reaching(module)
    assert module in texts
    assert entries
    before = known_hashes(entries)
    with other_program(texts):
        assert hashes(entries) == before


# -- what it depends on ----------------------------------------------------------------------------------------------

SHOW = """
import json, sys
from kmdr.base.identity import code_hash
print(json.dumps([code_hash(*entries) for entries in json.load(sys.stdin)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_all_processes_find_the_same(seed):
    entries = [entries for entries, _ in rows().values()]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", SHOW], input=json.dumps(entries), capture_output=True, text=True, env=environment,
        check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == hashes(entries)


def test_rows_reach_what_computes_them_and_neither_reports_nor_commands():
    for (_, engine), (_, reached) in rows().items():
        modules = {each.module for each in reached}
        assert {"kmdr.base.seeding", "kmdr.metrics.scores", "kmdr.clustering.kmeans"} <= modules
        assert "kmdr.datasets.sources.synth" in modules
        packages = {module.split(".")[1] for module in modules}
        assert not packages & {"analysis", "claims", "cli", "export", "figures", "multiverse", "reporting"}
        assert not modules & {
            "kmdr.results.store",
            "kmdr.base.provenance",
            "kmdr.base.identity",
            "kmdr.datasets.acquire.find",
        }
        assert ("kmdr.clustering.lloyd" in modules) or (engine != "kmdr")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "multiverse", "atlas"])
def test_the_committed_rows_are_of_this_code(folder):
    """A change that reaches them needs new rows, or new hashes after `kmdr verify` (`scripts/restamp.py`)."""
    rows = load_rows(Path(__file__).parents[2] / "results/reference" / folder)[0][[*CODE_COLUMNS, "status"]]
    kinds = rows.astype(object).fillna("").drop_duplicates().astype(str)
    assert outdated_code(kinds.to_dict("records")) == []
