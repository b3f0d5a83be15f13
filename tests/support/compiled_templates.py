"""Compiled templates, kept for all processes of a run: these create thousands of servers with the same templates."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
from types import CodeType
from typing import Any

import jinja2

FOLDER = "TEST_TEMPLATES"
"""The environment variable that names the folder of compiled templates of a run."""


def keep_compiled() -> None:
    """Let all environments of this process compile each template once, or read what another process has compiled."""
    compile_ = jinja2.Environment.compile
    known: dict[str, CodeType] = {}
    folder = os.environ.get(FOLDER, os.devnull)

    def compiled(environment: jinja2.Environment, source: str, name: str | None = None, *more: Any) -> CodeType:
        key = hashlib.sha256(repr((source, name, environment.globals.get("language"))).encode()).hexdigest()
        if key not in known:
            path = os.path.join(folder, key)
            try:
                with open(path, "rb") as kept:
                    known[key] = marshal.load(kept)
            except OSError:
                known[key] = compile_(environment, source, name, *more)
                with contextlib.suppress(OSError):  # there is no such folder, or the run has ended
                    unfinished = f"{path}.{os.getpid()}"
                    with open(unfinished, "wb") as kept:
                        marshal.dump(known[key], kept)
                    os.replace(unfinished, path)
        return known[key]

    jinja2.Environment.compile = compiled  # type: ignore[method-assign, assignment]
