"""No public call looks at its caller's arrays again, and what it returns can be written to by nobody, or harms nobody.

Each case calls a public name with arrays of its own, overwrites these arrays and whatever arrays and frames the result
leads to, and reads the result's numbers. They are those of a twin that nobody touched.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ltr_harness import (
    Judgments,
    Metric,
    QueryGroups,
    RankingDataset,
    bind,
    compare,
    evaluate,
    evaluate_runs,
    from_arrays,
    from_frame,
    load_run,
    parse_metric,
)
from ltr_harness.arrow import means, merge, per_query, per_query_of
from ltr_harness.comparison import PairedMoments, evaluate_stream
from ltr_harness.data.arrays import keep_array
from ltr_harness.metrics import MetricValues, SwapChange, function_metric, tie_audit
from tests.packaging.test_public import LISTED, load_module

RUN = next(Path(__file__).parents[1].glob("stored/v1/runs/small/lgbm--all--s1--*"))
METRICS = ["ndcg@3", "map", "mean_label@2"]
Given = Mapping[str, Any]


def arrays() -> dict[str, Any]:
    """Return the columns of rows, as arrays that can be written to."""
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 4, 40).astype(np.float64)
    labels[::8] = 1
    retrieved = rng.random(40) < 0.7
    retrieved[::8] = True
    return {
        "labels": labels,
        "scores": rng.normal(size=40),
        "group_sizes": np.full(5, 8),
        "query_ids": np.repeat(np.array(["a", "b", "c", "d", "e"]), 8),
        "query_weights": rng.random(5) + 0.5,
        "weights": np.repeat(rng.random(5) + 0.5, 8) + rng.random(40),
        "document_ids": np.array([f"d{row}" for row in range(40)]),
        "judged": np.ones(40, dtype=bool),
        "retrieved": retrieved,
        "subtopics": rng.integers(0, 2, (40, 3)).astype(np.float64),
        "positions": np.tile(np.arange(8), 5),
        "features": rng.normal(size=(40, 3)).astype(np.float32),
        "day": np.repeat(np.arange(5.0), 8),
    }


def evaluate_rows(given: Given, ids: str, **others: Any) -> Any:
    names = (ids, "query_weights", "document_ids", "judged", "retrieved", "subtopics")
    return evaluate(
        given["labels"], given["scores"], METRICS, **{name: given[name] for name in names}, **others
    )


def of_evaluation(found: Any) -> Any:
    some = [found.headroom(metric) for metric in METRICS]
    return (
        dict(found.means),
        [found[name].per_query.tolist() for name in METRICS],
        [None if one is None else [values.tolist() for values in one.columns("").values()] for one in some],
        [str(found.mean_headroom(metric)) for metric in METRICS],
        (found.judgments_fingerprint, found.truth_fingerprint),
        found.frame().to_dict(),
        repr(found),
    )


def of_dataset(found: RankingDataset) -> Any:
    weights = found.weights_of_rows()
    return (
        found.features.tolist(),
        of_judgments(found.judgments),
        None if found.positions is None else found.positions.tolist(),
        {name: values.tolist() for name, values in found.query_attributes.items()},
        None if weights is None else weights.tolist(),
        found.take(np.array([1, 2])).features.tolist(),
        None if found.half_lives is None else found.half_lives.tolist(),
    )


def of_judgments(found: Judgments) -> Any:
    ids = found.document_ids
    bound = bind(METRICS, found)
    scores = np.arange(float(found.groups.n_rows)) % 7
    return (
        found.labels.tolist(),
        found.groups.ids.tolist(),
        found.groups.sizes.tolist(),
        found.pool.labels.tolist(),
        found.n_relevant.tolist(),
        found.pool_rows.tolist(),
        found.groups.has_rows.tolist(),
        None if ids is None else ids.tolist(),
        np.nan_to_num(bound.per_query(scores)).tolist(),
        bound.means(scores).tolist(),
    )


def of_groups(found: QueryGroups) -> Any:
    return found.boundaries.tolist(), found.ids.tolist(), found.has_rows.tolist(), found.n_rows


def of_comparison(found: Any) -> Any:
    pairs = [(one.model, one.difference, one.p, one.ci_low) for one in found.all_pairs()]
    kept_values = [{name: rows.tolist() for name, rows in one.values.items()} for one in found.systems]
    return found.frame().to_dict(), pairs, kept_values, found.headline.text, found.table.to_dict()


def frame(given: Given) -> pd.DataFrame:
    columns = ("query_ids", "labels", "weights", "document_ids", "retrieved", "positions", "day")
    table = pd.DataFrame({name: given[name] for name in columns}, copy=False)
    for number in range(3):
        table[f"f{number}"] = given["features"][:, number]
    return table


def read_frame(table: Any) -> RankingDataset:
    return from_frame(
        table,
        query="query_ids",
        label="labels",
        weight="weights",
        document_id="document_ids",
        retrieved="retrieved",
        position="positions",
        attributes=["day"],
    )


def values_of(given: Given) -> dict[str, pd.DataFrame]:
    """Tables of two models' values by query."""
    first = np.abs(np.sin(np.arange(40.0)))
    return {
        name: pd.DataFrame({"query_id": given["document_ids"], "mrr": values, "part": given["day"]})
        for name, values in {"one": first, "other": np.sqrt(first)}.items()
    }


def batch(given: Given) -> pa.Table:
    """Without a copy of the arrays, as Arrow does wherever it can."""
    columns = {"query_id": given["query_ids"], "label": given["labels"], "score": given["scores"]}
    return pa.table({**columns, "day": given["day"]})


def evaluate_spying(given: Given) -> Any:
    """An evaluation by a function that keeps what it is given."""
    seen: list[Any] = []

    def first_label(labels: Any, scores: Any) -> float:
        seen.extend((labels, scores))
        return float(labels[0])

    metric = function_metric(first_label, higher_is_better=True)
    return evaluate(given["labels"], given["scores"], [metric], group_sizes=given["group_sizes"]), seen


def bound(given: Given) -> Any:
    binding = bind(METRICS, Judgments.checked(given["labels"], QueryGroups.from_sizes(given["group_sizes"])))
    return binding, binding.per_query(given["scores"])


def of_binding(found: Any) -> Any:
    return found[0].per_query(np.arange(40.0) % 5).tolist(), found[0].judgments.labels.tolist()


def groups_of(given: Given) -> QueryGroups:
    return QueryGroups.from_sizes(given["group_sizes"])


def two_runs() -> list[Any]:
    return [load_run(path) for path in sorted(RUN.parent.glob("*--all--s1--*"))]


def of_run(found: Any) -> Any:
    run = found[0]
    tables = [run.per_query, run.test_scores, run.history, run.importance]
    return (
        [table.to_dict() for table in tables],
        of_judgments(run.judgments),
        of_comparison(compare(found, ledger=False)),
    )


Case = tuple[
    str, Callable[[Given], Any], Callable[[Any], Any]
]  # the public name, the call, what is read of its result
CASES: dict[str, Case] = {
    "evaluate by ids": ("evaluate", lambda g: evaluate_rows(g, "query_ids"), of_evaluation),
    "evaluate by sizes": ("Evaluation", lambda g: evaluate_rows(g, "group_sizes"), of_evaluation),
    "arrays": (
        "from_arrays",
        lambda g: from_arrays(
            g["features"],
            g["labels"],
            group_sizes=g["group_sizes"],
            weights=g["weights"],
            positions=g["positions"],
            document_ids=g["document_ids"],
            attributes={"day": g["day"]},
            subtopics=g["subtopics"],
        ),
        of_dataset,
    ),
    "read-only view of arrays": (
        "from_arrays",
        lambda g: from_arrays(read_only(g["features"]), g["labels"], group_sizes=g["group_sizes"]),
        of_dataset,
    ),
    "retrieved arrays": (
        "from_arrays",
        lambda g: from_arrays(
            g["features"],
            g["labels"],
            query_ids=g["query_ids"],
            document_ids=g["document_ids"],
            retrieved=g["retrieved"],
        ),
        of_dataset,
    ),
    "a frame": ("from_frame", lambda g: read_frame(frame(g)), of_dataset),
    "a frame of Arrow": ("from_frame", lambda g: read_frame(pa.Table.from_pandas(frame(g))), of_dataset),
    "RankingDataset": (
        "RankingDataset",
        lambda g: RankingDataset(
            g["features"],
            Judgments(g["labels"], groups_of(g)),
            ("a", "b", "c"),
            g["positions"],
            {"day": g["day"][::8]},
            row_weights=g["weights"],
            half_lives=g["day"],
        ),
        of_dataset,
    ),
    "Judgments": (
        "Judgments",
        lambda g: Judgments(g["labels"], groups_of(g), g["query_weights"], g["document_ids"], g["judged"]),
        of_judgments,
    ),
    "Judgments.checked": (
        "Judgments",
        lambda g: Judgments.checked(
            g["labels"],
            groups_of(g),
            query_weights=g["query_weights"],
            document_ids=g["document_ids"],
            judged=g["judged"],
            retrieved=g["retrieved"],
        ),
        of_judgments,
    ),
    "copied Judgments": (
        "Judgments",
        lambda g: pickle.loads(pickle.dumps(copy.deepcopy(Judgments.checked(g["labels"], groups_of(g))))),
        of_judgments,
    ),
    "QueryGroups": (
        "QueryGroups",
        lambda g: QueryGroups(np.append(0, np.cumsum(g["group_sizes"])), g["query_ids"][::8]),
        of_groups,
    ),
    "QueryGroups.from_sizes": (
        "QueryGroups",
        lambda g: QueryGroups.from_sizes(g["group_sizes"], g["query_ids"][::8]),
        of_groups,
    ),
    "QueryGroups.from_ids": ("QueryGroups", lambda g: QueryGroups.from_ids(g["query_ids"])[0], of_groups),
    "QueryGroups.from_counts": (
        "QueryGroups",
        lambda g: QueryGroups.from_counts(g["group_sizes"], g["query_ids"][::8]),
        of_groups,
    ),
    "bind": ("bind", bound, of_binding),
    "Binding": ("Binding", bound, of_binding),
    "a function": (
        "function_metric",
        evaluate_spying,
        lambda found: found[0][found[0].metrics[0]].per_query.tolist(),
    ),
    "Metric": (
        "Metric",
        lambda g: parse_metric("ndcg@3").explain(g["labels"][:8], g["scores"][:8]),
        str,
    ),
    "MetricValues": (
        "MetricValues",
        lambda g: MetricValues(parse_metric("mrr"), g["query_weights"], 0.5, 5, 0),
        lambda found: found.per_query.tolist(),
    ),
    "SwapChange": (
        "SwapChange",
        lambda g: SwapChange(form="sum", worth=g["labels"], scale=g["query_weights"], rank_worth=g["day"]),
        lambda found: [found.worth.tolist(), found.scale.tolist(), found.rank_worth.tolist()],
    ),
    "tie_audit": (
        "tie_audit",
        lambda g: tie_audit(
            "mrr", Judgments.checked(g["labels"], groups_of(g)), np.round(g["scores"]), g["retrieved"]
        ),
        lambda found: [found.low.tolist(), found.high.tolist(), str(found)],
    ),
    "TieAudit": (
        "TieAudit",
        lambda g: tie_audit("mrr", Judgments.checked(g["labels"], groups_of(g)), g["scores"]),
        lambda found: [found.low.tolist(), found.high.tolist(), str(found)],
    ),
    "compare tables": ("compare", lambda g: compare(values_of(g), ledger=False), of_comparison),
    "compare evaluations": (
        "compare",
        lambda g: compare(
            {"one": evaluate_rows(g, "query_ids"), "other": evaluate_rows(g, "query_ids")}, ledger=False
        ),
        of_comparison,
    ),
    "Comparison": ("Comparison", lambda g: compare(values_of(g), ledger=False, unit="part"), of_comparison),
    "Run": ("Run", lambda g: two_runs(), of_run),
    "load_run": ("load_run", lambda g: two_runs(), of_run),
    "evaluate_runs": (
        "evaluate_runs",
        lambda g: evaluate_runs(
            pd.DataFrame({"query_id": g["query_ids"], "doc_id": g["document_ids"], "label": g["labels"]}),
            pd.DataFrame({"query_id": g["query_ids"], "doc_id": g["document_ids"], "score": g["scores"]}),
            METRICS,
        ),
        lambda found: [of_evaluation(one)[:3] for one in found.values()],
    ),
    "EvaluatedRuns": (
        "EvaluatedRuns",
        lambda g: evaluate_runs(
            {"a": dict(zip(g["document_ids"].tolist(), g["labels"].tolist(), strict=True))},
            {"a": dict(zip(g["document_ids"].tolist(), g["scores"].tolist(), strict=True))},
            METRICS,
        ),
        lambda found: [of_evaluation(one)[:3] for one in found.values()],
    ),
    "arrow.per_query": ("per_query", lambda g: per_query(batch(g), METRICS), pa.RecordBatch.to_pydict),
    "arrow.per_query_of": (
        "per_query_of",
        lambda g: list(per_query_of(batch(g).to_batches(), METRICS)),
        lambda found: [one.to_pydict() for one in found],
    ),
    "arrow.merge": ("merge", lambda g: merge([evaluate_rows(g, "query_ids")]), pa.Table.to_pydict),
    "arrow.means": ("means", lambda g: per_query(batch(g), METRICS), means),
    "PairedMoments": (
        "PairedMoments",
        lambda g: PairedMoments.of({name: per_query(batch(g), METRICS) for name in ("one", "other")}),
        lambda found: [(found + found).mean.tolist(), found.squares.tolist(), found.n.tolist()],
    ),
    "evaluate_stream": (
        "evaluate_stream",
        lambda g: evaluate_stream(batch(g), METRICS, scores=["score", "day"], sample=3),
        lambda found: [found.means, found.estimate("map", "score"), found.estimate("map", "score", "day")],
    ),
    "StreamEvaluation": (
        "StreamEvaluation",
        lambda g: evaluate_stream(batch(g), METRICS, scores=["score"]),
        lambda found: found.means,
    ),
}


def read_only(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As pandas hands over its columns: whoever owns the memory still writes to it."""
    view = values[:]
    view.flags.writeable = False
    return view


def overwrite(values: Any) -> None:
    """Other values in place, where they can be written."""
    if isinstance(values, pd.DataFrame):
        for name in values.columns:
            values.loc[:, name] = values[name].to_numpy()[::-1].copy()
            with_numbers = values[name].dtype.kind in "iuf"
            if with_numbers:
                values.loc[:, name] = values[name] * 0 + 1
    elif isinstance(values, np.ndarray) and values.flags.writeable:
        values[...] = values.reshape(-1)[-1:].repeat(values.size).reshape(values.shape)


def reachable_arrays(value: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """The arrays and frames that an object leads to, by public attributes and properties."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray | pd.DataFrame):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from reachable_arrays(one, seen)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from reachable_arrays(one, seen)
    elif type(value).__module__.startswith("ltr_harness") and not isinstance(value, Metric):
        own = list(getattr(value, "__dict__", {}))
        own += [name for name, one in inspect.getmembers_static(type(value)) if isinstance(one, property)]
        for name in own:
            if not name.startswith("_"):
                yield from reachable_arrays(getattr(value, name), seen)


@pytest.mark.parametrize("name", CASES)
def test_arrays_may_be_overwritten_after_the_call(name: str) -> None:
    _, call, read = CASES[name]
    expected = read(call(arrays()))
    given = arrays()
    found = call(given)
    for one in given.values():
        overwrite(one)
    assert not np.array_equal(given["scores"], arrays()["scores"])
    np.testing.assert_equal(read(found), expected, "the caller's arrays were looked at again")
    for one in list(reachable_arrays(found, {})):
        overwrite(one)
    np.testing.assert_equal(read(found), expected, "what the call returned was written to")


_OF_ARRAYS = re.compile(r"ArrayLike|NDArray|ndarray|Floats|Ints|Bools|DataFrame|RecordBatch|pa\.Table")
WITHOUT_A_CASE = {
    **dict.fromkeys(
        ("Difference", "Paired", "SliceResult", "Summary"), "hold numbers; `frame` makes a new table"
    ),
    "best_round": "takes a model and a pool of CatBoost, returns numbers",
    "feval": "LightGBM hands over its own arrays, the results are numbers",
    "eval_metric": "likewise",
    "custom_metric": "XGBoost hands over its own arrays, the results are numbers",
    "objective": "the libraries hand over their own arrays and take the gradients",
    "Watch": "likewise; its curve is numbers",
    "XENDCG": "likewise",
    "judged": "takes the results of per_query, returns numbers",
    "scorer": "returns a number; its judgments are Judgments",
    "QueryKFold": "keeps nothing",
    "cumulated": "takes the Ranking that a metric is given, and keeps nothing",
    "Ranker": "a base class",
    "StoredRanker": "a base class",
    "FittedModel": "a base class",
    "FieldsModel": "a base class",
    "ModelFormat": "a base class",
    "Training": "holds data sets",
    "TrainingFacts": "holds judgments",
    "MetricSuite": "makes its own arrays",
    "RankerSuite": "makes its own arrays",
}


def takes_arrays(value: Any) -> bool:
    """Return whether the signature of a callable, or of a class's public method or property, has arrays or tables."""
    named = inspect.getmembers_static(value) if isinstance(value, type) else []
    parts = [value, *(one for name, one in named if not name.startswith("_"))]
    for part in parts:
        part = getattr(part, "fget", getattr(part, "func", getattr(part, "__func__", part)))
        try:
            if _OF_ARRAYS.search(str(inspect.signature(part))):
                return True
        except (TypeError, ValueError):
            pass
    return False


@pytest.mark.parametrize("module", sorted(LISTED))
def test_every_public_name_with_arrays_has_a_case(module: str) -> None:
    offered = load_module(module)
    values = {name: getattr(offered, name) for name in LISTED[module] - {"__version__"}}
    metrics = {name for name, one in values.items() if isinstance(one, type) and issubclass(one, Metric)}
    with_arrays = {name for name, one in values.items() if callable(one) and takes_arrays(one)} - metrics
    assert with_arrays - {name for name, _, _ in CASES.values()} <= WITHOUT_A_CASE.keys()


def test_what_nobody_can_write_to_is_not_copied(tmp_path: Path) -> None:
    stored = tmp_path / "features.npy"
    np.save(stored, np.eye(3))
    mapped = np.asarray(np.load(stored, mmap_mode="r"))
    own = np.eye(3)
    own.flags.writeable = False
    for values in (mapped, mapped[1:], own, own[:, 1:]):
        assert keep_array(values) is values
    for values in (np.eye(3), read_only(np.eye(3))):
        assert keep_array(values) is not values
        assert not keep_array(values).flags.writeable
