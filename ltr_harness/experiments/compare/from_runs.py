"""From training runs to the models they are runs of: seeds become replicates, folds are pooled."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.contrasts import SystemResult, text_ids
from ltr_harness.data.arrays import Floats, Ints, Texts
from ltr_harness.errors import Caution, NotComparableError, Problem, all_of
from ltr_harness.experiments.inspection.lints import REPEATED
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.record import Record, TuningFacts
from ltr_harness.experiments.runs.revisions import cautions_of
from ltr_harness.experiments.runs.run import PER_QUERY
from ltr_harness.metrics.core.headroom import is_computed_column

NO_FOLDS = "all"

_ColumnsByName = Mapping[str, NDArray[Any]]  # of one run's queries, (n_queries,) each


@dataclass(frozen=True, eq=False)
class TestSet:
    """The test queries of one fold."""

    __test__ = False  # its name is about test data, not about pytest

    digest: str  # of its labels, groups and ids; empty when unknown
    facts: Mapping[str, tuple[Any, ...]]  # query id to what is known of it apart from any model
    repeated: bool = False  # whether the data lints found queries here that another fold tests as well

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return the test queries of a finished run."""
        columns = run.stored_columns(PER_QUERY)
        names = [name for name in _facts_of_queries(run, columns) if not is_computed_column(name)]
        test = run.record.data.get("test")
        return cls(
            digest="" if test is None else test.judgments_fingerprint,
            facts=facts_by_id(text_ids(columns["query_id"]), {name: columns[name] for name in names}),
            repeated=any(caution.kind == REPEATED for caution in run.record.cautions),
        )

    def shares(self, other: "TestSet") -> bool:
        """Return whether ids that both have name the same queries, by digests, lints or facts of queries."""
        if self.digest and self.digest == other.digest:
            return True
        ids = self.facts.keys() & other.facts.keys()
        are_distinguished = self.repeated or other.repeated or len({self.facts[query] for query in ids}) > 1
        return (
            bool(ids) and are_distinguished and all(self.facts[query] == other.facts[query] for query in ids)
        )


def facts_by_id(ids: Texts, columns: Mapping[str, NDArray[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return the facts of each of (n_queries,) queries, as text."""
    texts = [map(str, columns[name].tolist()) for name in sorted(columns)]
    return {query: tuple(facts) for query, *facts in zip(ids.tolist(), *texts, strict=True)}


def first_folds(tests: Mapping[str, TestSet]) -> dict[str, str]:
    """Return for each fold the first one that shares queries with it, whose name its queries take."""
    first: dict[str, str] = {}
    for fold, test in tests.items():
        first[fold] = next((first[earlier] for earlier in first if tests[earlier].shares(test)), fold)
    return first


@dataclass(frozen=True, eq=False)
class _ExperimentDesign:
    """The folds, seeds and test queries that the models of one experiment have in common."""

    folds: Sequence[str]
    seeds: Set[int]  # of the models that depend on theirs
    fold_names: Mapping[str, str]  # fold to the first one that tests the same queries
    tested: Sequence[tuple[str, str]]  # the name of the fold and the id of each query that a fold tests

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Self:
        folds: set[str] = set()
        seeds: set[int] = set()
        finished: dict[str, Run] = {}  # the first of each fold
        for run in runs:
            record = run.record
            folds.add(record.fold)
            if not record.deterministic:
                seeds.add(record.seed)
            if record.status == "complete":
                finished.setdefault(record.fold, run)
        tests = {fold: TestSet.of(finished[fold]) for fold in sorted(finished)}
        names = first_folds(tests)
        tested = [(names[fold], query) for fold, test in tests.items() for query in test.facts]
        return cls(sorted(folds), seeds, names, tested)

    @property
    def repeats_ids(self) -> bool:
        """True where some id names different queries in several folds."""
        distinct = set(self.tested)
        return len({query for _, query in distinct}) < len(distinct)

    @property
    def cautions(self) -> list[Caution]:
        """The caution on folds that test the same queries, if there are any."""
        distinct = set(self.tested)
        if len(distinct) == len(self.tested):
            return []
        text = (
            f"the folds test {count_of(len(distinct), 'query')} {len(self.tested):,} times: each query counts once, "
            "with its mean over the folds that test it"
        )
        return [Caution("queries-repeated", "note", text)]


def average_repeated_queries(system: SystemResult) -> SystemResult:
    """Return the system with the mean over the places of each query id."""
    ids, first, inverse = np.unique(system.query_ids, return_index=True, return_inverse=True)
    if ids.size == system.query_ids.size:
        return system
    order = np.argsort(first)
    positions = np.argsort(order)[inverse.reshape(-1)]
    distinct = system.take(first[order])
    values = {metric: np.empty((len(rows), ids.size)) for metric, rows in system.values.items()}
    for metric, means in values.items():
        for row, row_values in enumerate(system.values[metric]):
            defined = ~np.isnan(row_values)
            sums = np.bincount(positions[defined], row_values[defined], ids.size)
            with np.errstate(invalid="ignore"):
                means[row] = sums / np.bincount(positions[defined], minlength=ids.size)
    return replace(distinct, values=values)


def _rows_of_equal_values(system: SystemResult) -> list[list[int]]:
    """Return the rows of the replicates, those together whose values are equal to the bit."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for row in range(len(system.replicates)):
        groups[b"".join(values[row].tobytes() for values in system.values.values())].append(row)
    return list(groups.values())


def distinct_replicates(system: SystemResult) -> tuple[SystemResult, list[Caution]]:
    """Keep one of the replicates that are identical to the bit, which carry one piece of information."""
    groups = _rows_of_equal_values(system)
    if len(groups) == len(system.replicates):
        return system, []
    cautions = []
    for rows in groups:
        if len(rows) > 1:
            seeds = ", ".join(system.replicates[row] for row in rows)
            text = f"seeds {seeds} gave identical values and count once"
            cautions.append(Caution("seeds-repeated", "note", text, place=system.name))
    first = [rows[0] for rows in groups]
    distinct = replace(
        system,
        values={metric: values[first] for metric, values in system.values.items()},
        replicates=tuple(system.replicates[row] for row in first),
        deterministic=system.deterministic or len(first) == 1,
        seeded=system.seeded and len(first) > 1,
    )
    return distinct, cautions


def systems_from_runs(runs: Sequence[Run]) -> tuple[list[SystemResult], list[str], list[Caution]]:
    """Return the models behind the runs in order of appearance, the runs' distinct primary metrics, and cautions."""
    by_experiment: dict[str, list[Run]] = defaultdict(list)
    by_model: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        by_experiment[run.record.experiment].append(run)
        by_model[run.record.experiment, run.record.model].append(run)
    experiments = {name: _ExperimentDesign.of(members) for name, members in by_experiment.items()}
    with_folds = any(experiment.repeats_ids for experiment in experiments.values())
    names = _names_of_models(by_model)
    pooled = all_of(
        [
            partial(_pool_runs, names[key], members, experiments[key[0]], with_folds)
            for key, members in by_model.items()
        ],
        NotComparableError,
    )
    systems = [system for system, _ in pooled if system is not None]
    cautions = [caution for experiment in experiments.values() for caution in experiment.cautions]
    cautions += [caution for _, run_cautions in pooled for caution in run_cautions]
    if not systems:
        found = "no model has a complete run"
        NotComparableError.refuse(Problem("", found, cure=str(caution)) for caution in cautions)
    finished = {names[key]: _finished_records(members) for key, members in by_model.items()}
    finished = {name: records for name, records in finished.items() if records}
    cautions += [*cautions_of(finished), *budget_cautions(finished)]
    return systems, list(dict.fromkeys(run.record.primary for run in runs)), cautions


def _names_of_models(keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the name of each experiment's model, after its experiment's where two experiments have such a model."""
    keys = list(keys)
    times = Counter(model for _, model in keys)
    names = {}
    for experiment, model in keys:
        is_alone = times[model] == 1
        names[experiment, model] = model if is_alone else f"{experiment}/{model}"
    return names


def configuration(record: Record) -> Mapping[str, Any]:
    """Return what all runs of one model have in common: of a tuned one its search, not what each fold found."""
    tuning = record.tuning
    if tuning is None:
        return record.config
    fixed_options = deepcopy(dict(record.config))
    for option in tuning.chosen:
        field, dot, name = option.partition(".")
        if dot and isinstance(fixed_options.get(field), dict):
            fixed_options[field].pop(name, None)
        else:
            fixed_options.pop(field, None)
    search = (tuning.metric, tuning.sampler, tuning.inner_folds, tuning.seed, sorted(tuning.chosen))
    return {"config": fixed_options, "budget": (tuning.trials, tuning.minutes), "search": search}


def _pool_runs(
    name: str,
    runs: Sequence[Run],
    experiment: _ExperimentDesign,
    with_folds: bool,  # whether the name of a fold stands before the ids of its queries
) -> tuple[SystemResult | None, list[Caution]]:
    """Return the runs of one model as one system, or None where nothing complete remains; cautions say why."""
    finished, cautions, problems = _finished_runs(name, runs)
    NotComparableError.refuse([*problems, *_contradictions(name, _finished_records(runs))])
    deterministic = all(run.record.deterministic for run in runs)
    replicates, seed_cautions = _whole_replicates(name, finished, experiment.folds)
    cautions += seed_cautions
    if not replicates:
        text = f"{name} is left out: it has no run for every fold"
        return None, [*cautions, Caution("model-left-out", "warning", text)]
    if deterministic and len(replicates) > 1:
        text = f"{name} is deterministic: its {count_of(len(replicates), 'run')} count once"
        cautions.append(Caution("seeds-repeated", "note", text))
        replicates = {min(replicates): replicates[min(replicates)]}
    missing = sorted(experiment.seeds - replicates.keys())
    if missing and not deterministic:
        present_seeds, missing_seeds = (
            ", ".join(map(str, numbers)) for numbers in (sorted(replicates), missing)
        )
        text = (
            f"{name} is compared over {plural('seed', len(replicates))} {present_seeds}; "
            f"{plural('seed', len(missing))} {missing_seeds} of other models {plural('is', len(missing))} missing"
        )
        cautions.append(Caution("seeds-missing", "warning", text))
    fold_names = experiment.fold_names if with_folds else {}
    system, repeated_cautions = distinct_replicates(
        _stack_replicates(name, replicates, fold_names, deterministic)
    )
    return average_repeated_queries(system), cautions + repeated_cautions


def _finished_records(runs: Iterable[Run]) -> list[Record]:
    return [run.record for run in runs if run.record.status == "complete"]


_ByFold = dict[str, Run]


def _finished_runs(name: str, runs: Iterable[Run]) -> tuple[dict[int, _ByFold], list[Caution], list[Problem]]:
    """Return the finished runs by seed and fold, cautions of those that do not count, and those that contradict."""
    finished: dict[int, _ByFold] = defaultdict(dict)
    cautions: list[Caution] = []
    problems: list[Problem] = []
    for run in runs:
        record = run.record
        if record.status == "failed":
            text = f"{_run_text(record)} failed: {record.error or 'no reason given'}"
            cautions.append(Caution("run-failed", "warning", text, place=name))
            continue
        first = finished[record.seed].setdefault(record.fold, run).record
        if first is record:
            continue
        if (first.identity, first.evaluation_identity) == (record.identity, record.evaluation_identity):
            text = f"{_run_text(record)} was given twice and counts once"
            cautions.append(Caution("run-repeated", "note", text, place=name))
        else:
            found = f"two different runs of {_run_text(record)} (identities {first.identity} and {record.identity})"
            cure = "leave out the folder of the older one"
            problems.append(Problem(name, found, "one run for each fold and seed", cure))
    return finished, cautions, problems


def _contradictions(name: str, records: Sequence[Record]) -> list[Problem]:
    """Return the first run with another configuration than the first one's, else the first with other metrics."""
    if not records:
        return []
    first, *later_records = records
    for record in later_records:
        if configuration(record) != configuration(first):
            found = f"{_run_text(record)} was trained with another configuration than {_run_text(first)}"
            cure = "leave out the folders of the older one"
            return [Problem(name, found, "one configuration per model", cure)]
    for record in later_records:
        if list(record.metrics) != list(first.metrics):
            differing = ", ".join(sorted(set(record.metrics) ^ set(first.metrics))) or "in another order"
            found = (
                f"{_run_text(record)} and {_run_text(first)} were evaluated by different metrics: {differing}"
            )
            cure = "evaluate them again: stored scores are enough, nothing is trained again"
            return [Problem(name, found, "the same metrics and K in every run", cure)]
    return []


def _whole_replicates(
    name: str, finished: Mapping[int, _ByFold], folds: Sequence[str]
) -> tuple[dict[int, list[Run]], list[Caution]]:
    """Return by seed the runs of all folds, and a caution for each seed that lacks a fold."""
    replicates: dict[int, list[Run]] = {}
    cautions: list[Caution] = []
    for seed, by_fold in sorted(finished.items()):
        missing = [fold for fold in folds if fold not in by_fold]
        if missing:
            text = f"seed {seed} is left out: no run for fold {', '.join(missing)}"
            cautions.append(Caution("seed-left-out", "warning", text, place=name))
        else:
            replicates[seed] = [by_fold[fold] for fold in folds]
    return replicates, cautions


def _stack_replicates(
    name: str,
    replicates: Mapping[int, Sequence[Run]],  # seed to the runs of all folds
    fold_names: Mapping[str, str],  # stand before the ids of a fold's queries; empty where ids are enough
    deterministic: bool,
) -> SystemResult:
    """Return one system with every seed's values one below the other, in the order of the first one's queries."""
    first = next(iter(replicates.values()))
    tables = [run.stored_columns(PER_QUERY) for run in first]
    ids = [_unique_query_ids(name, table) for table in tables]
    named_ids = [_with_fold(run, fold_ids, fold_names) for run, fold_ids in zip(first, ids, strict=True)]
    rows = [_values_in_order(name, runs, first, tables, ids) for runs in replicates.values()]
    tests = {run.record.fold: run.record.data["test"] for run in first if "test" in run.record.data}
    summaries = first[0].record.metrics
    return SystemResult(
        name=name,
        query_ids=np.concatenate(named_ids),
        values={metric: np.stack([values[metric] for values in rows]) for metric in summaries},
        replicates=tuple(map(str, replicates)),
        higher_is_better={metric: summary.higher_is_better for metric, summary in summaries.items()},
        deterministic=deterministic,
        seeded=not deterministic,
        judgments_fingerprint={fold: test.judgments_fingerprint for fold, test in tests.items()},
        truth_fingerprint={fold: test.truth_fingerprint for fold, test in tests.items()},
        query_attributes=_query_attributes(first, tables),
        source=first[0].record.experiment,
    )


def _values_in_order(
    name: str,
    runs: Sequence[Run],
    first: Sequence[Run],
    first_tables: Sequence[_ColumnsByName],
    ids: Sequence[Texts],
) -> dict[str, Floats]:
    """Return the values (n_queries,) of each metric over all folds, in the order of `ids`, those of `first`.

    Raises:
        NotComparableError: a run was tested on other queries or labels.
    """
    metrics, folds = list(first[0].record.metrics), []
    for reference, first_table, reference_ids, run in zip(first, first_tables, ids, runs, strict=True):
        columns = run.stored_columns(PER_QUERY)
        order = _order_of(columns["query_id"], first_table["query_id"], reference_ids)
        if order is None or not _same_labels(reference.record, run.record):
            raise NotComparableError.at(
                name,
                f"{_run_text(run.record)} was tested on other queries or labels than {_run_text(reference.record)}",
                "the same test data for every seed",
                "train it again, or leave out the older folders",
            )
        folds.append({metric: columns[metric].astype(np.float64)[order] for metric in metrics})
    return {metric: np.concatenate([fold[metric] for fold in folds]) for metric in metrics}


def _order_of(run_ids: NDArray[Any], first_ids: NDArray[Any], text_of_first: Texts) -> Ints | slice | None:
    """Return the order of a run's queries that is that of the first run; None where they are others."""
    if run_ids.dtype == first_ids.dtype and np.array_equal(run_ids, first_ids):
        return slice(None)
    text_of_run = text_ids(run_ids)
    if sorted(text_of_run.tolist()) != sorted(text_of_first.tolist()):
        return None
    rank = np.argsort(np.argsort(text_of_first, kind="stable"), kind="stable")
    return np.argsort(text_of_run, kind="stable")[rank]


def _same_labels(record: Record, other: Record) -> bool:
    """Return whether two runs have the same test labels, as far as their records have digests of them."""
    if "test" not in record.data or "test" not in other.data:
        return True
    return record.data["test"].judgments_fingerprint == other.data["test"].judgments_fingerprint


def _unique_query_ids(name: str, columns: _ColumnsByName) -> Texts:
    """Return the ids (n_queries,) of a run's queries; NotComparableError where one occurs twice."""
    ids = text_ids(columns["query_id"])
    if len(set(ids.tolist())) != ids.size:
        raise NotComparableError.at(name, "a query occurs twice in its test data", "unique query ids")
    return ids


def _with_fold(run: Run, ids: Texts, fold_names: Mapping[str, str]) -> Texts:
    """Return the ids (n_queries,) of a run's queries, after the name of their fold where folds have names."""
    fold = run.record.fold
    if fold == NO_FOLDS or not fold_names:
        return ids
    return np.array([f"{fold_names.get(fold, fold)}/{query}" for query in ids.tolist()])


def _facts_of_queries(run: Run, columns: _ColumnsByName) -> list[str]:
    """Return the columns of the run's queries that are about the query and not about the model."""
    return [name for name in columns if name != "query_id" and name not in run.record.metrics]


def _query_attributes(runs: Sequence[Run], tables: Sequence[_ColumnsByName]) -> dict[str, NDArray[Any]]:
    """Return the columns (n_queries,) about the queries of all folds that the runs of all folds have."""
    return {
        name: np.concatenate([columns[name] for columns in tables])
        for name in _facts_of_queries(runs[0], tables[0])
        if all(name in columns for columns in tables)
    }


def _run_text(record: Record) -> str:
    return f"seed {record.seed}" if record.fold == NO_FOLDS else f"{record.fold}, seed {record.seed}"


def budget_cautions(records: Mapping[str, Sequence[Record]]) -> list[Caution]:
    """Return cautions about the budgets of tuned models, by name; none where no model was tuned."""
    tuned: dict[str, list[TuningFacts]] = {}
    for name, model_records in records.items():
        searches = {
            record.tuning.study: record.tuning for record in model_records if record.tuning is not None
        }
        if searches:
            tuned[name] = list(searches.values())
    if not tuned:
        return []
    budgets = "; ".join(_budget_text(name, searches) for name, searches in tuned.items())
    text = f"tuned on validation data, before the test queries were scored: {budgets}"
    rest = [name for name in records if name not in tuned]
    if rest:
        text += f". Not tuned: {', '.join(rest)}"
    cautions = [Caution("tuning-budgets", "note", text)]
    if len({(searches[0].trials, searches[0].minutes) for searches in tuned.values()}) > 1:
        text = "the tuned models had different budgets: a difference may come from the search instead of the models"
        cautions.append(Caution("other-budgets", "warning", text))
    return cautions


def _budget_text(name: str, searches: Sequence[TuningFacts]) -> str:
    """Return what a model's searches used, such as ``m by 40 trials in each of 5 folds (212 s)``."""
    counts = [search.n_trials for search in searches]
    trials = " to ".join(map(str, dict.fromkeys((min(counts), max(counts)))))
    folds = f" in each of {count_of(len(searches), 'fold')}" if len(searches) > 1 else ""
    limit = "" if searches[0].minutes is None else f" of at most {searches[0].minutes:g} min"
    seconds = sum(search.seconds for search in searches)
    return f"{name} by {trials} trials{folds} ({seconds:.0f} s{limit})"
