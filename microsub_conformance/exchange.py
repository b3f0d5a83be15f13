"""One request and its reply for a report: shortened, with tokens masked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

BODY_LIMIT = 4000
"""Characters of a body that are kept."""

_TOKEN = re.compile(r"(?i)(bearer\s+|access_token(?:=|\"\s*:\s*\"|\"\r\n\r\n))[^\s&\"]+")
_SHOWN_HEADERS = ("authorization", "content-type", "accept", "origin")
_SHOWN_REPLY_HEADERS = ("content-type", "cache-control", "www-authenticate", "location", "retry-after", "allow")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its reply. `status` 0 means that there was no reply; `reply_body` then says why."""

    method: str
    url: str
    request_headers: Mapping[str, str]
    request_body: str
    status: int
    reply_headers: Mapping[str, str]
    reply_body: str
    seconds: float

    def same_request(self, other: Exchange) -> bool:
        """Whether both requests are equal, as when a check waits."""
        return (self.method, self.url, self.request_body) == (other.method, other.url, other.request_body)


_SHORTEST = 8
"""Minimum length of a token that is masked wherever it is a word; shorter ones may be ordinary words."""


def mask(text: str, token: str = "") -> str:
    """`text` with values in the place of a token masked, and the word `token` elsewhere."""
    masked = _TOKEN.sub(r"\1…", text)
    if len(token) < _SHORTEST:
        return masked
    return re.sub(rf"(?<![\w.~-]){re.escape(token)}(?![\w~-])", "…", masked)


def shown_request_headers(headers: Mapping[str, str], token: str) -> dict[str, str]:
    """The headers of a request that the report shows."""
    return {name: mask(headers[name], token) for name in _SHOWN_HEADERS if name in headers}


def shown_reply_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a reply that the report shows."""
    return {
        name: value
        for name, value in headers.items()
        if name in _SHOWN_REPLY_HEADERS or name.startswith("access-control-")
    }


def shown_body(body: bytes, token: str = "") -> str:
    """A body as text, shortened and masked."""
    text = mask(body[: BODY_LIMIT * 4].decode("utf-8", "replace"), token)
    return text if len(text) <= BODY_LIMIT else f"{text[:BODY_LIMIT]}… ({len(body)} bytes)"
