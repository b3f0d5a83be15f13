"""The pages of other incoming posts: sources, which post into a channel, and webmentions of the user's pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.texts import N_
from microsub.feeds.sources import Source
from microsub.identity.protocol.documents import micropub_line, webmention_line
from microsub.model.reader import GLOBAL, NAME, NOTIFICATIONS, SAVED
from microsub.reader.reading.channel_list import ChannelLink, links
from microsub.reader.reading.pages import change, reader_of
from microsub.reader.settings.menu import MENTIONS, SOURCES
from microsub.web.routes import form, page
from microsub.web.visit import PageSite, PageVisit
from microsub.webmention.store import MentionStore, Order

MOST_MENTIONS = 200
"""Maximum number of webmentions on the page, the latest first."""
_BLOCK = "block"


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, SOURCES, _sources),
        change(site, SOURCES, _create, _sources),
        form(site, f"{SOURCES}/token", _renew, _sources),
        change(site, f"{SOURCES}/revoke", _revoke),
        page(site, MENTIONS, _mentions),
        change(site, MENTIONS, _order, _mentions),
    ]


# --- sources --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PostingSource:
    """A source, and the channel into which it posts; None if its user has ended that."""

    source: Source
    channel: ChannelLink | None


async def _sources(visit: PageVisit) -> Response:
    user, sources = await reader_of(visit), visit.site.services.sources
    everywhere = await links(visit)
    by_uid = {link.uid: link for link in everywhere}
    views = [PostingSource(one, by_uid.get(await sources.channel_of(one) or "")) for one in await sources.all_of(user)]
    return visit.page(
        "sources.html",
        sources=views,
        targets=[link for link in everywhere if link.uid not in {GLOBAL, SAVED}],
        given=visit.form.text("name"),
        is_revoked="revoked" in visit.query,
        channels=everywhere,
    )


async def _create(visit: PageVisit) -> Response:
    """Create a source. Its token doesn't expire and outlives the session, so this needs a confirmation."""
    user, services = await reader_of(visit), visit.site.services
    await visit.require_confirmed()
    most, uid = await services.identity.quotas.most("sources", user), visit.form.text("channel")
    if not NAME.match(uid):
        raise InvalidRequest(N_("The form names no channel."))
    made = await services.sources.create(user, uid, visit.form.text("name"), visit.now, most=most)
    return await _token(visit, user, made.id)


async def _renew(visit: PageVisit) -> Response:
    """Give a source a new token; the previous one ends."""
    await visit.require_confirmed()
    return await _token(visit, await reader_of(visit), visit.form.text("source"))


async def _token(visit: PageVisit, user: str, source: str) -> Response:
    """A new token, which is shown only once, with a command that tries it."""
    sources = visit.site.services.sources
    token = await sources.renew_token(user, source, visit.now)
    address = micropub_line(visit.base).href
    return visit.page(
        "source-token.html",
        source=await sources.get(user, source),
        token=token,
        address=address,
        command=f"curl {address} -H 'Authorization: Bearer {token}' -d content='Hello'",
        channels=await links(visit),
    )


async def _revoke(visit: PageVisit) -> Response:
    user, services = await reader_of(visit), visit.site.services
    await services.sources.revoke(user, visit.form.text("source"))
    return visit.go(SOURCES, revoked="yes")


# --- webmentions ----------------------------------------------------------------------------------------------------


async def _mentions(visit: PageVisit) -> Response:
    user = await reader_of(visit)
    found = await MentionStore(visit.site.services.redis).all_of(user)
    return visit.page(
        "mentions.html",
        line=f'<link rel="webmention" href="{webmention_line(visit.base, user).href}">',
        mentions=found[:MOST_MENTIONS],
        more=max(0, len(found) - MOST_MENTIONS),
        done=visit.query.get("done", ""),
        channels=await links(visit),
    )


async def _order(visit: PageVisit) -> Response:
    """Carry out the pressed button: its name is the action, its value the webmention's id."""
    user, services = await reader_of(visit), visit.site.services
    store = MentionStore(services.redis)
    for what in (*get_args(Order), _BLOCK):
        if what in visit.form:
            return await _carry_out(visit, user, store, what, visit.form.text(what))
    raise InvalidRequest(N_("The form names no webmention or no action."))


async def _carry_out(visit: PageVisit, user: str, store: MentionStore, what: str, mention_id: str) -> Response:
    found, services = await store.get(user, mention_id), visit.site.services
    if found is None:
        raise NotFound(N_("This webmention no longer exists."))
    if what == _BLOCK:
        most = await services.identity.quotas.most("rules", user)
        await services.rules.block(user, NOTIFICATIONS, found.site, visit.now, most=most)
    order: Order = "approved" if what == "approved" else "withdrawn" if what == "withdrawn" else "rejected"
    await store.order(user, mention_id, order, visit.now)
    return visit.go(MENTIONS, done=what)
