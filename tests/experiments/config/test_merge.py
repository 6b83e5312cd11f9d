"""extends, --set, and where each value of the merged experiment was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ltr_harness.errors import ConfigError
from ltr_harness.experiments.config import load_experiment, settings
from ltr_harness.experiments.config.expand import merged_tree

Write = Callable[..., Path]


def failure(source: object, overrides: list[str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        merged_tree(source, overrides)  # type: ignore[arg-type]
    return str(caught.value).splitlines()


def test_mappings_merge_and_everything_else_is_replaced(write: Write) -> None:
    write("seeds: [1, 2, 3]\nstopping: {patience: 5, every: 2}\nmodels: {a: {ranker: random}}", "base.yaml")
    child = write(
        """
        extends: base.yaml
        seeds: [9]
        stopping: {patience: 7}
        models: {b: {ranker: feature}}
        """
    )
    assert merged_tree(child).as_python() == {
        "seeds": [9],
        "stopping": {"patience": 7, "every": 2},
        "models": {"a": {"ranker": "random"}, "b": {"ranker": "feature"}},
    }


def test_a_key_given_in_both_is_told_where_it_was_given_last(write: Write) -> None:
    write("sedes: [1]", "base.yaml")
    tree = merged_tree(write("name: x\nextends: base.yaml\nsedes: [2]"))
    assert str(tree.key_places["sedes"]) == "exp.yaml:3:1"


def test_a_section_can_be_switched_off(write: Write) -> None:
    write("stopping: {metric: ndcg@10}", "base.yaml")
    assert merged_tree(write("extends: base.yaml\nstopping: null")).as_python() == {"stopping": None}


def test_later_bases_win_over_earlier_and_grandparents_are_found_from_their_own_folder(write: Write) -> None:
    write("a: grand\nb: grand\nc: grand\nd: grand", "deep/er/grand.yaml")
    write("extends: er/grand.yaml\nb: one\nc: one\nd: one", "deep/one.yaml")
    write("c: two\nd: two", "two.yaml")
    tree = merged_tree(write("extends: [deep/one.yaml, two.yaml]\nd: own"))
    assert tree.as_python() == {"a": "grand", "b": "one", "c": "two", "d": "own"}
    assert {key: str(node.place) for key, node in tree.mapping.items()} == {
        "a": "deep/er/grand.yaml:1:4",
        "b": "deep/one.yaml:2:4",
        "c": "two.yaml:1:4",
        "d": "exp.yaml:2:4",
    }


def test_two_files_may_share_a_base(write: Write) -> None:
    write("a: 1", "base.yaml")
    write("extends: base.yaml\nb: 2", "one.yaml")
    write("extends: base.yaml\nc: 3", "two.yaml")
    assert merged_tree(write("extends: [one.yaml, two.yaml]")).as_python() == {"a": 1, "b": 2, "c": 3}


def test_circles_are_refused_with_the_way_round(write: Write) -> None:
    write("extends: sub/b.yaml", "a.yaml")
    write("extends: ../a.yaml", "sub/b.yaml")
    assert failure("a.yaml", []) == ["sub/b.yaml:1:10: extends is circular: a.yaml -> sub/b.yaml -> a.yaml"]
    write("extends: self.yaml", "self.yaml")
    assert failure("self.yaml", []) == ["self.yaml:1:10: extends is circular: self.yaml -> self.yaml"]


def test_problems_of_all_files_and_overrides_come_together(write: Write) -> None:
    write("a: 1\na: 2", "one.yaml")
    write("b: [1", "two.yaml")
    write("extends: [one.yaml, two.yaml, three.yaml, 4]\nc: 1")
    found = failure("exp.yaml", ["c", "c.d=1"])
    assert found[0] == "one.yaml:2:1: key 'a' was given already, line 1; remove one"
    assert found[1].startswith("two.yaml:1:6: not valid YAML")
    assert found[2] == "exp.yaml:1:31: extends 'three.yaml': there is no file 'three.yaml'"
    assert found[3] == "exp.yaml:1:43: extends is 4; expected a path or a list of paths"
    assert found[4] == "--set c: found no 'path=value'; expected such as --set stopping.patience=20"
    assert found[5] == "--set c.d=1: c is 1 and has nothing below it"


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("name=other", ("name",), "other"),
        ("seeds=[4, 5]", ("seeds",), [4, 5]),
        ("seeds.1=1e3", ("seeds", 1), 1000.0),
        ("models.a.params.eta=1e-3", ("models", "a", "params", "eta"), 0.001),  # params: null before
        ("models.b.v2.ranker=feature", ("models", "b.v2", "ranker"), "feature"),  # a name with a dot
        ("models.new={ranker: random}", ("models", "new", "ranker"), "random"),
        ("stopping.metric=ndcg(gain=linear)@10", ("stopping", "metric"), "ndcg(gain=linear)@10"),
        ("stopping=", ("stopping",), None),
        (" data.root =/a=b", ("data", "root"), "/a=b"),
    ],
)
def test_overrides(override: str, path: tuple[str | int, ...], value: object) -> None:
    source = {
        "name": "x",
        "seeds": [1, 2],
        "models": {"a": {"params": None}, "b.v2": {"ranker": "random"}},
    }
    node = merged_tree(source, [override]).find(path)
    assert node is not None
    assert node.as_python() == value
    assert str(node.place) == f"--set {override}"


def test_the_last_override_wins() -> None:
    assert merged_tree({"a": 1}, ["a=2", "a=3"]).as_python() == {"a": 3}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seeds.2=3", "seeds is a list and has no '2'; expected an index from 0 to 1"),
        ("seeds.x=3", "seeds is a list and has no 'x'; expected an index from 0 to 1"),
        ("none.0=3", "none is a list and has no '0'; expected nothing: the list is empty"),
        ("models.lgmb.params.eta=3", "models has no 'lgmb'; did you mean 'lgbm'? (known: lgbm)"),
        ("=3", "found no 'path=value'; expected such as --set stopping.patience=20"),
        ("a..b=3", "found no 'path=value'; expected such as --set stopping.patience=20"),
        ("extends=x.yaml", "extends cannot be set from outside; write it in the file"),
        ("a={", "not valid YAML: expected the node content, but found '<stream end>'"),
        ("a={b: 1, b: 2}", "key 'b' was given already, before; remove one"),
    ],
)
def test_impossible_overrides(override: str, message: str) -> None:
    source = {"seeds": [1, 2], "none": [], "models": {"lgbm": {"ranker": "lightgbm"}}}
    assert failure(source, [override]) == [f"--set {override}: {message}"]


def test_a_misspelt_override_is_an_unknown_key_at_its_own_place(write: Write, small_yaml: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment(write(small_yaml), ["stoping.patience=3", "stopping.patiance=4"])
    assert str(caught.value).splitlines() == [
        "--set stoping.patience=3: unknown key 'stoping' in the experiment; did you mean 'stopping'? (known: "
        "compare, data, extends, metrics, models, name, report, seeds, stopping, study, sweep, tune)",
        "--set stopping.patiance=4: unknown key 'patiance' in stopping; did you mean 'patience'? (known: every, "
        "max_rounds, metric, min_delta, on, patience)",
    ]


def test_what_is_no_mapping_is_refused(write: Write) -> None:
    assert failure(write("- 1\n- 2\n"), []) == [
        "exp.yaml:1:1: is not an experiment; expected a mapping such as 'name: my-experiment'"
    ]


def test_relative_paths_follow_the_file_that_says_them(
    in_folder: Path, write: Write, small_yaml: str
) -> None:
    write(small_yaml.replace("reader: letor", "reader: letor\n  root: ../data"), "base/base.yaml")
    child = write("extends: ../base/base.yaml\nname: child", "configs/child.yaml")
    assert load_experiment(child).data.root == in_folder / "data"
    assert load_experiment(child, ["data.root=here"]).data.root == in_folder / "here"
    plain = write(small_yaml, "configs/plain.yaml")
    assert load_experiment(plain).data.root == in_folder / "configs"
    assert load_experiment(plain, [f"data.root={in_folder}/x"]).data.root == in_folder / "x"


def test_settings_say_where_each_value_comes_from(write: Write, small_yaml: str) -> None:
    write(small_yaml, "base.yaml")
    child = write("extends: base.yaml\nmetrics: {preset: navigational}\n", "child.yaml")
    found = {path: (value, origin) for path, value, origin in settings(child, ["stopping.patience=3"])}
    assert found["name"] == ("small", "base.yaml:1:7")
    assert found["data.splits.all.valid"] == (["b.txt"], "base.yaml:4:33")
    assert found["stopping.patience"] == (3, "--set stopping.patience=3")
    assert found["stopping.metric"] == ("ndcg@10", "base.yaml:5:20")
    assert found["stopping.every"] == (1, "default")
    assert found["metrics.primary"] == ("mrr@10", "child.yaml:2:19")
    assert found["compare.baseline"] == ("trees", "base.yaml:7:3")
    assert found["seeds"] == ([1], "default")


def test_a_file_that_is_extended_and_is_none_is_not_quoted(write: Write) -> None:
    write("root:x:0:0:root:/root:/bin/bash\nuser:x:1000\n", "passwd")
    write("extends: passwd\nname: x")
    (said,) = failure("exp.yaml", [])
    assert said == (
        "passwd:1:1: is not an experiment; expected a mapping such as 'name: my-experiment'; is it data? "
        "`ltr-harness init passwd` writes an experiment for it"
    )
