"""Each preset against the tool it is named after, run here and now on the same rankings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from ltr_harness import evaluate, evaluate_runs
from ltr_harness.data.arrays import sealed
from ltr_harness.errors import MetricError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.grammar import metric_named
from ltr_harness.metrics.core.presets import TOOLS
from tests.conftest import named_case


@dataclass(frozen=True)
class Rankings:
    """Queries of 1 to 30 rows, a few without relevant documents, with equal scores in most of them or in none."""

    labels: NDArray[np.float64]
    scores: NDArray[np.float64]
    sizes: NDArray[np.int64]
    documents: NDArray[np.str_]

    @property
    def query_of_row(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def split(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        return np.split(rows, np.cumsum(self.sizes)[:-1])

    def keep(self, queries: NDArray[np.bool_]) -> Rankings:
        rows = queries[self.query_of_row]
        return Rankings(self.labels[rows], self.scores[rows], self.sizes[queries], self.documents[rows])

    def per_query(self, metric: str) -> NDArray[np.float64]:
        return evaluate(
            self.labels,
            self.scores,
            group_sizes=self.sizes,
            metrics=[metric],
            document_ids=self.documents,
        )[metric].per_query

    def mean(self, metric: str, query_weights: NDArray[np.float64] | None = None) -> float:
        return evaluate(
            self.labels,
            self.scores,
            group_sizes=self.sizes,
            metrics=[metric],
            query_weights=query_weights,
            document_ids=self.documents,
        )[metric].mean


@cache
def draw(seed: int, ties: bool, max_grade: int = 4) -> Rankings:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 31, 80)
    sizes[:5] = [1, 1, 2, 2, 30]
    n = int(sizes.sum())
    labels = np.minimum(rng.geometric(0.5, n) - 1, max_grade).astype(float)
    empty = rng.random(sizes.size) < 0.15
    labels[np.repeat(empty, sizes)] = 0.0
    assert empty.any()
    # multiples of 1/8 are the same number in float32 and float64
    scores = rng.integers(-8, 9, n) / 8 if ties else rng.permutation(n) / 8 - n / 16
    documents = np.array([f"d{i:04d}" for i in rng.permutation(n)])
    return Rankings(*map(sealed, (labels, scores, sizes, documents)))


SEEDS = [1, 2, 3]


@pytest.fixture(params=[(seed, ties) for seed in SEEDS for ties in (False, True)], ids=str)
def rankings(request: pytest.FixtureRequest) -> Rankings:
    seed, ties = request.param
    return draw(seed, ties)


@pytest.fixture(params=SEEDS)
def untied_rankings(request: pytest.FixtureRequest) -> Rankings:
    return draw(request.param, ties=False)


# LightGBM


def lightgbm_means(
    rankings: Rankings, metric: str, cutoffs: Sequence[int], row_weights: NDArray[np.float64] | None = None
) -> dict[int, float]:
    """Its built-in metric on given scores: a booster without a tree whose start is those scores."""
    import lightgbm as lgb

    data = lgb.Dataset(
        np.arange(rankings.labels.size, dtype=float)[:, None],
        rankings.labels,
        group=rankings.sizes,
        init_score=rankings.scores,
        weight=row_weights,
        params={"verbosity": -1, "min_data_in_bin": 1, "feature_pre_filter": False},
    )
    booster = lgb.Booster(
        {
            "objective": "lambdarank",
            "metric": metric,
            "eval_at": list(cutoffs),
            "verbosity": -1,
            "num_threads": 1,
            "min_data_in_leaf": 1,
        },
        data,
    )
    found = {name: value for _, name, value, _ in booster.eval_train()}
    return {k: found[f"{metric}@{k}"] for k in cutoffs}


@pytest.mark.parametrize("metric", ["ndcg", "map"])
def test_lightgbm(metric: str, rankings: Rankings) -> None:
    for k, value in lightgbm_means(rankings, metric, [1, 3, 5, 10, 40]).items():
        assert rankings.mean(f"{metric}(as=lightgbm)@{k}") == pytest.approx(value, abs=1e-12)


def test_lightgbm_query_weights(rankings: Rankings) -> None:
    """Its map weights every query; its ndcg adds 1, unweighted, for each empty one, so those are left out."""
    weights = np.random.default_rng(0).integers(1, 9, rankings.sizes.size) / 8
    found = lightgbm_means(rankings, "map", [5], np.repeat(weights, rankings.sizes))
    assert rankings.mean("map(as=lightgbm)@5", weights) == pytest.approx(found[5], abs=1e-7)
    judged = ~np.isnan(rankings.per_query("ndcg"))
    full = rankings.keep(judged)
    found = lightgbm_means(full, "ndcg", [5], np.repeat(weights[judged], full.sizes))
    assert full.mean("ndcg(as=lightgbm)@5", weights[judged]) == pytest.approx(found[5], abs=1e-7)


# XGBoost


def xgboost_means(rankings: Rankings, names: Sequence[str], labels: NDArray[np.float64]) -> dict[str, float]:
    import xgboost as xgb

    data = xgb.DMatrix(np.zeros((labels.size, 1)), labels, base_margin=rankings.scores, nthread=1)
    data.set_group(rankings.sizes)
    booster = xgb.Booster(
        {"objective": "rank:ndcg", "eval_metric": list(names), "nthread": 1, "base_score": 0.0}, [data]
    )
    text = booster.eval(data, "set")
    return {
        part.split("-", 1)[1].rpartition(":")[0]: float(part.rpartition(":")[2]) for part in text.split()[1:]
    }


def test_xgboost_ndcg(rankings: Rankings) -> None:
    names = [f"ndcg@{k}" for k in (1, 3, 5, 10, 40)]
    found = xgboost_means(rankings, names, rankings.labels)
    for name in names:
        ours = name.replace("ndcg", "ndcg(as=xgboost)")
        assert rankings.mean(ours) == pytest.approx(found[name], abs=1e-9)
    # the trailing minus counts empty queries as 0
    found = xgboost_means(rankings, ["ndcg@5-"], rankings.labels)
    assert rankings.mean("ndcg(as=xgboost,empty=zero)@5") == pytest.approx(found["ndcg@5-"], abs=1e-9)


@pytest.mark.parametrize(("theirs", "ours"), [("map", "map"), ("pre", "precision")])
def test_xgboost_binary_metrics(theirs: str, ours: str, rankings: Rankings) -> None:
    binary = (rankings.labels >= 2).astype(float)  # it takes no grades here
    names = [f"{theirs}@{k}" for k in (1, 3, 10, 40)]
    found = xgboost_means(rankings, names, binary)
    for name in names:
        k = name.partition("@")[2]
        assert rankings.mean(f"{ours}(as=xgboost,relevant=2)@{k}") == pytest.approx(found[name], abs=1e-9)


def test_xgboost_cannot_tell_close_scores_apart() -> None:
    close = Rankings(np.array([0.0, 1.0]), np.array([1.0, 1.0 + 1e-9]), np.array([2]), np.array(["a", "b"]))
    found = xgboost_means(close, ["ndcg@2"], close.labels)["ndcg@2"]
    assert found == pytest.approx(1 / np.log2(3), abs=1e-9)
    assert close.mean("ndcg(as=xgboost)@2") == pytest.approx(found, abs=1e-9)
    assert close.mean("ndcg(as=lightgbm)@2") == 1.0


# scikit-learn


SOME = pytest.mark.parametrize("most", [8, pytest.param(10**9, marks=pytest.mark.slow, id="all")])
"""Queries of a world that scikit-learn, which is slow, is asked for."""


@SOME
@pytest.mark.long
def test_sklearn(most: int, rankings: Rankings) -> None:
    ranking = pytest.importorskip("sklearn.metrics")
    # it refuses a single row
    rankings = rankings.keep((rankings.sizes > 1) & (np.arange(rankings.sizes.size) < most))
    queries = list(zip(rankings.split(rankings.labels), rankings.split(rankings.scores), strict=True))
    for metric, score in (("ndcg", ranking.ndcg_score), ("dcg", ranking.dcg_score)):
        for k in (1, 3, 10, None):
            found = [score([labels], [scores], k=k) for labels, scores in queries]
            name = f"{metric}(as=sklearn)" + ("" if k is None else f"@{k}")
            np.testing.assert_allclose(rankings.per_query(name), found, rtol=0, atol=1e-12, err_msg=name)


# CatBoost


CATBOOST_OF_GRADES = {
    "NDCG:top=5": "ndcg(as=catboost)@5",
    "NDCG:type=Exp;top=5": "ndcg(as=catboost,gain=exp)@5",
    "NDCG": "ndcg(as=catboost)",
    "DCG:top=5": "dcg(as=catboost)@5",
}
CATBOOST_OF_BINARY_LABELS = {
    "MRR:top=5": "mrr(as=catboost)@5",
    "MAP:top=5": "map(as=catboost)@5",
    "PrecisionAt:top=5": "precision(as=catboost)@5",
    "RecallAt:top=5": "recall(as=catboost)@5",
}


def test_catboost(rankings: Rankings) -> None:
    utils = pytest.importorskip("catboost.utils", reason="needs catboost (the extra `oracles`)")
    group, binary = rankings.query_of_row.tolist(), (rankings.labels >= 1).astype(float)
    for names, labels in ((CATBOOST_OF_GRADES, rankings.labels), (CATBOOST_OF_BINARY_LABELS, binary)):
        for theirs, ours in names.items():
            (found,) = utils.eval_metric(labels.tolist(), rankings.scores.tolist(), theirs, group_id=group)
            assert rankings.mean(ours) == pytest.approx(found, abs=1e-6), ours


def test_catboost_err_of_probabilities(rankings: Rankings) -> None:
    """It takes labels for probabilities, so it gets those that a grade stands for."""
    utils = pytest.importorskip("catboost.utils", reason="needs catboost (the extra `oracles`)")
    chance = (2**rankings.labels - 1) / 16
    group = rankings.query_of_row.tolist()
    (found,) = utils.eval_metric(chance.tolist(), rankings.scores.tolist(), "ERR:top=5", group_id=group)
    assert rankings.mean("err(as=catboost,max_grade=4,stop=exp)@5") == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize("highest", [1.0, 0.8])
def test_catboost_on_labels_up_to_one(highest: float, rankings: Rankings) -> None:
    utils = pytest.importorskip("catboost.utils", reason="needs catboost (the extra `oracles`)")
    labels = rankings.labels / rankings.labels.max() * highest
    group = rankings.query_of_row.tolist()
    for theirs, ours in (
        ("ERR", "err(as=catboost)"),
        ("ERR:top=5", "err(as=catboost)@5"),
        ("PFound", "pfound(as=catboost)"),
        ("PFound:top=5;decay=0.6", "pfound(as=catboost,continuation=0.6)@5"),
    ):
        (found,) = utils.eval_metric(labels.tolist(), rankings.scores.tolist(), theirs, group_id=group)
        assert replace(rankings, labels=labels).mean(ours) == pytest.approx(found, abs=1e-6), ours


def test_catboosts_pfound_takes_labels_for_probabilities(rankings: Rankings) -> None:
    utils = pytest.importorskip("catboost.utils", reason="needs catboost (the extra `oracles`)")
    chance = (2**rankings.labels - 1) / 16
    group = rankings.query_of_row.tolist()
    for theirs, ours in (
        ("PFound", "pfound(as=catboost,max_grade=4,stop=exp)"),
        ("PFound:top=5", "pfound(as=catboost,max_grade=4,stop=exp)@5"),
        ("PFound:top=5;decay=0.6", "pfound(as=catboost,continuation=0.6,max_grade=4,stop=exp)@5"),
    ):
        (found,) = utils.eval_metric(chance.tolist(), rankings.scores.tolist(), theirs, group_id=group)
        assert rankings.mean(ours) == pytest.approx(found, abs=1e-6)


# scipy, scikit-learn and RecBole's definition, query by query


def test_scipys_spearman(untied_rankings: Rankings) -> None:
    """Without equal scores, for which it has another answer: `test_ties.py`."""
    from scipy.stats import spearmanr

    expected = [
        spearmanr(labels, scores).statistic if len(set(labels.tolist())) > 1 else np.nan
        for labels, scores in zip(
            untied_rankings.split(untied_rankings.labels),
            untied_rankings.split(untied_rankings.scores),
            strict=True,
        )
    ]
    np.testing.assert_allclose(untied_rankings.per_query("spearman"), expected, rtol=0, atol=1e-12)


@SOME
@pytest.mark.long
def test_scikit_learns_auc(most: int, rankings: Rankings) -> None:
    from sklearn.metrics import roc_auc_score

    rankings = rankings.keep(np.arange(rankings.sizes.size) < most)
    for relevant in (1, 2):
        expected = [
            roc_auc_score(labels >= relevant, scores)
            if len(set((labels >= relevant).tolist())) > 1
            else np.nan
            for labels, scores in zip(
                rankings.split(rankings.labels), rankings.split(rankings.scores), strict=True
            )
        ]
        values = rankings.per_query(f"gauc(relevant={relevant})")
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)


def test_recboles_gauc(rankings: Rankings) -> None:
    """Its formula, from the mean ranks of a user's positive items; users without a pair left out, weights positives."""
    from scipy.stats import rankdata

    of_user, positives = [], []
    for labels, scores in zip(rankings.split(rankings.labels), rankings.split(rankings.scores), strict=True):
        m, n = int((labels >= 1).sum()), int((labels < 1).sum())
        positives.append(m)
        if m and n:
            ranks = rankdata(-scores)[labels >= 1]
            of_user.append((m * (m + n + 1) - m * (m + 1) / 2 - ranks.sum()) / (m * n))
        else:
            of_user.append(np.nan)
    weights = np.array(positives, dtype=float)
    defined = ~np.isnan(of_user)
    expected = np.average(np.array(of_user)[defined], weights=weights[defined])
    assert rankings.mean("gauc", weights) == pytest.approx(expected, abs=1e-12)


# trec_eval 9, through pytrec_eval and ir-measures


def as_trec(rankings: Rankings) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    queries = [f"q{i:03d}" for i in range(rankings.sizes.size)]
    documents = [part.tolist() for part in rankings.split(rankings.documents)]
    labels = [part.astype(int).tolist() for part in rankings.split(rankings.labels)]
    scores = [part.tolist() for part in rankings.split(rankings.scores)]
    qrels = {q: dict(zip(d, g, strict=True)) for q, d, g in zip(queries, documents, labels, strict=True)}
    run = {q: dict(zip(d, s, strict=True)) for q, d, s in zip(queries, documents, scores, strict=True)}
    return qrels, run


TREC = {
    "ndcg": "ndcg(as=pytrec_eval)",
    "ndcg_cut_5": "ndcg(as=pytrec_eval)@5",
    "map": "map(as=pytrec_eval)",
    "map_cut_5": "map(as=pytrec_eval)@5",
    "recip_rank": "mrr(as=pytrec_eval)",
    "P_5": "precision(as=pytrec_eval)@5",
    "recall_5": "recall(as=pytrec_eval)@5",
    "success_5": "success(as=pytrec_eval)@5",
    "Rprec": "rprec(as=pytrec_eval)",
    "bpref": "bpref(as=pytrec_eval)",
    "set_F": "f1(as=pytrec_eval)",
    "num_rel": "n_relevant(as=pytrec_eval)",
}


def test_pytrec_eval(rankings: Rankings) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs pytrec-eval-terrier (the extra `oracles`)")
    qrels, run = as_trec(rankings)
    measures = {"ndcg", "ndcg_cut.5", "map", "map_cut.5", "recip_rank", "P.5", "recall.5", "success.5"}
    measures |= {"Rprec", "bpref", "set_F", "num_rel"}
    found = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    for theirs, ours in TREC.items():
        expected = [found[query][theirs] for query in qrels]
        np.testing.assert_allclose(rankings.per_query(ours), expected, rtol=0, atol=1e-12, err_msg=ours)


def test_pytrec_eval_cannot_tell_close_scores_apart() -> None:
    """It holds scores as float32, as trec_eval 9 does; version 10 does not: see `test_references.py`."""
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs pytrec-eval-terrier (the extra `oracles`)")
    scores = np.array([1.0 + 1e-9, 1.0, 16777217.0, 16777216.0, 0.1 + 0.2, 0.3])
    labels = np.array([1.0, 0.0, 0.0, 2.0, 1.0, 0.0])
    close = Rankings(labels, scores, np.array([2, 4]), np.array(["a", "b", "a", "b", "c", "d"]))
    qrels, run = as_trec(close)
    found = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "ndcg", "map"}).evaluate(run)
    for theirs, ours in {"recip_rank": "mrr", "ndcg": "ndcg", "map": "map"}.items():
        expected = [found[query][theirs] for query in qrels]
        for tool in ("pytrec_eval", "trec_eval_9", "ir_measures"):
            np.testing.assert_allclose(close.per_query(f"{ours}(as={tool})"), expected, rtol=0, atol=1e-12)
        assert (close.per_query(f"{ours}(as=trec_eval)") != expected).all()


def test_names_of_pytrec_eval(rankings: Rankings) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs pytrec-eval-terrier (the extra `oracles`)")
    qrels, run = as_trec(rankings)
    names = [name.format(k=5) for name in TOOLS["pytrec_eval"]]
    asked = {re.sub(r"_5$", ".5", name) for name in names}
    found = pytrec_eval.RelevanceEvaluator(qrels, asked).evaluate(run)
    for name in names:
        metric = metric_named("pytrec_eval", name)
        assert metric_named("trec_eval_9", name) == metric
        expected = [found[query][name] for query in qrels]
        np.testing.assert_allclose(
            rankings.per_query(str(metric)), expected, rtol=0, atol=1e-12, err_msg=name
        )


def test_names_of_ir_measures(rankings: Rankings) -> None:
    ir_measures = pytest.importorskip("ir_measures", reason="needs ir-measures (the extra `oracles`)")
    qrels, run = as_trec(rankings)
    names = [name.format(k=5) for name in TOOLS["ir_measures"]]
    names += ["AP(rel=2)@10", "RR(rel=3)", "P(rel=2)@3", "Rprec(rel=2)", "Success(rel=2)@3", "SetF(rel=2)"]
    measures = {ir_measures.parse_measure(name): name for name in names}
    assert [str(measure) for measure in measures] == names  # as it prints them
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for value in ir_measures.iter_calc(list(measures), qrels, run):
        found[measures[value.measure]][value.query_id] = value.value
    for name in names:
        metric = metric_named("ir_measures", name)
        expected = [found[name][query] for query in qrels]
        np.testing.assert_allclose(rankings.per_query(str(metric)), expected, rtol=0, atol=1e-9, err_msg=name)


UNKNOWN_NAMES = [
    ("ir_measures", "RR@5"),  # another order of equal scores
    ("ir_measures", "ERR@20"),
    ("ir_measures", "nDCG(rel=2)@5"),
    ("ir_measures", "ndcg@5"),
    ("ir_measures", "nDCG@0"),
    ("pytrec_eval", "P@5"),
    ("pytrec_eval", "gm_map"),
    ("ranx", "rbp.95"),
]


def test_names_that_stand_for_nothing_here() -> None:
    for tool, name in UNKNOWN_NAMES:
        with named_case(name):
            assert metric_named(tool, name) is None


def test_names_of_ranx() -> None:
    for theirs, ours in RANX.items():
        assert metric_named("ranx", theirs) == parse_metric(ours)


# PyTerrier, whose measures are those of ir-measures


def test_pyterrier(rankings: Rankings) -> None:
    pyterrier = pytest.importorskip("pyterrier", reason="needs python-terrier")
    from ir_measures import AP, RR, P, nDCG

    qrels, run = as_trec(rankings)
    names = {
        nDCG @ 5: "ndcg(as=pyterrier)@5",
        AP: "map(as=pyterrier)",
        RR: "mrr(as=pyterrier)",
        P @ 5: "precision(as=pyterrier)@5",
    }
    judged = pd.DataFrame(
        [(q, d, g) for q in qrels for d, g in qrels[q].items()], columns=["qid", "docno", "label"]
    )
    scored = pd.DataFrame(
        [(q, d, s) for q in run for d, s in run[q].items()], columns=["qid", "docno", "score"]
    )
    found = pyterrier.Evaluate(scored, judged, metrics=list(names), perquery=True)
    for measure, ours in names.items():
        expected = [found[query][str(measure)] for query in qrels]
        np.testing.assert_allclose(rankings.per_query(ours), expected, rtol=0, atol=1e-12, err_msg=ours)


# NTCIREVAL, through its port to Python


@pytest.mark.long
@pytest.mark.parametrize("ties", [False, True])
def test_ntcir(ties: bool) -> None:
    metrics = pytest.importorskip("pyNTCIREVAL.metrics", reason="needs pyNTCIREVAL (the extra `oracles`)")
    rankings = draw(4, ties)
    rankings = rankings.keep(
        np.array([part.any() for part in rankings.split(rankings.labels)])
    )  # it divides by 0
    theirs = {
        "ndcg(as=ntcir)@5": lambda counts: metrics.MSnDCG(counts, [1, 2, 3, 4], 5),
        "nerr(as=ntcir,max_grade=4)@5": lambda counts: metrics.nERR(counts, [1, 2, 3, 4], 5),
        "err(as=ntcir,max_grade=4)": lambda counts: metrics.ERR(counts, [1, 2, 3, 4]),
        "q(as=ntcir)": lambda counts: metrics.QMeasure(counts, [1, 2, 3, 4], 1.0),
        "q(as=ntcir)@5": lambda counts: metrics.QMeasure(counts, [1, 2, 3, 4], 1.0, 5),
        "map(as=ntcir)": lambda counts: metrics.AP(counts, [1, 2, 3, 4]),
        "map(as=ntcir)@5": lambda counts: metrics.AP(counts, [1, 2, 3, 4], 5),
        "mrr(as=ntcir)": lambda counts: metrics.RR(),
        "precision(as=ntcir)@5": lambda counts: metrics.Precision(5),
        "success(as=ntcir)@5": lambda counts: metrics.Hit(5),
    }
    expected: dict[str, list[float]] = {name: [] for name in theirs}
    columns = (rankings.labels.astype(int), rankings.scores, rankings.documents)
    for labels, scores, documents in zip(*map(rankings.split, columns), strict=True):
        by_id = np.argsort(documents)[::-1]
        order = by_id[np.argsort(-scores[by_id], kind="stable")]
        ranked = [(str(documents[row]), int(labels[row])) for row in order]
        counts = np.bincount(labels, minlength=5).tolist()
        for name, make in theirs.items():
            expected[name].append(make(counts).compute(ranked))
    for name, values in expected.items():
        np.testing.assert_allclose(rankings.per_query(name), values, rtol=0, atol=1e-12, err_msg=name)


# MLflow


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*is deprecated since:FutureWarning")  # as they have been since 3.4
def test_mlflow(untied_rankings: Rankings) -> None:
    mlflow = pytest.importorskip("mlflow.metrics", reason="needs mlflow (the extra `mlflow`)")
    some = untied_rankings.keep(np.arange(untied_rankings.sizes.size) < 30)
    binary = replace(some, labels=(some.labels >= 1).astype(float))
    qrels, run = as_trec(binary)
    targets = [[document for document, grade in qrels[query].items() if grade] for query in qrels]
    ranked = [sorted(run[query], key=lambda document: -run[query][document]) for query in qrels]
    for k in (1, 5, 40):
        for make, ours in (
            (mlflow.ndcg_at_k, f"ndcg(as=mlflow)@{k}"),
            (mlflow.precision_at_k, f"precision(as=mlflow)@{k}"),
            (mlflow.recall_at_k, f"recall(as=mlflow)@{k}"),
        ):
            found = make(k).eval_fn(pd.Series(ranked), pd.Series(targets)).scores
            np.testing.assert_allclose(binary.per_query(ours), found, rtol=0, atol=1e-12, err_msg=ours)


# torchmetrics, which computes in float32


@pytest.mark.parametrize("k", [1, 5, 40])
def test_torchmetrics(k: int, untied_rankings: Rankings) -> None:
    retrieval = pytest.importorskip(
        "torchmetrics.functional.retrieval", reason="needs torch and torchmetrics"
    )
    import torch

    positive = Rankings(
        untied_rankings.labels,
        untied_rankings.scores - untied_rankings.scores.min() + 1,
        untied_rankings.sizes,
        untied_rankings.documents,
    )
    binary = Rankings(
        (positive.labels >= 1).astype(float), positive.scores, positive.sizes, positive.documents
    )
    for function, ours, given in (
        (retrieval.retrieval_normalized_dcg, f"ndcg(as=torchmetrics)@{k}", positive),
        (retrieval.retrieval_average_precision, f"map(as=torchmetrics)@{k}", binary),
        (retrieval.retrieval_reciprocal_rank, f"mrr(as=torchmetrics)@{k}", binary),
        (retrieval.retrieval_precision, f"precision(as=torchmetrics)@{k}", binary),
        (retrieval.retrieval_recall, f"recall(as=torchmetrics)@{k}", binary),
        (retrieval.retrieval_hit_rate, f"success(as=torchmetrics)@{k}", binary),
        (retrieval.retrieval_r_precision, "rprec(as=torchmetrics)", binary),
    ):
        options = {} if "rprec" in ours else {"top_k": k}
        found = [
            float(function(torch.tensor(scores), torch.tensor(labels.astype(int)), **options))
            for labels, scores in zip(given.split(given.labels), given.split(given.scores), strict=True)
        ]
        np.testing.assert_allclose(given.per_query(ours), found, rtol=0, atol=1e-6, err_msg=ours)


def test_torchmetrics_ndcg_of_equal_scores(rankings: Rankings) -> None:
    retrieval = pytest.importorskip(
        "torchmetrics.functional.retrieval", reason="needs torch and torchmetrics"
    )
    import torch

    found = [
        float(
            retrieval.retrieval_normalized_dcg(
                torch.tensor(scores), torch.tensor(labels.astype(int)), top_k=5
            )
        )
        for labels, scores in zip(
            rankings.split(rankings.labels), rankings.split(rankings.scores), strict=True
        )
    ]
    np.testing.assert_allclose(rankings.per_query("ndcg(as=torchmetrics)@5"), found, rtol=0, atol=1e-6)


# OpenSearch's Search Relevance Workbench: its arithmetic, written anew from its definition, because it is Java


def workbench(grades: Mapping[str, float], listed: Sequence[str], k: int) -> dict[str, float]:
    """NDCG over 2^g - 1 and the ideal of all judgments, precision over min(K, n), AP over all that is relevant."""
    first = [grades.get(document, 0) for document in listed[:k]]
    hits = [grade > 0 for grade in first]
    precisions = [sum(hits[: rank + 1]) / (rank + 1) for rank in range(len(hits)) if hits[rank]]
    dcg, ideal = (
        sum((2**grade - 1) / np.log2(rank + 2) for rank, grade in enumerate(ranked[:k]))
        for ranked in (first, sorted(grades.values(), reverse=True))
    )
    n_relevant = sum(grade > 0 for grade in grades.values())
    return {
        "ndcg": dcg / ideal if ideal else 0.0,
        "precision": sum(hits) / min(k, len(listed)),
        "map": sum(precisions) / n_relevant if n_relevant else 0.0,
    }


@pytest.mark.long
def test_opensearch(untied_rankings: Rankings) -> None:
    qrels, run = as_trec(untied_rankings)
    listed = {query: sorted(run[query], key=lambda document: -run[query][document])[:12] for query in run}
    shown = {query: {document: run[query][document] for document in listed[query]} for query in run}
    ours = {
        "ndcg": "ndcg(as=opensearch)@10",
        "precision": "precision(as=opensearch)@10",
        "map": "map(as=opensearch)@10",
    }
    ev = evaluate_runs(qrels, shown, list(ours.values()))["run"]
    for name, metric in ours.items():
        expected = [workbench(qrels[query], listed[query], 10)[name] for query in qrels]
        np.testing.assert_allclose(ev[metric].per_query, expected, rtol=0, atol=1e-12, err_msg=name)
    halves = {
        query: {document: grade / 4 for document, grade in inner.items()} for query, inner in qrels.items()
    }
    with pytest.raises(MetricError, match="gain=exp needs integer labels"):
        evaluate_runs(halves, shown, [ours["ndcg"]])
    for name, metric in ours.items():
        above_0 = metric.replace(")", ",gain=exp_real)" if name == "ndcg" else ",relevant=0.001)")
        found = evaluate_runs(halves, shown, [above_0])["run"][above_0].per_query
        expected = [workbench(halves[query], listed[query], 10)[name] for query in qrels]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=name)


# ranx

RANX = {
    "ndcg@10": "ndcg(as=ranx)@10",
    "ndcg_burges@10": "ndcg(as=ranx,gain=exp)@10",
    "dcg@10": "dcg(as=ranx)@10",
    "map@10": "map(as=ranx)@10",
    "map": "map(as=ranx)",
    "mrr@10": "mrr(as=ranx)@10",
    "precision@5": "precision(as=ranx)@5",
    "recall@5": "recall(as=ranx)@5",
    "f1@5": "f1(as=ranx)@5",
    "hit_rate@5": "success(as=ranx)@5",
    "r-precision": "rprec(as=ranx)",
    "map-l2": "map(as=ranx,relevant=2)",
}

# In a process of its own: it changes the number of numba threads for good.
RANX_PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
from ranx import Qrels, Run, evaluate
given = json.load(sys.stdin)
out = []
for qrels, run in given["rankings"]:
    run = Run(run)
    evaluate(Qrels(qrels), run, given["metrics"], return_mean=False)
    out.append({metric: dict(run.scores[metric]) for metric in given["metrics"]})
print(json.dumps(out))
"""


@pytest.mark.slow  # its first call compiles for minutes
def test_ranx() -> None:
    pytest.importorskip("ranx", reason="needs ranx (the extra `oracles`)", exc_type=ImportError)
    cases = [draw(seed, ties=False) for seed in SEEDS]
    given = {"rankings": [as_trec(rankings) for rankings in cases], "metrics": list(RANX)}
    process = subprocess.run(
        [sys.executable, "-c", RANX_PROGRAM],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    for rankings, found in zip(cases, json.loads(process.stdout), strict=True):
        for theirs, ours in RANX.items():
            expected = [found[theirs][query] for query in as_trec(rankings)[0]]
            np.testing.assert_allclose(rankings.per_query(ours), expected, rtol=0, atol=1e-12, err_msg=ours)
