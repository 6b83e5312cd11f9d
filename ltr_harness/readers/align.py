"""Feature alignment: the same columns, and the same codes of categories, in all splits of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
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


def align(datasets: Mapping[str, RankingDataset], reference: str = "train") -> dict[str, RankingDataset]:
    """The same splits, all with the columns of the training split in its order.

    In LETOR and LibSVM files a feature that is left out is 0.0, so a split in which the last features never occur is
    narrower than the others: it is padded with 0.0. A split with features that training never saw is refused: the model
    could not use them, and which file is wrong is not ours to guess. Tables name every column, so there a missing
    column is refused too; another order of the columns is fine. Raises DataError: every split and feature that does not
    fit.

    Example:
        >>> from ltr_harness.groups import Judgments, QueryGroups
        >>> judgments = Judgments.checked([1.0], QueryGroups.from_sizes([1]))
        >>> train = RankingDataset(np.ones((1, 2), np.float32), judgments, ("1", "2"), sparse=True)
        >>> test = RankingDataset(np.ones((1, 1), np.float32), judgments, ("1",), sparse=True)
        >>> align({"train": train, "test": test})["test"].features
        array([[1., 0.]], dtype=float32)
    """
    check_alignment(datasets, reference)
    names = datasets[reference].feature_names
    return {split: with_columns(dataset, names) for split, dataset in datasets.items()}


def check_alignment(datasets: Mapping[str, RankingDataset], reference: str = "train") -> None:
    """That `align` can be done, and that there are features at all.

    Raises DataError: every split and feature that does not fit.
    """
    names = datasets[reference].feature_names
    problems = [
        problem
        for split, dataset in datasets.items()
        for problem in _misfits(split, dataset, reference, datasets[reference])
    ]
    if not names:
        problems = [_featureless(reference, datasets[reference])]
    if problems:
        raise DataError(problems)


def _misfits(split: str, dataset: RankingDataset, reference: str, wanted: RankingDataset) -> list[Problem]:
    names, categories = wanted.feature_names, wanted.categories
    place = _place(split, dataset)
    if dataset.feature_names == names:
        return _other_kinds(place, dataset, reference, categories)
    unknown = [name for name in dataset.feature_names if name not in set(names)]
    absent = [name for name in names if name not in set(dataset.feature_names)]
    problems = []
    if unknown:
        cure = "name the columns to use with `features:`"
        if dataset.sparse:
            n_features = int(dataset.feature_names[-1]) + (dataset.feature_names[0] == "0")
            cure = (
                f"set `n_features: {n_features}` if the training files only leave them out because they are 0"
            )
            if "0" in unknown:
                cure = "set `first_index: 0` if features count from 0 in all files"
        problems.append(
            Problem(
                place,
                f"has {_named(unknown)} that the {reference} split does not have "
                f"({count_of(dataset.n_features, 'feature')} against {len(names)})",
                f"the features of the {reference} split",
                cure,
            )
        )
    if absent and not dataset.sparse:
        problems.append(Problem(place, f"lacks {_named(absent)}", f"every feature of the {reference} split"))
    return problems or _other_kinds(place, dataset, reference, categories)


def _other_kinds(
    place: str, dataset: RankingDataset, reference: str, categories: Mapping[str, object]
) -> list[Problem]:
    """Features that are categories here and numbers there."""
    return [
        Problem(
            place,
            f"feature {name!r} is {here} and in the {reference} split {there}",
            "one kind in all splits",
            "name it under `categorical:` of the reader",
        )
        for names, others, here, there in (
            (dataset.categories, categories, "a category", "a number"),
            (categories, dataset.categories, "a number", "a category"),
        )
        for name in names
        if name not in others
    ]


def _featureless(split: str, dataset: RankingDataset) -> Problem:
    ignored = "".join(f"; {note}" for note in dataset.notes)
    return Problem(
        _place(split, dataset),
        f"has no feature{ignored}",
        "a numeric column, or index:value",
        "models that only have scores are compared by `ltr-harness compare SCORES --data FILE`",
    )


def _place(split: str, dataset: RankingDataset) -> str:
    return f"{split} split" + (f" ({dataset.source})" if dataset.source else "")


def _named(features: list[str]) -> str:
    shown = ", ".join(features[:5]) + (", …" if len(features) > 5 else "")
    return f"{count_of(len(features), 'feature')} ({shown})" if len(features) > 1 else f"the feature {shown}"


def with_columns(dataset: RankingDataset, names: tuple[str, ...]) -> RankingDataset:
    """The dataset with these columns in this order; columns it lacks are 0.0. The same object if it has them."""
    if dataset.feature_names == names:
        return dataset
    column_of = {name: column for column, name in enumerate(dataset.feature_names)}
    features = np.zeros((dataset.n_rows, len(names)), dtype=np.float32)
    for column, name in enumerate(names):
        if name in column_of:
            features[:, column] = dataset.features[:, column_of[name]]
    notes = dataset.notes
    if padded := [name for name in names if name not in column_of]:
        notes = (*notes, f"{_named(padded)} never occur in this split and are 0.0 in all its rows")
    categories = {name: texts for name, texts in dataset.categories.items() if name in names}
    return replace(dataset, features=features, feature_names=names, notes=notes, categories=categories)
