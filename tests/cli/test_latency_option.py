"""`--latency`: a table of all rankings, JSON or a column of their files; what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

from ltr_harness.report.json_document import schema

N = 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Candidates and a reranked list, which has the answer first more often and takes 40 ms more."""
    rng = np.random.default_rng(0)
    qrels = {f"q{n}": ["right"] for n in range(N)}
    places = {"first": rng.integers(0, 5, N), "reranked": rng.integers(0, 2, N)}
    milliseconds: dict[str, Any] = {"query_id": list(qrels)}
    for name, place in places.items():
        lists = {}
        milliseconds[name] = (20 if name == "first" else 60) + rng.exponential(5, N).round(2)
        rows = []
        for number, query in enumerate(qrels):
            ids = [f"other{rank}" for rank in range(5)]
            ids.insert(place[number], "right")
            lists[query] = ids
            rows += [(query, ids[rank], -rank, milliseconds[name][number]) for rank in range(6)]
        (tmp_path / f"{name}.json").write_text(json.dumps(lists))
        columns = ["query_id", "doc_id", "score", "ms"]
        pd.DataFrame(rows, columns=columns).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "values").mkdir()
    (tmp_path / "qrels.json").write_text(json.dumps(qrels))
    pd.DataFrame(milliseconds).to_csv(tmp_path / "latency.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMPARE = ("compare", "first.json", "reranked.json", "--qrels", "qrels.json", "-m", "mrr@5", "--latency")


@pytest.mark.usefixtures("empty_pictures")
def test_quality_against_latency_in_every_format(folder: Path, ltr: Any) -> None:
    code, said, _ = ltr(*COMPARE, "latency.csv", "-o", "out")
    assert code == 0
    table = pd.read_csv("latency.csv")
    p50, p95 = (np.quantile(table.reranked, share, method="inverted_cdf") for share in (0.5, 0.95))
    text = " ".join(said.split())
    assert f"Latency, ms: reranked p50 {p50:.1f} (" in text
    assert f"p95 {p95:.1f} (" in text
    mean = (table.reranked - table["first"]).mean()
    assert f"Beside first, reranked is better and slower, by {mean:+.2f} ms a query (" in text
    document = json.loads((folder / "out/report.json").read_text())
    jsonschema.Draft202012Validator(schema()).validate(document)
    reranked, first = document["latencies"]
    assert (reranked["model"], reranked["verdict"], first["verdict"]) == ("reranked", "trade-off", None)
    assert reranked["difference"]["difference"] == pytest.approx(mean)
    assert reranked["p95"]["value"] == p95
    assert (reranked["documents"], first["documents"]) == (6, 6)
    gain = document["pairs"][0]["difference"]
    assert f"trade-off, {mean / gain / 100:.2f} ms for each 0.01 of mrr@5" in text
    page = (folder / "out/report.html").read_text()
    assert "Quality against latency: milliseconds per query, over 60 queries" in page
    assert json.loads(ltr(*COMPARE, "latency.csv", "--json")[1])["latencies"] == document["latencies"]


def test_a_column_of_the_rankings_and_json_are_the_same(folder: Path, ltr: Any) -> None:
    _, from_table, _ = ltr(*COMPARE, "latency.csv", "--json")
    by_model = pd.read_csv("latency.csv").set_index("query_id").to_dict()
    Path("latency.json").write_text(json.dumps(by_model))
    _, from_json, _ = ltr(*COMPARE, "latency.json", "--json")
    columns = [
        part.replace(".json", ".csv") if part in ("first.json", "reranked.json") else part for part in COMPARE
    ]
    _, from_column, _ = ltr(*columns, "ms", "--json")
    latencies = [json.loads(text)["latencies"] for text in (from_table, from_json, from_column)]
    assert latencies[0] == latencies[1] == latencies[2]


def test_evaluate_has_the_latency_of_one_ranking_and_of_several(folder: Path, ltr: Any) -> None:
    one = ("evaluate", "--qrels", "qrels.json", "--run", "reranked.csv", "-m", "mrr@5", "--latency", "ms")
    code, said, _ = ltr(*one)
    assert code == 0
    assert "Latency, ms: reranked p50 6" in said
    (latency,) = json.loads(ltr(*one, "--json")[1])["latencies"]
    assert (latency["model"], latency["verdict"], latency["n_queries"]) == ("reranked", None, N)
    code, said, _ = ltr(*one, "--run", "first.csv")
    assert code == 0
    assert "Beside reranked, first is worse and faster" in " ".join(said.split())
    several = json.loads(ltr(*one, "--run", "first.csv", "--json")[1])
    assert [one["model"] for one in several["comparison"]["latencies"]] == ["reranked", "first"]
    without = json.loads(ltr(*one[:-2], "--json")[1])
    assert "latencies" not in without


def test_the_depth_of_rankings_stands_beside_their_latency(folder: Path, ltr: Any) -> None:
    lists = json.loads(Path("reranked.json").read_text())
    short = {query: ids[: 2 + number % 2] for number, (query, ids) in enumerate(lists.items())}
    Path("reranked.json").write_text(json.dumps(short))
    latencies = json.loads(ltr(*COMPARE, "latency.csv", "--json")[1])["latencies"]
    assert {one["model"]: one["documents"] for one in latencies} == {"reranked": 2.5, "first": 6}
    # tables of values have no rankings
    for name in ("first", "reranked"):
        pd.DataFrame({"query_id": list(lists), "mrr@5": 0.5}).to_csv(f"values/{name}.csv", index=False)
    command = ("compare", "values/first.csv", "values/reranked.csv", "--latency", "latency.csv", "--json")
    latencies = json.loads(ltr(*command)[1])["latencies"]
    assert [(one["documents"], one["n_queries"]) for one in latencies] == [(None, N), (None, N)]


def test_seconds_beside_milliseconds_are_noticed(folder: Path, ltr: Any) -> None:
    table = pd.read_csv("latency.csv")
    table.assign(first=table["first"] / 1000).to_csv("mixed.csv", index=False)
    _, _, said = ltr(*COMPARE, "mixed.csv")
    assert "the median latency of reranked, 6" in said
    assert "are both in milliseconds?" in said


def changed(**columns: Any) -> pd.DataFrame:
    table = pd.read_csv("latency.csv").astype(object)
    for name, value in columns.items():
        table.loc[3, name] = value
    return table


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (-1.5, "latency -1.5 of reranked, query 'q3'"),
        (np.nan, "latency nan of reranked, query 'q3'"),
        ("12 ms", "latency '12 ms' of reranked, query 'q3'"),
        ("inf", "latency inf of reranked, query 'q3'"),
    ],
)
def test_bad_values_are_named(folder: Path, ltr: Any, value: Any, found: str) -> None:
    changed(reranked=value).to_csv("bad.csv", index=False)
    code, _, said = ltr(*COMPARE, "bad.csv")
    assert code == 2
    assert found in " ".join(said.split())
    assert "expected milliseconds per query, 0 or more" in " ".join(said.split())


def test_tables_that_lack_something_are_refused(folder: Path, ltr: Any) -> None:
    table = pd.read_csv("latency.csv")
    cases: dict[str, tuple[pd.DataFrame, str]] = {
        "short": (
            table.iloc[5:],
            "lacks 5 of 60 queries for first, such as 'q0'; expected a latency of every compared",
        ),
        "other": (
            table.rename(columns={"reranked": "reranked_s"}),
            "has no latency of reranked; expected a column",
        ),
        "twice": (pd.concat([table, table.iloc[:1]]), "has query 'q0' twice; expected one latency per query"),
        "no ids": (
            table.rename(columns={"query_id": "x"}),
            "has the columns x, first, reranked; expected query_id",
        ),
    }
    for name, (frame, found) in cases.items():
        frame.to_csv(f"{name}.csv", index=False)
        code, _, said = ltr(*COMPARE, f"{name}.csv")
        assert code == 2, name
        assert found in " ".join(said.split()), said
    for name, text, found in (
        ("list", "[1, 2]", "is other JSON; expected {model: {query: milliseconds}}"),
        ("cut", "{", "cannot be read as JSON"),
        ("text", '{"first": {"q0": "fast"}, "reranked": {}}', "latency 'fast' of first, query 'q0'"),
    ):
        Path(f"{name}.json").write_text(text)
        code, _, said = ltr(*COMPARE, f"{name}.json")
        assert code == 2, name
        assert found in " ".join(said.split()), said


def test_columns_that_are_not_there_or_differ_are_refused(folder: Path, ltr: Any) -> None:
    code, _, said = ltr(*COMPARE, "gone.csv")
    assert code == 2
    assert "--latency gone.csv: is no file" in said
    code, _, said = ltr(*COMPARE, "ms")
    assert code == 2
    assert "--latency ms: is no file, and no column: first, reranked have no table" in " ".join(said.split())
    columns = [
        part.replace(".json", ".csv") if part in ("first.json", "reranked.json") else part for part in COMPARE
    ]
    code, _, said = ltr(*columns, "seconds")
    assert code == 2
    assert "has no column 'seconds'; its columns: query_id, doc_id, score, ms" in " ".join(said.split())
    rows = pd.read_csv("first.csv")
    rows.assign(ms=rows.ms + (rows.index == 2)).to_csv("first.csv", index=False)
    code, _, said = ltr(*columns, "ms")
    assert code == 2
    assert "ms differs between rows of query 'q0'; expected one latency per query" in " ".join(said.split())


def test_outputs_without_a_place_for_it_are_refused(folder: Path, ltr: Any) -> None:
    command = ("evaluate", "--qrels", "qrels.json", "--run", "first.json", "--latency", "latency.csv")
    for form in ("csv", "trec_eval"):
        code, _, said = ltr(*command, "--format", form)
        assert code == 2
        assert f"--latency with --format {form}" in said
