"""How the log is written: one event per line, as text for people or as JSON for machines.

Modules take their logger from `structlog.get_logger()`; what belongs to a request or a feed is bound with
`structlog.contextvars`, so that every line inside says which one it was. Secrets are never passed to a logger.
Addresses are shown as `formats.urls.redacted` has them, and no text of others controls a terminal.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from microsub.formats.urls import redacted_text
from microsub.model.plaintext import escaped, escaped_lines


def set_up_logs(form: str, level: str) -> None:
    """Configure logging of this process, that of libraries included.

    `form` is `text`, `json`, or `auto` (text on a terminal); `level` the least important level that is written. All
    lines go to standard error.
    """
    as_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # A formatter that shows local variables would show passwords among them.
    render: list[Any] = [structlog.processors.format_exc_info, _without_secrets]
    if as_text:
        plain = structlog.dev.plain_traceback
        render += [
            _on_terminals,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain),
        ]
    else:
        render.append(structlog.processors.JSONRenderer())  # which escapes all that isn't ASCII
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    # Libraries tell of every request and reconnect at info; what matters of it is logged by our own modules.
    logging.basicConfig(level=max(threshold, logging.WARNING), handlers=[handler], force=True)


def _without_secrets(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """The line with every address `redacted`."""
    return {name: _mapped(value, redacted_text) for name, value in line.items()}


def _on_terminals(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """The line without characters that control a terminal; a traceback keeps its lines."""
    several = {"exception", "stack"}
    return {name: _mapped(value, escaped_lines if name in several else escaped) for name, value in line.items()}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with all text in it changed; what is neither text nor a number becomes text first."""
    if isinstance(value, list | tuple | set | frozenset):
        return [_mapped(part, change) for part in value]
    if isinstance(value, Mapping):
        return {str(name): _mapped(part, change) for name, part in value.items()}
    return value if value is None or isinstance(value, bool | int | float) else change(str(value))
