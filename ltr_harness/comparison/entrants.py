"""From training runs to the models they are runs of: seeds become replicates, folds are pooled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ltr_harness.comparison.budgets import budget_notes, configuration
from ltr_harness.comparison.repetition import (
    TestSet,
    distinct_replicates,
    each_once,
    facts_by_id,
    names_of_queries,
    repetition_note,
)
from ltr_harness.comparison.result import Entrant
from ltr_harness.errors import NotComparableError, Problem
from ltr_harness.inspection.lints import REPEATED
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    import pandas as pd

    from ltr_harness.runs.record import Record

NO_FOLDS = "all"


class RunLike(Protocol):
    """What is needed of a run: `ltr_harness.runs.Run`."""

    @property
    def record(self) -> Record: ...
    @property
    def per_query(self) -> pd.DataFrame: ...


def entrants_from_runs(runs: Sequence[RunLike]) -> tuple[list[Entrant], list[str], list[str]]:
    """The models behind the runs, in order of appearance.

    All runs of one model in one experiment become one entrant: its seeds are replicates, the queries of its
    folds are pooled. Failed runs, missing seeds and folds, and replicates that repeat each other are said in
    the notes.

    Returns:
        Entrants; the distinct primary metrics of the runs; notes.

    Raises:
        NotComparableError: runs of one model contradict each other, or no model is complete.
    """
    by_model: dict[tuple[str, str], list[RunLike]] = defaultdict(list)
    for run in runs:
        by_model[run.record.experiment, run.record.model].append(run)
    names = _names(list(by_model))
    folds: dict[str, list[str]] = defaultdict(list)
    seeds: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        record = run.record
        if record.fold not in folds[record.experiment]:
            folds[record.experiment].append(record.fold)
        if not record.deterministic:
            seeds[record.experiment].add(record.seed)
    tests = _test_sets(runs)
    called = {experiment: names_of_queries(own) for experiment, own in tests.items()}
    prefix = any(_ids_clash(own, called[experiment]) for experiment, own in tests.items())
    entrants, notes, problems = [], [note for own in tests.values() if (note := repetition_note(own))], []
    for key, own in by_model.items():
        experiment = key[0]
        fold_names = called[experiment] if prefix else {}
        model = _Model(names[key], sorted(folds[experiment]), seeds[experiment], fold_names)
        entrant = model.pool(own)
        notes += model.notes
        problems += model.problems
        if entrant is not None:
            entrants.append(entrant)
    if not entrants and not problems:
        problems = [Problem("", "no model has a complete run", cure=note) for note in notes]
    if problems:
        raise NotComparableError(problems)
    finished = {
        names[key]: [run.record for run in own if run.record.status == "complete"]
        for key, own in by_model.items()
    }
    notes += budget_notes({name: records for name, records in finished.items() if records})
    return entrants, list(dict.fromkeys(run.record.primary for run in runs)), notes


class _Model:
    """Collects the runs of one model."""

    def __init__(
        self, name: str, folds: Sequence[str], seeds: Iterable[int], fold_names: Mapping[str, str]
    ) -> None:
        self.name = name
        self.folds = folds
        self.seeds = set(seeds)
        self.fold_names = fold_names
        self.notes: list[str] = []
        self.problems: list[Problem] = []

    def pool(self, runs: Sequence[RunLike]) -> Entrant | None:
        """One entrant, or None where nothing complete remains; notes and problems say why."""
        complete: dict[int, dict[str, RunLike]] = defaultdict(dict)
        for run in runs:
            record = run.record
            if record.status == "failed":
                self.notes.append(
                    f"{self.name}: {_where(record)} failed: {record.error or 'no reason given'}"
                )
                continue
            known = complete[record.seed].setdefault(record.fold, run)
            if known is not run:
                self._same_place(known.record, record)
        self._check_one_configuration(runs)
        if self.problems:
            return None
        deterministic = all(run.record.deterministic for run in runs)
        replicates = self._whole_replicates(complete)
        if not replicates:
            self.notes.append(f"{self.name} is left out: it has no run for every fold")
            return None
        if deterministic and len(replicates) > 1:
            kept = min(replicates)
            self.notes.append(
                f"{self.name} is deterministic: its {count_of(len(replicates), 'run')} count once"
            )
            replicates = {kept: replicates[kept]}
        missing = sorted(self.seeds - replicates.keys())
        if missing and not deterministic:
            have = ", ".join(map(str, sorted(replicates)))
            self.notes.append(
                f"{self.name} is compared over seeds {have}; "
                f"seed {', '.join(map(str, missing))} of other models is missing"
            )
        return self._stack(replicates, deterministic)

    def _same_place(self, known: Record, record: Record) -> None:
        if (known.identity, known.evaluation_identity) == (record.identity, record.evaluation_identity):
            self.notes.append(f"{self.name}: {_where(record)} was given twice and counts once")
            return
        self.problems.append(
            Problem(
                self.name,
                f"two different runs of {_where(record)} (identities {known.identity} and {record.identity})",
                "one run for each fold and seed",
                "leave out the folder of the older one",
            )
        )

    def _check_one_configuration(self, runs: Sequence[RunLike]) -> None:
        done = [run.record for run in runs if run.record.status == "complete"]
        for record in done[1:]:
            if configuration(record) != configuration(done[0]):
                self.problems.append(
                    Problem(
                        self.name,
                        f"{_where(record)} was trained with another configuration than {_where(done[0])}",
                        "one configuration per model",
                        "leave out the folders of the older one",
                    )
                )
                return
        for record in done[1:]:
            if list(record.metrics) != list(done[0].metrics):
                theirs, ours = set(record.metrics), set(done[0].metrics)
                self.problems.append(
                    Problem(
                        self.name,
                        f"{_where(record)} and {_where(done[0])} were evaluated by different metrics: "
                        f"{', '.join(sorted(theirs ^ ours)) or 'in another order'}",
                        "the same metrics and K in every run",
                        "evaluate them again: stored scores are enough, nothing is trained again",
                    )
                )
                return

    def _whole_replicates(self, complete: dict[int, dict[str, RunLike]]) -> dict[int, list[RunLike]]:
        whole = {}
        for seed in sorted(complete):
            lacking = [fold for fold in self.folds if fold not in complete[seed]]
            if lacking:
                self.notes.append(
                    f"{self.name}: seed {seed} is left out: no run for fold {', '.join(lacking)}"
                )
            else:
                whole[seed] = [complete[seed][fold] for fold in self.folds]
        return whole

    def _stack(self, replicates: dict[int, list[RunLike]], deterministic: bool) -> Entrant | None:
        first = next(iter(replicates.values()))
        frames = [run.per_query for run in first]
        ids = [_ids(frame) for frame in frames]
        pooled = np.concatenate(
            [self._labelled(fold, own) for fold, own in zip(self.folds, ids, strict=True)]
        )
        if any(len(set(own.tolist())) != own.size for own in ids):
            self.problems.append(
                Problem(self.name, "a query occurs twice in its test data", "unique query ids")
            )
            return None
        metrics = list(first[0].record.metrics)
        values: dict[str, list[NDArray[np.float64]]] = {metric: [] for metric in metrics}
        for seed, runs in replicates.items():
            order = self._order(first, ids, seed, runs)
            if order is None:
                return None
            for metric in metrics:
                parts = [
                    run.per_query[metric].to_numpy(np.float64)[rows]
                    for run, rows in zip(runs, order, strict=True)
                ]
                values[metric].append(np.concatenate(parts))
        stacked = {metric: np.stack(rows) for metric, rows in values.items()}
        summaries = first[0].record.metrics
        entrant = Entrant(
            name=self.name,
            query_ids=pooled,
            values=stacked,
            replicates=tuple(map(str, replicates)),
            higher_is_better={metric: summaries[metric].higher_is_better for metric in metrics},
            deterministic=deterministic,
            seeded=not deterministic,
            judgments_fingerprint={
                run.record.fold: run.record.data["test"].judgments_fingerprint
                for run in first
                if "test" in run.record.data
            },
            query_attributes={
                fact: np.concatenate([frame[fact].to_numpy() for frame in frames])
                for fact in map(str, frames[0])
                if fact != "query_id" and fact not in summaries and all(fact in frame for frame in frames)
            },
            source=first[0].record.experiment,
        )
        entrant, alike = distinct_replicates(entrant)
        self.notes += alike
        return each_once(entrant)[0]

    def _order(
        self, first: Sequence[RunLike], ids: Sequence[NDArray[np.str_]], seed: int, runs: Sequence[RunLike]
    ) -> list[NDArray[np.int64]] | None:
        """Per fold, the rows of this replicate in the first one's order of queries."""
        orders = []
        for reference, wanted, run in zip(first, ids, runs, strict=True):
            own = _ids(run.per_query)
            one, other = reference.record.data.get("test"), run.record.data.get("test")
            same_labels = not (one and other) or one.judgments_fingerprint == other.judgments_fingerprint
            if not same_labels or sorted(own.tolist()) != sorted(wanted.tolist()):
                self.problems.append(
                    Problem(
                        self.name,
                        f"{_where(run.record)} was tested on other queries or labels than "
                        f"{_where(reference.record)}",
                        "the same test data for every seed",
                        "train it again, or leave out the older folders",
                    )
                )
                return None
            at = np.argsort(own, kind="stable")
            rank = np.argsort(np.argsort(wanted, kind="stable"), kind="stable")
            orders.append(at[rank])
        return orders

    def _labelled(self, fold: str, ids: NDArray[np.str_]) -> NDArray[np.str_]:
        if fold == NO_FOLDS or not self.fold_names:
            return ids
        return np.array([f"{self.fold_names.get(fold, fold)}/{query}" for query in ids.tolist()])


def _names(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The model's name, with its experiment in front where two experiments have a model of that name."""
    models = [model for _, model in keys]
    return {
        (experiment, model): model if models.count(model) == 1 else f"{experiment}/{model}"
        for experiment, model in keys
    }


def _test_sets(runs: Sequence[RunLike]) -> dict[str, dict[str, TestSet]]:
    """Experiment to fold to its test queries, as the first finished run of each has them."""
    sets: dict[str, dict[str, TestSet]] = defaultdict(dict)
    for run in runs:
        record = run.record
        if record.status != "complete" or record.fold in sets[record.experiment]:
            continue
        frame = run.per_query
        facts = {name: frame[name].to_numpy() for name in _facts(run)}
        digest = record.data["test"].judgments_fingerprint if "test" in record.data else ""
        repeated = any(finding.lint == REPEATED for finding in record.findings)
        sets[record.experiment][record.fold] = TestSet(digest, facts_by_id(_ids(frame), facts), repeated)
    return {experiment: {fold: tests[fold] for fold in sorted(tests)} for experiment, tests in sets.items()}


def _facts(run: RunLike) -> list[str]:
    """Columns that are about the query and not about the model."""
    return [name for name in map(str, run.per_query) if name != "query_id" and name not in run.record.metrics]


def _ids_clash(tests: Mapping[str, TestSet], called: Mapping[str, str]) -> bool:
    """Whether some id names different queries in several folds of an experiment."""
    seen: dict[str, str] = {}
    return any(
        seen.setdefault(query, called[fold]) != called[fold]
        for fold, test in tests.items()
        for query in test.facts
    )


def _ids(frame: Any) -> NDArray[np.str_]:
    return np.array([str(query) for query in frame["query_id"].tolist()])


def _where(record: Record) -> str:
    return f"seed {record.seed}" if record.fold == NO_FOLDS else f"{record.fold}, seed {record.seed}"
