"""Files with ids and grades and not one feature: enough to measure scores, too little to learn from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.data_source import guessed_reader, made_reader
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.cache import DataCache
from ltr_harness.data.dataset import fingerprint_dataset
from ltr_harness.data.readers.letor import Letor
from ltr_harness.errors import DataError
from ltr_harness.experiments.inspection import data_card, lint

Cli = Callable[..., tuple[int, str, str]]

TABLE = "query_id,document_id,label\n7,a,2\n7,b,0\n9,a,1\n9,c,0\n"
LETOR = "2 qid:7 # docid = a\n0 qid:7 # docid = b\n1 qid:9 # docid = a\n0 qid:9 # docid = c\n"
SCORES = "qid,docno,score\n9,c,0.1\n9,a,0.2\n7,b,0.5\n7,a,0.1\n"
FILES = ["j.csv", "j.parquet", "j.txt"]


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    Path("j.csv").write_text(TABLE)
    Path("j.txt").write_text(LETOR)
    pd.read_csv("j.csv").to_parquet("j.parquet")
    Path("a.csv").write_text(SCORES)
    Path("b.csv").write_text(SCORES.replace("0.5", "0.05"))

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        return code, *capsys.readouterr()

    return run


@pytest.mark.long
@pytest.mark.parametrize("file", FILES)
def test_they_are_measured_and_described(ltr: Cli, file: str) -> None:
    for _ in range(2):  # read, and from the cache
        code, out, err = ltr("evaluate", "--data", file, "--scores", "a.csv", "-m", "mrr", "--json")
        assert (code, err) == (0, "")
        assert '"mean": 0.75' in out  # query 7: b before a
    code, out, _ = ltr("data", "describe", file)
    assert code == 0
    assert out.startswith("Nothing suspicious found.\n")


@pytest.mark.long
def test_they_are_compared_and_explained(ltr: Cli) -> None:
    file = FILES[0]
    code, out, _ = ltr("compare", "a.csv", "b.csv", "--data", file, "-m", "mrr", "--json")
    assert code == 0
    assert '"mean": 0.75' in out
    assert '"mean": 1.0' in out
    code, out, _ = ltr("explain", "mrr", "--query", "7", "--data", file, "--scores", "a.csv")
    assert (code, out.splitlines()[0]) == (0, "a, query 7: mrr = 0.5000")


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_learned_from_them(ltr: Cli, tmp_path: Path, file: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / file).write_bytes(Path(file).read_bytes())
    with pytest.raises(
        DataError, match=rf"train split \({file}\): has no feature; expected a numeric column"
    ):
        run_experiment(
            {
                "name": "x",
                "data": {
                    "reader": guessed_reader(Path(file)),
                    "root": str(tmp_path),
                    "splits": {"train": file, "test": f"other/{file}"},
                },
                "metrics": {"cutoffs": [2], "report": ["ndcg"], "primary": "ndcg@2"},
                "report": {"formats": ["json"]},
                "models": {"random": {"ranker": "random"}},
            },
            runs=tmp_path / "runs",
            workers=1,
        )
    code, _, err = ltr("init", file)
    assert code == 2
    assert f"train split ({tmp_path / file}): has no feature" in err
    assert not Path("experiment.yaml").exists()


def test_columns_that_were_ignored_are_named_beside_it(tmp_path: Path) -> None:
    (tmp_path / "j.csv").write_text("query_id,label,brand\n7,2,x\n8,0,y\n9,1,y\n")
    with pytest.raises(
        DataError, match=r"has no feature; ignored non-numeric columns of j\.csv: brand; expected"
    ):
        run_experiment(
            {
                "name": "x",
                "data": {"reader": "csv", "root": str(tmp_path), "files": "j.csv", "folds": 3},
                "metrics": {"cutoffs": [2], "report": ["ndcg"], "primary": "ndcg@2"},
                "report": {"formats": ["json"]},
                "models": {"random": {"ranker": "random"}},
            },
            runs=tmp_path / "runs",
            workers=1,
        )


@pytest.mark.parametrize("file", FILES)
def test_the_cache_keeps_them(ltr: Cli, tmp_path: Path, file: str) -> None:
    cache = DataCache(tmp_path / "cache")
    reader = made_reader(guessed_reader(Path(file)))
    first, again = (cache.read(reader, [file], tmp_path) for _ in range(2))
    assert first.dataset.features.shape == again.dataset.features.shape == (4, 0)
    assert fingerprint_dataset(again.dataset) == again.fingerprints.dataset == first.fingerprints.dataset
    assert again.dataset.judgments.document_ids is not None
    assert again.dataset.judgments.document_ids.tolist() == ["a", "b", "a", "c"]


def test_equal_rows_are_no_finding_where_there_is_nothing_to_be_equal(tmp_path: Path) -> None:
    lines = "".join(f"{row % 2} qid:{row // 4}\n" for row in range(80))
    (tmp_path / "a.txt").write_text(lines)
    (tmp_path / "b.txt").write_text(lines.replace("qid:", "qid:9"))
    splits = {name: Letor().read([f"{name}.txt"], tmp_path) for name in "ab"}
    card = data_card(splits)
    assert [(split.n_forced_ties, split.n_repeated_rows) for split in card.splits] == [(0, 0)] * 2
    assert not lint(card)
    assert np.array_equal(splits["a"].labels, splits["b"].labels)
