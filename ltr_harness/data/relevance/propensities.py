"""Inverse propensity scoring: how likely users look at each rank, measured where ranks were random.

Clicks by rank of an ordinary log are *not* it: good items stand high, so rank 10 would get half its due. Where chance
decided who stood at rank 1, what makes items attractive cancels, and what is left is the page. What happened to a row,
divided by the probability of a look, is its relevance on average.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.text import count_of
from ltr_harness.data.arrays import Floats, Ints
from ltr_harness.data.columns import ArrowColumns
from ltr_harness.data.logs.contract import Contract, LogRows
from ltr_harness.data.logs.log import open_log
from ltr_harness.data.relevance.rule import Propensity, PropensityLog, Relevance
from ltr_harness.errors import Caution, DataError, Problem, all_of

PropensityByRank = dict[int, tuple[float, float]]

_CLICKS = 25  # fewer at a rank, and its propensity is off by a fifth or more
_SIGMAS = 5  # a shuffle this far from uniform is none
_ORDINARY = "clicks by rank of an ordinary log are not propensities; run the experiment, or give a table"


def estimated(rule: Propensity) -> Propensity:
    """Return the rule with its experiment replaced by the table that it measured; else the rule itself."""
    experiment = rule.estimate
    if experiment is None:
        return rule
    paths = [path for path in (experiment.path, experiment.baseline_path) if path is not None]
    pages = all_of([partial(_measure_propensities, path, experiment) for path in paths])
    tables, errors, sources = zip(*pages, strict=True)
    measured = {
        "table": tables[0],
        "errors": errors[0],
        "baseline_table": (),
        "baseline_errors": (),
        "source": rule.source or "; the baseline's from ".join(sources),
    }
    if experiment.baseline_path is not None:
        measured |= {"baseline_table": tables[1], "baseline_errors": errors[1]}
    return rule.model_copy(update={"estimate": None, **measured})


def from_swaps(lists: Ints, shown_ranks: Ints, original: Ints, clicked: Floats) -> PropensityByRank:
    """Estimate propensities from lists in which rank 1 was exchanged with another rank at random, or not.

    For every rank k, both items of the pair were shown in both orders. With r clicks per list,
    propensity(k) = (r_k untouched + r_k exchanged) / (r_1 untouched + r_1 exchanged): attractiveness cancels,
    whatever share of the lists was exchanged. {rank: (propensity, standard error of its logarithm)}; rank 1 has 1,
    ranks with fewer than 25 clicks are left out.

    Source: T. Joachims, A. Swaminathan, T. Schnabel, WSDM 2017.
    """
    partner = np.zeros(int(lists.max(initial=-1)) + 1, dtype=np.int64)
    partner[lists[shown_ranks == 1]] = original[shown_ranks == 1]
    at_one = np.zeros(partner.size)
    at_one[lists[shown_ranks == 1]] = clicked[shown_ranks == 1]
    ratios = {1: (1.0, 0.0)}
    for k in np.unique(partner[partner > 1]).tolist():
        is_at_k = shown_ranks == k
        arms = [is_at_k & (partner[lists] == other) for other in (1, k)]
        if not all(arm.any() for arm in arms) or sum(clicked[arm].sum() for arm in arms) < _CLICKS:
            continue
        rate_at_k, error_at_k = _rate([clicked[arm] for arm in arms])
        rate_at_1, error_at_1 = _rate([at_one[lists[arm]] for arm in arms])
        if rate_at_1 > 0:
            ratios[k] = rate_at_k / rate_at_1, float(np.hypot(error_at_k, error_at_1))
    return ratios


def from_random_order(shown_ranks: Ints, clicked: Floats) -> PropensityByRank:
    """Estimate propensities from lists whose top was shuffled: clicks by rank relative to rank 1, as `from_swaps`.

    Errors are of the logarithms of clicks: the one of rank 1 is in all propensities.
    """
    rates = {int(k): _rate([clicked[shown_ranks == k]]) for k in np.unique(shown_ranks)}
    measured_ranks = {k for k in rates if clicked[shown_ranks == k].sum() >= _CLICKS}
    first_rate = rates.get(1, (0.0, 0.0))[0]
    return {
        k: (rate / first_rate, error)
        for k, (rate, error) in rates.items()
        if first_rate > 0 and k in measured_ranks
    }


def _rate(arms: list[Floats]) -> tuple[float, float]:
    """Return the sum of the arms' click rates, and the standard error of its logarithm."""
    rate = sum(float(arm.mean()) for arm in arms)
    variance = sum(float(arm.var()) / arm.size for arm in arms)  # p (1 - p) / n each
    error = float(variance**0.5 / rate) if rate else 0.0
    return rate, error


def examination(rows: LogRows, ranks: Ints, rule: Propensity, contract: Contract) -> Floats | None:
    """Return each row's probability of a look (n_rows,), by its rank or from a column; None if values are invalid."""
    if rule.column:
        values = rows.numbers(rule.column)
        bad = ~((values > 0) & (values <= 1))
        name_row = lambda row: f"{rows.name(row)} ({rule.column})"  # noqa: E731
        return values if contract.check("propensity-invalid", bad, name_row) else None
    of_baseline = contract.log == "baseline" and rule.baseline_table
    table = np.array(rule.baseline_table if of_baseline else rule.table)
    contract.check("propensity-unknown", ranks > table.size, rows.name)
    return np.asarray(table[np.minimum(ranks, table.size) - 1])


def _measure_propensities(
    path: str, experiment: PropensityLog
) -> tuple[tuple[float, ...], tuple[float, ...], str]:
    """Return the table by rank relative to rank 1, the errors of its logarithms, and its source in words."""
    names = [experiment.query_id, experiment.rank, experiment.original, experiment.click]
    log = open_log(path, text_columns=[experiment.query_id])
    columns = ArrowColumns(log.read(names))
    lists = columns.category(experiment.query_id).codes.astype(np.int64)
    shown_ranks, original, clicks = map(columns.numbers, names[1:])
    ranks_good = [(r >= 1) & (r == np.floor(r)) & np.isfinite(r) for r in (shown_ranks, original)]
    bad = {
        "rows without a query id": lists < 0,
        f"rows whose {experiment.rank} is not an integer from 1 on": ~ranks_good[0],
        f"rows whose {experiment.original} is not an integer from 1 on": ~ranks_good[1],
        f"rows whose {experiment.click} is not a count": ~(clicks >= 0),
    }
    found = [
        f"{np.count_nonzero(is_bad):,} of {is_bad.size:,} {description}"
        for description, is_bad in bad.items()
        if is_bad.any()
    ]
    DataError.refuse(Problem(path, text) for text in found)
    rows = lists, shown_ranks.astype(np.int64), original.astype(np.int64), (clicks > 0).astype(np.float64)
    by_rank, n, how = (_estimate_from_swaps if experiment.design == "swaps" else _estimate_from_shuffles)(
        path, *rows
    )
    if len(by_rank) < 2:
        shortage, expected = (
            f"too few clicks, {int(rows[3].sum()):,}",
            f"{_CLICKS} at rank 1 and another rank",
        )
        raise DataError.at(path, shortage, expected, "a longer experiment")
    ranks = np.array(sorted(by_rank))
    all_ranks = np.arange(1, ranks[-1] + 1)
    # between measured ranks, a power of the rank
    measured = np.array([by_rank[k] for k in ranks.tolist()])
    curve = np.exp(np.interp(np.log(all_ranks), np.log(ranks), np.log(measured[:, 0])))
    errors = np.append(measured[0, 1], np.interp(np.log(all_ranks[1:]), np.log(ranks[1:]), measured[1:, 1]))
    interpolated_ranks = sorted({*all_ranks.tolist()} - {*by_rank})
    source = f"{how} in {count_of(n, 'list')}"
    if interpolated_ranks:
        source += f" (rank {', '.join(map(str, interpolated_ranks))} from its neighbours)"
    return tuple(np.minimum(curve, 1.0).tolist()), tuple(errors.tolist()), source


def _estimate_from_swaps(
    path: str, lists: Ints, shown_ranks: Ints, original: Ints, clicked: Floats
) -> tuple[PropensityByRank, int, str]:
    """Estimate propensities with `from_swaps`; refuse lists that are not swapped at random."""
    size = int(lists.max()) + 1
    first = np.zeros(size, dtype=np.int64)
    first[lists[shown_ranks == 1]] = original[shown_ranks == 1]
    k = first[lists]
    # an untouched list's rows stand where they stood; of an exchanged one, all but 1 and k do
    as_planned = np.where(
        shown_ranks == 1, original == k, np.where(shown_ranks == k, original == 1, original == shown_ranks)
    )
    odd = first == 0
    odd[lists[~as_planned]] = True
    partner_seen = np.zeros(size, dtype=bool)
    partner_seen[lists[(shown_ranks == k) & as_planned]] = True
    odd |= ~partner_seen
    of_all = f"of {count_of(size, 'list')}"
    if odd.any():
        found = f"{int(odd.sum()):,} {of_all} neither as ranked nor with rank 1 exchanged with one other rank"
        cure = "for a shuffled top, design: random_order"
        raise DataError.at(path, found, "two items exchanged, or none", cure)
    exchanged = int((first > 1).sum())
    if exchanged in (0, size):
        found, expected = (
            f"rank 1 was exchanged in {exchanged:,} {of_all}",
            "some lists exchanged and some not",
        )
        raise DataError.at(path, found, f"{expected}, at random", _ORDINARY)
    return from_swaps(lists, shown_ranks, original, clicked), size, "random swaps"


def _estimate_from_shuffles(
    path: str, lists: Ints, shown_ranks: Ints, original: Ints, clicked: Floats
) -> tuple[PropensityByRank, int, str]:
    """Estimate propensities with `from_random_order`; refuse an order that was not random."""
    n = int(np.max(shown_ranks, initial=0, where=shown_ranks != original))
    top = (shown_ranks <= n) & (np.bincount(lists[shown_ranks <= n], minlength=lists.max() + 1)[lists] == n)
    shown_ranks, original, clicked = shown_ranks[top], original[top], clicked[top]
    if n < 2 or not shown_ranks.size:
        found = "every item stands where it was ranked"
        raise DataError.at(path, found, "lists with a shuffled top", _ORDINARY)
    size = shown_ranks.size // n
    mean_ranks = (
        np.bincount(shown_ranks, original, minlength=n + 1)[1:]
        / np.bincount(shown_ranks, minlength=n + 1)[1:]
    )
    expected, error = (n + 1) / 2, np.sqrt((n**2 - 1) / 12 / size)
    worst = int(np.argmax(np.abs(mean_ranks - expected)))
    if abs(mean_ranks[worst] - expected) > _SIGMAS * error:
        found = f"items shown at rank {worst + 1} were ranked {mean_ranks[worst]:.2f} on average"
        found += f": the top {n} are not in random order"
        raise DataError.at(path, found, f"{expected:g}, as in a uniform shuffle", _ORDINARY)
    return from_random_order(shown_ranks, clicked), size, f"random order of the top {n}"


FOLDS = 5
_CHUNK = 1 << 16
_RIDGE = 1.0  # of standardised features: as much as one row


def inverse_propensity(gains: Floats, looked: Floats, clip: float) -> Floats:
    """Return gains over the probability of a look: y = g / max(p, clip).

    Unbiased for relevance where p >= clip. Where it is less, y is too small on average, by p / clip, and varies less.

    Source: T. Joachims, A. Swaminathan, T. Schnabel, WSDM 2017.
    """
    return gains / np.maximum(looked, clip)


def doubly_robust(gains: Floats, looked: Floats, predicted: Floats, clip: float) -> Floats:
    """Return a prediction, corrected by the gains: y = r + (g - p r) / max(p, clip).

    Unbiased where the probabilities are right and not clipped, and also where the prediction is right. Where p >= clip
    it is `inverse_propensity`; where less, the prediction stands in for what clipping takes away, so the clip can be
    high and labels vary little. With p <= max(p, clip) and r >= 0 no label is below 0.

    Source: H. Oosterhuis, TOIS 2023.
    """
    divisor = np.maximum(looked, clip)
    return predicted * (1 - looked / divisor) + gains / divisor


def cross_fitted(gains: Floats, looked: Floats, queries: Ints, features: NDArray[np.float32]) -> Floats:
    """Predict relevance by ridge regression of the other folds on p (1, z, z**2), z: standardised features."""
    mean = np.nan_to_num(np.nanmean(features, axis=0, dtype=np.float64)) if features.size else np.zeros(0)
    spread = np.nan_to_num(np.nanstd(features, axis=0, dtype=np.float64)) if features.size else np.zeros(0)
    chunks = [slice(start, start + _CHUNK) for start in range(0, gains.size, _CHUNK)]

    def design(rows: slice) -> Floats:
        z = np.nan_to_num((features[rows] - mean) / np.where(spread > 0, spread, 1.0))
        return np.column_stack((np.ones(len(z)), z, z**2))

    folds, n = queries % FOLDS, 1 + 2 * features.shape[1]
    squares, products = np.zeros((FOLDS, n, n)), np.zeros((FOLDS, n))
    for rows in chunks:
        seen = design(rows) * looked[rows, None]
        for fold in range(FOLDS):
            in_fold = folds[rows] == fold
            squares[fold] += seen[in_fold].T @ seen[in_fold]
            products[fold] += seen[in_fold].T @ gains[rows][in_fold]
    coefficients = np.empty((FOLDS, n))
    for fold in range(FOLDS):
        square, product = (np.delete(sums, fold, axis=0).sum(axis=0) for sums in (squares, products))
        coefficients[fold] = np.linalg.solve(square + _RIDGE * np.eye(n), product)
    predicted = np.concatenate([(design(rows) * coefficients[folds[rows]]).sum(axis=1) for rows in chunks])
    return np.asarray(np.clip(predicted, 0.0, gains.max(initial=0.0)))


def estimated_labels(
    gains: Floats,  # (n_rows,)
    rows: LogRows,
    ranks: Ints,  # (n_rows,)
    rule: Relevance,
    contract: Contract,
    model: tuple[Ints, NDArray[np.float32]] | None = None,  # (n_rows,)
) -> tuple[Floats, Floats | None]:
    """Return labels by the rule's estimator, and the weights of events; the gains themselves under another rule."""
    if not rule.estimates or rule.propensity is None:
        return gains, None
    if not rule.propensity.column and not contract.check("never-shown", ranks < 1, rows.name):
        return gains, None
    looked = examination(rows, ranks, rule.propensity, contract)
    if looked is None:
        return gains, None
    clip = rule.propensity.clip
    weights = np.where(gains > 0, 1 / np.maximum(looked, clip), 0.0)
    if model is None:
        return inverse_propensity(gains, looked, clip), weights
    return doubly_robust(gains, looked, cross_fitted(gains, looked, *model), clip), weights


def effective_size(weights: Floats) -> float:
    """Return Kish's effective sample size, (sum w)^2 / sum w^2. Shapes: `weights` (n,)."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def effective_weight(weights: Floats, clip: float) -> Caution:
    """Return a caution with the effective sample size of weighted rows. Shapes: `weights` (n_rows,)."""
    n, total = int(np.count_nonzero(weights)), float(weights.sum())
    clipped = float(weights[weights >= 1 / clip].sum()) / total if total else 0.0
    text = (
        f"{count_of(n, 'document')} with events weigh as much as {effective_size(weights):,.1f} seen equally "
        f"often; {clipped:.0%} of the weight is at the clip of {clip:g}"
    )
    return Caution("effective-weight", "note", text, place="relevance")
