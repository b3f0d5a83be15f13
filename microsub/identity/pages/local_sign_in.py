"""The sign-in page, and signing in with a password or a passkey of this server; `signing_in` has other providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import InvalidRequest, RequestError, SignInFailed, TooManyRequests
from microsub.identity.local.login import NotRecognised, RecognisedUser
from microsub.identity.local.passkeys import PasskeyAnswer, PasskeyQuestion, relying_party
from microsub.identity.pages.app_asking import app_behind
from microsub.identity.web.routing import form, page
from microsub.identity.web.site import Site
from microsub.identity.web.visit import Visit
from microsub.kit.http.address import own_path
from microsub.kit.http.headers import page_headers

PATH = "/sign-in"
PASSWORD_PATH = "/sign-in/local"  # noqa: S105 - a path
PASSKEY_PATH = "/sign-in/passkey"
PASSKEY_BEGIN_PATH = "/sign-in/passkey/begin"


def routes(site: Site) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, PATH, _ask),
        page(site, PASSWORD_PATH, _former_address),
        form(site, PASSWORD_PATH, _by_password),
        form(site, PASSKEY_BEGIN_PATH, _begin_passkey),
        form(site, PASSKEY_PATH, _by_passkey),
    ]


async def _ask(visit: Visit) -> Response:
    return await sign_in_page(visit, visit.query.get("me", ""), next_path(visit.query))


async def _former_address(visit: Visit) -> Response:
    """The form for passwords had a page of its own."""
    return visit.go(PATH, **{name: visit.query[name] for name in ("me", "next") if name in visit.query})


async def _by_password(visit: Visit) -> Response:
    who, next_ = visit.form.text("who"), next_path(visit.form)
    try:
        found = await visit.site.identity.local.recognising.by_password(
            who, visit.form.get("password", ""), visit.where, visit.now
        )
    except (NotRecognised, TooManyRequests) as problem:
        return await sign_in_page(visit, who, next_, problem)
    return await _let_in(visit, found, next_)


async def _begin_passkey(visit: Visit) -> Response:
    recognising = visit.site.identity.local.recognising
    return asked_json(await recognising.ask_for_passkey(visit.base, visit.where, visit.now))


async def _by_passkey(visit: Visit) -> Response:
    next_ = next_path(visit.form)
    try:
        found = await visit.site.identity.local.recognising.by_passkey(
            visit.base, answered(visit.form), visit.where, visit.now
        )
    except (NotRecognised, TooManyRequests) as problem:
        return await sign_in_page(visit, "", next_, problem)
    return await _let_in(visit, found, next_)


async def _let_in(visit: Visit, found: RecognisedUser, next_: str) -> Response:
    await visit.sign_in(found.user, found.me, found.how)
    await visit.remember_browser(found.user)
    return visit.go(next_ or "/account")


async def sign_in_page(visit: Visit, who: str, next_: str, problem: RequestError | None = None) -> Response:
    """The page on which people sign in, whichever way. `who` is the name or address that they have entered."""
    # One of the forms leads to whichever provider somebody's page names.
    form_to = ["https:"] if visit.base.startswith("https:") else ["https:", "http:"]
    app = await app_behind(visit, next_)
    return told(
        visit,
        "sign-in.html",
        problem,
        form_to=form_to,
        who=who,
        next=next_,
        passkeys=has_passkeys(visit),
        app=app,
        failed=isinstance(problem, SignInFailed),
    )


_LATER = {429: 60, 503: 10}
"""Seconds after which a sign-in by way of another provider that failed so may be tried again."""


def told(visit: Visit, template: str, problem: RequestError | None, **values: Any) -> Response:
    """A page with what was wrong with its form, if anything; the template shows `problem`."""
    # 401 would have to say by which scheme of HTTP one signs in (RFC 9110), and there is none.
    status = 200 if problem is None else 403 if isinstance(problem, NotRecognised) else problem.status
    response = visit.page(template, status, problem=problem, **values)
    if isinstance(problem, TooManyRequests):
        response.headers["retry-after"] = str(problem.retry_after)
    elif isinstance(problem, SignInFailed) and status in _LATER:
        response.headers["retry-after"] = str(_LATER[status])
    return response


def next_path(values: Mapping[str, str]) -> str:
    """Where to go after a sign-in: a path of ours, or empty."""
    return own_path(values.get("next", "")) or ""


def has_passkeys(visit: Visit) -> bool:
    """Whether browsers have passkeys at the address by which this one sees us."""
    return relying_party(visit.base) is not None


def asked_json(asked: PasskeyQuestion) -> Response:
    """What our script hands to the browser, see `static/passkeys.js`."""
    body = orjson.dumps({"secret": asked.secret, "options": asked.options})
    return Response(body, headers={**page_headers(), "content-type": "application/json"})


def answered(fields: Mapping[str, str]) -> PasskeyAnswer:
    """What our script has put into a form. Raises InvalidRequest."""
    try:
        answer: Any = orjson.loads(fields.get("answer", ""))
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise InvalidRequest("The form holds no answer of a passkey. Passkeys need a browser that runs scripts.")
    return PasskeyAnswer(fields.get("secret", ""), answer)
