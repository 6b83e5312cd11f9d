"""Evaluation of Arrow batches for whoever owns the data: Spark, Ray, Dask, DuckDB; its results put together."""

from ltr_harness.metrics.arrow import judged, means, merge, per_query, per_query_of

__all__ = ["judged", "means", "merge", "per_query", "per_query_of"]
