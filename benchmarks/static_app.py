"""Static bytes for comparison: the same number of bytes from memory through the same Starlette and uvicorn.

It runs in its own process: `python -m benchmarks.static_app PORT SIZE…` answers `/SIZE` with that many bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

HEADERS = {"Cache-Control": "no-store", "Access-Control-Allow-Origin": "*"}
"""The headers that the product also sends with every reply."""


def _endpoint(size: int) -> Callable[[Request], Awaitable[Response]]:
    body = b"x" * size

    async def answer(_: Request) -> Response:
        return Response(body, media_type="application/json", headers=HEADERS)

    return answer


def static_app(sizes: list[int]) -> Starlette:
    """An application with one route per size, for GET and POST alike."""
    return Starlette(routes=[Route(f"/{size}", _endpoint(size), methods=["GET", "POST"]) for size in sizes])


if __name__ == "__main__":
    uvicorn.run(
        static_app([int(size) for size in sys.argv[2:]]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
        server_header=False,
    )
