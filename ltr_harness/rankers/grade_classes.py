"""McRank, grades as classes and the expected grade as the score: its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.rankers.training import Facts
from ltr_harness.wording import count_of

CLASSES: Final = ("multiclass", "multi:softprob", "MultiClass")
"""Each library's name of the objective."""

_LARGEST = 31


def n_classes(train: RankingDataset) -> int:
    """Number of grades from 0 to the largest training label."""
    return int(train.labels.max()) + 1


def class_problems(objective: str, asked: Mapping[str, bool], facts: Facts | None) -> list[Problem]:
    """Fields that mean nothing to a model of classes, and training labels that are none."""
    why = {
        "monotone": "it would bind the trees of each grade, and not the expected grade",
        "init_model": "only a model of the same grades can be gone on from",
        "data_parallel": "across workers a row has one score",
    }
    refused = [
        Problem(field, f"cannot be combined with the objective {objective}: {reason}", cure="leave it out")
        for field, reason in why.items()
        if asked.get(field)
    ]
    if facts is None:
        return refused
    cure = "map the labels with data.grades, or use squared error"
    if facts.n_fractional:
        found = f"{objective} has a class for each grade; found {count_of(facts.n_fractional, 'fractional label')}"
        refused.append(Problem("objective", found, "integer labels", cure))
    elif facts.max_label > _LARGEST:
        found = f"{objective} grows a tree for each grade; the largest training label is {facts.max_label:g}"
        refused.append(Problem("objective", found, f"grades from 0 to at most {_LARGEST}", cure))
    elif facts.judgments is not None and facts.judgments.labels.min() == facts.max_label:
        found = f"all training labels are {facts.max_label:g}: {objective} has nothing to tell apart"
        refused.append(Problem("objective", found, "at least two grades"))
    return refused


def refuse_shares(is_of_classes: bool) -> None:
    """Refuse contributions of features to the scores of a model of classes."""
    if is_of_classes:
        raise DataError(
            "the score is an expected grade, not a sum over trees, and cannot be divided among features; "
            "`ltr-harness show importance` says which features it needs"
        )
