"""One poll of one feed: fetch, parse, store, plan. Each may run twice; validators come last.

After a crash the next poll completes the work: the step that claimed the first guid has deleted the feed's validators,
so the document is read again. Delivery to timelines is left to the next stage.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from random import random as chance
from typing import TYPE_CHECKING, Any

import structlog

from microsub.base.errors import ParseError, ParserUnavailable, ParsingStopped, QuotaReached, StoreError
from microsub.base.metrics import FETCH_SECONDS, POLL_DELAY, POLLS
from microsub.base.urls import host_of, mask_credentials
from microsub.configuration.model import InstanceSettings, default_settings
from microsub.feeds import NEVER_POLLED, UNANNOUNCED, Trouble, answered, chosen_policy, describe, held_until
from microsub.fetch import Fetched, FetchFailed, Fetching, FetchRequest, FetchResult, NotModified, holding_for
from microsub.formats.feed_links import BETTER_FEEDS, NAMED_IN_HEAD, FeedLink, feeds_by_address
from microsub.polling.move import MOST_MOVED, NOT_MOVED, instead_of_failure, instead_of_page, successor_of
from microsub.polling.plan import (
    MOVE_SECONDS,
    PAGE_MOVE_SECONDS,
    Failed,
    FeedAnswered,
    Outcome,
    PollHistory,
    fields_of,
    has_moved,
    history_of,
    last_looked,
    notified,
    plan_next,
    poll_policy,
    polled_first,
    trouble_of,
    with_sighting,
)
from microsub.posts import POSTS_IN, EntriesFound, Ingested, PostsRead
from microsub.work import Message

if TYPE_CHECKING:
    from microsub.feeds import Events, FeedRecord, Feeds
    from microsub.model.jf2 import Feed
    from microsub.parsing.pool import ParsePool
    from microsub.polling.move import Moved, Mover
    from microsub.posts import Ingest, Items
    from microsub.redis.protocol import ScriptCall
    from microsub.work import DeadLetters


log = structlog.get_logger(__name__)

_NOTHING_SEEN: Mapping[str, str | None] = {"body_hash": None, "etag": None, "last_modified": None}
"""Written with a change of the feed's metadata: after a crash at that point, the next poll reads the document."""

_ATTEMPTS = 2
"""Attempts to store a post: with the others of its document, and alone."""

PUT_OFF_SECONDS = 15.0
"""Seconds until a feed is polled again after a failure of this process."""

_SOME = 20
"""Number of followers of a feed that are compared; the one with the least usage is charged for its document."""


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of a poll.

    `outcome` is one of changed, unchanged, not_modified, gone, unfollowed, held, moved (it is a page whose feed is
    followed from now on), written (only programs save its posts, and its address is no feed: nothing is counted),
    overtaken (a later poll of the feed has begun, or its record is gone; this one is void), local (this process had no
    file descriptor left, or no parser: nothing is counted), or the reason of a failure, which `detail` explains.
    `next_poll` is a Unix time or None: never again; `host` is where the feed is polled from now on; `hold_until` is set
    when the publisher asked for a pause. `ended`: the replies to the calls sent along with the end of the poll
    (`Ending`), None without any.
    """

    feed: str
    outcome: str
    next_poll: float | None
    host: str
    new: int = 0
    updated: int = 0
    detail: str = ""
    hold_until: float | None = None
    ended: tuple[Any, ...] | None = None

    @property
    def failed(self) -> bool:
        """Whether no usable document could be fetched."""
        return bool(self.detail)


Ending = Callable[[float], "Sequence[ScriptCall]"]
"""Calls to send along with the end of a poll that is due again at a Unix time, in the same round trip."""


@dataclass(frozen=True, slots=True)
class FeedDue:
    """A feed at the beginning of its poll, with the fingerprints of its last document; `asked` is a Unix time.

    `users` follow it; `ending` may be sent with the end of the poll.
    """

    feed: FeedRecord
    asked: float
    users: frozenset[str] = frozenset()
    fingerprints: bytes | None = None
    ending: Ending | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Some of the followers, to whom the document is accounted."""
        return tuple(islice(self.users, _SOME))


@dataclass(eq=False, repr=False)
class Poller:
    """Polls feeds one at a time; any number of polls of different feeds may run in one instance.

    `dead` gets posts that can't be stored. `on_answered` gets each feed that answered, as its document describes it,
    and how many posts the poll found that a trusted hub had not delivered. `on_turned` gets the id of each feed that
    begins or ceases to fail. `on_trouble` gets each feed in trouble before that is recorded, possibly repeatedly.
    `require_room` raises QuotaReached if none of a feed's followers has room for its posts.

    `on_refused` is for commands that run next to a server: it gets each feed whose address the command's own settings
    forbid. The feed's health and time don't change, because the server's settings may differ.
    """

    feeds: Feeds
    items: Items
    ingest: Ingest
    dead: DeadLetters
    events: Events
    fetcher: Fetching
    parser: ParsePool
    _: KW_ONLY
    mover: Mover | None = None
    settings: Callable[[], Awaitable[InstanceSettings]] = default_settings
    clock: Callable[[], float] = time.time
    random: Callable[[], float] = chance
    on_refused: Callable[[PollResult], object] | None = None
    on_answered: Callable[[FeedRecord, int], Awaitable[None]] | None = None
    on_turned: Callable[[str], Awaitable[None]] | None = None
    on_trouble: Callable[[FeedRecord, Trouble], Awaitable[None]] | None = None
    require_room: Callable[[Collection[str]], Awaitable[None]] | None = None

    async def poll(self, feed_id: str, ending: Ending | None = None) -> PollResult:
        """Poll a feed once, due or not, unless it is gone or nobody follows it.

        If the poll ends with a plan for the same feed on the same host, without a hold, the calls of `ending` are sent
        with that plan. Raises StoreError, and unexpected errors; the caller plans the next attempt then.
        """
        found = await self.feeds.begin_reading(feed_id)
        if found is None:
            return PollResult(feed_id, "gone", None, "")
        feed, users, fingerprints = found
        if feed.gone:
            return PollResult(feed_id, "gone", None, host_of(feed.url))
        if not users:
            return PollResult(feed_id, "unfollowed", None, host_of(feed.url))
        pause = held_until(feed, self.clock())
        if pause is not None:
            return PollResult(feed_id, "held", pause, host_of(feed.url))
        due = FeedDue(feed, self.clock(), users, fingerprints, ending)
        if feed.next_poll is not None:
            POLL_DELAY.observe(max(0.0, due.asked - feed.next_poll))
        with structlog.contextvars.bound_contextvars(feed=feed.id, url=mask_credentials(feed.url)):
            try:
                if self.mover is not None and (joined := await self.mover.join(feed, due.asked)) is not None:
                    return await self._passed(due, joined)
                return await self._conclude(due, await self._fetch(due, len(users)))
            except ParserUnavailable as error:
                return self.put_off(feed.id, str(error))

    async def give_up(self, feed_id: str, reason: str, detail: str) -> PollResult:
        """Plan the next attempt after a poll that ended in an unexpected error; otherwise it would follow at once."""
        feed = await self.feeds.get(feed_id)
        if feed is None:
            return PollResult(feed_id, "gone", None, "")
        with structlog.contextvars.bound_contextvars(feed=feed.id, url=mask_credentials(feed.url)):
            return await self._settle(FeedDue(feed, self.clock()), Failed(reason, detail), {}, None)

    def put_off(self, feed_id: str, detail: str) -> PollResult:
        """Leave the feed unchanged, to be polled soon; a shortage of this process isn't counted as its failure."""
        return PollResult(feed_id, "local", self.clock() + PUT_OFF_SECONDS, "", detail=detail)

    async def _fetch(self, due: FeedDue, subscribers: int) -> FetchResult:
        feed, start = due.feed, time.perf_counter()
        agent = poll_policy(await self.settings(), feed.url, chosen_policy(feed)).user_agent
        try:
            with holding_for([f"user {name}" for name in due.keys]):
                # The record's own validators, never a copy's: a 304 means that the stored posts are complete.
                return await self.fetcher.fetch(
                    FetchRequest(
                        feed.url,
                        feed.etag,
                        feed.last_modified,
                        subscribers=subscribers,
                        since=last_looked(feed),
                        user_agent=agent,
                        signs_in=True,
                    )
                )
        finally:
            FETCH_SECONDS.observe(time.perf_counter() - start)

    async def _conclude(self, due: FeedDue, reply: FetchResult) -> PollResult:
        match reply:
            case FetchFailed(ours=True):
                return self.put_off(due.feed.id, reply.detail)
            case FetchFailed() if left := await self._pass_on(due, reply):
                return left
            case FetchFailed(reason="gone"):
                return await self._settle(due, Failed("gone", reply.detail), {}, None)
            case FetchFailed(forbidden=True) if self.on_refused is not None:
                return self._refused(due.feed, reply.detail)
            case FetchFailed(refused=True, retry_after=None) if left := await self._go_over(
                due, instead_of_page(due.feed, feeds_by_address(due.feed.url))
            ):
                return left
            case FetchFailed():
                return await self._settle(due, Failed(reply.told, reply.detail, reply.retry_after), {}, None)
            case NotModified():
                fields = {"etag": reply.etag, "last_modified": reply.last_modified}
                answer = FeedAnswered(max_age=reply.max_age, not_modified=True)
                return await self._settle(due, answer, fields, reply.moved_to, "not_modified")
            case Fetched():
                return await self._take(due, reply)

    def _refused(self, feed: FeedRecord, detail: str) -> PollResult:
        """Leave the feed and its due time unchanged, for a worker that may poll it."""
        due = max(feed.next_poll or 0.0, self.clock() + 1.0)
        result = PollResult(feed.id, "blocked", due, host_of(feed.url), detail=detail)
        if self.on_refused is not None:
            self.on_refused(result)
        return result

    async def _take(self, due: FeedDue, document: Fetched) -> PollResult:
        fields = {"etag": document.etag, "last_modified": document.last_modified}
        digest = hashlib.sha256(document.body).hexdigest()
        if digest == due.feed.body_hash:
            return await self._settle(
                due, FeedAnswered(max_age=document.max_age), fields, document.moved_to, "unchanged"
            )
        now, source = self.clock(), due.feed.url
        when = _discovered(due.feed, now)
        parsed: PostsRead | ParseError
        try:
            fingerprints = due.fingerprints or await self.feeds.fingerprints(due.feed)
            page, link = (document.final_url, document.content_type), document.headers.get("link")
            about = (*page, source, fingerprints, when, link)
            read, seconds = await self.parser.measured(POSTS_IN, document.url, document.body, *about, keys=due.keys)
            parsed = read
        except ParseError as error:
            parsed = error.with_traceback(None)  # a traceback would keep this frame and the document in memory for long
            seconds = error.seconds if isinstance(error, ParsingStopped) else 0.0
        if due.feed.last_success is None:
            links = await self._named(due, document, parsed)
            # Instead of the page we may have received a request for consent or sign-in, but we may know its feed.
            if not links and isinstance(parsed, ParseError):
                links = feeds_by_address(due.feed.url)
            if left := await self._go_over(due, instead_of_page(due.feed, links)):
                return left
        if isinstance(parsed, ParseError):
            if left := await self._pass_on(due):
                return left
            detail, successor = await self._named_on_page(due, document, parsed)
            return await self._settle(due, Failed("parse", detail, seconds=seconds), {}, successor)
        if parsed.items and self.require_room is not None:
            try:
                await self.require_room(due.users)
            except QuotaReached as error:
                return await self._settle(due, Failed("quota", error.description, seconds=seconds), {}, None)
        # Before the posts: mutes and blocks use the feed's home page too.
        await self._describe(due.feed, description_of(parsed.feed), now)
        due = replace(due, feed=replace(due.feed, hub=parsed.feed.hub, self_url=parsed.feed.self_url))
        taken = await self._store(due.feed, parsed, now, mostly_new=fingerprints is not None, users=due.users)
        outcome = FeedAnswered(
            taken.new, taken.updated, document.max_age, parsed.feed.ttl, parsed.dates, seconds=seconds
        )
        label = "changed" if taken.new or taken.updated else "unchanged"
        fields |= {"body_hash": digest, "last_read": f"{now:.3f}"}
        return await self._settle(due, outcome, fields, document.moved_to, label, parsed.fingerprints, taken.last)

    async def _pass_on(self, due: FeedDue, failure: FetchFailed | None = None) -> PollResult | None:
        """Follow the next of the feeds that a page named; None if the feed is kept."""
        if failure is not None and failure.forbidden and self.on_refused is not None:
            return None
        return await self._go_over(due, instead_of_failure(due.feed, failure))

    async def _go_over(self, due: FeedDue, urls: list[str]) -> PollResult | None:
        """Follow the first usable one of `urls` instead of this feed; None if there is none."""
        feed, now = due.feed, self.clock()
        moved = await self.mover.from_page(feed, urls, now) if urls and self.mover is not None else None
        return None if moved is None else await self._passed(due, moved)

    async def _named_on_page(self, due: FeedDue, document: Fetched, error: ParseError) -> tuple[str, str | None]:
        """What is wrong with a document that is no feed, and the address to which the feed may have moved.

        To that address only if the feed's posts are there: the domain's next owner may name a feed, too.
        """
        feed, about = due.feed, (document.final_url, document.content_type, document.headers.get("link"))
        try:
            links = await self.parser.run(NAMED_IN_HEAD, document.url, document.body, *about, keys=due.keys)
        except ParseError:
            links = []
        if not links:
            return error.detail, None
        there = successor_of(feed, links)
        detail = f"it is a page now, which names {mask_credentials(there or links[0].url)}"
        if there is None:
            return detail, None
        # A redirect seen before, while polls succeeded, has proved nothing about the posts.
        if (there == feed.moved_to and feed.failures) or await self._goes_on_at(due, there):
            return f"{detail}: if this lasts for three days, the feed moves there", there
        if there == feed.moved_to:
            await self.feeds.update(feed.id, NOT_MOVED)
        return f"{detail}, where this feed's posts weren't found", None

    async def _goes_on_at(self, due: FeedDue, url: str) -> bool:
        """Whether half of the posts of a feed at `url` or more are the feed's."""
        try:
            with holding_for([f"user {name}" for name in due.keys]):
                found = await self.fetcher.fetch(FetchRequest(url, subscribers=len(due.users), signs_in=True))
            if not isinstance(found, Fetched):
                return False
            about = found.final_url, found.content_type, url, None, self.clock(), None
            read = await self.parser.run(POSTS_IN, found.url, found.body, *about, keys=due.keys)
        except ParseError:
            return False
        return await self.items.has_posts_of(due.feed, read.items, MOST_MOVED)

    async def _passed(self, due: FeedDue, moved: Moved) -> PollResult:
        """The end of a poll after which another feed, or another address, is followed."""
        feed, (host, merged_into) = due.feed, moved
        POLLS.labels("moved").inc()
        if not merged_into:
            if feed.failures:  # which the record no longer has
                await self._turned(feed.id)
            return PollResult(feed.id, "moved", self.clock(), host)
        await self.feeds.update(feed.id, {"last_poll": f"{due.asked:.3f}"})
        return PollResult(feed.id, "moved", None, host)

    async def _store(
        self, feed: FeedRecord, read: PostsRead, now: float, *, mostly_new: bool, users: frozenset[str]
    ) -> Ingested:
        """Store new and edited posts of a document at once, or if that fails one by one.

        Posts that fail alone too become dead letters, which neither stop the others nor repeat the poll. Raises
        StoreError if Redis is unavailable.
        """
        posts, listing = read.items, read.listing
        try:
            # The number of unread posts of a first fill depends on all posts of the document.
            return await self.ingest.add_read(feed, posts, now, mostly_new=mostly_new, listing=listing, followers=users)
        except Exception as error:
            if _is_passing(error):
                raise
            log.warning("the posts of a document couldn't be stored at once", posts=len(posts), exc_info=error)
        taken = Ingested()
        for post in posts:
            try:
                one = await self.ingest.add_read(
                    feed, [post], now, mostly_new=mostly_new, listing=listing, followers=users
                )
            except Exception as error:
                if _is_passing(error):
                    raise
                log.exception("a post couldn't be stored and was moved to the dead letters", guid=post.guid)
                message = Message("", EntriesFound(feed.id, now, (post,), feed.reading).to_fields(), _ATTEMPTS)
                await self.dead.add("entries", message, f"{type(error).__name__}: {error}", now)
            else:
                taken = Ingested(taken.new + one.new, taken.updated + one.updated, (), (*taken.last, *one.last))
        return taken

    async def _describe(self, feed: FeedRecord, said: Mapping[str, str | None], now: float) -> None:
        """Store the document's description of the feed, and announce what changed."""
        is_new = feed.last_success is None and not feed.kept
        if is_new or UNANNOUNCED in feed.extra or any(value != described(feed, name) for name, value in said.items()):
            await describe(
                self.feeds,
                self.events,
                feed.id,
                said,
                now,
                if_changed=_NOTHING_SEEN,
                reading=feed.reading,
                is_new=is_new,
            )

    async def _settle(
        self,
        due: FeedDue,
        outcome: Outcome,
        fields: Mapping[str, str | None],
        moved_to: str | None,
        label: str = "",
        fingerprints: bytes | None = None,
        last: Sequence[ScriptCall] = (),
    ) -> PollResult:
        """Decide on the next poll and record it, the last step of a poll except for a move."""
        now, feed = self.clock(), due.feed
        if feed.is_written and not isinstance(outcome, FeedAnswered):
            # Somebody followed it, so its address was tried once; there is no publisher who could be in trouble.
            POLLS.labels("written").inc()
            await self.feeds.update(feed.id, NEVER_POLLED, feed.reading)
            return PollResult(feed.id, "written", None, host_of(feed.url))
        history = history_of(feed, now)
        policy = poll_policy(await self.settings(), feed.url, chosen_policy(feed))
        plan = plan_next(history, outcome, now, self.random(), policy)
        is_page = not isinstance(outcome, FeedAnswered)
        sighted = None if is_page and moved_to is None else with_sighting(history, moved_to, now)
        moves = sighted is not None and has_moved(sighted, now, PAGE_MOVE_SECONDS if is_page else MOVE_SECONDS)
        result = _result(feed, outcome, plan, label)
        counts = {"last_new": str(result.new), "last_updated": str(result.updated)}
        counts["answers"] = answered(feed, result.outcome, now)
        first = polled_first(feed, result.new, now)
        changes = {**fields, **fields_of(outcome, plan, sighted, due.asked, now), **counts, **first}
        if self.on_trouble is not None and (trouble := trouble_of(feed, outcome, plan.failures, now)) is not None:
            await self.on_trouble(feed, trouble)
            changes |= notified(trouble)
        calls: Sequence[ScriptCall] = ()
        if due.ending is not None and plan.next_poll is not None and plan.hold_until is None and not moves:
            calls = due.ending(plan.next_poll)
        written, replies = await self.feeds.settle(feed.id, changes, fingerprints, feed.reading, [*last, *calls])
        if not written:
            result, moves = PollResult(feed.id, "overtaken", plan.next_poll, result.host), False
        POLLS.labels(result.outcome).inc()
        _log(result)
        if written and is_page is not bool(feed.failures):
            await self._turned(feed.id)
        if written and isinstance(outcome, FeedAnswered) and self.on_answered is not None:
            await self.on_answered(feed, result.new if history.push else 0)
        if moves and moved_to is not None and self.mover is not None:
            if self.on_trouble is not None:
                await self.on_trouble(feed, Trouble("replaced" if is_page else "moved", moved_to))
            if is_page:
                left = await self.mover.to_successor(feed, moved_to, now)
                return result if left is None else await self._passed(due, left)
            host, merged_into = await self.mover.move(feed, moved_to, now)
            return replace(result, host=host, next_poll=None if merged_into else result.next_poll)
        return replace(result, ended=tuple(replies[len(last) :]) or None)

    async def _turned(self, feed_id: str) -> None:
        if self.on_turned is not None:
            await self.on_turned(feed_id)

    async def _named(self, due: FeedDue, document: Fetched, parsed: PostsRead | ParseError) -> list[FeedLink]:
        """The feeds to follow instead of a document, best first; none for a feed."""
        if not isinstance(parsed, ParseError) and parsed.feed.format != "h-feed":
            return []
        try:
            about = document.final_url, document.content_type, document.headers.get("link")
            return await self.parser.run(BETTER_FEEDS, document.url, document.body, *about, keys=due.keys)
        except ParseError:
            return []


def _is_passing(error: Exception) -> bool:
    """Whether Redis is unavailable: then the post isn't the cause."""
    return isinstance(error, StoreError) and error.passing


def _discovered(feed: FeedRecord, now: float) -> float:
    """The time for posts without a date.

    The posts of the first document are older than the follow that made the feed known, and the users' first fill
    must see that: sixty undated posts of a new feed aren't sixty posts since.
    """
    if feed.last_success is not None or feed.created is None:
        return now
    return min(now, feed.created - 0.001)


def _result(feed: FeedRecord, outcome: Outcome, plan: PollHistory, label: str) -> PollResult:
    host = host_of(feed.url)
    match outcome:
        case FeedAnswered():
            return PollResult(feed.id, label, plan.next_poll, host, outcome.new, outcome.updated)
        case Failed():
            return PollResult(
                feed.id, outcome.reason, plan.next_poll, host, detail=outcome.detail, hold_until=plan.hold_until
            )


def _log(result: PollResult) -> None:
    entry = log.bind(outcome=result.outcome, next_poll=_moment(result.next_poll))
    if result.failed:
        entry.warning("feed could not be polled", detail=result.detail)
    else:
        entry.info("feed polled", new=result.new, updated=result.updated)


def _moment(time: float | None) -> str | None:
    """A Unix time in readable form, in UTC."""
    return None if time is None else datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")


def description_of(parsed: Feed) -> dict[str, str | None]:
    """The document's description of the feed; fields that it leaves out are kept, except WebSub links."""
    found = {
        "title": parsed.name,
        "photo": parsed.photo,
        "home": parsed.home,
        "description": parsed.description,
        "format": parsed.format,
    }
    return {name: value for name, value in found.items() if value} | {
        "hub": parsed.hub,
        "self_url": parsed.self_url,
        "ttl": None if parsed.ttl is None else str(parsed.ttl),
    }


def described(feed: FeedRecord, name: str) -> str | None:
    """The record's value of that name."""
    return getattr(feed, name, None) if name != "ttl" else feed.extra.get("ttl")
