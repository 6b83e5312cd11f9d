"""Tables evaluated in batches: the same values as `evaluate`, refusals, and what a sample says of all queries."""

import json
import re
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness import compare, evaluate
from ltr_harness.comparison import paired_moments, stream
from ltr_harness.comparison.stream import Drawn, StreamEvaluation, evaluate_stream
from ltr_harness.data.columns import hashes_of
from ltr_harness.data.logs import log
from ltr_harness.errors import DataError, MetricError, UsageError
from tests.conftest import named_case

METRICS = ["ndcg@3", "mrr", "err(max_grade=4)@5", "map", "kendall_tau_distance"]
Ltr = Callable[..., tuple[int, str, str]]


def world(seed: int = 0, n_queries: int = 40) -> pa.Table:
    """Queries of 1 to 30 rows in no order of their ids, tied scores, some without a relevant document."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, n_queries)
    query = np.repeat(rng.permutation(n_queries), sizes)
    n = query.size
    return pa.table(
        {
            "query_id": np.array([f"q{one:03}" for one in query]),
            "label": rng.integers(0, 5, n) * (query % 5 > 0),
            "live": rng.normal(size=n).round(1),
            "new": rng.normal(size=n),
            "market": np.array(["de", "fr", "us"])[query % 3],
        }
    )


def assert_equals_evaluate(found: StreamEvaluation, table: pa.Table, metrics: list[str] = METRICS) -> None:
    for score, results in found.results.items():
        labels, scores = table["label"].to_numpy(), table[score].to_numpy()
        own = evaluate(labels, scores, metrics, query_ids=table["query_id"].to_numpy())
        assert found.metrics == own.metrics
        assert results["query_id"].to_pylist() == own.query_ids.tolist()
        for name in own.metrics:
            np.testing.assert_array_equal(results[name].to_numpy(), own[name].per_query)
        assert found.means[score] == dict(own.means)


def test_the_scale_is_that_of_all_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    table = world(8)
    small_batches(monkeypatch, 20)
    with pytest.warns(UserWarning, match="taking the largest label seen, 4"):
        own = evaluate(table["label"], table["live"], ["err@5"], query_ids=table["query_id"])
    found = evaluate_stream(table, "err@5", "live")
    assert found.means["live"] == dict(own.means) == {"err(max_grade=4)@5": own.means["err@5"]}
    assert evaluate_stream(table, "err@5", "live", max_grade=5).metrics == ("err(max_grade=5)@5",)


def small_batches(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Make batches so small that a few rows behave as millions do."""
    monkeypatch.setattr(stream, "_ROWS", rows)
    monkeypatch.setattr(log, "IN_MEMORY_ROWS", rows)


@pytest.mark.long
@given(st.integers(0, 10_000), st.integers(5, 400), st.integers(1, 90))
def test_equals_evaluate_to_the_bit(seed: int, rows: int, chunk: int) -> None:
    table = world(seed, 5)
    pieces = pa.Table.from_batches(table.to_batches(max_chunksize=chunk))
    with pytest.MonkeyPatch.context() as patch:
        small_batches(patch, rows)
        found = evaluate_stream(pieces, METRICS, ["live", "new"])
    assert_equals_evaluate(found, table)
    assert (found.n_queries, found.n_rows) == (5, len(table))


WRITERS = {
    "parquet": lambda table, path: pq.write_table(table, path, row_group_size=37),
    "csv": pyarrow.csv.write_csv,
    "feather": pyarrow.feather.write_feather,
    "jsonl": lambda table, path: path.write_text(
        "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    ),
}


@pytest.mark.parametrize("form", WRITERS)
def test_formats(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world(3)
    WRITERS[form](table, tmp_path / f"one.{form}")
    small_batches(monkeypatch, 50)
    assert_equals_evaluate(evaluate_stream(tmp_path / f"one.{form}", METRICS, "new"), table)


def test_a_folder_of_files_and_ids_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world(4)
    ids = pa.array([int(one[1:]) for one in table["query_id"].to_pylist()])
    codes = table["query_id"].dictionary_encode()
    small_batches(monkeypatch, 30)
    for kind in (ids, codes):
        own = table.set_column(0, "query_id", kind)
        cut = len(table) // 2  # within a query, which goes on in the next file
        for name, part in (("a", own.slice(0, cut)), ("b", own.slice(cut))):
            pq.write_table(part, tmp_path / f"{name}.parquet")
        found = evaluate_stream(tmp_path, METRICS, "live")
        assert found.means["live"] == evaluate_stream(table, METRICS, "live").means["live"]


def test_few_rows_may_have_any_order() -> None:
    table = world(5)
    mixed = table.take(np.random.default_rng(0).permutation(len(table)))
    assert_equals_evaluate(evaluate_stream(mixed, METRICS, "live"), mixed)


def split_query_table() -> pa.Table:
    """The last row belongs to the first query."""
    table = world(6, 200)
    return pa.concat_tables([table, table.slice(0, 1)])


@pytest.mark.parametrize("sample", [None, 5])
def test_a_query_that_stands_apart(
    sample: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, path = split_query_table(), tmp_path / "log.parquet"
    pq.write_table(table, path)
    small_batches(monkeypatch, 40)
    with pytest.raises(DataError) as caught:
        evaluate_stream(path, "mrr", "live", sample=sample)
    message = str(caught.value)
    query, last = table["query_id"][0].as_py(), len(table) - 1
    assert message.startswith(f"{path}: the rows of query '{query}' stand apart, such as ")
    assert f" and {last:,}; expected each query's rows together; sort the rows by query_id" in message
    assert f"COPY (FROM '{path}' ORDER BY \"query_id\") TO 'sorted.parquet'" in message


def test_ids_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "hashes_of", lambda ids: hashes_of(ids) % np.uint64(7))
    small_batches(monkeypatch, 40)
    table = world(6, 200)
    assert_equals_evaluate(evaluate_stream(table, METRICS, "live"), table)
    with pytest.raises(DataError, match="stand apart"):
        evaluate_stream(split_query_table(), "mrr", "live")


def test_hashes_are_the_same_everywhere() -> None:
    texts = pa.array(["", "7", "q1", "a longer id of a query"])
    expected = [9615434041927672947, 15656284634943780274, 11040057725828157156, 8879795511019894665]
    assert hashes_of(texts).tolist() == expected
    assert hashes_of(pa.array([7]))[0] == expected[1]
    of_numbers = hashes_of(pa.array(np.arange(200_000)))
    assert np.unique(of_numbers).size == of_numbers.size
    shares = np.bincount((of_numbers >> np.uint64(60)).astype(int), minlength=16) / of_numbers.size
    assert np.abs(shares - 1 / 16).max() < 5 * np.sqrt(1 / 16 / of_numbers.size)


def test_moments_of_many_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired_moments, "LEAST", 5_000)
    rng = np.random.default_rng(0)
    n = 5_500
    labels = np.tile([0, 1], n)
    table = pa.table(
        {
            "query_id": np.repeat(np.arange(n), 2),
            "label": labels,
            "live": rng.normal(size=2 * n),
            "new": rng.normal(size=2 * n) + 0.2 * labels,
        }
    )
    kept = evaluate_stream(table, ["mrr", "ndcg@1"], ["live", "new"])
    monkeypatch.setattr(stream, "KEPT_QUERIES", 1000)
    monkeypatch.setattr(stream, "KEPT_VALUES", 1000)
    small_batches(monkeypatch, 1_000)
    found = evaluate_stream(table, ["mrr", "ndcg@1"], ["live", "new"])
    alone = evaluate_stream(table, ["mrr", "ndcg@1"], "live")
    assert found.moments is not None
    assert found.results == alone.results == {}
    for name, means in found.means.items():
        assert means == pytest.approx(kept.means[name], rel=1e-12)
    assert alone.means["live"] == pytest.approx(kept.means["live"], rel=1e-12)
    ours = found.moments.compare("mrr")["new"]
    theirs = compare(kept.results, metrics=["mrr"], test="t").paired("new")
    assert ours.verdict == theirs.verdict == "better"
    assert (ours.ci_low, ours.ci_high) == pytest.approx((theirs.ci_low, theirs.ci_high))
    weighted = table.append_column("w", pa.array(np.ones(2 * n)))
    with pytest.raises(UsageError, match="weights of more than 500 queries; expected a sample"):
        evaluate_stream(weighted, ["mrr", "map"], "live", {"weight": "w"})


def with_flags(table: pa.Table) -> pa.Table:
    """A third of the rows without a label is not judged."""
    labels = table["label"].to_numpy()
    is_judged = (labels > 0) | (np.arange(labels.size) % 3 > 0)
    return table.append_column("known", pa.array(is_judged))


def test_the_share_of_judged_documents_is_that_of_evaluate(monkeypatch: pytest.MonkeyPatch) -> None:
    table, metrics = with_flags(world(3)), ["ndcg@3", "mrr", "judged@3"]
    small_batches(monkeypatch, 50)
    found = evaluate_stream(table, metrics, ["live", "new"], {"judged": "known"})
    monkeypatch.setattr(stream, "KEPT_QUERIES", 5)
    moments = evaluate_stream(table, metrics, ["live", "new"], {"judged": "known"})
    assert moments.moments is not None
    assert moments.metrics == found.metrics
    ids, labels = table["query_id"].to_numpy(), table["label"].to_numpy()
    for score in ("live", "new"):
        own = evaluate(
            labels, table[score].to_numpy(), metrics, query_ids=ids, judged=table["known"].to_numpy()
        )
        assert own["judged@3"].judged is None
        assert found.judged[score] == {name: own[name].judged for name in ("ndcg@3", "mrr")}
        assert moments.judged[score] == pytest.approx(found.judged[score], rel=1e-12)
        assert 0 < found.judged[score]["ndcg@3"] < 1
    compared = compare(found.results, metrics=["ndcg@3"])
    assert compared.judged == pytest.approx({name: one["ndcg@3"] for name, one in found.judged.items()})
    assert not [one for one in compared.cautions if one.kind == "ignored-columns"]
    assert evaluate_stream(table, metrics, "live").judged == {}


def test_the_command_prints_the_share_of_judged_documents(
    ltr: Ltr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_flags(world(3))
    unjudged = table.set_column(1, "label", pa.array(np.zeros(len(table)))).drop(["known"])
    pq.write_table(table, tmp_path / "log.parquet")
    pq.write_table(
        unjudged.append_column("known", pa.array(np.zeros(len(table), bool))), tmp_path / "none.parquet"
    )
    known = ("--column", "judged=known", "-m", "ndcg@3")
    columns = ("--score-column", "live", "--data")
    share = evaluate_stream(table, "ndcg@3", "live", {"judged": "known"}).judged["live"]["ndcg@3"]
    _, out, _ = ltr("evaluate", *columns, tmp_path / "log.parquet", *known)
    assert f"judged of the first 3: {100 * share:.0f} %" in out
    code, _, err = ltr("evaluate", *columns, tmp_path / "none.parquet", *known, "--max-grade", "1")
    assert code == 0
    assert "ndcg@3: judged of the first 3: live 0 %; unjudged documents count as not relevant" in err
    both = ("compare", "--score-column", "new", *columns, tmp_path / "log.parquet", *known)
    assert json.loads(ltr(*both, "--json")[1])["judged"]["live"] == pytest.approx(share)


REFUSED = {
    "no such column": ({"scores": "scoer"}, "log.parquet: no column 'scoer' for score"),
    "no second column": ({"scores": ["live", "scoer"]}, "log.parquet: has no column 'scoer'"),
    "no such role": ({"columns": {"qurey": "query_id"}}, "unknown role 'qurey'; did you mean 'query'?"),
    "no such label": ({"columns": {"label": "grade"}}, "log.parquet: no column 'grade' for label"),
    "a label of text": ({"columns": {"label": "market"}}, "log.parquet: column 'market': has the type string"),
    "scores of text": ({"scores": "market"}, "log.parquet: column 'market': has the type string; expected numbers"),
    "scores that are NaN": ({"scores": "nan"}, "log.parquet: score is NaN in query "),
    "no scores": ({"scores": []}, "no column of scores"),
    "a sample of one": ({"sample": 1}, "a sample of 1; expected 2 queries or more"),
    "no such metric": ({"metrics": "ndgc"}, "did you mean 'ndcg'"),
}  # fmt: skip


def test_refuses(tmp_path: Path) -> None:
    table = world()
    table = table.append_column("nan", pa.array([float("nan"), *[0.0] * (len(table) - 1)]))
    pq.write_table(table, tmp_path / "log.parquet")
    for case, (arguments, message) in REFUSED.items():
        with named_case(case):
            with pytest.raises((UsageError, MetricError)) as caught:
                evaluate_stream(
                    tmp_path / "log.parquet", **{"metrics": METRICS, "scores": "live", **arguments}
                )
            assert message in str(caught.value)


def test_refuses_a_file_without_rows(tmp_path: Path) -> None:
    pq.write_table(world().slice(0, 0), tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"log.parquet: has no rows; expected rows"):
        evaluate_stream(tmp_path / "log.parquet", METRICS, "live")
    nameless = world().set_column(0, "query_id", pa.array([None, *world()["query_id"].to_pylist()[1:]]))
    with pytest.raises(DataError, match=r"column 'query_id': row 0 has no query id"):
        evaluate_stream(nameless, METRICS, "live")


# --- samples ---


def ids_of(found: StreamEvaluation) -> set[str]:
    return set(found.results["live"]["query_id"].to_pylist())


def test_a_sample_is_the_same_in_any_order_and_nested(monkeypatch: pytest.MonkeyPatch) -> None:
    table = world(1, 100)
    drawn = [ids_of(evaluate_stream(table, "mrr", "live", sample=n)) for n in range(6, 100, 14)]
    assert [len(one) for one in drawn] == list(range(6, 100, 14))
    assert all(one < other for one, other in pairwise(drawn))
    mixed = table.take(np.random.default_rng(0).permutation(len(table)))
    assert ids_of(evaluate_stream(mixed, "mrr", "live", sample=48)) == drawn[3]
    small_batches(monkeypatch, 50)
    found = evaluate_stream(table, "mrr", ["live", "new"], sample=48)
    assert ids_of(found) == drawn[3]
    assert found.sample is not None
    assert found.sample.n_all == 100
    whole = evaluate_stream(table, "mrr", ["live", "new"])
    rows = {row["query_id"]: row["mrr"] for row in whole.results["live"].to_pylist()}
    assert all(
        row["mrr"] == pytest.approx(rows[row["query_id"]], abs=0, nan_ok=True)
        for row in found.results["live"].to_pylist()
    )


def test_a_sample_of_more_queries_than_there_are() -> None:
    table = world(2)
    found = evaluate_stream(table, METRICS, ["live", "new"], sample=1000)
    assert_equals_evaluate(found, table)
    mean, low, high = found.estimate("mrr", "live")
    assert mean == pytest.approx(found.means["live"]["mrr"])
    assert low == high == mean
    difference = found.means["new"]["mrr"] - found.means["live"]["mrr"]
    assert found.estimate("mrr", "new", "live")[0] == pytest.approx(difference)
    with pytest.raises(UsageError, match="all queries were evaluated"):
        evaluate_stream(table, METRICS, "live").estimate("mrr", "live")


def test_all_samples_together_have_the_mean_of_all() -> None:
    values, hashes = np.random.default_rng(1).beta(0.3, 1.5, 7), np.arange(7, dtype=np.uint64)
    means = [Drawn(hashes[:3], 7).estimate(values[[*rows]])[0] for rows in combinations(range(7), 3)]
    assert np.mean(means) == pytest.approx(values.mean())


def test_the_interval_is_that_of_a_comparison_less_what_was_drawn() -> None:
    """Of 200 queries in 600, a third of the variance is gone."""
    values = np.where(np.arange(200) % 7 == 0, np.nan, np.random.default_rng(1).beta(0.3, 1.5, 200))
    mean, low, high = Drawn(np.arange(200, dtype=np.uint64), 600).estimate(values)
    table = pa.table({"query_id": [f"{at:03}" for at in range(200)], "mrr": values})
    whole = compare({"live": table}, test="skew-adjusted").summary("live")
    assert mean == pytest.approx(np.nanmean(values))
    assert (low - mean, high - mean) == pytest.approx(
        tuple((end - mean) * (2 / 3) ** 0.5 for end in (whole.ci_low, whole.ci_high))
    )


@pytest.mark.slow
def test_intervals_cover_the_mean_of_all() -> None:
    """Skewed values, users with many alike queries, undefined queries."""
    rng = np.random.default_rng(1)
    n, worlds = 3000, 1500
    user = np.minimum(rng.geometric(0.01, n), 400)
    values = np.clip(rng.beta(0.3, 1.5, 401)[user] + rng.normal(0, 0.05, n), 0, 1)
    values[rng.random(n) < 0.15] = np.nan
    truth = np.nanmean(values)
    means, covered = [], 0
    for _ in range(worlds):
        hashes = rng.integers(0, 2**63, n).astype(np.uint64)  # other ids
        rows = np.argsort(hashes)[:200]
        mean, low, high = Drawn(hashes[rows], n).estimate(values[rows])
        means.append(mean)
        covered += low <= truth <= high
    error = np.std(means) / np.sqrt(worlds)
    assert abs(np.mean(means) - truth) < 4 * error + 0.0005  # of a ratio, which is unbiased but for 1 / n
    assert 0.93 < covered / worlds < 0.97


# --- the command line ---


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    monkeypatch.chdir(tmp_path)
    table = world(7, 120)
    pq.write_table(table, "log.parquet")
    (tmp_path / "live.txt").write_text("\n".join(map(str, table["live"].to_pylist())))
    return table


def test_evaluate_prints_what_files_of_scores_give(data: pa.Table, ltr: Ltr) -> None:
    _, files, _ = ltr("evaluate", "--data", "log.parquet", "--scores", "live.txt", "--format", "csv")
    code, columns, err = ltr("evaluate", "--data", "log.parquet", "--score-column", "live", "--format", "csv")
    assert (code, columns) == (0, files)
    assert "err(max_grade=4)@10: the largest label; --max-grade sets the top" in err
    _, files, _ = ltr(
        "evaluate",
        "--data",
        "log.parquet",
        "--scores",
        "live.txt",
        "-m",
        "mrr",
        "--per-query",
        "--format",
        "csv",
    )
    _, columns, _ = ltr(
        "evaluate",
        "--data",
        "log.parquet",
        "--score-column",
        "live",
        "-m",
        "mrr",
        "--per-query",
        "--format",
        "csv",
    )
    assert columns == files


def test_columns_are_compared(data: pa.Table, ltr: Ltr) -> None:
    both = ("--score-column", "live", "--score-column", "new", "-m", "ndcg@3")
    code, out, _ = ltr("compare", "--data", "log.parquet", *both, "--fail-if", "ndcg@3 of new < 0")
    assert (code, "live" in out, "against live" in out) == (0, True, True)
    _, evaluated, _ = ltr("evaluate", "--data", "log.parquet", *both)
    assert evaluated.splitlines()[0] == out.splitlines()[0]
    _, out, _ = ltr("compare", "--data", "log.parquet", *both, "--baseline", "new", "--json")
    assert json.loads(out)["baseline"] == "new"


def test_a_sample_is_printed_with_its_interval(data: pa.Table, ltr: Ltr) -> None:
    sample = (
        "--data",
        "log.parquet",
        "--score-column",
        "live",
        "-m",
        "mrr",
        "--sample",
        "30",
    )
    code, out, _ = ltr("evaluate", *sample)
    assert code == 0
    assert "Sample of 30 from 120 queries. Means over all of them, with 95 % intervals:" in out
    _, out, _ = ltr("evaluate", *sample, "--json")
    said = json.loads(out)["sample"]
    found = evaluate_stream(data, "mrr", "live", sample=30)
    assert (said["n"], said["of"]) == (30, 120)
    [estimate] = said["estimates"]
    assert (estimate["mean"], estimate["ci_low"], estimate["ci_high"]) == found.estimate("mrr", "live")
    _, out, _ = ltr("compare", *sample, "--score-column", "new", "--confidence", "0.9")
    assert "with 90 % intervals" in out
    assert "new - live" in out
    _, _, err = ltr(
        "evaluate", "--data", "log.parquet", "--score-column", "live", "-m", "mrr", "--sample", "500"
    )
    assert "--sample 500: log.parquet has 120 queries; all were evaluated" in err


def test_a_sample_of_weighted_queries() -> None:
    table = world(7, 400)
    table = table.append_column(
        "w", pa.array([1.0 + 3 * (int(one[1:]) % 7) for one in table["query_id"].to_pylist()])
    )
    found = evaluate_stream(table, ["ndcg@3", "mrr"], "live", {"weight": "w"}, sample=1000)
    assert found.estimate("mrr", "live") == pytest.approx([found.means["live"]["mrr"]] * 3)
    part = evaluate_stream(table, "mrr", "live", {"weight": "w"}, sample=100)
    assert part.estimate("mrr", "live")[0] == pytest.approx(part.means["live"]["mrr"])


def test_many_queries_are_said_to_be_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ltr: Ltr
) -> None:
    monkeypatch.setattr(paired_moments, "LEAST", 2_000)
    n = 3_000
    rng = np.random.default_rng(0)
    labels = np.tile([0, 1], n)
    rows = {
        "qid": np.repeat(np.arange(n), 2),
        "label": labels,
        "a": rng.normal(size=2 * n),
        "b": rng.normal(size=2 * n) + labels,
        "known": np.tile([False, True], n),
    }
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stream, "KEPT_QUERIES", 1000)
    both = ("--data", "log.parquet", "--score-column", "a", "--score-column", "b", "-m", "mrr")
    code, out, err = ltr("compare", *both)
    assert (code, "b  +" in out, "better" in out) == (0, True, True)
    assert "the values of 3,000 queries are not kept, only means and moments" in err
    assert "log.parquet: query: qid (--column chooses others)" in err
    _, out, _ = ltr("compare", *both, "--json")
    assert json.loads(out)["differences"]["of"]["b"]["verdict"] == "better"
    known = ("--column", "judged=known")
    _, out, _ = ltr("compare", *both, *known)
    assert "judged of the ranked documents: a 50 %, b 50 %" in out
    shares = json.loads(ltr("compare", *both, *known, "--json")[1])["judged"]
    assert shares == {"a": {"mrr": 0.5}, "b": {"mrr": 0.5}}
    code, out, _ = ltr("evaluate", *both)
    assert (code, "mrr, differences to a by Student's t, with 95 % intervals:" in out) == (0, True)
    for more in (["--fail-if", "mrr < baseline"], ["-o", "out"], ["--test", "bounded"], ["--unit", "qid"]):
        code, _, err = ltr("compare", *both, *more)
        assert (code, "not kept; expected --sample N" in err) == (2, True)
    code, _, err = ltr("evaluate", *both, "--per-query")
    assert (code, "--per-query of 3,000 queries, whose values are not kept" in err) == (2, True)


RANK_NAMES = ("Ranks", "pos", "rank_shown", "position", "ranking", "place", "new_rank")


@pytest.mark.parametrize("name", RANK_NAMES)
def test_a_column_of_ranks_has_1_for_the_best(tmp_path: Path, ltr: Ltr, name: str) -> None:
    rows = "".join(f"{query},{row},{int(row == 1)},{row}\n" for query in "abc" for row in (1, 2, 3))
    (tmp_path / "rows.csv").write_text(f"query_id,document_id,label,{name}\n{rows}")
    (tmp_path / "ranks.csv").write_text(
        f"query_id,document_id,{name}\n" + re.sub(r",\d,(\d)\n", r",\1\n", rows)
    )
    (tmp_path / "qrels.csv").write_text("query_id,document_id,label\n" + re.sub(r",\d\n", "\n", rows))
    files = {kind: str(tmp_path / f"{kind}.csv") for kind in ("rows", "ranks", "qrels")}
    doors = (
        ("--data", files["rows"], "--score-column", name),
        ("--data", files["rows"], "--scores", files["ranks"]),
        ("--qrels", files["qrels"], "--run", files["ranks"]),
    )
    notes = []
    for door in doors:
        code, out, err = ltr("evaluate", *door, "-m", "mrr")
        assert (code, "mrr    1.0000" in out) == (0, True), door
        notes.append(err)
    assert f"note: --score-column {name}: ranks its rows, 1 being the best" in notes[0]


def test_a_column_called_as_ranks_holds_ranks(tmp_path: Path, ltr: Ltr) -> None:
    (tmp_path / "rows.csv").write_text("query_id,label,ranking\na,1,0.5\na,0,0.25\nb,0,1\n")
    code, _, err = ltr(
        "evaluate", "--data", str(tmp_path / "rows.csv"), "--score-column", "ranking", "-m", "mrr"
    )
    assert code == 2
    assert "column 'ranking': 0.5 (2 such rows) is not a rank" in err
    assert "if higher numbers rank first, name the column a score" in err


COMMANDS = {
    "evaluate --score-column live": "--score-column without --data",
    "evaluate --data log.parquet --scores live.txt --sample 9": "--sample without --score-column",
    "compare live.txt --data log.parquet --sample 9": "--sample without --score-column",
    "evaluate --data log.parquet --scores live.txt --score-column live": "--scores with --score-column",
    "evaluate --data log.parquet --score-column live --column lable=market": "expected ROLE=COLUMN with --score-column",
    "evaluate --data log.parquet --score-column live --baseline old": "--baseline old: no such --score-column",
    "compare --data log.parquet --score-column live": "one --score-column; expected two or more",
    "compare log.parquet --data log.parquet --score-column live --score-column new": "log.parquet with --score-column",
    "compare": "nothing to compare; expected runs, tables or scores",
    "evaluate --data live.txt --score-column live": "live.txt: is of no known format",
    "evaluate --data none.parquet --score-column live": "none.parquet: no such file or folder",
    "evaluate --data log.parquet --score-column live --sample 1": "--sample",
    "evaluate --data log.parquet --score-column live --format trec_eval": "--score-column",
}  # fmt: skip


def test_messages(data: pa.Table, ltr: Ltr) -> None:
    for command, message in COMMANDS.items():
        with named_case(command):
            code, _, err = ltr(*command.split())
            assert code == 2
            assert message in err


def half_width(error: float, freedom: int) -> float:
    """Return the half width where few queries leave no p-value below 5 %: Wallace's t of 1.96 standard errors."""
    z = 1.959964 * (8 * freedom + 3) / (8 * freedom + 1)
    return float(np.sqrt(freedom * (np.exp(z**2 / freedom) - 1)) * error)


def test_the_interval_of_a_sample_by_hand() -> None:
    """Three of twelve queries: s^2 = .04, and no skewness."""
    mean, low, high = Drawn(np.arange(3, dtype=np.uint64), 12).estimate(np.array([0.3, 0.5, 0.7]))
    half = half_width(np.sqrt((1 - 3 / 12) * 0.04 / 3), 2)
    assert (mean, low, high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))


def test_the_interval_of_a_weighted_sample_by_hand() -> None:
    """Counts 2 and 2 and an undefined query: those of two queries that count alike."""
    drawn = Drawn(np.arange(3, dtype=np.uint64), 12)
    mean, low, high = drawn.estimate(np.array([0.3, np.nan, 0.7]), counts=np.array([2.0, 2.0, 2.0]))
    half = half_width(np.sqrt((1 - 3 / 12) * 0.08 / 2), 1)
    assert (mean, low, high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))


def test_a_sample_of_equal_values_by_hand() -> None:
    """Twenty zeros of endlessly many queries: 1 - .05^(1/20) of them may be ones. No fewer in a sample of few."""
    zeros, hashes = np.zeros(20), np.arange(20, dtype=np.uint64)
    assert Drawn(hashes, 10**12).estimate(zeros, bounds=(0.0, 1.0)) == pytest.approx(
        (0, 0, 1 - 0.05 ** (1 / 20))
    )
    low, high = Drawn(hashes, 40).estimate(zeros, bounds=(-1.0, 1.0))[1:]
    assert (low, high) == pytest.approx((-np.sqrt(0.5) * 0.1391, np.sqrt(0.5) * 0.1391), abs=1e-4)
    assert Drawn(hashes, 20).estimate(zeros, bounds=(0.0, 1.0)) == (0, 0, 0)


def test_an_interval_of_a_sample_ends_at_what_is_possible() -> None:
    values = np.array([0.0, 0.0, 0.0, 0.9])
    drawn = Drawn(np.arange(4, dtype=np.uint64), 100)
    assert drawn.estimate(values)[1] < 0
    assert drawn.estimate(values, bounds=(0.0, 1.0))[1:] == (0, 1)
    only = drawn.estimate(np.array([0.3, np.nan, np.nan, np.nan]))
    assert (only[0], np.isnan(only[1:]).all()) == (0.3, True)


def test_a_sample_without_a_hit_has_an_interval() -> None:
    """Two rankings that find nothing: their means and their difference may be others over all queries."""
    n = 200
    rows = {"query_id": np.repeat(np.arange(n), 2), "label": [0, 1] * n, "live": [1.0, 0.0] * n}
    table = pa.table({**rows, "new": rows["live"]})
    found = evaluate_stream(table, "mrr@1", ["live", "new"], sample=30)
    share = np.sqrt(1 - 30 / n) * (1 - 0.05 ** (1 / 30))
    assert found.estimate("mrr@1", "live") == pytest.approx((0, 0, share))
    assert found.estimate("mrr@1", "new", "live") == pytest.approx((0, -share, share))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "share"), [(30, 0.05), (30, 0.02), (60, 0.05), (200, 0.05)])
def test_samples_of_sparse_values_cover(n: int, share: float) -> None:
    """Most queries are 0: Student's t misses 35 % at 30 queries of which 5 % are not, often by [0, 0]."""
    rng = np.random.default_rng(3)
    values = (rng.random(100_000) < share) * rng.beta(2, 2, 100_000)
    drawn, missed = Drawn(np.arange(n, dtype=np.uint64), values.size), 0
    for _ in range(400):
        table = pa.table({"query_id": np.arange(n), "mrr@1": rng.choice(values, n, replace=False)})
        found = StreamEvaluation(("mrr@1",), n, n, {"live": table}, sample=drawn)
        _, low, high = found.estimate("mrr@1", "live")
        missed += not low <= values.mean() <= high
    assert missed / 400 <= 0.07


def test_queries_and_rows_are_counted() -> None:
    table = world()
    for columns in (["live"], ["live", "new"]):
        found = evaluate_stream(table, ["mrr"], columns)
        assert (found.n_queries, found.n_rows) == (40, len(table))
