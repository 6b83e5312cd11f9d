"""`ltr-harness show trees RUN… --budget TIME`: the best model that answers in time, and what is lost by it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ltr_harness.cli.output import say
from ltr_harness.cli.stored_runs import on_scale_of
from ltr_harness.cli.tables import print_table
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, GateError, NotComparableError, Problem, UsageError
from ltr_harness.evaluation import Evaluation, evaluate_bound
from ltr_harness.metrics import Metric, bind, parse_metric
from ltr_harness.numbers import json_value
from ltr_harness.rankers.adapters import TreeModel
from ltr_harness.rankers.ranker import FittedModel
from ltr_harness.runs import Run, find_runs
from ltr_harness.runs.insight import quality_by_trees
from ltr_harness.runs.latency import Candidate, best_first, best_within, first_rounds, latency, parse_budget
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.comparison import Paired
    from ltr_harness.runs.record import Latency

_CALLS = 300


class _Entry(NamedTuple):
    """A run with its model on one thread, and the rows to look at."""

    run: Run
    model: FittedModel
    split: RankingDataset


class Answer(NamedTuple):
    """A model, or its first rounds alone, and what a list takes.

    Attributes:
        run: its folder.
        model: its name, with fold and seed.
        rounds: how many; None for a model without rounds.
        mean: of the metric.
        p50, p99: microseconds; p99 is None where too few calls were timed.
    """

    run: str
    model: str
    rounds: int | None
    mean: float
    p50: float
    p99: float | None

    def __str__(self) -> str:
        return self.model if self.rounds is None else f"{self.model}, with {count_of(self.rounds, 'round')}"


def say_best(
    paths: Sequence[Path],
    rows: RankingDataset | None,
    metrics: Sequence[Metric],
    limit: tuple[str, int],
    trust: bool,
    as_json: bool,
) -> None:
    """Print the best candidate within the budget beside the best of all.

    Raises:
        GateError: no candidate is within the budget.
        UsageError: the budget is none, or the runs cannot be compared.
    """
    budget, documents = parse_budget(limit[0]), limit[1]
    entries = _entries(paths, rows, trust)
    asked = metrics[:1] or [_primary([one.run for one in entries])]
    (metric,) = on_scale_of(entries[0].run.record, asked, entries[0].split.judgments)
    ordered = best_first(_candidates(entries, metric), metric.higher_is_better)
    if not ordered:
        raise UsageError(f"{metric} is undefined for every model: there is no best")
    answers: dict[Candidate, Answer] = {}

    def timed(one: Candidate, within: float = budget) -> Latency:
        run, model, split = entries[one.run]
        score = first_rounds(model, one.rounds)
        took = latency(score, split.features, documents, calls=_CALLS, least=_CALLS // 2, budget=within)
        answers[one] = Answer(str(run.path), _name(run), one.rounds, one.mean, took.p50, took.p99)
        return took

    chosen = best_within(ordered, timed, budget)
    if chosen is None:
        raise _none_within(limit, min(answers.values(), key=lambda one: one.p50))
    if ordered[0] != chosen:
        timed(ordered[0], math.inf)
    pair = _paired(entries, metric, chosen, ordered[0])
    _say(metric, limit, answers[chosen], answers[ordered[0]], pair, as_json)


def _entries(paths: Sequence[Path], rows: RankingDataset | None, trust: bool) -> list[_Entry]:
    """What can be scored by features; whatever cannot is named."""
    from ltr_harness.experiment.reproduce import fold_of

    runs = [replace(run, trust=trust) for path in paths for run in find_runs(path)]
    complete = [run for run in runs if run.record.status == "complete"]
    if rows is None:
        _require_one_test_set(complete)
    tests: dict[str, RankingDataset] = {}
    entries = []
    for run in complete:
        model = run.model_on(1)
        if rows is None:
            of = run.record.data["test"].fingerprint
            split = tests[of] if of in tests else tests.setdefault(of, fold_of(run).test)
        else:
            split = run.with_its_columns(rows)
        try:
            model.score(split.features[:1])
        except DataError as problem:
            say(f"note: {_name(run)} is left out: {problem}", err=True)
        else:
            entries.append(_Entry(run, model, split))
    for run in runs:
        if run not in complete:
            say(f"note: {_name(run)} is left out: it failed", err=True)
    if not entries:
        raise UsageError("no run has a model that scores features; expected a trained one")
    return entries


def _require_one_test_set(runs: Sequence[Run]) -> None:
    of = {run.record.data["test"].judgments_fingerprint: _name(run) for run in runs}
    if len(of) > 1:
        raise NotComparableError(
            Problem(
                "--budget",
                f"the runs were tested on different queries ({'; '.join(list(of.values())[:4])})",
                "models on the same queries",
                "the runs of one fold, or --data FILE",
            )
        )


def _primary(runs: Sequence[Run]) -> Metric:
    names = list(dict.fromkeys(run.record.primary for run in runs))
    if len(names) > 1:
        raise UsageError(f"the runs have different primary metrics ({', '.join(names)}); name one with -m")
    return parse_metric(names[0])


def _name(run: Run) -> str:
    record = run.record
    fold = "" if record.fold == "all" else f", fold {record.fold}"
    return f"{record.model}{fold}, seed {record.seed}"


def _candidates(entries: Sequence[_Entry], metric: Metric) -> list[Candidate]:
    found = []
    for at, (_, model, split) in enumerate(entries):
        if isinstance(model, TreeModel) and model.best_round:
            cuts = quality_by_trees(model, split, [metric])
            found += [Candidate(at, cut.rounds, cut.means[0]) for cut in cuts]
        else:
            mean = bind([metric], split.judgments).means(model.score(split.features))[0]
            found.append(Candidate(at, None, float(mean)))
    return found


def _paired(entries: Sequence[_Entry], metric: Metric, chosen: Candidate, best: Candidate) -> Paired | None:
    """The chosen against the best on the same queries; None where it is the best."""
    from ltr_harness.comparison import compare

    if chosen == best:
        return None

    def evaluation(one: Candidate) -> Evaluation:
        _, model, split = entries[one.run]
        return evaluate_bound(
            bind([metric], split.judgments), first_rounds(model, one.rounds)(split.features)
        )

    both = {"within": evaluation(chosen), "best": evaluation(best)}
    return compare(both, metrics=[metric], baseline="best").paired("within")


def _none_within(limit: tuple[str, int], fastest: Answer) -> GateError:
    return GateError(
        Problem(
            f"--budget {limit[0]}",
            f"no model's p99 is within it for {count_of(limit[1], 'document')}; that of the fastest, {fastest}, is "
            f"above it with a median of {fastest.p50:.3g} µs",
        )
    )


def _say(
    metric: Metric,
    limit: tuple[str, int],
    chosen: Answer,
    best: Answer,
    pair: Paired | None,
    as_json: bool,
) -> None:
    if as_json:
        names = ("n", "difference", "ci_low", "ci_high", "p")
        loss = None if pair is None else {name: getattr(pair, name) for name in names}
        content = {"metric": str(metric), "budget": limit[0], "documents": limit[1]}
        answers = {"within": chosen._asdict(), "best": best._asdict(), "paired": loss}
        say(json.dumps(json_value({**content, **answers}), indent=2))
        return
    shown = {f"within {limit[0]}": chosen} | ({} if pair is None else {"best of all": best})
    print_table(
        ["", "model", "rounds", str(metric), "p50, µs", "p99, µs"],
        [
            [
                name,
                one.model,
                "–" if one.rounds is None else f"{one.rounds:,}",
                f"{one.mean:z.4f}",
                f"{one.p50:,.0f}",
                "–" if one.p99 is None else f"{one.p99:,.0f}",
            ]
            for name, one in shown.items()
        ],
        left=(0, 1),
    )
    say(
        f"{chosen} is the best of all and within {limit[0]} for {count_of(limit[1], 'document')}"
        if pair is None
        else f"{chosen} is the best within {limit[0]} for {count_of(limit[1], 'document')}: {metric} "
        f"{pair.difference:+.4f} (95 % interval {pair.ci_low:+.4f} to {pair.ci_high:+.4f} over "
        f"{count_of(pair.n, 'query')}) against the best of all"
    )
