"""A server that is stopped while requests wait: it ends at once, answers all of them, and logs no errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx

from tests.support.process import installation
from tests.support.waiting import wait_until
from tests.support.web import Answer, publisher

BACKEND = {"users": {"alice": {"me": "https://alice.example/", "channels": [{"uid": "home", "name": "Home"}]}}}
SPINS = b"<rss><channel><title>t</title>" + b"<" * 5_000_000
REQUESTS = 6


async def test_requests_that_wait_for_a_parser_end_with_503(tmp_path: Path) -> None:
    """They get 503 long before the grace period for other requests ends; the log has no traceback."""
    async with publisher() as site, installation(tmp_path, BACKEND) as installed, httpx.AsyncClient(timeout=60) as http:
        urls = [site.serve_document(f"/{number}", SPINS) for number in range(REQUESTS)]
        url = await installed.serve("web")
        token = await installed.token("alice")

        async def preview(address: str) -> httpx.Response:
            parameters = {"action": "preview", "url": address}
            return await http.get(f"{url}/microsub", params=parameters, headers={"Authorization": f"Bearer {token}"})

        previews = [asyncio.create_task(preview(address)) for address in urls]
        (server,) = installed.processes
        await wait_until(lambda: sum(site.count(f"/{number}") for number in range(REQUESTS)) >= 3)
        await installed.stop()
        replies = await asyncio.gather(*previews)
        assert [reply.status_code for reply in replies] == [503] * REQUESTS
        assert all("stopping" in reply.json()["error_description"] for reply in replies)
        assert server.returncode == 0
        assert "Traceback" not in installed.log
        assert "timeout graceful shutdown exceeded" not in installed.log


async def test_a_slow_request_ends_with_503(tmp_path: Path) -> None:
    """It has the usual grace period, then it gets 503, and the log has no traceback."""
    async with publisher() as site, installation(tmp_path, BACKEND) as installed, httpx.AsyncClient(timeout=60) as http:
        silent = site.serve("/silent", Answer(b"", head_only_length=100, hang=True))
        url = await installed.serve("web")
        token = await installed.token("alice")
        asking = asyncio.create_task(
            http.get(f"{url}/microsub", params={"action": "preview", "url": silent, "access_token": token})
        )
        await wait_until(lambda: site.count("/silent"))
        await installed.stop()
        reply = await asking
        assert (reply.status_code, json.loads(reply.text)["error"]) == (503, "server_error")
        assert "Traceback" not in installed.log
