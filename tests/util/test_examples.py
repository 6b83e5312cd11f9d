"""Small examples of internals, which a reader can check by hand."""

from datetime import date
from pathlib import Path

import numpy as np

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.escapes import printable, without_commands
from ltr_harness._util.files import bare_name, suffix_of
from ltr_harness._util.json_values import json_value, none_if_undefined
from ltr_harness._util.number_text import four_decimals, p_equals, p_text, plain_number
from ltr_harness._util.tables import csv_cell, text_table
from ltr_harness._util.text import count_of, named, plural, shortened
from ltr_harness.data.addresses import is_address, partition_keys
from ltr_harness.data.dataset import fingerprint_arrays
from ltr_harness.data.judgments import Judgments, Subtopics
from ltr_harness.data.queries import QueryGroups, places_within
from ltr_harness.data.splits import divided, divided_by_time, holdout
from ltr_harness.data.time_folds import CalendarSpan, period_in
from ltr_harness.data.writers import format_of
from ltr_harness.metrics import MAP, NDCG
from ltr_harness.metrics.explain import as_measured_by, differences_in_words, explain_mean, other_definitions


def test_did_you_mean() -> None:
    assert did_you_mean("ndgc", ["ndcg", "mrr"]) == "did you mean 'ndcg'? (known: mrr, ndcg)"
    assert did_you_mean("Persistence", ["k", "p"], {"persistence": "p"}) == "did you mean 'p'? (known: k, p)"


def test_fingerprint_arrays() -> None:
    assert fingerprint_arrays(np.array([1, 2])) == fingerprint_arrays(np.array([1, 9, 2, 9])[::2])
    assert fingerprint_arrays(np.array(["a", "b"])) != fingerprint_arrays(np.array(["ab", ""]))


def test_explain_mean() -> None:
    judgments = Judgments.checked([1, 0, 0, 0], QueryGroups.from_sizes([2, 2]))
    assert (
        str(explain_mean(NDCG(), judgments, [0.1, 0.2, 0.3, 0.4]).preset_texts[0])
        == "['lightgbm', '0.8155', '2', 'no relevant document counts 1 (+0.1845)']"
    )


def test_as_measured_by() -> None:
    assert str(as_measured_by("sklearn", NDCG(k=5, ties="stable"))) == "ndcg(empty=zero,gain=linear)@5"


def test_differences_in_words() -> None:
    assert differences_in_words(NDCG(k=5), NDCG(k=5, gain="linear", empty="zero")) == (
        "no relevant document counts 0",
        "a label gains its grade, not 2^grade - 1",
    )


def test_other_definitions() -> None:
    assert str(other_definitions(MAP(k=5))["map_retrieved"]) == "map(denominator=retrieved)@5"


def test_bare_name() -> None:
    assert (bare_name("a.csv.xz"), bare_name("a.csv")) == ("a.csv", "a.csv")


def test_suffix_of() -> None:
    assert suffix_of("a.csv.bz2") == ".bz2"


def test_places_within() -> None:
    below, same = places_within(np.array([7.0, 9.0, 1.0, 9.0]), np.array([0, 0, 1, 0]))
    assert (below.tolist(), same.tolist()) == ([0, 1, 0, 1], [1, 2, 1, 2])


def test_subtopics_of_matrix() -> None:
    assert Subtopics.of_matrix([[1, 0], [0, 0], [1, 2]], 3).grades.tolist() == [1.0, 1.0, 2.0]


def test_holdout() -> None:
    kept, held = holdout(QueryGroups.from_sizes([3] * 10), 0.2, seed=1)
    assert (len(kept), len(held)) == (8, 2)


def test_divided() -> None:
    parts = divided(QueryGroups.from_sizes([1] * 10), {"valid": 0.1, "test": 0.2}, seed=1)
    assert {name: len(queries) for name, queries in parts.items()} == {"train": 7, "valid": 1, "test": 2}


def test_divided_by_time() -> None:
    parts = divided_by_time(QueryGroups.from_sizes([1] * 4), {"test": 0.25}, np.array([3, 1, 2, 4]))
    assert (parts["train"].tolist(), parts["test"].tolist()) == ([0, 1, 2], [3])


def test_span() -> None:
    assert (
        repr(
            (
                CalendarSpan.of("2 weeks").before(date(2024, 3, 1)),
                CalendarSpan.of("1 month").before(date(2024, 3, 31)),
            )
        )
        == "(datetime.date(2024, 2, 16), datetime.date(2024, 2, 29))"
    )


def test_span_days() -> None:
    assert (CalendarSpan.of("2 weeks").days, CalendarSpan.of("2 months").days) == (14, 60.875)


def test_period_in() -> None:
    assert (period_in("week"), period_in("2 weeks"), period_in("user_id")) == (
        ("week", None),
        ("week", 2),
        None,
    )


def test_count_of() -> None:
    assert (count_of(1, "query"), count_of(1984, "training query"), count_of(0, "row")) == (
        "1 query",
        "1,984 training queries",
        "0 rows",
    )


def test_named() -> None:
    assert named("feature", ["bm25", "price"]) == "2 features: bm25, price"
    assert (
        named("feature", [str(number) for number in range(46)])
        == "46 features: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"
    )


def test_shortened() -> None:
    assert (shortened(["a", "b"], 2), shortened(["a", "b", "c"], 2)) == ("a, b", "a, b, …")


def test_plural() -> None:
    assert (plural("query", 2), plural("has", 2), plural("is", 1), plural("match", 2)) == (
        "queries",
        "have",
        "is",
        "matches",
    )


def test_printable() -> None:
    assert str(printable("run[2J\nred")) == "run\\x1b[2J\\nred"


def test_without_commands() -> None:
    assert str(without_commands("::error::x  0.7")) == "\\u003a:error::x  0.7"


def test_text_table() -> None:
    assert text_table(["metric", "mean"], [["ndcg@10", "0.5"]]) == ["metric   mean", "ndcg@10   0.5"]


def test_csv_cell() -> None:
    assert (csv_cell("=1+1"), csv_cell("-1.5"), csv_cell("'@a")) == ("'=1+1", "-1.5", "''@a")


def test_plain_number() -> None:
    assert (plain_number(0.1), plain_number(3.0), plain_number(1e-7)) == ("0.1", "3", "0.0000001")


def test_four_decimals() -> None:
    assert (four_decimals(0.43125), four_decimals(-0.00001), four_decimals(float("nan"))) == (
        "0.4313",
        "0.0000",
        "–",
    )


def test_p_text() -> None:
    assert (p_text(0.04321), p_text(0.5), p_text(0.00009), p_text(float("nan"))) == (
        "0.0432",
        "0.5000",
        "<0.0001",
        "n/a",
    )


def test_p_equals() -> None:
    assert (p_equals(0.04321), p_equals(0.00009)) == ("p = 0.0432", "p < 0.0001")


def test_none_if_undefined() -> None:
    assert (none_if_undefined(0.5), none_if_undefined(float("nan")), none_if_undefined(float("-inf"))) == (
        0.5,
        None,
        None,
    )


def test_json_value() -> None:
    assert json_value({"mean": float("nan"), "range": (0.5, float("inf"))}) == {
        "mean": None,
        "range": [0.5, None],
    }


def test_format_of() -> None:
    assert (format_of(Path("train.txt.gz")), format_of(Path("train.parquet")), format_of(Path("train"))) == (
        "letor",
        "parquet",
        None,
    )


def test_is_address() -> None:
    assert is_address("s3://bucket/train.parquet")
    assert not is_address("data/train.parquet")


def test_partition_keys() -> None:
    keys = partition_keys(Path("log"), Path("log/day=2024-01-01/shop=a%2Fb/part-0.parquet"))
    assert keys == {"day": "2024-01-01", "shop": "a/b"}
