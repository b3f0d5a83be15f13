"""The account page: apps, tokens, sessions, and signing out."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import InvalidRequest, NotFound, RequestError
from microsub.identity.page_check.report import profile_page
from microsub.identity.page_check.server_findings import ENDPOINT
from microsub.identity.pages import credentials
from microsub.identity.pages.consent import token_scopes
from microsub.identity.protocol.metadata import is_own
from microsub.identity.web.routing import form, page
from microsub.identity.web.site import PageSite
from microsub.identity.web.visit import PageVisit

PATH = "/account"
TOKENS = "/account/tokens"

DAYS = {"30": 30, "90": 90, "365": 365, "": None}
"""For how many days a token may be good, as the form has it."""

DONE = {
    "app": "The app’s access is revoked.",
    "token": "The token is revoked.",
    "session": "That browser is signed out.",
}
"""What is said on the page after a form did it."""


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, PATH, _account),
        form(site, TOKENS, _make_token),
        form(site, f"{TOKENS}/end", _end_token),
        form(site, "/sign-out", _sign_out),
        form(site, "/account/sessions/end", _end_one),
        form(site, "/account/sessions/end-all", _end_all),
    ]


async def _account(visit: PageVisit) -> Response:
    return await _page(visit)


async def _page(visit: PageVisit, problem: RequestError | None = None) -> Response:
    session, provider = visit.require_session(), visit.site.identity.provider
    return visit.page(
        "account.html",
        problem.status if problem else 200,
        sessions=await visit.site.identity.sessions.all(session.user),
        apps=await provider.apps(session.user),
        tokens=await provider.given_tokens(session.user),
        scopes=token_scopes(),
        is_lent=session.me.endswith(profile_page("", session.user)) and is_own(session.me, visit.base),
        done=DONE.get(visit.query.get("done", ""), ""),
        confirmed=await credentials.is_confirmed(visit, session),
        confirming=credentials.PATH,
        problem=problem,
    )


async def _make_token(visit: PageVisit) -> Response:
    session, now = visit.require_session(), visit.now
    fields, provider = visit.form, visit.site.identity.provider
    try:
        days = DAYS[fields.text("days")]
    except KeyError:
        return await _page(visit, InvalidRequest("choose for how long the token is good"))
    try:
        if days is None:
            await credentials.confirmed(visit)
        token = await provider.make_token(session.user, fields.text("name"), fields.all("scope"), days, now)
    except (InvalidRequest, credentials.ConfirmationNeeded) as problem:
        return await _page(visit, problem)
    return visit.page("token.html", token=token, name=fields.text("name"), endpoint=visit.base + ENDPOINT)


async def _end_token(visit: PageVisit) -> Response:
    session = visit.require_session()
    if not await visit.site.identity.provider.end_token(session.user, visit.form.text("token")):
        raise NotFound("That token has ended already.")
    return visit.go(PATH, done="token")


async def _sign_out(visit: PageVisit) -> Response:
    await visit.sign_out()
    return visit.page("signed-out.html", title="You are signed out", text="This browser is signed out. Others are not.")


async def _end_one(visit: PageVisit) -> Response:
    session = visit.require_session()
    id_ = visit.form.text("session")
    if id_ == session.id:
        return await _sign_out(visit)
    if not await visit.site.identity.sessions.end(session.user, id_):
        raise NotFound("That session has ended already.")
    return visit.go(PATH, done="session")


async def _end_all(visit: PageVisit) -> Response:
    session = visit.require_session()
    ended = await visit.site.identity.sessions.end_all(session.user)
    await visit.sign_out()
    text = f"All {ended} browsers" if ended > 1 else "This browser, the only one,"
    return visit.page(
        "signed-out.html",
        title="You are signed out everywhere",
        text=f"{text} signed out of your account. Apps that you allowed keep their access until you revoke it.",
    )
