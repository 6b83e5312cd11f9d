"""From training runs to the models they are runs of: seeds become replicates, folds are pooled."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.comparison.contrasts import SystemResult, text_ids
from ltr_harness.errors import Caution, NotComparableError, Problem, all_of
from ltr_harness.experiments.inspection.lints import REPEATED
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.runs.record import Record
from ltr_harness.experiments.runs.revisions import cautions_of
from ltr_harness.metrics.core.headroom import is_computed_column

if TYPE_CHECKING:
    import pandas as pd

NO_FOLDS = "all"


@dataclass(frozen=True, eq=False)
class TestSet:
    """The test queries of one fold."""

    __test__ = False  # its name is about test data, not about pytest

    digest: str  # of its labels, groups and ids; empty when unknown
    facts: Mapping[str, tuple[Any, ...]]  # query id to what is known of it apart from any model
    repeated: bool = False  # whether the data lints found queries here that another fold tests as well

    def shares(self, other: "TestSet") -> bool:
        """Whether ids that both have name the same queries: digests, lints or facts that tell queries apart say so."""
        if self.digest and self.digest == other.digest:
            return True
        ids = self.facts.keys() & other.facts.keys()
        told_apart = self.repeated or other.repeated or len({self.facts[query] for query in ids}) > 1
        return bool(ids) and told_apart and all(self.facts[query] == other.facts[query] for query in ids)


def facts_by_id(ids: NDArray[np.str_], columns: Mapping[str, NDArray[Any]]) -> dict[str, tuple[Any, ...]]:
    """What is known of each of (n_queries,) queries, as text."""
    texts = [map(str, columns[name].tolist()) for name in sorted(columns)]
    return {query: tuple(facts) for query, *facts in zip(ids.tolist(), *texts, strict=True)}


def names_of_queries(tests: Mapping[str, TestSet]) -> dict[str, str]:
    """Fold to the fold after which its queries are called: the first one that shares queries with it."""
    called: dict[str, str] = {}
    for fold, test in tests.items():
        called[fold] = next((called[known] for known in called if tests[known].shares(test)), fold)
    return called


def each_once(system: SystemResult) -> SystemResult:
    """The system with the mean over the places of each query id."""
    ids, first, at = np.unique(system.query_ids, return_index=True, return_inverse=True)
    if ids.size == system.query_ids.size:
        return system
    order = np.argsort(first)
    place = np.argsort(order)[at.reshape(-1)]
    kept = system.take(first[order])
    values = {metric: np.empty((len(rows), ids.size)) for metric, rows in system.values.items()}
    for metric, means in values.items():
        for row, own in enumerate(system.values[metric]):
            known = ~np.isnan(own)
            sums = np.bincount(place[known], own[known], ids.size)
            with np.errstate(invalid="ignore"):
                means[row] = sums / np.bincount(place[known], minlength=ids.size)
    return replace(kept, values=values)


def distinct_replicates(system: SystemResult) -> tuple[SystemResult, list[Caution]]:
    """Replicates that are identical to the bit carry one piece of information: they count once, as cautions say."""
    kept: dict[bytes, list[int]] = {}
    for row in range(len(system.replicates)):
        content = b"".join(rows[row].tobytes() for rows in system.values.values())
        kept.setdefault(content, []).append(row)
    if len(kept) == len(system.replicates):
        return system, []
    alike = [
        f"seeds {', '.join(system.replicates[row] for row in same)}"
        for same in kept.values()
        if len(same) > 1
    ]
    cautions = [
        Caution("seeds-repeated", "note", f"{seeds} gave identical values and count once", place=system.name)
        for seeds in alike
    ]
    first = [same[0] for same in kept.values()]
    distinct = replace(
        system,
        values={metric: rows[first] for metric, rows in system.values.items()},
        replicates=tuple(system.replicates[row] for row in first),
        deterministic=system.deterministic or len(first) == 1,
        seeded=system.seeded and len(first) > 1,
    )
    return distinct, cautions


def systems_from_runs(runs: Sequence[Run]) -> tuple[list[SystemResult], list[str], list[Caution]]:
    """The models behind the runs in order of appearance, the runs' distinct primary metrics, and cautions."""
    by_model: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        by_model[run.record.experiment, run.record.model].append(run)
    models = [model for _, model in by_model]
    names = {  # with its experiment in front where two experiments have a model of that name
        (experiment, model): model if models.count(model) == 1 else f"{experiment}/{model}"
        for experiment, model in by_model
    }
    folds: dict[str, set[str]] = defaultdict(set)
    seeds: dict[str, set[int]] = defaultdict(set)
    sets: dict[str, dict[str, TestSet]] = defaultdict(dict)  # as the first finished run of each fold has them
    for run in runs:
        record = run.record
        folds[record.experiment].add(record.fold)
        if not record.deterministic:
            seeds[record.experiment].add(record.seed)
        if record.status == "complete" and record.fold not in sets[record.experiment]:
            frame = run.per_query
            facts = {
                name: frame[name].to_numpy() for name in _facts(run, frame) if not is_computed_column(name)
            }
            digest = record.data["test"].judgments_fingerprint if "test" in record.data else ""
            repeated = any(caution.kind == REPEATED for caution in record.cautions)
            sets[record.experiment][record.fold] = TestSet(
                digest, facts_by_id(text_ids(frame["query_id"].to_numpy()), facts), repeated
            )
    tests = {experiment: dict(sorted(own.items())) for experiment, own in sets.items()}
    called = {experiment: names_of_queries(own) for experiment, own in tests.items()}
    cautions, prefix = [], False
    for experiment, by_fold in tests.items():
        queries = [
            (called[experiment][fold], query) for fold, test in by_fold.items() for query in test.facts
        ]
        distinct = set(queries)
        # whether some id names different queries in several folds of an experiment
        prefix = prefix or len({query for _, query in distinct}) < len(distinct)
        if len(distinct) < len(queries):
            text = (
                f"the folds test {count_of(len(distinct), 'query')} {len(queries):,} times: each query counts once, "
                "with its mean over the folds that test it"
            )
            cautions.append(Caution("queries-repeated", "note", text))
    fold_names = called if prefix else {}
    pooled = all_of(
        [
            partial(
                _pooled, names[key], own, sorted(folds[key[0]]), seeds[key[0]], fold_names.get(key[0], {})
            )
            for key, own in by_model.items()
        ],
        NotComparableError,
    )
    systems = [system for system, _ in pooled if system is not None]
    cautions += [caution for _, its in pooled for caution in its]
    if not systems:
        found = "no model has a complete run"
        NotComparableError.refuse(Problem("", found, cure=str(caution)) for caution in cautions)
    finished = {
        names[key]: [run.record for run in own if run.record.status == "complete"]
        for key, own in by_model.items()
    }
    cautions += cautions_of(finished)
    cautions += budget_cautions({name: records for name, records in finished.items() if records})
    return systems, list(dict.fromkeys(run.record.primary for run in runs)), cautions


def configuration(record: Record) -> Mapping[str, Any]:
    """What all runs of one model have in common: of a tuned one how it was searched, not what each fold found."""
    tuning = record.tuning
    if tuning is None:
        return record.config
    left = {key: dict(value) if isinstance(value, dict) else value for key, value in record.config.items()}
    for option in tuning.chosen:
        field, dot, name = option.partition(".")
        if dot and isinstance(left.get(field), dict):
            left[field].pop(name, None)
        else:
            left.pop(field, None)
    search = (tuning.metric, tuning.sampler, tuning.inner_folds, tuning.seed, sorted(tuning.chosen))
    return {"config": left, "budget": (tuning.trials, tuning.minutes), "search": search}


def _pooled(
    name: str,
    runs: Sequence[Run],
    folds: Sequence[str],  # of the experiment, as are the seeds
    seeds: set[int],
    fold_names: Mapping[str, str],  # stand before the ids of a fold's queries; empty where ids are enough
) -> tuple[SystemResult | None, list[Caution]]:
    """The runs of one model as one system, or None where nothing complete remains; cautions say why."""
    cautions, problems = list[Caution](), []
    complete: dict[int, dict[str, Run]] = defaultdict(dict)
    for run in runs:
        record = run.record
        if record.status == "failed":
            text = f"{_where(record)} failed: {record.error or 'no reason given'}"
            cautions.append(Caution("run-failed", "warning", text, place=name))
            continue
        known = complete[record.seed].setdefault(record.fold, run)
        if known is run:
            continue
        first = known.record
        if (first.identity, first.evaluation_identity) == (record.identity, record.evaluation_identity):
            text = f"{_where(record)} was given twice and counts once"
            cautions.append(Caution("run-repeated", "note", text, place=name))
        else:
            found = (
                f"two different runs of {_where(record)} (identities {first.identity} and {record.identity})"
            )
            cure = "leave out the folder of the older one"
            problems.append(Problem(name, found, "one run for each fold and seed", cure))
    first, *others = [run.record for run in runs if run.record.status == "complete"] or [runs[0].record]
    if other := next((one for one in others if configuration(one) != configuration(first)), None):
        found = f"{_where(other)} was trained with another configuration than {_where(first)}"
        cure = "leave out the folders of the older one"
        problems.append(Problem(name, found, "one configuration per model", cure))
    elif other := next((one for one in others if list(one.metrics) != list(first.metrics)), None):
        differing = ", ".join(sorted(set(other.metrics) ^ set(first.metrics))) or "in another order"
        found = f"{_where(other)} and {_where(first)} were evaluated by different metrics: {differing}"
        cure = "evaluate them again: stored scores are enough, nothing is trained again"
        problems.append(Problem(name, found, "the same metrics and K in every run", cure))
    NotComparableError.refuse(problems)
    deterministic = all(run.record.deterministic for run in runs)
    replicates = {}
    for seed in sorted(complete):
        without = [fold for fold in folds if fold not in complete[seed]]
        if without:
            text = f"seed {seed} is left out: no run for fold {', '.join(without)}"
            cautions.append(Caution("seed-left-out", "warning", text, place=name))
        else:
            replicates[seed] = [complete[seed][fold] for fold in folds]
    if not replicates:
        text = f"{name} is left out: it has no run for every fold"
        return None, [*cautions, Caution("model-left-out", "warning", text)]
    if deterministic and len(replicates) > 1:
        text = f"{name} is deterministic: its {count_of(len(replicates), 'run')} count once"
        cautions.append(Caution("seeds-repeated", "note", text))
        replicates = {min(replicates): replicates[min(replicates)]}
    missing = sorted(seeds - replicates.keys())
    if missing and not deterministic:
        have, lacking = (", ".join(map(str, numbers)) for numbers in (sorted(replicates), missing))
        text = f"{name} is compared over seeds {have}; seed {lacking} of other models is missing"
        cautions.append(Caution("seeds-missing", "warning", text))
    system, alike = distinct_replicates(_stacked(name, replicates, folds, fold_names, deterministic))
    return each_once(system), cautions + alike


def _stacked(
    name: str,
    replicates: Mapping[int, Sequence[Run]],  # seed to the runs of all folds
    folds: Sequence[str],
    fold_names: Mapping[str, str],
    deterministic: bool,
) -> SystemResult:
    """Every seed's values one below the other, in the order of the first one's queries."""
    first = next(iter(replicates.values()))
    frames = [run.per_query for run in first]
    ids = [text_ids(frame["query_id"].to_numpy()) for frame in frames]
    if any(len(set(own.tolist())) != own.size for own in ids):
        raise NotComparableError.at(name, "a query occurs twice in its test data", "unique query ids")
    summaries = first[0].record.metrics
    values: dict[str, list[NDArray[np.float64]]] = {metric: [] for metric in summaries}
    for runs in replicates.values():
        orders, tables = [], []
        for reference, wanted, run in zip(first, ids, runs, strict=True):
            tables.append(run.per_query)
            own = text_ids(tables[-1]["query_id"].to_numpy())
            one, other = reference.record.data.get("test"), run.record.data.get("test")
            same_labels = not (one and other) or one.judgments_fingerprint == other.judgments_fingerprint
            if not same_labels or sorted(own.tolist()) != sorted(wanted.tolist()):
                raise NotComparableError.at(
                    name,
                    f"{_where(run.record)} was tested on other queries or labels than {_where(reference.record)}",
                    "the same test data for every seed",
                    "train it again, or leave out the older folders",
                )
            rank = np.argsort(np.argsort(wanted, kind="stable"), kind="stable")
            orders.append(np.argsort(own, kind="stable")[rank])
        for metric, rows in values.items():
            parts = (table[metric].to_numpy(np.float64) for table in tables)
            rows.append(np.concatenate([part[at] for part, at in zip(parts, orders, strict=True)]))
    named = [
        own
        if fold == NO_FOLDS or not fold_names
        else np.array([f"{fold_names.get(fold, fold)}/{query}" for query in own.tolist()])
        for fold, own in zip(folds, ids, strict=True)
    ]
    tests = {run.record.fold: run.record.data["test"] for run in first if "test" in run.record.data}
    return SystemResult(
        name=name,
        query_ids=np.concatenate(named),
        values={metric: np.stack(rows) for metric, rows in values.items()},
        replicates=tuple(map(str, replicates)),
        higher_is_better={metric: summary.higher_is_better for metric, summary in summaries.items()},
        deterministic=deterministic,
        seeded=not deterministic,
        judgments_fingerprint={fold: test.judgments_fingerprint for fold, test in tests.items()},
        truth_fingerprint={fold: test.truth_fingerprint for fold, test in tests.items()},
        query_attributes={
            fact: np.concatenate([frame[fact].to_numpy() for frame in frames])
            for fact in _facts(first[0], frames[0])
            if all(fact in frame for frame in frames)
        },
        source=first[0].record.experiment,
    )


def _facts(run: Run, frame: "pd.DataFrame") -> list[str]:
    """Columns of the run's queries that are about the query and not about the model."""
    return [name for name in map(str, frame) if name != "query_id" and name not in run.record.metrics]


def _where(record: Record) -> str:
    return f"seed {record.seed}" if record.fold == NO_FOLDS else f"{record.fold}, seed {record.seed}"


def budget_cautions(records: Mapping[str, Sequence[Record]]) -> list[Caution]:
    """What a reader must know of the budgets; nothing where no model was tuned."""
    tuned = {name: [one.tuning for one in own if one.tuning is not None] for name, own in records.items()}
    tuned = {name: facts for name, facts in tuned.items() if facts}
    if not tuned:
        return []
    said = []
    for name, facts in tuned.items():  # such as ``40 trials in each of 5 folds (212 s)``: what was used
        searches = list({one.study: one for one in facts}.values())
        counts = [one.n_trials for one in searches]
        trials = " to ".join(map(str, dict.fromkeys((min(counts), max(counts)))))
        folds = f" in each of {count_of(len(searches), 'fold')}" if len(searches) > 1 else ""
        limit = "" if searches[0].minutes is None else f" of at most {searches[0].minutes:g} min"
        seconds = sum(one.seconds for one in searches)
        said.append(f"{name} by {trials} trials{folds} ({seconds:.0f} s{limit})")
    rest = [name for name in records if name not in tuned]
    text = f"tuned on validation data, before the test queries were scored: {'; '.join(said)}"
    text += f". Not tuned: {', '.join(rest)}" if rest else ""
    cautions = [Caution("tuning-budgets", "note", text)]
    if len({(facts[0].trials, facts[0].minutes) for facts in tuned.values()}) > 1:
        may = "a difference may come from the search, not from the models"
        text = f"the tuned models had different budgets: {may}"
        cautions.append(Caution("other-budgets", "warning", text))
    return cautions
