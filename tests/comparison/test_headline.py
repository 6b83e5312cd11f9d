"""The answer in one line agrees with the verdicts, whichever way the metric points."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import queries_sentence


def compare_values(
    values: dict[str, Sequence[float]], metric: str = "ndcg@10", **options: object
) -> Comparison:
    ids = np.arange(len(next(iter(values.values())))).astype(str)
    systems = [
        SystemResult(
            name=name,
            query_ids=ids,
            values={metric: np.array([own])},
            replicates=("1",),
            higher_is_better={metric: metric != "kendall_tau_distance"},
        )
        for name, own in values.items()
    ]
    return compare(*systems, metrics=[metric], **options)  # type: ignore[arg-type]


BASE = [0.5, 0.25, 1.0, 0.75] * 10
UP = [value - 0.2 + 0.01 * (at % 3) for at, value in enumerate(BASE)]
DOWN = [value + 0.2 - 0.01 * (at % 3) for at, value in enumerate(BASE)]
NEAR = [value + (-1) ** (at // 2) * 0.1 for at, value in enumerate(BASE)]


def test_better_than_the_baseline() -> None:
    found = compare_values({"a": UP, "b": BASE})
    pair = found.paired("b")
    ends = f"(95 % CI {pair.ci_low:+.4f} to {pair.ci_high:+.4f})"
    assert found.headline == ("better", f"b is better than a by {pair.difference:.4f} {ends}")


def test_where_lower_is_better_the_lead_is_still_a_gain() -> None:
    found = compare_values({"a": DOWN, "b": BASE}, "kendall_tau_distance")
    pair = found.paired("b")
    assert pair.difference < 0
    ends = f"(95 % CI {-pair.ci_high:+.4f} to {-pair.ci_low:+.4f})"
    assert found.headline == ("better", f"b is better than a by {-pair.difference:.4f} {ends}")


def test_no_clear_winner_names_who_leads() -> None:
    ahead = compare_values({"a": BASE, "b": [value + 0.001 for value in NEAR]})
    assert ahead.headline.outcome == "no clear winner"
    assert ahead.headline.text.startswith("No clear winner: b leads a by 0.0010 (95 % CI -")
    behind = compare_values({"a": BASE, "b": [value - 0.001 for value in NEAR]})
    pair = behind.paired("b")
    ends = f"(95 % CI {-pair.ci_high:+.4f} to {-pair.ci_low:+.4f})"
    assert behind.headline.text.startswith(f"No clear winner: a leads b by 0.0010 {ends}")
    same = compare_values({"a": BASE, "b": BASE})
    text = "No clear winner: b equals a on average (95 % CI -0.0722 to +0.0722)"
    assert same.headline.text.startswith(text)


def test_worse_and_all_worse() -> None:
    one = compare_values({"a": BASE, "b": UP})
    assert one.headline.outcome == "worse"
    assert one.headline.text.startswith("b is worse than a by 0.19")
    several = compare_values({"a": BASE, "b": UP, "c": [value - 0.1 for value in UP]})
    assert several.headline.text.startswith("All others are worse than a; the closest, b, by 0.19")


def test_a_better_model_beside_a_leader_that_may_be_chance() -> None:
    noisy = [value + (0.9 if at == 0 else 0.3 if at % 2 else -0.2) for at, value in enumerate(UP)]
    steady = [value + 0.03 + 0.001 * (at % 3) for at, value in enumerate(UP)]
    found = compare_values({"a": UP, "noisy": noisy, "steady": steady})
    assert [found.paired(name).verdict for name in ("noisy", "steady")] == ["not distinguishable", "better"]
    assert found.headline.text.startswith("steady is better than a by 0.0310")
    assert found.headline.text.endswith("; noisy has the best mean")


def test_equivalent() -> None:
    found = compare_values(
        {"a": BASE, "b": [value + 1e-3 * (-1) ** (at // 2) for at, value in enumerate(BASE)]}, margin=0.01
    )
    pair = found.paired("b")
    ends = f"(95 % CI {pair.ci_low:+.4f} to {pair.ci_high:+.4f})"
    assert found.headline == ("equivalent", f"b is equivalent to a: {pair.difference:+z.4f} {ends}")


def test_one_model_and_nothing() -> None:
    assert compare_values({"a": BASE}).headline.text.startswith("a: ndcg@10 0.6250 (95 % CI 0.")
    assert compare_values({"a": [math.nan] * 3, "b": [math.nan] * 3}).headline.outcome == "nothing to compare"
    apart = compare_values({"a": [0.5, math.nan], "b": [math.nan, 0.5]})
    assert apart.headline == ("nothing to compare", "Nothing to compare: no query has ndcg@10 for two models")


@pytest.mark.long
def test_a_headline_has_at_most_twenty_words() -> None:
    rng, names = np.random.default_rng(0), ("a", "b", "c-3")
    for _ in range(12):
        values = {
            name: np.clip(rng.normal(0.5 + rng.normal(0, 0.1), 0.2, 12), 0, 1).tolist() for name in names
        }
        found = compare_values(values, draws=200)
        assert len(found.headline.text.split()) <= 20
        verdicts = {pair.verdict for pair in found.pairs}
        assert (found.headline.outcome == "better") == ("better" in verdicts)
        assert (found.headline.outcome == "worse") == (verdicts == {"worse"})


def test_joint_is_said_of_several_models_and_of_no_single_one() -> None:
    """The headline said "95 % CI" of joint intervals."""
    two = compare_values({"a": UP, "b": BASE})
    assert "joint" not in f"{two.headline.text} {two.verdict} {two._repr_html_()}"
    three = compare_values({"a": UP, "b": BASE, "c": NEAR})
    pair = three.paired("b")
    ends = f"{pair.ci_low:+.4f} to {pair.ci_high:+.4f}"
    assert f" (joint 95 % CI {ends})" in three.headline.text
    assert f"(joint 95 % interval {ends}, sign-flip test joint p " in three.verdict
    page = three._repr_html_()
    assert ">ndcg@10 [95 % CI]<" in page, "of means, each by itself"
    assert ">Difference [joint 95 % CI]<" in page
    assert ">joint p<" in page


def test_an_empty_field_is_no_query_without_relevant_documents() -> None:
    found = compare_values({"a": [0.5, math.nan, 0.25], "b": [0.25, 0.5, 0.75]})
    said = queries_sentence(ReportData(found, (), (), None, "t"))
    assert said == "ndcg@10 is undefined for 1 of 3 queries, left out of its mean."
