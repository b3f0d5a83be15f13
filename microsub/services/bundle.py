"""What the HTTP surfaces need, in one value that the wiring builds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from microsub.model.reader import Credential
from microsub.services.being_seen import BeingSeen
from microsub.services.curating import Curating
from microsub.services.figures import Figures
from microsub.services.following import Following
from microsub.services.health import Health
from microsub.services.identity.bundle import Identity
from microsub.services.posts import Posts
from microsub.services.reading import Reading
from microsub.services.rules import RuleBook
from microsub.services.search import Search
from microsub.store.accounts import Accounts
from microsub.store.servicetokens import ServiceTokens


@dataclass(frozen=True, slots=True)
class Services:
    """All use cases of one process.

    `clock` gives the Unix time in seconds; tests put their own there. `changed` is called after a change of what
    backend.json declares, so that it is soon written back; it must not block.
    """

    accounts: Accounts
    reading: Reading
    curating: Curating
    following: Following
    rules: RuleBook
    search: Search
    health: Health
    figures: Figures
    posts: Posts
    service_tokens: ServiceTokens
    identity: Identity
    clock: Callable[[], float] = time.time
    changed: Callable[[], None] = lambda: None
    token_use: BeingSeen[Credential] | None = None
