"""Today's places of the modules of earlier versions, for pickles, which name a class by the module that defined it.

The names are found where nothing else has them. New code imports from the modules that the reference lists.
"""

import importlib
from collections.abc import Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {  # with the modules below them; the first that fits
    "ltr_harness.comparison.evaluated_runs": "ltr_harness.metrics.evaluate_runs",
    "ltr_harness.comparison.offline_online": "ltr_harness.experiments.compare.online_agreement",
    "ltr_harness.comparison.pairs": "ltr_harness.comparison.contrasts",
    "ltr_harness.dataset": "ltr_harness.data.dataset",
    "ltr_harness.evaluation": "ltr_harness.metrics.evaluation",
    # asked of a worker on a cluster, whose version is then compared
    "ltr_harness.experiment.cluster": "ltr_harness.experiments.training.dask",
    "ltr_harness.experiment": "ltr_harness.experiments.training",
    "ltr_harness.groups": "ltr_harness.data.judgments",  # of queries, too
    "ltr_harness.rankers": "ltr_harness.models",
    "ltr_harness.readers": "ltr_harness.data.readers",
    "ltr_harness.runs": "ltr_harness.experiments.runs",
    "ltr_harness.stats": "ltr_harness.comparison.stats",
}


class OldModules:
    """Finder of modules by their old names, to stand last in `sys.meta_path`."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module is loaded, if its name or that of a package around it is old."""
        for old, new in MOVED.items():
            if f"{name}.".startswith(f"{old}."):
                loader: Any = _Alias(new + name.removeprefix(old))
                return ModuleSpec(name, loader, is_package=True)
        return None


class _Alias:
    """Loader of a module that has whatever another one has."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make the module."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__getattr__"] = partial(getattr, importlib.import_module(self._name))
