"""Words where numbers should be, and the line of an experiment file that cures it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ltr_harness._util.text import shortened
from ltr_harness.errors import Problem

# Words of scales whose order everybody knows, worst first.
_SCALES = (
    ("bad", "fair", "good", "excellent", "perfect"),
    ("poor", "fair", "good", "very good", "excellent"),
    ("very bad", "bad", "neutral", "good", "very good"),
    ("irrelevant", "partially relevant", "relevant", "highly relevant", "perfectly relevant"),
    ("not relevant", "somewhat relevant", "relevant", "highly relevant", "perfectly relevant"),
    ("nonrelevant", "relevant"),
    ("irrelevant", "partial", "exact"),
    ("irrelevant", "complement", "substitute", "exact"),  # of Amazon's ESCI
    ("none", "low", "medium", "high"),
    ("no", "maybe", "yes"),
)
_AS_OTHERS = (
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "null",
)  # what YAML reads as something else
_LISTED = 10
_SIGN = r"[$€£¥₹%]|EUR|USD|GBP|CHF|JPY|INR"
# 12.50, 1,234.50, -3, $ 12, 12.50 EUR, 12 %
LIKE_NUMBER = rf"\s*(?:{_SIGN})?\s*[-+]?\d+(?:,\d{{3}})*(?:[.,]\d+)?\s*(?:{_SIGN})?\s*"
NUMBERS_ALONE = "write numbers alone, with a decimal point"


def is_like_number(text: str) -> bool:
    """Return whether a text is a number, perhaps with thousands, a currency or a percent sign."""
    return re.fullmatch(LIKE_NUMBER, text) is not None


@dataclass(frozen=True)
class NotNumeric(Problem):
    """Text in a column of numbers: the first, and the number of cells with text among those that are not empty."""

    column: str = ""
    text: str = ""
    n_texts: int = 0
    n_cells: int = 0

    @property
    def mostly_numbers(self) -> bool:
        """True where more than half of the cells are numbers."""
        return 2 * self.n_texts < self.n_cells

    @property
    def is_word(self) -> bool:
        """True where the column has words rather than numbers with a unit."""
        return not (self.mostly_numbers or is_like_number(self.text)) and self.text[:1].isalpha()


def label_cure(problem: NotNumeric, words: Sequence[str]) -> str:
    """Return the cure for labels that are text; `words` are their distinct texts."""
    if problem.mostly_numbers or is_like_number(problem.text):
        return f"{NUMBERS_ALONE}, or leave such rows out"
    return grades_cure(words)


def feature_cure(problem: NotNumeric, categorical: Sequence[str]) -> str:
    """Return the cure for a feature that is text; `categorical` are the columns that can be read as categories."""
    if problem.is_word:
        line = f"`categorical: [{', '.join(categorical)}]`"
        return f"{line} reads it as categories; or leave it out of `features:`"
    return f"{NUMBERS_ALONE}, and empty cells where a value is missing; or leave it out of `features:`"


def in_order(words: Sequence[str]) -> list[str] | None:
    """Return the words of a known scale, worst first; None where no scale has them all."""
    word_of_key = {_normalise(word): word for word in words}
    if not 1 < len(word_of_key) == len(words):
        return None
    for scale in _SCALES:
        if word_of_key.keys() <= {*scale}:
            return [word_of_key[word] for word in scale if word in word_of_key]
    return None


def grades_cure(words: Sequence[str]) -> str:
    """Return the cure for labels that are words: their grades where their order is known."""
    ordered = in_order(words)
    if ordered is None:
        return f"put its words in order, worst first, and number them from 0 with `grades:`: {_listed(words)}"
    grades = ", ".join(f"{_quoted(word)}: {grade}" for grade, word in enumerate(ordered))
    return f"where labels are words, `grades: {{{grades}}}` says what each stands for"


def listing_cure(words: Sequence[str]) -> str:
    """Return the cure for grades in judgments that are words, where no option says what they stand for."""
    ordered = in_order(words)
    if ordered is None:
        return f"number its words in the table, worst first: {_listed(words)}"
    return (
        f"number its words in the table: {', '.join(f'{word} {grade}' for grade, word in enumerate(ordered))}"
    )


def _listed(words: Sequence[str]) -> str:
    return shortened(list(map(_quoted, sorted(words))), _LISTED)


def _normalise(word: str) -> str:
    return word.strip().lower().replace("_", " ").replace("-", " ")


def _quoted(word: str) -> str:
    """Return a word as a key of YAML."""
    is_plain = (
        word.replace(" ", "_").isidentifier() and word == word.strip() and word.lower() not in _AS_OTHERS
    )
    return word if is_plain else json.dumps(word, ensure_ascii=False)


def grades_in_words(grades: Mapping[str, float]) -> str:
    """Return grades as text, such as ``bad is 0, good is 1``."""
    return ", ".join(f"{label} is {grade:g}" for label, grade in grades.items())
