"""`ltr-harness show trees`: what a model's first rounds are worth, what a query costs, and the best within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ltr_harness.cli import options
from ltr_harness.cli.output import print_table, say, say_json, say_notes
from ltr_harness.errors import UsageError
from ltr_harness.wording import count_of

if TYPE_CHECKING:
    from ltr_harness.dataset import RankingDataset
    from ltr_harness.metrics import Metric
    from ltr_harness.rankers.ranker import FittedModel
    from ltr_harness.runs import Run

_CALLS = 400  # that a 99th percentile is taken from
_SECONDS = 5.0  # for each length of lists


@click.command("trees")
@click.argument("runs", nargs=-1, required=True, type=options.PATH, metavar="RUN…")
@options.rows_of_run
@click.option(
    "-m",
    "--metric",
    "names",
    multiple=True,
    help="May be given several times; with --budget the first decides.  [default: the primary metric]",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="Name the best of all RUNs whose p99 for a list is within it, such as 800us, 5ms or 0.2s; exit 3 if none is.",
)
@click.option(
    "--documents",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Length of the lists that rounds and --budget go by.",
)
@options.trust
@options.as_json
def command(
    runs: tuple[Path, ...],
    names: tuple[str, ...],
    budget: str | None,
    documents: int,
    as_json: bool,
    **rows_of_run: Any,
) -> int:
    """How good the model's first trees alone are, and what ranking a query costs; nothing is trained.

    Times are of one call that scores a list, on one thread, in microseconds, measured now: a machine that does
    nothing else says most. Beside the library that trained it, ONNX Runtime and treelite are timed where they are
    installed. With --budget RUNs are run folders and experiments' folders.
    """
    if budget is not None:
        from ltr_harness.cli.within_budget import say_best

        say_best(runs, names, (budget, documents), as_json, **rows_of_run)
        return 0
    if len(runs) > 1:
        raise UsageError(
            f"{count_of(len(runs), 'run')} without --budget; expected one, or the time that a query may take"
        )
    from ltr_harness.cli.stored_runs import loaded, on_scale_of

    stored, model, split = loaded(runs[0], **rows_of_run)
    metrics = on_scale_of(stored.record, names, split.judgments)
    found = _measured(stored, model, split, metrics, documents)
    if as_json:
        say_json(found)
        return 0
    _print(found)
    say(
        f"{found['leaves']:,} leaves; {found['microseconds_per_row']:.2f} µs per row with "
        f"{count_of(stored.record.threads, 'thread')}, all rows in one call",
        err=True,
    )
    return 0


def _measured(
    stored: Run, model: FittedModel, split: RankingDataset, metrics: Sequence[Metric], documents: int
) -> dict[str, Any]:
    """What is printed, as JSON has it."""
    from ltr_harness.export.verification import in_runtimes
    from ltr_harness.runs.insight import (
        DOCUMENTS,
        first_rounds,
        latency,
        microseconds_per_row,
        quality_by_trees,
    )

    cuts = []
    alone = stored.model_on(1)
    for cut in quality_by_trees(alone, split, metrics):
        took = latency(first_rounds(alone, cut.rounds), split.features, documents, calls=_CALLS, seconds=0.1)
        means = dict(zip(map(str, metrics), cut.means, strict=True))
        cuts.append({"rounds": cut.rounds, **means, "p50": took.p50})
    with TemporaryDirectory() as folder:
        others, refused = in_runtimes(alone, split.feature_names, Path(folder))
    say_notes(f"timed in {stored.record.ranker} alone: {why}" for why in refused)
    times = [
        {"runtime": name, **took.model_dump(include={"documents", "calls", "p50", "p99"})}
        for name, score in {stored.record.ranker: alone.score, **others}.items()
        for n in DOCUMENTS
        for took in [latency(score, split.features, n, calls=_CALLS, seconds=_SECONDS)]
    ]
    return {
        "leaves": stored.record.n_leaves or 0,
        "microseconds_per_row": microseconds_per_row(model, split.features),
        "documents": documents,
        "cuts": cuts,
        "latency": times,
    }


def _print(found: dict[str, Any]) -> None:
    names = [name for name in found["cuts"][0] if name not in ("rounds", "p50")]
    print_table(
        ["rounds", *names, f"p50 of {found['documents']:,} documents, µs"],
        [
            [str(cut["rounds"]), *(f"{cut[name]:z.4f}" for name in names), f"{cut['p50']:,.0f}"]
            for cut in found["cuts"]
        ],
        left=(),
    )
    say()
    print_table(
        ["runtime", "documents", "p50, µs", "p99, µs"],
        [
            [
                one["runtime"],
                f"{one['documents']:,}",
                f"{one['p50']:,.0f}",
                "–" if one["p99"] is None else f"{one['p99']:,.0f}",
            ]
            for one in found["latency"]
        ],
    )
