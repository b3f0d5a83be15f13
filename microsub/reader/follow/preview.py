"""The page with the newest posts of a feed, before the user follows it."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import UserQuotas
from microsub.base.errors import NotFound
from microsub.base.texts import N_
from microsub.base.urls import mask_credentials, without_credentials
from microsub.discovery import HIDDEN, EnteredAddresses, PickedPosts, Search, preview_items
from microsub.feeds import Feeds
from microsub.outputs import OutputContents, OutputFeeds
from microsub.reader.follow.pages import FOLLOW, followers_of
from microsub.reader.frame import ReaderSite
from microsub.reader.places import given_address
from microsub.reader.reading.posts import PostViews
from microsub.timelines import Channels, SavedPosts
from microsub.web.forms import began_elsewhere
from microsub.web.routes import form, slow_page
from microsub.web.visit import PageVisit

PREVIEW, PICK = "/follow/preview", "/follow/pick"


def routes(
    reader: ReaderSite,
    channels: Channels,
    feeds: Feeds,
    search: Search,
    entered: EnteredAddresses,
    views: PostViews,
    *,
    picked: PickedPosts,
    quotas: UserQuotas,
    saved: SavedPosts,
    outputs: OutputFeeds,
    contents: OutputContents,
) -> list[Route]:
    """The routes of this module."""
    return [
        slow_page(reader.site, PREVIEW, partial(_preview, reader, search, entered, views, outputs, channels, feeds)),
        form(reader.site, PICK, partial(_pick, reader, picked, quotas, saved, contents)),
    ]


async def _preview(
    reader: ReaderSite,
    search: Search,
    entered: EnteredAddresses,
    views: PostViews,
    outputs: OutputFeeds,
    channels: Channels,
    feeds: Feeds,
    visit: PageVisit,
) -> Response:
    """The newest posts of a feed, before the user follows it."""
    user = await reader.user(visit)
    given = given_address(visit.query.get("url", ""))
    if began_elsewhere(visit.request, visit.base):
        return visit.go(FOLLOW, q=given)
    url = await entered.whole(user, given)
    feed = await search.feed_at(url)
    await entered.keep(user, [url])
    async with visit.turn():
        everywhere = await reader.links(visit)
        feed_id, followers = (await followers_of(channels, feeds, user, [url])).get(url, ("", ()))
        return visit.page(
            "preview.html",
            url=without_credentials(url, HIDDEN),
            shown=mask_credentials(url),
            name=feed.name,
            posts=await views.of(visit, preview_items(feed, url, visit.now)),
            outputs=await outputs.all_of(user),
            picked=visit.query.get("picked", ""),
            choices=everywhere.own,
            feed=feed_id,
            followers=followers,
            chosen=visit.query.get("channel", ""),
            channels=everywhere,
        )


async def _pick(
    reader: ReaderSite,
    picked: PickedPosts,
    quotas: UserQuotas,
    saved: SavedPosts,
    contents: OutputContents,
    visit: PageVisit,
) -> Response:
    """Save a previewed post, or add it to an output feed, without following its feed."""
    user = await reader.user(visit)
    saves, output = "save" in visit.form, visit.form.text("output")
    post = visit.form.text("save" if saves else "add")
    kept = list((await picked.keep(user, [post], visit.now)).values())
    if not kept:
        raise NotFound(N_("This preview is too old, or its feed no longer has this post: open the preview again."))
    if saves:
        most = await quotas.most("saved", user)
        await saved.save_posts(user, kept, visit.now, most=most)
    else:
        await contents.add(user, output, (), visit.now, kept)
        await reader.topics_changed(user, visit.now)
    return visit.go(PREVIEW, url=visit.form.text("url"), picked="saved" if saves else f"output {output}")
