"""What was tested over queries beside what is known of seeds: of each two, what claims less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit

from ltr_harness.stats.families import Outcome
from ltr_harness.stats.method import Method
from ltr_harness.stats.over_seeds import with_seeds
from ltr_harness.stats.seeds import MethodDifference

TRAINED = Outcome(
    p=np.array([0.01, 0.2]),
    p_corrected=np.array([0.02, 0.2]),
    p_equivalence=np.array([0.01, 0.5]),
    low=np.array([0.1, -0.1]),
    high=np.array([0.3, 0.2]),
    detectable=np.array([0.1, 0.2]),
)
METHODS = MethodDifference(difference=0.2, standard_error=0.1, freedom=1.0)
P = 1 - 2 / np.pi * np.arctan(2)  # two errors off 0, of Cauchy's distribution: .295


def both(method: Method) -> Outcome:
    """Of the second nothing is known."""
    return with_seeds(TRAINED, [METHODS, None], [slice(0, 2)], method)


def test_each_by_itself() -> None:
    found = both(Method(test="t", interval="t", correction="none"))
    assert found.p == pytest.approx([P, 0.2])
    assert found.p_corrected == pytest.approx([P, 0.2])
    reach = 0.1 * stdtrit(1, 0.975)
    assert found.low == pytest.approx([0.2 - reach, -0.1])
    assert found.high == pytest.approx([0.2 + reach, 0.2])
    assert found.detectable == pytest.approx([METHODS.detectable(0.05), 0.2])
    narrow = MethodDifference(difference=0.2, standard_error=1e-3, freedom=50.0)
    kept = with_seeds(
        TRAINED, [narrow, None], [slice(0, 2)], Method(test="t", interval="t", correction="none")
    )
    for name in ("p", "low", "high", "detectable"):
        assert getattr(kept, name).tolist() == getattr(TRAINED, name).tolist()


def test_all_at_once() -> None:
    found = both(Method(correction="holm"))
    assert found.p_corrected == pytest.approx([0.4, 0.4])  # .2 * 2, and no less for the larger one
    reach = 0.1 * stdtrit(1, 1 - 0.025 / 2)
    assert (found.low[0], found.high[0]) == pytest.approx((0.2 - reach, 0.2 + reach))
    assert found.detectable[0] == pytest.approx(METHODS.detectable(0.025))
    by_draws = both(Method(test="permutation", interval="t", correction="max-t"))
    assert by_draws.p_corrected == pytest.approx([2 * P, 0.2])  # Bonferroni's for what its draws do not know


def test_equivalence_is_of_both_sides_and_of_the_family() -> None:
    for correction, margin, expected in (("none", 0.4, P), ("holm", 0.4, 2 * P), ("none", 0.1, 1.0)):
        found = both(Method(test="t", interval="t", correction=correction, margin=margin))
        assert found.p_equivalence == pytest.approx([expected, 0.5])
    assert both(Method(test="t", interval="t")).p_equivalence.tolist() == [0.01, 0.5]


def test_what_is_not_about_means_keeps_its_p() -> None:
    found = both(Method(test="sign", interval="t", correction="none"))
    assert found.p.tolist() == [0.01, 0.2]
    assert found.low[0] < 0
    assert with_seeds(TRAINED, [None, None], [slice(0, 2)], Method()) is TRAINED
