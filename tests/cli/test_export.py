"""`export`: exact requirements, and a real MLflow store."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ltr_harness import load_run
from ltr_harness._util import files
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.experiments.runs import find_runs
from ltr_harness.experiments.runs.identity import installed_requirements
from ltr_harness.integrations.mlflow_export import legal_names, parameters

FROZEN = Path(__file__).parents[1] / "experiments" / "runs" / "frozen" / "v1"
REPORT = Path(__file__).parents[1] / "stored" / "v3" / "runs" / "small" / "report"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two stored runs."""
    return Path(shutil.copytree(FROZEN, tmp_path / "runs" / "v1"))


# --- requirements ---


def pins(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return dict(line.split("==") for line in lines)  # each line is one pin and nothing else


def test_every_package_of_the_record_is_pinned(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = next(iter(find_runs(runs)))
    assert run_command(cli, ["export", "requirements", str(run.path)]) == 0
    out = capsys.readouterr().out
    assert pins(out) == run.record.packages
    assert {"ltr-harness", "lightgbm", "xgboost", "numpy", "numba", "llvmlite"} <= set(pins(out))
    assert f"# {run.path.name}\n# made with python " in out
    assert "://" not in out
    assert "--" not in out.replace(run.path.name, "")  # no option of pip: no index, no find-links


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("--extra-index-url", "http://there/simple"),
        ("numpy", "1\n--index-url http://there/simple"),
        ("numpy @ http://there/numpy.whl #", "1"),
        ("-r", "/etc/passwd"),
        ("", "1"),
    ],
)
def test_a_record_gives_pip_no_orders(
    runs: Path, name: str, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(iter(find_runs(runs))).path / "record.json"
    record = json.loads(path.read_text())
    record["packages"][name] = version
    record["environment"]["python"] = "3.11\n--index-url http://there/simple"
    path.write_text(json.dumps(record))
    assert run_command(cli, ["export", "requirements", str(path.parent)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "which is not a package and its version" in captured.err
    del record["packages"][name]
    record["packages"]["numpy"] = "2.0"
    path.write_text(json.dumps(record))
    assert run_command(cli, ["export", "requirements", str(path.parent)]) == 0
    assert not any(line.startswith("-") for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("place", ["run", "report", "experiment.yaml"])
def test_a_link_is_not_followed_to_what_it_leads_to(
    runs: Path, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    folder = next(iter(find_runs(runs))).path.parent
    link = {
        "run": next(iter(find_runs(runs))).path / "notes.txt",
        "report": folder / "report" / "notes.txt",
        "experiment.yaml": folder / "experiment.yaml",
    }[place]
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    assert run_command(cli, ["export", "mlflow", str(folder), "--to", f"sqlite:///{tmp_path}/m.db"]) == 2
    assert f"{link}: is a link, and whatever it leads to would be exported" in capsys.readouterr().err
    assert not (tmp_path / "m.db").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders")
@pytest.mark.parametrize("place", ["run", "report", "experiment.yaml"])
def test_a_pipe_is_not_waited_for(
    runs: Path, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = next(iter(find_runs(runs))).path
    pipe = {"run": run, "report": run.parent / "report", "experiment.yaml": run.parent}[place] / (
        place if place == "experiment.yaml" else "pipe"
    )
    pipe.parent.mkdir(exist_ok=True)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    assert run_command(cli, ["export", "mlflow", str(run.parent), "--to", f"sqlite:///{tmp_path}/m.db"]) == 2
    assert f"{pipe}: is a pipe or a device" in capsys.readouterr().err


@pytest.mark.long
def test_what_is_recorded_is_installed_and_lacks_nothing() -> None:
    """The list is closed: whatever one of its packages needs here is on it, in a version that it accepts."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found = installed_requirements(("ltr-harness", "catboost"))
    assert found == installed_requirements(("catboost", "LTR.harness"))
    for name, version in found.items():
        assert importlib.metadata.version(name) == version
        for text in importlib.metadata.requires(name) or []:
            need = Requirement(text)
            if need.marker is not None and not need.marker.evaluate({"extra": ""}):
                continue
            assert need.specifier.contains(found[canonicalize_name(need.name)], prereleases=True), (
                name,
                text,
            )
    assert "pytest" not in found
    assert "no-such-package" not in installed_requirements(("no-such-package", "numpy"))


def test_the_small_build_answers_for_its_package_and_extras_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "Engine_CPU-1.5.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: Engine_CPU\nVersion: 1.5\n"
        "Requires-Dist: NumPy (>=1)\nRequires-Dist: pytest; extra == 'test'\nRequires-Dist: absent>2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_requirements(("engine",)) == {
        "engine-cpu": "1.5",
        "numpy": importlib.metadata.version("numpy"),
    }


def test_runs_that_stood_on_different_versions_have_no_common_list(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = find_runs(runs)
    edit(first.path, packages={**first.record.packages, "numpy": "1.0", "scipy": "1.1"})
    assert run_command(cli, ["export", "requirements", str(runs)]) == 2
    said = capsys.readouterr().err
    now = second.record.packages
    assert said == (
        "2 problems:\n"
        f"  numpy: the runs used 1.0 ({first.path.name}), {now['numpy']} ({second.path.name}); "
        "expected one version; export each run by itself\n"
        f"  scipy: the runs used 1.1 ({first.path.name}), {now['scipy']} ({second.path.name}); "
        "expected one version; export each run by itself\n"
    )


def test_the_list_can_be_written_to_a_file(runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "requirements.txt"
    assert run_command(cli, ["export", "requirements", str(runs), "-o", str(target)]) == 0
    assert pins(target.read_text()) == next(iter(find_runs(runs))).record.packages


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# --- MLflow ---


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("ndcg@10", "ndcg_at_10"),
        ("err(max_grade=4)@3", "err.max_grade-4_at_3"),
        ("rbp(p=0.8)", "rbp.p-0.8"),
        ("Präzision & mehr", "Pr_zision___mehr"),
        ("../up", "up"),
        ("@", "_at_"),
        ("()", "_"),
    ],
)
def test_names_become_legal(name: str, legal: str) -> None:
    assert legal_names([name]) == {name: legal}


def test_different_names_stay_different() -> None:
    found = legal_names(["a&b", "a%b", "ndcg@1"])
    assert found["ndcg@1"] == "ndcg_at_1"
    assert len(set(found.values())) == 3
    assert all(re.fullmatch(r"a_b-[0-9a-f]{8}", found[name]) for name in ("a&b", "a%b"))


def test_a_value_too_long_for_mlflow_says_where_it_is_complete(runs: Path) -> None:
    record = next(iter(find_runs(runs))).record
    long = parameters(record.model_copy(update={"params": {"monotone": [0] * 9000}}))["params.monotone"]
    assert len(long) == 6000
    assert long.endswith("… (complete in record.json)")


@pytest.fixture(scope="module")
def exported_runs(
    tmp_path_factory: pytest.TempPathFactory, mlflow_store: Path
) -> Iterator[tuple[Path, str, Any]]:
    """Two runs, a twin of one under another name, and one that failed, exported with their report; and a client."""
    folder = tmp_path_factory.mktemp("mlflow")
    shutil.copy(mlflow_store, folder / "mlflow.db")
    runs = Path(shutil.copytree(FROZEN, folder / "runs" / "v1"))
    shutil.copytree(REPORT, runs / "report")
    (runs / "report" / "report.html").write_text("a page")
    (runs / "plan.json").unlink()
    failed = Path(shutil.copytree(next(iter(find_runs(runs))).path, runs / "bad--all--s1--0"))
    edit(failed, model="bad", status="failed", error="no such objective", evaluation_identity="0" * 64)
    twin = next(run.path for run in find_runs(runs) if run.record.model == "xgb")
    edit(Path(shutil.copytree(twin, runs / twin.name.replace("xgb", "twin"))), model="twin")
    uri = f"sqlite:///{folder}/mlflow.db"
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):  # where MLflow puts the artifacts
        assert run_command(cli, ["export", "mlflow", str(runs), "--to", uri]) == 0
    assert "4 runs to the experiment 'v1'" in printed.getvalue()
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    yield runs, uri, client
    client._tracking_client.store._dispose_engine()


def run_of_model(client: Any, model: str, name: str = "v1") -> Any:
    experiment = client.get_experiment_by_name(name).experiment_id
    [found] = client.search_runs([experiment], f"params.model = '{model}'")
    return found


@pytest.mark.long
@pytest.mark.parametrize("model", ["lgbm", "xgb"])
@pytest.mark.filterwarnings("ignore::Warning")
def test_parameters_means_and_every_round_arrive(exported_runs: tuple[Path, str, Any], model: str) -> None:
    runs, _, client = exported_runs
    [run] = [run for run in find_runs(runs) if run.record.model == model]
    found, record = run_of_model(client, model), run.record
    assert found.info.status == "FINISHED"
    assert found.data.params == parameters(record)  # each is legal as it is
    assert found.data.params["data.test"] == record.data["test"].fingerprint
    legal = legal_names(record.metrics)
    for name, summary in record.metrics.items():
        assert found.data.metrics[f"test/{legal[name]}"] == summary.mean
    assert found.data.metrics["best_round"] == record.best_round
    assert found.data.metrics["seconds/fit"] == record.seconds["fit"]
    history = run.history
    assert len(history) > 20
    for (split, name), rows in history.groupby(["split", "metric"]):
        kept = client.get_metric_history(found.info.run_id, f"{split}/{legal[name]}")
        assert [(point.step, point.value) for point in kept] == list(
            zip(rows["round"], rows["value"], strict=True)
        )
    assert "- ndcg@10: " in found.data.tags["mlflow.note.content"]
    assert " over 20 of 24 queries" in found.data.tags["mlflow.note.content"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
def test_files_of_the_run_and_the_report_arrive_whole(
    exported_runs: tuple[Path, str, Any], tmp_path: Path
) -> None:
    runs, _, client = exported_runs
    found = run_of_model(client, "xgb")
    copy = Path(client.download_artifacts(found.info.run_id, "", str(tmp_path)))
    assert load_run(copy).per_query.equals(load_run(runs / found.data.tags["ltr_harness.folder"]).per_query)
    assert pins((copy / "requirements.txt").read_text()) == load_run(copy).record.packages
    parent = client.get_run(found.data.tags["mlflow.parentRunId"])
    assert parent.info.run_name == "v1: report"
    verdict = json.loads((runs / "report" / "report.json").read_text())["verdict"]
    assert parent.data.tags["mlflow.note.content"] == verdict
    report = client.download_artifacts(parent.info.run_id, "report/report.html", str(tmp_path))
    assert Path(report).read_bytes() == (runs / "report" / "report.html").read_bytes()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
def test_the_model_of_a_run_loads_and_scores_as_it_did(exported_runs: tuple[Path, str, Any]) -> None:
    import mlflow

    runs, uri, client = exported_runs
    rows = pd.read_csv(runs / "rows.csv", dtype="float32")
    before, path = mlflow.get_tracking_uri(), list(sys.path)
    mlflow.set_tracking_uri(uri)
    try:
        for name in ("lgbm", "xgb"):
            found = run_of_model(client, name)
            expected = json.loads((runs / "expected.json").read_text())["models"][name]["scores"]
            for place in (f"runs:/{found.info.run_id}/model", found.data.tags["ltr_harness.model"]):
                model = mlflow.pyfunc.load_model(place)
                assert model.predict(rows[rows.columns[::-1]]).tolist() == expected
            assert (
                model.metadata.signature.inputs.input_names()
                == load_run(runs / found.data.tags["ltr_harness.folder"]).record.features
            )
            with pytest.raises(mlflow.exceptions.MlflowException, match="missing inputs"):
                model.predict(rows.drop(columns="match_1"))
    finally:
        mlflow.set_tracking_uri(before)
        sys.path[:] = path


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
def test_a_failed_run_is_a_failed_run(exported_runs: tuple[Path, str, Any]) -> None:
    found = run_of_model(exported_runs[2], "bad")
    assert found.info.status == "FAILED"
    assert found.data.tags["mlflow.note.content"] == "failed: no such objective"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
def test_exported_again_each_run_is_there_once(
    exported_runs: tuple[Path, str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def export_again(*more: str) -> str:
        assert run_command(cli, ["export", "mlflow", str(runs), "--to", uri, *more]) == 0
        return capsys.readouterr().out

    runs, uri, client = exported_runs
    experiment = client.get_experiment_by_name("v1").experiment_id
    client.delete_run(run_of_model(client, "lgbm").info.run_id)
    half = run_of_model(client, "xgb")
    client.update_run(half.info.run_id, status="RUNNING")  # as an export that was killed leaves it
    kept = run_of_model(client, "twin").data.tags["ltr_harness.model"]
    client.delete_tag(
        run_of_model(client, "twin").info.run_id, "ltr_harness.model"
    )  # as one exported without its model
    said = json.loads(export_again("--json"))
    models = {name.partition("--")[0]: model for name, model in said["models"].items()}
    assert models == {
        name: run_of_model(client, name).data.tags["ltr_harness.model"] for name in ("lgbm", "twin", "xgb")
    }
    assert models["twin"] != kept
    assert {name.partition("--")[0]: why for name, why in said["without_model"].items()} == {
        "bad": "it failed"
    }
    logged = len(client.search_logged_models([experiment]))
    assert export_again("--no-models").endswith("; 4 were there already\n")
    assert json.loads(export_again("--json"))["models"] == said["models"]
    assert len(client.search_logged_models([experiment])) == logged
    assert [name.partition("--")[0] for name in said["added"]] == ["lgbm", "xgb"]
    assert [name.partition("--")[0] for name in said["present"]] == ["bad", "twin"]
    names = sorted(run.info.run_name for run in client.search_runs([experiment]))
    assert names == [f"{name}, all, seed 1" for name in ("bad", "lgbm", "twin")] + [
        "v1: report",
        "xgb, all, seed 1",
    ]
    assert run_of_model(client, "xgb").info.run_id != half.info.run_id


@pytest.mark.slow  # MLflow makes a store twice
@pytest.mark.filterwarnings("ignore::Warning")
def test_a_store_that_was_being_made_by_a_killed_command_is_no_obstacle(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs the extra mlflow")
    from ltr_harness.integrations.mlflow_export import _client

    store = tmp_path / "mlflow.db"
    uri = f"sqlite:///{store}"
    code = f"from ltr_harness.integrations.mlflow_export import _client; _client({uri!r})"
    killed = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    while not any(path.stat().st_size for path in tmp_path.rglob("*.db")):
        assert killed.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)  # some of its tables
    killed.kill()
    killed.wait()
    assert not store.exists()
    files._swept.cache_clear()
    client, _ = _client(uri)
    assert [one.name for one in client.search_experiments()] == ["Default"]
    assert list(tmp_path.iterdir()) == [store]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="mounts")
def test_a_store_that_cannot_be_written_is_said_at_once(
    read_only_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mlflow", reason="needs the extra mlflow")
    store, absent = read_only_folder / "m.db", read_only_folder / "new.db"
    assert run_command(cli, ["export", "mlflow", str(FROZEN), "--to", f"sqlite:///{store}"]) == 1
    found = "SQLite: attempt to write a readonly database; expected a store"
    assert capsys.readouterr().err.startswith(f"error: {store}: {found}")
    assert run_command(cli, ["export", "mlflow", str(FROZEN), "--to", f"sqlite:///{absent}"]) == 1
    assert capsys.readouterr().err.startswith(f"error: {absent}: Read-only file system")


@pytest.fixture
def read_only_folder(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with an empty file m.db in it, which nobody can write to."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    (folder / "m.db").touch()
    try:
        for options in (["--bind", folder], ["-o", "remount,bind,ro"]):
            subprocess.run(["mount", *options, folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::Warning")
def test_a_store_that_cannot_be_used_is_no_traceback(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mlflow", reason="needs the extra mlflow")
    assert run_command(cli, ["export", "mlflow", str(runs), "--to", "nonsense://x"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: nonsense://x: MLflow: ")
    (tmp_path / "no.db").write_text("no database")
    assert run_command(cli, ["export", "mlflow", str(runs), "--to", f"sqlite:///{tmp_path}/no.db"]) == 1
    assert "MLflow: (sqlite3.DatabaseError) file is not a database\n" in capsys.readouterr().err
    assert run_command(cli, ["export", "mlflow", str(tmp_path / "none")]) == 2


def test_without_mlflow_the_cure_is_named(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert run_command(cli, ["export", "mlflow", str(runs)]) == 2
    assert "pip install 'alembic>=1.10' 'mlflow-skinny>=3.1'" in capsys.readouterr().err
