"""Rows of missed documents, marked by a column: judged, without features, and counted wherever a metric divides."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pydantic import ValidationError

from ltr_harness.data.cache import DataCache
from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset
from ltr_harness.data.readers.catboost import CatBoostPool
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.readers.memory import from_arrays, from_frame
from ltr_harness.data.readers.parquet import Parquet
from ltr_harness.data.readers.rows import check_alignment
from ltr_harness.data.readers.scores import read_scores
from ltr_harness.data.writers import write_dataset
from ltr_harness.errors import Caution, DataError
from ltr_harness.experiments.training.folds import with_files
from ltr_harness.metrics.core.binding import Binding
from ltr_harness.metrics.core.grammar import parse_metric
from ltr_harness.metrics.evaluation import evaluate
from tests.conftest import examples, named_case

# Query 8, in the middle, has no candidate.
ROWS = """\
query_id,label,bm25,brand,document_id,found,w,pos,day,s1
7,1,0.5,x,a,1,1,1,mon,1
7,2,not computed,zebra,b,0,,,mon,0
8,3,inf,,c,0,4,,tue,2
8,1,,,d,0,6,,tue,0
9,0,0.25,y,e,true,3,2,mon,0
9,4,-1,x,f,TRUE,5,1,mon,3
9,2,,,g,False,,,mon,0
"""
COLUMNS: dict[str, Any] = {
    "retrieved": "found",
    "features": ("bm25", "brand"),
    "categorical": ("brand",),
    "weight": "w",
    "position": "pos",
    "attributes": ("day",),
    "subtopics": ("s1",),
}
NOTHING_ELSE: dict[str, Any] = {
    **dict.fromkeys(("features", "weight", "position")),
    **dict.fromkeys(("categorical", "attributes", "subtopics"), ()),
}


def read_csv(folder: Path, text: str = ROWS, **options: Any) -> RankingDataset:
    (folder / "a.csv").write_text(text)
    return Csv(**{**COLUMNS, **options}).read(["a.csv"], folder)


def message_of(folder: Path, text: str, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_csv(folder, text, **options)
    return str(caught.value)


def check(data: RankingDataset) -> None:
    judgments, missed = data.judgments, data.judgments.missed
    assert missed is not None
    assert judgments.subtopics is not None
    assert missed.subtopics is not None
    assert judgments.labels.tolist() == [1, 0, 4]
    assert data.groups.ids.tolist() == [7, 8, 9]
    assert data.groups.boundaries.tolist() == [0, 1, 1, 3]
    assert data.features.tolist() == [[0.5, 0], [0.25, 1], [-1, 0]]
    assert data.categories == {"brand": ("x", "y")}  # and no zebra
    assert missed.queries.tolist() == [0, 1, 1, 2]
    assert missed.labels.tolist() == [2, 3, 1, 2]
    assert judgments.document_ids is not None
    assert missed.document_ids is not None
    assert judgments.document_ids.tolist() == ["a", "e", "f"]
    assert missed.document_ids.tolist() == ["b", "c", "d", "g"]
    assert data.positions is not None
    assert data.positions.tolist() == [1, 2, 1]
    assert judgments.query_weights is not None
    assert judgments.query_weights.tolist() == [1, 5, 4]  # of query 8, the mean of its missed documents
    assert data.query_attributes["day"].tolist() == ["mon", "tue", "mon"]
    assert judgments.subtopics.labels(3).tolist() == [[1, 0, 3]]
    assert missed.subtopics.labels(4).tolist() == [[0, 2, 0, 0]]
    assert data.file_rows is not None
    assert data.file_rows.tolist() == [0, 4, 5]
    text = "4 judged documents of 3 queries were missed; 1 query has no candidate (`retrieved`)"
    assert Caution("missed-documents", "note", text) in data.cautions


def frame_of(flags: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "query_id": [7, 7, 8, 8, 9, 9, 9],
            "label": [1, 2, 3, 1, 0, 4, 2],
            "bm25": [0.5, np.inf, np.nan, np.nan, 0.25, -1, np.nan],
            "brand": ["x", "zebra", None, None, "y", "x", None],
            "document_id": list("abcdefg"),
            "found": flags,
            "w": [1, np.nan, 4, 6, 3, 5, np.nan],
            "pos": [1, np.nan, np.nan, np.nan, 2, 1, np.nan],
            "day": ["mon", "mon", "tue", "tue", "mon", "mon", "mon"],
            "s1": [1, 0, 2, 0, 0, 3, 0],
        }
    )


FLAGS = [1, 0, 0, 0, 1, 1, 0]


def test_csv(tmp_path: Path) -> None:
    check(read_csv(tmp_path))


def test_csv_whose_missed_rows_have_no_words_for_numbers(tmp_path: Path) -> None:
    check(read_csv(tmp_path, ROWS.replace("not computed", "")))


def test_words_in_missed_rows_leave_the_missing_values_of_candidates(tmp_path: Path) -> None:
    for missing in ("", "NA"):
        assert np.isnan(read_csv(tmp_path, ROWS.replace("-1,x", f"{missing},x")).features[2, 0])
    assert read_csv(tmp_path, ROWS.replace("-1,x", " -1 ,x")).features[2, 0] == -1


@pytest.mark.parametrize(
    "flags",
    [FLAGS, np.array(FLAGS, bool), np.array(FLAGS, float), list("1000110"), pd.Categorical(list("1000110"))],
    ids=["integers", "booleans", "floats", "texts", "categories"],
)
def test_frames_and_parquet(tmp_path: Path, flags: Any) -> None:
    frame = frame_of(flags)
    check(from_frame(frame, **COLUMNS))
    frame.to_parquet(tmp_path / "a.parquet")
    check(Parquet(**COLUMNS).read(["a.parquet"], tmp_path))
    frame.astype({"brand": "category"}).to_feather(tmp_path / "a.arrow")
    check(Parquet(**COLUMNS).read(["a.arrow"], tmp_path))


def test_arrays() -> None:
    frame = frame_of(FLAGS)
    arrays = {
        "query_ids": frame.query_id,
        "positions": frame.pos,
        "weights": frame.w,
        "document_ids": frame.document_id,
        "subtopics": frame[["s1"]],
        "attributes": {"day": frame.day},
        "feature_names": ["bm25", "brand"],
    }
    features = np.array(
        [[0.5, 0], ["none", None], [np.inf, 0], [0, 0], [0.25, 1], [-1, 0], [0, 0]], dtype=object
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a NaN that would become an integer
        for flags in (FLAGS, np.array(FLAGS, bool), np.array(FLAGS, float)):
            data = from_arrays(features, frame.label, retrieved=flags, **arrays)  # type: ignore[arg-type]
            check(RankingDataset(**{**vars(data), "categories": {"brand": ("x", "y")}}))


def test_several_files_and_scattered_queries(tmp_path: Path) -> None:
    header, *rows = ROWS.splitlines()
    whole = read_csv(tmp_path)
    for at, part in enumerate([[0, 4], [6, 2, 1], [5, 3]]):
        lines = "\n".join([header, *(rows[row] for row in part)])
        (tmp_path / f"{at}.csv").write_text(lines + "\n")
    files = ["0.csv", "1.csv", "2.csv"]
    data = Csv(**COLUMNS, regroup=True).read(files, tmp_path)
    # rows of the files: a e | g c b | f d; queries by first appearance: 7, 9, 8
    assert data.groups.ids.tolist() == [7, 9, 8]
    assert data.groups.boundaries.tolist() == [0, 1, 3, 3]
    assert data.judgments.document_ids is not None
    assert data.judgments.document_ids.tolist() == ["a", "e", "f"]
    assert data.features.tolist() == whole.features.tolist()
    assert data.categories == whole.categories
    assert data.file_rows is not None
    assert data.file_rows.tolist() == [0, 1, 5]
    assert data.judgments.missed is not None
    assert data.judgments.missed.document_ids is not None
    assert data.judgments.missed.document_ids.tolist() == ["b", "g", "c", "d"]
    with pytest.raises(DataError, match=r"1\.csv:2: query '9' is not contiguous"):
        Csv(**COLUMNS).read(files, tmp_path)
    back = Csv(**COLUMNS, regroup=True).read(["2.csv", "0.csv"], tmp_path)  # f d | a e: 9 8 7
    assert back.labels.tolist() == [4, 0, 1]
    assert back.file_order is not None
    assert back.labels[back.file_order].tolist() == [4, 1, 0]


def test_nothing_missed_is_said_and_kept(tmp_path: Path) -> None:
    text = "query_id,label,x,found\n1,1,0.5,1\n1,0,0.25,1\n"
    data = read_csv(tmp_path, text, **NOTHING_ELSE)
    assert data.judgments.missed is not None
    assert data.judgments.missed.labels.size == 0
    assert data.file_rows is None
    assert data.feature_names == ("x",)  # the flag is none
    assert data.cautions == (
        Caution("missed-documents", "note", "nothing was missed: `retrieved` is 1 in all rows"),
    )
    assert from_arrays([[1.0]], [1], group_sizes=[1]).judgments.missed is None


def test_missed_documents_that_nobody_judged_count_nowhere(tmp_path: Path) -> None:
    data = read_csv(tmp_path, ROWS.replace("7,2,", "7,-9,").replace("8,1,", "8,-9,"), unjudged=-9)
    assert data.judgments.missed is not None
    assert data.judgments.missed.labels.tolist() == [3, 2]
    assert str(data.cautions[-1]) == (
        "2 judged documents of 2 queries were missed; 1 query has no candidate; "
        "2 missed documents that nobody judged are counted nowhere (`retrieved`)"
    )


BAD_CHANGES = [
    (
        ("a,1,", "a,2,"),
        r"a\.csv:2: column 'found' contains '2'; expected 0 or 1 \(or false and true\): whether the document was "
        "a candidate",
    ),
    (
        ("b,0,", "b,,"),
        r"a\.csv:3: column 'found' is empty; expected 0 or 1",
    ),
    (
        ("e,true,", "e,maybe,"),
        r"a\.csv:6: column 'found' contains 'maybe'",
    ),
    (("0.5", "half"), r"a\.csv:2: column 'bm25' contains 'half'; expected a number"),
    (("0.5", "inf"), r"a\.csv:2: column 'bm25' contains inf; expected a finite number"),
    (("-1,x", "-inf,x"), r"a\.csv:7: column 'bm25' contains -inf; expected a finite number"),
    (("7,2,", "7,two,"), r"a\.csv:3: column 'label' contains 'two'; expected a number"),
    (("7,2,", "7,,"), r"a\.csv:3: column 'label' is empty; expected a finite label"),
    (("a,1,1", "a,1,"), r"a\.csv:2: column 'w' is empty; expected a weight >= 0"),
    (("b,0,,", "b,0,-1,"), r"a\.csv:3: column 'w' contains -1\.0; expected a weight >= 0"),
    (("b,0,,,", "b,0,,-1,"), r"a\.csv:3: column 'pos' contains -1\.0; expected an integer >= 0"),
    (
        ("d,0,6", "d,0,"),
        r"a\.csv:5: query '8' has no candidate, and this missed document no weight; expected a weight >= 0",
    ),
    (("mon,0\n8", "sun,0\n8"), r"a\.csv:3: attribute 'day' is sun here and mon in the first row"),
    (
        ("b,0", "a,0"),
        r"a\.csv:3: document 'a' of query '7' is missed here and a candidate at a\.csv:2 \(1 such row in 1 of 3 "
        r"queries\); expected one row for each document of a query",
    ),
    (
        ("d,0", "c,0"),
        r"a\.csv:5: document 'c' of query '8' is missed here and missed at a\.csv:4",
    ),
]


def test_bad_input(tmp_path: Path) -> None:
    for change, message in BAD_CHANGES:
        with named_case(change):
            assert ROWS.count(change[0]) == 1
            found = message_of(tmp_path, ROWS.replace(*change)).replace(f"{tmp_path}/", "")
            assert re.search(message, found), found


def test_all_missed_or_no_such_column(tmp_path: Path) -> None:
    words = "all documents were missed: `retrieved` is 0 in all rows; expected 1 in the rows of candidates"
    frame = frame_of([0] * 7)
    with pytest.raises(DataError, match=f"frame: {words}"):
        from_frame(frame, **COLUMNS)
    with pytest.raises(DataError, match=f"arrays: {words}"):
        from_arrays([[1.0]], [1], group_sizes=[1], retrieved=[0])
    assert words in message_of(tmp_path, "query_id,label,x,found\n1,2,,0\n", **NOTHING_ELSE)
    with pytest.raises(DataError, match="has no column 'foumd'; did you mean 'found'"):
        from_frame(frame, **{**COLUMNS, "retrieved": "foumd"})
    with pytest.raises(DataError, match=r"column 'found' has the type list<.*>; expected 0 or 1"):
        from_frame(frame.assign(found=[[1]] * 7), **COLUMNS)
    with pytest.raises(ValidationError, match="'found' named more than once"):
        Csv(retrieved="found", features=("found",))
    rule: dict[str, Any] = {"events": {"click": 1}, "unseen": "ignore_below_last_click"}
    with pytest.raises(ValidationError, match="retrieved beside relevance that depends on ranks"):
        Csv(retrieved="found", position="pos", relevance=rule)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([1, 2], r"retrieved\[1\] is 2 \(1 such\); expected 1 or True for candidates"),
        ([1, np.nan], r"retrieved\[1\] is nan"),
        (["1", "0"], r"retrieved\[0\] is 1 \(2 such\)"),
        ([1], "1 value of retrieved for 2 rows of features"),
        ([[1], [0]], "retrieved has shape"),
    ],
)
def test_bad_flags_of_arrays(flags: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_arrays([[1.0], [2.0]], [1, 0], group_sizes=[2], retrieved=flags)


def test_bad_values_of_arrays_have_the_row_of_the_arrays() -> None:
    with pytest.raises(DataError, match=r"features\[2, 0\] is infinite"):
        from_arrays([[1], [np.inf], [np.inf]], [1, 0, 0], group_sizes=[3], retrieved=[1, 0, 1])
    with pytest.raises(DataError, match=r"weights\[0\] is nan"):
        from_arrays([[1], [2]], [1, 0], group_sizes=[2], weights=[np.nan, np.nan], retrieved=[1, 0])


METRICS = [
    "ndcg@3",
    "map",
    "recall@2",
    "mrr",
    "n_relevant",
    "precision@3",
    "rprec",
    "alpha_ndcg@3",
    "ndcg(ties=id)@3",
]


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    n = sum(sizes)
    flags = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    several = lambda values: draw(st.lists(values, min_size=n, max_size=n))  # noqa: E731
    return {
        "query_id": np.repeat(np.arange(len(sizes)), sizes),
        "label": np.array(several(st.integers(0, 3))),
        "x": np.array(several(st.integers(0, 3)), dtype=float),
        "s1": np.array(several(st.integers(0, 2))),
        "s2": np.array(several(st.integers(0, 2))),
        "document_id": np.array(draw(st.permutations([f"d{i}" for i in range(n)]))),
        "found": np.array(flags),
        "order": np.array(draw(st.permutations(range(n)))),
    }


@pytest.mark.long
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pools())
def test_metrics_are_those_of_everything_of_which_a_part_is_listed(
    tmp_path: Path, pool: dict[str, Any]
) -> None:
    frame = pd.DataFrame(pool).iloc[pool["order"]].drop(columns="order")
    flags = frame.found.to_numpy()
    truth = evaluate(
        frame.label,
        frame.x,
        METRICS,
        query_ids=frame.query_id,
        document_ids=frame.document_id,
        retrieved=flags,
        subtopics=frame[["s1", "s2"]],
    )
    roles: dict[str, Any] = {"retrieved": "found", "subtopics": ("s1", "s2"), "document_id": "document_id"}
    frame.assign(x=frame.x.where(flags)).to_csv(tmp_path / "a.csv", index=False)
    sets = [
        from_frame(frame, regroup=True, **roles),
        Csv(regroup=True, **roles).read(["a.csv"], tmp_path),
        from_arrays(
            frame[["x"]],
            frame.label,
            query_ids=frame.query_id,
            document_ids=frame.document_id,
            subtopics=frame[["s1", "s2"]],
            retrieved=flags,
            regroup=True,
        ),
    ]
    assert len({fingerprint_dataset(each) for each in sets[:2]}) == 1
    for data in sets:
        assert data.groups.ids.tolist() == truth.query_ids.tolist()
        binding = Binding([parse_metric(name) for name in METRICS], data.judgments)
        np.testing.assert_array_equal(
            binding.per_query(data.features[:, 0]), np.array([truth[name].per_query for name in METRICS])
        )
        np.testing.assert_array_equal(  # and scores in the order of the files come back to their rows
            data.features[data.file_order if data.file_order is not None else slice(None), 0],
            frame.x.to_numpy()[flags],
        )


def test_labels_of_missed_documents_by_a_rule() -> None:
    frame = pd.DataFrame(
        {
            "query_id": [1, 1, 2],
            "x": [0.5, np.nan, 0.1],
            "found": [1, 0, 1],
            "click": [1, 0, 0],
            "buy": [0, 1, 0],
        }
    )
    data = from_frame(frame, retrieved="found", relevance={"events": {"click": 1, "buy": 4}})
    assert data.labels.tolist() == [1, 0]
    assert data.judgments.missed is not None
    assert data.judgments.missed.labels.tolist() == [4]
    assert data.feature_names == ("x",)


def test_some_queries_alone(tmp_path: Path) -> None:
    data = read_csv(tmp_path)
    part = data.take(np.array([2, 1]))
    assert part.groups.boundaries.tolist() == [0, 2, 2]
    assert part.features.tolist() == [[0.25, 1], [-1, 0]]
    assert part.judgments.missed is not None
    assert part.judgments.missed.labels.tolist() == [2, 3, 1]
    assert part.query_attributes["day"].tolist() == ["mon", "tue"]
    neighbours = data.take(np.array([1, 2]))
    assert neighbours.groups.boundaries.tolist() == [0, 0, 2]
    assert neighbours.features.tolist() == [[0.25, 1], [-1, 0]]
    learned = data.training_rows()
    assert learned.groups.ids.tolist() == [7, 9]
    assert learned.file_order is None or learned.labels[learned.file_order].tolist() == [1, 0, 4]
    nothing = data.take(np.array([1]))
    assert (nothing.n_rows, nothing.n_queries) == (0, 1)


def test_a_split_without_candidates_is_refused(tmp_path: Path) -> None:
    data = read_csv(tmp_path)
    nothing = data.take(np.array([1]), "held out")
    check_alignment({"train": data, "test": data})
    with pytest.raises(DataError) as caught:
        check_alignment({"train": data, "valid": nothing})
    assert str(caught.value) == (
        "valid split (held out): has no candidate in 1 query: all documents were missed; expected at least one"
    )


def test_scores_are_those_of_candidates(tmp_path: Path) -> None:
    data = read_csv(tmp_path)

    def scores_by_row(documents: str) -> list[float]:
        frame = pd.DataFrame({"query_id": [7, 9, 9, 7][: len(documents)], "document_id": list(documents)})
        frame.assign(score=range(len(documents))).to_csv(tmp_path / "s.csv", index=False)
        return read_scores(tmp_path / "s.csv", data.judgments, file_order=data.file_order).tolist()

    assert scores_by_row("afe") == [0, 2, 1]
    with pytest.raises(
        DataError, match=r"document b is not a row of the data; .* missed documents have no rank"
    ):
        scores_by_row("afeb")


def test_catboosts_pools(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("1\tq1\t0.5\t1\n0\tq1\twhatever\t0\n2\tq2\t\t0\n")
    (tmp_path / "a.cd").write_text("0\tLabel\n1\tGroupId\n3\tAuxiliary\tfound\n")
    data = CatBoostPool(retrieved="found").read(["a.tsv"], tmp_path)
    assert data.features.tolist() == [[0.5]]
    assert data.groups.sizes.tolist() == [1, 0]
    assert data.judgments.missed is not None
    assert data.judgments.missed.labels.tolist() == [0, 2]


@pytest.mark.long
def test_real_data_of_which_a_third_was_missed(shared_data: Path, tmp_path: Path) -> None:
    whole = Letor().read(["mq2008/S1.txt"], shared_data)
    write_dataset(whole, tmp_path / "whole.parquet")
    frame = pd.read_parquet(tmp_path / "whole.parquet")
    rng = np.random.default_rng(8)
    flags = rng.random(len(frame)) < 2 / 3
    flags[frame.query_id == frame.query_id[0]] = False
    scores = rng.normal(size=len(frame)).round(1)
    truth = evaluate(whole.labels, scores, METRICS[:7], group_sizes=whole.groups.sizes, retrieved=flags)
    frame.loc[~flags, list(whole.feature_names)] = np.nan
    frame["found"] = flags
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for data in (
        Csv(retrieved="found").read(["a.csv"], tmp_path),
        Parquet(retrieved="found").read(["a.parquet"], tmp_path),
        from_frame(frame, retrieved="found"),
    ):
        np.testing.assert_array_equal(data.features, whole.features[flags])
        assert not data.groups.has_rows[0]
        binding = Binding([parse_metric(name) for name in METRICS[:7]], data.judgments)
        np.testing.assert_array_equal(
            binding.per_query(scores[flags]), [truth[name].per_query for name in METRICS[:7]]
        )


def test_the_cache_keeps_what_was_missed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(ROWS)
    reader, folder = Csv(**COLUMNS), tmp_path / "cache"
    first = DataCache(folder).read(reader, ["a.csv"], tmp_path)
    again = DataCache(folder, verify=True).read(reader, ["a.csv"], tmp_path)
    check(again.dataset)
    assert again.known is not None
    assert fingerprint_dataset(again.dataset) == fingerprint_dataset(first.dataset) == again.known.dataset
    flags = np.ones(7, int)
    frame_of(flags).fillna({"bm25": 0.0, "w": 1, "pos": 1}).replace(np.inf, 0).to_parquet(
        tmp_path / "b.parquet"
    )
    for _ in range(2):
        kept = DataCache(folder).read(Parquet(**COLUMNS), ["b.parquet"], tmp_path).dataset
        assert kept.judgments.missed is not None
        assert kept.judgments.missed.labels.size == 0


def test_the_fingerprint_is_of_missed_subtopics(tmp_path: Path) -> None:
    assert fingerprint_dataset(read_csv(tmp_path)) != fingerprint_dataset(
        read_csv(tmp_path, ROWS.replace("tue,2", "tue,1"))
    )


@pytest.mark.parametrize("file", ["b.csv", "b.tsv", "b.parquet", "b.arrow"])
def test_tables_are_written_with_what_was_missed(tmp_path: Path, file: str) -> None:
    data = read_csv(tmp_path)
    cautions = write_dataset(data, tmp_path / file)
    assert "retrieved=retrieved subtopics=[subtopic_1]" in cautions[-1].text
    roles = {
        **COLUMNS,
        "retrieved": "retrieved",
        "weight": "weight",
        "position": "position",
        "subtopics": ("subtopic_1",),
    }
    reader = (Csv if file[-2:] == "sv" else Parquet)(**roles)
    assert fingerprint_dataset(reader.read([file], tmp_path)) == fingerprint_dataset(data)


def test_writing_says_what_has_no_place(tmp_path: Path) -> None:
    data = read_csv(tmp_path, features=("bm25",), categorical=())
    cautions = write_dataset(data, tmp_path / "b.txt")
    assert cautions[0].text == "1 query without documents to write is left out"
    assert "attributes, missed documents, subtopics, positions, weights have no place" in cautions[-1].text
    assert Letor().read(["b.txt"], tmp_path).groups.ids.tolist() == [7, 9]
    cautions = write_dataset(data, tmp_path / "b", "lightgbm")
    assert "missed documents" in cautions[-1].text
    assert LightGbm().read(["b"], tmp_path).groups.sizes.tolist() == [1, 2]
    odd = read_csv(tmp_path, ROWS.replace("8,", "an id,"), subtopics=(), features=("bm25",), categorical=())
    write_dataset(odd, tmp_path / "b.txt")  # which does not name it
    alone = read_csv(
        tmp_path, ROWS.replace("8,3,", "8,-9,").replace("8,1,", "8,-9,"), unjudged=-9, subtopics=()
    )
    cautions = write_dataset(alone, tmp_path / "b.csv")
    assert "1 query without documents to write is left out" in map(str, cautions)


def test_an_experiment_in_python_keeps_what_was_missed(tmp_path: Path) -> None:
    data = read_csv(tmp_path, subtopics=())
    config = with_files({"name": "a", "data": {"train": data, "test": data}}, tmp_path)["data"]
    assert config["retrieved"] == "retrieved"
    assert config["splits"]["train"] == config["splits"]["test"]
    back = Parquet(
        **{**COLUMNS, "retrieved": "retrieved", "weight": "weight", "position": "position", "subtopics": ()}
    )
    read_again = back.read([config["splits"]["train"]], Path(config["root"]))
    assert fingerprint_dataset(read_again) == fingerprint_dataset(data)
    unsaid = replace(data, judgments=replace(data.judgments, missed=None))
    for train, test, place in ((data, unsaid, "test"), (unsaid, data, "train")):
        with pytest.raises(DataError, match=f"data.{place}: does not say which documents were candidates"):
            with_files({"name": "a", "data": {"train": train, "test": test}}, tmp_path)
