"""Arrays in, numbers out: how sure one can be of a mean, and of a difference between two rankers.

Rows are queries, columns whatever is tested side by side; a NaN is left out of its column alone. Formulas and sources
are in ``docs/maintainers/statistics-in-depth.md``.
"""
