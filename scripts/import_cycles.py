"""No file of the package may import itself through others, not even within a function or for types alone."""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter

import grimp

PACKAGE = "ltr_harness"


def main() -> int:
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in sorted(graph.modules)}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        print("a circle of imports: " + " <- ".join(error.args[1]), file=sys.stderr)
        return 1
    print(f"{len(imports)} files, no circle of imports")
    return 0


if __name__ == "__main__":
    sys.exit(main())
