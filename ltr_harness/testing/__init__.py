"""For the tests of others: conformance suites to inherit, and `assert_not_worse` for a ranker's quality."""

from ltr_harness.testing.metric_suite import MetricSuite as MetricSuite
from ltr_harness.testing.not_worse import assert_not_worse as assert_not_worse
from ltr_harness.testing.ranker_suite import RankerSuite as RankerSuite

__all__ = ["MetricSuite", "RankerSuite", "assert_not_worse"]
