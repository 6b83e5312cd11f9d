"""One log to a table of queries: batch by batch in this process, or piece by piece on the workers of a cluster.

A batch is an Arrow table of whole queries: checked, ranked and evaluated it is a frame with a line for each.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ltr_harness.data.addresses import local_path, refuse_secrets
from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.data.columns import are_ranks
from ltr_harness.data.judgments import Judgments, Subtopics
from ltr_harness.data.logs.contract import (
    THREADS,
    Contract,
    LogCheck,
    LogRows,
    ScoreRanks,
    in_order,
    per_query,
)
from ltr_harness.data.logs.log import BATCH_ROWS, Log, first_run, last_run, open_log
from ltr_harness.data.logs.ubi import impressions_and_events
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.relevance.events import JoinedEvents, refuse_unknown_classes, refuse_unknown_events
from ltr_harness.data.relevance.labels import fit, grades_of_rows, judged_rows
from ltr_harness.data.relevance.propensities import estimated_labels, examination
from ltr_harness.data.relevance.rule import EventLog
from ltr_harness.data.times import NO_MOMENT, timestamps
from ltr_harness.errors import MAIN_GUARD, DataError, Problem, UsageError, optional_module
from ltr_harness.experiments.inspection.column_facts import FEWEST_RANKED, queries_counted
from ltr_harness.metrics import Binding, bind
from ltr_harness.metrics.core.gains import gains_of
from ltr_harness.metrics.dcg import DCG
from ltr_harness.monitoring.config import HIGHEST_GRADE, MonitorConfig, needs_whole_grades
from ltr_harness.monitoring.parity import feature_columns, parity_of_rows, refuse_unlogged, served_model
from ltr_harness.monitoring.queries import QueryColumns, columns_of, concatenate
from ltr_harness.monitoring.synthetic import SyntheticLog


class LogRead(NamedTuple):
    """One log, read: its queries, what its checks found, and when events without an impression happened."""

    table: pd.DataFrame
    log_checks: tuple[LogCheck, ...]
    orphans: Ints | None


def read_log(source: Any, config: MonitorConfig, log_name: str, dask: Any = None) -> LogRead:
    """Read, check and evaluate one log."""
    name = str(source) if isinstance(source, str | Path) else f"{log_name} log"
    join = config.relevance.event_log
    event_source = join.baseline_path if join and log_name == "baseline" else None
    if isinstance(source, SyntheticLog):
        source = source.table()
    elif config.ubi is not None:
        source, event_source, config = _read_ubi(source, config)
    log = open_log(source, name, text_columns(config))
    if config.parity is not None:
        refuse_unlogged(config.parity, log.columns, name)
    log.refuse_missing(wanted_columns(config))
    contract, zone = Contract(log_name, name), config.windows.timezone
    events = None
    if config.relevance.event_log:
        events = JoinedEvents.read(config.relevance, config.columns, zone, log, contract, source=event_source)
    if dask is None:
        tables = _evaluate_batches(log, config, contract, events)
    else:
        tables = evaluate_on_workers(log, config, contract, events, dask)
    contract.raise_errors()
    table = concatenate(tables)
    _refuse_scattered_queries(table["query_id"].to_numpy(), contract)
    if config.relevance.list_column or join:
        _refuse_unknown_events(table, config, contract)
    refuse_unknown_classes(config.relevance, contract)
    if contract.score_ranks.are_upside_down:
        contract.count("score-is-rank", contract.score_ranks.n_ranked, (repr(config.columns.score),))
    return LogRead(table, contract.log_checks, None if events is None else events.orphans)


def _read_ubi(source: Any, config: MonitorConfig) -> tuple[Any, Any, MonitorConfig]:
    """Return the impressions and the events of User Behavior Insights, and the configuration that joins them."""
    assert config.ubi is not None
    if not isinstance(source, str | Path):
        found, cure = f"is a {type(source).__name__}", "leave out ubi for tables"
        raise DataError(Problem("log", found, "with ubi, a path of its documents", cure))
    path = local_path(source)
    impressions, events = impressions_and_events(
        path, config.ubi, config.relevance.event_names, config.windows.timezone
    )
    relevance = config.relevance.model_copy(update={"event_log": EventLog(path=str(path), ubi=True)})
    return impressions, events, config.model_copy(update={"relevance": relevance})


def _evaluate_batches(
    log: Log, config: MonitorConfig, contract: Contract, events: JoinedEvents | None
) -> list[pd.DataFrame]:
    """Return the log's queries, batch by batch, evaluated in this process."""
    tables, first_row = [], 0
    for batch in log.batches(wanted_columns(config), config.columns.query_id):
        rows = batch if events is None else events.add_counts(batch, first_row)
        first_row += batch.num_rows
        table = evaluate_batch(rows, config, contract)
        if table is not None:
            tables.append(table)
    return tables


def _refuse_scattered_queries(ids: Any, contract: Contract) -> None:
    """Refuse (n_queries,) sorted ids of which some are equal: rows of a query were in several batches."""
    repeated = np.flatnonzero(ids[1:] == ids[:-1])
    contract.count("query-scattered", repeated.size, tuple(repr(str(q)) for q in ids[repeated[:3]]))
    contract.raise_errors()


def _refuse_unknown_events(table: pd.DataFrame, config: MonitorConfig, contract: Contract) -> None:
    """Refuse events of the rule that never happen while unknown ones do."""
    counts = {event: int(n.sum()) for event, n in columns_of(table, "event").items()}
    refuse_unknown_events(config.relevance.event_names, counts, contract)


LOCAL = "local"
_SCHEDULER_WITHIN, _WORKER_WITHIN = 10, 60  # seconds


def evaluate_on_workers(
    log: Log, config: MonitorConfig, contract: Contract, events: JoinedEvents | None, cluster: Any
) -> list[pd.DataFrame]:
    """Return the log's queries, evaluated on workers; each query's rows must stand together in the log."""
    with _client(cluster) as client:
        from distributed import KilledWorker, as_completed

        futures, start = [], 0
        for piece, n in log.pieces(BATCH_ROWS):
            piece_events = None if events is None else events.of_rows(start, n)
            futures.append(
                client.submit(
                    _evaluate_piece, piece, config, contract.empty(), piece_events, start, pure=False
                )
            )
            start += n
        answers: dict[str, Any] = {}
        try:
            for future, answer in as_completed(futures, with_results=True):
                answers[future.key] = answer
                future.release()  # its memory on the worker
        except KilledWorker as problem:
            cure = "give them more memory, or split the log into smaller files or row groups"
            found = f"workers died while reading it: {problem}"
            raise UsageError(Problem(log.name, found, cure=cure)) from None
    parts, edges = [], []
    for part_contract, part, ends in (answers[future.key] for future in futures):
        contract.add(part_contract)
        parts += part
        edges += ends
    if edges:
        contract.first_row = None
        rest = evaluate_batch(pa.concat_tables(edges), config, contract)
        parts += [] if rest is None else [rest]
    return parts


def _evaluate_piece(
    log: Log, config: MonitorConfig, contract: Contract, events: JoinedEvents | None, first_row: int
) -> tuple[Contract, list[pd.DataFrame], list[Any]]:
    """Evaluate a piece's whole queries on a worker; return the rows of its first and last query as they are."""
    query = config.columns.query_id
    contract.first_row = first_row
    parts, edges = list[pd.DataFrame | None](), list[Any]()

    def add_edge(table: Any) -> None:
        if table.num_rows:  # a copy: a slice would travel with all that it was cut from
            edges.append(table.take(pa.array(range(table.num_rows))))

    pending, row = None, 0
    for batch in log.batches(wanted_columns(config), query, in_memory=BATCH_ROWS):
        table = batch if events is None else events.add_counts(batch, row)
        row += batch.num_rows
        if pending is None:
            end = first_run(table, query)
            add_edge(table.slice(0, end))
            contract.first_row = first_row + end
            table = table.slice(end)
        elif pending.num_rows:
            parts.append(evaluate_batch(pending, config, contract))
        pending = table
    if pending is not None:
        begin = last_run(pending, query)
        parts.append(evaluate_batch(pending.slice(0, begin), config, contract) if begin else None)
        add_edge(pending.slice(begin))
    return contract, [part for part in parts if part is not None], edges


@contextmanager
def _client(cluster: Any) -> Iterator[Any]:
    """Connect to the cluster; start and stop a local one."""
    distributed = optional_module("distributed", "a cluster needs the package distributed", "dask")
    with ExitStack() as stack:
        client = cluster
        if cluster == LOCAL:
            quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.ERROR}
            try:
                started = stack.enter_context(distributed.LocalCluster(threads_per_worker=1, **quiet))
            except (RuntimeError, OSError) as problem:
                found = f"cannot be started: {problem}"
                raise UsageError.at(f"--dask {LOCAL}", found, cure=MAIN_GUARD) from None
            client = stack.enter_context(distributed.Client(started, set_as_default=False))
        elif not isinstance(cluster, distributed.Client):
            refuse_secrets(str(cluster), "--dask", "Dask has no passwords: certificates protect its clusters")
            try:
                client = distributed.Client(cluster, timeout=_SCHEDULER_WITHIN, set_as_default=False)
            except (OSError, ValueError, TypeError) as problem:
                found = f"no scheduler answers: {problem}"
                expected = f"{LOCAL}, or an address such as tcp://scheduler:8786"
                raise UsageError.at(f"--dask {cluster}", found, expected) from None
            stack.enter_context(client)
            try:
                client.wait_for_workers(1, timeout=_WORKER_WITHIN)
            except TimeoutError:
                raise UsageError(Problem(f"--dask {cluster}", "the scheduler has no workers")) from None
        with client.as_current():
            yield client


def wanted_columns(config: MonitorConfig) -> list[str]:
    """Return every column of the log that the configuration names."""
    columns = config.columns
    one_each = ("query_id", "item_id", "rank", "score", "retrieved", "timestamp", "cluster_id", "pair_key")
    names: list[str | None] = [getattr(columns, role) for role in one_each]
    if config.arms:
        names.append(config.arms.column)
    names += [*columns.segments, *columns.features, *columns.online, *columns.subtopics]
    names += config.relevance.columns
    if config.propensity:
        names.append(config.propensity.column)
    if config.parity:
        names += [config.parity.score, *feature_columns(config.parity).values()]
    return list(dict.fromkeys(name for name in names if name))


def text_columns(config: MonitorConfig) -> list[str]:
    """Return the columns that stay text when a CSV file is read: ids that look like numbers are no numbers."""
    columns = config.columns
    names = [columns.query_id, columns.item_id, columns.cluster_id, columns.pair_key, *columns.segments]
    names += [config.arms.column] if config.arms else []
    if config.parity:
        columns_of = feature_columns(config.parity)
        run = served_model(config.parity.model, config.parity.trust).run
        names += [columns_of[name] for name in run.record.categories]
    return [name for name in names if name]


def evaluate_batch(batch: Any, config: MonitorConfig, contract: Contract) -> pd.DataFrame | None:
    """Return the `query_table` of a batch; its problems name the log."""
    try:
        return query_table(batch, config, contract)
    except DataError as error:
        places = [f"{contract.place}: {p.place}".removesuffix(": ") for p in error.problems]
        named = [replace(p, place=place) for p, place in zip(error.problems, places, strict=True)]
        raise DataError(named) from None


def query_table(table: Any, config: MonitorConfig, contract: Contract) -> pd.DataFrame | None:
    """Check a batch and evaluate it; None where an error of the contract makes that impossible."""
    batch = _check_batch(table, config, contract)
    if batch is None:
        return None
    if config.columns.score and not config.columns.rank:
        contract.score_ranks.add(_score_ranks(batch))
    return _query_columns(batch, config, contract).frame()


@dataclass(frozen=True, eq=False, kw_only=True)
class _CheckedBatch:
    """A batch of whole queries without an error of the contract."""

    listed: LogRows  # of queries that were shown something, also rows that were not shown
    shown: Bools  # (n_listed,)
    grades: Floats  # (n_listed,)
    subtopics: Subtopics | None  # of the listed rows
    rows: LogRows  # the rows that were shown
    scores: Floats  # (n_rows,), as all the rest
    ranks: Ints
    events: Mapping[str, NDArray[np.int32]]
    propensity: Floats | None
    time: Ints | None  # (n_queries,)
    segments: Mapping[str, pd.Categorical]


def _check_batch(table: Any, config: MonitorConfig, contract: Contract) -> _CheckedBatch | None:
    """Run every check of the contract; None where the batch, or one before it, has an error."""
    columns = config.columns
    in_table = in_order(table, columns, contract)
    if in_table is None:
        return None
    contract.totals["queries"] += in_table.sizes.size
    listed, rows, is_shown = _listed_and_shown_rows(in_table, columns.retrieved, contract)
    if not rows.sizes.size:
        return None
    scores, ranks = ranking(rows, config, contract)
    time = _first_moments(rows, columns.timestamp, config, contract) if columns.timestamp else None
    segments = {name: per_query(rows, name, contract) for name in columns.segments}
    events, grades = grades_of_rows(listed, config.relevance, contract, segments)
    if columns.retrieved:
        events = {name: count[is_shown] for name, count in events.items()}
    if grades is not None and config.relevance.estimates:
        grades, _ = estimated_labels(grades, rows, ranks, config.relevance, contract)
    if grades is not None and any(map(needs_whole_grades, config.resolved_metrics)):
        _check_whole_grades(grades, listed, contract)
    propensity = _propensity(rows, ranks, config, contract)
    subtopics = _subtopics(listed, columns.subtopics, contract)
    if grades is None or contract.errors:
        return None
    return _CheckedBatch(
        listed=listed,
        shown=is_shown,
        grades=grades,
        subtopics=subtopics,
        rows=rows,
        scores=scores,
        ranks=ranks,
        events=events,
        propensity=propensity,
        time=time,
        segments=segments,
    )


def _check_whole_grades(grades: Floats, rows: LogRows, contract: Contract) -> None:
    """Check (n_rows,) grades for metrics whose gain doubles with each grade."""
    valid = fit(grades)
    contract.check("grade-fractional", valid & (grades != np.floor(grades)), rows.name)
    contract.check("grade-too-high", valid & (grades > HIGHEST_GRADE), rows.name)


def _propensity(rows: LogRows, ranks: Ints, config: MonitorConfig, contract: Contract) -> Floats | None:
    """Return the (n_rows,) probabilities that users looked, clipped; None without a rule."""
    if config.propensity is None:
        return None
    probabilities = examination(rows, ranks, config.propensity, contract)
    return None if probabilities is None else np.maximum(probabilities, config.propensity.clip)


def _score_ranks(batch: _CheckedBatch) -> ScoreRanks:
    """Count the queries whose scores are 1 to n, and those of them in which high scores have low or high grades."""
    rows, scores, grades = batch.rows, batch.scores, batch.grades[batch.shown]
    n_long, start = int(np.count_nonzero(rows.sizes >= FEWEST_RANKED)), rows.boundaries[:-1]
    if not np.isfinite(scores).all():
        return ScoreRanks(n_long=n_long)
    low, high = np.minimum.reduceat(scores, start), np.maximum.reduceat(scores, start)
    is_whole = np.logical_and.reduceat(scores == np.floor(scores), start)
    ranked = is_whole & queries_counted(scores, low, high, rows.boundaries)
    centred = scores - np.repeat(np.add.reduceat(scores, start) / rows.sizes, rows.sizes)
    covariance = np.add.reduceat(centred * grades, start)[ranked]
    return ScoreRanks(
        n_long=n_long,
        n_ranked=int(np.count_nonzero(ranked)),
        n_falling=int(np.count_nonzero(covariance < 0)),
        n_rising=int(np.count_nonzero(covariance > 0)),
    )


def _query_columns(batch: _CheckedBatch, config: MonitorConfig, contract: Contract) -> QueryColumns:
    """Evaluate a batch: a line for each query."""
    columns, rows = config.columns, batch.rows
    is_kept = judged_rows(rows, batch.events, batch.scores, config.relevance, contract)
    judged = slice(None) if is_kept is None else is_kept  # of the rows shown
    judgments = _judgments(batch, is_kept, retrieved=columns.retrieved is not None)
    scores, ranks = batch.scores[judged], batch.ranks[judged]
    values = bind(config.resolved_metrics, judgments, THREADS).per_query(scores)
    parity = parity_of_rows(rows, judgments, is_kept, values[0], config) if config.parity else None
    propensity = None if batch.propensity is None else batch.propensity[judged]
    return QueryColumns(
        query_id=rows.queries,
        metric={str(metric): v for metric, v in zip(config.resolved_metrics, values, strict=True)},
        n_items=rows.sizes.astype(np.int32),
        has_relevant=judgments.pool.groups.max(judgments.pool.labels) > 0,
        event={name: _sums_of_queries(count, rows) for name, count in batch.events.items()},
        grade=_grades_by_rank(judgments, ranks, config.depth),
        time=batch.time,
        cluster=per_query(rows, columns.cluster_id, contract) if columns.cluster_id else None,
        pair_key=per_query(rows, columns.pair_key, contract) if columns.pair_key else None,
        arm=per_query(rows, config.arms.column, contract, "arm-varies") if config.arms else None,
        segment=batch.segments,
        feature=_features(rows, columns.features, contract),
        online={name: _mean(rows, name) for name in columns.online},
        parity=parity,
        **ips_dcg(judgments, scores, propensity, config),
    )


def _judgments(batch: _CheckedBatch, is_kept: Bools | None, *, retrieved: bool) -> Judgments:
    """Return the judgments of the listed rows, without shown rows that are not among the (n_rows,) kept ones."""
    pool = np.ones(batch.shown.size, dtype=bool)
    if is_kept is not None:
        pool[batch.shown] = is_kept
    sizes = np.add.reduceat(pool, batch.listed.boundaries[:-1], dtype=np.int64)
    return Judgments.checked(
        batch.grades[pool],
        QueryGroups(np.concatenate(([0], np.cumsum(sizes))), batch.rows.queries),
        subtopics=None if batch.subtopics is None else batch.subtopics.take(np.flatnonzero(pool)),
        retrieved=batch.shown[pool] if retrieved else None,
    )


def _grades_by_rank(judgments: Judgments, ranks: Ints, depth: int) -> NDArray[np.float32]:
    """Return the grades at ranks 1 to `depth`, NaN where nothing was shown; (n_rows,) ranks to (n_queries, depth)."""
    groups, top = judgments.groups, ranks <= depth
    grades = np.full((groups.sizes.size, depth), np.nan, np.float32)
    query = np.repeat(np.arange(groups.sizes.size), groups.sizes)
    grades[query[top], ranks[top] - 1] = judgments.labels[top]
    return grades


def _sums_of_queries(count: NDArray[np.int32], rows: LogRows) -> NDArray[np.int32]:
    """Return the sums of (n_rows,) counts, at most the highest number of 32 bits."""
    totals = np.add.reduceat(count, rows.boundaries[:-1], dtype=np.int64)
    return np.minimum(totals, np.iinfo(np.int32).max).astype(np.int32)


def _listed_and_shown_rows(
    everything: LogRows, column: str | None, contract: Contract
) -> tuple[LogRows, LogRows, Bools]:
    """Return all rows of queries that were shown something, the rows shown, and which of all (n_rows,) these are."""
    is_shown = np.ones(int(everything.boundaries[-1]), dtype=bool)
    if column is None:
        return everything, everything, is_shown
    flags = everything.numbers(column)
    contract.check("retrieved-invalid", (flags != 0) & (flags != 1), everything.name)
    is_shown = flags != 0
    contract.check("not-shown", ~is_shown, everything.name)
    has_shown = np.logical_or.reduceat(is_shown, everything.boundaries[:-1])
    _check_queries(contract, "nothing-shown", ~has_shown, everything)
    is_kept = np.repeat(has_shown, everything.sizes)
    return (
        _rows_of(everything, is_kept, has_shown),
        _rows_of(everything, is_shown, has_shown),
        is_shown[is_kept],
    )


def _rows_of(rows: LogRows, chosen: Bools, queries: Bools) -> LogRows:
    """Return the chosen rows, (n_rows,), of the chosen queries, (n_queries,)."""
    sizes = np.add.reduceat(chosen, rows.boundaries[:-1], dtype=np.int64)[queries]
    order = np.flatnonzero(chosen) if rows.order is None else rows.order[chosen]
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return replace(rows, order=order, queries=rows.queries[queries], boundaries=ends)


def ranking(rows: LogRows, config: MonitorConfig, contract: Contract) -> tuple[Floats, Ints]:
    """Return (n_rows,) scores, higher first, and ranks from 1; errors of either stand in the contract."""
    columns, sizes = config.columns, rows.sizes
    scores = _checked_scores(rows, columns.score, contract) if columns.score else None
    if columns.rank:
        logged_ranks = rows.numbers(columns.rank)
        if not contract.check("rank-invalid", ~are_ranks(logged_ranks), rows.name):
            return logged_ranks, np.ones(logged_ranks.size, dtype=np.int64)
        ranks = logged_ranks.astype(np.int64)
        _check_ranks(ranks, rows, contract)
        if scores is not None:
            disagrees = _some_neighbours(rows, scores[1:] > scores[:-1])
            _check_queries(contract, "rank-and-score", disagrees, rows)
        scores = -logged_ranks
    else:
        ranks = np.arange(rows.boundaries[-1]) - np.repeat(rows.boundaries[:-1], sizes) + 1
    _check_queries(contract, "one-item", sizes == 1, rows)
    if config.primary.k is not None:
        _check_queries(contract, "shorter-than-k", sizes < config.primary.k, rows)
    if scores is None:  # they are invalid
        scores = np.zeros(ranks.size)
    return scores, ranks


def _checked_scores(rows: LogRows, column: str, contract: Contract) -> Floats | None:
    """Return the (n_rows,) scores; None where some are invalid."""
    scores, start = rows.numbers(column), rows.boundaries[:-1]
    if not contract.check("score-invalid", np.isnan(scores), rows.name):
        return None
    # Without a rank the rows are in order of score; with one they are unless the two disagree.
    rising = scores[1:] > scores[:-1]
    unordered = _some_neighbours(rows, rising).any()
    ordered = scores[np.lexsort((-scores, rows.query_of_row))] if unordered else scores
    tied = _some_neighbours(rows, ordered[1:] == ordered[:-1])
    constant = np.minimum.reduceat(scores, start) == np.maximum.reduceat(scores, start)
    constant &= rows.sizes > 1
    _check_queries(contract, "constant-score", constant, rows)
    _check_queries(contract, "score-tied", tied & ~constant, rows)
    return scores


def _check_ranks(ranks: Ints, rows: LogRows, contract: Contract) -> None:
    """Count queries whose (n_rows,) ranks are tied, or have gaps."""
    tied = _some_neighbours(rows, ranks[1:] == ranks[:-1])
    _check_queries(contract, "rank-tied", tied, rows)
    complete = ranks[rows.boundaries[1:] - 1] == rows.sizes
    _check_queries(contract, "rank-gap", ~complete & ~tied, rows)


def _some_neighbours(rows: LogRows, holds: Bools) -> Bools:
    """Return True for queries in which it holds for some pair of neighbouring rows, (n_queries,)."""
    following = np.concatenate((np.zeros(1, dtype=bool), holds))
    following[rows.boundaries[:-1]] = False  # the row before belongs to another query
    return np.asarray(np.logical_or.reduceat(following, rows.boundaries[:-1]))


def _check_queries(contract: Contract, check: str, bad: Bools, rows: LogRows) -> None:
    contract.check(check, bad, lambda query: f"query {str(rows.queries[query])!r}")


def ips_dcg(
    judgments: Judgments, scores: Floats, propensity: Floats | None, config: MonitorConfig
) -> dict[str, Floats]:
    """Return IPS-DCG: DCG of gains over the (n_rows,) probability that the user looked there, unbiased for DCG."""
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


def _subtopics(rows: LogRows, names: tuple[str, ...], contract: Contract) -> Subtopics | None:
    """Return the grades by subtopic; None without their columns, or where some are no grades."""
    if not names:
        return None
    grades = np.column_stack([rows.numbers(name) for name in names])
    bad = ~fit(np.min(grades, axis=1)) | ~fit(np.max(grades, axis=1))  # NaN is both
    is_valid = contract.check("grade-invalid", bad, rows.name)
    return Subtopics.of_matrix(grades, len(grades)) if is_valid else None


_EARLIEST = np.datetime64("1990-01-01", "ns").astype(np.int64)
_LATEST = np.datetime64("2100-01-01", "ns").astype(np.int64)


def _first_moments(rows: LogRows, name: str, config: MonitorConfig, contract: Contract) -> Ints | None:
    """Return each query's first moment, (n_queries,) ns UTC, read in the windows' time zone; None of invalid times."""
    moments = timestamps(rows.table[name], name, config.windows.timezone, any_year=True)
    times = rows.in_canonical_order(moments)
    missing = times == NO_MOMENT
    is_valid = contract.check("time-missing", missing, rows.name)
    out_of_range = ~missing & ((times < _EARLIEST) | (times > _LATEST))
    is_valid &= contract.check("time-out-of-range", out_of_range, rows.name)
    return np.minimum.reduceat(times, rows.boundaries[:-1]) if is_valid else None


def _features(rows: LogRows, names: tuple[str, ...], contract: Contract) -> dict[str, Floats]:
    """Return each feature's mean, max and standard deviation within the query, and its share of missing rows."""
    start, query = rows.boundaries[:-1], rows.query_of_row
    columns: dict[str, Floats] = {}
    for name in names:
        values = rows.numbers(name)
        contract.check(
            "feature-infinite",
            np.isinf(values),
            lambda row, name=name: f"{rows.name(row)} ({name})",  # type: ignore[misc]
        )
        is_finite = np.isfinite(values)
        filled = np.where(is_finite, values, 0.0)
        n = np.add.reduceat(is_finite.astype(np.float64), start)
        high = np.maximum.reduceat(np.where(is_finite, values, -np.inf), start)
        low = np.minimum.reduceat(np.where(is_finite, values, np.inf), start)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(high == low, high, np.add.reduceat(filled, start) / n)
            deviations = np.where(is_finite, values - mean[query], 0.0)
            spread = np.sqrt(np.add.reduceat(deviations**2, start) / n)
        none = n == 0
        for statistic, column in (("mean", mean), ("max", high), ("std", spread)):
            columns[f"{name}:{statistic}"] = np.where(none, np.nan, column)
        columns[f"{name}:missing"] = 1 - n / rows.sizes
    return columns


def _mean(rows: LogRows, name: str) -> Floats:
    """Return the mean over each query's rows, missing values left out."""
    values = rows.numbers(name)
    is_finite, start = np.isfinite(values), rows.boundaries[:-1]
    n = np.add.reduceat(is_finite, start, dtype=float)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.add.reduceat(np.where(is_finite, values, 0.0), start) / n)
