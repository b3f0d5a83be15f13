"""Mutes and blocks on the pages."""

from __future__ import annotations

from typing import Any

import pytest

from microsub.base.errors import InvalidRequest, NotFound, QuotaReached, StoreUnavailable
from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import Card, Entry
from microsub.redis import keys
from tests.reader.conftest import ReadingVisitor, ids, reading
from tests.support.posts import candidate
from tests.support.readers import FEED

RULES = "/settings/rules"
WEEK = 7 * 86_400.0
LOUD = "https://loud.example/"


async def _publish(ann: ReadingVisitor) -> None:
    """A post of an author to mute, and one of another author."""
    for name, url in (("loud", LOUD), ("calm", "https://calm.example/")):
        entry = Entry(url=f"https://blog.example/{name}", name=name, author=Card(name=name.title(), url=url))
        await ann.server.publish(FEED, candidate(name, wire=dump(to_wire(entry)), author=url))


async def test_an_author_is_muted_for_a_week_on_a_posts_page(ann: ReadingVisitor) -> None:
    """Their posts are hidden, and shown again after a week."""
    await _publish(ann)
    posts = ids(await ann.get("/channel/home?show=all"))
    (loud,) = [id_ for id_ in posts if "Loud" in (await ann.get(f"/post/{id_}")).text]
    sent = await ann.browser.submit(
        await ann.get(f"/post/{loud}"), RULES, url=LOUD, channel="global", days="7", kind="mute"
    )
    page = await ann.get(sent.location)
    assert "Muted: 1 post is hidden." in page.text
    assert f"{LOUD} muted · in all channels · until" in page.text
    assert len(await ann.reader.ids("home")) == 1
    rules = ann.server.rules
    assert await rules.lift_ended(ann.server.now + WEEK - 1) == 0
    assert await rules.lift_ended(ann.server.now + WEEK + 1) == 1
    assert sorted(await ann.reader.ids("home")) == sorted(posts)
    assert "You haven’t muted or blocked anyone" in (await ann.get(RULES)).text


async def test_a_permanent_mute_has_no_end(ann: ReadingVisitor) -> None:
    """Even if it had an end before; it can be ended by hand."""
    page = await ann.get(RULES)
    for days in ("7", ""):
        await ann.browser.submit(page, RULES, url=LOUD, channel="home", days=days, kind="mute")
    assert await ann.server.rules.lift_ended(ann.server.now + 2 * WEEK) == 0
    page = await ann.get(RULES)
    assert f"{LOUD} muted · in Home Unmute" in page.text
    await ann.browser.submit(page, f"{RULES}/end")
    assert await ann.server.rules.muted("ann", "home") == []


async def test_a_mute_ends_in_a_channel_that_is_removed_meanwhile(ann: ReadingVisitor) -> None:
    """It has ended when the channel is restored."""
    await _publish(ann)
    posts, rules, now = ids(await ann.get("/channel/home?show=all")), ann.server.rules, ann.server.now
    await rules.mute("ann", "home", LOUD, now, until=now + 1)
    await ann.server.following.remove_channel("ann", "home", now)
    assert await rules.lift_ended(now + 2) == 1
    await ann.server.following.restore_channel("ann", "home", now + 3)
    assert await rules.muted("ann", "home") == []
    assert sorted(await ann.reader.ids("home")) == sorted(posts)


async def test_a_mute_renewed_during_expiry_keeps_its_own_end(ann: ReadingVisitor) -> None:
    """It isn't ended with the others, and keeps its own end."""
    rules, now, again = ann.server.rules, ann.server.now, "https://again.example/"
    for url, end in ((LOUD, 1), (again, 2)):
        await rules.mute("ann", "home", url, now, until=now + end)
    real = rules._write

    async def muted_once_more(*given: Any, **more: Any) -> int:
        rules._write = real  # type: ignore[method-assign]
        await rules.mute("ann", "home", again, now + 3, until=now + WEEK)
        return await real(*given, **more)

    rules._write = muted_once_more  # type: ignore[method-assign]
    assert await rules.lift_ended(now + 3) == 1
    assert await rules.muted("ann", "home") == [again]
    assert await rules.lift_ended(now + WEEK) == 1
    assert await rules.muted("ann", "home") == []


async def test_a_mute_keeps_its_end_after_a_kill(ann: ReadingVisitor) -> None:
    """Hiding the existing posts is interrupted after the rule is stored."""
    rules, now = ann.server.rules, ann.server.now
    real = rules._apply

    async def killed(*given: Any, **more: Any) -> int:
        rules._apply = real  # type: ignore[method-assign]
        raise StoreUnavailable("killed")

    rules._apply = killed  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await rules.mute("ann", "home", LOUD, now, until=now + 1)
    assert await rules.muted("ann", "home") == [LOUD]
    assert await rules.lift_ended(now + 2) == 1
    assert await rules.muted("ann", "home") == []


async def test_a_refused_mute_leaves_no_end(ann: ReadingVisitor) -> None:
    """For a channel that doesn't exist, for *Saved*, and beyond the quota."""
    rules, now = ann.server.rules, ann.server.now
    await rules.mute("ann", "home", LOUD, now)
    for uid, most in (("nowhere", 0), ("saved", 0), ("home", 1)):
        with pytest.raises((InvalidRequest, NotFound, QuotaReached)):
            await rules.mute("ann", uid, "https://calm.example/", now, until=now + 1, most=most)
    assert await ann.server.redis.command("ZCARD", keys.mute_ends()) == 0


async def test_a_mute_ends_with_its_channel_and_user(ann: ReadingVisitor) -> None:
    """Ends of mutes without a channel are deleted."""
    rules, now = ann.server.rules, ann.server.now
    await rules.mute("ann", "later", LOUD, now, until=now + 1)
    await ann.server.channels.delete("ann", "later")
    assert await rules.lift_ended(now + 2) == 1
    assert await rules.lift_ended(now + 2) == 0


async def test_channels_that_come_and_go_leave_no_ends_of_mutes(ann: ReadingVisitor) -> None:
    """They would stay in the store until they expire, outside the quota of rules."""
    await ann.server.rules.mute("ann", "later", LOUD, ann.server.now, until=ann.server.now + WEEK)
    assert await ann.server.redis.command("ZCARD", keys.mute_ends()) == 1
    await ann.server.parts.following.delete_channel("ann", "later")
    assert await ann.server.redis.command("ZCARD", keys.mute_ends()) == 0


async def test_a_block_takes_posts_out(ann: ReadingVisitor) -> None:
    """Posts that come after the end of the block are shown."""
    await _publish(ann)
    page = await ann.get(RULES)
    sent = await ann.browser.submit(page, RULES, url=LOUD, channel="home", days="", kind="block")
    page = await ann.get(sent.location)
    assert "Blocked: 1 post was removed." in page.text
    assert len(await ann.reader.ids("home")) == 1
    await ann.browser.submit(page, f"{RULES}/end")
    assert await ann.server.rules.blocked("ann", "home") == []


async def test_a_follower_names_a_feed(ann: ReadingVisitor) -> None:
    """The address of another user's feed isn't shown; an invalid address is reported."""
    await ann.publish("a")
    page = await ann.get(RULES)
    sent = await ann.browser.submit(page, RULES, url="feed:1", channel="global", days="30", kind="mute")
    assert FEED in (await ann.get(sent.location)).text
    assert await ann.reader.ids("home") == []
    ben = await reading(ann.server, "ben", "own")
    await ben.server.following.unfollow("ben", "own", FEED, ben.server.now)
    stranger = await ben.browser.submit(
        await ben.get(RULES), RULES, url="feed:1", channel="global", days="", kind="mute"
    )
    assert stranger.status == 404
    for wrong in ({"url": "loud"}, {"days": "8"}, {"channel": "saved"}):
        fields = {"url": LOUD, "channel": "home", "days": "7", "kind": "mute"} | wrong
        assert (await ann.browser.submit(page, RULES, **fields)).status == 400
