"""The lines that belong on a user's page, so that apps find this server, and where the page is of who has no other
(https://indieauth.spec.indieweb.org/#discovery-by-clients). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Line:
    """One `<link>`."""

    rel: str
    href: str

    @property
    def html(self) -> str:
        """As it stands in a page."""
        return f'<link rel="{self.rel}" href="{escape(self.href)}">'


PROFILES = "/u"


def profile_page(base: str, user: str) -> str:
    """The address that the server at `base` lends to `user`, whose `me` it is where they have none of their own."""
    return f"{base}{PROFILES}/{user}"


def microsub_line(base: str, user: str) -> Line:
    """Where `user` reads. With the name in it, tokens of the user's own provider can be checked."""
    return Line("microsub", f"{base}/microsub/{user}")


def provider_lines(base: str) -> tuple[Line, ...]:
    """The lines of who has the server at `base` as identity provider: what the standard wants, then what apps read."""
    return (
        Line("indieauth-metadata", f"{base}/.well-known/oauth-authorization-server"),
        Line("authorization_endpoint", f"{base}/auth"),
        Line("token_endpoint", f"{base}/token"),
    )
