"""Whatever is done to a project, and in whatever order: no command shows a number that does not follow from its files.

The same rules are chosen by hypothesis, which also finds the shortest sequence that shows a wrong number, and by seeded
random walks, which go on after a wrong number, so that they say how many sequences show one: ``pytest -m slow -s
tests/project/test_states.py`` prints it. ``KMDR_SEQUENCES`` sets how many sequences each of the two runs, and
``KMDR_TEST_SEED`` which.
"""

import csv
import io
import os
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import states

SEQUENCES = int(os.environ.get("KMDR_SEQUENCES", "5"))
SEED = int(os.environ.get("KMDR_TEST_SEED", "0"))
STEPS = 6
FOLDERS = ["out_a", "out_b"]
RUN = {
    "data": ["file", "lab"],
    "methods": [
        ("none",), ("random_sign",), ("lab_columns",), ("outer.Pick",), ("none", "random_sign"),
        ("none", "lab_columns"),
    ],
    "engine": ["kmdr", "kmdr", "lab_engine", "outer.Split"],
    "n_init": [2, 1],
    "k": [3, 3, 2],
    "r_grid": [(2,), (2, 3)],
    "seed": [0, 1],
    "repeats": [2, 3],
    "labels": ["false", "false", "true"],
}  # fmt: skip


class Sequence:
    """What is done to a project, one rule after the other; each gets a function that chooses one of several things."""

    def __init__(self):
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="kmdr-states-", dir=memory if memory.is_dir() else None))
        self.project = states.Project(self.folder)
        self.done, self.last, self.page = [], {}, False

    def do(self, name, *arguments, **settings):
        self.done.append((name, *arguments, *settings.items()))
        getattr(self.project, name)(*arguments, **settings)

    def run(self, *, refresh=False, killed_after=None, **changes):
        self.last |= changes
        self.do("run", **self.last, refresh=refresh, killed_after=killed_after)

    def begin(self, choose):
        self.page = choose([False] * 15 + [True])
        self.run(out=choose(FOLDERS), **{name: choose(values) for name, values in RUN.items()})

    def run_more(self, choose):
        self.run(repeats=choose([4, 3, 2]), refresh=choose([False, True]))

    def run_another_seed(self, choose):
        self.run(seed=choose([0, 1]), repeats=choose([2, 3]))

    def change_a_setting(self, choose):
        name = choose([*RUN])
        self.run(out=choose(FOLDERS), **{name: choose(RUN[name])})

    def interrupt(self, choose):
        self.run(
            seed=choose([0, 1]), repeats=choose([3, 4]), refresh=choose([False, True]), killed_after=choose([1, 0, 2])
        )

    def edit_data(self, choose):
        self.do("edit_data", choose([version for version in (2, 1, 3) if version != self.project.data]))

    def edit_code(self, choose):
        """Edit a file that the last run took."""
        name = choose(self.project.code_of(**self.last))
        self.do("edit", name, choose([version for version in (2, 1, 3) if version != self.project.versions[name]]))

    def edit_code_and_run(self, choose):
        self.edit_code(choose)
        choose([self.run_more, self.run_another_seed, self.change_a_setting])(choose)

    def rename_data(self, choose):
        self.do(
            "rename_data",
            choose([name for name in ("others.npz", "points.npz", "points.csv") if name != self.project.file]),
        )

    def rename_results(self, choose):
        names = self.project.results
        free = sorted({"out_a", "out_b", "out_c"} - {*names})
        if names and free:
            self.do("rename", choose(names), choose(free))

    def merge(self, choose):
        names = self.project.results
        if len(names) > 1:
            first = choose(names)
            self.do("merge", [first, choose([name for name in names if name != first])], choose(["out_c", "out_a"]))

    def damage(self, choose):
        if names := self.project.results:
            self.do("damage", choose(names), choose(range(10)), choose(range(100)) / 100, choose([True, False]))

    def repair(self, choose):
        if names := self.project.results:
            self.do("repair", choose(names))

    def look(self):
        self.do("look", self.page)
        shutil.rmtree(self.folder, ignore_errors=True)


RULES = [name for name in vars(Sequence) if not name.startswith("_") and name not in ("do", "run", "begin", "look")]


# How often a walk takes a rule; others once.
WEIGHTS = {"edit_code_and_run": 5, "change_a_setting": 4, "run_more": 2, "run_another_seed": 2, "merge": 2}


def check(project):
    assert not project.wrong, project.wrong
    assert not project.stopped, project.stopped


class Machine(RuleBasedStateMachine):
    """Rules in any order; what the commands show is compared at the end."""

    def __init__(self):
        super().__init__()
        self.sequence = Sequence()

    @initialize(data=st.data())
    def begin(self, data):
        self.follow("begin", data)

    def follow(self, name, data):
        getattr(self.sequence, name)(lambda values: data.draw(st.sampled_from(values)))
        check(self.sequence.project)

    def teardown(self):
        self.sequence.look()
        check(self.sequence.project)


for _name in RULES:

    def _rule(self, data, name=_name):
        self.follow(name, data)

    _rule.__name__ = _name
    setattr(Machine, _name, rule(data=st.data())(_rule))


def walk(seed):
    """Return what was done in a sequence of random rules, what was wrong, and which commands refused."""
    rng, sequence = random.Random(seed), Sequence()
    sequence.begin(rng.choice)
    for _ in range(rng.randint(2, STEPS)):
        (name,) = rng.choices(RULES, [WEIGHTS.get(name, 1) for name in RULES])
        getattr(sequence, name)(rng.choice)
    sequence.look()
    return sequence.done, sequence.project.wrong, sequence.project.stopped


def summary(walks):
    wrong = [{kind for kind, _ in wrong} for _, wrong, _ in walks]
    refused = sum(bool(stopped) for _, _, stopped in walks)
    lines = [
        f"{len(walks)} sequences of {sum(len(done) for done, _, _ in walks)} rules: {sum(map(bool, wrong))} showed a "
        f"silent wrong number; in {refused} a command refused what is no mistake"
    ]
    lines += [f"{n:7}  {kind}" for kind, n in Counter(kind for kinds in wrong for kind in kinds).most_common()]
    return "\n".join(lines)


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory):
    states.warm_up(tmp_path_factory.mktemp("warm"))


# A run, and the settings with which one takes each kind of code.
FIRST = {
    "out": "out_a", "data": "file", "methods": ("lab_columns",), "engine": "kmdr", "n_init": 2, "k": 3,
    "r_grid": (2, 3), "seed": 0, "repeats": 3, "labels": "false",
}  # fmt: skip
EDITS = {
    "the loader": ("lab/datasets/lab_points.py", {"data": "lab"}),
    "what the loader imports": ("lab/lib/points.py", {"data": "lab"}),
    "a reducer": ("lab/reducers/lab_columns.py", {}),
    "what a reducer imports": ("lab/lib/columns.py", {}),
    "an engine": ("lab/engines/lab_engine.py", {"engine": "lab_engine"}),
    "what an engine imports": ("lab/lib/rows.py", {"engine": "lab_engine"}),
    "a reducer by its path": ("outer.py", {"methods": ("outer.Pick",)}),
    "what a reducer by its path imports": ("outer_helper.py", {"methods": ("outer.Pick",)}),
    "an engine by its path": ("outer.py", {"engine": "outer.Split"}),
    "a metric": ("lab/metrics/lab_score.py", {}),
    "what a metric imports": ("lab/lib/score.py", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("refresh", [False, True])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_between_two_runs_is_seen_everywhere(edit, refresh):
    (file, changes), sequence = EDITS[edit], Sequence()
    sequence.run(**FIRST | changes)
    sequence.do("edit", file, 2)
    sequence.run(repeats=4, refresh=refresh)
    sequence.page = edit == "what a reducer imports"
    sequence.look()
    check(sequence.project)


@pytest.mark.slow
def test_all_commands_of_a_folder_are_shown():
    sequence = Sequence()
    for changes in ({"methods": ("none",)}, {"methods": ("random_sign",)}, {"n_init": 1, "seed": 1}, {"data": "lab"}):
        sequence.run(**FIRST | changes)
    sequence.page = True
    sequence.look()
    check(sequence.project)


def with_other_number(text, column, reducer=None):
    """Return a table in CSV with another number in the first line that has one in a column; None: without a line."""
    lines = list(csv.DictReader(io.StringIO(text)))
    if column is None:
        lines.pop(0)
    else:
        of = [line for line in lines if reducer in (None, line["reducer"])]
        line = next(line for line in of if line[column] not in ("", "–"))
        line[column] = repr(float(line[column]) + 0.01)
    out = io.StringIO()
    writer = csv.DictWriter(out, lines[0])
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "column", "found"),
    [
        ("table", "P", "another mean"), ("table", "F/F_best", "another mean"), ("table", "Δ P", "another change"),
        ("table", None, "rows not shown"), ("compare", "P A", "another mean"),
        ("compare", "lab score B", "another mean"), ("compare", "Δ NMI", "another change"),
        ("compare", None, "rows not shown"), ("figures", "mean", "another mean"),
    ],
)  # fmt: skip
def test_a_wrong_number_is_found(view, column, found, monkeypatch):
    sequence = Sequence()
    for out in FOLDERS:
        sequence.run(**FIRST | {"out": out, "methods": ("none", "random_sign")})
    call = sequence.project.call

    def falsify(*commands, **settings):
        outcomes = call(*commands, **settings)
        for file in sequence.folder.glob("*/figures/*.csv") if view == "figures" else ():
            file.write_text(with_other_number(file.read_text("utf-8"), column), "utf-8")
        return [
            each._replace(out=with_other_number(each.out, column)) if words[0] == view != "figures" else each
            for words, each in zip(commands, outcomes, strict=True)
        ]

    monkeypatch.setattr(sequence.project, "call", falsify)
    sequence.look()
    assert {kind for kind, _ in sequence.project.wrong} == {f"{view}: {found}"}
    assert not sequence.project.stopped


@pytest.mark.slow
@pytest.mark.parametrize(("view", "column"), [("table", "P"), ("figures", "mean")])
def test_a_note_on_one_method_does_not_excuse_a_wrong_number_of_another(view, column, monkeypatch):
    sequence = Sequence()
    sequence.run(**FIRST | {"methods": ("none", "random_sign")})
    sequence.run(methods=("outer.Pick",))
    sequence.do("edit", "outer.py", 2)
    sequence.run(repeats=4)
    call, noted = sequence.project.call, []

    def falsify(*commands, **settings):
        outcomes = call(*commands, **settings)
        for each in (each for words, each in zip(commands, outcomes, strict=True) if words[0] == view):
            lines = csv.DictReader(io.StringIO(each.out)) if view == "table" else ()
            noted.append(each.notes_on(lines) if view == "table" else each.text)
        for file in sequence.folder.glob("*/figures/*.csv") if view == "figures" else ():
            file.write_text(with_other_number(file.read_text("utf-8"), column, "random_sign"), "utf-8")
        return [
            each._replace(out=with_other_number(each.out, column, "random_sign"))
            if words[0] == view == "table"
            else each
            for words, each in zip(commands, outcomes, strict=True)
        ]

    monkeypatch.setattr(sequence.project, "call", falsify)
    sequence.look()
    assert noted
    for text in noted:
        assert [name for name in ("outer.Pick", "random_sign") if states.is_marked(text, [name])] == ["outer.Pick"], (
            text
        )
    assert {kind for kind, _ in sequence.project.wrong} == {f"{view}: another mean"}


@pytest.mark.slow
@pytest.mark.parametrize("where", [0.1, 0.5])
def test_a_damaged_task_is_done_again(where):
    sequence = Sequence()
    sequence.run(**FIRST)
    for command in ("repair", "run"):
        sequence.do("damage", "out_a", 2, where, True)
        if command == "repair":
            sequence.do("repair", "out_a")
        sequence.run()
    sequence.look()
    check(sequence.project)


@pytest.mark.slow
def test_no_sequence_that_hypothesis_finds_shows_a_silent_wrong_number():
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=SEQUENCES, stateful_step_count=STEPS, database=None,
            suppress_health_check=[*HealthCheck],
        ),
    )  # fmt: skip


@pytest.mark.slow
def test_no_random_walk_shows_a_silent_wrong_number():
    walks = [walk(f"{SEED} {number}") for number in range(SEQUENCES)]
    print(f"\n{summary(walks)}")
    assert not [walk for walk in walks if walk[1] or walk[2]]
