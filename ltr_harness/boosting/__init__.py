"""The harness's metrics inside someone's training loop, and one rule that says when to stop it.

`stopping` holds the rule, `watching` applies it, `lightgbm` and `xgboost` connect both to the libraries. Only
the file named after a library imports it: take what you need, such as

    from ltr_harness.boosting.lightgbm import feval, stop_early
    from ltr_harness.boosting.xgboost import Watch, custom_metric
"""

from ltr_harness.boosting.stopping import Stopper, StoppingRule

__all__ = ["Stopper", "StoppingRule"]
