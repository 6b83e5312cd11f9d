"""Where do these numbers come from, and how does one get them again?"""

import hashlib
import re

from ltr_harness.report.blocks import Block, Code, Column, Details, Heading, Paragraph, Table, code
from ltr_harness.report.data import ReportData

COMMANDS = """\
ltr-harness run experiment.yaml --runs ..   # trains what is missing
ltr-harness report .                        # rebuilds this report, no training"""


def section(data: ReportData) -> list[Block]:
    blocks: list[Block] = [Heading("Provenance")]
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
        versions_of: dict[str, set[str]] = {}
        for record in data.records:
            for name, version in record.environment.items():
                versions_of.setdefault(name, set()).add(version)
        rows = [(name, ", ".join(sorted(found))) for name, found in sorted(versions_of.items())]
        rows.append(("threads per run", ", ".join(map(str, sorted({one.threads for one in data.records})))))
        columns = (Column("Name"), Column("Version", "code"))
        said = "Versions and threads that can change a tree."
        identities = Table.of(
            "identities",
            "A run's identity covers data, ranker, parameters, stopping rule, seed and library versions.",
            data.ordered_runs,
            {
                Column("Folder", "code"): lambda run: run.path.name,
                Column("Identity", "code"): lambda run: run.record.identity,
                Column("Evaluation", "code"): lambda run: run.record.evaluation_identity,
            },
        )
        blocks += [
            Paragraph("To repeat all of this, in the folder that holds experiment.yaml:"),
            Code(COMMANDS, "sh"),
            Table("versions", said, columns, tuple(rows), sortable=False),
            Details("Runs and their identities", (identities,)),
        ]
    elif data.experiment_yaml is None:
        blocks.append(Paragraph("The scores were supplied; their origin is not recorded."))
    cautions = {f"{record.model}: {one}" for record in data.records for one in record.training_cautions}
    if cautions:
        said = "Cautions of the runs in training."
        blocks.append(
            Table.of("run_cautions", said, sorted(cautions), {Column("Caution"): str}, sortable=False)
        )
    return blocks


# The folder of the data, which says nothing of the results; its path may go on in lines further in.
_ROOT = re.compile(r"^(data:\n(?:  .*\n)*?)  root: .*\n(?:    .*\n)*", re.MULTILINE)


def config_digest(data: ReportData) -> str | None:
    """SHA-256 of the resolved configuration but for `data.root`: the K was fixed before the results were."""
    if data.experiment_yaml is None:
        return None
    return hashlib.sha256(_ROOT.sub(r"\1", data.experiment_yaml).encode()).hexdigest()
