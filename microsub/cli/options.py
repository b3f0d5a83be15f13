"""Flags made from `microsub.settings.SETTINGS`, printing, and ending with an error.

What publishers and users wrote never controls the terminal: `say` escapes it.
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

from microsub.errors import ConfigError, MicrosubError
from microsub.model.plaintext import escaped, escaped_json, escaped_lines
from microsub.settings import ENV_FILE, SETTINGS, Settings, env_file, misspelt_variables, read_settings

if TYPE_CHECKING:
    from microsub.feeds.push_health import PushHealth
    from microsub.wiring.stores import Stores

T = TypeVar("T")

LOG_FLAGS = ("log_format", "log_level")
STORE_FLAGS = ("backend", "data_dir", "redis_url", "redis_replicas")
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
"""Exit code: the command ran and what it was asked to do failed. Wrong usage is 2, as click has it."""


def settings_flags(*chosen: str, serves: bool = False) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Give a command the flags of the chosen settings; it receives them as `settings`.

    A command that works on a server's data, and isn't one that `serves`, finds the settings of the machine's service.
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
            from microsub.logs import set_up_logs  # with structlog: a page of help needs neither

            # What a command did is on standard output; its log is for trouble alone, unless more is asked for. Servers
            # set up theirs.
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
"""Where the how-tos put the variables of a service: commands find the server's data by it."""
_FOLDER_OF_METRICS = "PROMETHEUS_MULTIPROC_DIR"


def _load_env_file(otherwise: Path | None) -> None:
    """Add variables from the file that `MICROSUB_ENV_FILE` names, or from `otherwise`."""
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
    found.pop(_FOLDER_OF_METRICS, None)  # what a command counts isn't the service's
    for name, value in found.items():
        os.environ.setdefault(name, value)


def _require_folder_of_metrics() -> None:
    """The client library of Prometheus writes there as soon as it is loaded; exit code 2 where it can't."""
    folder = os.environ.get(_FOLDER_OF_METRICS)
    if folder and not os.access(folder, os.W_OK):
        raise click.UsageError(f"{_FOLDER_OF_METRICS}: found '{folder}', expected a folder that can be written to")


def is_log_level_chosen(flags: Mapping[str, object]) -> bool:
    """Whether a flag or a variable says what is logged."""
    return flags.get("log_level") is not None or bool(os.environ.get("MICROSUB_LOG_LEVEL", "").strip())


def read(flags: Mapping[str, object]) -> Settings:
    """Settings from environment and `flags`; exit code 2 where one can't be used."""
    try:
        return read_settings(os.environ, flags)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def fail(message: str) -> NoReturn:
    """End with exit code 1 and one line on standard error."""
    say(f"microsub: {escaped(message)}", err=True)
    sys.exit(FAILED)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on a fresh event loop; an expected error ends the program in one clear line.

    Asked to end by a signal, it leaves everything as it found it: an embedded Redis that nobody else uses is stopped.
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
    """`run` what `work` makes of the stores of `settings`, which are open meanwhile."""
    from microsub.wiring.stores import open_stores

    async def whole() -> T:
        async with open_stores(settings) as stores:
            return await work(stores)

    return run(whole())


def on_stores(*names: str) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """A command that works on a server's data, with `settings` and open `stores`.

    It takes the flags that name the data, and those of the settings `names`.
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
    with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread: signals are another's to handle
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


class FiniteRange(click.FloatRange):
    """A range of finite numbers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; ends the program with exit code 2 where there is none."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} isn't a finite number.", param, ctx)
        return number


DAYS = FiniteRange(min=0, min_open=True, max=36_500)
"""How long a token may be good: a century is as good as for ever, and dates stay within calendars."""


json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""The flag of commands whose result programs may read too."""


def as_instant(at: float | None) -> str | None:
    """A Unix time as JSON has it: ISO 8601 in UTC."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def as_push(health: PushHealth) -> dict[str, object]:
    """How a feed's posts come, as JSON has it."""
    return {
        "way": "pushed" if health.pushed else "polled",
        "why": health.why,
        "lease_until": as_instant(health.lease_until),
        "last_delivery": as_instant(health.last_delivery),
        "posts_pushed": health.posts_pushed,
        "posts_polled": health.posts_polled,
    }


class Report(Protocol):
    """What a command found or did."""

    def as_dict(self) -> Mapping[str, object]:
        """For programs."""
        ...

    def as_text(self) -> str:
        """For people."""
        ...


def print_report(report: Report, *, as_json: bool) -> None:
    """Print what a command found or did."""
    if as_json:
        print_json(report.as_dict())
    else:
        say(report.as_text())


def print_json(value: object) -> None:
    """Print `value` as indented JSON, for programs that read what a command says."""
    say_json(value, indent=True)


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print `text`, of one or several lines, to standard output, or to standard error.

    A value of others that could forge a line by a break in it goes through `plaintext.escaped` or `on_one_line` first.
    """
    click.echo(escaped_lines(text), err=err, nl=nl)


def say_json(value: object, *, indent: bool = False) -> None:
    """Print `value` as JSON, in one line or indented."""
    click.echo(escaped_json(orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode()))


def clear_line() -> None:
    """Make room where a progress bar stands, on standard error."""
    click.echo("\r\033[K", nl=False, err=True)
