"""The one way in which commands print: what publishers and users wrote never controls the terminal."""

from __future__ import annotations

import click
import orjson

from microsub.model.plaintext import escaped_json, escaped_lines


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print `text`, which may have several lines, to standard output, or to standard error with `err`.

    A value of others that could forge a line by a break in it goes through `plaintext.escaped` or `on_one_line` first.
    """
    click.echo(escaped_lines(text), err=err, nl=nl)


def say_json(value: object, *, indent: bool = False) -> None:
    """Print `value` as JSON, in one line or indented."""
    click.echo(escaped_json(orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode()))


def clear_line() -> None:
    """Make room where a progress bar stands, on standard error."""
    click.echo("\r\033[K", nl=False, err=True)
