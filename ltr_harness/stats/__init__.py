"""Arrays in, numbers out: how sure one can be of a mean, and of a difference between two rankers.

This package knows nothing of runs, models or metrics. Everywhere, rows are queries and columns are
whatever is tested side by side (model pairs x metrics); NaN is a query that is undefined there: it is left
out of its column, never of the others.

=====================  ======================================================================
concept                file
=====================  ======================================================================
contribution           ``contributions``: what each independent unit adds to a mean, its error and skewness
statistic, reference   ``reference``: the studentised mean without skewness, and sign flips
family                 ``families``: p-values, intervals, equivalence, detectable differences
strict test            ``betting``: bounded values, every distribution and every n
seeds                  ``seeds``: agreement over seeds, methods over queries and seeds
cheap labels           ``prediction_powered``
power                  ``power``
options                ``method``
always-valid sequence  ``sequences``
periods, windows       ``two_samples``, ``between_windows``, ``several_samples``, ``corrections``
adjustment for mix     ``adjustment``, ``decomposition``
drift                  ``drift``: PSI with its threshold, Jensen-Shannon, Kolmogorov-Smirnov
=====================  ======================================================================

Underneath: ``moments`` (n, mean, sd, skewness per column), ``resampling`` (the seeded draws, shared by all
columns and exact, so that the same seed gives the same p-value on any machine and number of threads).
"""
