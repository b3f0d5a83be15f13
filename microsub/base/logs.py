"""The log: one event per line, as sentences for people or as JSON for machines.

Modules get their logger from `structlog.get_logger()`. The request or feed is bound with `structlog.contextvars`, so
that every line names it. Secrets are never passed to a logger. Addresses are redacted by `base.urls.redacted`, and
foreign text is escaped so that it can't control a terminal.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from microsub.base.bounded_cache import BoundedCache
from microsub.base.plaintext import escaped, escaped_lines
from microsub.base.urls import redacted_text

WINDOW = 60.0
"""Seconds within which the same warning or error is written only once."""

_REMEMBERED = 1000
"""How many different lines are remembered with the time they were last written."""


class LibraryLogger:
    """The logger of a library module: structlog's if the program configures structlog, otherwise the standard one.

    Unconfigured, structlog prints to standard output, which belongs to the program. The standard logger of that name
    writes nothing either until the program configures `logging`.
    """

    def __init__(self, name: str) -> None:
        self._logger = structlog.get_logger(name)
        self._standard = logging.getLogger(name)

    def __getattr__(self, level: str) -> Callable[..., Any]:
        written: Callable[..., Any] = (
            getattr(self._logger, level)
            if structlog.is_configured()
            else partial(_write_standard, self._standard, level)
        )
        return written


# Without a handler, Python would write warnings to standard error.
logging.getLogger("microsub").addHandler(logging.NullHandler())


def _write_standard(logger: logging.Logger, level: str, event: str, **values: Any) -> None:
    trace = values.pop("exc_info", level == "exception")
    number = logging.ERROR if level == "exception" else logging.getLevelNamesMapping()[level.upper()]
    if logger.isEnabledFor(number):
        details = "".join(f" {name}={_shown(value)}" for name, value in values.items() if value is not None)
        logger.log(number, "%s", event + details, exc_info=trace)


def set_up_logs(form: str, level: str) -> None:
    """Configure logging for this process, including its libraries.

    `form` is `text`, `json`, or `auto` (text on a terminal); `level` is the lowest level that is written. All lines go
    to standard error.
    """
    on_terminal = sys.stderr.isatty()
    as_text = form == "text" or (form == "auto" and on_terminal)
    repeats = Repeats()
    shared: list[Any] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level]
    # A formatter that shows local variables would show passwords among them.
    render: list[Any]
    told: list[Any] = [structlog.processors.format_exc_info, _without_secrets]
    if as_text:
        day = "%H:%M:%S" if on_terminal else "%Y-%m-%d %H:%M:%S"
        stamp = structlog.processors.TimeStamper(fmt=day, utc=False, key="time")
        render = [stamp, *told, _on_terminals, Sentences(colours=on_terminal)]
    else:
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
        # JSON escapes all that isn't ASCII.
        render = [stamp, *told, _in_order, structlog.processors.JSONRenderer()]
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, repeats, *render],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(repeats.lets_through)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    # Libraries log every request and reconnect at info; what matters of it is logged by our own modules.
    logging.basicConfig(level=max(threshold, logging.WARNING), handlers=[handler], force=True)


def _without_secrets(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """The line with every address `redacted`."""
    return {name: _mapped(value, redacted_text) for name, value in line.items()}


def _on_terminals(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """The line with terminal control characters escaped; a traceback keeps its line breaks."""
    several = {"exception", "stack"}
    return {name: _mapped(value, escaped_lines if name in several else escaped) for name, value in line.items()}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with all text in it changed; values that are neither text nor numbers become text."""
    if isinstance(value, list | tuple | set | frozenset):
        return [_mapped(part, change) for part in value]
    if isinstance(value, Mapping):
        return {str(name): _mapped(part, change) for name, part in value.items()}
    return value if value is None or isinstance(value, bool | int | float) else change(str(value))


class Repeats:
    """Writes the same warning or error once in `WINDOW` seconds, then with its count.

    Two lines are the same if all their fields are. Info lines are always written, because programs count them.
    `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: BoundedCache[str, tuple[float, int]] = BoundedCache(_REMEMBERED)

    def __call__(self, _: Any, __: str, line: EventDict) -> EventDict:
        """A structlog processor."""
        if line["level"] in {"warning", "error", "critical"}:
            count = self._skipped(repr(sorted((name, _said(value)) for name, value in line.items())))
            if count is None:
                raise structlog.DropEvent
            if count:
                line["repeated"] = count
        return line

    def lets_through(self, record: logging.LogRecord) -> bool:
        """A filter for the logs of libraries, without the count of repeats."""
        return self._skipped(f"{record.name} {record.levelname} {record.getMessage()}") is not None

    def _skipped(self, key: str) -> int | None:
        """How often the line was skipped since it was last written; None to skip it now."""
        now = self._clock()
        at, count = self._written.get(key, (None, 0))
        if at is not None and now - at < WINDOW:
            self._written[key] = at, count + 1
            return None
        self._written[key] = now, 0
        return count


def _said(value: object) -> str:
    """The part of a value by which lines are compared: of a traceback, only the error."""
    if value is True:
        return f"{sys.exc_info()[1]!r}"
    return repr(value)


class Sentences:
    """A line for people: time, level (except info), event, and details as `name=value`."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def __call__(self, _: Any, __: str, line: EventDict) -> str:
        """A structlog processor, the last one."""
        at, level, event = line.pop("time"), line.pop("level"), line.pop("event")
        if "change" in line:
            event = f"{event}: {line.pop('change')}"
        traceback = line.pop("exception", None)
        count = line.pop("repeated", None)
        colour = {"debug": 2, "warning": 33, "error": 31, "critical": 31}.get(level)
        head = f"{event}" if level == "info" else f"{level}: {event}"
        details = " ".join(f"{name}={_shown(value)}" for name, value in line.items() if value is not None)
        parts = [self._in(2, at), head if colour is None else self._in(colour, head)]
        if details:
            parts.append(self._in(2, details))
        if count:
            parts.append(f"(and {count} more times since it was last written)")
        return " ".join(parts) + (f"\n{traceback}" if traceback else "")

    def _in(self, colour: int, text: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._colours else text


def _shown(value: object) -> str:
    text = str(value)
    return f'"{text}"' if not text or " " in text else text


def _in_order(_: Any, __: str, line: Mapping[str, Any]) -> dict[str, Any]:
    """Time, level and event first."""
    first = {name: line[name] for name in ("time", "level", "event") if name in line}
    return first | {name: value for name, value in line.items() if name not in first}
