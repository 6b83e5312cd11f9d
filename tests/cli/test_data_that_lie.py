"""Tables with targets, ids and places beside the label, and copies of queries: what init, check, describe, run say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ltr_harness import run_experiment
from ltr_harness.cli import cli
from ltr_harness.cli.exit_codes import run_command
from ltr_harness.data.readers.memory import from_frame
from ltr_harness.experiments.config import load_experiment

Cli = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.long


@pytest.fixture
def ltr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(cli, list(arguments))
        return code, *capsys.readouterr()

    return run


def sessions(n: int = 150, rows: int = 20) -> pd.DataFrame:
    """Otto's layout: a session's items, what the user clicked, put into the cart and ordered."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n * rows, 3)).round(4)
    clicks = (features @ [1.0, 0.5, 0.2] + rng.normal(size=n * rows) > 1.8).astype(int)
    carts = clicks * (rng.random(n * rows) < 0.5)
    return pd.DataFrame(
        {
            "session": np.repeat(np.arange(n) + 11_098_528, rows),
            "aid": np.concatenate([rng.choice(200, rows, replace=False) * 2999 for _ in range(n)]),
            "ts": np.repeat(rng.integers(1_661_724_000, 1_662_328_000, n), rows),
            **dict(zip(("sim", "pop", "recent"), features.T, strict=True)),
            "clicks": clicks,
            "carts": carts,
            "orders": carts * (rng.random(n * rows) < 0.5),
        }
    )


def test_other_targets_and_ids_are_no_features(ltr: Cli) -> None:
    sessions().to_csv("otto.csv", index=False)
    code, out, _ = ltr("init", "otto.csv", "--column", "label=orders", "-o", "e.yaml")
    assert code == 0
    assert "query: column 'session'\ndocument_id: column 'aid'\n" in out
    assert "3 features: sim, pop, recent\n" in out
    left_out = (
        "ignored outcomes of otto.csv: clicks, carts; `features:` with their names would learn from them"
    )
    assert left_out in out
    for said in (ltr("check", "e.yaml")[1], ltr("data", "describe", "e.yaml")[1]):
        assert "3 features: sim, pop, recent" in said.splitlines()
        assert left_out in said
    assert "\n3 features: sim, pop, recent\n" in ltr("run", "e.yaml", "--dry-run")[2]
    assert "3 features: sim, pop, recent\n" in repr(from_frame(sessions(), query="session", label="orders"))
    assert ltr("init", "otto.csv", "-o", "events.yaml")[0] == 0
    assert "events: {carts: 3, clicks: 1, orders: 4}" in Path("events.yaml").read_text()


def test_other_targets_and_ids_without_telling_names_are_found_by_fact(ltr: Cli) -> None:
    hidden = sessions().rename(columns={"aid": "number", "clicks": "a", "carts": "b"})
    hidden.to_csv("hidden.csv", index=False)
    ltr("init", "hidden.csv", "--column", "label=orders", "-o", "e.yaml")
    cure = "`features: [sim, pop, recent]`"
    found = {
        "non-zero in nearly all relevant documents and in few others; check whether it is known only after the "
        f"fact, and leave it out: {cure}",
        f"and new queries have other ones: leave it out ({cure}), or name it under `features:` if it is intended",
    }
    code, checked, _ = ltr("check", "e.yaml")
    assert code == 0
    assert "6 features: number, sim, pop, recent, a, b" in checked.splitlines()
    assert checked.splitlines()[-1].startswith("primary ndcg@10; no errors, ")
    columns = ["--column", "query=session", "--column", "label=orders"]
    for said in (
        checked,
        ltr("data", "describe", "hidden.csv", *columns)[1],
        ltr("run", "e.yaml", "--dry-run")[2],
    ):
        assert all(text in said for text in found)
    cured = ltr(
        "check",
        "e.yaml",
        "--set",
        "data.features=[sim, pop, recent]",
        "--set",
        "models.one-feature.feature=sim",
    )[1]
    assert cured.splitlines()[-1] == "primary ndcg@10; no problems found"


def test_a_tutorials_table_of_gains_and_ranks(ltr: Cli) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "search_group_id": np.repeat(np.arange(50) * 7 + 3, 6),
            "item_id": np.tile(np.arange(6), 50),
            "Ranks": np.tile(np.arange(1, 7), 50),
            "price": rng.normal(size=300),
            "Gains": rng.integers(0, 4, 300),
        }
    )
    rows.to_csv("rows.csv", index=False)
    out = ltr("init", "rows.csv", "-o", "e.yaml")[1]
    for line in ("query: column 'search_group_id'", "label: column 'Gains'", "position: column 'Ranks'"):
        assert line in out
    columns = [
        "--column",
        "query=search_group_id",
        "--column",
        "label=Gains",
        "--column",
        "document_id=item_id",
    ]
    code, out, err = ltr("evaluate", "--data", "rows.csv", *columns, "--scores", "rows.csv", "-m", "ndcg@3")
    assert (code, "'Ranks' ranks its rows, 1 being the best" in err) == (0, True), err
    data = {"reader": "csv", "query": "search_group_id", "files": "rows.csv", "folds": 3}
    said = ltr("data", "describe", "rows.csv", *columns[:4])[1]
    assert (
        "warning: rows.csv: feature Ranks counts the rows of most queries from 1 or 0 on, as ranks do" in said
    )
    assert "(then `position: Ranks`)" in said
    assert "leave it out (`features: [price]`)" in said
    with pytest.raises(Exception, match="has no column 'label'; did you mean `label: Gains`"):
        run_experiment({"name": "x", "data": data, "models": {"r": {"ranker": "random"}}})


def test_the_place_at_the_finish_is_no_grade(ltr: Cli) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "RaceID": np.repeat(np.arange(40) + 900, 8),
            "FinishPosition": np.concatenate([rng.permutation(8) + 1 for _ in range(40)]),
            "odds": rng.normal(size=320),
        }
    )
    rows.to_csv("races.csv", index=False)
    out = ltr("init", "races.csv", "--column", "label=FinishPosition", "-o", "e.yaml")[1]
    assert "query: column 'RaceID'" in out
    cure = 'reverse it with `grades: {"1": 3, "2": 2, "3": 1, ">=4": 0}` under `data:`'
    assert cure in out
    assert cure in ltr("check", "e.yaml")[1]
    rows.rename(columns={"FinishPosition": "rank"}).to_csv("ranks.csv", index=False)
    out = ltr("init", "ranks.csv", "--column", "label=rank", "-o", "ranks.yaml")[1]
    assert (
        "warning: train: the label rank is named like a place in a list: as a place 1 is the best, as a"
        in out
    )
    turned = ltr(
        "check",
        "e.yaml",
        "--set",
        'data.grades={"1": 3, "2": 2, "3": 1, ">=4": 0}',
        "--set",
        "data.max_grade=3",
    )
    assert turned[0] == 0
    assert "reverse it" not in turned[1]


def test_the_cheapest_model_sorts_by_a_price_from_below(ltr: Cli) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"query_id": np.repeat([f"q{i}" for i in range(40)], 8), "step": np.repeat(rng.random(40), 8)}
    )
    rows["price"] = rng.random(320)
    rows["label"] = (rows.price < 0.2).astype(int) + (rng.random(320) < 0.1)
    rows.to_csv("rows.csv", index=False)
    assert (
        "one-feature: 'price' is the best single feature, low values first"
        in ltr("init", "rows.csv", "-o", "e.yaml")[1]
    )
    ranker = load_experiment("e.yaml").models["one-feature"].ranker.definition()
    assert (ranker["feature"], ranker["ascending"]) == ("price", True)
    rows["price"] = 1.0
    rows.to_csv("flat.csv", index=False)
    ltr("init", "flat.csv", "-o", "flat.yaml")
    assert "one-feature" not in Path("flat.yaml").read_text(), "no feature differs within a query"


@pytest.mark.parametrize(("copied", "code"), [(40, 2), (2, 0)])
def test_copied_queries_are_refused_whatever_their_ids(ltr: Cli, copied: int, code: int) -> None:
    rng = np.random.default_rng(0)

    def rows(n: int) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "query_id": np.repeat(np.arange(n), 8),
                "label": rng.integers(0, 3, n * 8),
                "x": rng.normal(size=n * 8),
                "y": rng.random(n * 8),
            }
        )

    train, test = rows(300), rows(100)
    test.iloc[: copied * 8, 1:] = train.iloc[80 : 80 + copied * 8, 1:].to_numpy()
    train.to_csv("train.csv", index=False)
    test.to_csv("test.csv", index=False)
    Path("e.yaml").write_text(
        "name: e\ndata: {reader: csv, splits: {train: train.csv, test: test.csv}}\n"
        "models: {x: {ranker: feature, feature: x}, r: {ranker: random}}\n"
    )
    found, out, _ = ltr("check", "e.yaml")
    assert found == code
    last = out.splitlines()[-1]
    if code:
        assert "40 of its 100 queries share at least half of their rows with train, where 0 of 300 do" in out
        assert last == "primary ndcg@10; 1 error in the data, see above; if intended: --accept identical-rows"
        accepted = ltr("check", "e.yaml", "--accept", "identical-rows")
        assert (accepted[0], accepted[1].splitlines()[-1]) == (
            0,
            "primary ndcg@10; 1 error accepted, 3 cautions",
        )
        assert ltr("run", "e.yaml")[0] == 2
    else:
        assert "warning: train and test: 16 rows of test (2.0%) have the features of a row of train" in out
        assert last == "primary ndcg@10; no errors, 1 warning, 3 cautions"


def test_rows_that_are_alike_by_nature_are_no_copies(ltr: Cli) -> None:
    rng = np.random.default_rng(0)
    for name, n in (("train", 300), ("test", 100)):
        size = n * 4
        features = {f"f{j}": rng.integers(1, 3, size) for j in range(2)}  # 4 different rows in all
        table = {"query_id": np.repeat(np.arange(n), 4), "label": rng.integers(0, 3, size), **features}
        pd.DataFrame(table).to_csv(f"{name}.csv", index=False)
    Path("e.yaml").write_text(
        "name: e\ndata: {reader: csv, splits: {train: train.csv, test: test.csv}}\nmodels: {r: {ranker: random}}\n"
    )
    code, out, _ = ltr("check", "e.yaml")
    assert code == 0
    assert "note: train and test: 400 rows of test (100.0%) have the features of a row of train" in out
