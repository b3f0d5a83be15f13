"""Import and export on the pages: lists of feeds, and all data."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from starlette.types import Message, Scope

from microsub.base.errors import StoreUnreached, TooManyRequests
from microsub.transfer import FeedLists
from microsub.transfer.list_imports import STALE, ListImports
from microsub.transfer.outlines import MOST_BYTES
from tests.reader.conftest import ReadingVisitor
from tests.support.readers import FEED
from tests.support.visitor import Shown, fields_of
from tests.support.waiting import wait_until

LISTS = "/settings/lists"
EXPORT = f"{LISTS}/everything.jsonl"
LIST = b"""<opml version="2.0"><body><outline text="Far">
<outline text="One" xmlUrl="https://one.example/feed"/>
<outline text="Two" xmlUrl="https://two.example/feed"/></outline>
<outline text="No &lt;b&gt;feed" htmlUrl="https://three.example/"/></body></opml>"""


async def send(ann: ReadingVisitor, body: bytes, path: str = LISTS, **fields: str) -> httpx.Response:
    """Chooses this file in the page's form, and presses the button."""
    form = fields_of((await ann.get(path)).form(LISTS)) | fields
    files = {"list": ("feeds.opml", body, "text/x-opml")}
    headers = {"origin": ann.browser.origin, "sec-fetch-site": "same-origin"}
    return await ann.browser.client.post(LISTS, data=form, files=files, headers=headers)


async def over(ann: ReadingVisitor) -> Shown:
    """The page after the import."""

    async def is_over() -> bool:
        return "data-running" not in (await ann.get(LISTS)).response.text

    await wait_until(is_over)
    return await ann.get(LISTS)


async def followed(ann: ReadingVisitor, channel: str) -> list[str]:
    return [one["url"] for one in (await ann.reader.get(action="follow", channel=channel))["items"]]


async def test_a_list_comes_in_from_the_follow_page(ann: ReadingVisitor) -> None:
    """The page lists new follows, existing ones, and lines that were not imported; a second import adds nothing."""
    sent = await send(ann, LIST, "/follow")
    assert (sent.status_code, sent.headers["location"]) == (303, LISTS)
    page = await over(ann)
    assert "You follow 2 new feeds" in page.text
    assert "1 line had a problem" in page.text
    assert "Line 4: No <b>feed" in page.text
    assert await followed(ann, "far") == ["https://one.example/feed", "https://two.example/feed"]
    await send(ann, LIST)
    assert "You already followed 2 feeds." in (await over(ann)).text


@pytest.mark.parametrize("url", ["https://one.example/feed", "http://one.example/feed/"])
async def test_feeds_of_other_channels_are_no_new_ones(ann: ReadingVisitor, url: str) -> None:
    """Before, or earlier in the list; they are counted and named with the channel, and followed in the list's, too."""
    await ann.reader.post(action="follow", channel="later", url=url)
    twice = b'<outline text="Two again"><outline text="Two" xmlUrl="https://two.example/feed"/></outline>'
    ann.server.clock.advance(60)
    await send(ann, LIST.replace(b"</body>", twice + b"</body>"))
    page = await over(ann)
    assert "You follow 1 new feed " in page.text
    assert "2 feeds that you follow in other channels are now in the channels of the list, too." in page.text
    lines = [" ".join(one.text().split()) for one in page.tree.css("#import .list li")]
    assert lines == ["Far new 1 new feed · 1 also in Later", "Two again new 0 new feeds · 1 also in Far"]
    known = [" ".join(one.text().split()) for one in page.tree.css(".further li")]
    assert known == ["One https://one.example/feed In Later", "Two https://two.example/feed In Far"]
    assert await followed(ann, "far") == ["https://one.example/feed", "https://two.example/feed"]


async def test_each_feed_of_an_import_says_what_became_of_it(ann: ReadingVisitor) -> None:
    """Feeds that can't be read come first, with what to do; then those not read yet, those that can be read."""
    more = b'<outline text="Three" xmlUrl="https://three.example/feed"/></outline>'
    await ann.reader.post(action="follow", channel="later", url="https://four.example/feed")
    ann.server.clock.advance(60)
    known = b'<outline text="Later"><outline text="Four" xmlUrl="https://four.example/feed"/></outline>'
    await send(ann, LIST.replace(b"</outline>", more + known, 1))
    page = await over(ann)
    assert "3 haven’t been read yet" in page.text
    assert "data-waiting" in page.response.text
    assert "The posts arrive within a few minutes. The newest 10 posts of each feed are unread" in page.text
    assert "1 feed that you already followed" in page.text
    assert "Four https://four.example/feed" in page.text
    feeds = ann.server.feeds
    ids = await feeds.find_many(f"https://{name}.example/feed" for name in ("one", "two", "three"))
    now = ann.server.now
    await feeds.update(ids["https://one.example/feed"], {"last_poll": now, "last_success": now, "last_change": now})
    wrong = {"last_poll": now, "failures": "1", "last_error": "status: the server answered 401", "last_error_at": now}
    await feeds.update(ids["https://two.example/feed"], wrong)
    page = await ann.get(LISTS)
    assert "1 feed can be read · 1 can’t be read · 1 hasn’t been read yet" in page.text
    rows = [" ".join(row.text().split()) for row in page.tree.css("#brought li")]
    assert [row.partition(" ")[0] for row in rows] == ["Two", "Three", "One"]
    assert "It asks for a user name and a password." in page.text
    assert page.tree.css_first("#brought li [rel]").attributes["href"] == "https://two.example/"
    for why, is_advised in (
        ("this page has no h-feed and no h-entry", True),
        ("it is a page now, which names https://two.example/2", True),
        (
            "it is a page now, which names https://two.example/2: if this lasts for three days, the feed moves there",
            False,
        ),
        ("the text is too long", False),
    ):
        await feeds.update(ids["https://two.example/feed"], {"last_error": f"parse: {why}"})
        advice = "look on its site for the feed’s address, and give it in its settings, under “Address”"
        assert (advice in (await ann.get(LISTS)).text) == is_advised, why
    ann.server.clock.advance(900)
    again = await ann.browser.submit(page, f"/feed/{ids['https://two.example/feed']}/refresh")
    assert "asked=yes" in again.location
    form = fields_of(page.form("/channels/far/end")) | {"feed": ids["https://two.example/feed"]}
    ended = await ann.browser.post("/channels/far/end", form)
    assert "ended=" in ended.location
    assert await followed(ann, "far") == ["https://one.example/feed", "https://three.example/feed"]
    await feeds.update(ids["https://three.example/feed"], {"gone": "1", "last_error": ""})
    page = await ann.get(LISTS)
    [gone, _] = [" ".join(row.text().split()) for row in page.tree.css("#brought li")]
    assert gone.startswith("Three Its publisher has ended it. Try again")
    assert "data-waiting" not in page.response.text
    assert "within a few minutes" not in page.text


async def test_an_import_is_undone(ann: ReadingVisitor) -> None:
    """Its follows and channels are removed, but not existing ones; after ten minutes they stay."""
    before = await followed(ann, "home")
    further = b'</outline><outline text="Home"><outline text="Also" xmlUrl="https://four.example/feed"/></outline>'
    body = LIST.replace(b"</outline>", further, 1)
    await send(ann, body)
    assert await followed(ann, "home") == [*before, "https://four.example/feed"]
    ann.server.clock.advance(1)
    await send(ann, b"<opml version='2.0'><body/></opml>")
    assert "Removes the feeds" not in (await over(ann)).text
    await send(ann, body.replace(b"Far", b"Near"))
    ann.server.clock.advance(300)
    page = await over(ann)
    await ann.reader.post(action="follow", channel="home", url="https://five.example/feed")
    done = await ann.get((await ann.browser.submit(page, f"{LISTS}/undo")).location)
    assert "Import undone." in done.text
    names = [one["name"] for one in (await ann.reader.get(action="channels"))["channels"]]
    assert names == ["Notifications", "Home", "Later", "Far", "Saved"]
    assert await followed(ann, "home") == [*before, "https://four.example/feed", "https://five.example/feed"]
    await send(ann, body.replace(b"Far", b"Near"))
    page = await over(ann)
    ann.server.clock.advance(601)
    assert (await ann.browser.submit(page, f"{LISTS}/undo")).status == 404
    assert len(await followed(ann, "near")) == 2


async def test_an_import_that_ends_while_another_is_undone(
    ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another process: it can still be undone."""
    await send(ann, LIST)
    page, imports = await over(ann), ann.server.parts.list_imports
    other, take_back = (
        ListImports(imports.redis, imports.lists, imports.quotas, clock=imports.clock),
        FeedLists.take_back,
    )

    async def meanwhile(self: FeedLists, *args: Any) -> None:
        await other.begin("ann", LIST.replace(b"Far", b"Near"), ann.server.now, lambda: None)
        await over(ann)
        await take_back(self, *args)

    monkeypatch.setattr(FeedLists, "take_back", meanwhile)
    await ann.browser.submit(page, f"{LISTS}/undo")
    monkeypatch.undo()
    await ann.browser.submit(await over(ann), f"{LISTS}/undo")
    assert not {"Far", "Near"} & {one["name"] for one in (await ann.reader.get(action="channels"))["channels"]}


async def test_undoing_an_import_removes_only_what_it_added(ann: ReadingVisitor) -> None:
    """Posts that were moved into its channel stay there, and so does a follow that existed before."""
    await ann.publish("kept")
    for name in ("one", "two"):
        await ann.reader.post(action="follow", channel="later", url=f"https://{name}.example/feed")
    ann.server.clock.advance(60)
    await send(ann, LIST)
    page = await over(ann)
    ann.server.clock.advance(60)
    await ann.publish("theirs", feed="https://one.example/feed")
    [kept] = await ann.reader.ids("home")
    await ann.reader.post(action="timeline", method="move", channel="far", entry=kept)
    await ann.reader.post(action="follow", method="update", channel="far", url="https://two.example/feed")
    await ann.browser.submit(page, f"{LISTS}/undo")
    assert await ann.reader.ids("far") == [kept]
    assert await followed(ann, "far") == ["https://two.example/feed"]
    assert await followed(ann, "later") == ["https://one.example/feed"]


async def test_an_undone_imports_channel_stays_with_muted_posts(ann: ReadingVisitor) -> None:
    """A moved post is kept even if its author is muted."""
    await ann.publish("kept")
    await send(ann, LIST)
    page = await over(ann)
    [kept] = await ann.reader.ids("home")
    await ann.reader.post(action="mute", channel="far", url=FEED)
    await ann.reader.post(action="timeline", method="move", channel="far", entry=kept)
    await ann.browser.submit(page, f"{LISTS}/undo")
    await ann.reader.post(action="unmute", channel="far", url=FEED)
    assert await ann.reader.ids("far") == [kept]


async def test_an_unusable_list_is_reported(ann: ReadingVisitor) -> None:
    """The page reports this, and nothing has changed."""
    for body in (b"", b"<html>no list", b"<!DOCTYPE a [<!ENTITY b 'c'>]><opml/>"):
        await send(ann, body)
        assert "The list can't be used" in (await over(ann)).text
    names = [one["name"] for one in (await ann.reader.get(action="channels"))["channels"]]
    assert names == ["Notifications", "Home", "Later", "Saved"]


async def test_an_import_that_broke_off_is_named(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows the progress of a running import; after a minute without progress, it says what to do."""
    imports = ann.server.parts.list_imports
    with monkeypatch.context() as patch:
        patch.setattr(ann.server.parts.feed_lists, "import_list", _never)
        await send(ann, LIST)
    assert "Importing your feeds" in (await ann.get(LISTS)).text
    busy = await send(ann, LIST)
    assert (busy.status_code, "is being imported; try again" in busy.text) == (429, True)
    await imports.aclose()
    ann.server.clock.advance(STALE + 1)
    assert "The import was interrupted." in (await ann.get(LISTS)).text
    await send(ann, LIST)
    assert "You follow 2 new feeds" in (await over(ann)).text


async def _never(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


async def test_a_list_needs_a_user_and_our_form(ann: ReadingVisitor) -> None:
    """A signed-in user, with our own form, within the limits of a list; otherwise nothing is imported."""
    forged = await send(ann, LIST, form_token="0.0")
    assert forged.status_code == 403
    large = await send(ann, b"x" * (MOST_BYTES + (1 << 17)))
    assert large.status_code == 413
    assert "The file is too large: this server accepts at most 16 MiB." in large.text
    assert 'name="list"' in large.text, "the page shows the field again"
    plain = await ann.browser.post(LISTS, fields_of((await ann.get(LISTS)).form(LISTS)))
    assert (plain.status, "a form with a file was expected" in plain.text.lower()) == (400, True)
    headers = {"origin": ann.browser.origin, "sec-fetch-site": "same-origin"}
    ann.browser.client.cookies.clear()
    stranger = await ann.browser.client.post(LISTS, files={"list": ("l", LIST)}, headers=headers)
    assert stranger.headers["location"].startswith("/sign-in")
    assert await followed(ann, "home") == [FEED]
    assert await ann.server.parts.list_imports.latest("ann") is None


async def test_lists_and_everything_go_out(ann: ReadingVisitor) -> None:
    """As files; the list can be imported again unchanged."""
    await ann.publish("a")
    listed = await ann.get(f"{LISTS}/feeds.opml")
    assert listed.response.headers["content-disposition"] == 'attachment; filename="feeds.opml"'
    assert FEED in listed.response.text
    whole = await ann.get(EXPORT)
    assert whole.response.headers["content-disposition"].startswith('attachment; filename="ann-')
    lines = whole.response.text.splitlines()
    assert json.loads(lines[-1])["lines"] == len(lines)
    for _ in range(3):
        assert (await ann.get(EXPORT)).status == 200
    assert (await ann.get(EXPORT)).status == 429


def export_scope(ann: ReadingVisitor) -> Scope:
    """A request for all of Ann's data."""
    cookies = "; ".join(f"{name}={value}" for name, value in ann.browser.cookies.items())
    headers = [(b"host", b"reader.example"), (b"cookie", cookies.encode())]
    return {
        **{"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET"},
        **{"scheme": "https", "path": EXPORT, "raw_path": EXPORT.encode(), "query_string": b"", "root_path": ""},
        **{"headers": headers, "client": ("127.0.0.1", 1), "server": ("reader.example", 443)},
    }


async def test_an_export_has_its_place_before_its_first_byte(ann: ReadingVisitor) -> None:
    """Otherwise requests at the same moment would get any number of exports."""
    begun, read = asyncio.Event(), asyncio.Event()

    async def slow(_: Message) -> None:
        begun.set()
        await read.wait()

    async def stays() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    first = asyncio.create_task(ann.server.app(export_scope(ann), stays, slow))
    await begun.wait()
    assert (await ann.get(EXPORT)).status == 429
    read.set()
    await first
    assert (await ann.get(EXPORT)).status == 200


async def test_repeated_exports_leave_slots_to_others(ann: ReadingVisitor) -> None:
    """Half of the places are for a user's first import within an hour."""
    imports, often = ann.server.parts.list_imports, [f"often-{number}" for number in range(4)]
    for user in often:
        imports.admit(user)()
        imports.admit(user)
    with pytest.raises(TooManyRequests):
        imports.admit(often[0])
    leave = [imports.admit(f"new-{number}") for number in range(4)]
    with pytest.raises(TooManyRequests):
        imports.admit("ann")
    leave[0]()
    imports.admit("ann")


async def test_an_unread_export_frees_its_slot(ann: ReadingVisitor) -> None:
    """A reply that never starts used to keep its place among the exports until the end of the server."""

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def waits_for_who_reads(_: Message) -> None:
        await asyncio.sleep(0)

    await ann.server.app(export_scope(ann), gone, waits_for_who_reads)
    assert (await ann.get(EXPORT)).status == 200


async def test_a_failed_list_import_frees_its_slot(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis was unavailable for a moment."""

    async def away(*_: object) -> None:
        raise StoreUnreached("Redis is away")

    with monkeypatch.context() as patch:
        patch.setattr(ListImports, "_note", away)
        await send(ann, LIST)
    assert (await send(ann, LIST)).status_code == 303
    assert "You follow 2 new feeds" in (await over(ann)).text
