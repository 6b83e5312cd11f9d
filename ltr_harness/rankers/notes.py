"""What a reader of a boosted model's numbers must know about its training."""

from __future__ import annotations

from ltr_harness.boosting.stopping import StoppingRule
from ltr_harness.wording import count_of

CONSTANT = "the model is constant"
NEARLY_CONSTANT = "the model is nearly constant"
NEVER_REPEATS = "bagging_by_query with several threads"
BESIDE_THE_RESULT = (CONSTANT, NEARLY_CONSTANT, NEVER_REPEATS)
"""How notes begin that nobody may overlook: reports put them beside the numbers."""


def training_notes(
    n_splits: int, kept: int, trained: int, max_rounds: int, stopping: StoppingRule | None
) -> list[str]:
    """Notes on models that learned little, or might have learned more.

    Args:
        n_splits: in all trees of the model.
        kept: rounds the model consists of.
        trained: rounds trained before the best was kept.
        max_rounds: rounds allowed.
        stopping: the rule, if any.
    """
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
