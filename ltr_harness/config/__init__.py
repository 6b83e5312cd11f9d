"""From a YAML file to a typed experiment: strict, with positions, every problem at once.

The way of a file: `yaml_text` (text to a tree that knows its lines), `merge` (``extends``, ``--set``),
`normal` (short forms spelt out), `build` with `explain` and `rules` (checked values, messages), `experiment`
(what those values are), `outline` (what a comparison needs of them).
"""

from ltr_harness.config.experiment import CompareConfig as CompareConfig
from ltr_harness.config.experiment import DataConfig as DataConfig
from ltr_harness.config.experiment import Experiment as Experiment
from ltr_harness.config.experiment import Holdout as Holdout
from ltr_harness.config.experiment import MetricsConfig as MetricsConfig
from ltr_harness.config.experiment import ModelConfig as ModelConfig
from ltr_harness.config.experiment import SplitConfig as SplitConfig
from ltr_harness.config.experiment import StoppingConfig as StoppingConfig
from ltr_harness.config.load import Setting as Setting
from ltr_harness.config.load import as_mapping as as_mapping
from ltr_harness.config.load import data_mapping as data_mapping
from ltr_harness.config.load import load_data as load_data
from ltr_harness.config.load import load_experiment as load_experiment
from ltr_harness.config.load import resolved_yaml as resolved_yaml
from ltr_harness.config.load import settings as settings
from ltr_harness.config.outline import Outline as Outline
from ltr_harness.config.outline import outline_of as outline_of
from ltr_harness.config.outline import read_outline as read_outline
from ltr_harness.config.outline import stored_tree as stored_tree
