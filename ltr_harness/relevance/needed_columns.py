"""Which columns of a table a rule of relevance needs, and which of them nobody named."""

from __future__ import annotations

from collections.abc import Iterator

from ltr_harness.logs.settings import ListColumns, seconds
from ltr_harness.relevance.rule import Relevance


def columns_to_read(rule: Relevance, columns: ListColumns) -> tuple[list[str], list[str]]:
    """The columns that make labels: those of numbers, and those of text, lists and times."""
    texts = [columns.query_id]
    if rule.event_log is not None:
        owner = [] if rule.event_log.query_id else [columns.cluster_id, columns.timestamp]
        texts += [name for name in (columns.item_id, *owner) if name]
    if seconds(rule.maturity) and columns.timestamp:
        texts.append(columns.timestamp)
    if rule.chosen == "match":
        texts += rule.columns
    texts += [name for name in (rule.list_column, *(rule.dwell.by if rule.dwell else ())) if name]
    by_rank = rule.by_list or (rule.propensity is not None and not rule.propensity.column)
    rank = [columns.rank] if by_rank and columns.rank else []
    numbers = [name for name in (*rule.columns, *rank) if name not in texts]
    return list(dict.fromkeys(numbers)), list(dict.fromkeys(texts))


def lacking(rule: Relevance, columns: ListColumns) -> Iterator[str]:
    """What the rule needs and no option names."""
    log = rule.event_log
    if log is not None:
        if columns.item_id is None:
            yield "relevance.event_log without document_id; expected the column that names the item"
        by_user = log.user and log.timestamp and columns.cluster_id and columns.timestamp
        if log.query_id is None and not by_user:
            yield "relevance.event_log without query_id; expected user and timestamp there and in data"
        if log.baseline_path:
            yield "relevance.event_log.baseline_path is of monitor; expected one log of events for all splits"
    if rule.by_list and columns.rank is None:
        yield "relevance.dwell and relevance.unseen without position; expected the column with the rank shown"
    if rule.propensity is not None and columns.rank is None and not rule.propensity.column:
        yield f"relevance.mode {rule.chosen} without position; expected the column with the rank shown"
    if seconds(rule.maturity) and columns.timestamp is None:
        yield "relevance.maturity without timestamp; expected the column with the time"
