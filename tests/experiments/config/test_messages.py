"""Messages about defects of an experiment: the place, what was found, what was expected, and the cure."""
# ruff: noqa: E501 (a table with one case per line)

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import load_experiment
from ltr_harness.experiments.config.problems import _accepts_unquoted

Messages = Callable[..., list[str]]

BROKEN = """\
name: broken
sedes: [1]
seeds: [1, a]
data:
  reader: letor
  regrup: true
  max_grade: "4"
  splits:
    f1: {train: [S1.txt, S2.txt], valid: S4.txt, test: ./S4.txt}
    f2: {train: [S1.txt], valid: {holdout: 2, sed: 1}, test: 5}
    f3: {train: S1.txt, test: S5.txt}
metrics:
  cutoffs: [1, 3, 3]
  report: [ndgc, mrr, "ndcg(gian=exp)"]
  primary: ndcg
stopping: {metric: ndcg@10, on: test, patience: 0}
models:
  a: {ranker: lightgmb}
  b: {ranker: lightgbm, learning_rate: 0.1}
  c: {ranker: feature}
  d: {ranker: lightgbm, rounds: 5.5}
  e:
compare: {baseline: z, confidence: 95, test: permutaton}
"""


@pytest.mark.long
def test_every_problem_of_every_section_comes_at_once_in_the_order_of_the_file(messages: Messages) -> None:
    found = messages(BROKEN)
    expected = [
        "exp.yaml:2:1: unknown key 'sedes' in the experiment; did you mean 'seeds'?",
        "exp.yaml:3:12: seeds.1 is 'a'; expected an integer >= 0 and < 2147483648",
        "exp.yaml:6:3: unknown key 'regrup' in data; did you mean 'regroup'?",
        "exp.yaml:7:14: data.max_grade is '4'; expected a number",
        "exp.yaml:9:42: S4.txt is in valid and in test of the same split: the number of rounds would be chosen",
        "exp.yaml:10:44: data.splits.f2.valid.holdout is 2; expected a number > 0 and < 1",
        "exp.yaml:10:47: unknown key 'sed' in data.splits.f2.valid; did you mean 'seed'?",
        "exp.yaml:10:62: data.splits.f2.test is 5; expected a file or a list of files",
        "exp.yaml:11:9: split 'f3' has no validation data, on which stopping could choose the number of rounds",
        "exp.yaml:13:12: metrics.cutoffs is [1, 3, 3]; expected each once; 3 was given more than once",
        "exp.yaml:14:12: metrics.report.0: unknown metric 'ndgc'; did you mean 'ndcg'?",
        "exp.yaml:14:23: metrics.report.2: ndcg has no parameter 'gian'; did you mean 'gain'?",
        "exp.yaml:15:12: metrics.primary is 'ndcg'; expected a metric at a fixed K, such as ndcg@10",
        "exp.yaml:16:33: stopping.on is 'test'; expected 'valid': the number of rounds is chosen on validation",
        "exp.yaml:16:49: stopping.patience is 0; expected an integer >= 1",
        "exp.yaml:18:15: models.a.ranker: unknown ranker 'lightgmb'; did you mean 'lightgbm'?",
        "exp.yaml:19:25: unknown key 'learning_rate' in models.b; parameters of the library go under params",
        "exp.yaml:20:6: models.c has no 'feature'",
        "exp.yaml:21:33: models.d.rounds is 5.5; expected an integer >= 1",
        "exp.yaml:22:5: models.e is null; expected a mapping such as {ranker: lightgbm, …}",
        "exp.yaml:23:21: there is no model 'z'",
        "exp.yaml:23:36: compare.confidence is 95; expected a number >= 0.5 and < 1",
        "exp.yaml:23:46: compare.test is 'permutaton'; did you mean 'permutation'?",
    ]
    assert len(found) == len(expected), "\n".join(found)
    for message, start in zip(found, expected, strict=True):
        assert message.startswith(start)


def replace_once(small_yaml: str, old: str, new: str) -> str:
    assert old in small_yaml
    return small_yaml.replace(old, new)


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: small\n", "", "exp.yaml:1:1: the experiment has no 'name'; expected text"),
        ("name: small", "name: 7", "exp.yaml:1:7: name is 7; expected text; put it in quotes to make it text"),
        ("name: small", "name: ' x'", "exp.yaml:1:7: name is ' x'; expected 1 to 200 printable characters that"),
        ("name: small", 'name: "a\\nb"', "exp.yaml:1:7: name is 'a\\nb'; expected 1 to 200 printable"),
        ("name: small", "name: s\nseeds: []", "exp.yaml:2:8: seeds is []; expected at least one"),
        ("name: small", "name: s\nseeds: a", "exp.yaml:2:8: seeds is 'a'; expected a list of integers >= 0"),
        ("name: small", "name: s\nseeds: [-1]", "exp.yaml:2:9: seeds.0 is -1; expected an integer >= 0"),
        ("name: small", "name: s\nseeds: [2147483648]", "exp.yaml:2:9: seeds.0 is 2147483648; expected an integer"),
        ("name: small", "name: s\nseeds: [true]", "exp.yaml:2:9: seeds.0 is true; expected an integer"),
        ("name: small", "name: s\nseeds: [2, 3, 2]", "exp.yaml:2:8: seeds is [2, 3, 2]; expected each once; 2 was"),
        ("name: small", "name: s\nmetrics: [ndcg]", "exp.yaml:2:10: metrics is [\"ndcg\"]; expected a mapping such"),
        (
            "name: small",
            "name: s\nmetrics: {cutoffs: [100000000000]}",
            "exp.yaml:2:21: metrics.cutoffs.0 is 100000000000; expected an integer >= 1 and <= 1000000000",
        ),
        ("name: small", "name: s\nmetrics: {cutoffs: [0]}", "exp.yaml:2:21: metrics.cutoffs.0 is 0; expected an integer"),
        ("name: small", "name: s\nmetrics: {cutoffs: []}", "exp.yaml:2:20: metrics.cutoffs is []; expected at least"),
        ("name: small", "name: s\nmetrics: {report: []}", "exp.yaml:2:19: metrics.report is []; expected at least"),
        (
            "name: small",
            "name: s\nmetrics: {preset: serach}",
            "exp.yaml:2:19: metrics.preset is 'serach'; did you mean 'search'?",
        ),
        ("name: small", "name: s\nmetrics: {primary: rprec}", "exp.yaml:2:20: metrics.primary is 'rprec'; expected a metric at a fixed K, such as ndcg@10"),
        ("name: small", "name: s\nmetrics: {primary: judged@10}", "exp.yaml:2:20: metrics.primary is 'judged@10'; expected a metric that can decide"),
        ("  reader: letor\n", "", "exp.yaml:3:3: data has no 'reader'; expected one of catboost, csv, letor"),
        ("reader: letor", "reader: lettor", "exp.yaml:3:11: data.reader: unknown reader 'lettor'; did you mean 'letor'?"),
        ("reader: letor", "reader: [letor]", "exp.yaml:3:11: data.reader is [\"letor\"]; expected one of catboost, csv"),
        ("reader: letor", "reader: ./my.py:R", "exp.yaml:3:11: data.reader: "),
        (
            "splits: {train: a.txt, valid: b.txt, test: c.txt}",
            "regroup: true",
            "exp.yaml:3:3: data has no 'splits'; expected {train: …, valid: …, test: …}, or folds: 5 with files: …",
        ),
        ("valid: b.txt, ", "", "exp.yaml:4:11: split 'all' has no validation data"),
        ("valid: b.txt", "valid: null", "exp.yaml:4:11: split 'all' has no validation data"),
        ("valid: b.txt", "valid: {seed: 1}", "exp.yaml:4:33: data.splits.valid has no 'holdout'; expected a number"),
        ("valid: b.txt", "valid: 3", "exp.yaml:4:33: data.splits.valid is 3; expected a file or a list of files or a"),
        ("valid: b.txt", "valid: a.txt", "exp.yaml:4:33: a.txt is in train and in valid of the same split"),
        ("valid: b.txt", "valid: [b.txt, c.txt]", "exp.yaml:4:33: c.txt is in valid and in test of the same split"),
        ("test: c.txt", "test: [./a.txt]", "exp.yaml:4:46: a.txt is in train and in test of the same split: models"),
        ("test: c.txt", "tset: c.txt", "exp.yaml:4:11: data.splits has no 'test'"),
        ("train: a.txt", "train: []", "exp.yaml:4:19: data.splits.train is []; expected at least one"),
        ("train: a.txt", "train: [a, a]", "exp.yaml:4:19: data.splits.train is [\"a\", \"a\"]; expected each once"),
        ("{train: a.txt", "{x: {}, train: a.txt", "exp.yaml:4:12: unknown key 'x' in data.splits.all; known: test, train"),
        ("{train: a.txt, valid: b.txt, test: c.txt}", "{' f': {train: a, valid: b, test: c}}", "exp.yaml:4:12: data.splits"),
        ("reader: letor", "reader: letor\n  folds: 5", "exp.yaml:4:10: data.folds with data.splits; expected one of them"),
        ("reader: letor", "reader: letor\n  files: x", "exp.yaml:4:10: data.files without data.folds; add folds: 5"),
        ("splits: {train: a.txt, valid: b.txt, test: c.txt}", "folds: 5", "exp.yaml:4:10: data.folds without data.files"),
        ("splits: {train: a.txt, valid: b.txt, test: c.txt}", "{folds: 2, files: x}", "exp.yaml"),
        ("reader: letor", "reader: letor\n  max_grade: 0", "exp.yaml:4:14: data.max_grade is 0; expected a number > 0"),
        ("stopping: {metric: ndcg@10}", "stopping: {patience: 3}", "exp.yaml:5:11: stopping has no 'metric'; expected"),
        ("stopping: {metric: ndcg@10}", "stopping: ndcg@10", "exp.yaml:5:11: stopping is 'ndcg@10'; expected a mapping"),
        ("{metric: ndcg@10}", "{metric: ndcg@ten}", "exp.yaml:5:20: stopping.metric: 'ndcg@ten': cutoff 'ten'"),
        ("{metric: ndcg@10}", "{metric: ndcg@10, min_delta: -1}", "exp.yaml:5:40: stopping.min_delta is -1"),
        ("{metric: ndcg@10}", "{metric: ndcg@10, min_delta: .inf}", "exp.yaml:5:40: stopping.min_delta is Infinity"),
        ("{metric: ndcg@10}", "{metric: ndcg@10, max_rounds: 1e3}", "exp.yaml:5:41: stopping.max_rounds is 1000.0; ex"),
        ("stopping: {metric: ndcg@10}\n", "", "exp.yaml:6:10: models.trees does not say how long to train; add rounds"),
        ("stopping: {metric: ndcg@10}", "stopping:", "exp.yaml:7:10: models.trees does not say how long to train; add"),
        ("ranker: lightgbm", "ranker: lightgbm, rounds: 9", "exp.yaml:7:37: models.trees.rounds with stopping; exp"),
        ("ranker: lightgbm", "ranker: lightgbm, rounds: 0", "exp.yaml:7:37: models.trees.rounds is 0; expected an integer"),
        ("ranker: lightgbm", "params: {}", "exp.yaml:7:10: models.trees has no 'ranker'; expected one of "),
        ("ranker: lightgbm", "ranker: lightgbm, params: [1]", "exp.yaml:7:37: models.trees.params is [1]; expected a"),
        ("  trees:", '  "":', "exp.yaml:7:3: models: name ''; expected 1 to 200 printable characters"),
        ("models:\n", "models: {}\nmodells:\n", "exp.yaml:6:9: models is empty; expected at least one model"),
        ("chance: {ranker: random}", "chance: random", "exp.yaml:8:11: models.chance is 'random'; expected a mapping"),
        ("models:", "compare: {baseline: tree}\nmodels:", "exp.yaml:6:21: there is no model 'tree'; did you mean 'trees'?"),
        ("models:", "compare: {unit: user_id, test: bounded}\nmodels:", "exp.yaml:6:10: compare: test: bounded with unit 'user_id'; expected test permutation, skew-adjusted or t"),
        ("ranker: random", "ranker: random, rounds: 9", "exp.yaml:8:36: models.chance.rounds: ranker 'random' is not trained in rounds; leave it out"),
        (
            "{ranker: lightgbm}",
            "\n    ranker: xgboost\n    objective: rank: ndcg",
            "exp.yaml:9:20: not valid YAML: mapping values are not allowed here; a value with a colon and a space needs "
            "quotes; or is it objective: rank:ndcg?",
        ),
        (
            "{ranker: lightgbm}",
            "{ranker: xgboost, objective: rank: ndcg, preset: small}",
            "exp.yaml:7:43: not valid YAML: expected ',' or '}', but got ':'; a value with a colon and a space needs "
            "quotes; or is it objective: rank:ndcg?",
        ),
        (
            "{ranker: lightgbm}",
            "{ranker: xgboost, objective: lambdarank, preset: small}",
            "exp.yaml:7:28: models.trees.objective: unknown objective 'lambdarank'; did you mean 'rank:ndcg'?",
        ),
        (
            "{ranker: lightgbm}",
            "{ranker: lambdamart}",
            "exp.yaml:7:19: models.trees.ranker: unknown ranker 'lambdamart'; did you mean 'lightgbm'?",
        ),
        (
            "reader: letor",
            "reader: letor\n  first_index: a",
            "exp.yaml:4:16: data.first_index is 'a'; expected 0 or 1",
        ),
        (
            "reader: letor",
            "reader: letor\n  first_index: '1'",
            "exp.yaml:4:16: data.first_index is '1'; expected 0 or 1; write it without quotes",
        ),
        (
            "{ranker: lightgbm}",
            "{ranker: lightgbm, monotone: {price: up}}",
            "exp.yaml:7:47: models.trees.monotone.price is 'up'; expected -1 or 1",
        ),
        (
            "{ranker: lightgbm}",
            "{ranker: lightgbm, monotone: {price: '1'}}",
            "exp.yaml:7:47: models.trees.monotone.price is '1'; expected -1 or 1; write it without quotes",
        ),
        ("name: small", "name: s\nseeds: ['1']", "exp.yaml:2:9: seeds.0 is '1'; expected an integer >= 0 and < 2147483648; write it without quotes"),
        ("models:", "report: {formats: [pdf]}\nmodels:", "exp.yaml:6:20: report.formats.0 is 'pdf'; known: html, json, md, png, svg, tex"),
        ("models:", "report: {formats: []}\nmodels:", "exp.yaml:6:19: report.formats is []; expected at least one"),
        ("models:", "report: {sections: [verdict, metric]}\nmodels:", "exp.yaml:6:30: report.sections.1: unknown report section 'metric'; did you mean 'metrics'?"),
        ("models:", "report: {sections: []}\nmodels:", "exp.yaml:6:20: report.sections is []; expected at least one"),
        ("models:", "report: {sections: [data, data]}\nmodels:", "exp.yaml:6:20: report.sections is [\"data\", \"data\"]; expected each once; data was given more than once"),
        ("models:", "report: {sections: [1]}\nmodels:", "exp.yaml:6:21: report.sections.0 is 1; expected text; put it in quotes to make it text"),
        ("models:", "report: html\nmodels:", "exp.yaml:6:9: report is 'html'; expected a mapping such as {formats: [html, json]}"),
        ("models:", "compare: {confidence: 1}\nmodels:", "exp.yaml:6:23: compare.confidence is 1; expected a number >= 0.5"),
    ],
)  # fmt: skip
def test_one_mistake_one_message(
    messages: Messages, small_yaml: str, old: str, new: str, message: str
) -> None:
    found = messages(replace_once(small_yaml, old, new))
    assert any(line.startswith(message) for line in found), "\n".join(found)
    if "tset" not in new and "modells" not in new and "./my" not in new and "2, files" not in new:
        assert len(found) == 1, "\n".join(found)


def test_a_problem_in_a_base_is_told_where_it_is_written(write: Callable[..., Path], small_yaml: str) -> None:
    write(replace_once(small_yaml, "ndcg@10", "ndgc@10"), "shared/base.yaml")
    with pytest.raises(ConfigError) as caught:
        load_experiment(write("extends: shared/base.yaml\nseeds: [1, 1]\n"))
    assert [str(problem).partition(";")[0] for problem in caught.value.problems] == [
        "exp.yaml:2:8: seeds is [1, 1]",
        "shared/base.yaml:5:20: stopping.metric: unknown metric 'ndgc'",
    ]


@pytest.mark.long
def test_what_the_libraries_would_refuse_or_ignore_is_told_with_its_line(
    messages: Messages, small_yaml: str
) -> None:
    text = replace_once(
        small_yaml,
        "  trees: {ranker: lightgbm}",
        """\
  trees:
    ranker: lightgbm
    objective: lambdrank
  leaves:
    ranker: lightgbm
    params:
      num_leafs: 31
      n_jobs: 2
  boost: {ranker: xgboost, objective: "rank:ndcg", params: {max_dept: 3}}""",
    )
    found = messages(text)
    assert [line[: len(start)] for line, start in zip(found, WITH_LINES, strict=True)] == WITH_LINES
    assert "did you mean 'num_leaves'?" in found[1]
    assert "did you mean 'max_depth'?" in found[3]
    with pytest.raises(ConfigError):
        load_experiment(Path("exp.yaml"))
    assert load_experiment(Path("exp.yaml"), check_rankers=False).models["leaves"].rounds is None


WITH_LINES = [
    "exp.yaml:9:5: models.trees.objective: ",
    "exp.yaml:13:7: models.leaves.params.num_leafs: ",
    "exp.yaml:14:7: models.leaves.params.n_jobs: ",
    "exp.yaml:15:61: models.boost.params.max_dept: ",
]


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (
            "{metric: bpref}",
            ": bpref cannot be an objective: it does not define its change when two rows",
        ),
        ("{metric: nope}", ".metric: unknown metric 'nope'; known: alpha_ndcg, bpref"),
        ("{metric: ndcg@10, truncation_level: 0}", ".truncation_level is 0; expected an integer >= 1"),
        (
            "{metric: ndcg@10, sigmoid: 2}",
            "unknown key 'sigmoid' in models.trees.objective; did you mean 'sigma'?",
        ),
        ("{metric: ndcg@10, norm: 1}", ".norm is 1; expected true or false"),
        ("{metric: mrr, weighting: ndcg_loss2++}", ": weighting=ndcg_loss2++ with mrr; expected dcg or ndcg"),
        ("{sigma: 2}", " has no 'metric'; expected text or a mapping {metric: …}"),
        ("5", " is 5; expected text or a mapping {metric: …}"),
    ],
)
def test_objectives_that_cannot_be_are_told_with_their_line(
    messages: Messages, small_yaml: str, objective: str, message: str
) -> None:
    text = replace_once(
        small_yaml, "trees: {ranker: lightgbm}", f"trees: {{ranker: lightgbm, objective: {objective}}}"
    )
    (found,) = messages(text)
    assert message in found


def test_a_mapping_from_python_has_no_lines_but_the_same_words() -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment({"name": "x", "models": {"a": {"ranker": "rndom"}}, "data": {"reader": "synthetic"}})
    assert str(caught.value).startswith(
        "configuration: models.a.ranker: unknown ranker 'rndom'; did you mean 'random'?"
    )


def test_a_reader_checks_its_own_options_together(messages: Messages, small_yaml: str) -> None:
    text = replace_once(
        small_yaml,
        "reader: letor\n  splits: {train: a.txt, valid: b.txt, test: c.txt}",
        "reader: synthetic\n  min_rows: 50\n  max_rows: 20",
    )
    assert messages(text) == ["exp.yaml:3:3: data: min_rows is 50, above max_rows, which is 20"]


JUNK = [
    None,
    True,
    -1,
    2.5,
    "",
    "x",
    [],
    [None],
    [[1]],
    {},
    {"x": 1},
    {"train": 1},
    float("nan"),
    "x.py:Y",
    2**70,
]


@pytest.mark.long
def test_no_input_ends_in_anything_but_our_own_error(small_yaml: str) -> None:
    """Each value of a sound experiment is replaced by each kind of wrong thing."""
    sound = yaml.safe_load(small_yaml)
    sound |= {
        "seeds": [1],
        "metrics": {"cutoffs": [1], "report": ["ndcg"], "primary": "ndcg@1", "preset": "search"},
    }
    sound["compare"] = {"baseline": "trees"}
    paths = _paths(sound)
    assert len(paths) > 20
    problems = [problem for path in paths for junk in JUNK for problem in _problems_with(sound, path, junk)]
    assert len(problems) > 300
    assert all(problem.startswith("configuration: ") for problem in problems)


def _problems_with(sound: dict[str, Any], path: tuple[Any, ...], junk: object) -> list[str]:
    data = copy.deepcopy(sound)
    holder: Any = data
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = junk
    try:
        load_experiment(data)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def _paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [found for key, value in entries for found in [(*path, key), *_paths(value, (*path, key))]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: x\ndata:\n  reader: letor\n    root: a\n",
            "exp.yaml:4:9: 'root' is indented by 4 spaces; expected 2 spaces, as in line 3",
        ),
        (
            "name: x\n seeds: [1]\n",
            "exp.yaml:2:7: 'seeds' is indented by 1 space; expected 0 spaces, as in line 1",
        ),
        (
            "models:\n  a:\n    ranker: random\n   b:\n    ranker: random\n",
            "exp.yaml:4:4: 'b' is indented by 3 spaces; expected 4 spaces, as in line 3",
        ),
        (
            "models:\n  a:\n    # the first\n\n    ranker: random\n      rounds: 3\n",
            "exp.yaml:6:13: 'rounds' is indented by 6 spaces; expected 4 spaces, as in line 5",
        ),
        (
            "models:\n  a:\n    objective: rank: ndcg\n",
            "exp.yaml:3:20: not valid YAML: mapping values are not allowed here; a value with a colon and a space needs quotes; or is it objective: rank:ndcg?",
        ),
    ],
)
def test_a_line_that_is_indented_wrongly_is_told_by_how_much(
    messages: Messages, text: str, message: str
) -> None:
    assert messages(text)[0] == message


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("train.csv", b"query_id,label\n" + b"1,2\n" * 2_000, "is not an experiment; expected a mapping"),
        ("train.txt", b"2 qid:1 1:0.5 2:1\n" * 2_000, "is not an experiment; expected a mapping"),
        ("train.parquet", b"PAR1\xff\xfe", "byte 4 is not UTF-8; expected UTF-8 text"),
        (
            "train.tsv",
            b"0\t1\n" * (1 << 22),
            "is 16 MiB, too large for an experiment; expected an experiment",
        ),
    ],
)
def test_a_data_file_in_the_place_of_an_experiment(
    tmp_path: Path, name: str, content: bytes, found: str
) -> None:
    """The message held the file, all of it."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_experiment(tmp_path / name)
    message = str(caught.value)
    assert found in message
    assert message.endswith(f"; is it data? `ltr-harness init {tmp_path / name}` writes an experiment for it")
    assert len(message) < 400


def test_a_holdout_has_one_way_at_most(
    messages: Messages, small_yaml: str, write: Callable[..., Path]
) -> None:
    for way in ("by_time: day", "together: user", "stratify: market"):
        load_experiment(write(replace_once(small_yaml, "valid: b.txt", f"valid: {{holdout: 0.2, {way}}}")))
    both = "valid: {holdout: 0.2, together: user, stratify: market}"
    assert messages(replace_once(small_yaml, "valid: b.txt", both)) == [
        "exp.yaml:4:33: a holdout with together and stratify; expected at most one of them"
    ]


@pytest.mark.parametrize(
    ("text", "accepted", "fits"),
    [
        ("1", {"type": "integer"}, True),
        ("1", {"type": "number"}, True),
        ("1.5", {"type": "integer"}, False),
        ("1.5", {"type": "number"}, True),
        ("true", {"type": "boolean"}, True),
        ("true", {"type": "integer"}, False),
        ("1", {"type": "integer", "enum": [-1, 1]}, True),
        ("3", {"type": "integer", "enum": [-1, 1]}, False),
        ("one", {"type": "integer"}, False),
    ],
)
def test_what_would_fit_without_quotes(text: str, accepted: dict[str, Any], fits: bool) -> None:
    assert _accepts_unquoted(text, [accepted]) is fits
