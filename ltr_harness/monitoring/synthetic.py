"""Logs with a planted truth: every situation that monitoring must tell apart, on demand and repeatable.

The model sees the grade through noise; whatever makes the ranking worse makes the noise larger. Users look at a rank
with probability rank**-power and click what they like, so clicks depend on the page as well.
"""

import re
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ltr_harness.data.arrays import Bools, Floats, Ints
from ltr_harness.errors import UsageError

_ATTRACTION = np.array([0.03, 0.15, 0.35, 0.6, 0.9])
_DAY = 86_400 * 10**9
_MAX_ROWS = 20_000_000  # they are made in memory
COUNTRIES = ("A", "B", "C", "D", "E")
DEVICES = ("desktop", "mobile")


def _first_day(text: str) -> str:
    if not re.fullmatch(r"(199|20[0-9])[0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", text):
        raise ValueError("a day such as 2026-01-05")
    return text


class _SyntheticQueries(NamedTuple):
    """The facts of each query: (n,) arrays, and features (8, n)."""

    time: Ints
    planted: Bools
    features: Floats
    country: Ints
    device: Ints
    user: Ints
    noise: Floats  # how badly the model sees the grades


class SyntheticLog(BaseModel):
    """A made-up log, in place of a file: what is planted begins on day `since`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    seed: int = Field(0, ge=0)
    start: Annotated[str, AfterValidator(_first_day)] = "2026-01-05"
    """First day, UTC. The default is a Monday."""
    days: int = Field(14, ge=1)
    queries_per_day: int = Field(500, ge=1)
    items: int = Field(12, ge=1)
    grade_shares: tuple[float, ...] = Field((0.45, 0.25, 0.15, 0.1, 0.05), min_length=2, max_length=5)
    """Of grades 0, 1, 2 …"""
    noise: float = Field(0.7, ge=0, description="How badly the model sees the grades.")
    since: int = Field(0, ge=0, description="Day, from 0, on which what is planted begins.")
    until: int | None = Field(None, ge=1, description="Day, from 0, on which it has ended.")
    drop: float = Field(0.0, ge=0, description="Noise added to every query.")
    wrong_first: float = Field(0.0, ge=0, le=1)
    """Share of queries whose first item changes places with any other one."""
    shuffled_rest: float = Field(0.0, ge=0, le=1)
    """Share of queries whose items from rank 2 on are shuffled."""
    slice_noise: float = Field(0.0, ge=0, description="Noise added to queries of one segment …")
    slice_country: str | None = Field(None, description="… of this country")
    slice_device: str | None = Field(None, description="… and this device.")
    country_shares: tuple[float, ...] = Field((0.3, 0.25, 0.2, 0.15, 0.1), description="Of A, B, C, D, E.")
    hard_country: str | None = None
    """A country whose queries are always harder, so that mix matters."""
    f3_shift: float = 0.0
    """f3 makes queries hard; it moves by so many standard deviations."""
    f7_shift: float = Field(0.0, description="f7 does nothing, whatever it does.")
    weekend: float = Field(0.0, ge=0, description="Noise added on Saturdays and Sundays.")
    users: int = Field(0, ge=0)
    """So many users, alike within themselves; 0: every query is another user's."""
    user_effect: float = Field(0.5, ge=0)
    examination: float = Field(1.0, ge=0)
    """Users look at rank r with probability r**-examination."""
    lost_clicks: float = Field(0.0, ge=0, le=1, description="Share of click events that never arrive …")
    lost_from_rank: int = Field(1, ge=1, description="… from this rank on.")
    purchase_delay: float = Field(0.0, ge=0)
    """Mean days until a purchase is logged; what comes after the end is missing."""

    def table(self) -> Any:
        """Make the log: one row per item shown, a `pyarrow.Table`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self.days * self.queries_per_day * self.items
        if rows > _MAX_ROWS:
            found = f"days x queries_per_day x items is {rows:,} rows"
            raise UsageError.at("a made-up log", found, f"at most {_MAX_ROWS:,} rows")
        random = np.random.Generator(np.random.PCG64([20261120, self.seed]))
        queries = self._queries(random)
        impressions = self._impressions(random, queries)
        n, items = impressions["score"].shape
        query_of_row = pa.array(np.repeat(np.arange(n), items))

        def per_row(values: Any) -> Any:
            return pa.array(values).take(query_of_row)

        def text(prefix: str, numbers: Any, width: int = 0) -> Any:
            digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")
            return pc.binary_join_element_wise(prefix, digits, "")

        columns = {
            "request_id": per_row(text(f"{self.start}-{self.seed}-", np.arange(n), 7)),
            "sku": text("sku-", impressions["sku"].reshape(-1)),
            "position": np.tile(np.arange(1, items + 1), n),
            "score": impressions["score"].reshape(-1),
            "ts": per_row(queries.time).cast(pa.timestamp("ns", "UTC")),
            "user_id": per_row(text("u", queries.user)),
            "country": pa.array(COUNTRIES).take(per_row(queries.country)),
            "device": pa.array(DEVICES).take(per_row(queries.device)),
            **{f"f{number + 1}": per_row(queries.features[number]) for number in range(8)},
            "price": impressions["price"].reshape(-1),
            **{
                outcome: impressions[outcome].reshape(-1).astype(np.int64)
                for outcome in ("relevance", "click", "buy")
            },
            "examination": np.tile(impressions["examination"], n),
        }
        return pa.table(columns)

    def _start(self) -> int:
        return int(np.datetime64(self.start, "ns").astype(np.int64))

    def _queries(self, random: np.random.Generator) -> _SyntheticQueries:
        n = self.days * self.queries_per_day
        day = np.repeat(np.arange(self.days), self.queries_per_day)
        time_of_day = np.sort(random.integers(0, _DAY, (self.days, self.queries_per_day)), axis=1).reshape(-1)
        time = self._start() + day * _DAY + time_of_day
        planted = day >= self.since
        if self.until is not None:
            planted &= day < self.until
        features = random.standard_normal((8, n))
        features[2] += self.f3_shift * planted
        features[6] += self.f7_shift * planted
        usual = np.array((0.3, 0.25, 0.2, 0.15, 0.1))
        shares = np.array(self.country_shares) / sum(self.country_shares)
        draws = random.random(n)
        planted_country, country = (np.searchsorted(np.cumsum(s)[:-1], draws) for s in (shares, usual))
        country = np.where(planted, planted_country, country)
        device = (random.random(n) < 0.5).astype(np.int64)
        user = random.integers(0, self.users, n) if self.users else np.arange(n)
        in_slice = planted.copy()
        if self.slice_country is not None:
            in_slice &= country == COUNTRIES.index(self.slice_country)
        if self.slice_device is not None:
            in_slice &= device == DEVICES.index(self.slice_device)
        noise = self.noise + self.drop * planted + self.slice_noise * in_slice
        weekday = ((time // _DAY) + 3) % 7
        noise = noise + self.weekend * (weekday >= 5)
        if self.hard_country is not None:
            noise = noise + 0.9 * (country == COUNTRIES.index(self.hard_country))
        noise = noise * np.exp(0.5 * features[2])
        if self.users:
            noise = noise * np.exp(self.user_effect * random.standard_normal(self.users)[user])
        return _SyntheticQueries(time, planted, features, country, device, user, noise)

    def _impressions(self, random: np.random.Generator, queries: _SyntheticQueries) -> dict[str, Any]:
        """Return the items in order of score and what users did, (n, items) each, and the (items,) examination."""
        n, items = queries.time.size, self.items
        shares = np.array(self.grade_shares) / sum(self.grade_shares)
        grade = random.choice(shares.size, size=(n, items), p=shares)
        score = grade + queries.noise[:, None] * random.standard_normal((n, items))
        order = np.argsort(-score, axis=1, kind="stable")
        grade, score = np.take_along_axis(grade, order, axis=1), np.take_along_axis(score, order, axis=1)
        grade = self._misplaced(grade, queries.planted)
        examination = np.arange(1, items + 1, dtype=np.float64) ** -self.examination
        is_examined = random.random((n, items)) < examination
        click = is_examined & (random.random((n, items)) < _ATTRACTION[grade])
        buy = click & (random.random((n, items)) < grade / 6)
        lost_share = (
            self.lost_clicks * queries.planted[:, None] * (np.arange(1, items + 1) >= self.lost_from_rank)
        )
        click &= random.random((n, items)) >= lost_share
        if self.purchase_delay:
            arrives = queries.time[:, None] + random.exponential(self.purchase_delay, (n, items)) * _DAY
            buy &= arrives <= self._start() + self.days * _DAY
        catalogue = random.integers(0, 5000, (n, items)) * items + np.arange(items)  # distinct within a query
        price = np.exp(random.standard_normal((n, items)))
        outcomes = {"relevance": grade, "click": click, "buy": buy}
        return {"sku": catalogue, "score": score, "price": price, **outcomes, "examination": examination}

    def _misplaced(self, grade: Ints, planted: Bools) -> Ints:
        """Return the (n, items) grades as a worse ranker has chosen the first item or the others."""
        random = np.random.Generator(np.random.PCG64([20261120, self.seed, 1]))
        grade, n = grade.copy(), planted.size
        for query in np.flatnonzero(planted & (random.random(n) < self.wrong_first)):
            other = random.integers(1, self.items)
            first = grade[query, 0]
            grade[query, 0] = grade[query, other]
            grade[query, other] = first
        shuffled = np.flatnonzero(planted & (random.random(n) < self.shuffled_rest))
        grade[shuffled, 1:] = random.permuted(grade[shuffled, 1:], axis=1)
        return grade
