"""Categorical features: codes in the matrix of features, their texts beside it, the same codes in every split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
from ltr_harness.logs.columns import id_texts
from ltr_harness.wording import count_of, plural

MOST_CATEGORIES = 1 << 16
"""Distinct texts of a categorical feature; more of them are names of documents, not kinds of them."""

Categories = Mapping[str, tuple[str, ...]]


def coded(column: Any) -> tuple[NDArray[np.float32], tuple[str, ...]] | None:
    """The codes of an Arrow column, float32 (n_rows,), and the texts they are places in, sorted.

    Nothing and an empty text are missing. None for a column of neither text nor whole numbers.
    """
    from pyarrow.compute import index_in, unique

    texts = id_texts(column)
    if texts is None:
        return None
    distinct = unique(texts)
    known = tuple(sorted(text for text in distinct.to_pylist() if text))
    code_of = {text: float(code) for code, text in enumerate(known)}
    codes = np.array([code_of.get(text, np.nan) for text in distinct.to_pylist()], dtype=np.float32)
    return codes[index_in(texts, value_set=distinct).to_numpy()], known


def recoded(codes: NDArray[np.float32], before: Sequence[str], after: Sequence[str]) -> NDArray[np.float32]:
    """Codes of the texts `before` as codes of the texts `after`; NaN where the text is not among them.

    Shapes: `codes` (n_rows,).

    Example:
        >>> recoded(np.array([0, 1, np.nan, 2], np.float32), ("a", "b", "c"), ("c", "a")).tolist()
        [1.0, nan, nan, 0.0]
    """
    place = {text: float(code) for code, text in enumerate(after)}
    table = np.array([*(place.get(text, np.nan) for text in before), np.nan], dtype=np.float32)
    return table[np.where(np.isnan(codes), len(before), codes).astype(np.int64)]


def joined_codes(
    parts: Sequence[tuple[NDArray[np.float32], tuple[str, ...]]],
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Codes of several files, each with texts of its own, as one column with the texts of all.

    Shapes: `parts` (n_rows,).
    """
    texts = tuple(sorted({text for _, own in parts for text in own}))
    return np.concatenate([recoded(codes, own, texts) for codes, own in parts]), texts


def occurring(dataset: RankingDataset) -> dict[str, tuple[str, ...]]:
    """Of each categorical feature the texts that the dataset's rows have: what training on it can know."""
    texts_by_column = {}
    for name, texts in dataset.categories.items():
        codes = dataset.features[:, dataset.feature_names.index(name)]
        texts_by_column[name] = tuple(texts[int(code)] for code in np.unique(codes[~np.isnan(codes)]))
    return texts_by_column


def with_categories(dataset: RankingDataset, categories: Categories) -> RankingDataset:
    """The dataset with the codes of these texts; texts that are not among them are missing, and a note counts them."""
    if dataset.categories == categories:
        return dataset
    features, notes = np.array(dataset.features), list(dataset.notes)
    for name, texts in categories.items():
        column, before = dataset.feature_names.index(name), dataset.categories[name]
        features[:, column] = recoded(dataset.features[:, column], before, texts)
        n_unseen = int(np.isnan(features[:, column]).sum() - np.isnan(dataset.features[:, column]).sum())
        if n_unseen:
            notes.append(
                f"{count_of(n_unseen, 'row')} {plural('has', n_unseen)} a text in {name!r} that training never saw; "
                "there it is missing"
            )
    return replace(dataset, features=features, categories=dict(categories), notes=tuple(notes))
