"""Names of metrics: what they mean, that they read back, and what is said about one that means nothing."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import evaluate, parse_metric
from ltr_harness.errors import MetricError
from ltr_harness.metrics import DCG, ERR, MAP, NDCG, RBP, Metric
from ltr_harness.metrics.core import grammar
from ltr_harness.metrics.core.presets import PRESETS
from ltr_harness.metrics.table import ALIASES, METRICS, catalog
from tests.conftest import named_case

CLASSES: list[type[Metric]] = [catalog.load(name) for name in METRICS]


def test_canonical_names() -> None:
    assert str(NDCG(k=10)) == "ndcg@10"
    assert str(NDCG()) == "ndcg"
    assert str(NDCG(k=10, gain="linear", ties="stable")) == "ndcg(gain=linear,ties=stable)@10"
    assert str(NDCG(gain={0: 0, 1: 1, 2: 5})) == "ndcg(gain=0_1_5)"
    assert str(NDCG(gain=[0, 0.5, 1e-7])) == "ndcg(gain=0_0.5_0.0000001)"
    assert str(ERR(max_grade=4, k=20, continuation=0.85)) == "err(continuation=0.85,max_grade=4)@20"
    assert str(MAP(relevant=2.0)) == "map(relevant=2)"
    assert str(RBP(p=0.95, graded=True, max_grade=4)) == "rbp(graded=true,max_grade=4,p=0.95)"


def test_spaces_defaults_and_order_do_not_matter() -> None:
    same = ["ndcg(gain=linear,ties=best)@5", " ndcg ( ties = best , gain=linear ) @ 5 "]
    same += ["ndcg(ties=best,gain=linear,empty=skip)@5"]
    assert {str(parse_metric(name)) for name in same} == {"ndcg(gain=linear,ties=best)@5"}


def test_a_mapping_says_the_same_as_a_name() -> None:
    assert parse_metric({"metric": "ndcg", "gain": "linear", "k": 10}) == NDCG(gain="linear", k=10)
    assert parse_metric({"metric": "ndcg", "gain": {0: 0, 1: 2}}) == NDCG(gain="0_2")
    assert parse_metric({"metric": "rbp", "p": 0.8, "graded": True, "max_grade": 4}) == RBP(
        p=0.8, graded=True, max_grade=4
    )
    assert parse_metric({"metric": "map", "as": "trec_eval", "k": 5}) == MAP.for_tool("trec_eval", k=5)


def test_the_cutoff_may_be_a_parameter_too() -> None:
    assert parse_metric("ndcg(k=3)") == parse_metric("ndcg(gain=exp,k= 3)") == NDCG(k=3)
    assert parse_metric({"metric": "ndcg", "k": "3"}) == NDCG(k=3)
    assert parse_metric("rprec(ties=best)") == parse_metric({"metric": "rprec", "ties": "best"})
    with pytest.raises(MetricError, match="rprec@3: rprec is defined on the whole list"):
        parse_metric("rprec(k=3)")


def test_the_largest_cutoff_measures_the_whole_list() -> None:
    whole, largest = parse_metric("ndcg"), parse_metric("ndcg@1000000000")
    ev = evaluate([0, 1, 2], [3, 2, 1], group_sizes=[3], metrics=[whole, largest])
    assert ev.means[str(largest)] == ev.means["ndcg"]


def test_aliases_parse_to_the_canonical_name() -> None:
    for alias, name in ALIASES.items():
        assert name in METRICS
        assert alias not in METRICS
        metric = parse_metric(f"{alias}(p=0.5)" if name.startswith("rbp") else alias)
        assert str(metric).startswith(name)
    assert str(parse_metric("P@5")) == "precision@5"
    assert str(parse_metric("NDCG@5")) == "ndcg@5"


TYPED = [
    ("mean_reciprocal_rank@10", "mrr@10"),
    ("reciprocal_rank", "mrr"),
    ("expected_reciprocal_rank@20", "err@20"),
    ("mean_average_precision", "map"),
    ("average_precision@5", "map@5"),
    ("rank_biased_precision(p=0.8)", "rbp(p=0.8)"),
    ("discounted_cumulative_gain@5", "dcg@5"),
    ("normalized_discounted_cumulative_gain@5", "ndcg@5"),
    ("cumulative_gain@5", "cg@5"),
    ("Mean-Average-Precision", "map"),
    ("r-precision", "rprec"),
    ("hit-rate@3", "success@3"),
    ("ndcg(gain=exponential)@5", "ndcg@5"),
    ("map_retrieved@5", "map(denominator=retrieved)@5"),
    ("MAP-Retrieved(relevant=2,ties=id)", "map(denominator=retrieved,relevant=2,ties=id)"),
    ("q(gain=exponential)", "q(gain=exp)"),
]


def test_names_that_people_type() -> None:
    for typed, meant in TYPED:
        with named_case(typed):
            assert parse_metric(typed) == parse_metric(meant)


OTHER_NAMES = [
    ("kendall", "unknown metric 'kendall'; did you mean 'kendall_tau_distance'?"),
    ("kendalltau", "unknown metric 'kendalltau'; did you mean 'kendall_tau_distance'?"),
    ("kendall_tau", "unknown metric 'kendall_tau'; did you mean 'kendall_tau_distance'?"),
    ("xe_ndcg@10", "xe_ndcg is a training objective, not a metric; did you mean 'ndcg'?"),
    ("xendcg", "xendcg is a training objective, not a metric; did you mean 'ndcg'?"),
    ("LambdaMART@5", "LambdaMART is a training objective, not a metric; did you mean 'ndcg'?"),
    ("lambdarank", "lambdarank is a training objective, not a metric; did you mean 'ndcg'?"),
    ("rbp(persistence=0.8)", "rbp has no parameter 'persistence'; did you mean 'p'?"),
    ("err(gmax=4)", "err has no parameter 'gmax'; did you mean 'max_grade'?"),
    ("map(threshold=2)", "map has no parameter 'threshold'; did you mean 'relevant'?"),
    ("map(rel=2)", "map has no parameter 'rel'; did you mean 'relevant'?"),
    ({"metric": "ndcg", "cutoff": 10}, "ndcg has no parameter 'cutoff'; did you mean 'k'?"),
    ("ndcg(gain=exponentail)", "gain='exponentail'; expected exp, linear, exp_real, or a table"),
]


def test_what_other_names_are_answered_with() -> None:
    for typed, said in OTHER_NAMES:
        with named_case(typed):
            with pytest.raises(MetricError) as caught:
                parse_metric(typed)
            assert str(caught.value).startswith(said)


def test_the_cutoff_may_be_positional() -> None:
    for kind in (kind for kind in CLASSES if kind.takes_cutoff):
        with named_case(kind.name):
            needed = {"p": 0.8} if "rbp" in kind.name else {}
            assert kind(10, **needed) == kind(k=10, **needed)
            with pytest.raises(TypeError):
                kind(10, "expected")


def test_a_positional_cutoff_is_checked_like_any_other() -> None:
    with pytest.raises(MetricError, match="rprec@10: rprec is defined on the whole list"):
        catalog.load("rprec")(10)
    with pytest.raises(MetricError, match=r"ndcg: k='10'; expected an integer"):
        NDCG("10")  # type: ignore[arg-type]


def test_metrics_are_values() -> None:
    assert NDCG(k=10) == NDCG(k=10)
    assert hash(NDCG(k=10)) == hash(NDCG(k=10))
    assert NDCG(k=10) != NDCG(k=5)
    assert NDCG(k=10) != parse_metric("dcg@10")
    assert len({NDCG(k=10), parse_metric("ndcg@10"), NDCG(k=10, gain="exp")}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        NDCG(k=10).k = 5  # type: ignore[misc]


numbers = st.floats(min_value=1e-6, max_value=1e6, allow_nan=False).map(lambda x: float(f"{x:.6g}"))
tables = st.lists(st.floats(min_value=0, max_value=1e6, allow_nan=False), min_size=1, max_size=6)


def values_of(metric: type[Metric], parameter: str, hint: Any) -> st.SearchStrategy[Any]:
    if parameter == "discount" and issubclass(
        metric, ERR
    ):  # nothing is worth more than to be satisfied at once
        unit = st.lists(st.floats(0, 1), min_size=1, max_size=6)
        return st.sampled_from(["reciprocal", "log2", "letor", "none"]) | unit
    if parameter in ("gain", "discount"):
        named = ["exp", "linear", "exp_real"] if parameter == "gain" else ["log2", "letor"]
        return st.sampled_from(named) | tables
    if parameter == "k":
        return st.none() | st.integers(1, 10**6) if metric.takes_cutoff else st.none()
    if parameter in ("p", "continuation", "alpha"):
        return st.floats(min_value=0.001, max_value=0.999)
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if hint is bool:
        return st.booleans()
    return numbers


@st.composite
def metrics(draw: st.DrawFn) -> Metric:
    kind = draw(st.sampled_from(CLASSES))
    hints = get_type_hints(kind)
    fields = {
        field.name: draw(values_of(kind, field.name, hints[field.name])) for field in dataclasses.fields(kind)
    }
    if kind.name == "judged" or kind.uses_subtopics:
        fields["ties"] = "stable"
    if "graded" in fields:  # rbp: a threshold or a scale, not both
        fields.pop("relevant" if fields["graded"] else "max_grade")
    return kind(**fields)


@pytest.mark.long
@given(metrics())
def test_every_name_reads_back_as_an_equal_metric(metric: Metric) -> None:
    name = str(metric)
    again = parse_metric(name)
    assert again == metric
    assert hash(again) == hash(metric)
    assert str(again) == name
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_()=,@.")


MEANINGLESS = [
    (
        "ndgc@10",
        r"unknown metric 'ndgc'; did you mean 'ndcg'\? \(known: alpha_ndcg, bpref, brier, cg, dcg, err",
    ),
    ("nonsense", r"unknown metric 'nonsense'; known: alpha_ndcg, bpref, brier, cg, dcg"),
    (
        "ndcg(gian=exp)@10",
        r"ndcg has no parameter 'gian'; did you mean 'gain'\? \(known: discount, empty",
    ),
    (
        "ndcg(gain=square)",
        r"gain='square'; expected exp, linear, exp_real, or a table such as \{0: 0, 1: 1, 2: 5\}",
    ),
    ("ndcg(ties=random)", r"ndcg: ties='random'; expected one of expected, stable, worst, best, id"),
    ("ndcg@0", r"ndcg@0: the cutoff must be at least 1"),
    ("ndcg@ten", r"cutoff 'ten'; expected an integer after @"),
    ("ndcg@", r"cutoff ''; expected an integer after @"),
    ("ndcg@1.5", r"cutoff '1.5'; expected an integer after @"),
    ("ndcg@-1", r"cutoff '-1'; expected an integer after @"),
    ("ndcg(k=ten)", r"cutoff 'ten'; expected an integer"),
    ("ndcg(k=5)@5", r"gives the cutoff twice"),
    ("ndcg@100000000000", r"ndcg@100000000000: expected a cutoff of at most 1,000,000,000; leave it out"),
    (f"ndcg@1{'0' * 30}", r"ndcg@1000000000000000000000000000000: expected a cutoff of at most"),
    (f"ndcg@{'9' * 5000}", r"cutoff '9{20}…'; expected an integer of at most 1,000,000,000 after @"),
    ({"metric": "ndcg", "k": 10**30}, r"expected a cutoff of at most 1,000,000,000"),
    ("ndcg(gain=exp,gain=linear)", r"gives gain twice"),
    ("ndcg(gain)", r"'gain' is not param=value"),
    ("ndcg(gain=exp,,ties=id)", r"has an empty parameter"),
    ("ndcg(", r"'ndcg\(' cannot be read as a metric; expected name\(param=value,…\)@K, such as"),
    ("", r"'' cannot be read as a metric"),
    ("ndcg@10@5", r"cannot be read as a metric"),
    ("err(max_grade=0)", r"err: max_grade=0; expected a grade above 0"),
    ("err(continuation=0)", r"err: continuation=0; expected a probability in \(0, 1\]"),
    ("err(continuation=2)", r"err: continuation=2; expected a probability in \(0, 1\]"),
    ("err(max_grade=four)", r"err: max_grade='four'; expected a number"),
    ("err(max_grade=1_0)", r"err: max_grade='1_0'; expected a number"),  # Python's 10
    ("rbp(p=0_8)", r"rbp: p='0_8'; expected a number"),
    ("map(relevant=0)", r"map: relevant=0; expected a grade above 0"),
    ("rbp", r"rbp needs its persistence: rbp\(p=0.8\)"),
    ("rbp(p=1)", r"rbp: p=1; expected a probability between 0 and 1"),
    ("rbp(p=0)", r"rbp: p=0; expected a probability between 0 and 1"),
    ("rbp(p=0.8,graded=true,max_grade=0)", r"rbp: max_grade=0; expected a grade above 0"),
    ("rbp(p=0.8,graded=yes)", r"rbp: graded='yes'; expected true or false"),
    ("rbp(p=0.8,max_grade=4)", r"max_grade means nothing without graded=true"),
    ("rbp(p=0.8,graded=true,relevant=2)", r"graded=true has no threshold; leave out relevant=2"),
    ("rprec@10", r"rprec@10: rprec is defined on the whole list; leave out @10"),
    ("judged(ties=worst)", r"judged: ties=worst orders by label"),
    ("ndcg(as=lightgmb)@10", r"unknown preset 'lightgmb'; did you mean 'lightgbm'\?"),
    (
        "err(as=sklearn)",
        r"sklearn computes no err.*is for dcg, ndcg; err has presets of catboost, gdeval, ntcir, ranklib",
    ),
    ("tau_ap(walk=up)", r"tau_ap: walk='up'; expected one of both, scores, labels"),
    (7, r"7 is not a metric; expected name"),
    ({"gain": "exp"}, r"a metric written as a mapping needs its name"),
    ({"metric": "ndcg", "cutoff": 10}, r"ndcg has no parameter 'cutoff'"),
    ({"metric": "ndcg", "k": 1.5}, r"ndcg: k=1.5; expected an integer"),
    ({"metric": "map", "relevant": float("inf")}, r"map: relevant=inf; expected a number"),
    ({"metric": "map", "relevant": None}, r"map: relevant=None; expected a number"),
    ({"metric": "rbp", "p": 0.8, "graded": 1}, r"rbp: graded=1; expected true or false"),
    ({"metric": "ndcg", "k": True}, r"ndcg: k=True; expected an integer"),
    ({"metric": "ndcg", "as": 3}, r"ndcg: as=3; expected the name of a tool"),
    ({"metric": "ndcg", "gain": {1: 1, 2: 5}}, r"expected a value for every integer from 0 on"),
    ({"metric": "ndcg", "gain": {}}, r"expected a value for every integer from 0 on"),
    ({"metric": "ndcg", "gain": 5}, r"gain=5; expected exp, linear, exp_real, or a table"),
    ({"metric": "ndcg", "gain": [0, -1]}, r"expected finite values >= 0"),
]


def test_what_is_said_about_a_name_that_means_nothing() -> None:
    for name, message in MEANINGLESS:
        with named_case(name), pytest.raises(MetricError, match=message):
            parse_metric(name)


def test_a_preset_spells_its_conventions_and_what_is_said_beside_it_wins() -> None:
    assert str(parse_metric("ndcg(as=lightgbm)@10")) == "ndcg(empty=one,ties=stable)@10"
    assert str(parse_metric("ndcg(as=catboost,gain=exp,ties=best)")) == "ndcg(empty=one,ties=best)"
    assert NDCG.for_tool("letor", k=3) == parse_metric("ndcg(as=letor)@3")


def test_every_preset_is_a_set_of_conventions_its_metrics_have() -> None:
    for tool in PRESETS:
        with named_case(tool):
            for name in PRESETS[tool]:
                metric = parse_metric(f"{name}(as={tool})")
                assert parse_metric(str(metric)) == metric


def test_tables_by_grade_begin_at_0_and_by_rank_at_1() -> None:
    assert str(DCG(gain={0: 0, 1: 1, 2: 5}, discount={1: 1, 2: 0.5})) == "dcg(discount=1_0.5,gain=0_1_5)"
    with pytest.raises(MetricError, match="expected a value for every integer from 0 on"):
        DCG(gain={1: 1, 2: 5})
    with pytest.raises(MetricError, match="expected a value for every integer from 1 on"):
        DCG(discount={0: 1, 1: 0.5})


OF_ONE_TOOL = [
    ("ndcg_cut_10", "ndcg(as=trec_eval)@10"),
    ("ndcg_cut.10", "ndcg(as=trec_eval)@10"),
    ("P_5", "precision(as=trec_eval)@5"),
    ("P.5", "precision(as=trec_eval)@5"),
    ("map_cut_100", "map(as=trec_eval)@100"),
    ("recall_1000", "recall(as=trec_eval)@1000"),
    ("relative_P_5", "recall(as=trec_eval,denominator=min_rk)@5"),
    ("success_1", "success(as=trec_eval)@1"),
    ("recip_rank", "mrr(as=trec_eval)"),
    ("recip_rank(ties=expected)@10", "mrr(as=trec_eval,ties=expected)@10"),
    ("set_F", "f1(as=trec_eval)"),
    ("nDCG@10", "ndcg@10"),  # capitals never mean another definition
    ("nDCG", "ndcg"),
    ("nDCG(gain=linear)@10", "ndcg(gain=linear)@10"),
    ("nDCG(as=ir_measures)@10", "ndcg(as=ir_measures)@10"),
    ("nDCG(as=lightgbm)@10", "ndcg(as=lightgbm)@10"),
    ({"metric": "nDCG", "k": 10}, "ndcg@10"),
    ("SetP", "precision(as=ir_measures)"),
    ("ndcg_burges@10", "ndcg(as=ranx,gain=exp)@10"),
    ("NDCG@10", "ndcg@10"),  # papers write these for no tool's in particular
    ("Ndcg@10", "ndcg@10"),
    ("AP", "map"),
    ("RR@10", "mrr@10"),
    ("R@10", "recall@10"),
    ("Rprec", "rprec"),
    ("mrr", "mrr"),
]


def test_a_name_that_one_tool_alone_writes_is_its_metric() -> None:
    for typed, meant in OF_ONE_TOOL:
        with named_case(typed):
            assert parse_metric(typed) == parse_metric(meant)


@pytest.mark.long
def test_names_of_tools_have_one_cutoff_and_are_spelt_as_they_are_there() -> None:
    with pytest.raises(MetricError, match="P_5 of trec_eval has a cutoff already; leave out @10"):
        parse_metric("P_5@10")
    for name in ("P_0", "ndcg_cut", "ndcg_cut_", "nDcG@10x", "gm_map"):
        with pytest.raises(MetricError):
            parse_metric(name)


MISTYPED = [
    *[
        ("ndgc", "ndcg"),
        ("ncdg", "ndcg"),
        ("mpa", "map"),
        ("er", "err"),
        ("rpec", "rprec"),
    ],
    *[("recal", "recall"), ("sucess", "success"), ("auc", "gauc"), ("kendall", "kendall_tau_distance")],
    *[(name, None) for name in ("rbo", "gmap", "AUCPR")],
]


def test_no_hint_is_better_than_another_number() -> None:
    for typed, meant in MISTYPED:
        with named_case(typed):
            said = f"did you mean '{meant}'? (known: alpha_ndcg, " if meant else "known: alpha_ndcg, "
            with pytest.raises(MetricError, match=re.escape(f"unknown metric {typed!r}; {said}")):
                parse_metric(f"{typed}@10")


def test_g_max_is_max_grade() -> None:
    with pytest.raises(MetricError, match="err has no parameter 'g_max'; did you mean 'max_grade'"):
        parse_metric("err(g_max=4)@10")


def test_fields_are_checked_once_on_the_way_through_evaluate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binding made every metric again without its cutoff, to see which ones share a definition."""
    checked: list[str] = []
    whole = NDCG.__post_init__

    def count_checks(metric: NDCG) -> None:
        checked.append(str(metric.k))
        whole(metric)

    monkeypatch.setattr(NDCG, "__post_init__", count_checks)
    grammar._parse_built_in.cache_clear()
    names = ["ndcg(gain=linear)@10", "ndcg(gain=linear)@5", "ndcg@10"]
    means = evaluate([1, 0, 2], [2.0, 1.0, 0.5], group_sizes=[3], metrics=names).means
    assert checked == ["10", "5", "10"]
    assert list(means) == names


def test_a_tie_across_one_of_several_cutoffs_is_not_blamed_on_another() -> None:
    """Bound together, the cutoffs have one definition; the tie straddles 2 and not 1."""
    names = ["map(denominator=retrieved)@1", "map(denominator=retrieved)@2"]
    with pytest.raises(MetricError, match=r"^map\(denominator=retrieved\): documents of query .* tie across"):
        evaluate([1, 0, 1], [2.0, 1.0, 1.0], group_sizes=[3], metrics=names)


@pytest.mark.parametrize(
    ("typed", "cure"),
    [
        ("idcg@5", "'idcg' is what ndcg divides by"),
        ("BPR", "'BPR' is a training objective; did you mean the objective `rank:pairwise` of XGBoost"),
        ("mse", "'mse' is an error of predicted labels"),
        ("mae@10", "'mae' is an error of predicted labels"),
        ("ctr", "did you mean 'mean_label@10', of labels that are clicks?"),
        ("ndcg_5", "unknown metric 'ndcg_5'; did you mean 'ndcg@5'?"),
        ("precision_10", "did you mean 'precision@10'?"),
    ],
)
def test_what_is_no_metric_has_the_right_thing_or_no_list(typed: str, cure: str) -> None:
    with pytest.raises(MetricError, match=re.escape(cure)) as caught:
        parse_metric(typed)
    assert "known:" not in str(caught.value)
