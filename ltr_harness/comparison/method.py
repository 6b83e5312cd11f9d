"""How a comparison is computed: which test, which correction, how sure, and how that is said in words."""

from __future__ import annotations

from dataclasses import dataclass

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import ConfigError, Problem
from ltr_harness.wording import count_of

TESTS = {
    "permutation": "sign-flip test",
    "t": "paired t test",
    "bootstrap": "bootstrap test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "sign": "sign test",
}
CORRECTIONS = {
    "holm": "Holm",
    "bh": "Benjamini-Hochberg",
    "bonferroni": "Bonferroni",
    "max-t": "max-T",
    "none": "no correction",
}
INTERVALS = {"t": "t", "bca": "BCa bootstrap", "percentile": "percentile bootstrap"}


@dataclass(frozen=True)
class Method:
    """The choices behind every number of a comparison.

    Attributes:
        test: what the p-value is: a key of `TESTS`.
        correction: for several models: a key of `CORRECTIONS`.
        confidence: of the intervals; 1 - confidence is the level of the tests.
        interval: how the intervals are made: a key of `INTERVALS`. Under ``max-t`` those of differences are
            simultaneous and come from its own draws.
        margin: the largest difference that does not matter, in the metric's unit; None for none.
        draws: random sign patterns or resamples.
        seed: of those draws.

    Raises:
        ConfigError: a choice that does not exist, or two that contradict each other; all of them at once.
    """

    test: str = "permutation"
    correction: str = "holm"
    confidence: float = 0.95
    interval: str = "t"
    margin: float | None = None
    draws: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        problems = [
            Problem(name, f"unknown {name} {value!r}", cure=did_you_mean(str(value), known))
            for name, value, known in (
                ("test", self.test, TESTS),
                ("correction", self.correction, CORRECTIONS),
                ("interval", self.interval, INTERVALS),
            )
            if value not in known
        ]
        if not 0.5 <= self.confidence < 1:
            problems.append(
                Problem("confidence", f"{self.confidence!r}", "a number in [0.5, 1), such as 0.95")
            )
        if self.margin is not None and not self.margin > 0:
            problems.append(
                Problem("margin", f"{self.margin!r}", "a difference above 0, in the metric's unit")
            )
        if self.draws < 100:
            problems.append(Problem("draws", f"{self.draws!r}", "at least 100; 10,000 is usual"))
        if self.seed < 0:
            problems.append(Problem("seed", f"{self.seed!r}", "an integer >= 0"))
        if self.correction == "max-t" and self.test in TESTS and self.test != "permutation":
            problems.append(
                Problem(
                    "correction",
                    f"max-t with test {self.test!r}",
                    "test permutation: max-T takes its p-values from sign flips of the whole family",
                )
            )
        if problems:
            raise ConfigError(problems)

    @property
    def alpha(self) -> float:
        """The level of the tests, 1 - confidence, without the rounding of that subtraction."""
        return round(1 - self.confidence, 12)

    def describe(self) -> str:
        """One line for captions.

        Example:
            >>> Method().describe()
            'sign-flip test (10,000 draws, seed 0), Holm, 95 % intervals (t)'
        """
        drawn = self.test in ("permutation", "bootstrap")
        test = TESTS[self.test] + (f" ({count_of(self.draws, 'draw')}, seed {self.seed})" if drawn else "")
        interval = "simultaneous" if self.correction == "max-t" else INTERVALS[self.interval]
        return f"{test}, {CORRECTIONS[self.correction]}, {self.percent} % intervals ({interval})"

    @property
    def percent(self) -> str:
        """The confidence as people say it: ``"95"``."""
        return f"{100 * self.confidence:.10g}"
