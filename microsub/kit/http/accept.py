"""Which form of a reply a program would rather have (RFC 9110, section 12.5.1)."""

from __future__ import annotations

import re

from starlette.types import Scope

_FORM = "application/x-www-form-urlencoded"
_JSON = ("application/json", "application/*", "*/*")
_WEIGHT = re.compile(r";\s*q=([01](?:\.[0-9]{0,3})?)\s*(?:;|\Z)", re.IGNORECASE)


def prefers_form(scope: Scope) -> bool:
    """Whether the request would rather have an urlencoded form than JSON; JSON where it doesn't mind."""
    given = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"accept")
    weights: dict[str, float] = {}
    for part in given.split(","):
        weight = _WEIGHT.search(part)
        weights[part.partition(";")[0].strip().lower()] = float(weight[1]) if weight else 1.0
    json = next((weights[kind] for kind in _JSON if kind in weights), 0.0)
    return weights.get(_FORM, 0.0) > json
