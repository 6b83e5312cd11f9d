"""Columns between Arrow and NumPy: the same values as through pandas, without importing it."""

from __future__ import annotations

import datetime
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.columns import array_of, column_of, text_array
from tests.conftest import named_case

COLUMNS = {
    "numbers": pa.chunked_array([[1.5, float("nan")], [-0.0]]),
    "whole numbers": pa.chunked_array([pa.array([1, 2], pa.int32())]),
    "missing numbers": pa.chunked_array([[1, None]]),
    "texts": pa.chunked_array([["a", "ä"], [""]]),
    "missing texts": pa.chunked_array([["a", None]]),
    "truths": pa.chunked_array([[True, False]]),
    "days": pa.chunked_array([[datetime.datetime(2026, 1, 1)]]),
    "categories": pa.chunked_array([pa.array(["a", "b", "a"]).dictionary_encode()]),
    "no numbers": pa.chunked_array([pa.array([], pa.float64())]),
    "no texts": pa.chunked_array([], pa.string()),
}


def test_a_column_is_that_of_a_frame() -> None:
    for name, column in COLUMNS.items():
        with named_case(name):
            found, expected = array_of(column), column.to_pandas().to_numpy()
            assert found.dtype == expected.dtype
            assert list(map(str, found)) == list(map(str, expected))  # NaN is not equal to itself


ARRAYS = {
    "numbers": np.array([1.5, np.nan, -0.0]),
    "every other number": np.arange(9, dtype=np.int32)[::2],
    "numbers of another byte order": np.array([1.0, 2.0], dtype=">f8"),
    "texts": np.array(["a", "ä", ""]),
    "texts as objects": np.array(["a", "日本"], dtype=object),
    "missing texts": np.array(["a", None], dtype=object),
    "no objects": np.array([], dtype=object),
    "truths": np.array([True, False]),
    "days": np.array(["2026-01-01"], dtype="datetime64[D]"),
}


def test_values_become_the_column_that_arrow_makes() -> None:
    for name, array in ARRAYS.items():
        with named_case(name):
            try:
                expected = pa.array(array)
            except pa.ArrowException as problem:
                with pytest.raises(type(problem)):
                    column_of(array)
            else:
                found = column_of(array)
                assert found.type == expected.type
                assert found.null_count == expected.null_count
                assert str(found) == str(expected)


TEXTS = st.text(st.sampled_from("aä日\0"), max_size=3)


@given(st.lists(st.lists(st.lists(TEXTS, min_size=1, max_size=3), max_size=3), max_size=4))
def test_texts_in_blocks_are_those_that_arrow_makes(blocks: list[list[list[str]]]) -> None:
    texts = [text for block in blocks for lists in block for text in lists]
    found = text_array(blocks, len(texts))
    found.validate(full=True)
    assert found.equals(pa.array(texts, pa.large_string()))
    with pytest.raises(TypeError):
        text_array([*blocks, [["a", 1]]], len(texts) + 2)  # type: ignore[list-item]


ROUND_TRIP = """
import sys
import numpy as np
import pyarrow as pa
from ltr_harness.data.columns import array_of, column_of
for values in (np.array([0.5]), np.array([1]), np.array(["a"])):
    print(array_of(pa.chunked_array([column_of(values)]))[0])
print("pandas" in sys.modules)
"""


def test_numbers_and_texts_go_both_ways_without_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", ROUND_TRIP], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.5", "1", "a", "False"]
