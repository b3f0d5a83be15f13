"""`microsub serve`, `web`, `work` and `demo`: the processes of the server."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
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
from microsub.errors import ConfigError, MicrosubError
from microsub.logs import set_up_logs

GRACE = 10
"""Seconds that a process takes at most to finish what it has in hand."""


@click.command()
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS)
def serve(settings: Settings) -> None:
    """Run everything in one process: web, worker, configuration, and Redis when none is given.

    Example: microsub serve --port 8081 --backend my.json
    """
    _start(settings, web=True, work=True)


@click.command()
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS)
def web(settings: Settings) -> None:
    """Run a process that answers reader apps. Run `microsub work` beside it."""
    _start(settings, web=True, work=False)


@click.command()
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WORK_FLAGS)
def work(settings: Settings) -> None:
    """Run a process that polls feeds and cleans up. Any number of them share the work."""
    _start(settings, web=False, work=True)


@click.command()
@click.option("--publisher-port", default=8081, show_default=True, help="Where the invented blogs are served.")
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS)
def demo(settings: Settings, publisher_port: int) -> None:
    """Serve invented blogs in every format on this machine, and follow them. Needs no internet.

    The data goes into data/demo, so that nothing of yours is touched.
    """
    folder = settings.data_dir / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    backend = folder / "backend.json"
    blogs = _listen("127.0.0.1", publisher_port)
    demo_publisher.write_backend(backend, f"http://127.0.0.1:{blogs.getsockname()[1]}")
    settings = replace(
        settings,
        data_dir=folder,
        backend=backend,
        allow_private_networks=(*settings.allow_private_networks, ipaddress.ip_network("127.0.0.0/8")),
    )
    _start(settings, web=True, work=True, blogs=blogs)


def _start(settings: Settings, *, web: bool, work: bool, blogs: socket.socket | None = None) -> None:
    set_up_logs(settings.log_format, settings.log_level)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(settings, web=web, work=work, blogs=blogs))
    except ConfigError as error:
        fail(str(error))
    except MicrosubError as error:
        fail(str(error))


def _loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows and PyPy have none
        return None
    loop: type[asyncio.AbstractEventLoop] = uvloop.Loop
    return loop


async def _run(settings: Settings, *, web: bool, work: bool, blogs: socket.socket | None) -> None:
    stop = asyncio.Event()
    _on_signals(stop)
    listener = _listen(settings.host, settings.port) if web else None
    if listener is not None:
        settings = replace(settings, port=listener.getsockname()[1])
    async with contextlib.AsyncExitStack() as stack:
        if blogs is not None:
            await stack.enter_async_context(_serving(demo_publisher.app(), blogs, stop))
        stores = await stack.enter_async_context(wiring.open_stores(settings))
        config = await stack.enter_async_context(wiring.open_configuration(settings, stores))
        if work:
            await stack.enter_async_context(wiring.running_worker(settings, stores, grace=GRACE))
        if listener is not None:
            app = await stack.enter_async_context(wiring.open_app(settings, stores, config))
            await stack.enter_async_context(_serving(app, listener, stop))
        await _greet(settings, stores, web=web)
        await stop.wait()


async def _greet(settings: Settings, stores: wiring.Stores, *, web: bool) -> None:
    """Tell the person at the terminal where everything is. The token is shown to this machine's user alone."""
    lines = [f"data       {stores.where}"]
    if settings.backend.exists():
        lines.append(f"config     {settings.backend.resolve()} (edits apply at once)")
    else:
        lines.append(f"config     none: {settings.backend.resolve()} doesn't exist; see backend.json.example")
    if web:
        endpoint = f"{settings.public_url}/microsub"
        lines = [f"Microsub server on {settings.public_url}", f"endpoint   {endpoint}", *lines]
        token = (
            await wiring.greeting_token(stores, time.time()) if _is_local(settings.host) and settings.embedded else None
        )
        if token:
            lines.append(f"try        curl -s -H 'Authorization: Bearer {token}' '{endpoint}?action=channels'")
        else:
            lines.append("try        microsub token create USER")
    click.echo("\n".join(lines))
    sys.stdout.flush()


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; ends the program with one line when the address can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        fail(f"can't listen on {host}:{port}: {error.strerror}. Choose another with --port or MICROSUB_PORT")


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
