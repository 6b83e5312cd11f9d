"""One batch of a log, checked and ranked: from an Arrow table to a frame of queries."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.errors import DataError
from ltr_harness.groups import Judgments, QueryGroups, Subtopics
from ltr_harness.logs.columns import timestamps
from ltr_harness.logs.contract import THREADS, Contract, LogRows, are_ranks, in_order, per_query
from ltr_harness.metrics import Binding, bind
from ltr_harness.metrics.core.gains import gains_of
from ltr_harness.metrics.dcg import DCG
from ltr_harness.monitoring.config import HIGHEST_GRADE, MonitorConfig, needs_whole_grades
from ltr_harness.monitoring.queries import QueryColumns
from ltr_harness.monitoring.served_scores import feature_columns, parity_of_rows, served
from ltr_harness.relevance.grades import fit, grades_of_rows, judged_rows
from ltr_harness.relevance.propensities import estimated_labels, row_propensities

Floats = NDArray[np.float64]


def ips_dcg(
    judgments: Judgments, scores: Floats, propensity: Floats | None, config: MonitorConfig
) -> dict[str, Floats]:
    """IPS-DCG: DCG of gains over the (n_rows,) probability that the user looked there, unbiased for DCG."""
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


def ranking(
    rows: LogRows, config: MonitorConfig, contract: Contract
) -> tuple[Floats, NDArray[np.int64], bool]:
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
        if not contract.check("rank_invalid", ~are_ranks(given), rows.name):
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


def _some_neighbours(rows: LogRows, holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(n_queries,) whether it holds for some pair of neighbouring rows of the query."""
    following = np.concatenate((np.zeros(1, dtype=bool), holds))
    following[rows.boundaries[:-1]] = False  # the row before belongs to another query
    some: NDArray[np.bool_] = np.logical_or.reduceat(following, rows.boundaries[:-1])
    return some


def _queries(contract: Contract, check: str, bad: NDArray[np.bool_], rows: LogRows) -> None:
    contract.check(check, bad, lambda at: f"query {str(rows.queries[at])!r}")


_EARLIEST = np.datetime64("1990-01-01", "ns").astype(np.int64)
_LATEST = np.datetime64("2100-01-01", "ns").astype(np.int64)


def wanted_columns(config: MonitorConfig) -> list[str]:
    """Every column of the log that the configuration names."""
    columns = config.columns
    one_each = ("query_id", "item_id", "rank", "score", "timestamp", "cluster_id", "pair_key")
    names: list[str | None] = [
        *(getattr(columns, role) for role in one_each),
        config.arms.column if config.arms else None,
        *columns.segments,
        *columns.features,
        *columns.online,
        *columns.subtopics,
        *config.relevance.columns,
        config.propensity.column if config.propensity else None,
        *((config.parity.score, *feature_columns(config.parity).values()) if config.parity else ()),
    ]
    return list(dict.fromkeys(name for name in names if name))


def text_columns(config: MonitorConfig) -> list[str]:
    """Columns that stay text when a CSV file is read: ids that look like numbers are none."""
    columns = config.columns
    names = [columns.query_id, columns.item_id, columns.cluster_id, columns.pair_key, *columns.segments]
    names += [config.arms.column] if config.arms else []
    if config.parity:
        columns_of = feature_columns(config.parity)
        names += [columns_of[name] for name in served(config.parity).run.record.categories]
    return [name for name in names if name]


def evaluated(batch: Any, config: MonitorConfig, contract: Contract) -> pd.DataFrame | None:
    """`query_table`, with the log named in what it complains about."""
    try:
        return query_table(batch, config, contract)
    except DataError as error:
        places = [f"{contract.place}: {p.place}".removesuffix(": ") for p in error.problems]
        named = [replace(p, place=place) for p, place in zip(error.problems, places, strict=True)]
        raise DataError(named) from None


def query_table(table: Any, config: MonitorConfig, contract: Contract) -> pd.DataFrame | None:
    """Check a batch and evaluate it; None where an error of the contract makes that impossible."""
    columns = config.columns
    rows = in_order(table, columns, contract)
    if rows is None:
        return None
    contract.totals["queries"] += rows.sizes.size
    scores, ranks, sound = ranking(rows, config, contract)
    time = _first_moments(rows, columns.timestamp, config, contract) if columns.timestamp else None
    sound = sound and (time is not None or not columns.timestamp)
    segments = {name: per_query(rows, name, contract) for name in columns.segments}
    counts, grades = grades_of_rows(rows, config.relevance, contract, segments)
    if grades is not None:
        grades, _ = estimated_labels(grades, rows, ranks, config.relevance, contract)
        if any(needs_whole_grades(metric) for metric in config.resolved_metrics):
            good = fit(grades)
            contract.check("grade_fractional", good & (grades != np.floor(grades)), rows.name)
            contract.check("grade_too_high", good & (grades > HIGHEST_GRADE), rows.name)
    propensity = row_propensities(rows, ranks, config.propensity, contract)
    subtopics = _subtopics(rows, columns.subtopics, contract)
    sound = sound and grades is not None and not contract.errors
    if not sound or grades is None or (config.propensity is not None and propensity is None):
        return None
    kept, start = rows.boundaries, rows.boundaries[:-1]
    keep = judged_rows(rows, counts, scores, config.relevance, contract)
    if keep is not None:
        scores, grades, ranks = scores[keep], grades[keep], ranks[keep]
        propensity = None if propensity is None else propensity[keep]
        subtopics = None if subtopics is None else subtopics.take(np.flatnonzero(keep))
        kept = np.concatenate(([0], np.cumsum(np.add.reduceat(keep.astype(np.int64), start))))
    judgments = Judgments.checked(grades, QueryGroups(kept, rows.queries), subtopics=subtopics)
    values = bind(config.resolved_metrics, judgments, THREADS).per_query(scores)
    totals = {name: np.add.reduceat(count, start, dtype=np.int64) for name, count in counts.items()}
    return QueryColumns(
        query_id=rows.queries,
        metric={str(metric): v for metric, v in zip(config.resolved_metrics, values, strict=True)},
        n_items=rows.sizes.astype(np.int32),
        has_relevant=np.maximum.reduceat(grades, kept[:-1]) > 0,
        event={name: np.minimum(n, np.iinfo(np.int32).max).astype(np.int32) for name, n in totals.items()},
        grade=_by_rank(grades, ranks, kept, config.depth),
        time=time,
        cluster=per_query(rows, columns.cluster_id, contract) if columns.cluster_id else None,
        pair_key=per_query(rows, columns.pair_key, contract) if columns.pair_key else None,
        arm=per_query(rows, config.arms.column, contract, "arm_varies") if config.arms else None,
        segment=segments,
        feature=_features(rows, columns.features, contract),
        online={name: _mean(rows, name) for name in columns.online},
        parity=parity_of_rows(rows, judgments, keep, values[0], config),
        **ips_dcg(judgments, scores, propensity, config),
    ).frame()


def _subtopics(rows: LogRows, names: tuple[str, ...], contract: Contract) -> Subtopics | None:
    """Grades by subtopic; None without their columns, or where some are none."""
    if not names:
        return None
    grades = np.column_stack([rows.numbers(name) for name in names])
    bad = ~fit(np.min(grades, axis=1)) | ~fit(np.max(grades, axis=1))  # NaN is both
    sound = contract.check("grade_invalid", bad, rows.name)
    return Subtopics.of_matrix(grades, len(grades)) if sound else None


def _first_moments(
    rows: LogRows, name: str, config: MonitorConfig, contract: Contract
) -> NDArray[np.int64] | None:
    """(n_queries,) nanoseconds UTC; times without a zone are of the windows' time zone; None where some are none."""
    times = rows.arranged(timestamps(rows.table[name], name, config.windows.timezone))
    missing = times == np.iinfo(np.int64).min
    sound = contract.check("time_missing", missing, rows.name)
    out_of_range = ~missing & ((times < _EARLIEST) | (times > _LATEST))
    sound &= contract.check("time_out_of_range", out_of_range, rows.name)
    return np.minimum.reduceat(times, rows.boundaries[:-1]) if sound else None


def _features(rows: LogRows, names: tuple[str, ...], contract: Contract) -> dict[str, Floats]:
    """Mean, max and standard deviation of each feature within the query, and the share of rows it is missing in."""
    start, query = rows.boundaries[:-1], rows.query_of_row
    columns: dict[str, Floats] = {}
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
            columns[f"{name}:{what}"] = np.where(none, np.nan, column)
        columns[f"{name}:missing"] = 1 - n / rows.sizes
    return columns


def _mean(rows: LogRows, name: str) -> Floats:
    """Mean over the query's rows, missing values left out."""
    values = rows.numbers(name)
    known, start = np.isfinite(values), rows.boundaries[:-1]
    with np.errstate(invalid="ignore"):
        means: Floats = np.add.reduceat(np.where(known, values, 0.0), start) / np.add.reduceat(
            known, start, dtype=float
        )
    return means


def _by_rank(
    grades: Floats, ranks: NDArray[np.int64], boundaries: NDArray[np.int64], depth: int
) -> NDArray[np.float32]:
    by_rank = np.full((boundaries.size - 1, depth), np.nan, dtype=np.float32)
    shown = ranks <= depth
    query = np.repeat(np.arange(boundaries.size - 1), np.diff(boundaries))
    by_rank[query[shown], ranks[shown] - 1] = grades[shown]
    return by_rank
