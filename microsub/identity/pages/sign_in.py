"""The sign-in page: by another provider, or by a password or passkey of this server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import InvalidRequest, RequestError, SignInFailed, TooManyRequests
from microsub.identity.local.login import NotRecognised, RecognisedUser
from microsub.identity.local.passkeys import PasskeyAnswer, PasskeyQuestion, relying_party
from microsub.identity.page_check.report import microsub_line
from microsub.identity.pages.consent import app_behind
from microsub.identity.sign_in.client import CALLBACK_PATH, CLIENT_PATH, SignInHere, client_document
from microsub.identity.web.routing import form, page, public
from microsub.identity.web.site import PageSite
from microsub.identity.web.visit import PageVisit
from microsub.kit.http.address import own_path
from microsub.kit.http.headers import page_headers
from microsub.model.reader import NAME as ACCOUNT

SIGN_IN_PATH = "/sign-in"
PASSWORD_PATH = "/sign-in/local"  # noqa: S105 - a path
PASSKEY_PATH = "/sign-in/passkey"
PASSKEY_BEGIN_PATH = "/sign-in/passkey/begin"


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, SIGN_IN_PATH, _ask),
        page(site, PASSWORD_PATH, _former_address),
        form(site, PASSWORD_PATH, _by_password),
        form(site, PASSKEY_BEGIN_PATH, _begin_passkey),
        form(site, PASSKEY_PATH, _by_passkey),
        form(site, SIGN_IN_PATH, _begin),
        page(site, CALLBACK_PATH, _finish),
        public(site, CLIENT_PATH, _client),
        page(site, WELCOME_PATH, _welcome),
    ]


async def _ask(visit: PageVisit) -> Response:
    return await sign_in_page(visit, visit.query.get("me", ""), next_path(visit.query))


async def _former_address(visit: PageVisit) -> Response:
    """The form for passwords had a page of its own."""
    return visit.go(SIGN_IN_PATH, **{name: visit.query[name] for name in ("me", "next") if name in visit.query})


async def _by_password(visit: PageVisit) -> Response:
    who, next_ = visit.form.text("who"), next_path(visit.form)
    try:
        found = await visit.site.identity.local.recognising.by_password(
            who, visit.form.get("password", ""), visit.where, visit.now
        )
    except (NotRecognised, TooManyRequests) as problem:
        return await sign_in_page(visit, who, next_, problem)
    return await _finish_here(visit, found, next_)


async def _begin_passkey(visit: PageVisit) -> Response:
    recognising = visit.site.identity.local.recognising
    return passkey_question(await recognising.ask_for_passkey(visit.base, visit.where, visit.now))


async def _by_passkey(visit: PageVisit) -> Response:
    next_ = next_path(visit.form)
    try:
        found = await visit.site.identity.local.recognising.by_passkey(
            visit.base, passkey_answer(visit.form), visit.where, visit.now
        )
    except (NotRecognised, TooManyRequests) as problem:
        return await sign_in_page(visit, "", next_, problem)
    return await _finish_here(visit, found, next_)


async def _finish_here(visit: PageVisit, found: RecognisedUser, next_: str) -> Response:
    await visit.sign_in(found.user, found.me, found.how)
    await visit.remember_browser(found.user)
    return visit.go(next_ or "/account")


async def sign_in_page(visit: PageVisit, who: str, next_: str, problem: RequestError | None = None) -> Response:
    """The page on which people sign in, whichever way. `who` is the name or address that they have entered."""
    # One of the forms leads to whichever provider somebody's page names.
    form_to = ["https:"] if visit.base.startswith("https:") else ["https:", "http:"]
    app = await app_behind(visit, next_)
    return form_page(
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


def form_page(visit: PageVisit, template: str, problem: RequestError | None, **values: Any) -> Response:
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


def has_passkeys(visit: PageVisit) -> bool:
    """Whether browsers have passkeys at the address by which this one sees us."""
    return relying_party(visit.base) is not None


def passkey_question(asked: PasskeyQuestion) -> Response:
    """What our script hands to the browser, see `static/passkeys.js`."""
    body = orjson.dumps({"secret": asked.secret, "options": asked.options})
    return Response(body, headers={**page_headers(), "content-type": "application/json"})


def passkey_answer(fields: Mapping[str, str]) -> PasskeyAnswer:
    """What our script has put into a form. Raises InvalidRequest."""
    try:
        answer: Any = orjson.loads(fields.get("answer", ""))
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise InvalidRequest("The form holds no answer of a passkey. Passkeys need a browser that runs scripts.")
    return PasskeyAnswer(fields.get("secret", ""), answer)


CLIENT_NAME = "Microsub server"


async def _begin(visit: PageVisit) -> Response:
    entered, next_ = visit.form.text("me"), next_path(visit.form)
    if ACCOUNT.match(entered):
        return visit.go(SIGN_IN_PATH, me=entered, **({"next": next_} if next_ else {}))
    try:
        found = await visit.site.identity.signing_in.begin(
            entered, base=visit.base, browser=visit.browser, next_=next_, address=visit.where.address
        )
    except SignInFailed as problem:
        return await sign_in_page(visit, entered, next_, problem)
    if isinstance(found, SignInHere):
        return visit.go(SIGN_IN_PATH, me=found.me, **({"next": next_} if next_ else {}))
    return visit.leave(found.url)


async def _finish(visit: PageVisit) -> Response:
    answer = QueryParams(visit.request.url.query).multi_items()
    browser = visit.browser if visit.had_browser else ""
    try:
        arrived = await visit.site.identity.signing_in.finish(
            answer, browser=browser, now=visit.now, address=visit.where.address
        )
    except SignInFailed as problem:
        response = visit.page("failed.html", problem.status, title=problem.title, text=problem.description)
        # The address of this page holds a code that may still be good.
        response.headers["referrer-policy"] = "no-referrer"
        return response
    await visit.sign_in(arrived.user, arrived.me, arrived.how)
    if arrived.new:
        return visit.go(WELCOME_PATH, **({"next": arrived.next} if arrived.next else {}))
    return visit.go(arrived.next or "/account")


async def _client(visit: PageVisit) -> Response:
    """JSON for servers that read it, a page with an h-app for older ones and for people."""
    accept = visit.request.headers.get("accept", "")
    document = client_document(visit.base, CLIENT_NAME, "/static/icon.svg")
    if "text/html" in accept and "application/json" not in accept:
        response = visit.page("client.html", client=document)
    else:
        response = Response(orjson.dumps(document), media_type="application/json")
        response.headers["x-content-type-options"] = "nosniff"
    response.headers["cache-control"] = "public, max-age=3600"
    response.headers["vary"] = "Accept"
    return response


WELCOME_PATH = "/welcome"


async def _welcome(visit: PageVisit) -> Response:
    session = visit.require_session()
    quotas = await visit.site.identity.quotas.of(session.user)
    line = microsub_line(visit.base, session.user)
    return visit.page(
        "welcome.html",
        endpoint=line.href,
        line=line.html,
        next=own_path(visit.query.get("next", "")) or "",
        quotas=[
            f"{number} {what}"
            for number, what in (
                (quotas.channels, "channels"),
                (quotas.feeds, "feeds"),
                (quotas.tokens, "tokens"),
                (quotas.requests, "requests a minute"),
            )
            if number
        ],
    )
