"""Two seeds leave one degree of freedom: the comparison says so first, and how much a third one would help."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as t_distribution

from ltr_harness.comparison import Comparison, compare
from ltr_harness.comparison.contrasts import SystemResult
from ltr_harness.report.blocks import Banner, Bullets, Paragraph, plain_text
from ltr_harness.report.data import ReportData
from ltr_harness.report.sections.verdict import near_axis, section
from ltr_harness.report.terminal import render


def compared(n_seeds: int, models: int = 2, spread: float = 0.02, of_queries: float = 0.001) -> Comparison:
    """Compare equal models, of which seeds make an error of one spread, and queries one of another."""
    rng = np.random.default_rng(3)
    hard = rng.uniform(0.3, 0.7, 200)
    systems = [
        SystemResult(
            name=f"m{number}",
            query_ids=np.arange(200).astype(str),
            values={
                "ndcg@10": hard
                + rng.normal(0, of_queries, 200)
                + np.linspace(-spread, spread, n_seeds)[:, None]
                + rng.normal(0, 0.0001, (n_seeds, 200))
            },
            replicates=tuple(str(replicate) for replicate in range(n_seeds)),
            higher_is_better={"ndcg@10": True},
            seeded=True,
        )
        for number in range(models)
    ]
    return compare(*systems, metrics=["ndcg@10"])


def test_the_first_caution_has_the_factor_of_the_one_inference() -> None:
    two = compared(2)
    fixed = replace(
        two.systems[0],
        values={"ndcg@10": two.systems[0].values["ndcg@10"][:1]},
        replicates=("0",),
        seeded=False,
    )
    found = compare(fixed, two.systems[1], metrics=["ndcg@10"])
    # Student's t of one degree of freedom and of two, and the error of three seeds in place of two
    one, other = (float(t_distribution.ppf(0.975, df)) for df in (1, 2))
    times = f"{one / other * 1.5**0.5:.0f}"
    assert times == "4"
    first = found.cautions[0]
    assert (first.kind, first.severity, first.place) == ("two-seeds", "warning", "")
    assert first.text == f"trained with 2 seeds; with 3 the interval would be about {times} times narrower"
    assert found.seeds_caution == first
    assert first != found.chosen_cautions.below
    assert first not in found.chosen_cautions.folded


def test_larger_families_gain_more() -> None:
    def times(models: int) -> int:
        caution = compared(2, models).seeds_caution
        assert caution is not None
        return int(re.findall(r"(\d+) times", caution.text)[0])

    assert times(5) > times(2)


@pytest.mark.parametrize("n_seeds", [1, 3])
def test_other_numbers_of_seeds_have_no_such_caution(n_seeds: int) -> None:
    assert compared(n_seeds).seeds_caution is None


def test_seeds_that_hardly_matter_are_not_spoken_of() -> None:
    assert compared(2, spread=0.0001, of_queries=0.05).seeds_caution is None


def test_a_model_of_more_seeds_is_not_named() -> None:
    two, three = compared(2), compared(3)
    systems = [replace(two.systems[0], name="few"), replace(three.systems[1], name="many")]
    caution = compare(*systems, metrics=["ndcg@10"]).seeds_caution
    assert caution is not None
    assert caution.place == "few"


def test_the_terminal_says_it_before_the_table() -> None:
    data = ReportData(compared(2), [], [], None, "seeds")
    above, _, below = render(data, width=200).partition("─")
    assert above.splitlines()[1].startswith("Note: trained with 2 seeds; with 3 the interval would be about ")
    assert "2 seeds" not in below


def test_the_page_says_it_between_headline_and_table() -> None:
    data = ReportData(compared(2), [], [], None, "seeds")
    banner, paragraph, *rest = section(data)
    assert isinstance(banner, Banner)
    assert isinstance(paragraph, Paragraph)
    assert plain_text(paragraph.text).startswith("trained with 2 seeds; with 3 the interval would be about ")
    items = [plain_text(item) for block in rest if isinstance(block, Bullets) for item in block.items]
    assert not any("2 seeds" in item for item in items)


def test_one_endless_interval_does_not_set_the_axis() -> None:
    pairs = [replace(compared(3).pairs[0], difference=0.01 * n, ci_low=-0.02, ci_high=0.03) for n in range(3)]
    endless = replace(pairs[0], difference=0.02, ci_low=-1.0, ci_high=1.0)
    alone, beside = near_axis(pairs), near_axis([*pairs, endless])
    assert alone is not None
    assert beside is not None
    assert beside[0] >= -0.15
    assert beside[1] <= 0.2
    assert near_axis([endless]) is not None
