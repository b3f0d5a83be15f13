"""The page on which people decide what an app may do, and what becomes of their answer.

Specs: https://indieauth.spec.indieweb.org/#authorization, RFC 6749 (section 4.1), RFC 9207, RFC 9700 (section 4).
Anybody can be a client here, so nobody's browser is sent anywhere before the person in front of it has pressed a
button: not for errors either, which would make this server forward to whatever address an app names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import InvalidRequest, OAuthRefused, ProfileError, TooManyRequests
from microsub.identity.protocol.clients import ClientInfo, allowed_redirect, is_loopback_redirect, may_be_asked
from microsub.identity.protocol.identifiers import alike, shown
from microsub.identity.protocol.metadata import is_own
from microsub.identity.protocol.requests import AuthorizationRequest, Query, answer_url, read_asked, read_target
from microsub.identity.provider.clients import App
from microsub.identity.provider.provider import canonical
from microsub.identity.web.routing import form, page
from microsub.identity.web.site import PageSite
from microsub.identity.web.visit import PageVisit
from microsub.kit.http.address import origin
from microsub.kit.identifiers import identifier
from microsub.model.scopes import ALL_SCOPES, OTHER_NAMES

_HERE = {
    "read": "Read your channels and posts, search, and mark posts as read.",
    "follow": "Follow and unfollow feeds.",
    "mute": "Mute and unmute people.",
    "block": "Block and unblock people. The posts of blocked people are removed.",
    "channels": "Make, rename, order and delete channels.",
}
_AT_ONES_SITE = {
    "create": "Publish posts on your site.",
    "draft": "Save drafts of posts on your site.",
    "update": "Change posts on your site.",
    "delete": "Delete posts on your site.",
    "undelete": "Restore deleted posts on your site.",
    "media": "Upload pictures and other files to your site.",
    "post": "Publish posts on your site.",
}
_PROFILE_TEXT = "See the name of your account here."


@dataclass(frozen=True, slots=True)
class ScopeText:
    """A permission in words."""

    name: str
    text: str


def offered_scopes(scopes: Iterable[str], *, posting: bool) -> list[ScopeText]:
    """The permissions among `scopes` that can be given, those of this server first; the others mean nothing here.

    `posting`: those to post at the person's own site are among them, because their page names a place to post to.
    """
    asked = list(scopes)
    here = [ScopeText(name, text) for name in asked if (text := _scope_text(name))]
    there = [ScopeText(name, text) for name in asked if (text := _AT_ONES_SITE.get(name))]
    return here + there if posting else here


def concerns_posting(scopes: Iterable[str]) -> bool:
    """Whether a permission to post at the person's own site is among them."""
    return not _AT_ONES_SITE.keys().isdisjoint(scopes)


def token_scopes() -> list[ScopeText]:
    """The permissions that a token of this server can have."""
    return [ScopeText(name, _HERE[name]) for name in ALL_SCOPES]


def _scope_text(name: str) -> str | None:
    return _PROFILE_TEXT if name == "profile" else _HERE.get(OTHER_NAMES.get(name, name))


AUTHORIZATION_PATH = "/auth"
MAX_QUERY = 8192
MAX_FIELDS = 100


@dataclass(frozen=True, slots=True)
class RequestingApp:
    """The app that asks for access. `host` is where it is at home, with a port that isn't the usual one; `address` is
    its identifier where that says more; `name` is what it calls itself, if it was found out.
    """

    host: str
    address: str
    name: str | None
    is_near: bool


def request_parameters(query: str) -> Query:
    """The query of an authorization request. Raises InvalidRequest where it is too long."""
    if len(query) > MAX_QUERY or query.count("&") > MAX_FIELDS:
        raise InvalidRequest("it is too long")
    return parse_qs(query)


async def app_behind(visit: PageVisit, next_: str) -> RequestingApp | None:
    """Who asks, where the path to go on to after the sign-in is an app's request; None for others, and for a request
    whose answer wouldn't go to that app.
    """
    path, _, query = next_.partition("?")
    if path != AUTHORIZATION_PATH:
        return None
    try:
        target = read_target(request_parameters(query))
    except InvalidRequest:
        return None
    try:
        app = await visit.site.identity.provider.clients.find(target.client, visit.asker)
    except TooManyRequests:
        app = App(ClientInfo(target.client))
    known = shown_app(app, target.redirect)
    return requesting_app(known) if known is not None else None


def shown_app(app: App, redirect: str) -> App | None:
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


def requesting_app(app: App) -> RequestingApp:
    """How an app is shown. Pure."""
    where = identifier(app.info.id)
    host = where.host if where.port is None else f"{where.host}:{where.port}"
    is_plain = (where.scheme == "https" or where.is_loopback) and (where.path, where.query) == ("/", "")
    return RequestingApp(host, "" if is_plain else shown(app.info.id), app.info.name, where.is_loopback)


CONSENT = "/auth/consent"
APPS_END = "/account/apps/end"

_FIELDS = (
    *("client_id", "redirect_uri", "state", "response_type"),
    *("scope", "code_challenge", "code_challenge_method", "me"),
)


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [page(site, AUTHORIZATION_PATH, _ask), form(site, CONSENT, _answer), form(site, APPS_END, _end)]


async def _ask(visit: PageVisit) -> Response:
    """Show who asks, and for what."""
    try:
        query = request_parameters(visit.request.url.query)
        target = read_target(query)
    except InvalidRequest as problem:
        return _not_served(visit, problem.description)
    hint = query.get("me", [""])[0]
    session = visit.require_session(**({"me": hint} if hint else {}))
    clients = visit.site.identity.provider.clients
    if clients.would_ask(target.client):
        await visit.site.identity.consents.count(session.user, visit.now)
    found = await clients.find(target.client, visit.asker)
    app = shown_app(found, target.redirect)
    if app is None:
        return _not_served(visit, _wrong_target(found, target.redirect))
    try:
        asked = read_asked(query)
    except OAuthRefused as problem:
        return _told(visit, app, target, problem)
    granted = await visit.site.identity.provider.apps(session.user)
    return visit.page(
        "authorize.html",
        form_to=_form_targets(asked.redirect),
        images=["data:"] if app.logo else [],
        app=app,
        place=_place(asked.redirect),
        scopes=offered_scopes(asked.scopes, posting=await _posts_elsewhere(visit, asked, session.me)),
        before=next((one.last for one in granted if one.client == asked.client), None),
        fields={name: query[name][0] for name in _FIELDS if name in query},
        other=asked.me if asked.me and not alike(asked.me, session.me) else "",
        action=CONSENT,
    )


async def _answer(visit: PageVisit) -> Response:
    """The person has pressed a button."""
    session, provider = visit.require_session(), visit.site.identity.provider
    query = {name: visit.form.all(name) for name in _FIELDS if name in visit.form}
    try:
        asked = read_asked(query)
    except OAuthRefused as problem:
        raise InvalidRequest(problem.description) from None
    if provider.clients.would_ask(asked.client):
        await visit.site.identity.consents.count(session.user, visit.now)
    found = await provider.clients.find(asked.client, visit.asker)
    app = shown_app(found, asked.redirect)
    if app is None:
        return _not_served(visit, _wrong_target(found, asked.redirect))
    answer: dict[str, str | None] = {"state": asked.state, "iss": visit.base}
    if visit.form.text("decision") != "allow":
        provider.deny(session.user, asked)
        refusal = {"error": "access_denied", "error_description": "the person has refused"}
        return visit.leave(answer_url(asked.redirect, {**refusal, **answer}))
    code = await provider.agree(session.user, asked, app, visit.form.all("grant"), visit.now)
    return visit.leave(answer_url(asked.redirect, {"code": code, **answer, "me": _me_told(asked.me, session.me)}))


async def _end(visit: PageVisit) -> Response:
    """Revoke the access of an app."""
    session = visit.require_session()
    await visit.site.identity.provider.revoke_app(session.user, visit.form.text("client"))
    return visit.go("/account", done="app")


async def _posts_elsewhere(visit: PageVisit, asked: AuthorizationRequest, me: str) -> bool:
    """Whether the app wants to post, and the person's page names a place for that, which may trust our tokens."""
    if not concerns_posting(asked.scopes) or is_own(me, visit.base):
        return False
    try:
        profile = await visit.site.identity.profiles.discover(me)
    except (InvalidRequest, ProfileError):
        return False
    return profile.endpoints.micropub is not None


def _me_told(asked: str, me: str) -> str:
    """`me` for the redirect, which older apps read before anything else. Some look the person up by it letter for
    letter, so it is written as the app wrote it where that can be nobody else.
    """
    return asked if asked and alike(asked, me) else canonical(me)


# --- what can't be served ------------------------------------------------------------------------------------------

_NOT_YOURS = "This is the app's mistake, not yours."


def _not_served(visit: PageVisit, why: str) -> Response:
    """A request that is answered to nobody but the person: where it came from can't be relied on."""
    text = f"An app has sent you here, but its request can't be used: {why}. {_NOT_YOURS}"
    return visit.page("error.html", 400, title="The app's request can't be used", text=text)


def _told(visit: PageVisit, app: App, target: AuthorizationRequest, problem: OAuthRefused) -> Response:
    """A request with a fault that the app can be told, if the person wishes."""
    answer = {"error": problem.code, "error_description": _plain(problem.description)}
    back = answer_url(target.redirect, {**answer, "state": target.state, "iss": visit.base})
    return visit.page(
        "authorize_refused.html", 400, app=app, why=problem.description, place=_place(target.redirect), back=back
    )


def _plain(text: str) -> str:
    """A description in the characters that RFC 6749 allows (section 4.1.2.1)."""
    return "".join(char if 0x20 <= ord(char) <= 0x7E and char not in '"\\' else "'" for char in text)


def _wrong_target(app: App, redirect: str) -> str:
    wants = f"it wants you to be sent to '{redirect[:200]}', which"
    if app.answered:
        return f"{wants} '{app.info.id}' doesn't name as an address of its own"
    return f"{wants} is another place than '{app.info.id}', and that could not be asked whether this is right"


# --- where people are sent -----------------------------------------------------------------------------------------


def _place(redirect: str) -> str:
    """Where somebody ends up, in few words: an origin, or an app on their own machine."""
    scheme = redirect.partition(":")[0].lower()
    return origin(redirect) if scheme in {"http", "https"} else f"an app on this device ({scheme}:)"


def _form_targets(redirect: str) -> list[str]:
    """What the policy of the page has to let the form lead to.

    Chrome looks at every redirect that follows, and apps send people on to further addresses of theirs.
    """
    return [f"{redirect.partition(':')[0].lower()}:"]
