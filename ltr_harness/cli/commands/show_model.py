"""`ltr-harness show importance|why`: what a stored model looks at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltr_harness.cli import data_source, options
from ltr_harness.cli.output import say
from ltr_harness.cli.tables import print_table
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.dataset import RankingDataset
    from ltr_harness.rankers.ranker import FittedModel
    from ltr_harness.runs import Run

_run = click.argument("run", type=click.Path(path_type=Path))


@click.command("importance")
@_run
@data_source.rows_of_run
@data_source.reader_option
@data_source.reader_options
@click.option("-m", "--metric", help="Whose loss is measured.  [default: the experiment's primary metric]")
@click.option(
    "--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Shuffles of each feature."
)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Features shown.")
@options.trust
@options.as_json
def importance(
    run: Path,
    data: Path | None,
    reader_name: str | None,
    reader_options: tuple[str, ...],
    metric: str | None,
    repeats: int,
    top: int,
    trust: bool,
    as_json: bool,
) -> int:
    """What the metric loses when a feature is shuffled, with the shares of gain and of splits.

    Intervals are over queries. Gain is measured in training and favours features with many values; the loss is
    measured on rows that the model was not trained on.
    """
    from ltr_harness.cli.stored_runs import on_scale_of
    from ltr_harness.metrics import parse_metric
    from ltr_harness.rankers.adapters import TreeModel
    from ltr_harness.runs.insight import permutation_importance

    stored, model, split = loaded(run, trust, data, reader_name, reader_options)
    (measured,) = on_scale_of(stored.record, [parse_metric(metric)] if metric else [], split.judgments)
    effects = permutation_importance(model, split, measured, repeats=repeats)
    shares: dict[str, dict[str, float]] = {}
    if isinstance(model, TreeModel):
        for kind in ("gain", "split"):
            values = model.importance(kind)
            total = max(float(values.sum()), 1e-300)
            shares[kind] = dict(zip(split.feature_names, (values / total).tolist(), strict=True))
    if as_json:
        listed = [
            {**one._asdict(), **{kind: share[one.feature] for kind, share in shares.items()}}
            for one in effects
        ]
        say(json.dumps({"metric": str(measured), "features": listed}, indent=2))
        return 0
    shown = effects[:top]
    rows = []
    for one in shown:
        parts = [f"{100 * share[one.feature]:.1f} %" for share in shares.values()]
        rows.append([one.feature, f"{one.loss:.4f}", f"{one.low:+.4f} {one.high:+.4f}", *parts])
    print_table(["feature", f"loss of {measured}", "95 % interval", *shares], rows)
    if len(effects) > top:
        say(f"{count_of(len(effects) - top, 'more feature')}; --top shows more", err=True)
    return 0


@click.command("why")
@_run
@data_source.rows_of_run
@data_source.reader_option
@data_source.reader_options
@click.option("--query", required=True, metavar="ID", help="The query.")
@click.option(
    "--rows",
    nargs=2,
    type=click.IntRange(min=0),
    metavar="A B",
    help="Two of its rows, from 0.  [default: the two ranked first]",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Features shown.")
@options.trust
@options.as_json
def why(
    run: Path,
    data: Path | None,
    reader_name: str | None,
    reader_options: tuple[str, ...],
    query: str,
    rows: tuple[int, int] | None,
    top: int,
    trust: bool,
    as_json: bool,
) -> int:
    """Why one document of a query ranks above another: the difference of their scores, feature by feature.

    SHAP values, computed by the library that trained the model; they sum to the difference of the scores.
    """
    import numpy as np

    from ltr_harness.runs import insight

    _, model, split = loaded(run, trust, data, reader_name, reader_options)
    if not rows:
        at = np.flatnonzero(split.groups.ids.astype(str) == query)
        first, end = (
            (split.groups.boundaries[at[0]], split.groups.boundaries[at[0] + 1]) if at.size else (0, 2)
        )
        order = np.argsort(-model.score(split.features[first:end]), kind="stable")
        rows = (int(order[0]), int(order[min(1, order.size - 1)]))
    a, b = rows
    score_a, score_b, reasons = insight.why(model, split, query, a, b)
    if as_json:
        listed = [reason._asdict() for reason in reasons]
        say(
            json.dumps(
                {"query": query, "rows": [a, b], "scores": [score_a, score_b], "reasons": listed}, indent=2
            )
        )
        return 0
    above = "above" if score_a > score_b else "below" if score_a < score_b else "level with"
    say(
        f"query {query}: row {a} ({score_a:.4f}) stands {above} row {b} ({score_b:.4f}), {score_a - score_b:+.4f}"
    )
    print_table(
        ["feature", f"row {a}", f"row {b}", "difference"],
        [
            [reason.feature, f"{reason.of_a:.6g}", f"{reason.of_b:.6g}", f"{reason.difference:+.4f}"]
            for reason in reasons[:top]
        ],
    )
    rest = sum(reason.difference for reason in reasons[top:])
    if reasons[top:]:
        say(f"{count_of(len(reasons) - top, 'more feature')} together {rest:+.4f}")
    return 0


def loaded(
    path: Path, trust: bool, data: Path | None, reader_name: str | None, reader_options: tuple[str, ...]
) -> tuple[Run, FittedModel, RankingDataset]:
    """The run, its model, and the rows to look at with the model's columns."""
    from ltr_harness.errors import UsageError
    from ltr_harness.runs import load_run

    run = load_run(path, trust=trust)
    if run.record.status != "complete":
        raise UsageError(f"{path}: this run failed ({run.record.error}); there is no model")
    if data is None:
        from ltr_harness.experiment.reproduce import fold_of

        return run, run.model, fold_of(run).test
    return run, run.model, run.with_its_columns(data_source.read_files([data], reader_name, reader_options))
