"""Arrays in, numbers out: how sure one can be of a mean, and of a difference between two rankers.

This package knows nothing of runs, models or metrics. Everywhere, rows are queries and columns are whatever is tested
side by side (model pairs x metrics); NaN is a query that is undefined there: it is left out of its column alone.
`families` is where a comparison begins; formulas and sources are in ``docs/statistics-in-depth.md``.
"""
