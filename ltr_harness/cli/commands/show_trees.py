"""`ltr-harness show trees`: what a model's first rounds are worth, what a query costs, and the best within a budget."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ltr_harness._util.text import count_of
from ltr_harness.cli.data_source import read_files
from ltr_harness.cli.output import print_table, say, say_caution, say_cautions, say_json
from ltr_harness.cli.stored_runs import learned_by_all, loaded, on_scale_of, without_valid
from ltr_harness.comparison.contrasts import Paired
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import Caution, DataError, GateError, NotComparableError, UsageError
from ltr_harness.experiments.compare.compare import compare
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.experiments.runs import serving_cost as insight
from ltr_harness.experiments.runs.record import Latency
from ltr_harness.experiments.runs.serving_cost import Candidate, first_rounds, latency, quality_by_trees
from ltr_harness.experiments.training.reproduce import fold_of
from ltr_harness.metrics import Metric, bind, parse_metric
from ltr_harness.metrics.evaluation import Evaluation, evaluate_bound
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.tree_model import TreeModel

_CALLS = 400  # that a 99th percentile is taken from
_CALLS_OF_EACH = 300  # of several models
_SECONDS = 5.0  # for each length of lists


def say_first_rounds(
    path: Path, names: Sequence[str], documents: int, as_json: bool, **rows_of_run: Any
) -> None:
    """Print how good the model's first trees alone are, and what ranking a query costs."""
    stored, model, split = loaded(path, **rows_of_run)
    metrics = on_scale_of(stored.record, names, split.judgments)
    shown, alone, cuts = list(dict.fromkeys(map(str, metrics))), stored.model_on(1), []
    for cut in quality_by_trees(alone, split, metrics):
        took = latency(first_rounds(alone, cut.rounds), split.features, documents, calls=_CALLS, seconds=0.1)
        means = dict(zip(map(str, metrics), cut.means, strict=True))
        cuts.append({"rounds": cut.rounds, **means, "p50": took.p50})
    timed = {"documents", "calls", "p50", "p99"}
    times: list[dict[str, Any]] = []
    for n in insight.DOCUMENTS:
        took = latency(alone.score, split.features, n, calls=_CALLS, seconds=_SECONDS)
        times.append({"runtime": stored.record.ranker, **took.model_dump(include=timed)})
    leaves, per_row = stored.record.n_leaves or 0, insight.microseconds_per_row(model, split.features)
    if as_json:
        sizes = {"leaves": leaves, "microseconds_per_row": per_row, "documents": documents}
        say_json({**sizes, "cuts": cuts, "latency": times})
        return
    rows = [[str(c["rounds"]), *(f"{c[name]:z.4f}" for name in shown), _whole(c["p50"])] for c in cuts]
    print_table(["rounds", *shown, f"p50 of {documents:,} documents, µs"], rows, left=())
    say()
    rows = [[one["runtime"], *(_whole(one[name]) for name in ("documents", "p50", "p99"))] for one in times]
    print_table(["runtime", "documents", "p50, µs", "p99, µs"], rows)
    threads = count_of(stored.record.threads, "thread")
    say(f"{leaves:,} leaves; {per_row:.2f} µs per row with {threads}, all rows in one call", err=True)


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


class _Entry(NamedTuple):
    """A run with its model on one thread, and the rows to look at."""

    run: Run
    model: FittedModel
    split: RankingDataset


class Result(NamedTuple):
    """A model, or its first rounds alone, and what a list takes."""

    run: Run
    of: Candidate
    took: Latency

    def __str__(self) -> str:
        name, rounds = _name(self.run), self.of.rounds
        return name if rounds is None else f"{name}, with {count_of(rounds, 'round')}"

    def as_json(self) -> dict[str, Any]:
        what = {"run": str(self.run.path), "model": _name(self.run), "rounds": self.of.rounds}
        return {**what, "mean": self.of.mean, "p50": self.took.p50, "p99": self.took.p99}


def say_best(
    paths: Sequence[Path],
    names: Sequence[str],
    limit: tuple[str, int],
    as_json: bool,
    trust: bool,
    data: Path | None,
    **reader: Any,
) -> None:
    """Print the best candidate within the budget, a time and a length of lists, beside the best of all."""
    metrics = [parse_metric(name) for name in names]
    rows = None if data is None else read_files([data], **reader)
    budget, documents = insight.parse_budget(limit[0]), limit[1]
    entries = _entries(paths, rows, trust)
    primaries = list(dict.fromkeys(one.run.record.primary for one in entries))
    if not metrics and len(primaries) > 1:
        found = f"the runs have different primary metrics ({', '.join(primaries)})"
        raise UsageError(f"{found}; name one with -m")
    records = [one.run.record for one in entries]
    (metric,) = on_scale_of(records[0], metrics[:1], entries[0].split.judgments, records)
    measured = _measured(entries, metric)
    if not learned_by_all(records, metric):
        say_cautions(without_valid([metric], "all runs"))
    candidates: list[Candidate] = []
    for at, (_, model, split) in enumerate(entries):
        if isinstance(model, TreeModel) and model.best_round:
            cuts = quality_by_trees(model, split, [measured[at]])
            candidates += [Candidate(at, cut.rounds, cut.means[0]) for cut in cuts]
        else:
            mean = bind([measured[at]], split.judgments).means(model.score(split.features))[0]
            candidates.append(Candidate(at, None, float(mean)))
    ordered = insight.best_first(candidates, metric.higher_is_better)
    if not ordered:
        raise UsageError(f"{metric} is undefined for every model: there is no best")
    results: dict[Candidate, Result] = {}

    def timed(one: Candidate, within: float = budget) -> Latency:
        run, model, split = entries[one.run]
        score, least = first_rounds(model, one.rounds), _CALLS_OF_EACH // 2
        took = latency(score, split.features, documents, calls=_CALLS_OF_EACH, least=least, budget=within)
        results[one] = Result(run, one, took)
        return took

    chosen = insight.best_within(ordered, timed, budget)
    if chosen is None:
        fastest = min(results.values(), key=lambda one: one.took.p50)
        above = f"that of the fastest, {fastest}, is above it with a median of {fastest.took.p50:.3g} µs"
        found = f"no model's p99 is within it for {count_of(documents, 'document')}; {above}"
        raise GateError.at(f"--budget {limit[0]}", found)
    if ordered[0] != chosen:
        timed(ordered[0], math.inf)
    pair = _paired(entries, metric, chosen, ordered[0])
    _say(metric, limit, results[chosen], results[ordered[0]], pair, as_json)


def _entries(paths: Sequence[Path], rows: RankingDataset | None, trust: bool) -> list[_Entry]:
    """What can be scored by features; whatever cannot is named."""
    runs = [replace(run, trust=trust) for path in paths for run in find_runs(path)]
    complete = [run for run in runs if run.record.status == "complete"]
    of_tests = {}
    for run in complete if rows is None else ():
        run.require_test()
        of_tests[run.record.data["test"].judgments_fingerprint] = _name(run)
    if len(of_tests) > 1:
        found = f"the runs were tested on different queries ({'; '.join(list(of_tests.values())[:4])})"
        cure = "the runs of one fold, or --data FILE"
        raise NotComparableError.at("--budget", found, "models on the same queries", cure)
    tests: dict[str, RankingDataset] = {}
    entries = []
    for run in complete:
        model = run.model_on(1)
        if rows is None:
            of = run.record.data["test"].fingerprint
            split = tests[of] if of in tests else tests.setdefault(of, fold_of(run).test)
        else:
            split = run.with_model_columns(rows)
        try:
            model.score(split.features[:1])
        except DataError as problem:
            say_caution(_left_out(run, str(problem)))
        else:
            entries.append(_Entry(run, model, split))
    say_cautions(_left_out(run, "it failed") for run in runs if run not in complete)
    if not entries:
        raise UsageError("no run has a model that scores features; expected a trained one")
    return entries


def _left_out(run: Run, why: str) -> Caution:
    return Caution("run-left-out", "warning", f"{_name(run)} is left out: {why}")


def _name(run: Run) -> str:
    record = run.record
    fold = "" if record.fold == "all" else f", fold {record.fold}"
    return f"{record.model}{fold}, seed {record.seed}"


def _measured(entries: Sequence[_Entry], metric: Metric) -> list[Metric]:
    """The metric as each run is measured by it: with what it learned, where all have learned that."""
    records = [one.run.record for one in entries]
    if not learned_by_all(records, metric):
        return [metric] * len(entries)
    return [own for record in records for own in record.measuring([metric])]


def _paired(entries: Sequence[_Entry], metric: Metric, chosen: Candidate, best: Candidate) -> Paired | None:
    """The chosen against the best on the same queries; None where it is the best."""
    if chosen == best:
        return None
    both: dict[str, Evaluation] = {}
    measured = _measured(entries, metric)
    for name, one in {"within": chosen, "best": best}.items():
        _, model, split = entries[one.run]
        scores = first_rounds(model, one.rounds)(split.features)
        both[name] = evaluate_bound(bind([measured[one.run]], split.judgments), scores)
    return compare(both, metrics=[metric], baseline="best").paired("within")


def _say(
    metric: Metric, limit: tuple[str, int], chosen: Result, best: Result, pair: Paired | None, as_json: bool
) -> None:
    if as_json:
        names = ("n", "difference", "ci_low", "ci_high", "p")
        loss = None if pair is None else {name: getattr(pair, name) for name in names}
        content = {"metric": str(metric), "budget": limit[0], "documents": limit[1]}
        say_json({**content, "within": chosen.as_json(), "best": best.as_json(), "paired": loss})
        return
    rows = []
    for name, one in [(f"within {limit[0]}", chosen), *([] if pair is None else [("best of all", best)])]:
        numbers = _whole(one.of.rounds), f"{one.of.mean:z.4f}", _whole(one.took.p50), _whole(one.took.p99)
        rows.append([name, _name(one.run), *numbers])
    print_table(["", "model", "rounds", str(metric), "p50, µs", "p99, µs"], rows, left=(0, 1))
    within = f"within {limit[0]} for {count_of(limit[1], 'document')}"
    if pair is None:
        say(f"{chosen} is the best of all and {within}")
        return
    interval = f"95 % interval {pair.ci_low:+.4f} to {pair.ci_high:+.4f} over {count_of(pair.n, 'query')}"
    against = f"{metric} {pair.difference:+.4f} ({interval}) against the best of all"
    say(f"{chosen} is the best {within}: {against}")
