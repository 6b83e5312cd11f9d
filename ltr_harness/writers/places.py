"""Files that appear when they are complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Temporary = Callable[[Path], Path]


@contextmanager
def whole_files(main: Path) -> Iterator[Temporary]:
    """Gives a function from a final path to the one to write to; at the end all are put in place.

    Raises:
        OSError: the folder cannot be written.
    """
    main.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=main.parent, prefix=".writing-") as folder:
        final: dict[Path, Path] = {}

        def temporary(path: Path) -> Path:
            final[path] = Path(folder) / path.name
            return final[path]

        yield temporary
        for path, written in reversed(final.items()):  # companions first: the main file announces them
            os.replace(written, path)
