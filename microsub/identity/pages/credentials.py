"""The page of password and passkeys, which change only after a confirmation of who is signed in."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import Forbidden, InvalidRequest, NotFound, RequestError, TooManyRequests
from microsub.identity.local.login import LocalIdentity, NotRecognised
from microsub.identity.local.passwords import repeated_password
from microsub.identity.pages.sign_in import form_page, has_passkeys, passkey_answer, passkey_question
from microsub.identity.sign_in.sessions import SignedIn
from microsub.identity.web.routing import Handler, form, page
from microsub.identity.web.site import PageSite
from microsub.identity.web.visit import PageVisit

PATH = "/account/sign-in"


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    forms: dict[str, Handler] = {
        "/confirm": _confirm,
        "/confirm/passkey/begin": _begin_confirming,
        "/confirm/passkey": _confirm_by_passkey,
        "/password": _set_password,
        "/passkeys/begin": _begin_passkey,
        "/passkeys": _add_passkey,
        "/passkeys/name": _rename_passkey,
        "/passkeys/remove": _remove_passkey,
    }
    return [page(site, PATH, _page), *(form(site, PATH + path, _telling(handler)) for path, handler in forms.items())]


class ConfirmationNeeded(Forbidden):
    """Somebody who signed in more than ten minutes ago wants to change how they sign in, or a token without an end."""

    def __init__(self) -> None:
        super().__init__("Show first that it is you: your sign-in is more than ten minutes old.")


def _telling(handler: Handler) -> Handler:
    """What is wrong with a form is told on the page that it stands on."""

    async def handle(visit: PageVisit) -> Response:
        try:
            return await handler(visit)
        except (ConfirmationNeeded, NotRecognised, InvalidRequest, TooManyRequests) as problem:
            return await _page(visit, problem)

    return handle


# --- showing who one is ---------------------------------------------------------------------------------------------


async def _confirm(visit: PageVisit) -> Response:
    session = visit.require_session()
    password = visit.form.get("password", "")
    await _local(visit).recognising.confirm(session.user, session.id, password, visit.where, visit.now)
    return visit.go(PATH)


async def _begin_confirming(visit: PageVisit) -> Response:
    session = visit.require_session()
    return passkey_question(await _local(visit).passkeys.ask_to_use(visit.base, session.user))


async def _confirm_by_passkey(visit: PageVisit) -> Response:
    session, answer = visit.require_session(), passkey_answer(visit.form)
    await _local(visit).recognising.confirm_by_passkey(
        visit.base, session.user, session.id, answer, visit.where, visit.now
    )
    return visit.go(PATH)


# --- changing something ---------------------------------------------------------------------------------------------


async def _set_password(visit: PageVisit) -> Response:
    session = await confirmed(visit)
    password = repeated_password(visit.form.get("password", ""), visit.form.get("again", ""))
    await _local(visit).enrolling.set_password(session.user, password, visit.now, but=session.id)
    # A new session in place of this one too, so that a stolen cookie ends.
    await visit.sign_in(session.user, session.me, session.how)
    await visit.remember_browser(session.user)
    text = "Your password is set. All other browsers had to sign out; apps that you have given access keep it."
    return visit.page("message.html", title="New password", text=text)


async def _begin_passkey(visit: PageVisit) -> Response:
    session = await confirmed(visit)
    return passkey_question(await _local(visit).passkeys.ask_to_make(visit.base, session.user))


async def _add_passkey(visit: PageVisit) -> Response:
    session, name = await confirmed(visit), visit.form.text("name")
    await _local(visit).passkeys.make(visit.base, session.user, passkey_answer(visit.form), name, visit.now)
    return visit.go(PATH)


async def _rename_passkey(visit: PageVisit) -> Response:
    session, name = await confirmed(visit), visit.form.text("name")
    if not await _local(visit).passkeys.rename(session.user, visit.form.text("passkey"), name):
        raise NotFound("You have no such passkey any more.")
    return visit.go(PATH)


async def _remove_passkey(visit: PageVisit) -> Response:
    session = await confirmed(visit)
    if not await _local(visit).passkeys.remove(session.user, visit.form.text("passkey")):
        raise NotFound("You have no such passkey any more.")
    return visit.go(PATH)


async def confirmed(visit: PageVisit) -> SignedIn:
    """The session, which was signed in or confirmed within ten minutes. Raises ConfirmationNeeded."""
    session = visit.require_session()
    if not await is_confirmed(visit, session):
        raise ConfirmationNeeded
    return session


async def is_confirmed(visit: PageVisit, session: SignedIn) -> bool:
    """Whether the session was signed in or confirmed within ten minutes."""
    return await _local(visit).recognising.is_confirmed(session.user, session.id, session.since, visit.now)


async def _page(visit: PageVisit, problem: RequestError | None = None) -> Response:
    session = visit.require_session()
    return form_page(
        visit,
        "credentials.html",
        problem,
        overview=await _local(visit).recognising.overview(session.user),
        confirmed=await is_confirmed(visit, session),
        passkeys=has_passkeys(visit),
        path=PATH,
    )


def _local(visit: PageVisit) -> LocalIdentity:
    return visit.site.identity.local
