"""Cheap labels for many queries beside human ones for some: mean(d - lambda c) over the n queries that have both, plus
lambda mean(c) over the M others; lambda = cov(d, c) / ((1 + n / M) var(c)). Source: PPI++ (Angelopoulos 2023).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ltr_harness._util.number_text import interval_text, p_equals, plain_number
from ltr_harness._util.text import count_of
from ltr_harness.comparison.comparability import require_means
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import PairVerdict, SystemResult, differences_of, rare_kind_of
from ltr_harness.comparison.stats.cluster_sums import (
    ClusterSums,
    Floats,
    LinearCombination,
    paired_differences,
)
from ltr_harness.comparison.stats.families import outcomes
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.arrays import Bools, Ints
from ltr_harness.data.columns import hashes_of
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import Caution, NotComparableError

FEW = 100  # human-labelled queries below which ties decide whether cheap labels count
TIED = 0.8  # the share of such queries without a difference above which they do not
RANDOM = 0.01  # level of the test that the human-labelled queries are a random part of all


@dataclass(frozen=True, eq=False)
class Powered:
    """Means by human and cheap labels."""

    total: LinearCombination  # the estimate, (m,) columns
    weight: Floats  # (m,) lambda
    worth: Floats  # (m,) how many human-labelled queries would say as much
    too_few: Bools  # (m,) whether the human labels alone count, for too few queries that differ


def powered(
    human: Floats,  # (n, m)
    cheap: Floats,  # (n, m) of the same queries
    rest: Floats,  # (M, m) of the queries that have the cheap labels alone
) -> Powered:
    """Means of human differences over all queries, with what cheap ones add; undefined human ones have influence 0."""
    n, m = len(human), len(rest)
    defined = ~np.isnan(human)
    k = np.maximum(defined.sum(axis=0), 1)
    mean = np.where(defined, human, 0.0).sum(axis=0) / k
    influence = np.where(defined, (human - mean) * (n / k), 0.0)
    centre = np.nan_to_num(np.nanmean(np.concatenate([cheap, rest]), axis=0))
    near, far = np.nan_to_num(cheap - centre), np.nan_to_num(rest - centre)
    residuals = near - near.mean(axis=0)
    spread = (residuals**2).sum(axis=0)
    ties = (np.where(defined, human, 0.0) == 0).mean(axis=0)
    too_few = (n < FEW) & (ties > TIED)
    usable = (spread > 0) & (m > 1) & ~too_few
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = np.where(usable, (influence * residuals).sum(axis=0) / spread / (1 + n / max(m, 1)), 0.0)
    alone = ClusterSums.of(np.where(k > 2, mean + influence, np.nan))
    first = ClusterSums.of(np.where(k > 2, mean + influence - weight * near, np.nan))
    second = ClusterSums.of(weight * far if m > 1 else np.zeros((2, human.shape[1])))
    total = LinearCombination((first, second), (1.0, 1.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        equivalent_n = np.where(total.error > 0, n * (alone.error / total.error) ** 2, np.inf)
    return Powered(total, weight, equivalent_n, too_few)


def drawn_queries(queries: Sequence[str], n: int) -> list[str]:
    """The n queries to label: those with the lowest hashes, in that order, so that fewer are a draw by chance too."""
    order = np.argsort(hashes_of(pa.array(queries, pa.string())), kind="stable")
    return [queries[place] for place in order[:n].tolist()]


def chosen_at_random(cheap: Floats, rest: Floats, method: Method) -> bool:
    """Test by cheap differences whether the human-labelled queries look like a random part of all."""
    contrast = LinearCombination((ClusterSums.of(cheap), ClusterSums.of(rest)), (1.0, -1.0))
    family = replace(method, test="skew-adjusted", margin=None, unit=None)
    p = outcomes(contrast, family, seeds=(), widths=np.inf).p_corrected
    return not bool((p < RANDOM).any())


@dataclass(frozen=True)
class GradeAgreement:
    """Rows of one human grade: how many, the share with the same cheap grade, and their mean cheap grade."""

    grade: float
    rows: int
    same: float
    mean: float


@dataclass(frozen=True)
class LabelAgreement:
    """The agreement of cheap labels with human ones, over the rows that have both."""

    rows: int
    kappa: float  # Cohen's, unweighted; NaN where one of the two has a single grade
    grades: tuple[GradeAgreement, ...]

    def __str__(self) -> str:
        if not self.rows:
            return "no row has both a human and a cheap label"
        by_grade = "; ".join(
            f"{plain_number(grade.grade)}: {grade.same:.0%} the same, mean {grade.mean:.2f} ({grade.rows:,})"
            for grade in self.grades
        )
        kappa = f"{self.kappa:.2f}" if self.kappa == self.kappa else "n/a"
        over = count_of(self.rows, "row")
        return f"cheap and human labels agree with kappa {kappa} over {over}; by human grade {by_grade}"


@dataclass(frozen=True)
class CheapPair:
    """One model against the baseline by human and cheap labels together."""

    model: str
    difference: float
    ci_low: float
    ci_high: float
    p: float
    p_corrected: float
    verdict: PairVerdict
    weight: float  # how much the cheap labels count: lambda
    queries_saved: float  # how many more human-labelled queries would have said as much
    human_difference: float  # by the human labels alone
    human_ci_low: float
    human_ci_high: float
    human_verdict: PairVerdict


@dataclass(frozen=True)
class CheapLabels:
    """The comparison by human and cheap labels together, at the primary metric."""

    metric: str
    baseline: str
    n_human: int  # queries with human labels
    n_cheap: int  # queries with cheap ones alone
    pairs: tuple[CheapPair, ...]
    agreement: LabelAgreement
    cautions: tuple[Caution, ...] = ()

    def lines(self) -> list[str]:
        """One sentence for each model, and how far the labels agree."""
        human = f"{count_of(self.n_human, 'query')} with human labels"
        over = f"{human} and {self.n_cheap:,} with cheap ones alone"
        against = {"better": "better than", "worse": "worse than", "equivalent": "equivalent to"}
        sentences = []
        for pair in self.pairs:
            word = against.get(pair.verdict, "not distinguishable from")
            sentences.append(
                f"{pair.model} is {word} {self.baseline} at {self.metric} by human and cheap labels together: "
                f"{pair.difference:+.4f} ({interval_text(pair.ci_low, pair.ci_high)}, {p_equals(pair.p_corrected)}), "
                f"over {over}, worth {pair.queries_saved:,.0f} more with human labels. Human "
                f"labels alone: {pair.human_verdict}, {pair.human_difference:+.4f} ({pair.human_ci_low:+.4f} to "
                f"{pair.human_ci_high:+.4f})"
            )
        return [*sentences, *map(str, self.cautions), str(self.agreement)]


def with_cheap_labels(
    comparison: Comparison, cheap: Sequence[SystemResult], agreement: LabelAgreement
) -> CheapLabels:
    """Add the cheap labels of more queries to a comparison by human labels, at its primary metric."""
    method, metric = comparison.method, comparison.primary
    require_means(method, "with cheap labels", units=False)
    queries = comparison.systems[0].query_ids.tolist()
    cheap_queries = cheap[0].query_ids.tolist()
    places = _places(queries, cheap_queries)
    is_rest = np.ones(len(cheap_queries), bool)
    is_rest[places] = False
    counts = (metric, comparison.baseline, len(queries), int(is_rest.sum()))
    rivals = [model for model in comparison.ranking if model != comparison.baseline]
    if not rivals:
        return CheapLabels(*counts, (), agreement)
    values = {system.name: system.per_query(metric) for system in cheap}
    base = values[comparison.baseline]
    c = np.column_stack([paired_differences(values[model], base) for model in rivals])
    d = np.column_stack([comparison.query_differences(model) for model in rivals])
    if not chosen_at_random(c[places], c[is_rest], method):
        raise NotComparableError.at(
            "human labels",
            "by the cheap labels, models differ from each other unlike on the rest (p < 0.01)",
            "human labels of queries drawn at random",
            "draw them at random, or compare by the human labels alone",
        )
    sharpened = powered(d, c[places], c[is_rest])
    total = sharpened.total
    is_higher_better = [comparison.higher_is_better[metric] for _ in rivals]
    width = comparison.value_range()
    results = outcomes(total, method, seeds=(), widths=width)  # as one family, of these trained models
    differences = differences_of(total.mean, results, is_higher_better, method)
    pairs, cautions = [], _draw_cautions(queries, cheap_queries)
    for number, (model, difference) in enumerate(zip(rivals, differences, strict=True)):
        human = comparison.paired(model)
        pairs.append(
            CheapPair(
                model=model,
                **vars(difference),
                weight=float(sharpened.weight[number]),
                queries_saved=max(float(sharpened.worth[number]) - len(queries), 0.0),
                human_difference=human.difference,
                human_ci_low=human.ci_low,
                human_ci_high=human.ci_high,
                human_verdict=human.verdict,
            )
        )
        if sharpened.too_few[number]:
            text = "the human labels alone count, since most of so few human-labelled queries do not differ"
            cautions.append(Caution("few-queries", "warning", text, place=model))
        n_units = int(total.parts[0].units[number])
        rare_kind = rare_kind_of(difference, d[:, number], n_units, width, method, len(rivals))
        if rare_kind:
            cautions.append(Caution("rare-kind", "warning", rare_kind, place=model))
    return CheapLabels(*counts, tuple(pairs), agreement, tuple(cautions))


def _places(queries: Sequence[str], cheap_queries: Sequence[str]) -> Ints:
    """Return where each human-labelled query stands among those with cheap labels, (n_queries,)."""
    place = {query: number for number, query in enumerate(cheap_queries)}
    lacking = [query for query in queries if query not in place]
    if lacking:
        raise NotComparableError.at(
            "cheap labels",
            f"{count_of(len(lacking), 'query')} of {len(queries):,} with human labels without any, such as "
            f"{str(lacking[0])!r}",
            "cheap labels of all queries",
        )
    return np.array([place[query] for query in queries])


def _draw_cautions(queries: Sequence[str], cheap_queries: Sequence[str]) -> list[Caution]:
    """Return a caution unless the human-labelled queries are those that `--sample` draws."""
    if set(queries) == set(drawn_queries(cheap_queries, len(queries))):
        return []
    text = (
        "it cannot be checked that these queries were drawn by chance. By the cheap labels they look like it; "
        "queries chosen because a judge seems wrong there look so as well, and make the result wrong"
    )
    cure = "--sample N draws the queries to label"
    return [Caution("unchecked-draw", "warning", text, cure, place="human labels")]


def agreement_of(human: Judgments, cheap: Judgments, rows: Ints) -> LabelAgreement:
    """Compute how far labels agree; `rows` are those of `rows_among`."""
    is_in_both = rows >= 0
    if human.judged is not None:
        is_in_both = is_in_both & human.judged
    if cheap.judged is not None:
        is_in_both[is_in_both] = cheap.judged[rows[is_in_both]]
    human_labels, cheap_labels = human.labels[is_in_both], cheap.labels[rows[is_in_both]]
    if not human_labels.size:
        return LabelAgreement(0, float("nan"), ())
    grades = []
    for grade in np.unique(human_labels):
        cheap_of_grade = cheap_labels[human_labels == grade]
        same = float((cheap_of_grade == grade).mean())
        grades.append(GradeAgreement(float(grade), cheap_of_grade.size, same, float(cheap_of_grade.mean())))
    same = float((human_labels == cheap_labels).mean())
    chance = sum(
        float((human_labels == grade).mean() * (cheap_labels == grade).mean())
        for grade in np.unique(human_labels)
    )
    return LabelAgreement(
        human_labels.size, (same - chance) / (1 - chance) if chance < 1 else float("nan"), tuple(grades)
    )


def rows_among(human: Judgments, cheap: Judgments) -> Ints:
    """int64 (n human rows,): where each human-labelled row, by name or place, stands among the cheap; -1 where not."""
    place = {str(query): number for number, query in enumerate(cheap.groups.ids.tolist())}
    starts, wide = human.groups.boundaries, cheap.groups.boundaries
    rows = np.full(human.labels.size, -1, dtype=np.int64)
    for number, query in enumerate(human.groups.ids.tolist()):
        cheap_query = place.get(str(query))
        if cheap_query is None:
            continue
        human_rows, cheap_rows = (
            slice(starts[number], starts[number + 1]),
            np.arange(wide[cheap_query], wide[cheap_query + 1]),
        )
        if human.document_ids is not None and cheap.document_ids is not None:
            by_name: Mapping[str, int] = {str(cheap.document_ids[row]): int(row) for row in cheap_rows}
            rows[human_rows] = [
                by_name.get(str(name), -1) for name in human.document_ids[human_rows].tolist()
            ]
        elif cheap_rows.size == human_rows.stop - human_rows.start:
            rows[human_rows] = cheap_rows
    return rows
