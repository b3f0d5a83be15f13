"""From the bytes of backend.json to a `Backend`, or to a list of what is wrong with them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from microsub.configuration import json_text, legacy
from microsub.configuration.json_text import JsonText
from microsub.configuration.model import Backend, from_document
from microsub.configuration.validation import Findings, validate
from microsub.configuration.variables import expand
from microsub.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Document:
    """A usable backend.json.

    `source` is what stands in the file; `raw` the same in today's form, nothing expanded; `digest` the SHA-256 (hex)
    of the file's bytes; `legacy` says that the file has the old single-user form.
    """

    file: str
    source: JsonText
    raw: Mapping[str, Any]
    backend: Backend
    digest: str
    legacy: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What `microsub config check` tells: all problems and warnings, and the document where there is no problem."""

    file: str
    problems: tuple[ConfigError, ...]
    warnings: tuple[str, ...]
    document: Document | None

    @property
    def ok(self) -> bool:
        """Whether the server would take this file."""
        return not self.problems


def digest(body: bytes) -> str:
    """SHA-256 of a file's bytes, in hex."""
    return hashlib.sha256(body).hexdigest()


def examine(body: bytes, file: str, environ: Mapping[str, str]) -> Report:
    """Look at everything in a document; never raises ConfigError."""
    try:
        source = json_text.read(body, file)
    except ConfigError as error:
        return Report(file, (error,), (), None)
    findings = Findings(file, source)
    document = source.root.value
    old = legacy.is_legacy(document)
    raw = legacy.upgrade(document, findings) if old else document
    expanded = expand(raw, environ, lambda path, name: _missing(findings, path if not old else (), name, environ))
    if not (old and findings.problems):
        warnings = list(findings.warnings)
        validate(expanded, findings)
        if old:
            findings.warnings = warnings  # the others speak of places that the old file doesn't have
    problems, warned = findings.errors(), tuple(findings.warnings)
    if problems:
        return Report(file, problems, warned, None)
    usable = Document(file, source, raw, from_document(expanded), digest(body), old, warned)
    return Report(file, (), warned, usable)


def _missing(findings: Findings, path: json_text.Path, name: str, environ: Mapping[str, str]) -> None:
    why = "whose value is not UTF-8" if name in environ else "which is not set"
    findings.wrong(path, f"'${{{name}}}', {why}", f"an environment variable of the name {name or '…'}")


def parse(body: bytes, file: str, environ: Mapping[str, str]) -> Document:
    """The document. Raises the first ConfigError where there are any."""
    report = examine(body, file, environ)
    if report.document is None:
        raise report.problems[0]
    return report.document


def check(path: FilePath, environ: Mapping[str, str]) -> Report:
    """Examine the file at `path`; one that can't be read is a problem like any other."""
    try:
        body = path.read_bytes()
    except OSError as error:
        return Report(str(path), (unreadable(path, error),), (), None)
    return examine(body, str(path), environ)


def load(path: FilePath, environ: Mapping[str, str]) -> Document:
    """Read the file at `path`. Raises ConfigError."""
    report = check(path, environ)
    if report.document is None:
        raise report.problems[0]
    return report.document


def unreadable(path: FilePath, error: OSError) -> ConfigError:
    """The ConfigError for a file that can't be read."""
    match error:
        case FileNotFoundError():
            found = "no file"
        case IsADirectoryError():
            found = "a folder"
        case PermissionError():
            found = "a file that may not be read by this user"
        case _:
            found = f"an error ({error.strerror or error})"
    return ConfigError(file=str(path), path="", found=found, expected="a readable backend.json")
