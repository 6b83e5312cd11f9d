"""Ranks, ids and times among the features are found by value and by name; features that are named are meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.column_names import has_place_word, may_be_id
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.memory import from_arrays, from_frame
from ltr_harness.errors import Caution
from ltr_harness.experiments.inspection import data_card, lint
from ltr_harness.experiments.inspection.column_facts import all_different, are_times, count_rows_of_queries

N_QUERIES, N_ROWS = 50, 5


def frame(**more: Any) -> pd.DataFrame:
    """50 queries of 5 rows with two sound features."""
    draws = np.random.default_rng(1)
    n = N_QUERIES * N_ROWS
    match = draws.normal(size=n)
    return pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(N_QUERIES), N_ROWS),
            "label": np.clip(np.round(match + draws.normal(size=n)), 0, 3),
            "bm25": match,
            "price": draws.lognormal(3, 1, n).round(2),
            **more,
        }
    )


def warnings(data: RankingDataset) -> list[Caution]:
    return [one for one in lint(data_card({"train": data})) if one.severity != "note"]


def cautions(table: pd.DataFrame, **options: Any) -> list[Caution]:
    return warnings(from_frame(table, **options))


SHOWN = np.tile(np.arange(1, N_ROWS + 1), N_QUERIES)


RANKS = [
    "rank_shown", "srp_position", "slot", "list_position", "result_rank", "shownRank", "display position",
    "position_shown", "item-rank", "original_rank", "serp_pos", "page_slot", "impression_rank", "ordinal",
]  # fmt: skip


@pytest.mark.parametrize("whole_list", [True, False])
def test_ranks_that_users_saw_are_a_caution(whole_list: bool) -> None:
    shown = SHOWN if whole_list else SHOWN + (SHOWN > 2)  # by its name where the list has gaps
    table = frame(**dict.fromkeys(RANKS, shown))
    [caution] = cautions(table)
    assert (caution.kind, caution.severity) == ("position-feature", "warning")
    said = (
        "count the rows of most queries from 1 or 0 on" if whole_list else "are named like a place in a list"
    )
    assert f"14 features ({', '.join(RANKS[:5])}, …) {said}" in caution.text
    assert "leaks if it is the list that users saw" in caution.cure
    assert "fine if it is a first stage's rank" in caution.cure
    assert "`features: [bm25, price]`" in caution.cure
    assert cautions(table, features=["bm25", "price", *RANKS]) == []


@pytest.mark.parametrize("first", [0, 1])
def test_a_rank_is_found_whatever_its_name(first: int) -> None:
    draws = np.random.default_rng(2)
    mixed = np.concatenate([draws.permutation(N_ROWS) + first for _ in range(N_QUERIES)])
    assert [one.kind for one in cautions(frame(x7=mixed))] == ["position-feature"]
    table = frame(x7=mixed).drop(columns=["query_id", "label"])
    unnamed = from_arrays(table, frame().label, query_ids=frame().query_id)
    [caution] = warnings(unnamed)
    assert caution.cure.endswith("if that is not intended, write the files without it")


def test_ranks_by_hand() -> None:
    def rows_of_queries(queries: list[list[float]]) -> bool:
        boundaries = np.cumsum([0, *map(len, queries)])
        low, high = (np.array([of(query) for query in queries], dtype=float) for of in (min, max))
        return count_rows_of_queries(np.concatenate(queries).astype(float), low, high, boundaries)

    rank, other = [2.0, 1.0, 3.0], [1.0, 1.0, 3.0]
    assert rows_of_queries([rank] * 10)
    assert not rows_of_queries([rank] * 9), "so few may be chance"
    assert rows_of_queries([rank] * 11 + [other] * 10)
    assert not rows_of_queries([rank] * 10 + [other] * 10), "most queries"
    assert not rows_of_queries([[0.0, 1.0]] * 50), "two rows are 0 and 1 too often"
    assert not rows_of_queries([[2.0, 3.0, 4.0]] * 10)


ROWS = np.arange(N_QUERIES * N_ROWS)
OF_QUERY = np.repeat(np.arange(N_QUERIES), N_ROWS)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("date", 20230101 + OF_QUERY % 28, "looks like dates or times"),
        ("d", 20230101 + OF_QUERY % 31, "looks like dates or times"),
        ("seen", 1_700_000_000 + 86_400 * OF_QUERY, "looks like dates or times"),
        ("week", 1 + OF_QUERY % 40, "named like the number of a user, a document, a row or a day"),
        ("customer", 4_000 + 7 * OF_QUERY % 31, "named like the number of a user"),
        ("listing", 40_000 + 7_919 * ROWS % 10_007, "whole, nearly all unique"),
        ("listing", 40 + 7_919 * ROWS % 101, "like document numbers"),
        ("row_number", ROWS, "whole, nearly all unique"),
        ("x7", ROWS, "whole, nearly all unique"),
        ("customerNo", OF_QUERY % 7, "named like the number of a user"),
        ("account_key", OF_QUERY % 7, "named like the number of a user"),
    ],
)
def test_ids_and_times_are_a_caution(name: str, values: Any, said: str) -> None:
    [caution] = cautions(frame(**{name: values}))
    assert (caution.kind, caution.severity) == ("id-feature", "warning")
    assert said in caution.text
    assert "`features: [bm25, price]`" in caution.cure


def test_all_of_a_kind_are_one_caution() -> None:
    table = frame(week=OF_QUERY % 40, row_number=ROWS, date=20230101 + OF_QUERY % 28)
    [caution] = cautions(table)
    assert caution.text == (
        "feature row_number looks like row or document numbers: whole, nearly all unique, and in an uninformative "
        "order; feature date looks like dates or times; feature week is named like the number of a user, a document, "
        "a row or a day"
    )
    named = ["bm25", "price", "week", "row_number", "date"]
    assert cautions(table, features=named) == []


def _draws(make: Callable[[np.random.Generator], Any]) -> Any:
    return make(np.random.default_rng(3))


FEATURES = {
    "n_results": _draws(lambda draws: np.repeat(draws.integers(0, 10_000, N_QUERIES), N_ROWS)),
    "query_words": OF_QUERY % 6,
    "hour": OF_QUERY % 24,
    "n_reviews": _draws(lambda draws: draws.lognormal(6, 1.5, ROWS.size).astype(int)),
    "price_cents": _draws(lambda draws: draws.lognormal(8, 1, ROWS.size).astype(int)),
    "n_orders_30_days": _draws(lambda draws: draws.poisson(3, ROWS.size)),
    "sales_rank": _draws(lambda draws: draws.lognormal(9, 2, ROWS.size).astype(int)),
    "page_rank": ROWS % 11,
    "is_first_position": SHOWN == 1,
    "rank_score": _draws(lambda draws: draws.normal(size=ROWS.size)),
    "year": 1990 + ROWS % 30,
    "customer_rating": _draws(lambda draws: draws.integers(1, 6, ROWS.size)),
    "color_code_match": ROWS % 2,
}


def test_numbers_that_are_features_raise_nothing() -> None:
    assert cautions(frame(**FEATURES)) == []


def test_facts_by_hand() -> None:
    assert all_different(np.arange(100.0))
    assert not all_different(np.arange(99.0)), "among so few rows, amounts are all different as well"
    assert all_different(np.r_[np.arange(99.0), 0.0])
    assert not all_different(np.r_[np.arange(98.0), 0.0, 0.0])
    assert not all_different(np.arange(100.0) ** 3), "amounts, of which few are very large"
    assert are_times(np.array([20230101.0, 20231231.0]))
    assert are_times(np.array([20230100.0, 20231232.0])), "as float32 rounds them"
    assert not are_times(np.array([20230101.0, 20231301.0])), "no month"
    assert not are_times(np.array([20230101.0, 20230101.0])), "one value in all rows"
    assert are_times(np.array([1.6e12, 1.7e12])), "milliseconds"
    assert not are_times(np.array([1.0, 1.7e9]))


def test_words_of_names() -> None:
    assert [
        name for name in ("rank_shown", "crank", "pagerank", "positions", "Slot Id") if has_place_word(name)
    ] == [
        "rank_shown",
        "Slot Id",
    ]
    assert [
        name for name in ("userId", "release_date", "update", "weeks_online", "row no") if may_be_id(name)
    ] == [
        "userId",
        "release_date",
        "row no",
    ]


def test_a_file_says_whether_its_features_are_named(tmp_path: Path) -> None:
    frame(slot=SHOWN).to_csv(tmp_path / "a.csv", index=False)
    assert not Csv().read(["a.csv"], tmp_path).features_named
    named = Csv(features=("bm25", "slot")).read(["a.csv"], tmp_path)
    assert named.features_named
    assert named.take(np.arange(3)).features_named
    assert warnings(named) == []


@pytest.mark.long
def test_every_command_has_the_caution(ltr: Any, tmp_path: Path) -> None:
    frame(slot=SHOWN).to_csv(tmp_path / "a.csv", index=False)
    said = "feature slot counts the rows of most queries"
    assert said in ltr("data", "describe", tmp_path / "a.csv")[1]
    config = str(tmp_path / "a.yaml")
    assert said in ltr("init", tmp_path / "a.csv", "-o", config)[1]
    for _ in range(2):  # the second time it is remembered
        assert said in ltr("check", config)[1]
    named = ["--set", "data.features=[bm25, price, slot]"]
    assert said not in ltr("check", config, *named)[1]
