"""Versions, files and commands that reproduce these numbers."""

import hashlib
import re

from ltr_harness._util.text import count_of
from ltr_harness.report.blocks import Block, Code, Column, Details, Heading, Paragraph, Table, code
from ltr_harness.report.data import ReportData

COMMANDS = """\
ltr-harness run experiment.yaml --runs ..   # trains what is missing
ltr-harness report .                        # rebuilds this report, no training"""


def section(data: ReportData) -> list[Block]:
    finding = count_of(len(data.runs), "run") if data.runs else "scores from elsewhere"
    blocks: list[Block] = [Heading("Provenance", finding=finding)]
    if data.experiment_yaml is not None:
        declared = (
            "The metrics, cutoffs and the primary metric were declared in the configuration below, SHA-256 "
        )
        changes = " without the line `root:`. Changing any of them changes this digest."
        blocks += [
            Paragraph((declared, code(str(config_digest(data))), changes)),
            Details("Resolved configuration", (Code(data.experiment_yaml, "yaml"),)),
        ]
    if data.runs:
        blocks += [
            Paragraph("To repeat all of this, in the folder that holds experiment.yaml:"),
            Code(COMMANDS, "sh"),
            _version_table(data),
            Details("Runs and their identities", (_identity_table(data),)),
        ]
    elif data.experiment_yaml is None:
        blocks.append(Paragraph("The scores were supplied; their origin is not recorded."))
    cautions = {
        f"{record.model}: {caution}" for record in data.records for caution in record.training_cautions
    }
    if cautions:
        caption = "Cautions of the runs in training."
        blocks.append(
            Table.of("run_cautions", caption, sorted(cautions), {Column("Caution"): str}, sortable=False)
        )
    return blocks


def _version_table(data: ReportData) -> Table:
    """Return the versions and numbers of threads of all runs."""
    versions_of: dict[str, set[str]] = {}
    for record in data.records:
        for name, version in record.environment.items():
            versions_of.setdefault(name, set()).add(version)
    rows = [(name, ", ".join(sorted(versions))) for name, versions in sorted(versions_of.items())]
    threads = sorted({record.threads for record in data.records})
    rows.append(("threads per run", ", ".join(map(str, threads))))
    columns = (Column("Name"), Column("Version", "code"))
    caption = "Versions and threads that can change a tree."
    return Table("versions", caption, columns, tuple(rows), sortable=False)


def _identity_table(data: ReportData) -> Table:
    return Table.of(
        "identities",
        "A run's identity covers data, ranker, parameters, stopping rule, seed and library versions.",
        data.ordered_runs,
        {
            Column("Folder", "code"): lambda run: run.path.name,
            Column("Identity", "code"): lambda run: run.record.identity,
            Column("Evaluation", "code"): lambda run: run.record.evaluation_identity,
        },
    )


# The folder of the data, which does not affect the results; its path may continue on lines with more indent.
_ROOT = re.compile(r"^(data:\n(?:  .*\n)*?)  root: .*\n(?:    .*\n)*", re.MULTILINE)


def config_digest(data: ReportData) -> str | None:
    """Return the SHA-256 of the resolved configuration without `data.root`: K was fixed before the results."""
    if data.experiment_yaml is None:
        return None
    return hashlib.sha256(_ROOT.sub(r"\1", data.experiment_yaml).encode()).hexdigest()
