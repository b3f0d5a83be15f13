"""Any request to the Google Reader API has an answer of this API, and one that is refused has changed nothing."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import httpx
import pytest

from microsub.greader.api import PATHS, NativeEndpoint
from microsub.redis.protocol import Redis
from microsub.web.types import FORM
from tests.support.invariants import all_keys
from tests.support.native_app import ADDRESS, SITE, NativeApp
from tests.support.reader import Reader
from tests.support.readers import FEED, instance, posts, snapshot
from tests.support.world import World

MARKUP = "%3Cscript%3Ealert(1)%3C/script%3E"
LONG = "x" * 20_000
STREAM = "user/-/state/com.google/"
READ = f"a={STREAM}read"
FIELDS: dict[str, str] = {
    "nothing": "",
    "no names": "=&&=x&&",
    "broken percent-encoding": f"s=%&s=%zz&i=%&i=%1&a=%&{READ}%&r=%f&c=%&quickadd=%%%&dest=user/-/label/%",
    "bytes that are no text": "s=feed/%ff%fe&i=%80&a=user/-/label/%c3&r=%ff&ac=%ff&t=%ff&dest=%ff&quickadd=%ff%fe",
    "control characters": (
        "s=user/-/label/%00%0d%0aSet-Cookie:x&ac=edit&i=%00&a=user/-/label/%0a&dest=user/-/label/%0d%0a&quickadd=%00"
    ),
    "markup": f"s={MARKUP}&i={MARKUP}&a={MARKUP}&ac={MARKUP}&c={MARKUP}&n={MARKUP}&ts={MARKUP}&quickadd={MARKUP}",
    "unknown streams": "s=user/-/state/com.google/never&s=feed/0&a=user/-/state/com.google/never&ac=subscribe",
    "streams without a name": "s=user/-/label/&s=feed/&a=user/-/label/&dest=user/-/label/&ac=unsubscribe",
    "ids of no form": "i=0&i=-1&i=1e15&i=tag:google.com,2005:reader/item/&i=0000000000000000&i=ffffffffffffffff&i=x",
    "huge numbers": f"n={'9' * 400}&ot={'9' * 400}&nt={'9' * 400}&ts={'9' * 400}&c={'9' * 400}&i={'9' * 400}",
    "digits of other scripts": "n=%D9%A3&ot=%D9%A3&nt=%D9%A3&ts=%D9%A3&c=%D9%A3-x&i=%D9%A3" + "0" * 15,
    "negative numbers": "n=-1&ot=-1&nt=-1&ts=-1&c=-1",
    "numbers with a point": "n=1.5&ot=1.5&nt=1.5&ts=1.5",
    "two of each": "s=feed/1&s=feed/2&n=1&n=2&c=a&c=b&ac=edit&ac=subscribe&t=a&t=b&t=c&ts=1&ts=2&dest=a&dest=b",
    "long values": f"s=user/-/label/{LONG}&a=user/-/label/{LONG}&dest=user/-/label/{LONG}&i={LONG}&c={LONG}&t={LONG}",
    "names in brackets": "s[]=feed/1&i[0]=1&i[x]=2&a[=user/-/label/A&n[]=5&[]=1",
    "a private address": "s=feed/http://127.0.0.1:6379/&ac=subscribe&quickadd=http://[::1]/",
    "no address": "s=feed/ht!tp://[&ac=subscribe&t=x&quickadd=http://[",
    "another user": "s=user/bob/label/Home&dest=user/bob/label/Mine&userId=bob&Email=bob&u=bob",
}
BODIES: dict[str, tuple[bytes, str]] = {
    "many fields": (b"&".join(b"i=%d" % n for n in range(30_000)), FORM),
    "ten megabytes of ids": (b"i=1000000000000001&" * 550_000, FORM),
    "JSON": (b'{"i": ["1", {}], "s": null}', "application/json"),
    "XML that is no list of feeds": (b"<rss><channel/></rss>", "text/xml"),
    "a list that ends": (b"<opml><body><outline", "text/xml"),
    "entities in entities": (
        b'<!DOCTYPE o [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><opml><body>&b;</body></opml>',
        "text/xml",
    ),
    "parts that don't end": (b'--x\r\nContent-Disposition: form-data; name="i"', "multipart/form-data; boundary=x"),
    "parts without a boundary": (b"x", "multipart/form-data"),
    "another charset": ("s=\u00e9".encode("utf-16"), f"{FORM}; charset=utf-16"),
    "an invalid type": (b"x", "<script>"),
}


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    async with instance(real_redis) as made:
        yield made


@pytest.fixture
async def app(server: World, alice: Reader) -> NativeApp:
    return await NativeApp.signed_in(server, alice.name)


def names_of(server: World) -> list[str]:
    """The requests that the API takes, by name."""
    (native,) = {route.endpoint for route in server.app.routes if getattr(route, "path", "") in PATHS}
    assert isinstance(native, NativeEndpoint)
    return [action.removeprefix("greader ") for action in native.actions]


def place_of(name: str, stream: str = "") -> str:
    if name == "ClientLogin":
        return f"{SITE}{ADDRESS}/accounts/ClientLogin"
    inner = f"/reader/atom/{stream or 'x'}" if name == "atom" else f"/reader/api/0/{name}"
    return f"{SITE}{ADDRESS}{inner}"


async def kept_of_alice(server: World) -> dict[bytes, bytes]:
    """All that Redis has of her channels, posts and follows, without the notes of her visits."""
    names = sorted(name for name in await all_keys(server.redis) if b"{alice}" in name)
    dumps = await server.redis.pipeline([("DUMP", name) for name in names])
    return dict(zip(names, dumps, strict=True))


def checked(reply: httpx.Response, where: object) -> None:
    """An answer of the API; an error is one line of text."""
    assert reply.status_code in {200, 400, 401, 403, 404, 405, 429}, (where, reply.status_code, reply.text[:200])
    assert reply.headers["content-type"].partition(";")[0] != "text/html", where
    assert "set-cookie" not in reply.headers, where
    if reply.status_code != 200:
        assert reply.headers["content-type"] == "text/plain; charset=utf-8", where
        assert reply.text.count("\n") == 1, (where, reply.text[:200])
        assert reply.text.endswith("\n"), where
        assert len(reply.text) < 1000, (where, len(reply.text))


async def test_odd_parameters(server: World, alice: Reader, app: NativeApp) -> None:
    """In query, body and path of each request; a refused request changes nothing."""
    await server.publish(FEED, *posts("a", "b", "c"))
    await alice.post(action="follow", channel="home", url=FEED)
    before = await kept_of_alice(server)
    for name, (kind, fields) in itertools.product(names_of(server), FIELDS.items()):
        # Addresses with a line break belong to no API.
        raw, place = fields.encode(), place_of(name, fields[:200].replace("%0d", "").replace("%0a", ""))
        form = {**app.headers, "content-type": FORM}
        sent = (
            await server.client.get(httpx.URL(place, query=raw[:50_000]), headers=app.headers),
            await server.client.post(httpx.URL(place, query=raw[:50_000]), headers=app.headers),
            await server.client.post(place, content=raw, headers=form),
        )
        for method, reply in zip(("GET", "query", "body"), sent, strict=True):
            checked(reply, (name, kind, method))
        after = await kept_of_alice(server)
        if all(reply.status_code != 200 for reply in sent[1:]):
            assert after == before, (name, kind)
        before = after
    assert "private" not in await snapshot(alice)


async def test_odd_bodies(server: World, alice: Reader, app: NativeApp) -> None:
    """Of each request: too large, of another type, broken; nothing changes."""
    await server.publish(FEED, *posts("a", "b", "c"))
    await alice.post(action="follow", channel="home", url=FEED)
    before = await snapshot(alice)
    for name, (kind, (body, content_type)) in itertools.product(names_of(server), BODIES.items()):
        headers = {**app.headers, "content-type": content_type}
        reply = await server.client.post(place_of(name), content=body, headers=headers)
        checked(reply, (name, kind))
        if kind == "ten megabytes of ids":
            assert reply.status_code in {400, 405}, (name, reply.text)
    assert await snapshot(alice) == before
