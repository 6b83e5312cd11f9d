"""The page of judges: is a judge to be trusted?"""

from collections.abc import Callable
from typing import Any

from ltr_harness._util.json_values import json_text
from ltr_harness._util.number_text import plain_number
from ltr_harness._util.text import count_of
from ltr_harness.comparison.caution_choice import choose_cautions
from ltr_harness.comparison.judges import JudgeEstimate
from ltr_harness.experiments.compare.judge_agreement import (
    POWER,
    JudgeAgreement,
    JudgedPair,
    JudgeResult,
    PartAgreement,
    SystemBias,
)
from ltr_harness.report import blocks
from ltr_harness.report.blocks import (
    Badge,
    Block,
    Cell,
    Column,
    Estimate,
    Heading,
    Report,
    Section,
    Table,
    caution_blocks,
)

_MOST_GRADES = 10  # columns of a table of confusion


def judge_page(agreement: JudgeAgreement) -> Report:
    """Return the sentences, the tables of each judge, and everything in the JSON."""
    sentences = [line for judge in agreement.judges for line in agreement.lines_of(judge)]
    answer: list[Block] = [_banner(agreement), blocks.Bullets(tuple(sentences)), _overall_table(agreement)]
    answer += caution_blocks(choose_cautions(agreement.cautions))
    sections = [Section("verdict", tuple(answer))]
    sections += [
        Section(f"judge-{number}", tuple(_judge_blocks(agreement, judge, number)))
        for number, judge in enumerate(agreement.judges, 1)
    ]
    facts = (count_of(len(agreement.judges), "judge"), f"against {agreement.human}")
    return Report("Is the judge to be trusted?", facts, tuple(sections), lambda: json_text(agreement))


def _banner(agreement: JudgeAgreement) -> blocks.Banner:
    decisions = {judge.judge: judge.decision for judge in agreement.judges if judge.decision is not None}
    changed = [name for name, decision in decisions.items() if not decision.is_same]
    if not decisions:
        kappas = ", ".join(
            f"{judge.judge} {judge.overall.kappa or 'undefined'}" for judge in agreement.judges
        )
        return blocks.Banner(
            Badge("agreement", "neutral"), f"Weighted kappa with {agreement.human}: {kappas}"
        )
    if changed:
        return blocks.Banner(Badge("differs", "bad"), f"The decision by {', '.join(changed)} is another")
    return blocks.Banner(Badge("same", "good"), f"The decision by {', '.join(decisions)} is the same")


def _estimate(estimate: JudgeEstimate | None) -> Cell:
    if estimate is None:
        return "undefined"
    if estimate.low is None or estimate.high is None:
        return estimate.value
    return Estimate(estimate.value, estimate.low, estimate.high)


def _part_columns(head: dict[Column, Callable[[Any], Cell]]) -> dict[Column, Callable[[Any], Cell]]:
    """Return the columns of a table of agreement, behind those that say of what."""

    def with_part(read: Callable[[PartAgreement], Cell]) -> Callable[[Any], Cell]:
        return lambda row: read(row.overall if isinstance(row, JudgeResult) else row)

    return head | {
        Column("Documents", "count"): with_part(lambda part: part.n_documents),
        Column("Queries", "count"): with_part(lambda part: part.n_queries),
        Column("Kappa", "metric", hint="Cohen's, quadratic weights."): with_part(
            lambda part: _estimate(part.kappa)
        ),
        Column("Alpha", "metric", hint="Krippendorff's, grades in their order."): with_part(
            lambda part: _estimate(part.alpha)
        ),
        Column("Milder by", "difference", hint="Mean grade minus the human's."): with_part(
            lambda part: _estimate(part.bias)
        ),
        Column("Relevant, human", "percent", hint="Grade 1 and more."): with_part(
            lambda part: part.human_relevant
        ),
        Column("Relevant, judge", "percent", hint="Grade 1 and more."): with_part(
            lambda part: part.judge_relevant
        ),
    }


def _overall_table(agreement: JudgeAgreement) -> Table:
    caption = (
        f"Each judge beside {agreement.human}, with {100 * agreement.confidence:g} % intervals over queries. Kappa has "
        "quadratic weights; alpha is Krippendorff's for grades in their order."
    )
    columns = _part_columns({Column("Judge"): lambda judge: judge.judge})
    return Table.of("judges", caption, agreement.judges, columns)


def _judge_blocks(agreement: JudgeAgreement, judge: JudgeResult, number: int) -> list[Block]:
    """Return the tables of one judge."""
    found: list[Block] = [Heading(judge.judge), _confusion_table(agreement.human, judge, number)]
    if judge.parts:
        caption = f"{judge.judge}: agreement by the best rank in any ranking, and by slice of the queries."
        columns = _part_columns({Column("Part"): lambda part: part.part})
        found.append(Table.of(f"judge_{number}_parts", caption, judge.parts, columns))
    if judge.systems:
        found.append(_systems_table(judge, number))
    if judge.decision is not None:
        found.append(_decision_table(agreement.human, judge, number))
    return found


def _confusion_table(human: str, judge: JudgeResult, number: int) -> Table:
    caption = f"{judge.judge}'s grades of the documents with each grade by {human}."
    columns: dict[Column, Callable[[Any], Cell]] = {
        Column(f"By {human}", "count"): lambda row: plain_number(row.grade),
        Column("Documents", "count"): lambda row: row.n_documents,
        Column("Mean grade", "metric"): lambda row: _mean_grade(judge, row.counts),
    }
    if len(judge.judge_grades) <= _MOST_GRADES:
        for place, grade in enumerate(judge.judge_grades):
            columns[Column(f"{plain_number(grade)} by {judge.judge}", "percent")] = _share_at(place)
    return Table.of(f"judge_{number}_confusion", caption, judge.confusion, columns)


def _mean_grade(judge: JudgeResult, counts: tuple[int, ...]) -> float:
    total = sum(grade * count for grade, count in zip(judge.judge_grades, counts, strict=True))
    return total / sum(counts)


def _share_at(place: int) -> Callable[[Any], Cell]:
    return lambda row: row.counts[place] / row.n_documents


def _systems_table(judge: JudgeResult, number: int) -> Table:
    caption = (
        f"By how much {judge.judge} is milder on a system's first {judge.systems[0].k} documents than on other listed "
        "documents of the same human grade; intervals hold together."
    )
    columns: dict[Column, Callable[[SystemBias], Cell]] = {
        Column("System"): lambda row: row.system,
        Column("Milder by", "difference"): lambda row: _estimate(row.milder),
    }
    return Table.of(f"judge_{number}_systems", caption, judge.systems, columns)


def _decision_table(human: str, judge: JudgeResult, number: int) -> Table:
    assert judge.decision is not None
    decision = judge.decision
    caption = (
        f"{decision.metric} against {decision.baseline} over {count_of(decision.n_queries, 'query')}, by the labels of "
        f"documents that both judged; and how many human-labelled queries find the difference that {human} measured, "
        f"or the one asked for, with {POWER:.0%} probability."
    )
    columns: dict[Column, Callable[[JudgedPair], Cell]] = {
        Column("System"): lambda pair: pair.system,
        Column(f"By {human}", "difference"): lambda pair: Estimate(
            pair.human_difference, pair.human_ci_low, pair.human_ci_high
        ),
        Column("Verdict"): lambda pair: pair.human_verdict,
        Column(f"By {judge.judge}", "difference"): lambda pair: Estimate(
            pair.judge_difference, pair.judge_ci_low, pair.judge_ci_high
        ),
        Column("Its verdict"): lambda pair: pair.judge_verdict,
        Column("Queries needed", "count"): lambda pair: pair.needed,
        Column("beside the judge", "count", hint="Where the judge labels many more."): lambda pair: (
            pair.needed_with_judge
        ),
    }
    return Table.of(f"judge_{number}_decision", caption, decision.pairs, columns)
