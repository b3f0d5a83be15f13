"""Export of all of a user's data and its import on another server, compared item by item."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from microsub.base.errors import InvalidRequest, ParseError, ParsingStopped
from microsub.base.urls import with_sign_in
from microsub.configuration.model import OutputConfig
from microsub.formats.parse import parse
from microsub.micropub.properties import PostedItem
from microsub.model.jf2 import Content, Enclosure
from microsub.model.reader import (
    MOST_KEPT,
    Episode,
    KeptSearch,
    episodes_in,
    stored_episodes,
    stored_searches,
)
from microsub.model.settings import Filters, FollowSettings, OwnChannelSettings
from microsub.parsing.task import AnyTask
from microsub.posts import AUTOMATIC, FULL, FULL_OF, stored_full_text
from microsub.posts.entries import items_to_store
from microsub.posts.imported import Imported
from microsub.redis import keys
from microsub.redis.embedded.server import start_embedded
from microsub.redis.multiplexer import Multiplexed
from microsub.redis.protocol import Redis
from microsub.redis.readings import reading_times
from microsub.timelines.displays import ChannelDisplay, ChannelDisplays
from microsub.timelines.gone import absences
from microsub.timelines.read_state import READ_EVERYWHERE, ReadState
from microsub.timelines.saved import SavedPosts
from microsub.transfer import user_export, user_import
from microsub.transfer.foreign_posts import exported_posts
from microsub.transfer.records import VERSION
from microsub.transfer.reports import ImportReport
from microsub.transfer.user_export import UserExport, by_bytes
from microsub.transfer.user_import import UserImport
from microsub.web.display import Display
from microsub.web.services import chosen_service, services_in, stored_services
from microsub.web.shortcuts import chosen_shortcuts
from tests.support.parsing import PARSER
from tests.support.posts import NOON, candidate
from tests.support.reader import Reader
from tests.support.readers import instance, posts
from tests.support.redis_wrappers import Between, once
from tests.support.world import World

A, B, C = "https://a.example/feed", "https://b.example/feed", "https://c.example/feed"
DOCUMENTS = sorted((Path(__file__).parents[1] / "data" / "formats").glob("*.xml"))[:40]


@pytest.fixture
async def there(real_redis: Redis) -> AsyncIterator[World]:
    async with instance(real_redis) as made:
        await live(made)
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def body(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The export of a user with every kind of data, from a server that no longer exists."""
    redis = start_embedded(tmp_path_factory.mktemp("there"))
    connection = Multiplexed(redis.url)
    async with aclosing(connection), instance(connection) as made:
        await live(made)
        exported = await export(made)
    redis.stop()
    return exported


@pytest.fixture
async def here(second_redis_url: str) -> AsyncIterator[World]:
    connection = Multiplexed(second_redis_url)
    async with instance(connection, now=NOON + 20_000) as made:
        yield made
    await connection.aclose()


async def live(world: World) -> None:
    """Creates a user with every kind of data."""
    now = world.now
    ann = await world.reader("ann", "news", "friends", "empty")
    await ann.post(action="channels", method="order", **{"channels[]": ["friends", "empty", "news"]})
    own = OwnChannelSettings(keep_read_days=7, unread="boolean", filters=Filters(exclude_words=("advert",)))
    await world.channels.set_settings("ann", "news", own, now)
    await world.channels.set_settings("ann", "empty", OwnChannelSettings(max_items=7), now)
    for url, host in ((A, "a"), (B, "b"), (C, "c")):
        made = [candidate(f"{host}{n}", at=NOON + n, host=f"{host}.example") for n in range(30)]
        await world.publish(url, *made, title=f"Blog {host}")
    for number, document in enumerate(DOCUMENTS):
        url = f"https://real{number}.example/feed"
        try:
            feed = parse(document.read_bytes(), url, None)
        except ParseError:
            continue
        await world.publish(url, *items_to_store(feed, now, url), title=feed.name or "none")
        await world.following.follow("ann", "friends", url, now - 20 + number / 100, feed.name and feed.name[:20])
    quiet = FollowSettings(view="list", hide_in_all=True, filter=Filters(exclude_words=("sport",)))
    await world.following.follow("ann", "news", A, now - 50, "My A", settings=quiet)
    await world.following.follow("ann", "news", B, now - 40)
    await world.following.follow("ann", "friends", C, now - 30)
    await world.publish(A, *posts("late1", "late2", at=NOON + 9000, host="a.example"))
    found = await ann.ids("news", limit=100)
    read_state = ReadState(world.redis, world.items)
    await read_state.mark("ann", "news", found[:7], "read", now)
    await read_state.mark("ann", "news", found[20:25], "unread", now)
    await SavedPosts(world.redis, world.items).save("ann", found[5:9], now)
    await ann.post(action="timeline", method="remove", channel="news", **{"entry[]": found[10:13]})
    await ann.post(action="timeline", method="move", channel="empty", **{"entry[]": found[13:15]})
    await ann.post(action="mute", channel="friends", url="https://c.example/")
    await ann.post(action="mute", url="https://muted.example/")
    await world.rules.mute("ann", "news", "https://for-a-week.example/", now, until=now + 604_800)
    await world.rules.mute("ann", "global", "https://for-a-month.example/", now, until=now + 2_592_000)
    await ann.post(action="block", url="https://blocked.example/")
    await ann.post(action="unfollow", channel="news", url=B)
    output = await world.outputs.create("ann", "picks", OutputConfig(title="Picks", max_impressions=2), now)
    versions = await world.parts.output_contents.versions(found[:4])
    await world.outputs.edit(output, "add", versions, now)
    for rows in (await world.outputs.rows(output, now), (await world.outputs.rows(output, now))[:2]):
        reservation, _ = await world.outputs.reserve(output, rows, now)
        assert await world.outputs.settle(output, reservation, now, shown=[row.item for row in rows])
    await world.outputs.edit(output, "remove", {found[3]: versions[found[3]]}, now + 1)
    await world.redis.command("DEL", keys.item(found[10]))
    await keep_reading(world, found[1:3])
    for item, more in ((found[1], {}), (found[2], {AUTOMATIC: "1"})):
        full = stored_full_text(Content("<p>The whole <b>article</b></p>", "The whole article"))
        await world.items.note({item: {FULL: full, FULL_OF: f"https://a.example/{item}", **more}})
    imported = Imported(world.redis)
    ids = await imported.ids("ann", ["one", "two"])
    await imported.write({item: candidate(name, host="own.example") for name, item in ids.items()}, now)
    for item in await world.items.timeline_items(list(ids.values())):
        await world.timelines.put("ann", "notifications", item, now)


async def keep_reading(world: World, items: list[str]) -> None:
    """Chooses how pages look, in all and in two channels, keeps two searches, and listens to these posts."""
    searches = [KeptSearch("Ebb", "tide -flood"), KeptSearch("Fog", "fog", "news", best=True)]
    chosen = Display().changed({"theme": "dark", "font": "serif", "language": "de", "minutes": "yes"}).stored()
    queue = [Episode(str(item), f"https://a.example/{n}.mp3", f"Episode {n}", n) for n, item in enumerate(items)]
    kept = {
        "playing": stored_episodes(queue),
        "display": chosen,
        "searches": stored_searches(searches),
        READ_EVERYWHERE: "no",
        "filters": Filters(exclude_words=("lottery",)).stored(),
        "shortcuts": chosen_shortcuts({"undo": "Z, Backspace", "next": "", "display": "g y"}),
        "services": stored_services([chosen_service("Wallabag", "bag.example", ""), chosen_service("Email", "", "Me")]),
    }
    await world.accounts.set_settings("ann", kept)
    displays, uids = ChannelDisplays(world.redis), frozenset({"news", "global"})
    await displays.choose("ann", "news", {"view": "list", "group": "day"}, uids)
    await displays.choose("ann", "global", {"view": "cards", "order": "oldest"}, uids)


async def export(world: World, user: str = "ann") -> bytes:
    kept = (world.feeds, world.items, world.outputs, world.sources)
    exporting = UserExport(world.redis, world.channels, world.rules, *kept, ChannelDisplays(world.redis))
    found = await world.accounts.user(user)
    assert found
    instance_ = await world.applied.name_instance()
    return b"".join([line async for line in exporting.lines(found, instance_, world.now)])


async def bring(
    world: World, body: bytes, user: str = "ann", *, dry_run: bool = False, trusted: bool = True, parser: Any = PARSER
) -> ImportReport:
    importing = UserImport(
        world.redis, world.accounts, world.channels, world.rules, world.feeds, world.items, world.following,
        world.outputs, world.sources, ChannelDisplays(world.redis),
        Imported(world.redis), world.applier, parser, await world.applied.name_instance(),
    )  # fmt: skip
    return await importing.run(user, io.BytesIO(body), world.now, dry_run=dry_run, trusted=trusted)


@dataclass
class Everything:
    """All data of a user, with names that don't depend on the server."""

    world: World
    user: str

    async def look(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        outputs = self.world.outputs
        channels = await self.world.channels.list(self.user)
        found["channels"] = [(one.uid, one.name, one.unread, one.settings) for one in channels]
        rules = await self.world.rules.of_channels(self.user, ["global", *(one.uid for one in channels)])
        found["rules"] = rules
        mutes = [(uid, url) for uid, (muted, _) in rules.items() for url in muted]
        found["ends of mutes"] = dict(zip(mutes, await self.world.rules.ends(self.user, mutes), strict=True))
        for uid, followed in (await self.world.channels.all_subscriptions(self.user)).items():
            records = await self.world.feeds.get_many(one.feed for one in followed)
            since = await self.world.channels.unread_from(self.user, uid)
            found[f"{uid} follows"] = [
                (one.url, one.name, one.followed_at, records[one.feed].url, records[one.feed].title) for one in followed
            ]
            found[f"{uid} since"] = {records[one.feed].url: since.get(one.feed) for one in followed}
            for what in ("posts", "unread", "read", "hidden", "hidden_read"):
                key = getattr(keys, "posts" if what == "unread" else what)(self.user, uid)
                if what in {"read", "hidden_read"}:
                    scores: dict[str, float] = {**(await reading_times(self.world.redis, [key]))[0]}
                else:
                    flat = await self.world.redis.command("ZRANGE", key, 0, -1, "WITHSCORES")
                    scores = {item.decode(): float(score) for item, score in zip(flat[0::2], flat[1::2], strict=True)}
                if what == "unread":
                    unread = await self.world.redis.command("SMEMBERS", keys.unread(self.user, uid))
                    scores = {item.decode(): scores[item.decode()] for item in unread}
                names = await self._names([*scores], False)
                rows = [(*name, score) for name, score in zip(names, scores.values(), strict=True)]
                # Posts of several feeds with the same microsecond are ordered by the digits of their ids.
                found[f"{uid} {what}"] = sorted(rows, key=lambda row: (row[-1], str(row)))
            left = [one async for some in absences(self.world.redis, self.user, uid) for one in some]
            names = await self._names([one.id for one in left], True)
            found[f"{uid} gone"] = sorted((*name, one.reason) for name, one in zip(names, left, strict=True))
        found["outputs"] = []
        user = await self.world.accounts.user(self.user)
        assert user
        episodes = [
            (await self._names([one.post], True), one.url, one.title, one.at)
            for one in episodes_in(user.settings.get("playing", ""))
        ]
        found["reading"] = (
            {**user.settings, "playing": episodes},
            await ChannelDisplays(self.world.redis).all(self.user),
        )
        for feed in await outputs.all_of(self.user):
            rows = [
                (*(await self._names([one.id], True))[0], replace(one, id="")) for one in await outputs.items(feed, 100)
            ]
            found["outputs"].append((feed.name, feed.settings, sorted(rows, key=str)))
        return found

    async def _names(self, ids: list[str], bare: bool) -> list[Any]:
        named = []
        for item in ids:
            row = await self.world.items.get(item)
            if row is None:
                named.append(("gone",))
                continue
            data = json.loads(row["Data"])
            assert data.pop("_id") == item
            feed = await self.world.feeds.get(data.pop("_source")) if row["feed"] else None
            kept = {
                name: text
                for name, text in row.items()
                if name in {"hash", "score", "Published", "author", "link", FULL, AUTOMATIC}
            }
            named.append((feed and feed.url, row["guid"], *(() if bare else (json.dumps(data), sorted(kept.items())))))
        return named


async def test_a_user_comes_over_whole(there: World, here: World) -> None:
    """An empty server gets the same channels, follows, rules, timelines, states and counts.

    A dry run reports the same numbers, and a second import changes nothing.
    """
    before = await Everything(there, "ann").look()
    assert before["news gone"]
    assert "The whole article" in str(before["news posts"])
    assert before["friends hidden"]
    assert before["saved posts"]
    assert before["notifications posts"]
    assert {one[-1].state for one in before["outputs"][0][2]} == {"published", "imported", "removed"}
    body = await export(there)
    dry = await bring(here, body, dry_run=True)
    assert "output feed picks: 4 items\n" in dry.as_text()
    assert await here.accounts.user("ann") is None
    report = await bring(here, body)
    assert report.skipped == []
    assert [{**vars_(one), "known": 0} for one in dry.channels] == [vars_(one) for one in report.channels]
    assert await Everything(here, "ann").look() == before
    again = await bring(here, body)
    assert "output feed picks: 4 items, known already\n" in again.as_text()
    assert await Everything(here, "ann").look() == before
    assert all(one.known == one.read + one.unread for one in again.channels)
    assert (await here.check()).left == ()
    copied, original = (await export(here)).splitlines(), body.splitlines()
    assert len(copied) == len(original)
    assert here.web.asked == []


async def test_choices_made_here_stay_and_searches_are_joined(body: bytes, here: World) -> None:
    """A display, filter, view or search that the user chose here isn't replaced by the file's; the rest is added."""
    await here.reader("ann", "news")
    own = [KeptSearch("Mine", "fog", "news"), *(KeptSearch(f"n{n}", f"n{n}") for n in range(MOST_KEPT - 2))]
    chosen = {
        "display": Display(theme="light").stored(),
        "filters": Filters(exclude_types=("like",)).stored(),
        "searches": stored_searches(own),
    }
    await here.accounts.set_settings("ann", chosen)
    displays = ChannelDisplays(here.redis)
    await displays.choose("ann", "news", {"view": "cards"}, frozenset({"news"}))
    lines = [json.loads(line) for line in body.splitlines()]
    reading = next(line for line in lines if line["type"] == "reading")
    reading["searches"] += [{"name": "", "words": " \t"}, {"name": "a\n" * 200, "words": "late"}]
    report = await bring(here, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert [one.item for one in report.skipped if "search" in one.why] == ["", ("a\n" * 200)[:200]]
    user = await here.accounts.user("ann")
    assert user
    assert [user.settings[name] for name in ("display", "filters")] == [chosen["display"], chosen["filters"]]
    assert user.settings[READ_EVERYWHERE] == "yes"
    assert KeptSearch.read(user.settings["searches"]) == (*own, KeptSearch("Ebb", "tide -flood"))
    views = await displays.all("ann")
    assert (views["news"].view, views["global"]) == ("cards", ChannelDisplay("cards", "oldest", "day"))


@pytest.mark.parametrize(
    ("own", "keys_", "kept", "why"),
    [
        ("", {"undo": "Z|Backspace", "unknown": "j"}, '{"undo":"Z|Backspace"}', []),
        ('{"next":"x"}', {"undo": "Z"}, '{"next":"x"}', []),
        ("", {"undo": "j"}, '{"next":"","undo":"j"}', []),
        ("", {"undo": "Z", "down": "Z"}, "", ["undo: “Z” is also the key of “next post, not opened”"]),
        ("", {"undo": "<b>"}, "", ["undo: “<b>” is no key; expected one character"]),
    ],
)
async def test_keys_come_over_where_the_user_has_none(
    body: bytes, here: World, own: str, keys_: dict[str, str], kept: str, why: list[str]
) -> None:
    """Wrong ones are left out, with the reason; one that the table has got for another action since stays."""
    await here.reader("ann", "news")
    await here.accounts.set_settings("ann", {"shortcuts": own})
    lines = [json.loads(line) for line in body.splitlines()]
    next(line for line in lines if line["type"] == "reading")["shortcuts"] = keys_
    for dry_run in (True, False):
        report = await bring(here, b"".join(json.dumps(line).encode() + b"\n" for line in lines), dry_run=dry_run)
        assert [one.why[: len(text)] for one, text in zip(report.skipped, why, strict=True)] == why
    user = await here.accounts.user("ann")
    assert user
    assert user.settings.get("shortcuts", "") == kept


async def test_services_come_over_where_the_user_has_none(body: bytes, here: World) -> None:
    """Wrong ones are left out, with the reason."""
    await here.reader("ann", "news")
    lines = [json.loads(line) for line in body.splitlines()]
    said = next(line for line in lines if line["type"] == "reading")
    said["services"] = [["Bad", "javascript:{url}"], *said["services"]]
    changed = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    reports = [await bring(here, changed, dry_run=dry_run) for dry_run in (True, False)]
    assert [[(one.item, "javascript:" in one.why) for one in report.skipped] for report in reports] == [
        [("Bad", True)]
    ] * 2
    user = await here.accounts.user("ann")
    assert user
    assert [one.name for one in services_in(user.settings["services"])] == ["Wallabag", "Me"]
    await here.accounts.set_settings("ann", {"services": stored_services([chosen_service("Email", "", "")])})
    await bring(here, changed)
    user = await here.accounts.user("ann")
    assert user
    assert [one.name for one in services_in(user.settings["services"])] == ["Email"]


async def test_a_search_that_is_kept_during_an_import_stays(body: bytes, here: World) -> None:
    """It is kept by a page while the import writes those of the file."""
    await here.reader("ann", "news")
    mine = KeptSearch("Mine", "fog", "news")

    async def keep() -> None:
        await here.accounts.set_settings("ann", {"searches": stored_searches([mine])})

    await bring(here.through(Between(here.redis, once("setting_revise", keep))), body)
    user = await here.accounts.user("ann")
    assert user
    assert mine in KeptSearch.read(user.settings["searches"])
    assert len(KeptSearch.read(user.settings["searches"])) > 1


async def test_a_search_of_an_unknown_channel_refuses_the_file(body: bytes, here: World) -> None:
    """As a follow in such a channel does; nothing is imported."""
    with pytest.raises(InvalidRequest, match="a channel that no earlier line has"):
        await bring(here, body.replace(b'"uid":"news","best":true', b'"uid":"nowhere","best":true'))
    assert await here.accounts.user("ann") is None


async def test_sources_come_over_without_tokens(real_redis: Redis, here: World) -> None:
    """Their posts keep their read state and original properties, also for a user with another name."""
    async with instance(real_redis) as there:
        await there.reader("ann", "news")
        made = await there.sources.create("ann", "news", "Backups", there.now)
        item = PostedItem("h-entry", {"content": ["done"], "x-mood": ["fine"]})
        await there.posting.create(made, item, await there.posting.token(made, item), "http://there.test")
        await there.stages.run_once()
        body = await export(there)
        assert made.seed.encode() not in body
        for world, user in ((here, "ann"), (there, "eve")):
            named = body.replace(b"https://ann.example/", f"https://{user}.example/".encode())
            for _ in range(2):
                assert (await bring(world, named, user)).skipped == []
            (source,) = await world.sources.all_of(user)
            assert (source.id, source.name, await world.sources.channel_of(source)) == ("backups", "Backups", "news")
            assert await world.accounts.tokens(user) == []
            reader = Reader(user, await world.grant(user, "read"), world.client)
            (shown,) = (await reader.get(action="timeline", channel="news"))["items"]
            assert (shown["content"]["text"], shown["_is_read"]) == ("done", False)
            ((_, sent),) = await world.posting.newest(source, 9, "")
            assert sent == item
            assert (await world.check()).left == ()


async def test_into_the_server_that_it_came_from(there: World) -> None:
    """Nothing changes. Under another name, the import gives the same data without copying any feed's posts."""
    before = await Everything(there, "ann").look()
    body = await export(there)
    assert all(one.known == one.read + one.unread for one in (await bring(there, body)).channels)
    assert await Everything(there, "ann").look() == before
    count = len(await there.redis.command("KEYS", "item:*"))
    await bring(there, body.replace(b'"me":"https://ann.example/"', b'"me":"https://eve.example/"'), "eve")
    assert await Everything(there, "eve").look() == before
    assert len(await there.redis.command("KEYS", "item:*")) == count


async def test_removed_posts_dont_return_with_the_first_poll(there: World, here: World) -> None:
    """The feed still lists the removed posts, including those that the other server has deleted."""
    before = (await Everything(there, "ann").look())["news posts"]
    await bring(here, await export(there))
    made = [candidate(f"a{n}", at=NOON + n, host="a.example") for n in range(30)]
    await here.publish(A, *made, *posts("late1", "late2", at=NOON + 9000, host="a.example"))
    assert (await Everything(here, "ann").look())["news posts"] == before
    await here.publish(A, candidate("new", at=NOON + 15_000, host="a.example"))
    found = (await Everything(here, "ann").look())["news unread"]
    assert found[-1][1] == "https://a.example/new"


async def test_posts_gone_for_one_user_reach_the_others(body: bytes, here: World) -> None:
    """A post that the exporting server deleted is new here for everybody but that user, also after another import."""
    (guid,) = {
        row[2]
        for line in map(json.loads, body.splitlines())
        if line["type"] == "gone"
        for row in line["items"]
        if row[2]
    }
    carol = await here.reader("carol", "home")
    await carol.post(action="follow", channel="home", url=A)
    await bring(here, body)
    before = (await Everything(here, "ann").look())["news posts"]
    assert len((await export(here)).splitlines()) == len(body.splitlines())
    made = [candidate(f"a{n}", at=NOON + n, host="a.example") for n in range(30)]
    await here.publish(A, *made, *posts("late1", "late2", at=NOON + 9000, host="a.example"))
    assert guid.rpartition("/")[2] in {post["name"] for post in await carol.timeline("home")}
    assert (await Everything(here, "ann").look())["news posts"] == before
    await bring(here, body)
    assert (await Everything(here, "ann").look())["news posts"] == before
    later = await here.reader("dan", "home")
    await later.post(action="follow", channel="home", url=A)
    assert guid.rpartition("/")[2] in {post["name"] for post in await later.timeline("home")}
    assert (await here.check()).left == ()


async def test_the_publishers_text_replaces_the_files(body: bytes, here: World) -> None:
    """A text that was changed in the file is corrected by the next poll, whatever its hash says."""
    lines = [json.loads(line) for line in body.splitlines()]
    told = next(line for line in lines if line.get("guid") == "https://a.example/a7")
    told["jf2"]["name"] = "altered"
    await bring(here, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    ann = await here.reader("ann")
    assert "altered" in {post["name"] for post in await ann.timeline("news", limit=100)}
    made = [candidate(f"a{n}", at=NOON + n, host="a.example") for n in range(30)]
    await here.publish(A, *made)
    names = {post["name"] for post in await ann.timeline("news", limit=100)}
    assert "a7" in names
    assert "altered" not in names


async def test_an_import_keeps_read_and_removed_state(body: bytes, here: World) -> None:
    """An import marks nothing unread, restores nothing that was removed here, and keeps names and settings."""
    await bring(here, body)
    app = await here.reader("ann")
    unread = await app.ids("news", is_read="false")
    await app.post(action="timeline", method="mark_read", channel="news", **{"entry[]": unread})
    await app.post(action="timeline", method="remove", channel="news", **{"entry[]": unread[:1]})
    await app.post(action="channels", channel="news", name="Other")
    await bring(here, body)
    assert (await app.channels())["news"]["name"] == "Other"
    assert await app.ids("news", is_read="false") == []
    assert unread[0] not in await app.ids("news")


async def test_a_hidden_feed_is_hidden_after_an_import(body: bytes, here: World) -> None:
    """All shows none of its posts, as before."""
    await bring(here, body)
    app = await here.reader("ann")
    hidden = {f"a{number}" for number in range(30)}
    shown = {
        uid: hidden & {post.get("name") for post in await app.timeline(uid)} for uid in ("news", "saved", "global")
    }
    assert shown["news"] - shown["saved"]
    assert not (shown["news"] - shown["saved"]) & shown["global"]


async def test_names_in_a_file_lead_to_no_other_item(body: bytes, here: World) -> None:
    """Notes of an earlier import, from another reader, aren't taken for ids of items."""
    await here.publish(A, *posts("of all"))
    before = await here.items.get("1")
    assert before is not None
    lines = body.splitlines()
    header = {**json.loads(lines[0]), "instance": "saved"}
    own = next(line for line in map(json.loads, lines) if line["type"] == "post" and not line.get("feed"))
    await Imported(here.redis).arrived("ann", "saved", [own["post"]])
    await bring(here, b"\n".join([json.dumps(header).encode(), *lines[1:], b""]), trusted=False)
    assert await here.items.get("1") == before


async def test_a_file_gives_no_access_to_others_own_posts(there: World) -> None:
    """Who guesses id and guid of a post gets what the file says, not the post."""
    lines = [json.loads(line) for line in (await export(there)).splitlines()]
    own = next(line for line in lines if line["type"] == "post" and not line.get("feed"))
    guessed = {**own, "jf2": {"type": "entry", "name": "guessed"}}
    channel = next(line for line in lines if line["type"] == "channel" and line["uid"] == "notifications")
    shown = {"type": "items", "channel": "notifications", "items": [[own["post"], None]]}
    made = [{**lines[0], "user": "mal", "me": ""}, channel, guessed, shown, {"type": "end", "lines": 5}]
    report = await bring(there, b"".join(orjson.dumps(line) + b"\n" for line in made), "mal", trusted=False)
    assert report.skipped == []
    (mine,) = await (await there.reader("mal", "own")).items("notifications")
    assert (mine["name"], mine["_id"] == own["post"]) == ("guessed", False)


async def test_deleted_posts_return_only_for_their_user(body: bytes, here: World) -> None:
    """If an account and its posts were deleted, an export restores them; other users receive none of them."""
    await bring(here, body)
    before = await Everything(here, "ann").look()
    await here.outputs.delete("ann", "picks", here.now)
    for uid in [channel.uid for channel in await here.channels.list("ann")]:
        for key in keys.CHANNEL_KEYS:
            await here.redis.command("DEL", key("ann", uid))
    await here.redis.command("DEL", keys.user("ann"), keys.channels("ann"), keys.imported("ann"))
    await here.redis.command("DEL", keys.arrivals("ann"), keys.arrivals_more("ann"))
    await here.redis.command("SREM", keys.users(), "ann")
    for name in [*await here.redis.command("KEYS", "item:*"), *await here.redis.command("KEYS", "feed:*:items")]:
        await here.redis.command("DEL", name)
    await bring(here, body)
    after = await Everything(here, "ann").look()
    assert {name: found for name, found in after.items() if "gone" not in name} == {
        name: found for name, found in before.items() if "gone" not in name
    }
    assert (await here.check()).left == ()
    eve = await here.reader("eve", "home")
    await eve.post(action="follow", channel="home", url=A)
    assert await eve.ids("home") == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lines: lines[:-1], "the export is truncated here"),
        (lambda lines: [*lines[:-1], lines[-1][:4]], "not a line of a user's export"),
        (lambda lines: [*lines[:3], b"\x00\xff", *lines[3:]], "line 4: not a line"),
        (lambda lines: [*lines[:3], b"[]", *lines[3:]], "line 4: not a line"),
        (lambda lines: lines[1:], "line 1: found a line of the type 'channel', expected the header"),
        (lambda lines: [lines[0], *lines], "line 2: found a second header"),
        (lambda lines: [*lines, lines[1]], "found more lines after the end"),
        (lambda lines: [line for line in lines if b'"type":"gone"' not in line], "lines, found"),
        (lambda lines: [line for line in lines if b'"type":"post"' not in line], "that no earlier line has"),
        (lambda lines: [line.replace(b'"max_items":7', b'"max_items":-7') for line in lines], "settings are invalid"),
        (lambda lines: [b'{"type":"user","version":99}', *lines[1:]], f"this server reads versions up to {VERSION}"),
        (lambda lines: [line.replace(b'"uid":', b'"id":') for line in lines], "'uid': Field required"),
        (lambda lines: [x.replace(b"]]", b"9]]") if b'"type":"gone"' in x else x for x in lines], "unknown reason"),
        (lambda lines: [], "the file is empty: expected an export"),
    ],
)  # fmt: skip
async def test_a_file_that_cannot_be_used_changes_nothing(body: bytes, here: World, change: Any, why: str) -> None:
    """The error names the line; for a newer version it names both versions."""
    lines = change(body.splitlines())
    with pytest.raises(InvalidRequest) as caught:
        await bring(here, b"\n".join(lines) + b"\n" if lines else b"")
    assert why in str(caught.value)
    assert await here.accounts.users() == []
    assert await here.redis.command("KEYS", "item:*") == []


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"type": "source", "source": "odd", "settings": {"channel": "news", "name": "\x1b"}}, "sources.odd.name"),
        ({"type": "source", "source": "é", "settings": {"channel": "news"}}, "1 to 64 letters"),
        ({"type": "source", "source": "odd", "settings": {"channel": "saved"}}, "that no earlier line has"),
        ({"type": "output", "name": "é"}, "1 to 64 letters"),
        ({"type": "channel", "uid": "é", "name": "E"}, "1 to 64 letters"),
    ],
)  # fmt: skip
async def test_names_are_looked_at_before_the_first_change(body: bytes, here: World, odd: Any, why: str) -> None:
    """This includes names at the very end; the error names the line."""
    lines = body.splitlines()
    end = orjson.dumps({**orjson.loads(lines[-1]), "lines": len(lines) + 1})
    with pytest.raises(InvalidRequest, match=f"line {len(lines)}: .*{re.escape(why)}"):
        await bring(here, b"\n".join([*lines[:-1], orjson.dumps(odd), end, b""]))
    assert await here.accounts.users() == []


async def test_disabled_users_get_no_import(body: bytes, here: World) -> None:
    """The error names the command that restores the user."""
    await here.accounts.add_user("ann", "", here.now)
    await here.accounts.disable_user("ann", here.now)
    with pytest.raises(InvalidRequest, match="microsub user restore ann"):
        await bring(here, body)
    assert await here.redis.command("KEYS", "item:*") == []


async def test_sources_of_a_channel_that_is_left_out_are_left_out(body: bytes, here: World) -> None:
    """A channel with that uid was removed here shortly before."""
    source = {"type": "source", "source": "odd", "settings": {"channel": "empty"}}
    lines = body.splitlines()
    end = orjson.dumps({**orjson.loads(lines[-1]), "lines": len(lines) + 1})
    await here.reader("ann", "empty")
    await here.following.remove_channel("ann", "empty", here.now)
    report = await bring(here, b"\n".join([*lines[:-1], orjson.dumps(source), end, b""]))
    assert any("channel empty" in note for note in report.notes)
    assert await here.sources.all_of("ann") == []


async def test_the_files_html_and_urls_are_cleaned(body: bytes, here: World) -> None:
    """HTML and URLs of an export are as untrusted as those of a feed."""
    body = body.replace(b"<p>words</p>", b"<p onclick='x()'>words<script>x()</script></p>")
    body = body.replace(b'"url":"https://a.example/a29"', b'"url":"javascript:x()"')
    await bring(here, body)
    data = b"".join([row["Data"].encode() for row in [await here.items.get(str(n)) for n in range(1, 400)] if row])
    assert b"words" in data
    for bad in (b"onclick", b"<script", b"javascript:"):
        assert bad not in data


async def test_names_are_valid_in_backend_json(body: bytes, here: World) -> None:
    """Long names are cut and control characters removed; otherwise the file couldn't be written for any user."""
    lines = body.splitlines()
    feed = next(line for line in lines if b'"type":"follow"' in line)
    odd = orjson.dumps({**orjson.loads(feed), "name": "\x1b" + "n" * 5000})
    channel = orjson.dumps({"type": "channel", "uid": "odd", "name": "\u202e" + "n" * 250})
    count = orjson.dumps({**orjson.loads(lines[-1]), "lines": len(lines) + 1})
    changed = [odd if line == feed else line for line in lines[1:-1]]
    await bring(here, b"\n".join([lines[0], channel, *changed, count, b""]))
    followed = (await here.channels.all_subscriptions("ann"))[orjson.loads(feed)["channel"]]
    names = [one.name for one in await here.channels.list("ann") if one.uid == "odd"] + [one.name for one in followed]
    assert [name for name in names if name and name.startswith("n")] == [f"{'n' * 199}…"] * 2


async def test_invalid_rules_are_left_out(body: bytes, here: World) -> None:
    """backend.json contains the rules of all users; one invalid rule would prevent writing it at all."""
    wrong = ("javascript:x()", "https://c.example/\\u001b", f"https://c.example/{'x' * 3000}")
    was, rules = b'"mute":["https://c.example/"', ",".join(f'"{url}"' for url in ("https://c.example/", *wrong))
    report = await bring(here, body.replace(was, b'"mute":[' + rules.encode()))
    assert await here.rules.muted("ann", "friends") == ["https://c.example/"]
    assert [(one.channel, one.item[:10]) for one in report.skipped] == [
        ("friends", "javascript"), ("friends", "https://c."), ("friends", "https://c."),
    ]  # fmt: skip


async def test_addresses_are_valid_in_backend_json(body: bytes, here: World) -> None:
    """Surrounding white space and the `feed:` scheme of some readers are removed."""
    rule, follow = b'"mute":["https://c.example/"', b'"url":"https://c.example/feed"'
    body = body.replace(rule, rule + b',"feed:https://d.example/","https://e.example/ "')
    await bring(here, body.replace(follow, b'"url":"feed:https://c.example/feed "'))
    assert await here.rules.muted("ann", "friends") == [f"https://{host}.example/" for host in "cde"]
    followed = (await here.channels.all_subscriptions("ann"))["friends"]
    assert C in [one.url for one in followed]


async def test_two_feeds_of_a_channel_have_no_address_in_common(body: bytes, here: World) -> None:
    """A channel of backend.json lists each URL once; otherwise the file couldn't be written."""
    lines = body.splitlines()
    friends = [number for number, line in enumerate(lines) if b'"type":"follow"' in line and b'"friends"' in line]
    first, second = (orjson.loads(lines[number]) for number in friends[:2])
    lines[friends[1]] = orjson.dumps({**second, "url": first["url"]})
    report = await bring(here, b"\n".join([*lines, b""]))
    followed = [one.url for one in (await here.channels.all_subscriptions("ann"))["friends"]]
    assert len(followed) == len(set(followed))
    assert [one.why for one in report.skipped] == ["another feed of this channel has that address"]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "n" * 100_000},
        {"content": {"html": "<p>x</p>", "text": "x" * 1_500_000}},
        {"content": {"html": "<a href=x>x</a>" * 20_000, "text": "x"}, "url": f"https://a.example/{'x' * 1900}/"},
        {"photo": [f"https://a.example/{number}" for number in range(1000)]},
        {"category": [f"tag {number}" for number in range(1000)]},
        {"refs": {f"https://a.example/{n}": {"type": "entry", "content": {"text": "x" * 900_000}} for n in range(5)}},
    ],
    ids=["name", "text", "links", "photos", "tags", "refs"],
)
def test_posts_have_the_size_limit_of_feeds(change: dict[str, Any]) -> None:
    """Every timeline page would contain it."""
    sound = {"type": "entry", "url": "https://a.example/1", "name": "A post", "content": {"html": "x", "text": "x"}}
    found = exported_posts(json.dumps([sound, {**sound, **change}]).encode())
    assert found[0] is not None
    assert found[1] is None


def test_files_of_a_post_say_their_length_as_a_number() -> None:
    """Apps expect a number."""
    odd = {"url": "https://a.example/1.mp3", "length": "x", "duration": {"a": 1}}
    (found,) = exported_posts(json.dumps([{"type": "entry", "name": "A post", "enclosure": [odd]}]).encode())
    assert found is not None
    assert found.enclosure == (Enclosure("https://a.example/1.mp3"),)


async def test_an_export_has_no_secrets_of_its_user(there: World) -> None:
    """Tokens, sessions and passwords aren't exported."""
    token = await there.grant("ann", "read")
    body = await export(there)
    assert token.encode() not in body
    assert {json.loads(line)["type"] for line in body.splitlines()} == {
        *("user", "channel", "rules", "reading", "feed", "follow", "post", "items", "gone"),
        *("output", "output items", "end"),
    }


def vars_(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


async def test_long_posts_come_over_in_small_parts(real_redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Export and import hold only a few at a time, and one that can't be parsed is skipped by its name."""
    async with instance(real_redis) as there:
        await there.reader("ann", "home")
        await there.publish(A)
        await there.following.follow("ann", "home", A, there.now - 50)
        await there.publish(A, *(candidate(f"a{n}", at=NOON + n, text="ä" * 1000) for n in range(40)))
        sizes: list[int] = []
        raw = there.items.raw
        monkeypatch.setattr(user_export, "_BATCH_BYTES", 10_000)
        monkeypatch.setattr(there.items, "raw", lambda ids: sizes.append(len(ids)) or raw(ids))
        body = await export(there)
        assert (sum(sizes), max(sizes)) == (40, 2)
        assert body.count(b'"type":"post"') == 40
        monkeypatch.setattr(user_import, "_BYTES_TOGETHER", 20_000)
        asked: list[int] = []

        class Parser:
            async def run(self, task: AnyTask, where: str, body: bytes) -> Any:
                posts = json.loads(body)
                asked.append(len(posts))
                if any(one["name"] == "a7" for one in posts):
                    raise ParsingStopped("the export", "parsing it takes too much memory")
                return await PARSER.run(task, where, body)

        await there.reader("eve")
        await there.redis.command("DEL", *[keys.item(one) for one in await there.items.newest("1", 99)])
        report = await bring(there, body, "eve", parser=Parser())
        assert max(asked) < 10
        assert [(one.item, one.why) for one in report.skipped] == [
            ("https://blog.example/a7", "expected a post with an id and content")
        ]
        assert await there.redis.command("ZCARD", keys.posts("eve", "home")) == 39


def test_pieces_end_by_bytes() -> None:
    """A piece is full by its size, a larger thing is alone."""
    assert list(by_bytes("abcde", [4, 6, 11, 1, 1], 10)) == [["a", "b"], ["c"], ["d", "e"]]
    assert list(by_bytes("", [], 10)) == []


async def test_a_file_adds_posts_for_no_other_user(body: bytes, here: World) -> None:
    """Who follows the feeds, before or after, gets only what the feeds list, and no title from the file."""
    carol = await here.reader("carol", "home")
    await carol.post(action="follow", channel="home", url=A)
    report = await bring(here, body, trusted=False)
    assert "only ann has them" in report.as_text()
    assert await here.redis.command("KEYS", "feed:*:items") == []
    dan = await here.reader("dan", "home")
    for reader, url in ((dan, A), (dan, B), (carol, C)):
        await reader.post(action="follow", channel="home", url=url)
        assert (await here.feeds.get(await here.feeds.find(url) or "")).title is None
    await here.publish(A, candidate("a1", at=NOON + 1, host="a.example", text="true"))
    for reader in (carol, dan):
        assert [post["content"]["text"] for post in await reader.timeline("home")] == ["true"]
    assert (await here.check()).left == ()


@pytest.mark.parametrize("moved", [None, "https://elsewhere.example/feed"])
async def test_posts_behind_a_sign_in_stay_with_their_user(there: World, here: World, moved: str | None) -> None:
    """Also with a trusted file: the file has the address without the sign-in, which others follow.

    A feed that moves to another origin loses the sign-in, but not the posts that it gave.
    """
    named = with_sign_in(A, "ann", "i" * 22)
    feed = await there.publish(named, candidate("secret", at=NOON + 9500, host="a.example", text="for members"))
    await there.following.follow("ann", "friends", named, there.now)
    if moved is not None:
        assert await there.feeds.rename(feed.id, moved) is None
    body = await export(there)
    assert b"i" * 22 not in body
    await bring(here, body)
    bob = await here.reader("bob", "home")
    await bob.post(action="follow", channel="home", url=moved or A)
    assert "for members" not in str(await bob.timeline("home"))
    assert "for members" in str(await Reader("ann", await here.grant("ann", "read"), here.client).timeline("friends"))
    assert (await here.check()).left == ()


async def test_a_file_follows_no_feed_of_another_user(body: bytes, here: World) -> None:
    """An address that names another user's sign-in is followed without it."""
    changed = body.replace(b'"https://a.example/feed"', b'"https://~carol.%b@a.example/feed"' % (b"i" * 22))
    assert changed != body
    await bring(here, changed, trusted=False)
    followed = await here.channels.subscriptions("ann", "news")
    assert A in [one.url for one in followed]
    assert "carol" not in str(followed)


async def test_own_copies_become_the_posts_that_the_feed_lists(there: World, here: World) -> None:
    """All data is as there, also after another import; the first polls change no state, and nothing is doubled."""
    before = await Everything(there, "ann").look()
    body = await export(there)
    dry = await bring(here, body, dry_run=True, trusted=False)
    assert (await bring(here, body, trusted=False)).channels == dry.channels
    await bring(here, body, trusted=False)

    def bare(found: dict[str, Any]) -> dict[str, Any]:
        rows = {name: [(*row[:2], row[-1]) for row in rows] for name, rows in found.items() if name.split()[-1] in
                {"posts", "unread", "read", "hidden", "hidden_read"}}  # fmt: skip
        return rows | {"outputs": found["outputs"], "channels": found["channels"], "rules": found["rules"]}

    assert bare(await Everything(here, "ann").look()) == bare(before)
    assert (await here.check()).left == ()
    for host, url in (("a", A), ("c", C)):
        await here.publish(url, *(candidate(f"{host}{n}", at=NOON + n, host=f"{host}.example") for n in range(30)))
    await here.publish(A, *posts("late1", "late2", at=NOON + 9000, host="a.example"))
    after = await Everything(here, "ann").look()
    assert bare(after) == bare(before)
    listed = await here.items.newest(await here.feeds.find(A) or "", 100)
    news = {item.decode() for item in await here.redis.command("ZRANGE", keys.posts("ann", "news"), 0, -1)}
    assert len(listed) == 32
    assert len(news & set(listed)) == sum(row[0] == A for row in before["news posts"])
    saved = {item.decode() for item in await here.redis.command("ZRANGE", keys.posts("ann", "saved"), 0, -1)}
    assert len(saved & set(listed)) == sum(row[0] == A for row in before["saved posts"]) > 0
    assert (await here.check()).left == ()
    await bring(here, body, trusted=False)
    assert bare(await Everything(here, "ann").look()) == bare(before)


async def test_copies_of_two_users_become_one_post(body: bytes, here: World) -> None:
    """Each keeps their own read state."""
    await bring(here, body, trusted=False)
    other = body.replace(b'"me":"https://ann.example/"', b'"me":"https://eve.example/"')
    await bring(here, other, "eve", trusted=False)
    readers = [await here.reader(name) for name in ("ann", "eve")]
    ids = [await reader.ids("news", limit=100) for reader in readers]
    assert not set(ids[0]) & set(ids[1])
    unread = [await reader.ids("news", is_read="false") for reader in readers]
    await readers[1].post(action="timeline", method="mark_read", channel="news", **{"entry[]": unread[1]})
    made = [candidate(f"a{n}", at=NOON + n, host="a.example") for n in range(30)]
    await here.publish(A, *made, *posts("late1", "late2", at=NOON + 9000, host="a.example"))
    shown = [await reader.ids("news", limit=100) for reader in readers]
    common = set(shown[0]) & set(shown[1])
    assert common == set(shown[0]) - set(ids[0]) == set(shown[1]) - set(ids[1])
    assert len(common) > 20
    assert [len(one) for one in shown] == [len(one) for one in ids]
    assert await readers[1].ids("news", is_read="false") == []
    assert len(await readers[0].ids("news", is_read="false")) == len(unread[0])
