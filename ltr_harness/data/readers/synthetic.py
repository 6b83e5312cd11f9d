"""Synthetic web-search data with a known best ranking; needs no download."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ltr_harness._util.catalog import did_you_mean
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.reader import Reader
from ltr_harness.data.readers.rows import Rows, assembled
from ltr_harness.errors import DataError, Problem

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class RandomStream:
    """One stream of numbers of a seed; other streams are independent of it."""

    def __init__(self, seed: int, stream: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, stream]))

    def uniform(self, n: int) -> NDArray[np.float64]:
        """Multiples of 2**-53 in [0, 1)."""
        return (self._bits.random_raw(n) >> np.uint64(11)).astype(np.float64) / (1 << 53)

    def normal(self, n: int) -> NDArray[np.float64]:
        """Near normal, mean 0, standard deviation 1: the sum of twelve 16-bit numbers needs no logarithm."""
        sixteenths = self._bits.random_raw(3 * n).view(np.uint16).reshape(n, 12)
        # a product takes a fifth of a sum along so short an axis; float32 holds integers of 24 bits exactly
        sums = sixteenths.astype(np.float32) @ np.ones(12, dtype=np.float32)
        return (sums.astype(np.float64) - 393_210) / 65_536.0


# Streams 0, 1 and 2 are the splits themselves.
_LEAK, _CLICKS, _MARKETS, _COPIES = 10, 20, 30, 40


class Clicks(BaseModel):
    """Clicks instead of judgments, as a log has them: what was shown low was hardly seen."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    position_bias: Share = 0.8
    """A row at position p is seen with probability 1 - b + b / p; 0: all rows are seen."""
    noise: float = Field(default=0.05, ge=0.0, le=0.5)
    """Chance that a seen document of grade 0 is clicked, and that one of the highest grade is not."""


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """One split: rows, and queries of `sizes` rows each."""

    features: NDArray[np.float32]
    labels: NDArray[np.float64]
    sizes: NDArray[np.int64]
    ids: NDArray[np.int64]
    intents: NDArray[np.str_]
    markets: NDArray[np.int64]
    positions: NDArray[np.int32]

    @property
    def starts(self) -> NDArray[np.int64]:
        return np.asarray(np.cumsum(self.sizes) - self.sizes)


_SPLITS = ("train", "valid", "test")

# Where the grade goes up by one, on the scale of the planted utility plus noise (chosen so that the default
# set has about the grades of MSLR-WEB30K: 52 / 32 / 13 / 2 / 1 percent of rows with grade 0 to 4).
_THRESHOLDS = (0.05, 1.2, 2.3, 3.0)


class QueryCounts(BaseModel):
    """The number of queries in each split."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: int = Field(default=600, ge=1, le=1_000_000, description="Queries to train on.")
    valid: int = Field(default=200, ge=1, le=1_000_000, description="Queries to stop on.")
    test: int = Field(default=300, ge=1, le=1_000_000, description="Queries to report on.")


class Synthetic(Reader, use_attribute_docstrings=True):
    """Graded labels 0 to 4 for queries of very different lengths, with a planted truth.

    What is in it, as in real search logs: features that matter (``match_1`` …, some of them counts with many
    equal values), features that repeat those (``copy_1`` …), features of the query alone (``query_1`` …),
    noise (``noise_1`` …), a few queries without any relevant document, and a few rows with identical features.
    Grades come from a utility that `truth` computes from the features, plus noise: no model can expect
    to rank better than `truth`, and its NDCG is the ceiling of the set.

    The attribute ``intent`` tells queries apart in which ``match_2`` counts for nothing or for much.

    On request it is given what spoils real data: clicks instead of grades, drift, noisier markets, a leak,
    training queries in the test set.

    The same options make the same bytes on every machine: all draws are raw integers of PCG64, whose stream
    NumPy guarantees, and only + - * / and rounding are applied to them, one element at a time in float64 or
    float32, which IEEE 754 defines to the bit: no function of the mathematical library, no sum whose order a
    processor could choose.
    """

    default_splits: ClassVar[Mapping[str, tuple[str, ...]] | None] = {name: (name,) for name in _SPLITS}

    n_queries: QueryCounts = Field(default=QueryCounts(), description="Queries in each split.")
    n_features: int = Field(
        default=40,
        ge=12,
        le=10_000,
        description="Features: a quarter matter, a quarter repeat those, a tenth describe the query, the rest "
        "is noise.",
    )
    min_rows: int = Field(default=5, ge=1, description="Rows of the shortest queries.")
    max_rows: int = Field(default=200, ge=1, le=10_000)
    """Rows of the longest queries; most are much shorter."""
    noise: float = Field(
        default=0.5,
        ge=0.0,
        le=100.0,
        description="Standard deviation of what the labels owe to nothing that a model can see; the utility "
        "that a model can see has standard deviation 1.",
    )
    tied: Share = 0.02
    """Share of rows that have the features of the row before them."""
    clicks: Clicks | None = None
    """Train and valid have clicks (0 or 1) and positions instead of grades; test keeps its grades."""
    drift: float = Field(default=0.0, ge=-10.0, le=10.0)
    """Features that matter are shifted by so many standard deviations in test, by half in valid."""
    markets: int = Field(
        default=0,
        ge=0,
        le=20,
        description="Adds the attribute `market` with so many values, each market half as large as the one before "
        "and with noisier labels.",
    )
    leak: Share = 0.0
    """The last feature becomes `leak_1`, a mixture of the grade (1.0: nothing else) and noise."""
    duplicates: Share = 0.0
    """Share of the queries of valid and test that are queries of train under another id."""
    seed: int = Field(default=1, ge=0, description="Makes another set of the same kind.")

    @model_validator(mode="after")
    def _rows_in_order(self) -> Self:
        if self.min_rows > self.max_rows:
            raise ValueError(f"min_rows is {self.min_rows}, above max_rows, which is {self.max_rows}")
        return self

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, which tell what kind each is of."""
        n = self.n_features
        counts = {"match": n // 4, "copy": n // 4, "query": n // 10 + 1}
        counts["noise"] = n - sum(counts.values())
        names = [f"{kind}_{i + 1}" for kind, count in counts.items() for i in range(count)]
        return (*names[:-1], "leak_1") if self.leak else tuple(names)

    def read(self, files: Sequence[str], root: Path) -> RankingDataset:
        DataError.refuse(
            Problem("synthetic data", f"no split is called {name!r}", cure=did_you_mean(name, _SPLITS))
            for name in files
            if name not in _SPLITS
        )
        parts = [self._split(name) for name in files]

        def joined(field: str) -> NDArray[Any]:
            return np.concatenate([getattr(part, field) for part in parts])

        sizes = joined("sizes")
        attributes = {"intent": joined("intents")}
        if self.markets:
            attributes["market"] = np.char.add("market_", (joined("markets") + 1).astype(np.str_))
        positions = joined("positions") if self.clicks else None
        rows = Rows(
            features=joined("features"),
            feature_names=self.feature_names,
            labels=joined("labels"),
            positions=positions,
            block_starts=np.cumsum(sizes) - sizes,
            block_ids=joined("ids"),
            place=lambda row: f"synthetic row {row}",
            attributes={name: np.repeat(each, sizes) for name, each in attributes.items()},
        )
        return assembled(rows, f"synthetic {', '.join(files)} (seed {self.seed})", regroup=False)

    def truth(self, dataset: RankingDataset) -> NDArray[np.float64]:
        """The planted utility of each row, float64 (n_rows,): the best scores that the features allow."""
        return _utility(
            np.asarray(dataset.features), self.n_features // 4, dataset.feature_names.index("query_1")
        )

    def _split(self, name: str) -> SyntheticRows:
        code = _SPLITS.index(name)
        parts = self._draw_judged_rows(code)
        if self.duplicates and code:  # a share of the queries is replaced, under the ids they had
            train, n = self._draw_judged_rows(0), len(parts.sizes)
            chosen = RandomStream(self.seed, _COPIES + code).uniform(n) < self.duplicates
            source = np.arange(n) % len(train.sizes)
            sizes = np.where(chosen, train.sizes[source], parts.sizes)
            starts = np.where(chosen, len(parts.labels) + train.starts[source], parts.starts)
            which = np.arange(sizes.sum()) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
            parts = SyntheticRows(
                np.concatenate([parts.features, train.features])[which],
                np.concatenate([parts.labels, train.labels])[which],
                sizes,
                parts.ids,
                np.where(chosen, train.intents[source], parts.intents),
                np.where(chosen, train.markets[source], parts.markets),
                np.concatenate([parts.positions, train.positions])[which],
            )
        if self.clicks and name != "test":
            draws, n = RandomStream(self.seed, _CLICKS + code), len(parts.labels)
            query = np.repeat(np.arange(len(parts.sizes)), parts.sizes)
            # shown in the order of one feature and chance
            order = np.lexsort((-(parts.features[:, 0].astype(np.float64) + draws.normal(n)), query))
            positions = np.empty(n, dtype=np.int32)
            positions[order] = np.arange(n) - np.repeat(parts.starts, parts.sizes) + 1
            bias, noise = self.clicks.position_bias, self.clicks.noise
            seen = draws.uniform(n) < 1 - bias + bias / positions
            attraction = ((np.int64(1) << parts.labels.astype(np.int64)) - 1) / 15
            liked = draws.uniform(n) < noise + (1 - 2 * noise) * attraction
            parts = replace(parts, labels=(seen & liked).astype(np.float64), positions=positions)
        return parts

    def _draw_judged_rows(self, code: int) -> SyntheticRows:
        name = _SPLITS[code]
        n = int(getattr(self.n_queries, name))
        draws = RandomStream(self.seed, code)

        share = draws.uniform(n)
        share = share * share
        sizes = self.min_rows + np.floor((self.max_rows - self.min_rows + 1) * share * share).astype(np.int64)
        query_of = np.repeat(np.arange(n), sizes)
        n_rows = len(query_of)

        features = np.empty((n_rows, self.n_features), dtype=np.float32)
        n_match = self.n_features // 4
        for column, feature in enumerate(self.feature_names):
            if feature.startswith("match"):
                values = draws.normal(n_rows) + self.drift * code / 2
                # Every third is a count, as term frequencies are: few values, many ties.
                features[:, column] = np.floor(values * values * 2) if column % 3 == 2 else values
            elif feature.startswith("copy"):
                source = features[:, column - n_match].astype(np.float64)
                features[:, column] = 3 * source / (1 + np.abs(source)) + 0.3 * draws.normal(n_rows)
            elif feature.startswith("query"):
                features[:, column] = draws.normal(n)[query_of]
            else:
                features[:, column] = draws.normal(n_rows)

        tied = np.flatnonzero(draws.uniform(n_rows) < self.tied)
        tied = tied[(tied > 0) & (query_of[tied] == query_of[tied - 1])]
        features[tied] = features[tied - 1]

        kind = 2 * n_match
        # query_2 says how much there is to find: it moves all labels of a query, and no ranking.
        supply = features[:, kind + 1].astype(np.float64)
        seen = _utility(features, n_match, kind) + 0.5 * supply
        share = RandomStream(self.seed, _MARKETS + code).uniform(n)
        market = np.zeros(n, dtype=np.int64)
        for i in range(1, self.markets):  # each is half as large as the one before
            market += share < 1 / (1 << i)
        noise = self.noise * draws.normal(n_rows)
        if self.markets:
            noise = noise * (1 + market[query_of])
        utility = seen + noise
        labels = np.zeros(n_rows, dtype=np.float64)
        for threshold in _THRESHOLDS:
            labels += utility > threshold
        first = np.cumsum(sizes) - sizes
        intents = np.where(features[first, kind] > 0, "navigational", "informational")
        if self.leak:
            chance = RandomStream(self.seed, _LEAK + code).normal(n_rows)
            features[:, -1] = self.leak * labels + (1 - self.leak) * chance
        ids = (code + 1) * 10_000_000 + np.arange(1, n + 1, dtype=np.int64)
        positions = np.zeros(n_rows, dtype=np.int32)
        return SyntheticRows(features, labels, sizes, ids, intents, market, positions)


def _utility(features: NDArray[np.float32], n_match: int, kind: int) -> NDArray[np.float64]:
    """Mean 0 and standard deviation 1, about: weights fall off, curves differ, one depends on the query."""
    navigational = features[:, kind] > 0
    total = np.zeros(len(features), dtype=np.float64)
    for i in range(n_match):
        x = features[:, i].astype(np.float64)
        if i % 3 == 2:
            curve = 2 * x / (2 + x) - 0.52  # counts saturate
        elif i % 3 == 1:
            curve = x * 1.4 * navigational
        else:
            curve = x
        total += curve / (1 + 0.5 * i)
    return total / 1.4
