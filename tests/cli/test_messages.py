"""The lines that a user sees when something is wrong: one clear line each, exit 2, never a traceback."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

Cli = Callable[..., tuple[int, str, str]]

GOOD_ROWS = "2 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:3\n1 qid:2 1:0.2 2:1\n0 qid:2 1:0.4 2:0\n"
CONFIG = """\
name: broken
data:
  reader: letor
  root: .
  splits: {train: train.txt, valid: valid.txt, test: test.txt}
metrics: {cutoffs: [1], report: [ndcg], primary: ndcg@1}
stopping: {metric: ndcg@1, patience: 2, max_rounds: 3}
models:
  a: {ranker: lightgbm, objective: lambdarank, params: {min_data_in_leaf: 1}}
  r: {ranker: random}
"""


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


def write(folder: Path, config: str = CONFIG, **files: str) -> str:
    for number, split in enumerate(("train", "valid", "test")):
        # every split has queries and rows of its own: the same ones would be a leak, and refused
        own = GOOD_ROWS.replace("qid:", f"qid:{number}").replace("1:0.", f"1:{number}.")
        (folder / f"{split}.txt").write_text(files.get(split, own))
    (folder / "broken.yaml").write_text(config)
    return "broken.yaml"


@pytest.mark.long
def test_good_input_passes(ltr: Cli, tmp_path: Path) -> None:
    code, out, _ = ltr("check", write(tmp_path))
    assert code == 0
    assert "train: 2 queries, 4 rows, 2 features" in out
    assert "no problems found" in out


@pytest.mark.parametrize(
    ("split", "rows", "said"),
    [
        ("train", "nan qid:1 1:0.5 2:1\n", ["train.txt:1", "nan"]),
        ("train", GOOD_ROWS + "x qid:03 1:1\n", ["train.txt:5", "'x'"]),
        ("test", "-1 qid:1 1:0.5 2:1\n", ["test.txt: ndcg@1: label -1", "query '1', its row 0"]),
        ("valid", "1 qid:1 1:0.5 2:oops\n", ["valid.txt:1", "oops"]),
        ("train", "1 1:0.5 2:1\n", ["train.txt:1", "qid"]),
        ("test", "1 qid:1 1:1\n0 qid:2 1:2\n0 qid:1 1:3\n", ["test.txt:3", "regroup"]),
        ("test", "1 qid:1 1:1 2:1 3:1\n", ["test", "3", "train"]),
        (
            "train",
            "0.5 qid:1 1:1 2:1\n0 qid:1 1:2 2:1\n",
            ["lambdarank refuses fractional labels; found 1 such training label"],
        ),
        ("train", "31 qid:1 1:1 2:1\n0 qid:1 1:2 2:1\n", ["31", "label"]),
        ("test", "0.5 qid:1 1:1 2:1\n", ["label 0.5 in query '1'", "gain=linear"]),
        ("train", "", ["train.txt: the file is empty"]),
    ],
)
def test_bad_rows(ltr: Cli, tmp_path: Path, split: str, rows: str, said: list[str]) -> None:
    config = write(tmp_path, **{split: rows})
    for command in ("check", "run"):
        code, _, err = ltr(command, config)
        assert code == 2
        for part in said:
            assert part in err
    assert not (tmp_path / "runs").exists()


def test_a_missing_file_is_named_with_what_is_there(ltr: Cli, tmp_path: Path) -> None:
    config = write(tmp_path)
    (tmp_path / "test.txt").rename(tmp_path / "tset.txt")
    code, _, err = ltr("run", config)
    assert code == 2
    assert "test.txt" in err
    assert "tset.txt" in err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("patience: 2", "patiense: 2", ["broken.yaml:7", "patiense", "patience"]),
        ("objective: lambdarank", "objective: lambdarnk", ["broken.yaml:9", "lambdarnk", "lambdarank"]),
        ("{min_data_in_leaf: 1}", "{num_leafs: 3}", ["broken.yaml:9", "num_leafs"]),
        ("{min_data_in_leaf: 1}", "{random_state: 3}", ["broken.yaml:9", "random_state", "seeds"]),
        ("{min_data_in_leaf: 1}", "{early_stopping_round: 3}", ["early_stopping_round", "stopping"]),
        ("{min_data_in_leaf: 1}", "{num_iterations: 3}", ["num_iterations", "max_rounds"]),
        ("metric: ndcg@1", "metric: ndgc@1", ["broken.yaml:7", "ndgc", "ndcg"]),
        ("primary: ndcg@1", "primary: ndcg", ["broken.yaml:6", "fixed K"]),
        ("valid: valid.txt, ", "", ["broken.yaml", "holdout"]),
        ("valid: valid.txt", "valid: test.txt", ["broken.yaml:5", "test"]),
        ("{metric: ndcg@1,", "{metric: ndcg@1, on: test,", ["broken.yaml:7", "test"]),
        ("reader: letor", "reader: leter", ["broken.yaml:3", "leter", "letor"]),
        ("name: broken", "name: broken\nname: twice", ["broken.yaml:2", "name"]),
        ("name: broken", "name: [", ["broken.yaml"]),
        ("ranker: random", "ranker: randum", ["broken.yaml:10", "randum", "random"]),
    ],
)
def test_bad_configurations(ltr: Cli, tmp_path: Path, old: str, new: str, said: list[str]) -> None:
    assert old in CONFIG
    config = write(tmp_path, CONFIG.replace(old, new))
    code, _, err = ltr("run", config)
    assert code == 2
    for part in said:
        assert part in err, err
    assert not (tmp_path / "runs").exists()


def test_all_problems_come_at_once(ltr: Cli, tmp_path: Path) -> None:
    text = CONFIG.replace("patience: 2", "patiense: 2").replace("ranker: random", "ranker: randum")
    code, _, err = ltr("check", write(tmp_path, text))
    assert code == 2
    assert err.startswith("2 problems:")


@pytest.mark.parametrize("arguments", [("run", "none.yaml"), ("report", "none"), ("show", "run", "none")])
def test_what_does_not_exist_is_named(ltr: Cli, arguments: tuple[str, ...]) -> None:
    code, _, err = ltr(*arguments)
    assert code == 2
    assert arguments[-1] in err


def test_a_misspelt_command_or_option_gets_a_suggestion(ltr: Cli, tmp_path: Path) -> None:
    code, _, err = ltr("rum")
    assert (code, "did you mean 'run'" in err) == (2, True)
    code, _, err = ltr("run", write(tmp_path), "--wrokers", "2")
    assert (code, "--workers" in err) == (2, True)


def without_lightgbm(text: str) -> str:
    return text.replace("  a: {ranker: lightgbm, objective: lambdarank, params: {min_data_in_leaf: 1}}\n", "")


def test_zero_size_groups_are_refused_and_one_row_queries_are_not(ltr: Cli, tmp_path: Path) -> None:
    text = without_lightgbm(CONFIG.replace("reader: letor", "reader: lightgbm"))
    rows = "1 1:0.5 2:1\n0 1:0.1 2:0\n1 1:0.4 2:1\n"
    config = write(tmp_path, text, train=rows, valid=rows, test=rows)
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt.query").write_text("2\n1\n")
    code, out, _ = ltr("check", config)
    assert (code, "train: 2 queries, 3 rows" in out) == (0, True)
    (tmp_path / "valid.txt.query").write_text("2\n0\n1\n")
    code, _, err = ltr("check", config)
    assert code == 2
    assert "valid.txt.query" in err
    assert "0" in err


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_different_k_is_refused_with_the_reason(ltr: Cli, tmp_path: Path) -> None:
    text = without_lightgbm(CONFIG)
    write(tmp_path, text)
    assert ltr("run", "broken.yaml", "-q")[0] == 0
    other = (
        text.replace("name: broken", "name: other")
        .replace("@1", "@2")
        .replace("cutoffs: [1]", "cutoffs: [2]")
    )
    (tmp_path / "other.yaml").write_text(other.replace("  r:", "  q:"))
    assert ltr("run", "other.yaml", "-q")[0] == 0
    code, _, err = ltr("report", "runs/broken", "runs/other", "-o", "out")
    assert code == 2
    assert "ndcg@1" in err
    assert "ndcg@2" in err
    assert not (tmp_path / "out").exists()


def test_ctrl_c_that_a_library_wrapped_is_still_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def loading() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as ctrl_c:
            raise RuntimeError("Error calling __set_name__ on 'Field' instance") from ctrl_c

    assert run_command(loading, []) == 130
    assert capsys.readouterr().err.startswith("interrupted; finished runs are kept")


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        (None, MemoryError()),
        (None, RuntimeError("can't start new thread")),
        (None, OSError(errno.ENOMEM, "Cannot allocate memory")),
        (
            OSError("libllvmlite.so: failed to map segment from shared object"),
            OSError("Could not find/load it"),
        ),
        (OSError("libarrow.so: failed to map segment from shared object"), ImportError("no lib")),
    ],
)
def test_too_little_memory_is_no_defect(
    inner: Exception | None, outer: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a library says it in its own words, as numba does when its machine code cannot be loaded."""

    @click.command()
    def large() -> None:
        raise outer from inner

    assert run_command(large, []) == 1
    said = capsys.readouterr().err
    assert said == "error: there is not enough memory; fewer rows, columns or --workers need less\n"


def test_a_defect_of_ours_is_one_message_and_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def fail() -> None:
        raise ZeroDivisionError("seven")

    monkeypatch.delenv("LTR_HARNESS_TRACEBACK", raising=False)
    assert run_command(fail, []) == 1
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("error: internal error: ZeroDivisionError: seven; this is a defect of ltr-harness")
    log = Path(said.rpartition("details: ")[2])
    assert "Traceback" in log.read_text()
    log.unlink()
    monkeypatch.setenv("LTR_HARNESS_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run_command(fail, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "x.yaml"], "no command 'train'; did you mean 'run'?"),
        (["eval"], "no command 'eval'; did you mean 'evaluate'?"),
        (["diff"], "no command 'diff'; did you mean 'compare'?"),
        (
            ["run", "broken.yaml", "--seed", "3"],
            "error: --seed 3: seeds are in the experiment's file; --set 'seeds=[3]' overrides them\n",
        ),
        (
            ["run", "monitor.yaml"],
            "error: monitor.yaml: is a file for monitoring; expected an experiment; "
            "run `ltr-harness monitor monitor.yaml`\n",
        ),
        (
            ["monitor", "broken.yaml"],
            "error: broken.yaml: is an experiment; expected a file for monitoring; run `ltr-harness run broken.yaml`\n",
        ),
        (
            ["check", "broken.yaml", "--set", "data.splits.train=t*.txt"],
            "t*.txt: no such file; patterns are not expanded; list the files: [test.txt, train.txt]\n",
        ),
    ],
)
def test_what_was_meant(ltr: Cli, tmp_path: Path, arguments: list[str], said: str) -> None:
    write(tmp_path)
    (tmp_path / "monitor.yaml").write_text("log: log.csv\ncolumns: {query_id: q}\nmetrics: [ndcg@10]\n")
    code, _, err = ltr(*arguments)
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        (
            "{train: train.txt, valid: valid.txt}",
            "broken.yaml:5:11: data.splits has no 'test'; add `test: test.csv` or `test: {holdout: 0.2}`; or `files:` "
            "and `folds: 5` in place of splits\n",
        ),
        (
            "{one: {train: train.txt}}",
            "broken.yaml:5:17: data.splits.one has no 'test'; add `test: test.csv`",
        ),
        (
            "{train: train.txt, valid: 0.2, test: test.txt}",
            "broken.yaml:5:37: data.splits.valid is 0.2; did you mean `{holdout: 0.2}`?\n",
        ),
        (
            "{train: train.txt, test: test.txt",
            "the '{' of line 5 is not closed, or a ',' is missing before this\n",
        ),
    ],
)
def test_splits_that_are_not_there(ltr: Cli, tmp_path: Path, splits: str, said: str) -> None:
    config = CONFIG.replace("{train: train.txt, valid: valid.txt, test: test.txt}", splits)
    code, _, err = ltr("check", write(tmp_path, config))
    assert code == 2
    assert said in err


def test_columns_of_other_names_are_guessed(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("search_id,grade,f\n1,1,0.5\n1,0,0.1\n")
    (tmp_path / "scores.txt").write_text("2\n1\n")
    for arguments in (
        ["evaluate", "--scores", "scores.txt", "-m", "ndcg@10", "--data"],
        ["data", "describe"],
    ):
        code, out, err = ltr(*arguments, "own.csv")
        assert code == 0
        assert err.startswith("note: own.csv: query: search_id, label: grade (--column chooses others)\n")
        assert "1.0000" in out or "1 feature: f" in out
    code, _, err = ltr("data", "describe", "own.csv", "--column", "query=search", "--column", "label=grade")
    assert (code, err) == (2, "error: own.csv: has no column 'search'; did you mean `query: search_id`?\n")


@pytest.mark.parametrize(
    ("typed", "instead", "cure"),
    [
        ("num_leafs: 3", "min_data_in_leaf: 1", "did you mean 'num_leaves'?"),
        ("primary: ndcg_at_1", "primary: ndcg@1", "did you mean 'ndcg@1'?"),
        ("primary: Hits@1", "primary: ndcg@1", "did you mean 'success'?"),
        ("ranker: LGBMRanker", "ranker: lightgbm", "did you mean 'lightgbm'?"),
        ("label_column: grade", "root: .", "did you mean 'label'?"),
    ],
)
def test_names_of_other_tools_are_answered_by_ours(
    ltr: Cli, tmp_path: Path, typed: str, instead: str, cure: str
) -> None:
    config = CONFIG.replace(instead, typed).replace("reader: letor", "reader: csv")
    code, _, err = ltr("check", write(tmp_path, config))
    assert code == 2
    assert cure in err


def test_a_label_among_the_features_is_named_as_such(ltr: Cli, tmp_path: Path) -> None:
    reader = "reader: csv\n  label: grade\n  features: [a, grade]"
    code, _, err = ltr("check", write(tmp_path, CONFIG.replace("reader: letor", reader)))
    assert code == 2
    assert "features: 'grade' is the label; expected features without it" in err


def test_json_lines_are_no_training_data(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "rag.jsonl").write_text('{"question_id": "q", "is_gold": 1}\n')
    assert ltr("init", "rag.jsonl") == (
        2,
        "",
        "error: rag.jsonl: JSON is not read as rows with features and labels; write the same table as Parquet or CSV\n",
    )
