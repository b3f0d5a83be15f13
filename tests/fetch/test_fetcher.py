"""Fetching from a publisher on loopback: results, limits, redirects, guard, TLS, proxy."""

from __future__ import annotations

import ast
import asyncio
import base64
import gzip
import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

import microsub
from microsub.fetch import (
    Fetched,
    Fetcher,
    FetchFailed,
    FetchRequest,
    FetchSettings,
    NotModified,
    network,
)
from microsub.fetch.body import Room
from microsub.fetch.fetcher import Answered, Sending
from microsub.fetch.network import Guard, ThreadedResolver
from microsub.fetch.transport import Connection
from microsub.fetch.values import HopError
from microsub.model.settings import UserAgent
from tests.support.web import Answer, Asked, Publisher, certificate, publisher

LOOPBACK = (ip_network("127.0.0.0/8"),)


async def here(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def fetcher(limits: Mapping[str, Any] | None = None, **parts: object) -> Fetcher:
    settings = FetchSettings(allow_private_networks=LOOPBACK, **(limits or {}))
    return Fetcher(settings, **{"resolver": here, **parts})  # type: ignore[arg-type]


async def fetched(url: str, **parts: object) -> Fetched:
    result = await fetcher(**parts).fetch(FetchRequest(url))  # type: ignore[arg-type]
    assert isinstance(result, Fetched), result
    return result


async def failed(url: str, **parts: object) -> FetchFailed:
    result = await fetcher(**parts).fetch(FetchRequest(url))  # type: ignore[arg-type]
    assert isinstance(result, FetchFailed), result
    return result


# --- requests ------------------------------------------------------------------------------------------------------


async def test_the_request_is_modest(site: Publisher) -> None:
    """The request has a User-Agent with software, URL and subscribers, but no cookies and no Referer, even after
    redirects.
    """
    site.serve("/old", Answer(status=302, headers=[("Location", "/new"), ("Set-Cookie", "a=b; Path=/")]))
    site.serve("/new", Answer(b"x", headers=[("Set-Cookie", "c=d; Path=/")]))
    client = fetcher()
    for _ in range(2):
        await client.fetch(FetchRequest(site.url("/old"), subscribers=12))
    assert len(site.asked) == 4
    for asked in site.asked:
        assert asked.headers["user-agent"].startswith("microsub-server/")
        assert "+http" in asked.headers["user-agent"]
        assert "12 subscribers" in asked.headers["user-agent"]
        assert asked.headers["accept-encoding"] == "gzip, deflate"
        assert not {"cookie", "referer", "authorization", "if-none-match", "if-modified-since"} & set(asked.headers)


@pytest.mark.parametrize(
    ("way", "begins"), [("browser", "Mozilla/5.0 (X11"), ("compatible", "Mozilla/5.0 (compatible; microsub-server/")]
)
async def test_other_user_agents(site: Publisher, way: UserAgent, begins: str) -> None:
    """For publishers who refuse feed readers; also after a redirect."""
    site.serve("/old", Answer(status=302, headers=[("Location", "/new")]))
    site.serve("/new", Answer(b"x"))
    await fetcher().fetch(FetchRequest(site.url("/old"), user_agent=way))
    assert [asked.headers["user-agent"].startswith(begins) for asked in site.asked] == [True, True]


async def test_a_304_may_bring_new_validators(site: Publisher) -> None:
    """The new validators replace the old ones."""
    site.serve("/", Answer(status=304, headers=[("ETag", '"new"')]))
    again = await fetcher().fetch(FetchRequest(site.url("/"), '"old"', "then"))
    assert again == NotModified(site.url("/"), '"new"', "then", None)
    assert (await failed(site.url("/"))).status == 304  # not requested


async def test_international_addresses(site: Publisher) -> None:
    """The host is sent in punycode, the path in escaped UTF-8."""
    site.serve("/%C3%BCber", Answer(b"x"))
    result = await fetched(site.url("/über", "bücher.test"))
    assert site.asked[0].host == f"xn--bcher-kva.test:{site.port}"
    assert result.final_url == f"http://xn--bcher-kva.test:{site.port}/%C3%BCber"


async def test_credentials_are_sent_and_never_shown(site: Publisher) -> None:
    """Basic auth is sent only to the host that it belongs to; results, base URLs and messages don't contain it."""
    url = f"http://ann:s3cret@a.test:{site.port}/feed"
    site.serve("/feed", Answer(status=302, headers=[("Location", "/moved")]))
    site.serve("/moved", Answer(b"x"))
    result = await fetched(url)
    secret = base64.b64encode(b"ann:s3cret").decode()
    assert [asked.headers.get("authorization") for asked in site.asked] == [f"Basic {secret}"] * 2
    assert result.final_url == f"http://a.test:{site.port}/moved"
    site.serve("/moved", Answer(status=307, headers=[("Location", f"http://b.test:{site.port}/else")]))
    failure = await failed(url)
    assert "authorization" not in site.asked[-1].headers
    assert "s3cret" not in f"{failure.url} {failure.detail}"
    assert "s3cret" not in repr(await failed("http://ann:s3cret@a.test:1/"))
    assert "s3cret" not in repr(await failed("ftp://ann:s3cret@a.test/"))


@pytest.mark.parametrize(
    "url",
    ["http://ann:s3cret@a\u2100.test/", "http://ann:s3cret@a.test:port/", "http://ann:s3cret@[::1/",
     "http://ann:s3cret@0177.1.1.1/", "http://ann:s3cret@a.test/\x01"],
)  # fmt: skip
async def test_malformed_urls_keep_their_secrets(url: str) -> None:
    """Python's own error texts quote malformed URLs; ours don't."""
    assert "s3cret" not in (await failed(url)).detail


# --- results -------------------------------------------------------------------------------------------------------


async def test_a_document(site: Publisher) -> None:
    """A result has status, headers, type, freshness and the decompressed body."""
    fields = [("Content-Encoding", "gzip"), ("Content-Type", "text/xml; charset=x"), ("Cache-Control", "max-age=9")]
    site.serve("/", Answer(gzip.compress(b"<feed/>"), headers=[*fields, ("Link", "<a>"), ("Link", "<b>")]))
    result = await fetched(site.url("/"))
    assert (result.status, result.body, result.content_type) == (200, b"<feed/>", "text/xml; charset=x")
    assert (result.max_age, result.moved_to, result.headers["link"]) == (9.0, None, "<a>, <b>")


REFUSALS = {
    "missing": (404, [], "http", None),
    "broken": (500, [("Retry-After", "9")], "http", 9.0),
    "gone": (410, [], "gone", None),
    "too many": (429, [], "throttled", None),
    "too many, wait": (429, [("Retry-After", "120")], "throttled", 120.0),
    "busy": (503, [], "http", None),
    "busy, wait": (503, [("Retry-After", "60")], "throttled", 60.0),
    "nothing": (204, [], "http", None),
    "a redirect without target": (301, [], "http", None),
    "a choice": (300, [("Location", "/x")], "http", None),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_refusals_are_values(site: Publisher, case: str) -> None:
    """Every status without a document becomes a reason, with the pause that the publisher requests."""
    status, fields, reason, retry_after = REFUSALS[case]
    site.serve("/", Answer(status=status, headers=fields))
    failure = await failed(site.url("/"))
    assert (failure.status, failure.reason, failure.retry_after) == (status, reason, retry_after)
    assert str(status) in failure.detail


# --- redirects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "moved"),
    [([301], True), ([308, 301], True), ([302], False), ([301, 302], False), ([307, 301], False), ([303], False)],
)
async def test_only_permanent_hops_move_a_feed(site: Publisher, statuses: list[int], moved: bool) -> None:
    """One temporary hop makes the whole redirect temporary."""
    for place, status in enumerate(statuses):
        site.serve(f"/{place}", Answer(status=status, headers=[("Location", f"/{place + 1}")]))
    end = site.serve(f"/{len(statuses)}", Answer(b"x", headers=[("ETag", "e")]))
    result = await fetched(site.url("/0"))
    assert result.final_url == end
    assert result.moved_to == (end if moved else None)
    site.serve(f"/{len(statuses)}", Answer(status=304))
    again = await fetcher().fetch(FetchRequest(site.url("/0"), "e"))
    assert isinstance(again, NotModified)
    assert again.moved_to == (end if moved else None)


async def test_a_move_keeps_credentials(site: Publisher) -> None:
    """If a protected feed moves on the same host, the new address keeps the credentials."""
    site.serve("/0", Answer(status=301, headers=[("Location", "/1")]))
    site.serve("/1", Answer(b"x"))
    result = await fetched(f"http://u:p@a.test:{site.port}/0")
    assert result.moved_to == f"http://u:p@a.test:{site.port}/1"


# --- the guard -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.1", "0x7f000001", "2130706433", "0177.0.0.1"])
async def test_odd_names_of_loopback(site: Publisher, host: str) -> None:
    """The system's resolver turns such a name into 127.0.0.1, and the result is checked."""
    result = await Fetcher(FetchSettings()).fetch(FetchRequest(site.url("/", host)))
    assert isinstance(result, FetchFailed)
    assert result.told in {"dns", "bad_url"}
    assert site.asked == []


async def test_internal_names_look_unknown() -> None:
    """Internal names and unknown names get the same error, so that nobody can find out which internal names exist."""

    async def resolver(host: str, _port: int) -> list[str]:
        if host == "inside.test":
            return ["10.0.0.1"]
        if host == "empty.test":
            return []
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    client = Fetcher(FetchSettings(), resolver=resolver)
    told = set()
    for name in ("inside", "empty", "nobody"):
        result = await client.fetch(FetchRequest(f"http://{name}.test/"))
        assert isinstance(result, FetchFailed)
        told.add((result.told, result.detail.replace(name, "")))
    assert len(told) == 1
    await client.aclose()


@pytest.mark.parametrize("port", [22, 81, 6379, 9200])
async def test_ports_of_services_are_refused_at_every_hop(site: Publisher, port: int) -> None:
    """The port is refused in the first URL, in redirects and in listed networks; the error names the port."""
    site.serve("/away", Answer(status=302, headers=[("Location", f"http://blog.test:{port}/")]))
    for url in (f"http://blog.test:{port}/", f"http://127.0.0.1:{port}/", site.url("/away", "blog.test")):
        result = await failed(url)
        assert result.reason == "blocked"
        assert f"port {port} can't be used" in result.detail


async def test_own_addresses_are_limited_to_website_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A public address of this machine: only 80 and 443 for hosts of its users, and what the admin lists."""
    mine = "8.8.4.4"
    monkeypatch.setattr(network, "is_own", lambda address: str(address) == mine)

    async def public(host: str, _port: int) -> Sequence[str]:
        return [mine] if host.endswith("me.test") else ["8.8.8.8"]

    async def is_ours(host: str) -> bool:
        return host == "me.test"

    guard = Guard(public, (), is_ours)
    for port in (80, 443):
        assert [str(address) for address in await guard.addresses("me.test", port)] == [mine]
    for host, port in (("me.test", 8080), ("other.me.test", 80), (mine, 443)):
        with pytest.raises(HopError, match="is on this server's own machine"):
            await guard.addresses(host, port)
    assert await guard.addresses("public.test", 8080), "others' are asked"
    assert await Guard(public, (ip_network("8.8.4.0/24"),)).addresses("other.me.test", 8080)


async def test_requests_for_strangers_use_only_website_ports(site: Publisher) -> None:
    """Requests for strangers go only to ports 80 and 443, or to listed networks, at every hop."""
    names = {"public.test": "8.8.8.8", "listed.test": "127.0.0.1"}

    async def known(host: str, _port: int) -> Sequence[str]:
        return [names[host]]

    client = fetcher(resolver=known)
    site.serve("/", Answer(b"x"))
    site.serve("/away", Answer(status=302, headers=[("Location", "http://public.test:8080/")]))
    assert isinstance(await client.send(Sending(site.url("/", "listed.test"), web_ports=True)), Answered)
    for url in ("http://public.test:8080/", site.url("/away", "listed.test")):
        answer = await client.send(Sending(url, web_ports=True))
        assert isinstance(answer, FetchFailed)
        assert "port 8080 can't be used by strangers" in answer.detail


async def test_a_name_with_good_and_bad_addresses(site: Publisher) -> None:
    """Only the good addresses are tried, the next one if the first doesn't answer."""

    async def mixed(_host: str, _port: int) -> Sequence[str]:
        return ["10.0.0.1", "127.0.0.9", "127.0.0.1"]

    site.serve("/", Answer(b"x"))
    assert (await fetched(site.url("/", "mixed.test"), resolver=mixed)).body == b"x"


async def test_the_systems_resolver() -> None:
    """It returns IP addresses unchanged and raises OSError for names that don't exist."""
    look_up = ThreadedResolver(width=1)
    assert await look_up("127.0.0.1", 80) == ["127.0.0.1"]
    with pytest.raises(OSError, match=r"."):
        await look_up("nothing.invalid", 80)
    assert await look_up("127.0.0.1", 80) == ["127.0.0.1"]


# --- limits --------------------------------------------------------------------------------------------------------


def test_one_fetcher_serves_many_event_loops() -> None:
    """Names that wait for a thread and bodies that wait for room wait in their own event loop."""
    look_up, room = ThreadedResolver(width=1), Room(total=100, free=0)
    begin = threading.Barrier(3)

    async def work() -> None:
        begin.wait(60)
        names = [look_up("127.0.0.1", 80) for _ in range(5)]
        assert await asyncio.gather(*names) == [["127.0.0.1"]] * 5
        for _ in range(50):
            share = room.share()
            await share.grow(60)
            await asyncio.sleep(0)
            share.settle()
            share.close()

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: asyncio.run(work()), range(3)))
    assert room.used == 0


async def test_silence_ends_a_fetch(site: Publisher) -> None:
    """A fetch times out before the head and in the middle of the body."""
    limits = {"total": 3600, "idle": 0.1}
    for answer in (Answer(b"half", hang=True, head_only_length=99), Answer(hang=True, head_only_length=9)):
        site.serve("/", answer)
        assert (await failed(site.url("/"), limits=limits)).reason == "timeout"

    async def never(_asked: Asked) -> Answer:
        await asyncio.Event().wait()
        return Answer()

    site.serve("/", never)
    assert (await failed(site.url("/"), limits=limits)).reason == "timeout"


RUBBISH = {
    "no HTTP": (b"SSH-2.0-SECRET\r\n\r\n", "illegal status line"),
    "a broken header": (b"HTTP/1.1 302 Found\r\nLocation: /x?token=SECRET\x00\r\n\r\n", "illegal header line"),
    "a broken cookie": (b"HTTP/1.1 200 OK\r\nSet-Cookie: sid='SECRET'\x00\r\n\r\n", "illegal header line"),
    "broken chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nSECRET\r\n", "illegal chunk header"),
    "a broken end of a chunk": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxSECRET",
        "malformed chunk footer",
    ),
}


@pytest.mark.parametrize("proxied", [False, True], ids=["directly", "by a proxy"])
@pytest.mark.parametrize("name", RUBBISH)
async def test_an_error_quotes_no_reply(site: Publisher, name: str, proxied: bool) -> None:
    """A reply may contain secrets: the error for followers and the log describes the fault without any of its bytes."""
    data, problem = RUBBISH[name]

    async def answer(asked: Asked) -> None:
        await asked.send(data)

    site.serve("/", answer)
    site.serve(site.url("/"), answer)  # as a request to a proxy
    settings = FetchSettings(allow_private_networks=LOOPBACK, proxy=site.url("") if proxied else None)
    client = Fetcher(settings, resolver=here)
    failure = await client.fetch(FetchRequest(site.url("/")))
    await client.aclose()
    assert isinstance(failure, FetchFailed)
    assert (failure.reason, failure.detail) == ("protocol", f"the reply was cut off or isn't valid HTTP: {problem}")


async def test_many_at_once(site: Publisher) -> None:
    """Hundreds of fetches run at the same time."""
    together = asyncio.Event()

    async def answer(_asked: Asked) -> Answer:
        if site.in_flight >= 300:
            together.set()
        await together.wait()
        return Answer(b"x")

    site.serve("/", answer)
    client = fetcher()
    results = await asyncio.gather(
        *(client.fetch(FetchRequest(site.url("/", f"h{number}.test"))) for number in range(300))
    )
    assert all(isinstance(result, Fetched) for result in results)
    assert site.most_in_flight == 300


class Pausing(asyncio.Transport):
    """A transport that records whether reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


async def test_unread_bodies_are_not_received() -> None:
    """Only a small part of a body is read ahead; the rest is read when there is room for it."""
    connection, transport = Connection(10), Pausing()
    connection.connection_made(transport)
    connection.data_received(b"a" * 100_000)
    assert transport.reading
    connection.data_received(b"b" * 100_000)
    assert not transport.reading
    assert await connection.read(65_536) == b"a" * 65_536
    assert not transport.reading
    assert await connection.read(65_536) == b"a" * 34_464 + b"b" * 31_072
    assert transport.reading


# --- TLS and proxy -------------------------------------------------------------------------------------------------


async def test_certificates_are_verified(tmp_path: Path) -> None:
    """A trusted certificate for exactly this name passes; another name or an untrusted certificate fails."""
    server, client = certificate(tmp_path, "good.test")
    async with publisher(tls=server) as site:
        site.serve("/", Answer(b"x"))
        assert (await fetched(site.url("/", "good.test"), ssl_context=client)).body == b"x"
        assert (await fetched(site.url("/", "good.test."), ssl_context=client)).body == b"x"
        wrong = await failed(site.url("/", "other.test"), ssl_context=client)
        untrusted = await failed(site.url("/", "good.test"))
        assert (wrong.reason, untrusted.reason) == ("tls", "tls")
        assert "certificate" in wrong.detail


async def test_an_outgoing_proxy(site: Publisher) -> None:
    """The proxy is exempt from the check; hosts requested through it are resolved and checked first."""
    looked_up: list[str] = []

    async def public(host: str, _port: int) -> Sequence[str]:
        looked_up.append(host)
        return {"inside.test": ["10.0.0.1"], "mixed.test": ["8.8.8.8", "10.0.0.1"]}.get(host, ["8.8.8.8"])

    settings = FetchSettings(proxy=f"http://me:pass@127.0.0.1:{site.port}")
    site.handlers["http://blog.test/feed"] = lambda _asked: Answer(b"by proxy")
    client = Fetcher(settings, resolver=public)
    result = await client.fetch(FetchRequest("http://blog.test/feed"))
    assert isinstance(result, Fetched)
    assert result.body == b"by proxy"
    assert site.asked[0].headers["proxy-authorization"] == "Basic " + base64.b64encode(b"me:pass").decode()
    for host in ("inside.test", "mixed.test"):
        refused = await client.fetch(FetchRequest(f"http://{host}/"))
        assert isinstance(refused, FetchFailed)
        assert (refused.reason, refused.told) == ("private", "dns")
    assert len(site.asked) == 1
    assert looked_up == ["blog.test", "inside.test", "mixed.test"]
    through = await client.fetch(FetchRequest("https://blog.test/"))
    assert isinstance(through, FetchFailed)
    assert through.reason == "connect"
    await client.aclose()
    nobody = Fetcher(FetchSettings(proxy="http://127.0.0.1:9"), resolver=public)
    down = await nobody.fetch(FetchRequest("http://blog.test/feed"))
    assert isinstance(down, FetchFailed)
    # Followers of the feed read this message, which must not name the proxy's address.
    assert (down.reason, down.detail) == ("connect", "the outgoing proxy can't be reached: Connection refused")
    await nobody.aclose()


async def test_a_proxy_of_an_unknown_kind() -> None:
    """An unsupported proxy scheme is refused when the fetcher is created, not at the first fetch."""
    with pytest.raises(ValueError, match="socks5"):
        Fetcher(FetchSettings(proxy="socks5://127.0.0.1:1080"))


def test_no_sentence_about_a_failed_fetch_names_a_setting() -> None:
    """Readers see these sentences; what an admin can do is in `private_hint`."""
    packages = ("fetch", "cache", "discovery", "parsing", "polling", "formats", "notices")
    for path in (one for name in packages for one in (Path(microsub.__file__).parent / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
                named = [
                    text for text in texts if isinstance(text, str) and ("MICROSUB_" in text or "Settings." in text)
                ]
                assert not named, f"{path}: {named}"
