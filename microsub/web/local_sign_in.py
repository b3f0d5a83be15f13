"""Signing in with a password or a passkey of this server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import InvalidRequest, RequestError, TooManyRequests
from microsub.services.identity.passkeys import Answered, Asked
from microsub.services.identity.recognising import NotRecognised, Recognised
from microsub.services.identity.webauthn import relying_party
from microsub.web.address import own_path
from microsub.web.app_asking import app_behind
from microsub.web.headers import page_headers
from microsub.web.routing import form, page
from microsub.web.session import Visit
from microsub.web.site import Site

PATH = "/sign-in/local"
PASSKEY_PATH = "/sign-in/passkey"
PASSKEY_BEGIN_PATH = "/sign-in/passkey/begin"


def routes(site: Site) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, PATH, _ask),
        form(site, PATH, _by_password),
        form(site, PASSKEY_BEGIN_PATH, _begin_passkey),
        form(site, PASSKEY_PATH, _by_passkey),
    ]


async def _ask(visit: Visit) -> Response:
    return await _page(visit, visit.query.get("me", ""), next_path(visit.query))


async def _by_password(visit: Visit) -> Response:
    who, next_ = visit.form.text("who"), next_path(visit.form)
    try:
        found = await visit.site.identity.local.recognising.by_password(
            who, visit.form.get("password", ""), visit.where, visit.now
        )
    except (NotRecognised, TooManyRequests) as problem:
        return await _page(visit, who, next_, problem)
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
        return await _page(visit, "", next_, problem)
    return await _let_in(visit, found, next_)


async def _let_in(visit: Visit, found: Recognised, next_: str) -> Response:
    await visit.sign_in(found.user, found.me, found.how)
    await visit.remember_browser(found.user)
    return visit.go(next_ or "/account")


async def _page(visit: Visit, who: str, next_: str, problem: RequestError | None = None) -> Response:
    app = await app_behind(visit, next_)
    return told(visit, "local-sign-in.html", problem, who=who, next=next_, passkeys=has_passkeys(visit), app=app)


def told(visit: Visit, template: str, problem: RequestError | None, **values: Any) -> Response:
    """A page with what was wrong with its form, if anything; the template shows `problem`."""
    # 401 would have to say by which scheme of HTTP one signs in (RFC 9110), and there is none.
    status = 200 if problem is None else 403 if isinstance(problem, NotRecognised) else problem.status
    response = visit.page(template, status, problem=problem, **values)
    if isinstance(problem, TooManyRequests):
        response.headers["retry-after"] = str(problem.retry_after)
    return response


def next_path(values: Mapping[str, str]) -> str:
    """Where to go after a sign-in: a path of ours, or empty."""
    return own_path(values.get("next", "")) or ""


def has_passkeys(visit: Visit) -> bool:
    """Whether browsers have passkeys at the address by which this one sees us."""
    return relying_party(visit.base) is not None


def asked_json(asked: Asked) -> Response:
    """What our script hands to the browser, see `static/passkeys.js`."""
    body = orjson.dumps({"secret": asked.secret, "options": asked.options})
    return Response(body, headers={**page_headers(), "content-type": "application/json"})


def answered(fields: Mapping[str, str]) -> Answered:
    """What our script has put into a form. Raises InvalidRequest."""
    try:
        answer: Any = orjson.loads(fields.get("answer", ""))
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise InvalidRequest("The form holds no answer of a passkey. Passkeys need a browser that runs scripts.")
    return Answered(fields.get("secret", ""), answer)
