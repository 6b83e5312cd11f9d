"""Compare rankings: verdicts, gates, slices, power, moments and streams."""

from ltr_harness._util.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
