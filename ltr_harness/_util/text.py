"""Counts with their nouns, plurals, and lists of names."""

from collections.abc import Collection, Sequence
from itertools import islice

_FORMS = {"is": "are", "was": "were", "has": "have"}


def count_of(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count:,} {plural(noun, count)}"


def named(noun: str, names: Sequence[str]) -> str:
    """Return a count with the names: all up to twenty, else the first ten."""
    listed = ", ".join(names) if len(names) <= 20 else f"{', '.join(names[:10])}, …"
    return f"{count_of(len(names), noun)}: {listed}" if names else count_of(0, noun)


def shortened(names: Collection[object], most: int) -> str:
    """The first names, and whether there are more."""
    listing = ", ".join(map(str, islice(names, most)))
    return f"{listing}, …" if len(names) > most else listing


def plural(word: str, count: int) -> str:
    """A noun, or a verb such as *is* and *has*, in the form that goes with the number."""
    if count == 1:
        return word
    if word in _FORMS:
        return _FORMS[word]
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"
