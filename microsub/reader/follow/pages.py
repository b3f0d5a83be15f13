"""The page on which users find and follow feeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import UserQuotas
from microsub.base.errors import NotFound, RequestError
from microsub.base.texts import N_
from microsub.base.urls import mask_credentials, with_password, without_credentials
from microsub.discovery import HIDDEN, MAX_RESULTS, WRITTEN, EnteredAddresses, Search, SearchAnswer
from microsub.feeds import Feeds
from microsub.formats.feed_links import FeedLink
from microsub.model.settings import SettingsOf
from microsub.model.sign_ins import sign_in_headers
from microsub.reader.channel_list import ChannelLink, ChannelLinks
from microsub.reader.frame import ReaderSite
from microsub.reader.places import ITEM_ID, given_address
from microsub.reader.reading.images import Images
from microsub.reader.reading.own_feeds import OwnFeed, OwnFeeds
from microsub.reader.settings.lists import LISTS
from microsub.timelines import MOST_OF_NAME, Channels, Following, SignedFeeds
from microsub.web.forms import began_elsewhere
from microsub.web.routes import slow_page
from microsub.web.visit import PageVisit

FOLLOW, UNFOLLOW, SIGN_IN = "/follow", "/follow/end", "/follow/sign-in"
NEW = "+"
"""The value for a new channel in the choice of channels."""


@dataclass(frozen=True, slots=True)
class FeedCandidate:
    """A feed that a search found; `shown` is its address without passwords, `channels` are the uids that follow it,
    `feed` is its id, empty for an unknown one.

    `has_preview`: there is a document at its address that can be shown.
    """

    url: str
    shown: str
    title: str
    description: str
    picture: str
    feed: str
    channels: Sequence[str]
    has_preview: bool


@dataclass(eq=False, repr=False)
class FollowPages:
    """The pages that find and follow feeds."""

    reader: ReaderSite
    channels: Channels
    feeds: Feeds
    following: Following
    search: Search
    entered: EnteredAddresses
    images: Images
    quotas: UserQuotas
    own_feeds: OwnFeeds
    signed: SignedFeeds
    settings_of: SettingsOf

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [
            slow_page(self.reader.site, FOLLOW, self._found),
            self.reader.change(FOLLOW, self._follow, self._found_again),
            self.reader.change(UNFOLLOW, self._unfollow),
            self.reader.change(SIGN_IN, self._sign_in, self._locked),
        ]

    async def _found(self, visit: PageVisit) -> Response:
        """The search field and its results. Another site can only fill in the field."""
        answer = None
        user = await self.reader.user(visit)
        asked = _asked(visit)
        elsewhere = began_elsewhere(visit.request, visit.base)
        if asked != (hidden := without_credentials(asked, HIDDEN)):
            # The browser keeps the address of this page, and shows it: without the password.
            if elsewhere:
                # Another site's password would be the one of the user's next follow.
                hidden = without_credentials(asked)
            else:
                await self.entered.keep(user, [asked])
            return visit.go(FOLLOW, q=hidden, channel=visit.query.get("channel", ""))
        if asked and not elsewhere:
            try:
                whole = await self.entered.whole(user, asked)
                answer = await self.search.feeds(whole, visit.now)
                await self.entered.keep_private(user, whole, [link.url for link in answer.feeds])
            except RequestError as error:
                visit.problem = error
        async with visit.turn():
            return await self._found_page(visit, answer)

    async def _found_again(self, visit: PageVisit) -> Response:
        await self.reader.user(visit)
        return await self._found_page(visit)

    async def _found_page(self, visit: PageVisit, answer: SearchAnswer | None = None) -> Response:
        user, everywhere = visit.require_session().user, await self.reader.links(visit)
        followed = await self._just_followed(visit, everywhere.own)
        settings = await self.settings_of(user, followed.channel.uid) if followed is not None else None
        read = visit.request.headers.get("referer", "").partition("/channel/")[2].partition("?")[0]
        return visit.page(
            "follow.html",
            asked=_asked(visit),
            own=await self._own(visit, everywhere, answer) if answer is not None else [],
            candidates=[] if answer is None else await self._candidates(visit, user, answer.feeds),
            searched=answer is not None,
            most=MAX_RESULTS,
            is_elsewhere=answer is not None and answer.is_elsewhere,
            trouble="" if answer is None else answer.trouble or "",
            is_locked=answer is not None and answer.is_locked,
            may_allow=answer is not None and answer.is_private and visit.require_session().admin,
            choices=everywhere.own,
            chosen=visit.query.get("channel") or visit.form.text("channel") or read,
            followed=followed,
            is_undone="done" in visit.query,
            unread=settings.first_fetch_unread if settings is not None else None,
            channels=everywhere,
            bookmarklet=_bookmarklet(visit),
            lists=LISTS,
        )

    async def _sign_in(self, visit: PageVisit) -> Response:
        """Search again with a user name and a password, which a follow seals."""
        user, asked = await self.reader.user(visit), _asked(visit)
        url = given_address(without_credentials(asked if "://" in asked else f"https://{asked}"))
        name, password = visit.form.get("user_name", ""), visit.form.get("password", "")
        sign_in_headers(name, password)
        entered = with_password(url, name, password)
        await self.entered.keep(user, [entered])
        return visit.go(FOLLOW, q=without_credentials(entered, HIDDEN), channel=visit.form.text("channel"))

    async def _locked(self, visit: PageVisit) -> Response:
        await self.reader.user(visit)
        return await self._found_page(visit, SearchAnswer([], is_locked=True))

    async def _follow(self, visit: PageVisit) -> Response:
        user = await self.reader.user(visit)
        url = await self.entered.whole(user, given_address(visit.form.text("url")))
        quotas = await self.quotas.of(user)
        uid = visit.form.text("channel")
        if uid == NEW:
            name = visit.form.text("name") or visit.translate(N_("Home"))
            known = (await self.reader.links(visit)).called(name)
            channel = known or await self.channels.create(user, name, visit.now, most=quotas.channels or 0)
            uid = channel.uid
        followed = await self.signed.follow(user, uid, url, visit.now, most=quotas.feeds or 0)
        title = visit.form.text("title")[:MOST_OF_NAME]
        return visit.go(FOLLOW, q=visit.form.text("q"), feed=followed.record.id, channel=uid, title=title)

    async def _unfollow(self, visit: PageVisit) -> Response:
        """End a follow that has just begun."""
        user = await self.reader.user(visit)
        uid, feed = visit.form.text("channel"), visit.form.text("feed")
        record = await self.feeds.get(feed) if ITEM_ID.fullmatch(feed) else None
        if record is not None:
            await self.following.unfollow(user, uid, record.url, visit.now)
        return visit.go(FOLLOW, q=visit.form.text("q"), channel=uid, done="yes")

    async def _candidates(self, visit: PageVisit, user: str, found: Sequence[FeedLink]) -> list[FeedCandidate]:
        followers = await followers_of(self.channels, self.feeds, user, [link.url for link in found])
        picture = await self.images.addresses(user)
        return [
            FeedCandidate(
                without_credentials(link.url, HIDDEN),
                mask_credentials(link.url),
                link.title or mask_credentials(link.url),
                link.description or "",
                visit.site.pages.href(picture(link.photo)) if link.photo else "",
                *followers.get(link.url, ("", ())),
                link.format != WRITTEN,
            )
            for link in found
        ]

    async def _own(self, visit: PageVisit, links: ChannelLinks, answer: SearchAnswer) -> list[OwnFeed]:
        """The user's feeds that are called as the search asks, without those in the answer."""
        words = _asked(visit).casefold().split()
        return await self.own_feeds.called(visit.user, links, words, {link.url for link in answer.feeds})

    async def _just_followed(self, visit: PageVisit, choices: Sequence[ChannelLink]) -> OwnFeed | None:
        feed = visit.query.get("feed", "")
        channel = next((one for one in choices if one.uid == visit.query.get("channel")), None)
        if channel is None or not ITEM_ID.fullmatch(feed):
            return None
        if not await self.channels.follows(visit.user, channel.uid, feed):
            return None
        record = await self.feeds.get(feed)
        if record is None:
            raise NotFound(N_("There is no such feed."))
        # Before the first poll, use the name that the search found.
        name = record.title or visit.query.get("title", "")[:MOST_OF_NAME] or mask_credentials(record.url)
        return OwnFeed(feed, mask_credentials(record.url), name, channel)


def _asked(visit: PageVisit) -> str:
    """The text to search for. Programs that share an address send it as `url` or `text`."""
    given = [
        *(visit.query.get(name, "").strip() for name in ("q", "url", "text")),
        visit.form.text("q"),
        visit.form.text("url"),
    ]
    return next(filter(None, given), "")


async def followers_of(
    channels: Channels, feeds: Feeds, user: str, urls: Sequence[str]
) -> dict[str, tuple[str, Sequence[str]]]:
    """The ids of these feeds, and the user's channels that already follow them; unknown feeds are left out."""
    followers: dict[str, list[str]] = {}
    for uid, subscriptions in (await channels.all_subscriptions(user)).items():
        for subscription in subscriptions:
            followers.setdefault(subscription.feed, []).append(uid)
    known = await feeds.find_many(urls)
    return {url: (feed, followers.get(feed, ())) for url, feed in known.items()}


def _bookmarklet(visit: PageVisit) -> str:
    """A bookmarklet that opens the page with the current page's address."""
    return f"javascript:location.href='{visit.base}{FOLLOW}?q='+encodeURIComponent(location.href)"
