"""Findings of the data lints: errors refuse an experiment unless they are accepted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from ltr_harness.catalog import did_you_mean
from ltr_harness.errors import DataError, Problem, UsageError
from ltr_harness.experiment.folds import FoldReader
from ltr_harness.inspection import LINTS, Finding
from ltr_harness.inspection.lints import REPEATED
from ltr_harness.metrics import Metric
from ltr_harness.metrics.core.gains import EXPONENTIAL_GAINS
from ltr_harness.wording import count_of, plural

Findings = Mapping[str, tuple[Finding, ...]]


def findings_of(reader: FoldReader, metrics: Iterable[Metric], accept: Collection[str] = ()) -> Findings:
    """Fold to its findings, the worst first.

    Raises:
        UsageError: there is no such lint.
    """
    unknown = [name for name in accept if name not in LINTS]
    if unknown:
        raise UsageError(
            [Problem(f"--accept {name}", "no such lint", cure=did_you_mean(name, LINTS)) for name in unknown]
        )
    repeated = _repeated(reader)
    exponential = any(getattr(metric, "gain", None) in EXPONENTIAL_GAINS for metric in metrics)
    return {
        name: tuple(
            replace(finding, place=_place(name, finding), accepted=_accepted(finding, accept))
            for finding in (*reader.findings(name), *repeated.get(name, ()))
            if exponential or finding.lint != "steep-gain"
        )
        for name in reader.names()
    }


def refuse_errors(findings: Findings) -> None:
    """Raise what is wrong with the data and has not been accepted.

    Raises:
        DataError: every such error.
    """
    problems = [
        Problem(
            finding.place,
            finding.found,
            cure=f"{finding.cure}; to train all the same, add --accept {finding.lint} "
            f"(in Python: accept=[{finding.lint!r}])",
        )
        for finding in each_once(findings)
        if finding.severity == "error" and not finding.accepted
    ]
    if problems:
        raise DataError(problems)


def each_once(findings: Findings) -> list[Finding]:
    """Of all folds, the worst first."""
    distinct = dict.fromkeys(finding for fold in findings.values() for finding in fold)
    return sorted(distinct, key=lambda finding: ("error", "warning", "note").index(finding.severity))


def _repeated(reader: FoldReader) -> dict[str, list[Finding]]:
    """Fold to the finding that its test queries are tested by an earlier fold as well."""
    names = reader.names()
    if len(names) < 2:
        return {}
    repeated: dict[str, list[Finding]] = {}
    seen: dict[tuple[str, bytes], str] = {}
    for name in names:
        judgments = reader.read(name).test.judgments
        labels = np.split(judgments.labels, judgments.groups.boundaries[1:-1])
        queries = [
            (str(query), own.tobytes()) for query, own in zip(judgments.groups.ids, labels, strict=True)
        ]
        before = [query for query in queries if query in seen]
        if before:
            folds = ", ".join(dict.fromkeys(seen[query] for query in before))
            n = len(before)
            repeated[name] = [
                Finding(
                    REPEATED,
                    "note",
                    "test",
                    f"{n:,} of {count_of(len(queries), 'query')} {plural('is', n)} tested in {folds} too "
                    f"(such as {before[0][0]})",
                    "a comparison counts each once, with its mean over the folds",
                )
            ]
        seen |= {query: seen.get(query, name) for query in queries}
    return repeated


def _place(fold: str, finding: Finding) -> str:
    return finding.place if fold == "all" else f"{fold} {finding.place}"


def _accepted(finding: Finding, accept: Collection[str]) -> bool:
    return finding.severity == "error" and finding.lint in accept
