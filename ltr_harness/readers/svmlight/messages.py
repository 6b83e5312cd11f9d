"""What is wrong with a line of LETOR or LibSVM text, in words."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ltr_harness.errors import Problem
from ltr_harness.groups import LONGEST_ID
from ltr_harness.readers.svmlight import kernels
from ltr_harness.readers.svmlight.chunks import LINE_ENDS, Chunk

_NUMBER = "a number such as 0.5 or 1e-3, or NULL for a missing value"
_GRADE = "a label >= 0, such as 0, 1, 2"
INDEX = "index:value, such as 3:0.5"

# Kernel code -> what was found ({0} is the token), what was expected, the cure.
_WORDS = {
    kernels.LABEL_NOT_A_NUMBER: ("the label is {0}", _GRADE, ""),
    kernels.LABEL_MISSING: ("the label is {0}", _GRADE, "leave out rows that nobody judged"),
    kernels.LABEL_INFINITE: ("the label is {0}", _GRADE, ""),
    kernels.LABEL_NEGATIVE: (
        "the label is {0}",
        _GRADE,
        "set `unjudged: -1` if nobody judged such rows, or map them with `grades: {-1: 0, 0: 0, …}`",
    ),
    kernels.QID_MISSING: (
        "{0} where the query id should be",
        "qid:… as the second entry of the row",
        "use `reader: lightgbm` if group sizes are in a .query file, or `--qrels` if these are TREC judgments",
    ),
    kernels.QID_EMPTY: ("the query id is empty", "qid: and an id, such as qid:10", ""),
    kernels.QID_UNEXPECTED: (
        "{0} in a file whose queries are given by sizes",
        "no query id",
        "use `reader: letor`",
    ),
    kernels.ID_WITH_NUL: (
        "the id {0} has a NUL byte",
        "text",
        "was the file cut off, or is it no text file?",
    ),
    kernels.ID_TOO_LONG: (
        "the id {0} is too long",
        f"at most {LONGEST_ID:,} bytes",
        "is there a line break missing?",
    ),
    kernels.INDEX_NOT_A_NUMBER: ("{0} where a feature should be", INDEX, ""),
    kernels.INDEX_NEGATIVE: ("the feature index of {0} is negative", "an index of 0 or more", ""),
    kernels.INDEX_TOO_SMALL: (
        "the feature index of {0} is 0",
        "an index of 1 or more",
        "set `first_index: 0` if features count from 0",
    ),
    kernels.INDEX_TOO_LARGE: ("the feature index of {0} is too large", "{1}", ""),
    kernels.VALUE_NOT_A_NUMBER: ("the value of {0} is not a number", _NUMBER, ""),
    kernels.VALUE_INFINITE: (
        "the value of {0} is infinite or beyond the range of float32",
        "a finite number",
        "write NULL where a value is missing, or set `beyond_float32: clip` or `missing`",
    ),
    kernels.RETURN_IN_COMMENT: (
        "{0} after a carriage return in a comment, which hides it",
        "lines that end with LF or CRLF",
        LINE_ENDS,
    ),
    kernels.WEIGHT_WRONG: ("the weight of {0} is not a number >= 0", "label:weight, such as 1:0.5", ""),
}


def problem_in(chunk: Chunk, line: int, code: int, at: int, last: int) -> Problem:
    """What `parse` reported of a line, with place, token, expectation and cure; `last` is the largest index allowed."""
    found, expected, cure = _WORDS[code]
    most = f"at most {last} (n_features)" if code == kernels.INDEX_TOO_LARGE else ""
    return Problem(
        f"{chunk.path}:{chunk.first_line + line}",
        found.format(_token(chunk.data, at)),
        expected.format(0, most),
        cure,
    )


def _token(data: NDArray[np.uint8], at: int) -> str:
    """What stands at an offset, as messages quote it."""
    text = data[at : at + 200].tobytes().decode("utf-8", "backslashreplace")
    token = re.split(r"[ \t\r\n#]", text, maxsplit=1)[0]
    if not token:
        return "the end of the row"
    return repr(token if len(token) <= 40 else token[:40] + "…")
