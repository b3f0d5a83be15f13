"""The addresses of output feeds: formats, removed feeds, caching, ranges, archives, limits, logs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
import structlog

from microsub.formats.parse import parse
from microsub.outputs.api.documents import OUTPUT_GUESSES_OF_NETWORK, OUTPUTS_OF_FEED
from microsub.posts.items import Items
from microsub.redis import keys
from tests.outputs.conftest import Publisher
from tests.support.readers import posts

FORMS = {
    "rss": "application/rss+xml; charset=utf-8",
    "atom": "application/atom+xml; charset=utf-8",
    "json": "application/feed+json",
    "html": "text/html; charset=utf-8",
}


async def test_every_format_has_its_address(alice: Publisher) -> None:
    """Each reply has the content type that readers expect, and the same items."""
    addresses, ids = await alice.make(title="My picks"), await alice.items()
    await alice.add(ids["a"], ids["b"])
    for form, kind in FORMS.items():
        reply = await alice.get(addresses[form])
        assert (reply.status_code, reply.headers["content-type"]) == (200, kind)
        feed = parse(reply.content, addresses[form], kind)
        assert feed.name == "My picks"
        assert [entry.name for entry in feed.entries] == ["b", "a"]
    assert "noindex" in reply.headers["x-robots-tag"]
    assert "script-src" not in reply.headers["content-security-policy"]


async def test_a_corrupt_post_hides_no_other(alice: Publisher) -> None:
    addresses, ids = await alice.make(), await alice.items()
    await alice.add(ids["a"], ids["b"])
    await alice.server.redis.command("HSET", keys.item(ids["a"]), "Data", b'{"type":')
    for form, kind in FORMS.items():
        reply = await alice.get(addresses[form])
        assert reply.status_code == 200, form
        assert "b" in [entry.name for entry in parse(reply.content, addresses[form], kind).entries]
    assert (await alice.reader.get(action="outputs", output="picks"))["items"]


async def test_a_public_feed_has_a_readable_address(alice: Publisher) -> None:
    """The readable address ends when the feed isn't public any more; the other address always works."""
    secret = (await alice.make())["json"]
    assert (await alice.get("/feeds/alice/picks.json")).status_code == 404
    changed = await alice.reader.post(action="outputs", method="change", output="picks", public="true")
    assert changed["addresses"]["json"].endswith("/feeds/alice/picks.json")
    assert (await alice.get(changed["addresses"]["json"])).status_code == 200
    assert (await alice.get(secret)).status_code == 200
    page = await alice.get("/feeds/alice/picks")
    assert (page.status_code, page.headers["content-type"]) == (200, FORMS["html"])
    await alice.reader.post(action="outputs", method="change", output="picks")
    refused = [await alice.get(f"/feeds/alice/{name}.json") for name in ("picks", "unknown")]
    assert [reply.status_code for reply in refused] == [404, 404]
    assert refused[0].json() == refused[1].json(), "nobody learns which names there are"


async def test_unknown_feeds_are_404_and_ended_ones_410(alice: Publisher) -> None:
    """An unknown address is 404; a revoked, renewed or deleted feed's is 410; a disabled user's is 404."""
    first = (await alice.make())["rss"]
    guessed = re.sub(r"alice\.[^.]*", "alice." + "x" * 32, first)
    for address in (guessed, "/feeds/nobody.rss", "/feeds/", "/feeds/a/b/c.rss", first.replace(".rss", ".exe")):
        assert (await alice.get(address)).status_code == 404, address
    renewed = await alice.reader.post(action="outputs", method="renew", output="picks")
    second = renewed["addresses"]["rss"]
    assert second != first
    assert (await alice.get(first)).status_code == 410
    assert (await alice.get(second)).status_code == 200
    revoked = await alice.reader.post(action="outputs", method="revoke", output="picks")
    assert revoked["addresses"] == {}
    assert (await alice.get(second)).status_code == 410
    third = (await alice.reader.post(action="outputs", method="renew", output="picks"))["addresses"]["rss"]
    await alice.server.accounts.disable_user("alice", alice.server.now)
    assert (await alice.get(third)).status_code == 404, "the user may come back"
    await alice.server.accounts.restore_user("alice")
    assert (await alice.get(third)).status_code == 200
    await alice.reader.post(action="outputs", method="delete", output="picks")
    assert (await alice.get(third)).status_code == 410


async def test_only_full_replies_are_impressions(alice: Publisher) -> None:
    """HEAD, 304 and ranges don't count."""
    addresses, ids = await alice.make(), await alice.items()
    await alice.add(ids["a"])
    head = await alice.get(addresses["rss"], "HEAD")
    assert head.status_code == 200
    assert head.content == b""
    tag = head.headers["etag"]
    assert (await alice.get(addresses["rss"], if_none_match=f'"other", {tag}')).status_code == 304
    part = await alice.get(addresses["rss"], range="bytes=0-99")
    assert (part.status_code, len(part.content)) == (206, 100)
    assert await alice.state() == {"a": ("published", 0)}
    whole = await alice.get(addresses["rss"])
    assert whole.headers["etag"] == tag
    assert len(whole.content) == int(head.headers["content-length"])
    assert await alice.state() == {"a": ("published", 1)}


async def test_ranges(alice: Publisher) -> None:
    """RFC 9110, section 14: first and last bytes, ranges beyond the end, and changed documents."""
    addresses = await alice.make()
    whole = await alice.get(addresses["json"])
    size = len(whole.content)
    for asked, found in (("bytes=5-9", whole.content[5:10]), ("bytes=-7", whole.content[-7:])):
        part = await alice.get(addresses["json"], range=asked)
        assert (part.status_code, part.content) == (206, found)
    assert part.headers["content-range"] == f"bytes {size - 7}-{size - 1}/{size}"
    beyond = await alice.get(addresses["json"], range=f"bytes={size}-")
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    for asked in ("bytes=9-5", "bytes=0-1,4-5", "lines=1-2", "bytes=-"):
        assert (await alice.get(addresses["json"], range=asked)).status_code == 200, asked
    changed = await alice.get(addresses["json"], range="bytes=0-4", if_range='"another"')
    assert changed.status_code == 200
    same = await alice.get(addresses["json"], range="bytes=0-4", if_range=whole.headers["etag"])
    assert same.status_code == 206


async def test_conditional_by_date(alice: Publisher) -> None:
    """For clients that ignore ETags; the date is that of the last change."""
    addresses, ids = await alice.make(), await alice.items()
    reply = await alice.get(addresses["atom"])
    stamp = reply.headers["last-modified"]
    assert parsedate_to_datetime(stamp).timestamp() == int(alice.server.now) - 1, "not later than `Date`"
    assert (await alice.get(addresses["atom"], if_modified_since=stamp)).status_code == 200, "in the same second"
    alice.server.now += 60
    stamp = (await alice.get(addresses["atom"], if_modified_since=stamp)).headers["last-modified"]
    assert (await alice.get(addresses["atom"], if_modified_since=stamp)).status_code == 304
    await alice.add(ids["a"])
    assert (await alice.get(addresses["atom"], if_modified_since=stamp)).status_code == 200
    assert (await alice.get(addresses["atom"], if_modified_since="yesterday")).status_code == 200


async def test_cache_headers_depend_on_the_feed(alice: Publisher) -> None:
    """A public feed may be cached by everybody, others by the client, one with impressions only with revalidation."""
    kept = {}
    for name, settings in {"plain": {}, "open": {"public": "true"}, "few": {"max_impressions": 4}}.items():
        addresses = await alice.make(name, **settings)
        kept[name] = (await alice.get(addresses["rss"])).headers["cache-control"]
    assert kept == {"plain": "private, max-age=300", "open": "public, max-age=300", "few": "private, no-cache"}


async def test_archives_never_change_and_end(alice: Publisher) -> None:
    """Older items are in archives, each with its own address (RFC 5005)."""
    server = alice.server
    names = [f"post {number:03}" for number in range(175)]
    await alice.publish(*names)
    addresses = await alice.make(channel="home")
    first = (await alice.get(addresses["json"])).json()
    seen = [item["title"] for item in first["items"]]
    archives, following = [], first.get("next_url")
    while following:
        archives.append(following)
        page = await alice.get(following)
        assert page.status_code == 200
        seen += [item["title"] for item in page.json()["items"]]
        following = page.json().get("next_url")
    assert len(archives) == 2
    assert len(seen) == len(set(seen)) == 178
    atom = (await alice.get(archives[0].replace(".json", ".atom"))).text
    assert "<fh:archive/>" in atom
    assert f'rel="current" type="application/atom+xml" href="{addresses["atom"]}"' in atom
    before = [(await alice.get(address)).content for address in archives]
    server.now += 10
    await alice.publish(*[f"later {number}" for number in range(60)], at=server.now)
    grown = (await alice.get(addresses["json"])).json()
    assert [(await alice.get(address)).content for address in archives] == before
    assert (await alice.get(grown["next_url"])).json()["next_url"] == archives[0]
    assert (await alice.get(addresses["rss"] + "?archive=guessed")).status_code == 404


async def test_a_new_feed_begins_with_all_of_its_channel(alice: Publisher) -> None:
    """Subscribers reach every post by `next`, which is the next archive, or by `next_url`."""
    await alice.publish(*[f"post {number:03}" for number in range(259)])
    addresses = await alice.make(channel="home")
    for form, following in (("json", r'"next_url":"([^"]*)"'), ("rss", r'rel="next"[^>]* href="([^"]*)"')):
        seen, address = 0, addresses[form]
        while address:
            page = (await alice.get(address)).text
            seen += page.count('"id":' if form == "json" else "<item>")
            found = re.search(following, page)
            address = found[1] if found else ""
        assert seen == 262, form


async def test_every_format_has_the_feeds_description(alice: Publisher) -> None:
    """Description, picture, author and language; a podcast app shows the picture as cover."""
    said = {
        "title": "Tides",
        "description": "High & low water",
        "image": "https://alice.example/cover.png",
        "author": "Alice",
        "language": "pt-BR",
    }
    addresses = await alice.make(**said)
    for form, kind in FORMS.items():
        reply = await alice.get(addresses[form])
        feed = parse(reply.content, addresses[form], kind)
        assert (feed.name, feed.photo) == ("Tides", "https://alice.example/cover.png"), form
        assert feed.author is not None
        assert feed.author.name == "Alice", form
        assert "pt-BR" in reply.text
        if form != "html":
            assert feed.description == "High & low water", form
    rss = (await alice.get(addresses["rss"])).text
    assert '<itunes:image href="https://alice.example/cover.png"/>' in rss
    (feed,) = (await alice.reader.get(action="outputs"))["outputs"]
    assert {name: feed[name] for name in said} == said
    for name, value in {"image": "javascript:alert(1)", "language": "x y", "author": "x" * 201}.items():
        refused = await alice.reader.post(400, action="outputs", method="change", output="picks", **{name: value})
        assert f"'{name}' can't be used" in refused["error_description"]


async def test_publishing_again_moves_an_item_to_the_front(alice: Publisher) -> None:
    """Its guid stays, so that no reader shows it twice; an edit changes only the time of the edit."""
    addresses, ids = await alice.make(), await alice.items()
    await alice.add(ids["a"], ids["b"])
    before = {item["title"]: item for item in (await alice.get(addresses["json"])).json()["items"]}
    alice.server.now += 86_400
    await alice.add(ids["a"], method="publish")
    await alice.publish("a", "b", "c", text="Says something else.")
    items = (await alice.get(addresses["json"])).json()["items"]
    assert [item["title"] for item in items] == ["b", "a"]
    after = {item["title"]: item for item in items}
    for title in ("a", "b"):
        assert after[title]["id"] == before[title]["id"]
        assert after[title]["date_modified"] > before[title]["date_published"]
    assert after["b"]["date_published"] == before["b"]["date_published"]
    await alice.add(ids["a"], method="publish")
    item = (await alice.get(addresses["rss"])).text.partition("<item>")[2].partition("</item>")[0]
    stamp = re.search("<pubDate>(.*)</pubDate>", item)
    assert stamp is not None
    assert parsedate_to_datetime(stamp[1]).timestamp() == int(alice.server.now)
    assert "<title>a</title>" in item


async def test_a_feed_that_counts_is_complete(alice: Publisher) -> None:
    """An item that isn't listed has left the feed."""
    addresses = await alice.make(max_impressions=4)
    for form in ("rss", "atom"):
        assert "<fh:complete/>" in (await alice.get(addresses[form])).text


async def test_guesses_are_limited(alice: Publisher) -> None:
    """Further guesses get 429 with Retry-After; clients with a valid address aren't affected."""
    address = (await alice.make())["json"]
    found = [(await alice.get(f"/feeds/alice.{number:032}.rss")).status_code for number in range(40)]
    assert found == [404] * OUTPUT_GUESSES_OF_NETWORK.most + [429] * (40 - OUTPUT_GUESSES_OF_NETWORK.most)
    assert (await alice.get(address)).status_code == 200


async def test_requests_of_one_feed_are_limited(alice: Publisher) -> None:
    """The limit applies across all networks."""
    address = (await alice.make())["json"]
    found = [(await alice.get(address, "HEAD")).status_code for _ in range(OUTPUTS_OF_FEED.most + 5)]
    assert found == [200] * OUTPUTS_OF_FEED.most + [429] * 5


async def test_logs_do_not_show_addresses(alice: Publisher) -> None:
    """Refused requests are logged without the secret of the address."""
    address = (await alice.make())["rss"]
    secret = address.rpartition("/")[2].split(".")[1]
    await alice.reader.post(action="outputs", method="revoke", output="picks")
    with structlog.testing.capture_logs() as logs:
        assert (await alice.get(address)).status_code == 410
    assert logs
    assert secret not in json.dumps(logs, default=str)


async def test_other_methods(alice: Publisher) -> None:
    """OPTIONS works for apps in browsers; writing methods are refused."""
    address = (await alice.make())["rss"]
    assert (await alice.get(address, "OPTIONS")).headers["access-control-allow-origin"] == "*"
    assert (await alice.get(address, "POST")).status_code == 405


async def test_entries_have_who_wrote_them(alice: Publisher) -> None:
    """A post without an author is attributed to its feed."""
    addresses, ids = await alice.make(), await alice.items()
    await alice.server.publish("https://blog.example/feed", *posts("nameless", author=""), title="The blog")
    ids = await alice.items()
    await alice.add(ids["nameless"])
    feed = parse((await alice.get(addresses["rss"])).content, addresses["rss"], FORMS["rss"])
    assert feed.entries[0].author is not None
    assert feed.entries[0].author.name


async def test_asking_again_costs_little(alice: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document is written once until it changes, whatever the number of requests."""
    for settings in ({}, {"max_impressions": 1000}):
        name = f"picks{len(settings)}"
        addresses, ids = await alice.make(name, **settings), await alice.items()
        await alice.add(ids["a"], name=name)
        read = 0
        pieces = Items.text_pieces

        def counted(items: Items, of: Sequence[str], pieces: Any = pieces, **more: Any) -> Any:
            nonlocal read
            read += bool(of)
            return pieces(items, of, **more)

        monkeypatch.setattr(Items, "text_pieces", counted)
        for _ in range(5):
            assert await alice.shown(addresses["json"]) == ["a"]
        assert read == 1
        await alice.add(ids["b"], name=name)
        assert await alice.shown(addresses["json"]) == ["b", "a"]
        assert read == 2
        monkeypatch.undo()


async def test_headers_that_can_not_be_used(alice: Publisher) -> None:
    """An invalid host is refused, and an out-of-range date is ignored."""
    address = (await alice.make(public="true"))["rss"]
    for host in ("\xff:99999", 'a"><b', "a b", "[::1", "evil.example/path"):
        reply = await alice.server.client.get(address, headers={b"host": host.encode("latin-1")})
        assert reply.status_code == 400, host
    for date in ("Mon, 01 Jan 99999999999 00:00:00 GMT", "Mon, 31 Dec 9999 23:59:59 -2359"):
        assert (await alice.get(address, if_modified_since=date, if_range=date)).status_code in {200, 304}, date


async def test_a_date_never_hides_what_has_changed(alice: Publisher) -> None:
    """Items leave a limited feed without a recorded change, so it has only ETags; a new title updates the date."""
    server, ids = alice.server, await alice.items()
    limited, plain = await alice.make("limited", max_age="1h"), await alice.make("plain")
    await alice.add(ids["a"], name="limited")
    server.now += 2
    stamp = (await alice.get(plain["json"])).headers["last-modified"]
    assert "last-modified" not in (await alice.get(limited["json"])).headers
    server.now += 4000
    assert (await alice.get(plain["json"], if_modified_since=stamp)).status_code == 304
    after = await alice.get(limited["json"], if_modified_since="Fri, 01 Jan 2100 00:00:00 GMT")
    assert (after.status_code, after.json()["items"]) == (200, [])
    await alice.reader.post(action="outputs", method="change", output="plain", title="Another")
    server.now += 10
    renamed = await alice.get(plain["json"], if_modified_since=stamp)
    assert (renamed.status_code, renamed.json()["title"]) == (200, "Another")
