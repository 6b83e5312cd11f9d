"""Calls of the Python interface with the types, shapes and values of other tools (for fuzz.py).

Each call draws its input: a good one in other forms (views, dictionaries, runs, frames of pandas and Polars, read-only
arrays), or one with other values. In other forms alone the answer must be that of the good one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import example_tables as tables
import numpy as np
import pyarrow as pa

import ltr_harness
from ltr_harness import arrow
from ltr_harness.comparison import compare, evaluate_runs, evaluate_stream
from ltr_harness.data.splits import divided_by_time
from ltr_harness.data.time_folds import days_of
from ltr_harness.errors import HarnessError
from ltr_harness.monitoring import monitor
from ltr_harness.sklearn import QueryKFold, scorer

METRICS = ["ndcg@3", "mrr", "map@5", "recall@3"]
MORE_METRICS = [
    *METRICS,
    "gauc",
    "log_loss",
    "brier",
    "err@10",
    "ndcg(ties=id)@5",
    "bpref",
    "judged@5",
    "alpha_ndcg",
]
COLUMNS = {"document_id": "document_id", "weight": "weight", "judged": "judged", "retrieved": "retrieved"}


class OtherAnswerError(Exception):
    """The same content in another form gave another answer, or none."""


def compare_answers(call: Callable[[Any], Any], good: Any, given: Any, same: bool) -> None:
    """Call with what is given, and compare with the good input where the content is the same."""
    if not same:
        call(given)
        return
    expected = call(good)
    try:
        found = call(given)
    except HarnessError as problem:
        raise OtherAnswerError(f"refused in another form: {problem}") from problem
    if found != expected:
        raise OtherAnswerError(f"{found} in another form; expected {expected}")


def as_python(values: Any) -> Any:
    """Return arrays and tables as lists of rounded numbers, and NaN as None."""
    if isinstance(values, Mapping):
        return {str(name): as_python(value) for name, value in values.items()}
    if isinstance(values, pa.RecordBatch | pa.Table):
        return as_python(values.to_pydict())
    if isinstance(values, list | tuple | np.ndarray):
        return [as_python(value) for value in values]
    if isinstance(values, float | np.floating):
        return None if np.isnan(values) else round(float(values), 9)
    return values


def with_frame(good: pa.Table, call: Callable[[Any], Any], draw: random.Random) -> None:
    """A call that takes a table, with it in other types and as other frames."""
    table, same_columns = tables.changed_table(good, draw)
    frame, same_frame = tables.frame_of(table, draw)
    compare_answers(call, good, frame, same_columns and same_frame)


def arrays() -> dict[str, Any]:
    """The rows as arrays."""
    rows = tables.rows()
    return {name: rows[name].to_numpy() for name in rows.column_names}


def every_form(found: Any) -> Any:
    """Return the values of an evaluation, after making every form that it has."""
    repr(found)
    found._repr_html_()
    found.frame()
    return as_python({name: found[name].per_query for name in found.metrics} | dict(found.means))


def evaluate(draw: random.Random) -> None:
    names = {
        "query_ids": "query_id",
        "document_ids": "document_id",
        "judged": "judged",
        "retrieved": "retrieved",
    }
    rows = arrays()
    good = {"labels": rows["label"], "scores": rows["score"], "query_ids": rows["query_id"]}
    good |= {name: rows[column] for name, column in names.items() if draw.random() < 0.5}
    if draw.random() < 0.3:
        del good["query_ids"]
        good["group_sizes"] = np.array(tables.SIZES)
    if draw.random() < 0.3:
        good["query_weights"] = np.arange(1.0, 9.0)
    if draw.random() < 0.3:
        good["subtopics"] = np.stack([rows["label"], rows["price"] % 2], axis=1)
    metrics = draw.sample(MORE_METRICS, 2) if draw.random() < 0.3 else METRICS
    given, same = tables.changed_arrays(good, draw)
    with_metrics = metrics == METRICS
    compare_answers(
        lambda values: every_form(ltr_harness.evaluate(**values, metrics=metrics)),
        good,
        given,
        same and with_metrics,
    )


def dataset(found: ltr_harness.RankingDataset) -> Any:
    repr(found)
    labels, features = as_python(found.labels), as_python(found.features)
    attributes = {name: [str(value) for value in values] for name, values in found.query_attributes.items()}
    ids = [str(value) for value in found.groups.ids]
    return [ids, found.groups.sizes.tolist(), labels, features, attributes, found.feature_names]


def from_arrays(draw: random.Random) -> None:
    rows = arrays()
    good = {
        "features": np.stack([rows["score"], rows["other"], rows["price"].astype(float)], axis=1),
        "labels": rows["label"],
        "query_ids": rows["query_id"],
    }
    optional = {
        "weights": rows["weight"],
        "positions": rows["rank"],
        "document_ids": rows["document_id"],
        "retrieved": rows["retrieved"],
        "subtopics": np.stack([rows["label"], rows["price"] % 2], axis=1),
    }
    good |= {name: values for name, values in optional.items() if draw.random() < 0.3}
    given, same = tables.changed_arrays(good, draw)
    if draw.random() < 0.1:
        from scipy import sparse

        given["features"], same = draw.choice([sparse.csr_matrix, sparse.coo_array])(good["features"]), False
    compare_answers(lambda values: dataset(ltr_harness.from_arrays(**values)), good, given, same)


def judgments(draw: random.Random) -> None:
    rows = arrays()
    good = {
        "ids": rows["query_id"],
        "labels": rows["label"],
        "scores": rows["score"],
        "documents": rows["document_id"],
    }
    given, same = tables.changed_arrays(good, draw)

    def call(values: Mapping[str, Any]) -> Any:
        groups, _ = ltr_harness.QueryGroups.from_ids(values["ids"])
        judged = ltr_harness.Judgments.checked(values["labels"], groups, document_ids=values["documents"])
        return as_python(ltr_harness.bind(METRICS, judged).per_query(values["scores"]))

    compare_answers(call, good, given, same)


def from_frame(draw: random.Random) -> None:
    roles: dict[str, Any] = {"features": ["score", "other", "price"]}
    optional: dict[str, Any] = {
        "features": None,
        "categorical": ["colour"],
        "weight": draw.choice(["weight", {"half_life": "2 days", "by": "day"}]),
        "position": "rank",
        "document_id": "document_id",
        "retrieved": "retrieved",
        "attributes": draw.choice([["day"], ["day", "weight"]]),
        "subtopics": ["price", "judged"],
        "label": draw.choice(["label", "price"]),
        "query": draw.choice(["query_id", "day", ["query_id", "day"]]),
        "unjudged": -1,
        "regroup": True,
        "beyond_float32": draw.choice(["clip", "missing"]),
        "grades": {0: 0, 1: 1, 2: 2, 3: 3, 4: 3},
    }
    roles |= {name: value for name, value in optional.items() if draw.random() < 0.2}
    if draw.random() < 0.1:
        roles |= {"user": "query_id", "timestamp": "day", "query": "session"}
    # without roles given, types decide which columns are features
    good = tables.rows()
    table, same_columns = tables.changed_table(good, draw)
    frame, same_frame = tables.frame_of(table, draw)
    same = same_columns and same_frame and set(roles) <= {"features", "position", "document_id"}
    compare_answers(
        lambda data: dataset(ltr_harness.from_frame(data, **roles)),
        good,
        frame,
        same and roles["features"] is not None,
    )


def per_query(draw: random.Random) -> None:
    named = {role: name for role, name in COLUMNS.items() if draw.random() < 0.4}

    def call(data: Any) -> Any:
        found = arrow.per_query(data, METRICS, named)
        merged = arrow.merge([found])
        ids = merged["query_id"].cast(pa.string()).to_pylist()
        return [as_python(merged.drop_columns(["query_id"])), ids, arrow.means(found)]

    with_frame(tables.rows(), call, draw)


def per_query_of_batches(draw: random.Random) -> None:
    good = tables.rows()
    table, same = tables.changed_table(good, draw)
    rows = draw.choice([1, 2, 5, 100])

    def call(data: Any) -> Any:
        try:
            batches = data.to_batches(max_chunksize=rows)
        except pa.ArrowException:  # some columns have none
            return None
        return as_python(arrow.merge(arrow.per_query_of(batches, METRICS)).drop_columns(["query_id"]))

    compare_answers(call, good, table, same)


def stream(draw: random.Random) -> None:
    named = {role: name for role, name in COLUMNS.items() if draw.random() < 0.3}
    sample = draw.choice([None, None, 4])

    def call(data: Any) -> Any:
        found = evaluate_stream(data, METRICS, ["score", "other"], named, sample=sample)
        return as_python(found.means)

    with_frame(tables.rows(), call, draw)


def stream_of_a_file(draw: random.Random) -> None:
    """A file in the forms of other tools, in the folder of this process."""
    good = tables.rows()
    table, same = tables.changed_table(good, draw)
    kind = draw.choice(["parquet", "arrow", "feather", "csv", "jsonl"])
    name = f"rows.{kind}"
    try:
        write_table(table, name, draw)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, OSError):  # the format has no such type
        return
    if kind in ("csv", "jsonl"):  # which keep no types
        same = False
    compare_answers(lambda data: as_python(evaluate_stream(data, METRICS, "score").means), good, name, same)


def write_table(table: pa.Table, name: str, draw: random.Random) -> None:
    from pyarrow import csv, feather, ipc, parquet

    match Path(name).suffix:
        case ".parquet":
            parquet.write_table(table, name, row_group_size=draw.choice([1, 7, 100]))
        case ".feather":
            feather.write_feather(table, name)
        case ".csv":
            csv.write_csv(table, name)
        case ".jsonl":
            # not by pandas, which crashes on some values
            lines = (json.dumps(row, default=str) + "\n" for row in table.to_pylist())
            Path(name).write_text("".join(lines))
        case _:
            with ipc.new_file(name, table.schema) as file:
                file.write_table(table)


def runs(draw: random.Random) -> None:
    rows = tables.rows()
    qrels = rows.select(["query_id", "document_id", "label"]).rename_columns(
        ["query_id", "doc_id", "relevance"]
    )
    run = rows.select(["query_id", "document_id", "score"]).rename_columns(["query_id", "doc_id", "score"])
    if draw.random() < 0.5:
        with_frame(qrels, lambda data: described_runs(evaluate_runs(data, {"a": run}, METRICS)), draw)
    else:
        with_frame(run, lambda data: described_runs(evaluate_runs(qrels, {"a": data}, METRICS)), draw)


def described_runs(evaluations: Any) -> Any:
    repr(evaluations)
    evaluations.frame()
    return {name: as_python(dict(evaluation.means)) for name, evaluation in evaluations.items()}


def compared(draw: random.Random) -> None:
    good = tables.per_query()
    other = good.set_column(1, "ndcg@10", pa.array(np.linspace(0, 1, 12)))

    def call(data: Any) -> Any:
        found = compare({"a": other, "b": data})
        str(found)
        found.frame()
        return as_python([found.paired("b").p, *found.metrics])

    with_frame(good, call, draw)


def agreement(draw: random.Random) -> None:
    options = draw.choice([{}, {}, {"metrics": ["map"]}, {"tested_if": "map > 0.01"}, {"confidence": 0.8}])

    def call(data: Any) -> Any:
        found = ltr_harness.agreement(data, **options)
        return [str(found), as_python([metric.naive for metric in found.metrics])]

    with_frame(tables.experiments(), call, draw)


CONFIGS: list[dict[str, Any]] = [
    {
        "columns": {"query_id": "query_id", "rank": "rank"},
        "relevance": {"mode": "label", "label": "label", "max_grade": 4},
    },
    {
        "columns": {
            "query_id": "query_id",
            "item_id": "document_id",
            "rank": "rank",
            "timestamp": "day",
            "score": "score",
            "segments": ["colour"],
            "features": ["price", "other"],
        },
        "relevance": {"mode": "label", "label": "label", "max_grade": 4},
        "windows": {"size": "1d", "min_queries": 1},
        "slices": {"min_queries": 1},
    },
]


def monitored(draw: random.Random) -> None:
    config = {**draw.choice(CONFIGS), "metrics": ["ndcg@3", "mrr"]}
    baseline = tables.rows() if draw.random() < 0.3 else None

    def call(data: Any) -> Any:
        found = monitor(config, log=data, baseline=baseline)
        str(found)
        return [as_python(window.means) for window in found.windows]

    with_frame(tables.rows(), call, draw)


def times(draw: random.Random) -> None:
    """A column of times as an attribute, in hold-outs, folds and weights by age."""
    good = tables.rows().select(["query_id", "label", "score", "day"])
    values = good["day"].to_pylist()
    if draw.random() < 0.5:
        forms = tables.SAME[type(values[0])]
        column, same = forms[draw.choice(sorted(forms))](values, draw), True
    else:
        column, same = tables.other_column(values, draw), False
    frame, same_frame = tables.frame_of(good.set_column(3, "day", column), draw)
    use = draw.randrange(3)
    zone = draw.choice(["UTC", "Europe/Berlin"])

    def call(data: Any) -> Any:
        if use == 0:
            weight = {"half_life": "3 days", "by": "day"}
            return as_python(
                ltr_harness.from_frame(data, features=["score"], weight=weight).judgments.query_weights
            )
        found = ltr_harness.from_frame(data, features=["score"], attributes=["day"])
        moments = found.query_attributes["day"]
        if use == 1:
            return as_python(divided_by_time(found.groups, {"valid": 0.2, "test": 0.2}, moments, "day"))
        return as_python(days_of(moments, "day", zone, found.groups))

    compare_answers(call, good, frame, same and same_frame)


class FirstFeature:
    """An estimator as scikit-learn calls it."""

    def predict(self, rows: Any) -> Any:
        return np.asarray(rows)[:, 0]


def sklearn(draw: random.Random) -> None:
    rows = arrays()
    good = {"y": rows["label"], "qid": rows["query_id"]}
    features = np.stack([rows["score"], rows["other"]], axis=1)
    given, same = tables.changed_arrays(good, draw)

    def call(values: Mapping[str, Any]) -> Any:
        folds = [as_python(test) for _, test in QueryKFold(2).split(features, groups=values["qid"])]
        return [folds, as_python(scorer("ndcg@3")(FirstFeature(), features, values["y"], qid=values["qid"]))]

    compare_answers(call, good, given, same)


CALLS: dict[str, Callable[[random.Random], None]] = {
    "evaluate()": evaluate,
    "from_arrays()": from_arrays,
    "Judgments()": judgments,
    "from_frame()": from_frame,
    "per_query()": per_query,
    "per_query_of()": per_query_of_batches,
    "evaluate_stream()": stream,
    "evaluate_stream(file)": stream_of_a_file,
    "evaluate_runs()": runs,
    "compare()": compared,
    "agreement()": agreement,
    "monitor()": monitored,
    "times()": times,
    "scorer()": sklearn,
}
