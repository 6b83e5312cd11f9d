"""Rows of files, from which readers make a dataset; and splits with the same columns."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ltr_harness._util.text import count_of, plural, shortened
from ltr_harness.data.arrays import Array, Bools, Floats, sealed
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.features import Features, SparseFeatures, sealed_features
from ltr_harness.data.judgments import Judgments, Subtopics
from ltr_harness.data.queries import ONE_ROW_EACH, QueryGroups, repeats_in_words
from ltr_harness.data.readers.words import grades_in_words
from ltr_harness.data.repeats import row_before
from ltr_harness.errors import Caution, DataError, Problem

if TYPE_CHECKING:
    from ltr_harness.data.readers.reader import ValueOptions

SHOWN = 20
"""The number of problems of one kind that are listed; further ones are counted."""

OfRow = Callable[[int], str]
"""Words on a row, made of its number."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Rows in file order, each value checked, queries not yet."""

    features: Features  # (n_rows, n_features); of the candidates alone where `retrieved` is known
    feature_names: tuple[str, ...]
    labels: Floats  # (n_rows,), finite
    # (n_blocks,), first row of each run of rows with one query id; a new file always starts a new run
    block_starts: NDArray[np.int64]
    block_ids: NDArray[Any]  # (n_blocks,), the query ids
    place: OfRow  # ``"file:line"``, for messages
    # (n_rows,) each; None where the files have none. Missed documents may lack weights and half-lives (NaN), and have
    # any position
    weights: Floats | None = None
    half_lives: Floats | None = None
    positions: NDArray[np.int32] | None = None
    document_ids: NDArray[Any] | None = None
    judged: Bools | None = None  # None where every row is
    # the candidates, the other rows being missed documents; None where nobody said
    retrieved: Bools | None = None
    # name to (n_rows,) values that must be the same in all rows of a query
    attributes: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    # (n_rows, n_subtopics), the rows' grades by subtopic; None where nobody said them
    subtopics: ArrayLike | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sparse: bool = False
    cautions: tuple[Caution, ...] = ()
    # first row of each file, and the end of the last
    file_starts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def labelled(self, options: "ValueOptions", n_beyond: int = 0) -> "Rows":
        """Return the rows with 0 where nobody judged, and cautions about that and about changed values."""
        labels, judged, cautions = self.labels, self.judged, [*self.cautions]
        if options.grades is not None:
            text = f"labels by `grades`: {grades_in_words(options.grades)}"
            cautions.append(Caution("mapped-labels", "note", text))
        if options.unjudged is not None and (labels == options.unjudged).any():
            judged = labels != options.unjudged
            n, total = int(np.count_nonzero(~judged)), count_of(labels.size, "document")
            text = f"{n:,} of {total} {plural('is', n)} not judged (unjudged: {options.unjudged:g})"
            cautions.append(Caution("unjudged-documents", "note", text))
            labels = np.where(judged, labels, 0.0)
        if n_beyond and options.beyond_float32 != "error":
            treatment = "clipped to its range" if options.beyond_float32 == "clip" else "taken as missing"
            values = f"{count_of(n_beyond, 'value')} beyond float32 {plural('is', n_beyond)} {treatment}"
            text = f"{values} (beyond_float32: {options.beyond_float32})"
            cautions.append(Caution("values-beyond-float32", "note", text))
        return replace(self, labels=labels, judged=judged, cautions=tuple(cautions))

    def with_cautions(self, *cautions: Caution) -> "Rows":
        """Return the rows with further cautions."""
        return replace(self, cautions=(*self.cautions, *cautions))

    def in_order(self, order: NDArray[np.int64]) -> "Rows":
        """Return the rows in another order (n_rows,); blocks and subtopics stay those of the file."""
        of_features = order
        if self.retrieved is not None:
            of_features = np.cumsum(self.retrieved)[order[self.retrieved[order]]] - 1
        columns = {name: getattr(self, name) for name in _COLUMNS}
        return replace(
            self,
            features=self.features[of_features],
            place=lambda row: self.place(int(order[row])),
            attributes={name: values[order] for name, values in self.attributes.items()},
            **{name: values[order] for name, values in columns.items() if values is not None},
        )


_COLUMNS = ("labels", "weights", "half_lives", "positions", "document_ids", "judged", "retrieved")


def _chosen(column: Array | None, is_chosen: Bools) -> Array | None:
    return None if column is None else column[is_chosen]


def assembled(
    rows: Rows,
    source: str,
    *,
    regroup: bool,
    columns: Mapping[str, str] | None = None,
    recurring: bool = False,  # whether a query may have a document in several rows
) -> RankingDataset:
    """Return the dataset that rows make.

    Raises:
        DataError: scattered queries, a document twice in a query, or an attribute that differs within a query.
    """
    groups, order, regrouped = _group_rows(rows, regroup)
    subtopics = None
    if rows.subtopics is not None:
        subtopics = Subtopics.of_matrix(rows.subtopics, groups.n_rows)
        if order is not None:
            subtopics = subtopics.take(order)
    if order is not None:
        rows = rows.in_order(order)
    if rows.retrieved is not None and not rows.retrieved.any():
        found = "all documents were missed: `retrieved` is 0 in all rows"
        raise DataError.at(source, found, "1 in the rows of candidates")
    repeats = _repeated_documents(rows, groups, recurring=recurring)
    if rows.weights is not None and not rows.weights.any():
        raise DataError.at(source, "all weights are 0", "at least one above 0")
    weights, row_weights, averaged = _weights(rows, groups)
    judgments = Judgments.checked(
        rows.labels,
        groups,
        query_weights=weights,
        document_ids=rows.document_ids,
        judged=rows.judged,
        subtopics=subtopics,
        retrieved=rows.retrieved,
        recurring=True,  # refused above, where places are known
    )
    attributes = {name: per_query(name, each, groups, rows.place) for name, each in rows.attributes.items()}
    file_rows, positions, half_lives = order, rows.positions, rows.half_lives
    if rows.retrieved is not None and not rows.retrieved.all():
        numbers = np.arange(groups.n_rows) if order is None else order
        file_rows = numbers[rows.retrieved]
        positions = _chosen(positions, rows.retrieved)
        half_lives = _chosen(half_lives, rows.retrieved)
    return RankingDataset(
        sealed_features(rows.features),
        judgments,
        rows.feature_names,
        positions,
        attributes,
        source,
        rows.sparse,
        rows.cautions + regrouped + repeats + averaged + _missed_cautions(judgments, groups),
        file_rows,
        columns or {},
        rows.categories,
        row_weights=row_weights,
        half_lives=half_lives,
    )


class RowProblems:
    """Problems of rows, gathered check by check, and raised together in the order of the rows."""

    def __init__(self) -> None:
        self.listed: list[tuple[int, Problem]] = []
        self.total = 0

    def report(self, bad: NDArray[np.bool_], place: OfRow, found: OfRow, expected: str) -> None:
        """Keep a problem for each bad row (n_rows,)."""
        rows = np.flatnonzero(bad)
        self.total += rows.size
        self.listed += [(row, Problem(place(row), found(row), expected)) for row in rows[:SHOWN].tolist()]

    def report_repeats(
        self,
        before: NDArray[np.int64],
        place: OfRow,
        found: OfRow,
        expected: str,
        values: NDArray[Any],
        other_cure: str = "",
    ) -> None:
        """Keep one problem for all rows that repeat one `before` them, -1 where they repeat none; (n_rows,) each.

        `values` (n_rows,) are what such rows say: the cure of equal ones is another.
        """
        rows = np.flatnonzero(before >= 0)
        if not rows.size:
            return
        first = int(rows[0])
        count, cure = "", "keep one of them"
        if rows.size > 1:
            count, cure = f" ({count_of(rows.size, 'such row')})", "keep one of each"
        if (values[rows] == values[before[rows]]).all():
            cure = f"the values are equal: {cure}, as `sort -u` does"
        if other_cure:
            cure = f"{cure}, or {other_cure}"
        self.listed.append((first, Problem(place(first), found(first) + count, expected, cure)))
        self.total += 1

    def finish(self, noun: str = "such row") -> None:
        """Raise what was reported; nothing if all is well."""
        if self.listed:
            ordered = [problem for _, problem in sorted(self.listed, key=itemgetter(0))]
            raise DataError(limited(ordered, self.total, noun))


def bad_rows(
    bad: NDArray[np.bool_],
    place: OfRow,
    found: OfRow,
    expected: str,
    location: str = "",
    noun: str = "such row",
) -> list[Problem]:
    """Return a problem for each bad row (n_rows,), the first ones listed and the others counted."""
    problems = RowProblems()
    problems.report(bad, place, found, expected)
    return limited([problem for _, problem in problems.listed], problems.total, noun, location)


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, sorted."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def query_ids(texts: NDArray[np.str_]) -> NDArray[Any]:
    """Return query ids (n,) as int64 where every one is a plain integer that fits, else as text."""
    try:
        numbers = texts.astype(np.int64)
    except (ValueError, OverflowError):
        return texts
    # "007" and "7" are two names: only text that an integer would print as may become one.
    return numbers if np.array_equal(numbers.astype(texts.dtype), texts) else texts


def blocks_of(ids: NDArray[Any], file_starts: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return starts and ids of the runs of equal query ids; no run spans two files. Shapes: `ids` (n_rows,)."""
    is_start = np.ones(len(ids), dtype=bool)
    is_start[1:] = ids[1:] != ids[:-1]
    is_start[list(file_starts)] = True
    starts = np.flatnonzero(is_start).astype(np.int64)
    return starts, ids[starts]


def limited(
    problems: Sequence[Problem], total: int | None = None, noun: str = "such row", location: str = ""
) -> list[Problem]:
    """Return the first problems, and a last line that counts the others."""
    listed = list(problems[:SHOWN])
    if total is None:
        total = sum(problem.count for problem in problems)
    left = total - sum(problem.count for problem in listed)
    if left > 0:
        listed.append(Problem("", f"and {left:,} more {plural(noun, left)}{location}", count=left))
    return listed


def _group_rows(
    rows: Rows, regroup: bool
) -> tuple[QueryGroups, NDArray[np.int64] | None, tuple[Caution, ...]]:
    starts, ids = rows.block_starts, rows.block_ids
    boundaries = np.append(starts, rows.labels.size).astype(np.int64)
    _, first, query_of_block = np.unique(ids, return_index=True, return_inverse=True)
    if len(first) == len(ids):
        return QueryGroups(boundaries, ids), None, ()
    repeats = np.flatnonzero(first[query_of_block] != np.arange(len(ids)))
    n_scattered = len(np.unique(query_of_block[repeats]))
    share = f"{n_scattered:,} of {count_of(len(first), 'query')}"
    if not regroup:
        block = repeats[0]
        first_place = rows.place(int(starts[first[query_of_block[block]]]))
        found = f"query {str(ids[block])!r} is not contiguous; its first row is at {first_place}"
        if n_scattered > 1:
            found += f" ({share} are scattered)"
        cure = "sort the rows by query, or set `regroup: true`"
        raise DataError.at(rows.place(int(starts[block])), found, "all rows of a query together", cure)
    groups, order = QueryGroups.from_ids(np.repeat(ids, np.diff(boundaries)))
    text = f"{share} were scattered and have been regrouped (regroup: true)"
    return groups, order, (Caution("regrouped-rows", "note", text),)


def per_query(name: str, values: NDArray[Any], groups: QueryGroups, place: OfRow) -> NDArray[Any]:
    """Return the value of each query (n_queries,). Raises DataError: its rows (n_rows,) differ."""
    starts = groups.boundaries[:-1]
    firsts = values[starts]
    differs = values != np.repeat(firsts, groups.sizes)
    if values.dtype.kind == "f":
        differs &= ~(np.isnan(values) & np.isnan(np.repeat(firsts, groups.sizes)))
    bad = np.flatnonzero(differs)
    if bad.size:
        row = int(bad[0])
        query = groups.query_of(row)
        location = f"in the first row of query {groups.name(query)!r} ({count_of(bad.size, 'such row')})"
        found = f"attribute {name!r} is {values[row]!s} here and {firsts[query]!s} {location}"
        cure = "an attribute describes the query; make it a feature if it describes the document"
        raise DataError.at(place(row), found, "one value for all rows of a query", cure)
    return firsts


def _repeated_documents(rows: Rows, groups: QueryGroups, *, recurring: bool) -> tuple[Caution, ...]:
    """Raise where a query has a document twice; return a caution where lists that were shown may have one."""
    ids, retrieved = rows.document_ids, rows.retrieved
    if ids is None:
        return ()
    before = row_before(ids, groups.boundaries)
    repeats = np.flatnonzero(before >= 0)
    if not repeats.size:
        return ()
    count, cure = repeats_in_words(ids, repeats, groups)
    row = int(repeats[0])
    if recurring and retrieved is not None:
        missed = repeats[~(retrieved[repeats] & retrieved[before[repeats]])]
        if missed.size:
            recurring, row = False, int(missed[0])
    name = f"document {str(ids[row])!r} of query {groups.name(groups.query_of(row))!r}"
    earlier_place = rows.place(int(before[row]))
    if recurring:
        example = f"{name} at {earlier_place} and {rows.place(row)}"
        text = f"lists show a document more than once ({count}), such as {example}"
        return (Caution("repeated-documents", "warning", text, cure),)
    found = f"{name} is at {earlier_place} already ({count})"
    if retrieved is not None:
        kinds = {True: "a candidate", False: "missed"}
        kind, kind_before = (kinds[bool(retrieved[each])] for each in (row, before[row]))
        found = f"{name} is {kind} here and {kind_before} at {earlier_place} ({count})"
    cure = f"{cure}; rows that have no ids need no `document_id`"
    raise DataError.at(rows.place(row), found, ONE_ROW_EACH, cure)


def _weights(rows: Rows, groups: QueryGroups) -> tuple[Floats | None, Floats | None, tuple[Caution, ...]]:
    """Return weights of queries, the mean of their rows'; and of rows, with a caution, where they differ in a query."""
    if rows.weights is None:
        return None, None, ()
    weights, counted, candidates = rows.weights, groups, groups
    row_weights = weights
    if rows.retrieved is not None:
        # of a query without candidates, the mean of its missed documents
        counts = rows.retrieved | ~np.repeat(groups.any(rows.retrieved), groups.sizes)
        _refuse_absent_weights(rows, groups, counts)
        row_weights = weights[rows.retrieved]
        candidates = QueryGroups.from_counts(groups.sum(rows.retrieved, np.int64), groups.ids)
        weights = weights[counts]
        counted = QueryGroups.from_counts(groups.sum(counts, np.int64), groups.ids)
    means = counted.mean(weights)
    n = int(np.count_nonzero(candidates.min(row_weights) < candidates.max(row_weights)))
    if not n:
        return means, None, ()
    text = f"weights differ within {n:,} of {count_of(groups.n_queries, 'query')}, which count their mean in metrics"
    return means, row_weights, (Caution("row-weights", "note", text),)


def _refuse_absent_weights(rows: Rows, groups: QueryGroups, counts: Bools) -> None:
    """Raise where a row (n_rows,) that counts for the weight of its query has none."""
    assert rows.weights is not None
    absent = np.flatnonzero(counts & np.isnan(rows.weights))
    if absent.size:
        row = int(absent[0])
        found = f"query {groups.name(groups.query_of(row))!r} has no candidate, and this missed document no weight"
        raise DataError.at(rows.place(row), found, "a weight >= 0")


def _missed_cautions(judgments: Judgments, everything: QueryGroups) -> tuple[Caution, ...]:
    """Return a caution that counts missed documents; none where the rows have no column of them."""
    if judgments.missed is None:
        return ()
    groups, n = judgments.groups, judgments.missed.labels.size
    n_unjudged = everything.n_rows - groups.n_rows - n
    if not n and not n_unjudged:
        return (Caution("missed-documents", "note", "nothing was missed: `retrieved` is 1 in all rows"),)
    n_queries, n_without = len(np.unique(judgments.missed.queries)), int(np.count_nonzero(~groups.has_rows))
    parts = [f"{count_of(n, 'judged document')} of {count_of(n_queries, 'query')} {plural('was', n)} missed"]
    if n_without:
        parts.append(f"{count_of(n_without, 'query')} {plural('has', n_without)} no candidate")
    if n_unjudged:
        left_out = count_of(n_unjudged, "missed document")
        parts.append(f"{left_out} that nobody judged {plural('is', n_unjudged)} counted nowhere")
    return (Caution("missed-documents", "note", f"{'; '.join(parts)} (`retrieved`)"),)


def within_float32(values: NDArray[np.float32], how: str) -> int:
    """Clip or drop infinite values, and count them; with ``error`` they stay. Shapes: `values` (n_rows,)."""
    infinite, largest = np.isinf(values), np.finfo(np.float32).max
    if how == "clip":
        np.clip(values, -largest, largest, out=values)
    elif how == "missing":
        values[infinite] = np.nan
    return int(np.count_nonzero(infinite))


def remap_codes(
    codes: NDArray[np.float32], before: Sequence[str], after: Sequence[str]
) -> NDArray[np.float32]:
    """Return codes (n_rows,) of the texts `before` as codes of the texts `after`; NaN where a text is absent."""
    place = {text: float(code) for code, text in enumerate(after)}
    table = np.array([*(place.get(text, np.nan) for text in before), np.nan], dtype=np.float32)
    return table[np.where(np.isnan(codes), len(before), codes).astype(np.int64)]


def occurring_categories(dataset: RankingDataset) -> dict[str, tuple[str, ...]]:
    """Return the texts of each categorical feature that occur in the dataset's rows."""
    texts_by_column = {}
    for name, texts in dataset.categories.items():
        codes = dataset.features[:, dataset.feature_names.index(name)]
        texts_by_column[name] = tuple(texts[int(code)] for code in np.unique(codes[~np.isnan(codes)]))
    return texts_by_column


def with_categories(dataset: RankingDataset, categories: Mapping[str, tuple[str, ...]]) -> RankingDataset:
    """Return the dataset with the codes of these texts; other texts are missing, and a caution counts them."""
    if dataset.categories == categories:
        return dataset
    features, cautions = np.array(dataset.features), list(dataset.cautions)
    for name, texts in categories.items():
        column, before = dataset.feature_names.index(name), dataset.categories[name]
        features[:, column] = remap_codes(dataset.features[:, column], before, texts)
        n_unseen = int(np.isnan(features[:, column]).sum() - np.isnan(dataset.features[:, column]).sum())
        if n_unseen:
            rows = f"{count_of(n_unseen, 'row')} {plural('has', n_unseen)}"
            text = f"{rows} a text in {name!r} that training never saw; there it is missing"
            cautions.append(Caution("unseen-categories", "note", text))
    categories = dict(categories)
    return replace(dataset, features=sealed(features), categories=categories, cautions=tuple(cautions))


def check_alignment(datasets: Mapping[str, RankingDataset]) -> None:
    """Refuse splits without candidates, splits that cannot have the columns of train, and data without features."""
    train = datasets["train"]
    problems = [problem for split in datasets for problem in _column_problems(split, datasets[split], train)]
    for split, dataset in datasets.items():
        if not dataset.n_rows:
            found = f"has no candidate in {count_of(dataset.n_queries, 'query')}: all documents were missed"
            problems.append(Problem(_place(split, dataset), found, "at least one"))
    if not train.feature_names:
        ignored = "".join(f"; {caution}" for caution in train.cautions)
        cure = "models that only have scores are compared by `ltr-harness compare SCORES --data FILE`"
        expected = "a numeric column, or index:value"
        problems = [Problem(_place("train", train), f"has no feature{ignored}", expected, cure)]
    DataError.refuse(problems)


def _column_problems(split: str, dataset: RankingDataset, train: RankingDataset) -> list[Problem]:
    """Return a split's columns beyond train's and those that it lacks; without any, features of another kind."""
    place = _place(split, dataset)
    train_names, split_names = set(train.feature_names), set(dataset.feature_names)
    unknown = [name for name in dataset.feature_names if name not in train_names]
    absent = [name for name in train.feature_names if name not in split_names]
    problems = []
    if unknown:
        cure = "name the columns to use with `features:`"
        if dataset.sparse:
            n_features = int(dataset.feature_names[-1]) + (dataset.feature_names[0] == "0")
            zero = "if the training files only leave them out because they are 0"
            cure = f"set `n_features: {n_features}` {zero}"
            if "0" in unknown:
                cure = "set `first_index: 0` if features count from 0 in all files"
        size = f"{count_of(dataset.n_features, 'feature')} against {train.n_features}"
        found = f"has {_feature_list(unknown)} that the train split does not have ({size})"
        problems.append(Problem(place, found, "the features of the train split", cure))
    if absent and not dataset.sparse:
        problems.append(Problem(place, f"lacks {_feature_list(absent)}", "every feature of the train split"))
    return problems or _kind_problems(split, dataset, train)


def _kind_problems(split: str, dataset: RankingDataset, train: RankingDataset) -> list[Problem]:
    """Return the features that are categories in one of the splits alone."""
    problems = []
    for name in (*dataset.categories, *train.categories):
        kind, train_kind = _kind_of_feature(name, dataset), _kind_of_feature(name, train)
        if kind != train_kind:
            found = f"feature {name!r} is {kind} and in the train split {train_kind}"
            cure = "name it under `categorical:` of the reader"
            problems.append(Problem(_place(split, dataset), found, "one kind in all splits", cure))
    return problems


def _kind_of_feature(name: str, dataset: RankingDataset) -> str:
    return "a category" if name in dataset.categories else "a number"


def _place(split: str, dataset: RankingDataset) -> str:
    return f"{split} split ({dataset.source})" if dataset.source else f"{split} split"


def _feature_list(features: list[str]) -> str:
    listed = shortened(features, 5)
    return (
        f"{count_of(len(features), 'feature')} ({listed})" if len(features) > 1 else f"the feature {listed}"
    )


def with_columns(dataset: RankingDataset, names: tuple[str, ...]) -> RankingDataset:
    """Return the dataset with these columns in this order, 0.0 where it lacks one; the same object if it has them."""
    if dataset.feature_names == names:
        return dataset
    column_of = {name: column for column, name in enumerate(dataset.feature_names)}
    features: Features
    if isinstance(dataset.features, SparseFeatures):
        place = {name: column for column, name in enumerate(names)}
        places = np.array([place.get(name, -1) for name in dataset.feature_names], dtype=np.int64)
        features = dataset.features.with_columns(places, len(names))
    else:
        features = _array_with_columns(dataset.features, [column_of.get(name) for name in names])
    cautions = dataset.cautions
    if padded := [name for name in names if name not in column_of]:
        text = f"{_feature_list(padded)} never occur in this split and are 0.0 in all its rows"
        cautions = (*cautions, Caution("absent-features", "note", text))
    categories = {name: texts for name, texts in dataset.categories.items() if name in names}
    return replace(dataset, features=features, feature_names=names, cautions=cautions, categories=categories)


def _array_with_columns(features: NDArray[np.float32], columns: Sequence[int | None]) -> NDArray[np.float32]:
    """Return an array with these columns of the features (n_rows, n_features), and 0 in place of None."""
    array = np.zeros((len(features), len(columns)), dtype=np.float32)
    for place, column in enumerate(columns):
        if column is not None:
            array[:, place] = features[:, column]
    return sealed(array)
