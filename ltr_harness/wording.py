"""Counts with their noun: ``1 query``, ``1,984 queries``."""

from __future__ import annotations

from collections.abc import Sequence

_FORMS = {"is": "are", "was": "were", "has": "have"}


def count_of(count: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> count_of(1, "query"), count_of(1984, "training query"), count_of(0, "row")
        ('1 query', '1,984 training queries', '0 rows')
    """
    return f"{count:,} {plural(noun, count)}"


def named(noun: str, names: Sequence[str]) -> str:
    """How many, and which: all up to twenty, else the first ten.

    Example:
        >>> named("feature", ["bm25", "price"])
        '2 features: bm25, price'
        >>> named("feature", [str(number) for number in range(46)])
        '46 features: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …'
    """
    shown = ", ".join(names) if len(names) <= 20 else f"{', '.join(names[:10])}, …"
    return f"{count_of(len(names), noun)}: {shown}" if names else count_of(0, noun)


def plural(word: str, count: int) -> str:
    """A noun, or a verb such as *is* and *has*, in the form that goes with the number.

    Example:
        >>> plural("query", 2), plural("has", 2), plural("is", 1), plural("match", 2)
        ('queries', 'have', 'is', 'matches')
    """
    if count == 1:
        return word
    if word in _FORMS:
        return _FORMS[word]
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"
