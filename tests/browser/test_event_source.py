"""A page of another site receives events with EventSource, as readers in a browser do."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from microsub.base.digests import sha256_hex
from tests.browser.tab import Tab
from tests.support.cluster import free_ports, running_server
from tests.support.process import Reader, installation
from tests.support.reader import ENDPOINT
from tests.support.waiting import wait_until
from tests.support.web import publisher

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

USERS = {"ann": {"me": "https://ann.example/", "channels": [{"uid": "home", "name": "Home", "feeds": []}]}}
SCRIPT = """address => {
  window.heard = [];
  window.source = new EventSource(address);
  for (const name of ['started', 'ping', 'resync', 'new channel', 'delete channel'])
    window.source.addEventListener(name, one => window.heard.push([name, JSON.parse(one.data)]));
}"""


async def test_event_source_reconnects(here: Tab, tmp_path: Path) -> None:
    """With the token in the address, and after a restart of the server; after the end of the token it stops."""
    port = str(free_ports(1)[0])
    with running_server(tmp_path / "redis") as redis:
        url = f"redis://127.0.0.1:{redis.port}"
        async with (
            publisher() as site,
            installation(tmp_path / "here", {"users": USERS}, MICROSUB_REDIS_URL=url, MICROSUB_PORT=port) as installed,
            httpx.AsyncClient(timeout=30) as client,
        ):
            address = await installed.serve("web")
            ann = Reader("ann", await installed.token("ann"), client, f"{address}{ENDPOINT}")
            app = Reader("ann", await installed.token("ann"), client, f"{address}{ENDPOINT}")
            await here.page.goto(site.serve_document("/reader", b"<!doctype html><title>Reader</title>", "text/html"))
            await here.page.evaluate(SCRIPT, f"{address}{ENDPOINT}?action=events&access_token={app.token}")

            async def heard(*names: str) -> list[Any]:
                async def there() -> Any:
                    found = [one for one in await here.page.evaluate("window.heard") if one[0] in names]
                    return found or None

                found: list[Any] = await wait_until(there)
                return found

            assert (await heard("started"))[0][1] == await ann.get(action="channels")
            await ann.post(action="channels", name="First")
            await heard("new channel")

            installed.processes[0].send_signal(signal.SIGKILL)
            await installed.processes[0].wait()
            await installed.serve("web")
            await ann.post(action="channels", name="Second")

            async def second() -> bool:
                found = [one for one in await here.page.evaluate("window.heard") if one[0] == "new channel"]
                return len(found) == 2

            await wait_until(second)
            assert [one[0] for one in await heard("started", "resync")] == ["started", "started"]

            code, _, err = await installed.run("token", "revoke", "ann", sha256_hex(app.token))
            assert code == 0, err

            async def closed() -> bool:
                return bool(await here.page.evaluate("window.source.readyState") == 2)

            await wait_until(closed)
