"""How much searching went into each model: a tuned model against one that was not is no comparison of libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ltr_harness.runs.record import Record, TuningFacts
from ltr_harness.wording import count_of


def configuration(record: Record) -> Mapping[str, Any]:
    """What all runs of one model must have in common.

    Of a tuned model that is how it was searched; what was found may differ from fold to fold.
    """
    tuning = record.tuning
    if tuning is None:
        return record.config
    left = {key: dict(value) if isinstance(value, dict) else value for key, value in record.config.items()}
    for option in tuning.chosen:
        field, dot, name = option.partition(".")
        if dot and isinstance(left.get(field), dict):
            left[field].pop(name, None)
        else:
            left.pop(field, None)
    search = (tuning.metric, tuning.sampler, tuning.inner_folds, tuning.seed, sorted(tuning.chosen))
    return {"config": left, "budget": (tuning.trials, tuning.minutes), "search": search}


def budget_notes(records: Mapping[str, Sequence[Record]]) -> list[str]:
    """What a reader must know of the budgets; nothing where no model was tuned."""
    tuned = {name: [one.tuning for one in own if one.tuning is not None] for name, own in records.items()}
    tuned = {name: facts for name, facts in tuned.items() if facts}
    if not tuned:
        return []
    said = [f"{name} by {_spent(facts)}" for name, facts in tuned.items()]
    rest = [name for name in records if name not in tuned]
    notes = [
        f"tuned on validation data, before the test queries were scored: {'; '.join(said)}"
        + (f". Not tuned: {', '.join(rest)}" if rest else "")
    ]
    budgets = {(facts[0].trials, facts[0].minutes) for facts in tuned.values()}
    if len(budgets) > 1:
        notes.append(
            "the tuned models had different budgets: a difference between them may be one of searching, not of models"
        )
    return notes


def _spent(facts: Sequence[TuningFacts]) -> str:
    """Such as ``40 trials in each of 5 folds (212 s)``: what was used, and the budget where time set it."""
    searches = list({one.study: one for one in facts}.values())
    counts = sorted({one.n_trials for one in searches})
    trials = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    folds = f" in each of {count_of(len(searches), 'fold')}" if len(searches) > 1 else ""
    limit = "" if searches[0].minutes is None else f" of at most {searches[0].minutes:g} min"
    return f"{trials} trials{folds} ({sum(one.seconds for one in searches):.0f} s{limit})"
