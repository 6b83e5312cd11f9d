"""Relevance from events: the rule, attribution, grades, the join of an event log, propensities."""
