"""The data of an experiment, from files or from memory: every fold's parts, read once."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltr_harness._util.catalog import did_you_mean
from ltr_harness._util.escapes import addressed, without_secrets
from ltr_harness._util.files import sources_digest
from ltr_harness._util.stored import TrainingQueries
from ltr_harness._util.text import count_of, plural
from ltr_harness.comparison.units_and_weights import unit_texts
from ltr_harness.data.arrays import Texts
from ltr_harness.data.cache import CachedSet, DataCache
from ltr_harness.data.dataset import (
    RankingDataset,
    fingerprint_arrays,
    fingerprint_dataset,
    fingerprint_truth,
    values_by_query,
)
from ltr_harness.data.readers import column_names
from ltr_harness.data.readers import truth as truths
from ltr_harness.data.readers.rows import check_alignment, occurring_categories, with_categories, with_columns
from ltr_harness.data.splits import divided, divided_by_time, folds, holdout, share_of_queries
from ltr_harness.data.time_folds import DAY, TimeFold, days_of
from ltr_harness.data.writers import write_dataset
from ltr_harness.errors import Caution, DataError, Problem, UsageError
from ltr_harness.experiments import inspection
from ltr_harness.experiments.config import data_mapping
from ltr_harness.experiments.config.schema import DataConfig, Holdout, SplitConfig, TimeFoldsConfig
from ltr_harness.experiments.inspection import LINTS, data_card, lint
from ltr_harness.experiments.inspection.agreement import agreement
from ltr_harness.experiments.inspection.candidates import candidate_recall
from ltr_harness.experiments.runs.folder import encoded
from ltr_harness.experiments.runs.record import SplitFacts


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
    """Reads folds on demand, and files once; `undivided` makes the rows that folds divide one fold without a test."""

    def __init__(self, data: DataConfig, cache: DataCache | None = None, *, undivided: bool = False) -> None:
        self._data = data
        self._undivided = undivided
        self._cache = DataCache() if cache is None else cache
        self._read: dict[tuple[str, ...], CachedSet] = {}
        self._joined: dict[tuple[tuple[str, ...], tuple[str, ...], str], CachedSet] = {}
        self._folds: dict[tuple[str, TrainingQueries | None], Fold] = {}

    def names(self) -> list[str]:
        """The folds' names, in order."""
        if self._undivided:
            return ["all"]
        if isinstance(self._data.folds, TimeFoldsConfig):
            return [fold.name for fold in self.time_folds]
        if self._data.folds is not None:
            return [f"fold{i + 1}" for i in range(self._data.folds)]
        return list(self._data.splits)

    @cached_property
    def time_folds(self) -> list[TimeFold]:
        """Folds in time with their boundaries; none where the data are divided otherwise."""
        config = self._data.folds
        if not isinstance(config, TimeFoldsConfig) or self._data.files is None:
            return []
        return config.rule.divide(self._file_set(self._data.files).dataset.groups, self._days)

    @cached_property
    def _days(self) -> NDArray[np.int64]:
        """The day of each query that folds in time divide."""
        config = self._data.folds
        assert isinstance(config, TimeFoldsConfig)
        assert self._data.files is not None
        dataset = self._file_set(self._data.files).dataset
        times = _attribute(dataset, config.by_time)
        assert times is not None
        return days_of(times, config.by_time, config.time_zone, dataset.groups, dataset.source)

    @property
    def inputs(self) -> Mapping[Path, str]:
        """The files that were read so far, and their digests from before that; empty without a cache."""
        return self._cache.inputs

    def input_files(self) -> set[Path]:
        """Return the files that are there to be read."""
        return {
            path
            for name in self.names()
            for side in self.read(name).splits
            for path in self._inputs(name, side)
        }

    def boundaries(self) -> list[str]:
        """A line for each fold in time: from when to when its parts are."""
        return [f"fold {fold.name}: {fold}" for fold in self.time_folds]

    def read(self, name: str, queries: TrainingQueries | None = None) -> Fold:
        """One fold, with all its training queries or some; the rest is as if the files had no others.

        DataError where a file or its content is wrong, a label above `max_grade`, or splits do not fit.
        """
        if (name, queries) not in self._folds:
            parts = self._split_by_fold(name) if self._data.folds is not None else self._explicit(name)
            if queries is not None:
                drawn = share_of_queries(parts["train"].dataset.groups, queries.share, queries.draw)
                parts["train"] = self._take_queries(parts["train"], drawn)
            for part in parts.values():
                self._check(part.dataset)
            learned = parts["train"]
            if learned.dataset.judgments.judged is not None or not learned.dataset.groups.has_rows.all():
                parts["train"] = self._cache.derived(learned, ["judged"], learned.dataset.training_rows)
            # all with the training part's columns and categories: a text that it never saw is missing
            check_alignment({split: part.dataset for split, part in parts.items()})
            train = parts["train"].dataset
            names, categories = train.feature_names, occurring_categories(train)
            parts = {split: self._aligned(part, names, categories) for split, part in parts.items()}
            facts = {split: self._facts(name, split, part) for split, part in parts.items()}
            splits = {split: part.dataset for split, part in parts.items()}
            self._folds[name, queries] = Fold(name, splits, facts)
        return self._folds[name, queries]

    def _aligned(
        self, part: CachedSet, names: tuple[str, ...], categories: Mapping[str, tuple[str, ...]]
    ) -> CachedSet:
        """Return a part with these columns and categories."""
        if part.dataset.feature_names != names:
            make = partial(with_columns, part.dataset, names)
            part = self._cache.derived(part, ["columns", *names], make)
        if part.dataset.categories != categories:
            make = partial(with_categories, part.dataset, categories)
            part = self._cache.derived(part, ["categories", json.dumps(categories)], make)
        return part

    def cautions(self, name: str) -> tuple[Caution, ...]:
        """Return the cautions of the data lints on a fold, the worst first; found once, and stored by its content."""
        fold = self.read(name)
        fingerprints = [(split, facts.fingerprint) for split, facts in fold.facts.items()]
        lints = sources_digest(
            *sorted(Path(inspection.__file__).parent.glob("*.py")), Path(column_names.__file__)
        )
        columns = [fold.train.features_named, *sorted(fold.train.columns.items())]
        of_reading = [
            str(lint) for part in fold.splits.values() for lint in part.cautions if lint.kind in LINTS
        ]
        stored = self._cache.cached_value(
            ["cautions", lints, columns, of_reading, *fingerprints],
            lambda: list(map(asdict, lint(data_card(fold.splits)))),
        )
        return tuple(Caution(**caution) for caution in stored)

    def _explicit(self, name: str) -> dict[str, CachedSet]:
        split: SplitConfig = self._data.splits[name]
        sides = {"valid": split.valid, "test": split.test}
        files_by_side = {"train": split.train} | {
            side: how for side, how in sides.items() if isinstance(how, tuple)
        }
        file_set = self._file_set(split.train, "train", files_by_side)
        held = {side: how for side, how in sides.items() if isinstance(how, Holdout)}
        parts, queries = {"train": file_set}, dict[str, NDArray[np.int64]]()
        if held:
            queries = _held_out(file_set.dataset, held)
            parts["train"] = self._take_queries(file_set, queries["train"])
        for side, how in sides.items():
            if isinstance(how, Holdout):
                parts[side] = self._take_queries(
                    file_set, queries[side], f"{file_set.dataset.source} (held out)"
                )
            elif how is not None:
                parts[side] = self._file_set(how, side, files_by_side)
        return parts

    def _split_by_fold(self, name: str) -> dict[str, CachedSet]:
        assert self._data.folds is not None
        assert self._data.files is not None
        file_set = self._file_set(self._data.files)
        if isinstance(self._data.folds, TimeFoldsConfig):
            return self._in_time(name, file_set, self._data.folds)
        if self._undivided:
            return {"train": file_set}
        number = self.names().index(name)
        queries = folds(
            file_set.dataset.groups,
            self._data.folds,
            self._data.fold_seed,
            unit_values=_attribute(file_set.dataset, self._data.fold_together),
            strata=_attribute(file_set.dataset, self._data.fold_stratify, missing=True),
        )[number]
        splits = ("train", "valid", "test")
        return {
            split: self._take_queries(file_set, chosen) for split, chosen in zip(splits, queries, strict=True)
        }

    def _in_time(self, name: str, file_set: CachedSet, config: TimeFoldsConfig) -> dict[str, CachedSet]:
        """The parts of a fold in time, whose queries know their day; of all rows, those of the newest window."""
        if self._undivided:
            newest = config.rule.newest(self._days)
            if newest.size == self._days.size:
                return {"train": file_set}
            return {"train": self._take_queries(file_set, newest)}
        if DAY in file_set.dataset.query_attributes and config.by_time != DAY:
            found = f"an attribute is called {DAY!r}, as the one that folds in time make of {config.by_time}"
            raise DataError.at("data.attributes", found, cure="rename the column")

        def load_dated(queries: NDArray[np.int64], source: str) -> RankingDataset:
            part = file_set.dataset.take(queries, source)
            dates = self._days[queries].astype("datetime64[D]").astype(np.str_)
            return replace(part, query_attributes={**part.query_attributes, DAY: dates})

        fold = next(fold for fold in self.time_folds if fold.name == name)
        parts = {}
        for side, part in fold.parts.items():
            assert part.queries is not None
            source = f"{file_set.dataset.source}, {part}"
            recipe = ["take", fingerprint_arrays(part.queries), source, DAY, config.time_zone, config.by_time]
            parts[side] = self._cache.derived(file_set, recipe, partial(load_dated, part.queries, source))
        return parts

    def _judgment_files(self, side: str) -> tuple[str, ...]:
        """The files of judgments beside a split's rows; often none."""
        judgments = self._data.judgments
        return () if judgments is None else judgments.files or judgments.by_split.get(side, ())

    def _file_set(
        self, files: tuple[str, ...], side: str = "train", sides: Mapping[str, tuple[str, ...]] | None = None
    ) -> CachedSet:
        """The rows of files beside their judgments; of `sides` with one truth, each has its own queries."""
        data, rows, truth_files = self._data, self._rows(files), self._judgment_files(side)
        if data.judgments is not None and truth_files:
            other_files = [side_files for name, side_files in (sides or {}).items() if name != side]
            other_ids = self._query_ids(other_files) if data.judgments.files is not None else None
            columns, one_label = data.judgments.columns, data.judgments.several
            key = (files, truth_files, fingerprint_arrays(other_ids))

            def joined() -> RankingDataset:
                truth = truths.read_judgments(truth_files, data.root, data.reader, columns, one_label)
                _, labelled = truths.reader_of_rows(data.reader, files, data.root)
                candidates, missing = self._rows(files).dataset, data.no_candidates
                return truths.with_judgments(
                    candidates,
                    truth,
                    labelled=labelled,
                    no_candidates=missing,
                    queries_of_other_splits=other_ids,
                )

            if key not in self._joined:
                digests = [self._cache.digest(path) for path in truths.judgment_files(truth_files, data.root)]
                options = [
                    json.dumps([columns, one_label]),
                    data.reader.model_dump_json(),
                    data.no_candidates,
                ]
                recipe = ["judgments", *truth_files, *digests, *options, key[-1]]
                self._joined[key] = self._cache.derived(rows, recipe, joined)
            rows = self._joined[key]
        if data.no_candidates == "skip" and not rows.dataset.groups.has_rows.all():
            make = partial(truths.with_candidates, rows.dataset)
            rows = self._cache.derived(rows, ["with candidates"], make)
        return rows

    def _rows(self, files: tuple[str, ...]) -> CachedSet:
        if files not in self._read:
            reader = self._data.reader
            if self._data.judgments is not None:
                reader, _ = truths.reader_of_rows(reader, files, self._data.root)
            self._read[files] = self._cache.read(reader, files, self._data.root)
        return self._read[files]

    def _query_ids(self, file_sets: Sequence[tuple[str, ...]]) -> Texts | None:
        """Return the ids of all queries of some sets of files, each once; None without files."""
        if not file_sets:
            return None
        ids = [truths.as_text(self._rows(files).dataset.groups.ids) for files in file_sets]
        return np.unique(np.concatenate(ids))

    def _take_queries(
        self, file_set: CachedSet, queries: NDArray[np.int64], source: str | None = None
    ) -> CachedSet:
        recipe = ["take", fingerprint_arrays(queries), source or ""]
        return self._cache.derived(file_set, recipe, lambda: file_set.dataset.take(queries, source))

    def _check(self, part: RankingDataset) -> None:
        weights = part.judgments.query_weights
        if weights is not None and not weights.any():
            raise DataError.at(part.source, "all weights are 0", "at least one above 0 in each part")
        highest = self._data.max_grade
        pool = part.judgments.pool
        if highest is not None and pool.labels.max() > highest:
            row = int(np.argmax(pool.labels))
            query = pool.groups.name(pool.groups.query_of(row))
            found = f"label {pool.labels[row]:g} in query {query!r} is above data.max_grade"
            cure = "set data.max_grade to the scale's highest grade"
            raise DataError(Problem(part.source, found, f"labels up to {highest:g}", cure))

    def _source_files(self, name: str, side: str) -> tuple[Sequence[str], str]:
        """Return the files with a part of a fold, and whose they are: of a hold-out those that it is held out from."""
        if self._data.files:
            return self._data.files, "train"
        split = self._data.splits[name]
        side_files = getattr(split, side)
        if isinstance(side_files, tuple):
            return side_files, side
        return split.train, "train"

    def _inputs(self, name: str, side: str) -> list[Path]:
        """Return the files with a part of a fold, and with its judgments."""
        files, side = self._source_files(name, side)
        inputs = [*self._data.reader.inputs(files, self._data.root)]
        if truth_files := self._judgment_files(side):
            inputs += truths.judgment_files(truth_files, self._data.root)
        return inputs

    def _facts(self, name: str, side: str, cached: CachedSet) -> SplitFacts:
        part, root = cached.dataset, self._data.root
        digests = {}
        for path in self._inputs(name, side):
            shown_path = path.relative_to(root) if path.is_relative_to(root) else path
            digests[addressed(shown_path.as_posix())] = self._cache.digest(path)
        return SplitFacts(
            source=without_secrets(part.source),
            fingerprint=cached.fingerprints.dataset,
            judgments_fingerprint=cached.fingerprints.judgments,
            truth_fingerprint=fingerprint_truth(part.judgments),
            n_queries=part.n_queries,
            n_rows=part.n_rows,
            n_without_relevant=int(np.count_nonzero(part.judgments.without_relevant)),
            n_features=part.n_features,
            candidates=candidate_recall(part),
            agreement=agreement(part),
            files=digests,
        )


def _held_out(dataset: RankingDataset, held: Mapping[str, Holdout]) -> dict[str, NDArray[np.int64]]:
    """Queries to train on, to stop on and to judge by, as `ltr-harness data split` divides them."""
    shares = {side: how.holdout for side, how in held.items()}
    how = next(iter(held.values()))  # they differ in their shares alone
    times = _attribute(dataset, how.by_time)
    if times is not None:
        return divided_by_time(dataset.groups, shares, times, str(how.by_time), dataset.source)
    if how.together is None and how.stratify is None and set(held) == {"valid"}:
        training, valid = holdout(dataset.groups, how.holdout, how.seed)
        return {"train": training, "valid": valid}
    units, strata = _attribute(dataset, how.together), _attribute(dataset, how.stratify, missing=True)
    return divided(dataset.groups, shares, how.seed, unit_values=units, strata=strata)


def _attribute(dataset: RankingDataset, name: str | None, *, missing: bool = False) -> NDArray[Any] | None:
    """The attribute of every query; of queries without candidates it may be `missing`, or is refused."""
    if name is None:
        return None
    values = values_by_query(dataset, name)
    if values is None:
        attributes = dataset.query_attributes
        named = "name it under `attributes:` if the files have the column"
        cure = did_you_mean(name, attributes) if attributes else named
        raise DataError(Problem(dataset.source, f"has no query attribute {name!r}", cure=cure))
    absent = (unit_texts(values) == "") & ~dataset.groups.has_rows
    if absent.any() and not missing:
        n = int(absent.sum())
        found = f"{count_of(n, 'query')} without candidates {plural('has', n)} no {name}"
        cure = "or `no_candidates: skip`, which leaves them out"
        raise DataError.at(dataset.source, found, f"the column {name!r} in the judgments", cure)
    return values


def largest_label(folds: Iterable[Fold]) -> float:
    """The highest grade of all splits: the scale where the configuration names none."""
    return max(float(part.judgments.pool.labels.max()) for fold in folds for part in fold.splits.values())


def reading_of(data: DataConfig, fold: str) -> dict[str, Any]:
    """The data section of a configuration without its root, which is a place on one machine, and other folds."""
    section = data_mapping(data)
    del section["root"]
    if "splits" in section:
        section["splits"] = {fold: section["splits"][fold]}
    return section


def with_files(config: Any, runs: str | Path) -> Any:
    """The configuration with its data sets written as files, once, for whatever reads the experiment again."""
    data = config.get("data") if isinstance(config, Mapping) else None
    if isinstance(data, RankingDataset):
        cure = '`data={"files": dataset, "folds": 5}` divides one data set by query'
        raise UsageError.at("data", "is a RankingDataset", '{"train": dataset, "test": dataset}', cure)
    if not isinstance(data, Mapping):
        return config
    sets = {key: value for key, value in data.items() if isinstance(value, RankingDataset)}
    if not sets:
        return config
    for key in sets:
        if key not in ("train", "valid", "test", "files"):
            cure = '`data={"files": dataset, "folds": 5}` divides one data set by query'
            raise UsageError.at(f"data.{key}", "is not a split", "train, valid and test", cure)
    _refuse_unlike(sets)
    folder = Path(runs).expanduser().resolve() / encoded(str(config.get("name"))) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    names = {key: _written(dataset, folder) for key, dataset in sets.items()}
    section = {"reader": "parquet", "root": str(folder), **_columns_of(next(iter(sets.values())))}
    rest = {key: value for key, value in data.items() if key not in sets}
    if "files" in names:
        section["files"] = [names.pop("files")]
    splits = {key: rest.pop(key) for key in ("train", "valid", "test") if key in rest} | names
    if splits:
        section["splits"] = splits
    return {**config, "data": {**section, **rest}}


def _columns_of(dataset: RankingDataset) -> dict[str, Any]:
    """Return the options that name the columns of a data set's file."""
    roles = {
        "weight": dataset.judgments.query_weights is not None,
        "position": dataset.positions is not None,
        "document_id": dataset.judgments.document_ids is not None,
        "retrieved": dataset.judgments.missed is not None,
    }
    columns: dict[str, Any] = {"features": list(dataset.feature_names)}
    columns |= {role: role for role, is_known in roles.items() if is_known}
    if dataset.query_attributes:
        columns["attributes"] = list(dataset.query_attributes)
    return columns


def _refuse_unlike(sets: Mapping[str, RankingDataset]) -> None:
    """Raise a DataError for sets of one experiment with other features, or of which some know their candidates."""
    (key, first), *other_sets = sets.items()
    for other, dataset in other_sets:
        if dataset.feature_names != first.feature_names:
            found = f"its features are other ones than those of data.{key}"
            raise DataError(Problem(f"data.{other}", found, "the same names in the same order"))
        if (dataset.judgments.missed is None) != (first.judgments.missed is None):
            with_candidates, without_candidates = (
                (key, other) if dataset.judgments.missed is None else (other, key)
            )
            found = f"does not say which documents were candidates, and data.{with_candidates} does"
            cure = "`retrieved` with 1 in each row where nothing was missed"
            raise DataError(
                Problem(f"data.{without_candidates}", found, "`retrieved` for all sets or for none", cure)
            )


def _written(dataset: RankingDataset, folder: Path) -> str:
    """The file's name, which is its content's: what is there already is not written again."""
    content = fingerprint_dataset(dataset) + fingerprint_arrays(
        *(np.array([name, *map(str, values)]) for name, values in dataset.query_attributes.items())
    )
    name = f"{fingerprint_arrays(np.array([content]))[:16]}.parquet"
    if not (folder / name).is_file():
        write_dataset(dataset, folder / name)
    return name
