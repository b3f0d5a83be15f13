"""JSON objects from servers that are strangers: bounded, and read value by value."""

from __future__ import annotations

import math
import re
from typing import Any
from urllib.parse import parse_qsl

import orjson

from microsub.errors import InvalidRequest, ParseError
from microsub.model.scopes import read_scopes

MAX_BODY = 64 * 1024
_MAX_TEXT = 4096
_MOST_FIELDS = 100
_PRINTED = re.compile(r"[\x20-\x7e]*")
_VISIBLE = re.compile(r"[\x21-\x7e]{1,4096}")
_LATEST = 253402300800.0  # the end of the year 9999

Document = dict[str, Any]


def read_object(body: bytes, url: str) -> Document:
    """The JSON object in `body`. Raises ParseError for anything else, with `url` as where it came from."""
    if len(body) > MAX_BODY:
        raise ParseError(url, f"found {len(body)} bytes, expected a JSON object of at most {MAX_BODY}")
    try:
        document = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        raise ParseError(url, "found something that is no JSON, expected a JSON object") from None
    if not isinstance(document, dict):
        raise ParseError(url, "found other JSON, expected a JSON object")
    return document


def read_fields(body: bytes, url: str, content_type: str | None) -> Document:
    """A JSON object, or a form as older servers reply. What stands there decides, not the declared type, which is often
    wrong; of repeated fields of a form none counts. Raises ParseError.
    """
    if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return read_object(body, url)
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded" and not re.match(rb"[A-Za-z0-9_]{1,40}=", body):
        raise ParseError(url, "found neither JSON nor a form, expected a JSON object")
    if len(body) > MAX_BODY:
        raise ParseError(url, f"found {len(body)} bytes, expected a form of at most {MAX_BODY}")
    try:
        pairs = parse_qsl(body.decode("utf-8").strip(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise ParseError(url, "found a form that can't be read, expected a JSON object") from None
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def text_of(document: Document, name: str) -> str | None:
    """A text to be shown, its white space reduced; None where there is none, or one that isn't for people."""
    value = document.get(name)
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        return None
    words = " ".join(value.split())
    return words if words and words.isprintable() else None


def secret_of(document: Document, name: str, url: str) -> str | None:
    """A token or code: visible ASCII (RFC 6749, A.12), so that it fits into a header. Raises ParseError."""
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not _VISIBLE.fullmatch(value):
        raise ParseError(url, f"invalid value of '{name}', expected visible ASCII characters")
    return value


def scopes_of(document: Document, url: str, name: str = "scope") -> frozenset[str]:
    """Scopes, as a text or as some servers write them, a list; empty where there are none. Raises ParseError."""
    value = document.get(name)
    if isinstance(value, list) and len(value) <= _MOST_FIELDS and all(isinstance(scope, str) for scope in value):
        value = " ".join(value)
    if value is None or value == "":
        return frozenset()
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not _PRINTED.fullmatch(value):
        raise ParseError(url, f"invalid value of '{name}', expected scopes separated by spaces")
    try:
        return read_scopes(value) if value.strip() else frozenset()
    except InvalidRequest as problem:
        raise ParseError(url, f"'{name}': {problem.description}") from None


def seconds_of(document: Document, name: str, url: str) -> float | None:
    """A number of seconds, as JSON or as text; None where there is none. Raises ParseError: what a server says of time
    and nobody can read must not become for ever.
    """
    value = document.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ParseError(url, f"invalid value of '{name}', expected a number of seconds")
    return min(max(float(value), 0.0), _LATEST)
