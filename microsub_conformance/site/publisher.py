"""The suite's own web site: it serves the blogs that the server under test follows, and logs requests.

Documents can be changed at any time. Each has an ETag, and a request with that ETag gets 304, so that conditional polls
can be checked.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class PublishedDocument:
    """A page as it is served; `status` other than 200 makes it an error page."""

    content_type: str
    body: bytes
    status: int = 200

    @property
    def etag(self) -> str:
        """A strong validator of the body."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:20]}"'


@dataclass(frozen=True, slots=True)
class Visit:
    """A request that reached the publisher. Header names are lower case; `at` is monotonic time in seconds."""

    method: str
    path: str
    headers: Mapping[str, str]
    status: int
    at: float


class FeedServer:
    """An HTTP server in its own thread. `listen` is its address and port (0: any free one); `host` and `port` are those
    at which the server under test reaches it, if different.
    """

    def __init__(
        self, listen: tuple[str, int] = ("127.0.0.1", 0), host: str | None = None, port: int | None = None
    ) -> None:
        self._documents: dict[str, PublishedDocument] = {}
        self._visits: list[Visit] = []
        self._changed = threading.Condition()
        self._server = _Server(listen, _handler(self))
        reached = port or self._server.server_address[1]
        self.base = f"http://{host or listen[0]}" + ("" if reached == 80 else f":{reached}")
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> FeedServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def put(self, path: str, document: PublishedDocument) -> str:
        """Serve `document` at `path` from now on; returns its URL."""
        with self._changed:
            self._documents[path] = document
        return self.base + path

    def visits(self, path: str) -> list[Visit]:
        """The requests for `path` so far, oldest first."""
        with self._changed:
            return [visit for visit in self._visits if visit.path == path]

    def wait_for_visit(self, path: str, after: int, seconds: float) -> bool:
        """Wait until `path` has had more than `after` requests; False after `seconds`."""
        deadline = time.monotonic() + seconds
        with self._changed:
            return self._changed.wait_for(
                lambda: sum(visit.path == path for visit in self._visits) > after, deadline - time.monotonic()
            )

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> PublishedDocument:
        """The reply to a request, which is also logged."""
        with self._changed:
            document = self._documents.get(path) or PublishedDocument("text/plain", b"nothing here", 404)
            if document.status == 200 and headers.get("if-none-match") == document.etag:
                document = PublishedDocument(document.content_type, document.body, 304)
            self._visits.append(Visit(method, path, headers, document.status, time.monotonic()))
            self._changed.notify_all()
        return document


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


def _handler(publisher: FeedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "microsub-conformance"
        timeout = 30

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            document = publisher.answer(self.command, urlsplit(self.path).path, headers)
            body = b"" if document.status == 304 else document.body
            self.send_response(document.status)
            if document.status != 304:
                self.send_header("Content-Type", document.content_type)
                self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", document.etag)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            """The publisher keeps its own log."""

    return Handler
