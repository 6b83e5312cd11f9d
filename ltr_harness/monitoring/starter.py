"""A first configuration for a log: columns guessed by their names and content, and checked by a run on the log."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import yaml

from ltr_harness._util.text import count_of
from ltr_harness.data.columns import decoded, is_text
from ltr_harness.data.logs.log import Log, open_log
from ltr_harness.data.readers.column_names import (
    LISTINGS,
    column_among,
    column_for,
    event_weight,
    has_place_word,
    is_id,
    is_outcome,
    may_be_id,
    orders_by_rank,
    rank_column,
    time_and_user,
)
from ltr_harness.errors import DataError, HarnessError, Problem, UsageError
from ltr_harness.experiments.config.yaml_tree import one_line_yaml
from ltr_harness.monitoring.config import HIGHEST_GRADE, Columns
from ltr_harness.monitoring.load import load_monitor_config
from ltr_harness.monitoring.result import MonitorResult
from ltr_harness.monitoring.stages import watch

_SAMPLE_ROWS = 200_000  # rows whose values say what a column is
_MAX_VALUES = 50  # of a segment
_MAX_FEATURES = 20
_MAX_LISTED = 20  # columns in a message
_CURE = "--column ROLE=COLUMN names one, such as --column timestamp=ts; ROLE=null leaves it out"
_COMMENTS = {
    "query_id": "one search: one list shown to one user",
    "rank": "what users saw; 1 is the top",
    "score": "the model's score, higher first",
    "cluster_id": "queries of one user are alike and count together",
    "segments": "where a drop may sit",
    "features": "what may have drifted",
    "online": "what users did, shown beside the metric",
}


class Guess(NamedTuple):
    """The guessed roles of a log's columns, the rule of relevance and the metrics."""

    columns: dict[str, Any]
    relevance: dict[str, Any]
    metrics: list[str]
    n_left: int  # numeric columns beyond the features that are listed


class Starter(NamedTuple):
    """The text of a configuration, the lines that sum it up, and the result of its run on the log."""

    text: str
    lines: list[str]
    result: MonitorResult


def starter(path: Path, output: Path, columns_by_role: Mapping[str, Any]) -> Starter:
    """Return a configuration for a log that passes its own check, with the paths of a file at `output`.

    Raises:
        UsageError: an unknown role.
        DataError: no column plays a role that is needed, or the log does not pass.
    """
    roles = [*Columns.model_fields, "label"]
    if unknown := [role for role in columns_by_role if role not in roles]:
        found = f"--column {unknown[0]}: is no role of a log"
        raise UsageError(f"{found}; expected one of {', '.join(roles)}")
    log = open_log(path)
    log.refuse_missing(_names(columns_by_role.values()))
    guess = guess_from(log, columns_by_role)
    text = configuration(guess, path, output)
    try:
        result = watch(load_monitor_config({**yaml.safe_load(text), "log": str(path.absolute())})).result
        defined = sum(window.n_defined for window in result.windows)
        if not defined:
            found = f"{count_of(result.n_queries, 'query')}, and none with a relevant document"
            raise DataError(Problem(str(path), found, "grades above 0, or events that happened"))
    except HarnessError as error:
        refused = Problem(str(output), "does not pass its check and was not written", cure=_CURE)
        raise DataError([*error.problems, refused]) from None
    lines = [f"{role}: {_format_value(value)}" for role, value in guess.columns.items()]
    if guess.n_left:
        lines.append(f"features: {count_of(guess.n_left, 'more numeric column')} left out")
    lines.append(f"relevance: {result.relevance}")
    size = ", ".join(
        count_of(n, unit)
        for n, unit in ((result.n_queries, "query"), (result.n_rows, "row"), (len(result.windows), "window"))
    )
    mean = f"{result.primary} {result.mean(result.primary):.4f}"
    lines.append(f"{size}: {mean} over {count_of(defined, 'query')}")
    return Starter(text, lines, result)


def _names(columns: Iterable[Any]) -> list[str]:
    """Return the names of columns of which some stand in lists."""
    names: list[str] = []
    for column in columns:
        if isinstance(column, str):
            names.append(column)
        elif column:
            names += column
    return names


def _format_value(value: Any) -> str:
    return f"columns {', '.join(value)}" if isinstance(value, list) else f"column {value!r}"


def guess_from(log: Log, columns_by_role: Mapping[str, Any]) -> Guess:
    """Guess the roles of a log's columns by their names and the values of its first rows."""
    names = [name for name in log.columns if log.columns.count(name) == 1]
    rows = next(log.batches(names, None, rows=_SAMPLE_ROWS))
    numeric = [name for name in names if _is_number(rows[name])]
    columns = _roles(names, columns_by_role)
    free = [name for name in names if name not in _names(columns.values())]
    relevance = _relevance(free, numeric, columns_by_role)
    _refuse_lacking(log.name, names, columns, has_rule=bool(relevance))
    of_rule = {*relevance.get("events", ()), relevance.get("label")}
    free = [name for name in free if name not in of_rule]
    lists = _listed_columns(rows, free, numeric, columns["query_id"])
    lists = {role: column for role, column in lists.items() if column and role not in columns_by_role}
    features = lists.get("features", [])
    n_left = len(features[_MAX_FEATURES:])
    del features[_MAX_FEATURES:]
    columns |= lists
    return Guess(columns, relevance, _metrics(log, relevance, numeric), n_left)


def _listed_columns(
    rows: Any, free: Sequence[str], numeric: Sequence[str], query: str
) -> dict[str, list[str]]:
    """Return the columns of roles that may have several, among those that are still free."""
    return {
        "segments": _segments(rows, query, [name for name in free if name not in numeric]),
        "features": [name for name in free if name in numeric and _may_be_feature(name)],
        "online": [name for name in free if name in numeric and is_outcome(name)],
    }


def _refuse_lacking(log: str, names: Sequence[str], columns: Mapping[str, Any], *, has_rule: bool) -> None:
    """Refuse a log without queries, an order or a rule of relevance."""
    lacking = []
    if "query_id" not in columns:
        lacking.append("query_id")
    if "rank" not in columns and "score" not in columns:
        lacking.append("rank")
    if not has_rule:
        lacking.append("label")
    listed = ", ".join(names[:_MAX_LISTED])
    if len(names) > _MAX_LISTED:
        listed += " …"
    DataError.refuse(
        Problem(log, f"no column looks like the {role} ({listed})", cure=f"name it: --column {role}=COLUMN")
        for role in lacking
    )


def _roles(names: Sequence[str], columns_by_role: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of roles that have one each."""
    of_queries = time_and_user(names)
    scores = [name for name in names if not orders_by_rank(name)]
    roles: dict[str, Any] = {
        "query_id": column_for("query", names),
        "item_id": column_for("document_id", names),
        "rank": rank_column(names),
        "score": column_among(LISTINGS["score"], scores),
        "timestamp": of_queries.get("time"),
        "cluster_id": of_queries.get("user"),
    }
    roles |= {role: value for role, value in columns_by_role.items() if role != "label"}
    return {role: column for role, column in roles.items() if column is not None}


def _relevance(
    free: Sequence[str], numeric: Sequence[str], columns_by_role: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the rule: a label, or what users did; empty where there is neither."""
    label = columns_by_role.get("label") or column_for("label", [name for name in free if name in numeric])
    if label is not None and ("label" in columns_by_role or event_weight(label) is None):
        return {"mode": "label", "label": label}
    weights = {name: event_weight(name) for name in free if name in numeric}
    events = {name: weight for name, weight in weights.items() if weight is not None}
    return {"events": dict(sorted(events.items(), key=lambda event: event[1]))} if events else {}


def _metrics(log: Log, relevance: Mapping[str, Any], numeric: Sequence[str]) -> list[str]:
    """Return NDCG with the gain that the labels can have, and MRR."""
    exponential, label = True, relevance.get("label", "")
    if label in numeric:
        for batch in log.batches([label], None):
            values = np.asarray(decoded(batch[label]).to_numpy(zero_copy_only=False), np.float64)
            finite = values[np.isfinite(values)]
            exponential &= bool(np.all(finite == np.floor(finite)) and np.all(finite <= HIGHEST_GRADE))
    ndcg = "ndcg@10" if exponential else "ndcg(gain=linear)@10"
    return [ndcg, "mrr@10"]


def _is_number(column: Any) -> bool:
    kind = decoded(column).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _may_be_feature(name: str) -> bool:
    return not (
        is_id(name) or may_be_id(name) or has_place_word(name) or is_outcome(name) or event_weight(name)
    )


def _segments(rows: Any, query: str, names: Sequence[str]) -> list[str]:
    """Return the columns of text with few values, equal in all rows of a query."""
    chosen = []
    for name in names:
        if is_id(name) or not is_text(decoded(rows[name]).type):
            continue
        pairs = rows.select([query, name]).to_pandas()
        few = 1 < pairs[name].nunique() <= _MAX_VALUES
        if few and pairs.groupby(query, sort=False)[name].nunique().max() == 1:
            chosen.append(name)
    return chosen


def configuration(guess: Guess, log: Path, output: Path) -> str:
    """Return the text of the file, with comments."""
    place = Path(os.path.relpath(log.absolute(), output.absolute().parent)).as_posix()
    timed = "timestamp" in guess.columns
    columns = [
        _line(f"  {role}: {one_line_yaml(value)}", _COMMENTS.get(role, ""))
        for role, value in guess.columns.items()
    ]
    primary = guess.metrics[0]
    windows = "# without a timestamp everything is one window"
    if timed:
        windows = _line("windows: {size: 1d, timezone: UTC}", "days begin at this zone's midnight")
    lines = [
        "# Written by `ltr-harness init --monitor`. Check what it guessed; then give it a baseline:",
        f"#   ltr-harness monitor {output.name} --baseline good_weeks.parquet -o report",
        f"name: {one_line_yaml(output.stem)}",
        _line(f"log: {one_line_yaml(place)}", "relative to this file; --log names another one"),
        _line("# baseline: good_weeks.parquet", "a log, a run, or the folder of an earlier result"),
        _line("# history: monitor_history", "of runs every night: one alpha over all of them"),
        "",
        "columns:",
        *columns,
        "",
        _line(
            f"relevance: {one_line_yaml(guess.relevance, sort_keys=False)}",
            "the rule is part of the definition",
        ),
        _line(f"metrics: {one_line_yaml(guess.metrics)}", "the first one raises alerts"),
        windows,
        _line(
            "compare: {alternative: drop, alpha: 0.05, min_drop: 0.01}",
            "an alert needs significance and size",
        ),
        _line(
            f"# alerts: {one_line_yaml({'below': {primary: 0.5}})}",
            "an absolute limit, with a baseline or without",
        ),
        "",
    ]
    return "\n".join(lines)


def _line(text: str, comment: str) -> str:
    return f"{text:<40} # {comment}" if comment else text
