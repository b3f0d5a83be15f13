"""Sources and webmentions on the pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from microsub.model.session import CONFIRMATION
from microsub.webmention.mention import Mention
from microsub.webmention.store import MentionStore, Written
from tests.reader.conftest import ADDRESS, ReadingVisitor, reading
from tests.support.visitor import Shown

SOURCES, MENTIONS = "/settings/sources", "/settings/webmentions"
PAGE = "https://bob.example/reply"


def codes(page: Shown) -> list[str]:
    return [node.text() for node in page.tree.css(".copied code")]


async def test_a_source_is_made_and_posts(ann: ReadingVisitor) -> None:
    """Its token is shown once, with a command that works; a new token replaces it, and revoking ends access."""
    page = await ann.browser.submit(await ann.get(SOURCES), SOURCES, name="Backups", channel="later")
    assert page.title == "Token of Backups"
    token, command = codes(page)
    assert command.startswith(f"curl {ADDRESS}/micropub -H 'Authorization: Bearer {token}'")
    client = ann.browser.client

    async def post(held: str) -> int:
        headers = {"authorization": f"Bearer {held}"}
        return (await client.post("/micropub", data={"h": "entry", "content": "Done"}, headers=headers)).status_code

    assert await post(token) == 201
    page = await ann.get(SOURCES)
    assert (token not in page.response.text, "Backups posts to Later" in page.text) == (True, True)
    (another, _) = codes(await ann.browser.submit(page, f"{SOURCES}/token", source="backups"))
    assert (await post(token), await post(another)) == (401, 201)
    done = await ann.browser.submit(page, f"{SOURCES}/revoke", source="backups")
    assert "Source revoked." in (await ann.get(done.location)).text
    assert await post(another) == 401


async def test_an_old_sign_in_makes_no_token_of_a_source(ann: ReadingVisitor) -> None:
    """The token has no expiry and outlives the session, so a user at an open browser must sign in again."""
    await ann.browser.submit(await ann.get(SOURCES), SOURCES, name="Backups", channel="later")
    ann.server.clock.advance(CONFIRMATION + 1)
    page = await ann.get(SOURCES)
    for refused in (
        await ann.browser.submit(page, SOURCES, name="Others", channel="later"),
        await ann.browser.submit(page, f"{SOURCES}/token", source="backups"),
    ):
        assert (refused.status, "Confirm your identity first" in refused.text) == (403, True)
    assert [one.id for one in await ann.server.parts.sources.all_of("ann")] == ["backups"]


async def test_invalid_sources_are_refused(ann: ReadingVisitor) -> None:
    """Sources of other users can't be reached."""
    page = await ann.get(SOURCES)
    for name, channel, status in (("", "home", 400), ("A", "saved", 400), ("A", "../x", 400), ("A", "absent", 404)):
        assert (await ann.browser.submit(page, SOURCES, name=name, channel=channel)).status == status
    await ann.browser.submit(page, SOURCES, name="Mine", channel="home")
    ben = await reading(ann.server, "ben", "own")
    await ben.browser.submit(await ben.get(SOURCES), SOURCES, name="His", channel="own")
    for what in ("token", "revoke"):
        forged = await ben.browser.submit(await ben.get(SOURCES), f"{SOURCES}/{what}", source="mine")
        assert forged.status == 404


async def _received(ann: ReadingVisitor, state: str = "shown") -> Mention:
    mention = Mention(PAGE, "https://ann.example/post", ann.server.now, author="Bob <b>", title="A reply")
    store = MentionStore(ann.server.redis)
    kept = replace(mention, state=state)  # type: ignore[arg-type]
    assert await store.write("ann", kept, None, ann.server.now) is Written.DONE
    return kept


async def test_the_line_for_ones_own_pages(ann: ReadingVisitor) -> None:
    """The line is the same as on the page that the server provides."""
    page = await ann.get(MENTIONS)
    assert codes(page) == [f'<link rel="webmention" href="{ADDRESS}/webmention/ann">']
    assert "No webmentions yet." in page.text


@pytest.mark.parametrize(
    ("button", "state", "is_approved"),
    [("withdrawn", "withdrawn", False), ("rejected", "rejected", False), ("approved", "held", True)],
)
async def test_a_webmention_is_approved_or_rejected(
    ann: ReadingVisitor, button: str, state: str, is_approved: bool
) -> None:
    """The page queues the action, and a worker does it."""
    mention = await _received(ann, "held")
    page = await ann.get(MENTIONS)
    assert "A reply Bob <b> · https://ann.example/post awaiting approval" in page.text
    assert [link.attributes["target"] for link in page.tree.css(".sources a")] == ["_blank"] * 2
    done = await ann.browser.submit(page, MENTIONS, **{button: mention.id})
    assert "The change takes effect within seconds." in (await ann.get(done.location)).text
    found = await MentionStore(ann.server.redis).get("ann", mention.id)
    assert found is not None
    assert (found.state, found.approved) == (state, is_approved)


async def test_a_sender_is_blocked(ann: ReadingVisitor) -> None:
    """The block covers the whole site; another user's webmentions can't be reached."""
    mention = await _received(ann)
    await ann.browser.submit(await ann.get(MENTIONS), MENTIONS, block=mention.id)
    assert await ann.server.rules.blocked("ann", "notifications") == ["https://bob.example/"]
    ben = await reading(ann.server, "ben", "own")
    page = await ann.get(MENTIONS)
    assert (await ann.browser.submit(page, MENTIONS, rejected="absent")).status == 404
    assert "No webmentions yet." in (await ben.get(MENTIONS)).text
