"""Is the score that was served the model's? The logged features are scored again by the stored model.

What is tested is the share of rows with another score, window by window, by queries.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.stats.two_samples import Estimate, Sample, mean_estimate
from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.data.columns import coded, numbers_of
from ltr_harness.data.judgments import Judgments
from ltr_harness.data.logs.contract import THREADS, LogRows
from ltr_harness.data.readers.rows import remap_codes
from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.experiments.runs import Run, load_run
from ltr_harness.metrics import bind
from ltr_harness.monitoring.calendar import Cut
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.config import Parity as ParityRule
from ltr_harness.monitoring.periods import cluster_codes
from ltr_harness.monitoring.queries import column_of, columns_of
from ltr_harness.monitoring.result import (
    MonitorResult,
    Parity,
    ParityExample,
    ParityFeature,
    ParityWindow,
    table_of,
)
from ltr_harness.monitoring.stats.several_samples import bonferroni
from ltr_harness.report.blocks import Block, Column, Heading, Paragraph

_PIECE_ROWS = 200_000  # rows
_MAX_EXAMPLES, _MAX_FEATURES = 5, 5
_MIN_MORE_MISSING = 0.05  # share of rows, between queries that differ and the others


class ServedModel(NamedTuple):
    """The model that should have given the logged scores, and the standard deviation of its scores on test rows."""

    run: Run
    spread: float


@lru_cache(maxsize=4)
def served_model(path: str, trust: bool) -> ServedModel:
    """Read the stored model, once in a process; refuse one that scores no features, or whose code nobody trusts."""
    run = load_run(Path(path), trust=trust)
    found = ""
    if run.record.status != "complete":
        found = f"failed ({run.record.error}) and has no model"
    elif run.record.ranker in ("random", "scores"):
        found = f"has no model of features: its ranker is {run.record.ranker}"
    if found:
        raise DataError(Problem(path, found, "a run of a model that scores features"))
    try:
        run.model  # noqa: B018 refused before logs are read, which may take long
    except UsageError as error:
        flag, setting = "--trust (in Python: trust=True)", "parity: {trust: true}"
        problems = [replace(problem, cure=problem.cure.replace(flag, setting)) for problem in error.problems]
        raise type(error)(problems) from None
    scores = run.score_columns("score")["score"]
    finite_scores = scores[np.isfinite(scores)]
    return ServedModel(run, float(finite_scores.std()) if finite_scores.size else 0.0)


def feature_columns(parity: ParityRule) -> dict[str, str]:
    """Map each feature of the model, in its order, to the log's column; refuse names that the model lacks."""
    run = served_model(parity.model, parity.trust).run
    features, found = run.record.features, f"no feature of {run.path.name}"
    unknown = {name: did_you_mean(name, features) for name in parity.features if name not in features}
    UsageError.refuse(Problem(f"parity.features: {n}", found, cure=cure) for n, cure in unknown.items())
    return {name: parity.features.get(name, name) for name in features}


def refuse_unlogged(parity: ParityRule, columns: tuple[str, ...], log: str) -> None:
    """Refuse a log that lacks features of the model, naming those without a column."""
    columns_of_features, run = feature_columns(parity), served_model(parity.model, parity.trust).run
    lacking = [column for column in columns_of_features.values() if column not in columns]
    if not lacking:
        return
    named = ", ".join(map(repr, lacking[:5]))
    if len(lacking) > 5:
        named += " …"
    model = f"{count_of(len(columns_of_features), 'feature')} of {run.path.name}"
    cure = f"name columns under parity.features; {did_you_mean(lacking[0], columns)}"
    found = f"lacks {len(lacking)} of the {model}: {named}"
    raise DataError(Problem(log, found, "the features as the model was given them", cure))


def parity_of_rows(
    rows: LogRows, judgments: Judgments, keep: Bools | None, primary: Floats, config: MonitorConfig
) -> dict[str, NDArray[Any]]:
    """Compare the logged scores with the model's in every query; `keep` is (n_rows,), `primary` (n_queries,)."""
    parity = config.parity
    assert parity is not None
    logged = rows.numbers(parity.score or str(config.columns.score))
    (run, spread), columns = served_model(parity.model, parity.trust), feature_columns(parity)
    scores, lacking = [], []
    for first_row in range(0, rows.table.num_rows, _PIECE_ROWS):  # a piece at a time, as features are many
        matrix = _matrix(rows.table.slice(first_row, _PIECE_ROWS), columns, run)
        scores.append(run.model.score(matrix))  # whose columns are in order, and whose inputs have a section
        lacking.append(np.isnan(matrix).any(axis=1))
    model, incomplete = (
        rows.in_canonical_order(np.concatenate(scores)),
        rows.in_canonical_order(np.concatenate(lacking)),
    )
    reach = parity.tolerance * np.maximum(np.abs(model), spread)
    scored = ~np.isnan(logged)
    with np.errstate(invalid="ignore"):  # infinities
        distance = np.abs(logged - model)
    close = (logged == model) | (np.isfinite(distance) & (distance <= reach))
    differ = scored & ~close
    start = rows.boundaries[:-1]

    def count(holds: Bools) -> NDArray[np.int32]:
        return np.add.reduceat(holds, start, dtype=np.int32)

    by_difference = np.lexsort(
        (-np.where(differ, np.nan_to_num(distance, nan=np.inf), -1.0), rows.query_of_row)
    )
    worst = by_difference[start]  # the row of each query with its largest difference
    n_differ = count(differ)
    has_difference = n_differ > 0
    effect = np.where(np.isnan(primary) | (count(scored) < rows.sizes), np.nan, 0.0)
    if has_difference.any():
        binding = bind([config.primary], judgments, THREADS)
        kept_rows = slice(None) if keep is None else keep
        by_logged, by_model = (
            binding.per_query(
                np.nan_to_num(row_scores[kept_rows], nan=-np.inf, posinf=np.inf, neginf=-np.inf)
            )[0]
            for row_scores in (logged, model)
        )
        effect = np.where(np.isnan(effect), np.nan, by_logged - by_model)
    # queries of which some neighbours in the logged order stand the other way round by the model, and surely
    order = np.lexsort((-model, -logged, rows.query_of_row))
    above, below, query = order[:-1], order[1:], rows.query_of_row[1:]
    with np.errstate(invalid="ignore"):
        is_turned = ~np.isnan(logged[below]) & (model[below] > model[above] + reach[below])
    reordered = np.zeros(rows.sizes.size, dtype=bool)
    reordered[query[is_turned & (query == rows.query_of_row[:-1])]] = True
    return {
        "rows": count(scored),  # with a logged score
        "differ": n_differ,
        "incomplete": count(scored & incomplete),
        "differ_incomplete": count(differ & incomplete),
        "logged": np.where(has_difference, logged[worst], np.nan),  # of the row that differs most
        "model": np.where(has_difference, model[worst], np.nan),
        "reordered": has_difference & reordered,
        "effect": effect,  # the metric by the logged scores less that by the model's
    }


def _matrix(table: Any, columns: dict[str, str], run: Run) -> NDArray[np.float32]:
    """Return the features as the model takes them, (n_rows, n_features)."""
    matrix = np.empty((table.num_rows, len(columns)), dtype=np.float32)
    for number, (name, column) in enumerate(columns.items()):
        texts = run.record.categories.get(name)
        if texts is None:
            with np.errstate(over="ignore"):  # too large for 32 bits: infinite, as in training
                matrix[:, number] = numbers_of(table[column], column)
            continue
        codes = coded(table[column].combine_chunks())
        if codes is None:
            found = f"has the type {table[column].type}"
            raise DataError(Problem(f"column {column!r}", found, f"texts: {name} is a category"))
        matrix[:, number] = remap_codes(*codes, texts)
    return matrix


def compare_served_scores(
    table: pd.DataFrame, cut: Cut, rule: ParityRule, config: MonitorConfig, alpha_share: float
) -> Parity:
    """Test the logged scores against the model's; a share of rows above `parity.max_share` is an alert."""
    all_rows, run = np.flatnonzero(~cut.stray[cut.codes]), served_model(rule.model, rule.trust).run.path.name
    parts = [_window("all", all_rows, table, config)]
    p = [parts[0].share.p]
    for window, members in enumerate(cut.members if len(cut) > 1 else ()):
        part = _window(cut.labels[window], members, table, config)
        parts.append(part)
        p.append(np.nan if cut.stray[window] or part.n_queries < config.windows.min_queries else part.share.p)
    level = alpha_share * config.compare.alpha
    whole_period, *windows = (
        replace(part, p_corrected=p_value, alert=bool(p_value <= level and part.share.value > rule.max_share))
        for part, p_value in zip(parts, bonferroni(p).tolist(), strict=True)
    )
    unscored = column_of(table, "n_items") - column_of(table, "parity:rows")
    return Parity(
        model=run,
        tolerance=rule.tolerance,
        max_share=rule.max_share,
        n_unscored=int(unscored[all_rows].sum(dtype=np.int64)),
        whole=whole_period,
        windows=tuple(windows),
        features=_features(table, all_rows),
        examples=_examples(table, cut, all_rows),
        verdict=_sentence(whole_period, run, config),
    )


def _window(label: str, queries: Ints, table: pd.DataFrame, config: MonitorConfig) -> ParityWindow:
    column = {name: values[queries] for name, values in columns_of(table, "parity").items()}
    rows, differ = (column[name].astype(np.float64) for name in ("rows", "differ"))
    has_scores, has_difference = rows > 0, differ > 0
    with np.errstate(invalid="ignore"):
        distances = np.abs(column["logged"] - column["model"])[has_difference]
    effect = column["effect"][~np.isnan(column["effect"])]
    equal_rows = column["rows"] - column["differ"]
    cluster = column_of(table, "cluster")
    clusters = None if cluster is None else cluster_codes(cluster)[queries][has_scores]
    share = Estimate(float("nan"))
    if has_scores.any():  # a ratio, whose error goes by what each query pulls it
        assert config.parity is not None
        n, value = rows[has_scores], float(differ[has_scores].sum() / rows[has_scores].sum())
        linearized = value + (differ[has_scores] - value * n) / n.mean()
        beyond = Sample(linearized - config.parity.max_share, clusters)
        estimate = mean_estimate(beyond, config.confidence, "rise")
        reach = estimate.high - estimate.value
        low, high = np.clip([value - reach, value + reach], 0.0, 1.0).tolist()
        share = replace(estimate, value=value, low=low, high=high)
    return ParityWindow(
        label=label,
        n_queries=int(has_scores.sum()),
        n_rows=int(rows.sum()),
        share=share,
        largest_difference=float(distances.max(initial=0.0)),
        median_difference=float(np.median(distances)) if distances.size else 0.0,
        reordered=_ratio(column["reordered"], has_scores),
        effect=float(effect.mean()) if effect.size else float("nan"),
        incomplete=_ratio(column["differ_incomplete"], column["differ"]),
        incomplete_others=_ratio(column["incomplete"] - column["differ_incomplete"], equal_rows),
    )


def _ratio(part: NDArray[np.integer], counts: NDArray[np.integer]) -> float:
    total = int(counts.sum(dtype=np.int64))
    return int(part.sum(dtype=np.int64)) / total if total else float("nan")


def _features(table: pd.DataFrame, queries: Ints) -> tuple[ParityFeature, ...]:
    """Return the watched features whose absence goes with other scores."""
    has_difference = column_of(table, "parity:differ")[queries] > 0
    items = column_of(table, "n_items")[queries]
    if not has_difference.any() or has_difference.all():
        return ()
    features = []
    for name, shares in columns_of(table, "feature").items():
        if name.endswith(":missing"):
            rows = shares[queries] * items
            share_differing, share_of_others = (
                float(rows[side].sum() / items[side].sum()) for side in (has_difference, ~has_difference)
            )
            features.append(ParityFeature(name.removesuffix(":missing"), share_differing, share_of_others))
    features.sort(key=lambda f: (-abs(f.missing - f.missing_others), f.name))
    return tuple(
        f for f in features[:_MAX_FEATURES] if abs(f.missing - f.missing_others) >= _MIN_MORE_MISSING
    )


def _examples(table: pd.DataFrame, cut: Cut, queries: Ints) -> tuple[ParityExample, ...]:
    """Return the first queries in time, or by their ids, with a row that differs."""
    differing = queries[column_of(table, "parity:differ")[queries] > 0]
    time = column_of(table, "time")
    if time is not None:
        differing = differing[np.argsort(time[differing], kind="stable")]
    logged, model = (column_of(table, f"parity:{name}") for name in ("logged", "model"))
    ids, labels = table["query_id"], cut.labels
    return tuple(
        ParityExample(str(ids.iloc[i]), labels[cut.codes[i]], float(logged[i]), float(model[i]))
        for i in differing[:_MAX_EXAMPLES]
    )


def _sentence(parity: ParityWindow, run: str, config: MonitorConfig) -> str:
    rows = count_of(parity.n_rows, "row")
    if not parity.n_rows:
        return "No row has a logged score."
    if parity.share.value == 0:
        return f"The logged score is that of {run} in all of {rows}."
    n = round(parity.share.value * parity.n_rows)
    effect = (
        "" if parity.effect != parity.effect else f", which moved {config.primary} by {parity.effect:+.4f}"
    )
    return (
        f"{n:,} of {rows} ({parity.share_text}) differ from the score of {run} for the logged features; it would "
        f"have ordered {100 * parity.reordered:.1f} % of the queries differently{effect}."
    )


def section(result: MonitorResult) -> list[Block]:
    parity = result.parity
    assert parity is not None
    finding = f"{parity.whole.share.value:.1%} of rows differ"
    lacking = parity.whole.incomplete > 0 or parity.whole.incomplete_others > 0
    p = f"That it is more than {100 * parity.max_share:g} %, by Bonferroni."
    median = "Median over queries with such rows, each by its largest difference."
    effect = f"On {result.primary}: by the logged scores, less by the model's."
    incomplete = Column("Incomplete", "percent", hint="Share of the differing rows that lack a feature.")
    others_column = Column("Others", "percent", hint="Share of the other rows that lack a feature.")
    reordered = "Queries that the model would have ordered differently."
    scores = table_of(
        "parity",
        f"Logged scores against those of {parity.model} for the logged features.",
        (*parity.windows, parity.whole),
        (Column("Window"), "label"),
        (Column("Verdict"), "state"),
        (Column("Rows", "count"), "n_rows"),
        (Column("Differ", "percent", hint="Share of the rows."), lambda part: part.share.value),
        (Column(result.one_sided_name), lambda part: part.share_interval),
        (Column("p corrected", "p", hint=p), "p_corrected"),
        (Column("Largest", hint="Difference of scores."), lambda part: f"{part.largest_difference:.3g}"),
        (Column("Median", hint=median), lambda part: f"{part.median_difference:.3g}"),
        (Column("Reordered", "percent", hint=reordered), "reordered"),
        (Column("Effect", "difference", hint=effect), "effect"),
        (incomplete, "incomplete") if lacking else None,
        (others_column, "incomplete_others") if lacking else None,
        footnotes=(
            f"Scores differ where they are further apart than {parity.tolerance:g} times the model's score, or the "
            "standard deviation of its scores on test rows where that is larger.",
        ),
    )
    blocks: list[Block] = [
        Heading("Served scores", finding=finding, matters=bool(parity.alerts) or not result.changes),
        Paragraph(parity.verdict, "warning" if parity.alerts else "lead"),
        scores,
    ]
    if n := parity.n_unscored:
        text = f"{count_of(n, 'row')} {plural('has', n)} no logged score: not compared."
        blocks.append(Paragraph(text, "note"))
    if parity.features:
        features = table_of(
            "parity_features",
            "Watched features whose absence goes with other scores: share of rows in which they are missing.",
            parity.features,
            (Column("Feature", "code"), "name"),
            (Column("Queries with rows that differ", "percent"), "missing"),
            (Column("Others", "percent"), "missing_others"),
        )
        blocks.append(features)
    if parity.examples:
        examples = table_of(
            "parity_examples",
            "The first queries with rows that differ, each with the row that differs most.",
            parity.examples,
            (Column("Query", "code"), "query"),
            (Column("Window"), "window"),
            (Column("Logged"), lambda e: f"{e.logged:.6g}"),
            (Column("Model"), lambda e: f"{e.model:.6g}"),
            (Column("Difference"), lambda e: f"{e.logged - e.model:+.3g}"),
        )
        blocks.append(examples)
    return blocks
