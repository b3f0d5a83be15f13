"""By what people sign in here: their password and passkeys, which only change after they have shown who they are."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import Forbidden, InvalidRequest, NotFound, RequestError, TooManyRequests
from microsub.services.identity.passwords import repeated
from microsub.services.identity.recognising import NotRecognised
from microsub.services.identity.sessions import SignedIn
from microsub.web.local_sign_in import answered, asked_json, has_passkeys
from microsub.web.routing import form, page
from microsub.web.session import Visit
from microsub.web.site import Site

PATH = "/account/sign-in"


def routes(site: Site) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, PATH, _show),
        form(site, f"{PATH}/confirm", _confirm),
        form(site, f"{PATH}/confirm/passkey/begin", _begin_confirming),
        form(site, f"{PATH}/confirm/passkey", _confirm_by_passkey),
        form(site, f"{PATH}/password", _set_password),
        form(site, f"{PATH}/passkeys/begin", _begin_passkey),
        form(site, f"{PATH}/passkeys", _add_passkey),
        form(site, f"{PATH}/passkeys/name", _rename_passkey),
        form(site, f"{PATH}/passkeys/remove", _remove_passkey),
    ]


class ConfirmationNeeded(Forbidden):
    """Somebody who is signed in, but long ago, wants to change by what they sign in."""

    def __init__(self) -> None:
        super().__init__("Show first that it is you: your sign-in is more than ten minutes old.")


async def _show(visit: Visit) -> Response:
    return await _page(visit)


async def _confirm(visit: Visit) -> Response:
    session, recognising = visit.require_session(), visit.site.identity.local.recognising
    try:
        await recognising.confirm(session.user, session.id, visit.form.get("password", ""), visit.where, visit.now)
    except (NotRecognised, TooManyRequests) as problem:
        return await _page(visit, problem)
    return visit.go(PATH)


async def _begin_confirming(visit: Visit) -> Response:
    session = visit.require_session()
    return asked_json(await visit.site.identity.local.passkeys.ask_to_use(visit.base, session.user))


async def _confirm_by_passkey(visit: Visit) -> Response:
    session, recognising = visit.require_session(), visit.site.identity.local.recognising
    try:
        await recognising.confirm_by_passkey(
            visit.base, session.user, session.id, answered(visit.form), visit.where, visit.now
        )
    except (NotRecognised, TooManyRequests) as problem:
        return await _page(visit, problem)
    return visit.go(PATH)


async def _set_password(visit: Visit) -> Response:
    session = await _confirmed(visit)
    try:
        password = repeated(visit.form.get("password", ""), visit.form.get("again", ""))
        await visit.site.identity.local.enrolling.set_password(session.user, password, visit.now, but=session.id)
    except (InvalidRequest, TooManyRequests) as problem:
        return await _page(visit, problem)
    # A new session in place of this one too: whoever had its cookie has nothing any more.
    await visit.sign_in(session.user, session.me, session.how)
    await visit.remember_browser(session.user)
    text = "Your password is set. All other browsers had to sign out; apps that you have given access keep it."
    return visit.page("message.html", title="New password", text=text)


async def _begin_passkey(visit: Visit) -> Response:
    session = await _confirmed(visit)
    return asked_json(await visit.site.identity.local.passkeys.ask_to_make(visit.base, session.user))


async def _add_passkey(visit: Visit) -> Response:
    session = await _confirmed(visit)
    try:
        await visit.site.identity.local.passkeys.make(
            visit.base, session.user, answered(visit.form), visit.form.text("name"), visit.now
        )
    except InvalidRequest as problem:
        return await _page(visit, problem)
    return visit.go(PATH)


async def _rename_passkey(visit: Visit) -> Response:
    session = await _confirmed(visit)
    try:
        name = visit.form.text("name")
        if not await visit.site.identity.local.passkeys.rename(session.user, visit.form.text("passkey"), name):
            raise NotFound("You have no such passkey any more.")
    except InvalidRequest as problem:
        return await _page(visit, problem)
    return visit.go(PATH)


async def _remove_passkey(visit: Visit) -> Response:
    session = await _confirmed(visit)
    if not await visit.site.identity.local.passkeys.remove(session.user, visit.form.text("passkey")):
        raise NotFound("You have no such passkey any more.")
    return visit.go(PATH)


async def _confirmed(visit: Visit) -> SignedIn:
    session = visit.require_session()
    if not await _is_confirmed(visit, session):
        raise ConfirmationNeeded
    return session


async def _is_confirmed(visit: Visit, session: SignedIn) -> bool:
    recognising = visit.site.identity.local.recognising
    return await recognising.is_confirmed(session.user, session.id, session.since, visit.now)


async def _page(visit: Visit, problem: RequestError | None = None) -> Response:
    session = visit.require_session()
    response = visit.page(
        "credentials.html",
        200 if problem is None else problem.status if problem.status != 401 else 403,
        overview=await visit.site.identity.local.recognising.overview(session.user),
        confirmed=await _is_confirmed(visit, session),
        passkeys=has_passkeys(visit),
        problem=problem,
        path=PATH,
    )
    if isinstance(problem, TooManyRequests):
        response.headers["retry-after"] = str(problem.retry_after)
    return response
