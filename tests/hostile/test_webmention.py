"""Hostile senders of webmentions and hostile sources change nothing that they shouldn't, and cost little."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from ipaddress import ip_network

import httpx
import pytest

from microsub.configuration.model import InstanceSettings, MentionPolicy
from microsub.fetch import Fetcher, FetchSettings, HostPace, SendLimits
from microsub.redis.protocol import Redis
from microsub.server.worker import mention_verifier
from microsub.webmention import verification
from microsub.webmention.receiver import MENTIONS_OF_NETWORK, MENTIONS_OF_SITE, MENTIONS_OF_USER
from microsub.webmention.store import MOST_KEPT, MOST_WAITING
from tests.hostile.busy import FEEDS, PAGES
from tests.support.mentions import HTML, TARGET, Mentions, entry, mentioning, page
from tests.support.waiting import wait_until
from tests.support.web import Answer, Asked

LINK = f'<a href="{TARGET}">a post</a>'


@pytest.fixture
async def mentions(redis: Redis) -> AsyncIterator[Mentions]:
    async with mentioning(redis) as made:
        yield made


async def state_of(mentions: Mentions) -> tuple[str, str]:
    mention = await mentions.only()
    return mention.state, mention.why


@pytest.mark.parametrize("name", [*PAGES, *FEEDS])
async def test_heavy_documents_delay_no_other_webmention(mentions: Mentions, name: str) -> None:
    """With the link at the beginning they are shown from the part read, or fail; the next webmention is processed."""
    body = page(LINK) + {**PAGES, **FEEDS}[name].encode()
    await mentions.receive(body)
    assert (await mentions.only()).state in {"shown", "failed", "deleted"}
    good = mentions.serve(entry(text="the good one"), path="/good")
    assert await mentions.send(good) == 202
    await mentions.look()
    assert "the good one" in json.dumps(await mentions.shown())


async def test_large_sources_are_left(mentions: Mentions) -> None:
    """Nothing beyond 1 MB is read, compressed or not, and nothing is deleted."""
    await mentions.receive(entry())
    await mentions.receive(page("x" * 1_000_001))
    assert await state_of(mentions) == ("shown", "the document is larger than 1 MB")
    packed = gzip.compress(page("x" * 50_000_000))
    headers = [("Content-Type", HTML), ("Content-Encoding", "gzip")]
    mentions.site.serve("/1", Answer(packed, headers=headers))
    assert await mentions.send() == 202
    await mentions.look()
    assert await state_of(mentions) == ("shown", "the document is larger than 1 MB")
    assert len(await mentions.shown()) == 1


async def test_sources_that_do_not_end_are_left(mentions: Mentions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time limit ends them, while another source of the same user is shown."""
    monkeypatch.setattr(verification, "LIMITS", SendLimits(total=0.5, body=1_000_000, redirects=20))

    async def crumbs(asked: Asked) -> None:
        await asked.head("Content-Type: text/html")
        for _ in range(1000):
            await asked.send(b"<p>")
            if await asked.reader.read(1) == b"":
                return

    mentions.site.serve("/hung", Answer(b"", hang=True, head_only_length=100))
    mentions.site.serve("/crumbs", crumbs)
    good = mentions.serve(entry())
    for path in ("/hung", "/crumbs"):
        assert await mentions.send(mentions.site.url(path, "slow.test")) == 202
    assert await mentions.send(good) == 202
    await mentions.look()
    assert await mentions.kinds() == ["reply"]
    waiting = [one for one in await mentions.it.mentions.all_of("alice") if one.state == "new"]
    assert {one.tries for one in waiting} == {1}


async def test_a_loop_of_redirects_ends(mentions: Mentions) -> None:
    """It ends after twenty; the webmention has failed, and isn't retried."""
    mentions.site.serve("/1", Answer(status=302, headers=[("Location", "/1")]))
    assert await mentions.send() == 202
    await mentions.look()
    assert await state_of(mentions) == ("failed", "more than 20 redirects")
    assert mentions.site.count("/1") == 21


async def test_private_networks_get_no_request(mentions: Mentions) -> None:
    """Names and addresses of private networks get no request, on any port."""
    settings = FetchSettings(allow_private_networks=())
    fetcher = Fetcher(settings, resolver=mentions.it.resolver)
    mentions.it.verifier._sender = fetcher
    sources = ["http://127.0.0.1/1", "http://[::1]/1", "http://10.0.0.1/", "http://169.254.169.254/latest/"]
    for source in [*sources, "http://inside.test/1", mentions.source]:
        assert await mentions.send(source) == 202
    await mentions.look()
    await mentions.look()
    await fetcher.aclose()
    assert {one.state for one in await mentions.it.mentions.all_of("alice")} == {"failed"}
    assert mentions.site.asked == []


async def test_a_redirect_into_a_private_network_is_not_followed(mentions: Mentions) -> None:
    """Each hop is checked."""
    settings = FetchSettings(allow_private_networks=(ip_network("127.0.0.1/32"),))
    fetcher = Fetcher(settings, resolver=mentions.it.resolver)
    mentions.it.verifier._sender = fetcher
    secret = mentions.serve(entry(), path="/secret").replace("bob.test", "127.0.0.2")
    mentions.site.serve("/1", Answer(status=302, headers=[("Location", secret)]))
    assert await mentions.send() == 202
    await mentions.look()
    await fetcher.aclose()
    assert (await mentions.only()).state == "failed"
    assert mentions.site.count("/secret") == 0


@pytest.mark.parametrize("source", ["https://reader.example/u/alice", "https://READER.example/webmention?a=1"])
async def test_a_source_on_this_server_is_refused(mentions: Mentions, source: str) -> None:
    """The server would request itself."""
    assert await mentions.send(source) == 400


async def test_a_flood_of_one_host_is_stopped_at_the_door(mentions: Mentions) -> None:
    """Other hosts aren't affected; a minute later the host may send again."""
    sources = [f"https://spam.example/{number}" for number in range(MENTIONS_OF_SITE.most + 5)]
    statuses = [await mentions.send(source) for source in sources]
    assert statuses == [202] * MENTIONS_OF_SITE.most + [429] * 5
    reply = await mentions.post({"source": sources[0], "target": TARGET})
    assert reply.headers["retry-after"] == "60"
    assert await mentions.send("https://other.example/1") == 202
    mentions.it.clock.advance(61)
    assert await mentions.send(sources[0]) == 202


async def test_a_flood_of_one_network_is_stopped_at_the_door(mentions: Mentions) -> None:
    """Refused requests count too; another network isn't affected."""

    async def statuses(address: str, most: int) -> set[int]:
        way = httpx.ASGITransport(mentions.it.app, client=(address, 1))
        async with httpx.AsyncClient(transport=way, base_url="https://reader.example") as client:
            form = {"source": "nonsense", "target": TARGET}
            return {(await client.post("/webmention", data=form)).status_code for _ in range(most)}

    assert await statuses("8.8.8.8", MENTIONS_OF_NETWORK.most) == {400}
    assert await statuses("8.8.8.8", 1) == {429}
    assert await statuses("9.9.9.9", 1) == {400}


async def test_a_flood_for_one_user_leaves_others_alone(mentions: Mentions) -> None:
    """Any number of hosts may take part; webmentions to Bob are processed in the same turn."""
    statuses = [await mentions.send(f"https://h{number}.example/") for number in range(MENTIONS_OF_USER.most + 1)]
    assert statuses[-2:] == [202, 429]
    about_bob = "https://people.example/bob"
    source = mentions.serve(entry(target=about_bob), path="/bob")
    assert await mentions.send(source, about_bob) == 202
    await mentions.it.verifier.visit_due(mentions.it.now)
    await mentions.it.stages.run_once()
    assert len(await mentions.shown("bob")) == 1


async def test_many_webmentions_of_one_slow_host_delay_no_other(mentions: Mentions) -> None:
    """Another host's is shown while the slow host's check goes on. The slow one isn't asked twice; once it replies, the
    rest follows.
    """
    pace = HostPace(at_once=4, interval=0)
    verifier = mention_verifier(mentions.it, mentions.it.fetcher, mentions.it.parser, pace)
    replies = asyncio.Event()

    async def slow(_asked: Asked) -> Answer:
        await replies.wait()
        return Answer(entry(text="From the slow host"), headers=[("Content-Type", HTML)])

    for number in range(20):
        mentions.site.serve(f"/slow{number}", slow)
        assert await mentions.send(mentions.site.url(f"/slow{number}", "slow.test")) == 202
    mentions.serve(entry(text="From the other host"))
    assert await mentions.send() == 202

    async def shown() -> list[str]:
        mentions.it.clock.advance(3)
        await mentions.it.stages.run_once()
        return [item["content"]["text"] for item in await mentions.shown()]

    work = asyncio.create_task(verifier.run())
    assert await wait_until(shown) == ["From the other host"]
    assert sum(asked.path.startswith("/slow") for asked in mentions.site.asked) == 1
    replies.set()

    async def all_shown() -> bool:
        return len(await shown()) == 21

    await wait_until(all_shown)
    verifier.stop()
    await work


async def test_the_queue_of_a_user_has_an_end(mentions: Mentions) -> None:
    """Beyond it senders are told to try again later; of processed webmentions, the oldest is forgotten."""
    for number in range(MOST_WAITING):
        assert await mentions.send(f"https://h{number}.example/") == 202
        mentions.it.clock.advance(1)
    reply = await mentions.post({"source": "https://more.example/", "target": TARGET})
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "600")
    assert await mentions.send("https://h7.example/") == 202, "what waits already is an update"
    store, now = mentions.it.mentions, mentions.it.now
    for one in await store.all_of("alice"):
        await store.write("alice", one, one, now)
    mention = await store.get("alice", (await store.all_of("alice"))[0].id)
    assert mention is not None
    from dataclasses import replace

    for number in range(MOST_KEPT - MOST_WAITING + 3):
        await store.write("alice", replace(mention, source=f"https://old{number}.example/"), None, now + number)
    assert len(await store.all_of("alice")) == MOST_KEPT


async def test_blocked_sources_are_dropped_silently(mentions: Mentions) -> None:
    """A block of the site, or of a page above the source; a later block drops updates."""
    await mentions.receive(entry())
    await mentions.it.rules.block("alice", "global", "http://spam.test/", mentions.it.now)
    await mentions.it.rules.block("alice", "notifications", "https://people.test/mallory", mentions.it.now)
    for source in ("http://spam.test/1", "https://people.test/mallory/1"):
        assert await mentions.send(source) == 202
    assert await mentions.send("https://people.test/malloryx/1") == 202
    assert len(await mentions.it.mentions.all_of("alice")) == 2
    await mentions.it.rules.block("alice", "global", mentions.site.url("/", "bob.test"), mentions.it.now)
    assert await mentions.send() == 202
    await mentions.look()
    shown = [one.source for one in await mentions.it.mentions.all_of("alice") if one.state == "shown"]
    assert shown in ([], [mentions.source])
    assert mentions.site.count("/1") == 1


async def test_an_author_who_is_blocked_is_kept_out(mentions: Mentions) -> None:
    """The source names its author, as in all timelines."""
    await mentions.it.rules.block("alice", "global", "http://bob.test/", mentions.it.now)
    elsewhere = mentions.serve(entry(), path="/1").replace("bob.test", "elsewhere.test")
    assert await mentions.send(elsewhere) == 202
    await mentions.look()
    assert await mentions.shown() == []


async def test_the_admins_list_is_refused(mentions: Mentions) -> None:
    """Domains with all their subdomains, and addresses with the pages below these."""
    refused = MentionPolicy(refuse=("spam.example", "https://people.example/mallory"))
    await mentions.it.declared.set_instance(InstanceSettings(webmention=refused))
    mentions.it.effective.forget()
    for source in ("https://spam.example/1", "http://a.b.spam.example/", "https://people.example/mallory/1"):
        assert await mentions.send(source) == 400
    for source in ("https://notspam.example/1", "https://people.example/malloryx"):
        assert await mentions.send(source) == 202


async def test_texts_and_lists_of_a_source_are_bounded(mentions: Mentions) -> None:
    """Long names, texts and lists; the post stays small."""
    many = "".join(f'<img class="u-photo" src="/{number}.jpg">' for number in range(2000))
    long = "word " * 50_000
    body = page(
        f'<div class="h-entry"><h1 class="p-name">{long}</h1><a class="p-author h-card" href="/">{long}</a>'
        f'<a class="u-in-reply-to" href="{TARGET}">x</a><div class="e-content">{long}</div>{many}</div>'
    )
    await mentions.receive(body)
    (item,) = await mentions.shown()
    assert len(json.dumps(item)) < 30_000
    mention = await mentions.only()
    assert len(mention.to_json()) < 1_500


async def test_no_log_line_has_more_of_a_source_than_its_host(
    mentions: Mentions, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sender may put anything into an address."""
    await mentions.receive(entry(), path="/1")
    assert await mentions.send("https://bob.example/secret-draft-key") == 202
    said = capsys.readouterr()
    assert "secret-draft-key" not in said.out + said.err
