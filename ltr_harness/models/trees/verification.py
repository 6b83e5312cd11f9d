"""Verification of an exported file: it is read back, and its scores are compared with the model's."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.files import errors_naming, unfinished
from ltr_harness.comparison.stats.cluster_sums import ClusterSums, paired_differences
from ltr_harness.comparison.stats.families import mean_intervals
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.arrays import Bools, Floats
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import GateError
from ltr_harness.metrics import Binding, Metric, bind
from ltr_harness.models.ranker import FittedModel
from ltr_harness.models.trees.forest import Forest, forest_of, refused
from ltr_harness.models.trees.formats import ModelFormat, ScoreFunction

_SHARE = 0.1  # of the values that are taken away on the copy with missing values
_ROWS_AT_ONCE = 65_536
_ROWS_TRIED = 1_000
_ROUNDING = 1e-5  # of the largest sum: of float32, and of a base score that is stored with seven digits


@dataclass(frozen=True)
class FileAgreement:
    """The model's own scores beside those of the written file, on the same rows."""

    n_queries: int
    n_same_order: int  # of these, in which all rows stand in the same order, equal scores as in the data
    largest_difference: float  # of a row's two scores
    offset: float  # the median of file less model, such as a constant that the form leaves out; moves no row
    largest_beside_offset: float  # of a row's two scores once the offset is taken away
    here: float  # the metric's mean by the model's scores
    there: float  # by the file's
    difference: float  # mean over queries of there less here
    low: float  # low, high: its 95 % interval over queries
    high: float
    loss: float  # how much worse the metric is there; negative where it is better


@dataclass(frozen=True)
class Disagreement:
    """The first two rows that stand in each other's place."""

    query: str
    rows: tuple[int, int]  # two rows of it, from 0: what stands there by the model, and what by the file
    here: tuple[float, float]  # their scores by the model
    there: tuple[float, float]  # by the file


@dataclass(frozen=True)
class Verification:
    """Agreement of an exported file with the model, on the rows and on a copy with missing values."""

    metric: str
    agreement: FileAgreement  # on the rows
    n_missing: int  # values that are missing in the rows
    with_missing: FileAgreement | None  # on the queries that have missing values
    if_missing: FileAgreement  # on a copy of the rows without a tenth of their values, drawn at random
    first: Disagreement | None  # where the order first differs; None where it nowhere does
    # files beside the written one that were there with other content, and stay, such as features with queries filled in
    kept: tuple[str, ...] = ()


def export_model(
    model: FittedModel,
    split: RankingDataset,
    metric: Metric,
    form: ModelFormat,
    path: Path,
    max_loss: float | None = None,
) -> Verification:
    """Write a model in some form, read the file back, and put it in place once it is known what it is worth."""
    forest = forest_of(model, split.feature_names)
    _refuse_misread(forest, model, split)
    with errors_naming(path), unfinished(path.parent) as folder:
        written = folder / path.name
        form.write(forest, model, written)
        verification = verify(model, form.read(written, split.feature_names), split, metric)
        loss = verification.agreement.loss
        if max_loss is not None and not loss <= max_loss:
            loss_text = f"loses {loss:.6f} in the form {form.name}"
            reason = "is undefined for every query" if np.isnan(loss) else loss_text
            found = f"{metric} {reason}, and {path} is not written"
            cure = "without the option it is written and what differs is shown"
            raise GateError.at(f"--max-loss {max_loss:g}", found, cure=cure)
        companions = [file for file in sorted(folder.iterdir()) if file != written]
        existing = [file for file in companions if (path.parent / file.name).exists()]
        kept_names = [
            file.name for file in existing if file.read_bytes() != (path.parent / file.name).read_bytes()
        ]
        for file in [*companions, written]:  # the file itself last: it announces the others
            if file.name not in kept_names:
                file.replace(path.parent / file.name)
    return replace(verification, kept=tuple(kept_names))


def _refuse_misread(forest: Forest, model: FittedModel, split: RankingDataset) -> None:
    """Raise where the trees score otherwise than the library: a new version may store them in another form."""
    rows = np.asarray(split.features[:_ROWS_TRIED])
    model_scores, tree_scores = model.score(rows), forest.scores(rows.astype(np.float64))
    differences = np.abs(tree_scores - model_scores)
    row = int(np.argmax(differences))
    largest = abs(forest.base_score) + sum(float(np.abs(tree.value).max()) for tree in forest.trees)
    if differences[row] > _ROUNDING * largest:
        by_trees, by_model = tree_scores[row], model_scores[row]
        found = f"the stored trees score row {row} {by_trees:.6g}, and the model scores it {by_model:.6g}"
        expected = "the same scores; this version of the library stores models in a form that is not known"
        raise refused(found, expected, "export from an environment with an earlier version")


def verify(
    model: FittedModel, file_scores: ScoreFunction, split: RankingDataset, metric: Metric
) -> Verification:
    """Compare a file's scores with the model's."""
    binding = bind([metric], split.judgments)
    scores, scores_if_missing = np.empty((2, 2, split.n_rows))
    missing = np.empty(split.n_rows)
    rng = np.random.Generator(np.random.Philox(key=[0, 0]))
    for start in range(0, split.n_rows, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        rows = np.asarray(split.features[part])
        with_gaps = np.where(rng.random(rows.shape, dtype=np.float32) < _SHARE, np.float32(np.nan), rows)
        scores[:, part] = model.score(rows), file_scores(rows.astype(np.float64))
        scores_if_missing[:, part] = model.score(with_gaps), file_scores(with_gaps.astype(np.float64))
        missing[part] = np.isnan(rows).sum(axis=1)
    of_query = split.groups.sum(missing) > 0
    all_queries = np.ones(split.n_queries, dtype=bool)
    orders = [_order(row_scores, split.groups) for row_scores in scores]
    first = None
    if (moved := np.flatnonzero(orders[0] != orders[1])).size:
        a, b = (int(order[moved[0]]) for order in orders)
        query = split.groups.query_of(a)
        start = int(split.groups.boundaries[query])
        of_both = ((float(row_scores[a]), float(row_scores[b])) for row_scores in scores)
        first = Disagreement(split.groups.name(query), (a - start, b - start), *of_both)
    return Verification(
        metric=str(metric),
        agreement=_agreement(scores, binding, metric, all_queries),
        n_missing=int(missing.sum()),
        with_missing=_agreement(scores, binding, metric, of_query) if of_query.any() else None,
        if_missing=_agreement(scores_if_missing, binding, metric, all_queries),
        first=first,
    )


def _agreement(scores: Floats, binding: Binding, metric: Metric, chosen: Bools) -> FileAgreement:
    model_scores, file_scores = scores
    groups, weights = binding.judgments.groups, binding.judgments.query_weights
    values = np.where(
        chosen, [binding.per_query(row_scores)[0] for row_scores in (model_scores, file_scores)], np.nan
    )
    differences = paired_differences(values[1], values[0])
    weight = np.ones(groups.n_queries) if weights is None else weights
    defined = np.where(np.isnan(differences), 0.0, weight)
    # the mean is then that of the weighted queries
    scale = np.count_nonzero(defined) / (defined.sum() or np.nan)
    weighted = np.where(weight > 0, differences * weight * scale, np.nan)
    ((low,), (high,)) = mean_intervals(ClusterSums.of(weighted[:, None]), Method())
    mean_here, mean_there, difference = binding.means_of(np.stack([*values, differences])).tolist()
    row_differences = (file_scores - model_scores)[np.repeat(chosen, groups.sizes)]
    offset = float(np.median(row_differences))
    moved = _order(model_scores, groups) != _order(file_scores, groups)
    return FileAgreement(
        n_queries=int(chosen.sum()),
        n_same_order=int((chosen & ~groups.any(moved)).sum()),
        largest_difference=float(np.abs(row_differences).max()),
        offset=offset,
        largest_beside_offset=float(np.abs(row_differences - offset).max()),
        here=mean_here,
        there=mean_there,
        difference=difference,
        low=float(low),
        high=float(high),
        loss=0.0 - difference if metric.higher_is_better else difference,
    )


def _order(scores: Floats, groups: QueryGroups) -> NDArray[np.intp]:
    """The rows of each query, the highest score first, equal scores as in the data."""
    return np.lexsort((-scores, np.repeat(np.arange(groups.n_queries), groups.sizes)))
