"""Public ranking sets: sources, terms, file names, counts and digests."""

from ltr_harness.errors import DataError
from ltr_harness.known_sets.table import SETS, Archive, Counts, Download, KnownSet

__all__ = ["SETS", "Archive", "Counts", "Download", "KnownSet", "known_set"]


def known_set(name: str) -> KnownSet:
    """The set of a name. Raises DataError: there is no such set."""
    from ltr_harness.catalog import did_you_mean

    if name not in SETS:
        raise DataError(f"no known set is called {name!r}; {did_you_mean(name, SETS)}")
    return SETS[name]
