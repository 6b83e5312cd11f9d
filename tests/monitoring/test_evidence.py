"""Evidence set by hand, what alerts of it and what is a caution: every rule on both sides of its boundary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.data.logs.contract import LogCheck
from ltr_harness.errors import Caution
from ltr_harness.monitoring.alerts import alerts_of, undecided_of
from ltr_harness.monitoring.labels import CLICK_BIAS
from ltr_harness.monitoring.result import Alert, Examined, LabelTest, Presentation, Slice

from .conftest import (  # type: ignore[import-not-found]
    FELL,
    NAN,
    ROSE,
    STILL,
    STOOD,
    change,
    drift,
    evidence,
    labels,
    page,
    segment,
    window,
)

WARNING = LogCheck("rank-gap", "warning", "production", 2, 10, "queries", "queries with gaps", ())
GAPS = Caution(
    "rank-gap", "warning", "2 of 10 queries with gaps", "log every row that was shown", place="production"
)
IPS = Estimate(-0.2, -0.3, -0.1)  # a tenth of the 2.0 it was
A_TENTH = {"compare": {"min_drop": 0.1}}


def test_of_an_input_the_worst_of_what_broke_is_said() -> None:
    found = evidence(
        drift=[
            drift("a", broken="is 0", unmatched_share=0.2),
            drift("a", broken="is missing", unmatched_share=0.5),
            drift("a", broken="is constant", unmatched_share=0.5),
            drift("a", broken="is new", unmatched_share=0.1),
            drift("b", unmatched_share=0.9),
            drift("c", broken="is 1"),
        ]
    )
    assert found.broken_input_texts == ["a is missing", "c is 1"]
    assert [str(alert) for alert in alerts_of(found)[0]] == ["ALERT input a is missing", "ALERT input c is 1"]


@pytest.mark.parametrize(
    ("seen", "fell", "is_open", "fall_excluded"),
    [
        (None, False, False, False),
        (page("page"), False, False, False),
        (page("page", ips=IPS), True, False, False),
        (page("ranking", ips=IPS), True, False, False),
        (
            page(ips=Estimate(-0.19, -0.3, -0.1)),
            False,
            True,
            False,
        ),  # less than a tenth of 2.0, which it holds
        (page(ips=Estimate(-0.5, -0.9, 0.1)), False, True, False),  # not for certain
        (page(ips=Estimate(-0.05, -0.2, 0.1)), False, True, False),  # a tenth itself
        (page(ips=Estimate(-0.05, -0.199, 0.1)), False, False, True),
        (page(ips=Estimate(-0.1, -0.19, -0.01)), False, False, True),  # worse for certain, and not by a tenth
        (page(ips=Estimate(0.5, 0.4, 0.6)), False, False, True),
        (page(ips=Estimate(NAN)), False, True, False),
    ],
)
def test_a_fall_without_the_page_is_shown_open_or_excluded(
    seen: Presentation | None, fell: bool, is_open: bool, fall_excluded: bool
) -> None:
    found = evidence(A_TENTH, presentation=seen)
    corrected = found.corrected
    assert found.ips_fell is fell
    assert found.ips_fall_excluded is fall_excluded
    assert (corrected is not None and corrected.is_open) is is_open


@pytest.mark.parametrize(
    ("seen", "unclear"),
    [
        (None, False),
        (page(changed=False), False),
        (page("page"), True),
        (page("ranking"), True),
        (page("ranking", rank_1=FELL), False),  # all users look at rank 1
        (page("ranking", rank_1=ROSE), True),
        (page("page", ips=STILL), True),
        (page("page", ips=STOOD), False),
        (page("page", ips=FELL), False),
        (page("page", changed=False, ips=STILL), False),
    ],
)
def test_where_page_and_ranking_cannot_be_told_apart(seen: Presentation | None, unclear: bool) -> None:
    fell = change(FELL, alert=True)
    assert evidence(presentation=seen, change=fell).page_or_ranking is unclear
    assert not evidence(presentation=seen).page_or_ranking  # nothing moved


@pytest.mark.parametrize(
    ("seen", "lost"),
    [
        (None, True),
        (page(), True),
        (page(changed=False, ips=STILL), True),
        (page(ips=STILL), False),  # as much gain as before
        (page(ips=FELL), False),  # a worse ranking
    ],
)
def test_labels_are_lost_where_no_change_of_the_page_is_behind_it(
    seen: Presentation | None, lost: bool
) -> None:
    assert evidence(presentation=seen, labels=[labels()]).lost_labels is lost
    assert not evidence(presentation=seen, labels=[labels(alert=False)]).lost_labels


@pytest.mark.parametrize(
    ("uneven", "even"),
    [
        (Estimate(0.0, -0.2, 0.2), True),  # half of a loss of .4
        (Estimate(0.0, -0.21, 0.2), False),
        (Estimate(0.0, -0.1, 0.21), False),
        (Estimate(0.1, 0.05, 0.15), True),
        (Estimate(-0.4, -0.5, -0.3), False),
    ],
)
def test_a_loss_is_even_where_rank_1_is_shown_to_lose_about_as_much(uneven: Estimate, even: bool) -> None:
    seen = page(rank_1_against_rest=uneven, positives_change=-0.4)
    known = evidence(presentation=seen, labels=[labels()])
    assert (known.even_loss, known.outage) == (even, even)
    assert evidence(presentation=seen, labels=[labels()], labels_arriving=True).outage
    assert not evidence(presentation=seen).outage


def test_something_moved_in_all_of_production_or_in_a_window() -> None:
    assert evidence(change=change(FELL, alert=True)).moved
    assert not evidence(change=change(FELL), windows=[window("d1")]).moved
    for kind in ("alert", "trailing_alert", "running_alert"):
        assert evidence(windows=[window("d1"), window("d2", **{kind: True})]).moved


def test_what_is_worse_depends_on_the_metric() -> None:
    assert evidence().loss(-0.5) == 0.5
    assert evidence({"metrics": ["kendall_tau_distance"]}).loss(-0.5) == -0.5


def test_a_fall_of_ips_dcg_alerts_where_the_metric_did_not_fall() -> None:
    steady = page(changed=False, ips=Estimate(-0.2, -0.3, -0.1, p=0.0001))
    line = (
        "ALERT change self-normalised IPS-DCG -0.2000 [-0.3000, -0.1000] p=0.0001 while ndcg@10 did not fall"
    )
    alerts, cautions = alerts_of(evidence(presentation=steady))
    assert ([str(alert) for alert in alerts], cautions) == ([line], [])
    for other in (
        evidence(presentation=page(changed=False, ips=STILL)),
        evidence(presentation=page(changed=False)),
        evidence(presentation=steady, labels=[labels()]),
        evidence(presentation=page(changed=False, ips=Estimate(-0.2, -0.3, -0.1, p=0.011))),
        evidence(presentation=steady, change=change(FELL, alert=True)),
    ):
        assert not any("IPS-DCG" in alert.text for alert in alerts_of(other)[0])


@pytest.mark.parametrize(
    ("given", "alerts"),
    [
        ({}, True),
        ({"presentation": page("page")}, True),
        ({"presentation": page(ips=STILL)}, True),
        ({"presentation": page(ips=STOOD)}, False),
        ({"presentation": page(ips=IPS)}, True),
        ({"labels_arriving": True}, False),
    ],
)
def test_lost_labels_alert_unless_they_arrive_or_ips_dcg_stood(given: dict[str, Any], alerts: bool) -> None:
    found, cautions = alerts_of(evidence(labels=[labels()], **given))
    text = "queries with a relevant document 0.500 -> 0.250 p=0.0300"
    said = Caution("label_rate", "warning", text)
    assert ([a.text for a in found if a.kind == "label_rate"], cautions.count(said)) == (
        ([text], 0) if alerts else ([], 1)
    )


def test_label_tests_of_one_kind_are_one_line() -> None:
    tests = [labels("clicks", day) for day in ("d1", "all", "d2")]
    tests[1] = LabelTest("clicks", "all", STILL, True, before=0.4, now=0.1, p_corrected=0.00005)
    tests.append(LabelTest("sales", "d2", STILL, True, before=0.3, now=0.2, p_corrected=1e-4))
    tests.append(labels("sales", "d3"))
    assert [alert.text for alert in alerts_of(evidence(labels=tests))[0]] == [
        "clicks 0.400 -> 0.100 p<0.0001 in 2 windows, first d1",
        "sales 0.300 -> 0.200 p=0.0001 in 2 windows, first d2",
    ]


def test_a_changed_page_is_a_caution() -> None:
    for signature, what in (
        ("page", "the page changed, or the ranking below rank 1"),
        ("ranking", "the ranking or the page changed"),
        ("none", "the page may have changed"),
    ):
        text = f"positives are spread over the ranks differently ({what}); {CLICK_BIAS}"
        caution = Caution("presentation", "warning", text)
        assert alerts_of(evidence(presentation=page(signature))) == ([], [caution])
    assert alerts_of(evidence(presentation=page(changed=False))) == alerts_of(evidence()) == ([], [])


def test_which_kinds_alert_is_configured() -> None:
    (alert,), cautions = alerts_of(evidence(warnings=[WARNING]))
    assert (str(alert), cautions) == ("ALERT contract rank-gap 2 of 10 queries with gaps", [])
    assert alerts_of(evidence({"alerts": {"on": ["change"]}}, warnings=[WARNING])) == ([], [GAPS])


def test_a_check_that_raises_no_alert_is_a_caution() -> None:
    """So are notes, and what the baseline's log has as often."""
    before = replace(WARNING, log="baseline")
    note = LogCheck(
        "one-item", "note", "production", 3, 10, "queries", "queries list a single item", ("query 'a'",)
    )
    found = evidence(warnings=[WARNING, before, note])
    assert found.new_defects == []
    alerts, cautions = alerts_of(found)
    assert alerts == []
    text = "3 of 10 queries list a single item, such as query 'a'"
    one_item = Caution("one-item", "note", text, place="production")
    assert cautions == [GAPS, replace(GAPS, place="baseline"), one_item]


def test_nothing_alarms_without_a_baseline() -> None:
    """Only arms and served scores have a reference of their own: control and stored model."""
    found, cautions = alerts_of(evidence(change=None, slices=[segment(FELL)], warnings=[WARNING]))
    of_slice = f"slice ndcg@10 in country=D {FELL} against the rest, share 10.0 %"
    assert (found, cautions) == ([], [Caution("slice", "warning", of_slice), GAPS])


@pytest.mark.parametrize(
    ("sections", "given", "why"),
    [
        ({}, {}, None),
        ({}, {"presentation": page("page")}, None),
        ({}, {"presentation": page("ranking", ips=STILL)}, None),
        (
            {},
            {"presentation": page("ranking", ips=STOOD)},
            "corrected for the page, the ranking did not get worse",
        ),
        ({}, {"labels_arriving": True, "labels": [labels()]}, "labels are still arriving"),
        ({}, {"labels_arriving": True}, None),
        ({}, {"labels": [labels()]}, "labels are missing"),
        ({}, {"labels": [labels()], "presentation": page("ranking")}, None),
        ({"alerts": {"on": ["slice"]}}, {}, "change is not in alerts.on"),
    ],
)
def test_demoted_changes_are_two_cautions(
    sections: dict[str, Any], given: dict[str, Any], why: str | None
) -> None:
    all_of_it = "ndcg@10 -0.0200 [-0.0300, -0.0100] p=0.0200 all of production against the baseline"
    one = "ndcg@10 -0.0200 [-0.0300, -0.0100] p=0.0400 window d1"
    w = window("d1", alert=True, change=FELL, p_corrected=0.04)
    for windows, texts in ([], [all_of_it]), ([w], [all_of_it, one]):
        known = evidence(sections, change=change(FELL, alert=True), windows=windows, **given)
        alerts, cautions = alerts_of(known)
        changes = [caution.text for caution in cautions if caution.kind == "change"]
        assert [a.text for a in alerts if a.kind == "change"] == ([] if why else texts)
        first = [f"{all_of_it} (no alert: {why})"] if why else []
        more = [f"the same in 1 more, the last of them {one}"] if why and windows else []
        assert changes == first + more
    assert not any("ndcg@10" in caution.text for caution in alerts_of(evidence(sections, **given))[1])


def test_a_window_alerts_by_itself_else_with_those_before_it() -> None:
    trailing = {"trailing": FELL, "trailing_p_corrected": 0.2}
    running = {"running": FELL, "running_p_corrected": 0.3}
    own = {"change": FELL, "p_corrected": 0.1}
    windows = [
        window("d1", alert=True, trailing_alert=True, **own, **trailing),
        window("d2", trailing_alert=True, running_alert=True, **own, **trailing, **running),
        window("d3", running_alert=True, **own, **trailing, **running),
        window("d4", **own, **trailing, **running),
        window("d5", alert=True, trailing_alert=True, running_alert=True),
    ]
    found = alerts_of(evidence({"windows": {"trailing": 5}}, change=change(FELL), windows=windows))[0]
    number = "ndcg@10 -0.0200 [-0.0300, -0.0100]"
    assert [(alert.text, alert.window) for alert in found] == [
        (f"{number} p=0.1000 window d1", "d1"),
        (f"{number} p=0.2000 5 windows up to d2", "d2"),
        (f"{number} p=0.3000 all windows on record up to d3", "d3"),
    ]


SPLIT = {"slices": {"confirm_split": True, "alpha": 0.05}}
OF_IT = "ndcg@10 in country=D {} beyond the rest, share 10.0 %"
SURE, UNSURE = Estimate(-0.3, -0.4, -0.2, p=0.05), Estimate(-0.3, -0.4, -0.2, p=0.06)


@pytest.mark.parametrize(
    ("sections", "worst", "said", "alerts"),
    [
        ({}, segment(FELL), f"{FELL}", True),
        ({}, segment(Estimate(-0.01)), f"{Estimate(-0.01)}", True),  # min_drop itself
        ({}, segment(Estimate(-0.009)), f"{Estimate(-0.009)}", False),
        ({"alerts": {"on": ["change"]}}, segment(FELL), f"{FELL}", False),
        (SPLIT, segment(FELL), f"{FELL}", False),
        (SPLIT, segment(FELL, SURE), f"{SURE}", True),
        (SPLIT, segment(FELL, UNSURE), f"{UNSURE}", False),
        (SPLIT, segment(FELL, Estimate(-0.009, p=0.01)), f"{Estimate(-0.009)}", False),
    ],
)
def test_a_segment_alerts_where_it_matters_and_is_sure(
    sections: dict[str, Any], worst: Slice, said: str, alerts: bool
) -> None:
    text = OF_IT.format(said)
    if sections is SPLIT:
        sure = worst.confirmed is not None and worst.confirmed is not UNSURE
        text += f" ({'confirmed' if sure else 'not confirmed'} by the other half of the queries)"
    found, cautions = alerts_of(evidence(sections, slices=[worst]))
    demoted = Caution("slice", "warning", f"slice {text}")
    assert ([alert.text for alert in found], cautions) == (([text], []) if alerts else ([], [demoted]))


def test_a_segment_beyond_the_rest_and_under_a_changed_page() -> None:
    (alert,), _ = alerts_of(evidence(slices=[segment(FELL)]))
    assert alert.text == OF_IT.format(FELL)
    found, cautions = alerts_of(evidence(slices=[segment(FELL)], presentation=page(ips=STOOD)))
    assert (found, cautions[0].text) == ([], f"slice {OF_IT.format(FELL)}")


def test_a_segment_of_the_windows_that_raised_the_alert_says_so() -> None:
    part = Examined(("d1", "d2"), 200, 0.9, 0.8, FELL)
    (alert,), _ = alerts_of(evidence(slices=[segment(FELL)], examined=part))
    assert alert.text == f"{OF_IT.format(FELL)} of 2 windows"


@pytest.mark.parametrize(
    ("sections", "given", "start"),
    [
        ({}, {}, ""),
        ({}, {"change": change(ROSE)}, ""),
        (
            {},
            {"change": change(FELL)},
            f"ndcg@10 changed by {FELL}, and a fall of min_drop 0.01 is not excluded",
        ),
        ({"compare": {"min_drop": 0.04}}, {"change": change(FELL)}, ""),
        ({}, {"change": change(FELL, below_min_drop=True)}, ""),
        ({}, {"change": change(FELL, alert=True), "presentation": page(ips=STOOD)}, ""),
        (
            {"alerts": {"on": ["slice"]}},
            {"change": change(FELL, alert=True)},
            "ndcg@10 moved, and change is not in",
        ),
        (
            {},
            {"presentation": page("page")},
            "the page may have changed, or the ranking; propensity: would tell",
        ),
        ({}, {"presentation": page("ranking", rank_1=ROSE)}, ""),
        ({}, {"presentation": page("page", ips=STOOD)}, ""),
        (
            {},
            {"presentation": page("page", ips=STILL)},
            f"self-normalised IPS-DCG changed by {STILL}, and a fall of min_drop 0.01 of what it was is not excluded",
        ),
        ({}, {"presentation": page(changed=False, ips=STILL)}, ""),
        ({}, {"presentation": page(changed=False, ips=FELL)}, f"self-normalised IPS-DCG changed by {FELL}"),
        ({}, {"labels": [labels()], "labels_arriving": True}, "labels are still arriving"),
    ],
)
def test_where_a_loss_is_neither_shown_nor_excluded(
    sections: dict[str, Any], given: dict[str, Any], start: str
) -> None:
    known = evidence(sections, **given)
    alerts, _ = alerts_of(known)
    assert alerts == []
    text = undecided_of(known, alerts)
    assert text.startswith(start)
    assert bool(text) == bool(start)
    assert undecided_of(known, [Alert("change", "it fell")]) == ""


def test_how_many_queries_would_decide_it() -> None:
    """The interval reaches .03 to both sides, three times a fall of .01."""
    known = evidence(change=change(Estimate(-0.031, -0.061, -0.001)))
    assert undecided_of(known, []).endswith("; about 9 times as many queries would decide it")
