"""How the provider in `provider.py` gets to know a client (section 4.2 of the IndieAuth spec)."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx


@dataclass(frozen=True)
class Client:
    """A client by its id, with what it says of itself."""

    id: str
    name: str = ""
    redirect_uris: tuple[str, ...] = ()

    def allows(self, redirect_uri: str) -> bool:
        """Whether answers may go there: same scheme, host and port as the id, else exactly as the client published, or
        to a program on the person's own machine.
        """
        ours, theirs = urlsplit(self.id), urlsplit(redirect_uri)
        if not self.redirect_uris and (theirs.scheme, theirs.hostname, theirs.path) == ("http", "127.0.0.1", "/"):
            return True
        same = (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc) and bool(theirs.netloc)
        return redirect_uri in self.redirect_uris or (same and not theirs.fragment)


async def fetched_client(client: str) -> Client:
    """What is published at a client's id: a JSON document, or a page with redirect_uri links. Nothing, if neither."""
    async with httpx.AsyncClient(timeout=60, follow_redirects=False) as http:
        try:
            reply = await http.get(client, headers={"Accept": "application/json, text/html;q=0.9"})
        except httpx.HTTPError:
            return Client(client)
    if reply.status_code != 200:
        return Client(client)
    if reply.headers.get("content-type", "").partition(";")[0].strip() == "application/json":
        return _from_document(client, reply.json())
    links = _Links(client)
    links.feed(reply.text)
    linked = [urljoin(client, link["url"]) for link in reply.links.values() if link.get("rel") == "redirect_uri"]
    return Client(client, links.title, (*linked, *links.found))


def _from_document(client: str, document: dict[str, Any]) -> Client:
    # The document must be the client's own, and its page must lie above it.
    if document.get("client_id") != client or not client.startswith(document.get("client_uri", "\n")):
        return Client(client)
    return Client(client, str(document.get("client_name", "")), tuple(document.get("redirect_uris", ())))


class _Links(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self._in_title = False
        self.title = ""
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self._in_title = tag == "title"
        if tag in {"link", "a"} and "redirect_uri" in (values.get("rel") or "").split():
            self.found.append(urljoin(self._base, values.get("href") or ""))

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data.strip()

    def handle_endtag(self, _tag: str) -> None:
        self._in_title = False
