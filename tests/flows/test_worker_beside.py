"""`microsub serve` and the worker beside it: it is there, comes back when it dies, and ends with its server."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path

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
        if parent == server and b"microsub.cli.serving.process" in command:
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


async def started(installed: Installation) -> int:
    """The process id of the worker of a server."""
    await installed.serve()
    server = installed.processes[-1].pid
    worker: int = await wait_until(lambda: worker_of(server))
    return worker


async def test_the_worker_is_there_gives_way_and_is_replaced_when_it_is_killed(tmp_path: Path) -> None:
    """Readers notice nothing, what is followed afterwards is polled, and the metrics of both workers are added up."""
    async with publisher() as site, of_alice(tmp_path, site, 3) as here:
        url = await here.serve()
        async with reader(url, await here.token("alice")) as alice:
            # The worker may take its time to start: that is no trouble, and nobody takes its place.
            health = await alice.client.get(f"{url}/health")
            assert health.status_code == 200, health.text
            server = here.processes[-1].pid
            first = await wait_until(lambda: worker_of(server))
            await gives_way(first, server)
            await alice.has(3)
            os.kill(first, signal.SIGKILL)
            assert len(await alice.timeline("home")) == 3
            second = await wait_until(lambda: {worker_of(server)} - {first, None} and worker_of(server))
            await alice.post(action="follow", channel="home", url=site.serve_document("/b", rss(dated(2), title="B")))
            await wait_until(lambda: here.log.count('"feed polled"') == 2)
            assert "the worker has ended; restarting it" in here.log
            metrics = (await alice.client.get(f"{url}/metrics")).text
            assert 'microsub_polls_total{outcome="changed"} 2.0' in metrics
            assert "microsub_users 1.0" in metrics
            assert 'microsub_requests_total{action="timeline",status="200"}' in metrics
        await here.stop()
        await wait_until(lambda: not is_alive(second))


async def gives_way(worker: int, server: int) -> None:
    """By its niceness, and by that of its session, which counts first where sessions share out processors."""
    await wait_until(lambda: os.getpriority(os.PRIO_PROCESS, worker) > os.getpriority(os.PRIO_PROCESS, server))
    group = Path(f"/proc/{worker}/autogroup")
    if group.exists():
        await wait_until(lambda: int(group.read_text().rpartition(" ")[2]) > 0)


async def test_a_worker_ends_with_its_server_however_that_ends(tmp_path: Path) -> None:
    """Killed, the server leaves none behind that nobody would stop; asked to end, it ends one that is frozen."""
    async with publisher() as site, of_alice(tmp_path, site, 1) as here:
        worker = await started(here)
        await here.stop(signal.SIGKILL)
        await wait_until(lambda: not is_alive(worker))
        frozen = await started(here)
        os.kill(frozen, signal.SIGSTOP)
        await here.stop()
        assert here.processes[-1].returncode == 0
        assert not is_alive(frozen)
