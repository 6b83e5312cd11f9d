"""Identities of version 1, by 0de6e7fe: who renames what they are made of would have every stored run trained again.

The models need no library, whose versions are part of other identities.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ltr_harness.experiment.experiment import read
from ltr_harness.experiment.job import list_tasks

EXPERIMENT: dict[str, Any] = {
    "name": "x",
    "seeds": [1],
    "data": {
        "reader": "synthetic",
        "splits": {"train": "train", "valid": "valid", "test": "test"},
        "n_queries": {"train": 40, "valid": 20, "test": 24},
        "n_features": 12,
        "seed": 3,
    },
    "metrics": {"report": ["ndcg"], "cutoffs": [10], "primary": "ndcg@10"},
    "models": {
        "lin": {"ranker": "linear", "weights": {"match_1": 1}},
        "feat": {"ranker": "feature", "feature": "match_1"},
        # its weights are chosen on validation data, by a metric that is part of the identity
        "mix": {"ranker": "blend", "of": ["lin", "feat"], "how": "ranks"},
    },
}


def test_identities_stay_from_version_to_version(tmp_path: Path) -> None:
    tasks = list_tasks(read(EXPERIMENT, runs=tmp_path)).tasks
    assert [task.folder.name for task in tasks] == [
        "lin--all--s1--8c0c59810df2",
        "feat--all--s1--fbe05998fe6c",
        "mix--all--s1--998b9a126edd",
    ]
