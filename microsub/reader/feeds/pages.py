"""The pages for a followed feed's settings, for all feeds, and for the feeds of a channel in the sidebar."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from markupsafe import Markup
from starlette.responses import Response
from starlette.routing import Route

from microsub import model
from microsub.accounts import Most
from microsub.articles import TROUBLE, ArticleStage, NoArticle, Selectors
from microsub.base.clock import HOUR
from microsub.base.errors import Forbidden, InvalidRequest, NotFound, TooManyRequests
from microsub.base.plaintext import by_name, on_one_line
from microsub.base.rate_limits import RateLimiter
from microsub.base.texts import N_, Sentence
from microsub.base.urls import mask_credentials, without_credentials
from microsub.configuration.model import FeedPolicy
from microsub.discovery import HIDDEN, EnteredAddresses, Search
from microsub.feeds import ADVICE_IN_SETTINGS, FeedCondition, FeedRecord, Feeds, choosing, chosen_policy
from microsub.model.reader import GLOBAL, NAME, Subscription
from microsub.model.settings import NO_SETTINGS, FeedView, FollowSettings, FullTextChoice, SettingsOf, UserAgent
from microsub.model.sign_ins import MOST_HEADERS, sign_in_headers
from microsub.polling import PollOnRequest, free_again, waits_for_refresh
from microsub.reader.channel_list import ChannelLink
from microsub.reader.channels.filters import mark_refused, tried, words_in
from microsub.reader.channels.pages import EXPECTED, number_in
from microsub.reader.feeds.address import FeedThere, address_entered
from microsub.reader.feeds.chosen import ChosenFeeds
from microsub.reader.frame import ReaderSite
from microsub.reader.places import FEED, ITEM_ID, ListPart, TimelinePlace
from microsub.reader.reading.body import beginning_of, body_fitter
from microsub.reader.reading.images import Images
from microsub.reader.reading.post_page import TEXTS_OF_USER
from microsub.timelines import (
    MOST_OF_NAME,
    Channels,
    Followed,
    Following,
    ReaderViews,
    ReadState,
    SignedFeeds,
    choice_of,
    feed_name,
)
from microsub.web.routes import page
from microsub.web.visit import PageVisit

FEEDS = FEED
MOST_LISTED = 200
"""Feeds on one page of the table."""
LONGEST_DAYS, LONGEST_MINUTES = 36_500, 2880
_WEEK, _MONTH = 7, 30


@dataclass(frozen=True, slots=True)
class FeedRow:
    """A followed feed in the table of all feeds."""

    follow: Subscription
    name: str
    channel: ChannelLink
    condition: FeedCondition

    @property
    def posts_a_week(self) -> float:
        """How many posts the feed has in a week."""
        return self.condition.posts_a_month * _WEEK / _MONTH


_SORTS: dict[str, Callable[[FeedRow], tuple[object, ...]]] = {
    "name": lambda row: by_name(row.name),
    "channel": lambda row: (by_name(row.channel.name), by_name(row.name)),
    "posts": lambda row: (-row.posts_a_week, by_name(row.name)),
    "last": lambda row: (-row.condition.last_post, by_name(row.name)),
    "trouble": lambda row: (not row.condition.needs_attention, row.condition.state != "gone", by_name(row.name)),
}


@dataclass(eq=False, repr=False)
class FeedPages:
    """The pages for the feeds that a user follows."""

    reader: ReaderSite
    channels: Channels
    following: Following
    feeds: Feeds
    reading: ReaderViews
    images: Images
    polls: PollOnRequest
    settings_of: SettingsOf
    signed: SignedFeeds
    most: Most
    articles: ArticleStage
    limiter: RateLimiter
    search: Search
    entered: EnteredAddresses
    chosen: ChosenFeeds
    read_state: ReadState

    def routes(self) -> list[Route]:
        """The routes of this module."""
        one, change, chosen = f"{FEED}/{{feed}}", self.reader.change, self.chosen
        return [
            page(self.reader.site, FEEDS, self.table),
            change(f"{FEEDS}/refresh", self.refresh_all, self.table),
            change(f"{FEEDS}/chosen", chosen.change, self.table),
            change(f"{FEEDS}/chosen/undo", chosen.take_back, self.table),
            page(self.reader.site, f"{one}/settings", self.settings),
            change(f"{one}/settings", self.change, self.settings),
            change(f"{one}/refresh", self.refresh, self.settings),
            change(f"{one}/requests", self.set_requests, self.settings),
            change(f"{one}/sign-in", self.sign_in, self.settings),
            change(f"{one}/address", self.change_address, self.settings, is_slow=True),
            page(self.reader.site, "/channels/{uid}/feeds", self.branch),
        ]

    # --- one feed

    async def settings(self, visit: PageVisit, there: Sequence[FeedThere] = ()) -> Response:
        """What a feed is, its condition, and the user's settings for it; feeds found `there`, at another address."""
        user = await self.reader.user(visit)
        uid, follow = await self._follow(visit)
        links, record, effective, may, since, result = await asyncio.gather(
            self.reader.links(visit),
            self.feeds.get(follow.feed),
            self.settings_of(user, uid),
            self._may_set_requests(visit, follow.feed),
            self.channels.automatic_since(),
            self.chosen.result(visit),
        )
        marked, undo = await self.chosen.undo.said(visit)
        record = record or FeedRecord(follow.feed, follow.url)
        own, trial, shown, said = follow.settings, None, None, (follow.name or "", uid)
        if visit.problem is None and ("try" in visit.form or "show" in visit.form):
            own = _wanted(visit, own)
            if "try" in visit.form:
                trial = await tried(self.reading, visit, uid, own.filter, follow.feed)
            else:
                shown = await self._shown_page(visit, record, own)
            said = visit.form.text("name"), visit.form.text("to")
        return visit.page(
            "feed.html",
            follow=follow,
            own=own,
            trial=trial,
            shown=shown,
            said=said,
            is_kept=own == follow.settings,
            signed=await self.signed.state(record) if record.poll_host else "",
            name=feed_name(follow, record),
            title=record.title or "",
            url="" if record.is_internal else mask_credentials(follow.url),
            said_url=without_credentials(visit.form.text("url") or follow.url, HIDDEN),
            of_address="url" in visit.form,
            there=there,
            result=result,
            marked=marked,
            undo=undo,
            about=record.description or "",
            photo=(await self._pictures(visit))(record.icon or ""),
            condition=FeedCondition.of(record, visit.now),
            advice_here=ADVICE_IN_SETTINGS,
            most_headers=MOST_HEADERS,
            is_polled=bool(record.poll_host) and not record.gone,
            requests=chosen_policy(record) if may and record.poll_host else None,
            channel=next((link for link in links if link.uid == uid), None),
            uid=uid,
            at=TimelinePlace(uid, "all", follow.feed),
            effective=effective,
            views=get_args(FeedView),
            text=choice_of(follow, since),
            no_article=record.extra.get(TROUBLE, ""),
            now=visit.now,
            is_done="done" in visit.query,
            read_again=visit.query.get("done") == "texts",
            is_asked="asked" in visit.query,
            channels=links,
        )

    async def change(self, visit: PageVisit) -> Response:
        """Store all settings of the form, and move the feed if another channel is chosen."""
        user = await self.reader.user(visit)
        uid, follow = await self._follow(visit)
        name = on_one_line(visit.form.text("name"))
        if len(name) > MOST_OF_NAME:
            found = Sentence(N_("{count} characters"), count=len(name))
            short = Sentence(N_("at most {most}"), most=MOST_OF_NAME)
            raise InvalidRequest(Sentence(EXPECTED, name="name", found=found, expected=short))
        target = await self._target(visit, uid)
        wanted = _wanted(visit, follow.settings)
        if "try" in visit.form or "show" in visit.form:
            return await self.settings(visit)
        if wanted.full_text == choice_of(replace(follow, settings=NO_SETTINGS), await self.channels.automatic_since()):
            wanted = replace(wanted, full_text=None)
        await self.following.change(
            user, uid, follow.feed, visit.now, name=name, settings=wanted, former=follow.settings
        )
        said = {"done": "texts"} if Selectors.of(wanted) != Selectors.of(follow.settings) else {}
        if "past" in visit.form:
            to, at = target.uid if target is not None else "", (visit, uid, wanted.filter, follow.feed)
            said["undo"] = await mark_refused(self.reading, self.chosen.undo, self.read_state, *at, to)
        named = (name, follow.name or "") if name != (follow.name or "") else None
        if target is not None:
            ids = {f"{uid}/{follow.feed}"}
            return await self.chosen.do(visit, "move", ids, target, page=uid, said=said, named=named)
        if named is not None:
            record = await self.feeds.get(follow.feed) or FeedRecord(follow.feed, follow.url)
            shown = feed_name(replace(follow, name=name or None), record)
            said["result"] = (await self.chosen.renamed(user, uid, follow, name, shown)).id
        return self._go(visit, uid, follow, **{"done": "yes", **said})

    async def _target(self, visit: PageVisit, uid: str) -> ChannelLink | None:
        """The channel to which the form moves the feed; None if it stays."""
        links, to = await self.reader.links(visit), visit.form.text("to")
        present = next((link for link in links if link.uid == uid), None)
        if not to or to == uid or (present is not None and present.name == to):
            return None
        chosen = links.chosen(to)
        if chosen is None:
            raise NotFound(N_("There is no such channel."))
        return chosen

    async def refresh(self, visit: PageVisit) -> Response:
        """Poll the feed as soon as its host's rate limit allows."""
        user = await self.reader.user(visit)
        uid, follow = await self._follow(visit)
        await self.polls.ask(user, follow.feed, visit.now)
        return self._go(visit, uid, follow, asked="yes")

    async def set_requests(self, visit: PageVisit) -> Response:
        """Choose how the feed is asked for, as an admin, or until another user follows it."""
        user = await self.reader.user(visit)
        uid, follow = await self._follow(visit)
        if not await self._may_set_requests(visit, follow.feed):
            raise Forbidden(N_("Others follow this feed, too: only an admin can change how it is asked for."))
        agent = next((one for one in get_args(UserAgent) if one == visit.form.text("user_agent")), None)
        minutes = number_in(visit, "interval", LONGEST_MINUTES)
        wanted = FeedPolicy(interval=minutes * 60.0 if minutes else None, user_agent=agent)
        chooser = None if visit.require_session().admin else user
        await self.feeds.update(follow.feed, choosing(wanted, chooser))
        if not await self._may_set_requests(visit, follow.feed):  # another user has followed meanwhile
            await self.feeds.update(follow.feed, choosing(FeedPolicy()))
        return self._go(visit, uid, follow, done="yes")

    async def sign_in(self, visit: PageVisit) -> Response:
        """Ask for the feed with a user name and password or headers, as a feed of the user's own, or without again."""
        user = await self.reader.user(visit)
        uid, follow = await self._follow(visit)
        if visit.form.text("end"):
            record = await self.signed.remove(user, follow.feed, visit.now)
        else:
            most = await self.most("feeds", user)
            given = sign_in_headers(*(visit.form.get(name, "") for name in ("user_name", "password", "headers")))
            record = await self.signed.give(user, follow.feed, given, visit.now, most=most)
        return visit.go(f"{FEED}/{record.id}/settings", channel=uid, done="yes")

    async def change_address(self, visit: PageVisit) -> Response:
        """Follow the feed at another address instead; if several are found there, show them."""
        user = await self.reader.user(visit)
        uid, follow = await self._follow(visit)
        record = await self.feeds.get(follow.feed)
        if record is None or record.is_internal:
            raise InvalidRequest(N_("This feed has no address on the web."))
        there = await address_entered(self.search, self.entered, self.signed, visit, follow, record)
        if not isinstance(there, str):
            async with visit.turn():
                return await self.settings(visit, there)
        name = feed_name(follow, record)
        instead, kept = await self.chosen.change_address(visit, user, follow, name, there)
        return visit.go(f"{FEED}/{instead.id}/settings", fragment="top", channel=uid, result=kept.id)

    async def _may_set_requests(self, visit: PageVisit, feed: str) -> bool:
        """Whether the user is an admin, or the feed's only follower."""
        return visit.require_session().admin or await self.feeds.subscriber_count(feed) == 1

    async def _follow(self, visit: PageVisit) -> tuple[str, Subscription]:
        """The feed in the address, and the channel there, or else the first one that follows the feed."""
        feed, uid = visit.request.path_params["feed"], visit.form.text("channel") or visit.query.get("channel", "")
        if not ITEM_ID.fullmatch(feed) or (uid and not NAME.match(uid)):
            raise NotFound(N_("You don’t follow this feed."))
        if uid and uid != GLOBAL:
            found = await self.channels.subscription(visit.user, uid, feed)
        else:
            everywhere = await self.channels.all_subscriptions(visit.user)
            uid, found = next(
                ((uid, one) for uid, some in everywhere.items() for one in some if one.feed == feed), (uid, None)
            )
        if found is None:
            raise NotFound(N_("You don’t follow this feed."))
        return uid, found

    def _go(self, visit: PageVisit, uid: str, follow: Subscription, **about: str) -> Response:
        return visit.go(f"{FEED}/{follow.feed}/settings", channel=uid, **about)

    async def _shown_page(self, visit: PageVisit, record: FeedRecord, own: FollowSettings) -> tuple[str, str, str]:
        """The title of the newest post, and its HTML with the full text of these selectors, or why there is none."""
        if not self.limiter.count(TEXTS_OF_USER, visit.user):
            raise TooManyRequests(N_("Too many full texts at once. Try again in a minute."), 60)
        title, found = await self.articles.try_newest(record, own)
        if isinstance(found, NoArticle):
            return title, "", found.why
        fit = body_fitter(await self._pictures(visit), leaves=visit.leaves)
        html = fit(beginning_of(found.html or ""))
        return title, Markup(html), ""  # noqa: S704 - written by the sanitiser

    async def _pictures(self, visit: PageVisit) -> Callable[[str], str]:
        """From the address of a picture to the one here; empty if there is none."""
        address, href = await self.images.addresses(visit.user), visit.site.pages.href
        return lambda url: href(path) if url and (path := address(url)) else ""

    async def branch(self, visit: PageVisit) -> Response:
        """The feeds of a channel with their unread posts: a part of the sidebar, or a page of its own."""
        user, uid = await self.reader.user(visit), visit.request.path_params["uid"]
        if not NAME.match(uid):
            raise NotFound(N_("There is no such channel."))
        branch, picture = await asyncio.gather(self.reading.branch(user, uid), self._pictures(visit))
        shown = {"feeds": branch, "uid": uid, "picture": picture}
        if "part" in visit.query:
            return visit.page("branch.html", **shown)
        links = await self.reader.links(visit)
        channel = next((link for link in links if link.uid == uid), None)
        return visit.page("channel-feeds.html", **shown, channel=channel, channels=links)

    # --- all feeds

    async def table(self, visit: PageVisit) -> Response:
        """All feeds, or those whose names have some words, sorted."""
        user = await self.reader.user(visit)
        if visit.problem is None and "part" in visit.query:
            return await self._notice(visit)
        everywhere, links, result = await asyncio.gather(
            self.channels.all_subscriptions(user), self.reader.links(visit), self.chosen.result(visit)
        )
        given: Mapping[str, str] = visit.query if visit.problem is None else visit.form
        order = given.get("sort", "name")
        order = order if order in _SORTS else "name"
        words = on_one_line(given.get("q", ""))[:MOST_OF_NAME]
        looked_for = {*words.casefold().split()}
        records = await self.feeds.within_reach(one.feed for some in everywhere.values() for one in some)
        asked = int(given["asked"]) if ITEM_ID.fullmatch(given.get("asked", "")) else 0
        is_refreshing = 0 <= visit.now - asked < HOUR

        def rows() -> tuple[list[FeedRow], list[FeedRow]]:
            followed = [
                (link, Followed(one, records.get(one.feed) or FeedRecord(one.feed, one.url)))
                for link in links
                for one in everywhere.get(link.uid, ())
            ]
            found = [
                FeedRow(one.subscription, one.name, link, FeedCondition.of(one.record, visit.now))
                for link, one in followed
                if not one.record.is_internal
            ]
            everything = sorted(found, key=_SORTS[order])
            names = [row.name.casefold() for row in everything]
            pairs = zip(everything, names, strict=True)
            return everything, [row for row, name in pairs if all(word in name for word in looked_for)]

        # In a thread, because there may be thousands of feeds.
        everything, named = await asyncio.to_thread(rows)
        troubled = Counter(row.channel.uid for row in everything if row.condition.needs_attention)
        return visit.page(
            "feeds.html",
            listed=ListPart.of(named, given.get("from", ""), MOST_LISTED),
            result=result,
            ticked=set(visit.form.getlist("feed")) if visit.problem is not None else set(),
            all_ticked="all" in visit.query,
            words=words,
            followed=len(everything),
            troubled=troubled.total(),
            order=order,
            now=visit.now,
            waiting=sum(waits_for_refresh(one, asked) for one in records.values()) if is_refreshing else None,
            refreshed=any((one.last_poll or 0.0) >= asked for one in records.values()),
            left_out=[at for one in records.values() if (at := free_again(one, asked))] if is_refreshing else [],
            channels=links.marked(troubled),
        )

    async def _notice(self, visit: PageVisit) -> Response:
        """The result of a change of several feeds alone, for a page that stays as it is."""
        result, links = await asyncio.gather(self.chosen.result(visit), self.reader.links(visit))
        return visit.page("chosen.html", result=result, channels=links, counts=links.unread)

    async def refresh_all(self, visit: PageVisit) -> Response:
        """Poll all feeds, those that wait longest first; the table says how many still wait."""
        user = await self.reader.user(visit)
        records = await self.feeds.within_reach(await self.channels.followed_feeds(user))
        await self.polls.ask_all(user, records.values(), visit.now)
        return visit.go(FEEDS, asked=str(int(visit.now)))


def _wanted(visit: PageVisit, own: FollowSettings) -> FollowSettings:
    """The settings in the form; those that it doesn't have stay."""
    view = next((view for view in get_args(FeedView) if view == visit.form.text("view")), None)
    notify = {"yes": True, "no": False}.get(visit.form.text("notify"))
    filter_ = replace(
        own.filter,
        exclude_words=words_in(visit.form, "exclude_words"),
        include_words=words_in(visit.form, "include_words"),
    )
    days = own.keep_unread_days  # parts of a day, which backend.json can have, stay
    if days is None or visit.form.text("keep_unread_days") != f"{days:g}":
        days = number_in(visit, "keep_unread_days", LONGEST_DAYS)
    article, without = (_selector(visit, name, getattr(own, name)) for name in ("article", "article_without"))
    full_text = next((one for one in get_args(FullTextChoice) if one == visit.form.text("full_text")), own.full_text)
    return replace(
        own,
        view=view,
        full_text=full_text,
        article=article,
        article_without=without,
        notify=notify,
        hide_in_all="hide_in_all" in visit.form,
        keep_unread_days=days,
        filter=filter_,
    )


def _selector(visit: PageVisit, name: str, own: str | None) -> str | None:
    """The CSS selector in a field of the form."""
    text = visit.form.text(name) if name in visit.form else own or ""
    try:
        if text:
            model.xpath_of(text)
    except model.BadSelector as error:
        if error.at is None:
            raise InvalidRequest(Sentence(N_("“{text}” can’t be used as a CSS selector."), text=text[:80])) from None
        why = N_("“{text}” can’t be used as a CSS selector: there is an error at character {at}.")
        raise InvalidRequest(Sentence(why, text=text[:80], at=error.at)) from None
    return text or None
