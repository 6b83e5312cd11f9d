"""`data: {judgments: …}`: folds, hold-outs and splits beside one truth, and a run with the values of its pool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness.data.cache import DataCache
from ltr_harness.data.readers.letor import Letor
from ltr_harness.errors import ConfigError, DataError
from ltr_harness.experiments.config import load_data
from ltr_harness.experiments.config.load import load_experiment, resolved_yaml
from ltr_harness.experiments.runs import load_run
from ltr_harness.experiments.training.folds import Fold, FoldReader, reading_of
from ltr_harness.metrics.evaluation import evaluate
from ltr_harness.workflow import final_experiment

MISSING = ("q3", "q20", "q50")
"""Queries none of whose documents was retrieved."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A truth of 60 queries, the candidates that a retriever returned, and the same without labels."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("world")
    bm25 = rng.normal(size=480).round(3)
    truth = pd.DataFrame(
        {
            "query_id": np.repeat([f"q{i}" for i in range(60)], 8),
            "document_id": np.tile([f"d{i}" for i in range(8)], 60),
            "label": np.clip(np.round(bm25 + rng.normal(size=480)), 0, 2).astype(int),
            "bm25": bm25,
            "day": np.repeat(np.arange(60) // 6, 8),
        }
    )
    rows = truth[(rng.random(480) < 0.6) & ~truth.query_id.isin(MISSING)].reset_index(drop=True)
    truth[["query_id", "document_id", "label"]].to_parquet(folder / "truth.parquet")
    truth.to_csv(folder / "truth with days.csv", index=False)
    rows.to_parquet(folder / "rows.parquet")
    rows.drop(columns="label").to_parquet(folder / "bare.parquet")
    number = rows.query_id.str[1:].astype(int)
    rows[number < 40].to_parquet(folder / "past.parquet")
    rows[number >= 40].to_parquet(folder / "future.parquet")
    return folder


def read_fold(world: Path, fold: str | None = None, *, cache: Path | None = None, **data: Any) -> Fold:
    section = {"reader": "parquet", "root": str(world), "features": ["bm25"], **data}
    reader = FoldReader(load_data(section), DataCache(cache))
    return reader.read(fold or reader.names()[0])


def parts_of(fold: Fold) -> dict[str, set[str]]:
    return {split: set(map(str, part.groups.ids.tolist())) for split, part in fold.splits.items()}


def n_missed(fold: Fold) -> dict[str, int | None]:
    missed = {split: part.judgments.missed for split, part in fold.splits.items()}
    return {split: None if one is None else one.labels.size for split, one in missed.items()}


def test_folds_divide_the_queries_without_candidates_too(world: Path) -> None:
    data: dict[str, Any] = {"files": "bare.parquet", "folds": 3, "judgments": "truth.parquet"}
    tested = [parts_of(read_fold(world, f"fold{i}", **data))["test"] for i in (1, 2, 3)]
    assert sum(map(len, tested)) == len(set.union(*tested)) == 60
    for i in (1, 2, 3):
        fold = read_fold(world, f"fold{i}", **data)
        assert fold.train.groups.has_rows.all()
        part = fold.test
        assert part.judgments.pool.groups.sizes.tolist() == [8] * part.n_queries
        assert {*part.groups.ids[~part.groups.has_rows]} == parts_of(fold)["test"] & {*MISSING}
    skipped = [read_fold(world, f"fold{i}", **data, no_candidates="skip") for i in (1, 2, 3)]
    assert set.union(*(parts_of(fold)["test"] for fold in skipped)) == set.union(*tested) - {*MISSING}


def test_a_hold_out_divides_the_queries_without_candidates_too(world: Path) -> None:
    held = {"holdout": 0.25, "seed": 2}
    splits = {"train": "rows.parquet", "valid": held, "test": held}
    fold = read_fold(world, splits=splits, judgments="truth.parquet")
    parts = parts_of(fold)
    assert len(parts["valid"]) == len(parts["test"]) == 15
    assert parts["valid"] | parts["test"] | parts["train"] == {f"q{i}" for i in range(60)} - (
        {*MISSING} - parts["valid"] - parts["test"]
    )


def test_queries_without_candidates_need_a_time_where_time_divides(world: Path) -> None:
    splits = {"train": "rows.parquet", "test": {"holdout": 0.25, "by_time": "day"}}
    data: dict[str, Any] = {"splits": splits, "attributes": ["day"]}
    with pytest.raises(DataError, match=r"3 queries without candidates have no day.*`no_candidates: skip`"):
        read_fold(world, **data, judgments="truth.parquet")
    assert (
        "q50"
        not in parts_of(read_fold(world, **data, judgments="truth.parquet", no_candidates="skip"))["test"]
    )
    assert "q50" in parts_of(read_fold(world, **data, judgments="truth with days.csv"))["test"]


def test_splits_share_a_truth_each_with_its_own_queries(world: Path) -> None:
    splits = {"train": "past.parquet", "test": "future.parquet"}
    fold = read_fold(world, splits=splits, judgments="truth.parquet")
    assert parts_of(fold) == {
        "train": {f"q{i}" for i in range(40)} - {*MISSING},
        "test": {f"q{i}" for i in range(40, 60)} - {*MISSING},
    }
    said = "3 of the judged queries (5.0%) are of no split and counted nowhere, such as q20, q3, q50: "
    for part in fold.splits.values():
        assert any(note.startswith(said) for note in map(str, part.cautions)), part.cautions


def test_a_map_of_splits_says_whose_judgments_are(world: Path) -> None:
    splits = {"train": "past.parquet", "test": "future.parquet"}
    fold = read_fold(world, splits=splits, judgments={"test": "truth.parquet"})
    assert n_missed(fold)["train"] is None
    assert parts_of(fold)["test"] == {f"q{i}" for i in range(60)}  # whichever of them have rows
    assert set(fold.facts["test"].files) == {"future.parquet", "truth.parquet"}
    assert set(fold.facts["train"].files) == {"past.parquet"}


def test_rows_beside_their_judgments_come_from_the_cache_until_either_changes(
    world: Path, tmp_path: Path
) -> None:
    data: dict[str, Any] = {"files": "rows.parquet", "folds": 3}
    first = read_fold(world, cache=tmp_path / "cache", **data, judgments="truth.parquet")
    again = read_fold(world, cache=tmp_path / "cache", **data, judgments="truth.parquet")
    assert again.facts == first.facts
    assert n_missed(again) == n_missed(first)
    truth = pd.read_parquet(world / "truth.parquet")
    truth.iloc[:-1].to_parquet(world / "shorter.parquet")
    shorter = read_fold(world, cache=tmp_path / "cache", **data, judgments="shorter.parquet")
    counts = [sum(filter(None, n_missed(fold).values())) for fold in (first, shorter)]
    assert counts[0] - counts[1] in (0, 1)
    assert {**first.facts["test"].files}.keys() == {"rows.parquet", "truth.parquet"}
    plain = read_fold(world, **data)
    assert {part.judgments.missed for part in plain.splits.values()} == {None}


def test_several_judgments_are_kept_by_the_cache(world: Path, tmp_path: Path) -> None:
    truth = pd.read_parquet(world / "truth.parquet")
    pd.concat([truth, truth.assign(label=2)]).to_parquet(world / "twice.parquet")
    data: dict[str, Any] = {"files": "bare.parquet", "folds": 3}
    with pytest.raises(DataError, match=r"`judgments: \{files: …, several: majority\}`"):
        read_fold(world, cache=tmp_path, **data, judgments="twice.parquet")
    data["judgments"] = {"files": "twice.parquet", "several": "mean"}
    first, again = (read_fold(world, cache=tmp_path, **data) for _ in range(2))
    assert first.facts == again.facts
    (whole, *_) = first.facts["test"].agreement
    assert (whole.n_documents, whole.n_judgments) == (8 * first.test.n_queries, 16 * first.test.n_queries)
    fold = truth.set_index(["query_id", "document_id"]).label
    ids = first.test.judgments.document_ids
    assert ids is not None
    queries = np.repeat(first.test.groups.ids, first.test.groups.sizes)
    wanted = (fold[list(zip(queries, ids, strict=True))] + 2) / 2
    np.testing.assert_array_equal(again.test.labels, wanted)
    other = read_fold(
        world, cache=tmp_path, **{**data, "judgments": {"files": "twice.parquet", "several": "max"}}
    )
    assert set(other.test.labels) == {2.0}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"judgments": {"test": "t"}, "folds": 3, "files": "f"},
            "by split with data.folds; expected one set",
        ),
        (
            {"judgments": {"file": "t"}, "splits": {"train": "a", "test": "b"}},
            "unknown key 'file' in data.judgments",
        ),
        (
            {"judgments": {}, "splits": {"train": "a", "test": "b"}},
            "either `files`, or `train`, `valid` and `test`",
        ),
        (
            {"judgments": {"files": "t", "test": "t"}, "splits": {"train": "a", "test": "b"}},
            "either `files`, or",
        ),
        (
            {"judgments": {"valid": "t"}, "splits": {"train": "a", "valid": {"holdout": 0.2}, "test": "b"}},
            "data.judgments.valid, and valid has no files of its own",
        ),
        (
            {"judgments": {"test": "t"}, "splits": {i: {"train": "a", "test": "b"} for i in ("one", "two")}},
            "data.judgments by split with 2 folds",
        ),
        ({"judgments": 3, "splits": {"train": "a", "test": "b"}}, "data.judgments is 3; expected"),
        (
            {"no_candidates": "drop", "splits": {"train": "a", "test": "b"}},
            "data.no_candidates is 'drop'; known: skip, zero",
        ),
    ],
)
def test_judgments_that_cannot_be_meant_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_data({"reader": "parquet", **data})


def test_the_configuration_says_judgments_only_where_there_are_some(world: Path) -> None:
    section = {"reader": "parquet", "root": str(world), "files": "rows.parquet", "folds": 3}
    assert not {"judgments", "no_candidates"} & reading_of(load_data(section), "fold1").keys()
    section |= {"judgments": ["truth.parquet"]}
    assert reading_of(load_data(section), "fold1")["judgments"] == {"files": ["truth.parquet"]}
    models = {"bm25": {"ranker": "feature", "feature": "bm25"}}
    experiment = load_experiment({"name": "e", "data": section, "models": models})
    assert load_experiment(yaml.safe_load(resolved_yaml(experiment))) == experiment
    assert experiment.data.no_candidates == "zero"


def test_the_final_model_has_the_judgments_of_validation_too(world: Path) -> None:
    splits = {"train": "past.parquet", "valid": "future.parquet", "test": "rows.parquet"}
    judgments = {"train": "truth.parquet", "valid": "truth with days.csv"}
    data = {"reader": "parquet", "root": str(world), "splits": splits, "judgments": judgments}
    models = {"bm25": {"ranker": "feature", "feature": "bm25"}}
    experiment = load_experiment({"name": "e", "data": data, "models": models})
    record = SimpleNamespace(model="bm25", tuning=None, best_round=None)
    final = final_experiment(experiment, [SimpleNamespace(record=record)], "bm25")  # type: ignore[list-item]
    assert final["data"]["judgments"] == {"train": ["truth.parquet", "truth with days.csv"]}
    assert load_experiment(final).data.splits["all"].train == ("past.parquet", "future.parquet")


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_the_values_of_a_run_are_those_of_its_pool(
    world: Path, tmp_path: Path, ltr: Callable[..., tuple[int, str, str]]
) -> None:
    data = {"reader": "parquet", "root": str(world), "files": "bare.parquet", "folds": 3}
    config = {
        "name": "judged",
        "data": {**data, "judgments": "truth.parquet"},
        "metrics": {"report": ["ndcg", "map", "recall"], "cutoffs": [5], "primary": "ndcg@5"},
        "stopping": {"metric": "ndcg@5", "patience": 2, "max_rounds": 5},
        "models": {
            "bm25": {"ranker": "feature", "feature": "bm25"},
            "lgb": {"ranker": "lightgbm", "objective": "lambdarank", "preset": "small"},
        },
        "report": {"formats": ["json"]},
    }
    file = tmp_path / "judged.yaml"
    file.write_text(yaml.safe_dump(config))
    status, out, err = ltr("check", file)
    assert status == 0, err
    missing = "data.judgments=truht.parquet"
    status, _, err = ltr("check", file, "--set", missing)
    assert status == 2
    assert f"--set {missing}: {world / 'truht.parquet'}: no such file; did you mean 'truth.parquet'?" in err
    assert "3 of the judged queries (5.0%) have no candidate and the value 0 (no_candidates: zero)" in out
    status, _, err = ltr("run", file, "--runs", tmp_path / "runs")
    assert status == 0, err
    truth = pd.read_parquet(world / "truth.parquet")
    runs = [load_run(path.parent) for path in (tmp_path / "runs" / "judged").glob("*/record.json")]
    assert len(runs) == 6
    for run in runs:
        stored = pd.read_parquet(run.path / "per_query.parquet").set_index("query_id")
        rows = pd.read_parquet(run.path / "test_scores.parquet")
        pool = truth[truth.query_id.isin(stored.index)].merge(
            rows[["query_id", "document_id", "score"]], how="left", on=["query_id", "document_id"]
        )
        pool = pool.sort_values(["query_id"], kind="stable")
        values = evaluate(
            pool.label.to_numpy(),
            pool.score.fillna(0).to_numpy(),
            query_ids=pool.query_id.to_numpy(),
            retrieved=pool.score.notna().to_numpy(),
            metrics=["ndcg@5", "map@5", "recall@5"],
        )
        for metric in values.metrics:
            wanted = pd.Series(values[metric].per_query, index=values.query_ids)
            np.testing.assert_allclose(
                stored[metric], wanted[stored.index], rtol=1e-12, atol=0, equal_nan=True
            )
    assert (
        sum(pd.read_parquet(run.path / "per_query.parquet").query_id.isin(MISSING).sum() for run in runs) == 6
    )


def test_mq2008_with_a_third_of_each_query_left_in_the_judgments(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "mq2008" / "S1.txt"
    whole = Letor().read([str(source)], Path())
    rng, kept, qrels = np.random.default_rng(0), [], []
    lines = [line for line in source.read_text().splitlines() if line.strip()]
    documents = whole.judgments.document_ids
    assert documents is not None
    queries = np.repeat(whole.groups.ids, whole.groups.sizes)
    retrieved = rng.random(whole.n_rows) >= 1 / 3
    for i in range(whole.n_rows):
        qrels.append(f"{queries[i]} 0 {documents[i]} {int(whole.labels[i])}")
        if retrieved[i]:
            kept.append(lines[i])
    (tmp_path / "rows.txt").write_text("\n".join(kept))
    (tmp_path / "truth.qrels").write_text("\n".join(rng.permutation(qrels)))
    data = {
        "reader": "letor",
        "root": str(tmp_path),
        "files": "rows.txt",
        "folds": 3,
        "judgments": "truth.qrels",
    }
    for name in ("fold1", "fold2"):
        part = FoldReader(load_data(data), DataCache(None)).read(name).test
        for query, relevant in zip(part.groups.ids.tolist(), part.judgments.n_relevant.tolist(), strict=True):
            assert relevant == np.count_nonzero(whole.labels[queries == query] > 0)
        assert part.judgments.pool.groups.n_rows == np.isin(queries, part.groups.ids).sum()
        assert part.n_rows == np.isin(queries[retrieved], part.groups.ids).sum()
