"""What columns go by: the usual names of the query, the label, the document, the position, and of ids."""

from __future__ import annotations

from collections.abc import Sequence

# The most telling first. Letter case does not matter, nor whether words are joined by _, - or a blank.
ROLES = {
    "query": (
        "query_id",
        "qid",
        "query",
        "srch_id",
        "search_id",
        "request_id",
        "session_id",
        "group_id",
        "group",
    ),
    "label": ("label", "relevance", "rel", "grade", "judgment", "rating", "target", "y", "click", "clicked"),
    "document_id": (
        "document_id",
        "doc_id",
        "docid",
        "docno",
        "doc",
        "document",
        "corpus_id",
        "product_id",
        "item_id",
        "prop_id",
        "asin",
        "sku",
    ),
    "position": ("position", "pos", "rank"),
}


# Beside the queries and documents: who searched, in which visit, and when.
_OTHER_IDS = ("id", "uuid", "guid", "user", "uid", "session", "visitor", "timestamp", "ts", "datetime")
_ID_ENDINGS = ("_id", "_uuid", "_guid", "_timestamp")


def is_id(name: str) -> bool:
    """Whether a column is called as ids and times are, from which nothing holds for new queries.

    Example:
        >>> [name for name in ("user_id", "Session", "bm25", "valid", "brand-id") if is_id(name)]
        ['user_id', 'Session', 'brand-id']
    """
    plain = _plain(name)
    return plain in (*ROLES["query"], *ROLES["document_id"], *_OTHER_IDS) or plain.endswith(_ID_ENDINGS)


def column_of(role: str, columns: Sequence[str], said: str | None = None) -> str | None:
    """The column of a table that has a role; None where no name says so.

    Args:
        role: a key of `ROLES`.
        columns: of the table.
        said: the column's name where somebody said it: it goes before all others.

    Example:
        >>> column_of("query", ["Search-ID", "score"]), column_of("query", ["impression", "score"])
        ('Search-ID', None)
    """
    return said if said in columns else column_among(ROLES[role], columns)


def column_among(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """The column that goes by the first of these names that there is; None where there is none.

    Example:
        >>> column_among(["doc_id", "docid"], ["score", "docId"])
        'docId'
    """
    known = {_plain(name): name for name in reversed(columns)}
    return next((known[name] for name in names if name in known), None)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")
