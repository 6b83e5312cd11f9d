"""The choice of cautions beside a table: at most one below it, the others where the method is described.

The terminal, pages, Markdown, LaTeX and notebooks show what is chosen here; JSON has every caution as it was found.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from ltr_harness._util.text import count_of
from ltr_harness.errors import SEVERITIES, Caution, merge_by_cause, worst_first

TWO_SEEDS = "two-seeds"
"""The kind of the caution that stands before the numbers: one degree of freedom makes all intervals wide."""

ONE_TRAINING = "one-training"
"""The kind of the caution that the verdict's sentence repeats; every comparison of models with one seed has it."""

CHEAP_LABELS = "cheap-labels"
"""The kind of the lines that `compare-labels` adds to a comparison: its result, which stands below the table."""

_SHOWN_ELSEWHERE = frozenset({TWO_SEEDS, CHEAP_LABELS})

_ABOUT_VERDICTS = frozenset(
    {"rare-kind", "lopsided", "few-queries", "short-intervals", "assumed-spread", "signs-differ"}
)
"""Kinds that make a verdict less sure: of a model that is worse anyway, nobody needs them."""


class ChosenCautions(NamedTuple):
    """The caution that stands below a table, and those that are folded away, the worst first."""

    below: Caution | None
    folded: tuple[Caution, ...]

    @property
    def folded_text(self) -> str:
        """The numbers of the folded ones, such as "2 more cautions and 1 note"; "" if there are none."""
        n_notes = sum(caution.severity == "note" for caution in self.folded)
        counts = {"more caution": len(self.folded) - n_notes, "note": n_notes}
        return " and ".join(count_of(n, noun) for noun, n in counts.items() if n)


def choose_cautions(cautions: Iterable[Caution], losers: Collection[str] = ()) -> ChosenCautions:
    """Return the caution for the place below a table, and the others.

    The worst one stands there, of equally bad ones the first, but one about losers last; mere notes never do. That
    models have one seed, which changes no number, leaves the place to what can undo the result: a warning about data,
    models, or how often the queries have decided. What makes the verdicts on losers less sure is left out, and what
    holds for several folds, splits or models is listed once.

    Args:
        cautions: all of them, the most important of each severity first.
        losers: models that are worse than the baseline, which is not what the comparison is about.
    """
    relevant = []
    for caution in cautions:
        about_contenders = _without_losers(caution, losers)
        if about_contenders is not None and caution.kind not in _SHOWN_ELSEWHERE:
            relevant.append(about_contenders)
    listed = worst_first(merge_by_cause(relevant))
    candidates = [caution for caution in listed if caution.severity != "note"]
    if not candidates:
        return ChosenCautions(None, tuple(listed))

    def rank(caution: Caution) -> tuple[int, bool]:
        return SEVERITIES.index(caution.severity), not _models_beside(caution.place, losers)

    below = min(candidates, key=rank)
    if below.kind == ONE_TRAINING:
        about_results = [caution for caution in candidates if caution.kind not in _ABOUT_VERDICTS]
        below = min(about_results, key=lambda caution: (*rank(caution), caution.kind == ONE_TRAINING))
    return ChosenCautions(below, tuple(caution for caution in listed if caution is not below))


def _without_losers(caution: Caution, losers: Collection[str]) -> Caution | None:
    """Return a caution about verdicts without the models that lose; None where it is about these alone."""
    if caution.kind not in _ABOUT_VERDICTS:
        return caution
    models = _models_beside(caution.place, losers)
    data_set, separator, _ = caution.place.rpartition(": ")
    return replace(caution, place=f"{data_set}{separator}{', '.join(models)}") if models else None


def _models_beside(place: str, losers: Collection[str]) -> list[str]:
    """Return the names at a place, which may begin with a data set, that are no losers."""
    return [model for model in place.rpartition(": ")[2].split(", ") if model not in losers]
