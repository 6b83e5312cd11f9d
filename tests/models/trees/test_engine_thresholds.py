"""Thresholds of float64 written for engines of float32: every float32 value must go where it went."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.models.trees.forest import Forest, InnerNode, Tree
from ltr_harness.models.trees.formats import engine_forest

LARGEST = float(np.finfo(np.float32).max)
GOES_LEFT = {"<=": np.less_equal, "<": np.less}

float32s = st.floats(width=32, allow_nan=False)
near_float32s = st.builds(
    lambda value, ulps: value + ulps * np.spacing(abs(value)),
    float32s.filter(np.isfinite),
    st.integers(-3, 3),
)
thresholds = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), float32s.filter(np.isfinite), near_float32s
)


def float32_thresholds(threshold, comparison, written="<="):
    """Return the threshold of a stump, as an engine gets it."""
    at = float(threshold[0])
    stump = Tree.grown(True, lambda root: InnerNode(0, at, True, False, False) if root else 1.0)
    return (
        engine_forest(Forest(("x",), (stump,), comparison=comparison), written, "it").trees[0].threshold[:1]
    )


def values_around(threshold: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        nearest = np.float32(threshold)
        below, above = np.nextafter(nearest, np.float32(-np.inf)), np.nextafter(nearest, np.float32(np.inf))
    return np.array([below, nearest, above], dtype=np.float32)


@pytest.mark.parametrize("written", ["<=", "<"])
@pytest.mark.parametrize("comparison", ["<=", "<"])
@given(threshold=thresholds, others=st.lists(float32s, max_size=5))
def test_every_float32_stays_on_its_side(comparison, written, threshold, others):
    values = np.concatenate([values_around(threshold), np.array(others, dtype=np.float32)])
    there = float32_thresholds([threshold], comparison, written)
    here = GOES_LEFT[comparison](values.astype(np.float64), threshold)
    assert GOES_LEFT[written](values.astype(np.float64), there).tolist() == here.tolist()
    with np.errstate(over="ignore"):
        assert GOES_LEFT[written](values, there.astype(np.float32)).tolist() == here.tolist()


def test_a_threshold_between_two_float32s_by_hand():
    """0.1 lies between 13421772 and 13421773 of 2**-27."""
    below, above = 13421772 * 2.0**-27, 13421773 * 2.0**-27
    tenth = np.array([0.1])
    assert float32_thresholds(tenth, "<=") == [below]
    assert float32_thresholds(tenth, "<") == [below]
    assert float32_thresholds(tenth, "<=", "<") == [above]
    assert float32_thresholds(np.array([0.5]), "<=") == [0.5]
    assert float32_thresholds(np.array([0.5]), "<", "<") == [0.5]
    assert float32_thresholds(np.array([0.5]), "<=", "<") == [0.5 + 2.0**-24]
    assert float32_thresholds(np.array([0.5]), "<") == [0.5 - 2.0**-25]


@pytest.mark.parametrize("beyond", [1e308, LARGEST * 2])
def test_beyond_the_largest_float32(beyond):
    """All finite values are below: <= the largest, < the number after it; above the opposite they all are."""
    assert float32_thresholds([beyond], "<=", "<=") == [LARGEST]
    assert float32_thresholds([LARGEST], "<=", "<") == float32_thresholds([beyond], "<=", "<") == [2.0**128]
    assert (
        float32_thresholds([-beyond], "<=", "<=") == float32_thresholds([-np.inf], "<", "<=") == [-(2.0**128)]
    )
    assert float32_thresholds([-beyond], "<=", "<") == [-LARGEST]


def test_infinity_is_the_number_after_the_largest():
    assert float32_thresholds([np.inf], "<=") == float32_thresholds([np.inf], "<=", "<") == [2.0**128]
    assert float32_thresholds([-np.inf], "<=") == [-(2.0**128)]
    assert float32_thresholds([np.inf], "<") == [LARGEST]
