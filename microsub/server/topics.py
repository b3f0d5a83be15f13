"""Builds the topics of our hub, for web processes and workers."""

from __future__ import annotations

from urllib.parse import urlsplit

from microsub.base.settings import Settings
from microsub.hub import ChannelTopics, Topics
from microsub.outputs import FillTimelines, OutputContents
from microsub.server.stores import Stores
from microsub.web.pages import FOLDER, Templates


def hub_topics(
    settings: Settings,
    stores: Stores,
    contents: OutputContents,
    fill: FillTimelines | None = None,
) -> Topics | None:
    """The topics of our hub; None if the server has no public URL."""
    if settings.base_url is None:
        return None
    return Topics(
        settings.base_url,
        ChannelTopics(stores.redis, settings.base_url),
        stores.outputs,
        contents,
        stores.feeds,
        stores.items,
        stylesheet=Templates([FOLDER], urlsplit(settings.base_url).path).static("pages.css"),
        fill=fill,
        stored_feeds=settings.hub_feeds,
        any_port=bool(settings.allow_private_networks),
        clock=stores.clock,
    )
