"""The sign-in page, the way back from a provider, and what we say of ourselves as a client."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import SignInFailed
from microsub.services.identity.signing_in import CALLBACK_PATH, CLIENT_PATH, Local, client_document
from microsub.web.address import own_path
from microsub.web.local_sign_in import PATH as LOCAL_PATH
from microsub.web.routing import form, page, public
from microsub.web.session import Visit
from microsub.web.site import Site
from microsub.web.welcome import PATH as WELCOME_PATH

NAME = "Microsub server"


def routes(site: Site) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, "/sign-in", _ask),
        form(site, "/sign-in", _begin),
        page(site, CALLBACK_PATH, _finish),
        public(site, CLIENT_PATH, _client),
    ]


async def _ask(visit: Visit) -> Response:
    return _page(visit, visit.query.get("me", ""), _next(visit.query))


async def _begin(visit: Visit) -> Response:
    entered, next_ = visit.form.text("me"), _next(visit.form)
    try:
        found = await visit.site.identity.signing_in.begin(
            entered, base=visit.base, browser=visit.browser, next_=next_, address=visit.where.address
        )
    except SignInFailed as problem:
        return _page(visit, entered, next_, problem)
    if isinstance(found, Local):
        return visit.go(LOCAL_PATH, me=found.me, **({"next": next_} if next_ else {}))
    return visit.leave(found.url)


async def _finish(visit: Visit) -> Response:
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


async def _client(visit: Visit) -> Response:
    """JSON for servers that read it, a page with an h-app for older ones and for people."""
    accept = visit.request.headers.get("accept", "")
    document = client_document(visit.base, NAME, "/static/icon.svg")
    if "text/html" in accept and "application/json" not in accept:
        response = visit.page("client.html", client=document)
    else:
        response = Response(orjson.dumps(document), media_type="application/json")
        response.headers["x-content-type-options"] = "nosniff"
    response.headers["cache-control"] = "public, max-age=3600"
    response.headers["vary"] = "Accept"
    return response


_LATER = {429: 60, 503: 10}
"""Seconds after which a sign-in that failed so may be tried again."""


def _page(visit: Visit, me: str, next_: str, problem: SignInFailed | None = None) -> Response:
    base = visit.base
    # The form leads to whichever provider somebody's page names.
    form_to = ["https:"] if base.startswith("https:") else ["https:", "http:"]
    status = problem.status if problem else 200
    response = visit.page("sign-in.html", status, form_to=form_to, me=me, next=next_, problem=problem)
    if status in _LATER:
        response.headers["retry-after"] = str(_LATER[status])
    return response


def _next(values: Mapping[str, str]) -> str:
    return own_path(values.get("next", "")) or ""
