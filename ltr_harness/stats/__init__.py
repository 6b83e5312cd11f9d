"""Arrays in, numbers out: how sure one can be of a mean, and of a difference between two rankers.

This package knows nothing of runs, models or metrics. Everywhere, rows are queries and columns are
whatever is tested side by side (model pairs x metrics); NaN is a query that is undefined there: it is left
out of its column, never of the others.

=================  ==========================================================================
question           file
=================  ==========================================================================
where is the mean  ``intervals``: t, percentile and BCa bootstrap
are two different  ``paired``: sign flips, paired t, Wilcoxon, sign, bootstrap; effect size …;
                   ``skewness``: where a few queries decide
of many, which     ``corrections``: Holm, BH, Bonferroni, max-T; ``families``: all of it
users, not queries ``units``: cluster-robust means, and two of them apart; ``by_unit``: families of them
looks without end  ``sequences``: p-values and intervals that hold at all times
days that differ   ``between_windows``
chance of the mix  ``adjustment``: regression on what is known of queries, effects of keys
two periods        ``two_samples``: Welch, cluster-robust, over strata; profiles; bounded means
several groups     ``several_samples``: Welch's analysis of variance; chi-squared of their shares
within or mix      ``decomposition``: parts that changed, or only their shares
drift              ``drift``: PSI with its threshold, Jensen-Shannon, Kolmogorov-Smirnov
another seed       ``seeds``: agreement over seeds, methods over queries and seeds; ``over_seeds``: their families
=================  ==========================================================================

Underneath: ``moments`` (n, mean, sd, skewness per column), ``resampling`` (the seeded draws, shared by all
columns and exact, so that the same seed gives the same p-value on any machine and number of threads).
"""
