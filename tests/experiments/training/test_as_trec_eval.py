"""Stored values with missed documents against trec_eval -c, on the run and the qrels that the commands write.

Sixty queries of each part of MQ2008 with a third of their rows taken out of the candidates; of two queries, all.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness import run_experiment
from ltr_harness.data.readers.letor import Letor
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.metrics import parse_metric
from tests.conftest import reports_left_out

pytestmark = pytest.mark.long

Cli = Callable[..., tuple[int, str, str]]

MEASURES = {
    "ndcg_cut_5": "ndcg(as=pytrec_eval)@5",
    "ndcg_cut_10": "ndcg(as=pytrec_eval)@10",
    "map": "map(as=pytrec_eval)@1000",  # longer than any list
    "map_cut_5": "map(as=pytrec_eval)@5",
    "recall_5": "recall(as=pytrec_eval)@5",
    "recall_10": "recall(as=pytrec_eval)@10",
    "recip_rank": "mrr(as=pytrec_eval)@1000",
    "P_5": "precision(as=pytrec_eval)@5",
    "Rprec": "rprec(as=pytrec_eval)",
    "bpref": "bpref(as=pytrec_eval)",
}


def table(shared_data: Path, part: str) -> pd.DataFrame:
    data = Letor().read([f"mq2008/{part}.txt"], shared_data).take(np.arange(60))
    sizes, rng = data.groups.sizes, np.random.default_rng(int(part[1]))
    rank = np.concatenate([rng.permutation(size) for size in sizes])
    frame = pd.DataFrame(data.features, columns=[f"f{name}" for name in data.feature_names])
    frame.insert(0, "query_id", np.repeat(data.groups.ids, sizes))
    frame.insert(1, "document_id", data.judgments.document_ids)
    frame.insert(2, "label", data.labels.astype(int))
    frame.insert(3, "found", (rank >= np.repeat(sizes // 3, sizes)).astype(int))
    frame.loc[frame["query_id"].isin(data.groups.ids[[3, 8]]), "found"] = 0
    return frame


@pytest.fixture(scope="module")
def place(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mq2008")
    for name, part in (("train", "S1"), ("valid", "S2"), ("test", "S5")):
        table(shared_data, part).to_csv(folder / f"{name}.csv", index=False)
    config = {
        "name": "two",
        "seeds": [1],
        "data": {
            "reader": "csv",
            "root": str(folder),
            "retrieved": "found",
            "splits": {name: f"{name}.csv" for name in ("train", "valid", "test")},
        },
        "metrics": {"report": list(MEASURES.values()), "primary": MEASURES["ndcg_cut_10"]},
        "report": {"formats": ["json"]},
        "models": {
            "feature": {"ranker": "feature", "feature": "f39"},  # of which many rows have the same value
            "lgbm": {"ranker": "lightgbm", "rounds": 5, "params": {"num_leaves": 4}},
        },
    }
    with reports_left_out():
        run_experiment(config, runs=folder)
    return folder


def stored_run(place: Path, model: str) -> Run:
    return load_run(next((place / "two").glob(f"{model}--*")))


@pytest.mark.parametrize("model", ["feature", "lgbm"])
def test_stored_values_are_those_of_trec_eval_on_the_exported_files(
    place: Path, model: str, ltr: Cli
) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs pytrec-eval-terrier (the extra `oracles`)")
    run, test = stored_run(place, model), place / "test.csv"
    ranking, qrels = place / f"{model}.run", place / "truth.qrels"
    assert ltr("predict", run.path, test, "-o", ranking)[0] == 0
    assert ltr("data", "convert", test, "--column", "retrieved=found", "-o", qrels)[0] == 0
    with qrels.open() as lines:
        truth = pytrec_eval.parse_qrel(lines)
    with ranking.open() as lines:
        listed = pytrec_eval.parse_run(lines)
    rows = pd.read_csv(test)
    assert len(truth) == rows["query_id"].nunique() == len(listed) + 2  # two queries are in the qrels only
    assert sum(map(len, truth.values())) == len(rows)
    assert sum(map(len, listed.values())) == rows["found"].sum()
    if model == "feature":
        assert any(len(set(one.values())) < len(one) for one in listed.values())  # ties
    theirs = pytrec_eval.RelevanceEvaluator(truth, set(MEASURES)).evaluate(listed)
    ids = run.per_query["query_id"].astype(str)
    for measure, name in MEASURES.items():
        column = str(parse_metric(name))
        # -c: of a query that is in the qrels only, every value is 0
        expected = [theirs[query][measure] if query in theirs else 0.0 for query in ids]
        np.testing.assert_allclose(run.per_query[column], expected, atol=1e-12, err_msg=measure)
        mean = run.record.metrics[column].mean
        assert mean == pytest.approx(np.mean(expected), abs=1e-12)


def test_the_command_for_runs_gives_them_too(place: Path, ltr: Cli) -> None:
    run, test = stored_run(place, "lgbm"), place / "test.csv"
    assert ltr("predict", run.path, test, "-o", place / "again.run")[0] == 0
    assert ltr("data", "convert", test, "--column", "retrieved=found", "-o", place / "again.qrels")[0] == 0
    files = ("--qrels", place / "again.qrels", "--run", place / "again.run", "--all-queries")
    code, out, err = ltr("evaluate", *files, "-m", ",".join(MEASURES.values()), "--format", "csv")
    assert code == 0, err
    means = {row["metric"]: float(row["mean"]) for row in csv.DictReader(out.splitlines())}
    assert means == {name: summary.mean for name, summary in run.record.metrics.items()}
