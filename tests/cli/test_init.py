"""A stranger's first experiment: written from data of every format, sound at once, never over another file."""

from __future__ import annotations

import gzip
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.config import load_experiment
from ltr_harness.workflow import prepare, read

pytestmark = pytest.mark.long


def frame(n_queries: int = 40, top: int = 4, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    n = n_queries * 12
    label = rng.integers(0, top + 1, n)
    return pd.DataFrame(
        {
            "srch_id": np.repeat([f"q{i}" for i in range(n_queries)], 12),
            "prop_id": [f"d{i}" for i in range(n)],
            "relevance": label,
            "price": rng.normal(size=n),
            "match: title": label + rng.normal(0, 1.5, n),
        }
    )


def letor(rows: pd.DataFrame) -> str:
    return "".join(
        f"{row.relevance} qid:{row.srch_id[1:]} 1:{row.price:.4f} 2:{row._4:.4f}\n"
        for row in rows.itertuples(index=False)
    )


def write_csv(path: Path, rows: pd.DataFrame) -> Path:
    rows.to_csv(path / "offers.csv", index=False)
    return path / "offers.csv"


def write_parquet(path: Path, rows: pd.DataFrame) -> Path:
    rows.to_parquet(path / "offers.parquet", index=False)
    return path / "offers.parquet"


def write_letor(path: Path, rows: pd.DataFrame) -> Path:
    (path / "train.txt.gz").write_bytes(gzip.compress(letor(rows).encode()))
    return path / "train.txt.gz"


def write_libsvm(path: Path, rows: pd.DataFrame) -> Path:
    (path / "rank.train").write_text(letor(rows).replace("qid:", "0:"), encoding="utf-8")
    (path / "rank.train.query").write_text("12\n" * rows.srch_id.nunique(), encoding="utf-8")
    return path / "rank.train"


@pytest.mark.parametrize("write", [write_csv, write_parquet, write_letor, write_libsvm])
def test_data_of_every_format_gives_an_experiment_that_passes_check(
    write: Callable[[Path, pd.DataFrame], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, home = tmp_path / "my data", tmp_path / "here"
    data.mkdir()
    home.mkdir()
    output = home / "mine.yaml"
    train = write(data, frame())
    assert run_command(cli, ["init", str(train), "-o", str(output)]) == 0
    said = capsys.readouterr().out
    assert f"next: ltr-harness check {output}" in said
    assert "train: 40 queries, 480 rows" in said
    if train.suffix in (".csv", ".parquet"):
        for role, name in (("query", "srch_id"), ("label", "relevance"), ("document_id", "prop_id")):
            assert f"{role}: column '{name}'" in said
        assert "one-feature: 'match: title' is the best single feature" in said
    prepared = prepare(read(output, runs=tmp_path / "runs"))
    assert len(prepared.reader.names()) == 5
    assert prepared.experiment.data.max_grade == 4
    best = prepared.experiment.models["one-feature"].ranker.definition()["feature"]
    assert str(best) in ("match: title", "2", "feature_2", "1")


def test_what_users_did_is_the_label_and_no_feature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = frame(top=1).rename(columns={"srch_id": "search_group_id", "relevance": "click"})
    rows["buy"] = rows["late"] = rows.click * (np.arange(len(rows)) % 3 == 0)
    output, data = tmp_path / "mine.yaml", str(write_csv(tmp_path, rows))
    assert run_command(cli, ["init", data, "-o", str(output)]) == 2
    assert not output.exists()
    refused = capsys.readouterr()
    assert "feature late is non-zero only in relevant documents" in refused.err
    assert refused.err.count("--accept outcome-feature") == 1
    assert "feature late" not in refused.out
    assert f"{output}: fails `check` and was not written; --column KEY=VALUE" in refused.err
    assert run_command(cli, ["init", data, "-o", str(output), "--accept", "outcome-feature"]) == 0
    said = capsys.readouterr().out
    assert f"next: ltr-harness check {output} --accept outcome-feature" in said
    assert (
        "query: column 'search_group_id'\nrelevance: the highest weight among what users did (click 1, buy 4)"
        in said
    )
    assert "labels by `relevance`: the highest weight among the events that happened (click 1, buy 4)" in said
    written = output.read_text()
    assert "relevance: {events: {buy: 4, click: 1}}" in written
    assert "max_grade" not in written  # the rule says it
    assert run_command(cli, ["run", str(output), "--runs", str(tmp_path / "runs")]) == 2
    assert "feature late is non-zero only in relevant documents" in (said := capsys.readouterr().err)
    assert "--accept outcome-feature" in said
    assert "relevance: the highest weight among what users did (click 1)" in _said_of(
        rows.drop(columns="late").assign(buy="no"), tmp_path, capsys
    )
    rows = rows.drop(columns=["late"]).rename(columns={"click": "Relevance score"})
    output = tmp_path / "other.yaml"
    assert run_command(cli, ["init", str(write_csv(tmp_path, rows)), "-o", str(output)]) == 0
    assert "label: column 'Relevance score'" in capsys.readouterr().out


def _said_of(rows: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_command(cli, ["init", str(write_csv(folder, rows)), "-o", str(folder / "texts.yaml")]) == 0
    return capsys.readouterr().out


def test_columns_that_cannot_be_guessed_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = frame().rename(columns={"srch_id": "anfrage", "relevance": "note"})
    path, output = write_csv(tmp_path, rows), tmp_path / "mine.yaml"
    assert run_command(cli, ["init", str(path), "-o", str(output)]) == 2
    said = capsys.readouterr().err
    assert (
        "no column looks like the query (anfrage, prop_id, note, price, match: title); name it: --column query=COLUMN, "
        "or a key of several: --column 'query=[A, B]'"
    ) in said
    assert "name it: --column label=COLUMN" in said
    assert not output.exists()
    options = ["--column", "query=anfrage", "--column", "label=note"]
    assert run_command(cli, ["init", str(path), "-o", str(output), *options]) == 0
    assert load_experiment(output).data.reader.query == "anfrage"


def test_scattered_queries_and_fractional_labels_are_handled_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = frame().sample(frac=1, random_state=1).assign(relevance=lambda table: table.relevance / 2)
    output = tmp_path / "mine.yaml"
    assert run_command(cli, ["init", str(write_csv(tmp_path, rows)), "-o", str(output)]) == 0
    assert "regroup: rows of a query do not stand together in train" in capsys.readouterr().out
    experiment = load_experiment(output)
    assert str(experiment.metrics.primary) == "ndcg(gain=linear)@10"  # 2^1.5 - 1 is no gain anybody means
    prepare(read(output, runs=tmp_path / "runs"))


def test_named_splits_are_kept_and_a_missing_validation_part_is_held_out(tmp_path: Path) -> None:
    for seed, name in enumerate(("train", "vali", "test")):
        (tmp_path / f"{name}.txt").write_text(letor(frame(20, seed=seed)), encoding="utf-8")
    train, vali, test = (str(tmp_path / f"{name}.txt") for name in ("train", "vali", "test"))
    two, three = tmp_path / "two.yaml", tmp_path / "three.yaml"
    assert run_command(cli, ["init", train, "--test", test, "-o", str(two)]) == 0
    assert prepare(read(two, runs=tmp_path)).reader.read("all").facts["valid"].n_queries == 4
    assert run_command(cli, ["init", train, "--valid", vali, "--test", test, "-o", str(three)]) == 0
    assert load_experiment(three).data.splits["all"].valid == ("vali.txt",)


def test_no_file_is_ever_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "experiment.yaml"
    output.write_text("mine\n")
    assert run_command(cli, ["init", "-o", str(output)]) == 2
    assert output.read_text() == "mine\n"
    assert "exists already; nothing was written; choose another name with -o" in capsys.readouterr().err


def test_a_full_disk_leaves_no_file_and_the_name_free(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "experiment.yaml"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        code = run_command(cli, ["init", "-o", str(output)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert code == 1
    assert f"error: {output}: File too large" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_without_data_the_experiment_is_about_made_up_data(tmp_path: Path) -> None:
    output = tmp_path / "first.yaml"
    assert run_command(cli, ["init", "-o", str(output)]) == 0
    prepared = prepare(read(output, runs=tmp_path / "runs"))
    assert prepared.experiment.name == "first"
    assert {str(model.ranker_name) for model in prepared.experiment.models.values()} == {
        "lightgbm",
        "xgboost",
        "feature",
        "random",
    }


def test_the_present_ranking_is_the_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = frame().assign(position=np.tile(np.arange(12, 0, -1), 40))
    output = tmp_path / "mine.yaml"
    assert "as-shown: the present ranking, by column 'position'" in _written_for(rows, output, capsys)
    experiment = load_experiment(output)
    assert experiment.compare.baseline == "as-shown"
    assert experiment.models["as-shown"].ranker_name == "position"
    assert {task.model for task in prepare(read(output, runs=tmp_path / "runs")).tasks} > {"as-shown"}

    rows = rows.rename(columns={"position": "slot"})
    said = _written_for(rows, tmp_path / "other.yaml", capsys)
    assert "as-shown: the present ranking, by feature 'slot' (low values first)" in said
    assert "one-feature: 'match: title' is the best single feature" in said


def _written_for(rows: pd.DataFrame, output: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_command(cli, ["init", str(write_csv(output.parent, rows)), "-o", str(output)]) == 0
    return capsys.readouterr().out


def test_the_best_feature_is_no_suspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = frame()
    rows["customer"] = np.arange(len(rows)) + 5 * rows.relevance  # ranks best, and stands for rows
    output = tmp_path / "mine.yaml"
    said = _written_for(rows, output, capsys)
    assert "one-feature: 'match: title' is the best single feature\nbaseline: one-feature" in said
    assert load_experiment(output).compare.baseline == "one-feature"


def test_few_queries_give_fewer_folds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "mine.yaml"
    _written_for(frame(3), output, capsys)
    assert load_experiment(output).data.folds == 3
    prepare(read(output, runs=tmp_path / "runs"))
    data = str(write_csv(tmp_path, frame(2)))
    assert run_command(cli, ["init", data, "-o", str(tmp_path / "two.yaml")]) == 2
    assert "3 folds of 2 queries" in capsys.readouterr().err


def test_data_that_fail_the_check_give_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "mine.yaml"
    data = str(write_csv(tmp_path, frame().assign(relevance=0)))
    assert run_command(cli, ["init", data, "-o", str(output)]) == 2
    assert "ndcg@10 is undefined for every query" in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("leaks", "cure"),
    [
        (
            ("leak",),
            "check whether it is made from the labels or known only after the fact, and leave it out: ",
        ),
        (
            ("leak", "copy"),
            "check whether they are made from the labels or known only after the fact, and leave them out: ",
        ),
    ],
)
def test_where_all_features_are_suspects_no_line_names_the_others(
    leaks: tuple[str, ...], cure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = frame()[["srch_id", "prop_id", "relevance"]]
    rows = rows.assign(**{name: rows["relevance"] * 3.0 + number for number, name in enumerate(leaks)})
    arguments = ["init", str(write_csv(tmp_path, rows)), "-o", str(tmp_path / "e.yaml")]
    assert run_command(cli, arguments) == 2
    assert f"{cure}no other feature is left to learn from; " in capsys.readouterr().err


def test_labels_below_zero_are_said_once_with_the_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = frame().rename(columns={"relevance": "rating"})
    rows["rating"] -= 2
    output, data = tmp_path / "mine.yaml", str(write_csv(tmp_path, rows))
    assert run_command(cli, ["init", data, "-o", str(output)]) == 2
    said = capsys.readouterr()
    assert (said.out + said.err).count("labels go down to -2") == 1
    rule = "relevance={mode: quantiles, column: rating, bins: 5}"
    assert f"--column '{rule}'" in said.err
    assert run_command(cli, ["init", data, "-o", str(output), "--column", rule]) == 0
    prepare(read(output, runs=tmp_path / "runs"))


def test_times_and_users_of_queries_are_said_with_lines_to_uncomment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    days = pd.date_range("2024-01-01", periods=40).strftime("%Y-%m-%d").repeat(12)
    rows = frame().assign(timestamp=days, user_id=np.repeat(np.arange(10), 48))
    output = tmp_path / "mine.yaml"
    said = _written_for(rows.sample(frac=1, random_state=1), output, capsys)
    folds = "folds: {by_time: timestamp, test: 6 days, valid: 6 days}"
    assert (
        "note: queries have a time (timestamp), and shuffled folds train on queries that came after the tested ones"
        in said
    )
    assert f"`{folds}` trains on the past" in said
    assert "`compare: {unit: user_id}` counts users" in said
    assert run_command(cli, ["check", str(output), "--runs", str(tmp_path / "runs")]) == 0
    checked = capsys.readouterr().out
    assert (
        checked.count("queries have a time (timestamp)")
        == checked.count("queries have a user (user_id)")
        == 1
    )
    _uncomment(output)
    experiment = prepare(read(output, runs=tmp_path / "runs")).experiment
    assert experiment.data.folds.by_time == "timestamp"
    assert experiment.compare.unit == "user_id"
    assert run_command(cli, ["check", str(output), "--runs", str(tmp_path / "runs")]) == 0
    assert "queries have a" not in capsys.readouterr().out


def _uncomment(output: Path) -> None:
    text = output.read_text()
    for key in ("folds:", "compare:"):  # the line in use, which a commented one is to replace
        text = "\n".join(line for line in text.splitlines() if not line.strip().startswith(key))
    output.write_text(
        text.replace("# folds:", "folds:")
        .replace("# attributes:", "attributes:")
        .replace("# compare:", "compare:")
    )


def test_a_query_that_is_a_date_has_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = frame()
    rows["srch_id"] = pd.date_range("2024-01-01", periods=40).strftime("%Y-%m-%d").repeat(12)
    output = tmp_path / "mine.yaml"
    assert "note: queries have a time (srch_id)" in _written_for(rows, output, capsys)
    assert "  # folds: {by_time: srch_id, test: 6 days, valid: 6 days}\n" in output.read_text()
    assert "# attributes:" not in output.read_text()
    _uncomment(output)
    prepare(read(output, runs=tmp_path / "runs"))


def test_what_differs_within_a_query_is_neither_its_time_nor_its_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = frame()
    rows["date"] = np.resize(["2024-01-01", "2024-02-01"], len(rows))
    rows["user"] = np.resize(["a", "b"], len(rows))
    said = _written_for(rows, tmp_path / "mine.yaml", capsys)
    assert "queries have" not in said
    assert "# folds" not in (tmp_path / "mine.yaml").read_text()
