"""`microsub serve` and its worker process, which is restarted when it dies, and ends with its server."""

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
    """The process id of the server's worker, None while there is none."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:  # the process has ended
            continue
        if parent == server and b"microsub.cli.serving.process" in command:
            return int(folder.name)
    return None


def is_alive(pid: int) -> bool:
    """Whether a process with this id runs."""
    try:
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def of_alice(folder: Path, site: Publisher, posts: int) -> AbstractAsyncContextManager[Installation]:
    """An installation in which Alice follows a feed of `posts` posts."""
    channel = {"uid": "home", "name": "Home", "feeds": [site.serve_document("/a", rss(dated(posts)))]}
    users, settings = {"alice": {"channels": [channel]}}, {"polling": {"host_interval": 0}}
    return installation(folder, {"users": users, "settings": settings}, program=PROGRAM)


async def test_a_worker_is_replaced_and_ends_with_its_server(tmp_path: Path) -> None:
    """While a killed worker is replaced, requests are answered; then new follows are polled, and the metrics of both
    workers are added up. A stopped server also ends a frozen worker, and the worker of a killed server ends.
    """
    async with publisher() as site, of_alice(tmp_path, site, 3) as here:
        url = await here.serve()
        async with reader(url, await here.token("alice")) as alice:
            # The worker may start slowly: that isn't an error, and no other one is started.
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
        os.kill(second, signal.SIGSTOP)
        await here.stop()
        assert here.processes[-1].returncode == 0
        assert not is_alive(second)
        await here.serve()
        server = here.processes[-1].pid
        last: int = await wait_until(lambda: worker_of(server))
        await here.stop(signal.SIGKILL)
        await wait_until(lambda: not is_alive(last))


async def gives_way(worker: int, server: int) -> None:
    """Lower priority by niceness, and by that of the session if the kernel groups processes by session."""
    await wait_until(lambda: os.getpriority(os.PRIO_PROCESS, worker) > os.getpriority(os.PRIO_PROCESS, server))
    group = Path(f"/proc/{worker}/autogroup")
    if group.exists():
        await wait_until(lambda: int(group.read_text().rpartition(" ")[2]) > 0)
