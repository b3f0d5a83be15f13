"""The addresses that need no token: the first page, health, metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.routing import Match, Route
from structlog.testing import capture_logs

from microsub.admin.health import PROBE_SECONDS, Health
from microsub.api.endpoint import MicrosubEndpoint
from microsub.base.errors import ConfigError, StoreFull, StoreUnavailable
from microsub.configuration.effective import Status
from microsub.server.app import create_app
from microsub.web.responses import HttpReply
from microsub.work import DeadLetters, Message
from tests.support.readers import Reader
from tests.support.world import World

LOCAL = {"Host": "127.0.0.1:8080"}
"""The machine itself asks."""


async def test_the_page_about_apps_names_the_endpoint(server: World) -> None:
    """By the request's own address, or the configured one."""
    response = await server.client.get("/connect")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "http://server.test/microsub" in response.text
    app = create_app(server.parts, base_url="https://reader.example/")
    server.client._transport = type(server.client._transport)(app)  # type: ignore[attr-defined,call-arg]
    assert "https://reader.example/microsub<" in (await server.client.get("/connect")).text


async def test_the_page_about_apps_trusts_no_header(server: World) -> None:
    """A made-up host name can't bring markup into the page."""
    response = await server.client.get("/connect", headers={"Host": 'x"><script>alert(1)</script>'})
    assert "<script>" not in response.text


async def test_health_needs_redis_and_a_worker(server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only then the status is 200; the object names what is missing."""
    silent = await server.client.get("/health", headers=LOCAL)
    assert silent.status_code == 503
    said = silent.json()
    assert said.pop("engine").split()[0] in {"Valkey", "Redis"}
    assert said == {"status": "failing", "redis": "ok", "worker": "silent", "backend": "ok"}
    await server.presence.beat("w1", server.now)
    well = await server.client.get("/health", headers=LOCAL)
    assert well.status_code == 200
    assert well.json()["status"] == "ok"
    assert well.headers["cache-control"] == "no-store"
    server.now += 3600
    assert (await server.client.get("/health", headers=LOCAL)).status_code == 503

    async def fail(*_: Any) -> Any:
        raise StoreUnavailable("redis://:sesame@10.0.0.1")

    with monkeypatch.context() as patch:
        patch.setattr(server.redis, "command", fail)
        down = await server.client.get("/health", headers=LOCAL)
    assert down.status_code == 503
    said = {"status": "failing", "redis": "unreachable", "worker": "unknown", "backend": "ok"}
    assert down.json() == {**said, "reason": "Redis can't be reached"}


@pytest.mark.parametrize(
    ("status", "backend", "overall"),
    [
        (Status(), "ok", "ok"),
        (Status(problems=(ConfigError(file="b", path="", found="x", expected="y"),)), "refused", "ok"),
        (Status(lost=True), "lost", "degraded"),
    ],
)
async def test_health_includes_backend_json(server: World, status: Status, backend: str, overall: str) -> None:
    """An invalid file doesn't change the status; lost data does."""
    await server.presence.beat("w1", server.now)
    report = await Health(server.presence, status=lambda: status).check(server.now)
    assert (report.backend, report.status) == (backend, overall)


async def test_health_and_metrics_name_dead_letters(server: World) -> None:
    """Their number, if there are any; the status stays ok."""
    await server.presence.beat("w1", server.now)
    assert "dead_letters" not in (await server.client.get("/health", headers=LOCAL)).json()
    await DeadLetters(server.redis).add("stored", Message("1-1", {"what": b"ever"}), "it failed", server.now)
    shown = (await server.client.get("/health", headers=LOCAL)).json()
    assert (shown["status"], shown["dead_letters"]) == ("ok", 1)
    assert "microsub_dead_letters 1.0" in (await server.client.get("/metrics", headers=LOCAL)).text


async def test_health_is_503_if_redis_refuses_writes(server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Redis' own error, even if a worker's last heartbeat is recent."""
    await server.presence.beat("w1", server.now)

    async def refuse(*args: Any) -> Any:
        if args[0] == "SET":
            raise StoreFull("Redis refuses writes: command not allowed when used memory > 'maxmemory'.")
        return await command(*args)

    command = server.redis.command
    with monkeypatch.context() as patch:
        patch.setattr(server.redis, "command", refuse)
        full = await server.client.get("/health", headers=LOCAL)
    assert full.status_code == 503
    said = full.json()
    assert said.pop("engine")
    assert said == {
        "status": "degraded",
        "redis": "full",
        "worker": "ok",
        "backend": "ok",
        "worker_last_seen_seconds": 0.0,
        "reason": "Redis refuses writes: command not allowed when used memory > 'maxmemory'.",
    }
    assert (await server.client.get("/health", headers=LOCAL)).status_code == 503, (
        "the probe's answer holds for a few seconds"
    )
    server.now += PROBE_SECONDS
    assert (await server.client.get("/health", headers=LOCAL)).json()["status"] == "ok"


async def test_health_writes_seldom(server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of requests doesn't matter; the written key has a time to live."""
    asked: list[str] = []
    command = server.redis.command

    async def count(*args: Any) -> Any:
        asked.append(str(args[0]))
        return await command(*args)

    monkeypatch.setattr(server.redis, "command", count)
    await asyncio.gather(*(server.client.get("/health", headers=LOCAL) for _ in range(10)))
    assert asked.count("SET") == 1


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_store_that_fails_in_the_middle_of_a_reply_is_one_line(
    server: World, alice: Reader, monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    """The reply is cut, or becomes a 503 if nothing was sent; there is no traceback."""

    async def broken(self: Any, exchange: Any, send: Any, reply: HttpReply) -> None:
        if has_begun:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
            await send({"type": "http.response.body", "body": b"{", "more_body": True})
        raise StoreUnavailable("gone")

    monkeypatch.setattr(MicrosubEndpoint, "deliver", broken)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start" and sent:
            raise RuntimeError("the response has begun")
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"authorization", f"Bearer {alice.token}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/microsub", "query_string": b"action=channels"}
    with capture_logs() as lines:
        await server.app({**scope, "headers": headers, "client": None}, receive, send)
    assert [line["event"] for line in lines] == ["store failed in the middle of a reply"]
    assert sent[0]["status"] == (200 if has_begun else 503)
    assert len(sent) == 2


async def test_metrics_count_requests(server: World, alice: Reader) -> None:
    """By action and status; made-up actions don't create new series."""
    await alice.get(action="channels")
    await alice.get(400, action="made-up-action")
    response = await server.client.get("/metrics", headers=LOCAL)
    assert response.headers["cache-control"] == "no-store", "a cache in front would show them to everybody"
    assert response.headers["content-type"].startswith("text/plain")
    assert 'microsub_requests_total{action="channels",status="200"}' in response.text
    assert 'microsub_requests_total{action="other",status="400"}' in response.text
    assert "made-up-action" not in response.text


async def test_strangers_get_only_the_status(server: World) -> None:
    """A load balancer needs no more, and metrics are refused: here a proxy on the same machine forwards requests."""
    await server.presence.beat("w1", server.now)
    through_proxy = {**LOCAL, "X-Forwarded-For": "203.0.113.9"}
    assert (await server.client.get("/health", headers=through_proxy)).json() == {"status": "ok"}
    refused = await server.client.get("/metrics", headers=through_proxy)
    assert refused.status_code == 403
    assert "microsub_" not in refused.text


async def test_other_methods_on_pages(server: World) -> None:
    """They are refused in the same form as other errors."""
    response = await server.client.post("/health")
    assert response.status_code == 405
    assert response.json()["error"] == "invalid_request"


def test_no_route_hides_another(server: World) -> None:
    """For example by a form below another path: every fixed address reaches its own route, with its methods."""
    routes = [one for one in create_app(server.parts).routes if isinstance(one, Route)]
    for route in routes:
        for method in route.methods or {"DELETE"}:
            if "{" in route.path:
                continue
            scope = {"type": "http", "method": method, "path": route.path, "headers": []}
            first = next(one for one in routes if one.matches(scope)[0] is Match.FULL)
            assert first is route, f"{method} {route.path} goes to {first.path}"
