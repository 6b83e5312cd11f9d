"""CSV and Parquet: columns by name, the same result from both, every bad cell named."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from ltr_harness.data.arrays import LONGEST_ID
from ltr_harness.data.dataset import RankingDataset, fingerprint_dataset
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.data.readers.parquet import Parquet, ParquetTable
from ltr_harness.data.readers.rows import SHOWN, limited
from ltr_harness.errors import Caution, DataError, Problem
from tests.conftest import examples, named_case

TEXT = """\
query_id,label,bm25,url,pos,w,device,visits
7,1,0.5,u1,1,1,mobile,3
7,0,,u2,2,3,mobile,NA
12,2,1e-3,u3,1,2,desktop,0
"""
ROLES = {"document_id": "url", "position": "pos", "weight": "w", "attributes": ("device",)}


def from_csv(folder: Path, text: str | bytes, name: str = "a.csv", **options: object) -> RankingDataset:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return Csv(**options).read([name], folder)  # type: ignore[arg-type]


def from_parquet(folder: Path, columns: dict[str, object], **options: object) -> RankingDataset:
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return Parquet(**options).read(["a.parquet"], folder)  # type: ignore[arg-type]


def message_of(folder: Path, text: str | bytes, name: str = "a.csv", **options: object) -> str:
    with pytest.raises(DataError) as caught:
        from_csv(folder, text, name, **options)
    return str(caught.value)


def check_the_example(data: RankingDataset) -> None:
    assert data.groups.ids.tolist() == [7, 12]
    assert data.groups.ids.dtype == np.int64
    assert data.groups.sizes.tolist() == [2, 1]
    assert data.labels.tolist() == [1, 0, 2]
    assert data.feature_names == ("bm25", "visits")
    nan = np.nan
    np.testing.assert_array_equal(data.features, np.array([[0.5, 3], [nan, nan], [1e-3, 0]], np.float32))
    assert data.judgments.document_ids is not None
    assert data.judgments.document_ids.tolist() == ["u1", "u2", "u3"]
    assert data.positions is not None
    assert data.positions.tolist() == [1, 2, 1]
    assert data.judgments.query_weights is not None
    assert data.judgments.query_weights.tolist() == [(1 + 3) / 2, 2]
    assert data.row_weights is not None
    assert data.row_weights.tolist() == [1, 3, 2]
    assert data.query_attributes["device"].tolist() == ["mobile", "desktop"]
    assert not data.sparse
    assert data.cautions == (
        Caution(
            "row-weights", "note", "weights differ within 1 of 2 queries, which count their mean in metrics"
        ),
    )


def test_csv(tmp_path: Path) -> None:
    check_the_example(from_csv(tmp_path, TEXT, **ROLES))


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.rstrip(),
        "\ufeff" + TEXT,
        TEXT.replace("\n12", "\n\n\n12") + "\n\n",
        TEXT.replace("mobile", '"mobile"').replace("query_id", '"query_id"'),
    ],
)
def test_csv_dialects(tmp_path: Path, text: str) -> None:
    check_the_example(from_csv(tmp_path, text, **ROLES))


def test_separators_and_gzip(tmp_path: Path) -> None:
    check_the_example(from_csv(tmp_path, TEXT.replace(",", "\t"), "a.tsv", **ROLES))
    check_the_example(
        from_csv(tmp_path, gzip.compress(TEXT.replace(",", "\t").encode()), "a.tsv.gz", **ROLES)
    )
    check_the_example(from_csv(tmp_path, TEXT.replace(",", ";"), separator=";", **ROLES))


def test_parquet(tmp_path: Path) -> None:
    columns: dict[str, object] = {
        "query_id": [7, 7, 12],
        "label": [1, 0, 2],
        "bm25": [0.5, None, 1e-3],
        "url": ["u1", "u2", "u3"],
        "pos": [1, 2, 1],
        "w": [1.0, 3.0, 2.0],
        "device": ["mobile", "mobile", "desktop"],
        "visits": [3, None, 0],
    }
    check_the_example(from_parquet(tmp_path, columns, **ROLES))
    columns["query_id"] = pa.array(["7", "7", "12"]).dictionary_encode()
    columns["device"] = pa.array(["mobile", "mobile", "desktop"]).dictionary_encode()
    columns["label"] = pa.array([1, 0, 2], pa.uint8())
    columns["w"] = pa.array([1, 3, 2]).cast(pa.decimal128(30, 2))
    columns["url"] = pa.array(["u1", "u2", "u3"], pa.large_string())
    check_the_example(from_parquet(tmp_path, columns, **ROLES))


def test_columns_that_are_no_features_are_said(tmp_path: Path) -> None:
    data = from_csv(tmp_path, TEXT)
    assert data.feature_names == ("bm25", "pos", "w", "visits")
    assert data.cautions == (
        Caution("ignored-columns", "note", "ignored non-numeric columns of a.csv: url, device"),
    )
    assert from_csv(tmp_path, TEXT, features=("visits", "bm25")).feature_names == ("visits", "bm25")


def test_query_ids_keep_their_text(tmp_path: Path) -> None:
    assert from_csv(tmp_path, "query_id,label,x\n007,1,1\n7,0,1\n").groups.ids.tolist() == ["007", "7"]
    assert from_csv(tmp_path, "query_id,label,x\nNULL,1,1\nNA,0,1\n").groups.ids.tolist() == ["NULL", "NA"]


def test_scattered_queries(tmp_path: Path) -> None:
    text = 'query_id,label,x\n1,0,"1"\n\n2,0,2\n1,1,3\n'
    assert message_of(tmp_path, text).startswith(
        f"{tmp_path}/a.csv:5: query '1' is not contiguous; its first row is at {tmp_path}/a.csv:2"
    )
    data = from_csv(tmp_path, text, regroup=True)
    assert data.features[:, 0].tolist() == [1, 3, 2]


def test_a_query_in_two_files_is_scattered_even_if_adjacent(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query_id,label,x\n1,0,1\n")
    (tmp_path / "b.csv").write_text("query_id,label,x\n1,1,2\n")
    with pytest.raises(DataError, match=r"b\.csv:2: query '1' is not contiguous.* is at .*a\.csv:2"):
        Csv().read(["a.csv", "b.csv"], tmp_path)
    assert Csv(regroup=True).read(["a.csv", "b.csv"], tmp_path).groups.sizes.tolist() == [2]


def test_several_files_in_any_column_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query_id,label,x,y\n1,0,1,2\n")
    (tmp_path / "b.csv").write_text("y,query_id,x,label\n4,2,3,1\n")
    data = Csv().read(["a.csv", "b.csv"], tmp_path)
    assert data.features.tolist() == [[1, 2], [3, 4]]
    assert data.labels.tolist() == [0, 1]
    (tmp_path / "b.csv").write_text("query_id,x,label\n2,3,1\n")
    with pytest.raises(DataError, match=r"b\.csv: has no column 'y'"):
        Csv().read(["a.csv", "b.csv"], tmp_path)


def test_attributes_belong_to_queries(tmp_path: Path) -> None:
    text = TEXT.replace("u2,2,3,mobile", "u2,2,3,tablet")
    assert message_of(tmp_path, text, attributes=("device",)).startswith(
        f"{tmp_path}/a.csv:3: attribute 'device' is tablet here and mobile in the first row of query '7'"
    )
    numbers = "query_id,label,x,year\n1,0,1,2024\n2,0,1,2025\n"
    assert from_csv(tmp_path, numbers, attributes=("year",)).query_attributes["year"].tolist() == [2024, 2025]


def test_a_key_of_several_columns(tmp_path: Path) -> None:
    text = "week,customer,label,x\n1,7,1,0.5\n1,7,0,0.1\n1,8,1,0.2\n2,7,0,0.3\n"
    data = from_csv(tmp_path, text, query=("week", "customer"))
    assert data.groups.ids.tolist() == ["1/7", "1/8", "2/7"]
    assert data.groups.sizes.tolist() == [2, 1, 1]
    assert data.feature_names == ("x",)
    frame = pd.DataFrame({"week": [1, 1], "customer": ["a", "b"], "label": [1, 0], "x": [0.5, 0.1]})
    assert from_frame(frame, query=["week", "customer"]).groups.ids.tolist() == ["1/a", "1/b"]
    found = message_of(tmp_path, text.replace("1,8,1", "1/8,8,1"), query=("week", "customer"))
    assert found == (
        f"{tmp_path}/a.csv:4: column 'week' contains '1/8'; expected no '/', which joins the columns of `query`"
    )
    found = message_of(tmp_path, text.replace("1,8,1", "1,,1"), query=("week", "customer"))
    assert found.startswith(f"{tmp_path}/a.csv:4: column 'customer' is empty; expected a query id")
    with pytest.raises(ValueError, match="query of several columns beside relevance; expected one"):
        Csv(query=("week", "customer"), relevance={"events": {"label": 1}})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dates", "ids"),
    [
        ([date(2024, 1, 2), date(2024, 1, 3)], ["2024-01-02", "2024-01-03"]),
        ([datetime(2024, 1, 2), datetime(2024, 1, 3)], ["2024-01-02", "2024-01-03"]),
        (
            [datetime(2024, 1, 2), datetime(2024, 1, 2, 9, 30)],
            ["2024-01-02 00:00:00.000000", "2024-01-02 09:30:00.000000"],
        ),
    ],
)
def test_dates_and_times_are_query_ids(tmp_path: Path, dates: list[object], ids: list[str]) -> None:
    data = from_parquet(tmp_path, {"day": dates, "label": [1, 0], "x": [0.5, 0.1]}, query="day")
    assert data.groups.ids.tolist() == ids


def test_one_problem_for_each_column_of_words(tmp_path: Path) -> None:
    rows = "".join(f"{row},{'AB'[row % 2]},{'uvw'[row % 3]},{-(row % 2)}\n" for row in range(500))
    found = message_of(tmp_path, "query_id,brand,shop,label\n" + rows, features=("brand", "shop"))
    cure = "`categorical: [brand, shop]` reads it as categories; or leave it out of `features:`"
    rows = f"(500 rows, this is the first); expected a number; {cure}"
    assert found.splitlines() == [
        f"{tmp_path}/a.csv:2: column 'brand' contains 'A', 'B' {rows}",
        f"{tmp_path}/a.csv:2: column 'shop' contains 'u', 'v', 'w' {rows}",
    ]
    typed = {"query_id": [1, 1], "label": [1, 0], "brand": ["A", "B"]}
    with pytest.raises(
        DataError, match=r"column 'brand' has the type string; expected numbers; `categorical: \[brand"
    ):
        from_parquet(tmp_path, typed, features=("brand",))
    dated = {"query_id": [1, 1], "label": [1, 0], "day": [date(2024, 1, 2), date(2024, 1, 3)]}
    with pytest.raises(
        DataError, match=r"'day' has the type date32\[day\]; expected numbers; write it as a number"
    ):
        from_parquet(tmp_path, dated, features=("day",))


def test_one_problem_for_labels(tmp_path: Path) -> None:
    words = "".join(f"{row},{('poor', 'good')[row % 2]},1\n" for row in range(500))
    assert message_of(tmp_path, "query_id,label,x\n" + words) == (
        f"{tmp_path}/a.csv:2: column 'label' contains 'poor', 'good' (500 rows, this is the first); expected a number; "
        "where labels are words, `grades: {poor: 0, good: 1}` says what each stands for"
    )


HEAD = "query_id,label,x,y\n"
BROKEN: dict[str, tuple[str, str]] = {
    "label name": ("query_id,lable,x\n1,1,1\n", ": has no column 'label'; did you mean 'lable'? (known: lable, "),
    "no header": ("1,0,0.5,0.7\n", ": the first row has values, not names: 1, 0, 0.5, 0.7; expected a header with"),
    "no header, equal values": ("1,0,0,0\n", ": the first row has values, not names: 1, 0, 0, 0; expected a header"),
    "no header, a text": ("q1,0,0.5,0.7\n1,2,3,4\n", ": the first row has values, not names: q1, 0, 0.5, 0.7;"),
    "no header, wide": ("1,0,.5,.7,1,2\n", ": the first row has values, not names: 1, 0, .5, .7, 1, 2; expected"),
    "no header, wider": ("1,0,.5,.7,1,2,3\n", ": the first row has values, not names: 1, 0, .5, .7, 1, 2, …; expected"),
    "numbered columns": ("qid,label,1,2,3\n1,0,1,2,3\n", ": has no column 'query_id'; did you mean `query: qid`?"),
    "separator": ("query_id;label;x\n1;1;1\n", ":1: the header is one field, and 3 where a semicolon separates them"),
    "decimal commas": (
        'query_id,label,x,url\n1,1,"-0,5",a\n1,0,"1.234,25",b\n',
        ":2: column 'x' contains '-0,5'; expected a number such as 1234.5; write numbers with a decimal point",
    ),
    "decimal commas without quotes": (
        "query_id,label,x\n1,1,0,5\n1,0,1,25\n",
        ":2: the row has 4 fields, like all 2; expected 3, as in the header; are there decimal commas, or commas",
    ),
    "no rows": (HEAD, ": has a header and no rows; expected rows"),
    "empty": ("", ": the file is empty"),
    "blank": ("\n\n", ": has only blank lines"),
    "twice": ("query_id,label,x,x\n1,1,1,1\n", ":1: the header names 'x' twice"),
    "short": (HEAD + "1,0,1,1\n1,0,1\n", ":3: the row has 3 fields; expected 4, as in the header"),
    "long": (HEAD + "\n1,0,1,1\n1,0,1,1,1\n", ":4: the row has 5 fields; expected 4, as in the header"),
    "feature text": (HEAD + "1,0,1,1\n1,0,1,abc\n", ":3: column 'y' contains 'abc'; expected a number"),
    "decimal comma": (HEAD + '1,0,1,"0,5"\n', ":2: column 'y' contains '0,5'; expected a number"),
    "label text": (
        HEAD + "1,good,1,1\n",
        ":2: column 'label' contains 'good'; expected a number; put its words in order, worst first, and number them "
        "from 0 with `grades:`: good",
    ),
    "label empty": (HEAD + "1,,1,1\n", ":2: column 'label' is empty; expected a finite label"),
    "label nan": (HEAD + "1,0,1,1\n1,nan,1,1\n", ":3: column 'label' contains 'nan'; expected a finite label"),
    "label NULL": (HEAD + "1,0,1,1\n1,,1,1\n1,NULL,1,1\n", ":3: column 'label' is empty, 'NULL' (2 rows"),
    "label inf": (HEAD + "1,inf,1,1\n", ":2: column 'label' contains inf; expected a finite label"),
    "query empty": (HEAD + ",0,1,1\n", ":2: column 'query_id' is empty; expected a query id"),
    "query with NUL": (HEAD + "1,0,1,1\n1\0,0,1,1\n", ":3: column 'query_id' contains '1\\x00'; expected a query id"),
    "infinite": (HEAD + "1,0,1,inf\n", ":2: column 'y' contains inf; expected a finite number"),
    "too large": (HEAD + "1,0,1,1e39\n", ":2: column 'y' contains 1e+39; expected a finite number in the range of"),
    "after a quoted line break": ('query_id,label,x,y\n"1\n2",0,1,1\n1,0,z,1\n', ":4: column 'x' contains 'z'"),
}  # fmt: skip


def test_broken_csv(tmp_path: Path) -> None:
    for case in BROKEN:
        with named_case(case):
            text, message = BROKEN[case]
            features = ("x", "y") if text.startswith(HEAD) else None
            found = message_of(tmp_path, text, features=features)
            assert found.startswith(f"{tmp_path}/a.csv{message}"), found


def test_all_bad_cells_together(tmp_path: Path) -> None:
    text = HEAD + "1,0,a,1\n1,b,1,1\n1,0,1,c\n"
    found = message_of(tmp_path, text, features=("x", "y")).splitlines()
    assert [line.split(": ")[0].rsplit(":")[-1] for line in found] == ["2", "3", "4"]


def test_positions_and_weights_are_checked(tmp_path: Path) -> None:
    text = TEXT.replace("u2,2,3", "u2,1.5,-3")
    found = message_of(tmp_path, text, **ROLES)
    assert "a.csv:3: column 'pos' contains 1.5; expected an integer >= 0" in found
    assert "a.csv:3: column 'w' contains -3.0; expected a weight >= 0" in found


def test_bad_files_in_every_place(tmp_path: Path) -> None:
    assert "the gzip file ends too early" in message_of(tmp_path, gzip.compress(TEXT.encode())[:50])
    (tmp_path / "a.parquet").write_text(TEXT)
    with pytest.raises(DataError, match=r"a\.parquet: is not a Parquet file, or is damaged"):
        Parquet().read(["a.parquet"], tmp_path)
    from_parquet(tmp_path, {"query_id": [1], "label": [1], "x": [1.0]})
    # Arrow's own way to tell of such rows decodes them, fails, and passes over them with a traceback.
    assert message_of(tmp_path, TEXT.encode() + b"1,\xe9\n").endswith(", as in the header")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[:-20])
    with pytest.raises(DataError, match=r"a\.parquet: is not a Parquet file, or is damaged"):
        Parquet().read(["a.parquet"], tmp_path)
    assert (
        "is a Parquet file; expected a text file; call it .parquet, or use `reader: parquet`"
        in message_of(tmp_path, whole)
    )


def test_parquet_rows_and_types_are_named(tmp_path: Path) -> None:
    base: dict[str, object] = {"query_id": [1, 1], "label": [1, 0], "x": [1.0, 2.0]}
    cases: list[tuple[dict[str, object], dict[str, object], str]] = [
        (
            {"label": [1, -np.inf]},
            {},
            "a.parquet: row 2: column 'label' contains -inf; expected a finite label",
        ),
        ({"label": [1, None]}, {}, "a.parquet: row 2: column 'label' is empty"),
        ({"label": ["1", "0"]}, {}, "a.parquet: column 'label' has the type string; expected numbers"),
        ({"x": [1.0, np.inf]}, {}, "a.parquet: row 2: column 'x' contains inf"),
        (
            {"x": ["a", "b"]},
            {"features": ("x",)},
            "a.parquet: column 'x' has the type string; expected numbers",
        ),
        (
            {"query_id": [1.0, 2.0]},
            {},
            "a.parquet: column 'query_id' has the type double; expected a query id: integers or text; are the ids "
            "stored as floats?",
        ),
        (
            {"query_id": [None, 2]},
            {},
            "a.parquet: row 1: column 'query_id' is empty; expected a query id",
        ),
    ]
    for changes, options, message in cases:
        with pytest.raises(DataError) as caught:
            from_parquet(tmp_path, base | changes, **options)
        assert str(caught.value).startswith(f"{tmp_path}/{message}"), str(caught.value)
    with pytest.raises(DataError, match="has no rows"):
        from_parquet(tmp_path, {name: pa.array([], pa.int64()) for name in base})


def test_one_role_for_each_column() -> None:
    with pytest.raises(ValidationError, match="features: 'label' is the label; expected features without it"):
        Csv(features=("x", "label"))
    with pytest.raises(
        ValidationError, match="'market' named more than once; expected one role for each column"
    ):
        Csv(features=("x", "market"), attributes=("market",))
    with pytest.raises(ValidationError, match="features is empty"):
        Csv(features=())
    with pytest.raises(ValidationError, match="separator"):
        Csv(separator="||")


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=4)


@pytest.mark.long
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([("'=", 0.0, None), ("''@a", 1.0, 2.0), ("=", 2.0, 1.0)])
@given(
    st.lists(
        st.tuples(texts, st.floats(0, 9), st.floats(width=32, allow_infinity=False) | st.none()),
        min_size=1,
        max_size=6,
    )
)
def test_csv_and_parquet_agree(tmp_path: Path, rows: list[tuple[str, float, float | None]]) -> None:
    import csv

    with open(tmp_path / "a.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
        writer.writerow(["query_id", "label", "x"])
        writer.writerows([q, repr(label), "" if x is None else repr(x)] for q, label, x in rows)
    left = Csv(regroup=True, features=("x",)).read(["a.csv"], tmp_path)
    queries, labels, values = zip(*rows, strict=True)
    # an apostrophe before a formula is the CSV's, not the text's (docs/trust.md, "Spreadsheets")
    queries = [re.sub(r"^'('*[=+\-@])", r"\1", query) for query in queries]
    columns = {"query_id": queries, "label": labels, "x": pa.array(values, pa.float64())}
    right = from_parquet(tmp_path, columns, regroup=True, features=("x",))
    assert fingerprint_dataset(left) == fingerprint_dataset(right)


def test_parquet_features_are_never_in_memory_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    whole = ParquetTable.read

    def read(table: ParquetTable, numbers: Sequence[str], texts: Sequence[str]) -> Any:
        asked.append(list(numbers))
        return whole(table, numbers, texts)

    monkeypatch.setattr(ParquetTable, "read", read)
    data = from_parquet(tmp_path, {"query_id": [1, 1], "label": [1, 0], "x": [1.0, 2.0], "y": [3, 4]})
    assert data.features.tolist() == [[1, 3], [2, 4]]
    assert asked == [["label"], ["x"], ["y"]]


def test_bounds_belong_to_what_is_taken(tmp_path: Path) -> None:
    """Positions from 0 on, texts as long as the longest id."""
    columns = {
        "query_id": [1, 1],
        "label": [1, 0],
        "x": [1.0, 2.0],
        "pos": [0, 1],
        "shop": ["s" * LONGEST_ID] * 2,
    }
    data = from_parquet(tmp_path, columns, position="pos", attributes=("shop",))
    assert data.positions is not None
    assert data.positions.tolist() == [0, 1]
    assert data.query_attributes["shop"].tolist() == ["s" * LONGEST_ID]
    with pytest.raises(DataError, match=f"of at most {LONGEST_ID:,} bytes"):
        from_parquet(tmp_path, columns | {"shop": ["s" * (LONGEST_ID + 1)] * 2}, attributes=("shop",))


def test_ids_of_other_types_are_no_floats(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        from_parquet(tmp_path, {"query_id": [[1], [2]], "label": [1, 0], "x": [1.0, 2.0]})
    (problem,) = caught.value.problems
    assert (problem.found.startswith("column 'query_id' has the type list<"), problem.cure) == (True, "")


@pytest.mark.parametrize("left", [0, 1, 2])
def test_problems_beyond_those_listed_are_counted(left: int) -> None:
    told = limited([Problem("", f"row {row}") for row in range(SHOWN + left)])
    more = {1: ["and 1 more such row"], 2: ["and 2 more such rows"]}.get(left, [])
    assert [problem.found for problem in told[SHOWN:]] == more


def test_columns_of_other_types_are_told_together(tmp_path: Path) -> None:
    columns = {"query_id": [1], "label": ["a"], "x": ["b"], "y": [1.0]}
    with pytest.raises(DataError) as caught:
        from_parquet(tmp_path, columns, features=("x", "y"))
    assert [problem.found for problem in caught.value.problems] == [
        "column 'x' has the type string",
        "column 'label' has the type string",
    ]


def test_outcomes_are_features_only_where_they_are_named(tmp_path: Path) -> None:
    text = "query_id,click,bm25,buy,Add to cart,is_favorite,click_rate\n1,1,0.5,1,0,1,0.2\n"
    data = from_csv(tmp_path, text, label="click")
    assert data.feature_names == ("bm25", "click_rate")
    assert tuple(map(str, data.cautions)) == (
        "ignored outcomes of a.csv: buy, Add to cart, is_favorite; `features:` with their names would learn from them",
    )
    assert from_csv(tmp_path, text, label="click", features=("buy", "bm25")).feature_names == ("buy", "bm25")


def test_ids_and_times_are_features_only_where_they_are_named(tmp_path: Path) -> None:
    text = "query_id,label,bm25,user_id,session,timestamp,brand-id,valid\n1,1,0.5,7,8,1700000000,3,1\n"
    data = from_csv(tmp_path, text)
    assert data.feature_names == ("bm25", "valid")
    assert tuple(map(str, data.cautions)) == (
        "ignored ids and times of a.csv: user_id, session, timestamp, brand-id; `features:` with their names would "
        "learn from them",
    )
    assert from_csv(tmp_path, text, features=("user_id", "bm25")).feature_names == ("user_id", "bm25")
    columns = {"query_id": [1], "label": [1], "bm25": [0.5], "docid": [3]}
    assert from_parquet(tmp_path, columns).feature_names == ("bm25",)
