"""The rankings that `evaluate`, `explain` and `compare` look at: scores beside data, or TREC runs beside qrels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ltr_harness._util.files import bare_name
from ltr_harness._util.text import count_of, plain_number
from ltr_harness.cli import data_source, options
from ltr_harness.data.dataset import fingerprint_judgments
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import Array, Bools, Floats
from ltr_harness.errors import Caution, DataError, Problem, UsageError, all_of
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.binding import BoundOnce
from ltr_harness.metrics.evaluation import Evaluation, evaluate_bound

if TYPE_CHECKING:
    from ltr_harness.comparison.contrasts import SystemResult


@dataclass(frozen=True, kw_only=True)
class RankingSource:
    """Where rankings and their judgments are: what the options of `options.rankings` say."""

    data: Path | None = None  # labelled documents; None where `qrels` has the judgments
    qrels: Path | None = None
    scores: Sequence[Path] = ()  # of the documents of `data`
    run: Sequence[Path] = ()  # rankings for `qrels`
    reader_name: str | None = None  # the format of `data`; guessed if None
    reader_options: Sequence[str] = ()
    all_queries: bool = False
    judged_only: bool = False
    depth: int | None = None
    max_grade: float | None = None

    def refuse_contradictions(self) -> None:
        """Raises UsageError: the options do not go together."""
        both = "give --data FILE --scores FILE, or --qrels FILE --run FILE"
        if (self.data is None) == (self.qrels is None):
            found = "neither --data nor --qrels" if self.data is None else "both --data and --qrels"
            raise UsageError(f"{found}; {both}")
        one, other, elsewhere = "--data", "--qrels", ["run", "all_queries", "judged_only", "depth"]
        if self.data is None:
            one, other, elsewhere = other, one, ["scores", "reader_name", "reader_options"]
        for what in (options.written(name) for name in elsewhere if getattr(self, name)):
            raise UsageError(f"{what} with {one}; {what} goes with {other}; {both}")
        if self.data is not None and not self.scores:
            cure = "or --score-column NAME, where a column of the data has them"
            raise UsageError(f"--data without --scores FILE; expected at least one file of scores, {cure}")
        if self.qrels is not None and not self.run:
            raise UsageError("--qrels without --run FILE; expected at least one run")
        if self.max_grade is not None and not (np.isfinite(self.max_grade) and self.max_grade > 0):
            raise UsageError(f"--max-grade {self.max_grade:g}; expected a grade above 0")


@dataclass(frozen=True, eq=False)
class Scored:
    """One ranking of judged documents."""

    name: str  # how tables call it
    path: Path  # the file of its scores
    judgments: Judgments  # the rows; unlisted ones included
    scores: Floats  # (n_rows,)
    retrieved: Bools | None = None  # (n_rows,), or None where every row is ranked
    tag: str | None = None  # a TREC run's own name

    def evaluate(self, metrics: Sequence[Metric]) -> Evaluation:
        return evaluate_bound(BoundOnce(metrics, self.judgments), self.scores, retrieved=self.retrieved)


@dataclass(frozen=True, eq=False)
class Rankings:
    """Rankings of the same judged queries."""

    all: tuple[Scored, ...]  # one or more
    judgments: Judgments  # what they are measured against: the data, or the qrels without any run
    judgments_file: Path
    max_grade: float | None  # given by the user
    cautions: tuple[Caution, ...]  # what was left out or looks odd
    # what the data says of each query of `judgments`, such as its user
    query_attributes: Mapping[str, Array] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_judgments(self.judgments)

    def with_max_grade(self, metrics: Sequence[Metric]) -> tuple[list[Metric], list[Caution]]:
        """The metrics with a highest grade where they ask for one, the same for all rankings; and a caution."""
        grade = self.max_grade
        if grade is None:
            grade = max(float(self.judgments.pool.labels.max()), 1.0)
        scaled = [metric.with_max_grade(grade) for metric in metrics]
        if scaled == list(metrics) or self.max_grade is not None:
            return scaled, []
        text = f"max_grade is {plain_number(grade)}, the largest label of {self.judgments_file}"
        return scaled, [Caution("max-grade", "note", text, "--max-grade says which scale the labels are on")]

    def system(self, scored: Scored, evaluation: Evaluation) -> "SystemResult":
        """An evaluated ranking as comparisons take it."""
        from ltr_harness.comparison.contrasts import SystemResult

        return replace(
            SystemResult.of(scored.name, [evaluation], self.query_attributes),
            # a run's own pool differs from another's by what nobody judged: the qrels are what they share
            judgments_fingerprint={"all": self.fingerprint},
            source=str(scored.path),
        )

    def named(self, name: str) -> str:
        """The name, in tables, of the ranking that the user calls by its name, run tag or file."""
        for scored in self.all:
            if name in (scored.name, scored.tag, str(scored.path), scored.path.name, _stem(scored.path)):
                return scored.name
        return name


def load_rankings(source: RankingSource) -> Rankings:
    """Read what the options name; all problems of all files at once."""
    source.refuse_contradictions()
    if source.data is None:
        return _from_runs(source)
    from ltr_harness.data.readers.scores import read_scores

    dataset = data_source.read_files([source.data], source.reader_name, source.reader_options)
    judgments, files, cautions = dataset.judgments, source.scores, list[Caution]()
    of_rows: dict[str, Any] = {"file_order": dataset.file_order, "columns": dataset.columns}
    scores = all_of([partial(read_scores, path, judgments, cautions=cautions, **of_rows) for path in files])
    each = zip(_names(files), files, scores, strict=True)
    rankings = tuple(Scored(name, path, judgments, values) for name, path, values in each)
    every = (*dataset.cautions, *cautions)
    return Rankings(rankings, judgments, source.data, source.max_grade, every, dataset.query_attributes)


def load_cheap(cheap: Path, source: RankingSource) -> tuple[Rankings, Rankings]:
    """The rankings by cheap labels of many queries, and by the labels of some of them."""
    from ltr_harness.comparison.cheap_labels import rows_among

    if source.data is None:
        return load_rankings(replace(source, qrels=cheap)), load_rankings(source)
    wide = load_rankings(replace(source, data=cheap))
    dataset = data_source.read_files([source.data], source.reader_name, source.reader_options)
    judgments = dataset.judgments
    rows = rows_among(judgments, wide.judgments)
    lacking = np.flatnonzero(rows < 0)
    if lacking.size:
        groups = judgments.groups
        queries = np.unique(np.searchsorted(groups.boundaries, lacking, side="right") - 1)
        found = f"{queries.size:,} of {count_of(groups.ids.size, 'query')} are not there, or have other rows"
        found += f", such as {str(groups.ids[queries[0]])!r}"
        expected = f"the rows of {source.data} and those of more queries, with cheap labels"
        raise DataError.at(cheap, found, expected)
    some = tuple(Scored(one.name, one.path, judgments, one.scores[rows], tag=one.tag) for one in wide.all)
    cautions = (*wide.cautions, *dataset.cautions)
    return wide, Rankings(some, judgments, source.data, wide.max_grade, cautions, dataset.query_attributes)


def queries_of(labels: Path, source: RankingSource) -> list[str]:
    """The queries of a file of labels, in either form: qrels, or labelled documents."""
    from ltr_harness.data.readers.judgment_formats import qrels_of

    problems: list[Problem] = []
    if source.reader_name is None and not source.reader_options:
        try:
            return list(map(str, qrels_of(labels).judgments.groups.ids.tolist()))
        except DataError as error:
            problems += error.problems
    try:
        dataset = data_source.read_files([labels], source.reader_name, source.reader_options)
    except DataError as error:
        raise DataError([*problems, *error.problems]) from None
    return list(map(str, dataset.judgments.groups.ids.tolist()))


def _from_runs(source: RankingSource) -> Rankings:
    from ltr_harness.data.readers.judgment_formats import described, qrels_of, run_of
    from ltr_harness.data.readers.trec import join

    assert source.qrels is not None  # or the options would have been refused
    files = source.run
    how: dict[str, Any] = {"judged_only": source.judged_only, "depth": source.depth}
    how["complete"] = source.all_queries
    try:
        qrels = qrels_of(source.qrels)
    except DataError:  # what is wrong with the runs is told too
        all_of([partial(qrels_of, source.qrels), *(partial(run_of, path) for path in files)])
        raise

    def scored(path: Path) -> tuple[Scored, str, tuple[Caution, ...]]:
        run = run_of(path)  # one at a time: of a joined one only its documents are kept
        one = join(qrels, run, **how)
        ranking = Scored("", run.path, one.judgments, one.scores, one.retrieved, run.tag)
        return ranking, described(run), one.cautions

    read = all_of([partial(scored, path) for path in files])
    tags = [one.tag for one, _, _ in read]
    names = tags if all(tags) and len(set(tags)) == len(tags) else _names(files)
    rankings = tuple(replace(one, name=name) for name, (one, _, _) in zip(names, read, strict=True))
    said = [(str(qrels.path), described(qrels))]
    said += [(name, form) for name, (_, form, _) in zip(names, read, strict=True)]
    # of TREC's own files there is nothing to say: that is what the options are for
    others = [(what, form) for what, form in said if not form.startswith("TREC")]
    cautions = [Caution("recognised-form", "note", form, place=what) for what, form in others]
    cautions += [*qrels.cautions, *(caution for _, _, of_run in read for caution in of_run)]
    return Rankings(rankings, qrels.judgments, source.qrels, source.max_grade, tuple(cautions))


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
