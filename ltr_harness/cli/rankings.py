"""The rankings of `evaluate`, `explain` and `compare`: scores beside data, or TREC runs beside qrels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ltr_harness._util.files import bare_name
from ltr_harness._util.number_text import plain_number
from ltr_harness._util.text import count_of
from ltr_harness.cli import data_source, options
from ltr_harness.data.arrays import Array, Bools, Floats, Ints
from ltr_harness.data.dataset import fingerprint_judgments
from ltr_harness.data.judgments import Judgments
from ltr_harness.errors import Caution, DataError, Problem, UsageError, all_of
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.binding import BoundOnce
from ltr_harness.metrics.evaluation import Evaluation, evaluate_bound

if TYPE_CHECKING:
    from ltr_harness.comparison.contrasts import SystemResult
    from ltr_harness.data.judgments import OneLabel
    from ltr_harness.data.readers.document_rules import DocumentRules, Within
    from ltr_harness.data.readers.trec import Qrels
    from ltr_harness.report.data import ReportData


@dataclass(frozen=True, kw_only=True)
class RankingSource:
    """The places of rankings and their judgments, as the options of `options.rankings` name them."""

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
    several: "OneLabel | None" = None
    documents_of: str | None = None
    within: "Within | None" = None
    exclude: Path | None = None
    ignore_query_itself: bool = False

    @cached_property
    def document_rules(self) -> "DocumentRules":
        from ltr_harness.data.readers.document_rules import DocumentRules

        return DocumentRules(
            self.documents_of, self.within or "documents", self.exclude, self.ignore_query_itself
        )

    def refuse_contradictions(self) -> None:
        """Raise a UsageError if the options do not go together, or if one is missing."""
        if self.data is None and self.qrels is None:
            raise UsageError(f"neither --data nor --qrels; {_PAIRS}")
        if self.data is not None and self.qrels is not None:
            raise UsageError(f"both --data and --qrels; {_PAIRS}")
        if self.data is not None:
            self._refuse_options(["run", *options.OF_JOINS], "--data", "--qrels")
            if not self.scores:
                cure = "or --score-column NAME, where a column of the data has them"
                raise UsageError(
                    f"--data without --scores FILE; expected at least one file of scores, {cure}"
                )
        else:
            self._refuse_options(["scores", "reader_name", "reader_options"], "--qrels", "--data")
            if not self.run:
                raise UsageError("--qrels without --run FILE; expected at least one run")
        if self.max_grade is not None and not 0 < self.max_grade < np.inf:
            raise UsageError(f"--max-grade {self.max_grade:g}; expected a grade above 0")

    def _refuse_options(self, names: Sequence[str], judgments: str, other_judgments: str) -> None:
        """Raise a UsageError for options that go with the other kind of judgments."""
        for name in names:
            if getattr(self, name):
                option = options.option_name(name)
                raise UsageError(f"{option} with {judgments}; {option} goes with {other_judgments}; {_PAIRS}")


_PAIRS = "give --data FILE --scores FILE, or --qrels FILE --run FILE"


@dataclass(frozen=True, eq=False)
class ScoredRanking:
    """One ranking of judged documents."""

    name: str  # in tables
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

    all: tuple[ScoredRanking, ...]  # one or more
    judgments: Judgments  # of the data, or of the qrels without any run
    judgments_file: Path
    max_grade: float | None  # given by the user
    cautions: tuple[Caution, ...]  # on documents left out, and on odd values
    # (n_queries,) facts of each query of `judgments`, such as its user
    query_attributes: Mapping[str, Array] = field(default_factory=dict)
    document_rules: str = ""  # which listed documents count; see `DocumentRules.text`

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_judgments(self.judgments)

    def mean_depths(self) -> dict[str, float]:
        """Return the mean number of documents that each ranking lists for a query, by its name."""
        depths = {}
        for ranking in self.all:
            n_listed = ranking.scores.size
            if ranking.retrieved is not None:
                n_listed = int(np.count_nonzero(ranking.retrieved))
            depths[ranking.name] = n_listed / ranking.judgments.groups.n_queries
        return depths

    def with_max_grade(self, metrics: Sequence[Metric]) -> tuple[list[Metric], list[Caution]]:
        """Return the metrics with a highest grade where they take one, the same for all rankings; and a caution."""
        grade = self.max_grade
        if grade is None:
            grade = max(float(self.judgments.pool.labels.max()), 1.0)
        scaled = [metric.with_max_grade(grade) for metric in metrics]
        if scaled == list(metrics) or self.max_grade is not None:
            return scaled, []
        text = f"max_grade is {plain_number(grade)}, the largest label of {self.judgments_file}"
        return scaled, [Caution("max-grade", "note", text, "--max-grade sets the top of their scale")]

    def system(self, ranking: ScoredRanking, evaluation: Evaluation) -> "SystemResult":
        """Return an evaluated ranking as comparisons take it."""
        from ltr_harness.comparison.contrasts import SystemResult

        return replace(
            SystemResult.of(ranking.name, [evaluation], self.query_attributes),
            # a run's own pool differs from another's by what nobody judged: the qrels are what they share
            judgments_fingerprint={"all": self.fingerprint},
            document_rules=self.document_rules,
            source=str(ranking.path),
        )

    def resolve_name(self, name: str) -> str:
        """Return the name in tables of the ranking that the user calls by its name, run tag or file."""
        for ranking in self.all:
            file = ranking.path
            if name in (ranking.name, ranking.tag, str(file), file.name, _stem(file)):
                return ranking.name
        return name


def with_latencies(
    data: "ReportData", source: str | None, rankings: Rankings | None
) -> tuple["ReportData", list[Caution]]:
    """Return a comparison with the latency of its models, which --latency names if it is given, and cautions.

    `rankings` are those that were read from files, whose columns may have it.
    """
    if source is None:
        return data, []
    from ltr_harness.experiments.compare.latency import compared_latencies

    files, depths = {}, {}
    if rankings is not None:
        files = {ranking.name: ranking.path for ranking in rankings.all}
        depths = rankings.mean_depths()
    latencies, cautions = compared_latencies(data.comparison, source, files, depths)
    return replace(data, latencies=tuple(latencies)), cautions


def load_rankings(source: RankingSource) -> Rankings:
    """Read the files that the options name. Raises the problems of all of them at once."""
    source.refuse_contradictions()
    if source.data is not None:
        return _read_scores(source, source.data)
    assert source.qrels is not None  # or the options would have been refused
    return _read_runs(source, source.qrels)


def _read_scores(source: RankingSource, data: Path) -> Rankings:
    from ltr_harness.data.readers.scores import read_scores

    dataset = data_source.read_files([data], source.reader_name, source.reader_options)
    judgments, cautions = dataset.judgments, list[Caution]()
    rows: dict[str, Any] = {"file_order": dataset.file_order, "columns": dataset.columns}
    scores = all_of(
        [partial(read_scores, path, judgments, cautions=cautions, **rows) for path in source.scores]
    )
    rankings = tuple(
        ScoredRanking(name, path, judgments, values)
        for name, path, values in zip(_file_names(source.scores), source.scores, scores, strict=True)
    )
    every_caution = (*dataset.cautions, *cautions)
    return Rankings(rankings, judgments, data, source.max_grade, every_caution, dataset.query_attributes)


def load_cheap(cheap: Path, source: RankingSource) -> tuple[Rankings, Rankings]:
    """Return the rankings by cheap labels of many queries, and by the labels of some of them."""
    if source.data is None:
        return load_rankings(replace(source, qrels=cheap)), load_rankings(source)
    wide = load_rankings(replace(source, data=cheap))
    dataset = data_source.read_files([source.data], source.reader_name, source.reader_options)
    judgments = dataset.judgments
    rows = _rows_in_cheap(judgments, source.data, wide.judgments, cheap)
    narrow = tuple(
        ScoredRanking(ranking.name, ranking.path, judgments, ranking.scores[rows], tag=ranking.tag)
        for ranking in wide.all
    )
    cautions = (*wide.cautions, *dataset.cautions)
    return wide, Rankings(narrow, judgments, source.data, wide.max_grade, cautions, dataset.query_attributes)


def _rows_in_cheap(judgments: Judgments, data: Path, wide: Judgments, cheap: Path) -> Ints:
    """Return the number of each row among those with cheap labels. Raises DataError for rows that are not there."""
    from ltr_harness.comparison.cheap_labels import rows_among

    rows = rows_among(judgments, wide)
    lacking = np.flatnonzero(rows < 0)
    if lacking.size:
        groups = judgments.groups
        queries = np.unique(np.searchsorted(groups.boundaries, lacking, side="right") - 1)
        found = f"{queries.size:,} of {count_of(groups.ids.size, 'query')} are missing, or have other rows"
        found += f", such as {str(groups.ids[queries[0]])!r}"
        expected = f"the rows of {data} and those of more queries, with cheap labels"
        raise DataError.at(cheap, found, expected)
    return rows


def queries_of(labels: Path, source: RankingSource) -> list[str]:
    """Return the queries of a file of labels, in either form: qrels, or labelled documents."""
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


@dataclass(frozen=True, eq=False)
class _JoinedRun:
    """A run's documents with their judgments."""

    ranking: ScoredRanking
    form: str  # of the file
    cautions: tuple[Caution, ...]


def _read_runs(source: RankingSource, qrels_path: Path) -> Rankings:
    from ltr_harness.data.readers.judgment_formats import format_summary, qrels_of, run_of

    read_qrels = partial(qrels_of, qrels_path)
    if source.several is not None:  # pydantic and the readers of rows load for a rule alone
        from ltr_harness.data.readers.truth import qrels_by_rule

        read_qrels = partial(qrels_by_rule, qrels_path, source.several)
    rules = source.document_rules
    read_run = partial(run_of, allow_repeats=rules.folds_chunks)
    try:
        qrels = rules.judgments(read_qrels())
    except DataError:  # the problems of the runs are listed too
        all_of([read_qrels, *(partial(read_run, path) for path in source.run)])
        raise
    # one run at a time, of which only the documents are kept
    runs = all_of([partial(_join_run, path, qrels, source) for path in source.run])
    names = _run_names(runs, source.run)
    rankings = tuple(replace(run.ranking, name=name) for name, run in zip(names, runs, strict=True))
    forms = [(str(qrels.path), format_summary(qrels))]
    forms += [(name, run.form) for name, run in zip(names, runs, strict=True)]
    # TREC's own files are what the options are for
    other_forms = [(name, form) for name, form in forms if not form.startswith("TREC")]
    cautions = [Caution("recognised-form", "note", form, place=name) for name, form in other_forms]
    cautions += qrels.cautions
    for run in runs:
        cautions += run.cautions
    return Rankings(
        rankings, qrels.judgments, qrels_path, source.max_grade, tuple(cautions), document_rules=rules.text
    )


def _join_run(path: Path, qrels: "Qrels", source: RankingSource) -> _JoinedRun:
    from ltr_harness.data.readers.judgment_formats import format_summary, run_of
    from ltr_harness.data.readers.trec import join

    run = run_of(path, allow_repeats=source.document_rules.folds_chunks)
    qrels, run = source.document_rules.prepare(qrels, run)
    joined = join(qrels, run, judged_only=source.judged_only, depth=source.depth, complete=source.all_queries)
    ranking = ScoredRanking("", run.path, joined.judgments, joined.scores, joined.retrieved, run.tag)
    return _JoinedRun(ranking, format_summary(run), joined.cautions)


def _run_names(runs: Sequence[_JoinedRun], paths: Sequence[Path]) -> list[str]:
    """Return the tags of the runs where all have one of their own, else the names of their files."""
    tags = [run.ranking.tag for run in runs if run.ranking.tag]
    return tags if len(set(tags)) == len(runs) else _file_names(paths)


def _stem(path: Path) -> str:
    name = bare_name(path.name)
    stem, dot, suffix = name.rpartition(".")
    return (
        stem
        if dot and suffix in ("txt", "run", "csv", "tsv", "json", "jsonl", "parquet", "npy", "scores")
        else name
    )


def _file_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each file: without the suffix where that tells them apart, else the path."""
    for name_of in (_stem, lambda path: path.name, str):
        names = [name_of(path) for path in paths]
        if len(set(names)) == len(names):
            return names
    twice = sorted({str(path) for path in paths if list(paths).count(path) > 1})
    raise UsageError(f"{', '.join(twice)} is given twice; expected each file once")
