"""Linear combinations by hand, and scores from files that do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import DataError
from ltr_harness.models.feature import FeatureModel
from ltr_harness.models.linear import LinearModel, LinearRanker
from ltr_harness.models.random import RandomModel
from ltr_harness.models.ranker import FittedModel, Training
from ltr_harness.models.scores import ScoresModel, ScoresRanker


class TestLinear:
    def test_it_is_the_weighted_sum(self, train: Any) -> None:
        model = LinearRanker(weights={"bm25": 0.7, "age": -0.2}).fit(Training(train=train))
        X = train.features.astype(float)
        np.testing.assert_allclose(model.score(train.features), 0.7 * X[:, 0] - 0.2 * X[:, 4], rtol=1e-12)

    def test_standardised_by_the_training_rows(self, train: Any, test: Any) -> None:
        model = LinearRanker(weights={"bm25": 2.0}, standardise=True).fit(Training(train=train))
        column = train.features[:, 0].astype(float)
        expected = 2 * (test.features[:, 0] - column.mean()) / column.std()
        np.testing.assert_allclose(model.score(test.features), expected, rtol=1e-6)

    def test_missing_and_constant_features_are_noted_and_add_nothing(self, train: Any) -> None:
        features = train.features.copy()
        features[:3, 0] = np.nan
        features[:, 4] = 7
        ranker = LinearRanker(weights={"bm25": 1.0, "age": 1.0}, standardise=True)
        model = ranker.fit(Training(train=replace(train, features=features)))
        assert model.score(features)[:3].tolist() == [0, 0, 0]
        assert tuple(map(str, model.cautions)) == (
            "constant in training, so without effect: age",
            "missing values in 3 training rows count as the training rows' mean",
        )

    def test_unknown_features_are_errors(self, facts: Any, problem_texts: Any) -> None:
        assert (
            "did you mean 'bm25'?"
            in problem_texts(LinearRanker(weights={"bm52": 1.0}).check(facts()))["weights"]
        )
        assert "no feature has a weight" in problem_texts(LinearRanker(weights={}).check())["weights"]


@pytest.mark.parametrize(
    ("model", "content", "message"),
    [
        (FeatureModel, '{"feature": "f", "column": 5, "n_features": 3, "ascending": true}', "column 5 of 3"),
        (FeatureModel, '{"feature": "f", "column": -1, "n_features": 3, "ascending": true}', "column: "),
        (FeatureModel, "[" * 200_000, "Invalid JSON"),
        (LinearModel, '{"columns": [0], "weights": [], "centre": [0], "n_features": 1}', "not of one length"),
        (LinearModel, '{"columns": [0], "weights": ["x"], "centre": [0], "n_features": 1}', "weights.0: "),
        (RandomModel, '{"seed": -1}', "seed: "),
        (RandomModel, "3", "object"),
    ],
)
def test_a_stored_model_of_another_form_is_told(
    model: type[FittedModel], content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(DataError, match=rf"model\.json: is not a stored model .*{message}"):
        model.load(tmp_path)


class TestScores:
    @pytest.fixture
    def named(self, test: Any) -> Any:
        documents = np.array([f"d{row}" for row in range(test.n_rows)])
        return replace(test, judgments=Judgments.checked(test.labels, test.groups, document_ids=documents))

    def lines(self, split: Any, scores: Any) -> list[str]:
        queries = np.repeat(split.groups.ids, split.groups.sizes)
        documents = split.judgments.document_ids
        rows = zip(queries, documents, scores.tolist(), strict=True)
        return [f"{query} Q0 {document} 0 {score!r} neural\n" for query, document, score in rows]

    def test_a_trec_run_is_joined_by_query_and_document(self, named: Any, tmp_path: Path) -> None:
        scores = np.random.default_rng(0).normal(size=named.n_rows)
        lines = [*self.lines(named, scores), "999 Q0 d0 1 3.5 neural\n"]  # a query of another fold
        path = tmp_path / "neural.run"
        path.write_text("".join(reversed(lines)))
        np.testing.assert_array_equal(ScoresModel(file=path).score_split(named), scores)
        assert ScoresRanker(file=path).check_scoring(named) == []

    def test_what_does_not_cover_the_rows_is_found_before_training(
        self, named: Any, test: Any, tmp_path: Path, problem_texts: Any
    ) -> None:
        path = tmp_path / "neural.run"
        path.write_text("".join(self.lines(named, np.zeros(named.n_rows))[1:]))
        text = problem_texts(ScoresRanker(file=path).check_scoring(named))["file"]
        assert f"1 of {named.n_rows:,} rows have no score, first in query '0': 'd0'" in text
        assert (
            "the data has no document ids"
            in problem_texts(ScoresRanker(file=path).check_scoring(test))["file"]
        )
        assert "no such file" in problem_texts(ScoresRanker(file=tmp_path / "none.csv").check())["file"]

    def test_a_table_may_hold_other_queries_but_no_other_rows_of_ours(
        self, named: Any, tmp_path: Path, problem_texts: Any
    ) -> None:
        queries = np.repeat(named.groups.ids, named.groups.sizes)
        rows = [f"{query},d{row},{row / 7!r}\n" for row, query in enumerate(queries)]
        path = tmp_path / "neural.csv"
        path.write_text("query_id,document_id,score\nother,d1,5\n" + "".join(rows))
        expected = [row / 7 for row in range(named.n_rows)]
        assert ScoresModel(file=path).score_split(named).tolist() == expected
        path.write_text("query_id,document_id,score\n0,stranger,5\n" + "".join(rows))
        assert "stranger" in problem_texts(ScoresRanker(file=path).check_scoring(named))["file"]

    def test_they_belong_to_rows_and_not_to_features(self, test: Any, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="belong to its own rows and not to features"):
            ScoresModel(file=tmp_path / "s.npy").score(test.features)
