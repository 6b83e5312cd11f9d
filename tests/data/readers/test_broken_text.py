"""Broken LETOR files: one message with file, line, what was found and what was expected; never a misread."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import itertools
import lzma
import re
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from ltr_harness.data.readers.letor import Letor
from ltr_harness.errors import DataError
from tests.conftest import examples, named_case

GOOD = b"1 qid:1 1:0.5 2:1\n0 qid:1 1:0.25 2:0\n"


def zstd(text: bytes) -> bytes:
    return bytes(pyarrow.compress(text, "zstd", asbytes=True))


# What is wrong with the third line, and what the message must say about it.
BAD_LINES = {
    "x qid:1 1:1": "the label is 'x'; expected a finite label, such as 0, 1, 2",
    "1x qid:1 1:1": "the label is '1x'",
    "1,0 qid:1 1:1": "the label is '1,0'",
    "0x1 qid:1 1:1": "the label is '0x1'",
    "1_0 qid:1 1:1": "the label is '1_0'",
    "1e qid:1 1:1": "the label is '1e'",
    "1.2.3 qid:1 1:1": "the label is '1.2.3'",
    "- qid:1 1:1": "the label is '-'",
    ". qid:1 1:1": "the label is '.'",
    "qid:1 1 1:1": "the label is 'qid:1'",
    "nan qid:1 1:1": "the label is 'nan'; expected a finite label, such as 0, 1, 2; leave out rows",
    "NULL qid:1 1:1": "the label is 'NULL'",
    "inf qid:1 1:1": "the label is 'inf'",
    "1e400 qid:1 1:1": "the label is '1e400'",
    "1: qid:1 1:1": "the weight of '1:' is not a number >= 0; expected label:weight, such as 1:0.5",
    "1:x qid:1 1:1": "the weight of '1:x' is not a number >= 0",
    "1:-1 qid:1 1:1": "the weight of '1:-1' is not a number >= 0",
    "1:nan qid:1 1:1": "the weight of '1:nan' is not a number >= 0",
    "1:inf qid:1 1:1": "the weight of '1:inf' is not a number >= 0",
    "1:1e400 qid:1 1:1": "the weight of '1e400' is not a number >= 0",
    "1:1:1 qid:1 1:1": "the weight of '1:1:1' is not a number >= 0",
    "x:1 qid:1 1:1": "the label is 'x:1'",
    "1:0.5 1:1": "'1:1' where the query id should be",
    "1": "the end of the row where the query id should be; expected qid:… as the second entry",
    "1 ": "the end of the row where the query id should be",
    "1 # comment": "the end of the row where the query id should be",
    "1 1:1 2:2": "'1:1' where the query id should be; expected qid:… as the second entry of the row; "
    "use `reader: lightgbm`",
    "1 1:1 qid:1": "'1:1' where the query id should be",
    "1 QID:1 1:1": "'QID:1' where the query id should be",
    "1 qid=1 1:1": "'qid=1' where the query id should be",
    "1 qid: 1:1": "the query id is empty; expected qid: and an id, such as qid:10",
    "1 qid:# 1:1": "the query id is empty",
    "1 qid:1\x00 1:1": "the id 'qid:1\\x00' has a NUL byte; expected text",
    "1 qid:1 1:1 # docid = A\r0 qid:1 1:2": "'0' after a carriage return in a comment, which hides it; expected lines",
    "# a comment\r0 qid:1 1:2": "'0' after a carriage return in a comment, which hides it",
    "1 qid:1 1:1 # docid = A\x00": "the id 'A\\x00' has a NUL byte",
    "1 qid:1 qid:2 1:1": "'qid:2' where a feature should be; expected index:value, such as 3:0.5",
    "1 qid:1 cost:2 1:1": "'cost:2' where a feature should be",
    "1 qid:1 a:1": "'a:1' where a feature should be",
    "1 qid:1 1": "'1' where a feature should be",
    "1 qid:1 1 2:1": "'1' where a feature should be",
    "1 qid:1 :1": "':1' where a feature should be",
    "1 qid:1 1.0:1": "'1.0:1' where a feature should be",
    "1 qid:1 +1:1": "'+1:1' where a feature should be",
    "1 qid:1 1 :1": "'1' where a feature should be",
    "1 qid:1 1,5:1": "'1,5:1' where a feature should be",
    "1 qid:1 ١:1": "'١:1' where a feature should be",
    "1 qid:1 0.5 0.7": "'0.5' where a feature should be",
    "1 qid:1 -1:1": "the feature index of '-1:1' is negative; expected an index of 0 or more",
    "1 qid:1 12345678901:1": "the feature index of '12345678901:1' is too large; expected at most 2 (n_features)",
    "1 qid:1 3:1": "the feature index of '3:1' is too large; expected at most 2 (n_features)",
    "1 qid:1 0:1": "the feature index of '0:1' is 0; expected an index of 1 or more; set `first_index: 0`",
    "1 qid:1 1:": "the value of '1:' is not a number; expected a number such as 0.5",
    "1 qid:1 1: 1": "the value of '1:' is not a number",
    "1 qid:1 1:x": "the value of '1:x' is not a number",
    "1 qid:1 1:1:2": "the value of '1:1:2' is not a number",
    "1 qid:1 1:1,2:2": "the value of '1:1,2:2' is not a number",
    "1 qid:1 1:1;": "the value of '1:1;' is not a number",
    "1 qid:1 1:0,5": "the value of '1:0,5' is not a number",
    "1 qid:1 1:1e+": "the value of '1:1e+' is not a number",
    "1 qid:1 1:1e5.5": "the value of '1:1e5.5' is not a number",
    "1 qid:1 1:--1": "the value of '1:--1' is not a number",
    "1 qid:1 1:0x10": "the value of '1:0x10' is not a number",
    "1 qid:1 1:1_000": "the value of '1:1_000' is not a number",
    "1 qid:1 1:NA": "the value of '1:NA' is not a number",
    "1 qid:1 1:?": "the value of '1:?' is not a number",
    "1 qid:1 1:1\x002:1": "the value of '1:1\\x002:1' is not a number",
    "1 qid:1 1:1\x0b2:1": "is not a number",
    "1 qid:1 1:inf": "the value of '1:inf' is infinite or beyond the range of float32",
    "1 qid:1 1:-Infinity": "the value of '1:-Infinity' is infinite",
    "1 qid:1 1:1e39": "the value of '1:1e39' is infinite or beyond the range of float32",
    "1 qid:1 1:3.40282357e38": "the value of '1:3.40282357e38' is infinite",
    "1 qid:1 1:1e400": "' is infinite or beyond",
    "1 qid:1 1:1e400 1:2": "the value of '1e400' is infinite or beyond",
    "1 qid:1 1:9999999999999999999999999999999999999999": "is infinite or beyond",
    "1 qid:1 1:1\r1 qid:1 1:1": "'1' where a feature should be",  # old Macintosh line ends
    "1 qid:1 1:"
    + "9" * 100
    + "x": "the value of '1:99999999999999999999999999999999999999…' is not a number",
}


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.txt"
    for line, end in itertools.product(BAD_LINES, (b"\n1 qid:1 1:1\n", b"")):
        file.write_bytes(GOOD + line.encode() + end)
        with pytest.raises(DataError) as caught:
            Letor(n_features=2, first_index=1).read(["bad.txt"], tmp_path)
        (message,) = str(caught.value).splitlines()
        assert message.startswith(f"{file}:3: "), message
        assert BAD_LINES[line] in message


def test_there_are_sixty_of_them() -> None:
    assert len(BAD_LINES) >= 60


def test_all_bad_lines_are_reported_together_in_order(tmp_path: Path) -> None:
    late = "1.00000005960464477539062500e400"  # decided by Python, after the others
    (tmp_path / "a.txt").write_text(f"x qid:1 1:1\n\n0 qid:1 1:{late}\n0 qid:1 1:y\n")
    (tmp_path / "b.txt").write_text("0 1:1\n")
    with pytest.raises(DataError) as caught:
        Letor().read(["a.txt", "b.txt"], tmp_path)
    places = [problem.place.removeprefix(f"{tmp_path}/") for problem in caught.value.problems]
    assert places == ["a.txt:1", "a.txt:3", "a.txt:4", "b.txt:1"]


def test_a_thousand_bad_lines_do_not_make_a_thousand_messages(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n1 1:2\n" * 500)
    (tmp_path / "b.txt").write_text("x\n" * 1000)
    with pytest.raises(DataError) as caught:
        Letor(n_features=1).read(["a.txt", "b.txt"], tmp_path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 1,980 more bad lines"


def test_a_thousand_lines_without_query_are_one_problem(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 1:0.5\n" * 1000)
    with pytest.raises(DataError) as caught:
        Letor().read(["a.txt"], tmp_path)
    assert str(caught.value).startswith(
        f"{tmp_path / 'a.txt'}:1: '1:0.5' where the query id should be (1,000 such lines, this is the first); "
        "expected qid:…"
    )


BAD_AS_A_WHOLE = [
    (b"", "the file is empty; expected rows"),
    (b"\n\n  \n", "has no rows, only blank lines or comments; expected rows"),
    (b"# nothing\n", "has no rows"),
    (
        GOOD.replace(b"\n", b"\r"),
        r"its lines end with CR alone; expected lines that end with LF or CRLF; convert them: `tr '\r' '\n' <",
    ),
    (
        gzip.compress(GOOD * 100, mtime=0)[:60],
        "the gzip file ends too early (truncated); copy or download it again",
    ),
    (gzip.compress(GOOD, mtime=0)[:10] + b"\xff" * 90, "the gzip file is damaged"),
    (gzip.compress(GOOD, mtime=0)[:-8] + b"12345678", "the gzip file is damaged (CRC check failed"),
    (gzip.compress(b"", mtime=0), "the file is empty"),
    (b"PAR1....", "is a Parquet file; expected a text file; call it .parquet, or use `reader: parquet`"),
    (b"PK\x03\x04....", "is a zip archive; expected a text file; unpack it first"),
    (zstd(GOOD * 100)[:-9], "the zstd file ends too early (truncated); copy or download it again"),
    (zstd(GOOD * 100)[:9] + b"\xff" * 90, "the zstd file is damaged"),
    (b"\x28\xb5\x2f\xfd....", "the zstd file is damaged"),
    (zstd(b""), "the file is empty"),
    (
        bz2.compress(GOOD * 100)[:-9],
        "the bzip2 file ends too early (truncated); copy or download it again",
    ),
    (bz2.compress(GOOD)[:10] + b"\xff" * 90, "the bzip2 file is damaged"),
    (b"BZh9....", "the bzip2 file is damaged"),
    (bz2.compress(b""), "the file is empty"),
    (lzma.compress(GOOD * 100)[:-9], "the xz file ends too early (truncated); copy or download it again"),
    (lzma.compress(GOOD)[:10] + b"\xff" * 90, "the xz file is damaged"),
    (lzma.compress(b""), "the file is empty"),
    (GOOD.decode().encode("utf-16"), "is UTF-16 text; expected a text file; save it as UTF-8"),
]


def test_files_that_are_bad_as_a_whole(tmp_path: Path) -> None:
    for content, message in BAD_AS_A_WHOLE:
        with named_case(message):
            file = tmp_path / "bad.txt"
            file.write_bytes(content)
            with pytest.raises(DataError) as caught:
                Letor().read(["bad.txt"], tmp_path)
            assert str(caught.value).startswith(f"{file}: {message}")


def test_one_slip_in_an_index_does_not_ask_for_all_memory(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 qid:1 1:1\n" * 2000 + "0 qid:1 999999999:1\n")
    with pytest.raises(DataError, match=r"a\.txt:2001: the largest feature index is 999,999,999: .* GB"):
        Letor().read(["a.txt"], tmp_path)


tokens = st.sampled_from(
    ["0", "1", "2.5", "-1", "nan", "qid:1", "qid:2", "qid:", "1:1", "2:0.5", "1:", ":1", "3:x", "0:1", "1:NULL",
     "#", "# docid = A", "\n", "\r\n", " ", "\t", "\x00", "é", "1e5", "1:1e-5", "99999999999:1", "1:1:1", "1:inf",
     "qid:1\0", "1:1e400", "1:1e39", "1e400", "# docid = A\0"]
)  # fmt: skip


def by_the_book(text: str) -> list[tuple[float, str, dict[int, np.float32]]] | None:
    """A second, slow reading of the grammar; None where a line is bad."""
    number = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
    parsed: list[tuple[float, str, dict[int, np.float32]]] = []
    weights: list[float | None] = []
    for line in text.split("\n"):
        row = line.split("#")[0].strip(" \t\r")
        if not row:
            continue
        label, *rest = re.split(r"[ \t\r]+", row)
        label, colon, weight = label.partition(":")
        for one, least in ((label, -np.inf), *([(weight, 0)] if colon else [])):
            if not re.fullmatch(number, one, re.ASCII) or float(one) < least or np.isinf(float(one)):
                return None
        if not rest:
            return None
        weights.append(float(weight) if colon else None)
        if not rest[0].startswith("qid:") or rest[0] == "qid:" or "\0" in rest[0]:
            return None
        comment = re.match(r"[ \t\r]*docid[ \t\r]*=[ \t\r]*([^ \t\r]*)", line.partition("#")[2])
        if comment and "\0" in comment[1]:
            return None
        values: dict[int, np.float32] = {}
        for pair in rest[1:]:
            match = re.fullmatch(rf"(\d{{1,9}}):({number}|[+-]?(?:nan|null))", pair, re.ASCII | re.IGNORECASE)
            if not match or not 1 <= int(match[1]) <= 3:
                return None
            missing = match[2].lower().strip("+-") in ("nan", "null")
            with np.errstate(over="ignore"):
                values[int(match[1])] = np.float32("nan" if missing else match[2])
            if np.isinf(values[int(match[1])]):
                return None
        parsed.append((float(label), rest[0][4:], values))
    if None in weights:
        return parsed if set(weights) == {None} else None
    return parsed if any(weights) else None


@pytest.mark.long
@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(tokens, max_size=12).flatmap(lambda parts: st.sampled_from([" ".join(parts), "".join(parts)]))
)
@example("1 qid:1 1:1\n 0 qid:1 2:0.5 # 3:x \n")
@example("1 qid:1 1:1\n 0 qid:1\0 2:0.5\n")  # the two ids were one
@example("1 qid:1 1:1e400 1:5\n")
def test_reading_agrees_with_the_grammar(tmp_path: Path, text: str) -> None:
    (tmp_path / "fuzz.txt").write_bytes(text.encode())
    expected = by_the_book(text)
    try:
        data = Letor(n_features=3, first_index=1, regroup=True).read(["fuzz.txt"], tmp_path)
    except DataError:
        assert not expected
        return
    assert expected
    order = sorted(range(len(expected)), key=lambda i: [row[1] for row in expected].index(expected[i][1]))
    assert data.labels.tolist() == [expected[i][0] for i in order]
    assert np.repeat(data.groups.ids, data.groups.sizes).astype(str).tolist() == [
        expected[i][1] for i in order
    ]
    wanted = [[expected[i][2].get(column, np.float32(0)) for column in (1, 2, 3)] for i in order]
    np.testing.assert_array_equal(data.features, wanted)


@pytest.mark.long
@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_no_bytes_crash_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fuzz.txt").write_bytes(content)
    with contextlib.suppress(DataError):
        Letor(n_features=3).read(["fuzz.txt"], tmp_path)
