"""The pages of output feeds: their addresses, limits and items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_
from microsub.configuration.model import OutputConfig
from microsub.model.reader import GLOBAL
from microsub.outputs import OutputFeed, OutputItem
from microsub.outputs.api.actions import output_settings
from microsub.reader.reading.channel_list import ChannelLink, links
from microsub.reader.reading.pages import change, reader_of
from microsub.reader.reading.places import ITEM_ID
from microsub.reader.settings.menu import OUTPUTS
from microsub.timelines.channels import slug
from microsub.web.params import collect
from microsub.web.routes import page
from microsub.web.visit import PageSite, PageVisit

MOST_ITEMS = 100
"""Items of an output feed on its page, most recently edited first."""


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    one = f"{OUTPUTS}/{{name}}"
    return [
        page(site, OUTPUTS, _list),
        change(site, OUTPUTS, _create, _list),
        change(site, f"{OUTPUTS}/add", _add),
        page(site, one, _output),
        change(site, one, _change, _output),
        change(site, f"{one}/items", _edit, _output),
        change(site, f"{one}/renew", _renew),
        change(site, f"{one}/revoke", _revoke, _output),
        change(site, f"{one}/delete", _delete),
    ]


@dataclass(frozen=True, slots=True)
class OutputOverview:
    """An output feed in the list: the numbers of published and imported items."""

    feed: OutputFeed
    published: int
    imported: int


async def _list(visit: PageVisit) -> Response:
    user, outputs = await reader_of(visit), visit.site.services.outputs
    feeds = await outputs.all_of(user)
    return await visit.long_page(
        "outputs.html",
        feeds=[OutputOverview(feed, *await outputs.size(feed)) for feed in feeds],
        fields=visit.form if visit.problem is not None else {},
        sources=await _sources(visit),
        deleted=visit.query.get("deleted", ""),
        channels=await links(visit),
    )


async def _create(visit: PageVisit) -> Response:
    user, services = await reader_of(visit), visit.site.services
    most = await services.identity.quotas.most("outputs", user)
    settings = await _settings(visit, user, OutputConfig())
    made = await services.outputs.create(user, slug(settings.title or ""), settings, visit.now, most=most)
    return _done(visit, made.name)


# --- one output feed ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputItemView:
    """An item with the title of its post; empty if the post is gone."""

    item: OutputItem
    title: str


async def _output(visit: PageVisit) -> Response:
    user, services = await reader_of(visit), visit.site.services
    feed = await services.outputs.get(user, _name(visit))
    await services.output_contents.refresh(feed, visit.now)
    items = await services.outputs.items(feed, MOST_ITEMS)
    size = await services.outputs.size(feed)
    return await visit.long_page(
        "output.html",
        overview=OutputOverview(feed, *size),
        addresses=feed.addresses(visit.base),
        items=await _views(visit, items),
        fields=visit.form if visit.problem is not None else _fields(feed),
        sources=await _sources(visit),
        is_done="done" in visit.query,
        channels=await links(visit),
    )


async def _views(visit: PageVisit, items: Sequence[OutputItem]) -> list[OutputItemView]:
    titles = await visit.site.services.output_contents.titles([item.id for item in items])
    return [OutputItemView(item, titles.get(item.id, "")) for item in items]


async def _change(visit: PageVisit) -> Response:
    user, outputs = await reader_of(visit), visit.site.services.outputs
    feed = await outputs.get(user, _name(visit))
    settings = await _settings(visit, user, OutputConfig(filters=feed.settings.filters))
    await outputs.change(user, feed.name, settings, visit.now)
    return _done(visit, feed.name)


async def _add(visit: PageVisit) -> Response:
    """Publish a post from its own page."""
    user, name = await reader_of(visit), visit.form.text("output")
    await visit.site.services.output_contents.add(user, name, _items(visit, "item"), visit.now)
    return _done(visit, name)


async def _edit(visit: PageVisit) -> Response:
    """Publish an item again, or remove it, depending on the pressed button."""
    user, contents, name = await reader_of(visit), visit.site.services.output_contents, _name(visit)
    if "publish" in visit.form:
        await contents.publish(user, name, _items(visit, "publish"), visit.now)
    else:
        await contents.remove(user, name, _items(visit, "remove"), visit.now)
    return _done(visit, name)


async def _renew(visit: PageVisit) -> Response:
    user, name = await reader_of(visit), _name(visit)
    await visit.site.services.outputs.renew(user, name, visit.now)
    return _done(visit, name)


async def _revoke(visit: PageVisit) -> Response:
    user, name = await reader_of(visit), _name(visit)
    await visit.site.services.outputs.revoke(user, name, visit.now)
    return _done(visit, name)


async def _delete(visit: PageVisit) -> Response:
    user, name = await reader_of(visit), _name(visit)
    await visit.site.services.outputs.delete(user, name, visit.now)
    return visit.go(OUTPUTS, deleted=name)


# --- parts of several pages -------------------------------------------------------------------------------------------


async def _settings(visit: PageVisit, user: str, before: OutputConfig) -> OutputConfig:
    """The settings from the form. Raises InvalidRequest, and NotFound for an unknown channel."""
    if not visit.form.text("title"):
        raise InvalidRequest(N_("enter a title for the output feed"))
    settings = output_settings(collect(visit.form.multi_items()), before, visit.now)
    if settings.channel is not None:
        await visit.site.services.channels.get(user, settings.channel)
    return settings


async def _sources(visit: PageVisit) -> list[ChannelLink]:
    """The channels that can be the source of an output feed."""
    return [link for link in await links(visit) if link.uid != GLOBAL]


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
