"""The results that items and claims read: rows, facts and missing datasets."""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from kmdr.analysis.rows import (
    METHOD,
    REPETITION,
    SETTING_COLUMNS,
    is_time,
    mixed_settings,
    quantity_columns,
    quantity_rows,
    rows_where,
)
from kmdr.base.errors import UserError
from kmdr.base.files import StorageError
from kmdr.base.private_paths import without_folders
from kmdr.base.text import tell
from kmdr.results.json_files import asked_of, missing_of, read_or_note
from kmdr.results.reader import facts_of
from kmdr.results.table import load_rows
from kmdr.results.typed_rows import to_categories, to_text

T = TypeVar("T")
# Rows whose selections, and whose values by reducer, are kept for claims that read the same: 70 MB each.
_MOST_SELECTED, _MOST_WIDE = 200_000, 2_000_000


class NotRunError(Exception):
    """Rows or facts that an item or a claim needs are missing; the message says which and why."""


class Results:
    """Rows, facts and missing datasets of a folder.

    Text columns are stored as categories (`kmdr.results.typed_rows`) and returned as text.

    Parameters
    ----------
    rows : DataFrame
        From `kmdr.results.table.load_rows` or `rows_of`, including failed ones.
    facts : mapping
        The facts by name, with the error in the place of one that cannot be read.
    missing : mapping
        The reason why each missing dataset is unavailable.

    Attributes
    ----------
    notes : list of str
        Sentences on refused rows and damaged files.
    """

    def __init__(
        self,
        rows: pd.DataFrame,
        facts: Mapping[str, pd.DataFrame | UserError] | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> None:
        self._load: Callable[[], pd.DataFrame] = lambda: rows
        self._every_row = rows
        self._facts = facts or {}
        self.missing = dict(missing or {})
        self.notes: list[str] = []
        is_ok = np.flatnonzero(rows["status"] == "ok")
        studies = rows[["study"]].iloc[is_ok].groupby("study").indices
        # The ok rows of each study, as positions in a frame.
        self._by_study = {str(name): (rows, is_ok[places]) for name, places in studies.items()}
        marked = to_text(rows[["study", "dataset", "stand_in"]].drop_duplicates())
        marked = marked[marked["stand_in"].astype(bool)]
        self._stand_ins = {str(name): frozenset(datasets) for name, datasets in marked.groupby("study")["dataset"]}
        # Results of `wide` and the index of their rows, for the many claims that read the same.
        self._wide: dict[object, tuple[pd.Index[int], pd.DataFrame]] = {}
        # The last results of `rows`, because many claims read the same in turn.
        self._selections: dict[object, pd.DataFrame] = {}
        # For studies that are read together: the methods with several settings on a dataset, and the error messages.
        self._mixed: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
        self._is_replaced = False

    def __reduce__(self) -> tuple[Callable[..., "Results"], tuple[object, ...]]:
        """Return the pickled form: rows, facts and missing datasets, without the rows of earlier configurations."""
        return Results, (to_categories(self._rows), self._facts, self.missing)

    @classmethod
    def from_folder(cls, folder: Path) -> "Results":
        """Read a folder.

        Raises
        ------
        UserError
            If it has no rows, or no valid ones.
        """
        rows, refused = load_rows(folder)
        notes = [without_folders(sentence) for sentence in refused]
        asked = read_or_note(asked_of, folder, notes)
        missing = read_or_note(missing_of, folder, notes)
        for note in notes:
            tell(f"kmdr: warning: {note}")
        latest = rows_where(rows, ("study", "config_hash"), lambda study, config: config in asked.get(study, (config,)))
        results = cls(rows if latest.all() else rows[latest].reset_index(drop=True), facts_of(folder), missing)
        results._every_row, results.notes = rows, notes
        return results

    @cached_property
    def _rows(self) -> pd.DataFrame:
        return self._load()

    @property
    def all_rows(self) -> pd.DataFrame:
        """All rows of the last run of each study, failed ones included."""
        return to_text(self._rows)

    @property
    def compact_rows(self) -> pd.DataFrame:
        """`all_rows` with text as categories: a third of the memory."""
        return self._rows

    @property
    def every_compact_row(self) -> pd.DataFrame:
        """`every_row` with text as categories."""
        return self._every_row

    @property
    def every_row(self) -> pd.DataFrame:
        """All rows, including configurations that were not part of the last run of their study."""
        return to_text(self._every_row)

    @cached_property
    def studies(self) -> frozenset[str]:
        """The names of all studies in `all_rows`."""
        return frozenset(map(str, self._rows["study"].unique()))

    @property
    def facts(self) -> frozenset[str]:
        """The names of all facts of the folder."""
        return frozenset(self._facts)

    def columns(self, names: Sequence[str], *, every: bool = False) -> pd.DataFrame:
        """Return some columns of `all_rows`, or of `every_row`."""
        return to_text((self._every_row if every else self._rows)[[*names]])

    def trials(self, studies: str | Collection[str]) -> pd.DataFrame:
        """Return the rows of some studies in `all_rows`, including failed ones."""
        names = [studies] if isinstance(studies, str) else list(studies)
        return to_text(self._rows[self._rows["study"].isin(names)])

    @cached_property
    def stand_ins(self) -> frozenset[str]:
        """The datasets that are replaced by stand-ins in some rows."""
        return frozenset().union(*self._stand_ins.values())

    def replaced(self, rows: pd.DataFrame, studies: Collection[str] | None = None) -> "Results":
        """Return these facts with other rows.

        ``studies`` are the studies whose rows are replaced; by default all.
        """
        other = Results(rows, self._facts, self.missing)
        other._is_replaced = True
        if studies is not None:
            kept = {name for name in self._by_study.keys() | self._stand_ins.keys() if name not in studies}
            other._by_study = {n: rows for n, rows in self._by_study.items() if n in kept} | other._by_study
            other._stand_ins = {n: names for n, names in self._stand_ins.items() if n in kept} | other._stand_ins
            other._load = lambda: pd.concat([to_text(rows), to_text(self._rows[~self._rows["study"].isin(studies)])])
        return other

    def with_facts(self, other: Mapping[str, str]) -> "Results":
        """Return these results with some facts replaced by others; a fact without a replacement is missing."""
        if not other:
            return self
        kept = {name: table for name, table in self._facts.items() if name not in other}
        renamed = {name: self._facts[new] for name, new in other.items() if new in self._facts}
        results = copy(self)
        results._facts = kept | renamed
        return results

    def rows(
        self,
        studies: str | Sequence[str],
        *,
        datasets: Sequence[str] | None = None,
        reducers: Sequence[str] | None = None,
        columns: Collection[str] | None = None,
        mixed: bool = False,
    ) -> pd.DataFrame:
        """Return the ok rows of some studies, of all datasets and reducers by default, with their index in `all_rows`.

        Parameters
        ----------
        columns : collection of str, optional
            Only these, and the columns that identify a method; for callers that read a few columns many times.
        mixed : bool
            Allow rows of several settings of a method on one dataset, for a caller that takes no mean over them.

        Raises
        ------
        NotRunError
            If there are none, or a method has several settings on a dataset.
        """
        key = (repr(studies), repr(datasets), repr(reducers), None if columns is None else frozenset(columns))
        if key not in self._selections:
            # The copy joins the columns of one type; selections from it take a fifth of the time.
            rows = to_text(self._selected(studies, datasets, reducers, columns)).copy()
            if sum(map(len, self._selections.values())) + len(rows) > _MOST_SELECTED:
                self._selections.clear()
            self._selections[key] = rows
        rows = self._selections[key]
        if not mixed:
            self._refuse_mixed(studies, rows)
        self._record(studies, rows.index)
        return rows.copy(deep=False)

    def _record(self, studies: str | Sequence[str], index: "pd.Index[int]") -> None:
        """Do nothing; `Recorder` records the rows that were returned."""

    def _refuse_mixed(self, studies: str | Sequence[str], rows: pd.DataFrame) -> None:
        """Raise `NotRunError` if the rows have a method that these studies ran with several settings on a dataset."""
        names = (studies,) if isinstance(studies, str) else tuple(studies)
        if names not in self._mixed:
            columns = [*METHOD, "seed", "config_hash", *SETTING_COLUMNS]
            parts = [to_text(self._ok_rows(n, columns).drop_duplicates()) for n in names if n in self._by_study]
            parts = [part.reindex(columns=columns) for part in parts]
            self._mixed[names] = {method: text for part in parts for method, text in mixed_settings(part).items()}
            # After a choice was flipped, studies that it does not affect keep the paper's settings.
            if len(parts) > 1 and not self._is_replaced:
                self._mixed[names] |= mixed_settings(pd.concat(parts).drop(columns="config_hash"))
        if refused := self._mixed[names]:
            methods = rows[[*METHOD]].drop_duplicates().itertuples(index=False, name=None)
            for message in (refused[method] for method in methods if method in refused):
                raise NotRunError(message)

    def _ok_rows(
        self, study: str, columns: Collection[str] | None = None, wanted: Mapping[str, Sequence[str]] | None = None
    ) -> pd.DataFrame:
        """Return the ok rows of a study that have some values, with all columns or some; text as stored."""
        rows, places = self._by_study[study]
        for name, values in (wanted or {}).items():
            places = places[rows[name].iloc[places].isin(values)]
        if columns is not None:
            rows = rows[[name for name in rows.columns if name in columns or name in METHOD]]
        return rows.iloc[places]

    def _selected(
        self,
        studies: str | Sequence[str],
        datasets: Sequence[str] | None,
        reducers: Sequence[str] | None,
        columns: Collection[str] | None = None,
    ) -> pd.DataFrame:
        """Return the rows of `rows`, without the check for mixed settings; text as stored."""
        names = [studies] if isinstance(studies, str) else list(studies)
        wanted = {name: list(few) for name, few in (("dataset", datasets), ("reducer", reducers)) if few is not None}
        parts = [self._ok_rows(name, columns, wanted) for name in names if name in self._by_study]
        sources = {id(self._by_study[name][0]) for name in names if name in self._by_study}
        parts = [part for part in parts if len(part)]
        if not parts:
            why = [self.missing[name] for name in datasets or () if name in self.missing]
            raise NotRunError("; ".join(why) or f"no rows of {', '.join(names)}")
        # Rows that were replaced may have other categories.
        return pd.concat(parts if len(sources) == 1 else map(to_text, parts))

    def fact(self, name: str) -> pd.DataFrame:
        """Return a fact.

        Raises
        ------
        NotRunError
            When the folder does not have it.
        UserError
            When it cannot be read.
        """
        fact = self._facts.get(name)
        if isinstance(fact, UserError):
            raise fact
        if fact is None:
            paper = name.partition("_")[0]
            raise NotRunError(f"fact {name} is missing; 'kmdr reproduce {paper}' computes it if its data are available")
        return fact.copy()

    def wide(
        self,
        studies: str | Sequence[str],
        quantity: str,
        *,
        datasets: Sequence[str] | None = None,
        reducers: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return one quantity with one column per reducer; the trials of one row started from the same centres.

        Parameters
        ----------
        quantity : str
            A numeric column of the rows or ``reduction_seconds``; of times, only those measured serially.

        Returns
        -------
        DataFrame
            Index (dataset, r, seed, repeat). A reducer that has one r where others have several (``none``, or rank k)
            does not depend on r and is repeated at each r. Missing trials are NaN.

        Raises
        ------
        NotRunError
            If there are no trials, or a method has several settings on a dataset.
        """
        key = (repr(studies), quantity, repr(datasets), repr(reducers))
        if key in self._wide:
            index, table = self._wide[key]
            self._record(studies, index)
        else:
            rows = self._selected(studies, datasets, reducers, quantity_columns(quantity))
            self._refuse_mixed(studies, rows)
            self._record(studies, rows.index)
            table = _as_wide(rows, quantity)
            if sum(len(index) for index, _ in self._wide.values()) + len(rows) > _MOST_WIDE:
                self._wide.clear()
            self._wide[key] = rows.index, table
        return table.copy()


class Recorder(Results):
    """The same results, for a caller that reports which rows an item or a verdict rests on."""

    def __init__(self, results: Results) -> None:
        self.__dict__ |= results.__dict__
        self._read: list[pd.Index[int]] = []
        self._studies: dict[str, None] = {}

    def _record(self, studies: str | Sequence[str], index: "pd.Index[int]") -> None:
        self._read.append(index)
        self._studies |= dict.fromkeys([studies] if isinstance(studies, str) else studies)

    def rows_read(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return some columns of the rows that were returned so far, in their order."""
        if not self._read:
            return to_text(self._rows.iloc[:0][[*columns]])
        size = max(int(index.max()) for index in self._read) + 1
        is_read = np.zeros(size, dtype=bool)
        for index in self._read:
            is_read[index] = True
        parts = []
        for name in (name for name in self._studies if name in self._by_study):
            rows, places = self._by_study[name]
            places = places[rows.index[places] < size]
            parts.append(to_text(rows[[*columns]].iloc[places[is_read[rows.index[places]]]]))
        return pd.concat(parts).sort_index(kind="stable")


def attempt(make: Callable[[Results], T], results: Results) -> T:
    """Return the value of a function of results; raise `NotRunError` if rows or facts do not have the expected form."""
    try:
        return make(results)
    except StorageError:
        raise
    except UserError as error:
        raise NotRunError(str(error)) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise NotRunError(f"its rows or facts do not have the expected form ({what}); run its studies again") from error


def _as_wide(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return one quantity of some rows as `Results.wide` lays it out."""
    rows = quantity_rows(rows, quantity)
    if is_time(quantity):
        rows = rows[rows["concurrency"] == 1]
    if rows.empty:
        raise NotRunError(f"no trial has {quantity}" + (", measured serially" if is_time(quantity) else ""))
    # Texts are replaced by their ranks, which are grouped in a fraction of the time.
    rows = rows[["dataset", "reducer", "r", *REPETITION, "value"]]
    dataset_ranks, datasets = pd.factorize(rows["dataset"], sort=True)
    reducer_ranks, reducers = pd.factorize(rows["reducer"], sort=True)
    rows = rows.assign(dataset=dataset_ranks, reducer=reducer_ranks)
    several = rows.groupby(["dataset", "reducer"])["r"].transform("nunique") > 1
    keys = ["dataset", "r", *REPETITION]
    trial = ["dataset", *REPETITION]
    varying = rows[several].groupby([*keys, "reducer"])["value"].mean().unstack("reducer")
    fixed = rows[~several].groupby([*trial, "reducer"])["value"].mean().unstack("reducer")
    # A dataset on which no reducer has several r gets one row per repetition, at the smallest r.
    alone = rows[~rows["dataset"].isin(rows.loc[several, "dataset"])]
    alone = alone.assign(r=alone.groupby("dataset")["r"].transform("min"))
    lines = pd.concat([varying.index.to_frame(index=False), alone[keys].drop_duplicates()]).sort_values(keys)
    index, trials = pd.MultiIndex.from_frame(lines), pd.MultiIndex.from_frame(lines[trial])
    methods = rows[["dataset", "reducer"]].drop_duplicates().sort_values(["dataset", "reducer"])["reducer"]
    columns = pd.Index(methods.unique(), name="reducer")
    table = varying.reindex(index=index, columns=columns)
    table = table.fillna(fixed.reindex(index=trials, columns=columns).set_axis(index))
    table.index = index.set_levels([datasets.astype("str")[index.levels[0]].tolist()], level=["dataset"])
    return table.set_axis(reducers.astype("str")[columns].rename("reducer"), axis=1)
