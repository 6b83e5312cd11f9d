"""Notes on the training of a boosted model, for readers of its numbers."""

from __future__ import annotations

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.wording import count_of

CONSTANT = "the model is constant"
NEARLY_CONSTANT = "the model is nearly constant"
NEVER_REPEATS = "bagging_by_query with several threads"
BESIDE_THE_RESULT = (CONSTANT, NEARLY_CONSTANT, NEVER_REPEATS)
"""Beginnings of the notes that reports put beside the numbers."""


def training_notes(
    n_splits: int, kept: int, trained: int, max_rounds: int, stopping: StoppingRule | None
) -> list[str]:
    """Notes on models that learned little, or were cut to `kept` of the rounds trained and might have learned more."""
    if n_splits == 0:
        return [
            f"{CONSTANT}: no split met the requirements (smallest leaf, smallest hessian, smallest gain), "
            "so its metrics are those of a random order"
        ]
    notes = []
    if n_splits < 3 * kept and n_splits < 10:
        notes.append(f"{NEARLY_CONSTANT}: {count_of(n_splits, 'split')} in {count_of(kept, 'round')}")
    if stopping is not None and trained >= max_rounds and trained - kept < stopping.patience:
        notes.append(
            f"best round {kept} of {trained}, stopped by the limit and not by the metric: more rounds may help"
        )
    return notes
