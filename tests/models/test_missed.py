"""Rankers learn from candidates, and are stopped by what their validation queries' whole truth says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ltr_harness import evaluate
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import DataError
from ltr_harness.experiments.runs.serving_cost import (
    latency,
    permutation_importance,
    quality_by_trees,
    score_difference,
)
from ltr_harness.experiments.training.dask import local_cluster
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.models.catboost import CatBoostRanker
from ltr_harness.models.dask import cut
from ltr_harness.models.lightgbm import LightGBMRanker
from ltr_harness.models.ranker import VALID, Training, Workers
from ltr_harness.models.tree_model import by_position
from ltr_harness.models.xgboost import XGBoostRanker
from tests.models.conftest import make

METRICS = tuple(map(parse_metric, ("ndcg@10", "recall@5", "map(denominator=total)")))
OWN: list[tuple[Any, dict[str, Any]]] = [
    (LightGBMRanker, {"objective": "lambdarank", "params": {"num_leaves": 8, "min_data_in_leaf": 5}}),
    (LightGBMRanker, {"objective": "regression", "params": {"num_leaves": 8}}),
    (XGBoostRanker, {"objective": "rank:ndcg", "params": {"max_depth": 3}}),
    (XGBoostRanker, {"objective": "reg:squarederror", "params": {"max_depth": 3}}),
    (CatBoostRanker, {"objective": "QueryRMSE", "params": {"depth": 3}}),
]
each_kind = pytest.mark.parametrize(
    ("kind", "fields", "weights"),
    [
        pytest.param(kind, fields, weights, id=f"{kind.__name__}-{fields['objective']}-{weights}")
        for kind, fields in OWN
        for weights in ((False, True) if fields["objective"] == "lambdarank" else (True,))
    ],
)


class Pool:
    """A data set of which some documents were retrieved, of some queries none."""

    def __init__(self, seed: int, weights: bool = False) -> None:
        whole, rng = make(seed, weights=weights), np.random.default_rng(seed)
        self.whole = whole
        share = np.repeat(
            rng.choice([0.0, 0.5, 0.8, 1.0], whole.n_queries, p=[0.1, 0.3, 0.3, 0.3]), whole.groups.sizes
        )
        self.flags: NDArray[np.bool_] = rng.random(whole.n_rows) < share
        self.flags[whole.groups.boundaries[3] : whole.groups.boundaries[4]] = False
        self.candidates = replace(
            whole,
            features=whole.features[self.flags],
            judgments=Judgments.checked(
                whole.labels,
                whole.groups,
                query_weights=whole.judgments.query_weights,
                retrieved=self.flags,
            ),
        )
        assert not self.candidates.groups.has_rows.all()

    @property
    def without_missed(self) -> RankingDataset:
        """The same rows, as they are where nobody says what was missed."""
        groups, weights = self.candidates.groups, self.whole.judgments.query_weights
        some = groups.has_rows
        judgments = Judgments.checked(
            self.candidates.labels,
            QueryGroups.from_sizes(groups.sizes[some]),
            query_weights=None if weights is None else weights[some],
        )
        return replace(self.candidates, judgments=judgments)

    def means(self, scores: NDArray[np.float64], metrics: tuple[Metric, ...] = METRICS) -> list[float]:
        """`evaluate`'s means of the whole pool, of which the candidates alone are retrieved."""
        of_pool = np.zeros(self.whole.n_rows)
        of_pool[self.flags] = scores
        found = evaluate(
            self.whole.labels,
            of_pool,
            group_sizes=self.whole.groups.sizes,
            query_weights=self.whole.judgments.query_weights,
            retrieved=self.flags,
            metrics=metrics,
        )
        return [found[metric].mean for metric in metrics]


@each_kind
def test_the_stored_history_is_the_evaluation_of_the_pool_at_every_round(
    kind: Any, fields: dict[str, Any], weights: bool
) -> None:
    if kind is CatBoostRanker:
        pytest.importorskip("catboost")
    train, valid = Pool(1, weights), Pool(2, weights)
    ranker = kind.model_validate(fields)
    stopping = StoppingRule(METRICS[0], patience=2, max_rounds=10)
    both = Training(train=train.candidates, valid=valid.candidates, metrics=METRICS, stopping=stopping)
    model = ranker.fit(both)
    whole = ranker.fit(Training(train=train.candidates, rounds=10))
    last = model.history[-1].round
    expected = [valid.means(whole.score_after(valid.candidates.features, at)) for at in range(1, last + 1)]
    np.testing.assert_allclose([one.value for one in model.history], np.ravel(expected), rtol=1e-9)
    assert model.best_round == 1 + int(np.argmax([row[0] for row in expected]))
    assert last in (10, model.best_round + 2)


@each_kind
def test_trees_of_the_librarys_objectives_do_not_depend_on_what_was_missed(
    kind: Any, fields: dict[str, Any], weights: bool, tmp_path: Path
) -> None:
    if kind is CatBoostRanker:
        pytest.importorskip("catboost")
    train, files = Pool(1, weights), []
    for number, split in enumerate(
        (train.candidates, train.without_missed, train.candidates.training_rows())
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = kind.model_validate(fields).fit(Training(train=split, rounds=3, seed=1))
        files.append((folder / model.save(folder)).read_bytes())
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("kind", [LightGBMRanker, XGBoostRanker])
def test_trees_of_a_metric_depend_on_what_was_missed(kind: Any) -> None:
    train = Pool(1)
    ranker = kind.model_validate({"objective": {"metric": "ndcg@5", "norm": False}})

    def scores(split: RankingDataset) -> NDArray[np.float64]:
        return np.asarray(ranker.fit(Training(train=split, rounds=3)).score(train.candidates.features))

    of_candidates = scores(train.candidates)
    assert (of_candidates != scores(train.without_missed)).any()
    np.testing.assert_array_equal(of_candidates, scores(train.candidates.training_rows()))


def test_parts_for_workers_have_rows() -> None:
    groups = QueryGroups(np.array([0, 0, 5, 5, 5, 6, 14, 14]), np.arange(7))
    assert cut(groups, 2) == [(0, 5), (5, 7)]
    assert cut(groups, 3) == [(0, 4), (4, 5), (5, 7)]  # queries with rows are 1, 4 and 5
    halves = cut(QueryGroups(np.array([0] * 10 + [0, 1, 2, 3, 4, 5, 6]), np.arange(16)), 2)
    assert halves == [(0, 13), (13, 16)]  # the first ten have none


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    pytest.importorskip("distributed", reason="needs ltr-harness[dask]")
    with local_cluster(2) as started:
        yield started.client


@pytest.mark.long
@pytest.mark.parametrize("kind", [LightGBMRanker, XGBoostRanker])
def test_across_workers_history_and_gradients_are_those_of_the_pool(kind: Any, client: Any) -> None:
    weighted = kind is LightGBMRanker  # XGBoost takes no query weights across workers
    train, valid = Pool(1, weighted), Pool(2, weighted)

    def fit(split: RankingDataset, objective: Any) -> Any:
        splits = {"train": split, "valid": valid.candidates}

        def load(address: str, name: str, first: int, end: int) -> Any:
            part = splits[name].take(np.arange(first, end))
            return client.scatter(part, workers=[address], hash=False)

        fields = {"objective": objective, "data_parallel": 2}
        more = {"valid": valid.candidates, "metrics": METRICS, "rounds": 4}
        return kind.model_validate(fields).fit(Training(train=split, workers=Workers(client, load), **more))

    model = fit(train.candidates, {"metric": "ndcg@5", "norm": False})
    expected = [valid.means(model.score_after(valid.candidates.features, at)) for at in range(1, 5)]
    assert {one.data for one in model.history} == {VALID}
    np.testing.assert_allclose([one.value for one in model.history], np.ravel(expected), rtol=1e-9)
    alone = fit(train.without_missed, {"metric": "ndcg@5", "norm": False})
    features = train.candidates.features
    assert (model.score(features) != alone.score(features)).any()


def test_rows_in_order_of_display_keep_what_was_missed() -> None:
    pool = Pool(1).candidates
    shown = replace(pool, positions=np.arange(pool.n_rows, 0, -1, dtype=np.int32))
    sorted_rows = by_position(shown).judgments
    assert sorted_rows.missed is pool.judgments.missed
    assert sorted_rows.labels.tolist() != pool.labels.tolist()


def test_what_is_said_about_a_model_counts_them() -> None:
    train, valid = Pool(1), Pool(2)
    model = LightGBMRanker(objective="lambdarank").fit(Training(train=train.candidates, rounds=5))
    scores = model.score(valid.candidates.features)
    *_, last = quality_by_trees(model, valid.candidates, METRICS)
    np.testing.assert_allclose(last.means, valid.means(scores), rtol=1e-12)
    effects = permutation_importance(model, valid.candidates, METRICS[0], repeats=1)
    column = valid.whole.feature_names.index(effects[0].feature)
    shuffled = np.array(valid.candidates.features)
    rng = np.random.Generator(np.random.Philox(key=[0, column]))
    shuffled[:, column] = shuffled[rng.permutation(len(shuffled)), column]
    loss = valid.means(scores)[0] - valid.means(model.score(shuffled))[0]
    assert effects[0].loss == pytest.approx(loss, abs=1e-12)
    empty = int(np.flatnonzero(~valid.candidates.groups.has_rows)[0])
    with pytest.raises(DataError, match=f"query '{empty}' has no row 0; all of its documents were missed"):
        score_difference(model, valid.candidates, str(empty), 0, 1)
    assert latency(model.score, valid.candidates.features, 10, calls=5).calls == 5
