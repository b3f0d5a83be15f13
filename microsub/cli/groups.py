"""Lookup of commands, and the layout of their help.

A command's module is imported only when the command is run or shown. It imports what its work needs inside functions,
so help and short commands start quickly.
"""

from __future__ import annotations

import textwrap
from collections import UserDict
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

WIDTH = 100
"""Columns of a help page."""

COMMON = frozenset({"backend", "data_dir", "redis_url", "redis_replicas", "log_format", "log_level"})
"""Settings that most commands take. `microsub --help` explains them; a command's own help only names them."""


class Command(click.Command):
    """A command whose help page only names the common options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Command`."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        own = [record for one in options if one.name not in COMMON and (record := one.get_help_record(ctx))]
        if own:
            with formatter.section("Options"):
                formatter.write_dl(own)
        if common := [one.opts[0] for one in options if one.name in COMMON]:
            formatter.write_paragraph()
            text = f"Common options, explained by `microsub --help`: {', '.join(common)}"
            indent = " " * 2
            formatter.write(
                textwrap.fill(
                    text, formatter.width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
                )
                + "\n"
            )


class Group(click.Group):
    """A group that lists each command with a whole sentence."""

    command_class = Command
    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries(ctx, self.list_commands(ctx))))

    def summaries(self, ctx: click.Context, names: list[str]) -> Iterator[tuple[str, str]]:
        """Each command's name and the first sentence of its help."""
        for name in names:
            if (command := self.get_command(ctx, name)) is not None and not command.hidden:
                yield name, command.get_short_help_str(limit=WIDTH)


class _Places(UserDict[str, Any]):
    """Commands by name, each loaded from its `module:attribute` on first use."""

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = self.data[name].partition(":")
        return getattr(import_module(module), attribute)


class Sections(Group):
    """The top of the command line: section → name → (`module:attribute`, first sentence of the command's help).

    The sentences stand there so that `microsub --help` loads no command. `common` are the options that most commands
    take, as rows of the help page.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, tuple[str, str]]],
        common: list[tuple[str, str]],
        **kwargs: Any,
    ) -> None:
        places = {name: place for names in sections.values() for name, (place, _) in names.items()}
        super().__init__(*args, **kwargs)
        self.commands = _Places(places)
        self._sections = sections
        self._common = common

    def list_commands(self, ctx: click.Context) -> list[str]:
        """See `click.Group`."""
        return [name for names in self._sections.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`."""
        longest = max(map(len, self.list_commands(ctx)))
        for title, names in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), text) for name, (_, text) in names.items()])
        with formatter.section("Common options"):
            formatter.write_dl(self._common)
