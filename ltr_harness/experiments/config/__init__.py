"""From a YAML file to a typed experiment: strict, with positions, every problem at once.

The way of a file: `yaml_tree` (text to a tree that knows its lines), `expand` (``extends``, ``--set``, short forms,
sweeps), `load` with `problems` and `rules` (checked values, messages), `schema` and `tune` (what those are).
"""

from ltr_harness.experiments.config.load import as_mapping as as_mapping
from ltr_harness.experiments.config.load import data_mapping as data_mapping
from ltr_harness.experiments.config.load import load_data as load_data
from ltr_harness.experiments.config.load import load_experiment as load_experiment
from ltr_harness.experiments.config.load import read_outline as read_outline
from ltr_harness.experiments.config.load import resolved_yaml as resolved_yaml
from ltr_harness.experiments.config.load import settings as settings
from ltr_harness.experiments.config.load import stored_tree as stored_tree
from ltr_harness.experiments.config.schema import Experiment as Experiment
from ltr_harness.experiments.config.schema import Holdout as Holdout
from ltr_harness.experiments.config.schema import Outline as Outline
