"""The command `microsub`: serving, accounts, configuration, feeds, upkeep, conformance. Each group is a module."""

from __future__ import annotations

import click

import microsub
from microsub.cli import (
    accounts,
    checking,
    configuration,
    examining,
    feeds,
    importing,
    local_sign_in,
    pipeline,
    services,
    serving,
)
from microsub.conformance.command import conformance


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(microsub.__version__, prog_name="microsub")
def main() -> None:
    """A multi-user Microsub server: follows feeds, keeps timelines in Redis, serves them to reader apps.

    Every flag can also be given as an environment variable, named in brackets.
    """


main.add_command(serving.serve)
main.add_command(serving.web)
main.add_command(serving.work)
main.add_command(serving.demo)
accounts.token.add_command(services.service)
main.add_command(accounts.token)
accounts.user.add_command(local_sign_in.user_invite)
accounts.user.add_command(local_sign_in.user_password)
main.add_command(accounts.user)
main.add_command(configuration.config)
main.add_command(feeds.fetch)
main.add_command(feeds.parse)
main.add_command(feeds.poll)
main.add_command(feeds.cleanup)
main.add_command(pipeline.rebuild)
main.add_command(pipeline.events)
main.add_command(pipeline.deadletter)
main.add_command(checking.check)
main.add_command(examining.doctor)
main.add_command(importing.import_group)
main.add_command(conformance)
