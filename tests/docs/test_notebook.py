"""docs/notebook.ipynb runs from top to bottom and ends in a comparison that shows itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebook.ipynb"


EXPERIMENT = """
import lightgbm  # as whoever trains in this notebook has done
from ltr_harness import run_experiment

result = run_experiment(
    {
        "name": "in-a-notebook",
        "data": {"reader": "synthetic", "n_queries": {"train": 30, "valid": 20, "test": 20}, "n_features": 12},
        "stopping": {"metric": "ndcg@10", "patience": 2, "max_rounds": 4},
        "models": {"lgbm": {"ranker": "lightgbm", "objective": "lambdarank"}, "random": {"ranker": "random"}},
        "report": {"formats": ["json"]},
    },
    runs="runs",
)
result
"""


@pytest.fixture(scope="module")
def with_experiment(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook with a cell at its end that runs an experiment, executed."""
    nbformat = pytest.importorskip("nbformat", reason="needs the extra docs: pip install '.[docs]'")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra docs: pip install '.[docs]'")
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert text.count("patience=30") == 2
    notebook = nbformat.reads(text.replace("patience=30", "patience=5"), as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(EXPERIMENT))
    folder = tmp_path_factory.mktemp("notebook")
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


@pytest.fixture(scope="module")
def without_experiment(with_experiment: Any) -> Any:
    """The notebook alone."""
    import nbformat

    return nbformat.v4.new_notebook(cells=with_experiment.cells[:-1])


def cell_outputs(notebook: Any, containing: str) -> dict[str, str]:
    """Return the outputs of the cell with that text, by kind."""
    (cell,) = (cell for cell in notebook.cells if cell.cell_type == "code" and containing in cell.source)
    return {kind: text for output in cell.outputs for kind, text in output.get("data", {}).items()}


def test_the_metric_says_what_it_is(without_experiment: Any) -> None:
    assert "'ndcg@10'" in cell_outputs(without_experiment, "NDCG.for_tool")["text/plain"]
    assert (
        "'ndcg(empty=one,ties=stable)@10'" in cell_outputs(without_experiment, "NDCG.for_tool")["text/plain"]
    )


def test_the_comparison_shows_itself_as_a_table(without_experiment: Any) -> None:
    table = cell_outputs(without_experiment, 'compare(evaluations, baseline="one feature")')["text/html"]
    assert "<table" in table
    for word in ("lightgbm", "xgboost", "one feature", "ndcg@10", "better"):
        assert word in table


def test_nothing_is_printed_that_was_not_asked_for(without_experiment: Any) -> None:
    for cell in without_experiment.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                assert cell.source.startswith("print("), output.text


def test_an_experiment_says_how_far_it_is_and_the_result_is_a_table(with_experiment: Any) -> None:
    outputs = with_experiment.cells[-1].outputs
    said = " ".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)
    assert "runs: 2 to train" in said.replace("2 runs", "runs")
    assert "[2/2]" in said
    tables = [output for output in outputs if output.output_type == "execute_result"]
    assert "<table" in tables[0]["data"]["text/html"]


def test_outputs_are_not_kept_in_the_file() -> None:
    assert '"output_type"' not in NOTEBOOK.read_text(encoding="utf-8")
