"""One key for all that a reader should keep in mind: `cautions`, in the JSON of every command that prints any."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pandas as pd
import pytest
import yaml

from ltr_harness import compare
from ltr_harness.cli import cli
from ltr_harness.errors import SEVERITIES, Caution
from ltr_harness.experiments.compare.saved import FILE, to_parquet

if TYPE_CHECKING:
    from ltr_harness.workflow import ExperimentResult

Cli = Callable[..., tuple[int, str, str]]

OTHER_WORDS = {
    *("note", "notes", "warning", "warnings", "finding", "findings", "notice", "notices"),
    *("caveat", "caveats", "remark", "remarks"),
}

COMMANDS: dict[str, str] = {
    "agreement": "past.csv",
    "compare": "a.csv b.csv --fail-if mrr<baseline-0.9 --common-queries",
    "compare of runs": "small",
    "compare of columns": "--data rows.csv --score-column a --score-column b -m mrr",
    "compare-labels": "a.run b.run --qrels human.qrels --cheap llm.qrels -m mrr@3",
    "compare-sets": "first second",
    "data agreement": "human.qrels llm.qrels",
    "data describe": "data.txt",
    "doctor": "",
    "evaluate": "--qrels llm.qrels --run a.run -m P_2,err,mrr",
    "evaluate of two": "--qrels llm.qrels --run a.run --run b.run -m P_2",
    "explain": "err@3 --query 1 --qrels llm.qrels --run a.run",
    "explain of all": "P_2 --qrels llm.qrels --run a.run",
    "export model": "RUN --to json -o model.json",
    "monitor": "monitor.yaml --log log.csv",
    "power": "small --difference 0.01",
    "reproduce": "RUN",
    "run": "again.yaml --runs runs",
    "show importance": "RUN --repeats 1",
    "show run": "RUN",
    "show runs": ".",
    "show trees": "RUN --documents 10",
    "show why": "RUN --query QUERY",
    "show worst": "RUN",
}
"""Command, and what about it, to its other arguments; RUN is a run folder of LightGBM, QUERY one of its queries."""


@pytest.fixture(scope="module")
def folder(trained_experiment: ExperimentResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small inputs of every command."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "small").symlink_to(trained_experiment.folder)
    rng = np.random.default_rng(0)
    n = 30
    for name, first in (("a", 0), ("b", 2)):  # queries that one of them lacks are left out
        ids = [f"q{at}" for at in range(first, n + first)]
        pd.DataFrame({"query_id": ids, "mrr": rng.random(n), "price": 1}).to_csv(
            folder / f"{name}.csv", index=False
        )
    for name in ("first", "second"):
        (folder / name).mkdir()
        for model in ("a", "b"):
            ids = [f"{name}{at}" for at in range(n)]
            pd.DataFrame({"query_id": ids, "mrr": rng.random(n)}).to_csv(
                folder / name / f"{model}.csv", index=False
            )
    labels, scores = rng.integers(0, 4, (n, 3)), rng.random((2, n, 3))
    each = [(query, row) for query in range(n) for row in range(3)]
    for name, queries in (("human", 20), ("llm", n)):
        lines = (f"{query} 0 d{row} {labels[query, row]}\n" for query, row in each if query < queries)
        (folder / f"{name}.qrels").write_text("".join(lines))
    for name, own in zip("ab", scores, strict=True):
        lines = (f"{query} Q0 d{row} 1 {own[query, row]} {name}\n" for query, row in each)
        (folder / f"{name}.run").write_text("".join(lines))
    (folder / "data.txt").write_text(
        "".join(f"{labels[query, row]} qid:{query} 1:{scores[0, query, row]} 2:0\n" for query, row in each)
    )
    by_row = {"query_id": np.repeat(np.arange(n), 3), "label": labels.reshape(-1)}
    by_row |= {name: own.reshape(-1) for name, own in zip("ab", scores, strict=True)}
    pd.DataFrame(by_row).to_csv(folder / "rows.csv", index=False)
    online = {"experiment": [f"e{at}" for at in range(12)], "online": rng.normal(size=12), "online_se": 0.2}
    offline = {"mrr": online["online"] + rng.normal(size=12), "mrr_se": 0.3}
    pd.DataFrame({**online, **offline}).to_csv(folder / "past.csv", index=False)
    pd.DataFrame(
        {
            "query_id": np.repeat([f"q{at:04}" for at in range(1200)], 2),
            "rank": [1, 2] * 1200,
            "variant": np.repeat(["A", "B"], 1200),
            "click": np.where(rng.random(2400) < 0.4, 1, 0),
        }
    ).to_csv(folder / "log.csv", index=False)
    monitor = {
        "columns": {"rank": "rank"},
        "metrics": ["mrr"],
        "relevance": {"events": {"click": 1}},
        "arms": {"column": "variant", "control": "A"},
    }
    (folder / "monitor.yaml").write_text(yaml.safe_dump(monitor))
    again = yaml.safe_load((trained_experiment.folder / "experiment.yaml").read_text())
    again |= {"seeds": [1], "models": {"random": again["models"]["random"]}}
    del again["compare"]
    (folder / "again.yaml").write_text(yaml.safe_dump(again))
    return folder


def keys(document: Any, place: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every key of a document with its place and value."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield f"{place}.{key}", key, value
            yield from keys(value, f"{place}.{key}")
    elif isinstance(document, list):
        for at, value in enumerate(document):
            yield from keys(value, f"{place}[{at}]")


def cautions_in(document: Any) -> list[Caution]:
    """The cautions of a document, in which no other key may hold such things."""
    assert [place for place, key, _ in keys(document) if key in OTHER_WORDS] == []
    found = []
    for place, key, value in keys(document):
        if key in ("caution", "cautions") and value is not None:
            for one in value if key == "cautions" else [value]:
                assert set(one) == {"kind", "severity", "text", "cure", "place"}, place
                found.append(Caution(**one))
    for one in found:
        assert one.severity in SEVERITIES
        assert one.text
        assert set(one.kind) <= {*"abcdefghijklmnopqrstuvwxyz-"}
    return found


@pytest.mark.long
@pytest.mark.usefixtures("few_timed_calls")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command(
    name: str,
    folder: Path,
    trained_experiment: ExperimentResult,
    ltr: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    if name == "compare-sets":
        for data_set in ("first", "second"):
            comparison = compare(f"{data_set}/a.csv", f"{data_set}/b.csv")
            Path(data_set, FILE).write_bytes(to_parquet(comparison))
    # `doctor` draws one, in another process
    monkeypatch.setattr("ltr_harness.report.chart_engine.draw", lambda *chart: "")
    run = next(run for run in trained_experiment.runs if run.record.model == "lgbm")
    meant = {"RUN": run.path, "QUERY": run.per_query["query_id"].iloc[0]}
    arguments = [meant.get(argument, argument) for argument in COMMANDS[name].split()]
    code, out, err = ltr(*name.partition(" of ")[0].split(), *arguments, "--json")
    assert code in (0, 4), err
    found = cautions_in(json.loads(out))
    if name == "run":
        found += [one for line in err.splitlines() for one in cautions_in(json.loads(line))]
    # what these inputs are made to have
    assert KINDS.get(name, set()) <= {one.kind for one in found}


KINDS = {
    "agreement": {"tested-ideas"},
    "compare": {"queries-left-out", "ignored-columns"},
    "compare-labels": {"cheap-labels"},
    "data agreement": {"judged-by-one"},
    "evaluate": {"max-grade"},
    "evaluate of two": {"other-name"},
    "explain": {"max-grade"},
    "explain of all": {"other-name"},
}
"""Command to kinds of cautions that it has for these inputs, among others."""


def test_no_command_is_missing() -> None:
    """Some have two forms of JSON. Of `export mlflow`, for which MLflow loads, `test_export_mlflow_model.py` looks."""

    def with_json(group: click.Group, path: str = "") -> Iterator[str]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from with_json(command, f"{path}{name} ")
            elif any("--json" in parameter.opts for parameter in getattr(command, "params", ())):
                yield f"{path}{name}"

    assert set(with_json(cli)) == {name.partition(" of ")[0] for name in COMMANDS} | {"export mlflow"}


@pytest.mark.parametrize("kind", ["report", "events", "monitor"])
def test_no_schema_has_another_key(kind: str) -> None:
    if kind == "report":
        from ltr_harness.report.json_document import schema
    elif kind == "events":
        from ltr_harness.cli.json_events import schema
    else:
        from ltr_harness.monitoring.result import json_schema as schema
    properties = [
        (place, name)
        for place, key, value in keys(schema())
        if key == "properties" and isinstance(value, dict)
        for name in value
    ]
    assert "cautions" in {name for _, name in properties}
    assert [one for one in properties if one[1] in OTHER_WORDS] == []
