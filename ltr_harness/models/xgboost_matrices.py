"""XGBoost's matrices of sparse features.

XGBoost takes what a sparse matrix leaves out for missing, and the data mean 0. So it is given arrays: of all rows, or,
where it keeps the bins of values alone, of a few rows at a time, which makes the same bins.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ltr_harness.data.features import Features, SparseFeatures

_PLAIN = (
    12  # bytes of a cell in an array and in XGBoost's own copy, which has a column number beside the value
)


def plain_array(features: Features) -> NDArray[np.float32]:
    """Return the features of a matrix without bins as an array; DataError where that and its copy do not fit."""
    if isinstance(features, SparseFeatures):
        features.refuse_dense(_PLAIN)
    return np.asarray(features)


def quantile_matrix(features: Features, max_bin: int, fields: Mapping[str, Any]) -> xgboost.QuantileDMatrix:
    """Return the bins of features, with labels and other fields.

    Bins of weighted rows and of codes depend on how rows are divided: those are made of one array.
    """
    in_parts = fields.get("weight") is None and "feature_types" not in fields
    if not (isinstance(features, SparseFeatures) and in_parts):
        return xgboost.QuantileDMatrix(np.asarray(features), max_bin=max_bin, **fields)
    of_rows = {name: value for name, value in fields.items() if name != "nthread"}
    matrix = xgboost.QuantileDMatrix(_Blocks(features), max_bin=max_bin, nthread=fields.get("nthread"))
    matrix.set_info(**of_rows)
    return matrix


class _Blocks(xgboost.DataIter):  # type: ignore[misc]
    """A few rows at a time, as arrays; XGBoost reads them several times."""

    def __init__(self, features: SparseFeatures) -> None:
        super().__init__()
        self._features = features
        self.reset()

    def reset(self) -> None:
        self._blocks = self._features.blocks()

    def next(self, input_data: Callable[..., None]) -> bool:
        block = next(self._blocks, None)
        if block is None:
            return False
        input_data(data=block[1])
        return True
