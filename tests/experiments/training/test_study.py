"""Studies trained: each variant is the model that is configured by hand, to the byte; and the plan."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness import run_experiment
from ltr_harness.comparison.stats.method import Method
from ltr_harness.data import RankingDataset, from_arrays
from ltr_harness.data.splits import share_of_queries
from ltr_harness.errors import UsageError
from ltr_harness.experiments.compare.next_gain import next_gains
from ltr_harness.experiments.config import as_mapping, load_experiment
from ltr_harness.experiments.inspection.agreement import JudgmentAgreement
from ltr_harness.experiments.runs import Run
from ltr_harness.experiments.training.folds import with_files
from ltr_harness.experiments.training.job import Task
from ltr_harness.experiments.training.progress import Progress
from ltr_harness.experiments.training.reproduce import reproduce
from ltr_harness.experiments.training.study import study_notes, study_plan
from ltr_harness.report.blocks import Chart, Heading, Paragraph
from ltr_harness.report.data import stored_data
from ltr_harness.report.json_document import document
from ltr_harness.report.sections.next_gain import answer, section
from ltr_harness.report.terminal import render
from ltr_harness.workflow import ExperimentResult, prepare, read, run_prepared
from tests.conftest import reports_left_out

from .commands import Command, stay_on_one_core  # type: ignore[import-not-found]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_core")]

NAMES = ["bm25", "title", "ctr_day", "ctr_week", "noise"]
GROUPS = {"text": ["bm25", "title"], "behaviour": ["ctr_*"]}
SHARES = [0.3, 0.6, 1]


def rows(n_queries: int, seed: int) -> RankingDataset:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(8 * n_queries, len(NAMES))).astype(np.float32)
    utility = features[:, 0] + 0.7 * features[:, 2] + 0.5 * features[:, 3] + rng.normal(size=8 * n_queries)
    labels = np.clip(np.round(utility), 0, 3)
    queries = np.repeat([f"{seed}-{query}" for query in range(n_queries)], 8)
    return from_arrays(features, labels, query_ids=queries, feature_names=NAMES)


DATA = {"train": rows(60, 1), "valid": rows(30, 2), "test": rows(40, 3)}
LGBM = {"ranker": "lightgbm", "params": {"num_leaves": 7, "bagging_fraction": 0.7, "bagging_freq": 1}}
XGB = {"ranker": "xgboost", "params": {"max_depth": 3, "subsample": 0.7}}


def experiment(models: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "name": "studied",
        "seeds": [1],
        "data": {**DATA, "max_grade": 3},
        "metrics": {"cutoffs": [10], "report": ["ndcg"], "primary": "ndcg@10"},
        "stopping": {"metric": "ndcg@10", "patience": 2, "max_rounds": 4},
        "models": models,
        "report": {"formats": ["json"]},
        **changes,
    }


STUDY = {
    "of": ["lgbm", "xgb"],
    "features": {"groups": GROUPS},
    "queries": {"shares": SHARES, "draws": 2},
}


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory, one_core: None) -> dict[tuple[str, int], Run]:
    """The runs of a study by model and seed."""
    config = experiment({"lgbm": LGBM, "xgb": XGB}, study=STUDY)
    with reports_left_out():
        result = run_experiment(config, runs=tmp_path_factory.mktemp("runs"), workers=1)
    return {(run.record.model, run.record.seed): run for run in result.runs}


def assert_same_models(studied: dict[tuple[str, int], Run], by_hand: dict[str, Run | Any], name: str) -> None:
    for run in by_hand.values():
        variant = studied[name, run.record.seed]
        assert variant.record.identity == run.record.identity
        assert [(variant.path / file).read_bytes() for file in variant.model_files] == [
            (run.path / file).read_bytes() for file in run.model_files
        ]
        assert variant.record.metrics == run.record.metrics


@pytest.mark.usefixtures("without_report")
def test_models_without_features_are_those_configured_by_hand(
    studied: dict[tuple[str, int], Run], tmp_path: Path
) -> None:
    by_hand = {
        "lgbm without text": {**LGBM, "exclude": ["bm25", "title"]},
        "lgbm only text": {**LGBM, "features": ["bm25", "title"]},
        "xgb without behaviour": {**XGB, "exclude": ["ctr_day", "ctr_week"]},
        "xgb only behaviour": {**XGB, "features": ["ctr_day", "ctr_week"]},
    }
    result = run_experiment(experiment(by_hand), runs=tmp_path, workers=1)
    for name in by_hand:
        runs = {str(run.record.seed): run for run in result.runs if run.record.model == name}
        assert len(runs) == 1
        assert_same_models(studied, runs, name)


@pytest.mark.usefixtures("without_report")
@pytest.mark.parametrize(("model", "config", "share", "draw"), [("lgbm", LGBM, 0.3, 2), ("xgb", XGB, 0.6, 1)])
def test_models_of_fewer_queries_are_those_of_files_with_fewer_queries(
    model: str, config: Any, share: float, draw: int, studied: dict[tuple[str, int], Run], tmp_path: Path
) -> None:
    queries = share_of_queries(DATA["train"].groups, share, draw)
    assert queries.size == round(share * 60)
    data = {**DATA, "train": DATA["train"].take(queries), "max_grade": 3}
    result = run_experiment(experiment({"mine": config}, data=data), runs=tmp_path, workers=1)
    runs = {str(run.record.seed): run for run in result.runs}
    assert len(runs) == 1
    name = f"{model} queries={share} draw={draw}"
    assert_same_models(studied, runs, name)
    record = studied[name, 1].record
    assert record.data["train"].n_queries == queries.size
    assert record.data["train"].fingerprint == runs["1"].record.data["train"].fingerprint
    assert record.training_queries is not None
    assert (record.training_queries.share, record.training_queries.draw) == (share, draw)


def test_shares_of_a_draw_are_nested_and_those_of_other_draws_differ() -> None:
    groups = DATA["train"].groups
    small, large, other = (share_of_queries(groups, *at) for at in ((0.3, 1), (0.6, 1), (0.6, 2)))
    assert np.isin(small, large).all()
    assert not np.array_equal(large, other)
    assert np.array_equal(large, np.sort(large))


def test_a_run_of_fewer_queries_is_reproduced(studied: dict[tuple[str, int], Run]) -> None:
    assert reproduce(studied["lgbm queries=0.3 draw=1", 1].path).identical


@pytest.mark.usefixtures("without_report")
def test_the_identity_of_other_models_is_what_it_was(
    studied: dict[tuple[str, int], Run], tmp_path: Path
) -> None:
    result = run_experiment(experiment({"lgbm": LGBM}), runs=tmp_path, workers=1)
    assert {studied["lgbm", run.record.seed].record.identity for run in result.runs} == {
        run.record.identity for run in result.runs
    }


@pytest.mark.usefixtures("without_report")
def test_a_tuned_model_is_studied_with_its_chosen_options(tmp_path: Path) -> None:
    tune = {"models": {"lgbm": {"params.num_leaves": [3, 5]}}, "trials": 2, "sampler": "random"}
    config = experiment({"lgbm": {"ranker": "lightgbm"}}, study={**STUDY, "of": "lgbm"}, tune=tune)
    result = run_experiment(config, runs=tmp_path, workers=1)
    records = {run.record.model: run.record for run in result.runs}
    chosen = records["lgbm"].params["num_leaves"]
    assert {record.params["num_leaves"] for record in records.values()} == {chosen}
    assert len(records) == 1 + 2 * 2 + 2 * 2
    stored = records["lgbm without text"].config
    assert (stored["params"], stored["exclude"]) == ({"num_leaves": chosen}, ["bm25", "title"])


def test_wrong_groups_and_shares_are_refused_once_the_data_are_read(tmp_path: Path) -> None:
    study = {"of": "lgbm", "features": {"groups": {"x": ["ctr*", "age_*"], "y": ["bm52"], "all": ["*"]}}}
    config = experiment({"lgbm": LGBM}, study=study)
    with pytest.raises(UsageError) as error:
        run_experiment(config, runs=tmp_path)
    (problem,) = map(str, error.value.problems)
    assert problem.startswith("study.features.groups.x: the pattern 'age_*' matches no feature; ")
    study["features"]["groups"]["x"] = ["ctr*"]  # type: ignore[index]
    with pytest.raises(UsageError) as error:
        run_experiment(config, runs=tmp_path)
    assert [str(problem).partition(";")[0] for problem in error.value.problems] == [
        "study.features.groups.y: the data has no feature 'bm52'",
        "study.features.groups.all: no feature is left",
    ]
    config = experiment({"lgbm": LGBM}, study={"of": "lgbm", "queries": [0.001, 0.5]})
    with pytest.raises(UsageError) as error:
        run_experiment(config, runs=tmp_path)
    assert [str(problem) for problem in error.value.problems] == [
        "study.queries: a share of 0.001 of 60 training queries is none; expected at least one"
    ]


def test_shares_without_relevant_queries_are_refused(tmp_path: Path) -> None:
    train = DATA["train"]
    blank = np.isin(np.arange(60), share_of_queries(train.groups, 0.1, 2))
    labels = np.where(np.repeat(blank, 8), 0, train.labels)
    data = from_arrays(train.features, labels, query_ids=np.repeat(train.groups.ids, 8), feature_names=NAMES)
    config = experiment({"lgbm": LGBM}, study={"of": "lgbm", "queries": [0.1, 0.5]})
    config["data"]["train"] = data
    with pytest.raises(UsageError) as error:
        run_experiment(config, runs=tmp_path)
    assert [str(problem) for problem in error.value.problems] == [
        "study.queries: a share of 0.1 is 6 training queries of fold all, none with a relevant document; expected a "
        "larger share"
    ]


def test_the_plan_counts_trainings_and_groups_that_share_features_are_noted(tmp_path: Path) -> None:
    groups = {**GROUPS, "clicks": ["ctr_week", "noise"]}
    study = {"of": "lgbm", "features": {"groups": groups}, "queries": SHARES}
    job = prepare(read(experiment_with_files(study, tmp_path), runs=tmp_path))
    assert list(study_plan(job)) == [
        "study of lgbm: 12 models, 12 of 12 runs to do, and up to 1 more without several groups together; "
        "no estimate yet"
    ]
    assert [str(note) for note in study_notes(job)] == [
        "study.features.groups: groups behaviour and clicks share ctr_week: the worth of both counts it"
    ]


def experiment_with_files(study: Any, folder: Path) -> Any:
    return with_files(experiment({"lgbm": LGBM}, study=study, compare={"margin": 0.02}), folder)


@pytest.fixture(scope="module")
def copies(
    tmp_path_factory: pytest.TempPathFactory, one_core: None
) -> tuple[ExperimentResult, Path, dict[str, Any]]:
    """A study of two copies of one signal, each of which can go, and not both."""
    runs = tmp_path_factory.mktemp("copies")
    data = {
        name: with_copy(rows(n, seed))
        for name, n, seed in (("train", 80, 1), ("valid", 40, 2), ("test", 80, 3))
    }
    groups = {"signal": ["bm25"], "copy": ["copy"], "chance": ["noise"]}
    study: dict[str, Any] = {
        "of": "lgbm",
        "features": {"groups": groups, "costs": {"signal": 2, "copy": 3, "chance": 0.5}},
    }
    study["queries"] = [0.25, 0.5, 0.75, 1]
    lgbm = {"ranker": "lightgbm", "params": {"num_leaves": 7, "learning_rate": 0.3}}
    changes = {"study": study, "compare": {"margin": 0.07}, "data": {**data, "max_grade": 3}}
    config = experiment({"lgbm": lgbm, "chance": {"ranker": "random"}}, **changes)
    config["report"] = {"formats": ["md", "json"]}
    return run_experiment(config, runs=runs, workers=1), runs, config


def with_copy(dataset: RankingDataset) -> RankingDataset:
    features = dataset.features[:, [0, 0, 4]]
    labels = np.clip(np.round(features[:, 0] + 0.3 * features[:, 2]), 0, 3)
    queries = np.repeat(dataset.groups.ids, dataset.groups.sizes)
    return from_arrays(features, labels, query_ids=queries, feature_names=["bm25", "copy", "noise"])


def test_groups_that_can_go_one_by_one_are_left_out_together_in_a_second_wave(
    copies: tuple[ExperimentResult, Path, dict[str, Any]],
) -> None:
    result, _, _ = copies
    assert result.report is not None
    (gain,) = result.report.next_gains
    verdicts = {worth.groups: worth.verdict for worth in gain.groups}
    assert verdicts[("signal",)] == verdicts[("copy",)] == "removable"
    assert gain.together is not None
    assert set(gain.together.groups) >= {"signal", "copy"}
    assert gain.together.verdict == "needed"
    assert gain.together.largest_loss > 0.07
    assert gain.together.cost == sum(
        {"signal": 2, "copy": 3, "chance": 0.5}[group] for group in gain.together.groups
    )
    names = ", ".join(gain.together.groups)
    (run,) = [run for run in result.runs if run.record.model == f"lgbm without {names}"]
    members = {"signal": "bm25", "copy": "copy", "chance": "noise"}
    assert run.record.config["exclude"] == [members[group] for group in gain.together.groups]
    assert f"joint over {2 * 3 + 1} comparisons" in gain.family
    # the verdict on the models themselves is a family of its own
    assert result.comparison is not None
    assert result.comparison.models == ("lgbm", "chance")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_trains_the_second_wave_to_the_same_bytes(
    copies: tuple[ExperimentResult, Path, dict[str, Any]], tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="needs ltr-harness[dask]")
    from ltr_harness.experiments.training.dask import local_cluster

    result, _, config = copies
    groups_alone = {**config["study"], "queries": None}
    trained: list[tuple[str, str]] = []

    class Log(Progress):
        def finished(self, task: Task, run: Run) -> None:
            trained.append((task.model, run.record.status))

    with local_cluster(2) as cluster:
        config = with_files({**config, "study": groups_alone}, tmp_path)
        job = prepare(read(config, runs=tmp_path, cluster=cluster))
        there = run_prepared(job, progress=Log())
    together = next(run.record.model for run in result.runs if "," in run.record.model)
    assert trained[-1] == (together, "complete"), "after all others, as what it lacks is their verdict"
    here = [run for run in result.runs if run.record.training_queries is None]
    assert len(trained) == len(here) == 9
    assert contents(there.runs) == contents(here)
    for part in ("groups", "together"):
        assert answers(there)[0]["study"][part] == answers(result)[0]["study"][part]


def answers(result: ExperimentResult) -> list[dict[str, Any]]:
    """The answers in JSON, without the share of latency, which was measured."""
    assert result.report is not None
    entries: list[dict[str, Any]] = document(result.report)["next_gain"]
    for entry in entries:
        for worth in (*entry["study"]["groups"], entry["study"]["together"]):
            del worth["latency_share"]
    return entries


def contents(runs: Iterable[Run]) -> dict[str, Any]:
    """All of the runs that must be the same wherever they were trained, by folder name."""
    return {
        run.path.name: (
            run.record.identity,
            run.record.metrics,
            [(run.path / name).read_bytes() for name in (*run.model_files, "per_query.parquet")],
        )
        for run in runs
    }


def test_killed_in_the_second_wave_it_goes_on_with_that_wave_alone(
    copies: tuple[ExperimentResult, Path, dict[str, Any]], tmp_path: Path
) -> None:
    result, runs, config = copies
    folder = result.folder.relative_to(runs)
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    (together,) = (run for run in result.runs if "," in run.record.model)
    shutil.rmtree(tmp_path / together.path.relative_to(runs))
    file = tmp_path / "studied.yaml"
    file.write_text(yaml.safe_dump(with_files(config, tmp_path)))
    command = Command(
        tmp_path / "killed", "run", file, "--runs", tmp_path, "--workers", "1", prepare=stay_on_one_core
    )
    command.wait_until(lambda: list((tmp_path / folder).glob(".unfinished*")))  # the second wave has begun
    command.send(signal.SIGKILL, to_all=True)
    assert command.wait()[0] == -signal.SIGKILL
    assert not (tmp_path / together.path.relative_to(runs)).exists()
    again = run_experiment(config, runs=tmp_path, workers=1)
    assert (again.reused, len(again.runs)) == (len(result.runs) - 1, len(result.runs))
    assert contents(again.runs) == contents(result.runs)
    assert not list((tmp_path / folder).glob(".unfinished*"))
    assert answers(again) == answers(result)


def test_a_second_wave_has_all_folds_and_seeds(tmp_path: Path) -> None:
    config = experiment(
        {"lgbm": {**LGBM, "objective": "regression"}},
        study={"of": "lgbm", "features": {"groups": GROUPS}},
        stopping={"metric": "ndcg@10", "max_rounds": 2},
        data={"files": rows(90, 1), "folds": 3, "max_grade": 3},
        compare={"margin": 1.0},
        seeds=[1, 2],
    )
    result = run_experiment(config, runs=tmp_path, workers=1)
    second = [run.record for run in result.runs if "," in run.record.model]
    assert len(result.runs) == 6 * (1 + 2 * 2 + 1)
    assert {(record.fold, record.seed) for record in second} == {
        (fold, seed) for fold in ("fold1", "fold2", "fold3") for seed in (1, 2)
    }
    assert result.report is not None
    (gain,) = result.report.next_gains
    assert gain.together is not None
    assert (gain.n_queries, gain.together.without.includes_seeds) == (90, True)
    assert gain.together.verdict == "removable"
    # one fold of one seed lost, as after a kill between two trainings: it alone is trained again
    lost = next(run for run in result.runs if run.record.model == second[0].model and run.record.seed == 2)
    shutil.rmtree(lost.path)
    again = run_experiment(config, runs=tmp_path, workers=2)
    assert again.reused == len(result.runs) - 1
    assert contents(again.runs) == contents(result.runs)


def test_a_second_command_trains_nothing_and_finds_the_same(
    copies: tuple[ExperimentResult, Path, dict[str, Any]],
) -> None:
    result, runs, config = copies
    again = run_experiment(config, runs=runs, workers=1)
    assert again.reused == len(again.runs) == len(result.runs)
    assert again.report is not None
    assert result.report is not None
    stored = stored_data([result.folder])
    found, second, third = (document(data)["next_gain"] for data in (result.report, again.report, stored))
    assert found == second == third
    assert stored.models == result.report.models


def test_the_plan_of_a_trained_study_has_its_second_wave(
    copies: tuple[ExperimentResult, Path, dict[str, Any]], tmp_path: Path
) -> None:
    result, runs, config = copies
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    job = prepare(read(with_files(config, tmp_path), runs=tmp_path))
    assert list(study_plan(job)) == ["study of lgbm: 16 models, 0 of 16 runs to do"]
    (together,) = (run for run in result.runs if "," in run.record.model)
    shutil.rmtree(tmp_path / together.path.relative_to(runs))
    (plan,) = study_plan(job)
    assert plan.startswith("study of lgbm: 16 models, 1 of 16 runs to do; ")
    assert "up to" not in plan, "which groups are left out together is known"


def test_the_section_the_terminal_and_the_json_begin_with_the_answer(
    copies: tuple[ExperimentResult, Path, dict[str, Any]],
) -> None:
    result, _, _ = copies
    assert result.report is not None
    (gain,) = result.report.next_gains
    sentence = answer(gain)
    assert gain.queries is not None
    assert [point.share for point in gain.queries.points] == [0.25, 0.5, 0.75, 1]
    assert [point.queries for point in gain.queries.points] == [20, 40, 60, 80]
    assert sentence.startswith("Twice the training queries: ")
    together = gain.together
    assert together is not None
    assert (
        f"{' and '.join(together.groups)} features can each go, not together: the loss could be up to"
        in sentence
    )
    heading, lead, *blocks = section(result.report)
    assert isinstance(heading, Heading)
    assert (heading.text, heading.matters) == ("Where the next gain is", True)
    assert lead == Paragraph(sentence, "lead")
    assert [block.name for block in blocks if isinstance(block, Chart)] == [
        "feature_groups",
        "learning_curve",
    ]
    folder = result.folder / "report"
    (entry,) = json.loads((folder / "report.json").read_text())["next_gain"]
    assert entry["answer"] == sentence
    assert entry["study"]["groups"][0]["without"]["model"] == "lgbm without signal"
    assert sentence in (folder / "report.md").read_text()
    assert " ".join(f"Where the next gain is: {sentence}".split()) in " ".join(render(result.report).split())
    assert section(replace(result.report, next_gains=())) == []
    # where test documents have several judgments, their disagreement stands beside what is left to win
    judged = JudgmentAgreement("", "", n_documents=40, n_judgments=80, equal=0.75, ordinal=0.6, nominal=0.5)
    (run, *_) = result.report.runs
    test = run.record.data["test"].model_copy(update={"agreement": (judged,)})
    record = run.record.model_copy(update={"data": {**run.record.data, "test": test}})
    with_judges = replace(result.report, runs=[replace(run, record=record)])
    texts = [str(block.text) for block in section(with_judges) if isinstance(block, Paragraph)]
    assert any("75.0% of the pairs have equal grades" in text for text in texts)


def test_the_report_notes_groups_that_share_features(tmp_path: Path) -> None:
    groups = {"text": ["bm25", "title"], "one": ["title", "ctr_*"], "rest": ["noise"]}
    study, stopping = {"of": "lgbm", "features": {"groups": groups}}, {"metric": "ndcg@10", "max_rounds": 2}
    config = experiment({"lgbm": LGBM}, study=study, stopping=stopping)
    config["report"] = {"formats": ["md", "json"]}
    result = run_experiment(config, runs=tmp_path, workers=1)
    assert result.report is not None
    (gain,) = result.report.next_gains
    assert {worth.groups[0]: worth.features for worth in gain.groups} == {
        "text": ("bm25", "title"),
        "one": ("title", "ctr_day", "ctr_week"),
        "rest": ("noise",),
    }
    line = "groups text and one share title: the worth of both counts it"
    page = (result.folder / "report" / "report.md").read_text()
    assert page.count(line) == 1
    assert page.count("the worth of both counts it") == 1
    # `check` has the same line
    assert [
        note.text for note in study_notes(prepare(read(with_files(config, tmp_path), runs=tmp_path)))
    ] == [line]


def test_without_a_margin_nothing_is_called_removable(studied: dict[tuple[str, int], Run]) -> None:
    runs = list(studied.values())
    options = load_experiment(as_mapping(load_experiment(file_of(runs)))).studied
    gains = next_gains(runs, options, Method())
    assert [gain.model for gain in gains] == ["lgbm", "xgb"]
    assert {worth.verdict for gain in gains for worth in gain.groups} <= {"needed", "undecided"}
    assert all(answer(gain).endswith("no feature group is shown to be removable.") for gain in gains)
    assert all("no forecast from fewer than 3 shares below the whole" in answer(gain) for gain in gains)
    wide = next_gains(runs, options, Method(margin=1.0))
    assert all(worth.verdict == "removable" for gain in wide for worth in gain.groups)
    assert all(
        "text and behaviour features can each go; leaving out several was not tried" in answer(gain)
        for gain in wide
    )


def file_of(runs: list[Run]) -> Path:
    return runs[0].path.parent / "experiment.yaml"


def voted(folder: Path) -> dict[str, Any]:
    """The data without labels in files, and the judgments of two judges; of every fourth document, one judged."""
    rng, judgments = np.random.default_rng(5), []
    for name, dataset in DATA.items():
        ids = {
            "query_id": np.repeat(dataset.groups.ids, dataset.groups.sizes),
            "document_id": np.arange(dataset.n_rows).astype(str),
        }
        pd.DataFrame({**ids, **dict(zip(NAMES, np.asarray(dataset.features).T, strict=True))}).to_parquet(
            folder / f"{name}.parquet"
        )
        votes = np.clip(dataset.labels + rng.integers(-1, 2, (2, dataset.n_rows)), 0, 3)
        judgments += [pd.DataFrame({**ids, "grade": grades}) for grades in votes]
        judgments[-1] = judgments[-1][np.arange(dataset.n_rows) % 4 > 0]
    pd.concat(judgments).to_parquet(folder / "votes.parquet")
    return {
        "reader": "parquet",
        "root": str(folder),
        "features": NAMES,
        "splits": {name: f"{name}.parquet" for name in DATA},
        "judgments": {"files": "votes.parquet", "several": "majority"},
        "max_grade": 3,
    }


def test_two_judges_of_the_test_documents_set_a_ceiling(tmp_path: Path) -> None:
    study = {"of": "lgbm", "features": {"groups": {"text": GROUPS["text"]}}}
    models = {"lgbm": LGBM, "chance": {"ranker": "random"}}
    config = experiment(models, study=study, data=voted(tmp_path), seeds=[1, 2])
    config["report"] = {"formats": ["html", "md", "json"]}
    result = run_experiment(config, runs=tmp_path, workers=1)
    assert result.report is not None
    (gain,) = result.report.next_gains
    labels = gain.labels
    assert labels is not None
    tables = {(run.record.model, run.record.seed): run.per_query for run in result.runs}
    one, other = "ndcg@10: by one judge", "ndcg@10: another judge"
    assert len({tuple(table[other]) for table in tables.values()}) == 1, "it has nothing to do with the model"
    assert labels.mean == pytest.approx(tables["lgbm", 1][other].mean())
    assert labels.ci_low < labels.mean < labels.ci_high
    assert labels.n_queries == 40
    pairs = {pair.model: pair for pair in labels.models}
    assert set(pairs) == {"lgbm", "chance"}, "the models that are tested, without the study's"
    means = [tables["lgbm", seed][one].mean() for seed in (1, 2)]
    assert pairs["lgbm"].model_mean == pytest.approx(np.mean(means))
    assert pairs["lgbm"].difference == pytest.approx(np.mean(means) - labels.mean)
    assert pairs["lgbm"].includes_seeds
    assert pairs["chance"].difference < pairs["lgbm"].difference
    low, high = (f"{end:+.4f}" for end in (pairs["lgbm"].ci_low, pairs["lgbm"].ci_high))
    sentence = f"the ceiling of these labels is ndcg@10 {labels.mean:.4f} ({labels.ci_low:.4f} to {labels.ci_high:.4f})"
    assert answer(gain).endswith(f"; {sentence}, the model {low} to {high} from it.")
    (entry,) = json.loads((result.folder / "report" / "report.json").read_text())["next_gain"]
    assert entry["study"]["labels"]["mean"] == labels.mean
    assert [pair["model"] for pair in entry["study"]["labels"]["models"]] == [
        pair.model for pair in labels.models
    ]
    page = (result.folder / "report" / "report.md").read_text()
    assert f"The ceiling that judges' disagreement sets: ndcg@10 {labels.mean:.4f}" in page
    assert "Krippendorff's alpha" in page
    assert sentence in " ".join(render(result.report).split())
    assert "label_ceiling" in (result.folder / "report" / "report.html").read_text()
    assert document(stored_data([result.folder]))["next_gain"] == document(result.report)["next_gain"]
    # the study does not cut the queries by these columns
    assert not any("judge" in part.attribute for part in result.report.slices)
