"""From events to relevance: the rule, attribution, grades, the join of an event log, propensities."""
