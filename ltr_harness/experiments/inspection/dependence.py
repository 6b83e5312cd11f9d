"""Queries that depend on each other: asked one after another, or by the same users."""

from ltr_harness.data.dataset import RankingDataset, values_by_query
from ltr_harness.data.times import Nanoseconds, moments_of
from ltr_harness.errors import Caution, DataError
from ltr_harness.experiments.config.yaml_tree import one_line_yaml

_DAY = 86_400 * 10**9  # nanoseconds
_TEST_PARTS = 6  # of the data's length


def time_column(dataset: RankingDataset) -> str | None:
    """Return the column with the queries' times: one of their own key, or one named so; None where there is none."""
    key = [name for name in dataset.columns.get("query", "").split(", ") if name]
    of_key = next((name for name in key if _moments(dataset, name) is not None), None)
    named = dataset.columns.get("time")
    if of_key is not None or named is None:
        return of_key
    is_known = values_by_query(dataset, named) is not None
    return None if is_known and _moments(dataset, named) is None else named


def folds_in_time(dataset: RankingDataset, column: str) -> str:
    """Return the option that divides the queries by the times of a column, its parts as long as the data allow."""
    span = "1 month"
    moments = _moments(dataset, column)
    if moments is not None:
        days = int(moments.max() - moments.min()) // _DAY // _TEST_PARTS
        span = f"{days} days" if days > 1 else "1 day"
    return f"folds: {one_line_yaml({'by_time': column, 'test': span, 'valid': span})}"


def dependence(dataset: RankingDataset, *, by_time: bool, unit: str | None) -> list[Caution]:
    """Return notes about queries that have times or users, where neither folds nor comparisons know of them."""
    found = []
    time, user = time_column(dataset), dataset.columns.get("user")
    if time is not None and not by_time:
        text = f"queries have a time ({time}), and shuffled folds train on queries that came after the tested ones"
        cure = f"`{folds_in_time(dataset, time)}` trains on the past{_as_attribute(dataset, time)}"
        found.append(Caution("queries-in-time", "note", text, cure))
    if user is not None and unit is None:
        text = f"queries have a user ({user}), and queries of one user are not independent"
        cure = f"`compare: {one_line_yaml({'unit': user})}` counts users{_as_attribute(dataset, user)}"
        found.append(Caution("queries-of-users", "note", text, cure))
    return found


def _as_attribute(dataset: RankingDataset, column: str) -> str:
    """Return the hint that a column has to be an attribute; "" where it is one, or a part of the query's key."""
    if values_by_query(dataset, column) is not None:
        return ""
    option = f"attributes: {one_line_yaml([column])}"
    return f", with `{option}` under `data:` if it is equal in all rows of a query"


def _moments(dataset: RankingDataset, column: str) -> Nanoseconds | None:
    """Return the moments of queries by a column; None where its values are unknown or are no times."""
    values = values_by_query(dataset, column)
    if values is None:
        return None
    try:
        return moments_of(values, column, "UTC", dataset.groups.name)
    except DataError:
        return None
