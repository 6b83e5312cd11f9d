"""Other callbacks of a training see the values that a `Watch` measures; it can be copied and pickled."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

from ltr_harness import evaluate
from ltr_harness.boosting import lightgbm as in_lightgbm
from ltr_harness.boosting import xgboost as in_xgboost
from ltr_harness.errors import UsageError
from ltr_harness.metrics import MRR, NDCG

from .conftest import evaluation_arguments

LGBM: dict[str, Any] = {
    "objective": "lambdarank",
    "metric": "None",
    "num_leaves": 15,
    "learning_rate": 0.3,
    "min_data_in_leaf": 5,
    "num_threads": 1,
    "verbosity": -1,
}
XGB: dict[str, Any] = {
    "objective": "rank:ndcg",
    "disable_default_eval_metric": 1,
    "max_depth": 4,
    "eta": 0.3,
    "nthread": 1,
}
METRICS = (NDCG(k=10), MRR(k=5))


def curve(watch: Any, metric: Any, data: str = "valid") -> list[float]:
    return [one.value for one in watch.history if one.metric == str(metric) and one.data == data]


def datasets(train: Any, valid: Any) -> tuple[Any, Any]:
    data = lightgbm.Dataset(train.X, train.labels, group=train.sizes, free_raw_data=False)
    return data, lightgbm.Dataset(
        valid.X, valid.labels, group=valid.sizes, reference=data, free_raw_data=False
    )


def matrix(split: Any) -> Any:
    return xgboost.DMatrix(split.X, split.labels, group=split.sizes)


def means(split: Any, scores: Any) -> list[float]:
    found = evaluate(split.labels, scores, group_sizes=split.sizes, metrics=METRICS)
    return [found.means[str(metric)] for metric in METRICS]


class TestInLightGBM:
    @pytest.mark.parametrize("listed", [False, True])
    @pytest.mark.parametrize("first", [False, True])
    def test_every_callback_sees_every_value_the_last_rounds_too(
        self, train: Any, valid: Any, listed: bool, first: bool
    ) -> None:
        data, held_out = datasets(train, valid)
        given: dict[str, Any] = {} if listed else {"data": {"valid": held_out}}
        watch = in_lightgbm.Watch(*METRICS, patience=4, **given)
        recorded: dict[str, Any] = {}
        logged: list[dict[str, float]] = []

        def tracker(env: Any) -> None:  # as those of W&B and MLflow: no order of its own
            logged.append({f"{row[0]}_{row[1]}": row[2] for row in env.evaluation_result_list})

        others = [tracker, lightgbm.record_evaluation(recorded)]
        lightgbm.train(
            LGBM,
            data,
            100,
            valid_sets=[held_out] if listed else None,
            valid_names=["valid"] if listed else None,
            callbacks=[watch, *others] if first else [*others, watch],
        )
        assert len(watch.history) // 2 == (watch.best_round or 0) + 4 < 100
        for metric in METRICS:
            assert recorded["valid"][str(metric)] == curve(watch, metric)
            assert [row[f"valid_{metric}"] for row in logged] == curve(watch, metric)

    def test_stop_early_lets_the_others_see_the_last_round_in_either_order(
        self, train: Any, valid: Any
    ) -> None:
        seen = []
        for reverse in (False, True):
            data, held_out = datasets(train, valid)
            recorded: dict[str, Any] = {}
            stop = in_lightgbm.stop_early(METRICS[0], patience=4)
            callbacks = [stop, lightgbm.record_evaluation(recorded)]
            lightgbm.train(
                LGBM,
                data,
                100,
                valid_sets=[held_out],
                feval=in_lightgbm.feval(*METRICS),
                callbacks=callbacks[::-1] if reverse else callbacks,
            )
            seen.append(recorded["valid_0"]["ndcg@10"])
            assert len(recorded["valid_0"]["ndcg@10"]) == stop.best_round + 4
        assert seen[0] == seen[1]

    def test_rounds_between_are_nobodys_and_recording_them_is_refused(self, train: Any, valid: Any) -> None:
        data, held_out = datasets(train, valid)
        watch = in_lightgbm.Watch(*METRICS, data={"valid": held_out}, patience=None, every=3)
        seen: list[int] = []

        def tracker(env: Any) -> None:
            seen.append(len(env.evaluation_result_list))

        lightgbm.train(LGBM, data, 7, callbacks=[tracker, watch])
        assert seen == [0, 0, 2, 0, 0, 2, 2]
        with pytest.raises(
            UsageError, match=r"record_evaluation keeps the results of every round, .*every=3"
        ):
            lightgbm.train(LGBM, data, 7, callbacks=[watch, lightgbm.record_evaluation({})])

    def test_what_is_reported_already_is_not_reported_again(self, train: Any, valid: Any) -> None:
        data, held_out = datasets(train, valid)
        watch = in_lightgbm.Watch(*METRICS, data={"valid": held_out}, patience=None)
        seen: list[list[tuple[str, str]]] = []

        def tracker(env: Any) -> None:
            seen.append([(data, str(metric)) for data, metric, *_ in env.evaluation_result_list])

        lightgbm.train(
            LGBM,
            data,
            1,
            valid_sets=[held_out],
            valid_names=["valid"],
            feval=in_lightgbm.feval(METRICS[1], "map"),
            callbacks=[tracker, watch],
        )
        assert seen == [[("valid", "mrr@5"), ("valid", "map"), ("valid", "ndcg@10")]]

    def test_a_ranker_is_watched_on_its_own_sets(self, train: Any, valid: Any) -> None:
        watch = in_lightgbm.Watch(*METRICS, patience=4)
        ranker = lightgbm.LGBMRanker(
            n_estimators=100, learning_rate=0.3, min_child_samples=5, metric="None", n_jobs=1, verbosity=-1
        ).fit(
            train.X,
            train.labels,
            group=train.sizes,
            **evaluation_arguments(valid),
            eval_group=[valid.sizes],
            callbacks=[watch],
        )
        assert ranker.best_iteration_ == watch.best_round == ranker.booster_.num_trees()
        assert ranker.evals_result_["valid_0"]["ndcg@10"] == curve(watch, METRICS[0], "valid_0")
        best = means(valid, ranker.predict(valid.X))[0]
        assert watch.best_value == pytest.approx(best, abs=1e-12)

    def test_nothing_to_watch_is_an_error_with_the_cure(self, train: Any, valid: Any) -> None:
        data, held_out = datasets(train, valid)
        for sets in ([], [data]):
            with pytest.raises(UsageError, match=r"nothing to watch: .*LightGBM.*data=\{'valid': valid\}"):
                lightgbm.train(LGBM, data, 3, valid_sets=sets, callbacks=[in_lightgbm.Watch("mrr")])
        two = in_lightgbm.Watch("mrr", stop_on="b")
        lightgbm.train(
            LGBM, data, 3, valid_sets=[held_out, held_out], valid_names=["a", "b"], callbacks=[two]
        )
        with pytest.raises(UsageError, match="several sets are watched"):
            lightgbm.train(LGBM, data, 3, valid_sets=[held_out] * 2, callbacks=[in_lightgbm.Watch("mrr")])

    @pytest.mark.parametrize(
        "callback", [in_lightgbm.Watch("mrr", patience=None), in_lightgbm.stop_early("mrr")]
    )
    def test_a_training_on_several_machines_is_refused_before_they_are_called(
        self, train: Any, valid: Any, callback: Any
    ) -> None:
        data, held_out = datasets(train, valid)
        nobody = {"num_machines": 2, "machines": "127.0.0.1:1,127.0.0.1:2"}
        with pytest.raises(UsageError, match=f"{type(callback).__name__}: .*divided among 2 machines"):
            lightgbm.train({**LGBM, **nobody}, data, 3, valid_sets=[held_out], callbacks=[callback])

    @pytest.mark.long
    def test_a_copy_and_a_pickle_train_the_same(self, train: Any, valid: Any) -> None:
        data, held_out = datasets(train, valid)
        watch = in_lightgbm.Watch(*METRICS, data={"valid": held_out}, patience=4)
        lightgbm.train(LGBM, data, 100, callbacks=[watch])
        for twin in (copy.deepcopy(watch), pickle.loads(pickle.dumps(watch))):
            assert (twin.history, twin.best_round) == (watch.history, watch.best_round)
            again, _ = datasets(train, valid)
            lightgbm.train(LGBM, again if twin._data == {} else data, 100, callbacks=[twin])
            assert twin.history == watch.history

    def test_a_set_that_lightgbm_has_not_made_yet_can_be_pickled(self, train: Any, valid: Any) -> None:
        data, _ = datasets(train, valid)
        row_weights = np.repeat(np.arange(1.0, 1 + len(valid.sizes)), valid.sizes)
        held_out = lightgbm.Dataset(
            valid.X, valid.labels, group=valid.sizes, weight=row_weights, reference=data
        )
        packed = pickle.dumps(in_lightgbm.Watch(*METRICS, data={"valid": held_out}))
        means = []
        for watch in (pickle.loads(packed), in_lightgbm.Watch(*METRICS, data={"valid": held_out})):
            lightgbm.train(LGBM, datasets(train, valid)[0] if not means else data, 3, callbacks=[watch])
            means.append(watch.history)
        assert means[0] == means[1]

    def test_rows_that_lightgbm_has_freed_cannot_be_pickled(self, train: Any, valid: Any) -> None:
        data = lightgbm.Dataset(train.X, train.labels, group=train.sizes)
        held_out = lightgbm.Dataset(valid.X, valid.labels, group=valid.sizes, reference=data).construct()
        with pytest.raises(UsageError, match="free_raw_data=False"):
            pickle.dumps(in_lightgbm.Watch("mrr", data={"valid": held_out}))


class TestInXGBoost:
    @pytest.mark.parametrize("listed", [False, True])
    def test_every_callback_sees_every_value_the_last_rounds_too(
        self, train: Any, valid: Any, listed: bool, capsys: Any
    ) -> None:
        held_out = matrix(valid)
        given: dict[str, Any] = {} if listed else {"data": {"valid": held_out}}
        watch = in_xgboost.Watch(*METRICS, patience=4, **given)
        logged: list[dict[str, float]] = []

        class Tracker(xgboost.callback.TrainingCallback):  # type: ignore[misc]
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                logged.append({f"{d}-{m}": v[-1] for d, of in evals_log.items() for m, v in of.items()})
                return False

        result: dict[str, Any] = {}
        xgboost.train(
            XGB,
            matrix(train),
            100,
            evals=[(held_out, "valid")] if listed else None,
            evals_result=result,
            callbacks=[watch, Tracker()],
            verbose_eval=10,
        )
        assert len(watch.history) // 2 == (watch.best_round or 0) + 4 < 100
        for metric in METRICS:
            assert result["valid"][str(metric)] == curve(watch, metric)
            assert [row[f"valid-{metric}"] for row in logged] == curve(watch, metric)
        assert f"[0]\tvalid-ndcg@10:{curve(watch, METRICS[0])[0]:.5f}" in capsys.readouterr().out

    def test_a_metric_of_the_same_name_keeps_its_place(self, train: Any, valid: Any) -> None:
        held_out = matrix(valid)
        watch = in_xgboost.Watch("ndcg@10", "mrr", patience=None)
        result: dict[str, Any] = {}
        params = {**XGB, "disable_default_eval_metric": 0, "eval_metric": "ndcg@10"}
        xgboost.train(
            params,
            matrix(train),
            3,
            evals=[(held_out, "valid")],
            evals_result=result,
            callbacks=[watch],
            verbose_eval=False,
        )
        assert [len(values) for values in result["valid"].values()] == [3, 3]
        assert result["valid"]["ndcg@10"] != curve(
            watch, "ndcg@10"
        )  # queries without relevant rows count 1 there
        assert result["valid"]["mrr"] == curve(watch, "mrr")

    def test_every_kind_of_matrix_gives_the_metrics_of_its_scores(
        self, train: Any, valid: Any, tmp_path: Any
    ) -> None:
        class Parts(xgboost.DataIter):  # type: ignore[misc]
            def __init__(self, split: Any, cache: str | None = None) -> None:
                middle = len(split.sizes) // 2
                row = int(split.sizes[:middle].sum())
                query = np.repeat(np.arange(len(split.sizes)), split.sizes)
                self.parts = [
                    {"data": split.X[one], "label": split.labels[one], "qid": query[one]}
                    for one in (slice(0, row), slice(row, None))
                ]
                self.at = 0
                super().__init__(cache_prefix=cache)

            def next(self, input_data: Any) -> bool:
                if self.at == len(self.parts):
                    return False
                input_data(**self.parts[self.at])
                self.at += 1
                return True

            def reset(self) -> None:
                self.at = 0

        data = xgboost.QuantileDMatrix(Parts(train))
        query = np.repeat(np.arange(len(valid.sizes)), valid.sizes)
        sets = {
            "plain": matrix(valid),
            "qid": xgboost.DMatrix(valid.X, valid.labels, qid=query),
            "quantile": xgboost.QuantileDMatrix(valid.X, valid.labels, group=valid.sizes, ref=data),
            "parts": xgboost.QuantileDMatrix(Parts(valid), ref=data),
            "external": xgboost.DMatrix(Parts(valid, str(tmp_path / "page"))),
        }
        watch = in_xgboost.Watch(*METRICS, data=sets, stop_on="plain", patience=None)
        booster = xgboost.train(XGB, data, 5, callbacks=[watch], verbose_eval=False)
        expected = means(valid, booster.predict(sets["plain"], output_margin=True))
        for name in sets:
            assert [curve(watch, metric, name)[-1] for metric in METRICS] == expected, name
        packed = pickle.loads(pickle.dumps(in_xgboost.Watch("mrr", data={"q": sets["quantile"]})))
        np.testing.assert_array_equal(booster.predict(packed._given["q"]), booster.predict(sets["plain"]))

    @pytest.mark.skipif(
        not hasattr(xgboost, "ExtMemQuantileDMatrix"), reason="XGBoost has such matrices from 3.0 on"
    )
    def test_external_memory_with_quantiles(self, train: Any, tmp_path: Any) -> None:
        class Once(xgboost.DataIter):  # type: ignore[misc]
            def __init__(self, split: Any, name: str) -> None:
                self.split, self.done = split, False
                super().__init__(cache_prefix=str(tmp_path / name))

            def next(self, input_data: Any) -> bool:
                if not self.done:
                    query = np.repeat(np.arange(len(self.split.sizes)), self.split.sizes)
                    input_data(data=self.split.X, label=self.split.labels, qid=query)
                was, self.done = self.done, True
                return not was

            def reset(self) -> None:
                self.done = False

        data = xgboost.ExtMemQuantileDMatrix(Once(train, "train"))
        watch = in_xgboost.Watch(*METRICS, data={"train": data}, patience=None)
        booster = xgboost.train(XGB, data, 3, callbacks=[watch], verbose_eval=False)
        expected = means(train, booster.predict(matrix(train), output_margin=True))
        assert [curve(watch, metric, "train")[-1] for metric in METRICS] == expected
        with pytest.raises(UsageError, match="lies in XGBoost's external memory"):
            pickle.dumps(watch)

    def test_nothing_to_watch_is_an_error_with_the_cure(self, train: Any) -> None:
        data = matrix(train)
        for evals in ([], [(data, "train")]):
            with pytest.raises(UsageError, match=r"nothing to watch: .*XGBoost.*data=\{'valid': valid\}"):
                xgboost.train(XGB, data, 3, evals=evals, callbacks=[in_xgboost.Watch("mrr")])


class TestWhatIsPrinted:
    @pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
    def test_lines_as_lightgbms_own(self, train: Any, valid: Any, library: str, capsys: Any) -> None:
        given: dict[str, Any] = {"patience": None, "print_every": 2}
        if library == "lightgbm":
            data, held_out = datasets(train, valid)
            watch: Any = in_lightgbm.Watch(*METRICS, data={"valid": held_out}, **given)
            lightgbm.train(LGBM, data, 5, callbacks=[watch])
        else:
            watch = in_xgboost.Watch(*METRICS, data={"valid": matrix(valid)}, **given)
            xgboost.train(XGB, matrix(train), 5, callbacks=[watch], verbose_eval=False)
        values = list(zip(curve(watch, METRICS[0]), curve(watch, METRICS[1]), strict=True))
        expected = [
            f"[{round_}]\tvalid's ndcg@10: {values[round_ - 1][0]:g}\tvalid's mrr@5: {values[round_ - 1][1]:g}\n"
            for round_ in (2, 4)
        ]
        assert capsys.readouterr().out == "".join(expected)

    @pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
    def test_progress_is_one_line_that_ends(self, train: Any, valid: Any, library: str, capsys: Any) -> None:
        given: dict[str, Any] = {"patience": None, "progress": True}
        if library == "lightgbm":
            data, held_out = datasets(train, valid)
            watch: Any = in_lightgbm.Watch("mrr", data={"valid": held_out}, **given)
            lightgbm.train(LGBM, data, 4, callbacks=[watch])
        else:
            watch = in_xgboost.Watch("mrr", data={"valid": matrix(valid)}, **given)
            xgboost.train(XGB, matrix(train), 4, callbacks=[watch], verbose_eval=False)
        shown = capsys.readouterr().err
        assert shown.count("\n") == 1
        assert shown.endswith("\n")
        lines = shown.strip("\n").split("\r")[1:]
        value = curve(watch, "mrr")[-1]
        assert len(lines) == 4
        assert lines[1].startswith("[############............] round 2 of 4, valid's mrr 0.")
        assert lines[-1] == f"[########################] round 4 of 4, valid's mrr {value:.4f}"

    def test_names_of_sets_reach_no_terminal_as_control_characters(
        self, train: Any, valid: Any, capsys: Any
    ) -> None:
        data, held_out = datasets(train, valid)
        watch = in_lightgbm.Watch(
            "mrr", data={"a\x1b[2J": held_out}, patience=None, print_every=1, progress=True
        )
        lightgbm.train(LGBM, data, 1, callbacks=[watch])
        shown = capsys.readouterr()
        assert "\x1b" not in shown.out + shown.err
        assert shown.out.startswith("[1]\ta")

    def test_arguments_of_another_kind_are_named(self) -> None:
        with pytest.raises(UsageError, match="print_every: found 0; expected an integer >= 1, or None"):
            in_lightgbm.Watch("mrr", print_every=0)
        with pytest.raises(UsageError, match="progress: found 'yes'; expected True or False"):
            in_xgboost.Watch("mrr", progress="yes")  # type: ignore[arg-type]
