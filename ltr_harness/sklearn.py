"""The harness"s metrics and folds in scikit-learn: `cross_val_score`, `GridSearchCV` and whatever takes a scorer."""

from ltr_harness.integrations.sklearn import QueryKFold, flaml_metric, scorer

__all__ = ["QueryKFold", "flaml_metric", "scorer"]
