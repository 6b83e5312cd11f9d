"""`ltr-harness evaluate`: other tools' printed numbers from the same files, and what a user sees when it cannot be."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ltr_harness import evaluate
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command

Cli = Callable[..., tuple[int, str, str]]

DATA = (
    "2 qid:7 1:0.5 #docid = a\n0 qid:7 1:0.1 #docid = b\n1 qid:9 1:0.4 #docid = c\n0 qid:9 1:0.2 #docid = d\n"
)
DATA += "0 qid:11 1:0.3 #docid = e\n"
QRELS = "7 0 a 2\n7 0 b 0\n9 0 c 1\n9 0 d 0\n11 0 e 0\n"
GOOD_RUN = "7 Q0 a 1 2 good\n7 Q0 b 2 1 good\n9 Q0 c 1 2 good\n9 Q0 d 2 1 good\n11 Q0 e 1 1 good\n"
BAD_RUN = "7 Q0 b 1 2 bad\n7 Q0 a 2 1 bad\n9 Q0 c 1 2 bad\n9 Q0 x 2 1 bad\n11 Q0 e 1 1 bad\n"


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "data.txt": DATA,
        "qrels": QRELS,
        "good.run": GOOD_RUN,
        "bad.run": BAD_RUN,
        "up.txt": "2\n1\n2\n1\n0\n",
        "down.txt": "1\n2\n1\n2\n0\n",
    }.items():
        (tmp_path / name).write_text(text)

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = run_command(cli, [str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


# --- trec_eval's output, to the byte ---

SETS = [
    "mq2008_fold1_test_xgb",
    "mslr_test_feature110",
    "mslr_test_ranklib_trees10",
    "mslr_test_ranklib_trees100",
]
THERE = ("num_ret", "num_rel", "map", "Rprec", "recip_rank", "P.1,5,10", "ndcg", "ndcg_cut.1,3,5,10,20")


def dashes(option: str, values: tuple[str, ...]) -> list[str]:
    return [part for value in values for part in (option, value)]


def test_the_official_measures_of_trec_evals_own_test(ltr: Cli, shared_data: Path) -> None:
    folder = shared_data / "reference" / "trec_eval"
    files = ("--qrels", folder / "qrels.test", "--run", folder / "results.test", "--format", "trec_eval")
    code, out, err = ltr("evaluate", *files)
    assert (code, out, err) == (0, (folder / "out.test").read_text(), "")


@pytest.mark.parametrize(
    ("expected", "run", "more"),
    [
        ("out.test.aq", "results.test", ()),
        ("out.test.aqc", "results.trunc", ("--all-queries",)),
        ("out.test.aqcM", "results.trunc", ("--all-queries", "--depth", "100")),
    ],
)
def test_per_query_values_of_trec_evals_own_test(
    ltr: Cli, shared_data: Path, expected: str, run: str, more: tuple[str, ...]
) -> None:
    folder = shared_data / "reference" / "trec_eval"
    files = ("--qrels", folder / "qrels.test", "--run", folder / run, "--format", "trec_eval")
    code, out, _ = ltr("evaluate", *files, "-q", "-m", "all_trec", *more)
    lines = (folder / expected).read_text().splitlines()
    ours = {line.split("\t")[0] for line in out.splitlines()}
    assert code == 0
    assert len(ours) == 76
    assert out.splitlines() == [line for line in lines if line.split("\t")[0] in ours]


def test_num_rel_of_all_queries_is_what_trec_eval_counts(ltr: Cli, shared_data: Path) -> None:
    """trec_eval 10.0-rc3 printed these with -q -c -l2, and 559 with -l1 and -l3: its sum counts grades above 0."""
    folder = shared_data / "reference" / "trec_eval"
    files = (
        "--qrels",
        folder / "qrels.rel_level",
        "--run",
        folder / "results.trunc",
        "--format",
        "trec_eval",
    )
    _, out, _ = ltr("evaluate", *files, "-q", "-m", "num_rel", "--relevant", "2", "--all-queries")
    assert [line.split()[1:] for line in out.splitlines()] == [
        ["301", "12"],
        ["302", "77"],
        ["303", "8"],
        ["all", "559"],
    ]


@pytest.mark.parametrize("name", SETS)
def test_per_query_values_that_trec_eval_printed(ltr: Cli, shared_data: Path, name: str) -> None:
    folder = shared_data / "reference" / name
    files = ("--qrels", folder / "qrels.txt", "--run", folder / "run.txt", "--format", "trec_eval")
    code, out, _ = ltr("evaluate", *files, "-q", *dashes("-m", THERE))
    assert code == 0
    assert out == (folder / "trec_eval_q.txt").read_text()


@pytest.mark.long
@pytest.mark.parametrize("run", ["1", "2"])
def test_ntcir_runs_as_trec_eval_printed_them(ltr: Cli, shared_data: Path, run: str) -> None:
    folder = shared_data / "reference" / "ntcir13_www"
    measures = ("map", "recip_rank", "P.10", "ndcg", "ndcg_cut.5,10,20")
    files = ("--qrels", folder / "wwwE.trec.qrels", "--run", folder / f"RMIT-E-NU-Own-{run}.run")
    _, out, _ = ltr("evaluate", *files, "--format", "trec_eval", "-q", *dashes("-m", measures))
    found = {tuple(line.split()[:2]): line.split()[2] for line in out.splitlines()}
    expected = [line.split() for line in (folder / f"own{run}.trec_eval_q.txt").read_text().splitlines()]
    assert len(expected) > 700
    for name, topic, value in expected:
        topic = topic if topic == "all" else f"{int(topic):04}"
        assert found[name, topic] == value


@pytest.mark.parametrize("name", [*SETS[:2], SETS[3]])
@pytest.mark.parametrize("k", [5, 10, 20])
def test_gdeval_and_letor_numbers_from_the_same_files(ltr: Cli, shared_data: Path, name: str, k: int) -> None:
    folder = shared_data / "reference" / name
    metrics = f"ndcg(as=gdeval)@{k},err(as=gdeval)@{k}"
    files = ("--qrels", folder / "qrels.txt", "--run", folder / "run.txt")
    _, out, _ = ltr("evaluate", *files, "-m", metrics, "--per-query", "--format", "csv")
    found = {
        row[0]: [float(cell) for cell in row[2:] if cell] for row in list(csv.reader(io.StringIO(out)))[1:]
    }
    with (folder / f"gdeval_k{k}.csv").open() as file:
        expected = {row[1]: [float(cell) for cell in row[2:]] for row in list(csv.reader(file))[1:]}
    expected.pop("amean")
    assert {query for query, values in found.items() if values} >= expected.keys()
    for query, values in expected.items():
        np.testing.assert_allclose(found[query], values, atol=5.1e-6)


def test_letor_scores_beside_letor_data(ltr: Cli, shared_data: Path) -> None:
    scores = shared_data / "reference" / "mq2008_fold1_test_xgb" / "scores.txt"
    metrics = "ndcg(as=gdeval)@10,ndcg(empty=zero,ties=stable)@10,ndcg(as=lightgbm)@10"
    code, out, _ = ltr(
        "evaluate", "--data", shared_data / "mq2008" / "S5.txt", "--scores", scores, "-m", metrics
    )
    assert code == 0
    assert "scores: 156 queries, 2,874 rows" in out
    assert "ndcg(max_grade" not in out
    assert [line.split()[1] for line in out.splitlines()[2:5]] == ["0.7163", "0.4821", "0.8090"]
    assert "over 105 of 156 queries; 51 have no relevant document" in out.splitlines()[2]


# --- trec_eval's layout on what trec_eval does not know ---


def test_layout_takes_trec_evals_names_and_ours(ltr: Cli) -> None:
    arguments = ("evaluate", "--qrels", "qrels", "--run", "bad.run", "--format", "trec_eval")
    code, out, _ = ltr(
        *arguments, "-m", "rbp(p=0.5)", "-m", "P_1", "-m", "map", "-m", "gm_map", "-m", "num_q"
    )
    assert code == 0
    assert out.splitlines() == [
        "num_q                 \tall\t3",
        "map                   \tall\t0.5000",
        f"gm_map                \tall\t{np.exp((np.log(0.5) + np.log(1) + np.log(0.00001)) / 3):6.4f}",
        "P_1                   \tall\t0.3333",
        "rbp(p=0.5)            \tall\t0.3750",
    ]
    _, out, err = ltr(*arguments, "-m", "err@1", "--per-query")
    assert (
        out
        == "err(max_grade=2)@1    \t7\t0.0000\nerr(max_grade=2)@1    \t9\t0.2500\nerr(max_grade=2)@1    \tall\t0.1250\n"
    )
    assert "max_grade is 2, the largest label of qrels" in err
    code, _, err = ltr(*arguments, "-m", "ndgc_cut.10")
    assert code == 2
    assert (
        "'ndgc_cut.10' is neither a known measure of trec_eval nor a metric: did you mean 'ndcg_cut'?" in err
    )


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("infAP", "infAP: trec_eval's infAP is not computed here; use trec_eval itself"),
        (
            "unj.5",
            "unj.5: trec_eval's unj is not computed here; use judged(as=trec_eval)@K, which is 1 - unj_K",
        ),
        ("ndcg_rel", "trec_eval's ndcg_rel is not computed here"),
        ("mapp", "'mapp' is neither a known measure of trec_eval nor a metric: did you mean 'map'?"),
    ],
)
def test_measures_of_trec_eval_that_are_not_computed_are_said(ltr: Cli, measure: str, said: str) -> None:
    code, out, err = ltr(
        "evaluate", "--qrels", "qrels", "--run", "good.run", "--format", "trec_eval", "-m", measure
    )
    assert (code, out) == (2, "")
    assert said in err


def test_layout_refuses_what_it_has_no_place_for(ltr: Cli) -> None:
    code, _, err = ltr(
        "evaluate", "--qrels", "qrels", "--run", "bad.run", "--format", "trec_eval", "--baseline", "bad"
    )
    assert (code, "--format trec_eval compares nothing" in err) == (2, True)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_any_relevance_level_as_trec_eval_has_it(ltr: Cli, shared_data: Path, level: int) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs the extra `oracles`")
    folder = shared_data / "reference" / "mslr_test_ranklib_trees10"
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for line in (folder / "qrels.txt").read_text().splitlines():
        query, _, document, grade = line.split()
        qrels.setdefault(query, {})[document] = int(grade)
    for line in (folder / "run.txt").read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        run.setdefault(query, {})[document] = float(score)
    known = {
        "num_ret",
        "num_rel",
        "num_rel_ret",
        "map",
        "Rprec",
        "bpref",
        "recip_rank",
        "P",
        "recall",
        "ndcg",
    }
    known |= {"set_F", "set_P", "map_cut", "ndcg_cut", "success", "relative_P", "num_nonrel_judged_ret"}
    expected = pytrec_eval.RelevanceEvaluator(qrels, known, relevance_level=level).evaluate(run)
    files = ("--qrels", folder / "qrels.txt", "--run", folder / "run.txt", "--format", "trec_eval")
    _, out, _ = ltr("evaluate", *files, "-q", "--relevant", level, *dashes("-m", tuple(known)))
    lines = [line.split() for line in out.splitlines() if line.split()[1] != "all"]
    assert len(lines) == sum(map(len, expected.values())) > 900
    for name, query, value in lines:
        assert abs(float(value) - expected[query][name]) <= 5.001e-5


def test_relevance_level_in_our_own_names(ltr: Cli) -> None:
    arguments = ("evaluate", "--qrels", "qrels", "--run", "bad.run", "--relevant", "2")
    _, out, _ = ltr(*arguments, "-m", "mrr,ndcg,map(relevant=3)")
    assert [line.split()[0] for line in out.splitlines()[2:5]] == [
        "mrr(relevant=2)",
        "ndcg",
        "map(relevant=3)",
    ]
    _, out, _ = ltr(*arguments, "--format", "trec_eval", "-m", "num_rel")
    assert out == "num_rel               \tall\t1\n"


# --- our own formats ---


def test_table_csv_and_json_hold_the_same_numbers(ltr: Cli) -> None:
    arguments = ("evaluate", "--data", "data.txt", "--scores", "down.txt", "-m", "ndcg@2,mrr")
    expected = evaluate([2, 0, 1, 0, 0], [1, 2, 1, 2, 0], group_sizes=[2, 2, 1], metrics=["ndcg@2", "mrr"])
    code, out, err = ltr(*arguments)
    assert (code, out) == (
        0,
        "down: 3 queries, 5 rows\n\nndcg@2    0.6309\nmrr       0.5000\n\n"
        "over 2 of 3 queries; 1 has no relevant document\n\n"
        "ndcg@2 by query: p10 0.6309, median 0.6309, p90 0.6309; 0 in 0.0 % of the queries\n"
        "ndcg@2: random order 0.8155, ceiling 1.0000\n",  # (1 + 1 / log2 3) / 2
    )
    assert "counts all grades from 1 to 2 alike" in err
    _, out, _ = ltr(*arguments, "--format", "csv")
    assert out == (
        "ranking,metric,mean,n_queries,n_undefined\n"
        f"down,ndcg@2,{expected.means['ndcg@2']!r},3,1\ndown,mrr,0.5,3,1\n"
    )
    _, out, err = ltr(*arguments, "--json", "--per-query")
    (ranking,) = json.loads(out)["rankings"]
    assert ranking["metrics"]["mrr"] == {
        "mean": 0.5,
        "n_queries": 3,
        "n_undefined": 1,
        "higher_is_better": True,
    }
    assert ranking["per_query"]["mrr"] == {"7": 0.5, "9": 0.5, "11": None}
    assert err == ""
    _, out, _ = ltr(*arguments, "--per-query", "--format", "csv")
    assert out.splitlines() == [
        "query_id,n_relevant,ndcg@2,mrr",
        f"7,1,{1 / np.log2(3)!r},0.5".replace("np.float64(", "").replace(")", ""),
        f"9,1,{1 / np.log2(3)!r},0.5".replace("np.float64(", "").replace(")", ""),
        "11,0,,",
    ]


def test_the_name_asked_for_stands_beside_the_canonical_one(ltr: Cli) -> None:
    asked = "ndcg_cut_2,err@2,SetP,mrr"
    code, out, _ = ltr("evaluate", "--qrels", "qrels", "--run", "good.run", "-m", asked)
    assert code == 0
    lines = [re.fullmatch(r"(\S+) +\d\.\d{4} *(.*?)(?: *over .*)?", line) for line in out.splitlines()]
    found = {line[1]: line[2].strip() for line in lines if line}
    assert found == {
        "ndcg(empty=zero,gain=linear,ties=id)@2": "ndcg_cut_2 of trec_eval",
        "err(max_grade=2)@2": "err@2",
        "precision(empty=zero,score_precision=float32,ties=id)": "SetP of ir_measures",
        "mrr": "",
    }
    code, out, _ = ltr("evaluate", "--qrels", "qrels", "--run", "good.run", "-m", asked, "--json")
    (ranking,) = json.loads(out)["rankings"]
    assert [values.get("asked") for values in ranking["metrics"].values()] == [
        "ndcg_cut_2",
        "err@2",
        "SetP",
        None,
    ]
    for command in ("evaluate --run good.run --run bad.run", "compare good.run bad.run"):
        code, _, err = ltr(*command.split(), "--qrels", "qrels", "-m", "P_1")
        assert (code, "note: P_1 of trec_eval is precision(empty=zero,ties=id)@1" in err) == (0, True)


def test_per_query_table(ltr: Cli) -> None:
    _, out, _ = ltr(
        "evaluate", "--data", "data.txt", "--scores", "down.txt", "-m", "ndcg@2,mrr", "--per-query"
    )
    assert out.splitlines()[:4] == [
        "query  ndcg@2     mrr",
        "7      0.6309  0.5000",
        "9      0.6309  0.5000",
        "11          –       –",
    ]


def test_without_metrics_the_search_preset_on_the_labels_scale(ltr: Cli) -> None:
    code, out, err = ltr("evaluate", "--data", "data.txt", "--scores", "up.txt")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:18]] == [
        f"{name}@{k}" for name in ("ndcg", "mrr", "err(max_grade=2)", "map") for k in (1, 3, 5, 10)
    ]
    assert "max_grade is 2, the largest label of data.txt; --max-grade sets the top" in err
    _, out, err = ltr(
        "evaluate", "--data", "data.txt", "--scores", "up.txt", "-m", "err@1", "--max-grade", "4"
    )
    assert "err(max_grade=4)@1    0.1250" in out  # (3/16 + 1/16) / 2
    assert "--max-grade" not in err


def test_counts_differ_by_column_where_definitions_do(ltr: Cli) -> None:
    _, out, _ = ltr(
        "evaluate", "--data", "data.txt", "--scores", "up.txt", "-m", "mrr,mrr(relevant=2),judged"
    )
    assert out.splitlines()[2:5] == [
        "mrr                1.0000  over 2 of 3 queries; 1 has no relevant document",
        "mrr(relevant=2)    1.0000  over 1 of 3 queries; 2 have no relevant document",
        "judged             1.0000  over 3 of 3 queries",
    ]


def test_tables_are_read_by_suffix_and_reader_options(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("query_id,grade,score\n7,2,1\n7,0,2\n9,1,2\n9,0,1\n")
    files = ("--data", "t.csv", "--scores", "t.csv")
    code, out, _ = ltr("evaluate", *files, "-m", "mrr", "--column", "label=grade")
    assert (code, "mrr    0.7500" in out) == (0, True)
    code, _, err = ltr("evaluate", *files, "-m", "mrr", "--column", "lable=grade")
    assert (code, "did you mean 'label'?" in err, "lable" in err) == (2, True, True)
    code, _, err = ltr("evaluate", *files, "--column", "label")
    assert (code, "error: label: not KEY=VALUE" in err) == (2, True)
    code, _, err = ltr("evaluate", *files, "--reader", "cvs")
    assert (code, "did you mean 'csv'?" in err) == (2, True)


def test_query_weights_count_in_means_and_in_comparisons(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n2\n1\n")
    (tmp_path / "b.txt").write_text("2\n1\n2\n1\n")
    (tmp_path / "t.csv").write_text("query_id,label,w,f\n7,1,3,0\n7,0,3,0\n9,1,1,0\n9,0,1,0\n")
    arguments = ("evaluate", "--data", "t.csv", "--column", "weight=w", "-m", "mrr", "--scores", "a.txt")
    _, out, err = ltr(*arguments)
    assert "mrr    0.6250" in out  # (3 * 1/2 + 1 * 1) / 4
    assert "weights" not in err
    _, out, err = ltr(*arguments, "--scores", "b.txt")
    assert "0.7500" in out
    said = " ".join(out.split())
    assert "means, tests and intervals are weighted by query_weight: 2 queries count as 2" in said
    assert "mrr 1.0000 0.6250" in said


def test_several_runs_are_compared(ltr: Cli) -> None:
    arguments = ("evaluate", "--qrels", "qrels", "--run", "good.run", "--run", "bad.run", "-m", "mrr,map")
    code, out, _ = ltr(*arguments)
    assert code == 0
    assert out.startswith("No clear winner: good leads bad by 0.2500 (95 % CI ")
    assert "mean    good     bad\nmrr   1.0000  0.7500\nmap   1.0000  0.7500\n" in out
    _, out, _ = ltr(*arguments, "--baseline", "bad.run", "--json")
    assert json.loads(out)["comparison"]["baseline"] == "bad"
    code, _, err = ltr(*arguments, "--baseline", "worse")
    assert (code, "no model 'worse' to serve as the baseline" in err) == (2, True)
    _, out, _ = ltr(*arguments, "--per-query", "--format", "csv")
    assert out.splitlines()[:2] == ["ranking,query_id,n_relevant,mrr,map", "good,7,1,1.0,1.0"]


def test_the_first_metric_decides_also_where_it_takes_its_scale_from_the_labels(ltr: Cli) -> None:
    code, out, _ = ltr(
        "evaluate", "--data", "data.txt", "--scores", "up.txt", "--scores", "down.txt", "-m", "err@1"
    )
    assert code == 0
    assert out.startswith("No clear winner: up leads down by 0.5000 (95 % CI ")


def test_what_the_order_of_equal_scores_could_do_is_said(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "flat.txt").write_text("1\n1\n2\n1\n0\n")
    arguments = ("evaluate", "--data", "data.txt", "--scores", "flat.txt", "-m", "mrr,ndcg@1")
    said = (
        "mrr 0.8750, from 0.7500 to 1.0000 over the orders of equal scores, which touch 50.0% of the queries; "
        "40.0% of the positions are tied"
    )
    _, _, err = ltr(*arguments)
    assert f"note: flat: {said}\n" in err
    caution = {"kind": "equal-scores", "severity": "warning", "text": said, "cure": "", "place": "flat"}
    assert caution in json.loads(ltr(*arguments, "--json")[1])["cautions"]
    assert "equal scores" not in ltr("evaluate", "--data", "data.txt", "--scores", "up.txt", "-m", "mrr")[2]


@pytest.mark.long
def test_every_line_of_a_comparison_fits_80_columns(ltr: Cli, tmp_path: Path) -> None:
    names = [f"a-rather-long-run-tag-{number}" for number in range(5)]
    for name in names:
        (tmp_path / name).write_text(GOOD_RUN.replace("good", name))
    code, out, _ = ltr("evaluate", "--qrels", "qrels", *dashes("--run", tuple(names)))
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80


def test_runs_over_other_queries_are_refused_or_cut_to_the_common_ones(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "short.run").write_text("7 Q0 a 1 1 short\n")
    arguments = ("evaluate", "--qrels", "qrels", "--run", "good.run", "--run", "short.run", "-m", "mrr")
    code, _, err = ltr(*arguments)
    assert code == 2
    assert "short: 1 query against 3 of good: 2 missing here" in err
    assert "--common-queries" in err
    code, out, err = ltr(*arguments, "--common-queries", "--verbose")
    assert (code, "good: 2 of 3 queries left out, not common to all" in out) == (0, True)
    assert "2 of the 3 queries of the qrels are not in the run and are left out" in err
    code, out, _ = ltr(*arguments, "--all-queries", "--per-query")
    assert code == 0
    assert "9      0.0000" in out


def test_names_from_files_give_no_orders_to_the_terminal(ltr: Cli, tmp_path: Path) -> None:
    for name in ("good", "bad"):
        text = (tmp_path / f"{name}.run").read_text()
        (tmp_path / f"{name}.run").write_text(
            text.replace(name, f"{name}\x1b[2J").replace("7 Q0", "7\x07 Q0")
        )
    (tmp_path / "qrels").write_text(QRELS.replace("7 0", "7\x07 0"))
    runs = ("--run", "good.run", "--run", "bad.run")
    for arguments in (
        ("evaluate", "--per-query"),
        ("evaluate", "--per-query", *runs),
        ("explain", "ndcg@2", "--query", "7\x07"),
    ):
        runs_given = () if runs[0] in arguments else runs[:2]
        code, out, _ = ltr(*arguments, "--qrels", "qrels", *runs_given)
        assert code == 0
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "\\x07" in out


def test_unjudged_documents(ltr: Cli) -> None:
    arguments = (
        "evaluate",
        "--qrels",
        "qrels",
        "--run",
        "bad.run",
        "-m",
        "judged@2",
        "--per-query",
        "--format",
        "csv",
    )
    assert "9,1,0.5" in ltr(*arguments)[1]
    assert "9,1,1.0" in ltr(*arguments, "--judged-only")[1]


def test_per_query_is_q_as_in_trec_eval(ltr: Cli) -> None:
    given = ("evaluate", "--qrels", "qrels", "--run", "good.run", "--format", "trec_eval", "-m", "map")
    code, out, err = ltr(*given, "-q")
    assert (code, out, err) == ltr(*given, "--per-query")
    assert (code, len(out.splitlines()) > 1, err) == (0, True, "")


# --- what a user sees when it cannot be ---


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "neither --data nor --qrels; give --data FILE --scores FILE, or --qrels FILE --run FILE"),
        (("--data", "data.txt", "--qrels", "qrels"), "both --data and --qrels"),
        (("--data", "data.txt"), "--data without --scores FILE"),
        (("--qrels", "qrels"), "--qrels without --run FILE"),
        (("--data", "data.txt", "--run", "good.run"), "--run with --data; --run goes with --qrels"),
        (("--qrels", "qrels", "--scores", "up.txt"), "--scores with --qrels; --scores goes with --data"),
        (
            ("--data", "data.txt", "--scores", "up.txt", "--all-queries"),
            "--all-queries with --data; --all-queries goes with --qrels",
        ),
        (
            ("--data", "data.txt", "--scores", "up.txt", "-m", "ndgc@10"),
            "unknown metric 'ndgc'; did you mean 'ndcg'?",
        ),
        (("--data", "data.txt", "--scores", "up.txt", "-m", "ndcg@0"), "the cutoff must be at least 1"),
        (("--data", "data.txt", "--scores", "up.txt", "--baseline", "up"), "need a second --run or --scores"),
        (
            ("--data", "data.txt", "--scores", "up.txt", "--json", "--format", "csv"),
            "--json and --format csv",
        ),
        (
            ("--data", "data.txt", "--scores", "up.txt", "-q"),
            "-q without --format trec_eval; expected --per-query",
        ),
        (
            ("--data", "data.txt", "--scores", "up.txt", "--max-grade", "0"),
            "--max-grade 0; expected a grade above 0",
        ),
        (("--data", "data.txt", "--scores", "up.txt", "--scores", "up.txt"), "up.txt is given twice"),
        (
            ("--data", "data.txt", "--scores", "up.txt", "--relevant", "0"),
            "--relevant 0; expected a grade above 0",
        ),
        (("--data", "dat.txt", "--scores", "up.txt"), "dat.txt: no such file; did you mean 'data.txt'?"),
        (("--data", "data.txt", "--scores", "upp.txt"), "upp.txt: no such file"),
        (("--data", "data.txt", "--scores", "qrels"), "qrels:1: the line has 4 fields, like all"),
        (
            ("--qrels", "good.run", "--run", "good.run"),
            "good.run:1: the line has 6 fields, like all",
        ),
        (("--qrels", "qrels", "--run", "qrels"), "qrels:1: the line has 4 fields, like all"),
        (
            ("--data", "qrels", "--scores", "up.txt"),
            "qrels:1: '0' where the query id should be",
        ),
        (
            ("--data", "data.txt", "--scores", "up.txt", "-m", "err@10", "--max-grade", "1"),
            "is above max_grade",
        ),
    ],
)
def test_misuse_is_one_clear_message(ltr: Cli, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = ltr("evaluate", *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_problems_of_runs_come_at_once_whether_in_them_or_beside_the_qrels(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "other.run").write_text("1 Q0 a 1 2 other\n")
    (tmp_path / "broken.run").write_text("7 Q0 a 1 x broken\n")
    runs = ("--run", "good.run", "--run", "other.run", "--run", "broken.run")
    code, _, err = ltr("evaluate", "--qrels", "qrels", *runs)
    assert code == 2
    assert "other.run: has no query of qrels" in err
    assert "broken.run:1: the score is 'x'" in err
    (tmp_path / "qrels").write_text("7 0 a two\n")
    code, _, err = ltr("evaluate", "--qrels", "qrels", *runs)
    assert "qrels:1: the grade is 'two'" in err
    assert "broken.run:1: the score is 'x'" in err


def test_problems_of_all_files_come_at_once(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "q").write_text("7 0 a x\n")
    (tmp_path / "r").write_text("7 Q0 a 1 nan t\n")
    code, _, err = ltr("evaluate", "--qrels", "q", "--run", "r", "--run", "none")
    assert code == 2
    assert err.startswith("3 problems:")
    code, _, err = ltr("evaluate", "--data", "data.txt", "--scores", "up.txt", "-m", "ndgc,mmr")
    assert (code, err.startswith("2 problems:")) == (2, True)


# --- ranks ---


@pytest.mark.long
def test_a_table_of_ranks_is_what_its_scores_are(ltr: Cli, tmp_path: Path) -> None:
    (tmp_path / "up.csv").write_text("query_id,doc,rank\n7,b,2\n7,a,1\n9,c,1\n9,d,2\n11,e,1\n")
    reader = ("--data", "data.txt")
    said = "note: up.csv has no column 'score': 'rank' ranks its rows, 1 being the best\n"
    for command in (("evaluate", *reader, "--scores"), ("explain", "ndcg@2", *reader, "--scores")):
        _, expected, _ = ltr(*command, "up.txt")
        code, out, err = ltr(*command, "up.csv")
        assert (code, out) == (0, expected)
        assert said in err
    code, _, err = ltr("compare", "up.csv", "down.txt", *reader, "-m", "ndcg@2")
    assert code == 0
    assert said in err


@pytest.mark.long
def test_one_run_is_evaluated_without_what_compares_and_reports(ltr: Cli) -> None:
    code = (
        "import sys; from ltr_harness.cli import main; sys.argv[1:] = "
        "['evaluate', '--qrels', 'qrels', '--run', 'good.run', '-m', 'mrr']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = ['ltr_harness.report', 'ltr_harness.comparison.comparing', 'ltr_harness.experiments', 'pyarrow']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n"), done.stdout


def test_hints_have_the_nearest_right_thing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "qrels.csv").write_text("Query,DocId,Gains (relevance score)\na,x,1\na,y,0\n")
    (tmp_path / "run.csv").write_text("qid,docno,score\na,x,1\na,y,0\n")
    asked = {
        (
            "evaluate",
            "--qrels",
            "qrels.csv",
            "--run",
            "run.csv",
        ): "rename the column 'Gains (relevance score)' to label",
        ("evaluate", "--data", "qrels.csv"): "or --score-column NAME, where a column of the data has them",
        (
            "compare",
            "a",
            "b",
            "--test",
            "randomization",
        ): "unknown test 'randomization'; did you mean 'permutation'?",
    }
    for words, cure in asked.items():
        placed = [str(tmp_path / word) if word.endswith(".csv") else word for word in words]
        assert run_command(cli, placed) == 2
        assert cure in " ".join(capsys.readouterr().err.split())
