"""Webmention's requirements for receivers (https://www.w3.org/TR/webmention/).

docs/reference/webmention.md names each test. The cases include those of the specification's implementation report.
"""

from __future__ import annotations

import asyncio
import json

import pytest
import structlog

from microsub.base.errors import NotFound
from microsub.model.reader import SAVED
from microsub.webmention.mention import PAUSES
from microsub.webmention.source import mention_in
from tests.support.mentions import HTML, TARGET, Mentions, entry, page
from tests.support.waiting import wait_until
from tests.support.web import Answer

LINK = f'<a href="{TARGET}">a post</a>'
SOURCE = "http://bob.test/1"


def said(body: bytes, content_type: str = HTML) -> str | None:
    """The kind of the mention, from Bob's page alone."""
    found = mention_in(body, SOURCE, content_type, SOURCE, TARGET)
    return None if found is None else found.post_type


# --- the request (3.2, 3.2.1) -------------------------------------------------------------------------------------


async def test_a_webmention_is_accepted_and_verified_later(mentions: Mentions) -> None:
    """The reply is 202 at once, with a text for people; a worker fetches the source, and the mention is shown."""
    mentions.serve(entry())
    reply = await mentions.post({"source": mentions.source, "target": TARGET})
    assert (reply.status_code, reply.headers["content-type"]) == (202, "text/plain; charset=utf-8")
    assert reply.text == "accepted: the source will be checked within a few minutes\n"
    assert "location" not in reply.headers
    assert mentions.site.asked == []
    await mentions.look()
    assert mentions.site.count("/1") == 1
    assert await mentions.kinds() == ["reply"]


async def test_a_profile_page_names_its_endpoint(mentions: Mentions) -> None:
    """3.1.2: the profile page of this server has it in its header and as an element."""
    page = await mentions.it.client.get("https://reader.example/u/carol")
    endpoint = "https://reader.example/webmention/carol"
    assert f'<{endpoint}>; rel="webmention"' in page.headers["link"].split(", ")
    assert f'<link rel="webmention" href="{endpoint}">' in page.text
    assert await mentions.send(target="https://reader.example/u/carol", path="/webmention/carol") == 202


@pytest.mark.parametrize("path", ["/webmention", "/webmention/", "/webmention/alice", "/webmention/alice/"])
async def test_the_endpoint_has_these_addresses(mentions: Mentions, path: str) -> None:
    """With a user's name, only webmentions of that user's pages are accepted."""
    assert await mentions.send(path=path) == 202
    assert await mentions.send(target="https://people.example/bob", path=path) == (400 if "alice" in path else 202)


@pytest.mark.parametrize(
    "url",
    [
        *("", "no address", "bob.example/1", "ftp://bob.example/1", "mailto:bob@bob.example", "javascript:alert(1)"),
        *("http://", "https:///1", "http://bob.example:99999/1", "http://[::1/1", "https://bob.example/a b"),
        *(
            "//bob.example/1",
            "http://user:secret@bob.example/",
            "https://alice.example\\@bob.example/",
            " https://a.b/",
        ),
        *("https://bob.example/\n1", "file:///etc/passwd", "https://bob.example/" + 2048 * "a"),
    ],
)
@pytest.mark.parametrize("name", ["source", "target"])
async def test_invalid_urls_are_refused(mentions: Mentions, name: str, url: str) -> None:
    """3.2.1: source and target are valid URLs of http or https."""
    form = {"source": "https://bob.example/1", "target": TARGET, name: url}
    reply = await mentions.post(form)
    assert reply.status_code == 400
    assert f"'{name}'" in reply.json()["error_description"]
    assert "secret" not in reply.text


@pytest.mark.parametrize("source", [TARGET, TARGET + "#here", "http://alice.example/post", TARGET + "/"])
async def test_a_page_mentions_no_page_that_is_itself(mentions: Mentions, source: str) -> None:
    """3.2.1: source and target differ in more than fragment and scheme."""
    assert await mentions.send(source, TARGET) == 400


@pytest.mark.parametrize(
    ("target", "status"),
    [
        *(("https://alice.example/", 202), ("https://alice.example", 202), ("http://alice.example/any/page?x=1", 202)),
        *((TARGET + "#comments", 202), ("https://ALICE.example:443/post", 202)),
        *(("https://people.example/bob", 202), ("https://people.example/bob/1", 202)),
        *(("https://reader.example/u/carol", 202), ("https://reader.example/u/nobody", 400)),
        *(("https://people.example/bobby", 400), ("https://people.example/", 400)),
        *(("https://people.example/bob/../ann", 400), ("https://people.example/bob/%2e%2E/ann", 400)),
        *(("https://elsewhere.example/post", 400), ("https://alice.example.evil.example/", 400)),
        *(
            ("https://www.alice.example/", 400),
            ("https://alice.example:8443/post", 400),
            ("https://reader.example/", 400),
        ),
    ],
)
async def test_the_target_is_a_page_of_a_user(mentions: Mentions, target: str, status: int) -> None:
    """3.2.1: it is the user's `me` or a page below it, whatever the fragment; all others are refused at once."""
    assert await mentions.send(target=target) == status


async def test_further_addresses_are_in_the_settings(mentions: Mentions) -> None:
    """backend.json lists them; a user may also receive no webmentions at all."""
    blog = "https://blog.example/alice/1"
    assert await mentions.send(target=blog) == 400
    await mentions.set(pages=("https://blog.example/alice/",))
    assert await mentions.send(target=blog) == 202
    assert await mentions.send() == 202
    await mentions.set(receive=False)
    assert await mentions.send(target=blog) == 400
    assert await mentions.send() == 400


async def test_a_disabled_user_gets_none(mentions: Mentions) -> None:
    """The reply doesn't reveal that the user exists."""
    await mentions.it.accounts.disable_user("alice", mentions.it.now)
    assert await mentions.send() == 400


async def test_a_user_disabled_at_the_moment_gets_none(mentions: Mentions) -> None:
    """Pages are cached for some seconds, but a webmention that would be lost isn't answered with success."""
    await mentions.receive(entry())
    shown = await mentions.only()
    await mentions.it.accounts.disable_user("alice", mentions.it.now)
    assert await mentions.send() == 400
    with pytest.raises(NotFound):
        await mentions.it.mentions.order("alice", shown.id, "withdrawn", mentions.it.now)
    with pytest.raises(NotFound):
        await mentions.it.mentions.order("bob", shown.id, "withdrawn", mentions.it.now)
    assert await mentions.only() == shown


async def test_faults_of_the_sender_are_400(mentions: Mentions) -> None:
    """3.2.3: a missing or repeated parameter, another type of body, a body that is too large."""
    good = {"source": mentions.source, "target": TARGET}
    for form in ({"source": mentions.source}, {"target": TARGET}, {}):
        assert (await mentions.post(form)).status_code == 400
    doubled = f"source=https://a.test/&source=https://b.test/&target={TARGET}"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert (await mentions.it.client.post("/webmention", content=doubled, headers=headers)).status_code == 400
    assert (await mentions.it.client.post("/webmention", json=good)).status_code == 400
    assert (await mentions.post({**good, "more": 40_000 * "x"})).status_code == 400
    assert (await mentions.post({**good, "vouch": "https://c.test/"})).status_code == 202


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_other_methods_are_refused(mentions: Mentions, method: str) -> None:
    """The reply is 405 and names the right one."""
    reply = await mentions.it.client.request(method, "/webmention")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


async def test_no_cookie_or_token_is_needed_or_looked_at(mentions: Mentions) -> None:
    """4: cookies and tokens make no difference, so a request can't be forged."""
    form = {"source": mentions.source, "target": TARGET}
    headers = {"authorization": "Bearer wrong", "cookie": "session=1", "origin": "https://evil.example"}
    reply = await mentions.post(form, headers=headers)
    assert reply.status_code == 202
    assert "set-cookie" not in reply.headers
    assert reply.headers["access-control-allow-origin"] == "*"


# --- the check of the source (3.2.2) ------------------------------------------------------------------------------


async def test_the_source_is_fetched_by_get(mentions: Mentions) -> None:
    """The Accept header prefers HTML; nothing secret is sent."""
    await mentions.receive(entry())
    (asked,) = mentions.site.asked
    assert asked.method == "GET"
    assert asked.headers["accept"].startswith("text/html")
    assert "cookie" not in asked.headers


async def test_redirects_are_followed_to_a_limit(mentions: Mentions) -> None:
    """The limit is 20; the URL that was sent stays the source."""
    for number in range(1, 21):
        mentions.site.serve(f"/{number}", Answer(status=302, headers=[("Location", f"/{number + 1}")]))
    mentions.serve(entry(), path="/21")
    await mentions.send()
    await mentions.look()
    assert mentions.site.count("/21") == 1
    assert [item["url"] for item in await mentions.shown()] == [mentions.source]
    mentions.site.serve("/21", Answer(status=302, headers=[("Location", "/22")]))
    mentions.serve(entry("u-like-of"), path="/22")
    await mentions.send(mentions.site.url("/2", "bob.test"))
    await mentions.send(mentions.site.url("/1", "other.test"))
    await mentions.look()
    states = {mention.source: mention.state for mention in await mentions.it.mentions.all_of("alice")}
    assert states[mentions.site.url("/2", "bob.test")] == "shown"
    assert states[mentions.site.url("/1", "other.test")] == "failed"


LINKS = {
    "a": LINK,
    "a, without quotes": f"<a href={TARGET}>x</a>",
    "a, in other words": '<A HREF="HTTPS://Alice.EXAMPLE/post" rel=nofollow>x</A>',
    "a, with entities": '<a href="https://alice.example/p&#111;st">x</a>',
    "area": f'<map><area href="{TARGET}"></map>',
    "link": f'<link rel="in-reply-to" href="{TARGET}">',
    "img": f'<img src="{TARGET}">',
    "video": f'<video src="{TARGET}"></video>',
    "video's poster": f'<video poster="{TARGET}"></video>',
    "audio": f'<audio src="{TARGET}"></audio>',
    "source": f'<audio><source src="{TARGET}"></audio>',
    "blockquote": f'<blockquote cite="{TARGET}">x</blockquote>',
    "q": f'<q cite="{TARGET}">x</q>',
    "iframe": f'<iframe src="{TARGET}"></iframe>',
}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_of_any_element_counts(name: str) -> None:
    """3.2.2: `a`, `img`, `video` and similar elements."""
    assert said(page(LINKS[name])) == "mention"


NO_LINKS = {
    "nothing": "Hello",
    "as text": f"See {TARGET}",
    "in a comment": f"<!-- {LINK} -->",
    "in a script": f"<script>'{LINK}'</script>",
    "in a text area": f"<textarea>{LINK}</textarea>",
    "in a template": f"<template>{LINK}</template>",
    "escaped": LINK.replace("<", "&lt;"),
    "the beginning of another address": f'<a href="{TARGET}er"></a><a href="{TARGET}/1"></a><a href="{TARGET}?a"></a>',
    "the end of another address": f'<a href="https://evil.example/?u={TARGET}">x</a>',
    "in upper case": '<a href="https://alice.example/POST">x</a>',
    "with a slash": f'<a href="{TARGET}/">x</a>',
    "with a fragment": f'<a href="{TARGET}#x">x</a>',
    "by http": '<a href="http://alice.example/post">x</a>',
    "in a title": f'<p title="{TARGET}" data-href="{TARGET}">x</p>',
    "its host alone": '<a href="https://alice.example/">x</a>',
    "no address": '<a href="http://[1">x</a><a href>x</a>',
}


@pytest.mark.parametrize("name", NO_LINKS)
def test_other_texts_are_no_link_to_the_target(name: str) -> None:
    """3.2.2: the URL must match exactly; comments, plain text and parts of other URLs don't count."""
    assert said(page(NO_LINKS[name])) is None


async def test_a_target_with_a_fragment_has_to_be_linked_with_it(mentions: Mentions) -> None:
    """The fragment isn't needed to find the page's user, but it must match."""
    await mentions.receive(page(LINK), target=TARGET + "#x")
    assert await mentions.shown() == []
    await mentions.receive(page(f'<a href="{TARGET}#x">x</a>'), target=TARGET + "#x")
    assert await mentions.kinds() == ["mention"]


async def test_relative_links_count_as_browsers_read_them(mentions: Mentions) -> None:
    """They are relative to the page's `base`, or to its URL after redirects."""
    await mentions.receive(page('<base href="https://alice.example/"><a href="post">x</a>'))
    assert await mentions.kinds() == ["mention"]


TEXTS = {
    "JSON value": (json.dumps({"a": [{"b": TARGET}]}), "application/json", True),
    "JSON feed": (json.dumps({"items": [{"external_url": TARGET}]}), "application/feed+json", True),
    "JSON, a part of a value": (json.dumps({"a": f"see {TARGET}"}), "application/json", False),
    "JSON, the name of a member": (json.dumps({TARGET: 1}), "application/json", False),
    "JSON that breaks off": (f'{{"a": "{TARGET}"', "application/json", False),
    "text": (f"I read {TARGET}.", "text/plain", True),
    "text in brackets": (f"[this]({TARGET}), and", "text/markdown; charset=utf-8", True),
    "text, the beginning of another": (f"{TARGET}er {TARGET}/1 {TARGET}?x {TARGET}#x", "text/plain", False),
    "text, the end of another": (f"https://evil.example/?u={TARGET} x{TARGET}", "text/plain", False),
    "XML": (f"<rss><item><link>{TARGET}</link></item></rss>", "application/rss+xml", True),
    "XML, in a comment": (f"<rss><!-- {TARGET} --></rss>", "application/rss+xml", False),
    "XHTML": (page(LINK).decode(), "application/xhtml+xml", True),
    "HTML without a type": (page(LINK).decode(), "", True),
    "HTML that calls itself text": (page(LINK).decode(), "text/plain", True),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_media_type_says_where_to_look(name: str) -> None:
    """3.2.2: a value in JSON, a string in any other text."""
    body, content_type, is_shown = TEXTS[name]
    assert said(body.encode(), content_type) == ("mention" if is_shown else None)


# --- the notification ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prop", "kind", "about"),
    [
        *(("u-in-reply-to", "reply", "in-reply-to"), ("u-like-of", "like", "like-of")),
        *(("u-repost-of", "repost", "repost-of"), ("u-bookmark-of", "bookmark", "bookmark-of")),
        *(("u-follow-of", "follow", "follow-of"), ("u-url-of-something", "mention", "")),
    ],
)
async def test_the_kind_is_what_the_markup_says(mentions: Mentions, prop: str, kind: str, about: str) -> None:
    """Reply, like, repost, bookmark or follow, otherwise a mention; with author, text and target."""
    await mentions.receive(entry(prop))
    (item,) = await mentions.shown()
    assert (item["post-type"], item["url"]) == (kind, mentions.source)
    assert item["author"]["name"] == "Bob"
    assert "Well said" in item["content"]["text"]
    if about:
        assert item[about] == [TARGET]
    else:
        assert item["summary"] == f"mentions {TARGET}"


async def test_an_answer_to_an_invitation_is_an_rsvp(mentions: Mentions) -> None:
    """`p-rsvp` next to `u-in-reply-to`."""
    await mentions.receive(entry().replace(b"<p ", b'<data class="p-rsvp" value="yes">I come</data><p '))
    (item,) = await mentions.shown()
    assert (item["post-type"], item["rsvp"], item["in-reply-to"]) == ("rsvp", "yes", [TARGET])


async def test_a_page_without_microformats_is_shown_by_its_head(mentions: Mentions) -> None:
    """The title is shown, with the site as author."""
    await mentions.receive(page(LINK))
    (item,) = await mentions.shown()
    assert (item["name"], item["author"]["name"]) == ("Bob's page", "bob.test")


async def test_the_context_is_in_refs(mentions: Mentions) -> None:
    """It is the post's own citation of the target."""
    cited = f'<div class="u-like-of h-cite"><a class="u-url p-name" href="{TARGET}">My post</a></div>'
    await mentions.receive(page(f'<div class="h-entry">{cited}<a class="p-author h-card" href="/">Bob</a></div>'))
    (item,) = await mentions.shown()
    assert item["like-of"] == [TARGET]
    assert item["refs"][TARGET]["name"] == "My post"


async def test_only_the_target_is_in_the_notification(mentions: Mentions) -> None:
    """Only the target is in the notification, so no other page is looked up for it."""
    other = '<a class="u-in-reply-to" href="https://third.example/1">x</a><a class="u-like-of" href="https://third.example/2">x</a>'
    await mentions.receive(page(f'<div class="h-entry">{other}{LINK}</div>'))
    (item,) = await mentions.shown()
    assert item["post-type"] == "mention"
    assert "third.example" not in json.dumps(item)


async def test_the_shown_post_is_sanitised(mentions: Mentions) -> None:
    """4: no script of the source runs in an app."""
    evil = '<script>alert(1)</script><img src=x onerror=alert(1)><a href="javascript:alert(1)">x</a>'
    await mentions.receive(entry(text=evil))
    (item,) = await mentions.shown()
    assert not [word for word in ("<script", "onerror", "javascript:") if word in json.dumps(item)]


async def test_it_comes_in_unread_at_the_time_it_was_received(mentions: Mentions) -> None:
    """The post's own date doesn't matter: it is new to Alice."""
    old = entry().replace(b"<p ", b'<time class="dt-published" datetime="2001-01-01T00:00:00Z"></time><p ')
    await mentions.receive(old)
    (item,) = await mentions.shown()
    assert item["published"] > "2002"
    channels = {one.uid: one for one in await mentions.it.channels.list("alice")}
    assert channels["notifications"].unread == 1


async def test_other_users_dont_get_it(mentions: Mentions) -> None:
    """Each user has their own notifications."""
    await mentions.receive(entry())
    assert await mentions.shown("bob") == []


# --- updates and deletions (3.2.4) --------------------------------------------------------------------------------


async def test_the_same_pair_again_is_an_update(mentions: Mentions) -> None:
    """There is no second notification: the new version replaces the old one, and the read state stays."""
    await mentions.receive(entry(text="First words"))
    (before,) = await mentions.shown()
    mentions.it.clock.advance(60)
    await mentions.receive(entry("u-like-of", text="Second thoughts"))
    (after,) = await mentions.shown()
    assert (after["_id"], after["published"]) == (before["_id"], before["published"])
    assert "Second thoughts" in after["content"]["text"]
    assert (after["post-type"], after.get("in-reply-to")) == ("like", None)


async def test_each_pair_of_source_and_target_is_one(mentions: Mentions) -> None:
    """Both URLs identify a pair; a fragment of the source doesn't make another page."""
    both = page(f'{LINK}<a href="https://alice.example/2">x</a>')
    mentions.serve(both)
    mentions.serve(both, path="/2")
    for path in ("/1", "/2", "/2#x"):
        for target in (TARGET, "https://alice.example/2"):
            assert await mentions.send(mentions.site.url(path, "bob.test"), target) == 202
    await mentions.look()
    assert len(await mentions.shown()) == 4


@pytest.mark.parametrize("how", ["410", "no link"])
async def test_a_source_that_is_gone_or_has_no_link_deletes(mentions: Mentions, how: str) -> None:
    """The mention is deleted when it is sent again. With the link back and sent again, it is shown again."""
    await mentions.receive(entry())
    mentions.it.clock.advance(60)
    if how == "410":
        await mentions.receive(b"gone", status=410)
    else:
        await mentions.receive(page("nothing of it any more"))
    assert await mentions.shown() == []
    why = {"410": "the source is gone", "no link": "the source has no link to the target"}[how]
    assert ((await mentions.only()).state, (await mentions.only()).why) == ("deleted", why)
    mentions.it.clock.advance(60)
    await mentions.receive(entry(text="Here again"))
    (item,) = await mentions.shown()
    assert "Here again" in item["content"]["text"]


async def test_saved_mentions_stay_saved(mentions: Mentions) -> None:
    """A deletion removes it only from notifications."""
    await mentions.receive(entry())
    alice = await mentions.it.grant("alice", "read", "follow", "channels")
    (item,) = await mentions.shown()
    form = {"action": "timeline", "method": "save", "channel": "notifications", "entry": item["_id"]}
    await mentions.it.client.post("/microsub", data=form, headers={"authorization": f"Bearer {alice}"})
    await mentions.receive(b"gone", status=410)
    assert await mentions.shown() == []
    assert len(await mentions.shown(uid=SAVED)) == 1


@pytest.mark.parametrize("status", [404, 403, 500, 503, 401, 429])
async def test_other_failures_delete_nothing(mentions: Mentions, status: int) -> None:
    """The mention stays until the source is gone."""
    await mentions.receive(entry())
    await mentions.receive(b"no", status=status)
    for _ in range(10):
        mentions.it.clock.advance(PAUSES[-1])
        await mentions.look()
    assert await mentions.kinds() == ["reply"]
    assert (await mentions.only()).state == "shown"


async def test_removed_mentions_stay_away(mentions: Mentions) -> None:
    """An update doesn't restore an item that the user has removed."""
    await mentions.receive(entry())
    alice = await mentions.it.grant("alice", "read", "channels", "follow")
    (item,) = await mentions.shown()
    form = {"action": "timeline", "method": "remove", "channel": "notifications", "entry": item["_id"]}
    reply = await mentions.it.client.post("/microsub", data=form, headers={"authorization": f"Bearer {alice}"})
    assert reply.status_code == 200
    await mentions.receive(entry(text="Look again"))
    assert await mentions.shown() == []


# --- tries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 503, 429, 408])
async def test_an_absent_source_is_retried_six_times(mentions: Mentions, status: int) -> None:
    """After six retries in a day, the webmention has failed; sent again, it starts from the beginning."""
    await mentions.receive(b"later", status=status)
    for _ in range(200):
        mentions.it.clock.advance(600)
        await mentions.look()
    assert mentions.site.count("/1") == 1 + len(PAUSES)
    assert ((await mentions.only()).state, (await mentions.only()).why) == ("failed", f"the source answered {status}")
    await mentions.receive(entry())
    assert await mentions.kinds() == ["reply"]


@pytest.mark.parametrize("after", ["\xb2\xb3", "soon", "9" * 400])
async def test_an_invalid_retry_after_is_ignored(mentions: Mentions, after: str) -> None:
    """An invalid `Retry-After` is ignored."""
    mentions.site.serve("/1", Answer(b"", 503, headers=[("Retry-After", after)]))
    assert await mentions.send() == 202
    await mentions.look()
    assert (await mentions.only()).why == "the source answered 503"


async def test_a_source_that_comes_back_is_shown(mentions: Mentions) -> None:
    """It is shown after the next retry, which `Retry-After` may delay."""
    mentions.site.serve("/1", Answer(b"", 503, headers=[("Retry-After", "3600")]))
    assert await mentions.send() == 202
    await mentions.look()
    mentions.serve(entry())
    mentions.it.clock.advance(600)
    await mentions.look()
    assert await mentions.shown() == []
    mentions.it.clock.advance(3600)
    await mentions.look()
    assert await mentions.kinds() == ["reply"]


@pytest.mark.parametrize("status", [404, 403, 451])
async def test_a_missing_page_is_requested_once(mentions: Mentions, status: int) -> None:
    """A missing page isn't requested again."""
    await mentions.receive(b"no", status=status)
    for _ in range(10):
        mentions.it.clock.advance(PAUSES[-1])
        await mentions.look()
    assert mentions.site.count("/1") == 1
    assert (await mentions.only()).state == "failed"


# --- approval -----------------------------------------------------------------------------------------------------


async def test_unapproved_webmentions_arent_shown(mentions: Mentions) -> None:
    """4: moderation is optional; updates of approved mentions show at once."""
    await mentions.set(approval=True)
    await mentions.receive(entry())
    assert await mentions.shown() == []
    held = await mentions.only()
    assert (held.state, held.kind, held.author, held.title) == ("held", "reply", "Bob", "Well said")
    await mentions.it.mentions.order("alice", held.id, "approved", mentions.it.now)
    await mentions.look()
    assert await mentions.kinds() == ["reply"]
    await mentions.receive(entry("u-like-of"))
    assert await mentions.kinds() == ["like"]


async def test_rejected_mentions_stay_away_and_deleted_may_return(mentions: Mentions) -> None:
    """A rejected one stays away, without notice to the sender. A deleted one returns when it is sent again."""
    await mentions.receive(entry())
    mention = await mentions.only()
    await mentions.it.mentions.order("alice", mention.id, "withdrawn", mentions.it.now)
    await mentions.look()
    assert await mentions.shown() == []
    await mentions.receive(entry())
    assert await mentions.kinds() == ["reply"]
    await mentions.it.mentions.order("alice", mention.id, "rejected", mentions.it.now)
    await mentions.look()
    assert await mentions.shown() == []
    asked = mentions.site.count("/1")
    await mentions.receive(entry())
    assert await mentions.shown() == []
    assert mentions.site.count("/1") == asked


async def test_webmentions_of_one_site_are_processed_in_turn(mentions: Mentions) -> None:
    """Many webmentions from one site are processed one after the other, and none is left out."""
    for number in range(25):
        source = mentions.serve(entry(text=f"number {number}"), path=f"/{number}")
        assert await mentions.send(source) == 202
        if number % 20 == 19:
            mentions.it.clock.advance(61)
    for _ in range(2):
        mentions.it.clock.advance(5)
        await mentions.look()
    assert len(await mentions.shown()) == 25


async def test_a_bug_in_a_check_is_logged_and_delays_no_other(
    mentions: Mentions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is repeated ten minutes later."""
    verifier = mentions.it.verifier
    verify = verifier._verify

    async def fail(user: str, mention_id: str) -> float | None:
        if user == "alice":
            raise RuntimeError("a bug")
        return await verify(user, mention_id)

    monkeypatch.setattr(verifier, "_verify", fail)
    assert await mentions.send(mentions.serve(entry())) == 202
    about_bob = "https://people.example/bob"
    assert await mentions.send(mentions.serve(entry(target=about_bob), path="/bob"), about_bob) == 202
    with structlog.testing.capture_logs() as lines:
        work = asyncio.create_task(verifier.run())
        await wait_until(lambda: any(line["event"] == "a webmention's source was checked" for line in lines))
        await wait_until(lambda: any(line["event"] == "work failed" for line in lines))
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    monkeypatch.undo()
    mentions.it.clock.advance(590)
    await mentions.look()
    assert await mentions.shown() == []
    mentions.it.clock.advance(20)
    await mentions.look()
    assert await mentions.kinds() == ["reply"]


async def test_pages_keep_their_content_type_as_html(mentions: Mentions) -> None:
    """This includes parameters and any case."""
    await mentions.receive(entry(), HTML.upper())
    assert await mentions.kinds() == ["reply"]
