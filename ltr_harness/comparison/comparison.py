"""What a comparison ends in: every number, one sentence, tables, letters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ltr_harness.comparison import tables
from ltr_harness.comparison.compared import Compared
from ltr_harness.comparison.letters import Letters, letters
from ltr_harness.comparison.result import value_bounds
from ltr_harness.comparison.sentence import verdict_sentence

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Comparison(Compared):
    """Models over the same queries, by the same metrics, each against one baseline.

    Attributes:
        entrants: the models' per-query values, all in one order of queries.
        metrics: canonical names; the primary metric is one of them.
        primary: the metric, and so the K, that carries the verdict.
        baseline: the model the others are compared with.
        summaries: one per metric and model.
        pairs: one per metric and model except the baseline.
        method: test, correction, confidence, and how they were computed.
        families: which hypotheses were corrected together, in words, primary first.
        n_queries: size of the query set.
        n_without_relevant: queries without a relevant document, where the inputs tell; else undefined ones.
        n_undefined: metric to the number of queries undefined for at least one model.
        units: (n_queries,) codes of the units that queries belong to; None where every query is its own.
        notes: what a reader must know: replicates left out, warnings about small or lopsided samples …
    """

    def letters(self, metric: str | None = None) -> Letters:
        """Which models differ from each other, as compact letters: those that share one do not.

        The comparison's test over all pairs at once, as one family at the comparison's level, on values averaged over
        seeds. It stands beside the verdict, which is about the baseline alone.

        Example:
            >>> import pandas as pd
            >>> from ltr_harness.comparison import compare
            >>> first = pd.DataFrame({"query_id": list("abcdef"), "mrr": [0.5, 0.4, 0.3, 0.5, 0.6, 0.4]})
            >>> noise = pd.Series([0.01, -0.01, 0.02, -0.02, 0.0, 0.0])
            >>> others = {"alike": first.assign(mrr=first.mrr + noise), "far": first.assign(mrr=first.mrr - 0.3)}
            >>> compare({"first": first, **others}).letters().groups
            {'first': ('a',), 'alike': ('a',), 'far': ('b',)}
        """
        name = self._metric(metric)
        values = {entrant.name: entrant.per_query(name) for entrant in self.entrants}
        return letters(
            values,
            self.method,
            higher_is_better=self.higher_is_better[name],
            bounds=value_bounds(self.entrants, name),
            units=self.units,
        )

    @cached_property
    def verdict(self) -> str:
        """One sentence: which model, by how much, how sure, at which metric and K, over how many queries."""
        return verdict_sentence(self)

    @property
    def table(self) -> pd.DataFrame:
        """One row per model at the primary metric, best mean first."""
        return tables.primary_table(self)

    def frame(self) -> pd.DataFrame:
        """Everything, tidy: one row per metric and model, columns as in `Summary` and `Paired`."""
        return tables.tidy_frame(self)

    def __repr__(self) -> str:
        return "\n".join([self.verdict, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return tables.html(self)
