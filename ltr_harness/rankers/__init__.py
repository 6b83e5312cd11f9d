"""The rankers: one file each, one line in `RANKERS` each."""

from ltr_harness._util.catalog import Catalog
from ltr_harness.rankers.ranker import FittedModel as FittedModel
from ltr_harness.rankers.ranker import Ranker as Ranker
from ltr_harness.rankers.ranker import Training as Training
from ltr_harness.rankers.ranker import TrainingFacts as TrainingFacts

RANKERS = {
    "blend": "ltr_harness.rankers.blend:BlendRanker",
    "catboost": "ltr_harness.rankers.catboost:CatBoostRanker",
    "feature": "ltr_harness.rankers.feature:FeatureRanker",
    "lightgbm": "ltr_harness.rankers.lightgbm:LightGBMRanker",
    "linear": "ltr_harness.rankers.linear:LinearRanker",
    "random": "ltr_harness.rankers.random:RandomRanker",
    "scores": "ltr_harness.rankers.scores:ScoresRanker",
    "sklearn": "ltr_harness.rankers.sklearn:SklearnRanker",
    "xgboost": "ltr_harness.rankers.xgboost:XGBoostRanker",
}

# What does not look like the library that it means; LambdaMART is an objective of several.
_SYNONYMS = dict.fromkeys(("gbm", "lambdamart", "lambdarank", "lgb"), "lightgbm")

catalog = Catalog("ranker", RANKERS, "ltr_harness.rankers", "ltr_harness.models:Ranker", synonyms=_SYNONYMS)

__all__ = ["RANKERS", "FittedModel", "Ranker", "Training", "TrainingFacts", "catalog"]
