"""The verification finds how search engines treat missing values, and refuses models that change by it."""

import json
from pathlib import Path

import lightgbm
import numpy as np
import pytest

from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.errors import GateError
from ltr_harness.metrics import parse_metric
from ltr_harness.models.lightgbm import LightGBMModel
from ltr_harness.models.trees.formats import catalog
from ltr_harness.models.trees.verification import export_model

NDCG = parse_metric("ndcg@10")


@pytest.fixture(scope="module", params=[2, 0], ids=["missing is best", "missing is worst"])
def world(request):
    """Rows with 0, 1 or nothing; a model that knows what nothing is worth: more than 1, or as little as 0."""
    of_missing = request.param
    values = np.tile([0.0, 1.0, np.nan, 0.0, np.nan], 80)
    labels = np.where(np.isnan(values), of_missing, values)
    split = from_arrays(values[:, None], labels, group_sizes=np.full(40, 10), feature_names=["stars"])
    params = {"objective": "regression", "num_leaves": 3, "min_data_in_leaf": 1, "verbosity": -1}
    data = lightgbm.Dataset(split.features, labels, feature_name=["stars"])
    booster = lightgbm.train({**params, "num_threads": 1}, data, 3)
    return of_missing, split, LightGBMModel(booster=booster, threads=1)


def export_world(name, version, world, path, max_loss=None):
    form = catalog.load(name)()
    form = form.for_engine(version) if version else form
    return export_model(world[2], world[1], NDCG, form, path, max_loss)


@pytest.mark.parametrize("name", ["opensearch", "elasticsearch", "elasticsearch-native"])
def test_nothing_is_lost_where_the_engine_goes_where_the_model_does(name, world, tmp_path):
    found = export_world(name, None, world, tmp_path / "ranker.json", max_loss=0)
    assert found.agreement.n_same_order == found.with_missing.n_same_order == 40
    assert found.if_missing.n_same_order == 40
    assert found.n_missing == 160
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ranker.features.json", "ranker.json"]


AS_ZERO = [("opensearch", "2.19"), ("elasticsearch", "8.9")]


@pytest.mark.parametrize(("name", "version"), AS_ZERO)
def test_missing_as_0_loses_what_the_model_knows_of_it(name, version, world, tmp_path):
    """As 0 is right in the world where missing is worth as much, and wrong in the other, where it goes right."""
    path = tmp_path / "ranker.json"
    if world[0] == 0:
        export_world(name, version, world, path, max_loss=0)
        return
    with pytest.raises(
        GateError, match=rf"ndcg@10 loses 0\.[1-9]\d* in the form {name}, and .* is not written"
    ) as caught:
        export_world(name, version, world, path, max_loss=0.1)
    assert caught.value.exit_code == 3
    assert not list(tmp_path.iterdir())
    found = export_world(name, version, world, path)
    assert found.with_missing.loss == found.agreement.loss > 0.1
    assert found.with_missing.n_same_order == 0


def test_opensearch_378_is_caught_before_the_file_is_there(world, tmp_path):
    """Missing values that a split of the model sends left went right from 3.2 to 3.7."""
    path = tmp_path / "ranker.json"
    with pytest.raises(GateError, match=r"in the form opensearch, and .* is not written"):
        export_world("opensearch", "3.5", world, path, max_loss=0.01)
    export_world("opensearch", "3.8", world, path, max_loss=0)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
@pytest.mark.parametrize("name", ["opensearch", "elasticsearch"])
def test_models_of_every_library_rank_there_as_here(name, library, train_model, rows, tmp_path):
    split, model = rows(1), train_model(library)
    split = from_arrays(
        split.features, split.labels, group_sizes=split.groups.sizes, feature_names=list(split.feature_names)
    )
    found = export_model(model, split, NDCG, catalog.load(name)(), tmp_path / "ranker.json").agreement
    assert found.n_same_order == 30
    assert found.largest_difference < 1e-5
    assert json.loads((tmp_path / "ranker.json").read_text())


FROZEN = Path(__file__).parents[2] / "experiments" / "runs" / "frozen" / "v1"


def test_the_command_names_the_version_and_the_rules(ltr, tmp_path):
    [run] = FROZEN.glob("lgbm--*")
    arguments = ["export", "model", run, "-o", tmp_path / "ranker.json", "--max-loss", "0.0001"]
    code, out, err = ltr(*arguments, "--to", "opensearch", "--engine-version", "2.19")
    assert code == 0, err
    assert "24 of 24" in out
    assert "opensearch: read back as versions before 3.2 do; --engine-version names another" in err
    assert "right from 3.2 to 3.7, and is 0 before" in err
    assert "*.features.json" in err
    assert (tmp_path / "ranker.features.json").is_file()
    code, _, err = ltr(*arguments, "--to", "json", "--engine-version", "8")
    assert code == 2
    assert "--engine-version: all versions read the form json alike; leave it out" in err


def test_features_that_somebody_filled_in_stay(ltr, tmp_path):
    [run] = FROZEN.glob("lgbm--*")
    features = tmp_path / "ranker.features.json"
    arguments = ["export", "model", run, "--to", "opensearch", "-o", tmp_path / "ranker.json"]
    assert "stays" not in ltr(*arguments)[2]
    written = features.read_text()
    assert "stays" not in ltr(*arguments)[2]
    features.write_text(written.replace("exists", "match"))
    code, _, err = ltr(*arguments)
    assert code == 0
    assert "ranker.features.json was there with other content and stays; remove it for a new one" in err
    assert "match" in features.read_text()
    code, out, _ = ltr(*arguments, "--json")
    assert json.loads(out)["kept"] == ["ranker.features.json"]
    features.unlink()
    assert "stays" not in ltr(*arguments)[2]
    assert features.read_text() == written
