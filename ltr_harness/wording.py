"""How many of what, in words: ``1 query``, ``1,984 queries``."""

from __future__ import annotations

_FORMS = {"is": "are", "was": "were", "has": "have"}


def count_of(count: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> count_of(1, "query"), count_of(1984, "training query"), count_of(0, "row")
        ('1 query', '1,984 training queries', '0 rows')
    """
    return f"{count:,} {plural(noun, count)}"


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
