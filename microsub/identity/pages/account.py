"""The account page: apps, tokens, sessions, signing out.

And the page for password and passkeys, which can be changed only after a confirmation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import Sessions
from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.texts import N_, Sentence
from microsub.identity.app_channels import AppChannels
from microsub.identity.local_sign_in import LocalSignIn
from microsub.identity.pages.consent import ScopeText, token_scopes
from microsub.identity.pages.visits import (
    can_use_passkeys,
    chosen_password,
    has_hosted_profile,
    next_path,
    passkey_answer,
    passkey_question,
    sign_in_as,
    sign_out,
)
from microsub.identity.protocol.documents import microsub_line
from microsub.identity.provider import IndieAuthProvider
from microsub.model.reader import POSTING_SCOPES
from microsub.web.paths import ENDPOINT, NATIVE
from microsub.web.routes import form, page
from microsub.web.visit import PageSite, PageVisit

ACCOUNT = "/account"
TOKENS = "/account/tokens"
APP_PASSWORDS = "/account/app-passwords"
CREDENTIALS = "/account/sign-in"

DAYS = {"30": 30, "90": 90, "365": 365, "": None}
"""Lifetimes of a token in days, as in the form."""

DONE = {
    "app": N_("App access revoked."),
    "token": N_("Token revoked."),
    "session": N_("That browser is signed out."),
}
"""Messages on the page after a successful form."""

LocalHandler = Callable[[LocalSignIn, PageVisit], Awaitable[Response]]


def routes(
    site: PageSite, local: LocalSignIn, provider: IndieAuthProvider, channels: AppChannels, *, has_search: bool
) -> list[Route]:
    """The routes of this module. `has_search`: this server has search."""
    account = partial(_account, local, provider, channels, token_scopes(search=has_search))
    credentials = partial(_credentials, local)
    changes: dict[str, LocalHandler] = {
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
        page(site, ACCOUNT, account),
        form(site, TOKENS, partial(_make_token, provider), account),
        form(site, f"{TOKENS}/end", partial(_end_token, provider)),
        form(site, APP_PASSWORDS, partial(_make_app_password, provider), account),
        form(site, "/account/apps/end", partial(_end_app, provider)),
        form(site, "/sign-out", partial(_sign_out, local.sessions)),
        form(site, "/account/sessions/end", partial(_end_one, local.sessions)),
        form(site, "/account/sessions/end-all", partial(_end_all, local.sessions)),
        page(site, CREDENTIALS, credentials),
        *(form(site, CREDENTIALS + path, partial(handler, local), credentials) for path, handler in changes.items()),
    ]


async def _account(
    local: LocalSignIn,
    provider: IndieAuthProvider,
    channels: AppChannels,
    scopes: Sequence[ScopeText],
    visit: PageVisit,
) -> Response:
    session = visit.require_session()
    apps = await provider.apps(session.user)
    tokens, passwords = await provider.given_tokens(session.user)
    is_hosted = has_hosted_profile(visit)
    return visit.page(
        "account.html",
        sessions=await local.sessions.all(session.user),
        apps=apps,
        targets=await channels.names(session.user, apps),
        tokens=tokens,
        passwords=passwords,
        native=visit.base + NATIVE,
        posting=frozenset(POSTING_SCOPES),
        scopes=scopes,
        is_hosted=is_hosted,
        needs_link=is_hosted and not any(await local.credentials.overview(session.user)),
        line=microsub_line(visit.base, session.user).html,
        endpoint=visit.base + ENDPOINT,
        done=DONE.get(visit.query.get("done", ""), ""),
        confirmed=await visit.is_confirmed(),
        confirming=CREDENTIALS,
    )


async def _make_token(provider: IndieAuthProvider, visit: PageVisit) -> Response:
    session, name = visit.require_session(), visit.form.text("name")
    if visit.form.text("days") not in DAYS:
        raise InvalidRequest(N_("choose an expiration for the token"))
    days = DAYS[visit.form.text("days")]
    if days is None:
        await visit.require_confirmed()
    scopes = visit.form.getlist("scope")
    token = await provider.make_token(session.user, name, scopes, days, visit.now)
    return visit.page("token.html", secret=token, name=name, endpoint=visit.base + ENDPOINT)


async def _make_app_password(provider: IndieAuthProvider, visit: PageVisit) -> Response:
    session, name = await visit.require_confirmed(), visit.form.text("app")
    password = await provider.make_app_password(session.user, name, visit.now)
    return visit.page("app_password.html", password=password, name=name, address=visit.base + NATIVE, user=session.user)


async def _end_token(provider: IndieAuthProvider, visit: PageVisit) -> Response:
    session = visit.require_session()
    if not await provider.end_token(session.user, visit.form.text("token")):
        raise NotFound(N_("That token is already revoked or expired."))
    return visit.go(ACCOUNT, done="token")


async def _end_app(provider: IndieAuthProvider, visit: PageVisit) -> Response:
    session = visit.require_session()
    await provider.revoke_app(session.user, visit.form.text("client"))
    return visit.go(ACCOUNT, done="app")


async def _sign_out(sessions: Sessions, visit: PageVisit) -> Response:
    await sign_out(sessions, visit)
    text = N_("This browser is signed out. Other browsers stay signed in.")
    return visit.message(N_("You are signed out"), text, "signed out")


async def _end_one(sessions: Sessions, visit: PageVisit) -> Response:
    session, id_ = visit.require_session(), visit.form.text("session")
    if not await sessions.end(session.user, id_):
        raise NotFound(N_("That session has already ended."))
    return visit.go(ACCOUNT, done="session")


async def _end_all(sessions: Sessions, visit: PageVisit) -> Response:
    session = visit.require_session()
    ended = await sessions.end_all(session.user)
    await sign_out(sessions, visit)
    text = N_("Signed out of your account in this browser, the only one.")
    if ended > 1:
        text = Sentence("Signed out of your account in all {number} browsers.", number=ended)
    apps = N_("Authorized apps keep their access until you revoke it.")
    both = f"{visit.translate(text)} {visit.translate(apps)}"
    return visit.message(N_("You are signed out everywhere"), both, "signed out")


# --- password and passkeys ------------------------------------------------------------------------------------------


async def _credentials(local: LocalSignIn, visit: PageVisit) -> Response:
    password_since, registered = await local.credentials.overview(visit.require_session().user)
    return visit.page(
        "credentials.html",
        password_since=password_since,
        registered=registered,
        confirmed=await visit.is_confirmed(),
        passkeys=can_use_passkeys(visit),
        credentials=CREDENTIALS,
        next=next_path(visit.form if visit.problem else visit.query),
    )


async def _confirm(local: LocalSignIn, visit: PageVisit) -> Response:
    session, password = visit.require_session(), visit.form.get("password", "")
    await local.confirm(session.user, session.id, password, visit.address, visit.cookie("devices"), visit.now)
    return visit.go(next_path(visit.form) or CREDENTIALS)


async def _begin_confirming(local: LocalSignIn, visit: PageVisit) -> Response:
    return passkey_question(await local.passkeys.ask_to_use(visit.base, visit.require_session().user))


async def _confirm_by_passkey(local: LocalSignIn, visit: PageVisit) -> Response:
    session, answer = visit.require_session(), passkey_answer(visit)
    await local.confirm_by_passkey(visit.base, session.user, session.id, answer, visit.address, visit.now)
    return visit.go(next_path(visit.form) or CREDENTIALS)


async def _set_password(local: LocalSignIn, visit: PageVisit) -> Response:
    session = await visit.require_confirmed()
    await local.set_password(session.user, chosen_password(visit), visit.now, but=session.id)
    # The current session is replaced too, so that a stolen cookie ends.
    await sign_in_as(local, session.user, session.how, visit)
    text = N_("Password set. All other browsers were signed out; authorized apps keep their access.")
    return visit.message(N_("New password"), text, "done")


async def _begin_passkey(local: LocalSignIn, visit: PageVisit) -> Response:
    session = await visit.require_confirmed()
    return passkey_question(await local.passkeys.ask_to_make(visit.base, session.user))


async def _add_passkey(local: LocalSignIn, visit: PageVisit) -> Response:
    session, name = await visit.require_confirmed(), visit.form.text("name")
    await local.passkeys.make(visit.base, session.user, passkey_answer(visit), name, visit.now)
    return visit.go(CREDENTIALS)


async def _rename_passkey(local: LocalSignIn, visit: PageVisit) -> Response:
    session, id_ = await visit.require_confirmed(), visit.form.text("passkey")
    return _changed(visit, await local.passkeys.rename(session.user, id_, visit.form.text("name")))


async def _remove_passkey(local: LocalSignIn, visit: PageVisit) -> Response:
    session, id_ = await visit.require_confirmed(), visit.form.text("passkey")
    response = _changed(visit, await local.remove_passkey(session.user, id_, but=session.id))
    await sign_in_as(local, session.user, session.how, visit)
    return response


def _changed(visit: PageVisit, there: bool) -> Response:
    if not there:
        raise NotFound(N_("This passkey no longer exists."))
    return visit.go(CREDENTIALS)
