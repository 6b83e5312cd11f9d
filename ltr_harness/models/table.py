"""The table of rankers: a name, and the class behind it; one file each, one line here."""

from ltr_harness._util.catalog import Catalog

RANKERS = {
    "blend": "ltr_harness.models.blend:BlendRanker",
    "catboost": "ltr_harness.models.catboost:CatBoostRanker",
    "feature": "ltr_harness.models.feature:FeatureRanker",
    "lightgbm": "ltr_harness.models.lightgbm:LightGBMRanker",
    "linear": "ltr_harness.models.linear:LinearRanker",
    "position": "ltr_harness.models.position:PositionRanker",
    "random": "ltr_harness.models.random:RandomRanker",
    "scores": "ltr_harness.models.scores:ScoresRanker",
    "sklearn": "ltr_harness.models.sklearn:SklearnRanker",
    "xgboost": "ltr_harness.models.xgboost:XGBoostRanker",
}

# What does not look like the library that it means; LambdaMART is an objective of several.
_SYNONYMS = {
    **dict.fromkeys(("gbm", "lambdamart", "lambdarank", "lgb", "lgbmranker"), "lightgbm"),
    **dict.fromkeys(("xgb", "xgbranker"), "xgboost"),
    **dict.fromkeys(("catboostranker", "cb"), "catboost"),
}

catalog = Catalog("ranker", RANKERS, "ltr_harness.rankers", "ltr_harness.models:Ranker", synonyms=_SYNONYMS)
