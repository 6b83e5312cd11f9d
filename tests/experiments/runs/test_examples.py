"""Small examples of internals, which a reader can check by hand."""

from ltr_harness.experiments.runs.folder import encoded, folder_name
from ltr_harness.experiments.runs.identity import installed_requirements
from ltr_harness.experiments.runs.record import used_up
from ltr_harness.experiments.runs.serving_cost import parse_budget, percentile


def test_folder_name() -> None:
    assert folder_name("xgb/a b", "all", 1, "0123456789abcdef") == "xgb%2Fa%20b--all--s1--0123456789ab"


def test_encoded() -> None:
    assert encoded("..") == "%2E%2E"


def test_installed_requirements() -> None:
    assert sorted(set(installed_requirements(("numba",))) & {"llvmlite", "numpy", "pandas"}) == [
        "llvmlite",
        "numpy",
    ]


def test_percentile() -> None:
    assert percentile([40.0, 10.0, 20.0, 30.0], 50) == 20.0
    assert percentile([40.0, 10.0, 20.0, 30.0], 51) == 30.0


def test_parse_budget() -> None:
    assert parse_budget("800us") == 800.0
    assert parse_budget("5ms") == 5000.0
    assert parse_budget("0.2 s") == 200000.0


def test_used_up() -> None:
    assert not used_up(3, 50.0, trials=4, minutes=1)
    assert used_up(3, 60.0, trials=4, minutes=1)
    assert used_up(4, 0.0, 4, None)
