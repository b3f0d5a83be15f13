"""Access to metrics and to the details of /health, and what both say while a part of Redis is away."""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.requests import Request

from microsub.accounts.store import Accounts
from microsub.admin import figures as figures_module
from microsub.admin import health as health_module
from microsub.admin.figures import Figures
from microsub.admin.health import PROBE_SECONDS, Health
from microsub.base.errors import StoreUnavailable
from microsub.feeds.record import Feeds
from microsub.redis.cluster import ClusterRedis
from microsub.redis.connect import connect
from microsub.redis.embedded.server import start_embedded
from microsub.redis.multiplexer import SILENT, Acknowledged, Multiplexed
from microsub.redis.presence import Presence, ProcessCounts
from microsub.server import monitoring
from microsub.server.monitoring import Monitors
from tests.support.cluster import serving
from tests.support.waiting import wait_until

PROXY = (ipaddress.ip_network("127.0.0.1/32"),)
INSIDE = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


def request(
    client: str | None, *headers: tuple[str, str], host: str = "127.0.0.1:8080", version: str = "1.1"
) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in [("host", host), *headers]]
    address = (client, 4711) if client else None
    return Request({"type": "http", "http_version": version, "client": address, "headers": raw})


def forwarded(text: str) -> tuple[str, str]:
    return "X-Forwarded-For", text


@pytest.mark.parametrize(
    ("monitors", "asked", "admitted"),
    [
        pytest.param(Monitors(), request("127.0.0.1"), True, id="this machine"),
        pytest.param(Monitors(), request("::1", host="[::1]:8080"), True, id="this machine by IPv6"),
        pytest.param(Monitors(), request("::ffff:127.0.0.1"), True, id="IPv4 inside of IPv6"),
        pytest.param(Monitors(), request("203.0.113.9"), False, id="a stranger"),
        pytest.param(Monitors(), request("203.0.113.9", forwarded("127.0.0.1")), False, id="a stranger who lies"),
        pytest.param(Monitors(), request(None), False, id="a Unix socket"),
        pytest.param(Monitors(), request("10.0.0.7"), False, id="a private network that isn't listed"),
        pytest.param(Monitors(), request("127.0.0.1", forwarded("203.0.113.9")), False, id="an unlisted proxy"),
        pytest.param(
            Monitors(), request("127.0.0.1", forwarded("127.0.0.1")), False, id="an unlisted proxy that is lied to"
        ),
        pytest.param(Monitors(), request("127.0.0.1", ("X-Real-IP", "127.0.0.1")), False, id="by another header"),
        pytest.param(Monitors(), request("127.0.0.1", ("Via", "1.1 proxy")), False, id="by none that names the client"),
        pytest.param(Monitors(), request("127.0.0.1", ("X_Forwarded_For", "203.0.113.9")), False, id="underscores"),
        pytest.param(Monitors(), request("127.0.0.1", ("Host", "reader.example")), False, id="two hosts"),
        pytest.param(Monitors(), request("127.0.0.1", version="1.0"), False, id="nginx that adds no header"),
        *(
            pytest.param(Monitors(), request("127.0.0.1", (name, "127.0.0.1")), False, id=name)
            for name in ("CF-Connecting-IP", "True-Client-IP", "Fastly-Client-IP", "X-Client-IP", "CDN-Loop")
        ),
        pytest.param(Monitors(), request("127.0.0.1", host="reader.example"), False, id="a proxy that adds no header"),
        pytest.param(Monitors(INSIDE), request("10.1.2.3", host="reader.example"), True, id="a listed network"),
        pytest.param(Monitors(INSIDE), request("fd00::1", host="reader.example"), True, id="a listed network of IPv6"),
        pytest.param(Monitors(INSIDE), request("127.0.0.1"), False, id="this machine where others are listed"),
        pytest.param(Monitors(INSIDE), request("10.0.0.1", forwarded("203.0.113.9")), False, id="a proxy inside"),
        # uvicorn's result for a listed proxy: the client is the last one that the proxy names.
        pytest.param(Monitors(INSIDE, None, PROXY), request("10.1.2.3", forwarded("10.1.2.3")), True, id="listed both"),
        pytest.param(
            Monitors(INSIDE, None, PROXY),
            request("203.0.113.9", forwarded("10.1.2.3, 203.0.113.9")),
            False,
            id="forged",
        ),
        pytest.param(
            Monitors(INSIDE, None, PROXY),
            request("10.0.0.1", forwarded("203.0.113.9")),
            False,
            id="a second, unlisted proxy",
        ),
        pytest.param(
            Monitors(proxies=PROXY),
            request("127.0.0.1", forwarded("127.0.0.1")),
            False,
            id="a proxy that passes lies on",
        ),
        pytest.param(Monitors(proxies=PROXY), request("127.0.0.1"), True, id="this machine, where proxies are listed"),
        pytest.param(Monitors((), None, PROXY), request("127.0.0.1"), False, id="nobody"),
    ],
)
def test_listed_networks_are_admitted(monitors: Monitors, asked: Request, admitted: bool) -> None:
    """The client's address counts, never that of a web server in front of the server."""
    assert monitors.admits(asked) is admitted


@pytest.mark.parametrize(
    ("shown", "admitted"),
    [
        ("Bearer 0123456789abcdef", True),
        ("bearer 0123456789abcdef ", True),
        ("Bearer 0123456789abcde", False),
        ("", False),
    ],
)
def test_the_token_admits_from_any_address(shown: str, admitted: bool) -> None:
    """Also through proxies."""
    asked = request("203.0.113.9", ("Authorization", shown), forwarded("198.51.100.1"), host="reader.example")
    assert Monitors(token="0123456789abcdef").admits(asked) is admitted
    assert not Monitors().admits(asked)


# --- while a part of Redis is away --------------------------------------------------------------------------------


async def deaf(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Accept a connection, and never reply."""
    while await reader.read(1000):
        pass


async def test_a_redis_that_hangs_is_named_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """/health doesn't wait for the reply, and says that connections are accepted; /metrics has the process's own."""
    monkeypatch.setattr(health_module, "PATIENCE", 0.05)
    monkeypatch.setattr(figures_module, "PATIENCE", 3600)
    async with serving(deaf) as url:
        redis = Multiplexed(url, reply_timeout=0.5)
        health = Health(Presence(redis))
        report = await health.check(0.0)
        assert (report.status, report.redis, report.worker, report.reason) == (
            *("failing", "unreachable", "unknown"),
            SILENT,
        )
        await wait_until(lambda: redis._link is not None and redis._link.lost)
        monkeypatch.setattr(health_module, "PATIENCE", 3600)
        assert (await health.check(0.0)).reason == SILENT, "also when the wait for a reply has ended"
        figures = Figures(Feeds(redis), Accounts(redis), Presence(redis), ProcessCounts(redis))
        shown, _ = await figures.exposition(0.0, health)
        assert b'microsub_redis{state="reachable"} 0.0' in shown
        assert b'microsub_redis{state="full"} 0.0' in shown
        assert b"microsub_workers NaN" in shown
        monkeypatch.setattr(figures_module, "PATIENCE", 0.05)
        shown, _ = await figures.exposition(0.0)
        assert b"microsub_requests_total" in shown
        await redis.aclose()


async def test_a_missing_standby_is_a_state_of_its_own(redis_server: Any) -> None:
    """It stays as long as the standby is missing, however often somebody asks."""
    redis = Acknowledged(f"{redis_server.url}?db=1", 1)
    try:
        health = Health(Presence(redis))
        for now in (0.0, 1.0, PROBE_SECONDS, PROBE_SECONDS + 1):
            report = await health.check(now)
            assert (report.status, report.redis) == ("degraded", "no standby")
            assert "too few replicas" in (report.reason or "")
            assert report.redis_is == {"reachable": True, "writable": False, "full": False}
    finally:
        await redis.aclose()


async def test_the_missing_master_of_a_cluster_is_named(cluster_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every master is asked; one that doesn't reply makes the state incomplete, whichever keys it has."""
    redis = ClusterRedis(cluster_url)
    try:
        for master in await redis.masters():

            async def fail(*_: Any) -> Any:
                raise StoreUnavailable("gone")

            with monkeypatch.context() as patch:
                for name in ("command", "run", "run_scripts"):
                    patch.setattr(master, name, fail)
                report = await Health(Presence(redis)).check(0.0)
            assert (report.status, report.redis) == ("degraded", "incomplete")
            assert report.reason == f"the Redis at {master.name} can't be reached"

            async def is_well() -> bool:
                return (await Health(Presence(redis)).check(0.0)).redis == "ok"

            await wait_until(is_well)
    finally:
        await redis.command("DEL", "probe:0")
        await redis.aclose()


async def test_settings_that_waste_memory_are_named(tmp_path: Path) -> None:
    """/health says what they cost, and what to set; of an embedded engine there is nothing to say."""
    engine = start_embedded(tmp_path)
    redis = await connect(engine.url)
    try:
        assert (await Health(Presence(redis)).check(0.0)).doubts == []
        await redis.command("CONFIG", "SET", "set-max-intset-entries", "512")
        await redis.command("ACL", "SETUSER", "default", "-config", "+config|get")
        health = Health(Presence(redis))
        page = monitoring.health(lambda: health.check(0.0), Monitors())
        (doubt,) = orjson.loads(bytes((await page(request("127.0.0.1"))).body))["doubts"]
        assert "ten times the memory" in doubt
        assert "set-max-intset-entries is 512, set it to 100000" in doubt
        await redis.command("ACL", "SETUSER", "default", "+config")
    finally:
        await redis.aclose()
        engine.stop()
