"""From a log to queries: reading in batches, ranks, rows, and whether the log is fit to be judged."""
