"""The account page: apps, tokens, sessions, signing out.

And the page for password and passkeys, which can be changed only after a confirmation.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.texts import N_, Sentence
from microsub.identity.local_sign_in import LocalSignIn
from microsub.identity.pages.consent import token_scopes
from microsub.identity.pages.visits import (
    can_use_passkeys,
    chosen_password,
    has_hosted_profile,
    passkey_answer,
    passkey_question,
    sign_in_as,
    sign_in_origin,
    sign_out,
)
from microsub.identity.protocol.documents import ENDPOINT, microsub_line
from microsub.identity.provider import GrantedApp
from microsub.model.reader import POSTING_SCOPES
from microsub.web.routes import Handler, form, page
from microsub.web.visit import PageSite, PageVisit

ACCOUNT = "/account"
TOKENS = "/account/tokens"
CREDENTIALS = "/account/sign-in"

DAYS = {"30": 30, "90": 90, "365": 365, "": None}
"""Lifetimes of a token in days, as in the form."""

DONE = {
    "app": N_("App access revoked."),
    "token": N_("Token revoked."),
    "session": N_("That browser is signed out."),
}
"""Messages on the page after a successful form."""


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    credentials: dict[str, Handler] = {
        "/confirm": _confirm,
        "/confirm/passkey/begin": _begin_confirming,
        "/confirm/passkey": _confirm_by_passkey,
        "/password": _set_password,
        "/passkeys/begin": _begin_passkey,
        "/passkeys": _add_passkey,
        "/passkeys/name": _rename_passkey,
        "/passkeys/remove": _remove_passkey,
    }
    return [
        page(site, ACCOUNT, _account),
        form(site, TOKENS, _make_token, _account),
        form(site, f"{TOKENS}/end", _end_token),
        form(site, "/account/apps/end", _end_app),
        form(site, "/sign-out", _sign_out),
        form(site, "/account/sessions/end", _end_one),
        form(site, "/account/sessions/end-all", _end_all),
        page(site, CREDENTIALS, _credentials),
        *(form(site, CREDENTIALS + path, handler, _credentials) for path, handler in credentials.items()),
    ]


async def _account(visit: PageVisit) -> Response:
    session, identity = visit.require_session(), visit.site.identity
    apps = await identity.provider.apps(session.user)
    return visit.page(
        "account.html",
        sessions=await identity.sessions.all(session.user),
        apps=apps,
        targets=await _targets(visit, session.user, apps),
        tokens=await identity.provider.given_tokens(session.user),
        posting=frozenset(POSTING_SCOPES),
        scopes=token_scopes(search=visit.site.services.post_search is not None),
        is_hosted=has_hosted_profile(visit),
        line=microsub_line(visit.base, session.user).html,
        endpoint=visit.base + ENDPOINT,
        done=DONE.get(visit.query.get("done", ""), ""),
        confirmed=await visit.is_confirmed(),
        confirming=CREDENTIALS,
    )


async def _targets(visit: PageVisit, user: str, apps: Sequence[GrantedApp]) -> dict[str, list[str]]:
    """The names of the channels into which each app can post, by its `client_id`."""
    services = visit.site.services
    used = await services.sources.channels_of(user, frozenset().union(*(app.sources for app in apps)))
    names = {channel.uid: channel.name for channel in await services.channels.list(user)} if used else {}
    return {app.client: sorted({names[uid] for one in app.sources if (uid := used.get(one)) in names}) for app in apps}


async def _make_token(visit: PageVisit) -> Response:
    session, name = visit.require_session(), visit.form.text("name")
    if visit.form.text("days") not in DAYS:
        raise InvalidRequest(N_("choose an expiration for the token"))
    days = DAYS[visit.form.text("days")]
    if days is None:
        await visit.require_confirmed()
    scopes = visit.form.getlist("scope")
    token = await visit.site.identity.provider.make_token(session.user, name, scopes, days, visit.now)
    return visit.page("token.html", token=token, name=name, endpoint=visit.base + ENDPOINT)


async def _end_token(visit: PageVisit) -> Response:
    session = visit.require_session()
    if not await visit.site.identity.provider.end_token(session.user, visit.form.text("token")):
        raise NotFound(N_("That token is already revoked or expired."))
    return visit.go(ACCOUNT, done="token")


async def _end_app(visit: PageVisit) -> Response:
    session = visit.require_session()
    await visit.site.identity.provider.revoke_app(session.user, visit.form.text("client"))
    return visit.go(ACCOUNT, done="app")


async def _sign_out(visit: PageVisit) -> Response:
    await sign_out(visit.site.identity.sessions, visit)
    text = N_("This browser is signed out. Other browsers stay signed in.")
    return visit.message(N_("You are signed out"), text, "signed out")


async def _end_one(visit: PageVisit) -> Response:
    session, id_ = visit.require_session(), visit.form.text("session")
    if not await visit.site.identity.sessions.end(session.user, id_):
        raise NotFound(N_("That session has already ended."))
    return visit.go(ACCOUNT, done="session")


async def _end_all(visit: PageVisit) -> Response:
    session = visit.require_session()
    ended = await visit.site.identity.sessions.end_all(session.user)
    await sign_out(visit.site.identity.sessions, visit)
    text = N_("Signed out of your account in this browser, the only one.")
    if ended > 1:
        text = Sentence("Signed out of your account in all {number} browsers.", number=ended)
    apps = N_("Authorized apps keep their access until you revoke it.")
    both = f"{visit.translate(text)} {visit.translate(apps)}"
    return visit.message(N_("You are signed out everywhere"), both, "signed out")


# --- password and passkeys ------------------------------------------------------------------------------------------


async def _credentials(visit: PageVisit) -> Response:
    return visit.page(
        "credentials.html",
        overview=await _local(visit).credentials.overview(visit.require_session().user),
        confirmed=await visit.is_confirmed(),
        passkeys=can_use_passkeys(visit),
        path=CREDENTIALS,
    )


async def _confirm(visit: PageVisit) -> Response:
    session, password = visit.require_session(), visit.form.get("password", "")
    await _local(visit).confirm(session.user, session.id, password, sign_in_origin(visit), visit.now)
    return visit.go(CREDENTIALS)


async def _begin_confirming(visit: PageVisit) -> Response:
    return passkey_question(await _local(visit).passkeys.ask_to_use(visit.base, visit.require_session().user))


async def _confirm_by_passkey(visit: PageVisit) -> Response:
    session, answer = visit.require_session(), passkey_answer(visit)
    await _local(visit).confirm_by_passkey(
        visit.base, session.user, session.id, answer, sign_in_origin(visit), visit.now
    )
    return visit.go(CREDENTIALS)


async def _set_password(visit: PageVisit) -> Response:
    session = await visit.require_confirmed()
    await _local(visit).set_password(session.user, chosen_password(visit), visit.now, but=session.id)
    # The current session is replaced too, so that a stolen cookie ends.
    await sign_in_as(_local(visit), session.user, session.how, visit)
    text = N_("Password set. All other browsers were signed out; authorized apps keep their access.")
    return visit.message(N_("New password"), text, "done")


async def _begin_passkey(visit: PageVisit) -> Response:
    session = await visit.require_confirmed()
    return passkey_question(await _local(visit).passkeys.ask_to_make(visit.base, session.user))


async def _add_passkey(visit: PageVisit) -> Response:
    session, name = await visit.require_confirmed(), visit.form.text("name")
    await _local(visit).passkeys.make(visit.base, session.user, passkey_answer(visit), name, visit.now)
    return visit.go(CREDENTIALS)


async def _rename_passkey(visit: PageVisit) -> Response:
    session, id_ = await visit.require_confirmed(), visit.form.text("passkey")
    return _changed(visit, await _local(visit).passkeys.rename(session.user, id_, visit.form.text("name")))


async def _remove_passkey(visit: PageVisit) -> Response:
    session, id_ = await visit.require_confirmed(), visit.form.text("passkey")
    response = _changed(visit, await _local(visit).remove_passkey(session.user, id_, but=session.id))
    await sign_in_as(_local(visit), session.user, session.how, visit)
    return response


def _changed(visit: PageVisit, there: bool) -> Response:
    if not there:
        raise NotFound(N_("This passkey no longer exists."))
    return visit.go(CREDENTIALS)


def _local(visit: PageVisit) -> LocalSignIn:
    return visit.site.identity.local
