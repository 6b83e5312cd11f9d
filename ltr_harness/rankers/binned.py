"""Cache of binned data, for the models and seeds that can share it.

Binning costs as much as tens of boosting rounds. One entry is kept for each library, that of the last training,
because an experiment trains all models and seeds of a fold one after the other; it goes when its data goes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeVar

from ltr_harness.rankers.training import Training

Made = TypeVar("Made")


class _Entry(NamedTuple):
    train: weakref.ReferenceType[object]
    valid: weakref.ReferenceType[object] | None
    key: Hashable
    made: object


_last: dict[str, _Entry] = {}


def shared(library: str, training: Training, key: Hashable, make: Callable[[], Made]) -> Made:
    """The library's binned data from the cache, or from `make` where other splits or another key were last.

    Splits are compared by identity: datasets do not change. The key is whatever else the result depends on.
    """
    entry = _last.get(library)
    if (
        entry is not None
        and entry.train() is training.train
        and (None if entry.valid is None else entry.valid()) is training.valid
        and entry.key == key
    ):
        return entry.made  # type: ignore[return-value]  # the key says who made it
    _last.pop(library, None)  # before the new one is built: both at once would be twice the memory
    made = make()

    def forget(_: object) -> None:
        _last.pop(library, None)

    _last[library] = _Entry(
        weakref.ref(training.train, forget),
        None if training.valid is None else weakref.ref(training.valid, forget),
        key,
        made,
    )
    return made
