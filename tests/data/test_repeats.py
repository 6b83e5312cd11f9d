"""A document twice in a query, as after a join that multiplies rows: refused at every door that has document ids."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ltr_harness.arrow import per_query
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.memory import from_arrays, from_frame
from ltr_harness.data.repeats import row_before
from ltr_harness.errors import DataError
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.evaluation import evaluate

LABELS, SCORES, SIZES = [0, 1, 1, 0], [0.4, 0.3, 0.3, 0.1], [1, 3]
IDS = ["a", "a", "a", "b"]  # of the second query, document a is two rows


def joined_twice(n_queries: int = 50) -> pd.DataFrame:
    """Five documents a query, of which relevant ones came out of a join three times."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(n_queries), 5),
            "document_id": [f"d{at % 5}" for at in range(5 * n_queries)],
            "label": np.tile([2, 0, 0, 1, 0], n_queries),
            "bm25": rng.normal(size=5 * n_queries).round(4),
        }
    )
    times = np.where(rows["label"] > 0, 3, 1)
    return rows.loc[rows.index.repeat(times)].reset_index(drop=True)


def by_arrow() -> Any:
    rows = {"query_id": [0, 1, 1, 1], "label": LABELS, "score": SCORES, "document_id": IDS}
    return per_query(pa.table(rows), ["ndcg"], {"document_id": "document_id"})


GROUPS = QueryGroups.from_sizes(SIZES)


@pytest.mark.parametrize(
    "door",
    [
        lambda: evaluate(LABELS, SCORES, ["ndcg"], group_sizes=SIZES, document_ids=IDS),
        lambda: evaluate(LABELS, SCORES, ["ndcg"], query_ids=[0, 1, 1, 1], document_ids=IDS),
        lambda: Judgments.checked(LABELS, GROUPS, document_ids=IDS),
        lambda: parse_metric("ndcg").explain(LABELS[1:], SCORES[1:], IDS[1:]),
        by_arrow,
    ],
    ids=["sizes", "ids", "judgments", "explain", "arrow"],
)
def test_arrays(door: Callable[[], Any]) -> None:
    with pytest.raises(DataError) as caught:
        door()
    text = str(caught.value)
    assert "document 'a' of query" in text
    assert "is its rows 0 and 1" in text
    assert "if a join has multiplied the rows, keep one of each" in text or "are these the ids" in text


def test_rows_in_memory() -> None:
    features = np.ones((4, 1))
    with pytest.raises(DataError) as caught:
        from_arrays(features, LABELS, group_sizes=SIZES, document_ids=IDS)
    assert str(caught.value) == (
        "arrays: row 2: document 'a' of query '1' is at arrays: row 1 already (1 such row in 1 of 2 queries); "
        "expected one row for each document of a query; if a join has multiplied the rows, keep one of each; rows "
        "that have no ids need no `document_id`"
    )


def test_a_frame_and_how_many_rows_and_queries() -> None:
    with pytest.raises(DataError, match=r"frame: row 2: .* \(200 such rows in 50 of 50 queries\)"):
        from_frame(joined_twice())  # of five documents two are there three times


def test_ids_that_are_all_the_same() -> None:
    with pytest.raises(DataError, match=r"as in all 450 rows\); .*; are these the ids"):
        from_frame(joined_twice().assign(document_id="x"))


def test_ids_that_compare_themselves_with_whole_arrays() -> None:
    """Compare ids one by one: an offset of pandas answers `array == offset` with False."""
    ids = np.array([pd.DateOffset(months=1)] * len(LABELS), dtype=object)
    with pytest.raises(DataError, match=r"as in all 4 rows.*are these the ids of documents\?"):
        Judgments.checked(LABELS, GROUPS, document_ids=ids)


def test_a_document_in_two_queries_is_no_repeat() -> None:
    evaluate([0, 1], [1, 2], ["ndcg"], group_sizes=[1, 1], document_ids=["a", "a"])


def write_rows(frame: pd.DataFrame, suffix: str) -> str:
    """The name of a file of these rows, the first of which is in line 1, or 2 below a header, or row 1."""
    if suffix == "csv":
        frame.to_csv("rows.csv", index=False)
    elif suffix == "parquet":
        frame.to_parquet("rows.parquet")
    else:
        columns = (frame[name].tolist() for name in ("label", "query_id", "bm25", "document_id"))
        rows = zip(*columns, strict=True)
        lines = (f"{label} qid:{query} 1:{bm25} #docid = {name}\n" for label, query, bm25, name in rows)
        Path("rows.txt").write_text("".join(lines))
    return f"rows.{suffix}"


EXPERIMENT = """
name: repeats
data: {reader: %s, files: [%s], folds: 5}
metrics: {report: [ndcg], cutoffs: [10], primary: ndcg@10}
models: {one: {ranker: feature, feature: %s}, two: {ranker: random}}
"""


@pytest.mark.parametrize(
    ("reader", "suffix", "place"),
    [
        ("csv", "csv", "rows.csv:3"),
        ("parquet", "parquet", "rows.parquet: row 2"),
        ("letor", "txt", "rows.txt:2"),
    ],
)
@pytest.mark.parametrize(
    "command", ["check e.yaml", "run e.yaml", "data describe FILE", "init FILE -o new.yaml"]
)
def test_files(
    reader: str,
    suffix: str,
    place: str,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_rows(joined_twice(), suffix)
    feature = "'1'" if suffix == "txt" else "bm25"
    Path("e.yaml").write_text(EXPERIMENT % (reader, file, feature))
    assert run_command(cli, command.replace("FILE", file).split()) == 2
    message = capsys.readouterr().err.replace("\n", " ")
    message = " ".join(message.split())
    assert f"{place}: document 'd0' of query '0' is at" in message
    assert "(200 such rows in 50 of 50 queries)" in message
    assert not Path("new.yaml").exists()


def test_lists_that_were_shown_may_have_a_document_twice() -> None:
    shown = joined_twice().rename(columns={"label": "click"})
    data = from_frame(shown, relevance={"events": {"click": 1}})
    [caution] = [one for one in data.cautions if one.kind == "repeated-documents"]
    assert caution.severity == "warning"
    assert "(200 such rows in 50 of 50 queries)" in caution.text


@pytest.mark.long
def test_row_before_agrees_with_a_dictionary() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        sizes = rng.integers(1, 40, rng.integers(1, 9))
        boundaries = np.concatenate(([0], np.cumsum(sizes)))
        numbers = rng.integers(0, 20, boundaries[-1])
        expected = np.full(numbers.size, -1)
        for start, end in itertools.pairwise(boundaries):
            last: dict[int, int] = {}
            for row in range(start, end):
                expected[row] = last.get(int(numbers[row]), -1)
                last[int(numbers[row])] = row
        for ids in (
            numbers,
            numbers.astype(np.uint8),
            numbers.astype(np.int16),
            numbers.astype(str),
            numbers.astype(float),
            numbers.astype("S"),
            numbers.astype(str).astype(object),
        ):
            assert row_before(ids, boundaries).tolist() == expected.tolist(), ids.dtype
