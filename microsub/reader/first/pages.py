"""The page on which a new user finds feeds: starter feeds, which the admin can choose, and further ways."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import UserQuotas
from microsub.base.errors import ConfigError, InvalidRequest
from microsub.base.texts import N_
from microsub.base.urls import web_address
from microsub.formats.feed_links import FeedLink
from microsub.model.reader import BUILT_IN
from microsub.reader.frame import ReaderSite
from microsub.reader.places import CHANNEL, HOME
from microsub.reader.reading.pages import TimelinePages
from microsub.timelines import Channels, Following
from microsub.web.routes import page
from microsub.web.visit import PageVisit

FIRST = "/first"
OUR_STARTERS = Path(__file__).with_name("starters.toml")
MOST_STARTERS = 50


def routes(
    reader: ReaderSite,
    timelines: TimelinePages,
    channels: Channels,
    following: Following,
    quotas: UserQuotas,
    starters: Sequence[FeedLink],
) -> list[Route]:
    """The routes of this module; new users are offered the feeds `starters`."""
    offered = partial(_offered, reader, starters)

    async def home(visit: PageVisit) -> Response:
        """All unread posts; for new users feeds to follow, without a session what this server is for."""
        if visit.session is None:
            return visit.page("stranger.html")
        user = visit.session.user
        follows, posts = await asyncio.gather(channels.follows_anything(user), timelines.everything(visit))
        return posts if follows else await _offer(reader, starters, visit)

    return [
        page(reader.site, HOME, home),
        page(reader.site, FIRST, offered),
        reader.change(FIRST, partial(_follow, reader, channels, following, quotas, starters), offered),
    ]


async def _offered(reader: ReaderSite, starters: Sequence[FeedLink], visit: PageVisit) -> Response:
    await reader.user(visit)
    return await _offer(reader, starters, visit)


async def _offer(reader: ReaderSite, starters: Sequence[FeedLink], visit: PageVisit) -> Response:
    return visit.page("first.html", starters=starters, channels=await reader.links(visit))


async def _follow(
    reader: ReaderSite,
    channels: Channels,
    following: Following,
    quotas: UserQuotas,
    starters: Sequence[FeedLink],
    visit: PageVisit,
) -> Response:
    """Follow the chosen feeds in the user's first channel, or in a new one."""
    chosen = [one for one in starters if one.url in visit.form.getlist("feed")]
    if not chosen:
        raise InvalidRequest(N_("Choose at least one feed, or search for others."))
    user = await reader.user(visit)
    limits = await quotas.of(user)
    own = [one.uid for one in await channels.list(user) if one.uid not in BUILT_IN]
    if not own:
        made = await channels.create(user, visit.translate(N_("Home")), visit.now, most=limits.channels or 0)
        own = [made.uid]
    for one in chosen:
        await following.follow(user, own[0], one.url, visit.now, most=limits.feeds or 0)
    return visit.go(f"{CHANNEL}/{own[0]}", show="all")


# --- feeds to start with --------------------------------------------------------------------------------------------


def starter_feeds(path: Path | None = None) -> Sequence[FeedLink]:
    """The feeds of that file, in its order; without a file, the built-in ones. Raises ConfigError."""
    file = path or OUR_STARTERS
    try:
        rows = tomllib.loads(file.read_text("utf-8")).get("feed", [])
    except (OSError, ValueError) as problem:
        raise ConfigError(file=str(file), path="", found=str(problem), expected="TOML with [[feed]] tables") from None
    if not isinstance(rows, list) or len(rows) > MOST_STARTERS:
        expected = f"at most {MOST_STARTERS} [[feed]] tables"
        raise ConfigError(file=str(file), path="feed", found=f"{rows!s:.100}", expected=expected)
    return [_starter(file, number, row) for number, row in enumerate(rows)]


def _starter(file: Path, number: int, row: Mapping[str, Any]) -> FeedLink:
    known = {name: str(row.get(name, "")) for name in ("name", "url", "about")}
    url = web_address(known["url"])
    if row.keys() - known.keys() or not known["name"] or url is None:
        expected = "a 'name', a web address as 'url' and perhaps 'about'"
        raise ConfigError(file=str(file), path=f"feed[{number}]", found=f"{dict(row)!s:.100}", expected=expected)
    return FeedLink(url, "", known["name"], description=known["about"])
