"""Human labels for some queries, cheap ones for many: what both say together, and how far they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltr_harness.comparison.cautions import rare_kind
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import verdict_of
from ltr_harness.comparison.result import Entrant, Verdict
from ltr_harness.comparison.sentence import p_equals
from ltr_harness.errors import NotComparableError, Problem, UsageError
from ltr_harness.groups import Judgments
from ltr_harness.numbers import plain_number
from ltr_harness.stats.families import outcomes
from ltr_harness.stats.method import Method
from ltr_harness.stats.paired import paired_differences
from ltr_harness.stats.prediction_powered import Powered, chosen_at_random, powered
from ltr_harness.wording import count_of


@dataclass(frozen=True)
class GradeAgreement:
    """Rows of one human grade: how many, the share with the same cheap grade, and their mean cheap grade."""

    grade: float
    rows: int
    same: float
    mean: float


@dataclass(frozen=True)
class Agreement:
    """How far cheap labels agree with human ones, over the rows that have both.

    Attributes:
        rows: that have both.
        kappa: Cohen's, unweighted; NaN where one of the two has a single grade.
        grades: the same for each human grade.
    """

    rows: int
    kappa: float
    grades: tuple[GradeAgreement, ...]

    def __str__(self) -> str:
        if not self.rows:
            return "no row has both a human and a cheap label"
        by_grade = "; ".join(
            f"{plain_number(one.grade)}: {one.same:.0%} the same, mean {one.mean:.2f} ({one.rows:,})"
            for one in self.grades
        )
        kappa = f"{self.kappa:.2f}" if self.kappa == self.kappa else "n/a"
        over = count_of(self.rows, "row")
        return f"cheap and human labels agree with kappa {kappa} over {over}; by human grade {by_grade}"


@dataclass(frozen=True)
class CheapPair:
    """One model against the baseline by human and cheap labels together.

    Attributes:
        model: its name.
        difference, ci_low, ci_high, p, p_corrected, verdict: as in `Paired`.
        weight: how much the cheap labels count: lambda, 0 where they tell nothing.
        queries_saved: how many more human-labelled queries would have said as much.
        human_difference, human_ci_low, human_ci_high, human_verdict: by the human labels alone.
    """

    model: str
    difference: float
    ci_low: float
    ci_high: float
    p: float
    p_corrected: float
    verdict: Verdict
    weight: float
    queries_saved: float
    human_difference: float
    human_ci_low: float
    human_ci_high: float
    human_verdict: Verdict


@dataclass(frozen=True)
class CheapLabels:
    """What human and cheap labels say together at the primary metric.

    Attributes:
        metric, baseline: what is compared.
        n_human, n_cheap: queries with human labels, and with cheap ones alone.
        pairs: one for each model but the baseline.
        agreement: of the labels.
        notes: models by human labels alone, and what the human-labelled queries may lack.
    """

    metric: str
    baseline: str
    n_human: int
    n_cheap: int
    pairs: tuple[CheapPair, ...]
    agreement: Agreement
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """One sentence for each model, and how far the labels agree."""
        over = (
            f"{count_of(self.n_human, 'query')} with human labels and {self.n_cheap:,} with cheap ones alone"
        )
        said = []
        for pair in self.pairs:
            against = {"better": "better than", "worse": "worse than", "equivalent": "equivalent to"}
            word = against.get(pair.verdict, "not distinguishable from")
            said.append(
                f"{pair.model} is {word} {self.baseline} at {self.metric} by human and cheap labels together: "
                f"{pair.difference:+.4f} ({pair.ci_low:+.4f} to {pair.ci_high:+.4f}, {p_equals(pair.p_corrected)}), "
                f"over {over}, which say as much as {pair.queries_saved:,.0f} more with human labels would. Human "
                f"labels alone: {pair.human_verdict}, {pair.human_difference:+.4f} ({pair.human_ci_low:+.4f} to "
                f"{pair.human_ci_high:+.4f})"
            )
        return [*said, *self.notes, str(self.agreement)]


def with_cheap_labels(comparison: Comparison, cheap: Sequence[Entrant], agreement: Agreement) -> CheapLabels:
    """What cheap labels of more queries add to a comparison by human labels, at its primary metric.

    Raises:
        UsageError: a test, a correction or units that this is not known for.
        NotComparableError: a query of the comparison has no cheap labels.
    """
    method, metric = comparison.method, comparison.primary
    _check(method)
    values = {entrant.name: entrant.per_query(metric) for entrant in cheap}
    place = {query: at for at, query in enumerate(cheap[0].query_ids.tolist())}
    own = comparison.entrants[0].query_ids.tolist()
    lacking = [query for query in own if query not in place]
    if lacking:
        raise NotComparableError(
            Problem(
                "cheap labels",
                f"{count_of(len(lacking), 'query')} of {len(own):,} with human labels without any, such as "
                f"{str(lacking[0])!r}",
                "cheap labels of all queries",
            )
        )
    at = np.array([place[query] for query in own])
    rest = np.ones(len(place), bool)
    rest[at] = False
    rivals = [model for model in comparison.ranking if model != comparison.baseline]
    if not rivals:
        return CheapLabels(metric, comparison.baseline, len(own), int(rest.sum()), (), agreement)
    base = values[comparison.baseline]
    c = np.column_stack([paired_differences(values[model], base) for model in rivals])
    d = np.column_stack([comparison.query_differences(model) for model in rivals])
    if not chosen_at_random(c[at], c[rest], method):
        raise NotComparableError(
            Problem(
                "human labels",
                "by the cheap labels, models differ otherwise on these queries than on the rest (p < 0.01)",
                "human labels of queries drawn at random",
                "draw them at random, or compare by the human labels alone",
            )
        )
    sharpened = powered(d, c[at], c[rest])
    return CheapLabels(
        metric=metric,
        baseline=comparison.baseline,
        n_human=len(own),
        n_cheap=int(rest.sum()),
        pairs=_pairs(comparison, rivals, sharpened),
        agreement=agreement,
        notes=tuple(_notes(comparison, rivals, sharpened)),
    )


def agreement_of(human: Judgments, cheap: Judgments, rows: NDArray[np.int64]) -> Agreement:
    """How far labels agree.

    Shapes: `rows` (n human rows,).
    """
    both = rows >= 0
    if human.judged is not None:
        both = both & human.judged
    if cheap.judged is not None:
        both[both] = cheap.judged[rows[both]]
    one, other = human.labels[both], cheap.labels[rows[both]]
    if not one.size:
        return Agreement(0, float("nan"), ())
    grades = []
    for grade in np.unique(one):
        theirs = other[one == grade]
        same = float((theirs == grade).mean())
        grades.append(GradeAgreement(float(grade), theirs.size, same, float(theirs.mean())))
    same = float((one == other).mean())
    chance = sum(float((one == grade).mean() * (other == grade).mean()) for grade in np.unique(one))
    return Agreement(one.size, (same - chance) / (1 - chance) if chance < 1 else float("nan"), tuple(grades))


def rows_among(human: Judgments, cheap: Judgments) -> NDArray[np.int64]:
    """int64 (n human rows,): where each human-labelled row stands among the cheap; -1 where it does not.

    By document where rows have names, else by their place in the query, if it has as many rows in both.
    """
    place = {str(query): number for number, query in enumerate(cheap.groups.ids.tolist())}
    starts, wide = human.groups.boundaries, cheap.groups.boundaries
    rows = np.full(human.labels.size, -1, dtype=np.int64)
    for number, query in enumerate(human.groups.ids.tolist()):
        there = place.get(str(query))
        if there is None:
            continue
        own, theirs = slice(starts[number], starts[number + 1]), np.arange(wide[there], wide[there + 1])
        if human.document_ids is not None and cheap.document_ids is not None:
            by_name: Mapping[str, int] = {str(cheap.document_ids[row]): int(row) for row in theirs}
            rows[own] = [by_name.get(str(name), -1) for name in human.document_ids[own].tolist()]
        elif theirs.size == own.stop - own.start:
            rows[own] = theirs
    return rows


def _check(method: Method) -> None:
    problems = []
    if method.test not in ("skew-adjusted", "permutation", "t"):
        problems.append(
            Problem("test", f"{method.test} with cheap labels", "test skew-adjusted, permutation or t")
        )
    if method.margin is not None:
        problems.append(Problem("margin", "equivalence with cheap labels", "no margin"))
    if method.unit is not None:
        problems.append(Problem("unit", f"{method.unit!r} with cheap labels", "no unit"))
    if problems:
        raise UsageError(problems)


def _pairs(comparison: Comparison, models: Sequence[str], sharpened: Powered) -> tuple[CheapPair, ...]:
    """What both kinds of labels say, as one family."""
    method, total = comparison.method, sharpened.total
    found = outcomes(total, method)
    higher = comparison.higher_is_better[comparison.primary]
    pairs = []
    for at, model in enumerate(models):
        human = comparison.paired(model)
        pairs.append(
            CheapPair(
                model=model,
                difference=float(total.mean[at]),
                ci_low=float(found.low[at]),
                ci_high=float(found.high[at]),
                p=float(found.p[at]),
                p_corrected=float(found.p_corrected[at]),
                verdict=verdict_of(total.mean[at], found.p_corrected[at], np.nan, higher, method),
                weight=float(sharpened.weight[at]),
                queries_saved=max(float(sharpened.worth[at]) - len(sharpened.total.parts[0].sums), 0.0),
                human_difference=human.difference,
                human_ci_low=human.ci_low,
                human_ci_high=human.ci_high,
                human_verdict=human.verdict,
            )
        )
    return tuple(pairs)


def _notes(comparison: Comparison, models: Sequence[str], sharpened: Powered) -> list[str]:
    notes = []
    for at, model in enumerate(models):
        if sharpened.too_few[at]:
            notes.append(
                f"{model}: the human labels alone count, since most of so few human-labelled queries do not differ"
            )
        room = abs(float(sharpened.total.mean[at]))
        n, width = int(sharpened.total.parts[0].units[at]), comparison.value_range()
        line = rare_kind(n, room, width, comparison.method, family=len(models))
        notes += [f"{model}: {line}"] if line else []
    return notes
