"""Estimators and pipelines with scikit-learn's interface, of any installed package or of a user's own file."""

import json
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from ltr_harness._util.catalog import attribute_of, did_you_mean, load_own_file
from ltr_harness._util.stored import DERIVED
from ltr_harness._util.text import count_of, named
from ltr_harness._util.user_code import distribution_of, imported_modules, is_own_file, require_trust
from ltr_harness.errors import Caution, DataError, Problem, RankerError, all_of, optional_module
from ltr_harness.metrics.core.expected_grade import expected_grade
from ltr_harness.models import ranker
from ltr_harness.models.ranker import Training, TrainingFacts, failures_of


@dataclass(frozen=True, eq=False, kw_only=True)
class SklearnModel(ranker.FittedModel):
    """A trained estimator, and the method that its score is of; it scores on one thread, so that scores repeat."""

    FILE: ClassVar[str] = "model.pickle"
    estimator: Any
    names: tuple[str, ...]
    how: str
    n_features: int

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        matrix = ranker.as_matrix(features, self.n_features).astype(np.float64)
        if not len(matrix):
            return np.empty(0)
        called = f"{_class_name(self.estimator)}.{self.how}"
        with failures_of(called, Exception, say=_with_cure, kind=DataError), _threads(1, "sequential"):
            scores = np.asarray(scores_by(self.how, self.estimator, matrix), dtype=np.float64)
        rows = count_of(len(matrix), "row")
        if scores.shape != (len(matrix),):
            found = f"gave an array of shape {scores.shape} for {rows}"
            raise DataError.at(called, found, "a score for each")
        if (bad := np.flatnonzero(~np.isfinite(scores))).size:
            found = f"gave {scores[bad[0]]:g} for {len(bad):,} of {rows}, first row {bad[0]}"
            raise DataError.at(called, found, "finite scores")
        return scores

    def save(self, folder: Path) -> str:
        with (Path(folder) / self.FILE).open("wb") as file:
            pickle.dump((self.names, self.how, self.n_features), file)
            pickle.dump(self.estimator, file)
        return self.FILE

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        _require_library()
        from sklearn.exceptions import InconsistentVersionWarning

        require_trust("its model is a pickle, and reading one executes code that it holds")
        path = ranker.model_file(folder, cls.FILE)
        cure = "`ltr-harness export requirements` lists what it was trained with"
        reading = failures_of(
            f"{path}: cannot be read",
            Exception,
            say=lambda text: f"{_with_cure(text)}; {cure}",
            kind=DataError,
        )
        with reading, path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("error", InconsistentVersionWarning)
            names, how, n_features = pickle.load(file)
            for name in filter(is_own_file, names):
                load_own_file(name)  # the pickle has nothing but the name of its module
            return cls(estimator=pickle.load(file), names=names, how=how, n_features=n_features)


def scores_by(method: str, estimator: Any, X: Any) -> NDArray[Any]:
    """One score a row by this method: of probabilities that of the higher of two grades, or the expected grade."""
    found: NDArray[Any] = getattr(estimator, method)(X)
    if method != "predict_proba":
        return found
    grades = estimator.classes_
    return found[:, 1] if len(grades) == 2 else expected_grade(found, grades)


class SklearnRanker(ranker.StoredRanker):
    """An estimator or pipeline with scikit-learn's interface, trained on rows and labels; needs the extra `sklearn`.

    A regressor's score is its prediction. A classifier's is the decision function of two classes, or, without one, the
    probability of the higher; of more classes it is the expected grade.
    """

    trained = SklearnModel

    estimator: str | tuple[str, ...] = Field(
        min_length=1,
        description="A class of an installed package, such as sklearn.linear_model.LogisticRegression, or of your "
        "own, ./mine.py:Mine; a list is a pipeline.",
    )
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="The estimator's own parameters; those of a pipeline begin with the step's class in lower case: "
        "logisticregression__C.",
    )
    relevant: int | None = Field(
        None,
        description="Train on whether a label is at least this. Unless given, labels are the target, and each grade "
        "is a class of a classifier. Evaluation keeps the grades.",
    )

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.estimator,) if isinstance(self.estimator, str) else self.estimator

    @property
    def packages(self) -> tuple[str, ...]:  # type: ignore[override]
        used = [distribution_of(name) for name in self._names if not is_own_file(name)]
        return tuple(dict.fromkeys(["scikit-learn", *filter(None, used)]))

    def inputs(self) -> tuple[Path, ...]:
        own_files = [Path(name.rpartition(":")[0]) for name in self._names if is_own_file(name)]
        return (
            *own_files,
            *(file for path in own_files if path.is_file() for file in imported_modules(path)),
        )

    @property
    def seed_matters(self) -> bool:
        return bool(_unset_parameters(self._untrained(), "random_state"))

    @property
    def threads_matter(self) -> bool:
        return bool(_unset_parameters(self._untrained(), "n_jobs", of_others=True))

    def _untrained(self) -> Any:
        """Return the estimator with its parameters, untrained; a RankerError has everything that is wrong with it."""
        require_trust("training an estimator executes code that the record names")
        _require_library()
        from sklearn.pipeline import make_pipeline

        *first, last = self._names
        calls = [*(partial(_step, name, "transform") for name in first), partial(_step, last, "predict")]
        steps = all_of(calls, RankerError)
        built = steps[0] if isinstance(self.estimator, str) else make_pipeline(*steps)
        parameters, problems = built.get_params(), []
        for name, value in self.params.items():
            try:
                built.set_params(**{name: value})
            except Exception:  # whatever an estimator makes of it
                of_step = {
                    name.lower(): parameter for parameter in parameters if parameter.endswith(f"__{name}")
                }
                found = f"{_class_name(built)} has no parameter {name!r}"
                problems.append(
                    Problem(f"params.{name}", found, cure=did_you_mean(name, parameters, of_step))
                )
        RankerError.refuse(problems)
        return built

    def carried(self, learned: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        return ranker.with_derived(self.params, learned)

    def derived_params(
        self, params: Mapping[str, Any], load: Callable[[], ranker.FittedModel]
    ) -> dict[str, Any]:
        model = load()
        assert isinstance(model, SklearnModel)
        return _derived_parameters(model.estimator)

    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        try:
            estimator = self._untrained()
        except RankerError as error:
            return list(error.problems)
        if facts is None or facts.judgments is None:
            return []
        classes = np.unique(self._target(facts.judgments.labels, estimator)).tolist()
        if self.relevant is not None and len(classes) == 1:
            side = "at least" if classes[0] else "below"
            return [Problem("relevant", f"all training labels are {side} {self.relevant}", "both kinds")]
        return _class_problems(estimator, self.relevant, classes, facts) if _is_classifier(estimator) else []

    def _target(self, labels: NDArray[np.float64], estimator: Any) -> NDArray[Any]:
        """Return the target that is learned, (n_rows,)."""
        target = labels if self.relevant is None else labels >= self.relevant
        return target.astype(np.int64 if _is_classifier(estimator) else np.float64)

    def fit(self, training: Training) -> SklearnModel:
        self.require(training)
        train, model = training.train, self._untrained()
        name, threads = _class_name(model), _unset_parameters(model, "n_jobs", of_others=True)
        model.set_params(**dict.fromkeys(threads, training.threads))
        model.set_params(**dict.fromkeys(_unset_parameters(model, "random_state"), training.seed))
        arguments: dict[str, Any] = {}
        cautions: list[Caution] = []
        weights = train.weights_of_rows()
        if weights is not None:
            parameter = _weight_parameter(model)
            if parameter is None:
                text = f"weights have no effect: {name} takes no sample_weight"
                cautions.append(Caution("unused-weights", "note", text))
            else:
                arguments[parameter] = weights
        if train.categories:
            features_text = named("categorical feature", list(train.categories))
            text = f"{features_text}: {name} takes the codes as quantities"
            cautions.append(Caution("categories-as-quantities", "note", text))
        with failures_of(name, Exception, say=_with_cure), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with _threads(training.threads, "threading"):
                model.fit(train.features.astype(np.float64), self._target(train.labels, model), **arguments)
        how = _scoring_method(model)
        if threads:
            model.set_params(**dict.fromkeys(threads, 1))  # it scores on one, and the number is in no file
        warning_texts = dict.fromkeys(
            f"{warning.category.__name__}: {_with_cure(str(warning.message))}" for warning in caught
        )
        cautions += [Caution("library-warning", "note", text) for text in warning_texts]
        params = {"score": how, **model.get_params()}
        derived = _derived_parameters(model)
        return SklearnModel(
            estimator=model,
            names=self._names,
            how=how,
            n_features=train.n_features,
            params=json.loads(json.dumps({"estimator": self.estimator, **params}, default=str)),
            cautions=tuple(cautions),
            learned={DERIVED: derived} if derived else {},
        )


def _weight_parameter(model: Any) -> str | None:
    """Return the parameter of `fit` that takes weights of rows; None where the last step takes none."""
    from sklearn.utils.validation import has_fit_parameter

    prefix, last = _steps(model)[-1]
    return f"{prefix}sample_weight" if has_fit_parameter(last, "sample_weight") else None


def _scoring_method(model: Any) -> str:
    """Return the method of a trained model whose values are scores."""
    if len(getattr(model, "classes_", ())) == 2 and hasattr(model, "decision_function"):
        return "decision_function"
    return "predict_proba" if _is_classifier(model) else "predict"


def _require_library() -> None:
    optional_module("sklearn", "ranker sklearn needs the package scikit-learn", "sklearn")


def _step(name: str, method: str) -> Any:
    """An object of the class of that name, which has a method; of installed packages its own module is imported."""
    from sklearn.base import BaseEstimator

    module, _, attribute = name.rpartition(".")
    if is_own_file(name):
        kind = load_own_file(name, RankerError)
    elif distribution_of(module) is None:
        expected = "a class such as sklearn.linear_model.Ridge, or one of yours, ./mine.py:Mine"
        raise RankerError.at("estimator", f"{name!r} is not in an installed package", expected)
    else:
        kind = attribute_of(partial(import_module, module), attribute, module, RankerError)
    if not isinstance(kind, type):
        raise RankerError.at("estimator", f"{name} is not a class", "a class with fit and predict")
    try:
        step = kind()
    except Exception as problem:
        found = f"{name} cannot be made without arguments: {type(problem).__name__}: {problem}"
        raise RankerError.at("estimator", found) from problem
    tags = ["__sklearn_tags__"] if hasattr(BaseEstimator, "__sklearn_tags__") else []  # from 1.6 on
    required, is_last = ("get_params", "set_params", *tags, "fit", method), method == "predict"
    if missing := [attribute_name for attribute_name in required if not hasattr(step, attribute_name)]:
        expected = "a classifier or a regressor" if is_last else "a transformer before the last step"
        raise RankerError.at("estimator", f"{kind.__name__} has no {', '.join(missing)}", expected)
    return step


def _steps(estimator: Any) -> list[tuple[str, Any]]:
    """Each step of a pipeline with the beginning of its parameters' names."""
    from sklearn.pipeline import Pipeline

    steps = estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
    return [(name and f"{name}__", step) for name, step in steps]


def _class_name(estimator: Any) -> str:
    """Return the name of the class that learns from labels."""
    return type(_steps(estimator)[-1][1]).__name__


def _unset_parameters(estimator: Any, parameter: str, of_others: bool = False) -> list[str]:
    """The parameters of this name without a value, of any step; or of those that are not scikit-learn's."""
    return [
        prefix + name
        for prefix, step in _steps(estimator)
        if not (of_others and type(step).__module__.startswith("sklearn."))
        for name, value in step.get_params().items()
        if name.rpartition("__")[2] == parameter and value is None
    ]


def _derived_parameters(estimator: Any) -> dict[str, Any]:
    """Return what the number of rows decided: histogram boosting stops early where there are more than 10,000."""
    return {
        f"{begin}early_stopping": bool(step.do_early_stopping_)
        for begin, step in _steps(estimator)
        if hasattr(step, "do_early_stopping_") and step.early_stopping == "auto"
    }


def _class_problems(
    estimator: Any, relevant: int | None, classes: Sequence[Any], facts: TrainingFacts
) -> list[Problem]:
    """Return the problem of a classifier with the classes that training labels give."""
    name = _class_name(estimator)
    if relevant is None and facts.n_fractional:
        found = f"{name} has a class for each grade; found {count_of(facts.n_fractional, 'fractional label')}"
    elif len(classes) == 1:
        found = f"all training labels are {classes[0]}"
        return [Problem("estimator", found, f"two grades for {name}")]
    elif len(classes) > 2 and not hasattr(estimator, "predict_proba"):
        found = f"{name} gives no probabilities, which an expected grade of {len(classes)} grades needs"
    else:
        return []
    return [Problem("estimator", found, "a regressor, or `relevant: 1`")]


def _is_classifier(estimator: Any) -> bool:
    from sklearn.base import is_classifier

    return hasattr(estimator, "predict_proba") or is_classifier(estimator)


def _with_cure(message: str) -> str:
    """The first line of a message, with the cure where values are missing."""
    first = (message.strip() or "no reason given").splitlines()[0]
    cure = "; make sklearn.impute.SimpleImputer the first step of `estimator:`"
    return f"{first.rstrip('.')}{cure}" if "contains NaN" in first else first


class _PrintsToStderr:
    """Print to stderr while any thread is within; of two `redirect_stdout` at once one can leave stdout replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_within = 0
        self._stdout = sys.stdout

    def __enter__(self) -> None:
        with self._lock:
            if self._n_within == 0:
                self._stdout, sys.stdout = sys.stdout, sys.stderr
            self._n_within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_within -= 1
            if self._n_within == 0:
                sys.stdout = self._stdout


_prints_to_stderr = _PrintsToStderr()


@lru_cache(maxsize=1)
def _loaded_libraries(n_modules: int) -> Any:
    """Find the process's BLAS and OpenMP libraries, which takes milliseconds; others arrive with a new module."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def _threads(limit: int, backend: str) -> Iterator[None]:
    """At most so many threads, one for the sums of BLAS, whose order they change; printed lines go to stderr."""
    from joblib import parallel_config

    limits = _loaded_libraries(len(sys.modules)).limit(limits={"blas": 1, "openmp": limit})
    with limits, parallel_config(backend, n_jobs=limit), _prints_to_stderr:
        yield
