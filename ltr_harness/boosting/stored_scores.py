"""The one place that turns what a library gives its hooks into the score that the model is stored with.

A stored score is raw: a sum over trees, of classes the expected grade. LightGBM gives what an objective's link
makes of it, of a random forest means instead of sums; XGBoost what `Booster.predict` returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.boosting.watching import OncePerSet, one_per_row
from ltr_harness.errors import UsageError
from ltr_harness.metrics import Metric

ScoreArray = NDArray[np.float64]
ScoreLink = Callable[[ScoreArray], ScoreArray]
"""From predictions (n_rows,) back to raw scores (n_rows,)."""

_DIGITS = 1e-12
"""Largest error of an inverted score that is taken, as a share of the score, or of 1 where that is more."""

_ROUNDINGS = 4
"""Last bits that a library's link may be wrong by."""


def _logit(predicted: ScoreArray) -> ScoreArray:
    return np.asarray(np.log(predicted) - np.log1p(-predicted))


def _of_exp(predicted: ScoreArray) -> ScoreArray:
    return np.asarray(np.log(predicted))


def _of_softplus(predicted: ScoreArray) -> ScoreArray:
    return np.asarray(predicted + np.log(-np.expm1(-predicted)))


def _of_square(predicted: ScoreArray) -> ScoreArray:
    return np.asarray(np.sign(predicted) * np.sqrt(np.abs(predicted)))


_LINKS: dict[str, ScoreLink] = {
    "binary": _logit,
    "cross_entropy": _logit,
    "cross_entropy_lambda": _of_softplus,
    **dict.fromkeys(["poisson", "gamma", "tweedie"], _of_exp),
}


@dataclass(frozen=True)
class Form:
    """The difference between what LightGBM gives and the score, as a model's own file says.

    Attributes:
        objective: the line of the file, such as ``binary sigmoid:1``; empty where the gradients are not LightGBM's.
        averages: it gives means of trees, as a random forest does.
        rescales: later rounds change earlier trees, as in DART.
        threads: that the model was told to use; 0 for LightGBM's choice.
    """

    objective: str
    averages: bool
    rescales: bool
    threads: int

    @classmethod
    def of(cls, booster: Any) -> Form:
        """The form of a `lightgbm.Booster` with one tree or more."""
        text = booster.model_to_string(num_iteration=1)
        header = text.partition("\nTree=")[0].splitlines()
        objectives = [line.removeprefix("objective=") for line in header if line.startswith("objective=")]
        threads = re.search(r"^\[num_threads: (\d+)\]$", text, re.MULTILINE)
        return cls(
            objective="".join(objectives),
            averages="average_output" in header,
            rescales="\n[boosting: dart]\n" in text,
            threads=int(threads[1]) if threads else 0,
        )

    @property
    def inverse(self) -> ScoreLink | None:
        """Back through the objective's link; None where that is the identity."""
        name, *options = self.objective.split() or [""]
        if "sqrt" in options:
            return _of_square
        link = _LINKS.get(name)
        steepness = [float(option.partition(":")[2]) for option in options if option.startswith("sigmoid:")]
        if link is None or not steepness:
            return link
        return lambda predicted: link(predicted) / steepness[0]


@dataclass
class _Sum:
    """Scores (n_rows,) after some of a booster's rounds."""

    scores: ScoreArray
    rounds: int

    @classmethod
    def of(cls, dataset: Any) -> _Sum:
        """Return the first scores of a set: those of the model before, or those that the set brings along."""
        before, initial = dataset._predictor, dataset.get_init_score()
        scores = np.zeros(dataset.num_data()) if initial is None else np.array(initial, dtype=np.float64)
        return cls(scores, 0 if before is None else before.current_iteration())


@dataclass
class _LastEvaluation:
    """The rounds of a booster when a set was last evaluated, and whether a step of DART undid some."""

    rounds: int = 0
    undone: bool = False


class LightGBMScores:
    """Scores of the sets that one `lightgbm.Booster` evaluates.

    Where a set's rows are at hand, the new trees' scores are added up in the stored model's order. Where LightGBM has
    freed them, the link is inverted as far as that is exact.
    """

    def __init__(self, booster: Any) -> None:
        self._form = Form.of(booster)
        self._inverse = self._form.inverse
        self._is_handed_over = self._inverse is None and not self._form.averages
        self._sums: OncePerSet[_Sum] = OncePerSet()
        self._seen: OncePerSet[_LastEvaluation] = OncePerSet()

    @property
    def needs_rows(self) -> bool:
        """True where the scores may have to be computed from the rows."""
        return self._form.rescales or not self._is_handed_over

    def of_set(
        self,
        booster: Any,
        dataset: Any,
        handed: ScoreArray,
        rows: Any = None,
        steps: int | None = None,
        is_last: bool = False,
    ) -> ScoreArray:
        """The scores (n_rows,) of an evaluated set.

        Args:
            booster: that evaluates it.
            dataset: the `lightgbm.Dataset`.
            handed: (n_rows,) or, of classes, (n_rows, n_grades), as a hook is given them.
            rows: the set's features, where LightGBM has freed them since.
            steps: of boosting until now; None where every step evaluates.
            is_last: whether this is the last step.
        """
        if self._form.rescales:
            undone = self._is_undone(booster, dataset, steps)
            # of DART all trees have to be asked: rarely, and at last, as its running sums are rounded otherwise
            if not (undone or is_last or self._unrecoverable(handed).size):
                return self._inverted(handed, booster)
            rows = rows_of(booster, dataset, rows)
            if rows is not None:
                return self._predicted(booster, dataset, rows)
            _refuse_undone(undone)
            return self._inverted(handed, booster)
        if self._is_handed_over or np.ndim(handed) == 2:
            return np.asarray(one_per_row(handed))
        rows = rows_of(booster, dataset, rows)
        return self._inverted(handed, booster) if rows is None else self._summed(booster, dataset, rows)

    def _is_undone(self, booster: Any, dataset: Any, steps: int | None) -> bool:
        """Tell whether DART found no split in some step: the model then has the trees dropped for it turned round."""
        seen = self._seen.get(dataset, _LastEvaluation)
        rounds = booster.current_iteration()
        seen.undone |= rounds <= seen.rounds if steps is None else rounds < steps
        seen.rounds = rounds
        return seen.undone

    def _predicted(self, booster: Any, dataset: Any, rows: Any) -> ScoreArray:
        start = _Sum.of(dataset)
        is_raw = booster.num_model_per_iteration() == 1
        first = start.rounds if is_raw else 0
        found = booster.predict(
            rows, raw_score=is_raw, start_iteration=first, num_iteration=-1, num_threads=self._form.threads
        )
        return start.scores + found if is_raw else np.asarray(one_per_row(found))

    def _summed(self, booster: Any, dataset: Any, rows: Any) -> ScoreArray:
        rounds = booster.current_iteration()
        total = self._sums.get(dataset, lambda: _Sum.of(dataset))
        if rounds <= total.rounds:  # the trees that were added may be others now
            vars(total).update(vars(_Sum.of(dataset)))
        for round_ in range(total.rounds, rounds):  # one at a time, as the stored model adds them
            total.scores += booster.predict(
                rows, raw_score=True, start_iteration=round_, num_iteration=1, num_threads=self._form.threads
            )
        total.rounds = rounds
        return total.scores

    def _inverted(self, handed: ScoreArray, booster: Any) -> ScoreArray:
        if unrecoverable := self._unrecoverable(handed).tolist():
            name = self._form.objective.partition(" ")[0]
            raise UsageError(
                f"LightGBM gives metrics the predictions of the objective {name}, such as {unrecoverable[0]!r}, and "
                "not its raw scores. These cannot be recovered so near to a limit (probabilities above 0.99995, "
                "scores above 10), where different scores would tie; expected "
                "Watch(…), which sees the rows, or lightgbm.Dataset(…, free_raw_data=False) of the evaluated set"
            )
        scores = one_per_row(handed) if self._inverse is None else self._inverse(handed)
        return scores * booster.current_iteration() if self._form.averages else scores

    def _unrecoverable(self, handed: ScoreArray) -> ScoreArray:
        """Return the smallest and largest prediction (n_rows,) whose score cannot be computed to twelve digits."""
        ends = np.array([handed.min(), handed.max()])
        if self._inverse is None:
            return ends[:0]
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = self._inverse(ends)
            error = _ROUNDINGS * np.abs(self._inverse(np.nextafter(ends, 0.0)) - scores)
        is_exact = error <= _DIGITS * np.maximum(1.0, np.abs(scores))
        return ends[~is_exact]


def _refuse_undone(undone: bool) -> None:
    if undone:
        raise UsageError(
            "a step of LightGBM's DART found no split, and the model that LightGBM then stores has other scores than "
            "those that it gives metrics; expected fewer rounds, Watch(…), which sees the rows, or "
            "lightgbm.Dataset(…, free_raw_data=False) of the evaluated set"
        )


def rows_of(booster: Any, dataset: Any, kept_rows: Any) -> Any:
    """Features of an evaluated `lightgbm.Dataset`, or its `kept_rows`; None where no table of them is left."""
    table = dataset.data if kept_rows is None else kept_rows
    if table is None and dataset.used_indices is not None:
        table = getattr(dataset.reference, "data", None)
    if not is_table(table):
        return None
    rows = dataset.get_data() if kept_rows is None else kept_rows
    return rows if rows.shape == (dataset.num_data(), booster.num_feature()) else None


def is_table(data: Any) -> bool:
    """Tell whether data is a matrix or frame of features that `Booster.predict` takes; a file or sequence is not."""
    return len(getattr(data, "shape", ())) == 2


def of_xgboost(booster: Any, matrix: Any, validate_features: bool = False) -> Any:
    """Margins (n_rows,) of an `xgboost.DMatrix`, of a model of classes the expected grade.

    `Booster.predict` keeps each matrix's running sum and adds only the new rounds' trees.
    """
    scores = booster.predict(matrix, output_margin=True, validate_features=validate_features)
    if scores.ndim == 1:
        return scores
    return one_per_row(booster.predict(matrix, validate_features=False))


def refuse_unknown(library: str, metrics: Iterable[Metric]) -> None:
    """Refuse metrics that go by the size of scores, where no booster says what the scores are."""
    names = [str(metric) for metric in metrics if metric.depends_on_size]
    if names:
        raise UsageError(
            f"{', '.join(names)} depends on the size of scores, and outside of a booster of {library} these may be "
            "raw scores or an objective's predictions, such as probabilities; expected "
            f"a call by {library}, or ltr_harness.evaluate(…) with raw scores"
        )
