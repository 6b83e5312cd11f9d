"""Small examples of internals, which a reader can check by hand."""

import numpy as np

from ltr_harness.comparison.cheap_labels import powered
from ltr_harness.comparison.comparability import incompatibilities
from ltr_harness.comparison.comparison import family_text
from ltr_harness.comparison.contrasts import SystemResult, _common_letters
from ltr_harness.comparison.gates import parse_gate
from ltr_harness.comparison.over_time import FoldSigns, blocks, how_many, signs_sentence
from ltr_harness.comparison.stats.spread import Spread
from ltr_harness.experiments.compare.ledger import expected_gain


def test_powered() -> None:
    """Cheap values that say all there is: the spread of the mean is that of all 6 queries."""
    column = np.array([[0.0], [1.0], [2.0]])
    both = powered(column, column, column + 3)
    assert both.total.mean.tolist() == [2.5]
    assert both.weight.tolist() == [0.5]


def test_incompatibilities() -> None:
    a, b = (
        SystemResult(name, np.array(["q1"]), {metric: np.ones((1, 1))}, ("1",), {metric: True})
        for name, metric in (("a", "ndcg@10"), ("b", "ndcg@5"))
    )
    never = "not comparable, because a different K is a different question; evaluate both at one K"
    assert str(incompatibilities([a, b])[0]) == f"b: ndcg@5 against ndcg@10 of a: {never}"


def test_family_text() -> None:
    assert (
        family_text(3, "lgbm", ["mrr@10", "err@10"], "ndcg@10")
        == "joint over 6 comparisons: 3 models against lgbm at 2 other metrics"
    )


def test_parse_gate() -> None:
    gate = parse_gate("ndcg@10 of new < baseline and significant")
    assert str(gate.metric) == "ndcg@10"
    assert gate.model == "new"
    assert gate.sign == "<"
    assert gate.limit is None
    assert gate.significant
    assert parse_gate("ndcg@10 < baseline - 0.005").margin == -0.005


def test_expected_gain() -> None:
    assert round(expected_gain(0.004, 37), 4) == 0.006


def test_signs_sentence() -> None:
    assert (
        signs_sentence([FoldSigns("a", 3, 3), FoldSigns("b", 1, 3)])
        == "The sign of the difference agrees in 3 of 3 folds for a, 1 of 3 for b."
    )


def test_common_letters() -> None:
    assert _common_letters(np.array([[True, True, False], [True, True, True], [False, True, True]])) == [
        ("a",),
        ("a", "b"),
        ("b",),
    ]


def test_blocks() -> None:
    assert blocks(np.array([0, 1, 2, 3, 4]), 2).tolist() == [0, 0, 1, 1, 1]


def test_how_many() -> None:
    """Forty days of which eight are good, then eight bad."""
    days = np.arange(40)
    assert how_many((days // 8 % 2 + np.sin(days))[:, None], days) == 4
    assert how_many(np.sin(3 * days)[:, None], days) == 1


def test_spread() -> None:
    assert Spread(variance=0.1**2).needed(0.005, alpha=0.05, power=0.8) == 3142
