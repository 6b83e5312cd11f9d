"""One model across two real worker processes: whole queries, our metrics, our rule; also when one is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import evaluate, load_run, run_experiment
from ltr_harness.boosting.stopping import Stopper, StoppingRule
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.queries import QueryGroups
from ltr_harness.errors import UsageError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.training.dask import Cluster, local_cluster
from ltr_harness.experiments.training.folds import FoldReader
from ltr_harness.experiments.training.job import Task
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.experiments.training.reproduce import reproduce
from ltr_harness.metrics import NDCG
from ltr_harness.models.dask import cut
from ltr_harness.workflow import ExperimentResult, prepare, read, run_prepared
from tests.experiments.training.conftest import runs_of

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("module_without_report")]

pytest.importorskip("distributed", reason="needs ltr-harness[dask]")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with local_cluster(2) as started:
        yield started


@pytest.fixture
def dask_config(repository: Path) -> dict[str, Any]:
    """`configs/dask.yaml`, smaller: each model across workers, and as it is."""
    return small_dask_config(repository)


def small_dask_config(repository: Path) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((repository / "configs" / "dask.yaml").read_text())
    config["seeds"] = [1]
    config["data"] |= {"n_queries": {"train": 200, "valid": 80, "test": 120}, "n_features": 12}
    config["stopping"] = {"metric": "ndcg@10", "patience": 3, "max_rounds": 12}
    config["report"] = {"formats": ["json"]}
    return config


def run_on(
    cluster: Cluster, config: dict[str, Any], runs: Path, progress: Progress | None = None
) -> ExperimentResult:
    return run_prepared(prepare(read(config, runs=runs, cluster=cluster)), progress=progress)


@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=60),
    n_parts=st.integers(1, 8),
)
def test_parts_are_whole_queries_and_nearly_equal(sizes: list[int], n_parts: int) -> None:
    if n_parts > len(sizes):
        return
    groups = QueryGroups.from_sizes(sizes)
    parts = cut(groups, n_parts)
    assert [part[0] for part in parts] == [0, *(part[1] for part in parts[:-1])]
    assert parts[-1][1] == len(sizes)
    assert all(first < end for first, end in parts)
    if n_parts == 2:  # no other cut between queries would be fairer
        rows = groups.boundaries
        best = min(abs(2 * rows[at] - rows[-1]) for at in range(1, len(sizes)))
        assert abs(2 * rows[parts[0][1]] - rows[-1]) == best


class Rounds(Progress):
    """Remembers whose rounds were reported."""

    def __init__(self) -> None:
        self.models: set[str] = set()

    def round(self, task: Task, number: int, values: Any) -> None:
        self.models.add(task.model)


@pytest.fixture(scope="module")
def across(
    cluster: Cluster, repository: Path, tmp_path_factory: pytest.TempPathFactory, module_without_report: None
) -> tuple[dict[str, Run], set[str]]:
    """Both libraries' models that the cluster has trained across its workers, and whose rounds it reported."""
    config, rounds = small_dask_config(repository), Rounds()
    for name in ("lgbm", "xgb", "random"):
        config["models"].pop(name, None)
    del config["compare"]
    result = run_on(cluster, config, tmp_path_factory.mktemp("across"), rounds)
    assert [run.record.error for run in result.failures] == []
    return {run.record.model: run for run in result.runs}, rounds.models


def test_both_libraries_stop_by_our_rule_on_the_complete_validation_queries(
    across: tuple[dict[str, Run], set[str]], dask_config: dict[str, Any], tmp_path: Path
) -> None:
    models = dask_config["models"]
    by_model, reported = across
    assert set(by_model) == reported == {"lgbm-across", "xgb-across"}
    dask_config["models"] = {name: models[name] for name in ("lgbm", "xgb")}
    of_one_machine = {run.record.model: run.record for run in runs_of(dask_config, tmp_path / "here")}
    fold = FoldReader(load_experiment(dask_config).data).read("all")
    assert fold.valid is not None
    for name in ("lgbm", "xgb"):
        run = by_model[f"{name}-across"]
        record = run.record
        # the curve obeys the rule, round by round
        curve = run.history.query("metric == 'ndcg@10'")
        stopper = Stopper(StoppingRule(NDCG(k=10), patience=3, max_rounds=12))
        stops = [stopper.update(int(r), v) for r, v in zip(curve["round"], curve["value"], strict=True)]
        assert list(curve["round"]) == list(range(1, len(curve) + 1))
        assert not any(stops[:-1])
        assert stops[-1] or len(curve) == 12
        assert record.best_round == stopper.best_round
        assert record.rounds_trained == len(curve)
        # the stored model is the best round of that curve, on all validation queries
        scores = load_run(run.path).score(fold.valid.features)
        reached = evaluate(
            fold.valid.labels, scores, group_sizes=fold.valid.groups.sizes, metrics=["ndcg@10"]
        )
        assert reached.means["ndcg@10"] == pytest.approx(curve["value"].max(), abs=1e-9)
        # close to one machine's: the difference is of the order of another seed's
        alone, together = (one.metrics["ndcg@10"].mean for one in (of_one_machine[name], record))
        assert alone is not None
        assert together is not None
        assert abs(alone - together) < 0.05
        assert "trained across 2 workers" in " ".join(map(str, record.cautions))
        assert record.config["data_parallel"] == 2
        assert "data_parallel" not in of_one_machine[name].config


SHELF = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.swap_change import SwapChange
from ltr_harness.metrics.dcg import cumulated

SHELF = np.array([1.0, 0.5, 0.5])


@dataclass(frozen=True, kw_only=True)
class Shelf(Metric):
    name: ClassVar[str] = "shelf"
    graded: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    takes_cutoff: ClassVar[bool] = False
    source: ClassVar[str] = "our shop"

    def prepare(self, judgments, cutoffs):
        return lambda ranking: cumulated(ranking, cutoffs, judgments.labels, SHELF)

    def swap_change(self, judgments):
        scale = np.ones(judgments.groups.n_queries)
        return SwapChange(form="sum", worth=judgments.labels, scale=scale, rank_worth=SHELF)
"""


def test_metrics_and_ones_own_are_optimised_across_workers(
    cluster: Cluster, dask_config: dict[str, Any], tmp_path: Path
) -> None:
    own = tmp_path / "shelf_metrics.py"
    own.write_text(SHELF)
    models = dask_config["models"]
    dask_config["models"] = {
        f"{name} {label}": {**models[f"{name}-across"], "objective": {"metric": metric}}
        for name in ("lgbm", "xgb")
        for label, metric in (("err", "err@10"), ("shelf", f"{own}:Shelf"))
    } | {"random": {"ranker": "random"}}
    del dask_config["compare"]
    dask_config["stopping"]["max_rounds"] = 4
    runs = runs_of(dask_config, tmp_path / "runs", cluster)
    assert [run.record.error for run in runs if run.record.error] == []
    records = {run.record.model: run.record for run in runs}

    def beats_random(model: str, metric: str) -> bool:
        mean, random = (records[one].metrics[metric].mean for one in (model, "random"))
        return mean > random + 0.1

    for name in ("lgbm", "xgb"):
        assert beats_random(f"{name} err", "err(max_grade=4)@10")
        assert beats_random(f"{name} shelf", "ndcg@10")


def test_pointwise_objectives_across_workers_learn_what_one_machine_learns(
    cluster: Cluster, dask_config: dict[str, Any], tmp_path: Path
) -> None:
    models: dict[str, Any] = {
        "binary": {"ranker": "lightgbm", "relevant": 2},
        "quantile": {"ranker": "lightgbm"},
        "binary:logistic": {"ranker": "xgboost", "relevant": 2},
        "count:poisson": {"ranker": "xgboost"},
        "reg:absoluteerror": {"ranker": "xgboost"},
    }
    models = {objective: {**model, "objective": objective} for objective, model in models.items()}
    dask_config["stopping"]["max_rounds"] = 4
    del dask_config["compare"]
    dask_config["models"] = {"random": {"ranker": "random"}, **models}
    here = ndcg_of(runs_of(dask_config, tmp_path / "here"))
    dask_config["models"] = {name: {**model, "data_parallel": 2} for name, model in models.items()}
    there = ndcg_of(runs_of(dask_config, tmp_path / "there", cluster))
    assert set(there) == set(models)
    for objective, mean in there.items():
        assert mean > here["random"] + 0.1
        assert mean == pytest.approx(here[objective], abs=0.05)


def ndcg_of(runs: list[Run]) -> dict[str, float]:
    """Each model's mean, none of which failed."""
    assert [run.record.error for run in runs if run.record.error] == []
    means = {run.record.model: run.record.metrics["ndcg@10"].mean for run in runs}
    return {model: mean for model, mean in means.items() if mean is not None}


SLOW = """
import time

def slow(labels, scores):
    time.sleep(0.001)  # of 80 queries: a training goes on when it is disturbed
    return float(labels[scores.argmax()])
"""


@pytest.mark.parametrize("model", ["lgbm-across", pytest.param("xgb-across", marks=pytest.mark.slow)])
def test_a_killed_worker_costs_the_rounds_of_one_model(
    cluster: Cluster,
    across: tuple[dict[str, Run], set[str]],
    dask_config: dict[str, Any],
    tmp_path: Path,
    model: str,
) -> None:
    """What is trained then is what an undisturbed cluster trains, to the byte."""
    (tmp_path / "slow.py").write_text(SLOW)
    dask_config["models"] = {model: dask_config["models"][model]}
    del dask_config["compare"]
    dask_config["metrics"]["report"].append(f"{tmp_path}/slow.py:slow(higher_is_better=true)")
    victims = [pid for _, pid in sorted(cluster.client.run(os.getpid).items())][1:]  # not who evaluates
    killed: list[int] = []

    class Kill(Progress):
        def round(self, task: Task, number: int, values: Any) -> None:
            while victims:
                killed.append(victims.pop())
                os.kill(killed[-1], signal.SIGKILL)

    (disturbed,) = runs_of(dask_config, tmp_path / "disturbed", cluster, Kill())
    assert killed
    assert disturbed.record.error is None
    undisturbed = across[0][model]
    assert model_files(disturbed) == model_files(undisturbed)
    np.testing.assert_array_equal(disturbed.test_scores["score"], undisturbed.test_scores["score"])


def model_files(run: Run) -> dict[str, bytes]:
    return {name: (run.path / name).read_bytes() for name in run.model_files}


def test_a_model_trained_across_workers_is_trained_across_as_many(
    across: tuple[dict[str, Run], set[str]],
) -> None:
    """By a command that has no cluster."""
    found = reproduce(across[0]["xgb-across"].path)
    assert found.identical, found


def test_more_workers_than_there_are_is_a_failure_that_says_so(
    cluster: Cluster, dask_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ltr_harness.models.dask.WORKERS_WITHIN", 0.5)
    dask_config["models"] = {
        "lgbm": {**dask_config["models"]["lgbm"], "data_parallel": 5},
        "xgb": dask_config["models"]["xgb"],
    }
    dask_config["stopping"]["max_rounds"] = 5
    result = run_on(cluster, dask_config, tmp_path)
    assert [run.record.model for run in result.runs] == ["xgb"]
    assert [run.record.error for run in result.failures] == [
        "this model needs 5 workers at once, and the cluster has 2 after 0.5 s"
    ]


def test_without_a_cluster_nothing_is_run(dask_config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        run_experiment(dask_config, runs=tmp_path)
    assert str(caught.value).splitlines() == [
        f"models.{name}.data_parallel: needs a Dask cluster; add --dask ADDRESS or --workers dask:N"
        for name in ("lgbm-across", "xgb-across")
    ]
    assert not (tmp_path / "dask").exists()


def test_what_cannot_be_had_across_workers_is_refused_before_training(
    dask_config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dask_config["models"] = {
        "a": {"ranker": "xgboost", "objective": "rank_xendcg", "data_parallel": True},
        "b": {"ranker": "xgboost", "categorical": [1], "data_parallel": 2},
        "c": {"ranker": "lightgbm", "data_parallel": 1},
        "d": {"ranker": "catboost", "data_parallel": True},
    }
    path = tmp_path / "across.yaml"
    path.write_text(yaml.safe_dump(dask_config))
    assert run_command(cli, ["check", str(path)]) == 2
    said = capsys.readouterr().err
    assert "models.a.data_parallel" in said
    assert "models.b.data_parallel" in said
    assert "models.c.data_parallel" in said
    assert "unknown key 'data_parallel' in models.d" in said


def test_runs_from_before_there_was_the_field_are_the_same_runs(
    small_config: dict[str, Any], tmp_path: Path
) -> None:
    plain = prepare(read(small_config, runs=tmp_path)).tasks
    small_config["models"]["lgbm"]["data_parallel"] = False
    assert [task.identity for task in prepare(read(small_config, runs=tmp_path)).tasks] == [
        task.identity for task in plain
    ]
    assert not any(
        "data_parallel" in str(config.ranker.definition())
        for config in load_experiment(small_config).models.values()
    )
