"""Several models of the experiment as one: their scores made comparable within each query, and a weighted sum."""

import math
import shutil
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal, Self
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from ltr_harness._util.files import stored_file, temporary_folder
from ltr_harness._util.stored import Stored, read_stored
from ltr_harness._util.text import count_of
from ltr_harness._util.user_code import resolve_trusted
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups, places_within
from ltr_harness.errors import Caution, DataError, Problem, RankerError
from ltr_harness.metrics import Metric, bind
from ltr_harness.metrics.core.softmax import ProbabilityMetric
from ltr_harness.models.ranker import (
    BlendPart,
    FittedModel,
    StoredRanker,
    Training,
    TrainingFacts,
    model_file,
)
from ltr_harness.models.table import catalog

How = Literal["ranks", "z-scores", "scores"]
STEPS = 20
"""Weights are chosen in steps of about a twentieth."""
LARGEST = 1e6
"""Weight that may be given; the smallest above 0 is one divided by it."""


class _StoredPart(Stored):
    ranker: str
    file: str
    weight: Annotated[float, Field(ge=0, le=LARGEST)]


class _Contents(Stored):
    how: How
    parts: dict[str, _StoredPart]


@dataclass(frozen=True, eq=False, kw_only=True)
class BlendModel(FittedModel):
    """A weighted sum, stored as an archive of its parts' files."""

    FILE: ClassVar[str] = "model.zip"
    CONTENTS: ClassVar[str] = "blend.json"
    how: How
    parts: Mapping[str, BlendPart]
    weights: Sequence[float]  # in the order of the parts

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        if self.how != "scores":
            raise DataError(
                f"a blend of {self.how} compares the rows of a query, and there are features without queries; "
                "score a dataset, which has them, or use `how: scores`"
            )
        scores = {name: part.model.score(features) for name, part in self.parts.items()}
        return weighted(comparable(scores, "scores"), self.weights)

    def score_split(self, split: RankingDataset) -> NDArray[np.float64]:
        scores = {name: part.model.score_split(split) for name, part in self.parts.items()}
        return blended(comparable(scores, self.how, split.groups), self.weights, self.how, split.groups)

    def save(self, folder: Path) -> str:
        stored = {
            name: _StoredPart(ranker=part.ranker, file=part.file.name, weight=weight)
            for (name, part), weight in zip(self.parts.items(), self.weights, strict=True)
        }
        contents = _Contents(how=self.how, parts=stored).model_dump_json()
        with ZipFile(Path(folder) / self.FILE, "w") as archive:
            archive.writestr(ZipInfo(self.CONTENTS), contents)  # without a time: equal models are equal files
            for place, part in enumerate(self.parts.values()):
                entry = ZipInfo(f"{place}/{part.file.name}")
                entry.file_size = part.file.stat().st_size
                with part.file.open("rb") as source, archive.open(entry, "w") as target:
                    shutil.copyfileobj(source, target)
        return self.FILE

    @classmethod
    def load(cls, folder: Path, threads: int | None = None) -> Self:
        path = model_file(folder, cls.FILE)
        with ExitStack() as stack:
            extracted = stack.enter_context(temporary_folder())
            try:
                with ZipFile(path) as archive:
                    if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                        raise ValueError("it is larger inside than outside")
                    archive.extractall(extracted)
                stored = read_stored(_Contents, extracted, cls.CONTENTS)
                if not any(part.weight for part in stored.parts.values()):
                    raise ValueError("no part has a weight")
                files = [
                    stored_file(extracted / str(number), part.file)
                    for number, part in enumerate(stored.parts.values())
                ]
            except Exception as problem:  # whatever an archive that is damaged comes to
                raise DataError(f"{path}: is not a stored model ({problem})") from None
            parts = {}
            for (name, part), file in zip(stored.parts.items(), files, strict=True):
                kind = catalog.load(resolve_trusted(part.ranker, path.parent, trust=False))
                if issubclass(kind, BlendRanker):  # experiments refuse it, and it may go on without end
                    raise DataError.at(path, f"its part {name!r} is a blend", "models that are trained")
                parts[name] = BlendPart(part.ranker, kind.load(file.parent, threads), file)
            model = cls(how=stored.how, weights=[part.weight for part in stored.parts.values()], parts=parts)
            weakref.finalize(model, stack.pop_all().close)  # scores in a file are read when they are needed
        return model


class BlendRanker(StoredRanker):
    """A weighted sum of other models' scores; each of them is trained once, for itself and for every blend.

    Without `weights`, those with the best value of the stopping rule's metric, else of the primary one, on validation
    data are taken: from equal weights on, weight moves between two models as long as a move improves the value. Of two
    models, that is the best of 0, 0.05, …, 1; of equals, the more even weights. Probabilities are measured at the T
    that the blend itself would have.
    """

    trained = BlendModel
    seed_matters: ClassVar[bool] = False  # besides that of its parts

    of: tuple[str, ...] = Field(description="The models, by their names in this experiment.")
    how: How = Field(
        description="What is summed of each query: ranks (the share of its documents that a document stands above, "
        "equals counted half), z-scores ((score - mean) / standard deviation; 0 where all are equal), or plain scores."
    )
    weights: dict[str, float] | None = Field(
        None,
        description="Model to its weight, of which only the proportions count; chosen on validation data unless given.",
    )

    def parts(self) -> tuple[str, ...]:
        return self.of

    @property
    def needs_valid(self) -> bool:
        return self.weights is None

    def carried(self, learned: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        if not self.needs_valid:
            return {}
        chosen = [part_learned["weights"] for part_learned in learned]
        return {"weights": {part: fmean(part_weights[part] for part_weights in chosen) for part in self.of}}

    def check(self, facts: TrainingFacts | None = None) -> list[Problem]:
        weights, problems = self.weights, []
        if len(self.of) < 2 or len(set(self.of)) < len(self.of):
            named = ", ".join(self.of) or "no model"
            problems.append(Problem("of", f"names {named}", "at least two models, each once"))
        if weights is not None and weights.keys() != set(self.of):
            found = f"are of {', '.join(weights) or 'no model'}"
            problems.append(Problem("weights", found, "one of each model in `of`", "0 leaves a model out"))
        elif weights is not None and not any(weights.values()):
            problems.append(Problem("weights", "are all 0", "one above 0"))
        return problems + [
            Problem(f"weights.{name}", f"is {weight:g}", "0, or 0.000001 to 1,000,000")
            for name, weight in (weights or {}).items()
            if weight and not 1 / LARGEST <= weight <= LARGEST
        ]

    def fit(self, training: Training) -> BlendModel:
        self.require(training)
        lacking = [name for name in self.of if name not in training.parts]
        RankerError.refuse(Problem("of", f"Training.parts has no {name!r}") for name in lacking)
        parts = {name: training.parts[name] for name in self.of}
        weights: Sequence[float]
        cautions: tuple[Caution, ...] = ()
        if self.weights is not None:
            weights = [self.weights[name] for name in parts]
        else:
            weights, value = _choose_weights(parts, self.how, training)
        shares = {name: weight / sum(weights) for name, weight in zip(parts, weights, strict=True)}
        if self.weights is None:
            share_texts = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
            text = f"weights chosen by {training.decision_metric} on validation data ({value:.4f}): {share_texts}"
            cautions = (Caution("chosen-weights", "note", text),)
        return BlendModel(
            how=self.how,
            weights=weights,
            parts=parts,
            params=self.model_dump(mode="json", exclude_none=True),
            cautions=cautions,
            learned={"weights": shares},
        )


def ranks(scores: NDArray[np.float64], groups: QueryGroups) -> NDArray[np.float64]:
    """Return the number of documents of its query that a row stands above, equals and itself counted half, (n_rows,).

    Divided by the query's size, it is the percentile rank (scipy.stats.percentileofscore, kind="mean").
    """
    below, same = places_within(scores, np.repeat(np.arange(groups.n_queries), groups.sizes))
    return np.asarray(below + same / 2)


def z_scores(scores: NDArray[np.float64], groups: QueryGroups) -> NDArray[np.float64]:
    """float64 (n_rows,): (score - mean) / standard deviation of each query's n rows (ddof 0); 0 where all are equal."""

    def of_rows(values: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(values, groups.sizes)

    low, high = groups.min(scores), groups.max(scores)
    # from 0 to 1 first, which changes no z-score: equal scores become exactly 0, and no square overflows
    shares = (scores - of_rows(low)) / of_rows(np.where(high > low, high - low, 1.0))
    n = np.maximum(groups.sizes, 1)
    centred = shares - of_rows(groups.sum(shares) / n)
    spread = np.sqrt(groups.sum(centred**2) / n)
    return np.asarray(centred / of_rows(np.where(spread > 0, spread, 1.0)))


def comparable(
    scores: Mapping[str, NDArray[np.float64]], how: How, groups: QueryGroups | None = None
) -> list[NDArray[np.float64]]:
    """Return the summands of each part, float64 (n_rows,); a DataError where a score is infinitely far from others."""
    if how == "ranks" and groups is not None:
        return [ranks(part_scores, groups) for part_scores in scores.values()]
    for name, part_scores in scores.items():
        if n := int(np.isinf(part_scores).sum()):
            raise DataError.at(f"part {name!r}", f"{count_of(n, 'score')} infinite", cure="use `how: ranks`")
    if how == "z-scores" and groups is not None:
        return [z_scores(part_scores, groups) for part_scores in scores.values()]
    return list(scores.values())


def blended(
    values: Sequence[NDArray[np.float64]], weights: Sequence[float], how: How, groups: QueryGroups
) -> NDArray[np.float64]:
    """Scores (n_rows,) of a blend of comparable `values`, each (n_rows,)."""
    summed, sizes = weighted(values, weights), groups.sizes
    # divided after the sum, in which equal ranks with swapped places are exactly equal
    return summed / np.repeat(sizes, sizes) if how == "ranks" else summed


def weighted(values: Sequence[NDArray[np.float64]], weights: Sequence[float]) -> NDArray[np.float64]:
    """(n_rows,): the mean of `values`, each (n_rows,), by weights of which only the proportions count."""
    products = [weight * part_values for weight, part_values in zip(weights, values, strict=True)]
    return np.asarray(sum(products[1:], products[0]) / sum(weights))


def _choose_weights(
    parts: Mapping[str, BlendPart], how: How, training: Training
) -> tuple[Sequence[float], float]:
    """Choose the weights in steps; return them and the metric's value on validation data."""
    metric, valid = training.decision_metric, training.valid
    if valid is None or metric is None:
        found = "are not given, and there is no validation data with a metric to choose them by"
        raise RankerError.at("weights", found, cure="give them, as in {a: 1, b: 1}")
    scores = {name: part.model.score_split(valid) for name, part in parts.items()}
    values, value_of = comparable(scores, how, valid.groups), _value_of(metric, valid.judgments)
    sign = 1 if metric.higher_is_better else -1

    @cache
    def ranked_value(weights: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        value = sign * value_of(blended(values, weights, how, valid.groups))
        return value, -sum(weight**2 for weight in weights), weights  # of equal values the more even weights

    equal_weight = max(1, round(STEPS / len(parts)))
    best = ranked_value(tuple(equal_weight for _ in parts))
    if math.isnan(best[0]):
        raise DataError(
            f"{metric} is undefined on validation data: no query that counts has a relevant document"
        )
    while (top := max(map(ranked_value, _moves(best[2])))) > best:
        best = top
    return best[2], sign * best[0]


def _value_of(metric: Metric, judgments: Judgments) -> Callable[[NDArray[np.float64]], float]:
    """Return what scores (n_rows,) are worth by the metric, of probabilities at the T that the blend would have."""
    if not isinstance(metric, ProbabilityMetric) or not metric.takes_fitted:
        binding = bind([metric], judgments)
        return lambda scores: float(binding.means(scores)[0])

    def value(scores: NDArray[np.float64]) -> float:
        fitted = metric.fitted(metric.best_temperature(judgments, scores))
        # equal models have equal values, whatever their weights
        return round(float(bind([fitted], judgments).means(scores)[0]), 12)

    return value


def _moves(weights: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return all weights that arise where one part gives some of its weight to another."""
    moves = []
    for giver, weight in enumerate(weights):
        for taker in range(len(weights)):
            if taker == giver:
                continue
            for step in range(1, weight + 1):
                moved = list(weights)
                moved[giver] -= step
                moved[taker] += step
                moves.append(tuple(moved))
    return moves
