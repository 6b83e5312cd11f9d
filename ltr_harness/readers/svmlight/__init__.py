"""Text of the form `label qid:Q index:value`: reading in chunks, kernels, and messages about bad lines."""
