"""Judgments beside the rows: the join by query and document id against merges of pandas, and bad judgments."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import multimode
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset
from ltr_harness.data.judgments import OneLabel
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.memory import from_arrays, from_frame
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.readers.truth import (
    judgments_of,
    read_judgments,
    reader_of_rows,
    with_candidates,
    with_judgments,
)
from ltr_harness.errors import DataError
from ltr_harness.experiments.inspection.agreement import agreement
from ltr_harness.metrics import bind
from ltr_harness.metrics.evaluation import evaluate
from tests.conftest import examples

ROWS = pd.DataFrame(
    {
        "query_id": ["a", "a", "b"],
        "document_id": ["x", "y", "x"],
        "label": [0, 2, 1],
        "bm25": [0.5, 0.25, 1.0],
        "day": [3, 3, 4],
        "weight": [1.0, 1.0, 3.0],
    }
)
TRUTH = {"a": {"y": 2, "z": 3}, "b": {"x": 1, "w": 0}, "c": {"x": 1}}


def frame_of(truth: dict[str, dict[str, float]], **columns: Any) -> pd.DataFrame:
    cells = [(query, document, label) for query, own in truth.items() for document, label in own.items()]
    return pd.DataFrame(cells, columns=["query_id", "document_id", "label"]).assign(**columns)


def missed_of(dataset: RankingDataset) -> list[tuple[str, str, float]]:
    missed = dataset.judgments.missed
    assert missed is not None
    assert missed.document_ids is not None
    queries = dataset.groups.ids[missed.queries]
    cells = zip(queries.tolist(), missed.document_ids.tolist(), missed.labels.tolist(), strict=True)
    return [(str(query), str(document), label) for query, document, label in cells]


@pytest.mark.long
@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), min_size=1, max_size=25, unique=True),
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 8), st.integers(-1, 3)),
        min_size=1,
        max_size=30,
        unique_by=lambda one: one[:2],
    ),
    st.booleans(),
    st.booleans(),
)
def test_a_join_is_what_merges_of_pandas_give(
    pairs: list[tuple[int, int]], judged: list[tuple[int, int, int]], labelled: bool, numbered: bool
) -> None:
    rows = pd.DataFrame(sorted(pairs), columns=["query_id", "document_id"])
    truth = pd.DataFrame(judged, columns=["query_id", "document_id", "label"])
    both = rows.merge(truth, how="left", on=["query_id", "document_id"])
    if both.label.isna().all():
        return
    own = both.label.fillna(0).clip(lower=0)
    if not numbered:
        truth, rows = truth.astype({"query_id": str}), rows.astype({"document_id": str})
    arrays = {"query_ids": rows.query_id, "document_ids": rows.document_id}
    data = from_arrays(
        np.ones((len(rows), 1)),
        own if labelled else None,
        **arrays,
        judgments=list(truth.itertuples(index=False)),
    )
    np.testing.assert_array_equal(data.labels, own)
    if not labelled:
        unjudged = both.label.to_numpy() == -1
        np.testing.assert_array_equal(data.judgments.judged is None, not unjudged.any())
        if data.judgments.judged is not None:
            np.testing.assert_array_equal(~data.judgments.judged, unjudged)
    keys = ["query_id", "document_id"]
    outside = truth.astype(dict.fromkeys(keys, str)).merge(
        rows.astype(dict.fromkeys(keys, str)), how="left", on=keys, indicator=True
    )
    outside = outside[(outside._merge == "left_only") & (outside.label >= 0)]
    wanted = outside[[*keys, "label"]].astype({"label": float}).itertuples(index=False, name=None)
    assert sorted(missed_of(data)) == sorted(wanted)
    added = set(outside.query_id) - set(rows.query_id.astype(str))
    assert set(map(str, data.groups.ids[~data.groups.has_rows])) == added
    assert data.groups.ids.dtype.kind == "i" if added else True
    shuffled = truth.sample(frac=1, random_state=1)
    again = from_arrays(
        np.ones((len(rows), 1)),
        own if labelled else None,
        **arrays,
        judgments=list(shuffled.itertuples(index=False)),
    )
    assert fingerprint_dataset(again) == fingerprint_dataset(data)


def test_values_are_those_of_a_pool_whose_missed_rows_are_not_retrieved() -> None:
    data = from_frame(ROWS, features=["bm25"], judgments=frame_of(TRUTH))
    metrics = ["ndcg@10", "map@10", "recall@1"]
    measured = bind(metrics, data.judgments).per_query(np.array([0.5, 0.25, 1.0]))
    pool = evaluate(
        [0, 2, 3, 1, 0, 1],
        [0.5, 0.25, 0, 1.0, 0, 0],
        query_ids=["a", "a", "a", "b", "b", "c"],
        retrieved=[True, True, False, True, False, False],
        metrics=metrics,
    )
    for column, name in zip(measured, pool.metrics, strict=True):
        np.testing.assert_array_equal(column, pool[name].per_query)
    assert pool["ndcg@10"].per_query[2] == 0


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "qrels", "three.qrels", "json", "two files"])
def test_every_form_of_judgments_gives_the_same(tmp_path: Path, form: str) -> None:
    frame, files = frame_of(TRUTH), [f"truth.{form}"]
    path = tmp_path / files[0]
    if form == "parquet":
        frame.to_parquet(path)
    elif form == "json":
        path.write_text(json.dumps(TRUTH))
    elif form == "two files":
        files = ["one.csv", "two.qrels"]
        frame[:2].to_csv(tmp_path / "one.csv", index=False)
        lines = [f"{one.query_id} 0 {one.document_id} {one.label}" for one in frame[2:].itertuples()]
        (tmp_path / "two.qrels").write_text("\n".join(lines))
    elif form.endswith("qrels"):
        middle = "" if form.startswith("three") else "0 "
        lines = [f"{one.query_id} {middle}{one.document_id} {one.label}" for one in frame.itertuples()]
        path.write_text("\n".join(lines))
    else:
        frame.to_csv(path, index=False, sep="\t" if form == "tsv" else ",")
    rows = from_frame(ROWS, features=["bm25"])
    read = with_judgments(rows, read_judgments(files, tmp_path, Parquet()))
    assert fingerprint_dataset(read) == fingerprint_dataset(
        from_frame(ROWS, features=["bm25"], judgments=TRUTH)
    )
    assert missed_of(read) == [("a", "z", 3.0), ("b", "w", 0.0), ("c", "x", 1.0)]


def test_columns_are_called_as_in_the_rows_or_as_the_judgments_say(tmp_path: Path) -> None:
    names = {"query_id": "suche", "document_id": "ware", "label": "note"}
    rows = ROWS.rename(columns=names)
    options = {"query": "suche", "document_id": "ware", "label": "note", "features": ["bm25"]}
    expected = fingerprint_dataset(from_frame(ROWS, features=["bm25"], judgments=TRUTH))
    frame = frame_of(TRUTH).rename(columns=names)
    assert fingerprint_dataset(from_frame(rows, judgments=frame, **options)) == expected
    frame.rename(columns={"suche": "q", "ware": "d", "note": "g"}).to_csv(tmp_path / "truth.txt", index=False)
    said = {"query": "q", "document_id": "d", "label": "g"}
    truth = read_judgments(["truth.txt"], tmp_path, Parquet(**options), said)
    assert fingerprint_dataset(with_judgments(from_frame(rows, **options), truth)) == expected
    (tmp_path / "truth.txt").rename(tmp_path / "truth.csv")
    with pytest.raises(DataError, match=r"has no column 'gain', which judgments names"):
        read_judgments(["truth.csv"], tmp_path, Parquet(**options), {**said, "label": "gain"})


def test_rows_of_a_key_of_two_columns_find_their_judgments() -> None:
    rows = ROWS.assign(week=[31, 31, 32], query_id=[1, 1, 1])
    truth = pd.DataFrame({"week": [31, 32], "query_id": [1, 1], "document_id": ["y", "q"], "label": [2, 1]})
    data = from_frame(rows, query=["week", "query_id"], features=["bm25"], judgments=truth)
    assert missed_of(data) == [("32/1", "q", 1.0)]


def test_the_readers_grades_hold_for_judgments_too() -> None:
    truth = frame_of({"a": {"x": "bad", "z": "good"}, "b": {"x": "bad"}})  # type: ignore[dict-item]
    rows = ROWS.assign(label=["bad", "good", "bad"])
    data = from_frame(rows, features=["bm25"], grades={"bad": 0, "good": 4}, judgments=truth)
    assert missed_of(data) == [("a", "z", 4.0)]


def test_labels_come_from_judgments_where_rows_have_none() -> None:
    rows = ROWS.drop(columns="label")
    data = from_frame(rows, features=["bm25"], judgments=TRUTH)
    assert data.labels.tolist() == [0, 2, 1]
    assert any(
        "1 of 3 candidates (33.3%) is not in them and has label 0" in note for note in map(str, data.cautions)
    )
    with pytest.raises(DataError, match="did you mean `label: rating`"):  # it would be a feature
        from_frame(rows.assign(rating=1.0), judgments=TRUTH)
    named = from_frame(rows.assign(rating=1.0), features=["bm25", "rating"], judgments=TRUTH)
    assert named.labels.tolist() == [0, 2, 1]
    with pytest.raises(DataError, match="labels is None; expected labels, or judgments"):
        from_arrays([[1.0]], None, query_ids=["a"])


def test_what_nobody_judged_is_neither_missed_nor_a_contradiction() -> None:
    truth = {"a": {"x": -1, "z": -2, "y": 2}, "d": {"x": -1}}
    data = from_frame(ROWS, features=["bm25"], judgments=truth)
    assert missed_of(data) == []
    assert data.judgments.judged is None
    assert "every judged document is a candidate: nothing was missed (judgments)" in map(str, data.cautions)
    unlabelled = from_frame(ROWS.drop(columns="label"), features=["bm25"], judgments=truth)
    assert unlabelled.judgments.judged is not None
    assert unlabelled.judgments.judged.tolist() == [False, True, True]
    table = from_frame(ROWS, features=["bm25"], unjudged=-1, judgments=frame_of(truth).replace(-2, -1))
    assert missed_of(table) == []
    assert table.groups.ids.tolist() == ["a", "b"]
    for label, said in ((1, "not judged here, label 1"), (-1, "label 2 here, not judged")):
        rows = ROWS.assign(label=[label, 2, 1] if label > 0 else [0, label, 1])
        with pytest.raises(DataError, match=said):
            from_frame(rows, features=["bm25"], unjudged=-1, judgments=truth)


def test_a_contradiction_names_the_first_three_places(tmp_path: Path) -> None:
    path = tmp_path / "truth.qrels"
    path.write_text("# ours\na 0 x 1\na 0 y 1\nb 0 x 3\nb 0 z 1\n")
    with pytest.raises(DataError) as raised:
        from_frame(ROWS, features=["bm25"], judgments=path, source="rows")
    first, second, third = map(str, raised.value.problems)
    cure = "leave the column of labels out of the rows, if the judgments are right"
    assert [cure in one for one in (first, second, third)] == [True, False, False]
    assert first.startswith(f"{path}:2: document 'x' of query 'a': label 1 here, label 0 in rows")
    assert second.startswith(f"{path}:3: document 'y' of query 'a': label 1 here, label 2 in rows")
    assert third.startswith(f"{path}:4: document 'x' of query 'b': label 3 here, label 1 in rows")
    rows = pd.concat([ROWS, ROWS.assign(query_id=["p", "p", "q"])])
    frame = rows.assign(label=4)
    with pytest.raises(
        DataError, match=r"(?s)judgments: row 1: .*row 2: .*row 3: .*and 3 more such documents"
    ):
        from_frame(rows, features=["bm25"], judgments=frame[["query_id", "document_id", "label"]])


@pytest.mark.parametrize("form", ["csv", "qrels", "frame"])
def test_a_document_judged_twice_is_refused_with_both_places(tmp_path: Path, form: str) -> None:
    frame = pd.concat([frame_of(TRUTH), frame_of({"a": {"y": 2}})])
    path = tmp_path / f"truth.{form}"
    judgments: Any = path
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "qrels":
        path.write_text(
            "\n".join(f"{one.query_id} 0 {one.document_id} {one.label}" for one in frame.itertuples())
        )
    else:
        judgments = frame
    with pytest.raises(
        DataError, match=r"document 'y' .*query 'a'.* already|document 'y' is judged for query 'a'"
    ):
        from_frame(ROWS, features=["bm25"], judgments=judgments)


def test_a_document_of_two_files_is_refused(tmp_path: Path) -> None:
    frame_of(TRUTH).to_csv(tmp_path / "one.csv", index=False)
    (tmp_path / "two.qrels").write_text("a 0 y 2\n")
    with pytest.raises(
        DataError, match=r"two.qrels:1: document 'y' of query 'a' is judged at .*one.csv:2 already"
    ):
        read_judgments(["one.csv", "two.qrels"], tmp_path)


def test_judgments_that_cannot_be_matched_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"its rows have no document ids.*name the column with `document_id:`"
    ):
        from_frame(ROWS.drop(columns="document_id"), features=["bm25"], judgments=TRUTH)
    with pytest.raises(
        DataError,
        match=r"judges none of its rows, .*'x'; expected the same ids in both; it begins with .*'X'",
    ):
        from_frame(ROWS, features=["bm25"], judgments={"a": {"X": 1}, "A": {"x": 1}})
    with pytest.raises(DataError, match="but 1 judged query without candidates have none"):
        from_frame(ROWS, features=["bm25"], weight="weight", judgments=TRUTH)
    flagged = from_frame(ROWS, features=["bm25"], judgments=TRUTH)
    with pytest.raises(DataError, match="`retrieved` and judgments both say what was missed"):
        with_judgments(flagged, judgments_of(TRUTH))


def test_queries_without_candidates_have_the_judgments_own_attributes_and_weights(tmp_path: Path) -> None:
    truth = frame_of(TRUTH, day=[3, 3, 4, 4, 9], weight=[1.0, 1.0, 3.0, 3.0, 7.0])
    options: dict[str, Any] = {"features": ["bm25"], "attributes": ["day"], "weight": "weight"}
    data = from_frame(ROWS, **options, judgments=truth)
    assert data.query_attributes["day"].tolist() == [3, 4, 9]
    truth[:2].to_csv(tmp_path / "one.csv", index=False)
    truth[2:].to_csv(tmp_path / "two.csv", index=False)
    reader = Parquet(**options)
    read = with_judgments(
        from_frame(ROWS, **options), read_judgments(["one.csv", "two.csv"], tmp_path, reader)
    )
    assert read.query_attributes["day"].tolist() == [3, 4, 9]
    assert fingerprint_dataset(read) == fingerprint_dataset(data)
    assert data.judgments.query_weights is not None
    assert data.judgments.query_weights.tolist() == [1, 3, 7]
    without = from_frame(ROWS, features=["bm25"], attributes=["day"], judgments=TRUTH)
    np.testing.assert_array_equal(without.query_attributes["day"], [3, 4, np.nan])
    texts = from_frame(
        ROWS.assign(day=["mon", "mon", "tue"]), features=["bm25"], attributes=["day"], judgments=TRUTH
    )
    assert texts.query_attributes["day"].tolist() == ["mon", "tue", ""]
    truths = from_frame(
        ROWS.assign(day=[True, True, False]), features=["bm25"], attributes=["day"], judgments=TRUTH
    )
    assert truths.query_attributes["day"].tolist() == ["true", "false", ""]
    more = pd.concat([truth, frame_of({"c": {"y": 0}}, day=8, weight=7.0)])
    with pytest.raises(DataError, match="attribute 'day' is 8 here and 9"):
        from_frame(ROWS, **options, judgments=more)


def test_queries_without_candidates_are_left_out_where_asked() -> None:
    data = from_frame(ROWS, features=["bm25"], judgments=TRUTH)
    assert any(
        "1 of the judged queries (33.3%) has no candidate and the value 0" in note
        for note in map(str, data.cautions)
    )
    kept = with_candidates(data)
    assert kept.groups.ids.tolist() == ["a", "b"]
    assert "1 query without candidates is left out" in kept.cautions[-1].text
    rows = from_frame(ROWS, features=["bm25"])
    skipped = with_judgments(rows, judgments_of(TRUTH), no_candidates="skip")
    assert fingerprint_dataset(skipped) == fingerprint_dataset(kept)
    assert any(
        "1 of the judged queries (33.3%) has no candidate and is left out" in one
        for one in map(str, skipped.cautions)
    )


def test_queries_of_other_splits_belong_there_and_those_of_none_are_counted() -> None:
    rows = from_frame(ROWS, features=["bm25"])
    here = with_judgments(rows, judgments_of(TRUTH), queries_of_other_splits=np.array(["c"]))
    assert here.groups.ids.tolist() == ["a", "b"]
    assert not any("of no split" in note for note in map(str, here.cautions))
    here = with_judgments(
        rows, judgments_of({**TRUTH, "d": {"x": 1}}), queries_of_other_splits=np.array(["c"])
    )
    (said,) = (note for note in map(str, here.cautions) if "of no split" in note)
    assert said.startswith("1 of the judged queries (25.0%) is of no split and counted nowhere, such as d: ")


def test_subtopics_come_with_the_judgments(tmp_path: Path) -> None:
    truth = frame_of(TRUTH, s1=[1, 0, 1, 0, 0], s2=[0, 2, 0, 0, 1])
    rows = ROWS.assign(s1=[0, 1, 1], s2=[0, 0, 0])
    data = from_frame(rows, features=["bm25"], subtopics=["s1", "s2"], judgments=truth)
    assert data.judgments.pool.subtopics is not None
    assert data.judgments.pool.subtopics.labels(6).tolist() == [[0, 1, 0, 1, 0, 0], [0, 0, 2, 0, 0, 1]]
    (tmp_path / "two.qrels").write_text("a s1 y 2\na s2 y 1\na s2 z 1\n")
    other = from_frame(ROWS, features=["bm25"], judgments=tmp_path / "two.qrels")
    assert other.judgments.pool.subtopics is not None
    assert other.judgments.pool.subtopics.labels(4).tolist() == [[0, 2, 0, 0], [0, 1, 1, 0]]
    said = "two.qrels: 1 document with judgments for several subtopics (the second column); "
    assert any(note.startswith(said) for note in map(str, other.cautions))
    with pytest.raises(DataError, match="the rows have columns of subtopics, and judgments has not"):
        from_frame(rows, features=["bm25"], subtopics=["s1", "s2"], judgments=TRUTH)


def test_letor_rows_find_their_judgments_by_the_ids_in_comments(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("2 qid:1 1:0.5 # docid = GX1\n0 qid:1 1:0.25 # docid = GX2\n")
    (tmp_path / "truth.qrels").write_text("1 0 GX1 2\n1 0 GX9 1\n2 0 GX1 1\n")
    reader, labelled = reader_of_rows(Letor(), ["rows.txt"], tmp_path)
    assert labelled
    data = with_judgments(
        reader.read(["rows.txt"], tmp_path), read_judgments(["truth.qrels"], tmp_path, reader)
    )
    assert missed_of(data) == [("1", "GX9", 1.0), ("2", "GX1", 1.0)]


RULES: list[OneLabel] = ["majority", "mean", "max", "median"]


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(-1, 3)), min_size=1, max_size=30),
    st.sampled_from(RULES),
)
def test_several_judgments_become_the_label_that_pandas_gives(
    votes: list[tuple[int, int, int]], rule: OneLabel
) -> None:
    rows = pd.DataFrame(
        [(query, document) for query in range(3) for document in range(4)],
        columns=["query_id", "document_id"],
    )
    truth = pd.DataFrame([(0, 0, 0), *votes], columns=["query_id", "document_id", "label"])
    judged = truth[truth.label >= 0]
    grouped = judged.groupby(["query_id", "document_id"]).label
    # of several modes the lowest
    wanted = grouped.agg((lambda own: min(multimode(own))) if rule == "majority" else rule)
    data = from_arrays(
        np.ones((len(rows), 1)),
        None,
        query_ids=rows.query_id,
        document_ids=rows.document_id,
        judgments=list(truth.itertuples(index=False)),
        several=rule,
    )
    pairs = pd.MultiIndex.from_frame(rows)
    np.testing.assert_allclose(data.labels, wanted.reindex(pairs).fillna(0), rtol=1e-15)
    outside = wanted[~wanted.index.isin(pairs)].reset_index()
    assert [(int(query), int(document)) for query, document, _ in missed_of(data)] == list(
        zip(outside.query_id, outside.document_id, strict=True)
    )
    np.testing.assert_allclose([label for *_, label in missed_of(data)], outside.label, rtol=1e-15)
    if not truth.duplicated(["query_id", "document_id"]).any():
        assert data.raw_judgments is None
        return
    assert data.raw_judgments is not None
    kept = pd.DataFrame(
        {
            "query": data.raw_judgments.queries,
            "document": data.raw_judgments.documents,
            "grade": data.raw_judgments.grades,
        }
    )
    assert (np.diff(data.raw_judgments.queries) >= 0).all()
    assert sorted(tuple(sorted(own)) for _, own in kept.groupby(["query", "document"]).grade) == sorted(
        tuple(sorted(own)) for _, own in grouped
    )
    names = data.groups.ids[data.raw_judgments.queries]
    np.testing.assert_array_equal(
        np.bincount(names.astype(int), minlength=4), np.bincount(judged.query_id, minlength=4)
    )


@pytest.mark.parametrize("form", ["csv", "qrels", "json rows"])
def test_annotators_may_judge_in_one_file_or_in_several(tmp_path: Path, form: str) -> None:
    frame = pd.DataFrame(
        {
            "query_id": list("aaaab"),
            "document_id": list("yyyzx"),
            "label": [2, 2, 0, 1, 1],
            "annotator": [1, 2, 3, 1, 1],
        }
    )
    one, two = tmp_path / "one", tmp_path / "two.csv"
    if form == "csv":
        one = tmp_path / "one.csv"
        frame.to_csv(one, index=False)
    elif form == "qrels":  # the second column is the annotator, not a subtopic
        lines = [
            f"{row.query_id} {row.annotator} {row.document_id} {row.label}" for row in frame.itertuples()
        ]
        one.write_text("\n".join(lines))
    else:
        one.write_text(frame.to_json(orient="records"))
    frame_of({"a": {"y": 2}}).to_csv(two, index=False)
    rows = from_frame(ROWS, features=["bm25"])
    for files, n in (([one.name], 5), ([one.name, "two.csv"], 6)):
        truth = read_judgments(files, tmp_path, label_rule="majority")
        data = with_judgments(rows, truth)
        assert data.raw_judgments is not None
        assert data.raw_judgments.grades.size == n
        said = "1 document of 3 has several judgments: their label is the most frequent grade, of equals the lowest"
        assert f"{said} (several: majority)" in map(str, data.cautions)
        assert missed_of(data) == [("a", "z", 1.0)]
    with pytest.raises(
        DataError, match="judgments by subtopic in several files" if form == "qrels" else "already"
    ):
        read_judgments([one.name, "two.csv"], tmp_path)
    assert agreement(data)[0].n_judgments == 4
