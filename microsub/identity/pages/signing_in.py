"""Signing in by way of another provider: the way there and back, and what we say of ourselves as a client."""

from __future__ import annotations

import orjson
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from microsub.errors import SignInFailed
from microsub.identity.pages.local_sign_in import PATH, next_path, sign_in_page
from microsub.identity.pages.welcome import PATH as WELCOME_PATH
from microsub.identity.sign_in.client import CALLBACK_PATH, CLIENT_PATH, SignInHere, client_document
from microsub.identity.web.routing import form, page, public
from microsub.identity.web.site import Site
from microsub.identity.web.visit import Visit
from microsub.model.reader import NAME as ACCOUNT

NAME = "Microsub server"


def routes(site: Site) -> list[Route]:
    """The routes of this module."""
    return [
        form(site, PATH, _begin),
        page(site, CALLBACK_PATH, _finish),
        public(site, CLIENT_PATH, _client),
    ]


async def _begin(visit: Visit) -> Response:
    entered, next_ = visit.form.text("me"), next_path(visit.form)
    if ACCOUNT.match(entered):
        return visit.go(PATH, me=entered, **({"next": next_} if next_ else {}))
    try:
        found = await visit.site.identity.signing_in.begin(
            entered, base=visit.base, browser=visit.browser, next_=next_, address=visit.where.address
        )
    except SignInFailed as problem:
        return await sign_in_page(visit, entered, next_, problem)
    if isinstance(found, SignInHere):
        return visit.go(PATH, me=found.me, **({"next": next_} if next_ else {}))
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
