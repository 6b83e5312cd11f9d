"""A run's model as MLflow loads it: a pyfunc with a signature, an example and the packages that scoring needs."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ltr_harness.errors import HarnessError, Problem
from ltr_harness.export import pyfunc
from ltr_harness.runs import Record, Run
from ltr_harness.runs.packages import pins

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient

_LIBRARY = {
    "lightgbm": ["lightgbm"],
    "xgboost": ["xgboost"],
    "catboost": ["catboost"],
    "linear": [],
    "feature": [],
}
"""What each ranker's scores need besides NumPy and pandas."""


def why_none(record: Record) -> str:
    """Why a run has no model that scores features anywhere; empty where it has one."""
    if record.status != "complete":
        return "it failed"
    if record.ranker not in _LIBRARY:
        return f"the ranker {record.ranker} scores no features, or by code of your own"
    if not any(name.startswith("model.") for name in record.files):
        return "its record lists no model"
    lacking = "features" if not record.features else "packages" if not record.packages else ""
    return lacking and f"its record, of an older version, lists no {lacking}"


def log_model(client: MlflowClient, run: Run, run_id: str) -> str:
    """Log a run's model to the MLflow run that stands for it.

    Returns:
        The model's URI.

    Raises:
        HarnessError: what was logged does not score as the stored model does.
    """
    import mlflow
    from mlflow.models import Model

    code = Path(pyfunc.__file__)
    with tempfile.TemporaryDirectory() as folder, _same_path():
        # of another content under another name: models of several versions can be loaded beside each other
        digest = hashlib.sha256(code.read_bytes()).hexdigest()[:8]
        loader = Path(folder) / f"ltr_harness_model_{digest}.py"
        shutil.copyfile(code, loader)
        data = Path(folder) / "model"
        data.mkdir()
        write_model(run, data)
        found = client.get_run(run_id)
        # made here, as MLflow itself puts it into the experiment that happens to be its current one
        made = client.create_logged_model(
            found.info.experiment_id, "model", source_run_id=run_id, params=found.data.params
        )
        logged = Model.log(
            artifact_path=None,
            name="model",
            flavor=mlflow.pyfunc,
            run_id=run_id,
            model_id=made.model_id,
            loader_module=loader.stem,
            data_path=str(data),
            code_paths=[str(loader)],
            signature=_signature(run.record),
            input_example=example_rows(run.record),
            pip_requirements=[
                *pins(run, ["numpy", "pandas", *_LIBRARY[run.record.ranker]]),
                f"mlflow-skinny=={mlflow.__version__}",
            ],
        )
    return str(logged.model_uri)


def write_model(run: Run, folder: Path) -> None:
    """The library's own file, and what its columns are.

    Raises:
        DataError: the stored model is not the one that the record describes.
        HarnessError: what was written does not score as the stored model does.
    """
    record, example = run.record, example_rows(run.record)
    expected = run.score(example)  # refuses a file that is not what the record says
    name = next(name for name in record.files if name.startswith("model."))
    shutil.copyfile(run.path / name, folder / name)
    about = {
        "ranker": record.ranker,
        "file": name,
        "features": record.features,
        "categories": record.categories,
    }
    (folder / pyfunc.ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    if not np.array_equal(pyfunc.StoredModel(folder).predict(example), expected):
        raise HarnessError(
            Problem(
                str(run.path), "its model scores rows otherwise once it is exported", cure="use --no-models"
            )
        )


def example_rows(record: Record) -> pd.DataFrame:
    """Made-up rows: a run keeps none of the features that it was tested on."""
    import pandas as pd

    def column(name: str) -> Any:
        if name not in record.categories:
            return [0.0, 1.0]
        known = pyfunc.values_of(next(iter(record.categories[name]), ""))[-1]
        return pd.Series([known, None], dtype=object)  # older versions of MLflow know no other type of text

    return pd.DataFrame({name: column(name) for name in record.features})


def _signature(record: Record) -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import AnyType

    def column(name: str) -> ColSpec:
        if name not in record.categories:
            return ColSpec(DataType.double, name)
        # training had whole numbers, or texts of such; MLflow's `long` takes neither texts nor missing values
        numbers = all(len(pyfunc.values_of(text)) > 1 for text in record.categories[name])
        return ColSpec(AnyType() if numbers else DataType.string, name, required=False)

    columns = [column(name) for name in record.features]
    return ModelSignature(Schema(columns), Schema([ColSpec(DataType.double, "score")]))


@contextmanager
def _same_path() -> Iterator[None]:
    """`sys.path` as it was: MLflow loads what it has logged, from a folder that is gone afterwards."""
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = before
