"""Write the reference pages that are made from the code: settings, commands, keys, metrics, backend.json.

`python scripts/reference.py` writes them; `tests/docs/test_reference.py` fails when one is out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from prometheus_client.metrics import MetricWrapperBase

from microsub import metrics
from microsub.app import TABLE
from microsub.check.keynames import texts
from microsub.cli import groups, main
from microsub.configuration.model import adapter
from microsub.model.reader import ALL_SCOPES, OTHER_NAMES
from microsub.settings import SETTINGS

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
SCHEMA = ROOT / "microsub" / "configuration" / "backend.schema.json"
MADE = "<!-- Made by scripts/reference.py from the code. Edit the code, then run `make docs`. -->\n"

VERSIONS = """## Keys of your own

Keys that begin with `x-`, `_` or `//` are for notes. They mean nothing here and stay where they are.

## backend.json.versions

What is done in reader apps is written into the file; with a Redis of your own only where `MICROSUB_WRITE_BACK` is
`on`. Where it is, every version of the file is kept in the folder `backend.json.versions` beside it. A version is named
by the time (UTC) at which the server wrote or applied it and by the beginning of the SHA-256 of its content:
`20260131T081500.000000Z-0a1b2c3d.json`, or `….saved.json` where it was saved by hand.

The newest ten stay, and the newest ten that were saved by hand; of older ones the last of each hour stays for a day,
and the last of each day for 30 days. To go back, copy one over `backend.json`.

## An editor that was open for long

The server may write into the file while you have it open. When you save then, your edit counts, and what was done in
apps meanwhile stays: the server compares the file with the version in which the edit began, says so in the log, and
writes the rest into the file again. That version is, of those that only the server has changed since somebody last
saved the file, the one from which your file differs least. A file that says exactly what such a version said, and no
more, counts as going back to it, with a warning.
"""


def pages() -> dict[str, str]:
    """File name → text of every generated page."""
    return {
        "settings.md": settings_page(),
        "commands.md": commands_page(),
        "keys.md": keys_page(),
        "metrics.md": metrics_page(),
        "backend-json.md": backend_page(),
    }


def settings_page() -> str:
    """All settings: variable, flag, kind, default, meaning."""
    lines = [
        MADE,
        "# Settings of a process\n",
        "Every setting is an environment variable and a flag. A flag wins over a variable, and that over the default.",
        "What concerns users, channels and feeds stands in [backend.json](backend-json.md) instead.\n",
        "Commands that work on a server's data also read the file that `MICROSUB_ENV_FILE` names, or else",
        "`/etc/microsub.env` where that exists: lines of `NAME=value`, as systemd's `EnvironmentFile=` has them. What",
        "the environment has already stays. `serve`, `web`, `work` and `demo` read it only where `MICROSUB_ENV_FILE`",
        "names it.\n",
        "| variable | flag | kind | default | what it does |",
        "|---|---|---|---|---|",
    ]
    for setting in SETTINGS:
        default = f"`{setting.default}`" if setting.default else "–"
        kind = setting.kind.word + (": " + ", ".join(setting.kind.choices) if setting.kind.choices else "")
        lines.append(f"| `{setting.variable}` | `{setting.flag}` | {kind} | {default} | {setting.help} |")
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """The help text of every command; flags that are settings are named, since the page of settings explains them."""
    lines = [
        MADE,
        "# Commands\n",
        "Exit codes: 0 done, 1 failed, 2 wrong usage. Is `microsub` not found? See\n"
        "[where the command is](../README.md#where-the-command-is).\n",
        "Every command has `--help`, which explains all of its flags. Those that are settings of the process are only\n"
        "named here: [settings](settings.md) explains them once, with their environment variables and defaults.\n",
    ]
    with patch.object(groups, "COMMON", frozenset(setting.name for setting in SETTINGS)):
        for path, command in _walk(main, ("microsub",)):
            context = click.Context(command, info_name=" ".join(path), terminal_width=100, max_content_width=100)
            lines += [f"## {' '.join(path)}\n", "```text", _shortened(command.get_help(context)), "```\n"]
    return "\n".join(lines)


def _shortened(text: str) -> str:
    """A help page without what the reference page says once: `--help`, and what the common options are."""
    text = text.partition("\nCommon options:\n")[0]
    text = re.sub(r"^  --help +Show this message and exit\.\n?", "", text, flags=re.MULTILINE)
    text, _, named = text.partition("  Common options, explained by `microsub --help`:")
    text = text.rstrip().removesuffix("\nOptions:").rstrip()
    text = re.sub(r"^Options:\n\n", "", text, flags=re.MULTILINE)
    return text + (f"\n\n  Settings: {' '.join(named.split())}" if named else "")


def _walk(command: click.Command, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            found += _walk(command.commands[name], (*path, name))
    return found


def scopes_table() -> str:
    """Which scope which request needs, from the action table; it stands in the API reference."""
    lines = ["| scope | requests |", "|---|---|"]
    for scope in ALL_SCOPES:
        names = [
            f"{verb} `{action}`" + (f" `{method}`" if method else "")
            for (verb, action, method), entry in TABLE.items()
            if entry.scope == scope
        ]
        lines.append(f"| `{scope}` | {', '.join(names)} |")
    lines += [f"| `{other}` | the same as `{scope}` |" for other, scope in OTHER_NAMES.items()]
    return "\n".join(lines)


def keys_page() -> str:
    """Every Redis key with type, lifetime, writers and readers, as `redis.keys` describes it."""
    lines = [
        MADE,
        "# Redis keys\n",
        "`<…>` stands for a value. Braces are hash tags of Redis Cluster and part of the key.\n",
        "| key | what it is |",
        "|---|---|",
    ]
    for form, text in texts().values():
        shown = re.sub("<[^>]+>", lambda value: value[0].replace("_", " "), form)
        lines.append(f"| `{shown}` | {text} |")
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """Every metric that /metrics can show."""
    lines = [
        MADE,
        "# Metrics\n",
        "`GET /metrics` answers in the Prometheus text format, to requests from the machine itself alone unless",
        "[`MICROSUB_METRICS_NETWORKS` or `MICROSUB_METRICS_TOKEN`](settings.md) let others in; 403 for all others.",
        "Through a web server in front, the client's address counts.\n",
        "A web process shows what it has counted itself, what all workers have counted (they publish it in Redis every",
        "ten seconds), and what is in Redis: feeds, followers, users, workers. So of several web processes each shows",
        "the same of polls and feeds, and only its own requests. To have one web process answer for all processes of",
        "its machine, requests included, set `PROMETHEUS_MULTIPROC_DIR` to the same empty folder for all of them;",
        "workers then publish nothing in Redis. Empty the folder before a restart.\n",
    ]
    lines += ["| metric | kind | labels | what it counts |", "|---|---|---|---|"]
    for metric in vars(metrics).values():
        if not isinstance(metric, MetricWrapperBase):
            continue
        for family in metric.describe():
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = ", ".join(f"`{label}`" for label in metric._labelnames) or "–"
            lines.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |")
    return "\n".join(lines) + "\n"


def backend_page() -> str:
    """The structure of backend.json, from its JSON Schema."""
    lines = [
        MADE,
        "# backend.json\n",
        "Users, their channels and feeds, and settings. It is read at start and whenever it changes.",
        "The [JSON Schema](../../microsub/configuration/backend.schema.json) helps an editor that is pointed at it",
        'with `"$schema"`. `${NAME}` in any text is replaced by the environment variable of that name.\n',
    ]
    document = schema()
    definitions = document.get("$defs", {})
    for title, node in [("The file", document), *((name, definitions[name]) for name in definitions)]:
        if "properties" not in node:
            continue
        lines += [f"## {title}\n"]
        if node.get("description"):
            lines += [node["description"] + "\n"]
        lines += ["| key | type | default | what it is |", "|---|---|---|---|"]
        for key, value in node["properties"].items():
            default = f"`{json.dumps(value['default'])}`" if "default" in value else "–"
            lines.append(f"| `{key}` | {_type(value)} | {default} | {value.get('description', '')} |")
        lines.append("")
    lines += [VERSIONS]
    return "\n".join(lines)


def _type(node: dict[str, Any]) -> str:
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        return f"[{name}](#{name.lower()})"
    if "anyOf" in node:
        return " or ".join(map(_type, node["anyOf"]))
    if "enum" in node:
        return " or ".join(f"`{json.dumps(value)}`" for value in node["enum"])
    if node.get("type") == "array":
        return f"array of {_type(node['items'])}"
    entries = node.get("additionalProperties") or next(iter(node.get("patternProperties", {}).values()), None)
    return f"object of {_type(entries)}" if entries else str(node.get("type", "any"))


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of backend.json, for editors; definitions in the order of the file."""
    whole = _tidy(adapter().json_schema(ref_template="{model}"))
    definitions = whole.pop("$defs")
    ordered: dict[str, Any] = {}
    _collect(whole["properties"], definitions, ordered)
    note = {"type": "string", "description": "Where editors find this schema; the server ignores it."}
    whole["properties"] = {"$schema": note, **whole["properties"]}
    return {
        **whole,
        "title": "backend.json of microsub-server",
        "$defs": {_short(name): definitions[name] for name in ordered},
    }


def _tidy(node: Any) -> Any:
    """Without the titles that repeat names, and without defaults that only say that a key may be left out."""
    if isinstance(node, list):
        return [_tidy(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _tidy(one) for name, one in part.items()} if key in {"properties", "$defs"} else _tidy(part)
        for key, part in node.items()
        if key != "title" and not (key == "default" and part in (None, "", [], {}))
    } | ({"description": " ".join(node["description"].split())} if "description" in node else {})


def _collect(node: Any, definitions: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Name the references below `node` in their final form, and note in `found` what they lead to."""
    for part in node if isinstance(node, list) else list(node.values()) if isinstance(node, dict) else ():
        name = str(part.get("$ref")) if isinstance(part, dict) else ""
        if name in definitions:
            part["$ref"] = f"#/$defs/{_short(name)}"
            if name not in found:
                found[name] = definitions[name]
                _collect(definitions[name], definitions, found)
        _collect(part, definitions, found)


def _short(name: str) -> str:
    name = name.removesuffix("Config").removeprefix("Own")
    return name[:1].lower() + name[1:]


def schema_text() -> str:
    """The JSON Schema as it is shipped."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    """Write all generated pages, and the table of scopes into the API reference."""
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    api = REFERENCE / "api.md"
    before, _, rest = api.read_text(encoding="utf-8").partition("<!-- scopes: made from the action table -->")
    _, _, after = rest.partition("<!-- /scopes -->")
    table = f"<!-- scopes: made from the action table -->\n{scopes_table()}\n<!-- /scopes -->"
    api.write_text(before + table + after, encoding="utf-8")


if __name__ == "__main__":
    write()
