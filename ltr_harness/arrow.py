"""Evaluation of Arrow batches for whoever owns the data: Spark, Ray, Dask, DuckDB; its results put together."""

from ltr_harness.metrics.arrow import means, merge, per_query, per_query_of

__all__ = ["means", "merge", "per_query", "per_query_of"]
