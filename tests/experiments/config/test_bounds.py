"""A few bytes of configuration ask for no more than a machine can do: what is beyond is refused before it is made."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import load_experiment, read_outline
from ltr_harness.experiments.config.yaml_tree import parse_yaml

BASE = """
name: bounds
data: {reader: synthetic, n_queries: {train: 20, valid: 10, test: 20}, n_features: 12}
models: {one: {ranker: feature, feature: match_1}}
"""


def refusal(tmp_path: Path, text: str, *overrides: str) -> str:
    """Return the refusal of a configuration, which comes within seconds."""
    path = tmp_path / "exp.yaml"
    path.write_text(text)
    began = time.monotonic()
    with pytest.raises(ConfigError) as refused:
        load_experiment(path, overrides, check_rankers=False)
    assert time.monotonic() - began < 30
    return str(refused.value).replace(f"{path}", "exp.yaml")


def billion_laughs(kind: str, levels: int, each: int = 4) -> str:
    """Few lines whose aliases spell out to each ** levels values."""
    names = [f"l{level}" for level in range(levels)]
    lines = [f"{names[0]}: &{names[0]} {{a: 1}}"]
    for level in range(1, levels):
        aliases = ", ".join([f"*{names[level - 1]}"] * each)
        if kind == "list":
            lines.append(f"{names[level]}: &{names[level]} [{aliases}]")
        elif kind == "mapping":
            pairs = ", ".join(f"k{number}: *{names[level - 1]}" for number in range(each))
            lines.append(f"{names[level]}: &{names[level]} {{{pairs}}}")
        else:
            lines.append(f"{names[level]}: &{names[level]} {{<<: [{aliases}]}}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kind", ["list", "mapping", "merge"])
@pytest.mark.parametrize("levels", [11, 40])
def test_aliases_that_multiply(tmp_path: Path, kind: str, levels: int) -> None:
    assert "holds more than 100,000 values, aliases spelt out" in refusal(
        tmp_path, BASE + billion_laughs(kind, levels)
    )


def test_aliases_in_an_override_and_in_a_stored_experiment(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds more than 100,000 values"):
        parse_yaml(billion_laughs("list", 30), "--set a=…", tmp_path, lines=False)
    path = tmp_path / "experiment.yaml"
    path.write_text(BASE + billion_laughs("list", 30))
    with pytest.raises(ConfigError, match="holds more than 100,000 values"):
        read_outline(path)


@pytest.mark.long
def test_aliases_as_people_use_them(tmp_path: Path) -> None:
    path = tmp_path / "exp.yaml"
    models = "".join(f"  m{number}: *one\n" for number in range(500))
    path.write_text(
        f"name: x\ndata: {{reader: synthetic}}\nmodels:\n  a: &one {{ranker: feature, feature: match_1}}\n{models}"
    )
    assert len(load_experiment(path, ["seeds=[1]"], check_rankers=False).models) == 501


@pytest.mark.long
def test_files_that_extend_each_other_many_times(tmp_path: Path) -> None:
    for level in range(40):
        (tmp_path / f"{level}.yaml").write_text(f"extends: [{level + 1}.yaml, {level + 1}.yaml]\n")
    (tmp_path / "40.yaml").write_text(BASE)
    assert "extends more than 100 files" in refusal(tmp_path, "extends: 0.yaml\n")


def test_a_chain_of_files_as_people_write_it(tmp_path: Path) -> None:
    for level in range(20):
        (tmp_path / f"{level}.yaml").write_text(f"extends: {level + 1}.yaml\n")
    (tmp_path / "20.yaml").write_text(BASE)
    assert load_experiment(tmp_path / "0.yaml", check_rankers=False).name == "bounds"


@pytest.mark.long
@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "data.folds=1000000000",
            "--set data.folds=1000000000: data.folds is 1000000000; expected an integer",
        ),
        ("data.folds=1001", "data.folds is 1001; expected an integer >= 3 and <= 1000"),
        ("compare.draws=1000000000000", "compare.draws is 1000000000000; expected an integer"),
        ("metrics.cutoffs=" + str(list(range(1, 1002))), "at most 1,000"),
    ],
    ids=["folds", "one fold too many", "draws", "cutoffs"],
)
def test_what_is_too_much(tmp_path: Path, override: str, message: str) -> None:
    base = BASE
    if "folds" in override:
        base = base.replace("{reader: synthetic,", "{reader: synthetic, files: test,")
    found = refusal(tmp_path, base, override)
    assert message in found
    assert len(found) - len(override) < 10_000


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"seeds": [*range(10_001)]}, "seeds is [0, 1, 2, "),
        (
            {"data": {"reader": "letor", "splits": {"train": [f"{n}" for n in range(10_001)], "test": "t"}}},
            'data.splits.train is ["0", "1", ',
        ),
    ],
    ids=["seeds", "files"],
)
def test_lists_that_are_too_long(changes: dict[str, Any], found: str) -> None:
    """They come from Python: to read them as YAML takes half a second."""
    models = {"one": {"ranker": "random"}}
    with pytest.raises(ConfigError) as refused:
        load_experiment(
            {"name": "x", "data": {"reader": "synthetic"}, "models": models, **changes}, check_rankers=False
        )
    assert f"configuration: {found}" in str(refused.value)
    assert str(refused.value).endswith("; expected at most 10,000; found 10,001")
    assert len(str(refused.value)) < 10_000


@pytest.mark.long
@pytest.mark.parametrize("kind", ["seeds", "models", "folds"])
def test_more_runs_than_anybody_trains(tmp_path: Path, kind: str) -> None:
    overrides = {
        "seeds": "seeds=" + str(list(range(501))),
        "models": "models=" + str({f"m{n}": {"ranker": "random"} for n in range(501)}),
        "folds": "data.folds=1000",
    }
    base = BASE.replace("{reader: synthetic,", "{reader: synthetic, files: test, folds: 200,")
    if kind == "folds":
        base = base.replace("folds: 200, ", "") + "seeds: [" + ", ".join(map(str, range(101))) + "]\n"
    assert "expected at most 100,000 runs" in refusal(tmp_path, base, overrides[kind])


def sweep(**changes: Any) -> str:
    return BASE + "sweep: " + str(changes).replace("'", "") + "\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"grid": {f"models.one.params.p{n}": list(range(10)) for n in range(9)}},
        {"grid": {"models.one.params.p": list(range(1_001))}},
        {"random": {"models.one.params.p": {"low": 0.1, "high": 0.9}}, "points": 10**9},
        {
            "random": {"models.one.params.p": {"low": 0.1, "high": 0.9}},
            "points": 500,
            "grid": {"models.one.params.q": [1, 2, 3]},
        },
    ],
    ids=["ten to the nine", "one too many", "drawn", "both"],
)
def test_more_points_than_anybody_compares(tmp_path: Path, changes: dict[str, Any]) -> None:
    found = refusal(tmp_path, sweep(**changes))
    assert "at most 1,000" in found or "from 1 to 1000" in found or "expected an integer" in found


@pytest.mark.long
def test_a_mistake_in_every_line_is_told_quickly(tmp_path: Path) -> None:
    text = BASE + "".join(f"unknown{number}: 1\n" for number in range(600))
    found = refusal(tmp_path, text).splitlines()
    assert found[0].startswith("exp.yaml:5:1: unknown key 'unknown0' in the experiment; ")
    assert found[-1] == "and 500 more problems"
    assert len(found) == 101
    broken = "".join(f"key{number}: 1\n" for number in range(600)) + "x: [1\n"
    assert "the '[' of line 601 is not closed" in refusal(tmp_path, broken)
