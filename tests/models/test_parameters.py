"""Checks of parameters ask a library once."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.models.catboost import CatBoostRanker
from ltr_harness.models.lightgbm import LightGBMRanker
from ltr_harness.models.lightgbm_parameters import canonical_names
from ltr_harness.models.table import catalog
from ltr_harness.models.tree_model import cache_answers, store_answers
from ltr_harness.models.xgboost import XGBoostRanker

PLAIN = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, -0.0, "", "1", "True"])
VALUES = (
    PLAIN | st.lists(PLAIN, max_size=2) | st.tuples(PLAIN) | st.dictionaries(st.text("ab", max_size=1), PLAIN)
)


@given(st.lists(VALUES, max_size=8))
def test_an_answer_is_that_of_this_very_question(questions: list[Any]) -> None:
    asked: list[str] = []

    @cache_answers
    def ask(value: Any) -> str:
        asked.append(repr(value))
        return asked[-1]

    assert [ask(value) for value in questions] == [repr(value) for value in questions]
    before = len(asked)
    assert [ask(value) for value in questions] == [repr(value) for value in questions]
    assert len(asked) == before


def test_long_arrays_and_what_cannot_be_kept_are_asked() -> None:
    lengths: list[int] = []

    @cache_answers
    def ask(value: Any) -> int:
        lengths.append(1)
        return int(value[-1]) if isinstance(value, np.ndarray) else 0

    rows = np.zeros(5_000)
    assert [ask(np.where(np.arange(5_000) == 2_500 + at, at, rows)[: 2_501 + at]) for at in range(3)] == [
        0,
        1,
        2,
    ]
    assert [ask(lambda: 1), ask(lambda: 1)] == [0, 0]
    assert len(lengths) == 5


@pytest.mark.parametrize(
    "ranker",
    [
        LightGBMRanker(params={"num_leaves": 6, "learning_rate": 0.12}),
        XGBoostRanker(params={"max_depth": 2, "eta": 0.12}),
        CatBoostRanker(params={"depth": 2, "learning_rate": 0.12}),
    ],
    ids=lambda ranker: ranker.library,
)
def test_folds_and_trainings_do_not_ask_a_library_again(ranker: Any, facts: Any, monkeypatch: Any) -> None:
    """Every training of an experiment checks its ranker, and a lambdarank Booster takes 7 ms to make."""
    library, made = pytest.importorskip(ranker.library), []
    name = "CatBoost" if ranker.library == "catboost" else "Booster"

    class Counted(getattr(library, name)):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(1)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(library, name, Counted)
    assert [ranker.check(facts(n_rows=900 + at, max_label=3.0)) for at in range(4)] == [[]] * 4
    assert len(made) == 1
    other = ranker.model_copy(update={"params": {**ranker.params, "max_bin": -1}})
    assert str(other.check(facts())) == str(other.check(facts(n_rows=900))) != "[]"
    assert len(made) > 1


@pytest.mark.parametrize(
    ("question", "answer", "times"),
    [
        ({"num_leaves": 7}, None, 1),
        ({"num_leaves": 7.0}, ["num_leaves"], 1),
        ({"num_leaves": "seven"}, "a refusal", 2),
        ({"device": "gpu"}, None, 2),
        ({"num_leaves": 7 + 1j}, None, 2),
    ],
    ids=lambda value: str(value),
)
def test_what_a_library_accepts_is_kept_for_the_next_process(
    question: dict[str, Any], answer: Any, times: int, tmp_path: Any, monkeypatch: Any
) -> None:
    asked: list[Any] = []

    def ask(params: dict[str, Any]) -> Any:
        asked.append(params)
        return answer

    monkeypatch.setenv("LTR_HARNESS_CACHE", str(tmp_path))
    assert [store_answers("lightgbm")(ask)(question) for _ in range(2)] == [answer, answer]
    assert len(asked) == times


def test_nothing_is_kept_without_a_cache_nor_for_another_library(tmp_path: Any, monkeypatch: Any) -> None:
    asked: list[str] = []

    def ask(params: dict[str, Any]) -> None:
        asked.append(str(params))

    monkeypatch.setenv("LTR_HARNESS_CACHE", "off")
    store_answers("lightgbm")(ask)({})
    monkeypatch.setenv("LTR_HARNESS_CACHE", str(tmp_path))
    for library in ("lightgbm", "xgboost", "not_installed", "not_installed"):
        store_answers(library)(ask)({})
    assert len(asked) == 5


@pytest.mark.long
def test_naming_all_rankers_and_a_second_check_import_no_library(tmp_path: Any, monkeypatch: Any) -> None:
    params = {"lightgbm": {"num_leaves": 7, "lambda_l2": 0.51}, "xgboost": {"max_depth": 3, "eta": 0.51}}
    monkeypatch.setenv("LTR_HARNESS_CACHE", str(tmp_path))
    canonical_names.cache_clear()  # kept by this process, perhaps in another folder
    for name in params:
        assert catalog.load(name)(params=params[name]).check() == []
    program = (
        "import sys; from ltr_harness.models.table import catalog; "
        "rankers = {name: catalog.load(name) for name in catalog.names()}; "
        f"print([rankers[name](params=params).check() for name, params in {params}.items()], "
        "{'lightgbm', 'xgboost', 'sklearn', 'pandas'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[[], []] set()\n", "")
