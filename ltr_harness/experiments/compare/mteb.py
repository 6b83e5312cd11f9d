"""A model's results of MTEB, one file for each task: what a comparison with tasks for queries takes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field, FiniteFloat

from ltr_harness._util.stored import read_stored
from ltr_harness._util.text import count_of, shortened
from ltr_harness.comparison.comparability import FOREIGN
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.errors import Caution, DataError, Problem

_META = "model_meta.json"
_SCORE = FOREIGN + "main_score"
_EXPECTED = (
    "{task_name, dataset_revision, scores: {split: [{hf_subset, main_score}]}}, as of MTEB 1.11 and newer"
)


class _Subset(BaseModel):
    hf_subset: str
    main_score: FiniteFloat


class _Result(BaseModel):
    task_name: str
    dataset_revision: str
    scores: Annotated[dict[str, Annotated[list[_Subset], Field(min_length=1)]], Field(min_length=1)]

    @property
    def task(self) -> str:
        """The task with all that must be equal: a newer data set, or more languages, are another question."""
        parts = sorted(f"{split}/{one.hf_subset}" for split, each in self.scores.items() for one in each)
        total = f" ({len(parts)})" if len(parts) > 3 else ""
        return f"{self.task_name}@{self.dataset_revision[:7]} {shortened(parts, 3)}{total}"


class _Model(BaseModel):
    name: str | None = None


def results_in(folder: Path) -> list[Path]:
    """The files of results of a model, or of a revision of it; none where MTEB did not write the folder."""
    revisions = sorted(path.parent for path in [*folder.glob(_META), *folder.glob(f"*/{_META}")])
    if len(revisions) > 1:
        found = f"holds results of MTEB of several revisions: {shortened([one.name for one in revisions], 3)}"
        raise DataError.at(folder, found, "one folder for each model")
    return sorted(file for one in revisions for file in one.glob("*.json") if file.name != _META)


def from_results(files: Sequence[Path]) -> tuple[SystemResult, Caution]:
    """The model, with the main score of each task, the mean over splits and subsets as MTEB has it; and a caution."""
    problems, scores = [], {}
    folder = files[0].parent
    for file in files:
        try:
            result = read_stored(_Result, folder, file.name)
        except (ValueError, OSError) as problem:
            problems.append(Problem(str(file), f"is not a result of MTEB: {problem}", _EXPECTED))
            continue
        if result.task in scores:
            problems.append(Problem(str(file), f"has {result.task} again", "one file for each task"))
        scores[result.task] = np.mean([one.main_score for each in result.scores.values() for one in each])
    try:
        name = read_stored(_Model, folder, _META).name or folder.name
    except (ValueError, OSError) as problem:
        problems.append(Problem(str(folder / _META), f"is not a model of MTEB: {problem}", "its name"))
    DataError.refuse(problems)
    text = f"main_score of {count_of(len(scores), 'task')} of MTEB; each stands for a query below"
    values = {_SCORE: np.array([[*scores.values()]])}
    system = SystemResult(name, np.array([*scores]), values, ("1",), {_SCORE: True})
    return system, Caution("tasks-as-queries", "note", text, place=name)
