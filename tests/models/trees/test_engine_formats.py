"""Forms that search engines read: models small enough to follow by hand, read as the engine would read them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltr_harness.errors import DataError, UsageError
from ltr_harness.models.trees.forest import LEAF, NAN, NEVER, ZERO, Forest, InnerNode, Tree
from ltr_harness.models.trees.formats import catalog, plugin
from tests.conftest import examples

ENGINES = ["opensearch", "elasticsearch"]
EVERY = [*ENGINES, "elasticsearch-native"]
NAMES = ("title", "age")


def form(name, version=None):
    found = catalog.load(name)()
    return found.for_engine(version) if version else found


def tree(root):
    """Grow a tree of nested tuples (feature, threshold, missing goes left, left, right[, missing type]) and numbers."""
    return Tree.grown(root, lambda node: InnerNode(*node) if isinstance(node, tuple) else node)


def forest(*roots, names=NAMES, comparison="<", base=0.0):
    single = comparison == "<"
    return Forest(names, tuple(tree(root) for root in roots), base, comparison, single, single)


def serve_rows(name, model, folder, rows, version=None):
    """Written in a form, read back, and asked for rows."""
    path = folder / "ranker.json"
    engine = form(name, version)
    engine.write(model, None, path)
    return engine.read(path, model.feature_names)(np.asarray(rows, dtype=np.float64)).tolist()


STUMP = (0, 0.5, True, 3.0, 5.0)


@pytest.mark.parametrize("name", EVERY)
def test_two_trees_by_hand(name, tmp_path):
    """title < .5: 3, else age < 10: 1, else 2; and a second tree that says 8 below an age of 20, else 16."""
    model = forest((0, 0.5, False, 3.0, (1, 10.0, True, 1.0, 2.0)), (1, 20.0, True, 8.0, 16.0), base=0.25)
    rows = [[0.25, 5], [0.5, 5], [0.5, 10], [0.0, 20]]
    assert serve_rows(name, model, tmp_path, rows) == [3 + 8.25, 1 + 8.25, 2 + 8.25, 3 + 16.25]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_a_value_at_the_threshold(name, comparison, tmp_path):
    at_it = 3.0 if comparison == "<=" else 5.0
    for threshold in (0.5, 0.0, -2.0):
        model = forest((0, threshold, True, 3.0, 5.0), comparison=comparison)
        rows = [[threshold, 0], [threshold - 0.001, 0], [threshold + 0.001, 0]]
        assert serve_rows(name, model, tmp_path, rows) == [at_it, 3.0, 5.0]


@pytest.mark.parametrize("name", ENGINES)
def test_trees_of_one_leaf(name, tmp_path):
    assert serve_rows(name, forest(0.0, base=0.5), tmp_path, [[1, 2]]) == [0.5]
    assert serve_rows(name, forest(0.25, -1.5), tmp_path, [[1, 2]]) == [-1.25]


@st.composite
def worlds(draw):
    """A forest and rows: float32 features, leaves whose sums are exact, missing values of both kinds."""
    n_features = draw(st.integers(1, 3))
    grid = st.sampled_from([-2.0, -1e-3, -0.0, 0.0, 1e-35, 1e-3, 0.1, 0.5, 7.0, 1e30])
    leaves = st.integers(-64, 64).map(float)
    thresholds = st.one_of(grid, st.floats(-10, 10))
    node = st.recursive(
        leaves,
        lambda below: st.tuples(
            st.integers(0, n_features - 1),
            thresholds,
            st.booleans(),
            below,
            below,
            st.sampled_from([NEVER, NAN]),
        ),
        max_leaves=6,
    )
    comparison = draw(st.sampled_from(["<=", "<"]))
    roots = draw(st.lists(node, min_size=1, max_size=3))
    model = forest(*roots, names=tuple(f"f{at}" for at in range(n_features)), comparison=comparison)
    values = st.one_of(grid, st.just(np.nan), st.floats(-10, 10, width=32))
    rows = draw(st.lists(st.lists(values, min_size=n_features, max_size=n_features), min_size=1, max_size=8))
    return model, np.array(rows, dtype=np.float32).astype(np.float64)


READERS = [
    ("opensearch", None),
    ("opensearch", "2.19"),
    ("elasticsearch", "8.9"),
    ("elasticsearch-native", "8.18"),
]


def in_every_form(world, folder):
    """The scores are the model's, or those of rows with 0 for missing values where the engine reads them so."""
    model, rows = world
    of_rows, of_rows_with_0 = model.scores(rows).tolist(), model.scores(np.nan_to_num(rows)).tolist()
    for name, version in READERS:
        tells_missing = version in (None, "8.18")
        assert serve_rows(name, model, folder, rows, version) == (
            of_rows if tells_missing else of_rows_with_0
        ), name


@given(world=worlds())
@examples(27)
def test_the_scores_are_the_models_by_the_rules_of_the_engine(world, tmp_path_factory):
    in_every_form(world, tmp_path_factory.mktemp("world"))


@pytest.mark.slow
@given(world=worlds())
@examples(100)
def test_the_scores_of_many_models(world, tmp_path_factory):
    in_every_form(world, tmp_path_factory.mktemp("world"))


def test_opensearch_200_a_missing_value_was_0_before_3_2(tmp_path):
    """A model whose missing values go right, at .5: 0 goes left, so the document gets 3 where XGBoost gives 5."""
    model = forest((0, 0.5, False, 3.0, 5.0))
    assert model.scores(np.array([[np.nan, 0]])).tolist() == [5.0]
    assert serve_rows("opensearch", model, tmp_path, [[np.nan, 0]], "2.19") == [3.0]
    assert serve_rows("opensearch", model, tmp_path, [[np.nan, 0]], "3.1.0") == [3.0]
    assert serve_rows("opensearch", model, tmp_path, [[0, 0]], "2.19") == [3.0]


def test_opensearch_206_made_it_nan_and_378_is_what_that_did(tmp_path):
    """NaN is never below a threshold: from 3.2 to 3.7 it went right, whatever direction the model had learned."""
    right, left = forest((0, 0.5, False, 3.0, 5.0)), forest((0, 0.5, True, 3.0, 5.0))
    for version in ("3.2", "3.7.9"):
        assert serve_rows("opensearch", right, tmp_path, [[np.nan, 0]], version) == [5.0]
        assert serve_rows("opensearch", left, tmp_path, [[np.nan, 0]], version) == [5.0]
    assert left.scores(np.array([[np.nan, 0]])).tolist() == [3.0]
    assert serve_rows("opensearch", left, tmp_path, [[np.nan, 0]], "3.8") == [3.0]
    assert serve_rows("opensearch", left, tmp_path, [[np.nan, 0]]) == [3.0]


def test_a_model_trained_on_zeros_changed_with_opensearch_206(tmp_path):
    """#286: where rows had 0 for missing, nothing was learned of missing values; the new rule sends them anywhere."""
    model = forest((0, 0.5, False, 3.0, 5.0))
    assert (
        serve_rows("opensearch", model, tmp_path, [[np.nan, 0]], "3.1")
        == model.scores(np.zeros((1, 2))).tolist()
    )
    assert (
        serve_rows("opensearch", model, tmp_path, [[np.nan, 0]], "3.3")
        != model.scores(np.zeros((1, 2))).tolist()
    )


def test_elasticsearch_reads_missing_values_since_8_11(tmp_path):
    model = forest((0, 0.5, False, 3.0, 5.0))
    assert serve_rows("elasticsearch", model, tmp_path, [[np.nan, 0]], "8.9.2") == [3.0]
    assert serve_rows("elasticsearch", model, tmp_path, [[np.nan, 0]], "8.11.4") == [5.0]


def test_the_plugin_has_the_body_it_wants(tmp_path):
    path = tmp_path / "my-ranker.json"
    form("opensearch").write(forest((1, 0.5, True, 3.0, 5.0)), None, path)
    split = {"nodeid": 0, "depth": 0, "split": "age", "split_condition": 0.5, "yes": 1, "no": 2, "missing": 1}
    leaves = [{"nodeid": 1, "leaf": 3.0}, {"nodeid": 2, "leaf": 5.0}]
    definition = {"type": "model/xgboost+json", "definition": [{**split, "children": leaves}]}
    assert json.loads(path.read_text()) == {"model": {"name": "my-ranker", "model": definition}}
    [feature] = json.loads((tmp_path / "my-ranker.features.json").read_text())["featureset"]["features"]
    assert feature["name"] == "age"
    assert feature["template"]["function_score"]["field_value_factor"] == {"field": "age"}


def test_a_feature_set_of_the_plugins_has_10000_features(tmp_path, monkeypatch):
    assert plugin._MOST_FEATURES == 10_000
    monkeypatch.setattr(plugin, "_MOST_FEATURES", 100)
    names = tuple(f"f{at}" for at in range(101))
    trees = [(at, 0.5, True, 1.0, 2.0) for at in range(101)]
    form("opensearch").write(forest(*trees[:100], names=names), None, tmp_path / "ranker.json")
    with pytest.raises(DataError, match=r"a feature set of 101 features; expected at most 100"):
        form("opensearch").write(forest(*trees, names=names), None, tmp_path / "ranker.json")


REFUSED = [
    ("opensearch", (" ", "b"), r"features named ' '; expected names of 1 to 504 bytes"),
    ("opensearch", ("é" * 253, "b"), r"features named 'é{60}'; expected names of 1 to 504 bytes"),
    ("elasticsearch", ("", "b"), r"features named ''; expected names of 1 to 504 bytes"),
]


@pytest.mark.parametrize(("name", "names", "message"), REFUSED)
def test_names_that_an_engine_does_not_take(name, names, message, tmp_path):
    with pytest.raises(DataError, match=message):
        form(name).write(forest(STUMP, names=names), None, tmp_path / "ranker.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ENGINES)
def test_what_no_engine_can_hold(name, tmp_path):
    def refusal(model):
        with pytest.raises(DataError) as caught:
            form(name).write(model, None, tmp_path / "ranker.json")
        assert not list(tmp_path.iterdir())
        return str(caught.value)

    assert "a threshold is NaN" in refusal(forest((0, np.nan, True, 3.0, 5.0)))
    assert "a leaf beyond float32" in refusal(forest(1e39, comparison="<="))
    assert "a leaf beyond float32" in refusal(forest(np.nan))
    assert "sends 0 where missing values go" in refusal(
        forest((0, 0.5, False, 3.0, 5.0, ZERO), comparison="<=")
    )
    deep = 1.0
    for _ in range(301):
        deep = (0, 0.5, True, deep, 2.0)
    assert "a tree has 301 levels; expected at most 300" in refusal(forest(deep))


@pytest.mark.parametrize("name", EVERY)
def test_trees_of_300_levels_and_infinite_thresholds_are_held(name, tmp_path):
    deep = 1.0
    for _ in range(300):
        deep = (0, 0.5, True, deep, 2.0)
    assert serve_rows(name, forest(deep), tmp_path, [[0, 0], [1, 0]]) == [1.0, 2.0]
    infinite = forest((0, np.inf, True, 3.0, (0, -np.inf, True, 4.0, 5.0)))
    assert serve_rows(name, infinite, tmp_path, [[1e38, 0]]) == [3.0]


@pytest.mark.parametrize("name", ENGINES)
def test_the_file_is_named_as_a_model_may_be(name, tmp_path):
    with pytest.raises(DataError, match=r"the file's name, 'my ranker', is the model's; expected letters"):
        form(name).write(forest(STUMP), None, tmp_path / "my ranker.json")


@pytest.mark.parametrize("name", ENGINES)
def test_a_file_that_the_engine_would_not_read(name, tmp_path):
    path = tmp_path / "ranker.json"
    form(name).write(forest(STUMP), None, path)
    text = path.read_text()
    reader = form(name)
    for broken in (text[:-20], "", "[]", text.replace("3.0", "three")):
        path.write_text(broken)
        with pytest.raises(DataError, match=f"{name} would not read it"):
            reader.read(path, NAMES)
    path.write_text(text)
    with pytest.raises(DataError, match=f"{name} would not read it"):
        reader.read(path, ["age"])


def test_which_versions_do_the_same():
    assert form("opensearch").versions == form("opensearch", "4.0").versions == "3.8 and later"
    assert form("opensearch", "3.7.1").versions == "3.2 to before 3.8"
    assert form("opensearch", "2.19").versions == "before 3.2"
    assert form("elasticsearch", "8.11").versions == form("elasticsearch").versions == "8.11 and later"
    assert form("elasticsearch", "7.17").versions == "before 8.11"
    assert form("json").versions == form("onnx").versions == ""


def test_a_version_is_two_numbers():
    with pytest.raises(
        UsageError, match=r"--engine-version: 'new' is not a version; expected one such as 8\.11"
    ):
        form("opensearch").for_engine("new")
    with pytest.raises(
        UsageError, match=r"--engine-version: all versions read the form json alike; leave it out"
    ):
        form("json").for_engine("8")


def test_a_changed_threshold_changes_what_is_read(tmp_path):
    path = tmp_path / "ranker.json"
    form("opensearch").write(forest(STUMP), None, path)
    path.write_text(path.read_text().replace('"split_condition": 0.5', '"split_condition": 0.25'))
    assert form("opensearch").read(path, NAMES)(np.array([[0.3, 0.0]])).tolist() == [5.0]


def test_leaves_are_never_looked_at_as_splits():
    assert tree(STUMP).feature.tolist() == [0, LEAF, LEAF]
