"""Where a person's page says that their servers are (https://indieauth.spec.indieweb.org/#discovery-by-clients)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from microsub.errors import InvalidRequest
from microsub.identity.protocol.identifiers import endpoint
from microsub.identity.protocol.me import canonical_me
from microsub.identity.protocol.rels import Link, links_of
from microsub.kit.urls import safe_url

_NAMES = {
    "indieauth-metadata": "metadata",
    "authorization_endpoint": "authorization",
    "token_endpoint": "token",
    "microsub": "microsub",
    "micropub": "micropub",
}
_MOST_ME = 20
_LONGEST_ME = 300


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What a page names, absolute; None where it names none. `metadata` is the `indieauth-metadata` document."""

    metadata: str | None = None
    authorization: str | None = None
    token: str | None = None
    microsub: str | None = None
    micropub: str | None = None

    @property
    def names_server(self) -> bool:
        """Whether there is a server to ask about this person, of the newer or the older kind."""
        return any((self.metadata, self.authorization, self.token))


@dataclass(frozen=True, slots=True)
class ProfileLinks:
    """What a person's page says: which servers it names, and which profiles it calls the same person's."""

    endpoints: Endpoints
    me: tuple[str, ...] = ()


def profile_links(
    body: bytes, url: str, content_type: str | None, link_header: str | None, private: bool = False
) -> ProfileLinks:
    """Both, of the page found at `url`; `link_header` is the joined value of its `Link` header. Never raises.

    Of each server the first that is usable: HTTP `Link`, then `<link>` in the head. The profiles (`rel=me`) are
    canonical, each once, in the page's order, from HTTP `Link` and `<link>` in the head as well: whoever writes there
    could name a server of their own.
    """
    links = list(links_of(body, url, content_type, link_header))
    return ProfileLinks(_endpoints(links), _me(links, private))


def _endpoints(links: Iterable[Link]) -> Endpoints:
    found: dict[str, str] = {}
    for rel, target, base in links:
        name = _NAMES.get(rel)
        if name is not None and name not in found and (address := endpoint(target, base)) is not None:
            found[name] = address
    return Endpoints(**found)


def _me(links: Iterable[Link], private: bool) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for rel, target, base in links:
        if rel != "me" or len(found) >= _MOST_ME or len(target) > _LONGEST_ME:
            continue
        try:
            found.setdefault(canonical_me(safe_url(target, base) or "", private=private))
        except InvalidRequest:
            continue
    return tuple(found)
