"""Feature names inside the libraries: as in the data, as far as their file formats allow."""

from __future__ import annotations

import re
from collections.abc import Sequence

# LightGBM refuses signs of JSON and turns blanks into underscores; XGBoost refuses brackets and "<".
_UNSAFE = re.compile(r'[\s",:\[\]{}<>]')


def safe_feature_names(names: Sequence[str]) -> list[str]:
    """Names both libraries take, each once.

    Example:
        >>> safe_feature_names(["bm25", "tf[title]", "tf(title)", "tf title", "tf_title", ""])
        ['bm25', 'tf_title_', 'tf(title)', 'tf_title', 'tf_title_2', 'feature']
    """
    used: set[str] = set()
    safe = []
    for name in names:
        base = candidate = _UNSAFE.sub("_", name) or "feature"
        count = 1
        while candidate in used:
            count += 1
            candidate = f"{base}_{count}"
        used.add(candidate)
        safe.append(candidate)
    return safe
