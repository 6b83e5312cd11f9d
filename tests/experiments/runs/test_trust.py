"""Folders of somebody else execute nothing on this machine, unless their reader says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness import compare, load_run, run_experiment
from ltr_harness._util.catalog import load_own_file
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import DataError, UsageError
from ltr_harness.experiments.config.schema import Experiment
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.training.reproduce import reproduce
from ltr_harness.report.data import stored_data

SMALL: dict[str, Any] = {
    "name": "small",
    "seeds": [1],
    "data": {"reader": "synthetic", "n_queries": {"train": 20, "valid": 10, "test": 20}, "n_features": 12},
    "metrics": {"cutoffs": [3], "report": ["ndcg"], "primary": "ndcg@3"},
    "models": {"random": {"ranker": "random"}, "one": {"ranker": "feature", "feature": "match_1"}},
    "report": {"formats": ["json"]},
}

PAYLOAD = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
from ltr_harness.models.random import RandomModel, RandomRanker
from ltr_harness.data.readers.synthetic import Synthetic

class Ranker(RandomRanker):
    @classmethod
    def load(cls, folder, threads=None): return RandomModel.load(folder, threads)

class Reader(Synthetic): pass

def metric(labels, scores): return labels[0]
"""


@pytest.fixture(scope="module")
def finished_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_experiment(SMALL, runs=tmp_path_factory.mktemp("trust")).folder


@pytest.fixture
def foreign(finished_folder: Path, tmp_path: Path) -> Path:
    """An experiment's folder as somebody else may have written it: everything that can name code names theirs."""
    folder = tmp_path / "foreign"
    shutil.copytree(finished_folder, folder)
    payload = tmp_path / "payload.py"
    payload.write_text(f"{PAYLOAD}# {tmp_path}\n")  # a content that no other test of this process has trusted
    settings = yaml.safe_load((folder / "experiment.yaml").read_text())
    settings["data"]["reader"] = f"{payload}:Reader"
    settings["models"]["random"]["ranker"] = f"{payload}:Ranker"
    settings["metrics"]["report"].append(f"{payload}:metric(higher_is_better=true)")
    (folder / "experiment.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))

    def name_code(record: dict[str, Any]) -> None:
        record["ranker"] = f"{payload}:Ranker"
        record["reading"]["reader"] = f"{payload}:Reader"
        spelling = f"{payload}:metric(higher_is_better=true)"
        record["own_metrics"] = {"ndcg@3": {"spelling": spelling, "sha256": "0" * 64}}

    for path in folder.glob("random--*/record.json"):
        edit(path, name_code)
    return folder


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def was_executed(foreign: Path) -> bool:
    return (foreign.parent / "executed").exists()


def run_of(folder: Path, model: str = "random") -> str:
    [path] = folder.glob(f"{model}--*")
    return str(path)


@pytest.mark.long
@pytest.mark.usefixtures("empty_pictures")
@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "FOLDER"],
        ["compare", "FOLDER", "-m", "mrr@3"],
        ["compare", "FOLDER", "--fail-if", "mrr@3 < 0"],
        ["report", "FOLDER"],
        ["report", "FOLDER", "--baseline", "one", "--format", "html"],
        ["show", "run", "RUN"],
        ["show", "worst", "RUN"],
        ["explain", "ndcg@3", "RUN", "--query", "QUERY"],
        ["export", "requirements", "FOLDER"],
    ],
    ids=" ".join,
)
def test_results_are_read_without_code(
    foreign: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    query = load_run(run_of(foreign)).per_query["query_id"].iloc[0]
    places = {"FOLDER": str(foreign), "RUN": run_of(foreign), "QUERY": str(query)}
    assert run_command(cli, [places.get(word, word) for word in arguments]) == 0, capsys.readouterr().err
    assert not was_executed(foreign)


@pytest.mark.long
def test_the_report_is_that_of_the_declared_comparison(foreign: Path) -> None:
    settings = yaml.safe_load((foreign / "experiment.yaml").read_text())
    settings["compare"] |= {"baseline": "one", "test": "t"}
    text = yaml.safe_dump(settings, sort_keys=False)
    (foreign / "experiment.yaml").write_text(text)
    data = stored_data([foreign])
    assert data.comparison.baseline == "one"
    assert data.comparison.method.test == "t"
    assert data.experiment_yaml == text
    assert not was_executed(foreign)


REFUSED = "which is executed only if you trust it"
CURE = "read that file, then add --trust (in Python: trust=True)"


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "RUN", "DATA", "-o", "OUT"],
        ["reproduce", "RUN"],
        ["show", "importance", "RUN"],
        ["show", "importance", "RUN", "--data", "DATA"],
        ["show", "why", "RUN", "--query", "1"],
        ["show", "trees", "RUN"],
    ],
    ids=" ".join,
)
def test_code_that_a_folder_names_is_refused(
    foreign: Path, tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "new.txt"
    data.write_text("1 qid:1 " + " ".join(f"{number}:1" for number in range(1, 13)) + "\n")
    places = {"RUN": run_of(foreign), "DATA": str(data), "OUT": str(tmp_path / "scores.txt")}
    assert run_command(cli, [places.get(word, word) for word in arguments]) == 2
    said = capsys.readouterr().err
    assert f"{run_of(foreign)}: needs code from {foreign.parent}/payload.py, {REFUSED}; {CURE}" in said
    assert not was_executed(foreign)


def test_every_kind_of_code_is_refused(foreign: Path, finished_folder: Path) -> None:
    """A record that names but one of ranker, reader and metric is refused for that one."""
    path = Path(run_of(foreign)) / "record.json"
    theirs = json.loads(path.read_text())
    ours = json.loads((Path(run_of(finished_folder)) / "record.json").read_text())
    for changed in ({"ranker"}, {"reading"}, {"own_metrics"}):
        path.write_text(json.dumps({**ours, **{key: theirs[key] for key in changed}}))
        with pytest.raises(UsageError, match=REFUSED):
            reproduce(path.parent)
    assert not was_executed(foreign)


@pytest.mark.long
def test_trust_is_what_it_takes(foreign: Path) -> None:
    run = run_of(foreign)
    with pytest.raises(UsageError, match=REFUSED):
        _ = load_run(run).model
    assert not was_executed(foreign)
    assert load_run(run, trust=True).model is not None
    assert was_executed(foreign)


@pytest.mark.long
def test_the_flag_is_what_it_takes(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def own_ranker_alone(record: dict[str, Any]) -> None:
        record["own_metrics"] = {}

    edit(Path(run_of(foreign)) / "record.json", own_ranker_alone)
    assert run_command(cli, ["reproduce", run_of(foreign), "--trust"]) in (0, 1), capsys.readouterr().err
    assert was_executed(foreign)


@pytest.mark.long
def test_a_file_that_the_caller_named_is_executed_in_its_place(foreign: Path, tmp_path: Path) -> None:
    """The same content under a path of the caller's own: that file is used, the foreign folder's is not touched."""
    (tmp_path / "mine").mkdir()
    mine = tmp_path / "mine" / "ranker.py"
    mine.write_text((foreign.parent / "payload.py").read_text())
    load_own_file(f"{mine}:Ranker")
    (mine.parent / "executed").unlink()
    assert load_run(run_of(foreign)).model is not None
    assert not was_executed(foreign)
    (foreign.parent / "payload.py").write_text(PAYLOAD + "# changed\n")
    with pytest.raises(UsageError, match=REFUSED):
        _ = load_run(run_of(foreign)).model


@pytest.mark.long
def test_metrics_of_records_never_name_files(foreign: Path) -> None:
    name = f"{foreign.parent}/payload.py:metric(higher_is_better=true)"
    path = Path(run_of(foreign)) / "record.json"
    before = path.read_text()

    def primary(record: dict[str, Any]) -> None:
        record["primary"] = name

    def metrics(record: dict[str, Any]) -> None:
        record["metrics"][name] = record["metrics"]["ndcg@3"]

    def stopping(record: dict[str, Any]) -> None:
        record["stopping"] = {"metric": name, "on": "valid", "patience": 1, "min_delta": 0.0, "every": 1}
        record["stopping"]["max_rounds"] = 1

    for change in (primary, metrics, stopping):
        path.write_text(before)
        edit(path, change)
        with pytest.raises(DataError, match="does not hold what a record must"):
            load_run(path.parent)
        for command in (["compare"], ["report"], ["show", "run"], ["explain", "ndcg@3", "--query", "1"]):
            assert run_command(cli, [*command, str(path.parent)]) == 2
    assert not was_executed(foreign)


def test_columns_of_tables_never_name_files(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pandas as pd

    column = f"{foreign.parent}/payload.py:metric(higher_is_better=true)"
    tables = []
    for number in (1, 2):
        path = foreign.parent / f"{number}.csv"
        pd.DataFrame({"query_id": list("abc"), "ndcg@3": [0.1 * number, 0.5, 1.0], column: 1.0}).to_csv(
            path, index=False
        )
        tables.append(str(path))
    assert run_command(cli, ["compare", "--verbose", *tables]) == 0
    assert "ignored, not a metric" in capsys.readouterr().out
    assert not was_executed(foreign)


def test_saved_comparisons_never_name_files(foreign: Path, finished_folder: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    source = finished_folder / "report" / "comparison.parquet"
    table = parquet.read_table(source)
    name = f"{foreign.parent}/payload.py:metric(higher_is_better=true)"
    metadata = {
        key: value.replace(b'"ndcg@3"', json.dumps(name).encode())
        for key, value in table.schema.metadata.items()
    }
    columns = [name if column == "ndcg@3" else column for column in table.column_names]
    hostile = tmp_path / "saved.parquet"
    parquet.write_table(table.rename_columns(columns).replace_schema_metadata(metadata), hostile)
    with pytest.raises(DataError, match="cannot be read as a saved comparison"):
        compare(hostile)
    assert run_command(cli, ["compare", str(hostile), "-m", "mrr@3"]) == 2
    assert not was_executed(foreign)


@pytest.mark.long
@pytest.mark.usefixtures("without_report")
def test_an_experiment_of_ones_own_scores_its_models_again_wherever_its_file_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration names the ranker now; what the record says of its place is not asked."""
    for place in ("then", "now"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "payload.py").write_text(PAYLOAD)
    own = {**SMALL, "name": "own", "models": {"mine": {"ranker": "./payload.py:Ranker"}}}
    monkeypatch.chdir(tmp_path / "then")
    run_experiment(own, runs=tmp_path / "runs")
    shutil.rmtree(tmp_path / "then" / "payload.py", ignore_errors=True)
    (tmp_path / "then" / "payload.py").unlink(missing_ok=True)
    monkeypatch.chdir(tmp_path / "now")
    other = {**own, "metrics": {"cutoffs": [3], "report": ["ndcg", "mrr"], "primary": "ndcg@3"}}
    result = run_experiment(other, runs=tmp_path / "runs")
    assert not result.failures
    [run] = find_runs(tmp_path / "runs" / "own")
    assert set(run.record.metrics) == {"ndcg@3", "mrr@3"}


@pytest.mark.long
def test_the_experiment_is_the_callers(foreign: Path) -> None:
    """The files that an experiment names are loaded as before: its caller chose to run it."""
    from ltr_harness.experiments.config import load_experiment

    settings = yaml.safe_load((foreign / "experiment.yaml").read_text())
    assert isinstance(load_experiment(settings), Experiment)
    assert was_executed(foreign)
