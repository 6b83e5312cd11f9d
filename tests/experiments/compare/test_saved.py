"""A comparison kept in one file and compared again: the same numbers, beside new models, and refused like any other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.errors import DataError, NotComparableError
from ltr_harness.experiments.compare.inputs import label_of
from ltr_harness.experiments.compare.saved import _KEY, FILE, _concatenate, read_saved, saved_at, to_parquet


def system(name: str, shift: float = 0.0, seeds: int = 2, **changes: Any) -> SystemResult:
    rng = np.random.default_rng(len(name))
    values = rng.normal(0.5 + shift, 0.1, size=(seeds, 40))
    values[:, :3] = np.nan
    facts: dict[str, Any] = {
        "name": name,
        "query_ids": np.array([f"q{at:02d}" for at in range(40)]),
        "values": {"ndcg@10": values, "kendall_tau_distance": 1 - values},
        "replicates": tuple(map(str, range(1, seeds + 1))),
        "higher_is_better": {"ndcg@10": True, "kendall_tau_distance": False},
        "judgments_fingerprint": {"fold1": "abc"},
        "query_attributes": {
            "rows": np.arange(40) % 7 + 1,
            "n_relevant": np.arange(40) % 3,
            "market": np.array(["de", "fr", None, "us"] * 10, dtype=object),
            "model": np.arange(40) / 40,  # the name of a column of the file's own
        },
        "source": "exp",
    }
    return SystemResult(**(facts | changes))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare(system("old"), system("older", 0.05, seeds=1, deterministic=True), baseline="older")


@pytest.fixture(scope="module")
def saved_bytes(comparison: Comparison) -> bytes:
    return to_parquet(comparison)


@pytest.fixture
def file(saved_bytes: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "week1" / FILE
    path.parent.mkdir()
    path.write_bytes(saved_bytes)
    (path.parent / "report.json").write_text("{}")
    return path


@pytest.mark.long
def test_every_number_comes_back(comparison: Comparison, file: Path) -> None:
    pd.testing.assert_frame_equal(compare(file).frame(), comparison.frame())
    assert compare(file).baseline == "older"
    assert not any("as kept in" in note for note in map(str, compare(file).cautions))
    for before, after in zip(comparison.systems, read_saved(file).systems, strict=True):
        for name in ("name", "replicates", "deterministic", "judgments_fingerprint", "source"):
            assert getattr(before, name) == getattr(after, name)
        assert list(before.values) == list(after.values)
        for metric in before.values:
            np.testing.assert_array_equal(before.values[metric], after.values[metric])
        for name, values in before.query_attributes.items():
            assert values.tolist() == after.query_attributes[name].tolist()
            assert values.dtype.kind == after.query_attributes[name].dtype.kind


def test_same_comparison_same_bytes(comparison: Comparison, file: Path) -> None:
    assert to_parquet(comparison) == file.read_bytes()
    assert to_parquet(compare(file)) == to_parquet(compare(file.parent))


def test_a_tidy_table_for_any_other_tool(file: Path) -> None:
    table = pd.read_parquet(file)
    assert table.columns[:3].tolist() == ["model", "replicate", "query_id"]
    assert table.groupby("model")["ndcg@10"].count().to_dict() == {"old": 74, "older": 37}
    assert table["query.model"].iloc[20] == 0.5


def test_new_models_join(file: Path) -> None:
    both = compare(file, system("new", 0.2), metrics=["ndcg@10"])
    assert (both.models, both.baseline, both.primary) == (("old", "older", "new"), "older", "ndcg@10")
    assert both.paired("new").verdict == "better"
    assert "old, older: as kept in the comparison week1" in [*map(str, both.cautions)]
    assert both.paired("old").p == compare(file, metrics=["ndcg@10"]).paired("old").p


def test_the_same_names_are_told_apart(comparison: Comparison, file: Path) -> None:
    both = compare(system("old", 0.1), file, metrics=["ndcg@10"])
    assert both.models == ("old", "week1/old", "older")
    assert both.baseline == "older"
    later = compare(comparison, {"later": compare(system("older", 0.1))}, metrics=["ndcg@10"])
    assert (later.models, later.baseline) == (("old", "scores 1/older", "later/older"), "scores 1/older")


def test_an_experiments_report_is_called_after_the_experiment() -> None:
    assert label_of(Path("runs/mq2008/report")) == "mq2008"
    assert label_of(Path("runs/week1")) == "week1"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"judgments_fingerprint": {"fold1": "other"}}, "other labels or rows"),
        ({"query_ids": np.array([f"x{at}" for at in range(40)])}, "they share no query"),
        ({"higher_is_better": {"ndcg@10": False, "kendall_tau_distance": False}}, "lower is better here"),
    ],
)
def test_what_must_not_be_compared_is_refused(file: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(NotComparableError, match=said):
        compare(file, system("new", **changes), metrics=["ndcg@10"])


def test_another_definition_is_refused(file: Path) -> None:
    other = system("new")
    values = {"ndcg(gain=linear)@10": other.values["ndcg@10"]}
    linear = system("new", values=values, higher_is_better=dict.fromkeys(values, True))
    with pytest.raises(NotComparableError, match="another definition"):
        compare(file, linear)


def test_ways_to_name_it(file: Path, tmp_path: Path) -> None:
    folder = file.parent
    assert saved_at(folder) == saved_at(folder / "report.json") == saved_at(file) == file
    assert compare(folder).models == compare(folder / "report.json").models == ("old", "older")
    assert saved_at(tmp_path) is None


def test_a_json_file_alone_holds_no_values(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(DataError, match=r"there is no comparison\.parquet beside it"):
        compare(tmp_path / "report.json")


def test_damage_is_one_message(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:40] + bytes(400) + content[440:])
    with pytest.raises(DataError, match="cannot be read as a saved comparison"):
        compare(file.parent)
    file.write_bytes(b"")
    with pytest.raises(DataError, match="is not a saved comparison"):
        compare(file.parent)


def test_facts_of_two_kinds(tmp_path: Path) -> None:
    numbers, words = (
        system(name, query_attributes={"grade": np.array(values * 20, dtype=object)})
        for name, values in (("numbers", [1, 2]), ("words", ["a", 3]))
    )
    (tmp_path / FILE).write_bytes(to_parquet(compare(numbers, words)))
    read = read_saved(tmp_path / FILE)
    assert read.systems[0].query_attributes["grade"][:2].tolist() == ["1", "2"]
    assert read.systems[1].query_attributes["grade"][:2].tolist() == ["a", "3"]


def test_folds_with_labels_of_their_own_stay_apart(tmp_path: Path) -> None:
    one = system("old", query_attributes={})
    two = replace(
        one,
        query_ids=np.array([f"{fold}/{query}" for fold in "ab" for query in one.query_ids.tolist()]),
        values={metric: np.tile(rows, 2) for metric, rows in one.values.items()},
        judgments_fingerprint={"a": "these", "b": "those"},
    )
    (tmp_path / FILE).write_bytes(to_parquet(compare(two, replace(two, name="new"))))
    assert compare(tmp_path / FILE).n_queries == 80


def test_the_first_column_may_be_of_two_kinds_as_well() -> None:
    joined = _concatenate([pa.table({"one": [1], "two": [2]}), pa.table({"one": ["a"], "two": [3]})])
    assert joined.to_pydict() == {"one": ["1", "a"], "two": [2, 3]}


def change_value(about: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    *way, last = place.split(".")
    at: Any = about
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[last] = value
    return about


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("systems.0.n_queries", -1, "greater than or equal to 1"),
        ("systems.0.n_queries", None, "valid integer"),
        ("systems.0.n_queries", 1.5, "valid integer"),
        ("systems.0.n_queries", 10**30, r"its 120 rows are not those of its models' queries"),
        ("systems.0.replicates", None, "valid array"),
        ("systems.0.replicates", 3, "valid array"),
        ("systems.0.name", "x", "its models are x, older, the baseline is old"),
        ("systems.0.judgments_fingerprint", None, "should be an object"),
        ("systems.0.judgments_fingerprint", "x", "should be an object"),
        ("systems.0.attributes", [["rows", "gone"]], "it has no column gone"),
        ("systems", [], "at least 1 item"),
        ("baseline", "x", "its models are old, older, the baseline is x"),
        ("metrics", None, "valid array"),
        ("metrics", [["x", True]], "its metrics are x, and ndcg@10 decides"),
        ("primary", None, "valid string"),
        ("primary", [], "valid string"),
    ],
)
def test_metadata_of_another_form_are_told(tmp_path: Path, place: str, value: Any, said: str) -> None:
    table = pq.read_table(pa.BufferReader(to_parquet(compare(system("old"), system("older", seeds=1)))))
    about = change_value(json.loads(table.schema.metadata[_KEY]), place, value)
    pq.write_table(table.replace_schema_metadata({_KEY: json.dumps(about)}), tmp_path / FILE)
    with pytest.raises(DataError, match=f"cannot be read as a saved comparison: .*{said}"):
        compare(tmp_path / FILE)


@pytest.mark.parametrize("metadata", ["3", "null", "[" * 200_000, ""])
def test_metadata_that_are_none_are_told(tmp_path: Path, metadata: str) -> None:
    table = pa.table({"query_id": ["a"], "ndcg@10": [0.5]}).replace_schema_metadata({_KEY: metadata})
    pq.write_table(table, tmp_path / FILE)
    with pytest.raises(DataError, match="cannot be read as a saved comparison: "):
        compare(tmp_path / FILE)


@pytest.mark.parametrize("values", [["x"] * 120, [[1.0]] * 120, [None] * 120])
def test_a_metric_without_numbers_is_told(tmp_path: Path, values: list[Any]) -> None:
    table = pq.read_table(pa.BufferReader(to_parquet(compare(system("old"), system("older", seeds=1)))))
    at = table.schema.get_field_index("ndcg@10")
    pq.write_table(table.set_column(at, "ndcg@10", pa.array(values)), tmp_path / FILE)
    with pytest.raises(DataError, match=r"the column ndcg@10 holds .*, not numbers"):
        compare(tmp_path / FILE)


def test_a_ceiling_of_words_is_no_ceiling(tmp_path: Path) -> None:
    ends = {"random order": 0.2, "ceiling": 0.9, "all retrieved": 0.9}
    facts = {f"ndcg@10: {end}": np.full(40, value) for end, value in ends.items()}
    table = pq.read_table(pa.BufferReader(to_parquet(compare(system("old", query_attributes=facts)))))
    pq.write_table(table, tmp_path / FILE)
    assert compare(tmp_path / FILE).headroom
    at = table.schema.get_field_index("ndcg@10: ceiling")
    words = pa.array(["x"] * table.num_rows)
    pq.write_table(table.set_column(at, "ndcg@10: ceiling", words), tmp_path / FILE)
    assert not compare(tmp_path / FILE).headroom


def test_a_table_with_notes_for_pandas_of_another_form_is_told(tmp_path: Path) -> None:
    notes = json.dumps({"index_columns": [["x"]], "columns": [{"name": ["x"], "field_name": ["x"]}]})
    table = pa.table({"query_id": ["a"], "ndcg@10": [0.5]}).replace_schema_metadata({"pandas": notes})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="cannot be read as a table: "):
        compare(tmp_path / "a.parquet")
