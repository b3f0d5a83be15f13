"""Any request to the addresses for identity gets an answer below 500, without log lines and without markup."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from tests.support.own_server import cookie_of
from tests.support.process import Installation, installation

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

PATHS = [
    *("/", "/check", "/sign-in", "/sign-in/callback", "/sign-in/local", "/sign-in/passkey", "/sign-in/passkey/begin"),
    *("/sign-out", "/account", "/account/sessions/end", "/account/sessions/end-all", "/account/apps/end", "/client"),
    *("/enrol", "/enrol/password", "/enrol/passkey", "/enrol/passkey/begin", "/auth", "/auth/consent", "/token"),
    *("/introspect", "/revoke", "/userinfo", "/.well-known/oauth-authorization-server", "/microsub", "/microsub/ann"),
    *("/account/sign-in", "/account/sign-in/password", "/account/sign-in/passkeys", "/static/../x", "/static/"),
]
MARKUP = "<script>alert(1)</script>"
FIELDS = (
    "code=x&token=x&me=%00&client_id=%ff%fe&redirect_uri=http://[&scope=%22&state=%0d%0a&who=%f0&password=%80&next=//"
)
BODIES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", ""),
    "fields of all kinds": (FIELDS.encode(), "application/x-www-form-urlencoded"),
    "the same twice": (f"{FIELDS}&{FIELDS}".encode(), "application/x-www-form-urlencoded"),
    "bytes that are no text": (bytes(range(256)), "application/x-www-form-urlencoded"),
    "many fields": (b"&".join(b"a%d=1" % n for n in range(20_000)), "application/x-www-form-urlencoded"),
    "one long field": (b"code=" + b"x" * 2_000_000, "application/x-www-form-urlencoded"),
    "JSON": (b'{"token": ["x", {}], "code": null, "grant_type": 1, "me": {"a": []}}', "application/json"),
    "deep JSON": (b"[" * 100_000, "application/json"),
    "numbers beyond": (b'{"token": 1e400, "code": -0, "state": 99999999999999999999999}', "application/json"),
    "parts": (
        b'--x\r\nContent-Disposition: form-data; name="code"\r\n\r\nx\r\n--x--\r\n',
        "multipart/form-data; boundary=x",
    ),
    "parts that don't end": (b'--x\r\nContent-Disposition: form-data; name="code"', "multipart/form-data; boundary=x"),
    "parts without a boundary": (b"x", "multipart/form-data"),
    "another charset": ("code=\u00e9".encode("utf-16"), "application/x-www-form-urlencoded; charset=utf-16"),
    "an invalid type": (b"x", MARKUP),
    "markup": (
        f"me={MARKUP}&who={MARKUP}&client_id={MARKUP}&code={MARKUP}".encode(),
        "application/x-www-form-urlencoded",
    ),
}
QUERIES = [
    "",
    f"?{FIELDS}",
    f"?me={MARKUP}&next={MARKUP}&error={MARKUP}&state={MARKUP}",
    "?" + "a=1&" * 3000,
    "?%",
    "?=&&=",
]


def odd(url: str) -> dict[str, bytes]:
    """Invalid headers."""
    session, browser = (cookie_of(url, name).encode() for name in ("session", "browser"))
    return {"Authorization": "Bearer \u00ff".encode("latin-1"), "Cookie": session + b"=\xff; " + browser + b"=;;=; =x"}


@dataclass
class World:
    http: httpx.AsyncClient
    installed: Installation
    url: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    backend = {"users": {"ann": {"me": "https://ann.example/"}}}
    async with (
        installation(tmp_path_factory.mktemp("reader"), backend) as installed,
        httpx.AsyncClient(timeout=60) as http,
    ):
        yield World(http, installed, await installed.serve("web"))


@pytest.mark.parametrize("path", PATHS)
async def test_everything_is_answered(world: World, path: str) -> None:
    """Each body by POST with and without odd headers, each query by GET, and unusual methods."""
    replies = []
    own = {"Origin": world.url, "Sec-Fetch-Site": "same-origin"}
    for body, kind in BODIES.values():
        for headers in (own, {**own, **odd(world.url)}):
            sent = {**headers, **({"Content-Type": kind} if kind else {})}
            replies.append(await world.http.post(f"{world.url}{path}", content=body, headers=sent))  # type: ignore[arg-type]
    for query in QUERIES:
        replies.append(await world.http.get(f"{world.url}{path}{query}"))
        replies.append(await world.http.get(f"{world.url}{path}{query}", headers=odd(world.url)))  # type: ignore[arg-type]
    for method in ("HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "get"):
        replies.append(await world.http.request(method, f"{world.url}{path}"))
    for reply in replies:
        assert reply.status_code < 500, (path, reply.request.method, reply.request.url, reply.text[:300])
        kind = reply.headers.get("content-type", "")
        assert (
            kind.partition(";")[0] in {"text/html", "application/json", "text/plain", "", "text/css"}
            or reply.is_success
        )
        if kind.startswith("text/html"):
            assert MARKUP not in reply.text
        else:
            assert (
                reply.headers.get("x-content-type-options") == "nosniff" or MARKUP not in reply.text or "json" in kind
            )
    assert "Traceback" not in world.installed.log
    assert "a page failed" not in world.installed.log
