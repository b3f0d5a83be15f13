"""Managing channels on the pages."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

import microsub
from microsub.configuration.model import Quotas
from microsub.model.settings import Filters, OwnChannelSettings
from microsub.reader.channels import pages as channels
from microsub.redis.protocol import Redis
from tests.reader.conftest import ADDRESS, ReadingVisitor, reading
from tests.support.native_app import publish_notice
from tests.support.polling import post_store, rss
from tests.support.readers import FEED, instance, posts
from tests.support.web import Publisher
from tests.support.world import World, loopback

TRY = {"try": "1"}


async def _names(ann: ReadingVisitor) -> list[str]:
    listed = (await ann.reader.get(action="channels"))["channels"]
    return [one["name"] for one in listed if one["uid"] not in {"notifications", "saved"}]


async def test_channels_are_made_renamed_and_put_in_order(ann: ReadingVisitor) -> None:
    """By buttons, and by the complete order that a script sends."""
    made = await ann.browser.submit(await ann.get("/channels"), "/channels", name=" Far  away ")
    page = await ann.get(made.location)
    assert page.title == "Channel Far away"
    page = await ann.get((await ann.browser.submit(page, made.location, name="Near")).location)
    assert "The channel “Far away” is called “Near” now." in page.text
    undo = page.tree.css_first(".said button").attributes["value"]
    back = await ann.get((await ann.browser.submit(page, made.location, undo=undo)).location)
    assert back.title == "Channel Far away"
    await ann.browser.submit(back, made.location, name="Near")
    late = await ann.browser.submit(page, made.location, undo="0" * 16)
    assert (late.status, late.tree.css_first("[role=alert]").text()) == (400, "This can no longer be undone.")
    assert await _names(ann) == ["Home", "Later", "Near"]
    uid = made.location.rpartition("/")[2]
    await ann.browser.submit(await ann.get("/channels"), "/channels/order", up=uid)
    assert await _names(ann) == ["Home", "Near", "Later"]
    await ann.browser.submit(await ann.get("/channels"), "/channels/order", down="home")
    assert await _names(ann) == ["Near", "Home", "Later"]
    await ann.browser.submit(await ann.get("/channels"), "/channels/order", order=f"later,home,{uid}")
    assert await _names(ann) == ["Later", "Home", "Near"]


async def test_a_deleted_channel_comes_back_as_it_was(ann: ReadingVisitor) -> None:
    """With its follows, posts and read state."""
    await ann.publish("a", "b")
    ids = await ann.reader.ids("home")
    await ann.reader.post(action="timeline", method="mark_read", channel="home", entry=ids[0])
    await ann.browser.submit(await ann.get("/channels/home"), "/channels/home/delete")
    assert await _names(ann) == ["Later"]
    page = await ann.get("/channels?deleted=home")
    assert "Home was deleted." in page.text
    back = await ann.get((await ann.browser.submit(page, "/channels/restore", channel="home")).location)
    assert back.tree.css_first("main [role=status]").text() == "Home is restored."
    assert sorted(await _names(ann)) == ["Home", "Later"]
    assert await ann.reader.ids("home") == ids
    assert await ann.reader.unread("home") == 1
    followed = (await ann.reader.get(action="follow", channel="home"))["items"]
    assert [one["url"] for one in followed] == [FEED]


async def test_a_limit_explains_how_to_make_room(ann: ReadingVisitor, server: World) -> None:
    """The advice depends on the limit: revoking apps makes no room for channels."""
    await ann.browser.submit(await ann.get("/channels/home"), "/channels/home/delete")
    page = await ann.get("/channels?deleted=home")
    server.settings = replace(server.settings, quotas=Quotas(channels=1))
    refused = (await ann.browser.submit(page, "/channels/restore", channel="home")).response
    assert "The limit for channels is reached" in refused.text
    assert "Remove what you no longer need" in refused.text
    assert "evoke the access" not in refused.text


async def test_standing_channels_stay(ann: ReadingVisitor) -> None:
    """There is no form to delete or rename them, and no way around that."""
    page = await ann.get("/channels/notifications")
    assert page.status == 200
    with pytest.raises(AssertionError):
        page.form("/channels/notifications/delete")
    assert (await ann.get("/channels/absent")).status == 404
    assert (await ann.get("/channels/saved/filter")).status == 200


async def test_an_ended_follow_is_undone_with_what_was_unread(ann: ReadingVisitor) -> None:
    """Posts that were read stay read."""
    await ann.publish("a", "b", "c")
    ids = await ann.reader.ids("home")
    await ann.reader.post(action="timeline", method="mark_read", channel="home", entry=ids[1])
    ended = await ann.browser.submit(await ann.get("/channels/home"), "/channels/home/end", feed="1")
    page = await ann.get(ended.location)
    assert "You no longer follow" in page.text
    assert await ann.reader.unread("home") == 0
    undo = page.tree.css_first("button[name=undo]").attributes["value"]
    page = await ann.get((await ann.browser.submit(page, "/channels/home/again", undo=undo)).location)
    assert page.tree.css_first("main [role=status]").text() == "You follow A blog in this channel again."
    assert await ann.reader.ids("home") == ids
    assert await ann.reader.unread("home") == 2


async def test_a_channel_of_many_feeds_is_shown_in_pages(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of their names. Thousands on one page blocked the event loop for seconds."""
    monkeypatch.setattr(channels, "MOST_SOURCES", 2)
    for number in range(4):
        await ann.server.follow_unscheduled(f"https://f{number}.example/", "ann", "home")

    async def names(path: str) -> list[str]:
        return [node.text() for node in (await ann.get(path)).tree.css(".sources h3")]

    page, seen = await ann.get("/channels/home"), await names("/channels/home")
    assert "5 feeds" in page.text
    while further := page.tree.css_first("a[rel=next]"):
        path = f"/channels/home{further.attributes['href']}"
        page, seen = await ann.get(path), [*seen, *await names(path)]
    assert len(seen) == 5
    assert seen == sorted(seen, key=str.casefold)
    assert page.tree.css_first("a[rel=prev]").attributes["href"] == "?from=2"
    assert (await ann.get("/channels/home?from=999")).status == 200


async def test_a_follow_cant_be_restored_by_another_users_id(ann: ReadingVisitor, server: World) -> None:
    """Restoring a follow needs an id of the user's own: the address of a private feed is a secret."""
    private = "https://private.example/feed/9f86d081884c7d659a2feaa0"
    await server.reader("bob", "home")
    feed = await server.publish(private, *posts("secret"), title="Bob's private feed")
    await server.follow_unscheduled(private, "bob", "home")
    assert "rivate" not in (await ann.get(f"/channels/home?ended={feed.id}")).text
    page = await ann.get("/channels/home")
    assert (await ann.browser.submit(page, "/channels/home/end", feed=feed.id)).status == 404
    page = await ann.get((await ann.browser.submit(page, "/channels/home/end", feed="1")).location)
    assert (await ann.browser.submit(page, "/channels/home/again", feed=feed.id, undo=feed.id)).status == 404
    undo = page.tree.css_first("button[name=undo]").attributes["value"]
    await ann.browser.submit(page, "/channels/home/again", feed=feed.id, undo=undo)
    assert [one.feed for one in await server.channels.subscriptions("ann", "home")] == ["1"]


async def test_a_feed_moves_to_another_channel_and_back(ann: ReadingVisitor) -> None:
    """With its posts and their read state; the page names the feed and its channel, and offers to undo the move.

    One chooses the channel, unless there is only one other.
    """
    await ann.publish("a", "b")
    assert [one.text() for one in (await ann.get("/channels/home")).tree.css("[name=to] option")] == ["Later"]
    await ann.server.channels.create("ann", "News", ann.server.now, "news")
    page = await ann.get("/channels/home")
    offered = {one.text(): one.attributes["value"] for one in page.tree.css("[name=to] option")}
    assert offered == {"Choose a channel": "", "Later": "later", "News": "news"}
    refused = await ann.browser.submit(page, "/channels/home/move")
    assert (refused.status, "Choose a channel first." in refused.text) == (400, True)
    await ann.reader.post(
        action="timeline", method="mark_read", channel="home", entry=(await ann.reader.ids("home"))[0]
    )
    moved = await ann.browser.submit(await ann.get("/channels/home"), "/channels/home/move", to="later")
    assert (len(await ann.reader.ids("later")), await ann.reader.ids("home")) == (2, [])
    page = await ann.get(moved.location)
    assert (page.title, "A blog is now in Later." in page.text) == ("Channel Home", True)
    back = await ann.browser.submit(page, "/channels/later/move", undo="yes")
    assert (len(await ann.reader.ids("home")), await ann.reader.ids("later")) == (2, [])
    assert await ann.reader.unread("home") == 1
    page = await ann.get(back.location)
    assert (page.title, "A blog is now in Home." in page.text) == ("Channel Home", True)
    assert not page.tree.css("button[name=undo]")
    assert "is now in" not in (await ann.get("/channels/home?moved=99&to=home")).text


async def test_one_goes_on_at_the_same_place_of_a_list_of_feeds(
    ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a move or the end of a follow at the next feed, after a poll or an undo at the same; in the same part."""
    monkeypatch.setattr(channels, "MOST_SOURCES", 2)
    for name in "bcde":
        await ann.server.follow_unscheduled(f"https://{name}.example/", "ann", "home")
    page = await ann.get("/channels/home?from=2")
    first, second = [node.attributes["id"] for node in page.tree.css(".sources > li")]
    feed, other = str(first).removeprefix("feed-"), str(second).removeprefix("feed-")
    polled = await ann.browser.submit(page, "/channels/home/poll", feed=feed)
    assert polled.location == f"/channels/home?from=2&asked={feed}#{first}"
    assert "as soon as its host" in (await ann.get(polled.location)).tree.css_first(f"#{first}").text()
    moved = await ann.browser.submit(page, "/channels/home/move", to="later")
    assert moved.location == f"/channels/home?from=2&moved={feed}&to=later#{second}"
    page = await ann.get(moved.location)
    back = await ann.browser.submit(page, "/channels/later/move", undo="yes")
    assert (back.location.startswith("/channels/home?from=2&"), back.location.endswith(f"#{first}")) == (True, True)
    ended = await ann.browser.submit(page, "/channels/home/end", feed=other, at="<x>")
    assert ended.location.startswith("/channels/home?from=2&ended=")
    assert "#" not in ended.location
    page = await ann.get(ended.location)
    kept = page.tree.css_first("button[name=undo]").attributes["value"]
    again = await ann.browser.submit(page, "/channels/home/again", undo=kept)
    assert again.location == f"/channels/home?from=2&again={other}#{second}"
    ended = await ann.browser.submit(await ann.get("/channels/home"), "/channels/home/end", feed=other)
    page = await ann.get(ended.location.replace("?", "?show=attention&"))
    assert "Follow another feed" not in page.text, "the page is about those that can't be read"
    kept = page.tree.css_first("button[name=undo]").attributes["value"]
    again = await ann.browser.submit(page, "/channels/home/again", undo=kept)
    assert again.location == f"/channels/home?show=attention&again={other}#{second}"


async def test_a_channel_may_hide_the_number_of_unread_posts(ann: ReadingVisitor) -> None:
    """A mark, without a number, while an item is unread."""
    page = await ann.get("/channels/home")
    await ann.browser.submit(page, "/channels/home/settings", unread="boolean")
    assert not (await ann.get("/channel/home")).tree.css(".mark")
    await ann.publish("a", "b")
    (mark,) = (await ann.get("/channel/home")).tree.css(".mark")
    assert mark.text() == "unread posts"


async def test_settings_of_a_channel(ann: ReadingVisitor) -> None:
    """Empty fields mean the general setting; an invalid value is reported."""
    page = await ann.get("/channels/home")
    fields = {"keep_read_days": "7", "keep_unread_days": "", "max_items": "0", "first_fetch_unread": ""}
    await ann.browser.submit(page, "/channels/home/settings", **fields, unread="boolean")
    settings = (await ann.server.channels.get("ann", "home")).settings
    assert (settings.keep_read_days, settings.keep_unread_days, settings.max_items) == (7, None, 0)
    assert settings.unread == "boolean"
    for wrong in ({"keep_read_days": "-1"}, {"max_items": "many"}, {"unread": "colour"}, {"max_items": "9" * 9}):
        refused = await ann.browser.submit(page, "/channels/home/settings", **(fields | wrong))
        assert refused.status == 400
        assert next(iter(wrong)) in refused.text
    assert (await ann.server.channels.get("ann", "home")).settings == settings


async def test_a_filter_is_tried_before_it_is_kept(ann: ReadingVisitor) -> None:
    """The page names the posts that it would exclude, and why; then the filter is in force."""
    await ann.publish("alpha", "beta", "gamma")
    tried = await ann.get("/channels/home/filter?try=1&exclude_words=none%0ABETA&kinds_are=")
    shown = [" ".join(node.text().split()) for node in tried.tree.css("section li")]
    assert shown == ["beta contains “BETA”"]
    assert "1 of the newest 3 posts would be excluded" in tried.text
    assert "The oldest of them was published 14 November 2023, 22:13 UTC" in tried.text
    times = [item["published"] for item in (await ann.reader.get(action="timeline", channel="home"))["items"]]
    shown_time = tried.tree.css_first("section time").attributes["datetime"]
    assert [datetime.fromisoformat(str(shown_time))] == [min(map(datetime.fromisoformat, times))]
    by_kind = await ann.get("/channels/home/filter?try=1&kinds_are=include&kind=photo&kind=video")
    assert [node.text().strip() for node in by_kind.tree.css("section li small")] == ["excluded kind of post"] * 3
    assert not (await ann.server.channels.get("ann", "home")).settings.filters
    page = await ann.get("/channels/home/filter")
    await ann.browser.submit(page, "/channels/home/filter", exclude_words="sour milk\r\n beta ", kinds_are="", try_="")
    filters = (await ann.server.channels.get("ann", "home")).settings.filters
    assert filters.exclude_words == ("sour milk", "beta")
    too_long = await ann.browser.submit(page, "/channels/home/filter", exclude_words="x" * 201)
    assert (too_long.status, "expected words of at most 200 characters" in too_long.text) == (400, True)
    assert (await ann.server.channels.get("ann", "home")).settings.filters == filters


async def test_the_address_of_a_filters_trial_has_no_form_token(ann: ReadingVisitor) -> None:
    """It has only the filter, can be reloaded, and stores nothing."""
    await ann.publish("alpha", "beta")
    page = await ann.get("/channels/home/filter")
    sent = await ann.browser.submit(
        page, "/channels/home/filter", exclude_words="beta", kinds_are="exclude", kind=["like", "rsvp"], **TRY
    )
    address = "/channels/home/filter?try=1&exclude_words=beta&kinds_are=exclude&kind=like&kind=rsvp#trial"
    assert (sent.status, sent.location) == (303, address)
    assert page.tree.css_first("button[name=try]").attributes["formaction"] == "/channels/home/filter#trial"
    result = (await ann.get(sent.location)).tree.css_first("#trial")
    assert result.attributes["tabindex"] == "-1", "the result has the focus"
    assert "1 of the newest 2 posts would be excluded" in (await ann.get(sent.location)).text
    assert not (await ann.server.channels.get("ann", "home")).settings.filters
    refused = await ann.browser.submit(page, "/channels/home/filter", exclude_words="x" * 201, **TRY)
    assert (refused.status, "at most 200 characters" in refused.text) == (400, True)


async def test_the_trial_of_a_long_filter_has_no_address(ann: ReadingVisitor) -> None:
    """Servers and proxies refuse long addresses."""
    await ann.publish("alpha", "beta")
    page = await ann.get("/channels/home/filter")
    words = "\n".join(["beta", *(f"{'ж' * 90}{number}" for number in range(49))])
    tried = await ann.browser.submit(page, "/channels/home/filter", exclude_words=words, kinds_are="", **TRY)
    assert (tried.status, "1 of the newest 2 posts would be excluded" in tried.text) == (200, True)
    assert not (await ann.server.channels.get("ann", "home")).settings.filters


def test_no_form_with_a_token_is_sent_as_an_address() -> None:
    templates = [path.read_text() for path in (Path(microsub.__file__).parent).rglob("templates/*.html")]
    forms = [form for text in templates for form in re.findall(r"<form\b.*?</form>", text, re.DOTALL)]
    assert len(forms) > 10
    assert not [form for form in forms if "token_field" in form and not re.match(r'<form[^>]*method="post"', form)]
    assert not [text for text in templates if "formmethod" in text]


async def test_a_filter_applies_to_existing_posts(ann: ReadingVisitor) -> None:
    """Excluded posts are marked as read, which can be undone; others don't change."""
    await ann.publish("alpha", "beta", "gamma", "beta 2")
    page = await ann.get("/channels/home/filter")
    sent = await ann.browser.submit(page, "/channels/home/filter", exclude_words="beta", kinds_are="", past="read")
    assert await ann.reader.unread("home") == 2
    page = await ann.get(sent.location)
    assert "2 posts marked as read." in page.text
    await ann.browser.submit(page, "/marks/undo")
    assert await ann.reader.unread("home") == 4
    assert (await ann.server.channels.get("ann", "home")).settings.filters.exclude_words == ("beta",)


async def test_a_filter_for_all_channels(ann: ReadingVisitor) -> None:
    """It is tried on the posts of all channels but `notifications`, kept with the admin's expressions, and undone."""
    await ann.publish("alpha", "beta", "gamma", "beta 2")
    await publish_notice(ann.server, ann.reader)
    await ann.server.accounts.set_settings("ann", {"filters": Filters(exclude_regex="(?i)lottery").stored()})
    assert "/settings/filter" in [node.attributes["href"] for node in (await ann.get("/settings")).tree.css(".menu a")]
    page = await ann.get("/settings/filter")
    assert (page.title, "expressions for all channels" in page.text) == ("Filter for all channels", True)
    tried = await ann.browser.submit(page, "/settings/filter", exclude_words="beta\nnotice", kinds_are="", **TRY)
    assert tried.location == "/settings/filter?try=1&exclude_words=beta%0Anotice#trial"
    assert "2 of the newest 4 posts would be excluded" in (await ann.get(tried.location)).text
    sent = await ann.browser.submit(page, "/settings/filter", exclude_words="beta\nnotice", kinds_are="", past="read")
    assert [await ann.reader.unread(uid) for uid in ("home", "notifications")] == [2, 1]
    page = await ann.get(sent.location)
    assert "2 posts marked as read." in page.text
    await ann.browser.submit(page, "/marks/undo")
    assert await ann.reader.unread("home") == 4
    user = await ann.server.accounts.user("ann")
    assert user
    assert user.filters == Filters(exclude_words=("beta", "notice"), exclude_regex="(?i)lottery")
    await ann.publish("beta 3", "delta")
    assert await ann.reader.unread("home") == 5
    links = [(await ann.get(f"/channels/{uid}/filter")).tree.css("main p a") for uid in ("home", "notifications")]
    assert [[node.attributes["href"] for node in some][1:] for some in links] == [["/settings/filter"], []]
    await ann.browser.submit(page, "/settings/filter", exclude_words="", kinds_are="")
    refused = await ann.browser.submit(page, "/settings/filter", exclude_words="x" * 201)
    assert (refused.status, "at most 200 characters" in refused.text) == (400, True)


async def test_a_filter_is_tried_on_the_beginnings_of_large_posts(
    ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, and on so many bytes of posts at most; a trial of 120 posts took 1.5 GB."""
    monkeypatch.setattr("microsub.timelines.item_cache.PIECE", 200_000)
    await ann.publish(*(f"beta {number}" for number in range(11)), text="x" * 40_000)
    tried = await ann.get("/channels/home/filter?try=1&exclude_words=none%0ABETA&kinds_are=")
    assert "8 of the newest 8 posts would be excluded" in tried.text
    page = await ann.get("/channels/home/filter")
    await ann.browser.submit(page, "/channels/home/filter", exclude_words="beta", kinds_are="", past="read")
    assert await ann.reader.unread("home") == 0


async def test_a_filter_has_few_words_and_no_expressions(ann: ReadingVisitor) -> None:
    """Expressions that the admin has set stay."""
    own = OwnChannelSettings(filters=Filters(exclude_regex="(?i)lottery"))
    await ann.server.channels.set_settings("ann", "home", own, ann.server.now)
    page = await ann.get("/channels/home/filter")
    await ann.browser.submit(page, "/channels/home/filter", exclude_words="milk", exclude_regex="x", kinds_are="")
    filters = (await ann.server.channels.get("ann", "home")).settings.filters
    assert (filters.exclude_words, filters.exclude_regex) == (("milk",), "(?i)lottery")
    words = "\n".join(f"word {n}" for n in range(51))
    refused = await ann.browser.submit(page, "/channels/home/filter", include_words=words, kinds_are="")
    assert (refused.status, "found 51 words, expected at most 50" in refused.text) == (400, True)


async def test_the_last_deleted_channels_can_be_restored(ann: ReadingVisitor) -> None:
    """The last twenty can be restored."""
    for number in range(22):
        await ann.server.channels.create("ann", f"Number {number}", ann.server.now, f"n{number}")
        await ann.browser.submit(await ann.get(f"/channels/n{number}"), f"/channels/n{number}/delete")
        ann.server.clock.advance(1)
    removed = await ann.server.channels.removed_names("ann")
    assert list(removed.values()) == [f"Number {number}" for number in range(2, 22)]


async def test_a_feeds_health_is_shown_and_it_can_be_polled(ann: ReadingVisitor) -> None:
    """A quiet feed isn't broken; nobody can poll it again within a minute, nor one that the channel doesn't follow."""
    await ann.publish("a")
    server, path = ann.server, "/channels/home/poll"
    forty, hour = str(server.now - 40 * 86_400), {"gap": "86400", "interval": "3600"}
    await server.feeds.update("1", {"last_change": forty, "last_poll": str(server.now - 90), **hour})
    page = await ann.get("/channels/home")
    assert "Last post 40 days ago, less than one post a month · checked every hour, next check in 60 min" in page.text
    await server.feeds.update("1", {"last_change": str(server.now - 986 * 86_400)})
    assert "Last post 2 years ago" in (await ann.get("/channels/home")).text
    asked = await ann.browser.submit(page, path, feed="1")
    assert "as soon as its host" in (await ann.get(asked.location)).text
    failed = {"last_poll": str(server.now), "failures": "2", "last_error": "http: the server answered 404"}
    await server.feeds.update("1", failed)
    refused = await ann.browser.submit(page, path, feed="1")
    assert (refused.status, "less than a minute ago" in refused.text) == (429, True)
    assert "The last 2 checks failed: the server answered 404" in refused.text
    await server.feeds.update("1", failed | {"last_error": "this page has no h-feed and no h-entry"})
    wrong = await ann.get("/channels/home")
    assert "The last 2 checks failed: it is a web page without posts, not a feed" in wrong.text
    assert (await ann.browser.submit(page, path, feed="77")).status == 404


async def test_a_small_number_says_where_feeds_need_attention(ann: ReadingVisitor) -> None:
    """Next to the channel, with a text for screen readers; it links to these feeds.

    It counts the feeds whose condition is red, those whose last check failed; so does the table of all feeds.
    """
    server, survey = ann.server, ann.server.parts.survey
    trouble = {"failures": "1", "last_error": "status: 500", "last_success": str(server.now - 60)}
    await server.follow_unscheduled("https://broken.example/feed", "ann", "home")
    quiet = await server.follow_unscheduled("https://quiet.example/feed", "ann", "later")
    await server.feeds.update(quiet.id, {"last_success": str(server.now), "last_change": "1"})
    assert not (await ann.get("/")).tree.css("#channels .attention")
    await server.feeds.update("2", trouble)
    await survey.look(server.now)
    (number,) = (await ann.get("/")).tree.css("#channels .attention")
    assert number.text() == "1Home: 1 feed can’t be read"
    page = await ann.get(number.attributes["href"] or "")
    assert len(page.tree.css(".sources .trouble")) == 1
    assert [node.text() for node in page.tree.css(".sources h3")] == ["https://broken.example/feed"]
    assert "1 feed can’t be read" in page.tree.css_first("#sources").text()
    lines = (await ann.get("/channels/home")).tree.css(".lined > li")
    ways = [line.css_first("a.own").attributes["href"] for line in lines]
    assert ways == [f"/feed/{feed}/settings?channel=home" for feed in ("1", "2")]
    assert lines[1].css_first("p.trouble").text() == "Status: 500."
    await server.feeds.update(quiet.id, trouble)
    table = await ann.get("/feed")
    assert table.tree.css_first("p .trouble").text() == "2 can’t be read"
    signs = [one.text() for one in table.tree.css("#channels .attention")]
    assert signs == ["1Home: 1 feed can’t be read", "1Later: 1 feed can’t be read"], "without a survey in between"
    await server.feeds.update(quiet.id, {"failures": "0"})
    await ann.browser.submit(page, "/channels/home/end", feed="2")
    assert not (await ann.get("/")).tree.css("#channels .attention")
    await survey.look(server.now)
    assert not (await ann.get("/")).tree.css("#channels .attention")


async def test_a_channel_whose_feeds_cant_be_read_says_so(ann: ReadingVisitor) -> None:
    """So does All, which names the table; new posts aren't promised. The page behind the sign says what can be done."""
    server, survey = ann.server, ann.server.parts.survey
    feed = await server.follow_unscheduled("https://broken.example/blog/feed", "ann", "later")

    async def empty(path: str) -> str:
        return " ".join((await ann.get(path)).tree.css_first(".empty").text().split())

    assert "arrive within a minute" in await empty("/channel/later")
    await server.feeds.update(feed.id, {"failures": "2", "last_error": "http: the server answered 404"})
    await survey.look(server.now)
    assert await empty("/channel/later") == "No posts yet. 1 feed can’t be read Follow a feed here"
    page = await ann.get("/channel/later")
    assert page.tree.css_first(".empty .trouble").attributes["href"] == "/channels/later?show=attention"
    assert await empty("/channel/global") == "No posts yet. 1 feed can’t be read Follow a feed here"
    assert (await ann.get("/")).tree.css_first(".empty .trouble").attributes["href"] == "/feed?sort=trouble"
    (row,) = (await ann.get("/channels/later?show=attention")).tree.css(".sources > li")
    assert "Look on its site for the new address, and give it in its settings, under “Address”." in row.text()
    links = {one.text(): one.attributes["href"] for one in row.css("p a")}
    assert links == {
        "Open the site": "https://broken.example/",
        "Feed settings": f"/feed/{feed.id}/settings?channel=later",
    }
    await server.feeds.update(feed.id, {"last_success": str(server.now), "home": "https://broken.example/blog"})
    (row,) = (await ann.get("/channels/later?show=attention")).tree.css(".sources > li")
    assert row.css_first("p a").attributes["href"] == "https://broken.example/blog"


async def test_signs_follow_polls_at_once(real_redis: Redis, site: Publisher) -> None:
    """A poll that fails or answers again, an unfollow and its undo: the next page shows them, in both places."""
    async with instance(real_redis, base_url=ADDRESS, resolver=loopback) as server:
        ann = await reading(server, "ann", "home", "later")

        async def signs() -> list[str]:
            table = await ann.get("/feed")
            rows = [row.css("td a")[1].text() for row in table.tree.css("tbody tr") if row.css_first(".trouble")]
            shown = (await ann.get("/channels")).tree.css("#channels .attention")
            assert [one.text() for one in shown] == [f"1{name}: 1 feed can’t be read" for name in rows]
            return rows

        url = site.url("/feed")
        feed = await server.follow_unscheduled(url, "ann", "home")
        await server.follow_unscheduled(url, "ann", "later")
        await server.poll(feed)
        assert await signs() == ["Home", "Later"]
        page = await ann.get("/channels/home")
        ended = await ann.browser.submit(page, "/channels/home/end", feed=feed.id)
        assert await signs() == ["Later"]
        page = await ann.get(ended.location)
        kept = page.tree.css_first("button[name=undo]").attributes["value"]
        await ann.browser.submit(page, "/channels/home/again", undo=kept)
        assert await signs() == ["Home", "Later"]
        site.serve_document("/feed", rss([]))
        await server.poll(feed)
        assert await signs() == []
        await ann.browser.aclose()


async def test_a_written_feed_is_shown_without_trouble(ann: ReadingVisitor) -> None:
    """It says where the posts come from, and can't be polled."""
    url = "https://service.example/articles"
    await post_store(ann.server).save(url, {"guid": "1", "timestamp": 1_700_000_000, "name": "One"})
    await ann.reader.post(action="follow", channel="later", url=url)
    page = await ann.get("/channels/later")
    assert "Programs save its posts here" in page.text
    assert "not polled yet" not in page.text
    assert not page.tree.css("form[action='/channels/later/poll']")
