"""What an action gets and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from microsub.kit.http.params import Params
from microsub.model.reader import Credential, Grant
from microsub.surface import Services

Verb = Literal["GET", "POST"]
Reply = Mapping[str, Any] | bytes
"""A JSON object, or its bytes where they were ready already."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose token is valid for its action.

    `user` is the token's, `now` Unix time in seconds.
    """

    services: Services
    params: Params
    user: str
    now: float


@dataclass(frozen=True, slots=True)
class Action:
    """An action whose token is checked before it runs."""

    scope: str
    run: Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class FusedAction:
    """A reading action that checks the token in its own round trip, because it is frequent."""

    scope: str
    run: Callable[[Services, Params, Credential, float], Awaitable[tuple[Grant, Reply]]]


Key = tuple[Verb, str, str]
"""HTTP method, `action`, and `method` or an empty string."""

Table = Mapping[Key, Action | FusedAction]
"""The actions by what selects them."""
