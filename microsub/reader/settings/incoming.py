"""The pages of other incoming posts: sources, which post into a channel, and webmentions of the user's pages."""

from __future__ import annotations

from functools import partial
from typing import get_args

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import UserQuotas
from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.texts import N_
from microsub.identity import micropub_line, webmention_line
from microsub.micropub import Sources
from microsub.model.reader import GLOBAL, NAME, NOTIFICATIONS, SAVED
from microsub.reader.frame import ReaderSite
from microsub.reader.settings.menu import MENTIONS, SOURCES
from microsub.timelines import Rules
from microsub.web.routes import form, page
from microsub.web.visit import PageVisit
from microsub.webmention import MentionStore, Order

MOST_MENTIONS = 200
"""Maximum number of webmentions on the page, the latest first."""
_BLOCK = "block"


def routes(
    reader: ReaderSite, sources: Sources, mentions: MentionStore, rules: Rules, quotas: UserQuotas
) -> list[Route]:
    """The routes of this module."""
    site, change = reader.site, reader.change
    all_sources, all_mentions = partial(_sources, reader, sources), partial(_mentions, reader, mentions)
    return [
        page(site, SOURCES, all_sources),
        change(SOURCES, partial(_create, reader, sources, quotas), all_sources),
        form(site, f"{SOURCES}/token", partial(_renew, reader, sources), all_sources),
        change(f"{SOURCES}/revoke", partial(_revoke, reader, sources)),
        page(site, MENTIONS, all_mentions),
        change(MENTIONS, partial(_order, reader, mentions, rules, quotas), all_mentions),
    ]


# --- sources --------------------------------------------------------------------------------------------------------


async def _sources(reader: ReaderSite, sources: Sources, visit: PageVisit) -> Response:
    user, everywhere = await reader.user(visit), await reader.links(visit)
    by_uid = {link.uid: link for link in everywhere}
    return visit.page(
        "sources.html",
        sources=[(one, by_uid.get(uid or "")) for one, uid in await sources.with_channels(user)],
        targets=[link for link in everywhere if link.uid not in {GLOBAL, SAVED}],
        given=visit.form.text("name"),
        is_revoked="revoked" in visit.query,
        channels=everywhere,
    )


async def _create(reader: ReaderSite, sources: Sources, quotas: UserQuotas, visit: PageVisit) -> Response:
    """Create a source. Its token doesn't expire and outlives the session, so this needs a confirmation."""
    user = await reader.user(visit)
    await visit.require_confirmed()
    most, uid = await quotas.most("sources", user), visit.form.text("channel")
    if not NAME.match(uid):
        raise InvalidRequest(N_("The form names no channel."))
    made = await sources.create(user, uid, visit.form.text("name"), visit.now, most=most)
    return await _token(reader, sources, visit, user, made.id)


async def _renew(reader: ReaderSite, sources: Sources, visit: PageVisit) -> Response:
    """Give a source a new token; the previous one ends."""
    await visit.require_confirmed()
    return await _token(reader, sources, visit, await reader.user(visit), visit.form.text("source"))


async def _token(reader: ReaderSite, sources: Sources, visit: PageVisit, user: str, source: str) -> Response:
    """A new token, which is shown only once, with a command that tries it."""
    token = await sources.renew_token(user, source, visit.now)
    address = micropub_line(visit.base).href
    return visit.page(
        "source-token.html",
        source=await sources.get(user, source),
        secret=token,
        address=address,
        command=f"curl {address} -H 'Authorization: Bearer {token}' -d content='Hello'",
        channels=await reader.links(visit),
    )


async def _revoke(reader: ReaderSite, sources: Sources, visit: PageVisit) -> Response:
    await sources.revoke(await reader.user(visit), visit.form.text("source"))
    return visit.go(SOURCES, revoked="yes")


# --- webmentions ----------------------------------------------------------------------------------------------------


async def _mentions(reader: ReaderSite, mentions: MentionStore, visit: PageVisit) -> Response:
    user = await reader.user(visit)
    found = await mentions.all_of(user)
    return visit.page(
        "mentions.html",
        line=f'<link rel="webmention" href="{webmention_line(visit.base, user).href}">',
        mentions=found[:MOST_MENTIONS],
        more=max(0, len(found) - MOST_MENTIONS),
        done=visit.query.get("done", ""),
        channels=await reader.links(visit),
    )


async def _order(
    reader: ReaderSite, mentions: MentionStore, rules: Rules, quotas: UserQuotas, visit: PageVisit
) -> Response:
    """Carry out the pressed button: its name is the action, its value the webmention's id."""
    user = await reader.user(visit)
    what = next((what for what in (*get_args(Order), _BLOCK) if what in visit.form), None)
    if what is None:
        raise InvalidRequest(N_("The form names no webmention or no action."))
    mention_id = visit.form.text(what)
    found = await mentions.get(user, mention_id)
    if found is None:
        raise NotFound(N_("This webmention no longer exists."))
    if what == _BLOCK:
        most = await quotas.most("rules", user)
        await rules.block(user, NOTIFICATIONS, found.site, visit.now, most=most)
    order: Order = "approved" if what == "approved" else "withdrawn" if what == "withdrawn" else "rejected"
    await mentions.order(user, mention_id, order, visit.now)
    return visit.go(MENTIONS, done=what)
