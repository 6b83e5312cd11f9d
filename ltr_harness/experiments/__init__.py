"""Experiments: their configuration, their training, the runs it leaves, and what is read from both."""
