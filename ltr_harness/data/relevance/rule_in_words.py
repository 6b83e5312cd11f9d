"""The rule of relevance as a sentence: apart from what computes labels, so that a report need not load it."""

from ltr_harness.data.relevance.rule import Dwell, Propensity, Relevance


def describe(rule: Relevance) -> str:
    """Return the rule in one sentence, for the first lines of the report."""
    clauses = [_grade_in_words(rule)]
    if rule.dwell:
        clauses.append(_dwell_in_words(rule.dwell))
    if rule.negative:
        clauses.append(f"{', '.join(rule.negative)} makes a row worth 0")
    if rule.count == "log1p" and rule.from_events:
        clauses.append("repeated events count log(1 + n)")
    if rule.unseen != "zero":
        clauses.append("rows below the last one with an event are not judged")
    return "; ".join(clauses)


def _grade_in_words(rule: Relevance) -> str:
    by_weight = sorted(rule.events.items(), key=lambda event: event[1])  # records sort by name
    weights = ", ".join(f"{name} {weight:g}" for name, weight in by_weight)
    positive = ", ".join(rule.positive or rule.events)
    highest = f"the highest weight among the events that happened ({weights})"
    match rule.chosen:
        case "label":
            return f"the grade in column {rule.label}"
        case "quantiles":
            top = (rule.bins or 1) - 1
            return f"grades 0 to {top} by the quantile of {rule.label} within the query"
        case "match":
            return f"1 where {rule.prediction} equals {rule.label} and is {positive}"
        case "sum":
            return f"the number of events that happened among {positive}"
        case "weighted_sum":
            text = f"the sum of the weights of the events that happened ({weights})"
            return f"{text}, at most {rule.clip:g}" if rule.clip else text
        case "ips":
            return f"{highest} over {_divisor_in_words(rule.propensity)}"
        case "doubly_robust":
            corrected = f"relevance predicted from features, corrected by {highest}"
            return f"{corrected} over {_divisor_in_words(rule.propensity)}"
        case "ladder":
            rungs = ", ".join(f"{rung.when}: {rung.grade:g}" for rung in rule.ladder)
            return f"the first that holds of {rungs}"
        case _:  # max
            return highest


def _divisor_in_words(propensity: Propensity | None) -> str:
    """Return what an estimator divides by."""
    if propensity is None:
        return ""
    source = propensity.source or "by a given table"
    if propensity.column:
        source = f"column {propensity.column}"
    return f"the probability that users examined its rank ({source}; at least {propensity.clip:g})"


def _dwell_in_words(dwell: Dwell) -> str:
    text = f"a {dwell.event} counts from {dwell.satisfied:g} s of dwell time on"
    for segment, thresholds in dwell.by.items():
        for value, least in thresholds.items():
            text += f", {segment} {value} from {least:g} s"
    return text
