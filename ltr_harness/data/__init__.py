"""Data sets in memory, and readers of one's own."""

from ltr_harness._util.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
