"""TrainingFacts counted by hand, and every lint on data that has what it looks for, and on data that has not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.data.readers.synthetic import Synthetic
from ltr_harness.errors import Caution, merge_by_cause
from ltr_harness.experiments.inspection import data_card, lint, split_card
from ltr_harness.experiments.inspection.card import Content
from ltr_harness.experiments.inspection.lints import little_to_gain
from ltr_harness.metrics import parse_metric
from ltr_harness.report.pages import card_page, write_card


def test_content_by_hand() -> None:
    nan = np.nan
    features = np.array(
        [[1, 5, nan, 0.0, 1], [2, 5, nan, -0.0, 2], [1, 5, nan, 3.0, 1], [1, 5, nan, 0.0, 1]],
        dtype=np.float32,
    )
    content = Content.of(features)
    assert content.numbers["low"][[0, 1, 3, 4]].tolist() == [1, 5, 0, 1]
    assert content.numbers["high"][[0, 1, 3, 4]].tolist() == [2, 5, 3, 2]
    assert math.isnan(content.numbers["low"][2])
    assert content.numbers["mean"][[0, 1, 3]].tolist() == [5 / 4, 5, 3 / 4]
    assert content.numbers["n_missing"].tolist() == [0, 0, 4, 0, 0]
    assert content.numbers["n_zero"].tolist() == [0, 0, 0, 3, 0]
    assert content.constant.tolist() == [False, True, True, False, False]
    assert content.duplicate_of.tolist() == [0, 1, 2, 3, 0]
    assert content.n_repeated_rows == 1
    assert content.rows[0] == content.rows[3] != content.rows[2]
    again = features.copy()
    again[:, 2] = np.frombuffer(b"\x01\x00\xc0\x7f", dtype=np.float32)  # another of the many NaN
    again.setflags(write=False)
    assert Content.of(again).rows.tolist() == content.rows.tolist()
    assert Content.of(again).columns.tolist() == content.columns.tolist()


def test_split_facts_by_hand() -> None:
    data = from_arrays(
        [[1.0], [1.0], [2.0], [0.0], [0.0], [7.0], [3.0], [3.0]],
        [1, 0, 2, 0, 0, 2, 1, 1],
        group_sizes=[3, 2, 1, 2],
        source="x",
    )
    card = split_card("train", data)
    assert card.grades == {0: 3, 1: 3, 2: 2}
    assert card.sizes[0] == 1
    assert card.sizes[-1] == 3
    assert (card.n_without_relevant, card.n_one_grade, card.n_single) == (1, 2, 1)
    assert (card.n_several_grades, card.n_sorted) == (1, 0)
    assert card.n_forced_ties == 2, "rows 0 and 1: the same features, labels 1 and 0"
    assert card.n_repeated_rows == 3
    assert card.n_sampled == 3
    # Query 1 by the feature: grade 2 first, then the tie of 1 and 0 in either order; the others are perfect.
    ideal = 3 + 1 / math.log2(3)
    first = 3 + (1 / math.log2(3) + 1 / math.log2(4)) / 2
    assert card.features[0].ndcg == pytest.approx((first / ideal + 1 + 1) / 3)
    assert card.features[0].descending


def test_the_better_direction_is_found_and_missing_values_come_last() -> None:
    data = from_arrays([[1.0], [2.0], [np.nan]], [2, 1, 0], query_ids=[1, 1, 1])
    (feature,) = split_card("x", data).features
    assert feature.ndcg == 1
    assert not feature.descending


# --- lints ---------------------------------------------------------------------------------------------------


def make_dataset(
    change: Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], None] | None = None, **more: Any
) -> RankingDataset:
    """40 queries of 10 rows, 4 features; `change` plants something."""
    draws = np.random.default_rng(more.pop("seed", 0))
    features = draws.normal(size=(400, 4)).astype(np.float32)
    labels = draws.integers(0, 3, 400).astype(float)
    queries = np.char.add(more.pop("prefix", "a"), np.repeat(np.arange(40), 10).astype(str)).astype("U8")
    if change:
        change(features, labels, queries)
    return from_arrays(features, labels, query_ids=queries, **more)


def lint_cautions(train: RankingDataset, test: RankingDataset | None = None) -> dict[str, tuple[str, str]]:
    test = make_dataset(seed=1, prefix="b") if test is None else test
    return {
        one.kind: (one.severity, f"{one.severity}: {one}")
        for one in lint(data_card({"train": train, "test": test}))
    }


def test_outcomes_by_name_and_what_is_none_by_fact() -> None:
    names = ["bm25", "Revenue", "is_clicked", "click_rate"]
    train = make_dataset(feature_names=names)
    (caution,) = lint(
        data_card({"train": train, "test": make_dataset(seed=1, prefix="b", feature_names=names)})
    )
    assert (caution.kind, caution.severity, caution.place) == ("outcome-feature", "warning", "train")
    assert caution.text == "2 features (Revenue, is_clicked) look like outcomes"

    def sparse(n: int) -> Callable[..., None]:
        def change(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
            labels[:] = np.arange(400) % 10 == 5
            features[:, 2] = (labels > 0) & (np.arange(400) < 10 * n)

        return change

    assert "outcome-feature" not in lint_cautions(make_dataset(sparse(19))), (
        "so few rows may be an exact match"
    )
    assert "outcome-feature" in lint_cautions(make_dataset(sparse(20)))

    def where_all_are(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
        labels[:100] = 1
        features[:, 2] = np.arange(400) < 100

    assert "outcome-feature" not in lint_cautions(make_dataset(where_all_are)), (
        "in queries without another row it says nothing"
    )


@pytest.mark.long
def test_sound_data_has_nothing() -> None:
    assert lint_cautions(make_dataset()) == {}
    reader = Synthetic(tied=0.0, n_queries={"train": 200, "valid": 100, "test": 100})
    assert lint(data_card({name: reader.read([name], Path()) for name in ("train", "valid", "test")})) == []


def _leak(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    features[:, 2] = -labels


def _mark_picked(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    features[:, 2] = np.where(_picked_rows(labels), 9.5, 0)


def _keep_if_picked(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    features[:, 2] = np.where(_picked_rows(labels), features[:, 2], np.nan)


def _picked_rows(labels: NDArray[Any]) -> NDArray[Any]:
    return (labels > 0) & (np.arange(400) % 3 == 0)


def _told_apart(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    features[:, 2] = (labels > 0) * 9 + np.random.default_rng(5).normal(size=400) * 2


def _sort(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    labels[:] = -np.sort(-labels.reshape(40, 10)).ravel()


def _steep(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    labels[5] = 10


def _big_grade(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    labels[5] = 100


def _clear_labels(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    labels[:] = 0


def _one_grade(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    labels[:] = 1


def _clear_quarter(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    labels[:100] = 0


def _flat(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    features[:, 1] = 3


def _twin(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    features[:, 3] = features[:, 0]


def _punch_holes(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    features[:250, 0] = np.nan


def _ties(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    features[:100] = 1


def _blank(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    features[::7] = 0  # a document that no feature knows anything of is like every other such document
    features[::7, 1] = np.nan


def _singles(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
    queries[:50] = [f"s{i}" for i in range(50)]


@pytest.mark.parametrize(
    ("plant", "name", "message"),
    [
        (_mark_picked, "outcome-feature", "error: train: feature 2 is non-zero only in relevant documents; check"),
        (_keep_if_picked, "outcome-feature", "error: train: feature 2 is non-zero only in relevant documents"),
        (_told_apart, "outcome-feature", "warning: train: feature 2 alone tells relevant documents with an AUC"),
        (_leak, "leaking-feature", "error: train: feature 2 alone ranks with NDCG@10 of 1.0000 (random order: 0."),
        (_sort, "sorted-labels", "warning: train: in 40 of 40 queries the documents are sorted by label"),
        (_steep, "steep-gain", "warning: train: with exponential gain grade 10 (1 document) weighs 1,023 times"),
        (_big_grade, "steep-gain", "error: train: with exponential gain grade 100 (1 document) weighs 1.268e+30 times"),
        (_clear_labels, "nothing-relevant", "error: train: no document is relevant"),
        (_one_grade, "one-grade", "error: train: all documents have the same label"),
        (_clear_quarter, "without-relevant-documents", "note: train: 10 of 40 queries (25%) have no relevant document"),
        (_flat, "constant-features", "note: train: feature 1 has one value in all rows"),
        (_twin, "duplicate-features", "note: train: feature 3 repeats another feature in all rows"),
        (_punch_holes, "missing-values", "note: train: feature 0 is missing in more than half of the rows"),
        (_ties, "forced-ties", "warning: train: 100 rows (25.0%) have the features of another row of their query"),
        (_singles, "single-document-queries", "note: train: 50 of 85 queries have a single document"),
    ],
)  # fmt: skip
def test_what_is_planted_is_found(plant: Any, name: str, message: str) -> None:
    assert lint_cautions(make_dataset(plant))[name][1].startswith(message)


def test_overlaps() -> None:
    train = make_dataset()
    assert (
        "40 queries are in both (a0, a1, a2, a3, a4, …); 40 of them with identical rows"
        in lint_cautions(train, train)["query-in-two-splits"][1]
    )
    other_rows = lint_cautions(train, make_dataset(seed=1))["query-in-two-splits"]
    assert other_rows[0] == "warning"
    assert "their rows differ" in other_rows[1]
    renamed = lint_cautions(train, make_dataset(prefix="b"))
    assert "query-in-two-splits" not in renamed
    assert renamed["identical-rows"][1].startswith(
        "error: train and test: 400 rows of test (100.0%) have the features of a row of train; 40 of its 40 queries "
        "share at least half of their rows with train, where 0 of 40 do with another query"
    )
    assert "rows of test" not in str(
        lint_cautions(make_dataset(_blank), make_dataset(_blank, seed=1, prefix="b"))
    )
    unnamed = from_arrays(train.features, train.labels, group_sizes=[10] * 40)
    numbered = lint_cautions(unnamed, unnamed)
    assert "query-in-two-splits" not in numbered, "numbers from 0 are no names"
    assert numbered["identical-rows"][0] == "error"


def test_columns_that_differ() -> None:
    wide = from_arrays(np.ones((3, 2)), [0, 1, 2], query_ids=["x"] * 3)
    assert "4 features against 2" in lint_cautions(make_dataset(), wide)["different-features"][1]

    def times_hundred(features: NDArray[Any], labels: NDArray[Any], queries: NDArray[Any]) -> None:
        features[:, 1] *= 100

    assert (
        "values of feature 1 in test exceed ten times their range"
        in lint_cautions(make_dataset(), make_dataset(times_hundred, prefix="b"))["other-range"][1]
    )


def test_the_worst_comes_first() -> None:
    def twin_and_leak(*arrays: NDArray[Any]) -> None:
        _twin(*arrays)
        _leak(*arrays)

    cautions = lint(data_card({"train": make_dataset(twin_and_leak)}))
    assert [one.severity for one in cautions] == ["error", "note"]


def test_folds_and_splits_share_a_line() -> None:
    def leak(name: str, place: str, ndcg: str, feature: str = "2") -> Caution:
        text = f"feature {feature} alone ranks with NDCG@10 of {ndcg} (random order: 0.5)"
        return Caution(name, "error", text, "leave it out", place)

    empty = [
        Caution("empty", "note", f"{n} of {of} queries ({share}%) have none", "compare", place)
        for place, n, of, share in (("a", 3, 24, 12), ("b", 4, 25, 16))
    ]
    places = ["fold1 train", "fold1 test", "fold2 train", "fold2 test"]
    found = [*empty, *(leak("leak", place, f"0.98{at}1") for at, place in enumerate(places))]
    other = [leak("leak", "fold3 test", "0.9999", "12"), leak("leaks", "fold3 test", "0.9999")]
    assert [str(one) for one in merge_by_cause([*found, *other])] == [
        "a (alike: b): 3 of 24 queries (12%) have none; compare",
        "fold1 train (alike: fold1 test, fold2 train and 1 more): feature 2 alone ranks with NDCG@10 of 0.9801 "
        "(random order: 0.5); leave it out",
        *map(str, other),
    ]


def test_little_to_gain_at_a_metric() -> None:
    def lint_cautions(sizes: list[int], labels: list[int], metric: str = "recall@2") -> list[Caution]:
        return little_to_gain(
            "test",
            from_arrays(np.zeros((len(labels), 1)), labels, group_sizes=sizes).judgments,
            parse_metric(metric),
        )

    def cautions_of_missed(n: int) -> list[Caution]:
        groups = QueryGroups.from_sizes([2] + [3] * n)
        shown = np.array([1, 1] + [1, 1, 0] * n, dtype=bool)
        judgments = Judgments.checked([1, 0] + [0, 0, 1] * n, groups, retrieved=shown)
        return little_to_gain("test", judgments, parse_metric("recall@1"))

    # of 3 documents 2 are shown: a random order finds the relevant one in 2 of 3 queries, in a query of 2 always
    often = lint_cautions([3] * 4 + [2] * 6, [1, 0, 0] * 4 + [1, 0] * 6)
    assert [(one.kind, one.severity, one.place) for one in often] == [("little-to-gain", "warning", "test")]
    assert often[0].text.startswith(
        f"recall@2 of a random order is {(4 * 2 / 3 + 6) / 10:.4f}, 87 % of the best"
    )
    assert lint_cautions([3] * 5 + [2] * 5, [1, 0, 0] * 5 + [1, 0] * 5) == [], "5/6 is less than 85 %"
    # the relevant document of all but one query was missed: nothing that order could change
    few = cautions_of_missed(20)
    assert [one.text for one in few] == ["order changes recall@1 in 1 of 21 queries: there is little to gain"]
    assert cautions_of_missed(19) == []
    assert lint_cautions([2] * 5, [1, 0] * 5, "spearman") == [], (
        "the random order and ceiling of which are not computed"
    )
    folds = [replace(one, place=place) for place in ("fold1 test", "fold2 test") for one in often]
    folds[1] = replace(folds[1], text=folds[1].text.replace("0.8667, 87 %", "0.9012, 90 %"))
    assert [one.place for one in merge_by_cause(folds)] == ["fold1 test (alike: fold2 test)"]


def test_the_page_is_one_file_and_names_stay_text(tmp_path: Path) -> None:
    train = from_arrays(
        [[1.0], [2.0]], [0, 1], query_ids=["<b>", "<b>"], feature_names=["<script>x</script>"]
    )
    card = data_card({"train": train, "test": train})
    html, markdown = write_card(card_page(card, lint(card), "Data of <i>"), tmp_path)
    page = html.read_text()
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    assert "<script>x" not in page
    assert "Data of &lt;i&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "| error | train and test | 1 query is in both (&lt;b&gt;)" in markdown.read_text()


@pytest.mark.long
def test_lints_find_what_the_synthetic_set_is_given() -> None:
    sizes = {"train": 200, "test": 100}
    reader = Synthetic(tied=0.0, leak=1.0, duplicates=0.2, drift=10.0, n_queries=sizes)
    card = data_card({name: reader.read([name], Path()) for name in ("train", "test")})
    names = {one.kind for one in lint(card)}
    assert {"leaking-feature", "identical-rows"} <= names
