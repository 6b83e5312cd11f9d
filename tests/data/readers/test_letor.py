"""LETOR text in, exact values out: real files, hand-made rows, round trips."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import random
import struct
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from ltr_harness._util import files as compressed_files
from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset
from ltr_harness.data.readers import letor as svmlight_chunks
from ltr_harness.data.readers import svmlight_kernels as kernels
from ltr_harness.data.readers import text_files as files
from ltr_harness.data.readers.letor import Letor
from ltr_harness.errors import Caution, DataError
from tests.conftest import examples, named_case


def read_texts(folder: Path, *texts: str | bytes, reader: Letor | None = None) -> RankingDataset:
    names = []
    for number, text in enumerate(texts):
        names.append(f"{number}.txt")
        (folder / names[-1]).write_bytes(text.encode() if isinstance(text, str) else text)
    return (reader or Letor()).read(names, folder)


def bits(values: object) -> list[int]:
    return np.asarray(values, dtype=np.float32).view(np.uint32).ravel().tolist()


# --- real data -----------------------------------------------------------------------------------------------


def test_mq2008_has_the_published_counts(shared_data: Path) -> None:
    data = Letor().read([f"S{i}.txt" for i in range(1, 6)], shared_data / "mq2008")
    assert (data.n_queries, data.n_rows, data.n_features) == (784, 15_211, 46)
    assert np.bincount(data.labels.astype(int)).tolist() == [12_279, 2_001, 931]
    assert data.groups.sizes.min() == 5
    assert data.groups.sizes.max() == 121
    assert np.median(data.groups.sizes) == 8
    assert np.sum(np.maximum.reduceat(data.labels, data.groups.boundaries[:-1]) == 0) == 220
    assert data.groups.ids.dtype == np.int64
    assert data.groups.ids[0] == 10002
    assert data.judgments.document_ids is not None
    assert data.judgments.document_ids[0] == "GX008-86-4444840"
    assert data.feature_names[0] == "1"
    assert data.cautions == ()


@pytest.mark.long
@pytest.mark.parametrize(
    "file",
    [
        "mq2008/S3.txt",
        "mslr_sample/test.txt",
        "clueweb09/Fold2.test.txt",
        "fastrank_trec_news/trec_news_2018.train",
        "fastrank_trec_news/trec_news_2018.test",
    ],
)
def test_values_are_those_of_scikit_learn(shared_data: Path, file: str, tmp_path: Path) -> None:
    with open(shared_data / file) as whole:
        (tmp_path / "rows.txt").write_text("".join(islice(whole, 500)))
    ours = Letor().read(["rows.txt"], tmp_path)
    features, labels, ids = load_svmlight_file(
        str(tmp_path / "rows.txt"), query_id=True, n_features=ours.n_features
    )
    np.testing.assert_array_equal(ours.features, features.toarray().astype(np.float32))
    np.testing.assert_array_equal(ours.labels, labels)
    np.testing.assert_array_equal(np.repeat(ours.groups.ids, ours.groups.sizes), ids)


def test_unsorted_and_repeated_features_of_tf_ranking(shared_data: Path) -> None:
    folder = shared_data / "tf_ranking_examples"
    data = Letor(n_features=136).read(["train.txt"], folder)
    lines = (folder / "train.txt").read_text().splitlines()
    expected = np.zeros((len(lines), 136), dtype=np.float32)
    repeats = 0
    for row, line in enumerate(lines):
        pairs = [pair.split(":") for pair in line.split("#")[0].split()[2:]]
        repeats += len({index for index, _ in pairs}) < len(pairs)
        for index, value in pairs:
            expected[row, int(index) - 1] = float(value)
    np.testing.assert_array_equal(data.features, expected)
    assert repeats > 0
    assert tuple(map(str, data.cautions)) == (
        f"{repeats} rows of train.txt give a feature more than once (first in line 1); the last value counts",
    )
    assert data.n_queries == 27


# --- the grammar, by hand ------------------------------------------------------------------------------------


def test_every_way_to_write_a_row(tmp_path: Path) -> None:
    text = (
        b"\xef\xbb\xbf# a comment line\r\n"
        b"2 qid:10 1:0.5 3:1e-3 # docid = A inc = 1\r\n"
        b"\r\n"
        b"   \t \n"
        b"0 qid:10\t2:.5  3:5. #docid = B\n"
        b"  1.5   qid:11 3:-1E+2 1:+7\t\n"
        b"+0 qid:11 1:NULL 2:nan 3:-0 #docid=C"
    )
    data = read_texts(tmp_path, text)
    nan = float("nan")
    expected = [[0.5, 0, 1e-3], [0, 0.5, 5], [7, 0, -100], [nan, nan, -0.0]]
    assert bits(data.features) == bits(expected)
    assert data.labels.tolist() == [2, 0, 1.5, 0]
    assert data.groups.ids.tolist() == [10, 11]
    assert data.groups.sizes.tolist() == [2, 2]
    assert data.judgments.document_ids is None
    assert data.cautions == (
        Caution("ignored-document-ids", "note", "document ids are ignored: only 3 of 4 rows have one"),
    )


def test_other_comments_are_no_document_ids(tmp_path: Path) -> None:
    data = read_texts(tmp_path, "1 qid:1 1:1#docid = A\n0 qid:1 1:1 # document 7\n0 qid:1 1:1 # docid\n")
    assert data.cautions == (
        Caution("ignored-document-ids", "note", "document ids are ignored: only 1 of 3 rows have one"),
    )


def test_document_ids_need_not_be_ascii(tmp_path: Path) -> None:
    data = read_texts(tmp_path, "1 qid:ü 1:1 #docid = straße\n0 qid:ü 1:1 #docid = x\n")
    assert data.judgments.document_ids is not None
    assert data.judgments.document_ids.tolist() == ["straße", "x"]
    assert data.groups.ids.tolist() == ["ü"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["1", "-7", "9223372036854775807"], [1, -7, 2**63 - 1]),
        (["1", "9223372036854775808"], ["1", "9223372036854775808"]),
        (["7", "007"], ["7", "007"]),
        (["1", "q2"], ["1", "q2"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["-0", "0"], ["-0", "0"]),
        (["1_0", "10"], ["1_0", "10"]),
    ],
)
def test_query_ids_are_integers_only_where_nothing_is_lost(
    tmp_path: Path, ids: list[str], expected: list[object]
) -> None:
    data = read_texts(tmp_path, "".join(f"0 qid:{text} 1:1\n" for text in ids))
    assert data.groups.ids.tolist() == expected


def test_feature_ids_are_the_files_own(tmp_path: Path) -> None:
    one, zero = "0 qid:1 1:5 3:7\n", "0 qid:1 0:4 2:6\n"
    assert read_texts(tmp_path, one).feature_names == ("1", "2", "3")
    assert read_texts(tmp_path, one).features.tolist() == [[5, 0, 7]]
    assert read_texts(tmp_path, zero).feature_names == ("0", "1", "2")
    assert read_texts(tmp_path, zero).features.tolist() == [[4, 0, 6]]
    data = read_texts(tmp_path, one, reader=Letor(first_index=0))
    assert data.feature_names == ("0", "1", "2", "3")
    data = read_texts(tmp_path, one, reader=Letor(n_features=5))
    assert data.features.tolist() == [[5, 0, 7, 0, 0]]
    # An index 0 in one file counts for the whole split.
    data = read_texts(tmp_path, one, zero.replace("qid:1", "qid:2"))
    assert data.feature_names == ("0", "1", "2", "3")
    assert data.features.tolist() == [[0, 5, 0, 7], [4, 0, 6, 0]]


def test_files_of_a_split_follow_one_another(tmp_path: Path) -> None:
    data = read_texts(tmp_path, "1 qid:1 1:1\n", "2 qid:2 2:1\n0 qid:2 1:3", "0 qid:3 1:4\n")
    assert data.labels.tolist() == [1, 2, 0, 0]
    assert data.features.tolist() == [[1, 0], [0, 1], [3, 0], [4, 0]]
    assert data.source == "0.txt, 1.txt, 2.txt"


def test_gzip_is_recognised_by_content(tmp_path: Path) -> None:
    text = "1 qid:1 1:0.25\n0 qid:1 1:0.5\n"
    assert read_texts(tmp_path, gzip.compress(text.encode())).features.tolist() == [[0.25], [0.5]]


# --- queries in pieces ---------------------------------------------------------------------------------------

SCATTERED = "1 qid:5 1:1\n0 qid:6 1:2\n2 qid:5 1:3\n0 qid:6 1:4\n0 qid:7 1:5\n"


def test_scattered_queries_are_an_error_with_both_places(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_texts(tmp_path, SCATTERED)
    [problem] = caught.value.problems  # one sentence, however many queries
    file = tmp_path / "0.txt"
    assert str(problem) == (
        f"{file}:3: query '5' is not contiguous; its first row is at {file}:1 (2 of 3 queries are scattered); "
        "expected all rows of a query together; sort the rows by query, or set `regroup: true`"
    )


def test_scattered_queries_are_regrouped_on_request(tmp_path: Path) -> None:
    data = read_texts(tmp_path, SCATTERED, reader=Letor(regroup=True))
    assert data.groups.ids.tolist() == [5, 6, 7]
    assert data.groups.sizes.tolist() == [2, 2, 1]
    assert data.features[:, 0].tolist() == [1, 3, 2, 4, 5]
    assert data.labels.tolist() == [1, 2, 0, 0, 0]
    assert data.cautions == (
        Caution(
            "regrouped-rows", "note", "2 of 3 queries were scattered and have been regrouped (regroup: true)"
        ),
    )


def test_a_query_in_two_files_is_scattered_even_if_adjacent(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"1\.txt:2: query '5' is not contiguous.* is at .*0\.txt:1"):
        read_texts(tmp_path, "1 qid:5 1:1\n", "# comment\n0 qid:5 1:2\n")
    data = read_texts(tmp_path, "1 qid:5 1:1\n", "0 qid:5 1:2\n", reader=Letor(regroup=True))
    assert data.groups.sizes.tolist() == [2]


# --- numbers -------------------------------------------------------------------------------------------------


def check_exact(texts: list[str], folder: Path) -> None:
    """Each text, as a feature and (if it may be) as a label, is what Python's float makes of it."""
    with np.errstate(over="ignore", under="ignore"):
        wanted = [np.float32(float(text)) for text in texts]
    data = read_texts(folder, "".join(f"0 qid:1 1:{text}\n" for text in texts))
    wrong = [
        (text, value)
        for text, value, right in zip(texts, data.features[:, 0], wanted, strict=True)
        if bits(value) != bits(right)
    ]
    assert wrong == []
    labels = [text for text in texts if float(text) >= 0]
    if labels:
        data = read_texts(folder, "".join(f"{text} qid:1 1:0\n" for text in labels))
        assert data.labels.tolist() == [float(text) for text in labels]


def test_hard_numbers(tmp_path: Path) -> None:
    middle = 1 + 2.0**-24  # halfway between two float32: ties to even
    texts = [
        "0.1", "123456789012345678901234567890", "1e22", "1e23", "9007199254740993", "9007199254740992",
        "5e-324", "1e-45", "7e-46", "1e-400", "0e999999999", "-0.0", "1.401298464324817e-45",
        "3.4028234663852886e38", "3.4028235677973364e38", "1e-310", "0.000000000000000000000000000000001",
        "100000000000000000000000000000000000000", "8.5899973e9", f"{middle:.60f}",
        f"{middle:.60f}1", "1.00000005960464477539062499999999", "16777217", "16777219", "33554435",
        "2.2250738585072011e-308", "1" + "0" * 30 + "e-30", "0." + "0" * 400 + "1e400", "00000000000000000001",
    ]  # fmt: skip
    check_exact(texts, tmp_path)


def test_a_hard_number_that_a_later_one_replaces(tmp_path: Path) -> None:
    middle = f"{1 + 2.0**-24:.60f}"
    data = read_texts(tmp_path, f"0 qid:1 1:{middle} 2:{middle} 1:5\n0 qid:1 1:5 1:{middle}\n")
    assert data.features.tolist() == [[5, 1], [1, 0]]
    # in its own row alone: of the two float32 beside this one, the loop's guess is not the even one
    middle = "117.3644447326660156250000000000000000"
    data = read_texts(tmp_path, f"0 qid:1 1:{middle}\n0 qid:1 1:5 1:6\n")
    assert data.features.tolist() == [[float(np.float32(float(middle)))], [6]]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_random_numbers(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    texts = []
    for _ in range(1500):
        single = struct.unpack("f", struct.pack("I", draw.getrandbits(31) % 0x7F800000))[0]
        double = abs(single) * draw.random()
        # The double halfway between two neighbours, and just beside it: where double rounding would show.
        halfway = (float(np.float32(single)) + float(np.nextafter(np.float32(single), np.float32(1)))) / 2
        sign = draw.choice(["", "-", "+"])
        texts += [
            sign + repr(single),
            sign + repr(double),
            f"{double:.{draw.randrange(25)}e}",
            f"{draw.uniform(0, 1000):.{draw.randrange(20)}f}",
            repr(halfway),
            repr(float(np.nextafter(halfway, 1))),
        ]
    check_exact(texts, tmp_path)


# --- round trip ----------------------------------------------------------------------------------------------

values = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False), st.just(float("nan")), st.just(None)
)
rows = st.lists(
    st.tuples(st.floats(0, 1e6, allow_nan=False), st.lists(values, min_size=3, max_size=3)),
    min_size=1,
    max_size=4,
)


@pytest.mark.long
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(queries=st.lists(rows, min_size=1, max_size=4), data=st.data())
def test_what_is_written_is_read(
    tmp_path: Path, queries: list[list[tuple[float, list[float | None]]]], data: st.DataObject
) -> None:
    lines, features, labels = [], [], []
    for number, query in enumerate(queries):
        for label, row in query:
            pairs = [
                f"{index + 1}:{'NULL' if value != value else repr(value)}"
                for index, value in enumerate(row)
                if value is not None
            ]
            pairs = data.draw(st.permutations(pairs))
            end = data.draw(st.sampled_from(["\n", "\r\n", " \n", " # comment 1:2\n", "\n\n"]))
            lines.append(" ".join([repr(label), f"qid:q{number}", *pairs]) + end)
            features.append([0.0 if value is None else value for value in row])
            labels.append(label)
    read_back = read_texts(tmp_path, "".join(lines), reader=Letor(n_features=3))
    np.testing.assert_array_equal(read_back.features, np.array(features, dtype=np.float32))
    assert read_back.labels.tolist() == labels
    assert read_back.groups.sizes.tolist() == [len(query) for query in queries]


# --- pieces, threads, archives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 40, 1000])
def test_cutting_a_file_into_pieces_changes_nothing(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    files = ["tf_ranking_examples/train.txt", "fastrank_trec_news/trec_news_2018.test"]
    reader = Letor(n_features=136)
    whole = reader.read(files, shared_data)
    monkeypatch.setattr(svmlight_chunks, "CHUNK", size)
    pieces = reader.read(files, shared_data)
    assert fingerprint_dataset(pieces) == fingerprint_dataset(whole)
    assert pieces.cautions == whole.cautions
    assert any("give a feature more than once (first in line " in note for note in map(str, pieces.cautions))


def test_lines_are_counted_across_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight_chunks, "CHUNK", 30)
    text = (
        "\ufeff# head\n\n"
        + "1 qid:1 1:1 # x\r\n\n" * 10
        + "1 qid:1 1:1\n1 qid:1 1:y\n1 qid:1 1:1.00000005960464477539062500e400"
    )
    with pytest.raises(DataError) as caught:
        read_texts(tmp_path, text)
    assert [problem.place for problem in caught.value.problems] == [
        f"{tmp_path}/0.txt:{line}" for line in (24, 25)
    ]
    scattered = "1 qid:1 1:1\n" * 5 + "\n" + "1 qid:2 1:1\n" * 5 + "1 qid:1 1:1\n"
    with pytest.raises(DataError, match=r"0\.txt:12: query '1' is not contiguous; .*0\.txt:1;"):
        read_texts(tmp_path, scattered)


@pytest.mark.parametrize(
    "pack",
    [
        gzip.compress,
        bz2.compress,
        lzma.compress,
        lambda text: bytes(pyarrow.compress(text, "zstd", asbytes=True)),
    ],
)
@pytest.mark.parametrize("in_memory", [1 << 30, 100])
def test_archives_large_and_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes], in_memory: int
) -> None:
    monkeypatch.setattr(files, "_IN_MEMORY", in_memory)
    monkeypatch.setattr(compressed_files, "_BLOCK", 64)
    text = b"".join(b"%d qid:%d 1:%d\n" % (i % 3, i // 10, i) for i in range(500))
    plain, unpacked = read_texts(tmp_path, text), read_texts(tmp_path, pack(text))
    assert fingerprint_dataset(unpacked) == fingerprint_dataset(plain)
    twice = read_texts(tmp_path, pack(text) + pack(text.replace(b"qid:", b"qid:9")))
    assert twice.n_rows == 1000, "archives may be written one after the other"


@pytest.mark.parametrize(
    ("text", "first", "n"),
    [
        ("0 qid:1 1:1 9:2 3:1\n", "1", 9),  # the largest index stands between others
        ("0 qid:1 2:1 0:5 3:1\n", "0", 4),  # so does a zero
        ("0 qid:1 9:1 1:5\n1 qid:1 2:1 7:1 4:1\n", "1", 9),
        ("0 qid:1 1:1 # a:9 12:1\n", "1", 1),
        ("0 qid:1\n1 qid:1 5:1\n", "1", 5),
    ],
)
def test_indices_in_any_order_make_the_columns(tmp_path: Path, text: str, first: str, n: int) -> None:
    data = read_texts(tmp_path, text)
    assert (data.feature_names[0], data.n_features) == (first, n)


def test_a_mistyped_index_within_a_row_has_its_place(tmp_path: Path) -> None:
    rows = "0 qid:1 1:1 2:1\n" * 3
    with pytest.raises(DataError, match=r"0\.txt:4: the largest feature index is 999,999,999"):
        read_texts(tmp_path, f"{rows}0 qid:1 1:1 999999999:1 3:1\n" + "0 qid:1 1:1\n" * 300)


ENDS_OF_ROWS = ["\n", " \r\n", "\t\n", " # docid = G:7 33:1\n", "#x\n", "\n\n \n# 1:1 77:2\n"]


def test_a_glance_sees_what_a_survey_does_where_indices_ascend() -> None:
    widths = (0, 1, 2, 5, 8, 9, 10, 30)  # rows shorter and longer than a vector
    for end, qid in itertools.product(ENDS_OF_ROWS, ["", "qid:12 "]):
        with named_case((end, qid)):
            rows = ["\t2 " + qid + " ".join(f"{3 * i + 2}:-{i}.5" for i in range(width)) for width in widths]
            for text in ("".join(row + end for row in rows), end.join(rows), end + rows[5]):
                data = np.frombuffer(text.encode(), dtype=np.uint8)
                assert kernels.survey(data, False) == kernels.survey(data, True)
