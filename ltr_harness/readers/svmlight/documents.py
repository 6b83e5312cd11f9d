"""Which documents the comments of LETOR rows name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltr_harness.wording import count_of

IGNORED = "comments are ignored: they name no documents for certain, as `# docid = …` in every row would"


def documents_of(
    pieces: Sequence[NDArray[np.str_] | None], n_rows: int, *, n_named: int, n_words: int, n_alone: int
) -> tuple[NDArray[np.str_] | None, NDArray[np.str_] | None, list[str]]:
    """What comments name, and their first words, each where every row has one; and a note on what is ignored.

    Shapes: `pieces` (n_rows_of_it,).
    """
    if not n_named and not n_words:
        return None, None, []
    given = [piece for piece in pieces if piece is not None]
    texts = np.concatenate(given) if len(given) == len(pieces) else None
    if n_named == n_rows:
        return texts, None, []
    if n_named:
        return (
            None,
            None,
            [f"document ids are ignored: only {n_named:,} of {count_of(n_rows, 'row')} have one"],
        )
    if texts is not None and (n_alone == n_rows or _have_digits(texts)):
        return None, texts, []
    return None, None, [IGNORED]


def documents_by_words(
    words: NDArray[np.str_], queries: NDArray[np.int64]
) -> tuple[NDArray[np.str_] | None, str]:
    """The first words of comments as document ids, if no query has one twice; and a note that says so.

    Shapes: `words` (n_rows,), `queries` (n_rows,).
    """
    _, codes = np.unique(words, return_inverse=True)
    pairs = queries * (int(codes.max()) + 1) + codes
    if np.unique(pairs).size < pairs.size:
        return None, IGNORED
    return words, f"document ids are the first words of the comments, such as {str(words[0])!r}"


def _have_digits(texts: NDArray[np.str_]) -> bool:
    """Whether each has one."""
    letters = texts.view(np.uint32).reshape(len(texts), -1)
    return bool(((letters >= ord("0")) & (letters <= ord("9"))).any(axis=1).all())
