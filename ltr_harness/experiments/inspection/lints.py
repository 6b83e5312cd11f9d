"""Lints of a data set: facts that would make numbers from it misleading."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of, plural, shortened
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.readers.column_names import (
    event_weight,
    features_line,
    has_place_word,
    is_outcome,
    is_place,
    may_be_id,
)
from ltr_harness.data.relevance.rule import EVENT_COUNTS, MOST_ROWS, event_counts
from ltr_harness.errors import Caution, Severity, worst_first
from ltr_harness.experiments.inspection.card import DataCard, FeatureFacts, Overlap, SplitCard
from ltr_harness.experiments.inspection.column_facts import is_of_another_range
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.gains import EXPONENTIAL_GAINS
from ltr_harness.metrics.core.headroom import LITTLE_TO_GAIN, headroom
from ltr_harness.metrics.core.metric import BinaryMetric

REPEATED = "query-in-two-folds"
"""The lint that a comparison must know of, because it counts such queries once."""


NEARLY_ALL = "nearly-all-relevant"
"""The lint that goes by the primary metric where there is one."""

LINTS = (
    "query-in-two-splits", REPEATED, LITTLE_TO_GAIN, "identical-rows", "different-features", "other-range",
    "nothing-relevant", "steep-gain", "one-grade", "sorted-labels", "without-relevant-documents",
    "leaking-feature", "outcome-feature", "id-feature", "position-feature", "inverted-label",
    "constant-features", "duplicate-features", "missing-values", "forced-ties", "single-document-queries",
    "equal-rows", EVENT_COUNTS, NEARLY_ALL, "negative-labels",
)  # fmt: skip
"""The names of all lints."""

LEAK = 0.98  # a single feature above this NDCG@10 knows the labels; the best in public sets reach 0.8
OUTCOME = 0.98  # a single feature above this AUC is told apart from the label by little
ORDERED = 0.6  # from this AUC on, whole numbers have an order that means something
FARTHEST = 20  # times the rows of a query: numbers beyond are no places in its list, whatever their name
FEW_QUERIES = 10  # with fewer queries a feature can rank them all rightly by luck
STEEP_GRADE = 7  # from this grade on, 2^g - 1 lets one row outweigh a hundred others
SORTED_SHARE = 0.9
RELEVANT_SHARE = 0.9  # from this share of relevant documents on, relevant or not tells few apart
EQUAL_SHARE = 0.05  # from this share of rows on, equal ones are no accident
FEWEST_EQUAL, TIMES_EQUAL = (
    10,
    5,
)  # fewer are, unless documents of one kind are repeated so many times as often
SEEN_SHARE = 0.01  # from this share of rows on, rows that two splits share are no accident
TIMES_SEEN = 2  # and so many times the share of rows that are alike within the other
# Queries that a split shares with another are copies where they are so many times the share within the other.
FEWEST_ALIKE, TIMES_ALIKE = 5, 10
_MANY = {"is": "are", "has": "have"}


def lint(card: DataCard) -> list[Caution]:
    """Return all cautions about the data, the worst first."""
    features_option = _features_option(card)
    cautions = [*_overlaps(card), *_columns(card, features_option), *_negative_labels(card)]
    for split in card.splits:
        cautions += [
            replace(caution, place=split.name) for caution in split.dataset.cautions if caution.kind in LINTS
        ]
        cautions += [*_labels(split), *_features(split, features_option), *_rows(split)]
    return worst_first(cautions)


def cautions_for_metrics(cautions: Iterable[Caution], metrics: Iterable[Metric]) -> list[Caution]:
    """Return the cautions that concern these metrics: one of exponential gain only with a metric that has it."""
    exponential = any(getattr(metric, "gain", None) in EXPONENTIAL_GAINS for metric in metrics)
    return [caution for caution in cautions if exponential or caution.kind != "steep-gain"]


def cautions_beside_lints(cautions: Iterable[Caution]) -> list[Caution]:
    """Return the cautions of reading that are no lints, which `lint` has."""
    return [caution for caution in cautions if caution.kind not in LINTS]


def little_to_gain(name: str, judgments: Judgments, metric: Metric) -> list[Caution]:
    """Return a caution where the order of a split's candidates decides little of a metric."""
    room = headroom(metric, judgments)
    text = "" if room is None else room.little_to_gain(str(metric))
    cure = "compare shares of the possible gain, or use a smaller K or more candidates per query"
    return [Caution(LITTLE_TO_GAIN, "warning", text, cure, name)] if text else []


def nearly_all_relevant(name: str, judgments: Judgments, metric: Metric | None = None) -> list[Caution]:
    """Return a caution where nearly all documents are relevant, by a metric's threshold or with a label above 0."""
    labels = judgments.labels
    relevant, above = labels > 0, "above 0"
    if isinstance(metric, BinaryMetric):
        relevant, above = labels >= metric.relevant, f"of {metric.relevant:g} or more"
    share = float(relevant.mean())
    if share < RELEVANT_SHARE or labels.min() < 0 or labels.min() == labels.max():
        return []
    of_metric = "a metric of relevant or not" if metric is None else str(metric)
    text = f"{share:.0%} of the documents have a label {above}, so {of_metric} has little to tell apart"
    cure = "map the labels so that most are 0 (`grades:`), or set the first relevant grade, as in `mrr(relevant=3)`"
    return [Caution(NEARLY_ALL, "warning", text, cure, name)]


def _overlaps(card: DataCard) -> Iterator[Caution]:
    splits = {split.name: split for split in card.splits}
    for overlap in card.overlaps:
        if overlap.n_queries:
            yield _shared_queries(overlap)
        if overlap.n_rows and not overlap.n_same_content:
            yield _shared_rows(overlap, splits[overlap.first], splits[overlap.second])


def _shared_queries(overlap: Overlap) -> Caution:
    """Return the caution on queries that two splits have."""
    names = ", ".join(overlap.queries)
    if overlap.n_queries > len(overlap.queries):
        names += ", …"
    text = f"{count_of(overlap.n_queries, 'query')} {plural('is', overlap.n_queries)} in both ({names})"
    place = f"{overlap.first} and {overlap.second}"
    if overlap.n_same_content:
        text += f"; {overlap.n_same_content:,} of them with identical rows"
        cure = "split by query: `ltr-harness data split`"
        return Caution("query-in-two-splits", "error", text, cure, place)
    text += "; their rows differ"
    cure = "check that equal names stand for different queries, or split by query"
    return Caution("query-in-two-splits", "warning", text, cure, place)


def _shared_rows(overlap: Overlap, first: SplitCard, second: SplitCard) -> Caution:
    """Return the caution on rows of one split that have the features of a row of another."""
    place = f"{overlap.first} and {overlap.second}"
    share = overlap.n_rows / second.n_rows
    rows = f"{count_of(overlap.n_rows, 'row')} of {second.name} ({share:.1%})"
    text = f"{rows} have the features of a row of {first.name}"
    # the second's queries are like the first's by far more often than the first's are like each other
    most = TIMES_ALIKE * ((first.n_alike + 1) / max(first.n_several_rows, 1))
    if overlap.n_alike >= FEWEST_ALIKE and overlap.n_alike / second.n_several_rows >= most:
        cure = "split by query, each once: `ltr-harness data split`"
        text += (
            f"; {overlap.n_alike:,} of its {count_of(second.n_several_rows, 'query')} share at least half of their "
            f"rows with {first.name}, where {first.n_alike:,} of {first.n_several_rows:,} do with another query"
        )
        return Caution("identical-rows", "error", text, cure, place)
    # features that tell few documents apart are as often alike within the first
    by_chance = TIMES_SEEN * ((first.n_elsewhere + 1) / first.n_rows)
    severity: Severity = "warning" if share > max(SEEN_SHARE, by_chance) else "note"
    cure = "check whether they are the same documents, because a model ranks its own training rows too well"
    return Caution("identical-rows", severity, text, cure, place)


def _columns(card: DataCard, features_option: str) -> Iterator[Caution]:
    first = card.splits[0]
    yield from _outcomes(first, features_option)
    if not first.dataset.features_named:
        yield from _named_outcomes(first, features_option)
        yield from _places(first, features_option)
        yield from _ids(first, features_option)
    yield from _inverted_labels(first)
    for split in card.splits[1:]:
        yield from _unlike_columns(first, split)


def _outcomes(split: SplitCard, features_option: str) -> Iterator[Caution]:
    """Yield the caution on features that hold, by their values in training rows, acts of users who saw the list."""
    if split.n_queries < FEW_QUERIES:
        return
    rest = [feature for feature in split.features if not _leaks(split, feature)]
    sure = [feature.name for feature in rest if feature.n_only_relevant or feature.auc > OUTCOME]
    likely = [feature.name for feature in rest if feature.tells_relevant and feature.name not in sure]
    fact = "non-zero in nearly all relevant documents and in few others"
    yield from _feature_cautions(
        likely, "outcome-feature", "warning", split.name, "is", fact, _outcome_cure(likely, features_option)
    )


def _named_outcomes(split: SplitCard, features_option: str) -> Iterator[Caution]:
    names = [name for name in split.feature_names if is_outcome(name)]
    cure = f"leave out columns that are unknown before the query: {features_option}"
    fact = "like an outcome" if len(names) == 1 else "like outcomes"
    yield from _feature_cautions(names, "outcome-feature", "warning", split.name, "looks", fact, cure)


def _inverted_labels(split: SplitCard) -> Iterator[Caution]:
    """Yield the caution on a label that is named as a place in a list, of which most lists have a first."""
    label = split.dataset.columns.get("label", "")
    lowest = split.dataset.groups.min(split.dataset.labels)
    if is_place(label) and max(split.grades) > 1 and np.mean(lowest == 1) > 0.5:
        zero = '"0": 0, ' if 0 in split.grades else ""
        best = "as a place 1 is the best, as a label the worst"
        text = f"the label {label} is named like a place in a list: {best}"
        cure = f'reverse it with `grades: {{{zero}"1": 3, "2": 2, "3": 1, ">=4": 0}}` under `data:`'
        yield Caution("inverted-label", "warning", text, cure, split.name)


def _unlike_columns(first: SplitCard, split: SplitCard) -> Iterator[Caution]:
    """Yield the caution on columns of another split that cannot be those of the first."""
    place = f"{first.name} and {split.name}"
    if split.feature_names != first.feature_names:
        text = f"{count_of(first.n_features, 'feature')} against {split.n_features}"
        cure = "name the features, or set `n_features`, so that a column means the same everywhere"
        yield Caution("different-features", "error", text, cure, place)
        return
    beyond = is_of_another_range(*_ranges(split), *_ranges(first))
    outside = [first.feature_names[column] for column in np.flatnonzero(beyond)]
    if outside:
        text = f"values of {_names(outside)} in {split.name} exceed ten times their range in {first.name}"
        cure = "check that both come from the same code and have the same units"
        yield Caution("other-range", "warning", text, cure, place)


def _ranges(split: SplitCard) -> NDArray[np.float64]:
    """Return the lowest and the highest value of each feature, (2, n_features)."""
    return np.array(
        [[feature.low for feature in split.features], [feature.high for feature in split.features]]
    )


def _places(split: SplitCard, features_option: str) -> Iterator[Caution]:
    """Yield the caution on features that look like the place in a list, by their values or their names."""
    by_fact = [
        feature.name for feature in split.features if feature.like_ranks and split.n_queries >= FEW_QUERIES
    ]
    by_name = [
        feature.name for feature in split.features if _is_named_place(feature) and feature.name not in by_fact
    ]
    names = [*by_fact, *by_name]
    if not names:
        return
    option = ""
    if split.dataset.columns and split.dataset.positions is None:
        option = f" (then `position: {names[0]}`)"
    leaks = f"it leaks if it is the list that users saw{option}"
    cure = (
        f"{leaks}, but is fine if it is a first stage's rank: {_identity_cure(split, names, features_option)}"
    )
    reasons = [
        (by_fact, "counts", "the rows of most queries from 1 or 0 on, as ranks do"),
        (by_name, "is", "named like a place in a list"),
    ]
    yield from _joint_caution("position-feature", split.name, reasons, cure)


def _is_named_place(feature: FeatureFacts) -> bool:
    if is_place(feature.name):
        return True
    is_count = feature.whole and feature.low >= 0 and feature.high - feature.low > 1
    return is_count and feature.highest_per_row <= FARTHEST and has_place_word(feature.name)


def _ids(split: SplitCard, features_option: str) -> Iterator[Caution]:
    """Yield the caution on features that look like numbers of documents, rows, users or days."""
    rest = [feature for feature in split.features if not (feature.like_ranks or _is_named_place(feature))]
    judged = [feature for feature in rest if split.n_queries >= FEW_QUERIES and not _leaks(split, feature)]
    of_documents = [feature.name for feature in judged if _is_id(feature)]
    of_rows = [feature.name for feature in judged if _is_row_number(feature)]
    times = [feature.name for feature in judged if feature.like_times]
    by_fact = {*of_documents, *of_rows, *times}
    by_name = [feature.name for feature in rest if _is_named_id(feature) and feature.name not in by_fact]
    reasons = [
        (
            of_documents,
            "looks",
            "like document numbers: whole, unique within a query, repeated in other queries, and in an "
            "uninformative order",
        ),
        (
            [name for name in of_rows if name not in (*of_documents, *times)],
            "looks",
            "like row or document numbers: whole, nearly all unique, and in an uninformative order",
        ),
        (times, "looks", "like dates or times"),
        (by_name, "is", "named like the number of a user, a document, a row or a day"),
    ]
    leave_out = _identity_cure(split, [*by_fact, *by_name], features_option)
    cure = f"a model memorises such numbers, and new queries have other ones: {leave_out}"
    yield from _joint_caution("id-feature", split.name, reasons, cure)


def _is_named_id(feature: FeatureFacts) -> bool:
    return feature.whole and feature.high - feature.low > 1 and may_be_id(feature.name)


def _joint_caution(
    kind: str, place: str, reasons: list[tuple[list[str], str, str]], cure: str
) -> Iterator[Caution]:
    """Yield one warning for all features of a kind, each with its reason: names, a verb and the fact."""
    texts = [
        caution.text
        for names, verb, fact in reasons
        for caution in _feature_cautions(names, kind, "warning", "", verb, fact, "")
    ]
    if texts:
        yield Caution(kind, "warning", "; ".join(texts), cure, place)


def _negative_labels(card: DataCard) -> Iterator[Caution]:
    """Yield one note for all splits."""
    splits = [split for split in card.splits if split.dataset.judgments.lowest < 0]
    if not splits:
        return
    lowest = min(split.dataset.judgments.lowest for split in splits)
    n_below = sum(n for split in splits for label, n in split.grades.items() if label < 0)
    rows = f"{n_below:,} of {count_of(sum(split.n_rows for split in splits), 'row')}"
    text = f"labels go down to {lowest:g} ({rows} are below 0), but ndcg and other metrics need grades"
    column = splits[0].dataset.columns.get("label", "COLUMN")
    rule = f"`relevance: {{mode: quantiles, column: {column}, bins: 5}}`"
    cure = (
        f"{rule} makes grades of returns in a table, `unjudged: -1` marks -1 as not judged; spearman and "
        "mean_label take any label"
    )
    yield Caution("negative-labels", "note", text, cure, ", ".join(split.name for split in splits))


def _labels(split: SplitCard) -> Iterator[Caution]:
    label = split.dataset.columns.get("label", "")
    share = sum(n for grade, n in split.grades.items() if grade > 1) / split.n_rows
    if share > MOST_ROWS and event_weight(label) is not None:
        yield from (replace(caution, place=split.name) for caution in event_counts({label: share}))
    yield from nearly_all_relevant(split.name, split.dataset.judgments)
    yield from _grades(split)


def _grades(split: SplitCard) -> Iterator[Caution]:
    judgments = split.dataset.judgments
    highest = float(judgments.pool.labels.max())
    are_values = judgments.lowest < 0  # such as returns
    if max(split.grades) == 0 and not are_values:
        text, cure = "no document is relevant", "check the labels"
        if highest > 0:
            text = "no candidate is relevant, because retrieval missed all relevant documents"
            cure = "check the retrieval, and that both sides spell document ids alike"
        yield Caution("nothing-relevant", "error", text, cure, split.name)
        return
    if not are_values:
        yield from _steep_grades(split, highest)
    if len(split.grades) == 1:
        documents = "documents" if judgments.missed is None else "candidates"
        cure = "include documents that are not relevant"
        yield Caution("one-grade", "error", f"all {documents} have the same label", cure, split.name)
    elif split.n_several_grades >= 5 and split.n_sorted > SORTED_SHARE * split.n_several_grades:
        of_all = f"{split.n_sorted:,} of {count_of(split.n_several_grades, 'query')}"
        cure = "shuffle the rows, or use ties=expected, because tools that keep this order for ties inflate metrics"
        text = f"in {of_all} the documents are sorted by label"
        yield Caution("sorted-labels", "warning", text, cure, split.name)
    if not are_values:
        yield from _barren_queries(split)


def _steep_grades(split: SplitCard, highest: float) -> Iterator[Caution]:
    if highest < STEEP_GRADE:
        return
    gain = f"{2 ** min(highest, 1000) - 1:,.4g} times as much as grade 1"
    n_at_top = int(np.count_nonzero(split.dataset.judgments.pool.labels == highest))
    text = f"with exponential gain grade {highest:g} ({count_of(n_at_top, 'document')}) weighs {gain}"
    cure = "use ndcg(gain=linear), or map the labels to grades such as 0 to 4 with data.grades"
    yield Caution("steep-gain", "error" if highest > 31 else "warning", text, cure, split.name)


def _barren_queries(split: SplitCard) -> Iterator[Caution]:
    share = split.n_without_relevant / split.n_queries
    if share > 0.1:
        of_all = f"{split.n_without_relevant:,} of {count_of(split.n_queries, 'query')}"
        cure = "compare only numbers with the same rule, because tools count such queries as 0, as 1 or not at all"
        text = f"{of_all} ({share:.0%}) have no relevant document"
        yield Caution("without-relevant-documents", "note", text, cure, split.name)


def _features(split: SplitCard, features_option: str) -> Iterator[Caution]:
    yield from _telling_features(split, features_option)
    constant = [feature.name for feature in split.features if feature.constant]
    cure = "harmless; they can be left out"
    yield from _feature_cautions(
        constant, "constant-features", "note", split.name, "has", "one value in all rows", cure
    )
    twins = [feature.name for feature in split.features if feature.duplicate_of and not feature.constant]
    fact, cure = "another feature in all rows", "harmless to trees; importance is shared between the copies"
    yield from _feature_cautions(twins, "duplicate-features", "note", split.name, "repeats", fact, cure)
    absent = [feature.name for feature in split.features if feature.n_missing > 0.5 * split.n_rows]
    fact, cure = "missing in more than half of the rows", "check whether that is intended"
    yield from _feature_cautions(absent, "missing-values", "note", split.name, "is", fact, cure)


def _telling_features(split: SplitCard, features_option: str) -> Iterator[Caution]:
    """Yield cautions on features that rank, or tell relevant documents, as if made from the labels."""
    leaks = [feature for feature in split.features if _leaks(split, feature)]
    leaks.sort(key=lambda feature: -feature.ndcg)
    names = [feature.name for feature in leaks]
    if leaks:
        fact = f"with NDCG@10 of {leaks[0].ndcg:.4f} (random order: {split.random_ndcg:.4f})"
        cure = _outcome_cure(names, features_option, "made from the labels or known only after the fact")
        yield from _feature_cautions(names, "leaking-feature", "error", split.name, "alone ranks", fact, cure)
    if split.n_queries < FEW_QUERIES:
        return
    rest = [feature for feature in split.features if feature.name not in names]
    only = [feature.name for feature in rest if feature.n_only_relevant]
    fact = "non-zero only in relevant documents"
    yield from _feature_cautions(
        only, "outcome-feature", "error", split.name, "is", fact, _outcome_cure(only, features_option)
    )
    aucs = {
        feature.name: feature.auc for feature in rest if feature.auc > OUTCOME and feature.name not in only
    }
    fact = f"relevant documents with an AUC of {max(aucs.values(), default=0):.4f}"
    cure = _outcome_cure([*aucs], features_option)
    yield from _feature_cautions([*aucs], "outcome-feature", "warning", split.name, "alone tells", fact, cure)


def _rows(split: SplitCard) -> Iterator[Caution]:
    share = split.n_forced_ties / split.n_rows
    if split.n_forced_ties > 0.01 * split.n_rows:
        rows = f"{count_of(split.n_forced_ties, 'row')} ({share:.1%})"
        text = f"{rows} have the features of another row of their query, but another label"
        severity: Severity = "warning" if split.n_forced_ties > 0.1 * split.n_rows else "note"
        cure = "no model can tell them apart by these features"
        yield Caution("forced-ties", severity, text, cure, split.name)
    yield from _equal_rows(split)
    if split.n_single == split.n_queries:
        column = split.dataset.columns.get("query", "")
        text = "all queries have a single document"
        named = f"`query: {column}`" if column else "that"
        cure = f"is {named} the right column? the rows of a list share its value"
        yield Caution("single-document-queries", "error", text, cure, split.name)
    elif split.n_single > 0.1 * split.n_queries:
        text = f"{split.n_single:,} of {count_of(split.n_queries, 'query')} have a single document"
        cure = "they are always ranked perfectly and lift every mean"
        if split.dataset.judgments.missed is not None:
            cure = "every order of them is equally good"
        yield Caution("single-document-queries", "note", text, cure, split.name)


def _equal_rows(split: SplitCard) -> Iterator[Caution]:
    """Yield the caution on rows of a query with equal features and labels, where no ids show different documents."""
    if split.dataset.judgments.document_ids is not None:
        return
    if split.n_equal_rows <= 2 * split.n_forced_ties:  # features that tell few documents apart
        return
    share = split.n_equal_rows / split.n_rows
    n_relevant = int(np.count_nonzero(split.dataset.labels > 0))
    n_others, equal_others = split.n_rows - n_relevant, split.n_equal_rows - split.n_equal_relevant
    of_relevant, of_others = (split.n_equal_relevant, n_relevant), (equal_others, n_others)
    with_label = _more_often(of_relevant, of_others) or _more_often(of_others, of_relevant)
    if share < EQUAL_SHARE and not with_label:
        return
    verb = "repeats" if split.n_equal_rows == 1 else "repeat"
    text = f"{count_of(split.n_equal_rows, 'row')} ({share:.1%}) {verb} another row of "
    text += f"their query, label included: {split.n_equal_relevant:,} of {count_of(n_relevant, 'relevant document')} "
    text += f"and {equal_others:,} of {n_others:,} others"
    cure = "look for a join that repeats rows, since repeated documents count several times; or name the column of "
    cure += "documents (`document_id`), which must differ within a query"
    yield Caution("equal-rows", "warning", text, cure, split.name)


def _more_often(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Return whether far more of the first documents are repeated than of the second: (repeated, all) of each."""
    (n_first, total_first), (n_second, total_second) = first, second
    return n_first >= FEWEST_EQUAL and n_first * total_second >= TIMES_EQUAL * (n_second + 1) * total_first


def _feature_cautions(
    names: list[str], kind: str, severity: Severity, place: str, verb: str, fact: str, cure: str
) -> Iterator[Caution]:
    """Yield a caution about features, if there are any; the verb is that of a single feature."""
    if names:
        if len(names) > 1:
            verb = _MANY.get(verb) or verb.removesuffix("s")
        text = f"{_names(names)} {verb} {fact}"
        yield Caution(kind, severity, text, cure, place)


def _features_option(card: DataCard) -> str:
    """Return the line of the experiment's file for the other features; files without names of columns have none."""
    first = card.splits[0]
    if not first.dataset.columns:
        return "write the files without it"
    suspected = suspects(card)
    return features_line([name for name in first.feature_names if name not in suspected])


def _outcome_cure(
    names: Sequence[str], features_option: str, suspicion: str = "known only after the fact"
) -> str:
    """Return the cure for features that may know the label."""
    if len(names) == 1:
        return f"check whether it is {suspicion}, and leave it out: {features_option}"
    return f"check whether they are {suspicion}, and leave them out: {features_option}"


def _identity_cure(split: SplitCard, names: Sequence[str], features_option: str) -> str:
    """Return the cure for features that stand for a place or an id: left out, or named in the experiment's file."""
    if not split.dataset.columns:
        return f"if that is not intended, {features_option}"
    if len(names) == 1:
        return f"leave it out ({features_option}), or name it under `features:` if it is intended"
    return f"leave them out ({features_option}), or name them under `features:` if they are intended"


def suspects(card: DataCard) -> set[str]:
    """Return the features that may know the label, or stand for a place, a document, a row or a time."""
    first = card.splits[0]

    def is_suspect(split: SplitCard, feature: FeatureFacts) -> bool:
        tells = feature.n_only_relevant or feature.tells_relevant or feature.auc > OUTCOME
        stands_for = not first.dataset.features_named and (
            _is_id(feature) or _is_row_number(feature) or feature.like_times or feature.like_ranks
        )
        return split.n_queries >= FEW_QUERIES and bool(tells or stands_for or _leaks(split, feature))

    def has_suspect_name(feature: FeatureFacts) -> bool:
        return is_outcome(feature.name) or _is_named_place(feature) or _is_named_id(feature)

    suspected = {
        feature.name for split in card.splits for feature in split.features if is_suspect(split, feature)
    }
    if not first.dataset.features_named:
        suspected |= {feature.name for feature in first.features if has_suspect_name(feature)}
    return suspected


def _leaks(split: SplitCard, feature: FeatureFacts) -> bool:
    return feature.ndcg > LEAK and split.random_ndcg < 0.9 and split.n_queries >= FEW_QUERIES


def _is_id(feature: FeatureFacts) -> bool:
    return feature.like_ids and feature.auc < ORDERED


def _is_row_number(feature: FeatureFacts) -> bool:
    return feature.like_row_numbers and feature.auc < ORDERED


def _names(names: list[str]) -> str:
    listed = shortened(names, 5)
    return f"{count_of(len(names), 'feature')} ({listed})" if len(names) > 1 else f"feature {listed}"
