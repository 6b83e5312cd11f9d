"""Runs: folders, records and identities."""

from ltr_harness.experiments.runs.record import Record as Record
from ltr_harness.experiments.runs.run import Run as Run
from ltr_harness.experiments.runs.run import find_runs as find_runs
from ltr_harness.experiments.runs.run import load_run as load_run
