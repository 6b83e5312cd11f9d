"""The inputs of `ltr-harness compare`: runs, saved comparisons, tables, files of scores, TREC runs."""

import glob
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from numpy.typing import NDArray

from ltr_harness.cli import metric_names, options
from ltr_harness.cli.rankings import Rankings, RankingSource, load_cheap, load_rankings
from ltr_harness.cli.stored_runs import all_have_temperature, default_temperature_notes, on_scale_of, scored
from ltr_harness.cli.streams import ScoreColumns
from ltr_harness.comparison.cheap_labels import LabelAgreement, agreement_of, rows_among
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.gates import Gate
from ltr_harness.comparison.metric_names import name_among
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stream import StreamEvaluation
from ltr_harness.data.addresses import local_path
from ltr_harness.errors import Caution, DataError, Problem, UsageError
from ltr_harness.experiments.compare.compare import compare
from ltr_harness.experiments.compare.ledger import add_to_ledger
from ltr_harness.experiments.compare.mteb import results_in
from ltr_harness.experiments.compare.saved import FILE, saved_at
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.experiments.runs.folder import RECORD
from ltr_harness.experiments.runs.record import MetricSummary, Record
from ltr_harness.experiments.runs.run import OTHER_PLANS, PER_QUERY, plan_in_words
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.grammar import other_name
from ltr_harness.metrics.evaluation import Evaluation

if TYPE_CHECKING:
    from ltr_harness.report.data import ReportData

EXPERIMENT, REPORT = "experiment.yaml", "report.json"
TABLES = (".csv", ".tsv", ".parquet")
_NO_RANKINGS = RankingSource()


def expanded(inputs: Sequence[str]) -> tuple[list[Path], list[Caution]]:
    """Return the paths behind the arguments: patterns resolved, and files beside run folders left out."""
    files: list[Path] = []
    problems = []
    for text in inputs:
        matches = _matching_paths(text)
        files += matches
        if not matches:
            found = "matches nothing" if glob.has_magic(text) else "no such file or folder"
            expected = "run folders, saved comparisons, files of scores, or tables"
            problems.append(Problem(text, found, expected))
    cautions = [
        Caution("repeated-input", "warning", f"{path} was given {times} times and counts once")
        for path, times in Counter(files).items()
        if times > 1
    ]
    with_runs = {path.parent for path in files if (path / RECORD).is_file()}
    paths = []
    for path in files:
        if _is_beside_runs(path, with_runs):
            cautions.append(Caution("skipped-path", "note", f"{path} is not a run and is skipped"))
        else:
            paths.append(path)
    DataError.refuse(problems)
    if not paths:
        raise DataError(f"no run among {', '.join(inputs)}")
    return list(dict.fromkeys(paths)), cautions


def _matching_paths(text: str) -> list[Path]:
    path = local_path(text)
    return [path] if path.exists() else [Path(match) for match in sorted(glob.glob(str(path)))]


def _is_beside_runs(path: Path, folders_with_runs: Collection[Path]) -> bool:
    """Return True for the report, configuration and plan of an experiment, so that runs/mq2008/* may be typed."""
    if not (path.parent / EXPERIMENT).is_file() or (path / RECORD).is_file():
        return False
    return path.parent in folders_with_runs or not (path / FILE).is_file()


@dataclass(frozen=True, eq=False)
class _PathsByContent:
    """The paths behind the arguments, and the runs and the files among them."""

    all: Sequence[Path]
    runs_of: Mapping[Path, Sequence[Run]]  # by folder
    files: Sequence[Path]  # what holds neither runs nor a saved comparison nor results of MTEB
    cautions: Sequence[Caution]

    @classmethod
    def of(cls, inputs: Sequence[str], *, rankings_in_json: bool) -> "_PathsByContent":
        """Look into all paths; a DataError lists the folders that hold nothing to compare."""
        paths, cautions = expanded(inputs)
        folders = {path: find_runs(path) for path in paths if path.is_dir()}
        runs_of = {path: runs for path, runs in folders.items() if runs}
        files = []
        for path in paths:
            if path in runs_of:
                continue
            is_ranking = rankings_in_json and _is_ranking(path)
            if is_ranking or not (saved_at(path) is not None or (path.is_dir() and results_in(path))):
                files.append(path)
        DataError.refuse(_without_runs(path) for path in files if path.is_dir())
        return cls(paths, runs_of, files, cautions)

    @property
    def runs(self) -> list[Run]:
        """All runs, folder by folder."""
        return [run for runs in self.runs_of.values() for run in runs]

    @property
    def title(self) -> str:
        """The experiments of the runs, or the names of three paths."""
        if self.runs:
            return ", ".join(dict.fromkeys(run.record.experiment for run in self.runs))
        return ", ".join(path.name for path in self.all[:3])

    def items(self, contents: Mapping[Path, Sequence[Any]]) -> list[Any]:
        """Return the contents of each path, or the path itself, which `compare` reads."""
        return [item for path in self.all for item in contents.get(path, [path])]


def _without_runs(folder: Path) -> Problem:
    plan = plan_in_words(folder)
    if plan:
        return Problem(str(folder), f"contains no run: {plan}", cure=OTHER_PLANS)
    return Problem(
        str(folder), "contains no run", "a run folder, a folder of them, a report's, or results of MTEB"
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedInputs:
    """The inputs of a comparison, as `compare` takes them."""

    title: str
    items: Sequence[Any]
    metrics: Sequence[str] | None  # the deciding one first; None for what the inputs have
    cautions: Sequence[Caution]  # what was left out or looks odd
    runs: Sequence[Run] = ()
    experiment: Path | None = None  # the configuration of the experiment that is compared alone
    rankings: Rankings | None = None  # that were read from files
    stream: StreamEvaluation | None = None  # of scores in columns
    # the files' systems by cheap labels, and how far those agree with the others
    cheap: tuple[list[SystemResult], LabelAgreement] | None = None

    @classmethod
    def from_columns(
        cls, columns: ScoreColumns, inputs: Sequence[str], texts: Sequence[str], gates: Sequence[Gate] = ()
    ) -> "ComparedInputs":
        """Evaluate scores that are columns of the data; there may be no paths beside them."""
        if inputs:
            path = _PathsByContent.of(inputs, rankings_in_json=True).all[0]
            expected = "expected two or more --score-column, and no other files"
            raise UsageError(f"{path} with --score-column; {expected}")
        if len(columns.names) < 2:
            raise UsageError("one --score-column; expected two or more --score-column, and no other files")
        metrics = _with_gates(metric_names.parsed(texts), gates)
        stream, cautions = columns.evaluated(metrics)
        return cls(
            title=str(columns.data),
            items=[stream.results],
            metrics=list(stream.metrics),
            cautions=cautions,
            stream=stream,
        )

    @classmethod
    def of(
        cls,
        inputs: Sequence[str],
        texts: Sequence[str],
        source: RankingSource,
        columns: ScoreColumns | None = None,
        gates: Sequence[Gate] = (),
    ) -> "ComparedInputs":
        """Read columns where some are named, rankings where the source has judgments, else runs and tables."""
        if columns is not None:
            return cls.from_columns(columns, inputs, texts, gates)
        if source.data is not None or source.qrels is not None:
            return cls.from_rankings(inputs, texts, source, gates)
        return cls.from_runs(inputs, texts, source, gates)

    @classmethod
    def from_rankings(
        cls,
        inputs: Sequence[str],
        texts: Sequence[str],
        source: RankingSource,
        gates: Sequence[Gate] = (),
        cheap_labels: Path | None = None,
    ) -> "ComparedInputs":
        """Evaluate files of scores or TREC runs; the metrics of runs beside them where none is named."""
        paths = _PathsByContent.of(inputs, rankings_in_json=True)
        if not paths.files:
            raise UsageError("--data or --qrels without a file of scores or a run to measure against it")
        runs = paths.runs
        if runs and not texts:
            record = runs[0].record
            texts = list(dict.fromkeys([record.primary, *record.metrics]))
        requested = metric_names.parsed(texts)
        files = paths.files
        source = replace(source, run=files) if source.data is None else replace(source, scores=files)
        wide = None
        if cheap_labels is None:
            rankings = load_rankings(source)
        else:
            wide, rankings = load_cheap(cheap_labels, source)
        scaled, scale_cautions = rankings.with_max_grade(_with_gates(requested, gates))
        scaled = list(dict.fromkeys(scaled))
        typed_names = requested.names(rankings.with_max_grade(requested.metrics)[0])
        cautions = [*paths.cautions, *rankings.cautions, *scale_cautions]
        cautions += [other_name(text, name) for name, text in typed_names.items()]
        if runs:
            cautions += default_temperature_notes(scaled, "files, 1 or the one from validation data for runs")
        cheap = None
        if wide is not None:
            cheap = _evaluated_by_cheap_labels(paths, wide, rankings, scaled)
        systems = (rankings.system(ranking, ranking.evaluate(scaled)) for ranking in rankings.all)
        contents: dict[Path, Sequence[Any]] = dict(paths.runs_of)
        contents |= {path: [system] for path, system in zip(files, systems, strict=True)}
        metrics = [str(metric) for metric in scaled]
        if runs:
            rescored, more_cautions = _rescore(paths.runs_of, list(map(parse_metric, metrics)))
            contents |= rescored
            cautions += more_cautions
        return cls(
            title=paths.title,
            items=paths.items(contents),
            metrics=metrics,
            cautions=cautions,
            runs=runs,
            rankings=rankings,
            cheap=cheap,
        )

    @classmethod
    def from_runs(
        cls,
        inputs: Sequence[str],
        texts: Sequence[str],
        source: RankingSource = _NO_RANKINGS,
        gates: Sequence[Gate] = (),
    ) -> "ComparedInputs":
        """Find runs, saved comparisons and tables; the runs by other metrics too, from their stored scores."""
        paths = _PathsByContent.of(inputs, rankings_in_json=False)
        _refuse_rankings(paths.files, source)
        runs, cautions, metrics = paths.runs, [*paths.cautions], None
        contents = paths.runs_of
        if texts:
            typed = metric_names.split(texts)
            metrics = [*typed, *(str(gate.metric) for gate in gates)]
            if runs:  # what tables have under such names, they alone know
                cautions += metric_names.tools_named(typed)
                contents, more_cautions = _rescore(paths.runs_of, list(map(parse_metric, metrics)))
                cautions += more_cautions
        elif gates and runs:
            contents, metrics, more_cautions = _rescore_for_gates(paths.runs_of, gates)
            cautions += more_cautions
        experiment = paths.all[0] / EXPERIMENT
        is_experiment = len(paths.all) == 1 and experiment.exists()
        return cls(
            title=paths.title,
            items=paths.items(contents),
            metrics=metrics,
            cautions=cautions,
            runs=runs,
            experiment=experiment if is_experiment else None,
        )

    def report_data(self, comparison: Comparison) -> "ReportData":
        """A comparison of these inputs, as reports take it."""
        from ltr_harness.report.data import ReportData, title_of

        failed = [run.record for run in self.runs if run.record.status == "failed"]
        title = title_of(comparison, self.runs) if self.runs else self.title
        return ReportData(comparison, _complete(self.runs), failed, None, title)

    def compared(
        self,
        method: Method,
        baseline: str | None,
        common_queries: bool,
        *,
        primary_alone: bool = False,
        ledger: bool = True,
        **more: Any,
    ) -> Comparison:
        """The comparison, by all metrics or by the one that decides; the baseline may be called by run tag or file."""
        if baseline is None:
            baseline = self._declared_baseline()
        elif self.rankings is not None:
            baseline = self.rankings.resolve_name(baseline)
        metrics = self.metrics
        if metrics is not None and primary_alone:
            metrics = metrics[:1]
        comparison = compare(
            *self.items,
            metrics=metrics,
            baseline=baseline,
            common_queries=common_queries,
            ledger=False,  # the items may be runs measured anew
            **asdict(method),
            **more,
        )
        return add_to_ledger(comparison, self.runs) if ledger else comparison

    def _declared_baseline(self) -> str | None:
        """Return the baseline of an experiment that is compared alone, if a run of it finished."""
        if self.experiment is None:
            return None
        from ltr_harness.experiments.config import read_outline

        declared = read_outline(self.experiment).compare.baseline
        finished = {run.record.model for run in _complete(self.runs)}
        return declared if declared in finished else None


def _refuse_rankings(files: Sequence[Path], source: RankingSource) -> None:
    """Raise a UsageError for options about rankings, and for files that can be nothing else."""
    for name, value in vars(source).items():
        if value:
            option = options.option_name(name)
            found = f"{option} without --data or --qrels"
            raise UsageError(f"{found}; {option} is about files of scores or TREC runs")
    found = "is neither a run folder nor a table"
    expected = "--data FILE for scores, or --qrels FILE for TREC runs"
    no_tables = [path for path in files if path.suffix not in TABLES]
    UsageError.refuse(Problem(str(path), found, expected) for path in no_tables)


def _with_gates(requested: metric_names.NamedMetrics, gates: Sequence[Gate]) -> list[Metric]:
    """Return the metrics and those of the gates, the deciding one first, each once."""
    return list(dict.fromkeys([requested.primary, *requested.metrics, *(gate.metric for gate in gates)]))


def _evaluated_by_cheap_labels(
    paths: _PathsByContent, wide: Rankings, rankings: Rankings, metrics: Sequence[Metric]
) -> tuple[list[SystemResult], LabelAgreement]:
    """Return the systems by the cheap labels of many queries, and how far those agree with the others."""
    no_rankings = [path for path in paths.all if path not in paths.files]
    if no_rankings:
        raise UsageError(
            f"{no_rankings[0]} with --cheap; stored runs and tables have no values by cheap labels: `predict` scores "
            "the rows of --data with a stored run"
        )
    rows = rows_among(rankings.judgments, wide.judgments)
    agreement = agreement_of(rankings.judgments, wide.judgments, rows)
    return [wide.system(ranking, ranking.evaluate(metrics)) for ranking in wide.all], agreement


@dataclass(frozen=True, eq=False, kw_only=True)
class _Rescored(Run):
    """A run by other metrics than it was evaluated by; to a comparison, a run like any other."""

    computed: pd.DataFrame

    @property
    def per_query(self) -> pd.DataFrame:
        return self.computed

    def stored_columns(self, name: str) -> dict[str, NDArray[Any]]:
        if name != PER_QUERY:
            return super().stored_columns(name)
        return {str(column): values.to_numpy() for column, values in self.computed.items()}


def _complete(runs: Iterable[Run]) -> list[Run]:
    return [run for run in runs if run.record.status == "complete"]


def _rescore_for_gates(
    runs_of: Mapping[Path, Sequence[Run]], gates: Sequence[Gate]
) -> tuple[Mapping[Path, Sequence[Run]], list[str] | None, list[Caution]]:
    """Return the runs by their metrics and those of the gates, all these metrics if some are new, and cautions."""
    records = [run.record for runs in runs_of.values() for run in _complete(runs)]
    names = list(dict.fromkeys(name for record in records for name in record.metrics))
    primaries = {record.primary for record in records}
    if len(primaries) != 1 or any(set(record.metrics) != set(names) for record in records):
        return runs_of, None, []  # which metrics to compare is an open question, and `compare` will say so
    rescored, cautions = _rescore(runs_of, [gate.metric for gate in gates], names)
    added = [str(gate.metric) for gate in gates if name_among(names, gate.metric) is None]
    metrics = [*primaries, *names, *added] if added else None
    return rescored, metrics, cautions


def _rescore(
    runs_of: Mapping[Path, Sequence[Run]], metrics: Sequence[Metric], kept_names: Sequence[str] = ()
) -> tuple[Mapping[Path, Sequence[Run]], list[Caution]]:
    """Return the runs by these metrics and those kept, and cautions on metrics that had to be computed now."""
    complete = _complete(run for runs in runs_of.values() for run in runs)
    lacking = [metric for metric in metrics if any(_stored(run, metric) is None for run in complete)]
    if not lacking:
        return runs_of, []
    records = [run.record for run in complete]
    unlearned = [metric for metric in lacking if not all_have_temperature(records, metric)]
    stored_metrics = [metric for metric in metrics if metric not in unlearned]
    rescored: dict[Run, Run] = {}
    computed_names: dict[str, None] = {}
    for run in complete:
        stored = {metric: _stored(run, metric) for metric in stored_metrics}
        stored_names = [*kept_names, *filter(None, stored.values())]
        computed = [metric for metric in dict.fromkeys(metrics) if stored.get(metric) is None]
        evaluation = _evaluation(run, computed, records)
        if evaluation is not None:
            computed_names |= dict.fromkeys(evaluation.metrics)
        rescored[run] = _rescored(run, stored_names, evaluation)
    text = "not among the runs' metrics, so it was computed from their stored scores"
    cautions = [Caution("computed-now", "note", text, place=", ".join(computed_names))]
    cautions += default_temperature_notes(unlearned, "all runs")
    return {path: [rescored.get(run, run) for run in runs] for path, runs in runs_of.items()}, cautions


def _evaluation(run: Run, metrics: Sequence[Metric], records: Sequence[Record]) -> Evaluation | None:
    """Evaluate a run's stored scores, on the scale of its record; None without metrics."""
    if not metrics:
        return None
    ranking = scored(run)
    return ranking.evaluate(on_scale_of(run.record, metrics, ranking.judgments, records))


def _rescored(run: Run, stored_names: Sequence[str], evaluation: Evaluation | None) -> Run:
    """Return the run by some of its metrics, and by those of an evaluation of its stored scores."""
    frame, record = run.per_query, run.record
    facts = frame[[name for name in frame if name not in record.metrics]]
    values = {name: frame[name].to_numpy() for name in stored_names}
    summaries = {name: record.metrics[name] for name in stored_names}
    if evaluation is not None:
        row_of = {str(query): row for row, query in enumerate(evaluation.query_ids.tolist())}
        order = [row_of[str(query)] for query in frame["query_id"].tolist()]
        for name in evaluation.metrics:
            values[name] = evaluation[name].per_query[order]
            summaries[name] = MetricSummary.of(evaluation[name])
    # one order of metrics whatever was stored: runs of one model must have the same
    columns = {name: values[name] for name in sorted(values)}
    metrics = {name: summaries[name] for name in sorted(values)}
    with_metrics = record.model_copy(update={"metrics": metrics})
    return _Rescored(run.path, with_metrics, computed=facts.assign(**columns))


def _is_ranking(path: Path) -> bool:
    """Return True for JSON of {query: {document: score}}: any file but the one that lies beside a saved comparison."""
    return path.suffix == ".json" and not (path.name == REPORT and (path.parent / FILE).is_file())


def _stored(run: Run, metric: Metric) -> str | None:
    return name_among(list(run.record.metrics), metric)
