"""The number of hosts that a worker polls at the same time."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import structlog

from microsub.base.settings import Settings
from microsub.redis.embedded.server import Watch
from microsub.redis.protocol import Redis
from microsub.server.poller import hosts_at_once, open_worker
from microsub.server.stores import Stores


def test_descriptors_limit_the_hosts_at_once() -> None:
    """Four for each host and some for everything else; the admin's setting if there are enough."""
    assert hosts_at_once(200, 1024) == 200
    assert hosts_at_once(1500, 1024) == 240
    assert hosts_at_once(200, 200) == 34
    assert hosts_at_once(200, 256) == 48
    assert hosts_at_once(200, 16) == 1
    assert hosts_at_once(10_000, resource.RLIM_INFINITY) == 10_000
    assert hosts_at_once(200, 1 << 20) == 200


async def test_the_limit_is_that_of_the_process(
    real_redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default needs 1,024 file descriptors; with fewer, a warning says how many hosts are possible."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    stores = Stores(real_redis, "", "", Watch())
    with structlog.testing.capture_logs() as lines:
        async with open_worker(Settings(data_dir=tmp_path), stores) as worker:
            assert worker._most == 48
    (line,) = [line for line in lines if line["log_level"] == "warning"]
    assert (line["hosts"], line["wanted"], line["limit"]) == (48, 200, 256)
