"""`ltr-harness show trees`: quality of a model's first rounds, the cost of a query, and the best within a budget."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ltr_harness._util.number_text import interval_text
from ltr_harness._util.text import count_of
from ltr_harness.cli.data_source import read_files
from ltr_harness.cli.output import echo, echo_caution, echo_cautions, echo_json, print_table
from ltr_harness.cli.stored_runs import all_have_temperature, default_temperature_notes, loaded, on_scale_of
from ltr_harness.comparison.contrasts import Paired
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.errors import Caution, DataError, GateError, NotComparableError, UsageError
from ltr_harness.experiments.compare.compare import compare
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.experiments.runs import serving_cost as insight
from ltr_harness.experiments.runs.record import Latency
from ltr_harness.experiments.runs.serving_cost import BudgetCandidate, first_rounds, latency, quality_by_trees
from ltr_harness.experiments.training.reproduce import fold_of
from ltr_harness.metrics import Metric, bind, parse_metric
from ltr_harness.metrics.evaluation import Evaluation, evaluate_bound
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.tree_model import TreeModel

_CALLS = 400  # that a 99th percentile is taken from
_CALLS_OF_EACH = 300  # of several models
_SECONDS = 5.0  # for each length of lists


def print_first_rounds(
    path: Path, names: Sequence[str], documents: int, as_json: bool, **rows_of_run: Any
) -> None:
    """Print how good the model's first trees are, and what ranking a query costs."""
    stored, model, split = loaded(path, **rows_of_run)
    metrics = on_scale_of(stored.record, names, split.judgments)
    on_one_thread = stored.model_on(1)
    cuts = []
    for cut in quality_by_trees(on_one_thread, split, metrics):
        scores = first_rounds(on_one_thread, cut.rounds)
        cost = latency(scores, split.features, documents, calls=_CALLS, seconds=0.1)
        means = dict(zip(map(str, metrics), cut.means, strict=True))
        cuts.append({"rounds": cut.rounds, **means, "p50": cost.p50})
    times: list[dict[str, Any]] = []
    for n in insight.DOCUMENTS:
        cost = latency(on_one_thread.score, split.features, n, calls=_CALLS, seconds=_SECONDS)
        numbers = cost.model_dump(include={"documents", "calls", "p50", "p99"})
        times.append({"runtime": stored.record.ranker, **numbers})
    leaves, per_row = stored.record.n_leaves or 0, insight.microseconds_per_row(model, split.features)
    if as_json:
        sizes = {"leaves": leaves, "microseconds_per_row": per_row, "documents": documents}
        echo_json({**sizes, "cuts": cuts, "latency": times})
        return
    _print_cuts(cuts, list(dict.fromkeys(map(str, metrics))), documents)
    echo()
    rows = [[row["runtime"], *(_rounded(row[name]) for name in ("documents", "p50", "p99"))] for row in times]
    print_table(["runtime", "documents", "p50, µs", "p99, µs"], rows)
    threads = count_of(stored.record.threads, "thread")
    echo(f"{leaves:,} leaves; {per_row:.2f} µs per row with {threads}, all rows in one call", err=True)


def _print_cuts(cuts: Sequence[Mapping[str, Any]], metrics: Sequence[str], documents: int) -> None:
    rows = [
        [str(cut["rounds"]), *(f"{cut[name]:z.4f}" for name in metrics), _rounded(cut["p50"])] for cut in cuts
    ]
    print_table(["rounds", *metrics, f"p50 of {documents:,} documents, µs"], rows, left=())


def _rounded(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


class _ScoredModel(NamedTuple):
    """A run with its model on one thread, the rows to score, and the metric as the run is measured by it."""

    run: Run
    model: FittedModel
    split: RankingDataset
    metric: Metric


class TimedModel(NamedTuple):
    """A model, or its first rounds, and the time that a list takes."""

    run: Run
    candidate: BudgetCandidate
    cost: Latency

    def __str__(self) -> str:
        name, rounds = _name(self.run), self.candidate.rounds
        return name if rounds is None else f"{name}, with {count_of(rounds, 'round')}"

    def as_json(self) -> dict[str, Any]:
        candidate, cost = self.candidate, self.cost
        model = {"run": str(self.run.path), "model": _name(self.run), "rounds": candidate.rounds}
        return {**model, "mean": candidate.mean, "p50": cost.p50, "p99": cost.p99}


def print_best_model(
    paths: Sequence[Path],
    names: Sequence[str],
    budget: str,
    documents: int,
    as_json: bool,
    trust: bool,
    data: Path | None,
    **reader: Any,
) -> None:
    """Print the best candidate within the budget, a time for a list of documents, beside the best of all."""
    metrics = [parse_metric(name) for name in names]
    rows = None if data is None else read_files([data], **reader)
    limit = insight.parse_budget(budget)
    models = scored_models(paths, metrics[:1], rows, trust)
    higher_is_better = models[0].metric.higher_is_better
    candidates = [
        candidate for number, model in enumerate(models) for candidate in _candidates(number, model)
    ]
    ordered = insight.best_first(candidates, higher_is_better)
    if not ordered:
        raise UsageError(f"{models[0].metric} is undefined for every model: there is no best")
    timed: dict[BudgetCandidate, TimedModel] = {}

    def measure(candidate: BudgetCandidate, budget_s: float = limit) -> Latency:
        run, model, split, _ = models[candidate.run]
        scores = first_rounds(model, candidate.rounds)
        cost = latency(
            scores,
            split.features,
            documents,
            calls=_CALLS_OF_EACH,
            least=_CALLS_OF_EACH // 2,
            budget=budget_s,
        )
        timed[candidate] = TimedModel(run, candidate, cost)
        return cost

    best, chosen = ordered[0], insight.best_within(ordered, measure, limit)
    if chosen is None:
        fastest = min(timed.values(), key=lambda model: model.cost.p50)
        median = f"that of the fastest, {fastest}, is above it with a median of {fastest.cost.p50:.3g} µs"
        found = f"no model's p99 is within it for {count_of(documents, 'document')}; {median}"
        raise GateError.at(f"--budget {budget}", found)
    if best != chosen:
        measure(best, math.inf)
    choice = BudgetChoice(
        budget, documents, timed[chosen], timed[best], compare_with_best(models, chosen, best)
    )
    metric = models[0].metric
    if as_json:
        echo_json(choice.as_json(metric))
    else:
        print_choice(choice, metric)


def scored_models(
    paths: Sequence[Path], metrics: Sequence[Metric], rows: RankingDataset | None, trust: bool
) -> list[_ScoredModel]:
    """Return all models that score rows by features, measured by the metric, or by the primary one of all runs.

    Runs without such a model are left out, with a caution on stderr.
    """
    runs = [replace(run, trust=trust) for path in paths for run in find_runs(path)]
    complete = [run for run in runs if run.record.status == "complete"]
    if rows is None:
        _refuse_different_tests(complete)
    tests: dict[str, RankingDataset] = {}
    models: list[tuple[Run, FittedModel, RankingDataset]] = []
    for run in complete:
        model = run.model_on(1)
        split = _test_rows(run, tests) if rows is None else run.with_model_columns(rows)
        try:
            model.score(split.features[:1])
        except DataError as problem:
            echo_caution(_caution_left_out(run, str(problem)))
        else:
            models.append((run, model, split))
    echo_cautions(_caution_left_out(run, "it failed") for run in runs if run not in complete)
    if not models:
        raise UsageError("no run has a model that scores features; expected a trained one")
    measured = _metric_of_each([run for run, _, _ in models], metrics, models[0][2])
    return [_ScoredModel(*model, metric) for model, metric in zip(models, measured, strict=True)]


def _refuse_different_tests(runs: Sequence[Run]) -> None:
    """Raise a NotComparableError if runs were tested on different queries."""
    of_tests = {}
    for run in runs:
        run.require_test()
        of_tests[run.record.data["test"].judgments_fingerprint] = _name(run)
    if len(of_tests) > 1:
        found = f"the runs were tested on different queries ({'; '.join(list(of_tests.values())[:4])})"
        cure = "the runs of one fold, or --data FILE"
        raise NotComparableError.at("--budget", found, "models on the same queries", cure)


def _test_rows(run: Run, tests: dict[str, RankingDataset]) -> RankingDataset:
    """Return the test rows of a run, which runs of one fold share."""
    fingerprint = run.record.data["test"].fingerprint
    if fingerprint not in tests:
        tests[fingerprint] = fold_of(run).test
    return tests[fingerprint]


def _metric_of_each(
    runs: Sequence[Run], metrics: Sequence[Metric], first_split: RankingDataset
) -> list[Metric]:
    """Return the metric as each run is measured by it: with its temperature, where all have one."""
    records = [run.record for run in runs]
    primaries = list(dict.fromkeys(record.primary for record in records))
    if not metrics and len(primaries) > 1:
        found = f"the runs have different primary metrics ({', '.join(primaries)})"
        raise UsageError(f"{found}; name one with -m")
    (metric,) = on_scale_of(records[0], metrics, first_split.judgments, records)
    if not all_have_temperature(records, metric):
        echo_cautions(default_temperature_notes([metric], "all runs"))
        return [metric for _ in records]
    return [fitted for record in records for fitted in record.measuring([metric])]


def _candidates(number: int, scored: _ScoredModel) -> list[BudgetCandidate]:
    """Return the model's first rounds at several numbers of rounds, or a model without rounds whole."""
    _, model, split, metric = scored
    if isinstance(model, TreeModel) and model.best_round:
        cuts = quality_by_trees(model, split, [metric])
        return [BudgetCandidate(number, cut.rounds, cut.means[0]) for cut in cuts]
    mean = bind([metric], split.judgments).means(model.score(split.features))[0]
    return [BudgetCandidate(number, None, float(mean))]


def _caution_left_out(run: Run, reason: str) -> Caution:
    return Caution("run-left-out", "warning", f"{_name(run)} is left out: {reason}")


def _name(run: Run) -> str:
    record = run.record
    fold = "" if record.fold == "all" else f", fold {record.fold}"
    return f"{record.model}{fold}, seed {record.seed}"


def compare_with_best(
    models: Sequence[_ScoredModel], chosen: BudgetCandidate, best: BudgetCandidate
) -> Paired | None:
    """Compare the chosen with the best on the same queries; None where it is the best."""
    if chosen == best:
        return None
    evaluations = {"within": _evaluate(models, chosen), "best": _evaluate(models, best)}
    return compare(evaluations, metrics=[models[0].metric], baseline="best").paired("within")


def _evaluate(models: Sequence[_ScoredModel], candidate: BudgetCandidate) -> Evaluation:
    _, model, split, metric = models[candidate.run]
    scores = first_rounds(model, candidate.rounds)(split.features)
    return evaluate_bound(bind([metric], split.judgments), scores)


class BudgetChoice(NamedTuple):
    """The best model within a budget, the best of all, and their difference."""

    budget: str
    documents: int
    chosen: TimedModel
    best: TimedModel
    pair: Paired | None  # None where they are the same

    def as_json(self, metric: Metric) -> dict[str, Any]:
        loss = None
        if self.pair is not None:
            loss = {name: getattr(self.pair, name) for name in ("n", "difference", "ci_low", "ci_high", "p")}
        limits = {"metric": str(metric), "budget": self.budget, "documents": self.documents}
        return {**limits, "within": self.chosen.as_json(), "best": self.best.as_json(), "paired": loss}


def print_choice(choice: BudgetChoice, metric: Metric) -> None:
    """Print a table of the chosen model and the best, and their difference."""
    budget, chosen, pair = choice.budget, choice.chosen, choice.pair
    rows = [_row(f"within {budget}", chosen)]
    if pair is not None:
        rows.append(_row("best of all", choice.best))
    print_table(["", "model", "rounds", str(metric), "p50, µs", "p99, µs"], rows, left=(0, 1))
    limit = f"within {budget} for {count_of(choice.documents, 'document')}"
    if pair is None:
        echo(f"{chosen} is the best of all and {limit}")
        return
    interval = f"95 % interval {interval_text(pair.ci_low, pair.ci_high)} over {count_of(pair.n, 'query')}"
    difference = f"{metric} {pair.difference:+.4f} ({interval}) against the best of all"
    echo(f"{chosen} is the best {limit}: {difference}")


def _row(title: str, timed: TimedModel) -> list[str]:
    candidate, cost = timed.candidate, timed.cost
    numbers = _rounded(candidate.rounds), f"{candidate.mean:z.4f}", _rounded(cost.p50), _rounded(cost.p99)
    return [title, _name(timed.run), *numbers]
