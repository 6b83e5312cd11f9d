"""Conformance suites for what others build: inherit one in a test module, name your class, run pytest."""

from __future__ import annotations

from ltr_harness.testing.metric_suite import MetricSuite as MetricSuite
from ltr_harness.testing.ranker_suite import RankerSuite as RankerSuite

__all__ = ["MetricSuite", "RankerSuite"]
