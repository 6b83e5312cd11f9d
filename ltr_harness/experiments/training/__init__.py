"""Experiments: plan, train what is missing, compare, report."""
