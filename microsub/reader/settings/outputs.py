"""The pages of output feeds: their addresses, limits and items."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import UserQuotas
from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_
from microsub.configuration.model import OutputConfig
from microsub.feeds import OutputFeed
from microsub.model.reader import GLOBAL
from microsub.outputs import OutputContents, OutputFeeds, output_settings
from microsub.reader.channel_list import ChannelLink, ChannelLinks
from microsub.reader.frame import ReaderSite
from microsub.reader.places import ITEM_ID
from microsub.reader.settings.menu import OUTPUTS
from microsub.timelines import Channels, slug
from microsub.web.params import collect
from microsub.web.routes import page
from microsub.web.visit import PageVisit

MOST_ITEMS = 100
"""Items of an output feed on its page, most recently edited first."""


def routes(
    reader: ReaderSite, outputs: OutputFeeds, contents: OutputContents, channels: Channels, quotas: UserQuotas
) -> list[Route]:
    """The routes of this module."""
    one, change = f"{OUTPUTS}/{{name}}", reader.change
    listed, shown = partial(_list, reader, outputs), partial(_output, reader, outputs, contents)
    return [
        page(reader.site, OUTPUTS, listed),
        change(OUTPUTS, partial(_create, reader, outputs, channels, quotas), listed),
        change(f"{OUTPUTS}/add", partial(_add, reader, contents)),
        page(reader.site, one, shown),
        change(one, partial(_change, reader, outputs, channels), shown),
        change(f"{one}/items", partial(_edit, reader, contents), shown),
        change(f"{one}/renew", partial(_renew, reader, outputs)),
        change(f"{one}/revoke", partial(_revoke, reader, outputs), shown),
        change(f"{one}/delete", partial(_delete, reader, outputs)),
    ]


async def _list(reader: ReaderSite, outputs: OutputFeeds, visit: PageVisit) -> Response:
    feeds = await outputs.all_of(await reader.user(visit))
    sizes, everywhere = await outputs.sizes(feeds), await reader.links(visit)
    return await visit.long_page(
        "outputs.html",
        feeds=[(feed, *size) for feed, size in zip(feeds, sizes, strict=True)],
        fields=visit.form if visit.problem is not None else {},
        sources=_sources(everywhere),
        deleted=visit.query.get("deleted", ""),
        channels=everywhere,
    )


async def _create(
    reader: ReaderSite, outputs: OutputFeeds, channels: Channels, quotas: UserQuotas, visit: PageVisit
) -> Response:
    user = await reader.user(visit)
    most = await quotas.most("outputs", user)
    settings = await _settings(channels, visit, user, OutputConfig())
    made = await outputs.create(user, slug(settings.title or ""), settings, visit.now, most=most)
    return _done(visit, made.name)


# --- one output feed ------------------------------------------------------------------------------------------------


async def _output(reader: ReaderSite, outputs: OutputFeeds, contents: OutputContents, visit: PageVisit) -> Response:
    user = await reader.user(visit)
    feed = await outputs.get(user, _name(visit))
    await contents.refresh(feed, visit.now)
    items = await outputs.items(feed, MOST_ITEMS)
    published, imported = await outputs.size(feed)
    titles = await contents.titles([item.id for item in items])
    everywhere = await reader.links(visit)
    return await visit.long_page(
        "output.html",
        feed=feed,
        published=published,
        imported=imported,
        addresses=feed.addresses(visit.base),
        items=items,
        titles=titles,
        fields=visit.form if visit.problem is not None else _fields(feed),
        sources=_sources(everywhere),
        is_done="done" in visit.query,
        channels=everywhere,
    )


async def _change(reader: ReaderSite, outputs: OutputFeeds, channels: Channels, visit: PageVisit) -> Response:
    user = await reader.user(visit)
    feed = await outputs.get(user, _name(visit))
    settings = await _settings(channels, visit, user, OutputConfig(filters=feed.settings.filters))
    await outputs.change(user, feed.name, settings, visit.now)
    return _done(visit, feed.name)


async def _add(reader: ReaderSite, contents: OutputContents, visit: PageVisit) -> Response:
    """Publish a post from its own page."""
    user, name = await reader.user(visit), visit.form.text("output")
    await contents.add(user, name, _items(visit, "item"), visit.now)
    return _done(visit, name)


async def _edit(reader: ReaderSite, contents: OutputContents, visit: PageVisit) -> Response:
    """Publish an item again, or remove it, depending on the pressed button."""
    user, name = await reader.user(visit), _name(visit)
    if "publish" in visit.form:
        await contents.publish(user, name, _items(visit, "publish"), visit.now)
    else:
        await contents.remove(user, name, _items(visit, "remove"), visit.now)
    return _done(visit, name)


async def _renew(reader: ReaderSite, outputs: OutputFeeds, visit: PageVisit) -> Response:
    user, name = await reader.user(visit), _name(visit)
    await outputs.renew(user, name, visit.now)
    return _done(visit, name)


async def _revoke(reader: ReaderSite, outputs: OutputFeeds, visit: PageVisit) -> Response:
    user, name = await reader.user(visit), _name(visit)
    await outputs.revoke(user, name, visit.now)
    return _done(visit, name)


async def _delete(reader: ReaderSite, outputs: OutputFeeds, visit: PageVisit) -> Response:
    user, name = await reader.user(visit), _name(visit)
    await outputs.delete(user, name, visit.now)
    return visit.go(OUTPUTS, deleted=name)


# --- parts of several pages -------------------------------------------------------------------------------------------


async def _settings(channels: Channels, visit: PageVisit, user: str, before: OutputConfig) -> OutputConfig:
    """The settings from the form. Raises InvalidRequest, and NotFound for an unknown channel."""
    if not visit.form.text("title"):
        raise InvalidRequest(N_("enter a title for the output feed"))
    settings = output_settings(collect(visit.form.multi_items()), before, visit.now)
    if settings.channel is not None:
        await channels.get(user, settings.channel)
    return settings


def _sources(everywhere: ChannelLinks) -> list[ChannelLink]:
    """The channels that can be the source of an output feed."""
    return [link for link in everywhere if link.uid != GLOBAL]


def _items(visit: PageVisit, field: str) -> list[str]:
    """The item that a field of the form names."""
    id_ = visit.form.text(field)
    if not ITEM_ID.fullmatch(id_):
        raise InvalidRequest(N_("The form names no post."))
    return [id_]


def _fields(feed: OutputFeed) -> dict[str, str]:
    """The settings as form fields; unset ones are left out."""
    settings = feed.settings
    texts = {
        "title": feed.title,
        "description": settings.description or "",
        "image": settings.image or "",
        "author": settings.author or "",
        "language": settings.language or "",
        "channel": settings.channel or "",
        "search": settings.search or "",
        "max_impressions": str(settings.max_impressions or ""),
        "max_age": _age(settings.max_age),
        "republish": settings.republish or "",
        "public": "true" if settings.public else "",
    }
    return {name: text for name, text in texts.items() if text}


def _age(seconds: int) -> str:
    """A duration as people write it; empty for none."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s" if seconds else ""


def _name(visit: PageVisit) -> str:
    return str(visit.request.path_params["name"])


def _done(visit: PageVisit, name: str) -> Response:
    return visit.go(f"{OUTPUTS}/{name}", done="yes")
