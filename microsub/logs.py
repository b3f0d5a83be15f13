"""How the log is written: one event per line, as text for people or as JSON for machines.

Modules take their logger from `structlog.get_logger()`; what belongs to a request or a feed is bound with
`structlog.contextvars`, so that every line inside says which one it was. Secrets are never passed to a logger; URLs go
through `formats.identity.mask_credentials` first.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


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
    render: list[Any] = (
        # The formatter that structlog takes where `rich` is installed shows local variables, passwords among them.
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if as_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
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
