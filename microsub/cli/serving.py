"""`microsub serve`, `web`, `work` and `demo`: the processes of the server."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from dataclasses import replace

import click

from microsub.cli.options import (
    FETCH_FLAGS,
    STORE_FLAGS,
    WEB_FLAGS,
    WORK_FLAGS,
    fail,
    settings_flags,
)
from microsub.cli.running import Parts, start
from microsub.config.settings import Settings
from microsub.demo import publisher as demo_publisher
from microsub.demo.claim import claimed
from microsub.errors import MicrosubError


@click.command()
@click.option(
    "--show-token",
    is_flag=True,
    help="Show a token at the start, to try the server with, also where the output is no terminal.",
)
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS)
def serve(settings: Settings, show_token: bool) -> None:
    """Run everything: web, a worker in a process beside it, configuration, and Redis when none is given.

    On a terminal it shows a token to try it with, good for a day, of the first user that backend.json declares. A
    server that others can reach, by its address or its base URL, never does.

    Example: microsub serve --port 8081 --backend my.json
    """
    with _listen(settings.host, settings.port) as listener:
        start(settings, Parts(listener, worker="beside", show_token=show_token))


@click.command()
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WEB_FLAGS, *WORK_FLAGS)
def web(settings: Settings) -> None:
    """Run a process that answers reader apps. Run `microsub work` beside it."""
    with _listen(settings.host, settings.port) as listener:
        start(settings, Parts(listener))


@click.command()
@settings_flags(*STORE_FLAGS, *FETCH_FLAGS, *WORK_FLAGS)
def work(settings: Settings) -> None:
    """Run a process that polls feeds and cleans up. Any number of them share the work."""
    start(settings, Parts(worker="inside"))


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
        start(settings, Parts(listener, blogs, worker="beside", show_token=True))


def _is_log_level_chosen() -> bool:
    flag = click.get_current_context().params["log_level"]
    return flag is not None or bool(os.environ.get("MICROSUB_LOG_LEVEL", "").strip())


def _listen(host: str, port: int, remedy: str = "--port or MICROSUB_PORT") -> socket.socket:
    """A listening socket; ends the program with one line when the address can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # Python adds the address once more, in its own notation.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        fail(f"can't listen on {host}:{port}: {reason}. Choose another with {remedy}")
