"""Looking at a profile page from the command line, with or without the data of a server."""

from __future__ import annotations

from microsub.errors import NotFound
from microsub.identity.page_check.doctor import PageDoctor
from microsub.identity.page_check.report import PageReport, profile_page
from microsub.identity.page_check.server_findings import CheckedAgainst
from microsub.parsing.pool import ParsePool
from microsub.settings import Settings
from microsub.wiring.fetching import open_fetcher
from microsub.wiring.stores import open_stores


async def examine(settings: Settings, address: str) -> PageReport:
    """What is found at `address`, compared with the users of the server whose data the settings name, if there are any.

    Raises InvalidRequest, and what `open_stores` raises for data that can't be used.
    """
    here = await _here(settings)
    parser = ParsePool()
    try:
        async with open_fetcher(settings) as fetcher:
            doctor = PageDoctor(fetcher, parser, private=bool(settings.allow_private_networks), asks_itself=True)
            return await doctor.examine(address, here)
    finally:
        parser.close()


async def _here(settings: Settings) -> CheckedAgainst:
    try:
        async with open_stores(settings) as stores:
            users = await stores.accounts.users()
    except NotFound:
        return CheckedAgainst(settings.base_url)
    base = settings.public_url
    known = {user.name: user.me or profile_page(base, user.name) for user in users if user.disabled is None}
    return CheckedAgainst(base, known, everybody=True)
