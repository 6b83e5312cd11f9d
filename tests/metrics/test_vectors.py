"""Cases on which two or more independent tools agree, one metric and one convention at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate, parse_metric
from ltr_harness.errors import MetricError

from ..conftest import named_case

# the file's words in ours
WORDS = {
    "gain": {"exp2": "exp", "linear": "linear"},
    "ties": {"index": "stable", "mean": "expected", "worst": "worst", "best": "best"},
    "denominator": {
        "min(R,k)": "min_rk",
        "R": "total",
        "hits": "retrieved",
        "k": "k",
        "min(k,n)": "min_kn",
    },
}
NAMES = {"ap": "map", "rr": "mrr"}


def metric_of(case: dict[str, Any], labels: list[float]) -> Any:
    params = dict(case["params"])
    fields: dict[str, Any] = {"metric": NAMES.get(case["metric"], case["metric"]), "k": case["k"]}
    fields["empty"] = "one" if params.pop("no_relevant", 0.0) == 1.0 else "zero"
    fields["ties"] = WORDS["ties"][params.pop("ties")]
    params.pop("aggregate", None)
    if case["metric"] == "ap":
        fields["denominator"] = "total"  # where the file says nothing
    if "gain" in params:
        gain = params.pop("gain")
        fields["gain"] = WORDS["gain"][gain] if isinstance(gain, str) else gain
    if "denominator" in params:
        fields["denominator"] = WORDS["denominator"][params.pop("denominator")]
    if "rel_threshold" in params:
        fields["relevant"] = params.pop("rel_threshold")
    if "gmax" in params:
        scale = params.pop("gmax")
        fields["max_grade"] = max(labels) if scale == "query" else scale
        fields["graded"] = True
        if case["metric"] == "err":
            fields.pop("graded")
    if "p" in params:
        fields["p"] = params.pop("p")
    assert not params, f"words of the file that this test does not know: {params}"
    return parse_metric(fields)


def test_vectors(shared_data: Path) -> None:
    for case in json.loads((shared_data / "vectors.json").read_text()):
        with named_case(case["id"]):
            check(case)


def check(case: dict[str, Any]) -> None:
    labels, scores = np.concatenate(case["labels"]), np.concatenate(case["scores"])
    sizes = [len(query) for query in case["labels"]]
    if case.get("expected_error"):
        # a gain that needs integer labels, and one that ends at grade 30
        gain: Any = "exp" if case["params"]["gain"] == "exp2 table" else [2**g - 1 for g in range(31)]
        with pytest.raises(MetricError, match=r"needs integer labels|gain table ends at grade 30"):
            evaluate(
                labels, scores, group_sizes=sizes, metrics=[parse_metric({"metric": "ndcg", "gain": gain})]
            )
        return
    values = []
    for query_labels, query_scores in zip(case["labels"], case["scores"], strict=True):
        metric = metric_of(case, query_labels)
        values += list(
            evaluate(query_labels, query_scores, group_sizes=[len(query_labels)], metrics=[metric])[
                metric
            ].per_query
        )
    np.testing.assert_allclose(values, case["expected"], rtol=0, atol=1e-12)
    if case["params"].get("gmax") == "query":
        return  # no tool of sense computes it over several queries, nor can ours be asked to
    metric = metric_of(case, labels.tolist())
    together = evaluate(
        labels, scores, group_sizes=sizes, metrics=[metric], query_weights=case.get("query_weights")
    )
    np.testing.assert_array_equal(together[metric].per_query, values)
    if "expected_mean" in case:
        assert together[metric].mean == pytest.approx(case["expected_mean"], abs=1e-12)
