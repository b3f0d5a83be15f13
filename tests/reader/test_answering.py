"""Replies, likes, reposts and bookmarks that are published on the reader's own site, by a local Micropub publisher."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from microsub.base.errors import InvalidRequest
from microsub.base.sealing import seal, unseal
from microsub.identity.sign_in import PostingAccess
from microsub.reader.answering.answers import LONGEST_REPLY, MOST_BROWSERS, Answer
from microsub.redis import keys
from tests.reader.conftest import ADDRESS, ReadingVisitor, ids
from tests.support import web
from tests.support.invariants import all_keys
from tests.support.micropub_site import MicropubSite, micropub_site
from tests.support.provider import Fault, Provider, provider
from tests.support.visitor import Shown, Visitor, begin_session
from tests.support.web import json_reply

CALLBACK = f"{ADDRESS}/answer/callback"


@dataclass
class AnsweringVisitor:
    """Ann at her browser, with her provider and her site, and a post to answer."""

    reading: ReadingVisitor
    site: MicropubSite
    path: str

    @property
    def provider(self) -> Provider:
        return self.site.provider

    async def get(self, path: str) -> Shown:
        return await self.reading.get(path)

    async def allow(self, next_: str = "", browser: Visitor | None = None) -> Shown:
        """Lets the browser answer; ends at the redirect of our server."""
        here = browser or self.reading.browser
        return await here.get(await self.permitted(here, next_))

    async def permitted(self, here: Visitor, next_: str = "") -> str:
        """Our callback path with the provider's answer for that browser."""
        page = await here.get(f"/answer?next={next_}")
        asked = await here.submit(page, "/answer")
        assert asked.status == 303, asked.text
        assert "scope=profile+create" in asked.location
        async with httpx.AsyncClient() as http:
            back = (await http.get(asked.location)).headers["location"]
        assert back.startswith(f"{CALLBACK}?")
        return str(back.removeprefix(ADDRESS))

    async def send(self, kind: str, content: str = "") -> Shown:
        page = await self.get(self.path)
        return await self.reading.browser.submit(page, f"{self.path}/answer", kind=kind, content=content)


@pytest.fixture
async def ann_answering(ann: ReadingVisitor) -> AsyncIterator[AnsweringVisitor]:
    """Ann has a site of her own, which names her provider and her endpoint."""
    async with micropub_site("ann") as site:
        await ann.server.accounts.set_me("ann", site.owner.me)
        await begin_session(ann.browser, ann.server, "ann", site.owner.me)
        await ann.publish("a")
        (post,) = ids(await ann.get("/channel/home"))
        yield AnsweringVisitor(ann, site, f"/post/{post}")


async def test_all_four_kinds_are_published_on_ones_own_site(ann_answering: AnsweringVisitor) -> None:
    """After the permission, by forms that work without scripts; the page shows the answer's address."""
    here = ann_answering
    page = await here.get(here.path)
    assert "Reply from your own site" in page.text
    await here.allow()
    url = (await here.get(here.path)).tree.css_first("[data-original]").attributes["href"]
    shown = await here.send("reply", "A fine harbour.\r\nIndeed.")
    assert shown.status == 303, shown.text
    page = await here.get(shown.location)
    assert "Published. https://ann.example/posts/1" in page.text
    assert page.tree.css_first("[role=status] a[href]").attributes["target"] == "_blank"
    for kind in ("like", "repost", "bookmark"):
        assert (await here.send(kind, "what stands in the field is no like")).status == 303
    assert [sorted(form.items()) for form in here.site.forms] == [
        [("content", "A fine harbour.\nIndeed."), ("h", "entry"), ("in-reply-to", url)],
        [("h", "entry"), ("like-of", url)],
        [("h", "entry"), ("repost-of", url)],
        [("bookmark-of", url), ("h", "entry"), ("name", "a")],
    ]


async def test_the_permission_returns_to_the_post(ann_answering: AnsweringVisitor) -> None:
    """Timelines link to the form then; before it they don't."""
    here = ann_answering
    assert "Answer" not in [link.text() for link in (await here.get("/channel/home")).tree.css(".acts a")]
    assert (await here.allow(here.path)).location == here.path
    assert "Reply" in [link.text() for link in (await here.get("/channel/home")).tree.css(".acts a")]
    assert "This browser publishes on 127.0.0.1" in (await here.get("/answer")).text


async def test_the_token_is_readable_only_with_this_browsers_key(ann_answering: AnsweringVisitor) -> None:
    """It isn't in the store in clear, and another browser of the same user can't post."""
    here = ann_answering
    await here.allow()
    (token,) = here.provider.tokens
    redis = here.reading.server.redis
    kept = await redis.command("HGETALL", keys.posting("ann"))
    assert kept
    assert token.encode() not in b"".join(bytes(part) for part in kept)
    other = Visitor(here.reading.server.app, ADDRESS)
    await begin_session(other, here.reading.server, "ann", here.provider.people["ann"].me)
    page = await other.get(here.path)
    assert page.tree.css_first(f"form[action='{here.path}/answer']") is None


async def test_a_refusal_by_the_site_keeps_the_text(ann_answering: AnsweringVisitor) -> None:
    """The page shows the site's message; the text isn't lost, and can be sent again."""
    here = ann_answering
    await here.allow()
    here.site.replies = [
        json_reply({"error": "invalid_request", "error_description": "no room for <b>posts</b>"}, 400),
        web.Answer(b"", 500),
        web.Answer(b"", 302, [("Location", "https://evil.example/")]),
    ]
    for why in ("rejected it: no room for <b>posts</b>.", "status 500", "status 302"):
        refused = await here.send("reply", "Written with care")
        assert (refused.status, why in refused.text) == (502, True), refused.text
        assert refused.tree.css_first("textarea").text().strip() == "Written with care"
    here.site.replies = []
    assert (await here.send("reply", "Written with care")).status == 303


async def test_a_permission_that_was_taken_back_at_the_site_ends(ann_answering: AnsweringVisitor) -> None:
    """The page offers to allow it again."""
    here = ann_answering
    await here.allow()
    (token,) = here.provider.tokens
    here.provider.revoke(token)
    refused = await here.send("like")
    assert (refused.status, "Allow it again." in refused.text) == (502, True)
    assert "Reply from your own site" in (await here.get(here.path)).text


async def test_access_is_withdrawn_here(ann_answering: AnsweringVisitor) -> None:
    """The token is revoked at the provider and deleted here."""
    here = ann_answering
    await here.allow()
    (token,) = here.provider.tokens
    await here.reading.browser.submit(await here.get("/answer"), "/answer/end")
    assert here.provider.good(token) is None
    assert await here.reading.server.redis.command("EXISTS", keys.posting("ann")) == 0


async def test_the_same_answer_is_published_once(ann_answering: AnsweringVisitor) -> None:
    """A second click leads to the address of the first answer."""
    here = ann_answering
    await here.allow()
    first, second = await here.send("like"), await here.send("like")
    assert first.location == second.location
    assert len(here.site.taken) == 1


async def test_each_answer_expires_separately(ann_answering: AnsweringVisitor) -> None:
    """An answer every few minutes used to keep all answers for as long as that went on."""
    here, redis = ann_answering, ann_answering.reading.server.redis
    await here.allow()
    first, second = await here.send("like"), await here.send("repost")
    kept = [key for key in await all_keys(redis) if b":answered" in key]
    assert len(kept) == 2
    assert all(0 < life <= 600 for life in await redis.pipeline([("TTL", key) for key in kept]))
    assert len({first.location, second.location}) == 2


async def test_an_invalid_location_is_ignored(ann_answering: AnsweringVisitor) -> None:
    """The answer is still published; no page breaks, whatever address the site names."""
    here = ann_answering
    await here.allow()
    for place in ("http://[", "javascript:alert(1)", "https://ann.example/" + "x" * 5000):
        here.site.replies = [web.Answer(b"", 201, [("Location", place)])]
        sent = await here.send("reply", place)
        assert sent.status == 303, sent.text
        page = await here.get(sent.location)
        assert (page.status, "Published." in page.text) == (200, True)
        assert not [link for link in page.tree.css("main a") if link.attributes.get("href") == place]


async def test_users_without_site_are_told_what_it_takes(ann: ReadingVisitor) -> None:
    """The form is missing on a page of this server and on one without an endpoint; a made-up form has no effect."""
    await ann.publish("a")
    (post,) = ids(await ann.get("/channel/home"))
    hosted = Visitor(ann.server.app, ADDRESS)
    await ann.server.accounts.set_me("ann", f"{ADDRESS}/u/ann")
    await begin_session(hosted, ann.server, "ann", f"{ADDRESS}/u/ann")
    assert "Reply from your own site" not in (await hosted.get(f"/post/{post}")).text
    assert "a website of your own" in (await hosted.get("/answer")).text
    async with provider() as people:
        await ann.server.accounts.set_me("ann", people.person("ann").me)
        await begin_session(ann.browser, ann.server, "ann", people.people["ann"].me)
        refused = await ann.browser.submit(await ann.get("/answer"), "/answer")
        assert (refused.status, "names no micropub endpoint" in refused.text) == (400, True)


async def test_another_persons_answer_is_refused(ann_answering: AnsweringVisitor) -> None:
    """Refused are another user's redirect, a provider that vouches for another person, and a token without `create`."""
    here = ann_answering
    here.provider.person("bob")
    here.provider.at_browser = "bob"
    assert (await here.allow()).status == 403
    here.provider.at_browser = "ann"
    here.provider.fault("token", Fault(change={"scope": "profile"}))
    refused = await here.allow()
    assert (refused.status, refused.title) == (403, "Posting is not allowed")
    here.provider.end_faults()
    assert await here.reading.server.redis.command("EXISTS", keys.posting("ann")) == 0
    meant = await here.permitted(here.reading.browser)
    for forged in ("/answer/callback?code=x&state=y", meant.replace("/answer/", "/sign-in/")):
        refused = await here.get(forged)
        assert (refused.status, "no longer valid" in refused.title) == (400, True)


def test_sealed_texts_need_their_key() -> None:
    """The subject has to match too; a change of a byte is noticed."""
    sealed = seal("secret", "key", "ann")
    assert unseal(sealed, "key", "ann") == "secret"
    assert unseal(sealed, "other", "ann") is None
    assert unseal(sealed, "key", "bob") is None
    assert unseal(sealed[:-1] + bytes([sealed[-1] ^ 1]), "key", "ann") is None
    assert unseal(b"", "key", "ann") is None


def test_a_reply_says_something_and_not_too_much() -> None:
    """A text is only required for replies."""
    for text in ("", "x" * (LONGEST_REPLY + 1)):
        with pytest.raises(InvalidRequest):
            Answer("reply", "https://a.example/", text).form()
    assert Answer("like", "https://a.example/").form() == [("h", "entry"), ("like-of", "https://a.example/")]


async def test_ten_browsers_may_answer(ann: ReadingVisitor) -> None:
    """The oldest is removed: its key gives no access, and neither does an expired token."""
    answers, access = ann.server.parts.answers, PostingAccess("https://ann.example/micropub", "token", 2e9)
    for number in range(MOST_BROWSERS + 1):
        await answers.keep("ann", f"browser {number}", access, 1e9 + number)
    assert await answers.access("ann", "browser 0", 1e9) is None
    assert await answers.access("ann", "browser 1", 1e9) == access
    assert await answers.access("ann", "browser 1", 2e9) is None


@pytest.mark.parametrize("change", ["address", "removed"])
async def test_a_permission_ends_with_the_address_and_with_the_user(
    ann_answering: AnsweringVisitor, change: str
) -> None:
    """The permission was for the former site, and a removed user has no access."""
    await ann_answering.allow()
    server = ann_answering.reading.server
    assert await server.redis.command("EXISTS", keys.posting("ann"))
    if change == "address":
        await server.accounts.set_me("ann", "https://elsewhere.example/")
    else:
        await server.accounts.disable_user("ann", server.now)
    assert not await server.redis.command("EXISTS", keys.posting("ann"))
