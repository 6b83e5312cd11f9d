"""alpha-NDCG and ERR-IA: ndeval's numbers, arithmetic by hand, all orders of small lists; and qrels with subtopics."""

from __future__ import annotations

import itertools
import math
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import evaluate, evaluate_runs, run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.cache import Fingerprints, open_entry, write_entry
from ltr_harness.data.dataset import fingerprint_judgments
from ltr_harness.data.judgments import Judgments, Subtopics
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.memory import from_arrays, from_frame
from ltr_harness.data.readers.trec import join, read_qrels, read_run
from ltr_harness.errors import DataError, MetricError
from ltr_harness.metrics import ERRIA, AlphaNDCG, bind
from tests.conftest import examples

BOTH = ["alpha_ndcg", "err_ia(max_grade=1)"]


def value(metric: str, subtopics: list[list[float]], scores: list[float] | None = None) -> float:
    n = len(subtopics)
    labels = np.max(subtopics, axis=1)
    ranked = np.arange(n, 0, -1.0) if scores is None else scores
    evaluation = evaluate(labels, ranked, group_sizes=[n], metrics=[metric], subtopics=subtopics)
    return float(evaluation[metric].per_query[0])


# ---- by hand


def test_alpha_ndcg_of_a_list_that_repeats_itself() -> None:
    log3 = math.log2(3)
    apart = [[1, 0], [1, 0], [0, 1]]
    gained = 1 + 0.5 / log3 + 1 / 2  # a subtopic again: half; another one at rank 3
    ideal = 1 + 1 / log3 + 0.5 / 2
    assert value("alpha_ndcg", apart) == pytest.approx(gained / ideal, abs=1e-15)
    assert value("alpha_ndcg@2", apart) == pytest.approx((1 + 0.5 / log3) / (1 + 1 / log3), abs=1e-15)
    assert value("alpha_ndcg(alpha=1)", apart) == pytest.approx(1.5 / (1 + 1 / log3), abs=1e-15)
    assert value("alpha_ndcg", [apart[0], apart[2], apart[1]]) == 1.0
    assert value("alpha_ndcg(discount=1_0.5_0.25)", apart) == pytest.approx(1.5 / 1.625, abs=1e-15)


def test_err_ia_is_the_mean_of_err_over_subtopics() -> None:
    graded = [[2, 0, 0], [0, 1, 0], [1, 2, 0]]  # nothing is relevant for the third, so it is none
    first = 3 / 4 + 1 / 3 * (1 / 4) * (1 / 4)  # R(2) = 3/4, R(1) = 1/4
    second = 1 / 2 * 1 / 4 + 1 / 3 * 3 / 4 * 3 / 4
    assert value("err_ia(max_grade=2)", graded) == pytest.approx((first + second) / 2, abs=1e-15)
    assert value("err_ia(relevant=1)@2", graded) == pytest.approx((1 / 2 + 1 / 2 * 1 / 2) / 2, abs=1e-15)
    # the best two ranks could do: 1/2 + 1/2 1/2 1/2
    assert value("err_ia(relevant=1,normalized=true)@2", graded) == pytest.approx(0.375 / 0.625, abs=1e-15)
    # without a cutoff: sum of 2^-r / r = log 2
    assert value("err_ia(relevant=1,normalized=true)", [[1]]) == pytest.approx(0.5 / math.log(2), abs=1e-15)


def test_one_subtopic_is_the_metric_without() -> None:
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 3, 60).astype(float), rng.integers(0, 8, 60).astype(float)
    names = ["err(max_grade=2)@5", "err_ia(max_grade=2)@5", "ndcg(gain=0_1_1)@5", "alpha_ndcg@5"]
    whole = evaluate(labels, scores, group_sizes=[6] * 10, metrics=names, subtopics=labels[:, np.newaxis])
    np.testing.assert_allclose(whole[names[1]].per_query, whole[names[0]].per_query, atol=1e-15)
    # a subtopic for each document: nothing is ever said again
    own = labels[:, np.newaxis] * np.tile(np.eye(6), (10, 1))
    apart = evaluate(labels, scores, group_sizes=[6] * 10, metrics=names, subtopics=own)
    np.testing.assert_allclose(apart[names[3]].per_query, apart[names[2]].per_query, atol=1e-15)


# ---- all orders


@pytest.mark.long
@examples(40)
@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=n, max_size=n)
    ),
    st.sampled_from([0.3, 0.5, 1.0]),
)
def test_the_ideal_is_greedy_and_never_far_from_the_best_of_all_orders(
    rows: list[list[int]], alpha: float
) -> None:
    subtopics = np.array(rows)
    n = len(subtopics)

    def gain_of(order: tuple[int, ...]) -> float:
        again = np.cumsum(subtopics[list(order)], axis=0) - subtopics[list(order)]
        gains = (subtopics[list(order)] * (1 - alpha) ** again).sum(axis=1)
        return float((gains / np.log2(np.arange(2, n + 2))).sum())

    orders = list(itertools.permutations(range(n)))
    sums = np.array([gain_of(order) for order in orders])
    lists = np.concatenate([subtopics[list(order)] for order in orders])
    scores = np.tile(np.arange(n, 0, -1.0), len(orders))
    metric = f"alpha_ndcg(alpha={alpha})"
    measured = evaluate(
        lists.max(axis=1), scores, group_sizes=[n] * len(orders), metrics=[metric], subtopics=lists
    )[metric].per_query
    if not subtopics.any():
        assert np.isnan(measured).all()
        return
    ideal = sums[0] / measured[0] if measured[0] else sums.max()
    np.testing.assert_allclose(measured * ideal, sums, atol=1e-12)
    assert ideal <= sums.max() + 1e-12
    assert measured.max() <= AlphaNDCG.bounds[1]


def test_a_ranking_can_beat_the_greedy_ideal() -> None:
    """The broadest document first leaves pairs that only overlap with it."""
    broad = [1, 1, 1, 1, 0, 0]
    left, right = [1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 1]
    assert value("alpha_ndcg(alpha=1)@2", [broad, left, right]) == 1.0
    assert value("alpha_ndcg(alpha=1,discount=1_1)@2", [left, right, broad]) == pytest.approx(
        6 / 5, abs=1e-15
    )


# ---- ndeval


@pytest.mark.parametrize("relevant", [1, 2])
def test_ndeval(relevant: int) -> None:
    """Without ties: those, pyndeval breaks by ascending ids, where ndeval -traditional descends."""
    pyndeval = pytest.importorskip("pyndeval", reason="needs pyndeval (the extra `oracles`)")
    rng = np.random.default_rng(relevant)
    names = {
        f"{theirs}@{k}": f"{ours}(as=ndeval,relevant={relevant})@{k}"
        for k in (5, 10, 20)
        for theirs, ours in (("alpha-nDCG", "alpha_ndcg"), ("ERR-IA", "err_ia"))
    }
    sizes = rng.integers(2, 30, 60)
    queries = np.repeat(np.arange(60).astype(str), sizes)
    documents = np.array([f"d{row:04d}" for row in rng.permutation(queries.size)])
    grades = (rng.random((queries.size, 5)) < 0.2) * rng.integers(1, 4, (queries.size, 5))
    scores = rng.permutation(queries.size).astype(float)
    qrels = [
        pyndeval.SubtopicQrel(queries[row], str(column), documents[row], int(grades[row, column]))
        for row, column in np.ndindex(*grades.shape)
    ]
    run = [pyndeval.ScoredDoc(*row) for row in zip(queries, documents, scores.tolist(), strict=True)]
    found = pyndeval.RelevanceEvaluator(qrels, list(names), relevance_level=relevant).evaluate(run)
    ours = evaluate(
        grades.max(axis=1),
        scores,
        query_ids=queries,
        document_ids=documents,
        metrics=list(names.values()),
        subtopics=grades,
    )
    for theirs, metric in names.items():
        expected = [found[query][theirs] for query in ours.query_ids.tolist()]
        np.testing.assert_allclose(ours[metric].per_query, expected, rtol=0, atol=1e-12, err_msg=metric)


# ---- qrels

QRELS = """\
1 1 a 1
1 2 a 0
1 2 b 2
1 10 b 1
1 4 c 1
2 1 x 1
2 0 y 0
3 7 z -1
"""
RUN = "1 Q0 a 1 9 t\n1 Q0 b 2 8 t\n1 Q0 e 3 7 t\n2 Q0 y 1 2 t\n2 Q0 x 2 1 t\n3 Q0 z 1 1 t\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    qrels, run = tmp_path / "qrels", tmp_path / "run"
    qrels.write_text(QRELS)
    run.write_text(RUN)
    return qrels, run


def test_the_second_column_is_the_subtopic(files: tuple[Path, Path]) -> None:
    qrels = read_qrels(files[0])
    every = np.arange(qrels.grades.size)
    assert qrels.documents.values_at(every).tolist() == ["a", "b", "c", "x", "y", "z"]
    assert qrels.grades.tolist() == [1, 2, 1, 1, 0, -1]  # a document's highest
    assert qrels.subtopics is not None
    # query 1 has the subtopics 1, 10, 2, 4, numbered from 0; query 2 has one
    assert qrels.subtopics.labels(6).tolist() == [
        [1, 0, 0, 1, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [0, 2, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
    ]
    assert "2 documents with judgments for several subtopics" in qrels.cautions[0].text
    assert qrels.judgments.judged is not None
    assert qrels.judgments.judged.tolist() == [True] * 5 + [False]


def test_runs_beside_qrels_with_subtopics(files: tuple[Path, Path]) -> None:
    with pytest.raises(MetricError, match="label 2 in query '1' is above max_grade"):
        evaluate_runs(files[0], files[1], BOTH)
    names = ["alpha_ndcg", "err_ia(relevant=1)", "recall@5"]
    evaluation = evaluate_runs(files[0], files[1], names)["t"]
    log3 = math.log2(3)
    # 1: one subtopic, then two others; ideal: b, then a and c, which the run lacks. 2: at rank 2. 3: none
    np.testing.assert_allclose(
        evaluation["alpha_ndcg"].per_query, [(1 + 2 / log3) / (2 + 1 / log3 + 1 / 2), 1 / log3, np.nan]
    )
    np.testing.assert_allclose(
        evaluation[names[1]].per_query, [(1 / 2 + 2 * 1 / 2 * 1 / 2) / 4, 1 / 2 * 1 / 2, np.nan]
    )
    np.testing.assert_allclose(evaluation["recall@5"].per_query, [2 / 3, 1, np.nan])


def test_tables_and_named_tuples_of_judgments_by_subtopic(files: tuple[Path, Path], tmp_path: Path) -> None:
    lines = [line.split() for line in QRELS.splitlines()]
    frame = pd.DataFrame(lines, columns=["query_id", "iteration", "docno", "label"]).astype({"label": int})
    path = tmp_path / "qrels.csv"
    frame.rename(columns={"iteration": "subtopic_id"}).to_csv(path, index=False)
    judged = namedtuple("judged", ["query_id", "doc_id", "relevance", "iteration"])  # as ir_measures has them
    tuples = [judged(query, document, int(grade), subtopic) for query, subtopic, document, grade in lines]
    names = ["alpha_ndcg", "err_ia(relevant=1)", "recall@5"]
    expected = evaluate_runs(files[0], files[1], names)
    for qrels in (frame, path, tuples):
        found = evaluate_runs(qrels, files[1], names)
        for name in names:
            np.testing.assert_array_equal(found["t"][name].per_query, expected["t"][name].per_query)
        assert any(
            "2 documents with judgments for several subtopics (a column of their own)" in one
            for one in map(str, found.cautions)
        )
    twice = pd.concat([frame, frame.tail(1)])
    with pytest.raises(
        DataError, match=r"row 9: document 'z' is judged .* at qrels: row 8 already; .* once per query and"
    ):
        evaluate_runs(twice, files[1], names)
    one = frame.assign(iteration=0).drop_duplicates(["query_id", "docno"])
    assert not evaluate_runs(one, files[1], "recall@5").cautions


def test_no_order_of_lines_changes_anything(files: tuple[Path, Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    run = read_run(files[1])
    names = [*BOTH[:1], "err_ia(as=ndeval)@5"]
    joined = join(read_qrels(files[0]), run)
    expected = bind(names, joined.judgments).means_of(
        bind(names, joined.judgments).per_query(joined.scores, joined.retrieved)
    )
    for _ in range(5):
        lines = rng.permutation(QRELS.splitlines()).tolist()
        shuffled = tmp_path / "shuffled"
        shuffled.write_text("\n".join(lines))
        again = join(read_qrels(shuffled), run, depth=1)
        whole = join(read_qrels(shuffled), run)
        values = bind(names, whole.judgments).per_query(whole.scores, whole.retrieved)
        np.testing.assert_array_equal(bind(names, whole.judgments).means_of(values), expected)
        assert again.judgments.subtopics is not None
        assert again.judgments.subtopics.grades.sum() == 6  # what lies below the depth is judged all the same


def test_subtopics_belong_to_what_is_asked() -> None:
    groups = QueryGroups.from_sizes([2])
    plain = Judgments.checked([1, 1], groups)
    apart = Judgments.checked([1, 1], groups, subtopics=Subtopics.of_matrix(np.eye(2), 2))
    alike = Judgments.checked([1, 1], groups, subtopics=Subtopics.of_matrix(np.ones((2, 1)), 2))
    assert len({fingerprint_judgments(one) for one in (plain, apart, alike)}) == 3


@pytest.mark.long
@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), min_size=1, max_size=8), st.randoms())
def test_taking_rows_is_taking_rows_of_the_matrix(
    matrix: list[list[int]], random: np.random.Generator
) -> None:
    grades = np.array(matrix, dtype=float)
    rows = np.array([random.randrange(-1, len(grades)) for _ in range(6)])  # type: ignore[attr-defined]
    taken = Subtopics.of_matrix(grades, len(grades)).take(rows).labels(6)
    expected = np.where(rows[:, np.newaxis] >= 0, grades[rows], 0.0).T
    np.testing.assert_array_equal(taken, expected[: len(taken)])
    assert not expected[len(taken) :].any()


@pytest.mark.long
def test_commands(files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.write_text(RUN.replace("a 1 9 t", "a 1 5 u").replace(" t\n", " u\n"))
    asked = ["--qrels", str(files[0]), "--run", str(files[1])]
    assert run_command(cli, ["evaluate", *asked, "-m", "alpha_ndcg(as=ndeval)@10"]) == 0
    out, err = capsys.readouterr()
    assert "0.4511" in out  # (2.2619 / 3.1309 + 0.6309 + 0) / 3
    assert "metrics that know no subtopics take the highest grade" in err
    assert run_command(cli, ["evaluate", *asked, "--run", str(other), "-m", "alpha_ndcg,err_ia"]) == 0
    assert "alpha_ndcg" in capsys.readouterr().out
    assert run_command(cli, ["explain", "alpha_ndcg@5", "--query", "1", *asked]) == 0
    out = capsys.readouterr().out
    assert "ideal alpha-DCG = 3.1309" in out
    assert "ideal order of labels" not in out


# ---- tables, arrays and boosting


def draw_rows(n_queries: int = 40) -> tuple[pd.DataFrame, np.ndarray[Any, np.dtype[np.float64]]]:
    """Rows with three subtopics that three features know about."""
    rng = np.random.default_rng(5)
    features = rng.normal(size=(n_queries * 8, 3))
    grades = (rng.random(features.shape) < 1 / (1 + np.exp(2 - 2 * features))) * rng.integers(
        1, 3, features.shape
    )
    frame = pd.DataFrame(features, columns=list("abc")).assign(label=grades.max(axis=1))
    frame[["s1", "s2", "s3"]] = grades
    frame["query_id"] = np.tile(np.arange(n_queries), 8)  # scattered
    return frame, grades.astype(float)


@pytest.mark.long
def test_tables_and_arrays_name_subtopics() -> None:
    frame, grades = draw_rows()
    names = ["alpha_ndcg@5", "err_ia(max_grade=2)@5"]
    expected = evaluate(frame.label, frame.a, query_ids=frame.query_id, metrics=names, subtopics=grades)
    table = from_frame(frame, subtopics=["s1", "s2", "s3"], regroup=True)
    assert table.feature_names == ("a", "b", "c")
    arrays = from_arrays(
        frame[list("abc")], frame.label, query_ids=frame.query_id, subtopics=grades, regroup=True
    )
    for data in (table, arrays):
        found = bind(names, data.judgments).per_query(data.features[:, 0])
        for name, values in zip(names, found, strict=True):
            np.testing.assert_allclose(values, expected[name].per_query, atol=1e-6)  # features are float32
        kept = data.take(np.array([3, 1])).judgments
        np.testing.assert_array_equal(bind(names, kept).per_query(np.arange(16.0)).shape, (2, 2))
    with pytest.raises(
        DataError, match=r"frame: row 2: column 's1' contains -1.*a grade >= 0 for the subtopic"
    ):
        from_frame(frame.assign(s1=[1, -1] + [0] * (len(frame) - 2)), subtopics=["s1"], regroup=True)
    with pytest.raises(DataError, match=r"the shape \(2, 2\)"):
        from_arrays([[1.0]] * 3, [1, 1, 1], query_ids=[1, 2, 1], subtopics=np.eye(2), regroup=True)


@pytest.mark.long
def test_a_cached_set_keeps_them(tmp_path: Path) -> None:
    frame, _ = draw_rows()
    data = from_frame(frame, subtopics=["s1", "s2", "s3"], regroup=True)
    write_entry(tmp_path / "entry", data, Fingerprints.of(data))
    found = open_entry(tmp_path / "entry", verify=True)
    assert found is not None
    kept, said = found[0].judgments.subtopics, data.judgments.subtopics
    assert kept is not None
    assert said is not None
    np.testing.assert_array_equal(kept.labels(320), said.labels(320))


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_boosters_stop_on_them(tmp_path: Path) -> None:
    draw_rows()[0].to_csv(tmp_path / "rows.csv", index=False)
    experiment = {
        "name": "diverse",
        "data": {
            "reader": "csv",
            "root": str(tmp_path),
            "files": "rows.csv",
            "subtopics": ["s1", "s2", "s3"],
            "regroup": True,
            "folds": 3,
        },
        "metrics": {"report": ["alpha_ndcg@5"], "primary": "alpha_ndcg@5"},
        "stopping": {"metric": "alpha_ndcg@5", "patience": 2, "max_rounds": 4},
        "models": {
            "lgbm": {"ranker": "lightgbm", "objective": "lambdarank", "preset": "small"},
            "xgb": {"ranker": "xgboost", "objective": "rank:ndcg", "preset": "small"},
        },
    }
    result = run_experiment(experiment, runs=tmp_path / "runs")
    assert not result.failures
    assert {curve.metric for run in result.runs for curve in run.history.itertuples()} >= {"alpha_ndcg@5"}


def test_a_dataset_of_lightgbm_has_none() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    from ltr_harness.boosting.lightgbm import feval

    data = lightgbm.Dataset(np.eye(3), label=[0, 1, 0], group=[3], params={"verbosity": -1}).construct()
    with pytest.raises(MetricError, match="these judgments name none"):
        feval("alpha_ndcg@3")(np.zeros(3), data)


# ---- refused


@pytest.mark.parametrize("metric", BOTH)
def test_judgments_without_subtopics(metric: str) -> None:
    with pytest.raises(MetricError, match="these judgments name none; expected TREC qrels of the form"):
        evaluate([1, 0], [1.0, 2.0], group_sizes=[2], metrics=[metric])


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([1, 0], r"the shape \(2,\).*expected numbers, \(n_rows, n_subtopics\), for 2 rows"),
        ([[1, 0]], r"the shape \(1, 2\)"),
        ([[1, 0], [np.nan, 1]], r"subtopics\[1, 0\] is nan \(1 such\)"),
        ([[1, 0], [-1, -2]], r"subtopics\[1, 0\] is -1 \(2 such\); expected finite grades >= 0"),
        ([["a"], ["b"]], "dtype <U1"),
    ],
)
def test_what_is_no_matrix_of_grades(matrix: list[object], said: str) -> None:
    with pytest.raises(DataError, match=said):
        evaluate([1, 0], [1.0, 2.0], group_sizes=[2], metrics=["ndcg"], subtopics=matrix)


def test_a_document_twice_for_one_subtopic(files: tuple[Path, Path]) -> None:
    files[0].write_text(QRELS + "1 2 b 0\n")
    with pytest.raises(DataError) as refused:
        read_qrels(files[0])
    assert str(refused.value).endswith(
        ":9: document 'b' is judged for query '1' and subtopic '2' on line 3 already; expected each document once per "
        "query and subtopic (the second column); keep one of them"
    )


@pytest.mark.parametrize("metric", BOTH)
def test_a_tie_of_a_whole_long_list_asks_for_a_cutoff(metric: str) -> None:
    n = 10_002
    labels, apart = np.eye(1, n)[0], np.eye(1, n).T
    with pytest.raises(MetricError, match=r"10002 documents of query '0' tie; .*give a cutoff, such as @100"):
        evaluate(labels, np.zeros(n), group_sizes=[n], metrics=[metric], subtopics=apart)
    cut = evaluate(labels, np.zeros(n), group_sizes=[n], metrics=[metric + "@2"], subtopics=apart)
    assert cut[metric + "@2"].mean > 0


def test_no_order_by_label_is_the_worst_or_the_best() -> None:
    for kind in (AlphaNDCG, ERRIA):
        with pytest.raises(
            MetricError, match="ties=worst: which order of equal scores is the worst depends on"
        ):
            kind(ties="worst")
    explained = AlphaNDCG().explain([1, 1, 1], [1, 1, 1], subtopics=[[1, 0], [1, 0], [0, 1]])
    assert explained.interval is None


def test_parameters() -> None:
    for wrong in (0, 1.5, -0.5):
        with pytest.raises(MetricError, match="expected a number above 0 and up to 1"):
            AlphaNDCG(alpha=wrong)
    with pytest.raises(MetricError, match="relevant=0; expected a grade above 0"):
        ERRIA(relevant=0)
    assert ERRIA(relevant=1).with_max_grade(4) == ERRIA(relevant=1)  # there is no scale
    assert value("err_ia(relevant=1,max_grade=4)", [[3, 0], [0, 1]]) == value(
        "err_ia(relevant=1)", [[3, 0], [0, 1]]
    )
    assert not ERRIA().has_swap_change
