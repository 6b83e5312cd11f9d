"""The metrics: one file each, one line in `table.METRICS` and in the stub each."""

from ltr_harness._util.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
