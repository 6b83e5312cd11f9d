"""The harness's metrics and folds in scikit-learn: `cross_val_score`, `GridSearchCV` and whatever takes a scorer."""

# the two classes were defined here, and pickles of searches name them so
from ltr_harness.integrations.sklearn import FlamlMetric as FlamlMetric
from ltr_harness.integrations.sklearn import QueryKFold, flaml_metric, scorer
from ltr_harness.integrations.sklearn import Scorer as Scorer

__all__ = ["QueryKFold", "flaml_metric", "scorer"]
