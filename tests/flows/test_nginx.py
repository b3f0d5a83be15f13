"""The server behind nginx, with the configuration from the how-to."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.flows.test_websub import POLLED_RARELY, document, follow, free_port, in_timeline
from tests.support.event_stream import listening_by_http, next_item
from tests.support.hub import hub
from tests.support.process import Installation, installation
from tests.support.reader import Reader
from tests.support.waiting import wait_until
from tests.support.web import Publisher, certificate, publisher

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
HOST = "reader.example"
BASE = f"https://{HOST}"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-behind-nginx.md"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed; Debian: apt-get install nginx-light")


class Through(httpx.AsyncHTTPTransport):
    """Sends requests for `BASE` to nginx, as DNS would; all others go to their own addresses."""

    def __init__(self, port: int, trusted: ssl.SSLContext) -> None:
        super().__init__(verify=trusted)
        self._port = port

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `AsyncHTTPTransport`."""
        if request.url.host == HOST:
            request.extensions = {**request.extensions, "sni_hostname": HOST}
            request.url = request.url.copy_with(host="127.0.0.1", port=self._port)
        return await super().handle_async_request(request)


@dataclass
class Behind:
    """An installation behind nginx; `http` sends requests to `BASE`, `direct` is the server's own address."""

    made: Installation
    site: Publisher
    http: httpx.AsyncClient
    direct: str

    async def alice(self) -> Reader:
        return Reader("alice", await self.made.token("alice"), self.http, f"{BASE}/microsub")


def configuration(folder: Path, port: int, server: int) -> str:
    """The configuration block of the how-to with this machine's ports and files, completed to a file for nginx."""
    block = re.search(r"```nginx\n(server .*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    text = block[1]
    for told, here in {
        "listen [::]:443 ssl http2;": "",
        "listen 443 ": f"listen 127.0.0.1:{port} ",
        f"/etc/letsencrypt/live/{HOST}/fullchain.pem": str(folder / "cert.pem"),
        f"/etc/letsencrypt/live/{HOST}/privkey.pem": str(folder / "key.pem"),
        "127.0.0.1:8080": f"127.0.0.1:{server}",
    }.items():
        assert text.count(told) == 1, told
        text = text.replace(told, here)
    paths = "".join(
        f"{name}_temp_path {folder / name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root; " if os.getuid() == 0 else ""  # otherwise its workers can't write to the tests' folders
    return (
        f"{user}daemon off; pid {folder / 'nginx.pid'}; error_log {folder / 'error.log'};\n"
        f"events {{}}\nhttp {{\n{paths}{text}}}\n"
    )


@asynccontextmanager
async def nginx(folder: Path, listener: socket.socket, server: int) -> AsyncIterator[None]:
    """Run nginx in the foreground until the end of the block. It takes over the open socket, so no other program can
    take its port meanwhile.
    """
    folder.mkdir(exist_ok=True)
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, listener.getsockname()[1], server))
    assert NGINX is not None
    inherited = listener.fileno()
    process = await asyncio.create_subprocess_exec(
        *(NGINX, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(file)),
        pass_fds=[inherited],
        env={**os.environ, "NGINX": f"{inherited};"},
    )
    try:
        await wait_until((folder / "nginx.pid").exists)
        yield
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[Behind]:
    """A server with the settings of the how-to; Alice follows a feed with a hub."""
    server = free_port()
    environ = {"MICROSUB_BASE_URL": BASE, "MICROSUB_TRUSTED_PROXIES": "127.0.0.1/32", "MICROSUB_PORT": str(server)}
    folder = tmp_path / "nginx"
    folder.mkdir()
    _, trusted = certificate(folder, HOST)
    listener = socket.create_server(("127.0.0.1", 0))
    through = Through(listener.getsockname()[1], trusted)
    async with publisher() as site, httpx.AsyncClient(transport=through, timeout=60) as http:
        users = {"alice": {"channels": [{"uid": "home", "name": "Home", "feeds": [site.url("/feed")]}]}}
        backend = {"users": users, "settings": POLLED_RARELY}
        async with installation(tmp_path / "server", backend, **environ) as made, nginx(folder, listener, server):
            listener.close()
            yield Behind(made, site, http, f"http://127.0.0.1:{server}")


async def test_events_pass_the_buffers_of_nginx(behind: Behind) -> None:
    """Events arrive within a second despite the default buffering of nginx; a reply with only its head passes too."""
    async with hub(behind.site, behind.http) as one:
        await follow(behind.site, one, ["first"])
        await behind.made.serve()
        alice = await behind.alice()
        await wait_until(lambda: in_timeline(alice, "first"))
        await wait_until(lambda: one.callbacks)
        waited = []
        async with listening_by_http(alice) as events:
            for number in range(3):
                began = time.monotonic()
                body = document(behind.site, one, [f"post {number}", "first"])
                assert await one.publish(behind.site.url("/feed"), body) == [202]
                assert await next_item(events) == f"post {number}"
                waited.append(time.monotonic() - began)
        assert min(waited) < 1.0, "what is held back comes with a later heartbeat, after many seconds"


async def test_pages_pushes_and_uploads_work_through_nginx(behind: Behind) -> None:
    """A timeline page, the sign-in, a hub's delivery and a large upload work; strangers get no metrics."""
    async with hub(behind.site, behind.http) as one:
        await follow(behind.site, one, ["first"])
        await behind.made.serve()
        alice = await behind.alice()
        await wait_until(lambda: in_timeline(alice, "first"))

        reply = await behind.http.get(f"{BASE}/account")
        assert (reply.status_code, reply.headers["location"]) == (303, "/sign-in?next=%2Faccount")
        page = await behind.http.get(f"{BASE}{reply.headers['location']}")
        assert page.status_code == 200
        assert all("Secure" in cookie for cookie in page.headers.get_list("set-cookie")), page.headers

        await wait_until(lambda: one.callbacks)
        assert one.callbacks[0].startswith(f"{BASE}/websub/")
        large = document(behind.site, one, ["second", "first"]) + b"<!-- " + b"x" * 1_500_000 + b" -->"
        assert await one.publish(behind.site.url("/feed"), large) == [202]
        await wait_until(lambda: in_timeline(alice, "second"))

        outline = b"<outline text='A' xmlUrl='" + behind.site.url("/other").encode() + b"'/>"
        opml = b"<opml><body>" + outline + b"<!-- " + b"x" * 1_200_000 + b" --></body></opml>"
        reply = await behind.http.post(f"{BASE}/opml", headers=alice.headers, content=opml)
        assert (reply.status_code, reply.json()["added"]) == (200, 1), reply.text

        assert (await behind.http.get(f"{BASE}/metrics")).status_code == 404
        assert (await behind.http.get(f"{BASE}/health")).json() == {"status": "ok"}
        assert (await httpx.AsyncClient().get(f"{behind.direct}/health")).json()["push"] == "ok"
