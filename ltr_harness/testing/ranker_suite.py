"""Tests for every ranker, to inherit."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import RankerError
from ltr_harness.metrics import NDCG, bind
from ltr_harness.models.ranker import FittedModel, Ranker, Training, TrainingFacts
from ltr_harness.models.table import catalog

NAMES = ("one", "two", "three", "four")
RULE = StoppingRule(NDCG(k=5), patience=3, max_rounds=12)


_models: dict[tuple[type, type, str, int, int], FittedModel] = {}


def _made_data(seed: int, n_queries: int = 60) -> RankingDataset:
    """Queries of 1 to 20 rows, grades 0 to 3 that depend on two of four features, some queries blank."""
    rng = np.random.default_rng(seed)
    groups = QueryGroups.from_sizes(rng.integers(1, 21, n_queries))
    features = rng.normal(size=(groups.n_rows, len(NAMES))).astype(np.float32)
    utility = features[:, 0] + 0.6 * features[:, 1] + rng.normal(size=groups.n_rows)
    labels = np.clip(np.round(utility), 0, 3)
    documents = np.array([f"d{row:05d}" for row in range(groups.n_rows)])
    judgments = Judgments.checked(labels, groups, document_ids=documents)
    positions = np.concatenate([np.arange(1, size + 1) for size in groups.sizes.tolist()])
    return RankingDataset(features, judgments, NAMES, source=f"made from seed {seed}", positions=positions)


ranking_data = cache(_made_data)


class RankerSuite:
    """Tests of one ranker, for pytest.

    Inherit, set `ranker` and `fields`, and pytest runs every test on small made-up data whose features are called
    one, two, three and four. Exceptions are declared by the class attributes below; each is also a
    sentence of its documentation.

    Attributes:
        ranker: the class, or its name: as after ``ranker:`` in an experiment file.
        fields: its options, as in an experiment file.
        scores_features: the model scores any rows by their features (not a table of scores for known rows).
        by_row: a row's score depends on its features alone, and not on where the row stands.
        repeats: the same training gives the same scores, to the bit.

    Example:
        In ``test_my_ranker.py``::

            class TestMyRanker(RankerSuite):
                ranker = "./my_ranker.py:MyRanker"
                fields = {"depth": 3}
    """

    ranker: ClassVar[type[Ranker] | str]
    fields: ClassVar[Mapping[str, Any]] = {}
    scores_features: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
    repeats: ClassVar[bool] = True

    # --- definition ---

    def test_it_is_a_value_that_reads_back(self) -> None:
        ranker = self.made()
        assert type(ranker).model_validate_json(ranker.model_dump_json()) == ranker
        assert (type(ranker).__doc__ or "").strip(), "its first line is the ranker's in `list rankers`"

    def test_it_finds_nothing_wrong_with_good_data(self) -> None:
        assert self.made().check() == []
        assert self.made().check(TrainingFacts.of(ranking_data(1), stopping=True)) == []
        assert self.made().check_scoring(ranking_data(3)) == []

    def test_its_facts_are_plain_values(self) -> None:
        assert json.loads(json.dumps(self.made().definition())) is not None

    # --- training ---

    def test_the_same_training_gives_the_same_scores(self) -> None:
        if self.repeats:
            again = self._trained_once(repetition=2)
            np.testing.assert_array_equal(self.scores(self.shared_model()), self.scores(again))

    def test_another_seed_matters_only_where_it_says_so(self) -> None:
        same = np.array_equal(self.scores(self.shared_model()), self.scores(self.fitted(seed=2)))
        assert same != self.made().seed_matters

    def test_another_number_of_threads_matters_only_where_it_says_so(self) -> None:
        if not self.made().threads_matter:
            other = self._trained_once(threads=2)
            np.testing.assert_array_equal(self.scores(self.shared_model()), self.scores(other))

    def test_it_keeps_to_its_threads(self) -> None:
        training = Training(train=ranking_data(1, n_queries=2000), seed=1, threads=1, rounds=30)
        for _ in range(3):  # something else in this process may be busy for a moment
            all_threads, this_thread = time.process_time(), time.thread_time()
            self.made().fit(training)
            this_thread = time.thread_time() - this_thread
            other_threads = time.process_time() - all_threads - this_thread
            # CPU time and not wall time: a busy machine changes nothing. All in one other thread is one thread, too.
            if min(this_thread, other_threads) <= 0.1 * (this_thread + other_threads) + 0.02:
                return
        raise AssertionError(f"with one thread, it used {other_threads:.2f} s of CPU in others")

    def test_training_leaves_its_data_alone(self) -> None:
        self.shared_model()
        data, untouched = ranking_data(1), _made_data(1)
        np.testing.assert_array_equal(data.features, untouched.features)
        np.testing.assert_array_equal(data.labels, untouched.labels)

    def test_scores_are_numbers_one_for_each_row(self) -> None:
        scores = self.scores(self.shared_model())
        assert scores.dtype == np.float64
        assert scores.shape == (ranking_data(3).n_rows,)
        assert not np.isnan(scores).any()

    # --- stopping ---

    def test_it_keeps_the_round_that_the_rule_keeps(self) -> None:
        if not self.made().boosted:
            return
        model = self.shared_model()
        curve = [point for point in model.history if point.metric == str(RULE.metric)]
        assert [point.round for point in curve] == list(range(1, len(curve) + 1))
        stopper = Stopper(RULE)
        stops = [stopper.update(point.round, point.value) for point in curve]
        assert not any(stops[:-1]), "it went on after the rule said stop"
        assert stops[-1] or len(curve) == RULE.max_rounds
        assert model.best_round == stopper.best_round
        valid = ranking_data(2)
        value = float(bind([RULE.metric], valid.judgments).means(model.score(valid.features))[0])
        np.testing.assert_allclose(value, stopper.best_value, rtol=0, atol=1e-9)

    def test_it_looks_only_at_every_nth_round_if_told_to(self) -> None:
        if self.made().boosted:
            model = self.fitted(stopping=replace(RULE, every=4, patience=100, max_rounds=10))
            assert sorted({point.round for point in model.history}) == [4, 8, 10]

    def test_without_a_rule_it_trains_the_rounds_given(self) -> None:
        if self.made().boosted:
            model = self.made().fit(Training(train=ranking_data(1), rounds=7))
            assert model.best_round == model.rounds_trained == 7

    def test_it_refuses_to_train_without_an_end(self) -> None:
        if self.made().boosted:
            message = ""
            try:
                self.made().fit(Training(train=ranking_data(1)))
            except RankerError as error:
                message = str(error)
            assert "rounds" in message, "neither a rule nor a number of rounds, and it trained"

    # --- the model ---

    def test_what_is_saved_and_loaded_scores_the_same(self, tmp_path: Path) -> None:
        model = self.shared_model()
        file = model.save(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [file]
        assert file.startswith("model.")
        loaded = self.made().load(tmp_path, threads=1)
        np.testing.assert_array_equal(self.scores(loaded), self.scores(model))
        assert loaded.best_round == model.best_round

    def test_the_same_training_saves_the_same_bytes(self, tmp_path: Path) -> None:
        if not self.repeats:
            return
        files: list[bytes] = []
        models = [self.shared_model(), self._trained_once(repetition=2)]
        if not self.made().threads_matter:
            models.append(self._trained_once(threads=2))
        for model in models:
            folder = tmp_path / str(len(files))
            folder.mkdir()
            files.append((folder / model.save(folder)).read_bytes())
        assert files.count(files[0]) == len(files)

    def test_a_row_scores_the_same_wherever_it_stands(self) -> None:
        if not (self.scores_features and self.by_row):
            return
        model, features = self.shared_model(), ranking_data(3).features
        order = np.random.default_rng(0).permutation(len(features))
        np.testing.assert_array_equal(model.score(features[order]), model.score(features)[order])
        np.testing.assert_array_equal(model.score(features[:7]), model.score(features)[:7])
        assert model.score(features[:0]).shape == (0,)

    def test_memory_layout_and_precision_of_features_do_not_matter(self) -> None:
        if self.scores_features:
            model, features = self.shared_model(), np.asarray(ranking_data(3).features)
            for other in (np.asfortranarray(features), features.astype(np.float64), features.tolist()):
                np.testing.assert_array_equal(model.score(other), model.score(features))

    # --- what they share ---

    def made(self) -> Ranker:
        """The ranker under test."""
        kind = catalog.load(self.ranker, RankerError) if isinstance(self.ranker, str) else self.ranker
        validated: Ranker = kind.model_validate(dict(self.fields))
        return validated

    def shared_model(self) -> FittedModel:
        """Return the model of `fitted`, trained once for all tests that only look at it."""
        return self._trained_once()

    def _trained_once(self, *, repetition: int = 1, threads: int = 1) -> FittedModel:
        """Return a model of `fitted` for all tests; each repetition is a training of its own."""
        ranker = self.made()
        key = (type(self), type(ranker), ranker.model_dump_json(), repetition, threads)
        if key not in _models:
            _models[key] = self.fitted(threads=threads)
        return _models[key]

    def fitted(self, *, seed: int = 1, threads: int = 1, stopping: StoppingRule = RULE) -> FittedModel:
        """The ranker trained on the suite's data.

        Args:
            seed: of the training.
            threads: to train with.
            stopping: when it ends.
        """
        training = Training(
            train=ranking_data(1), valid=ranking_data(2), seed=seed, threads=threads, stopping=stopping
        )
        return self.made().fit(training)

    def scores(self, model: FittedModel) -> NDArray[np.float64]:
        """The model's scores of the suite's test split."""
        return model.score_split(ranking_data(3))
