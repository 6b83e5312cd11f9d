"""Were the model's scores served? The share of rows with another score, window by window, tested by queries."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ltr_harness.monitoring.analysis.periods import interval, own_clusters
from ltr_harness.monitoring.analysis.windows import Cut
from ltr_harness.monitoring.config import MonitorConfig
from ltr_harness.monitoring.log.parity import served
from ltr_harness.monitoring.queries import column_of, columns_of
from ltr_harness.monitoring.results.answers import Interval
from ltr_harness.monitoring.results.parity import Parity, ParityExample, ParityFeature, ParityWindow
from ltr_harness.stats.corrections import bonferroni
from ltr_harness.stats.two_samples import Sample, mean_estimate
from ltr_harness.wording import count_of

_EXAMPLES, _FEATURES = 5, 5
_MORE_MISSING = 0.05  # share of rows, between queries that differ and the others

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def served_scores(table: pd.DataFrame, cut: Cut, config: MonitorConfig, spent: float) -> Parity | None:
    """The logged scores against the model's; None where nobody asked.

    An alert needs a share of rows above `parity.max_share`, and a corrected p of that below `compare.alpha`: the
    share is a ratio of sums over queries, whose chance is that of queries or, where they are known, users.
    """
    rule = config.parity
    if rule is None:
        return None
    everything = np.flatnonzero(~cut.stray[cut.codes])
    whole = _window("all", everything, table, config)
    windows = [
        _window(cut.labels[at], members, table, config)
        for at, members in enumerate(cut.members)
        if len(cut) > 1
    ]
    tested = [True]
    tested += [
        w.n_queries >= config.windows.min_queries and not cut.stray[at] for at, w in enumerate(windows)
    ]
    parts = [whole, *windows]
    p = bonferroni([part.share.p if test else np.nan for part, test in zip(parts, tested, strict=True)])
    whole, *windows = (
        dataclasses.replace(
            part,
            p_corrected=corrected,
            alert=bool(corrected <= spent * config.compare.alpha and part.share.value > rule.max_share),
        )
        for part, corrected in zip(parts, p.tolist(), strict=True)
    )
    columns = columns_of(table, "parity")
    run = served(rule).run.path.name
    features = _features(table, everything)
    return Parity(
        model=run,
        tolerance=rule.tolerance,
        max_share=rule.max_share,
        n_unscored=int((column_of(table, "n_items") - columns["rows"])[everything].sum(dtype=np.int64)),
        whole=whole,
        windows=tuple(windows),
        features=features,
        examples=_examples(table, cut, everything),
        verdict=_sentence(whole, run, config),
    )


def _window(label: str, at: Codes, table: pd.DataFrame, config: MonitorConfig) -> ParityWindow:
    column = {name: values[at] for name, values in columns_of(table, "parity").items()}
    rows, differ = (column[name].astype(np.float64) for name in ("rows", "differ"))
    known, some = rows > 0, differ > 0
    with np.errstate(invalid="ignore"):
        apart = np.abs(column["logged"] - column["model"])[some]
    effect = column["effect"][~np.isnan(column["effect"])]
    others = column["rows"] - column["differ"]
    cluster = column_of(table, "cluster")
    clusters = None if cluster is None else own_clusters(cluster)[at][known]
    return ParityWindow(
        label=label,
        n_queries=int(known.sum()),
        n_rows=int(rows.sum()),
        share=_share(rows[known], differ[known], clusters, config),
        largest=float(apart.max(initial=0.0)),
        typical=float(np.median(apart)) if apart.size else 0.0,
        reordered=_ratio(column["reordered"], known),
        effect=float(effect.mean()) if effect.size else float("nan"),
        incomplete=_ratio(column["differ_incomplete"], column["differ"]),
        incomplete_others=_ratio(column["incomplete"] - column["differ_incomplete"], others),
    )


def _share(rows: Floats, differ: Floats, clusters: Codes | None, config: MonitorConfig) -> Interval:
    """Of the rows, those that differ: a ratio, whose error goes by what each query pulls it."""
    assert config.parity is not None
    if not rows.size:
        return Interval(float("nan"))
    share, bound = differ.sum() / rows.sum(), config.parity.max_share
    pulled = share + (differ - share * rows) / rows.mean()
    found = interval(mean_estimate(Sample(pulled - bound, clusters), config.compare.confidence, "rise"))
    reach = found.high - found.value
    low, high = np.clip([share - reach, share + reach], 0.0, 1.0).tolist()
    return dataclasses.replace(found, value=float(share), low=low, high=high)


def _ratio(part: NDArray[np.integer], whole: NDArray[np.integer]) -> float:
    total = int(whole.sum(dtype=np.int64))
    return int(part.sum(dtype=np.int64)) / total if total else float("nan")


def _features(table: pd.DataFrame, at: Codes) -> tuple[ParityFeature, ...]:
    """Of the watched features, those whose absence goes with other scores."""
    some = column_of(table, "parity:differ")[at] > 0
    items = column_of(table, "n_items")[at]
    if not some.any() or some.all():
        return ()
    found = []
    for name, shares in columns_of(table, "feature").items():
        if name.endswith(":missing"):
            rows = shares[at] * items
            one, other = (float(rows[side].sum() / items[side].sum()) for side in (some, ~some))
            found.append(ParityFeature(name.removesuffix(":missing"), one, other))
    found.sort(key=lambda f: (-abs(f.missing - f.missing_others), f.name))
    return tuple(f for f in found[:_FEATURES] if abs(f.missing - f.missing_others) >= _MORE_MISSING)


def _examples(table: pd.DataFrame, cut: Cut, at: Codes) -> tuple[ParityExample, ...]:
    """The first queries in time, or by their ids, with a row that differs."""
    some = at[column_of(table, "parity:differ")[at] > 0]
    time = column_of(table, "time")
    if time is not None:
        some = some[np.argsort(time[some], kind="stable")]
    logged, model = (column_of(table, f"parity:{name}") for name in ("logged", "model"))
    return tuple(
        ParityExample(
            str(table["query_id"].iloc[i]), cut.labels[cut.codes[i]], float(logged[i]), float(model[i])
        )
        for i in some[:_EXAMPLES]
    )


def _sentence(whole: ParityWindow, run: str, config: MonitorConfig) -> str:
    rows = count_of(whole.n_rows, "row")
    if not whole.n_rows:
        return "No row has a logged score."
    if whole.share.value == 0:
        return f"The logged score is that of {run} in all of {rows}."
    n = round(whole.share.value * whole.n_rows)
    effect = "" if whole.effect != whole.effect else f", which moved {config.primary} by {whole.effect:+.4f}"
    return (
        f"{n:,} of {rows} ({whole.share_text}) have another score than {run} gives for the logged features; it would "
        f"have ordered {100 * whole.reordered:.1f} % of the queries otherwise{effect}."
    )
