"""LETOR rows, and LightGBM's layout: the same rows without query ids, with sizes beside them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError
from ltr_harness.files import Temporary, opened_for_writing
from ltr_harness.writers.tables import labels_to_write

_BLOCK = 1 << 20  # values written together


def write_svmlight(dataset: RankingDataset, path: Path, temporary: Temporary, *, with_qid: bool) -> list[str]:
    """Write the rows, every feature of every row, and what belongs beside them; notes on what is left out.

    Raises DataError: query or document ids that the format cannot hold.
    """
    labels, said = labels_to_write(dataset)
    notes = list(said)
    numbered = [str(j) for j in range(dataset.n_features + 1)]
    first = 0 if list(dataset.feature_names) == numbered[:-1] else 1
    if first and list(dataset.feature_names) != numbered[1:]:
        names = path.with_name(path.name + ".features")
        temporary(names).write_text("".join(f"{name}\n" for name in dataset.feature_names), encoding="utf-8")
        notes.append(f"features are numbered from 1; their names are in {names.name}")
    if dataset.categories:
        coded = ", ".join(dataset.categories)
        notes.append(f"texts are written as codes, from 0 in the order of the texts: {coded}")
    documents = dataset.judgments.document_ids
    left_out = {"attributes": bool(dataset.query_attributes)}
    if with_qid:
        _refuse(path, "query id", map(str, dataset.groups.ids.tolist()))
        if documents is not None:
            _refuse(path, "document id", map(str, documents.tolist()), comment=True)
        left_out |= {"positions": dataset.positions is not None}
        left_out |= {"query weights": dataset.judgments.query_weights is not None}
    else:
        left_out |= {"query ids": True, "document ids": documents is not None}
        _companions(dataset, path, temporary)
    with opened_for_writing(temporary(path), path.name) as stream:
        for text in _blocks(dataset, labels, first, with_qid):
            stream.write(text.encode("utf-8"))
    missing = [what for what, there in left_out.items() if there]
    if missing:
        notes.append(f"{', '.join(missing)} have no place in this format and are left out")
    return notes


def _refuse(path: Path, what: str, ids: Iterable[str], *, comment: bool = False) -> None:
    bad = [
        text
        for text in dict.fromkeys(ids)
        if text.split() != [text] or "\0" in text or ("#" in text and not comment)
    ]
    if bad:
        found, expected = f"{what} {bad[0]!r} ({len(bad):,} such)", "ids without spaces"
        expected += f"{'' if comment else ', #'} and NUL bytes"
        raise DataError.at(path, found, expected, "write csv or parquet instead")


def _companions(dataset: RankingDataset, path: Path, temporary: Temporary) -> None:
    def lines(suffix: str, values: Iterable[Any]) -> None:
        beside = path.with_name(path.name + suffix)
        temporary(beside).write_text("".join(f"{value}\n" for value in values), encoding="ascii")

    sizes = dataset.groups.sizes
    lines(".query", sizes.tolist())
    if dataset.judgments.query_weights is not None:
        lines(".weight", np.repeat(dataset.judgments.query_weights, sizes).tolist())
    if dataset.positions is not None:
        lines(".position", dataset.positions.tolist())


def _blocks(
    dataset: RankingDataset, labels: NDArray[np.float64], first: int, with_qid: bool
) -> Iterator[str]:
    grades = number_texts(labels)
    keys = [f"{first + j}:" for j in range(dataset.n_features)]
    queries = np.repeat(np.arange(dataset.n_queries), dataset.groups.sizes)
    ids = [f" qid:{name} " if with_qid else " " for name in dataset.groups.ids.tolist()]
    documents = dataset.judgments.document_ids if with_qid else None
    step = max(1, _BLOCK // max(1, dataset.n_features))
    for start in range(0, dataset.n_rows, step):
        block = dataset.features[start : start + step]
        values = iter(float_texts(block))
        rows = []
        for i in range(len(block)):
            pairs = " ".join([key + next(values) for key in keys])
            rows.append(f"{grades[start + i]}{ids[queries[start + i]]}{pairs}")
        if documents is not None:
            names = documents[start : start + step]
            rows = [f"{row} # docid = {name}" for row, name in zip(rows, names, strict=True)]
        yield "\n".join(rows) + "\n"


def float_texts(values: NDArray[np.float32]) -> list[str]:
    """The shortest texts that mean exactly these numbers; ``nan`` where one is missing. Shapes: `values` (n,)."""
    import pyarrow

    texts: list[str] = pyarrow.array(np.ascontiguousarray(values).ravel()).cast(pyarrow.string()).to_pylist()
    return texts


def number_texts(values: NDArray[np.float64]) -> list[str]:
    """Whole numbers without a point, others as Python prints them, which is exact. Shapes: `values` (n,)."""
    return [str(int(value)) if value == int(value) else repr(value) for value in values.tolist()]
