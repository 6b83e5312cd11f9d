"""A small good file of every kind that commands read, and what happens to such files (for fuzz.py, kills.py)."""

from __future__ import annotations

import bz2
import copy
import hashlib
import json
import lzma
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

EXPERIMENT: dict[str, Any] = {
    "name": "e",
    "seeds": [1],
    "data": {"reader": "csv", "files": "rows.csv", "folds": 3, "query": "query"},
    "metrics": {"cutoffs": [3], "report": ["ndcg", "mrr"], "primary": "ndcg@3"},
    "stopping": {"metric": "ndcg@3", "on": "valid", "patience": 2, "max_rounds": 3},
    "models": {
        "lgbm": {
            "ranker": "lightgbm",
            "objective": "lambdarank",
            "params": {"num_leaves": 4, "min_data_in_leaf": 2},
        },
        "xgb": {"ranker": "xgboost", "objective": "rank:ndcg", "params": {"max_depth": 2}},
        "random": {"ranker": "random"},
    },
}
STORED: dict[str, Any] = {  # what leaves files of every kind that commands read again
    **EXPERIMENT,
    "name": "s",
    "models": {
        "lgbm": EXPERIMENT["models"]["lgbm"],
        "line": {"ranker": "linear", "weights": {"f1": 1.0, "f2": 0.5}},
        "one": {"ranker": "feature", "feature": "f3"},
    },
    "tune": {"trials": 2, "models": {"lgbm": {"params.num_leaves": [3, 4]}}, "storage": "journal"},
}
MONITOR: dict[str, Any] = {
    "columns": {
        "query_id": "request_id",
        "item_id": "sku",
        "rank": "position",
        "timestamp": "ts",
        "cluster_id": "user_id",
        "segments": ["country", "device"],
        "features": ["f3", "price"],
    },
    "relevance": {"mode": "label", "label": "relevance", "max_grade": 4},
    "metrics": ["ndcg@10", "mrr@10"],
    "windows": {"min_queries": 20},
    "slices": {"min_queries": 20},
    "log": "log.csv",
    "baseline": "log.parquet",
}
# Synthetic logs for the monitor, written once by the command line's own generator.
LOG: dict[str, Any] = {"seed": 1, "start": "2026-01-05", "days": 2, "queries_per_day": 60}
TOKENS = """nan inf -inf 1e400 -1 -0 0x10 1e-320 null NULL None true ~ 1_000 2147483648 18446744073709551616
999999999999999999999999999999 1e137 999999999:1 1:0.5
qid: qid:1 # : , - ' " ` { } [ ] & * ! | > %s {0} $HOME ../../x =1+1 <script> é 🦆 \u202e
2026-13-45 2026-03-29T02:30 ndcg@0 ndcg@-1 ndcg@1e9 @ ndcg()@3 rank:ndcg"""
NASTY = [*TOKENS.split(), "", " ", "\0", "\t", "\n", "\r\n", "\ufeff", "\x1b[2J", "\x1f", "\x9b2J", "\ufffe"]
NUMBERS: list[Any] = [0, -1, 1, 1.5, 2**63, -(2**63), 10**30, 1e308, 1e-308, float("nan"), float("inf")]
WORDS: list[Any] = ["", "x", "ndcg@3", "1d", "2026-01-01", "../../etc", "é🦆", "\x1b]0;x\x07\x1f\ufffe"]
VALUES: list[Any] = [*NUMBERS, *WORDS, None, True, [], {}, [None], [[]], {"a": {}}, ["ndcg@3"] * 3]


def examples(folder: Path) -> None:
    """A good file of every kind, small enough that any command takes a moment."""
    import example_tables
    import numpy as np
    import pandas as pd
    import yaml

    draw = np.random.default_rng(20261120)
    sizes = [1, 3, 8, 5, 12, 4, 6, 9] * 3
    table = pd.DataFrame(
        {"query": np.repeat(np.arange(1, len(sizes) + 1), sizes), "label": draw.integers(0, 5, sum(sizes))}
    )
    for name in ("f1", "f2", "f3"):
        table[name] = (table["label"] + draw.normal(0, 1, len(table))).round(4)
    table.to_csv(folder / "rows.csv", index=False)
    table.to_parquet(folder / "rows.parquet")
    table.assign(query=table["query"].map("q{}".format)).to_feather(folder / "rows.arrow", compression=None)
    past = example_tables.experiments().to_pandas()
    past.to_csv(folder / "experiments.csv", index=False)
    past.to_parquet(folder / "experiments.parquet")
    example_tables.rows().to_pandas().to_parquet(folder / "days.parquet")
    scores = table["f1"] + table["f2"]
    (folder / "scores.txt").write_text("".join(f"{value}\n" for value in scores))
    (folder / "other.txt").write_text("".join(f"{value}\n" for value in table["f3"]))
    np.save(folder / "scores.npy", scores.to_numpy())
    rows = table.groupby("query").cumcount()
    table.assign(row=rows, score=scores).rename(columns={"query": "query_id"})[
        ["query_id", "row", "score"]
    ].to_csv(folder / "scores.csv", index=False)
    with (folder / "rows.txt").open("w") as file:
        for row in table.itertuples():
            file.write(f"{row.label} qid:{row.query} 1:{row.f1} 2:{row.f2} 3:{row.f3} # d{row.Index}\n")
    with (folder / "semi.txt").open("w") as file:
        for row in table.itertuples():
            label = row.label if row.Index % 3 else -1
            file.write(f"{label}:2 qid:{row.query} 1:1e137 2:{row.f1}\n")
    (folder / "rows.csv.bz2").write_bytes(bz2.compress((folder / "rows.csv").read_bytes()))
    (folder / "rows.txt.xz").write_bytes(lzma.compress((folder / "rows.txt").read_bytes()))
    (folder / "qrels").write_text(
        "".join(f"{row.query} 0 d{row.Index} {row.label}\n" for row in table.itertuples())
    )
    for name, column in (("a", "f1"), ("b", "f2")):
        lines = (
            f"{row.query} Q0 d{row.Index} 1 {getattr(row, column)} {name}\n" for row in table.itertuples()
        )
        (folder / f"{name}.run").write_text("".join(lines))
    (folder / "e.yaml").write_text(yaml.safe_dump(EXPERIMENT, sort_keys=False))
    (folder / "s.yaml").write_text(yaml.safe_dump(STORED, sort_keys=False))
    (folder / "monitor.yaml").write_text(yaml.safe_dump(MONITOR, sort_keys=False))
    (folder / "from_result.yaml").write_text(yaml.safe_dump({**MONITOR, "baseline": "watched"}))
    from ltr_harness.monitoring.synthetic import SyntheticLog

    log = SyntheticLog(**LOG).table().to_pandas()
    log.to_parquet(folder / "log.parquet")
    log.to_csv(folder / "log.csv", index=False)
    clicked = log[log["relevance"] >= 2]
    events = clicked[["request_id", "sku", "ts"]].assign(event="click")
    events.to_csv(folder / "events.csv", index=False)
    joined = {"path": "events.csv", "query_id": "request_id", "item_id": "sku", "timestamp": "ts"}
    with_events = {**MONITOR, "relevance": {"events": {"click": 1, "buy": 4}, "event_log": joined}}
    del with_events["baseline"]
    (folder / "events.yaml").write_text(yaml.safe_dump(with_events, sort_keys=False))
    for arguments in (
        ["run", "e.yaml", "--quiet", "--workers", "1"],
        ["run", "s.yaml", "--quiet", "--workers", "1"],
        ["compare", "runs/e", "-o", "saved"],
        ["monitor", "monitor.yaml", "-o", "watched", "--exit-zero", "--quiet"],
        ["monitor", "monitor.yaml", "--history", "history", "--exit-zero", "--quiet"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ltr_harness", *arguments], cwd=folder, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"the unmangled example fails: {' '.join(arguments)}\n{done.stderr}")
    for _ in range(3):  # so that the ledger has several lines
        ledger = folder / "runs" / "looks.jsonl"
        ledger.write_text(ledger.read_text() * 2)
    run = next(folder.glob("runs/s/one--fold1*")).relative_to(folder).as_posix()
    from_run = {**MONITOR, "baseline": run, "metrics": ["ndcg@3"], "windows": {"min_queries": 2}}
    (folder / "from_run.yaml").write_text(yaml.safe_dump(from_run))


def mangled_bytes(content: bytes, draw: random.Random) -> bytes:
    """One small accident: what editors, transfers and exporters do to files."""
    place = draw.randrange(len(content) + 1)
    end = min(len(content), place + draw.choice([1, 1, 2, 10, 200]))
    lines = content.splitlines(keepends=True) or [b""]
    line = draw.randrange(len(lines))
    nasty = draw.choice(NASTY).encode("utf-8", "surrogatepass")
    match draw.randrange(10):
        case 0:
            return content[:place]
        case 1:
            return content[:place] + bytes(draw.randrange(256) for _ in range(end - place)) + content[end:]
        case 2:
            return content[:place] + content[end:]
        case 3:
            return content[:place] + content[place:end] * draw.choice([2, 3, 50]) + content[end:]
        case 4:
            return b"".join([*lines[:line], *lines[line + 1 :]])
        case 5:
            return b"".join([*lines[: line + 1], *lines[line:]])
        case 6:
            draw.shuffle(lines)
            return b"".join(lines)
        case 7:
            return content[:place] + nasty + content[place:]
        case 8:
            return content.replace(b"\n", draw.choice([b"\r\n", b"\r", b" \n", b"\n\n", b""]))
        case _:  # a token of one line becomes something else
            tokens = lines[line].replace(b",", b" , ").split(b" ")
            tokens[draw.randrange(len(tokens))] = nasty
            lines[line] = b" ".join(tokens).replace(b" , ", b",")
            return b"".join(lines)


def mangled_tree(tree: Any, draw: random.Random) -> Any:
    """A YAML or JSON tree in which one value, key or item is another one."""
    tree = copy.deepcopy(tree)
    places: list[tuple[Any, Any]] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                stack.append(node[key])
    if not places:
        return draw.choice(VALUES)
    node, key = draw.choice(places)
    match draw.randrange(5):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[draw.choice(["x", "", "n_queries", str(key) + "s", "1"])] = node.pop(key)
        case 2:
            other, place = draw.choice(places)
            node[key] = (
                copy.deepcopy(other[place])
                if place in other or (isinstance(other, list) and place < len(other))
                else None
            )
        case _:
            node[key] = draw.choice(VALUES)
    return tree


def mangled_types(path: Path, draw: random.Random) -> None:
    """A Parquet or Arrow file, of which some columns have other types of Arrow."""
    import example_tables
    import pyarrow as pa
    import pyarrow.feather as pf
    import pyarrow.parquet as pq

    is_parquet = path.suffix == ".parquet"
    table = pq.read_table(path) if is_parquet else pf.read_table(path)
    table, _ = example_tables.changed_table(table, draw)
    file = pa.BufferOutputStream()  # there are types that a format has not
    if is_parquet:
        pq.write_table(table, file, row_group_size=draw.choice([5, 1000]))
    else:
        pf.write_feather(table, file, compression="uncompressed")
    path.write_bytes(file.getvalue())


def mangled_table(path: Path, draw: random.Random) -> None:
    """A Parquet file with another column: other type, missing values, another name, gone, or no rows at all."""
    import numpy as np
    import pandas as pd

    if path.suffix == ".arrow" or draw.random() < 0.5:
        mangled_types(path, draw)
        return
    table = pd.read_parquet(path)
    name = draw.choice(list(table.columns))
    n = len(table)
    match draw.randrange(11):
        case 0:
            table = table.drop(columns=name)
        case 1:
            table = table.rename(columns={name: draw.choice(["", "x", name.upper(), "é"])})
        case 2:
            table = table.iloc[: draw.choice([0, 1, 2])]
        case 3:
            table[name] = [draw.choice([None, 1, 2.5]) for _ in range(n)]
        case 4:
            table[name] = table[name].astype(str)
        case 5:
            table[name] = np.where(
                np.arange(n) % 3 == 0, draw.choice([np.nan, np.inf, -np.inf, -1.0, 1e300]), 1.0
            )
        case 6:
            table[name] = [[1, 2]] * n
        case 7:
            table[name] = pd.Categorical(table[name].astype(str))
        case 8:
            table[name] = [{"view": 1}] * n
        case 9:
            table[name] = ["x" * draw.choice([10, 1001, 100_000])] * n
        case _:
            table = table.sample(frac=1, random_state=draw.randrange(1000))
    table.to_parquet(path)


def mangled_size(tree: Any, draw: random.Random) -> bytes:
    """A JSON tree, of which one value is a hundred to a million times as large, or as deep."""
    mark = "a value of another size"
    places: list[tuple[Any, Any]] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                stack.append(node[key])
    node, key = draw.choice(places)
    value, node[key] = node[key], mark
    n = draw.choice([100, 10_000, 300_000])
    match draw.randrange(4):
        case 0:
            other = "[" * n + draw.choice(["", "]" * n])
        case 1:
            other = json.dumps("x" * n)
        case 2:
            other = json.dumps([value] * min(n, 900_000 // (len(json.dumps(value)) + 1) + 1))
        case _:
            other = json.dumps(
                {f"k{number}": value for number in range(min(n, 900_000 // (len(json.dumps(value)) + 12)))}
            )
    return json.dumps(tree).replace(json.dumps(mark), other).encode()


def mangled_json(content: bytes, draw: random.Random) -> bytes:
    """JSON whose types, sizes or depth are others, or whose bytes are."""
    try:
        tree = json.loads(content)
        if draw.random() < 0.3:
            return mangled_size(tree, draw)
        return json.dumps(mangled_tree(tree, draw)).encode()
    except (ValueError, RecursionError, IndexError, TypeError):  # mangled beyond its kind already
        return mangled_bytes(content, draw)


def replaced_by_no_file(path: Path, draw: random.Random) -> None:
    """A pipe, a folder, or a link to a device, to another file, to nothing or to itself."""
    path.unlink()
    match draw.randrange(4):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case _:
            path.symlink_to(draw.choice(["/dev/zero", "/dev/full", "/etc/passwd", "nothing", path.name]))


def mangle_stored(path: Path, draw: random.Random) -> None:
    """Mangle a file of a folder that somebody handed over; often its record says that it was always so."""
    if path.is_symlink() or not path.is_file():
        return
    if draw.random() < 0.15:
        replaced_by_no_file(path, draw)
        return
    content = path.read_bytes()
    if path.suffix == ".json" and draw.random() < 0.85:
        path.write_bytes(mangled_json(content, draw))
    elif path.name in ("journal.log", "looks.jsonl") and draw.random() < 0.7:
        lines = content.splitlines(keepends=True) or [b""]
        number = draw.randrange(len(lines))
        path.write_bytes(
            b"".join([*lines[:number], mangled_json(lines[number], draw), b"\n", *lines[number + 1 :]])
        )
    elif path.name == "comparison.parquet" and draw.random() < 0.7:
        import pyarrow.parquet as pq

        with suppress(OSError, ValueError):  # its bytes are mangled already
            table = pq.read_table(path)
            metadata = {key: mangled_json(value, draw) for key, value in table.schema.metadata.items()}
            pq.write_table(table.replace_schema_metadata(metadata), path)
    else:
        mangle(path, draw)
    record = path.with_name("record.json")
    # a model of a library is left to its digest: nothing is promised of the libraries' parsers
    if draw.random() < 0.7 and path != record and record.is_file() and path.suffix in (".json", ".parquet"):
        with suppress(ValueError, RecursionError, TypeError, KeyError):  # the record is mangled itself
            facts = json.loads(record.read_bytes())
            facts["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
            record.write_text(json.dumps(facts))


def mangle(path: Path, draw: random.Random) -> None:
    """Mangle a file in place, by its kind or by its bytes."""
    kind = path.suffix if draw.random() < 0.6 else ""
    try:
        if kind in (".parquet", ".arrow"):
            mangled_table(path, draw)
            return
        if kind == ".yaml":
            import yaml

            path.write_text(
                yaml.safe_dump(mangled_tree(yaml.safe_load(path.read_text()), draw), sort_keys=False)
            )
            return
        if kind == ".json":
            path.write_text(json.dumps(mangled_tree(json.loads(path.read_text()), draw)))
            return
    except Exception:  # whatever its library makes of it
        pass  # mangled beyond its kind already; its bytes remain
    path.write_bytes(mangled_bytes(path.read_bytes(), draw))
