"""The first minutes of an account: the offers while it follows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from microsub.base.errors import ConfigError
from microsub.formats.feed_links import FeedLink
from microsub.reader.first.pages import starter_feeds
from microsub.server.app import create_app
from tests.reader.conftest import ADDRESS, ReadingVisitor
from tests.support.readers import posts
from tests.support.visitor import Visitor, begin_session
from tests.support.world import World

BLOG, NEWS = "https://blog.example/first", "https://news.example/feed"
STARTERS = (FeedLink(BLOG, "", "The blog", description="Of boats"), FeedLink(NEWS, "", "The news"))


@pytest.fixture
async def new(server: World) -> Visitor:
    """A browser in which a user without follows is signed in."""
    await server.reader("new")
    browser = Visitor(create_app(server.parts, base_url=ADDRESS, starters=STARTERS), ADDRESS)
    await begin_session(browser, server, "new")
    return browser


async def test_an_empty_account_is_offered_feeds_a_field_and_a_list(new: Visitor) -> None:
    """It replaces an empty page, and works without scripts."""
    page = await new.get("/")
    assert page.title == "What do you want to read?"
    assert "The blog Of boats" in page.text
    assert page.tree.css_first("form[action='/follow'] [name=q]") is not None
    assert page.tree.css_first("a[href='/settings/lists']") is not None


async def test_one_click_follows_what_is_ticked(new: Visitor, server: World) -> None:
    """In a channel that is created for it; after that the page is the user's timeline."""
    await server.publish(NEWS, *posts("a"), title="The news")
    page = await new.get("/")
    followed = await new.submit(page, "/first", {}, feed=NEWS)
    assert followed.location.startswith("/channel/")
    assert followed.location.endswith("?show=all")
    (uid,) = [one.uid for one in await server.channels.list("new") if one.name == "Home"]
    everywhere = await server.channels.all_subscriptions("new")
    assert [one.url for one in everywhere[uid]] == [NEWS]
    assert (await new.get("/")).title == "All"


async def test_only_offered_feeds_are_followed(new: Visitor) -> None:
    """The form accepts only the feeds in it."""
    page = await new.get("/first")
    for feed in ("", "https://evil.example/feed"):
        refused = await new.submit(page, "/first", {}, feed=feed)
        assert (refused.status, "Choose at least one feed" in refused.text) == (400, True)


async def test_users_with_follows_see_their_timeline(ann: ReadingVisitor) -> None:
    """The page with offers still has its own address."""
    assert (await ann.get("/")).title == "All"
    assert (await ann.get("/first")).title == "What do you want to read?"


def test_the_admin_chooses_the_feeds(tmp_path: Path) -> None:
    """Ours are offered if the admin chooses none; an empty file offers none."""
    assert all(one.url.startswith("https://") and one.description for one in starter_feeds())
    file = tmp_path / "feeds.toml"
    file.write_text('[[feed]]\nname = "A"\nurl = "https://a.example/feed"\n', "utf-8")
    assert starter_feeds(file) == [FeedLink("https://a.example/feed", "", "A", description="")]
    file.write_text("", "utf-8")
    assert starter_feeds(file) == []


@pytest.mark.parametrize(
    "text",
    [
        "[[feed]",
        "feed = 1",
        '[[feed]]\nname = "A"',
        '[[feed]]\nname = "A"\nurl = "ftp://a.example/"',
        "[[feed]]\nx = 1",
    ],
)
def test_an_unusable_file_is_named_with_its_place(text: str, tmp_path: Path) -> None:
    """The error comes before the server starts."""
    file = tmp_path / "feeds.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=r"feeds\.toml"):
        starter_feeds(file)
    with pytest.raises(ConfigError, match="absent"):
        starter_feeds(tmp_path / "absent.toml")


async def test_who_follows_nothing_any_more_gets_the_offers_again(ann: ReadingVisitor) -> None:
    """The channel that the process remembers as one with feeds may be deleted."""
    assert (await ann.get("/")).title == (await ann.get("/")).title == "All"
    await ann.reader.post(action="channels", method="delete", channel="home")
    assert (await ann.get("/")).title == "What do you want to read?"
