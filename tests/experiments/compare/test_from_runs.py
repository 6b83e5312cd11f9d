"""Runs become models: seeds are replicates, folds are pooled, nothing disappears in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ltr_harness.comparison import compare
from ltr_harness.errors import NotComparableError
from ltr_harness.experiments.compare.from_runs import budget_cautions, configuration, systems_from_runs
from ltr_harness.experiments.runs.record import Record, SplitFacts, TuningFacts

from .conftest import WriteRun, table


def test_seeds_are_replicates_and_folds_are_pooled(write_run: WriteRun) -> None:
    runs = [
        write_run("lgbm", table(ids, ndcg_10=values), fold=fold, seed=seed)
        for fold, ids, by_seed in (
            ("fold1", [1, 2], {1: [0.1, 0.2], 2: [0.3, 0.4]}),
            ("fold2", [3], {1: [0.5], 2: [0.7]}),
        )
        for seed, values in by_seed.items()
    ]
    (lgbm,), primaries, cautions = systems_from_runs(runs)
    assert lgbm.query_ids.tolist() == ["1", "2", "3"]
    assert lgbm.replicates == ("1", "2")
    assert lgbm.values["ndcg@10"].tolist() == [[0.1, 0.2, 0.5], [0.3, 0.4, 0.7]]
    assert lgbm.per_query("ndcg@10") == pytest.approx([0.2, 0.3, 0.6])
    assert lgbm.judgments_fingerprint == {"fold1": "labels-fold1", "fold2": "labels-fold2"}
    assert (primaries, cautions) == (["ndcg@10"], [])


def test_replicates_are_matched_by_query_id(write_run: WriteRun) -> None:
    runs = [
        write_run("lgbm", table([1, 2, 3], ndcg_10=[0.1, 0.2, 0.3]), seed=1),
        write_run("lgbm", table([3, 1, 2], ndcg_10=[0.6, 0.4, 0.5]), seed=2),
    ]
    (lgbm,), _, _ = systems_from_runs(runs)
    assert lgbm.values["ndcg@10"][1].tolist() == [0.4, 0.5, 0.6]


def test_ids_that_repeat_over_folds_carry_their_fold(write_run: WriteRun) -> None:
    runs = [write_run("m", table([1, 2], ndcg_10=[0.1, 0.2]), fold=fold) for fold in ("a", "b")]
    (model,), _, _ = systems_from_runs(runs)
    assert model.query_ids.tolist() == ["a/1", "a/2", "b/1", "b/2"]


def test_identical_replicates_count_once(write_run: WriteRun) -> None:
    runs = [
        write_run("m", table([1, 2], ndcg_10=[0.1, value]), seed=s)
        for s, value in ((1, 0.2), (2, 0.3), (3, 0.2))
    ]
    (model,), _, cautions = systems_from_runs(runs)
    assert model.replicates == ("1", "2")
    assert [*map(str, cautions)] == ["m: seeds 1, 3 gave identical values and count once"]
    assert not model.deterministic


def test_replicates_that_are_all_identical_are_as_good_as_deterministic(write_run: WriteRun) -> None:
    runs = [write_run("m", table([1, 2], ndcg_10=[0.1, 0.2]), seed=seed) for seed in (1, 2, 3)]
    (model,), _, cautions = systems_from_runs(runs)
    assert (model.replicates, model.deterministic) == (("1",), True)
    assert [*map(str, cautions)] == ["m: seeds 1, 2, 3 gave identical values and count once"]


def test_deterministic_runs_count_once(write_run: WriteRun) -> None:
    runs = [
        write_run("bm25", table([1], ndcg_10=[0.1]), seed=seed, deterministic=True) for seed in (1, 2)
    ] + [write_run("m", table([1], ndcg_10=[seed / 10]), seed=seed) for seed in (1, 2)]
    (bm25, model), _, cautions = systems_from_runs(runs)
    assert bm25.deterministic
    assert bm25.replicates == ("1",)
    assert not model.deterministic
    assert [*map(str, cautions)] == ["bm25 is deterministic: its 2 runs count once"]


@pytest.mark.long
def test_failed_runs_missing_seeds_and_folds_are_said(write_run: WriteRun) -> None:
    whole = [
        write_run("good", table([number], ndcg_10=[0.1 * seed]), fold=fold, seed=seed)
        for number, fold in enumerate(("fold1", "fold2"))
        for seed in (1, 2)
    ]
    torn = [
        write_run("torn", table([0], ndcg_10=[0.1]), fold="fold1", seed=1),
        write_run("torn", table([1], ndcg_10=[0.1]), fold="fold2", seed=1),
        write_run("torn", table([0], ndcg_10=[0.2]), fold="fold1", seed=2),
        write_run("torn", None, fold="fold2", seed=2),
    ]
    lost = [
        write_run("lost", table([0], ndcg_10=[0.3]), fold="fold1", seed=1),
        write_run("lost", None, fold="fold2"),
    ]
    systems, _, cautions = systems_from_runs([*whole, *torn, *lost])
    assert [(system.name, system.replicates) for system in systems] == [
        ("good", ("1", "2")),
        ("torn", ("1",)),
    ]
    assert [*map(str, cautions)] == [
        "torn: fold2, seed 2 failed: ran out of memory",
        "torn: seed 2 is left out: no run for fold fold2",
        "torn is compared over seed 1; seed 2 of other models is missing",
        "lost: fold2, seed 1 failed: ran out of memory",
        "lost: seed 1 is left out: no run for fold fold2",
        "lost is left out: it has no run for every fold",
    ]


def test_nothing_complete_is_an_error_that_says_why(write_run: WriteRun) -> None:
    with pytest.raises(
        NotComparableError, match=r"no model has a complete run; m: seed 1 failed: ran out of memory"
    ):
        systems_from_runs([write_run("m", None)])


def test_an_experiment_without_a_finished_run_is_left_out_beside_folds_that_repeat_ids(
    write_run: WriteRun,
) -> None:
    repeating = [write_run("m", table([1, 2], ndcg_10=[0.1, 0.2]), fold=fold) for fold in ("a", "b")]
    systems, _, cautions = systems_from_runs([*repeating, write_run("failed", None, experiment="other")])
    assert [system.query_ids.tolist() for system in systems] == [["a/1", "a/2", "b/1", "b/2"]]
    assert [*map(str, cautions)] == [
        "failed: seed 1 failed: ran out of memory",
        "failed is left out: it has no run for every fold",
    ]


def test_models_of_two_experiments_keep_apart(write_run: WriteRun) -> None:
    runs = [
        write_run("m", table([1], ndcg_10=[0.1]), experiment="old"),
        write_run("m", table([1], ndcg_10=[0.2]), experiment="new"),
        write_run("other", table([1], ndcg_10=[0.2]), experiment="new"),
    ]
    systems, _, _ = systems_from_runs(runs)
    assert [system.name for system in systems] == ["old/m", "new/m", "other"]


def test_the_same_run_twice_counts_once(write_run: WriteRun) -> None:
    run = write_run("m", table([1], ndcg_10=[0.1]))
    (model,), _, cautions = systems_from_runs([run, run])
    assert model.replicates == ("1",)
    assert cautions == []
    again = write_run("m", table([1], ndcg_10=[0.1]))
    _, _, cautions = systems_from_runs([run, again])
    assert [*map(str, cautions)] == ["m: seed 1 was given twice and counts once"]


@pytest.mark.parametrize(("ids", "labels"), [([1, 2], "others"), ([1, 3], "labels")])
def test_seeds_are_tested_on_the_same_queries_and_labels(
    write_run: WriteRun, ids: list[int], labels: str
) -> None:
    runs = [
        write_run("m", table([1, 2], ndcg_10=[0.1, 0.2]), seed=1),
        write_run("m", table(ids, ndcg_10=[0.1, 0.3]), seed=2, labels=labels),
    ]
    with pytest.raises(
        NotComparableError, match="m: seed 2 was tested on other queries or labels than seed 1"
    ):
        systems_from_runs(runs)


@pytest.mark.long
def test_contradictions_within_a_model_are_refused_together(write_run: WriteRun) -> None:
    runs = [
        write_run("a", table([1], ndcg_10=[0.1]), identity="aaaa"),
        write_run("a", table([1], ndcg_10=[0.2]), identity="bbbb"),
        write_run("b", table([1], ndcg_10=[0.1]), seed=1),
        write_run("b", table([1], ndcg_10=[0.1]), seed=2, config={"ranker": "xgboost"}),
        write_run("c", table([1], ndcg_10=[0.1]), seed=1),
        write_run("c", table([1], ndcg_5=[0.1]), seed=2),
        write_run("d", table([1], ndcg_10=[0.1]), seed=1),
        write_run("d", table([1], ndcg_10=[0.2]), seed=2, labels="others"),
    ]
    with pytest.raises(NotComparableError) as caught:
        systems_from_runs(runs)
    text = str(caught.value).splitlines()
    assert len(text) == 4
    assert "a: two different runs of seed 1 (identities aaaa and bbbb)" in text[0]
    assert "b: seed 2 was trained with another configuration than seed 1" in text[1]
    assert "c: seed 2 and seed 1 were evaluated by different metrics: ndcg@10, ndcg@5" in text[2]
    assert "d: seed 2 was tested on other queries or labels than seed 1" in text[3]


def test_query_facts_come_along(write_run: WriteRun) -> None:
    run = write_run("m", table([1, 2], ndcg_10=[np.nan, 0.1], rows=[8, 9], n_relevant=[0, 3]))
    (model,), _, _ = systems_from_runs([run])
    assert model.query_attributes["n_relevant"].tolist() == [0, 3]
    assert model.query_attributes["rows"].tolist() == [8, 9]


def tuning_facts(study: str = "s", rate: float = 0.1, **changes: Any) -> TuningFacts:
    facts: dict[str, Any] = {
        "study": study,
        "metric": "ndcg@10",
        "value": 0.5,
        "trial": 0,
        "chosen": {"params.learning_rate": rate, "rounds": int(100 * rate)},
        "trials": 40,
        "minutes": None,
        "n_trials": 40,
        "n_complete": 40,
        "n_pruned": 0,
        "n_failed": 0,
        "seconds": 100.0,
        "sampler": "tpe",
        "inner_folds": None,
        "seed": 1,
    }
    return TuningFacts(**{**facts, **changes})


def test_tuned_runs_are_one_model_by_how_they_were_searched(write_run: WriteRun) -> None:
    def searched_config(leaves: int = 31, **changes: Any) -> Mapping[str, Any]:
        tuning = tuning_facts(**changes)
        rate, rounds = tuning.chosen.values()
        config = {"ranker": "lightgbm", "rounds": rounds, "params": {"learning_rate": rate, "leaves": leaves}}
        record = write_run("m", None, config=config, tuning=tuning).record
        found = configuration(record)
        assert record.config == config  # still what was trained
        return found

    assert searched_config(rate=0.1) == searched_config(rate=0.2)
    assert searched_config()["config"] == {"ranker": "lightgbm", "params": {"leaves": 31}}
    assert searched_config(leaves=31) != searched_config(leaves=63)
    assert searched_config(trials=40) != searched_config(trials=20)
    unwritten = write_run(
        "m", None, tuning=tuning_facts()
    ).record  # all options at their defaults before the search
    assert configuration(unwritten)["config"] == {"ranker": "lightgbm"}
    assert configuration(write_run("m", None).record) == {"ranker": "lightgbm"}


def test_what_is_said_of_budgets(write_run: WriteRun) -> None:
    plain = write_run("plain", None).record

    def runs(*tunings: TuningFacts) -> list[Record]:
        return [write_run("m", None, tuning=tuning).record for tuning in tunings]

    def caution_texts(records: Mapping[str, Sequence[Record]]) -> list[str]:
        return [*map(str, budget_cautions(records))]

    before = "tuned on validation data, before the test queries were scored: "
    assert budget_cautions({"plain": [plain]}) == []
    one = runs(tuning_facts())
    assert caution_texts({"one": one}) == [f"{before}one by 40 trials (100 s)"]
    assert caution_texts({"one": one, "plain": [plain]}) == [
        f"{before}one by 40 trials (100 s). Not tuned: plain"
    ]
    # three runs of two searches, one per fold; a time budget stops where it stops
    timed = {"trials": None, "minutes": 2.0}
    folds = runs(
        tuning_facts("a", **timed),
        tuning_facts("a", **timed),
        tuning_facts("b", n_trials=30, seconds=20.0, **timed),
    )
    found = caution_texts({"one": one, "folds": folds})
    assert found[0] == (
        f"{before}one by 40 trials (100 s); folds by 30 to 40 trials in each of 2 folds (120 s of at most 2 min)"
    )
    assert found[1].startswith("the tuned models had different budgets")


class TestOneQueryInSeveralFolds:
    """Sixty queries that three folds test are sixty queries, not 180."""

    def facts(self, ids: list[int], values: list[float], rows: list[int]) -> Any:
        return table(ids, ndcg_10=values).assign(rows=rows, n_relevant=1)

    def test_equal_facts_are_one_query_with_its_mean(self, write_run: WriteRun) -> None:
        runs = [
            write_run("m", self.facts([1, 2], [0.1, 0.2], [5, 9]), fold="a", seed=1),
            write_run("m", self.facts([2, 1, 3], [0.4, 0.5, 0.9], [9, 5, 7]), fold="b", seed=1),
            write_run("m", self.facts([1, 2], [0.0, 0.0], [5, 9]), fold="a", seed=2),
            write_run("m", self.facts([3, 1, 2], [0.8, 0.6, 1.0], [7, 5, 9]), fold="b", seed=2),
        ]
        (model,), _, cautions = systems_from_runs(runs)
        assert model.query_ids.tolist() == ["1", "2", "3"]
        assert model.values["ndcg@10"] == pytest.approx(np.array([[0.3, 0.3, 0.9], [0.3, 0.5, 0.8]]))
        assert model.query_attributes["rows"].tolist() == [5, 9, 7]
        assert [*map(str, cautions)] == [
            "the folds test 3 queries 5 times: each query counts once, with its mean over the folds that test it"
        ]

    def test_other_facts_are_other_queries(self, write_run: WriteRun) -> None:
        runs = [
            write_run("m", self.facts([1, 2], [0.1, 0.2], rows), fold=fold)
            for fold, rows in (("a", [5, 9]), ("b", [5, 8]))
        ]
        (model,), _, cautions = systems_from_runs(runs)
        assert model.query_ids.tolist() == ["a/1", "a/2", "b/1", "b/2"]
        assert cautions == []

    def test_equal_digests_are_one_test_set_whatever_is_known_of_its_queries(
        self, write_run: WriteRun
    ) -> None:
        data = {"test": SplitFacts(
            source="test", fingerprint="t", judgments_fingerprint="t", n_queries=2, n_rows=9, n_without_relevant=0,
            n_features=1,
        )}  # fmt: skip
        runs = [
            write_run("m", table([1, 2], ndcg_10=values), fold=fold, data=data)
            for fold, values in (("a", [0.1, np.nan]), ("b", [0.3, np.nan]))
        ]
        (model,), _, _ = systems_from_runs(runs)
        assert model.query_ids.tolist() == ["1", "2"]
        assert model.values["ndcg@10"][0] == pytest.approx([0.2, np.nan], nan_ok=True)

    def test_an_undefined_place_is_left_out_of_the_mean(self, write_run: WriteRun) -> None:
        runs = [
            write_run("m", self.facts([1, 2], values, [5, 9]), fold=fold)
            for fold, values in (("a", [0.1, 0.2]), ("b", [np.nan, 0.4]))
        ]
        (model,), _, _ = systems_from_runs(runs)
        assert model.values["ndcg@10"][0] == pytest.approx([0.1, 0.3])


@pytest.mark.long
def test_false_alarms_where_every_fold_tests_the_same_queries(write_run: WriteRun) -> None:
    """Two models alike, 60 queries, three folds: counted three times, far more than 5 % would be "different"."""
    rng = np.random.default_rng(5)
    folds, worlds = ("one", "two", "three"), [f"ndcg@{number}" for number in range(1, 61)]
    values: dict[tuple[str, str], dict[str, Any]] = {(m, fold): {} for m in "ab" for fold in folds}
    for world in worlds:  # each is a metric of one experiment: 60 experiments would be 360 folders
        hard = rng.normal(0, 0.1, 60)  # the same queries are hard for a model whatever it was trained on
        for model, sign in (("a", 1), ("b", -1)):
            for fold in folds:
                values[model, fold][world] = 0.5 + sign * hard + rng.normal(0, 0.02, 60)
    ids = list(range(60))
    runs = [
        write_run(model, table(ids, **of_worlds).assign(rows=ids, n_relevant=1), fold=fold)
        for (model, fold), of_worlds in values.items()
    ]
    comparison = compare(*runs, test="t")
    alarms = sum(comparison.paired("b", world).p < 0.05 for world in worlds)
    assert alarms <= 9  # of 60: 5 % and three standard errors; counted three times it were 15 (26 %)
