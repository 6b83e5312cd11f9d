"""What `ltr-harness compare` was given: runs, saved comparisons, tables, files of scores, TREC runs."""

import glob
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ltr_harness.cli import metric_names, options, rankings
from ltr_harness.cli.stored_runs import learned_by_all, on_scale_of, scored, without_valid
from ltr_harness.cli.streams import ScoreColumns
from ltr_harness.comparison.cheap_labels import Agreement, agreement_of, rows_among
from ltr_harness.comparison.comparison import Comparison
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.comparison.gates import Gate
from ltr_harness.comparison.metric_names import name_among
from ltr_harness.comparison.stats.method import Method
from ltr_harness.comparison.stream import StreamEvaluation
from ltr_harness.data.addresses import here
from ltr_harness.errors import Caution, DataError, Problem, UsageError
from ltr_harness.experiments.compare.compare import compare
from ltr_harness.experiments.compare.ledger import counted
from ltr_harness.experiments.compare.mteb import results_in
from ltr_harness.experiments.compare.saved import FILE, saved_at
from ltr_harness.experiments.runs import Run, find_runs
from ltr_harness.experiments.runs.folder import RECORD
from ltr_harness.experiments.runs.record import MetricSummary
from ltr_harness.experiments.runs.run import OTHER_PLANS, plan_in_words
from ltr_harness.metrics import Metric, parse_metric
from ltr_harness.metrics.core.grammar import other_name

if TYPE_CHECKING:
    from ltr_harness.report.data import ReportData

EXPERIMENT, REPORT = "experiment.yaml", "report.json"
TABLES = (".csv", ".tsv", ".parquet")
_NO_RANKINGS = rankings.RankingSource()


def expanded(inputs: Sequence[str]) -> tuple[list[Path], list[Caution]]:
    """The paths behind the arguments: patterns resolved, what lies beside run folders passed over."""
    files: list[Path] = []
    problems = []
    for text in inputs:
        path = here(text)
        matches = [path] if path.exists() else [Path(match) for match in sorted(glob.glob(str(path)))]
        if not matches:
            what = "matches nothing" if glob.has_magic(text) else "no such file or folder"
            problems.append(Problem(text, what, "run folders, saved comparisons, files of scores, or tables"))
        files += matches
    paths, cautions = [], list[Caution]()
    for path, times in Counter(files).items():
        if times > 1:
            text = f"{path} is given {times} times and counts once"
            cautions.append(Caution("repeated-input", "warning", text))
    with_runs = {path.parent for path in files if (path / RECORD).is_file()}
    for path in files:
        # so that runs/mq2008/* may be typed: the report, the configuration and the plan lie beside the runs
        beside = (path.parent / EXPERIMENT).is_file() and not (path / RECORD).is_file()
        if beside and (path.parent in with_runs or not (path / FILE).is_file()):
            cautions.append(Caution("skipped-path", "note", f"{path} is not a run and is skipped"))
        else:
            paths.append(path)
    DataError.refuse(problems)
    if not paths:
        raise DataError(f"no run among {', '.join(inputs)}")
    return list(dict.fromkeys(paths)), cautions


@dataclass(frozen=True, eq=False, kw_only=True)
class _Rescored(Run):
    """A run by other metrics than it was evaluated by; to a comparison, a run like any other."""

    computed: pd.DataFrame

    @property
    def per_query(self) -> pd.DataFrame:
        return self.computed


class ComparedInputs:
    """What the paths hold, as `compare` takes it."""

    def __init__(
        self,
        inputs: Sequence[str],
        texts: Sequence[str],
        gates: Sequence[Gate] = (),
        source: rankings.RankingSource = _NO_RANKINGS,
        *,
        cheap_labels: Path | None = None,
        columns: ScoreColumns | None = None,
    ) -> None:
        self.stream: StreamEvaluation | None = None
        # what was left out or looks odd
        paths, self.cautions = ([], []) if columns is not None and not inputs else expanded(inputs)
        by_folder = {path: runs for path in paths if path.is_dir() and (runs := find_runs(path))}
        others = [path for path in paths if path not in by_folder]
        # what is left as a path, `compare` reads
        measured = source.data is not None or source.qrels is not None  # against judgments
        files = [
            path
            for path in others
            if (measured and _is_ranking(path))
            or (saved_at(path) is None and not (path.is_dir() and results_in(path)))
        ]
        expected = "a run folder, a folder of them, a report's, or results of MTEB"
        folders = [path for path in files if path.is_dir()]
        plans = {path: words for path in folders if (words := plan_in_words(path))}
        DataError.refuse(
            Problem(str(path), f"contains no run: {plans[path]}", cure=OTHER_PLANS)
            if path in plans
            else Problem(str(path), "contains no run", expected)
            for path in folders
        )
        self._paths = paths
        self.runs: list[Run] = [run for runs in by_folder.values() for run in runs]
        names = ", ".join(path.name for path in others[:3])
        self.title = self.runs[0].record.experiment if self.runs else names
        self._rankings: rankings.Rankings | None = None
        self.items: list[Any] = []
        self.metrics: list[str] | None = None  # the deciding one first; None for what the inputs have
        # the files' systems by cheap labels, and how far those agree with the others
        self.cheap: tuple[list[SystemResult], Agreement] | None = None
        self._cheap_labels = cheap_labels
        if columns is not None:
            self._take_columns(columns, texts, gates)
            return
        systems: dict[Path, SystemResult] = {}
        if measured:
            if not files:
                raise UsageError("--data or --qrels without a file of scores or a run to measure against it")
            systems = self._evaluated(files, texts, gates, source)
        else:
            for option in (options.written(name) for name, value in vars(source).items() if value):
                found = f"{option} without --data or --qrels"
                raise UsageError(f"{found}; {option} is about files of scores or TREC runs")
            found = "is neither a run folder nor a table"
            expected = "--data FILE for scores, or --qrels FILE for TREC runs"
            no_tables = [path for path in files if path.suffix not in TABLES]
            UsageError.refuse(Problem(str(path), found, expected) for path in no_tables)
            if texts:
                typed = metric_names.split(texts)
                self.metrics = [*typed, *(str(gate.metric) for gate in gates)]
                if self.runs:  # what tables have under such names, they alone know
                    self.cautions += metric_names.tools_named(typed)
        compared: dict[Path, Sequence[Any]] = dict(by_folder)
        if self.metrics is not None and self.runs:
            compared = self._from_stored_scores(by_folder, [parse_metric(name) for name in self.metrics])
        elif gates and self.runs:
            compared = self._with_gates(by_folder, gates)
        for path in paths:
            self.items += compared[path] if path in compared else [systems.get(path, path)]

    def _take_columns(self, columns: ScoreColumns, texts: Sequence[str], gates: Sequence[Gate]) -> None:
        """Scores that are columns of the data, in place of paths."""
        if self._paths or len(columns.names) < 2:
            found = f"{self._paths[0]} with --score-column" if self._paths else "one --score-column"
            raise UsageError(f"{found}; expected two or more --score-column, and no other files")
        asked = metric_names.parsed(texts)
        wanted = [asked.primary, *asked.metrics, *(gate.metric for gate in gates)]
        self.stream, cautions = columns.evaluated(list(dict.fromkeys(wanted)))
        self.metrics = list(self.stream.metrics)
        self.cautions += cautions
        self.title = str(columns.data)
        self.items = [self.stream.results]

    def report_data(self, comparison: Comparison) -> "ReportData":
        """A comparison of these inputs, as reports take it."""
        from ltr_harness.report.data import ReportData

        complete = [run for run in self.runs if run.record.status == "complete"]
        failed = [run.record for run in self.runs if run.record.status == "failed"]
        return ReportData(comparison, complete, failed, None, self.title)

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
        if baseline is not None:
            baseline = baseline if self._rankings is None else self._rankings.named(baseline)
        elif len(self._paths) == 1 and (self._paths[0] / EXPERIMENT).exists():
            from ltr_harness.experiments.config import read_outline

            # what an experiment says that is compared alone, if a run of it finished
            declared = read_outline(self._paths[0] / EXPERIMENT).compare.baseline
            finished = {run.record.model for run in self.runs if run.record.status == "complete"}
            baseline = declared if declared in finished else None
        comparison = compare(
            *self.items,
            metrics=self.metrics and self.metrics[:1] if primary_alone else self.metrics,
            baseline=baseline,
            common_queries=common_queries,
            ledger=False,  # the items may be runs measured anew
            **asdict(method),
            **more,
        )
        return counted(comparison, self.runs) if ledger else comparison

    def _evaluated(
        self,
        files: Sequence[Path],
        texts: Sequence[str],
        gates: Sequence[Gate],
        source: rankings.RankingSource,
    ) -> dict[Path, SystemResult]:
        """The files as systems, by the metrics asked for; those of the runs beside them where none is."""
        record = self.runs[0].record if self.runs else None
        if record is not None and not texts:
            texts = list(dict.fromkeys([record.primary, *record.metrics]))
        asked = metric_names.parsed(texts)
        source = replace(source, scores=files) if source.data is not None else replace(source, run=files)
        wide = None
        if self._cheap_labels is None:
            loaded = rankings.load_rankings(source)
        else:
            wide, loaded = rankings.load_cheap(self._cheap_labels, source)
        wanted = list(dict.fromkeys([asked.primary, *asked.metrics, *(gate.metric for gate in gates)]))
        scaled, cautions = loaded.with_max_grade(wanted)
        scaled = list(dict.fromkeys(scaled))
        self._rankings = loaded
        typed = asked.names(loaded.with_max_grade(asked.metrics)[0])
        named = [other_name(text, name) for name, text in typed.items()]
        self.cautions += [*loaded.cautions, *cautions, *named]
        self.metrics = [str(metric) for metric in scaled]
        if self.runs:
            self.cautions += without_valid(scaled, "files, 1 or the one from validation data for runs")
        if wide is not None:
            if beside := [path for path in self._paths if path not in files]:
                found = "stored runs and tables have no values by cheap labels"
                raise UsageError(
                    f"{beside[0]} with --cheap; {found}: `predict` scores the rows of --data with a stored run"
                )
            rows = rows_among(loaded.judgments, wide.judgments)
            agreement = agreement_of(loaded.judgments, wide.judgments, rows)
            self.cheap = [wide.system(scored, scored.evaluate(scaled)) for scored in wide.all], agreement
        measured = (loaded.system(scored, scored.evaluate(scaled)) for scored in loaded.all)
        return dict(zip(files, measured, strict=True))

    def _with_gates(
        self, by_folder: dict[Path, list[Run]], gates: Sequence[Gate]
    ) -> dict[Path, Sequence[Any]]:
        """The runs by all of their own metrics and those of the gates, which need not be among them."""
        records = [run.record for run in self.runs if run.record.status == "complete"]
        own = list(dict.fromkeys(name for record in records for name in record.metrics))
        primaries = {record.primary for record in records}
        if len(primaries) != 1 or any(set(record.metrics) != set(own) for record in records):
            return dict(by_folder)  # which metrics to compare is an open question, and `compare` will say so
        compared = self._from_stored_scores(by_folder, [gate.metric for gate in gates], own)
        added = [str(gate.metric) for gate in gates if name_among(own, gate.metric) is None]
        if added:
            self.metrics = [*primaries, *own, *added]
        return compared

    def _from_stored_scores(
        self, by_folder: dict[Path, list[Run]], wanted: Sequence[Metric], keep: Sequence[str] = ()
    ) -> dict[Path, Sequence[Any]]:
        """The runs by the metrics asked for, those that are not stored computed from the stored scores."""
        complete = [run for run in self.runs if run.record.status == "complete"]
        lacking = [one for one in wanted if any(_stored(run, one) is None for run in complete)]
        if not lacking:
            return dict(by_folder)
        records = [run.record for run in complete]
        anew = [one for one in lacking if not learned_by_all(records, one)]
        added: dict[str, None] = {}
        evaluated = {run: run for run in self.runs}
        for run in complete:
            frame, record = run.per_query, run.record
            facts = frame[[name for name in frame if name not in record.metrics]]
            names = {metric: None if metric in anew else _stored(run, metric) for metric in wanted}
            stored = [*keep, *(name for name in names.values() if name is not None)]
            values = {name: frame[name].to_numpy() for name in stored}
            summaries = {name: record.metrics[name] for name in stored}
            if computed := [metric for metric, name in names.items() if name is None]:
                ranking = scored(run)
                evaluation = ranking.evaluate(on_scale_of(record, computed, ranking.judgments, records))
                at = {str(query): i for i, query in enumerate(evaluation.query_ids.tolist())}
                order = [at[str(query)] for query in frame["query_id"].tolist()]
                for name in evaluation.metrics:
                    values[name] = evaluation[name].per_query[order]
                    summaries[name] = MetricSummary.of(evaluation[name])
                    added[name] = None
            # one order of metrics whatever was stored: runs of one model must have the same
            columns = {name: values[name] for name in sorted(values)}
            metrics = {name: summaries[name] for name in sorted(values)}
            of_metrics = record.model_copy(update={"metrics": metrics})
            evaluated[run] = _Rescored(run.path, of_metrics, computed=facts.assign(**columns))
        text = "not among the metrics of the runs; computed now from their stored scores"
        self.cautions.append(Caution("computed-now", "note", text, place=", ".join(added)))
        self.cautions += without_valid(anew, "all runs")
        return {path: [evaluated[run] for run in runs] for path, runs in by_folder.items()}


def _is_ranking(path: Path) -> bool:
    """Whether a JSON file is {query: {document: score}}: all but the one that lies beside a saved comparison."""
    return path.suffix == ".json" and not (path.name == REPORT and (path.parent / FILE).is_file())


def _stored(run: Run, metric: Metric) -> str | None:
    return name_among(list(run.record.metrics), metric)
