"""Our metrics in the libraries' own Dask interfaces, on a real cluster of two processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ltr_harness import evaluate
from ltr_harness.boosting.lightgbm import eval_metric
from ltr_harness.experiment.cluster import Cluster, local_cluster
from ltr_harness.metrics import MAP, MRR, NDCG

pytest.importorskip("dask", reason="needs ltr-harness[dask]")
pytest.importorskip("distributed", reason="needs ltr-harness[dask]")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

METRICS = (NDCG(k=10), MRR(k=5), MAP())


@pytest.fixture(scope="module")
def cluster(quick_workers: None) -> Iterator[Cluster]:
    with local_cluster(2) as started:
        yield started


def halves(split: Any) -> list[tuple[slice, slice]]:
    """Rows and queries of two parts that divide no query: what both libraries ask for."""
    middle = len(split.sizes) // 2
    row = int(split.sizes[:middle].sum())
    return [(slice(0, row), slice(0, middle)), (slice(row, None), slice(middle, None))]


def parts(split: Any) -> tuple[Any, Any, Any]:
    """X, labels and group sizes in two partitions each."""
    import dask.array as da

    def joined(column: Any, which: int) -> Any:
        pieces = [column[part[which]] for part in halves(split)]
        return da.concatenate([da.from_array(piece, chunks=piece.shape) for piece in pieces])

    return joined(split.X, 0), joined(split.labels, 0), joined(split.sizes, 1)


def means(split: Any, scores: Any, rows: slice = slice(None), queries: slice = slice(None)) -> list[float]:
    found = evaluate(split.labels[rows], scores[rows], group_sizes=split.sizes[queries], metrics=METRICS)
    return [found.means[str(metric)] for metric in METRICS]


def test_lightgbm_reports_our_metrics_of_one_workers_part(cluster: Cluster, train: Any, valid: Any) -> None:
    import lightgbm

    X, labels, sizes = parts(train)
    X_valid, labels_valid, sizes_valid = parts(valid)
    ranker = lightgbm.DaskLGBMRanker(
        n_estimators=4, num_leaves=7, min_child_samples=5, metric="None", verbosity=-1, client=cluster.client
    ).fit(
        X,
        labels,
        group=sizes,
        eval_set=[(X_valid, labels_valid)],
        eval_group=[sizes_valid],
        eval_metric=eval_metric(*METRICS),
    )
    scores = ranker.to_local().predict(valid.X)
    reported = [ranker.evals_result_["valid_0"][str(metric)][-1] for metric in METRICS]
    # Dask may give both parts to one worker
    seen = [means(valid, scores), *(means(valid, scores, *part) for part in halves(valid))]
    assert any(np.allclose(reported, values, rtol=0, atol=1e-12) for values in seen)
