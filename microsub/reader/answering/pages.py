"""The pages that allow a browser to answer from the user's own site, and the form for answers."""

from __future__ import annotations

from functools import partial

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from microsub.base.digests import new_secret
from microsub.base.errors import InvalidRequest, NotFound, SignInFailed
from microsub.base.texts import N_
from microsub.identity.pages.sign_in import next_path
from microsub.identity.pages.visits import has_hosted_profile
from microsub.identity.sign_in import CALLBACK_OF_POSTING, provider_name
from microsub.reader.answering.answers import KINDS, Answer
from microsub.reader.reading.channel_list import links
from microsub.reader.reading.pages import reader_of
from microsub.reader.reading.places import POST
from microsub.reader.reading.post_page import PostPages
from microsub.web.routes import form, page, slow_page
from microsub.web.visit import PageSite, PageVisit

ANSWER = "/answer"


def routes(site: PageSite, posts: PostPages) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, ANSWER, _state),
        form(site, ANSWER, _allow, _state),
        slow_page(site, CALLBACK_OF_POSTING, _allowed),
        form(site, f"{ANSWER}/end", _end),
        form(site, f"{POST}/{{id}}/answer", partial(_answer, posts), posts.page),
    ]


async def _state(visit: PageVisit) -> Response:
    """Whether this browser may answer from the user's site, and the form to allow it."""
    user = await reader_of(visit)
    access = await visit.site.services.answers.access(user, visit.posting_secret, visit.now)
    return visit.page(
        "answering.html",
        # The form leads to the provider that the user's page names, which can be any host.
        form_to=["https:"] if visit.base.startswith("https:") else ["https:", "http:"],
        site=provider_name(access.micropub) if access is not None else "",
        is_hosted=has_hosted_profile(visit),
        next=next_path(visit.query) or next_path(visit.form),
        channels=await links(visit),
    )


async def _allow(visit: PageVisit) -> Response:
    """Send the user to their own provider for authorization.

    A page provided by this server is refused, because this server accepts posts only into channels.
    """
    user, me = await reader_of(visit), visit.require_session().me
    if has_hosted_profile(visit):
        raise InvalidRequest(N_("The page that this server provides for you can't hold posts."))
    url = await visit.site.identity.signing_in.begin_posting(
        user, me, base=visit.base, browser=visit.browser, next_=next_path(visit.form), address=visit.address
    )
    return visit.leave(url)


async def _allowed(visit: PageVisit) -> Response:
    """Finish the authorization after the user returns from their provider."""
    user, answer = await reader_of(visit), QueryParams(visit.request.url.query).multi_items()
    browser = visit.browser if visit.had_browser else ""
    try:
        access = await visit.site.identity.signing_in.finish_posting(
            answer, user=user, browser=browser, now=visit.now, address=visit.address
        )
    except SignInFailed as problem:
        response = visit.message(problem.title, problem.description, "error", problem.status)
        # The page's address contains a code that may still be valid.
        response.headers["referrer-policy"] = "no-referrer"
        return response
    secret = visit.posting_secret or new_secret()
    await visit.site.services.answers.keep(user, secret, access, visit.now)
    visit.keep_posting_secret(secret)
    return visit.go(access.next or ANSWER)


async def _end(visit: PageVisit) -> Response:
    """End this browser's permission."""
    await visit.site.services.answers.end(await reader_of(visit), visit.posting_secret, visit.now)
    return visit.go(ANSWER)


async def _answer(posts: PostPages, visit: PageVisit) -> Response:
    """Answer the post in the page's address.

    The post's URL and title are the stored ones, whatever the form contains.
    """
    user, post = await reader_of(visit), await posts.find(visit)
    kind = next((one for one in KINDS if one == visit.form.text("kind")), None)
    if kind is None or not post.url:
        raise NotFound(N_("You can't reply to this post."))
    text = visit.form.text("content") if kind == "reply" else ""
    answer = Answer(kind, post.url, text.replace("\r\n", "\n"), post.title)
    published = await visit.site.services.answers.publish(user, visit.posting_secret, answer, visit.now)
    return visit.go(f"{POST}/{post.id}", answered=published)
