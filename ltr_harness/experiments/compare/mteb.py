"""A model's results of MTEB, one file for each task, as a system whose queries are tasks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, FiniteFloat

from ltr_harness._util.stored import read_stored
from ltr_harness._util.text import count_of, shortened
from ltr_harness.comparison.comparability import FOREIGN
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.errors import Caution, DataError, Problem

_META = "model_meta.json"
_COPIED = "external"
_SCORE = FOREIGN + "main_score"
_EXPECTED = (
    "{task_name, dataset_revision, scores: {split: [{hf_subset, main_score}]}}, as of MTEB 1.11 and newer"
)


def _none_if_nan(value: object) -> object:
    return None if value != value else value


class _Subset(BaseModel):
    hf_subset: str
    # None, or NaN in the file, of a subset that failed
    main_score: Annotated[FiniteFloat | None, BeforeValidator(_none_if_nan)] = None


class _TaskResult(BaseModel):
    task_name: str
    dataset_revision: str
    scores: Annotated[dict[str, Annotated[list[_Subset], Field(min_length=1)]], Field(min_length=1)]

    @property
    def task(self) -> str:
        """The task with all that must be equal: a newer data set, or more languages, are another question."""
        parts = sorted(
            f"{split}/{subset.hf_subset}" for split, subsets in self.scores.items() for subset in subsets
        )
        total = f" ({len(parts)})" if len(parts) > 3 else ""
        return f"{self.task_name}@{self.dataset_revision[:7]} {shortened(parts, 3)}{total}"

    @property
    def mean_score(self) -> float:
        """The mean over splits and subsets; NaN where one has no score."""
        each = [subset.main_score for subsets in self.scores.values() for subset in subsets]
        return float(np.mean(np.array(each, dtype=np.float64)))


class _Model(BaseModel):
    name: str | None = None


def results_in(folder: Path) -> list[Path]:
    """Return the files of results of a model, or of a revision of it; none where MTEB did not write the folder."""
    revisions = sorted(path.parent for path in [*folder.glob(_META), *folder.glob(f"*/{_META}")])
    if len(revisions) > 1:  # what was copied from papers stands beside what was measured
        revisions = [revision for revision in revisions if revision.name != _COPIED]
    if len(revisions) > 1:
        found = f"holds results of MTEB of several revisions: {shortened([revision.name for revision in revisions], 3)}"
        raise DataError.at(folder, found, "one folder for each model")
    return sorted(file for revision in revisions for file in revision.glob("*.json") if file.name != _META)


def from_results(files: Sequence[Path]) -> tuple[SystemResult, Caution]:
    """Return the model, with each task's main score, as in MTEB the mean over splits and subsets; and a caution."""
    problems, scores = [], {}
    folder = files[0].parent
    for file in files:
        try:
            result = read_stored(_TaskResult, folder, file.name)
        except (ValueError, OSError) as problem:
            problems.append(Problem(str(file), f"is not a result of MTEB: {problem}", _EXPECTED))
            continue
        if result.task in scores:
            problems.append(Problem(str(file), f"has {result.task} again", "one file for each task"))
        scores[result.task] = result.mean_score
    try:
        name = read_stored(_Model, folder, _META).name or folder.name
    except (ValueError, OSError) as problem:
        problems.append(Problem(str(folder / _META), f"is not a model of MTEB: {problem}", "its name"))
    DataError.refuse(problems)
    complete = {task: score for task, score in scores.items() if np.isfinite(score)}
    incomplete = [task for task in scores if task not in complete]
    if not complete:
        raise DataError.at(folder, "has no task with all its scores", _EXPECTED)
    text = f"main_score of {count_of(len(complete), 'task')} of MTEB; each stands for a query below"
    if incomplete:
        text += f"; without a score of some subset, left out: {shortened(incomplete, 3)}"
    values = {_SCORE: np.array([[*complete.values()]])}
    system = SystemResult(name, np.array([*complete]), values, ("1",), {_SCORE: True})
    return system, Caution("tasks-as-queries", "note", text, place=name)
