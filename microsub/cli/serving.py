"""`microsub serve`, `web`, `work` and `demo`: the processes of the server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import click
import uvicorn

from microsub import wiring
from microsub.cli.options import (
    FETCH_FLAGS,
    STORE_FLAGS,
    WEB_FLAGS,
    WORK_FLAGS,
    fail,
    settings_flags,
)
from microsub.config.settings import Settings
from microsub.demo import publisher as demo_publisher
from microsub.demo.claim import claimed
from microsub.errors import MicrosubError
from microsub.logs import set_up_logs
from microsub.services.waits import first

SWITCH_SECONDS = 0.0005
"""How long a thread that reads documents may keep the others waiting: requests wait several times for their turn, and
with Python's own 5 ms a page took ten times as long while feeds came in.
"""

GRACE = 8
"""Seconds that requests have to end. A worker has as long (`pipeline.runner`), and ten seconds are all there is."""


@click.command()
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS)
def serve(settings: Settings) -> None:
    """Run everything in one process: web, worker, configuration, and Redis when none is given.

    Example: microsub serve --port 8081 --backend my.json
    """
    with _listen(settings.host, settings.port) as listener:
        _start(settings, listener, work=True)


@click.command()
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS)
def web(settings: Settings) -> None:
    """Run a process that answers reader apps. Run `microsub work` beside it."""
    with _listen(settings.host, settings.port) as listener:
        _start(settings, listener, work=False)


@click.command()
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WORK_FLAGS)
def work(settings: Settings) -> None:
    """Run a process that polls feeds and cleans up. Any number of them share the work."""
    _start(settings, None, work=True)


@click.command()
@click.option("--publisher-port", default=8081, show_default=True, help="Where the invented blogs are served.")
@settings_flags(
    *(name for name in STORE_FLAGS if name not in {"backend", "redis_url"}), *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS
)
def demo(settings: Settings, publisher_port: int) -> None:
    """Serve invented blogs in every format on this machine, and follow them. Needs no internet.

    Its data, its Redis and its backend file are always its own, in data/demo: nothing of yours is touched, and
    MICROSUB_REDIS_URL and MICROSUB_BACKEND are ignored. Its log tells of trouble alone, unless --log-level or
    MICROSUB_LOG_LEVEL asks for more.
    """
    folder = settings.data_dir / "demo"
    backend = folder / "backend.json"
    with contextlib.ExitStack() as opened:
        # All before the file is written: it may be that of a demo that runs.
        listener = opened.enter_context(_listen(settings.host, settings.port))
        blogs = opened.enter_context(_listen("127.0.0.1", publisher_port, "--publisher-port"))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            opened.enter_context(claimed(folder))
            demo_publisher.write_backend(backend, f"http://127.0.0.1:{blogs.getsockname()[1]}")
        except MicrosubError as error:
            fail(str(error))
        except OSError as error:
            place = error.filename or backend
            fail(f"can't write {place}: {error.strerror}. Choose another folder with --data-dir or MICROSUB_DATA_DIR")
        settings = replace(
            settings,
            data_dir=folder,
            backend=backend,
            redis_url=None,
            log_level=settings.log_level if _is_log_level_chosen() else "warning",
            allow_private_networks=(*settings.allow_private_networks, ipaddress.ip_network("127.0.0.0/8")),
        )
        _start(settings, listener, work=True, blogs=blogs)


def _is_log_level_chosen() -> bool:
    flag = click.get_current_context().params["log_level"]
    return flag is not None or bool(os.environ.get("MICROSUB_LOG_LEVEL", "").strip())


def _answer_promptly() -> None:
    """Spare requests the two longest waits that Python has for them, whatever else the process does."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # What is loaded now stays to the end: looking through all of it for garbage takes 35 ms each time.
    gc.collect()
    gc.freeze()


def _start(
    settings: Settings, listener: socket.socket | None, *, work: bool, blogs: socket.socket | None = None
) -> None:
    """Run until a signal comes: web on `listener` where there is one, and the demo's blogs on `blogs`.

    A process whose embedded Redis is lost ends with exit code 1, for its supervisor to start it again.
    """
    set_up_logs(settings.log_format, settings.log_level)
    _answer_promptly()
    if listener is not None:
        settings = replace(settings, port=listener.getsockname()[1])
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(settings, listener, work=work, blogs=blogs))
    except MicrosubError as error:
        fail(str(error))


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows and PyPy have none
        return None
    loop: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return loop


async def _run(settings: Settings, listener: socket.socket | None, *, work: bool, blogs: socket.socket | None) -> None:
    stop = asyncio.Event()
    _on_signals(stop)
    async with contextlib.AsyncExitStack() as stack:
        if blogs is not None:
            await stack.enter_async_context(_serving(demo_publisher.app(), blogs, stop))
        stores = await stack.enter_async_context(wiring.open_stores(settings))
        await wiring.warn_of_losses(settings, stores)
        config = await stack.enter_async_context(wiring.open_configuration(settings, stores))
        worker = await stack.enter_async_context(wiring.running_worker(settings, stores)) if work else None
        if listener is not None:
            app = await stack.enter_async_context(wiring.open_app(settings, stores, config))
            await stack.enter_async_context(_serving(app, listener, stop))
        await _greet(settings, stores, web=listener is not None)
        await first(stop, stores.watch.lost)
        if worker is not None:
            worker.stop()  # it ends what it has in hand while the server does the same
        stores.watch.raise_if_lost()


async def _greet(settings: Settings, stores: wiring.Stores, *, web: bool) -> None:
    """Tell the person at the terminal where everything is. The token is shown to this machine's user alone."""
    lines = [f"data       {stores.where}"]
    backend = settings.backend.resolve()
    if backend.is_file():
        lines.append(f"config     {backend} (edits apply at once)")
    elif backend.exists():
        lines.append(f"config     none: {backend} is no file; name one with --backend")
    else:
        lines.append(f"config     none: {backend} doesn't exist; see backend.json.example")
    if web:
        endpoint = f"{settings.public_url}/microsub"
        lines = [f"Microsub server on {settings.public_url}", f"endpoint   {endpoint}", *lines]
        token = (
            await wiring.greeting_token(stores, time.time()) if _is_local(settings.host) and settings.embedded else None
        )
        if token:
            lines.append(f"try        curl -s -H 'Authorization: Bearer {token}' '{endpoint}?action=channels'")
        elif any(user.disabled is None for user in await stores.accounts.users()):
            lines.append("try        microsub token create USER")
        else:
            lines.append(f"try        microsub user add NAME, or declare users in {backend}")
    click.echo("\n".join(lines))
    sys.stdout.flush()


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int, remedy: str = "--port or MICROSUB_PORT") -> socket.socket:
    """A listening socket; ends the program with one line when the address can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # Python adds the address once more, in its own notation.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        fail(f"can't listen on {host}:{port}: {reason}. Choose another with {remedy}")


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling: one signal stops all parts, in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _serving(app: object, listener: socket.socket, stop: asyncio.Event) -> AsyncIterator[None]:
    """Serve an ASGI app on `listener` within the block; a server that dies sets `stop`."""
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # any ASGI callable
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
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
