"""The sweep: posts without references are deleted in time, all others never, and no deleted post comes back."""

from __future__ import annotations

import pytest

from microsub.admin.check.look import look
from microsub.admin.sweep import GRACE, Sweeping, SweepReport
from microsub.configuration.effective import EffectiveSettings
from microsub.configuration.model import InstanceSettings
from microsub.feeds.record import FeedRecord, Feeds
from microsub.posts import garbage
from microsub.posts.messages import ItemsStored
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.server import jobs
from microsub.work import Message, Stream
from tests.support import later, no_pause
from tests.support.polling import World, dated, rss
from tests.support.redis_wrappers import Between, KilledError, die, once
from tests.support.web import Publisher

LATER = GRACE + 60


def sweeping(it: World, kept: int = 0) -> Sweeping:
    return Sweeping(it.redis, it.accounts, it.feeds, it.outputs, kept=later(lambda: kept), pause=no_pause)


async def ids_of(it: World) -> list[str]:
    return [row.id for row in await it.rows()]


async def followed(it: World, site: Publisher, posts: int, *users: str) -> FeedRecord:
    """A feed with so many posts, followed by these users (by default only Alice) and polled once."""
    site.serve_document("/feed", rss(dated(posts)))
    for user in users or ("alice",):
        feed = await it.follow(site.url("/feed", "blog.test"), user)
    await it.poll(feed)
    return feed


async def followed_without_newest(it: World, site: Publisher, posts: int) -> tuple[FeedRecord, str]:
    """The same for Alice, who removed the newest post, and the id of this post, which the sweep has deleted."""
    feed = await followed(it, site, posts)
    (gone, *_) = await ids_of(it)
    await it.timelines.remove("alice", "home", [gone], it.clock())
    await sweep_for_good(it)
    return feed, gone


async def sweep_for_good(it: World, kept: int = 0) -> None:
    """Runs a sweep that condemns and another one that deletes."""
    for hours in (0, 1):
        await sweeping(it, kept).run(it.clock() + hours * LATER)


async def much_later(it: World, feed: FeedRecord, days: float) -> None:
    """Advances the clock; Redis' own clock stays, so a key that would have expired is deleted here."""
    it.clock.advance(days * 86400)
    await it.redis.command("DEL", keys.feed_fingerprints(feed.id))


async def stored(it: World) -> set[str]:
    return {str(item) async for batch in garbage.stored_ids(it.redis) for item in batch}


async def test_a_first_sweep_keeps_what_the_settings_say(it, site):
    """A command's process has read no settings before; by default, it would keep 300 posts of each feed."""
    await followed(it, site, 4)
    await it.timelines.remove("alice", "home", await ids_of(it), it.clock())
    await it.declared.set_instance(InstanceSettings(keep_per_feed=3))
    it.effective = EffectiveSettings(it.declared, it.own_settings)
    assert (await jobs.sweeping(it).run(it.clock(), dry_run=True)).condemned == 1


async def test_unreferenced_posts_are_deleted_after_an_hour(it, site):
    """Alice removes two posts and Bob still has one of them: the second sweep deletes the other one."""
    feed = await followed(it, site, 4, "alice", "bob")
    first, second, *rest = await ids_of(it)
    await it.timelines.remove("alice", "home", [first, second], it.clock())
    await it.timelines.remove("bob", "home", [first], it.clock())
    now = it.clock()
    assert await sweeping(it).run(now, dry_run=True) == SweepReport(True, reached=3, examined=4, condemned=1)
    assert await sweeping(it).run(now) == SweepReport(reached=3, examined=4, condemned=1)
    assert (await sweeping(it).run(now + 60)).deleted == 0
    assert (await sweeping(it).run(now + LATER, dry_run=True)).deleted == 1
    assert (await sweeping(it).run(now + LATER)).deleted == 1
    assert await stored(it) == {second, *rest}
    assert first not in await it.items.newest(feed.id, 10)
    assert (await sweeping(it).run(now + 2 * LATER)).deleted == 0


async def test_a_deleted_post_never_comes_back_while_its_feed_lists_it(it, site):
    """The tombstone holds for polls, edits, a changed document and a new follower."""
    feed, gone = await followed_without_newest(it, site, 3)
    edited = [(guid, f"{name} edited", date) for guid, name, date in dated(3)]
    site.serve_document("/feed", rss(edited))
    await it.follow(site.url("/feed", "blog.test"), "carol")
    await it.poll(feed)
    posts = await it.items.timeline_items(await it.items.newest(feed.id, 10))
    await it.delivery.deliver_to("carol", "home", feed.id, posts, it.clock())
    assert len(await it.rows()) == len(await it.rows("carol")) == 2
    assert gone not in await stored(it)


async def test_tombstones_end_a_year_after_the_last_listing(it, site):
    """Every document that lists the post extends this time."""
    feed, _ = await followed_without_newest(it, site, 3)
    await much_later(it, feed, 300)
    site.serve_document("/feed", rss(dated(3), extra="<description>news</description>"))
    await it.poll(feed)
    await much_later(it, feed, 300)
    site.serve_document("/feed", rss(dated(2)))
    await it.poll(feed)
    assert (await sweeping(it).run(it.clock())).tombstones == 0
    assert await it.redis.command("HEXISTS", keys.feed_guids(feed.id), "post-3") == 1
    await much_later(it, feed, 101)
    site.serve_document("/feed", rss(dated(2), extra="<description>more news</description>"))
    await it.poll(feed)
    assert (await sweeping(it).run(it.clock())).tombstones == 1
    assert await it.redis.command("HEXISTS", keys.feed_guids(feed.id), "post-3") == 0


async def test_a_feed_unreadable_for_years_keeps_its_tombstones(it, site):
    """The feed was unchanged or failing for longer than tombstones last: its old posts aren't new afterwards."""
    feed, _ = await followed_without_newest(it, site, 3)
    await much_later(it, feed, 800)
    await it.poll(feed)
    assert (await sweeping(it).run(it.clock())).tombstones == 0
    site.serve_document("/feed", rss(dated(4)))
    await it.poll(feed)
    assert len(await it.rows()) == 3
    assert (await sweeping(it).run(it.clock())).tombstones == 0


async def test_the_newest_of_each_feed_stay_for_new_followers(it, site):
    """No timeline refers to any of them; two are kept."""
    feed = await followed(it, site, 5)
    ids = await ids_of(it)
    await it.timelines.remove("alice", "home", ids, it.clock())
    await sweep_for_good(it, kept=2)
    assert await stored(it) == set(ids[:2])
    assert await it.items.newest(feed.id, 10) == ids[:2]


async def test_an_item_added_between_two_sweeps_stays(it, site):
    """A condemned post that is delivered to a new follower isn't deleted by the second sweep."""
    feed = await followed(it, site, 2)
    ids = await ids_of(it)
    await it.timelines.remove("alice", "home", ids, it.clock())
    now = it.clock()
    assert (await sweeping(it).run(now)).condemned == 2
    await it.follow(site.url("/feed", "blog.test"), "bob")
    await it.delivery.deliver_to("bob", "home", feed.id, await it.items.timeline_items(ids), now)
    assert (await sweeping(it).run(now + LATER)).deleted == 0
    assert await stored(it) == set(ids)


async def test_an_item_spared_during_deletion_stays_whole(it, site):
    """Its mark is gone before the deletion: the item stays in the feed's list."""
    feed = await followed(it, site, 1)
    (item,) = await ids_of(it)
    await garbage.condemn(it.redis, [item], 5.0)
    doomed = await garbage.candidates(it.redis, [item])
    await it.items.timeline_items([item])
    assert await garbage.delete(it.redis, doomed, 6.0) == 0
    assert await it.items.newest(feed.id, 10) == [item]
    assert await it.items.get(item)


async def test_unlisted_items_are_deleted_too(it):
    """A crash left the item before its guid was claimed."""
    await it.redis.command("SET", keys.item_ids(), 7)
    await it.redis.command("HSET", keys.item("7"), "ID", "7", "feed", "99", "score", "1")
    now = it.clock()
    await sweeping(it, kept=300).run(now)
    assert (await sweeping(it, kept=300).run(now + LATER)).deleted == 1
    assert await stored(it) == set()


async def test_ids_given_out_after_the_beginning_are_exempt(it, site):
    """Posts that are stored during the sweep aren't judged, though no timeline was read after that."""
    sweep = sweeping(it)
    original = garbage.newest_id

    site.serve_document("/feed", rss(dated(2)))
    feed = await it.follow(site.url("/feed", "blog.test"))

    async def newest_id(redis: Redis) -> int:
        found = await original(redis)
        await it.poll(feed)
        await it.timelines.remove("alice", "home", await ids_of(it), it.clock())
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(garbage, "newest_id", newest_id)
        assert await sweep.run(it.clock()) == SweepReport()
    assert (await sweep.run(it.clock())).condemned == 2


async def test_no_sweep_while_the_pipeline_is_behind(it, site):
    """Messages in a stream belong to timelines that don't contain them yet."""
    await followed(it, site, 2)
    await it.timelines.remove("alice", "home", await ids_of(it), it.clock())
    await Stream(it.redis, "stored").add([{"feed": b"1", "new": b"", "edited": b""}])
    assert await sweeping(it).run(it.clock() + GRACE) == SweepReport()
    await it.stages.run_once()
    assert (await sweeping(it).run(it.clock() + GRACE)).condemned == 2


async def test_expire_keeps_the_newest_and_items_in_timelines(it, site):
    """For one feed and immediately: of five posts, the newest and the one that Alice still has are kept."""
    feed = await followed(it, site, 5)
    ids = await ids_of(it)
    await it.timelines.remove("alice", "home", [ids[0], ids[1], ids[2], ids[4]], it.clock())
    assert await sweeping(it).expire(feed.id, 1, it.clock()) == 3
    assert await it.items.newest(feed.id, 10) == [ids[0], ids[3]]
    assert await sweeping(it).expire(feed.id, 1, it.clock()) == 0


@pytest.mark.parametrize("moment", ["item_end condemn", "item_end retire", "feed_bury", "timeline_leave", "DEL"])
async def test_adding_an_expiring_post_leaves_no_hollow_id(it, site, moment):
    """A process that loaded the posts long before adds them to Bob's timeline at any moment of the expiry."""
    feed = await followed(it, site, 3)
    ids = await ids_of(it)
    await it.timelines.remove("alice", "home", ids, it.clock())
    await it.follow(site.url("/feed", "blog.test"), "bob")
    items = await it.items.timeline_items(ids)

    async def late() -> None:
        await it.timelines.add("bob", "home", feed.id, items, now=it.clock(), limit=0)

    theirs = Between(it.redis, once(moment, late))
    await Sweeping(theirs, it.accounts, it.feeds, it.outputs).expire(feed.id, 0, it.clock())  # type: ignore[arg-type]
    shown = set(await it.redis.command("ZRANGE", keys.posts("bob", "home"), 0, -1))
    assert {item.decode() for item in shown} <= await stored(it)
    assert not shown or moment == "item_end condemn"


async def test_adding_an_expired_post_is_undone(it, site):
    """The slowest case: the loaded posts are gone, and the timeline stays empty."""
    feed = await followed(it, site, 2)
    ids = await ids_of(it)
    items = await it.items.timeline_items(ids)
    await it.timelines.remove("alice", "home", ids, it.clock())
    await it.follow(site.url("/feed", "blog.test"), "bob")
    assert await sweeping(it).expire(feed.id, 0, it.clock()) == 2
    assert (await it.timelines.add("bob", "home", feed.id, items, now=it.clock(), limit=0)).taken == 0
    await it.delivery.deliver_to("bob", "home", feed.id, items, it.clock())
    await it.delivery.handle(Message("1-1", ItemsStored(feed.id, tuple(ids)).to_fields()))
    assert await it.redis.command("ZCARD", keys.posts("bob", "home")) == 0


async def test_a_hollow_id_left_by_a_crash_is_swept(it, site, monkeypatch):
    """The post of a timeline's id is gone: the next sweep removes the id permanently, whatever its state."""
    feed = await followed(it, site, 3)
    ids = await ids_of(it)
    items = await it.items.timeline_items(ids)
    await it.timelines.remove("alice", "home", ids, it.clock())
    await it.follow(site.url("/feed", "blog.test"), "bob")
    await it.follow(site.url("/feed", "blog.test"), "carol")
    assert await sweeping(it).expire(feed.id, 0, it.clock()) == 3

    with monkeypatch.context() as patch:
        patch.setattr("microsub.timelines.add.take_back", die)
        for user in ("bob", "carol"):
            with pytest.raises(KilledError):
                await it.timelines.add(user, "home", feed.id, items, now=it.clock(), limit=0)
    await it.channels.disable("carol", "home", it.clock())
    assert len(await ids_of_user(it, "bob")) == 3
    assert (await sweeping(it).run(it.clock(), dry_run=True)).hollow == 3
    assert len(await ids_of_user(it, "bob")) == 3
    assert (await sweeping(it).run(it.clock())).hollow == 3
    assert (await sweeping(it).run(it.clock())).hollow == 0
    for user in ("bob", "carol"):
        assert await it.redis.command("ZCARD", keys.posts(user, "home")) == 0
        assert await it.redis.command("SCARD", keys.unread(user, "home")) == 0
        assert await it.timelines.left_for_good(user, "home", ids) == set(ids)
    await it.channels.restore("carol", "home")
    assert (await look(it.redis, it.clock()))[0] == []


async def test_posts_stored_during_a_sweep_are_not_hollow(it, site):
    """Only ids that were assigned before the sweep are judged, and each is checked again."""
    await followed(it, site, 3)
    assert (await sweeping(it).run(it.clock())).hollow == 0
    assert len(await ids_of(it)) == 3


async def ids_of_user(it: World, user: str) -> list[str]:
    return [row.id for row in await it.rows(user)]


async def test_an_interrupted_expiry_is_finished_by_the_next(it, site):
    """Posts that are retired but not erased belong to nobody and block nothing."""
    feed = await followed(it, site, 2)
    ids = await ids_of(it)
    await it.timelines.remove("alice", "home", ids, it.clock())

    theirs = Sweeping(Between(it.redis, once("feed_bury", die)), it.accounts, it.feeds, it.outputs)  # type: ignore[arg-type]
    with pytest.raises(KilledError):
        await theirs.expire(feed.id, 0, it.clock())
    assert await it.items.timeline_items(ids) == []
    assert await sweeping(it).expire(feed.id, 0, it.clock()) == 2
    assert await stored(it) == set()


URL = "https://blog.test/feed"


async def end(it: World, *feeds: str) -> None:
    """Deletes what Redis deletes 30 days after the last follower."""
    for feed in feeds:
        for key in (keys.feed, keys.feed_guids, keys.feed_items, keys.feed_edition, keys.feed_subscribers):
            await it.redis.command("DEL", key(feed))


async def test_an_ended_feeds_url_is_forgotten_after_an_hour(it):
    """Two feeds have ended: the second sweep forgets the first one's URL; the other feed was followed meanwhile."""
    gone, back = await it.feeds.ensure(URL, 1.0), await it.feeds.ensure(f"{URL}/2", 1.0)
    here = await it.follow(f"{URL}/3")
    await end(it, gone.id, back.id)
    now = it.clock()
    assert (await sweeping(it).run(now)).addresses == 0
    assert await it.feeds.find(URL) == gone.id
    assert await it.feeds.find_many([URL, f"{URL}/3"]) == {URL: gone.id, f"{URL}/3": here.id}
    assert await it.feeds.all_ids() == [gone.id, back.id, here.id]
    assert (await it.feeds.ensure(f"{URL}/2", now)).id == back.id
    assert (await sweeping(it).run(now + 60)).addresses == 0
    assert (await sweeping(it).run(now + LATER)).addresses == 1
    assert await it.feeds.find_many([URL, f"{URL}/2", f"{URL}/3"]) == {f"{URL}/2": back.id, f"{URL}/3": here.id}
    assert (await it.feeds.ensure(URL, now)).id not in {gone.id, back.id, here.id}


async def test_an_address_is_kept_for_possible_followers(it):
    """A removed channel can be restored with all its follows, even if a feed has ended meanwhile."""
    feed = await it.follow(URL)
    await it.channels.disable("alice", "home", it.clock())
    await end(it, feed.id)
    for hours in (0, 1, 2):
        assert (await sweeping(it).run(it.clock() + hours * LATER)).addresses == 0
    assert await it.feeds.find(URL) == feed.id


async def test_a_follow_before_the_forgetting_gives_one_feed(it):
    """The follower removes the mark first, so the sweep that is about to forget the URL keeps it."""
    feed = await it.feeds.ensure(URL, 1.0)
    await end(it, feed.id)
    now = it.clock()
    await sweeping(it).run(now)
    found = []

    async def follow() -> None:
        found.append(await it.feeds.ensure(URL, now))

    theirs = Sweeping(Between(it.redis, once("compare_and_set", follow)), it.accounts, it.feeds, it.outputs)  # type: ignore[arg-type]
    assert (await theirs.run(now + LATER)).addresses == 0
    assert [one.id for one in found] == [feed.id]
    assert await it.feeds.find(URL) == feed.id


async def test_a_follow_after_the_forgetting_gives_one_feed(it):
    """The follower found the mark, then the sweep forgets the URL: the follower looks again and creates the feed."""
    feed = await it.feeds.ensure(URL, 1.0)
    await end(it, feed.id)
    now = it.clock()
    await sweeping(it).run(now)

    async def sweep() -> None:
        assert (await sweeping(it).run(now + LATER)).addresses == 1

    theirs = Feeds(Between(it.redis, once("compare_and_set", sweep)))  # type: ignore[arg-type]
    made = await theirs.ensure(URL, now)
    assert made.id != feed.id
    assert await it.feeds.find(URL) == made.id
    assert await it.feeds.get(feed.id) is None
    assert await it.feeds.get(made.id) is not None
