"""The pages that allow a browser to answer from the user's own site."""

from __future__ import annotations

from functools import partial

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from microsub.base.digests import new_secret
from microsub.base.errors import InvalidRequest, SignInFailed
from microsub.base.texts import N_
from microsub.identity import CALLBACK_OF_POSTING, SignInClient, has_hosted_profile, next_path, provider_name
from microsub.reader.answering.answers import Answers
from microsub.reader.frame import ReaderSite
from microsub.web.routes import form, page, slow_page
from microsub.web.visit import PageVisit

ANSWER = "/answer"


def routes(reader: ReaderSite, answers: Answers, signing_in: SignInClient) -> list[Route]:
    """The routes of this module."""
    site, state = reader.site, partial(_state, reader, answers)
    return [
        page(site, ANSWER, state),
        form(site, ANSWER, partial(_allow, reader, signing_in), state),
        slow_page(site, CALLBACK_OF_POSTING, partial(_allowed, reader, answers, signing_in)),
        form(site, f"{ANSWER}/end", partial(_end, reader, answers)),
    ]


async def _state(reader: ReaderSite, answers: Answers, visit: PageVisit) -> Response:
    """Whether this browser may answer from the user's site, and the form to allow it."""
    user = await reader.user(visit)
    access = await answers.access(user, visit.cookie("posting"), visit.now)
    return visit.page(
        "answering.html",
        # The form leads to the provider that the user's page names, which can be any host.
        form_to=["https:"] if visit.base.startswith("https:") else ["https:", "http:"],
        site=provider_name(access.micropub) if access is not None else "",
        is_hosted=has_hosted_profile(visit),
        next=next_path(visit.query) or next_path(visit.form),
        channels=await reader.links(visit),
    )


async def _allow(reader: ReaderSite, signing_in: SignInClient, visit: PageVisit) -> Response:
    """Send the user to their own provider for authorization.

    A page provided by this server is refused, because this server accepts posts only into channels.
    """
    user, me = await reader.user(visit), visit.require_session().me
    if has_hosted_profile(visit):
        raise InvalidRequest(N_("The page that this server provides for you can't hold posts."))
    url = await signing_in.begin_posting(
        user, me, base=visit.base, browser=visit.browser, next_=next_path(visit.form), address=visit.address
    )
    return visit.leave(url)


async def _allowed(reader: ReaderSite, answers: Answers, signing_in: SignInClient, visit: PageVisit) -> Response:
    """Finish the authorization after the user returns from their provider."""
    user, answer = await reader.user(visit), QueryParams(visit.request.url.query).multi_items()
    browser = visit.browser if visit.had_browser else ""
    try:
        access = await signing_in.finish_posting(
            answer, user=user, browser=browser, now=visit.now, address=visit.address
        )
    except SignInFailed as problem:
        response = visit.message(problem.title, problem.description, "error", problem.status)
        # The page's address contains a code that may still be valid.
        response.headers["referrer-policy"] = "no-referrer"
        return response
    secret = visit.cookie("posting") or new_secret()
    await answers.keep(user, secret, access, visit.now)
    visit.keep_cookie("posting", secret)
    return visit.go(access.next or ANSWER)


async def _end(reader: ReaderSite, answers: Answers, visit: PageVisit) -> Response:
    """End this browser's permission."""
    await answers.end(await reader.user(visit), visit.cookie("posting"), visit.now)
    return visit.go(ANSWER)
