"""From a comparison to pages that people open: sections give content, renderers the form."""

from ltr_harness._util.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
