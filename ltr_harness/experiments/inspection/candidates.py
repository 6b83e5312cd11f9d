"""Candidate recall: how many of the relevant documents a ranking of the candidates can show, in total and by slice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltr_harness._util.number_text import four_decimals
from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.query_slices import QuerySlice, query_slices
from ltr_harness.data.dataset import RankingDataset


@dataclass(frozen=True)
class CandidateRecall:
    """Candidate recall of some of the queries."""

    attribute: str  # what they share, such as market; "" for all queries
    label: str
    n_queries: int
    n_without_candidates: int
    n_judged: int  # documents, missed ones included
    n_missed: int
    n_relevant: int  # documents with a label above 0, missed ones included
    n_found: int  # of those, candidates
    mean: float | None  # of the queries' shares of these; None where nothing is relevant

    @property
    def total(self) -> float | None:
        """The share of all relevant documents that are candidates: large queries count more than in the mean."""
        return self.n_found / self.n_relevant if self.n_relevant else None


def candidate_recall(dataset: RankingDataset) -> tuple[CandidateRecall, ...]:
    """Return the recall of all queries, then of each slice; nothing where the candidates are not declared."""
    judgments, groups = dataset.judgments, dataset.groups
    missed = judgments.missed
    if missed is None:
        return ()
    relevant, found = judgments.n_relevant, groups.sum(dataset.labels > 0, np.int64)
    n_missed = np.bincount(missed.queries, minlength=groups.n_queries)
    rows = groups.sizes if judgments.judged is None else groups.sum(judgments.judged, np.int64)
    everything = QuerySlice("", "", np.ones(groups.n_queries, dtype=bool))

    def recall_of(part: QuerySlice) -> CandidateRecall:
        chosen = part.queries & (relevant > 0)
        return CandidateRecall(
            attribute=part.attribute,
            label=part.label,
            n_queries=int(part.queries.sum()),
            n_without_candidates=int((part.queries & ~groups.has_rows).sum()),
            n_judged=int((rows + n_missed)[part.queries].sum()),
            n_missed=int(n_missed[part.queries].sum()),
            n_relevant=int(relevant[chosen].sum()),
            n_found=int(found[chosen].sum()),
            mean=float((found[chosen] / relevant[chosen]).mean()) if chosen.any() else None,
        )

    return tuple(map(recall_of, [everything, *query_slices(dataset.query_attributes)]))


def recall_lines(recalls: Sequence[CandidateRecall]) -> list[str]:
    """Return a line of all queries, and one for each attribute; none where the candidates are not declared."""
    if not recalls:
        return []
    overall, *parts = recalls
    mean, total = four_decimals(overall.mean), four_decimals(overall.total)
    n_without, relevant = overall.n_without_candidates, count_of(overall.n_relevant, "relevant document")
    lines = [
        f"candidate recall {mean}, the mean over queries; {total} of {relevant}; "
        f"{overall.n_missed:,} of {count_of(overall.n_judged, 'judged document')} were missed "
        f"({_percent(overall.n_missed, overall.n_judged)}), {count_of(n_without, 'query')} "
        f"({_percent(n_without, overall.n_queries)}) {plural('has', n_without)} no candidate"
    ]
    for attribute in dict.fromkeys(part.attribute for part in parts):
        texts = [f"{part.label} {four_decimals(part.mean)}" for part in parts if part.attribute == attribute]
        lines.append(f"candidate recall by {attribute}: {', '.join(texts)}")
    return lines


def _percent(number: int, total: int) -> str:
    share = number / total if total else 0
    return f"{share:.1%}"
