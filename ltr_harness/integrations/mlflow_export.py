"""Finished runs into an MLflow store: parameters, history, means, every file, the report, a model that loads."""

import hashlib
import importlib
import json
import logging
import math
import os
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from ltr_harness._util.escapes import without_secrets
from ltr_harness._util.files import errors_naming, unfinished
from ltr_harness._util.stored import read_stored
from ltr_harness._util.text import count_of
from ltr_harness.errors import DataError, HarnessError, MissingExtraError, Problem, install_line
from ltr_harness.experiments.runs import Record, Run, find_runs
from ltr_harness.experiments.runs.folder import folder_name
from ltr_harness.experiments.runs.identity import pins, requirements
from ltr_harness.experiments.runs.run import OTHER_PLANS, plan_in_words
from ltr_harness.models.tree_model import TreeModel, safe_feature_names

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Metric

_FLAVOURS = {"lightgbm": "lgb_model", "xgboost": "xgb_model", "catboost": "cb_model"}
"""Rankers whose model MLflow's own flavour, ``mlflow.NAME``, scores alike, and what that calls the booster."""


def reason_without_model(record: Record) -> str:
    """Return the reason why a run's model is not logged; empty where it is."""
    if record.status != "complete":
        return "it failed"
    if record.ranker not in _FLAVOURS:
        logged = ", ".join(_FLAVOURS)
        return f"models of {logged} are logged; what {record.ranker} stores is among the run's artifacts"
    return ""


def _log_model(client: "MlflowClient", uri: str, run: Run, run_id: str) -> str:
    """Log a run's model, in MLflow's own flavour, to the MLflow run that stands for it, and return its URI."""
    import mlflow
    from mlflow.models import Model

    library, model = run.record.ranker, run.model
    assert isinstance(model, TreeModel)  # as those of all flavours are
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)  # models are logged to no other
    try:
        mlflow_run = client.get_run(run_id)
        # made here, as MLflow itself puts it into the experiment that happens to be its current one
        logged_model = client.create_logged_model(
            mlflow_run.info.experiment_id, "model", source_run_id=run_id, params=mlflow_run.data.params
        )
        logged = Model.log(
            artifact_path=None,
            name="model",
            flavor=importlib.import_module(f"mlflow.{library}"),
            run_id=run_id,
            model_id=logged_model.model_id,
            input_example=example_rows(run.record, model.booster),
            pip_requirements=[
                *pins(run, ["numpy", "pandas", library]),
                f"mlflow-skinny=={mlflow.__version__}",
            ],
            **{_FLAVOURS[library]: model.booster},
        )
    finally:
        mlflow.set_tracking_uri(before)
    client.set_tag(run_id, _MODEL, str(logged.model_uri))
    return str(logged.model_uri)


def example_rows(record: Record, booster: Any) -> "pd.DataFrame":
    """Return two made-up rows of the columns as the library takes them; MLflow requires their types of all rows."""
    import pandas as pd

    names = safe_feature_names(record.features)
    rows = pd.DataFrame({name: np.arange(2, dtype=np.float32) for name in names})
    if record.ranker != "catboost":
        return rows
    categories = [names[number] for number in booster.get_cat_feature_indices()]
    return rows.astype(dict.fromkeys(categories, np.int64))


_AT_ONCE = {"params": 100, "metrics": 1000}  # what MLflow takes in one call
_LONGEST_VALUE = 6000
_SPELT = str.maketrans({"@": "_at_", "=": "-", "(": ".", ",": ".", ")": ""})
_MODEL = "ltr_harness.model"
_FILE = "sqlite:///"
_ANSWERS_WITHIN = 10  # seconds in which a server takes a connection


@dataclass(frozen=True)
class Exported:
    """The result of an export to MLflow."""

    uri: str  # the tracking store
    experiment: str  # its name there
    added: list[str] = field(default_factory=list)  # folders of runs that were not there yet
    present: list[str] = field(default_factory=list)  # of those that were there already, by their identity
    models: dict[str, str] = field(default_factory=dict)  # folder of a run to the URI of its model there
    without_model: dict[str, str] = field(default_factory=dict)  # folder of a run to why it has none


def export(
    folder: Path, *, uri: str | None = None, experiment: str | None = None, models: bool = True
) -> Exported:
    """Log stored runs to MLflow, each once however often this is called."""
    runs = find_runs(folder)
    if not runs:
        if words := plan_in_words(folder):
            raise DataError.at(folder, f"no finished runs: {words}", cure=OTHER_PLANS)
        expected = "expected a run folder or an experiment's folder of runs"
        raise DataError(f"{folder}: no finished runs; {expected}")
    _refuse_other_files([folder / "report", folder / "experiment.yaml", *(run.path for run in runs)])
    client, store = _client(uri)
    exported = Exported(_without_password(store), experiment or runs[0].record.experiment)
    with _failures(store, exported.added):
        experiment_id = _experiment_id(client, store, exported.experiment)
        parent = _report(client, experiment_id, folder) if (folder / "report").is_dir() else None
        for run in runs:
            identity = _identity_tags(run.record)
            run_id = _find_finished(client, experiment_id, identity)
            if run_id is None:
                exported.added.append(run.path.name)
                run_id = _log(client, experiment_id, run, identity, parent)
            else:
                exported.present.append(run.path.name)
            if models:
                _export_model(client, store, run, run_id, exported)
    return exported


def _refuse_other_files(paths: Iterable[Path]) -> None:
    """Raise a DataError for links, pipes and devices among files to be sent.

    A link can lead to a file that does not belong to the run, and a pipe has no end.
    """
    problems = []
    for folder in paths:
        for path in (folder, *folder.rglob("*")):
            if path.is_symlink():
                found = "is a link, and whatever it leads to would be exported"
                problems.append(Problem(str(path), found, "a file of the run"))
            elif path.exists() and not path.is_file() and not path.is_dir():
                problems.append(Problem(str(path), "is a pipe or a device", "a file of the run"))
    DataError.refuse(problems)


def _experiment_id(client: "MlflowClient", store: str, name: str) -> str:
    """Return the id of the experiment in MLflow, which is created where there is none."""
    existing = client.get_experiment_by_name(name)
    if existing is None:
        return str(client.create_experiment(name))
    if existing.lifecycle_stage != "active":
        cure = "restore it, or use --experiment"
        raise HarnessError.at(
            _without_password(store), f"the experiment {name!r} was deleted there", cure=cure
        )
    return str(existing.experiment_id)


def _identity_tags(record: Record) -> dict[str, str]:
    """Return the tags by which an exported run is found again."""
    return {
        "ltr_harness.run": f"{record.evaluation_identity} {record.status}",
        # models of one configuration are the same but for their name
        "ltr_harness.folder": folder_name(record.model, record.fold, record.seed, record.identity),
    }


def _export_model(client: "MlflowClient", store: str, run: Run, run_id: str, exported: Exported) -> None:
    """Log the run's model unless it is logged already, and note its URI, or why there is none."""
    reason = reason_without_model(run.record)
    if reason:
        exported.without_model[run.path.name] = reason
        return
    logged = client.get_run(run_id).data.tags.get(_MODEL)
    exported.models[run.path.name] = logged or _log_model(client, store, run, run_id)


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """Return names of metrics or parameters as MLflow allows them: letters, digits and ``_ - . /`` only."""
    legal = {}
    for name in names:
        allowed = re.sub(r"[^A-Za-z0-9_./-]", "_", name.translate(_SPELT))
        legal[name] = allowed[:200].strip("/.") or "_"
    times = Counter(legal.values())
    for name, allowed in legal.items():
        if times[allowed] > 1:
            legal[name] = f"{allowed}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return legal


def _client(uri: str | None) -> "tuple[MlflowClient, str]":
    # What MLflow would otherwise do on import: report its use to its makers, complain where git is absent.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    try:
        import mlflow
    except ImportError as problem:
        found = f"needs MLflow ({problem})"
        raise MissingExtraError.at("export mlflow", found, cure=install_line("mlflow")) from None
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    used = uri or mlflow.get_tracking_uri()
    if used.lower().startswith(("http://", "https://")):
        _reach(used)
    with _failures(used):
        if used.startswith(_FILE) and not used.endswith((_FILE, ":memory:")):
            _prepare(Path(used.removeprefix(_FILE).partition("?")[0]))
        return mlflow.MlflowClient(tracking_uri=used), used


def _without_password(uri: str) -> str:
    """Return a store's address without its password, in which blanks may stand."""
    return without_secrets(re.sub(r"[\s\"\\]", "+", uri))


def _reach(server: str) -> None:
    """Refuse a server that nothing answers for: MLflow itself asks again and again, for minutes, without a word."""
    import requests

    try:
        requests.get(server, timeout=(_ANSWERS_WITHIN, None), stream=True, allow_redirects=False).close()
    except requests.exceptions.SSLError:
        pass  # it answers, and MLflow has settings of its own for certificates
    except requests.exceptions.RequestException as problem:
        found = f"no MLflow server answers ({type(problem).__name__})"
        expected = "an address such as http://127.0.0.1:5000"
        raise HarnessError.at(_without_password(server), found, expected) from None


def _prepare(store: Path) -> None:
    """Make a new SQLite store aside, because half of one is never accepted again; refuse one that is read-only."""
    if not store.exists():
        import mlflow

        with errors_naming(store), unfinished(store.parent) as folder:
            mlflow.MlflowClient(tracking_uri=f"{_FILE}{folder / 'made.db'}")
            shutil.copyfile(folder / "made.db", folder / "copy.db")  # MLflow keeps the other open
            if not store.exists():  # another process was faster
                (folder / "copy.db").replace(store)
        return
    try:
        address = f"{store.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("CREATE TABLE ltr_harness (tried INTEGER)")  # closing takes it back
    except sqlite3.Error as problem:
        if problem.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            found = f"SQLite: {problem}"
            raise HarnessError.at(store, found, "a store that can be written") from None


@contextmanager
def _failures(uri: str, added: Sequence[str] = ()) -> Iterator[None]:
    """Refusals of MLflow, or of the database below it, in their words, with the store they came from."""
    from mlflow.exceptions import MlflowException

    refusals: tuple[type[Exception], ...] = (MlflowException, ImportError)
    with suppress(ImportError):  # not needed for a server
        from sqlalchemy.exc import SQLAlchemyError

        refusals += (SQLAlchemyError,)
    try:
        yield
    except refusals as problem:
        message = str(problem).replace(uri, _without_password(uri)).strip().splitlines()[0]
        cure = f"{count_of(len(added), 'run')} arrived: run the same command again to resume" if added else ""
        if re.search(r"table \S+ already exists", message):
            cure = "a store whose creation was interrupted: remove it if it has no runs"
        raise HarnessError.at(_without_password(uri), f"MLflow: {message}", cure=cure) from problem


def _find_finished(client: "MlflowClient", experiment: str, tags: Mapping[str, str]) -> str | None:
    """Return the finished MLflow run with these tags, and remove what an interrupted export left of it."""
    condition = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
    finished = None
    for run in client.search_runs([experiment], condition):
        if run.info.status in ("FINISHED", "FAILED"):
            finished = str(run.info.run_id)
        else:
            client.delete_run(run.info.run_id)
    return finished


class _StoredReport(BaseModel):
    verdict: str


def _report(client: "MlflowClient", experiment: str, folder: Path) -> str:
    """Return the run that the others stand below: the report and the configuration, always as they are now."""
    tags = {"ltr_harness.report": hashlib.sha256(folder.resolve().name.encode()).hexdigest()[:16]}
    run_id = _find_finished(client, experiment, tags)
    if run_id is None:
        run = client.create_run(experiment, run_name=f"{folder.resolve().name}: report", tags=tags)
        run_id = str(run.info.run_id)
    document = folder / "report" / "report.json"
    if document.is_file():
        try:
            verdict = read_stored(_StoredReport, document.parent, document.name).verdict
        except ValueError as problem:
            raise DataError.at(document, f"is not a stored report ({problem})") from None
        client.set_tag(run_id, "mlflow.note.content", verdict)
    client.log_artifacts(run_id, str(folder / "report"), "report")
    configuration = folder / "experiment.yaml"
    if configuration.is_file():
        client.log_artifact(run_id, str(configuration))
    client.set_terminated(run_id)
    return run_id


def _log(
    client: "MlflowClient", experiment: str, run: Run, identity: Mapping[str, str], parent: str | None
) -> str:
    from mlflow.entities import Param

    record = run.record
    # Records keep durations; the time at which one was written is the end.
    ended = int((run.path / "record.json").stat().st_mtime * 1000)
    began = ended - int(sum(record.seconds.values()) * 1000)
    tags = {
        **identity,
        "ltr_harness.identity": record.identity,
        "ltr_harness.version": record.environment.get("ltr-harness", "unknown"),
        "mlflow.note.content": _note(record),
    }
    if parent is not None:
        tags["mlflow.parentRunId"] = parent
    name = f"{record.model}, {record.fold}, seed {record.seed}"
    created = client.create_run(experiment, start_time=began, tags=tags, run_name=name)
    to = str(created.info.run_id)
    params = parameters(record)
    legal = legal_names(params)
    values = {
        "params": [Param(legal[key], value) for key, value in params.items()],
        "metrics": _metrics(run, ended),
    }
    for kind, size in _AT_ONCE.items():
        for start in range(0, len(values[kind]), size):
            client.log_batch(to, **{kind: values[kind][start : start + size]})
    client.log_artifacts(to, str(run.path))
    if record.packages:
        client.log_text(to, requirements([run]), "requirements.txt")
    client.set_terminated(to, "FINISHED" if record.status == "complete" else "FAILED", ended)
    return to


def _note(record: Record) -> str:
    """Return the error of a failed run, or the means with their queries and the cautions of training."""
    if record.error is not None:
        return f"failed: {record.error}"
    lines = [
        f"{name}: {summary.mean_text} over {summary.counted}" for name, summary in record.metrics.items()
    ]
    lines += map(str, record.training_cautions)
    return "\n".join(f"- {line}" for line in lines)[:5000]


def parameters(record: Record) -> dict[str, str]:
    """Return a run's settings, flat; a value too long for MLflow ends with the file that has it whole."""
    names = ("model", "ranker", "objective", "fold", "seed", "threads", "rounds", "primary")
    settings: dict[str, Any] = {
        **{name: getattr(record, name) for name in names},
        **{f"stopping.{key}": value for key, value in (record.stopping or ())},
        **{f"data.{split}": facts.fingerprint for split, facts in record.data.items()},
        **{f"params.{key}": value for key, value in record.params.items()},
        **{f"derived.{key}": value for key, value in record.derived_params.items()},
        **{f"temperature.{key}": value for key, value in record.temperatures.items()},
    }
    return {key: _parameter_text(value) for key, value in settings.items() if value is not None}


def _parameter_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) <= _LONGEST_VALUE:
        return text
    end = "… (complete in record.json)"
    return text[: _LONGEST_VALUE - len(end)] + end


def _metrics(run: Run, time: int) -> "list[Metric]":
    """Return means on test, seconds and rounds; every metric of every round as ``split/metric`` at that step."""
    from mlflow.entities import Metric

    record = run.record
    rounds: list[tuple[int, str, str, float]] = []
    if record.status == "complete":
        history = run.history
        columns = (history[name].tolist() for name in ("round", "split", "metric", "value"))
        rounds += zip(*columns, strict=True)
    legal = legal_names(dict.fromkeys([*record.metrics, *(name for _, _, name, _ in rounds)]))
    single: dict[str, float | None] = {f"seconds/{part}": value for part, value in record.seconds.items()}
    single |= {"best_round": record.best_round, "rounds_trained": record.rounds_trained}
    points = [Metric(key, float(value), time, 0) for key, value in single.items() if value is not None]
    for name, summary in record.metrics.items():
        mean = math.nan if summary.mean is None else summary.mean
        points.append(Metric(f"test/{legal[name]}", mean, time, 0))
    points += [Metric(f"{split}/{legal[name]}", value, time, number) for number, split, name, value in rounds]
    return points
