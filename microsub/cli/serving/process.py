"""A process of the server, from its start to the signal that ends it: web, worker or both.

A server runs its worker in a separate process, so that polling doesn't slow down requests. That process gets its
settings as environment variables, and its standard input is a pipe that the server keeps open: the worker ends when
the server does, however that happens. It loads its code while the server starts, and begins with
a byte in the pipe. A worker that ends earlier, or can't be started, is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import ipaddress
import os
import signal
import socket
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import structlog

from microsub import server
from microsub.admin import followed_feeds
from microsub.backend_file import first
from microsub.base import metrics
from microsub.base.errors import ConfigError, MicrosubError, StoreError, StoreUnavailable, StoreUnusable
from microsub.base.logs import set_up_logs
from microsub.base.plaintext import counted
from microsub.base.settings import Network, Settings, read_settings, variables
from microsub.base.texts import program
from microsub.base.urls import parts_of
from microsub.cli import THRESHOLD
from microsub.cli.options import fail, say
from microsub.cli.serving import Parts

if TYPE_CHECKING:
    from microsub.polling import Worker

log = structlog.get_logger(__name__)

SWITCH_SECONDS = 0.0005
"""How long a thread that reads documents may block others. A request waits for the lock several times: with Python's
default of 5 ms, a page took ten times as long while feeds were polled.
"""

NICENESS = 10
"""Niceness of a process that serves no requests, so that web processes and Redis go first when processors are busy.
Without it, with 600 feeds polled on two processors, the slowest hundredth of requests took a third longer.
"""

FIRST_SECONDS = 20.0
"""Maximum seconds for which a starting worker doesn't give way: people are waiting for the feeds that they have just
declared. On a busy machine its start alone took half a minute.
"""

AUTOGROUP = Path("/proc/self/autogroup")


class Stopping(Protocol):
    """A worker, in this process or another."""

    def stop(self) -> None:
        """Start no new work, and end within ten seconds."""
        ...


def start(settings: Settings, parts: Parts) -> None:
    """Run `parts` until a signal arrives.

    While Redis is away, a start waits. An embedded Redis that ends is started again a few times; if that doesn't help,
    the process exits with code 1, so that its supervisor restarts it.
    """
    set_up_logs(settings.log_format, settings.log_level)
    _load(parts)
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


def _load(parts: Parts) -> None:
    """Load the code of these parts, and no other: a worker has no web server."""
    if parts.listener is not None:
        importlib.import_module("microsub.server.web")
        importlib.import_module("microsub.cli.serving.webserver")
    if parts.worker == "inside":
        importlib.import_module("microsub.server.worker")


def _answer_promptly() -> None:
    """Shorten Python's two longest pauses: for the interpreter lock and for garbage collection."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # Loaded modules stay until the end, and scanning them for garbage would take 35 ms each time; now there is none.
    gc.freeze()
    gc.set_threshold(*THRESHOLD)


def give_way() -> None:
    """Lower the priority of this process below that of processes that serve requests.

    Linux may divide processor time among sessions first (sched(7), autogroups); niceness then counts only within a
    session. So a session leader, as supervisors start it, sets the niceness of its session too.
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
            from microsub_demo.publisher import Publisher

            await stack.enter_async_context(_serving(Publisher(), parts.blogs, stop))
        waiting = await stack.enter_async_context(_waiting(settings, parts, stop))
        while not stop.is_set():
            try:
                await _run_on_stores(settings, parts, stop, waiting)
            except StoreUnavailable as error:
                if not await waiting.goes_on(error):
                    raise
            else:
                return


async def _run_on_stores(settings: Settings, parts: Parts, stop: asyncio.Event, waiting: StartWait) -> None:
    """Run until `stop`. Raises StoreUnavailable if Redis isn't there; `waiting` knows whether that was at the start."""
    async with contextlib.AsyncExitStack() as stack:
        beside = None
        if parts.worker == "beside":
            beside = await stack.enter_async_context(worker_beside(settings))
        async with waiting.unless_soon():
            stores = await stack.enter_async_context(server.stores.open_stores(settings, create=True))
        await server.stores.warn_of_losses(settings, stores)
        config = None
        if parts.parent is None:  # a parent applies backend.json for both processes
            config = await stack.enter_async_context(server.backend.open_configuration(settings, stores))
        worker: Stopping | None = None
        if parts.worker == "inside":
            inside = worker = await stack.enter_async_context(server.worker.running_worker(settings, stores))
            if parts.listener is None:
                giving_way = asyncio.create_task(_give_way_after(inside), name="giving way")
                stack.callback(giving_way.cancel)
        elif beside is not None:
            await stack.enter_async_context(server.jobs.worker_to_come(stores))
            stack.push_async_callback(beside.end)  # before the stores are closed
            worker = beside
            beside.begin()
        sizes = await _sizes(stores) if parts.parent is None else ""
        if parts.listener is not None and config is not None:
            app, stop_waiting = await stack.enter_async_context(server.web.open_app(settings, stores, config))
            proxies, most = settings.trusted_proxies, settings.connections_per_address
            await waiting.end()
            await stack.enter_async_context(_serving(app, parts.listener, stop, proxies, most))
            stack.callback(stop_waiting)
            with contextlib.suppress(StoreError):  # a full Redis is no reason to end
                await stores.applied.note_address(settings.public_url)
        await waiting.end()
        if parts.parent is None:
            _log_start(settings, sizes, parts)
            problems = config.status.problems if config is not None else ()
            with contextlib.suppress(StoreUnavailable):  # Redis is lost again, and this process runs already
                shown = {"web": parts.listener is not None, "show_token": parts.show_token}
                await _greet(settings, stores, sizes, problems, **shown)
        await first(stop, stores.watch.ended)
        if worker is not None:
            worker.stop()  # it finishes its work while the server does the same
        stores.watch.raise_if_ended()


async def _give_way_after(worker: Worker) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FIRST_SECONDS):
            await worker.first_polls()
    give_way()


EMBEDDED_ATTEMPTS = 3
"""How often a start is tried if its own embedded Redis ends meanwhile."""
WAITS = 1.0
"""Seconds between two attempts to start while Redis is away."""
SOON = 3.0
"""Seconds after which a process whose attempt isn't over says that it waits."""


class StartWait:
    """A process that can't start yet because Redis is away: it logs this once, and answers 503 at its port."""

    def __init__(self, settings: Settings, parts: Parts, stop: asyncio.Event) -> None:
        self._settings = settings
        self._parts = parts
        self._stop = stop
        self._attempts = 0
        self._serving = contextlib.AsyncExitStack()
        self._is_answering = self._has_started = False

    async def goes_on(self, error: StoreUnavailable) -> bool:
        """Wait a moment; False if waiting doesn't help, or the process had started."""
        self._attempts += 1
        too_often = self._settings.embedded and self._attempts >= EMBEDDED_ATTEMPTS
        if self._has_started or too_often or isinstance(error, StoreUnusable):
            return False
        if self._attempts == 1:
            log.warning("waiting for Redis", reason=str(error))
        await self._answer()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAITS):
                await self._stop.wait()
        return True

    @contextlib.asynccontextmanager
    async def unless_soon(self) -> AsyncIterator[None]:
        """Wait visibly if the block, which opens the stores, takes longer than `SOON`."""
        opened = asyncio.Event()

        async def watch() -> None:
            try:
                async with asyncio.timeout(SOON):
                    await opened.wait()
            except TimeoutError:
                log.info("waiting for Redis", reason="it reads its data, or doesn't reply yet")
                await self._answer()

        watching = asyncio.create_task(watch(), name="waiting for Redis")
        try:
            yield
        finally:
            opened.set()
            await watching

    async def _answer(self) -> None:
        """Answer 503 at the port of the process, if it has one and doesn't answer yet."""
        if self._parts.listener is None or self._is_answering:
            return
        self._is_answering = True
        monitors = server.web.monitors_of(self._settings)
        app = server.app.waiting_app("the process is starting and waits for Redis", monitors)
        await self._serving.enter_async_context(_serving(app, self._parts.listener.dup(), asyncio.Event()))

    async def end(self) -> None:
        """Leave the port to the application: the process starts."""
        self._has_started = True
        await self._serving.aclose()


@contextlib.asynccontextmanager
async def _waiting(settings: Settings, parts: Parts, stop: asyncio.Event) -> AsyncIterator[StartWait]:
    waiting = StartWait(settings, parts, stop)
    try:
        yield waiting
    finally:
        await waiting.end()


async def _sizes(stores: server.stores.Stores) -> str:
    """The numbers of followed feeds and of users, for people."""
    try:
        feeds = sum([1 async for _ in followed_feeds(stores.feeds)])
        users = sum(user.disabled is None for user in await stores.accounts.users())
    except StoreUnavailable:
        return "feeds and users can't be counted now"
    return f"{counted(feeds, 'feed')}, {counted(users, 'user')}"


def _log_start(settings: Settings, sizes: str, parts: Parts) -> None:
    """Log one line about the start, because the greeting isn't in the log."""
    what = "server" if parts.worker == "beside" else "web process" if parts.listener is not None else "worker"
    where = {} if parts.listener is None else {"at": settings.public_url}
    log.info(f"{what} started: {sizes}", **where)


async def _greet(
    settings: Settings,
    stores: server.stores.Stores,
    sizes: str,
    problems: Sequence[ConfigError],
    *,
    web: bool,
    show_token: bool,
) -> None:
    """Print on standard output where everything is.

    A token is shown on a terminal or on request, because other output ends up in a log. A server that other machines
    can reach never shows one.
    """
    lines = [f"data       {stores.where}"]
    backend = settings.backend.resolve()
    if backend.is_file() and problems:
        what = str(problems[0]).removeprefix(f"{problems[0].file}: ")
        more = f" (and {len(problems) - 1} more: {program()} config check)" if len(problems) > 1 else ""
        lines.append(f"config     backend.json is refused: {what}{more}")
    elif backend.is_file():
        lines.append(f"config     {backend} (edits apply at once)")
    elif backend.exists():
        lines.append(f"config     none: {backend} isn't a file; choose one with --backend")
    else:
        creates = "; the first user creates it" if settings.writes_back else ""
        lines.append(f"config     none: {backend} doesn't exist{creates}")
    someone = any(user.disabled is None for user in await stores.accounts.users())
    if someone or not problems:
        lines.append(f"now        {sizes}{', by the last valid file' if problems else ''}")
    if web:
        endpoint = f"{settings.public_url}/microsub"
        lines = [f"Microsub server on {settings.public_url}", f"endpoint   {endpoint}", *lines]
        public = parts_of(settings.public_url).hostname or ""
        local = settings.embedded and _is_local(settings.host) and _is_local(public)
        wanted = show_token or sys.stdout.isatty()
        token = await server.backend.greeting_token(stores, time.time()) if local and wanted else None
        if token:
            link = await server.backend.greeting_link(stores)
            lines.insert(1, f"read       {settings.public_url}{link} (signs you in once, within five minutes)")
            lines.append(f"try        curl -s -H 'Authorization: Bearer {token}' '{endpoint}?action=channels'")
        elif someone:
            lines.insert(1, f"read       {program()} user invite USER (prints a sign-in link)")
            lines.append(f"try        {program()} token create USER")
        else:
            lines.append(f"try        {program()} {'config check' if problems else 'user add NAME'}")
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


def _serving(
    app: object, listener: socket.socket, stop: asyncio.Event, proxies: Sequence[Network] = (), most: int = 0
) -> contextlib.AbstractAsyncContextManager[None]:
    """See `webserver.serving`."""
    from microsub.cli.serving.webserver import serving

    return serving(app, listener, stop, proxies, most)


END_SECONDS = 9.5
"""How long to wait for the worker to end, of the ten seconds in all. It takes less unless it hangs."""

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds until an ended worker is restarted. Each pause doubles until a worker has lived for `LONGEST_PAUSE`."""


class WorkerBeside:
    """Controls the worker process, across its restarts."""

    def __init__(self, settings: Settings, figures: Path) -> None:
        self._variables = variables(settings) | {metrics.FOLDER_VARIABLE: str(figures)}
        self._figures = figures
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._begun = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The id of the process; None between two processes."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """Ask the process to end, and start no other."""
        self._stopping.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def begin(self) -> None:
        """Let the process begin its work, now that the stores and the configuration are there."""
        self._begun.set()

    async def end(self) -> None:
        """`stop`, and wait for the end of the process; a hanging one is killed."""
        self.stop()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            if self._process is not None:
                self._process.kill()
            await self._ended.wait()

    async def run(self) -> None:
        """Keep one process running until `stop`."""
        try:
            await self._run()
        finally:
            self._ended.set()

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                code = await self._one()
            except OSError as error:  # the limit of processes or memory is reached
                log.error("can't start the worker; retrying", why=str(error), seconds=pause)  # noqa: TRY400
            else:
                if self._stopping.is_set():
                    return
                pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else pause
                log.error("the worker has ended; restarting it", exit_code=code, seconds=pause)
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
            start_new_session=True,  # this process handles Ctrl-C
        )
        self._process = process
        if self._stopping.is_set():  # while it was being started
            self.stop()
        beginning = asyncio.create_task(self._let_begin(process), name="worker begins")
        try:
            return await process.wait()
        finally:
            beginning.cancel()
            self._process = None
            if process.returncode is None:
                process.kill()
                await process.wait()
            metrics.forget(process.pid, self._figures)

    async def _let_begin(self, process: Process) -> None:
        await self._begun.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.write(b"\n")


@contextlib.asynccontextmanager
async def worker_beside(settings: Settings) -> AsyncIterator[WorkerBeside]:
    """Load a worker process within the block, which works from `begin` on; its metrics are added to ours."""
    with tempfile.TemporaryDirectory(prefix="microsub-metrics-") as folder, metrics.added(Path(folder)) as figures:
        worker = WorkerBeside(settings, figures)
        running = asyncio.create_task(worker.run(), name="worker beside")
        try:
            yield worker
        finally:
            await worker.end()
            await running


def work_when_told(parent: int) -> None:
    """Load the code of a worker, and run it after a byte from `parent`; end with it."""
    importlib.import_module("microsub.server.worker")
    if os.read(parent, 1):
        start(read_settings(os.environ), Parts(worker="inside", parent=parent))


if __name__ == "__main__":
    work_when_told(sys.stdin.fileno())
