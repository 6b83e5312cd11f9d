"""Folders that versions of the schema stored: today's code reads, scores, compares and reports all of them.

A folder of this one is made once by `make.py`, with the last commit that writes its version, and never changed. Another
version of the schema gets another folder, and these tests run on each.
"""

from __future__ import annotations

import json
import shutil
from contextlib import chdir
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xgboost
import yaml
from packaging.version import Version

from ltr_harness import compare, evaluate, load_run
from ltr_harness._util.stored import SCHEMA_VERSION, lifted
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import Caution, ConfigError, DataError
from ltr_harness.experiments.compare.ledger import looks_at
from ltr_harness.experiments.compare.online_agreement import _difference_of_monitor
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.experiments.runs.folder import damaged_files
from ltr_harness.experiments.training.reproduce import fold_of, reproduce
from ltr_harness.monitoring import monitor
from ltr_harness.monitoring.result import json_schema
from ltr_harness.monitoring.stored import is_result, read_history
from ltr_harness.report.json_document import schema
from tests.conftest import named_case

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.glob("v*"))
NEWEST = HERE / VERSIONS[-1]


@pytest.fixture(params=VERSIONS)
def folder(request: pytest.FixtureRequest) -> Path:
    return HERE / str(request.param)


@pytest.fixture
def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return found


@pytest.fixture
def runs(folder: Path) -> dict[str, Run]:
    return {run.path.name: run for run in find_runs(folder / "runs" / "small")}


@pytest.fixture
def experiment(folder: Path, tmp_path: Path) -> Path:
    """A copy of the experiment's folder: nothing is ever written beside what is frozen."""
    shutil.copytree(folder / "runs", tmp_path / "runs")
    return tmp_path / "runs" / "small"


def test_every_version_has_its_folder() -> None:
    assert [f"v{version}" for version in range(1, SCHEMA_VERSION + 1)] == VERSIONS


def test_records_load_and_every_file_is_what_they_say(runs: dict[str, Run], expected: dict[str, Any]) -> None:
    assert set(runs) == set(expected["runs"])
    assert {run.record.ranker for run in runs.values()} == {"lightgbm", "xgboost"}
    for name, run in runs.items():
        assert damaged_files(run.path, run.record) == []
        assert run.record.status == "complete"
        assert run.record.best_round == expected["runs"][name]["best_round"]
        means = {metric: summary.mean for metric, summary in run.record.metrics.items()}
        assert means == expected["runs"][name]["means"]


def test_cautions_of_records_are_what_was_found(runs: dict[str, Run], expected: dict[str, Any]) -> None:
    for name, run in runs.items():
        of_data, of_training = run.record.data_cautions, run.record.training_cautions
        assert [str(one) for one in of_training] == expected["runs"][name]["notes"]
        assert len(of_data) == expected["runs"][name]["n_findings"]
        assert {(one.kind, one.severity, one.place) for one in of_data} == {
            ("without-relevant-documents", "note", place) for place in ("train", "valid", "test")
        }
        text, cure = (
            "4 of 24 queries (17%) have no relevant document",
            "tools count them as 0, as 1 or not at all",
        )
        assert (of_data[-1].text, of_data[-1].cure.partition(":")[0]) == (text, cure)


def test_models_score_rows_as_they_did(folder: Path, runs: dict[str, Run], expected: dict[str, Any]) -> None:
    rows = pd.read_csv(folder / "rows.csv", dtype=np.float32)
    for name, run in runs.items():
        assert run.record.features == list(rows)
        if run.record.ranker == "xgboost" and Version(xgboost.__version__) < Version("3.1"):
            with pytest.raises(
                DataError, match=r"model.ubj: is of XGBoost 3.1 or newer.* expected XGBoost 3.1"
            ):
                run.score(rows)
            continue
        scores = run.score(rows)
        np.testing.assert_allclose(scores, expected["runs"][name]["scores"], rtol=1e-6, atol=1e-7)
        stored = run.test_scores["score"].to_numpy()[: len(rows)]
        np.testing.assert_allclose(scores, stored, rtol=1e-6, atol=1e-7)


def test_stored_scores_have_the_stored_values(runs: dict[str, Run]) -> None:
    for run in runs.values():
        table = run.test_scores
        found = evaluate(
            table["label"], table["score"], query_ids=table["query_id"], metrics=list(run.record.metrics)
        )
        for metric, summary in run.record.metrics.items():
            np.testing.assert_allclose(found[metric].per_query, run.per_query[metric], rtol=1e-12)
            assert found.means[metric] == pytest.approx(summary.mean, rel=1e-12)
            assert found[metric].n_undefined == summary.n_undefined


def test_history_of_training_ends_in_the_best_round(runs: dict[str, Run]) -> None:
    for run in runs.values():
        rule = run.record.stopping
        assert rule is not None
        watched = run.history[run.history["metric"] == rule.metric]
        assert watched["round"].tolist() == list(range(1, len(watched) + 1))
        assert watched["round"].iloc[watched["value"].argmax()] == run.record.best_round
        assert run.importance is not None
        assert run.importance["feature"].tolist() == run.record.features


def test_runs_and_the_saved_comparison_compare_as_they_did(
    folder: Path, runs: dict[str, Run], expected: dict[str, Any]
) -> None:
    wanted = expected["pair"]
    saved = folder / "runs" / "small" / "report" / "report.json"
    for inputs in (list(runs.values()), [saved]):
        pair = compare(*inputs, baseline=wanted["other"], ledger=False).paired(wanted["model"])
        for name, value in wanted.items():
            now = getattr(pair, name)
            assert now == (value if isinstance(value, str) else pytest.approx(value, abs=1e-9)), name


def test_the_data_are_made_again_to_the_byte(runs: dict[str, Run]) -> None:
    for run in runs.values():
        fold = fold_of(run)
        for split, facts in run.record.data.items():
            assert fold.facts[split].fingerprint == facts.fingerprint, split


def test_the_ledger_counts_the_comparison(folder: Path) -> None:
    (looks,) = looks_at(folder / "runs").values()
    assert (looks.comparisons, looks.models) == (1, 2)


def test_windows_of_the_monitor_are_read(folder: Path, expected: dict[str, Any]) -> None:
    (path,) = (folder / "monitor" / "history").iterdir()
    key = json.loads(path.read_text())["key"]
    windows = read_history(path.parent, key)
    assert [{"number": w.number, "n": w.n, "mean": w.mean} for w in windows] == expected["windows"]


@pytest.mark.long
def test_a_result_of_the_monitor_is_a_baseline(folder: Path) -> None:
    """The same queries again, which did not change."""
    result = folder / "monitor" / "result"
    assert is_result(result)
    found = monitor(folder / "monitor.yaml", baseline=result)
    assert found.baseline_kind == "an earlier result of monitor"
    assert found.changes[0].method.startswith("paired t over 240 queries")
    assert found.changes[0].difference.value == pytest.approx(0.0, abs=1e-12)


@pytest.fixture(scope="module")
def monitored_today() -> str:
    """The document of `monitor_every.yaml`, which is the same for all versions, as today's code makes it."""
    with chdir(NEWEST):
        return json.dumps(monitor("monitor_every.yaml").document)


@pytest.fixture(scope="module")
def monitor_schema() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())


def shape(value: Any) -> Any:
    """The keys of an object and of all that it holds; elements of a list together."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return reduce(merge_trees, map(shape, value), None)
    return None


def merge_trees(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: merge_trees(one.get(key), other.get(key)) for key in {**one, **other}}
    return other if one is None else one


@pytest.mark.long
def test_a_result_of_the_monitor_has_the_keys_of_today(
    folder: Path, monitored_today: str, monitor_schema: Any
) -> None:
    assert (folder / "monitor_every.yaml").read_text() == (NEWEST / "monitor_every.yaml").read_text()
    before = json.loads((folder / "monitor" / "every" / "report.json").read_text())
    now = json.loads(monitored_today)
    document = lifted("monitor", before)
    monitor_schema.validate(document)
    every = {"config", "definition"}  # as they were written
    if folder.name in ("v1", "v2"):  # which did not have them: version 3 has them empty
        every |= {"searched", "examined", "whole", "over_time"}
        for side in (document, now):
            for key in ("rank_1_against_rest", "positives_change"):
                del side["presentation"][key]
    assert shape({k: v for k, v in document.items() if k not in every}) == shape(
        {k: v for k, v in now.items() if k not in every}
    )
    # intervals are those of the tests since version 3
    old, new = (of["changes"][0]["difference"] for of in (document, now))
    for key in old.keys() - {"low", "high"} if folder.name in ("v1", "v2") else old:
        assert old[key] == pytest.approx(new[key])
    # nothing of it is left empty
    assert all(
        now[key] for key in ("slices", "drift", "decompositions", "log_checks", "cautions", "arms", "parity")
    )


def test_texts_of_the_monitor_are_cautions_today() -> None:
    """Version 1 had notices, notes of arms, and what a verdict leaves open."""
    before = {
        "notices": ["a"],
        "arms": {"notes": ["b"], "withheld": ""},
        "verdict": {"what": "c", "untold": ""},
        "findings": [{"check": "rank_gap", "count": 3}],
        "config": {"notices": "no key of this"},
        "parity": None,
    }
    found = lifted("monitor", before)
    text = {"kind": "notice", "severity": "warning", "cure": "", "place": ""}
    assert found["cautions"] == [text | {"text": "a"}]
    assert found["arms"] == {"cautions": [text | {"text": "b"}], "withheld": ""}
    assert found["verdict"] == {"what": "c", "caution": None}
    assert found["log_checks"] == [{"check": "rank-gap", "count": 3}]
    assert (found["config"], found["parity"]) == (before["config"], None)
    assert lifted("monitor", {"arms": 7, "verdict": ["d"], "windows": {}})["arms"] == 7


def test_arms_of_the_monitor_are_read_by_agreement(folder: Path) -> None:
    every = folder / "monitor" / "every"
    (first, *_) = json.loads((every / "report.json").read_text())["arms"]["differences"]
    expected = (first["difference"]["value"], first["difference"]["error"])
    assert _difference_of_monitor("a", every, "mobile", "ndcg@10") == expected


@pytest.mark.long
def test_training_again_gives_the_same_or_says_what_changed(runs: dict[str, Run]) -> None:
    for run in runs.values():
        found = reproduce(run.path, threads=1)
        assert found.identical or found.reasons
        # another version grows other trees, and two of 20 queries may change all that they can
        is_same = run.record.packages[run.record.ranker] == version(run.record.ranker)
        bound = 0.02 if is_same else 2 / 20
        for name, (before, now) in found.metrics.items():
            assert now == pytest.approx(before, abs=bound), name


@pytest.mark.long
def test_runs_are_not_trained_again(
    runs: dict[str, Run], experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages = next(iter(runs.values())).record.packages
    for name in ("lightgbm", "xgboost"):
        if packages[name] != version(name):
            pytest.skip(f"trained with {name} {packages[name]}, and {version(name)} is installed")
    command = ["run", str(HERE / "v2" / "small.yaml"), "--runs", str(experiment.parent)]
    assert run_command(cli, [*command, "--set", "report.formats=[json]"]) == 0
    assert "every run exists already; nothing to train" in capsys.readouterr().err


@pytest.mark.long
def test_the_report_is_made_from_them(
    folder: Path, experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(cli, ["report", str(experiment), "--format", "json,md", "--verbose"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "xgb leads lgbm by 0.0083" in said
    retired = "references, report section published, compare.correction"
    assert (f"experiment.yaml has parts that no longer exist and are left out: {retired}" in said) == (
        folder.name == "v1"
    )
    document = json.loads((experiment / "report" / "report.json").read_text())
    assert {run["model"] for run in document["runs"]} == {"lgbm", "xgb"}


def test_the_stored_experiment_runs_again(experiment: Path) -> None:
    """A retired setting gets its line; the default of an option that is gone passes."""
    path = experiment / "experiment.yaml"
    tree = yaml.safe_load(path.read_text())
    for key in ("references", "report"):
        tree.pop(key, None)
    tree["compare"]["correction"] = "joint"
    assert load_experiment(tree).compare.baseline == "lgbm"
    tree["compare"]["correction"] = "none"
    with pytest.raises(ConfigError, match=r"compare\.correction: p-values and intervals are always joint"):
        load_experiment(tree)


def test_a_report_is_lifted_to_what_this_version_writes(folder: Path, report_schema: Any) -> None:
    document = json.loads((folder / "runs" / "small" / "report" / "report.json").read_text())
    if folder.name == "v1":
        document["notes"] = ["few queries"]
    found = lifted("report", document)
    report_schema.validate(found)
    assert (found["weights"], found["n_effective"], found["next_gain"], found["latencies"]) == (
        None,
        24,
        [],
        [],
    )
    if folder.name == "v1":
        assert [Caution(**one) for one in found["cautions"]] == [Caution("note", "note", "few queries")]
        assert not {"notes", "published", "correction"} & found.keys()


@pytest.fixture(scope="module")
def report_schema() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema())


def test_version_2_has_no_weights() -> None:
    """Saved comparisons had none, and for some commits a key that was not in the schema."""
    before = {"schema_version": 2, "written_by": "0.2.1"}
    assert lifted("comparison", before)["weights"] is None
    assert lifted("comparison", before | {"weights": "traffic"})["weights"] == "traffic"
    found = lifted("report", before | {"n_queries": 7, "runs": [before], "failures": []})
    assert (found["weights"], found["n_effective"], found["runs"][0]["schema_version"]) == (None, 7, 3)
    assert lifted("look", before) == before | {"schema_version": 3}


@pytest.mark.parametrize("notes", [3, None, "text", [3]])
def test_notes_of_a_report_that_are_none_are_refused(notes: object) -> None:
    with pytest.raises(ValueError, match="has notes that are not texts"):
        lifted("report", {"schema_version": 1, "notes": notes})


def raise_version(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"schema_version": SCHEMA_VERSION + 1, "written_by": "9.9.0"}


NEWER = f"schema version {SCHEMA_VERSION + 1}, written by ltr-harness 9.9.0; this version reads 1 to {SCHEMA_VERSION}"


def test_a_record_of_a_newer_version_is_refused(experiment: Path) -> None:
    [first, *_] = sorted(experiment.glob("*/record.json"))
    first.write_text(json.dumps(raise_version(json.loads(first.read_text()))))
    with pytest.raises(DataError, match=f"record.json has {NEWER}: update ltr-harness"):
        load_run(first.parent)


def test_a_saved_comparison_of_a_newer_version_is_refused(experiment: Path) -> None:
    path = experiment / "report" / "comparison.parquet"
    table = pq.read_table(path)
    [(key, about)] = [(k, v) for k, v in table.schema.metadata.items() if k.startswith(b"ltr_harness")]
    pq.write_table(table.replace_schema_metadata({key: json.dumps(raise_version(json.loads(about)))}), path)
    with pytest.raises(DataError, match=NEWER):
        compare(path)


def test_a_ledger_of_a_newer_version_is_refused(experiment: Path) -> None:
    ledger = experiment.parent / "looks.jsonl"
    ledger.write_text(json.dumps(raise_version(json.loads(ledger.read_text()))) + "\n")
    with pytest.raises(DataError, match=f"looks.jsonl: has {NEWER}"):
        looks_at(experiment.parent)


def test_a_history_of_the_monitor_of_a_newer_version_is_refused(folder: Path, tmp_path: Path) -> None:
    (path,) = (folder / "monitor" / "history").iterdir()
    document = json.loads(path.read_text())
    (tmp_path / path.name).write_text(json.dumps(raise_version(document)))
    with pytest.raises(DataError, match=rf"{path.name}: has {NEWER}: update ltr-harness$"):
        read_history(tmp_path, document["key"])


def test_a_result_of_the_monitor_of_a_newer_version_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "monitor" / "result", tmp_path / "result")
    path = tmp_path / "result" / "report.json"
    path.write_text(json.dumps(raise_version(json.loads(path.read_text()))))
    with pytest.raises(DataError, match=f"report.json: has {NEWER}: update ltr-harness$"):
        monitor(folder / "monitor.yaml", baseline=path.parent)
    with pytest.raises(DataError, match=f"report.json: has {NEWER}: update ltr-harness$"):
        _difference_of_monitor("a", path.parent, "", None)


def test_a_version_that_is_none_is_refused(experiment: Path) -> None:
    [first, *_] = sorted(experiment.glob("*/record.json"))
    whole = json.loads(first.read_text())
    for odd in (0, -1, True, "2", None, 1.5, 10**400):
        first.write_text(json.dumps(whole | {"schema_version": odd}))
        with named_case(odd), pytest.raises(DataError, match=r"record\.json has schema version"):
            load_run(first.parent)


def test_findings_and_notes_of_version_1_that_are_none_are_refused(experiment: Path) -> None:
    [first, *_] = sorted(experiment.glob("*/record.json"))
    whole = json.loads(first.read_text()) | {"schema_version": 1}
    no_findings: list[Any] = [3, None, [3], ["lint"], [{"lint": "x"}]]
    no_notes: list[Any] = [3, None, [3], [{"text": "x"}]]
    for name, odd in [*(("findings", odd) for odd in no_findings), *(("notes", odd) for odd in no_notes)]:
        first.write_text(json.dumps({**whole, name: odd}))
        with (
            named_case((name, odd)),
            pytest.raises(DataError, match="has findings or notes that no record has"),
        ):
            load_run(first.parent)


def test_notes_that_stood_beside_the_result_are_warnings() -> None:
    notes = [
        "the model is constant: no split met the requirements",
        "the model is nearly constant: 2 splits in 1 round",
        "bagging_by_query with several threads (here 2) gives another model in every run; one thread repeats",
        "ignored ids and times of a.csv: user_id; `features:` with their names would learn from them",
        "learned from 3 of 4 features",
    ]
    finding = {"severity": "error", "place": "test", "found": "20 queries", "cure": "divide by query"}
    findings = [finding | {"lint": "query-in-two-splits", "accepted": accepted} for accepted in (False, True)]
    run = {"schema_version": 1, "model": "a", "notes": notes, "findings": findings}
    [record] = lifted("report", {"schema_version": 1, "runs": [run], "failures": []})["runs"]
    assert (record["schema_version"], "notes" in record, "findings" in record) == (
        SCHEMA_VERSION,
        False,
        False,
    )
    cautions = [Caution(**one) for one in record["cautions"]]
    assert cautions[:2] == [
        Caution("query-in-two-splits", severity, "20 queries", "divide by query", "test")
        for severity in ("error", "accepted")
    ]
    assert [(one.kind, one.severity) for one in cautions[2:]] == [
        ("constant-model", "warning"),
        ("nearly-constant-model", "warning"),
        ("not-deterministic", "warning"),
        ("ignored-columns", "note"),
        ("training", "note"),
    ]
    assert [one.text for one in cautions[2:]] == notes
