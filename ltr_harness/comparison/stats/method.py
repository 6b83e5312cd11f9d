"""The method of comparison: section ``compare:``, commands' options and keywords are made of `Method`'s fields."""

import operator
from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of
from ltr_harness.errors import ConfigError, Problem

Test = Literal["permutation", "skew-adjusted", "t", "bootstrap", "bounded"]

TESTS: dict[Test, str] = {
    "permutation": "sign-flip test",
    "skew-adjusted": "skewness-adjusted sign-flip test",
    "t": "paired t test",
    "bootstrap": "studentised bootstrap test",
    "bounded": "betting test for bounded metrics",
}

SIMILAR_TESTS = {
    **dict.fromkeys(("fisher", "randomisation", "randomization", "sign-flip"), "permutation"),
    **dict.fromkeys(("paired-t", "student", "student-t", "t-test", "ttest"), "t"),
}
"""What a test is also called: suggested, not accepted."""
UNWEIGHTED = "none"  # of `Method.weights`: every query counts once
FLIPS = ("skew-adjusted", "permutation")  # the tests that flip signs


def _option(default: Any, description: str, expected: str = "", **bounds: float) -> Any:
    """A field with what help and errors say of it; bounds are ``ge``, ``gt``, ``le`` and ``lt``, or ``min_length``."""
    return field(default=default, metadata={"description": description, "expected": expected, **bounds})


def _is_valid(value: object, option: Field[Any]) -> bool:
    """Return whether a value is of the option's kind and within its bounds; NaN is not."""
    kind = Integral if isinstance(option.default, int) else Real
    bounds = option.metadata
    if "min_length" in bounds:
        return isinstance(value, str) and len(value) >= bounds["min_length"]
    return (
        not isinstance(value, bool)
        and isinstance(value, kind)
        and all(
            getattr(operator, bound)(value, bounds[bound])
            for bound in bounds.keys() & {"ge", "gt", "le", "lt"}
        )
    )


@dataclass(frozen=True)
class Method:
    """The choices behind every number of a comparison.

    Raises:
        ConfigError: a choice that does not exist, or two that contradict each other; all of them at once.
    """

    test: Test = _option(  # noqa: RUF009  # makes a field
        "permutation",
        "Paired test over queries, which the intervals belong to: `permutation` flips the signs of differences, "
        "`skew-adjusted` allows for their skewness as well, `bounded` holds for every distribution and needs "
        "thousands of queries.",
    )
    confidence: float = _option(
        0.95,
        "Confidence level of intervals; tests use one minus it.",
        "a number in [0.5, 1), such as 0.95",
        ge=0.5,
        lt=1,
    )
    margin: float | None = _option(
        None,
        "The largest difference that does not matter, in the metric's unit; adds the verdict `equivalent`.",
        "a difference above 0, in the metric's unit",
        gt=0,
    )
    draws: int = _option(
        10_000,
        "Random sign patterns or resamples.",
        "an integer from 100 to 10,000,000; 10,000 is usual",
        ge=100,
        le=10_000_000,
    )
    seed: int = _option(
        0, "Seed of sign flips and resampling.", "an integer from 0 to 2,147,483,647", ge=0, lt=2**31
    )
    unit: str | None = _option(
        None,
        "The query attribute, such as user_id, whose queries belong together: the unit of tests and intervals.",
        "the name of a query attribute, such as user_id",
        min_length=1,
    )

    weights: str | None = _option(
        None,
        "The query attribute that says how much each query counts; `none`: each counts once. The query weights of "
        "the test data unless given, where it has any.",
        "the name of a query attribute with numbers, such as query_weight, or none",
        min_length=1,
    )

    def __post_init__(self) -> None:
        problems = list(self._problems_of_options())
        if self.test in ("bootstrap", "bounded"):
            problems += self._problems_with_test()
        ConfigError.refuse(problems)

    def _problems_of_options(self) -> Iterator[Problem]:
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name == "test":
                if value not in TESTS:
                    found, cure = f"unknown test {value!r}", did_you_mean(str(value), TESTS, SIMILAR_TESTS)
                    yield Problem("test", found, cure=cure)
            elif not ((value is None and option.default is None) or _is_valid(value, option)):
                yield Problem(option.name, f"{value!r}", option.metadata["expected"])

    def _problems_with_test(self) -> Iterator[Problem]:
        """Yield the problems of a test that is not known for units of unlike size, nor for weights."""
        expected = "test permutation, skew-adjusted or t"
        if self.weights not in (None, UNWEIGHTED):
            found = f"{self.test} where queries are weighted by {self.weights!r}"
            yield Problem("test", found, expected, "weights none counts each query once")
        if self.unit is not None:
            yield Problem("test", f"{self.test} with unit {self.unit!r}", expected)

    @property
    def alpha(self) -> float:
        """The level of the tests, 1 - confidence, without the rounding of that subtraction."""
        return round(1 - self.confidence, 12)

    def describe(self) -> str:
        """One line for captions."""
        test = self.test_text
        if self.test in (*FLIPS, "bootstrap"):
            test += f" ({count_of(self.draws, 'draw')}, seed {self.seed})"
        return f"{test}{self.weights_text}, {self.percent} % intervals"

    @property
    def is_weighted(self) -> bool:
        """True where queries count by an attribute; not known before they are read where none is named."""
        return self.weights not in (None, UNWEIGHTED)

    @property
    def test_text(self) -> str:
        """The test in words, with the unit that it goes by."""
        if self.unit is None:
            return TESTS[self.test]
        return f"{TESTS[self.test]} by {self.unit}"

    @property
    def weights_text(self) -> str:
        """The weights of the queries, in words that continue a sentence; "" where each counts once."""
        return f", weighted by {self.weights}" if self.is_weighted else ""

    def level(self, family: int) -> float:
        """The level of one of so many comparisons by Bonferroni, which the joint draws undercut."""
        return self.alpha / max(family, 1)

    @property
    def percent(self) -> str:
        """The confidence as people say it: ``"95"``."""
        return f"{100 * self.confidence:.10g}"
