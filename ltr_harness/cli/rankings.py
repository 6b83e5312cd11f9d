"""The rankings that `evaluate`, `explain` and `compare` look at: scores beside data, or TREC runs beside qrels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.cli import data_source
from ltr_harness.cli.ranking_source import RankingSource
from ltr_harness.compression import bare_name
from ltr_harness.errors import DataError, Problem, UsageError

if TYPE_CHECKING:
    from ltr_harness.comparison.result import Entrant
    from ltr_harness.dataset import RankingDataset
    from ltr_harness.evaluation import Evaluation
    from ltr_harness.groups import Judgments
    from ltr_harness.metrics import Metric


@dataclass(frozen=True, eq=False)
class Scored:
    """One ranking of judged documents.

    Attributes:
        name: how tables call it.
        path: the file of its scores.
        judgments: the rows; unlisted ones included.
        scores: float64 (n_rows,).
        retrieved: bool (n_rows,), or None where every row is ranked.
        tag: a TREC run's own name.
    """

    name: str
    path: Path
    judgments: Judgments
    scores: NDArray[np.float64]
    retrieved: NDArray[np.bool_] | None = None
    tag: str | None = None

    def evaluate(self, metrics: Sequence[Metric]) -> Evaluation:
        from ltr_harness.evaluation import evaluate_bound
        from ltr_harness.metrics.core.binding import BoundOnce

        return evaluate_bound(BoundOnce(metrics, self.judgments), self.scores, retrieved=self.retrieved)


@dataclass(frozen=True, eq=False)
class Rankings:
    """Rankings of the same judged queries.

    Attributes:
        all: one or more.
        judgments: what they are measured against: the data, or the qrels without any run.
        source: the file of the judgments.
        max_grade: given by the user, or None.
        notes: what was left out or looks odd.
        query_attributes: what the data says of each query of `judgments`, such as its user.
    """

    all: tuple[Scored, ...]
    judgments: Judgments
    source: Path
    max_grade: float | None
    notes: tuple[str, ...]
    query_attributes: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        from ltr_harness.fingerprint import fingerprint_judgments

        return fingerprint_judgments(self.judgments)

    def on_scale(self, metrics: Sequence[Metric]) -> tuple[list[Metric], list[str]]:
        """The metrics with a highest grade where they ask for one, the same for all rankings; and a note."""
        from ltr_harness.numbers import plain_number

        grade = self.max_grade
        if grade is None:
            grade = max(float(self.judgments.labels.max()), 1.0)
        scaled = [metric.on_scale(grade) for metric in metrics]
        if scaled == list(metrics) or self.max_grade is not None:
            return scaled, []
        return scaled, [
            f"max_grade is {plain_number(grade)}, the largest label of {self.source}; --max-grade says which scale "
            "the labels are on"
        ]

    def entrant(self, scored: Scored, evaluation: Evaluation) -> Entrant:
        """An evaluated ranking as comparisons take it."""
        from ltr_harness.comparison.result import WEIGHT, Entrant

        judgments = evaluation.judgments
        relevant = np.add.reduceat(
            judgments.narrow_labels > 0, judgments.groups.boundaries[:-1], dtype=np.int64
        )
        weights = {} if judgments.query_weights is None else {WEIGHT: judgments.query_weights}
        return Entrant(
            name=scored.name,
            query_ids=np.array([str(query) for query in evaluation.query_ids.tolist()]),
            values={metric: evaluation[metric].per_query[np.newaxis] for metric in evaluation.metrics},
            replicates=("1",),
            higher_is_better=evaluation.directions,
            # a run's own pool differs from another's by what nobody judged: the qrels are what they share
            judgments_fingerprint={"all": self.fingerprint},
            query_attributes={**self.query_attributes, "n_relevant": relevant, **weights},
            source=str(scored.path),
        )

    def named(self, name: str) -> str:
        """The name, in tables, of the ranking that the user calls by its name, run tag or file."""
        for scored in self.all:
            if name in (scored.name, scored.tag, str(scored.path), scored.path.name, _stem(scored.path)):
                return scored.name
        return name


def load_rankings(source: RankingSource) -> Rankings:
    """Read what the options name.

    Raises:
        UsageError: the options do not go together.
        DataError: every problem of every file.
    """
    source.refuse_contradictions()
    if source.data is not None:
        dataset = data_source.read_files([source.data], source.reader_name, source.reader_options)
        return _from_scores(source.data, dataset, source.scores, source.max_grade)
    return _from_runs(source)


def load_cheap(cheap: Path, source: RankingSource) -> tuple[Rankings, Rankings]:
    """The rankings by cheap labels of many queries, and by the labels of some of them.

    Raises:
        UsageError: the options do not go together.
        DataError: every problem of every file; with data, rows that have no cheap labels.
    """
    from ltr_harness.comparison.cheap_labels import rows_among

    if source.data is None:
        return load_rankings(replace(source, qrels=cheap)), load_rankings(source)
    wide = load_rankings(replace(source, data=cheap))
    dataset = data_source.read_files([source.data], source.reader_name, source.reader_options)
    judgments = dataset.judgments
    rows = rows_among(judgments, wide.judgments)
    lacking = np.flatnonzero(rows < 0)
    if lacking.size:
        boundaries = judgments.groups.boundaries
        queries = np.unique(np.searchsorted(boundaries, lacking, side="right") - 1)
        found = (
            f"{queries.size:,} of {judgments.groups.ids.size:,} queries are not there, or have other rows, such as "
            f"{str(judgments.groups.ids[queries[0]])!r}"
        )
        raise DataError(
            Problem(
                str(cheap), found, f"the rows of {source.data} and those of more queries, with cheap labels"
            )
        )
    some = tuple(Scored(one.name, one.path, judgments, one.scores[rows], tag=one.tag) for one in wide.all)
    notes = (*wide.notes, *dataset.notes)
    return wide, Rankings(some, judgments, source.data, wide.max_grade, notes, dataset.query_attributes)


def _from_scores(
    data: Path, dataset: RankingDataset, files: Sequence[Path], max_grade: float | None
) -> Rankings:
    from ltr_harness.readers.forms import all_of
    from ltr_harness.readers.scores import read_scores

    judgments = dataset.judgments
    notes: list[str] = []
    read = partial(
        read_scores, judgments=judgments, file_order=dataset.file_order, columns=dataset.columns, notes=notes
    )
    scores = all_of([partial(read, path) for path in files])
    rankings = tuple(
        Scored(name, path, judgments, values)
        for name, path, values in zip(_names(files), files, scores, strict=True)
    )
    return Rankings(rankings, judgments, data, max_grade, (*dataset.notes, *notes), dataset.query_attributes)


def _from_runs(source: RankingSource) -> Rankings:
    from ltr_harness.readers.forms import all_of, described, qrels_of, run_of
    from ltr_harness.readers.trec import join

    assert source.qrels is not None  # or the options would have been refused
    files = source.run_files
    try:
        qrels = qrels_of(source.qrels)
    except DataError:  # what is wrong with the runs is told too
        all_of([partial(qrels_of, source.qrels), *(partial(run_of, path) for path in files)])
        raise

    def scored(path: Path) -> tuple[Scored, str, tuple[str, ...]]:
        run = run_of(path)  # one at a time: of a joined one only its documents are kept
        one = join(
            qrels, run, complete=source.all_queries, judged_only=source.judged_only, depth=source.depth
        )
        ranking = Scored("", run.path, one.judgments, one.scores, one.retrieved, run.tag)
        return ranking, described(run), one.notes

    read = all_of([partial(scored, path) for path in files])
    tags = [one.tag for one, _, _ in read]
    names = tags if all(tags) and len(set(tags)) == len(tags) else _names(files)
    rankings = tuple(replace(one, name=name) for name, (one, _, _) in zip(names, read, strict=True))
    said = [(str(qrels.path), described(qrels))]
    said += [(name, form) for name, (_, form, _) in zip(names, read, strict=True)]
    # of TREC's own files there is nothing to say: that is what the options are for
    notes = [f"{what}: {form}" for what, form in said if not form.startswith("TREC")]
    notes += [*qrels.notes, *(note for _, _, of_run in read for note in of_run)]
    return Rankings(rankings, qrels.judgments, source.qrels, source.max_grade, tuple(notes))


def _stem(path: Path) -> str:
    name = bare_name(path.name)
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and suffix in ("txt", "run", "csv", "tsv", "parquet", "npy", "scores") else name


def _names(paths: Sequence[Path]) -> list[str]:
    """A name for each file: without the suffix where that tells them apart, else the path."""
    for name in (_stem, lambda path: path.name, str):
        names = [name(path) for path in paths]
        if len(set(names)) == len(names):
            return names
    twice = sorted({str(path) for path in paths if list(paths).count(path) > 1})
    raise UsageError(f"{', '.join(twice)} is given twice; expected each file once")
