"""Gates: what they may say, when they fail, and what they say then."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.comparing import compare_systems
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.gates import parse_gate
from ltr_harness.comparison.stats.method import Method
from ltr_harness.errors import MetricError, UsageError
from tests.conftest import named_case

NAN = float("nan")


def comparison(baseline: str = "old", **models: list[float]) -> Comparison:
    """Models with these values of mrr, and of err(max_grade=4)@10, which is the half of it."""
    systems = []
    for name, values in models.items():
        column = np.array(values, dtype=np.float64)
        ids = np.array([f"q{number}" for number in range(column.size)])
        both = {"mrr": column[None], "err(max_grade=4)@10": column[None] / 2}
        systems.append(SystemResult(name, ids, both, ("1",), dict.fromkeys(both, True)))
    return compare_systems(systems, ["mrr", "err(max_grade=4)@10"], baseline=baseline)


LOW, HIGH = [0.2, 0.3, 0.2, 0.3] * 5, [0.4, 0.501, 0.401, 0.498] * 5  # by 0.2 on average, hardly the same
NEAR = [0.201, 0.299, 0.2, 0.301] * 5  # mean 0.25025, as good as LOW


@pytest.fixture(scope="module")
def three() -> Comparison:
    return comparison(old=LOW, new=HIGH, near=NEAR)


FAILING = [
    ("mrr < baseline", []),
    ("mrr <= baseline", []),
    ("mrr > baseline", ["new", "near"]),
    ("mrr>baseline and significant", ["new"]),
    ("mrr of near > baseline", ["near"]),
    ("mrr of near > baseline and significant", []),
    ("rr < 0.3", ["old", "near"]),
    ("  mrr   <   .25  ", []),
    ("mrr <= 0.25", ["old"]),
    ("mrr of new < 0.46", ["new"]),
    ("mrr of new < 0.46 and significant", []),
    ("mrr < 0.3 and significant", ["old", "near"]),
    ("mrr > 0.3 and significant", ["new"]),
    ("mrr > 0.24 and significant", ["new"]),  # the intervals of the others reach below
    ("mrr of old < 0.3", ["old"]),  # against a number the baseline is a model like any other
    ("err@10 > baseline and significant", ["new"]),
    ("err(max_grade=4)@10 < 2e-1", ["old", "near"]),
]


def test_which_models_fail(three: Comparison) -> None:
    for text, failing in FAILING:
        with named_case(text):
            found = parse_gate(text).failures(three)
            assert [line.partition(":")[0] for line in found] == failing


def test_the_line_says_both_means_and_how_sure() -> None:
    found = comparison(new=HIGH, old=LOW)
    assert parse_gate("mrr > baseline").failures(found) == [
        "new: mrr 0.4500 > baseline old 0.2500 (difference +0.2000, p < 0.0001)"
    ]
    assert parse_gate("mrr < 0.26").failures(found) == ["old: mrr 0.2500 < 0.26"]
    (line,) = parse_gate("mrr < 0.3 and significant").failures(found)
    assert line == "old: mrr 0.2500 < 0.3 (interval 0.2311 to 0.2689)"


def test_an_undefined_mean_passes_no_gate() -> None:
    found = comparison(old=[0.5, 0.5], new=[NAN, NAN])
    for text in ("mrr < baseline", "mrr > baseline", "mrr of new < 0.1"):
        assert len(parse_gate(text).failures(found)) == 1
        assert "is undefined for every query, so" in parse_gate(text).failures(found)[0]
    (line,) = parse_gate("mrr < baseline").failures(comparison(old=[NAN, NAN], new=[0.5, 0.5]))
    assert "is undefined for every query, so < baseline old cannot be checked" in line


NO_GATES = [
    ("", "cannot be read; expected METRIC [of MODEL]"),
    ("mrr", "cannot be read"),
    ("mrr = 3", "cannot be read"),
    ("mrr < ", "cannot be read"),
    ("mrr < other", "'other' is neither 'baseline' nor a number"),
    ("mrr < baseline and big", "'baseline and big' is neither 'baseline' nor a number"),
    ("mrr < 0_5", "'0_5' is neither 'baseline' nor a number"),
    ("mrr < nan", "NaN cannot be compared"),
    ("mrr < baseline - ", "'baseline -' is neither 'baseline' nor a number"),
    ("mrr < baseline - -1", "'baseline - -1' is neither 'baseline' nor a number"),
    ("mrr < baseline - 1 %", "'1 %' is neither 'baseline' nor a number"),
    ("mrr < baseline - inf", "an infinite margin; expected a number in the metric's unit, such as 0.005"),
    ("mrr < baseline - nan", "NaN cannot be compared"),
    ("mmr < baseline", "gate 'mmr < baseline': unknown metric 'mmr'; did you mean 'mrr'?"),
    ("ndcg@10(gain=linear) < 1", "gate 'ndcg@10(gain=linear) < 1': "),
]


def test_what_is_no_gate_is_refused() -> None:
    for text, said in NO_GATES:
        with named_case(text):
            with pytest.raises(UsageError) as error:
                parse_gate(text)
            assert said in str(error.value)
            assert isinstance(error.value, MetricError) == ("unknown metric" in said or "linear" in said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ndcg@10 < baseline", "ndcg@10 was not compared; known: err(max_grade=4)@10, mrr"),
        ("mrr of nwe < baseline", "no model 'nwe' in this comparison; did you mean 'new'?"),
        ("mrr of old < baseline - 0.1", "old is the baseline itself; expected another model, or a number"),
        ("mrr of old < baseline", "old is the baseline itself; expected another model, or a number"),
    ],
)
def test_gates_that_mean_nothing_here_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_gate(text).failures(comparison(old=LOW, new=HIGH))
    assert str(error.value).startswith(f"gate {text!r}: {said}")


def test_a_baseline_alone_has_nobody_to_be_held_against() -> None:
    with pytest.raises(UsageError, match="nothing but the baseline is compared"):
        parse_gate("mrr < baseline").failures(comparison(old=LOW))
    assert len(parse_gate("mrr < 1").failures(comparison(old=LOW))) == 1


def test_a_margin_turns_no_proven_loss_into_a_pass() -> None:
    """Significantly lower, by what was declared not to matter: worse all the same."""
    rng = np.random.default_rng(1)
    base = rng.uniform(0.2, 0.8, 400)
    found = compare(
        {
            name: pd.DataFrame({"query_id": [str(at) for at in range(400)], "mrr": values})
            for name, values in (("old", base), ("new", base - 0.002 + rng.normal(0, 0.005, 400)))
        },
        margin=0.01,
    )
    pair = found.paired("new")
    assert (pair.verdict, found.is_within_margin(pair)) == ("worse", True)
    assert "at mrr, within the margin" not in found.verdict
    assert "new, is worse, within the margin: " in found.verdict
    (line,) = parse_gate("mrr < baseline and significant").failures(found)
    assert line.endswith("p < 0.0001)"), "a proven loss"
    (line,) = parse_gate("mrr < baseline").failures(found)
    assert line.endswith("p < 0.0001; within the margin, but this gate looks at the means alone)")


@pytest.mark.long
def test_a_gate_of_nine_lopsided_challengers_seldom_fails_by_chance() -> None:
    """Rare gains and small losses, mean 0, nine times: plain sign flips fail such gates in 17 to 40 %, and say so."""
    rng = np.random.default_rng(3)
    failed, plainly, warned = 0, 0, 0
    for _ in range(6):
        base = rng.uniform(0, 1, 100)
        models = {"old": base}
        for at in range(9):
            models[f"m{at}"] = base + np.where(rng.random(100) < 0.05, rng.uniform(0.5, 1, 100), 0) - 0.0375
        tables = {
            name: pd.DataFrame({"query_id": [str(at) for at in range(100)], "mrr": values})
            for name, values in models.items()
        }
        gate = parse_gate("mrr < baseline and significant")
        failed += bool(gate.failures(compare(tables, draws=1000, test="skew-adjusted")))
        plain = compare(tables, draws=1000)
        if gate.failures(plain):
            plainly += 1
            warned += any(caution.kind == "lopsided" for caution in plain.cautions)
    assert failed <= 1  # 5 % and less than two standard errors
    assert warned >= 0.7 * plainly > 0


# --- margins ---


FAILING_WITH_MARGINS = [
    # NEAR is +0.00025 above LOW, interval -0.00014 to +0.00064; HIGH is +0.2 above, without any spread
    ("mrr < baseline - 0.005", []),
    ("mrr < baseline - 0.0001", ["near"]),
    ("mrr < baseline - 0.0001 and significant", []),
    ("mrr < baseline + 0.005", ["near"]),
    ("mrr < baseline + 0.005 and significant", ["near"]),
    ("mrr < baseline+0.0005", ["near"]),
    ("mrr < baseline + 0.0005 and significant", []),
    ("mrr of new < baseline + 0.1", []),
    ("mrr of new < baseline + 0.3", ["new"]),
    ("mrr <= baseline + 0", ["near"]),
    ("mrr > baseline + 0.0005", ["new", "near"]),
    ("mrr > baseline + 0.001", ["new"]),
    ("mrr >= baseline - 1 and significant", ["new", "near"]),
]


def test_a_margin_is_held_against_the_interval_of_the_difference(three: Comparison) -> None:
    for text, failing in FAILING_WITH_MARGINS:
        with named_case(text):
            found = parse_gate(text).failures(three)
            assert [line.partition(":")[0] for line in found] == failing


def test_the_line_of_a_margin_says_the_interval() -> None:
    found = comparison(old=LOW, near=NEAR)
    pair = found.paired("near", "mrr")
    (line,) = parse_gate("mrr < baseline - 1e-4").failures(found)
    assert line == (
        f"near: mrr < baseline old - 0.0001 cannot be excluded: {pair.model_mean:.4f} against 0.2500, "
        "difference +0.0003 "
        f"(95 % interval {pair.ci_low:+.4f} to {pair.ci_high:+.4f})"
    )
    (line,) = parse_gate("mrr < baseline + 0.1 and significant").failures(found)
    assert f"near: mrr < baseline old + 0.1 is shown: {pair.model_mean:.4f} against 0.2500" in line
    several = comparison(old=LOW, near=NEAR, new=HIGH)
    assert "(joint 95 % interval " in parse_gate("mrr < baseline + 0.3").failures(several)[0]


def test_one_query_excludes_nothing_and_shows_nothing() -> None:
    found = comparison(old=[0.5], new=[0.5])
    (line,) = parse_gate("mrr < baseline - 0.4").failures(found)
    assert line.endswith("difference +0.0000 (no interval, n = 1)")
    assert parse_gate("mrr < baseline - 0.4 and significant").failures(found) == []


def n_failed(gate: str, base: np.ndarray, models: np.ndarray) -> int:
    """Count the failures among (m, n) models, each compared with the baseline by itself."""
    ids, parsed = np.arange(base.size).astype(str), parse_gate(gate)
    old = SystemResult("old", ids, {"mrr": base[None]}, ("1",), {"mrr": True})
    failed = 0
    for values in models:
        new = SystemResult("new", ids, {"mrr": values[None]}, ("1",), {"mrr": True})
        found = compare_systems([old, new], ["mrr"], method=Method(draws=1000))
        failed += len(parsed.failures(found))
    return failed


def passed_at_the_margin(world: str, n: int, samples: int) -> float:
    """Return the share of models that the gate lets pass, where all are worse by exactly the margin."""
    rng = np.random.default_rng(n)
    margin = 0.04
    shape = (samples, n)
    d = {
        "normal": lambda: rng.normal(-margin, 0.1, shape),
        "rare gains": lambda: (
            np.where(rng.random(shape) < 0.1, rng.uniform(0, 1, shape), 0.0) - margin - 0.05
        ),
        "rounded": lambda: rng.choice([-0.5, 0.0, 0.5], shape, p=[0.14, 0.8, 0.06]),
    }[world]()
    base = rng.uniform(0.3, 0.7, n)
    return 1 - n_failed(f"mrr < baseline - {margin}", base, base + d) / samples


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("world", ["normal", "rare gains", "rounded"])
def test_at_the_margin_one_model_in_forty_passes(world: str, n: int) -> None:
    """2.5 %, with a Monte Carlo error of 0.35 of 2,000 models. Rare losses: promised from 5,000 queries on."""
    assert passed_at_the_margin(world, n, 2000) <= 0.035


@pytest.mark.slow
def test_as_many_queries_as_the_docs_say_let_four_of_five_equal_models_pass() -> None:
    rng = np.random.default_rng(5)
    base = rng.uniform(0.3, 0.7, 3140)
    failed = n_failed("mrr < baseline - 0.005", base, base + rng.normal(0, 0.1, (1000, 3140)))
    assert abs(1 - failed / 1000 - 0.8) <= 0.035


def test_other_metrics_of_one_model_are_joint() -> None:
    """Their intervals are wider than one comparison's, as `families` has it."""
    values = {"mrr": np.array([LOW]), "ndcg@10": np.array([NEAR]), "err@10": np.array([HIGH])}
    ids = np.array([f"q{number}" for number in range(len(LOW))])
    models = [
        SystemResult(
            name, ids, {k: v + 0.001 * at for k, v in values.items()}, ("1",), dict.fromkeys(values, True)
        )
        for at, name in enumerate(("old", "new"))
    ]
    found = compare_systems(models, list(values), baseline="old")
    assert found.families[1].startswith("joint over 2 comparisons")
    for metric, interval in (("mrr", "(95 % interval"), ("ndcg@10", "(joint 95 % interval")):
        assert interval in parse_gate(f"{metric} < baseline + 0.5").failures(found)[0]
