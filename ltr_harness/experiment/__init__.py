"""Make it happen: plan, train what is missing, compare, report."""

from ltr_harness.experiment.experiment import ExperimentResult as ExperimentResult
from ltr_harness.experiment.experiment import run_experiment as run_experiment
