"""`microsub conformance`: runs the conformance suite, which is a distribution of its own."""

from __future__ import annotations

import sys

import click

from microsub.cli.groups import Command
from microsub.cli.options import say

_PROGRAM = "microsub-conformance"
_COULD_NOT_RUN = 2
"""The suite's own exit code for that: 1 says that a server doesn't meet a requirement."""


class _Forwarded(Command):
    """A command whose options are those of another program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command`: nothing is an option."""
        return super().parse_args(ctx, ["--", *args])


@click.command(cls=_Forwarded, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def conformance(arguments: tuple[str, ...]) -> None:
    """Test a server of Microsub or of the Google Reader API.

    All arguments are those of `microsub-conformance`, which is installed on its own, and so is the exit code.

    Example: microsub conformance --greader https://reader.example/api/greader.php --user alice --password …
    """
    from importlib.metadata import entry_points

    for program in entry_points(group="console_scripts", name=_PROGRAM):
        program.load().main(list(arguments), prog_name="microsub conformance")
    say(f"microsub: the conformance suite isn't installed: its package is {_PROGRAM}", err=True)
    sys.exit(_COULD_NOT_RUN)
