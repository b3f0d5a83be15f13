"""The composition root: from settings to clients, from clients to stores, from stores to services and processes.

Everything is built here and passed on by argument. Each `open_…` is a context manager that takes down, in reverse,
what it put up. A module is imported when one of its names is first used: a command that makes a token needs no parser.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from microsub.wiring.backend import applier, clashes, configuration, open_configuration
    from microsub.wiring.examining import examine
    from microsub.wiring.fetching import (
        COPIES_KEPT,
        open_caching_fetcher,
        open_completing,
        open_feed_cache,
        open_fetcher,
    )
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
    "applier",
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

_NAMES = {
    "backend": ("applier", "clashes", "configuration", "open_configuration"),
    "examining": ("examine",),
    "fetching": ("COPIES_KEPT", "open_caching_fetcher", "open_completing", "open_feed_cache", "open_fetcher"),
    "local": ("make_local",),
    "people": (
        *("GREETING", "add_user", "change_me", "end_sessions", "greeting_token"),
        *("remove_user", "require_user", "restore_user"),
    ),
    "stores": ("Stores", "fan_out", "following", "open_stores", "warn_of_losses"),
    "upkeep": ("checking", "import_ekster", "rebuilding", "retention", "sweeping"),
    "web": ("open_app",),
    "worker": ("open_worker", "poll_now", "running_worker", "worker_to_come"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'microsub.wiring' has no attribute '{name}'")
    return getattr(import_module(f"microsub.wiring.{_MODULES[name]}"), name)
