"""Pickles that earlier versions wrote name the modules of their time, and still load."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest

import ltr_harness
from ltr_harness import Judgments, QueryGroups
from ltr_harness._util.moved import MOVED
from ltr_harness.boosting.lightgbm import Watch
from ltr_harness.comparison import plan_power
from ltr_harness.metrics import parse_metric
from ltr_harness.metrics.core.custom import function_metric

PLACES = [
    *MOVED.items(),
    ("ltr_harness.groups", "ltr_harness.data.queries"),
    ("ltr_harness.sklearn", "ltr_harness.integrations.sklearn"),
]
GROUPS = QueryGroups.from_sizes([2, 3], ids=["a", "b"])
JUDGMENTS = Judgments.checked([0, 1, 0, 1, 1], GROUPS, retrieved=[True, True, True, True, False])


def old_pickle(value: Any) -> bytes:
    """Return the pickle that an earlier version would have written."""
    written = pickle.dumps(value, protocol=0)  # module and class stand in lines of their own
    for before, today in PLACES:
        written = re.sub(rb"(?<=c)%s(?=[.\n])" % re.escape(today.encode()), before.encode(), written)
    return written


def tables() -> dict[str, pd.DataFrame]:
    ids = list("abcdefgh")
    values = np.random.default_rng(1).random((2, len(ids)))
    return {name: pd.DataFrame({"query_id": ids, "mrr": row}) for name, row in zip("AB", values, strict=True)}


def values() -> dict[str, Any]:
    features = np.arange(4.0)[:, None]
    return {
        "judgments": JUDGMENTS,
        "data": ltr_harness.from_arrays(features, [0, 1, 0, 1], query_ids=list("aabb")),
        "evaluation": ltr_harness.evaluate(
            [0, 1, 0, 1], features[:, 0], query_ids=list("aabb"), metrics="mrr"
        ),
        "comparison": ltr_harness.compare(tables(), test="t"),
        "rankings": ltr_harness.evaluate_runs({"q": {"d": 1}}, {"r": {"q": {"d": 0.5}}}, ["mrr"]),
    }


@pytest.mark.parametrize("name", ["judgments", "data", "evaluation", "comparison", "rankings"])
def test_old_pickles_load(name: str) -> None:
    value = values()[name]
    written = old_pickle(value)
    assert any(f"c{before}".encode() in written for before, _ in PLACES)
    assert type(pickle.loads(written)) is type(value)


def test_in_a_process_that_has_imported_nothing() -> None:
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).groups.ids)"
    done = subprocess.run(
        [sys.executable, "-c", program], input=old_pickle(JUDGMENTS), capture_output=True, check=True
    )
    assert done.stdout == b"['a' 'b']\n"


@pytest.mark.parametrize("today", sorted({today for _, today in PLACES}))
def test_every_module_is_where_the_table_says(today: str) -> None:
    assert importlib.import_module(today)


def test_other_names_are_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'ltr_harness\.groupses'$"):
        importlib.import_module("ltr_harness.groupses")


def test_an_estimator_that_holds_an_old_scorer(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import GridSearchCV

    from ltr_harness.models.sklearn import SklearnModel
    from ltr_harness.sklearn import QueryKFold, scorer

    search = GridSearchCV(
        LinearRegression(), {}, scoring=scorer("mrr", judgments=JUDGMENTS), cv=QueryKFold(2)
    )
    facts = (("sklearn.model_selection.GridSearchCV",), "predict", 1)
    (tmp_path / SklearnModel.FILE).write_bytes(pickle.dumps(facts) + old_pickle(search))
    estimator = SklearnModel.load(tmp_path).estimator
    assert repr(estimator.scoring) == "scorer('mrr')"
    assert estimator.scoring.judgments.labels.tolist() == JUDGMENTS.labels.tolist()


def classes_in(value: Any) -> set[str]:
    """Return the package's classes that a pickle names."""
    written = pickle.dumps(value, protocol=0).decode("latin-1")
    return {
        f"{module.removeprefix('ltr_harness.')}.{name}"
        for module, name in re.findall(r"c(ltr_harness[\w.]*)\n(\w+)\n", written)
    }


def test_a_trained_watch_names_classes_by_which_earlier_versions_wrote_it() -> None:
    """A class that is renamed here makes pickles of earlier versions unreadable."""
    rng = np.random.default_rng(3)
    features, labels, sizes = rng.normal(size=(60, 4)), rng.integers(0, 3, 60), [10] * 6
    train = lightgbm.Dataset(features, labels, group=sizes)
    valid = lightgbm.Dataset(features, labels, group=sizes, reference=train)
    watch = Watch("ndcg@3", patience=5)
    options = {"objective": "lambdarank", "metric": "None", "verbosity": -1, "num_threads": 1}
    lightgbm.train(options, train, 5, valid_sets=[valid], callbacks=[watch])
    assert classes_in(watch) == {
        "boosting.lightgbm.Watch",
        "boosting.lightgbm_metrics.ReportedName",
        "boosting.stopping.Stopper",
        "boosting.stopping.StoppingRule",
        "boosting.watching.Measured",
        "boosting.watching.Printing",
        "metrics.ndcg.NDCG",
    }
    # earlier versions wrote these as well
    for place in ("stored_scores.Form", "stored_scores.LightGBMScores", "watching.OncePerSet"):
        module, _, name = place.partition(".")
        assert hasattr(importlib.import_module(f"ltr_harness.boosting.{module}"), name)


def test_a_power_plan_names_classes_by_which_earlier_versions_wrote_it() -> None:
    plan = plan_power(ltr_harness.compare(tables(), test="t"), 0.1, [0.8])
    names = {f"comparison.power.{name}" for name in ("ModelPlan", "Need", "Point", "PowerPlan")}
    assert classes_in(plan) == {*names, "errors.Caution"}


def share_of_ones(labels: Any, scores: Any) -> float:
    return float((labels == 1).mean())


def test_metrics_from_outside_name_functions_by_which_earlier_versions_wrote_them(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from ltr_harness.metrics import MRR\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Own(MRR):\n"
        "    name: ClassVar = 'own_mrr'\n"
    )
    from_function = function_metric(share_of_ones, higher_is_better=True)
    assert classes_in(from_function) == {"metrics.core.custom._function_again"}
    assert classes_in(parse_metric(f"{file}:Own")) == {"metrics.core.custom._class_again"}
