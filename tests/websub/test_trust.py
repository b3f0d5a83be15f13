"""When a hub is trusted, and the polls of feeds whose hub isn't."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from microsub.base.clock import DAY, HOUR
from microsub.base.urls import host_of
from microsub.feeds.events import Event
from microsub.fetch import RequestFailure
from microsub.websub.hubs import Hubs
from microsub.websub.subscriptions import FIRST_PAUSE
from tests.support.push import Push
from tests.support.web import Answer


async def wait_of(push: Push, feed: object) -> float:
    """Seconds from a poll that finds nothing new to the next one."""
    await push.poll(feed)  # type: ignore[arg-type]
    next_poll = (await push.it.record(feed)).next_poll  # type: ignore[arg-type]
    assert next_poll is not None
    return next_poll - push.it.now


async def test_polled_once_a_day_after_the_first_delivery(push: Push) -> None:
    """A hub that has only verified the subscription changes nothing."""
    feed = await push.subscribe()
    assert await wait_of(push, feed) < 12 * HOUR
    await push.deliver(push.publish("second"))
    assert await wait_of(push, feed) > 19 * HOUR
    metrics, _ = await push.it.parts.figures.exposition(push.it.now)
    assert b'microsub_websub_feeds{state="pushed"} 1.0' in metrics


async def test_a_delivery_with_nothing_new_earns_no_trust(push: Push) -> None:
    """A hub that only repeats posts from polls saves no polls."""
    feed = await push.subscribe()
    assert await push.deliver(push.document()) == [202]
    assert not (await push.health(feed)).pushed


async def test_a_poll_that_finds_a_post_first_ends_the_trust(push: Push) -> None:
    """The feed's own interval applies again, with the reason and a count for the hub; a delivery restores the trust."""
    feed = await push.subscribe()
    await push.deliver(push.publish("second"))
    push.publish("third", "fourth")
    await push.poll(feed)
    health = await push.health(feed)
    assert (health.pushed, health.subscribed) == (False, True)
    assert health.why == "a poll found posts before the hub delivered them"
    assert (health.posts_pushed, health.posts_polled) == (1, 2)
    assert await wait_of(push, feed) < 12 * HOUR
    counts = (await push.it.subscription_store.counts([push.hub.url]))[host_of(push.hub.url)]
    assert counts == {"asked": 1, "verified": 1, "delivered": 1, "posts": 1, "missed": 2}
    await push.deliver(push.publish("fifth"))
    assert (await push.health(feed)).pushed
    assert (await push.shown())[0] == "fifth"


async def test_deliveries_teach_how_often_a_feed_posts(push: Push) -> None:
    """Without the hub, the feed is polled at the rate of its pushed posts."""
    feed = await push.subscribe()
    before = (await push.it.record(feed)).extra["gap"]
    for hour in range(5):
        push.it.clock.advance(HOUR)
        await push.deliver(push.publish(f"hour {hour}"))
    after = await push.it.record(feed)
    assert float(after.extra["gap"]) < float(before)
    assert float(after.extra["last_change"]) == pytest.approx(push.it.now, abs=60)


async def test_trust_ends_with_the_lease(push: Push) -> None:
    """A dead hub is noticed when the lease ends at the latest, and the feed is polled as usual."""
    feed = await push.subscribe()
    await push.deliver(push.publish("second"))
    push.hub.answer = lambda asked, form: Answer(status=503)
    push.it.clock.advance(11 * DAY)
    await push.look()
    health = await push.health(feed)
    assert (health.pushed, health.subscribed) == (False, False)
    assert health.why == "the hub answered 503"
    assert await wait_of(push, feed) < 25 * HOUR
    record = await push.it.record(feed)
    assert record.extra.get("push") is None


async def test_a_hub_that_never_verifies_gets_fewer_requests(push: Push) -> None:
    """Pauses double up to a week: about ten requests in a month."""
    push.hub.verifies = False
    feed = await push.subscribe()
    for _ in range(30 * 24):
        push.it.clock.advance(HOUR)
        await push.look()
        assert len((await push.subscriptions(feed)).callbacks) <= 8
    assert 8 <= len(push.hub.asked_for("subscribe")) <= 14
    assert await wait_of(push, feed) < 25 * HOUR


@pytest.mark.parametrize("status", [400, 404, 410, 429, 500, 503])
async def test_a_hub_that_refuses_gets_fewer_requests(push: Push, status: int) -> None:
    """The feed's health shows the reason, no callback is kept, and the feed is polled as usual."""
    times: list[float] = []

    def refuse(asked: object, form: object) -> Answer:
        times.append(push.it.now)
        return Answer(b"no", status, headers=[("Content-Type", "text/plain"), ("Retry-After", "7200")])

    push.hub.answer = refuse  # type: ignore[assignment]
    feed = await push.subscribe()
    assert (await push.health(feed)).why == f"the hub answered {status}: no"
    assert (await push.subscriptions(feed)).callbacks == ()
    push.it.clock.advance(HOUR)
    await push.look()
    assert len(times) == 1, "Retry-After holds"
    for _ in range(7 * 24):
        push.it.clock.advance(HOUR)
        await push.look()
    assert 4 <= len(times) <= (8 if status in {400, 404, 410} else 10)


@pytest.mark.parametrize("after", ["\xb2\xb3", "soon", "-1", "9" * 400, "Wed, 21 Oct 2015 07:28:00 GMT"])
async def test_an_invalid_retry_after_is_ignored(push: Push, after: str) -> None:
    """An invalid `Retry-After` is ignored."""
    push.hub.answer = lambda asked, form: Answer(b"", 503, headers=[("Retry-After", after)])
    feed = await push.subscribe()
    assert (await push.health(feed)).why == "the hub answered 503"
    assert (await push.subscriptions(feed)).next <= push.it.now + FIRST_PAUSE


async def test_the_old_subscription_lasts_until_the_new_is_verified(push: Push) -> None:
    """The publisher changes the topic: the earlier subscription works until the new one is verified."""
    feed = await push.subscribe()
    first = push.topic
    moved = push.site.url("/moved", "blog.test")
    push.site.serve_document("/feed", push.hub.document(moved, "first"))
    await push.poll(feed)
    push.hub.verifies = False
    await push.look()
    assert await push.hub.publish(first, push.document("by the first")) == [202]
    push.hub.verifies = True
    push.it.clock.advance(HOUR)
    await push.look()
    await push.look()
    assert [one.topic for one in push.hub.subscriptions.values()] == [moved]
    assert not (await push.health(feed)).pushed
    assert await push.hub.publish(moved, push.document("by the second")) == [202]
    await push.it.stages.run_once()
    assert await push.shown() == ["by the second", "by the first", "first"]
    assert (await push.health(feed)).pushed


async def test_a_feed_that_names_no_hub_any_more_is_unsubscribed(push: Push) -> None:
    """The feed's health has the reason."""
    feed = await push.subscribe()
    push.site.serve_document("/feed", push.document().replace(b'rel="hub"', b'rel="none"'))
    await push.poll(feed)
    await push.look()
    await push.look()
    assert push.hub.callbacks == []
    assert (await push.health(feed)).why == "the feed names no hub"


async def test_a_subscription_follows_a_feed_that_moved_or_merged(push: Push) -> None:
    """After a move, the feed keeps its subscription. After a merge, only the other feed's subscription remains."""
    feed = await push.subscribe()
    new = push.site.url("/new", "blog.test")
    await push.it.mover.move(await push.it.record(feed), new, push.it.now)
    assert await push.deliver(push.document("after the move")) == [202]
    assert (await push.shown())[0] == "after the move"
    other = push.site.url("/other", "other.test")
    push.site.serve_document("/other", push.hub.document(other, "other"))
    await push.poll(await push.it.follow(other, "bob"))
    await push.look()
    await push.it.mover.move(await push.it.record(feed), other, push.it.now)
    await push.look()
    await push.look()
    assert [one.topic for one in push.hub.subscriptions.values()] == [other]
    assert await push.hub.publish(other, push.hub.document(other, "merged", "other")) == [202]
    await push.it.stages.run_once()
    assert (await push.shown())[0] == "merged"


async def test_a_feed_that_is_gone_is_unsubscribed(push: Push) -> None:
    """`410 Gone` ends the subscription too."""
    feed = await push.subscribe()
    push.site.serve("/feed", Answer(status=410))
    await push.poll(feed)
    push.it.clock.advance(2 * DAY)
    await push.look()
    await push.look()
    assert push.hub.callbacks == []


async def test_a_removed_user_leaves_no_subscription(push: Push) -> None:
    """Subscriptions of feeds without followers are ended by the repair of follows at the latest."""
    feed = await push.subscribe()
    await push.it.accounts.disable_user("alice", push.it.now)
    await push.it.follow_repair.run(push.it.now)
    await push.look()
    await push.look()
    assert (push.hub.callbacks, (await push.subscriptions(feed)).callbacks) == ([], ())
    report = await push.it.check()
    assert report.is_clean, report.as_text()


async def test_without_a_base_url_subscriptions_end(push: Push) -> None:
    """A server that hubs can't reach any more lets its subscriptions expire."""
    feed = await push.subscribe()
    await push.deliver(push.publish("second"))
    push.it.base_url = None
    push.it.__dict__.pop("subscriber")
    push.it.clock.advance(2 * DAY)
    await push.look()
    assert len(push.hub.requests) == 1
    assert not (await push.health(feed)).pushed
    push.it.clock.advance(15 * DAY)
    await push.look()
    await push.look()
    assert (await push.subscriptions(feed)).callbacks == ()


@pytest.mark.parametrize("jump", [-40 * DAY, 40 * DAY, -400 * DAY, 4000 * DAY])
async def test_a_clock_that_jumps_costs_a_renewal_at_most(push: Push, jump: float) -> None:
    """The clock is wrong for a moment and right again: the feed ends up with one subscription."""
    feed = await push.subscribe()
    push.it.clock.advance(jump)
    await push.look()
    await push.poll(feed)
    await push.look()
    push.it.clock.advance(-jump)
    for _ in range(3 * 24):
        push.it.clock.advance(HOUR)
        await push.look()
    await push.poll(feed)
    push.hub.clock = lambda: 0.0
    assert (await push.health(feed)).subscribed
    assert 202 in await push.deliver(push.document("second"))
    assert "second" in await push.shown()


async def test_the_daily_look_finds_what_was_lost(push: Push) -> None:
    """The due set is derived data: without it, every feed with a hub is checked again within a day."""
    feed = await push.follow()
    await push.poll(feed)
    for shard in range(16):
        await push.it.redis.command("DEL", f"due:websub:{shard}")
    assert await push.look() == 0
    await push.it.subscriber.look_at_all(push.it.now)
    assert await push.look() == 1
    assert (await push.health(feed)).subscribed


async def test_the_store_is_clean_at_every_step(push: Push) -> None:
    """`microsub check` knows all keys, with and without followers."""
    feed = await push.subscribe()
    await push.deliver(push.publish("second"))
    assert (await push.it.check()).is_clean
    await push.it.following.unfollow("alice", "home", push.topic, push.it.now)
    assert (await push.it.check()).is_clean
    await push.look()
    ttl = await push.it.redis.command("TTL", f"feed:{{{feed.id}}}:websub")
    assert 0 < ttl <= 30 * DAY or ttl == -2
    assert (await push.it.check()).is_clean


async def test_health_reports_hubs_without_deliveries(push: Push) -> None:
    """`silent` if no hub answered after a request; `late` if deliveries wait."""
    health = push.it.parts.health

    async def state() -> str | None:
        return (await health.check(push.it.now)).push

    push.hub.verifies = False
    await push.subscribe()
    assert await state() == "ok"
    push.it.clock.advance(2 * HOUR)
    assert await state() == "silent"
    push.hub.verifies = True
    await push.look()
    assert await state() == "ok"
    await push.hub.publish(push.topic, push.document("second"))
    assert (await health.check(time.time() + 61)).push == "late"
    await push.it.stages.run_once()
    assert await state() == "ok"


async def test_delivered_posts_are_events_like_polled_ones(push: Push) -> None:
    """The process, the stream of `microsub events` and HTTP have the same events, each once."""
    feed = await push.subscribe()
    heard: list[Event] = []

    async def note(event: Event) -> None:
        heard.append(event)

    push.it.events.listen(note)
    before = await push.it.events.last()
    body = push.publish("second")
    await push.deliver(body)
    await push.hub.publish(push.topic, body)
    await push.it.stages.run_once()
    await push.poll(feed)
    told = await push.it.events.since(before)
    assert [(one.kind, one.feed, one.guid) for one in told] == [("post_created", feed.id, "second")]
    assert [replace(one, id="", at=round(one.at)) for one in told] == [replace(one, at=round(one.at)) for one in heard]
    token = await push.it.service_tokens.create("planet", push.it.now)
    headers = {"Authorization": f"Bearer {token}"}
    page = (await push.it.client.get("/store/events", params={"after": before}, headers=headers)).json()
    assert [(one["kind"], one["guid"]) for one in page["items"]] == [("post_created", "second")]


async def test_a_request_that_was_not_sent_is_no_try(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent half a minute after the hub's turn begins, and isn't counted as a refusal."""

    async def ask(*_: object) -> RequestFailure:
        return RequestFailure("the hub rests", ours=True, retry_after=5.0)

    monkeypatch.setattr(Hubs, "ask", ask)
    push.it.clock.at = push.it.now
    feed = await push.subscribe()
    left = await push.subscriptions(feed)
    assert (left.callbacks, left.tries) == ((), 0)
    assert left.next == pytest.approx(push.it.now + 35, abs=0.01)
    assert (await push.health(feed)).why == "the hub rests"
    counts = await push.it.subscription_store.counts([push.hub.url])
    assert not counts.get(host_of(push.hub.url))
