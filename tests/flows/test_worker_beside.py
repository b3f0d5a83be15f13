"""`microsub serve` and the worker beside it: it is there, comes back when it dies, and ends with its server."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx

from tests.support.polling import dated, rss
from tests.support.process import PROGRAM, Installation, installation, reader
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher


def worker_of(server: int) -> int | None:
    """The process id of the worker that the server has beside it, None while it has none."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if parent == server and b"microsub.cli.running" in command:
            return int(folder.name)
    return None


def is_alive(pid: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def of_alice(folder: Path, site: Publisher, posts: int) -> AbstractAsyncContextManager[Installation]:
    """Alice follows a feed of so many posts."""
    channel = {"uid": "home", "name": "Home", "feeds": [site.serve_document("/a", rss(dated(posts)))]}
    users, settings = {"alice": {"channels": [channel]}}, {"polling": {"host_interval": 0}}
    return installation(folder, {"users": users, "settings": settings}, program=PROGRAM)


async def started(installed: Installation) -> tuple[str, int, int]:
    """The address of a server, its process id and its worker's."""
    url = await installed.serve()
    server = installed.processes[-1].pid
    return url, server, await wait_until(lambda: worker_of(server))


async def test_a_server_is_well_from_its_greeting_on(tmp_path: Path) -> None:
    """The worker may take its time to start: that is no trouble, and nobody takes its place."""
    async with (
        installation(tmp_path, {"users": {"alice": {}}}, program=PROGRAM) as here,
        httpx.AsyncClient(timeout=60) as http,
    ):
        url = await here.serve()
        answer = await http.get(f"{url}/health")
        assert answer.status_code == 200, answer.text


async def test_the_worker_gives_way_to_its_server(tmp_path: Path) -> None:
    """By its niceness, and by that of its session, which counts first where sessions share out processors."""
    async with installation(tmp_path, {"users": {"alice": {}}}, program=PROGRAM) as here:
        _, server, worker = await started(here)
        await wait_until(lambda: os.getpriority(os.PRIO_PROCESS, worker) > os.getpriority(os.PRIO_PROCESS, server))
        group = Path(f"/proc/{worker}/autogroup")
        if group.exists():
            await wait_until(lambda: int(group.read_text().rpartition(" ")[2]) > 0)


async def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    """Readers notice nothing, what is followed afterwards is polled, and the metrics of both workers are added up."""
    async with publisher() as site, of_alice(tmp_path, site, 3) as here:
        url, server, first = await started(here)
        async with reader(url, await here.token("alice")) as alice:

            async def delivered() -> bool:
                return len(await alice.timeline("home")) == 3

            await wait_until(delivered)
            os.kill(first, signal.SIGKILL)
            assert await delivered()
            await wait_until(lambda: worker_of(server) not in {first, None})
            await alice.post(action="follow", channel="home", url=site.serve_document("/b", rss(dated(2), title="B")))
            await wait_until(lambda: here.log.count('"feed polled"') == 2)
            assert "the worker has ended and is started again" in here.log
            async with httpx.AsyncClient(timeout=60) as http:
                metrics = (await http.get(f"{url}/metrics")).text
            assert 'microsub_polls_total{outcome="changed"} 2.0' in metrics
            assert "microsub_users 1.0" in metrics
            assert 'microsub_requests_total{action="timeline",status="200"}' in metrics


async def test_a_worker_ends_with_its_server_however_that_ends(tmp_path: Path) -> None:
    """Asked to end, the server takes its worker with it; killed, it leaves none behind that nobody would stop."""
    async with publisher() as site, of_alice(tmp_path, site, 1) as here:
        for number in (signal.SIGTERM, signal.SIGKILL):
            _, _, worker = await started(here)
            await here.stop(number)
            await wait_until(lambda worker=worker: not is_alive(worker))  # type: ignore[misc]


async def test_a_frozen_worker_holds_up_no_server_that_is_to_end(tmp_path: Path) -> None:
    """What doesn't end by itself is ended, and the server leaves within its ten seconds."""
    async with publisher() as site, of_alice(tmp_path, site, 1) as here:
        _, _, worker = await started(here)
        os.kill(worker, signal.SIGSTOP)
        await here.stop()
        assert here.processes[-1].returncode == 0
        assert not is_alive(worker)
