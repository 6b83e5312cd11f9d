"""The same small rankings through every tool, measured once with the tools themselves, to the four digits printed.

Beside the live oracles this holds the presets of tools that no package index has (RankLib, gdeval), and every
corner in one place: ties, lists shorter than K, more relevant documents than K, no relevant document, scores that
differ by less than float32 can tell, infinities.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ltr_harness import evaluate
from ltr_harness.metrics.core.presets import PRESETS

INF = np.inf
# name: labels, scores; documents are d0, d1, … in the order given
CASES: dict[str, tuple[list[float], list[float]]] = {
    "plain": ([0, 3, 1, 2, 0, 4], [6, 5, 4, 3, 2, 1]),
    "all tied": ([0, 3, 1, 0], [1, 1, 1, 1]),
    "some tied": ([1, 0, 2, 0, 4], [2, 1, 1, 1, 0.5]),
    "nothing relevant": ([0, 0, 0], [3, 2, 1]),
    "short": ([1, 2], [2, 1]),
    "more than K": ([1, 1, 1, 0, 1, 1, 1], [7, 6, 5, 4, 3, 2, 1]),
    "below K": ([0, 0, 0, 0, 0, 1, 1], [7, 6, 5, 4, 3, 2, 1]),
    "grade 30": ([0, 30, 5], [3, 2, 1]),
    "one row": ([2], [1]),
    "negative scores": ([0, 2, 1], [-3, -2, -1]),
    "close scores": ([0, 1], [1, 1 + 1e-9]),
    "infinite scores": ([1, 0, 2], [INF, 0, -INF]),
}
# - where the tool refuses the case or, like ranx, leaves the order of ties to chance
MEASURED = {
    "ndcg(as=gdeval)@5": ".2908 .5413 .4774 0 .7967 .8539 0 - 1 .7967 1 .6885",
    "ndcg(as=lightgbm)@5": ".2908 .6443 .4774 1 .7967 .8539 0 .6309 1 .7967 1 .6885",
    "ndcg(as=xgboost)@5": ".2908 .6443 .4774 1 .7967 .8539 0 .6309 1 .7967 .6309 .6885",
    "ndcg(as=xgboost,empty=zero)@5": ".2908 .6443 .4774 0 .7967 .8539 0 .6309 1 .7967 .6309 .6885",  # ndcg@5-
    "ndcg(as=catboost,gain=exp)@5": ".2908 .4606 .4654 1 .7967 .8539 0 .6309 1 .7967 1 .6885",
    "ndcg(as=ranklib)@5": ".2908 .6443 .4774 0 .7967 .8539 0 .6309 1 .7967 1 .6885",
    "ndcg(as=ranx,gain=exp)@5": ".2908 - - 0 .7967 .8539 0 .6309 1 .7967 1 .6885",
    "ndcg(as=sklearn,gain=exp)@5": ".2908 .6714 .4809 0 .7967 .8539 0 .6309 - .7967 1 -",
    "ndcg(as=trec_eval)@5": ".4443 .5869 .6157 0 .8597 .8539 0 .6463 1 .8597 1 .7602",
    "ndcg(as=ranx)@5": ".4443 - - 0 .8597 .8539 0 .6463 1 .8597 1 .7602",
    "ndcg(as=sklearn)@5": ".4443 .7055 .6228 0 .8597 .8539 0 .6463 - .8597 1 -",
    "ndcg(as=xgboost,gain=linear)@5": ".4443 .6590 .6157 1 .8597 .8539 0 .6463 1 .8597 .6309 .7602",
    "ndcg(as=catboost)@5": ".4443 .4935 .5916 1 .8597 .8539 0 .6463 1 .8597 1 .7602",
    "map(as=trec_eval)@5": ".4792 .5833 .7556 0 1 .6333 0 .5833 1 1 1 .8333",
    "map(as=ranx)@5": ".4792 - - 0 1 .6333 0 .5833 1 1 1 .8333",
    "map(as=lightgbm)@5": ".4792 .5833 .7556 1 1 .7600 0 .5833 1 1 1 .8333",
    "map(as=xgboost)@5": ".4792 .5833 .7556 1 1 .7600 0 .5833 1 1 .5 .8333",
    "map(as=catboost)@5": ".4792 .4167 .7000 0 1 .7600 0 .5833 1 1 1 .8333",
    "map(as=ranklib)": ".6458 .5833 .7556 0 1 .9151 .2262 .5833 1 1 1 .8333",
    "mrr(as=trec_eval)": ".5 .5 1 0 1 1 .1667 .5 1 1 1 1",
    "mrr(as=ranx)@5": ".5 - - 0 1 1 0 .5 1 1 1 1",
    "mrr(as=catboost)@5": ".5 .3333 1 0 1 1 0 .5 1 1 1 1",
    "mrr(as=ranklib)@5": ".5 .5 1 0 1 1 0 .5 1 1 1 1",
    "err(as=gdeval)@5": ".2552 .1680 .2639 0 .1504 .1204 0 - .1875 .1504 .0625 .1211",
    "err(as=catboost,max_grade=4,stop=exp)@5": ".2552 .1234 .2493 0 .1504 .1204 0 - .1875 .1504 .0625 .1211",
    "err(as=ranklib)@5": ".2552 .2305 .2639 0 .1504 .1204 0 - .1875 .1504 .0625 .1211",
    "precision(as=trec_eval)@5": ".6 .4 .6 0 .4 .8 0 .4 .2 .4 .2 .4",
    "precision(as=ranx)@5": ".6 - - 0 .4 .8 0 .4 .2 .4 .2 .4",
    "precision(as=xgboost)@5": ".6 .5 .6 0 1 .8 0 .6667 1 .6667 .5 .6667",
    "precision(as=catboost)@5": ".6 .5 .6 0 1 .8 0 .6667 1 .6667 .5 .6667",
    "precision(as=ranklib)@5": ".6 .5 .6 0 1 .8 0 .6667 1 .6667 .5 .6667",
    "rbp(p=0.8,empty=zero,ties=id)": ".4559 .2880 .4099 0 .3600 .6879 .1180 .2880 .2 .3600 .2 .3280",  # ir-measures
}


OF_CASES = dict(zip(CASES, zip(*map(str.split, MEASURED.values()), strict=True), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_what_the_tools_printed(case: str) -> None:
    labels, scores = CASES[case]
    printed = dict(zip(MEASURED, OF_CASES[case], strict=True))
    measured = {metric: value for metric, value in printed.items() if value != "-"}
    ids = [f"d{row:04}" for row in range(len(labels))]
    ev = evaluate(labels, scores, group_sizes=[len(labels)], metrics=[*measured], document_ids=ids)
    for metric, value in measured.items():
        # gdeval drops a query without relevant documents; the table shows it as 0
        found = float(np.nan_to_num(ev[metric].per_query[0]))
        assert found == pytest.approx(float(value), abs=5.1e-5), metric


@pytest.mark.long
def test_every_preset_is_held_to_its_tool_somewhere() -> None:
    otherwise = {
        # DCG is what NDCG is a share of: where the tool's NDCG is held, so are its gains, discounts and ties
        ("trec_eval", "dcg"),
        ("ranklib", "dcg"),
        ("sklearn", "dcg"),  # the name of the metric is a parameter there
        ("trec_eval", "n_relevant"),  # as num_rel, without conventions
    }
    tests = ("test_same_inputs.py", "test_oracles.py", "test_references.py", "test_subtopics.py")
    texts = "".join((Path(__file__).parent / name).read_text() for name in tests)
    pairs = {(tool, metric) for tool, metrics in PRESETS.items() for metric in metrics}
    held = {(tool, metric) for tool, metric in pairs if re.search(rf"\b{metric}\(as={tool}\b", texts)}
    assert not pairs - held - otherwise
