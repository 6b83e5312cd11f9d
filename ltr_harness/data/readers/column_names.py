"""The meaning of columns' names, for every command and reader."""

import json
import re
from collections.abc import Sequence
from functools import cache, lru_cache

# The most telling first. Letter case does not matter, nor how words are joined: doc_id, docId, doc-id, doc id; nor the
# plural, except of ids, of which it is a count.
ROLES = {
    "query": (
        "query_id", "qid", "query", "srch_id", "search_id", "search_group_id", "search_group",
        "query_group_id", "query_group", "request_id", "session_id", "session", "clickout_id", "race_id",
        "impression_id", "group_id", "group",
    ),
    "label": (
        "label", "relevance", "rel", "grade", "judgment", "rating", "relevance_label", "relevance_grade",
        "relevance_score", "relevance_judgment", "relevancy", "target", "y", "gain", "click", "clicked",
    ),
    "document_id": (
        "document_id", "doc_id", "docno", "doc", "document", "corpus_id", "product_id", "item_id", "prop_id",
        "aid", "asin", "sku",
    ),
    "position": ("position", "pos", "rank"),
}  # fmt: skip
"""The roles of columns in tables with one row per document of a query, and the names that imply them."""

LISTINGS = {
    "query": (*ROLES["query"], "q_id", "queryid", "topic", "topic_id", "query_text", "query_number", "qno"),
    # PyTerrier has a docid of its own beside docno
    "document": ("docno", *ROLES["document_id"], "did", "d_id", "pid", "passage_id", "doc_no", "documentid"),
    "grade": (*ROLES["label"], "judgement", "gain", "score"),
    "score": ("score", "sim", "similarity", "prediction", "pred", "y_pred"),
    "subtopic": ("subtopic", "subtopic_id", "iteration"),
}
"""Further names in tables of judgments and rankings, which have no features."""

# Beside the queries and documents: who searched, in which visit, and when.
_OTHER_IDS = ("id", "uuid", "guid", "user", "uid", "session", "visitor", "timestamp", "ts", "datetime")
_ID_ENDINGS = ("_id", "_uuid", "_guid", "_timestamp")
_PLACES = ("position", "pos", "rank", "place", "placement", "finish", "finish_position", "finishing_position")


# When a query was asked, and by whom, beside the rows; a date of release or of birth is none of these.
_OF_QUERIES = {
    "time": (
        "timestamp", "ts", "datetime", "date_time", "date", "day", "time", "event_time", "search_time", "search_date",
        "query_time", "query_date", "request_time",
    ),
    "user": (
        "user_id", "user", "uid", "visitor_id", "visitor", "customer_id", "customer", "client_id", "account_id",
        "member_id", "shopper_id",
    ),
}  # fmt: skip


def time_and_user(columns: Sequence[str]) -> dict[str, str]:
    """Return the columns with names of a query's time and of its user, where there are any."""
    column_of_role = {role: column_among(names, columns) for role, names in _OF_QUERIES.items()}
    return {role: column for role, column in column_of_role.items() if column is not None}


def is_id(name: str) -> bool:
    """Return whether a column has a name of ids or times, from which nothing holds for new queries."""
    return _key(name) in _ids() or _snake_case(name).endswith(_ID_ENDINGS)


# What pandas calls the index of a frame: as Parquet, as CSV, and where such a file is read.
_INDEX = re.compile(r"(__index_level_\d+__|Unnamed: \d+)?")
_ROW_COUNT = re.compile(r"index|level_\d+")


def is_index(name: str) -> bool:
    """Return whether a column has the name of a frame's index, or none."""
    return _INDEX.fullmatch(name) is not None


def may_count_rows(name: str) -> bool:
    """Return whether a column has the name of an index that became a column: its values show whether it counts rows."""
    return _ROW_COUNT.fullmatch(name) is not None


def columns_named(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the names of columns for messages; those without one by their place among all columns."""
    return [name or f"column {columns.index(name) + 1} (without a name)" for name in names]


def is_place(name: str) -> bool:
    """Return whether a column has a name of places in a list, where 1 is the best."""
    return _is_named(name, _PLACES)


# A word of the name: rank_shown, srp_position, slot_index. The rank of a page is no place in a list.
_PLACE_WORDS = {"position", "pos", "rank", "ranking", "slot", "place", "placement", "ordinal"}
_NO_PLACES = ("page_rank",)


_SCORE_WORDS = {
    "score", "scores", "sim", "similarity", "prediction", "predictions", "pred", "preds", "logit", "logits",
}  # fmt: skip


def has_place_word(name: str) -> bool:
    """Return whether a word of a column's name means a place in a list."""
    return not _is_named(name, _NO_PLACES) and not _PLACE_WORDS.isdisjoint(_snake_case(name).split("_"))


def orders_by_rank(name: str) -> bool:
    """Return whether a column that orders rows has a name of ranks, of which 1 is the best, and not of scores."""
    is_place_word = has_place_word(name) or has_place_word(name.removesuffix("s"))
    return is_place_word and _SCORE_WORDS.isdisjoint(_snake_case(name).split("_"))


def rank_column(columns: Sequence[str]) -> str | None:
    """Return the column of ranks in a table without scores; None where there is none, or several candidates."""
    well_known = column_among(["rank", *ROLES["position"]], columns)
    if well_known is not None:
        return well_known
    rank_columns = [name for name in columns if orders_by_rank(name)]
    return rank_columns[0] if len(rank_columns) == 1 else None


# Of whom or what a number is, alone or before a word for numbers: customer, customer_no, row_number.
_NUMBERED = {
    "customer", "client", "account", "member", "buyer", "shopper", "visitor", "user", "seller", "merchant", "vendor",
    "listing", "item", "product", "article", "document", "doc", "offer", "hotel", "query", "session", "search",
    "request", "row", "line", "record",
}  # fmt: skip
_NUMBERED_ALONE = ("customer", "client", "account", "shopper", "listing", "row", "rownum", "index", "idx")
_NUMBER_WORDS = {"number", "no", "nr", "key", "code", "index", "idx", "hash"}
_DATES = ("date", "week", "calendar_week", "iso_week", "week_number")
_DATE_ENDINGS = ("_date", "_datetime")


def may_be_id(name: str) -> bool:
    """Return whether whole numbers of this name may be those of a customer, a listing, a row or a day."""
    if (
        is_id(name)
        or _is_named(name, (*_NUMBERED_ALONE, *_DATES))
        or _snake_case(name).endswith(_DATE_ENDINGS)
    ):
        return True
    *qualifiers, last_word = _snake_case(name).split("_")
    return last_word in _NUMBER_WORDS and bool(qualifiers) and qualifiers[-1] in _NUMBERED


# What a user does with a result, known only after it was shown. Rates and counts of the past say so: n_orders_30d.
_EVENTS = {
    1: ("click", "clicked"),
    2: ("favorite", "favorited", "favourite", "favourited", "like", "liked", "add_to_wishlist"),
    3: ("cart", "add_to_cart", "added_to_cart", "atc", "add_to_basket", "added_to_basket"),
    4: (
        "buy", "bought", "purchase", "purchased", "order", "ordered", "transaction", "checkout", "sale",
        "sold", "conversion", "converted", "booking", "booked",
    ),
}  # fmt: skip
"""What a first rule of relevance makes of events."""

_OUTCOMES = (
    *(name for names in _EVENTS.values() for name in names),
    *("revenue", "gmv", "gross_bookings"),
    *("dwell", "dwell_time", "dwell_seconds", "dwell_ms", "watch_time"),
)
# What tables write before and behind an outcome's name.
_AROUND_OUTCOMES = re.compile(r"^(is_)?(was_)?(has_)?|(_eur)?(_usd)?(_flag)?(_bool)?\Z")


def is_outcome(name: str) -> bool:
    """Return whether a column has a name of what users do with a result, which is no feature of it."""
    return _is_named(_outcome_stem(name), _OUTCOMES)


def event_weight(name: str) -> int | None:
    """Return the weight of an event by its column's name, from 1 for a click to 4 for a purchase; None for no event."""
    return next((weight for weight, names in _EVENTS.items() if _is_named(_outcome_stem(name), names)), None)


def _outcome_stem(name: str) -> str:
    """Return an outcome's name without the usual prefixes and suffixes."""
    return _AROUND_OUTCOMES.sub("", _snake_case(name))


def features_line(names: Sequence[str]) -> str:
    """Return the line of an experiment's file that chooses these features, where it is short enough to be read."""
    if not names:
        return "no other feature is left to learn from"
    if len(names) > 20:
        return "the others under `features:`"
    listed = ", ".join(name if name.isidentifier() else json.dumps(name) for name in names)
    return f"`features: [{listed}]`"


def column_for(role: str, columns: Sequence[str], configured_column: str | None = None) -> str | None:
    """Return the column of a table that has a role; None where no name implies it."""
    return configured_column if configured_column in columns else column_among(ROLES[role], columns)


def column_among(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """Return the column with the first of these names that occurs; None where none does."""
    keys = {_key(name): name for name in reversed(columns)}
    column_of_key = {}
    for key, column in keys.items():
        singular = key.removesuffix("s")
        known_key = key if singular in _ids() else singular
        column_of_key[known_key] = column
    column_of_key |= keys
    return next((column_of_key[_key(name)] for name in names if _key(name) in column_of_key), None)


def _is_named(name: str, names: Sequence[str]) -> bool:
    return column_among(names, [name]) is not None


@lru_cache(maxsize=4096)  # each column of a wide table is compared with some hundred names
def _snake_case(name: str) -> str:
    words = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return words.lower().replace("-", "_").replace(" ", "_")


def _key(name: str) -> str:
    return _snake_case(name).replace("_", "")


@cache
def _ids() -> set[str]:
    return {_key(name) for name in (*ROLES["query"], *ROLES["document_id"], *_OTHER_IDS)}
