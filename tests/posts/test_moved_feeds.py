"""Feeds that change guids and links at once: after a move no post is doubled, and what is new stays new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from microsub.posts import guid_changes
from microsub.redis import keys
from tests.posts.test_guid_changes import E, polled, rss
from tests.support.polling import World
from tests.support.redis_wrappers import CountingRedis
from tests.support.web import Publisher

OLD, NEW = "http://old.test", "https://new.test"
TITLES = ("Bread", "On walking", "A “quoted” title", "Tea", "The last train", "Rain")
WORDS = (
    "Flour, water and salt, and a whole night of waiting before it goes into the oven.",
    "Some say that thinking needs legs; the path along the river is where mine come loose.",
    "Nobody knew who had said it first, so we asked everybody in the street, house by house.",
    "Green or black, the kettle sings the same song in the morning, and nobody listens to it.",
    "It leaves at ten past one, half empty, and stops at stations that have lost their names.",
    "All week the gutters ran, and on Sunday the garden had a lake with two ducks on it.",
)


def posts(
    guid: str,
    link: str,
    *,
    title: Callable[[int], str] = lambda n: TITLES[n - 1],
    text: Callable[[int], str] = lambda n: WORDS[n - 1],
    day: Callable[[int], int] = lambda n: n,
    hour: Callable[[int], int] = lambda n: 8 + n,
    count: int = 6,
) -> list[E]:
    """Entries, newest first; `{n}` in guid and link is their number."""
    return [E(guid.format(n=n), link.format(n=n), title(n), text(n), day(n), hour(n)) for n in range(count, 0, -1)]


def straight(n: int) -> str:
    return TITLES[n - 1].replace("“", "&quot;").replace("”", "&quot;")


def captioned(n: int) -> str:
    return WORDS[n - 1].replace(" and ", " (Photo: me) and ") + " Thanks for reading! Subscribe now."


def teaser(n: int) -> str:
    return WORDS[n - 1][:60] + " […]"


def appeared(n: int) -> str:
    words = WORDS[n - 1].replace(" ", " <i></i>", 1)
    return f"<![CDATA[<p>{words}</p> <p>Filed under notes</p>]]>"


WORDPRESS = posts(OLD + "/?p=1{n}", OLD + "/2024/01/post-{n}/")
GHOST = posts("65a0c0ffee{n}", OLD + "/post-{n}/")
JEKYLL = posts(OLD + "/2024/01/0{n}/post-{n}", OLD + "/2024/01/0{n}/post-{n}.html")
BLOGGER = posts("tag:blogger.com,1999:blog-1.post-77{n}", OLD + "/2024/01/post-{n}.html", title=straight)
MOVABLE = posts("tag:old.test,2024:/blog//3.1{n}", OLD + "/archives/00001{n}.html", text=teaser)

MOVES: dict[str, tuple[Sequence[E], Sequence[E]]] = {
    "WordPress to another host": (WORDPRESS, posts(NEW + "/?p=1{n}", NEW + "/2024/01/post-{n}/")),
    "WordPress to slugs": (
        posts(OLD + "/?p=1{n}", OLD + "/?p=1{n}"),
        posts(NEW + "/post-{n}/", NEW + "/post-{n}/"),
    ),
    "WordPress to Ghost": (WORDPRESS, GHOST),
    "WordPress to Ghost, and a new post": (
        WORDPRESS,
        [E("65a0c0ffee9", OLD + "/moved/", "We have moved", "A word on the new house", 20), *GHOST],
    ),
    "Ghost to Hugo, with days for times": (GHOST, posts(NEW + "/p/{n}/", NEW + "/p/{n}/", hour=lambda _: 0)),
    "Jekyll to Hugo": (JEKYLL, posts(OLD + "/2024/01/0{n}/post-{n}/", OLD + "/2024/01/0{n}/post-{n}/")),
    "Jekyll to folders": (
        posts(OLD + "/post-{n}.html", OLD + "/post-{n}.html"),
        posts(OLD + "/post-{n}/", OLD + "/post-{n}/"),
    ),
    "Blogger to WordPress": (BLOGGER, posts(NEW + "/?p={n}", NEW + "/post-{n}/")),
    "Blogger to Jekyll, in another time zone": (
        posts("tag:blogger.com,1999:blog-1.post-77{n}", OLD + "/2024/01/post-{n}.html"),
        posts(NEW + "/post-{n}", NEW + "/post-{n}.html", hour=lambda n: 10 + n),
    ),
    "Substack to its own domain": (
        posts("https://me.substack.test/p/post-{n}", "https://me.substack.test/p/post-{n}"),
        posts(NEW + "/p/post-{n}", NEW + "/p/post-{n}"),
    ),
    "Ghost to Substack, which adds to texts": (GHOST, posts(NEW + "/p/post-{n}", NEW + "/p/post-{n}", text=captioned)),
    "Movable Type to WordPress, with full texts": (MOVABLE, posts(OLD + "/?p={n}", OLD + "/2024/01/post-{n}/")),
    "Tumblr to a page of notes": (
        posts(OLD + "/post/77{n}", OLD + "/post/77{n}", title=lambda _: ""),
        posts(NEW + "/notes/{n}", NEW + "/notes/{n}", title=lambda _: ""),
    ),
    "Drupal to titles with the site's name": (
        posts("1{n} at http://old.test", OLD + "/node/1{n}"),
        posts(NEW + "/post-{n}", NEW + "/post-{n}", title=lambda n: f"{TITLES[n - 1]} | The Blog"),
    ),
    "a daily page of links": (
        posts(OLD + "/?p={n}", OLD + "/links-{n}/", title=lambda _: "Links of today"),
        posts(NEW + "/links-{n}", NEW + "/links-{n}", title=lambda _: "Links of today", text=captioned),
    ),
    "the same links and titles with other guids, times and markup": (
        posts(OLD + "/?p={n}", OLD + "/post-{n}/"),
        posts("urn:post:{n}", OLD + "/post-{n}/", text=appeared, day=lambda n: 10 + n),
    ),
    "a feed that lists fewer entries than before": (WORDPRESS, GHOST[:4]),
}


@pytest.mark.parametrize("name", MOVES)
async def test_a_moved_feed_with_new_guids_and_links_keeps_its_posts(it: World, site: Publisher, name: str) -> None:
    """Ids, read state, and the time of the first sight stay; the next reading finds nothing new."""
    old, new = MOVES[name]
    before = await polled(it, site, old)
    await it.timelines.mark_read("alice", "home", before[2:4], it.clock())
    seen = await it.redis.command("HGET", keys.item(before[0]), "discovered")
    after = await polled(it, site, new)
    assert [one for one in after if one in before] == before
    assert len(after) - len(before) == max(0, len(new) - len(old))
    assert [row.id for row in await it.rows() if row.is_read] == before[2:4]
    assert await it.redis.command("HGET", keys.item(before[0]), "discovered") == seen
    assert await polled(it, site, new) == after
    assert (await it.check()).is_clean


async def test_a_feed_without_dates_that_moves_keeps_its_posts(it: World, site: Publisher) -> None:
    before = await polled(it, site, [])
    for entries in (WORDPRESS, GHOST):
        site.serve_document("/feed", rss(*entries).replace(b"pubDate", b"noDate"))
        feed = await it.feeds.find(site.url("/feed", "blog.test"))
        assert feed is not None
        await it.poll_id(feed)
        before = before or [row.id for row in await it.rows()]
    assert [row.id for row in await it.rows()] == before


def later(entries: Sequence[E], days: int, guid: str = "next-") -> list[E]:
    """The same entries published again, as new posts with guids and links of their own."""
    return [
        replace(one, guid=guid + one.guid, link=f"{NEW}/{guid}{at}", day=one.day + days)
        for at, one in enumerate(entries)
    ]


def of_services(guid: str, link: str, words: str, hour: Callable[[int], int], title: str = "Place {}") -> list[E]:
    return posts(
        guid, link, title=title.format, text=lambda n: f"{words} {WORDS[n - 1][:10]}", day=lambda _: 5, hour=hour
    )


LINKS = posts("d{n}", OLD + "/links/{n}", title=lambda _: "Links of today")
SHOW = posts(
    "e{n}", OLD + "/e/{n}", title=lambda _: "The show", text=lambda _: "A new episode of the show, as each day"
)
MENU = posts("m{n}", OLD + "/day-{n}", title=lambda n: f"Menu {n}")

OTHERS: dict[str, tuple[Sequence[E], Sequence[E]]] = {
    "the next day of a page with one entry": (LINKS[:1], later(LINKS[:1], 1)),
    "a daily page that turns over as a whole": (
        LINKS,
        later(posts("d{n}", "", title=lambda _: "Links of today", text=lambda n: WORDS[n - 1][::-1]), 6),
    ),
    "announcements that are repeated after two weeks": (WORDPRESS, later(WORDPRESS, 14)),
    "advertisements that are repeated after a day": (WORDPRESS, later(WORDPRESS, 1)),
    "episodes with one title and text": (SHOW, later(SHOW, 6)),
    "episodes with one title and text, on the same day": (
        SHOW,
        [replace(one, hour=one.hour + 1) for one in later(SHOW, 0)],
    ),
    "pictures with one title and time": (
        posts("p{n}", OLD + "/p/{n}", title=lambda _: "Picture", text=lambda _: "", day=lambda _: 5, hour=lambda _: 9),
        posts("q{n}", OLD + "/q/{n}", title=lambda _: "Picture", text=lambda _: "", day=lambda _: 5, hour=lambda _: 9),
    ),
    "a canteen's menu of the next week": (
        MENU,
        [replace(one, guid=f"n{one.guid}", text=one.text[::-1], day=one.day + 7) for one in MENU],
    ),
    "the weather of the next hour at the same links": (
        of_services("w{n}", OLD + "/{n}", "Cloudy with 12 degrees, and wind from the west", lambda _: 9),
        of_services("v{n}", OLD + "/{n}", "Cloudy with 14 degrees, and wind from the west", lambda _: 10),
    ),
    "the weather of the next hour with the day as its time": (
        of_services("w{n}", OLD + "/w/{n}", "Cloudy with 12 degrees, and wind from the west", lambda _: 0),
        of_services("v{n}", OLD + "/v/{n}", "Cloudy with 14 degrees, and wind from the west", lambda _: 0),
    ),
    "news that turn over within an hour": (
        WORDPRESS,
        [replace(one, title=f"No {one.title}", text=one.text[::-1], hour=one.hour + 1) for one in later(WORDPRESS, 0)],
    ),
    "a feed in another language": (
        WORDPRESS,
        posts("fr{n}", OLD + "/fr/{n}", title=lambda n: f"Titre {n}", text=lambda n: WORDS[n - 1][::-1]),
    ),
    "two posts, which prove too little": (WORDPRESS[:2], GHOST[:2]),
    "two posts among others that are new": (WORDPRESS, [*later(LINKS, 10)[:4], *GHOST[:2]]),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_new_posts_stay_new(it: World, site: Publisher, name: str) -> None:
    old, new = OTHERS[name]
    assert len(await polled(it, site, old, new)) == len(old) + len(new)


async def test_copies_beside_a_post_that_is_still_listed_are_new(it: World, site: Publisher) -> None:
    """The feed hasn't moved."""
    assert len(await polled(it, site, WORDPRESS, [*GHOST[:5], WORDPRESS[5]])) == 11


async def test_a_repeated_announcement_stays_new_when_its_feed_moves(it: World, site: Publisher) -> None:
    again = E("65a0c0ffee9", OLD + "/again/", TITLES[0], WORDS[0], 20)
    assert len(await polled(it, site, WORDPRESS, [again, *GHOST[:5]])) == 7


async def test_a_feed_takes_no_posts_of_another_feed(it: World, site: Publisher) -> None:
    """Both have them; the other feed's posts keep their guids."""
    theirs = posts("theirs-{n}", OLD + "/{n}")
    before = await polled(it, site, theirs)
    site.serve_document("/copy", rss(*posts("c{n}", OLD + "/c/{n}", title=lambda n: f"Other {n}")))
    other = await it.follow(site.url("/copy", "copies.test"))
    await it.poll(other)
    site.serve_document("/copy", rss(*GHOST))
    await it.poll(other)
    feed = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed is not None
    assert [await it.items.id_of(feed, one.guid) for one in theirs] == before


async def test_ever_changing_guids_and_links_leave_two_guids_each(it: World, site: Publisher) -> None:
    rounds = [posts(f"{at}-{{n}}", f"{OLD}/{at}/{{n}}") for at in range(5)]
    assert len(await polled(it, site, *rounds)) == 6
    feed = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed is not None
    assert await it.redis.command("HLEN", keys.feed_guids(feed)) == 12


async def test_texts_are_read_up_to_a_number_of_bytes(
    it: World, site: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What isn't read proves nothing."""
    monkeypatch.setattr(guid_changes, "COMPARED", 1000)
    await polled(it, site, WORDPRESS)
    assert len(await polled(it, site, posts("{n}", NEW + "/{n}", text=captioned))) == 12


async def test_a_move_costs_few_round_trips(it: World, site: Publisher) -> None:
    """Six more than an edit of all posts: the posts and their guids, what is known of them, and their copies."""
    await polled(it, site, WORDPRESS)
    feed = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed is not None
    counts = []
    for entries in (posts(OLD + "/?p=1{n}", OLD + "/2024/01/post-{n}/", text=captioned), GHOST):
        site.serve_document("/feed", rss(*entries))
        counting = CountingRedis(it.redis)
        await it.through(counting).poller.poll(feed)
        counts.append(counting.trips)
    assert counts[1] - counts[0] <= 6
