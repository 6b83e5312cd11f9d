"""Learning-to-rank evaluation around LightGBM and XGBoost: one definition of a metric everywhere."""

import sys

from ltr_harness._util.lazy import lazy_names
from ltr_harness._util.moved import OldModules

__version__ = "0.2.0"

sys.meta_path.append(OldModules)

__all__, __getattr__, __dir__ = lazy_names(__name__)
__all__ += ["__version__"]
