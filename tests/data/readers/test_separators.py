"""The separator of a text table that was expected to have another, at every door."""

from pathlib import Path

import pytest

from ltr_harness.comparison import compare, evaluate_runs
from ltr_harness.data.logs.log import open_log
from ltr_harness.data.readers.csv import Csv
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.data.readers.scores import read_scores
from ltr_harness.errors import DataError

ROWS = (("query_id", "document_id", "label", "score"), ("1", "a", "1", "0.5"), ("1", "b", "0", "0.25"))


def write_rows(path: Path, separator: str, rows: tuple[tuple[str, ...], ...] = ROWS) -> str:
    path.write_text("".join(separator.join(cells) + "\n" for cells in rows))
    return str(path)


@pytest.mark.parametrize(
    ("separator", "word", "line"),
    [(";", "semicolon", ";"), ("\t", "tab", r"\t"), ("|", "vertical bar", "|")],
)
def test_rows_name_the_separator_and_the_line_that_cures(
    tmp_path: Path, separator: str, word: str, line: str
) -> None:
    name = write_rows(tmp_path / "rows.csv", separator)
    with pytest.raises(DataError) as error:
        Csv().read([name], tmp_path)
    found = f"{name}:1: the header is one field, and 4 where a {word} separates them"
    assert str(error.value).startswith(f"{found}; expected fields separated by a comma")
    assert f'name it: `separator: "{line}"` under `data:`' in str(error.value)
    assert Csv(separator=separator, features=("score",)).read([name], tmp_path).n_rows == 2


def test_commas_in_a_file_called_tsv(tmp_path: Path) -> None:
    name = write_rows(tmp_path / "rows.tsv", ",")
    with pytest.raises(
        DataError, match=r'4 where a comma separates them; .* a tab; name it: `separator: ","`'
    ):
        Csv().read([name], tmp_path)


def test_scores(tmp_path: Path) -> None:
    name = write_rows(tmp_path / "scores.csv", ";")
    judgments = from_arrays([[0.5], [0.25]], [1, 0], query_ids=["1", "1"]).judgments
    with pytest.raises(DataError, match="4 where a semicolon separates them"):
        read_scores(name, judgments)


def test_logs_of_the_monitor(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"4 where a semicolon separates them; .*; write it with commas"):
        open_log(write_rows(tmp_path / "log.csv", ";"))
    with pytest.raises(DataError, match=r"4 where a tab separates them; .*; call the file \.tsv"):
        open_log(write_rows(tmp_path / "log.csv", "\t"))
    assert open_log(write_rows(tmp_path / "log.tsv", "\t")).columns == ROWS[0]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_judgments_and_rankings_are_read_with_any(tmp_path: Path, separator: str) -> None:
    qrels, run = write_rows(tmp_path / "qrels.csv", separator), write_rows(tmp_path / "run.csv", separator)
    assert evaluate_runs(qrels, {"one": run}, ["mrr"])["one"]["mrr"].mean == 1
    unnamed = write_rows(tmp_path / "unnamed.csv", separator, (("topic_name", "thing", "quality"), *ROWS[1:]))
    with pytest.raises(DataError, match="columns: 'topic_name', 'thing', 'quality'"):
        evaluate_runs(unnamed, {"one": run}, ["mrr"])


def test_tables_of_metrics(tmp_path: Path) -> None:
    name = write_rows(tmp_path / "values.csv", ";", (("query_id", "ndcg@10"), ("1", "0.5"), ("2", "0.25")))
    with pytest.raises(DataError, match="2 where a semicolon separates them"):
        compare([name])
