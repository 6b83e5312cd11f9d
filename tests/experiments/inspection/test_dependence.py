"""Notes about queries with times and users: what they propose is YAML, whatever columns are called."""

import re

import numpy as np
import pytest
import yaml

from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.memory import from_arrays
from ltr_harness.experiments.inspection.dependence import dependence, folds_in_time

DAYS = np.array(["2024-01-01", "2024-01-13"])


def queries(time: str, user: str) -> RankingDataset:
    data = from_arrays(np.ones((2, 1)), [1, 0], group_sizes=[1, 1], attributes={time: DAYS})
    return RankingDataset(
        data.features,
        data.judgments,
        data.feature_names,
        query_attributes=data.query_attributes,
        columns={"time": time, "user": user},
    )


@pytest.mark.parametrize("name", ["day", "day, utc", "yes", "a: b", "it's", "{x}", "12"])
def test_options_quote_the_names_of_columns(name: str) -> None:
    data = queries(name, name)
    assert yaml.safe_load(folds_in_time(data, name)) == {
        "folds": {"by_time": name, "test": "2 days", "valid": "2 days"}
    }
    _, note = dependence(queries(name, f"{name}+"), by_time=False, unit=None)
    unit, attributes, _ = re.findall("`(.+?)`", note.cure)
    assert yaml.safe_load(unit) == {"compare": {"unit": f"{name}+"}}
    assert yaml.safe_load(attributes) == {"attributes": [f"{name}+"]}
