"""`judge_agreement`: forms of judgments, parts, the decision by both labels, and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ltr_harness.comparison import JudgeAgreement, judge_agreement
from ltr_harness.errors import DataError, UsageError
from ltr_harness.report.judge_agreement import judge_page

N = 60
Labels = dict[str, dict[str, int]]


def world(seed: int = 0, favour: float = 0.5) -> tuple[Labels, Labels, dict[str, dict[str, list[str]]]]:
    """Human grades, those of a judge that favours the worst system, and three rankings."""
    rng = np.random.default_rng(seed)
    human: Labels = {}
    judge: Labels = {}
    runs: dict[str, dict[str, list[str]]] = {"old": {}, "good": {}, "bad": {}}
    for number in range(N):
        query, documents = f"q{number}", [f"d{place}" for place in range(20)]
        grades = rng.choice(4, 20, p=[0.6, 0.2, 0.1, 0.1])
        for run, noise in (("old", 2.0), ("good", 1.0), ("bad", 6.0)):
            order = np.argsort(-grades - noise * rng.normal(size=20))
            runs[run][query] = [documents[place] for place in order.tolist()]
        raised = [document in runs["bad"][query][:5] and rng.random() < favour for document in documents]
        human[query] = dict(zip(documents, grades.tolist(), strict=True))
        judge[query] = {
            document: int(min(grade + 2 * is_raised, 3))
            for document, grade, is_raised in zip(documents, grades.tolist(), raised, strict=True)
        }
    return human, judge, runs


@pytest.fixture(scope="module")
def favoured() -> JudgeAgreement:
    human, judge, runs = world(favour=0.9)
    return judge_agreement(
        human,
        {"llm": judge, "same": human},
        runs=runs,
        metric="ndcg@5",
        slices={f"q{n}": "de" if n % 3 else "us" for n in range(N)},
    )


@pytest.mark.long
def test_a_judge_that_favours_a_system_is_found_and_decides_otherwise(favoured: JudgeAgreement) -> None:
    llm, same = favoured.judges
    assert llm.overall.n_documents == 20 * N
    assert llm.overall.bias is not None
    assert llm.overall.bias.low is not None
    assert llm.overall.bias.low > 0
    milder = {bias.system: bias.milder for bias in llm.systems}
    assert milder["bad"] is not None
    assert milder["bad"].low is not None
    assert milder["bad"].low > 0.5
    decision = llm.decision
    assert decision is not None
    assert decision.human_order == ("good", "old", "bad")
    assert decision.judge_order[0] == "bad"
    assert not decision.is_same
    verdicts = {pair.system: (pair.human_verdict, pair.judge_verdict) for pair in decision.pairs}
    assert verdicts["bad"] == ("worse", "better")
    lines = favoured.lines_of(llm)
    assert lines[0].startswith("llm agrees with human at kappa 0.")
    assert lines[1].startswith("llm favours bad: it is milder by ")
    assert lines[2].startswith(
        "The decision by llm is another than by human at ndcg@5 over 60 queries, against old: "
    )
    assert "bad is worse by human and better by llm" in lines[2]
    assert same.decision is not None
    assert same.decision.is_same
    assert same.decision.tau.value == 1.0
    assert same.overall.kappa is not None
    assert same.overall.kappa.value == 1.0


def test_parts_and_needed_labels(favoured: JudgeAgreement) -> None:
    llm, same = favoured.judges
    parts = {part.part: part for part in llm.parts}
    assert list(parts) == ["rank 1 to 3", "rank 4 to 10", "rank 11 to 30", "slice de", "slice us"]
    assert sum(part.n_documents for name, part in parts.items() if name.startswith("rank")) == 20 * N
    assert (parts["slice de"].n_queries, parts["slice us"].n_queries) == (40, 20)
    assert same.decision is not None
    for pair in same.decision.pairs:  # a judge that agrees in all spares all human labels but a few
        assert pair.needed is not None
        assert pair.needed_with_judge is not None
        assert pair.needed_with_judge < pair.needed
    human, judge, runs = world()
    asked = judge_agreement(human, judge, runs=runs, metric="ndcg@5", difference=0.01).judges[0].decision
    assert asked is not None
    assert all(pair.needed is not None and pair.needed > N for pair in asked.pairs)


def test_forms_give_the_same(tmp_path: Path) -> None:
    human, judge, _ = world()
    expected = judge_agreement(human, judge).judges[0].overall
    rows = {name: rows_of(labels) for name, labels in {"human": human, "llm": judge}.items()}
    (tmp_path / "human.qrels").write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in rows["human"]))
    frame = pd.DataFrame(rows["llm"], columns=["query_id", "doc_id", "grade"])
    frame.to_csv(tmp_path / "llm.csv", index=False)
    from_files = judge_agreement(tmp_path / "human.qrels", tmp_path / "llm.csv")
    assert (from_files.human, from_files.judges[0].judge) == ("human", "llm")
    assert from_files.judges[0].overall == expected
    votes = pd.concat(
        [
            pd.DataFrame(part, columns=["query_id", "doc_id", "grade"]).assign(who=name)
            for name, part in rows.items()
        ]
    )
    votes.to_csv(tmp_path / "votes.csv", index=False)
    for table in (votes, tmp_path / "votes.csv"):
        one_file = judge_agreement(table, judge_column="who")
        assert (one_file.human, one_file.judges[0].judge) == ("human", "llm")
        assert one_file.judges[0].overall == expected


def rows_of(labels: Labels) -> list[tuple[str, str, int]]:
    return [
        (query, document, grade) for query, grades in labels.items() for document, grade in grades.items()
    ]


def test_several_judgments_of_a_judge_become_one() -> None:
    human = {"q": {"a": 0, "b": 2}, "r": {"a": 1, "b": 0}}
    votes = [("q", "a", 0), ("q", "a", 2), ("q", "a", 0), ("q", "b", 2), ("r", "a", 1), ("r", "b", 0)]
    with pytest.raises(DataError, match="several: majority"):
        judge_agreement(human, {"crowd": votes})
    found = judge_agreement(human, {"crowd": votes}, several="majority")
    assert found.judges[0].overall.kappa is not None
    assert found.judges[0].overall.kappa.value == 1.0
    assert "several judgments" in str(found.cautions[0])


def test_documents_that_one_side_judged_are_counted_and_do_not_count() -> None:
    human = {"q": {"a": 0, "b": 2, "c": 1}, "r": {"a": 1}}
    judge = {"q": {"a": 0, "b": 1, "x": 3}, "r": {"a": 1, "y": -1}}
    found = judge_agreement(human, judge)
    result = found.judges[0]
    assert (result.overall.n_documents, result.n_human_only, result.n_judge_only) == (3, 1, 1)
    assert "1 that the human alone judged and 1 that the judge alone judged" in str(found.cautions[0])


def test_what_cannot_be_told_is_said() -> None:
    equal = judge_agreement({"q": {"a": 1}, "r": {"b": 1}}, {"q": {"a": 1}, "r": {"b": 1}})
    assert equal.judges[0].overall.kappa is None
    assert [caution.kind for caution in equal.cautions] == ["equal-judgments", "few-queries"]
    assert "a kappa that is undefined" in repr(equal)
    assert "undefined" in judge_page(equal).sections[0].blocks[0].text  # type: ignore[union-attr]
    one_query = judge_agreement({"q": {"a": 1, "b": 0}}, {"q": {"a": 1, "b": 1}})
    assert "one query: there is no interval" in str(one_query.cautions[-1])
    scaled = judge_agreement({"q": {"a": 1, "b": 0}}, {"q": {"a": 100, "b": 1}})
    assert "other-scale" in [caution.kind for caution in scaled.cautions]


@pytest.mark.parametrize(
    ("human", "given", "message"),
    [
        ({"q": {"a": 1}}, {"judges": {"r": {"a": 1}}}, "judges no document that human judges"),
        ({"q": {"a": 1}}, {"judges": {"q": {"a": -1}}}, "all grades are below 0"),
        ({"q": {"a": 1}}, {}, "no judge"),
        ({"q": {"a": 1}}, {"judges": {"human": {"q": {"a": 1}}}}, "a judge is called human"),
        ({"q": {"a": 1}}, {"judge_column": "who"}, "is not a table"),
        (
            pd.DataFrame({"query_id": ["q"], "doc_id": ["a"], "grade": [1]}),
            {"judge_column": "who"},
            "has no column 'who'",
        ),
        (
            pd.DataFrame({"query_id": ["q"], "doc_id": ["a"], "grade": [1], "who": ["ann"]}),
            {"judge_column": "who"},
            "has one judge",
        ),
        ({"q": {"a": 1}}, {"judges": {"q": {"a": 1}}, "slices": pd.DataFrame({"market": ["de"]})}, "query_id"),
        ({"q": {"a": 1}}, {"judges": {"q": {"a": 1}}, "slices": 3}, "slices: is a int; expected a table with query_id"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(human: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, UsageError), match=message):
        judge_agreement(human, **given)


def test_the_page_renders_in_every_form(favoured: JudgeAgreement) -> None:
    page = judge_page(favoured)
    assert len(page.sections) == 3  # the answer, and each judge
    assert '"kappa"' in page.document()
    assert "favours bad" in favoured._repr_html_()
