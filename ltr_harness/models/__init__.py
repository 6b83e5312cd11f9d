"""Rankers of one's own, and the forms that models are exported in."""

from ltr_harness._util.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
