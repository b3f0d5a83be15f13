"""The page on which people decide what an app may do, and what becomes of their answer.

Specs: https://indieauth.spec.indieweb.org/#authorization, RFC 6749 (section 4.1), RFC 9207, RFC 9700 (section 4).
Anybody can be a client here, so nobody's browser is sent anywhere before the person in front of it has pressed a
button: not for errors either, which would make this server forward to whatever address an app names.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import InvalidRequest, OAuthRefused, ProfileError
from microsub.identity.pages.app_asking import PATH, as_asker, parameters
from microsub.identity.pages.scopetexts import concerns_posting, offered
from microsub.identity.protocol.me import alike
from microsub.identity.protocol.requests import Asked, answer_url, read_asked, read_target
from microsub.identity.provider.clients import App
from microsub.identity.provider.own import is_own
from microsub.identity.provider.provider import canonical
from microsub.identity.web.routing import form, page
from microsub.identity.web.site import Site
from microsub.identity.web.visit import Visit
from microsub.kit.http.address import origin

CONSENT = "/auth/consent"
APPS_END = "/account/apps/end"

_FIELDS = (
    *("client_id", "redirect_uri", "state", "response_type"),
    *("scope", "code_challenge", "code_challenge_method", "me"),
)


def routes(site: Site) -> list[Route]:
    """The routes of this module."""
    return [page(site, PATH, _ask), form(site, CONSENT, _answer), form(site, APPS_END, _end)]


async def _ask(visit: Visit) -> Response:
    """Show who asks, and for what."""
    try:
        query = parameters(visit.request.url.query)
        target = read_target(query)
    except InvalidRequest as problem:
        return _not_served(visit, problem.description)
    hint = query.get("me", [""])[0]
    session = visit.require_session(**({"me": hint} if hint else {}))
    clients = visit.site.identity.granting.clients
    if clients.would_ask(target.client):
        await visit.site.identity.asking.app(session.user, visit.now)
    found = await clients.find(target.client, visit.asker)
    app = as_asker(found, target.redirect)
    if app is None:
        return _not_served(visit, _wrong_target(found, target.redirect))
    try:
        asked = read_asked(query)
    except OAuthRefused as problem:
        return _told(visit, app, target, problem)
    granted = await visit.site.identity.granting.apps(session.user)
    return visit.page(
        "authorize.html",
        form_to=_form_targets(asked.redirect),
        images=["data:"] if app.logo else [],
        app=app,
        place=_place(asked.redirect),
        scopes=offered(asked.scopes, posting=await _posts_elsewhere(visit, asked, session.me)),
        before=next((one.last for one in granted if one.client == asked.client), None),
        fields={name: query[name][0] for name in _FIELDS if name in query},
        other=asked.me if asked.me and not alike(asked.me, session.me) else "",
        action=CONSENT,
    )


async def _answer(visit: Visit) -> Response:
    """The person has pressed a button."""
    session, granting = visit.require_session(), visit.site.identity.granting
    query = {name: visit.form.all(name) for name in _FIELDS if name in visit.form}
    try:
        asked = read_asked(query)
    except OAuthRefused as problem:
        raise InvalidRequest(problem.description) from None
    if granting.clients.would_ask(asked.client):
        await visit.site.identity.asking.app(session.user, visit.now)
    found = await granting.clients.find(asked.client, visit.asker)
    app = as_asker(found, asked.redirect)
    if app is None:
        return _not_served(visit, _wrong_target(found, asked.redirect))
    answer: dict[str, str | None] = {"state": asked.state, "iss": visit.base}
    if visit.form.text("decision") != "allow":
        granting.deny(session.user, asked)
        refusal = {"error": "access_denied", "error_description": "the person has refused"}
        return visit.leave(answer_url(asked.redirect, {**refusal, **answer}))
    code = await granting.agree(session.user, asked, app, visit.form.all("grant"), visit.now)
    return visit.leave(answer_url(asked.redirect, {"code": code, **answer, "me": _me_told(asked.me, session.me)}))


async def _end(visit: Visit) -> Response:
    """Revoke the access of an app."""
    session = visit.require_session()
    await visit.site.identity.granting.revoke_app(session.user, visit.form.text("client"))
    return visit.go("/account", done="app")


async def _posts_elsewhere(visit: Visit, asked: Asked, me: str) -> bool:
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


def _not_served(visit: Visit, why: str) -> Response:
    """A request that is answered to nobody but the person: where it came from can't be relied on."""
    text = f"An app has sent you here, but its request can't be used: {why}. {_NOT_YOURS}"
    return visit.page("error.html", 400, title="The app's request can't be used", text=text)


def _told(visit: Visit, app: App, target: Asked, problem: OAuthRefused) -> Response:
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
