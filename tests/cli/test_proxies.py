"""Trusted proxies for a client's address."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

import httpx
import pytest
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from microsub.base.settings import Network
from microsub.cli.serving import webserver
from microsub.web import headers

LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


async def _told(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{headers.client_address(request)} {request.url.scheme}")


async def seen(proxies: Sequence[Network], *headers: tuple[str, str]) -> str:
    """The client's address and scheme, as the application sees them."""
    stop = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        app = Starlette(routes=[Route("/", _told)])
        async with (
            webserver.serving(app, listener, stop, proxies),
            httpx.AsyncClient(trust_env=False, timeout=60) as client,
        ):
            return (await client.get(f"http://127.0.0.1:{port}/", headers=list(headers))).text


FORGED = ("X-Forwarded-For", "203.0.113.9")


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ([("X-Forwarded-For", "203.0.113.9")], "203.0.113.9 http"),
        ([("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-Proto", "https")], "203.0.113.9 https"),
        ([("X-Forwarded-For", "6.6.6.6, 203.0.113.9")], "203.0.113.9 http"),
        ([("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "203.0.113.9")], "203.0.113.9 http"),
        ([("X-Forwarded-For", "203.0.113.9, 127.0.0.1")], "203.0.113.9 http"),
        ([("X-Forwarded-For", "203.0.113.9:4711")], "203.0.113.9 http"),
        ([("X-Forwarded-For", "[2001:db8::1]:4711")], "2001:db8::1 http"),
        ([], "127.0.0.1 http"),
    ],
)
async def test_a_listed_proxy_says_who_the_client_is(headers: list[tuple[str, str]], told: str) -> None:
    """By the last address that isn't a proxy's: addresses that the client itself wrote before it are ignored.

    By default no proxy is trusted, not even this machine itself, nor if another network is listed.
    """
    assert await seen([LOOPBACK], *headers) == told
    for others in ([], [ipaddress.ip_network("10.0.0.0/8")]):
        assert await seen(others, *headers) == "127.0.0.1 http"


async def test_an_unlisted_proxy_is_warned_about_once() -> None:
    """All its users would seem to be one client, and be limited together."""
    headers._warn.cache_clear()
    with structlog.testing.capture_logs() as lines:
        await seen([], FORGED)
        await seen([], FORGED)
        await seen([LOOPBACK], FORGED)
        await seen([])
    assert [(line["proxy"], "MICROSUB_TRUSTED_PROXIES" in line["event"]) for line in lines] == [("127.0.0.1", True)]
