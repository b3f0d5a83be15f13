"""The post store for other programs: saved posts, their readers, and their deletion."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest

from microsub.admin.check.look import look
from microsub.admin.follow_repair import RepairedFollows
from microsub.admin.survey import followed_feeds
from microsub.base.errors import InvalidRequest, PostDeleted
from microsub.feeds.condition import state_of
from microsub.feeds.events import Event, Events
from microsub.post_store.store import PostStore
from microsub.redis import keys
from tests.support.polling import FEED, World, dated, follow, next_time, post_store, rss
from tests.support.web import Answer, publisher

AT = datetime(2024, 1, 31, 8, 15, 30, 250_000, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def posts(it: World) -> PostStore:
    return post_store(it)


def fields(guid: str = "post-1", **more: Any) -> dict[str, Any]:
    return {"guid": guid, "timestamp": AT, **more}


async def told(it: World) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(event.kind, event.guid, event.changed) for event in await Events(it.redis).since("0")]


async def wrong(it: World) -> list[str]:
    """The findings of `microsub check`."""
    return [f"{one.subject}: {one.what}" for one in (await look(it.redis, it.clock()))[0]]


ARBITRARY: dict[str, Any] = {
    "name": "A post",
    "score": 12,
    "hash": "not ours",
    "ID": "999",
    "feed": "https://other.test/",
    "saved": ["of", {"all": "kinds"}],
    "big": 2**53 + 1,
    "half": 0.5,
    "none": None,
    "empty": "",
    "is_it": True,
    "ümlaut ☃": "\n\0\x7f",
}


async def test_arbitrary_fields_are_returned_unchanged(posts: PostStore) -> None:
    """This includes names that the store uses itself, all kinds of JSON, null and empty values."""
    saved = await posts.save(FEED, fields(**ARBITRARY))
    assert saved.created
    assert saved.post.fields == ARBITRARY
    assert [type(value) for value in saved.post.fields.values()] == [type(value) for value in ARBITRARY.values()]
    assert await posts.get(saved.post.id) == saved.post
    assert await posts.get_by_guid(FEED, "post-1") == saved.post
    assert await posts.get_by_guid(saved.post.feed, "post-1") == saved.post
    assert (saved.post.guid, saved.post.timestamp) == ("post-1", AT)
    assert saved.post.id != "999"


async def test_readers_see_what_jf2_names(posts: PostStore) -> None:
    """Sanitised, absolute, with categories and enclosures; all other fields are only for programs."""
    saved = await posts.save(
        FEED,
        fields(
            name="Harbour",
            content="<p onclick=x>Boats <img src=/boat.png alt=boat><script>x</script></p>",
            category=["sea", "boats"],
            enclosure=[{"url": "/boats.mp3", "type": "audio/mpeg", "length": 1234, "title": "Boats"}],
            author={"name": "Ann", "url": "https://ann.test/"},
            url="https://ann.test/harbour",
            updated="2024-02-01T00:00:00Z",
            in_reply_to="https://bob.test/1",
            mood="calm",
        ),
    )
    item = saved.post.item
    assert item["_id"] == saved.post.id
    assert item["_source"] == saved.post.feed
    assert item["name"] == "Harbour"
    assert item["published"] == "2024-01-31T06:15:30+00:00"
    assert item["updated"] == "2024-02-01T00:00:00+00:00"
    assert item["content"]["html"] == '<p>Boats <img src="https://ann.test/boat.png" alt="boat"></p>'
    assert item["content"]["text"] == "Boats"
    assert item["category"] == ["sea", "boats"]
    assert item["enclosure"][0]["length"] == 1234
    assert item["audio"] == [item["enclosure"][0]["url"]]
    assert item["author"] == {"type": "card", "name": "Ann", "url": "https://ann.test/"}
    assert item["in-reply-to"] == ["https://bob.test/1"]
    assert "mood" not in item
    assert saved.post.fields["mood"] == "calm"


class Mood(StrEnum):
    CALM = "calm"


@pytest.mark.parametrize(
    ("unusable", "named"),
    [
        ({"guid": None}, "'guid' is missing"),
        ({"guid": 7}, "'guid' can't be used: found 7"),
        ({"timestamp": None}, "'timestamp' is missing"),
        ({"timestamp": "yesterday"}, "'timestamp' can't be used: found 'yesterday'"),
        ({"timestamp": datetime(2024, 1, 31)}, "'timestamp'"),
        ({"name": 7}, "'name' can't be used: found 7, expected a text"),
        ({"category": [1]}, "'category'"),
        ({"like_of": {"a": "b"}}, "'like-of'"),
        ({"author": ["Ann"]}, "'author'"),
        ({"author": {"name": 1}}, "'author.name'"),
        ({"content": 7}, "'content'"),
        ({"content": {"html": 7}}, "'content'"),
        ({"enclosure": [{"type": "audio/mpeg"}]}, "'enclosure'"),
        ({"enclosure": {"url": "/a", "length": "12"}}, "'enclosure.length'"),
        ({"enclosure": {"url": "/a", "type": 12}}, "'enclosure.type'"),
        ({"updated": "soon"}, "'updated'"),
        ({"x": datetime(2024, 1, 31, tzinfo=UTC)}, "'x'"),
        ({"x": Mood.CALM}, "'x'"),
        ({"x": "a" * 1_000_001}, "too large"),
    ],
)
async def test_invalid_fields_are_named_and_not_written(posts: PostStore, unusable: dict[str, Any], named: str) -> None:
    """The error says which field, what was found and what was expected."""
    with pytest.raises(InvalidRequest) as caught:
        await posts.save(FEED, {**fields(), **unusable})
    assert named in caught.value.description
    assert (await posts.newest(FEED)).posts == ()


async def test_saving_again_replaces_and_updating_merges(posts: PostStore, it: World) -> None:
    """`save` writes the whole post, `update_or_create` the given fields; both return the changes."""
    first = await posts.update_or_create(FEED, "post-1", {"timestamp": AT, "name": "One", "mood": "calm", "x": 1})
    assert (first.created, first.changed) == (True, ())
    again = await posts.update_or_create(FEED, "post-1", {"mood": "calm"})
    assert (again.created, again.changed, again.post) == (False, (), first.post)
    edited = await posts.update_or_create(FEED, "post-1", {"mood": "wild", "name": "Two"})
    assert (edited.created, edited.changed) == (False, ("mood", "name"))
    assert edited.post.fields == {"name": "Two", "mood": "wild", "x": 1}
    assert edited.post.item["name"] == "Two"
    assert edited.post.id == first.post.id
    whole = await posts.save(FEED, fields(name="Two"))
    assert (whole.created, whole.changed) == (False, ("mood", "x"))
    assert whole.post.fields == {"name": "Two"}
    assert await told(it) == [
        ("feed_created", "", ()),
        ("post_created", "post-1", ()),
        ("post_modified", "post-1", ("mood", "name")),
        ("post_modified", "post-1", ("mood", "x")),
    ]


async def test_a_new_post_needs_a_timestamp_an_old_one_has_its_own(posts: PostStore) -> None:
    """An edit moves nothing: readers keep the first time."""
    with pytest.raises(InvalidRequest, match="'timestamp' is missing"):
        await posts.update_or_create(FEED, "post-1", {"name": "One"})
    await posts.save(FEED, fields(name="One"))
    later = await posts.update_or_create(FEED, "post-1", {"timestamp": AT + timedelta(days=1)})
    assert later.changed == ("timestamp",)
    assert later.post.timestamp == AT + timedelta(days=1)
    assert later.post.item["published"] == "2024-01-31T06:15:30+00:00"


async def test_future_posts_are_shown_as_of_now(posts: PostStore, it: World) -> None:
    """For readers a post is never in the future; its own timestamp is returned as it was saved."""
    ahead = datetime.fromtimestamp(it.clock() + 86_400, UTC)
    saved = await posts.save(FEED, fields(timestamp=ahead))
    assert saved.post.timestamp == ahead
    assert datetime.fromisoformat(saved.post.item["published"]).timestamp() <= it.clock()


async def test_saved_posts_reach_followers_once(posts: PostStore, it: World) -> None:
    """They arrive unread; edits change the content but not the read state."""
    await follow(it)
    saved = await posts.save(FEED, fields(name="One"))
    assert await it.rows() == []
    await it.stages.run_once()
    (row,) = await it.rows()
    assert row.id == saved.post.id
    await it.timelines.mark_read("alice", "home", [row.id], it.clock())
    await posts.update_or_create(FEED, "post-1", {"name": "Two"})
    await it.stages.run_once()
    assert [(row.id, row.is_read) for row in await it.rows()] == [(saved.post.id, True)]
    assert '"name":"Two"' in (await it.texts())[0]
    assert await wrong(it) == []


async def test_listeners_hear_what_this_program_saved(posts: PostStore, it: World) -> None:
    """Feeds and posts created and modified, with their changed fields, and deleted; until the listener is removed."""
    heard: list[Event] = []

    async def listen(event: Event) -> None:
        heard.append(event)

    end = posts.listen(listen)
    saved = await posts.save(FEED, fields(name="One"))
    await posts.update_or_create(FEED, "post-1", {"name": "Two"})
    assert await posts.describe(FEED, {"title": "Harbour", "home": "https://service.test/"}) == ("title", "home")
    assert await posts.describe(FEED, {"title": "Harbour"}) == ()
    await posts.delete(saved.post.id)
    end()
    await posts.save(FEED, fields("post-2"))
    assert [(event.kind, event.changed) for event in heard] == [
        ("feed_created", ()),
        ("post_created", ()),
        ("post_modified", ("name",)),
        ("feed_modified", ("title", "home")),
        ("post_deleted", ()),
    ]
    assert {event.post for event in heard if event.post} == {saved.post.id}
    page = await posts.events(limit=3)
    assert [event.kind for event in page.events] == ["feed_created", "post_created", "post_modified"]
    assert not page.missed
    rest = await posts.events(page.after)
    assert [event.kind for event in rest.events] == ["feed_modified", "post_deleted", "post_created"]
    assert await posts.events("newest") == type(page)((), rest.after)


async def test_newest_first_in_pages(posts: PostStore) -> None:
    """Every post once, also among many with the same timestamp; newest by publication or last change."""
    for number in range(30):
        await posts.save(FEED, fields(f"tie-{number}"))
    for number in range(5):
        await posts.save(FEED, fields(f"late-{number}", timestamp=AT + timedelta(minutes=number + 1)))
    found: list[str] = []
    page = await posts.newest(FEED, 4)
    found += [post.guid for post in page.posts]
    while page.after:
        page = await posts.newest(FEED, 4, page.after)
        found += [post.guid for post in page.posts]
    assert found[:5] == [f"late-{number}" for number in (4, 3, 2, 1, 0)]
    assert sorted(found[5:]) == sorted(f"tie-{number}" for number in range(30))
    await posts.update_or_create(FEED, "tie-7", {"name": "Edited"})
    assert (await posts.newest(FEED, 1)).posts[0].guid == "tie-7"
    assert (await posts.newest("https://nowhere.test/feed")).posts == ()
    assert (await posts.newest(FEED, 0)).posts == ()


async def test_a_page_continues_after_the_last_post(posts: PostStore) -> None:
    """This is so even if that post was deleted or edited meanwhile, and newer posts came."""
    for number in range(6):
        await posts.save(FEED, fields(f"post-{number}", timestamp=AT + timedelta(minutes=number)))
    page = await posts.newest(FEED, 2)
    assert [post.guid for post in page.posts] == ["post-5", "post-4"]
    await posts.save(FEED, fields("new", timestamp=AT + timedelta(hours=1)))
    await posts.delete(page.posts[1].id)
    further = await posts.newest(FEED, 2, page.after)
    assert [post.guid for post in further.posts] == ["post-3", "post-2"]
    await posts.update_or_create(FEED, "post-2", {"name": "Edited"})
    assert [post.guid for post in (await posts.newest(FEED, 9, further.after)).posts] == ["post-1", "post-0"]


async def test_a_deleted_post_leaves_everybody_and_never_comes_back(posts: PostStore, it: World) -> None:
    """It leaves timelines of followers, also where a user has moved it; saving its guid again raises an error."""
    await follow(it)
    await follow(it, user="bob")
    saved = await posts.save(FEED, fields(name="One", url="https://service.test/1"))
    await posts.save(FEED, fields("post-2"))
    await it.stages.run_once()
    await it.channels.create("bob", "later", it.clock(), "later")
    await it.timelines.move("bob", "later", [saved.post.id], it.clock())
    assert await posts.delete(saved.post.id)
    assert [row.id for row in await it.rows("bob", "later")] == []
    for user in ("alice", "bob"):
        assert saved.post.id not in [row.id for row in await it.rows(user)]
    assert await posts.get(saved.post.id) is None
    assert await posts.get_by_guid(FEED, "post-1") is None
    assert [post.guid for post in (await posts.newest(FEED)).posts] == ["post-2"]
    assert not await posts.delete(saved.post.id)
    with pytest.raises(PostDeleted) as caught:
        await posts.save(FEED, fields(name="Again"))
    assert caught.value.guid == "post-1"
    with pytest.raises(PostDeleted):
        await posts.update_or_create(FEED, "post-1", {"name": "Again"})
    await it.stages.run_once()
    assert len(await it.rows()) == 1
    assert (await told(it))[-1][0] == "post_deleted"
    assert await wrong(it) == []


async def test_a_post_that_is_deleted_on_its_way_doesnt_arrive(posts: PostStore, it: World) -> None:
    """The message to the timelines is older than the deletion."""
    await follow(it)
    saved = await posts.save(FEED, fields())
    await posts.delete(saved.post.id)
    await it.stages.run_once()
    assert await it.rows() == []
    assert await wrong(it) == []


async def test_a_post_deleted_during_delivery_isnt_shown(posts: PostStore, it: World) -> None:
    """The whole deletion happens between loading the post and adding it to a timeline."""
    await follow(it)
    saved = await posts.save(FEED, fields())
    add = it.timelines.add_to

    async def late(*args: Any) -> Any:
        await posts.delete(saved.post.id)
        return await add(*args)

    it.timelines.add_to = late  # type: ignore[method-assign]
    await it.stages.run_once()
    assert await it.rows() == []
    assert await wrong(it) == []


@pytest.mark.parametrize("post_id", ["12345", "x", "", "1 2", "9" * 40])
async def test_deleting_an_unknown_post_is_false(posts: PostStore, post_id: str) -> None:
    """No error is raised."""
    assert not await posts.delete(post_id)
    assert await posts.get(post_id) is None


async def test_expiring_spares_what_somebody_can_reach(posts: PostStore, it: World) -> None:
    """All but the newest are deleted, except for those in a timeline; their guids don't come back."""
    for number in range(5):
        await posts.save(FEED, fields(f"post-{number}", timestamp=AT + timedelta(minutes=number)))
    await it.stages.run_once()
    await follow(it)
    oldest = (await posts.get_by_guid(FEED, "post-0")) or pytest.fail("it is there")
    await it.timelines.add(
        "alice", "home", oldest.feed, await it.items.timeline_items([oldest.id]), now=it.clock(), limit=0
    )
    assert await posts.expire(FEED, 2) == 2
    assert [post.guid for post in (await posts.newest(FEED)).posts] == ["post-4", "post-3", "post-0"]
    assert await posts.expire(FEED, 2) == 0
    with pytest.raises(PostDeleted):
        await posts.save(FEED, fields("post-1"))
    with pytest.raises(InvalidRequest, match="'limit'"):
        await posts.expire(FEED, -1)
    assert await posts.expire("https://nowhere.test/feed", 0) == 0


async def test_many_at_once_lose_nothing(it: World) -> None:
    """Two programs set different fields of a post, 20 each: one creation is announced, and every field is stored."""
    programs = [post_store(it), post_store(it)]
    outcomes = await asyncio.gather(
        *(
            programs[number % 2].update_or_create(FEED, "post-1", {"timestamp": AT, f"field-{number}": number})
            for number in range(40)
        )
    )
    assert sum(saved.created for saved in outcomes) == 1
    assert all(saved.created or saved.changed for saved in outcomes)
    post = await programs[0].get_by_guid(FEED, "post-1")
    assert post is not None
    assert post.fields == {f"field-{number}": number for number in range(40)}
    kinds = [kind for kind, _, _ in await told(it)]
    assert kinds.count("feed_created") == 1
    assert kinds.count("post_created") == 1
    assert kinds.count("post_modified") == 39


async def test_a_feed_is_kept_for_its_posts(posts: PostStore, it: World) -> None:
    """It stays without followers, also after the last one has left, until it is released."""
    feed_id = await follow(it)
    await posts.save(FEED, fields())
    await it.stages.run_once()
    await it.channels.unfollow("alice", "home", feed_id)
    await it.feeds.unsubscribe(feed_id, "alice", "home")
    lives = [await it.redis.command("TTL", key(feed_id)) for key in (keys.feed, keys.feed_items, keys.feed_guids)]
    assert lives == [-1, -1, -1]
    assert await wrong(it) == []
    assert await posts.release(FEED)
    assert not await posts.release(FEED)
    assert all(
        [await it.redis.command("TTL", key(feed_id)) > 0 for key in (keys.feed, keys.feed_items, keys.feed_guids)]
    )
    await posts.save(FEED, fields("post-2"))
    assert await it.redis.command("TTL", keys.feed_items(feed_id)) == -1


async def test_a_polled_post_and_a_saved_one_are_the_same_by_guid(it: World) -> None:
    """The program's fields are added to the feed's; the place in timelines stays."""
    async with publisher() as site:
        site.serve_document("/feed", rss(dated(2)))
        url = site.url("/feed", "blog.test")
        feed = await it.follow(url)
        await it.poll(feed)
        posts = post_store(it)
        polled = await posts.get_by_guid(url, "post-2")
        assert polled is not None
        assert (polled.fields, polled.item["name"]) == ({}, "Post 2")
        saved = await posts.update_or_create(url, "post-2", {"mood": "calm", "category": "sea"})
        assert not saved.created
        assert saved.changed[:2] == ("author", "category")
        assert saved.post.id == polled.id
        assert {"name": "Post 2", "mood": "calm"}.items() <= saved.post.fields.items()
        assert saved.post.item["content"] == polled.item["content"]
        assert saved.post.item["category"] == ["sea"]
        assert saved.post.item["published"] == polled.item["published"]
        assert [event[0] for event in await told(it)].count("feed_created") == 1
        await it.stages.run_once()
        assert len(await it.rows()) == 2


async def test_events_have_the_guid_of_the_feed(it: World, posts: PostStore) -> None:
    """This holds from its creation to its deletion, and after a crash; both forms find the post."""
    old, new = "http://blog.test/?p=1&amp;utm_source=rss", "https://blog.test/?p=1"
    written = old.replace("&amp;", "&")
    async with publisher() as site:
        site.serve_document("/feed", rss([(old, "One", None)]))
        url = site.url("/feed", "blog.test")
        feed = await it.follow(url)
        await it.poll(feed)
        site.serve_document("/feed", rss([(old, "Two", None)]))
        await it.poll(feed)
        post = await posts.get_by_guid(url, written)
        assert post is not None
        assert post == await posts.get_by_guid(url, new)
        assert post.guid == written
        await it.redis.command("SADD", keys.feed_outbox(feed.id), post.id)
        site.serve_document("/feed", rss([(old, "Two", None), ("2", "Three", None)]))
        await it.poll(feed)
        await posts.delete(post.id)
        guids = [(kind, guid) for kind, guid, _ in await told(it) if guid != "2" and kind.startswith("post")]
        kinds = ("post_created", "post_modified", "post_modified", "post_deleted")
        assert guids == [(kind, written) for kind in kinds]


async def test_events_of_a_shared_guid_have_the_distinguishing_form(it: World, posts: PostStore) -> None:
    """The feed's own guid would find neither of them."""
    async with publisher() as site:
        two = rss([("http://blog.test/", "One", None), ("http://blog.test/", "Two", None)])
        site.serve_document("/feed", two.replace(b"posts.test/http://blog.test/", b"posts.test/1", 1))
        url = site.url("/feed", "blog.test")
        await it.poll(await it.follow(url))
        guids = [guid for kind, guid, _ in await told(it) if kind == "post_created"]
        found = [await posts.get_by_guid(url, guid) for guid in guids]
        assert sorted(post.item["name"] for post in found if post is not None) == ["One", "Two"]


async def test_a_feed_that_is_saved_into_is_created_once(it: World, posts: PostStore) -> None:
    """Its first poll announces the changes."""
    async with publisher() as site:
        site.serve_document("/feed", rss(dated(1)))
        url = site.url("/feed", "blog.test")
        await posts.save(url, fields("mine"))
        await it.poll(await it.follow(url))
        assert [kind for kind, _, _ in await told(it)] == [
            "feed_created",
            "post_created",
            "feed_modified",
            "post_created",
        ]


async def test_a_feed_that_is_saved_into_stays_where_it_is(it: World, posts: PostStore) -> None:
    """Its URL may be that of a page that names a feed, of nothing, or of a page that no longer exists."""
    async with publisher() as site:
        url = site.url("/page", "blog.test")
        site.serve_document(
            "/page", b"<link rel=alternate type=application/rss+xml href=/feed>", content_type="text/html"
        )
        site.serve_document("/feed", rss(dated(1)))
        saved = await posts.save(url, fields("mine"))
        feed = await it.follow(url)
        await it.poll(feed)
        assert (await it.record(feed)).url == url
        assert (await it.feeds.subscribers(feed.id)) == [("alice", "home")]
        await it.poll(await it.follow(site.url("/nothing", "blog.test")))
        again = await posts.update_or_create(url, "mine", {"name": "Again"})
        assert again.post.id == saved.post.id


async def test_unannounced_posts_are_announced_with_the_next(posts: PostStore, it: World) -> None:
    """A program died between storing and announcing."""
    await follow(it)
    real = posts._ingest._announce

    async def die(*_: Any) -> None:
        raise asyncio.CancelledError

    posts._ingest._announce = die  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await posts.save(FEED, fields("post-1"))
    posts._ingest._announce = real  # type: ignore[method-assign]
    await posts.save(FEED, fields("post-2"))
    await it.stages.run_once()
    assert len(await it.rows()) == 2


async def test_feeds_in_pages(posts: PostStore, it: World) -> None:
    """By id, each once, also with gaps left by deleted feeds."""
    for number in range(7):
        await posts.save(f"https://service.test/{number}", fields())
    gone = await posts.feed("https://service.test/3")
    assert gone is not None
    await it.redis.command("DEL", keys.feed(gone.id))
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page = await posts.feeds(2, after)
        found += [feed.url for feed in page.feeds]
        after = page.after
    assert found == [f"https://service.test/{number}" for number in (0, 1, 2, 4, 5, 6)]
    assert await posts.feed("https://nowhere.test/") is None
    assert (await posts.feeds(2, 10_000)).feeds == ()


async def test_the_later_of_save_and_edit_counts(it, posts):
    """The later change counts, whether it is a save or an edit by the publisher."""
    async with publisher() as site:
        site.serve_document("/feed", rss(dated(1)))
        feed = await it.follow(site.url("/feed", "blog.test"))
        await it.poll(feed)
        await posts.update_or_create(feed.url, "post-1", {"name": "Saved"})
        assert '"name":"Saved"' in (await it.texts())[0]
        it.clock.advance(-3600)  # the clock of another machine
        site.serve_document("/feed", rss([("post-1", "Edited", dated(1)[0][2])]))
        await it.poll(feed)
        assert '"name":"Edited"' in (await it.texts())[0]


async def test_a_written_feed_is_never_polled_or_failing(it: World, posts: PostStore) -> None:
    """Its address is tried once when somebody follows it; it is no feed, so nothing is said about it."""
    async with publisher() as site:
        url = site.url("/articles", "service.test")
        await posts.save(url, fields("mine"))
        for user in ("alice", "bob"):
            feed = await it.follow(url, user=user)
            assert await it.worker.run_once() == 1
        assert site.count("/articles") == 2
        record = await it.record(feed)
        assert (record.failures, record.last_error, record.next_poll, record.last_poll) == (0, None, None, None)
        it.clock.advance(30 * 86400)
        assert await it.follow_repair.run(it.clock()) == RepairedFollows()
        assert await next_time(it.redis) is None
        assert await it.worker.run_once() == 0
        assert [state_of(one) async for one, _ in followed_feeds(it.feeds)] == ["written"]
        assert (await it.poll_now().poll([feed.id]))[feed.id].outcome == "written"
        assert site.count("/articles") == 2
        assert await wrong(it) == []


async def test_a_failing_feed_recovers_when_a_program_writes_it(it: World, posts: PostStore) -> None:
    async with publisher() as site:
        feed = await it.follow(site.url("/articles", "service.test"))
        await it.poll(feed)
        assert (await it.record(feed)).failures == 1
        await posts.save(feed.url, fields("mine"))
        record = await it.record(feed)
        assert (record.failures, record.last_error) == (0, None)


async def test_a_written_feed_at_a_real_feed_is_polled(it: World, posts: PostStore) -> None:
    async with publisher() as site:
        url = site.url("/feed", "blog.test")
        await posts.save(url, fields("mine"))
        await it.poll(await it.follow(url))
        site.serve_document("/feed", rss(dated(1)))
        feed = await it.follow(url, user="bob")
        result = await it.poll(feed)
        assert (result.outcome, result.new) == ("changed", 1)
        site.serve("/feed", Answer(500))
        failed = await it.poll(feed)
        assert failed.failed
        assert failed.next_poll is not None


async def test_fields_that_readers_do_not_see_are_named(posts: PostStore) -> None:
    """A program with names of its own learns it from the first post that it saves."""
    mine = {"title": "One", "link": "https://blog.test/1", "date_published": "2024-01-31", "score": 1}
    saved = await posts.save(FEED, fields(**mine, **{"in-reply-to": [], "in_reply_to": [], "content": "x"}))
    assert saved.unused == ("date_published", "link", "score", "title")
    assert (await posts.update_or_create(FEED, "post-1", {"name": "One"})).unused == ()
