"""Metadata of apps, in place of the network."""

from __future__ import annotations

import json
import secrets
from typing import Any

from microsub.fetch import Answered, FetchFailed, Sending


class Apps:
    """Answers by URL; everything else can't be reached. `asked` lists the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Answered] = {}
        self.asked: list[str] = []

    def say(self, url: str, body: bytes | dict[str, Any], kind: str = "text/html", **more: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = kind if isinstance(body, bytes) else "application/json"
        self.answers[url] = Answered(200, {"content-type": kind}, content, more.pop("final_url", url), **more)

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        self.asked.append(sending.url)
        found = self.answers.get(sending.url)
        if found is None or len(found.body) > sending.limits.body:
            return FetchFailed(sending.url, "connect", "can't be reached")
        return found


def new_verifier() -> str:
    """A new secret of 256 bits, as 43 characters of base64url."""
    return secrets.token_urlsafe(32)
