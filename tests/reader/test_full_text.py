"""The full text of a post on its page, by button, and the choice on the page of its feed."""

from __future__ import annotations

import asyncio

import pytest

from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import Content, Entry
from microsub.model.settings import FollowSettings, FullTextChoice
from microsub.posts import FULL, stored_full_text
from microsub.redis import keys
from tests.articles.test_stage import HOST, page
from tests.reader.conftest import ReadingVisitor
from tests.reader.test_channels import TRY
from tests.support.posts import candidate
from tests.support.readers import FEED
from tests.support.web import Answer, Publisher
from tests.support.world import World, loopback


async def cut_post(ann: ReadingVisitor, site: Publisher, name: str | None = "One", end: str = ", and …") -> str:
    """The id of a post that its feed cuts."""
    text = Content(f"<p>Paragraph 0{end}</p>", f"Paragraph 0{end}")
    site.serve("/one", page("One"))
    url = site.url("/one", HOST)
    wire = dump(to_wire(Entry(name=name, url=url, guid=url, content=text, post_type="article" if name else "note")))
    await ann.server.publish(FEED, candidate("one", wire=wire, link=url))
    return (await ann.reader.ids("home"))[0]


@pytest.fixture(autouse=True)
async def before(server: World) -> None:
    """Ann followed her feeds before there were full texts; all names lead to this machine."""
    server.resolver = loopback
    await server.redis.command("SET", keys.articles(), "9999999999")


@pytest.mark.parametrize("name", ["One", None])
async def test_a_button_fetches_the_full_text_once(ann: ReadingVisitor, site: Publisher, name: str | None) -> None:
    """Also for a post without a title that says that it goes on; other notes have no button."""
    id_ = await cut_post(ann, site, name)
    post = await ann.get(f"/post/{id_}")
    reply = await ann.browser.submit(post, f"/post/{id_}/text")
    assert reply.location == f"/post/{id_}?text=full"
    full = await ann.get(reply.location)
    assert "Paragraph 7." in full.text
    assert "Section 3" not in full.text
    link = full.tree.css_first("[data-full-text]")
    assert link.attributes["href"] == f"/post/{id_}?text=own"
    assert "Paragraph 7." not in (await ann.get(f"/post/{id_}?text=own")).text
    assert "Paragraph 7." not in (await ann.get(f"/post/{id_}")).text, "the choice for the feed is another one"
    assert site.count("/one") == 1


async def test_an_opened_post_of_a_cut_feed_asks_for_its_full_text(
    ann: ReadingVisitor, server: World, site: Publisher
) -> None:
    """Its page says so to the script, unless the user wants the feed's text, or the page was read before."""
    id_, feed = await cut_post(ann, site), (await server.feeds.ensure(FEED, server.now)).id

    async def asks(choice: FullTextChoice | None, votes: str | None) -> bool:
        await server.channels.update_subscription("ann", "home", feed, settings=FollowSettings(full_text=choice))
        await server.feeds.update(feed, {"cut_votes": votes})
        return bool((await ann.get(f"/post/{id_}")).tree.css("[data-at-once]"))

    asked = [await asks(choice, votes) for choice in ("off", None, "auto", "on") for votes in (None, "ccc")]
    assert asked == [*[False] * 5, *[True] * 3], "who followed it before there were full texts wants the feed's"
    site.serve("/one", Answer(b"gone", 404))
    await ann.browser.submit(await ann.get(f"/post/{id_}"), f"/post/{id_}/text")
    assert not await asks("on", "ccc")
    site.serve("/one", page("One"))
    await ann.browser.submit(await ann.get(f"/post/{id_}"), f"/post/{id_}/text")
    assert not await asks("auto", "ccc")
    assert "Paragraph 7." in (await ann.get(f"/post/{id_}")).text, (
        "its text is automatic, as of other posts of the feed"
    )
    assert site.count("/one") == 2


@pytest.mark.parametrize("status", [200, 503])
async def test_all_who_open_a_post_at_a_time_wait_for_one_request(
    ann: ReadingVisitor, site: Publisher, status: int
) -> None:
    """A publisher with many followers isn't asked by each one; nor in the minute after it had no time to answer."""
    id_ = await cut_post(ann, site)
    shown = page("One")
    site.serve("/one", Answer(shown.body, status, shown.headers))
    post = await ann.get(f"/post/{id_}")
    replies = await asyncio.gather(*(ann.browser.submit(post, f"/post/{id_}/text") for _ in range(5)))
    replies.append(await ann.browser.submit(post, f"/post/{id_}/text"))
    assert {reply.status for reply in replies} == {303 if status == 200 else 400}
    assert site.count("/one") == 1


async def test_a_whole_note_has_no_button(ann: ReadingVisitor, site: Publisher) -> None:
    id_ = await cut_post(ann, site, None, ".")
    assert (await ann.get(f"/post/{id_}")).tree.css_first("[data-full-text]") is None


async def test_a_page_without_an_article_is_said_in_words(ann: ReadingVisitor, site: Publisher) -> None:
    id_ = await cut_post(ann, site)
    site.serve("/one", Answer(b"gone", 404))
    post = await ann.get(f"/post/{id_}")
    shown = await ann.browser.submit(post, f"/post/{id_}/text")
    assert "The server answered 404" in shown.tree.css_first("[role=alert]").text()
    assert shown.status == 400
    assert "Paragraph 0" in shown.text


async def test_the_choice_on_the_feeds_page_changes_all_lists(
    ann: ReadingVisitor, server: World, site: Publisher
) -> None:
    id_ = await cut_post(ann, site)
    await server.items.note({id_: {FULL: stored_full_text(Content("<p>All of it.</p>", "All of it."))}})
    feed = (await server.feeds.ensure(FEED, server.now)).id
    path = f"/feed/{feed}/settings"
    form = await ann.get(f"{path}?channel=home")
    assert form.tree.css_first("#full_text option[selected]").attributes["value"] == "off"
    assert "All of it." not in (await ann.get("/channel/home")).text
    await ann.browser.submit(form, path, full_text="on")
    assert (await server.channels.subscription("ann", "home", feed)).settings == FollowSettings(full_text="on")
    for where in ("/channel/home", f"/post/{id_}", f"/feed/{feed}?channel=home"):
        assert "All of it." in (await ann.get(where)).text
    assert "All of it." in str(await ann.reader.get(action="timeline", channel="home"))
    await ann.browser.submit(await ann.get(f"{path}?channel=home"), path, full_text="off")
    assert (await server.channels.subscription("ann", "home", feed)).settings == FollowSettings()
    assert "All of it." not in (await ann.get("/channel/home")).text


async def test_a_preview_shows_the_newest_post_by_the_selectors(
    ann: ReadingVisitor, server: World, site: Publisher
) -> None:
    """As a page shows it, with pictures at our addresses; nothing is stored. Without a text, the reason is shown."""
    id_ = await cut_post(ann, site)
    path = f"/feed/{(await server.feeds.ensure(FEED, server.now)).id}/settings"
    form = await ann.get(f"{path}?channel=home")
    shown = await ann.browser.submit(form, path, article="article p:nth-of-type(2), article img", show="1")
    sample = shown.tree.css_first("#shown")
    assert sample.css_first("h3").text() == "One"
    assert [one.text()[:12] for one in sample.css(".content p")] == ["Paragraph 1."]
    assert sample.css_first(".content img").attributes["src"].startswith("/image/")
    assert sample.css_first(".trouble") is None
    assert await server.items.fields([id_], (FULL,)) == [[None]]
    shown = await ann.browser.submit(form, path, article="article .nowhere", show="1")
    assert shown.tree.css_first("#shown .trouble") is not None
    assert shown.tree.css_first("#shown .content") is None


async def test_filters_are_tried_on_the_texts_of_feeds(ann: ReadingVisitor, server: World, site: Publisher) -> None:
    """Full texts come after a filter has decided; so for existing posts, and for the filter of one feed."""
    id_, feed = await cut_post(ann, site), (await server.feeds.ensure(FEED, server.now)).id
    await ann.browser.submit(await ann.get(f"/post/{id_}"), f"/post/{id_}/text")
    await server.channels.update_subscription("ann", "home", feed, settings=FollowSettings(full_text="on"))
    page = await ann.get("/channels/home/filter")
    assert "7" in (await ann.get(f"/post/{id_}")).text
    settings, filters = f"/feed/{feed}/settings?channel=home", "/channels/home/filter?try=1"
    for words, count in (("7", 0), ("paragraph 0", 1)):
        assert f"{count} of the newest 1 " in (await ann.get(f"{filters}&exclude_words={words}")).text
        tried = await ann.browser.submit(await ann.get(settings), f"/feed/{feed}/settings", exclude_words=words, **TRY)
        assert f"{count} of the newest 1 " in tried.text
    await ann.browser.submit(page, "/channels/home/filter", exclude_words="7", kinds_are="", past="read")
    assert await ann.titles("/channel/home") == ["One"]
