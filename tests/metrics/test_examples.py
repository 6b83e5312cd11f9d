"""Small examples of internals, which a reader can check by hand."""

import numpy as np

from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics import MRR, NDCG
from ltr_harness.metrics.core.cautions import cautions
from ltr_harness.metrics.core.gains import discounts, table_text
from ltr_harness.metrics.core.grammar import MetricName, as_list, metric_named, tool_of_name, with_tool
from ltr_harness.metrics.core.headroom import Headroom, headroom
from ltr_harness.metrics.core.presets import conventions, own_name, spelling
from ltr_harness.metrics.core.softmax import log_softmax
from ltr_harness.metrics.table import built_in


def test_cautions() -> None:
    judgments = Judgments.checked([1, 0, 1, 0], QueryGroups.from_sizes([2, 2]))
    assert [caution.kind for caution in cautions([NDCG(k=10)], judgments)] == ["large-cutoff"]


def test_table_text() -> None:
    assert table_text({0: 0, 1: 1, 2: 5}, "gain", ["exp"], 0) == "0_1_5"


def test_discounts() -> None:
    assert discounts("log2", 3, "ndcg").round(4).tolist() == [1.0, 0.6309, 0.5]


def test_metric_name_of() -> None:
    assert repr(MetricName.of("err(max_grade=4)@10")) == (
        "MetricName(base='err(max_grade=4)', name='err', parameters=frozenset({'max_grade=4'}), k=10)"
    )
    assert MetricName.of("map").k is None


def test_as_list() -> None:
    assert (as_list("ndcg@10"), as_list(("mrr", "map"))) == (["ndcg@10"], ["mrr", "map"])


def test_metric_named() -> None:
    assert (str(metric_named("ir_measures", "P(rel=2)@5")), str(metric_named("ranx", "hit_rate@10"))) == (
        "precision(empty=zero,relevant=2,score_precision=float32,ties=id)@5",
        "success(empty=zero)@10",
    )


def test_whose() -> None:
    assert (tool_of_name("ndcg_cut_10"), tool_of_name("ndcg(as=lightgbm)@10"), tool_of_name("ndcg@10")) == (
        "trec_eval",
        "lightgbm",
        None,
    )


def test_with_tool() -> None:
    assert (with_tool("ndcg_cut_10"), with_tool("ndcg(as=lightgbm)@10"), with_tool("P@5")) == (
        "ndcg_cut_10 of trec_eval",
        "ndcg(as=lightgbm)@10",
        "P@5",
    )


def test_headroom_little_to_gain() -> None:
    assert str(Headroom(np.array([0.9, 1.0]), np.ones(2), np.ones(2)).little_to_gain("ndcg@10")) == (
        "ndcg@10 of a random order is 0.9500, 95 % of the best that these candidates allow: there i"
        "s little to gain"
    )


def test_headroom() -> None:
    one = headroom(MRR(), Judgments.checked([1, 0, 0], QueryGroups.from_sizes([3])))
    # (1 + 1/2 + 1/3) / 3
    assert (one.random.round(4).tolist(), one.ceiling.tolist()) == ([0.6111], [1.0])


def test_conventions() -> None:
    assert dict(conventions("lightgbm", "ndcg")) == {"ties": "stable", "empty": "one"}


def test_spelling() -> None:
    assert (spelling("ir_measures", "P(rel=2)@5"), spelling("ranx", "hit_rate@10")) == (
        "precision(as=ir_measures,relevant=2)@5",
        "success(as=ranx)@10",
    )


def test_own_name() -> None:
    assert (own_name("ndcg_cut_10"), own_name("P.5")) == (
        ("trec_eval", "ndcg(as=trec_eval)@10"),
        ("trec_eval", "precision(as=trec_eval)@5"),
    )
    assert (own_name("SetP"), own_name("nDCG"), own_name("mrr")) == (
        ("ir_measures", "precision(as=ir_measures)"),
        None,
        None,
    )


def test_log_softmax() -> None:
    assert np.exp(
        log_softmax(np.array([1e300, -1e300, 5.0]), QueryGroups.from_sizes([2, 1]), 1.0)
    ).tolist() == [1.0, 0.0, 1.0]


def test_built_in() -> None:
    assert [built_in(name) for name in ("NDCG", "Hit-Rate", "./my.py:Mine")] == ["ndcg", "success", None]
