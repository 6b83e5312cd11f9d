"""One log to a table of queries: batch by batch in this process, or piece by piece on the workers of a cluster.

A batch is an Arrow table of whole queries: checked, ranked and evaluated it is a frame with a line for each.
"""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from ltr_harness.data.addresses import here, refuse_secrets
from ltr_harness.data.columns import are_ranks
from ltr_harness.data.judgments import Judgments, Subtopics
from ltr_harness.data.logs.contract import (
    THREADS,
    Contract,
    LogCheck,
    LogRows,
    in_order,
    per_query,
)
from ltr_harness.data.logs.log import BATCH_ROWS, Log, first_run, last_run, open_log
from ltr_harness.data.logs.ubi import impressions_and_events
from ltr_harness.data.queries import Bools, Floats, Ints, QueryGroups
from ltr_harness.data.relevance.events import JoinedEvents, refuse_unknown_classes, refuse_unknown_events
from ltr_harness.data.relevance.labels import fit, grades_of_rows, judged_rows
from ltr_harness.data.relevance.propensities import estimated_labels, examination
from ltr_harness.data.relevance.rule import EventLog
from ltr_harness.data.times import NO_MOMENT, timestamps
from ltr_harness.errors import MAIN_GUARD, DataError, Problem, UsageError, optional_module
from ltr_harness.metrics import Binding, bind
from ltr_harness.metrics.core.gains import gains_of
from ltr_harness.metrics.dcg import DCG
from ltr_harness.monitoring.config import HIGHEST_GRADE, MonitorConfig, needs_whole_grades
from ltr_harness.monitoring.parity import feature_columns, parity_of_rows, refuse_unlogged, served
from ltr_harness.monitoring.queries import QueryColumns, columns_of, concatenated
from ltr_harness.monitoring.synthetic import SyntheticLog


class LogRead(NamedTuple):
    """One log, read: its queries, what its checks found, and when events without an impression happened."""

    table: pd.DataFrame
    log_checks: tuple[LogCheck, ...]
    orphans: Ints | None


def read_log(source: Any, config: MonitorConfig, which: str, dask: Any = None) -> LogRead:
    """One log, checked and evaluated."""
    name = str(source) if isinstance(source, str | Path) else f"{which} log"
    zone, events = config.windows.timezone, None
    join = config.relevance.event_log
    happened = join.baseline_path if join and which == "baseline" else None
    if isinstance(source, SyntheticLog):
        source = source.table()
    elif config.ubi is not None:
        if not isinstance(source, str | Path):
            found, cure = f"is a {type(source).__name__}", "leave out ubi for tables"
            raise DataError(Problem("log", found, "with ubi, a path of its documents", cure))
        path = here(source)
        source, happened = impressions_and_events(path, config.ubi, config.relevance.event_names, zone)
        joined = config.relevance.model_copy(update={"event_log": EventLog(path=str(path), ubi=True)})
        config = config.model_copy(update={"relevance": joined})
    log = open_log(source, name, text_columns(config))
    if config.parity is not None:
        refuse_unlogged(config.parity, log.columns, name)
    log.refuse_missing(wanted_columns(config))
    contract = Contract(which, name)
    if config.relevance.event_log:
        events = JoinedEvents.read(config.relevance, config.columns, zone, log, contract, source=happened)
    if dask is None:
        parts, row = [], 0
        for batch in log.batches(wanted_columns(config), config.columns.query_id):
            rows = batch if events is None else events.beside(batch, row)
            row += batch.num_rows
            if (part := evaluated(rows, config, contract)) is not None:
                parts.append(part)
    else:
        parts = on_workers(log, config, contract, events, dask)
    contract.raise_errors()
    table = concatenated(parts)
    ids = table["query_id"].to_numpy()
    scattered = np.flatnonzero(ids[1:] == ids[:-1])
    contract.count("query-scattered", scattered.size, tuple(repr(str(q)) for q in ids[scattered[:3]]))
    contract.raise_errors()
    if config.relevance.list_column or join:
        counts = {event: int(n.sum()) for event, n in columns_of(table, "event").items()}
        refuse_unknown_events(config.relevance.event_names, counts, contract)
    refuse_unknown_classes(config.relevance, contract)
    return LogRead(table, contract.log_checks, None if events is None else events.orphans)


LOCAL = "local"
_SCHEDULER_WITHIN, _WORKER_WITHIN = 10, 60  # seconds


def on_workers(
    log: Log, config: MonitorConfig, contract: Contract, events: JoinedEvents | None, cluster: Any
) -> list[pd.DataFrame]:
    """The log's queries, part by part. Each query's rows must stand together in the log."""
    with _client(cluster) as client:
        from distributed import KilledWorker, as_completed

        futures, first = [], 0
        for piece, n in log.pieces(BATCH_ROWS):
            mine = None if events is None else events.of(first, n)
            futures.append(client.submit(_piece, piece, config, contract.empty(), mine, first, pure=False))
            first += n
        place = {future.key: at for at, future in enumerate(futures)}
        answers: list[Any] = [None] * len(futures)
        try:
            for future, answer in as_completed(futures, with_results=True):
                answers[place[future.key]] = answer
                future.release()  # its memory on the worker
        except KilledWorker as problem:
            cure = "give them more memory, or the log in smaller files or row groups"
            found = f"workers died while reading it: {problem}"
            raise UsageError(Problem(log.name, found, cure=cure)) from None
    parts, edges = [], []
    for theirs, part, ends in answers:
        contract.add(theirs)
        parts += part
        edges += ends
    if edges:
        contract.first_row = None
        rest = evaluated(pa.concat_tables(edges), config, contract)
        parts += [] if rest is None else [rest]
    return parts


def _piece(
    log: Log, config: MonitorConfig, contract: Contract, events: JoinedEvents | None, first_row: int
) -> tuple[Contract, list[pd.DataFrame], list[Any]]:
    """What a worker does: the piece's whole queries evaluated, its first and last query's rows untouched."""
    query = config.columns.query_id
    contract.first_row = first_row
    parts, edges = list[pd.DataFrame | None](), list[Any]()

    def edge(table: Any) -> None:
        if table.num_rows:  # a copy: a slice would travel with all that it was cut from
            edges.append(table.take(pa.array(range(table.num_rows))))

    held, row = None, 0
    for batch in log.batches(wanted_columns(config), query, in_memory=BATCH_ROWS):
        table = batch if events is None else events.beside(batch, row)
        row += batch.num_rows
        if held is None:
            end = first_run(table, query)
            edge(table.slice(0, end))
            contract.first_row = first_row + end
            table = table.slice(end)
        elif held.num_rows:
            parts.append(evaluated(held, config, contract))
        held = table
    if held is not None:
        begin = last_run(held, query)
        parts.append(evaluated(held.slice(0, begin), config, contract) if begin else None)
        edge(held.slice(begin))
    return contract, [part for part in parts if part is not None], edges


@contextmanager
def _client(cluster: Any) -> Iterator[Any]:
    """A connection to the cluster; a local one is started and stopped."""
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
    """Every column of the log that the configuration names."""
    columns = config.columns
    one_each = ("query_id", "item_id", "rank", "score", "retrieved", "timestamp", "cluster_id", "pair_key")
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
        run = served(config.parity.model, config.parity.trust).run
        names += [columns_of[name] for name in run.record.categories]
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
    everything = in_order(table, columns, contract)
    if everything is None:
        return None
    contract.totals["queries"] += everything.sizes.size
    everything, rows, shown = _shown(everything, columns.retrieved, contract)
    if not rows.sizes.size:
        return None
    scores, ranks, sound = ranking(rows, config, contract)
    time = _first_moments(rows, columns.timestamp, config, contract) if columns.timestamp else None
    sound = sound and (time is not None or not columns.timestamp)
    segments = {name: per_query(rows, name, contract) for name in columns.segments}
    counts, grades = grades_of_rows(everything, config.relevance, contract, segments)
    if columns.retrieved:
        counts = {name: count[shown] for name, count in counts.items()}
    if grades is not None:
        if config.relevance.estimates:
            grades, _ = estimated_labels(grades, rows, ranks, config.relevance, contract)
        if any(needs_whole_grades(metric) for metric in config.resolved_metrics):
            good = fit(grades)
            contract.check("grade-fractional", good & (grades != np.floor(grades)), everything.name)
            contract.check("grade-too-high", good & (grades > HIGHEST_GRADE), everything.name)
    rule = config.propensity
    looked = None if rule is None else examination(rows, ranks, rule, contract)
    propensity = None if rule is None or looked is None else np.maximum(looked, rule.clip)
    subtopics = _subtopics(everything, columns.subtopics, contract)
    sound = sound and grades is not None and not contract.errors
    if not sound or grades is None or (config.propensity is not None and propensity is None):
        return None
    start, pool = rows.boundaries[:-1], np.ones(shown.size, dtype=bool)
    keep = judged_rows(rows, counts, scores, config.relevance, contract)
    if keep is not None:
        scores, ranks, pool[shown] = scores[keep], ranks[keep], keep
        propensity = None if propensity is None else propensity[keep]
    sizes = np.add.reduceat(pool, everything.boundaries[:-1], dtype=np.int64)
    judgments = Judgments.checked(
        grades[pool],
        QueryGroups(np.concatenate(([0], np.cumsum(sizes))), rows.queries),
        subtopics=None if subtopics is None else subtopics.take(np.flatnonzero(pool)),
        retrieved=shown[pool] if columns.retrieved else None,
    )
    best = judgments.pool.groups.max(judgments.pool.labels)
    values = bind(config.resolved_metrics, judgments, THREADS).per_query(scores)
    by_rank, top = np.full((rows.sizes.size, config.depth), np.nan, np.float32), ranks <= config.depth
    query = np.repeat(np.arange(rows.sizes.size), judgments.groups.sizes)
    by_rank[query[top], ranks[top] - 1] = judgments.labels[top]
    totals = {name: np.add.reduceat(count, start, dtype=np.int64) for name, count in counts.items()}
    served_beside = parity_of_rows(rows, judgments, keep, values[0], config) if config.parity else None
    return QueryColumns(
        query_id=rows.queries,
        metric={str(metric): v for metric, v in zip(config.resolved_metrics, values, strict=True)},
        n_items=rows.sizes.astype(np.int32),
        has_relevant=best > 0,
        event={name: np.minimum(n, np.iinfo(np.int32).max).astype(np.int32) for name, n in totals.items()},
        grade=by_rank,
        time=time,
        cluster=per_query(rows, columns.cluster_id, contract) if columns.cluster_id else None,
        pair_key=per_query(rows, columns.pair_key, contract) if columns.pair_key else None,
        arm=per_query(rows, config.arms.column, contract, "arm-varies") if config.arms else None,
        segment=segments,
        feature=_features(rows, columns.features, contract),
        online={name: _mean(rows, name) for name in columns.online},
        parity=served_beside,
        **ips_dcg(judgments, scores, propensity, config),
    ).frame()


def _shown(everything: LogRows, column: str | None, contract: Contract) -> tuple[LogRows, LogRows, Bools]:
    """All rows of queries that were shown something, those that were shown, and which of all (n_rows,) those are."""
    shown = np.ones(int(everything.boundaries[-1]), dtype=bool)
    if column is None:
        return everything, everything, shown
    flags = everything.numbers(column)
    contract.check("retrieved-invalid", (flags != 0) & (flags != 1), everything.name)
    shown = flags != 0
    contract.check("not-shown", ~shown, everything.name)
    some = np.logical_or.reduceat(shown, everything.boundaries[:-1])
    _queries(contract, "nothing-shown", ~some, everything)
    kept = np.repeat(some, everything.sizes)
    return _rows_of(everything, kept, some), _rows_of(everything, shown, some), shown[kept]


def _rows_of(rows: LogRows, chosen: Bools, queries: Bools) -> LogRows:
    """The chosen rows (n_rows,) of the given queries (n_queries,)."""
    sizes = np.add.reduceat(chosen, rows.boundaries[:-1], dtype=np.int64)[queries]
    order = np.flatnonzero(chosen) if rows.order is None else rows.order[chosen]
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return replace(rows, order=order, queries=rows.queries[queries], boundaries=ends)


def ranking(rows: LogRows, config: MonitorConfig, contract: Contract) -> tuple[Floats, Ints, bool]:
    """Scores (higher first), ranks from 1, and whether they can be trusted."""
    columns = config.columns
    start, sizes = rows.boundaries[:-1], rows.sizes
    sound, ranks = True, np.arange(rows.boundaries[-1]) - np.repeat(start, sizes) + 1
    scores: Floats = np.empty(0)
    if columns.score:
        scores = rows.numbers(columns.score)
        sound = contract.check("score-invalid", np.isnan(scores), rows.name)
    against = np.zeros(sizes.size, dtype=bool)
    if columns.score and sound:
        against = _some_neighbours(rows, scores[1:] > scores[:-1])
        # Without a rank the rows are in order of score; with one they are unless the two disagree.
        ordered = scores[np.lexsort((-scores, rows.query_of_row))] if against.any() else scores
        tied = _some_neighbours(rows, ordered[1:] == ordered[:-1])
        constant = (np.minimum.reduceat(scores, start) == np.maximum.reduceat(scores, start)) & (sizes > 1)
        _queries(contract, "constant-score", constant, rows)
        _queries(contract, "score-tied", tied & ~constant, rows)
    if columns.rank:
        given = rows.numbers(columns.rank)
        if not contract.check("rank-invalid", ~are_ranks(given), rows.name):
            return scores, ranks, False
        ranks = given.astype(np.int64)
        twice = _some_neighbours(rows, ranks[1:] == ranks[:-1])
        _queries(contract, "rank-tied", twice, rows)
        _queries(contract, "rank-gap", (ranks[rows.boundaries[1:] - 1] != sizes) & ~twice, rows)
        _queries(contract, "rank-and-score", against, rows)
        scores = -given
    _queries(contract, "one-item", sizes == 1, rows)
    k = config.primary.k
    if k is not None:
        _queries(contract, "shorter-than-k", sizes < k, rows)
    return scores, ranks, sound


def _some_neighbours(rows: LogRows, holds: Bools) -> Bools:
    """(n_queries,) whether it holds for some pair of neighbouring rows of the query."""
    following = np.concatenate((np.zeros(1, dtype=bool), holds))
    following[rows.boundaries[:-1]] = False  # the row before belongs to another query
    return np.asarray(np.logical_or.reduceat(following, rows.boundaries[:-1]))


def _queries(contract: Contract, check: str, bad: Bools, rows: LogRows) -> None:
    contract.check(check, bad, lambda at: f"query {str(rows.queries[at])!r}")


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


def _subtopics(rows: LogRows, names: tuple[str, ...], contract: Contract) -> Subtopics | None:
    """Grades by subtopic; None without their columns, or where some are none."""
    if not names:
        return None
    grades = np.column_stack([rows.numbers(name) for name in names])
    bad = ~fit(np.min(grades, axis=1)) | ~fit(np.max(grades, axis=1))  # NaN is both
    sound = contract.check("grade-invalid", bad, rows.name)
    return Subtopics.of_matrix(grades, len(grades)) if sound else None


_EARLIEST = np.datetime64("1990-01-01", "ns").astype(np.int64)
_LATEST = np.datetime64("2100-01-01", "ns").astype(np.int64)


def _first_moments(rows: LogRows, name: str, config: MonitorConfig, contract: Contract) -> Ints | None:
    """(n_queries,) nanoseconds UTC; times without a zone are of the windows' time zone; None where some are none."""
    moments = timestamps(rows.table[name], name, config.windows.timezone, any_year=True)
    times = rows.arranged(moments)
    missing = times == NO_MOMENT
    sound = contract.check("time-missing", missing, rows.name)
    out_of_range = ~missing & ((times < _EARLIEST) | (times > _LATEST))
    sound &= contract.check("time-out-of-range", out_of_range, rows.name)
    return np.minimum.reduceat(times, rows.boundaries[:-1]) if sound else None


def _features(rows: LogRows, names: tuple[str, ...], contract: Contract) -> dict[str, Floats]:
    """Mean, max and standard deviation of each feature within the query, and the share of rows it is missing in."""
    start, query = rows.boundaries[:-1], rows.query_of_row
    columns: dict[str, Floats] = {}
    for name in names:
        values = rows.numbers(name)
        contract.check(
            "feature-infinite",
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
    n = np.add.reduceat(known, start, dtype=float)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.add.reduceat(np.where(known, values, 0.0), start) / n)
