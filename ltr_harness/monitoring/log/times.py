"""Moments, however a log writes them, as nanoseconds since 1970 UTC."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import DataError, Problem


def timestamps(column: Any, name: str, timezone: str) -> NDArray[np.int64]:
    """An Arrow column of times or of ISO 8601 text as int64 nanoseconds UTC; the least int64 where missing.

    Raises:
        DataError: text that is no time, or numbers, of which nobody says what they count.
    """
    import pandas as pd
    import pyarrow as pa

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        raise DataError(
            Problem(
                f"column {name!r}",
                f"holds numbers ({kind}), and nothing says whether they are seconds or milliseconds",
                "timestamps, or text such as 2026-01-31T12:00:00Z",
            )
        )
    values = column.to_pandas()
    try:
        series = (
            pd.to_datetime(values, utc=False, format="ISO8601")
            if values.dtype == object or str(values.dtype) in ("str", "string")
            else pd.Series(pd.to_datetime(values))
        )
    except ValueError as problem:
        if "tz" not in str(problem).lower() and "zone" not in str(problem).lower():
            raise DataError(
                Problem(
                    f"column {name!r}",
                    f"holds text that is no time: {problem}",
                    "such as 2026-01-31T12:00:00Z",
                )
            ) from None
        series = pd.to_datetime(values, utc=True, format="ISO8601")  # several offsets
    if series.dt.tz is None:
        # the hour that occurs twice counts as the earlier one, the hour that does not exist moves forward
        series = series.dt.tz_localize(
            timezone, ambiguous=np.ones(len(series), dtype=bool), nonexistent="shift_forward"
        )
    utc = series.dt.tz_convert("UTC").dt.tz_localize(None)
    found: NDArray[np.int64] = utc.to_numpy().astype("datetime64[ns]").astype(np.int64)
    return found
