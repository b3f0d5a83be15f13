"""Flags made from `microsub.base.settings.SETTINGS`, printing, and exiting with an error.

`say` escapes text of publishers and users, so that it can't control the terminal.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import click
import orjson

from microsub.base.errors import ConfigError, MicrosubError
from microsub.base.plaintext import escaped, escaped_json, escaped_lines
from microsub.base.settings import ENV_FILE, SETTINGS, Settings, env_file, misspelt_variables, read_settings

if TYPE_CHECKING:
    from microsub.feeds import PushHealth
    from microsub.server.stores import Stores

T = TypeVar("T")

LOG_FLAGS = ("log_format", "log_level")
STORE_FLAGS = ("backend", "data_dir", "redis_url", "redis_replicas", "redis_server", "redis_memory_mb")
FETCH_FLAGS = ("allow_private_networks", "http_proxy")
WEB_FLAGS = (
    "host",
    "port",
    "base_url",
    "trusted_proxies",
    "connections_per_address",
    "metrics_networks",
    "metrics_token",
    "item_cache_mb",
)
WORK_FLAGS = ("fetch_concurrency", "write_back")
SEARCH_FLAGS = ("search", "search_dir")

FAILED = 1
"""Exit code of a command whose work failed. Wrong usage is 2, as click defines it."""


def settings_flags(*chosen: str, serves: bool = False) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Give a command the flags of the chosen settings; it receives them as `settings`.

    A command that uses a server's data, but doesn't serve, reads the variables of the machine's service (`SERVICE`).
    """
    names = (*chosen, *LOG_FLAGS)

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(command)
        def wrapper(*args: Any, **kwargs: Any) -> T:
            flags: dict[str, str | None] = {name: kwargs.pop(name) for name in names}
            _load_env_file(None if serves or "data_dir" not in names else SERVICE)
            for sentence in misspelt_variables(os.environ):
                say(f"warning: {sentence}", err=True)
            settings = read(flags)
            _require_folder_of_metrics()
            from microsub.base.logs import set_up_logs  # with structlog: a page of help needs neither

            # A command prints its result on standard output, so by default its log has only problems. Servers set up
            # their own log.
            form = "text" if settings.log_format == "auto" else settings.log_format
            set_up_logs(form, settings.log_level if is_log_level_chosen(flags) else "warning")
            return command(*args, settings=settings, **kwargs)

        decorated: Callable[..., T] = wrapper
        for setting in reversed([s for s in SETTINGS if s.name in names]):
            decorated = click.option(
                setting.flag, setting.name, default=None, metavar=setting.placeholder, help=setting.described
            )(decorated)
        return decorated

    return decorate


SERVICE = Path("/etc/microsub.env")
"""The file with a service's variables in the how-tos; commands find the server's data by it."""
_FOLDER_OF_METRICS = "PROMETHEUS_MULTIPROC_DIR"


def _load_env_file(otherwise: Path | None) -> None:
    """Add the variables of the file that `MICROSUB_ENV_FILE` names, or else of `otherwise`."""
    named = os.environ.get(ENV_FILE, "").strip()
    path = Path(named).expanduser() if named else otherwise
    if path is None:
        return
    try:
        found = env_file(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "not UTF-8"
        if named:
            raise click.UsageError(f"{ENV_FILE}: can't read {path}: {why}") from None
        if not isinstance(error, FileNotFoundError):
            say(f"warning: can't read {path}: {why}. To use the service's data, run the command as its user", err=True)
        return
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    found.pop(_FOLDER_OF_METRICS, None)  # a command's metrics must not mix with the service's
    for name, value in found.items():
        os.environ.setdefault(name, value)


def _require_folder_of_metrics() -> None:
    """Exit with code 2 unless the folder is writable: Prometheus' library writes there when loaded."""
    folder = os.environ.get(_FOLDER_OF_METRICS)
    if folder and not os.access(folder, os.W_OK):
        raise click.UsageError(f"{_FOLDER_OF_METRICS}: found '{folder}', expected a writable folder")


def is_log_level_chosen(flags: Mapping[str, object]) -> bool:
    """Whether a flag or a variable sets the log level."""
    return flags.get("log_level") is not None or bool(os.environ.get("MICROSUB_LOG_LEVEL", "").strip())


def read(flags: Mapping[str, object]) -> Settings:
    """Settings from environment and `flags`; exits with code 2 if one is invalid."""
    try:
        return read_settings(os.environ, flags)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def fail(message: str) -> NoReturn:
    """Exit with code 1 and one line on standard error."""
    say(f"microsub: {escaped(message)}", err=True)
    sys.exit(FAILED)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on a new event loop; an expected error ends the program with one clear line.

    A signal ends it cleanly: an embedded Redis that nobody else uses is stopped.
    """
    import asyncio

    try:
        return asyncio.run(_until_terminated(work))
    except MicrosubError as error:
        fail(str(error))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)


def run_on(settings: Settings, work: Callable[[Stores], Coroutine[Any, Any, T]]) -> T:
    """`run` the coroutine `work(stores)` with the open stores of `settings`."""
    from microsub.server.stores import open_stores

    async def whole() -> T:
        async with open_stores(settings) as stores:
            return await work(stores)

    return run(whole())


def on_stores(*names: str) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """A command that uses a server's data and receives `settings` and open `stores`.

    It takes the flags that locate the data, and those of the settings `names`.
    """

    def decorate(command: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        @settings_flags(*STORE_FLAGS, *names)
        @functools.wraps(command)
        def wrapper(settings: Settings, **arguments: Any) -> None:
            run_on(settings, lambda stores: command(settings=settings, stores=stores, **arguments))

        return wrapper

    return decorate


async def _until_terminated(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    task = asyncio.ensure_future(work)
    with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread, which handles signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


class FiniteRange(click.FloatRange):
    """A range of finite numbers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; exits with code 2 if `value` isn't a finite number in the range."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} isn't a finite number.", param, ctx)
        return number


DAYS = FiniteRange(min=0, min_open=True, max=36_500)
"""How long a token may be valid: at most a century, so that its date stays within the calendar."""


json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""The flag of commands that can print their result for programs."""


def as_instant(at: float | None) -> str | None:
    """A Unix time in the form for JSON: ISO 8601 in UTC."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def as_push(health: PushHealth) -> dict[str, object]:
    """How a feed's posts arrive, in the form for JSON."""
    return {
        "way": "pushed" if health.pushed else "polled",
        "why": health.why,
        "lease_until": as_instant(health.lease_until),
        "last_delivery": as_instant(health.last_delivery),
        "posts_pushed": health.posts_pushed,
        "posts_polled": health.posts_polled,
    }


class Report(Protocol):
    """The result of a command."""

    def as_dict(self) -> Mapping[str, object]:
        """For programs."""
        ...

    def as_text(self) -> str:
        """For people."""
        ...


def print_report(report: Report, *, as_json: bool) -> None:
    """Print the result of a command."""
    if as_json:
        print_json(report.as_dict())
    else:
        say(report.as_text())


def print_json(value: object) -> None:
    """Print `value` as indented JSON."""
    say_json(value, indent=True)


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print one or more lines to standard output, or to standard error.

    A foreign value could contain line breaks: pass it through `plaintext.escaped` or `on_one_line` first.
    """
    click.echo(escaped_lines(text), err=err, nl=nl)


def say_json(value: object, *, indent: bool = False) -> None:
    """Print `value` as JSON, in one line or indented."""
    click.echo(escaped_json(orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode()))


def clear_line() -> None:
    """Clear the line of a progress bar on standard error."""
    click.echo("\r\033[K", nl=False, err=True)


async def server_address(stores: Stores, settings: Settings) -> str | None:
    """The URL of the server on this data, None if it isn't known: as configured, or of the one that started last."""
    usual = read_settings({}, {})
    if settings.base_url is not None or settings.host != usual.host or settings.port not in {usual.port, 0}:
        return settings.public_url
    return await stores.applied.address()
