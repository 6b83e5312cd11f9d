"""Agreement of a judge with a human on the same documents, with intervals over queries.

Each statistic is the mean over documents of its value plus their influences on it (the infinitesimal jackknife). So
the one inference gives its interval, with the documents of a query as one unit. Source: Efron & Tibshirani, "An
Introduction to the Bootstrap" (1993), chapter 21.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltr_harness.comparison.stats.cluster_sums import ClusterSums
from ltr_harness.comparison.stats.families import mean_intervals
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.arrays import Bools, Floats, Ints

_AT_ONCE = 256  # resamples of all queries that are in memory


@dataclass(frozen=True)
class JudgeEstimate:
    """A statistic, and the ends of its interval over queries; None where fewer than two queries count."""

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True, eq=False)
class GradePairs:
    """Documents that a human and a judge graded. Shapes: (n_documents,)."""

    queries: Ints  # codes
    human: Floats
    judge: Floats

    def take(self, documents: Bools) -> "GradePairs":
        """Return some of the documents, (n_documents,)."""
        return GradePairs(self.queries[documents], self.human[documents], self.judge[documents])

    @property
    def n_queries(self) -> int:
        """The number of queries with such a document."""
        return np.unique(self.queries).size

    def kappa(self, method: Method) -> JudgeEstimate | None:
        """Return Cohen's kappa with quadratic weights; None where it is undefined, because all grades are equal.

        It is 1 - D / E: the mean squared difference of the two grades of a document, over that of the grades of any
        two documents. Source: Cohen, "Weighted kappa" (1968).
        """
        human, judge = self.human, self.judge
        squares, human_mean, judge_mean = (human - judge) ** 2, human.mean(), judge.mean()
        observed = squares.mean()
        expected = human.var() + judge.var() + (human_mean - judge_mean) ** 2
        if not expected > 0:
            return None
        by_chance = (
            human**2 + judge**2 - 2 * (human_mean * judge + judge_mean * human - human_mean * judge_mean)
        )
        influence = observed * (by_chance - expected) / expected**2 - (squares - observed) / expected
        return self._estimate(1 - observed / expected + influence, (-1.0, 1.0), method)

    def alpha(self, method: Method) -> JudgeEstimate | None:
        """Return Krippendorff's alpha of grades in their order; None where it is undefined, as all grades are equal.

        The difference of two grades is that of their mid-ranks among all judgments: see `inspection.agreement`.
        """
        grades, codes, counts = np.unique(
            np.concatenate([self.human, self.judge]), return_inverse=True, return_counts=True
        )
        if grades.size < 2:
            return None
        n, human, judge = self.human.size, codes[: self.human.size], codes[self.human.size :]
        shares = counts / codes.size
        ranks = np.cumsum(shares) - shares / 2
        residuals = ranks[human] - ranks[judge]
        observed = (residuals**2).mean()
        # twice the variance of mid-ranks, of samples: two judgments that are compared are never the same
        finite = 2 * n / (2 * n - 1)
        expected = (1 - (shares**3).sum()) / 6 * finite
        # a document counts by its own difference, and as it moves the ranks of all others
        by_grade = np.bincount(human, residuals, grades.size) - np.bincount(judge, residuals, grades.size)
        pull = by_grade * (2 / n)
        of_ranks = pull.sum() - np.cumsum(pull) + pull / 2
        moved = (of_ranks[human] + of_ranks[judge]) / 2
        by_chance = -(shares[human] ** 2 + shares[judge] ** 2) / 4 * finite
        influence = (
            observed * (by_chance - by_chance.mean()) / expected**2
            - (residuals**2 - observed + moved - moved.mean()) / expected
        )
        return self._estimate(1 - observed / expected + influence, (-1.0, 1.0), method)

    def bias(self, method: Method) -> JudgeEstimate | None:
        """Return the judge's mean grade minus the human's: above 0, the judge is milder. None without documents."""
        if not self.human.size:
            return None
        width = max(self.human.max(), self.judge.max()) - min(self.human.min(), self.judge.min())
        return self._estimate(self.judge - self.human, (-float(width), float(width)), method)

    def milder(self, documents: Bools, method: Method) -> JudgeEstimate | None:
        """Return by how much the judge is milder on some documents (n_documents,) than on others of equal human grade.

        It is the coefficient of these documents in a regression of the differences with a constant for each human
        grade. None where no human grade has documents of both kinds.
        """
        _, grades, counts = np.unique(self.human, return_inverse=True, return_counts=True)
        is_listed = documents.astype(np.float64)
        contrasts = is_listed - (np.bincount(grades, is_listed) / counts)[grades]
        if not np.square(contrasts).sum() > 0:
            return None
        differences = self.judge - self.human
        residuals = differences - (np.bincount(grades, differences) / counts)[grades]
        sums = ClusterSums.of_ratios(
            (contrasts * residuals)[:, None], np.square(contrasts)[:, None], self.queries
        )
        return _estimate_of(sums, (-np.inf, np.inf), method)

    def _estimate(self, values: Floats, bounds: tuple[float, float], method: Method) -> JudgeEstimate:
        """Return the mean of values (n_documents,), within its bounds."""
        return _estimate_of(ClusterSums.of(values[:, None], self.queries), bounds, method)


def _estimate_of(sums: ClusterSums, bounds: tuple[float, float], method: Method) -> JudgeEstimate:
    (low,), (high,) = mean_intervals(sums, method, [bounds])
    value = float(sums.mean[0])
    return (
        JudgeEstimate(value, None, None) if np.isnan(low) else JudgeEstimate(value, float(low), float(high))
    )


@dataclass(frozen=True)
class GradeConfusion:
    """The judge's grades of the documents with one human grade."""

    grade: float
    n_documents: int
    counts: tuple[int, ...]  # with each grade of the judge


def confusion(pairs: GradePairs) -> tuple[tuple[float, ...], tuple[GradeConfusion, ...]]:
    """Return the judge's grades, ascending, and how often each occurs at every human grade."""
    human_grades, human = np.unique(pairs.human, return_inverse=True)
    judge_grades, judge = np.unique(pairs.judge, return_inverse=True)
    table = np.bincount(human * judge_grades.size + judge, minlength=human_grades.size * judge_grades.size)
    rows = table.reshape(human_grades.size, judge_grades.size)
    confusions = [
        GradeConfusion(float(grade), int(row.sum()), tuple(map(int, row)))
        for grade, row in zip(human_grades, rows, strict=True)
    ]
    return tuple(map(float, judge_grades)), tuple(confusions)


def order_tau(human: Floats, judge: Floats, method: Method) -> JudgeEstimate:
    """Return Kendall's tau of the systems' means by two judges, and the percentiles of its resamples of queries.

    Pairs of systems in the same order less those in the other order, over all pairs; a tie is neither.

    Args:
        human: values by the human's labels, (n_queries, n_systems), NaN where undefined.
        judge: likewise, by the judge's labels.
        method: confidence, draws and seed of the resamples.
    """
    n = len(human)
    value = float(_tau(_weighted_means(np.ones((1, n)), human), _weighted_means(np.ones((1, n)), judge))[0])
    if n < 2:
        return JudgeEstimate(value, None, None)
    random = np.random.default_rng(method.seed)
    taus: list[Floats] = []
    for start in range(0, method.draws, _AT_ONCE):
        weights = random.multinomial(n, np.full(n, 1 / n), min(_AT_ONCE, method.draws - start)).astype(float)
        taus.append(_tau(_weighted_means(weights, human), _weighted_means(weights, judge)))
    drawn = np.concatenate(taus)
    low = float(np.quantile(drawn, method.alpha / 2, method="lower"))
    high = float(np.quantile(drawn, 1 - method.alpha / 2, method="higher"))
    return JudgeEstimate(value, min(low, value), max(high, value))


def _weighted_means(weights: Floats, values: Floats) -> Floats:
    """Return means (n_draws, n_systems) of values (n_queries, n_systems) by weights (n_draws, n_queries)."""
    defined = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray((weights @ np.where(defined, values, 0.0)) / (weights @ defined))


def _tau(first: Floats, second: Floats) -> Floats:
    """Return Kendall's tau of each row, (n_draws,), of means (n_draws, n_systems)."""
    left, right = np.triu_indices(first.shape[1], 1)
    signs = (np.sign(_rounded(each[:, left] - each[:, right])) for each in (first, second))
    return np.asarray(np.prod(list(signs), axis=0).mean(axis=1))


def _rounded(differences: Floats) -> Floats:
    """Return differences (n_draws, n_pairs) of which those that are rounding noise are 0."""
    return np.where(np.abs(differences) < 1e-12, 0.0, differences)


def worth_of_judge(human: Floats, judge: Floats) -> float:
    """Return the share of the variance of human differences (n_queries,) that a judge's leave unexplained."""
    defined = ~(np.isnan(human) | np.isnan(judge))
    d, c = human[defined], judge[defined]
    if d.size < 3 or not (d.std() > 0 and c.std() > 0):
        return 1.0
    return float(1 - np.corrcoef(d, c)[0, 1] ** 2)


def rank_parts(ranks: Ints, edges: Sequence[int] = (3, 10, 30, 100)) -> list[tuple[str, Bools]]:
    """Return documents by their best rank, (n_documents,) from 1, 0 where no ranking lists them."""
    parts, first = [], 1
    for last in edges:
        parts.append((f"{first} to {last}", (ranks >= first) & (ranks <= last)))
        first = last + 1
    parts += [(f"from {first}", ranks >= first), ("in no ranking", ranks == 0)]
    return [(label, documents) for label, documents in parts if documents.any()]
