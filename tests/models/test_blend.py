"""A weighted sum of models: its parts beside SciPy, its weights beside every weight there is, and its archive."""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import ltr_harness
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.errors import DataError, RankerError, UsageError
from ltr_harness.metrics import NDCG, parse_metric
from ltr_harness.metrics.log_loss import LogLoss
from ltr_harness.models.blend import BlendModel, BlendRanker, ranks, z_scores
from ltr_harness.models.feature import FeatureRanker
from ltr_harness.models.ranker import BlendPart, FittedModel, Ranker, Training
from ltr_harness.testing import RankerSuite
from ltr_harness.testing.ranker_suite import RULE, ranking_data

SIZES = st.lists(st.integers(0, 7), min_size=1, max_size=6)


def part(folder: Path, ranker: Ranker, name: str = "feature", **training: Any) -> BlendPart:
    folder.mkdir()
    model = ranker.fit(Training(train=ranking_data(1), **training))
    return BlendPart(name, model, folder / model.save(folder))


def parts_by_feature(folder: Path, *features: str) -> dict[str, BlendPart]:
    return {name: part(folder / name, FeatureRanker(feature=name)) for name in features}


class _Blend(RankerSuite):
    ranker = "blend"
    by_row = False

    parts: ClassVar[dict[str, BlendPart]]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _parts(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.parts = parts_by_feature(tmp_path_factory.mktemp("parts"), "one", "two", "four")

    def fitted(self, *, seed: int = 1, threads: int = 1, stopping: StoppingRule = RULE) -> FittedModel:
        training = Training(train=ranking_data(1), valid=ranking_data(2), seed=seed, threads=threads)
        return self.made().fit(replace(training, decision_metric=stopping.metric, parts=self.parts))

    def test_it_keeps_to_its_threads(self) -> None:
        """It trains nothing."""


@pytest.mark.long
class TestScores(_Blend):
    fields: ClassVar[dict[str, Any]] = {"of": ["one", "two", "four"], "how": "scores"}


class TestRanks(_Blend):
    scores_features = False
    fields: ClassVar[dict[str, Any]] = {"of": ["one", "two", "four"], "how": "ranks"}


class TestGivenWeights(_Blend):
    scores_features = False
    fields: ClassVar[dict[str, Any]] = {
        "of": ["one", "two"],
        "how": "z-scores",
        "weights": {"one": 2, "two": 0},
    }


@given(SIZES, st.data())
def test_ranks_are_percentile_ranks_with_ties_counted_half(sizes: list[int], data: st.DataObject) -> None:
    groups = QueryGroups.from_counts(np.array(sizes), np.arange(len(sizes)))
    some = st.sampled_from([-np.inf, -1e300, -1.0, 0.0, 5e-324, 2.0, 1e300, np.inf])
    scores = np.array(data.draw(st.lists(some, min_size=groups.n_rows, max_size=groups.n_rows)))
    made = ranks(scores, groups)
    for first, end in itertools.pairwise(groups.boundaries.tolist()):
        own = np.nan_to_num(
            scores[first:end]
        )  # for SciPy until 1.12, which takes the sum of infinities for a gap
        assert made[first:end].tolist() == [rank - 0.5 for rank in stats.rankdata(own)]
        percent = [stats.percentileofscore(own, one, kind="mean") for one in own]
        np.testing.assert_allclose(made[first:end] / max(end - first, 1), np.array(percent) / 100, atol=1e-12)


@given(SIZES, st.data())
def test_z_scores_are_scipys_and_0_where_all_are_equal(sizes: list[int], data: st.DataObject) -> None:
    groups = QueryGroups.from_counts(np.array(sizes), np.arange(len(sizes)))
    some = st.sampled_from([0.1, 0.3, 7.0, -2.5, 1000.0])
    scores = np.array(data.draw(st.lists(some, min_size=groups.n_rows, max_size=groups.n_rows)))
    made = z_scores(scores, groups)
    for first, end in itertools.pairwise(groups.boundaries.tolist()):
        own = scores[first:end]
        if len(set(own)) > 1:
            np.testing.assert_allclose(made[first:end], stats.zscore(own), atol=1e-9)
        else:
            assert made[first:end].tolist() == [0.0] * own.size


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_z_scores_of_tiny_and_huge_scores_neither_overflow_nor_vanish(scale: float) -> None:
    groups = QueryGroups.from_sizes([3])
    np.testing.assert_allclose(
        z_scores(np.array([1.0, 2.0, 6.0]) * scale, groups), stats.zscore([1.0, 2.0, 6.0])
    )


def test_equal_sums_of_ranks_are_exactly_equal(tmp_path: Path) -> None:
    """1 + 4 and 2 + 3 in queries of any length, where thirds and sevenths would be rounded."""
    n = 7
    groups = QueryGroups.from_sizes([n])
    features = np.array([np.arange(n), np.arange(n)[::-1], np.zeros(n), np.ones(n)], np.float32).T
    data = replace(ranking_data(3), features=features, judgments=Judgments.checked(np.arange(n), groups))
    parts = parts_by_feature(tmp_path, "one", "two", "three")
    for weights in ([1, 1, 1], [3, 3, 1], [0.5, 0.5, 2]):
        model = BlendModel(how="ranks", parts=parts, weights=weights)
        assert set(model.score_split(data).tolist()) == {0.5}


def chosen_blend(
    parts: Mapping[str, BlendPart], metric: str, how: str = "z-scores"
) -> tuple[FittedModel, list[float]]:
    training = Training(
        train=ranking_data(1), valid=ranking_data(2), decision_metric=parse_metric(metric), parts=parts
    )
    model = BlendRanker(of=tuple(parts), how=how).fit(training)  # type: ignore[arg-type]
    return model, list(model.learned["weights"].values())


def columns_by_hand(parts: Mapping[str, BlendPart], how: str) -> Any:
    """Return the summands of a blend on validation data, unweighted, from SciPy's numbers. Shape (parts, rows)."""
    valid = ranking_data(2)
    columns = np.stack([one.model.score(valid.features).astype(float) for one in parts.values()])
    for column in columns:
        for first, end in itertools.pairwise(valid.groups.boundaries.tolist()):
            own = column[first:end]
            if how == "ranks":
                column[first:end] = stats.rankdata(own)
            elif how == "z-scores":
                column[first:end] = stats.zscore(own) if len(set(own)) > 1 else 0.0
    return columns


def by_hand(columns: Any, weights: list[float]) -> float:
    """The ndcg@10 of a blend on validation data, by `evaluate`."""
    valid = ranking_data(2)
    total = np.array(weights) @ columns
    ids = np.repeat(np.arange(valid.n_queries), valid.groups.sizes)
    return float(ltr_harness.evaluate(valid.labels, total, ["ndcg@10"], query_ids=ids)["ndcg@10"].mean)


@pytest.mark.long
@pytest.mark.parametrize("how", ["ranks", "z-scores", "scores"])
def test_the_weights_of_two_models_are_the_best_of_all_twentieths(tmp_path: Path, how: str) -> None:
    parts = parts_by_feature(tmp_path, "one", "two")
    model, weights = chosen_blend(parts, "ndcg@10", how)
    columns = columns_by_hand(parts, how)
    values = {k: by_hand(columns, [k, 20 - k]) for k in range(21)}
    best = max(values.values())
    equal = [k for k, value in values.items() if value > best - 1e-12]
    assert round(20 * weights[0]) == max(equal, key=lambda k: (-abs(k - 10), k))
    assert 0 < weights[0] < 1, "feature one and feature two both say something"
    assert f"ndcg@10 on validation data ({best:.4f}): one {weights[0]:.2f}, two" in model.cautions[0].text


@pytest.mark.long
def test_no_move_between_two_of_three_models_improves_the_chosen_weights(tmp_path: Path) -> None:
    parts = parts_by_feature(tmp_path, "one", "two", "four")
    _, weights = chosen_blend(parts, "ndcg@10")
    steps = [round(21 * one) for one in weights]
    np.testing.assert_allclose(weights, np.array(steps) / 21)
    columns = columns_by_hand(parts, "z-scores")
    best = by_hand(columns, weights)
    assert best > max(by_hand(columns, list(one)) for one in np.eye(3))
    for giver, taker in itertools.permutations(range(3), 2):
        for step in range(1, steps[giver] + 1):
            moved = list(steps)
            moved[giver], moved[taker] = moved[giver] - step, moved[taker] + step
            assert by_hand(columns, [one / 21 for one in moved]) <= best + 1e-12


def test_equal_values_leave_the_weights_even_and_lower_may_be_better(tmp_path: Path) -> None:
    parts = parts_by_feature(tmp_path, "one")
    for metric in ("ndcg@10", "log_loss"):
        assert chosen_blend({"a": parts["one"], "b": parts["one"]}, metric)[1] == [0.5, 0.5]
    against = {
        "one": parts["one"],
        "down": part(tmp_path / "down", FeatureRanker(feature="one", ascending=True)),
    }
    high, low = chosen_blend(against, "ndcg@10")[1], chosen_blend(against, "kendall_tau_distance")[1]
    assert high[0] > 0.5
    assert low[0] > 0.5, "a distance is better where it is lower"


def percentile_ranks(scores: Any, sizes: list[int]) -> Any:
    """By comparing each pair of a query's documents."""
    parts = []
    for first, end in itertools.pairwise(np.cumsum([0, *sizes])):
        own = scores[first:end]
        above, equal = own[:, None] > own[None, :], own[:, None] == own[None, :]
        parts.append((above.sum(axis=1) + equal.sum(axis=1) / 2) / own.size)
    return np.concatenate(parts)


@pytest.mark.parametrize(
    ("how", "metric"),
    [
        ("ranks", "log_loss"),
        ("ranks", "log_loss(temperature=0.2)"),
        ("scores", "brier"),
    ],
)
def test_probabilities_choose_the_weights_by_what_is_reported(tmp_path: Path, how: Any, metric: str) -> None:
    """The weights are those twentieths whose blended scores have the best value, at the T that the blend has."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(4, 12, 40).tolist()
    signal, one, two, chance = rng.normal(size=(4, sum(sizes)))
    # two views of what decides, each with noise of its own, and on other scales
    columns = np.stack([4 * (signal + 0.8 * one), signal + two, chance], axis=1).astype(np.float32)
    worth = signal + rng.gumbel(size=signal.size)
    won = [own == own.max() for own in np.split(worth, np.cumsum(sizes)[:-1])]
    races = from_arrays(columns, np.concatenate(won).astype(float), group_sizes=sizes)
    parts = {}
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
        model = FeatureRanker(feature=name).fit(Training(train=races))
        parts[name] = BlendPart("feature", model, tmp_path / name / model.save(tmp_path / name))
    decision = parse_metric(metric)
    blend = BlendRanker(of=("0", "1"), how=how).fit(
        Training(train=races, valid=races, decision_metric=decision, parts=parts)
    )
    summed = [columns[:, at].astype(float) for at in (0, 1)]
    if how == "ranks":
        summed = [percentile_ranks(own, sizes) for own in summed]
    values = {}
    for k in range(21):
        scores = (k * summed[0] + (20 - k) * summed[1]) / 20
        t = LogLoss().best_temperature(races.judgments, scores)
        name = metric if "(" in metric else f"{metric}(temperature={t!r})"
        values[k] = ltr_harness.evaluate(races.labels, scores, [name], group_sizes=sizes).means[name]
    best = min(values, key=lambda k: (round(values[k], 12), abs(k - 10)))
    assert 0 < best < 20
    assert round(20 * blend.learned["weights"]["0"]) == best
    assert f"{metric} on validation data ({values[best]:.4f})" in blend.cautions[0].text


def test_what_has_nothing_to_choose_by_is_refused(tmp_path: Path) -> None:
    parts = parts_by_feature(tmp_path, "one", "two")
    blend = BlendRanker(of=("one", "two"), how="ranks")
    with pytest.raises(RankerError, match="weights: are not given, and there is no validation data"):
        blend.fit(Training(train=ranking_data(1), parts=parts))
    with pytest.raises(RankerError, match=r"of: Training.parts has no 'two'"):
        blend.fit(Training(train=ranking_data(1), parts={"one": parts["one"]}))
    valid = ranking_data(2)
    blank = replace(valid, judgments=Judgments.checked(np.zeros(valid.n_rows), valid.groups))
    with pytest.raises(DataError, match="ndcg@10 is undefined on validation data"):
        blend.fit(Training(train=ranking_data(1), valid=blank, parts=parts, decision_metric=NDCG(k=10)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": ["a"]}, "of: names a; expected at least two models, each once"),
        ({"of": []}, "of: names no model; expected at least two"),
        ({"of": ["a", "b", "a"]}, "of: names a, b, a; expected at least two models, each once"),
        (
            {"weights": {"a": 1, "c": 1}},
            "weights: are of a, c; expected one of each model in `of`; 0 leaves a model out",
        ),
        ({"weights": {}}, "weights: are of no model; expected one"),
        ({"weights": {"a": 0, "b": 0}}, "weights: are all 0; expected one above 0"),
        ({"weights": {"a": -1, "b": 1}}, "weights.a: is -1; expected 0, or 0.000001 to 1,000,000"),
        ({"weights": {"a": np.nan, "b": 1}}, "weights.a: is nan; expected 0"),
        ({"weights": {"a": np.inf, "b": 1}}, "weights.a: is inf; expected 0"),
    ],
)
def test_what_is_no_blend_is_said(options: dict[str, Any], message: str) -> None:
    (problem,) = BlendRanker.model_validate({"of": ["a", "b"], "how": "ranks", **options}).check()
    assert message in str(problem)


def test_infinite_scores_have_ranks_alone(tmp_path: Path) -> None:
    data = ranking_data(3)
    features = data.features.copy()
    features[:3, 0] = np.nan  # which `ranker: feature` ranks last
    data = replace(data, features=features)
    parts = parts_by_feature(tmp_path, "one", "two")
    for how in ("z-scores", "scores"):
        model = BlendModel(how=how, parts=parts, weights=[0, 1])  # type: ignore[arg-type]
        with pytest.raises(DataError, match="part 'one': 3 scores infinite; use `how: ranks`"):
            model.score_split(data)
    assert np.isfinite(BlendModel(how="ranks", parts=parts, weights=[1, 1]).score_split(data)).all()


def test_features_alone_have_no_queries(tmp_path: Path) -> None:
    model = BlendModel(how="ranks", parts=parts_by_feature(tmp_path, "one", "two"), weights=[1, 1])
    with pytest.raises(
        DataError, match="a blend of ranks compares the rows of a query, and there are features"
    ):
        model.score(ranking_data(3).features)


# --- the archive ---


@pytest.fixture
def stored_model(tmp_path: Path) -> Path:
    model = BlendModel(how="ranks", parts=parts_by_feature(tmp_path, "one", "two"), weights=[1, 2])
    (tmp_path / "stored").mkdir()
    model.save(tmp_path / "stored")
    return tmp_path / "stored" / "model.zip"


def change_stored(stored_model: Path, **contents: Any) -> None:
    with zipfile.ZipFile(stored_model) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    about = json.loads(files["blend.json"])
    files["blend.json"] = json.dumps(about | contents).encode()
    with zipfile.ZipFile(stored_model, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def stored_part(**fields: Any) -> dict[str, Any]:
    return {"one": {"ranker": "feature", "file": "model.json", "weight": 1.0} | fields}


@pytest.mark.parametrize(
    "contents",
    [
        {"how": "sums"},
        {"parts": stored_part(weight=-1.0)},
        {"parts": stored_part(weight=float("nan"))},
        {"parts": stored_part(weight=0.0)},
        {"parts": {}},
        {"parts": stored_part(file="../blend.json")},
        {"parts": stored_part(file="/etc/hostname")},
        {"parts": stored_part(file="model.txt")},
        {"more": 1},
    ],
)
def test_contents_that_are_none_are_refused(stored_model: Path, contents: dict[str, Any]) -> None:
    change_stored(stored_model, **contents)
    with pytest.raises(DataError, match=r"model.zip: is not a stored model"):
        BlendModel.load(stored_model.parent)


def test_a_damaged_archive_is_refused_wherever_it_is_damaged(stored_model: Path) -> None:
    whole = stored_model.read_bytes()
    for place in range(0, len(whole), 13):
        stored_model.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            model = BlendModel.load(stored_model.parent)
        except UsageError:
            continue
        assert list(model.weights) == [1, 2]  # a byte that nothing reads
    for length in range(0, len(whole), 50):
        stored_model.write_bytes(whole[:length])
        with pytest.raises(DataError, match="is not a stored model"):
            BlendModel.load(stored_model.parent)


def test_an_archive_that_grows_is_refused(stored_model: Path) -> None:
    with zipfile.ZipFile(stored_model, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(10**6))
    with pytest.raises(DataError, match="larger inside than outside"):
        BlendModel.load(stored_model.parent)


def test_nothing_is_left_behind(stored_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(own))
    model = BlendModel.load(stored_model.parent)
    assert len(list(own.iterdir())) == 1
    del model
    assert not list(own.iterdir())
    change_stored(stored_model, parts=stored_part(ranker="no-such"))
    with pytest.raises(UsageError, match="no-such"):
        BlendModel.load(stored_model.parent)
    assert not list(own.iterdir())
