"""Rankings from any tool beside judgments from any tool: evaluated, and ready to be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ltr_harness._util.display import Displayed
from ltr_harness._util.files import stem_of
from ltr_harness._util.number_text import plain_number
from ltr_harness._util.tables import text_table
from ltr_harness.errors import Caution, Problem, UsageError, all_of
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core import judged_share
from ltr_harness.metrics.core.binding import BoundOnce
from ltr_harness.metrics.core.grammar import as_list, other_name, tool_of_name
from ltr_harness.metrics.evaluation import Evaluation, evaluate_bound

if TYPE_CHECKING:
    import pandas as pd

    from ltr_harness.data.judgments import OneLabel
    from ltr_harness.data.readers.document_rules import Within
    from ltr_harness.data.readers.trec import TrecRun


class EvaluatedRuns(Displayed, dict[str, Evaluation]):
    """The result of `evaluate_runs`: each run's `Evaluation` by its name; `compare` takes it as it is.

    Attributes:
        recognised: one line for the judgments and for each run: what it was taken for, and how much it holds.
        cautions: queries that were left out, ranks that contradict scores, a scale taken from the labels.
    """

    def __init__(
        self, evaluations: Mapping[str, Evaluation], recognised: Sequence[str], cautions: Sequence[Caution]
    ) -> None:
        super().__init__(evaluations)
        self.recognised = tuple(recognised)
        self.cautions = tuple(cautions)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Canonical names, in the order asked for."""
        return next(iter(self.values())).metrics

    def frame(self) -> pd.DataFrame:
        """One row per run, one column per metric: the means."""
        import pandas as pd

        rows = [dict(evaluation.means) for evaluation in self.values()]
        return pd.DataFrame(rows, index=pd.Index(list(self), name="run"))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the rows of the means, as text."""
        rows = []
        for name, evaluation in self.items():
            values = [evaluation[metric] for metric in self.metrics]
            n, defined = (
                values[0].n_queries,
                sorted({metric_values.n_queries - metric_values.n_undefined for metric_values in values}),
            )
            query_count = f"{n:,}"
            if defined != [n]:
                fewest_and_most = (*defined[:1], *defined[1:][-1:])
                query_count = f"{' to '.join(f'{count:,}' for count in fewest_and_most)} of {query_count}"
            rows.append([name, *(f"{metric_values.mean:z.4f}" for metric_values in values), query_count])
        return ["run", *self.metrics, "queries"], rows

    @property
    def _judged(self) -> list[str]:
        """Every run's share of judged documents, a line for each number of documents that metrics look at."""
        shares: dict[str, dict[str, float]] = {}
        for run, evaluation in self.items():
            shares_by_metric = {name: evaluation[name].judged for name in self.metrics}
            shares[run] = {name: share for name, share in shares_by_metric.items() if share is not None}
        first = next(iter(self.values()))
        return judged_share.lines(shares, {name: first[name].metric.k for name in self.metrics})

    @property
    def lines_below(self) -> list[str]:
        """The lines below the table: shares of judged documents, what inputs were taken for, cautions."""
        return [*self._judged, *self.recognised, *(f"note: {caution}" for caution in self.cautions)]

    def __repr__(self) -> str:
        return "\n".join([*text_table(*self.table(), left=[0]), *self.lines_below])


def evaluate_runs(
    qrels: Any,
    runs: Any,
    metrics: Sequence[str | Metric] | str | Metric,
    *,
    all_queries: bool = False,
    judged_only: bool = False,
    depth: int | None = None,
    max_grade: float | None = None,
    several: OneLabel | None = None,
    documents_of: Any = None,
    within: Within = "documents",
    exclude: Any = None,
    ignore_query_itself: bool = False,
) -> EvaluatedRuns:
    """Metrics of rankings beside judgments, each in whatever form another tool has it.

    Recognised by what they are: dicts ``{query: {document: value}}`` (pytrec_eval, ir_datasets), `Qrels` and `Run` of
    ranx and their JSON, Parquet and lz4 files, named tuples (ir_measures, ir_datasets), rows of
    ``(query, document, value)``, tables of pandas, Polars, Arrow and DuckDB under the usual names of columns (those of
    PyTerrier among them), lists and sets of ids by query, ``{query: [document]}``, rows of JSON such as ``{"query_id":
    "q1", "retrieved": [...], "relevant": [...]}``, and files: TREC's, BEIR's and MTEB's, MS MARCO's, NTCIR's, CSV and
    Parquet tables, judgments of OpenSearch and Quepid. A list is a ranking whose first document is the best; a list or
    set of judgments has the grade 1 throughout. Ids are compared as text, so 7 and "7" are one. Queries are joined by
    trec_eval's rules.

    Args:
        qrels: the judgments: a path or an object. A negative grade stands for an unjudged document.
        runs: one ranking, several in a list, or a mapping from a name to each.
        metrics: names such as ``"ndcg@10"`` or ``"ndcg_cut_10"``, or metric objects.
        all_queries: queries that a run lacks count as empty rankings (trec_eval's ``-c``).
        judged_only: unjudged documents are taken out of the runs (``-J``).
        depth: documents of each query that count; None for all (``-M``).
        max_grade: the scale's highest grade, for metrics that need it; default: the largest label.
        several: how several judgments of a document become one label: ``"majority"`` (of equals the lowest),
            ``"mean"``, ``"median"`` or ``"max"``; without it they are an error.
        documents_of: the documents of chunks, where runs list chunks: the text before the last "#" (or another
            separator), or chunk to document in a mapping or a file of two columns. A document counts at its first
            chunk (max-passage).
        within: what K counts: "documents", where later chunks take no rank, or "chunks", where they take one and earn
            nothing.
        exclude: documents that count neither in rankings nor in judgments: ``{query: [document]}``, pairs of query and
            document, or a file with one pair a line (BRIGHT's rule).
        ignore_query_itself: a document whose id is the query's does not count (BEIR's rule).

    Raises:
        DataError: with its place, every id, grade or score that is none, and every document listed twice.
        UsageError: something that looks like no form there is.
        MetricError: a metric is unknown or the labels are outside its domain.

    Example:
        >>> qrels = {"q1": {"d1": 2, "d2": 0, "d3": 1}, "q2": {"d1": 1}}
        >>> bm25 = [("q1", "d2", 9.5), ("q1", "d3", 7.25), ("q2", "d1", 3.0), ("q2", "d7", 1.5)]
        >>> evaluate_runs(qrels, {"bm25": bm25}, ["mrr@10", "recall@10"])
        run   mrr@10  recall@10  queries
        bm25  0.7500     0.7500        2
        judged of the first 10: bm25 75 %
        qrels: dict {query: {document: grade}}: 2 queries, 4 judgments
        bm25: rows of (query, document, score): 2 queries, 4 rows
    """
    from ltr_harness.data.dataset import fingerprint_judgments
    from ltr_harness.data.readers.document_rules import DocumentRules
    from ltr_harness.data.readers.judgment_formats import format_summaries
    from ltr_harness.data.readers.trec import join
    from ltr_harness.data.readers.truth import qrels_by_rule

    requested = as_list(metrics)
    parsed = [parse_metric(metric) for metric in requested]
    rules = DocumentRules(documents_of, within, exclude, ignore_query_itself)
    judged = rules.judgments(qrels_by_rule(qrels, several))
    rankings = read_runs(runs, allow_repeats=rules.folds_chunks)
    grade = max_grade if max_grade is not None else max(float(judged.grades.max()), 1.0)
    scaled, cautions = [metric.with_max_grade(grade) for metric in parsed], list(judged.cautions)
    if max_grade is None and scaled != parsed:
        text = f"max_grade is {plain_number(grade)}, the largest grade of {judged.path}"
        cautions.insert(0, Caution("max-grade", "note", text, "max_grade=… sets another"))
    cautions += [
        other_name(name, metric)
        for name, metric in zip(requested, scaled, strict=True)
        if isinstance(name, str) and tool_of_name(name) is not None
    ]
    fingerprint = fingerprint_judgments(judged.judgments)
    evaluations: dict[str, Evaluation] = {}
    for name, run in rankings.items():
        joined = join(*rules.prepare(judged, run), complete=all_queries, judged_only=judged_only, depth=depth)
        cautions += joined.cautions
        evaluations[name] = evaluate_bound(
            BoundOnce(scaled, joined.judgments),
            joined.scores,
            parsed,
            joined.retrieved,
            fingerprint,
            rules.text,
        )
    first = next(iter(evaluations.values()))
    cautions += [caution for caution in first.cautions if caution.kind != judged_share.FEW_JUDGED]
    cautions += _few_judged(evaluations)
    return EvaluatedRuns(evaluations, format_summaries(judged, rankings), cautions)


def read_runs(runs: Any, *, allow_repeats: bool) -> dict[str, TrecRun]:
    """Return the rankings by the names they were given, else their own, else their files', if these differ."""
    from ltr_harness.data.readers.judgment_objects import is_single_source

    if isinstance(runs, Mapping) and not is_single_source(runs):
        names = _labels(runs)
        return dict(zip(names, _rankings(list(runs.values()), names, allow_repeats), strict=True))
    values = list(runs) if isinstance(runs, list | tuple) and not is_single_source(runs) else [runs]
    labels = ["run"]
    if len(values) > 1:
        labels = [f"run {number}" for number in range(1, len(values) + 1)]
    rankings = _rankings(values, labels, allow_repeats)
    stems = [stem_of(run.path) for run in rankings]
    tags = [run.tag or stem for run, stem in zip(rankings, stems, strict=True)]
    names = next(names for names in (tags, stems, labels) if len(set(names)) == len(rankings))
    return dict(zip(names, rankings, strict=True))


def _rankings(values: Sequence[Any], labels: Sequence[str], allow_repeats: bool) -> list[TrecRun]:
    """Read each ranking, which messages call by its label."""
    from ltr_harness.data.readers.judgment_formats import run_of

    if not values:
        raise UsageError("no run to evaluate; expected at least one")
    return all_of(
        [partial(run_of, *pair, allow_repeats=allow_repeats) for pair in zip(values, labels, strict=True)]
    )


def _labels(runs: Mapping[Any, Any]) -> list[str]:
    """Return the runs' names as text; a UsageError for two that are one as text, such as 1 and "1"."""
    labels = [str(name) for name in runs]
    repeated = [label for label, times in Counter(labels).items() if times > 1]
    UsageError.refuse(
        Problem(f"runs[{label!r}]", "several runs have this name as text", "a different name for each run")
        for label in repeated
    )
    return labels


def _few_judged(evaluations: Mapping[str, Evaluation]) -> Iterable[Caution]:
    """Return the caution on documents that nobody judged, by the first metric."""
    metric = next(iter(evaluations.values())).metrics[0]
    shares = {name: evaluation[metric].judged for name, evaluation in evaluations.items()}
    known_shares = {name: share for name, share in shares.items() if share is not None}
    k = next(iter(evaluations.values()))[metric].metric.k
    return judged_share.few_judged(metric, k, known_shares)
