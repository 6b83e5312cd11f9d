"""The data of an experiment: every fold's train, valid and test part, read once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness import inspection
from ltr_harness.cache import CachedSet, DataCache
from ltr_harness.catalog import did_you_mean
from ltr_harness.config.experiment import DataConfig, Holdout, SplitConfig
from ltr_harness.dataset import RankingDataset
from ltr_harness.errors import DataError, Problem
from ltr_harness.fingerprint import fingerprint_arrays, sources_digest
from ltr_harness.inspection import Finding, data_card, lint
from ltr_harness.readers.align import check_alignment, occurring, with_categories, with_columns
from ltr_harness.runs.record import SplitFacts
from ltr_harness.splits import divided, divided_by_time, folds, holdout


@dataclass(frozen=True, eq=False)
class Fold:
    """One way of dividing the queries."""

    name: str  # as in the configuration; ``all`` without folds
    splits: Mapping[str, RankingDataset]  # ``train``, ``test`` and, if there is one, ``valid``
    facts: Mapping[str, SplitFacts]  # what a record keeps about each of them

    @property
    def train(self) -> RankingDataset:
        return self.splits["train"]

    @property
    def valid(self) -> RankingDataset | None:
        return self.splits.get("valid")

    @property
    def test(self) -> RankingDataset:
        return self.splits["test"]


class FoldReader:
    """Reads folds on demand; files that several folds share, or that are asked for again, are read once."""

    def __init__(self, data: DataConfig, cache: DataCache | None = None) -> None:
        self._data = data
        self._cache = DataCache() if cache is None else cache
        self._read: dict[tuple[str, ...], CachedSet] = {}
        self._folds: dict[str, Fold] = {}

    def names(self) -> list[str]:
        """The folds' names, in order."""
        if self._data.folds is not None:
            return [f"fold{i + 1}" for i in range(self._data.folds)]
        return list(self._data.splits)

    def read(self, name: str) -> Fold:
        """One fold.

        Raises:
            DataError: a file or its content is wrong, a label is above `max_grade`, or splits do not fit.
        """
        if name not in self._folds:
            parts, files = self._made(name) if self._data.folds is not None else self._explicit(name)
            for part in parts.values():
                self._check(part.dataset)
            learned = parts["train"]
            if learned.dataset.judgments.judged is not None:
                parts["train"] = self._cache.derived(learned, ["judged"], learned.dataset.judged_only)
            aligned = self._coded(self._aligned(parts))
            facts = {split: self._facts(part, files[split]) for split, part in aligned.items()}
            self._folds[name] = Fold(name, {split: part.dataset for split, part in aligned.items()}, facts)
        return self._folds[name]

    def findings(self, name: str) -> tuple[Finding, ...]:
        """What the data lints say of a fold, the worst first; found once, and kept by its content."""
        fold = self.read(name)
        made_of = [
            "findings",
            _lints_digest(),
            *((split, facts.fingerprint) for split, facts in fold.facts.items()),
        ]
        kept = self._cache.remembered(
            made_of, lambda: [asdict(finding) for finding in lint(data_card(fold.splits))]
        )
        return tuple(Finding(**finding) for finding in kept)

    def _explicit(self, name: str) -> tuple[dict[str, CachedSet], dict[str, tuple[str, ...]]]:
        split: SplitConfig = self._data.splits[name]
        whole = self._file_set(split.train)
        sides = {"valid": split.valid, "test": split.test}
        held = {side: how for side, how in sides.items() if isinstance(how, Holdout)}
        queries = _held_out(whole.dataset, held) if held else {}
        parts = {"train": self._taken(whole, queries["train"]) if held else whole}
        files = {"train": split.train}
        for side, how in sides.items():
            if isinstance(how, Holdout):
                parts[side] = self._taken(whole, queries[side], f"{whole.dataset.source} (held out)")
                files[side] = split.train
            elif how is not None:
                parts[side] = self._file_set(how)
                files[side] = how
        return parts, files

    def _made(self, name: str) -> tuple[dict[str, CachedSet], dict[str, tuple[str, ...]]]:
        assert self._data.folds is not None
        assert self._data.files is not None
        whole = self._file_set(self._data.files)
        at = self.names().index(name)
        queries = folds(
            whole.dataset.groups,
            self._data.folds,
            self._data.fold_seed,
            together=_attribute(whole.dataset, self._data.fold_together),
            strata=_attribute(whole.dataset, self._data.fold_stratify),
        )[at]
        splits = ("train", "valid", "test")
        parts = {split: self._taken(whole, chosen) for split, chosen in zip(splits, queries, strict=True)}
        return parts, dict.fromkeys(splits, self._data.files)

    def _file_set(self, files: tuple[str, ...]) -> CachedSet:
        if files not in self._read:
            self._read[files] = self._cache.read(self._data.reader, files, self._data.root)
        return self._read[files]

    def _taken(self, whole: CachedSet, queries: NDArray[np.int64], source: str | None = None) -> CachedSet:
        recipe = ["take", fingerprint_arrays(queries), source or ""]
        return self._cache.derived(whole, recipe, lambda: whole.dataset.take(queries, source))

    def _aligned(self, parts: Mapping[str, CachedSet]) -> dict[str, CachedSet]:
        """All with the columns of the training part."""
        check_alignment({split: part.dataset for split, part in parts.items()})
        names = parts["train"].dataset.feature_names
        return {
            split: part
            if part.dataset.feature_names == names
            else self._cache.derived(
                part,
                ["columns", *names],
                lambda dataset=part.dataset: with_columns(dataset, names),  # type: ignore[misc]
            )
            for split, part in parts.items()
        }

    def _coded(self, parts: dict[str, CachedSet]) -> dict[str, CachedSet]:
        """All with the training part's categories: a text that it never saw is missing, in whatever split."""
        categories = occurring(parts["train"].dataset)
        recipe = ["categories", json.dumps(categories)]
        return {
            split: part
            if part.dataset.categories == categories
            else self._cache.derived(
                part,
                recipe,
                lambda dataset=part.dataset: with_categories(dataset, categories),  # type: ignore[misc]
            )
            for split, part in parts.items()
        }

    def _check(self, part: RankingDataset) -> None:
        highest = self._data.max_grade
        if highest is not None and part.labels.max() > highest:
            row = int(np.argmax(part.labels))
            query = part.groups.name(part.groups.query_of(row))
            raise DataError(
                Problem(
                    part.source,
                    f"label {part.labels[row]:g} in query {query!r} is above data.max_grade",
                    f"labels up to {highest:g}",
                    "set data.max_grade to the scale's highest grade",
                )
            )

    def _facts(self, cached: CachedSet, files: tuple[str, ...]) -> SplitFacts:
        part = cached.dataset
        inputs = self._data.reader.inputs(files, self._data.root)
        digests = {_relative(path, self._data.root): self._cache.digest(path) for path in inputs}
        best_label = np.maximum.reduceat(part.labels, part.groups.boundaries[:-1])
        return SplitFacts(
            source=part.source,
            fingerprint=cached.fingerprints.dataset,
            judgments_fingerprint=cached.fingerprints.judgments,
            n_queries=part.n_queries,
            n_rows=part.n_rows,
            n_without_relevant=int(np.count_nonzero(best_label <= 0)),
            n_features=part.n_features,
            files=digests,
        )


@cache
def _lints_digest() -> str:
    return sources_digest(*sorted(Path(inspection.__file__).parent.glob("*.py")))


def _held_out(dataset: RankingDataset, held: Mapping[str, Holdout]) -> dict[str, NDArray[np.int64]]:
    """Queries to train on, to stop on and to judge by, as `ltr-harness data split` divides them."""
    shares = {side: how.holdout for side, how in held.items()}
    how = next(iter(held.values()))  # they differ in their shares alone
    times = _attribute(dataset, how.by_time)
    if times is not None:
        return divided_by_time(dataset.groups, shares, times)
    if how.together is None and how.stratify is None and set(held) == {"valid"}:
        kept, valid = holdout(dataset.groups, how.holdout, how.seed)
        return {"train": kept, "valid": valid}
    together, strata = _attribute(dataset, how.together), _attribute(dataset, how.stratify)
    return divided(dataset.groups, shares, how.seed, together=together, strata=strata)


def _attribute(dataset: RankingDataset, name: str | None) -> NDArray[Any] | None:
    if name is None:
        return None
    if name not in dataset.query_attributes:
        known = dataset.query_attributes
        cure = (
            did_you_mean(name, known) if known else "name it under `attributes:` if the files have the column"
        )
        raise DataError(Problem(dataset.source, f"has no query attribute {name!r}", cure=cure))
    return dataset.query_attributes[name]


def largest_label(folds: Iterable[Fold]) -> float:
    """The highest grade of all splits: the scale where the configuration names none."""
    return max(float(part.labels.max()) for fold in folds for part in fold.splits.values())


def _relative(path: Path, root: Path) -> str:
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        return path.as_posix()
