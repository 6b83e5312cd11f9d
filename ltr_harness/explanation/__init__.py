"""Explanation of a metric's value: the arithmetic of one query step by step, and other tools' values."""
