"""The suite's own Microsub client: all parameter forms that a server must read, with replies for the report."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlencode

import httpx

from microsub_conformance.exchange import Exchange, mask, shown_body, shown_reply_headers, shown_request_headers
from microsub_conformance.stream import HeardEvents
from microsub_conformance.verdict import Violation, expect

Pairs = Sequence[tuple[str, str]]
Value = str | int | Sequence[str]
FORM = "application/x-www-form-urlencoded"


class MicrosubReply:
    """An HTTP reply, with the assertions that most checks need."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.body = response.content

    @property
    def text(self) -> str:
        """The body, shortened and masked, for a failure's message."""
        return f"{self.status} {shown_body(self.body)[:800]}"

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object. Raises Violation if it isn't one."""
        try:
            value = json.loads(self.body)
        except ValueError:
            raise Violation("a JSON object as the body", self.text) from None
        if not isinstance(value, dict):
            raise Violation("a JSON object as the body", self.text)
        return value

    def ok(self) -> dict[str, Any]:
        """The object of a success with exactly status 200. Raises Violation otherwise."""
        expect(self.status == 200, "status 200", self.text)
        return self.json_object()

    def done(self) -> dict[str, Any]:
        """The object of any success: if only the effect matters, 201 is as good as 200."""
        expect(self.status in {200, 201, 202}, "a success", self.text)
        return self.json_object()

    def refused(self, status: int, *codes: str) -> dict[str, Any]:
        """The object of an error with this status and one of these codes (any if none is given)."""
        expect(self.status == status, f"status {status}", self.text)
        value = self.json_object()
        if codes:
            expect(value.get("error") in codes, f"error {' or '.join(codes)}", self.text)
        return value

    def listed(self, name: str) -> list[dict[str, Any]]:
        """The list of objects `name` in a success. Raises Violation if it is missing or something else."""
        value = self.ok().get(name)
        if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
            raise Violation(f"a list of objects as '{name}'", self.text)
        return value


class Client:
    """Sends requests of one user to one endpoint. Thread-safe."""

    def __init__(self, endpoint: str, token: str, trail: Trail, *, timeout: float = 30) -> None:
        self.endpoint = endpoint
        self.token = token
        self._trail = trail
        # A server may close an idle connection just as the next request is sent; most wait five seconds or more.
        limits = httpx.Limits(keepalive_expiry=1.0)
        self._http = httpx.Client(timeout=timeout, follow_redirects=False, trust_env=False, limits=limits)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, action: str, **parameters: Value) -> MicrosubReply:
        """GET with everything in the query."""
        return self.send("GET", query=pairs(action, parameters))

    def post(self, action: str, **parameters: Value) -> MicrosubReply:
        """POST as in the spec: a urlencoded form, with lists as `name[]`."""
        return self.form(pairs(action, parameters))

    def form(self, fields: Pairs, query: Pairs = ()) -> MicrosubReply:
        """POST exactly these form fields."""
        return self.send("POST", query=query, body=urlencode(fields).encode(), headers={"Content-Type": FORM})

    def json(self, value: object, query: Pairs = ()) -> MicrosubReply:
        """POST `value` as JSON."""
        return self.send(
            "POST", query=query, body=json.dumps(value).encode(), headers={"Content-Type": "application/json"}
        )

    def send(
        self,
        method: str,
        *,
        query: Pairs = (),
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        token: bool = True,
        endpoint: str | None = None,
    ) -> MicrosubReply:
        """Send exactly this, with the token in a header unless `token` is False. All requests use this method."""
        url = _with_query(endpoint or self.endpoint, query)
        sent = httpx.Headers({"Accept": "application/json"})
        if token:
            sent["Authorization"] = f"Bearer {self.token}"
        sent.update(headers or {})
        started = time.monotonic()
        try:
            response = self._http.request(method, url, content=body, headers=sent)
        except httpx.HTTPError as problem:
            self._note(method, url, sent, body, 0, {}, repr(problem).encode(), started)
            raise
        self._note(method, url, sent, body, response.status_code, response.headers, response.content, started)
        return MicrosubReply(response)

    def opening(self, query: Pairs, headers: Mapping[str, str]) -> tuple[int, str, bytes]:
        """Status, content type and first bytes of a reply that may never end, such as a stream."""
        url = _with_query(self.endpoint, query)
        sent = httpx.Headers({"Authorization": f"Bearer {self.token}", **headers})
        started = time.monotonic()
        with self._http.stream("GET", url, headers=sent) as response:
            kind = response.headers.get("content-type", "")
            first = response.read() if kind.startswith("application/json") else next(response.iter_bytes(), b"")
            self._note("GET", url, sent, None, response.status_code, response.headers, first, started)
            return response.status_code, kind, first

    @contextmanager
    def listening(self, query: Pairs, headers: Mapping[str, str]) -> Iterator[tuple[int, str, HeardEvents]]:
        """A reply that is read as a stream of events within the block: status, content type, and events."""
        url = _with_query(self.endpoint, query)
        sent = httpx.Headers({"Authorization": f"Bearer {self.token}", **headers})
        started = time.monotonic()
        with self._http.stream("GET", url, headers=sent) as response:
            self._note("GET", url, sent, None, response.status_code, response.headers, b"", started)
            connection: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
            try:
                kind = response.headers.get("content-type", "")
                yield response.status_code, kind, HeardEvents(response.headers, response.iter_lines())
            finally:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)  # otherwise the reading thread keeps it open

    def _note(
        self,
        method: str,
        url: str,
        sent: Mapping[str, str],
        body: bytes | None,
        status: int,
        headers: Mapping[str, str],
        reply: bytes,
        started: float,
    ) -> None:
        self._trail.add(
            Exchange(
                method=method,
                url=mask(url, self.token),
                request_headers=shown_request_headers(sent, self.token),
                request_body=shown_body(body or b"", self.token),
                status=status,
                reply_headers=shown_reply_headers(headers),
                reply_body=shown_body(reply, self.token),
                seconds=time.monotonic() - started,
            )
        )


def _with_query(url: str, query: Pairs) -> str:
    if not query:
        return url
    return url + ("&" if "?" in url else "?") + urlencode(query)


class Trail:
    """The exchanges of the requirement being checked. Of repeated requests, only the last is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[Exchange] = []

    def add(self, exchange: Exchange) -> None:
        """Keep `exchange`; it replaces an equal request just before it."""
        with self._lock:
            if self._kept and self._kept[-1].same_request(exchange) and exchange.method == "GET":
                self._kept.pop()
            self._kept.append(exchange)

    def take(self) -> tuple[Exchange, ...]:
        """The exchanges since the last call."""
        with self._lock:
            kept, self._kept = self._kept, []
        return tuple(kept)


def pairs(action: str, parameters: Mapping[str, Value]) -> list[tuple[str, str]]:
    """Parameters as in the spec: `action` first, lists as repeated `name[]`."""
    made = [("action", action)]
    for name, value in parameters.items():
        if isinstance(value, (str, int)):
            made.append((name, str(value)))
        else:
            made.extend((f"{name}[]", element) for element in value)
    return made
