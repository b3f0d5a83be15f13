"""What every page needs, made once for the application."""

from __future__ import annotations

from dataclasses import dataclass

from microsub.identity.bundle import Identity
from microsub.identity.web.pages import Pages
from microsub.kit.http.address import Address
from microsub.surface import Services


@dataclass(frozen=True, slots=True)
class Site:
    """Services, templates, and the address under which people see them."""

    services: Services
    address: Address
    pages: Pages

    @property
    def identity(self) -> Identity:
        """The use cases of identity."""
        return self.services.identity


def make_site(services: Services, base_url: str | None) -> Site:
    """The site for an application that the outside sees at `base_url`."""
    address = Address(base_url)
    return Site(services, address, Pages(address.prefix))
