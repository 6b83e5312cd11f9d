"""The documentation pages that the code writes: one per metric, the reference of YAML and commands, the changelog.

A hook of MkDocs (see mkdocs.yml): the pages exist in the built site only, so that nothing is said twice.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"
Schema = Mapping[str, Any]
HEADINGS = (
    "Args",
    "Attributes",
    "Raises",
    "Source",
    "When to use",
    "When not",
    "Missed documents",
    "Example",
)


def on_config(config: MkDocsConfig) -> None:
    """The metrics' pages stand below the page about all of them."""
    from ltr_harness.metrics.table import METRICS

    assert config.nav is not None
    (chapter,) = (part["Metrics"] for part in config.nav if "Metrics" in part)
    chapter += [{name: f"metrics/{name}.md"} for name in METRICS]


def on_files(files: Files, config: MkDocsConfig) -> None:
    from mkdocs.structure.files import File

    for path, content in pages().items():
        files.append(File.generated(config, path, content=content))


def pages() -> dict[str, str]:
    """Path to Markdown, for everything that is generated."""
    from ltr_harness.experiments.config.json_schema import json_schema
    from ltr_harness.metrics.table import METRICS
    from ltr_harness.monitoring.load import json_schema as monitor_schema

    return {
        **{f"metrics/{name}.md": metric_page(name) for name in METRICS},
        "reference/experiment.md": experiment_page(json_schema()),
        "reference/monitor.md": monitor_page(monitor_schema()),
        "reference/cli.md": cli_page(),
        "changelog.md": CHANGELOG.read_text(encoding="utf-8").replace("](docs/", "]("),
    }


# ---- one page per metric


def metric_page(name: str) -> str:
    """Return a metric's page, from its docstring, fields and presets, in the order of a reader's questions."""
    from ltr_harness.metrics.table import ALIASES, catalog

    kind = catalog.load(name)
    doc = docstring(kind)
    lead, *body = doc[""].split("\n\n")
    also = [alias for alias, target in ALIASES.items() if target == name]
    facts = [
        ("range", " to ".join("∞" if bound == float("inf") else f"{bound:g}" for bound in kind.bounds)),
        ("better is", "higher" if kind.higher_is_better else "lower"),
        ("labels", "grades" if kind.graded else "relevant or not, from grade `relevant` on"),
        (
            "cutoff",
            f"`{name}@K`, or the whole list without it" if kind.takes_cutoff else "none: the whole list",
        ),
        *([("also written", ", ".join(f"`{alias}`" for alias in also))] if also else []),
        *([("diagnostic", "explains other numbers; no model is better for it")] if kind.diagnostic else []),
    ]
    parts = [
        f"# {name}",
        f"**{lead}**",
        *body,
        "\n".join(f"- {name}: {fact}" for name, fact in facts),
        f"## When to use it\n\n{one_line(doc['When to use'])}",
        f"## When not\n\n{one_line(doc['When not'])}",
        "## Missed documents\n\nThey are judged, and were not among the candidates. "
        + one_line(doc["Missed documents"]),
        f"## Choices\n\nWhat a name leaves out has its default: `{name}` alone means all of these.",
        table(("choice", "default", "meaning"), parameters(kind)),
        *other_tools(name),
        f"## Example\n\n```pycon\n{doc['Example']}\n```",
        f"Source: {one_line(doc['Source'])}",
        "[What holds for all metrics](../metrics.md): ties, queries without relevant documents, other tools' numbers.",
    ]
    return "\n\n".join(parts) + "\n"


def docstring(kind: type) -> dict[str, str]:
    """A docstring's text by heading; what stands before the first is under the empty one.

    Example:
        >>> class Mine:
        ...     '''How good it is.
        ...
        ...     Source: a paper.
        ...     '''
        >>> docstring(Mine)
        {'': 'How good it is.', 'Source': 'a paper.'}
    """
    headed = re.split(rf"^({'|'.join(HEADINGS)}):[ \n]", inspect.getdoc(kind) or "", flags=re.MULTILINE)
    texts = (textwrap.dedent(text).strip() for text in headed[2::2])
    return {"": markdown(headed[0].strip()), **dict(zip(headed[1::2], texts, strict=True))}


def parameters(kind: type) -> Iterator[tuple[str, str, str]]:
    """Every choice with its default and what some docstring among the class's ancestors says of it."""
    texts: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__):
        if dataclasses.is_dataclass(ancestor) and ancestor.__doc__:
            attributes = docstring(ancestor).get("Attributes", "")
            texts |= dict(re.findall(r"^(\w+): (.*?)(?=^\w+: |\Z)", attributes, re.MULTILINE | re.DOTALL))
    for field in dataclasses.fields(kind):
        if field.name == "k" and not kind.takes_cutoff:
            continue
        name = "K, after `@`" if field.name == "k" else f"`{field.name}`"
        default = "–" if field.default is None else f"`{field.default}`"
        yield name, default, markdown(one_line(texts[field.name]))


def other_tools(name: str) -> list[str]:
    from ltr_harness.metrics.core.presets import PRESETS
    from ltr_harness.metrics.table import catalog

    given = {"p": 0.8} if name.startswith("rbp") else {}
    rows = [
        (f"`{name}(as={tool})`", f"`{catalog.load(name).for_tool(tool, **given)}`")
        for tool, metrics in PRESETS.items()
        if name in metrics
    ]
    return ["## Other tools' numbers", table(("written", "is"), rows)] if rows else []


# ---- YAML


def experiment_page(schema: Schema) -> str:
    """Every key of the experiment file, section by section, reader by reader, ranker by ranker."""
    definitions = schema["$defs"]
    sections = schema["properties"]
    top = {key: value for key, value in sections.items() if key not in ("data", "models")}
    parts = [
        "# The experiment file",
        "Every key there is. `ltr-harness check FILE` refuses any other, with its line and the closest known name; "
        "`ltr-harness show config FILE` prints every resolved value and where it comes from. Editors complete and "
        "check a file that begins with `# yaml-language-server: $schema=./schema.json`, where that file holds what "
        "`ltr-harness schema` prints.",
        keys_table(top, definitions),
    ]
    for key, value in top.items():
        inner = fields(value, definitions)
        if inner:
            parts += [f"## {key}", *description_lines(value), keys_table(inner, definitions)]
    data, model = sections["data"], sections["models"]["additionalProperties"]
    parts += ["## data", *description_lines(data), keys_table(data["properties"], definitions)]
    parts += kinds("reader", data, definitions)
    parts += [
        "## models",
        *description_lines(sections["models"]),
        keys_table(model["properties"], definitions),
    ]
    parts += kinds("ranker", model, definitions)
    return "\n\n".join(parts) + "\n"


def kinds(key: str, schema: Schema, definitions: Schema) -> Iterator[str]:
    """Yield the keys of each reader or ranker besides those that all of them take."""
    descriptions = {
        option["const"]: option["description"]
        for option in schema["properties"][key]["oneOf"]
        if "const" in option
    }
    for branch in schema["allOf"]:
        name = branch["if"]["properties"][key]["const"]
        specific = {k: v for k, v in branch["then"]["properties"].items() if k not in schema["properties"]}
        yield f"### `{key}: {name}`"
        yield markdown(descriptions[name])
        if specific:
            yield keys_table(specific, definitions)


def monitor_page(schema: Schema) -> str:
    """Every key of the monitoring file."""
    definitions = schema.get("$defs", {})
    parts = [
        "# The monitoring file",
        "Every key there is; what they do together stands in [Watching a ranker in production](../monitoring.md).",
        keys_table(schema["properties"], definitions),
    ]
    for key, value in schema["properties"].items():
        inner = fields(value, definitions)
        if inner:
            parts += [
                f"## {key}",
                *description_lines(resolved(value, definitions)),
                keys_table(inner, definitions),
            ]
    return "\n\n".join(parts) + "\n"


def keys_table(properties: Schema, definitions: Schema) -> str:
    rows = []
    for key, value in properties.items():
        text = value.get("description") or resolved(value, definitions).get("description", "")
        default = json.dumps(value.get("default"))
        default = (
            "–" if default == "null" or "{" in default else f"`{default}`"
        )  # objects have their own tables
        rows.append((f"`{key}`", accepted_values(value, definitions), default, markdown(one_line(text))))
    return table(("key", "takes", "default", "meaning"), rows)


def accepted_values(schema: Schema, definitions: Schema) -> str:
    """The values a key takes, in a few words."""
    schema = resolved(schema, definitions)
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for either in ("anyOf", "oneOf"):
        if either in schema:
            words = dict.fromkeys(
                accepted_values(alternative, definitions)
                for alternative in schema[either]
                if alternative != {"type": "null"}
            )
            return " or ".join(words)
    if schema.get("type") == "array":
        return f"list of {accepted_values(schema.get('items', {}), definitions)}"
    if "pattern" in schema:
        return schema.get("description") or "text"
    return {"object": "mapping", "string": "text", "boolean": "true or false", "number": "number"}.get(
        schema.get("type", ""), schema.get("type", "any value")
    )


def fields(schema: Schema, definitions: Schema) -> Schema:
    """The keys of a section, found behind references and "or null"."""
    schema = resolved(schema, definitions)
    if schema.get("type") == "array":
        return fields(schema.get("items", {}), definitions)
    inner = [
        alternative
        for alternative in schema.get("anyOf", [])
        if "$ref" in alternative or alternative.get("type") in ("object", "array")
    ]
    if len(inner) == 1:
        return fields(inner[0], definitions)
    found: Schema = schema.get("properties", {})
    return found


def resolved(schema: Schema, definitions: Schema) -> Schema:
    found: Schema = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def description_lines(schema: Schema) -> list[str]:
    return [markdown(one_line(schema["description"]))] if schema.get("description") else []


# ---- the command line


def cli_page() -> str:
    """Every command and subcommand: what it does, its arguments and options, its examples."""
    import click

    from ltr_harness.cli import COMMANDS, cli

    parts = [
        "# Command line",
        "The same as `--help` prints, which every command has. Results go to stdout, messages to stderr.",
        table(
            ("exit code", "meaning"),
            [
                ("0", "good"),
                ("1", "something failed while running; what finished is kept"),
                ("2", "usage, configuration or data is wrong; nothing was run"),
                ("3", "a gate failed"),
                ("4", "`monitor` raised an alert"),
            ],
        ),
        table(
            ("group", "commands"),
            [
                (heading, ", ".join(f"[{name}](#ltr-harness-{name})" for name in group))
                for heading, group in COMMANDS.items()
            ],
        ),
    ]

    def add(command: click.Command, path: str, parent: click.Context | None, level: int) -> None:
        context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
        with context.scope(cleanup=False):
            parts.extend([f"{'#' * level} {path}", *command_parts(command, context, path)])
        if isinstance(command, click.Group) and parent is not None:
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                add(inner, f"{path} {name}", context, level + 1)

    top = click.Context(cli, info_name="ltr-harness", **cli.context_settings)
    for name in cli.list_commands(top):
        command = cli.get_command(top, name)
        assert command is not None
        add(command, f"ltr-harness {name}", top, 2)
    return "\n\n".join(parts) + "\n"


def command_parts(command: click.Command, context: click.Context, path: str) -> Iterator[str]:
    """A command's help as Markdown: prose, the synopsis, a table of options, examples as code."""
    yield from help_text(command.help or "")
    yield f"```text\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```"
    advanced = getattr(command, "advanced", ())
    for heading, are_advanced in (("option", False), ("advanced option", True)):
        options = [
            option for option in command.get_params(context) if (option.name in advanced) == are_advanced
        ]
        records = [option.get_help_record(context) for option in options]
        described_names = [
            record for record in records if record is not None and record[1] and "--help" not in record[0]
        ]
        if described_names:
            yield table((heading, "meaning"), [(f"`{name}`", prose(text)) for name, text in described_names])
    yield from help_text(command.epilog or "")


def help_text(text: str) -> Iterator[str]:
    """Paragraphs of a help text; those that Click is told not to wrap are code below their first line."""
    for paragraph in re.split(r"\n[ \t]*\n", inspect.cleandoc(text)):
        first, _, rest = paragraph.lstrip("\b\n").partition("\n")
        if not paragraph.startswith("\b"):
            yield prose(paragraph)
        elif re.match(r" {2,}\S", rest):
            code, after = indented_and_rest(rest)
            yield prose(first)
            yield f"```{'bash' if first == 'Examples:' else 'text'}\n{code}\n```"
            if after:
                yield prose(after)
        else:
            yield "\n\n".join(prose(line) for line in (first, *rest.splitlines()) if line.strip())


def prose(text: str) -> str:
    """A help text on one line; what stands between brackets is no link."""
    return markdown(one_line(text)).replace("[", "\\[")


def indented_and_rest(text: str) -> tuple[str, str]:
    """The indented lines that a text begins with, without their indent, and what follows them."""
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith(" ")), len(lines))
    return textwrap.dedent("\n".join(lines[:end])), "\n".join(lines[end:])


# ---- Markdown


def markdown(text: str) -> str:
    """Docstring prose as Markdown: literals between single backticks, nothing outside them taken for HTML."""
    pieces = text.replace("``", "`").split("`")
    return "`".join(
        piece if number % 2 else piece.replace("<", "&lt;") for number, piece in enumerate(pieces)
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


def table(head: tuple[str, ...], rows: Any) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
