"""Results and predictions of MTEB: models with tasks for queries, and rankings by the numbers that MTEB has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ltr_harness import compare, evaluate_runs
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.errors import DataError, NotComparableError

TASKS = [f"Task{number:02}" for number in range(30)]
SCORE = "foreign:main_score"

Write = Callable[..., Path]


def result(
    task: str, scores: dict[str, list[tuple[str, float]]], revision: str = "abcdef0123"
) -> dict[str, Any]:
    """A file as MTEB writes it, but for the other scores of each subset."""
    each = {
        split: [{"main_score": one, "hf_subset": subset, "languages": ["eng-Latn"]} for subset, one in parts]
        for split, parts in scores.items()
    }
    return {"dataset_revision": revision, "task_name": task, "mteb_version": "2.26", "scores": each}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_model(model: str, scores: dict[str, Any], revision: str = "r1") -> Path:
        folder = tmp_path / model / revision
        folder.mkdir(parents=True)
        (folder / "model_meta.json").write_text(json.dumps({"name": f"org/{model}", "n_parameters": None}))
        (folder / "run_settings.jsonl").write_text("{}\n")
        for task, value in scores.items():
            content = value if isinstance(value, dict) else result(task, {"test": [("default", value)]})
            (folder / f"{task}.json").write_text(json.dumps(content))
        return folder

    return write_model


def draw_scores(seed: int, shift: float) -> dict[str, float]:
    levels = np.random.default_rng(0).uniform(0.2, 0.8, len(TASKS))
    noise = np.random.default_rng(seed).normal(shift, 0.02, len(TASKS))
    return dict(zip(TASKS, (levels + noise).tolist(), strict=True))


def test_models_are_compared_over_tasks(write: Write) -> None:
    scores = {"base": draw_scores(1, 0.0), "near": draw_scores(2, 0.0), "far": draw_scores(3, 0.1)}
    folders = {name: write(name, each) for name, each in scores.items()}
    found = compare(*(folder.parent for folder in folders.values()), ledger=False)
    by_table = [{"query_id": TASKS, "ndcg@10": list(each.values())} for each in scores.values()]
    import pyarrow as pa

    same = compare(
        {f"org/{name}": pa.table(one) for name, one in zip(scores, by_table, strict=True)}, ledger=False
    )
    assert [system.name for system in found.systems] == ["org/base", "org/near", "org/far"]
    for ours, theirs in zip(found.pairs, same.pairs, strict=True):
        assert (ours.difference, ours.p_corrected) == (theirs.difference, theirs.p_corrected)
    assert "org/far: main_score of 30 tasks of MTEB; each stands for a query below" in [
        *map(str, found.cautions)
    ]
    named = compare({"old": folders["base"], "new": folders["near"]}, ledger=False)
    assert [system.name for system in named.systems] == ["old", "new"]


def test_the_command(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(write("base", draw_scores(1, 0.0))), str(write("far", draw_scores(3, 0.1)).parent)]
    assert run_command(cli, ["compare", *folders, "-m", "main_score", "--no-ledger"]) == 0
    assert "org/far is better than org/base by 0.1025" in capsys.readouterr().out


def test_a_score_is_the_mean_over_splits_and_subsets(write: Write) -> None:
    many = {"test": [("en", 0.1), ("de", 0.3)], "dev": [("en", 0.8)]}
    one = write("one", {"A": result("A", many), "B": 0.5})
    [system, _] = compare(one, {"same": one}, ledger=False).systems
    assert system.query_ids.tolist() == ["A@abcdef0 dev/en, test/de, test/en", "B@abcdef0 test/default"]
    assert system.values[SCORE][0].tolist() == pytest.approx([(0.1 + 0.3 + 0.8) / 3, 0.5])


def test_other_tasks_or_data_are_not_compared(write: Write) -> None:
    base = write("base", draw_scores(1, 0.0))
    newer = write(
        "newer", {**draw_scores(2, 0.0), "Task00": result("Task00", {"test": [("default", 0.5)]}, "fedcba")}
    )
    with pytest.raises(NotComparableError, match="'Task00@fedcba test/default'"):
        compare(base, newer, ledger=False)
    both = compare(base, newer, common_queries=True, ledger=False)
    assert both.systems[0].query_ids.size == 29


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "is not a result of MTEB: "),
        (
            '{"task_name": "A"}',
            "is not a result of MTEB: dataset_revision: Field required; expected {task_name, ",
        ),
        (result("A", {}), "is not a result of MTEB: scores: "),
        (result("A", {"test": []}), "is not a result of MTEB: scores.test: "),
        (result("A", {"test": [("default", float("inf"))]}), "main_score: Input should be a finite number"),
        (result("A", {"test": [("default", "high")]}), "main_score: "),  # type: ignore[list-item]
        (result("Task01", {"test": [("default", 0.5)]}), "has Task01@abcdef0 test/default again"),
        ("{", "is not a result of MTEB: Invalid JSON"),
    ],
)
def test_what_is_no_result_is_refused_with_its_file(write: Write, content: Any, said: str) -> None:
    folder = write("base", draw_scores(1, 0.0))
    (folder / "Wrong.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DataError) as refused:
        compare(folder, folder, ledger=False)
    assert str(refused.value).startswith(str(folder / "Wrong.json"))
    assert said in str(refused.value)


def test_folders_that_hold_no_or_several_results(write: Write, tmp_path: Path) -> None:
    folder = write("base", draw_scores(1, 0.0))
    write("base", draw_scores(1, 0.0), "r2")
    with pytest.raises(DataError, match="of several revisions: r1, r2; expected one folder for each model"):
        compare(folder.parent, folder, ledger=False)
    with pytest.raises(DataError, match="contains no run"):
        compare(write("none", {}), folder, ledger=False)
    (folder / "model_meta.json").write_text('{"name": 3}')
    with pytest.raises(DataError, match=r"model_meta\.json: is not a model of MTEB: name: "):
        compare(folder, folder, ledger=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::Warning")
def test_what_mteb_writes(tmp_path: Path) -> None:
    """Its own files of its made-up task: its numbers under its tools' definition, and its main score."""
    mteb = pytest.importorskip("mteb", reason="needs MTEB: pip install mteb")
    from mteb.cache import ResultCache
    from mteb.mocks import MockRetrievalTask

    task = MockRetrievalTask()
    task.load_data()
    model = mteb.get_model("mteb/baseline-random-encoder")
    cache = ResultCache(tmp_path / "cache")
    [done] = mteb.evaluate(model, task, prediction_folder=tmp_path, cache=cache).task_results
    written = json.loads((tmp_path / "MockRetrievalTask_predictions.json").read_text())
    with pytest.raises(DataError, match=r"stands in \['default'\]\['val'\] and in \['default'\]\['test'\]"):
        evaluate_runs({"q1": {"d1": 1}}, tmp_path / "MockRetrievalTask_predictions.json", "mrr")
    for split in ("val", "test"):
        alone = {**written, "default": {split: written["default"][split]}}
        qrels = task.dataset["default"][split]["relevant_docs"]
        metrics = ["ndcg(as=pytrec_eval)@10", "map(as=pytrec_eval)@1"]
        found = evaluate_runs(qrels, alone, metrics)
        assert found.recognised[1].startswith("mteb/baseline-random-encoder: predictions of MTEB ['default']")
        [theirs] = done.scores[split]
        means = found["mteb/baseline-random-encoder"].means
        assert [means[name] for name in metrics] == pytest.approx(
            [theirs["ndcg_at_10"], theirs["map_at_1"]], abs=1e-5
        )
    [folder] = (tmp_path / "cache" / "results").iterdir()
    system = compare(folder, {"same": folder}, ledger=False).systems[0]
    assert system.name == "mteb/baseline-random-encoder"
    assert system.values[SCORE][0].tolist() == pytest.approx([done.get_score()], abs=1e-6)


def test_tasks_without_a_score_are_left_out_with_a_note(write: Write) -> None:
    scores: dict[str, Any] = dict(draw_scores(1, 0.0))
    scores["Hole"] = result("Hole", {"test": [("de", None), ("en", 0.5)]})  # type: ignore[list-item]
    scores["Nan"] = result("Nan", {"test": [("default", float("nan"))]})
    folder = write("base", scores)
    other = write("other", draw_scores(2, 0.0))
    found = compare(folder.parent, other.parent, ledger=False)
    assert found.summary("org/base").n == len(TASKS)
    assert any(
        "without a score of some subset, left out: Hole@abcdef0 test/de, test/en, Nan@" in str(caution)
        for caution in found.cautions
    )


def test_results_from_papers_beside_a_revision_are_skipped(write: Write) -> None:
    folder = write("base", draw_scores(1, 0.0))
    write("base", draw_scores(9, 0.1), revision="external")
    other = write("other", draw_scores(2, 0.0))
    found = compare(folder.parent, other.parent, ledger=False)
    alone = compare(folder, other, ledger=False)
    assert found.summary("org/base").mean == alone.summary("org/base").mean
