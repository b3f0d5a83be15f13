"""Display settings: kept with the account, applied by the server on all pages."""

from __future__ import annotations

from microsub.model.jf2 import Content, Entry
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.reader.conftest import ADDRESS, ReadingVisitor
from tests.support.visitor import Visitor, begin_session

CHOSEN = {
    **{"theme": "dark", "size": "large", "density": "compact", "font": "serif", "leading": "loose", "width": "wide"},
    **{"quiet": "yes"},
}
PAGES = ("/", "/channel/home", "/settings", "/account", "/display", "/nothing/here")


async def look(browser: Visitor, path: str) -> dict[str, str | None]:
    """The choices that a page shows, by name."""
    found = (await browser.get(path, accept="text/html")).tree.css_first("html").attributes
    return {name: found[f"data-{name}"] for name in CHOSEN}


async def choose(ann: ReadingVisitor, **chosen: str) -> None:
    sent = await ann.browser.submit(await ann.get("/display"), "/display", **chosen)
    assert "Saved, for all your browsers." in (await ann.get(sent.location)).text


async def other_browser(ann: ReadingVisitor) -> Visitor:
    browser = Visitor(ann.server.app, ADDRESS)
    await begin_session(browser, ann.server)
    return browser


async def test_choices_hold_in_all_browsers(ann: ReadingVisitor) -> None:
    """Also on the pages of the account and for errors, and in other ones from their next page on."""
    other = await other_browser(ann)
    usual = await look(other, "/")
    await choose(ann, **CHOSEN)
    for browser in (ann.browser, other):
        for path in PAGES:
            assert await look(browser, path) == CHOSEN, path
    await choose(ann, **{name: value or "" for name, value in usual.items()})
    assert await look(other, "/") == usual


async def test_choices_before_the_sign_in_are_the_browsers(ann: ReadingVisitor) -> None:
    """And an account's choices stay in the browser in which they were made, for the next sign-in."""
    stranger = Visitor(ann.server.app, ADDRESS)
    sent = await stranger.submit(await stranger.get("/display"), "/display", theme="light", language="de")
    assert "Für diesen Browser gespeichert." in (await stranger.get(sent.location)).text
    assert (await look(stranger, "/sign-in"))["theme"] == "light"
    await choose(ann, theme="dark")
    ann.browser.client.cookies.delete("__Host-microsub-session")
    assert (await look(ann.browser, "/sign-in"))["theme"] == "dark"


async def test_choices_of_a_browser_move_to_the_account(ann: ReadingVisitor, redis: Redis) -> None:
    """With its next page, unless the account has choices of its own."""
    await look(ann.browser, "/")
    assert await redis.command("HEXISTS", keys.user("ann"), "display") == 0
    for stored, theme in (("dark.large.compact.en.yes.oldest.yes", "dark"), ("light.small", "dark")):
        former = Visitor(ann.server.app, ADDRESS)
        former.client.cookies.set("__Host-microsub-display", stored, domain="reader.example")
        await begin_session(former, ann.server)
        found = await look(former, "/")
        assert (found["theme"], found["size"], found["quiet"]) == (theme, "large", "yes")
        assert await look(await other_browser(ann), "/") == found


async def test_reading_time_is_shown_on_demand(ann: ReadingVisitor) -> None:
    """In each view and on the post's page, by its words; not for posts without text."""
    await ann.publish_entry(Entry(guid="a", name="Long", content=Content(text="word " * 700)))
    await ann.publish_entry(Entry(guid="b", name="Japanese", content=Content(text="日本" * 300)))
    await ann.publish_entry(Entry(guid="c", name="Nothing", photo=["https://a.example/x.png"]))

    async def shown(path: str) -> list[str]:
        return [node.text() for node in (await ann.get(path)).tree.css(".post .minutes")]

    everything = "/channel/home?show=all"
    assert await shown(everything) == []
    await choose(ann, minutes="yes")
    assert sorted(await shown(everything)) == ["2 min read", "4 min read"]
    for view in ("list", "cards"):
        await ann.change(await ann.get(everything), "view", view, "/view")
        assert sorted(await shown(everything)) == ["2 min read", "4 min read"]
