"""The synthetic set is what it says, and the same everywhere."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset
from ltr_harness.data.readers.synthetic import Clicks, QueryCounts, RandomStream, Synthetic
from ltr_harness.errors import DataError

HERE = Path()
PLAIN = {
    "train": "6de95990e69e3d484d7c2792cc06f28d1e0c9691fabae7c24e218f41f86efe50",
    "valid": "0a6ff1ea2b85aa00b36857299b543097a7c6789a14c33c989e729500f9a427f7",
    "test": "c118f032b7014b9bc72aef5b0585e012c5f845772620c7eacb225af33d06efb3",
}
PLANTED = ["3a9da1c79c7e8610", "2483f76addd1182e", "f5b26661d94b5e48"]


def ndcg(data: RankingDataset, scores: np.ndarray, k: int = 10) -> float:
    """Written out: mean over queries with a relevant document, gain 2^g - 1, discount log2(1 + rank)."""
    found = []
    for start, end in zip(data.groups.boundaries[:-1], data.groups.boundaries[1:], strict=True):
        gains = 2 ** data.labels[start:end] - 1
        discounts = 1 / np.log2(np.arange(2, min(k, end - start) + 2))
        best = np.sort(gains)[::-1][:k] @ discounts
        if best > 0:
            found.append(gains[np.argsort(-scores[start:end], kind="stable")[:k]] @ discounts / best)
    return float(np.mean(found))


@pytest.fixture(scope="module")
def train() -> RankingDataset:
    return Synthetic().read(["train"], HERE)


@pytest.mark.long
def test_the_same_bytes_for_ever() -> None:
    digests = {
        name: fingerprint_dataset(Synthetic().read([name], HERE)) for name in ("train", "valid", "test")
    }
    assert digests == PLAIN


def test_draws_are_exact_functions_of_raw_integers() -> None:
    """In Python's own integers and fractions: what no other NumPy or processor can round differently."""
    raw = np.random.PCG64(np.random.SeedSequence([3, 1])).random_raw(7).tolist()
    assert raw[0] == 0x40D53196FA6D3213, "the stream that NumPy guarantees"
    assert RandomStream(3, 1).uniform(7).tolist() == [float(Fraction(word >> 11, 2**53)) for word in raw]
    shorts = [(word >> shift) & 0xFFFF for word in raw[:6] for shift in (0, 16, 32, 48)]
    sums = [sum(shorts[i : i + 12]) for i in (0, 12)]
    assert RandomStream(3, 1).normal(2).tolist() == [
        float(Fraction(total - 393_210, 65_536)) for total in sums
    ]


@pytest.mark.long
def test_the_same_bytes_without_the_processors_vector_units() -> None:
    """Another processor takes NumPy's other loops: here those for the plainest one of its kind."""
    features = " ".join(np._core._multiarray_umath.__cpu_dispatch__)  # type: ignore[attr-defined]
    assert features
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from pathlib import Path\n"
        "from ltr_harness.data.dataset import fingerprint_dataset\n"
        "from ltr_harness.data.readers.synthetic import Clicks, QueryCounts, Synthetic\n"
        "few = QueryCounts(train=20, valid=5, test=5)\n"
        "planted = dict(clicks=Clicks(), drift=0.5, markets=3, leak=0.7, duplicates=0.2)\n"
        "for reader in (Synthetic(n_queries=few), Synthetic(n_queries=few, **planted)):\n"
        "    print(*(fingerprint_dataset(reader.read([name], Path())) for name in ('train', 'valid', 'test')))"
    )
    with contextlib.redirect_stdout(io.StringIO()) as here:
        exec(code, {})
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | {"NPY_DISABLE_CPU_FEATURES": features},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(set(found.stdout.split())) == 6
    assert found.stdout == here.getvalue()


def test_it_looks_like_web_search(train: RankingDataset) -> None:
    assert (train.n_queries, train.n_features) == (600, 40)
    shares = np.bincount(train.labels.astype(int), minlength=5) / train.n_rows
    # MSLR-WEB30K: .515 .325 .134 .018 .008
    np.testing.assert_allclose(shares, [0.52, 0.32, 0.13, 0.02, 0.01], atol=0.03)
    sizes = train.groups.sizes
    assert sizes.min() == 5
    assert 190 < sizes.max() <= 200
    assert np.median(sizes) < 0.5 * np.mean(sizes)
    empty = np.maximum.reduceat(train.labels, train.groups.boundaries[:-1]) == 0
    assert 0.005 < empty.mean() < 0.08
    same = np.all(train.features[1:] == train.features[:-1], axis=1)
    assert 0.01 < same.mean() < 0.03


@pytest.mark.long
def test_the_planted_truth_is_the_ceiling(train: RankingDataset) -> None:
    reader = Synthetic()
    best = ndcg(train, reader.truth(train))
    assert 0.85 < best < 0.95
    for name in ("match_1", "match_2", "match_3", "copy_1"):
        assert ndcg(train, train.features[:, train.feature_names.index(name)]) < best - 0.1
    without_noise = Synthetic(noise=0.0)
    data = without_noise.read(["valid"], HERE)
    assert ndcg(data, without_noise.truth(data)) == 1.0


def test_truth_has_the_scale_that_noise_is_given_in(train: RankingDataset) -> None:
    utility = Synthetic().truth(train)
    assert abs(utility.mean()) < 0.05
    assert abs(utility.std() - 1) < 0.05


def test_query_features_are_constant_within_queries(train: RankingDataset) -> None:
    starts = train.groups.boundaries[:-1]
    for column, name in enumerate(train.feature_names):
        values = train.features[:, column]
        constant = np.maximum.reduceat(values, starts) == np.minimum.reduceat(values, starts)
        assert constant.all() == name.startswith("query_"), name
    first = train.features[starts, train.feature_names.index("query_1")]
    np.testing.assert_array_equal(train.query_attributes["intent"] == "navigational", first > 0)


@pytest.mark.long
def test_splits_and_seeds_are_different_draws(train: RankingDataset) -> None:
    reader = Synthetic(n_queries=QueryCounts(train=600, valid=60, test=60))
    parts = [reader.read([name], HERE) for name in ("train", "valid", "test")]
    np.testing.assert_array_equal(parts[0].features, train.features)
    assert len({fingerprint_dataset(part) for part in parts}) == 3
    other = Synthetic(seed=2, n_queries=reader.n_queries).read(["test"], HERE)
    assert fingerprint_dataset(other) != fingerprint_dataset(parts[2])
    ids = np.concatenate([part.groups.ids for part in parts])
    assert len(np.unique(ids)) == len(ids)


def test_splits_can_be_joined() -> None:
    reader = Synthetic(n_queries=QueryCounts(train=3, valid=2, test=1))
    joined = reader.read(["train", "valid"], HERE)
    assert joined.n_queries == 5
    assert joined.n_rows == sum(reader.read([name], HERE).n_rows for name in ("train", "valid"))


@pytest.mark.parametrize("n_features", [12, 13, 136])
def test_any_number_of_features(n_features: int) -> None:
    data = Synthetic(n_features=n_features).read(["test"], HERE)
    assert data.features.shape[1] == len(set(data.feature_names)) == n_features
    assert np.isfinite(data.features).all()


def test_sizes_as_asked() -> None:
    data = Synthetic(min_rows=1, max_rows=3).read(["train"], HERE)
    assert set(data.groups.sizes) == {1, 2, 3}


def test_wrong_options_and_splits() -> None:
    with pytest.raises(DataError, match="no split is called 'trian'; did you mean 'train'"):
        Synthetic().read(["trian"], HERE)
    with pytest.raises(ValidationError, match="min_rows is 10, above max_rows, which is 5"):
        Synthetic(min_rows=10, max_rows=5)
    with pytest.raises(ValidationError):
        Synthetic(n_queries={"train": 0})  # type: ignore[arg-type]


# --- plants ----------------------------------------------------------------------------------------------------


def test_plants_draw_from_streams_of_their_own(train: RankingDataset) -> None:
    planted = Synthetic(clicks=Clicks(), markets=3, leak=0.5, duplicates=0.5).read(["train"], HERE)
    np.testing.assert_array_equal(planted.features[:, :-1], train.features[:, :-1])
    np.testing.assert_array_equal(planted.groups.boundaries, train.groups.boundaries)


@pytest.mark.long
def test_plants_are_the_same_bytes_for_ever() -> None:
    reader = Synthetic(clicks=Clicks(), drift=0.5, markets=3, leak=0.7, duplicates=0.2)
    digests = [fingerprint_dataset(reader.read([name], HERE))[:16] for name in ("train", "valid", "test")]
    assert digests == PLANTED


@pytest.mark.long
def test_clicks_fall_with_the_position() -> None:
    reader = Synthetic(clicks=Clicks(position_bias=0.9, noise=0.05))
    data = reader.read(["train"], HERE)
    assert set(data.labels) == {0, 1}
    assert data.positions is not None
    rate = [data.labels[data.positions == p].mean() for p in (1, 2, 5, 10)]
    assert rate == sorted(rate, reverse=True)
    assert rate[0] > 3 * rate[3]
    starts = data.groups.boundaries[:-1]
    assert (np.minimum.reduceat(data.positions, starts) == 1).all()
    np.testing.assert_array_equal(np.maximum.reduceat(data.positions, starts), data.groups.sizes)
    test = reader.read(["test"], HERE)
    np.testing.assert_array_equal(test.labels, Synthetic().read(["test"], HERE).labels)
    assert test.positions is not None, "the same columns in all splits"


@pytest.mark.long
def test_clicks_without_bias_or_noise_follow_the_grades() -> None:
    grades = Synthetic().read(["train"], HERE).labels
    clicks = Synthetic(clicks=Clicks(position_bias=0.0, noise=0.0)).read(["train"], HERE).labels
    for grade in range(5):
        assert abs(clicks[grades == grade].mean() - (2**grade - 1) / 15) < 0.05


@pytest.mark.long
def test_drift_moves_the_later_splits() -> None:
    reader = Synthetic(drift=2.0)
    means = [reader.read([name], HERE).features[:, 0].mean() for name in ("train", "valid", "test")]
    np.testing.assert_allclose(means, [0, 1, 2], atol=0.05)
    data = reader.read(["test"], HERE)
    assert ndcg(data, reader.truth(data)) > 0.85, "the truth holds for the drifted features"


@pytest.mark.long
def test_markets_get_smaller_and_noisier() -> None:
    reader = Synthetic(markets=3, n_queries=QueryCounts(train=800))
    data = reader.read(["train"], HERE)
    names, counts = np.unique(data.query_attributes["market"], return_counts=True)
    assert names.tolist() == ["market_1", "market_2", "market_3"]
    np.testing.assert_allclose(counts / 800, [0.5, 0.25, 0.25], atol=0.04)
    found = []
    for name in names:
        part = data.take(np.flatnonzero(data.query_attributes["market"] == name))
        found.append(ndcg(part, reader.truth(part)))
    assert found[0] > found[1] > found[2]


@pytest.mark.parametrize(("leak", "lowest", "highest"), [(1.0, 1.0, 1.0), (0.5, 0.6, 0.99)])
def test_leaks(leak: float, lowest: float, highest: float) -> None:
    data = Synthetic(leak=leak).read(["train"], HERE)
    assert data.feature_names[-1] == "leak_1"
    assert len(data.feature_names) == 40
    assert lowest <= ndcg(data, data.features[:, -1]) <= highest


@pytest.mark.long
def test_duplicates_are_training_queries_under_another_id() -> None:
    reader = Synthetic(duplicates=0.3)
    train, test = reader.read(["train"], HERE), reader.read(["test"], HERE)
    assert not set(train.groups.ids) & set(test.groups.ids)
    rows = {row.tobytes() for row in train.features}
    known = [
        all(row.tobytes() in rows for row in test.features[start:end])
        for start, end in zip(test.groups.boundaries[:-1], test.groups.boundaries[1:], strict=True)
    ]
    assert 0.2 < np.mean(known) < 0.4
    starts = test.groups.boundaries[:-1]
    first = test.features[starts, test.feature_names.index("query_1")]
    np.testing.assert_array_equal(test.query_attributes["intent"] == "navigational", first > 0)
