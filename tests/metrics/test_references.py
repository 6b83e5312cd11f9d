"""Numbers that other software, or an evaluation campaign, once wrote down for real rankings."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate
from ltr_harness.metrics import NDCG

FOUR_DECIMALS = 5.001e-5
FIVE_DECIMALS = 5.001e-6

MQ2008 = ["mq2008_fold1_test_xgb", "mq2008_all_feature39"]
MSLR = ["mslr_test_feature110", "mslr_test_ranklib_trees10", "mslr_test_ranklib_trees100"]


@functools.lru_cache(maxsize=4)
def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for line in path.read_text().splitlines():
        query, _, document, grade = line.split()
        qrels.setdefault(query, {})[document] = int(grade)
    return qrels


def read_run(path: Path) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = {}
    for line in path.read_text().splitlines():
        query, _, document, _, score, *_ = line.split()
        run.setdefault(query, {})[document] = float(score)
    return run


def evaluate_arguments(
    qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Return the arguments of `evaluate`: every judged or retrieved document of the queries that both files have."""
    rows = [
        (query, document, qrels[query].get(document, -1), run[query].get(document))
        for query in qrels
        if query in run
        for document in {**dict.fromkeys(qrels[query]), **dict.fromkeys(run[query])}
    ]
    queries, documents, grades, scores = zip(*rows, strict=True)
    return {
        "query_ids": np.array(queries),
        "document_ids": np.array(documents),
        "labels": np.maximum(grades, 0),
        "judged": np.array(grades) >= 0,  # -1: pooled and not judged
        "scores": np.array([0.0 if score is None else score for score in scores]),
        "retrieved": np.array([score is not None for score in scores]),
    }


@functools.lru_cache(maxsize=2)
def inputs_of(qrels: Path, run: Path) -> dict[str, Any]:
    return evaluate_arguments(read_qrels(qrels), read_run(run))


def values(inputs: dict[str, Any], metric: str) -> dict[str, float]:
    evaluation = evaluate(**inputs, metrics=[metric])
    per_query = dict(zip(evaluation.query_ids, evaluation[metric].per_query, strict=True))
    return {**per_query, "all": evaluation[metric].mean}


def assert_equal(found: Mapping[str, float], expected: Mapping[str, float], tolerance: float) -> None:
    assert expected
    wrong = {
        query: (value, found[query])
        for query, value in expected.items()
        if not abs(value - found[query]) <= tolerance
    }
    assert not wrong


def csv_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def csv_records(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def trec_eval_output(path: Path) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    for line in path.read_text().splitlines():
        measure, query, value = line.split(None, 2)
        if measure not in ("runid", "relstring"):
            out.setdefault(measure, {})[query] = float(value)
    return out


def our_name(measure: str) -> str | None:
    """Our name for a measure of trec_eval."""
    whole = {
        "map": "map(as=trec_eval)",
        "Rprec": "rprec(as=trec_eval)",
        "bpref": "bpref(as=trec_eval)",
        "recip_rank": "mrr(as=trec_eval)",
        "ndcg": "ndcg(as=trec_eval)",
        "num_rel": "n_relevant",
        "set_P": "precision(as=trec_eval)",
        "set_recall": "recall(as=trec_eval)",
        "set_F": "f1(as=trec_eval)",
        "rbp": "rbp(empty=zero,p=0.9,ties=id)",
        "rbp_resid": "rbp_residual(empty=zero,p=0.9,ties=id)",
    }
    if measure in whole:
        return whole[measure]
    stem, _, k = measure.rpartition("_")
    cut = {
        "P": "precision(as=trec_eval)",
        "recall": "recall(as=trec_eval)",
        "ndcg_cut": "ndcg(as=trec_eval)",
        "map_cut": "map(as=trec_eval)",
        "success": "success(as=trec_eval)",
    }
    return f"{cut[stem]}@{k}" if stem in cut and k.isdigit() else None


@pytest.mark.long
def test_trec_eval_own_test(shared_data: Path) -> None:
    """Ties, unjudged documents, relevant documents that were not retrieved: 3 queries, 57 measures."""
    folder = shared_data / "reference" / "trec_eval"
    inputs = inputs_of(folder / "qrels.test", folder / "results.test")
    assert not inputs["judged"].all()
    assert not inputs["retrieved"].all()
    expected = trec_eval_output(folder / "out.test.aq")
    compared = 0
    for measure, by_query in expected.items():
        if measure.startswith("unj_"):
            judged = values(inputs, f"judged(as=trec_eval)@{measure[4:]}")
            assert_equal({query: 1 - value for query, value in judged.items()}, by_query, FOUR_DECIMALS)
        elif (name := our_name(measure)) is not None:
            if measure == "num_rel":
                by_query.pop("all")  # theirs is the sum
            assert_equal(values(inputs, name), by_query, FOUR_DECIMALS)
        else:
            continue
        compared += 1
    assert compared >= 50


def test_trec_eval_cutoffs_it_was_asked_for(shared_data: Path) -> None:
    folder = shared_data / "reference" / "trec_eval"
    inputs = inputs_of(folder / "qrels.test", folder / "results.test")
    expected = trec_eval_output(folder / "out.test.meas_params")
    for measure in ("P_3", "P_7", "recall_20", "recall_2000", "ndcg_cut_23", "success_2", "success_20"):
        name = our_name(measure)
        assert name is not None
        assert_equal(values(inputs, name), expected[measure], FOUR_DECIMALS)


def test_trec_eval_10_tells_scores_apart_that_version_9_cannot() -> None:
    """Both versions' printed values (-q -m recip_rank -m ndcg -m map) for scores that are equal as float32 only."""
    query = ["1", "1", "2", "2", "2", "2", "3", "3", "3"]
    inputs = {
        "labels": [1, 0, 0, 2, 1, 0, 1, 0, 0],
        "scores": [1.000000001, 1.0, 16777217, 16777216, 0.30000000000000004, 0.3, 0.5, 0.5, 0.25],
        "query_ids": query,
        "document_ids": ["a", "b", "a", "b", "c", "d", "a", "b", "c"],
    }
    printed = {
        "trec_eval": {"mrr": [1, 0.5, 0.5], "ndcg": [1, 0.6697, 0.6309], "map": [1, 0.5833, 0.5]},
        "trec_eval_9": {"mrr": [0.5, 1, 0.5], "ndcg": [0.6309, 0.9239, 0.6309], "map": [0.5, 0.75, 0.5]},
    }
    for tool, by_metric in printed.items():
        for name, expected in by_metric.items():
            metric = f"{name}(as={tool})"
            found = evaluate(**inputs, metrics=[metric])[metric].per_query
            np.testing.assert_allclose(found, expected, rtol=0, atol=FOUR_DECIMALS, err_msg=metric)


@pytest.mark.long
@pytest.mark.parametrize("name", MQ2008 + MSLR)
def test_trec_eval_on_ranking_data(name: str, shared_data: Path) -> None:
    folder = shared_data / "reference" / name
    inputs = inputs_of(folder / "qrels.txt", folder / "run.txt")
    for measure, by_query in trec_eval_output(folder / "trec_eval_q.txt").items():
        metric = our_name(measure)
        if metric is not None:
            if measure == "num_rel":
                by_query.pop("all")
            assert_equal(values(inputs, metric), by_query, FOUR_DECIMALS)


@pytest.mark.long
@pytest.mark.parametrize("name", MQ2008 + MSLR)
def test_gdeval(name: str, shared_data: Path) -> None:
    folder = shared_data / "reference" / name
    inputs = inputs_of(folder / "qrels.txt", folder / "run.txt")
    for k in (5, 10, 20):
        rows = csv_rows(folder / f"gdeval_k{k}.csv")[1:]
        for column, metric in ((2, f"ndcg(as=gdeval)@{k}"), (3, f"err(as=gdeval)@{k}")):
            found = values(inputs, metric)
            expected = {row[1]: float(row[column]) for row in rows}
            mean = expected.pop("amean")
            assert_equal(found, expected, FIVE_DECIMALS)
            # it drops queries without relevant documents, exactly those we leave undefined
            assert {query for query, value in found.items() if value == value} - {"all"} == set(expected)
            assert found["all"] == pytest.approx(mean, abs=FIVE_DECIMALS)


@pytest.mark.long
@pytest.mark.parametrize("name", MQ2008 + MSLR)
def test_letor_script(name: str, shared_data: Path) -> None:
    """Rank 2 undiscounted, 0 for lists shorter than K; MSLR's script calls a row relevant from grade 2 on."""
    folder = shared_data / "reference" / name
    inputs = inputs_of(folder / "qrels.txt", folder / "run.txt")
    relevant = ",relevant=2" if name in MSLR else ""
    text = (folder / "letor_eval_per_query.txt").read_text()
    for part in text.strip().split("\n\n"):
        header, *rows = (line.split() for line in part.splitlines())
        for column, title in enumerate(header[1:], 1):
            expected = {row[0]: float(row[column]) for row in rows}
            expected["all"] = expected.pop("Average")
            if title == "MeanNDCG":
                continue  # the mean over every cutoff of a query, which nobody else computes
            stem, _, k = title.partition("@")
            metric = {
                "P": f"precision(as=letor{relevant})@{k}",
                "MAP": f"map(as=letor{relevant})",
                "NDCG": f"ndcg(as=letor)@{k}",
            }[stem]
            assert_equal(values(inputs, metric), expected, FOUR_DECIMALS)


def test_ranklib(shared_data: Path) -> None:
    """RankLib's published per-query NDCG@10, to the last bits: many rows tie, and it keeps their order."""
    folder = shared_data / "reference" / "ranklib"
    rows = csv_records(folder / "scores_per_row.test.csv")
    labels = [float(row["label"]) for row in rows]
    query_ids = [row["qid"] for row in rows]
    expected = csv_records(folder / "expected_ndcg10_per_query.test.csv")
    assert {row["model"] for row in expected} == {"trees1", "trees10", "trees100"}
    for model in ("trees1", "trees10", "trees100"):
        scores = [float(row[model]) for row in rows]
        evaluation = evaluate(labels, scores, query_ids=query_ids, metrics=["ndcg(as=ranklib)@10"])
        found = dict(zip(evaluation.query_ids, evaluation["ndcg(as=ranklib)@10"].per_query, strict=True))
        for row in expected:
            if row["model"] == model:
                assert found[row["qid"]] == pytest.approx(float(row["ranklib_published_ndcg10"]), abs=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("column", [1, 2])
@pytest.mark.parametrize(
    ("official", "metric"),
    [
        ("MSnDCG", "ndcg(gain=linear,ties=id)@10"),
        ("nERR", "nerr(max_grade=4,stop=linear,ties=id)@10"),
        ("Q", "q(ties=id)@10"),
    ],
)
def test_ntcir_official_results(official: str, metric: str, column: int, shared_data: Path) -> None:
    folder = shared_data / "reference" / "ntcir13_www"
    header, *rows = csv_rows(folder / f"wwwE.official.{official}@0010.runs1-2.csv")
    inputs = inputs_of(folder / "wwwE.trec.qrels", folder / f"{header[column]}.run")
    expected = {row[0]: float(row[column]) for row in rows}
    assert len(expected) == 100
    assert_equal(values(inputs, metric), expected, FOUR_DECIMALS)


def test_level_of_a_real_model_under_the_three_rules_for_empty_queries(shared_data: Path) -> None:
    folder = shared_data / "reference" / "mq2008_fold1_test_xgb"
    lines = (shared_data / "mq2008" / "S5.txt").read_text().splitlines()
    labels = [int(line.split(maxsplit=1)[0]) for line in lines]
    query_ids = [line.split(maxsplit=2)[1] for line in lines]
    scores = np.loadtxt(folder / "scores.txt")
    for empty, level in (("skip", 0.716293), ("zero", 0.482120), ("one", 0.809043)):
        metric = NDCG(k=10, empty=empty)  # type: ignore[arg-type]
        evaluation = evaluate(labels, scores, query_ids=query_ids, metrics=[metric])
        assert evaluation[metric].mean == pytest.approx(level, abs=5e-7)
        assert evaluation[metric].n_undefined == (51 if empty == "skip" else 0)
