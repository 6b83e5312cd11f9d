"""Names of metrics as parts of file names."""

from __future__ import annotations

from collections.abc import Sequence


def file_names(metrics: Sequence[str]) -> dict[str, str]:
    """A part of a file name for each metric; numbered where two would share one.

    Example:
        >>> file_names(["ndcg@10", "my metric", "my-metric"])
        {'ndcg@10': 'ndcg_10', 'my metric': 'my_metric', 'my-metric': 'my_metric-2'}
    """
    names: dict[str, str] = {}
    for metric in metrics:
        slug = "".join(c if c.isascii() and c.isalnum() else "_" for c in metric)[:60]
        taken = sum(1 for known in names.values() if known == slug or known.startswith(f"{slug}-"))
        names[metric] = f"{slug}-{taken + 1}" if taken else slug
    return names
