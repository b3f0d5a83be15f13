"""The headers with which a feed is asked for as its user: of a user name and a password, and others. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_, Sentence

MOST_HEADERS, MOST_BYTES, LONGEST_NAME = 10, 4096, 255
"""Headers of a sign-in, bytes of all of them, and characters of a user name or a password."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\x20-\x7e]+")
_FORBIDDEN = re.compile(
    r"host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings|expect|range|date|via|"
    r"accept|accept-encoding|user-agent|if-.*|content-.*|proxy-.*|sec-.*|forwarded|x-forwarded-.*|alt-used"
)
"""Names of headers that belong to the connection, to caches, or to this server."""


def sign_in_headers(name: str = "", password: str = "", headers: str | Mapping[str, str] = "") -> dict[str, str]:
    """The headers to send, by lower-case name: those of a user name and password, and others.

    `headers` has one `Name: value` a line. Raises InvalidRequest, and never repeats a value.
    """
    given = _basic(name, password)
    lines = [*headers.items()] if isinstance(headers, Mapping) else _lines(headers)
    for name_, value_ in lines:
        field, value = name_.strip().lower(), value_.strip(" \t\r")
        if not _TOKEN.fullmatch(field):
            raise InvalidRequest(N_("A header can’t be used: expected one “Name: value” on each line."))
        if _FORBIDDEN.fullmatch(field):
            raise InvalidRequest(Sentence(N_("The header “{name}” can’t be set: this server sets it."), name=field))
        if field in given:
            raise InvalidRequest(Sentence(N_("The header “{name}” is given twice."), name=field))
        if not _VALUE.fullmatch(value):
            text = N_("The value of the header “{name}” can’t be sent: expected ASCII characters on one line.")
            raise InvalidRequest(Sentence(text, name=field))
        given[field] = value
    size = sum(len(field) + len(value) for field, value in given.items())
    if len(given) > MOST_HEADERS or size > MOST_BYTES:
        text = N_("These are too many headers: expected at most {most} with {bytes} bytes.")
        raise InvalidRequest(Sentence(text, most=MOST_HEADERS, bytes=MOST_BYTES))
    if not given:
        raise InvalidRequest(N_("Give a user name and a password, or a header."))
    return given


def _basic(name: str, password: str) -> dict[str, str]:
    """The header of a user name and a password (RFC 7617)."""
    if not name and not password:
        return {}
    if len(name) > LONGEST_NAME or len(password) > LONGEST_NAME:
        text = N_("The user name or the password is too long: expected at most {most} characters.")
        raise InvalidRequest(Sentence(text, most=LONGEST_NAME))
    if ":" in name or not (name + password).isprintable():
        raise InvalidRequest(N_("The user name or the password has a character that can’t be sent."))
    both = f"{name}:{password}".encode("utf-8", "replace")
    return {"authorization": f"Basic {base64.b64encode(both).decode()}"}


def _lines(text: str) -> list[tuple[str, str]]:
    parts = [line.partition(":") for line in text.split("\n") if line.strip()]
    return [(name if colon else "", value) for name, colon, value in parts]  # without one, all may be the secret
