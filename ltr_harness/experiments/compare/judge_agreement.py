"""Is a judge to be trusted? Its agreement with a human, and whether its labels lead to the same decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ltr_harness._util.display import Displayed
from ltr_harness._util.files import stem_of
from ltr_harness._util.number_text import plain_number
from ltr_harness._util.text import count_of, shortened
from ltr_harness.comparison.contrasts import PairVerdict
from ltr_harness.comparison.judges import (
    GradeConfusion,
    GradePairs,
    JudgeEstimate,
    confusion,
    order_tau,
    rank_parts,
    worth_of_judge,
)
from ltr_harness.comparison.power import spreads
from ltr_harness.comparison.query_slices import query_slices
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data.addresses import local_path
from ltr_harness.data.arrays import Bools
from ltr_harness.data.columns import collected
from ltr_harness.data.readers.column_names import LISTINGS, column_among
from ltr_harness.data.readers.document_rules import DocumentRules
from ltr_harness.data.readers.judgment_formats import opened_table
from ltr_harness.data.readers.judgment_objects import is_single_source, table_in_memory
from ltr_harness.data.readers.trec import Qrels, TrecRun, ranks_in
from ltr_harness.data.readers.truth import qrels_by_rule
from ltr_harness.data.readers.unchecked_rows import columns_of, id_texts
from ltr_harness.errors import Caution, DataError, UsageError, all_of
from ltr_harness.experiments.compare.compare import compare
from ltr_harness.experiments.compare.tables import read_table
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.evaluate_runs import evaluate_runs, read_runs

if TYPE_CHECKING:
    from ltr_harness.comparison.comparison import Comparison
    from ltr_harness.data.judgments import OneLabel

POWER = 0.8
_FEW = 30  # queries below which intervals are rough
_OTHER_SCALE = 2  # times the human's largest grade, from which on a judge's scale is another


@dataclass(frozen=True)
class PartAgreement:
    """Agreement on some of the documents; None for a statistic that is undefined, because all grades are equal."""

    part: str  # what the documents share, such as "rank 1 to 3"; "all" for all
    n_queries: int
    n_documents: int
    kappa: JudgeEstimate | None  # Cohen's, quadratic weights
    alpha: JudgeEstimate | None  # Krippendorff's, ordinal
    bias: JudgeEstimate | None  # the judge's mean grade minus the human's: above 0, the judge is milder
    human_relevant: float  # share of the documents with a grade of 1 and more
    judge_relevant: float


@dataclass(frozen=True)
class SystemBias:
    """A judge's favour for one system."""

    system: str
    k: int
    # by how much the judge is milder on the first k documents of the system than on others of the same human grade
    milder: JudgeEstimate | None


@dataclass(frozen=True)
class JudgedPair:
    """One system against the baseline by both labels."""

    system: str
    human_difference: float
    human_ci_low: float
    human_ci_high: float
    human_verdict: PairVerdict
    judge_difference: float
    judge_ci_low: float
    judge_ci_high: float
    judge_verdict: PairVerdict
    difference: float  # that `needed` and `needed_with_judge` find with a power of 80 %
    needed: int | None  # human-labelled queries; None where no number does
    needed_with_judge: int | None  # likewise, where the judge labels many more: see `compare-labels`

    @property
    def is_same(self) -> bool:
        """True where both labels give the same verdict."""
        return self.human_verdict == self.judge_verdict


@dataclass(frozen=True)
class JudgeDecision:
    """The order of the systems and each verdict by both labels of the same documents."""

    metric: str
    baseline: str
    n_queries: int
    human_order: tuple[str, ...]  # the best first
    judge_order: tuple[str, ...]
    tau: JudgeEstimate  # Kendall's, of the systems' means
    pairs: tuple[JudgedPair, ...]

    @property
    def is_same(self) -> bool:
        """True where every verdict is the same."""
        return all(pair.is_same for pair in self.pairs)


@dataclass(frozen=True)
class JudgeResult:
    """A judge beside the human."""

    judge: str
    n_human_only: int  # documents that the human graded and the judge did not
    n_judge_only: int
    overall: PartAgreement
    parts: tuple[PartAgreement, ...]  # by rank, then by slice of the queries
    judge_grades: tuple[float, ...]  # the columns of `confusion`
    confusion: tuple[GradeConfusion, ...]  # a row for each human grade
    systems: tuple[SystemBias, ...]
    decision: JudgeDecision | None  # None without two rankings


@dataclass(frozen=True)
class JudgeAgreement(Displayed):
    """The result of `judge_agreement`; `str` has two sentences for each judge.

    Attributes:
        human: the name of the judgments that the others are held against.
        confidence: of all intervals.
        judges: a `JudgeResult` for each judge: `overall`, `parts`, `confusion`, `systems`, `decision`.
        cautions: documents that one side alone judged, undefined statistics, few queries.
    """

    human: str
    confidence: float
    judges: tuple[JudgeResult, ...]
    cautions: tuple[Caution, ...]

    def __repr__(self) -> str:
        return "\n".join(line for judge in self.judges for line in self.lines_of(judge))

    def lines_of(self, judge: JudgeResult) -> list[str]:
        """Return the sentences about one judge: agreement, bias, and the decision where there are rankings."""
        lines = [_agreement_line(self.human, judge), *_favour_lines(judge)]
        if judge.decision is not None:
            lines += _decision_lines(self.human, judge.judge, judge.decision)
        return lines


def judge_agreement(
    human: Any,
    judges: Any = None,
    *,
    judge_column: str | None = None,
    runs: Any = None,
    metric: str | Metric = "ndcg@10",
    several: OneLabel | None = None,
    slices: Any = None,
    difference: float | None = None,
    confidence: float = 0.95,
    documents_of: Any = None,
) -> JudgeAgreement:
    """Agreement of judges with a human on the same documents, and whether their labels lead to the same decision.

    Kappa has quadratic weights, alpha is Krippendorff's for grades in their order. Intervals are over queries, whose
    documents are not independent. With `runs`, both labels of the documents that both judged evaluate the same
    rankings, and `compare` gives a verdict by each; all other documents count as unjudged.

    Args:
        human: judgments in any form that `evaluate_runs` takes.
        judges: the same of one judge, or a mapping from names to several.
        judge_column: the column of `human`, a table, with the judge of each row, in place of `judges`; the judge of
            the first row is the human.
        runs: rankings in any form that `evaluate_runs` takes; the first is the baseline.
        metric: that decides between them.
        several: how several judgments of a document by one judge become one label: see `evaluate_runs`.
        slices: facts of the queries: a table (or its file) with ``query_id`` and a column for each, or a mapping from
            query to value.
        difference: that human labels should find, for the number of queries that it takes. Without it, for each system
            as much as the human labels measured.
        confidence: of intervals; the tests' level is one minus it.
        documents_of: the documents of chunks, where rankings list chunks: see `evaluate_runs`.

    Raises:
        DataError: a file or object that has no judgments, or a judge without any document that the human judged.
        UsageError: no judge, or something that looks like no form there is.

    Example:
        >>> human = {"q1": {"a": 2, "b": 0, "c": 1}, "q2": {"a": 0, "d": 1, "e": 0}}
        >>> llm = {"q1": {"a": 2, "b": 1, "c": 1}, "q2": {"a": 0, "d": 1, "e": 1}}
        >>> found = judge_agreement(human, {"llm": llm})
        >>> round(found.judges[0].overall.kappa.value, 4), round(found.judges[0].overall.bias.value, 4)
        (0.6667, 0.3333)
    """
    name, reference, qrels_of_judge = _read_judges(human, judges, judge_column, several)
    rankings = {} if runs is None else read_runs(runs, allow_repeats=documents_of is not None)
    request = _Request(
        reference,
        rankings,
        DocumentRules(documents_of),
        parse_metric(metric),
        Method(confidence=confidence),
        _attributes(slices),
        difference,
    )
    results = all_of([partial(request.result, judge, qrels) for judge, qrels in qrels_of_judge.items()])
    cautions = [caution for qrels in (reference, *qrels_of_judge.values()) for caution in qrels.cautions]
    cautions += [
        caution
        for judge in results
        for caution in _cautions_of(judge, reference, qrels_of_judge[judge.judge])
    ]
    return JudgeAgreement(name, confidence, tuple(results), tuple(cautions))


def _read_judges(
    human: Any, judges: Any, judge_column: str | None, label_rule: OneLabel | None
) -> tuple[str, Qrels, dict[str, Qrels]]:
    """Return the name and the judgments of the human, and those of the judges by name."""
    if judge_column is not None:
        if judges is not None:
            raise UsageError("judges and judge_column; expected one of them")
        by_judge = {
            name: qrels_by_rule(part, label_rule, name)
            for name, part in _split_by_judge(human, judge_column).items()
        }
        name = next(iter(by_judge))
        reference = by_judge.pop(name)
        return name, reference, by_judge
    if judges is None:
        raise UsageError("no judge; expected judges, or judge_column, the column of each row's judge")
    if isinstance(judges, Mapping) and not is_single_source(judges):
        named_judges = {str(name): value for name, value in judges.items()}
    else:
        named_judges = {_name_of(judges, "judge"): judges}
    name = _name_of(human, "human")
    sources = {name: human, **named_judges}
    if len(sources) < 1 + len(named_judges):
        raise UsageError(f"a judge is called {name}, like the human; expected a different name for each")
    reference, *tables = all_of(
        [partial(qrels_by_rule, value, label_rule, label) for label, value in sources.items()]
    )
    return name, reference, dict(zip(named_judges, tables, strict=True))


def _name_of(value: Any, otherwise: str) -> str:
    """Return the name of a file without its suffixes, or another name for objects."""
    if not isinstance(value, str | Path):
        return otherwise
    return stem_of(Path(value))


def _split_by_judge(value: Any, judge_column: str) -> dict[str, pd.DataFrame]:
    """Return the rows of each judge, in the order of their first rows."""
    if isinstance(value, str | Path):
        opened = opened_table(local_path(value))
        table = None if opened is None else opened[0]
    else:
        table = table_in_memory(collected(value), "human")
    if table is None:
        found = f"is not a table, but {judge_column!r} names a column"
        raise DataError.at(str(value)[:60], found, "a CSV, Parquet or Arrow table, or a frame")
    if judge_column not in table.columns:
        columns = shortened(table.columns, 8)
        raise DataError.at(table.path, f"has no column {judge_column!r}", cure=f"its columns: {columns}")
    query, document, grade = columns_of(table, "qrels").values()
    cells = table.read([grade], [query, document, judge_column])
    frame = pd.DataFrame(
        {
            "judge": id_texts(cells, judge_column, table.path).to_pylist(),
            "query_id": id_texts(cells, query, table.path).to_pylist(),
            "document_id": id_texts(cells, document, table.path).to_pylist(),
            "grade": cells.numbers(grade),
        }
    )
    parts = {str(judge): part for judge, part in frame.groupby("judge", sort=False, dropna=False)}
    if len(parts) < 2:
        raise DataError.at(table.path, f"has one judge in {judge_column!r}", "two or more")
    return {judge: part.drop(columns="judge") for judge, part in parts.items()}


def _attributes(slices: Any) -> dict[str, dict[str, Any]]:
    """Return the facts of queries: by name, then by query as text."""
    if slices is None:
        return {}
    if isinstance(slices, Mapping):
        return {"slice": {str(query): value for query, value in slices.items()}}
    frame = read_table(local_path(slices)) if isinstance(slices, str | Path) else collected(slices)
    if not hasattr(frame, "iloc"):
        found = f"is a {type(slices).__name__}"
        raise UsageError.at("slices", found, "a table with query_id and facts, or {query: value}")
    columns = list(map(str, frame.columns))
    query = column_among(LISTINGS["query"], columns)
    if query is None or len(columns) < 2:
        found = f"has the columns {shortened(columns, 8)}"
        raise DataError.at("slices", found, "query_id, and a column for each fact of the queries")
    queries = frame[query].astype(str).tolist()
    return {name: dict(zip(queries, frame[name].tolist(), strict=True)) for name in columns if name != query}


@dataclass(frozen=True, eq=False)
class _Request:
    """The judgments, rankings and options that every judge is compared with."""

    human: Qrels
    runs: Mapping[str, TrecRun]
    rules: DocumentRules
    metric: Metric
    method: Method
    attributes: Mapping[str, Mapping[str, Any]]
    difference: float | None

    def result(self, name: str, judge: Qrels) -> JudgeResult:
        """Return one judge beside the human."""
        human_rows, judge_rows = _judged_rows(self.human), _judged_rows(judge)
        shared = human_rows.merge(judge_rows, on=["query", "document"], suffixes=("_human", "_judge"))
        if shared.empty:
            first = f"its first is document {judge_rows.document.iat[0]!r} of query {judge_rows['query'].iat[0]!r}"
            human_first = f"{human_rows.document.iat[0]!r} of {human_rows['query'].iat[0]!r}"
            found = f"judges no document that {self.human.path} judges: {first}"
            raise DataError.at(judge.path, found, f"the same documents, such as {human_first}")
        codes, queries = pd.factorize(shared["query"])
        pairs = GradePairs(codes, shared.grade_human.to_numpy(), shared.grade_judge.to_numpy())
        ranks = self._ranks(shared)
        grades, table = confusion(pairs)
        return JudgeResult(
            name,
            len(human_rows) - len(shared),
            len(judge_rows) - len(shared),
            self._part("all", pairs),
            (*self._rank_parts(pairs, ranks), *self._slice_parts(pairs, queries)),
            grades,
            table,
            tuple(self._system_biases(pairs, ranks)),
            self._decision(shared),
        )

    def _part(self, label: str, pairs: GradePairs) -> PartAgreement:
        return PartAgreement(
            label,
            pairs.n_queries,
            pairs.human.size,
            pairs.kappa(self.method),
            pairs.alpha(self.method),
            pairs.bias(self.method),
            float((pairs.human >= 1).mean()),
            float((pairs.judge >= 1).mean()),
        )

    def _ranks(self, shared: pd.DataFrame) -> pd.DataFrame:
        """Return the rank of each document in each run, (n_documents, n_runs), 0 where it is not listed."""
        ranks = {}
        for name, run in self.runs.items():
            _, run = self.rules.prepare(self.human, run)
            rows = np.arange(run.scores.size)
            listed = pd.DataFrame(
                {
                    "query": run.queries.values_at(rows).astype(object),
                    "document": run.documents.values_at(rows).astype(object),
                    "rank": ranks_in(run),
                }
            )
            joined = shared[["query", "document"]].merge(listed, how="left", on=["query", "document"])
            ranks[name] = joined["rank"].fillna(0).astype(np.int64)
        return pd.DataFrame(ranks)

    def _rank_parts(self, pairs: GradePairs, ranks: pd.DataFrame) -> list[PartAgreement]:
        """Return the agreement by the best rank in any run."""
        if ranks.empty:
            return []
        best = ranks.where(ranks > 0).min(axis=1).fillna(0).to_numpy(np.int64)
        return [self._part(f"rank {label}", pairs.take(documents)) for label, documents in rank_parts(best)]

    def _slice_parts(self, pairs: GradePairs, queries: pd.Index) -> list[PartAgreement]:
        """Return the agreement by slice of the queries."""
        values = {
            name: pd.Series([value_of.get(query) for query in queries]).to_numpy()
            for name, value_of in self.attributes.items()
        }
        return [
            self._part(f"{part.attribute} {part.label}", pairs.take(part.queries[pairs.queries]))
            for part in query_slices(values)
        ]

    def _system_biases(self, pairs: GradePairs, ranks: pd.DataFrame) -> list[SystemBias]:
        """Return by how much the judge favours each system, with intervals that hold together."""
        if ranks.shape[1] < 2:
            return []
        k = self.metric.k or 10
        is_listed = ((ranks > 0) & (ranks <= k)).to_numpy()
        is_in_any: Bools = np.asarray(is_listed.any(axis=1))
        level = self.method.alpha / ranks.shape[1]
        method = replace(self.method, confidence=1 - level)
        return [
            SystemBias(
                name,
                k,
                pairs.take(is_in_any).milder(is_listed[is_in_any, column], method)
                if is_in_any.any()
                else None,
            )
            for column, name in enumerate(ranks.columns)
        ]

    def _decision(self, shared: pd.DataFrame) -> JudgeDecision | None:
        """Return the verdicts by both labels of the documents that both judged; None without two runs."""
        if len(self.runs) < 2:
            return None
        by_human, by_judge = (self._comparison(shared, f"grade_{judge}") for judge in ("human", "judge"))
        metric = by_human.primary
        values = [
            np.column_stack([comparison.system(name).per_query(metric) for name in self.runs])
            for comparison in (by_human, by_judge)
        ]
        return JudgeDecision(
            metric,
            by_human.baseline,
            len(values[0]),
            tuple(by_human.ranking),
            tuple(by_judge.ranking),
            order_tau(values[0], values[1], self.method),
            tuple(self._pairs(by_human, by_judge)),
        )

    def _comparison(self, shared: pd.DataFrame, column: str) -> Comparison:
        """Compare the runs by one of the two labels, on the same scale; queries that a run lacks are empty."""
        labels = shared[["query", "document", column]].rename(columns={column: "grade"})
        most = max(float(shared.grade_human.max()), float(shared.grade_judge.max()), 1.0)
        evaluated = evaluate_runs(
            labels,
            dict(self.runs),
            [self.metric],
            all_queries=True,
            max_grade=most,
            documents_of=self.rules.documents_of,
        )
        return compare(dict(evaluated), confidence=self.method.confidence, ledger=False)

    def _pairs(self, by_human: Comparison, by_judge: Comparison) -> list[JudgedPair]:
        """Return every system against the baseline by both labels."""
        rivals = [name for name in self.runs if name != by_human.baseline]
        varies = any(np.nanstd(by_human.query_differences(name)) > 0 for name in rivals)
        spread_of_system = spreads(by_human) if varies else {}
        pairs = []
        for name in rivals:
            human, judge = by_human.paired(name), by_judge.paired(name)
            difference = self.difference if self.difference is not None else human.difference
            needed = with_judge = None
            if name in spread_of_system and difference:
                spread = spread_of_system[name]
                if difference < 0:
                    spread = spread.mirrored()
                share = worth_of_judge(by_human.query_differences(name), by_judge.query_differences(name))
                needed, with_judge = (
                    each.needed(abs(difference), alpha=self.method.level(len(rivals)), power=POWER)
                    for each in (spread, replace(spread, variance=share * spread.variance))
                )
            pairs.append(
                JudgedPair(
                    name,
                    human.difference,
                    human.ci_low,
                    human.ci_high,
                    human.verdict,
                    judge.difference,
                    judge.ci_low,
                    judge.ci_high,
                    judge.verdict,
                    difference,
                    needed,
                    with_judge,
                )
            )
        return pairs


def _judged_rows(qrels: Qrels) -> pd.DataFrame:
    """Return the query, document and grade of everything that was judged; DataError where nothing was."""
    rows = np.flatnonzero(qrels.grades >= 0)
    if not rows.size:
        raise DataError.at(
            qrels.path, "has no judged document: all grades are below 0", "grades of 0 and more"
        )
    return pd.DataFrame(
        {
            "query": qrels.queries.values_at(rows).astype(object),
            "document": qrels.documents.values_at(rows).astype(object),
            "grade": qrels.grades[rows].astype(np.float64),
        }
    )


def _cautions_of(judge: JudgeResult, human: Qrels, qrels: Qrels) -> list[Caution]:
    """Return the cautions on one judge: documents left out, undefined statistics, few queries, another scale."""
    found = []
    n = judge.overall.n_documents
    if judge.n_human_only or judge.n_judge_only:
        text = (
            f"{count_of(n, 'document')} count, which both judged; {judge.n_human_only:,} that the human alone judged "
            f"and {judge.n_judge_only:,} that the judge alone judged do not"
        )
        found.append(Caution("judged-by-one", "note", text, place=judge.judge))
    if judge.overall.kappa is None:
        text = f"kappa and alpha are undefined, because all {2 * n:,} judgments are equal"
        found.append(
            Caution("equal-judgments", "warning", text, "judge documents of several grades", judge.judge)
        )
    n_queries = judge.overall.n_queries
    if n_queries < 2:
        text = "one query: there is no interval, and nothing holds for other queries"
        found.append(Caution("few-queries", "warning", text, "judge more queries", judge.judge))
    elif n_queries < _FEW:
        text = f"intervals are rough with {count_of(n_queries, 'query')}"
        found.append(Caution("few-queries", "note", text, f"judge {_FEW} and more", judge.judge))
    most, human_most = float(qrels.grades.max()), float(human.grades.max())
    if max(most, human_most) >= _OTHER_SCALE * max(min(most, human_most), 1e-9) and min(most, human_most) > 0:
        text = f"grades reach {plain_number(most)}, the human's {plain_number(human_most)}; kappa compares numbers"
        found.append(Caution("other-scale", "warning", text, "bring both to one scale", judge.judge))
    return found


def _agreement_line(human: str, judge: JudgeResult) -> str:
    overall = judge.overall
    over = f"{count_of(overall.n_documents, 'document')} of {count_of(overall.n_queries, 'query')}"
    kappa = "a kappa that is undefined" if overall.kappa is None else f"kappa {overall.kappa}"
    line = f"{judge.judge} agrees with {human} at {kappa} on {over}"
    bias = overall.bias
    if bias is None or bias.low is None or bias.high is None:
        return f"{line}."
    if bias.low > 0:
        return f"{line}; it is milder by {bias}."
    if bias.high < 0:
        return f"{line}; it is harsher by {replace(bias, value=-bias.value, low=-bias.high, high=-bias.low)}."
    return f"{line}; it is not shown to be milder or harsher ({bias.value:+.2f}, {bias.low:+.2f} to {bias.high:+.2f})."


def _favour_lines(judge: JudgeResult) -> list[str]:
    """Return the sentence about the system that a judge favours most, if it is shown to favour one."""
    favours = [
        (bias.milder.value, bias) for bias in judge.systems if bias.milder and (bias.milder.low or 0) > 0
    ]
    if not favours:
        return []
    _, most = max(favours, key=lambda pair: pair[0])
    return [
        f"{judge.judge} favours {most.system}: it is milder by {most.milder} on its first {most.k} documents than on "
        "others of the same human grade."
    ]


def _decision_lines(human: str, judge: str, decision: JudgeDecision) -> list[str]:
    place = f"at {decision.metric} over {count_of(decision.n_queries, 'query')}"
    tau = f"Kendall's tau of the systems is {decision.tau}"
    if decision.is_same:
        lines = [f"The decision by {judge} is that by {human} {place}; {tau}."]
    else:
        changed = "; ".join(
            f"{pair.system} is {pair.human_verdict} by {human} and {pair.judge_verdict} by {judge}"
            for pair in decision.pairs
            if not pair.is_same
        )
        head = f"The decision by {judge} is another than by {human} {place}"
        lines = [f"{head}, against {decision.baseline}: {changed}; {tau}."]
    for pair in decision.pairs:
        if pair.needed is not None and pair.needed_with_judge is not None:
            lines.append(
                f"{pair.system}: {pair.needed:,} human-labelled queries find a difference of {pair.difference:+.4f} "
                f"with {POWER:.0%} probability, {pair.needed_with_judge:,} where {judge} labels many more "
                "(`compare-labels`)."
            )
    return lines
