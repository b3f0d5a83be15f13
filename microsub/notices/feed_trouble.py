"""Notices of feed problems to all followers: failing for a week, gone, or moved permanently.

Each problem is notified once: its guid is the same in each poll that finds it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from microsub.base.digests import short_digest
from microsub.base.errors import NotFound
from microsub.base.urls import has_credentials, mask_credentials
from microsub.formats.html.sanitise import text_to_html
from microsub.model.jf2 import Card, Content, Entry
from microsub.model.reader import NOTIFICATIONS

if TYPE_CHECKING:
    from microsub.feeds import FeedRecord, Feeds, Trouble
    from microsub.model.settings import SettingsOf
    from microsub.notices.notifications import Notifications
    from microsub.timelines import Channels

FEED, TITLE = "feeds", "Feeds"
"""The name and title of the user's internal feed with these notices."""

_AT_ONCE = 8
"""The number of users who are notified at the same time."""
_NAMES_AT_ONCE = 500
"""Follows that are read in one round trip."""


async def notify_followers(
    feeds: Feeds,
    channels: Channels,
    notifications: Notifications,
    settings: SettingsOf,
    feed: FeedRecord,
    trouble: Trouble,
) -> None:
    """Notify all followers of the feed, each by their own name for it. May be repeated after an error.

    Raises StoreError.
    """
    turn = asyncio.Semaphore(_AT_ONCE)
    guid, now = _guid(feed, trouble), notifications.clock()

    async def one(user: str, name: str) -> None:
        async with turn:
            if (await settings(user, NOTIFICATIONS)).feed_trouble:
                with suppress(NotFound):  # the user is gone
                    await notifications.put(user, FEED, TITLE, guid, _entry(feed, trouble, name), now)

    places = sorted(await feeds.subscribers(feed.id))
    names = dict.fromkeys((user for user, _ in places), "")
    for start in range(0, len(places), _NAMES_AT_ONCE):
        for user, follow in await channels.of_feed(feed.id, places[start : start + _NAMES_AT_ONCE]):
            names[user] = names[user] or follow.name or ""
    await asyncio.gather(*(one(user, name) for user, name in names.items()))


def _guid(feed: FeedRecord, trouble: Trouble) -> str:
    match trouble.kind:
        case "unreadable":
            return f"unreadable:{feed.id}:{trouble.since:.0f}"
        case "gone":
            return f"gone:{feed.id}:{feed.last_success or 0:.0f}"
        case "moved" | "replaced":
            return f"moved:{feed.id}:{short_digest(trouble.about.encode())}"


def _entry(feed: FeedRecord, trouble: Trouble, own: str) -> Entry:
    """The notice: the feed, what happened, and what the server does. `own` is the user's name for the feed, if any."""
    address = mask_credentials(feed.url)
    name = own or feed.title or address
    called = address if name == address else f"“{name}” ({address})"
    match trouble.kind:
        case "unreadable":
            day = datetime.fromtimestamp(trouble.since, UTC)
            headline = f"{name} can't be read"
            text = (
                f"{called} could not be read since {day:%-d %B %Y}. Last error: {trouble.about}. It is tried again "
                "once a day. Its earlier posts remain."
            )
        case "gone":
            headline = f"{name} is gone"
            text = (
                f"{called} is gone: its publisher answers 410 Gone. It is no longer polled. Its earlier posts remain. "
                "There is no need to follow it any longer."
            )
        case "moved" | "replaced":
            headline = f"{name} has moved"
            why = " Its former address shows a page that names the new one." if trouble.kind == "replaced" else ""
            text = (
                f"{called} has moved to {mask_credentials(trouble.about)} permanently.{why} It is polled there from "
                "now on. There is nothing to do."
            )
    home = feed.home or (feed.url if not has_credentials(feed.url) else None)
    author = Card(name=own or feed.title, url=home, photo=feed.photo)
    return Entry(post_type="article", url=home, name=headline, content=Content(text_to_html(text), text), author=author)
