"""Which metrics, cutoffs and deciding number suit which task: `metrics: {preset: search}`."""

from __future__ import annotations

from typing import Any

# What an experiment leaves open is taken from its preset, `search` unless it names another.
PRESETS: dict[str, dict[str, Any]] = {
    # graded web or product search: the order of the first page
    "search": {"report": ["ndcg", "mrr", "err", "map"], "cutoffs": [1, 3, 5, 10], "primary": "ndcg@10"},
    # one right answer: how far down is it
    "navigational": {"report": ["mrr", "success", "ndcg"], "cutoffs": [1, 3, 5, 10], "primary": "mrr@10"},
    # nothing relevant may be missed: patents, law, medicine
    "recall": {"report": ["map", "recall", "ndcg"], "cutoffs": [10, 100, 1000], "primary": "map@1000"},
    # a shelf of recommendations, clicked or not
    "recsys": {"report": ["map", "precision", "recall", "ndcg"], "cutoffs": [5, 10, 20], "primary": "map@10"},
    # passages handed to a language model: are they there, and how early
    "rag": {"report": ["recall", "mrr", "ndcg"], "cutoffs": [1, 3, 5, 10, 20], "primary": "recall@10"},
}
DEFAULT_PRESET = "search"
