"""The composition root: from settings to clients, from clients to stores, from stores to services and processes.

Everything is built here and passed on by argument. Each `open_…` is a context manager that takes down, in reverse,
what it put up.
"""

from __future__ import annotations

from microsub.wiring.configuration import clashes, configuration, open_configuration
from microsub.wiring.examining import examine
from microsub.wiring.fetching import COPIES_KEPT, open_caching_fetcher, open_completing, open_feed_cache, open_fetcher
from microsub.wiring.local import make_local
from microsub.wiring.people import (
    GREETING,
    add_user,
    change_me,
    end_sessions,
    greeting_token,
    remove_user,
    require_user,
    restore_user,
)
from microsub.wiring.stores import Stores, fan_out, following, open_stores, warn_of_losses
from microsub.wiring.upkeep import checking, import_ekster, rebuilding, retention, sweeping
from microsub.wiring.web import open_app
from microsub.wiring.worker import open_worker, poll_now, running_worker, worker_to_come

__all__ = [
    "COPIES_KEPT",
    "GREETING",
    "Stores",
    "add_user",
    "change_me",
    "checking",
    "clashes",
    "configuration",
    "end_sessions",
    "examine",
    "fan_out",
    "following",
    "greeting_token",
    "import_ekster",
    "make_local",
    "open_app",
    "open_caching_fetcher",
    "open_completing",
    "open_configuration",
    "open_feed_cache",
    "open_fetcher",
    "open_stores",
    "open_worker",
    "poll_now",
    "rebuilding",
    "remove_user",
    "require_user",
    "restore_user",
    "retention",
    "running_worker",
    "sweeping",
    "warn_of_losses",
    "worker_to_come",
]
