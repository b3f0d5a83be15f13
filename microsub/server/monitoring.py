"""Health and metrics of a process, and who may read them."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import orjson
from starlette.requests import Request
from starlette.responses import Response

from microsub.admin import HealthReport
from microsub.base.digests import is_same
from microsub.base.rate_limits import client_address
from microsub.base.settings import METRICS_NETWORKS, Network
from microsub.web.headers import is_of_this_machine, is_passed_on
from microsub.web.responses import CORS

MonitorPage = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Monitors:
    """Clients that may read metrics: in `networks`, as named by `proxies`, or with the bearer token `token`."""

    networks: Sequence[Network] = METRICS_NETWORKS
    token: str | None = None
    proxies: Sequence[Network] = ()

    def admits(self, request: Request) -> bool:
        """Whether the request comes from such a client.

        A request through a web server that isn't in `proxies` may come from anywhere, so it doesn't count. A request
        from this machine comes without a proxy and names this machine as its host.
        """
        if self.token is not None and self._shows_token(request):
            return True
        address = client_address(request.client.host if request.client else "")
        if address is None or not _within(address, self.networks):
            return False
        if address.is_loopback:
            return is_of_this_machine(request)
        return not is_passed_on(request) or self._is_told_by_proxy(request, address)

    def _shows_token(self, request: Request) -> bool:
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and is_same(shown.strip(), self.token or "")

    def _is_told_by_proxy(self, request: Request, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        """Whether the proxies name that client: the last address in the list that isn't a proxy's."""
        if not self.proxies:
            return False
        told = [part.strip() for value in request.headers.getlist("x-forwarded-for") for part in value.split(",")]
        outside = [one for one in map(client_address, told) if one is None or not _within(one, self.proxies)]
        if outside:
            return outside[-1] == address
        return bool(told) and client_address(told[0]) == address


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


def health(check: Callable[[], Awaitable[HealthReport]], monitors: Monitors) -> MonitorPage:
    """The handler of `/health`: the status for everybody, details for monitors."""

    async def answer(request: Request) -> Response:
        report = await check()
        content: dict[str, str | float | list[str]] = {"status": report.status}
        if monitors.admits(request):
            content |= {"redis": report.redis, "worker": report.worker, "backend": report.backend}
            if report.worker_age is not None:
                content["worker_last_seen_seconds"] = report.worker_age
            if report.engine is not None:
                content["engine"] = str(report.engine)
            if report.reason is not None:
                content["reason"] = report.reason
            if report.dead_letters:
                content["dead_letters"] = report.dead_letters
            if report.push is not None:
                content["push"] = report.push
            if report.doubts:
                content["doubts"] = [*report.doubts]
        return json_response(content, 200 if report.status == "ok" else 503)

    return answer


def metrics(expose: Callable[[], Awaitable[tuple[bytes, str]]], monitors: Monitors) -> MonitorPage:
    """The handler of `/metrics`: the text of `expose`, and its content type, for monitors alone."""

    async def exposition(request: Request) -> Response:
        if not monitors.admits(request):
            where = "no access to metrics: it needs MICROSUB_METRICS_NETWORKS or MICROSUB_METRICS_TOKEN"
            return json_response({"error": "forbidden", "error_description": where}, 403)
        body, content_type = await expose()
        return Response(body, headers={"content-type": content_type, "cache-control": "no-store"})

    return exposition


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A reply of JSON that isn't to be stored."""
    response = Response(orjson.dumps(content), status, headers={"cache-control": "no-store", **(headers or {})})
    response.raw_headers += [(b"content-type", b"application/json"), *CORS]
    return response
