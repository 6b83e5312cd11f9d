"""Why a metric has this value: the arithmetic of one query, step by step, and what other tools would say."""
