"""The harness's metrics inside someone's training loop, and one rule that says when to stop it.

Only the files named after a library import it, such as `from ltr_harness.boosting.lightgbm import feval, stop_early`.
"""

from ltr_harness.boosting.stopping import Stopper, StoppingRule

__all__ = ["Stopper", "StoppingRule"]
