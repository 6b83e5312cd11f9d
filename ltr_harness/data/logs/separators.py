"""Separators of text tables: find the one that a file has where another was expected."""

from pathlib import Path

from ltr_harness.errors import DataError

SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "vertical bar"}
"""The separators that tables come with, and the word for each."""


def separator_in(header: str) -> str | None:
    """Return the separator that divides a header into the most fields; None where none divides it."""
    most = max(SEPARATORS, key=header.count)
    return most if most in header else None


def refuse_other_separator(path: Path, line: int, header: str, separator: str, cure: str = "") -> None:
    """Raise if a header that is one field would be several with another separator.

    `cure` is the line to write, with {} for the right separator. Raises DataError: with both separators.
    """
    other = separator_in(header)
    if other is None or separator in header:
        return
    n = header.count(other) + 1
    found = f"the header is one field, and {n} where a {SEPARATORS[other]} separates them"
    expected = f"fields separated by a {SEPARATORS.get(separator, repr(separator))}"
    written = "\\t" if other == "\t" else other
    raise DataError.at(f"{path}:{line}", found, expected, cure.format(written))
