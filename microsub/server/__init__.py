"""The composition root: settings → clients → stores → services and processes.

Everything is built here and passed as arguments. Each `open_…` is a context manager that closes, in reverse order, what
it opened. A module is imported on first use, as in `server.stores.open_stores`: a command that creates a token doesn't
need a parser.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from microsub.server import backend as backend
    from microsub.server import fetching as fetching
    from microsub.server import stores as stores
    from microsub.server import web as web
    from microsub.server import worker as worker


def __getattr__(module: str) -> object:
    try:
        return import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{module}":
            raise
        raise AttributeError(f"module '{__name__}' has no attribute '{module}'") from None
