"""A proxy that ends https in front of a server, in the client's own process: `https://…` leads to a plain address."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx


class Proxied(httpx.AsyncBaseTransport):
    """Requests below `public` go to `inside`, with the path behind `public`'s own and the Host that was asked for.

    Everything else goes where it says.
    """

    def __init__(self, public: str, inside: str) -> None:
        self._public, self._inside = urlsplit(public), urlsplit(inside)
        self._plain = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host != self._public.hostname:
            return await self._plain.handle_async_request(request)
        prefix = self._public.path.rstrip("/").encode()
        path = request.url.raw_path
        if not path.startswith(prefix + b"/"):
            return httpx.Response(404, request=request)
        url = request.url.copy_with(
            scheme="http", host=self._inside.hostname, port=self._inside.port, raw_path=path[len(prefix) :]
        )
        return await self._plain.handle_async_request(
            httpx.Request(
                request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
            )
        )

    async def aclose(self) -> None:
        await self._plain.aclose()


def behind(public: str, inside: str) -> httpx.AsyncClient:
    """A client for which the server at `inside` is at `public`."""
    return httpx.AsyncClient(transport=Proxied(public, inside), timeout=60)
