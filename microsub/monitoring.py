"""Who is shown what only the admin and their programs need: metrics, and the details of `/health`."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from microsub.kit.http.address import is_loopback
from microsub.settings import METRICS_NETWORKS, Network

_FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host", "x-forwarded-proto", "via")


@dataclass(frozen=True, slots=True)
class Monitors:
    """Clients in `networks`, and who shows `token` as a bearer token. What `proxies` say of a client is believed."""

    networks: Sequence[Network] = METRICS_NETWORKS
    token: str | None = None
    proxies: Sequence[Network] = ()

    def admits(self, request: Request) -> bool:
        """Whether the request comes from one of them.

        What came through a web server that isn't one of `proxies` may come from anywhere, whatever that server's own
        address is. From this machine comes what came through none, and names it.
        """
        if self.token is not None and self._shows_token(request):
            return True
        address = _parsed(request.client.host if request.client else "")
        if address is None or not _within(address, self.networks):
            return False
        forwarded = any(name in request.headers for name in _FORWARDED)
        if address.is_loopback:
            return not forwarded and is_loopback(request.headers.get("host", ""))
        return not forwarded or self._is_told_by_proxy(request, address)

    def _shows_token(self, request: Request) -> bool:
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), (self.token or "").encode())

    def _is_told_by_proxy(self, request: Request, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        """Whether the client's address is what the proxies say: the last one of the list that is none of theirs."""
        if not self.proxies:
            return False
        told = [part.strip() for value in request.headers.getlist("x-forwarded-for") for part in value.split(",")]
        outside = [one for one in map(_parsed, told) if one is None or not _within(one, self.proxies)]
        if outside:
            return outside[-1] == address
        return bool(told) and _parsed(told[0]) == address


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
