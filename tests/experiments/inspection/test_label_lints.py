"""Counts taken for events, labels without zeros or below 0, queries of one row, rows that a join repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.memory import from_arrays, from_frame
from ltr_harness.errors import Caution
from ltr_harness.experiments.inspection import data_card, lint
from ltr_harness.experiments.inspection.lints import nearly_all_relevant
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.evaluation import evaluate

N_QUERIES, N_ROWS = 50, 5
DRAWS = np.random.default_rng(4)
MATCH, NOISE = DRAWS.normal(size=(2, N_QUERIES * N_ROWS))


def frame(**more: Any) -> pd.DataFrame:
    n = MATCH.size
    labels = np.clip(np.round(MATCH + NOISE), 0, 3)
    query = np.repeat(np.arange(N_QUERIES), N_ROWS)
    return pd.DataFrame(
        {"query_id": query, "label": labels, "bm25": MATCH, "price": np.arange(n) / 7, **more}
    )


def cautions(data: RankingDataset) -> dict[str, Caution]:
    return {one.kind: one for one in lint(data_card({"train": data}))}


def test_sound_labels_have_no_warning() -> None:
    assert {one.severity for one in cautions(from_frame(frame())).values()} <= {"note"}


COUNTS = {"click": DRAWS.poisson(8, MATCH.size), "cart": DRAWS.poisson(3, MATCH.size)}


def test_counts_are_no_events() -> None:
    table = frame(**COUNTS, buy=DRAWS.poisson(0.1, MATCH.size)).drop(columns="label")
    events = {"click": 1, "cart": 3, "buy": 4}
    found = cautions(from_frame(table, relevance={"events": events}))
    share = np.mean(table.cart > 1), np.mean(table.click > 1)
    assert found["event-counts"].text.startswith(
        f"above 1 (click in {share[1]:.0%} of the rows, cart in {share[0]:.0%} of the rows), so they count many users"
    )
    cures = ("mode: quantiles, column: RATE, bins: 5", "`count: log1p`", "{when: click >= 10, grade: 1}")
    assert [cure for cure in cures if cure not in found["event-counts"].cure] == []
    assert found["event-counts"].severity == found["nearly-all-relevant"].severity == "warning"
    for rule in (
        {"events": events, "count": "log1p"},
        {"ladder": [{"when": "cart >= 10", "grade": 2}, {"when": "click >= 12", "grade": 1}]},
        {"mode": "quantiles", "column": "click", "bins": 5},
    ):
        assert "event-counts" not in cautions(from_frame(table, relevance=rule)), rule
    once = table.assign(click=np.minimum(table.click, 1), cart=np.minimum(table.cart, 1))
    assert "event-counts" not in cautions(from_frame(once, relevance={"events": events}))


def test_a_label_of_counts() -> None:
    found = cautions(from_frame(frame(clicks=COUNTS["click"]), label="clicks"))
    assert "above 1 (clicks in" in found["event-counts"].text
    assert "event-counts" not in cautions(from_frame(frame(rating=COUNTS["click"]), label="rating"))


def test_nearly_all_relevant_by_the_metric() -> None:
    judgments = from_arrays(np.zeros((10, 1)), [0, 1, 1, 1, 1, 1, 2, 2, 3, 3], group_sizes=[10]).judgments
    [caution] = nearly_all_relevant("test", judgments)
    assert caution.text.startswith(
        "90% of the documents have a label above 0, so a metric of relevant or not has little to tell apart"
    )
    [caution] = nearly_all_relevant("test", judgments, parse_metric("ndcg@5"))
    assert "so ndcg@5 has little" in caution.text
    [caution] = nearly_all_relevant("test", judgments, parse_metric("mrr"))
    assert "a label of 1 or more, so mrr has little" in caution.text
    assert nearly_all_relevant("test", judgments, parse_metric("mrr(relevant=2)")) == []


def test_labels_below_zero_once_with_the_rule() -> None:
    data = from_frame(frame(ret=MATCH - 0.1), label="ret")
    found = [one for one in lint(data_card({"train": data, "test": data})) if one.kind == "negative-labels"]
    n = 2 * int(np.count_nonzero(MATCH < 0.1))
    assert [(one.severity, one.place) for one in found] == [("note", "train, test")]
    assert found[0].text.startswith(f"labels go down to {MATCH.min() - 0.1:g} ({n} of 500 rows are below 0)")
    assert "`relevance: {mode: quantiles, column: ret, bins: 5}`" in found[0].cure


def test_queries_of_one_row_are_an_error() -> None:
    found = cautions(from_frame(frame(row=np.arange(MATCH.size)), query="row"))["single-document-queries"]
    assert (found.severity, found.text) == ("error", "all queries have a single document")
    assert found.cure.startswith("is `query: row` the right column?")
    one_of_two = from_arrays(np.ones((3, 1)), [1, 0, 1], group_sizes=[1, 2])
    assert cautions(one_of_two)["single-document-queries"].severity == "note"


def test_rows_that_a_join_repeats() -> None:
    table = frame()
    relevant = table[table.label > 0]
    tripled = pd.concat([table, relevant, relevant]).sort_values("query_id", kind="stable")
    found = cautions(from_frame(tripled))["equal-rows"]
    n, n_rows = 2 * len(relevant), len(tripled)
    others = len(table) - len(relevant)
    assert found.text == (
        f"{n} rows ({n / n_rows:.1%}) repeat another row of their query, label included: {n} of {n_rows - others} "
        f"relevant documents and 0 of {others} others"
    )
    named = tripled.assign(document_id=np.arange(n_rows).astype(str))
    assert "equal-rows" not in cautions(from_frame(named)), "the documents have names, and differ"


def test_which_repeats_are_said() -> None:
    def has_leak(n_relevant: int, n_others: int) -> bool:
        """2,000 rows, of which some repeat another."""
        rows = np.arange(2_000)
        features, labels = rows[:, None] + 1.0, rows % 4 == 1
        kinds = [rows[rows % 4 == 1][:n_relevant], rows[rows % 4 == 0][:n_others]]
        for repeated in kinds:
            features[repeated + 2] = features[repeated]
            labels[repeated + 2] = labels[repeated]
        return "equal-rows" in cautions(from_arrays(features, labels, group_sizes=[100] * 20))

    assert not has_leak(0, 0)
    assert has_leak(40, 70), "5.5 % of the rows"
    assert not has_leak(20, 70)
    assert has_leak(10, 0), "they go with the label"
    assert not has_leak(9, 0)
    assert not has_leak(0, 10), "as many as chance repeats"


def test_labels_below_a_threshold() -> None:
    labels, scores = [0.9, 0, 1, 0.3], [1, 2, 3, 4]
    said = str(evaluate(labels, scores, group_sizes=[2, 2], metrics=["mrr", "map", "ndcg(gain=linear)@2"]))
    assert (
        "note: mrr, map: a document is relevant from the label 1 on: 2 of 4 labels lie above 0 and below that"
        in said
    )
    assert "up to 0.9, and count as not relevant; another threshold is set as in `mrr(relevant=0.5)`" in said
    for metrics in (["ndcg(gain=linear)@2"], ["mrr(relevant=0.3)"]):
        assert "a document is relevant" not in str(
            evaluate(labels, scores, group_sizes=[2, 2], metrics=metrics)
        )
    whole = evaluate([2, 0, 3, 1], scores, group_sizes=[2, 2], metrics=["mrr(relevant=2)"])
    assert whole.cautions == (), "whole grades below a threshold are what it is for"


@pytest.mark.long
def test_check_has_each_cause_once(ltr: Any, tmp_path: Path) -> None:
    frame(ret=MATCH).drop(columns="label").to_csv(tmp_path / "a.csv", index=False)
    config = tmp_path / "a.yaml"
    returns = ["init", tmp_path / "a.csv", "-o", config, "--column", "label=ret"]
    assert "train: labels go down to" in ltr(*returns)[2]
    frame(ret=abs(MATCH)).drop(columns="label").to_csv(tmp_path / "a.csv", index=False)
    assert ltr(*returns)[0] == 0
    frame(ret=MATCH).drop(columns="label").to_csv(tmp_path / "a.csv", index=False)
    assert "labels go down to" in ltr("data", "describe", tmp_path / "a.csv", "--column", "label=ret")[1]
    code, _, said = ltr("check", config)
    assert (code, said.count("is not a grade"), said.count("needs grades")) == (2, 1, 1)
    assert "(and 9 other parts alike)" in said

    frame(label=DRAWS.choice([0, 0.3, 0.9, 1], MATCH.size)).to_csv(tmp_path / "b.csv", index=False)
    config = tmp_path / "b.yaml"
    ltr("init", tmp_path / "b.csv", "-o", config)
    assert ltr("check", config)[1].count("labels lie above 0 and below that") == 1


@pytest.mark.long
def test_counts_are_said_by_every_command(ltr: Any, tmp_path: Path) -> None:
    frame(**COUNTS).drop(columns="label").to_csv(tmp_path / "a.csv", index=False)
    config = tmp_path / "a.yaml"
    assert "so they count many users" in ltr("init", tmp_path / "a.csv", "-o", config)[1]
    assert "so they count many users" in ltr("data", "describe", config)[1]
    said = ltr("check", config)[1]
    assert said.count("so they count many users") == 1
    assert "so ndcg@10 has little to tell apart" in said
    code, said, _ = ltr("run", config, "--dry-run", "--runs", tmp_path / "runs")
    assert code == 0


def test_features_that_tell_few_documents_apart() -> None:
    def flags(seed: int) -> RankingDataset:
        draws = np.random.default_rng(seed)
        values = draws.integers(1, 4, (500, 2))
        queries = np.repeat([f"{seed}-{number}" for number in range(50)], 10)
        return from_arrays(values, draws.integers(0, 3, 500), query_ids=queries)

    found = {one.kind: one for one in lint(data_card({"train": flags(1), "test": flags(2)}))}
    assert found["identical-rows"].severity == "note", "rows of train are as often alike"
    assert "forced-ties" in found
    assert "equal-rows" not in found, "as many differ in their label alone: no join"
