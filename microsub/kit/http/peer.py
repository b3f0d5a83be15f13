"""Whose address a request comes from."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

import structlog
from starlette.requests import Request

log = structlog.get_logger(__name__)


def peer(request: Request) -> str:
    """The client's address, by what the proxies say that `MICROSUB_TRUSTED_PROXIES` lists, else that of whoever
    connects; empty where there is none.
    """
    address = request.client.host if request.client else ""
    told = [part.strip() for value in request.headers.getlist("x-forwarded-for") for part in value.split(",")]
    if told and address not in told and _is_private(address):
        _warn(address)
    return address


@lru_cache(maxsize=16)
def _warn(address: str) -> None:
    """Once for each: to such a server all people would be one, and stopped together."""
    log.warning(
        "a proxy isn't trusted, so that all who come through it count as one client; list it in "
        "MICROSUB_TRUSTED_PROXIES if it is yours",
        proxy=address,
    )


def _is_private(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_private
    except ValueError:
        return False
