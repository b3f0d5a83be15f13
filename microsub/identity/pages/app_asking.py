"""The app that has sent somebody to the sign-in, as far as it can be named to people who aren't signed in yet.

Whoever makes a link chooses what it says, so the app's host stands first, which is where answers would go, and its name
is no more than what it calls itself. What can't be a good request names nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs

from microsub.errors import InvalidRequest, TooManyRequests
from microsub.identity.protocol.clients import ClientInfo, allowed_redirect, is_loopback_redirect, may_be_asked
from microsub.identity.protocol.identifiers import identifier, shown
from microsub.identity.protocol.requests import Query, read_target
from microsub.identity.provider.clients import App
from microsub.identity.web.visit import Visit

PATH = "/auth"
MAX_QUERY = 8192
MAX_FIELDS = 100


@dataclass(frozen=True, slots=True)
class AtTheDoor:
    """An app that wants to be let in. `host` is where it is at home, with a port that isn't the usual one; `address` is
    its identifier where that says more; `name` is what it calls itself, if it was found out.
    """

    host: str
    address: str
    name: str | None
    is_near: bool


def parameters(query: str) -> Query:
    """The query of an authorization request. Raises InvalidRequest where it is beyond all measure."""
    if len(query) > MAX_QUERY or query.count("&") > MAX_FIELDS:
        raise InvalidRequest("it is too long")
    return parse_qs(query)


async def app_behind(visit: Visit, next_: str) -> AtTheDoor | None:
    """Who asks, where the path to go on to after the sign-in is an app's request; None for others, and for a request
    whose answer wouldn't go to that app.
    """
    path, _, query = next_.partition("?")
    if path != PATH:
        return None
    try:
        target = read_target(parameters(query))
    except InvalidRequest:
        return None
    try:
        app = await visit.site.identity.granting.clients.find(target.client, visit.asker)
    except TooManyRequests:
        app = App(ClientInfo(target.client))
    known = as_asker(app, target.redirect)
    return at_the_door(known) if known is not None else None


def as_asker(app: App, redirect: str) -> App | None:
    """`app` as it may be shown where the answer goes to `redirect`; None where it must not go there. Pure.

    Programs that people run themselves listen at a loopback address with any port (RFC 8252, 7.3). Where the app
    publishes no addresses, or can't be asked for them, nothing proves that the program is this app. The answer stays on
    the person's own machine, so they may decide; but the program doesn't get the app's name and logo.
    """
    if allowed_redirect(app.info, redirect):
        return app
    if may_be_asked(app.info.id) and not app.info.redirect_uris and is_loopback_redirect(redirect):
        return App(ClientInfo(app.info.id), is_claimed=True)
    return None


def at_the_door(app: App) -> AtTheDoor:
    """How an app is shown. Pure."""
    where = identifier(app.info.id)
    host = where.host if where.port is None else f"{where.host}:{where.port}"
    is_plain = (where.scheme == "https" or where.is_loopback) and (where.path, where.query) == ("/", "")
    return AtTheDoor(host, "" if is_plain else shown(app.info.id), app.info.name, where.is_loopback)
