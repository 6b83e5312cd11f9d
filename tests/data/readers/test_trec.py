"""TREC files: what is read, what is refused and how, and a join that gives trec_eval's numbers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.readers import trec_lines
from ltr_harness.data.readers.trec import Joined, Qrels, TrecRun, join, read_qrels, read_run
from ltr_harness.errors import DataError
from ltr_harness.metrics import bind, parse_metric
from ltr_harness.metrics.core import binding
from ltr_harness.metrics.core.binding import BoundOnce
from ltr_harness.metrics.core.cautions import cautions
from ltr_harness.metrics.evaluation import Evaluation, evaluate_bound
from tests.conftest import examples, named_case

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str | bytes, name: str = "file") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_file


def rows(table: Qrels | TrecRun) -> list[tuple[str, str, float]]:
    values = table.grades if isinstance(table, Qrels) else table.scores
    every = np.arange(values.size)
    names = zip(
        table.queries.values_at(every).tolist(), table.documents.values_at(every).tolist(), strict=True
    )
    return [(query, document, value) for (query, document), value in zip(names, values.tolist(), strict=True)]


def metrics(joined: Joined, *names: str) -> Evaluation:
    return evaluate_bound(bind(list(names), joined.judgments), joined.scores, retrieved=joined.retrieved)


# --- what is read ---


@pytest.mark.parametrize(
    "text",
    [
        "1 Q0 a 1 2.5 tag\n2 Q0 b 0 -3e-1 tag\n",
        "1 Q0 a 1 2.5 tag\n2 Q0 b 0 -3e-1 tag",
        "1\tQ0\ta\t1\t+2.5\ttag\r\n2\tQ0\tb\t0\t-.3\ttag\r\n",
        "  1  Q0 \t a 1 2.5 tag more junk at\n\n \t\n2 0 b 0 -0.3 tag end of lines\n",
        "# a comment\n1 Q0 a 1 2.50 tag\n   # another with six fields at least\n2 Q0 b 0 -0.3 tag\n",
        "\ufeff1 Q0 a 1 2.5 tag\n2 Q0 b 0 -0.3 tag\n",
    ],
)
def test_runs_with_any_white_space_comments_and_trailing_fields(write: Write, text: str) -> None:
    run = read_run(write(text))
    assert rows(run) == [("1", "a", 2.5), ("2", "b", -0.3)]
    assert run.tag == "tag"
    assert run.cautions == ()
    packed = read_run(write(gzip.compress(text.encode()), "packed"))  # told by its bytes, not by its name
    assert rows(packed) == rows(run)


def test_qrels_of_any_grade(write: Write) -> None:
    qrels = read_qrels(write("q1 0 a 2\nq2 0 a -1\n\n# no more\nq1 0 b 0\nq1 0 ü 1.0\n"))
    assert rows(qrels) == [("q1", "a", 2), ("q2", "a", -1), ("q1", "b", 0), ("q1", "ü", 1)]
    assert qrels.n_queries == 2
    assert qrels.judgments.groups.sizes.tolist() == [3, 1]
    assert qrels.judgments.labels.tolist() == [2, 0, 1, 0]
    assert qrels.judgments.judged is not None
    assert qrels.judgments.judged.tolist() == [True, True, True, False]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\r\n"])
def test_lines_end_in_every_usual_way(write: Write, end: str) -> None:
    run = read_run(write("1 Q0 a 1 3 t\n1 Q0 b 2 2 t\n\n2 Q0 a 1 1 t\n".replace("\n", end)))
    assert rows(run) == [("1", "a", 3.0), ("1", "b", 2.0), ("2", "a", 1.0)]
    qrels = read_qrels(write("1 0 a 1\n1 0 b 0".replace("\n", end)))
    assert rows(qrels) == [("1", "a", 1), ("1", "b", 0)]
    with pytest.raises(DataError, match="file:2: the grade is 'x'"):
        read_qrels(write(f"1 0 a 1{end.strip(chr(10)) or end}1 0 b x"))


def test_a_carriage_return_within_a_line_ends_it(write: Write) -> None:
    with pytest.raises(DataError, match="file:2: the line has 1 field;"):
        read_run(write("1 Q0 a 1 2 t\rmore\n1 Q0 b 2 1 t\n"))


def test_a_query_may_start_with_a_hash(write: Write) -> None:
    """trec_eval knows no comments; what cannot be a row is passed over here."""
    comments = "# judged in May\n#query iteration document grade\n#\n# 1 0 z 1\n#x\n"
    qrels = read_qrels(write(f"{comments}#1 0 a 2\n1 0 b 0\n#1 0 b 1\n"))
    assert rows(qrels) == [("#1", "a", 2), ("1", "b", 0), ("#1", "b", 1)]
    run = read_run(
        write("# query Q0 document rank score tag\n#1 Q0 a 1 2.5 t\n# 1 Q0 a 1 2.5 t\n1 Q0 b 1 1 t\n")
    )
    assert rows(run) == [("#1", "a", 2.5), ("1", "b", 1.0)]
    with pytest.raises(DataError, match="file:4: document 'a' is judged for query '#1' on line 3 already"):
        read_qrels(write("# x\n\n#1 0 a 2\n#1 0 a 1\n"))


def test_scores_are_read_to_the_last_bit(write: Write) -> None:
    texts = ["0.1", "1e308", "4.9e-324", "-0.0", "2.2250738585072011e-308", "9007199254740993", "inf", "-inf"]
    run = read_run(write("".join(f"1 Q0 d{i} 1 {text} t\n" for i, text in enumerate(texts))))
    assert run.scores.tolist() == [float(text) for text in texts]


def test_names_that_are_no_utf8_are_kept_apart(write: Write) -> None:
    run = read_run(write(b"1 Q0 \xe4 1 2 t\n1 Q0 \xf6 1 1 t\n"))
    assert len(set(run.documents.values.tolist())) == 2


def test_several_tags_are_noted_and_the_last_is_used(write: Write) -> None:
    run = read_run(write("1 Q0 a 1 2 x\n1 Q0 b 2 1 y\n"))
    assert run.tag == "y"
    assert tuple(map(str, run.cautions)) == (f"{run.path}: 2 run tags (x, y); the last line's is used",)


def test_ranks_do_not_count_but_contradictions_are_noted(write: Write) -> None:
    text = "1 Q0 a 2 9 t\n1 Q0 b 1 3 t\n2 Q0 a 1 9 t\n2 Q0 b 2 3 t\n3 Q0 a 5 1 t\n3 Q0 b 1 1 t\n"
    run = read_run(write(text))  # query 3: equal scores may be in any order
    assert tuple(map(str, run.cautions)) == (
        f"{run.path}: ranks contradict the scores in 1 of 3 queries; scores are used, higher first",
    )
    (caution,) = read_run(write("1 Q0 a - 9 t\n")).cautions
    assert "the ranks are not all numbers" in caution.text


@pytest.mark.long
@examples(100)
@given(data=st.data())
def test_lines_across_blocks_are_what_python_splits(data: Any, tmp_path_factory: Any) -> None:
    """Names, numbers and places, against `str.split` and `float`; blocks of three lines, so that names meet again."""
    name = st.text(st.sampled_from("abü#1\x01"), min_size=1, max_size=9)
    number = st.one_of(
        st.floats(allow_nan=False).map(repr),
        st.integers(-(10**20), 10**20).map(str),
        st.decimals(-100, 100, places=6).map(str),
        st.sampled_from(
            ["-0", "-0.0", "1.", ".5", "+3", "007", "1e5", "9007199254740993", "0." + "0" * 30 + "1"]
        ),
    )
    blank = st.sampled_from([" ", "\t", "  ", " \x0b"])
    expected, text = [], ""
    for i in range(data.draw(st.integers(1, 7))):
        query, score, tag = data.draw(name), data.draw(number), data.draw(name)
        gap = data.draw(blank)
        text += data.draw(st.sampled_from(["", "\n", " \r\n", "# two fields\n"]))
        text += gap.join(["q" + query, "Q0", f"{i}d" + tag, "1", score, "t" + tag]) + data.draw(
            st.sampled_from(["\n", "\r\n", "\r", " more\n"])
        )
        expected.append(("q" + query, f"{i}d" + tag, float(score)))
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trec_lines, "_BLOCK", 3)
        run = read_run(path)
        lines = trec_lines.Lines(path, "query Q0 document rank score tag", more=True)
    assert [(query, document, repr(score)) for query, document, score in rows(run)] == [
        (query, document, repr(score)) for query, document, score in expected
    ]
    numbered = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert run.documents.values.tolist() == [document for _, document, _ in expected]
    for row, (query, document, _) in enumerate(expected):
        assert lines.text(row, "document") == repr(document)
        assert numbered[lines.line(row) - 1].split()[0] == query


@pytest.mark.long
def test_very_many_names_keep_their_numbers(write: Write) -> None:
    run = read_run(write("".join(f"query{i % 10_007} Q0 d{i} 1 2 tag{i}\n" for i in range(20_000))))
    every = np.arange(20_000)
    assert run.queries.values_at(every).tolist() == [f"query{i % 10_007}" for i in range(20_000)]
    assert run.tag == "tag19999"
    with pytest.raises(
        DataError, match=r":20001: document 'd7' is listed for query 'query7' on line 8 already"
    ):
        read_run(write("".join(f"query{i % 10_007} Q0 d{i} 1 2 t\n" for i in [*range(20_000), 7])))


# --- what is refused ---


BROKEN_RUNS = [
    ("", "file: the file is empty"),
    (
        "\n# nothing\n",
        "file: has only blank lines and comments; expected lines `query Q0 document rank score tag`",
    ),
    (
        "1 Q0 a 1 2 t\n1 Q0 b 2 1\n",
        "file:2: the line has 5 fields; expected `query Q0 document rank score tag`",
    ),
    ("\n1\n", "file:2: the line has 1 field; "),
    ("1 Q0 a 1 x t\n", "file:1: the score is 'x'; expected a number"),
    ("1 Q0 a 1 nan t\n", "file:1: the score is 'nan'; expected a number"),
    ("1 Q0 a 1 1_0 t\n", "file:1: the score is '1_0'"),
    ("1 Q0 a 1 0x1p3 t\n", "file:1: the score is '0x1p3'"),
    ("1 Q0 a 1 1,5 t\n", "file:1: the score is '1,5'"),
    (
        "1 Q0 a 1 2 t\n# x\n2 Q0 a 1 2 t\n1 Q0 a 2 1 t\n",
        "file:4: document 'a' is listed for query '1' on line 1 already; expected each document once per query",
    ),
    (f"1 Q0 {'a' * 1001} 1 2 t\n", "file:1: the document is 1,001 bytes long; expected at most 1,000"),
    (b"PAR1....", "file: is a Parquet file"),
    (b"\xff\xfe1\0", "file: is UTF-16 text"),
    (gzip.compress(b"1 Q0 a 1 2 t\n" * 99, mtime=0)[:40], "file: the gzip file ends too early"),
]


def test_broken_runs_are_refused_with_file_and_line(write: Write) -> None:
    for text, said in BROKEN_RUNS:
        with named_case(said):
            with pytest.raises(DataError) as error:
                read_run(write(text))
            assert said in str(error.value)


BROKEN_QRELS = [
    ("1 0 a\n", "file:1: the line has 3 fields; expected `query iteration document grade`"),
    (
        "1 0 a 1\n1 0 b 9223372036854775808\n",
        "file:2: the grade is '9223372036854775808'; expected an integer",
    ),
    ("1 0 a 9007199254740993\n", "file:1: the grade is '9007199254740993'"),
    ("1 0 b 1\n1 0 c -1e300\n", "file:2: the grade is '-1e300'; expected an integer"),
    ("1 0 a 1 x\n", "file:1: the line has 5 fields"),
    ("1 0 a one\n", "file:1: the grade is 'one'; expected an integer"),
    ("1 0 a 0.5\n", "file:1: the grade is '0.5'; expected an integer"),
    ("1 0 a inf\n", "file:1: the grade is 'inf'"),
    ("1 0 a nan\n", "file:1: the grade is 'nan'"),
    ("1 0 a 1\n1 0 a\0 1\n", "file:2: the document is 'a\\x00'; expected text without NUL bytes"),
    ("1 0 a 1\n1 0 b 0\n1 0 a 1\n", "file:3: document 'a' is judged for query '1' on line 1 already"),
]


def test_broken_qrels_are_refused_with_file_and_line(write: Write) -> None:
    for text, said in BROKEN_QRELS:
        with named_case(said):
            with pytest.raises(DataError) as error:
                read_qrels(write(text))
            assert said in str(error.value)


def test_all_problems_come_at_once_in_the_order_of_the_lines(write: Write) -> None:
    text = "1 Q0 a 1 x t\n1 Q0 b 1 2 t\n1 Q0 b 1 1 t\n1 Q0 c 1 nan t\n"
    with pytest.raises(DataError) as error:
        read_run(write(text))
    assert [problem.place.rpartition(":")[2] for problem in error.value.problems] == ["1", "3", "4"]


def test_problems_beyond_the_first_are_counted(write: Write) -> None:
    with pytest.raises(DataError) as error:
        read_run(write("".join(f"1 Q0 d{i} 1 x t\n" for i in range(50))))
    assert len(error.value.problems) == 21
    assert "and 30 more such lines" in str(error.value)


def test_a_file_of_another_kind_is_told_in_one_line(write: Write) -> None:
    with pytest.raises(DataError) as error:
        read_run(write("0.5\n0.25\n0.125\n"))
    assert str(error.value).endswith(
        "file:1: the line has 1 field, like all 3; expected `query Q0 document rank score tag`"
    )


def test_a_missing_file_is_named_with_what_is_there(write: Write, tmp_path: Path) -> None:
    write("1 Q0 a 1 2 t\n", "good.run")
    with pytest.raises(DataError, match=r"god\.run: no such file; did you mean 'good\.run'\?"):
        read_run(tmp_path / "god.run")


# --- the two joined ---

QRELS = "1 0 a 2\n1 0 b 0\n1 0 c 1\n1 0 d -1\n2 0 x 0\n2 0 y 1\n3 0 z 1\n"
RUN = "1 Q0 new 1 9 t\n1 Q0 a 2 8 t\n1 Q0 d 3 7 t\n1 Q0 b 4 6 t\n2 Q0 y 1 1 t\n9 Q0 a 1 1 t\n"


def test_unlisted_rows_count_and_earn_nothing(write: Write) -> None:
    joined = join(read_qrels(write(QRELS, "q")), read_run(write(RUN, "r")))
    judgments = joined.judgments
    assert judgments.groups.ids.tolist() == ["1", "2"]
    assert judgments.groups.sizes.tolist() == [5, 2]
    assert judgments.document_ids is not None
    assert judgments.document_ids.tolist() == ["new", "a", "d", "b", "c", "y", "x"]
    assert judgments.labels.tolist() == [0, 2, 0, 0, 1, 1, 0]
    assert judgments.judged is not None
    assert judgments.judged.tolist() == [False, True, False, True, True, True, True]
    assert joined.retrieved.tolist() == [True] * 4 + [False, True, False]
    found = metrics(joined, "map", "recall", "ndcg(gain=linear)", "precision", "bpref", "judged", "rprec")
    at_2, ideal = 2 / np.log2(3), 2 + 1 / np.log2(3)
    assert found["map"].per_query.tolist() == [(1 / 2) / 2, 1.0]
    assert found["recall"].per_query.tolist() == [1 / 2, 1.0]
    np.testing.assert_allclose(found["ndcg(gain=linear)"].per_query, [at_2 / ideal, 1.0], rtol=1e-15)
    assert found["precision"].per_query.tolist() == [1 / 4, 1.0]
    assert found["bpref"].per_query.tolist() == [1 / 2, 1.0]  # a: no judged non-relevant document above it
    assert found["judged"].per_query.tolist() == [2 / 4, 1.0]
    assert found["rprec"].per_query.tolist() == [1 / 2, 1.0]


def test_documents_get_their_names_when_somebody_asks(write: Write) -> None:
    joined = join(read_qrels(write(QRELS, "q")), read_run(write(RUN, "r")))
    metrics(joined, "ndcg@10", "map", "mrr")
    assert "document_ids" not in vars(joined.judgments), "nobody asked"
    metrics(joined, "ndcg(ties=id)@10")
    assert "document_ids" not in vars(joined.judgments), "no documents tie"
    assert joined.judgments.take(np.array([1])).document_ids.tolist() == ["y", "x"]  # type: ignore[union-attr]


def test_what_nobody_asks_for_takes_no_memory(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_ROWS_AT_ONCE", 2)
    joined = join(read_qrels(write(QRELS, "q")), read_run(write(RUN, "r")))
    asked = [parse_metric(name) for name in ("ndcg@10", "mrr", "map", "ndcg(ties=id)@5")]
    once = BoundOnce(asked, joined.judgments)
    found = evaluate_bound(once, joined.scores, retrieved=joined.retrieved)
    cautions(asked, joined.judgments)
    assert {"labels", "document_ids"}.isdisjoint(vars(joined.judgments)), "of slices alone"
    whole = metrics(joined, *map(str, asked))
    for name in whole.metrics:
        assert found[name].per_query.tolist() == whole[name].per_query.tolist()


def test_labels_beyond_a_byte_are_kept(write: Write) -> None:
    joined = join(read_qrels(write("1 0 a 300\n1 0 b -2\n1 0 c 1\n")), read_run(write("1 Q0 a 1 2 t\n", "r")))
    assert joined.judgments.labels.tolist() == [300, 0, 1]
    assert joined.judgments.distinct_labels.tolist() == [0, 1, 300]


def test_queries_of_one_file_alone_are_left_out_and_said(write: Write) -> None:
    qrels, run = read_qrels(write(QRELS, "q")), read_run(write(RUN, "r"))
    assert tuple(map(str, join(qrels, run).cautions)) == (
        f"{run.path}: 1 of its 3 queries are not in the qrels and are left out: 9",
        f"{run.path}: 1 of the 3 queries of the qrels are not in the run and are left out "
        "(--all-queries counts them): 3",
    )
    complete = join(qrels, run, complete=True)
    assert "count with nothing listed: 3" in complete.cautions[1].text
    found = metrics(complete, "map", "mrr@10", "ndcg@5", "precision@1", "recall@3", "bpref", "rprec")
    for name in found.metrics:
        assert found[name].per_query[2] == 0.0
        assert found[name].n_undefined == 0


def test_judged_only_closes_the_ranks_up(write: Write) -> None:
    joined = join(read_qrels(write(QRELS, "q")), read_run(write(RUN, "r")), judged_only=True)
    assert metrics(joined, "mrr")["mrr"].per_query.tolist() == [1.0, 1.0]
    assert joined.retrieved.sum() == 3


def test_depth_counts_before_unjudged_documents_go(write: Write) -> None:
    qrels, run = read_qrels(write(QRELS, "q")), read_run(write(RUN, "r"))
    joined = join(qrels, run, depth=2)
    assert joined.retrieved.tolist() == [True, True, False, False, False, True, False]
    assert metrics(joined, "recall")["recall"].per_query.tolist() == [1 / 2, 1.0]
    joined = join(qrels, run, depth=2, judged_only=True)
    assert joined.retrieved.sum() == 2
    assert metrics(joined, "mrr")["mrr"].per_query.tolist() == [1.0, 1.0]
    tied = read_run(write("1 Q0 a 1 5 t\n1 Q0 c 1 5 t\n1 Q0 b 1 5 t\n", "r"))
    joined = join(qrels, tied, depth=1)
    assert joined.judgments.document_ids is not None
    assert joined.judgments.document_ids[joined.retrieved].tolist() == ["c"]


@pytest.mark.parametrize("score", ["inf", "-inf", "7"])
def test_documents_of_equal_infinite_scores_tie_as_others_do(write: Write, score: str) -> None:
    lines = [f"1 Q0 {document} {rank} {score} t\n" for document, rank in (("a", 2), ("c", 1), ("b", 3))]
    run = read_run(write("1 Q0 d 5 1 t\n" + "".join(lines) + "1 Q0 e 4 2 t\n", "r"))  # not by score
    assert any("ranks contradict" in note for note in map(str, run.cautions)) == (score == "-inf")
    depth = 3 if score == "-inf" else 1  # d and e stand above -inf
    joined = join(read_qrels(write(QRELS, "q")), run, depth=depth)
    assert joined.judgments.document_ids is not None
    listed = joined.judgments.document_ids[joined.retrieved].tolist()
    assert sorted(listed) == ["c", "d", "e"][: None if depth == 3 else 1]


def test_no_shared_query_is_an_error(write: Write) -> None:
    with pytest.raises(
        DataError, match=r"has no query of .*q: its queries are 001, those of the qrels 1, 2, 3"
    ):
        join(read_qrels(write(QRELS, "q")), read_run(write("001 Q0 a 1 1 t\n", "r")))


def test_a_score_of_minus_infinity_is_listed_last_and_still_listed(write: Write) -> None:
    qrels = read_qrels(write("1 0 a 0\n1 0 b 1\n1 0 c 1\n", "q"))
    joined = join(qrels, read_run(write("1 Q0 b 1 -inf t\n1 Q0 a 1 -1e308 t\n", "r")))
    found = metrics(joined, "mrr", "map")
    assert found["mrr"].per_query.tolist() == [1 / 2]
    assert found["map"].per_query.tolist() == [1 / 4]


def test_rows_keep_the_order_of_the_run_for_stable_ties(write: Write) -> None:
    qrels = read_qrels(write("1 0 a 1\n1 0 b 0\n", "q"))
    for order, value in (("ab", 1.0), ("ba", 1 / 2)):
        run = read_run(write("".join(f"1 Q0 {name} 1 5 t\n" for name in order), "r"))
        assert metrics(join(qrels, run), "mrr(ties=stable)")["mrr(ties=stable)"].mean == value


def test_ties_fall_by_document_id_descending_as_in_trec_eval(write: Write) -> None:
    qrels = read_qrels(write("1 0 Z 1\n1 0 a 0\n1 0 ä 0\n", "q"))
    run = read_run(write("1 Q0 Z 1 5 t\n1 Q0 a 1 5 t\n1 Q0 ä 1 5 t\n", "r"))
    assert metrics(join(qrels, run), "mrr(ties=id)")["mrr(ties=id)"].mean == 1 / 3  # strcmp: ä > a > Z


def test_scattered_and_shuffled_lines_change_nothing(write: Write) -> None:
    lines, judged = RUN.splitlines(), QRELS.splitlines()
    names = ["map(ties=id)", "ndcg(ties=id)", "bpref(ties=id)"]
    expected = metrics(join(read_qrels(write(QRELS, "q")), read_run(write(RUN, "r"))), *names).means
    rng = np.random.default_rng(0)
    for _ in range(5):
        qrels = read_qrels(write("\n".join(rng.permutation(judged)), "q"))
        run = read_run(write("\n".join(rng.permutation(lines)), "r"))
        assert metrics(join(qrels, run), *names).means == expected


# --- against trec_eval itself ---

MEASURES = {
    "map": "map(as=trec_eval)",
    "Rprec": "rprec(as=trec_eval)",
    "bpref": "bpref(as=trec_eval)",
    "recip_rank": "mrr(as=trec_eval)",
    "P_5": "precision(as=trec_eval)@5",
    "recall_5": "recall(as=trec_eval)@5",
    "ndcg": "ndcg(as=trec_eval)",
    "ndcg_cut_5": "ndcg(as=trec_eval)@5",
    "map_cut_5": "map(as=trec_eval)@5",
    "success_5": "success(as=trec_eval)@5",
    "set_P": "precision(as=trec_eval)",
    "set_recall": "recall(as=trec_eval)",
    "set_F": "f1(as=trec_eval)",
}
_DOCUMENTS = st.sampled_from([f"d{i}" for i in range(12)])
_QRELS = st.dictionaries(
    st.sampled_from("123"),
    st.dictionaries(_DOCUMENTS, st.integers(-1, 3), min_size=1, max_size=10),
    min_size=1,
).filter(lambda qrels: all(max(grades.values()) >= 0 for grades in qrels.values()))
_RUN = st.dictionaries(
    st.sampled_from("1234"),
    st.dictionaries(_DOCUMENTS, st.sampled_from([-2.0, 0.0, 0.5, 1e9, 0.1]), min_size=1, max_size=10),
    min_size=1,
)


@pytest.mark.long
@examples(150)
@given(qrels=_QRELS, run=_RUN)
def test_any_join_gives_trec_evals_numbers(tmp_path_factory: Any, qrels: Any, run: Any) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs the extra `oracles`")
    if not qrels.keys() & run.keys():
        return
    folder = tmp_path_factory.mktemp("trec")
    (folder / "q").write_text("".join(f"{q} 0 {d} {g}\n" for q, ds in qrels.items() for d, g in ds.items()))
    (folder / "r").write_text(
        "".join(f"{q} Q0 {d} 0 {s} t\n" for q, ds in run.items() for d, s in ds.items())
    )
    found = metrics(join(read_qrels(folder / "q"), read_run(folder / "r")), *MEASURES.values())
    expected = pytrec_eval.RelevanceEvaluator(
        qrels,
        {
            "map",
            "Rprec",
            "bpref",
            "recip_rank",
            "P.5",
            "recall.5",
            "ndcg",
            "ndcg_cut.5",
            "map_cut.5",
            "success.5",
            "set_P",
            "set_recall",
            "set_F",
        },
    ).evaluate(run)
    assert set(found.query_ids.tolist()) == expected.keys()
    for at, query in enumerate(found.query_ids.tolist()):
        for name, ours in MEASURES.items():
            assert found[ours].per_query[at] == pytest.approx(expected[query][name], abs=1e-12), (query, name)


@pytest.mark.long
def test_official_values_of_the_robust_track(shared_data: Path) -> None:
    folder = shared_data / "reference" / "robust03"
    official = {
        name: (float(average), float(precision))
        for name, average, precision in (
            line.split("\t") for line in (folder / "official_map_rprec.tsv").read_text().splitlines()[1:]
        )
    }
    qrels = read_qrels(folder / "robust03_qrels.txt")
    for run in ("NLPR03vb10", "uic0301", "aplrob03a", "UIUC03Rd1"):
        joined = join(qrels, read_run(folder / f"input.{run}.gz"))
        found = metrics(joined, "map(as=trec_eval)", "rprec(as=trec_eval)")
        assert tuple(round(found[name].mean, 4) for name in found.metrics) == official[run]
        assert found["map(as=trec_eval)"].n_queries == 100


@pytest.mark.slow
def test_a_run_of_100_000_lines_is_read_in_a_fraction_of_a_second(write: Write) -> None:
    import time

    text = "".join(
        f"{i // 1000}\tQ0\tclueweb12-{i:08d}\t{i % 1000}\t{1e4 - i / 7}\tmine\n" for i in range(100_000)
    )
    path = write(text)
    read_run(path)
    began = time.perf_counter()
    read_run(path)
    assert time.perf_counter() - began < 1.0
