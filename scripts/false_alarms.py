"""False alarms of the lints of data, and the planted traps that they find: two tables.

python scripts/false_alarms.py                     the real sets of $LTR_HARNESS_DATA, twenty generated of each kind
python scripts/false_alarms.py --sets 3 --only shop,rank    fewer sets, and kinds and traps with these words alone

Sound sets must have no error and at most one warning, each trap must be found; else the exit code is 1.
"""

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ltr_harness._util.tables import text_table
from ltr_harness.data.dataset import RankingDataset
from ltr_harness.data.readers.letor import Letor
from ltr_harness.data.readers.lightgbm import LightGbm
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.data.readers.synthetic import Synthetic
from ltr_harness.errors import Caution, DataError, merge_by_cause
from ltr_harness.experiments.inspection import data_card, lint

SMALLEST = (50, 5)  # queries, rows of each: from this size on, traps are found
SIZES = (SMALLEST, (60, 10), (100, 20), (300, 8), (150, 40))

Draws = np.random.Generator


@dataclass(frozen=True)
class Table:
    """A generated table, and how it is read."""

    frame: pd.DataFrame
    options: Mapping[str, Any] = field(default_factory=dict)

    def read(self) -> RankingDataset:
        return from_frame(self.frame, **self.options)


# --- sound sets -----------------------------------------------------------------------------------------------


def base(draws: Draws, size: tuple[int, int], grades: int = 3) -> tuple[pd.DataFrame, np.ndarray]:
    """Queries, labels and a matching score; and how relevant each row is, which labels show with noise."""
    n_queries, n_rows = size
    n = n_queries * n_rows
    relevance = draws.normal(size=n)
    noisy = relevance + draws.normal(0, 0.8, n)
    labels = np.clip(np.floor(noisy + 0.4), 0, grades - 1)
    query = np.repeat([f"q{number}" for number in range(n_queries)], n_rows)
    bm25 = np.exp(1.5 + 0.5 * relevance + draws.normal(0, 0.4, n))
    return pd.DataFrame({"query_id": query, "label": labels, "bm25": bm25.round(4)}), relevance


def letor(draws: Draws, size: tuple[int, int]) -> Table:
    """Floats between 0 and 1 in each query, as LETOR has them."""
    frame, relevance = base(draws, size)
    for number in range(20):
        values = number / 20 * relevance + draws.normal(size=relevance.size)
        values = values.reshape(size)
        low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
        frame[f"f{number}"] = ((values - low) / (high - low)).ravel().round(6)
    return Table(frame.drop(columns="bm25"))


def counts_of_terms(draws: Draws, size: tuple[int, int]) -> Table:
    """Counts, lengths and scores of terms, as MSLR has them."""
    frame, relevance = base(draws, size, grades=5)
    n = relevance.size
    for part, length in (("title", 8), ("anchor", 20), ("body", 900)):
        terms = draws.lognormal(np.log(length), 0.8, n).astype(int)
        frame[f"{part}_length"] = terms
        frame[f"{part}_matches"] = draws.poisson(np.exp(relevance / 2))
        frame[f"{part}_tf"] = (frame[f"{part}_matches"] / (terms + 1)).round(5)
    frame["n_slashes"] = draws.integers(1, 8, n)
    frame["inlinks"] = draws.lognormal(3, 2, n).astype(int)
    frame["page_rank"] = draws.integers(0, 11, n)
    return Table(frame)


def shop(draws: Draws, size: tuple[int, int]) -> Table:
    """A shop's table, with counts and rates of the past."""
    frame, relevance = base(draws, size)
    n = relevance.size
    frame["price"] = draws.lognormal(3, 1, n).round(2)
    frame["rating"] = np.clip(draws.normal(4, 0.7, n), 1, 5).round(1)
    frame["n_reviews"] = draws.lognormal(4, 1.5, n).astype(int)
    frame["n_orders_30d"] = draws.poisson(np.exp(1 + relevance))
    frame["ctr_30d"] = draws.beta(2, 30, n).round(4)
    frame["discount_percent"] = 5 * draws.integers(0, 10, n)
    frame["in_stock"] = draws.random(n) < 0.9
    return Table(frame)


def catalogue(draws: Draws, size: tuple[int, int]) -> Table:
    """Products that are in several queries, with their ids and what is the same of them everywhere."""
    frame, _ = base(draws, size)
    n_queries, n_rows = size
    n_products = 40 * n_rows
    matching_names = np.concatenate(
        [draws.choice(n_products, n_rows, replace=False) for _ in range(n_queries)]
    )
    products = pd.DataFrame(
        {
            "document_id": [f"p{number}" for number in range(n_products)],
            "price": draws.lognormal(3, 1, n_products).round(2),
            "sales": draws.lognormal(2, 1, n_products).astype(int),
            "age_days": draws.integers(1, 2_000, n_products),
        }
    )
    return Table(pd.concat([frame, products.iloc[matching_names].reset_index(drop=True)], axis=1))


def query_features(draws: Draws, size: tuple[int, int]) -> Table:
    """Features that are constant within queries."""
    table = shop(draws, size)
    n_queries, n_rows = size
    of_query = {
        "query_words": draws.integers(1, 7, n_queries),
        "n_results": draws.lognormal(6, 2, n_queries).astype(int),
        "hour": draws.integers(0, 24, n_queries),
        "is_mobile": draws.integers(0, 2, n_queries),
        "query_frequency": draws.lognormal(8, 2, n_queries).astype(int),
    }
    more = {name: np.repeat(values, n_rows) for name, values in of_query.items()}
    return Table(table.frame.assign(**more))


def clicks(draws: Draws, size: tuple[int, int]) -> Table:
    """Binary clicks as labels, with the shown position in its role."""
    table = shop(draws, size)
    n_queries, n_rows = size
    positions = np.tile(np.arange(1, n_rows + 1), n_queries)
    clicked = (table.frame.label > 0) & (draws.random(positions.size) < 1.4 / np.sqrt(positions))
    frame = table.frame.assign(label=clicked.astype(int), shown=positions).rename(
        columns={"label": "clicked"}
    )
    return Table(frame, {"label": "clicked", "position": "shown"})


def embeddings(draws: Draws, size: tuple[int, int]) -> Table:
    """Sixty-four dense dimensions."""
    frame, relevance = base(draws, size)
    dense = draws.normal(size=(relevance.size, 64)) + relevance[:, None] * draws.normal(0, 0.3, 64)
    return Table(pd.concat([frame, pd.DataFrame(dense).add_prefix("e")], axis=1))


def bag_of_words(draws: Draws, size: tuple[int, int]) -> Table:
    """Eighty counts of words, nearly all 0."""
    frame, relevance = base(draws, size)
    words = draws.poisson(0.08, size=(relevance.size, 80))
    return Table(pd.concat([frame.drop(columns="bm25"), pd.DataFrame(words).add_prefix("w")], axis=1))


def first_stage(draws: Draws, size: tuple[int, int]) -> Table:
    """Scores of several first stages, each with rows that it did not return."""
    frame, relevance = base(draws, size)
    for name in ("dense_score", "sparse_score", "cross_encoder_score"):
        frame[name] = np.where(
            draws.random(relevance.size) < 0.1, np.nan, relevance + draws.normal(size=relevance.size)
        )
    return Table(frame)


def first_stage_rank(draws: Draws, size: tuple[int, int]) -> Table:
    """A first stage's rank, which `features:` names."""
    frame, _ = base(draws, size)
    frame["rank"] = frame.groupby("query_id").bm25.rank(ascending=False, method="first")
    return Table(frame, {"features": ["bm25", "rank"]})


def prices(draws: Draws, size: tuple[int, int]) -> Table:
    """Whole amounts of several units."""
    frame, relevance = base(draws, size)
    n = relevance.size
    frame["price_cents"] = draws.lognormal(8, 1, n).astype(int)
    frame["price"] = draws.lognormal(4, 0.8, n).astype(int)
    frame["list_price"] = (frame.price * draws.uniform(1, 1.5, n)).astype(int)
    frame["shipping"] = draws.choice([0, 399, 499, 999], n)
    frame["delivery_days"] = draws.integers(1, 15, n)
    frame["weight_grams"] = draws.lognormal(6, 1.2, n).astype(int)
    frame["round_price"] = 10 * draws.integers(1, 100, n)
    return Table(frame)


def dates_dropped(draws: Draws, size: tuple[int, int]) -> Table:
    """Dates as text, times and ids that the reader leaves out, and ages made of them."""
    table = shop(draws, size)
    n = len(table.frame)
    ages = draws.exponential(200, n).round(1)
    days = pd.Timestamp("2024-06-01") - pd.to_timedelta(ages, unit="D")
    more = {
        "created": days.strftime("%Y-%m-%d"),
        "timestamp": days.astype("int64") // 10**9,
        "user_id": draws.integers(0, 50, n),
        "age_days": ages,
    }
    return Table(table.frame.assign(**more))


def categories(draws: Draws, size: tuple[int, int]) -> Table:
    """Texts and codes as categories."""
    table = shop(draws, size)
    n = len(table.frame)
    more = {
        "brand": draws.choice([f"brand {letter}" for letter in "abcdefgh"], n),
        "category_code": draws.integers(100, 160, n),
    }
    return Table(table.frame.assign(**more), {"categorical": ["brand", "category_code"]})


def flags(draws: Draws, size: tuple[int, int]) -> Table:
    """Flags and tiers, of which many rows are equal."""
    frame, relevance = base(draws, size)
    for name in ("is_exact", "is_new", "is_sponsored", "has_image"):
        frame[name] = relevance + draws.normal(0, 2, relevance.size) > 1
    frame["tier"] = draws.integers(1, 5, relevance.size)
    return Table(frame.drop(columns="bm25"))


def travel(draws: Draws, size: tuple[int, int]) -> Table:
    """Flights: minutes, stops, seats."""
    frame, relevance = base(draws, size)
    n = relevance.size
    frame["departure_minute"] = 5 * draws.integers(0, 288, n)
    frame["duration_minutes"] = draws.lognormal(5, 0.7, n).astype(int)
    frame["n_stops"] = draws.poisson(0.6, n)
    frame["seats_left"] = draws.integers(1, 10, n)
    frame["fare"] = draws.lognormal(5, 0.6, n).round(2)
    return Table(frame)


def ratings(draws: Draws, size: tuple[int, int]) -> Table:
    """Ratings from 1 to 5, so that every row counts as relevant."""
    table = shop(draws, size)
    relevance = np.log(table.frame.bm25) + draws.normal(0, 0.9, len(table.frame))
    return Table(table.frame.assign(label=np.clip(np.round(relevance + 1.5), 1, 5)))


def generated_by_us(draws: Draws, size: tuple[int, int]) -> RankingDataset:
    """The reader `synthetic`."""
    queries = {"train": size[0], "test": size[0]}
    reader = Synthetic.model_validate({"n_queries": queries, "seed": int(draws.integers(1_000))})
    return reader.read(["train"], Path())


SOUND: dict[str, Callable[[Draws, tuple[int, int]], Table | RankingDataset]] = {
    one.__name__.replace("_", " "): one
    for one in (
        letor, counts_of_terms, shop, catalogue, query_features, clicks, embeddings, bag_of_words, first_stage,
        first_stage_rank, prices, dates_dropped, categories, flags, travel, ratings, generated_by_us,
    )
}  # fmt: skip


def real_sets(folder: Path) -> Iterator[tuple[str, dict[str, RankingDataset]]]:
    """The sets of documents with features in the folder, by split."""
    files = {
        "mq2008": (Letor(), {"train": ["S1.txt", "S2.txt", "S3.txt"], "test": ["S5.txt"]}),
        "clueweb09": (Letor(), {"train": ["Fold1.test.txt", "Fold2.test.txt"], "test": ["Fold3.test.txt"]}),
        "mslr_sample": (Letor(), {"train": ["test.txt"]}),
        "fastrank_trec_news": (Letor(), {"train": ["trec_news_2018.train"]}),
        "lightgbm_lambdarank": (LightGbm(n_features=300), {"train": ["rank.train"], "test": ["rank.test"]}),
    }
    for name, (reader, splits) in files.items():
        read = {split: reader.read(paths, folder / name) for split, paths in splits.items()}
        yield name, read
        if read["train"].judgments.document_ids is not None:
            yield f"{name} without ids", {split: _without_ids(part) for split, part in read.items()}


def _without_ids(data: RankingDataset) -> RankingDataset:
    return replace(data, judgments=replace(data.judgments, document_ids=None))


# --- traps ----------------------------------------------------------------------------------------------------

RANKS = (
    "rank_shown", "srp_position", "slot", "list_position", "result_rank", "display_rank", "shown_position",
    "position_in_list", "item_rank", "original_rank", "serp_pos", "page_slot", "impression_rank", "ordinal",
)  # fmt: skip


def _column(name: str, make: Callable[[Draws, int, int], Any]) -> Callable[[Draws, tuple[int, int]], Table]:
    """A shop's table with one more column."""

    def planted(draws: Draws, size: tuple[int, int]) -> Table:
        return Table(shop(draws, size).frame.assign(**{name: make(draws, *size)}))

    return planted


def _positions(draws: Draws, n_queries: int, n_rows: int) -> Any:
    return np.tile(np.arange(1, n_rows + 1), n_queries)


def _shuffled_positions(draws: Draws, n_queries: int, n_rows: int) -> Any:
    return np.concatenate([draws.permutation(n_rows) for _ in range(n_queries)])


def _even_positions(draws: Draws, n_queries: int, n_rows: int) -> Any:
    """Every second place of a list."""
    return 2 * _positions(draws, n_queries, n_rows)


def _of_query(low: int, high: int) -> Callable[[Draws, int, int], Any]:
    return lambda draws, n_queries, n_rows: np.repeat(draws.integers(low, high, n_queries), n_rows)


def _of_row(low: int, high: int) -> Callable[[Draws, int, int], Any]:
    return lambda draws, n_queries, n_rows: draws.integers(low, high, n_queries * n_rows)


def _counts(draws: Draws, size: tuple[int, int]) -> Table:
    frame = shop(draws, size).frame.drop(columns="label")
    for name, mean in (("click", 8.0), ("cart", 3.0), ("purchase", 1.2)):
        frame[name] = draws.poisson(mean, len(frame))
    return Table(frame, {"relevance": {"events": {"click": 1, "cart": 3, "purchase": 4}}})


def _label_of_counts(draws: Draws, size: tuple[int, int]) -> Table:
    frame = shop(draws, size).frame
    return Table(frame.assign(clicks=draws.poisson(5, len(frame))), {"label": "clicks"})


def _plant_join(named: bool) -> Callable[[Draws, tuple[int, int]], Table]:
    """A join that triples the rows of relevant documents."""

    def planted(draws: Draws, size: tuple[int, int]) -> Table:
        frame = shop(draws, size).frame
        if named:
            frame = frame.assign(document_id=[f"d{row}" for row in range(len(frame))])
        relevant = frame[frame.label > 0]
        rows = pd.concat([frame, relevant, relevant]).sort_values("query_id", kind="stable")
        return Table(rows, {"document_id": "document_id"} if named else {})

    return planted


def _single_rows(draws: Draws, size: tuple[int, int]) -> Table:
    frame = shop(draws, size).frame
    return Table(frame.assign(query_id=np.arange(len(frame))))


def _returns(draws: Draws, size: tuple[int, int]) -> Table:
    frame = shop(draws, size).frame
    return Table(frame.assign(label=draws.normal(size=len(frame)).round(4)))


def _plant_leak(draws: Draws, size: tuple[int, int]) -> Table:
    frame = shop(draws, size).frame
    return Table(frame.assign(score_of_experts=frame.label + draws.normal(0, 0.01, len(frame))))


def _plant_purchases(draws: Draws, size: tuple[int, int]) -> Table:
    frame = shop(draws, size).frame
    relevant = (frame.label > 0) & (draws.random(len(frame)) < 0.8)
    return Table(frame.assign(amount=np.where(relevant, draws.lognormal(3, 1, len(frame)), 0)))


def _sorted(draws: Draws, size: tuple[int, int]) -> Table:
    frame = shop(draws, size).frame
    return Table(frame.sort_values(["query_id", "label"], ascending=[True, False]))


TRAPS: dict[str, tuple[str, Callable[[Draws, tuple[int, int]], Table]]] = {
    **{f"rank: {name}": ("position-feature", _column(name, _positions)) for name in RANKS},
    **{f"rank in part: {name}": ("position-feature", _column(name, _even_positions)) for name in RANKS},
    "rank by value: x7": ("position-feature", _column("x7", _shuffled_positions)),
    "date: 20230101": ("id-feature", _column("date", _of_query(20230101, 20230129))),
    "date by value: x7": ("id-feature", _column("x7", _of_query(20230101, 20230129))),
    "time by value: x7": ("id-feature", _column("x7", _of_query(1_600_000_000, 1_700_000_000))),
    "week": ("id-feature", _column("week", _of_query(1, 53))),
    "customer": ("id-feature", _column("customer", _of_query(1_000, 9_999))),
    "listing": ("id-feature", _column("listing", _of_row(10_000, 99_999))),
    "row_number": ("id-feature", _column("row_number", lambda _, n, m: np.arange(n * m))),
    "row number by value: x7": ("id-feature", _column("x7", lambda _, n, m: np.arange(n * m))),
    "numbers by value: x7": ("id-feature", _column("x7", _of_row(10**8, 10**9))),
    "counts as events": ("event-counts", _counts),
    "counts as events, relevant": ("nearly-all-relevant", _counts),
    "counts as label": ("event-counts", _label_of_counts),
    "joined rows": ("equal-rows", _plant_join(named=False)),
    "joined rows with ids": ("refused", _plant_join(named=True)),
    "queries of one row": ("single-document-queries", _single_rows),
    "labels below 0": ("negative-labels", _returns),
    "a leak": ("leaking-feature", _plant_leak),
    "an outcome": ("outcome-feature", _plant_purchases),
    "sorted by label": ("sorted-labels", _sorted),
}


# --- measurement ----------------------------------------------------------------------------------------------


def findings(splits: Mapping[str, RankingDataset]) -> list[Caution]:
    """Return the findings of the lints in the splits, each cause once."""
    return merge_by_cause(lint(data_card(splits)))


def halves(data: RankingDataset) -> dict[str, RankingDataset]:
    """Two thirds of the queries to train on, the others to test."""
    queries = np.arange(data.n_queries)
    return {"train": data.take(queries[queries % 3 != 0]), "test": data.take(queries[queries % 3 == 0])}


def is_found(kind: str, table: Table) -> bool:
    """Return whether a trap is found where all rows are read as one split, as `data describe` does."""
    try:
        data = table.read()
    except DataError:
        return kind == "refused"
    return kind in {finding.kind for finding in findings({"train": data})}


def size_of(number: int) -> tuple[int, int]:
    """The sizes in turn, of which the first is the smallest."""
    return SIZES[number % len(SIZES)]


@dataclass(frozen=True)
class Measured:
    """One kind of sound sets: how many have how many findings."""

    kind: str
    n_sets: int
    n_errors: int
    most_warnings: int  # of one set
    kinds: Counter[str]  # of errors and warnings

    @property
    def is_sound(self) -> bool:
        return not self.n_errors and self.most_warnings <= 1


def count_findings(kind: str, sets: Iterator[Mapping[str, RankingDataset]]) -> Measured:
    """Count the findings in sound sets."""
    n_sets = n_errors = most = 0
    kinds: Counter[str] = Counter()
    for splits in sets:
        severe = [finding for finding in findings(splits) if finding.severity in ("error", "warning")]
        n_sets += 1
        n_errors += sum(finding.severity == "error" for finding in severe)
        most = max(most, sum(finding.severity == "warning" for finding in severe))
        kinds.update(finding.kind for finding in severe)
    return Measured(kind, n_sets, n_errors, most, kinds)


def sound_sets(kind: str, n_sets: int) -> Iterator[Mapping[str, RankingDataset]]:
    """Generated sets of a kind, in all sizes."""
    for number in range(n_sets):
        generated = SOUND[kind](np.random.default_rng([number, len(kind)]), size_of(number))
        yield halves(generated.read() if isinstance(generated, Table) else generated)


def n_found(trap: str, n_sets: int) -> int:
    """In how many sets of all sizes a trap is found."""
    kind, plant = TRAPS[trap]
    return sum(is_found(kind, plant(np.random.default_rng([n, 1]), size_of(n))) for n in range(n_sets))


def matching_names(names: Mapping[str, Any], words: list[str]) -> list[str]:
    return [name for name in names if not words or any(word in name for word in words)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=20, help="generated sets of each kind")
    parser.add_argument("--only", default="", help="words of kinds and traps, with commas between")
    options = parser.parse_args()
    words = [word for word in options.only.split(",") if word]

    folder = Path(os.environ.get("LTR_HARNESS_DATA", Path(__file__).parents[2] / "shared" / "data"))
    rows = []
    if folder.is_dir():
        rows += [count_findings(name, iter([splits])) for name, splits in real_sets(folder) if not words]
    else:
        print(f"no real sets: {folder} is not there")
    rows += [count_findings(kind, sound_sets(kind, options.sets)) for kind in matching_names(SOUND, words)]
    table = [
        [row.kind, str(row.n_sets), str(row.n_errors), str(row.most_warnings), _kinds_in_words(row.kinds)]
        for row in rows
    ]
    head = ["sound sets", "sets", "errors", "most warnings of a set", "which, in how many"]
    print(*text_table(head, table, left=[0, 4]), "", sep="\n")

    found = {trap: n_found(trap, options.sets) for trap in matching_names(TRAPS, words)}
    table = [[trap, TRAPS[trap][0], f"{n} of {options.sets}"] for trap, n in found.items()]
    print(*text_table(["trap", "lint", "found"], table, left=[0, 1]), sep="\n")
    failed = [row.kind for row in rows if not row.is_sound] + [
        trap for trap, n in found.items() if n < options.sets
    ]
    if failed:
        print(f"\nnot as promised: {', '.join(failed)}")
    return 1 if failed else 0


def _kinds_in_words(kinds: Counter[str]) -> str:
    return ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))


if __name__ == "__main__":
    raise SystemExit(main())
