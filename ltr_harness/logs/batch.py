"""Batches of a log in canonical order: rows by query and rank, with their keys checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.compiled import compiled
from ltr_harness.logs.columns import category_of, numbers_of
from ltr_harness.logs.contract import Contract
from ltr_harness.logs.settings import ListColumns

Floats = NDArray[np.float64]
THREADS = 2  # of the compiled loops over one batch


@dataclass(frozen=True, eq=False)
class LogRows:
    """A batch in canonical order: by query, then rank (or score, then item)."""

    table: Any
    order: NDArray[np.int64] | None
    queries: NDArray[np.str_]
    boundaries: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.boundaries)

    @property
    def query_of_row(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def numbers(self, name: str) -> Floats:
        """A column as float64, missing as NaN, in canonical order."""
        return self.arranged(numbers_of(self.table[name], name))

    def category(self, name: str) -> pd.Categorical:
        category = category_of(self.table[name], name)
        return category if self.order is None else category.take(self.order)

    def arranged(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values in the batch's canonical order of rows. Shapes: `values` (n_rows,)."""
        return values if self.order is None else values[self.order]

    def name(self, row: int) -> str:
        """The query of a row, for messages."""
        return f"query {str(self.queries[np.searchsorted(self.boundaries, row, side='right') - 1])!r}"


def in_order(table: Any, columns: ListColumns, contract: Contract) -> LogRows | None:
    """A batch's rows, query by query; None where their queries cannot be told."""
    query = category_of(table[columns.query_id], columns.query_id)
    if not contract.check("query_missing", query.codes < 0, contract.begin(table.num_rows)):
        return None
    key = (
        numbers_of(table[columns.rank], columns.rank)
        if columns.rank
        else -numbers_of(table[columns.score or ""], columns.score or "")
    )
    item = category_of(table[columns.item_id], columns.item_id) if columns.item_id else None
    codes = query.codes.astype(np.int32)
    same = codes[1:] == codes[:-1]
    in_order = bool(np.all((codes[1:] > codes[:-1]) | (same & (key[1:] > key[:-1]))))
    order = None
    if not in_order:
        # Ties by item, so that the order of the file's rows shows nowhere.
        keys = (key, codes) if item is None else (item.codes, key, codes)
        order = np.lexsort(keys)
        codes = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    rows = LogRows(
        table,
        order,
        query.categories.to_numpy(np.str_)[codes[starts]],
        np.append(starts, codes.size).astype(np.int64),
    )
    if item is not None:
        items = (item.codes if order is None else item.codes[order]).astype(np.int32)
        contract.check("item_missing", items < 0, rows.name)
        _no_duplicates(rows, codes, items, item, contract)
    return rows


def per_query(rows: LogRows, name: str, contract: Contract, check: str = "segment_varies") -> pd.Categorical:
    """A column's value for each query, its first row's; a query in which rows differ is counted."""
    of_rows = rows.category(name)
    first = of_rows.codes[rows.boundaries[:-1]]
    varies = np.logical_or.reduceat(of_rows.codes != np.repeat(first, rows.sizes), rows.boundaries[:-1])
    contract.check(check, varies, lambda at: f"query {str(rows.queries[at])!r} ({name})")
    return of_rows.take(rows.boundaries[:-1])


def _no_duplicates(
    rows: LogRows,
    codes: NDArray[np.int32],
    items: NDArray[np.int32],
    item: pd.Categorical,
    contract: Contract,
) -> None:
    contract.check(
        "duplicate_item",
        _repeated(codes, items, item.categories.size),
        lambda row: f"{rows.name(row)} item {str(item.categories[items[row]])!r}",
    )


@compiled
def _repeated(queries: NDArray[np.int32], items: NDArray[np.int32], n_items: int) -> NDArray[np.bool_]:
    """Rows whose item stands higher up in the same query; rows are in order of query, -1 is no item."""
    seen_in = np.full(n_items, -1, dtype=np.int32)
    repeated = np.zeros(items.size, dtype=np.bool_)
    for row in range(items.size):
        item = items[row]
        if item >= 0:
            repeated[row] = seen_in[item] == queries[row]
            seen_in[item] = queries[row]
    return repeated
