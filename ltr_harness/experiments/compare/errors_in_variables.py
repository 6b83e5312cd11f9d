"""True effects behind two measured ones: of past experiments offline and online, each with its standard error.

The pair of true effects of an experiment is drawn from a population with some means, standard deviations and
correlation; what was measured adds independent errors of known size. Measured pairs have a bivariate t distribution
with the covariance of both together, and 4 to infinitely many degrees of freedom, so that heavy tails of effects or
errors weigh less. Of these six parameters the posterior distribution is computed. The prior is the one whose intervals
for a correlation cover as they should without errors (uniform in Fisher's z, the logarithms of the standard deviations
and the means), of pairs that are measured with median errors.

Where most experiments do nothing, tails are all that there is of effects, and may not weigh less. So another population
stands beside it: a share of the experiments has no effect on either side, and the effects of the others are normal. It
is used where it makes the data likelier, by its best parameters, and more than half do nothing. Then correlation and
slope are those of the others, and numbers of all experiments (`positive`, `needed`, `same_signs`) do not hold.

The covariance may exceed that of a correlation of 1, and is cut where one is read: else no interval could hold 1.

Sources: Fuller, "Measurement error models" (1987); Berger & Sun, "Objective priors for the bivariate normal model"
(2008); Cappé et al., "Adaptive importance sampling" (2008); Zou, "Toward using confidence intervals to compare
correlations" (2007); Rubin, "The Bayesian bootstrap" (1981).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations

import numpy as np
from scipy.special import chdtr, chdtri, expit, log_expit, log_ndtr, owens_t, stdtr, stdtrit

from ltr_harness.comparison.stats.cluster_sums import Floats

_ROUNDS, _TRIAL_POINTS, _POINTS = 12, 1000, 4000
_PROPOSAL = 5  # degrees of freedom of the proposal, whose tails are heavier than the posterior's
_NODES = (np.arange(8) + 0.5) / 8  # of a chi-squared distribution
_DRAWS = 400
_MOSTLY = 0.5  # of the experiments
_LARGE = 100.0  # variance of effects, in units of how differences vary, beyond which it becomes unlikely
_NUMBERS_AT_ONCE = 1 << 15
_LIGHTEST = 1e6  # degrees of freedom that are as good as infinitely many


@dataclass(frozen=True)
class Interval:
    """An estimate (the posterior median) and the ends of its interval; infinite where no number bounds it."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{_number_text(self.value)} [{_number_text(self.low)}, {_number_text(self.high)}]"


def _number_text(number: float) -> str:
    return f"{number:.4f}" if math.isfinite(number) else "none"


@dataclass(frozen=True, eq=False)
class TrueEffects:
    """The posterior as weighted points (m,); methods compute a number at each of them, for `interval`."""

    mean: Floats  # of the true offline effects, of experiments that do something
    online_mean: Floats
    variance: Floats
    online_variance: Floats
    covariance: Floats
    freedom: Floats
    nothing: Floats  # the share of experiments that do nothing
    weight: Floats  # sums to 1
    log_likelihood: Floats  # (m, n) of each experiment
    log_rest: Floats  # log of the prior over the proposal

    @classmethod
    def of(
        cls,
        offline: Floats,
        error: Floats,
        online: Floats,
        online_error: Floats,
        above: Floats | None = None,
        error_correlation: float = 0.0,
    ) -> "TrueEffects":
        """Return the posterior by measured differences and standard errors, (n,) each.

        `above`: those offline beyond which an experiment was tested; `error_correlation`: that of its two errors.
        """
        unit = float(np.sqrt(offline.var() + np.median(error) ** 2))
        online_unit = float(np.sqrt(online.var() + np.median(online_error) ** 2))
        measured = (offline / unit, error / unit, online / online_unit, online_error / online_unit)
        pairs = _MeasuredPairs(*measured, None if above is None else above / unit, error_correlation)
        single = cls._of_pairs(pairs, unit, online_unit)
        mixture = cls._of_pairs(replace(pairs, some_do_nothing=True), unit, online_unit)
        is_likelier = mixture.log_likelihood.sum(axis=1).max() > single.log_likelihood.sum(axis=1).max()
        return mixture if is_likelier and mixture.interval(mixture.nothing).value > _MOSTLY else single

    @classmethod
    def _of_pairs(cls, pairs: "_MeasuredPairs", unit: float, online_unit: float) -> "TrueEffects":
        """Return the posterior, by importance sampling from a proposal that comes closer round by round."""
        centre, spread = pairs.start()
        near_rounds = 0  # rounds from whose proposal the posterior was reached
        for number in range(_ROUNDS):
            is_last = near_rounds == 2 or number == _ROUNDS - 1
            z = _proposal_points(_POINTS if is_last else _TRIAL_POINTS, centre.size)
            theta = centre + z @ spread.T
            likelihood, prior = pairs.log_density(theta)
            rest = prior + (_PROPOSAL + 1) / 2 * np.log1p(z**2 / _PROPOSAL).sum(axis=1)
            log_weight = likelihood.sum(axis=1) + rest
            weight = _normalised(log_weight)
            if is_last:
                break
            near_rounds += 1
            while 1 / (weight**2).sum() < _TRIAL_POINTS / 10:  # far from the posterior: a step towards it
                log_weight, near_rounds = log_weight / 2, 0
                weight = _normalised(log_weight)
            centre = weight @ theta
            covariance = ((theta - centre) * weight[:, None]).T @ (theta - centre)
            widened = covariance + np.diag(0.05 * np.diagonal(covariance) + 1e-12)
            spread = np.asarray(np.linalg.cholesky(widened))
        mean, online_mean, variance, online_variance, shared, freedom, nothing, _ = pairs.parameters(theta)
        return cls(
            mean * unit, online_mean * online_unit, variance * unit**2, online_variance * online_unit**2,
            shared * unit * online_unit, freedom, nothing, weight, likelihood, rest,
        )  # fmt: skip

    @property
    def reliable(self) -> bool:
        """True where enough points share the weight; not so where data are impossible under the model."""
        return bool(1 / (self.weight**2).sum() > 40)

    @property
    def mostly_nothing(self) -> bool:
        """True for the population of which more than half do nothing."""
        return bool(self.nothing.any())

    @property
    def correlation(self) -> Floats:
        return np.clip(self.covariance / np.sqrt(self.variance * self.online_variance), -1.0, 1.0)

    @property
    def slope(self) -> Floats:
        """The slope of the true online effect over the true offline effect."""
        return self.covariance / self.variance

    def online_at(self, offline: float) -> Floats:
        """Return the expected online effect at a true offline effect."""
        return self.online_mean + self.slope * (offline - self.mean)

    def positive(self, offline: float, error: float) -> Floats:
        """Return the probability of an online effect above 0, given an offline difference measured with this error."""
        slope, spread, units = self._conditional_scale(error)
        spread = spread * np.sqrt(self.freedom + (offline - self.mean) ** 2 / units)
        expected = self.online_mean + slope * (offline - self.mean)
        return np.asarray(stdtr(self.freedom + 1, expected / spread))

    def needed(self, probability: float, error: float) -> Floats:
        """Return the difference, measured with this error, from which on `positive` is so high; infinite if none is."""
        slope, spread, units = self._conditional_scale(error)
        reach = (stdtrit(self.freedom + 1, probability) * spread) ** 2
        # (online_mean + slope d)**2 = reach (freedom + d**2 / units), of which the larger root in d is asked for
        a, b = slope**2 - reach / units, self.online_mean * slope
        c = self.online_mean**2 - reach * self.freedom
        with np.errstate(invalid="ignore", divide="ignore"):
            difference = self.mean + (np.sqrt(b**2 - a * c) - b) / a
        return np.where((slope > 0) & (a > 0), difference, np.inf)

    def _conditional_scale(self, error: float) -> tuple[Floats, Floats, Floats]:
        """Return slope, scale over the root of (freedom + d**2 / units), and units; d is measured from the mean."""
        measured = self.variance + error**2
        slope, tails = self.covariance / measured, (self.freedom - 2) / self.freedom
        left = np.maximum(self.online_variance - slope * self.covariance, 1e-9 * self.online_variance)
        return slope, np.sqrt(left * tails / (self.freedom + 1)), measured * tails

    def same_signs(self, confidence: float = 0.95) -> Interval:
        """Return the share of experiments whose true effects agree in sign.

        Where 1 is in the correlation's interval, effects may be one line: then no more disagree than the means ask for.
        """
        u, v = self.mean / np.sqrt(self.variance), self.online_mean / np.sqrt(self.online_variance)
        r = np.clip(self.correlation, -1 + 1e-9, 1 - 1e-9)
        root = np.sqrt(1 - r**2)
        disagreement = np.zeros(r.size)
        for share in _NODES:  # effects with heavy tails are normal ones of many sizes
            size = np.sqrt(chdtri(self.freedom, share) / (self.freedom - 2))
            h, k = u * size, v * size
            disagreement += owens_t(h, (k / h - r) / root) + owens_t(k, (h / k - r) / root)  # Owen (1956)
        agreement = self.interval(1 - 2 * disagreement / _NODES.size - (u * v < 0), confidence)
        r_ends = self.interval(self.correlation, confidence)
        chance, *sides = (stdtr(self.freedom, z / np.sqrt(1 - 2 / self.freedom)) for z in (u, v, -v))
        differ = [self.interval(chance - side, confidence) for side in sides]
        lowest, most = (max(0.0, ends.low, -ends.high) for ends in differ)
        low = min(agreement.low, most) if r_ends.low == -1 else agreement.low
        return Interval(
            agreement.value, low, max(agreement.high, 1 - lowest) if r_ends.high == 1 else agreement.high
        )

    def interval(self, values: Floats, confidence: float = 0.95) -> Interval:
        """Return the median of a number at each point, and an interval with equal tails."""
        order = np.argsort(values)
        midpoints = np.cumsum(self.weight[order]) - self.weight[order] / 2
        tail = (1 - confidence) / 2
        indices = np.minimum(np.searchsorted(midpoints, [0.5, tail, 1 - tail]), values.size - 1)
        return Interval(*values[order[indices]].tolist())

    @cached_property
    def resampled(self) -> Floats:
        """The mean correlations (400,) with the experiments weighted at random, for all metrics by the same weights."""
        n = self.log_likelihood.shape[1]
        weights = np.random.default_rng(0).dirichlet(np.ones(n), _DRAWS) * n
        return self.correlation @ _normalised(self.log_likelihood @ weights.T + self.log_rest[:, None])


def correlation_differences(effects: Sequence[TrueEffects], confidence: float = 0.95) -> list[Interval]:
    """Return how much higher each metric's correlation is than that of each later one, on the same experiments.

    The ends are those of both correlations together (Zou 2007); how far the two estimates err alike is found by
    resampling the experiments in pairs.
    """
    correlations = [(effect.interval(effect.correlation, confidence), effect.resampled) for effect in effects]
    with np.errstate(invalid="ignore"):
        return [_correlation_difference(*first, *second) for first, second in combinations(correlations, 2)]


def _correlation_difference(a: Interval, a_resampled: Floats, b: Interval, b_resampled: Floats) -> Interval:
    error_correlation = max(0.0, float(np.nan_to_num(np.corrcoef(a_resampled, b_resampled)[0, 1])))
    a_arms, b_arms = np.array([(a.value - a.low, a.high - a.value), (b.high - b.value, b.value - b.low)])
    squared = a_arms**2 + b_arms**2 - 2 * error_correlation * a_arms * b_arms
    below, beyond = np.sqrt(np.maximum(squared, 0)).tolist()
    difference = a.value - b.value
    return Interval(difference, difference - below, difference + beyond)


@dataclass(frozen=True, eq=False)
class _MeasuredPairs:
    """Measured pairs in their own units, (n,) each."""

    x: Floats
    s: Floats
    y: Floats
    t: Floats
    above: Floats | None
    error_correlation: float  # of a pair
    some_do_nothing: bool = False

    @cached_property
    def median_errors(self) -> tuple[float, float]:
        return float(np.median(self.s)), float(np.median(self.t))

    def start(self) -> tuple[Floats, Floats]:
        """Return the centre of the first proposal, and the root of its covariance."""
        log_sds = [
            0.5 * np.log(max(values.var() - np.mean(errors**2), 0.1 * values.var() + 1e-6))
            for values, errors in ((self.x, self.s), (self.y, self.t))
        ]
        wide = 1.5 / self.x.size**0.5
        centre = np.array(
            [self.x.mean() - 0.5 * (self.above is not None), self.y.mean(), *log_sds, 0.0, -1.0]
        )
        return centre, np.diag([wide, wide, 0.7, 0.7, 1.2, 1.5])

    def parameters(self, theta: Floats) -> tuple[Floats, ...]:
        """Return means, variances, covariance, degrees of freedom, share of idle ones and largest covariance."""
        mean, online_mean, log_sd, online_log_sd, z, w = theta.T
        variance, online_variance = np.exp(2 * log_sd), np.exp(2 * online_log_sd)
        products = (variance[:, None] + self.s**2) * (online_variance[:, None] + self.t**2)
        # a correlation of 1, and nearly all that errors can add to it: of exact lines all would be endlessly likely
        most = 0.01 * np.sqrt(variance * online_variance) + 0.99 * np.sqrt(products.min(axis=1))
        freedom, nothing = np.minimum(4 * (1 + np.exp(-w)), _LIGHTEST), np.zeros_like(w)
        if self.some_do_nothing:
            freedom, nothing = np.full_like(w, _LIGHTEST), expit(w)
        return mean, online_mean, variance, online_variance, np.tanh(z) * most, freedom, nothing, most

    def log_density(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the log likelihood of each pair, (m, n), and the log prior, (m,), at points (m, 6)."""
        n_points = max(1, _NUMBERS_AT_ONCE // self.x.size)
        blocks = [self._log_density_at(theta[i : i + n_points]) for i in range(0, len(theta), n_points)]
        likelihoods, priors = zip(*blocks, strict=True)
        return np.concatenate(likelihoods), np.concatenate(priors)

    def _log_density_at(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return `log_density` at so few points that all steps stay in the processor's cache."""
        mean, online_mean, variance, online_variance, shared, freedom, _, most = self.parameters(theta)
        v, w = variance[:, None] + self.s**2, online_variance[:, None] + self.t**2
        errors, df = self.error_correlation * self.s * self.t, freedom[:, None]
        likelihood = _log_t(
            self.x - mean[:, None], self.y - online_mean[:, None], v, w, shared[:, None] + errors, df
        )
        error, online_error = self.median_errors
        typical, online_typical = error**2 + variance, online_error**2 + online_variance
        squared = np.minimum(shared**2 / (typical * online_typical), 1 - 1e-9)
        prior = np.log(variance * online_variance * most) - 1.5 * np.log(typical * online_typical)
        prior -= np.log1p(-squared) + 2 * np.log(np.cosh(np.clip(theta[:, 4], -300, 300)))
        tails = np.abs(theta[:, 5])
        prior -= tails + 2 * np.log1p(np.exp(-tails))  # 1 / freedom: uniform to 1/4; or the share: uniform
        log_tested = np.zeros_like(likelihood)
        if self.above is not None:
            deviate = (mean[:, None] - self.above) / np.sqrt(v * (df - 2) / df)
            log_tested = np.log(np.maximum(stdtr(df, deviate), 1e-300))
            prior -= 0.5 * mean**2 / typical  # how far below the threshold ideas may lie, no tested one says
        if self.some_do_nothing:
            log_active, log_idle = log_expit(-theta[:, 5:]), log_expit(theta[:, 5:])
            idle_likelihood = _log_t(self.x, self.y, self.s**2, self.t**2, errors, np.full((1, 1), _LIGHTEST))
            likelihood = np.logaddexp(log_active + likelihood, log_idle + idle_likelihood)
            if self.above is not None:
                log_tested = np.logaddexp(log_active + log_tested, log_idle + log_ndtr(-self.above / self.s))
            # effects of which no experiment may have any: of what size they are, none says
            prior -= np.log1p(variance / _LARGE) + np.log1p(online_variance / _LARGE)
            prior -= 0.5 * (mean**2 / typical + online_mean**2 / online_typical)
        return likelihood - log_tested, prior


def _log_t(dx: Floats, dy: Floats, v: Floats, w: Floats, c: Floats, df: Floats) -> Floats:
    """Return the log density of the bivariate t with covariance ((v, c), (c, w)), but for a constant."""
    most = (1 - 5e-13) * np.sqrt(v * w)  # which errors that correlate may exceed
    c = np.clip(c, -most, most)
    determinant = np.maximum(v * w - c**2, 1e-12 * v * w)
    distance = (w * dx**2 - 2 * c * dx * dy + v * dy**2) / determinant
    log = np.log(df / (df - 2)) - 0.5 * np.log(determinant) - (df / 2 + 1) * np.log1p(distance / (df - 2))
    return np.asarray(log)


@cache
def _proposal_points(n: int, dimensions: int) -> Floats:
    """Return the proposal's points, (n, dimensions), by their even shares: an additive sequence of the golden ratio.

    The ratio is generalised to several dimensions.
    """
    ratio = 2.0
    for _ in range(60):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    shares: Floats = (0.5 + np.arange(1, n + 1)[:, None] * ratio ** -np.arange(1.0, dimensions + 1)) % 1
    points = np.asarray(stdtrit(_PROPOSAL, np.clip(shares, 1e-9, 1 - 1e-9)))
    points.flags.writeable = False
    return points


def _normalised(logs: Floats) -> Floats:
    """Return the weights that sum to 1 over the first axis, from their logarithms."""
    weights = np.exp(logs - logs.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def variation_p(values: Floats, errors: Floats) -> float:
    """Return the chance that differences (n,) vary as little as these where only errors vary: Cochran's Q."""
    mean = np.average(values, weights=1 / errors**2)
    return float(chdtr(values.size - 1, float((((values - mean) / errors) ** 2).sum())))
