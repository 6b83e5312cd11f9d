"""`ltr-harness compare`: which ranking is better, over the same queries; and gates for CI."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from ltr_harness.cli import SuggestingGroup, options, streams
from ltr_harness.cli.output import print_means, say, say_json, say_note, say_notes, say_page
from ltr_harness.errors import GateError, Problem, UsageError, all_of
from ltr_harness.files import write_whole
from ltr_harness.wording import count_of, printable

if TYPE_CHECKING:
    from ltr_harness.comparison.gates import Gate
    from ltr_harness.report.data import ReportData


class CheckedGate(NamedTuple):
    """A gate, the models that met its condition, and what the queries may lack."""

    gate: str
    failures: Sequence[str]
    cautions: Sequence[str] = ()


def _modes_or_files(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    modes = [CompletionItem(name) for name in command.commands if name.startswith(typed)]
    return [*modes, CompletionItem(typed, type="file")]


class _Modes(SuggestingGroup):
    """A command of its own unless its first argument is the name of one of its modes."""

    allow_interspersed_args = True
    collect_usage_pieces = click.Command.collect_usage_pieces
    parse_args = click.Command.parse_args
    invoke = click.Command.invoke

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if not self.commands.keys() & set(args[:1]):
            args = _renamed(args)
        if args and args[0] in self.commands:
            return self.commands[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


_RENAMED = {"--data-sets": "sets", "--cheap-labels": "labels"}


def _renamed(args: list[str]) -> list[str]:
    """The arguments as they are now, where an option of version 0.2 has become a command."""
    for at, (option, equals, value) in enumerate(one.partition("=") for one in args):
        if mode := _RENAMED.get(option):
            moved = [f"--cheap{equals}{value}"] if mode == "labels" else []
            now = " ".join(["compare", mode, *moved])
            say_note(f"`compare {option}` is now `{now}`; the next version refuses {option}")
            return [mode, *args[:at], *moved, *args[at + 1 :]]
    return args


_baseline = click.option(
    "--baseline",
    metavar="NAME",
    help="The model the others are compared with.  [default: what an experiment declares, else the first]",
)
_common_queries = options.flag("--common-queries", "Compare the queries that all have.")
_report = options.output("Write a report there.")
_summary = options.file(
    "--summary",
    'Append verdict, table and gates as Markdown: --summary "$GITHUB_STEP_SUMMARY".',
    options.FILE,
)


@options.examples("""
  ltr-harness compare runs/mq2008 --metric ndcg@10
  ltr-harness compare 'runs/a/lgbm--*' 'runs/b/xgb--*' -m ndcg@10,mrr@10 --baseline lgbm -o out
  ltr-harness compare old.txt new.txt --data test.txt -m ndcg@10 --fail-if "ndcg@10 < baseline"
  ltr-harness compare runs/shop --unit user_id       # many queries of one user are not independent
  ltr-harness compare a.run b.run --qrels qrels.txt -m map --baseline a
  ltr-harness compare --data logs/ --score-column live --score-column new -m ndcg@10
  ltr-harness compare old.csv new.csv                # tables with query_id and a column per metric
  ltr-harness compare results/org__a results/org__b  # MTEB's results, over tasks
  ltr-harness compare lastweek/report.json runs/new  # a comparison kept with -o, or an experiment's report
  ltr-harness compare sets runs/mq2008 runs/web      # a command below; ./sets is a folder of that name

\b
Gates: --fail-if "METRIC [of MODEL] (<|<=|>|>=) (baseline [(+|-) NUMBER]|NUMBER) [and significant]"
  "ndcg@10 < baseline"                    any model's mean is below the baseline's
  "ndcg@10 < baseline and significant"    ... and the verdict says worse
  "ndcg@10 < baseline - 0.005"            ... unless it is shown to be no more than 0.005 below (non-inferiority)
  "mrr@10 of new < 0.4"                   one model's mean is below a number
A gate that fails is exit 3. Exit 2: results that must not be compared, or an invalid gate.
""")
@click.group("compare", cls=_Modes, no_args_is_help=False)
@click.argument("inputs", nargs=-1, metavar="RUNS-OR-SCORES…", shell_complete=_modes_or_files)
@options.metrics
@options.rankings("scores", "run")
@options.score_columns
@_baseline
@_common_queries
@click.option(
    "--fail-if", "gates", multiple=True, metavar="GATE", help="Exit 3 if this holds; several times."
)
@options.method()
@options.no_ledger
@click.option(
    "--convention",
    metavar="TOOL",
    help="The tool whose metric names the tables use: ir_measures, pytrec_eval, ranx, trec_eval.  [default: ours]",
)
@_report
@options.file("--junit", "Write the gates as JUnit XML.", options.FILE)
@_summary
@options.as_json
def command(gates: tuple[str, ...], junit: Path | None, **given: Any) -> int:
    """Which ranking is better, by how much, how sure: at a fixed K, over the same queries.

    RUNS-OR-SCORES are run folders, experiments' folders, saved comparisons (report.json), tables of per-query values
    or models' results of MTEB; with --data score files, with --qrels TREC runs; none with --score-column. What must
    not be compared (another K, definition, query set, labels) is refused.
    """
    if junit is not None and not gates:
        raise UsageError("--junit without --fail-if; its test cases are the gates")
    from ltr_harness.comparison.gates import parse_gate

    parsed: list[Gate] = all_of([partial(parse_gate, text) for text in gates], UsageError)
    return _compare(list({gate.text: gate for gate in parsed}.values()), junit, **given)


@options.examples("""
  ltr-harness compare labels a.run b.run --qrels human.txt --cheap llm.txt -m ndcg@10
  ltr-harness compare labels old.txt new.txt --data human.txt --cheap llm.txt
""")
@command.command("labels")
@click.argument("inputs", nargs=-1, required=True, metavar="SCORES…")
@options.file(
    "--cheap",
    "Labels of a language model or of clicks for the queries of --data or --qrels and many more, in the same form; "
    "scores are of its rows.",
    required=True,
)
@options.metrics
@options.rankings("scores", "run")
@_baseline
@_common_queries
@options.method()
@_report
@_summary
@options.as_json
def compare_labels(cheap: Path, **given: Any) -> int:
    """Compare by human labels, with cheap labels of more queries.

    SCORES are files of scores for --data, or TREC runs for --qrels, which have the human labels. Means and verdicts
    are those of the human labels; the estimate with both stands beside them.
    """
    return _compare([], None, convention=None, cheap_labels=cheap, **given)


def _compare(
    conditions: "Sequence[Gate]",
    junit: Path | None,
    *,
    inputs: tuple[str, ...],
    metrics: tuple[str, ...],
    convention: str | None,
    output: Path | None,
    summary: Path | None,
    as_json: bool,
    cheap_labels: Path | None = None,
    **given: Any,
) -> int:
    from ltr_harness.cli.compared_inputs import ComparedInputs
    from ltr_harness.report.data import ReportData

    method, baseline = options.taken_method(given), given.pop("baseline")
    common_queries, ledger = given.pop("common_queries"), not given.pop("no_ledger", False)
    columns = streams.ScoreColumns.taken(given, baseline)
    if columns is None and not inputs:
        raise click.MissingParameter(ctx=(at := click.get_current_context()), param=at.command.params[0])
    compared = ComparedInputs(inputs, metrics, conditions, given, cheap_labels, columns)
    stream, title = compared.stream, compared.title
    if stream is not None and stream.moments is not None:
        reports = bool(conditions or output or summary)
        streams.say_without_comparison(stream, title, compared.notes, method, reports, as_json)
        return 0
    comparison = compared.compared(method, baseline, common_queries, ledger=ledger, convention=convention)
    cheap = {}
    if compared.cheap is not None:
        from ltr_harness.comparison.cheap_labels import with_cheap_labels

        powered = with_cheap_labels(comparison, *compared.cheap)
        comparison = replace(comparison, notes=(*powered.lines(), *comparison.notes))
        cheap = {"cheap_labels": powered}
    failures = all_of([partial(gate.failures, comparison) for gate in conditions], UsageError)
    checked = [
        CheckedGate(gate.text, lines, gate.cautions(comparison))
        for gate, lines in zip(conditions, failures, strict=True)
    ]
    complete = [run for run in compared.runs if run.record.status == "complete"]
    failed = [run.record for run in compared.runs if run.record.status == "failed"]
    data = ReportData(comparison, complete, failed, None, title)
    if as_json:
        from ltr_harness.report.json_document import document

        if stream is not None:
            cheap = streams.as_json(stream, comparison.primary, method)
        say_json(document(data) | {"gates": [gate._asdict() for gate in checked], **cheap})
    else:
        from ltr_harness.report.terminal import show

        show(data)
        if len(comparison.metrics) > 1:
            say()
            print_means(comparison)
        if stream is not None:
            streams.say_rest(stream, comparison.primary, method)
    if output is not None:
        from ltr_harness.report import write_report

        say(f"report: {write_report(data, output)}", err=as_json)
    try:  # for a CI system, whether gates pass or not
        if junit is not None:
            junit.parent.mkdir(parents=True, exist_ok=True)
            write_whole(junit, as_junit(data.comparison.verdict, checked))
        if summary is not None:
            with open(summary, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(as_markdown(data, checked))
    except OSError as problem:
        found = f"cannot be written: {problem.strerror or problem}"
        raise UsageError.at(problem.filename, found) from None
    say_notes(compared.notes)
    for one in checked:
        if not one.failures:
            say(f"gate passed: {one.gate}", err=True)
        say_notes(f"gate {one.gate!r}: {line}" for line in one.cautions)
    GateError.refuse(Problem(f"gate {one.gate!r}", line) for one in checked for line in one.failures)
    return 0


@options.examples("""
  ltr-harness compare sets runs/mq2008 runs/web -m ndcg@10
  ltr-harness compare sets runs/mq2008 runs/web --weights mq2008=1,web=2 -o page
""")
@command.command("sets")
@click.argument("inputs", nargs=-1, required=True, metavar="RUNS…")
@options.metrics
@_baseline
@_common_queries
@options.method()
@click.option("--weights", metavar="NAME=N,…", help="Of the data sets in the average.  [default: equal]")
@_report
@options.as_json
def compare_sets(
    inputs: tuple[str, ...],
    metrics: tuple[str, ...],
    baseline: str | None,
    common_queries: bool,
    weights: str | None,
    output: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Compare the same models on several data sets.

    Each of RUNS is a data set: an experiment's folder, or a saved comparison (report.json). Verdicts are about the
    average and about each set.
    """
    from ltr_harness.cli.compared_inputs import ComparedInputs, expanded
    from ltr_harness.comparison.data_sets import across_data_sets
    from ltr_harness.comparison.inputs import label_of
    from ltr_harness.report.pages import data_sets_page

    method = options.taken_method(given)
    paths, notes = expanded(inputs)
    labels = [label_of(path if path.is_dir() else path.parent) for path in paths]
    comparisons = {}
    for path, label in zip(paths, labels, strict=True):
        one = ComparedInputs([str(path)], metrics, (), {"data": None, "qrels": None})
        comparison = one.compared(method, baseline, common_queries, primary_alone=True)
        comparisons[label if labels.count(label) == 1 else str(path)] = comparison
        notes += one.notes
    by_set: dict[str, float] | None = None
    if weights is not None:
        parts = [part.rpartition("=") for part in weights.split(",")]
        try:
            by_set = {name.strip(): float(number) for name, _, number in parts}
        except ValueError:
            by_set = {}
        if not by_set or not all(name for name, _, _ in parts):
            expected = "expected NAME=NUMBER for each data set, such as mq2008=1,web=2"
            raise UsageError(f"--weights {weights}; {expected}")
    across = across_data_sets(comparisons, by_set)
    say_page(data_sets_page(across), as_json, output, ("html", "md", "json"))
    say_notes(notes)
    return 0


def as_junit(verdict: str, gates: Sequence[CheckedGate]) -> bytes:
    """JUnit XML: one test case for each gate; what fails in it is its failure."""
    from xml.etree import ElementTree as Xml

    name = "ltr-harness compare"
    counts = {"tests": len(gates), "failures": sum(bool(gate.failures) for gate in gates), "errors": 0}
    suite = Xml.Element("testsuite", {"name": name, **{key: str(value) for key, value in counts.items()}})
    for gate in gates:
        case = Xml.SubElement(suite, "testcase", {"classname": name, "name": printable(gate.gate)})
        if gate.failures:
            message = f"{count_of(len(gate.failures), 'model')} met the condition"
            failure = Xml.SubElement(case, "failure", {"type": "gate", "message": message})
            failure.text = "\n".join(map(printable, gate.failures))
        if gate.cautions:
            Xml.SubElement(case, "system-out").text = "\n".join(map(printable, gate.cautions))
    Xml.SubElement(suite, "system-out").text = printable(verdict)
    Xml.indent(suite)
    return bytes(Xml.tostring(suite, encoding="utf-8", xml_declaration=True)) + b"\n"


def as_markdown(data: "ReportData", gates: Sequence[CheckedGate]) -> str:
    """The report's verdict with its table, and each gate with what fails in it, such as GitHub shows beside a job."""
    from ltr_harness.report import markdown
    from ltr_harness.report.blocks import Report, Section
    from ltr_harness.report.sections import verdict

    page = markdown.render(Report(data.title, (), (Section("verdict", tuple(verdict.section(data))),)))
    lines = []
    for gate in gates:
        lines.append(f"- {'❌' if gate.failures else '✅'} {markdown.escape(printable(gate.gate))}")
        lines += [f"    - {markdown.escape(printable(line))}" for line in (*gate.failures, *gate.cautions)]
    listed = "\n".join(["\n## Gates\n", *lines, ""]) if lines else ""
    return f"{page}{listed}"
