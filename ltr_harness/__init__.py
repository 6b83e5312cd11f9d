"""Learning-to-rank evaluation around LightGBM and XGBoost: one definition of a metric everywhere."""

from ltr_harness._util.lazy import lazy_names

__version__ = "0.2.0"

__all__, __getattr__, __dir__ = lazy_names(__name__)
__all__ += ["__version__"]
