"""Small examples of internals, which a reader can check by hand."""

import numpy as np
import pyarrow as pa

from ltr_harness.data.columns import Ids, are_ranks, hashes_of
from ltr_harness.data.logs.settings import seconds


def test_ids() -> None:
    ids = Ids()
    assert ids.add(pa.chunked_array([["b", None, "a"], ["b", ""]]), "sku").tolist() == [0, -1, 1, 0, -1]
    assert ids.find(pa.chunked_array([["a", "c"]]), "sku").tolist() == [1, -1]
    assert ids.texts() == ["b", "a"]


def test_hashes_of() -> None:
    assert hashes_of(pa.array([7, 8])).tolist() == hashes_of(pa.array(["7", "8"])).tolist()


def test_are_ranks() -> None:
    assert are_ranks(np.array([1.0, 0.0, 2.5, np.nan, 1e12])).tolist() == [True, False, False, False, False]


def test_seconds() -> None:
    assert seconds("7d") == 604800
    assert seconds("12h") == 43200
