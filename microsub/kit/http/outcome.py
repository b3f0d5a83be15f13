"""What the log is told of a request that failed."""

from __future__ import annotations

import structlog
from starlette.types import Scope

from microsub.errors import MicrosubError, StoreError
from microsub.kit.http.params import shown
from microsub.kit.http.responses import ErrorReply

log = structlog.get_logger()


def log_error(error: Exception, reply: ErrorReply, scope: Scope, action: str) -> None:
    """What a client sent may hold secrets, so of a refused request only the kind of refusal is logged."""
    entry = log.bind(path=shown(scope["path"]), verb=scope["method"], action=shown(action), status=reply.status)
    if not isinstance(error, MicrosubError):
        entry.error("request failed", exc_info=error)
    elif isinstance(error, StoreError):
        entry.error("store failed", kind=type(error).__name__, detail=str(error))
    else:
        entry.info("request refused", code=reply.code)
