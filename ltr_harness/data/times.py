"""Times, read in one way everywhere: Arrow times, NumPy times or ISO 8601 text as moments, and what clocks show."""

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ltr_harness.data.columns import decoded, is_text, utf8
from ltr_harness.errors import DataError

Nanoseconds = NDArray[np.int64]
"""int64 (n,), nanoseconds since 1970-01-01 in UTC."""
NameOfRow = Callable[[int], str]
"""Where a cell stands, made of its number."""

NO_MOMENT = int(np.iinfo(np.int64).min)
"""Of an empty cell."""
_BEFORE, _AFTER = NO_MOMENT + 1, int(np.iinfo(np.int64).max)
_FIRST_YEAR, _LAST_YEAR = 1678, 2261  # the whole years whose nanoseconds 64 bits hold
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_QUOTED = 60  # characters of a value that messages quote

_DAY = r"\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d|\d{4}\.\d\d\.\d\d|\d{8}"
_CLOCK = r"[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d+)?)?)?"
_ZONE = r" ?(?:Z|[+-]\d\d(?::?\d\d)?)"
_WEEK = r"^ *\d{4}-?W\d\d(?:-?[1-7])?$"
_ZONED = rf"{_CLOCK}{_ZONE}$"
# pandas takes more: `NaT` as if there were nothing, `now`, and 2024-9-1, which no other tool orders so
_ISO = rf"{_WEEK}|^ *(?:\d{{4}}(?:-\d\d)?|(?:{_DAY})(?:{_CLOCK}(?:{_ZONE})?)?)$"
_NO_TIME = "holds text that is not a time: {}"
_ISO_8601 = "ISO 8601, such as 2026-01-31 or 2026-01-31T12:00:00Z"
_CONVERT = (
    "convert them, in pandas by `pd.to_datetime(frame[{}]).dt.strftime('%Y-%m-%dT%H:%M:%S')`, and leave missing "
    "times empty"
)


def timestamps(
    column: Any, name: str, timezone: str, place: NameOfRow | None = None, *, any_year: bool = False
) -> Nanoseconds:
    """Arrow times or ISO 8601 text, of `timezone` if none, as moments; DataError: the first cell that has no order.

    On a zone's clock, the hour that occurs twice is the earlier one, and one that does not exist moves forward. With
    `any_year`, for callers with a range of their own, moments out of range are the least or the largest.
    """
    import pandas as pd

    column = decoded(column)
    kind = column.type
    refuse = partial(_refuse, column, name, place)
    if pa.types.is_null(kind):
        return np.full(len(column), NO_MOMENT)
    if is_text(kind):
        moments, has_zone = _of_texts(utf8(column, name).cast(pa.large_string()), refuse)
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        moments, has_zone = _of_times(column), getattr(kind, "tz", None) is not None
    else:
        found = f"has the type {kind}"
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            found = f"holds numbers ({kind}), which may be seconds or milliseconds"
        expected = "timestamps, or text such as 2026-01-31T12:00:00Z"
        raise DataError.at(f"column {name!r}", found, expected)
    beyond = (moments == _BEFORE) | (moments == _AFTER)
    if not any_year:
        cure = "does it stand for no time? It would be the oldest or the newest of all: leave such rows out"
        refuse(beyond, "holds {}", f"times from {_FIRST_YEAR} to {_LAST_YEAR}", cure)
    if has_zone or timezone == "UTC":
        return moments
    is_time = (moments != NO_MOMENT) & ~beyond
    local = pd.DatetimeIndex(moments[is_time].astype("datetime64[ns]"))
    first = np.ones(len(local), dtype=bool)
    in_utc = local.tz_localize(timezone, ambiguous=first, nonexistent="shift_forward").tz_convert("UTC")
    moments[is_time] = in_utc.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    return moments


def moments_of(
    times: NDArray[Any], name: str, timezone: str, query: NameOfRow, source: str = ""
) -> Nanoseconds:
    """The moments of queries' attribute (n_queries,): times, or ISO 8601 text. DataError: a query without one.

    `source` is the data that messages name.
    """
    place = f"{source}: attribute {name!r}" if source else f"attribute {name!r}"
    if times.dtype.kind == "M" and np.datetime_data(times.dtype)[0] not in ("D", *_NANOSECONDS):
        times = times.astype("datetime64[s]")
    try:
        column = pa.array(times.tolist() if times.dtype.kind == "O" else times)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError.at(place, "holds values that are not times alone", _ISO_8601) from None
    if _are_dates(times):  # text of a table, whose numbers became numbers
        column = column.cast(pa.large_string())
    missing = np.asarray(column.is_null())
    if is_text(column.type):
        missing |= np.asarray(pc.equal(column, "").fill_null(True))
    if missing.any():
        found = f"query {query(int(np.argmax(missing)))!r} has no {name} ({int(missing.sum()):,} such)"
        raise DataError.at(place, found, "a time for each query")
    before = f"{source}: " if source else ""
    return timestamps(column, name, timezone, lambda row: f"{before}query {query(row)!r}")


def _are_dates(values: NDArray[Any]) -> bool:
    """Return whether whole numbers (n,) are days such as 20240131, which no seconds or milliseconds of a year are."""
    if values.dtype.kind not in "iu" or not values.size:
        return False
    day, month = values % 100, values // 100 % 100
    is_day = (day >= 1) & (day <= 31) & (month >= 1) & (month <= 12)
    return bool((is_day & (values >= 1900_01_01) & (values <= 2099_12_31)).all())


def _of_times(column: Any) -> Nanoseconds:
    """Arrow's dates and times as moments, as their own clock shows them."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if column.type == pa.date32() else "ms"))
    unit = column.type.unit
    counts = column.cast(pa.int64()).fill_null(NO_MOMENT).to_numpy()
    years = np.array([f"{_FIRST_YEAR}", f"{_LAST_YEAR + 1}"], dtype="datetime64[Y]")
    first, end = years.astype(f"datetime64[{unit}]").astype(np.int64)
    before, after = counts < first, counts >= end
    moments: Nanoseconds = np.where(before | after, 0, counts) * _NANOSECONDS[unit]
    moments[before], moments[after] = _BEFORE, _AFTER
    moments[counts == NO_MOMENT] = NO_MOMENT
    return moments


def _of_texts(texts: Any, refuse: Callable[..., None]) -> tuple[Nanoseconds, bool]:
    """ISO 8601 text as moments, and whether it names time zones."""
    import pandas as pd

    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    is_text = np.asarray(texts.is_valid())
    refuse(is_text & ~_matches(texts, _ISO), _NO_TIME, _ISO_8601, _CONVERT)
    zoned = _matches(texts, _ZONED)
    has_no_zone = is_text & ~zoned
    if zoned.any():
        found = f"{int(has_no_zone.sum()):,} of {len(texts):,} times have no time zone, the others do, such as {{}}"
        refuse(has_no_zone, found, "all with one, or none")
    weeks = _matches(texts, _WEEK)
    years = pc.utf8_slice_codeunits(pc.utf8_ltrim_whitespace(texts), 0, 4).cast(pa.int64())
    years = years.fill_null(_FIRST_YEAR).to_numpy()
    before, after = years < _FIRST_YEAR, years > _LAST_YEAR
    unreadable = before | after | weeks
    readable = pc.if_else(pa.array(unreadable), None, texts) if unreadable.any() else texts
    series = pd.to_datetime(readable.to_pandas(), utc=bool(zoned.any()), format="ISO8601", errors="coerce")
    moments = _of_times(pa.Array.from_pandas(series.dt.tz_localize(None)))
    if weeks.any():
        moments[weeks] = [_monday(week) for week in texts.filter(pa.array(weeks)).to_pylist()]
    moments[before], moments[after] = _BEFORE, _AFTER
    refuse(is_text & (moments == NO_MOMENT), _NO_TIME, _ISO_8601, "is there such a day, and such an hour?")
    return moments, bool(zoned.any())


def _matches(texts: Any, pattern: str) -> NDArray[np.bool_]:
    """Return a mask of the texts (n,) that a pattern matches; a missing one does not."""
    return np.asarray(pc.match_substring_regex(texts, pattern).fill_null(False), dtype=bool)


def _monday(week: str) -> int:
    """The moment with which a week or its named day begins, such as 2026-W05 or 2026-W05-3."""
    try:
        return int(np.datetime64(date.fromisoformat(week.strip()), "ns").astype(np.int64))
    except ValueError:  # no year has 60 weeks
        return NO_MOMENT


def _refuse(
    column: Any,
    name: str,
    place: NameOfRow | None,
    bad: NDArray[np.bool_],  # (n,)
    found: str,  # with {} for the value
    expected: str,
    cure: str = "",  # with {} for the column's name
) -> None:
    """Raise DataError for the first of the bad cells, where there are any."""
    if not bad.any():
        return
    row, n = int(np.argmax(bad)), int(np.count_nonzero(bad))
    cell = column.slice(row, 1)
    if pa.types.is_timestamp(cell.type):
        cell = cell.cast(pa.timestamp(cell.type.unit))  # without its zone, of which a file may say anything
    value = str(cell.cast(pa.large_string())[0])  # Python has no year before 1 or after 9999
    value = value if len(value) <= _QUOTED else value[:_QUOTED] + "…"
    such = f" ({n:,} such)" if n > 1 else ""
    location = f"column {name!r}" if place is None else f"{place(row)}: column {name!r}"
    raise DataError.at(location, found.format(repr(value)) + such, expected, cure.format(repr(name)))


def local_days(moments: Nanoseconds, timezone: str) -> Nanoseconds:
    """(n,) days since 1970-01-01 on the calendar of the time zone."""
    return local_clock(moments, timezone) // (86_400 * 10**9)


def local_clock(moments: Nanoseconds, timezone: str) -> Nanoseconds:
    """(n,) nanoseconds since 1970-01-01 00:00 as the clocks of the time zone show them."""
    import pandas as pd

    if timezone == "UTC":
        return moments
    local = pd.DatetimeIndex(moments.astype("datetime64[ns]")).tz_localize("UTC").tz_convert(timezone)
    return np.asarray(local.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64))
