"""Small examples of internals, which a reader can check by hand."""

import numpy as np

from ltr_harness.data.queries import QueryGroups
from ltr_harness.metrics import NDCG
from ltr_harness.models import catboost, lightgbm_parameters, xgboost_parameters
from ltr_harness.models.blend import ranks, z_scores
from ltr_harness.models.dask import cut
from ltr_harness.models.feature import FeatureModel
from ltr_harness.models.linear import LinearModel
from ltr_harness.models.objectives import (
    Optimised,
    loss_problems,
    objective_cautions,
    objective_problems,
    stopping_cautions,
)
from ltr_harness.models.random import RandomModel
from ltr_harness.models.tree_model import safe_feature_names


def test_safe_feature_names() -> None:
    assert safe_feature_names(["bm25", "tf[title]", "tf(title)", "tf title", "tf_title", ""]) == [
        "bm25",
        "tf_title_",
        "tf(title)",
        "tf_title",
        "tf_title_2",
        "feature",
    ]


def test_ranks() -> None:
    assert ranks(np.array([7.0, 9.0, 9.0, 1.0]), QueryGroups.from_sizes([3, 1])).tolist() == [
        0.5,
        2.0,
        2.0,
        0.5,
    ]


def test_z_scores() -> None:
    assert z_scores(np.array([1.0, 3.0, 5.0, 5.0]), QueryGroups.from_sizes([2, 2])).tolist() == [
        -1.0,
        1.0,
        0.0,
        0.0,
    ]


def test_plain_message() -> None:
    assert (
        catboost.plain_message('catboost/libs/options/plain.cpp:511: Unknown option {x} with value "1"')
        == 'Unknown option {x} with value "1"'
    )


def test_cut() -> None:
    assert cut(QueryGroups.from_sizes([5, 1, 1, 1, 8]), 2) == [(0, 4), (4, 5)]


def test_feature_model() -> None:
    model = FeatureModel(feature="price", column=0, n_features=1, ascending=True)
    assert repr(model.score([[2.0], [float("nan")], [1.0]]).tolist()) == "[-2.0, -inf, -1.0]"


def test_plain_message_of_lightgbm_parameters() -> None:
    assert (
        lightgbm_parameters.plain_message(
            "Check failed: (num_leaves) > (1) at /src/config_auto.cpp, line 352 .\n"
        )
        == "it requires num_leaves > 1"
    )


def test_linear_model() -> None:
    model = LinearModel(columns=(0, 1), weights=(2.0, -1.0), centre=(0.0, 1.0), n_features=2)
    assert model.score([[1.0, 3.0], [float("nan"), 1.0]]).tolist() == [0.0, 0.0]


def test_objective_problems() -> None:
    assert " ".join(map(str, objective_problems("LambdaMART", ["rank:map", "rank:ndcg"]))) == (
        "objective: unknown objective 'LambdaMART'; did you mean 'rank:ndcg'? (known: rank:map, rank:ndcg)"
    )


def test_objective_cautions() -> None:
    looks = Optimised("params.lambdarank_truncation_level", 30, "exp")
    assert " ".join(map(str, objective_cautions(looks, NDCG(k=10, gain="linear"), 2))) == (
        "the objective's gains of grades 0 to 2 are 0, 1, 3, those of ndcg(gain=linear)@10 0, 1, 2:"
        " another metric"
    )


def test_stopping_cautions() -> None:
    assert " ".join(map(str, stopping_cautions(NDCG(), NDCG(k=10), 40))) == (
        "stopping.metric: ndcg looks at whole lists, up to 40 documents, and ndcg@10 decides by 10: so its best round"
        " may differ"
    )


def test_loss_problems() -> None:
    assert " ".join(map(str, loss_problems("LambdaMart:metric=MRR;top=10", None))) == (
        "objective: LambdaMart:metric=MRR;top=10: CatBoost ignores top with metric=MRR; leave it out"
    )


def test_random_model() -> None:
    model = RandomModel(seed=1)
    assert bool((model.score(np.zeros((5, 2)))[:3] == model.score(np.zeros((3, 2)))).all())


def test_plain_message_of_xgboost_parameters() -> None:
    assert (
        xgboost_parameters.plain_message(
            "[10:44:01] /map.h:394: Check failed: is_binary: map needs binary labels.\nStack trace:\n…"
        )
        == "map needs binary labels."
    )
