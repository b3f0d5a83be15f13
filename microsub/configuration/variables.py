"""`${NAME}` in backend.json: secrets stay in the environment, the file only names them.

`$${NAME}` stands for the text `${NAME}` itself. Keys are never expanded, and nothing that is written back ever is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from microsub.configuration.json_text import Path

_VARIABLE = re.compile(r"(\$?)\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

Missing = Callable[[Path, str], None]
"""Told of each variable that isn't set, or not to text: where, and its name."""


def expand(value: Any, environ: Mapping[str, str], missing: Missing, path: Path = ()) -> Any:
    """A copy of `value` with all variables replaced; a missing one is reported and left standing."""
    if isinstance(value, str):
        return expand_text(value, environ, lambda name: missing(path, name))
    if isinstance(value, Mapping):
        return {key: expand(part, environ, missing, (*path, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [expand(part, environ, missing, (*path, index)) for index, part in enumerate(value)]
    return value


def expand_text(text: str, environ: Mapping[str, str], missing: Callable[[str], None] = lambda _: None) -> str:
    """`text` with its variables replaced."""

    def replace(match: re.Match[str]) -> str:
        escaped, name = match.groups()
        if escaped:
            return match.group()[1:]
        if not _NAME.match(name) or not _is_text(environ.get(name)):
            missing(name)
            return match.group()
        return environ[name]

    return _VARIABLE.sub(replace, text)


def _is_text(value: str | None) -> bool:
    """Python keeps bytes of the environment that are no UTF-8 as halves of surrogate pairs, which nothing can store."""
    return value is not None and not any("\ud800" <= letter <= "\udfff" for letter in value)


def escape(text: str) -> str:
    """Text that expands to `text`: for what users typed and is written into the file."""
    return re.sub(r"\$\{", "$${", text)


def has_variable(value: Any) -> bool:
    """Whether the text names a variable, so that its expansion may be a secret."""
    return isinstance(value, str) and any(not match.group(1) for match in _VARIABLE.finditer(value))
