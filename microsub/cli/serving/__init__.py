"""`microsub serve`, `web`, `work` and `demo`: the processes of the server."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import click

from microsub.base.errors import MicrosubError
from microsub.base.settings import Settings
from microsub.cli.groups import Command
from microsub.cli.options import (
    FETCH_FLAGS,
    SEARCH_FLAGS,
    STORE_FLAGS,
    WEB_FLAGS,
    WORK_FLAGS,
    fail,
    is_log_level_chosen,
    settings_flags,
)
from microsub.redis.embedded.datafolder import prepared


class Parts(NamedTuple):
    """The parts that a process runs; each one is optional.

    `listener` is the web port, `blogs` that of the demo's blogs. A worker runs `inside` the process, or `beside` it in
    a process of its own, so that requests don't wait for polls.

    `parent` is the pipe to the parent process: when it is closed, this process ends. Such a process prints no greeting.
    `show_token` allows a token in the greeting even if the output isn't a terminal.
    """

    listener: socket.socket | None = None
    blogs: socket.socket | None = None
    worker: Literal["inside", "beside"] | None = None
    parent: int | None = None
    show_token: bool = False


def start(settings: Settings, parts: Parts) -> None:
    """Start the processes; imports the whole server (`cli.serving.process`)."""
    from microsub.cli.serving import process

    process.start(settings, parts)


@click.command(cls=Command)
@click.option(
    "--show-token",
    is_flag=True,
    help="Show the link and the token even if the output isn't a terminal.",
)
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS, *SEARCH_FLAGS, serves=True)
def serve(settings: Settings, show_token: bool) -> None:
    """Run the whole server: web, worker and, if needed, Redis.

    On a terminal it shows a one-time sign-in link and a token valid for one day, both for the first user in
    backend.json. A server that others can reach, by its address or its base URL, shows neither.

    Example: microsub serve --port 8081 --backend my.json
    """
    with _listen(settings.host, settings.port) as listener:
        start(settings, Parts(listener, worker="beside", show_token=show_token))


@click.command(cls=Command)
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS, *SEARCH_FLAGS, serves=True)
def web(settings: Settings) -> None:
    """Run a web process for reader apps; `work` must run as well.

    Example: microsub web --port 8080, and in another terminal: microsub work
    """
    with _listen(settings.host, settings.port) as listener:
        start(settings, Parts(listener))


@click.command(cls=Command)
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WORK_FLAGS, *SEARCH_FLAGS, serves=True)
def work(settings: Settings) -> None:
    """Run a worker, which polls feeds and cleans up.

    You can run any number of workers; they share the work.
    """
    start(settings, Parts(worker="inside"))


@click.command(cls=Command)
@click.option("--publisher-port", default=8081, show_default=True, help="The port for the invented blogs.")
@settings_flags(
    *(name for name in STORE_FLAGS if name not in {"backend", "redis_url", "redis_replicas"}),
    *FETCH_FLAGS,
    *WEB_FLAGS,
    *WORK_FLAGS,
    "search",
)
def demo(settings: Settings, publisher_port: int) -> None:
    """Try the server with invented blogs; needs no internet.

    The demo serves blogs in every format on this machine and follows them. It has its own data, Redis and backend file
    in the folder `demo` of the data folder (data/demo by default). Your own data isn't touched; MICROSUB_REDIS_URL and
    MICROSUB_BACKEND are ignored. It logs only warnings and errors, unless --log-level or MICROSUB_LOG_LEVEL is set.
    """
    try:
        from microsub_demo.publisher import write_backend
    except ModuleNotFoundError:
        fail("the demo isn't installed: its package is microsub-demo. A checkout has it: make demo")
    folder = settings.data_dir / "demo"
    backend = folder / "backend.json"
    with contextlib.ExitStack() as opened:
        # Before writing the file: a running demo may be using it.
        listener = opened.enter_context(_listen(settings.host, settings.port))
        blogs = opened.enter_context(_listen("127.0.0.1", publisher_port, "--publisher-port"))
        try:
            prepared(folder)
            opened.enter_context(_claimed(folder))
            write_backend(backend, f"http://127.0.0.1:{blogs.getsockname()[1]}")
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
            search_dir=None,
            log_level=settings.log_level if is_log_level_chosen(click.get_current_context().params) else "warning",
            allow_private_networks=(*settings.allow_private_networks, ipaddress.ip_network("127.0.0.0/8")),
        )
        start(settings, Parts(listener, blogs, worker="beside", show_token=True))


_LOCK = "demo.lock"


@contextlib.contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Lock the existing `folder` within the block; the lock ends with the process.

    Raises MicrosubError if another demo has the lock, and OSError.
    """
    with open(folder / _LOCK, "a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read(20).strip() or "unknown"
            raise MicrosubError(
                f"the demo in {folder.resolve()} is already running (pid {pid}). Stop it, or choose another folder "
                "with --data-dir or MICROSUB_DATA_DIR"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _listen(host: str, port: int, remedy: str = "--port or MICROSUB_PORT") -> socket.socket:
    """A listening socket; exits with one line if the address can't be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # Python appends the address again, in its own notation.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        fail(f"can't listen on {host}:{port}: {reason}. Choose another with {remedy}")
