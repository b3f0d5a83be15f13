"""A process of the server, from its start to the signal that ends it: web, worker or both.

A server's worker runs in a process of its own beside it, so that what comes in doesn't take time away from readers.
That process gets its settings as environment variables, and a pipe at its standard input that the server holds open: it
ends when the server does, however that ends. One that ends before, or can't be started, is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import os
import signal
import socket
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import structlog
import uvicorn

from microsub import metrics, wiring
from microsub.cli import THRESHOLD
from microsub.cli.options import fail, say
from microsub.cli.serving.webport import bounded, look_at_all
from microsub.configuration.sync import first
from microsub.errors import MicrosubError
from microsub.kit.urls import parts_of
from microsub.logs import set_up_logs
from microsub.model.plaintext import counted
from microsub.settings import Network, Settings, read_settings, variables
from microsub.upkeep.survey import followed_feeds

log = structlog.get_logger(__name__)

SWITCH_SECONDS = 0.0005
"""How long a thread that reads documents may keep the others waiting: requests wait several times for their turn, and
with Python's own 5 ms a page took ten times as long while feeds came in.
"""

NICENESS = 10
"""By how much a process that answers nobody gives way to those that do, and to Redis, where processors are short: with
600 feeds coming in, the slowest hundredth of the readers on two processors waited a third longer without.
"""

AUTOGROUP = Path("/proc/self/autogroup")

GRACE = 8
"""Seconds that requests have to end. A worker has as long (`polling.worker`), and ten seconds are all there is."""


class Stopping(Protocol):
    """A worker, wherever it runs."""

    def stop(self) -> None:
        """Take nothing new, and end within ten seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a process does; each part may be missing.

    `listener` is for web, `blogs` for those of the demo. A worker runs `inside` the process, or `beside` it as a
    process of its own, so that no reader waits for what comes in.

    `parent` is the pipe of a process that this one belongs to: it ends when that is closed, and greets nobody.
    `show_token` says that the greeting may have a token though it goes to no terminal.
    """

    listener: socket.socket | None = None
    blogs: socket.socket | None = None
    worker: Literal["inside", "beside"] | None = None
    parent: int | None = None
    show_token: bool = False


def start(settings: Settings, parts: Parts) -> None:
    """Run `parts` until a signal comes.

    A process whose embedded Redis is lost ends with exit code 1, for its supervisor to start it again.
    """
    set_up_logs(settings.log_format, settings.log_level)
    _answer_promptly()
    if parts.listener is not None:
        settings = replace(settings, port=parts.listener.getsockname()[1])
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(settings, parts))
        if parts.parent is None:
            log.info("stopped")
    except MicrosubError as error:
        fail(str(error))


def _answer_promptly() -> None:
    """Spare requests Python's two longest waits: for the interpreter lock and for garbage."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # What is loaded now stays to the end: looking through all of it for garbage takes 35 ms each time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLD)


def give_way() -> None:
    """Leave processors to those who answer readers, where there are too few.

    Linux may share them out among sessions first (sched(7), autogroups), and niceness counts within one alone. So a
    process whose own the session is, as supervisors start them, says it for the session too.
    """
    os.nice(NICENESS)
    if AUTOGROUP.exists() and os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            AUTOGROUP.write_text(f"{NICENESS}")


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows and PyPy have none
        return None
    loop: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return loop


async def _run(settings: Settings, parts: Parts) -> None:
    stop = asyncio.Event()
    _on_signals(stop)
    if parts.parent is not None:
        asyncio.get_running_loop().add_reader(parts.parent, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        if parts.blogs is not None:
            from microsub.demo.publisher import Publisher

            await stack.enter_async_context(_serving(Publisher(), parts.blogs, stop))
        stores = await stack.enter_async_context(wiring.stores.open_stores(settings, create=True))
        if parts.listener is None:
            give_way()  # after Redis was started, which would have it from us
        await wiring.stores.warn_of_losses(settings, stores)
        config = None
        if parts.parent is None:  # which applies backend.json for both
            config = await stack.enter_async_context(wiring.backend.open_configuration(settings, stores))
        worker: Stopping | None = None
        if parts.worker == "inside":
            worker = await stack.enter_async_context(wiring.worker.running_worker(settings, stores))
        elif parts.worker == "beside":
            await stack.enter_async_context(wiring.worker.worker_to_come(stores))
            worker = await stack.enter_async_context(worker_beside(settings))
        if parts.listener is not None and config is not None:
            app, stop_waiting = await stack.enter_async_context(wiring.web.open_app(settings, stores, config))
            proxies, most = settings.trusted_proxies, settings.connections_per_address
            await stack.enter_async_context(_serving(app, parts.listener, stop, proxies, most))
            stack.callback(stop_waiting)
        if parts.parent is None:
            sizes = await _sizes(stores)
            _log_start(settings, sizes, parts)
            await _greet(settings, stores, sizes, web=parts.listener is not None, show_token=parts.show_token)
        await first(stop, stores.watch.ended)
        if worker is not None:
            worker.stop()  # it ends what it has in hand while the server does the same
        stores.watch.raise_if_ended()


async def _sizes(stores: wiring.stores.Stores) -> str:
    """How many users there are, and feeds that somebody follows."""
    feeds = sum([1 async for _ in followed_feeds(stores.feeds)])
    users = sum(user.disabled is None for user in await stores.accounts.users())
    return f"{counted(feeds, 'feed')}, {counted(users, 'user')}"


def _log_start(settings: Settings, sizes: str, parts: Parts) -> None:
    """One line for the log, in which nobody sees the greeting."""
    what = "server" if parts.worker == "beside" else "web process" if parts.listener is not None else "worker"
    where = {} if parts.listener is None else {"at": settings.public_url}
    log.info(f"{what} started: {sizes}", **where)


async def _greet(settings: Settings, stores: wiring.stores.Stores, sizes: str, *, web: bool, show_token: bool) -> None:
    """Say on standard output where everything is.

    A token is shown on a terminal or where it was asked for, and only by a server that nobody but this machine can
    reach: output that goes elsewhere ends in a log.
    """
    lines = [f"data       {stores.where}"]
    backend = settings.backend.resolve()
    if backend.is_file():
        lines.append(f"config     {backend} (edits apply at once)")
    elif backend.exists():
        lines.append(f"config     none: {backend} is no file; name one with --backend")
    else:
        lines.append(f"config     none: {backend} doesn't exist; see backend.json.example")
    lines.append(f"now        {sizes}")
    if web:
        endpoint = f"{settings.public_url}/microsub"
        lines = [f"Microsub server on {settings.public_url}", f"endpoint   {endpoint}", *lines]
        public = parts_of(settings.public_url).hostname or ""
        local = settings.embedded and _is_local(settings.host) and _is_local(public)
        wanted = show_token or sys.stdout.isatty()
        token = await wiring.backend.greeting_token(stores, time.time()) if local and wanted else None
        if token:
            link = await wiring.backend.greeting_link(stores)
            lines.insert(1, f"read       {settings.public_url}{link} (signs you in once, within five minutes)")
            lines.append(f"try        curl -s -H 'Authorization: Bearer {token}' '{endpoint}?action=channels'")
        elif any(user.disabled is None for user in await stores.accounts.users()):
            lines.insert(1, "read       microsub user invite USER (prints a link to sign in by)")
            lines.append("try        microsub token create USER")
        else:
            lines.append(f"try        microsub user add NAME, or declare users in {backend}")
    say("\n".join(lines))
    sys.stdout.flush()


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling, and with a look for late clients."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:  # ten times a second
        if counter % 10 == 0:
            look_at_all(list(self.server_state.connections), asyncio.get_running_loop().time())
        return await super().on_tick(counter)


@contextlib.asynccontextmanager
async def _serving(
    app: object, listener: socket.socket, stop: asyncio.Event, proxies: Sequence[Network] = (), most: int = 0
) -> AsyncIterator[None]:
    """Serve an ASGI app on `listener` within the block; a server that dies sets `stop`.

    What the servers of `proxies` say of a client's address and scheme is believed. Any other network may have `most`
    connections (0: any number).
    """
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # any ASGI callable
        http=bounded(most, proxies),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=[str(network) for network in proxies],
        timeout_graceful_shutdown=GRACE,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    task.add_done_callback(lambda _: stop.set())
    try:
        yield
    finally:
        server.should_exit = True
        await task


END_SECONDS = 9.5
"""For the worker to end after it was asked to. It does in less, unless it is frozen or lost; and ten seconds are all
there is.
"""

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds until a worker that ended is started again; each pause is twice the last, until one has lived for so long."""


class WorkerBeside:
    """The hold on the process, whichever it is at the moment."""

    def __init__(self, settings: Settings, figures: Path) -> None:
        self._variables = variables(settings) | {metrics.FOLDER_VARIABLE: str(figures)}
        self._figures = figures
        self._process: Process | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The number of the process; None between two."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """Ask it to end, and start no other."""
        self._stopping.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    async def run(self) -> None:
        """Keep one running until `stop`."""
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                code = await self._one()
            except OSError as error:  # no process or no memory for one at this moment
                log.error("the worker can't be started and is tried again", why=str(error), seconds=pause)  # noqa: TRY400
            else:
                if self._stopping.is_set():
                    return
                pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else pause
                log.error("the worker has ended and is started again", exit_code=code, seconds=pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _one(self) -> int:
        """Run one process to its end; its exit code."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "microsub.cli.serving.process"),
            env=os.environ | self._variables,
            stdin=PIPE,
            stdout=DEVNULL,
            start_new_session=True,  # Ctrl-C at a terminal is ours to handle
        )
        self._process = process
        if self._stopping.is_set():  # while it was being started
            self.stop()
        try:
            return await process.wait()
        finally:
            self._process = None
            if process.returncode is None:
                process.kill()
                await process.wait()
            metrics.forget(process.pid, self._figures)


@contextlib.asynccontextmanager
async def worker_beside(settings: Settings) -> AsyncIterator[WorkerBeside]:
    """A worker process beside this one for the block; its metrics are added to ours."""
    with tempfile.TemporaryDirectory(prefix="microsub-metrics-") as folder, metrics.added(Path(folder)) as figures:
        worker = WorkerBeside(settings, figures)
        running = asyncio.create_task(worker.run(), name="worker beside")
        try:
            yield worker
        finally:
            worker.stop()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await running


if __name__ == "__main__":
    start(read_settings(os.environ), Parts(worker="inside", parent=sys.stdin.fileno()))
