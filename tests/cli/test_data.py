"""`ltr-harness data` and the lints of `ltr-harness check`, as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv, parquet

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.dataset import fingerprint_dataset
from ltr_harness.data.known_sets import SETS
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.parquet import Parquet


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run_command(cli, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sound LETOR files: 30 and 20 queries of 6 rows."""
    draws = np.random.default_rng(3)
    for name, n in (("train", 30), ("test", 20)):
        rows = []
        for query in range(n):
            for _ in range(6):
                values = " ".join(f"{i}:{value:.4f}" for i, value in enumerate(draws.normal(size=3), 1))
                rows.append(f"{draws.integers(3)} qid:{name}{query} {values}\n")
        (tmp_path / f"{name}.txt").write_text("".join(rows))
    return tmp_path


@pytest.mark.long
def test_describe_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys,
        "data",
        "describe",
        folder / "train.txt",
        f"judge={folder / 'test.txt'}",
        "-o",
        folder / "card",
    )
    assert code == 0
    assert "train.txt       30   180         3  6 / 6 / 6" in out
    assert "\njudge " in out
    assert out.startswith("Nothing suspicious found.\n")
    assert err.splitlines() == [f"wrote {folder}/card/data_card.html", f"wrote {folder}/card/data_card.md"]


def test_describe_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "data", "describe", folder / "train.txt", "--json")
    assert code == 0
    facts = json.loads(out)
    assert facts["splits"][0]["n_rows"] == 180
    assert sum(facts["splits"][0]["grades"].values()) == 180
    assert facts["cautions"] == []


@pytest.mark.long
def test_describe_ends_with_what_check_says_of_columns_and_queries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draws = np.random.default_rng(3)
    rows = ["query_id,label,price,weight,timestamp,user_id"]
    for query in range(30):
        for _ in range(6):
            price = "call us" if len(rows) == 77 else f"{draws.normal():.3f}"
            rows.append(
                f"{query},{draws.integers(3)},{price},{draws.normal():.3f},2024-01-{query + 1:02},{query // 3}"
            )
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    code, out, _ = run(capsys, "data", "describe", path)
    assert code == 0
    assert out.startswith("1 warning and 2 notes in rows.csv.")
    at_end = out.split("\n\n")[-1].splitlines()
    assert at_end[0].startswith(
        "warning: rows.csv: 179 of 180 cells of price in rows.csv are numbers, 'call us' in line"
    )
    assert at_end[1].startswith("note: rows.csv: queries have a time (timestamp)")
    assert at_end[2].startswith("note: rows.csv: queries have a user (user_id)")
    assert out.count("call us") == 1
    facts = json.loads(run(capsys, "data", "describe", path, "--json")[1])
    assert [one["kind"] for one in facts["cautions"]] == [
        "text-in-numbers",
        "queries-in-time",
        "queries-of-users",
    ]


@pytest.mark.long
def test_describe_an_experiment_and_wrong_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "data", "describe", "configs/quickstart.yaml", "--set", "data.n_queries.train=20"
    )
    assert code == 0
    assert "train       20" in out
    file = folder / "train.txt"
    code, _, err = run(capsys, "data", "describe", file, "--reader-option", "n_feature=3")
    assert code == 2
    assert err.startswith("error: n_feature=3: unknown key 'n_feature' in data; did you mean 'n_features'?")
    assert "error: x: not KEY=VALUE" in run(capsys, "data", "describe", file, "--column", "x")[2]
    assert (
        "n_features is 'x'; expected an integer >= 1"
        in (run(capsys, "data", "describe", file, "--reader-option", "n_features=x")[2])
    )
    assert (
        "unknown reader 'leter'; did you mean 'letor'?"
        in run(capsys, "data", "describe", file, "--reader", "leter")[2]
    )
    assert (
        "configs/quickstart.yaml with --reader or --column, which are about data files"
        in run(capsys, "data", "describe", "configs/quickstart.yaml", "--column", "label=grade")[2]
    )
    assert (
        "--set label=grade with data files; --set changes a value of an experiment's file; expected --column"
        in run(capsys, "data", "describe", file, "--set", "label=grade")[2]
    )
    code, _, err = run(capsys, "data", "descibe")
    assert code == 2
    assert "did you mean 'describe'?" in err


def test_check_finds_what_is_planted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = folder / "x.yaml"
    config.write_text(
        "name: x\ndata:\n  reader: letor\n  splits: {train: train.txt, test: test.txt}\n"
        "metrics: {report: [ndcg], cutoffs: [50], primary: ndcg@50}\nmodels: {one: {ranker: feature, feature: 1}}\n"
    )
    code, out, _ = run(capsys, "check", config)
    assert code == 0
    assert "primary ndcg@50; no errors, 1 caution" in out
    assert "ndcg@50: the cutoff is above the median list length, 6 documents" in out
    text = (folder / "test.txt").read_text()
    leaked = "\n".join(f"{line} 4:{line[0]}" for line in text.splitlines())
    (folder / "test.txt").write_text(leaked)
    (folder / "train.txt").write_text(leaked)
    code, out, _ = run(capsys, "check", config)
    assert code == 2
    lines = out.splitlines()
    assert any(line.startswith("error: train and test: 20 queries are in both") for line in lines)
    alone = "error: train (alike: test): feature 4 alone ranks with NDCG@10 of 1.0000"
    assert any(line.startswith(alone) for line in lines)
    assert lines[-1] == (
        "primary ndcg@50; 2 errors in the data, see above; if intended: "
        "--accept query-in-two-splits --accept leaking-feature"
    )


# --- convert and split ---------------------------------------------------------------------------------------


def test_convert_there_and_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, "data", "convert", folder / "train.txt", "-o", folder / "x" / "train.parquet"
    )
    assert (code, err) == (0, "")
    assert out == f"wrote {folder}/x/train.parquet: 30 queries, 180 rows, 3 features\n"
    code, _, err = run(
        capsys, "data", "convert", folder / "x" / "train.parquet", "-o", folder / "back.txt.gz"
    )
    assert (code, err) == (0, "")
    back, there = Letor().read(["back.txt.gz"], folder), Letor().read(["train.txt"], folder)
    assert fingerprint_dataset(back) == fingerprint_dataset(there)
    code, _, err = run(
        capsys, "data", "convert", folder / "train.txt", "-o", folder / "rank", "--to", "lightgbm"
    )
    assert err == "note: query ids have no place in this format and are left out\n"
    assert run(capsys, "data", "describe", folder / "rank")[1].splitlines()[3].split()[:3] == [
        "rank",
        "30",
        "180",
    ]


def test_convert_to_nowhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "data", "convert", folder / "train.txt", "-o", folder / "train.xyz")
    assert code == 2
    assert (
        err == f"error: {folder}/train.xyz: has no suffix that names its format; "
        "expected one of letor, lightgbm, csv, parquet, arrow, qrels\n"
    )
    assert run(capsys, "data", "convert", folder / "nothing.txt", "-o", folder / "a.csv")[0] == 2


def test_split_by_shares(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "data",
        "split",
        folder / "train.txt",
        "-o",
        folder / "parts",
        "--valid",
        "0.1",
        "--test",
        "0.2",
    )
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert out.splitlines() == [
        f"wrote {folder}/parts/train.txt: 21 queries, 126 rows",
        f"wrote {folder}/parts/valid.txt: 3 queries, 18 rows",
        f"wrote {folder}/parts/test.txt: 6 queries, 36 rows",
    ]
    whole = Letor().read(["train.txt"], folder)
    parts = [Letor().read([f"{part}.txt"], folder / "parts") for part in ("train", "valid", "test")]
    assert sorted(np.concatenate([part.groups.ids for part in parts])) == sorted(whole.groups.ids)
    lines = (folder / "parts" / "splits.tsv").read_text().splitlines()
    assert lines[0] == "query_id\tpart"
    assert len(lines) == 31
    assert {line.split("\t")[0] for line in lines if line.endswith("\ttest")} == set(parts[2].groups.ids)


def test_folds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "data", "split", folder / "train.txt", "-o", folder / "folds", "--folds", "3")
    assert code == 0
    assert len(out.splitlines()) == 9
    tested = [Letor().read(["test.txt"], folder / "folds" / f"fold{i}").groups.ids for i in (1, 2, 3)]
    assert len(set(np.concatenate(tested))) == 30


@pytest.mark.parametrize("way", ["--by-time", "--together", "--stratify"])
def test_split_by_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str) -> None:
    rows = "".join(f"q{q},{q % 2},{q}.5,{q // 4}\n" for q in range(40))
    (tmp_path / "log.csv").write_text("query_id,label,f,day\n" + rows)
    code, _, err = run(
        capsys, "data", "split", tmp_path / "log.csv", "-o", tmp_path / "p", "--test", "0.2", way, "day"
    )
    assert code == 0
    assert err == "note: read it with the options attributes=[day]\n"
    days = {
        part: Csv(attributes=("day",)).read([f"{part}.csv"], tmp_path / "p").query_attributes["day"].tolist()
        for part in ("train", "test")
    }
    assert len(days["test"]) == 8
    if way == "--stratify":
        assert max(map(days["test"].count, range(10))) == 1
    else:
        assert not set(days["train"]) & set(days["test"])
    if way == "--by-time":
        assert set(days["test"]) == {8, 9}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".txt"])
def test_split_keeps_missed_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    rows = [
        f"q{q},{q % 3},{'' if q % 2 else q},{1 - q % 2}\n" for q in range(10)
    ]  # every other query has no candidate
    rows += [f"q{q},1,,0\n" for q in range(10)]  # scattered
    file = tmp_path / "log.csv"
    kind: type[Csv | Parquet] = Csv
    file.write_text("query_id,label,f,found\n" + "".join(rows))
    if suffix == ".parquet":
        table, file, kind = csv.read_csv(file), tmp_path / "log.parquet", Parquet
        parquet.write_table(table, file)
    said = ("--column", "retrieved=found", "--column", "regroup=true", "--format", suffix)
    code, out, _ = run(capsys, "data", "split", file, "-o", tmp_path / "p", "--test", "0.4", *said)
    assert code == 0
    whole = kind(retrieved="found", regroup=True).read([file.name], tmp_path)
    sizes = []
    for part in ("test", "train"):
        named = (line.split("\t") for line in (tmp_path / "p" / "splits.tsv").read_text().splitlines())
        queries = np.flatnonzero(np.isin(whole.groups.ids, [query for query, of in named if of == part]))
        expected = whole.take(queries)
        assert expected.judgments.missed is not None
        sizes.append(
            f"{queries.size} queries, {expected.n_rows} rows, {expected.judgments.missed.labels.size} missed"
        )
        if suffix != ".txt":
            found = kind(retrieved="found", regroup=True).read([f"{part}{suffix}"], tmp_path / "p")
            assert fingerprint_dataset(found) == fingerprint_dataset(expected)
    assert [line.partition(": ")[2].removesuffix(" documents") for line in out.splitlines()] == sizes[::-1]


@pytest.mark.long
@pytest.mark.parametrize("way", ["--together", "--stratify"])
def test_folds_by_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str) -> None:
    rows = "".join(f"q{q},{q % 2},{q}.5,u{q // 3}\n" for q in range(36))
    (tmp_path / "log.csv").write_text("query_id,label,f,user\n" + rows)
    split = ("data", "split", tmp_path / "log.csv", "-o", tmp_path / "p", "--folds", "3", way, "user")
    assert run(capsys, *split)[0] == 0
    for fold in ("fold1", "fold2", "fold3"):
        users = [
            Csv(attributes=("user",)).read([f"{part}.csv"], tmp_path / "p" / fold).query_attributes["user"]
            for part in ("train", "valid", "test")
        ]
        assert [len(part) for part in users] == [12, 12, 12]
        if way == "--stratify":
            assert all(len(set(part)) == 12 for part in users)
        else:
            assert sum(len(set(part)) for part in users) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no split given; expected --test 0.2, with or without --valid, or --folds 5"),
        (["--test", "1.5"], "shares are test 1.5; expected shares above 0 that add up to less than 1"),
        (["--folds", "2"], "2 folds; expected at least 3"),
        (["--folds", "3", "--test", "0.2"], "--folds with --valid or --test; expected one of them"),
        (
            ["--test", "0.2", "--by-time", "day"],
            "column 'day': letor files have no columns; expected csv or parquet",
        ),
        (
            ["--test", "0.2", "--by-time", "day", "--together", "u"],
            "exclude each other; expected at most one",
        ),
        (
            ["--folds", "3", "--by-time", "day"],
            "--folds with --by-time: every fold would train on queries later",
        ),
    ],
)
def test_split_refuses(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, _, err = run(capsys, "data", "split", folder / "train.txt", "-o", folder / "p", *arguments)
    assert code == 2
    assert message in err
    assert not (folder / "p").exists()


def test_labelled_rows_are_parsed_once_whichever_command_reads_them(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTR_HARNESS_CACHE", str(folder / "cache"))
    np.save(folder / "scores.npy", np.arange(120.0))
    evaluate = ("evaluate", "--data", folder / "test.txt", "--scores", folder / "scores.npy", "-m", "ndcg@10")
    first = run(capsys, *evaluate)
    assert first[0] == 0
    monkeypatch.setattr(Letor, "read", lambda *_: pytest.fail("parsed again"))
    assert run(capsys, *evaluate) == first
    assert run(capsys, "data", "describe", folder / "test.txt")[0] == 0


# --- public sets ---------------------------------------------------------------------------------------------


def test_the_sets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "data", "list")
    assert code == 0
    digest = SETS["mslr-web10k"].archive
    assert digest is not None
    assert (
        f"""
mslr-web10k       MSLR-WEB10K: web search of Bing, 136 features, grades 0 to 4, five folds
                  10,000 queries and 1,200,192 rows; Microsoft Research licence: research use only, no redistribution
                  https://www.microsoft.com/en-us/research/project/mslr/
                  On the home page accept the licence, fetch MSLR-WEB10K.zip and unpack it: the folder then holds \
Fold1 … Fold5, each with train.txt, vali.txt and test.txt.
                  MSLR-WEB10K.zip: 1,234,144,912 bytes, SHA-256 {digest.sha256}
"""
        in out
    )
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == list(SETS)
