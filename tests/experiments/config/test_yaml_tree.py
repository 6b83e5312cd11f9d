"""Strict YAML: what words mean, where they stand, and everything that is wrong with a text."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.errors import ConfigError, Problem
from ltr_harness.experiments.config.yaml_tree import Place, from_python, parse_yaml, read_yaml


def parsed_values(text: str) -> Any:
    return parse_yaml(text, "x.yaml", Path()).as_python()


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parsed_values(text)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("012", 12),
        ("0x1f", 31),
        ("0o17", 15),
        ("+3", 3),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        # text, whatever YAML 1.1 would have made of it
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("12:30:00", "12:30:00"),
        ("190:20", "190:20"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("rank:ndcg", "rank:ndcg"),
        ("ndcg(gain=linear)@10", "ndcg(gain=linear)@10"),
        ("'1e-3'", "1e-3"),
        ('"true"', "true"),
        ("=", "="),
    ],
)
def test_a_word_means_what_it_looks_like(word: str, value: object) -> None:
    read = parsed_values(f"key: {word}")["key"]
    assert read == value
    assert type(read) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(parsed_values("x: .nan")["x"])


def test_a_number_with_thousands_of_digits_does_not_end_in_a_traceback() -> None:
    assert parsed_values("x: " + "9" * 5000)["x"] in (math.inf, "9" * 5000)


def test_keys_are_names_even_where_they_look_like_numbers() -> None:
    assert parsed_values("{1: a, no: b, 2.0: c, true: d}") == {"1": "a", "no": "b", "2.0": "c", "true": "d"}


def test_every_node_knows_file_line_and_column() -> None:
    tree = parse_yaml(
        "name: x\nmodels:\n  a: {ranker: random}\nseeds:\n  - 1\n  - 2\n", "exp.yaml", Path("f")
    )
    ranker = tree.find(("models", "a", "ranker"))
    second = tree.find(("seeds", 1))
    assert ranker is not None
    assert second is not None
    assert str(ranker.place) == "exp.yaml:3:15"
    assert str(second.place) == "exp.yaml:6:5"
    assert str(tree.mapping["models"].key_places["a"]) == "exp.yaml:3:3"
    assert ranker.place.folder == Path("f")
    assert tree.find(("models", "b", "ranker")) is None
    assert tree.find(("seeds", 2)) is None
    assert tree.find(("name", "x")) is None


def test_all_duplicate_keys_are_told_with_both_lines() -> None:
    assert problems("a: 1\nb: {x: 1, x: 2}\na: 2\n1: x\n'1': y\n") == [
        "x.yaml:2:11: key 'x' was given already, line 2; remove one",
        "x.yaml:3:1: key 'a' was given already, line 1; remove one",
        "x.yaml:5:1: key '1' was given already, line 4; remove one",
    ]


def test_tags_are_refused() -> None:
    assert problems("a: !!python/object:os.system x\nb: !mine [1]") == [
        "x.yaml:1:4: tag '!!python/object:os.system'; expected plain YAML without tags",
        "x.yaml:2:4: tag '!mine'; expected plain YAML without tags",
    ]


def test_one_syntax_error_does_not_hide_the_next_nor_a_duplicate() -> None:
    found = problems("a: [1, 2\nb: 3\nc: {x: 1, x: 2}\ne:\n\t- 1\nf: 'open\n")
    assert len(found) == 4
    assert found[0] == "x.yaml:2:2: the '[' of line 1 is not closed, or a ',' is missing before this"
    assert found[1] == "x.yaml:3:11: key 'x' was given already, line 3; remove one"
    assert found[2].startswith("x.yaml:5:1: not valid YAML")
    assert found[2].endswith("indent with spaces")
    assert "end of stream" in found[3]


def test_anchors_aliases_and_merge_keys() -> None:
    text = """
    a: &base {x: 1, y: 2}
    b: *base
    c: {<<: *base, y: 3}
    d: {<<: [{y: 9}, *base], z: 4}
    """
    tree = parse_yaml(text, "x.yaml", Path())
    assert tree.as_python() == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 2},
        "c": {"x": 1, "y": 3},
        "d": {"z": 4, "y": 9, "x": 1},
    }
    assert str(tree.mapping["c"].key_places["x"]) == "x.yaml:2:15"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.yaml: is empty; expected an experiment"),
        ("# nothing\n", "x.yaml: is empty; expected an experiment"),
        ("a: &x [*x]", "x.yaml:1:4: an alias refers to what contains it"),
        ("a: *nowhere", "x.yaml:1:4: not valid YAML: found undefined alias 'nowhere'"),
        (
            "a: 1\n---\nb: 2\n",
            "x.yaml:2:1: not valid YAML: a second document ('---'); one experiment per file",
        ),
        ("? [1, 2]\n: x\n", "x.yaml:1:3: a list or mapping as a key; expected a name"),
        ("a: {<<: 3}", "x.yaml:1:9: '<<' without a mapping; expected an alias of a mapping"),
        ("a: 1\nb: \x07", "x.yaml:2: control character #x07; expected text"),
        ("a:\n  b 3\n  c: 4\n", "x.yaml:3:4: not valid YAML: mapping values are not allowed here"),
        ("[" * 600, "x.yaml: is nested too deeply"),
    ],
)
def test_what_is_no_experiment_is_told_in_one_line(text: str, message: str) -> None:
    assert problems(text) == [message]


def test_characters_beyond_the_basic_plane() -> None:
    assert parsed_values('a: "\\ud83d\\ude00"\nb: 😀') == {"a": "😀", "b": "😀"}
    assert problems('a: "\\ud83d"') == ["x.yaml:1:4: half a character (a lone surrogate); expected text"]


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "mq2008.yaml").write_text("name: x")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(ConfigError, match=r"mq2080.yaml: no such file; did you mean 'mq2008.yaml'\?"):
        read_yaml(tmp_path / "mq2080.yaml")
    with pytest.raises(ConfigError, match="no such file; there is no folder"):
        read_yaml(tmp_path / "nowhere" / "x.yaml")
    with pytest.raises(ConfigError, match="byte 9 is not UTF-8; expected UTF-8 text"):
        read_yaml(tmp_path / "latin.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes("name: x\r\nseeds: [1]\r\n".encode("utf-8-sig"))
    assert read_yaml(path).as_python() == {"name": "x", "seeds": [1]}


def test_values_from_python() -> None:
    data = {"root": Path("a") / "b", "seeds": (np.int64(1), 2), "gain": np.array([0.5, 1.0]), 3: None}
    assert from_python(data, Place("configuration")).as_python() == {
        "root": str(Path("a") / "b"),
        "seeds": [1, 2],
        "gain": [0.5, 1.0],
        "3": None,
    }
    problems: list[Problem] = []
    from_python({"a": {"b": [1, object()]}, "c": {1, 2}}, Place("configuration"), problems)
    assert [str(problem) for problem in problems] == [
        "configuration: a.b.1 is a object; expected text, a number, a list or a mapping",
        "configuration: c is a set; expected text, a number, a list or a mapping",
    ]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(
        st.characters(
            exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff\ufffe\uffff\u2028\u2029\x85"
        )
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc<no1. ", min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.long
@given(st.dictionaries(st.text("abcno1", min_size=1, max_size=4), json_values, min_size=1, max_size=4))
def test_json_is_yaml(data: dict[str, Any]) -> None:
    assert parsed_values(json.dumps(data, ensure_ascii=False)) == data


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_waited_for_with_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pipe = tmp_path / "e.yaml"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a: 1\n",), daemon=True)
    writer.start()
    assert read_yaml(pipe).as_python() == {"a": 1}
    writer.join()
    assert [record.getMessage() for record in caplog.records] == [f"{pipe} is a pipe: waiting for its writer"]


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such devices")
def test_of_a_device_no_more_is_read_than_an_experiment_has(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "e.yaml"):
        tracemalloc.start()
        with pytest.raises(ConfigError, match="is more than 8 MiB, too large for an experiment"):
            read_yaml(path)
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
        tracemalloc.stop()
    with pytest.raises(ConfigError, match="is empty"):
        read_yaml(Path("/dev/null"))


def test_the_depth_does_not_depend_on_the_programs_limit(tmp_path: Path) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        with pytest.raises(ConfigError, match="is nested too deeply"):
            parse_yaml("[" * 600, "x.yaml", tmp_path)
    finally:
        sys.setrecursionlimit(limit)
