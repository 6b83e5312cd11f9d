"""Watching a ranker in production: is it still as good as its baseline, and if not, where and why?

The unit of everything is the query, never the row: a log becomes a table of queries once, and every later stage is
arithmetic on that table. docs/maintainers/architecture.md has the files and their topics.
"""

from ltr_harness._util.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)
