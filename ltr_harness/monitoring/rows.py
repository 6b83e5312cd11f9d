"""One batch of a log, checked and ranked: from an Arrow table to a `QueryTable`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.groups import Judgments, QueryGroups
from ltr_harness.metrics import Binding, bind
from ltr_harness.metrics.dcg import DCG
from ltr_harness.metrics.gains import gains_of
from ltr_harness.monitoring.attribution import examined
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.contract import Contract
from ltr_harness.monitoring.grades import grades_of_rows
from ltr_harness.monitoring.queries import Category, QueryTable, category_of
from ltr_harness.monitoring.times import timestamps

Floats = NDArray[np.float64]
THREADS = 2

_EARLIEST = np.datetime64("1990-01-01", "ns").astype(np.int64)
_LATEST = np.datetime64("2100-01-01", "ns").astype(np.int64)


def wanted_columns(config: MonitorConfig) -> list[str]:
    """Every column of the log that the configuration names."""
    columns, relevance = config.columns, config.relevance
    names: list[str | None] = [
        columns.query_id, columns.item_id, columns.rank, columns.score, columns.timestamp, columns.cluster_id,
        columns.pair_key, *columns.segments, *columns.features, *columns.online,
    ]  # fmt: skip
    if relevance.chosen in ("label", "match"):
        names += [relevance.label, relevance.prediction if relevance.chosen == "match" else None]
    elif relevance.list_column:
        names.append(relevance.list_column)
    elif relevance.event_log is None:
        names += relevance.event_names
    names += [rung.condition[0] for rung in relevance.ladder if rung.condition]
    names += [relevance.dwell.column if relevance.dwell else None]
    names += [config.propensity.column if config.propensity else None]
    return list(dict.fromkeys(name for name in names if name))


def text_columns(config: MonitorConfig) -> list[str]:
    """Columns that stay text when a CSV file is read: ids that look like numbers are none."""
    columns = config.columns
    names = [columns.query_id, columns.item_id, columns.cluster_id, columns.pair_key, *columns.segments]
    return [name for name in names if name]


@dataclass(frozen=True, eq=False)
class Rows:
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

    def category(self, name: str) -> Category:
        found = category_of(self.table[name], name)
        return found if self.order is None else found.take(self.order)

    def arranged(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.order is None else values[self.order]

    def name(self, row: int) -> str:
        """The query of a row, for messages."""
        return f"query {str(self.queries[np.searchsorted(self.boundaries, row, side='right') - 1])!r}"


def query_table(table: Any, config: MonitorConfig, contract: Contract) -> QueryTable | None:
    """Check a batch and evaluate it; None where an error of the contract makes that impossible."""
    rows = _in_order(table, config, contract)
    if rows is None:
        return None
    columns = config.columns
    contract.totals["queries"] += rows.sizes.size
    scores, ranks, sound = _ranking(rows, config, contract)
    time = None
    if columns.timestamp:
        times = _timestamps(rows, columns.timestamp, config, contract)
        if times is None:
            sound = False
        else:
            time = np.minimum.reduceat(times, rows.boundaries[:-1])
    segments = {name: _per_query(rows, name, contract) for name in columns.segments}
    counts, grades = grades_of_rows(rows, config, contract, segments)
    propensity = _propensities(rows, ranks, config, contract)
    sound = sound and grades is not None and not contract.errors
    if not sound or grades is None or (config.propensity is not None and propensity is None):
        return None
    kept = rows.boundaries
    keep = _judged(rows, grades, config)
    if keep is not None:
        scores, grades, ranks = scores[keep], grades[keep], ranks[keep]
        propensity = None if propensity is None else propensity[keep]
        kept = np.concatenate(([0], np.cumsum(np.add.reduceat(keep.astype(np.int64), rows.boundaries[:-1]))))
    judgments = Judgments.checked(grades, QueryGroups(kept, rows.queries))
    values = bind(config.resolved_metrics, judgments, THREADS).per_query(scores)
    ips = _ips(judgments, scores, propensity, config)
    return QueryTable(
        ids=rows.queries.astype(object),
        metrics=tuple(str(metric) for metric in config.resolved_metrics),
        values=values,
        n_items=rows.sizes.astype(np.int32),
        relevant=np.maximum.reduceat(grades, kept[:-1]) > 0,
        events={
            name: np.add.reduceat(count, rows.boundaries[:-1]).astype(np.int32)
            for name, count in counts.items()
        },
        by_rank=_by_rank(grades, ranks, kept, config.depth),
        time=time,
        cluster=_per_query(rows, columns.cluster_id, contract) if columns.cluster_id else None,
        pair_key=_per_query(rows, columns.pair_key, contract) if columns.pair_key else None,
        segments=segments,
        features=_features(rows, columns.features, contract),
        online={name: _mean(rows, name) for name in columns.online},
        **ips,
    )


def _judged(rows: Rows, grades: Floats, config: MonitorConfig) -> NDArray[np.bool_] | None:
    """Rows that the metric looks at; None for all. A query keeps at least one row."""
    rule = config.relevance
    if rule.unseen == "ignore_below_last_click":
        return examined(grades, rows.boundaries)
    if rule.unlabelled != "ignore" or rule.chosen != "label":
        return None
    keep: NDArray[np.bool_] = ~np.isnan(rows.numbers(rule.label))
    start = rows.boundaries[:-1]
    keep[start[~np.logical_or.reduceat(keep, start)]] = True  # a list without labels has nothing relevant
    return keep


# ---- order and ranking -----------------------------------------------------------------------------------


def _in_order(table: Any, config: MonitorConfig, contract: Contract) -> Rows | None:
    columns = config.columns
    query = category_of(table[columns.query_id], columns.query_id)
    if not contract.check("query_missing", query.codes < 0, contract.begin(table.num_rows)):
        return None
    key = (
        numbers_of(table[columns.rank], columns.rank)
        if columns.rank
        else -numbers_of(table[columns.score or ""], columns.score or "")
    )
    item = category_of(table[columns.item_id], columns.item_id) if columns.item_id else None
    codes = query.codes
    same = codes[1:] == codes[:-1]
    in_order = bool(np.all((codes[1:] > codes[:-1]) | (same & (key[1:] > key[:-1]))))
    order = None
    if not in_order:
        # Ties by item, so that the order of the file's rows shows nowhere.
        keys = (key, codes) if item is None else (item.codes, key, codes)
        order = np.lexsort(keys)
        codes = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    rows = Rows(table, order, query.names[codes[starts]], np.append(starts, codes.size).astype(np.int64))
    if item is not None:
        items = item.codes if order is None else item.codes[order]
        contract.check("item_missing", items < 0, rows.name)
        _no_duplicates(rows, codes, items, item, contract)
    return rows


def _no_duplicates(
    rows: Rows, codes: NDArray[np.int32], items: NDArray[np.int32], item: Category, contract: Contract
) -> None:
    import pandas as pd

    key = codes.astype(np.int64) * (item.names.size + 1) + items
    repeated = pd.Series(key).duplicated().to_numpy() & (items >= 0)
    contract.check(
        "duplicate_item", repeated, lambda row: f"{rows.name(row)} item {str(item.names[items[row]])!r}"
    )


def _ranking(rows: Rows, config: MonitorConfig, contract: Contract) -> tuple[Floats, NDArray[np.int64], bool]:
    """Scores (higher first), ranks from 1, and whether they can be trusted."""
    columns = config.columns
    start, sizes = rows.boundaries[:-1], rows.sizes
    sound, ranks = True, np.arange(rows.boundaries[-1]) - np.repeat(start, sizes) + 1
    scores: Floats = np.empty(0)
    if columns.score:
        scores = rows.numbers(columns.score)
        sound = contract.check("score_invalid", np.isnan(scores), rows.name)
    against = np.zeros(sizes.size, dtype=bool)
    if columns.score and sound:
        against = _some_neighbours(rows, scores[1:] > scores[:-1])
        # Without a rank the rows are in order of score; with one they are unless the two disagree.
        ordered = scores[np.lexsort((-scores, rows.query_of_row))] if against.any() else scores
        tied = _some_neighbours(rows, ordered[1:] == ordered[:-1])
        constant = (np.minimum.reduceat(scores, start) == np.maximum.reduceat(scores, start)) & (sizes > 1)
        _queries(contract, "constant_score", constant, rows)
        _queries(contract, "score_tied", tied & ~constant, rows)
    if columns.rank:
        given = rows.numbers(columns.rank)
        whole = np.isfinite(given) & (given >= 1) & (given == np.floor(given))
        if not contract.check("rank_invalid", ~whole, rows.name):
            return scores, ranks, False
        ranks = given.astype(np.int64)
        twice = _some_neighbours(rows, ranks[1:] == ranks[:-1])
        _queries(contract, "rank_tied", twice, rows)
        _queries(contract, "rank_gap", (ranks[rows.boundaries[1:] - 1] != sizes) & ~twice, rows)
        _queries(contract, "rank_and_score", against, rows)
        scores = -given
    _queries(contract, "one_item", sizes == 1, rows)
    k = config.primary.k
    if k is not None:
        _queries(contract, "shorter_than_k", sizes < k, rows)
    return scores, ranks, sound


def _some_neighbours(rows: Rows, holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(n_queries,) whether it holds for some pair of neighbouring rows of the query."""
    following = np.concatenate((np.zeros(1, dtype=bool), holds))
    following[rows.boundaries[:-1]] = False  # the row before belongs to another query
    found: NDArray[np.bool_] = np.logical_or.reduceat(following, rows.boundaries[:-1])
    return found


def _queries(contract: Contract, check: str, bad: NDArray[np.bool_], rows: Rows) -> None:
    contract.check(check, bad, lambda at: f"query {str(rows.queries[at])!r}")


# ---- time, segments, features ----------------------------------------------------------------------------


def _timestamps(rows: Rows, name: str, config: MonitorConfig, contract: Contract) -> NDArray[np.int64] | None:
    """int64 nanoseconds UTC per row; times without a zone are of the windows' time zone."""
    found = timestamps(rows.table[name], name, config.windows.timezone)
    times = rows.arranged(found)
    missing = np.iinfo(np.int64).min
    sound = contract.check("time_missing", times == missing, rows.name)
    sound &= contract.check(
        "time_out_of_range", (times != missing) & ((times < _EARLIEST) | (times > _LATEST)), rows.name
    )
    return times if sound else None


def _per_query(rows: Rows, name: str, contract: Contract) -> Category:
    """The first row's value; a query in which rows differ is counted."""
    found = rows.category(name)
    first = found.codes[rows.boundaries[:-1]]
    varies = np.logical_or.reduceat(found.codes != np.repeat(first, rows.sizes), rows.boundaries[:-1])
    contract.check("segment_varies", varies, lambda at: f"query {str(rows.queries[at])!r} ({name})")
    return Category(first, found.names)


def _features(rows: Rows, names: tuple[str, ...], contract: Contract) -> dict[str, Floats]:
    """Mean, max and standard deviation of each feature within the query, missing values left out."""
    start, query = rows.boundaries[:-1], rows.query_of_row
    found: dict[str, Floats] = {}
    for name in names:
        values = rows.numbers(name)
        contract.check(
            "feature_infinite",
            np.isinf(values),
            lambda row, name=name: f"{rows.name(row)} ({name})",  # type: ignore[misc]
        )
        known = np.isfinite(values)
        filled = np.where(known, values, 0.0)
        n = np.add.reduceat(known.astype(np.float64), start)
        high = np.maximum.reduceat(np.where(known, values, -np.inf), start)
        low = np.minimum.reduceat(np.where(known, values, np.inf), start)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(high == low, high, np.add.reduceat(filled, start) / n)
            off = np.where(known, values - mean[query], 0.0)
            spread = np.sqrt(np.add.reduceat(off**2, start) / n)
        none = n == 0
        for what, column in (("mean", mean), ("max", high), ("std", spread)):
            found[f"{name}:{what}"] = np.where(none, np.nan, column)
    return found


def _mean(rows: Rows, name: str) -> Floats:
    """Mean over the query's rows, missing values left out."""
    values = rows.numbers(name)
    known = np.isfinite(values)
    n = np.add.reduceat(known.astype(np.float64), rows.boundaries[:-1])
    with np.errstate(invalid="ignore"):
        found: Floats = np.add.reduceat(np.where(known, values, 0.0), rows.boundaries[:-1]) / n
    return found


# ---- by rank, and what propensities make of it -----------------------------------------------------------


def _by_rank(
    grades: Floats, ranks: NDArray[np.int64], boundaries: NDArray[np.int64], depth: int
) -> NDArray[np.float32]:
    found = np.full((boundaries.size - 1, depth), np.nan, dtype=np.float32)
    shown = ranks <= depth
    query = np.repeat(np.arange(boundaries.size - 1), np.diff(boundaries))
    found[query[shown], ranks[shown] - 1] = grades[shown]
    return found


def _propensities(
    rows: Rows, ranks: NDArray[np.int64], config: MonitorConfig, contract: Contract
) -> Floats | None:
    rule = config.propensity
    if rule is None:
        return None
    if rule.column:
        values = rows.numbers(rule.column)
        good = (values > 0) & (values <= 1)
        if not contract.check("propensity_invalid", ~good, rows.name):
            return None
    else:
        table = np.array(
            rule.baseline_table if contract.log == "baseline" and rule.baseline_table else rule.table
        )
        values = table[np.minimum(ranks, table.size) - 1]
    return np.maximum(values, rule.clip)


def _ips(
    judgments: Judgments, scores: Floats, propensity: Floats | None, config: MonitorConfig
) -> dict[str, Floats]:
    """IPS-DCG: DCG of gains divided by the probability that the user looked there, unbiased for DCG."""
    if propensity is None:
        return {}
    gain = getattr(config.primary, "gain", "linear")
    weighted = gains_of(judgments, gain, str(config.primary)) / propensity
    start = judgments.groups.boundaries[:-1]
    metric = DCG(k=config.primary.k, gain="linear")
    binding = Binding([metric], Judgments(weighted, judgments.groups), THREADS)
    ips = binding.per_query(scores)[0]
    return {
        "ips": np.where(np.isnan(ips), 0.0, ips),  # a query without clicks has gained nothing
        "ips_weight": np.add.reduceat(weighted, start),
        "ips_squares": np.add.reduceat(weighted**2, start),
    }


def numbers_of(column: Any, name: str) -> Floats:
    """An Arrow column of numbers or truth values as float64, missing as NaN."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(Problem(f"column {name!r}", f"has the type {kind}", "numbers"))
    values: Floats = column.cast(pa.float64(), safe=False).to_numpy()
    return values
