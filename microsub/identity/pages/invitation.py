"""The page that a one-time link leads to: choosing a password or a passkey.

The link's code stands behind the `#`, so that it is in no log and no `Referer`; a script of ours takes it into the
forms and out of the address. Without scripts people copy it into the field.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import InvalidRequest, RequestError, TooManyRequests
from microsub.identity.local.login import INVITATION_PATH
from microsub.identity.local.passwords import repeated_password
from microsub.identity.pages.sign_in import form_page, has_passkeys, passkey_answer, passkey_question
from microsub.identity.store.credentials import InvitationSpent, user_in
from microsub.identity.web.routing import form, page
from microsub.identity.web.site import PageSite
from microsub.identity.web.visit import PageVisit
from microsub.kit.http.headers import page_headers

PASSWORD_PATH = f"{INVITATION_PATH}/password"
PASSKEY_PATH = f"{INVITATION_PATH}/passkey"
LOOK_PATH = f"{INVITATION_PATH}/look"
PASSKEY_BEGIN_PATH = f"{INVITATION_PATH}/passkey/begin"


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, INVITATION_PATH, _ask),
        form(site, LOOK_PATH, _look),
        form(site, PASSWORD_PATH, _choose_password),
        form(site, PASSKEY_BEGIN_PATH, _begin_passkey),
        form(site, PASSKEY_PATH, _choose_passkey),
    ]


async def _ask(visit: PageVisit) -> Response:
    return _page(visit, "")


async def _look(visit: PageVisit) -> Response:
    """Whether the link is still good, before anybody chooses anything. Our script asks when it has the code."""
    await visit.site.identity.local.enrolling.invited(visit.form.text("code"))
    return Response(status_code=204, headers=dict(page_headers()))


async def _choose_password(visit: PageVisit) -> Response:
    code, enrolling = visit.form.text("code"), visit.site.identity.local.enrolling
    try:
        password = repeated_password(visit.form.get("password", ""), visit.form.get("again", ""))
        user = await enrolling.choose_password(code, password, visit.now)
    except (InvalidRequest, TooManyRequests) as problem:
        return _page(visit, code, problem)
    return await _sign_in(visit, user, "with a new password")


async def _begin_passkey(visit: PageVisit) -> Response:
    return passkey_question(
        await visit.site.identity.local.enrolling.ask_for_passkey(visit.base, visit.form.text("code"))
    )


async def _choose_passkey(visit: PageVisit) -> Response:
    code, enrolling = visit.form.text("code"), visit.site.identity.local.enrolling
    try:
        user = await enrolling.choose_passkey(
            visit.base, code, passkey_answer(visit.form), visit.form.text("name"), visit.now
        )
    except InvalidRequest as problem:
        return _page(visit, code, problem)
    return await _sign_in(visit, user, "with a new passkey")


async def _sign_in(visit: PageVisit, user: str, how: str) -> Response:
    found = await visit.site.services.accounts.user(user)
    await visit.sign_in(user, found.me if found is not None else "", how)
    await visit.remember_browser(user)
    return visit.go("/account")


def _page(visit: PageVisit, code: str, problem: RequestError | None = None) -> Response:
    return form_page(
        visit,
        "enrol.html",
        problem,
        code=code,
        spent=isinstance(problem, InvitationSpent),
        who=user_in(code) or "",
        passkeys=has_passkeys(visit),
    )
