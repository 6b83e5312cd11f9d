"""Judgments of other tools in JSON that say more than grades: refused with the line that makes a table of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ltr_harness.errors import DataError


@dataclass(frozen=True)
class _ForeignForm:
    name: str
    keys: frozenset[str]  # of the whole document
    program: str  # of jq: the rows query, document, grade


_FORMS = (
    _ForeignForm(
        "a request of Elasticsearch's or OpenSearch's _rank_eval",
        frozenset(["requests"]),
        ".requests[] | .id as $q | .ratings[] | [$q, ._id, .rating]",
    ),
    _ForeignForm(
        "ratings of RRE (Rated Ranking Evaluator)",
        frozenset(["topics"]),
        ".topics[].query_groups[] | .name as $q | .relevant_documents | to_entries[] | "
        'if (.value | type) == "array" then .key as $g | .value[] | [$q, ., $g] else [$q, .key, .value.gain] end',
    ),
    _ForeignForm(
        "a book of Quepid",
        frozenset(["query_doc_pairs"]),
        ".query_doc_pairs[] | .query_text as $q | .doc_id as $d | .judgements[] | [$q, $d, .rating]",
    ),
)


def refuse(value: Mapping[Any, Any], source: str) -> None:
    """Raise a DataError with the line that makes a table of the value, if it is of one of these forms."""
    for form in _FORMS:
        if form.keys <= value.keys() and isinstance(value[next(iter(form.keys))], list):
            head = '["query", "document", "grade"], '
            cure = f"jq -r '{head}({form.program}) | @csv' {source} > qrels.csv"
            if form.keys == {"query_doc_pairs"}:
                cure += ", and several judges become one with --several"
            raise DataError.at(source, f"is {form.name}", "a table of judgments", cure)
