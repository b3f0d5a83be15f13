"""The token of a request, where its header has it (RFC 6750, section 2.1)."""

from __future__ import annotations

from starlette.types import Scope


def bearer(scope: Scope) -> str | None:
    """The token in `Authorization: Bearer …`, the scheme in any case; None where there is none."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer":
                return str(token.strip().decode("latin-1"))
    return None
