"""Output feeds on the pages."""

from __future__ import annotations

from tests.reader.conftest import ADDRESS, ReadingVisitor, ids, reading
from tests.support.visitor import Shown, Visitor

OUTPUTS = "/settings/outputs"


async def made(ann: ReadingVisitor, **fields: str) -> Shown:
    """The page of a new output feed."""
    sent = await ann.browser.submit(await ann.get(OUTPUTS), OUTPUTS, **{"title": "My picks", **fields})
    assert sent.status == 303, sent.text
    return await ann.get(sent.location)


def addresses(page: Shown) -> list[str]:
    return [node.text() for node in page.tree.css(".copied code")]


async def shown(ann: ReadingVisitor, address: str) -> Shown:
    """The view of somebody else who has the address."""
    return await Visitor(ann.server.app, ADDRESS).get(address.removeprefix(ADDRESS))


async def test_a_post_is_passed_on_and_taken_out(ann: ReadingVisitor) -> None:
    """From its own page into a feed that others read; its page counts the impressions."""
    await ann.publish("a", "b")
    page = await made(ann)
    (rss,) = (one for one in addresses(page) if one.endswith(".rss"))
    newest = ids(await ann.get("/channel/home"))[0]
    await ann.browser.submit(await ann.get(f"/post/{newest}"), f"{OUTPUTS}/add", output="my-picks")
    assert (await shown(ann, rss)).response.text.count("<item>") == 1
    page = await ann.get(f"{OUTPUTS}/my-picks")
    assert "1 post" in page.text
    assert "published · 1 impression" in page.text
    await ann.browser.submit(page, f"{OUTPUTS}/my-picks/items", remove=newest)
    assert (await shown(ann, rss)).response.text.count("<item>") == 0
    page = await ann.get(f"{OUTPUTS}/my-picks")
    await ann.browser.submit(page, f"{OUTPUTS}/my-picks/items", publish=newest)
    assert (await shown(ann, rss)).response.text.count("<item>") == 1


async def test_a_whole_channel_with_limits(ann: ReadingVisitor) -> None:
    """Each post is shown once, for a day; the form has the saved values."""
    await ann.publish("a", "b")
    page = await made(ann, title="World", channel="home", max_impressions="1", max_age="24h", public="true")
    feed = await ann.server.outputs.get("ann", "world")
    settings = feed.settings
    assert (settings.channel, settings.max_impressions, settings.max_age, settings.public) == ("home", 1, 86400, True)
    assert f"{ADDRESS}/feeds/ann/world.rss" in addresses(page)
    assert page.tree.css_first("#max_age").attributes["value"] == "1d"
    assert (await shown(ann, "/feeds/ann/world.rss")).response.text.count("<item>") == 2
    assert "2 reached their impression limit" in (await ann.get(f"{OUTPUTS}/world")).text
    await ann.browser.submit(page, f"{OUTPUTS}/world", title="The world", max_impressions="", channel="later")
    changed = (await ann.server.outputs.get("ann", "world")).settings
    assert (changed.title, changed.channel, changed.max_impressions) == ("The world", "later", 0)


async def test_addresses_are_renewed_revoked_and_gone(ann: ReadingVisitor) -> None:
    """A former address answers 410."""
    page = await made(ann)
    first = addresses(page)[0]
    await ann.browser.submit(page, f"{OUTPUTS}/my-picks/renew")
    assert (await shown(ann, first)).status == 410
    page = await ann.get(f"{OUTPUTS}/my-picks")
    await ann.browser.submit(page, f"{OUTPUTS}/my-picks/revoke")
    page = await ann.get(f"{OUTPUTS}/my-picks")
    assert (addresses(page), "This feed has no address" in page.text) == ([], True)
    assert "no address" in (await ann.get(OUTPUTS)).text
    await ann.browser.submit(page, f"{OUTPUTS}/my-picks/renew")
    page = await ann.get(f"{OUTPUTS}/my-picks")
    assert (await shown(ann, addresses(page)[0])).status == 200
    deleted = await ann.browser.submit(page, f"{OUTPUTS}/my-picks/delete")
    assert "Output feed deleted." in (await ann.get(deleted.location)).text
    assert (await ann.get(f"{OUTPUTS}/my-picks")).status == 404


async def test_invalid_settings_are_reported(ann: ReadingVisitor) -> None:
    """The same page has the message; another user's feed or channel can't be reached."""
    await made(ann)
    page = await ann.get(OUTPUTS)
    for wrong in (
        {"title": "My picks"},
        {"title": ""},
        {"title": "A", "max_age": "long"},
        {"title": "A", "max_impressions": "x"},
    ):
        again = await ann.browser.submit(page, OUTPUTS, **wrong)
        assert (again.status, again.tree.css_first("#title").attributes["value"]) == (400, wrong["title"])
    ben = await reading(ann.server, "ben", "own")
    assert (await ben.get(f"{OUTPUTS}/my-picks")).status == 404
    theirs = await ben.browser.submit(await ben.get(OUTPUTS), OUTPUTS, title="Mine", channel="later")
    assert theirs.status == 404
