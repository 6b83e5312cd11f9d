"""A ranking beside the judgments of its queries, by trec_eval's rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem
from ltr_harness.groups import Judgments, QueryGroups
from ltr_harness.readers import trec_hashes as hashes
from ltr_harness.readers.trec import Qrels, TrecRun, some_of
from ltr_harness.readers.trec_columns import Names, Spans, Texts
from ltr_harness.readers.trec_judgments import judgments_of
from ltr_harness.wording import count_of


@dataclass(frozen=True, eq=False)
class Joined:
    """A run beside the judgments of its queries: what `evaluate_bound` takes.

    Attributes:
        judgments: in each query the rows that the run lists, in its order, then those that were judged and are
            not listed; queries in the order of the qrels. A row that nobody judged has label 0.
        scores: float64 (n_rows,); 0 where the row is not listed.
        retrieved: bool (n_rows,), rows that the run lists. The others have no rank, and count in R and in the
            ideal list.
        notes: which queries were left out, and the run's own notes.
    """

    judgments: Judgments
    scores: NDArray[np.float64]
    retrieved: NDArray[np.bool_]
    notes: tuple[str, ...]


def join(
    qrels: Qrels,
    run: TrecRun,
    *,
    complete: bool = False,
    judged_only: bool = False,
    depth: int | None = None,
) -> Joined:
    """A run beside the judgments of its queries, by trec_eval's rules.

    Queries that only one of the files has are left out, and the notes say so. A document that is listed and not
    judged is not relevant; one that is judged and not listed counts among the relevant documents and in the ideal
    list, and earns nothing. A negative grade stands for a document in the pool that nobody judged.

    Raises:
        DataError: the two files share no query.
    """
    code_of = {name: code for code, name in enumerate(qrels.queries.values.tolist())}
    in_qrels = np.array([code_of.get(name, -1) for name in run.queries.values.tolist()], dtype=np.int32)
    kept = np.zeros(qrels.n_queries, dtype=bool)
    kept[in_qrels[in_qrels >= 0]] = True
    if not kept.any():
        raise DataError(
            Problem(
                str(run.path),
                f"has no query of {qrels.path}: its queries are {some_of(run.queries.values)}, those of the qrels "
                f"{some_of(qrels.queries.values)}",
                "a run over the queries of the qrels",
            )
        )
    notes = (*run.notes, *_query_notes(qrels, run, in_qrels, kept, complete))
    if complete:
        kept[:] = True
    return _joined(_Arrangement.of(qrels, run, in_qrels, kept, judged_only, depth), qrels, run, notes)


def _joined(arrangement: _Arrangement, qrels: Qrels, run: TrecRun, notes: tuple[str, ...]) -> Joined:
    most = run.scores.size + qrels.grades.size
    dtype = np.uint8 if np.isin(qrels.grades, np.arange(-1, 256)).all() else np.float64
    labels, (judged, retrieved), scores = (
        np.zeros(most, dtype),
        np.zeros((2, most), dtype=bool),
        np.zeros(most),
    )
    line = np.empty(0 if qrels.subtopics is None else most, dtype=np.int32)
    sizes = arrangement.fill(
        _above_nothing(run.scores), (labels, judged, retrieved, scores), (np.empty(0, dtype=np.int32), line)
    )
    n = int(sizes.sum())
    judgments = judgments_of(
        labels[:n],
        judged[:n],
        QueryGroups.from_sizes(sizes[arrangement.kept], qrels.queries.values[arrangement.kept]),
        None if qrels.subtopics is None else qrels.subtopics.take(line[:n].astype(np.int64)),
        partial(_documents, arrangement, run.documents, qrels.documents),
    )
    return Joined(judgments, scores[:n], retrieved[:n], notes)


@dataclass(frozen=True, eq=False)
class _Arrangement:
    """Where the rows of a run and its judgments stand, query by query: what `arrange` takes."""

    blocks: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    counts: NDArray[np.bool_]
    listed: Spans
    lines: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
    judged: Spans
    judged_only: bool
    kept: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        qrels: Qrels,
        run: TrecRun,
        in_qrels: NDArray[np.int32],
        kept: NDArray[np.bool_],
        judged_only: bool,
        depth: int | None,
    ) -> _Arrangement:
        code_of_block = in_qrels[run.queries.of_block]
        blocks = np.argsort(code_of_block, kind="stable")[np.count_nonzero(code_of_block < 0) :]
        every = np.arange(qrels.n_queries + 1)
        codes = qrels.queries.codes
        lines = np.argsort(codes, kind="stable")
        return cls(
            (np.searchsorted(code_of_block[blocks], every), blocks, run.queries.starts),
            np.empty(0, dtype=bool) if depth is None else _ranks(run) <= depth,
            run.documents.spans,
            (np.searchsorted(codes[lines], every), lines, qrels.grades.astype(np.float64)),
            qrels.documents.spans,
            judged_only,
            kept,
        )

    def fill(
        self,
        scores: NDArray[np.float64],
        columns: tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]],
        sources: tuple[NDArray[np.int32], NDArray[np.int32]],
    ) -> NDArray[np.int64]:
        """Fill columns and sources as `arrange` does; the rows of each query."""
        sizes = np.zeros(self.kept.size, dtype=np.int64)
        hashes.arrange(
            (*self.blocks, scores),
            self.counts,
            self.listed,
            self.lines,
            self.judged,
            self.judged_only,
            self.kept,
            sizes,
            columns,
            sources,
        )
        return sizes

    @cached_property
    def sources(self) -> NDArray[np.int32]:
        """A row of the run, or -1 - line of the judgments: only who asks for names needs them, and few do."""
        most = int(self.blocks[2][-1]) + self.lines[1].size
        labels, flags, nothing = np.zeros(most, np.uint8), np.zeros(most, dtype=bool), np.empty(0)
        rows, lines = np.empty(most, dtype=np.int32), np.empty(0, dtype=np.int32)
        self.fill(nothing, (labels, flags, flags, nothing), (rows, lines))
        return rows


def _documents(
    arrangement: _Arrangement, listed: Names | Texts, judged: Names | Texts, wanted: NDArray[np.int64]
) -> NDArray[np.str_]:
    """The names of the wanted rows."""
    rows = arrangement.sources[wanted]
    is_listed = rows >= 0
    some, others = (
        listed.of(rows[is_listed].astype(np.int64)),
        judged.of(-1 - rows[~is_listed].astype(np.int64)),
    )
    names = np.empty(rows.size, dtype=np.promote_types(some.dtype, others.dtype))
    names[is_listed], names[~is_listed] = some, others
    return names


def _ranks(run: TrecRun) -> NDArray[np.int64]:
    """Each line's rank, from 1: by score, and by document id, descending, where scores tie."""
    codes, scores = run.queries.codes, run.scores
    order = np.lexsort((-scores, codes))
    if ((np.diff(codes[order]) == 0) & (np.diff(scores[order]) == 0)).any():
        names = run.documents.values
        by_name = np.empty(names.size, dtype=np.int64)
        by_name[np.argsort(names)] = np.arange(names.size)
        order = np.lexsort((-by_name[run.documents.codes], -scores, codes))
    sizes = np.bincount(codes)
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    return ranks


def _above_nothing(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores, in the same order, without -inf, which elsewhere says that a row is not listed."""
    if not np.isneginf(scores).any():
        return scores
    return np.unique(scores, return_inverse=True)[1].astype(np.float64)


def _query_notes(
    qrels: Qrels, run: TrecRun, in_qrels: NDArray[np.int32], kept: NDArray[np.bool_], complete: bool
) -> list[str]:
    notes = []
    unknown = run.queries.values[in_qrels < 0]
    if unknown.size:
        notes.append(
            f"{run.path}: {unknown.size:,} of its {count_of(in_qrels.size, 'query')} are not in the qrels and "
            "are left out: "
            f"{some_of(unknown)}"
        )
    lacking = qrels.queries.values[~kept]
    if lacking.size:
        fate = "count with nothing listed" if complete else "are left out (--all-queries counts them)"
        notes.append(
            f"{run.path}: {lacking.size:,} of the {count_of(kept.size, 'query')} of the qrels are not in the run "
            f"and {fate}: "
            f"{some_of(lacking)}"
        )
    return notes
