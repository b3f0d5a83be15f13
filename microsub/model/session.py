"""A signed-in user, and how long browsers and confirmations last. In seconds."""

from __future__ import annotations

from dataclasses import dataclass

from microsub.base.clock import DAY

SESSION = 30 * DAY
"""From the last visit until a session ends."""
CONFIRMATION = 600
"""How long after a sign-in or a confirmation a user may change password and passkeys."""
KNOWN_BROWSER = 400 * DAY
"""How long a browser stays known after a user has signed in with it."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The sender of a request: user, profile URL, session id, way of the sign-in, and whether they are an admin now.

    `cookie` is the new value of the cookie if it has changed, otherwise None. `since` is the Unix time of the sign-in.
    `display`, `searches`, `playing`, `shortcuts` and `services` are choices of the user for all browsers, as pages keep
    them; empty for none. `read_everywhere`: whether a post that is read in one channel is read in all.
    """

    user: str
    me: str
    id: str
    how: str
    since: float
    admin: bool
    cookie: str | None = None
    display: str = ""
    searches: str = ""
    playing: str = ""
    read_everywhere: bool = False
    shortcuts: str = ""
    services: str = ""
