from ltr_harness.comparison.comparison import Comparison as Comparison
from ltr_harness.comparison.contrasts import Paired as Paired
from ltr_harness.comparison.contrasts import Summary as Summary
from ltr_harness.data.dataset import RankingDataset as RankingDataset
from ltr_harness.data.judgments import Judgments as Judgments
from ltr_harness.data.queries import QueryGroups as QueryGroups
from ltr_harness.data.readers.memory import from_arrays as from_arrays
from ltr_harness.data.readers.memory import from_frame as from_frame
from ltr_harness.experiments.compare.compare import compare as compare
from ltr_harness.experiments.compare.online_agreement import agreement as agreement
from ltr_harness.experiments.runs.run import Run as Run
from ltr_harness.experiments.runs.run import load_run as load_run
from ltr_harness.metrics.core.binding import bind as bind
from ltr_harness.metrics.core.grammar import parse_metric as parse_metric
from ltr_harness.metrics.core.metric import Metric as Metric
from ltr_harness.metrics.evaluate_runs import evaluate_runs as evaluate_runs
from ltr_harness.metrics.evaluation import Evaluation as Evaluation
from ltr_harness.metrics.evaluation import evaluate as evaluate
from ltr_harness.workflow import ExperimentResult as ExperimentResult
from ltr_harness.workflow import run_experiment as run_experiment

__version__: str
