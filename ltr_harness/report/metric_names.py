"""Names of metrics as parts of a report: family and cutoff, and parts of file names."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CUTOFF = re.compile(r"^(?P<base>.*)@(?P<k>\d+)$", re.DOTALL)


def split_cutoff(metric: str) -> tuple[str, int | None]:
    """A canonical metric name as family and cutoff.

    Example:
        >>> split_cutoff("err(max_grade=4)@10"), split_cutoff("map")
        (('err(max_grade=4)', 10), ('map', None))
    """
    match = _CUTOFF.match(metric)
    return (match["base"], int(match["k"])) if match else (metric, None)


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
