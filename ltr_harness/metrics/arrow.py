"""Evaluation of Arrow batches for whoever owns the data: Spark, Ray, Dask, DuckDB; its results put together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import WORDS_AS_LABELS, Array, Bools, Floats, Ints
from ltr_harness.data.columns import (
    A_RANK,
    are_ranks,
    array_of,
    id_texts,
    names_of,
    numbers_of,
    plain_column,
    table_of,
    values_shown,
)
from ltr_harness.data.computable import computable
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.logs.log import whole_queries
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError, MetricError, Problem
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.core.binding import BoundOnce, means_of
from ltr_harness.metrics.core.grammar import as_list
from ltr_harness.metrics.evaluation import Evaluation

__all__ = ["judged", "means", "merge", "per_query", "per_query_of"]

QUERY, ROWS, RELEVANT, WEIGHT = FACTS = ("query_id", "rows", "n_relevant", "query_weight")
"""Columns of results besides the metrics'."""
_ROLES = {"query": "query_id", "label": "label", "score": "score"}
_FLAGS = ("judged", "retrieved")
_OTHER_ROLES = ("document_id", "weight", *_FLAGS)


def per_query(
    batch: pa.RecordBatch | pa.Table,
    metrics: Sequence[str | Metric] | str | Metric,
    columns: Mapping[str, str] | None = None,
    *,
    max_grade: float | None = None,
) -> pa.RecordBatch:
    """Every query's values, from a batch that holds whole queries: a function of the batch alone.

    Values equal those of `evaluate`, to the bit, however queries are spread over batches.

    Args:
        batch: one row per document, in any order: query id (text or integers), label, score; a frame of Polars or
            pandas is taken as well.
        metrics: as for `evaluate`. What takes something from the data must be given it: a part does not tell.
        columns: role to column: ``query`` (else ``query_id``), ``label``, ``score``; where named, ``document_id``,
            ``weight`` (of the query, the same in each of its rows), ``judged`` and ``retrieved`` (truth values).
        max_grade: the scale's highest grade, for metrics that need it.

    Returns:
        One row per query, in the order of first appearance: ``query_id`` (as in the batch), ``rows`` and
        ``n_relevant`` (int64), ``query_weight`` if there are weights, each metric by its canonical name (float64, NaN
        where undefined). With ``judged``, of each metric also the share of judged documents among the first K, as
        ``ndcg@10: judged``; `judged` has their means. `compare` takes the table as it is.

    Raises:
        DataError: a column is not there, or holds what it cannot; the message names column or query.
        MetricError: a metric is unknown, or would take its scale from the batch.

    Example:
        >>> import pyarrow as pa
        >>> rows = {"query_id": ["a", "a", "b"], "label": [0, 1, 1], "score": [2.0, 1.0, 3.0]}
        >>> per_query(pa.table(rows), ["mrr@10"]).to_pydict()
        {'query_id': ['a', 'b'], 'rows': [2, 1], 'n_relevant': [1, 1], 'mrr@10': [0.5, 1.0]}
    """
    table, named = _named_columns(batch, columns)
    grouped = by_query(table, named["query"], in_order=False)
    [result] = of_scores(*grouped, parsed_metrics(metrics, max_grade), named, [named["score"]])
    return result


def _named_columns(
    batch: pa.RecordBatch | pa.Table, columns: Mapping[str, str] | None
) -> tuple[pa.Table, dict[str, str]]:
    """Return the columns that are computed with, since Arrow cannot take rows of every other type, and their names."""
    table = _table_of(batch)
    named = columns_of(table.column_names, columns)
    return computable(table.select(list(dict.fromkeys(named.values())))), named


def _table_of(batch: Any) -> pa.Table:
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    try:
        return table_of(batch)
    except (TypeError, ValueError, pa.ArrowException) as problem:
        expected = "a batch or a table of Arrow"
        raise DataError.at(f"a {type(batch).__name__}", f"is not a table: {problem}", expected) from None


def parsed_metrics(metrics: Sequence[str | Metric] | str | Metric, max_grade: float | None) -> list[Metric]:
    """Return the parsed metrics, with the highest grade where one is given and they need it."""
    parsed = [parse_metric(metric) for metric in as_list(metrics)]
    return parsed if max_grade is None else [metric.with_max_grade(max_grade) for metric in parsed]


def _empty_columns(metrics: Sequence[Metric], *, with_shares: bool) -> dict[str, Floats]:
    """Return the columns of metrics, and of the shares of judged documents, without a query."""
    columns = {str(metric): np.empty(0) for metric in metrics}
    if with_shares:
        columns |= _share_columns({str(metric): np.empty(0) for metric in metrics if not metric.diagnostic})
    return columns


def _ranking(table: pa.Table, column: str, has_ranks: bool) -> Floats:
    """Return the numbers of a column, the larger the better; a view where it has them all in eight bytes."""
    if has_ranks:
        return _negative_ranks(table, column)
    scores = table[column]
    if scores.type == pa.float64() and not scores.null_count:
        return array_of(scores)
    return numbers_of(scores, column)


def of_scores(
    table: pa.Table,
    ids: pa.Array,
    sizes: Ints,
    metrics: Sequence[Metric],
    named: Mapping[str, str],
    scores: Sequence[str],
    ranks: Collection[str] = (),
) -> list[pa.RecordBatch]:
    """The values of these queries, whose rows stand together, by each column of scores: what `per_query` returns.

    Those of the columns that are `ranks` have 1 for the best.
    """
    names = [str(metric) for metric in metrics]
    labels = _labels(table[named["label"]], named["label"])
    numbers = {role: numbers_of(table[name], name) for role, name in named.items() if role in _NUMBERS}
    weights = numbers.pop("weight", None)
    if weights is not None:
        weights = one_per_query(weights, sizes, named["weight"])
    if not len(ids):
        empty = np.empty(0)
        columns = _empty_columns(metrics, with_shares="judged" in named)
        return [_result(ids, empty, empty, weights, columns) for _ in scores]
    top = max(1.0, float(np.fmax.reduce(labels)))
    _refuse_scales(names, [str(metric.with_max_grade(top)) for metric in metrics])
    documents = id_texts(table[named["document_id"]]) if "document_id" in named else None
    judgments = Judgments.checked(
        labels,
        QueryGroups.from_sizes(sizes, names_of(ids).to_numpy(zero_copy_only=False)),
        query_weights=weights,
        document_ids=None if documents is None else documents.to_numpy(),
        judged=_flags(numbers, named, "judged"),
    )
    listed = _flags(numbers, named, "retrieved")
    binding = BoundOnce([*metrics, *judged_share.judged_metrics(metrics, judgments)], judgments)
    _refuse_scales(names, binding.names[: len(names)])
    rankings = [_ranking(table, score, score in ranks) for score in scores]
    # as metrics count them, which is not done again; no document is missed here
    n_relevant = judgments.count_rows(judgments.label_table > 0)
    facts = ids, sizes, n_relevant, weights
    results = []
    for ranking in rankings:
        values = binding.per_query(ranking, listed)
        shares = judged_share.judged_shares(metrics, judgments, values[len(names) :])
        columns = dict(zip(names, values[: len(names)], strict=True))
        results.append(_result(*facts, columns | _share_columns(shares)))
    return results


def _share_columns(shares: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return each metric's shares (n_queries,) of judged documents as a column."""
    columns: dict[str, Floats] = {}
    for metric, values in shares.items():
        columns |= judged_share.columns(metric, values)
    return columns


def _negative_ranks(table: pa.Table, column: str) -> Floats:
    """Return scores (n_rows,) from a column of ranks."""
    numbers = numbers_of(table[column], column)
    bad_rows = np.flatnonzero(~are_ranks(numbers))
    if bad_rows.size:
        found = f"{numbers[bad_rows[0]]:g} ({count_of(bad_rows.size, 'such row')}) is not a rank, but named as one"
        cure = "if higher numbers rank first, name the column a score"
        raise DataError.at(f"column {column!r}", found, f"{A_RANK}, 1 for the best", cure)
    return -numbers


_NUMBERS = ("weight", *_FLAGS)


def _labels(column: pa.ChunkedArray, name: str) -> Array:
    """Return labels (n_rows,), integers of a byte as they are."""
    of_a_byte = column.type.bit_width == 8 if pa.types.is_integer(column.type) else False
    if of_a_byte and not column.null_count:
        return array_of(column)
    return numbers_of(column, name, WORDS_AS_LABELS)


def per_query_of(
    batches: Iterable[pa.RecordBatch],
    metrics: Sequence[str | Metric] | str | Metric,
    columns: Mapping[str, str] | None = None,
    *,
    max_grade: float | None = None,
) -> Iterator[pa.RecordBatch]:
    """`per_query` of batches that may end within a query, whose rows stand together, as in a sorted partition.

    Args:
        batches: in order, such as those that Spark's ``mapInArrow`` hands over.
        metrics: as for `per_query`.
        columns: as for `per_query`.
        max_grade: as for `per_query`.

    Raises:
        DataError: as in `per_query`; or a query's rows stand apart within what is looked at together.

    Example:
        >>> import pyarrow as pa
        >>> rows = pa.table({"query_id": [1, 1, 2], "label": [0, 1, 1], "score": [2.0, 1.0, 3.0]})
        >>> merge(per_query_of(rows.to_batches(max_chunksize=1), "mrr"))["mrr"].to_pylist()
        [0.5, 1.0]
    """
    query = (columns or {}).get("query", QUERY)
    for table in whole_queries(batches, query):
        if table.num_rows:
            table, named = _named_columns(table, columns)
            grouped = by_query(table, named["query"], in_order=True)
            yield from of_scores(*grouped, parsed_metrics(metrics, max_grade), named, [named["score"]])


def merge(parts: Iterable[pa.RecordBatch | pa.Table | Evaluation]) -> pa.Table:
    """Results of other queries each, as one, sorted by query id: the same whatever the parts and their order.

    Args:
        parts: what `per_query` returned, or `Evaluation` objects.

    Raises:
        DataError: no part; parts with other columns; a query in two parts, because a batch cut it.
        MetricError: parts with other metrics.
    """
    tables = []
    for part in parts:
        if isinstance(part, Evaluation):
            judgments = part.judgments
            values = {name: part[name].per_query for name in part.metrics} | _share_columns(
                part.judged_shares
            )
            facts = judgments.groups.sizes, judgments.n_relevant, judgments.query_weights
            part = _result(pa.array(part.query_ids), *facts, values)
        tables.append(computable(part if isinstance(part, pa.Table) else pa.Table.from_batches([part])))
    if not tables:
        raise DataError("no results to merge; expected at least one part")
    first = tables[0].schema
    for number, table in enumerate(tables[1:], start=2):
        if table.schema.names != first.names:
            found = f"part {number} has {', '.join(table.schema.names)}"
            raise MetricError(f"{found}; expected {', '.join(first.names)}, as in the first part")
        if table.schema.field(QUERY).type != first.field(QUERY).type:
            kinds = table.schema.field(QUERY).type, first.field(QUERY).type
            raise DataError(
                f"query ids are {kinds[0]} in part {number} and {kinds[1]} in the first; expected one type"
            )
    merged = pa.concat_tables(tables).sort_by(QUERY).combine_chunks()
    ids = merged[QUERY]
    repeated_rows = np.flatnonzero(~_begins_run(ids))
    if repeated_rows.size:
        found = f"query {values_shown(ids.slice(int(repeated_rows[0]), 1))[0]!r} is in two parts"
        cure = "bring its rows together, such as by groupBy(query).applyInArrow or repartition(query)"
        raise DataError(Problem("", found, "each query in one part", cure))
    return merged


def means(results: pa.RecordBatch | pa.Table) -> dict[str, float]:
    """Metric to its mean over the defined queries, weighted where there are weights; to the bit that of `evaluate`.

    Args:
        results: what `per_query` or `merge` returned.

    Example:
        >>> import pyarrow as pa
        >>> means(pa.table({"query_id": [1, 2], "rows": [2, 1], "n_relevant": [1, 1], "mrr": [0.5, 1.0]}))
        {'mrr': 0.75}
    """
    names = metrics_in(results)
    values = np.array([numbers_of(results[name], name) for name in names])
    weights = numbers_of(results[WEIGHT], WEIGHT) if WEIGHT in results.schema.names else None
    return dict(zip(names, means_of(values, weights).tolist(), strict=True))


def judged(results: pa.RecordBatch | pa.Table) -> dict[str, float]:
    """Metric to the mean share of judged documents among the first K: that of `evaluate`; empty without ``judged``.

    Args:
        results: what `per_query` or `merge` returned.

    Example:
        >>> import pyarrow as pa
        >>> rows = {"query_id": [1, 1], "label": [1, 0], "score": [2.0, 1.0], "seen": [True, False]}
        >>> judged(per_query(pa.table(rows), ["mrr@10"], {"judged": "seen"}))
        {'mrr@10': 0.5}
    """
    names = results.schema.names
    weights = numbers_of(results[WEIGHT], WEIGHT) if WEIGHT in names else None
    return {
        judged_share.metric_of(name): judged_share.mean_share(numbers_of(results[name], name), weights)
        for name in filter(judged_share.is_column, names)
    }


def metrics_in(results: pa.RecordBatch | pa.Table) -> list[str]:
    """Return the metrics that results have a column of."""
    return [name for name in results.schema.names if name not in FACTS and not judged_share.is_column(name)]


def columns_of(
    present_columns: Sequence[str], columns: Mapping[str, str] | None, place: str = "columns"
) -> dict[str, str]:
    """Return the column of each role; a DataError for roles that do not exist and columns that are missing."""
    named = {**_ROLES, **(columns or {})}
    known_roles = (*_ROLES, *_OTHER_ROLES)
    problems = [
        Problem(place, f"unknown role {role!r}", cure=did_you_mean(role, known_roles))
        for role in named
        if role not in known_roles
    ]
    problems += [
        Problem(place, f"no column {name!r} for {role}", cure=did_you_mean(name, present_columns))
        for role, name in named.items()
        if role in known_roles and present_columns.count(name) != 1
    ]
    DataError.refuse(problems)
    return named


def by_query(table: pa.Table, name: str, *, in_order: bool) -> tuple[pa.Table, pa.Array, Ints]:
    """Return the rows query by query, in the order of first appearance, and the ids and sizes of the queries."""
    ids, sizes = runs_of(table[name], name)
    if len(ids.unique()) == len(ids):
        return table, ids, sizes
    if in_order:
        cure = "sort by the query: within partitions that hold whole queries, that suffices"
        raise DataError(Problem("", "rows of a query stand apart", "each query's rows together", cure))
    encoded = ids.dictionary_encode()
    codes = np.repeat(encoded.indices.to_numpy(), sizes)
    return table.take(pa.array(np.argsort(codes, kind="stable"))), encoded.dictionary, np.bincount(codes)


def runs_of(column: pa.ChunkedArray, name: str) -> tuple[pa.Array, Ints]:
    """Return the query id of each run of neighbouring rows of one query, and the number of its rows."""
    firsts, starts, n_rows_before = [], [np.empty(0, np.int64)], 0
    # codes of a dictionary are compared in place of texts, below their few values
    for chunk in column.chunks:
        coded = pa.types.is_dictionary(chunk.type)
        run_starts = np.flatnonzero(_begins_run(chunk.indices if coded else plain_column(chunk, name)))
        firsts.append(plain_column(chunk.take(pa.array(run_starts)), name))
        starts.append(run_starts + n_rows_before)
        n_rows_before += len(chunk)
    ids = pa.concat_arrays(firsts) if firsts else plain_column(column, name).combine_chunks()
    if ids.null_count:
        row = np.concatenate(starts)[ids.is_null().index(True).as_py()]
        raise DataError.at(f"column {name!r}", f"row {row} has no query id", "an id in every row")
    starts_run = _begins_run(ids)
    return ids.filter(pa.array(starts_run)), np.diff(
        np.append(np.concatenate(starts)[starts_run], n_rows_before)
    )


def _begins_run(column: pa.Array | pa.ChunkedArray) -> Bools:
    """Return flags (n_rows,) of the values that differ from the row before, as a missing value does from each."""
    begins = np.ones(len(column), dtype=bool)
    if isinstance(column, pa.Array) and pa.types.is_integer(column.type) and not column.null_count:
        numbers = column.to_numpy()
        np.not_equal(numbers[1:], numbers[:-1], out=begins[1:])
    elif len(column) > 1 and column.null_count < len(column):
        begins[1:] = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).fill_null(True)
    return begins


def one_per_query(values: Array, sizes: Ints, name: str) -> Array:
    """Return the value that all rows of a query share, (n_queries,), from `values` (n_rows,)."""
    first_values = values[np.cumsum(sizes) - sizes]
    if not np.array_equal(np.repeat(first_values, sizes), values):
        raise DataError.at(f"column {name!r}", "differs within a query", "one value in all rows of a query")
    return np.asarray(first_values)


def _flags(numbers: Mapping[str, Floats], named: Mapping[str, str], role: str) -> Bools | None:
    if role not in numbers:
        return None
    if np.isnan(numbers[role]).any():
        raise DataError.at(
            f"column {named[role]!r}", "has rows without a value", "true or false in every row"
        )
    return numbers[role].astype(bool)


def _refuse_scales(requested: Sequence[str], evaluated: Sequence[str]) -> None:
    for name, resolved in zip(requested, evaluated, strict=True):
        if name != resolved:
            found = f"{name} became {resolved} by the labels of one batch"
            raise MetricError(f"{found}, and another batch has others; expected max_grade, or {resolved}")


def _result(ids: Any, sizes: Any, relevant: Any, weights: Any, values: Mapping[str, Any]) -> pa.RecordBatch:
    columns = {QUERY: ids, ROWS: sizes.astype(np.int64), RELEVANT: relevant.astype(np.int64)}
    if weights is not None:
        columns[WEIGHT] = weights
    return pa.RecordBatch.from_pydict(columns | dict(values))
