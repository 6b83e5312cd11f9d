"""The verdict's sentences and the cause, from evidence set by hand: every rule on both sides of its boundary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ltr_harness.comparison.stats.two_samples import Estimate
from ltr_harness.data.logs.contract import LogCheck
from ltr_harness.errors import Caution, Severity
from ltr_harness.monitoring.labels import CLICK_BIAS, LABELLED_DOCUMENTS, RELEVANT_DOCUMENTS
from ltr_harness.monitoring.result import (
    Examined,
    FeatureDrift,
    LabelTest,
    Presentation,
    SearchedColumn,
    SegmentDecomposition,
    Verdict,
)
from ltr_harness.monitoring.verdict import _explains, cause_of, verdict_of

from .conftest import (  # type: ignore[import-not-found]
    FELL,
    ROSE,
    STILL,
    STOOD,
    change,
    drift,
    evidence,
    labels,
    page,
    segment,
    split,
    window,
)

FELL_TEXT = "ndcg@10 fell: 0.8000 -> 0.7800, -0.0200 [-0.0300, -0.0100]"
NOT_AFTER = "; over all of production not significant after correction (p = 0.0200)"
STILL_NUMBERS = "0.8000 -> 0.8100, +0.0100 [-0.0200, +0.0400]"
STILL_TEXT = f"ndcg@10 did not measurably change: {STILL_NUMBERS}."
EVERYWHERE = "No segments or features were named in which to look for the cause."
SLICED = "It is worst in country=D (0.800 -> 0.700, 10.0 % of queries)."
WARNING = LogCheck("rank-gap", "warning", "production", 2, 9, "queries", "queries with gaps", ())
ALIKE = "No segment was tested."
ALIKE_AND_DRIFT = f"{ALIKE} Not explained by feature drift."
LOST = "Labels were lost, or other documents are retrieved: their order is not what changed."
PIPELINE = "Labels, not the ranking, changed; look at the event pipeline first."
CLICKS: dict[str, Any] = {"relevance": {"events": {"click": 1}}}
CAPITAL = f"{CLICK_BIAS[0].upper()}{CLICK_BIAS[1:]}"


def test_nothing_to_compare_with() -> None:
    said = "Nothing to compare with: no baseline was given."
    assert verdict_of(evidence(change=None)) == Verdict("none", said, "", None)
    where = "It is worst in country=D (0.700, -0.020 against the rest, 10.0 % of queries)."
    assert verdict_of(evidence(change=None, slices=[segment(FELL)])) == Verdict("none", said, where, None)


@pytest.mark.parametrize(
    ("given", "cause", "what"),
    [
        ({"change": change(STILL)}, "healthy", STILL_TEXT),
        ({"change": change(ROSE)}, "improved", "ndcg@10 rose: 0.8000 -> 0.8200, +0.0200 [+0.0100, +0.0300]."),
        ({"change": change(FELL)}, "healthy", f"{FELL_TEXT}{NOT_AFTER}."),
        ({"change": change(FELL, alert=True)}, "everywhere", f"{FELL_TEXT}."),
        (
            {"change": change(FELL, alert=True), "adjusted_for": ("country", "f3")},
            "everywhere",
            f"{FELL_TEXT} adjusted for country, f3.",
        ),
        (
            {"change": change(ROSE, alert=True)},
            "everywhere",
            "ndcg@10 rose: 0.8000 -> 0.8200, +0.0200 [+0.0100, +0.0300].",
        ),
        (
            {"change": change(FELL, below_min_drop=True)},
            "healthy",
            "ndcg@10 changed significantly, and by less than min_drop 0.01: 0.8000 -> 0.7800, "
            "-0.0200 [-0.0300, -0.0100].",
        ),
        *(
            (
                {"change": change(STILL), "windows": [window("d1"), window("d2", **{kind: True})]},
                "everywhere",
                f"ndcg@10 moved in 1 of 2 windows, first d2; over all of production: {STILL_NUMBERS}.",
            )
            for kind in ("alert", "trailing_alert", "running_alert")
        ),
    ],
)
def test_what_moved(given: dict[str, Any], cause: str, what: str) -> None:
    where = EVERYWHERE if cause == "everywhere" else ""
    assert verdict_of(evidence(**given)) == Verdict(cause, what, where, None)


def test_what_is_told_where_nothing_moved() -> None:
    known: dict[str, Any] = {"change": change(STILL), "warnings": [WARNING]}
    log = "The log itself differs from the baseline's: 2 of 9 queries with gaps."
    assert verdict_of(evidence(**known)) == Verdict("contract", STILL_TEXT, log, None)
    known["drift"] = [drift("f3", broken="is missing"), drift("f7", broken="is 0")]
    broke = "An input broke: f3 is missing; f7 is 0."
    assert verdict_of(evidence(**known)) == Verdict("input", STILL_TEXT, broke, None)
    known["slices"] = [segment(FELL)]
    assert verdict_of(evidence(**known)) == Verdict("slice", STILL_TEXT, SLICED, None)


BOTH = (
    "another page does this, and so does a worse ranking below rank 1. "
    "Without propensities the two cannot be told apart."
)


@pytest.mark.parametrize("moved", [{"change": change(FELL, alert=True)}, {"change": change(FELL)}, {}])
def test_without_propensities_page_and_ranking_cannot_be_told_apart(moved: dict[str, Any]) -> None:
    for signature, how in (
        ("page", "Positives at rank 1 are as frequent as before while other ranks moved"),
        ("ranking", "Positives are spread over the ranks differently"),
    ):
        found = verdict_of(evidence(presentation=page(signature), **moved))
        assert (found.cause, found.where) == ("unclear", f"{how}: {BOTH}")
        assert found.caution == cannot_tell(f"{CAPITAL}.")
    worse = verdict_of(evidence(presentation=page("ranking", rank_1=FELL), change=change(FELL, alert=True)))
    assert worse.cause == "everywhere"
    better = verdict_of(evidence(presentation=page("ranking", rank_1=ROSE), change=change(ROSE)))
    assert better.cause == "improved"


IPS_FELL = "Self-normalised IPS-DCG fell: 2.0000 -> 1.8000, {}"
IPS_STILL = "Self-normalised IPS-DCG did not measurably change: 2.0000 -> 1.8000, {}"
IPS_ROSE = "IPS-DCG rose: 2.0000 -> 1.8000, {}"
SMALL = Estimate(-0.01, -0.015, -0.005)
LEAST = "min_drop 0.01 of what it was"


@pytest.mark.parametrize(
    ("seen", "cause", "what"),
    [
        (page("page", ips=STOOD), "presentation", f"The page changed. {IPS_STILL}. On clicks, {{moved}}"),
        (
            page("page", ips=SMALL),
            "presentation",
            f"The page changed. {IPS_FELL} (less than {LEAST}). On clicks, {{moved}}",
        ),
        (page("ranking", ips=STOOD), "presentation", f"The page changed. {IPS_STILL}. On clicks, {{moved}}"),
        (page("ranking", ips=ROSE), "improved", f"The ranking got better. {IPS_ROSE}. On clicks, {{moved}}"),
        (page("page", ips=STILL), "unclear", f"{{moved}} {IPS_STILL}."),
        (page("ranking", ips=STILL), "unclear", f"{{moved}} {IPS_STILL}."),
        (page(ips=FELL), "slice", f"The ranking got worse. {IPS_FELL}. On clicks, {{moved}}"),
        (
            page(changed=False, ips=replace(FELL, p=0.01)),
            "slice",
            f"The ranking got worse. {IPS_FELL}. On clicks, {{moved}}",
        ),
    ],
)
def test_without_the_page_the_ranking_is_told(seen: Presentation, cause: str, what: str) -> None:
    for given, moved in (
        ({"change": change(STILL)}, STILL_TEXT),
        ({"change": change(FELL, alert=True), "slices": [segment(FELL)]}, f"{FELL_TEXT}."),
    ):
        found = verdict_of(evidence(presentation=seen, **given))
        assert found.what == what.format(seen.ips_normalised, moved=moved)
        clicks = f"{CAPITAL}; self-normalised IPS-DCG holds as far as the propensities do."
        assert found.caution == cannot_tell(clicks)
        no_slices = cause == "slice" and moved == STILL_TEXT
        assert found.cause == ("everywhere" if no_slices else cause)
        start = {
            "slice": SLICED,
            "unclear": "Whether the page or the ranking changed cannot be told: that does not exclude "
            f"a fall of {LEAST}.",
            "presentation": f"The ranking did not get worse by {LEAST}.",
        }
        assert found.where.startswith(start.get(found.cause, ""))
        assert bool(found.where) == (found.cause in start)
    steady = evidence(presentation=page(changed=False, ips=STILL), change=change(FELL, alert=True))
    assert verdict_of(steady).what == f"{FELL_TEXT}."


def test_what_is_undecided_is_no_health() -> None:
    for given, cause in (
        ({}, "unclear"),
        ({"change": change(ROSE)}, "unclear"),
        ({"slices": [segment(FELL)]}, "slice"),
    ):
        found = verdict_of(evidence(**given), "nobody knows")
        assert found.cause == cause
        assert found.where.endswith("Undecided: nobody knows.")


def test_the_windows_that_raised_the_alert_have_the_word() -> None:
    part = Examined(("d2",), 100, 0.9, 0.7, Estimate(-0.2, -0.25, -0.15))
    windows = [window("d1"), window("d2", alert=True)]
    known: dict[str, Any] = {"windows": windows, "examined": part, "change": change(FELL, alert=True)}
    of_part = "ndcg@10 fell in 1 of 2 windows, first d2: 0.9000 -> 0.7000, -0.2000 [-0.2500, -0.1500]"
    whole = "over all of production: 0.8000 -> 0.7800, -0.0200 [-0.0300, -0.0100]."
    assert verdict_of(evidence(**known)).what == f"{of_part}; {whole}"
    half = split("country", Estimate(-0.1, -0.12, -0.08))
    text = "Mix: the shares of country changed, which explains -0.1000 of -0.2000"
    assert cause_of(evidence(decompositions=[half], **known))[1].startswith(text)


def test_a_negative_sentence_says_what_was_searched() -> None:
    columns = (
        SearchedColumn("country", 8, 0, 50, "C", 0.502, 26),
        SearchedColumn("device", 2, 2, 50),
        SearchedColumn("shop", 3, 2, 50, "north", 0.81, 1),
    )
    sections = {"columns": {"rank": "rank", "segments": ["country"]}}
    known = evidence(sections, change=change(FELL, alert=True), searched=columns, n_slice_candidates=1200)
    assert verdict_of(known).where == (
        "No segment stands out among 1,200 that were tested. 8 of 8 values of country have fewer than 50 queries and "
        "were not tested; the lowest is C, 0.50 (26 queries). 1 of 3 values of shop has fewer than 50 queries and was "
        "not tested; the lowest is north, 0.81 (1 query)."
    )


def test_the_label_test_nearest_to_the_labels_is_told() -> None:
    tests = [labels("clicks"), labels(RELEVANT_DOCUMENTS), labels(), labels(LABELLED_DOCUMENTS)]
    for n, (name, where) in enumerate(
        [
            ("clicks", LOST),
            ("clicks", LOST),
            (labels().measure, LOST),
            (LABELLED_DOCUMENTS, PIPELINE),
        ],
        start=1,
    ):
        found = verdict_of(evidence(labels=tests[:n], change=change(STILL)))
        what = f"Label outage: {name} went from 0.500 to 0.250."
        caution = cannot_tell(f"The metric is unreliable meanwhile, up or down: {STILL_TEXT}")
        assert found == Verdict("labels", what, where, caution)
    events = verdict_of(evidence(CLICKS, labels=tests[:1], change=change(STILL)))
    assert events.where == PIPELINE


def test_labels_that_are_still_arriving() -> None:
    found = verdict_of(evidence(labels=[labels("clicks")], labels_arriving=True, change=change(STILL)))
    assert found.cause == "immature"
    assert found.what.startswith("Labels are still arriving: clicks went from 0.500 to 0.250, lower in every")
    text = f"Whether the ranking changed there cannot be tested yet: {STILL_TEXT}"
    assert found.caution == cannot_tell(text)


def test_fewer_labels_that_were_not_lost_evenly() -> None:
    fewer = "Clicks fell from 0.500 to 0.250, {}: a worse ranking below rank 1 does this too."
    uneven, untold = "not evenly over the ranks", "whether evenly over the ranks cannot be told"
    clicks = cannot_tell(f"{CAPITAL}.")
    fell = {"labels": [labels("clicks")], "change": change(FELL, alert=True)}

    def verdict_with(seen: Presentation | None, **given: Any) -> Verdict:
        return verdict_of(evidence(presentation=seen, **(fell | given)))

    def shape(low: float, high: float, **given: Any) -> Presentation:
        apart = Estimate((low + high) / 2, low, high)
        return page("ranking", rank_1_against_rest=apart, positives_change=-0.5, **given)

    assert verdict_with(shape(-0.9, -0.3, rank_1=FELL)) == Verdict(
        "everywhere", f"{FELL_TEXT}.", f"{EVERYWHERE} {fewer.format(uneven)}", clicks
    )
    for seen, given, ranks in (
        (shape(0.3, 0.9), {}, uneven),
        (shape(-0.3, 0.3, rank_1=FELL), {}, untold),
        (shape(-0.9, -0.3, rank_1=FELL), {"change": change(STILL)}, uneven),
    ):
        assert verdict_with(seen, **given).cause == "unclear"
        assert verdict_with(seen, **given).where == fewer.format(ranks)
    for seen in (None, page("none"), page("proportional"), shape(-0.2, 0.2)):
        assert verdict_with(seen).cause == "labels"


def test_rates_are_those_of_the_windows_that_are_at_fault() -> None:
    quiet = [labels("clicks", f"d{day}", alert=False) for day in range(8)]
    worst = LabelTest("clicks", "d9", STILL, True, before=0.5, now=0.1, p_corrected=0.001)
    found = verdict_of(evidence(labels=[labels("clicks"), *quiet, labels("clicks", "d8"), worst]))
    assert found.what == "Label outage: clicks went from 0.500 to 0.100 in d9."
    found = verdict_of(evidence(labels=[labels("clicks"), labels("clicks", "d8"), worst]))
    assert found.what == "Label outage: clicks went from 0.500 to 0.250."


def cannot_tell(text: str, severity: Severity = "warning") -> Caution:
    return Caution("cannot-tell", severity, text)


def test_what_cannot_be_told() -> None:
    windows = [window("d1", status="small"), window("d2"), window("d3", status="small")]
    other = change(STILL, method="Welch, different queries")
    parts: tuple[tuple[dict[str, Any], dict[str, Any], Severity, str], ...] = (
        ({}, {"n_immature": 1}, "note", "1 query is left out because labels are still arriving."),
        (
            {},
            {"change": other},
            "note",
            "The periods hold different queries, which is a weaker test than scoring the same ones twice.",
        ),
        (
            {},
            {"days_unknown": True},
            "warning",
            "Day-to-day variation is unknown, so ordinary day-to-day differences may raise alerts.",
        ),
        (CLICKS, {}, "warning", f"{CAPITAL}."),
        (
            CLICKS,
            {"n_immature": 1},
            "warning",
            f"1 query is left out because labels are still arriving; {CLICK_BIAS}.",
        ),
        (
            {},
            {"windows": windows, "n_immature": 2},
            "note",
            "2 queries are left out because labels are still arriving; 2 windows are not tested, with fewer than 200 "
            "queries (a longer windows.size tests more of them).",
        ),
    )
    for sections, given, severity, text in parts:
        known: dict[str, Any] = {"change": change(STILL), **given}
        assert verdict_of(evidence(sections, **known)).caution == cannot_tell(text, severity)
    assert verdict_of(evidence(change=change(STILL))).caution is None


@pytest.mark.parametrize(
    ("part", "chance", "total", "explains"),
    [
        (FELL, 0.05, -0.04, True),  # half of it, at the largest chance
        (FELL, 0.051, -0.04, False),
        (FELL, 0.05, -0.041, False),
        (ROSE, 0.05, 0.04, True),
        (ROSE, 0.05, -0.04, False),
        (Estimate(-0.04, -0.09, 0.01), 0.05, -0.04, False),
    ],
)
def test_what_explains_a_change(part: Estimate, chance: float, total: float, explains: bool) -> None:
    assert _explains(part, chance, total, 0.5) is explains


F3_MIX = "Queries changed: f3 moved (PSI 0.25), and its mix explains -0.0200 of -0.0200."
LESS, MORE = Estimate(-0.015, -0.02, -0.01), Estimate(-0.025, -0.03, -0.02)
BROKE = {"broken": "is missing", "unmatched": FELL}


@pytest.mark.parametrize(
    ("splits", "drifts", "adjusted_for", "cause", "start"),
    [
        (
            [],
            [drift("f3", **BROKE), drift("f7", broken="is 0", unmatched=MORE)],
            (),
            "input",
            "An input broke: f7 is 0;",
        ),
        ([], [drift("f3", unmatched=FELL)], (), "everywhere", ""),
        (
            [split("country", FELL)],
            [],
            (),
            "mix",
            "Mix: the shares of country changed, which explains -0.0200 of -0.0200",
        ),
        ([split("country", LESS), split("device", FELL)], [], (), "mix", "Mix: the shares of device"),
        ([split("country", FELL)], [], ("country",), "everywhere", ""),
        (
            [split("country", FELL)],
            [drift("country", broken="is new", kind="category")],
            (),
            "everywhere",
            "",
        ),
        ([split("country", STILL)], [], (), "everywhere", ""),
        ([split("country", FELL)], [drift("f3", mix=FELL)], (), "mix", "Mix: the shares of country"),
        ([split("country", FELL)], [drift("f3", mix=LESS)], (), "mix", "Mix: the shares of country"),
        (
            [split("country", FELL)],
            [drift("f3", mix=MORE), drift("f7", mix=LESS)],
            (),
            "covariate",
            "Queries changed: f3 moved (PSI 0.25)",
        ),
        ([], [drift("f3", mix=FELL), drift("f7", mix=LESS)], (), "covariate", F3_MIX),
        ([], [drift("f3", mix=FELL)], ("f3",), "everywhere", ""),
        ([], [drift("f3", mix=FELL, kind="category")], (), "everywhere", ""),
        ([], [drift("f3", mix=FELL, broken="is 0")], (), "everywhere", ""),
    ],
)
def test_the_cause(
    splits: list[SegmentDecomposition],
    drifts: list[FeatureDrift],
    adjusted_for: tuple[str, ...],
    cause: str,
    start: str,
) -> None:
    known = evidence(change=change(FELL), decompositions=splits, drift=drifts, adjusted_for=adjusted_for)
    found, sentence, _ = cause_of(known)
    assert found == cause
    assert sentence.startswith(start or EVERYWHERE)


def test_segments_may_improve_while_the_whole_falls() -> None:
    for improved, said in (False, ""), (True, "; segments improved, and the whole fell all the same"):
        known = evidence(
            change=change(FELL), decompositions=[split("country", FELL, simpsons_paradox=improved)]
        )
        assert cause_of(known)[1].endswith(f"(within segments +0.0100){said}.")


def test_inputs_that_broke_beside_the_cause() -> None:
    known = [drift("f3", **BROKE), drift("f7", broken="is 0", unmatched_share=0.5)]
    found, sentence, _ = cause_of(evidence(change=change(FELL), drift=known))
    assert (found, sentence.count("f3")) == ("input", 1)
    assert sentence.endswith("explains -0.0200 of -0.0200. f7 is 0; that does not explain the change.")
    for lacking, told in (0.049, False), (0.05, True), (0.95, True), (0.951, False):
        beside = [drift("f7", broken="is 0", unmatched_share=lacking)]
        _, sentence, _ = cause_of(evidence(change=change(FELL), drift=beside))
        assert ("that does not explain the change" in sentence) is told


@pytest.mark.parametrize(
    ("columns", "sliced", "everywhere"),
    [
        ({}, "No drifted feature explains it", EVERYWHERE),
        ({"segments": ["country"]}, "The mix of segments does not explain it", ALIKE),
        ({"features": ["f3"]}, "No drifted feature explains it", ALIKE_AND_DRIFT),
        (
            {"segments": ["country"], "features": ["f3"]},
            "Neither the mix of segments nor a drifted feature explains it",
            ALIKE_AND_DRIFT,
        ),
    ],
)
def test_where_no_cause_is_found(columns: dict[str, Any], sliced: str, everywhere: str) -> None:
    sections = {"columns": {"rank": "rank", **columns}}
    assert cause_of(evidence(sections, change=change(FELL))) == ("everywhere", everywhere, {})
    three = " and in ".join(["country=D (0.800 -> 0.700, 10.0 % of queries)"] * 3)
    for slices, worst in ([segment(FELL)], SLICED), ([segment(FELL)] * 4, f"It is worst in {three}."):
        found = cause_of(evidence(sections, change=change(FELL), slices=slices))
        assert found == ("slice", f"{worst} {sliced}: the ranking is the first suspect.", {})
