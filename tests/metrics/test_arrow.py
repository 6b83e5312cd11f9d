"""The Arrow kernel: the same values as `evaluate`, however rows are cut; what is put together, and what is refused."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import compare, evaluate
from ltr_harness.arrow import judged, means, merge, per_query, per_query_of
from ltr_harness.comparison import paired_moments
from ltr_harness.comparison.paired_moments import LEAST, PairedMoments
from ltr_harness.comparison.stats.cluster_sums import moments as column_moments
from ltr_harness.errors import DataError, MetricError, NotComparableError, UsageError

METRICS = ["ndcg@3", "mrr", "err(max_grade=3)@5", "map", "kendall_tau_distance"]


def world(seed: int, n: int = 400, queries: int = 30) -> dict[str, np.ndarray]:
    """Skewed lengths, tied scores, queries without a relevant document."""
    rng = np.random.default_rng(seed)
    query = np.sort((queries * rng.beta(0.6, 2, n)).astype(int))
    return {
        "query_id": np.array([f"q{q}" for q in query]),
        "label": rng.integers(0, 4, n) * (query % 5 > 0),
        "score": rng.normal(size=n).round(1),
    }


@pytest.mark.long
@given(
    st.integers(0, 10_000),
    st.integers(1, 60),
    st.booleans(),
    st.sampled_from([np.int8, np.uint8, np.int64, np.float32]),
)
def test_equals_evaluate_to_the_bit(seed: int, size: int, dictionary: bool, kind: type) -> None:
    rows = world(seed, 120, 12)
    found = evaluate(rows["label"], rows["score"], METRICS, query_ids=rows["query_id"])
    table = pa.table({**rows, "label": rows["label"].astype(kind)})
    if dictionary:
        table = table.set_column(0, "query_id", table["query_id"].dictionary_encode())
    parts = list(per_query_of(table.to_batches(max_chunksize=size), METRICS))
    merged = merge(parts[::-1])
    assert means(merged) == dict(found.means)
    order = np.argsort(found.query_ids)
    for name in found.metrics:
        np.testing.assert_array_equal(merged[name].to_numpy(), found[name].per_query[order])
    assert merged["rows"].to_pylist() == found.judgments.groups.sizes[order].tolist()
    assert merged["n_relevant"].to_pylist() == found.judgments.n_relevant[order].tolist()


def assert_same(one: pa.Table, other: pa.Table) -> None:
    assert one.schema.names == other.schema.names
    for name in one.schema.names:
        np.testing.assert_array_equal(one[name].to_numpy(), other[name].to_numpy())


def test_rows_in_any_order_and_cut_between_queries() -> None:
    rows = world(1)
    table = pa.table(rows)
    mixed = per_query(table.take(np.random.default_rng(0).permutation(len(table))), METRICS)
    codes = np.array([int(query[1:]) % 3 for query in rows["query_id"]])
    parts = [per_query(table.filter(pa.array(codes == part)), METRICS) for part in range(3)]
    assert_same(merge([mixed]), merge(parts))
    evaluation = evaluate(rows["label"], rows["score"], METRICS, query_ids=rows["query_id"])
    assert_same(merge([evaluation]), merge(parts))


def test_weights_flags_and_ids() -> None:
    rows = world(2)
    n = len(rows["label"])
    rng = np.random.default_rng(0)
    of_query = {query: rng.integers(1, 5) / 2 for query in dict.fromkeys(rows["query_id"])}
    extra = {
        "w": np.array([of_query[query] for query in rows["query_id"]]),
        "doc": rng.permutation(n).astype(str),
        "seen": rng.random(n) < 0.7,
        "known": (rng.random(n) < 0.9) | (rows["label"] > 0),
    }
    columns = {"weight": "w", "document_id": "doc", "retrieved": "seen", "judged": "known"}
    metrics = ["ndcg(ties=id)@5", "judged@5"]
    part = per_query(pa.table({**rows, **extra}), metrics, columns)
    found = evaluate(
        rows["label"],
        rows["score"],
        metrics,
        query_ids=rows["query_id"],
        query_weights=list(of_query.values()),
        document_ids=extra["doc"],
        judged=extra["known"],
        retrieved=extra["seen"],
    )
    assert means(part) == dict(found.means)
    assert part["query_weight"].to_pylist() == list(of_query.values())


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64()])
def test_labels_of_a_byte_are_refused_as_others_are(kind: pa.DataType) -> None:
    rows = {"query_id": [1, 1, 2], "label": pa.array([0, 1, -2], kind), "score": [2.0, 1.0, 3.0]}
    with pytest.raises(
        MetricError, match=r"mrr: label -2 is not a grade, in query '2', its row 0 \(1 such row\)"
    ):
        per_query(pa.table(rows), "mrr")
    rows["label"] = pa.array([0, 1, None], kind)
    with pytest.raises(DataError, match=r"label nan in query '2', its row 0"):
        per_query(pa.table(rows), "mrr")


def test_no_rows() -> None:
    empty = per_query(pa.table(world(0)).slice(0, 0), METRICS)
    assert empty.num_rows == 0
    assert empty.schema.names == ["query_id", "rows", "n_relevant", *METRICS]
    assert list(per_query_of([], METRICS)) == []
    assert merge([empty, per_query(pa.table(world(0)), METRICS)]).num_rows > 0


def test_results_are_compared() -> None:
    rows = world(3, 2000, 200)
    other = {**rows, "score": np.random.default_rng(9).normal(size=2000)}
    results = {name: merge([per_query(pa.table(one), METRICS)]) for name, one in (("a", rows), ("b", other))}
    evaluations = {
        name: evaluate(one["label"], one["score"], METRICS, query_ids=one["query_id"])
        for name, one in (("a", rows), ("b", other))
    }
    ours = compare(results, metrics=["ndcg@3"]).paired("b")
    theirs = compare(evaluations, metrics=["ndcg@3"]).paired("b")
    assert ours.n == theirs.n
    assert ours.difference == pytest.approx(theirs.difference, abs=1e-15)


REFUSED = {
    "a role": ({"qurey": "query_id"}, METRICS, "columns: unknown role 'qurey'; did you mean 'query'?"),
    "a column": ({"label": "grade"}, METRICS, "columns: no column 'grade' for label"),
    "a scale": ({}, ["err@5"], "err@5 became err(max_grade=3)@5 by the labels of one batch"),
    "a metric": ({}, ["ndgc"], "did you mean 'ndcg'"),
    "no numbers": (
        {"score": "query_id"},
        METRICS,
        "column 'query_id': has the type string; expected numbers",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str) -> None:
    columns, metrics, message = REFUSED[case]
    with pytest.raises((DataError, MetricError)) as caught:
        per_query(pa.table(world(0)), metrics, columns)
    assert message in str(caught.value)


def test_refuses_values() -> None:
    rows = world(0)
    missing = pa.table({**rows, "query_id": pa.array([None, *rows["query_id"][1:]])})
    with pytest.raises(DataError, match="column 'query_id': row 0 has no query id"):
        per_query(missing, METRICS)
    unknown = pa.table({**rows, "seen": pa.array([None, *[True] * 399])})
    with pytest.raises(DataError, match="column 'seen': has rows without a value; expected true or false"):
        per_query(unknown, METRICS, {"retrieved": "seen"})
    uneven = pa.table({**rows, "w": np.arange(400.0) + 1})
    with pytest.raises(DataError, match="column 'w': differs within a query"):
        per_query(uneven, METRICS, {"weight": "w"})
    with pytest.raises(DataError, match="rows of a query stand apart"):
        list(per_query_of(pa.table(rows).take(np.arange(400)[::-1] * 7 % 400).to_batches(), METRICS))


def test_refuses_to_merge() -> None:
    table = pa.table(world(0))
    part = per_query(table, METRICS)
    cut = [per_query(table.slice(0, 7), "mrr"), per_query(table.slice(7), "mrr")]
    with pytest.raises(DataError, match=r"query 'q0' is in two parts; expected each query in one part"):
        merge(cut)
    with pytest.raises(
        MetricError, match=r"part 2 has query_id, rows, n_relevant, mrr; expected .* as in the first"
    ):
        merge([part, cut[0]])
    numbered = per_query(table.set_column(0, "query_id", pa.array(np.arange(400))), METRICS)
    with pytest.raises(DataError, match="query ids are int64 in part 2 and string in the first"):
        merge([part, numbered])
    with pytest.raises(DataError, match="no results to merge"):
        merge([])


def results(n: int, seed: int = 0) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    one = rng.beta(1, 3, n)
    values = {"live": one, "new": np.clip(one + rng.normal(0.0004, 0.1, n), 0, 1), "old": rng.beta(1, 3, n)}
    undefined = rng.random(n) < 0.01
    return {
        name: pa.table({"query_id": np.arange(n), "mrr": np.where(undefined, np.nan, value)})
        for name, value in values.items()
    }


def test_moments_of_parts_are_those_of_all() -> None:
    tables = results(3000)
    whole = PairedMoments.of(tables)
    parts = [PairedMoments.of({k: t.slice(at, 170) for k, t in tables.items()}) for at in range(0, 3000, 170)]
    empty = PairedMoments.of({k: t.slice(0, 0) for k, t in tables.items()})
    added = sum(parts, start=empty)
    for name in ("n", "mean", "squares", "cubes"):
        np.testing.assert_allclose(getattr(added, name), getattr(whole, name), rtol=1e-10, atol=1e-12)
    differences = tables["new"]["mrr"].to_numpy() - tables["live"]["mrr"].to_numpy()
    facts = column_moments(differences)
    assert whole.n[0] == facts.n
    assert np.sqrt(whole.squares[0, 1] / (whole.n[0] - 1)) == pytest.approx(facts.sd)
    skewness = whole.cubes[0, 1] / whole.n[0] / (whole.squares[0, 1] / whole.n[0]) ** 1.5
    assert skewness == pytest.approx(facts.skewness)


def test_moments_decide_as_values_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired_moments, "LEAST", 5_000)
    tables = results(7_000)
    found = PairedMoments.of(tables).compare("mrr", margin=0.01)
    comparison = compare(tables, metrics=["mrr"], test="t", margin=0.01)
    for name, difference in found.items():
        pair = comparison.paired(name)
        assert difference.verdict == pair.verdict
        for field in ("difference", "ci_low", "ci_high", "p", "p_corrected"):
            assert getattr(difference, field) == pytest.approx(getattr(pair, field), rel=1e-6, abs=1e-300)


def test_moments_refuse_what_they_cannot_say() -> None:
    tables = results(2000)
    few = PairedMoments.of(tables)
    with pytest.raises(
        DataError, match=r"queries: too few to judge their skewness by moments; expected 100,000"
    ):
        few.compare()
    n = LEAST
    rare = np.zeros(n)
    rare[:30] = 1.0
    lopsided = {"a": rare * 0, "b": rare}
    table = {name: pa.table({"query_id": np.arange(n), "mrr": value}) for name, value in lopsided.items()}
    with pytest.raises(DataError, match=r"b: the difference rests on few of 100,000 queries"):
        PairedMoments.of(table).compare()
    same = {**table, "b": table["a"]}
    assert PairedMoments.of(same).compare()["b"].verdict == "not distinguishable"
    with pytest.raises(UsageError, match="1 of 2 models"):
        PairedMoments.of({"a": tables["live"]}).compare()
    with pytest.raises(NotComparableError, match="new has other queries"):
        PairedMoments.of({**tables, "new": tables["new"].slice(1)})
    with pytest.raises(NotComparableError, match="as on the left"):
        few + PairedMoments.of(table)
    with pytest.raises(UsageError, match="mrr@5 was not evaluated"):
        few.compare("mrr@5")
    with pytest.raises(TypeError, match="unexpected keyword argument 'test'"):
        few.compare(test="t")  # type: ignore[call-arg]


def moments_of(d: np.ndarray) -> PairedMoments:
    """Return the moments of differences to a baseline that is always .5."""
    ids = np.arange(d.size)
    base = pa.table({"query_id": ids, "mrr": np.full(d.size, 0.5)})
    return PairedMoments.of({"live": base, "new": base.set_column(1, "mrr", pa.array(0.5 + d))})


def test_moments_decide_nothing_that_an_absent_query_could_change() -> None:
    """By .00002 of 100,000: 1 - .05^(1/100000) of the traffic, one query in 33,381, undoes .00003 by falling from 1."""
    noise = np.tile([0.001, -0.001], LEAST // 2)
    least = -np.expm1(np.log(0.05) / LEAST)
    with pytest.raises(DataError, match=r"'better' rests on 2.7e-05, which a query type"):
        moments_of(noise + 0.9 * least).compare()
    assert moments_of(noise + 1.1 * least).compare()["new"].verdict == "better"
    assert moments_of(noise).compare()["new"].verdict == "not distinguishable"
    with pytest.raises(DataError, match=r"'equivalent' rests on 2e-05, .*; expected 3e-05 or more"):
        moments_of(noise).compare(margin=2e-5)
    assert moments_of(noise).compare(margin=1e-3)["new"].verdict == "equivalent"


@pytest.mark.slow
def test_moments_without_the_query_that_loses() -> None:
    """One query in 100,000 loses .5 and the others gain as much together: a third of the samples hold none."""
    rng, false, refused = np.random.default_rng(0), 0, 0
    for _ in range(60):
        d = rng.normal(5e-6, 5e-4, LEAST)
        d[rng.random(LEAST) < 1e-5] = -0.5
        try:
            false += moments_of(d).compare()["new"].verdict in ("better", "worse")
        except DataError:
            refused += 1
    assert false <= 0.05 * 60
    assert refused > 40


def test_a_part_without_rows_has_the_columns_of_shares_too() -> None:
    table = pa.table({"query_id": [1, 1], "label": [1, 0], "score": [2.0, 1.0], "known": [True, False]})
    metrics, columns = ["mrr@2", "judged@1"], {"judged": "known"}
    whole, empty = (per_query(rows, metrics, columns) for rows in (table, table.slice(0, 0)))
    assert whole.schema.names == empty.schema.names
    assert whole.schema.names == ["query_id", "rows", "n_relevant", "mrr@2", "judged@1", "mrr@2: judged"]
    merged = merge([empty, whole])
    assert judged(merged) == {"mrr@2": 0.5}
    assert list(means(merged)) == ["mrr@2", "judged@1"]
    assert judged(merge([per_query(table, metrics)])) == {}


def test_shares_of_judged_documents_count_by_the_weights_of_queries() -> None:
    table = pa.table(
        {
            "query_id": [1, 2],
            "label": [1, 0],
            "score": [2.0, 1.0],
            "known": [True, False],
            "w": [3.0, 1.0],
        }
    )
    assert judged(per_query(table, "mrr", {"judged": "known", "weight": "w"})) == {"mrr": 0.75}
