"""Labels as files have them, where some documents were not judged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset

UNJUDGED = -1


def labels_to_write(dataset: RankingDataset) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """float64 (n_rows,), `UNJUDGED` for documents that nobody judged, and what to say of it."""
    judged = dataset.judgments.judged
    if judged is None:
        return dataset.labels, ()
    note = (
        f"documents that nobody judged have the label {UNJUDGED}: read it with the option unjudged={UNJUDGED}"
    )
    return np.where(judged, dataset.labels, UNJUDGED), (note,)
