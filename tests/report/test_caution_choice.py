"""At most one caution below a table, about contenders and with a cure; the others under Method, all of them in JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from ltr_harness.comparison.caution_choice import ONE_TRAINING, choose_cautions
from ltr_harness.errors import Caution
from ltr_harness.report import ReportData
from ltr_harness.report.blocks import Bullets, Details, Paragraph
from ltr_harness.report.json_document import document
from ltr_harness.report.notebook import html
from ltr_harness.report.sections.verdict import section
from ltr_harness.report.terminal import render

CONTENDER, LOSER = "xgb-ndcg", "best-feature"
ABOUT_LOSER = Caution(
    "rare-kind", "warning", "a query type may be missing here", "evaluate more queries", LOSER
)
ABOUT_BOTH = replace(ABOUT_LOSER, kind="lopsided", place=f"{CONTENDER}, {LOSER}")
FOLDS = [
    Caution(
        "sorted-labels",
        "warning",
        f"in {n} of 40 queries the documents are sorted",
        "shuffle",
        f"fold{n} test",
    )
    for n in (31, 32, 33)
]
NOTE = Caution("query-units", "note", "tests go by user_id")


@pytest.fixture(scope="module")
def noted(data: ReportData) -> ReportData:
    """A report with a caution of each sort; `best-feature` is worse than the baseline, `xgb-ndcg` is not."""
    assert data.comparison.paired(LOSER).verdict == "worse"
    assert data.comparison.paired(CONTENDER).verdict != "worse"
    comparison = replace(data.comparison, cautions=(NOTE, ABOUT_LOSER, ABOUT_BOTH, *FOLDS))
    return replace(data, comparison=comparison)


def test_the_terminal_has_one_note(noted: ReportData) -> None:
    notes = [line for line in render(noted, width=200).splitlines() if line.startswith("Note: ")]
    assert notes == [f"Note: {CONTENDER}: a query type may be missing here; evaluate more queries"]
    assert "1 more caution and 1 note: `--verbose`" in render(noted, width=200)


def test_verbose_has_all_but_the_verdicts_on_losers(noted: ReportData) -> None:
    notes = [
        line for line in render(noted, width=200, verbose=True).splitlines() if line.startswith("Note: ")
    ]
    assert len(notes) == 3
    assert "fold31 test (alike: fold32 test, fold33 test): in 31 of 40 queries" in notes[1]
    assert notes[2] == "Note: tests go by user_id"
    assert not any(LOSER in note for note in notes)


def test_the_page_has_one_note_and_the_others_under_method(noted: ReportData) -> None:
    content = section(noted)
    notes = [block.text for block in content if isinstance(block, Paragraph) and block.tone == "note"]
    assert len(notes) == 1
    assert str(notes[0]).endswith("evaluate more queries (1 more caution and 1 note under Method)")
    (method,) = (block for block in content if isinstance(block, Details))
    (others,) = (block.items for block in method.blocks if isinstance(block, Bullets))
    assert [str(item)[:12] for item in others] == ["fold31 test ", "tests go by "]


def test_a_notebook_and_a_console_show_the_same_note(noted: ReportData) -> None:
    shown = html(noted.comparison)
    assert shown.count("a query type may be missing here") == 1
    assert shown.index("a query type may be missing here") < shown.index("<details")
    notes = [line for line in repr(noted.comparison).splitlines() if line.startswith("note: ")]
    assert notes == [
        f"note: {CONTENDER}: a query type may be missing here; evaluate more queries",
        "note: 1 more caution and 1 note in `cautions`",
    ]


def test_json_has_every_caution_as_it_was_found(noted: ReportData) -> None:
    kept = json.loads(json.dumps(document(noted), default=vars))["cautions"]
    assert [caution["place"] for caution in kept] == [
        "", LOSER, f"{CONTENDER}, {LOSER}", "fold31 test", "fold32 test", "fold33 test",
    ]  # fmt: skip


def test_errors_come_first_whomever_they_are_about() -> None:
    leak = Caution("leaking-feature", "accepted", "the label is a feature", place="test")
    assert choose_cautions([ABOUT_BOTH, leak], [LOSER]).below == leak


def test_training_of_a_loser_is_reported_behind_the_contenders() -> None:
    constant = Caution("constant-model", "warning", "the model is constant", place=LOSER)
    assert choose_cautions([constant, ABOUT_BOTH], [LOSER]).below == replace(ABOUT_BOTH, place=CONTENDER)
    assert choose_cautions([constant], [LOSER]).below == constant


def test_one_training_leaves_the_place_to_what_can_undo_the_result() -> None:
    once = Caution(ONE_TRAINING, "warning", "trained with one seed", "train with three seeds")
    many = Caution("many-looks", "warning", "these 20 queries have decided 10 comparisons")
    constant = Caution("constant-model", "warning", "the model is constant", place=LOSER)
    leak = Caution("leaking-feature", "accepted", "the label is a feature", place="test")
    assert choose_cautions([once, ABOUT_BOTH, many]).below == many
    assert choose_cautions([once, *FOLDS[:1]]) == (FOLDS[0], (once,))
    assert choose_cautions([once, ABOUT_BOTH, constant, NOTE], [LOSER]).below == once
    assert choose_cautions([once, many, leak]).below == leak


def test_mere_notes_never_stand_below_the_table() -> None:
    assert choose_cautions([NOTE]) == (None, (NOTE,))
    assert choose_cautions([NOTE]).folded_text == "1 note"


def test_the_closest_model_is_a_contender_where_all_are_worse(data: ReportData) -> None:
    pairs = [replace(pair, verdict="worse") for pair in data.comparison.pairs]
    comparison = replace(data.comparison, pairs=type(data.comparison.pairs)(pairs))
    closest = next(model for model in comparison.ranking if model != comparison.baseline)
    assert closest not in comparison.losers
    assert len(comparison.losers) == len(comparison.models) - 2


def test_the_method_in_one_plain_line(data: ReportData) -> None:
    text = re.sub(r"\s+", " ", render(data))
    n = len(data.comparison.models) - 1
    assert (
        f"intervals and p-values cover queries and seeds, corrected for {n} comparisons (`--verbose` for the test)"
        in text
    )
    assert "sign-flip test" not in text
    assert "sign-flip test" in render(data, verbose=True)
