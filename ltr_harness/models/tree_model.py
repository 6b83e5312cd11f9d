"""Adapters of boosting libraries: their models of trees, cautions, checks of parameters, names, positions, threads."""

import hashlib
import importlib.util
import json
import multiprocessing
import os
import pickle
import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.files import cache_folder, sources_digest, write_whole
from ltr_harness._util.text import count_of
from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.boosting.watching import Measured
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import SparseFeatures, rows_of
from ltr_harness.errors import Caution, DataError, Problem, TrainingError
from ltr_harness.models.ranker import FittedModel, Training, TrainingFacts, as_matrix

ImportanceKind = Literal["gain", "split"]


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeModel(FittedModel):
    """A library's model of trees, with contributions, importance and size besides scores."""

    FILE: ClassVar[str]
    booster: Any
    threads: int | None = None  # that it scores on, where the booster does not say

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        return self.score_after(features, 0)

    def score_after(self, features: ArrayLike, rounds: int) -> NDArray[np.float64]:
        """Scores of the first rounds alone, all where 0: float64 (n_rows,), from features (n_rows, n_features)."""
        if isinstance(features, SparseFeatures):
            return np.concatenate([self.score_after(block, rounds) for _, block in features.blocks()])
        matrix = as_matrix(features, self.n_features)
        return np.asarray(self._predicted(matrix, rounds), dtype=np.float64) if len(matrix) else np.empty(0)

    def contributions(self, features: ArrayLike) -> NDArray[np.float64]:
        """SHAP values, float64 (n_rows, n_features + 1), from features (n_rows, n_features) in training's column order.

        The last column is the model's mean score; a row's values sum to its score.
        """
        if self._is_of_classes:
            raise DataError(
                "the score is an expected grade, not a sum over trees, so it cannot be divided among features; "
                "`ltr-harness show importance` has the features that it needs"
            )
        return np.asarray(self._shares(as_matrix(features, self.n_features)), dtype=np.float64)

    @property
    @abstractmethod
    def n_leaves(self) -> int:
        """The number of leaves of all trees together."""

    @property
    def n_splits(self) -> int:
        """The number of splits of all trees together."""
        return int(self.importance("split").sum())

    @abstractmethod
    def importance(self, kind: ImportanceKind = "gain") -> NDArray[np.float64]:
        """float64 (n_features,): the loss that the splits on each feature took away, or how many there are."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Columns that it scores."""

    @property
    @abstractmethod
    def _is_of_classes(self) -> bool:
        """True where each round has a tree for each grade, and a score is the expected grade."""

    @abstractmethod
    def _predicted(self, matrix: NDArray[np.float32], rounds: int) -> Any:
        """Scores of rows (n_rows, n_features), of which there is one at least."""

    @abstractmethod
    def _shares(self, matrix: NDArray[np.float32]) -> Any:
        """Contributions to the scores of rows (n_rows, n_features)."""


class TrainedBooster(NamedTuple):
    """A booster, its learning curve, and what training found out besides."""

    booster: Any
    history: Sequence[Measured]
    best_round: int | None = None  # where the rounds after it are to be cut
    n_rounds: int | None = None  # trained, where the learning curve does not say
    learned: Mapping[str, Any] | None = None
    cautions: Sequence[Caution] = ()


def training_cautions(
    n_splits: int, n_kept: int, n_trained: int, max_rounds: int, stopping: StoppingRule | None
) -> list[Caution]:
    """Return cautions about models that learned little, or were cut to `kept` rounds and might have learned more."""
    if n_splits == 0:
        text = (
            "the model is constant: no split met the requirements (smallest leaf, smallest hessian, smallest gain), "
            "so its metrics are those of a random order"
        )
        return [Caution("constant-model", "warning", text)]
    cautions = []
    if n_splits < 3 * n_kept and n_splits < 10:
        text = f"the model is nearly constant: {count_of(n_splits, 'split')} in {count_of(n_kept, 'round')}"
        cautions.append(Caution("nearly-constant-model", "warning", text))
    if stopping is not None and n_trained >= max_rounds and n_trained - n_kept < stopping.patience:
        text = f"best round {n_kept} of {n_trained}, stopped by the limit, not by the metric"
        cautions.append(Caution("stopped-by-limit", "note", text, "more rounds may help"))
    return cautions


_WHERE = {
    "metrics": "set it under `metrics:`; the harness evaluates with its own metrics",
    "stopping": "set it under `stopping:`; one rule stops every library",
    "rounds": "set it with `stopping.max_rounds` or the model's `rounds:`",
    "harness": "the harness sets it, so that a run can be repeated",
    "data": "data reach the library from memory; set it under `data:`",
    "files": "runs store models and scores themselves",
    "threads": "the harness divides the machine's cores among the workers",
    "objective": "set it with the model's `objective:`",
}


def set_elsewhere(names: Mapping[str, str]) -> dict[str, str]:
    """Parameter to where it is set, from texts of names by a key of `_WHERE` or by what to say."""
    return {name: _WHERE.get(location, location) for location, text in names.items() for name in text.split()}


Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")

_REMEMBERED = 10_000  # answers of each library


def name_problems(
    params: Mapping[str, Any],
    library: str,
    canonical: Mapping[str, str],  # every name that the library accepts to the one it stands for
    owned: Mapping[str, str],  # a canonical name to the place where it is set
    conditions: Sequence[tuple[str, bool, str]] = (),  # names, whether they mean anything, and why not
) -> Iterator[Problem]:
    """Parameters that are unknown, set elsewhere, given twice, empty, or without effect."""
    first_names: dict[str, str] = {}
    for name, value in params.items():
        place = f"params.{name}"
        if name not in canonical:
            settable = {accepted: meaning for accepted, meaning in canonical.items() if meaning not in owned}
            cure = did_you_mean(name, settable.values()).partition(" (known: ")[0]  # hundreds would bury it
            if not cure.startswith("did you mean"):  # none of the library's first names is close
                cure = did_you_mean(name, settable).partition(" (known: ")[0]
            if not cure.startswith("did you mean"):
                cure = "see the library's documentation"
            yield Problem(place, f"{library} has no parameter {name!r} and would ignore it", cure=cure)
            continue
        meaning = canonical[name]
        alias = name if name == meaning else f"{name} (another name for {meaning})"
        if meaning in owned:
            yield Problem(place, f"{alias} cannot be set here", cure=owned[meaning])
        elif meaning in first_names:
            yield Problem(place, f"{alias} is given a second time", f"only {first_names[meaning]}")
        elif value is None:
            yield Problem(place, f"{alias} has no value", "a value, or the line left out")
        elif reasons := [
            reason for names, holds, reason in conditions if meaning in names.split() and not holds
        ]:
            yield Problem(place, f"{alias} has no effect {reasons[0]}", cure="leave it out, or change that")
        first_names.setdefault(meaning, name)


def feature_problems(field: str, names: Sequence[str], facts: TrainingFacts) -> list[Problem]:
    """Features taken for quantities, in a field of the ranker, that the data lack or that are codes of categories."""
    problems = []
    for name in names:
        if name not in facts.feature_names:
            cure = did_you_mean(name, facts.feature_names)
            problems.append(Problem(field, f"the data has no feature {name!r}", cure=cure))
    for name in names:
        if name in facts.categories:
            found = f"feature {name!r} is categorical: its codes have no order"
            problems.append(Problem(field, found, "a feature of numbers"))
    return problems


def xendcg_limits(name: str, leaf: float, default: str, facts: TrainingFacts) -> Iterator[Problem]:
    """A smallest hessian of a leaf that no query's hessian reaches."""
    if not facts.has_weights and 2 * leaf >= facts.n_queries:
        yield Problem(
            f"params.{name}",
            f"a query's hessian sums to less than 1 in rank_xendcg, so {count_of(facts.n_queries, 'training query')} "
            f"cannot be split into two leaves of {leaf:g} each: the model would be constant",
            f"well below {facts.n_queries / 2:g}; {default}",
        )


def dart_limits(name: str, other: str, facts: TrainingFacts) -> Iterator[Problem]:
    """Early stopping of dart."""
    if facts.stopping:
        yield Problem(
            f"params.{name}",
            "dart rescales earlier trees in every round, so early stopping cannot go back to the best one",
            cure=f"give the model a fixed number of `rounds:`, or {other}",
        )


def cache_answers(ask: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """Cache of a library's answers: one takes milliseconds, and every fold and training asks the same."""
    answers: dict[bytes, Answer] = {}

    @wraps(ask)
    def answer(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        try:
            question = pickle.dumps((args, kwargs))  # 1, True and "1" are three
        except (pickle.PicklingError, AttributeError, TypeError):  # nothing that a library could take
            return ask(*args, **kwargs)
        if question not in answers:
            if len(answers) == _REMEMBERED:
                answers.clear()
            answers[question] = ask(*args, **kwargs)
        return answers[question]

    return answer


def store_answers(library: str) -> Callable[[Callable[Arguments, Answer]], Callable[Arguments, Answer]]:
    """Keep an installed library's answers beside the caches of data: who asks the same again need not import it.

    Not a refusal, which is a text: it may have had another reason. Nor what is asked of a device, which another
    machine may have, or by a worker, which has the library and tries values that nobody tries again.
    """

    def keep(ask: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        @wraps(ask)
        def answer(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            folder = cache_folder()
            if folder is None or multiprocessing.parent_process() is not None:
                return ask(*args, **kwargs)
            try:
                first = Path(str(getattr(importlib.util.find_spec(library), "origin", None)))
                installed = [str(first), first.stat().st_mtime_ns]
                code = sources_digest(Path(ask.__code__.co_filename))
                question = json.dumps([ask.__name__, code, installed, args, kwargs])
            except (TypeError, ValueError, OSError):
                return ask(*args, **kwargs)
            answer_file = folder / "answers" / f"{hashlib.sha256(question.encode()).hexdigest()}.json"
            with suppress(OSError, ValueError):
                stored_answer: Answer = json.loads(answer_file.read_bytes())
                return stored_answer
            value = ask(*args, **kwargs)
            if not isinstance(value, str) and '"device' not in question:
                with suppress(OSError):
                    write_whole(answer_file, json.dumps(value).encode())
            return value

        return answer

    return keep


def rejected_parameters(
    params: Mapping[str, Any], always: set[str], refusal: Callable[[Mapping[str, Any]], str | None]
) -> list[Problem]:
    """Rejected parameters, each with the library's message; those in `always` accompany each of the others."""
    if (message := refusal(params)) is None:
        return []
    frame = {name: value for name, value in params.items() if name in always}
    of_frame = refusal(frame)
    if of_frame is not None:
        by_itself = [
            Problem(f"params.{name}", f"{value!r} is refused: {message}")
            for name, value in frame.items()
            if (message := refusal({name: value})) is not None
        ]
        return by_itself or [Problem("params", f"{frame} is refused: {of_frame}")]
    problems = [
        Problem(f"params.{name}", f"{value!r} is refused: {alone}")
        for name, value in params.items()
        if name not in always and (alone := refusal({**frame, name: value})) is not None
    ]
    return problems or [Problem("params", f"refused together: {message}")]


def as_number(value: Any, default: float) -> float:
    """A parameter as a number; the default for one that is none, which is refused elsewhere."""
    try:
        return float(default if value is None else value)
    except (TypeError, ValueError):
        return default


def is_on(value: Any) -> bool:
    """Tell whether a library would read the value as yes."""
    return str(value).lower() in ("true", "+", "1")


# LightGBM refuses signs of JSON and turns blanks into underscores; XGBoost refuses brackets and "<".
_UNSAFE = re.compile(r'[\s",:\[\]{}<>]')


def safe_feature_names(names: Sequence[str]) -> list[str]:
    """Names both libraries take, each once."""
    safe: dict[str, None] = {}  # in order
    for name in names:
        base = candidate = _UNSAFE.sub("_", name) or "feature"
        count = 1
        while candidate in safe:
            count += 1
            candidate = f"{base}_{count}"
        safe[candidate] = None
    return list(safe)


def by_position(train: RankingDataset) -> RankingDataset:
    """The rows of each query in the order in which they were displayed."""
    assert train.positions is not None  # field_problems has looked
    query = np.repeat(np.arange(train.n_queries), train.groups.sizes)
    order = np.lexsort((train.positions, query))
    features = rows_of(train.features, order)
    judgments = train.judgments.with_rows(order, train.groups)
    return replace(train, features=features, judgments=judgments, **train.optional_fields(order))


def learned_bias(name: str, *columns: Mapping[int, float]) -> dict[str, Any]:
    """Position biases as records keep them: position to value, or values."""
    positions = sorted(columns[0])
    return {
        "position_bias": {
            name: {str(position): [column[position] for column in columns] for position in positions}
        }
    }


_last: defaultdict[str, WeakKeyDictionary[RankingDataset, tuple[Hashable, Any]]] = defaultdict(
    WeakKeyDictionary
)


def share_binned_data(library: str, training: Training, key: Hashable, make: Callable[[], Any]) -> Any:
    """The library's binned data: of the last call, or from `make` where splits (by identity) or the key are others."""
    cache, valid = _last[library], training.valid
    valid_ref = None if valid is None else ref(valid, lambda _: cache.clear())
    full_key = (valid_ref, key)
    stored_key, binned = cache.get(training.train, (None, None))
    if stored_key != full_key:
        cache.clear()  # before the new one is built: both at once would be twice the memory
        binned = make()
        cache[training.train] = (full_key, binned)
    return binned


@contextmanager
def fixed_threads(library: Any) -> Iterator[None]:
    """OpenMP gives all threads asked for, in spite of ``OMP_DYNAMIC``: fewer move trees and make XGBoost misread."""
    try:
        before = library.omp_get_dynamic()
        library.omp_set_dynamic(0)
    except AttributeError:
        if os.environ.get("OMP_DYNAMIC", "").strip().lower() in ("true", "1"):
            raise TrainingError.at(
                "OMP_DYNAMIC",
                "is set, so OpenMP may train with fewer threads than the run's record has",
                cure="unset it",
            ) from None
        yield
        return
    try:
        yield
    finally:
        library.omp_set_dynamic(before)
