"""The states of an item in an output feed: published, shown, imported, published again, removed."""

from __future__ import annotations

import pytest

from microsub.admin.sweep import Sweeping
from microsub.base.errors import SearchUnavailable
from microsub.configuration.model import Quotas, UserSettings
from microsub.formats.parse import parse
from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import Card, Content, Enclosure, Entry, Feed
from microsub.posts import FULL, stored_full_text
from microsub.posts.entries import items_to_store
from microsub.posts.garbage import candidates
from microsub.redis import keys
from microsub.server.stores import output_contents
from microsub.timelines.erase import erase_posts
from tests.outputs.conftest import Publisher
from tests.support import later
from tests.support.posts import candidate
from tests.support.readers import FEED, OTHER, posts


async def test_picked_items_are_ordered_by_publication(alice: Publisher) -> None:
    """The order is that of publication, not of the timeline."""
    addresses, ids = await alice.make(), await alice.items()
    assert await alice.shown(addresses["json"]) == []
    await alice.add(ids["a"])
    alice.server.now += 1
    await alice.add(ids["c"])
    assert await alice.shown(addresses["json"]) == ["c", "a"]
    assert (await alice.add(ids["a"]))["updated"] == 0
    assert await alice.shown(addresses["json"]) == ["c", "a"]


async def test_only_items_of_ones_own_can_be_passed_on(alice: Publisher) -> None:
    """The id of a post that is in none of the user's channels is unknown."""
    bob = await alice.server.reader("bob", "home")
    await alice.server.publish(OTHER, *posts("private", host="other.example"))
    await bob.post(action="follow", channel="home", url=OTHER)
    (private,) = await bob.ids("home")
    addresses = await alice.make()
    assert await alice.add(private, "999999") == {"result": "ok", "updated": 0, "unknown": [private, "999999"]}
    assert await alice.shown(addresses["json"]) == []


async def test_after_its_last_impression_an_item_is_imported(alice: Publisher) -> None:
    """After two impressions here; the feed then shows the other items, and the item can be published again."""
    addresses, ids = await alice.make(max_impressions=2), await alice.items()
    await alice.add(ids["a"])
    assert await alice.shown(addresses["json"]) == ["a"]
    await alice.add(ids["b"])
    assert await alice.shown(addresses["json"]) == ["b", "a"]
    assert await alice.state() == {"a": ("imported", 2), "b": ("published", 1)}
    assert await alice.shown(addresses["rss"].replace(".rss", ".json")) == ["b"]
    assert await alice.shown(addresses["json"]) == []
    await alice.add(ids["a"], method="publish")
    assert await alice.state() == {"a": ("published", 0), "b": ("imported", 2)}
    assert await alice.shown(addresses["json"]) == ["a"]


async def test_a_removed_item_leaves_and_may_be_added_again(alice: Publisher) -> None:
    """Its state is `removed`, with the impressions that it had, until it is published again."""
    addresses, ids = await alice.make(max_impressions=3), await alice.items()
    await alice.add(ids["a"], ids["b"])
    assert await alice.shown(addresses["json"]) == ["b", "a"]
    assert (await alice.add(ids["a"], method="remove"))["updated"] == 1
    assert await alice.shown(addresses["json"]) == ["b"]
    assert await alice.state() == {"a": ("removed", 1), "b": ("published", 2)}
    await alice.add(ids["a"])
    assert (await alice.state())["a"] == ("published", 0)
    assert await alice.shown(addresses["json"]) == ["a", "b"]


async def test_an_item_leaves_when_it_is_too_old(alice: Publisher) -> None:
    """Its age counts from its publication in the feed, not from the post's."""
    addresses, ids = await alice.make(max_age="24h"), await alice.items()
    await alice.add(ids["a"])
    alice.server.now += 86_000
    await alice.add(ids["b"])
    assert await alice.shown(addresses["json"]) == ["b", "a"]
    alice.server.now += 500
    assert await alice.shown(addresses["json"]) == ["b"]


async def test_an_edited_post_is_published_again(alice: Publisher) -> None:
    """With `republish=edits`; this includes imported items, so that their readers get the new text."""
    addresses, ids = await alice.make(max_impressions=1, republish="edits"), await alice.items()
    await alice.add(ids["a"])
    assert await alice.shown(addresses["json"]) == ["a"]
    assert await alice.shown(addresses["json"]) == []
    await alice.server.publish(FEED, *posts("a", "b", "c", text="Says something else."))
    assert "Says something else." in (await alice.get(addresses["rss"])).text
    assert (await alice.state())["a"] == ("imported", 1)


async def test_with_a_maximum_an_edit_publishes_nothing_again(alice: Publisher) -> None:
    """Each item is seen as often as allowed and no more; an item that is still shown has its new text."""
    addresses, ids = await alice.make(max_impressions=1), await alice.items()
    await alice.add(ids["a"])
    assert await alice.shown(addresses["json"]) == ["a"]
    await alice.add(ids["b"])
    await alice.server.publish(FEED, *posts("a", "b", "c", text="Says something else."))
    reply = await alice.get(addresses["rss"])
    assert (reply.text.count("<item>"), "Says something else." in reply.text) == (1, True)
    assert await alice.state() == {"a": ("imported", 1), "b": ("imported", 1)}


async def test_only_edits_of_a_post_publish_it_again(alice: Publisher) -> None:
    """A new title and icon of the feed, tokens of files and counts of comments are no edits; a new text is one."""
    server = alice.server

    async def read(title: str, text: str, token: int) -> None:
        entry = Entry(
            guid="wave",
            name="wave",
            content=Content(f"<p>{text}</p>", text),
            author=Card(name=title, photo=f"https://blog.example/{title}.png"),
            enclosure=(Enclosure(f"https://blog.example/a.mp3?token={token}", "audio/mpeg"),),
        )
        found = items_to_store(Feed(FEED, "rss", name=title, entries=(entry,)), server.now)
        await server.publish(FEED, *found, title=title)

    await read("The blog", "Waves. 3 comments", 1)
    addresses = await alice.make(max_impressions=1, republish="edits")
    await alice.add((await alice.items())["wave"])
    assert await alice.shown(addresses["json"]) == ["wave"]
    await read("The weblog", "Waves. 3 comments", 1)
    await read("The weblog", "Waves. 4 comments", 2)
    wave = next(item for item in await alice.reader.timeline("home") if item["name"] == "wave")
    assert (wave["author"]["name"], wave["content"]["text"]) == ("The weblog", "Waves. 4 comments")
    assert await alice.shown(addresses["json"]) == []
    assert await alice.state() == {"wave": ("imported", 1)}
    await read("The weblog", "Surf. 4 comments", 2)
    assert await alice.shown(addresses["json"]) == ["wave"]


async def test_items_of_an_earlier_release_arent_published_again(alice: Publisher) -> None:
    """Their editions have no digest of the post's own words; from the next change on, they have one."""
    addresses, ids = await alice.make(max_impressions=2, republish="edits"), await alice.items()
    await alice.add(ids["a"])
    assert await alice.shown(addresses["json"]) == ["a"]
    key = keys.output_editions("alice", "picks")
    number, digest = (await alice.server.redis.command("HGET", key, ids["a"])).split()[:2]
    await alice.server.redis.command("HSET", key, ids["a"], number + b" " + digest)
    await alice.publish("a", text="Other words.")
    assert await alice.state() == {"a": ("published", 1)}
    await alice.publish("a", text="Other words again.")
    assert await alice.state() == {"a": ("published", 0)}
    assert (await alice.server.check()).is_clean


async def test_times_and_titles_are_in_the_list_of_items(alice: Publisher) -> None:
    """An imported item has its time of publication, a removed one those of its impressions, each has its title."""
    addresses, ids = await alice.make(max_impressions=2), await alice.items()
    await alice.add(ids["a"], ids["b"])
    at = alice.server.now
    await alice.shown(addresses["json"])
    await alice.add(ids["b"], method="remove")
    await alice.shown(addresses["json"])
    (removed, imported) = (await alice.reader.get(action="outputs", output="picks"))["items"]
    assert (removed["title"], removed["state"], removed["impression_times"]) == ("b", "removed", [at])
    assert "published" not in removed
    assert (imported["title"], imported["state"]) == ("a", "imported")
    assert (imported["published"], imported["imported"], len(imported["impression_times"])) == (at, at + 1, 2)
    assert (await alice.server.check()).is_clean


async def test_a_channels_items_are_published_on_arrival(alice: Publisher) -> None:
    """The newest items are passed on; items that were removed by hand stay removed."""
    addresses = await alice.make(channel="home")
    assert await alice.shown(addresses["json"]) == ["a", "b", "c"]
    await alice.publish("new", at=alice.server.now)
    assert await alice.shown(addresses["json"]) == ["new", "a", "b", "c"]
    ids = await alice.items()
    await alice.add(ids["b"], method="remove")
    assert await alice.shown(addresses["json"]) == ["new", "a", "c"]


async def test_a_channel_goes_out_through_filters(alice: Publisher) -> None:
    """The filters are those of the output feed in backend.json."""
    document = {"users": {"alice": {"outputs": {"picks": {"channel": "home", "filters": {"exclude_words": ["b"]}}}}}}
    alice.server.save(document)
    await alice.server.configuration.look()
    (feed,) = (await alice.reader.get(action="outputs"))["outputs"]
    assert await alice.shown(feed["addresses"]["json"]) == ["a", "c"]
    assert await alice.shown(feed["addresses"]["json"]) == ["a", "c"]


async def test_results_of_a_search_are_published(alice: Publisher) -> None:
    """The search covers one channel or all; while search isn't available, earlier results stay."""
    server, ids = alice.server, await alice.items()
    asked: list[tuple[str, str, str]] = []

    class Found:
        async def newest(self, user: str, uid: str, query: str, _now: float) -> list[str]:
            asked.append((user, uid, query))
            if len(asked) == 2:
                raise SearchUnavailable("no index yet")
            return [ids["a"], ids["c"]]

        async def matching(self, *_: object) -> tuple[list[str], bool]:
            raise AssertionError("nothing came in")

    contents = output_contents(server, search=Found())
    server.use(output_contents=contents)
    addresses = await alice.make(search="tea OR rain", channel="home")
    for _ in range(3):
        server.now += 60
        assert await alice.shown(addresses["json"]) == ["a", "c"]
        assert await alice.shown(addresses["json"]) == ["a", "c"], "a search is asked once in a while"
    assert asked == [("alice", "home", "tea OR rain")] * 3
    refused = await alice.reader.post(400, action="outputs", method="change", output="picks", search="OR")
    assert "'OR'" in refused["error_description"]


async def test_posts_are_shown_as_their_user_sees_them(alice: Publisher) -> None:
    """With the text that she has chosen for their feed, and her name for it where the feed stands for the author."""
    addresses = await alice.make()
    wires = {name: dump(to_wire(Entry(name=name, content=Content(text="words")))) for name in ("d", "e")}
    await alice.server.publish(FEED, *(candidate(name, wire=wire) for name, wire in wires.items()))
    ids = await alice.items()
    await alice.add(ids["a"])
    await alice.add(ids["e"])
    whole = stored_full_text(Content("<p>All of it.</p>", "All of it."))
    await alice.server.items.note({ids["a"]: {FULL: whole}})

    async def shown(**settings: str) -> list[tuple[bool, str]]:
        await alice.reader.post(action="follow", method="settings", channel="home", url=FEED, **settings)
        alice.server.now += 100  # documents are cached for a minute
        items = (await alice.get(addresses["json"])).json()["items"]
        return [("All of it." in str(item), item["authors"][0].get("name", "")) for item in items]

    assert await shown(full_text="off", name="Boats") == [(False, "Boats"), (False, "Ann")]
    assert await shown(full_text="on", name="Ferries") == [(False, "Ferries"), (True, "Ann")]


async def test_hubs_are_named_where_subscribers_look(alice: Publisher) -> None:
    """The hub is in the headers and in the document, if the server has one."""
    server = alice.server
    hubbed = output_contents(server, base_url="https://hub.example")
    addresses = await alice.make()
    assert "link" not in (await alice.get(addresses["rss"])).headers
    server.use(output_contents=hubbed)
    for form in ("rss", "atom", "json", "html"):
        reply = await alice.get(addresses[form])
        assert reply.headers["link"] == f'<https://hub.example/hub>; rel="hub", <{addresses[form]}>; rel="self"'
        feed = parse(reply.content, addresses[form], reply.headers["content-type"])
        assert (feed.hub, feed.self_url) == ("https://hub.example/hub", addresses[form])


async def test_posts_stay_as_long_as_a_feed_has_them(alice: Publisher) -> None:
    """Neither retention nor the sweep deletes posts of an output feed."""
    addresses, ids = await alice.make(), await alice.items()
    await alice.add(ids["a"])
    await alice.reader.post(action="timeline", method="remove", channel="home", **{"entry[]": [ids["a"], ids["b"]]})
    server = alice.server
    sweeping = Sweeping(server.redis, server.accounts, server.feeds, server.outputs, kept=later(lambda: 0))
    for _ in range(3):
        await sweeping.run(server.now)
        server.now += 7200
    assert await alice.shown(addresses["json"]) == ["a"]
    assert await server.items.get(ids["b"]) is None


async def test_a_post_that_is_deleted_leaves_the_feeds(alice: Publisher) -> None:
    """The example is a post that a program withdraws."""
    addresses, ids = await alice.make(), await alice.items()
    await alice.add(ids["a"], ids["b"])
    server = alice.server
    doomed = await candidates(server.redis, [ids["a"]])
    await erase_posts(server.redis, server.accounts, server.outputs, doomed, server.now, wanted_too=True)
    assert await alice.shown(addresses["json"]) == ["b"]
    assert (await server.check()).is_clean


async def test_quotas_hold(alice: Publisher) -> None:
    """They limit feeds per user and items per feed; the oldest imported items make room."""
    server = alice.server
    ids = await alice.items()
    quotas = UserSettings(quotas=Quotas(outputs=1, output_items=2))
    await server.declared.set_user("alice", quotas)
    await alice.make(max_impressions=1)
    refused = await alice.reader.post(403, action="outputs", method="create", output="more")
    assert refused["error_description"] == "the limit for output feeds is reached: 1 of 1"
    await alice.add(ids["a"], ids["b"])
    full = {"action": "outputs", "method": "add", "output": "picks", "entry": ids["c"]}
    assert (await alice.reader.post(403, **full))["error"] == "forbidden"
    (feed,) = (await alice.reader.get(action="outputs"))["outputs"]
    assert await alice.shown(feed["addresses"]["json"]) == ["b", "a"]
    await alice.add(ids["c"])
    assert sorted((await alice.state()).values()) == [("imported", 1), ("published", 0), ("removed", 1)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_impressions", "many"), ("max_impressions", "-1"), ("max_age", "soon"), ("public", "perhaps"),
     ("channel", "nowhere"), ("output", "a/b"), ("title", "x" * 201), ("republish", "always")],
)  # fmt: skip
async def test_settings_that_cannot_be(alice: Publisher, name: str, value: str) -> None:
    """The error quotes the value."""
    given = {"action": "outputs", "method": "create", "output": "picks", name: value}
    refused = await alice.reader.post(404 if value == "nowhere" else 400, **given)
    assert value[:40] in refused["error_description"]
    assert (await alice.reader.get(action="outputs"))["outputs"] == []


async def test_a_lower_maximum_imports_what_was_shown_as_often(alice: Publisher) -> None:
    """Item states and the feed's counts agree; a higher maximum restores nothing."""
    addresses, ids = await alice.make(), await alice.items()
    await alice.add(ids["a"])
    for _ in range(3):
        await alice.shown(addresses["json"])
    await alice.add(ids["b"])
    for most in (2, 10):
        changed = await alice.reader.post(action="outputs", method="change", output="picks", max_impressions=most)
        assert await alice.state() == {"a": ("imported", 3), "b": ("published", 0)}
        assert (changed["published"], changed["imported"]) == (1, 1)
    assert await alice.shown(addresses["json"]) == ["b"]
