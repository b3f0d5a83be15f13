"""Requests to endpoints on loopback: methods, forms, tokens, redirects, limits, and secrets that are never sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

import pytest

from microsub.fetch import Answered, Fetcher, FetchFailed, FetchSettings, Hop, Sending, SendLimits
from microsub.fetch.body import Room
from tests.fetch.test_fetcher import LOOPBACK, here
from tests.support.web import Answer, Publisher, publisher

TOKEN = "alice.s3cret"


def fetcher(allowed: Any = LOOPBACK, **parts: Any) -> Fetcher:
    return Fetcher(FetchSettings(allow_private_networks=allowed), **{"resolver": here, **parts})


async def answered(sending: Sending, **parts: Any) -> Answered:
    result = await fetcher(**parts).send(sending)
    assert isinstance(result, Answered), result
    return result


async def failed(sending: Sending, **parts: Any) -> FetchFailed:
    result = await fetcher(**parts).send(sending)
    assert isinstance(result, FetchFailed), result
    assert TOKEN not in repr(result)
    return result


# --- requests and answers --------------------------------------------------------------------------------------------


async def test_a_form_is_posted_with_a_token(site: Publisher) -> None:
    """Type, length, encoding and header are as servers expect; the answer has type, body and location."""
    site.serve("/introspect", Answer(b'{"active":true}', headers=[("Content-Type", "application/json")]))
    form = {"token": "ä b&c=d\r\n", "hint": ""}
    answer = await answered(Sending(site.url("/introspect?x=1"), "POST", form, TOKEN))
    (asked,) = site.asked
    assert asked.method == "POST"
    assert asked.target == "/introspect?x=1"
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert asked.headers["accept"] == "application/json"
    assert dict(parse_qsl(asked.body.decode("ascii"), keep_blank_values=True)) == form
    assert not {"cookie", "referer"} & set(asked.headers)
    assert (answer.status, answer.body, answer.content_type) == (200, b'{"active":true}', "application/json")
    assert (answer.final_url, answer.hops) == (site.url("/introspect?x=1"), ())


async def test_a_field_may_come_twice_and_a_form_may_be_empty(site: Publisher) -> None:
    """Pairs keep their order; an empty form is a POST with an empty body."""
    site.serve("/", Answer(b"x"))
    await answered(Sending(site.url(), "POST", [("a", "1"), ("b", "2"), ("a", "3")]))
    await answered(Sending(site.url(), "POST"))
    assert [asked.body for asked in site.asked] == [b"a=1&b=2&a=3", b""]
    assert site.asked[1].headers["content-length"] == "0"


@pytest.mark.parametrize("status", [200, 204, 401, 503])
async def test_every_status_is_an_answer_with_its_body(site: Publisher, status: int) -> None:
    """The body of an error contains the server's explanation."""
    body = b"" if status == 204 else b'{"error":"invalid_grant"}'
    site.serve("/", Answer(body, status, [("Retry-After", "7")]))
    answer = await answered(Sending(site.url()))
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (status, body, "7")


async def test_head_requests_only_headers(site: Publisher) -> None:
    """The body is empty whatever length the server claims; several Link headers become one value."""
    links = [("Link", '</a>; rel="authorization_endpoint"'), ("Link", '</t>; rel="token_endpoint"')]
    site.serve("/me", Answer(b"x" * 1000, headers=[("Content-Encoding", "br"), *links]))
    site.serve("/", Answer(status=301, headers=[("Location", "/me")]))
    answer = await answered(Sending(site.url(), "HEAD"))
    assert [asked.method for asked in site.asked] == ["HEAD", "HEAD"]
    assert answer.body == b""
    assert answer.headers["link"] == '</a>; rel="authorization_endpoint", </t>; rel="token_endpoint"'
    assert answer.final_url == site.url("/me")


async def test_the_result_lists_every_redirect(site: Publisher) -> None:
    """The result lists each redirect's target and whether it is permanent, without fragment and credentials."""
    for path, status, location in (
        ("/a", 301, "/b"),
        ("/b", 308, f"http://user:pass@other.test:{site.port}/c#x"),
        ("/c", 302, "/d"),
        ("/d", 307, "/e"),
        ("/e", 303, "/f"),
    ):
        site.serve(path, Answer(status=status, headers=[("Location", location)]))
    site.serve("/f", Answer(b"found"))
    answer = await answered(Sending(site.url("/a")))
    there = site.url("", "other.test")
    assert answer.hops == (
        Hop(site.url("/b"), permanent=True),
        Hop(f"{there}/c", permanent=True),
        Hop(f"{there}/d", permanent=False),
        Hop(f"{there}/e", permanent=False),
        Hop(f"{there}/f", permanent=False),
    )
    assert (answer.body, answer.final_url) == (b"found", f"{there}/f")


# --- secrets and refused requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [302, 308])
async def test_a_post_follows_no_redirect(site: Publisher, status: int) -> None:
    """The form with a secret isn't sent again; the redirect is the answer."""
    site.serve("/token", Answer(status=status, headers=[("Location", "/elsewhere")]))
    site.serve("/elsewhere", Answer(b"x"))
    answer = await answered(Sending(site.url("/token"), "POST", {"code": "s3cret"}))
    assert (answer.status, answer.headers["location"]) == (status, "/elsewhere")
    assert site.count("/elsewhere") == 0


async def test_a_token_stays_on_its_origin(site: Publisher) -> None:
    """A redirect to another host, port or scheme ends the request before it is followed."""
    async with publisher() as other:
        other.serve("/", Answer(b"x"))
        site.serve("/there", Answer(b"x"))
        for location in (other.url(), site.url("/there", "other.test"), f"https://127.0.0.1:{site.port}/there"):
            site.serve("/token", Answer(status=302, headers=[("Location", location)]))
            failure = await failed(Sending(site.url("/token"), bearer=TOKEN))
            assert failure.reason == "redirects"
        assert not other.asked
    assert site.count("/there") == 0
    site.serve("/token", Answer(status=302, headers=[("Location", "/there")]))
    assert (await answered(Sending(site.url("/token"), bearer=TOKEN))).body == b"x"
    assert site.asked[-1].headers["authorization"] == f"Bearer {TOKEN}"


async def test_without_a_token_other_origins_are_followed(site: Publisher) -> None:
    """The redirect's target gets no credentials of the first URL."""
    site.serve("/", Answer(status=302, headers=[("Location", site.url("/x", "other.test"))]))
    site.serve("/x", Answer(b"x"))
    assert (await answered(Sending(f"http://ann:pw@a.test:{site.port}/"))).body == b"x"
    assert [("authorization" in asked.headers) for asked in site.asked] == [True, False]


async def test_a_token_takes_the_place_of_credentials_in_the_url(site: Publisher) -> None:
    """The request has one Authorization header, not two."""
    site.serve("/", Answer(b"x"))
    await answered(Sending(f"http://ann:pw@a.test:{site.port}/", bearer=TOKEN))
    assert site.asked[0].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("sending", [{"bearer": TOKEN}, {"method": "POST", "form": {"code": "s3cret"}}])
async def test_secrets_go_to_public_addresses_only_by_https(sending: dict[str, Any]) -> None:
    """Over http no connection is made if any address of the name is public."""
    for addresses in (["93.184.216.34"], ["127.0.0.1", "93.184.216.34"]):

        async def resolver(_host: str, _port: int, addresses: list[str] = addresses) -> Sequence[str]:
            return addresses

        failure = await failed(Sending("http://auth.test/token", **sending), resolver=resolver)
        assert failure.reason == "blocked"
        assert "expected https" in failure.detail


async def test_requests_without_secrets_may_use_http() -> None:
    """The guard accepts the request, which fails only because the name doesn't resolve."""
    tried = []

    async def resolver(host: str, _port: int) -> Sequence[str]:
        tried.append(host)
        raise OSError("no such name")

    sending = Sending("http://public.test/", "POST", {"source": "x"}, in_clear=True)
    assert (await failed(sending, resolver=resolver)).reason == "dns"
    assert not sending.is_secret
    assert Sending("http://public.test/", "POST", {"source": "x"}).is_secret


async def test_through_an_outgoing_proxy(site: Publisher) -> None:
    """Method and form arrive; secrets aren't sent to it unencrypted, and a token is sent only over https."""

    async def public(_host: str, _port: int) -> Sequence[str]:
        return ["8.8.8.8"]

    client = Fetcher(FetchSettings(proxy=f"http://127.0.0.1:{site.port}"), resolver=public)
    site.handlers["http://blog.test/endpoint"] = lambda _asked: Answer(b"by proxy", 201)
    answer = await client.send(Sending("http://blog.test/endpoint", "POST", {"source": "x"}, in_clear=True))
    assert isinstance(answer, Answered)
    assert (answer.status, answer.body) == (201, b"by proxy")
    assert (site.asked[0].method, site.asked[0].body) == ("POST", b"source=x")
    for sending in (
        Sending("http://blog.test/endpoint", bearer=TOKEN),
        Sending("http://blog.test/", "POST", {"a": "b"}),
    ):
        failure = await client.send(sending)
        assert isinstance(failure, FetchFailed)
        assert failure.reason == "blocked"
    assert len(site.asked) == 1
    await client.aclose()


@pytest.mark.parametrize("token", ["a\r\nX-Injected: 1", "a\nb", "a b", "", "ü", "a\x00", "x" * 5000])
async def test_an_invalid_token_isnt_sent(site: Publisher, token: str) -> None:
    """A token that would end the header or split into several values isn't sent."""
    failure = await failed(Sending(site.url(), bearer=token))
    assert failure.reason == "protocol"
    assert not site.asked


@pytest.mark.parametrize("end", ["\r\nX-Injected: 1", "\n", "\t", "\x00", "\x7f", "\x85"])
async def test_a_url_with_control_characters_is_refused(site: Publisher, end: str) -> None:
    """The URL is refused, and not requested without the control characters either."""
    assert (await failed(Sending(f"{site.url('/x')}{end}y"))).reason == "bad_url"
    assert not site.asked


async def test_private_networks_are_refused_unless_listed(site: Publisher) -> None:
    """POST requests to unlisted private networks are refused too, with or without a token."""
    for sending in (Sending(site.url()), Sending(site.url(), "POST", {"a": "b"}), Sending(site.url(), bearer=TOKEN)):
        assert (await failed(sending, allowed=())).reason == "blocked"
    assert not site.asked


def test_secrets_arent_shown() -> None:
    """The log representation of a request contains no secrets."""
    shown = repr(Sending("https://a.test/", "POST", {"code": "s3cret"}, "s3cret"))
    assert "s3cret" not in shown


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_a_slow_server_times_out(site: Publisher) -> None:
    """One time limit applies to the whole exchange including redirects, for silent and for trickling servers."""
    site.serve("/nothing", Answer(b"", hang=True, head_only_length=5))
    site.serve("/", Answer(status=302, headers=[("Location", "/nothing")]))
    for path in ("/nothing", "/"):
        failure = await failed(Sending(site.url(path), limits=SendLimits(total=0.2)))
        assert failure.reason == "timeout"
        assert "0.2 s" in failure.detail


async def test_bodies_take_room_and_give_it_back(site: Publisher) -> None:
    """A held answer counts towards the total of the process; an answer that is too large is refused."""
    room = Room()
    site.serve("/", Answer(b"x" * 300_000))
    answer = await answered(Sending(site.url(), limits=SendLimits(body=400_000)), room=room)
    assert room.used > 200_000
    del answer
    assert (await failed(Sending(site.url(), limits=SendLimits(body=299_999)), room=room)).reason == "too_large"
    assert room.used == 0


async def test_unreachable_servers_are_failures() -> None:
    """A refused connection, an unknown name and another scheme are failures, with credentials masked."""
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    failure = await failed(Sending(f"http://ann:s3cret@127.0.0.1:{port}/?token=s3cret", "POST", {"a": "b"}))
    assert failure.reason == "connect"
    assert "s3cret" not in failure.url
    assert (await failed(Sending("ftp://a.test/"))).reason == "bad_url"
    assert (await failed(Sending("blog.test/feed"))).detail == "the URL must begin with http:// or https://"
