"""Estimators of scikit-learn and others: the scores that they give by themselves, and messages where they give none."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the extra `sklearn` is not installed")
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import ConfigError, DataError, MissingExtraError, RankerError, TrainingError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.models.ranker import Training, TrainingFacts
from ltr_harness.models.sklearn import SklearnRanker, _loaded_libraries
from ltr_harness.testing.ranker_suite import RankerSuite, ranking_data

TAGS = ", __sklearn_tags__" if hasattr(BaseEstimator, "__sklearn_tags__") else ""  # from 1.6 on
LOGISTIC = "sklearn.linear_model.LogisticRegression"


def with_labels(data: RankingDataset, labels: Any, weights: Any = None) -> RankingDataset:
    values = np.broadcast_to(np.asarray(labels, dtype=float), (data.n_rows,))
    return replace(data, judgments=Judgments.checked(values, data.groups, query_weights=weights))


def qualified_name(kind: Any) -> str:
    """As a configuration names a class."""
    package, _, rest = kind.__module__.partition(".")
    return ".".join([package, *(part for part in rest.split(".") if not part.startswith("_")), kind.__name__])


def margin(one: Any, X: Any) -> Any:
    return one.decision_function(X)


def expected(one: Any, X: Any) -> Any:
    return (one.predict_proba(X) * one.classes_).sum(axis=1)


ORACLES: dict[str, tuple[Any, dict[str, Any], int | None, Any]] = {
    "regressor": (Ridge(), {"alpha": 2.0}, None, lambda one, X: one.predict(X)),
    "regressor of two": (Ridge(), {}, 2, lambda one, X: one.predict(X)),
    "margin": (LogisticRegression(), {"C": 0.5}, 1, margin),
    "margin without probabilities": (LinearSVC(), {"dual": True}, 1, margin),
    "grades": (LogisticRegression(), {"C": 0.5}, None, expected),
    "probability": (GaussianNB(), {}, 1, lambda one, X: one.predict_proba(X)[:, 1]),
    "forest": (RandomForestRegressor(), {"n_estimators": 7}, None, lambda one, X: one.predict(X)),
    "forest of grades": (ExtraTreesClassifier(), {"n_estimators": 7}, None, expected),
    "pipeline": (
        make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()),
        {"logisticregression__C": 0.1, "simpleimputer__strategy": "median"},
        1,
        margin,
    ),
}


@pytest.mark.parametrize(("case", "weighted"), [*((case, True) for case in ORACLES), ("regressor", False)])
def test_scores_are_those_of_the_same_estimator_trained_outside(case: str, weighted: bool) -> None:
    estimator, params, relevant, score = ORACLES[case]
    data, test = ranking_data(1), ranking_data(3).features
    weights = np.linspace(0.1, 3, data.n_queries) if weighted else None
    data = with_labels(data, data.labels, weights)
    steps = [step for _, step in estimator.steps] if case == "pipeline" else [estimator]
    names = [qualified_name(type(step)) for step in steps]
    ranker = SklearnRanker(
        estimator=tuple(names) if case == "pipeline" else names[0], params=params, relevant=relevant
    )
    model = ranker.fit(Training(train=data, seed=5))

    outside = clone(estimator).set_params(**params)
    seeds = {name: 5 for name in outside.get_params() if name.endswith("random_state")}
    y = data.labels if relevant is None else (data.labels >= relevant).astype(int)
    last = "logisticregression__" if case == "pipeline" else ""
    given = {f"{last}sample_weight": np.repeat(weights, data.groups.sizes)} if weights is not None else {}
    outside.set_params(**seeds).fit(data.features.astype(float), y, **given)
    np.testing.assert_array_equal(model.score(test), score(outside, test.astype(float)))
    assert ranker.seed_matters == bool(seeds)
    assert model.cautions == ()


def test_the_weights_are_those_of_the_rows_where_rows_have_them() -> None:
    data = ranking_data(1)
    weights = np.random.default_rng(0).uniform(0.1, 3, data.n_rows)
    ranker = SklearnRanker(estimator=qualified_name(Ridge))
    model = ranker.fit(Training(train=replace(data, row_weights=weights)))
    outside = Ridge().fit(data.features.astype(float), data.labels, sample_weight=weights)
    np.testing.assert_array_equal(
        model.score(data.features), outside.predict(data.features.astype(np.float64))
    )


def test_classes_are_grades_and_not_their_places() -> None:
    data = ranking_data(1)
    data = with_labels(data, np.where(data.labels >= 2, 7, data.labels))
    model = SklearnRanker(estimator=qualified_name(GaussianNB)).fit(Training(train=data))
    outside = GaussianNB().fit(data.features.astype(float), data.labels)
    assert outside.classes_.tolist() == [0, 1, 7]
    np.testing.assert_array_equal(model.score(data.features), expected(outside, data.features.astype(float)))


def test_the_record_says_what_the_score_is_and_every_parameter() -> None:
    made = SklearnRanker(estimator=["sklearn.impute.SimpleImputer", LOGISTIC], relevant=1)  # type: ignore[arg-type]
    params = made.fit(Training(train=ranking_data(1), seed=3)).params
    assert params["estimator"] == ["sklearn.impute.SimpleImputer", LOGISTIC]
    assert params["score"] == "decision_function"
    assert (params["logisticregression__C"], params["logisticregression__random_state"]) == (1.0, 3)


# --- seeds, threads, versions ---


def test_threads_that_score_at_once_leave_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The first is done while the second still scores; what the process prints afterwards must not be lost."""
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    class Talkative:
        def predict(self, X: Any) -> Any:
            if len(X) == 1:
                first_is_in.set()
                assert second_is_in.wait(60)
            else:
                second_is_in.set()
                assert first_is_out.wait(60)
            print("scored")
            return np.zeros(len(X))

    data = ranking_data(1)
    trained = SklearnRanker(estimator=qualified_name(Ridge)).fit(Training(train=data))
    model = replace(trained, estimator=Talkative())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(model.score, data.features[:1])
        assert first_is_in.wait(60)
        second = pool.submit(model.score, data.features[:2])
        first.result()
        first_is_out.set()
        second.result()
    print("afterwards")
    assert capsys.readouterr() == ("afterwards\n", "scored\nscored\n")


def test_a_seed_that_is_given_is_kept() -> None:
    given = SklearnRanker(
        estimator=qualified_name(RandomForestRegressor), params={"random_state": 4, "n_estimators": 3}
    )
    assert not given.seed_matters
    data = ranking_data(1)
    scores = [given.fit(Training(train=data, seed=seed)).score(data.features) for seed in (1, 2)]
    np.testing.assert_array_equal(*scores)
    assert not SklearnRanker(estimator=qualified_name(Ridge), params={"random_state": 0}).seed_matters
    assert not SklearnRanker(estimator=qualified_name(GaussianNB)).seed_matters


@pytest.mark.long
def test_openmp_keeps_to_its_threads_and_they_move_no_score() -> None:
    class Suite(RankerSuite):
        ranker = SklearnRanker
        fields: ClassVar[dict[str, Any]] = {
            "estimator": "sklearn.ensemble.HistGradientBoostingClassifier",
            "params": {"max_iter": 5},
            "relevant": 1,
        }

    suite = Suite()
    assert not suite.made().threads_matter
    suite.test_it_keeps_to_its_threads()
    suite.test_another_number_of_threads_matters_only_where_it_says_so()


def test_each_kind_of_threads_is_limited(own_file: Path) -> None:
    """BLAS has one, whose number would change sums; OpenMP and joblib have those of the training."""
    own_file.write_text(
        OWN.replace(
            "self.mean_ = np.average(y)",
            "self.limits_ = limits(); self.n_jobs_ = self.n_jobs; self.mean_ = 0",
        ).replace(
            "def __init__(self, power=1.0): ",
            "def __init__(self, power=1.0, n_jobs=None): self.n_jobs = n_jobs; ",
        )
        + "from joblib import effective_n_jobs\n"
        "from threadpoolctl import threadpool_info\n"
        "def limits():\n"
        "    pools = sorted({(one['user_api'], one['num_threads']) for one in threadpool_info()})\n"
        "    return [*pools, ('joblib', effective_n_jobs(None))]\n"
    )
    ranker = SklearnRanker(estimator=f"{own_file}:Mean")
    made = ranker.fit(Training(train=ranking_data(1), threads=3)).estimator
    assert made.limits_ == [("blas", 1), ("openmp", 3), ("joblib", 3)]
    assert (made.n_jobs_, made.n_jobs) == (3, 1)
    given = ranker.model_copy(update={"params": {"n_jobs": 2}})
    made = given.fit(Training(train=ranking_data(1), threads=3)).estimator
    assert (made.n_jobs_, made.n_jobs) == (2, 2)
    assert (ranker.threads_matter, given.threads_matter) == (True, False)


def test_libraries_are_looked_for_again_where_a_module_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _loaded_libraries(len(sys.modules))
    assert _loaded_libraries(len(sys.modules)) is found
    monkeypatch.setitem(sys.modules, "newer", sys)
    assert _loaded_libraries(len(sys.modules)) is not found


def test_threads_count_where_another_library_divides_its_sums_by_them() -> None:
    lightgbm = SklearnRanker(estimator=("sklearn.impute.SimpleImputer", "lightgbm.LGBMClassifier"))
    assert lightgbm.threads_matter
    assert not lightgbm.model_copy(update={"params": {"lgbmclassifier__n_jobs": 1}}).threads_matter
    assert not SklearnRanker(estimator=qualified_name(RandomForestRegressor)).threads_matter


def test_the_packages_are_those_of_the_estimators() -> None:
    assert SklearnRanker(estimator=LOGISTIC).packages == ("scikit-learn",)
    assert SklearnRanker(estimator=("sklearn.impute.SimpleImputer", "lightgbm.LGBMClassifier")).packages == (
        "scikit-learn",
        "lightgbm",
    )


def test_another_version_is_refused_where_a_model_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = SklearnRanker(estimator=LOGISTIC, relevant=1)
    with monkeypatch.context() as patch:
        patch.setattr("sklearn.base.__version__", "1.2.0")
        ranker.fit(Training(train=ranking_data(1))).save(tmp_path)
    with pytest.raises(
        DataError, match=r"cannot be read: Trying to unpickle .* LogisticRegression from version 1\.2\.0 when"
    ) as told:
        ranker.load(tmp_path)
    assert "`ltr-harness export requirements` lists what it was trained with" in str(told.value)


@pytest.mark.parametrize("content", [b"", b"nonsense", pickle.dumps(3), pickle.dumps(((), "predict", 4))])
def test_what_is_no_stored_model_is_an_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.pickle").write_bytes(content)
    with pytest.raises(DataError, match=r"model\.pickle: cannot be read"):
        SklearnRanker.load(tmp_path)


def test_without_the_package_the_line_to_install_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for needs in (SklearnRanker(estimator=LOGISTIC).check, lambda: SklearnRanker.load(tmp_path)):
        with pytest.raises(
            MissingExtraError, match="ranker sklearn needs the package scikit-learn; pip install"
        ):
            needs()


# --- an own file ---

OWN = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

class Mean(RegressorMixin, BaseEstimator):
    def __init__(self, power=1.0): self.power = power
    def fit(self, X, y): self.mean_ = np.average(y); return self
    def predict(self, X): return self.mean_ + X[:, 0] ** self.power
class Short(Mean):
    def predict(self, X): return X[:3, 0]
class Wide(Mean):
    def predict(self, X): return X[:, :2]
class Log(Mean):
    def predict(self, X): return np.where(X[:, 0] > 0, X[:, 0], np.nan)
class Infinite(Mean):
    def predict(self, X): return np.where(X[:, 0] > 0, X[:, 0], -np.inf)
class Fails(Mean):
    def fit(self, X, y): raise KeyError("no such thing")
class Needs(Mean):
    def __init__(self, power): self.power = power
class Tags:  # a classifier that does not say so
    def fit(self, X, y): return self
    def predict(self, X): return X[:, 0]
value = 3
"""


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    return path


def test_a_class_of_ones_own_trains_and_is_read_back(own_file: Path, tmp_path: Path) -> None:
    ranker = SklearnRanker(estimator=f"{own_file}:Mean", params={"power": 2})
    model = ranker.fit(Training(train=ranking_data(1)))
    test = ranking_data(3).features
    (tmp_path / "stored").mkdir()
    model.save(tmp_path / "stored")
    mean = ranking_data(1).labels.mean()
    for one in (model, ranker.load(tmp_path / "stored")):
        np.testing.assert_array_equal(one.score(test), mean + test.astype(np.float64)[:, 0] ** 2)
    assert ranker.packages == ("scikit-learn",)


def test_the_code_is_part_of_the_identity(own_file: Path) -> None:
    ranker = SklearnRanker(estimator=("sklearn.impute.SimpleImputer", f"{own_file}:Mean"))
    before = ranker.definition()
    (own_file.parent / "helper.py").write_text("x = 1\n")
    own_file.write_text(OWN + "import helper\n")
    after = ranker.definition()
    assert before["inputs"].keys() == {"mine.py"}
    assert after["inputs"].keys() == {"mine.py", "helper.py"}
    assert before["inputs"]["mine.py"] != after["inputs"]["mine.py"]
    assert json.loads(json.dumps(after)) == after


# --- messages ---


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"estimator": "LogisticRegression"}, "estimator: 'LogisticRegression' is not in an installed package; "
         "expected a class such as sklearn.linear_model.Ridge, or one of yours, ./mine.py:Mine"),
        ({"estimator": "sklern.linear_model.Ridge"}, "estimator: 'sklern.linear_model.Ridge' is not in an installed"),
        ({"estimator": "os.path.join"}, "estimator: 'os.path.join' is not in an installed package"),
        ({"estimator": "sklearn.linear.Ridge"}, "sklearn.linear: cannot be imported: ModuleNotFoundError: No module"),
        ({"estimator": "sklearn.linear_model.Rigde"}, "linear_model: has no 'Rigde'; did you mean 'Ridge'? (known: "),
        ({"estimator": "sklearn.impute.IterativeImputer"}, "sklearn.impute: cannot be imported: ImportError: Iterat"),
        ({"estimator": "sklearn.datasets.load_iris"}, "estimator: sklearn.datasets.load_iris is not a class; expected "
         "a class with fit and predict"),
        ({"estimator": "sklearn.preprocessing.StandardScaler"}, "estimator: StandardScaler has no predict; expected a "
         "classifier or a regressor"),
        ({"estimator": ("sklearn.linear_model.Ridge", LOGISTIC)}, "estimator: Ridge has no transform; expected a "
         "transformer before the last step"),
        ({"estimator": "sklearn.model_selection.GridSearchCV"}, "estimator: sklearn.model_selection.GridSearchCV "
         "cannot be made without arguments: TypeError"),
        ({"estimator": LOGISTIC, "params": {"c": 1}}, "params.c: LogisticRegression has no parameter 'c'; did you mean "
         "'C'? (known: C, "),
        ({"estimator": ("sklearn.impute.SimpleImputer", LOGISTIC), "params": {"C": 1}}, "params.C: LogisticRegression "
         "has no parameter 'C'; did you mean 'logisticregression__C'?"),
        ({"estimator": ("sklearn.impute.Simple", "sklearn.svm.SVCC")}, "sklearn.svm: has no 'SVCC'; did you mean"),
        ({"estimator": "OWN:Nothing"}, "mine.py: has no 'Nothing'; known: "),
        ({"estimator": "OWN:value"}, "mine.py:value is not a class; expected a class with fit and predict"),
        ({"estimator": "OWN:Needs"}, "mine.py:Needs cannot be made without arguments: TypeError: Needs.__"),
        ({"estimator": "OWN:Tags"}, f"estimator: Tags has no get_params, set_params{TAGS}; expected a"),
        ({"estimator": "GONE:Mean"}, "gone.py: no such file; expected a Python file that defines 'Mean'"),
    ],
)  # fmt: skip
def test_what_is_no_estimator_or_no_parameter(fields: dict[str, Any], told: str, own_file: Path) -> None:
    places = {"OWN": str(own_file), "GONE": str(own_file.with_name("gone.py"))}
    name = fields["estimator"]
    if ":" in name:
        name = places[name.partition(":")[0]] + ":" + name.partition(":")[2]
    problems = SklearnRanker(**{**fields, "estimator": name}).check()
    assert told in "\n".join(map(str, problems))


def test_the_configuration_says_where(tmp_path: Path) -> None:
    model = {"ranker": "sklearn", "estimator": "./gone.py:Mine"}
    other = {"ranker": "sklearn", "estimator": LOGISTIC, "params": {"c": 1}}
    third = {"ranker": "sklearn", "estimator": []}
    path = tmp_path / "one.yaml"
    models = {"mine": model, "logistic": other, "empty": third}
    path.write_text(json.dumps({"name": "one", "data": {"reader": "synthetic"}, "models": models}, indent=1))
    with pytest.raises(ConfigError) as told:
        load_experiment(path)
    said = str(told.value)
    assert f"{tmp_path}/gone.py: no such file" in said  # beside the configuration, and not here
    assert "models.logistic.params.c: LogisticRegression has no parameter 'c'; did you mean 'C'?" in said
    assert "models.empty.estimator" in said


@pytest.mark.parametrize(
    ("fields", "labels", "told"),
    [
        ({"estimator": LOGISTIC}, 2, "estimator: all training labels are 2; expected two grades for"),
        ({"estimator": LOGISTIC, "relevant": 9}, None, "relevant: all training labels are below 9; expected both"),
        ({"estimator": LOGISTIC, "relevant": 0}, None, "relevant: all training labels are at least 0; expected both"),
        ({"estimator": "sklearn.linear_model.Ridge", "relevant": 9}, None, "relevant: all training labels are below 9"),
        ({"estimator": "sklearn.svm.LinearSVC"}, None, "estimator: LinearSVC gives no probabilities, which an expected "
         "grade of 4 grades needs; expected a regressor, or `relevant: 1`"),
        ({"estimator": LOGISTIC}, 0.5, "estimator: LogisticRegression has a class for each grade; found 586 fractional "
         "labels; expected a regressor, or `relevant: 1`"),
    ],
)  # fmt: skip
def test_labels_that_do_not_fit(fields: dict[str, Any], labels: float | None, told: str) -> None:
    data = ranking_data(1)
    data = data if labels is None else with_labels(data, labels)
    ranker = SklearnRanker(**fields)
    problems = "\n".join(map(str, ranker.check(TrainingFacts.of(data, stopping=True))))
    assert told.replace("586", f"{data.n_rows}") in problems
    with pytest.raises(RankerError):
        ranker.fit(Training(train=data))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Short", "Short.predict: gave an array of shape (3,) for 50 rows; expected a score for each"),
        ("Wide", "Wide.predict: gave an array of shape (50, 2) for 50 rows; expected a score for each"),
        ("Log", "Log.predict: gave nan for 24 of 50 rows, first row "),
        ("Infinite", "Infinite.predict: gave -inf for 24 of 50 rows, first row "),
    ],
)
def test_scores_that_are_none(name: str, told: str, own_file: Path) -> None:
    model = SklearnRanker(estimator=f"{own_file}:{name}").fit(Training(train=ranking_data(1)))
    features = ranking_data(3).features[:50]
    told = told.replace("24", str(np.count_nonzero(features[:, 0] <= 0)))
    with pytest.raises(DataError) as error:
        model.score(features)
    assert told in str(error.value)
    with pytest.raises(DataError, match="expected \\(n_rows, 4\\), as in training"):
        model.score(features[:, :2])


def test_a_failure_in_training_has_the_words_of_the_library(own_file: Path) -> None:
    with pytest.raises(TrainingError, match="Fails: 'no such thing'"):
        SklearnRanker(estimator=f"{own_file}:Fails").fit(Training(train=ranking_data(1)))
    with pytest.raises(
        TrainingError, match="LogisticRegression: The 'C' parameter of LogisticRegression must"
    ):
        SklearnRanker(estimator=LOGISTIC, params={"C": -1}).fit(Training(train=ranking_data(1)))


def test_missing_values_have_a_cure() -> None:
    data = ranking_data(1)
    holes = data.features.copy()
    holes[::7, 1] = np.nan
    cure = "; make sklearn.impute.SimpleImputer the first step of `estimator:`"
    with pytest.raises(TrainingError) as told:
        SklearnRanker(estimator=LOGISTIC).fit(Training(train=replace(data, features=holes)))
    assert str(told.value) == f"LogisticRegression: Input X contains NaN{cure}"
    model = SklearnRanker(estimator=LOGISTIC).fit(Training(train=data))
    with pytest.raises(DataError) as asked:
        model.score(holes)
    assert str(asked.value) == f"LogisticRegression.predict_proba: Input X contains NaN{cure}"
    cured = SklearnRanker(estimator=("sklearn.impute.SimpleImputer", LOGISTIC))
    assert np.isfinite(cured.fit(Training(train=replace(data, features=holes))).score(holes)).all()


def test_what_its_numbers_have_to_be_read_with_is_noted() -> None:
    data = ranking_data(1)
    weighted = with_labels(data, data.labels, np.linspace(1, 2, data.n_queries))
    coded = replace(weighted, categories={"one": ("red", "blue"), "two": ("a", "b")})
    model = SklearnRanker(estimator="sklearn.neighbors.KNeighborsRegressor").fit(Training(train=coded))
    assert tuple(map(str, model.cautions)) == (
        "weights have no effect: KNeighborsRegressor takes no sample_weight",
        "2 categorical features: one, two: KNeighborsRegressor takes the codes as quantities",
    )
    short = SklearnRanker(estimator=LOGISTIC, params={"max_iter": 1}).fit(Training(train=data))
    [caution] = short.cautions
    assert caution.text.startswith("ConvergenceWarning: lbfgs failed to converge")
    assert "\n" not in caution.text


def test_what_an_estimator_prints_is_no_result(own_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_file.write_text(
        OWN.replace("self.mean_ = np.average(y)", "self.mean_ = 0; print('training')").replace(
            "return self.mean_ +", "print('scoring'); return"
        )
    )
    data = ranking_data(1)
    SklearnRanker(estimator=f"{own_file}:Mean").fit(Training(train=data)).score(data.features)
    assert capsys.readouterr() == ("", "training\nscoring\n")
