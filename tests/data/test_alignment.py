"""Columns of pandas with rows in different orders are refused by every function of several arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.data.judgments import Judgments
from ltr_harness.data.queries import QueryGroups
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.errors import DataError
from ltr_harness.metrics import bind, parse_metric
from ltr_harness.metrics.evaluation import evaluate
from ltr_harness.sklearn import QueryKFold, scorer
from tests.conftest import named_case

ROWS = pd.DataFrame(
    {
        "query": ["b", "b", "a", "a"],
        "label": [1, 0, 2, 0],
        "score": [0.4, 0.1, 0.9, 0.2],
        "doc": list("wxyz"),
    },
    index=list("klmn"),
)
SORTED = ROWS.sort_values("score")
LABEL, SCORE, QUERY, DOC = (ROWS[name] for name in ("label", "score", "query", "doc"))
GROUPS = QueryGroups.from_sizes([2, 2], ids=["b", "a"])
FLAGS = LABEL >= 0


class First:
    """Rank by the first column."""

    def predict(self, X: Any) -> Any:
        return np.asarray(X)[:, 0]


REFUSED: dict[str, Callable[[], Any]] = {
    "scores": lambda: evaluate(LABEL, SORTED["score"], ["ndcg"], query_ids=QUERY),
    "scores by sizes": lambda: evaluate(LABEL, SORTED["score"], ["ndcg"], group_sizes=[2, 2]),
    "query ids": lambda: evaluate(LABEL, SCORE, ["ndcg"], query_ids=SORTED["query"]),
    "ids": lambda: evaluate(LABEL, SCORE, ["ndcg"], query_ids=QUERY, document_ids=SORTED["doc"]),
    "judged": lambda: evaluate(LABEL, SCORE, ["ndcg"], query_ids=QUERY, judged=FLAGS[::-1]),
    "retrieved": lambda: evaluate(LABEL, SCORE, ["ndcg"], query_ids=QUERY, retrieved=FLAGS[::-1]),
    "subtopics": lambda: evaluate(LABEL, SCORE, ["ndcg"], query_ids=QUERY, subtopics=SORTED[["label"]]),
    "numbers": lambda: evaluate(
        LABEL.reset_index(drop=True), SCORE.set_axis([1, 0, 2, 3]), ["mrr"], group_sizes=[4]
    ),
    "other labels": lambda: evaluate(LABEL, SCORE.set_axis([7, 8, 9, 10]), ["mrr"], group_sizes=[4]),
    "weights": lambda: evaluate(
        LABEL, SCORE, ["mrr"], query_ids=QUERY, query_weights=ROWS.groupby("query")["score"].mean()
    ),
    "weights and sizes": lambda: evaluate(
        LABEL,
        SCORE,
        ["mrr"],
        group_sizes=pd.Series([2, 2], ["b", "a"]),
        query_weights=pd.Series([1, 2], ["a", "b"]),
    ),
    "judgments": lambda: Judgments.checked(LABEL, GROUPS, document_ids=SORTED["doc"]),
    "judgments' weights": lambda: Judgments.checked(
        LABEL, GROUPS, query_weights=pd.Series([1, 2], ["a", "b"])
    ),
    "sizes": lambda: QueryGroups.from_sizes(pd.Series([2, 2], ["b", "a"]), pd.Series(["a", "b"], ["a", "b"])),
    "bound": lambda: bind("mrr", Judgments.checked(LABEL, GROUPS)).per_query(SCORE, FLAGS[::-1]),
    "explain": lambda: parse_metric("ndcg").explain(LABEL, SORTED["score"]),
    "arrays": lambda: from_arrays(ROWS[["score"]], SORTED["label"], query_ids=QUERY),
    "arrays' weights": lambda: from_arrays(ROWS[["score"]], LABEL, query_ids=QUERY, weights=SORTED["label"]),
    "arrays' attributes": lambda: from_arrays(
        ROWS[["score"]], LABEL, query_ids=QUERY, attributes={"of": SORTED["query"]}
    ),
    "scorer": lambda: scorer("mrr")(First(), ROWS[["score"]], SORTED["label"], qid=QUERY),
    "folds": lambda: list(QueryKFold(2).split(ROWS[["score"]], groups=SORTED["query"])),
}


def test_refused() -> None:
    for name, call in REFUSED.items():
        with named_case(name), pytest.raises(DataError, match=r"to_numpy\(\)"):
            call()


def test_the_message_names_both_and_the_first_row() -> None:
    with pytest.raises(DataError) as caught:
        evaluate(LABEL, SORTED["score"], ["ndcg"], query_ids=QUERY)
    assert str(caught.value) == (
        "labels and scores have different indexes of pandas: 'k' and 'l' in row 0; expected the same rows in the same "
        "order; align them, as in scores.loc[labels.index], or pass .to_numpy() to take them by place"
    )


TAKEN: dict[str, Callable[[], Any]] = {
    "one index": lambda: evaluate(LABEL, SCORE, ["ndcg"], query_ids=QUERY, document_ids=DOC),
    "an equal index": lambda: evaluate(LABEL, SCORE.copy(), ["ndcg"], query_ids=QUERY.copy()),
    "a default index": lambda: evaluate(
        LABEL, pd.Series(SCORE.to_numpy()), ["ndcg"], query_ids=QUERY.tolist()
    ),
    "a part of the rows": lambda: evaluate(
        pd.Series([0, 1, 0, 1])[[1, 3]], pd.Series([0.5, 0.1]), ["ndcg"], group_sizes=[2]
    ),
    "arrays": lambda: evaluate(LABEL, SORTED["score"].to_numpy(), ["ndcg"], query_ids=QUERY),
    "weights in order": lambda: evaluate(
        LABEL,
        SCORE,
        ["mrr"],
        query_ids=QUERY,
        query_weights=ROWS.groupby("query", sort=False)["score"].mean(),
    ),
    "weights by place": lambda: evaluate(
        LABEL, SCORE, ["mrr"], query_ids=QUERY, query_weights=ROWS.drop_duplicates("query")["score"]
    ),
    "sorted queries": lambda: evaluate(
        LABEL, SCORE, ["mrr"], group_sizes=pd.Series([2, 2], [1, 0]), query_weights=pd.Series([1, 2], [1, 0])
    ),
}


@pytest.mark.parametrize("call", TAKEN.values(), ids=TAKEN)
def test_taken(call: Callable[[], Any]) -> None:
    call()


LOADING = """
import sys, threading, time
import numpy as np
from ltr_harness.data.alignment import refuse_unaligned

loading = threading.Thread(target=__import__, args=("pandas",))
loading.start()
while "pandas" not in sys.modules:
    time.sleep(0.001)
refuse_unaligned({"scores": np.zeros(2)})
print(hasattr(sys.modules["pandas"], "Series"))
"""


@pytest.mark.long
def test_pandas_that_another_thread_is_loading_is_waited_for(tmp_path: Path) -> None:
    """As a report's libraries are loaded while models are trained. Here pandas is two classes that come late."""
    (tmp_path / "pandas.py").write_text(
        "import time\ntime.sleep(0.3)\nclass Series: pass\nclass DataFrame: pass\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", LOADING],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
