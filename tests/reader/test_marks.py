"""The forms of the reading pages, as sent by a browser without scripts and by our script."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from microsub.base.clock import DAY
from microsub.model.jf2 import Content, Entry
from microsub.reader.reading import undo
from microsub.reader.reading.undo import UndoRecord, UndoRecords
from microsub.redis import keys
from microsub.redis.protocol import Command
from microsub.timelines import READ_EVERYWHERE, ReadState
from microsub.web.visit import PAGES_AT_ONCE
from tests.reader.conftest import ReadingVisitor, ids, reading, titles
from tests.support.posts import NOON
from tests.support.readers import FEED, OTHER, posts
from tests.support.redis_wrappers import Between, Wrapped
from tests.support.visitor import fields_of
from tests.support.waiting import wait_until
from tests.support.world import World

JSON = "application/json"


async def unread(ann: ReadingVisitor, uid: str = "home") -> int:
    channels = {channel.uid: channel for channel in await ann.server.channels.list("ann")}
    return channels[uid].unread


async def test_read_and_unread(ann: ReadingVisitor) -> None:
    """One post changes, and the position stays; the button then has the opposite action."""
    await ann.publish("b", "a")
    page = await ann.get("/channel/home?show=all")
    after = await ann.change(page, "read", ids(page)[0])
    assert (after.status, after.location) == (303, "/channel/home?show=all")
    page = await ann.get(after.location)
    assert await unread(ann) == 1
    button = page.tree.css_first(".post [data-act=read]")
    assert (button.attributes["name"], button.attributes["aria-pressed"]) == ("unread", "true")
    await ann.change(page, "unread", ids(page)[0])
    assert await unread(ann) == 2


async def test_few_marks_of_a_user_at_a_time(
    ann: ReadingVisitor, server: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further ones wait, as pages do; others' marks don't."""
    bob = await reading(server, "bob", "home")
    await ann.publish("a")
    marking, go, running = ReadState.mark_by_channel, asyncio.Event(), []

    async def mark(state: ReadState, user: str, *args: Any) -> Any:
        if user == "ann":
            running.append(user)
            await go.wait()
        return await marking(state, user, *args)

    monkeypatch.setattr(ReadState, "mark_by_channel", mark)
    pages = [await one.get("/channel/home") for one in (ann, bob)]
    marks = [asyncio.create_task(ann.change(pages[0], "read", ids(pages[0])[0])) for _ in range(6)]
    await wait_until(lambda: len(running) >= PAGES_AT_ONCE)
    assert (await bob.change(pages[1], "read", ids(pages[1])[0])).status == 303
    assert len(running) == PAGES_AT_ONCE
    go.set()
    assert {one.status for one in await asyncio.gather(*marks)} == {303}
    assert len(running) == len(marks)


async def test_our_script_finds_where_it_says_what_it_did(ann: ReadingVisitor) -> None:
    """On the pages of posts, too."""
    await ann.publish("a")
    page = await ann.get("/channel/home")
    for path in ("/channel/home", f"/post/{ids(page)[0]}"):
        assert (await ann.get(path)).tree.css_first("#done [data-text]") is not None, path


async def test_saved(ann: ReadingVisitor) -> None:
    """A saved post is listed under "Saved" until it is removed; reading it there keeps it.

    The list of channels says how many there are, after each change, too.
    """
    await ann.publish("b", "a")
    page = await ann.get("/channel/home")
    number = "#channels [data-channel=saved]"
    assert page.tree.css_first(f"{number} [hidden]") is not None
    told = await ann.change(page, "save", ids(page)[1], accept=JSON)
    assert json.loads(told.response.text)["unread"]["saved"] == 1
    for is_offered, change in ((False, "unread"), (True, "read"), (False, "unread")):
        saved = await ann.get("/saved")
        assert titles(saved) == ["a"]
        assert " ".join(saved.tree.css_first(number).text().split()) == "Saved 1"
        assert bool(saved.tree.css(".marking:not([hidden])")) is is_offered, "to mark all where something is unread"
        await ann.change(saved, change, ids(saved)[0])
    await ann.change(saved, "unsave", ids(saved)[0])
    assert await ann.titles("/saved") == []
    assert await ann.titles("/channel/home") == ["b", "a"]


@pytest.mark.parametrize("post", ["999999999", "1" * 19])
async def test_a_post_that_isnt_ones_own_isnt_saved(ann: ReadingVisitor, server: World, post: str) -> None:
    """The form says so instead of "Saved."; a post that is saved already is."""
    bob = await server.reader("bob", "home")
    await server.publish(OTHER, *posts("secret", host="other.example"))
    await bob.post(action="follow", channel="home", url=OTHER)
    await ann.publish("a")
    page = await ann.get("/channel/home")
    for id_ in (post, (await bob.ids("home"))[0]):
        refused = await ann.change(page, "save", id_, accept=JSON)
        assert refused.status == 404
        assert "Saved." not in refused.response.text
        assert "isn’t in your channels any more" in refused.response.text
    for _ in range(2):
        told = await ann.change(page, "save", ids(page)[0], accept=JSON)
        assert json.loads(told.response.text)["text"] == "Saved."
    assert await ann.titles("/saved") == ["a"]


async def test_down_to_a_post(ann: ReadingVisitor) -> None:
    """Marks the posts above it on the page, and the post itself; an undo restores only these."""
    await ann.publish("d", "c", "b", "a")
    page = await ann.get("/channel/home?show=all")
    await ann.change(page, "read", ids(page)[0])
    page = await ann.get("/channel/home?show=all")
    after = await ann.change(page, "above", ids(page)[2])
    assert await ann.titles("/channel/home") == ["a"]
    bar = await ann.get(after.location)
    assert "2 posts marked as read in Home." in bar.text
    again = await ann.browser.submit(bar, "/marks/undo")
    said = (await ann.get(again.location)).tree.css_first("#done p:not([hidden])")
    assert said.css_first("span").text() == "2 posts marked as unread in Home."
    assert "hidden" in said.css_first("button").attributes
    late = await ann.get((await ann.browser.submit(bar, "/marks/undo")).location)
    assert late.tree.css_first("#done p:not([hidden]) span").text() == "This can no longer be undone."
    assert await ann.titles("/channel/home") == ["c", "b", "a"]


async def test_a_page_is_marked_and_the_next_one_opened(ann: ReadingVisitor) -> None:
    """Without a script: the next one of all posts, unread ones in the place of the marked ones, or another channel."""
    await ann.server.follow_unscheduled(OTHER, "ann", "news")
    await ann.publish("c", feed=OTHER, host="other.example")
    for number in range(45):
        await ann.publish(f"p{number}", at=NOON + number)

    for path, count, left, onward in (
        ("/channel/home?show=all", 20, 25, "/channel/home?show=all&after="),
        ("/channel/home", 20, 5, "/channel/home?undo="),
        ("/channel/home", 5, 0, "/channel/news?undo="),
    ):
        reply = await ann.browser.post("/marks", fields_of((await ann.get(path)).tree.css_first("#mark-page")))
        assert reply.location.startswith(onward)
        assert await unread(ann) == left
        said = (await ann.get(reply.location)).tree.css_first("#done [data-text]")
        assert said.text() == f"{count} posts marked as read in Home."


async def test_all_means_what_was_there(ann: ReadingVisitor) -> None:
    """Posts that came after the page was made stay unread, on later pages of a channel too."""
    await ann.publish("p00", at=NOON - 1000)  # of a feed's first posts, only the newest are unread
    await ann.publish(*(f"p{number:02}" for number in range(30, 0, -1)))
    first = await ann.get("/channel/home")
    await ann.publish("new", at=NOON + 1000)
    await ann.mark_all(first)
    assert await ann.titles("/channel/home") == ["new"]
    second = await ann.get(first.tree.css_first("[rel=next]").attributes["href"] or "")
    await ann.publish("newer", at=NOON + 2000)
    await ann.mark_all(second)
    assert await ann.titles("/channel/home") == ["newer"]


@pytest.mark.parametrize("path", ["/channel/home", "/channel/global"])
async def test_everything_and_undo(ann: ReadingVisitor, path: str) -> None:
    """Exactly the marked posts become unread again: in each channel, and once."""
    await ann.server.accounts.set_settings("ann", {READ_EVERYWHERE: "no"})
    await ann.server.follow_unscheduled("https://blog.example/feed", "ann", "later")
    await ann.publish("first", at=NOON - 1000)
    await ann.publish(*(f"p{number}" for number in range(119)))
    page = await ann.get("/channel/later")
    await ann.change(page, "read", ids(page)[0])
    before = {uid: await unread(ann, uid) for uid in ("home", "later")}
    assert before == {"home": 120, "later": 119}
    after = await ann.mark_all(await ann.get(path))
    assert await unread(ann) == 0
    bar = await ann.get(after.location)
    await ann.browser.submit(bar, "/marks/undo")
    assert {uid: await unread(ann, uid) for uid in ("home", "later")} == before
    await ann.browser.submit(bar, "/marks/undo")
    assert {uid: await unread(ann, uid) for uid in ("home", "later")} == before


@pytest.mark.parametrize(("older", "left"), [("1", ["new", "hours"]), ("7", ["new", "hours", "days"])])
@pytest.mark.parametrize("path", ["/channel/home", "/channel/global", "/feed/{feed}"])
async def test_older_posts_are_marked_and_undone(ann: ReadingVisitor, path: str, older: str, left: list[str]) -> None:
    """Older than a day or a week: in a channel, in all of them and in a feed."""
    feed = await ann.publish_old()
    await ann.server.follow_unscheduled("https://other.example/feed", "ann", "later")
    await ann.publish("other", feed="https://other.example/feed", at=NOON - 30 * DAY)
    page = await ann.get(path.format(feed=feed))
    after = await ann.change(page, "older", older, "/marks/all")
    assert await ann.titles("/channel/home") == left
    assert await unread(ann, "later") == (0 if path == "/channel/global" else 1)
    bar = await ann.get(after.location)
    assert "posts marked as read in " in bar.text
    await ann.browser.submit(bar, "/marks/undo")
    assert await ann.titles("/channel/home") == ["new", "hours", "days", "weeks", "months"]
    assert await unread(ann, "later") == 1


async def test_a_script_gets_which_posts_were_older(ann: ReadingVisitor) -> None:
    """Of those on its page, counted from when the button was pressed: an offline mark is sent later."""
    await ann.publish_old()
    page = await ann.get("/channel/home")
    listed = ids(page)

    async def told(older: str, pressed: float) -> dict[str, object]:
        form = {**fields_of(page.form("/marks/all")), "older": older, "pressed": str(int(pressed))}
        reply = await ann.browser.post("/marks/all", {**form, "page": ",".join(listed[1:4])}, accept=JSON)
        found: dict[str, object] = json.loads(reply.response.text)
        return found

    first = await told("7", ann.server.now - 7 * DAY)
    assert (first["text"], first["read"]) == ("2 posts marked as read in Home.", listed[3:4])
    second = await told("1", ann.server.now)
    assert (second["text"], second["read"]) == ("1 post marked as read in Home.", listed[2:3])
    third = await told("1", ann.server.now + 30 * DAY)
    assert (third["text"], third["undo"]) == ("No unread post is older than a day.", "")


async def test_an_undo_says_how_many_posts_are_unread_again(ann: ReadingVisitor) -> None:
    """And in which channel, if it was marked as a whole, as the mark did; in German, too."""
    await ann.publish("a", "b")
    for path, said, wanted in (
        ("/channel/home", "2 posts marked as read in Home.", "2 posts marked as unread in Home."),
        ("/feed/1?channel=home", "2 posts marked as read in A blog.", "2 posts marked as unread in A blog."),
    ):
        page = await ann.get(path.replace("1", str(await ann.server.feeds.find(FEED))))
        done = await ann.browser.post("/marks/all", fields_of(page.form("/marks/all")), accept=JSON)
        told = json.loads(done.response.text)
        assert told["text"] == said
        undo = {**fields_of(page.form("/marks/undo")), "undo": told["undo"]}
        undone = await ann.browser.post("/marks/undo", undo, accept=JSON)
        assert json.loads(undone.response.text)["text"] == wanted
        again = await ann.browser.post("/marks/undo", undo, accept=JSON, accept_language="de")
        assert json.loads(again.response.text)["text"] == "Das lässt sich nicht mehr rückgängig machen."


@pytest.mark.parametrize("older", ["0", "-1", "2", "x", "1e9"])
async def test_other_ages_are_refused(ann: ReadingVisitor, older: str) -> None:
    await ann.publish("a")
    page = await ann.get("/channel/home")
    assert (await ann.change(page, "older", older, "/marks/all")).status == 400
    assert await unread(ann) == 1


async def test_undo_belongs_to_its_user_and_ends(ann: ReadingVisitor) -> None:
    """A user can't undo marks of another user; the undo record is kept for ten minutes."""
    await ann.publish("b", "a")
    page = await ann.get("/channel/home")
    first = await ann.mark_all(page)
    name = first.location.rpartition("undo=")[2]
    for key in (keys.undo("ann", name), keys.undo_records("ann")):
        assert 0 < await ann.server.redis.command("TTL", key) <= undo.SECONDS
    bob = await reading(ann.server, "bob", "mine")
    await bob.publish("c", at=NOON + 50)
    bobs = await bob.get("/channel/mine")
    for other in (name, "", "x", "}:*", f"{name}\n", "f" * 1000):
        reply = await bob.browser.post("/marks/undo", {**fields_of(bobs.form("/marks/undo")), "undo": other})
        assert reply.location == "/channel/mine?undone=late"
    assert await unread(ann) == 1


async def test_marks_in_a_row_are_undone_one_after_the_other(ann: ReadingVisitor) -> None:
    """Each undo offers that of the marks before, by their number and place, also without scripts and in German."""
    await ann.server.follow_unscheduled(OTHER, "ann", "news")
    await ann.publish("b", "a")
    await ann.publish("c", feed=OTHER, at=NOON + 50)
    listed = ids(await ann.get("/channel/home"))
    await ann.change(await ann.get("/channel/home"), "above", listed[0])
    await ann.mark_all(await ann.get("/channel/home"))
    last = await ann.mark_all(await ann.get("/channel/news"))
    said, page = [], await ann.get(last.location)
    for left in (1, 2, 3):
        said.append(page.tree.css_first("#done p span").text())
        page = await ann.get((await ann.browser.submit(page, "/marks/undo")).location)
        assert await unread(ann) + await unread(ann, "news") == left
    said.append(page.tree.css_first("#done p span").text())
    assert said == [
        "1 post marked as read in news.",
        "1 post marked as unread in news. Before that: 1 post marked as read in Home.",
        "1 post marked as unread in Home. Before that: 1 post marked as read in Home.",
        "1 post marked as unread in Home.",
    ]
    names = []
    for uid in ("home", "news"):
        page = await ann.get(f"/channel/{uid}")
        form = fields_of(page.form("/marks/all"))
        names.append(json.loads((await ann.browser.post("/marks/all", form, accept=JSON)).response.text)["undo"])
    form = {**fields_of(page.form("/marks/undo")), "undo": names[1]}
    told = json.loads(
        (await ann.browser.post("/marks/undo", form, **{"accept": JSON, "accept-language": "de"})).response.text
    )
    assert (told["text"], told["undo"]) == ("1 Beitrag in news als ungelesen markiert. Davor:", names[0])
    assert told["before"] == "2 Beiträge in Home als gelesen markiert."
    told = json.loads((await ann.browser.post("/marks/undo", form, accept=JSON)).response.text)
    assert told["text"] == "This can no longer be undone."
    told = json.loads((await ann.browser.post("/marks/undo", {**form, "undo": names[0]}, accept=JSON)).response.text)
    assert (told["text"], told["undo"]) == ("2 posts marked as unread in Home.", "")


async def test_the_name_in_a_message_is_one_line(ann: ReadingVisitor) -> None:
    """Without marks that would turn the sentence around, and cut; the form brings the name that its page shows."""
    await ann.publish("a")
    page = await ann.get("/channel/home")
    form = {**fields_of(page.form("/marks/all")), "called": "A\u202eb\r\n<i>%s " + "c" * 10_000}
    told = json.loads((await ann.browser.post("/marks/all", form, accept=JSON)).response.text)
    assert told["text"] == f"1 post marked as read in A b <i>%s {'c' * 190}."
    assert told["text"] in (await ann.get(f"/channel/home?undo={told['undo']}")).text


async def test_undo_records_are_bounded(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their number and in all their posts: the earliest ones end first, whatever the clock says."""
    redis, state = ann.server.redis, ReadState(ann.server.redis, ann.server.items)
    records = UndoRecords(redis, state)
    monkeypatch.setattr(undo, "MOST", 100)
    times = iter(range(1000, 0, -1))
    monkeypatch.setattr("time.time", lambda: float(next(times)))
    made = [await records.remember("ann", {"home": [str(at) for at in range(size)]}) for size in (40, 50, 30, 20)]
    assert [one is not None and await records.find("ann", one.id) is not None for one in made] == [
        False,
        True,
        True,
        True,
    ]
    assert await records.remember("ann", {"home": [str(at) for at in range(101)]}) is None
    made += [await records.remember("ann", {"home": ["1"]}) for _ in range(undo.RECORDS)]
    assert len(await redis.command("KEYS", "user:{ann}:undo:*")) == undo.RECORDS


async def test_undo_records_are_bounded_in_bytes(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A post counts once for each of its channels, and states of posts and changed follows count, too."""
    redis = ann.server.redis
    records = UndoRecords(redis, ReadState(redis, ann.server.items))
    monkeypatch.setattr(undo, "MOST", 100)
    some: dict[str, float | None] = {str(at): NOON for at in range(45)}
    made = [await records.remember("ann", {"home": list(some), "work": list(some)}) for _ in range(2)]
    assert [one is not None and await records.find("ann", one.id) is not None for one in made] == [False, True]
    moved = [
        await records.remember_feeds("ann", [], {}, {"1": {"home": some, "work": some}}, told=b"{}") for _ in range(3)
    ]
    assert [bool(await records.changed_feeds("ann", one.id)) for one in moved] == [False, False, True]
    assert await redis.command("KEYS", "user:{ann}:undo:*") == [keys.undo("ann", moved[-1].id).encode()]


async def test_all_undo_records_are_bounded_that_are_made_at_once(ann: ReadingVisitor) -> None:
    """By several processes or tabs: none is forgotten in the list."""
    redis = ann.server.redis
    records = UndoRecords(redis, ReadState(redis, ann.server.items))
    for _ in range(undo.RECORDS):
        await asyncio.gather(*(records.remember("ann", {"home": ["1"]}) for _ in range(3)))
    last = await records.remember("ann", {"home": ["2"]})
    assert last is not None
    assert len(await redis.command("KEYS", "user:{ann}:undo:*")) == undo.RECORDS
    number, name = 0, last.id
    while (before := await records.before("ann", name)) is not None:
        number, name = number + 1, before.id
    assert number == undo.RECORDS - 1


async def test_a_mark_without_effect_leaves_the_undo_in_view(ann: ReadingVisitor) -> None:
    """Also without scripts: the mark before it can still be undone, once."""
    await ann.publish("b", "a")
    first = await ann.mark_all(await ann.get("/channel/home?show=all"))
    again = await ann.mark_all(await ann.get(first.location))
    assert again.location == first.location
    page = await ann.get(again.location)
    assert page.tree.css_first("#done p").text().split()[:6] == ["2", "posts", "marked", "as", "read", "in"]
    undone = await ann.browser.submit(page, "/marks/undo")
    assert re.fullmatch(r"/channel/home\?show=all&undone=[0-9a-f]{16}", undone.location)
    assert await unread(ann) == 2


async def test_of_two_undos_at_once_one_says_what_it_undid(ann: ReadingVisitor) -> None:
    """Each page says that of its own, whichever ends first."""
    await ann.publish("b", "a")
    bar = await ann.get((await ann.mark_all(await ann.get("/channel/home"))).location)
    both = await asyncio.gather(*(ann.browser.submit(bar, "/marks/undo") for _ in range(2)))
    said = [(await ann.get(one.location)).tree.css_first("#done p:not([hidden]) span").text() for one in both]
    assert sorted(said) == ["2 posts marked as unread in Home.", "This can no longer be undone."]


async def test_an_undo_leaves_a_later_record_alone(ann: ReadingVisitor) -> None:
    """One that another process makes while the first is undone, just before its record ends."""
    await ann.publish("b", "a")
    redis, state = ann.server.redis, ReadState(ann.server.redis, ann.server.items)
    records, first = UndoRecords(redis, state), (await ann.reader.ids("home"))[0]
    later: list[UndoRecord | None] = []

    async def before(name: str, _: Any) -> None:
        if not later and name in {"record_replace", "DEL"}:
            later.append(await records.remember("ann", {"home": [first]}))

    mine = await records.remember("ann", await state.mark_by_channel("ann", "home", [first], "read", NOON))
    assert mine is not None
    assert await UndoRecords(Between(redis, before), state).undo("ann", mine.id, NOON) == 1
    assert later[0] is not None
    assert await records.find("ann", later[0].id) == later[0]


async def test_two_undo_records_are_never_mixed(ann: ReadingVisitor) -> None:
    """Two processes record marks at once; each record has its own posts alone."""
    await ann.publish("b", "a")
    redis, state, home = ann.server.redis, ReadState(ann.server.redis, ann.server.items), await ann.reader.ids("home")
    here, there = UndoRecords(Apart(redis), state), UndoRecords(Apart(redis), state)
    await state.mark("ann", "home", home, "read", NOON)
    await asyncio.gather(here.remember("ann", {"home": home[:1]}), there.remember("ann", {"later": home[1:]}))
    stored = [await redis.command("HKEYS", key) for key in await redis.command("KEYS", "user:{ann}:undo:*")]
    assert [len(names) for names in stored] == [len(("id", "count", "name", "in <uid>"))] * 2


class Apart(Wrapped):
    """Sends the commands of a pipeline one by one, as other processes' commands can come in between."""

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        return [await self.command(*one) for one in commands]


async def test_a_script_gets_what_has_changed(ann: ReadingVisitor) -> None:
    """Counts, a sentence, and the id for the undo."""
    await ann.publish("b", "a")
    page = await ann.get("/channel/home")
    told = json.loads((await ann.change(page, "read", ids(page)[0], accept=JSON)).response.text)
    assert told == {
        "text": "",
        "undo": "",
        "unread": {"global": 1, "notifications": 0, "home": 1, "later": 0, "saved": 0},
    }
    told = json.loads((await ann.change(page, "all", accept=JSON)).response.text)
    assert (told["text"], told["unread"]["home"]) == ("1 post marked as read in Home.", 0)
    assert told["undo"]


async def test_a_mark_of_a_channel_names_it(ann: ReadingVisitor) -> None:
    """With the number of posts, also in German; that none was unread is said, too."""
    await ann.publish("one", "two")
    page = await ann.get("/channel/home")
    fields = fields_of(page.form("/marks/all"))
    headers = {"accept": JSON, "accept-language": "de"}
    told = json.loads((await ann.browser.post("/marks/all", fields, **headers)).response.text)
    assert told["text"] == "2 Beiträge in Home als gelesen markiert."
    told = json.loads((await ann.browser.post("/marks/all", fields, accept=JSON)).response.text)
    assert (told["text"], told["undo"]) == ("There is no unread post here.", "")


@pytest.mark.parametrize("name", ["above", "all"])
async def test_a_mark_of_read_posts_of_a_page_says_so(ann: ReadingVisitor, name: str) -> None:
    """Down to a post, or of the whole page: a key that seems to do nothing would be pressed again."""
    await ann.publish("one", "two")
    page = await ann.get("/channel/home")
    await ann.change(page, name, ids(page)[-1])
    told = json.loads((await ann.change(page, name, ids(page)[-1], accept=JSON)).response.text)
    assert (told["text"], told["undo"]) == ("There is no unread post here.", "")


async def test_new_posts_are_counted(ann: ReadingVisitor) -> None:
    """New posts are counted since the page was made, for the bar above the posts."""
    await ann.publish("a")
    feed = (await ann.get("/channel/home")).tree.css_first("#feed").attributes
    asked = f"{feed['data-news']}?channel=home&show=unread&before={feed['data-top']}"
    assert json.loads((await ann.get(asked)).response.text)["new"] == 0
    await ann.publish("c", "b", at=NOON + 100)
    told = json.loads((await ann.get(asked)).response.text)
    assert (told["new"], told["text"], told["unread"]["home"]) == (2, "2 new posts", 3)
    await ann.publish(*map(str, range(98)), at=NOON + 200)
    assert json.loads((await ann.get(asked)).response.text)["text"] == "100 new posts"
    await ann.publish("more", at=NOON + 300)
    for language, text in (("en", "More than 100 new posts"), ("de", "Mehr als 100 neue Beiträge")):
        told = json.loads((await ann.get(asked, **{"accept-language": language})).response.text)
        assert told["text"] == text


async def test_forms_redirect_only_to_own_pages(ann: ReadingVisitor) -> None:
    """An address of another site in a form is ignored."""
    await ann.publish("a")
    page = await ann.get("/channel/home")
    for back in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
        form = {**fields_of(page.form("/marks")), "read": ids(page)[0], "back": back}
        assert (await ann.browser.post("/marks", form)).location == "/"


async def test_empty_and_ambiguous_forms(ann: ReadingVisitor) -> None:
    """They are refused with a sentence; malformed ids are ignored."""
    await ann.publish_entry(Entry(content=Content(text="words")))
    page = await ann.get("/channel/home")
    assert (await ann.browser.post("/marks", fields_of(page.form("/marks")))).status == 400
    many = {**fields_of(page.form("/marks")), "all": "1", "page": ",".join(map(str, range(1, 1100)))}
    assert (await ann.browser.post("/marks", many)).status == 400
    assert (await ann.browser.post("/marks", {**fields_of(page.form("/marks")), "read": "1,x,-5,0"})).status == 303
    assert await unread(ann) in {0, 1}
